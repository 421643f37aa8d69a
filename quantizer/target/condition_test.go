package target

import (
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/internal/graphtest"
)

// OpenVINO's conditions about small products, each with what is next to it.
func TestConditionsOfOpenVINO(t *testing.T) {
	for text, want := range map[string]bool{
		"input x: f32[4,1]\nconst w: f32[1,8] = normal(1)\ny = MatMul(x, w) \"n\"\noutput y":                                        false,
		"input x: f32[1,4,5,1]\nconst w: f32[8,4,2,2] = normal(1)\ny = Conv(x, w) {dilations=[1,2],pads=[0,1,1,1]} \"n\"\noutput y": false,
		"input x: f32[1,4,5,1]\nconst w: f32[8,4,2,3] = normal(1)\ny = Conv(x, w) {dilations=[1,2],pads=[0,2,1,2]} \"n\"\noutput y": true,
		"input x: f32[1,4,5,N]\nconst w: f32[8,4,2,2] = normal(1)\ny = Conv(x, w) {dilations=[1,2],pads=[0,1,1,1]} \"n\"\noutput y": true,
		"input x: f32[4,2]\nconst w: f32[2,8] = normal(1)\ny = MatMul(x, w) \"n\"\noutput y":                                        true,
		"input x: f32[1,4]\nconst w: f32[1,8] = normal(1)\ny = Gemm(x, w) {transA=1} \"n\"\noutput y":                               false,
		"input x: f32[1,1,6,5]\nconst w: f32[3,1,3,3] = normal(1)\ny = Conv(x, w) {dilations=[1,2]} \"n\"\noutput y":                false,
		"input x: f32[1,1,6,6]\nconst w: f32[3,1,3,3] = normal(1)\ny = Conv(x, w) {dilations=[1,2]} \"n\"\noutput y":                true,
		"input x: f32[1,1,6,5]\nconst w: f32[3,1,3,3] = normal(1)\ny = Conv(x, w) {dilations=[2,2]} \"n\"\noutput y":                true,
		"input x: f32[1,2,6,4]\nconst w: f32[6,1,3,3] = normal(1)\ny = Conv(x, w) {group=2, strides=[1,2]} \"n\"\noutput y":         false,
		"input x: f32[N,3,1]\nconst w: f32[6,1,3] = normal(1)\ny = Conv(x, w) {group=3, pads=[0,2]} \"n\"\noutput y":                false,
		"input x: f32[N,2,16]\nconst w: f32[4,1,2] = normal(1)\ny = Conv(x, w) {group=2} \"n\"\noutput y":                           false,
		"input x: f32[1,1,6,6]\nconst w: f32[16,1,3,3] = normal(1)\ny = Conv(x, w) {strides=[1,2]} \"n\"\noutput y":                 true,
		"input x: f32[N,1,6,3]\nconst w: f32[16,1,3,3] = normal(1)\ny = Conv(x, w) {strides=[1,2]} \"n\"\noutput y":                 false,
		"input x: f32[N,3,60]\nconst w: f32[6,1,2] = normal(1)\ny = Conv(x, w) {group=3} \"n\"\noutput y":                           true,
		"input x: f32[1,4,5,8]\nconst w: f32[4,3,3,1] = normal(1)\ny = ConvTranspose(x, w) {strides=[1,2]} \"n\"\noutput y":         false,
		"input x: f32[1,4,5,8]\nconst w: f32[4,3,3,2] = normal(1)\ny = ConvTranspose(x, w) {strides=[1,2]} \"n\"\noutput y":         true,
		"input x: f32[1,4,8]\nconst w: f32[4,3,2] = normal(1)\ny = ConvTranspose(x, w) {strides=[2],dilations=[2]} \"n\"\noutput y": false,
		"input x: f32[1,4,8]\nconst w: f32[4,3,2] = normal(1)\ny = ConvTranspose(x, w) {dilations=[2]} \"n\"\noutput y":             true,
		"input x: f32[1,9,6,6]\nconst w: f32[9,9,3,3] = normal(1)\nconst s: f32[4] = [1, 1, 0.5, 0.5]\nt = Conv(x, w) \"n\"\nu = Tanh(t)\n" +
			"y = Resize(u, _, s) {mode=\"cubic\"}\noutput y": false,
		"input x: f32[1,9,6,6]\nconst w: f32[9,9,3,3] = normal(1)\nconst s: f32[4] = [1, 1, 2, 2]\nt = Conv(x, w) \"n\"\nu = Tanh(t)\n" +
			"y = Resize(u, _, s) {mode=\"cubic\"}\noutput y": true,
		"input x: f32[1,4,8]\nconst w: f32[4,3,3] = normal(1)\ny = ConvTranspose(x, w) {strides=[2],dilations=[3]} \"n\"\noutput y":  false,
		"input x: f32[1,8,9,4]\nconst w: f32[8,8,3,3] = normal(1)\ny = Conv(x, w) {strides=[2,2]} \"n\"\noutput y":                   false,
		"input x: f32[1,8,3,4]\nconst w: f32[8,8,3,3] = normal(1)\ny = Conv(x, w) {strides=[2,2]} \"n\"\noutput y":                   true,
		"input x: f32[1,8,2,9,4]\nconst w: f32[8,8,2,3,3] = normal(1)\ny = Conv(x, w) {strides=[1,1,2]} \"n\"\noutput y":             false,
		"input x: f32[1,2,9,4]\nconst w: f32[2,1,3,3] = normal(1)\ny = Conv(x, w) {group=2,strides=[2,2]} \"n\"\noutput y":           true,
		"input x: f32[1,31,1,6,14]\nconst w: f32[48,31,2,5,5] = normal(1)\ny = Conv(x, w) {pads=[1,1,1,2,0,0]} \"n\"\noutput y":      false,
		"input x: f32[1,1,1,5,5]\nconst w: f32[1,1,4,3,3] = normal(1)\ny = Conv(x, w) {pads=[1,1,1,2,1,1]} \"n\"\noutput y":          false,
		"input x: f32[1,2,1,9,9]\nconst w: f32[2,1,4,3,3] = normal(1)\ny = Conv(x, w) {group=2, pads=[1,1,1,2,1,1]} \"n\"\noutput y": true,
		"input x: f32[N,3,4]\nconst w: f32[3,1,2] = normal(1)\ny = Conv(x, w) {group=3} \"n\"\noutput y":                             true,
	} {
		g := graphtest.Parse(t, text)
		graph.InferShapes(g)
		id, _ := g.LookupNode("n")
		n := g.Node(id)
		holds := SeveralTerms.Holds
		switch n.Op {
		case "ConvTranspose":
			holds = func(g *graph.Graph, n *graph.Node) bool { return WithoutGaps.Holds(g, n) && DenseSteps.Holds(g, n) }
		case "Conv":
			holds = func(g *graph.Graph, n *graph.Node) bool {
				return NotOneColumn.Holds(g, n) && NotTiny.Holds(g, n) && ReadsColumns.Holds(g, n) && SeveralSlices.Holds(g, n) && NotShrunk.Holds(g, n)
			}
		}
		require.Equal(t, want, holds(g, n), text)
	}
}
