package main

import (
	"fmt"
	"math"

	"qwb/graph"
	"qwb/graph/onnx"
	"qwb/graph/tensor"
	"qwb/internal/demo"
)

// builder adds operators to a graph and remembers the first error. A graph that trains reads the parameters as inputs, and normalizes by
// the batch; one of inference has them as constants, and normalizes by the running statistics.
type builder struct {
	g       *graph.Graph
	net     *network
	trains  bool
	learnt  []graph.ValueID // parameters, where it trains
	norms   []string        // and mean and variance of each of these, of the batch
	moments []graph.ValueID
	err     error
}

func (b *builder) value(name string, shape graph.Shape) graph.ValueID {
	v, err := b.g.AddValue(graph.Value{Name: name, DType: tensor.Float32, Shape: shape})
	if b.err == nil {
		b.err = err
	}
	return v
}

func (b *builder) node(op, name string, attrs []graph.Attr, inputs ...graph.ValueID) graph.ValueID {
	v := b.value(name+"_out", nil)
	if b.err == nil {
		_, b.err = b.g.AddNode(graph.Node{Name: name, Op: op, Attrs: attrs, Inputs: inputs, Outputs: []graph.ValueID{v}})
	}
	return v
}

func (b *builder) input(name string, shape ...int) graph.ValueID {
	v := b.value(name, graph.Static(shape...))
	b.g.Inputs = append(b.g.Inputs, v)
	return v
}

// constant returns the constant of a name, made on first use.
func (b *builder) constant(name string, x *tensor.Tensor) graph.ValueID {
	if id, ok := b.g.Lookup(name); ok {
		return id
	}
	return b.g.AddConst(name, x)
}

func (b *builder) parameter(name string, decay bool, initial func() float64, shape ...int) graph.ValueID {
	p := b.net.parameter(name, decay, initial, shape...)
	if !b.trains {
		return b.constant(name, p.x)
	}
	v := b.input(name, shape...)
	b.learnt = append(b.learnt, v)
	return v
}

// he is He's initialization (He et al. 2015).
func (b *builder) he(fanIn int) func() float64 {
	return func() float64 { return b.net.rng.NormFloat64() * math.Sqrt(2/float64(fanIn)) }
}

// conv adds convolution and batch normalization; group is 1 or the number of channels.
func (b *builder) conv(name string, x graph.ValueID, c, m, k, group, stride int) graph.ValueID {
	w := b.parameter(name+"_weight", true, b.he(c/group*k*k), m, c/group, k, k)
	pad, s := int64(k/2), int64(stride)
	x = b.node("Conv", name, []graph.Attr{graph.Ints("kernel_shape", int64(k), int64(k)), graph.Ints("pads", pad, pad, pad, pad),
		graph.Ints("strides", s, s), graph.Int("group", int64(group))}, x, w)
	// Channels of one layer start with very different gains, as those of large mobile networks end up: scales per channel have something
	// to do.
	gamma := b.parameter(name+"_gamma", false, func() float64 { return math.Exp(b.net.rng.NormFloat64()) }, m)
	beta := b.parameter(name+"_beta", false, func() float64 { return 0 }, m)
	stats := b.net.of(name, m)
	if b.trains {
		return b.batchNorm(name, x, gamma, beta)
	}
	mean, variance := b.constant(name+"_mean", tensor.FromF32(stats.mean, m)), b.constant(name+"_variance", tensor.FromF32(stats.variance, m))
	return b.node("BatchNormalization", name+"_bn", []graph.Attr{graph.Float("epsilon", bnEpsilon)}, x, gamma, beta, mean, variance)
}

const bnEpsilon = 1e-5

// batchNorm normalizes by mean and variance of the batch (Ioffe and Szegedy 2015).
func (b *builder) batchNorm(name string, x, gamma, beta graph.ValueID) graph.ValueID {
	of := func(what string, x graph.ValueID) graph.ValueID {
		return b.node("ReduceMean", name+what, []graph.Attr{graph.Ints("axes", 0, 2, 3), graph.Int("keepdims", 1)}, x)
	}
	channels := b.constant("channels", tensor.FromI64([]int64{1, -1, 1, 1}, 4))
	mean := of("_mean", x)
	d := b.node("Sub", name+"_centered", nil, x, mean)
	variance := of("_variance", b.node("Mul", name+"_square", nil, d, d))
	b.norms, b.moments = append(b.norms, name), append(b.moments, mean, variance)
	deviation := b.node("Sqrt", name+"_deviation", nil,
		b.node("Add", name+"_more", nil, variance, b.constant("epsilon", tensor.FromF32([]float32{bnEpsilon}))))
	scale := b.node("Div", name+"_scale", nil, b.node("Reshape", name+"_gains", nil, gamma, channels), deviation)
	return b.node("Add", name+"_bn", nil, b.node("Mul", name+"_scaled", nil, d, scale), b.node("Reshape", name+"_shifts", nil, beta, channels))
}

func (b *builder) relu6(name string, x graph.ValueID) graph.ValueID {
	lo, hi := b.constant("zero", tensor.FromF32([]float32{0})), b.constant("six", tensor.FromF32([]float32{6}))
	return b.node("Clip", name, nil, x, lo, hi)
}

func (b *builder) maxPool(name string, x graph.ValueID) graph.ValueID {
	return b.node("MaxPool", name, []graph.Attr{graph.Ints("kernel_shape", 2, 2), graph.Ints("strides", 2, 2)}, x)
}

// inference is the trained network.
func inference(net *network) (*graph.Graph, error) {
	b := &builder{g: graph.New("glyphs", 14), net: net}
	x := b.value("image", graph.Shape{{N: -1, Symbol: "batch"}, {N: 1}, {N: demo.Size}, {N: demo.Size}})
	b.g.Inputs = []graph.ValueID{x}
	scores := b.forward(x)
	if b.err != nil {
		return nil, b.err
	}
	if err := b.g.Rename(scores, "scores"); err != nil {
		return nil, err
	}
	b.g.Outputs = []graph.ValueID{scores}
	if errs := graph.InferShapes(b.g); len(errs) > 0 {
		return nil, errs[0]
	}
	return b.g, b.g.Check()
}

// writeModel writes the trained network as ONNX.
func writeModel(out string, net *network, seed uint64) error {
	g, err := inference(net)
	if err != nil {
		return err
	}
	m := &onnx.Model{Graph: g, ProducerName: "qwb demo/train", Metadata: []onnx.KeyValue{{Key: "classes", Value: demo.Alphabet},
		{Key: "seed", Value: fmt.Sprint(seed)}}}
	return m.Save(out, onnx.SaveOptions{})
}
