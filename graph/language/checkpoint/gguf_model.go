package checkpoint

import (
	"encoding/binary"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
)

func isGGUF(b []byte) bool {
	return len(b) >= len(ggufMagic) && string(b[:len(ggufMagic)]) == ggufMagic
}

// ggufFamilies are the values of general.architecture that are read. The converter of llama.cpp reorders the rows of a Llama model's
// queries and keys, so that pairs are neighbours; those of Qwen2 and Qwen3 stay as they are.
var ggufFamilies = map[string]struct {
	family  Family
	pairing Pairing
}{
	"llama": {Llama, Interleaved},
	"qwen2": {Qwen2, Halves},
	"qwen3": {Qwen3, Halves}, "qwen2moe": {Qwen2MoE, Halves}, "qwen3moe": {Qwen3MoE, Halves},
}

func readGGUF(m *Model, b []byte) error {
	meta, tensors, err := parseGGUF(b)
	if err != nil {
		return err
	}
	if tensors, err = m.splits(meta, tensors); err != nil {
		return err
	}
	m.Metadata = meta
	if m.Config, err = ggufConfig(meta, tensors); err != nil {
		return err
	}
	for i := range tensors {
		if err := m.addGGUF(&tensors[i]); err != nil {
			return err
		}
	}
	return nil
}

// splits reads the other files of a model that is split, as llama-gguf-split does it: NAME-00001-of-00003.gguf has the metadata of all.
func (m *Model) splits(meta map[string]any, tensors []ggufTensor) ([]ggufTensor, error) {
	k := &ggufKeys{meta: meta}
	count, no := k.number("split.count", 1), k.number("split.no", 0)
	if k.err != nil || count <= 1 {
		return tensors, k.err
	}
	name := filepath.Base(m.Path)
	of := fmt.Sprintf("-of-%05d.gguf", count)
	base, ok := strings.CutSuffix(name, "-00001"+of)
	if no != 0 || !ok {
		return nil, fmt.Errorf("the model is split into %d files: name the first one, NAME-00001%s", count, of)
	}
	for i := 1; i < count; i++ {
		part := fmt.Sprintf("%s-%05d%s", base, i+1, of)
		b, err := m.mapFile(filepath.Join(filepath.Dir(m.Path), part), part)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", part, err)
		}
		its, list, err := parseGGUF(b)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", part, err)
		}
		own := &ggufKeys{meta: its}
		if own.number("split.no", -1) != i || own.number("split.count", -1) != count || own.err != nil {
			return nil, fmt.Errorf("%s is not file %d of %d of this model", part, i+1, count)
		}
		tensors = append(tensors, list...)
	}
	if n := k.number("split.tensors.count", len(tensors)); n != len(tensors) {
		return nil, fmt.Errorf("the files have %d tensors, the first says %d", len(tensors), n)
	}
	return tensors, k.err
}

func (m *Model) addGGUF(t *ggufTensor) error {
	if t.name == ggufFactors {
		return nil // ggufScaling has looked at it
	}
	p, ok, err := ggufNames.find(&m.Config, t.name)
	if err != nil {
		return err
	}
	if !ok {
		m.leaveOut(&ggufNames, t.name)
		return nil
	}
	kind, ok := ggufTypes[t.kind]
	if !ok {
		name := ggufNamesOfTypes[t.kind]
		if name == "" {
			name = fmt.Sprintf("number %d", t.kind)
		}
		return fmt.Errorf("tensor %q (%s) has the type %s; F32, F16, BF16, Q4_0 to Q8_0, Q2_K to Q6_K, IQ4_NL, IQ4_XS, MXFP4 and NVFP4 are read",
			t.name, p, name)
	}
	out := &Tensor{Part: p, Name: t.name, Rows: 1, Type: kind, data: t.data}
	if parts := ggufNames.parts(&m.Config, t.name); parts != nil {
		return m.addExperts(t, out, parts)
	}
	switch {
	case len(t.dims) == 1 && p.Role.Vector():
		out.Cols = t.dims[0]
	case len(t.dims) == 2 && !p.Role.Vector():
		out.Cols, out.Rows = t.dims[0], t.dims[1]
	default:
		return fmt.Errorf("tensor %q (%s) has the dimensions %v", t.name, p, t.dims)
	}
	return m.add(out)
}

// addExperts cuts a tensor into the matrices of the experts.
func (m *Model) addExperts(t *ggufTensor, all *Tensor, parts []Part) error {
	rows, cols := m.Shape(parts[0].Role)
	size := all.Type.bytes(rows * cols)
	if !slices.Equal(t.dims, []int{cols, rows, len(parts)}) || cols%all.Type.block() != 0 || len(t.data) != size*len(parts) {
		return fmt.Errorf("tensor %q (%s) has the dimensions %v; %d experts have [%d %d] each", t.name, parts[0].Role, t.dims, len(parts), cols,
			rows)
	}
	for i, p := range parts {
		one := *all
		one.Part, one.Rows, one.Cols, one.data = p, rows, cols, t.data[i*size:(i+1)*size]
		if err := m.add(&one); err != nil {
			return err
		}
	}
	return nil
}

// ggufKeys reads metadata. The first error stays.
type ggufKeys struct {
	meta map[string]any
	err  error
}

// number returns an integer of any size; of one that is absent, otherwise, or an error where that is negative.
func (k *ggufKeys) number(key string, otherwise int) int {
	var n int64
	switch v := k.meta[key].(type) {
	case nil:
		if otherwise < 0 && k.err == nil {
			k.err = fmt.Errorf("the metadata have no %s", key)
		}
		return otherwise
	case uint8:
		n = int64(v)
	case uint16:
		n = int64(v)
	case uint32:
		n = int64(v)
	case uint64:
		n = int64(min(v, math.MaxInt64))
	case int8:
		n = int64(v)
	case int16:
		n = int64(v)
	case int32:
		n = int64(v)
	case int64:
		n = v
	default:
		n = -1
	}
	if (n < 0 || n > math.MaxInt32) && k.err == nil {
		k.err = fmt.Errorf("%s is %.40v", key, k.meta[key])
	}
	return int(int32(n))
}

// real returns a float, otherwise where there is none.
func (k *ggufKeys) real(key string, otherwise float64) float64 {
	switch v := k.meta[key].(type) {
	case nil:
		return otherwise
	case float32:
		return float64(v)
	case float64:
		return v
	}
	if k.err == nil {
		k.err = fmt.Errorf("%s is %.40v", key, k.meta[key])
	}
	return otherwise
}

func (k *ggufKeys) text(key string) string { s, _ := k.meta[key].(string); return s }

// ggufConfig reads the shape of a model from the metadata and from the embedding, which knows the vocabulary.
func ggufConfig(meta map[string]any, tensors []ggufTensor) (Config, error) {
	k := &ggufKeys{meta: meta}
	arch := k.text("general.architecture")
	f, ok := ggufFamilies[arch]
	if !ok {
		return Config{}, fmt.Errorf("unknown architecture %q; llama, qwen2, qwen3, qwen2moe and qwen3moe are known", arch)
	}
	c := Config{
		Family: f.family, Pairing: f.pairing, Tied: true,
		Dim: k.number(arch+".embedding_length", -1), Hidden: k.number(arch+".feed_forward_length", -1),
		Layers: k.number(arch+".block_count", -1), Heads: k.number(arch+".attention.head_count", -1),
		Context: k.number(arch+".context_length", -1), BOS: k.number("tokenizer.ggml.bos_token_id", 1),
		NormEps: float32(k.real(arch+".attention.layer_norm_rms_epsilon", math.NaN())), RopeTheta: k.real(arch+".rope.freq_base", 10000),
	}
	for _, key := range []string{"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id"} {
		if _, ok := meta[key]; ok {
			c.EOS = append(c.EOS, k.number(key, 0))
		}
	}
	if _, ok := meta["tokenizer.ggml.bos_token_id"]; !ok && c.Family != Llama && len(c.EOS) > 0 {
		c.BOS = c.EOS[0] // nothing begins a text of Qwen; what separates texts stands there
	}
	k.experts(arch, &c)
	c.HeadNorm = c.Family == Qwen3 || c.Family == Qwen3MoE
	c.KVHeads = k.number(arch+".attention.head_count_kv", c.Heads)
	if c.Heads > 0 {
		c.HeadDim = k.number(arch+".attention.key_length", c.Dim/c.Heads)
	}
	var factors *ggufTensor
	for i := range tensors {
		switch t := &tensors[i]; {
		case ggufNames.fixed[t.name] == Classifier:
			c.Tied = false
		case t.name == "token_embd.weight" && len(t.dims) == 2:
			c.Vocab = t.dims[1]
		case t.name == "blk.0.attn_q.bias":
			c.Bias = c.Family != Qwen2 // whose family says so
		case t.name == "blk.0.attn_output.bias":
			c.OutputBias = true
		case t.name == ggufFactors:
			factors = t
		}
	}
	if k.err == nil {
		k.err = k.unsupported(arch, &c)
	}
	if k.err == nil {
		k.err = c.Validate()
	}
	if k.err == nil {
		c.Scaling, k.err = k.scaling(arch, &c, factors)
	}
	return c, k.err
}

// experts reads the mixture of a model that has one. A llama with experts is a Mixtral.
func (k *ggufKeys) experts(arch string, c *Config) {
	if c.Experts = k.number(arch+".expert_count", 0); c.Experts == 0 {
		return
	}
	if c.Family == Llama {
		c.Family = Mixtral
	}
	c.ExpertsUsed = k.number(arch+".expert_used_count", -1)
	c.ExpertHidden = k.number(arch+".expert_feed_forward_length", c.Hidden)
	if c.NormTopK = c.Family != Qwen2MoE; !c.NormTopK {
		c.SharedHidden = k.number(arch+".expert_shared_feed_forward_length", c.Hidden)
	}
}

// unsupported reports what would change the numbers and is not computed, and what contradicts itself.
func (k *ggufKeys) unsupported(arch string, c *Config) error {
	if v := k.number("tokenizer.ggml.bos_token_id", 0); v >= c.Vocab {
		return fmt.Errorf("tokenizer.ggml.bos_token_id %d is outside of the vocabulary of %d", v, c.Vocab)
	}
	for _, same := range []struct {
		key  string
		want int
	}{
		{".vocab_size", c.Vocab}, {".attention.value_length", c.HeadDim}, {".rope.dimension_count", c.HeadDim},
	} {
		if v := k.number(arch+same.key, same.want); v != same.want && k.err == nil {
			return fmt.Errorf("%s%s is %d, not %d: that is not supported", arch, same.key, v, same.want)
		}
	}
	return k.err
}

// ggufFactors is the tensor of numbers that rotary frequencies are divided by, one for each pair.
const ggufFactors = "rope_freqs.weight"

// scaling reads how rotary frequencies are stretched.
func (k *ggufKeys) scaling(arch string, c *Config, factors *ggufTensor) (*RopeScaling, error) {
	kind := k.text(arch + ".rope.scaling.type")
	factor := k.real(arch+".rope.scaling.factor", k.real(arch+".rope.scale_linear", 1))
	switch {
	case k.err != nil:
		return nil, k.err
	case kind == "yarn" && factors == nil:
		return k.yarn(arch, c, factor)
	case kind != "" && kind != "none" && kind != "linear":
		return nil, fmt.Errorf("%s.rope.scaling.type %q is not supported", arch, kind)
	case factors != nil && kind != "linear":
		return factorsOf(c, factors)
	case factors != nil:
		return nil, fmt.Errorf("linear scaling of rotary frequencies together with %s is not supported", ggufFactors)
	case !(factor > 0):
		return nil, fmt.Errorf("%s.rope.scaling.factor is %g", arch, factor)
	case kind == "none" || factor == 1:
		return nil, nil
	}
	return &RopeScaling{Factor: factor}, nil
}

// yarn reads YaRN's scaling. llama.cpp multiplies cosines and sines by YarnAttention times a factor of the file.
func (k *ggufKeys) yarn(arch string, c *Config, factor float64) (*RopeScaling, error) {
	key := func(name string) string { return arch + ".rope.scaling." + name }
	s := &RopeScaling{Factor: factor, OriginalContext: k.number(key("original_context_length"), c.Context),
		BetaFast: k.real(key("yarn_beta_fast"), yarnFast),
		BetaSlow: k.real(key("yarn_beta_slow"), yarnSlow), Attention: k.real(key("attn_factor"), 1) * YarnAttention(factor)}
	if k.err == nil && k.real(key("yarn_ext_factor"), 1) != 1 {
		return nil, fmt.Errorf("%s is not 1: that is not supported", key("yarn_ext_factor"))
	}
	if k.err == nil {
		k.err = s.validate(c.HeadDim / 2)
	}
	return s, k.err
}

// factorsOf finds the scaling behind a list of factors. GGUF keeps the factors and not what they were computed from; all of Llama 3.1
// and 3.2 have the same constants apart from the largest factor. Other lists stay lists.
func factorsOf(c *Config, t *ggufTensor) (*RopeScaling, error) {
	if ggufTypes[t.kind] != F32 || len(t.data) != 4*(c.HeadDim/2) {
		return nil, fmt.Errorf("tensor %q has the dimensions %v; there is a float32 for each of %d pairs", t.name, t.dims, c.HeadDim/2)
	}
	factors := make([]float32, c.HeadDim/2)
	if _, err := binary.Decode(t.data, binary.LittleEndian, factors); err != nil {
		return nil, err
	}
	list := &RopeScaling{Factor: 1, Factors: factors}
	if err := list.validate(len(factors)); err != nil {
		return nil, fmt.Errorf("tensor %q: %w", t.name, err)
	}
	s := &RopeScaling{Factor: float64(slices.Max(factors)), LowFactor: 1, HighFactor: 4, OriginalContext: 8192}
	plain := *c
	for i, f := range plain.Frequencies() {
		if want := f / s.apply(f); !(math.Abs(float64(factors[i])-want) <= 1e-4*want) {
			return list, nil
		}
	}
	return s, nil
}
