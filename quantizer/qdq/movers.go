package qdq

import (
	"fmt"

	"qwb/graph"
	"qwb/graph/tensor"
)

// moveCodes puts operators that move integers between DequantizeLinear and QuantizeLinear: moving numbers by one grid gives the
// same integers.
func (r *reader) moveCodes() error {
	order, err := r.g.Order()
	if err != nil {
		return fmt.Errorf("%s: %w", stage, err)
	}
	of := map[graph.ValueID]codesOf{} // by tensor of integers
	for _, v := range r.g.Inputs {    // tf2onnx turns inputs of integers before it dequantizes them: the meaning is found behind
		if meaning, ok := r.behind(v, maxMoves); ok {
			of[v] = meaning
		}
	}
	for _, id := range order {
		n := r.g.Node(id)
		switch {
		case isQuantize(n):
			of[n.Outputs[0]] = newCodes(n)
			continue
		case isDequantize(n):
			if _, known := of[n.Inputs[0]]; !known {
				of[n.Inputs[0]] = newCodes(n) // an input, or a constant
			}
			continue
		case !r.integers(n.Input(0)) || n.Spec() == nil || n.Op == "Shape" || n.Op == "Size":
			continue
		}
		if err := r.moveNode(id, of); err != nil {
			return err
		}
	}
	return nil
}

// throughFloat takes away a Cast to float32 and back between Q and DQ, which changes no number of 8 or fewer bits:
// paddle2onnx 2 writes float8 so.
func throughFloat(g *graph.Graph) {
	graph.InferShapes(g)
	isCast := func(id graph.NodeID) bool {
		if id == graph.NoNode || !g.Alive(id) {
			return false
		}
		n := g.Node(id)
		return n.Op == "Cast" && standard(n.Domain) && n.Input(0) != graph.NoValue && n.Output(0) != graph.NoValue
	}
	for _, id := range g.Nodes() {
		if !isCast(id) {
			continue
		}
		in, out := g.Node(id).Inputs[0], g.Node(id).Outputs[0]
		inner := g.Producer(in)
		if !isCast(inner) || g.IsOutput(out) || g.Value(in).DType != tensor.Float32 {
			continue
		}
		codes := g.Node(inner).Inputs[0]
		if _, float := floats[g.Value(codes).DType]; float && g.Value(out).DType == g.Value(codes).DType {
			g.ReplaceUses(out, codes)
			g.RemoveNode(id)
			if len(g.Uses(in)) == 0 && !g.IsOutput(in) {
				g.RemoveNode(inner)
			}
		}
	}
}

// maxMoves bounds how many operators may move integers one after the other in front of a DequantizeLinear.
const maxMoves = 64

// behind says what the integers of an input mean: what a DequantizeLinear says that reads them, or reads what moves them.
func (r *reader) behind(v graph.ValueID, most int) (codesOf, bool) {
	if !r.integers(v) || most == 0 {
		return codesOf{}, false
	}
	for _, u := range r.g.Uses(v) {
		n := r.g.Node(u.Node)
		if isDequantize(n) && u.Index == 0 {
			return newCodes(n), true
		}
		if u.Index == 0 && n.Op != "Pad" && len(n.Outputs) == 1 && r.g.Passive(u.Node) {
			if meaning, ok := r.behind(n.Outputs[0], most-1); ok {
				return meaning, true
			}
		}
	}
	return codesOf{}, false
}

// codesOf says what integers mean: scale, zero point and axis as a Q or DQ names them.
type codesOf struct {
	scale, zero graph.ValueID
	plain       bool // no blocks: one scale, if there is one
}

func newCodes(n *graph.Node) codesOf {
	return codesOf{n.Input(1), n.Input(2), n.Attr("block_size") == nil}
}

// integers reports whether v holds integers of a type that activations have.
func (r *reader) integers(v graph.ValueID) bool {
	if v == graph.NoValue || r.g.Const(v) != nil {
		return false
	}
	switch r.g.Value(v).DType {
	case tensor.Int8, tensor.Uint8, tensor.Int16, tensor.Uint16:
		return true
	}
	return false
}

// moveNode turns one operator on integers. Integers of an unknown meaning are left alone: they may be bytes of text.
func (r *reader) moveNode(id graph.NodeID, of map[graph.ValueID]codesOf) error {
	n := r.g.Node(id)
	meaning, known := of[n.Inputs[0]]
	if !known {
		return nil
	}
	moves := r.g.Passive(id) && n.Op != "Pad" // a pad adds integers 0, which is another number
	if !moves && n.Op != "Concat" {
		return r.fail(id, "it computes with integers; only operators that move them are known")
	}
	if !meaning.plain || r.scales(meaning) != 1 {
		return r.fail(id, "it moves integers that have several scales")
	}
	for i, v := range n.Inputs {
		if i > 0 && !r.integers(v) || v == graph.NoValue {
			continue
		}
		if i > 0 {
			if m, ok := of[v]; n.Op != "Concat" || !ok || !r.equal(m, meaning) {
				return r.fail(id, "input %d: integers of another scale than input 0", i)
			}
		}
		real, err := r.dequantizer(v, meaning.scale, meaning.zero, 1)
		if err != nil {
			return r.fail(id, "input %d: %w", i, err)
		}
		r.g.SetInput(id, i, real)
	}
	for i, v := range append([]graph.ValueID(nil), r.g.Node(id).Outputs...) {
		if v == graph.NoValue || !r.integers(v) {
			continue
		}
		val := *r.g.Value(v)
		real, err := r.value(val.Name+"_real", val.Shape)
		if err != nil {
			return err
		}
		if err := r.g.SetOutput(id, i, real); err != nil {
			return r.fail(id, "output %d: %w", i, err)
		}
		q := graph.Node{Op: "QuantizeLinear", Inputs: []graph.ValueID{real, meaning.scale}, Outputs: []graph.ValueID{v}}
		if meaning.zero != graph.NoValue {
			q.Inputs = append(q.Inputs, meaning.zero)
		} else if val.DType != tensor.Uint8 {
			return r.fail(id, "its integers have no zero point, which would say their type")
		}
		if _, err := r.g.AddNode(q); err != nil {
			return err
		}
		of[v] = meaning
	}
	return nil
}

func (r *reader) scales(c codesOf) int {
	if t := r.g.Const(c.scale); t != nil {
		return t.Len()
	}
	return 0
}

func (r *reader) equal(a, b codesOf) bool {
	return r.sameConst(a.scale, b.scale) && r.sameConst(a.zero, b.zero)
}

func (r *reader) sameConst(a, b graph.ValueID) bool {
	if a == b {
		return true
	}
	x, y := r.g.Const(a), r.g.Const(b)
	return x != nil && y != nil && x.DType == y.DType && x.Len() == 1 && y.Len() == 1 &&
		tensor.Equal(&tensor.Tensor{DType: x.DType, Data: x.Data},
			&tensor.Tensor{DType: y.DType, Data: y.Data})
}
