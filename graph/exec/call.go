package exec

import (
	"fmt"

	"qwb/graph"
	"qwb/graph/tensor"
)

// handle is a tensor and where it lies.
type handle struct {
	t     *tensor.Tensor
	buf   int32 // buffer of the run's memory, noBuf if it lies elsewhere
	fixed bool  // a constant: the same elements whenever the pointer is the same, so that what is derived may be cached
}

// outType is the element type and shape that package graph infers for an output.
type outType struct {
	dtype tensor.DType // Undefined where the shape is not known
	shape []int
	// declared is the element type whether or not the shape is known.
	declared tensor.DType
}

// call is one execution of a node. Evaluators reach everything through it: inputs in the layout they ask for, outputs of the
// inferred type, scratch memory, workers. It is reused from node to node.
type call struct {
	run   *runnerState
	step  *step
	index int // of the step
	node  *graph.Node
	ins   []handle
	outs  []handle
	typ   []outType
	// swapped marks inputs that a hook replaced: they may not outlive the call.
	swapped []bool
}

// has reports whether input i is present.
func (c *call) has(i int) bool { return i < len(c.ins) && c.ins[i].t != nil }

// wants reports whether output i is used at all.
func (c *call) wants(i int) bool {
	return i < len(c.node.Outputs) && c.node.Outputs[i] != graph.NoValue
}

// raw returns input i in whatever layout it has, nil if it is absent.
func (c *call) raw(i int) *tensor.Tensor {
	if i >= len(c.ins) {
		return nil
	}
	return c.ins[i].t
}

// in returns input i row-major, nil if it is absent. A converted copy is kept for other readers of the value.
func (c *call) in(i int) *tensor.Tensor { return c.as(i, tensor.RowMajor) }

// last returns input i, of rank 3 or more, channels-last.
func (c *call) last(i int) *tensor.Tensor { return c.as(i, tensor.ChannelsLast) }

func (c *call) as(i int, layout tensor.Layout) *tensor.Tensor {
	return c.refAs(i, layout).t
}

func (c *call) refAs(i int, layout tensor.Layout) handle {
	if i >= len(c.ins) {
		return handle{}
	}
	a := c.ins[i]
	if a.t == nil || a.t.Layout == layout || len(a.t.Shape) < 3 {
		return a
	}
	if c.swapped[i] {
		return c.run.convert(a, layout)
	}
	return c.run.laidOut(c.node.Inputs[i], layout)
}

// fixed reports whether input i is a constant tensor that may serve as the key of a cache.
func (c *call) fixed(i int) bool { return i < len(c.ins) && c.ins[i].fixed }

// outShape returns the inferred shape of output i.
func (c *call) outShape(i int) []int { return c.typ[i].shape }

// outDType returns the inferred element type of output i, Undefined where its shape is not known.
func (c *call) outDType(i int) tensor.DType {
	if i >= len(c.typ) {
		return tensor.Undefined
	}
	return c.typ[i].dtype
}

// out allocates output i, row-major, of the inferred type. Its elements are undefined.
func (c *call) out(i int) (*tensor.Tensor, error) { return c.outIn(i, tensor.RowMajor) }

// outIn allocates output i of the inferred type in the given layout.
func (c *call) outIn(i int, layout tensor.Layout) (*tensor.Tensor, error) {
	if i >= len(c.typ) || c.typ[i].dtype == tensor.Undefined {
		return nil, fmt.Errorf("type of output %d is not known", i)
	}
	return c.outAs(i, c.typ[i].dtype, c.typ[i].shape, layout)
}

// outAs allocates output i of a type that is known only now.
func (c *call) outAs(i int, d tensor.DType, shape []int, layout tensor.Layout) (*tensor.Tensor, error) {
	if len(shape) < 3 {
		layout = tensor.RowMajor
	}
	t, b, err := c.run.mem.alloc(d, shape, layout)
	if err != nil {
		return nil, err
	}
	c.setOut(i, handle{t: t, buf: b})
	return t, nil
}

func (c *call) setOut(i int, r handle) {
	if i < len(c.outs) {
		c.outs[i] = r
	}
}

// alias makes output i the elements of input k, row-major, under another shape. They are shared where nobody may write to
// them and the input may outlive the call, otherwise copied.
func (c *call) alias(i, k int, shape []int) error {
	src := c.refAs(k, tensor.RowMajor)
	if c.written(i) || c.swapped[k] {
		return c.copyOut(i, src.t, shape)
	}
	view := c.run.header()
	view.DType, view.Layout, view.Data = src.t.DType, tensor.RowMajor, src.t.Data
	view.Shape = append(view.Shape[:0], shape...)
	c.setOut(i, handle{t: view, buf: src.buf})
	return nil
}

// view makes output i, of the inferred shape and the given layout, the elements of input k whose offsets are off + sum(index*src),
// if they lie there as such a tensor's do and may be shared. It returns false if they do not or may not, and then does nothing.
func (c *call) view(i, k, off int, src []int, layout tensor.Layout) bool {
	if i >= len(c.typ) || c.typ[i].dtype == tensor.Undefined || c.written(i) || c.swapped[k] {
		return false
	}
	x, shape := c.raw(k), c.outShape(i)
	n, elements := tensor.Count(shape), storageOf(x.Data)
	if n == 0 || elements == nil || len(shape) < 3 && layout != tensor.RowMajor {
		return false
	}
	own := strides(&tensor.Tensor{Layout: layout, Shape: shape})
	for a, size := range shape {
		if size > 1 && src[a] != own[a] {
			return false
		}
	}
	view := c.run.header()
	view.DType, view.Layout, view.Data = x.DType, layout, elements.part(view.Data, off, n)
	view.Shape = append(view.Shape[:0], shape...)
	c.setOut(i, handle{t: view, buf: c.ins[k].buf})
	return true
}

// pass makes output i input k in its layout, shared under the same conditions.
func (c *call) pass(i, k int) error {
	if c.written(i) || c.swapped[k] {
		return c.copyOut(i, c.raw(k), c.raw(k).Shape)
	}
	c.setOut(i, c.ins[k])
	return nil
}

// written reports whether a hook may write to output i.
func (c *call) written(i int) bool {
	return i < len(c.node.Outputs) && c.run.hooks != nil && c.run.hooks.Output != nil && c.run.hooks.wants(c.node.Outputs[i])
}

func (c *call) copyOut(i int, src *tensor.Tensor, shape []int) error {
	layout := src.Layout
	if len(shape) != len(src.Shape) {
		layout = tensor.RowMajor
	}
	dst, err := c.outAs(i, src.DType, shape, layout)
	if err != nil {
		return err
	}
	copyElements(dst.Data, 0, src.Data, 0, storageLen(src))
	return nil
}

// scratch returns n undefined float32 that live until the node has run.
func (c *call) scratch(n int) ([]float32, error) {
	t, _, err := c.run.mem.alloc(tensor.Float32, []int{n}, tensor.RowMajor)
	if err != nil {
		return nil, err
	}
	return t.F32(), nil
}

// parallel calls f on a fixed partition of [0,n). cost is the approximate work of one item in elements; small jobs are not
// divided.
func (c *call) parallel(n, cost int, f func(lo, hi int)) {
	c.run.s.parallel(n, cost, f)
}
