package observers

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"qwb/graph/tensor"
)

// wild draws values of very different sizes, with zeros, denormals and repetitions.
func wild(r *rand.Rand, n int) []float32 {
	d := make([]float32, n)
	scale := math.Ldexp(1, r.IntN(60)-30)
	for i := range d {
		switch r.IntN(10) {
		case 0:
			d[i] = 0
		case 1:
			d[i] = float32(math.Copysign(0, -1))
		case 2:
			d[i] = math.Float32frombits(r.Uint32N(1<<23) | r.Uint32N(2)<<31) // denormal
		case 3:
			d[i] = float32(math.Ldexp(r.NormFloat64(), r.IntN(100)-60))
		case 4:
			d[i] = 1.5
		default:
			d[i] = float32(r.NormFloat64() * scale)
		}
	}
	return d
}

func encode(t testing.TB, st *State) []byte {
	b, err := st.MarshalBinary()
	require.NoError(t, err)
	return b
}

// Any split into tensors, any order, any tree of merges gives the same bytes.
func TestStateIsAFunctionOfTheMultiset(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 60 {
		const channels, inner = 3, 4
		n := 1 + r.IntN(40)
		var samples []*tensor.Tensor
		for range n {
			x := tensor.FromF32(wild(r, channels*inner), 1, channels, 2, inner/2)
			if r.IntN(20) == 0 {
				x.F32()[r.IntN(12)] = float32(math.Inf(1 - 2*r.IntN(2)))
			}
			samples = append(samples, x)
		}
		observe := func(st *State, x *tensor.Tensor) {
			if r.IntN(2) == 0 {
				x = x.ToChannelsLast()
			}
			_, err := st.Observe(x, 1)
			require.NoError(t, err)
			require.NoError(t, st.ObserveRows(x, 1))
		}
		want := New()
		for _, x := range samples {
			observe(want, x)
		}
		// The same values, all in one tensor.
		var all []float32
		for _, x := range samples {
			all = append(all, x.F32()...)
		}
		one := New()
		observe(one, tensor.FromF32(all, n, channels, 2, inner/2))
		require.Equal(t, encode(t, want), encode(t, one))

		for range 5 {
			r.Shuffle(n, func(i, j int) { samples[i], samples[j] = samples[j], samples[i] })
			parts := make([]*State, 1+r.IntN(6))
			for i := range parts {
				parts[i] = New()
			}
			for _, x := range samples {
				observe(parts[r.IntN(len(parts))], x)
			}
			for len(parts) > 1 { // a random tree, with a trip through bytes now and then
				i := r.IntN(len(parts) - 1)
				a, b := parts[i], parts[i+1]
				if r.IntN(2) == 0 {
					a, b = b, a
				}
				if r.IntN(3) == 0 {
					c := New()
					require.NoError(t, c.UnmarshalBinary(encode(t, b)))
					b = c
				}
				before := encode(t, b)
				a.Merge(b)
				require.Equal(t, before, encode(t, b), "merging must not change its argument")
				parts[i] = a
				parts = slices.Delete(parts, i+1, i+2)
			}
			require.Equal(t, encode(t, want), encode(t, parts[0]))
		}
	}
}

// The bins hold exactly what a naive count finds.
func TestBinsAgainstNaiveCount(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 50 {
		d := wild(r, 500)
		st := New()
		x, err := st.Observe(tensor.FromF32(d, len(d)), -1)
		require.NoError(t, err)
		require.Equal(t, slices.Min(d)+0, x.Min)
		require.Equal(t, slices.Max(d)+0, x.Max)
		require.Equal(t, x, st.Extent())
		largest := 0.0
		for _, v := range d {
			largest = max(largest, math.Abs(float64(v)))
		}
		_, e := math.Frexp(largest)
		floor := math.Ldexp(1, e-1-keptOctaves)
		total, last := 0, math.Inf(-1)
		for b := range st.Bins() {
			require.LessOrEqual(t, last, b.Lo)
			last = b.Hi
			n := 0
			for _, v := range d {
				f := float64(v)
				switch a := math.Abs(f); {
				case a < 0x1p-126:
					if b.Lo == 0 && b.Hi == 0 {
						n++
					}
				case a < floor:
					if f < 0 && b.Hi == 0 && b.Lo < 0 || f > 0 && b.Lo == 0 && b.Hi > 0 {
						n++
					}
				case b.Lo >= floor && f >= b.Lo && (f < b.Hi || f == b.Hi && v == x.Max):
					n++
				case b.Hi <= -floor && f <= b.Hi && (f > b.Lo || f == b.Lo && v == x.Min):
					n++
				}
			}
			require.EqualValues(t, b.Count, n, "[%g, %g]", b.Lo, b.Hi)
			total += n
		}
		require.Equal(t, len(d), total)
		require.EqualValues(t, len(d), st.Count())
	}
}

func TestChannelRanges(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for _, shape := range [][]int{{2, 5}, {1, 7, 3, 3}, {3, 4, 9, 9}, {2, 3, 70, 70}, {1, 5000, 1, 1}, {2, 3, 5}, {1, 2, 3, 4, 5}} {
		for _, last := range []bool{false, true} {
			x := tensor.FromF32(wild(r, tensor.Count(shape)), shape...)
			x.F32()[0] = float32(math.Inf(1))
			want := make([]Extent, shape[1])
			outer, n, inner := x.Blocks(1)
			for c := range want {
				want[c] = NoExtent
				for o := range outer {
					for i := range inner {
						if v := x.F32()[(o*n+c)*inner+i]; !math.IsInf(float64(v), 0) {
							want[c] = want[c].Union(Extent{v, v})
						}
					}
				}
			}
			if last && len(shape) > 2 {
				x = x.ToChannelsLast()
			}
			st := New()
			_, err := st.Observe(x, 1)
			require.NoError(t, err)
			require.Equal(t, want, st.Channels(), "%v", shape)
			_, pos := st.Inf()
			require.EqualValues(t, 1, pos)
		}
	}
}

// Ranges per channel end where they would lie: other channel counts, no axis, too many channels; in every order.
func TestChannelsMixed(t *testing.T) {
	three, four := tensor.FromF32([]float32{1, 2, 3}, 1, 3), tensor.FromF32([]float32{1, 2, 3, 4}, 1, 4)
	st := New()
	for _, x := range []*tensor.Tensor{three, four, three} {
		_, err := st.Observe(x, 1)
		require.NoError(t, err)
	}
	require.Nil(t, st.Channels())
	other := New()
	for _, x := range []*tensor.Tensor{four, three, three} {
		_, err := other.Observe(x, 1)
		require.NoError(t, err)
	}
	require.Equal(t, encode(t, st), encode(t, other))

	wide := New()
	_, err := wide.Observe(tensor.New(tensor.Float32, 1, MaxChannels+1), 1)
	require.NoError(t, err)
	require.Nil(t, wide.Channels())
	_, err = wide.Observe(three, 2)
	require.ErrorContains(t, err, "no axis 2")
}

func TestNotFinite(t *testing.T) {
	inf := float32(math.Inf(1))
	st := New()
	x, err := st.Observe(tensor.FromF32([]float32{inf, -inf, -inf, 2, -1}, 5), -1)
	require.NoError(t, err)
	require.Equal(t, Extent{-1, 2}, x)
	neg, pos := st.Inf()
	require.EqualValues(t, []uint64{2, 1, 2}, []uint64{neg, pos, st.Count()})
	r, warnings, err := MinMax.Range(st, act(true), 0)
	require.NoError(t, err)
	require.Equal(t, Range{-1, 2}, r)
	require.Len(t, warnings, 1)
	require.Contains(t, warnings[0].Text, "3 values are infinite")

	_, err = st.Observe(tensor.FromF32([]float32{1, float32(math.NaN())}, 2), -1)
	require.ErrorContains(t, err, "1 of 2 values are NaN")
	for _, m := range All {
		_, _, err := m.Range(st, act(true), 0)
		require.ErrorIs(t, err, ErrNaN, m.Name)
	}
	_, err = New().Observe(tensor.New(tensor.Int64, 3), -1)
	require.ErrorContains(t, err, "not float32")
}

func TestMemoryIsBounded(t *testing.T) {
	bytes := func(h *histogram) int { return 4 * (cap(h.counts) + cap(h.carry)) }
	r := rand.New(rand.NewPCG(7, 8))
	st := New()
	d := make([]float32, MaxChannels)
	for e := range 255 { // every octave there is, from small to large: all are folded in turn
		for i := range d {
			d[i] = math.Float32frombits(uint32(e)<<23 | r.Uint32N(1<<23) | r.Uint32N(2)<<31)
		}
		x := tensor.FromF32(d, 1, MaxChannels)
		_, err := st.Observe(x, 1)
		require.NoError(t, err)
		require.NoError(t, st.ObserveRows(x, 1))
		for i := range d {
			d[i] = -d[i]
		}
		require.NoError(t, st.ObserveRows(tensor.FromF32(d, MaxChannels/2, 2), 1))
	}
	for _, h := range []*histogram{st.hist, st.rows.second, st.rows.gap} {
		h.increase(0, 1<<40)
	}
	total := bytes(st.hist) + bytes(st.rows.second) + bytes(st.rows.gap) + 4*(cap(st.low)+cap(st.high)) + 4*(cap(st.work.lo)+cap(st.work.hi)) +
		int(unsafe.Sizeof(*st.work.meter))
	require.Less(t, total, MaxMemory)
	require.Greater(t, total, MaxMemory/2, "the input should exercise the bound")
}

func TestObserveDoesNotAllocate(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	d := make([]float32, 64*100)
	for i := range d {
		d[i] = float32(r.NormFloat64())
	}
	x := tensor.FromF32(d, 1, 64, 10, 10).ToChannelsLast()
	st := New()
	_, err := st.Observe(x, 1)
	require.NoError(t, err)
	require.Zero(t, testing.AllocsPerRun(10, func() { _, _ = st.Observe(x, 1) }))
}

func FuzzUnmarshal(f *testing.F) {
	r := rand.New(rand.NewPCG(13, 14))
	for _, shape := range [][]int{{1, 3, 2, 2}, {1, 1}, {2, 5}} {
		st := New()
		x := tensor.FromF32(wild(r, tensor.Count(shape)), shape...)
		_, _ = st.Observe(x, 1)
		_ = st.ObserveRows(x, 1)
		b, _ := st.MarshalBinary()
		f.Add(b)
	}
	empty, _ := New().MarshalBinary()
	f.Add(empty)
	f.Fuzz(func(t *testing.T, b []byte) {
		st := New()
		if st.UnmarshalBinary(b) != nil {
			require.Equal(t, empty, encode(t, st), "an error must leave the state as it was")
			return
		}
		require.Equal(t, b, encode(t, st), "one state, one encoding")
		c := st.Clone()
		require.Equal(t, b, encode(t, c))
		for _, m := range All {
			_, _, _ = m.Range(st, act(true), 0)
			_, _, _ = m.Range(st, act(false), 0)
		}
	})
}

// Every single-byte change is either refused or decodes to another state that encodes to exactly these bytes.
func TestUnmarshalRefusesDamage(t *testing.T) {
	r := rand.New(rand.NewPCG(15, 16))
	st := New()
	_, err := st.Observe(tensor.FromF32(wild(r, 24), 2, 3, 2, 2), 1)
	require.NoError(t, err)
	good := encode(t, st)
	require.NoError(t, New().UnmarshalBinary(good))
	refused := 0
	for n := range good {
		require.Error(t, New().UnmarshalBinary(good[:n]), "truncated to %d", n)
	}
	require.Error(t, New().UnmarshalBinary(append(slices.Clone(good), 0)))
	for i := range good {
		bad := slices.Clone(good)
		bad[i] ^= 1 << r.IntN(8)
		c := New()
		if c.UnmarshalBinary(bad) != nil {
			refused++
			continue
		}
		require.Equal(t, bad, encode(t, c))
	}
	require.Greater(t, refused, len(good)/3)
}

// Counters are 32 bits wide; nothing is lost where they would overflow.
func TestCountersCarry(t *testing.T) {
	values := tensor.FromF32([]float32{1, -1, 0, 1.5, 1, -0x1p-40}, 6)
	const many = 1 << 33
	want := New()
	for range 2 {
		_, err := want.Observe(values, -1)
		require.NoError(t, err)
	}
	want.hist.increase(want.hist.counter(math.Float32bits(1)), many)
	want.hist.increase(0, many)
	want.hist.increase(want.hist.below(1), many)

	got := New()
	_, err := got.Observe(values, -1)
	require.NoError(t, err)
	for _, v := range []float32{1, 0, -0x1p-40} {
		i := got.hist.counter(math.Float32bits(v))
		for range 8 { // as that many single values would have
			got.hist.expect(1 << 30)
			got.hist.counts[i] += 1 << 30
		}
	}
	_, err = got.Observe(values, -1)
	require.NoError(t, err)
	require.Equal(t, encode(t, want), encode(t, got))
	require.NotNil(t, got.hist.carry)

	// Folding and merging take the carried parts along.
	for _, st := range []*State{want, got} {
		_, err := st.Observe(tensor.FromF32([]float32{0x1p30, -1}, 2), -1)
		require.NoError(t, err)
	}
	require.Equal(t, want.hist.count(), got.hist.count())
	require.Greater(t, got.hist.folded(0), uint64(many), "all of the ones are folded")
	require.Equal(t, encode(t, want), encode(t, got))
	decoded := New()
	require.NoError(t, decoded.UnmarshalBinary(encode(t, got)))
	decoded.Merge(got)
	want.Merge(want.Clone())
	require.Equal(t, encode(t, want), encode(t, decoded))
}

// A state of minima and maxima has those of a full one, and says clearly what it cannot do.
func TestMinMaxOnly(t *testing.T) {
	r := rand.New(rand.NewPCG(19, 20))
	for _, shape := range [][]int{{1, 24, 5, 5}, {2, 3, 4, 1}, {1, 20, 70, 70}, {7}, {1, 3, 0, 2}, {2, 5, 3}} {
		full, few, parts := New(), NewMinMax(), NewMinMax()
		naive := map[int]Extent{}
		for i := range 4 {
			x := tensor.FromF32(wild(r, tensor.Count(shape)), shape...)
			if i > 1 && x.Len() > 0 {
				x.F32()[r.IntN(x.Len())] = float32(math.Inf(1 - 2*r.IntN(2)))
			}
			axis := min(1, len(shape)-2)
			if axis == 1 {
				_, n, inner := x.Blocks(1)
				for at, v := range x.F32() {
					c := at / inner % n
					if e, seen := naive[c]; !math.IsInf(float64(v), 0) {
						if !seen {
							e = NoExtent
						}
						naive[c] = e.Union(Extent{v, v})
					}
				}
			}
			if r.IntN(2) == 0 && len(shape) == 4 {
				x = x.ToChannelsLast()
			}
			a, err := full.Observe(x, axis)
			require.NoError(t, err)
			b, err := few.Observe(x, axis)
			require.NoError(t, err)
			require.Equal(t, a, b)
			part := New()
			if i%2 == 0 {
				part = NewMinMax()
			}
			_, err = part.Observe(x, axis)
			require.NoError(t, err)
			parts.Merge(part)
		}
		require.Equal(t, full.Extent(), few.Extent())
		require.Equal(t, full.Channels(), few.Channels())
		for c, x := range naive {
			require.Equal(t, x, full.Channels()[c])
		}
		require.Equal(t, full.Count(), few.Count())
		require.False(t, few.HasBins())
		require.True(t, full.HasBins())
		require.Equal(t, encode(t, few), encode(t, parts))
		back := New()
		require.NoError(t, back.UnmarshalBinary(encode(t, few)))
		require.Equal(t, encode(t, few), encode(t, back))
		full.Merge(few) // bins of half of the values would mislead
		require.False(t, full.HasBins())
		require.Equal(t, 2*few.Count(), full.Count())
		if few.Count() == 0 {
			continue
		}
		for _, m := range All {
			_, _, err := m.Range(few, act(true), 0)
			if m == MinMax {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, ErrNoBins, m.Name)
			}
		}
	}
}

// BenchmarkObserve observes tensors of activations. mode=extremes is what a calibration with minima and maxima only does.
func BenchmarkObserve(b *testing.B) {
	r := rand.New(rand.NewPCG(17, 18))
	for _, c := range []struct{ channels, side int }{{64, 112}, {256, 14}} {
		d := make([]float32, c.channels*c.side*c.side)
		for _, kind := range []string{"normal", "relu"} {
			for i := range d {
				d[i] = float32(r.NormFloat64())
				if kind == "relu" {
					d[i] = max(d[i], 0)
				}
			}
			for _, layout := range []string{"nchw", "nhwc"} {
				x := tensor.FromF32(d, 1, c.channels, c.side, c.side)
				if layout == "nhwc" {
					x = x.ToChannelsLast()
				}
				for _, mode := range []string{"bins", "extremes"} {
					b.Run(fmt.Sprintf("data=%s/n=%d/layout=%s/mode=%s", kind, len(d), layout, mode), func(b *testing.B) {
						st := New()
						if mode == "extremes" {
							st = NewMinMax()
						}
						b.SetBytes(int64(4 * len(d)))
						b.ReportAllocs()
						for b.Loop() {
							_, _ = st.Observe(x, 1)
						}
						b.ReportMetric(float64(b.N)*float64(len(d))/b.Elapsed().Seconds()/1e9, "Gelem/s")
					})
				}
			}
		}
	}
}
