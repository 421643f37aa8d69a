package onnx

import (
	"bytes"
	"fmt"
	"math"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

	"qwb/graph"
)

// maxMessage is the largest message that protobuf implementations in use accept.
const maxMessage = math.MaxInt32

// reread decodes the file behind a model again: what the graph was before anybody changed it, functions not inlined.
func (s *source) reread() (*header, *original, error) {
	if s.data == nil {
		return nil, nil, fmt.Errorf("the model was closed")
	}
	h, err := scanModel(s.data)
	if err != nil {
		return nil, nil, err
	}
	scan, err := scanGraph(h.graph)
	if err != nil {
		return nil, nil, err
	}
	l := &loader{dec: newDecoder(s.ext)}
	old := &original{scan: scan}
	if old.graph, err = l.build(scan, h.opsets, nil); err != nil {
		return nil, nil, err
	}
	old.loaded = old.graph
	if len(h.functions) > 0 {
		functions, err := l.functions(h)
		if err != nil {
			return nil, nil, err
		}
		old.loaded = old.graph.Clone()
		if _, err = inline(old.loaded, functions); err != nil {
			return nil, nil, err
		}
	}
	return h, old, nil
}

// unchanged reports whether the model says what its file says.
func (m *Model) unchanged(h *header, old *original) bool {
	return m.IRVersion == h.IRVersion && m.ProducerName == h.ProducerName && m.ProducerVersion == h.ProducerVersion &&
		m.Domain == h.Domain && m.ModelVersion == h.ModelVersion && m.Doc == h.Doc && slices.Equal(m.Metadata, h.Metadata) &&
		slices.Equal(m.Graph.Opsets, old.loaded.Opsets) && slices.EqualFunc(m.Functions, h.functions,
		func(f Function, raw []byte) bool { return bytes.Equal(f.Raw, raw) }) && sameGraph(m.Graph, old.loaded)
}

// encode encodes a model that differs from its file or has none. h and old are nil in that case.
func (m *Model) encode(h *header, old *original, sink *dataFile) (*rope, error) {
	if h == nil {
		h = &header{}
	}
	if err := m.Graph.Check(); err != nil {
		return nil, err
	}
	e := &encoder{inline: true, sink: sink}
	written, err := matrices(m.Graph)
	if err != nil {
		return nil, err
	}
	g, err := e.graph(written, old)
	if err != nil {
		return nil, err
	}
	r := &rope{}
	need := MinIRVersion(m.Graph)
	functions := m.Functions
	if old != nil && calls(old.graph, functions) && !calls(m.Graph, functions) {
		functions = nil // they stand in the graph
	}
	if len(functions) > 0 {
		need = max(need, 8)
	}
	r.varint(modelIRVersion, uint64(max(m.IRVersion, need)))
	for _, f := range []struct {
		num protowire.Number
		s   string
	}{{modelProducerName, m.ProducerName}, {modelProducerVersion, m.ProducerVersion}, {modelDomain, m.Domain}} {
		if f.s != "" {
			r.str(f.num, f.s)
		}
	}
	if m.ModelVersion != 0 {
		r.varint(modelVersion, uint64(m.ModelVersion))
	}
	if m.Doc != "" {
		r.str(modelDoc, m.Doc)
	}
	r.message(modelGraph, g)
	for _, o := range m.Graph.Opsets {
		if i := slices.Index(h.opsets, o); i >= 0 {
			r.bytes(modelOpsets, h.rawOpsets[i])
		} else {
			r.message(modelOpsets, encodeOpset(o))
		}
	}
	for _, kv := range m.Metadata {
		if i := slices.Index(h.Metadata, kv); i >= 0 {
			r.bytes(modelMetadata, h.rawMetadata[i])
		} else {
			r.message(modelMetadata, encodeEntry(kv))
		}
	}
	for _, f := range functions {
		r.bytes(modelFunctions, f.Raw)
	}
	for _, raw := range h.other {
		r.add(raw)
	}
	return r, nil
}

func encodeOpset(o graph.Opset) *rope {
	r := &rope{}
	r.str(opsetDomain, o.Domain)
	r.varint(opsetVersion, uint64(o.Version))
	return r
}
