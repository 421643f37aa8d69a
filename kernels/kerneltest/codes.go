package kerneltest

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/kernels"
)

// bytewise tests the operations on bytes at every length around those of vectors.
func (s Suite) bytewise(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 9))
	for n := range 150 {
		for range 4 {
			s.addCodes(t, rng, n)
			s.toCodes(t, rng, n)
			s.fromCodes(t, rng, n)
		}
		require.NoError(t, s.Memory.Check())
	}
	for _, n := range []int{1, 3, 16, 31, 32, 33, 63, 64, 65, 100, 128, 200} {
		for rows := range 5 {
			s.maxCodes(t, rng, rows, n)
		}
		require.NoError(t, s.Memory.Check())
	}
}

// randomLimits draws limits and a zero point.
func randomLimits(rng *rand.Rand) kernels.Requantized {
	zero := rng.IntN(256)
	lo, hi := rng.IntN(256), rng.IntN(256)
	if rng.IntN(2) == 0 {
		lo, hi = 0, 255
	}
	return kernels.Requantized{Lo: float32(min(lo, hi) - zero), Hi: float32(max(lo, hi) - zero), Zero: int32(zero)}
}

// randomQuotient draws a factor and a divisor, one of which is 1; powers of two make ties.
func randomQuotient(rng *rand.Rand) (factor, divisor float32) {
	x := float32(math.Ldexp(1, rng.IntN(12)-6))
	if rng.IntN(2) == 0 {
		x *= 1 + rng.Float32()
	}
	switch rng.IntN(12) {
	case 0:
		x = 0x1p-126
	case 1:
		x = math.MaxFloat32
	}
	if rng.IntN(2) == 0 {
		return x, 1
	}
	return 1, x
}

func (s Suite) addCodes(t *testing.T, rng *rand.Rand, n int) {
	scale := func() float32 {
		x := float32(math.Ldexp(1, rng.IntN(8)-5))
		if rng.IntN(2) == 0 {
			x *= 1 + rng.Float32()
		}
		if rng.IntN(20) == 0 {
			x *= 0x1p60
		}
		return x * float32(1-2*rng.IntN(2))
	}
	sum := kernels.AddCodes{Fused: rng.IntN(2) == 0, ZA: uint8(rng.Uint32()), ZB: uint8(rng.Uint32()), FA: scale(), FB: scale(),
		K: 200 * scale(), Requantized: randomLimits(rng)}
	sum.Factor, sum.Divisor = 1, 1
	if !sum.Fused {
		if sum.Factor, sum.Divisor = randomQuotient(rng); sum.Factor > 0x1p95 {
			sum.Factor = 0x1p95
		}
	}
	require.NoError(t, sum.Check())
	a, b := s.bytesOf(codes(rng, n, n%2 == 0)), s.bytesOf(codes(rng, n, n%3 == 0))
	want, dst := make([]byte, n), s.Memory.NewBytes(n)
	for i := range want {
		want[i] = sum.At(a[i], b[i])
	}
	s.Table.AddCodes(dst, a, b, &sum)
	require.Equal(t, want, []byte(dst), "%d codes, %+v", n, sum)
	s.Table.AddCodes(a, a, b, &sum)
	require.Equal(t, want, []byte(a), "in place")
}

func (s Suite) toCodes(t *testing.T, rng *rand.Rand, n int) {
	q := kernels.ToCodes{Requantized: randomLimits(rng), Away: rng.IntN(2) == 0}
	q.Factor, q.Divisor = randomQuotient(rng)
	require.NoError(t, q.Check())
	x := s.copyOf(fill(n, func() float32 { return float32(rng.NormFloat64() * 100) }))
	if n%2 == 0 {
		x = s.copyOf(extreme(rng, n))
	}
	if n%4 == 1 { // ties, and their neighbours
		for i := range x {
			near := float64(rng.IntN(300)-150) + 0.5
			x[i] = math.Nextafter32(float32(near), float32(near)+float32(rng.IntN(3)-1)) * q.Divisor / q.Factor
		}
	}
	want, dst := make([]byte, n), s.Memory.NewBytes(n)
	for i, v := range x {
		want[i] = q.At(v)
	}
	s.Table.ToCodes(dst, x, &q)
	require.Equal(t, want, []byte(dst), "%d numbers, %+v", n, q)
}

func (s Suite) fromCodes(t *testing.T, rng *rand.Rand, n int) {
	a, zero, scale := s.bytesOf(codes(rng, n, false)), uint8(rng.Uint32()), rng.Float32()
	want, dst := make([]float32, n), s.Memory.New(n)
	for i, q := range a {
		want[i] = float32(int(q)-int(zero)) * scale
	}
	s.Table.FromCodes(dst, a, zero, scale)
	requireSame(t, want, dst, "%d codes", n)
}

func (s Suite) maxCodes(t *testing.T, rng *rand.Rand, rows, n int) {
	lda, ldd := n+rng.IntN(5), n+rng.IntN(5)
	size := func(ld int) int { return max(0, (rows-1)*ld+n) }
	a, dst := s.bytesOf(codes(rng, size(lda), false)), s.bytesOf(codes(rng, size(ldd), false))
	want := append([]byte(nil), dst...)
	for i := range rows {
		for j := range n {
			want[i*ldd+j] = max(want[i*ldd+j], a[i*lda+j])
		}
	}
	s.Table.MaxCodes(dst, ldd, a, lda, rows, n)
	require.Equal(t, want, append([]byte(nil), dst...), "%d rows of %d", rows, n)
}
