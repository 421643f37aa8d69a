package calib

import (
	"fmt"
	"math"
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
)

// Infinity is where a network in float makes infinite numbers of finite ones.
type Infinity struct {
	Node               graph.NodeID
	Value              graph.ValueID
	Negative, Positive uint64 // elements of Value, of all samples
	Of                 uint64 // elements there were
	Why, Cure          string
}

// infinities say why an operator makes infinities, or NaN, and what helps.
var infinities = map[string][2]string{
	"Div":        {"it divides by 0", "add a small number to its divisor, or keep it away from 0 by a Max or Clip in front"},
	"Mod":        {"it divides by 0", "keep its divisor away from 0"},
	"Reciprocal": {"it divides by 0", "add a small number to its input, or keep it away from 0 by a Max or Clip in front"},
	"Log":        {"it takes the logarithm of 0 or less", "add a small number to its input, or keep it above 0 by a Max or Clip in front"},
	"Pow": {"0 is raised to a negative power, a negative number to a fraction, or the result leaves float32",
		"keep its input above 0"},
	"Sqrt":  {"it takes the root of a negative number", "keep its input at 0 or above by a Max or Clip in front"},
	"Atanh": {"its input reaches 1 or -1", "keep its input inside of them by a Clip in front"},
	"Acosh": {"its input lies below 1", "keep its input at 1 or above by a Max or Clip in front"},
	"Acos":  {"its input leaves [-1, 1]", "keep its input inside by a Clip in front"},
	"Asin":  {"its input leaves [-1, 1]", "keep its input inside by a Clip in front"},
}

// CureOf says of an operator why it makes numbers that are not finite, and what helps.
func CureOf(op string) (why, cure string) {
	if row, ok := infinities[op]; ok {
		return row[0], row[1]
	}
	return "its result leaves float32", "scale or limit what it reads"
}

// MadeInfinite returns the first operator, in the order of execution, that made infinite numbers although none that it read was one; nil:
// there is none. Minus infinity that only masks are made of counts as none: what reads it, through operators that move, add, choose or
// limit from below, are Softmax, ArgMax, TopK and maxima. g is the graph whose statistics these are.
func (s *Stats) MadeInfinite(g *graph.Graph) *Infinity {
	order, err := g.Order()
	if err != nil {
		return nil
	}
	for _, id := range order {
		n := g.Node(id)
		if n.Op == "ConstantOfShape" || n.Op == "Cast" || len(n.Subgraphs()) > 0 ||
			slices.ContainsFunc(n.Inputs, s.mayBeInfinite(g)) {
			continue
		}
		for _, v := range n.Outputs {
			if v == graph.NoValue {
				continue
			}
			t := s.Tensor(g.Value(v).Name)
			if t == nil || t.State.Infinite() == 0 {
				continue
			}
			i := &Infinity{Node: id, Value: v, Of: t.State.Count() + t.State.Infinite()}
			if i.Negative, i.Positive = t.State.Inf(); i.Positive == 0 && onlyMasks(g, v, map[graph.ValueID]bool{}) {
				continue
			}
			i.Why, i.Cure = CureOf(n.Op)
			return i
		}
	}
	return nil
}

// mayBeInfinite reports whether a value has infinities, or floats that nobody has seen.
func (s *Stats) mayBeInfinite(g *graph.Graph) func(v graph.ValueID) bool {
	return func(v graph.ValueID) bool {
		if v == graph.NoValue {
			return false
		}
		if t := g.Const(v); t != nil {
			defer g.Forget(t)
			return slices.ContainsFunc(t.F32(), func(x float32) bool { return math.IsInf(float64(x), 0) })
		}
		d := g.Value(v).DType
		if d != tensor.Float32 {
			return d.IsFloat()
		}
		t := s.Tensor(g.Value(v).Name)
		return t == nil || t.State.Infinite() > 0
	}
}

// onlyMasks reports whether everything that reads a value, and there is something, takes minus infinity for "not this one".
func onlyMasks(g *graph.Graph, v graph.ValueID, seen map[graph.ValueID]bool) bool {
	uses := g.Uses(v)
	if len(uses) == 0 || g.IsOutput(v) {
		return false
	}
	for _, u := range uses {
		n := g.Node(u.Node)
		switch n.Op {
		case "Softmax", "LogSoftmax", "Hardmax", "ArgMax", "TopK", "ReduceMax", "ReduceLogSumExp", "MaxPool", "GlobalMaxPool":
			continue
		case "Max", "Clip":
			limits := func(v graph.ValueID) bool { return v != graph.NoValue && g.Const(v) != nil }
			if n.Op == "Clip" || slices.ContainsFunc(n.Inputs, limits) {
				return false // a limit that hides it
			}
		case "Expand", "Slice", "Gather", "Concat", "Split", "Tile", "Cast", "Add", "Where", "Min", "Mul":
		default:
			if !n.HandsOn() {
				return false
			}
		}
		for _, o := range n.Outputs {
			if o != graph.NoValue && !seen[o] {
				if seen[o] = true; !onlyMasks(g, o, seen) {
					return false
				}
			}
		}
	}
	return true
}

// Text says what was found, but for the samples and the cure.
func (i *Infinity) Text(g *graph.Graph) string {
	what := "infinite"
	switch {
	case i.Negative == 0:
		what = "+inf"
	case i.Positive == 0:
		what = "-inf"
	}
	return fmt.Sprintf("%d of %d values of %q are %s in float, of finite numbers: %s (%s)", i.Negative+i.Positive, i.Of,
		g.Value(i.Value).Name, what, i.Why, g.Node(i.Node).Op)
}
