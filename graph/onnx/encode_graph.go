package onnx

import (
	"slices"
	"strings"

	"qwb/graph"
)

// original is a graph as the file has it: decoded, and in pieces that can be copied.
type original struct {
	graph  *graph.Graph
	scan   *graphScan
	loaded *graph.Graph // of the main graph: with functions inlined, as it was given to the caller
}

// encoder writes graphs. Pieces of a file that did not change are copied.
type encoder struct {
	// inline makes it decode and write anew what refers to external data: the result stands on its own, or refers to sink.
	inline bool
	// sink takes the elements of large initializers; nil keeps all of them in the model.
	sink *dataFile
}

// graph encodes g: byte for byte as old has it if it says the same.
func (e *encoder) graph(g *graph.Graph, old *original) (*rope, error) {
	r := &rope{}
	if old != nil && sameGraph(g, old.graph) && !(e.inline && old.scan.refersOutside()) {
		r.add(old.scan.raw)
		return r, nil
	}
	order, err := g.Order()
	if err != nil {
		return nil, err
	}
	w := newGraphWriter(e, g, old)
	for _, id := range order {
		if err := w.node(r, id); err != nil {
			return nil, g.ErrorAt("", id, err)
		}
	}
	if g.Name != "" {
		r.str(graphName, g.Name)
	}
	if err := w.tensors(r, order); err != nil {
		return nil, err
	}
	if g.Doc != "" {
		r.str(graphDoc, g.Doc)
	}
	w.infos(r)
	w.sparse(r)
	if old != nil {
		for _, raw := range old.scan.other {
			r.add(raw)
		}
	}
	return r, nil
}

// graphWriter holds the side tables of one graph that is written.
type graphWriter struct {
	*encoder
	g      *graph.Graph
	old    *original             // nil if there is none
	nodes  map[string]*nodeScan  // of the file, by unique name
	border map[graph.ValueID]int // inputs and outputs of g
	needed map[string]bool       // names that nested graphs read
	done   map[graph.ValueID]bool
}

func newGraphWriter(e *encoder, g *graph.Graph, old *original) *graphWriter {
	w := &graphWriter{encoder: e, g: g, old: old, nodes: map[string]*nodeScan{}, border: map[graph.ValueID]int{},
		needed: map[string]bool{}, done: map[graph.ValueID]bool{}}
	if old != nil {
		for _, n := range old.scan.nodes {
			w.nodes[n.unique] = n
		}
	}
	for _, list := range [][]graph.ValueID{g.Inputs, g.Outputs} {
		for _, v := range list {
			w.border[v]++
		}
	}
	for _, id := range g.Nodes() {
		for _, sub := range g.Node(id).Subgraphs() {
			for _, name := range sub.CapturedNames() {
				w.needed[name] = true
			}
		}
	}
	return w
}

func (w *graphWriter) node(r *rope, id graph.NodeID) error {
	n := w.g.Node(id)
	old := w.nodes[n.Name]
	var was *graph.Node
	if old != nil {
		before, _ := w.old.graph.LookupNode(n.Name) // old stands in the same file
		was = w.old.graph.Node(before)
		// Runtimes refuse two nodes of one name: the second is written with the name it got.
		taken := old.name != "" && old.name != old.unique
		if !taken && sameNode(w.g, n, w.old.graph, was) && !(w.inline && old.refersOutside()) {
			r.bytes(graphNodes, old.raw)
			return nil
		}
	}
	m, err := w.encoder.node(w.g, n, old, was)
	if err != nil {
		return err
	}
	r.message(graphNodes, m)
	return nil
}

// wanted reports whether a constant is read by anything, or has to be there as the default of a graph input.
func (w *graphWriter) wanted(v graph.ValueID) bool {
	return w.g.Const(v) != nil && (len(w.g.Uses(v)) > 0 || w.border[v] > 0 || w.needed[w.g.Value(v).Name])
}

// defined reports whether what is written defines or captures v.
func (w *graphWriter) defined(v graph.ValueID) bool {
	return w.g.Producer(v) != graph.NoNode || w.border[v] > 0 || w.wanted(v) || w.g.Value(v).Outer
}

// unchanged reports whether the file defines the constant v, with the same tensor.
func (w *graphWriter) unchanged(v graph.ValueID) bool {
	before, ok := w.old.graph.Lookup(w.g.Value(v).Name)
	return ok && sameTensor(w.g.Const(v), w.old.graph.Const(before))
}

// tensors writes the initializers: those of the file in its order, then new ones in the order of their first use.
func (w *graphWriter) tensors(r *rope, order []graph.NodeID) error {
	if w.old != nil {
		for _, s := range w.old.scan.sparse {
			if v, ok := w.keepSparse(s); ok {
				w.done[v] = true
			}
		}
		for _, t := range w.old.scan.tensors {
			v, ok := w.g.Lookup(t.name)
			if !ok || !w.wanted(v) || w.done[v] {
				continue
			}
			if w.unchanged(v) && !(w.inline && t.isExtern) && !w.sink.takes(w.g.Const(v)) {
				r.bytes(graphTensors, t.raw)
				w.done[v] = true
				continue
			}
			if err := w.tensor(r, v, t.other); err != nil {
				return err
			}
		}
	}
	var rest []graph.ValueID
	for _, id := range order {
		rest = append(rest, w.g.Node(id).Inputs...)
	}
	tail := w.byName()
	for _, v := range append(rest, tail...) {
		if v == graph.NoValue || w.done[v] || !w.wanted(v) {
			continue
		}
		if err := w.tensor(r, v, nil); err != nil {
			return err
		}
	}
	return nil
}

// byName returns all values sorted by name.
func (w *graphWriter) byName() []graph.ValueID {
	list := w.g.Values()
	slices.SortFunc(list, func(a, b graph.ValueID) int { return strings.Compare(w.g.Value(a).Name, w.g.Value(b).Name) })
	return list
}

// tensor writes one initializer anew; other are the fields to keep that do not concern its elements.
func (w *graphWriter) tensor(r *rope, v graph.ValueID, other [][]byte) error {
	w.done[v] = true
	m, err := w.sink.tensor(w.g.Value(v).Name, w.g.Const(v))
	if err != nil {
		return err
	}
	for _, raw := range other {
		m.add(raw)
	}
	r.message(graphTensors, m)
	return nil
}

// keepSparse reports whether a sparse initializer can be copied. One that changed is written as a dense one.
func (w *graphWriter) keepSparse(s *sparseScan) (graph.ValueID, bool) {
	v, ok := w.g.Lookup(s.values.name)
	return v, ok && w.wanted(v) && w.unchanged(v) && !(w.inline && s.refersOutside())
}

// sparse copies the sparse initializers that did not change.
func (w *graphWriter) sparse(r *rope) {
	if w.old == nil {
		return
	}
	for _, s := range w.old.scan.sparse {
		if _, ok := w.keepSparse(s); ok {
			r.bytes(graphSparse, s.raw)
		}
	}
}
