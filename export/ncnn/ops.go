package ncnn

import (
	"fmt"
	"slices"

	"qwb/graph"
)

// Keys of parameters that several layers share.
const (
	keyInt8       = 8  // int8_scale_term
	keyActivation = 9  // and its numbers behind it
	keyFeatures   = 31 // of every layer: what it may not use
)

// noWinograd is the bit of keyFeatures that keeps a layer from Winograd's transformation.
const noWinograd = 1 << 6

// writers write the layers of an operator.
var writers = map[string]func(*builder, graph.NodeID, *graph.Node) error{
	"Conv": (*builder).conv, "ConvTranspose": (*builder).deconv, "Gemm": (*builder).gemm, "MatMul": (*builder).matmul,

	"Relu": activation("ReLU", 1), "LeakyRelu": (*builder).leaky, "Clip": (*builder).clip, "Sigmoid": activation("Sigmoid", 4),
	"Mish": activation("Mish", 5), "HardSwish": (*builder).hardSwish, "HardSigmoid": (*builder).hardSigmoid, "PRelu": (*builder).prelu,
	"Tanh": activation("TanH", 0), "Elu": (*builder).elu, "Selu": (*builder).selu, "Softplus": (*builder).softplus,
	"Erf": activation("Erf", 0), "Gelu": (*builder).gelu, "Swish": (*builder).swish,

	"Abs": unary(0), "Neg": unary(1), "Floor": unary(2), "Ceil": unary(3), "Sqrt": unary(5), "Exp": unary(7), "Log": unary(8), "Sin": unary(9),
	"Cos": unary(10), "Tan": unary(11), "Asin": unary(12), "Acos": unary(13), "Atan": unary(14), "Reciprocal": unary(15), "Round": unary(18),

	"Add": twoOperands(0, 0), "Sub": twoOperands(1, 7), "Mul": twoOperands(2, 2), "Div": twoOperands(3, 8), "Max": twoOperands(4, 4),
	"Min": twoOperands(5, 5), "Pow": (*builder).pow,

	"MaxPool": (*builder).pool, "AveragePool": (*builder).pool, "GlobalMaxPool": (*builder).globalPool,
	"GlobalAveragePool": (*builder).globalPool,
	"Softmax":           (*builder).softmax, "LogSoftmax": (*builder).softmax, "BatchNormalization": (*builder).batchNorm,
	"LayerNormalization": (*builder).layerNorm,
	"ReduceSum":          reduce(0), "ReduceMean": reduce(3), "ReduceMax": reduce(4), "ReduceMin": reduce(5), "ReduceProd": reduce(6),
	"ReduceL1": reduce(7), "ReduceL2": reduce(8),

	"Identity": (*builder).same, "Dropout": (*builder).same, "Cast": (*builder).cast, "Reshape": (*builder).reshape,
	"Flatten": (*builder).reshape,
	"Squeeze": (*builder).reshape, "Unsqueeze": (*builder).reshape, "Transpose": (*builder).transpose, "Concat": (*builder).concat,
	"Split": (*builder).split, "Slice": (*builder).slice, "Pad": (*builder).pad, "Resize": (*builder).resize, "Upsample": (*builder).resize,
	"DepthToSpace": (*builder).depthToSpace, "Gather": (*builder).gather, "Tile": (*builder).repeated, "Expand": (*builder).repeated,
	"Sum": several(0), "Mean": several(0), "ReduceSumSquare": (*builder).squares, "Softsign": (*builder).softsign, "Celu": (*builder).celu,
}

// reshapedOutput puts a Reshape behind a layer, which then makes the value.
func (b *builder) reshapedOutput(at int, out graph.ValueID, d []int) {
	l := &b.net.layers[at]
	name := l.tops[0]
	l.tops[0] = b.blobName(name + "_flat")
	b.net.layers = append(b.net.layers, layer{typ: "Reshape", name: b.layerName(name + "_reshape"),
		bottoms: []string{b.net.layers[at].tops[0]}, tops: []string{name}, params: sized(d)})
	b.blobs[out] = name
}

// first writes a layer whose one input is the first of the node.
func (b *builder) first(typ string, id graph.NodeID, n *graph.Node, params ...param) (*layer, error) {
	in, err := b.read(n.Inputs[0])
	if err != nil {
		return nil, err
	}
	return b.add(typ, id, []string{in}, n.Outputs[0], params...), nil
}

// shaped writes a layer of all inputs with as many axes as the widest of values has, and a Reshape where the result has fewer.
func (b *builder) shaped(id graph.NodeID, n *graph.Node, typ string, values []graph.ValueID, params ...param) error {
	rank := 0
	if typ == "MatMul" {
		rank = 2 // two blobs of one axis have one number there, their product
	}
	for _, v := range values {
		d, err := b.dims(v)
		if err != nil {
			return err
		}
		rank = max(rank, len(d))
	}
	in, err := b.operands(n, rank)
	if err != nil {
		return err
	}
	d, err := b.dims(n.Outputs[0])
	if err != nil {
		return err
	}
	b.add(typ, id, in, n.Outputs[0], params...)
	if len(d) != rank {
		b.reshapedOutput(len(b.net.layers)-1, n.Outputs[0], d)
	}
	return nil
}

// operands are the blobs of all inputs with rank axes.
func (b *builder) operands(n *graph.Node, rank int) (in []string, err error) {
	for _, v := range n.Inputs {
		x, err := b.ranked(v, rank)
		if err != nil {
			return nil, err
		}
		in = append(in, x)
	}
	return in, nil
}

// ranked is the blob of a value with axes of size 1 in front, so that it has rank of them.
func (b *builder) ranked(v graph.ValueID, rank int) (string, error) {
	d, err := b.dims(v)
	if err != nil {
		return "", err
	}
	wide := d
	for len(wide) < rank {
		wide = slices.Insert(slices.Clone(wide), 0, 1)
	}
	if len(wide) > 4 {
		return "", fmt.Errorf("%d axes: ncnn has four", len(wide))
	}
	if b.g.Const(v) != nil && b.blobs[v] == "" {
		return b.constant(v, wide)
	}
	in, err := b.read(v)
	if err != nil || len(wide) == len(d) {
		return in, err
	}
	return b.reshaped(b.g.Value(v).Name, in, wide), nil
}
