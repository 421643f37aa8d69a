package observers

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph/tensor"
	"qwb/internal/longtest"
	"qwb/kernels/qmath"
	"qwb/quantizer/tqc"
)

func act(symmetric bool) tqc.Config {
	if symmetric {
		return tqc.Config{Policy: tqc.Symmetric | tqc.PerTensor | tqc.Linear, Format: qmath.Format{Bits: 8, QMin: -128, QMax: 127}}
	}
	return tqc.Config{Policy: tqc.Asymmetric | tqc.PerTensor | tqc.Linear, Format: qmath.Format{Bits: 8, QMin: 0, QMax: 255}}
}

func TestAllIsWhatTqcNames(t *testing.T) {
	var names []tqc.Observer
	for _, m := range All {
		names = append(names, m.Name)
		require.Same(t, m, Find(m.Name))
		require.NotEmpty(t, m.Doc)
	}
	require.ElementsMatch(t, tqc.Observers, names)
	require.Nil(t, Find(tqc.ObserverAuto))
}

// distributions are the shapes of activations the methods are judged on.
var distributions = []struct {
	name string
	draw func(r *rand.Rand) float64
}{
	{"gauss", func(r *rand.Rand) float64 { return r.NormFloat64() }},
	{"gauss+1", func(r *rand.Rand) float64 { return 1 + r.NormFloat64() }},
	{"laplace", func(r *rand.Rand) float64 { return r.ExpFloat64() * float64(1-2*r.IntN(2)) }},
	{"relu", func(r *rand.Rand) float64 { return max(0, r.NormFloat64()) }},
	{"heavy", func(r *rand.Rand) float64 { return r.NormFloat64() / math.Sqrt(r.ExpFloat64()) }}, // Student t, 2 degrees
	{"bimodal", func(r *rand.Rand) float64 { return 0.1*r.NormFloat64() + float64(3*r.IntN(2)) - 1 }},
	{"uniform", func(r *rand.Rand) float64 { return r.Float64()*3 - 1 }},
	{"negative", func(r *rand.Rand) float64 { return -r.ExpFloat64() }},
}

func draw(name string, seed uint64, n int) []float32 {
	r := rand.New(rand.NewPCG(seed, 99))
	for _, d := range distributions {
		if d.name == name {
			v := make([]float32, n)
			for i := range v {
				v[i] = float32(d.draw(r))
			}
			return v
		}
	}
	return nil
}

func stateOf(t testing.TB, v []float32) *State {
	st := New()
	_, err := st.Observe(tensor.FromF32(v, len(v)), -1)
	require.NoError(t, err)
	return st
}

// squaredError quantizes the values themselves.
func squaredError(t testing.TB, v []float32, r Range, cfg tqc.Config) float64 {
	scale, zp, _, err := qmath.ScaleFromRange(r.Lo, r.Hi, cfg.Scheme())
	require.NoError(t, err)
	g := qmath.Grid{Scale: scale, ZeroPoint: zp, QMin: cfg.QMin, QMax: cfg.QMax}
	q := make([]float32, len(v))
	g.FakeSlice(q, v)
	e := 0.0
	for i := range v {
		d := float64(v[i]) - float64(q[i])
		e += d * d
	}
	return e
}

// MSE comes within 0.5 % of the best of 4,096 evenly spaced thresholds evaluated on the values themselves, whichever way an
// asymmetric range is cut.
func TestMSEAgainstExhaustiveSearch(t *testing.T) {
	n, step := 5000, 1
	if !longtest.Wanted(t) {
		step = 8
	}
	for _, d := range distributions {
		v := draw(d.name, 21, n)
		st := stateOf(t, v)
		lo, hi := min(float64(st.Extent().Min), 0), max(float64(st.Extent().Max), 0)
		for _, symmetric := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/symmetric=%t", d.name, symmetric), func(t *testing.T) {
				cfg := act(symmetric)
				r, _, err := MSE.Range(st, cfg, 0)
				require.NoError(t, err)
				got := squaredError(t, v, r, cfg)
				best := math.Inf(1)
				for i := step; i <= 4096; i += step {
					f := float64(i) / 4096
					c := f * max(-lo, hi)
					best = min(best, squaredError(t, v, Range{max(lo, -c), min(hi, c)}, cfg))
					if !symmetric {
						best = min(best, squaredError(t, v, Range{lo * f, hi * f}, cfg))
					}
				}
				require.LessOrEqual(t, got, 1.005*best)
				t.Logf("error %.6g, best %.6g, ratio %.5f", got, best, got/best)
			})
		}
	}
}

// The error the histogram gives for a range is that of the values, also for other widths and at the ends of float32.
func TestExpectedErrorAgainstValues(t *testing.T) {
	for _, d := range distributions {
		for _, size := range []float64{1, 0x1p-100, 0x1p100} {
			v := draw(d.name, 22, 20000)
			for i := range v {
				v[i] *= float32(size)
			}
			st := stateOf(t, v)
			x := st.Extent()
			pos, neg := newMoments(st.hist, 0, max(float64(x.Max), 0)), newMoments(st.hist, 1, max(-float64(x.Min), 0))
			for _, bits := range []int{3, 4, 8} {
				cfg := act(false)
				cfg.Bits, cfg.QMax = bits, 1<<bits-1
				for _, f := range []float64{1, 0.7, 0.3} {
					r := Range{float64(x.Min) * f, float64(x.Max) * f}
					q, err := quantizerOf(r, cfg.Scheme())
					require.NoError(t, err)
					want := squaredError(t, v, r, cfg)
					require.InEpsilon(t, want, pos.error(q.scale, q.pos, math.Inf(1), 0, math.Inf(1))+neg.error(q.scale, q.neg, math.Inf(1), 0,
						math.Inf(1)), 0.01, "%s*%g %d bits %g", d.name, size, bits, f)
				}
			}
		}
	}
}

// Percentile is within 2^-10 relative of the exact quantile.
func TestPercentileAgainstSorting(t *testing.T) {
	for _, d := range distributions {
		for _, n := range []int{1, 2, 100, 30001} {
			v := draw(d.name, uint64(n), n)
			st := stateOf(t, v)
			sorted := slices.Clone(v)
			slices.Sort(sorted)
			abs := slices.Clone(v)
			for i := range abs {
				abs[i] = float32(math.Abs(float64(abs[i])))
			}
			slices.Sort(abs)
			for _, p := range []float64{0.9, 0.99, 0.999, 0.9999, 1} {
				rank := int(math.Ceil(p*float64(n))) - 1
				near := func(want float32, got float64) {
					t.Helper()
					require.InDelta(t, float64(want), got, math.Abs(float64(want))/1024, "%s n=%d p=%g", d.name, n, p)
				}
				r, _, err := Percentile.Range(st, act(false), p)
				require.NoError(t, err)
				near(sorted[rank], r.Hi)
				near(sorted[n-1-rank], r.Lo)
				r, _, err = Percentile.Range(st, act(true), p)
				require.NoError(t, err)
				near(abs[rank], max(-r.Lo, r.Hi))
				near(sorted[rank], st.Quantile(p))
			}
		}
	}
	_, _, err := Percentile.Range(stateOf(t, []float32{1}), act(true), 1.5)
	require.ErrorContains(t, err, "percentile 1.5")
}

// naiveKL is the definition, value by value and bin by bin, for values whose place in a bin does not matter.
func naiveKL(v []float32, g qmath.Grid, fold bool) float64 {
	s := float64(g.Scale)
	lo, hi := int(g.QMin-g.ZeroPoint)*klPerCode, int(g.QMax-g.ZeroPoint)*klPerCode
	if fold {
		lo = 0
	}
	p, in := make([]float64, hi-lo), make([]float64, hi-lo)
	for _, x := range v {
		f := float64(x)
		if fold {
			f = math.Abs(f)
		}
		if f == 0 {
			continue
		}
		bin := int(math.Floor(f / s * klPerCode))
		if bin >= lo && bin < hi {
			in[bin-lo]++
		}
		p[min(max(bin, lo), hi-1)-lo]++
	}
	code := func(i int) int { return int(math.Round((float64(lo+i) + 0.5) / klPerCode)) }
	sums, filled := map[int]float64{}, map[int]float64{}
	for i := range p {
		sums[code(i)] += in[i]
		if p[i] > 0 {
			filled[code(i)]++
		}
	}
	q := make([]float64, len(p))
	for i := range q {
		if p[i] > 0 {
			q[i] = sums[code(i)] / filled[code(i)]
		}
	}
	smooth := func(x []float64) {
		total, empty := 0.0, 0.0
		for _, c := range x {
			total += c
			if c == 0 {
				empty++
			}
		}
		for i := range x {
			if x[i] == 0 {
				x[i] = 1e-4 / total
			} else {
				x[i] *= (1 - 1e-4*empty/total) / total
			}
		}
	}
	n, largest := 0.0, 0.0
	for _, c := range p {
		n += c
		largest = max(largest, c)
	}
	noise := 0.0
	for _, k := range filled {
		noise += max(k-1, 0) / (2 * n)
	}
	if 2*largest > n {
		return math.NaN()
	}
	smooth(p)
	smooth(q)
	d := 0.0
	for i := range p {
		d += p[i] * math.Log(p[i]/q[i])
	}
	return d - noise
}

// Where every value lies in the middle of a bin of the fixed grid, and that inside one quarter step, the divergence is the
// naive one.
func TestKLAgainstDefinition(t *testing.T) {
	for _, symmetric := range []bool{true, false} {
		cfg := act(symmetric)
		for _, d := range distributions {
			v := draw(d.name, 23, 20000)
			largest := 0.0
			for _, x := range v {
				largest = max(largest, math.Abs(float64(x)))
			}
			for _, f := range []float64{1, 0.8, 0.3, 0.05} {
				t1 := largest * f
				lo, hi := float64(slices.Min(v)), float64(slices.Max(v))
				scale, zp, _, err := qmath.ScaleFromRange(max(lo, -t1), max(min(hi, t1), max(lo, -t1)), cfg.Scheme())
				require.NoError(t, err)
				g := qmath.Grid{Scale: scale, ZeroPoint: zp, QMin: cfg.QMin, QMax: cfg.QMax}
				// Away from the borders of quarter steps by more than a bin of the fixed grid can be wide.
				var w []float32
				for _, x := range v {
					place := math.Abs(float64(x)) / float64(scale) * klPerCode
					width := max(place, 1) / binsPerOctave
					if frac := place - math.Floor(place); frac > width && frac < 1-width {
						w = append(w, x)
					}
				}
				got, ok := newKLSearch(stateOf(t, w), symmetric).divergence(quantizer{float64(scale), int(zp - cfg.QMin), int(cfg.QMax - zp)})
				want := naiveKL(w, g, symmetric)
				require.Equal(t, !math.IsNaN(want), ok, "%s symmetric=%t at %g", d.name, symmetric, f)
				if ok {
					require.InDelta(t, want, got, 1e-9+1e-9*math.Abs(want), "%s symmetric=%t at %g", d.name, symmetric, f)
				}
			}
		}
	}
}

// The search returns the threshold of the grid with the least divergence.
func TestKLTriesEveryThreshold(t *testing.T) {
	for _, name := range []string{"gauss", "relu", "heavy"} {
		st := stateOf(t, draw(name, 24, 20000))
		lo, hi := float64(st.Extent().Min), float64(st.Extent().Max)
		r, _, err := KL.Range(st, act(false), 0)
		require.NoError(t, err)
		s := newKLSearch(st, false)
		best, at := math.Inf(1), 0.0
		for i := 1; i <= 2048; i++ {
			c := max(-lo, hi) * float64(i) / 2048
			q, err := quantizerOf(Range{max(lo, -c), min(hi, c)}, act(false).Scheme())
			require.NoError(t, err)
			if d, ok := s.divergence(q); ok && d < best {
				best, at = d, c
			}
		}
		require.InDelta(t, at, max(-r.Lo, r.Hi), 1e-12, name)
	}
}

// With light tails KL keeps nearly everything; an outlier is cut off however far away it is.
func TestKLBehaviour(t *testing.T) {
	r, _, err := KL.Range(stateOf(t, draw("uniform", 24, 50000)), act(false), 0)
	require.NoError(t, err)
	require.Greater(t, r.Hi-r.Lo, 2.9)
	for _, symmetric := range []bool{true, false} {
		for _, n := range []int{2000, 50000} {
			for _, name := range []string{"relu", "gauss"} {
				v := draw(name, 25, n)
				for _, outlier := range []float32{40, 400, 4000} {
					v[7] = outlier
					r, _, err := KL.Range(stateOf(t, v), act(symmetric), 0)
					require.NoError(t, err)
					require.Less(t, r.Hi, 6.0, "%s %d %g", name, n, outlier)
					require.Greater(t, r.Hi, 2.0, "%s %d %g", name, n, outlier)
				}
			}
		}
	}
	cfg := act(true)
	cfg.Bits, cfg.QMin, cfg.QMax = 16, -32768, 32767
	_, _, err = KL.Range(stateOf(t, []float32{1}), cfg, 0)
	require.ErrorContains(t, err, "at most 1024 codes")
}

// keeps reports whether the codes of the two largest values differ.
func keeps(g qmath.Grid, row []float32) bool {
	top := slices.Clone(row)
	slices.Sort(top)
	return g.Quantize(top[len(top)-1]) > g.Quantize(top[len(top)-2])
}

func TestIsotone(t *testing.T) {
	r := rand.New(rand.NewPCG(26, 1))
	for _, symmetric := range []bool{true, false} {
		cfg := act(symmetric)
		st, n := New(), 10
		var rows [][]float32
		for range 400 {
			row := make([]float32, n)
			sum := 0.0
			for i := range row {
				sum += math.Exp(3 * r.NormFloat64())
				row[i] = float32(math.Exp(3 * r.NormFloat64()))
			}
			for i := range row {
				row[i] = float32(float64(row[i]) / sum)
			}
			rows = append(rows, row)
			x := tensor.FromF32(row, 1, n)
			_, err := st.Observe(x, 1)
			require.NoError(t, err)
			require.NoError(t, st.ObserveRows(x, 1))
		}
		kept := func(rg Range) (n, promised int) {
			scale, zp, _, err := qmath.ScaleFromRange(rg.Lo, rg.Hi, cfg.Scheme())
			require.NoError(t, err)
			g := qmath.Grid{Scale: scale, ZeroPoint: zp, QMin: cfg.QMin, QMax: cfg.QMax}
			for _, row := range rows {
				top := slices.Clone(row)
				slices.Sort(top)
				l1, l2 := float64(top[len(top)-1]), float64(top[len(top)-2])
				k := keeps(g, row)
				if s := float64(scale); s < (l1-l2)*(1-1e-6) && l2 < s*(float64(cfg.QMax-zp)-0.5)*(1-1e-6) {
					require.True(t, k, "the condition promises that %v stays in order at %g", row, scale)
					promised++
				}
				if k {
					n++
				}
			}
			return n, promised
		}
		rg, _, err := Isotone.Range(st, cfg, 0)
		require.NoError(t, err)
		minmax, _, err := MinMax.Range(st, cfg, 0)
		require.NoError(t, err)
		_, got := kept(rg)
		_, base := kept(minmax)
		require.GreaterOrEqual(t, got, base)
		// No scale of a fine sweep promises noticeably more (the ends of a bin are 2^-10 apart).
		best := 0
		for i := 1; i <= 2000; i++ {
			_, p := kept(Range{0, minmax.Hi * float64(i) / 2000})
			best = max(best, p)
		}
		require.GreaterOrEqual(t, got, best-2)
	}
}

// PPQ's counter-example: at scale 1 the codes of 1.4 and 0.8 tie, so 1 is no scale for such rows.
func TestIsotoneRefusesPPQsCondition(t *testing.T) {
	require.False(t, keeps(qmath.Grid{Scale: 1, QMin: -128, QMax: 127}, []float32{1.4, 0.8}))
	st := New()
	x := tensor.FromF32([]float32{1.4, 0.8, 127, 0}, 2, 2)
	_, err := st.Observe(x, 1)
	require.NoError(t, err)
	require.NoError(t, st.ObserveRows(x, 1))
	r, warnings, err := Isotone.Range(st, act(true), 0)
	require.NoError(t, err)
	require.Empty(t, warnings)
	scale, _, _, err := qmath.ScaleFromRange(r.Lo, r.Hi, act(true).Scheme())
	require.NoError(t, err)
	require.Less(t, float64(scale), 0.6)
	require.Greater(t, float64(scale), 0.59)
	require.True(t, keeps(qmath.Grid{Scale: scale, QMin: -128, QMax: 127}, []float32{1.4, 0.8}))

	_, _, err = Isotone.Range(stateOf(t, []float32{1, 2}), act(true), 0)
	require.ErrorIs(t, err, ErrNoRows)
	_, _, err = Isotone.Range(stateOf(t, []float32{-1, 2}), act(true), 0)
	require.ErrorIs(t, err, ErrNegative)
}

// Rows are found along any axis of either layout.
func TestRowsAlongAxes(t *testing.T) {
	r := rand.New(rand.NewPCG(27, 1))
	v := make([]float32, 2*3*4*5)
	for i := range v {
		v[i] = r.Float32()
	}
	x := tensor.FromF32(v, 2, 3, 4, 5)
	for axis := range 4 {
		a, b := New(), New()
		require.NoError(t, a.ObserveRows(x, axis))
		require.NoError(t, b.ObserveRows(x.ToChannelsLast(), axis))
		require.Equal(t, encode(t, a), encode(t, b))
		n, _ := a.Rows()
		require.EqualValues(t, len(v)/x.Shape[axis], n)
	}
	ties := New()
	require.NoError(t, ties.ObserveRows(tensor.FromF32([]float32{1, 1, 0, 2, 1, 0}, 2, 3), 1))
	ordered, equal := ties.Rows()
	require.EqualValues(t, []uint64{1, 1}, []uint64{ordered, equal})
}

// Degenerate tensors give a range that qmath accepts, or one of the declared errors, for every method and policy.
func degenerate() map[string][]float32 {
	tiny := math.Float32frombits(3)
	return map[string][]float32{
		"one": {1}, "minus one": {-1}, "zeros": {0, 0}, "denormal": {tiny, 0}, "largest": {math.MaxFloat32, -math.MaxFloat32},
		"constant": slices.Repeat([]float32{0.3}, 1000), "far apart": {1e-30, 1e30}, "two": {-3, 5},
	}
}

func TestDegenerateTensors(t *testing.T) {
	for name, v := range degenerate() {
		st := stateOf(t, v)
		require.NoError(t, st.ObserveRows(tensor.FromF32(v, 1, len(v)), 1))
		for _, m := range All {
			for _, symmetric := range []bool{true, false} {
				for _, pow2 := range []bool{false, true} {
					cfg := act(symmetric)
					if pow2 {
						cfg.Policy |= tqc.PowerOf2
					}
					r, _, err := m.Range(st, cfg, 0)
					if m == Isotone && err != nil {
						require.True(t, err == ErrNoRows || err == ErrNegative, "%s: %v", name, err)
						continue
					}
					require.NoError(t, err, "%s %s", name, m.Name)
					_, _, _, err = qmath.ScaleFromRange(r.Lo, r.Hi, cfg.Scheme())
					require.NoError(t, err, "%s %s %v", name, m.Name, r)
					if m != Isotone {
						require.GreaterOrEqual(t, r.Lo, min(0, float64(st.Extent().Min)), "%s %s", name, m.Name)
						require.LessOrEqual(t, r.Hi, max(0, float64(st.Extent().Max)), "%s %s", name, m.Name)
					}
				}
			}
		}
	}
	for _, m := range All {
		_, _, err := m.Range(New(), act(true), 0)
		require.ErrorIs(t, err, ErrEmpty, m.Name)
		cfg := act(true)
		cfg.Policy = tqc.Symmetric | tqc.PerChannel | tqc.Linear
		_, _, err = m.Range(stateOf(t, []float32{1}), cfg, 0)
		if m == MinMax {
			require.NoError(t, err)
		} else {
			require.ErrorIs(t, err, ErrPerChannel, m.Name)
		}
	}
}

func BenchmarkRange(b *testing.B) {
	v := draw("laplace", 31, 1<<18)
	st := stateOf(b, v)
	for _, m := range All {
		if m == Isotone {
			continue
		}
		for _, symmetric := range []bool{true, false} {
			b.Run(fmt.Sprintf("method=%s/symmetric=%t", m.Name, symmetric), func(b *testing.B) {
				for range b.N {
					_, _, _ = m.Range(st, act(symmetric), 0)
				}
			})
		}
	}
}

// A program's own methods have names that no built-in one has, and are found beside them.
func TestOwn(t *testing.T) {
	mine := &Method{Name: "acme/mine", Range: MinMax.Range}
	require.NoError(t, Check([]*Method{mine}))
	require.Same(t, mine, Find("acme/mine(0.5)", mine))
	require.Nil(t, Find("acme/mine"))
	require.Same(t, MinMax, Find("minmax", mine))
	_, parameter, err := tqc.Observer("acme/mine(-0.5)").Split()
	require.NoError(t, err)
	require.Equal(t, -0.5, parameter)
	require.ErrorContains(t, Check([]*Method{mine, mine}), "stands twice")
	require.ErrorContains(t, Check([]*Method{{Name: "acme/mine"}}), "no function")
	for _, name := range []tqc.Observer{"mine", "minmax", "acme/", "/mine", "Acme/mine", "acme/mi/ne", "acme/mine(1)"} {
		require.ErrorContains(t, Check([]*Method{{Name: name, Range: MinMax.Range}}), "two words with a slash", name)
	}
	for _, wrong := range []tqc.Observer{"acme/mine(", "acme/mine(x)", "acme/mine(NaN)", "acme/mine(Inf)", "acme/mi ne", "a/b/c"} {
		require.Error(t, wrong.Valid(), wrong)
	}
}

// The figure that saves counting is below the divergence that counting gives, whatever the values are.
func TestKLBound(t *testing.T) {
	shapes := map[string]func(r *rand.Rand) float64{
		"normal":      (*rand.Rand).NormFloat64,
		"long tail":   func(r *rand.Rand) float64 { return math.Exp(1.5 * r.NormFloat64()) },
		"asymmetric":  func(r *rand.Rand) float64 { return r.ExpFloat64() - 0.2 },
		"few numbers": func(r *rand.Rand) float64 { return math.Round(3 * r.NormFloat64()) },
		"an outlier":  func(r *rand.Rand) float64 { return max(0, r.NormFloat64()) + 20*float64(r.IntN(5000)/4999) },
	}
	for name, shape := range shapes {
		for _, n := range []int{50, 2000, 20_000} {
			r := rand.New(rand.NewPCG(uint64(n), 1))
			x := tensor.New(tensor.Float32, n)
			for i := range n {
				x.Data.([]float32)[i] = float32(shape(r))
			}
			st := New()
			_, err := st.Observe(x, -1)
			require.NoError(t, err)
			lo, hi := st.extent.Min, st.extent.Max
			saved := 0
			for _, symmetric := range []bool{true, false} {
				s := newKLSearch(st, symmetric)
				scheme := act(symmetric).Scheme()
				for i := klThresholds; i > 0; i -= 7 {
					cut := float64(max(-lo, hi)) * float64(i) / klThresholds
					q, err := quantizerOf(Range{min(0, max(float64(lo), -cut)), max(0, min(float64(hi), cut))}, scheme)
					require.NoError(t, err)
					bound := s.atLeast(q)
					if d, ok := s.divergence(q); ok {
						require.LessOrEqual(t, bound, d, "%s, %d values, %+v", name, n, q)
					}
					if bound > 0.02 {
						saved++
					}
				}
			}
			require.True(t, n < 1000 || saved > 0, "%s, %d values: no threshold is saved", name, n)
		}
	}
}
