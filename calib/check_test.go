package calib

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/graph/device"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/kernels/cuda/cudatest"
	"qwb/quantizer/tqc"
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

// A device that computes something else is found out on the first sample: here it runs another graph.
func TestCheckFindsAnotherForward(t *testing.T) {
	of := func(w string) *graph.Graph {
		return inferred(t, "opset 17\ninput x: f32[1,4]\nconst w: f32[4] = "+w+"\ny = Mul(x, w) \"scale\"\nr = Relu(x)\noutput y\noutput r")
	}
	d := cudatest.Device(t, 80)
	var warned []tqc.Warning
	r, err := newRun(of("[1, 1, 1, 1]"), nil, Config{Device: d, Check: new(Check), Warn: func(w tqc.Warning) { warned = append(warned, w) }})
	require.NoError(t, err)
	r.device, err = device.New(of("[1, 1, 1, 1.25]"), d, device.Options{})
	require.NoError(t, err)
	defer r.close()
	s := &exec.Sample{Name: "one", Feeds: map[string]*tensor.Tensor{"x": tensor.FromF32([]float32{-2, 1, 2, 4}, 1, 4)}}
	require.NoError(t, r.check(context.Background(), s))
	require.Equal(t, &Check{Sample: "one", Tensors: 3, Equal: 2, Different: []Difference{{"y", 0.2, 0.25}}}, r.cfg.Check)
	require.Len(t, warned, 1)
	require.Equal(t, "y", warned[0].Node)
	require.Equal(t, "the device's statistics of 1 of 3 tensors differ from the processor's on the first sample; here, the most: "+
		"0.2 of the largest magnitude in the extremes, 0.25 of the values in other bins", warned[0].Text)
}
