package target

import (
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
)

var (
	ortTargets  = []string{"onnxruntime"}
	ovTargets   = []string{"openvino_int8", "openvino_int8_amx"}
	liteTargets = []string{"tflite_int8", "tflite_16x8", "tflite"}
)

const (
	byScript = "reproduced by examples/engines/faults.py"
	byRandom = "found by examples/engines/random_graphs.py"
	bySource = "not reproduced: by its source alone"
)

// Faults are the faults of engines that are known, by engine. examples/engines/measured/faults_table.md has the outcomes of reproductions.
var Faults = []Fault{
	{Name: "ort-softmax-one", Engine: "ONNX Runtime", Targets: ortTargets, Until: "1.32", Held: byScript,
		Pattern: "a Softmax on integers along an axis of one element", Effect: "0 instead of 1: a float32 overflows",
		Cure: "leave the Softmax float", Source: byRandom,
		Met: func(o *Rounded) bool { return o.has("Softmax") && o.integer() && o.but(SeveralSummed) }},
	{Name: "ort-softmax-int8", Engine: "ONNX Runtime", Targets: ortTargets, Until: "1.29", Held: byScript,
		Pattern: "a Softmax on integers that writes int8", Effect: "probabilities near 1 wrap around to 0",
		Cure: "uint8 activations, or leave the Softmax float", Source: "github.com/microsoft/onnxruntime/issues/29727",
		Met: func(o *Rounded) bool {
			if v := o.Node.Outputs[0]; o.Node.Op == "QLinearSoftmax" {
				return o.Graph.Value(v).DType == tensor.Int8
			}
			y, ok := o.Out(0)
			return o.has("Softmax") && o.integer() && ok && y.QMin < 0 && y.QMax <= 127
		}},
	{Name: "ort-average-ceil", Engine: "ONNX Runtime", Targets: ortTargets, Held: byScript,
		Pattern: "an AveragePool on integers with ceil_mode and count_include_pad",
		Effect:  "it divides by the whole window where that reaches beyond the padding (NSR 0.02 to 0.08)", Cure: "leave the pool float",
		Source: byRandom,
		Met:    func(o *Rounded) bool { return o.has("AveragePool") && o.integer() && o.but(CountedFloor) }},
	{Name: "ort-add-scales", Engine: "ONNX Runtime", Targets: ortTargets, Held: byScript,
		Pattern: "an Add on integers whose addends have scales 2^16 apart or more", Effect: "the addend of the small scale is lost in float32",
		Cure: "a smaller range for the large addend, or leave the Add float", Source: byRandom,
		Met: func(o *Rounded) bool {
			a, one := o.In(0)
			b, other := o.In(1)
			return o.has("Add", "Sub") && o.integer() && one && other && a.Scale*b.Scale > 0 && max(a.Scale/b.Scale, b.Scale/a.Scale) >= 1<<16
		}},
	{Name: "ort-resize-linear", Engine: "ONNX Runtime", Targets: ortTargets, Until: "1.27", Held: byScript,
		Pattern: "a linear Resize between integers", Effect: "it cuts fractions off instead of rounding (NSR up to 0.05)",
		Cure: "leave the Resize float", Source: "github.com/microsoft/onnxruntime/issues/28448",
		Met: func(o *Rounded) bool {
			return o.has("Resize") && o.integer() && o.Node.AttrStr("mode", "nearest") == "linear"
		}},
	{Name: "ort-resize-cubic", Engine: "ONNX Runtime", Targets: ortTargets, Held: byScript,
		Pattern: "a convolution on integers behind a cubic Resize that shrinks, or in front of one",
		Effect:  "it does not open with all optimizations",
		Cure:    "leave that convolution float", Source: byRandom,
		Met: func(o *Rounded) bool { return o.has("Conv") && o.integer() && o.but(NotShrunk) }},
	{Name: "ort-resize-corners", Engine: "ONNX Runtime", Targets: ortTargets, Held: byScript, Pattern: brokenCorners.pattern,
		Effect: brokenCorners.effect, Cure: brokenCorners.cure, Source: byRandom, Met: brokenCorners.met},
	{Name: "ort-gemm-alpha", Engine: "ONNX Runtime", Targets: ortTargets, Until: "1.28", Held: byScript,
		Pattern: "a Gemm on integers with a bias and another alpha than 1", Effect: "the bias is scaled, too (NSR 0.07)",
		Cure: "multiply the weights by alpha", Source: "github.com/microsoft/onnxruntime/issues/28130",
		Met: func(o *Rounded) bool {
			_, in := o.In(0)
			return o.has("Gemm") && in && o.but(AlphaOne)
		}},
	{Name: "ort-reshape-constant", Engine: "ONNX Runtime", Targets: ortTargets, Until: "1.27", Held: byScript,
		Pattern: "a Reshape of a constant of int8 behind a DequantizeLinear without a zero point", Effect: "negative numbers become 0",
		Cure: "write the constant in its final shape, or with a zero point", Source: "github.com/microsoft/onnxruntime/issues/28491",
		Met: func(o *Rounded) bool {
			p := o.Graph.Producer(o.Node.Input(0))
			return o.has("Reshape") && p != graph.NoNode && o.Graph.Node(p).Op == "DequantizeLinear" &&
				o.Graph.Node(p).Input(2) == graph.NoValue && constantOf(o.Graph, o.Graph.Node(p).Input(0)) != nil
		}},
	{Name: "ort-blocks-512", Engine: "ONNX Runtime", Targets: ortTargets, Until: "1.32", Held: byScript,
		Pattern: "weights of 4 bits in blocks of more than 256", Effect: "all zeros before 1.27, then an error when it runs",
		Cure: "blocks of 256 or fewer", Source: "github.com/microsoft/onnxruntime/issues/28551",
		Met: func(o *Rounded) bool {
			nbits := o.Node.Op == "MatMulNBits" || o.has("DequantizeLinear") && constantOf(o.Graph, o.Node.Input(0)) != nil &&
				o.Graph.Value(o.Node.Input(0)).DType.Bits() == 4
			return nbits && o.Node.AttrInt("block_size", 0) > 256
		}},

	{Name: "ov-average-padding", Engine: "OpenVINO", Targets: ovTargets, Held: byScript, Rule: "guard", Says: "counts padding",
		Pattern: "an AveragePool with count_include_pad behind integers", Effect: "padding counts as the code 0 (NSR 0.2 to 38)",
		Cure: "a Max with the lowest float32 in front", Source: byRandom},
	{Name: "ov-pool-columns", Engine: "OpenVINO", Targets: ovTargets, Held: byScript, Rule: "guard",
		Says:    "slides along the columns of a product",
		Pattern: "a pool along the columns of a product on integers", Effect: "it does not compile, or takes scales of other columns",
		Cure: "a Max with the lowest float32 in front", Source: byRandom},
	{Name: "ov-resize-columns", Engine: "OpenVINO", Targets: ovTargets, Held: byScript, Rule: "guard",
		Says:    "resizes the columns of a product",
		Pattern: "a Resize of the columns of a product on integers", Effect: "it does not compile",
		Cure: "a Max with the lowest float32 in front", Source: byRandom},
	{Name: "ov-moved-scales", Engine: "OpenVINO", Targets: ovTargets, Held: byRandom, Rule: "guard",
		Pattern: "Pad, Gather, Einsum, Unsqueeze or sums of products and along several axes behind integers",
		Effect:  "scales are moved behind operators that do not commute with them (NSR up to 0.7), or it fails",
		Cure:    "a Max with the lowest float32 in front", Source: byRandom},
	{Name: "ov-pad-axis", Engine: "OpenVINO", Targets: ovTargets, Held: byRandom, Rule: "guard", Says: "pads one axis",
		Pattern: "a Pad with 0 along one axis between pairs with a zero point, of an axis of one element behind one, or behind one that " +
			"others read",
		Effect: "they are off by the zero point (NSR 0.1 to 250), or the others get its shape",
		Cure:   "a Max with the lowest float32 in front", Source: byRandom},
	{Name: "ov-few-rows", Engine: "OpenVINO", Targets: ovTargets, Held: byScript, Rule: "guard", Says: "rounds a product of few rows",
		Pattern: "a product of two matrices on integers, of up to eight rows, that is rounded, but for one with a bias of " +
			"different numbers alone",
		Effect: "the network's products are computed of other memory, to NaN, by some numbers of threads",
		Cure:   "a Max with the lowest float32 behind it", Source: byRandom},
	{Name: "ov-last-sum", Engine: "OpenVINO", Targets: ovTargets, Held: byScript, Rule: "guard", Says: "adds up the last",
		Pattern: "GlobalAveragePool, ReduceMean or ReduceSum along the last of three axes, of more samples than channels, behind a zero point",
		Effect:  "samples get the zero points of others (NSR 0.01 to 100)", Cure: "a Max with the lowest float32 in front",
		Source: byRandom},
	{Name: "ov-repeated-product", Engine: "OpenVINO", Targets: ovTargets, Held: byScript, Rule: "guard", Says: "repeats a product",
		Pattern: "an Expand of a product of matrices on integers, where a size is open", Effect: "it is left out: another shape",
		Cure: "a Max with the lowest float32 in front, or fixed sizes (qwb bind)", Source: byRandom},
	{Name: "ov-cut-factor", Engine: "OpenVINO", Targets: ovTargets, Held: byScript, Rule: "guard", Says: "gives a second factor",
		Pattern: "what a pair with a zero point rounds as the second factor of a MatMul, and cut to whole numbers (Ceil, Floor, Cast, ...)",
		Effect:  "0 is a last bit off, and its Ceil 1", Cure: "a Max with the lowest float32 behind the pair", Source: byRandom},
	{Name: "ov-negative-norm", Engine: "OpenVINO", Targets: ovTargets, Held: byScript, Rule: "guard",
		Says:    "rounds a normalization with negative factors",
		Pattern: "a LayerNormalization, or its parts, of two axes with negative factors and no bias that is rounded",
		Effect:  "other codes (NSR 0.7 to 5)", Cure: "a Max with the lowest float32 behind it", Source: byRandom},
	{Name: "ov-reduced-columns", Engine: "OpenVINO", Targets: ovTargets, Held: byScript, Rule: "guard", Says: "reduces the columns",
		Pattern: "a reduction or global pool along the last of three axes of several samples of a convolution on integers without a bias",
		Effect:  "channels get the scales of others (NSR 0.05 to 0.7)", Cure: "a Max with the lowest float32 in front", Source: byRandom},
	{Name: "ov-scaled-sum", Engine: "OpenVINO", Targets: ovTargets, Held: byScript, Rule: "guard", Says: "reduces channels",
		Pattern: "a reduction or global pool of three axes of several samples whose channels a constant multiplied (normalizations " +
			"do), in float too where the file has pairs",
		Effect: "channels get the factors of others (NSR 0.07 to 2)", Cure: "a Max with the lowest float32 in front", Source: byRandom},
	{Name: "ov-shifted-padding", Engine: "OpenVINO", Targets: ovTargets, Held: byScript, Rule: "guard", Says: "counts padding of what",
		Pattern: "an AveragePool that counts padding of what constants multiplied and added to (normalizations do), in float too where " +
			"the file has pairs",
		Effect: "padding counts as the addend (NSR 0.02 to 0.5)", Cure: "a Max with the lowest float32 in front", Source: byRandom},
	{Name: "ov-middle-sum", Engine: "OpenVINO", Targets: ovTargets, Held: byScript, Rule: "guard", Says: "adds up along the middle",
		Pattern: "ReduceSum or ReduceMean of integers of three axes along the second one (and the third), of more than one sample",
		Effect:  "other codes are added up (NSR 0.1 to 1)", Cure: "a Max with the lowest float32 in front", Source: byRandom},
	{Name: "ov-reduce-axes", Engine: "OpenVINO", Targets: ovTargets, Held: byScript,
		Pattern: "ReduceL1, ReduceLogSum or ReduceLogSumExp with axes in a file of opset 13 to 17", Effect: "all axes are reduced",
		Cure: "convert the file to opset 18", Source: byRandom,
		Met: func(o *Rounded) bool { return misreadsAxes(o.Graph, o.Node) }},
	{Name: "ov-moved-ones", Engine: "OpenVINO", Targets: ovTargets, Held: byScript,
		Pattern: "a Transpose that moves only axes of one element, behind a reduction without keepdims (in float too)",
		Effect:  "it hands out elements of other places (NSR 0.01 to 5)", Cure: "a Max with the lowest float32 in front of the Transpose",
		Source: byRandom,
		Met:    func(o *Rounded) bool { return MovesOnes(o.Graph, o.Node) }},
	{Name: "ov-shared-sum", Engine: "OpenVINO", Targets: ovTargets, Held: byScript,
		Pattern: "a convolution or product of matrices on integers without a bias that several read, or an output that something reads, " +
			"or LayerNormalization, Celu, ReduceSumSquare, MeanVarianceNormalization, at once or behind Reshape, Transpose, Neg, or that is " +
			"computed twice, where a size is open",
		Effect: "all readers but one get sums without their scales (NSR 0.01 to 1)",
		Cure:   "a Max with the lowest float32 behind it, or fixed sizes (qwb bind)", Source: byRandom,
		Met: func(o *Rounded) bool { return SharedSum(o.Graph, o.Node) }},
	{Name: "ov-joined-rows", Engine: "OpenVINO", Targets: ovTargets, Held: byScript, Rule: "guard", Says: "joins rows",
		Pattern: "a Concat along another axis than the last, as of a roll, in front of a product of matrices on integers with a zero point",
		Effect:  "it does not open (cannot be broadcasted)", Cure: "a Max with the lowest float32 behind the Concat", Source: byRandom},
	{Name: "ov-joined-int8", Engine: "OpenVINO", Targets: ovTargets, Held: byScript, Rule: "guard", Says: "joins what becomes int8",
		Pattern: "a Concat that is rounded to int8 in front of a convolution", Effect: "its numbers are cut to whole ones (NSR 0.05 to 0.4)",
		Cure: "a Max with the lowest float32 behind the Concat", Source: byRandom},
	{Name: "ov-rounded-max", Engine: "OpenVINO", Targets: ovTargets, Held: byScript, Rule: "guard", Says: "rounds a largest",
		Pattern: "a GlobalMaxPool, ReduceMax or ReduceMin of floats that is rounded", Effect: "other codes (NSR 0.005 to 1)",
		Cure: "a Max with the lowest float32 behind it", Source: byRandom},
	{Name: "ov-clip-limits", Engine: "OpenVINO", Targets: ovTargets, Held: byScript, Rule: "guard", Says: "clips between two integers",
		Pattern: "a Clip of what a pair rounded, with a limit between two of its integers, that no pair rounds, or of a product in front of " +
			"a Cast to integers",
		Effect: "it clips at the rounded limit (NSR 0.002 to 0.3), or a last bit off",
		Cure:   "a Max with the lowest float32 in front of the Clip",
		Source: byRandom},
	{Name: "ov-open-scales", Engine: "OpenVINO", Targets: ovTargets, Held: byScript, Rule: "guard", Says: "rounds channels that a constant",
		Pattern: "a Mul or Div by a constant for each channel in front of a QuantizeLinear, where a size is open",
		Effect:  "it takes the factors of other channels (NSR 0.03 to 1)",
		Cure:    "a Max with the lowest float32 behind it, or fixed sizes (qwb bind)", Source: byRandom},
	{Name: "ov-small-shift", Engine: "OpenVINO", Targets: ovTargets, Held: byScript, Rule: "guard", Says: "rounds what a constant moves",
		Pattern: "an Add or Sub of a constant between a pair without a zero point and one of a scale at most 1 % off, whose lowest number is " +
			"less than a step away from the 0 of the first",
		Effect: "codes are one off", Cure: "a Max with the lowest float32 behind it", Source: byRandom},
	{Name: "ov-column-constant", Engine: "OpenVINO", Targets: ovTargets, Held: byScript, Rule: "guard", Says: "puts a constant to a product",
		Pattern: "a sum or product of a product of matrices, rounded without a zero point, and a constant of several elements, for each " +
			"channel of more than two axes or where the product has one column",
		Effect: "it does not open (data size, scale.size)", Cure: "a Max with the lowest float32 in front", Source: byRandom},
	{Name: "ov-sizes-out", Engine: "OpenVINO", Targets: ovTargets, Held: byRandom, Rule: "guard", Says: "beside sizes",
		Pattern: "a convolution that a QuantizeLinear rounds, where a size is open and an output of the network is made of sizes",
		Effect:  "its result is read in another order of axes (NSR 1 to 2)",
		Cure:    "a Max with the lowest float32 behind it, or fixed sizes (qwb bind)", Source: byRandom},
	{Name: "ov-resize-corners", Engine: "OpenVINO", Targets: ovTargets, Held: byScript, Pattern: brokenCorners.pattern,
		Effect: brokenCorners.effect, Cure: brokenCorners.cure, Source: byRandom, Met: brokenCorners.met},
	{Name: "ov-joined-constant", Engine: "OpenVINO", Targets: ovTargets, Held: byScript, Rule: "guard", Says: "takes a constant",
		Pattern: "a Concat that a pair with a zero point rounds in front of a Sub of a constant, an Add, Mul or Div with one in float, or " +
			"another pair",
		Effect: "the process ends when the file is opened", Cure: "a Max with the lowest float32 in front", Source: byRandom},
	{Name: "ov-joined-channels", Engine: "OpenVINO", Targets: ovTargets, Held: byScript, Rule: "guard", Says: "spreads channels",
		Pattern: "a DepthToSpace of channels that a Concat joined, with a zero point", Effect: "it does not open (shapes are inconsistent)",
		Cure: "a Max with the lowest float32 in front", Source: byRandom},
	{Name: "ov-joined-gather", Engine: "OpenVINO", Targets: ovTargets, Held: byScript, Rule: "guard", Says: "gathers from channels",
		Pattern: "a Gather of channels that a Concat joined, with a zero point and a number or matrix of indices",
		Effect:  "it does not open (shapes are inconsistent), or its output has another shape",
		Cure:    "a Max with the lowest float32 in front", Source: byRandom},
	{Name: "ov-empty-expand", Engine: "OpenVINO", Targets: ovTargets, Held: byRandom, Rule: "guard", Says: "hands out nothing",
		Pattern: "an Expand of a part without elements that is an output (in float too)", Effect: "the process ends",
		Cure: "a Max with the lowest float32 in front", Source: byRandom},
	{Name: "ov-empty-constant", Engine: "OpenVINO", Targets: ovTargets, Since: "2026", Held: byScript,
		Pattern: "a pair around a constant without elements", Effect: "it does not open", Cure: "take the constant out",
		Source: byRandom,
		Met: func(o *Rounded) bool {
			_, empty := withoutElements(o.Graph, o.Node.ID)
			return empty && o.has("QuantizeLinear") && constantOf(o.Graph, o.Node.Input(0)) != nil
		}},
	{Name: "ov-float64", Engine: "OpenVINO", Targets: ovTargets, Held: byScript,
		Pattern: "an input of float64 of a quantized network", Effect: "it does not compile",
		Cure: "qwb bind --float32", Source: "measured here",
		Met: func(o *Rounded) bool {
			return slices.ContainsFunc(o.Node.Inputs, func(v graph.ValueID) bool {
				return v != graph.NoValue && slices.Contains(o.Graph.Inputs, v) && o.Graph.Value(v).DType == tensor.Float64
			})
		}},
	{Name: "ov-blocks-axis1", Engine: "OpenVINO", Targets: ovTargets, Until: "2025.4", Held: byScript,
		Pattern: "a DequantizeLinear in blocks along another axis than the first", Effect: "it does not open, or mixes the blocks up",
		Cure: "store the weights turned", Source: "github.com/openvinotoolkit/openvino/pull/32917",
		Met: func(o *Rounded) bool {
			return o.has("DequantizeLinear") && o.Node.AttrInt("block_size", 0) > 0 && o.Node.AttrInt("axis", 1) != 0
		}},
	{Name: "ov-one-column", Engine: "OpenVINO", Targets: ovTargets, Held: byRandom,
		Pattern: "a convolution on integers that steps along its width, or with several outputs per channel is dilated along it alone, " +
			"to one column",
		Effect: "it is computed without steps (NSR 0.02 to 6)", Cure: "leave it float", Source: byRandom,
		Met: func(o *Rounded) bool { _, in := o.In(0); return o.has("Conv") && in && o.but(NotOneColumn) }},
	{Name: "ov-padding-columns", Engine: "OpenVINO", Targets: ovTargets, Held: byRandom,
		Pattern: "a convolution on integers that reads padding alone along its last axis, of what has a zero point",
		Effect:  "other numbers than the bias alone (NSR 0.03 to 14)", Cure: "leave it float", Source: byRandom,
		Met: func(o *Rounded) bool { _, in := o.In(0); return o.has("Conv") && in && o.but(ReadsColumns) }},
	{Name: "ov-few-numbers", Engine: "OpenVINO", Targets: ovTargets, Held: byRandom,
		Pattern: "a convolution in groups on integers of several outputs per channel that reads and makes few numbers (up to 396 were seen)",
		Effect:  "sums of two products are cut to 16 bits (NSR 0.001 to 40)", Cure: "leave it float", Source: byRandom,
		Met: func(o *Rounded) bool { _, in := o.In(0); return o.has("Conv") && in && o.but(NotTiny) }},
	{Name: "ov-gaps", Engine: "OpenVINO", Targets: ovTargets, Held: byScript,
		Pattern: "a ConvTranspose on integers whose kernel leaves places between its steps that only the bias reaches",
		Effect:  "the bias has another scale there (NSR 0.005 to 0.3)", Cure: "leave it float", Source: byRandom,
		Met: func(o *Rounded) bool { _, in := o.In(0); return o.has("ConvTranspose") && in && o.but(WithoutGaps) }},
	{Name: "ov-dilated-steps", Engine: "OpenVINO", Targets: ovTargets, Held: byScript,
		Pattern: "a ConvTranspose on integers that steps and is dilated, of activations without a zero point",
		Effect:  "sums of two products are cut to 16 bits (NSR 0.0007 to 0.02)", Cure: "leave it float", Source: byRandom,
		Met: func(o *Rounded) bool { _, in := o.In(0); return o.has("ConvTranspose") && in && o.but(DenseSteps) }},
	{Name: "ov-signed-steps", Engine: "OpenVINO", Targets: ovTargets, Held: byScript, Rule: "guard", Says: "steps over int8",
		Pattern: "a ConvTranspose of int8 activations with steps of 2 or more and a kernel that reaches over 2",
		Effect:  "some columns are off (NSR 0.01 to 0.8)",
		Cure:    "uint8 activations, or a Max with the lowest float32 in front",
		Source:  byRandom},
	{Name: "ov-small-norm", Engine: "OpenVINO", Targets: ovTargets, Held: byScript, Rule: "guard", Says: "normalizes small products",
		Pattern: "a LayerNormalization of a product on integers beside whose variance epsilon is not small",
		Effect:  "epsilon is lost (NSR 0.01 to 550)", Cure: "a Max with the lowest float32 in front", Source: byRandom},
	{Name: "ov-slid-column", Engine: "OpenVINO", Targets: ovTargets, Held: byRandom, Rule: "guard", Says: "rounds one column",
		Pattern: "a product of matrices of one column, of three axes or more, that is rounded for a convolution",
		Effect:  "it does not open (data size)", Cure: "a Max with the lowest float32 behind the product", Source: byRandom},
	{Name: "ov-one-factor", Engine: "OpenVINO", Targets: ovTargets, Held: byScript,
		Pattern: "a MatMul of two axes with a constant of one element behind a product on integers", Effect: "it does not open (Layout rank)",
		Cure:   "a Mul",
		Source: byRandom, Met: func(o *Rounded) bool {
			c := constantOf(o.Graph, o.Node.Input(1))
			return o.has("MatMul") && c != nil && len(c.Shape) == 2 && c.Len() == 1
		}},
	{Name: "ov-one-term", Engine: "OpenVINO", Targets: ovTargets, Held: byRandom,
		Pattern: "a product of matrices on integers whose sums have one term", Effect: "other numbers (NSR 0.1)", Cure: "leave it float",
		Source: byRandom,
		Met:    func(o *Rounded) bool { _, in := o.In(0); return o.has("MatMul", "Gemm") && in && o.but(SeveralTerms) }},
	{Name: "ov-amx-patches", Engine: "OpenVINO", Targets: ovTargets, On: "x64 with AMX", Held: "found by examples/engines/networks2026.py",
		Pattern: "a convolution on integers of 32 input channels whose kernel, of 4 or more, is its stride", Effect: "NSR 4 to 10",
		Cure:   "set ONEDNN_MAX_CPU_ISA=AVX512_CORE_VNNI there, or leave it float (qwb set PLAN NODE domain=fp32)",
		Source: "measured here", Met: patches,
		Warning: "slides over 32 channels in steps of its kernel, 4 or more: on processors with AMX OpenVINO 2026.4 computes it wrongly on " +
			"integers; set ONEDNN_MAX_CPU_ISA=AVX512_CORE_VNNI there, or leave it in float (qwb set PLAN NODE domain=fp32)"},
	{Name: "ov-amx-tall", Engine: "OpenVINO", Targets: ovTargets, On: "x64 with AMX", Held: byRandom,
		Pattern: "a convolution on integers with a zero point whose kernel is one column of three rows or more, on 4, 8, 12 or 16 channels, " +
			"with padding in front and 16 columns or more", Effect: "it reads what nobody wrote: other numbers in each run (NSR 0.1 to 10)",
		Cure: "calibrate for openvino_int8_amx, which has no zero points there", Source: byRandom, Met: tall,
		Warning: "slides a column over 4 to 16 channels with a zero point and padding: on processors with AMX OpenVINO 2026.4 computes other " +
			"numbers in each run; calibrate for openvino_int8_amx there"},
	{Name: "ov-amx-activation", Engine: "OpenVINO", Targets: ovTargets, On: "x64 with AMX", Held: byRandom, Rule: "guard",
		Says: "rounds behind a ConvTranspose",
		Pattern: "an activation of a ConvTranspose on integers that is rounded, whose channels are no multiple of 4, or whose planes have " +
			"few elements (25 were seen)",
		Effect: "other numbers (NSR 1 to 10)", Cure: "a Max with the lowest float32 in front", Source: byRandom},
	{Name: "ov-arm-products", Engine: "OpenVINO", Targets: ovTargets, Until: "2026.3", On: "ARM", Held: bySource,
		Pattern: "a product of matrices of uint8 activations and int8 weights", Effect: "negative weights count as 0",
		Cure: "int8 activations", Source: "github.com/openvinotoolkit/openvino/pull/36764",
		Met: func(o *Rounded) bool {
			x, in := o.In(0)
			return o.has("MatMul", "Gemm") && in && x.QMin == 0
		}},

	{Name: "litert-reference-kernels", Engine: "LiteRT", Targets: liteTargets, Since: "2", On: "the reference kernels (BUILTIN_REF)",
		Held: byScript, Pattern: "Tile, DepthToSpace, Elu, Round or Ceil on int8", Effect: "the kernel is not registered",
		Cure: "the default kernels", Source: "measured here",
		Met: func(o *Rounded) bool { return o.has("Tile", "DepthToSpace", "Elu", "Round", "Ceil") && o.integer() }},
	{Name: "litert-add-scales", Engine: "LiteRT", Targets: liteTargets, Held: byScript, Rule: "factor", Says: "are added for scale",
		Pattern: "an Add on integers of which an addend has 2^19 times the scale of the sum, as a mask of -3.4e38 has",
		Effect:  "the process ends when the file is opened", Cure: "a smaller range for that addend, as qwb gives it", Source: "measured here"},
	{Name: "litert-in-place", Engine: "LiteRT", Targets: liteTargets, On: "without XNNPACK", Held: byRandom, Rule: "-",
		Pattern: "a RESHAPE of what was computed in place, or of a RESHAPE, that others read, in front of an operator in place",
		Effect:  "the others read what that wrote", Cure: "a result of its own for the RESHAPE, as qwb writes it", Source: byRandom},
	{Name: "ncnn-light-blob", Engine: "ncnn", Targets: []string{"ncnn_int8"}, Held: byScript, Rule: "-",
		Pattern: "in light mode, an output that a layer has read already", Effect: "the process ends",
		Cure: "a blob of its own for each output, as qwb writes it", Source: byRandom},
	{Name: "mnn-maxpool", Engine: "MNN", Targets: []string{"mnn_int8"}, On: "x64", Held: "reproduced by examples/engines/mnn_int8.py",
		Pattern: "a MaxPool in front of a convolution on integers", Effect: "other numbers in the convolution",
		Cure: "leave that convolution float", Source: "measured here",
		Met: func(o *Rounded) bool {
			p := o.Graph.Producer(o.Node.Input(0))
			_, in := o.In(0)
			return o.has("Conv") && in && p != graph.NoNode && o.Graph.Node(p).Op == "MaxPool"
		}},
}

// patches: a convolution on integers of 32 input channels whose kernel, of 4 or more, is its stride.
func patches(o *Rounded) bool {
	_, in := o.In(0)
	return o.has("Conv") && in && o.but(NotPatches)
}

// tall reports whether a convolution over a tensor with a zero point and padding in front has a kernel of one column.
func tall(o *Rounded) bool {
	x, in := o.In(0)
	if !o.has("Conv") || !in || x.ZeroPoint == 0 {
		return false
	}
	w, y := o.Graph.Value(o.Node.Inputs[1]).Shape, o.Graph.Value(o.Node.Outputs[0]).Shape
	geo, err := graph.ConvGeometry(o.Node, o.Graph.Value(o.Node.Inputs[0]).Shape, w)
	return err == nil && len(w) == 4 && w[3].N == 1 && w[2].N > 2 && w[1].N <= 16 && w[1].N%4 == 0 && geo.PadBegin[0] != 0 &&
		(y[3].N > 15 || !y[3].Known())
}
