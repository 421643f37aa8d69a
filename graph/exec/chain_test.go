package exec_test

import (
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/internal/graphtest"
)

func (b *builder) number(v float32) graph.ValueID {
	return b.g.AddConst("c", &tensor.Tensor{DType: tensor.Float32, Shape: []int{}, Data: []float32{v}})
}

// chains is a graph with every kind of chain: a decomposed GELU and layer normalization, numbers on either side, one operand
// per row and per column, bounds, a product with its bias, and a channels-last chain.
func chains(t *testing.T) *graph.Graph {
	b := &builder{t: t, g: graph.New("chains", 17)}
	in := func(name string, shape ...int) graph.ValueID {
		dims := make(graph.Shape, len(shape))
		for i, n := range shape {
			dims[i] = graph.Dim{N: int64(n)}
		}
		v, err := b.g.AddValue(graph.Value{Name: name, DType: tensor.Float32, Shape: dims})
		require.NoError(t, err)
		b.g.Inputs = append(b.g.Inputs, v)
		return v
	}
	two := func(op string, x, y graph.ValueID) graph.ValueID { return b.node(op, []graph.ValueID{x, y}) }
	one := func(op string, x graph.ValueID) graph.ValueID { return b.node(op, []graph.ValueID{x}) }
	x, image := in("x", 3, 37, 48), in("image", 2, 3, 9, 11)
	row := b.g.AddConst("row", graphtest.Uniform(1, -1, 1, 48))
	perRow := b.g.AddConst("perRow", graphtest.Uniform(2, 1, 2, 3, 37, 1))

	h := two("MatMul", x, b.g.AddConst("w", graphtest.Uniform(3, -0.3, 0.3, 48, 48)))
	h = two("Add", h, row)
	gelu := two("Mul", two("Mul", h, two("Add", one("Erf", two("Div", h, b.number(math.Sqrt2))), b.number(1))), b.number(0.5))
	d := two("Sub", gelu, b.node("ReduceMean", []graph.ValueID{gelu}, graph.Ints("axes", -1)))
	variance := b.node("ReduceMean", []graph.ValueID{two("Pow", d, b.number(2))}, graph.Ints("axes", -1))
	norm := two("Add", two("Mul", two("Div", d, one("Sqrt", two("Add", variance, b.number(1e-5)))), row), row)
	odd := two("Div", b.number(3), two("Add", two("Mul", perRow, two("Sub", b.number(1), one("Sigmoid", norm))), b.number(2)))
	bounded := two("Mul", one("Relu", two("Add", two("Sub", row, odd), norm)), b.number(7))
	product := one("Relu", two("Add", row, two("MatMul", bounded, b.g.AddConst("w2", graphtest.Uniform(4, -0.3, 0.3, 48, 48)))))

	c := b.conv(image, 3, 8, 3, 1, false)
	six := b.node("Clip", []graph.ValueID{two("Add", c, b.number(3)), b.number(0), b.number(6)})
	swish := two("Div", two("Mul", c, six), b.number(6))
	b.g.Outputs = []graph.ValueID{norm, product, b.conv(one("Tanh", swish), 8, 8, 1, 1, false)}
	require.NoError(t, b.g.Check())
	return b.g
}

func bits(list []*tensor.Tensor) [][]uint32 {
	var out [][]uint32
	for _, t := range list {
		var row []uint32
		for _, v := range t.F32() {
			row = append(row, math.Float32bits(v))
		}
		out = append(out, row)
	}
	return out
}

// Chains change no bit: not where somebody looks at any one value, at all of them, or on another number of threads.
func TestChains(t *testing.T) {
	g := chains(t)
	feeds := randomFeeds(t, g, 1)
	for name, o := range map[string]exec.Options{"fast": {}, "threads": {Threads: 3}, "float64": {Float64: true}} {
		t.Run(name, func(t *testing.T) {
			s, err := exec.New(g, o)
			require.NoError(t, err)
			r := s.NewRunner()
			ctx := context.Background()
			look := &exec.Hooks{Output: func(*graph.Node, int, *tensor.Tensor) error { return nil }}
			plain, err := r.Run(ctx, feeds, look)
			require.NoError(t, err)
			want := bits(plain)
			fused := 0
			count := &exec.Hooks{Step: func(_ *graph.Node, list []*graph.Node, done bool) {
				if done {
					fused += len(list)
				}
			}}
			for range 3 { // traced, then planned
				fused = 0
				got, err := r.Run(ctx, feeds, count)
				require.NoError(t, err)
				require.Equal(t, want, bits(got))
			}
			if assert.GreaterOrEqual(t, fused, 17) && o.Float64 {
				assert.Less(t, fused, 21, "a bias is no part of a sum in float64")
			}
			for _, v := range g.Values() {
				look.Wants = func(w graph.ValueID) bool { return v == w }
				got, err := r.Run(ctx, feeds, look)
				require.NoError(t, err)
				require.Equal(t, want, bits(got), g.Value(v).Name)
				_, err = r.RunAll(ctx, feeds, nil, look.Wants)
				require.NoError(t, err)
			}
		})
	}
}

// A value in a chain that is kept is what it is without chains, and a restart from kept values gives the same.
func TestChainsResume(t *testing.T) {
	g := chains(t)
	feeds := randomFeeds(t, g, 1)
	s, err := exec.New(g, exec.Options{})
	require.NoError(t, err)
	r := s.NewRunner()
	ctx := context.Background()
	want, err := r.Run(ctx, feeds, nil)
	require.NoError(t, err)
	all, err := r.RunAll(ctx, feeds, nil, nil)
	require.NoError(t, err)
	for _, n := range g.Nodes() {
		for _, keepAll := range []bool{true, false} {
			kept := make([]*tensor.Tensor, len(all))
			for v := range all {
				if keepAll || v%3 == 0 || g.IsInput(graph.ValueID(v)) {
					kept[v] = all[v]
				}
			}
			got, _, err := r.Resume(ctx, kept, n, nil, nil)
			require.NoError(t, err)
			require.Equal(t, bits(want), bits(got), g.Node(n).Name)
		}
	}
}
