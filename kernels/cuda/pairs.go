package cuda

import (
	"fmt"
	"slices"

	"qwb/kernels/cuda/driver"
	"qwb/kernels/qmath"
)

// codeAxes is AXES of index.cuh.
const codeAxes = 8

// Broadcast is an output with its operands, as kernels have them: Spread of pairs.cu.
type Broadcast struct {
	count  uint32
	vector uint32
	axes   int32
	size   [codeAxes]Divisor
	step   [3][codeAxes]int32
}

// NewBroadcast returns how up to three operands of the given shapes are lined up with an output, in whose shape they are repeated as
// ONNX says. Shapes are those in memory: of channels-last tensors, with the channels last and all of one rank.
func NewBroadcast(out []int, operands ...[]int) (Broadcast, error) {
	var b Broadcast
	if err := fits("an array", out...); err != nil {
		return b, err
	}
	if len(operands) > len(b.step) {
		return b, fmt.Errorf("cuda: %d operands", len(operands))
	}
	steps := make([][]int, len(operands))
	for k, shape := range operands {
		steps[k] = make([]int, len(out))
		first := len(out) - len(shape)
		if first < 0 {
			return b, fmt.Errorf("cuda: shape %v cannot be repeated in %v", shape, out)
		}
		size := 1
		for a, n := range slices.Backward(shape) {
			if n != 1 && n != out[first+a] {
				return b, fmt.Errorf("cuda: shape %v cannot be repeated in %v", shape, out)
			}
			if n != 1 {
				steps[k][first+a] = size
			}
			size *= n
		}
	}
	sizes, steps := joinAxes(out, steps...)
	if len(sizes) > codeAxes {
		return b, fmt.Errorf("cuda: shapes %v in %v have more than %d axes", operands, out, codeAxes)
	}
	b.count, b.axes = 1, int32(len(sizes))
	for a, n := range sizes {
		b.count *= uint32(n)
		at := len(sizes) - 1 - a
		b.size[at] = DivisorOf(max(n, 1))
		for k := range steps {
			b.step[k][at] = int32(steps[k][a])
		}
	}
	return b, nil
}

// Count is how many elements the output has.
func (b *Broadcast) Count() int { return int(b.count) }

// reach is how many elements of operand k are read.
func (b *Broadcast) reach(k int) int {
	if b.count == 0 {
		return 0
	}
	n := 1
	for a := range b.axes {
		n += int(b.size[a].By-1) * int(b.step[k][a])
	}
	return n
}

// inPieces says that pieces of n codes can be read and written at once.
func (b *Broadcast) inPieces(n int, buffers ...Buffer) Broadcast {
	c := *b
	c.vector = uint32(flag(aligned(buffers...) && (b.axes == 1 || b.size[0].By%uint32(n) == 0)))
	return c
}

// pairParams mirrors Pair of pairs.cu.
type pairParams struct {
	a, b, dst         driver.Ptr
	bytesA, bytesB, n int32
	flipA, flipB      uint32
	_                 int32
	spread            Broadcast
	_                 uint32
}

// Operand is one of the inputs of a kernel over pairs.
type Operand struct {
	Codes Buffer
	Type  Element
}

func pairOf(dst Buffer, out Element, a, b Operand, to *Broadcast) (pairParams, error) {
	p := pairParams{a: a.Codes.Ptr, b: b.Codes.Ptr, dst: dst.Ptr, bytesA: int32(a.Type.Size()), bytesB: int32(b.Type.Size()),
		n: int32(out.Size()), flipA: a.Type.flip(), flipB: b.Type.flip(), spread: *to}
	for k, o := range [...]Operand{a, b} {
		if err := codesIn("operand", o.Codes, o.Type, to.reach(k)); err != nil {
			return p, err
		}
	}
	return p, codesIn("output", dst, out, to.Count())
}

// width is how many bytes all codes have, 0 where they differ.
func (p *pairParams) width() int32 {
	if p.bytesA != p.bytesB || p.bytesA != p.n {
		return 0
	}
	return p.n
}

type addParams struct {
	pair pairParams
	sum  Sum
}

// AddCodes writes the sum, or the difference, of every pair of codes of a and b.
func AddCodes(s *Stream, dst Buffer, out Element, a, b Operand, to *Broadcast, sum Sum) error {
	p := addParams{sum: sum}
	var err error
	if p.pair, err = pairOf(dst, out, a, b, to); err != nil {
		return err
	}
	if p.pair.width() == 1 {
		if h, swapped, ok := sum.Half(); ok {
			return addHalf(s, &p.pair, dst, a.Codes, b.Codes, to, h, swapped)
		}
	}
	entry, piece := "add", 1
	switch form := qmath.SumForm(sum.Form); p.pair.width() {
	case 1:
		switch entry, piece = "add_aligned", 4; form {
		case qmath.SumFloat:
			entry, piece = "add_float", 16
		case qmath.SumFused:
			entry, piece = "add_fused", 16
		case qmath.SumShifted:
			entry = "add_shifted"
		case qmath.SumEach:
			entry = "add_each"
		}
	case 2:
		if entry, piece = "add_words", 2; form == qmath.SumFloat {
			entry, piece = "add_float_words", 8
		}
	}
	p.pair.spread = to.inPieces(piece, dst, a.Codes, b.Codes)
	n := pieces(to.count, p.pair.spread.vector, piece)
	if entry == "add_shifted" || entry == "add_each" {
		return overTable(s, "pairs", entry, n, &p)
	}
	return overPieces(s, "pairs", entry, n, &p)
}

type addHalfParams struct {
	pair pairParams
	sum  HalfSum
}

func addHalf(s *Stream, pair *pairParams, dst, a, b Buffer, to *Broadcast, h HalfSum, swapped bool) error {
	p := addHalfParams{pair: *pair, sum: h}
	p.pair.spread = to.inPieces(16, dst, a, b)
	if swapped {
		p.pair.a, p.pair.b, p.pair.flipA, p.pair.flipB = pair.b, pair.a, pair.flipB, pair.flipA
		step := &p.pair.spread.step
		step[0], step[1] = step[1], step[0]
	}
	entry := "add_half_once"
	if qmath.Form(h.Form) == qmath.DoubleUpAway {
		entry = "add_half_twice"
	}
	return overTable(s, "pairs", entry, pieces(to.count, p.pair.spread.vector, 16), &p)
}

type multiplyParams struct {
	pair    pairParams
	product Product
}

// MultiplyCodes writes the product of every pair of codes of a and b.
func MultiplyCodes(s *Stream, dst Buffer, out Element, a, b Operand, to *Broadcast, product Product) error {
	p := multiplyParams{product: product}
	var err error
	if p.pair, err = pairOf(dst, out, a, b, to); err != nil {
		return err
	}
	entry, piece := "multiply", 1
	switch p.pair.width() {
	case 1:
		small := product.K.Shift < 0
		switch entry, piece = "multiply_fixed", 4; {
		case product.Real != 0:
			entry, piece = "multiply_real", 16
		case qmath.Form(product.Scaling.Form) >= qmath.FloatAfter:
			entry, piece = "multiply_float", 8
		case qmath.Form(product.Scaling.Form) == qmath.DoubleUpAway && small:
			entry, piece = "multiply_twice", 16
		case qmath.Form(product.Scaling.Form) == qmath.SingleUp && small:
			entry, piece = "multiply_once", 16
		}
	case 2:
		entry, piece = "multiply_words", 2
	}
	p.pair.spread = to.inPieces(piece, dst, a.Codes, b.Codes)
	return overPieces(s, "pairs", entry, pieces(to.count, p.pair.spread.vector, piece), &p)
}

type chooseParams struct {
	pair    pairParams
	cond    driver.Ptr
	lo, hi  int32
	rescale [2]Rescale
}

// SelectCodes writes a code of a where cond, one byte each, is not 0, else one of b. They are brought to the output's grid first and
// limited to [lo, hi]. Operand 2 of to is cond.
func SelectCodes(s *Stream, dst Buffer, out Element, cond Buffer, a, b Operand, to *Broadcast, rescale [2]Rescale, lo, hi int32) error {
	p := chooseParams{cond: cond.Ptr, lo: lo, hi: hi, rescale: rescale}
	var err error
	if p.pair, err = pairOf(dst, out, a, b, to); err != nil {
		return err
	}
	if err := holds("condition", cond, Uint8, to.reach(2)); err != nil {
		return err
	}
	if p.pair.width() != 1 {
		return overPieces(s, "pairs", "choose", to.Count(), &p)
	}
	p.pair.spread = to.inPieces(16, dst, a.Codes, b.Codes, cond)
	return overTable(s, "pairs", "choose_bytes", pieces(to.count, p.pair.spread.vector, 16), &p)
}
