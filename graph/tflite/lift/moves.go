package lift

import (
	"fmt"
	"math"
	"slices"

	"qwb/graph"
)

func (l *lifter) reshape() error {
	t := &l.s.Tensors[l.op.Outputs[0]]
	x, err := l.flat(l.in(0))
	if err != nil {
		return err
	}
	return l.result(0, plain, "Reshape", asGiven(t.Shape), x, l.list("shape", graph.Int64s(t.Shape)))
}

// asGiven says of a Reshape that a length of 0 is one; nil where there is none.
func asGiven(shape []int) []graph.Attr {
	if slices.Contains(shape, 0) {
		return []graph.Attr{graph.Int("allowzero", 1)}
	}
	return nil
}

func (l *lifter) transpose() error {
	x, perm, err := l.dataAndList()
	if err != nil {
		return err
	}
	return l.result(0, plain, "Transpose", []graph.Attr{graph.Ints("perm", perm...)}, x)
}

func (l *lifter) stridedSlice() error {
	o := l.op.Options
	if o.Int("ellipsis_mask") != 0 || o.Int("new_axis_mask") != 0 || o.Bool("offset") {
		return errNoForm
	}
	var parts [3][]int64
	for i := range parts {
		var err error
		if parts[i], err = l.constants(1 + i); err != nil {
			return err
		}
	}
	shape := l.shape(l.in(0))
	begin, end, step := slices.Clone(parts[0]), slices.Clone(parts[1]), parts[2]
	if len(begin) > len(shape) || len(end) != len(begin) || len(step) != len(begin) {
		return fmt.Errorf("%d, %d and %d bounds for %d axes", len(begin), len(end), len(step), len(shape))
	}
	var axes, gone []int64
	const far = 1 << 31
	for a := range begin {
		axes = append(axes, int64(a))
		if o.Int("begin_mask")>>a&1 == 1 {
			begin[a] = 0
			if step[a] < 0 {
				begin[a] = far
			}
		}
		if o.Int("end_mask")>>a&1 == 1 {
			end[a] = far
			if step[a] < 0 {
				end[a] = -far
			}
		}
		if o.Int("shrink_axis_mask")>>a&1 == 1 {
			gone = append(gone, int64(a))
			if step[a] = 1; begin[a] == -1 {
				end[a] = far
			} else {
				end[a] = begin[a] + 1
			}
		}
	}
	x, err := l.read(l.in(0), plain)
	if err != nil {
		return err
	}
	in := []graph.ValueID{x, l.list("starts", begin), l.list("ends", end), l.list("axes", axes), l.list("steps", step)}
	if gone == nil {
		return l.result(0, plain, "Slice", nil, in...)
	}
	t := l.s.Tensors[l.op.Outputs[0]]
	for _, a := range gone {
		if int(a) > len(t.Shape) {
			return fmt.Errorf("a result %v without axis %d", t.Shape, a)
		}
		t.Shape = slices.Insert(slices.Clone(t.Shape), int(a), 1)
	}
	if x, err = l.node("Slice", t.Name+"_slice", l.dtype(&t), t.Shape, nil, in...); err != nil {
		return err
	}
	if x, err = l.quantized(x, &t, plain); err != nil {
		return err
	}
	return l.result(0, plain, "Squeeze", nil, x, l.list("squeezed", gone))
}

func (l *lifter) slice() error {
	begin, err := l.constants(1)
	if err != nil {
		return err
	}
	size, err := l.constants(2)
	if err != nil {
		return err
	}
	end, axes := make([]int64, len(size)), make([]int64, len(size))
	if len(begin) != len(size) || len(size) != len(l.shape(l.in(0))) {
		return fmt.Errorf("%d and %d bounds for %d axes", len(begin), len(size), len(l.shape(l.in(0))))
	}
	for a := range end {
		axes[a] = int64(a)
		if end[a] = begin[a] + size[a]; size[a] < 0 {
			end[a] = int64(l.shape(l.in(0))[a])
		}
	}
	x, err := l.read(l.in(0), plain)
	if err != nil {
		return err
	}
	return l.result(0, plain, "Slice", nil, x, l.list("starts", begin), l.list("ends", end), l.list("axes", axes))
}

// many adds a node of several outputs, one for each of the operator.
func (l *lifter) many(o order, op string, attrs []graph.Attr, in ...graph.ValueID) error {
	n := graph.Node{Op: op, Attrs: attrs, Inputs: in}
	for _, id := range l.op.Outputs {
		t := &l.s.Tensors[id]
		v, err := l.g.AddValue(graph.Value{Name: l.g.FreshName(t.Name), DType: l.dtype(t), Shape: graph.Static(shapeIn(t, o)...)})
		if err != nil {
			return err
		}
		n.Outputs = append(n.Outputs, v)
	}
	if len(n.Outputs) == 0 {
		return fmt.Errorf("it has no output")
	}
	values := slices.Clone(n.Outputs)
	n.Name = l.g.FreshName(l.g.Value(values[0]).Name + "/" + op)
	if _, err := l.g.AddNode(n); err != nil {
		return err
	}
	for i, id := range l.op.Outputs {
		if err := l.define(id, o, values[i]); err != nil {
			return err
		}
	}
	return nil
}

func (l *lifter) split() error { // SPLIT (axis, data), SPLIT_V (data, sizes, axis)
	data, where := l.in(1), 0
	if l.op.Op == "SPLIT_V" {
		data, where = l.in(0), 2
	}
	a, err := l.constants(where)
	if err != nil {
		return err
	}
	if len(a) != 1 || data < 0 {
		return fmt.Errorf("%d axes", len(a))
	}
	o, rank := l.order(data), len(l.shape(data))
	x, err := l.read(data, o)
	if err != nil {
		return err
	}
	along := axis(int(a[0]), rank, o)
	if along < 0 || along >= rank {
		return fmt.Errorf("axis %d of %d", a[0], rank)
	}
	sizes := make([]int64, len(l.op.Outputs))
	for i, id := range l.op.Outputs {
		s := shapeIn(&l.s.Tensors[id], o)
		if len(s) != rank {
			return fmt.Errorf("an output of %d axes", len(s))
		}
		sizes[i] = int64(s[along])
	}
	return l.many(o, "Split", []graph.Attr{graph.Int("axis", int64(along))}, x, l.list("sizes", sizes))
}

func (l *lifter) pack() error {
	t := &l.s.Tensors[l.op.Outputs[0]]
	a := axis(l.op.Options.Int("axis"), len(t.Shape), plain)
	if a < 0 || a >= len(t.Shape) {
		return fmt.Errorf("axis %d of %d", a, len(t.Shape))
	}
	shape := slices.Clone(t.Shape)
	shape[a] = 1
	in := make([]graph.ValueID, len(l.op.Inputs))
	for i, id := range l.op.Inputs {
		if id < 0 {
			return errNoForm
		}
		var err error
		if in[i], err = l.reshaped(id, t.Name+"_part", shape); err != nil {
			return err
		}
	}
	return l.result(0, plain, "Concat", []graph.Attr{graph.Int("axis", int64(a))}, in...)
}

func (l *lifter) unpack() error { // a slice and a reshape for each output
	x, err := l.read(l.in(0), plain)
	if err != nil {
		return err
	}
	t := l.s.Tensors[l.in(0)]
	a := axis(l.op.Options.Int("axis"), len(t.Shape), plain)
	if a < 0 || a >= len(t.Shape) {
		return fmt.Errorf("axis %d of %d", a, len(t.Shape))
	}
	t.Shape = slices.Clone(t.Shape)
	t.Shape[a] = 1
	for k := range l.op.Outputs {
		part, err := l.node("Slice", l.s.Tensors[l.op.Outputs[k]].Name+"_slice", l.dtype(&t), t.Shape, nil, x,
			l.list("starts", []int64{int64(k)}),
			l.list("ends", []int64{int64(k) + 1}), l.list("axes", []int64{int64(a)}))
		if err == nil {
			part, err = l.quantized(part, &t, plain)
		}
		if err == nil {
			err = l.result(k, plain, "Squeeze", nil, part, l.list("squeezed", []int64{int64(a)}))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (l *lifter) gather() error {
	if l.op.Options.Int("batch_dims") != 0 {
		return errNoForm
	}
	in, err := l.reads(plain, l.in(0), l.in(1))
	if err != nil {
		return err
	}
	return l.result(0, plain, "Gather", []graph.Attr{graph.Int("axis", int64(axis(l.op.Options.Int("axis"), len(l.shape(l.in(0))), plain)))},
		in...)
}

// repeated lifts an operator with a list of how often elements are repeated along the axes, or of how many there are then.
func (l *lifter) repeated(op, name string) error {
	list, err := l.constants(1)
	if err != nil {
		return err
	}
	x, err := l.read(l.in(0), plain)
	if err != nil {
		return err
	}
	return l.result(0, plain, op, nil, x, l.list(name, list))
}

func (l *lifter) reverse() error {
	x, axes, err := l.dataAndList()
	if err != nil {
		return err
	}
	rank := len(l.shape(l.in(0)))
	var starts, ends, steps, along []int64
	for _, a := range axes {
		starts, ends, steps = append(starts, -1), append(ends, math.MinInt64), append(steps, -1)
		along = append(along, int64(axis(int(a), rank, plain)))
	}
	return l.result(0, plain, "Slice", nil, x, l.list("starts", starts), l.list("ends", ends), l.list("axes", along), l.list("steps", steps))
}
