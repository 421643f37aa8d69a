package kernels

import (
	"math"

	"qwb/kernels/elementary"
	"qwb/kernels/ref"
)

// The functions of one number. dst may be a. Vector rows compute them as package ref does, bit for bit; the plain Go rows
// in float64, rounded once. Errors are stated there: at most 3 ULP, mostly 1.

// Exp is dst[i] = e^a[i].
func (t *Table) Exp(dst, a []float32) { t.elementwise(OpExp, dst, a, nil, 0, 0) }

// Sigmoid is dst[i] = 1 / (1 + e^-a[i]).
func (t *Table) Sigmoid(dst, a []float32) { t.elementwise(OpSigmoid, dst, a, nil, 0, 0) }

// Tanh is dst[i] = tanh(a[i]).
func (t *Table) Tanh(dst, a []float32) { t.elementwise(OpTanh, dst, a, nil, 0, 0) }

// Erf is dst[i] = erf(a[i]).
func (t *Table) Erf(dst, a []float32) { t.elementwise(OpErf, dst, a, nil, 0, 0) }

// Swish is dst[i] = a[i] * sigmoid(alpha*a[i]).
func (t *Table) Swish(dst, a []float32, alpha float32) {
	t.elementwise(OpSwish, dst, a, nil, alpha, 0)
}

// Gelu is dst[i] = a[i]/2 * (1 + erf(a[i]/sqrt(2))).
func (t *Table) Gelu(dst, a []float32) { t.elementwise(OpGelu, dst, a, nil, 0, 0) }

// GeluTanh is dst[i] = a[i]/2 * (1 + tanh(sqrt(2/pi) * (a[i] + 0.044715*a[i]^3))).
func (t *Table) GeluTanh(dst, a []float32) { t.elementwise(OpGeluTanh, dst, a, nil, 0, 0) }

// HardSigmoid is dst[i] = alpha*a[i] + beta, at least 0 and at most 1, the same bits in every row.
func (t *Table) HardSigmoid(dst, a []float32, alpha, beta float32) {
	t.elementwise(OpHardSigmoid, dst, a, nil, alpha, beta)
}

// HardSwish is dst[i] = a[i] * hardSigmoid(a[i]) with alpha = 1/6 and beta = 1/2, the same bits in every row.
func (t *Table) HardSwish(dst, a []float32) { t.elementwise(OpHardSwish, dst, a, nil, 1.0/6, 0.5) }

// Sqrt is dst[i] = sqrt(a[i]), rounded correctly.
func (t *Table) Sqrt(dst, a []float32) { t.elementwise(OpSqrt, dst, a, nil, 0, 0) }

// Round is dst[i] = the whole number next to a[i], the even one of two: NaN and infinities pass, zeros keep their signs.
func (t *Table) Round(dst, a []float32) { t.elementwise(OpRound, dst, a, nil, 0, 0) }

// AddScalar is dst[i] = a[i] + b.
func (t *Table) AddScalar(dst, a []float32, b float32) {
	t.elementwise(OpAddScalar, dst, a, nil, b, 0)
}

// MulScalar is dst[i] = a[i] * b.
func (t *Table) MulScalar(dst, a []float32, b float32) {
	t.elementwise(OpMulScalar, dst, a, nil, b, 0)
}

// DivScalar is dst[i] = a[i] / b.
func (t *Table) DivScalar(dst, a []float32, b float32) {
	t.elementwise(OpDivScalar, dst, a, nil, b, 0)
}

// ScalarSub is dst[i] = b - a[i].
func (t *Table) ScalarSub(dst []float32, b float32, a []float32) {
	t.elementwise(OpScalarSub, dst, a, nil, b, 0)
}

// ScalarDiv is dst[i] = b / a[i].
func (t *Table) ScalarDiv(dst []float32, b float32, a []float32) {
	t.elementwise(OpScalarDiv, dst, a, nil, b, 0)
}

// goMathRows lists the plain Go rows. Where a row's arithmetic is Float64, its bits are not those of the vector rows.
var goMathRows = []Row{
	{Name: "exp-go", Op: OpExp, ISA: "go", Arith: ref.Float64, tile: goMap(elementary.Exp)},
	{Name: "sigmoid-go", Op: OpSigmoid, ISA: "go", Arith: ref.Float64, tile: goMap(ref.Sigmoid64)},
	{Name: "tanh-go", Op: OpTanh, ISA: "go", Arith: ref.Float64, tile: goMap(elementary.Tanh)},
	{Name: "erf-go", Op: OpErf, ISA: "go", Arith: ref.Float64, tile: goMap(elementary.Erf)},
	{Name: "swish-go", Op: OpSwish, ISA: "go", Arith: ref.Float64, tile: goSwish},
	{Name: "gelu-go", Op: OpGelu, ISA: "go", Arith: ref.Float64, tile: goMap(ref.Gelu64)},
	{Name: "gelu-tanh-go", Op: OpGeluTanh, ISA: "go", Arith: ref.Float64, tile: goMap(ref.GeluTanh64)},
	{Name: "hard-sigmoid-go", Op: OpHardSigmoid, ISA: "go", Arith: ref.Float32, tile: goHardSigmoid},
	{Name: "hard-swish-go", Op: OpHardSwish, ISA: "go", Arith: ref.Float32, tile: goHardSwish},
	{Name: "sqrt-go", Op: OpSqrt, ISA: "go", Arith: ref.Float32, tile: goMap(math.Sqrt)},
	{Name: "round-go", Op: OpRound, ISA: "go", Arith: ref.Float32, tile: goMap(math.RoundToEven)},
	{Name: "add-scalar-go", Op: OpAddScalar, ISA: "go", Arith: ref.Float32, tile: func(t *tile) { AddScalar(t.dst, t.a, t.lo) }},
	{Name: "mul-scalar-go", Op: OpMulScalar, ISA: "go", Arith: ref.Float32, tile: func(t *tile) { MulScalar(t.dst, t.a, t.lo) }},
	{Name: "div-scalar-go", Op: OpDivScalar, ISA: "go", Arith: ref.Float32, tile: goDivScalar},
	{Name: "scalar-sub-go", Op: OpScalarSub, ISA: "go", Arith: ref.Float32, tile: goScalarSub},
	{Name: "scalar-div-go", Op: OpScalarDiv, ISA: "go", Arith: ref.Float32, tile: goScalarDiv},
}

// goMap computes f in float64.
func goMap(f func(float64) float64) func(*tile) {
	return func(t *tile) {
		a := t.a[:len(t.dst)]
		for i := range t.dst {
			t.dst[i] = float32(f(float64(a[i])))
		}
	}
}

func goSwish(t *tile) {
	a := t.a[:len(t.dst)]
	for i := range t.dst {
		x := float64(a[i])
		t.dst[i] = float32(x * ref.Sigmoid64(float64(t.lo)*x))
	}
}

func goHardSigmoid(t *tile) {
	a := t.a[:len(t.dst)]
	for i := range t.dst {
		t.dst[i] = ref.HardSigmoid(a[i], t.lo, t.hi)
	}
}

func goHardSwish(t *tile) {
	a := t.a[:len(t.dst)]
	for i := range t.dst {
		t.dst[i] = a[i] * ref.HardSigmoid(a[i], t.lo, t.hi)
	}
}

func goDivScalar(t *tile) {
	a := t.a[:len(t.dst)]
	for i := range t.dst {
		t.dst[i] = a[i] / t.lo
	}
}

func goScalarSub(t *tile) {
	a := t.a[:len(t.dst)]
	for i := range t.dst {
		t.dst[i] = t.lo - a[i]
	}
}

func goScalarDiv(t *tile) {
	a := t.a[:len(t.dst)]
	for i := range t.dst {
		t.dst[i] = t.lo / a[i]
	}
}
