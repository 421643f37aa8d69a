package target

import (
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
)

// Condition is something a target demands of a node before it runs it on integers.
type Condition struct {
	Name string // as it stands in a target's file
	// Otherwise completes the sentence "Resize ..." where the condition does not hold.
	Otherwise string
	Holds     func(g *graph.Graph, n *graph.Node) bool
}

// Conditions lists what targets choose from.
var Conditions = []Condition{Copies, BetaOne, AlphaOne, ConstantWeight, IntegerBias, ChannelBias, OneAxis, OneOutput,
	ConstantMatrix, Planar, GroupScale, WinogradShape, HalfPixel, TwoAxes, UncountedPads, SeveralSummed, ChannelSlopes, NotShrunk, NotReshaped,
	NotOneColumn, SeveralTerms, UnitAlpha, SamePads, ConstantCells, PlainCells,
	CountedFloor, SeveralPadded, NotFromJoined, SeveralSlices, NotTiny, WithoutGaps, DenseSteps, ReadsColumns, NotPatches}

// The conditions by themselves.
var (
	// Copies holds where every element of the output is one of input 0, or 0 (Resize to the nearest, Pad with zeros).
	Copies = Condition{"copies", "computes new numbers", func(g *graph.Graph, n *graph.Node) bool { return g.Passive(n.ID) }}
	// BetaOne holds for a Gemm that adds its bias unscaled, or has none.
	BetaOne = Condition{"beta-one", "scales its bias (beta is not 1)", func(_ *graph.Graph, n *graph.Node) bool {
		return n.Input(2) == graph.NoValue || n.Gemm().Beta == 1
	}}
	// AlphaOne holds for a Gemm that has no bias, or adds it to the unscaled product: the scale of an integer bias is input scale *
	// weight scale, and kernels that know alpha would apply it to the bias as well.
	AlphaOne = Condition{"alpha-one", "scales its product and adds a bias (alpha is not 1)", func(_ *graph.Graph, n *graph.Node) bool {
		return n.Input(2) == graph.NoValue || n.Gemm().Alpha == 1
	}}
	// ConstantWeight holds where input 1 is a constant.
	ConstantWeight = Condition{"constant-weight", "has computed weights", func(g *graph.Graph, n *graph.Node) bool {
		return g.Const(n.Input(1)) != nil
	}}
	// IntegerBias holds where input 2 can be an int32 vector: it is absent or a constant with one number per output channel.
	IntegerBias = Condition{"integer-bias", "has a bias that is not one constant per output channel",
		func(g *graph.Graph, n *graph.Node) bool {
			v := n.Input(2)
			if v == graph.NoValue {
				return true
			}
			axis, ok := OutputAxis(g, n, 1)
			b := g.Const(v)
			if b == nil || !ok || len(b.Shape) == 0 || b.DType != tensor.Float32 {
				return false
			}
			channels := g.Value(n.Inputs[1]).Shape[axis]
			return channels.Known() && channels.N == int64(b.Len()) && b.Shape[len(b.Shape)-1] == b.Len()
		}}
	// ChannelBias is IntegerBias for targets whose biases stay float.
	ChannelBias = Condition{"channel-bias", IntegerBias.Otherwise, IntegerBias.Holds}
	// OneAxis holds for a Softmax along a single axis. Before opset 13 it saw its input as a matrix, and where several axes of that are
	// longer than 1, raising the opset puts a Flatten and a Reshape around it, which would stand between it and its quantizers.
	OneAxis = Condition{"one-axis", "works along several axes at once", func(g *graph.Graph, n *graph.Node) bool {
		axis, flat := graph.SoftmaxAxis(n, g.Opset(n.Domain))
		if !flat {
			return true
		}
		shape := g.Value(n.Inputs[0]).Shape
		axis, ok := graph.Axis(axis, len(shape))
		if !ok {
			return false
		}
		long := 0
		for _, d := range shape[axis:] {
			if d.N != 1 {
				long++
			}
		}
		return long <= 1
	}}
	// OneOutput holds where only the first output is in use (MaxPool without indices).
	OneOutput = Condition{"one-output", "has a second output in use", func(g *graph.Graph, n *graph.Node) bool {
		for _, v := range n.Outputs[min(1, len(n.Outputs)):] {
			if v != graph.NoValue && (len(g.Uses(v)) > 0 || g.IsOutput(v)) {
				return false
			}
		}
		return true
	}}
	// ConstantMatrix holds for a product with a constant matrix on the right, the left factor as it is.
	ConstantMatrix = Condition{"constant-matrix", "does not multiply by one constant matrix", func(g *graph.Graph, n *graph.Node) bool {
		w := g.Const(n.Input(1))
		return w != nil && len(w.Shape) == 2 && !n.Gemm().TransA
	}}
	// Planar holds for a convolution over two axes.
	Planar = Condition{"planar", "does not slide over two axes", func(g *graph.Graph, n *graph.Node) bool {
		return len(g.Value(n.Inputs[1]).Shape) == 4
	}}
	// GroupScale holds for a convolution whose groups have one scale of weights each: there is one group, or one output per group.
	GroupScale = Condition{"group-scale", "has several outputs per group", func(g *graph.Graph, n *graph.Node) bool {
		s, group := g.Value(n.Inputs[1]).Shape, n.Conv().Group
		return group == 1 || len(s) > 0 && s[0].N == int64(group)
	}}
	// HalfPixel holds for a Resize that takes the centres of pixels for their places.
	HalfPixel = Condition{"half-pixel", "does not compute places from the centres of pixels (half_pixel)",
		func(_ *graph.Graph, n *graph.Node) bool {
			return n.Op == "Resize" && n.AttrStr("coordinate_transformation_mode", "half_pixel") == "half_pixel"
		}}
	// TwoAxes holds where all tensors that are computed have two axes or more, as far as is known.
	TwoAxes = Condition{"two-axes", "works on a tensor of fewer than two axes", func(g *graph.Graph, n *graph.Node) bool {
		few := func(v graph.ValueID) bool {
			return v != graph.NoValue && g.Const(v) == nil && g.Value(v).Shape != nil && len(g.Value(v).Shape) < 2
		}
		return !slices.ContainsFunc(n.Outputs, few) &&
			!slices.ContainsFunc(DataInputs(g, n.ID), func(i int) bool { return few(n.Input(i)) })
	}}
	// UncountedPads holds for a pool whose average does not count padding, or that has none.
	UncountedPads = Condition{"uncounted-pads", "counts padding in its average", func(_ *graph.Graph, n *graph.Node) bool {
		auto := n.AttrStr("auto_pad", "NOTSET")
		pads := slices.ContainsFunc(n.AttrInts("pads"), func(p int64) bool { return p != 0 })
		return n.AttrInt("count_include_pad", 0) == 0 || auto == "VALID" || auto == "NOTSET" && !pads
	}}
	// SeveralSummed holds for a Softmax over more than one element, as far as is known.
	SeveralSummed = Condition{"several-summed", "sums one element", func(g *graph.Graph, n *graph.Node) bool {
		shape := g.Value(n.Inputs[0]).Shape
		from, to, err := graph.SoftmaxAxes(n, g.Opset(n.Domain), len(shape))
		return err != nil || !slices.ContainsFunc(shape, func(d graph.Dim) bool { return d.Known() }) ||
			slices.ContainsFunc(shape[from:to], func(d graph.Dim) bool { return d.N != 1 })
	}}
	// ChannelSlopes holds for a PRelu whose slope is one constant, or one for each channel of the operator with weights before it.
	ChannelSlopes = Condition{"channel-slopes", "has slopes that are not one constant, or one for each channel",
		func(g *graph.Graph, n *graph.Node) bool {
			c := g.Const(n.Input(1))
			return c != nil && c.DType == tensor.Float32 && (c.Len() == 1 || AlongChannels(g, n.Input(0), c.Shape))
		}}
	// NotReshaped holds where nobody reads what the operator computes by another shape.
	NotReshaped = Condition{"not-reshaped", "gives what is reshaped", func(g *graph.Graph, n *graph.Node) bool {
		return !slices.ContainsFunc(g.Uses(n.Outputs[0]), func(u graph.Use) bool { return u.Index == 0 && g.Node(u.Node).Reshapes() })
	}}
	// SeveralPadded holds for a Pad, but for one that puts 0 around one axis: OpenVINO 2026.4 takes the padding for the code 0, or the codes
	// for numbers, where there is a zero point (docs/engines.md).
	SeveralPadded = Condition{"several-padded", "pads one axis with 0", func(g *graph.Graph, n *graph.Node) bool {
		pads, padded := n.AttrInts("pads"), 0
		if c := g.Const(n.Input(1)); c != nil && c.DType == tensor.Int64 {
			pads = tensor.Of[int64](c)
		}
		for i, k := 0, len(pads)/2; i < k; i++ {
			if pads[i] != 0 || pads[i+k] != 0 {
				padded++
			}
		}
		return padded != 1 || n.AttrStr("mode", "constant") != "constant"
	}}
	// NotFromJoined holds for a Sub, but for one of a constant from what a Concat joins: OpenVINO 2026.4 ends the process where a pair with a
	// zero point rounds that.
	NotFromJoined = Condition{"not-from-joined", "takes a constant from what was joined", func(g *graph.Graph, n *graph.Node) bool {
		p := g.Producer(n.Input(0))
		return g.Const(n.Input(1)) == nil || p == graph.NoNode || g.Node(p).Op != "Concat"
	}}
	// NotShrunk holds where no cubic Resize that shrinks lies in front of input 0, through first inputs, or behind the output, before the next
	// product: ONNX Runtime 1.32 turns its axes, too, and does not open it then.
	NotShrunk = Condition{"not-shrunk", "reads what a cubic Resize has shrunk, or is shrunk by one", func(g *graph.Graph, n *graph.Node) bool {
		for v := n.Input(0); v != graph.NoValue; {
			p := g.Producer(v)
			if p == graph.NoNode {
				break
			}
			from := g.Node(p)
			if shrinksCubic(g, from) {
				return false
			}
			if slices.Contains(products, from.Op) {
				break
			}
			v = from.Input(0)
		}
		return !shrunkBehind(g, n, map[graph.NodeID]bool{})
	}}
	// ConstantCells holds for an LSTM whose weights W and R are constants and whose steps lie in front.
	ConstantCells = Condition{"constant-cells", "has computed weights, or samples in front of steps",
		func(g *graph.Graph, n *graph.Node) bool {
			return g.Const(n.Input(1)) != nil && g.Const(n.Input(2)) != nil && n.AttrInt("layout", 0) == 0
		}}
	// PlainCells holds for an LSTM of Sigmoid and Tanh that takes all steps of all samples, without peepholes.
	PlainCells = Condition{"plain-cells", "has peepholes, lengths, clips, coupled gates or other functions than Sigmoid and Tanh",
		func(g *graph.Graph, n *graph.Node) bool {
			return n.Input(4) == graph.NoValue && n.Input(7) == graph.NoValue && graph.UsualCells(n)
		}}
	// NotOneColumn holds for a convolution over two axes or three, but for one that steps along its width, or is dilated along it alone with
	// several outputs per channel, and computes one column, of several rows without those: OpenVINO 2026.4 takes many for ones without steps
	// on integers (NSR 1 to 6; with AMX one of six of those with steps, without one of forty).
	NotOneColumn = Condition{"not-one-column", "steps along its width to one column",
		func(g *graph.Graph, n *graph.Node) bool {
			w, y := g.Value(n.Inputs[1]).Shape, g.Value(n.Outputs[0]).Shape
			last := len(w) - 1
			if last < 3 || len(y) != len(w) || eachAlone(w, n) || w[last].N == 1 || y[last].N != 1 {
				return true
			}
			steps, dilations := n.AttrInts("strides"), n.AttrInts("dilations")
			wide := len(steps) == last-1 && steps[last-2] != 1 ||
				len(dilations) == last-1 && dilations[0] == 1 && dilations[last-2] != 1 && severalEach(w, n)
			rows := severalEach(w, n) || slices.ContainsFunc(y[2:last], func(d graph.Dim) bool { return d.N != 1 })
			return !wide || !rows
		}}
	// SeveralSlices holds for a convolution, but for one of three axes that pads its only slice: OpenVINO 2026.4 computes other numbers then
	// on integers, NSR 0.4 to 9, or ends with AMX.
	SeveralSlices = Condition{"several-slices", "pads its only slice",
		func(g *graph.Graph, n *graph.Node) bool {
			x, w := g.Value(n.Inputs[0]).Shape, g.Value(n.Inputs[1]).Shape
			if len(x) != 5 || len(w) != 5 || w[2].N == 1 || eachAlone(w, n) {
				return true
			}
			return x[2].N != 1 && (x[2].Known() || w[1].N != 1)
		}}
	// NotPatches holds for a convolution, but for one of 32 channels whose kernel, of 4 or more, is its stride: with AMX OpenVINO 2026.4
	// computes other numbers then on integers, NSR 4 to 10.
	NotPatches = Condition{"not-patches", "slides over 32 channels in steps of its kernel, 4 or more",
		func(g *graph.Graph, n *graph.Node) bool {
			w, strides := g.Value(n.Inputs[1]).Shape, n.AttrInts("strides")
			return len(w) != len(strides)+2 || w[1].N != 32 || slices.ContainsFunc(w[2:], func(d graph.Dim) bool { return d.N < 4 }) ||
				!slices.EqualFunc(w[2:], strides, func(d graph.Dim, s int64) bool { return d.N == s })
		}}
	// ReadsColumns holds for a convolution, but for one that reads padding alone along its last axis: OpenVINO 2026.4 takes the zero point
	// of what it does not read for a number on integers, NSR 0.03 to 14.
	ReadsColumns = Condition{"reads-columns", "reads padding alone along its last axis", func(g *graph.Graph, n *graph.Node) bool {
		geo, err := graph.ConvGeometry(n, g.Value(n.Inputs[0]).Shape, g.Value(n.Inputs[1]).Shape)
		if err != nil {
			return true
		}
		last := len(geo.In) - 1
		for at := range geo.In[last] {
			for tap := range geo.Kernel[last] {
				if geo.Reads(last, tap, at) {
					return true
				}
			}
		}
		return geo.In[last] < 1 || geo.Kernel[last] < 1
	}}
	// NotTiny holds for a convolution, but for one in groups, with several outputs per channel, that reads and makes few numbers of a sample:
	// OpenVINO 2026.4 computes that by products of matrices that hold sums of two in 16 bits, NSR 0.001 to 40, up to 396 numbers as far as was
	// seen.
	NotTiny = Condition{"not-tiny", "reads and makes 512 numbers or fewer, with several outputs per channel",
		func(g *graph.Graph, n *graph.Node) bool {
			w, x, y := g.Value(n.Inputs[1]).Shape, g.Value(n.Inputs[0]).Shape, g.Value(n.Outputs[0]).Shape
			if len(w) < 3 || len(x) != len(w) || len(y) != len(w) || n.Conv().Group == 1 || !severalEach(w, n) {
				return true
			}
			in, known := x[1:].Ints()
			out, made := y[1:].Ints()
			return !known || !made || tensor.Count(in)+tensor.Count(out) > 512
		}}
	// WithoutGaps holds for a ConvTranspose each element of whose output has products, as far as its kernel, steps and dilations go: OpenVINO
	// 2026.4 scales the bias otherwise where there are none, NSR 0.005 to 0.3.
	WithoutGaps = Condition{"without-gaps", "leaves gaps between its steps", func(g *graph.Graph, n *graph.Node) bool {
		w := g.Value(n.Inputs[1]).Shape
		for i, stride := range n.AttrInts("strides") {
			met, dilation := map[int64]bool{}, int64(1)
			if d := n.AttrInts("dilations"); i < len(d) {
				dilation = d[i]
			}
			for k := int64(0); i+2 < len(w) && k < w[i+2].N; k++ {
				met[k*dilation%stride] = true
			}
			if int64(len(met)) < stride {
				return false
			}
		}
		return true
	}}
	// DenseSteps holds for a ConvTranspose that does not step or is not dilated: OpenVINO 2026.4 adds up two products on integers in 16
	// bits otherwise, NSR up to 0.02.
	DenseSteps = Condition{"dense-steps", "steps and is dilated", func(_ *graph.Graph, n *graph.Node) bool {
		several := func(v int64) bool { return v > 1 }
		return !slices.ContainsFunc(n.AttrInts("strides"), several) || !slices.ContainsFunc(n.AttrInts("dilations"), several)
	}}
	// SeveralTerms holds for a product of matrices whose sums have more than one term, as far as is known. OpenVINO 2026.4 takes those of one
	// for something else on integers, NSR 0.1, and may end the process (docs/engines.md).
	SeveralTerms = Condition{"several-terms", "sums products of one element", func(g *graph.Graph, n *graph.Node) bool {
		x, axis := g.Value(n.Inputs[0]).Shape, -1
		if n.Gemm().TransA {
			axis = 0
		}
		a, ok := graph.Axis(axis, len(x))
		return !ok || x[a].N != 1
	}}
	// UnitAlpha holds for an operator whose alpha is 1.
	UnitAlpha = Condition{"unit-alpha", "has another alpha than 1", func(_ *graph.Graph, n *graph.Node) bool { return n.Alpha() == 1 }}
	// CountedFloor holds for a pool whose average does not count padding, or whose windows do not reach beyond it: ONNX Runtime 1.32 divides
	// by the whole window there on integers (docs/engines.md).
	CountedFloor = Condition{"counted-floor", "counts padding, and its windows may reach beyond it (ceil_mode)",
		func(_ *graph.Graph, n *graph.Node) bool {
			return n.AttrInt("count_include_pad", 0) == 0 || n.AttrInt("ceil_mode", 0) == 0
		}}
	// SamePads holds for a pool whose padding is that of SAME or VALID, or counts, as far as is known.
	SamePads = Condition{"same-pads", "has padding that is neither SAME nor VALID, and does not count",
		func(g *graph.Graph, n *graph.Node) bool {
			geo, err := graph.PoolGeometry(n, g.Value(n.Inputs[0]).Shape)
			return err != nil || !UncountedPads.Holds(g, n) || samePads(geo)
		}}
	// WinogradShape holds for the convolutions that Winograd's F(2,3) and F(4,3) compute: 3x3, stride 1, no dilation, one group.
	WinogradShape = Condition{"winograd-shape", "is no 3x3 convolution of stride 1, dilation 1 and one group",
		func(g *graph.Graph, n *graph.Node) bool {
			s := g.Value(n.Inputs[1]).Shape
			if len(s) != 4 || s[2].N != 3 || s[3].N != 3 || n.Conv().Group != 1 {
				return false
			}
			for _, of := range []string{"strides", "dilations"} {
				for _, v := range n.AttrInts(of) {
					if v != 1 {
						return false
					}
				}
			}
			return true
		}}
)

// eachAlone reports whether a convolution with weights of shape w, in groups, makes one output of each channel.
func eachAlone(w graph.Shape, n *graph.Node) bool {
	return n.Conv().Group > 1 && w[1].N == 1 && w[0].N == int64(n.Conv().Group)
}

// severalEach reports whether a convolution with weights of shape w makes several outputs of each channel.
func severalEach(w graph.Shape, n *graph.Node) bool {
	return w[1].N == 1 && w[0].N != int64(n.Conv().Group)
}

var products = []string{"Conv", "ConvTranspose", "Gemm", "MatMul"}

func shrinksCubic(g *graph.Graph, n *graph.Node) bool {
	return n.Op == "Resize" && n.AttrStr("mode", "nearest") == "cubic" && shrinks(g, n)
}

// shrunkBehind reports whether a cubic Resize shrinks what a node gives, before the next product.
func shrunkBehind(g *graph.Graph, n *graph.Node, seen map[graph.NodeID]bool) bool {
	return slices.ContainsFunc(n.Outputs, func(v graph.ValueID) bool {
		return v != graph.NoValue && slices.ContainsFunc(g.Uses(v), func(u graph.Use) bool {
			r := g.Node(u.Node)
			if seen[u.Node] || slices.Contains(products, r.Op) {
				return false
			}
			seen[u.Node] = true
			return shrinksCubic(g, r) || shrunkBehind(g, r, seen)
		})
	})
}

// shrinks reports whether a Resize has an axis that is shorter behind it, as far as is known.
func shrinks(g *graph.Graph, n *graph.Node) bool {
	before, after := g.Value(n.Inputs[0]).Shape, g.Value(n.Outputs[0]).Shape
	for i := range min(len(before), len(after)) {
		if before[i].Known() && after[i].Known() && after[i].N < before[i].N {
			return true
		}
	}
	_, scales, _ := graph.ResizeInputs(g.Opset(n.Domain))
	factors := g.Const(n.Input(scales))
	return factors != nil && slices.ContainsFunc(factors.F32(), func(f float32) bool { return f < 1 })
}

// samePads reports whether the padding of a window is SAME, or VALID.
func samePads(geo *graph.Geometry) bool {
	same, valid := true, true
	for i, in := range geo.In {
		reach := (geo.Kernel[i]-1)*geo.Dilation[i] + 1
		total := max((geo.Out[i]-1)*geo.Stride[i]+reach-in, 0)
		same = same && geo.Out[i] == (in+geo.Stride[i]-1)/geo.Stride[i] && geo.PadBegin[i] == total/2
		valid = valid && geo.PadBegin[i] == 0 && total == 0
	}
	return same || valid
}
