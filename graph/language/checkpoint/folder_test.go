package checkpoint_test

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/graph/language/checkpoint"
)

// TestFolderHoldsTheModelOfLlama2c: the trained model as Hugging Face stores it has the same numbers, but for the order of rows in
// queries and keys.
func TestFolderHoldsTheModelOfLlama2c(t *testing.T) {
	dir := llm(t)
	a, b := open(t, dir+"/stories260K.bin"), open(t, dir+"/stories260K-hf")
	want := a.Config
	want.Pairing, want.EOS = checkpoint.Halves, []int{2}
	assert.Equal(t, want, b.Config)
	assert.Empty(t, b.Warnings)
	for i, x := range a.Tensors() {
		y := b.Tensors()[i].All()
		if x.Role == checkpoint.Query || x.Role == checkpoint.Key {
			y = neighbours(y, x.Rows/b.HeadDim, b.HeadDim, x.Cols)
		}
		assert.Equal(t, x.All(), y, "%s", x.Part)
	}
	for _, name := range []string{"config.json", "model.safetensors"} {
		c := open(t, dir+"/stories260K-hf/"+name)
		assert.Equal(t, b.Config, c.Config)
	}
}

// neighbours reorders the rows of heads from halves to pairs of neighbours: w.view(heads, 2, half, cols).transpose(1, 2) in the words
// of llama2.c's exporter.
func neighbours(w []float32, heads, headDim, cols int) []float32 {
	var out []float32
	for h := range heads {
		for i := range headDim / 2 {
			for half := range 2 {
				row := h*headDim + half*headDim/2 + i
				out = append(out, w[row*cols:][:cols]...)
			}
		}
	}
	return out
}

func TestFolders(t *testing.T) {
	for _, c := range []struct {
		name   string
		family checkpoint.Family
		tied   bool
		set    map[string]any
	}{
		{"llama", checkpoint.Llama, false, nil},
		{"tied", checkpoint.Llama, true, map[string]any{"tie_word_embeddings": true}},
		{"tied, and not said", checkpoint.Llama, true, map[string]any{"tie_word_embeddings": nil}},
		{"qwen2", checkpoint.Qwen2, false, map[string]any{"architectures": []string{"Qwen2ForCausalLM"}, "model_type": "qwen2",
			"use_sliding_window": false, "sliding_window": 16, "max_window_layers": 1}},
		{"qwen2 tied, by its type alone", checkpoint.Qwen2, true, map[string]any{"architectures": nil, "model_type": "qwen2",
			"tie_word_embeddings": true}},
	} {
		arrays := tinyArrays(c.family, c.tied)
		single := folder(t, tinyConfig(c.set), map[string][]byte{"model.safetensors": safetensors(t, arrays, nil)})
		for what, dir := range map[string]string{
			"single":  single,
			"sharded": folder(t, tinyConfig(c.set), shards(t, arrays, nil)),
			"F16":     folder(t, tinyConfig(c.set), map[string][]byte{"model.safetensors": safetensors(t, as("F16", arrays), nil)}),
			"BF16":    folder(t, tinyConfig(c.set), shards(t, as("BF16", arrays), nil)),
		} {
			require.True(t, checkpoint.Is(dir), c.name)
			m := open(t, dir)
			assert.Equal(t, c.family, m.Family, c.name)
			assert.Equal(t, c.tied, m.Tied, c.name)
			assert.Empty(t, m.Warnings)
			require.Len(t, m.Tensors(), len(arrays), c.name)
			for _, x := range m.Tensors() {
				i := slices.IndexFunc(arrays, func(a array) bool { return a.name == x.Name })
				require.GreaterOrEqual(t, i, 0, "%s %s", c.name, x.Name)
				if what == "BF16" {
					assert.Equal(t, checkpoint.BF16, x.Type)
					continue // rounded: the type alone
				}
				assert.Equal(t, arrays[i].data, floats(x.All()), "%s %s %s", c.name, what, x.Name)
			}
		}
	}
}

func TestBrainFloatsAreRead(t *testing.T) {
	arrays := tinyArrays(checkpoint.Llama, true)
	arrays[0].data = floats(make([]float32, 48*32))
	for i := range 48 * 32 {
		binary.LittleEndian.PutUint32(arrays[0].data[4*i:], uint32(0x3f80+i%64)<<16)
	}
	m := open(t, folder(t, tinyConfig(map[string]any{"tie_word_embeddings": true}),
		map[string][]byte{"model.safetensors": safetensors(t, as("BF16", arrays), nil)}))
	assert.Equal(t, arrays[0].data, floats(m.Tensor(checkpoint.Embedding, -1).All()))
}

func TestConfigurations(t *testing.T) {
	files := map[string][]byte{"model.safetensors": safetensors(t, tinyArrays(checkpoint.Llama, false), nil)}
	read := func(set map[string]any) checkpoint.Config { return open(t, folder(t, tinyConfig(set), files)).Config }
	assert.Equal(t, &checkpoint.RopeScaling{Factor: 4},
		read(map[string]any{"rope_scaling": map[string]any{"type": "linear", "factor": 4}}).Scaling)
	llama3 := map[string]any{"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1, "high_freq_factor": 4,
		"original_max_position_embeddings": 8192}
	want := &checkpoint.RopeScaling{Factor: 8, LowFactor: 1, HighFactor: 4, OriginalContext: 8192}
	assert.Equal(t, want, read(map[string]any{"rope_scaling": llama3}).Scaling)
	llama3["rope_theta"] = 500000
	c := read(map[string]any{"rope_theta": nil, "rope_parameters": llama3})
	assert.Equal(t, want, c.Scaling)
	assert.Equal(t, 500000.0, c.RopeTheta)
	assert.Equal(t, &checkpoint.RopeScaling{Factor: 4, OriginalContext: 64, BetaFast: 32, BetaSlow: 1, Attention: 1.5},
		read(map[string]any{"rope_scaling": map[string]any{
			"rope_type": "yarn", "factor": 4, "original_max_position_embeddings": 64, "attention_factor": 1.5}}).Scaling)
	assert.Nil(t, read(map[string]any{"rope_scaling": map[string]any{"rope_type": "default"}}).Scaling)
	assert.Equal(t, []int{5, 7}, read(map[string]any{"eos_token_id": []int{5, 7}}).EOS)
	assert.Equal(t, 8, read(map[string]any{"head_dim": 8}).HeadDim)
	assert.Equal(t, float32(1e-6), read(map[string]any{"rms_norm_eps": nil}).NormEps)
}

func TestBadConfigurations(t *testing.T) {
	files := map[string][]byte{"model.safetensors": safetensors(t, tinyArrays(checkpoint.Llama, false), nil)}
	qwen := func(set map[string]any) map[string]any {
		set["architectures"] = []string{"Qwen2ForCausalLM"}
		return set
	}
	gemma := func(set map[string]any) map[string]any {
		set["architectures"], set["hidden_act"] = []string{"Gemma2ForCausalLM"}, "gelu_pytorch_tanh"
		return set
	}
	for _, c := range []struct {
		want string
		set  map[string]any
	}{
		{`unknown architecture OPTForCausalLM (model_type "llama"), which differs by learned positions and LayerNorm; known are Llama`,
			map[string]any{"architectures": []string{"OPTForCausalLM"}}},
		{"2 of 0 experts", map[string]any{"architectures": []string{"MixtralForCausalLM"}, "num_local_experts": 0, "num_experts_per_tok": 2}},
		{"9 of 8 experts", map[string]any{"architectures": []string{"MixtralForCausalLM"}, "num_experts_per_tok": 9}},
		{"is not part of a mixtral model", map[string]any{"architectures": []string{"MixtralForCausalLM"}}},
		{"experts of -1 elements", map[string]any{"architectures": []string{"Qwen3MoeForCausalLM"}, "moe_intermediate_size": -1}},
		{`unknown architecture  (model_type "gpt2")`, map[string]any{"architectures": nil, "model_type": "gpt2"}},
		{`hidden_act is "gelu"`, map[string]any{"hidden_act": "gelu"}},
		{"mlp_bias", map[string]any{"mlp_bias": true}},
		{"attention_bias", map[string]any{"attention_bias": true, "architectures": []string{"MistralForCausalLM"}}},
		{`rope_scaling of type "ntk"`, map[string]any{"rope_scaling": map[string]any{"rope_type": "ntk", "factor": 4}}},
		{`original_max_position_embeddings 0`, map[string]any{"rope_scaling": map[string]any{"rope_type": "longrope", "factor": 4}}},
		{`1 short_factor for`, map[string]any{"original_max_position_embeddings": 16, "rope_scaling": map[string]any{"rope_type": "longrope",
			"short_factor": []float64{1}}}},
		{`rope scaling`, map[string]any{"original_max_position_embeddings": 16, "rope_scaling": map[string]any{"rope_type": "longrope",
			"short_factor": []float64{1, 0, 1, 1}}}},
		{`change with the length`, map[string]any{"rope_scaling": map[string]any{"rope_type": "dynamic", "factor": 4}}},
		{`with mscale`, map[string]any{"rope_scaling": map[string]any{"rope_type": "yarn", "factor": 4, "mscale": 1}}},
		{`beta_fast 1, beta_slow 2`, map[string]any{"rope_scaling": map[string]any{"rope_type": "yarn", "factor": 4, "beta_fast": 1,
			"beta_slow": 2}}},
		{"the factor is 0", map[string]any{"rope_scaling": map[string]any{"rope_type": "linear"}}},
		{"low_freq_factor 0", map[string]any{"rope_scaling": map[string]any{"rope_type": "llama3", "factor": 4}}},
		{"layer_types has 1 entries for 2", qwen(map[string]any{"use_sliding_window": true, "sliding_window": 16, "layer_types": []string{"x"}})},
		{`type "chunked_attention"`, qwen(map[string]any{"use_sliding_window": true, "sliding_window": 16,
			"layer_types": []string{"full_attention", "chunked_attention"}})},
		{"partial_rotary_factor 0.5", map[string]any{"partial_rotary_factor": 0.5}},
		{"partial_rotary_factor 2 of heads", map[string]any{"architectures": []string{"Phi3ForCausalLM"}, "partial_rotary_factor": 2}},
		{"rotary embedding of 3 of 8", map[string]any{"architectures": []string{"Phi3ForCausalLM"}, "partial_rotary_factor": 0.4}},
		{"query_pre_attn_scalar is -1", gemma(map[string]any{"query_pre_attn_scalar": -1})},
		{"attn_logit_softcapping is 0", gemma(map[string]any{"attn_logit_softcapping": 0})},
		{"final_logit_softcapping is \"x\"", gemma(map[string]any{"final_logit_softcapping": "x"})},
		{"quant_method \"hqq\" is not read", map[string]any{"quantization_config": map[string]any{"quant_method": "hqq"}}},
		{"bos_token_id 48 is outside", map[string]any{"bos_token_id": 48}},
		{"neither an id nor a list", map[string]any{"eos_token_id": "</s>"}},
		{"4 query heads cannot share 3", map[string]any{"num_key_value_heads": 3}},
		{"cannot be cut into 5 heads", map[string]any{"num_attention_heads": 5}},
		{"heads is 0", map[string]any{"num_attention_heads": nil}},
		{"vocab is 0", map[string]any{"vocab_size": 0}},
		{"the configuration says [64,32]", map[string]any{"vocab_size": 64}},
		{"the configuration says [64,32]", map[string]any{"head_dim": 16}},
		{"belongs to layer 1; the configuration has 1 layers", map[string]any{"num_hidden_layers": 1}},
		{"no tensor for attention norm of layer 2", map[string]any{"num_hidden_layers": 3}},
		{"no tensor for query bias of layer 0", qwen(map[string]any{})},
	} {
		dir := folder(t, tinyConfig(c.set), files)
		_, err := checkpoint.Open(dir)
		require.ErrorContains(t, err, c.want)
		assert.ErrorContains(t, err, "checkpoint: "+dir)
		assert.NotContains(t, err.Error(), "\n")
	}
}

func TestTensorsThatDoNotBelong(t *testing.T) {
	tied := tinyConfig(map[string]any{"tie_word_embeddings": true})
	arrays := tinyArrays(checkpoint.Llama, true)
	with := func(a array) string {
		return folder(t, tied, map[string][]byte{"model.safetensors": safetensors(t, append(slices.Clone(arrays), a), nil)})
	}
	same, other := arrays[0], arrays[0]
	same.name, other.name = "lm_head.weight", "lm_head.weight"
	other.data = floats(make([]float32, 48*32))
	assert.Empty(t, open(t, with(same)).Warnings)
	assert.Contains(t, open(t, with(other)).Warnings[0].Text, `tensor "lm_head.weight" is not used`)
	assert.Empty(t, open(t, with(array{"model.layers.1.self_attn.rotary_emb.inv_freq", "F32", []int{1}, floats([]float32{1})})).Warnings)
	assert.Equal(t, []graph.Warning{{Text: `tensor "visual.patch" is not used`}},
		open(t, with(array{"visual.patch", "I64", []int{1}, make([]byte, 8)})).Warnings)
	for want, a := range map[string]array{
		"is not part of a llama model":   {"model.layers.1.self_attn.q_norm.weight", "F32", []int{1}, floats([]float32{1})},
		`layers.0.self_attn.q_proj.bias`: {"model.layers.0.self_attn.q_proj.bias", "F32", []int{32}, floats(make([]float32, 32))},
	} {
		_, err := checkpoint.Open(with(a))
		assert.ErrorContains(t, err, want)
	}
	arrays[3].dtype, arrays[3].data, arrays[3].shape = "I8", make([]byte, 16*32), []int{16, 32}
	_, err := checkpoint.Open(with(same))
	assert.ErrorContains(t, err, "is stored as I8")
}

func TestBadShards(t *testing.T) {
	arrays := tinyArrays(checkpoint.Llama, false)
	for _, c := range []struct {
		want string
		edit func(weightMap map[string]string, meta map[string]any)
	}{
		{`the index says that it is in model-00002`, func(w map[string]string, _ map[string]any) {
			w["model.embed_tokens.weight"] = "model-00002-of-00002.safetensors"
		}},
		{`the index does not list tensor "model.norm.weight"`, func(w map[string]string, _ map[string]any) { delete(w, "model.norm.weight") }},
		{`tensor "model.more" is not in model-00001`, func(w map[string]string, _ map[string]any) {
			w["model.more"] = "model-00001-of-00002.safetensors"
		}},
		{"model-00003-of-00003.safetensors: ", func(w map[string]string, _ map[string]any) {
			w["model.more"] = "model-00003-of-00003.safetensors"
		}},
		{"is no name of a file in this folder", func(w map[string]string, _ map[string]any) {
			w["model.more"] = "../model-00001-of-00002.safetensors"
		}},
		{"total_size is 7", func(_ map[string]string, meta map[string]any) { meta["total_size"] = 7 }},
		{"there is no weight_map", func(w map[string]string, _ map[string]any) { clear(w) }},
	} {
		_, err := checkpoint.Open(folder(t, tinyConfig(nil), shards(t, arrays, c.edit)))
		assert.ErrorContains(t, err, c.want)
	}
	dir := folder(t, tinyConfig(nil), shards(t, arrays, nil))
	require.NoError(t, os.Remove(filepath.Join(dir, "model-00002-of-00002.safetensors")))
	_, err := checkpoint.Open(dir)
	assert.ErrorContains(t, err, "model-00002-of-00002.safetensors: no such file")
	_, err = checkpoint.Open(folder(t, tinyConfig(nil), map[string][]byte{"pytorch_model.bin": nil}))
	assert.ErrorContains(t, err, "pytorch_model.bin: torch: zip: not a valid zip file")
}

// TestDigestOfFolders: every file counts, and where the folder lies does not.
func TestDigestOfFolders(t *testing.T) {
	arrays := tinyArrays(checkpoint.Llama, false)
	digest := func(config map[string]any, arrays []array) string {
		d, err := open(t, folder(t, config, shards(t, arrays, nil))).Digest(t.Context())
		require.NoError(t, err)
		return d
	}
	want := digest(tinyConfig(nil), arrays)
	assert.Len(t, want, 64)
	assert.Equal(t, want, digest(tinyConfig(nil), arrays))
	assert.NotEqual(t, want, digest(tinyConfig(map[string]any{"rms_norm_eps": 1e-6}), arrays))
	arrays[5].data = slices.Clone(arrays[5].data)
	arrays[5].data[0]++
	assert.NotEqual(t, want, digest(tinyConfig(nil), arrays))
}

func TestBadSafetensors(t *testing.T) {
	entry := func(dtype string, shape, offsets string) string {
		return fmt.Sprintf(`{"dtype":%q,"shape":%s,"data_offsets":%s}`, dtype, shape, offsets)
	}
	one := `{"a":` + entry("F32", "[2]", "[0,8]") + `}`
	s, err := checkpoint.ParseSafetensors(raw(one, make([]byte, 8)))
	require.NoError(t, err)
	require.Len(t, s.Arrays, 1)
	assert.Equal(t, "a", s.Arrays[0].Name)
	for _, c := range []struct{ want, header string }{
		{"overlap", `{"a":` + entry("F32", "[2]", "[0,8]") + `,"b":` + entry("F32", "[1]", "[4,8]") + `}`},
		{"belong to no tensor", `{"a":` + entry("F32", "[1]", "[4,8]") + `}`},
		{"4 bytes follow the last tensor", `{"a":` + entry("F32", "[1]", "[0,4]") + `}`},
		{`the name "a" occurs twice`, `{"a":` + entry("F32", "[1]", "[0,4]") + `,"a":` + entry("F32", "[1]", "[4,8]") + `}`},
		{`unknown type "F8"`, `{"a":` + entry("F8", "[8]", "[0,8]") + `}`},
		{"has 8 bytes, its type and shape take 12", `{"a":` + entry("F32", "[3]", "[0,8]") + `}`},
		{"lies at [0 9]; 8 bytes follow", `{"a":` + entry("U8", "[9]", "[0,9]") + `}`},
		{"lies at [8 0]", `{"a":` + entry("U8", "[8]", "[8,0]") + `}`},
		{"cannot unmarshal", `{"a":` + entry("U8", "[-8]", "[0,8]") + `}`},
		{"has the shape", `{"a":` + entry("U8", "[4294967296,4294967296]", "[0,8]") + `}`},
		{"has the shape", `{"a":` + entry("F64", "[2147483647,2147483647,2147483647]", "[0,8]") + `}`},
		{"bytes follow the object", one + "x"},
		{"does not begin with {", `[1]`},
		{"EOF", `{"a":`},
	} {
		_, err := checkpoint.ParseSafetensors(raw(c.header, make([]byte, 8)))
		assert.ErrorContains(t, err, c.want, c.header)
	}
	file := raw(one, make([]byte, 8))
	for n := range len(file) - 1 {
		_, err := checkpoint.ParseSafetensors(file[:n])
		assert.Error(t, err, n)
	}
	_, err = checkpoint.ParseSafetensors(binary.LittleEndian.AppendUint64(nil, 1<<62))
	assert.ErrorContains(t, err, "the format allows 100000000")
	empty := `{"a":` + entry("F32", "[0,5]", "[0,0]") + `,"b":` + entry("F32", "[2]", "[0,8]") + `}`
	s, err = checkpoint.ParseSafetensors(raw(empty, make([]byte, 8)))
	require.NoError(t, err)
	assert.Len(t, s.Arrays, 2)
}

func FuzzSafetensors(f *testing.F) {
	f.Add(raw(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"__metadata__":{"format":"pt"}}`, make([]byte, 8)))
	f.Add(raw(`{}`, nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := checkpoint.ParseSafetensors(b)
		if err != nil {
			return
		}
		total := 0
		for _, a := range s.Arrays {
			total += len(a.Data)
		}
		var n uint64 = binary.LittleEndian.Uint64(b)
		assert.Equal(t, len(b)-8-int(n), total)
		assert.True(t, json.Valid([]byte(strings.TrimSpace(string(b[8:8+n])))))
	})
}

// TestIs: other files that qwb reads are no checkpoints.
func TestIs(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{
		"model.onnx": "\x08\x08\x12\x07pytorch\x1a\x052.1.0:\x80\x01" + strings.Repeat("\n\x10\x08\x01\x12\x04Conv", 50),
		"plan.json":  "{\n  \"format\": \"qwb-plan\",\n  \"version\": 1\n" + strings.Repeat(" ", 100) + "}",
		"zeros.bin":  strings.Repeat("\x00", 4096),
		"text.txt":   "Once upon a time, there was a little girl named Lily.",
		"empty":      "",
	} {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		assert.False(t, checkpoint.Is(path), name)
	}
	assert.False(t, checkpoint.Is(dir), "a folder without config.json")
	assert.False(t, checkpoint.Is(filepath.Join(dir, "nothing")))
	assert.True(t, checkpoint.Is(llm(t)+"/stories260K-hf"))
	assert.True(t, checkpoint.Is(llm(t)+"/stories260K-hf/model.safetensors"))
	assert.True(t, checkpoint.Is(llm(t)+"/stories15M.bin"))
}
