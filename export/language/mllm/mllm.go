// Package mllm writes checkpoints in the format of mllm (github.com/UbiquitousLearning/mllm), version 1: an index of tensors with the names
// of Hugging Face, and their data. The format has no place for the shape of the model: mllm has it in the code of each model.
//
// Unstable: it may change without notice.
package mllm

import (
	"encoding/binary"
	"fmt"

	"qwb/export/language/weights"
	"qwb/graph/language/checkpoint"
)

const (
	magic      = 20012
	headerSize = 12 // magic number and length of the index
	blockSize  = 32
	normEps    = 1e-6 // in the code of every model with RMSNorm, which can be changed
)

// forms are the types of matrices, as mllm's quantizer has them.
var forms = map[string]checkpoint.Type{"q8_0": checkpoint.GGQ8, "q4_0": checkpoint.GGQ4, "f32": checkpoint.F32}

// Format writes blocks of ggml, and a classifier of its own, which is a copy of the embedding where the model shares it. The embedding has
// the type of the matrices, which mllm reads; its own quantizer makes it Q4_0 beside Q8_0.
func Format() weights.Format {
	return weights.Format{Name: "mllm", Title: "mllm version 1", Suffix: ".mllm",
		Matrices: []string{"q8_0", "q4_0", "f32"}, Shape: true, NormEps: normEps, AnyEps: true, Layout: layout, Open: checkpoint.OpenLike}
}

func layout(m *checkpoint.Model, o weights.Options) (*weights.File, error) {
	kind := forms[o.Matrices]
	if o.Matrices == "" {
		kind = checkpoint.GGQ8
	}
	if err := o.Prescribed(blockSize, "mllm"); err != nil {
		return nil, err
	}
	if kind != checkpoint.F32 {
		if err := weights.Blocks(&m.Config, blockSize, "mllm"); err != nil {
			return nil, err
		}
	}
	if err := (weights.Limits{Biases: true, Scaling: true, HeadDim: true}).Check(&m.Config, "mllm"); err != nil {
		return nil, err
	}
	f := &weights.File{Source: m, Config: m.Config}
	f.Config.Pairing, f.Config.Tied = checkpoint.Halves, false
	f.Warn(fmt.Sprintf("the file holds weights alone: mllm has to be told dim %d, hidden %d, %d layers, %d heads, %d of keys and values, "+
		"vocabulary %d, epsilon of the norms %g, base of rotary embedding %g in halves (HFHUBROPE)", m.Dim, m.Hidden, m.Layers, m.Heads,
		m.KVHeads, m.Vocab, m.NormEps, m.RopeTheta), 0)
	if m.Scaling != nil {
		f.Warn("the file does not hold that rotary frequencies are scaled", m.Scaling.Factor)
	}
	var items []weights.Item
	for _, p := range weights.UntiedParts(&m.Config) {
		items = append(items, f.Item(p.Role, p.Layer, weights.Encoding{Type: kind, Search: o.Search && kind != checkpoint.F32}))
	}
	index(f, items)
	f.Items = append(f.Items, items...)
	return f, nil
}

// index appends header and index. An entry is a name, the size, the offset in the file, and the type.
func index(f *weights.File, items []weights.Item) {
	length := 0
	for _, it := range items {
		length += 4 + len(checkpoint.TransformersName(it.Part)) + 8 + 8 + 4
	}
	b := binary.LittleEndian.AppendUint32(nil, magic)
	b = binary.LittleEndian.AppendUint64(b, uint64(length))
	offset := uint64(headerSize + length)
	for _, it := range items {
		name := checkpoint.TransformersName(it.Part)
		b = binary.LittleEndian.AppendUint32(b, uint32(len(name)))
		b = append(b, name...)
		b = binary.LittleEndian.AppendUint64(b, uint64(it.Size()))
		b = binary.LittleEndian.AppendUint64(b, offset)
		b = binary.LittleEndian.AppendUint32(b, checkpoint.MLLMTypes[it.Encoding.Type])
		offset += uint64(it.Size())
	}
	f.Add(b)
}
