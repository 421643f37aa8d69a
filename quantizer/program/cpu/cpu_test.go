package cpu_test

import (
	"context"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph/tensor"
	"qwb/internal/longtest"
	"qwb/internal/programtest"
	"qwb/internal/targettest"
	hardware "qwb/kernels/cpu"
	"qwb/kernels/kerneltest"
	"qwb/kernels/qmath"
	"qwb/quantizer/lower"
	"qwb/quantizer/lower/lowertest"
	"qwb/quantizer/program"
	"qwb/quantizer/program/cpu"
)

// backends are the CPU backend with every choice of integer kernels.
func backends() []program.Backend {
	var list []program.Backend
	tables := kerneltest.IntegerTables(hardware.Detect())
	for _, name := range slices.Sorted(maps.Keys(tables)) {
		if name != "saturating" { // it has sums of its own
			list = append(list, cpu.With(tables[name]))
		}
	}
	return list
}

// The CPU backend computes the integers of the reference, on every target and under every profile that lowers the network.
func TestCPUEqualsReference(t *testing.T) {
	list := backends()
	compared, long := 0, longtest.Wanted(t)
	for n, name := range slices.Sorted(maps.Keys(lowertest.Networks)) {
		text := lowertest.Networks[name]
		for k, tg := range targettest.Distinct() {
			for i, pr := range qmath.Profiles() {
				if !long && (n+k+i)%3 != 0 {
					continue
				}
				t.Run(name+"/"+tg.Name+"/"+pr.Name, func(t *testing.T) {
					g, set, feeds := lowertest.Configured(t, text, tg.Name)
					p, err := lower.Compile(g, set, tg, pr)
					if err != nil {
						t.Skip("does not apply: " + err.Error())
					}
					compared += programtest.Equal(t, p, feeds, list, 1, 2, 7)
				})
			}
		}
	}
	t.Logf("%d integers", compared)
	require.Positive(t, compared)
}

// After the first run the memory of a run is planned: what is allocated is the outputs and the list of inputs, whatever the network.
func TestCPUAllocatesOutputsOnly(t *testing.T) {
	if programtest.RaceDetector {
		t.Skip("the race detector makes pools forget")
	}
	for _, name := range []string{"mobilenet", "squeezenet", "residual"} {
		g, set, feeds := lowertest.Configured(t, lowertest.Networks[name], "qnn")
		p := programtest.Compiled(t, g, set, "qnn", "onnx").Program()
		e, err := program.New(p, cpu.Backend, 1)
		require.NoError(t, err)
		run := func() {
			_, err := e.Run(context.Background(), feeds, nil)
			require.NoError(t, err)
		}
		run()
		run()
		require.LessOrEqual(t, testing.AllocsPerRun(20, run), float64(3+2*len(p.Inputs)+4*len(p.Outputs)), name)
	}
}

// Shapes may change from run to run; hooked runs and single steps stay away from the memory of the others.
func TestCPUShapesChange(t *testing.T) {
	g, set, feeds := lowertest.Configured(t, lowertest.Networks["dynamic"], "onnxruntime")
	p := programtest.Compiled(t, g, set, "onnxruntime", "ort").Program()
	e, err := program.New(p, cpu.Backend, 2)
	require.NoError(t, err)
	ctx := context.Background()
	var given, kept []*tensor.Tensor
	for _, n := range []int{5, 5, 5, 3, 3, 9, 1, 1, 5, 5} {
		some := map[string]*tensor.Tensor{}
		for name, x := range feeds {
			shape := slices.Clone(x.Shape)
			shape[0] = min(n, shape[0])
			some[name] = tensor.FromF32(x.F32()[:tensor.Count(shape)], shape...)
		}
		want, err := programtest.Reference(t, p, 1).Run(ctx, some, nil)
		require.NoError(t, err)
		for range 3 { // from the heap, and from the arena
			got, err := e.Run(ctx, some, nil)
			require.NoError(t, err)
			programtest.Same(t, want, got, n)
			given, kept = append(given, got[0]), append(kept, got[0].Clone())
		}
		_, err = e.Run(ctx, some, func(s *lower.Step, in, out []*tensor.Tensor) ([]*tensor.Tensor, error) { return nil, nil })
		require.NoError(t, err)
	}
	programtest.Same(t, kept, given, "outputs are the caller's")
	for range 3 {
		again, err := e.Run(ctx, feeds, nil)
		require.NoError(t, err)
		want := again[0].Clone()
		clear(again[0].F32())
		e.Reuse(again)
		got, err := e.Run(ctx, feeds, nil)
		require.NoError(t, err)
		require.True(t, tensor.Equal(want, got[0]))
		require.Same(t, again[0], got[0])
	}
	require.Equal(t, tensor.Float32, given[0].DType, "of the memory of a run")
}
