package main

import (
	"fmt"

	"qwb/graph"
	"qwb/graph/onnx"
	"qwb/graph/tensor"
	"qwb/internal/demo"
)

// builder adds operators to a graph and remembers the first error.
type builder struct {
	g   *graph.Graph
	net *network
	err error
}

func (b *builder) node(op, name string, out graph.Shape, attrs []graph.Attr, inputs ...graph.ValueID) graph.ValueID {
	v, err := b.g.AddValue(graph.Value{Name: name + "_out", DType: tensor.Float32, Shape: out})
	if err == nil {
		_, err = b.g.AddNode(graph.Node{Name: name, Op: op, Attrs: attrs, Inputs: inputs, Outputs: []graph.ValueID{v}})
	}
	if b.err == nil {
		b.err = err
	}
	return v
}

func (b *builder) shape(c, side int) graph.Shape {
	return graph.Shape{{N: -1, Symbol: "batch"}, {N: int64(c)}, {N: int64(side)}, {N: int64(side)}}
}

// conv adds convolution and batch normalization; group is 1 or the number of channels.
func (b *builder) conv(name string, x graph.ValueID, c, m, k, group, stride, side int) graph.ValueID {
	w := b.g.AddConst(name+"_weight", tensor.FromF32(b.net.convs[name].x, m, c/group, k, k))
	pad := int64(k / 2)
	s := int64(stride)
	x = b.node("Conv", name, b.shape(m, side), []graph.Attr{graph.Ints("kernel_shape", int64(k), int64(k)),
		graph.Ints("pads", pad, pad, pad, pad), graph.Ints("strides", s, s), graph.Int("group", int64(group))}, x, w)
	n := b.net.norms[name]
	inputs := []graph.ValueID{x}
	for _, p := range []struct {
		name string
		x    []float32
	}{{"gamma", n.gamma.x}, {"beta", n.beta.x}, {"mean", n.mean}, {"variance", n.vari}} {
		inputs = append(inputs, b.g.AddConst(name+"_"+p.name, tensor.FromF32(p.x, m)))
	}
	return b.node("BatchNormalization", name+"_bn", b.shape(m, side), []graph.Attr{graph.Float("epsilon", bnEpsilon)}, inputs...)
}

func (b *builder) relu6(name string, x graph.ValueID) graph.ValueID {
	lo, hi := b.scalar("zero", 0), b.scalar("six", 6)
	return b.node("Clip", name, b.g.Value(x).Shape, nil, x, lo, hi)
}

func (b *builder) scalar(name string, v float32) graph.ValueID {
	if id, ok := b.g.Lookup(name); ok {
		return id
	}
	return b.g.AddConst(name, tensor.FromF32([]float32{v}))
}

func (b *builder) hardSwish(name string, x graph.ValueID) graph.ValueID {
	return b.node("HardSwish", name, b.g.Value(x).Shape, nil, x)
}

func (b *builder) maxPool(name string, x graph.ValueID, c, side int) graph.ValueID {
	return b.node("MaxPool", name, b.shape(c, side), []graph.Attr{graph.Ints("kernel_shape", 2, 2), graph.Ints("strides", 2, 2)}, x)
}

// writeModel writes the trained network as ONNX: the structure of network.forward with batch normalization as it is in
// inference.
func writeModel(out string, net *network, seed uint64) error {
	b := &builder{g: graph.New("glyphs", 14), net: net}
	g := b.g
	x, err := g.AddValue(graph.Value{Name: "image", DType: tensor.Float32, Shape: b.shape(1, demo.Size)})
	if err != nil {
		return err
	}
	g.Inputs = []graph.ValueID{x}

	x = b.relu6("stem_relu6", b.conv("stem", x, 1, 16, 3, 1, 1, 32))
	x = b.relu6("down_dw_relu6", b.conv("down_dw", x, 16, 16, 3, 16, 2, 16))
	x = b.relu6("down_pw_relu6", b.conv("down_pw", x, 16, 32, 1, 1, 1, 16))

	y := b.relu6("res_dw_relu6", b.conv("res_dw", x, 32, 32, 3, 32, 1, 16))
	x = b.node("Add", "res_add", b.shape(32, 16), nil, x, b.conv("res_pw", y, 32, 32, 1, 1, 1, 16))

	s := b.relu6("squeeze_relu6", b.conv("squeeze", x, 32, 16, 1, 1, 1, 16))
	e1 := b.relu6("expand1_relu6", b.conv("expand1", s, 16, 24, 1, 1, 1, 16))
	e3 := b.relu6("expand3_relu6", b.conv("expand3", s, 16, 24, 3, 1, 1, 16))
	x = b.node("Concat", "concat", b.shape(48, 16), []graph.Attr{graph.Int("axis", 1)}, e1, e3)
	x = b.maxPool("pool1", x, 48, 8)

	x = b.hardSwish("mix_swish", b.conv("mix", x, 48, 64, 3, 1, 1, 8))
	x = b.maxPool("pool2", x, 64, 4)
	x = b.hardSwish("last_dw_swish", b.conv("last_dw", x, 64, 64, 3, 64, 1, 4))
	x = b.hardSwish("last_pw_swish", b.conv("last_pw", x, 64, 96, 1, 1, 1, 4))
	x = b.node("GlobalAveragePool", "mean", b.shape(96, 1), nil, x)
	x = b.node("Flatten", "flatten", graph.Shape{{N: -1, Symbol: "batch"}, {N: 96}}, []graph.Attr{graph.Int("axis", 1)}, x)

	classes := len(demo.Alphabet)
	fc := g.AddConst("fc_weight", tensor.FromF32(net.fc.x, classes, 96))
	fb := g.AddConst("fc_bias", tensor.FromF32(net.fb.x, classes))
	x = b.node("Gemm", "fc", graph.Shape{{N: -1, Symbol: "batch"}, {N: int64(classes)}}, []graph.Attr{graph.Int("transB", 1)}, x, fc, fb)
	if b.err != nil {
		return b.err
	}
	if err := g.Rename(x, "scores"); err != nil {
		return err
	}
	g.Outputs = []graph.ValueID{x}
	if err := g.Check(); err != nil {
		return err
	}
	m := &onnx.Model{Graph: g, ProducerName: "qwb demo/train", Metadata: []onnx.KeyValue{{Key: "classes", Value: demo.Alphabet},
		{Key: "seed", Value: fmt.Sprint(seed)}}}
	return m.Save(out, onnx.SaveOptions{})
}
