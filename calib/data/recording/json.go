package recording

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"qwb/graph/tensor"
)

// openJSON reads what polygraphy or trtexec wrote. Facts: polygraphy 0.53 (json/serde.py, comparator/struct.py) and TensorRT's
// samples/common/sampleReporting.cpp (exportJSONOutput).
func openJSON(fsys fs.FS, name, part string) (*Recording, error) {
	b, err := fs.ReadFile(fsys, name)
	if err != nil {
		return nil, err
	}
	r, err := readJSON(b, part)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return r, nil
}

func readJSON(b []byte, part string) (*Recording, error) {
	b = bytes.TrimSpace(b)
	if len(b) == 0 {
		return nil, errors.New("an empty file")
	}
	if b[0] == '{' {
		return readRuns(b, part)
	}
	var list []json.RawMessage
	if err := json.Unmarshal(b, &list); err != nil {
		return nil, fmt.Errorf("neither polygraphy's nor trtexec's JSON: %w", err)
	}
	if len(list) == 0 {
		return nil, errors.New("an empty list")
	}
	if part != "" {
		return nil, fmt.Errorf("no parts: %q cannot be chosen", part)
	}
	var first struct {
		Dimensions *string `json:"dimensions"`
	}
	if json.Unmarshal(list[0], &first) == nil && first.Dimensions != nil {
		return readBindings(list)
	}
	r := empty() // the inputs of iterations: those of the first
	return r, r.arrays(list[0])
}

// readBindings reads trtexec's list of {name, dimensions, values}: numbers as C++ prints them, floats with six digits.
func readBindings(list []json.RawMessage) (*Recording, error) {
	r := empty()
	for _, raw := range list {
		var x struct {
			Name       string        `json:"name"`
			Dimensions string        `json:"dimensions"`
			Values     []json.Number `json:"values"`
		}
		if err := json.Unmarshal(raw, &x); err != nil {
			return nil, fmt.Errorf("trtexec's JSON: %w", err)
		}
		shape := []int{}
		for _, s := range strings.FieldsFunc(x.Dimensions, func(c rune) bool { return c == 'x' }) {
			n, err := strconv.Atoi(s)
			if err != nil || n < 0 {
				return nil, fmt.Errorf("tensor %q: dimensions %q", x.Name, x.Dimensions)
			}
			shape = append(shape, n)
		}
		text := make([]string, len(x.Values))
		for i, v := range x.Values {
			text[i] = v.String()
		}
		t, err := numbers(text, shape)
		if err != nil {
			return nil, fmt.Errorf("tensor %q: %w", x.Name, err)
		}
		if !r.add(x.Name, func() (*tensor.Tensor, error) { return t, nil }) {
			return nil, fmt.Errorf("tensor %q stands twice", x.Name)
		}
	}
	return r, nil
}

// numbers makes a float32 tensor of printed numbers. Whether they are integers is for the reader to see.
func numbers(text []string, shape []int) (*tensor.Tensor, error) {
	dims := make([]int64, len(shape))
	for i, d := range shape {
		dims[i] = int64(d)
	}
	n, err := tensor.CheckedCount(dims, int64(len(text)))
	if err != nil || n != len(text) {
		return nil, fmt.Errorf("%d numbers for shape %v", len(text), shape)
	}
	t := tensor.New(tensor.Float32, shape...)
	for i, s := range text {
		v, err := strconv.ParseFloat(s, 32)
		if err != nil && !errors.Is(err, strconv.ErrRange) {
			return nil, fmt.Errorf("%q is not a number", s)
		}
		t.F32()[i] = float32(v)
	}
	return t, nil
}

// readRuns reads polygraphy's RunResults, or one iteration's arrays.
func readRuns(b []byte, part string) (*Recording, error) {
	var runs struct {
		List []json.RawMessage `json:"lst"`
	}
	if err := json.Unmarshal(b, &runs); err != nil {
		return nil, fmt.Errorf("polygraphy's JSON: %w", err)
	}
	r := empty()
	if runs.List == nil {
		if part != "" {
			return nil, fmt.Errorf("no parts: %q cannot be chosen", part)
		}
		var one struct {
			Outputs json.RawMessage `json:"outputs"`
		}
		if json.Unmarshal(b, &one) == nil && one.Outputs != nil { // a file of one iteration
			b = one.Outputs
		}
		return r, r.arrays(b)
	}
	var names []string
	found := -1
	iterations := make([][]json.RawMessage, len(runs.List))
	for i, raw := range runs.List {
		var pair []json.RawMessage
		var name string
		if err := json.Unmarshal(raw, &pair); err != nil || len(pair) != 2 || json.Unmarshal(pair[0], &name) != nil ||
			json.Unmarshal(pair[1], &iterations[i]) != nil {
			return nil, fmt.Errorf("polygraphy's JSON: entry %d is no runner with its iterations", i)
		}
		if names = append(names, name); part != "" && strings.HasPrefix(name, part) {
			if found >= 0 {
				return nil, fmt.Errorf("%q is the start of more than one runner: %s", part, strings.Join(names, ", "))
			}
			found = i
		}
	}
	switch {
	case part == "" && len(names) == 1:
		found = 0
	case found < 0:
		return nil, fmt.Errorf("results of %d runners: choose one by FILE#NAME: %s", len(names), strings.Join(names, ", "))
	}
	if len(iterations[found]) == 0 {
		return nil, fmt.Errorf("runner %s has no iteration", names[found])
	}
	var first struct {
		Outputs json.RawMessage `json:"outputs"`
	}
	if err := json.Unmarshal(iterations[found][0], &first); err != nil {
		return nil, fmt.Errorf("polygraphy's JSON: %w", err)
	}
	return r, r.arrays(first.Outputs)
}

// arrays reads an object of arrays by name: {"array": base64 of npy}, in older files latin-1, alone or as the values of a lazy one.
func (r *Recording) arrays(b []byte) error {
	var list map[string]json.RawMessage
	if err := json.Unmarshal(b, &list); err != nil || list == nil {
		return errors.New("polygraphy's JSON: no arrays by name")
	}
	type encoded struct {
		Array *string `json:"array"`
	}
	names := make([]string, 0, len(list))
	for n := range list {
		names = append(names, n)
	}
	slices.Sort(names)
	for _, n := range names {
		var x struct {
			encoded
			Values encoded `json:"values"`
		}
		if json.Unmarshal(list[n], &x) != nil {
			continue // what says of which class the object is
		}
		text := x.Array
		if text == nil {
			text = x.Values.Array
		}
		if text == nil {
			return fmt.Errorf("tensor %q: no array of NumPy (a tensor of torch cannot be read)", n)
		}
		r.add(n, func() (*tensor.Tensor, error) {
			raw, err := base64.StdEncoding.DecodeString(*text)
			if err != nil {
				raw = latin1(*text)
			}
			t, err := array(raw)
			if err != nil {
				err = fmt.Errorf("tensor %q: %w", n, err)
			}
			return t, err
		})
	}
	if len(r.names) == 0 {
		return errors.New("polygraphy's JSON: no arrays by name")
	}
	return nil
}

func latin1(s string) []byte {
	out := make([]byte, 0, len(s))
	for _, c := range s {
		out = append(out, byte(c))
	}
	return out
}
