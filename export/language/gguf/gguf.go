// Package gguf writes checkpoints as GGUF version 3 (docs/gguf.md of github.com/ggml-org/ggml), as llama.cpp reads them: float32 norms and
// biases, and matrices in blocks of the types of forms, in half precision, or in float32.
//
// Unstable: it may change without notice.
package gguf

import (
	"encoding/binary"
	"fmt"

	"qwb/export/language/weights"
	"qwb/graph/language/checkpoint"
	"qwb/kernels/qmath"
)

const (
	magic     = "GGUF"
	version   = 3
	alignment = 32
)

// form is a type of the matrices, by its number in GGUF and the number that general.file_type has then.
type form struct {
	name           string
	encoding       checkpoint.Type
	kind, fileType uint32
	fallback       checkpoint.Type // for rows that are no whole blocks, as llama-quantize has it
}

var forms = []form{
	{"q8_0", checkpoint.GGQ8, 8, 7, checkpoint.F16},
	{"q4_0", checkpoint.GGQ4, 2, 2, checkpoint.F16},
	{"q4_1", checkpoint.GGQ41, 3, 3, checkpoint.F16},
	{"q5_0", checkpoint.GGQ50, 6, 8, checkpoint.F16},
	{"q5_1", checkpoint.GGQ51, 7, 9, checkpoint.F16},
	{"iq4_nl", checkpoint.IQ4NL, 20, 25, checkpoint.F16},
	{"q2_k", checkpoint.Q2K, 10, 10, checkpoint.IQ4NL},
	{"q3_k", checkpoint.Q3K, 11, 11, checkpoint.IQ4NL},
	{"q4_k", checkpoint.Q4K, 12, 14, checkpoint.GGQ50},
	{"q5_k", checkpoint.Q5K, 13, 16, checkpoint.GGQ51},
	{"q6_k", checkpoint.Q6K, 14, 18, checkpoint.GGQ8},
	{"iq4_xs", checkpoint.IQ4XS, 23, 30, checkpoint.IQ4NL},
	{"f16", checkpoint.F16, 1, 1, checkpoint.F16},
	{"f32", checkpoint.F32, 0, 0, checkpoint.F32},
}

// formOf is the row of a type.
func formOf(t checkpoint.Type) form {
	for _, f := range forms {
		if f.encoding == t {
			return f
		}
	}
	return forms[len(forms)-1]
}

// Format writes the tokenizer where it is known; llama.cpp loads no file without one.
func Format() weights.Format {
	f := weights.Format{Name: "gguf", Title: "GGUF version 3", Suffix: ".gguf", Tokenizer: true, Layout: layout, Open: open}
	for _, form := range forms {
		if f.Matrices = append(f.Matrices, form.name); form.encoding >= checkpoint.Groups {
			f.Types = append(f.Types, form.encoding)
		}
	}
	return f
}

func open(path string, _ *checkpoint.Config) (*checkpoint.Model, error) { return checkpoint.Open(path) }

// families are the architectures of GGUF, with the orders of the rows of queries and keys that llama.cpp expects. Its llama is Mistral too.
var families = map[checkpoint.Family]struct {
	arch    checkpoint.Family
	pairing checkpoint.Pairing
}{
	checkpoint.Llama: {checkpoint.Llama, checkpoint.Interleaved}, checkpoint.Mistral: {checkpoint.Llama, checkpoint.Interleaved},
	checkpoint.Qwen2: {checkpoint.Qwen2, checkpoint.Halves}, checkpoint.Qwen3: {checkpoint.Qwen3, checkpoint.Halves},
}

func layout(m *checkpoint.Model, o weights.Options) (*weights.File, error) {
	form := forms[0]
	for _, f := range forms {
		if f.name == o.Matrices {
			form = f
		}
	}
	if err := o.Prescribed(qmath.BlockSize, "GGUF", weights.FallbackIgnore); err != nil {
		return nil, err
	}
	if form = most(m, form, o.Types); o.Fallback == weights.FallbackError && o.Types == nil {
		if err := weights.Blocks(&m.Config, form.encoding.BlockElements(), form.encoding.String()); err != nil {
			return nil, err
		}
	}
	f := &weights.File{Source: m, Config: m.Config}
	f.Config.Family, f.Config.Pairing = families[m.Family].arch, families[m.Family].pairing
	if err := holds(&m.Config); err != nil {
		return nil, err
	}
	tensors := list(f, form, o)
	meta, err := metadata(&f.Config, form, o.Tokenizer)
	if err != nil {
		return nil, err
	}
	if o.Tokenizer == nil {
		f.Warn("the file has no tokenizer: llama.cpp does not load it without one", 0)
	}
	assemble(f, meta, tensors)
	return f, nil
}

// most is the form that most weights have: the file's, to those who want one word for it.
func most(m *checkpoint.Model, form form, types map[checkpoint.Part]checkpoint.Type) form {
	elements, largest := map[checkpoint.Type]int{}, 0
	for _, p := range m.Parts() {
		if t, ok := types[p]; ok {
			elements[t] += m.Of(p).Len()
		}
	}
	for _, f := range forms {
		if n := elements[f.encoding]; n > largest {
			form, largest = f, n
		}
	}
	return form
}

// tensor is an entry of the list of tensors.
type tensor struct {
	name string
	dims []int // the first varies fastest
	item weights.Item
}

// list makes the entries of all parts. Matrices whose rows are no whole blocks are written in the fallback of their type, or with
// FallbackIgnore in half precision; those that were given a type have that.
func list(f *weights.File, form form, o weights.Options) []tensor {
	var out []tensor
	warned := map[checkpoint.Role]bool{}
	for _, p := range f.Config.Parts() {
		rows, cols := f.Config.Shape(p.Role)
		e := weights.Encoding{Type: form.encoding, Search: o.Search}
		for cols%e.Type.BlockElements() != 0 {
			if e.Type = formOf(e.Type).fallback; o.Fallback == weights.FallbackIgnore {
				e.Type = checkpoint.F16
			}
		}
		if t, ok := o.Types[p]; ok {
			e.Type = t
		} else if e.Type != form.encoding && !p.Role.Vector() && !warned[p.Role] {
			warned[p.Role] = true
			f.Warn(fmt.Sprintf("%s is written as %s: its rows of %d elements are no whole blocks of %d", p.Role, e.Type, cols,
				form.encoding.BlockElements()), float64(cols))
		}
		e.Search = e.Search && e.Quantized()
		t := tensor{name: checkpoint.GGUFName(p), dims: []int{cols, rows}, item: f.Item(p.Role, p.Layer, e)}
		if p.Role.Vector() {
			t.dims = t.dims[:1]
		}
		out = append(out, t)
	}
	if b := factors(&f.Config); b != nil {
		out = append(out, tensor{name: "rope_freqs.weight", dims: []int{len(b) / 4}, item: weights.Item{Bytes: b}})
	}
	return out
}

// assemble puts header, metadata, list and data together.
func assemble(f *weights.File, meta []pair, tensors []tensor) {
	b := append([]byte(nil), magic...)
	b = binary.LittleEndian.AppendUint32(b, version)
	b = binary.LittleEndian.AppendUint64(b, uint64(len(tensors)))
	b = binary.LittleEndian.AppendUint64(b, uint64(len(meta)))
	for _, kv := range meta {
		b = kv.append(b)
	}
	offset := int64(0)
	for _, t := range tensors {
		b = appendString(b, t.name)
		b = binary.LittleEndian.AppendUint32(b, uint32(len(t.dims)))
		for _, d := range t.dims {
			b = binary.LittleEndian.AppendUint64(b, uint64(d))
		}
		kind := formOf(checkpoint.F32).kind
		if t.item.Tensor != nil {
			kind = formOf(t.item.Encoding.Type).kind
		}
		b = binary.LittleEndian.AppendUint32(b, kind)
		b = binary.LittleEndian.AppendUint64(b, uint64(offset))
		offset += padded(t.item.Size())
	}
	f.Add(append(b, make([]byte, padded(int64(len(b)))-int64(len(b)))...))
	for _, t := range tensors {
		f.Items = append(f.Items, t.item)
		if gap := padded(t.item.Size()) - t.item.Size(); gap > 0 {
			f.Add(make([]byte, gap))
		}
	}
}

func padded(n int64) int64 { return (n + alignment - 1) / alignment * alignment }

func appendString(b []byte, s string) []byte {
	return append(binary.LittleEndian.AppendUint64(b, uint64(len(s))), s...)
}
