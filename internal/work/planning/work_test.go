package planning_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/internal/graphtest"
	"qwb/internal/work/planning"
	"qwb/quantizer/rewrite"
	"qwb/quantizer/tqc"
)

// The copy of a normalization that is float moves nothing to float; a product that becomes float does.
func TestCopiesOfFloatAreNotMoved(t *testing.T) {
	g := graphtest.Parse(t, `opset 17
	input x: f32[2,4]
	output y
	const s: f32[4] = [1, 2, 3, 4]; const w: f32[4,4] = normal(seed=3)
	n = LayerNormalization(x, s) "norm"
	m = MatMul(n, w) "product"
	y = Add(m, n) "sum"`)
	require.Empty(t, graph.InferShapes(g))
	after, err := rewrite.Apply(g, []rewrite.Step{{Kind: "copy", At: "norm", Nodes: []string{"product"}}})
	require.NoError(t, err)
	domains := func(g *graph.Graph, integer ...string) []tqc.Domain {
		list := make([]tqc.Domain, g.NumNodes())
		for _, id := range g.Nodes() {
			list[id] = tqc.DomainFP32
		}
		for _, name := range integer {
			id, _ := g.LookupNode(name)
			list[id] = tqc.DomainInt
		}
		return list
	}
	moved := func(before, now []tqc.Domain) []string { return planning.CompareIntegers(g, before, after, now).Moved }
	require.Empty(t, moved(domains(g, "product"), domains(after, "product")))
	require.Equal(t, []string{"product"}, moved(domains(g, "product"), domains(after)))
	require.Equal(t, []string{"norm/copy"}, moved(domains(g, "product", "norm"), domains(after, "product", "norm")))
}
