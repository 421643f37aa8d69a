package rewrite_test

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/internal/graphtest"
	"qwb/quantizer/rewrite"
)

// parse reads a graph and infers its shapes.
func parse(t testing.TB, text string) *graph.Graph {
	t.Helper()
	g := graphtest.Parse(t, text)
	require.Empty(t, graph.InferShapes(g))
	return g
}

// outputs runs a graph on random inputs; open dimensions are 2.
func outputs(t testing.TB, g *graph.Graph) []*tensor.Tensor {
	t.Helper()
	feeds := map[string]*tensor.Tensor{}
	for i, v := range g.Inputs {
		shape := make([]int, len(g.Value(v).Shape))
		for k, d := range g.Value(v).Shape {
			if shape[k] = 2; d.Known() {
				shape[k] = int(d.N)
			}
		}
		feeds[g.Value(v).Name] = graphtest.Normal(uint64(i+7), shape...)
	}
	s, err := exec.New(g, exec.Options{})
	require.NoError(t, err)
	out, err := s.NewRunner().Run(context.Background(), feeds, nil)
	require.NoError(t, err)
	return out
}

// keeps fails the test unless two graphs compute the same up to an NSR of 1e-6 squared: single precision.
func keeps(t testing.TB, before, after *graph.Graph) {
	t.Helper()
	require.NoError(t, after.Check())
	want, got := outputs(t, before), outputs(t, after)
	require.Len(t, got, len(want))
	for name, w := range want {
		var noise, signal float64
		for i, x := range w.ToRowMajor().F32() {
			d := float64(got[name].ToRowMajor().F32()[i]) - float64(x)
			noise, signal = noise+d*d, signal+float64(x)*float64(x)
		}
		require.Greater(t, signal, 0.0, name)
		require.Less(t, noise/signal, 1e-10, name)
	}
}

// apply applies steps with the nodes in another order and checks that the names, the function and the untouched graph are the same.
func apply(t testing.TB, g *graph.Graph, steps ...rewrite.Step) *graph.Graph {
	t.Helper()
	was := graph.Format(g)
	after, err := rewrite.Apply(g, steps)
	require.NoError(t, err)
	require.Equal(t, was, graph.Format(g), "the graph was changed")
	again, err := rewrite.Apply(g, steps)
	require.NoError(t, err)
	require.Equal(t, graph.Format(after), graph.Format(again))
	keeps(t, g, after)
	return after
}

// factors are n random factors between 1/8 and 8.
func factors(seed uint64, n int) []float32 {
	r := rand.New(rand.NewPCG(seed, 3))
	out := make([]float32, n)
	for i := range out {
		out[i] = float32(0.125 + 7.875*r.Float64()*r.Float64())
	}
	return out
}

func scale(at string, n int) rewrite.Step {
	return rewrite.Step{Kind: "scale", At: at, Vectors: map[string][]float32{"scale": factors(uint64(n), n)}}
}

// constOf is the constant input of a node.
func constOf(t testing.TB, g *graph.Graph, node string, input int) *tensor.Tensor {
	t.Helper()
	id, ok := g.LookupNode(node)
	require.True(t, ok, node)
	c := g.Const(g.Node(id).Input(input))
	require.NotNil(t, c, node)
	return c
}

// names are those of the nodes of ends.
func names(g *graph.Graph, ends []rewrite.End) []string {
	list := []string{}
	for _, e := range ends {
		list = append(list, g.Node(e.Node).Name)
	}
	return list
}
