package onnxqdq

import (
	"slices"
	"strings"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels/qmath"
	"qwb/quantizer/target"
)

// The rules of this file are those of TensorRT's ONNX parser: onnx-tensorrt 10.1-GA, onnxOpImporters.cpp, onnxOpCheckers.cpp,
// ModelImporter.cpp, importerUtils.cpp and docs/operators.md.

// readsTRT reports whether a target's files are for TensorRT, or for a reader that wants the same of them: float weights with Q and DQ, and
// pairs at inputs of weighted operators alone.
func readsTRT(t *target.Target) bool { return t.Placement.Residual() && t.Export.FloatWeights }

// trtLacks are operators of ai.onnx that the parser has no importer for.
const trtLacks = "AffineGrid Bernoulli BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor BlackmanWindow CenterCropPad Col2Im Compress " +
	"ConcatFromSequence ConvInteger DFT Det DynamicQuantizeLinear HammingWindow HannWindow ImageDecoder MatMulInteger MaxRoiPool MaxUnpool " +
	"MelWeightMatrix Multinomial NegativeLogLikelihoodLoss Optional OptionalGetElement OptionalHasElement QLinearConv QLinearMatMul " +
	"RegexFullMatch STFT SequenceAt SequenceConstruct SequenceEmpty SequenceErase SequenceInsert SequenceLength SequenceMap " +
	"SoftmaxCrossEntropyLoss SplitToSequence StringConcat StringNormalizer StringSplit TfIdfVectorizer Unique"

var parserOperatorsRule = rule{Name: "parser-operators", Doc: "TensorRT's parser has an importer for every operator of ai.onnx in the file",
	Fix: "replace the operator, or write a plugin of its name", applies: readsTRT,
	check: func(c *checker) {
		lacks := strings.Fields(trtLacks)
		c.each(func(n *graph.Node) {
			if n.Domain == "" && slices.Contains(lacks, n.Op) {
				c.report(n, "%s has no importer", n.Op)
			}
		})
	}}

var parserTypesRule = rule{Name: "parser-types", Doc: "tensors have a type that TensorRT has, uint8 at inputs and outputs of the model " +
	"alone; codes are int8, e4m3 or int4", Fix: "convert the tensor to a type that TensorRT has", applies: readsTRT,
	check: func(c *checker) {
		takes := []tensor.DType{tensor.Undefined, tensor.Float32, tensor.Float64, tensor.Float16, tensor.BFloat16, tensor.Int32, tensor.Int64,
			tensor.Bool, tensor.Int8, tensor.Float8E4M3FN, tensor.Int4, tensor.Uint8}
		for _, v := range c.g.Values() {
			val := c.g.Value(v)
			var reader *graph.Node
			if p := c.g.Producer(v); p != graph.NoNode {
				reader = c.g.Node(p)
			} else if uses := c.g.Uses(v); len(uses) > 0 {
				reader = c.g.Node(uses[0].Node)
			}
			switch {
			case reader == nil && !c.g.IsInput(v):
			case !slices.Contains(takes, val.DType):
				c.report(reader, "%q has the type %s", val.Name, val.DType)
			case val.DType == tensor.Uint8 && val.Const == nil && !c.g.IsInput(v) && !c.g.IsOutput(v):
				c.report(reader, "%q is uint8 inside the model", val.Name)
			}
		}
	}}

// trtWindow refuses dilated pools, and of MaxPool the indices.
func trtWindow(c *checker, n *graph.Node) {
	if slices.ContainsFunc(n.AttrInts("dilations"), func(d int64) bool { return d != 1 }) {
		c.report(n, "dilations of a pool")
	}
	if n.Op == "MaxPool" && n.Output(1) != graph.NoValue {
		c.report(n, "the second output, indices")
	}
}

// trtConstant refuses a computed input.
func trtConstant(i int, what string) func(*checker, *graph.Node) {
	return func(c *checker, n *graph.Node) {
		if v := n.Input(i); v != graph.NoValue && c.g.Const(v) == nil {
			c.report(n, "%s (input %d) are computed, not constant", what, i)
		}
	}
}

func trtResize(c *checker, n *graph.Node) {
	modes := []string{"half_pixel", "pytorch_half_pixel", "tf_half_pixel_for_nn", "asymmetric", "align_corners"}
	transform, nearest := n.AttrStr("coordinate_transformation_mode", "half_pixel"), n.AttrStr("nearest_mode", "round_prefer_floor")
	switch {
	case !slices.Contains(modes, transform):
		c.report(n, "coordinate_transformation_mode %s", transform)
	case transform == "tf_half_pixel_for_nn" && nearest != "round_prefer_floor":
		c.report(n, "nearest_mode %s with tf_half_pixel_for_nn", nearest)
	}
	if n.AttrInt("antialias", 0) != 0 {
		c.report(n, "antialias")
	}
	if policy := n.AttrStr("keep_aspect_ratio_policy", "stretch"); policy != "stretch" {
		c.report(n, "keep_aspect_ratio_policy %s", policy)
	}
}

func trtAttr(name string, takes int64, what string) func(*checker, *graph.Node) {
	return func(c *checker, n *graph.Node) {
		if n.AttrInt(name, takes) != takes {
			c.report(n, "%s", what)
		}
	}
}

// trtChecks are by operator what its importer refuses.
var trtChecks = map[string][]func(*checker, *graph.Node){
	"AveragePool": {trtWindow}, "LpPool": {trtWindow}, "MaxPool": {trtWindow},
	"BatchNormalization": {trtAttr("training_mode", 0, "training_mode")},
	"CumSum":             {trtConstant(1, "axes")},
	"Dropout": {func(c *checker, n *graph.Node) {
		if v := n.Input(2); v != graph.NoValue && (c.g.Const(v) == nil || c.g.Const(v).DType == tensor.Bool && tensor.Of[bool](c.g.Const(v))[0]) {
			c.report(n, "training mode")
		}
	}},
	"Gemm": {func(c *checker, n *graph.Node) {
		if c.g.GemmRank(n) > 2 {
			return // a MatMul and an Add in the file
		}
		for i := range 2 {
			if s := c.g.Value(n.Inputs[i]).Shape; s != nil && len(s) != 2 {
				c.report(n, "input %d of rank %d", i, len(s))
			}
		}
	}},
	"InstanceNormalization": {trtConstant(1, "scales"), trtConstant(2, "biases")},
	"LSTM":                  {trtAttr("input_forget", 0, "input_forget"), trtAttr("layout", 0, "layout")},
	"LayerNormalization": {func(c *checker, n *graph.Node) {
		if n.Output(1) != graph.NoValue || n.Output(2) != graph.NoValue {
			c.report(n, "outputs beside the first")
		}
	}},
	"LpNormalization": {func(c *checker, n *graph.Node) {
		if p := n.AttrInt("p", 2); p != 1 && p != 2 {
			c.report(n, "p is %d", p)
		}
	}},
	"Pad":    {trtConstant(3, "axes")},
	"Resize": {trtResize},
	"ScatterND": {func(c *checker, n *graph.Node) {
		if n.Attr("reduction") != nil && n.AttrStr("reduction", "none") != "none" {
			c.report(n, "reduction")
		}
	}},
	"Slice":   {trtConstant(3, "axes")},
	"Squeeze": {trtConstant(1, "axes")},
	"TopK": {trtAttr("sorted", 1, "results that are not sorted"), func(c *checker, n *graph.Node) {
		if k := c.g.Const(n.Input(1)); k != nil && k.DType == tensor.Int64 && k.Len() == 1 && tensor.Of[int64](k)[0] >= 3840 {
			c.report(n, "k is %d, 3840 and above are not taken", tensor.Of[int64](k)[0])
		}
	}},
	"Unsqueeze": {trtConstant(1, "axes")},
}

var parserAttributesRule = rule{Name: "parser-attributes", Doc: "the importers of TensorRT's parser take the attributes and inputs of " +
	"their operators", Fix: "export the model without it, or fold constants first", applies: readsTRT,
	check: func(c *checker) {
		c.each(func(n *graph.Node) {
			if n.Domain == "" {
				for _, check := range trtChecks[n.Op] {
					check(c, n)
				}
				if strings.HasPrefix(n.Op, "Reduce") {
					trtConstant(1, "axes")(c, n)
				}
			}
		})
	}}

var parserBlocksRule = rule{Name: "parser-blocks", Doc: "blocks lie along one axis and divide it, and int4 has an even last dimension",
	Fix: "choose blocks that divide the axis, or another format for this tensor", applies: readsTRT,
	check: func(c *checker) {
		c.each(func(n *graph.Node) {
			x, scale := c.g.Value(n.Input(0)).Shape, c.g.Const(n.Input(1))
			dims, known := x.Ints()
			if !known || scale == nil {
				return
			}
			if codes := c.codes(n); codes == tensor.Int4 && len(dims) > 0 && dims[len(dims)-1]%2 != 0 {
				c.report(n, "int4 of shape %s", x)
			}
			if scale.Len() == 1 || len(scale.Shape) < 2 || len(scale.Shape) != len(dims) {
				return
			}
			blocked := 0
			for i, d := range dims {
				if d != scale.Shape[i] {
					blocked++
				}
				if scale.Shape[i] == 0 || d%scale.Shape[i] != 0 {
					c.report(n, "%d scales for %d elements along axis %d", scale.Shape[i], d, i)
					return
				}
			}
			if blocked > 1 {
				c.report(n, "scales %v for %v: blocks along %d axes", scale.Shape, dims, blocked)
			}
		}, quantizeLinear, dequantizeLinear)
	}}

// codes is the type of the codes of a Q or DQ.
func (c *checker) codes(n *graph.Node) tensor.DType {
	if is(n, quantizeLinear) {
		return c.g.Value(n.Outputs[0]).DType
	}
	return c.g.Value(n.Input(0)).DType
}

var strongTypesRule = rule{Name: "strong-types", Doc: "the float tensors that an operator reads have one type: a strongly typed network " +
	"converts nothing", Fix: "put a Cast in front of the input that differs", applies: func(t *target.Target) bool {
	return readsTRT(t) && t.Island != qmath.FP32
},
	check: func(c *checker) {
		wide := map[string][]int{"Resize": {1, 2}, "Upsample": {1}, "Dropout": {1}}
		c.each(func(n *graph.Node) {
			if n.Domain != "" || is(n, quantizeLinear, dequantizeLinear, "Cast", "CastLike", "If", "Loop", "Scan") {
				return
			}
			first := tensor.Undefined
			for i, v := range n.Inputs {
				if v == graph.NoValue || slices.Contains(wide[n.Op], i) {
					continue
				}
				switch d := c.g.Value(v).DType; {
				case !d.IsFloat():
				case first == tensor.Undefined:
					first = d
				case d != first:
					c.report(n, "input %d is %s, another one %s", i, d, first)
					return
				}
			}
		})
	}}
