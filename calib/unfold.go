package calib

import (
	"fmt"
	"math"
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels"
	"qwb/kernels/qmath"
	"qwb/observers"
)

// Unfold says how the data input of an operator with a constant weight falls into rows (im2col), such that each output is the product of a
// row and a row of the weight:
//
//	Conv           a row for each sample and output position; elements by input channel of the group, then kernel position
//	ConvTranspose  the same, with zeros where a kernel position reads between input positions; elements in the order of the weight's
//	               axes [Cin/group, kernel...], output channel apart
//	MatMul, Gemm   a row for each row of the first matrix
//
// It keeps the offsets of the shape seen last and is not safe for concurrent use.
type Unfold struct {
	Groups, K int

	node      *graph.Node
	weight    []int
	transpose bool // Gemm: transA

	shape  []int
	layout tensor.Layout
	axes   []unfoldAxis // spatial
	places Places
}

// Places says where the rows of an input lie among its codes with zeros around and between them: element k of row r of group g is at
// Base[r]+Offset[g*K+k] of Image codes. The Run elements of the input from i*Run on are there from At[i] on.
type Places struct {
	Image, Run       int
	At, Base, Offset []int32
}

// unfoldAxis is one spatial axis: input element i lies at lead+i*spread of size; the output o at kernel position t reads o*step+tap[t].
type unfoldAxis struct {
	in, out, size, lead, spread, step int
	tap                               []int
}

// NewUnfold returns the unfolding of a node's input 0: Conv, ConvTranspose, Gemm or MatMul with a constant float32 weight as input 1.
// MatMul with a stack of weights has none.
func NewUnfold(g *graph.Graph, id graph.NodeID) (*Unfold, error) {
	n := g.Node(id)
	w := g.Const(n.Input(1))
	if !n.IsONNX() || w == nil || w.DType != tensor.Float32 {
		return nil, fmt.Errorf("node %q (%s): there are no rows of an input without a constant weight", n.Name, n.Op)
	}
	u := &Unfold{node: n, weight: slices.Clone(w.Shape)}
	l, ok := graph.LinearOf(n, graph.WeightInput, w.Shape)
	if ok {
		u.Groups, u.K, u.transpose = l.Groups, l.K(), n.Gemm().TransA
	}
	if !ok || graph.Slides(n.Op) == (len(w.Shape) == 2) || u.K < 1 {
		return nil, fmt.Errorf("node %q (%s): no rows of an input beside a weight of shape %v", n.Name, n.Op, w.Shape)
	}
	return u, nil
}

// Rows returns the rows of an input as integers of a fixed point; par shares the work.
// They hold until the next call for an input of another shape or layout.
func (u *Unfold) Rows(x *tensor.Tensor, f qmath.Fixed, par kernels.Parallel) (*observers.GramRows, error) {
	if x.DType != tensor.Float32 || x.F32() == nil && x.Len() > 0 {
		return nil, fmt.Errorf("node %q (%s): an input of type %s", u.node.Name, u.node.Op, x.Type())
	}
	p, err := u.Places(x.Shape, x.Layout)
	if err != nil {
		return nil, err
	}
	rows := &observers.GramRows{Codes: make([]int16, x.Len()), Base: p.Base, Offset: p.Offset, Finite: true}
	const piece = 1 << 16
	odd := make([]struct {
		limited uint64
		finite  bool
	}, (x.Len()+piece-1)/piece)
	par.Run(len(odd), func(i int) {
		odd[i].limited, odd[i].finite = f.Codes(rows.Codes[i*piece:min(i*piece+piece, x.Len())], x.F32()[i*piece:min(i*piece+piece, x.Len())])
	})
	for _, o := range odd {
		rows.Limited, rows.Finite = rows.Limited+o.limited, rows.Finite && o.finite
	}
	if p.Image != len(rows.Codes) {
		padded := make([]int16, p.Image)
		for i, to := range p.At {
			copy(padded[to:][:p.Run], rows.Codes[i*p.Run:])
		}
		rows.Codes = padded
	}
	return rows, nil
}

// Real leaves rows out that give padding: those of an input of which was asked last. d is the padding of the sample, and output the value
// that the operator computes.
func (u *Unfold) Real(rows *observers.GramRows, d *graph.Padded, output graph.ValueID) {
	if !d.Touches(output) {
		return
	}
	shape := slices.Clone(u.shape) // of the output, with one channel
	if graph.Slides(u.node.Op) {
		shape[1] = 1
		for i, a := range u.axes {
			shape[2+i] = a.out
		}
	} else {
		shape[len(shape)-1] = 1
	}
	if u.transpose || len(rows.Base) != tensor.Count(shape) {
		return
	}
	real := []int32{}
	_ = d.Real(output, shape, tensor.RowMajor, 0, len(rows.Base), func(from, to int) error { // it gives back what the function gives: nothing
		real = append(real, rows.Base[from:to]...)
		return nil
	})
	rows.Base = real
}

// Places returns where the rows of an input of a shape and layout lie. It holds until the next call for another.
func (u *Unfold) Places(shape []int, layout tensor.Layout) (*Places, error) {
	if !slices.Equal(u.shape, shape) || u.layout != layout || u.places.Base == nil {
		if err := u.plan(&tensor.Tensor{DType: tensor.Float32, Shape: shape, Layout: layout}); err != nil {
			u.places.Base = nil
			return nil, fmt.Errorf("node %q (%s): %w", u.node.Name, u.node.Op, err)
		}
	}
	return &u.places, nil
}

// plan finds where rows lie in inputs like x.
func (u *Unfold) plan(x *tensor.Tensor) error {
	u.shape, u.layout, u.axes = slices.Clone(x.Shape), x.Layout, nil
	u.places = Places{Base: []int32{}, Offset: make([]int32, u.Groups*u.K)}
	p := &u.places
	if graph.Slides(u.node.Op) {
		return u.planWindow(x)
	}
	rank := len(x.Shape)
	inner := rank - 1
	if u.transpose {
		inner = 0
	}
	if rank == 0 || x.Shape[inner] != u.K || u.node.Op == "Gemm" && rank < 2 {
		return fmt.Errorf("an input of shape %v beside a weight of shape %v", x.Shape, u.weight)
	}
	if p.Image = x.Len(); p.Image > math.MaxInt32 {
		return fmt.Errorf("an input of shape %v is too large", x.Shape)
	}
	p.At, p.Run = []int32{0}, p.Image
	stride := strides(x.MemoryAxes(), x.Shape)
	for k := range p.Offset {
		p.Offset[k] = int32(k * stride[inner])
	}
	p.Base = []int32{0}
	for a, n := range x.Shape {
		if a != inner {
			p.Base = spread(p.Base, n, stride[a])
		}
	}
	return nil
}

// planWindow is plan for windows that slide.
func (u *Unfold) planWindow(x *tensor.Tensor) error {
	geo, err := graph.WindowGeometry(u.node, graph.Static(x.Shape...), graph.Static(u.weight...))
	if err != nil {
		return err
	}
	padded := slices.Clone(x.Shape)
	for d := range geo.In {
		a := unfoldAxis{in: geo.In[d], out: geo.Out[d], spread: 1, step: geo.Stride[d], lead: geo.PadBegin[d]}
		for t := range geo.Kernel[d] {
			a.tap = append(a.tap, t*geo.Dilation[d])
		}
		if u.node.Conv().Transposed {
			a.spread, a.step = geo.Stride[d], 1
			a.lead = max(0, (geo.Kernel[d]-1)*geo.Dilation[d]-geo.PadBegin[d])
			for t := range a.tap {
				a.tap[t] = geo.PadBegin[d] + a.lead - t*geo.Dilation[d]
			}
		}
		a.size = a.lead + max(0, a.in-1)*a.spread + 1
		a.size = max(a.size, max(0, a.out-1)*a.step+slices.Max(a.tap)+1)
		padded[2+d] = a.size
		u.axes = append(u.axes, a)
	}
	count := int64(1)
	for _, n := range padded {
		if count *= int64(n); count > math.MaxInt32 {
			return fmt.Errorf("an input of shape %v is too large", x.Shape)
		}
	}
	p := &u.places
	p.Image = int(count)
	stride := strides(x.MemoryAxes(), padded)
	p.Base = spread([]int32{0}, x.Shape[0], stride[0])
	taps := []int32{0}
	for d, a := range u.axes {
		p.Base = spread(p.Base, a.out, a.step*stride[2+d])
		var next []int32
		for _, t := range taps {
			for _, at := range a.tap {
				next = append(next, t+int32(at*stride[2+d]))
			}
		}
		taps = next
	}
	for i := range p.Offset {
		p.Offset[i] = int32(i/len(taps)*stride[1]) + taps[i%len(taps)]
	}
	u.pad()
	return nil
}

// strides returns the distance in memory of neighbours along each axis; axes are in memory order, slowest first.
func strides(axes, shape []int) []int {
	s, step := make([]int, len(shape)), 1
	for _, a := range slices.Backward(axes) {
		s[a], step = step, step*shape[a]
	}
	return s
}

// spread returns n positions for each one, stride apart.
func spread(of []int32, n, stride int) []int32 {
	out := make([]int32, 0, len(of)*n)
	for _, at := range of {
		for i := range n {
			out = append(out, at+int32(i*stride))
		}
	}
	return out
}

// pad finds where elements go that have zeros around and between them.
func (u *Unfold) pad() {
	planes, inner := u.shape[0]*u.shape[1], 1
	if u.layout == tensor.ChannelsLast {
		planes, inner = u.shape[0], u.shape[1]
	}
	size, run := inner, inner // elements of a plane; elements that stay together
	for _, a := range u.axes {
		size *= a.size
	}
	at := spread([]int32{0}, planes, size)
	step := size
	for d, a := range u.axes {
		step /= a.size
		n := a.in
		if d == len(u.axes)-1 && a.spread == 1 {
			n, run = 1, inner*a.in
		}
		at = spread(at, n, a.spread*step)
		for i := range at {
			at[i] += int32(a.lead * step)
		}
	}
	u.places.At, u.places.Run = at, run
}
