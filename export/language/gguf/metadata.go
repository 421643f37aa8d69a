package gguf

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"

	"qwb/graph/language/checkpoint"
)

// pair is one entry of the metadata. value is a uint32, int32, float32, bool, string, or slice of one of these.
type pair struct {
	key   string
	value any
}

// Types of metadata.
const (
	typeUint32  = 4
	typeInt32   = 5
	typeFloat32 = 6
	typeBool    = 7
	typeString  = 8
	typeArray   = 9
)

// metadata are the entries that llama.cpp needs, and what is known about the tokenizer, in the order of its keys.
func metadata(c *checkpoint.Config, form form, tokenizer map[string]any) ([]pair, error) {
	arch := string(c.Family)
	n := func(key string, v int) pair { return pair{arch + "." + key, uint32(v)} }
	out := []pair{
		{"general.architecture", arch},
		{"general.file_type", form.fileType},
		n("vocab_size", c.Vocab), n("context_length", c.Context), n("embedding_length", c.Dim), n("block_count", c.Layers),
		n("feed_forward_length", c.Hidden), n("rope.dimension_count", c.HeadDim), n("attention.head_count", c.Heads),
		n("attention.head_count_kv", c.KVHeads),
		{arch + ".attention.layer_norm_rms_epsilon", c.NormEps},
		{arch + ".rope.freq_base", float32(c.RopeTheta)},
	}
	if c.Heads*c.HeadDim != c.Dim {
		out = append(out, n("attention.key_length", c.HeadDim), n("attention.value_length", c.HeadDim))
	}
	out = append(out, scaling(c.Scaling, arch+".rope.scaling.")...)
	if form.encoding >= checkpoint.Groups {
		out = append(out, pair{"general.quantization_version", uint32(2)})
	}
	for _, key := range slices.Sorted(maps.Keys(tokenizer)) {
		kv := pair{key, tokenizer[key]}
		if kv.append(nil) == nil {
			return nil, fmt.Errorf("export: metadata %q of the tokenizer are of type %T, which is not written", key, kv.value)
		}
		out = append(out, kv)
	}
	return out, nil
}

// holds reports what the metadata cannot say.
func holds(c *checkpoint.Config) error {
	if _, ok := families[c.Family]; !ok {
		return fmt.Errorf("export: GGUF of the %s family is not written", c.Family)
	}
	if c.Windows != nil {
		return fmt.Errorf("export: attention in windows has no place in GGUF's %s", families[c.Family].arch)
	}
	if float64(float32(c.RopeTheta)) != c.RopeTheta {
		return fmt.Errorf("export: GGUF holds the base of rotary embedding as float32, which %v is not", c.RopeTheta)
	}
	if s := c.Scaling; s != nil {
		if !listed(s) && float64(float32(s.Factor)) != s.Factor {
			return fmt.Errorf("export: GGUF holds the factor of scaled rotary frequencies as float32, which %v is not", s.Factor)
		}
		if s.Factors != nil && s.Attention != 0 && s.Attention != 1 {
			return fmt.Errorf("export: GGUF has no place for %g, which cosines and sines are multiplied with beside a list of factors", s.Attention)
		}
	}
	return nil
}

// listed reports whether a scaling becomes a list of factors: that of Llama 3, and what is a list already.
func listed(s *checkpoint.RopeScaling) bool {
	return s != nil && (s.HighFactor != 0 || s.Factors != nil)
}

// scaling are the entries of a scaling that is a rule in GGUF, linear or YaRN.
func scaling(s *checkpoint.RopeScaling, prefix string) []pair {
	if s == nil || listed(s) {
		return nil
	}
	out := []pair{{prefix + "type", "linear"}, {prefix + "factor", float32(s.Factor)}}
	if s.BetaFast == 0 {
		return out
	}
	out[0].value = "yarn"
	out = append(out, pair{prefix + "original_context_length", uint32(s.OriginalContext)})
	for _, x := range []struct {
		key              string
		value, otherwise float64
	}{{"attn_factor", s.Attention / checkpoint.YarnAttention(s.Factor), 1}, {"yarn_beta_fast", s.BetaFast, 32},
		{"yarn_beta_slow", s.BetaSlow, 1}} {
		if float32(x.value) != float32(x.otherwise) {
			out = append(out, pair{prefix + x.key, float32(x.value)})
		}
	}
	return out
}

// factors are what the rotary frequencies are divided by, one float32 for each pair; nil where they are not stretched by a list.
func factors(c *checkpoint.Config) []byte {
	if !listed(c.Scaling) {
		return nil
	}
	plain := *c
	plain.Scaling = nil
	var b []byte
	scaled := c.Frequencies()
	for i, f := range plain.Frequencies() {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(f/scaled[i])))
	}
	return b
}

// append appends the entry, or returns nil where the type of its value is not known.
func (kv pair) append(b []byte) []byte {
	b = appendString(b, kv.key)
	kind, data, count := encode(kv.value)
	if kind == 0 {
		return nil
	}
	if count >= 0 {
		b = binary.LittleEndian.AppendUint32(b, typeArray)
		b = binary.LittleEndian.AppendUint32(b, kind)
		b = binary.LittleEndian.AppendUint64(b, uint64(count))
	} else {
		b = binary.LittleEndian.AppendUint32(b, kind)
	}
	return append(b, data...)
}

// encode returns the type, the bytes, and the number of elements (-1 of what is no array) of a value; type 0 is none.
func encode(value any) (kind uint32, data []byte, count int) {
	switch v := value.(type) {
	case string:
		return typeString, appendString(nil, v), -1
	case []string:
		for _, s := range v {
			data = appendString(data, s)
		}
		return typeString, data, len(v)
	case bool, uint32, int32, float32:
		data, _ = binary.Append(nil, binary.LittleEndian, v)
		return kindOfNumber(v), data, -1
	case []bool:
		data, _ = binary.Append(nil, binary.LittleEndian, v)
		return typeBool, data, len(v)
	case []uint32:
		data, _ = binary.Append(nil, binary.LittleEndian, v)
		return typeUint32, data, len(v)
	case []int32:
		data, _ = binary.Append(nil, binary.LittleEndian, v)
		return typeInt32, data, len(v)
	case []float32:
		data, _ = binary.Append(nil, binary.LittleEndian, v)
		return typeFloat32, data, len(v)
	}
	return 0, nil, 0
}

func kindOfNumber(v any) uint32 {
	switch v.(type) {
	case bool:
		return typeBool
	case uint32:
		return typeUint32
	case int32:
		return typeInt32
	}
	return typeFloat32
}
