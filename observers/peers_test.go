package observers

import (
	"encoding/json"
	"math"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/kernels/qmath"
	"qwb/quantizer/tqc"
)

// splitMix is the values that examples/evidence/peer_ranges.py makes up.
func splitMix(n int, seed uint64) []float64 {
	u := make([]float64, n)
	for i := range u {
		z := (uint64(i) + seed<<32) * 0x9E3779B97F4A7C15
		z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
		z = (z ^ z>>27) * 0x94D049BB133111EB
		u[i] = float64((z^z>>31)>>11) / (1 << 53)
	}
	return u
}

func peerValues(name string) []float32 {
	const n = 20000
	g := splitMix(n, 1)
	for seed := uint64(2); seed < 13; seed++ {
		for i, v := range splitMix(n, seed) {
			g[i] += v
		}
	}
	u, out := splitMix(n, 20), make([]float32, n)
	for i, v := range u {
		x := g[i] - 6
		switch name {
		case "relu":
			x = max(x, 0)
		case "heavy":
			x /= v + 0.02
		case "uniform":
			x = float64(3*v) - 1
		case "negative":
			x = -v / (1.02 - v)
		case "shifted":
			x = 4 + x/2
		case "sparse":
			if v >= 0.03 {
				x = 0
			}
		case "outlier":
			if i == n/3 {
				x = 60
			}
		}
		out[i] = float32(x)
	}
	return out
}

// golden is what the tools themselves choose, written by peer_ranges.py --golden.
type golden struct {
	Values    string
	Observer  tqc.Observer
	Symmetric bool
	Lo, Hi    float64
}

func goldens(t *testing.T) (list []golden) {
	b, err := os.ReadFile("testdata/peers.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(b, &list))
	return list
}

// peerBounds is by how much a range may differ from the tool's on the made-up values, as a share of its larger end: nothing where the
// choice does not depend on bins, two bins of the tool or one of the state otherwise.
var peerBounds = map[tqc.Observer]float64{
	"onnxruntime/entropy":       1e-7,
	"onnxruntime/entropy(2048)": 2.0 / 1024,
	"onnxruntime/percentile":    2.0 / 2048,
	"modelopt/entropy":          1e-7,
	"tensorrt/entropy":          2.0 / 2048,
	"ppq/percentile":            1.0 / 1024,
	"ppq/kl":                    1e-7,
	"ppq/mse":                   1e-7,
}

// What lies in bins wider than the tool's decides between two thresholds here that are nearly as good as each other.
var undecided = map[string]bool{"onnxruntime/entropy(2048) negative": true, "tensorrt/entropy sparse": true}

func TestPeersAgainstTheTools(t *testing.T) {
	for _, w := range goldens(t) {
		m := Find(w.Observer)
		require.NotNil(t, m, w.Observer)
		_, parameter, err := w.Observer.Split()
		require.NoError(t, err)
		got, _, err := m.Range(stateOf(t, peerValues(w.Values)), act(w.Symmetric), parameter)
		require.NoError(t, err)
		name := string(w.Observer) + " " + w.Values
		off := max(math.Abs(got.Lo-w.Lo), math.Abs(got.Hi-w.Hi)) / max(math.Abs(w.Lo), math.Abs(w.Hi))
		require.Equal(t, !undecided[name], off <= peerBounds[w.Observer], "%s: %v instead of [%g, %g]: %g", name, got, w.Lo, w.Hi, off)
	}
}

// Given the tool's own bins, the searches find the tool's own threshold, whatever the values.
func TestPeersOnTheToolsBins(t *testing.T) {
	bins := func(v []float32, n int, lo, hi float64, abs bool) []float64 {
		counts := make([]float64, n)
		for _, x := range v {
			at := float64(x)
			if abs {
				at = math.Abs(at)
			}
			counts[min(int((at-lo)/(hi-lo)*float64(n)), n-1)]++
		}
		return counts
	}
	for _, w := range goldens(t) {
		v := peerValues(w.Values)
		st := stateOf(t, v)
		top := st.largest()
		var got Range
		switch w.Observer {
		case "onnxruntime/entropy(2048)":
			from, to := ortSearch(bins(v, 2048, -top, top, false))
			got = Range{max(top*(float64(from)/1024-1), float64(st.extent.Min)), min(top*(float64(to)/1024-1), float64(st.extent.Max))}
		case "tensorrt/entropy":
			got = st.cut(top * float64(trtSearch(bins(v, trtBins, 0, top, true), 128)) / trtBins)
		default:
			continue
		}
		require.InDelta(t, w.Lo, got.Lo, 1e-6*top, "%s %s", w.Observer, w.Values)
		require.InDelta(t, w.Hi, got.Hi, 1e-6*top, "%s %s", w.Observer, w.Values)
	}
}

// linear counts what lies between two borders, but for what shares a bin of the state with one of them.
func TestLinearCounts(t *testing.T) {
	for _, d := range distributions {
		v := draw(d.name, 5, 30000)
		st := stateOf(t, v)
		lo, hi, top := float64(st.extent.Min), float64(st.extent.Max), st.largest()
		for _, n := range []int{16, 300} {
			counts, abs := st.linear(n, lo, hi), st.linearAbs(n, 0, top)
			require.EqualValues(t, len(v), sum(counts))
			require.EqualValues(t, len(v), sum(abs))
			for i := range n {
				for _, of := range []struct {
					counts []float64
					lo, hi float64
					abs    bool
				}{{counts, lo, hi, false}, {abs, 0, top, true}} {
					edge := of.lo + (of.hi-of.lo)*float64(i+1)/float64(n)
					near, below := math.Abs(edge)/1024, 0.0
					least, most := 0.0, 0.0
					for _, x := range v {
						at := float64(x)
						if of.abs {
							at = math.Abs(at)
						}
						if at < edge-near {
							least++
						}
						if at < edge+near || i == n-1 {
							most++
						}
					}
					below = sum(of.counts[:i+1])
					require.True(t, least <= below && below <= most, "%s, %d bins: %g values below %g, not %g to %g", d.name, n, below, edge, least, most)
				}
			}
		}
	}
}

func TestPeersOfDegenerateTensors(t *testing.T) {
	for _, m := range Peers() {
		for name, v := range degenerate() {
			for _, symmetric := range []bool{true, false} {
				st := stateOf(t, v)
				st.SetSampleMean(MeanOf(st.extent))
				r, _, err := m.Range(st, act(symmetric), 0)
				if m == ppqKL && !symmetric {
					require.ErrorContains(t, err, "symmetric schemes only")
					continue
				}
				require.NoError(t, err, "%s %s", name, m.Name)
				require.LessOrEqual(t, r.Lo, r.Hi, "%s %s", name, m.Name)
				_, _, _, err = qmath.ScaleFromRange(r.Lo, r.Hi, act(symmetric).Scheme())
				require.NoError(t, err, "%s %s %v", name, m.Name, r)
			}
		}
		_, _, err := m.Range(New(), act(true), 0)
		require.ErrorIs(t, err, ErrEmpty, m.Name)
		if m != ortMinMax && m != nncfMean {
			cfg := act(true)
			cfg.Policy = tqc.Symmetric | tqc.PerChannel | tqc.Linear
			_, _, err = m.Range(stateOf(t, []float32{1}), cfg, 0)
			require.ErrorIs(t, err, ErrPerChannel, m.Name)
		}
	}
}

func TestPeersAreApart(t *testing.T) {
	for _, m := range Peers() {
		require.True(t, m.Name.Own(), m.Name)
		require.NoError(t, m.Name.Valid())
		require.NotEmpty(t, m.Doc)
		require.Nil(t, findIn(All, m.Name), "automatic choice would try it")
		require.Equal(t, m.Name, Find(m.Name).Name)
		require.ErrorContains(t, Check([]*Method{{Name: m.Name, Range: m.Range}}), "stands twice")
		_, _, err := m.Range(stateOf(t, []float32{1, 2}), act(true), 1.5)
		require.Error(t, err, m.Name)
	}
}

func findIn(list []*Method, name tqc.Observer) *Method {
	for _, m := range list {
		if m.Name == name {
			return m
		}
	}
	return nil
}
