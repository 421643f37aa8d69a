package graph

import (
	"math"

	"qwb/graph/tensor"
)

// Inputs of the operators that sum products: Conv, ConvTranspose, Gemm, and MatMul without a bias.
const (
	DataInput   = 0
	WeightInput = 1
	// RecurrenceInput holds the weights of the state of LSTM, GRU and RNN.
	RecurrenceInput = 2
	BiasInput       = 2
)

// The methods below decode the attributes that more than one package reads. An attribute that is absent, or of another kind, has the
// operator's default; values are as in the file, not checked: shape inference refuses what is out of range.

// ConvAttrs is what a convolution is told beside its window (see Geometry).
type ConvAttrs struct {
	Group      int
	Transposed bool // ConvTranspose
}

// Conv decodes the attributes of Conv, ConvTranspose and their integer forms.
func (n *Node) Conv() ConvAttrs {
	return ConvAttrs{Group: int(n.AttrInt("group", 1)), Transposed: n.Op == "ConvTranspose"}
}

// Slides reports whether an operator of this name sums products over a window that slides: Conv and ConvTranspose.
func Slides(op string) bool { return op == "Conv" || op == "ConvTranspose" }

// GemmAttrs is what a product of matrices alpha*A'*B' + beta*C is told.
type GemmAttrs struct {
	Alpha, Beta    float32
	TransA, TransB bool
}

// Gemm decodes the attributes of Gemm and of fused products. Of MatMul and the convolutions, which have none of them,
// it returns the defaults.
func (n *Node) Gemm() GemmAttrs {
	switch n.Op {
	case "MatMul", "Conv", "ConvTranspose":
		return GemmAttrs{Alpha: 1, Beta: 1}
	}
	return GemmAttrs{Alpha: n.Alpha(), Beta: n.Beta(), TransA: n.AttrInt("transA", 0) != 0, TransB: n.AttrInt("transB", 0) != 0}
}

// PoolAttrs is what a pool is told beside its window (see PoolGeometry).
type PoolAttrs struct {
	Kernel       []int64 // nil for global pools
	CountPadding bool    // AveragePool: positions of the padding count
	Ceil         bool    // the number of outputs is rounded up
}

// Pool decodes the attributes of pools.
func (n *Node) Pool() PoolAttrs {
	return PoolAttrs{n.AttrInts("kernel_shape"), n.AttrInt("count_include_pad", 0) != 0, n.AttrInt("ceil_mode", 0) != 0}
}

// PadAttrs is what a Pad is told by attributes. Inputs take the place of Pads and Value from opset 11 on.
type PadAttrs struct {
	Mode  string
	Pads  []int64 // begin of every axis, then end of every axis; nil where they are an input
	Value float32
}

// Pad decodes the attributes of Pad; before opset 2 Pads was called paddings.
func (n *Node) Pad() PadAttrs {
	p := PadAttrs{n.AttrStr("mode", "constant"), n.AttrInts("pads"), n.AttrFloat("value", 0)}
	if p.Pads == nil {
		p.Pads = n.AttrInts("paddings")
	}
	return p
}

// QuantizeAttrs is what QuantizeLinear and DequantizeLinear are told.
type QuantizeAttrs struct {
	Axis  int // that scales vary along; may be negative
	Block int // elements along Axis that share a scale; 0 is all
}

// Quantize decodes the attributes of QuantizeLinear and DequantizeLinear.
func (n *Node) Quantize() QuantizeAttrs {
	return QuantizeAttrs{n.Axis(), int(n.AttrInt("block_size", 0))}
}

// Axis returns attribute axis as it stands in the file: negative counts from the end. For Softmax and alike, whose default depends on the
// opset, see SoftmaxAxes.
func (n *Node) Axis() int {
	return int(n.AttrInt("axis", axisDefault[n.Op]))
}

// axisDefault is attribute axis where it is absent, 0 for operators that are not listed.
var axisDefault = map[string]int64{
	"Concat": 1, "QLinearConcat": 1, "Flatten": 1, "QuantizeLinear": 1, "DequantizeLinear": 1, "DFT": 1,
	"QLinearSoftmax": -1, "LayerNormalization": -1, "RMSNormalization": -1, "SimplifiedLayerNormalization": -1, "LpNormalization": -1,
	"Softmax": -1, "LogSoftmax": -1, "Hardmax": -1, "TopK": -1, "OneHot": -1, "TensorScatter": -2,
}

// Alpha returns attribute alpha.
func (n *Node) Alpha() float32 { return n.AttrFloat("alpha", coefficient(alphaDefault, n.Op)) }

// Beta returns attribute beta.
func (n *Node) Beta() float32 { return n.AttrFloat("beta", coefficient(betaDefault, n.Op)) }

// Coefficients that are not 1 where they are absent. Those of Selu depend on the opset.
var (
	alphaDefault = map[string]float32{"LeakyRelu": 0.01, "QLinearLeakyRelu": 0.01, "HardSigmoid": 0.2, "QuickGelu": 1.702, "LRN": 1e-4}
	betaDefault  = map[string]float32{"HardSigmoid": 0.5, "LRN": 0.75}
)

func coefficient(of map[string]float32, op string) float32 {
	if c, ok := of[op]; ok {
		return c
	}
	return 1
}

// Epsilon returns attribute epsilon of a normalization.
func (n *Node) Epsilon() float64 {
	def := float32(1e-5)
	switch n.Op {
	case "SkipLayerNormalization", "SkipSimplifiedLayerNormalization", "EmbedLayerNormalization":
		def = 1e-12
	}
	return float64(n.AttrFloat("epsilon", def))
}

// Limits returns attributes min and max of Clip, as before opset 11; they are infinite where they are absent.
func (n *Node) Limits() (lo, hi float32) {
	return n.AttrFloat("min", float32(math.Inf(-1))), n.AttrFloat("max", float32(math.Inf(1)))
}

// LimitsOf returns the bounds that a Relu or Clip limits to; constant is the content of a value, nil where it is not known. False for other
// operators, and where a bound is not one known float32. Nothing says that lo is not above hi.
func LimitsOf(n *Node, opset int64, constant func(ValueID) *tensor.Tensor) (lo, hi float32, ok bool) {
	lo, hi = float32(math.Inf(-1)), float32(math.Inf(1))
	switch {
	case !n.IsONNX():
		return lo, hi, false
	case n.Op == "Relu":
		return 0, hi, true
	case n.Op != "Clip":
		return lo, hi, false
	case opset < 11:
		lo, hi = n.Limits()
		return lo, hi, true
	}
	for i, bound := range []*float32{&lo, &hi} {
		v := n.Input(i + 1)
		if v == NoValue {
			continue
		}
		t := constant(v)
		if t == nil || t.DType != tensor.Float32 || t.Len() != 1 {
			return lo, hi, false
		}
		*bound = t.F32()[0]
	}
	return lo, hi, true
}

// KeepDims reports whether a reduction leaves its axes with size 1.
func (n *Node) KeepDims() bool { return n.AttrInt("keepdims", 1) != 0 }

// TanhGelu reports whether a Gelu is the approximation by tanh.
func (n *Node) TanhGelu() bool { return n.AttrStr("approximate", "none") == "tanh" }

// AlignsByAttribute reports whether an elementwise operator broadcasts its second operand by attributes, as before opset 7, and the axis
// where it is placed; -1 is the end, as from opset 7 on.
func (n *Node) AlignsByAttribute(opset int64) (axis int, ok bool) {
	if opset < 7 && n.AttrInt("broadcast", 0) != 0 {
		return int(n.AttrInt("axis", -1)), true
	}
	return -1, false
}

// PerChannelInference reports whether a BatchNormalization applies given statistics, one per channel:
// neither training nor statistics per element.
func (n *Node) PerChannelInference(opset int64) bool {
	return !n.Trains(opset) && (opset >= 9 || n.AttrInt("spatial", 1) != 0)
}

// Trains reports whether a BatchNormalization or Dropout is told by an attribute that it trains.
func (n *Node) Trains(opset int64) bool {
	return opset >= 14 && n.Op == "BatchNormalization" && n.AttrInt("training_mode", 0) != 0 || opset < 7 && n.AttrInt("is_test", 0) == 0
}

// Axis brings an axis of a tensor of the given rank, which counts from the end where it is negative, into [0,rank); false if there is no
// such axis.
func Axis(axis, rank int) (int, bool) {
	if axis < 0 {
		axis += rank
	}
	return axis, axis >= 0 && axis < rank
}
