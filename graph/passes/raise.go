package passes

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"qwb/graph"
	"qwb/graph/tensor"
)

// The range of opsets RaiseOpset converts between.
const (
	MinOpset = 7
	MaxOpset = 25
)

// RaiseOpset converts g, and the bodies in it, from the version of ai.onnx it imports to a later one, to at most. Operators whose meaning
// or form changed on the way are rewritten so that outputs stay the same; value names stay as well. Operators of other
// domains are not touched. A graph that is at the version already, or later, is left alone.
//
// The error names every node for which no conversion is known; g is then unchanged.
func RaiseOpset(g *graph.Graph, to int64) (*Log, error) {
	from := g.Opset("")
	log := &Log{Rounds: 1}
	if from >= to {
		return log, nil
	}
	if from < MinOpset || to > MaxOpset {
		return log, fmt.Errorf("raise opset: from %d to %d is not supported, only %d to %d", from, to, MinOpset, MaxOpset)
	}
	work := g.Clone()
	graph.InferShapes(work)
	r := &raiser{log: log, names: map[string]bool{}}
	r.collect(work)
	for v := from + 1; v <= to; v++ {
		r.version = v
		r.graph(work, v)
	}
	if len(r.errs) > 0 {
		return log, fmt.Errorf("raise opset from %d to %d: %w", from, to, errors.Join(r.errs...))
	}
	*g = *work
	return log, nil
}

// raiser converts a graph version by version.
type raiser struct {
	g       *graph.Graph // the one being converted
	version int64        // converted to
	names   map[string]bool
	log     *Log
	errs    []error
}

// conversion rewrites a node from the form before a version to that of the version. It may only add nodes and values through the raiser.
type conversion func(r *raiser, id graph.NodeID) error

// collect records the names of all values: those of a body must differ from those around it.
func (r *raiser) collect(g *graph.Graph) {
	for _, v := range g.Values() {
		r.names[g.Value(v).Name] = true
	}
	for _, id := range g.Nodes() {
		for _, sub := range g.Node(id).Subgraphs() {
			r.collect(sub)
		}
	}
}

func (r *raiser) graph(g *graph.Graph, version int64) {
	for _, id := range g.Nodes() {
		for _, sub := range g.Node(id).Subgraphs() {
			r.graph(sub, version)
		}
		r.g = g
		n := g.Node(id)
		if !n.IsONNX() {
			continue
		}
		op := n.Op
		convert, ok := conversions[version][op]
		switch {
		case !known(n) || slices.Contains(strings.Fields(refused[version]), op):
			r.fail(id, fmt.Errorf("no conversion of %s to opset %d", op, version))
		case ok && n.Output(0) == graph.NoValue:
			r.fail(id, fmt.Errorf("no conversion of %s without its first output to opset %d", op, version))
		case ok:
			before := graph.FormatNode(g, id)
			if err := convert(r, id); err != nil {
				r.fail(id, err)
			} else if after := graph.FormatNode(g, id); after != before {
				r.log.Applied = append(r.log.Applied,
					Entry{"raise-opset", []string{g.Node(id).Name}, fmt.Sprintf("%s in the form of opset %d", op, version)})
			}
		}
	}
	for i, o := range g.Opsets {
		if o.Domain == "" || o.Domain == "ai.onnx" {
			g.Opsets = slices.Clone(g.Opsets)
			g.Opsets[i].Version = version
		}
	}
}

func known(n *graph.Node) bool { return n.Spec() != nil || n.Op == "Upsample" || n.Op == "Scatter" }

// fail records an error once per node.
func (r *raiser) fail(id graph.NodeID, err error) {
	err = r.g.ErrorAt("", id, err)
	for _, e := range r.errs {
		var seen *graph.NodeError
		if errors.As(e, &seen) && seen.Node == r.g.Node(id).Name {
			return
		}
	}
	r.errs = append(r.errs, err)
}

// fresh returns a name no value of any of the graphs has.
func (r *raiser) fresh(base string) string {
	name := base
	for i := 1; r.names[name]; i++ {
		name = fmt.Sprintf("%s_%d", base, i)
	}
	r.names[name] = true
	return name
}

// setConst makes input i of a node a new constant.
func (r *raiser) setConst(id graph.NodeID, i int, what string, t *tensor.Tensor) {
	v := r.g.AddConst(r.fresh(r.g.Node(id).Name+"."+what), t)
	r.g.SetInput(id, i, v)
}

// setInts makes input i a constant of int64, from an attribute that is dropped. An absent attribute leaves the input absent.
func (r *raiser) setInts(id graph.NodeID, i int, attr string) {
	n := r.g.Node(id)
	if a := n.Attr(attr); a != nil {
		values := slices.Clone(a.Ints)
		if a.Kind == graph.AttrInt {
			values = []int64{a.I}
		}
		n.DropAttr(attr)
		r.setConst(id, i, attr, tensor.FromI64(values, len(values)))
	}
}

// setFloat makes input i a scalar of the type of input 0.
func (r *raiser) setFloat(id graph.NodeID, i int, what string, x float32) error {
	t := tensor.New(tensor.Float32)
	switch d := r.g.Value(r.g.Node(id).Input(0)).DType; d {
	case tensor.Float32:
		t.F32()[0] = x
	case tensor.Float64:
		t = tensor.New(d)
		tensor.Of[float64](t)[0] = float64(x)
	default:
		return fmt.Errorf("%s is for a value of type %s; only float32 and float64 are converted", what, d)
	}
	r.setConst(id, i, what, t)
	return nil
}

// before puts a new node between input i of a node and what it reads there; after puts one behind output 0.
func (r *raiser) before(id graph.NodeID, i int, op string, attrs ...graph.Attr) error {
	in := r.g.Node(id).Input(i)
	out, err := r.insert(id, op, []graph.ValueID{in}, attrs)
	if err == nil {
		r.g.SetInput(id, i, out)
	}
	return err
}

// insert adds a node named after another one and returns its new output.
func (r *raiser) insert(id graph.NodeID, op string, inputs []graph.ValueID, attrs []graph.Attr) (graph.ValueID, error) {
	name := r.fresh(r.g.Node(id).Name + "/" + op)
	out, err := r.g.AddValue(graph.Value{Name: name})
	if err != nil {
		return out, err
	}
	_, err = r.g.AddNode(graph.Node{Name: r.g.FreshName(name + "_node"), Op: op, Attrs: attrs, Inputs: inputs, Outputs: []graph.ValueID{out}})
	return out, err
}
