package onnx

import (
	"encoding/binary"
	"fmt"
	"math"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"

	"qwb/graph"
)

// attrScan is an AttributeProto taken apart.
type attrScan struct {
	raw    []byte
	name   string
	kind   graph.AttrKind
	doc    string
	ref    string
	values []field // the fields that hold the value, in file order
}

// valueField is the field that holds the value of an attribute of this kind, 0 for AttrOpaque.
func valueField(k graph.AttrKind) protowire.Number {
	switch k {
	case graph.AttrFloat:
		return attrF
	case graph.AttrInt:
		return attrI
	case graph.AttrString:
		return attrS
	case graph.AttrTensor:
		return attrT
	case graph.AttrGraph:
		return attrG
	case graph.AttrFloats:
		return attrFloats
	case graph.AttrInts:
		return attrInts
	case graph.AttrStrings:
		return attrStrings
	case graph.AttrTensors:
		return attrTensors
	case graph.AttrGraphs:
		return attrGraphs
	}
	return 0
}

func scanAttr(b []byte) (attrScan, error) {
	s := attrScan{raw: b, kind: graph.AttrOpaque}
	typ := int64(0)
	inferred := graph.AttrKind(0)
	var values []field
	c := cursor{rest: b}
	for c.next() {
		switch c.f.num {
		case attrName:
			c.str(&s.name)
		case attrDoc:
			c.str(&s.doc)
		case attrRef:
			c.str(&s.ref)
		case attrType:
			c.int(&typ)
		default:
			for k := graph.AttrFloat; k <= graph.AttrGraphs; k++ {
				if c.f.num == valueField(k) {
					inferred = k
					values = append(values, c.f)
				}
			}
		}
	}
	if c.err != nil {
		return s, c.err
	}
	if s.name == "" || !utf8.ValidString(s.name) {
		return s, fmt.Errorf("its name is empty or not UTF-8")
	}
	switch {
	case typ >= int64(graph.AttrFloat) && typ <= int64(graph.AttrGraphs):
		s.kind = graph.AttrKind(typ)
	case typ == 0 && inferred != 0: // written before attributes had a type
		s.kind = inferred
	}
	want := valueField(s.kind)
	for _, f := range values {
		if f.num == want {
			s.values = append(s.values, f)
		}
	}
	return s, s.wireTypes()
}

// wireTypes checks that the value fields have the wire type of the attribute's kind.
func (s *attrScan) wireTypes() error {
	for _, f := range s.values {
		ok := f.typ == protowire.BytesType // also a packed list of numbers
		switch s.kind {
		case graph.AttrFloat:
			ok = f.typ == protowire.Fixed32Type
		case graph.AttrInt:
			ok = f.typ == protowire.VarintType
		case graph.AttrFloats:
			ok = ok && len(f.data)%4 == 0 || f.typ == protowire.Fixed32Type
		case graph.AttrInts:
			ok = ok || f.typ == protowire.VarintType
		}
		if !ok {
			return fmt.Errorf("field %d has wire type %d", f.num, f.typ)
		}
	}
	return nil
}

// attr decodes an attribute. Of several fields with one number or string the last holds.
func (l *loader) attr(s *attrScan, sc *scope) (graph.Attr, error) {
	a := graph.Attr{Name: s.name, Kind: s.kind, Doc: s.doc, RefAttr: s.ref}
	if s.ref != "" {
		a.Raw = s.raw
		return a, nil
	}
	for _, f := range s.values {
		switch s.kind {
		case graph.AttrFloat:
			a.F = math.Float32frombits(uint32(f.u))
		case graph.AttrInt:
			a.I = int64(f.u)
		case graph.AttrString:
			a.S = string(f.data)
		case graph.AttrStrings:
			a.Strings = append(a.Strings, string(f.data))
		case graph.AttrInts:
			c := cursor{f: f}
			if c.ints(&a.Ints); c.err != nil {
				return a, c.err
			}
		case graph.AttrFloats:
			if f.typ == protowire.Fixed32Type {
				a.Floats = append(a.Floats, math.Float32frombits(uint32(f.u)))
			}
			for b := f.data; len(b) > 0; b = b[4:] { // whole numbers: wireTypes has seen to it
				a.Floats = append(a.Floats, math.Float32frombits(binary.LittleEndian.Uint32(b)))
			}
		case graph.AttrTensor, graph.AttrTensors:
			p, err := scanTensor(f.data)
			if err != nil {
				return a, err
			}
			t, err := l.dec.tensor(p)
			if err != nil {
				return a, fmt.Errorf("tensor %q: %w", p.name, err)
			}
			if s.kind == graph.AttrTensor {
				a.T = t
			} else {
				a.Tensors = append(a.Tensors, t)
			}
		case graph.AttrGraph, graph.AttrGraphs:
			g, err := l.subgraph(f.data, sc)
			if err != nil {
				return a, err
			}
			if s.kind == graph.AttrGraph {
				a.G = g
			} else {
				a.Graphs = append(a.Graphs, g)
			}
		}
	}
	switch {
	case s.kind == graph.AttrTensor && a.T == nil, s.kind == graph.AttrGraph && a.G == nil:
		return a, fmt.Errorf("it has no value")
	case s.kind == graph.AttrOpaque:
		a.Raw = s.raw
	}
	return a, nil
}
