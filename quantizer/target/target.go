package target

import (
	"fmt"
	"slices"
	"strings"

	"qwb/graph"
	"qwb/kernels/qmath"
	"qwb/quantizer/tqc"
)

// Target is one platform. Targets are shared: copy one before changing it.
type Target struct {
	Name string
	Doc  string // one line
	Ops  []Op   // the operators that may run on integers, by Type; all others are float islands

	// Activation, Weight and Bias are the policies. Weight's Axis is filled in per operator (see OutputAxis). A Bias with 0
	// Bits stays float; otherwise its scale is input scale * weight scale.
	Activation tqc.Config
	Weight     tqc.Config
	Bias       tqc.Config
	// ReducedWeight is the integer range of weights under --reduce-range (for machines whose 16-bit sums saturate); equal
	// bounds: the target has no such machines.
	ReducedWeight [2]int32

	// Schemes are what the three may be beside their policy, which is the first of each list; see Schemes.
	Schemes Schemes

	Placement Placement // where quantizers stand
	// FloatOutputs: all that sums products has a FloatEnd, and what moves elements moves floats there.
	FloatOutputs bool
	// Fusions are computed together; see Fusion.
	Fusions []Fusion
	// Chain is how many activations are computed together with the operator before them, one behind the other (Conv, Relu, Mul by
	// a constant); 0 and 1: one. A Fusion counts as one.
	Chain int
	// Tables is how many bits the longest index of a table has that the target computes functions of single elements with: 8, 16, or 0 for a
	// target without. Chains of such functions are one table then, in which nothing is rounded but its result: see Bound.IsTable.
	Tables int

	Float   FloatUnit       // where the operators are computed that stay float
	Island  qmath.Precision // of them
	Profile string          // name of the arithmetic profile of the integer operators, as lower knows it
	// Arithmetic is the profile, where it is the target's own; Profile is then its name, and no other profile's.
	Arithmetic *qmath.Arithmetic
	// Format is the export format of plans for the target where none is asked for; "": the first that names the target or takes all.
	Format string
	// BorderCost is how many multiply-accumulates have to move to integers to pay for converting one element between float
	// and integer at the border of an integer region.
	BorderCost float64
	// Import: a file that says nothing about its reader may be meant for this target; see Catalog.Likely.
	Import bool
	Export Export
}

// Role is what an operator does with quantized numbers.
type Role uint8

const (
	// Weighted operators sum products; they are what quantization is for.
	Weighted Role = iota
	// Arithmetic operators compute new numbers: the output has a scale of its own.
	Arithmetic
	// Activation operators are computed together with the operator before them if nothing else reads its result.
	Activation
	// Passive operators move or select elements: the output has the scale of input 0.
	Passive
)

var roleNames = names{"weighted", "arithmetic", "activation", "passive"}

func (r Role) String() string { return roleNames.name(int(r)) }

// MarshalText and UnmarshalText use the names.
func (r Role) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

func (r *Role) UnmarshalText(b []byte) error { return read(roleNames, r, "role", b) }

// Align says which tensors of an operator share one scale.
type Align uint8

const (
	AlignNone Align = iota
	// AlignOutput: the inputs take the scale of the output.
	AlignOutput
	// AlignInput: the output takes the scale of input 0 (a pool or a Resize that keeps the scale).
	AlignInput
	// AlignLarge: the inputs share one scale, which holds the ranges of all of them; the output has its own (PPQ's "align to
	// large" of Add, Sub and Sum).
	AlignLarge
)

var alignNames = names{"none", "output", "input", "large"}

func (a Align) String() string { return alignNames.name(int(a)) }

// MarshalText and UnmarshalText use the names.
func (a Align) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

func (a *Align) UnmarshalText(b []byte) error { return read(alignNames, a, "alignment", b) }

// Alignments lists how the tensors of a node may share scales, AlignNone first. It is the only one of operators that do not compute new
// numbers, and of those whose output has a prescribed scale. One input has nothing to share with others. The output takes the scale of
// a sole input only: calibration finds that for the range of the input, and a sum would be cut off. Without quantizers at an output
// there is no scale of it.
func (b *Bound) Alignments(id graph.NodeID) []Align {
	list := []Align{AlignNone}
	op := b.Ops[id]
	if op == nil || op.Role != Arithmetic || op.FixedScale != 0 || b.Placement == WeightedInputs {
		return list
	}
	data := b.DataInputs(id)
	computed := func(i int) bool { return b.Graph.Const(b.Graph.Node(id).Inputs[i]) == nil }
	if b.Placement.Outputs() {
		list = append(list, AlignOutput)
		if len(data) == 1 && data[0] == 0 && computed(0) {
			list = append(list, AlignInput)
		}
	}
	if len(data) > 1 && slices.ContainsFunc(data, computed) {
		list = append(list, AlignLarge)
	}
	return list
}

// CanAlign reports why an alignment is not among Alignments.
func (b *Bound) CanAlign(id graph.NodeID, a Align) error {
	list := b.Alignments(id)
	if slices.Contains(list, a) {
		return nil
	}
	var words []string
	for _, l := range list {
		words = append(words, l.String())
	}
	what := b.Graph.Node(id).Op
	if a == AlignLarge && len(list) > 1 {
		what += " with 1 input that is quantized"
	}
	return fmt.Errorf("%s: scales of %s cannot be aligned as %s: one of %s", b.Name, what, a, strings.Join(words, ", "))
}

// Op is one operator type of a target.
type Op struct {
	// Type is that of an operator of ai.onnx, or "domain::Name" of one that a program brings along (graph.Operator), which can be Passive
	// only: there are no integers for it, but the scale goes through it.
	Type  string
	Role  Role
	Needs []Condition // all of them must hold, else the node stays float
	Align Align
	// Overlap: tensors are aligned as well that other operators read, and their scale with them. Otherwise those keep their scale
	// and the operator requantizes them.
	Overlap bool
	// Schemes are those of this operator where they are not the target's.
	Schemes Schemes
	// Alone: an Activation may also run on integers without being fused.
	Alone bool
	// FixedScale, where not 0, is the prescribed scale of the output; its zero point is the lowest integer, or 0 with FixedZero.
	FixedScale float32
	FixedZero  bool
	// Finer, where not 0: the scale of a Softmax is 1/n for the largest whole n that the numbers seen allow, FixedScale at most, and n at most
	// Finer for each element of a row.
	Finer int
	// FloatEnd: where only float is read of what it computes, the target has it as float at no cost. Sums of products have no pair behind
	// them then, and an Arithmetic operator is left in float.
	FloatEnd bool
	// FloatNorm: the same of an Arithmetic operator, but only where a normalization in float is among what reads it: the sums of a
	// transformer's residuals, whose every reader is another of them or a normalization.
	FloatNorm bool
	// SignedFactors: on integers, a computed second factor of a product is symmetric and signed, and a first one beside it too, unless it is
	// never negative, whose zero point is 0 as well. Everything else is multiplied in float there: see Bound.SignedFactor.
	SignedFactors bool
	// SignedInput: a computed first factor is symmetric and signed unless it is never negative, so that no product reads a zero point.
	// An input of the network is left as it is, and what only convolutions with groups read.
	SignedInput bool
	// UnsignedFirst: a constant first factor of a product is quantized as activations are, which are unsigned: no kernel multiplies a signed
	// first factor by an unsigned second one.
	UnsignedFirst bool
	// Asked: it runs on integers only where a decision asks for that, or for a scheme of its activations.
	Asked bool
	// Reduced: where all of these hold, weights have the range ReducedWeight unless a decision says otherwise; none: nowhere.
	Reduced []Condition
}

// EndsInFloat reports whether rows of op leave what they compute in float where only float is read of it.
func (t *Target) EndsInFloat(op *Op) bool {
	return op.FloatEnd || t.FloatOutputs && op.Role == Weighted
}

// WritesFloat reports whether any of its operators ends in float.
func (t *Target) WritesFloat() bool {
	return slices.ContainsFunc(t.Ops, func(o Op) bool { return t.EndsInFloat(&o) })
}

// FixedZeroPoint is the zero point that goes with FixedScale, for integers from lowest on.
func (o *Op) FixedZeroPoint(lowest int32) int32 {
	if o.FixedZero {
		return 0
	}
	return lowest
}

// FinestScale is the smallest scale that the output of Softmax id may have under Finer, 0 where it has FixedScale: for short rows, and for
// rows of unknown length.
func (o *Op) FinestScale(g *graph.Graph, id graph.NodeID) float32 {
	n := g.Node(id)
	if o.Finer == 0 || n.Op != "Softmax" {
		return 0
	}
	shape, most := g.Value(n.Inputs[0]).Shape, o.Finer
	from, to, err := graph.SoftmaxAxes(n, g.Opset(n.Domain), len(shape))
	if err != nil || len(shape) == 0 {
		return 0
	}
	for _, d := range shape[from:to] {
		if !d.Known() || d.N > 1<<20 {
			return 0
		}
		most *= int(d.N)
	}
	if finest := float32(1 / float64(most)); finest < o.FixedScale {
		return finest
	}
	return 0
}

// Export tells exporters what the target's reader accepts: what the operator changelog of ONNX, the parser and developer guide
// of TensorRT, and the QDQ optimizer of ONNX Runtime say. docs/targets.md explains the rules.
type Export struct {
	MinOpset int64 // lower opsets are converted upwards
	MaxOpset int64 // the highest opset that the oldest supported reader knows
	// FloatWeights: weights are written as float with a Q and a DQ behind them; otherwise as integers with a DQ.
	FloatWeights bool
	// RankZero: per-tensor scales and zero points are scalars, both always present.
	RankZero bool
	// SignedOnly, ZeroPointZero: no uint8, no zero point but 0.
	SignedOnly    bool
	ZeroPointZero bool
	// ChannelMultiple: channels should be multiples of it to run at full speed; 0: no preference.
	ChannelMultiple int
	// Int8Weights: int8 activations need int8 weights.
	Int8Weights bool
	// The optimizer of ONNX Runtime, and whoever works as it does, replaces an operator by an integer kernel only where these hold.
	// QuantizedOutputs: what the operator (with its activation) computes is read by one Q only.
	QuantizedOutputs bool
	// OneType: all quantized tensors of an operator have one integer type, weights apart.
	OneType bool
	// PassiveScale: an operator that moves elements has one scale and zero point on both sides.
	PassiveScale bool
	// SubsampleFirst: convolutions of one element with strides, where all readers of a tensor are such, read what a MaxPool of one element
	// with these strides leaves of the tensor.
	SubsampleFirst bool
	// GuardFloat: what dequantizes is not moved behind operators that do not commute with it: they read a Max with the lowest number.
	GuardFloat bool
	// RoundsPools: a MaxPool in float in front of integers is computed on them, in the layout of what stands before it, which is slow after
	// floats: a border to float costs nothing where all that reads it ends so.
	RoundsPools bool
	// SlowDepthwise: a convolution of one channel in and one out in each group takes no less time on integers than in float: its work pays
	// for no border.
	SlowDepthwise bool
	// EightBits: integers are multiplied only where both factors have eight bits. Between others the operator runs in float, between Q and DQ,
	// which takes longer than without them.
	EightBits bool
	// Open: there is no reader with patterns of its own, so that pairs may stand anywhere and have any integer type.
	Open bool
}

// ProfileNamed returns the arithmetic profile of a name, which may be that of the target's own; "" is the target's.
func (t *Target) ProfileNamed(name string) (qmath.Profile, error) {
	if name == "" {
		name = t.Profile
	}
	if t.Arithmetic != nil && name == t.Profile {
		return t.Arithmetic.Profile(name)
	}
	return qmath.ProfileNamed(name)
}

// Op returns the row for an operator type, nil if the target has none. Of domains other than ai.onnx only operators that a program brings
// along have one.
func (t *Target) Op(n *graph.Node) *Op {
	typ := n.Op
	if !n.IsONNX() {
		if n.Operator() == nil {
			return nil
		}
		typ = n.Domain + "::" + n.Op
	}
	if i := slices.IndexFunc(t.Ops, func(o Op) bool { return o.Type == typ }); i >= 0 {
		return &t.Ops[i]
	}
	return nil
}

// Reduces reports whether the weights of node id have the range ReducedWeight by default.
func (t *Target) Reduces(g *graph.Graph, id graph.NodeID) bool {
	n := g.Node(id)
	op := t.Op(n)
	return op != nil && len(op.Reduced) > 0 && !slices.ContainsFunc(op.Reduced, func(c Condition) bool { return !c.Holds(g, n) })
}

// Obstacle is why a target has no integers for a node, whatever is decided. Rule is the name of the condition that does not hold, or one of
// no-row, moves-only and gemm-rank.
type Obstacle struct{ Rule, Text string }

func (o *Obstacle) Error() string { return o.Text }

func obstacle(rule, format string, a ...any) error {
	return &Obstacle{rule, fmt.Sprintf(format, a...)}
}

// Supports reports whether node id may run on integers as far as the node by itself tells; the error is an *Obstacle.
func (t *Target) Supports(g *graph.Graph, id graph.NodeID) (*Op, error) {
	n := g.Node(id)
	op := t.Op(n)
	if op == nil {
		return nil, obstacle("no-row", "%s stays float on %s", n.Op, t.Name)
	}
	if n.Operator() != nil && !g.Passive(id) {
		return nil, obstacle("moves-only", "%s does not only move or select elements here", n.Op)
	}
	if n.Op == "Gemm" && g.GemmRank(n) > 2 && !slices.ContainsFunc(t.Ops, func(o Op) bool { return o.Type == "MatMul" }) {
		return nil, obstacle("gemm-rank", "a Gemm of more than two axes is a MatMul and an Add, and MatMul stays float on %s", t.Name)
	}
	for _, c := range op.Needs {
		if !c.Holds(g, n) {
			return nil, obstacle(c.Name, "%s %s", n.Op, c.Otherwise)
		}
	}
	return op, nil
}
