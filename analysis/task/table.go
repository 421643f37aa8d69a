package task

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"qwb/graph/tensor"
)

// table holds labels by the name of a sample, or by the last part of it.
type table[T any] map[string]T

// readTable reads lines of file, tab, label. A first line that begins with "file" and a tab is a header. A name may stand on one line only.
func readTable[T any](l Labels, parse func(text string) (T, error)) (table[T], error) {
	src, err := readLabels(l)
	if err != nil {
		return nil, err
	}
	t := table[T]{}
	for n, line := range strings.Split(string(bytes.TrimPrefix(src, []byte("\xef\xbb\xbf"))), "\n") {
		line = strings.TrimSuffix(line, "\r")
		name, text, ok := strings.Cut(line, "\t")
		if line == "" || n == 0 && name == "file" {
			continue
		}
		if !ok {
			return nil, fmt.Errorf("labels %s: line %d: needs a file, a tab and a label", l.Path, n+1)
		}
		name = path.Clean(strings.ReplaceAll(name, "\\", "/"))
		if _, twice := t[name]; twice {
			return nil, fmt.Errorf("labels %s: line %d: %s has a label already", l.Path, n+1, name)
		}
		if t[name], err = parse(text); err != nil {
			return nil, fmt.Errorf("labels %s: line %d: %w", l.Path, n+1, err)
		}
	}
	return t, nil
}

func readLabels(l Labels) ([]byte, error) {
	if l.FS == nil || l.Path == "" {
		return nil, errors.New("this metric needs a file of labels")
	}
	src, err := fs.ReadFile(l.FS, l.Path)
	if err != nil {
		return nil, fmt.Errorf("labels: %w", err)
	}
	return src, nil
}

// of returns the label of a sample.
func (t table[T]) of(s Sample) (T, error) {
	if v, ok := t[s.Name]; ok {
		return v, nil
	}
	if v, ok := t[path.Base(s.Name)]; ok {
		return v, nil
	}
	var none T
	return none, errors.New("the labels have no line for this sample")
}

// floats are the elements of a float output in row-major order. NaN is an error.
func floats(outputs []*tensor.Tensor, i int) ([]float32, error) {
	if i >= len(outputs) {
		return nil, fmt.Errorf("the network has %d outputs, the metric needs %d", len(outputs), i+1)
	}
	if outputs[i].DType != tensor.Float32 {
		return nil, fmt.Errorf("output %d is %s, the metric needs float32", i, outputs[i].Type())
	}
	x := outputs[i].ToRowMajor().F32()
	for _, v := range x {
		if v != v {
			return nil, &NaN{Output: i}
		}
	}
	return x, nil
}
