package cudatest_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/internal/cudatest"
	"qwb/kernels/cuda"
)

func TestEachDeviceCopies(t *testing.T) {
	var archs []int
	cudatest.Each(t, func(t *testing.T, d *cuda.Device) {
		archs = append(archs, d.Arch)
		s, err := d.NewStream()
		require.NoError(t, err)
		b, err := d.Alloc(100)
		require.NoError(t, err)
		require.NoError(t, s.Fill(b, 7))
		out := make([]byte, 100)
		require.NoError(t, s.Download(out, b))
		require.NoError(t, s.Synchronize())
		require.Equal(t, byte(7), out[99])
		require.NoError(t, s.Close())
	})
	require.Subset(t, archs, []int{61, 80})
}

func TestOff(t *testing.T) {
	t.Setenv("QWB_GPU", "off")
	n := 0
	cudatest.Each(t, func(*testing.T, *cuda.Device) { n++ })
	require.Equal(t, 2, n)
}
