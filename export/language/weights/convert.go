package weights

import (
	"fmt"
	"math"

	"qwb/graph/language/checkpoint"
	"qwb/kernels/qmath"
)

// Weights that are quantized already become those of another format without loss where its grid holds them: the integers and scales of the
// source, in its groups or in parts of them. What is written is then read as the same floats, bit for bit.

// Convert finds out for every quantized tensor of the source whether the file holds it without loss. One that it does not is an error that
// says why, unless weights may be quantized once more.
func (f *File) Convert(requantize bool) error {
	for i := range f.Items {
		it := &f.Items[i]
		if it.Tensor == nil || it.Tensor.Floats() || it.keeps() {
			continue
		}
		err := it.holds()
		switch {
		case err == nil:
			it.carried = it.Encoding.Quantized()
		case requantize:
			it.again = true
		default:
			return fmt.Errorf("export: %s is stored as %s, which %s does not hold: %w; --%s yes quantizes it once more", it.Tensor.Part,
				it.Tensor.Storage(), it.Encoding.Name(), err, Requantize.Name)
		}
	}
	return nil
}

// holds reports the first element that the encoding has no place for.
func (it *Item) holds() error {
	t, e := it.Tensor, it.Encoding
	row := make([]float32, t.Cols)
	switch {
	case e.Type == checkpoint.F32:
		return nil
	case !e.Quantized():
		for r := range t.Rows {
			t.Row(row, r)
			if b, _ := e.floats(nil, row); !same(row, checkpoint.NewTensor(t.Part, "", 1, t.Cols, e.Type, b, nil, 0).All()) {
				return fmt.Errorf("row %d has an element with more digits", r)
			}
		}
		return nil
	case e.Type.Form() != nil || e.Type == checkpoint.Packed && e.Scheme.Number != nil:
		return fmt.Errorf("only the same codes are carried into %s", e.Type)
	case t.Step() == 0:
		return fmt.Errorf("its elements are not integers times a scale")
	case t.Cols%e.group() != 0:
		return fmt.Errorf("groups of %d do not divide rows of %d", e.group(), t.Cols)
	}
	codes, scales, zeros := make([]int16, t.Cols), make([]float32, t.Cols/e.group()), make([]uint8, t.Cols/e.group())
	for r := range t.Rows {
		if err := it.carry(codes, scales, zeros, r*t.Cols); err != nil {
			return fmt.Errorf("row %d: %w", r, err)
		}
	}
	return nil
}

// span are the least and the largest integer of the encoding, zero points of 0 being taken.
func (e Encoding) span() (lo, hi int) {
	switch {
	case e.Type == checkpoint.Packed && e.Scheme.Zeros:
		return 0, 1<<e.Scheme.Bits - 1
	case e.Type == checkpoint.Packed:
		return -e.Scheme.Middle(), e.Scheme.Middle() - 1
	case e.Type == checkpoint.GGQ4 || e.Type == checkpoint.WideQ4:
		return -8, 7
	}
	return -128, 127
}

// carry reads integers of the source, the first being element from, with scales and zero points for the groups of the encoding. Whole rows
// are read.
func (it *Item) carry(codes []int16, scales []float32, zeros []uint8, from int) error {
	e, t := it.Encoding, it.Tensor
	step, size := t.Step(), e.group()
	lo, hi := e.span()
	theirs := make([]float32, len(codes)/step)
	t.Integers(codes, theirs, from)
	for g := range scales {
		least, most := 0, 0
		for i := g * size; i < (g+1)*size; i++ {
			if theirs[i/step] != theirs[g*size/step] {
				return fmt.Errorf("elements of one group of %d have several scales", size)
			}
			least, most = min(least, int(codes[i])), max(most, int(codes[i]))
		}
		if e.Type == checkpoint.Packed && e.Scheme.Zeros { // in the middle where it can be there
			zero := min(max(e.Scheme.Middle(), -least), max(hi-most, 0))
			zeros[g] = uint8(zero)
			least, most = least+zero, most+zero
		}
		if least < lo || most > hi {
			return fmt.Errorf("integers from %d to %d", least, most)
		}
		if scales[g] = theirs[g*size/step]; e.Stored(scales[g]) != scales[g] {
			return fmt.Errorf("a scale of %g has more digits", scales[g])
		}
	}
	return nil
}

// carriedCodes is quantized for a tensor that is carried.
func (it *Item) carriedCodes(codes []int8, scales []float32, from int) error {
	t, size := it.Tensor, it.Encoding.group()
	row, zeros := make([]int16, t.Cols), make([]uint8, t.Cols/size)
	all := make([]float32, t.Cols/size)
	for i := 0; i < len(codes); {
		at, col := (from+i)/t.Cols, (from+i)%t.Cols
		if it.Row != nil {
			at = it.Row(at)
		}
		if err := it.carry(row, all, zeros, at*t.Cols); err != nil {
			return err
		}
		n := min(t.Cols-col, len(codes)-i)
		for k, q := range row[col:][:n] {
			codes[i+k] = int8(q)
		}
		copy(scales[i/size:], all[col/size:][:n/size])
		i += n
	}
	return nil
}

// carriedLevels is levels for a tensor that is carried.
func (it *Item) carriedLevels() (*checkpoint.Levels, error) {
	t, e := it.Tensor, it.Encoding
	l := checkpoint.NewLevels(e.Scheme, t.Rows, t.Cols, e.Group, e.Scale)
	n := t.Cols / e.Group
	codes, zeros := make([]int16, t.Cols), make([]uint8, n)
	for r := range t.Rows {
		if err := it.carry(codes, l.Scales[r*n:][:n], zeros, r*t.Cols); err != nil {
			return nil, err
		}
		copy(l.Zeros[min(r*n, len(l.Zeros)):], zeros)
		for c, q := range codes {
			zero := e.Scheme.Middle()
			if e.Scheme.Zeros {
				zero = int(zeros[c/e.Group])
			}
			l.Codes[r*t.Cols+c] = uint8(int(q) + zero)
		}
	}
	return l.Rowed(it.Row), nil
}

// same compares bits.
func same(x, y []float32) bool {
	for i, v := range x {
		if math.Float32bits(v) != math.Float32bits(y[i]) {
			return false
		}
	}
	return true
}

// lost is the squared error of what is read, and the square of what it was made of.
func (p *piece) lost(read []float32) {
	for i, v := range read {
		d := float64(qmath.Abs32(v - p.x[i]))
		p.off, p.all = p.off+d*d, p.all+float64(p.x[i])*float64(p.x[i])
	}
}
