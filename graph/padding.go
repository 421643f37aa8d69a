package graph

import (
	"fmt"
	"math"
	"slices"

	"qwb/graph/tensor"
)

// Padding is where the tensors of a network have positions at which nothing stands: samples of several lengths are padded to one, and an
// input, the mask, says which positions are real. What is computed at the others is read by nobody who looks at the mask.
type Padding struct {
	// Mask is an input of shape [batch, positions], or with axes of 1 between the two, or [positions]. With axes of heads or queries between
	// them, and with [queries, positions] that are as many, a position is real if any query may look at it.
	Mask ValueID
	// Real is what the mask has where a position is real, 0 or 1; the other of both stands for padding.
	Real  float64
	low   bool     // the mask is added itself: 0 is real, and numbers that hide scores stand for padding
	roles [][]role // by value and axis; nil where a value has no positions, or follows from the mask alone
	full  bool     // the mask has an axis of samples
}

// role is what an axis of a tensor counts.
type role uint8

const (
	noRole role = iota
	samples
	positions
	both // positions of all samples in one axis
)

// masksBelow is what a number that is added to scores lies at or below where it hides them: -1e4, -1e9, the lowest float32 and -inf are in
// use.
const masksBelow = -1000

// FindPadding finds the mask of a network: an input that reaches a Softmax so that one of its two values, 0 and 1, makes what the Softmax
// reads very low (through Cast, Sub, Mul, Where, Expand and the like). Of several it is the first. name, if not empty, is the one to take.
// Without a mask it is nil, which is an error only where a name was given, unless it MarksSteps.
func FindPadding(g *Graph, name string) (*Padding, error) {
	if name != "" && g.MarksSteps(name) {
		return nil, nil
	}
	order, err := g.Order()
	if err != nil {
		return nil, err
	}
	for _, low := range []bool{false, true} {
		for _, square := range []bool{false, true} { // what marks positions itself comes first
			for _, v := range g.Inputs {
				if name != "" && g.Value(v).Name != name || g.Const(v) != nil {
					continue
				}
				if p := newPadding(g, order, v, low, square); p != nil {
					return p, nil
				}
			}
		}
	}
	if name != "" {
		return nil, fmt.Errorf("%q is no input that masks positions in front of a Softmax", name)
	}
	return nil, nil
}

// MarksSteps reports whether the input of a name has one element: as a mask it has no positions to mark, but steps of a sequence.
func (g *Graph) MarksSteps(name string) bool {
	return slices.ContainsFunc(g.Inputs, func(v ValueID) bool {
		return g.Value(v).Name == name && g.Value(v).Shape != nil &&
			!slices.ContainsFunc(g.Value(v).Shape, func(d Dim) bool { return !d.Known() || d.N != 1 })
	})
}

// StandsForNothing reports whether a mask of a step has a 0 there.
func StandsForNothing(mask *tensor.Tensor) bool {
	return mask != nil && !slices.ContainsFunc(numbers(mask), func(x float64) bool { return x != 0 })
}

// newPadding is that of an input that is a mask, added itself or not, with an axis of queries or without; nil for other inputs.
func newPadding(g *Graph, order []NodeID, mask ValueID, low, queries bool) *Padding {
	shape, other := g.Value(mask).Shape, 1.0
	lengths, ok := lengthsOf(shape)
	if !ok || (len(shape) > 1 && square(shape)) != queries || low && !g.Value(mask).DType.IsFloat() {
		return nil
	}
	if low {
		other = math.Inf(-1)
	}
	p := &Padding{Mask: mask, full: len(lengths) > 1, low: low}
	if p.Real, ok = hides(g, order, mask, other); !ok || low && p.Real != 0 {
		return nil
	}
	p.spread(g, order)
	return p
}

// lengthsOf are the dimensions of a mask that count samples and positions; positions alone where there are no samples.
func lengthsOf(s Shape) (of Shape, ok bool) {
	rank := len(s)
	switch {
	case rank == 0 || rank > 4:
		return nil, false
	case rank == 1:
		return s, true
	case rank == 2 && square(s): // queries and positions
		return s[1:], true
	case rank > 2 && s[rank-2].N != 1 && !square(s):
		return nil, false
	}
	return Shape{s[0], s[rank-1]}, true
}

// square reports whether the last two dimensions of a shape are the same and more than 1.
func square(s Shape) bool {
	a, b := s[len(s)-2], s[len(s)-1]
	return a == b && a.N != 1 && (a.Known() || a.Symbol != "")
}

// two is what a value is where all elements of the mask are 0, and where all are 1.
type two [2]float64

// hiding follows what comes of a mask.
type hiding struct {
	g  *Graph
	of map[ValueID]two
	// low: the mask is added itself, to something that has nothing to do with it, and joined has what it was added to: else it is data.
	low    bool
	joined map[ValueID]bool
	behind map[ValueID]bool // computed from the mask
}

// hides reports whether an input that is 0 or other hides anything in front of a Softmax, and whether it does not where it is 1 (other) or
// where it is 0.
func hides(g *Graph, order []NodeID, mask ValueID, other float64) (real float64, found bool) {
	h := &hiding{g: g, of: map[ValueID]two{mask: {0, other}}, low: other != 1, joined: map[ValueID]bool{},
		behind: map[ValueID]bool{mask: true}}
	for _, id := range order {
		n := g.Node(id)
		if len(n.Inputs) == 0 {
			continue
		}
		switch zero, one := h.hidden(n); {
		case zero && !one:
			return 1, true
		case one && !zero:
			return 0, true
		}
		if x, ok := h.step(n); ok && len(n.Outputs) == 1 {
			h.of[n.Outputs[0]] = x
		}
		h.join(n)
		if n.Op == "EmbedLayerNormalization" && len(n.Outputs) > 1 { // it counts its mask for Attention
			if x, ok := h.of[n.Input(7)]; ok && n.Outputs[1] != NoValue {
				h.of[n.Outputs[1]] = x
			}
		}
	}
	return 0, false
}

// join follows what is computed from the mask, and what of it is a mask that was added to something else.
func (h *hiding) join(n *Node) {
	is := func(of map[ValueID]bool) func(ValueID) bool { return func(v ValueID) bool { return of[v] } }
	behind, joined := slices.ContainsFunc(n.Inputs, is(h.behind)), slices.ContainsFunc(n.Inputs, is(h.joined))
	if n.Op == "Add" && behind {
		joined = joined || slices.ContainsFunc(n.Inputs, func(v ValueID) bool { return h.g.Const(v) == nil && !h.behind[v] })
	}
	for _, v := range n.Outputs {
		if v != NoValue && behind {
			h.behind[v], h.joined[v] = true, joined
		}
	}
}

// hidden reports whether a node is a Softmax, or has one inside, that gives nothing to what the mask has a 0 for, and a 1.
func (h *hiding) hidden(n *Node) (zero, one bool) {
	added, counted := NoValue, NoValue
	switch spec := n.Spec(); {
	case n.IsONNX() && spec != nil && spec.Kind == KindSoftmax:
		added = n.Input(0)
	case n.IsONNX() && n.Op == "Attention":
		added = n.Input(3)
		if added != NoValue && h.g.Value(added).DType == tensor.Bool {
			added, counted = NoValue, added
		}
	case n.Op == "Attention":
		counted, added = n.Input(3), n.Input(5)
	case n.Op == "MultiHeadAttention":
		counted, added = n.Input(4), n.Input(5)
	case n.Op == "GroupQueryAttention":
		counted, added = n.Input(5), n.Input(10)
	}
	if x, ok := h.of[added]; ok && (!h.low || h.joined[added] || added != n.Input(0)) {
		return x[0] <= masksBelow, x[1] <= masksBelow
	}
	if x, ok := h.of[counted]; ok { // lengths, too: they are larger where more is real
		return x[0] < x[1], x[1] < x[0]
	}
	return false, false
}

// step is what an operator makes of the mask; other tensors count as if they changed nothing.
func (h *hiding) step(n *Node) (x two, ok bool) {
	at := slices.IndexFunc(n.Inputs, func(v ValueID) bool { _, ok := h.of[v]; return ok })
	if at < 0 {
		return x, false
	}
	if n.HandsOn() {
		return h.of[n.Input(0)], at == 0
	}
	if !n.IsONNX() {
		return x, false
	}
	switch n.Op {
	case "Cast", "Expand", "Tile", "Slice", "Gather", "GatherND", "ReduceSum": // sums of masks are lengths
		return h.of[n.Input(0)], at == 0
	case "Where":
		for i := range x {
			a, b := h.operand(n.Input(1), i, 0), h.operand(n.Input(2), i, 0)
			c, masked := h.of[n.Input(0)]
			switch { // a condition that is another mask shows where this one matters
			case !masked && at == 1, masked && c[i] != 0:
				x[i] = a
			default:
				x[i] = b
			}
		}
		return x, true
	}
	for i := range x {
		f := maskOperators[n.Op]
		if f.of == nil || len(n.Inputs) > 2 {
			return x, false
		}
		b := 0.0
		if len(n.Inputs) == 2 {
			b = h.operand(n.Input(1), i, f.neutral)
		}
		if x[i] = f.of(h.operand(n.Input(0), i, f.neutral), b); math.IsNaN(x[i]) {
			return x, false
		}
	}
	return x, true
}

// operand is what a value is for one of the two values of the mask: of a constant its one number.
func (h *hiding) operand(v ValueID, i int, neutral float64) float64 {
	if x, ok := h.of[v]; ok {
		return x[i]
	}
	if v == NoValue || h.g.Const(v) == nil {
		return neutral
	}
	if x := numbers(h.g.Const(v)); len(x) > 0 && !slices.ContainsFunc(x, func(y float64) bool { return y != x[0] }) {
		return x[0]
	}
	return neutral
}

// maskOperators are the operators that masks are computed with, and what a tensor counts as that has nothing to do with the mask.
var maskOperators = map[string]struct {
	of      func(a, b float64) float64
	neutral float64
}{
	"Add":            {func(a, b float64) float64 { return a + b }, 0},
	"Sub":            {func(a, b float64) float64 { return a - b }, 0},
	"Mul":            {func(a, b float64) float64 { return a * b }, 1},
	"Div":            {func(a, b float64) float64 { return a / b }, 1},
	"Neg":            {func(a, _ float64) float64 { return -a }, 0},
	"Min":            {func(a, b float64) float64 { return min(a, b) }, math.Inf(1)},
	"Max":            {func(a, b float64) float64 { return max(a, b) }, math.Inf(-1)},
	"Not":            {func(a, _ float64) float64 { return truth(a == 0) }, 0},
	"And":            {func(a, b float64) float64 { return truth(a != 0 && b != 0) }, 1},
	"Or":             {func(a, b float64) float64 { return truth(a != 0 || b != 0) }, 0},
	"Equal":          {func(a, b float64) float64 { return truth(a == b) }, 0},
	"Greater":        {func(a, b float64) float64 { return truth(a > b) }, 0},
	"Less":           {func(a, b float64) float64 { return truth(a < b) }, 0},
	"GreaterOrEqual": {func(a, b float64) float64 { return truth(a >= b) }, 0},
	"LessOrEqual":    {func(a, b float64) float64 { return truth(a <= b) }, 0},
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// numbers are the elements of a tensor of a type that masks have, nil of another.
func numbers(t *tensor.Tensor) []float64 {
	switch x := t.Data.(type) {
	case []int64:
		return floats(x)
	case []int32:
		return floats(x)
	case []int8:
		return floats(x)
	case []uint8:
		if t.DType == tensor.Uint8 {
			return floats(x)
		}
	case []float32:
		return floats(x)
	case []float64:
		return x
	case []bool:
		out := make([]float64, len(x))
		for i, b := range x {
			out[i] = truth(b)
		}
		return out
	}
	return nil
}

func floats[T int64 | int32 | int8 | uint8 | float32](x []T) []float64 {
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = float64(v)
	}
	return out
}
