package verify

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// Digits sum to what was cut, for every width and for all integers of 17 bits, and each is as small as its width says.
func TestDigitsSumToTheInteger(t *testing.T) {
	var codes []int32
	for q := int32(-1 << 16); q <= 1<<16; q++ {
		codes = append(codes, q)
	}
	for _, bits := range widths {
		sums := make([]int64, len(codes))
		for _, d := range cut(codes, bits) {
			for i, v := range d.values {
				sums[i] += int64(v) << d.shift
			}
			require.LessOrEqual(t, d.largest(), math.Exp2(float64(bits)))
		}
		for i, q := range codes {
			require.EqualValues(t, q, sums[i], "%d bits", bits)
		}
	}
	require.Len(t, cut([]int32{0, 0}, 4), 1)
}

// Whatever the codes are, the factors are cut so that float32 sums of their digits, in any order, are the integer sums.
func TestSumsOfDigitsAreExact(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct{ terms, left, right int32 }{{9, 255, 127}, {64, 255, 127}, {4608, 255, 127}, {4608, 255, 255},
		{300, 65535, 127}, {4608, 65535, 255}, {30000, 255, 127}} {
		left, right := make([]int32, c.terms), make([]int32, c.terms)
		for i := range left { // the worst case, with a few others
			left[i], right[i] = c.left, c.right
			if i%7 == 0 {
				left[i], right[i] = r.Int32N(c.left+1), -r.Int32N(c.right+1)
			}
		}
		wide, b, ok := factors(mostOf(c.left), right, func(d *digit) float64 {
			sum := 0.0
			for _, v := range d.values {
				sum += math.Abs(float64(v))
			}
			return sum
		})
		require.True(t, ok, "%+v", c)
		a := cut(left, wide)
		sum := int64(0)
		for _, x := range a {
			for _, w := range b {
				forward, backward := float32(0), float32(0)
				for i := range left {
					forward += x.values[i] * w.values[i]
					k := len(left) - 1 - i
					backward += x.values[k] * w.values[k]
				}
				require.Equal(t, forward, backward)
				sum += int64(forward) << (x.shift + w.shift)
			}
		}
		want := int64(0)
		for i := range left {
			want += int64(left[i]) * int64(right[i])
		}
		require.Equal(t, want, sum, "%+v", c)
	}
	_, _, ok := factors(mostOf(255), []int32{1}, func(*digit) float64 { return exactly })
	require.False(t, ok)
}
