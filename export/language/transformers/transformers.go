// Package transformers writes folders as Hugging Face lays them out, with matrices as compressed-tensors, GPTQ and AWQ store them
// (checkpoint.Schemes): config.json, model.safetensors, and the files of the tokenizer where the source is such a folder. Embedding,
// classifier, norms and biases keep the type of floats that they have.
//
// Unstable: it may change without notice.
package transformers

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"qwb/export"
	"qwb/export/language/weights"
	"qwb/graph/language/checkpoint"
	"qwb/internal/file"
	"qwb/kernels/qmath"
)

// method is a format: a quant_method.
type method struct {
	name, title, note string
	group             int // the group where none is asked for, halved until it divides every row
}

var methods = []method{
	{"compressed-tensors", "a Hugging Face folder of compressed-tensors, for transformers, vLLM and SGLang", "", 128},
	{"gptq", "a Hugging Face folder of GPTQ (zero points less one)", "", 128},
	{"gptq_v2", "a Hugging Face folder of GPTQ, second version (zero points as they are)", "", 128},
	{"awq", "a Hugging Face folder of AWQ (GEMM)", "", 128},
}

const weightsFile = "model.safetensors"

// Formats are those of all methods.
func Formats() []export.Format {
	var list []export.Format
	for _, m := range methods {
		f := weights.Format{Name: m.name, Title: m.title, Note: m.note, Folder: weightsFile, Layout: m.layout, Beside: beside,
			Open: func(path string, _ *checkpoint.Config) (*checkpoint.Model, error) { return checkpoint.Open(path) }}
		for _, s := range checkpoint.Schemes {
			if s.Method == m.name {
				f.Matrices = append(f.Matrices, s.Name)
			}
		}
		list = append(list, f.Export())
	}
	return list
}

func (w method) layout(m *checkpoint.Model, o weights.Options) (*weights.File, error) {
	scheme := cmp.Or(checkpoint.SchemeOf(w.name, o.Matrices), checkpoint.SchemeOf(w.name, ""))
	if o.Search && scheme.Number != nil {
		return nil, fmt.Errorf("export: --%s %s is for integers, which %s are not", weights.Method.Name, weights.ScaleRange, scheme.Name)
	}
	f := &weights.File{Source: m, Config: m.Config}
	f.Config.Pairing = checkpoint.Halves
	if m.Experts > 0 {
		return nil, fmt.Errorf("export: %s: mixtures of experts are not written", w.name)
	}
	group, err := w.groups(f, scheme, &o)
	if err != nil {
		return nil, err
	}
	config, err := configOf(f, scheme, group)
	if err != nil {
		return nil, err
	}
	f.State = config
	var arrays []checkpoint.SafeArray
	names := map[string]bool{}
	f.Add(nil)
	for _, p := range f.Config.Parts() {
		e := weights.Encoding{Type: kept(m.Tensor(p.Role, p.Layer))}
		if slices.Contains(matrices, p.Role) {
			e = weights.Encoding{Type: checkpoint.Packed, Group: group, Search: o.Search, Scheme: scheme,
				Scale: cmp.Or(scheme.Scales, floatNames[kept(m.Tensor(checkpoint.Embedding, -1))])}
			if _, cols := f.Config.Shape(p.Role); group < 0 {
				e.Group = cols
			}
		}
		it := f.Item(p.Role, p.Layer, e)
		if p.Role.Vector() {
			it.Encoding.Type = kept(it.Tensor)
		}
		name := checkpoint.TransformersName(p)
		if m.Folder() {
			name = it.Tensor.Name
		}
		if names[name] {
			return nil, fmt.Errorf("export: %s: matrices that are joined in one (%s) are not written", w.name, name)
		}
		names[name] = true
		f.Items = append(f.Items, it)
		arrays = append(arrays, arraysOf(&it, name)...)
	}
	globals(f, scheme)
	head := checkpoint.Safetensors{Metadata: map[string]string{"format": "pt"}, Arrays: arrays}
	if f.Items[0].Bytes, err = head.Header(); err != nil {
		return nil, fmt.Errorf("export: %w", err)
	}
	if scheme.Inputs != "" {
		f.Warn("engines round the inputs of matrices too: figures of qwb are of the weights alone", 0)
	}
	return f, nil
}

// groups chooses the columns that share a scale, -1 for all of a row, and refuses shapes that the scheme does not hold.
func (w method) groups(f *weights.File, s *checkpoint.Scheme, o *weights.Options) (group int, err error) {
	c := &f.Config
	for _, role := range matrices {
		if rows, _ := c.Shape(role); rows%s.RowsOf() != 0 {
			return 0, fmt.Errorf("export: %s needs a multiple of %d rows, %s has %d", w.name, s.RowsOf(), role, rows)
		}
		if _, cols := c.Shape(role); s.Bits*cols%32 != 0 {
			return 0, fmt.Errorf("export: %s needs rows of a multiple of %d elements, those of %s have %d", w.name, 32/s.Bits, role, cols)
		}
	}
	if s.Group != 0 {
		name := w.name + " " + s.Name
		if err := o.Prescribed(s.Group, name); err != nil {
			return 0, err
		}
		if s.Group > 0 && s.Height == 0 {
			return s.Group, weights.Blocks(c, s.Group, name)
		}
		return s.Group, nil
	}
	inner := *c // the embedding stays float
	inner.Vocab = inner.Dim
	group, warnings, err := weights.Groups(&inner, weights.Sizing{Asked: o.Group, Default: cmp.Or(o.Usual, w.group), Fallback: o.Fallback})
	f.Warnings = append(f.Warnings, warnings...)
	return group, err
}

// matrices are the roles that are quantized.
var matrices = []checkpoint.Role{checkpoint.Query, checkpoint.Key, checkpoint.Value, checkpoint.Output, checkpoint.Gate, checkpoint.Up,
	checkpoint.Down}

// kept is the type of floats that a tensor is stored in: its own, or float32 where it is quantized.
func kept(t *checkpoint.Tensor) checkpoint.Type {
	if t != nil && t.Floats() {
		return t.Type
	}
	return checkpoint.F32
}

// configOf makes the config.json and holds it to the shape.
func configOf(f *weights.File, s *checkpoint.Scheme, group int) ([]byte, error) {
	floats := kept(f.Source.Tensor(checkpoint.Embedding, -1))
	b, err := checkpoint.FolderConfig(f.Source, &f.Config, s.Config(group), floats)
	if err != nil {
		return nil, fmt.Errorf("export: %w", err)
	}
	said, err := checkpoint.ParseConfig(b)
	if err == nil {
		err = weights.SameShape(&f.Config, &said)
	}
	if err != nil {
		return nil, fmt.Errorf("export: config.json cannot say what this model is: %w", err)
	}
	return b, nil
}

var floatNames = map[checkpoint.Type]string{checkpoint.F32: "F32", checkpoint.F16: "F16", checkpoint.BF16: "BF16"}

// arraysOf are the arrays of an item, whose name as a float is given.
func arraysOf(it *weights.Item, name string) []checkpoint.SafeArray {
	t := it.Tensor
	if it.Encoding.Type == checkpoint.Packed {
		return it.Arrays(strings.TrimSuffix(name, ".weight"))
	}
	a := checkpoint.SafeArray{Name: name, DType: floatNames[it.Encoding.Type], Shape: []int{t.Rows, t.Cols}}
	if it.Part.Role.Vector() {
		a.Shape = []int{t.Cols}
	}
	return []checkpoint.SafeArray{a}
}

// together are the roles whose matrices engines join: their scales of the whole matrix have to be one.
var together = [][]checkpoint.Role{{checkpoint.Query, checkpoint.Key, checkpoint.Value}, {checkpoint.Gate, checkpoint.Up},
	{checkpoint.Output}, {checkpoint.Down}}

// globals gives matrices of NVFP4 what their scales are multiplied with, so that the largest is that of E4M3.
func globals(f *weights.File, s *checkpoint.Scheme) {
	if s.Scales != "F8_E4M3" {
		return
	}
	for l := range f.Config.Layers {
		for _, roles := range together {
			most := float32(0)
			for _, r := range roles {
				for _, v := range f.Source.Tensor(r, l).All() {
					most = max(most, qmath.Abs32(v))
				}
			}
			global := float32(1)
			if most > 0 {
				global = 6 * 448 / most
			}
			for i := range f.Items {
				if it := &f.Items[i]; it.Tensor != nil && it.Part.Layer == l && slices.Contains(roles, it.Part.Role) {
					it.Global = global
				}
			}
		}
	}
}

// beside writes config.json and, of a source that is such a folder, copies its tokenizer.
func beside(f *weights.File, out *export.Output) error {
	if err := out.Write("config.json", func(w io.Writer) error { _, err := w.Write(f.State.([]byte)); return err }); err != nil {
		return err
	}
	home, copied := f.Source.Home(), false
	for _, name := range checkpoint.FolderFiles {
		if home == "" {
			break
		}
		b, release, err := file.Open(filepath.Join(home, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		err = out.Write(name, func(w io.Writer) error { _, err := w.Write(b); return err })
		if err := errors.Join(err, release()); err != nil {
			return err
		}
		copied = copied || strings.HasPrefix(name, "tokenizer")
	}
	if !copied {
		f.Warn("no tokenizer is written: put that of the model (tokenizer.json or tokenizer.model) into the folder", 0)
	}
	return nil
}
