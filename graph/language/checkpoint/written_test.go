package checkpoint_test

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph/language/checkpoint"
	"qwb/kernels/qmath"
)

// array is a tensor that a test writes.
type array struct {
	name  string
	dtype string // of safetensors
	shape []int
	data  []byte
}

func floats(x []float32) []byte {
	b, _ := binary.Append(nil, binary.LittleEndian, x)
	return b
}

// safetensors writes a file: a header and the arrays one after the other. edit may change the header.
func safetensors(t *testing.T, arrays []array, edit func(header map[string]any)) []byte {
	t.Helper()
	header, data := map[string]any{"__metadata__": map[string]string{"format": "pt"}}, []byte(nil)
	for _, a := range arrays {
		header[a.name] = map[string]any{"dtype": a.dtype, "shape": a.shape, "data_offsets": []int{len(data), len(data) + len(a.data)}}
		data = append(data, a.data...)
	}
	if edit != nil {
		edit(header)
	}
	h, err := json.Marshal(header)
	require.NoError(t, err)
	return raw(string(h), data)
}

// raw is a safetensors file of a header and data.
func raw(header string, data []byte) []byte {
	header += strings.Repeat(" ", (8-len(header)%8)%8)
	return append(append(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header...), data...)
}

// tinyConfig is config.json of a small model; set changes it, nil removes a key.
func tinyConfig(set map[string]any) map[string]any {
	c := map[string]any{
		"architectures": []string{"LlamaForCausalLM"}, "model_type": "llama", "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
		"num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 48, "max_position_embeddings": 64, "rms_norm_eps": 1e-5,
		"rope_theta": 10000.0, "hidden_act": "silu", "tie_word_embeddings": false, "bos_token_id": 1, "eos_token_id": 2,
	}
	for k, v := range set {
		if c[k] = v; v == nil {
			delete(c, k)
		}
	}
	return c
}

// tinyArrays are the tensors of tinyConfig with numbers that tell them apart: element i of array k is k + i/1024, exact in
// half precision.
func tinyArrays(family checkpoint.Family, tied bool) []array {
	const dim, hidden, kv, vocab, layers = 32, 64, 16, 48, 2
	var out []array
	add := func(name string, shape ...int) {
		n := 1
		for _, d := range shape {
			n *= d
		}
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(len(out)%8)/8 + float32(i%64)/1024
		}
		out = append(out, array{name, "F32", shape, floats(x)})
	}
	add("model.embed_tokens.weight", vocab, dim)
	for l := range layers {
		p := "model.layers." + string(rune('0'+l)) + "."
		add(p+"input_layernorm.weight", dim)
		add(p+"self_attn.q_proj.weight", dim, dim)
		add(p+"self_attn.k_proj.weight", kv, dim)
		add(p+"self_attn.v_proj.weight", kv, dim)
		add(p+"self_attn.o_proj.weight", dim, dim)
		if family == checkpoint.Qwen2 {
			add(p+"self_attn.q_proj.bias", dim)
			add(p+"self_attn.k_proj.bias", kv)
			add(p+"self_attn.v_proj.bias", kv)
		}
		add(p+"post_attention_layernorm.weight", dim)
		add(p+"mlp.gate_proj.weight", hidden, dim)
		add(p+"mlp.up_proj.weight", hidden, dim)
		add(p+"mlp.down_proj.weight", dim, hidden)
	}
	add("model.norm.weight", dim)
	if !tied {
		add("lm_head.weight", vocab, dim)
	}
	return out
}

// as stores arrays in another type.
func as(dtype string, arrays []array) []array {
	out := slices.Clone(arrays)
	for i, a := range out {
		b := make([]byte, 0, len(a.data)/2)
		for j := 0; j < len(a.data); j += 4 {
			x := math.Float32frombits(binary.LittleEndian.Uint32(a.data[j:]))
			if dtype == "F16" {
				b = binary.LittleEndian.AppendUint16(b, qmath.HalfBits(x))
			} else {
				b = binary.LittleEndian.AppendUint16(b, uint16(math.Float32bits(x)>>16))
			}
		}
		out[i].dtype, out[i].data = dtype, b
	}
	return out
}

// folder writes a folder of config.json and other files.
func folder(t *testing.T, config map[string]any, files map[string][]byte) string {
	t.Helper()
	dir := t.TempDir()
	b, err := json.Marshal(config)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), b, 0o600))
	for name, b := range files {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), b, 0o600))
	}
	return dir
}

// shards cuts arrays into two files with an index, which edit may change.
func shards(t *testing.T, arrays []array, edit func(weightMap map[string]string, meta map[string]any)) map[string][]byte {
	t.Helper()
	names := []string{"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"}
	half, total := len(arrays)/2, 0
	weightMap := map[string]string{}
	for i, a := range arrays {
		weightMap[a.name] = names[min(i/half, 1)]
		total += len(a.data)
	}
	meta := map[string]any{"total_size": total}
	if edit != nil {
		edit(weightMap, meta)
	}
	index, err := json.Marshal(map[string]any{"metadata": meta, "weight_map": weightMap})
	require.NoError(t, err)
	return map[string][]byte{
		names[0]: safetensors(t, arrays[:half], nil), names[1]: safetensors(t, arrays[half:], nil), "model.safetensors.index.json": index,
	}
}

// gguf writes a GGUF file. Metadata are written in the order of their keys.
func gguf(meta map[string]any, tensors []ggufTensor) []byte {
	b := append([]byte("GGUF"), 3, 0, 0, 0)
	b = binary.LittleEndian.AppendUint64(b, uint64(len(tensors)))
	b = binary.LittleEndian.AppendUint64(b, uint64(len(meta)))
	for _, key := range slices.Sorted(maps.Keys(meta)) {
		b = ggufValue(ggufString(b, key), meta[key])
	}
	at := 0
	for _, t := range tensors {
		b = ggufString(b, t.name)
		b = binary.LittleEndian.AppendUint32(b, uint32(len(t.dims)))
		for _, d := range t.dims {
			b = binary.LittleEndian.AppendUint64(b, uint64(d))
		}
		b = binary.LittleEndian.AppendUint32(b, t.kind)
		b = binary.LittleEndian.AppendUint64(b, uint64(cmp.Or(t.offset, at)))
		at += (len(t.data) + 31) / 32 * 32
	}
	for _, t := range tensors {
		b = append(b, make([]byte, (32-len(b)%32)%32)...)
		b = append(b, t.data...)
	}
	return b
}

type ggufTensor struct {
	name   string
	dims   []int
	kind   uint32
	data   []byte
	offset int // 0: behind the one before
}

func ggufString(b []byte, s string) []byte {
	return append(binary.LittleEndian.AppendUint64(b, uint64(len(s))), s...)
}

func ggufValue(b []byte, v any) []byte {
	array := func(kind uint32, n int) {
		b = binary.LittleEndian.AppendUint32(b, 9)
		b = binary.LittleEndian.AppendUint32(b, kind)
		b = binary.LittleEndian.AppendUint64(b, uint64(n))
	}
	scalar := func(kind uint32) {
		b = binary.LittleEndian.AppendUint32(b, kind)
		b, _ = binary.Append(b, binary.LittleEndian, v)
	}
	switch v := v.(type) {
	case string:
		return ggufString(binary.LittleEndian.AppendUint32(b, 8), v)
	case []string:
		array(8, len(v))
		for _, s := range v {
			b = ggufString(b, s)
		}
	case []float32:
		array(6, len(v))
		b, _ = binary.Append(b, binary.LittleEndian, v)
	case []int32:
		array(5, len(v))
		b, _ = binary.Append(b, binary.LittleEndian, v)
	case uint8:
		scalar(0)
	case uint32:
		scalar(4)
	case uint64:
		scalar(10)
	case int64:
		scalar(11)
	case float32:
		scalar(6)
	case float64:
		scalar(12)
	case bool:
		scalar(7)
	}
	return b
}
