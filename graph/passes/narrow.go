package passes

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels/qmath"
)

// Narrowing says how operators that compute in float16 or bfloat16 are written.
type Narrowing uint8

const (
	// Typed: their tensors have that type, with a Cast at every border and typed constants. Operators that have no such form in the graph's
	// opset (NarrowSince) are Rounded.
	Typed Narrowing = iota
	// Rounded: they stay float32, and what they read and compute passes through that type by a pair of Casts: what Typed computes with float32
	// sums, for whoever has no kernels of the type.
	Rounded
	// RoundedBrain: those in bfloat16 are Rounded, those in float16 Typed.
	RoundedBrain
)

// Narrow makes nodes of g compute in the type that to says, tensor.Float16 or tensor.BFloat16; of others it is tensor.Undefined. Only
// float32 data change: shapes, scales and conditions stay. Names of inputs, outputs and of values that others read stay with float32, and
// so do those of narrow tensors that nobody reads in float32. Bodies of control flow are not touched: their nodes are rounded. Shapes and
// types must have been inferred. A constant with a number that the type does not hold is an error that names it.
func Narrow(g *graph.Graph, form Narrowing, to func(graph.NodeID) tensor.DType) error {
	n := &narrower{g: g, narrow: map[narrowKey]graph.ValueID{}, wide: map[graph.ValueID]graph.ValueID{}, native: map[graph.ValueID]bool{}}
	order, err := g.Order()
	if err != nil {
		return err
	}
	types := make([]tensor.DType, g.NumNodes())
	typed := make([]bool, g.NumNodes())
	for _, id := range order {
		if types[id] = to(id); types[id] != tensor.Undefined {
			since := NarrowSince(g.Node(id), types[id])
			typed[id] = (form == Typed || form == RoundedBrain && types[id] != tensor.BFloat16) && since > 0 && since <= g.Opset("")
		}
	}
	// Outputs first: inputs then find narrow forms.
	for _, id := range order {
		if types[id] == tensor.Undefined {
			continue
		}
		for i := range g.Node(id).Outputs {
			if err := n.output(id, i, types[id], typed[id]); err != nil {
				return g.ErrorAt("", id, err)
			}
		}
	}
	for _, id := range order {
		if types[id] == tensor.Undefined {
			continue
		}
		for i := range g.Node(id).Inputs {
			if err := n.input(id, i, types[id], typed[id]); err != nil {
				return g.ErrorAt("", id, err)
			}
		}
	}
	return n.widen()
}

type narrowKey struct {
	value graph.ValueID
	dtype tensor.DType
}

type narrower struct {
	g      *graph.Graph
	narrow map[narrowKey]graph.ValueID     // value -> its narrow form
	wide   map[graph.ValueID]graph.ValueID // narrow tensor -> its float32 form, of inputs and constants of Rounded operators
	made   []madeNarrow                    // values whose producer computes a narrow form now, in order
	native map[graph.ValueID]bool          // narrow forms that a producer computes: the float32 value is made of them
}

type madeNarrow struct {
	value, narrow graph.ValueID
	typed         bool
}

// output gives a node a narrow output beside the float32 value.
func (n *narrower) output(id graph.NodeID, i int, d tensor.DType, typed bool) error {
	g := n.g
	v := g.Node(id).Outputs[i]
	if !n.data(v) || !socket(g.Node(id), i, false) || typed && slices.Contains(wideOutputs[g.Node(id).Op], i) {
		return nil
	}
	val := *g.Value(v)
	add := func(d tensor.DType) (graph.ValueID, error) {
		return g.AddValue(graph.Value{Name: g.FreshName(val.Name + "_" + d.String()), DType: d, Shape: val.Shape})
	}
	narrow, err := add(d)
	if err != nil {
		return err
	}
	if !typed {
		raw, err := add(tensor.Float32)
		if err != nil {
			return err
		}
		if err := g.SetOutput(id, i, raw); err != nil {
			return err
		}
		if err := n.cast(raw, narrow); err != nil {
			return err
		}
	} else if err := g.SetOutput(id, i, narrow); err != nil {
		return err
	}
	n.narrow[narrowKey{v, d}] = narrow
	n.made, n.native[narrow] = append(n.made, madeNarrow{v, narrow, typed}), true
	return nil
}

// input gives a node the narrow form of what it reads.
func (n *narrower) input(id graph.NodeID, i int, d tensor.DType, typed bool) error {
	g := n.g
	node := g.Node(id)
	if i >= len(node.Inputs) { // absent ones at the end went with one that was set
		return nil
	}
	v := node.Inputs[i]
	if !n.data(v) || typed && slices.Contains(wideInputs[node.Op], i) || !typed && !socket(node, i, true) {
		return nil
	}
	narrow, err := n.narrowed(v, d)
	if err != nil {
		return err
	}
	if typed {
		g.SetInput(id, i, narrow)
		return nil
	}
	if n.native[narrow] {
		return nil
	}
	wide, ok := n.wide[narrow]
	if !ok {
		name := g.FreshName(g.Value(v).Name + "_rounded")
		if c := g.Const(narrow); c != nil {
			wide = g.AddConst(name, widened(c))
		} else if wide, err = g.AddValue(graph.Value{Name: name, DType: tensor.Float32, Shape: g.Value(v).Shape}); err != nil {
			return err
		} else if err = n.cast(narrow, wide); err != nil {
			return err
		}
		n.wide[narrow] = wide
	}
	g.SetInput(id, i, wide)
	return nil
}

// narrowed returns the narrow form of a value.
func (n *narrower) narrowed(v graph.ValueID, d tensor.DType) (graph.ValueID, error) {
	g := n.g
	key := narrowKey{v, d}
	if out, ok := n.narrow[key]; ok {
		return out, nil
	}
	val := g.Value(v)
	name := g.FreshName(val.Name + "_" + d.String())
	if val.Const != nil {
		c, err := narrowedConst(val.Const, d)
		if err != nil {
			return v, fmt.Errorf("constant %q: %w", val.Name, err)
		}
		n.narrow[key] = g.AddConst(name, c)
		return n.narrow[key], nil
	}
	out, err := g.AddValue(graph.Value{Name: name, DType: d, Shape: val.Shape})
	if err != nil {
		return out, err
	}
	n.narrow[key] = out
	return out, n.cast(v, out)
}

// widen computes the float32 values that are still read, and drops the others.
func (n *narrower) widen() error {
	g := n.g
	for _, m := range n.made {
		if len(g.Uses(m.value)) > 0 || g.IsOutput(m.value) || g.Captured(m.value) {
			if err := n.cast(m.narrow, m.value); err != nil {
				return err
			}
			continue
		}
		name := g.Value(m.value).Name
		g.RemoveValue(m.value)
		if m.typed {
			if err := g.Rename(m.narrow, name); err != nil {
				return err
			}
		}
	}
	for _, v := range g.Values() {
		for _, d := range []tensor.DType{tensor.Float16, tensor.BFloat16} {
			if narrow, ok := n.narrow[narrowKey{v, d}]; ok && g.Const(v) != nil && len(g.Uses(v)) == 0 && !g.IsOutput(v) && !g.IsInput(v) &&
				!g.Captured(v) {
				name := g.Value(v).Name
				g.RemoveValue(v)
				if len(g.Uses(narrow)) == 0 {
					g.RemoveValue(narrow) // only a wide form of it is read
					narrow = n.wide[narrow]
				}
				if err := g.Rename(narrow, name); err != nil {
					return err
				}
				break
			}
		}
	}
	return nil
}

// cast adds a Cast from one value to another, by the type of the latter.
func (n *narrower) cast(from, to graph.ValueID) error {
	name := n.g.FreshName(n.g.Value(to).Name + "_Cast_node")
	_, err := n.g.AddNode(graph.Node{Name: name, Op: "Cast", Attrs: []graph.Attr{graph.Int("to", int64(n.g.Value(to).DType))},
		Inputs:  []graph.ValueID{from},
		Outputs: []graph.ValueID{to}})
	return err
}

// data reports whether a value holds float32 numbers.
func (n *narrower) data(v graph.ValueID) bool {
	return v != graph.NoValue && n.g.Value(v).DType == tensor.Float32
}

// socket reports whether an input or output carries data.
func socket(n *graph.Node, i int, in bool) bool {
	switch s := n.Spec(); {
	case s == nil:
		return true
	case in:
		return s.InSocket(i) == graph.SocketData
	default:
		return s.OutSocket(i) == graph.SocketData
	}
}

// narrowedConst converts a constant. Numbers below the smallest of the type become 0, as in a Cast.
func narrowedConst(t *tensor.Tensor, d tensor.DType) (*tensor.Tensor, error) {
	out := tensor.New(d, t.Shape...)
	codes := tensor.Of[uint16](out)
	bits := qmath.HalfBits
	p := qmath.FP16
	if d == tensor.BFloat16 {
		bits, p = qmath.BrainBits, qmath.BF16
	}
	for i, x := range t.ToRowMajor().F32() {
		if math.IsInf(float64(p.Round(x)), 0) && !math.IsInf(float64(x), 0) {
			return nil, fmt.Errorf("element %d is %g, which %s does not hold", i, x, d)
		}
		codes[i] = bits(x)
	}
	return out, nil
}

// widened is a narrow constant as float32.
func widened(t *tensor.Tensor) *tensor.Tensor {
	from := qmath.FromHalf
	if t.DType == tensor.BFloat16 {
		from = qmath.FromBrain
	}
	out := tensor.New(tensor.Float32, t.Shape...)
	for i, b := range tensor.Of[uint16](t) {
		out.F32()[i] = from(b)
	}
	return out
}

// Inputs and outputs that are float32 whatever the type of the data is.
var (
	wideInputs  = map[string][]int{"Resize": {1, 2}, "Upsample": {1}, "Dropout": {1}}
	wideOutputs = map[string][]int{"LayerNormalization": {1, 2}}
)

// NarrowSince is the first opset of ai.onnx in which a node has a form for tensors of type d, float16 or bfloat16; 0: there is none. From
// the type constraints of ONNX's operator schemas, from opset 13 on; what casts, makes constants or has bodies is left out on purpose.
func NarrowSince(n *graph.Node, d tensor.DType) int64 {
	if !n.IsONNX() || n.Spec() == nil || len(n.Subgraphs()) > 0 {
		return 0
	}
	table := halfSince
	if d == tensor.BFloat16 {
		table = brainSince
	}
	for _, row := range table {
		if slices.Contains(strings.Fields(row.ops), n.Op) {
			return row.opset
		}
	}
	return 13
}

type sinceRow struct {
	opset int64
	ops   string
}

const noNarrow = "Cast CastLike Constant ConstantOfShape EyeLike RandomNormal RandomNormalLike RandomUniform RandomUniformLike Bernoulli " +
	"Multinomial MelWeightMatrix NonMaxSuppression DynamicQuantizeLinear QuantizeLinear DequantizeLinear TfIdfVectorizer SequenceAt " +
	"SequenceConstruct SequenceEmpty SequenceErase SequenceInsert SequenceLength SequenceMap SplitToSequence ConcatFromSequence Optional " +
	"OptionalGetElement OptionalHasElement"

var halfSince = []sinceRow{{0, noNarrow}, {14, "CumSum HardSwish Trilu"}, {16, "GridSample"},
	{17, "BlackmanWindow DFT HammingWindow HannWindow LayerNormalization STFT"},
	{18, "CenterCropPad Col2Im GroupNormalization Mish"}, {19, "DeformConv"}, {20, "AffineGrid Gelu IsInf"},
	{23, "Attention RMSNormalization RotaryEmbedding"},
	{24, "Swish TensorScatter"}, {27, "Range"}, {28, "Celu"}}

var brainSince = []sinceRow{{0, noNarrow + " Shrink"}, {14, "BatchNormalization CumSum Trilu"},
	{16, "GreaterOrEqual LeakyRelu LessOrEqual PRelu Where"},
	{17, "BlackmanWindow DFT HammingWindow HannWindow LayerNormalization STFT"}, {18, "CenterCropPad Col2Im GroupNormalization"},
	{20, "AffineGrid Gelu IsInf"},
	{22, "Acos Acosh Asin Asinh Atan Atanh AveragePool Conv ConvTranspose Cos Cosh DeformConv Det Elu GRU GlobalAveragePool GlobalLpPool " +
		"GlobalMaxPool GridSample HardSigmoid HardSwish InstanceNormalization LSTM LpNormalization LpPool MaxPool MaxRoiPool MaxUnpool Mish " +
		"RNN RoiAlign Round Selu Sin Sinh Softplus Softsign Tan ThresholdedRelu"},
	{23, "Attention RMSNormalization RotaryEmbedding"}, {24, "Swish TensorScatter TopK"}, {27, "Range"},
	{28, "Celu Compress Einsum OneHot ReverseSequence Unique"}}
