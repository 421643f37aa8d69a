package device

import (
	"math"
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels/cuda"
)

// emission is one node that is being made into launches.
type emission struct {
	p     *Plan
	n     *graph.Node
	id    graph.NodeID
	opset int64
	out   []outType
}

// emitter makes a node into launches, or returns onHost before it has emitted any.
type emitter func(e *emission) error

func (e *emission) emit() error {
	if !e.n.IsONNX() {
		return onHost("no kernel of domain " + e.n.Domain)
	}
	f := emitters[e.n.Op]
	if f == nil {
		return onHost("no kernel")
	}
	for i, v := range e.n.Inputs {
		if v == graph.NoValue {
			continue
		}
		if sizeOf(e.dtype(i)) == 0 {
			return onHost("element type " + e.dtype(i).String())
		}
		if tooLarge(e.shape(i)) {
			return onHost("an input of more than 2^31 elements or 8 axes")
		}
	}
	for _, o := range e.out {
		if tooLarge(o.shape) {
			return onHost("an output of more than 2^31 elements or 8 axes")
		}
	}
	return f(e)
}

// tooLarge reports a shape that kernels do not count.
func tooLarge(shape []int) bool { return len(shape) > 8 || tensor.Count(shape) > math.MaxInt32 }

// has reports whether input i is present.
func (e *emission) has(i int) bool { return e.n.Input(i) != graph.NoValue }

func (e *emission) held(i int) *held { return &e.p.vals[e.n.Input(i)] }

// shape returns the shape of input i, dtype its element type.
func (e *emission) shape(i int) []int          { return e.held(i).shape }
func (e *emission) dtype(i int) tensor.DType   { return e.held(i).dtype }
func (e *emission) layout(i int) tensor.Layout { return e.held(i).layout }

// known returns the elements of input i if they do not depend on data, nil if they do or it is absent.
func (e *emission) known(i int) *tensor.Tensor {
	if !e.has(i) {
		return nil
	}
	return e.held(i).known
}

// floats demands that every present input is float32.
func (e *emission) floats() error {
	for i := range e.n.Inputs {
		if e.has(i) && e.dtype(i) != tensor.Float32 {
			return onHost("element type " + e.dtype(i).String())
		}
	}
	return nil
}

// raw returns input i as it lies, nil if it is absent.
func (e *emission) raw(i int) *loc {
	if !e.has(i) {
		return nil
	}
	return e.p.onDevice(e.n.Input(i))
}

// in returns input i in a layout, nil if it is absent.
func (e *emission) in(i int, layout tensor.Layout) *loc {
	if !e.has(i) {
		return nil
	}
	return e.laidOut(e.n.Input(i), layout)
}

// laidOut returns v in a layout; what is converted is kept for other readers.
func (e *emission) laidOut(v graph.ValueID, layout tensor.Layout) *loc {
	l := e.p.onDevice(v)
	h := &e.p.vals[v]
	if h.layout == layout || sameOrder(h.shape) {
		return l
	}
	if h.known != nil { // constants are row-major
		return e.p.constant(h.known, form{"channels-last", func(t *tensor.Tensor) []byte { return bytesOf(t.ToChannelsLast().Data) }})
	}
	if h.alt == nil {
		h.alt = e.p.temp(l.bytes)
		e.move(h.alt, l, sizeOf(h.dtype), h.shape, strides(h.shape, layout), strides(h.shape, h.layout), 0, 0)
	}
	return h.alt
}

// make makes output i: memory in the arena in a layout.
func (e *emission) make(i int, layout tensor.Layout) *loc {
	o := e.out[i]
	return e.makeAs(e.n.Outputs[i], o.dtype, o.shape, layout)
}

func (e *emission) makeAs(v graph.ValueID, d tensor.DType, shape []int, layout tensor.Layout) *loc {
	if len(shape) < 3 {
		layout = tensor.RowMajor
	}
	l := e.p.temp(sizeOf(d) * tensor.Count(shape))
	e.p.vals[v] = held{dtype: d, shape: shape, layout: layout, loc: l, ready: true}
	return l
}

// alias makes output i the elements of input k, row-major, under its own shape.
func (e *emission) alias(i, k int) {
	o := e.out[i]
	l := e.in(k, tensor.RowMajor)
	e.p.vals[e.n.Outputs[i]] = held{dtype: o.dtype, shape: o.shape, loc: l, ready: true}
}

// launch emits a kernel that works on the given places.
func (e *emission) launch(f func(s *cuda.Stream, m *ports) error, list ...*loc) {
	if slices.Contains(list, nil) && e.p.failed == nil {
		list = slices.DeleteFunc(list, func(l *loc) bool { return l == nil })
	}
	e.p.uses(list...)
	e.p.steps = append(e.p.steps, step{node: e.id, launch: f})
}

// copy emits a copy of bytes.
func (e *emission) copy(dst, src *loc, bytes int) {
	e.launch(func(s *cuda.Stream, m *ports) error { return s.Copy(m.at(dst), m.at(src).Slice(0, bytes)) }, dst, src)
}
