package analysis

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestGate(t *testing.T) {
	for name, c := range map[string]struct {
		e      Estimate
		strict bool
		want   string
		note   string
	}{
		"below, and shown": {Estimate{0.2, 0.1, 500}, false, GatePassed, ""},
		"below, not shown": {Estimate{0.8, 0.4, 500}, false, GateNoted, "undecided: 0.80 pp ± 0.40 pp against 1.00 pp; " +
			"500 samples decide differences of about 0.66 pp; about 7686"},
		"below, one sample":            {Estimate{0.8, math.Inf(1), 1}, false, GateNoted, "one sample shows nothing"},
		"below, strictly":              {Estimate{0.8, 0.4, 500}, true, GateNoted, "would"},
		"at the limit":                 {Estimate{1, 0, 500}, false, GatePassed, ""},
		"above, within the noise":      {Estimate{1.5, 0.4, 500}, false, GateNoted, "within the noise of 500 samples"},
		"above, within it, strictly":   {Estimate{1.5, 0.4, 500}, true, GateFailed, "above the limit by 0.50 pp"},
		"above, beyond the noise":      {Estimate{1.5, 0.2, 500}, false, GateFailed, "above the limit by 0.50 pp"},
		"above, too few to call noise": {Estimate{25, 25, 4}, false, GateFailed, "4 samples are too few"},
		"not defined":                  {Estimate{math.NaN(), 1, 500}, false, GateFailed, "not defined"},
	} {
		got := Gate("drop", c.e, 0, 1, "pp", c.strict)
		require.Equal(t, c.want, got.Verdict, name)
		require.Contains(t, got.Note, c.note, name)
	}
}

// A change that costs exactly what the limit allows is failed by chance about once in twenty times; one that costs two points more is
// found.
func TestGateErrsOnceInTwenty(t *testing.T) {
	g := rand.New(rand.NewPCG(3, 4))
	failed := func(drop float64) (n int) {
		for range 1000 {
			var d []float64
			for range 800 {
				x := g.Float64()
				switch {
				case x < 0.03+drop/100:
					d = append(d, 100)
				case x > 0.97:
					d = append(d, -100)
				default:
					d = append(d, 0)
				}
			}
			if Gate("drop", NewEstimate(d), 100, 1, "pp", false).Verdict == GateFailed {
				n++
			}
		}
		return n
	}
	require.InDelta(t, 50, failed(1), 25)
	require.Greater(t, failed(4), 780)
}

// Samples of which none or few changed do not show that others do not.
func TestGateDoesNotTakeNoChangeForCertainty(t *testing.T) {
	answers := func(n int, changed ...float64) []float64 { return append(make([]float64, n-len(changed)), changed...) }
	for _, d := range [][]float64{answers(12), answers(120, 100), answers(500, 100, 100, -100)} {
		e, want := NewEstimate(d), Guarded(d, 100)
		got := e.guarded(100)
		require.InDelta(t, want.Mean, got.Mean, 1e-9)
		require.InDelta(t, want.Error, got.Error, 1e-9)
		require.Equal(t, want.N, got.N)
	}
	got := Gate("drop", NewEstimate(answers(12)), 100, 1, "pp", false)
	require.Equal(t, GateNoted, got.Verdict)
	require.Equal(t, "undecided: 0.00 pp ± 0.00 pp against 1.00 pp; 12 samples decide differences of about 18.56 pp; "+
		"about 277 samples would decide this one", got.Note)
	near := Gate("drop", NewEstimate(answers(120, 100)), 100, 0.84, "pp", false)
	require.NotContains(t, near.Note, "would decide", "near the limit the number is beyond all bounds")
	require.Contains(t, near.Note, "undecided: 0.83 pp ± 0.83 pp against 0.84 pp; 120 samples decide differences of about ")
	require.Equal(t, GatePassed, Gate("drop", NewEstimate(answers(277)), 100, 1, "pp", false).Verdict)
}
