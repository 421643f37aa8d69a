package qmath

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// rounded is x/2^n, rounded in exact integers by definition.
func rounded(r Rounding, x *big.Int, n uint) *big.Int {
	d := new(big.Int).Lsh(big.NewInt(1), n)
	floor, rest := new(big.Int).DivMod(x, d, new(big.Int)) // Euclidean: rest is not negative
	twice := new(big.Int).Lsh(rest, 1).Cmp(d)
	up := twice > 0
	switch {
	case rest.Sign() == 0 || r == Down:
		up = false
	case r == Up:
		up = true
	case twice == 0:
		up = map[Rounding]bool{HalfEven: floor.Bit(0) == 1, HalfUp: true, HalfTowardsZero: x.Sign() < 0, HalfAwayFromZero: x.Sign() > 0}[r]
	}
	if up {
		floor.Add(floor, big.NewInt(1))
	}
	return floor
}

// A profile made of parts computes what its parts say: an M of so many bits, a shift no longer than allowed, one rounding.
func TestArithmetic(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	for _, a := range []Arithmetic{
		{Operators: TFLite, Multiplier: 8, Rounding: []Rounding{HalfEven}},
		{Operators: TVM, Multiplier: 16, Shift: 24, Rounding: []Rounding{HalfUp}},
		{Operators: FloatFamily, Multiplier: 31, Rounding: []Rounding{Down}},
		{Operators: XNNPACK, Multiplier: 15, Shift: 30, Rounding: []Rounding{HalfAwayFromZero}},
		{Operators: TFLite, Multiplier: 12, Shift: 16, Rounding: []Rounding{HalfTowardsZero}},
		{Operators: TFLite, Multiplier: 2, Rounding: []Rounding{Up}},
		{Operators: TFLite, Multiplier: 24, Shift: 40, Rounding: []Rounding{HalfDown}},
	} {
		p, err := a.Profile("own")
		require.NoError(t, err)
		require.False(t, p.Float() || p.FloatBias())
		for range 3000 {
			c := channelFor(r, p)
			f := float64(c.X) * float64(c.W) / float64(c.Y)
			m, err := p.Prepare(c)
			if a.Shift != 0 && math.Ldexp(f, a.Shift) < 0.499 {
				require.ErrorContains(t, err, "is 0 with right shifts of up to")
				continue
			}
			require.NoError(t, err)
			switch p.Family {
			case TVM:
				f = float64(float32(c.X*c.W)) / float64(c.Y)
			case XNNPACK:
				f = float64(float32(c.X*c.W) / c.Y)
			}
			// M and s by the words of Arithmetic.
			_, exp := math.Frexp(f)
			s := a.Multiplier - exp
			if a.Shift != 0 {
				s = min(s, a.Shift)
			}
			factor := int64(math.Round(math.Ldexp(f, s)))
			if math.Ldexp(1, -31)*float64(m.M)*math.Exp2(float64(m.Shift)) != math.Ldexp(float64(factor), -s) {
				t.Fatalf("%+v: the factor %g is %+v, not %d/2^%d", a, f, m, factor, s)
			}
			require.LessOrEqual(t, factor, int64(1)<<a.Multiplier)
			acc := int64((r.Float64()*2 - 1) * 150 / f)
			if acc > math.MaxInt32/2 || acc < math.MinInt32/2 {
				continue
			}
			want := rounded(p.Rounding, new(big.Int).Mul(big.NewInt(acc), big.NewInt(factor)), uint(s)).Int64()
			zp, lo, hi := int32(r.IntN(20)-10), int32(-128), int32(127)
			got := p.Requantize(int32(acc), m, zp, lo, hi)
			require.Equal(t, clamp64(want+int64(zp), lo, hi), got, "%+v: %d * %d >> %d", a, acc, factor, s)
			require.Equal(t, got, p.Requantize64(acc, m, zp, lo, hi))
			require.True(t, p.Fits(max(acc, -acc), m))
			// The code is a rounding of a number within the deviation.
			v, d := exact(acc, c, false), p.Deviation(acc, m, zp, lo, hi)
			if near := p.Rounding != Up && p.Rounding != Down; near {
				least, most := nearestCodes(v, d, zp, lo, hi)
				require.True(t, least <= got && got <= most, "%+v: %d is %d, exactly %g, deviation %g", a, acc, got, v, d)
			}
		}
		for _, acc := range []int64{math.MaxInt64, math.MinInt64} {
			m, err := p.Prepare(Channel{X: 1, W: 1, Y: 1})
			require.NoError(t, err)
			require.Equal(t, clamp64(acc, -1<<15, 1<<15-1), p.Requantize64(acc, m, 0, -1<<15, 1<<15-1))
		}
	}
	p, err := Arithmetic{Operators: TFLite, Multiplier: 8, Rounding: []Rounding{HalfUp}}.Profile("own")
	require.NoError(t, err)
	_, err = p.Prepare(Channel{X: 512, W: 1, Y: 1})
	require.ErrorContains(t, err, "needs more than the 8 bits of the multiplier")
	m, err := p.Prepare(Channel{X: 1e-20, W: 1, Y: 1})
	require.NoError(t, err)
	require.Zero(t, m, "a factor too small is 0")
	p, err = Arithmetic{Operators: TFLite, Multiplier: 8, Shift: 1, Rounding: []Rounding{HalfUp}}.Profile("own")
	require.NoError(t, err)
	_, err = p.Prepare(Channel{X: 0.02, W: 0.01, Y: 0.05})
	require.ErrorContains(t, err, "the factor 0.00")
	require.ErrorContains(t, err, "is 0 with right shifts of up to 1")
}

// The bound of a sum has what its multipliers lose: every code is the rounding of a number within it.
func TestSumsOfNarrowMultipliers(t *testing.T) {
	r := rand.New(rand.NewPCG(15, 16))
	beyond := 0
	for _, family := range []Family{TFLite, TVM} {
		for _, bits := range []int{4, 8, 16} {
			p, err := Arithmetic{Operators: family, Multiplier: bits, Rounding: []Rounding{HalfEven}}.Profile("own")
			require.NoError(t, err)
			for range 60 {
				grid := func(least, most float64) Grid {
					return Grid{Scale: float32(least + (most-least)*r.Float64()), QMin: -128, QMax: 127}
				}
				a, b, y := grid(0.01, 0.02), grid(0.01, 0.02), grid(0.02, 0.04)
				s, err := p.PrepareSum(a, b, y, false)
				require.NoError(t, err)
				d := s.Deviation()
				require.Less(t, d, 0.6+512*math.Exp2(-float64(bits)))
				for range 300 {
					q, k := int32(r.IntN(256)-128), int32(r.IntN(256)-128)
					v := (float64(q)*float64(a.Scale) + float64(k)*float64(b.Scale)) / float64(y.Scale)
					least, most := nearestCodes(v, d, 0, -128, 127)
					got := s.At(q, k)
					require.True(t, least <= got && got <= most, "%s, %d bits: %d+%d is %d, exactly %g, deviation %g", family, bits, q, k, got, v, d)
					least, most = nearestCodes(v, 0.51, 0, -128, 127)
					if got < least || got > most {
						beyond++
					}
				}
			}
		}
	}
	require.Positive(t, beyond, "no multiplier was narrow")
}

// A factor just below a power of two, whose M rounds up to one bit more than there are, is that power of two.
func TestArithmeticBelowPowers(t *testing.T) {
	for width := 2; width <= 31; width++ {
		p, err := Arithmetic{Operators: TFLite, Multiplier: width, Rounding: []Rounding{HalfUp}}.Profile("own")
		require.NoError(t, err)
		for n := -20; n <= min(width+1, 28); n++ { // factors of 2^29 are refused for themselves
			y := float32(math.Ldexp(1, -n))
			want, none := p.Prepare(Channel{X: 1, W: 1, Y: y})
			got, err := p.Prepare(Channel{X: 1 + 0x1p-23, W: 1 - 0x1p-23, Y: y}) // (1 - 2^-46) * 2^n
			require.Equal(t, n >= width, none != nil, "2^%d in %d bits", n, width)
			require.Equal(t, none == nil, err == nil, "2^%d in %d bits: %v", n, width, err)
			require.Equal(t, want, got, "2^%d in %d bits", n, width)
		}
	}
	p, err := Arithmetic{Operators: TFLite, Multiplier: 31, Rounding: []Rounding{HalfUp}}.Profile("own")
	require.NoError(t, err)
	m, err := p.Prepare(Channel{X: 0.0100169, W: 0.0030005071, Y: 3.0055779e-05})
	require.NoError(t, err)
	require.Equal(t, Multiplier{M: 1 << 30, Shift: 1}, m)
}

// What built-in profiles do can be said in parts as well.
func TestArithmeticOfProfiles(t *testing.T) {
	r := rand.New(rand.NewPCG(13, 14))
	for name, a := range map[string]Arithmetic{
		"tflite2":        {Operators: TFLite, Multiplier: 31, Rounding: []Rounding{HalfUp, HalfAwayFromZero}},
		"tvm-a64":        {Operators: TVM, Multiplier: 31, Rounding: []Rounding{HalfUp, HalfUp}},
		"tflite1":        {Operators: TFLite, Multiplier: 31, Rounding: []Rounding{HalfUp}},
		"tvm-nearest":    {Operators: TVM, Multiplier: 31, Rounding: []Rounding{HalfAwayFromZero}},
		"pow2-half-even": {Operators: PowerOfTwo, Rounding: []Rounding{HalfEven}},
		"pow2-floor":     {Operators: PowerOfTwo, Rounding: []Rounding{Down}},
	} {
		own, err := a.Profile("own")
		require.NoError(t, err)
		p := named(t, name)
		for range 2000 {
			c := channelFor(r, p)
			want, err := p.Prepare(c)
			require.NoError(t, err)
			got, err := own.Prepare(c)
			require.NoError(t, err)
			acc := int32((r.Float64()*2 - 1) * 150 * float64(c.Y) / float64(c.X) / float64(c.W))
			require.Equal(t, p.Requantize(acc, want, 3, -128, 127), own.Requantize(acc, got, 3, -128, 127), name)
		}
	}
}

func TestArithmeticRefusals(t *testing.T) {
	once := []Rounding{HalfUp}
	for want, a := range map[string]Arithmetic{
		"operators as those of ONNX Runtime have float factors":     {Operators: ORT, Multiplier: 16, Rounding: once},
		"a multiplier of 32 bits":                                   {Operators: TFLite, Multiplier: 32, Rounding: once},
		"right shifts of up to 63":                                  {Operators: TFLite, Multiplier: 16, Shift: 63, Rounding: once},
		"power-of-two is the form without one":                      {Operators: TFLite, Rounding: once},
		"and a multiplier of 16 bits":                               {Operators: PowerOfTwo, Multiplier: 16, Rounding: once},
		"the shift of a product without a multiplier":               {Operators: PowerOfTwo, Shift: 16, Rounding: once},
		"accumulators of 4 and biases of 0 bits":                    {Operators: PowerOfTwo, Accumulator: 4, Rounding: once},
		"biases of 32 bits in accumulators of 24":                   {Operators: PowerOfTwo, Accumulator: 24, Bias: 32, Rounding: once},
		"entries of tables 3 codes apart":                           {Operators: PowerOfTwo, Step: 3, Rounding: once},
		"nothing lies between the entries":                          {Operators: PowerOfTwo, Nearest: true, Rounding: once},
		"0 roundings: one or two":                                   {Operators: PowerOfTwo},
		"two roundings need a multiplier of 31 bits":                {Operators: TFLite, Multiplier: 16, Rounding: []Rounding{HalfUp, HalfUp}},
		"rounding half-even, then half-up: half-up, then half-away": {Operators: TFLite, Multiplier: 31, Rounding: []Rounding{HalfEven, HalfUp}},
	} {
		_, err := a.Profile("own")
		assert.ErrorContains(t, err, want)
	}
}

// Entries of a table of 16-bit codes that stand apart, read on a line and at the nearest.
func TestPivots(t *testing.T) {
	x, y := Grid{Scale: 0x1p-12, QMin: -1 << 15, QMax: 1<<15 - 1}, Grid{Scale: 0x1p-15, QMin: -1 << 15, QMax: 1<<15 - 1}
	for _, a := range []Arithmetic{{Operators: PowerOfTwo, Rounding: []Rounding{HalfEven}, Step: 32, Nearest: true},
		{Operators: PowerOfTwo, Rounding: []Rounding{HalfUp}, Step: 256}} {
		p, err := a.Profile("own")
		require.NoError(t, err)
		require.True(t, p.Pivots(x, y))
		require.False(t, p.Pivots(x, Grid{Scale: 1, QMin: -128, QMax: 127}))
		points := p.PivotPoints(x)
		require.Len(t, points, 65536/a.Step+1)
		require.Equal(t, []float32{-8, 8}, []float32{points[0], points[len(points)-1]})
		values := make([]float32, len(points))
		for i, v := range points {
			values[i] = float32(math.Tanh(float64(v)))
		}
		entries := p.PivotEntries(values, y)
		for q := int32(-1 << 15); q < 1<<15; q++ {
			got := p.AtPivots(entries, x, q)
			at := float64(q+1<<15) / float64(a.Step)
			if a.Nearest {
				require.Equal(t, entries[int(math.RoundToEven(at))], got)
				continue
			}
			k := int(at)
			line := float64(entries[k]) + math.Trunc((at-float64(k))*float64(entries[k+1]-entries[k]))
			require.Equal(t, int32(line), got)
		}
	}
}
