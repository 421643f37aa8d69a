package onnx

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"

	"qwb/graph"
)

// graphScan is a GraphProto, or the body of a FunctionProto, taken apart. Tensors are not decoded yet.
type graphScan struct {
	raw     []byte
	name    string
	doc     string
	nodes   []*nodeScan
	tensors []*tensorScan
	sparse  []*sparseScan
	inputs  []infoScan
	outputs []infoScan
	infos   []infoScan
	other   [][]byte // quantization_annotation, metadata and fields of later ONNX versions, tags included
	renamed []*nodeScan

	defaults []attrScan // of a function's attributes
}

func scanGraph(b []byte) (*graphScan, error) {
	s := &graphScan{raw: b}
	c := cursor{rest: b}
	for c.next() {
		var err error
		switch c.f.num {
		case graphName:
			c.str(&s.name)
		case graphDoc:
			c.str(&s.doc)
		case graphNodes, graphTensors, graphSparse, graphInputs, graphOutputs, graphInfos:
			if c.want(protowire.BytesType) {
				err = s.add(c.f.num, c.f.data)
			}
		default:
			s.other = append(s.other, c.f.raw)
		}
		if err != nil {
			return nil, err
		}
	}
	s.renamed = nameNodes(s.nodes)
	return s, c.err
}

// add scans one element of a repeated field of a GraphProto.
func (s *graphScan) add(num protowire.Number, b []byte) error {
	switch num {
	case graphNodes:
		n, err := scanNode(b)
		s.nodes = append(s.nodes, n)
		return err
	case graphTensors:
		t, err := scanTensor(b)
		if err == nil && t.name == "" {
			err = fmt.Errorf("an initializer has no name")
		}
		s.tensors = append(s.tensors, t)
		return err
	case graphSparse:
		t, err := scanSparse(b)
		if err == nil && t.values.name == "" {
			err = fmt.Errorf("a sparse initializer has no name")
		}
		s.sparse = append(s.sparse, t)
		return err
	}
	v, err := scanInfo(b)
	switch num {
	case graphInputs:
		s.inputs = append(s.inputs, v)
	case graphOutputs:
		s.outputs = append(s.outputs, v)
	default:
		s.infos = append(s.infos, v)
	}
	return err
}

// scanFunction takes a FunctionProto apart: the function, and its body as a graph.
func scanFunction(b []byte) (Function, *graphScan, []graph.Opset, error) {
	f := Function{Raw: b}
	s := &graphScan{raw: b}
	var opsets []graph.Opset
	c := cursor{rest: b}
	for c.next() {
		var err error
		switch c.f.num {
		case functionName:
			c.str(&f.Name)
		case functionDomain:
			c.str(&f.Domain)
		case functionOverload:
			c.str(&f.Overload)
		case functionDoc:
			c.str(&s.doc)
		case functionIn, functionOut:
			var v infoScan
			c.str(&v.name)
			if c.f.num == functionIn {
				s.inputs = append(s.inputs, v)
			} else {
				s.outputs = append(s.outputs, v)
			}
		case functionAttrs:
			var name string
			c.str(&name)
			f.Attributes = append(f.Attributes, name)
		case functionDefaults:
			if c.want(protowire.BytesType) {
				var a attrScan
				a, err = scanAttr(c.f.data)
				f.Attributes = append(f.Attributes, a.name)
				s.defaults = append(s.defaults, a)
			}
		case functionNodes:
			if c.want(protowire.BytesType) {
				err = s.add(graphNodes, c.f.data)
			}
		case functionInfos:
			if c.want(protowire.BytesType) {
				err = s.add(graphInfos, c.f.data)
			}
		case functionOpsets:
			if c.want(protowire.BytesType) {
				var o graph.Opset
				o, err = scanOpset(c.f.data)
				opsets = append(opsets, o)
			}
		}
		if err != nil {
			return f, nil, nil, err
		}
	}
	s.name = f.Name
	s.renamed = nameNodes(s.nodes)
	return f, s, opsets, c.err
}

func scanOpset(b []byte) (o graph.Opset, err error) {
	c := cursor{rest: b}
	for c.next() {
		switch c.f.num {
		case opsetDomain:
			c.str(&o.Domain)
		case opsetVersion:
			c.int(&o.Version)
		}
	}
	return o, c.err
}

func scanEntry(b []byte) (kv KeyValue, err error) {
	c := cursor{rest: b}
	for c.next() {
		switch c.f.num {
		case entryKey:
			c.str(&kv.Key)
		case entryValue:
			c.str(&kv.Value)
		}
	}
	return kv, c.err
}
