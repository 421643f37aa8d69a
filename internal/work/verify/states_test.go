package verify

import (
	"context"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/internal/graphtest"
	"qwb/internal/work/open"
	"qwb/quantizer/lower"
	"qwb/quantizer/lower/lowertest"
	"qwb/quantizer/program"
)

type list []*exec.Sample

func (l *list) Next(context.Context) (*exec.Sample, error) {
	if len(*l) == 0 {
		return nil, io.EOF
	}
	s := (*l)[0]
	*l = (*l)[1:]
	return s, nil
}

func (l *list) Len() int { return len(*l) }

// A step has the state that the program itself left at the step before; the first of a sequence, and what is no step, are as they come.
func TestOwnStates(t *testing.T) {
	g, set, _ := lowertest.ConfiguredFor(t, `
input x: f32[1,8]
input h: f32[1,8]
const u: f32[8,8] = normal(seed=1, std=0.4)
const w: f32[8,8] = normal(seed=2, std=0.4)
a = MatMul(x, w)
b = MatMul(h, u)
h_out = Add(a, b)
output h_out
`, lowertest.Whole())
	profile, err := lowertest.Whole().ProfileNamed("")
	require.NoError(t, err)
	p, err := lower.Compile(g, set, lowertest.Whole(), profile)
	require.NoError(t, err)
	states := []graph.State{{Input: "h", Output: "h_out"}}
	first, second := &exec.Sequence{Name: "a", States: states}, &exec.Sequence{Name: "b", States: states}
	var all list
	for i, q := range []*exec.Sequence{first, first, first, second, second, nil} {
		s := &exec.Sample{Name: "s", Sequence: q, Step: i % 3, Feeds: map[string]*tensor.Tensor{"x": graphtest.Normal(uint64(i), 1, 8),
			"h": graphtest.Normal(uint64(90+i), 1, 8)}}
		all = append(all, s)
	}
	given := append(list{}, all...)
	job := &open.Job{Project: &open.Project{Catalog: open.Catalog{Backends: []program.Backend{program.Reference}}}}
	it := OwnStates(job, &all, p, 1)
	e, err := program.New(p, program.Reference, 1)
	require.NoError(t, err)
	var left *tensor.Tensor
	for i, from := range given {
		s, err := it.Next(context.Background())
		require.NoError(t, err)
		if i == 1 || i == 2 || i == 4 {
			require.Equal(t, left, s.Feeds["h"], "sample %d", i)
			require.NotEqual(t, from.Feeds["h"], s.Feeds["h"])
		} else {
			require.Equal(t, from.Feeds, s.Feeds, "sample %d", i)
		}
		require.Equal(t, from.Feeds["x"], s.Feeds["x"])
		out, err := e.Run(context.Background(), s.Feeds, nil)
		require.NoError(t, err)
		left = out[0]
	}
	_, err = it.Next(context.Background())
	require.ErrorIs(t, err, io.EOF)
}
