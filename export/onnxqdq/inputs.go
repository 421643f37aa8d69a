package onnxqdq

import (
	"errors"
	"fmt"
	"slices"

	"qwb/export"
	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels/qmath"
	"qwb/quantizer/plan"
	"qwb/quantizer/tqc"
)

// inputs makes the model take integers: the codes of the plan, where one quantizer alone reads an input, or pictures.
func (b *builder) inputs(o *Options) error {
	switch o.Inputs {
	case "integers":
		if !slices.ContainsFunc(slices.Clone(b.g.Inputs), b.takesCodes) {
			return errors.New("no input of the model is read by one quantizer of 8 or 16 bits alone: none can be integers")
		}
	case "pixels":
		return b.takesPixels(o.Pixels)
	}
	return nil
}

// takesCodes lets an input be the codes that the quantizer gives which alone reads it, at once or behind what moves its elements, and
// reports whether there is such a one.
func (b *builder) takesCodes(v graph.ValueID) bool {
	if b.g.Const(v) != nil || b.g.Value(v).DType != tensor.Float32 || b.g.Captured(v) {
		return false
	}
	path := moved(b.g, v, nil)
	use, ok := b.g.SoleUse(path[len(path)-1])
	if !ok {
		return false
	}
	n := b.g.Node(use.Node)
	zero := b.g.Const(n.Input(2))
	if !is(n, quantizeLinear) || zero == nil || zero.Len() != 1 || !slices.Contains(codeTypes, zero.DType) {
		return false
	}
	codes := slices.Clone(b.g.Uses(n.Outputs[0]))
	for _, r := range codes {
		if !is(b.g.Node(r.Node), dequantizeLinear) { // a Clip of the codes, which nobody says to who feeds them
			return false
		}
	}
	end := path[len(path)-1]
	if len(path) > 1 && b.t.Export.GuardFloat {
		b.dequantizeFirst(path, codes, zero.DType)
	} else {
		for _, u := range path {
			b.g.Value(u).DType = zero.DType
		}
		for _, r := range codes {
			b.g.SetInput(r.Node, r.Index, end)
		}
	}
	b.g.RemoveNode(use.Node)
	return true
}

// dequantizeFirst lets an input be codes that are dequantized before their elements are moved along path. OpenVINO 2026.4 computes in float
// what reads codes that were moved in front of their DQ, and rounds otherwise then.
func (b *builder) dequantizeFirst(path []graph.ValueID, codes []graph.Use, d tensor.DType) {
	v, end := path[0], path[len(path)-1]
	b.g.Value(v).DType = d
	first, _ := b.g.SoleUse(v)
	for _, r := range codes {
		for _, u := range slices.Clone(b.g.Uses(b.g.Node(r.Node).Outputs[0])) {
			b.g.SetInput(u.Node, u.Index, end)
		}
	}
	dq := b.g.Node(codes[0].Node)
	b.g.Value(dq.Outputs[0]).Shape = b.g.Value(v).Shape
	b.g.SetInput(codes[0].Node, 0, v)
	b.g.SetInput(first.Node, first.Index, dq.Outputs[0])
	for _, r := range codes[1:] {
		b.g.RemoveNode(r.Node)
	}
}

// moved is an input, and what stands behind it after each operator that moves its elements and alone reads them. stop, which may be nil,
// says of a reader that it is none.
func moved(g *graph.Graph, v graph.ValueID, stop func(graph.Use) bool) []graph.ValueID {
	path := []graph.ValueID{v}
	for {
		u, ok := g.SoleUse(v)
		if !ok || u.Index != 0 || !g.Node(u.Node).HandsOn() || stop != nil && stop(u) {
			return path
		}
		v = g.Node(u.Node).Outputs[0]
		path = append(path, v)
	}
}

// codeTypes are the types of integers that an input may have.
var codeTypes = []tensor.DType{tensor.Uint8, tensor.Int8, tensor.Uint16, tensor.Int16}

// takesPixels lets the input of pictures be bytes. Where the plan's codes are the pixels themselves, as with scale 1/255, that is all; else
// the numbers are computed as calibration computed them, operation for operation, so that all that follows is the same.
func (b *builder) takesPixels(p *plan.Pixels) error {
	v, ok := b.g.Lookup(p.Input)
	switch {
	case !ok || b.g.Value(v).DType != tensor.Float32:
		return fmt.Errorf("input %q is not float32: it takes no pixels", p.Input)
	case b.g.IsOutput(v) || b.g.Captured(v):
		return fmt.Errorf("input %q is read by name: it cannot be pixels", p.Input)
	}
	if err := inRange(b.src, b.set, p); err != nil {
		return err
	}
	if arePixels(b.src, b.set, p) && b.takesCodes(v) {
		return nil
	}
	w := &graph.NodeWriter{G: b.g, Name: p.Input, Attrs: []graph.Attr{graph.Int("to", int64(tensor.Float32))}}
	readers := slices.Clone(b.g.Uses(v))
	x := w.Of("Cast", v)
	w.Attrs = nil
	rank := len(b.g.Value(v).Shape)
	for _, s := range []struct {
		op, name string
		list     []float32
		nothing  float32
	}{{"Mul", "_scale_of_pixels", []float32{p.Scale}, 1}, {"Sub", "_mean", p.Mean, 0}, {"Div", "_std", p.Std, 1}} {
		if slices.ContainsFunc(s.list, func(k float32) bool { return k != s.nothing }) {
			k := tensor.FromF32(slices.Clone(s.list), channelShape(p, rank, len(s.list))...)
			x = w.Of(s.op, x, b.g.AddConst(b.g.FreshName(p.Input+s.name), k))
		}
	}
	shape := b.g.Value(v).Shape
	for _, r := range readers {
		b.g.SetInput(r.Node, r.Index, x)
	}
	b.g.Value(v).DType = tensor.Uint8
	for y := x; y != v; y = b.g.Node(b.g.Producer(y)).Inputs[0] {
		b.g.Value(y).Shape = shape
	}
	return w.Err
}

// channelShape is the shape of n numbers of the channels of an input.
func channelShape(p *plan.Pixels, rank, n int) []int {
	if p.Axis < 0 || n == 1 {
		return []int{}
	}
	shape := []int{n}
	for range rank - 1 - p.Axis {
		shape = append(shape, 1)
	}
	return shape
}

// readers are the slots by which a plan quantizes its input of pictures; all says that nothing else reads it.
func readers(g *graph.Graph, set *tqc.Set, p *plan.Pixels) (list []tqc.SlotID, all bool) {
	v, _ := g.Lookup(p.Input)
	quantizes := func(u graph.Use) bool {
		s := set.Input(u.Node, u.Index)
		return s != tqc.NoSlot && set.Slot(s).State().Quantizes() && !set.Slot(s).Config.RunTime()
	}
	path := moved(g, v, quantizes)
	v, all = path[len(path)-1], true
	for _, u := range g.Uses(v) {
		if !quantizes(u) {
			all = false
			continue
		}
		list = append(list, set.Input(u.Node, u.Index))
	}
	return list, all && !g.IsOutput(v)
}

// arePixels reports whether the codes that a plan makes of its pictures are the pixels, and nothing else reads these.
func arePixels(g *graph.Graph, set *tqc.Set, p *plan.Pixels) bool {
	list, all := readers(g, set, p)
	if !all || len(list) == 0 {
		return false
	}
	for _, s := range list {
		c, q := &set.Slot(s).Config, set.Params(s)
		if set.Root(s) != set.Root(list[0]) || !c.Integer() || c.QMin != 0 || c.QMax != 255 || len(q.Scale) != 1 {
			return false
		}
		code := qmath.Codec{Format: c.Format, Scale: q.Scale[0], ZeroPoint: q.ZeroPoint[0]}
		for i, x := range p.Table() {
			if code.Quantize(x) != int32(i%256) {
				return false
			}
		}
	}
	return true
}

// inRange refuses pixels whose numbers reach 16 times as far as the plan's range: its samples were no such pictures, not even pale ones.
func inRange(g *graph.Graph, set *tqc.Set, p *plan.Pixels) error {
	list, _ := readers(g, set, p)
	table := p.Table()
	low, high := slices.Min(table), slices.Max(table)
	for _, s := range list {
		c, q := &set.Slot(s).Config, set.Params(s)
		if !c.Integer() || len(q.Scale) != 1 {
			continue
		}
		bottom, top := qmath.Codec{Format: c.Format, Scale: q.Scale[0], ZeroPoint: q.ZeroPoint[0]}.Limits()
		if high-low > 16*(top-bottom) {
			return fmt.Errorf("pixels of input %q become numbers from %g to %g by the plan's preprocessing, and its range is %g to %g: "+
				"the plan was not calibrated with pictures that it describes (--preprocess)", p.Input, low, high, bottom, top)
		}
	}
	return nil
}

// pixelItem is what pixels of an input become, by channel and value.
func pixelItem(input string, table []float32) *export.Item {
	return &export.Item{At: "pixels of " + input, Kind: export.Numbers, Floats: table}
}

// pixels reads what stands behind an input of pictures, adds what it makes of each pixel, and takes it off the graph, whose input is what
// the plan's is then.
func (r *recoverer) pixels(p *plan.Pixels) {
	v, ok := r.g.Lookup(p.Input)
	if !ok || r.g.Value(v).DType != tensor.Uint8 {
		return
	}
	rank, found := len(r.g.Value(v).Shape), plan.Pixels{Axis: p.Axis, Scale: 1, Mean: []float32{0}, Std: []float32{1}}
	var chain []graph.NodeID
	at := v
	for _, op := range []string{"Cast", "Mul", "Sub", "Div"} {
		uses := r.g.Uses(at)
		if len(uses) != 1 || !is(r.g.Node(uses[0].Node), op) || r.ours(r.g.Node(uses[0].Node)) {
			continue
		}
		n := r.g.Node(uses[0].Node)
		if k := r.g.Const(n.Input(1)); op == "Cast" && tensor.DType(n.AttrInt("to", 0)) != tensor.Float32 {
			break
		} else if k != nil {
			if k.DType != tensor.Float32 || !slices.Equal(k.Shape, channelShape(p, rank, k.Len())) || op == "Mul" && k.Len() != 1 {
				break
			}
			switch list := k.ToRowMajor().F32(); op {
			case "Mul":
				found.Scale = list[0]
			case "Sub":
				found.Mean = list
			case "Div":
				found.Std = list
			}
		}
		chain, at = append(chain, n.ID), n.Outputs[0]
	}
	if len(chain) == 0 {
		return
	}
	r.held.Add(pixelItem(p.Input, found.Table()))
	r.g.Value(v).DType = tensor.Float32
	r.g.ReplaceUses(at, v)
	for _, id := range slices.Backward(chain) {
		r.g.RemoveNode(id)
	}
}

// floats undoes what takesCodes did, so that the graph takes what the plan's takes.
func (r *recoverer) floats() error {
	for _, v := range r.g.Inputs {
		of, ok := r.plan.Lookup(r.g.Value(v).Name)
		if !ok || r.plan.Value(of).DType != tensor.Float32 || !slices.Contains(codeTypes, r.g.Value(v).DType) {
			continue
		}
		path := moved(r.g, v, nil)
		last := path[len(path)-1]
		var dq *graph.Node
		for _, u := range r.g.Uses(last) {
			if dq = r.g.Node(u.Node); !is(dq, dequantizeLinear) {
				dq = nil // an operator on codes
				break
			}
		}
		if dq == nil {
			continue
		}
		path = append(path, r.moveBehind(dq)...)
		last = path[len(path)-1]
		w := &graph.NodeWriter{G: r.g, Name: r.g.Value(v).Name}
		codes, in := w.Value("codes", r.g.Value(v).DType, r.g.Value(last).Shape), []graph.ValueID{last, dq.Input(1), dq.Input(2)}
		r.g.ReplaceUses(last, codes)
		for _, u := range path {
			r.g.Value(u).DType = tensor.Float32
		}
		if w.Add(quantizeLinear, in, codes); w.Err != nil {
			return w.Err
		}
	}
	return nil
}

// moveBehind undoes what dequantizeFirst did: it puts a DQ behind what moves the elements that it gives, where they are not quantized
// again, and returns what each move gives.
func (r *recoverer) moveBehind(dq *graph.Node) []graph.ValueID {
	v, y := dq.Inputs[0], dq.Outputs[0]
	path := moved(r.g, y, nil)[1:]
	if len(path) == 0 || slices.ContainsFunc(r.g.Uses(path[len(path)-1]), func(u graph.Use) bool {
		return is(r.g.Node(u.Node), quantizeLinear)
	}) {
		return nil
	}
	first, _ := r.g.SoleUse(y)
	r.g.SetInput(first.Node, first.Index, v)
	end := path[len(path)-1]
	r.g.ReplaceUses(end, y)
	r.g.SetInput(dq.ID, 0, end)
	return path
}
