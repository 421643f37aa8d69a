package verify

import (
	"qwb/analysis"
	"qwb/kernels/qmath"
)

// maxFaults is how many faults are kept.
const maxFaults = 100

// faults collects what a program holds otherwise than graph and plan give it.
type faults struct {
	layer  *layer
	output int // of the step, that is looked at
	values int64
	list   []analysis.Divergence
	total  int
}

// integer is any type in which numbers of a program are stored.
type integer interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint8 | ~uint16 | ~uint32 | ~float32 | ~float64
}

// number compares one number.
func number[T integer](f *faults, what string, index int, want, got T) {
	f.values++
	if want == got || want != want && got != got {
		return
	}
	f.add(what, index, float64(want), float64(got))
}

// numbers compares lists.
func numbers[T integer](f *faults, what string, want, got []T) {
	number(f, what+" count", 0, len(want), len(got))
	for i := range min(len(want), len(got)) {
		number(f, what, i, want[i], got[i])
	}
}

// flag compares a property.
func flag(f *faults, what string, want, got bool) {
	as := map[bool]int{true: 1}
	number(f, what, 0, as[want], as[got])
}

func (f *faults) add(what string, index int, want, got float64) {
	f.total++
	if len(f.list) == maxFaults {
		return
	}
	d := f.layer.divergence(f.output)
	d.What, d.Index, d.Expected, d.Got, d.ExpectedBy = what, index, analysis.Number(want), analysis.Number(got), "plan"
	f.list = append(f.list, d)
}

// grid compares where codes stand.
func (f *faults) grid(what string, want, got qmath.Grid) {
	number(f, what+"scale", 0, want.Scale, got.Scale)
	number(f, what+"zero point", 0, want.ZeroPoint, got.ZeroPoint)
	number(f, what+"lower clamp", 0, want.QMin, got.QMin)
	number(f, what+"upper clamp", 0, want.QMax, got.QMax)
	number(f, what+"rounding", 0, want.Rounding, got.Rounding)
}

// multiplier compares the factors of channel c.
func (f *faults) multiplier(what string, c int, want, got qmath.Multiplier) {
	number(f, what+"multiplier", c, want.M, got.M)
	number(f, what+"shift", c, want.Shift, got.Shift)
	number(f, what+"factor", c, want.Scale, got.Scale)
	number(f, what+"float bias", c, want.Bias, got.Bias)
	number(f, what+"divisor", c, want.Out, got.Out)
	number(f, what+"float64 factor", c, want.Double, got.Double)
}

// scaling compares how a step rounds.
func (f *faults) scaling(want, got qmath.Scaling) {
	number(f, "form", 0, want.Form, got.Form)
	number(f, "rounding", 0, want.Rounding, got.Rounding)
	number(f, "width of multipliers", 0, want.Bits, got.Bits)
	number(f, "longest shift", 0, want.Most, got.Most)
}

// quantizer compares how real numbers become codes.
func (f *faults) quantizer(want, got qmath.Quantizer) {
	f.grid("quantizer ", want.Grid, got.Grid)
	number(f, "reciprocal", 0, want.Reciprocal, got.Reciprocal)
}

// rescale compares a change of grid; nil is none.
func (f *faults) rescale(index int, want, got *qmath.Rescale) {
	flag(f, "rescale", want != nil, got != nil)
	if want == nil || got == nil {
		return
	}
	f.grid("input ", want.X, got.X)
	f.grid("", want.Y, got.Y)
	f.scaling(want.Scaling, got.Scaling)
	f.multiplier("", index, want.M, got.M)
	flag(f, "float form", want.Float, got.Float)
	f.quantizer(want.Quantizer, got.Quantizer)
	number(f, "multiplier of 8 bits", index, want.Eighth, got.Eighth)
}
