package qwb

import (
	"bytes"
	"context"
	"errors"
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
