package main

import (
	"errors"
	"fmt"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/onnx"
	"qwb/graph/passes"
)

// model is a loaded ONNX file. Graph is the file's graph, or its normal form; loaded is always the file's.
type model struct {
	*onnx.Model
	loaded *graph.Graph
	path   string
	// digest is the SHA-256 of the file and of the external data it refers to, in hexadecimal.
	digest string
	faults []error // of shape inference: nodes that cannot be computed
}

// openModel loads the file at path, infers shapes, and prints the loader's warnings.
func (e *env) openModel(path string) (*model, error) {
	m, warnings, err := onnx.Open(path)
	if err != nil {
		return nil, err
	}
	for _, w := range warnings {
		e.warn("%s: %s", path, w)
	}
	digest, err := m.Digest()
	if err != nil {
		m.Close()
		return nil, fmt.Errorf("load: %s: %w", path, err)
	}
	faults := graph.InferShapes(m.Graph)
	for _, err := range faults {
		e.detail("shape inference: %v", err)
	}
	return &model{m, m.Graph, path, digest, faults}, nil
}

// openNormal loads a model and brings its graph into the normal form that plans and statistics refer to.
func (e *env) openNormal(path string) (*model, error) {
	m, err := e.openModel(path)
	if err != nil {
		return nil, err
	}
	m.Graph = m.loaded.Clone()
	log, err := passes.Run(m.Graph, passes.Normalize)
	if err != nil {
		m.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for _, entry := range log.Applied {
		e.detail("%s", entry)
	}
	for _, entry := range log.Declined {
		e.detail("declined: %s", entry)
	}
	for _, err := range graph.InferShapes(m.Graph) {
		e.detail("shape inference: %v", err)
	}
	return m, nil
}

// name adds stage and file to an error that lists operators which cannot be executed.
func (m *model) name(stage string, err error) error {
	var missing *exec.UnsupportedError
	if errors.As(err, &missing) {
		return fmt.Errorf("%s: %s: %w", stage, m.path, missing)
	}
	return err
}
