package passes_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/passes"
	"qwb/graph/tensor"
	"qwb/internal/graphtest"
)

const narrowed = `
graph main
opset 17
input x: f32[1,2,2,2]
const w: f32[2,2,1,1] = [0.1, -1, 0.75, -0.25]
const s: f32[4] = [1, 1, 2, 2]
const b: f32[2,1,1] = [0.3, 65504]
c: f32[1,2,2,2] = Conv(x, w) "conv"
e: f32[1,2,2,2] = Sigmoid(c) "gate"
r: f32[1,2,4,4] = Resize(e, _, s) {mode="nearest"} "up"
q: f32[1,2,4,4] = Add(r, b) "add"
y: f32[1,2,4,4] = Exp(q) "exp"
output y
output e
`

func narrow(t *testing.T, form passes.Narrowing, to map[string]tensor.DType) (*graph.Graph, error) {
	g := graphtest.Parse(t, narrowed)
	require.Empty(t, graph.InferShapes(g))
	err := passes.Narrow(g, form, func(id graph.NodeID) tensor.DType { return to[g.Node(id).Name] })
	if err == nil {
		require.NoError(t, g.Check())
		require.Empty(t, graph.InferShapes(g), "types fit together")
	}
	return g, err
}

// Between narrow operators tensors are narrow, and at borders there is one Cast; scales of Resize stay float32; names stay.
func TestNarrow(t *testing.T) {
	f16 := map[string]tensor.DType{"gate": tensor.Float16, "up": tensor.Float16, "add": tensor.Float16}
	for _, c := range []struct {
		form passes.Narrowing
		to   map[string]tensor.DType
		want string
	}{
		{passes.Typed, f16, `
c_f16: f16[1,2,2,2] = Cast(c) {to=10} "c_f16_Cast_node"
e_f16: f16[1,2,2,2] = Sigmoid(c_f16) "gate"
e: f32[1,2,2,2] = Cast(e_f16) {to=1} "e_Cast_node"
r: f16[1,2,4,4] = Resize(e_f16, _, s) {mode="nearest"} "up"
q_f16: f16[1,2,4,4] = Add(r, b) "add"
q: f32[1,2,4,4] = Cast(q_f16) {to=1} "q_Cast_node"
y: f32[1,2,4,4] = Exp(q) "exp"`},
		{passes.Typed, map[string]tensor.DType{"conv": tensor.BFloat16, "gate": tensor.BFloat16}, `
x_bf16: bf16[1,2,2,2] = Cast(x) {to=16} "x_bf16_Cast_node"
x_rounded: f32[1,2,2,2] = Cast(x_bf16) {to=1} "x_rounded_Cast_node"
c_f32: f32[1,2,2,2] = Conv(x_rounded, w) "conv"
c_bf16: bf16[1,2,2,2] = Cast(c_f32) {to=16} "c_bf16_Cast_node"
e_bf16: bf16[1,2,2,2] = Sigmoid(c_bf16) "gate"
e: f32[1,2,2,2] = Cast(e_bf16) {to=1} "e_Cast_node"
r: f32[1,2,4,4] = Resize(e, _, s) {mode="nearest"} "up"`},
		{passes.Rounded, f16, `
c_f16: f16[1,2,2,2] = Cast(c) {to=10} "c_f16_Cast_node"
c_rounded: f32[1,2,2,2] = Cast(c_f16) {to=1} "c_rounded_Cast_node"
e_f32: f32[1,2,2,2] = Sigmoid(c_rounded) "gate"
e_f16: f16[1,2,2,2] = Cast(e_f32) {to=10} "e_f16_Cast_node"
e: f32[1,2,2,2] = Cast(e_f16) {to=1} "e_Cast_node"
r_f32: f32[1,2,4,4] = Resize(e, _, s) {mode="nearest"} "up"`},
	} {
		g, err := narrow(t, c.form, c.to)
		require.NoError(t, err)
		for _, line := range strings.Split(strings.TrimSpace(c.want), "\n") {
			require.Contains(t, graph.Format(g), "\n"+line+"\n")
		}
	}
}

// Rounded operators compute what rounding by hand gives, and constants are those of the type.
func TestNarrowRounds(t *testing.T) {
	g, err := narrow(t, passes.Rounded, map[string]tensor.DType{"conv": tensor.Float16, "add": tensor.BFloat16})
	require.NoError(t, err)
	w, _ := g.Lookup("w")
	require.Equal(t, []float32{0.099975586, -1, 0.75, -0.25}, g.Const(w).F32())
	b, _ := g.Lookup("b")
	require.Equal(t, []float32{0.30078125, 65536}, g.Const(b).F32(), "bf16 holds as much as float32")
	session, err := exec.New(g, exec.Options{})
	require.NoError(t, err)
	x := tensor.FromF32([]float32{1, 2, 3, 4, 0.1, 0.2, 0.3, 0.4}, 1, 2, 2, 2)
	_, err = session.NewRunner().Run(context.Background(), map[string]*tensor.Tensor{"x": x}, nil)
	require.NoError(t, err)
}

// A constant that does not fit is an error that names it.
func TestNarrowRefusesOverflow(t *testing.T) {
	g := graphtest.Parse(t, "input x: f32[2]\nconst big: f32[2] = [1, 65520]\ny: f32[2] = Mul(x, big) \"mul\"\noutput y")
	err := passes.Narrow(g, passes.Typed, func(graph.NodeID) tensor.DType { return tensor.Float16 })
	require.ErrorContains(t, err, `node "mul" (Mul, f16[2], f32[2]): constant "big": element 1 is 65520, which f16 does not hold`)
}

// Operators without a narrow form have none, whatever the opset.
func TestNarrowSince(t *testing.T) {
	for text, want := range map[string][2]int64{"Conv(x, x)": {13, 22}, "Range(x, x, x)": {27, 27}, "Cast(x) {to=1}": {}, "Relu(x)": {13, 13},
		"Shrink(x)": {13, 0}} {
		g := graphtest.Parse(t, "input x: f32[1]\ny = "+text+" \"n\"\noutput y")
		id, _ := g.LookupNode("n")
		got := [2]int64{passes.NarrowSince(g.Node(id), tensor.Float16), passes.NarrowSince(g.Node(id), tensor.BFloat16)}
		require.Equal(t, want, got, text)
	}
}
