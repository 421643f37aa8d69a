package export

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"qwb/graph"
	"qwb/graph/tensor"
)

// Attributes is the kind of an item that says what an operator is: its type and attributes, and what it reads where a format keeps that.
const Attributes ItemKind = "attributes"

// NodeName is the name of a node among items.
func NodeName(name string) string { return "node " + strconv.Quote(name) }

// OutputsName is that of what the outputs of a graph are among items.
const OutputsName = "outputs"

// AttributesOf is the item of a node of ONNX: its type and attributes by name.
func AttributesOf(n *graph.Node) *Item {
	list := []string{strings.TrimPrefix(n.Domain+"."+n.Op, ".")}
	for i := range n.Attrs {
		list = append(list, n.Attrs[i].Name+"="+valueOf(&n.Attrs[i]))
	}
	slices.Sort(list[1:])
	return &Item{At: NodeName(n.Name), Kind: Attributes, Texts: list}
}

func digest(t *tensor.Tensor) string {
	raw, err := binary.Append(nil, binary.LittleEndian, t.ToRowMajor().Data)
	if err != nil { // texts
		raw = fmt.Append(nil, t.Data)
	}
	return fmt.Sprintf("%s %x", t.Type(), sha256.Sum256(raw))
}

// GraphOf begins the value of an attribute that is a graph.
const GraphOf = "graph of "

// graphOf is a graph in words: its operators, and a hash of what its outputs mean. Names and the order of nodes do not matter; of what
// stands outside of it, it says only that it reads it.
func graphOf(g *graph.Graph) string {
	order, err := g.Order()
	if err != nil {
		return err.Error()
	}
	means := map[graph.ValueID]string{graph.NoValue: "nothing"}
	for i, v := range g.Inputs {
		means[v] = fmt.Sprintf("input %d", i)
	}
	of := func(v graph.ValueID) string {
		if s, ok := means[v]; ok {
			return s
		}
		if t := g.Const(v); t != nil {
			return digest(t)
		}
		return "what stands outside"
	}
	ops := []string{}
	for _, id := range order {
		n := g.Node(id)
		parts := AttributesOf(n).Texts
		ops = append(ops, parts[0])
		for _, v := range n.Inputs {
			parts = append(parts, of(v))
		}
		sum := sha256.Sum256([]byte(strings.Join(parts, "\n")))
		for k, v := range n.Outputs {
			if v != graph.NoValue {
				means[v] = fmt.Sprintf("%d of %x", k, sum)
			}
		}
	}
	outputs := []string{}
	for _, v := range g.Outputs {
		outputs = append(outputs, of(v))
	}
	slices.Sort(ops)
	return fmt.Sprintf("%s%s (%x)", GraphOf, strings.Join(ops, ", "), sha256.Sum256([]byte(strings.Join(outputs, "\n"))))
}

// valueOf is the value of an attribute in words.
func valueOf(a *graph.Attr) string {
	switch a.Kind {
	case graph.AttrFloat:
		return fmt.Sprint(a.F)
	case graph.AttrInt:
		return fmt.Sprint(a.I)
	case graph.AttrString:
		return strconv.Quote(a.S)
	case graph.AttrFloats:
		return fmt.Sprint(a.Floats)
	case graph.AttrInts:
		return fmt.Sprint(a.Ints)
	case graph.AttrStrings:
		return fmt.Sprintf("%q", a.Strings)
	case graph.AttrTensor:
		return digest(a.T)
	case graph.AttrGraph:
		return graphOf(a.G)
	case graph.AttrTensors:
		var list []string
		for _, t := range a.Tensors {
			list = append(list, digest(t))
		}
		return strings.Join(list, ", ")
	case graph.AttrGraphs:
		var list []string
		for _, g := range a.Graphs {
			list = append(list, graphOf(g))
		}
		return strings.Join(list, "; ")
	}
	return fmt.Sprintf("%d %x", a.Kind, a.Raw)
}

// OfNodes yields what the nodes of a float model are and read, and what its outputs are: a node that computes it, an input by its place, or
// a constant.
func OfNodes(g *graph.Graph, yield func(*Item) error) error {
	for _, id := range g.Nodes() {
		n := g.Node(id)
		it := AttributesOf(n)
		for i, v := range n.Inputs {
			it.Texts = append(it.Texts, fmt.Sprintf("input %d: %s", i, sourceOf(g, v)))
		}
		if err := yield(it); err != nil {
			return err
		}
	}
	it := &Item{At: OutputsName, Kind: Attributes}
	for _, v := range g.Outputs {
		it.Texts = append(it.Texts, sourceOf(g, v))
	}
	return yield(it)
}

// sourceOf says what a tensor is.
func sourceOf(g *graph.Graph, v graph.ValueID) string {
	if v == graph.NoValue {
		return "nothing"
	}
	if p := g.Producer(v); p != graph.NoNode {
		n := g.Node(p)
		return fmt.Sprintf("output %d of %q", slices.Index(n.Outputs, v), n.Name)
	}
	if g.Const(v) != nil {
		return "a constant"
	}
	at := 0
	for _, in := range g.Inputs {
		if in == v {
			break
		}
		if g.Const(in) == nil { // constants may be inputs, in old files
			at++
		}
	}
	return fmt.Sprintf("input %d of the model", at)
}
