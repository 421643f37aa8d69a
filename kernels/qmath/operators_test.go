package qmath

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// gridFor draws a grid of 8 bits, or of 16 symmetric ones: on powers of two where the profile needs them, signed without a
// zero point for ncnn.
func gridFor(r *rand.Rand, p Profile, lo, hi float64, bits int) Grid {
	e := lo + r.Float64()*(hi-lo)
	if p.Family == PowerOfTwo {
		e = math.Floor(e)
	}
	g := Grid{Scale: float32(math.Exp2(e)), QMax: 255}
	if bits == 16 {
		g.QMin, g.QMax = -1<<15, 1<<15-1
		return g
	}
	if r.IntN(2) == 0 || p.Form == FloatTwice {
		g.QMin, g.QMax = -128, 127
	}
	if p.Form != FloatTwice {
		g.ZeroPoint = g.QMin + int32(r.IntN(256))
	}
	return g
}

func (g Grid) draw(r *rand.Rand) int32 { return g.QMin + int32(r.IntN(int(g.reachAll())+1)) }

// within fails unless code got on grid y is a rounding of a number within d of v steps.
func within(t *testing.T, p Profile, y Grid, v, d float64, got int32, what string, args ...any) {
	t.Helper()
	const own = 1e-9 // of the float64 arithmetic here
	least, most := nearestCodes(v, d+own, y.ZeroPoint, y.QMin, y.QMax)
	if p.Family == PowerOfTwo && p.Rounding == Down {
		least = clampFloat(math.Floor(v-own), y.ZeroPoint, y.QMin, y.QMax)
	}
	if p.Form == FloatTwice {
		least, most = max(least, -127), max(most, -127)
	}
	if got < least || got > most {
		require.Fail(t, fmt.Sprintf(what, args...), "%s: is %d, exactly %g from zero point %d, deviation %g", p.Name, got, v, y.ZeroPoint, d)
	}
}

func eachProfile(t *testing.T, f func(t *testing.T, p Profile, r *rand.Rand)) {
	for i, p := range Profiles() {
		t.Run(p.Name, func(t *testing.T) { f(t, p, rand.New(rand.NewPCG(uint64(i), 77))) })
	}
}

func TestSum(t *testing.T) {
	eachProfile(t, func(t *testing.T, p Profile, r *rand.Rand) {
		for i := range 120 {
			bits := 8
			if i%6 == 5 && p.Family != XNNPACK {
				bits = 16
			}
			a, b, y := gridFor(r, p, -6, -1, bits), gridFor(r, p, -6, -1, bits), gridFor(r, p, -5, 0, bits)
			s, err := p.PrepareSum(a, b, y, i%2 == 1)
			require.NoError(t, err)
			d := s.Deviation()
			require.Less(t, d, 1.01)
			for range 200 {
				qa, qb := a.draw(r), b.draw(r)
				v := float64(qb-b.ZeroPoint) * float64(b.Scale)
				if i%2 == 1 {
					v = -v
				}
				v = (float64(qa-a.ZeroPoint)*float64(a.Scale) + v) / float64(y.Scale)
				within(t, p, y, v, d, s.At(qa, qb), "%d, %d of %+v", qa, qb, s)
			}
			if bits == 8 {
				assert.Equal(t, min(max(y.ZeroPoint, s.Quantizer.QMin), y.QMax), s.At(a.ZeroPoint, b.ZeroPoint), "zero and zero")
			}
		}
	})
}

func TestProduct(t *testing.T) {
	eachProfile(t, func(t *testing.T, p Profile, r *rand.Rand) {
		for i := range 120 {
			bits := 8 + 8*(i%6/5)
			a, b, y := gridFor(r, p, -6, -1, bits), gridFor(r, p, -6, -1, bits), gridFor(r, p, -5, 0, bits)
			m, err := p.PrepareProduct(a, b, y)
			require.NoError(t, err)
			d := m.Deviation()
			require.Less(t, d, 0.5)
			for range 200 {
				qa, qb := a.draw(r), b.draw(r)
				v := float64(qa-a.ZeroPoint) * float64(a.Scale) * float64(qb-b.ZeroPoint) * float64(b.Scale) / float64(y.Scale)
				within(t, p, y, v, d, m.At(qa, qb), "%d * %d of %+v", qa, qb, m)
			}
		}
	})
}

func TestRescale(t *testing.T) {
	eachProfile(t, func(t *testing.T, p Profile, r *rand.Rand) {
		for range 200 {
			x, y := gridFor(r, p, -6, -1, 8), gridFor(r, p, -5, 0, 8)
			s, err := p.PrepareRescale(x, y)
			require.NoError(t, err)
			for q := x.QMin; q <= x.QMax; q++ {
				within(t, p, y, float64(q-x.ZeroPoint)*float64(x.Scale)/float64(y.Scale), s.Deviation(), s.At(q), "%d of %+v", q, s)
			}
			same, err := p.PrepareRescale(x, x)
			require.NoError(t, err)
			for q := x.QMin; q <= x.QMax; q++ {
				want := q
				if p.Form == FloatTwice {
					want = max(want, -127)
				}
				require.Equal(t, want, same.At(q), "%s: from a grid to itself", p.Name)
			}
		}
	})
	_, err := named(t, "rndnu").PrepareRescale(Grid{Scale: 1, QMax: 255}, Grid{Scale: 0x1p-8, QMax: 255})
	assert.ErrorContains(t, err, "outside [2^-8, 2^7]")
}

func TestAverage(t *testing.T) {
	eachProfile(t, func(t *testing.T, p Profile, r *rand.Rand) {
		for i := range 300 {
			x, n, kind := gridFor(r, p, -6, -1, 8), 1+r.IntN(60), AverageKind(i/2%3)
			y := x
			if i%3 != 0 {
				y = gridFor(r, p, -6, -1, 8)
			}
			a, err := p.PrepareAverage(x, y, n, kind)
			require.NoError(t, err)
			sum, total, float := int32(0), int32(0), float32(0)
			for range n {
				q := x.draw(r)
				total += q - x.ZeroPoint
				sum += a.Term(q)
				float += a.AverageTerm(q)
			}
			got := a.At(sum)
			if a.Float() {
				got = a.AtFloat(float)
			}
			within(t, p, y, float64(total)*float64(x.Scale)/float64(n)/float64(y.Scale), a.Deviation(), got, "mean of %d, sum %d, %+v", n, total, a)
		}
		_, err := p.PrepareAverage(Grid{Scale: 1, QMax: 255}, Grid{Scale: 1, QMax: 255}, 0, WindowMean)
		assert.ErrorContains(t, err, "average of 0 codes")
		_, err = p.PrepareAverage(Grid{Scale: 1, QMax: 255}, Grid{Scale: 1, QMax: 255}, 1<<24, WindowMean)
		assert.ErrorContains(t, err, "fit into int32")
	})
}

// Of a long row that is nearly uniform every share is about half a code or less.
func TestSoftmaxOfALongRow(t *testing.T) {
	x, y := Grid{Scale: 1.0 / 64, QMax: 255}, Grid{Scale: 1.0 / 256, QMax: 255}
	for _, n := range []int{500, 513, 2000, 4095} {
		s, err := named(t, "tflite2").PrepareSoftmax(x, y, n)
		require.NoError(t, err)
		require.Equal(t, SoftmaxGemmlowp, s.Form)
		row, total := make([]int32, n), 0.0
		for i := range row {
			row[i] = int32(100 + i%2)
			total += math.Exp(float64(i%2) / 64)
		}
		s.Row(row, row)
		for i, q := range row {
			require.InDelta(t, 256*math.Exp(float64(i%2)/64)/total, q, 0.51, "code %d of %d", i, n)
		}
	}
}

func TestSoftmax(t *testing.T) {
	eachProfile(t, func(t *testing.T, p Profile, r *rand.Rand) {
		for i := range 60 {
			x, n := gridFor(r, p, -7, -1, 8), 1+r.IntN(200)
			y := Grid{Scale: 1.0 / 256, ZeroPoint: x.QMin, QMin: x.QMin, QMax: x.QMax}
			if i%2 == 1 && n > 3 {
				y.Scale = float32(math.Exp2(-6 - 2*r.Float64()))
			}
			s, err := p.PrepareSoftmax(x, y, n)
			if s.Form == SoftmaxMLAS && err != nil {
				require.ErrorContains(t, err, "overflows")
				continue
			}
			require.NoError(t, err)
			require.Equal(t, p.Family == TFLite && y.Scale == 1.0/256, s.Form == SoftmaxGemmlowp)
			src, dst, total := make([]int32, n), make([]int32, n), 0.0
			for k := range src {
				src[k] = x.draw(r)
				total += math.Exp(float64(src[k]) * float64(x.Scale))
			}
			s.Row(dst, src)
			for k, q := range src {
				v := math.Exp(float64(q)*float64(x.Scale)) / total / float64(y.Scale)
				within(t, Profile{Name: p.Name, Family: p.Family, Scaling: Scaling{Rounding: s.Rounding}}, y, v, s.Deviation(), dst[k],
					"%d of %d codes, %v, %g to %g", q, n, s.Form, x.Scale, y.Scale)
			}
		}
	})
	_, err := named(t, "tflite2").PrepareSoftmax(Grid{Scale: 1, QMax: 255}, Grid{Scale: 1.0 / 256, QMax: 255}, 4096)
	assert.ErrorContains(t, err, "below 4096 codes")
	_, err = named(t, "ort").PrepareSoftmax(Grid{Scale: 1, QMax: 255}, Grid{Scale: 1.0 / 1024, QMax: 255}, 2)
	assert.ErrorContains(t, err, "overflows float32")
	for scale, want := range map[float32]int32{1.0 / 256: 255, 1.0 / 200: 200} { // a row of one, as ONNX Runtime 1.32 has it
		s, err := named(t, "ort").PrepareSoftmax(Grid{Scale: 0.1, QMax: 255}, Grid{Scale: scale, QMax: 255}, 1)
		require.NoError(t, err)
		got := []int32{0}
		s.Row(got, []int32{38})
		assert.Equal(t, want, got[0])
	}
	_, err = named(t, "onnx").PrepareSoftmax(Grid{Scale: 1, QMax: 255}, Grid{Scale: 1e-9, QMax: 255}, 2)
	assert.ErrorContains(t, err, "2^-22")
}

// Tables hold what dequantizing, the function and quantizing give, in the order of raw bytes.
func TestTable(t *testing.T) {
	eachProfile(t, func(t *testing.T, p Profile, r *rand.Rand) {
		for range 50 {
			x, y := gridFor(r, p, -6, -3, 8), gridFor(r, p, -8, -5, 8)
			for name, f := range map[string]func(float64) float64{"tanh": math.Tanh, "square": func(v float64) float64 { return v * v / 9 }} {
				table := p.Table(x, y, Correct(f))
				for q := x.QMin; q <= x.QMax; q++ {
					v := f(float64(x.Dequantize(q))) / float64(y.Scale)
					within(t, p, y, v, 0x1p-21*(math.Abs(v)+1), table.Look(q, y.QMin < 0), "%s of %d", name, q)
				}
			}
			leaky, err := p.LeakyRelu(x, y, 0.1)
			require.NoError(t, err)
			swish, err := p.HardSwish(x, y)
			if err != nil {
				require.ErrorContains(t, err, "fixed point")
				swish = p.Table(x, y, func(v float32) float32 { return v * min(max(v+3, 0), 6) / 6 })
			}
			sigmoid := p.Table(x, y, p.Sigmoid())
			for q := x.QMin; q <= x.QMax; q++ {
				v := float64(q-x.ZeroPoint) * float64(x.Scale)
				gate := v * min(max(v+3, 0), 6) / 6
				d := 1e-4
				if p.Family == TFLite {
					d = 0.5 + math.Abs(gate)/float64(y.Scale)*0x1p-13 // 15-bit multipliers, 7 bits below the point
				}
				within(t, p, y, gate/float64(y.Scale), d, swish.Look(q, y.QMin < 0), "hard swish of %d, %g to %g", q, x.Scale, y.Scale)
				within(t, p, y, 1/(1+math.Exp(-v))/float64(y.Scale), 1e-3, sigmoid.Look(q, y.QMin < 0), "sigmoid of %d", q)
				if v < 0 {
					v *= float64(float32(0.1))
				}
				d = 1e-4
				if p.Form == DoubleUpAway {
					d = 0.25
				}
				within(t, p, y, v/float64(y.Scale), d, leaky.Look(q, y.QMin < 0), "leaky relu of %d, %g to %g", q, x.Scale, y.Scale)
			}
		}
	})
	var table Table
	table[0x80], table[0x7f] = 1, 0xff
	assert.Equal(t, int32(1), table.Look(-128, true))
	assert.Equal(t, int32(1), table.Look(128, false))
	assert.Equal(t, int32(-1), table.Look(127, true))
	nan := named(t, "onnx").Table(Grid{Scale: 1, ZeroPoint: 5, QMax: 255}, Grid{Scale: 1, ZeroPoint: 9, QMax: 255}, Correct(math.Sqrt))
	assert.Equal(t, byte(9), nan[0], "the root of -5 is NaN")
}

// Infinities saturate at the borders, NaN is the zero point, ties go where the target sends them.
func TestQuantizer(t *testing.T) {
	g := Grid{Scale: 0.5, ZeroPoint: 3, QMin: -128, QMax: 127}
	inf := float32(math.Inf(1))
	for _, p := range Profiles() {
		q := p.Quantizer(g)
		assert.Equal(t, []int32{127, 3}, []int32{q.At(inf), q.At(float32(math.NaN()))}, p.Name)
		assert.Equal(t, max(-128, q.QMin), q.At(-inf), p.Name)
		want := map[Rounding][2]int32{HalfEven: {5, 1}, HalfAwayFromZero: {6, 0}, HalfUp: {6, 1}, Down: {5, 0}}[q.Rounding]
		assert.Equal(t, want, [2]int32{q.At(1.25), q.At(-1.25)}, p.Name)
	}
	assert.Equal(t, HalfAwayFromZero, named(t, "tflite2").Quantizer(g).Rounding)
	assert.Equal(t, float32(2), named(t, "rndnu").Quantizer(g).Reciprocal)
}

// Codes of 16 bits as far from their zero points as can be: sums and products that integers of 32 bits do not hold are computed in
// float, and no profile is off by more than it says.
func TestWordsFarFromZero(t *testing.T) {
	a := Grid{Scale: 0.01, ZeroPoint: 0, QMax: 65535}
	b := Grid{Scale: 0.02, ZeroPoint: 65535, QMax: 65535}
	some := 0
	for _, p := range Profiles() {
		for _, q := range []int32{0, 1, 40000, 65534, 65535} {
			for _, r := range []int32{0, 1, 30000, 65534, 65535} {
				y := Grid{Scale: 15, ZeroPoint: 60000, QMax: 65535}
				x1, x2 := float64(q)*float64(a.Scale), float64(r-65535)*float64(b.Scale)
				if m, err := p.PrepareProduct(a, b, y); err == nil {
					assert.InDelta(t, min(max(x1*x2/15+60000, 0), 65535), float64(m.At(q, r)), 1, "%s: %d * %d", p.Name, q, r)
					some++
				}
				y.Scale = 0.05
				if s, err := p.PrepareSum(a, b, y, false); err == nil {
					assert.InDelta(t, min(max((x1+x2)/float64(y.Scale)+60000, 0), 65535), float64(s.At(q, r)), 1, "%s: %d + %d", p.Name, q, r)
				}
			}
		}
	}
	assert.Greater(t, some, 100)
}
