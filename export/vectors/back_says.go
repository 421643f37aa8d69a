package vectors

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"qwb/export"
	"qwb/graph/tensor"
	"qwb/quantizer/lower"
)

// Kinds of what program.json says besides numbers of arrays: shape and type of a tensor; of a step its kind, the tensors that it reads and
// makes, and its parameters, each by its path.
const (
	shaped export.ItemKind = "shape"
	stated export.ItemKind = "parameters"
)

// shapeOf is the shape that a tensor has in a run; false: nobody has seen it.
func shapeOf(rec *export.Recording, t *lower.Tensor) ([]int, bool) {
	if t.Const != nil {
		return t.Const.Shape, true
	}
	shape, seen := rec.Shapes[t.ID]
	return shape, seen
}

// read are the inputs of a step without elements; false: the shape of one is not known.
func read(rec *export.Recording, p *lower.Program, s *lower.Step) ([]*tensor.Tensor, bool) {
	list := make([]*tensor.Tensor, len(s.Inputs))
	for k, id := range s.Inputs {
		if id == lower.NoTensor {
			continue
		}
		shape, seen := shapeOf(rec, &p.Tensors[id])
		if !seen {
			return nil, false
		}
		list[k] = &tensor.Tensor{DType: p.Tensors[id].DType, Shape: shape}
	}
	return list, true
}

// says yields what program.json says of the tensors and steps of a run.
func says(rec *export.Recording, p *lower.Program, yield func(*export.Item) error) error {
	for i := range p.Tensors {
		t := &p.Tensors[i]
		if shape, seen := shapeOf(rec, t); seen {
			if err := yield(shapeItem(t.Name, t.DType.String(), shape)); err != nil {
				return err
			}
		}
	}
	name := func(id lower.TensorID) string { return p.Tensors[id].Name }
	for i := range p.Steps {
		s := &p.Steps[i]
		in, known := read(rec, p, s)
		if !known {
			continue
		}
		d, err := describe(p, s, in)
		if err != nil {
			return err
		}
		text, err := json.Marshal(d.parameters)
		if err != nil {
			return err
		}
		it, err := stepItem(export.StepName(p, s), d.kind, s.Inputs, s.Outputs, name, text)
		if err == nil {
			err = yield(it)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func shapeItem(name, typ string, shape []int) *export.Item {
	return &export.Item{At: export.TensorName(name), Kind: shaped, Texts: []string{fmt.Sprint(typ, shape)}}
}

func stepItem(at, kind string, reads, makes []lower.TensorID, name func(id lower.TensorID) string,
	parameters []byte) (*export.Item, error) {
	it := &export.Item{At: at, Kind: stated, Texts: []string{kind}}
	for side, list := range [][]lower.TensorID{reads, makes} {
		for _, id := range list {
			if id != lower.NoTensor {
				it.Texts = append(it.Texts, []string{"reads ", "makes "}[side]+name(id))
			}
		}
	}
	var v any
	d := json.NewDecoder(bytes.NewReader(parameters))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	first := len(it.Texts)
	paths(v, "", func(text string) { it.Texts = append(it.Texts, text) })
	slices.Sort(it.Texts[first:])
	return it, nil
}

// paths are the values in a JSON value with where they stand.
func paths(v any, at string, see func(text string)) {
	switch v := v.(type) {
	case map[string]any:
		for name, x := range v {
			paths(x, at+"."+name, see)
		}
	case []any:
		for i, x := range v {
			paths(x, fmt.Sprintf("%s[%d]", at, i), see)
		}
	default:
		see(fmt.Sprintf("%s=%v", at, v))
	}
}
