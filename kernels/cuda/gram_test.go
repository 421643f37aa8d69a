package cuda_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/internal/cudatest"
	"qwb/internal/longtest"
	"qwb/kernels/cuda"
	"qwb/kernels/cuda/emulate"
	"qwb/kernels/qmath"
)

// gramWord is a code as the kernel of sums reads it.
func gramWord(code int) uint16 {
	high := (code + 64) >> 7
	return uint16(high)<<8 | uint16(uint8(code-128*high))
}

// gramSums are the sums that the kernel is to make.
func gramSums(codes []int, base, offset []int32, groups, k int) []int64 {
	sums := make([]int64, groups*k*(k+1))
	for _, at := range base {
		for c, off := range offset {
			x := codes[at+off]
			sums[groups*k*k+c] += int64(x)
			for j := c % k; j < k; j++ {
				sums[c*k+j] += int64(x * codes[at+offset[c-c%k+j]])
			}
		}
	}
	return sums
}

// Sums are exact: of one tile and of several, with rows and columns that fill none, of small groups that share a tile, of rows in slices.
func TestGram(t *testing.T) {
	for _, c := range []struct{ groups, k, rows int }{
		{1, 1, 1}, {1, 1, 5000}, {1, 5, 33}, {3, 9, 70}, {9, 9, 64}, {70, 1, 40}, {2, 32, 31}, {2, 33, 65}, {1, 64, 96}, {1, 65, 40},
		{2, 100, 37}, {1, 150, 100}, {1, 200, 32}, {1, 7, 0},
	} {
		t.Run(fmt.Sprintf("%dx%d, %d rows", c.groups, c.k, c.rows), func(t *testing.T) {
			r := rand.New(rand.NewPCG(uint64(c.k), uint64(c.rows)))
			codes, words := make([]int, 3*c.groups*c.k+17), []uint16(nil)
			for i := range codes {
				codes[i] = []int{r.IntN(8191) - 4095, 4095, -4095, 63, 64, -64, -65, 4032}[min(r.IntN(16), 7)]
				words = append(words, gramWord(codes[i]))
			}
			base, offset := make([]int32, c.rows), make([]int32, c.groups*c.k)
			for i := range offset {
				offset[i] = r.Int32N(int32(2 * c.groups * c.k))
			}
			for i := range base { // rows overlap
				base[i] = r.Int32N(int32(c.groups*c.k + 17))
			}
			want := gramSums(codes, base, offset, c.groups, c.k)
			for i := range want {
				want[i] *= 2
			}
			cudatest.Each(t, func(t *testing.T, d *cuda.Device) {
				b := newFloatBench(t, d)
				sums := room[int64](b, len(want))
				rows := put(b, base)
				rows.Bytes = 4 * len(base)
				for range 2 {
					require.NoError(t, cuda.Gram(b.s, sums, put(b, words), rows, put(b, offset), c.groups, c.k))
				}
				require.Equal(t, want, get[int64](b, sums, len(want)))
			})
		})
	}
}

// The sums of the most rows that are added in 32 bits do not overflow them where each is the largest that it can be, and more rows are
// another slice.
func TestGramLimits(t *testing.T) {
	longtest.Need(t, "half a million rows")
	cudatest.On(t, []int{80}, func(t *testing.T, d *cuda.Device) {
		if d.Emulated { // without checks, sooner
			var err error
			d, err = cuda.OpenOn(emulate.Open(80, emulate.Fast), 0)
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, d.Close()) })
		}
		d.Multiprocessors = 1 // no slices but those that the bound asks for
		b := newFloatBench(t, d)
		const groups, k = 1, 9 // one tile: the bound is of rows
		codes, base, offset := []int{32*128 - 64}, make([]int32, 1<<19), make([]int32, groups*k)
		one := gramSums(codes, base[:1], offset, groups, k)
		for i := range one {
			one[i] *= 1 << 19
		}
		sums := room[int64](b, len(one))
		require.NoError(t, cuda.Gram(b.s, sums, put(b, []uint16{gramWord(codes[0])}), put(b, base), put(b, offset), groups, k))
		for i, v := range get[int64](b, sums, len(one)) {
			require.Equal(t, one[i], v, i)
		}
	})
}

// Codes are those of qmath.Fixed, in their places.
func TestGramCodes(t *testing.T) {
	inf := float32(math.Inf(1))
	r := rand.New(rand.NewPCG(1, 2))
	for _, f := range []qmath.Fixed{{Step: 0.25, Limit: 4095}, {Step: 0x1p-20, Limit: 100}, {Step: 0x1p120, Limit: 4095},
		{Step: 0x1p-149, Limit: 4095}} {
		x := []float32{0, inf, -inf, float32(math.NaN()), math.MaxFloat32, 0x1p-149, -0x1p-149}
		for range 500 {
			x = append(x, float32(f.Step*r.NormFloat64()*float64(f.Limit)/2), float32(f.Step*(float64(r.IntN(9))-4.5)),
				float32(-f.Step*(float64(f.Limit)+0.5)))
		}
		const run = 10
		at := make([]int32, (len(x)+run-1)/run)
		for i, p := range r.Perm(len(at)) {
			at[i] = int32(p*(run+2) + 1)
		}
		codes := make([]int16, len(x))
		limited, _ := f.Codes(codes, x)
		want, odd := make([]uint16, len(at)*(run+2)+1), uint64(0)
		for i, code := range codes {
			if code == qmath.NotFinite {
				odd++
			} else {
				want[int(at[i/run])+i%run] = gramWord(int(code))
			}
		}
		cudatest.Each(t, func(t *testing.T, d *cuda.Device) {
			b := newFloatBench(t, d)
			got, counts := room[uint16](b, len(want)), room[uint64](b, 2)
			require.NoError(t, cuda.GramCodes(b.s, got, counts, put(b, x), put(b, at), run, f))
			require.Equal(t, want, get[uint16](b, got, len(want)))
			require.Equal(t, []uint64{limited, odd}, get[uint64](b, counts, 2))
		})
	}
}

// What does not go together is an error.
func TestGramErrors(t *testing.T) {
	d := cudatest.Device(t, 61)
	b := newFloatBench(t, d)
	eight, sixteen := room[int32](b, 2), room[int32](b, 4)
	require.ErrorContains(t, cuda.GramCodes(b.s, eight, sixteen, eight, eight, 1, qmath.Fixed{Step: 0.1, Limit: 9}), "step")
	require.ErrorContains(t, cuda.GramCodes(b.s, eight, sixteen, eight, eight, 1, qmath.Fixed{Step: 1, Limit: 4096}), "limit")
	require.ErrorContains(t, cuda.GramCodes(b.s, eight, sixteen, eight, eight, 2, qmath.Fixed{Step: 1, Limit: 9}), "places")
	require.ErrorContains(t, cuda.Gram(b.s, eight, eight, eight, eight, 1, 2), "sums")
}
