package onnx

import (
	"fmt"
	"math"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"

	"qwb/graph"
	"qwb/graph/tensor"
)

// infoScan is a ValueInfoProto: what the file says about one value. A type that is not a dense tensor (sequence, map,
// optional, sparse) is carried in raw only: dtype and shape stay unknown.
type infoScan struct {
	raw   []byte
	name  string
	doc   string
	dtype tensor.DType
	shape graph.Shape
}

func scanInfo(b []byte) (infoScan, error) {
	s := infoScan{raw: b}
	c := cursor{rest: b}
	for c.next() {
		switch c.f.num {
		case valueName:
			c.str(&s.name)
		case valueDoc:
			c.str(&s.doc)
		case valueType:
			if c.want(protowire.BytesType) {
				c.err = s.scanType(c.f.data)
			}
		}
	}
	if c.err == nil && (s.name == "" || !utf8.ValidString(s.name)) {
		c.err = fmt.Errorf("name %q is empty or not UTF-8", s.name)
	}
	if c.err != nil {
		return s, fmt.Errorf("value %q: %w", s.name, c.err)
	}
	return s, nil
}

func (s *infoScan) scanType(b []byte) error {
	c := cursor{rest: b}
	for c.next() {
		if c.f.num != typeTensor || !c.want(protowire.BytesType) {
			continue
		}
		t := cursor{rest: c.f.data}
		for t.next() {
			switch t.f.num {
			case typeElem:
				var v int64
				t.int(&v)
				if v < 0 || v > math.MaxUint8 {
					return fmt.Errorf("unknown element type %d", v)
				}
				s.dtype = tensor.DType(v)
			case typeShape:
				if t.want(protowire.BytesType) {
					t.err = s.scanShape(t.f.data)
				}
			}
		}
		if t.err != nil {
			return t.err
		}
	}
	return c.err
}

func (s *infoScan) scanShape(b []byte) error {
	if s.shape == nil {
		s.shape = graph.Shape{}
	}
	c := cursor{rest: b}
	for c.next() {
		if c.f.num != shapeDim || !c.want(protowire.BytesType) {
			continue
		}
		dim := graph.Dim{N: -1}
		d := cursor{rest: c.f.data}
		for d.next() {
			switch d.f.num { // a oneof: the last one counts
			case dimValue:
				d.int(&dim.N)
				dim.Symbol = ""
			case dimParam:
				d.str(&dim.Symbol)
				dim.N = -1
			}
		}
		if d.err != nil {
			return d.err
		}
		if dim.N < 0 { // some exporters write -1 for an open dimension
			dim.N = -1
		}
		s.shape = append(s.shape, dim)
	}
	return c.err
}

// encodeInfo is the inverse of scanInfo for dense tensors.
func encodeInfo(v *graph.Value) *rope {
	r := &rope{}
	r.str(valueName, v.Name)
	if v.DType != tensor.Undefined {
		t := &rope{}
		t.varint(typeElem, uint64(v.DType))
		if v.Shape != nil {
			shape := &rope{}
			for _, d := range v.Shape {
				dim := &rope{}
				switch {
				case d.Known():
					dim.varint(dimValue, uint64(d.N))
				case d.Symbol != "":
					dim.str(dimParam, d.Symbol)
				}
				shape.message(shapeDim, dim)
			}
			t.message(typeShape, shape)
		}
		typ := &rope{}
		typ.message(typeTensor, t)
		r.message(valueType, typ)
	}
	if v.Doc != "" {
		r.str(valueDoc, v.Doc)
	}
	return r
}

// describe adds what s says to v; what v knows already stays.
func (s *infoScan) describe(v *graph.Value) {
	if v.DType == tensor.Undefined {
		v.DType = s.dtype
	}
	if v.Shape == nil {
		v.Shape = s.shape
	}
	if v.Doc == "" {
		v.Doc = s.doc
	}
}
