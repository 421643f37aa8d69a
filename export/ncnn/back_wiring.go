package ncnn

import (
	"fmt"
	"slices"

	"qwb/export"
	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/quantizer/tqc"
)

// reads is the kind of an item that says what a layer reads: the layers and inputs, in their order and each once, that come before it.
// Layers that no node of the model has the name of (copies, other shapes, pads) hand on what they read, and so do nodes that have no layer
// (activations that a layer has taken in, parts of patterns). Constants are none of them.
const reads export.ItemKind = "what it reads"

// wiring is what both sides of the comparison ask for: where something comes from.
type wiring struct {
	r     *recoverer
	named map[string]graph.NodeID // nodes that have a layer, by its name
	made  map[string]*layer       // layers by the blobs that they compute
}

func (r *recoverer) wiring(layers []layer) *wiring {
	w := &wiring{r: r, named: map[string]graph.NodeID{}, made: map[string]*layer{}}
	for _, id := range r.fixed.Nodes() {
		if l := r.layer(r.fixed.Node(id)); l != nil {
			w.named[l.name] = id
		}
	}
	for i := range layers {
		for _, blob := range layers[i].tops {
			w.made[blob] = &layers[i]
		}
	}
	return w
}

// output names one of the outputs of a layer.
func output(layer string, k, of int) string {
	if of > 1 {
		return fmt.Sprintf("output %d of %s", k, layer)
	}
	return layer
}

// join adds what is not there yet.
func join(list, more []string) []string {
	for _, s := range more {
		if !slices.Contains(list, s) {
			list = append(list, s)
		}
	}
	return list
}

// blob is where a blob of the file comes from. seen are those on the way, which no file has twice.
func (w *wiring) blob(name string, seen []string) (list []string) {
	l := w.made[name]
	switch {
	case l == nil || slices.Contains(seen, name):
		return []string{"nothing"}
	case l.typ == "MemoryData":
		return nil
	case l.typ == "Input":
		return []string{"input " + name}
	}
	if _, ok := w.named[l.name]; ok {
		return []string{output(l.name, slices.Index(l.tops, name), len(l.tops))}
	}
	for _, b := range l.bottoms {
		list = join(list, w.blob(b, append(seen, name)))
	}
	return list
}

// value is where a value of the model comes from, in the names of layers.
func (w *wiring) value(v graph.ValueID) (list []string) {
	g := w.r.fixed
	p := g.Producer(v)
	switch {
	case g.Const(v) != nil:
		return nil
	case p == graph.NoNode:
		return []string{"input " + clean(g.Value(v).Name)}
	}
	n := g.Node(p)
	if l := w.r.layer(n); l != nil {
		used := slices.DeleteFunc(slices.Clone(n.Outputs), func(o graph.ValueID) bool { return o == graph.NoValue })
		return []string{output(l.name, slices.Index(used, v), len(used))}
	}
	return w.inputs(n)
}

// inputs is where the numbers come from that a node reads.
func (w *wiring) inputs(n *graph.Node) (list []string) {
	for _, v := range n.Inputs {
		fed := n.Op == "Cast" && slices.Contains(w.r.fixed.Inputs, v) // integers that are fed as float32
		if v != graph.NoValue && (fed || w.r.fixed.Value(v).DType == tensor.Float32 || w.r.fixed.Value(v).DType == tensor.Undefined) {
			list = join(list, w.value(v))
		}
	}
	return list
}

// each visits what is compared: nodes that have a layer, with the blobs that it reads, and outputs of the model, with the blob of their
// name.
func (w *wiring) each(see func(at string, model, file func() []string)) {
	for _, id := range w.r.fixed.Nodes() {
		n := w.r.fixed.Node(id)
		l := w.r.layer(n)
		if l == nil || w.r.set.Domains[id] == tqc.DomainSOI {
			continue
		}
		in := func() (list []string) {
			for _, b := range l.bottoms {
				list = join(list, w.blob(b, nil))
			}
			return list
		}
		see(export.NodeName(n.Name), func() []string { return w.inputs(n) }, in)
	}
	for _, v := range w.r.fixed.Outputs {
		name := w.r.fixed.Value(v).Name
		see(export.OutputName(name, 0), func() []string { return w.value(v) }, func() []string { return w.blob(clean(name), nil) })
	}
}
