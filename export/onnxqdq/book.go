package onnxqdq

import (
	"fmt"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels/qmath"
	"qwb/quantizer/tqc"
)

// opsetUint4 brings uint4, which Cast takes.
const opsetUint4 = 21

// book writes a constant whose codes stand for the numbers of a table (NF4), which Q and DQ do not know: the codes as uint4 (uint8 for
// older readers), cast to indices, gathered from the table and multiplied by the scales. Groups get an axis of their own first, which
// a Reshape takes away again.
func (b *builder) book(slot tqc.SlotID, dq graph.ValueID) error {
	s := b.set.Slot(slot)
	c, p := &s.Config, b.set.Params(slot)
	w := b.src.Const(s.Value)
	d := tensor.Uint8
	if reads(b.t, opsetUint4) {
		d, b.need = tensor.Uint4, max(b.need, opsetUint4)
	}
	codes, err := tqc.QuantizeTo(d, w, c, p)
	if err != nil {
		return err
	}
	shape, scales, err := bookShapes(w.Shape, c)
	if err != nil {
		return err
	}
	if tensor.Count(scales) != len(p.Scale) {
		return fmt.Errorf("%d scales for shape %v", len(p.Scale), scales)
	}
	codes.Shape = shape
	name := b.src.Value(s.Value).Name
	r := &graph.NodeWriter{G: b.g, Name: name}
	table := b.g.AddConst(name+"_table", tensor.FromF32(qmath.Book(), 16))
	scale := b.g.AddConst(name+"_scale", tensor.FromF32(append([]float32(nil), p.Scale...), scales...))
	index := r.Value("index", tensor.Int32, graph.Static(shape...))
	r.Attrs = []graph.Attr{graph.Int("to", int64(tensor.Int32))}
	r.Add("Cast", []graph.ValueID{b.g.AddConst(name+"_quantized", codes)}, index)
	r.Attrs = nil
	numbers := r.Of("Gather", table, index)
	if len(shape) == len(w.Shape) {
		r.Add("Mul", []graph.ValueID{numbers, scale}, dq)
		return r.Err
	}
	whole := tensor.FromI64(graph.Int64s(w.Shape), len(w.Shape))
	r.Add("Reshape", []graph.ValueID{r.Of("Mul", numbers, scale), b.g.AddConst(name+"_shape", whole)}, dq)
	return r.Err
}

// bookShapes returns the shapes of codes and scales that multiply each other.
func bookShapes(w []int, c *tqc.Config) (codes, scales []int, err error) {
	axis := c.Axis
	if axis < 0 {
		axis += len(w)
	}
	switch {
	case c.Policy.Has(tqc.PerGroup):
		if w[axis]%c.GroupSize != 0 {
			return nil, nil, fmt.Errorf("groups of %d do not divide axis %d of %v: %s is written with whole groups", c.GroupSize, axis, w,
				c.FormatName())
		}
		for i, n := range w {
			if i == axis {
				codes, scales = append(codes, n/c.GroupSize, c.GroupSize), append(scales, n/c.GroupSize, 1)
			} else {
				codes, scales = append(codes, n), append(scales, n)
			}
		}
		return codes, scales, nil
	case c.Policy.Has(tqc.PerChannel):
		for i, n := range w {
			if i != axis {
				n = 1
			}
			scales = append(scales, n)
		}
	}
	return w, scales, nil
}

// fromBook reports whether input i of a node is what book writes.
func (c *checker) fromBook(n *graph.Node, i int) bool {
	p := c.producer(n, i)
	if is(p, "Reshape") {
		p = c.producer(p, 0)
	}
	if !is(p, "Mul") {
		return false
	}
	p = c.producer(p, 0)
	return is(p, "Gather") && c.g.Const(p.Input(0)) != nil && is(c.producer(p, 1), "Cast") && c.g.Const(c.producer(p, 1).Input(0)) != nil
}
