package onnxqdq

import (
	"math"
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels/qmath"
	"qwb/quantizer/target"
)

// OpenVINO (2026.4, its low-precision transformations) moves what dequantizes behind the operators that read it, also behind some that do
// not commute with it: an average that counts padding then counts the code 0, and a pool along the columns of a product takes scales for
// one column from another. A Max with the lowest number, which the transformations do not know and which changes no number, keeps them
// apart.

// followed are the operators that have their Max behind them.
var followed = []string{"Conv", "ConvTranspose", "MatMul", "Gemm", "Concat", dequantizeLinear}

// guards puts a Max in front of the operators that need it, or behind them.
func (b *builder) guards() error {
	if !b.t.Export.GuardFloat {
		return nil
	}
	for _, id := range b.g.Nodes() { // first, as scales are moved behind a Mul
		if n := b.g.Node(id); oneFactor(b.g, n) {
			n.Op = "Mul"
		}
	}
	of := map[graph.ValueID]graph.ValueID{}
	for _, id := range b.g.Nodes() {
		n := b.g.Node(id)
		if why := unguarded(b.g, n); why == "" {
			continue
		}
		if is(n, followed...) && !signedSteps(b.g, n) {
			y := n.Outputs[0]
			raw, err := b.g.AddValue(b.named(y, "_unguarded"))
			if err == nil {
				err = b.g.SetOutput(id, 0, raw)
			}
			if err == nil {
				err = b.guard(raw, y)
			}
			if err != nil {
				return err
			}
			continue
		}
		x := n.Inputs[0]
		if _, ok := of[x]; !ok {
			y, err := b.g.AddValue(b.named(x, "_guard"))
			if err == nil {
				err = b.guard(x, y)
			}
			if err != nil {
				return err
			}
			of[x] = y
		}
		b.g.SetInput(id, 0, of[x])
	}
	return nil
}

// named is a value like v under another name.
func (b *builder) named(v graph.ValueID, suffix string) graph.Value {
	val := *b.g.Value(v)
	val.Name = b.g.FreshName(val.Name + suffix)
	return val
}

// guard makes y of x by a Max with the lowest number.
func (b *builder) guard(x, y graph.ValueID) error {
	if b.lowest == graph.NoValue {
		b.lowest = b.g.AddConst(b.g.FreshName("lowest"), tensor.FromF32([]float32{-math.MaxFloat32}))
	}
	_, err := b.g.AddNode(graph.Node{Name: b.g.FreshName(b.g.Value(y).Name + "_node"), Op: "Max", Inputs: []graph.ValueID{x, b.lowest},
		Outputs: []graph.ValueID{y}})
	return err
}

// guarded reports whether a value is what a DQ gives, or a ConvTranspose, behind a guard.
func guarded(g *graph.Graph, v graph.ValueID) bool {
	p := g.Producer(v)
	if p == graph.NoNode || !is(g.Node(p), "Max") || len(g.Node(p).Inputs) != 2 ||
		!madeBy(g, g.Node(p).Inputs[0], dequantizeLinear, "ConvTranspose") {
		return false
	}
	c := g.Const(g.Node(p).Inputs[1])
	return c != nil && slices.Equal(c.F32(), []float32{-math.MaxFloat32})
}

// unguarded says what OpenVINO would compute wrongly of a node because of what dequantizes before it; "": nothing. What depends on sizes
// alone, as the first state of a cell does, is computed once and rightly; behind a Max it would be a constant that later operators
// overwrite, so that only the first inference is right.
func unguarded(g *graph.Graph, n *graph.Node) string {
	why := miscomputed(g, n)
	if why != "" && graph.OfSizes(g, n.Outputs[0]) {
		return ""
	}
	return why
}

func miscomputed(g *graph.Graph, n *graph.Node) string {
	if activated(g, n) {
		return "rounds behind a ConvTranspose"
	}
	if !is(n, "AveragePool", "MaxPool", "LpPool", "Pad", "Einsum", "Expand", "Gather", "Unsqueeze", "Reshape", "Resize", "Sub", "Add",
		"Mul", "Div", "Transpose", "Clip", "DepthToSpace", "LayerNormalization", "MeanVarianceNormalization", "InstanceNormalization",
		quantizeLinear) && !is(n, reductions...) && !is(n, sums...) && !is(n, followed...) {
		return ""
	}
	switch {
	case is(n, quantizeLinear) && fewRows(g, n):
		return "rounds a product of few rows"
	case is(n, quantizeLinear) && negativeNorm(g, n.Inputs[0]):
		return "rounds a normalization with negative factors"
	case is(n, quantizeLinear) && slidColumn(g, n):
		return "rounds one column for a convolution"
	case signedSteps(g, n):
		return "steps over int8"
	case smallNorm(g, n):
		return "normalizes small products"
	case is(n, quantizeLinear) && openScales(g, n):
		return "rounds channels that a constant multiplied, with an open size"
	case is(n, quantizeLinear) && lessThanAStep(g, n):
		return "rounds what a constant moves by less than a step"
	case is(n, quantizeLinear) && madeBy(g, n.Inputs[0], "GlobalMaxPool", "ReduceMax", "ReduceMin"):
		return "rounds a largest or smallest number"
	case is(n, quantizeLinear) && sizesOut(g, n):
		return "rounds a convolution beside sizes that are handed out"
	case is(n, "Add", "Sub", "Mul", "Div") && otherColumns(g, n):
		return "puts a constant to a product along other axes than its columns"
	case is(n, "Transpose") && target.MovesOnes(g, n):
		return "moves axes of one behind a reduction"
	case is(n, "Clip") && (offGrid(g, n) || cutOff(g, n)):
		return "clips between two integers"
	case target.SharedSum(g, n):
		return "is read by several without a bias"
	case joinedShifted(g, n):
		return "takes a constant from what was joined, or rounds it once more"
	case (is(n, reductions...) || is(n, "ReduceSum")) && scaledChannels(g, n):
		return "reduces channels that a constant multiplied"
	case is(n, "AveragePool") && shiftedPads(g, n):
		return "counts padding of what was multiplied and added to"
	case is(n, "Expand") && g.IsOutput(n.Outputs[0]) && nothing(g, n.Inputs[0]) && !madeBy(g, n.Inputs[0], "Max"):
		return "hands out nothing"
	case is(n, dequantizeLinear) && cutBeside(g, n):
		return "gives a second factor that is cut to whole numbers"
	case is(n, "Concat") && joinsSigned(g, n):
		return "joins what becomes int8"
	case is(n, "Concat") && joinsRows(g, n):
		return "joins rows of a product"
	case is(n, quantizeLinear, "Transpose", "Clip", "Add", "Mul", "Div") || is(n, followed...):
		return ""
	}
	return movedBehind(g, n, carries(g, n.Input(0), map[graph.ValueID]carried{}))
}

// movedBehind says what OpenVINO would compute wrongly of a node because it moves what is carried behind it; "": nothing.
func movedBehind(g *graph.Graph, n *graph.Node, c carried) string {
	switch {
	case !c.any:
	case is(n, "AveragePool") && !target.UncountedPads.Holds(g, n):
		return "counts padding"
	case is(n, "AveragePool", "MaxPool", "LpPool") && c.columns:
		return "slides along the columns of a product"
	case is(n, "Pad") && n.AttrStr("mode", "constant") == "constant" && !g.Passive(n.ID):
		return "pads with another number than 0"
	case is(n, "Pad") && c.columns:
		return "pads the columns of a product"
	case is(n, "Pad") && shifted(g, n):
		return "pads one axis with a zero point"
	case is(n, "Pad") && reshaped(g, n.Outputs[0]):
		return "pads what is reshaped"
	case is(n, "DepthToSpace") && joinedChannels(g, n):
		return "spreads channels that were joined"
	case is(n, "Expand") && c.product && openSize(g, n.Inputs[0]):
		return "repeats a product of an open size"
	case is(n, "Einsum") && c.product:
		return "is taken apart"
	case is(n, "Gather") && c.product:
		return "gathers from a product"
	case is(n, "Gather") && len(g.Value(n.Inputs[0]).Shape) != len(g.Value(n.Outputs[0]).Shape) && joinedChannels(g, n):
		return "gathers from channels that were joined"
	case is(n, sums...) && c.product:
		return "adds up a product"
	case is(n, sums...) && severalAxes(g, n):
		return "adds up along several axes"
	case (is(n, sums...) || is(n, "ReduceMean")) && threeAxes(g, n, 1):
		return "adds up along the middle of three axes"
	case (is(n, sums...) || is(n, "ReduceMean", "GlobalAveragePool")) && moreSamples(g, n):
		return "adds up the last of three axes of more samples than channels"
	case is(n, reductions...) && c.product && threeAxes(g, n, 2):
		return "reduces the columns of several samples of a convolution"
	case is(n, "Unsqueeze", "Reshape") && c.columns && columnLast(g, n):
		return "puts an axis of one behind the columns of a product"
	case is(n, "Resize") && c.columns:
		return "resizes the columns of a product"
	}
	return ""
}

// shifted reports whether a Pad with 0 has one padded axis, and that has one element behind a zero point, or a pair with a zero point is
// behind it, or others read the zero point in front of it: 2026.4 pads that, for all of them.
func shifted(g *graph.Graph, n *graph.Node) bool {
	x, y := g.Value(n.Inputs[0]).Shape, g.Value(n.Outputs[0]).Shape
	if target.SeveralPadded.Holds(g, n) {
		return false
	}
	if dq := dequantizes(g, n.Inputs[0]); dq != nil && hasZeroPoint(g, dq) {
		for i := range min(len(x), len(y)) {
			if x[i] != y[i] && (!x[i].Known() || x[i].N == 1) {
				return true
			}
		}
		if len(g.Uses(dq.Inputs[2])) > 2 {
			return true
		}
	}
	return slices.ContainsFunc(g.Uses(n.Outputs[0]), func(u graph.Use) bool {
		return is(g.Node(u.Node), quantizeLinear) && hasZeroPoint(g, g.Node(u.Node))
	})
}

// dequantizes is the DQ in front of a value, behind operators that scales are moved behind; nil: there is none.
func dequantizes(g *graph.Graph, v graph.ValueID) *graph.Node {
	for v != graph.NoValue && g.Producer(v) != graph.NoNode {
		n := g.Node(g.Producer(v))
		if is(n, dequantizeLinear) {
			return n
		}
		if _, through := carriers[n.Op]; !through {
			break
		}
		v = n.Input(0)
	}
	return nil
}

// hasZeroPoint reports whether a Q or DQ has a zero point that is not 0.
func hasZeroPoint(g *graph.Graph, n *graph.Node) bool {
	c := g.Const(n.Input(2))
	return c != nil && slices.ContainsFunc(c.Integers(), func(z int32) bool { return z != 0 })
}

// oneFactor reports whether a node is a product of matrices with a single number: 2026.4 does not open that behind one on integers, and
// opens the same Mul.
func oneFactor(g *graph.Graph, n *graph.Node) bool {
	if !is(n, "MatMul") {
		return false
	}
	c := g.Const(n.Inputs[1])
	return c != nil && c.Len() == 1 && len(c.Shape) == 2 && len(g.Value(n.Inputs[0]).Shape) >= 2
}

// signedSteps reports whether a ConvTranspose of int8 has steps of 2 or more, with a kernel that reaches over 2: 2026.4 then corrects some
// columns wrongly (NSR 0.01 to 0.8).
func signedSteps(g *graph.Graph, n *graph.Node) bool {
	dq := dequantizes(g, n.Input(0))
	if !is(n, "ConvTranspose") || dq == nil || g.Value(dq.Inputs[0]).DType != tensor.Int8 {
		return false
	}
	w, dilations := g.Value(n.Inputs[1]).Shape, n.AttrInts("dilations")
	for i, stride := range n.AttrInts("strides") {
		if stride > 1 && (w[i+2].N > 2 || w[i+2].N > 1 && i < len(dilations) && dilations[i] > 1) {
			return true
		}
	}
	return false
}

// smallNorm reports whether a normalization reads a product on integers of small numbers, with one scale each: 2026.4 normalizes the sums
// without the scales, beside which epsilon is nothing. Small is what half of both ranges makes, if epsilon is more than 1e-4 of its square.
func smallNorm(g *graph.Graph, n *graph.Node) bool {
	v := n.Input(0)
	if !is(n, "LayerNormalization", "MeanVarianceNormalization", "InstanceNormalization") || !madeBy(g, v, "MatMul", "Gemm", "Conv") {
		return false
	}
	p, most := g.Node(g.Producer(v)), 1.0
	for _, x := range p.Inputs[:2] {
		dq := dequantizes(g, x)
		if dq == nil || g.Const(dq.Inputs[1]) == nil || g.Const(dq.Inputs[1]).Len() != 1 {
			return false // scales of channels stay in front
		}
		most *= 64 * float64(g.Const(dq.Inputs[1]).F32()[0])
	}
	return most*most < 1e4*n.Epsilon()
}

// slidColumn reports whether a Q rounds the one column of a product of matrices that a convolution reads: 2026.4 takes the channels of that
// for its columns and does not open.
func slidColumn(g *graph.Graph, q *graph.Node) bool {
	shape := g.Value(q.Inputs[0]).Shape
	return len(shape) > 2 && shape[len(shape)-1].N == 1 && madeBy(g, q.Inputs[0], "MatMul") &&
		slices.ContainsFunc(g.Uses(q.Outputs[0]), func(u graph.Use) bool {
			return slices.ContainsFunc(g.Uses(g.Node(u.Node).Outputs[0]), func(u graph.Use) bool { return graph.Slides(g.Node(u.Node).Op) })
		})
}

// madeBy reports whether one of those operators computes a value.
func madeBy(g *graph.Graph, v graph.ValueID, ops ...string) bool {
	p := g.Producer(v)
	return p != graph.NoNode && is(g.Node(p), ops...)
}

// offGrid reports whether a Clip of what a DQ gives, moved or not, has a limit that is no integer there: 2026.4 clips the integers, at the
// rounded limit.
func offGrid(g *graph.Graph, n *graph.Node) bool {
	v := n.Inputs[0]
	for v != graph.NoValue && g.Producer(v) != graph.NoNode && g.Passive(g.Producer(v)) && g.Node(g.Producer(v)).Op != dequantizeLinear {
		v = g.Node(g.Producer(v)).Input(0)
	}
	if v == graph.NoValue || !dequantized(g, v) {
		return false
	}
	scale := g.Const(g.Node(g.Producer(v)).Input(1))
	lo, hi, ok := graph.LimitsOf(n, g.Opset(""), g.Const)
	return ok && scale != nil && slices.ContainsFunc([]float32{lo, hi}, func(limit float32) bool {
		steps := float64(limit) / float64(scale.F32()[0])
		return math.Abs(steps) < 1<<16 && math.Abs(steps-qmath.HalfEven.Round(steps)) > 1e-3
	})
}

// dequantized reports whether a value is what a DQ gives.
func dequantized(g *graph.Graph, v graph.ValueID) bool {
	p := g.Producer(v)
	return p != graph.NoNode && is(g.Node(p), dequantizeLinear)
}

// multiplied reports whether a product on integers reads a value, behind operators that leave its axes; shifted: with a zero point.
func multiplied(g *graph.Graph, v graph.ValueID, shifted bool) bool {
	return slices.ContainsFunc(g.Uses(v), func(u graph.Use) bool {
		n := g.Node(u.Node)
		switch {
		case u.Index != 0:
			return false
		case is(n, "MatMul", "Gemm"):
			return shifted && dequantized(g, n.Inputs[1])
		case is(n, quantizeLinear):
			return multiplied(g, n.Outputs[0], hasZeroPoint(g, n))
		}
		turns, through := carriers[n.Op]
		return (is(n, dequantizeLinear) || through && (!turns || n.Op == "Transpose")) && multiplied(g, n.Outputs[0], shifted)
	})
}

// fewRows reports whether a Q rounds a product of two matrices on integers, of up to eight rows, but for one with a bias of different
// numbers and an activation behind it: 2026.4 then computes products of other memory, to NaN.
func fewRows(g *graph.Graph, q *graph.Node) bool {
	v, constants := q.Input(0), 0
	for {
		p := g.Producer(v)
		if p == graph.NoNode {
			return false
		}
		n := g.Node(p)
		if is(n, "MatMul", "Gemm") {
			bias := n.Input(2)
			if bias != graph.NoValue {
				constants++
			}
			shape := g.Value(n.Outputs[0]).Shape
			return len(shape) == 2 && (!shape[0].Known() || shape[0].N <= 8) && dequantizes(g, n.Inputs[0]) != nil &&
				dequantized(g, n.Inputs[1]) && (constants != 1 || !biased(g, n))
		}
		i := slices.IndexFunc(n.Inputs, func(v graph.ValueID) bool { return g.Const(v) == nil })
		switch {
		case is(n, "Add", "Sub", "Mul", "Div") && i >= 0 && g.Const(n.Input(1-i)) != nil:
			constants++
		case !is(n, "Relu", "LeakyRelu", "PRelu", "Clip", "Identity") && !n.Reshapes() || i != 0:
			return false
		}
		v = n.Inputs[i]
	}
}

// biased reports whether the constant behind a product is its bias, of different numbers.
func biased(g *graph.Graph, n *graph.Node) bool {
	c := g.Const(n.Input(2))
	if uses := g.Uses(n.Outputs[0]); c == nil && len(uses) == 1 && is(g.Node(uses[0].Node), "Add") {
		c = g.Const(g.Node(uses[0].Node).Input(1 - uses[0].Index))
	}
	return c != nil && c.DType == tensor.Float32 && slices.ContainsFunc(c.F32(), func(x float32) bool { return x != c.F32()[0] })
}

// negativeNorm reports whether a tensor of two axes is a normalization times constants some of which are negative, with nothing added:
// 2026.4 rounds it by ranges that begin above their end.
func negativeNorm(g *graph.Graph, v graph.ValueID) bool {
	p := g.Producer(v)
	if p == graph.NoNode || len(g.Value(v).Shape) != 2 {
		return false
	}
	n, factor := g.Node(p), graph.NoValue
	switch {
	case is(n, "LayerNormalization") && n.Input(2) == graph.NoValue:
		factor = n.Input(1)
	case is(n, "Mul"):
		for i, v := range n.Inputs {
			if madeBy(g, v, "Div", "LayerNormalization", "MeanVarianceNormalization") {
				factor = n.Input(1 - i)
			}
		}
	}
	c := g.Const(factor)
	return c != nil && c.DType == tensor.Float32 && slices.ContainsFunc(c.F32(), func(x float32) bool { return x < 0 })
}

// cutOff reports whether a Clip of a product that no pair rounds is read by what cuts numbers off to whole ones: 2026.4 clips the sums, at
// the limit divided by their scale, which is a last bit off.
func cutOff(g *graph.Graph, n *graph.Node) bool {
	return readBehind(g, n.Outputs[0], -1, cutters...) && carries(g, n.Inputs[0], map[graph.ValueID]carried{}).product
}

// cutters are the operators for which a last bit is a whole number.
var cutters = []string{"Cast", "Floor", "Ceil", "Sign", "Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual"}

// cutBeside reports whether what a DQ with a zero point gives is the second factor of a MatMul, and cut to whole numbers, too: 2026.4 takes
// the zero point from the scaled number there, so that 0 is a last bit off.
func cutBeside(g *graph.Graph, dq *graph.Node) bool {
	return hasZeroPoint(g, dq) && readBehind(g, dq.Outputs[0], 1, "MatMul") && readBehind(g, dq.Outputs[0], -1, cutters...)
}

// readBehind reports whether one of those operators reads a value as that input (-1: as any), behind operators that only move elements.
func readBehind(g *graph.Graph, v graph.ValueID, input int, ops ...string) bool {
	return slices.ContainsFunc(g.Uses(v), func(u graph.Use) bool {
		n := g.Node(u.Node)
		return is(n, ops...) && (input < 0 || input == u.Index) ||
			u.Index == 0 && (n.Reshapes() || is(n, "Identity", "Transpose")) && readBehind(g, n.Outputs[0], input, ops...)
	})
}

// reshaped reports whether somebody reads a tensor by another shape, behind pairs or at once: what pads has zero points along the padded
// axis for the transformations, which keep them for the other shape (2026.4 ends with "Argument shapes are inconsistent").
func reshaped(g *graph.Graph, v graph.ValueID) bool {
	for _, u := range g.Uses(v) {
		n := g.Node(u.Node)
		if u.Index == 0 && (n.Reshapes() || (is(n, quantizeLinear, dequantizeLinear) || n.Op == "Identity") && reshaped(g, n.Outputs[0])) {
			return true
		}
	}
	return false
}

// activated reports whether a node is an activation of what a ConvTranspose on integers computes, which is rounded behind it, where the
// channels are no multiple of 4, or the planes small: with AMX 2026.4 computes that wrongly (NSR 1 to 10; planes of 25 elements were seen).
func activated(g *graph.Graph, n *graph.Node) bool {
	if n.Spec() == nil || n.Spec().Kind != graph.KindActivation || !madeBy(g, n.Input(0), "ConvTranspose") {
		return false
	}
	x := g.Node(g.Producer(n.Input(0))).Inputs[0]
	if shape := g.Value(x).Shape; len(shape) > 2 && shape[1].Known() && shape[1].N%4 == 0 {
		if plane, known := shape[2:].Ints(); !known || tensor.Count(plane) >= 64 {
			return false
		}
	}
	return dequantized(g, x) && endsRounded(g, n.Outputs[0], map[graph.ValueID]bool{})
}

// endsRounded reports whether a pair reads a value, or what activations, sums and products make of it; seen are those that were asked.
func endsRounded(g *graph.Graph, v graph.ValueID, seen map[graph.ValueID]bool) bool {
	if seen[v] {
		return false
	}
	seen[v] = true
	return slices.ContainsFunc(g.Uses(v), func(u graph.Use) bool {
		n := g.Node(u.Node)
		if is(n, quantizeLinear) {
			return u.Index == 0
		}
		return n.Spec() != nil && (n.Spec().Kind == graph.KindActivation || is(n, "Add", "Sub", "Mul", "Div")) &&
			endsRounded(g, n.Outputs[0], seen)
	})
}

// nothing reports whether a tensor has no elements, by its shape.
func nothing(g *graph.Graph, v graph.ValueID) bool {
	return slices.ContainsFunc(g.Value(v).Shape, func(d graph.Dim) bool { return d.Known() && d.N == 0 })
}

// columnLast reports whether the last axis has one element behind a node and more in front of it.
func columnLast(g *graph.Graph, n *graph.Node) bool {
	x, y := g.Value(n.Inputs[0]).Shape, g.Value(n.Outputs[0]).Shape
	return len(x) > 0 && len(y) > len(x) && y[len(y)-1].N == 1 && x[len(x)-1].N != 1
}

var guardRule = rule{Name: "guard", Doc: "no scales are moved behind operators that do not commute with them: " +
	"averages that count padding, pools along the columns of a product, sums of products or along one of three axes, Pad along one " +
	"axis or with another number than 0, a constant taken from what was joined, or that rounded twice, DepthToSpace " +
	"and Gather of joined channels, Expand of nothing; a product of few rows, a norm of negative factors, the " +
	"largest number of several, one column in front of a convolution, what is joined to int8 and what a constant moves by " +
	"less than a step are not rounded at once, small products not normalized, ConvTranspose does not step over int8, axes of " +
	"one are not moved behind a reduction, products without a bias have one reader and are not repeated where sizes are open, " +
	"no rows of a product are joined, limits of Clip not rounded, and no second factor of a product cut to whole numbers",
	Fix:     "put a Max with the lowest float32 in front of them, behind a product and a Concat; a Mul for a product with one number",
	applies: func(t *target.Target) bool { return t.Export.GuardFloat },
	check: func(c *checker) {
		for _, id := range c.order {
			n := c.g.Node(id)
			if why := unguarded(c.g, n); why != "" {
				c.report(n, "it reads what operators on integers give, and %s", why)
			}
		}
	}}
