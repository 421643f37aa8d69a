package cuda_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/internal/cudatest"
	"qwb/kernels/cuda"
	"qwb/kernels/ref"
)

// observed is what a tally is to hold.
type observed struct {
	values   []float32 // finite ones
	halves   [2][2]float32
	channels [][2]float32
	infinite [2]uint64
}

func newObserved(channels int) *observed {
	none := [2]float32{float32(math.Inf(1)), float32(math.Inf(-1))}
	return &observed{halves: [2][2]float32{none, none}, channels: slices.Repeat([][2]float32{none}, channels)}
}

// add observes samples and returns the number of NaN in each.
func (o *observed) add(x []float32, shape cuda.TallySamples, half []uint32) []uint32 {
	nan := make([]uint32, shape.Count)
	for i, v := range x {
		switch {
		case v != v:
			nan[i/shape.Size]++
		case v-v != 0 && v > 0:
			o.infinite[0]++
		case v-v != 0:
			o.infinite[1]++
		default:
			o.values = append(o.values, v)
			cover(&o.halves[half[i/shape.Size]], v)
			if shape.Channels > 0 {
				cover(&o.channels[i%shape.Size/shape.Inner%shape.Channels], v)
			}
		}
	}
	return nan
}

func cover(x *[2]float32, v float32) { x[0], x[1] = min(x[0], v)+0, max(x[1], v)+0 }

// table counts values where ref.Bin says. All zeros are in the first of their counters.
func table(values []float32) (low int, counters []uint32) {
	top := 0
	for _, v := range values {
		top = max(top, int(math.Float32bits(v)>>23&255))
	}
	low = max(top-cuda.TallyOctaves+1, 1)
	counters = make([]uint32, ref.BinZeros+2*ref.BinSide(cuda.TallyOctaves))
	for _, v := range values {
		counters[ref.Bin(v, low, cuda.TallyOctaves)]++
	}
	return low, counters
}

// strange draws values of many sizes; spread octaves below scale.
func strange(r *rand.Rand, n int, scale float64, spread int, odd bool) []float32 {
	x := make([]float32, n)
	for i := range x {
		switch r.IntN(12) {
		case 0:
			x[i] = 0
		case 1:
			x[i] = float32(math.Copysign(0, -1))
		case 2:
			x[i] = math.Float32frombits(r.Uint32N(1<<23) | r.Uint32N(2)<<31) // denormal
		case 3:
			x[i] = float32(math.Ldexp(scale*r.NormFloat64(), -r.IntN(spread+1)))
		case 4:
			x[i] = float32(scale)
		default:
			x[i] = float32(scale * r.NormFloat64())
		}
		if odd && r.IntN(20) == 0 {
			x[i] = []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1)), math.Float32frombits(0xffffffff)}[r.IntN(4)]
		}
	}
	return x
}

// memory is a device with what a test allocates on it.
type memory struct {
	t      testing.TB
	device *cuda.Device
	stream *cuda.Stream
}

func newMemory(t testing.TB, d *cuda.Device) *memory {
	s, err := d.NewStream()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return &memory{t, d, s}
}

func (m *memory) alloc(bytes int) cuda.Buffer {
	b, err := m.device.Alloc(bytes)
	require.NoError(m.t, err)
	m.t.Cleanup(func() { m.device.Free(b) })
	return b
}

func (m *memory) zeros(bytes int) cuda.Buffer {
	b := m.alloc(bytes)
	require.NoError(m.t, m.stream.Fill(b, 0))
	return b
}

func (m *memory) upload(data any) cuda.Buffer {
	bytes, err := binary.Append(nil, binary.LittleEndian, data)
	require.NoError(m.t, err)
	b := m.alloc(len(bytes))
	require.NoError(m.t, m.stream.Upload(b, bytes))
	return b
}

func (m *memory) download(b cuda.Buffer) []byte {
	bytes := make([]byte, b.Bytes)
	require.NoError(m.t, m.stream.Download(bytes, b))
	require.NoError(m.t, m.stream.Synchronize())
	return bytes
}

func requireTable(t testing.TB, want []float32, got cuda.Tally) {
	low, counters := table(want)
	require.Equal(t, low, got.Low)
	for i, n := range counters {
		if n != got.Table[i] {
			t.Fatalf("counter %d is %d, not %d", i, got.Table[i], n)
		}
	}
}

// Whatever the shape, kernels see what ref.MinMax and ref.Bin see.
func TestObserve(t *testing.T) {
	cudatest.Each(t, func(t *testing.T, d *cuda.Device) {
		for _, c := range []struct {
			shape cuda.TallySamples
			odd   bool
		}{
			{cuda.TallySamples{Count: 1, Size: 1}, false},
			{cuda.TallySamples{Count: 1, Size: 1}, true},
			{cuda.TallySamples{Count: 3, Size: 1003}, true},
			{cuda.TallySamples{Count: 2, Size: 33333}, true},                            // a run in pieces
			{cuda.TallySamples{Count: 2, Size: 2 * 3 * 5, Channels: 3, Inner: 5}, true}, // runs
			{cuda.TallySamples{Count: 5, Size: 7 * 49, Channels: 7, Inner: 49}, false},
			{cuda.TallySamples{Count: 1, Size: 3 * 700, Channels: 3, Inner: 700}, true},
			{cuda.TallySamples{Count: 2, Size: 2 * 17000, Channels: 2, Inner: 17000}, true}, // in pieces, too
			{cuda.TallySamples{Count: 3, Size: 11 * 3, Channels: 3, Inner: 1}, true},        // channels last
			{cuda.TallySamples{Count: 2, Size: 5 * 2, Channels: 2, Inner: 1}, true},
			{cuda.TallySamples{Count: 1, Size: 300 * 64, Channels: 64, Inner: 1}, true},
			{cuda.TallySamples{Count: 2, Size: 3 * 300, Channels: 300, Inner: 1}, true},
			{cuda.TallySamples{Count: 4, Size: 10, Channels: 10, Inner: 1}, false}, // a row
			{cuda.TallySamples{Count: 2, Size: 999, Channels: 1, Inner: 1}, true},  // one channel
			{cuda.TallySamples{Count: 2, Size: 999, Channels: 1, Inner: 3}, false},
		} {
			t.Run(fmt.Sprintf("%+v", c.shape), func(t *testing.T) {
				r := rand.New(rand.NewPCG(1, uint64(c.shape.Size)))
				m := newMemory(t, d)
				tally, channels := m.zeros(cuda.TallyBytes(true)), m.zeros(cuda.ChannelBytes(c.shape.Channels))
				extremes := m.zeros(cuda.TallyBytes(false))
				want := newObserved(c.shape.Channels)
				// Sizes grow by some octaves, so that the table is moved.
				for _, scale := range []float64{1e-30, 1e-5, 1e-5, 3, 1e4, 1e30} {
					half := make([]uint32, c.shape.Count)
					for i := range half {
						half[i] = r.Uint32N(2)
					}
					values := strange(r, c.shape.Count*c.shape.Size, scale, 40, c.odd)
					nans := want.add(values, c.shape, half)
					x, halves, nan := m.upload(values), m.upload(half), m.zeros(4*c.shape.Count)
					require.NoError(t, cuda.ObserveExtremes(m.stream, tally, channels, nan, halves, x, c.shape))
					require.NoError(t, cuda.ObserveSettle(m.stream, tally))
					require.NoError(t, cuda.ObserveCount(m.stream, tally, x))
					got, err := binary.Append(nil, binary.LittleEndian, nans)
					require.NoError(t, err)
					require.Equal(t, got, m.download(nan))
					plain := c.shape
					plain.Channels = 0
					require.NoError(t, cuda.ObserveExtremes(m.stream, extremes, cuda.Buffer{}, nan, halves, x, plain))

					seen := cuda.ReadTally(m.download(tally))
					requireExtremes(t, want.halves[:], seen.Halves[:])
					require.Equal(t, want.infinite, seen.Infinite)
					requireExtremes(t, want.channels, cuda.ReadChannels(m.download(channels)))
					requireTable(t, want.values, seen)
				}
				seen := cuda.ReadTally(m.download(extremes))
				requireExtremes(t, want.halves[:], seen.Halves[:])
				require.Equal(t, want.infinite, seen.Infinite)
				require.Nil(t, seen.Table)
			})
		}
	})
}

// requireExtremes compares bits: -0 is no 0.
func requireExtremes(t testing.TB, want, got [][2]float32) {
	require.Len(t, got, len(want))
	for i := range want {
		for k := range 2 {
			require.Equal(t, math.Float32bits(want[i][k]), math.Float32bits(got[i][k]), "%d: %v and %v", i, want[i], got[i])
		}
	}
}

// Where there is much to count, blocks count the largest octaves apart: of one sign, of both, of values that are all alike.
func TestCountNear(t *testing.T) {
	const n = 128<<10 + 77
	r := rand.New(rand.NewPCG(3, 4))
	both := strange(r, n, 1e3, 30, true)
	positive, negative, bins := make([]float32, n), make([]float32, n), make([]float32, n)
	for i, v := range both {
		positive[i] = max(v, 0)
		negative[i] = float32(-math.Abs(float64(v)))
		bins[i] = math.Float32frombits(uint32(i) << 14) // some value in every second bin
	}
	for name, values := range map[string][]float32{"both": both, "positive": positive, "negative": negative, "bins": bins,
		"equal": slices.Repeat([]float32{6}, n), "zeros": make([]float32, n)} {
		t.Run(name, func(t *testing.T) {
			cudatest.Each(t, func(t *testing.T, d *cuda.Device) {
				m := newMemory(t, d)
				shape := cuda.TallySamples{Count: 1, Size: n}
				want := newObserved(0)
				want.add(values, shape, []uint32{1})
				tally, x := m.zeros(cuda.TallyBytes(true)), m.upload(values)
				require.NoError(t, cuda.ObserveExtremes(m.stream, tally, cuda.Buffer{}, m.zeros(4), m.upload([]uint32{1}), x, shape))
				require.NoError(t, cuda.ObserveSettle(m.stream, tally))
				require.NoError(t, cuda.ObserveCount(m.stream, tally, x))
				got := cuda.ReadTally(m.download(tally))
				requireExtremes(t, want.halves[:], got.Halves[:])
				requireTable(t, want.values, got)
			})
		})
	}
}

// The two largest values of rows, as package observers takes them.
func TestObserveLeaders(t *testing.T) {
	cudatest.Each(t, func(t *testing.T, d *cuda.Device) {
		for _, rows := range []cuda.TallyRows{{Outer: 1, N: 2, Inner: 1}, {Outer: 3, N: 10, Inner: 1}, {Outer: 5, N: 1000, Inner: 1},
			{Outer: 200, N: 3, Inner: 1},
			{Outer: 2, N: 7, Inner: 5}, {Outer: 1, N: 4, Inner: 300}, {Outer: 40, N: 32, Inner: 1}} {
			t.Run(fmt.Sprintf("%+v", rows), func(t *testing.T) {
				r := rand.New(rand.NewPCG(5, uint64(rows.N)))
				m := newMemory(t, d)
				second, gap := m.zeros(cuda.TallyBytes(true)), m.zeros(cuda.TallyBytes(true))
				var seconds, gaps []float32
				ties := uint64(0)
				for _, scale := range []float64{1e-7, 2, 3e38} {
					values := strange(r, rows.Outer*rows.N*rows.Inner, scale, 3, false)
					for i := range values {
						if v := values[i]; v-v != 0 {
							values[i] = math.MaxFloat32
						}
						if r.IntN(4*rows.N) == 0 {
							values[i] = []float32{float32(math.NaN()), float32(math.Inf(1)), -math.MaxFloat32}[r.IntN(3)]
						}
					}
					for o := range rows.Outer {
						for i := range rows.Inner {
							var row []float32
							for k := range rows.N {
								row = append(row, values[(o*rows.N+k)*rows.Inner+i])
							}
							if slices.ContainsFunc(row, func(v float32) bool { return v-v != 0 }) {
								continue
							}
							slices.Sort(row)
							if a, b := row[rows.N-1], row[rows.N-2]; a == b {
								ties++
							} else {
								seconds, gaps = append(seconds, max(b, 0)), append(gaps, min(a-b, math.MaxFloat32))
							}
						}
					}
					require.NoError(t, cuda.ObserveLeaders(m.stream, second, gap, m.upload(values), rows))
					got := cuda.ReadTally(m.download(second))
					require.Equal(t, ties, got.Ties)
					requireTable(t, seconds, got)
					requireTable(t, gaps, cuda.ReadTally(m.download(gap)))
				}
			})
		}
	})
}

// What does not fit together is refused before anything is launched.
func TestObserveRefuses(t *testing.T) {
	cudatest.Each(t, func(t *testing.T, d *cuda.Device) {
		m := newMemory(t, d)
		tally, few, words, x := m.zeros(cuda.TallyBytes(true)), m.zeros(cuda.TallyBytes(false)), m.zeros(8), m.zeros(4*24)
		good := cuda.TallySamples{Count: 2, Size: 12, Channels: 3, Inner: 2}
		channels := m.zeros(cuda.ChannelBytes(3))
		require.NoError(t, cuda.ObserveExtremes(m.stream, tally, channels, words, words, x, good))
		for name, err := range map[string]error{
			"no channels":  cuda.ObserveExtremes(m.stream, tally, cuda.Buffer{}, words, words, x, good),
			"no tally":     cuda.ObserveExtremes(m.stream, cuda.Buffer{}, channels, words, words, x, good),
			"one half":     cuda.ObserveExtremes(m.stream, tally, channels, words, words.Slice(0, 4), x, good),
			"another size": cuda.ObserveExtremes(m.stream, tally, channels, words, words, x, cuda.TallySamples{Count: 2, Size: 11}),
			"uneven channels": cuda.ObserveExtremes(m.stream, tally, channels, words, words, x,
				cuda.TallySamples{Count: 2, Size: 12, Channels: 3, Inner: 3}),
			"no table":        cuda.ObserveCount(m.stream, few, x),
			"no table at all": cuda.ObserveSettle(m.stream, few),
			"rows of one":     cuda.ObserveLeaders(m.stream, tally, tally, x, cuda.TallyRows{Outer: 24, N: 1, Inner: 1}),
			"other rows":      cuda.ObserveLeaders(m.stream, tally, tally, x, cuda.TallyRows{Outer: 5, N: 5, Inner: 1}),
		} {
			require.Error(t, err, name)
		}
		require.NoError(t, m.stream.Synchronize())
	})
}
