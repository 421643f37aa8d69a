package qmath

import "math"

// Cell is the arithmetic of one direction of an LSTM in TensorFlow Lite's kernel of int8 data and state, int8 weights and an int16
// state of the cell (kernels/lstm_eval.cc of LiteRT, LstmStepInteger8x8_16; kernels/internal/reference/portable_tensor_utils.cc).
// Gates are Q3.12, what Sigmoid and Tanh make of them Q0.15, and the state of the cell has 15 bits behind the sign, of which Whole
// stand in front of the point.
type Cell struct {
	X, H  [CellGates]Multiplier // sums of data, and of state, to Q3.12; gates as ONNX has them: input, output, forget, cell
	Out   Multiplier            // Q0.30 to the codes of the state
	Whole int32                 // 0 to 6
}

// CellGates is how many gates an LSTM has.
const CellGates = 4

// NewCell prepares the arithmetic of scales of data and state (x, h), of the state of the cell (2^(Whole-15)), and of the weights of
// both by gate. Factors are computed in float32, as the engine does. Scales that are not positive and finite, and a scale of the cell
// that is no power of two from 2^-15 to 2^-9, are errors.
func NewCell(x, h, cell float32, w, r [CellGates]float32) (Cell, error) {
	frac, exp := math.Frexp(float64(cell))
	c := Cell{Whole: int32(exp - 1 + 15)}
	if frac != 0.5 || c.Whole < 0 || c.Whole > 6 {
		return c, scaleErrorf("the scale %g of an LSTM's cells is no power of two from 2^-15 to 2^-9", cell)
	}
	p, err := ProfileNamed("tflite2")
	for g := 0; g < CellGates && err == nil; g++ {
		if err = p.scales(x, h, w[g], r[g]); err != nil {
			break
		}
		if c.X[g], err = p.multiplier(float64(float32(w[g]*x)*(1<<12)), w[g], x); err == nil {
			c.H[g], err = p.multiplier(float64(float32(r[g]*h)*(1<<12)), r[g], h)
		}
	}
	if err == nil {
		c.Out, err = p.multiplier(float64(float32(0x1p-30/float64(h))), h)
	}
	return c, err
}

// Gate is gate g before its function, Q3.12, of the sums of data and of state, bias and zero points included.
func (c *Cell) Gate(g int, x, h int32) int16 {
	s := Scaling{Form: DoubleUpAway}
	return saturate16(int32(saturate16(s.scale(x, c.X[g]))) + s.scale(h, c.H[g]))
}

// Next is the state of the cell behind a step, of the one before it and of the gates, and that of the LSTM without its zero point and
// limits.
func (c *Cell) Next(gates [CellGates]int16, cell int16) (next int16, h int32) {
	in, out, forget, update := logistic16(gates[0]), logistic16(gates[1]), logistic16(gates[2]), tanh16(gates[3], 3)
	kept := DivideByPowerOfTwo(int32(forget)*int32(cell), 15)
	next = saturate16(kept + DivideByPowerOfTwo(int32(in)*int32(update), 15+c.Whole))
	s := Scaling{Form: DoubleUpAway}
	return next, s.scale(int32(out)*int32(tanh16(next, c.Whole)), c.Out)
}

func saturate16(x int32) int16 { return int16(min(max(x, math.MinInt16), math.MaxInt16)) }

// logistic16 is gemmlowp's logistic of Q3.12, in Q0.15.
func logistic16(a int16) int16 {
	switch {
	case a == 0:
		return 1 << 14
	case a > 0:
		return logisticBelow(-a)
	}
	return math.MaxInt16 - logisticBelow(a)
}

// logisticBelow is 1/(1+exp(a)) for a < 0.
func logisticBelow(a int16) int16 {
	return shiftLeft16(refined16(expNegative16(a, 3)), 1)
}

// tanh16 is gemmlowp's tanh of a number with this many bits in front of the point, in Q0.15.
func tanh16(a int16, whole int32) int16 {
	if a == 0 {
		return 0
	}
	below := -max(a, -a)                                                // also of the lowest number
	t := shiftLeft16(refined16(expNegative16(below, whole+1))-1<<13, 2) // of exp(2a)
	if a < 0 {
		return -t
	}
	return t
}

// refined16 is 2/(1+a), Q2.13, for a in [0, 1), Q0.15, by three steps of Newton's method.
func refined16(a int16) int16 {
	half := int16((int32(a) + math.MaxInt16 + 1) / 2)
	r := 23130 + highMul16(half, -15420) // 48/17 and -32/17, Q2.13
	for range 3 {
		r += shiftLeft16(highMul16(r, 1<<13-highMul16(half, r)), 2)
	}
	return r
}

// expNegative16 is expNegative of 16 bits: exp(a) in Q0.15 for a <= 0 with this many bits in front of the point, 1 to 7.
func expNegative16(a int16, whole int32) int16 {
	if a == 0 {
		return math.MaxInt16
	}
	if whole > 5 && a < -1<<(20-whole) { // below -32
		return 0
	}
	quarter := int16(1) << (13 - whole)
	low := a&(quarter-1) - quarter // in [-1/4, 0)
	x := shiftLeft16(low, whole) + 1<<12
	x2 := highMul16(x, x)
	x3, x4 := highMul16(x2, x), highMul16(x2, x2)
	tail := int16(DivideByPowerOfTwo(int32(highMul16(int16(DivideByPowerOfTwo(int32(x4), 2))+x3, 10923)+x2), 1)) // 1/3
	const middle = 28918                                                                                         // exp(-1/8)
	result := saturate16(middle + int32(highMul16(middle, x+tail)))
	rest := low - a
	for i, power := range [...]int16{25520, 19875, 12055, 4435, 600, 11, 0} { // exp(-2^(i-2))
		if whole > int32(i)-2 && rest&(quarter<<i) != 0 {
			result = highMul16(result, power)
		}
	}
	return result
}
