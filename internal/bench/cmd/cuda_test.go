package cmd

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/kernels/cuda"
	"qwb/kernels/cuda/emulate"
)

// Where a kernel takes the device with it and there is no other, what was measured before is still reported.
func TestBenchCUDALosesItsDevice(t *testing.T) {
	find := func(backend string) (*cuda.Device, error) {
		if backend != "ptx" {
			return nil, errors.New("there is no other")
		}
		return cuda.OpenOn(emulate.Open(80, emulate.Fast), 0)
	}
	b := &cudaBench{cudaOptions: cudaOptions{backend: "ptx"}, find: find, report: &cudaReport{}}
	require.NoError(t, b.open())
	require.True(t, b.failed("a", errors.New("of its own")), "the device is as it was")
	require.NoError(t, b.device.Close())
	require.True(t, b.failed("b", errors.New("lost")), "another one")
	require.NoError(t, b.stream.Synchronize())
	require.NoError(t, b.device.Close())
	b.backend = "none"
	require.False(t, b.failed("c", errors.New("lost")))
	require.NoError(t, b.close())
	var names []string
	for _, f := range b.report.Failed {
		names = append(names, f.Name)
	}
	require.Equal(t, []string{"a", "b", "c", "everything after c"}, names)
}
