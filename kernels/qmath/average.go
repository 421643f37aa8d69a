package qmath

import (
	"fmt"
	"math"
	"math/bits"
)

// AverageForm is how the mean of n codes is taken.
type AverageForm uint8

const (
	// AverageScaled is scale(sum(q - zx), M) + zy with the factor s_x/(s_y*n).
	AverageScaled AverageForm = iota
	// AverageFloat is sum(q - zx) * s_x / n in float32, quantized.
	AverageFloat
	// AverageSame is sum(q)/n in integers, ties away from zero: TFLite's AVERAGE_POOL_2D, whose grids are the same.
	AverageSame
	// AverageEach is TVM's: every code is moved to the output's grid, unclamped, the sum of those divided and truncated.
	AverageEach
	// AverageExact is sum(q - zx) * 2^Shift / n rounded once: power-of-two scales.
	AverageExact
	// AverageTerms is ONNX Runtime's QLinearAveragePool: float32 terms summed in order and divided, then
	// half-even(mean/s_y + zy). It sums AverageTerm and ends with AtFloat; the others sum Term and end with At.
	AverageTerms
)

var averageFormNames = [...]string{"scaled", "float", "same grid", "each", "exact", "float terms"}

func (f AverageForm) String() string {
	if int(f) < len(averageFormNames) {
		return averageFormNames[f]
	}
	return fmt.Sprintf("average form(%d)", uint8(f))
}

// AverageKind is the operator that takes a mean: engines have different kernels for them.
type AverageKind uint8

const (
	WindowMean AverageKind = iota // AveragePool
	GlobalMean                    // GlobalAveragePool
	AxesMean                      // ReduceMean
)

// Average is the prepared mean of N codes. Its kernel adds up Term of every code and passes the sum to At.
type Average struct {
	Form      AverageForm
	X, Y      Grid
	N         int
	Scaling   Scaling
	M         Multiplier // AverageScaled
	Each      Rescale    // AverageEach
	Shift     int        // AverageExact
	Rounding  Rounding   // AverageExact
	Quantizer Quantizer  // AverageFloat
}

// PrepareAverage returns the mean of n codes on grid x, with its result on grid y, taken by an operator of a kind.
// Positions of a window that are padding and count take part as zero points, whose Term is 0 (AverageEach: y's zero point).
//
// TFLite has no global pool: a GlobalAveragePool was an AVERAGE_POOL_2D over the whole of its input, whose grids its converter makes
// the same, or a MEAN, whose output has a range of its own. So that is what tells them apart.
func (p Profile) PrepareAverage(x, y Grid, n int, kind AverageKind) (Average, error) {
	a := Average{X: x, Y: y, N: n, Scaling: p.Scaling, Rounding: p.Rounding, Quantizer: p.Quantizer(y)}
	if err := p.scales(x.Scale, y.Scale); err != nil {
		return Average{}, err
	}
	if limit := maxTerms(x); n < 1 || n > limit {
		return Average{}, fmt.Errorf("profile %s: average of %d codes; between 1 and %d fit into int32", p.Name, n, limit)
	}
	var err error
	switch p.Family {
	case TFLite:
		if kind != AxesMean && x.Scale == y.Scale && x.ZeroPoint == y.ZeroPoint {
			a.Form = AverageSame
			break
		}
		if p.Own { // a multiplier has no bits to spare for the division
			a.M, err = p.multiplier(float64(x.Scale)/float64(y.Scale)/float64(n), x.Scale, y.Scale)
			break
		}
		a.M, err = p.multiplier(float64(x.Scale)/float64(y.Scale), x.Scale, y.Scale)
		a.M = a.M.divided(n)
	case TVM:
		err = a.each(p)
	case XNNPACK:
		a.M, err = p.multiplier(float64(x.Scale/float32(y.Scale*float32(n))), x.Scale, y.Scale)
	case PowerOfTwo:
		a.Form = AverageExact
		var m Multiplier
		m, err = p.multiplier(float64(x.Scale)/float64(y.Scale), x.Scale, y.Scale)
		a.Shift = int(m.Shift) - 1
	case ORT:
		if wide(x) > 8 || wide(y) > 8 {
			a.Form = AverageFloat
			break
		}
		if kind == WindowMean {
			a.Form = AverageTerms
			break
		}
		a.M.Scale = x.Scale / float32(y.Scale*float32(n))
		err = p.finite(a.M.Scale, x.Scale, y.Scale)
	default:
		a.Form = AverageFloat
	}
	return a, err
}

// maxTerms is how many codes of a grid certainly add up in int32.
func maxTerms(g Grid) int {
	return int((1<<31 - 1) / max(int64(g.QMax)-int64(g.QMin), 1))
}

// each prepares TVM's mean. Terms are not limited to y's codes, but their sum must fit into int32.
func (a *Average) each(p Profile) (err error) {
	a.Form = AverageEach
	unclamped := a.Y
	unclamped.QMin, unclamped.QMax = math.MinInt32, math.MaxInt32
	if a.Each, err = p.PrepareRescale(a.X, unclamped); err != nil {
		return err
	}
	most := a.X.reach()*float64(a.X.Scale)/float64(a.Y.Scale) + math.Abs(float64(a.Y.ZeroPoint)) + 1
	if most*float64(a.N) >= 1<<31 {
		return scaleErrorf("profile %s: the sum of %d codes on scale %g does not fit into int32", p.Name, a.N, a.Y.Scale)
	}
	return nil
}

// divided returns the multiplier of a mean of n codes from that of their sum, as TFLite's MEAN does: it shifts up by the number
// of bits of n before the division, which truncates, so that 30 bits are left.
func (m Multiplier) divided(n int) Multiplier {
	shift := min(bits.Len(uint(n))-1, 31+int(m.Shift))
	return Multiplier{M: int32(int64(m.M) << shift / int64(n)), Shift: m.Shift - int32(shift)}
}

// Float reports whether the terms are float32: AverageTerm and AtFloat take the place of Term and At.
func (a Average) Float() bool { return a.Form == AverageTerms }

// Term returns what code q adds to the sum.
func (a Average) Term(q int32) int32 {
	if a.Form == AverageEach {
		return a.Each.At(q)
	}
	return q - a.X.ZeroPoint
}

// At returns the code of the mean, given the sum of N terms.
func (a Average) At(sum int32) int32 {
	n := int32(a.N)
	switch a.Form {
	case AverageFloat:
		return a.Quantizer.At(float32(float32(sum)*a.X.Scale) / float32(n))
	case AverageSame:
		raw := int64(sum) + int64(n)*int64(a.X.ZeroPoint)
		half := int64(n / 2)
		if raw <= 0 {
			half = -half
		}
		return clamp64((raw+half)/int64(n), a.Y.QMin, a.Y.QMax)
	case AverageEach:
		return min(max(sum/n, a.Y.QMin), a.Y.QMax)
	case AverageExact:
		return clamp64(a.Rounding.quotient(int64(sum), a.Shift, int64(n))+int64(a.Y.ZeroPoint), a.Y.QMin, a.Y.QMax)
	}
	return a.Scaling.Requantize(sum, a.M, a.Y.ZeroPoint, a.Y.QMin, a.Y.QMax)
}

// AverageTerm returns what code q adds to the float32 sum of AverageTerms.
func (a Average) AverageTerm(q int32) float32 { return a.X.Dequantize(q) }

// AtFloat returns the code of the mean, given the float32 sum of N float terms.
func (a Average) AtFloat(sum float32) int32 {
	v := float32(sum/float32(a.N))/a.Y.Scale + float32(a.Y.ZeroPoint)
	return clampFloat(HalfEven.Round(float64(v)), 0, a.Y.QMin, a.Y.QMax)
}

// quotient returns x*2^n / d rounded by r, exactly, for |x| below 2^31, n in [-31, 31] and d in [1, 2^31).
func (r Rounding) quotient(x int64, n int, d int64) int64 {
	num := x
	if n >= 0 {
		num = x << n
	} else {
		d <<= -n
	}
	q := num / d
	rest := num - q*d
	if rest < 0 {
		q, rest = q-1, rest+d
	}
	// Compared doubled, as d may be odd.
	if r.up(q, num < 0, 2*rest, d) {
		q++
	}
	return q
}
