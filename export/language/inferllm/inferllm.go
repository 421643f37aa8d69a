// Package inferllm writes checkpoints in the format of InferLLM (github.com/MegEngine/InferLLM) for its models of the Llama kind: shape,
// tokens, and tensors with the names of Hugging Face, in blocks of 32 with float32 scales.
//
// Unstable: it may change without notice.
package inferllm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"qwb/export/language/weights"
	"qwb/graph/language/checkpoint"
)

const (
	headerSize = 24
	blockSize  = 32
)

var forms = map[string]checkpoint.Type{"q8_0": checkpoint.WideQ8, "q4_0": checkpoint.WideQ4, "f32": checkpoint.F32}

// limits: InferLLM's graph of Llama has these numbers in its code, and 32-bit offsets.
var limits = weights.Limits{Theta: checkpoint.InferLLMTheta,
	Pairing: checkpoint.Halves, OneHead: true, MaxBytes: math.MaxInt32}

// Format writes all matrices quantized, the embedding too, and a classifier of its own, which is the embedding once more where the model
// shares it. The tokens are part of the file, so a tokenizer has to be known.
func Format() weights.Format {
	return weights.Format{Name: "inferllm", Title: "InferLLM", Suffix: ".bin", Note: "start it with --version 2",
		Matrices: []string{"q8_0", "q4_0", "f32"}, Tokenizer: true, Shape: true, NormEps: checkpoint.InferLLMEps,
		Layout: layout, Open: checkpoint.OpenLike}
}

func layout(m *checkpoint.Model, o weights.Options) (*weights.File, error) {
	kind := forms[o.Matrices]
	if o.Matrices == "" {
		kind = checkpoint.WideQ8
	}
	if err := limits.Check(&m.Config, "InferLLM"); err != nil {
		return nil, err
	}
	if width := feedWidth(m.Dim, m.Hidden); width != m.Hidden {
		return nil, fmt.Errorf("export: InferLLM computes the width of the feed-forward layers from the dimension %d: %d, and the model has %d",
			m.Dim, width, m.Hidden)
	}
	if err := o.Prescribed(blockSize, "InferLLM"); err != nil {
		return nil, err
	}
	if kind != checkpoint.F32 {
		// Its kernels take two blocks at a time.
		if err := weights.Blocks(&m.Config, 2*blockSize, "InferLLM"); err != nil {
			return nil, err
		}
	}
	tokens, err := vocabulary(o.Tokenizer, m.Vocab)
	if err != nil {
		return nil, fmt.Errorf("export: %w", err)
	}
	f := &weights.File{Source: m, Config: m.Config}
	f.Config.Pairing, f.Config.Tied = limits.Pairing, false
	f.Warn("InferLLM takes this file with --version 2 only; without it, it says that the type of the model is not supported", 0)
	f.Add(header(&f.Config, tokens))
	for _, p := range weights.UntiedParts(&m.Config) {
		it := f.Item(p.Role, p.Layer, weights.Encoding{Type: kind, Search: o.Search && kind != checkpoint.F32})
		f.Add(entry(&f.Config, it))
		f.Items = append(f.Items, it)
	}
	return f, limits.CheckSize(f, "InferLLM")
}

// feedWidth is the width of the feed-forward layers as InferLLM computes it (core/graph.cpp, nff): two thirds of four times the dimension,
// rounded up to a multiple of the number in the header, which is the model's own width here. The two agree unless the model is narrower.
func feedWidth(dim, multiple int) int {
	least := 2 * (4 * dim) / 3
	return (least + multiple - 1) / multiple * multiple
}

// header is the magic number, where parameters, tokens and tensors stand, and the first two of these.
func header(c *checkpoint.Config, tokens []byte) []byte {
	const parameters = 20
	var b []byte
	for _, n := range []int{checkpoint.InferLLMMagic, headerSize, parameters, headerSize + parameters, len(tokens),
		headerSize + parameters + len(tokens),
		c.Dim, c.Heads, c.Layers, c.Hidden, c.Vocab} {
		b = binary.LittleEndian.AppendUint32(b, uint32(n))
	}
	return append(b, tokens...)
}

// entry is what stands in front of a tensor's data: the number of its dimensions, the length of its name, its type, dimensions and name.
func entry(c *checkpoint.Config, it weights.Item) []byte {
	rows, cols := c.Shape(it.Part.Role)
	dims := []int{rows, cols}
	if it.Part.Role.Vector() {
		dims = dims[1:]
	}
	name := checkpoint.TransformersName(it.Part)
	b := binary.LittleEndian.AppendUint32(nil, uint32(len(dims)))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(name)))
	b = binary.LittleEndian.AppendUint32(b, checkpoint.InferLLMTypes[it.Encoding.Type])
	for _, d := range dims {
		b = binary.LittleEndian.AppendUint32(b, uint32(d))
	}
	return append(b, name...)
}

// vocabulary is every token's length and text, as SentencePiece gives it: nothing for control tokens, one byte for bytes, spaces for what
// stands for them.
func vocabulary(tokenizer map[string]any, size int) ([]byte, error) {
	tokens, _ := tokenizer["tokenizer.ggml.tokens"].([]string)
	types, _ := tokenizer["tokenizer.ggml.token_type"].([]int32)
	switch {
	case tokenizer == nil:
		return nil, errors.New("InferLLM's files hold the tokens: name a tokenizer.bin with --tokenizer")
	case tokenizer["tokenizer.ggml.model"] != "llama":
		return nil, errors.New("InferLLM's files hold tokens of SentencePiece, not of byte-pair encoding")
	case len(tokens) != size || len(types) != size:
		return nil, fmt.Errorf("%d tokens of %d types for a vocabulary of %d", len(tokens), len(types), size)
	}
	var b []byte
	for id, token := range tokens {
		text, err := text(token, types[id])
		if err != nil {
			return nil, fmt.Errorf("token %d: %w", id, err)
		}
		b = binary.LittleEndian.AppendUint32(b, uint32(len(text)))
		b = append(b, text...)
	}
	return b, nil
}
