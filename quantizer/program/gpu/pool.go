package gpu

import (
	"context"
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels/cuda"
	"qwb/kernels/qmath"
	"qwb/quantizer/lower"
	"qwb/quantizer/program/steps"
)

// windowOf describes a pool over an input of a shape and returns the shape of its output.
func windowOf(n *graph.Node, in []int) (w cuda.Window, out []int, err error) {
	if len(in) < 3 {
		return w, nil, onlyHost("an input without spatial axes")
	}
	geo, err := graph.PoolGeometry(n, graph.Static(in...))
	if err != nil {
		return w, nil, err
	}
	w, err = cuda.NewWindow(geo.In, geo.Out, geo.Kernel, geo.Stride, geo.Dilation, geo.PadBegin, geo.PadEnd)
	if err != nil {
		return w, nil, onlyHost(err.Error())
	}
	if out = steps.SpatialShape(in[0], in[1], geo); tensor.Count(out) == 0 {
		return w, nil, onlyHost("its result has no elements")
	}
	return w, out, nil
}

// maxPool takes the largest code of windows, or of whole planes.
type maxPool struct {
	e  *engine
	op *lower.MaxPool
}

func (k *maxPool) prepare(_ context.Context, s *step, in []*value) (*prepared, error) {
	x, el := in[0], k.e.codeElement(s.Inputs[0])
	if k.op.Global {
		if len(x.shape) < 3 {
			return nil, onlyHost("an input without spatial axes")
		}
		axes := make([]int, len(x.shape)-2)
		for i := range axes {
			axes[i] = i + 2
		}
		return newReduce(k.e, s, x, axes, true, true), nil
	}
	w, out, err := windowOf(k.e.program.Graph.Node(s.Node), x.shape)
	if err != nil {
		return nil, err
	}
	n, c := x.shape[0], x.shape[1]
	p := k.e.alone(s, out, true, lastLayout)
	p.launch = func(st *cuda.Stream, in, out, _ []cuda.Buffer) error {
		return cuda.MaxPoolCodes(st, out[0], in[0], el, n, c, w, k.op.Lowest)
	}
	return p, nil
}

// reduction is an array whose elements lie together, with axes that are to go.
type reduction struct {
	want        layout
	shape, axes []int // in the order of memory
	out         []int // the shape of the result
}

// reductionOf finds how to reduce a value over axes: as it lies where the order of what is left is the same, else row-major.
func reductionOf(x *value, axes []int, keep bool) (r reduction, err error) {
	reduced := make([]bool, len(x.shape))
	for _, a := range axes {
		if a < 0 || a >= len(x.shape) {
			return r, onlyHost("no such axis")
		}
		reduced[a] = true
	}
	spatial := len(x.shape) > 2
	for a, n := range x.shape {
		switch {
		case !reduced[a]:
			r.out = append(r.out, n)
		case keep:
			r.out = append(r.out, 1)
		}
		spatial = spatial && (a < 2 || reduced[a])
	}
	r.want, r.shape, r.axes = rowLayout, slices.Clone(x.shape), slices.Clone(axes)
	if spatial && x.last && !slices.Contains(axes, 1) {
		r.want, r.shape = lastLayout, steps.MemoryShape(x.shape, true)
		r.axes = r.axes[:0]
		for _, a := range axes {
			r.axes = append(r.axes, max(a-1, 0))
		}
	}
	return r, nil
}

// newReduce is the largest or the smallest code over axes.
func newReduce(e *engine, s *step, x *value, axes []int, keep, largest bool) *prepared {
	r, _ := reductionOf(x, axes, keep)
	el := e.codeElement(s.Inputs[0])
	p := e.alone(s, r.out, false, r.want)
	p.launch = func(st *cuda.Stream, in, out, _ []cuda.Buffer) error {
		return cuda.ReduceCodes(st, out[0], in[0], el, r.shape, r.axes, largest)
	}
	return p
}

// average is the mean of windows, or over axes.
type average struct {
	e  *engine
	op *lower.Average
}

func (k *average) prepare(_ context.Context, s *step, in []*value) (*prepared, error) {
	if k.op.Axes != nil {
		return k.over(s, in[0])
	}
	x, node := in[0], k.e.program.Graph.Node(s.Node)
	w, out, err := windowOf(node, x.shape)
	if err != nil {
		return nil, err
	}
	padding := node.Pool().CountPadding
	by, err := k.counts(node, x.shape, padding)
	if err != nil {
		return nil, err
	}
	p := k.e.alone(s, out, true, lastLayout)
	a, err := k.pack(p, by)
	if err != nil {
		return p, err
	}
	n, c, to, from := x.shape[0], x.shape[1], k.e.codeElement(s.Outputs[0]), k.e.codeElement(s.Inputs[0])
	p.launch = func(st *cuda.Stream, in, out, _ []cuda.Buffer) error {
		return cuda.AveragePoolCodes(st, out[0], in[0], to, from, n, c, w, padding, a)
	}
	return p, nil
}

// counts prepares the arithmetic for every number of positions that windows have.
func (k *average) counts(node *graph.Node, in []int, padding bool) ([]*qmath.Average, error) {
	geo, err := graph.PoolGeometry(node, graph.Static(in...))
	if err != nil {
		return nil, err
	}
	shape, err := shapeOf(geo, in[0], in[1], in[1])
	if err != nil {
		return nil, err
	}
	by := make([]*qmath.Average, shape.KD*shape.KH*shape.KW+1)
	for z := range shape.OutD {
		for y := range shape.OutH {
			for x := range shape.OutW {
				n := shape.WindowCount(z, y, x, padding)
				if n == 0 || by[n] != nil {
					continue
				}
				if by[n], err = k.op.For(k.e.program.Profile, n); err != nil {
					return nil, err
				}
			}
		}
	}
	return by, nil
}

// pack uploads the arithmetic for numbers of positions.
func (k *average) pack(p *prepared, by []*qmath.Average) (a cuda.Average, err error) {
	i := slices.IndexFunc(by, func(a *qmath.Average) bool { return a != nil })
	if i < 0 {
		return a, onlyHost("windows over nothing")
	}
	table, err := k.e.memory.constant(cuda.PackAverages(i, len(by)-1, func(n int) *qmath.Average { return by[n] }))
	if err != nil {
		return a, err
	}
	p.owned = append(p.owned, table)
	if a, err = cuda.AverageOf(by[i], table.Ptr, i, k.op.Empty()); err != nil {
		return a, onlyHost(err.Error())
	}
	return a, nil
}

// over prepares the mean over whole axes.
func (k *average) over(s *step, x *value) (*prepared, error) {
	r, err := reductionOf(x, k.op.Axes, k.op.Keep)
	if err != nil {
		return nil, err
	}
	n := 1
	for _, a := range k.op.Axes {
		n *= x.shape[a]
	}
	by := make([]*qmath.Average, n+1)
	if by[n], err = k.op.For(k.e.program.Profile, n); err != nil {
		return nil, err
	}
	p := k.e.alone(s, r.out, false, r.want)
	a, err := k.pack(p, by)
	if err != nil {
		return p, err
	}
	to, from := k.e.codeElement(s.Outputs[0]), k.e.codeElement(s.Inputs[0])
	p.launch = func(st *cuda.Stream, in, out, _ []cuda.Buffer) error {
		return cuda.MeanCodes(st, out[0], in[0], to, from, r.shape, r.axes, a)
	}
	return p, nil
}
