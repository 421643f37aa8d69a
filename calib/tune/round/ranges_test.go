package round

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/kernels/qmath"
	"qwb/quantizer/tqc"
)

func schemeOf(t *testing.T, text string, like tqc.Config) tqc.Config {
	t.Helper()
	s, err := tqc.ParseScheme(text)
	require.NoError(t, err)
	c, err := s.Apply(like)
	require.NoError(t, err)
	return c
}

// whole has all integers of its format, narrow lacks the lowest.
var (
	whole  = tqc.Config{Policy: tqc.Symmetric | tqc.PerTensor | tqc.Linear, Format: qmath.Format{Bits: 8, QMin: -128, QMax: 127}}
	narrow = tqc.Config{Policy: tqc.Symmetric | tqc.PerTensor | tqc.Linear, Format: qmath.Format{Bits: 8, QMin: -127, QMax: 127}}
)

// naive is the definition, value by value.
func naive(g qmath.Grid, p Part, power float64) (sum float64) {
	for i, v := range p.Values {
		q := min(max(math.RoundToEven(float64(v/g.Scale)), float64(g.QMin-g.ZeroPoint)), float64(g.QMax-g.ZeroPoint))
		e := math.Pow(math.Abs(float64(v)-float64(float32(q)*g.Scale)), power)
		if p.Importance != nil {
			e *= p.Importance[i]
		}
		sum += e
	}
	return sum
}

func part(seed uint64, n int, important bool) Part {
	r := rand.New(rand.NewPCG(seed, 4))
	p := Part{Values: make([]float32, n)}
	for i := range p.Values {
		p.Values[i] = float32(r.NormFloat64()*r.ExpFloat64() + 0.3)
	}
	if important {
		p.Importance = make([]float64, n)
		for i := range p.Importance {
			p.Importance[i] = r.ExpFloat64()
		}
		p.Importance[0] = 0
	}
	return p
}

// Range comes within half a per cent of the best of thousands of scales and all zero points, each evaluated by the definition, and never
// falls behind the range of the values.
func TestRangeAgainstExhaustiveSearch(t *testing.T) {
	for _, text := range []string{"int4-sym-tensor", "int3-sym-tensor", "int8-sym-tensor", "uint4-asym-tensor", "int4-asym-tensor",
		"int4-sym-tensor-pow2", "int8-asym-tensor-pow2"} {
		for _, like := range []tqc.Config{whole, narrow} {
			c := schemeOf(t, text, like)
			for seed, n := range []int{9, 40, 400} {
				p := part(uint64(seed), n, seed != 1)
				for _, power := range []float64{2, 2.4} {
					g, err := Range(c, p, power)
					require.NoError(t, err)
					got := naive(g, p, power)
					require.InEpsilon(t, RangeError(g, p, power), got, 1e-9)
					lo, hi := extent(p.Values)
					scale, zp, _, err := qmath.ScaleFromRange(lo, hi, c.Scheme())
					require.NoError(t, err)
					start := qmath.Grid{Scale: scale, ZeroPoint: zp, QMin: c.QMin, QMax: c.QMax}
					require.LessOrEqual(t, got, naive(start, p, power))
					best := exhaustive(c, start, p, power)
					require.LessOrEqual(t, got, 1.005*best, "%s %d..%d, %d values, power %g: grid %+v", text, c.QMin, c.QMax, n, power, g)
					if c.Policy.Has(tqc.PowerOf2) {
						f, _ := math.Frexp(float64(g.Scale))
						require.Equal(t, 0.5, f)
						require.InEpsilon(t, best, got, 1e-12, "there are few powers of two")
					}
				}
			}
		}
	}
}

func exhaustive(c tqc.Config, start qmath.Grid, p Part, power float64) float64 {
	best := math.Inf(1)
	from, to := start.ZeroPoint, start.ZeroPoint
	if !c.Scheme().Symmetric {
		from, to = c.QMin, c.QMax
	}
	try := func(scale float64) {
		for z := from; z <= to; z++ {
			g := start
			g.Scale, g.ZeroPoint = float32(scale), z
			best = min(best, naive(g, p, power))
		}
	}
	if c.Policy.Has(tqc.PowerOf2) {
		for k := range 12 {
			try(math.Ldexp(float64(start.Scale), -k))
		}
		return best
	}
	n := 3000
	if to > from {
		n = 300
	}
	for i := n / 12; i <= n; i++ {
		try(float64(start.Scale) * float64(i) / float64(n))
	}
	return best
}

// What does not count has no say: a large value of importance 0 does not widen the range.
func TestImportanceDecides(t *testing.T) {
	c := schemeOf(t, "int4-sym-channel", narrow)
	p := Part{Values: []float32{7, 1, -0.5, 0.75, 0.1}, Importance: []float64{0, 1, 1, 1, 1}}
	g, err := Range(c, p, 2)
	require.NoError(t, err)
	require.Less(t, g.Scale, float32(0.2))
	p.Importance[0] = 1
	g, err = Range(c, p, 2)
	require.NoError(t, err)
	require.Greater(t, g.Scale, float32(0.9))
}

func TestFullRange(t *testing.T) {
	c := schemeOf(t, "int4-sym-channel", whole)
	g, ok := FullRange(c, []float32{-2, 1.7, 0.5})
	require.True(t, ok)
	require.Equal(t, qmath.Grid{Scale: 0.25, QMin: -8, QMax: 7}, g)
	require.Equal(t, int32(-8), g.Quantize(-2))
	require.Equal(t, int32(7), g.Quantize(1.7))
	g, ok = FullRange(c, []float32{-2, 1.9})
	require.True(t, ok)
	require.Equal(t, float32(1.9)/7, g.Scale, "nothing is cut off")
	_, ok = FullRange(c, []float32{2, -1})
	require.False(t, ok, "the largest is positive")
	_, ok = FullRange(schemeOf(t, "int4-sym-channel", narrow), []float32{-2, 1})
	require.False(t, ok, "-8 is not used")
	_, ok = FullRange(schemeOf(t, "int4-asym-channel", whole), []float32{-2, 1})
	require.False(t, ok)

	// Range knows of it: these values are met exactly.
	g, err := Range(c, Part{Values: []float32{-2, 1.75, 0.25}}, 2.4)
	require.NoError(t, err)
	require.Equal(t, float32(0.25), g.Scale)
}

func TestRangeOfDegenerateParts(t *testing.T) {
	c := schemeOf(t, "int4-sym-channel", narrow)
	for _, p := range []Part{{}, {Values: []float32{0, 0}}} {
		g, err := Range(c, p, 2)
		require.NoError(t, err)
		require.Equal(t, float32(1), g.Scale)
	}
	g, err := Range(c, Part{Values: []float32{7, 1}, Importance: []float64{0, 0}}, 2)
	require.NoError(t, err)
	require.Equal(t, float32(1), g.Scale, "nothing counts: the range of the values")
	g, err = Range(c, Part{Values: []float32{1e-44, -1e-40}}, 2)
	require.NoError(t, err)
	require.Equal(t, float32(0x1p-126), g.Scale)
	for _, p := range []Part{{Values: []float32{float32(math.NaN())}}, {Values: []float32{float32(math.Inf(1))}},
		{Values: []float32{1}, Importance: []float64{1, 2}}, {Values: []float32{1}, Importance: []float64{-1}}} {
		_, err := Range(c, p, 2)
		require.Error(t, err, fmt.Sprint(p))
	}
	_, err = Range(c, Part{Values: []float32{1}}, 0)
	require.ErrorContains(t, err, "power of 0")
}

// What is left of a part comes nearer to its length along its own direction.
func TestKeepGain(t *testing.T) {
	gain := func(g qmath.Grid, p Part) float64 {
		var vv, vq float64
		for i, v := range p.Values {
			h := 1.0
			if p.Importance != nil {
				h = p.Importance[i]
			}
			vv, vq = vv+h*float64(v)*float64(v), vq+h*float64(v)*float64(g.Fake(v))
		}
		return vq / vv
	}
	c := schemeOf(t, "int3-sym-tensor", narrow)
	for seed := range uint64(5) {
		p := part(seed, 500, seed%2 == 0)
		g, err := Range(c, p, 2)
		require.NoError(t, err)
		k := KeepGain(c, g, p)
		require.Less(t, gain(g, p), 0.99, "the least error is shorter")
		require.Less(t, 1-gain(k, p), 1-gain(g, p))
		require.Less(t, RangeError(k, p, 2), 1.2*RangeError(g, p, 2))
	}
	two := schemeOf(t, "int3-sym-tensor-pow2", narrow)
	g, err := Range(two, part(1, 50, false), 2)
	require.NoError(t, err)
	require.Equal(t, g, KeepGain(two, g, part(1, 50, false)))
	exact := Part{Values: []float32{-3, 2, 1, 0}}
	require.Equal(t, qmath.Grid{Scale: 1, QMin: -3, QMax: 3}, KeepGain(c, qmath.Grid{Scale: 1, QMin: -3, QMax: 3}, exact))
	require.Equal(t, float32(1), KeepGain(c, qmath.Grid{Scale: 1, QMin: -3, QMax: 3}, Part{Values: []float32{0}}).Scale)
}
