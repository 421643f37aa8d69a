package calib

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph/exec"
	"qwb/graph/tensor"
)

// A difference is found wherever it is, and its size told.
func TestCompare(t *testing.T) {
	g := inferred(t, "input x: f32[1,4]\nr = Relu(x)\noutput r")
	of := func(v ...float32) *Stats {
		r, err := newRun(g, nil, Config{})
		require.NoError(t, err)
		require.NoError(t, r.prepare())
		w := r.worker()
		s := &exec.Sample{Feeds: map[string]*tensor.Tensor{"x": tensor.FromF32(v, 1, 4)}}
		require.NoError(t, w.observe(context.Background(), r.batch(job{0, s})))
		return r.stats()
	}
	a := of(-4, 1, 2, 3)
	require.Equal(t, Check{Tensors: 2, Equal: 2, Different: []Difference{}}, compare(a, of(-4, 1, 2, 3)))
	require.Equal(t, Check{Tensors: 2, Different: []Difference{{"r", 0, 0.25}, {"x", 0, 0.25}}}, compare(a, of(-4, 1.5, 2, 3)))
	require.Equal(t, Check{Tensors: 2, Equal: 1, Different: []Difference{{"x", 0.5, 0.25}}}, compare(a, of(-2, 1, 2, 3)))
	c := compare(a, of(-4, 1, 2, 2.5))
	require.Equal(t, []Difference{{"r", 0.5 / 3, 0.25}, {"x", 0.125, 0.25}}, c.Different)
	require.Equal(t, "r", c.Worst().Tensor)
	none := of(-4, 1, 2, 3)
	delete(none.tensors, "r")
	require.Equal(t, Check{Tensors: 2, Equal: 1, Different: []Difference{{"r", 1, 1}}}, compare(a, none))
}
