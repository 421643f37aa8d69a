package calib_test

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"qwb/calib"
	"qwb/observers"
	"qwb/quantizer"
	"qwb/quantizer/tqc"
)

// Statistics of minima and maxima only have those of full ones, render as they do, and refuse what they do not serve.
func TestMinMaxOnly(t *testing.T) {
	g := parse(t, network)
	samples := images(7, 12)
	full, few := run(t, g, samples, calib.Config{}), run(t, g, samples, calib.Config{MinMaxOnly: true, Threads: 3})
	require.True(t, full.HasBins())
	require.False(t, few.HasBins())
	require.Equal(t, full.Names(), few.Names())
	for _, name := range full.Names() {
		a, b := full.Tensor(name), few.Tensor(name)
		require.Equal(t, a.State.Extent(), b.State.Extent(), name)
		require.Equal(t, a.State.Channels(), b.State.Channels(), name)
		require.Equal(t, a.State.Count(), b.State.Count(), name)
		require.Equal(t, a.Halves, b.Halves, name)
	}
	require.Less(t, len(encoded(t, few)), len(encoded(t, full)))
	loaded, err := calib.Read(bytes.NewReader(encoded(t, few)), int64(len(encoded(t, few))))
	require.NoError(t, err)
	require.Equal(t, encoded(t, few), encoded(t, loaded))

	// Merged with full ones only what both have is left.
	mixed, _, err := calib.Merge(run(t, g, samples[:5], calib.Config{}), run(t, g, samples[5:], calib.Config{MinMaxOnly: true}))
	require.NoError(t, err)
	require.Equal(t, encoded(t, few), encoded(t, mixed))

	for _, c := range []struct {
		resume *calib.Stats
		few    bool
	}{{full, true}, {few, false}} {
		_, err = calib.Run(context.Background(), g, &list{samples: samples}, calib.Config{Resume: c.resume, MinMaxOnly: c.few})
		require.ErrorContains(t, err, "do not go together")
	}

	for _, o := range []tqc.Observer{tqc.ObserverAuto, tqc.ObserverPercentile, tqc.ObserverKL, tqc.ObserverMSE} {
		_, err := calib.Render(context.Background(), g, configure(t, g, "onnxruntime", quantizer.Options{}), few, calib.RenderConfig{Observer: o})
		require.ErrorIs(t, err, observers.ErrNoBins, o)
	}
	want, got := configure(t, g, "onnxruntime", quantizer.Options{}), configure(t, g, "onnxruntime", quantizer.Options{})
	_, err = calib.Render(context.Background(), g, want, full, calib.RenderConfig{Observer: tqc.ObserverMinMax})
	require.NoError(t, err)
	_, err = calib.Render(context.Background(), g, got, few, calib.RenderConfig{Observer: tqc.ObserverMinMax})
	require.NoError(t, err)
	for id := range tqc.SlotID(want.NumSlots()) {
		require.Equal(t, want.Params(id), got.Params(id))
	}
}

// How much memory and how many threads there are, and whether anybody looks at the clock, changes no byte.
func TestMemoryAndClockChangeNoByte(t *testing.T) {
	g := parse(t, network)
	samples := images(8, 9)
	want := encoded(t, run(t, g, samples, calib.Config{}))
	for _, cfg := range []calib.Config{{Memory: 1, Threads: 3}, {Memory: 1, Batch: 4}, {Memory: 1 << 14, Threads: 4, Batch: 2}} {
		now := time.Duration(0)
		var spent calib.Spent
		if cfg.Threads == 0 {
			cfg.Clock, cfg.Spent = func() time.Duration { now++; return now }, &spent
		}
		require.Equal(t, want, encoded(t, run(t, g, samples, cfg)))
		if cfg.Clock != nil {
			require.Positive(t, spent.Forward)
			require.Positive(t, spent.Observe)
			require.LessOrEqual(t, spent.Forward+spent.Observe, now)
		}
	}
}
