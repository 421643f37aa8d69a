package onnx

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"unicode/utf8"

	"qwb/graph"
	"qwb/internal/file"
)

// Model is an ONNX file in memory. The exported fields may be changed and are what Save writes; a model may also be built
// without a file, as &Model{Graph: g}. The constants of a model that was read are views of the file's bytes: they must not
// be written to, and not be used after Close. Its graph has no calls of model-local functions but of those that cannot be
// inlined: see Functions.
type Model struct {
	Graph           *graph.Graph
	IRVersion       int64 // 0: the lowest that carries the graph
	ProducerName    string
	ProducerVersion string
	Domain          string
	ModelVersion    int64
	Doc             string
	Metadata        []KeyValue
	Functions       []Function

	src *source // what was read; nil for a model built in memory
}

// KeyValue is an entry of metadata_props or external_data.
type KeyValue struct{ Key, Value string }

// Function is a model-local function. Reading replaces calls of it by what it consists of; it is written as Raw says, and the
// other fields are for reading.
type Function struct {
	Domain, Name, Overload string
	Attributes             []string     // names, those with a default included
	Defaults               []graph.Attr // of those that have one
	Graph                  *graph.Graph // with attributes that refer to those of the function, and calls of other functions
	Raw                    []byte       // the FunctionProto
}

// Read decodes the model in the first size bytes of r, which are read into memory. Files that hold its external data are
// asked from ext; with nil a model that refers to others is an error.
func Read(r io.ReaderAt, size int64, ext ExternalResolver) (*Model, []graph.Warning, error) {
	b, err := file.ReadAll(r, size)
	if err != nil {
		return nil, nil, err
	}
	return Parse(b, ext)
}

// Parse is Read of bytes that nobody changes as long as the model is used.
func Parse(b []byte, ext ExternalResolver) (*Model, []graph.Warning, error) {
	if len(b) == 0 {
		return nil, nil, errors.New("not an ONNX model: the file is empty")
	}
	h, err := scanModel(b)
	if err != nil {
		return nil, nil, fmt.Errorf("not an ONNX model, or a damaged one: %w", err)
	}
	l := &loader{dec: newDecoder(ext)}
	g, err := l.main(h)
	if err != nil {
		return nil, nil, err
	}
	functions, err := l.functions(h)
	if err != nil {
		return nil, nil, err
	}
	warnings, err := inline(g, functions)
	if err != nil {
		return nil, nil, err
	}
	m := &Model{Graph: g, Functions: functions, IRVersion: h.IRVersion, ProducerName: h.ProducerName, ProducerVersion: h.ProducerVersion,
		Domain: h.Domain, ModelVersion: h.ModelVersion, Doc: h.Doc, Metadata: h.Metadata}
	m.src = &source{data: b, ext: ext, locations: slices.Sorted(maps.Keys(l.dec.locations))}
	return m, append(l.warnings, warnings...), nil
}

// main builds the main graph.
func (l *loader) main(h *header) (*graph.Graph, error) {
	s, err := scanGraph(h.graph)
	if err != nil {
		return nil, err
	}
	if len(s.nodes) == 0 && len(s.outputs) == 0 {
		return nil, errors.New("not an ONNX model: its graph has neither nodes nor outputs")
	}
	if len(h.opsets) == 0 {
		l.warnings = append(l.warnings, graph.Warning{Text: "the model does not say which operator set it is written for"})
	}
	return l.build(s, h.opsets, nil)
}

// functions builds the model-local functions.
func (l *loader) functions(h *header) ([]Function, error) {
	var list []Function
	for _, raw := range h.functions {
		f, err := l.function(raw)
		if err != nil {
			return nil, fmt.Errorf("function %q: %w", f.Name, err)
		}
		list = append(list, f)
	}
	return list, nil
}

func (l *loader) function(raw []byte) (Function, error) {
	f, s, opsets, err := scanFunction(raw)
	if err != nil {
		return f, err
	}
	if f.Defaults, err = l.defaults(s); err != nil {
		return f, err
	}
	for _, list := range [][]infoScan{s.inputs, s.outputs} {
		for i := range list {
			if list[i].name == "" || !utf8.ValidString(list[i].name) {
				return f, fmt.Errorf("name %q of an input or output is empty or not UTF-8", list[i].name)
			}
		}
	}
	f.Graph, err = l.build(s, opsets, nil)
	return f, err
}

// defaults decodes the attributes that a function has by default, as those of a node.
func (l *loader) defaults(s *graphScan) ([]graph.Attr, error) {
	if len(s.defaults) == 0 {
		return nil, nil
	}
	holder := &nodeScan{op: "Defaults", unique: "defaults", outputs: []string{"defaults"}, attrs: s.defaults}
	if err := holder.uniqueAttrs(); err != nil {
		return nil, err
	}
	g, err := l.build(&graphScan{nodes: []*nodeScan{holder}}, nil, nil)
	if err != nil {
		return nil, err
	}
	return g.Node(g.Nodes()[0]).Attrs, nil
}

// WithGraph returns a model that holds g instead and everything else of m. Writing it compares g with the file that m was
// read from. The two share that file: close one of them, when neither is used any more.
func (m *Model) WithGraph(g *graph.Graph) *Model {
	c := *m
	c.Graph = g
	c.Metadata = slices.Clone(m.Metadata)
	return &c
}

// Close releases the file. Tensors of the graph must not be used afterwards. Closing twice is fine.
func (m *Model) Close() error {
	if m.src == nil {
		return nil
	}
	return m.src.close()
}
