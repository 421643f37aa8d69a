package device_test

import (
	"context"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/graph/device"
	"qwb/graph/exec"
	"qwb/graph/graphtest"
	"qwb/graph/tensor"
	"qwb/kernels"
	"qwb/kernels/cpu"
	"qwb/kernels/cuda"
	"qwb/kernels/cuda/cudatest"
	"qwb/kernels/ref"
)

// both runs a graph on a device and on the CPU and compares all values that nodes compute, bit for bit, and outputs without taps.
func both(t *testing.T, d *cuda.Device, g *graph.Graph, feeds map[string]*tensor.Tensor) *device.Plan {
	t.Helper()
	needFMA(t)
	s, err := exec.New(g, exec.Options{})
	require.NoError(t, err)
	want, err := s.NewRunner().RunAll(context.Background(), feeds, nil, nil)
	require.NoError(t, err)
	outs, err := s.NewRunner().Run(context.Background(), feeds, nil)
	require.NoError(t, err)
	on, err := device.New(g, d, device.Options{})
	require.NoError(t, err)
	defer func() { require.NoError(t, on.Close()) }()
	for range 2 {
		got, err := on.Run(context.Background(), feeds, nil)
		require.NoError(t, err)
		require.Len(t, got, len(outs))
		for i := range got {
			same(t, outs[i], got[i], "output "+g.Value(g.Outputs[i]).Name)
		}
	}
	seen := 0
	_, err = on.Run(context.Background(), feeds, &device.Taps{Tap: func(s *cuda.Stream, v device.Value) error {
		x, err := v.Download(s)
		if err != nil {
			return err
		}
		if want[v.ID] != nil {
			same(t, want[v.ID].ToRowMajor(), x.ToRowMajor(), "value "+g.Value(v.ID).Name)
			seen++
		}
		return nil
	}})
	require.NoError(t, err)
	require.Positive(t, seen)
	types := map[string]device.Type{}
	for name, f := range feeds {
		types[name] = device.Type{DType: f.DType, Shape: f.Shape}
	}
	p, err := on.Prepare(types, nil)
	require.NoError(t, err)
	return p
}

// needFMA skips a test where the CPU's executor computes other last bits than the device.
func needFMA(t *testing.T) {
	t.Helper()
	if a := kernels.Select(cpu.Detect()).Arith(); a != ref.FMA32 {
		t.Skipf("the processor's kernels compute in %s: their last bits are others", a)
	}
}

func same(t *testing.T, want, got *tensor.Tensor, what string) {
	t.Helper()
	require.Empty(t, different(want, got), what)
}

// different says how two tensors differ in type or bits, "" if they do not; NaNs may have any payload.
func different(want, got *tensor.Tensor) string {
	if want.Type() != got.Type() {
		return fmt.Sprintf("want %s, got %s", want.Type(), got.Type())
	}
	if want.DType != tensor.Float32 {
		if w, g := fmt.Sprint(want.Data), fmt.Sprint(got.Data); w != g {
			return fmt.Sprintf("want %s, got %s", w, g)
		}
		return ""
	}
	a, b := want.F32(), got.F32()
	bad, first := 0, 0
	for i := range a {
		if math.Float32bits(a[i]) != math.Float32bits(b[i]) && !(a[i] != a[i] && b[i] != b[i]) {
			if bad == 0 {
				first = i
			}
			bad++
		}
	}
	if bad == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d differ, the first at %d: want %g, got %g", bad, len(a), first, a[first], b[first])
}

func TestSmall(t *testing.T) {
	g := graphtest.Parse(t, `
		graph g
		opset 17
		input x: f32[1,3,8,8]
		const w: f32[4,3,3,3] = fill(0.1)
		c = Conv(x, w) {pads=[1, 1, 1, 1]}
		r = Relu(c)
		output r
	`)
	cudatest.Each(t, func(t *testing.T, d *cuda.Device) {
		p := both(t, d, g, map[string]*tensor.Tensor{"x": graphtest.Normal(1, 1, 3, 8, 8)})
		require.Empty(t, p.OnHost())
	})
}
