package device

import (
	"maps"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels/cuda"
)

// emitters are the operators of ai.onnx that have kernels. To add one: write its emitter in the file of its family, add it to that
// family's table.
var emitters = merged(elementEmitters, productEmitters, poolEmitters, rowEmitters, moveEmitters, gatherEmitters, quantizeEmitters)

func merged(tables ...map[string]emitter) map[string]emitter {
	all := map[string]emitter{}
	for _, t := range tables {
		maps.Copy(all, t)
	}
	return all
}

// move emits a copy of elements of size bytes: those at every index of shape, at their steps from the given offsets on.
func (e *emission) move(dst, src *loc, size int, shape, dstStep, srcStep []int, dstOff, srcOff int) {
	if tensor.Count(shape) == 0 {
		return
	}
	e.launch(func(s *cuda.Stream, m *ports) error {
		return cuda.MoveElements(s, m.ptr(dst)+ptrOf(dstOff*size), m.ptr(src)+ptrOf(srcOff*size), size, shape, dstStep, srcStep)
	}, dst, src)
}

// inMemory returns shape and steps in the order in which the axes lie in memory.
func inMemory(shape []int, layout tensor.Layout, steps ...[]int) ([]int, [][]int) {
	axes := (&tensor.Tensor{Shape: shape, Layout: layout}).MemoryAxes()
	pick := func(from []int) []int {
		to := make([]int, len(axes))
		for i, a := range axes {
			to[i] = from[a]
		}
		return to
	}
	out := make([][]int, len(steps))
	for i, s := range steps {
		out[i] = pick(s)
	}
	return pick(shape), out
}

// aligned returns the steps of an operand along the axes of a result of the given rank, 0 where it repeats. Operands are aligned at the
// last axis; axis 0 or above places the first axis of one of lower rank there instead.
func aligned(shape []int, layout tensor.Layout, rank, axis int) []int {
	own := strides(shape, layout)
	out := make([]int, rank)
	shift := rank - len(own)
	if axis >= 0 && shift > 0 {
		shift = min(axis, shift)
	}
	for i, s := range own {
		if shape[i] != 1 {
			out[i+shift] = s
		}
	}
	return out
}

// operand is an input of an elementwise operator.
type operand struct {
	loc    *loc
	shape  []int
	layout tensor.Layout
}

// layoutOf returns the layout of an elementwise operator's result: channels-last as soon as one input of full rank is.
func (e *emission) layoutOf(shape []int) tensor.Layout {
	for i := range e.n.Inputs {
		if e.has(i) && e.layout(i) == tensor.ChannelsLast && len(e.shape(i)) == len(shape) && !sameOrder(e.shape(i)) {
			return tensor.ChannelsLast
		}
	}
	return tensor.RowMajor
}

// operands returns the inputs in layouts that suit each other and the result.
func (e *emission) operands(shape []int) ([]operand, tensor.Layout) {
	layout := e.layoutOf(shape)
	list := make([]operand, len(e.n.Inputs))
	for i, v := range e.n.Inputs {
		if !e.has(i) {
			continue
		}
		list[i] = e.operand(v, len(shape), layout)
	}
	return list, layout
}

func (e *emission) operand(v valueID, rank int, layout tensor.Layout) operand {
	h := &e.p.vals[v]
	o := operand{shape: h.shape, layout: h.layout}
	if len(h.shape) == rank && !sameOrder(h.shape) {
		o.loc, o.layout = e.laidOut(v, layout), layout
	} else {
		o.loc = e.p.onDevice(v)
	}
	return o
}

// axisIn resolves a possibly negative axis; what is outside of the rank is left to the host, which reports it.
func axisIn(axis, rank int) (int, error) {
	at, ok := graph.Axis(axis, rank)
	if !ok {
		return 0, onHost("an axis outside of the rank")
	}
	return at, nil
}

// ints returns the elements of integer input i where they are known.
func (e *emission) ints(i int) ([]int, error) {
	t := e.known(i)
	if t == nil {
		return nil, onHost("parameters that depend on data")
	}
	switch d := t.Data.(type) {
	case []int64:
		return toInts(d), nil
	case []int32:
		return toInts(d), nil
	}
	return nil, onHost("parameters of type " + t.DType.String())
}

func toInts[T int32 | int64](list []T) []int {
	out := make([]int, len(list))
	for i, v := range list {
		out[i] = int(v)
	}
	return out
}
