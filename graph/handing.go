package graph

// handing lists the operators of ai.onnx whose first output has the elements of the first input, all of them and no other, and what
// becomes of these.
var handing = map[string]struct{ shape, order bool }{
	"Identity": {}, "Dropout": {},
	"Reshape": {shape: true}, "Flatten": {shape: true}, "Squeeze": {shape: true}, "Unsqueeze": {shape: true},
	"Transpose": {shape: true, order: true},
}

// HandsOn reports whether the node's first output has the elements of its first input, all of them and no other, in whatever shape and
// order.
func (n *Node) HandsOn() bool {
	_, ok := handing[n.Op]
	return ok && n.IsONNX()
}

// Reshapes reports whether all that the node does is to give the elements of its first input, in their order, another shape.
func (n *Node) Reshapes() bool { return n.HandsOn() && handing[n.Op].shape && !handing[n.Op].order }

// HandsOnInOrder reports whether the node's first output has the elements of its first input, all of them and no other, in their order: it
// moves nothing in memory.
func (n *Node) HandsOnInOrder() bool { return n.HandsOn() && !handing[n.Op].order }

// HandedOn lists v and the values that it has its elements from, all of them, in another shape or order: the last one is computed, an
// input or a constant.
func (g *Graph) HandedOn(v ValueID) []ValueID {
	list := []ValueID{v}
	for v != NoValue && g.Producer(v) != NoNode && g.Node(g.Producer(v)).HandsOn() {
		v = g.Node(g.Producer(v)).Input(0)
		list = append(list, v)
	}
	return list
}

// ScoresAt is the Softmax, LogSoftmax or ArgMax that v comes from with nothing between but what hands elements on: its input 0 are class
// scores where v is an output. It is nil where there is none, and where that input is a constant.
func (g *Graph) ScoresAt(v ValueID) *Node {
	list := g.HandedOn(v)
	last := list[len(list)-1]
	if last == NoValue || g.Producer(last) == NoNode {
		return nil
	}
	n := g.Node(g.Producer(last))
	switch {
	case !n.IsONNX() || n.Input(0) == NoValue || g.Const(n.Input(0)) != nil:
	case n.Op == "Softmax", n.Op == "LogSoftmax", n.Op == "ArgMax":
		return n
	}
	return nil
}
