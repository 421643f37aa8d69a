package program_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph/tensor"
	"qwb/kernels/cuda"
	"qwb/quantizer/lower"
	"qwb/quantizer/program"
)

// Without kernels every step is computed on the host, and the device gives back what it had.
func TestCUDAOnHost(t *testing.T) {
	each(t, func(t *testing.T, p *lower.Program, feeds map[string]*tensor.Tensor) {
		f := newFake()
		dev, err := cuda.OpenOn(f, 0)
		require.NoError(t, err)
		requireEqual(t, p, feeds, []program.Backend{program.CUDAOn(dev)}, 2)
	})
}
