package observers

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph/tensor"
	"qwb/kernels"
	"qwb/kernels/ref"
)

// tableOf counts finite values as somebody else would, who keeps so many octaves apart.
func tableOf(octaves int, values ...float32) Table {
	top := 0
	for _, v := range values {
		if v-v == 0 {
			top = max(top, int(math.Float32bits(v)>>23&255))
		}
	}
	t := Table{Low: max(top-octaves+1, 1), Octaves: octaves, Counters: make([]uint32, kernels.BinZeros+2*kernels.BinSide(octaves))}
	for _, v := range values {
		if v-v == 0 {
			t.Counters[ref.Bin(v, t.Low, octaves)]++
		}
	}
	return t
}

// countsOf observes x of shape [outer, channels, inner] along axis 1, and rows along axis 2.
func countsOf(octaves, channels, inner int, values []float32) Counts {
	c := Counts{Table: tableOf(octaves, values...), Extent: NoExtent, Channels: slices.Repeat([]Extent{NoExtent}, channels),
		Rows: &RowCounts{}}
	for i, v := range values {
		switch {
		case v != v:
			c.NaN++
		case v-v != 0 && v < 0:
			c.Inf[0]++
		case v-v != 0:
			c.Inf[1]++
		default:
			c.Finite++
			c.Extent = c.Extent.Union(Extent{v, v})
			at := &c.Channels[i/inner%channels]
			*at = at.Union(Extent{v, v})
		}
	}
	var second, gap []float32
	for row := range slices.Chunk(values, inner) {
		if slices.ContainsFunc(row, func(v float32) bool { return v-v != 0 }) {
			continue
		}
		row = slices.Sorted(slices.Values(row))
		if a, b := row[inner-1], row[inner-2]; a == b {
			c.Rows.Ties++
		} else {
			second, gap = append(second, max(b, 0)), append(gap, min(a-b, math.MaxFloat32))
		}
	}
	c.Rows.Second, c.Rows.Gap = tableOf(octaves, second...), tableOf(octaves, gap...)
	return c
}

// What was counted elsewhere, by however many, leaves the bytes that observing leaves.
func TestAbsorb(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	const channels, inner = 3, 4
	for round := range 40 {
		want, got, few, fewWant := New(), New(), NewMinMax(), NewMinMax()
		for range 1 + r.IntN(4) {
			d := wild(r, channels*inner*(1+r.IntN(30)))
			if r.IntN(3) == 0 {
				d[r.IntN(len(d))] = float32(math.Inf(1 - 2*r.IntN(2)))
			}
			x := tensor.FromF32(d, len(d)/channels/inner, channels, inner)
			_, err := want.Observe(x, 1)
			require.NoError(t, err)
			require.NoError(t, want.ObserveRows(x, 2))
			_, err = fewWant.Observe(x, 1)
			require.NoError(t, err)
			c := countsOf(21+r.IntN(10), channels, inner, d)
			before := slices.Clone(c.Counters)
			require.NoError(t, got.Absorb(c))
			require.Equal(t, before, c.Counters)
			c.Table, c.Rows = Table{}, nil
			require.NoError(t, few.Absorb(c))
		}
		require.Equal(t, encode(t, want), encode(t, got), "round %d", round)
		require.Equal(t, encode(t, fewWant), encode(t, few), "round %d", round)
		require.NoError(t, got.UnmarshalBinary(encode(t, got)))
	}
}

// A state that was fed both ways is that of all values, whatever becomes of its channels and bins.
func TestAbsorbBesideObserving(t *testing.T) {
	r := rand.New(rand.NewPCG(13, 14))
	a, b := wild(r, 60), wild(r, 60)
	observe := func(st *State, axis int, shape []int, d ...[]float32) *State {
		for _, d := range d {
			_, err := st.Observe(tensor.FromF32(d, shape...), axis)
			require.NoError(t, err)
		}
		return st
	}
	rows := func(c Counts) Counts { c.Rows = nil; return c }
	st := observe(New(), 1, []int{5, 3, 4}, a)
	require.NoError(t, st.Absorb(rows(countsOf(21, 3, 4, b))))
	require.Equal(t, encode(t, observe(New(), 1, []int{5, 3, 4}, a, b)), encode(t, st))

	st = observe(New(), 1, []int{5, 3, 4}, a)
	require.NoError(t, st.Absorb(rows(countsOf(21, 4, 3, b))), "another number of channels")
	require.Nil(t, st.Channels())
	require.Equal(t, encode(t, observe(New(), -1, []int{60}, a, b)), encode(t, st))

	c := rows(countsOf(21, 1, 60, b))
	c.Channels = nil
	st = observe(New(), 1, []int{5, 3, 4}, a)
	require.NoError(t, st.Absorb(c), "no channels")
	require.Equal(t, encode(t, observe(New(), -1, []int{60}, a, b)), encode(t, st))

	c.Table = Table{}
	st = observe(New(), -1, []int{60}, a)
	require.NoError(t, st.Absorb(c), "no bins")
	require.Equal(t, encode(t, observe(NewMinMax(), -1, []int{60}, a, b)), encode(t, st))

	many := Counts{Table: tableOf(21), Extent: NoExtent, Channels: slices.Repeat([]Extent{NoExtent}, MaxChannels+1)}
	st = New()
	require.NoError(t, st.Absorb(many))
	want := New()
	want.dropChannels()
	require.Equal(t, encode(t, want), encode(t, st))
}

func TestAbsorbRefuses(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	empty := encode(t, New())
	good := func() Counts { return countsOf(21, 2, 3, []float32{1, 2, 3, -4, 5e-9, 6}) }
	require.NoError(t, New().Absorb(good()))
	for name, damage := range map[string]func(c *Counts){
		"a table of another size":     func(c *Counts) { c.Counters = c.Counters[1:] },
		"no octaves":                  func(c *Counts) { c.Octaves = 0 },
		"no such exponent":            func(c *Counts) { c.Low = 0 },
		"infinities":                  func(c *Counts) { c.Low = 254; c.Counters[len(c.Counters)-1]++ },
		"too few octaves":             func(c *Counts) { c.Table = tableOf(20, 1, 2, 3, -4, 1e-9, 6) },
		"nothing is below 1":          func(c *Counts) { c.Table = tableOf(21); c.Counters[kernels.BinZeros] = 6 },
		"another number of values":    func(c *Counts) { c.Finite++ },
		"extent elsewhere":            func(c *Counts) { c.Extent.Max = 9; c.Channels = nil },
		"no extent":                   func(c *Counts) { c.Extent = NoExtent; c.Channels = nil },
		"a channel beyond the extent": func(c *Counts) { c.Channels[0].Max = 7 },
		"an infinite extreme":         func(c *Counts) { c.Extent.Max = inf },
		"a channel that is NaN":       func(c *Counts) { c.Channels[1].Min = nan },
		"more gaps than rows":         func(c *Counts) { c.Rows.Gap = tableOf(21, 1, 2, 3) },
		"a gap below zero":            func(c *Counts) { c.Rows.Gap = tableOf(21, -1, 2) },
		"rows without bins":           func(c *Counts) { c.Table = Table{} },
		"extremes of no values":       func(c *Counts) { c.Table, c.Rows, c.Finite = Table{}, nil, 0 },
	} {
		c := good()
		damage(&c)
		st := New()
		require.Error(t, st.Absorb(c), name)
		require.Equal(t, empty, encode(t, st), name)
	}
}
