package onnx

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"

	"qwb/graph"
)

// header is what a ModelProto says beside its graph.
type header struct {
	IRVersion       int64
	ProducerName    string
	ProducerVersion string
	Domain          string
	ModelVersion    int64
	Doc             string
	Metadata        []KeyValue
	opsets          []graph.Opset
	rawOpsets       [][]byte // the messages behind opsets
	rawMetadata     [][]byte // the messages behind Metadata
	graph           []byte
	functions       [][]byte
	other           [][]byte // training_info, device configuration and fields of later ONNX versions, tags included
}

func scanModel(b []byte) (*header, error) {
	h := &header{}
	c := cursor{rest: b}
	for c.next() {
		var err error
		switch c.f.num {
		case modelIRVersion:
			c.int(&h.IRVersion)
		case modelProducerName:
			c.str(&h.ProducerName)
		case modelProducerVersion:
			c.str(&h.ProducerVersion)
		case modelDomain:
			c.str(&h.Domain)
		case modelVersion:
			c.int(&h.ModelVersion)
		case modelDoc:
			c.str(&h.Doc)
		case modelGraph:
			if h.graph != nil {
				return nil, fmt.Errorf("it has two graphs")
			}
			h.graph = []byte{}
			c.bytes(&h.graph)
		case modelOpsets:
			if c.want(protowire.BytesType) {
				var o graph.Opset
				o, err = scanOpset(c.f.data)
				h.opsets = append(h.opsets, o)
				h.rawOpsets = append(h.rawOpsets, c.f.data)
			}
		case modelMetadata:
			if c.want(protowire.BytesType) {
				var kv KeyValue
				kv, err = scanEntry(c.f.data)
				h.Metadata = append(h.Metadata, kv)
				h.rawMetadata = append(h.rawMetadata, c.f.data)
			}
		case modelFunctions:
			if c.want(protowire.BytesType) {
				h.functions = append(h.functions, c.f.data)
			}
		default:
			h.other = append(h.other, c.f.raw)
		}
		if err != nil {
			return nil, err
		}
	}
	if c.err != nil {
		return nil, c.err
	}
	if h.graph == nil {
		return nil, fmt.Errorf("it has no graph")
	}
	return h, nil
}
