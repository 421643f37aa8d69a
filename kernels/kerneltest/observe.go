package kerneltest

import (
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"qwb/kernels"
	"qwb/kernels/ref"
)

// observe holds a meter to the plain definitions.
func (s Suite) observe(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 1))
	m := s.Table.NewMeter()
	finite := func(d data) data {
		return func(rng *rand.Rand, n int) []float32 {
			x := d(rng, n)
			for i, v := range x {
				if v-v != 0 {
					x[i] = 1
				}
			}
			return x
		}
	}
	var sizes []int
	for n := range 70 {
		sizes = append(sizes, n)
	}
	sizes = append(sizes, 511, 512, 513, 5003)
	for _, n := range sizes {
		for _, d := range []data{ordinary, wide, rectified, extreme, finite(extreme)} {
			x := s.copyOf(d(rng, n))
			lo, hi, ok := m.MinMax(x)
			wantLo, wantHi, want := ref.MinMax(x)
			requireSame(t, []float32{wantLo, wantHi}, []float32{lo, hi}, "extremes of %d", n)
			require.Equal(t, want, ok, "finite")
		}
		if n > 35 && n < 500 {
			continue
		}
		for _, d := range []data{ordinary, rectified, finite(extreme)} {
			s.bins(t, m, d(rng, n))
		}
		require.NoError(t, s.Memory.Check())
	}
	for _, channels := range []int{1, 2, 3, 7, 8, 9, 15, 16, 17, 24, 31, 32, 33, 63, 64, 65, 96, 129, 200, 5000} {
		for _, rows := range []int{0, 1, 2, 3, 50} {
			for _, d := range []data{ordinary, rectified, extreme, finite(extreme)} {
				s.channels(t, m, d(rng, rows*channels), channels)
			}
			require.NoError(t, s.Memory.Check())
		}
	}
}

// rectified numbers are those of ordinary, the negative ones replaced by zeros of either sign.
func rectified(rng *rand.Rand, n int) []float32 {
	x := ordinary(rng, n)
	for i, v := range x {
		if v < 0 {
			x[i] = 0 * v
		}
	}
	return x
}

// bins counts x, without negative values in a table that has no place for them, above lowest octaves that put some of the
// values below, and none above.
func (s Suite) bins(t *testing.T, m *kernels.Meter, x []float32) {
	top := 1
	for _, v := range x {
		top = max(top, int(math.Float32bits(v)>>23&255))
	}
	positive := make([]float32, len(x))
	for i, v := range x {
		positive[i] = float32(math.Abs(float64(v)))
	}
	for _, lowest := range [][2]int{{max(1, top-20), 21}, {max(1, top-40), 41}, {top, 21}, {top, 1}} {
		low, octaves := lowest[0], lowest[1]
		for _, c := range []struct {
			x     []float32
			sides int
		}{{x, 2}, {positive, 1}} {
			// The counters' memory is that of float32, so that accesses beside it are noticed.
			values := s.copyOf(c.x)
			counts := counters(s.Memory.New(kernels.BinZeros + c.sides*kernels.BinSide(octaves)))
			want := make([]uint32, len(counts))
			for i := range want {
				want[i] = math.MaxUint32 - 1 // counters wrap around
				counts[i] = math.MaxUint32 - 1
			}
			for _, v := range c.x {
				want[ref.Bin(v, low, octaves)]++
			}
			m.Count(values, low, octaves, counts)
			zeros := func(counts []uint32) (n uint32) {
				for _, c := range counts[:kernels.BinZeros] {
					n += c
				}
				return n
			}
			require.Equal(t, zeros(want), zeros(counts), "zeros of %d", len(x))
			require.Equal(t, want[kernels.BinZeros:], counts[kernels.BinZeros:], "bins of %d", len(x))
		}
	}
}

// counters returns the memory of x as counters.
func counters(x []float32) []uint32 { return unsafe.Slice((*uint32)(unsafe.Pointer(&x[0])), len(x)) }

// channels takes the extremes of channels of finite rows, and of others.
func (s Suite) channels(t *testing.T, m *kernels.Meter, x []float32, n int) {
	_, _, finite := ref.MinMax(x)
	inf := float32(math.Inf(1))
	values, lo, hi := s.copyOf(x), s.Memory.New(n), s.Memory.New(n)
	wantLo, wantHi := make([]float32, n), make([]float32, n)
	for j := range n {
		lo[j], hi[j] = inf, -inf
		wantLo[j], wantHi[j] = inf, -inf
	}
	for i, v := range x {
		if v == v {
			wantLo[i%n], wantHi[i%n] = min(wantLo[i%n], v), max(wantHi[i%n], v)
		}
	}
	ok := m.ChannelMinMax(values, lo, hi)
	require.False(t, ok && !finite, "what is not finite must be noticed")
	if low, high, _ := ref.MinMax(x); finite && max(-low, high) < 1e30 {
		require.True(t, ok, "sums that cannot overflow")
	}
	for j := range n {
		require.Equal(t, wantLo[j]+0, lo[j]+0, "minimum of channel %d of %d", j, n)
		require.Equal(t, wantHi[j]+0, hi[j]+0, "maximum of channel %d of %d", j, n)
	}
}
