package observers

import (
	"math"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/kernels"
	"qwb/kernels/cpu"
	"qwb/kernels/qmath"
)

// threads runs pieces on n goroutines.
func threads(n int) kernels.Parallel {
	return func(pieces int, body func(int)) {
		var wg sync.WaitGroup
		for t := range n {
			wg.Go(func() {
				for i := t; i < pieces; i += n {
					body(i)
					runtime.Gosched()
				}
			})
		}
		wg.Wait()
	}
}

// gramCase is a multiset of rows: by row, group and element.
type gramCase struct {
	groups, k int
	x, f      []float32
}

func newGramCase(rng *rand.Rand, groups, k, rows int) gramCase {
	c := gramCase{groups: groups, k: k, x: make([]float32, rows*groups*k), f: make([]float32, rows*groups*k)}
	for i := range c.x {
		code := rng.IntN(255) - 100
		c.x[i] = 0.05 * float32(code)
		c.f[i] = c.x[i] + 0.05*(rng.Float32()-0.5)
	}
	return c
}

func (c gramCase) rows() int { return len(c.x) / (c.groups * c.k) }

func (c gramCase) fixed() (x, f qmath.Fixed) {
	return qmath.Fixed{Step: float64(float32(0.05)), Limit: 255}, qmath.FixedFor(10, 8191, qmath.MaxFixed)
}

// add adds rows first to end.
func (c gramCase) add(t *testing.T, g *Gram, a *GramAdder, first, end int) {
	n := c.groups * c.k
	var lanes []*GramRows
	for _, l := range []struct {
		x []float32
		f qmath.Fixed
	}{{c.x, g.X}, {c.f, g.F}} {
		if l.f == (qmath.Fixed{}) {
			lanes = append(lanes, nil)
			continue
		}
		r := &GramRows{Codes: make([]int16, (end-first)*n)}
		r.Limited, r.Finite = l.f.Codes(r.Codes, l.x[first*n:end*n])
		for i := range end - first {
			r.Base = append(r.Base, int32(i*n))
		}
		for i := range n {
			r.Offset = append(r.Offset, int32(i))
		}
		lanes = append(lanes, r)
	}
	require.True(t, a.Rows(lanes[0], lanes[1]))
}

// of returns the moments of the rows, cut into pieces of so many.
func (c gramCase) of(t *testing.T, par kernels.Parallel, table *kernels.Table, piece int) *Gram {
	x, f := c.fixed()
	g, err := NewGram(c.groups, c.k, x, f)
	require.NoError(t, err)
	a := g.Add(table, par)
	for i := 0; i < c.rows(); i += piece {
		c.add(t, g, a, i, min(i+piece, c.rows()))
	}
	a.Close()
	return g
}

func encoded(t *testing.T, g *Gram) []byte {
	b, err := g.MarshalBinary()
	require.NoError(t, err)
	return b
}

// Moments are those of the definition: exactly for codes, to within half a step per value for floats.
func TestGramIsTheDefinition(t *testing.T) {
	rng := rand.New(rand.NewPCG(14, 2))
	for _, s := range [][3]int{{1, 1, 5}, {7, 9, 301}, {3, 32, 40}, {1, 33, 1300}, {2, 75, 90}, {5, 17, 64}} {
		c := newGramCase(rng, s[0], s[1], s[2])
		g := c.of(t, nil, kernels.Select(cpu.Detect()), 37)
		for group := range c.groups {
			require.EqualValues(t, c.rows(), g.Count[group])
			h, cross, mean, float := g.H(group), g.Cross(group), g.Mean(group), g.FloatMean(group)
			for i := range c.k {
				var sum, sumF float64
				at := func(x []float32, r, i int) float64 { return float64(x[(r*c.groups+group)*c.k+i]) }
				for r := range c.rows() {
					sum, sumF = sum+at(c.x, r, i), sumF+at(c.f, r, i)
				}
				n := float64(c.rows())
				require.InDelta(t, sum/n, mean[i], 1e-6)
				require.InDelta(t, sumF/n, float[i], g.F.Step/2)
				for j := range c.k {
					var xx, dx float64
					for r := range c.rows() {
						xx += at(c.x, r, i) * at(c.x, r, j)
						dx += (at(c.f, r, i) - at(c.x, r, i)) * at(c.x, r, j)
					}
					require.InDelta(t, xx, h[i*c.k+j], 1e-6*n*10)
					require.InDelta(t, dx, cross[i*c.k+j], n*10*g.F.Step/2)
				}
			}
		}
	}
}

// Neither order nor pieces, threads, instruction sets, shards nor a stop in between change a byte.
func TestGramBytes(t *testing.T) {
	rng := rand.New(rand.NewPCG(14, 3))
	for _, s := range [][2]int{{1, 70}, {11, 9}} {
		c := newGramCase(rng, s[0], s[1], 1100)
		c.x[5], c.f[7] = float32(math.NaN()), float32(math.Inf(-1))
		table := kernels.Select(cpu.Detect())
		want := encoded(t, c.of(t, nil, table, 1100))
		for _, n := range []int{1, 7} {
			require.Equal(t, want, encoded(t, c.of(t, threads(n), table, 64)))
		}
		require.Equal(t, want, encoded(t, c.of(t, nil, kernels.Select(cpu.Features{}), 101)))

		// Shards, the first of them put away and read again, in either order.
		x, f := c.fixed()
		var parts []*Gram
		for _, at := range [][2]int{{0, 333}, {333, 334}, {334, 1100}} {
			g, err := NewGram(c.groups, c.k, x, f)
			require.NoError(t, err)
			a := g.Add(table, nil)
			c.add(t, g, a, at[0], at[1])
			a.Close()
			again := new(Gram)
			require.NoError(t, again.UnmarshalBinary(encoded(t, g)))
			parts = append(parts, again)
		}
		all, err := NewGram(c.groups, c.k, x, f)
		require.NoError(t, err)
		for _, p := range []int{2, 0, 1} {
			require.NoError(t, all.Merge(parts[p]))
		}
		require.Equal(t, want, encoded(t, all))

		// Resumed: rows are added to what was read.
		a := parts[0].Add(table, nil)
		c.add(t, parts[0], a, 333, 1100)
		a.Close()
		require.Equal(t, want, encoded(t, parts[0]))

		// Another order of the rows.
		size := c.groups * c.k
		turned := gramCase{groups: c.groups, k: c.k, x: make([]float32, len(c.x)), f: make([]float32, len(c.f))}
		for r := range c.rows() {
			to := (c.rows() - 1 - r) * size
			copy(turned.x[to:], c.x[r*size:][:size])
			copy(turned.f[to:], c.f[r*size:][:size])
		}
		require.Equal(t, want, encoded(t, turned.of(t, nil, table, 64)))
	}
}

// A row with an element that is not finite is in no sum of its group, and in all of the others.
func TestGramSkipsWhatIsNotFinite(t *testing.T) {
	c := newGramCase(rand.New(rand.NewPCG(14, 4)), 3, 4, 9)
	table := kernels.Select(cpu.Detect())
	without := c
	without.x, without.f = append([]float32{}, c.x...), append([]float32{}, c.f...)
	for k := range 4 { // row 2, group 1
		without.x[2*12+4+k], without.f[2*12+4+k] = 0, 0
	}
	want := without.of(t, nil, table, 9)
	c.x[2*12+4+3] = float32(math.Inf(1))
	got := c.of(t, nil, table, 2)
	require.Equal(t, []uint64{9, 8, 9}, got.Count)
	require.EqualValues(t, 1, got.Skipped)
	for group := range 3 {
		require.Equal(t, want.H(group), got.H(group))
		require.Equal(t, want.Cross(group), got.Cross(group))
	}
	c.x[0] = 1e9
	require.EqualValues(t, 1, c.of(t, nil, table, 9).Limited)
}

func TestGramRefuses(t *testing.T) {
	one := func(groups, k int, x, f qmath.Fixed) *Gram {
		g, err := NewGram(groups, k, x, f)
		require.NoError(t, err)
		return g
	}
	x, y := qmath.Fixed{Step: 0.5, Limit: 100}, qmath.Fixed{Step: 0.25, Limit: 100}
	require.ErrorContains(t, one(1, 2, x, y).Merge(one(1, 2, y, y)), "steps of 0.5 and 0.25, and of 0.25 and 0.25")
	require.ErrorContains(t, one(1, 2, x, y).Merge(one(1, 2, x, qmath.Fixed{})), "steps")
	require.ErrorContains(t, one(1, 2, x, x).Merge(one(2, 2, x, x)), "groups")
	open := one(1, 2, x, qmath.Fixed{})
	open.Add(kernels.Select(cpu.Features{}), nil).Rows(&GramRows{Codes: []int16{1, 2}, Base: []int32{0}, Offset: []int32{0, 1}, Finite: true},
		nil)
	require.ErrorContains(t, one(1, 2, x, qmath.Fixed{}).Merge(open), "still added")
	_, err := open.MarshalBinary()
	require.Error(t, err)
	for _, bad := range []qmath.Fixed{{Step: 0, Limit: 5}, {Step: math.Inf(1), Limit: 5}, {Step: 1, Limit: 0}, {Step: 1, Limit: 1 << 15}} {
		_, err := NewGram(1, 2, bad, qmath.Fixed{})
		require.Error(t, err)
	}
	_, err = NewGram(1, 1<<20, x, x)
	require.Error(t, err)
}

// Only the canonical encoding of possible moments is read.
func FuzzGram(f *testing.F) {
	t := new(testing.T)
	c := newGramCase(rand.New(rand.NewPCG(14, 5)), 2, 3, 9)
	b, err := c.of(t, nil, kernels.Select(cpu.Features{}), 9).MarshalBinary()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add(b[:len(b)-1])
	f.Add(append(b, 0))
	f.Fuzz(func(t *testing.T, b []byte) {
		g := new(Gram)
		if g.UnmarshalBinary(b) != nil {
			return
		}
		again, err := g.MarshalBinary()
		require.NoError(t, err)
		require.Equal(t, b, again)
	})
}

// Damage is found: every cut, and every byte of the head.
func TestGramDamage(t *testing.T) {
	c := newGramCase(rand.New(rand.NewPCG(14, 6)), 2, 3, 9)
	b := encoded(t, c.of(t, nil, kernels.Select(cpu.Features{}), 9))
	require.NoError(t, new(Gram).UnmarshalBinary(b))
	for n := range b {
		require.Error(t, new(Gram).UnmarshalBinary(b[:n]), "cut to %d", n)
	}
	for _, i := range []int{0, 1, 2} {
		bad := append([]byte{}, b...)
		bad[i]++
		require.Error(t, new(Gram).UnmarshalBinary(bad), "byte %d", i)
	}
	long := append([]byte{b[0], b[1] | 0x80, 0}, b[2:]...) // a varint longer than it need be
	require.Error(t, new(Gram).UnmarshalBinary(long))
}
