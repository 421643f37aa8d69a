package target

import (
	"fmt"
	"math"

	"qwb/graph"
	"qwb/graph/tensor"
)

// findPieces finds the nodes that stay float unless somebody decides otherwise: each is a piece of a root, a quotient or a logarithm of a
// sum, a square or a difference that the graph has written out (variances, norms, sums of exponentials). On a grid of integers
// a quiet sample's square becomes 0, and the difference of two numbers that were rounded becomes negative: the root is NaN and the quotient
// infinite where the float network has ordinary numbers. Kernels for what is one operator (LayerNormalization) compute these in float too.
// A divisor that is a product of two computed tensors, as in attention without Softmax, is far larger than what it divides and often shares
// its tensor, and so do their factors: one scale shows the divisor alone.
func (b *Bound) findPieces() {
	b.Pieces = make([]string, b.Graph.NumNodes())
	for _, id := range b.Order {
		n := b.Graph.Node(id)
		if !n.IsONNX() {
			continue
		}
		at, what := underRoot(b.Graph, n)
		if at < 0 {
			continue
		}
		w := &pieces{b: b, log: n.Op == "Log", quotient: what == "quotient", seen: map[graph.ValueID]bool{},
			why: fmt.Sprintf("a piece of the %s of %q, where numbers that were rounded give NaN, infinity or 0", what, n.Name)}
		if w.operand(n.Input(at)) {
			w.mark(id)
		}
	}
}

// underRoot returns which input of a node must not be rounded to 0 or below, and what the node makes of it; -1 where there is none.
func underRoot(g *graph.Graph, n *graph.Node) (at int, what string) {
	switch n.Op {
	case "Sqrt", "ReduceL2":
		return 0, "root"
	case "Reciprocal":
		return 0, "quotient"
	case "Log", "ReduceLogSum", "ReduceLogSumExp":
		return 0, "logarithm"
	case "Div":
		if g.Const(n.Input(1)) == nil {
			return 1, "quotient"
		}
	case "Pow":
		if e, ok := exponent(g, n); !ok || e < 0 || e != math.Trunc(e) {
			return 0, "power"
		}
	}
	return -1, ""
}

// exponent is the one constant exponent of a Pow.
func exponent(g *graph.Graph, n *graph.Node) (float64, bool) {
	c := g.Const(n.Input(1))
	if c == nil || c.Len() != 1 {
		return 0, false
	}
	switch c.DType {
	case tensor.Float32:
		return float64(c.F32()[0]), true
	case tensor.Int64:
		return float64(c.I64()[0]), true
	case tensor.Int32:
		return float64(tensor.Of[int32](c)[0]), true
	}
	return 0, false
}

// pieces walks back from one operand.
type pieces struct {
	b             *Bound
	log, quotient bool // what the operand is of
	why           string
	seen          map[graph.ValueID]bool // what it found there, by value that operand was asked about
}

func (w *pieces) mark(id graph.NodeID) {
	if w.b.Pieces[id] == "" {
		w.b.Pieces[id] = w.why
	}
}

// reduces lists operators that make one number of many, moves those that change no number or only its sign or
// limits, beside those that hand all on.
var (
	reduces = set("ReduceMean", "ReduceSum", "ReduceSumSquare", "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "GlobalAveragePool",
		"AveragePool", "GlobalLpPool", "LpPool", "CumSum")
	moves = set("Expand", "Cast", "Slice", "Gather", "Split", "Clip", "Relu", "Abs", "Neg", "Tile")
	joins = set("Add", "Sub", "Mul", "Div", "Sum", "Mean", "Max", "Min", "Where", "Concat")
)

// isMove reports whether a node of ai.onnx gives the numbers of its first input, some or all of them, at most with other signs or limits.
func isMove(n *graph.Node) bool { return n.HandsOn() || moves[n.Op] }

func set(names ...string) map[string]bool {
	m := map[string]bool{}
	for _, n := range names {
		m[n] = true
	}
	return m
}

// producer is the node of ai.onnx that computes a tensor, nil for all others.
func (w *pieces) producer(v graph.ValueID) *graph.Node {
	if v == graph.NoValue {
		return nil
	}
	p := w.b.Graph.Producer(v)
	if p == graph.NoNode {
		return nil
	}
	if n := w.b.Graph.Node(p); n.IsONNX() {
		return n
	}
	return nil
}

// operand marks what an operand is made of, through sums and differences, back to squares and reductions, and reports whether there are
// any. A difference is one by itself.
func (w *pieces) operand(v graph.ValueID) bool {
	if found, ok := w.seen[v]; ok {
		return found
	}
	w.seen[v] = false
	n := w.producer(v)
	if n == nil {
		return false
	}
	found := false
	switch {
	case reduces[n.Op], w.square(n):
		w.inner(n.Input(0))
		found = true
	case n.Op == "Softmax" && w.log:
		found = true
	case w.quotient && w.product(n):
		for _, in := range n.Inputs {
			if p := w.behindMoves(in); p != nil && w.product(p) {
				w.mark(p.ID)
			}
		}
		found = true
	case isMove(n):
		found = w.operand(n.Input(0))
	case joins[n.Op]:
		found = n.Op == "Sub"
		for _, in := range n.Inputs {
			found = w.operand(in) || found
		}
	}
	if found {
		w.mark(n.ID)
	}
	w.seen[v] = found
	return found
}

// product reports whether a node is the product of two tensors that are computed.
func (w *pieces) product(n *graph.Node) bool {
	return (n.Op == "MatMul" || n.Op == "Gemm") && w.b.Graph.Const(n.Input(0)) == nil && w.b.Graph.Const(n.Input(1)) == nil
}

// square reports whether a node multiplies a tensor by itself.
func (w *pieces) square(n *graph.Node) bool {
	if n.Op == "Mul" {
		return n.Input(0) == n.Input(1)
	}
	e, ok := exponent(w.b.Graph, n)
	return n.Op == "Pow" && ok && e >= 2 && e == math.Trunc(e)
}

// inner marks what is squared or summed as far as it is a piece too: a square, an exponential, another reduction, or the distance from one.
// The tensor that all of it is about stays what it is.
func (w *pieces) inner(v graph.ValueID) bool {
	n := w.producer(v)
	if n == nil {
		return false
	}
	found := false
	switch {
	case reduces[n.Op], w.square(n):
		w.inner(n.Input(0))
		found = true
	case n.Op == "Exp":
		found = true
	case isMove(n):
		found = w.inner(n.Input(0))
	case n.Op == "Sub", n.Op == "Add": // x - mean(x), mean(x) + eps
		for _, in := range n.Inputs {
			found = w.reduced(in) && w.inner(in) || found
		}
	}
	if found {
		w.mark(n.ID)
	}
	return found
}

// reduced reports whether a tensor is a reduction, moved at most.
func (w *pieces) reduced(v graph.ValueID) bool {
	n := w.behindMoves(v)
	return n != nil && reduces[n.Op]
}

// behindMoves is the node that computes a tensor before it is moved.
func (w *pieces) behindMoves(v graph.ValueID) *graph.Node {
	n := w.producer(v)
	for n != nil && (isMove(n) || n.Op == "Pad") {
		n = w.producer(n.Input(0))
	}
	return n
}
