package verify_test

import (
	"math/bits"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/quantizer/program"
)

// The pairs counted on data are those that the saturating profile saturates: where none does, its integers are those of the exact
// profile, and where one does, the step's accumulators are off in exactly the affected places or fewer, as saturations may cancel.
func TestSaturationsAreThoseOfTheSaturatingProfile(t *testing.T) {
	seen := false
	for _, name := range []string{"squeezenet", "resnet", "matrices", "windows", "moves"} {
		l, err := compile(t, networkText(name), "onnxruntime", "avx2-saturating")
		require.NoError(t, err)
		v := l.verify(t, program.Reference)
		require.True(t, v.Measured)
		at := map[string]int64{}
		for _, c := range v.PerTensor {
			at[c.Node] += c.Different
		}
		for _, s := range v.Safety {
			require.True(t, s.Fits)
			if s.Saturated == 0 {
				require.Zero(t, s.Affected)
				require.Zero(t, at[s.Node], "%s: %+v", name, s)
				continue
			}
			seen = true
			require.LessOrEqual(t, s.Affected, s.Saturated)
			require.LessOrEqual(t, at[s.Node], s.Affected, "%s: %+v", name, s)
			require.NotEmpty(t, s.Cure)
		}
	}
	require.True(t, seen, "nothing saturated")
}

// Bits are the fewest that hold the bounds, and the pairs at risk are those that lowering counted.
func TestSafetyRows(t *testing.T) {
	l, err := compile(t, networkText("squeezenet"), "onnxruntime", "ort")
	require.NoError(t, err)
	v := l.verify(t, program.Reference)
	require.Len(t, v.Safety, len(l.p.Safety))
	for i, s := range l.p.Safety {
		require.Equal(t, int64(s.Saturates()), v.Safety[i].AtRisk)
		most := int64(0)
		for c := range s.Min {
			most = max(most, s.Max[c], -s.Min[c]-1)
		}
		require.Equal(t, bits.Len64(uint64(most))+1, v.Safety[i].Bits)
	}
}
