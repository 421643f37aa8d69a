package cprogram

import (
	"cmp"
	"fmt"
	"slices"

	"qwb/graph/tensor"
	"qwb/internal/arrange"
	"qwb/quantizer/lower"
)

// value is an array of the C program: of a tensor, or scratch.
type value struct {
	name  string
	what  string // for the comment of its declaration
	at    string // where it lies, if that is not the arena: an input, an output, a constant
	alias *value // its elements are those of another
	dtype tensor.DType
	shape []int
	// first and last are the calls that write it and read it last.
	first, last int
	offset      int
	fixed       bool // a constant: its name is where it lies
}

func (v *value) count() int { return tensor.Count(v.shape) }
func (v *value) bytes() int { return v.dtype.Bytes(v.count()) }

// root is the array that holds the elements.
func (v *value) root() *value {
	for v.alias != nil {
		v = v.alias
	}
	return v
}

// scratch returns a new array that is used by the next call.
func (w *writer) scratch(d tensor.DType, what string, shape ...int) *value {
	v := &value{name: fmt.Sprintf("t%d", len(w.arrays)), what: what, dtype: d, shape: shape, first: w.time, last: w.time}
	w.arrays = append(w.arrays, v)
	return v
}

// use notes that the next call touches v, and returns its name.
func (w *writer) use(v *value) string {
	r := v.root()
	r.last = w.time
	return r.name
}

// read returns the array of a tensor that the next call reads.
func (w *writer) read(id lower.TensorID) *value {
	v := w.values[id]
	if v == nil { // a constant operand
		t := &w.p.Tensors[id]
		v = &value{name: w.constant(t.Const, t.Name), dtype: t.DType, shape: t.Const.Shape, fixed: true}
		w.values[id] = v
	}
	w.use(v)
	return v
}

// write returns the array of a tensor that the next call fills.
func (w *writer) write(id lower.TensorID) *value {
	t := &w.p.Tensors[id]
	what := t.Name
	if t.Encoding != nil {
		what += " " + t.Encoding.String()
	}
	v := w.scratch(t.DType, what, w.shape(id)...)
	w.values[id] = v
	return v
}

// outputs gives results their place: the caller's memory, where it is free.
func (w *writer) outputs() error {
	for k, id := range w.p.Outputs {
		v := w.values[id]
		if v == nil {
			v = w.read(id)
		}
		r, at := v.root(), fmt.Sprintf("out[%d]", k)
		if !r.fixed && r.at == "" {
			r.at = at
			continue
		}
		fmt.Fprintf(&w.body, "\n    copy(%s, %s, %d);\n", at, r.name, r.bytes())
		if err := w.kernels.need("copy"); err != nil {
			return err
		}
	}
	return nil
}

// alignment of arrays in the arena, enough for all types and for vector instructions.
const alignment = 16

// place lays the arrays out in the arena, the largest first, each at the lowest offset that is free while it lives, and returns the
// arena's size.
func (w *writer) place() int {
	var list, placed []*value
	for _, v := range w.arrays {
		if v.alias == nil && v.at == "" && v.bytes() > 0 {
			list = append(list, v)
		}
	}
	arrange.Stable(list, func(a, b *value) int { return cmp.Compare(b.bytes(), a.bytes()) })
	size := 0
	for _, v := range list {
		v.offset = 0
		for _, other := range placed { // in the order of their offsets
			if other.last < v.first || v.last < other.first {
				continue
			}
			if v.offset+v.bytes() <= other.offset {
				break
			}
			v.offset = max(v.offset, (other.offset+other.bytes()+alignment-1)/alignment*alignment)
		}
		at, _ := slices.BinarySearchFunc(placed, v.offset, func(o *value, offset int) int { return cmp.Compare(o.offset, offset) })
		placed = slices.Insert(placed, at, v)
		size = max(size, v.offset+v.bytes())
	}
	return size
}
