package round

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/kernels/qmath"
)

// sample is a problem of correlated inputs: n rows of k numbers, mixed by a random matrix; with a mean if shift is not 0.
func sample(seed uint64, rows, k, n int, shift float64) *Problem {
	r := rand.New(rand.NewPCG(seed, 0))
	mix := make([]float64, k*k)
	for i := range mix {
		mix[i] = r.NormFloat64()
	}
	p := &Problem{K: k, H: make([]float64, k*k), W: make([]float64, rows*k)}
	x := make([]float64, k)
	for range n {
		clear(x)
		for i := range k {
			z := r.NormFloat64()
			for j := range k {
				x[j] += z * mix[i*k+j] / (1 + float64(i))
			}
		}
		for i := range k {
			x[i] += shift
		}
		for i := range k {
			for j := range k {
				p.H[i*k+j] += x[i] * x[j]
			}
		}
	}
	for i := range p.W {
		p.W[i] = r.NormFloat64()
	}
	return p
}

// perRow gives p symmetric grids of bits by row.
func perRow(p *Problem, bits int) *Problem {
	list := make([]qmath.Grid, p.Rows())
	for r := range list {
		largest := 0.0
		for _, w := range p.W[r*p.K:][:p.K] {
			largest = max(largest, math.Abs(w))
		}
		m := int32(1)<<(bits-1) - 1
		list[r] = qmath.Grid{Scale: float32(largest / float64(m)), QMin: -m, QMax: m}
	}
	p.Grids = PerRow(list, p.Rows(), p.K)
	return p
}

func form(p *Problem, h []float64, codes []int32, r int) (sum float64) {
	for i := range p.K {
		for j := range p.K {
			sum += (p.W[r*p.K+i] - p.Value(codes, r, i)) * h[i*p.K+j] * (p.W[r*p.K+j] - p.Value(codes, r, j))
		}
	}
	return sum
}

// damped is what a factor is of.
func damped(p *Problem, f *Factor) []float64 {
	h, mean := append([]float64(nil), p.H...), 0.0
	for i := range p.K {
		mean += p.H[i*p.K+i] / float64(p.K)
	}
	for i := range p.K {
		h[i*p.K+i] += f.Damp * mean
	}
	return h
}

func TestFactorIsOfTheMoments(t *testing.T) {
	for _, k := range []int{1, 5, 64, 65, 200} {
		for _, order := range []Order{Falling, Natural} {
			p := sample(1, 1, k, 2*k+3, 0)
			f, err := NewFactor(p.H, k, 0.01, order, 3)
			require.NoError(t, err)
			require.Equal(t, 0.01, f.Damp)
			h := damped(p, f)
			for a, i := range f.place {
				for b, j := range f.place {
					sum := 0.0
					for c := range min(a, b) + 1 {
						sum += f.l[a*k+c] * f.l[b*k+c]
					}
					require.InDelta(t, h[i*k+j], sum, 1e-9*math.Sqrt(h[i*k+i]*h[j*k+j]))
				}
			}
			if order == Falling {
				for a := range k - 1 {
					require.LessOrEqual(t, p.H[f.place[a]*k+f.place[a]], p.H[f.place[a+1]*k+f.place[a+1]])
				}
			}
		}
	}
}

func TestDampingIsRaisedUntilItSucceeds(t *testing.T) {
	p := sample(2, 1, 20, 7, 0) // rank 7
	f, err := NewFactor(p.H, 20, 0, Falling, 1)
	require.NoError(t, err)
	require.Equal(t, Damping, f.Damp)

	p.H[3*20+3] = math.NaN()
	_, err = NewFactor(p.H, 20, 0.01, Falling, 1)
	require.ErrorIs(t, err, ErrMoments)
	p.H[3*20+3] = 1
	p.H[3*20+4], p.H[4*20+3] = math.NaN(), math.NaN()
	_, err = NewFactor(p.H, 20, 0.01, Falling, 1)
	require.ErrorIs(t, err, ErrMoments)
	_, err = NewFactor(p.H, 21, 0.01, Falling, 1)
	require.Error(t, err)
}

// The recursion in triangular form gives the codes of the published one, which takes errors forward by the rows of the upper Cholesky
// factor of the inverse.
func TestRoundIsGPTQ(t *testing.T) {
	const k = 12
	p := perRow(sample(3, 6, k, 40, 0.5), 4)
	f, err := NewFactor(p.H, k, 0.01, Natural, 1)
	require.NoError(t, err)
	inverse := invert(damped(p, f), k)
	// OBQ in a fixed order: after a weight is fixed, the others move by the column of the inverse, from which it is then eliminated.
	want := make([]int32, len(p.W))
	for r := range p.Rows() {
		w, inv := append([]float64(nil), p.W[r*k:][:k]...), append([]float64(nil), inverse...)
		for i := range k {
			g := p.Grids.At(r, i)
			want[r*k+i] = g.Quantize(float32(w[i]))
			e := (w[i] - float64(g.Dequantize(want[r*k+i]))) / inv[i*k+i]
			column := make([]float64, k)
			for j := range k {
				column[j] = inv[j*k+i]
			}
			for j := range k {
				w[j] -= e * column[j]
				for c := range k {
					inv[j*k+c] -= column[j] * column[c] / column[i]
				}
			}
		}
	}
	codes, loss := f.Round(p)
	require.Equal(t, want, codes)
	require.NotEqual(t, p.Nearest(), codes)
	for r, l := range f.Loss(p, codes) {
		require.InEpsilon(t, l, loss[r], 1e-9)
		require.InEpsilon(t, form(p, damped(p, f), codes, r), l, 1e-9)
	}
}

func invert(h []float64, k int) []float64 {
	a := append([]float64(nil), h...)
	out := make([]float64, k*k)
	for i := range k {
		out[i*k+i] = 1
	}
	for i := range k {
		for j := range k {
			if j == i {
				continue
			}
			x := a[j*k+i] / a[i*k+i]
			for c := range k {
				a[j*k+c] -= x * a[i*k+c]
				out[j*k+c] -= x * out[i*k+c]
			}
		}
		x := a[i*k+i]
		for c := range k {
			a[i*k+c] /= x
			out[i*k+c] /= x
		}
	}
	return out
}

func TestDescentNeverRaisesTheForm(t *testing.T) {
	for seed := range uint64(4) {
		p := perRow(sample(seed, 9, 70, 300, 1), 4)
		f, err := NewFactor(p.H, p.K, 0.01, Falling, 1)
		require.NoError(t, err)
		nearest := p.Loss(p.Nearest())
		codes, _ := f.Round(p)
		rounded := p.Loss(codes)
		after := p.Descend(codes, Sweeps)
		for r := range p.Rows() {
			require.InEpsilon(t, form(p, p.H, codes, r), after[r], 1e-6)
			require.LessOrEqual(t, after[r], rounded[r]*(1+1e-9))
			require.Less(t, after[r], nearest[r])
		}
		again := append([]int32(nil), codes...)
		p.Descend(again, Sweeps)
		for i, c := range codes {
			g := p.Grids.At(i/p.K, i%p.K)
			require.True(t, c >= g.QMin && c <= g.QMax)
		}
	}
}

// Exact finds what trying all codes of small grids finds.
func TestExactIsBruteForce(t *testing.T) {
	for seed := range uint64(6) {
		const k = 6
		p := sample(seed, 3, k, 30, 0.3)
		list := []qmath.Grid{{Scale: 0.7, QMin: -1, QMax: 2}, {Scale: 0.4, QMin: -1, QMax: 1}, {Scale: 0.5, ZeroPoint: 1, QMin: 0, QMax: 3}}
		p.Grids = PerRow(list, 3, k)
		f, err := NewFactor(p.H, k, 0.01, Falling, 1)
		require.NoError(t, err)
		h := damped(p, f)
		codes := p.Nearest()
		require.Equal(t, 3, f.Exact(p, codes, 1<<20, nil))
		for r, g := range list {
			best, trial := math.Inf(1), make([]int32, len(p.W))
			var try func(i int)
			try = func(i int) {
				if i == k {
					best = min(best, form(p, h, trial, r))
					return
				}
				for q := g.QMin; q <= g.QMax; q++ {
					trial[r*k+i] = q
					try(i + 1)
				}
			}
			try(0)
			require.InEpsilon(t, best, form(p, h, codes, r), 1e-9)
		}
		for _, limit := range []float64{1 + 1e-9, 1 - 1e-9} { // of the best: found, and not looked for
			limited, limits := p.Nearest(), f.Loss(p, codes)
			for r := range limits {
				limits[r] *= limit
			}
			f.Exact(p, limited, 1<<20, limits)
			want := codes
			if limit < 1 {
				want = p.Nearest()
			}
			require.Equal(t, want, limited)
		}
		start := p.Nearest()
		before := f.Loss(p, start)
		require.Less(t, f.Exact(p, start, 3, nil), 3, "so few nodes prove nothing")
		for r, l := range f.Loss(p, start) {
			require.LessOrEqual(t, l, before[r]*(1+1e-9))
		}
	}
}

// With the shifted target the rounded operator on quantized inputs is nearer to the float operator on float inputs; without rounding the
// target is the least-squares solution.
func TestShiftIsLeastSquares(t *testing.T) {
	const k, n, rows = 70, 400, 5
	p := sample(7, rows, k, 1, 0)
	r := rand.New(rand.NewPCG(8, 0))
	x, d := make([]float64, n*k), make([]float64, n*k)
	clear(p.H)
	cross := make([]float64, k*k)
	for s := range n {
		for i := range k {
			x[s*k+i] = r.NormFloat64()
			d[s*k+i] = 0.2*x[s*k+(i+1)%k] + 0.01*r.NormFloat64()
		}
		for i := range k {
			for j := range k {
				p.H[i*k+j] += x[s*k+i] * x[s*k+j]
				cross[i*k+j] += d[s*k+i] * x[s*k+j]
			}
		}
	}
	misses := func(q []float64) (sum float64) {
		for s := range n {
			for o := range rows {
				e := 0.0
				for i := range k {
					e += p.W[o*k+i]*(x[s*k+i]+d[s*k+i]) - q[o*k+i]*x[s*k+i]
				}
				sum += e * e
			}
		}
		return sum
	}
	f, err := NewFactor(p.H, k, 0, Falling, 2)
	require.NoError(t, err)
	shift, err := f.Shift(p.W, cross, 2)
	require.NoError(t, err)
	target := make([]float64, len(p.W))
	for i, w := range p.W {
		target[i] = w + shift[i]
	}
	least := misses(target)
	require.Less(t, least, 0.2*misses(p.W))
	for i := range target { // no neighbour is better
		for _, step := range []float64{1e-3, -1e-3} {
			target[i] += step
			require.Greater(t, misses(target), least)
			target[i] -= step
		}
	}
	_, err = f.Shift(p.W, cross[1:], 1)
	require.Error(t, err)
}

func TestThreadsDoNotChangeAnything(t *testing.T) {
	p := perRow(sample(9, 150, 130, 400, 0.2), 4)
	var first []any
	for _, threads := range []int{1, 2, 7} {
		p.Threads = threads
		f, err := NewFactor(p.H, p.K, 0.01, Falling, threads)
		require.NoError(t, err)
		codes, loss := f.Round(p)
		target, err := f.Shift(p.W, p.H, threads)
		require.NoError(t, err)
		now := []any{f.l, append([]int32(nil), codes...), loss, target, p.Descend(codes, 4), codes}
		if first == nil {
			first = now
		}
		require.Equal(t, first, now)
	}
}

// Inputs that are always zero leave their weights at the nearest code, and grids in groups are the groups' own.
func TestDeadInputsAndGroups(t *testing.T) {
	p := sample(10, 2, 8, 30, 0)
	for i := range 8 {
		p.H[3*8+i], p.H[i*8+3] = 0, 0
	}
	p.Grids = Grids{Row: []int{0, 2}, Column: []int{0, 0, 0, 0, 1, 1, 1, 1}}
	for _, s := range []float32{0.5, 0.125, 0.25, 0.5} {
		p.Grids.List = append(p.Grids.List, qmath.Grid{Scale: s, QMin: -7, QMax: 7})
	}
	require.NoError(t, p.Check())
	f, err := NewFactor(p.H, 8, 0.01, Falling, 1)
	require.NoError(t, err)
	codes, _ := f.Round(p)
	near := p.Nearest()
	require.Equal(t, near[3], codes[3])
	require.Equal(t, near[11], codes[11])
	require.Equal(t, 0.125*float64(codes[5]), p.Value(codes, 0, 5))
	require.Equal(t, 0.25*float64(codes[8]), p.Value(codes, 1, 0))
	p.Grids.Row = p.Grids.Row[1:]
	require.Error(t, p.Check())
}

func BenchmarkFactor(b *testing.B) {
	const k = 1152
	h := make([]float64, k*k)
	for i := range k {
		for j := range k {
			h[i*k+j] = math.Exp(-math.Abs(float64(i-j)) / 50)
		}
	}
	for b.Loop() {
		if _, err := NewFactor(h, k, 0.01, Falling, 2); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(k)*k*k/3*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOPS")
}

// TestScalesAreTheBest: moving the scale of any group raises the form of its row.
func TestScalesAreTheBest(t *testing.T) {
	const k, groups, damp = 24, 3, 0.02
	p := sample(7, 4, k, 100, 0.5)
	p.Grids = Grids{List: make([]qmath.Grid, 4*groups), Row: []int{0, groups, 2 * groups, 3 * groups}, Column: make([]int, k)}
	for i := range p.Grids.Column {
		p.Grids.Column[i] = i * groups / k
	}
	for i := range p.Grids.List {
		p.Grids.List[i] = qmath.Grid{Scale: 0.3, QMin: -7, QMax: 7}
	}
	codes := p.Nearest()
	for i := range k / groups {
		codes[i] = 0 // of the first group
	}
	f, err := NewFactor(p.H, k, damp, Falling, 1)
	require.NoError(t, err)
	h := damped(p, f)
	before := make([]float64, 4)
	for r := range before {
		before[r] = form(p, h, codes, r)
	}
	scales := p.Scales(codes, damp)
	require.Equal(t, p.Scales(codes, damp), scales)
	require.Equal(t, float64(p.Grids.List[0].Scale), scales[0], "a group of zeros keeps its scale")
	at := func(r, group int, scale float64) float64 {
		p.Grids.List[r*groups+group].Scale = float32(scale)
		return form(p, h, codes, r)
	}
	for g, s := range scales {
		at(g/groups, g%groups, s)
	}
	for g, s := range scales[1:] {
		r, group := (g+1)/groups, (g+1)%groups
		best := at(r, group, s)
		require.LessOrEqual(t, best, before[r])
		require.Greater(t, at(r, group, s*1.01), best)
		require.Greater(t, at(r, group, s*0.99), best)
		at(r, group, s)
	}
}

func BenchmarkRound(b *testing.B) {
	const k, rows, groups = 1024, 256, 8
	p := sample(9, rows, k, 400, 0.5)
	p.Threads = 2
	p.Grids = Grids{List: make([]qmath.Grid, rows*groups), Row: make([]int, rows), Column: make([]int, k)}
	for i := range p.Grids.Column {
		p.Grids.Column[i] = i * groups / k
	}
	for i := range p.Grids.List {
		p.Grids.List[i] = qmath.Grid{Scale: 0.3, QMin: -7, QMax: 7}
	}
	for r := range p.Grids.Row {
		p.Grids.Row[r] = r * groups
	}
	f, err := NewFactor(p.H, k, 0.01, Natural, 2)
	require.NoError(b, err)
	for b.Loop() {
		f.Round(p)
	}
	b.ReportMetric(rows*k*float64(b.N)/b.Elapsed().Seconds()/1e6, "Mweights/s")
}

// What Round returns is, undamped, the form of its codes, also beside an input that is always zero; a row's square is the same from W H.
func TestUndamped(t *testing.T) {
	p := perRow(sample(5, 6, 70, 200, 3), 4)
	for i := range p.K {
		p.H[7*p.K+i], p.H[i*p.K+7] = 0, 0
	}
	f, err := NewFactor(p.H, p.K, 0, Falling, 2)
	require.NoError(t, err)
	codes, loss := f.Round(p)
	got := make([]float64, len(p.W))
	for i := range got {
		got[i] = p.Value(codes, i/p.K, i%p.K)
	}
	f.Undamped(loss, p, got)
	assert.InDeltaSlice(t, p.Loss(codes), loss, 1e-9*slices.Max(loss))
	squares := p.Squares()
	p.Scales(codes, f.Damp)
	assert.InDeltaSlice(t, squares, p.Squares(), 1e-9*slices.Max(squares))
}
