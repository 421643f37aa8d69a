package passes_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/passes"
	"qwb/graph/tensor"
	"qwb/internal/graphtest"
)

// Every equation gives the same numbers before and after, whichever operand is constant.
func TestEinsumToMatMul(t *testing.T) {
	for _, c := range []struct {
		equation, a, b string // shapes
		constant       string // a or b
		declined       bool
	}{
		{"bsd,de->bse", "2,3,4", "4,5", "b", false},
		{"bsd,ed->bse", "2,3,4", "5,4", "b", false},
		{"de,bsd->bse", "4,5", "2,3,4", "a", false},
		{"bsd,dhe->bshe", "2,3,4", "4,2,5", "b", false},
		{"bshd,hde->bse", "2,3,2,4", "2,4,5", "b", false},
		{"bqhd,bkhd->bhqk", "2,3,2,4", "2,6,2,4", "", false},
		{"bhqk,bkhd->bqhd", "2,2,3,6", "2,6,2,4", "", false},
		{"bqhd,hkd->bhqk", "2,3,2,4", "2,5,4", "b", false},
		{"...d,de->...e", "2,3,4", "4,5", "b", false},
		{"ij,j", "3,4", "4", "b", false},
		{"i,ij", "3", "3,4", "", false},
		{"ij,kj->ki", "3,4", "5,4", "", false},
		{"bi,bi->b", "3,4", "3,4", "", false},
		{"ii,ij->j", "4,4", "4,5", "", true},
		{"ij,jk->k", "3,4", "4,5", "", true},
		{"i,j->ij", "3", "4", "", true},
	} {
		t.Run(c.equation, func(t *testing.T) {
			line := func(name, shape string) string {
				if c.constant == name {
					return fmt.Sprintf("const %s: f32[%s] = normal(seed=3)\n", name, shape)
				}
				return fmt.Sprintf("input %s: f32[%s]\n", name, shape)
			}
			g := graphtest.Parse(t, "opset 13\n"+line("a", c.a)+line("b", c.b)+
				fmt.Sprintf("y = Einsum(a, b) {equation=%q} \"e\"\noutput y", c.equation))
			graph.InferShapes(g)
			before := g.Clone()
			_, err := passes.Run(context.Background(), g, passes.Normalize)
			require.NoError(t, err)
			ops := map[string]bool{}
			for _, id := range g.Nodes() {
				ops[g.Node(id).Op] = true
			}
			require.Equal(t, c.declined, ops["Einsum"])
			require.Equal(t, !c.declined, ops["MatMul"])
			want, got := einsumResult(t, before), einsumResult(t, g)
			require.Equal(t, want.Shape, got.Shape)
			require.InDeltaSlice(t, want.F32(), got.F32(), 1e-5)
		})
	}
}

func einsumResult(t *testing.T, g *graph.Graph) *tensor.Tensor {
	session, err := exec.New(g, exec.Options{})
	require.NoError(t, err)
	feeds := map[string]*tensor.Tensor{}
	for i, v := range g.Inputs {
		if g.Const(v) == nil {
			shape, _ := g.Value(v).Shape.Ints()
			feeds[g.Value(v).Name] = graphtest.Normal(uint64(5+i), shape...)
		}
	}
	out, err := session.NewRunner().Run(context.Background(), feeds, nil)
	require.NoError(t, err)
	return out[0].ToRowMajor()
}

// Open axes keep their places in Reshapes, or are the one that is open.
func TestEinsumOfOpenAxes(t *testing.T) {
	g := graphtest.Parse(t, `
opset 13
input a: f32[N,S,2,4]
const b: f32[2,4,5] = normal(seed=3)
y = Einsum(a, b) {equation="bqhd,hde->bqe"} "e"
output y
`)
	before := g.Clone()
	_, err := passes.Run(context.Background(), g, passes.Normalize)
	require.NoError(t, err)
	for _, x := range []*graph.Graph{before, g} {
		graph.InferShapes(x)
	}
	feeds := map[string]*tensor.Tensor{"a": graphtest.Normal(7, 3, 6, 2, 4)}
	results := make([]*tensor.Tensor, 2)
	for i, x := range []*graph.Graph{before, g} {
		session, err := exec.New(x, exec.Options{})
		require.NoError(t, err)
		out, err := session.NewRunner().Run(context.Background(), feeds, nil)
		require.NoError(t, err)
		results[i] = out[0]
	}
	require.Equal(t, []int{3, 6, 5}, results[1].Shape)
	require.InDeltaSlice(t, results[0].F32(), results[1].F32(), 1e-5)
}
