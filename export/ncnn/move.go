package ncnn

import (
	"errors"
	"fmt"
	"slices"

	"qwb/export"
	"qwb/graph"
	"qwb/graph/passes"
	"qwb/graph/tensor"
)

// Operators that move, join, cut or repeat elements.

// same lets a value be the blob of another.
func (b *builder) same(_ graph.NodeID, n *graph.Node) error {
	in, err := b.read(n.Inputs[0])
	b.blobs[n.Outputs[0]] = in
	if at, ok := b.layer[n.Inputs[0]]; ok && err == nil {
		if _, sole := b.g.SoleUse(n.Inputs[0]); sole && !b.g.IsOutput(n.Inputs[0]) {
			b.layer[n.Outputs[0]] = at
		}
	}
	return err
}

func (b *builder) cast(id graph.NodeID, n *graph.Node) error {
	fed := slices.Contains(b.g.Inputs, n.Inputs[0]) && b.fedAsFloat(n.Inputs[0])
	if to := b.g.Value(n.Outputs[0]).DType; !fed && (to != tensor.Float32 || b.g.Value(n.Inputs[0]).DType != tensor.Float32) {
		return fmt.Errorf("from %s to %s: ncnn computes with float32", b.g.Value(n.Inputs[0]).DType, to)
	}
	return b.same(id, n)
}

func (b *builder) reshape(id graph.NodeID, n *graph.Node) error {
	from, err := b.dims(n.Inputs[0])
	if err != nil {
		return err
	}
	to, err := b.dims(n.Outputs[0])
	if err != nil {
		return err
	}
	if slices.Equal(from, to) {
		return b.same(id, n)
	}
	_, err = b.first("Reshape", id, n, sized(to)...)
	return err
}

// orders are the types of Permute: the axes of the result from the innermost on, as letters of those of the input.
var orders = map[int][]string{
	1: {"w"}, 2: {"wh", "hw"}, 3: {"whc", "hwc", "wch", "cwh", "hcw", "chw"},
	4: {"whdc", "hwdc", "wdhc", "dwhc", "hdwc", "dhwc", "whcd", "hwcd", "wchd", "cwhd", "hcwd", "chwd", "wdch", "dwch", "wcdh", "cwdh", "dcwh",
		"cdwh", "hdcw", "dhcw", "hcdw", "chdw", "dchw", "cdhw"},
}

func (b *builder) transpose(id graph.NodeID, n *graph.Node) error {
	x := n.Inputs[0]
	s, known := b.g.Value(x).Shape.Ints()
	if !known {
		return errors.New("the size of its input is not known")
	}
	d, err := b.dims(x)
	if err != nil {
		return err
	}
	to, err := b.dims(n.Outputs[0])
	if err != nil {
		return err
	}
	perm := n.AttrInts("perm")
	if perm == nil {
		for i := range s {
			perm = append(perm, int64(len(s)-1-i))
		}
	}
	// A batch of 1 may be moved inwards: its place is a Reshape's to give. Of the axes that ncnn has, the order counts.
	var order []int
	for _, p := range perm {
		if a := int(p) - (len(s) - len(d)); a >= 0 {
			order = append(order, a)
		}
	}
	if len(d) == 1 && len(s) == 1 {
		return b.same(id, n)
	}
	letters := []string{"w", "hw", "chw", "cdhw"}[len(d)-1] // by axis, the outermost first
	want := ""
	moved := make([]int, len(d))
	for i, a := range order {
		want = string(letters[a]) + want
		moved[i] = d[a]
	}
	typ := slices.Index(orders[len(d)], want)
	if typ < 0 {
		return fmt.Errorf("order %v", perm)
	}
	if _, err := b.first("Permute", id, n, param{0, typ}); err != nil {
		return err
	}
	if !slices.Equal(moved, to) {
		b.reshapedOutput(len(b.net.layers)-1, n.Outputs[0], to)
	}
	return nil
}

func (b *builder) concat(id graph.NodeID, n *graph.Node) error {
	a, err := b.axis(n.Outputs[0], n.Axis())
	if err != nil {
		return err
	}
	d, err := b.dims(n.Outputs[0])
	if err != nil {
		return err
	}
	in, err := b.operands(n, len(d))
	if err != nil {
		return err
	}
	b.add("Concat", id, in, n.Outputs[0], param{0, a})
	return nil
}

func (b *builder) split(id graph.NodeID, n *graph.Node) error {
	a, err := b.axis(n.Inputs[0], n.Axis())
	if err != nil {
		return err
	}
	in, err := b.read(n.Inputs[0])
	if err != nil {
		return err
	}
	d, err := b.dims(n.Inputs[0])
	if err != nil {
		return err
	}
	s, _ := b.g.Value(n.Inputs[0]).Shape.Ints()
	whole, _ := graph.Axis(n.Axis(), len(s))
	var sizes []int
	b.add("Slice", id, []string{in}, n.Outputs[0])
	l := &b.net.layers[len(b.net.layers)-1]
	l.tops = nil
	parts := make([][]int, len(n.Outputs))
	for i, v := range n.Outputs {
		if parts[i], err = b.dims(v); err != nil {
			return err
		}
		if b.blobs[v] == "" {
			b.blobs[v] = b.blobName(b.g.Value(v).Name)
		}
		y, _ := b.g.Value(v).Shape.Ints()
		sizes, l.tops = append(sizes, y[whole]), append(l.tops, b.blobs[v])
	}
	l.params = []param{{0, sizes}, {1, a}}
	for i, v := range n.Outputs { // of two rows each is a batch of 1
		if cut := slices.Concat(d[:a], []int{sizes[i]}, d[a+1:]); !slices.Equal(cut, parts[i]) {
			b.blobs[v] = b.reshaped(b.g.Value(v).Name, b.blobs[v], parts[i])
		}
	}
	return nil
}

// slice writes Crop.
func (b *builder) slice(id graph.NodeID, n *graph.Node) error {
	x := n.Inputs[0]
	s, known := b.g.Value(x).Shape.Ints()
	if !known {
		return errors.New("the size of its input is not known")
	}
	starts, ends, axes := n.AttrInts("starts"), n.AttrInts("ends"), n.AttrInts("axes")
	for i, list := range []*[]int64{&starts, &ends, &axes} {
		if v := n.Input(i + 1); v != graph.NoValue {
			t := b.g.Const(v)
			if t == nil {
				return errors.New("where it cuts is computed")
			}
			*list = passes.Integers(t)
		}
	}
	if stepped(b.g, n) {
		return b.sliceBySteps(id, n, s, starts, ends, axes)
	}
	if axes == nil {
		for i := range starts {
			axes = append(axes, int64(i))
		}
	}
	if len(starts) != len(axes) || len(ends) != len(axes) {
		return fmt.Errorf("%d starts, %d ends and %d axes", len(starts), len(ends), len(axes))
	}
	var from, to, at []int
	for i, axis := range axes {
		whole, ok := graph.Axis(int(axis), len(s))
		if !ok {
			return fmt.Errorf("axis %d of %v", axis, s)
		}
		size := int64(s[whole])
		bound := func(p int64) int {
			if p < 0 {
				p += size
			}
			return int(min(max(p, 0), size))
		}
		lo, hi := bound(starts[i]), bound(ends[i])
		if whole == 0 && batched(s) {
			if lo != 0 || hi != 1 {
				return errors.New("it cuts the batch")
			}
			continue
		}
		a, err := b.axis(x, int(axis))
		if err != nil {
			return err
		}
		from, to, at = append(from, lo), append(to, hi), append(at, a)
	}
	if len(at) == 0 {
		return b.same(id, n)
	}
	d, err := b.dims(x)
	if err != nil {
		return err
	}
	if _, err := b.first("Crop", id, n, param{9, from}, param{10, to}, param{11, at}); err != nil {
		return err
	}
	cut := slices.Clone(d)
	for i, a := range at {
		cut[a] = to[i] - from[i]
	}
	out, err := b.dims(n.Outputs[0])
	if err == nil && !slices.Equal(out, cut) {
		b.reshapedOutput(len(b.net.layers)-1, n.Outputs[0], out)
	}
	return err
}

// stepped reports whether a Slice takes steps other than 1.
func stepped(g *graph.Graph, n *graph.Node) bool {
	t := g.Const(n.Input(4))
	return n.Input(4) != graph.NoValue && (t == nil || slices.ContainsFunc(passes.Integers(t), func(i int64) bool { return i != 1 }))
}

// sliceBySteps writes a Slice with steps, axis by axis.
func (b *builder) sliceBySteps(id graph.NodeID, n *graph.Node, s []int, starts, ends, axes []int64) error {
	t := b.g.Const(n.Input(4))
	if t == nil || len(starts) != t.Len() || len(ends) != t.Len() || axes != nil && len(axes) != t.Len() {
		return errors.New("its steps are computed")
	}
	x := n.Inputs[0]
	d, err := b.dims(x)
	if err != nil {
		return err
	}
	in, err := b.read(x)
	if err != nil {
		return err
	}
	d = slices.Clone(d)
	y, known := b.g.Value(n.Outputs[0]).Shape.Ints()
	if !known {
		return errors.New("the size of its output is not known")
	}
	for i, step := range passes.Integers(t) {
		axis := i
		if axes != nil {
			axis, _ = graph.Axis(int(axes[i]), len(s))
		}
		if axis == 0 && batched(s) {
			if y[0] != 1 {
				return errors.New("it cuts the batch")
			}
			continue
		}
		a, err := b.axis(x, axis)
		if err != nil {
			return err
		}
		lo, size := starts[i], int64(s[axis])
		if lo < 0 {
			lo += size
		}
		lo = min(max(lo, 0), size)
		if step < 0 {
			lo = min(lo, size-1)
		}
		if in, err = b.every(b.g.Value(n.Outputs[0]).Name, in, d, a, int(lo), int(step), y[axis]); err != nil {
			return err
		}
		d[a] = y[axis]
	}
	return b.valued(id, in, d, n.Outputs[0])
}

func (b *builder) pad(id graph.NodeID, n *graph.Node) error {
	p := n.Pad()
	x := n.Inputs[0]
	s, _ := b.g.Value(x).Shape.Ints()
	if v := n.Input(1); v != graph.NoValue {
		t := b.g.Const(v)
		if t == nil {
			return errors.New("how much it adds is computed")
		}
		p.Pads = passes.Integers(t)
	}
	if v := n.Input(2); v != graph.NoValue {
		t := b.g.Const(v)
		if t == nil || t.DType != tensor.Float32 || t.Len() != 1 {
			return errors.New("what it adds is computed")
		}
		p.Value = t.F32()[0]
	}
	d, err := b.dims(x)
	if err != nil {
		return err
	}
	typ := slices.Index([]string{"constant", "edge", "reflect"}, p.Mode)
	if typ < 0 || len(s) == 0 || len(p.Pads) != 2*len(s) || n.Input(3) != graph.NoValue {
		return fmt.Errorf("mode %s with paddings %v: ncnn has constant, edge and reflect, for all axes", p.Mode, p.Pads)
	}
	off := len(s) - len(d)
	begin, end := p.Pads[off:len(s)], p.Pads[len(s)+off:]
	if off == 1 && (p.Pads[0] != 0 || p.Pads[len(s)] != 0) || len(d) == 4 && (begin[0] != 0 || end[0] != 0) {
		return errors.New("it adds to the batch, or to the channels of four axes")
	}
	// By axis from the innermost: left and right, top and bottom, front and behind.
	var params []param
	for i, keys := range [][2]int{{2, 3}, {0, 1}, {7, 8}} {
		if a := len(d) - 1 - i; a >= 0 {
			if begin[a] < 0 || end[a] < 0 {
				return errors.New("it takes away")
			}
			params = append(params, param{keys[0], int(begin[a])}, param{keys[1], int(end[a])})
		}
	}
	_, err = b.first("Padding", id, n, append(params, param{4, typ}, param{5, p.Value})...)
	return err
}

// resize writes Interp over the two inner axes.
func (b *builder) resize(id graph.NodeID, n *graph.Node) error {
	x := n.Inputs[0]
	from, err := b.sample(x, 3)
	if err != nil {
		return err
	}
	to, err := b.sample(n.Outputs[0], 3)
	if err != nil {
		return err
	}
	if from[0] != to[0] {
		return fmt.Errorf("from %v to %v: ncnn's Interp resizes the last two of three axes", from, to)
	}
	align, typ := 0, 0
	mode := n.AttrStr("mode", "nearest")
	coordinates := n.AttrStr("coordinate_transformation_mode", "half_pixel")
	if n.Op == "Upsample" || b.g.Opset("") < 11 {
		coordinates = "asymmetric"
	}
	whole := to[1]%from[1] == 0 && to[2]%from[2] == 0
	floor := n.AttrStr("nearest_mode", "round_prefer_floor") == "floor" || n.Op == "Upsample" || b.g.Opset("") < 11
	switch {
	case from[1] == 1 && from[2] == 1: // one element everywhere
		typ = 1
	case mode == "nearest" && (coordinates == "asymmetric" && (floor || whole && n.AttrStr("nearest_mode", "") != "ceil" && to[1] == from[1] &&
		to[2] == from[2]) ||
		whole && coordinates == "half_pixel" && n.AttrStr("nearest_mode", "round_prefer_floor") == "round_prefer_floor"):
		typ = 1
	case mode == "linear" && (coordinates == "half_pixel" || coordinates == "pytorch_half_pixel" && to[1] > 1 && to[2] > 1):
		typ = 2
	case mode == "linear" && coordinates == "align_corners":
		typ, align = 2, 1
	default:
		return fmt.Errorf("mode %s, coordinates %s, from %v to %v: ncnn has nearest (asymmetric, floor) and linear (half_pixel, align_corners)",
			mode, coordinates, from, to)
	}
	if from[1]*from[2] > 1 {
		if err := export.QuotientScales(b.g, n, append([]int{1}, from...), append([]int{1}, to...)); err != nil {
			return err
		}
	}
	_, err = b.first("Interp", id, n, param{0, typ}, param{3, to[1]}, param{4, to[2]}, param{6, align})
	return err
}

func (b *builder) depthToSpace(id graph.NodeID, n *graph.Node) error {
	if _, err := b.sample(n.Inputs[0], 3); err != nil {
		return err
	}
	_, err := b.first("PixelShuffle", id, n, param{0, int(n.AttrInt("blocksize", 1))}, param{1, truth(n.AttrStr("mode", "DCR") == "DCR")})
	return err
}
