package analysis

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/internal/longtest"
)

func TestUpperIsStudentsLimit(t *testing.T) {
	e := Estimate{Mean: 1, Error: 0.5, N: 10}
	require.InDelta(t, 1+0.5*1.833113, e.Upper(0.05), 1e-5) // tables: t(9; 0.95) = 1.833113
	require.InDelta(t, 1-0.5*1.833113, e.Lower(0.05), 1e-5)
	require.InDelta(t, 1+0.5*6.313752, Estimate{Mean: 1, Error: 0.5, N: 2}.Upper(0.05), 1e-5)
	require.Equal(t, math.Inf(1), NewEstimate([]float64{1}).Upper(0.05))
	require.Equal(t, math.Inf(1), NewEstimate(nil).Upper(0.05))
	require.Equal(t, math.Inf(1), NewEstimate([]float64{1, math.NaN()}).Upper(0.05))
}

func TestAttemptsTogetherTakeTheRisk(t *testing.T) {
	sum := 0.0
	for n := range 40 {
		sum += Attempt(n)
	}
	require.LessOrEqual(t, sum, ClaimRisk)
	require.InDelta(t, ClaimRisk, sum, 1e-9)
}

func TestGuardedIsBonettAndPrice(t *testing.T) {
	// 100 pairs, 6 lost and 2 won.
	d := make([]float64, 100)
	for i := range 6 {
		d[i] = 1
	}
	d[6], d[7] = -1, -1
	e := Guarded(d, 1)
	lost, won := 7.0/102, 3.0/102
	require.InDelta(t, lost-won, e.Mean, 1e-12)
	require.InDelta(t, math.Sqrt((lost+won-(lost-won)*(lost-won))/101), e.Error, 1e-12) // over n-1: the sample's own variance
	// nothing happened in 40 samples: 5 points are possible
	require.Greater(t, Guarded(make([]float64, 40), 1).Upper(0.05), 0.05)
}

// Of answers of which 1.5 % become wrong and 0.7 % right, claims that the drop is below a limit at the truth are wrong in at most 5 %.
func TestClaimsAreSeldomWrong(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{150, 500, 1500} {
		wrong := 0
		const rounds = 4000
		for range rounds {
			d := make([]float64, n)
			for i := range d {
				switch u := rng.Float64(); {
				case u < 0.015:
					d[i] = 1
				case u < 0.022:
					d[i] = -1
				}
			}
			if Guarded(d, 1).Upper(ClaimRisk) <= 0.008 {
				wrong++
			}
		}
		t.Logf("%d samples: %.2f %% of claims wrong", n, 100*float64(wrong)/rounds)
		require.Less(t, float64(wrong)/rounds, 0.06)
	}
}

func TestCanFallIsWhatNoOtherValuesChange(t *testing.T) {
	require.True(t, CanFall(nil, 8, 0.0125))
	require.True(t, CanFall([]float64{1, 2}, 8, 0.0125), "six others far below")
	require.False(t, CanFall([]float64{0.1, 0.2, 0.3, 0.1}, 8, 0.0125), "four of eight are above")
	require.False(t, CanFall(nil, 1, 0.0125))
	rng, tries := rand.New(rand.NewPCG(1, 2)), 3000
	if !longtest.Wanted(t) {
		tries = 300
	}
	for range tries {
		n := 2 + rng.IntN(12)
		known, risk := make([]float64, rng.IntN(n+1)), 0.001+0.1*rng.Float64()
		for i := range known {
			known[i] = rng.NormFloat64() - 1
		}
		falls := func(x float64) bool {
			all := append([]float64{}, known...)
			for len(all) < n {
				all = append(all, x)
			}
			return NewEstimate(all).Upper(risk) < 0
		}
		some := falls(-1e6)
		for x := -20.0; x < 0; x += 0.01 {
			some = some || falls(x)
		}
		if some {
			require.True(t, CanFall(known, n, risk), "%v of %d at %g", known, n, risk)
		} else if CanFall(known, n, risk) {
			require.True(t, falls(-1e9) || len(known) == n || nearly(known, n, risk), "%v of %d at %g", known, n, risk)
		}
	}
}

// nearly reports whether values between those that were tried do what none of them does, by a limit that is next to zero.
func nearly(known []float64, n int, risk float64) bool {
	least := math.Inf(1)
	for x := -200.0; x < 0; x += 0.001 {
		all := append([]float64{}, known...)
		for len(all) < n {
			all = append(all, x)
		}
		least = min(least, NewEstimate(all).Upper(risk))
	}
	return least < 1e-3
}
