package exec_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/internal/graphtest"
)

// What moves no element shares the memory of its input: parts along the outermost axis that has more than one element, and
// transpositions of axes that have one. The results are those of copying, which hooks that may write ask for.
func TestMovesThatAreViews(t *testing.T) {
	b := &builder{t: t, g: graph.New("views", 13)}
	in, err := b.g.AddValue(graph.Value{Name: "x", DType: tensor.Float32, Shape: graph.Static(1, 6, 1, 10)})
	require.NoError(t, err)
	b.g.Inputs = []graph.ValueID{in}
	ints := func(v ...int64) graph.ValueID { return b.g.AddConst("i", tensor.FromI64(v, len(v))) }
	x := b.node("Relu", []graph.ValueID{in})
	parts := make([]graph.ValueID, 2)
	for i, name := range []string{"left", "right"} {
		parts[i], err = b.g.AddValue(graph.Value{Name: name})
		require.NoError(t, err)
	}
	_, err = b.g.AddNode(graph.Node{Name: "split", Op: "Split", Attrs: []graph.Attr{graph.Int("axis", 1)},
		Inputs: []graph.ValueID{x, ints(2, 4)}, Outputs: parts})
	require.NoError(t, err)
	turned := b.node("Transpose", []graph.ValueID{parts[1]}, graph.Ints("perm", 2, 1, 3, 0))
	sliced := b.node("Slice", []graph.ValueID{turned, ints(1), ints(3), ints(1)})
	copied := b.node("Slice", []graph.ValueID{turned, ints(1), ints(3), ints(3), ints(1)}) // nothing is left of the last axis
	inner := b.node("Slice", []graph.ValueID{x, ints(2), ints(5), ints(3)})                // columns: no neighbours
	back := b.node("Transpose", []graph.ValueID{x}, graph.Ints("perm", 0, 3, 2, 1))        // elements move
	b.g.Outputs = []graph.ValueID{parts[0], turned, sliced, copied, inner, back}
	require.NoError(t, b.g.Check())

	feeds := map[string]*tensor.Tensor{"x": graphtest.Normal(1, 1, 6, 1, 10)}
	s, err := exec.NewPoisoned(b.g, exec.Options{})
	require.NoError(t, err)
	r := s.NewRunner()
	ctx := context.Background()
	outs, err := r.Run(ctx, feeds, nil)
	require.NoError(t, err)
	src := feeds["x"].F32()
	at := func(channel, column int) float32 { return max(0, src[channel*10+column]) }
	for i, o := range []struct {
		shape []int
		at    func(i int) float32
	}{
		{[]int{1, 2, 1, 10}, func(i int) float32 { return at(i/10, i%10) }},
		{[]int{1, 4, 10, 1}, func(i int) float32 { return at(2+i/10, i%10) }},
		{[]int{1, 2, 10, 1}, func(i int) float32 { return at(3+i/10, i%10) }},
		{[]int{1, 4, 10, 0}, nil},
		{[]int{1, 6, 1, 3}, func(i int) float32 { return at(i/3, 2+i%3) }},
		{[]int{1, 10, 1, 6}, func(i int) float32 { return at(i%6, i/6) }},
	} {
		require.Equal(t, o.shape, outs[i].Shape, "output %d", i)
		for k, v := range outs[i].F32() {
			require.Equal(t, o.at(k), v, "output %d, element %d", i, k)
		}
	}
	for range 2 { // with the plan
		again, err := r.Run(ctx, feeds, nil)
		require.NoError(t, err)
		equalAll(t, outs, again, "views")
	}

	// A copy takes memory of its own, a view none.
	views := r.ArenaBytes()
	copies, err := s.NewRunner().Run(ctx, feeds, &exec.Hooks{Output: func(*graph.Node, int, *tensor.Tensor) error { return nil }})
	require.NoError(t, err)
	equalAll(t, outs, copies, "copies")
	w := s.NewRunner()
	_, err = w.Run(ctx, feeds, &exec.Hooks{Output: func(*graph.Node, int, *tensor.Tensor) error { return nil }})
	require.NoError(t, err)
	assert.Less(t, views, w.ArenaBytes())
}
