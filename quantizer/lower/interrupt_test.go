package lower_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/internal/graphtest"
	"qwb/kernels/qmath"
	"qwb/quantizer/lower"
	"qwb/quantizer/lower/lowertest"
	"qwb/quantizer/target"
)

// TestAnInterruptEndsLowering: it asks before every unit, since weights are made into codes there.
func TestAnInterruptEndsLowering(t *testing.T) {
	g, set, _ := lowertest.Configured(t, lowertest.Networks["linear"], "trt_int8")
	profile, err := qmath.ProfileNamed("trt")
	require.NoError(t, err)
	for n := 0; ; n++ {
		p, err := lower.CompileBy(g, set, &target.TRTInt8, profile, lower.Options{Context: graphtest.NewEnding(n)})
		if err == nil {
			require.GreaterOrEqual(t, n, len(p.Steps)/2)
			return
		}
		require.ErrorIs(t, err, context.Canceled)
	}
}
