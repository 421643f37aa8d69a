package ref

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The rows are those of the public reference implementations: TFLite (twice, once), TVM (nearest, AArch64), for the sum, the
// multiplier, the exponent and the zero point; codes are stored with 128 added.
func TestShiftGolden(t *testing.T) {
	for _, c := range []struct {
		acc, mul                           int32
		exp                                int8
		zero                               int
		twiceAway, onceUp, onceAway, twice int
	}{
		{10, 1 << 30, -1, 0, 3, 3, 3, 3}, {-10, 1 << 30, -1, 0, -3, -2, -3, -2}, {-6, 1 << 30, -1, 0, -2, -1, -2, -1},
		{6, 1 << 30, -1, 1, 3, 3, 3, 3}, {10, 1 << 30, -1, 1, 4, 4, 4, 4}, {-10, 1 << 30, -1, -3, -6, -5, -6, -5},
		{-3, 1 << 30, 0, 0, -1, -1, -2, -1}, {-5, 1717986944, -3, 0, -1, -1, -1, 0}, {-15, 1717986944, -3, 0, -2, -2, -2, -1},
		{5943, 1329652352, -6, 0, 58, 57, 57, 58}, {-10280, 1376999552, -7, 0, -52, -51, -51, -51},
		{-18888, 1266100352, -8, 0, -44, -43, -43, -43},
	} {
		for r, want := range map[ShiftRounding]int{TwiceAway: c.twiceAway, OnceUp: c.onceUp, OnceAway: c.onceAway, TwiceUp: c.twice} {
			s := Shift{Mul: []int32{c.mul}, Exp: []int8{c.exp}, Rounding: r, Zero: uint8(c.zero + 128)}.Full()
			assert.Equal(t, want, int(s.Code(c.acc, 0))-128, "%v %+v", r, c)
		}
	}
}

// One rounding equals the exact quotient rounded, for every magnitude of sum, multiplier and exponent.
func TestShiftOnce(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	half := big.NewRat(1, 2)
	for range 100_000 {
		acc, mul, exp := int32(rng.Uint32())>>rng.IntN(32), int32(rng.Uint32()>>1)>>rng.IntN(31), int8(rng.IntN(62)-31)
		if rng.IntN(2) == 0 {
			mul = 1 << rng.IntN(31) // ties
		}
		exact := new(big.Rat).SetFrac(new(big.Int).Mul(big.NewInt(int64(acc)), big.NewInt(int64(mul))),
			new(big.Int).Lsh(big.NewInt(1), uint(31-exp)))
		floor := new(big.Int).Div(exact.Num(), exact.Denom()) // Euclidean, the denominator being positive
		rest := new(big.Rat).Sub(exact, new(big.Rat).SetInt(floor))
		for r, up := range map[ShiftRounding]bool{
			OnceUp: rest.Cmp(half) >= 0, OnceAway: rest.Cmp(half) > 0 || rest.Cmp(half) == 0 && acc > 0,
			OnceEven: rest.Cmp(half) > 0 || rest.Cmp(half) == 0 && floor.Bit(0) == 1, OnceFloor: false,
		} {
			want := new(big.Int).Set(floor)
			if up {
				want.Add(want, big.NewInt(1))
			}
			want.Add(want, big.NewInt(100))
			code := int64(255)
			if want.IsInt64() {
				code = min(max(want.Int64(), 3), 250)
			} else if want.Sign() < 0 {
				code = 3
			}
			if code == 255 {
				code = 250
			}
			s := Shift{Mul: []int32{mul}, Exp: []int8{exp}, Rounding: r, Zero: 100, QMin: 3, QMax: 250}
			require.Equal(t, uint8(code), s.Code(acc, 0), "%v %d*%d*2^(%d-31)", r, acc, mul, exp)
		}
	}
}

// The order of operations and of ties, by hand.
func TestScaleGolden(t *testing.T) {
	code := func(s Scale, acc int32, residual ...uint8) uint8 {
		s = s.Full()
		if len(residual) > 0 {
			return s.Code(acc, 0, residual[0], true)
		}
		return s.Code(acc, 0, 0, false)
	}
	quarter := []float32{0.25}
	assert.EqualValues(t, 2, code(Scale{Factor: quarter}, 10), "2.5 to even")
	assert.EqualValues(t, 3, code(Scale{Factor: quarter, Zero: 1}, 10), "the zero point after rounding")
	assert.EqualValues(t, 126, code(Scale{Factor: quarter, Zero: 128}, -6), "-1.5 to even")
	assert.EqualValues(t, 3, code(Scale{Factor: quarter, Bias: []float32{0.125}}, 10))
	assert.EqualValues(t, 13, code(Scale{Factor: quarter, ResidualScale: 0.5, ResidualZero: 20, Zero: 13}, 10, 15), "2.5 - 2.5")
	assert.EqualValues(t, 2, code(Scale{Factor: quarter, Lo: 0, Hi: 1, Divisor: 0.5}, 10), "limits before the division")
	assert.EqualValues(t, 0, code(Scale{Factor: []float32{4}}, math.MinInt32))
	assert.EqualValues(t, 255, code(Scale{Factor: []float32{4}}, math.MaxInt32))
	assert.EqualValues(t, 7, code(Scale{Factor: quarter, QMin: 7, QMax: 9}, 0))
	assert.EqualValues(t, 9, code(Scale{Factor: quarter, QMin: 7, QMax: 9}, 1000))
	assert.EqualValues(t, 0, code(Scale{Factor: []float32{0x1p-25}}, 1<<24+1), "the sum is rounded to float32: 0.5, not 0.50000003")
}

// Two groups of one input and two output channels each, a border of the zero point, written out.
func TestConvU8S8(t *testing.T) {
	s := ConvShape{N: 1, H: 1, W: 2, C: 2, M: 4, KH: 1, KW: 2, PadLeft: 1, OutH: 1, OutW: 2, Group: 2}
	src, w := []uint8{1, 10, 2, 20}, []int8{1, 2, 3, 4, 5, 6, -7, 8}
	dst := make([]int32, 8)
	ConvU8S8(Exact, dst, src, w, s, 100, []int32{1000, 0, 0, 0})
	assert.Equal(t, []int32{
		1000 + 100 + 2*1, 3*100 + 4*1, 5*100 + 6*10, -7*100 + 8*10,
		1000 + 1 + 2*2, 3*1 + 4*2, 5*10 + 6*20, -7*10 + 8*20,
	}, dst)
}
