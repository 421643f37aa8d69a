package program_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph/tensor"
	"qwb/kernels/cpu"
	"qwb/kernels/kerneltest"
	"qwb/kernels/qmath"
	"qwb/quantizer/lower"
	"qwb/quantizer/lower/lowertest"
	"qwb/quantizer/program"
	"qwb/quantizer/target"
)

// backends are the CPU backend with every choice of integer kernels.
func backends() []program.Backend {
	var list []program.Backend
	tables := kerneltest.IntegerTables(cpu.Detect())
	for _, name := range slices.Sorted(maps.Keys(tables)) {
		if name != "saturating" { // it has sums of its own
			list = append(list, program.CPUWith(tables[name]))
		}
	}
	return list
}

// requireEqual runs a program on the reference and on backends: every step by itself, on the reference's inputs, then as a whole,
// first from the heap and then from the arena. It returns how many integers were compared.
func requireEqual(t testing.TB, p *lower.Program, feeds map[string]*tensor.Tensor, list []program.Backend, threads ...int) int {
	t.Helper()
	ctx := context.Background()
	compared := 0
	for i, b := range list {
		e, err := program.New(p, b, threads[i%len(threads)])
		require.NoError(t, err, lower.Format(p))
		want, err := executor(t, p, 1).Run(ctx, feeds, func(s *lower.Step, in, out []*tensor.Tensor) ([]*tensor.Tensor, error) {
			got, err := e.RunStep(ctx, s.ID, in)
			if err != nil {
				return nil, err
			}
			for k, id := range s.Outputs {
				if id != lower.NoTensor {
					compared += out[k].Len()
					require.True(t, tensor.Equal(out[k], got[k]), "%s\nwant %s\n got %s", lower.FormatStep(p, s.ID), sample(out[k]), sample(got[k]))
				}
			}
			return nil, nil
		})
		require.NoError(t, err)
		for range 3 {
			got, err := e.Run(ctx, feeds, nil)
			require.NoError(t, err)
			requireSame(t, want, got, lower.Format(p))
		}
		_, err = e.Run(ctx, feeds, func(s *lower.Step, in, out []*tensor.Tensor) ([]*tensor.Tensor, error) { return nil, nil })
		require.NoError(t, err)
		if placed := e.Placement(); placed != nil {
			require.Empty(t, placed.Host)
		}
		require.NoError(t, e.Close())
	}
	return compared
}

func sample(t *tensor.Tensor) string {
	codes := t.Integers()
	return fmt.Sprintf("%s %v", t.Type(), codes[:min(len(codes), 40)])
}

// The CPU backend computes the integers of the reference, on every target and under every profile that lowers the network.
func TestCPUEqualsReference(t *testing.T) {
	list := backends()
	compared := 0
	for name, text := range lowertest.Networks {
		for _, tg := range target.All {
			for _, pr := range qmath.Profiles() {
				t.Run(name+"/"+tg.Name+"/"+pr.Name, func(t *testing.T) {
					g, set, feeds := lowertest.Configured(t, text, tg.Name)
					p, err := lower.Compile(g, set, tg, pr)
					if err != nil {
						t.Skip(err)
					}
					compared += requireEqual(t, p, feeds, list, 1, 2, 7)
				})
			}
		}
	}
	t.Logf("%d integers", compared)
	require.Positive(t, compared)
}

// After the first run the memory of a run is planned: what is allocated is the outputs and the list of inputs, whatever the network.
func TestCPUAllocatesOutputsOnly(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector makes pools forget")
	}
	for _, name := range []string{"mobilenet", "squeezenet", "residual"} {
		g, set, feeds := lowertest.Configured(t, lowertest.Networks[name], "onnxruntime")
		p := compiled(t, g, set, "onnxruntime", "ort").Program()
		e, err := program.New(p, program.CPU, 1)
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
	p := compiled(t, g, set, "onnxruntime", "ort").Program()
	e, err := program.New(p, program.CPU, 2)
	require.NoError(t, err)
	ctx := context.Background()
	for _, n := range []int{5, 5, 5, 3, 3, 9, 1, 1, 5, 5} {
		some := map[string]*tensor.Tensor{}
		for name, x := range feeds {
			shape := slices.Clone(x.Shape)
			shape[0] = min(n, shape[0])
			some[name] = tensor.FromF32(x.F32()[:tensor.Count(shape)], shape...)
		}
		want, err := executor(t, p, 1).Run(ctx, some, nil)
		require.NoError(t, err)
		got, err := e.Run(ctx, some, nil)
		require.NoError(t, err)
		kept := got[0].Clone()
		requireSame(t, want, got, n)
		_, err = e.Run(ctx, some, func(s *lower.Step, in, out []*tensor.Tensor) ([]*tensor.Tensor, error) { return nil, nil })
		require.NoError(t, err)
		require.True(t, tensor.Equal(kept, got[0]), "outputs are the caller's")
	}
}
