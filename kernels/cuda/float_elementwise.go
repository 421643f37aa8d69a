package cuda

import (
	"fmt"

	"qwb/kernels/cuda/driver"
)

// FloatFunction is a function of one float32; A and B of FloatUnary are its parameters. The numbers are those of float.cuh.
type FloatFunction int32

const (
	FloatLimit       FloatFunction = iota // ref.Limit between A and B: Relu, Clip
	FloatLeaky                            // A*x below 0
	FloatThreshold                        // x above A, else 0
	FloatShrink                           // x+A below -B, x-A above B, else 0
	FloatHardSigmoid                      // ref.HardSigmoid with alpha A and beta B
	FloatHardSwish                        // x times the hard sigmoid with 1/6 and 1/2
	FloatSigmoid                          // ref.Sigmoid, and so on
	FloatTanh
	FloatErf
	FloatExp
	FloatGelu
	FloatGeluTanh
	FloatSwish // with alpha A
	FloatSoftsign
	FloatSqrt
	FloatReciprocal
	FloatFloor
	FloatCeil
	FloatRound // half to even
	FloatAbs
	FloatNeg
	FloatSign
	FloatSquare
	FloatCube // the cube in float64, rounded once
	FloatLog  // in float64 as package math has it on x86-64, rounded once
)

// floatUnary mirrors FloatUnary of float_elementwise.cu.
type floatUnary struct {
	x, y    driver.Ptr
	count   uint32
	op      int32
	a, b    float32
	wide, _ uint32
}

// FloatUnary is y[i] = f(x[i]) for count elements. y may be x.
func FloatUnary(s *Stream, f FloatFunction, y, x driver.Ptr, count int, a, b float32) error {
	if err := fits("an array", count); err != nil {
		return err
	}
	p := floatUnary{x: x, y: y, count: uint32(count), op: int32(f), a: a, b: b}
	threads := count
	if (x|y)%16 == 0 && count >= 4 {
		p.wide, threads = 1, floatParts(count, 4)
	}
	return overElements(s, "float_elementwise", "unary", threads, 256, &p)
}

// floatAffine mirrors FloatAffine of float_elementwise.cu.
type floatAffine struct {
	x, scale, bias, y         driver.Ptr
	count, inner, channels, _ uint32
}

// FloatAffine is y[i] = x[i]*scale[c] + bias[c], product and sum rounded, c being i / inner % channels. y may be x.
func FloatAffine(s *Stream, y, x, scale, bias driver.Ptr, count, inner, channels int) error {
	if err := fits("an array", count); err != nil {
		return err
	}
	if count > 0 && (inner < 1 || channels < 1) {
		return fmt.Errorf("cuda: %d channels with runs of %d", channels, inner)
	}
	p := floatAffine{x: x, scale: scale, bias: bias, y: y, count: uint32(count), inner: uint32(inner), channels: uint32(channels)}
	return overElements(s, "float_elementwise", "affine", count, 256, &p)
}

// spread mirrors Spread of float_elementwise.cu.
type spread struct {
	count uint32
	axes  int32
	size  [floatAxes]Divisor
	step  [3][floatAxes]int32
}

// spreadOf lines up to three operands up with a result whose elements lie in the order of sizes.
func spreadOf(sizes []int, steps ...[]int) (sp spread, err error) {
	sizes, steps = joinAxes(sizes, steps...)
	to := make([]*[floatAxes]int32, len(steps))
	for k := range steps {
		to[k] = &sp.step[k]
	}
	sp.count, sp.axes, err = putAxes(&sp.size, sizes, steps, to...)
	return sp, err
}

// FloatOperation is a function of two float32.
type FloatOperation int32

const (
	FloatAdd FloatOperation = iota
	FloatSub
	FloatMul
	FloatDiv
	FloatMaximum // NaN where one is, +0 above -0
	FloatMinimum
	FloatPRelu     // a, b*a below 0
	FloatScaledAdd // a + Scale*b, the product rounded
	FloatAtLeast   // b where a is below it: the lower half of ref.Limit
	FloatAtMost    // b where a is above it
)

// FloatBinary is y = f(a, b) with broadcasting: result i, in the sizes of the axes, takes the elements at its steps, which are 0 where an
// operand repeats. y may be an operand that does not repeat.
type FloatBinary struct {
	Op           FloatOperation
	Sizes        []int
	AStep, BStep []int
	Scale        float32
	Limited      bool // the result goes through ref.Limit between Lo and Hi
	Lo, Hi       float32
}

// floatBinary mirrors FloatBinary of float_elementwise.cu.
type floatBinary struct {
	a, b, y       driver.Ptr
	op, limited   int32
	scale, lo, hi float32
	spread        spread
	wide          uint32
}

// Launch computes y.
func (f *FloatBinary) Launch(s *Stream, y, a, b driver.Ptr) error {
	if err := fits("an array", f.Sizes...); err != nil {
		return err
	}
	sizes, steps := joinAxes(f.Sizes, f.AStep, f.BStep)
	p := floatBinary{a: a, b: b, y: y, op: int32(f.Op), limited: flag(f.Limited), scale: f.Scale, lo: f.Lo, hi: f.Hi}
	if p.wide = inFours(sizes, steps, y, a, b); p.wide != 0 {
		sizes[len(sizes)-1] /= 4
		for k := range steps {
			steps[k][len(sizes)-1] *= 4
		}
	}
	var err error
	if p.spread.count, p.spread.axes, err = putAxes(&p.spread.size, sizes, steps, &p.spread.step[0], &p.spread.step[1]); err != nil {
		return err
	}
	sp := p.spread
	return overElements(s, "float_elementwise", "binary", int(sp.count), 256, &p)
}

// inFours returns 0 unless results may be computed four neighbours at a time: then 1, and bits from 1 on for operands that have
// neighbours as well, not one element for all four.
func inFours(sizes []int, steps [][]int, y driver.Ptr, operands ...driver.Ptr) uint32 {
	last := len(sizes) - 1
	if sizes[last]%4 != 0 || sizes[last] == 0 || y%16 != 0 {
		return 0
	}
	wide := uint32(1)
	for k, at := range operands {
		switch steps[k][last] {
		case 0:
			continue
		case 1:
			wide |= 2 << k
		default:
			return 0
		}
		for _, step := range steps[k][:last] {
			if step%4 != 0 {
				return 0
			}
		}
		if at%16 != 0 {
			return 0
		}
	}
	return wide
}

// selectParams mirrors Select of float_elementwise.cu.
type selectParams struct {
	condition, a, b, y driver.Ptr
	size               int32
	_                  int32
	spread             spread
}

// Select is y = condition ? a : b with broadcasting, of elements of size bytes; condition has bytes.
func Select(s *Stream, y, condition, a, b driver.Ptr, size int, sizes, conditionStep, aStep, bStep []int) error {
	sp, err := spreadOf(sizes, conditionStep, aStep, bStep)
	if err != nil {
		return err
	}
	if err := movable(size); err != nil {
		return err
	}
	p := selectParams{condition: condition, a: a, b: b, y: y, size: int32(size), spread: sp}
	return overElements(s, "float_elementwise", "select", int(sp.count), 256, &p)
}

// movable reports elements of sizes that are not moved.
func movable(n int) error {
	switch n {
	case 1, 2, 4, 8:
		return nil
	}
	return fmt.Errorf("cuda: elements of %d bytes", n)
}

// Number is an element type of comparisons and conversions, by the numbers of float_elementwise.cu.
type Number int32

const (
	NumberFloat32 Number = iota
	NumberBool           // bytes 0 and 1
	NumberInt8
	NumberUint8
	NumberInt16
	NumberUint16
	NumberInt32
	NumberUint32
	NumberInt64
)

// Comparison is a function of two numbers that is true or false.
type Comparison int32

const (
	CompareEqual Comparison = iota
	CompareGreater
	CompareGreaterOrEqual
	CompareLess
	CompareLessOrEqual
	CompareAnd // of integers and bools, which are true unless they are 0
	CompareOr
	CompareXor
)

// compareParams mirrors Compare of float_elementwise.cu.
type compareParams struct {
	a, b, y  driver.Ptr
	op, elem int32
	spread   spread
}

// Compare is y = a op b with broadcasting, as bytes.
func Compare(s *Stream, op Comparison, e Number, y, a, b driver.Ptr, sizes, aStep, bStep []int) error {
	sp, err := spreadOf(sizes, aStep, bStep)
	if err != nil {
		return err
	}
	p := compareParams{a: a, b: b, y: y, op: int32(op), elem: int32(e), spread: sp}
	return overElements(s, "float_elementwise", "compare", int(sp.count), 256, &p)
}

// IntegerOperation is a function of two integers of one type.
type IntegerOperation int32

const (
	IntegerAdd IntegerOperation = iota
	IntegerSub
	IntegerMul
	IntegerMax
	IntegerMin
)

// integerParams mirrors Integers of float_elementwise.cu.
type integerParams struct {
	a, b, y      driver.Ptr
	op, elements int32
	spread       spread
}

// CombineIntegers is y = a op b with broadcasting; sums and products wrap.
func CombineIntegers(s *Stream, op IntegerOperation, n Number, y, a, b driver.Ptr, sizes, aStep, bStep []int) error {
	if n == NumberFloat32 || n == NumberBool {
		return fmt.Errorf("cuda: number %d is no integer", n)
	}
	sp, err := spreadOf(sizes, aStep, bStep)
	if err != nil {
		return err
	}
	p := integerParams{a: a, b: b, y: y, op: int32(op), elements: int32(n), spread: sp}
	return overElements(s, "float_elementwise", "integers", int(sp.count), 256, &p)
}

// castParams mirrors Cast of float_elementwise.cu.
type castParams struct {
	x, y     driver.Ptr
	count    uint32
	from, to int32
	_        uint32
}

// CastElements is y[i] = x[i] in another type: floats are truncated towards zero, bits that an integer has no room for are dropped, every
// number but zero is true. A float that 32 bits (for NumberInt64 and NumberUint32: 64) cannot hold becomes the lowest number of these
// first, as on x86-64.
func CastElements(s *Stream, y driver.Ptr, to Number, x driver.Ptr, from Number, count int) error {
	if err := fits("an array", count); err != nil {
		return err
	}
	p := castParams{x: x, y: y, count: uint32(count), from: int32(from), to: int32(to)}
	return overElements(s, "float_elementwise", "cast", count, 256, &p)
}
