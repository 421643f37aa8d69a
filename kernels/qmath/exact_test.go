package qmath

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// nearestCodes returns the smallest and the largest code that rounding to nearest can make of a number within d of v, clamped.
func nearestCodes(v float64, d float64, zp, lo, hi int32) (least, most int32) {
	low, high := math.Ceil(v-d-0.5), math.Floor(v+d+0.5)
	return clampFloat(low, zp, lo, hi), clampFloat(high, zp, lo, hi)
}

// exact is acc*x*w/y + bias/y, computed without error and rounded once to float64.
func exact(acc int64, c Channel, bias bool) float64 {
	v := new(big.Rat).SetInt64(acc)
	for _, s := range []float32{c.X, c.W} {
		v.Mul(v, new(big.Rat).SetFloat64(float64(s)))
	}
	if bias {
		v.Add(v, new(big.Rat).SetFloat64(float64(c.Bias)))
	}
	f, _ := v.Quo(v, new(big.Rat).SetFloat64(float64(c.Y))).Float64()
	return f
}

// channelFor draws scales that make codes out of accumulators, powers of two where the profile needs them.
func channelFor(r *rand.Rand, p Profile) Channel {
	draw := func(lo, hi float64) float32 {
		e := lo + r.Float64()*(hi-lo)
		if p.Family == PowerOfTwo {
			e = math.Floor(e)
		}
		return float32(math.Exp2(e))
	}
	return Channel{X: draw(-8, -2), W: draw(-12, -4), Y: draw(-7, -1), Bias: float32(r.NormFloat64() * 0.3)}
}

// Codes are roundings of a number within Deviation of the exact one.
func TestDeviation(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, p := range Profiles() {
		for range 3000 {
			c := channelFor(r, p)
			m, err := p.Prepare(c)
			require.NoError(t, err)
			acc := int32((r.Float64()*2 - 1) * 150 * float64(c.Y) / float64(c.X) / float64(c.W))
			zp, lo, hi := int32(r.IntN(20)-10), int32(-128), int32(127)
			v, d := exact(int64(acc), c, p.FloatBias()), p.Deviation(int64(acc), m, zp, lo, hi)
			require.Less(t, d, 0.26, "%s: %+v", p.Name, m)
			got := p.Requantize(acc, m, zp, lo, hi)
			least, most := nearestCodes(v, d, zp, lo, hi)
			if p.Form == ShiftOnly {
				least = clampFloat(p.Rounding.Round(v), zp, lo, hi)
				most = least
			}
			if p.Form == FloatTwice {
				least, most = max(least, -127), max(most, -127)
			}
			require.True(t, least <= got && got <= most, "%s: %d of %+v is %d, exactly %g, deviation %g", p.Name, acc, c, got, v, d)
			if p.Form != DoubleUpAway && p.Form != SingleUp {
				require.Equal(t, got, p.Requantize64(int64(acc), m, zp, lo, hi), "%s: 64 bits", p.Name)
			}
		}
	}
}

// The same for accumulators and codes of 16-bit activations.
func TestDeviation64(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	const lo, hi = -1 << 15, 1<<15 - 1
	for _, p := range Profiles() {
		if p.Form == FloatTwice {
			continue // 8 bits only
		}
		for range 2000 {
			c := channelFor(r, p)
			m, err := p.Prepare(c)
			require.NoError(t, err)
			acc := int64((r.Float64()*2 - 1) * 40000 * float64(c.Y) / float64(c.X) / float64(c.W))
			v, d := exact(acc, c, p.FloatBias()), p.Deviation64(acc, m, 0, lo, hi)
			require.Less(t, d, 1.02)
			least, most := nearestCodes(v, d, 0, lo, hi)
			if p.Form == ShiftOnly {
				least = clampFloat(p.Rounding.Round(v), 0, lo, hi)
				most = least
			}
			got := p.Requantize64(acc, m, 0, lo, hi)
			require.True(t, least <= got && got <= most, "%s: %d of %+v is %d, exactly %g, deviation %g", p.Name, acc, c, got, v, d)
		}
		for _, acc := range []int64{math.MaxInt64, math.MinInt64, 1 << 62} {
			m, err := p.Prepare(Channel{X: 1, W: 1, Y: 1})
			require.NoError(t, err)
			if p.Form != DoubleUpUp { // which shifts left first, and wraps
				require.Equal(t, clamp64(acc, lo, hi), p.Requantize64(acc, m, 0, lo, hi), "%s: %d", p.Name, acc)
			}
		}
	}
}

// Accumulators that fit give roundings of the exact value however large the factor; the first that does not is known to wrap.
func TestFits(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for _, p := range Profiles() {
		for range 2000 {
			c := Channel{X: float32(math.Exp2(float64(r.IntN(24) - 8))), W: 1, Y: 1}
			if p.Family != PowerOfTwo {
				c.X *= float32(1 + r.Float64())
			}
			m, err := p.Prepare(c)
			require.NoError(t, err)
			acc := int64(math.Exp2(31 * r.Float64()))
			if !p.Fits(acc, m) {
				continue
			}
			least, most := int32(math.MinInt32), int32(math.MaxInt32)
			if p.Form == FloatTwice {
				least = -127
			}
			v := exact(acc, c, false)
			got := p.Requantize(int32(acc), m, 0, least, most)
			require.InDelta(t, min(v, math.MaxInt32), float64(got), 1+1e-6*v, "%s: %d * %g", p.Name, acc, c.X)
		}
	}
	m := Multiplier{M: 1 << 30, Shift: 3}
	require.False(t, named(t, "tflite2").Fits(1<<28, m))
	require.True(t, named(t, "tflite2").Fits(1<<28-1, m))
	require.Less(t, named(t, "tflite2").Requantize(1<<28, m, 0, -100, 100), int32(0), "it wraps")
	up := Multiplier{M: 1 << 30, Shift: -5}
	require.False(t, named(t, "tvm-upward").Fits(math.MaxInt32, up))
	require.True(t, named(t, "tflite1").Fits(math.MaxInt32, up))
	require.False(t, named(t, "ort").Fits(1<<31, Multiplier{Scale: 1}))
}

// Codes do not decrease with the accumulator, 0 maps to the zero point and the clamps hold.
func TestRequantizeProperties(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, p := range Profiles() {
		for range 40 {
			c := channelFor(r, p)
			c.Bias = 0
			m, err := p.Prepare(c)
			require.NoError(t, err)
			zp, lo, hi := int32(r.IntN(200)-100), int32(-120), int32(110)
			require.Equal(t, min(max(zp, lo), hi), p.Requantize(0, m, zp, lo, hi), p.Name)
			start, last := int32(r.IntN(1<<20)-1<<19), lo
			for i := range int32(1000) {
				q := p.Requantize(start+i, m, zp, lo, hi)
				require.True(t, lo <= q && q <= hi, p.Name)
				if i > 0 {
					require.GreaterOrEqual(t, q, last, "%s: %d of %+v", p.Name, start+i, c)
				}
				last = q
			}
		}
	}
}

// A fused residual is added before the one rounding.
func TestRequantizeAdd(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for _, p := range Profiles() {
		require.Equal(t, p.FloatBias(), p.FusesAdd())
		for range 2000 {
			if !p.FusesAdd() {
				break
			}
			c := channelFor(r, p)
			m, err := p.Prepare(c)
			require.NoError(t, err)
			g := Grid{Scale: c.Y * float32(0.3+r.Float64()), ZeroPoint: int32(r.IntN(20) - 10), QMin: -128, QMax: 127}
			s, q := p.PrepareSkip(g, c.Y), int32(r.IntN(256)-128)
			acc := int32((r.Float64()*2 - 1) * 150 * float64(c.Y) / float64(c.X) / float64(c.W))
			skip := float64(q-g.ZeroPoint) * float64(g.Scale) / float64(c.Y)
			v := exact(int64(acc), c, true) + skip
			d := p.Deviation(int64(acc), m, 0, -128, 127) + 0x1p-22*math.Abs(skip) + 0x1p-22*math.Abs(v)
			least, most := nearestCodes(v, d, 3, -120, 127)
			got := p.RequantizeAdd(acc, m, q, s, 3, -120, 127)
			require.True(t, least <= got && got <= most, "%s: %g is %d", p.Name, v, got)
		}
	}
}

func TestPrepareErrors(t *testing.T) {
	for _, p := range Profiles() {
		for _, c := range []Channel{{X: 0, W: 1, Y: 1}, {X: 1, W: -1, Y: 1}, {X: 1, W: 1, Y: float32(math.Inf(1))},
			{X: float32(math.NaN()), W: 1, Y: 1}} {
			_, err := p.Prepare(c)
			require.ErrorContains(t, err, "profile "+p.Name+": scale ", "%+v", c)
		}
		_, err := p.Prepare(Channel{X: 0x1p100, W: 0x1p20, Y: 0x1p-100})
		if p.Form != FloatDivide && p.Form != FloatTwice {
			require.Error(t, err, p.Name)
		}
	}
	_, err := named(t, "pow2").Prepare(Channel{X: 0.3, W: 1, Y: 1})
	require.ErrorContains(t, err, "is not a power of two")
	m, err := named(t, "tflite2").Prepare(Channel{X: 1e-30, W: 1e-5, Y: 1})
	require.NoError(t, err)
	require.Equal(t, Multiplier{}, m, "a factor too small is 0")
	m, err = named(t, "tflite2").Prepare(Channel{X: 1 - 0x1p-24, W: 1 - 0x1p-24, Y: 1})
	require.NoError(t, err)
	require.Equal(t, Multiplier{M: 2147483392, Shift: 0}, m)
}

// Accumulated is the value of a layer whose output stays float.
func TestAccumulated(t *testing.T) {
	c := Channel{X: 0.1, W: 0.2, Bias: 1}
	require.Equal(t, float32(float32(7*float32(c.X*c.W))+1), c.Accumulated(7))
}

func FuzzRequantize(f *testing.F) {
	f.Add(int32(5943), float32(0.0096744941547513), float32(1), float32(1), int8(0))
	f.Add(int32(math.MinInt32), float32(0x1p-31), float32(1), float32(1), int8(-128))
	f.Fuzz(func(t *testing.T, acc int32, x, w, y float32, zp int8) {
		for _, p := range Profiles() {
			c := Channel{X: x, W: w, Y: y}
			m, err := p.Prepare(c)
			if err != nil {
				continue
			}
			got := p.Requantize(acc, m, int32(zp), -128, 127)
			if got < -128 || got > 127 {
				t.Fatalf("%s: %d", p.Name, got)
			}
			if v := exact(int64(acc), c, false); p.Form == SingleAway && math.Abs(v) < 1<<20 && x > 1e-20 && w > 1e-20 && x < 1e20 && w < 1e20 {
				least, most := nearestCodes(v, 0x1p-22*math.Abs(v)+0x1p-31, int32(zp), -128, 127)
				if got < least || got > most {
					t.Fatalf("%s: %d of %g %g %g is %d, exactly %g", p.Name, acc, x, w, y, got, v)
				}
			}
		}
	})
}
