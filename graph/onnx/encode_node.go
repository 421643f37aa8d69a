package onnx

import (
	"fmt"
	"math"

	"google.golang.org/protobuf/encoding/protowire"

	"qwb/graph"
)

// node encodes a node that is new or changed. old is what the file says about it, nil if it is new: attributes that did not
// change and fields that this package does not know are copied from there.
func (e *encoder) node(g *graph.Graph, n *graph.Node, old *nodeScan, was *graph.Node) (*rope, error) {
	r := &rope{}
	for _, v := range n.Inputs {
		r.str(nodeInputs, nameOf(g, v))
	}
	for _, v := range n.Outputs {
		r.str(nodeOutputs, nameOf(g, v))
	}
	if n.Name != "" {
		r.str(nodeName, n.Name)
	}
	r.str(nodeOp, n.Op)
	for i := range n.Attrs {
		a := &n.Attrs[i]
		var before *graph.Attr
		var scan *attrScan
		if old != nil {
			before, scan = was.Attr(a.Name), old.attr(a.Name)
		}
		m, err := e.attr(a, before, scan)
		if err != nil {
			return nil, fmt.Errorf("attribute %q: %w", a.Name, err)
		}
		r.message(nodeAttrs, m)
	}
	for _, f := range []struct {
		num protowire.Number
		s   string
	}{{nodeDoc, n.Doc}, {nodeDomain, n.Domain}, {nodeOverload, n.Overload}} {
		if f.s != "" {
			r.str(f.num, f.s)
		}
	}
	if old != nil {
		for _, raw := range old.other {
			r.add(raw)
		}
	}
	return r, nil
}

func (s *nodeScan) attr(name string) *attrScan {
	for i := range s.attrs {
		if s.attrs[i].name == name {
			return &s.attrs[i]
		}
	}
	return nil
}

// attr encodes an attribute, by copying scan where a says the same as before.
func (e *encoder) attr(a, before *graph.Attr, scan *attrScan) (*rope, error) {
	r := &rope{}
	if before != nil && sameAttr(*a, *before) && !(e.inline && scan.refersOutside()) {
		r.add(scan.raw)
		return r, nil
	}
	if a.RefAttr != "" || a.Kind == graph.AttrOpaque {
		if a.Raw == nil {
			return nil, fmt.Errorf("it has no encoded form")
		}
		r.add(a.Raw)
		return r, nil
	}
	r.str(attrName, a.Name)
	if err := e.attrValue(r, a, before, scan); err != nil {
		return nil, err
	}
	if a.Doc != "" {
		r.str(attrDoc, a.Doc)
	}
	r.varint(attrType, uint64(a.Kind))
	return r, nil
}

func (e *encoder) attrValue(r *rope, a, before *graph.Attr, scan *attrScan) error {
	switch a.Kind {
	case graph.AttrFloat:
		r.fixed32(attrF, math.Float32bits(a.F))
	case graph.AttrInt:
		r.varint(attrI, uint64(a.I))
	case graph.AttrString:
		r.str(attrS, a.S)
	case graph.AttrFloats:
		for _, f := range a.Floats {
			r.fixed32(attrFloats, math.Float32bits(f))
		}
	case graph.AttrInts:
		for _, i := range a.Ints {
			r.varint(attrInts, uint64(i))
		}
	case graph.AttrStrings:
		for _, s := range a.Strings {
			r.str(attrStrings, s)
		}
	case graph.AttrTensor, graph.AttrTensors:
		list := a.Tensors
		if a.Kind == graph.AttrTensor {
			list = append(list[:0:0], a.T)
		}
		for _, t := range list {
			if t == nil {
				return fmt.Errorf("it has no tensor")
			}
			m, err := encodeTensor("", t)
			if err != nil {
				return err
			}
			r.message(valueField(a.Kind), m)
		}
	case graph.AttrGraph, graph.AttrGraphs:
		list := a.Graphs
		if a.Kind == graph.AttrGraph {
			list = append(list[:0:0], a.G)
		}
		for i, g := range list {
			if g == nil {
				return fmt.Errorf("it has no graph")
			}
			old, err := nested(before, scan, a.Kind, i)
			if err != nil {
				return err
			}
			m, err := e.graph(g, old)
			if err != nil {
				return err
			}
			r.message(valueField(a.Kind), m)
		}
	default:
		return fmt.Errorf("unknown kind %d", a.Kind)
	}
	return nil
}

// nested is what the file says about graph i of an attribute, nil if it had no such graph.
func nested(before *graph.Attr, scan *attrScan, kind graph.AttrKind, i int) (*original, error) {
	if before == nil || before.Kind != kind || i >= len(scan.values) {
		return nil, nil
	}
	g := before.G
	if kind == graph.AttrGraphs {
		g = before.Graphs[i]
	} else {
		i = len(scan.values) - 1 // of a field given twice the last counts
	}
	s, err := scanGraph(scan.values[i].data)
	return &original{graph: g, scan: s}, err
}
