package passes

import (
	"math"
	"slices"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
)

// Widen makes a network that computes in float16, bfloat16 or float64 one that computes in float32. Inputs and outputs keep their types:
// a Cast stands at each. Numbers change by what the narrower types rounded, or by the digits that float32 does not have.
//
// A type that only Casts give and take stays: it says how something is rounded or handed over. float64 is widened where something is
// multiplied with weights in it; what is counted in it, from integers to integers, stays. So does what no operator set here describes.
var Widen = Pass{
	Name:  "widen",
	Doc:   "Makes operators that compute in float16, bfloat16 or float64 compute in float32, with a Cast at inputs and outputs.",
	sweep: func(c *Context) error { return widen(c, true) },
}

// Float32 is Widen with inputs and outputs: those of float16, bfloat16 and float64 become float32 too, for formats that have no others.
var Float32 = Pass{
	Name:  "float32",
	Doc:   "Makes operators, inputs and outputs of float16, bfloat16 and float64 float32.",
	sweep: func(c *Context) error { return widen(c, false) },
}

func widen(c *Context, borders bool) error {
	w := &widener{types: map[tensor.DType]bool{}, kept: map[*graph.Graph]map[graph.NodeID]bool{}}
	if err := w.look(c.G); err != nil {
		return err
	}
	for _, v := range slices.Concat(c.G.Inputs, c.G.Outputs) {
		if d := c.G.Value(v).DType; !borders && d.IsFloat() && d != tensor.Float32 {
			w.types[d] = true
		}
	}
	if len(w.types) == 0 {
		return nil
	}
	inputs, outputs := w.declared(c.G, c.G.Inputs), w.declared(c.G, c.G.Outputs)
	if err := w.graph(c.G); err != nil {
		return err
	}
	if borders {
		if err := w.borders(c.G, inputs, outputs); err != nil {
			return err
		}
	}
	for _, d := range []tensor.DType{tensor.Float16, tensor.BFloat16, tensor.Float64} {
		if w.types[d] {
			c.log.Applied = append(c.log.Applied, Entry{Pass: c.pass, Nodes: w.casts, What: "computed in f32 for " + d.String()})
		}
	}
	graph.InferShapes(c.G)
	return nil
}

type widener struct {
	types map[tensor.DType]bool                  // what is made float32
	kept  map[*graph.Graph]map[graph.NodeID]bool // operators that go on computing in their type
	casts []string
}

// wide reports whether v is of a type that is made float32.
func (w *widener) wide(g *graph.Graph, v graph.ValueID) bool {
	return v != graph.NoValue && w.types[g.Value(v).DType]
}

// look finds the types that g and its bodies compute in, and the operators that keep theirs.
func (w *widener) look(g *graph.Graph) error {
	order, err := g.Order()
	if err != nil {
		return err
	}
	kept := counting(g, order)
	w.kept[g] = kept
	for _, id := range order {
		n := g.Node(id)
		for _, sub := range n.Subgraphs() {
			if err := w.look(sub); err != nil {
				return err
			}
		}
		s := n.Spec()
		if s == nil || n.Operator() != nil || n.Op == "BitCast" {
			kept[id] = true
		}
		if kept[id] || slices.Contains([]string{"Cast", "CastLike", "Constant", "Identity", "QuantizeLinear", "DequantizeLinear"}, n.Op) {
			continue
		}
		for _, v := range append(slices.Clone(n.Inputs), n.Outputs...) {
			if v == graph.NoValue {
				continue
			}
			d := g.Value(v).DType
			if d.IsFloat() && d != tensor.Float32 && (d != tensor.Float64 || s.Kind == graph.KindComputing || s.Kind == graph.KindRecurrent) {
				w.types[d] = true
			}
		}
	}
	return nil
}

// counting returns the operators on float64 whose numbers come from integers and become integers: float32 has no room for all of them.
func counting(g *graph.Graph, order []graph.NodeID) map[graph.NodeID]bool {
	from, to := map[graph.NodeID]bool{}, map[graph.NodeID]bool{}
	double := func(v graph.ValueID) bool { return v != graph.NoValue && g.Value(v).DType == tensor.Float64 }
	any := func(n *graph.Node) bool {
		return slices.ContainsFunc(append(slices.Clone(n.Inputs), n.Outputs...), double)
	}
	for _, id := range order {
		n := g.Node(id)
		whole := any(n) && len(n.Subgraphs()) == 0
		for _, v := range n.Inputs {
			if v == graph.NoValue || g.Const(v) != nil && (!double(v) || g.Const(v).Len() == 1) {
				continue
			}
			p := g.Producer(v)
			whole = whole && (!g.Value(v).DType.IsFloat() || p != graph.NoNode && from[p])
		}
		from[id] = whole
	}
	for _, id := range slices.Backward(order) {
		n := g.Node(id)
		whole := from[id]
		for _, v := range n.Outputs {
			if v == graph.NoValue || !g.Value(v).DType.IsFloat() {
				continue
			}
			whole = whole && !g.IsOutput(v) && !g.Captured(v)
			for _, u := range g.Uses(v) {
				whole = whole && to[u.Node]
			}
		}
		if whole {
			to[id] = true
		}
	}
	return to
}

// typed are the attributes that name the type of a result, or the one that something is computed in.
var typed = []string{"to", "dtype", "output_datatype", "output_dtype", "stash_type", "softmax_precision", "precision"}

// graph makes the values and attributes of g and of its bodies float32, those of operators that are kept apart.
func (w *widener) graph(g *graph.Graph) error {
	narrow := map[graph.ValueID]graph.ValueID{} // what a kept operator reads or computes, by the float32 value
	order, err := g.Order()
	if err != nil {
		return err
	}
	for _, id := range order {
		if err := w.node(g, id, narrow); err != nil {
			return g.ErrorAt("", id, err)
		}
	}
	own := map[graph.ValueID]bool{}
	for _, v := range narrow {
		own[v] = true
	}
	for _, v := range g.Values() {
		val := g.Value(v)
		if !w.wide(g, v) || own[v] {
			continue
		}
		if val.Const != nil {
			g.SetConst(v, float32s(val.Const))
		}
		val.DType = tensor.Float32
	}
	return nil
}

// node makes the attributes of a node and its bodies float32, or puts Casts around it.
func (w *widener) node(g *graph.Graph, id graph.NodeID, narrow map[graph.ValueID]graph.ValueID) error {
	if w.kept[g][id] {
		return w.keep(g, id, narrow)
	}
	n := g.Node(id)
	for _, sub := range n.Subgraphs() {
		if err := w.graph(sub); err != nil {
			return err
		}
	}
	for i := range n.Attrs {
		a := &n.Attrs[i]
		if a.T != nil && w.types[a.T.DType] {
			a.T = float32s(a.T)
		}
		if slices.Contains(typed, a.Name) && w.types[tensor.DType(a.I)] {
			a.I = int64(tensor.Float32)
		}
	}
	return nil
}

// keep lets a node read and compute its own types, between Casts.
func (w *widener) keep(g *graph.Graph, id graph.NodeID, narrow map[graph.ValueID]graph.ValueID) error {
	for i, v := range slices.Clone(g.Node(id).Inputs) {
		if !w.wide(g, v) {
			continue
		}
		form, ok := narrow[v]
		if c := g.Const(v); !ok && c != nil {
			form = g.AddConst(g.Value(v).Name+"_"+c.DType.String(), c)
		} else if !ok {
			var err error
			if form, err = w.beside(g, v, g.Value(v).DType); err != nil {
				return err
			}
			if err := w.cast(g, v, form); err != nil {
				return err
			}
		}
		narrow[v] = form
		g.SetInput(id, i, form)
	}
	for i, v := range slices.Clone(g.Node(id).Outputs) {
		if !w.wide(g, v) {
			continue
		}
		form, err := w.beside(g, v, g.Value(v).DType)
		if err != nil {
			return err
		}
		if err := g.SetOutput(id, i, form); err != nil {
			return err
		}
		narrow[v] = form
		if err := w.cast(g, form, v); err != nil {
			return err
		}
		g.Node(g.Producer(v)).Attrs[0].I = int64(tensor.Float32)
	}
	return nil
}

// declared returns the types of inputs or outputs of g that are made float32, Undefined for others.
func (w *widener) declared(g *graph.Graph, list []graph.ValueID) []tensor.DType {
	types := make([]tensor.DType, len(list))
	for i, v := range list {
		if w.wide(g, v) && (g.Const(v) == nil || !g.IsInput(v)) {
			types[i] = g.Value(v).DType
		}
	}
	return types
}

// borders gives inputs and outputs of g the types that they had, and their names: inside they are called after float32.
func (w *widener) borders(g *graph.Graph, inputs, outputs []tensor.DType) error {
	made := map[graph.ValueID]graph.ValueID{}
	border := func(list []graph.ValueID, types []tensor.DType, in bool) error {
		for i, v := range list {
			if types[i] == tensor.Undefined {
				continue
			}
			if typed, ok := made[v]; ok {
				list[i] = typed
				continue
			}
			val := *g.Value(v)
			inside := g.FreshName(val.Name + "_" + tensor.Float32.String())
			if err := renameOuter(g, val.Name, inside); err != nil {
				return err
			}
			if err := g.Rename(v, inside); err != nil {
				return err
			}
			typed, err := g.AddValue(graph.Value{Name: val.Name, Doc: val.Doc, DType: types[i], Shape: val.Shape})
			if err != nil {
				return err
			}
			list[i], made[v] = typed, typed
			from, to := v, typed
			if in {
				from, to = typed, v
			}
			if err := w.cast(g, from, to); err != nil {
				return err
			}
		}
		return nil
	}
	if err := border(g.Inputs, inputs, true); err != nil {
		return err
	}
	return border(g.Outputs, outputs, false)
}

// beside adds a value of type d with the shape of v.
func (w *widener) beside(g *graph.Graph, v graph.ValueID, d tensor.DType) (graph.ValueID, error) {
	val := *g.Value(v)
	return g.AddValue(graph.Value{Name: g.FreshName(val.Name + "_" + d.String()), DType: d, Shape: val.Shape})
}

// cast adds a Cast between two values, to the type of the second.
func (w *widener) cast(g *graph.Graph, from, to graph.ValueID) error {
	id, err := g.AddNode(graph.Node{Name: g.FreshName(g.Value(to).Name + "_Cast_node"), Op: "Cast",
		Attrs: []graph.Attr{graph.Int("to", int64(g.Value(to).DType))}, Inputs: []graph.ValueID{from}, Outputs: []graph.ValueID{to}})
	if err == nil {
		w.casts = append(w.casts, g.Node(id).Name)
	}
	return err
}

// float32s returns the numbers of t as float32. What lies beyond is the farthest finite number: masks stay what they are.
func float32s(t *tensor.Tensor) *tensor.Tensor {
	out := exec.Floats(t)
	if d, ok := t.Data.([]float64); ok {
		for i, x := range out.F32() {
			if math.IsInf(float64(x), 0) && !math.IsInf(d[i], 0) {
				out.F32()[i] = float32(math.Copysign(math.MaxFloat32, d[i]))
			}
		}
	}
	return out
}
