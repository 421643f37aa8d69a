package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"qwb/calib/data/npy"
	"qwb/graph"
	"qwb/graph/tensor"
)

// record holds what ONNX Runtime computed, by ValueID; nil for what it did not.
type record []*tensor.Tensor

// readRecord reads a folder that record.py wrote.
func readRecord(folder string, g *graph.Graph) (record, error) {
	b, err := os.ReadFile(filepath.Join(folder, "names.json"))
	if err != nil {
		return nil, err
	}
	var names []string
	if err := json.Unmarshal(b, &names); err != nil {
		return nil, fmt.Errorf("names.json: %w", err)
	}
	rec := make(record, g.NumValues())
	for k, name := range names {
		v, ok := g.Lookup(name)
		if !ok {
			return nil, fmt.Errorf("the model has no tensor %q: the record is of another model", name)
		}
		if rec[v], err = readArray(filepath.Join(folder, fmt.Sprintf("%d.npy", k))); err != nil {
			return nil, fmt.Errorf("tensor %q: %w", name, err)
		}
	}
	return rec, nil
}

func readArray(file string) (*tensor.Tensor, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return npy.Read(f)
}
