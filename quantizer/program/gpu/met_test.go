package gpu_test

import (
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph/tensor"
	"qwb/internal/cudatest"
	"qwb/internal/programtest"
	"qwb/kernels/cuda"
	"qwb/quantizer/program"
	"qwb/quantizer/program/cpu"
	"qwb/quantizer/tqc"
)

// A device looks where the processor does: NaN that would become a code ends a run with the same words, an infinite number is named, in
// first runs and in those that repeat them, and neither is left over for the next one.
func TestCUDAFindsWhatIsNotFinite(t *testing.T) {
	cudatest.Each(t, func(t *testing.T, d *cuda.Device) {
		e, reference, feeds := onDevice(t, "mobilenet", d)
		processor, err := program.New(reference.Program(), cpu.Backend, 1)
		require.NoError(t, err)
		want, err := reference.Run(context.Background(), feeds, nil)
		require.NoError(t, err)
		with := func(v float64) map[string]*tensor.Tensor {
			some := map[string]*tensor.Tensor{}
			for name, x := range feeds {
				some[name] = x.Clone()
				some[name].F32()[x.Len()/2] = float32(v)
			}
			return some
		}
		fails := func(round string, v float64) {
			for name, x := range map[string]*program.Executor{"reference": reference, "cpu": processor, "device": e.Executor} {
				_, err := x.Run(context.Background(), with(v), nil)
				nan := (*tqc.NaN)(nil)
				require.ErrorAs(t, err, &nan, "%s %s", round, name)
				require.Equal(t, "x", nan.Tensor)
			}
		}
		ordinary := func() {
			got, err := e.Run(context.Background(), feeds, nil)
			require.NoError(t, err)
			programtest.Same(t, want, got)
		}
		fails("first", math.NaN())
		ordinary()
		require.Empty(t, e.Infinite())
		fails("again", math.NaN())
		ordinary()
		require.Empty(t, e.Infinite())
		for _, x := range []*program.Executor{reference, processor, e.Executor} {
			_, err := x.Run(context.Background(), with(math.Inf(-1)), nil)
			require.NoError(t, err)
			require.Equal(t, []string{reference.Program().Tensors[reference.Program().Inputs[0]].Name}, x.Infinite())
		}
	})
}
