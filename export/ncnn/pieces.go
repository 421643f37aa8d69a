package ncnn

import (
	"errors"
	"fmt"
	"slices"

	"qwb/graph"
	"qwb/graph/passes"
	"qwb/graph/tensor"
)

// Operators that ncnn has no layer for, as several layers of it. The last has the node's name.

// mostPieces is how many parts one axis is cut into, or joined of.
const mostPieces = 64

// joined writes a layer of several blobs that no value stands for.
func (b *builder) joined(typ, name string, in []string, params ...param) string {
	out := b.step(typ, name, in[0], params...)
	b.net.layers[len(b.net.layers)-1].bottoms = in
	return out
}

// piece is a blob of the elements from lo to before hi along an axis of one.
func (b *builder) piece(name, in string, axis, lo, hi int) string {
	return b.step("Crop", name+"_piece", in, param{9, []int{lo}}, param{10, []int{hi}}, param{11, []int{axis}})
}

// chosen is a blob of what indices leave of axis a of one that looks like d: its runs cut out and joined.
func (b *builder) chosen(name, in string, d []int, a int, indices []int) (string, error) {
	var parts []string
	for i := 0; i < len(indices); {
		run := 1
		for i+run < len(indices) && indices[i+run] == indices[i]+run {
			run++
		}
		if len(parts) == mostPieces {
			return "", fmt.Errorf("it takes more than %d pieces of an axis", mostPieces)
		}
		part := in
		if run != d[a] {
			part = b.piece(name, in, a, indices[i], indices[i]+run)
		}
		parts, i = append(parts, part), i+run
	}
	if len(parts) == 1 {
		return parts[0], nil
	}
	return b.joined("Concat", name+"_pieces", parts, param{0, a}), nil
}

// valued lets a blob be the value of a node: by a Reshape where it looks otherwise, else a Noop.
func (b *builder) valued(id graph.NodeID, in string, from []int, out graph.ValueID) error {
	to, err := b.dims(out)
	if err != nil {
		return err
	}
	if slices.Equal(from, to) {
		b.add("Noop", id, []string{in}, out)
	} else {
		b.add("Reshape", id, []string{in}, out, sized(to)...)
	}
	return nil
}

// gather writes a Gather by constant indices.
func (b *builder) gather(id graph.NodeID, n *graph.Node) error {
	index := b.g.Const(n.Inputs[1])
	if index == nil {
		return errors.New("its indices are computed")
	}
	x := n.Inputs[0]
	s, known := b.g.Value(x).Shape.Ints()
	axis, ok := graph.Axis(int(n.AttrInt("axis", 0)), len(s))
	if !known || !ok {
		return errors.New("the size of its input is not known")
	}
	var indices []int
	for _, i := range passes.Integers(index) {
		if i < 0 {
			i += int64(s[axis])
		}
		indices = append(indices, int(i))
	}
	d, err := b.dims(x)
	if err != nil {
		return err
	}
	in, err := b.read(x)
	if err != nil {
		return err
	}
	if axis == 0 && batched(s) {
		if len(indices) != 1 {
			return errors.New("it works along the batch, which ncnn does not have")
		}
		return b.valued(id, in, d, n.Outputs[0])
	}
	a, err := b.axis(x, axis)
	if err != nil {
		return err
	}
	if in, err = b.chosen(b.g.Value(n.Outputs[0]).Name, in, d, a, indices); err != nil {
		return err
	}
	d = slices.Clone(d)
	d[a] = len(indices)
	return b.valued(id, in, d, n.Outputs[0])
}

// every is a blob of every step-th of count elements from lo on along axis a of one that looks like d. Whole steps are an axis of their own
// of which the first is cut out; the last, whose step may reach beyond the end, is cut out by itself.
func (b *builder) every(name, in string, d []int, a, lo, step, count int) (string, error) {
	if step < 0 || count < 4 {
		indices := make([]int, count)
		for i := range indices {
			indices[i] = lo + i*step
		}
		return b.chosen(name, in, d, a, indices)
	}
	outer, inner := tensor.Count(d[:a]), tensor.Count(d[a+1:])
	whole := b.piece(name, in, a, lo, lo+(count-1)*step)
	whole = b.reshaped(name, whole, []int{outer, count - 1, step * inner})
	whole = b.piece(name, whole, 2, 0, inner)
	look := slices.Clone(d)
	look[a] = count - 1
	whole = b.reshaped(name, whole, look)
	last := b.piece(name, in, a, lo+(count-1)*step, lo+(count-1)*step+1)
	return b.joined("Concat", name+"_pieces", []string{whole, last}, param{0, a}), nil
}

// repeated writes Tile and Expand: an axis that is repeated is joined of itself, one of a single element takes zeros that are added.
func (b *builder) repeated(id graph.NodeID, n *graph.Node) error {
	out := n.Outputs[0]
	to, err := b.dims(out)
	if err != nil {
		return err
	}
	s, _ := b.g.Value(n.Inputs[0]).Shape.Ints()
	y, _ := b.g.Value(out).Shape.Ints()
	if batched(s) != batched(y) && len(s) == len(y) {
		return errors.New("it repeats the batch, which ncnn does not have")
	}
	d, err := b.dims(n.Inputs[0])
	if err != nil {
		return err
	}
	in, err := b.ranked(n.Inputs[0], len(to))
	if err != nil {
		return err
	}
	d = append(slices.Repeat([]int{1}, max(len(to)-len(d), 0)), d...)
	if len(d) != len(to) {
		return fmt.Errorf("from %v to %v", d, to)
	}
	zeros, name := slices.Repeat([]int{1}, len(to)), b.g.Value(out).Name
	for a := range to {
		switch times := to[a] / max(d[a], 1); {
		case times == 1:
		case d[a] == 1:
			zeros[a] = times
		case times > mostPieces:
			return fmt.Errorf("it repeats an axis %d times", times)
		default:
			in = b.joined("Concat", name+"_repeated", slices.Repeat([]string{in}, times), param{0, a})
			d[a] = to[a]
		}
	}
	if slices.Equal(d, to) {
		return b.valued(id, in, d, out)
	}
	b.add("BinaryOp", id, []string{in, b.numbers(name+"_zeros", zeros, 0)}, out, param{0, 0})
	return nil
}

// numbers is a blob of one number that looks like d.
func (b *builder) numbers(name string, d []int, x float32) string {
	blob := b.blobName(name)
	b.net.layers = append(b.net.layers, layer{typ: "MemoryData", name: b.layerName("data_" + name), tops: []string{blob}, params: sized(d),
		weights: []weight{{floats: slices.Repeat([]float32{x}, tensor.Count(d))}}})
	return blob
}

// several writes an operator of any number of operands as BinaryOps, two each; a mean is divided.
func several(op int) func(*builder, graph.NodeID, *graph.Node) error {
	return func(b *builder, id graph.NodeID, n *graph.Node) error {
		if len(n.Inputs) == 1 {
			return b.same(id, n)
		}
		out := n.Outputs[0]
		to, err := b.dims(out)
		if err != nil {
			return err
		}
		in, err := b.operands(n, len(to))
		if err != nil {
			return err
		}
		acc := in[0]
		for k, x := range in[1:] {
			if k+2 == len(in) && n.Op != "Mean" {
				b.add("BinaryOp", id, []string{acc, x}, out, param{0, op})
				break
			}
			acc = b.joined("BinaryOp", b.g.Value(out).Name+"_sum", []string{acc, x}, param{0, op})
		}
		if n.Op == "Mean" {
			b.add("BinaryOp", id, []string{acc}, out, param{0, 3}, param{1, 1}, param{2, float32(len(in))})
		}
		return nil
	}
}

// squares is a sum of squares.
func (b *builder) squares(id graph.NodeID, n *graph.Node) error {
	return b.around(id, n, "square", []param{{0, 4}}, reduce(0))
}

// around writes a UnaryOp in front of what a writer writes.
func (b *builder) around(id graph.NodeID, n *graph.Node, what string, params []param,
	rest func(*builder, graph.NodeID, *graph.Node) error) error {
	x := n.Inputs[0]
	in, err := b.read(x)
	if err != nil {
		return err
	}
	before, had := b.blobs[x]
	b.blobs[x] = b.step("UnaryOp", b.g.Value(n.Outputs[0]).Name+"_"+what, in, params...)
	err = rest(b, id, n)
	if delete(b.blobs, x); had {
		b.blobs[x] = before
	}
	return err
}

// softsign is x / (1 + |x|).
func (b *builder) softsign(id graph.NodeID, n *graph.Node) error {
	in, err := b.read(n.Inputs[0])
	if err != nil {
		return err
	}
	name := b.g.Value(n.Outputs[0]).Name
	below := b.step("UnaryOp", name+"_abs", in, param{0, 0})
	below = b.step("BinaryOp", name+"_below", below, param{0, 0}, param{1, 1}, param{2, float32(1)})
	b.add("BinaryOp", id, []string{in, below}, n.Outputs[0], param{0, 3})
	return nil
}

// softplus is that of at most 80, or x where that is more: ncnn takes the logarithm of an Exp that overflows.
func (b *builder) softplus(id graph.NodeID, n *graph.Node) error {
	in, err := b.read(n.Inputs[0])
	if err != nil {
		return err
	}
	name := b.g.Value(n.Outputs[0]).Name
	x := b.step("BinaryOp", name+"_least", in, param{0, 5}, param{1, 1}, param{2, float32(80)})
	x = b.step("Softplus", name+"_softplus", x)
	b.add("BinaryOp", id, []string{x, in}, n.Outputs[0], param{0, 4})
	return nil
}

// celu is alpha times Elu of x / alpha.
func (b *builder) celu(id graph.NodeID, n *graph.Node) error {
	in, err := b.read(n.Inputs[0])
	if err != nil {
		return err
	}
	name, alpha := b.g.Value(n.Outputs[0]).Name, n.AttrFloat("alpha", 1)
	x := b.step("BinaryOp", name+"_scaled", in, param{0, 3}, param{1, 1}, param{2, alpha})
	x = b.step("ELU", name+"_elu", x, param{0, float32(1)})
	b.add("BinaryOp", id, []string{x}, n.Outputs[0], param{0, 2}, param{1, 1}, param{2, alpha})
	return nil
}
