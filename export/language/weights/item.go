package weights

import (
	"fmt"

	"qwb/graph/language/checkpoint"
)

// chunkElements is about how many elements are quantized as one piece of work.
const chunkElements = 1 << 18

// superBlock is how many elements the largest blocks have that are read (Q4_K and its like).
const superBlock = 256

// chunk is how many elements of the item are one piece of work: whole groups of the file and whole blocks of the source.
func (it *Item) chunk() int {
	if it.Encoding.Type == checkpoint.Packed {
		return it.Tensor.Len()
	}
	whole := it.Encoding.group()
	for whole%superBlock != 0 {
		whole *= 2
	}
	return max(1, chunkElements/whole) * whole
}

// Arrays are the arrays of a matrix that a Scheme stores, without their bytes.
func (it *Item) Arrays(module string) []checkpoint.SafeArray {
	t, e := it.Tensor, it.Encoding
	l := checkpoint.Levels{Scheme: e.Scheme, Rows: t.Rows, Cols: t.Cols, Group: e.Group, Height: max(e.Scheme.Height, 1),
		Scale: e.Scale}
	return l.Arrays(module)
}

// read converts elements of the file's order, the first being element from.
func (it *Item) read(dst []float32, from int) {
	t := it.Tensor
	switch {
	case it.Row == nil:
		t.Read(dst, from)
	case t.Rows == 1:
		all := t.All()
		for i := range dst {
			dst[i] = all[it.Row(from+i)]
		}
	default:
		for len(dst) > 0 {
			row, col := from/t.Cols, from%t.Cols
			n := min(t.Cols-col, len(dst))
			t.Read(dst[:n], it.Row(row)*t.Cols+col)
			dst, from = dst[n:], from+n
		}
	}
}

// keeps reports whether the source holds the codes that are to be written.
func (it *Item) keeps() bool {
	t, e := it.Tensor, it.Encoding
	if t.Floats() || t.Type != e.Type || it.Row != nil && t.Cols%e.group() != 0 {
		return false
	}
	if e.Type == checkpoint.Packed {
		return t.Levels() != nil && t.Levels().Scheme == e.Scheme && t.Levels().Group == e.Group
	}
	return e.Type.Form() != nil || t.GroupSize() == e.group()
}

// codes reads what keeps says is there.
func (it *Item) codes(codes []int8, scales []float32, from int) {
	t := it.Tensor
	if it.Row == nil {
		t.Codes(codes, scales, from)
		return
	}
	size := t.GroupSize()
	for len(codes) > 0 {
		row, col := from/t.Cols, from%t.Cols
		n := min(t.Cols-col, len(codes))
		t.Codes(codes[:n], scales[:n/size], it.Row(row)*t.Cols+col)
		codes, scales, from = codes[n:], scales[n/size:], from+n
	}
}

// quantized writes the codes and scales of elements that are to be in the file, given the elements.
func (it *Item) quantized(codes []int8, scales, x []float32, from int) error {
	if it.keeps() {
		it.codes(codes, scales, from)
		return nil
	}
	if it.carried {
		return it.carriedCodes(codes, scales, from)
	}
	if !it.Encoding.quantize(codes, scales, x) {
		return it.unfit()
	}
	return nil
}

// unfit says why elements cannot be written.
func (it *Item) unfit() error {
	if err := it.Tensor.Finite(); err != nil {
		return err
	}
	return fmt.Errorf("tensor %q (%s) has elements that are too large for %s", it.Tensor.Name, it.Tensor.Part, it.Encoding.Name())
}
