package programtest

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels/qmath"
	"qwb/quantizer/lower"
	"qwb/quantizer/program"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// Compiled lowers a configured graph and prepares the reference.
func Compiled(t testing.TB, g *graph.Graph, set *tqc.Set, platform, profile string) *program.Executor {
	t.Helper()
	tg, err := target.Find(platform)
	require.NoError(t, err)
	return CompiledFor(t, g, set, tg, profile)
}

// CompiledFor is Compiled for a target of the test's own.
func CompiledFor(t testing.TB, g *graph.Graph, set *tqc.Set, tg *target.Target, profile string) *program.Executor {
	t.Helper()
	pr, err := qmath.ProfileNamed(profile)
	require.NoError(t, err)
	p, err := lower.Compile(g, set, tg, pr)
	require.NoError(t, err)
	e, err := program.New(p, program.Reference, 2)
	require.NoError(t, err, lower.Format(p))
	return e
}

// ByReference are the reasons for which a device may leave a step to the reference.
var ByReference = []string{"8-bit codes times 16-bit codes", "a bias of more than 32 bits", "cuda: no kernel scales by factors of float64"}

// Equal runs a program on the reference and on backends: every step by itself, on the reference's inputs, then as a whole,
// first from the heap and then from the arena. It returns how many integers were compared.
func Equal(t testing.TB, p *lower.Program, feeds map[string]*tensor.Tensor, list []program.Backend, threads ...int) int {
	t.Helper()
	ctx := context.Background()
	compared := 0
	for i, b := range list {
		e, err := program.New(p, b, threads[i%len(threads)])
		require.NoError(t, err, lower.Format(p))
		want, err := Reference(t, p, 1).Run(ctx, feeds, func(s *lower.Step, in, out []*tensor.Tensor) ([]*tensor.Tensor, error) {
			got, err := e.RunStep(ctx, s.ID, in)
			if err != nil {
				return nil, err
			}
			for k, id := range s.Outputs {
				if id != lower.NoTensor {
					compared += out[k].Len()
					require.True(t, tensor.Equal(out[k], got[k]), "%s\nwant %s\n got %s", lower.FormatStep(p, s.ID), Sample(out[k]), Sample(got[k]))
				}
			}
			return nil, nil
		})
		require.NoError(t, err)
		for range 3 {
			got, err := e.Run(ctx, feeds, nil)
			require.NoError(t, err)
			Same(t, want, got, lower.Format(p))
		}
		_, err = e.Run(ctx, feeds, func(s *lower.Step, in, out []*tensor.Tensor) ([]*tensor.Tensor, error) { return nil, nil })
		require.NoError(t, err)
		if placed := e.Placement(); placed != nil && placed.Device != "" {
			for _, h := range placed.Host {
				require.Contains(t, ByReference, h.Reason, h.Name)
			}
		}
		require.NoError(t, e.Close())
	}
	return compared
}

// Sample shows the first codes of a tensor.
func Sample(t *tensor.Tensor) string {
	codes := t.Integers()
	return fmt.Sprintf("%s %v", t.Type(), codes[:min(len(codes), 40)])
}

// Reference prepares a program for the reference.
func Reference(t testing.TB, p *lower.Program, threads int) *program.Executor {
	e, err := program.New(p, program.Reference, threads)
	require.NoError(t, err)
	return e
}

// Same wants equal tensors, bit for bit.
func Same(t testing.TB, want, got []*tensor.Tensor, msg ...any) {
	t.Helper()
	require.Equal(t, len(want), len(got))
	for i := range want {
		require.True(t, tensor.Equal(want[i], got[i]), msg...)
	}
}
