package checkpoint_test

import (
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/graph/language/checkpoint"
	"qwb/kernels/qmath"
)

func write(t *testing.T, b []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "model.gguf")
	require.NoError(t, os.WriteFile(path, b, 0o600))
	return path
}

// tinyMeta are the metadata of tinyArrays.
func tinyMeta(arch string, set map[string]any) map[string]any {
	m := map[string]any{
		"general.architecture": arch, arch + ".embedding_length": uint32(32), arch + ".feed_forward_length": uint32(64),
		arch + ".block_count":          uint32(2),
		arch + ".attention.head_count": uint32(4), arch + ".attention.head_count_kv": uint32(2), arch + ".context_length": uint32(64),
		arch + ".attention.layer_norm_rms_epsilon": float32(1e-5), arch + ".rope.freq_base": float32(10000),
		arch + ".rope.dimension_count": uint32(8),
		arch + ".vocab_size":           uint32(48), "tokenizer.ggml.bos_token_id": uint32(1), "tokenizer.ggml.eos_token_id": uint32(2),
	}
	for k, v := range set {
		if m[k] = v; v == nil {
			delete(m, k)
		}
	}
	return m
}

// tinyGGUF gives arrays the names and the order of dimensions of GGUF. kind is the type of matrices.
func tinyGGUF(arrays []array, kind uint32) []ggufTensor {
	rename := strings.NewReplacer("model.layers.", "blk.", "model.embed_tokens", "token_embd", "model.norm", "output_norm",
		"lm_head", "output",
		"input_layernorm", "attn_norm", "post_attention_layernorm", "ffn_norm", "self_attn.o_proj", "attn_output", "self_attn.q_proj", "attn_q",
		"self_attn.k_proj", "attn_k", "self_attn.v_proj", "attn_v", "mlp.gate_proj", "ffn_gate", "mlp.up_proj", "ffn_up",
		"mlp.down_proj", "ffn_down")
	out := make([]ggufTensor, len(arrays))
	for i, a := range arrays {
		dims := slices.Clone(a.shape)
		slices.Reverse(dims)
		out[i] = ggufTensor{name: rename.Replace(a.name), dims: dims, data: a.data}
		if len(dims) == 2 {
			out[i].kind, out[i].data = kind, encode(a.data, kind)
		}
	}
	return out
}

// encode stores float32 numbers as a type of GGUF; blocks have the scale 1/64.
func encode(b []byte, kind uint32) []byte {
	x := make([]float32, len(b)/4)
	_, _ = binary.Decode(b, binary.LittleEndian, x)
	var out []byte
	half := func(v float32) { out = binary.LittleEndian.AppendUint16(out, qmath.HalfBits(v)) }
	code := func(v float32, most float64) byte { return byte(int8(min(math.Floor(float64(v)*64), most))) }
	switch kind {
	case 0:
		return b
	case 1:
		for _, v := range x {
			half(v)
		}
	case 30:
		for _, v := range x {
			out = binary.LittleEndian.AppendUint16(out, qmath.BrainBits(v))
		}
	case 8:
		for block := range slices.Chunk(x, 32) {
			half(1.0 / 64)
			for _, v := range block {
				out = append(out, code(v, 127))
			}
		}
	case 2:
		for block := range slices.Chunk(x, 32) {
			half(1.0 / 64)
			for j := range 16 {
				out = append(out, code(block[j], 7)+8|(code(block[j+16], 7)+8)<<4)
			}
		}
	}
	return out
}

func TestGGUF(t *testing.T) {
	for _, c := range []struct {
		arch    string
		family  checkpoint.Family
		pairing checkpoint.Pairing
	}{{"llama", checkpoint.Llama, checkpoint.Interleaved}, {"qwen2", checkpoint.Qwen2, checkpoint.Halves}} {
		for kind, want := range map[uint32]checkpoint.Type{0: checkpoint.F32, 1: checkpoint.F16, 30: checkpoint.BF16, 8: checkpoint.GGQ8,
			2: checkpoint.GGQ4} {
			for _, tied := range []bool{false, true} {
				arrays := tinyArrays(c.family, tied)
				path := write(t, gguf(tinyMeta(c.arch, map[string]any{"tokenizer.ggml.tokens": []string{"a", "bc"}, "x.scores": []float32{1, 2}}),
					tinyGGUF(arrays, kind)))
				require.True(t, checkpoint.Is(path))
				m := open(t, path)
				assert.Equal(t, checkpoint.Config{Family: c.family, Dim: 32, Hidden: 64, Layers: 2, Heads: 4, KVHeads: 2, HeadDim: 8,
					Vocab: 48, Context: 64,
					NormEps: 1e-5, RopeTheta: 10000, Pairing: c.pairing, Tied: tied, BOS: 1, EOS: []int{2}}, m.Config)
				assert.Equal(t, []string{"a", "bc"}, m.Metadata["tokenizer.ggml.tokens"])
				assert.Equal(t, []float32{1, 2}, m.Metadata["x.scores"])
				assert.Equal(t, uint32(2), m.Metadata[c.arch+".block_count"])
				for i, x := range m.Tensors() {
					require.Equal(t, len(arrays), len(m.Tensors()))
					got, exact := x.All(), make([]float32, x.Len())
					at := slices.IndexFunc(tinyGGUF(arrays, 0), func(g ggufTensor) bool { return g.name == x.Name })
					_, _ = binary.Decode(arrays[at].data, binary.LittleEndian, exact)
					if x.Role.Vector() {
						assert.Equal(t, exact, got, "%d", i)
						continue
					}
					assert.Equal(t, want, x.Type)
					for k, v := range exact {
						switch kind {
						case 8:
							v = float32(math.Floor(float64(v)*64)) / 64
						case 2:
							v = float32(min(math.Floor(float64(v)*64), 7)) / 64
						case 30:
							v = qmath.FromBrain(qmath.BrainBits(v))
						}
						require.Equal(t, v, got[k], "%s %s element %d", x.Name, x.Type, k)
					}
				}
			}
		}
	}
}

func TestGGUFConfigurations(t *testing.T) {
	read := func(set map[string]any, more ...ggufTensor) (*checkpoint.Model, error) {
		tensors := append(tinyGGUF(tinyArrays(checkpoint.Llama, true), 0), more...)
		m, err := checkpoint.Open(write(t, gguf(tinyMeta("llama", set), tensors)))
		if err == nil {
			t.Cleanup(func() { assert.NoError(t, m.Close()) })
		}
		return m, err
	}
	m, err := read(map[string]any{"llama.rope.scaling.type": "linear", "llama.rope.scaling.factor": float32(4),
		"llama.attention.head_count_kv": uint64(2), "tokenizer.ggml.eot_token_id": uint32(7)})
	require.NoError(t, err)
	assert.Equal(t, &checkpoint.RopeScaling{Factor: 4}, m.Scaling)
	assert.Equal(t, []int{2, 7}, m.EOS)

	want := checkpoint.RopeScaling{Factor: 8, LowFactor: 1, HighFactor: 4, OriginalContext: 8192}
	plain, scaled := m.Config, m.Config
	plain.Scaling, plain.RopeTheta = nil, 500000
	scaled.Scaling, scaled.RopeTheta = &want, 500000
	factors := make([]float32, 4)
	for i := range factors {
		factors[i] = float32(plain.Frequencies()[i] / scaled.Frequencies()[i])
	}
	theta := map[string]any{"llama.rope.freq_base": float32(500000)}
	m, err = read(theta, ggufTensor{name: "rope_freqs.weight", dims: []int{4}, data: floats(factors)})
	require.NoError(t, err)
	assert.Equal(t, &want, m.Scaling)
	assert.Empty(t, m.Warnings)
	factors[1] *= 1.5
	m, err = read(theta, ggufTensor{name: "rope_freqs.weight", dims: []int{4}, data: floats(factors)})
	require.NoError(t, err)
	assert.Equal(t, &checkpoint.RopeScaling{Factor: 1, Factors: factors}, m.Scaling, "not those of Llama 3")
	assert.InDelta(t, plain.Frequencies()[1]/float64(factors[1]), m.Frequencies()[1], 1e-12)
	factors[2] = 0
	_, err = read(theta, ggufTensor{name: "rope_freqs.weight", dims: []int{4}, data: floats(factors)})
	assert.ErrorContains(t, err, "rope scaling")
	m, err = read(map[string]any{"llama.rope.scaling.type": "yarn", "llama.rope.scaling.factor": float32(4),
		"llama.rope.scaling.original_context_length": uint32(64)})
	require.NoError(t, err)
	assert.Equal(t, &checkpoint.RopeScaling{Factor: 4, OriginalContext: 64, BetaFast: 32, BetaSlow: 1, Attention: checkpoint.YarnAttention(4)},
		m.Scaling)

	m, err = read(nil, ggufTensor{name: "vision.x", dims: []int{1}, data: floats([]float32{1})})
	require.NoError(t, err)
	assert.Equal(t, []graph.Warning{{Text: `tensor "vision.x" is not used`}}, m.Warnings)

	for _, c := range []struct {
		want string
		set  map[string]any
		more []ggufTensor
	}{
		{`unknown architecture "gemma"`, map[string]any{"general.architecture": "gemma"}, nil},
		{"the metadata have no llama.block_count", map[string]any{"llama.block_count": nil}, nil},
		{"llama.block_count is two", map[string]any{"llama.block_count": "two"}, nil},
		{"llama.block_count is -", map[string]any{"llama.block_count": int64(-1)}, nil},
		{"epsilon of the norms is NaN", map[string]any{"llama.attention.layer_norm_rms_epsilon": nil}, nil},
		{"llama.vocab_size is 49, not 48", map[string]any{"llama.vocab_size": uint32(49)}, nil},
		{"llama.rope.dimension_count is 4", map[string]any{"llama.rope.dimension_count": uint32(4)}, nil},
		{"have no llama.expert_used_count", map[string]any{"llama.expert_count": uint32(8)}, nil},
		{`scaling.type "longrope"`, map[string]any{"llama.rope.scaling.type": "longrope"}, nil},
		{"split into 3 files: name the first one, NAME-00001-of-00003.gguf", map[string]any{"split.count": uint32(3)}, nil},
		{"bos_token_id 48 is outside", map[string]any{"tokenizer.ggml.bos_token_id": uint32(48)}, nil},
		{"general.alignment is 48", map[string]any{"general.alignment": uint32(48)}, nil},
		{"the configuration says", map[string]any{"llama.feed_forward_length": uint32(32)}, nil},
		{`two tensors "blk.0.attn_q.weight"`, nil, []ggufTensor{{name: "blk.0.attn_q.weight", dims: []int{1}, data: make([]byte, 4)}}},
		{"is not part of a llama model", nil, []ggufTensor{{name: "blk.0.attn_q_norm.weight", dims: []int{1}, data: make([]byte, 4)}}},
		{"has the type IQ2_XS", nil, []ggufTensor{{name: "output.weight", dims: []int{32, 48}, kind: 17}}},
		{"rows of [32 48] are no whole blocks of 256", nil, []ggufTensor{{name: "output.weight", dims: []int{32, 48}, kind: 12}}},
		{"has the type number 99", nil, []ggufTensor{{name: "output.weight", dims: []int{32, 48}, kind: 99}}},
		{"no whole blocks of 32", nil, []ggufTensor{{name: "output.weight", dims: []int{48, 32}, kind: 8, data: make([]byte, 34*48)}}},
		{"overlap", nil, []ggufTensor{{name: "output.weight", dims: []int{32, 48}, data: make([]byte, 4*32*48), offset: 32}}},
		{"begins at byte 7", nil, []ggufTensor{{name: "output.weight", dims: []int{32, 48}, data: make([]byte, 4*32*48), offset: 7}}},
	} {
		_, err := read(c.set, c.more...)
		require.ErrorContains(t, err, c.want)
		assert.NotContains(t, err.Error(), "\n")
	}
}

// TestHostileGGUF: counts that promise more than the file holds are errors at once, and every cut of a file is one.
func TestHostileGGUF(t *testing.T) {
	head := func(tensors, pairs uint64, rest ...byte) []byte {
		b := append([]byte("GGUF"), 3, 0, 0, 0)
		return append(binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(b, tensors), pairs), rest...)
	}
	array := func(kind uint32, n uint64) []byte {
		return ggufString(binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint32([]byte{9, 0, 0, 0}, kind), n), "")
	}
	for _, c := range []struct {
		want string
		file []byte
	}{
		{"version 2", append([]byte("GGUF"), 2, 0, 0, 0)},
		{"list of tensors", head(1<<63, 0)},
		{`metadata: "": byte`, head(0, 1<<63)},
		{"a name of", head(0, 1, 255, 255, 255, 255, 255, 255, 255, 255)},
		{"there are no tensors", head(0, 0)},
		{"1152921504606846976 elements", head(0, 1, append(ggufString(nil, "k"), array(8, 1<<60)...)...)},
		{"1152921504606846976 elements", head(0, 1, append(ggufString(nil, "k"), array(9, 1<<60)...)...)},
		{"an array of 9223372036854775808 numbers", head(0, 1, append(ggufString(nil, "k"), array(12, 1<<63)...)...)},
		{"4294967296 bytes are asked for", head(0, 1, append(ggufString(nil, "k"), array(7, 1<<32)...)...)},
		{"unknown type 77", head(0, 1, append(ggufString(nil, "k"), array(77, 1)...)...)},
	} {
		_, err := checkpoint.Open(write(t, c.file))
		assert.ErrorContains(t, err, c.want)
	}
	deep := ggufString(nil, "k")
	deep = append(deep, 9, 0, 0, 0)
	for range 1000 {
		deep = binary.LittleEndian.AppendUint64(append(deep, 9, 0, 0, 0), 1)
	}
	_, err := checkpoint.Open(write(t, head(0, 1, deep...)))
	assert.ErrorContains(t, err, "nested")

	whole := gguf(tinyMeta("llama", nil), tinyGGUF(tinyArrays(checkpoint.Llama, true), 8))
	for n := 4; n < len(whole); n += 97 {
		_, err := checkpoint.Open(write(t, whole[:n]))
		require.Error(t, err, n)
	}
}

// smallestGGUF is a whole model in few bytes: vectors of two elements, two tokens, one layer.
func smallestGGUF() []byte {
	meta := tinyMeta("llama", map[string]any{"a": []string{"x"}, "b": []int32{1}, "c": true, "d": uint8(1), "e": float64(1)})
	for _, key := range []string{"embedding_length", "feed_forward_length", "vocab_size", "rope.dimension_count"} {
		meta["llama."+key] = uint32(2)
	}
	for _, key := range []string{"block_count", "attention.head_count", "attention.head_count_kv"} {
		meta["llama."+key] = uint32(1)
	}
	var tensors []ggufTensor
	for _, name := range []string{"token_embd", "output_norm", "blk.0.attn_norm", "blk.0.attn_q", "blk.0.attn_k", "blk.0.attn_v",
		"blk.0.attn_output",
		"blk.0.ffn_norm", "blk.0.ffn_gate", "blk.0.ffn_up", "blk.0.ffn_down"} {
		dims := []int{2, 2}
		if strings.HasSuffix(name, "norm") {
			dims = dims[:1]
		}
		tensors = append(tensors, ggufTensor{name: name + ".weight", dims: dims, data: make([]byte, 4<<len(dims))})
	}
	return gguf(meta, tensors)
}

func TestSmallestGGUF(t *testing.T) { assert.Equal(t, 2, open(t, write(t, smallestGGUF())).Vocab) }

func FuzzGGUF(f *testing.F) {
	whole := smallestGGUF()
	f.Add(whole)
	f.Add(whole[:500])
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := checkpoint.Open(write(t, b))
		if err != nil {
			return
		}
		for _, x := range m.Tensors() {
			x.All()
		}
		require.NoError(t, m.Close())
	})
}
