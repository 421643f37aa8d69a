package main

import (
	"errors"
	"fmt"

	"qwb/graph"
	"qwb/graph/checkpoint"
	"qwb/graph/exec"
	"qwb/graph/onnx"
	"qwb/graph/passes"
)

// model is a loaded ONNX file, or the graph of a checkpoint. Graph is the file's graph, or its normal form; loaded is always the
// file's.
type model struct {
	*onnx.Model
	loaded *graph.Graph
	path   string
	// digest is the SHA-256 of the file and of the external data it refers to, in hexadecimal.
	digest string
	faults []error // of shape inference: nodes that cannot be computed
	// checkpoint is what the graph was made of; nil for ONNX.
	checkpoint *checkpoint.Model
}

// Close releases the files.
func (m *model) Close() error {
	err := m.Model.Close()
	if m.checkpoint != nil {
		err = errors.Join(err, m.checkpoint.Close())
	}
	return err
}

// openModel loads the file at path, or the folder of a checkpoint, infers shapes, and prints the loader's warnings.
func (e *env) openModel(path string) (*model, error) {
	if checkpoint.Is(path) {
		return e.openCheckpoint(path)
	}
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
	return e.inferred(&model{Model: m, loaded: m.Graph, path: path, digest: digest}), nil
}

// openCheckpoint makes the graph of a language model.
func (e *env) openCheckpoint(path string) (*model, error) {
	c, err := checkpoint.Open(path)
	if err != nil {
		return nil, err
	}
	for _, w := range c.Warnings {
		e.warn("%s: %s", path, w)
	}
	g, err := checkpoint.Graph(c)
	var digest string
	if err == nil {
		digest, err = c.Digest()
	}
	if err != nil {
		_ = c.Close() // the error that matters is err
		return nil, err
	}
	return e.inferred(&model{Model: &onnx.Model{Graph: g}, loaded: g, path: path, digest: digest, checkpoint: c}), nil
}

func (e *env) inferred(m *model) *model {
	m.faults = graph.InferShapes(m.Graph)
	for _, err := range m.faults {
		e.detail("shape inference: %v", err)
	}
	return m
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
