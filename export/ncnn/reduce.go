package ncnn

import (
	"errors"
	"fmt"
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
)

// Operators that look along axes: pools, sums, norms, softmax.

func (b *builder) pool(id graph.NodeID, n *graph.Node) error {
	geo, err := graph.PoolGeometry(n, b.g.Value(n.Inputs[0]).Shape)
	if err != nil {
		return err
	}
	d, err := b.sample(n.Inputs[0], 2, 3)
	if err != nil {
		return err
	}
	lifted := len(geo.Kernel) == 1
	if lifted {
		geo = twoAxes(geo)
	}
	if len(n.Outputs) > 1 && n.Outputs[1] != graph.NoValue && len(b.g.Uses(n.Outputs[1])) > 0 {
		return errors.New("its indices are in use")
	}
	if len(geo.Kernel) != 2 || geo.Dilation[0] != 1 || geo.Dilation[1] != 1 {
		return fmt.Errorf("window %v with dilations %v: ncnn's Pooling here slides over two axes without dilation", geo.Kernel, geo.Dilation)
	}
	mode := 1 // what the paddings say, and no more
	for i := range 2 {
		padded := geo.In[i] + geo.PadBegin[i] + geo.PadEnd[i] - geo.Kernel[i]
		switch geo.Out[i] {
		case padded/geo.Stride[i] + 1:
		case (padded+geo.Stride[i]-1)/geo.Stride[i] + 1:
			mode = 0 // filled up at the end
		default:
			return fmt.Errorf("%d outputs for %d positions in steps of %d, which ncnn rounds another way", geo.Out[i], padded+1, geo.Stride[i])
		}
	}
	if mode == 0 {
		for i := range 2 {
			if padded := geo.In[i] + geo.PadBegin[i] + geo.PadEnd[i] - geo.Kernel[i]; (padded+geo.Stride[i]-1)/geo.Stride[i]+1 != geo.Out[i] {
				return errors.New("its two axes are rounded in two ways, which ncnn does not have")
			}
		}
	}
	counts := countsPadding(n, geo)
	if mode == 0 && counts {
		return errors.New("it counts padding, and its windows reach beyond it (ceil_mode): ncnn counts that, too")
	}
	in, err := b.read(n.Inputs[0])
	if err != nil {
		return err
	}
	if lifted {
		in = b.reshaped(b.g.Node(id).Name, in, []int{d[0], 1, d[1]})
	}
	b.add("Pooling", id, []string{in}, n.Outputs[0], param{0, truth(n.Op == "AveragePool")}, param{1, geo.Kernel[1]}, param{11, geo.Kernel[0]},
		param{2, geo.Stride[1]},
		param{12, geo.Stride[0]}, param{3, geo.PadBegin[1]}, param{14, geo.PadEnd[1]}, param{13, geo.PadBegin[0]}, param{15, geo.PadEnd[0]},
		param{5, mode},
		param{6, truth(counts)})
	if d, err = b.dims(n.Outputs[0]); lifted && err == nil {
		b.reshapedOutput(len(b.net.layers)-1, n.Outputs[0], d)
	}
	return err
}

// countsPadding reports whether an average counts padding, of which there is some.
func countsPadding(n *graph.Node, geo *graph.Geometry) bool {
	return n.Op == "AveragePool" && n.Pool().CountPadding && slices.Max(slices.Concat(geo.PadBegin, geo.PadEnd)) > 0
}

// globalPool writes a global Pooling, whose result is a vector, and a Reshape.
func (b *builder) globalPool(id graph.NodeID, n *graph.Node) error {
	d, err := b.sample(n.Inputs[0], 2, 3, 4)
	if err != nil {
		return err
	}
	if len(d) != 3 {
		axes := []int{1, 2, 3}[:len(d)-1]
		op := [...]int{4, 3}[truth(n.Op == "GlobalAveragePool")]
		_, err := b.first("Reduction", id, n, param{0, op}, param{1, 0}, param{3, axes}, param{4, 1}, param{5, 1})
		return err
	}
	if _, err := b.first("Pooling", id, n, param{0, truth(n.Op == "GlobalAveragePool")}, param{4, 1}); err != nil {
		return err
	}
	b.reshapedOutput(len(b.net.layers)-1, n.Outputs[0], []int{d[0], 1, 1})
	return nil
}

func (b *builder) softmax(id graph.NodeID, n *graph.Node) error {
	axis, flat := graph.SoftmaxAxis(n, b.g.Opset(n.Domain))
	x := n.Inputs[0]
	in, err := b.read(x)
	if err != nil {
		return err
	}
	d, err := b.dims(x)
	if err != nil {
		return err
	}
	a, err := b.axis(x, axis)
	if err != nil {
		return err
	}
	if flat { // the axes from axis on are one: those of size 1 do not matter
		long := slices.IndexFunc(d[a:], func(s int) bool { return s > 1 })
		if long >= 0 && slices.ContainsFunc(d[a+long+1:], func(s int) bool { return s > 1 }) {
			return errors.New("it works along several axes at once")
		}
		a += max(long, 0)
	}
	if n.Op == "Softmax" {
		b.add("Softmax", id, []string{in}, n.Outputs[0], param{0, a}, param{1, 1})
		return nil
	}
	// The logarithm of a softmax would be that of 0 where it underflows: the largest is taken off first.
	name := b.g.Value(n.Outputs[0]).Name
	along := []param{{1, 0}, {3, []int{a}}, {4, 1}, {5, 1}}
	most := b.step("Reduction", name+"_max", in, append([]param{{0, 4}}, along...)...)
	b.net.layers = append(b.net.layers, layer{typ: "BinaryOp", name: b.layerName(name + "_less"), bottoms: []string{in, most},
		tops:   []string{b.blobName(name + "_less")},
		params: []param{{0, 1}}})
	less := b.net.layers[len(b.net.layers)-1].tops[0]
	sum := b.step("Reduction", name+"_sum", less, append([]param{{0, 10}}, along...)...)
	b.add("BinaryOp", id, []string{less, sum}, n.Outputs[0], param{0, 1})
	return nil
}

func (b *builder) batchNorm(id graph.NodeID, n *graph.Node) error {
	if _, err := b.sample(n.Inputs[0], 1, 2, 3, 4); err != nil {
		return err
	}
	var arrays [4]weight // slope, mean, variance, bias
	for i, from := range []int{1, 3, 4, 2} {
		t := b.g.Const(n.Input(from))
		if t == nil || t.DType != tensor.Float32 {
			return errors.New("its numbers are computed")
		}
		arrays[i] = weight{floats: t.F32()}
	}
	l, err := b.first("BatchNorm", id, n, param{0, arrays[0].len()}, param{1, float32(n.Epsilon())})
	if err == nil {
		l.weights = arrays[:]
	}
	return err
}

func (b *builder) layerNorm(id graph.NodeID, n *graph.Node) error {
	x := n.Inputs[0]
	d, err := b.dims(x)
	if err != nil {
		return err
	}
	a, err := b.axis(x, n.Axis())
	if err != nil {
		return err
	}
	gamma := b.g.Const(n.Input(1))
	size := 1
	for _, s := range d[a:] {
		size *= s
	}
	if gamma == nil || gamma.DType != tensor.Float32 || gamma.Len() != size {
		return errors.New("its factors are not one constant for each element")
	}
	beta := make([]float32, size)
	if v := n.Input(2); v != graph.NoValue {
		t := b.g.Const(v)
		if t == nil || t.DType != tensor.Float32 || t.Len() != size {
			return errors.New("its summands are not one constant for each element")
		}
		beta = t.ToRowMajor().F32()
	}
	l, err := b.first("LayerNorm", id, n, param{0, size}, param{1, float32(n.Epsilon())}, param{2, 1})
	if err == nil {
		l.weights = []weight{{floats: gamma.ToRowMajor().F32()}, {floats: beta}}
	}
	return err
}

// reduce writes Reduction with the axes kept, and a Reshape where they are not.
func reduce(op int) func(*builder, graph.NodeID, *graph.Node) error {
	return func(b *builder, id graph.NodeID, n *graph.Node) error {
		x := n.Inputs[0]
		d, err := b.dims(x)
		if err != nil {
			return err
		}
		axes := n.AttrInts("axes")
		if t := b.g.Const(n.Input(1)); t != nil {
			axes = t.I64()
		} else if n.Input(1) != graph.NoValue {
			return errors.New("its axes are computed")
		}
		var list []int
		s, _ := b.g.Value(x).Shape.Ints()
		for _, a := range axes {
			if at, ok := graph.Axis(int(a), len(s)); ok && at == 0 && batched(s) {
				continue // one element
			}
			at, err := b.axis(x, int(a))
			if err != nil {
				return err
			}
			list = append(list, at)
		}
		if len(axes) == 0 {
			if n.AttrInt("noop_with_empty_axes", 0) != 0 {
				return b.same(id, n)
			}
			for i := range d {
				list = append(list, i)
			}
		}
		slices.Sort(list)
		in, err := b.read(x)
		if err != nil {
			return err
		}
		kept := slices.Clone(d)
		for _, a := range list {
			kept[a] = 1
		}
		switch {
		case len(list) > 0:
			b.add("Reduction", id, []string{in}, n.Outputs[0], param{0, op}, param{1, 0}, param{3, list}, param{4, 1}, param{5, 1})
		case op == 7 || op == 8: // norms of single numbers
			b.add("UnaryOp", id, []string{in}, n.Outputs[0], param{0, 0})
		default: // over a batch of one: a Reduction without axes would take all of them
			b.add("Noop", id, []string{in}, n.Outputs[0])
		}
		to, err := b.dims(n.Outputs[0])
		if err != nil {
			return err
		}
		if !slices.Equal(to, kept) {
			b.reshapedOutput(len(b.net.layers)-1, n.Outputs[0], to)
		}
		return nil
	}
}
