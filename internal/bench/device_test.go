package bench_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/internal/bench"
	"qwb/internal/cudatest"
	"qwb/kernels/cuda"
)

func TestDeviceCases(t *testing.T) {
	names, small := map[string]bool{}, map[string]bool{}
	for _, c := range bench.DeviceCases() {
		assert.False(t, names[c.Name()], "%s is there twice", c.Name())
		names[c.Name()] = true
		assert.Positive(t, c.Bytes, c.Name())
		assert.Positive(t, c.Amount(), c.Name())
		assert.Positive(t, c.Bound.Of(cuda.Peaks{MMA: 1, FMA: 1, Copy: 1}), c.Name())
		assert.Contains(t, []string{"int8", "fp32"}, c.Mode, c.Name())
		if c.Small {
			small[c.Kind] = true
			assert.Less(t, c.Ops, 3e6, c.Name())
			assert.Less(t, c.Bytes, 3e5, c.Name())
		}
	}
	for _, c := range bench.DeviceCases() {
		assert.True(t, small[c.Kind], "%s has no case that tests run", c.Kind)
	}
	for _, n := range []string{"gemm m=256 n=256 k=256", "gemm m=8192 n=8192 k=8192", "conv resnet50 n=256 h=14 c=256 m=256 k=3 stride=1"} {
		assert.True(t, names[n], n)
	}
}

// Small cases run on every device, with every check of the interpreter, and leave no memory behind.
func TestDeviceCasesRun(t *testing.T) {
	cudatest.Each(t, func(t *testing.T, d *cuda.Device) {
		s, err := d.NewStream()
		require.NoError(t, err)
		for _, c := range bench.DeviceCases() {
			if !c.Small {
				continue
			}
			w, err := c.Prepare(s)
			require.NoError(t, err, c.Name())
			m, err := bench.MeasureDevice(context.Background(), s, 2, time.Millisecond, w.Run)
			require.NoError(t, err, c.Name())
			assert.Positive(t, m.Seconds, c.Name())
			assert.LessOrEqual(t, m.Min, m.Seconds)
			assert.GreaterOrEqual(t, m.Max, m.Seconds)
			assert.Equal(t, 2, m.Rounds)
			assert.GreaterOrEqual(t, m.Launches, 1)
			w.Close()
		}
		assert.Zero(t, d.PoolStats().Buffers)
		require.NoError(t, s.Close())
	})
}

func TestMeasureDeviceEnds(t *testing.T) {
	d := cudatest.Device(t, 80)
	s, err := d.NewStream()
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	b, err := d.Alloc(64)
	require.NoError(t, err)
	_, err = bench.MeasureDevice(ctx, s, 2, time.Millisecond, func(s *cuda.Stream) error { return s.Fill(b, 1) })
	assert.ErrorIs(t, err, context.Canceled)
	broken := errors.New("broken")
	_, err = bench.MeasureDevice(context.Background(), s, 2, time.Millisecond, func(s *cuda.Stream) error { return broken })
	assert.ErrorIs(t, err, broken)
}
