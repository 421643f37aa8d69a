package qwb

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"qwb/internal/graphtest"
	"qwb/internal/work/planning"
)

// TestAnInterruptEndsOpening: a model is brought into its normal form, and a plan that was edited by hand is derived to say what to decide
// instead; both are ended.
func TestAnInterruptEndsOpening(t *testing.T) {
	store := new(Memory)
	p := place(t, store, "m", 3)
	calibrateOn(t, p, "m")
	normal := 0
	for ; ; normal++ {
		_, err := p.job().In(graphtest.NewEnding(normal)).OpenNormal("m.onnx")
		if err == nil {
			break
		}
		require.ErrorIs(t, err, context.Canceled)
	}
	require.Positive(t, normal)
	b, _ := store.Read(p.Plan)
	at := bytes.Index(b, []byte(`"scale":`))
	require.Positive(t, at)
	store.Write(p.Plan, bytes.Replace(b, b[at:at+10], append(b[at:at+8:at+8], ' ', '9'), 1))
	for n := 0; ; n++ {
		require.Less(t, n, 10000)
		_, err := planning.OpenPlan(p.job().In(graphtest.NewEnding(n)), p.Plan)
		require.Error(t, err)
		if !errors.Is(err, context.Canceled) {
			require.ErrorContains(t, err, "edited by hand")
			require.Greater(t, n, normal, "only the normal form was ended")
			break
		}
	}
}

// A calibration on other data that is interrupted leaves the plan its statistics, and goes on from its own.
func TestInterruptedStatisticsLieBesideThoseOfThePlan(t *testing.T) {
	store := new(Memory)
	p := place(t, store, "m", 3)
	calibrateOn(t, p, "m")
	before, _ := store.Read("m.stats")
	for _, name := range store.Names() {
		if b, _ := store.Read(name); strings.HasPrefix(name, "m/") {
			other := bytes.Clone(b)
			other[len(other)-1] ^= 1
			store.Write("o/"+strings.TrimPrefix(name, "m/"), other)
		}
	}
	o := CalibrateOptions{Platform: "trt_int8", Data: DataOptions{Paths: []string{"o"}}, Threads: 1}
	for n := 0; ; n++ {
		require.Less(t, n, 3000, "it kept nothing")
		_, _, err := p.Calibrate(graphtest.NewEnding(n), o)
		require.ErrorIs(t, err, context.Canceled)
		if _, kept := store.Read("m.part.stats"); kept {
			break
		}
	}
	after, _ := store.Read("m.stats")
	require.Equal(t, before, after)
	_, _, err := p.Set(t.Context(), "conv1", []string{"domain=fp32"}, 1)
	require.NoError(t, err)
	_, _, err = p.Calibrate(t.Context(), o)
	require.NoError(t, err)
	after, _ = store.Read("m.stats")
	require.NotEqual(t, before, after)
}
