package observers

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph/tensor"
	"qwb/kernels/qmath"
	"qwb/quantizer/tqc"
)

// truncated is squaredError where no value that is clipped counts for more than limit squared.
func truncated(t testing.TB, v []float32, r Range, cfg tqc.Config, limit float64) float64 {
	scale, zp, _, err := qmath.ScaleFromRange(r.Lo, r.Hi, cfg.Scheme())
	require.NoError(t, err)
	g := qmath.Grid{Scale: scale, ZeroPoint: zp, QMin: cfg.QMin, QMax: cfg.QMax}
	q := make([]float32, len(v))
	g.FakeSlice(q, v)
	e := 0.0
	for i := range v {
		d := float64(v[i]) - float64(q[i])
		e += min(d*d, limit*limit)
	}
	return e
}

// typicalOf is the fixed point that Robust's doc names, by bisection on the values themselves.
func typicalOf(v []float32, k float64) float64 {
	mean := func(s float64) float64 {
		sum, n := 0.0, 0.0
		for _, x := range v {
			if x != 0 {
				sum, n = sum+min(float64(x)*float64(x), k*k*s*s), n+1
			}
		}
		return math.Sqrt(sum / n)
	}
	lo, hi := 0.0, mean(math.Inf(1))
	for range 100 {
		if m := (lo + hi) / 2; mean(m) >= m {
			lo = m
		} else {
			hi = m
		}
	}
	return hi
}

// Robust comes within 1 % of the best of 1,024 evenly spaced thresholds evaluated on the values themselves, with and without spikes.
func TestRobustAgainstExhaustiveSearch(t *testing.T) {
	for _, d := range distributions {
		for _, spikes := range []int{0, 20} {
			v := draw(d.name, 21, 5000)
			r := rand.New(rand.NewPCG(3, 3))
			for i := range spikes {
				v[i*100] = float32(20 + 10*r.Float64())
			}
			st := stateOf(t, v)
			for _, k := range []float64{0, 2, 5} {
				for _, symmetric := range []bool{true, false} {
					cfg := act(symmetric)
					what := fmt.Sprintf("%s with %d spikes, k %g, symmetric %t", d.name, spikes, k, symmetric)
					got, _, err := Robust.Range(st, cfg, k)
					require.NoError(t, err)
					at := k
					if at == 0 {
						at = DefaultRobust
					}
					limit := at * typicalOf(v, at)
					lo, hi := min(float64(st.Extent().Min), 0), max(float64(st.Extent().Max), 0)
					require.InEpsilon(t, limit, at*typical(newMoments(st.hist, 0, hi), newMoments(st.hist, 1, -lo), at), 1e-3, what)
					best := math.Inf(1)
					for i := 4; i <= 1024; i++ {
						c := float64(i) / 1024 * max(-lo, hi)
						best = min(best, truncated(t, v, Range{max(lo, -c), min(hi, c)}, cfg, limit))
					}
					require.LessOrEqual(t, truncated(t, v, got, cfg, limit), 1.01*best, what)
					if spikes == 0 && d.name != "heavy" && k != 2 && k*typicalOf(v, at) >= max(-lo, hi) {
						m, _, err := MSE.Range(st, cfg, 0)
						require.NoError(t, err)
						require.Equal(t, m, got, "%s: nothing lies beyond the limit", what)
					}
				}
			}
		}
	}
}

// A few spikes do not make a picture coarse, however far away they lie, and where one in ten channels reaches as far they are no spikes.
func TestRobustOfSpikes(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	picture := func(channels, loud int, far float32) *State {
		const size = 4096
		v := make([]float32, channels*size)
		for i := range v {
			v[i] = float32(0.05 * math.Abs(r.NormFloat64()))
			if i%size%2000 == 7 && i/size < loud {
				v[i] = far
			}
		}
		st := New()
		_, err := st.Observe(tensor.FromF32(v, 1, channels, size), 1)
		require.NoError(t, err)
		return st
	}
	ends := func(st *State) (robust, mse float64) {
		a, _, err := Robust.Range(st, act(true), 0)
		require.NoError(t, err)
		b, _, err := MSE.Range(st, act(true), 0)
		require.NoError(t, err)
		return a.Hi, b.Hi
	}
	near, mse := ends(picture(1, 1, 3))
	require.Less(t, near, 0.4)
	require.Greater(t, mse, 2.5)
	far, mse := ends(picture(1, 1, 100))
	require.InEpsilon(t, near, far, 0.3)
	require.Greater(t, mse, 80.0)

	robust, _ := ends(picture(20, 1, 3))
	require.Less(t, robust, 0.4, "one channel of 20")
	robust, mse = ends(picture(20, 2, 3))
	require.Equal(t, mse, robust, "one in ten channels reaches as far")
	_, _, err := Robust.Range(picture(1, 1, 1), act(true), 1)
	require.ErrorContains(t, err, "only above 1")
}
