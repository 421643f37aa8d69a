package cudatest_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/internal/cudatest"
	"qwb/internal/drivertest"
	"qwb/kernels/cuda"
)

// TestGPUKeepsItsContext: tests on a GPU share a context and the modules that were loaded, until one breaks them.
func TestGPUKeepsItsContext(t *testing.T) {
	s := drivertest.New(t)
	t.Setenv("QWB_CUDA_DRIVER", s.Path)
	t.Setenv("QWB_GPU", "only")
	s.Set("forget", 1)
	each := func() {
		cudatest.Each(t, func(t *testing.T, d *cuda.Device) {
			_, err := d.Kernel("float_rows", "softmax")
			require.NoError(t, err)
			require.Equal(t, 1, s.Live("modules"))
		})
	}
	each()
	require.Equal(t, 1, s.Live("contexts"), "it is kept")
	require.Equal(t, 1, s.Live("modules"))
	each()
	require.Equal(t, 1, s.Live("modules"), "the same one")
	require.Equal(t, 1, s.Live("contexts"))
	cudatest.ForgetGPU()
	require.Zero(t, s.Live("contexts"))
}
