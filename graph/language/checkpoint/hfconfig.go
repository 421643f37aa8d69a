package checkpoint

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
)

// hfConfig is what config.json of Hugging Face says about a model of hfFamilies. Pointers tell what is absent, or
// null, from zero.
type hfConfig struct {
	Architectures []string `json:"architectures"`
	ModelType     string   `json:"model_type"`

	HiddenSize       int  `json:"hidden_size"`
	IntermediateSize int  `json:"intermediate_size"`
	Layers           int  `json:"num_hidden_layers"`
	Heads            int  `json:"num_attention_heads"`
	KVHeads          *int `json:"num_key_value_heads"`
	HeadDim          *int `json:"head_dim"`
	VocabSize        int  `json:"vocab_size"`
	MaxPositions     int  `json:"max_position_embeddings"`

	NormEps        *float64 `json:"rms_norm_eps"`
	RopeTheta      *float64 `json:"rope_theta"`
	RopeLocal      *float64 `json:"rope_local_base_freq"`
	RopeScaling    *hfRope  `json:"rope_scaling"`
	RopeParameters *hfRope  `json:"rope_parameters"` // newer files: in place of rope_theta and rope_scaling
	PartialRotary  *float64 `json:"partial_rotary_factor"`
	OriginalMax    int      `json:"original_max_position_embeddings"` // of longrope

	Act           string   `json:"hidden_act"`
	Activation    *string  `json:"hidden_activation"` // of Gemma: in place of hidden_act
	Tied          *bool    `json:"tie_word_embeddings"`
	AttentionBias bool     `json:"attention_bias"`
	MLPBias       bool     `json:"mlp_bias"`
	UseSliding    bool     `json:"use_sliding_window"`
	Sliding       *int     `json:"sliding_window"`
	MaxWindow     *int     `json:"max_window_layers"`
	Pattern       int      `json:"sliding_window_pattern"` // the last of as many layers has no window; 0: all have one
	LayerTypes    []string `json:"layer_types"`
	Bidirectional bool     `json:"use_bidirectional_attention"`

	// Of Granite.
	EmbeddingFactor *float64 `json:"embedding_multiplier"`
	AttentionFactor *float64 `json:"attention_multiplier"`
	ResidualFactor  *float64 `json:"residual_multiplier"`
	LogitDivisor    *float64 `json:"logits_scaling"`

	// Of mixtures of experts. Both names of their number are used.
	Experts      *int  `json:"num_experts"`
	LocalExperts *int  `json:"num_local_experts"`
	ExpertsUsed  int   `json:"num_experts_per_tok"`
	ExpertSize   *int  `json:"moe_intermediate_size"`
	SharedSize   int   `json:"shared_expert_intermediate_size"`
	NormTopK     bool  `json:"norm_topk_prob"`
	SparseStep   *int  `json:"decoder_sparse_step"`
	DenseLayers  []int `json:"mlp_only_layers"`
	QKVBias      *bool `json:"qkv_bias"`

	// Of SmolLM3.
	TurnedLayers []int `json:"no_rope_layers"` // 1 for each layer that has rotary embedding
	Unturned     int   `json:"no_rope_layer_interval"`

	// Of Gemma 2 and 3.
	QueryScalar *float64        `json:"query_pre_attn_scalar"`
	ScoreCap    json.RawMessage `json:"attn_logit_softcapping"` // null is none
	LogitCap    json.RawMessage `json:"final_logit_softcapping"`

	// Text is the configuration of the part of a model of images and text that is read.
	Text *json.RawMessage `json:"text_config"`

	UseMRope     bool            `json:"use_mrope"`
	Quantization json.RawMessage `json:"quantization_config"`
	BOS          json.RawMessage `json:"bos_token_id"`
	EOS          json.RawMessage `json:"eos_token_id"`
}

type hfRope struct {
	Type            string    `json:"rope_type"`
	OldType         string    `json:"type"`
	Theta           *float64  `json:"rope_theta"`
	Factor          float64   `json:"factor"`
	LowFactor       float64   `json:"low_freq_factor"`
	HighFactor      float64   `json:"high_freq_factor"`
	OriginalContext int       `json:"original_max_position_embeddings"`
	BetaFast        *float64  `json:"beta_fast"`
	BetaSlow        *float64  `json:"beta_slow"`
	Attention       *float64  `json:"attention_factor"`
	MScale          *float64  `json:"mscale"`
	MScaleAll       *float64  `json:"mscale_all_dim"`
	Truncate        *bool     `json:"truncate"`
	Partial         *float64  `json:"partial_rotary_factor"`
	ShortFactors    []float64 `json:"short_factor"` // of longrope, for texts of up to OriginalContext tokens
	// Of Gemma 3: one of each kind of layers.
	Full  *hfRope `json:"full_attention"`
	Local *hfRope `json:"sliding_attention"`
}

// parseHFConfig turns config.json into a shape, and returns what else the file says.
func parseHFConfig(b []byte) (c Config, h *hfConfig, err error) {
	h, f, err := decodeHFConfig(b)
	if err != nil {
		return c, nil, err
	}
	c.Family = f.family
	if err := h.unsupported(f); err != nil {
		return c, nil, err
	}
	c.Dim, c.Hidden, c.Layers, c.Heads, c.Vocab, c.Context = h.HiddenSize, h.IntermediateSize, h.Layers, h.Heads, h.VocabSize, h.MaxPositions
	c.Pairing = Halves
	c.KVHeads = valueOr(h.KVHeads, h.Heads)
	if c.HeadDim = valueOr(h.HeadDim, f.headDim); c.HeadDim == 0 && c.Heads > 0 {
		c.HeadDim = h.HiddenSize / h.Heads
		if h.HiddenSize%h.Heads != 0 {
			return c, nil, fmt.Errorf("vectors of %d elements cannot be cut into %d heads", h.HiddenSize, h.Heads)
		}
	}
	c.NormEps = float32(valueOr(h.NormEps, f.eps))
	f.switches.apply(&c)
	if err := h.rope(&c); err != nil {
		return c, nil, err
	}
	if c.Family == Granite {
		if err := h.factors(&c); err != nil {
			return c, nil, err
		}
	}
	if h.QueryScalar != nil && c.AfterNorm {
		if err := h.caps(&c); err != nil {
			return c, nil, err
		}
	}
	if err := h.unturned(&c); err != nil {
		return c, nil, err
	}
	if err := h.windows(f, &c); err != nil {
		return c, nil, err
	}
	h.experts(&c)
	if h.AttentionBias && slices.Contains(biased, c.Family) {
		c.Bias, c.OutputBias = true, true
	}
	if err := c.Validate(); err != nil {
		return c, nil, err
	}
	c.Tied = valueOr(h.Tied, false)
	return c, h, h.ends(f, &c)
}

// imageModels are architectures whose part for text is a model of hfFamilies.
var imageModels = []string{"Gemma3ForConditionalGeneration"}

// decodeHFConfig reads config.json, of a model of images and text the part for text, over the defaults of its family.
func decodeHFConfig(b []byte) (h *hfConfig, f *hfFamily, err error) {
	whole := &hfConfig{}
	if err := json.Unmarshal(b, whole); err != nil {
		return nil, nil, err
	}
	h = whole
	image := whole.Text != nil && slices.ContainsFunc(whole.Architectures, func(a string) bool { return slices.Contains(imageModels, a) })
	if image {
		h, b = &hfConfig{}, *whole.Text
		if err := json.Unmarshal(b, h); err != nil {
			return nil, nil, fmt.Errorf("text_config: %w", err)
		}
		h.Architectures = nil
	}
	if f, err = h.family(); err != nil {
		return nil, nil, err
	}
	h = &hfConfig{}
	err = errors.Join(json.Unmarshal([]byte(cmp.Or(f.defaults, "{}")), h), json.Unmarshal(b, h))
	h.Text = nil
	if image {
		h.Text, h.Quantization, h.Tied = whole.Text, whole.Quantization, cmp.Or(whole.Tied, h.Tied)
		h.BOS, h.EOS = either(whole.BOS, h.BOS), either(whole.EOS, h.EOS)
	}
	return h, f, err
}

// either is a, or b where a is not there.
func either(a, b json.RawMessage) json.RawMessage {
	if len(a) > 0 {
		return a
	}
	return b
}

func valueOr[T any](p *T, otherwise T) T {
	if p == nil {
		return otherwise
	}
	return *p
}

func (h *hfConfig) family() (*hfFamily, error) {
	for i := range hfFamilies {
		f := &hfFamilies[i]
		if slices.Contains(h.Architectures, f.architecture) || len(h.Architectures) == 0 && h.ModelType == f.modelType {
			return f, nil
		}
	}
	known := make([]string, len(hfFamilies))
	for i, f := range hfFamilies {
		known[i] = f.architecture
	}
	last := len(known) - 1
	why := ""
	if what := strangers[strings.Join(h.Architectures, "")]; what != "" {
		why = ", which differs by " + what
	}
	return nil, fmt.Errorf("unknown architecture %s (model_type %q)%s; known are %s", strings.Join(h.Architectures, ", "), h.ModelType,
		why, strings.Join(known[:last], ", ")+" and "+known[last])
}

// strangers are what known architectures have that is not computed here.
var strangers = map[string]string{
	"Olmo2ForCausalLM":      "norms behind attention and feed-forward part, and norms of all heads together",
	"PhiForCausalLM":        "parallel parts, and rotary embedding of a part of each head",
	"GPTNeoXForCausalLM":    "parallel parts, LayerNorm, and rotary embedding of a part of each head",
	"GPT2LMHeadModel":       "learned positions and LayerNorm",
	"StableLmForCausalLM":   "LayerNorm, and rotary embedding of a part of each head",
	"FalconForCausalLM":     "parallel parts and LayerNorm",
	"OPTForCausalLM":        "learned positions and LayerNorm",
	"Starcoder2ForCausalLM": "LayerNorm and a feed-forward part of two matrices",
	"CohereForCausalLM":     "parallel parts and LayerNorm",
}

// biased are the families of which attention_bias gives biases to all matrices of attention.
var biased = []Family{Llama, Qwen3, Qwen3MoE, Granite, SmolLM3}

// unsupported reports what would change the numbers and is not computed.
func (h *hfConfig) unsupported(f *hfFamily) error {
	act := h.Act
	if act == "swish" {
		act = "silu"
	}
	if h.Activation != nil && f.act != "silu" {
		act = *h.Activation
	}
	switch partial := h.partial(); {
	case act != f.act && !(act == "" && f.act == "silu"):
		return fmt.Errorf("the activation hidden_act is %q; only %s is known of %s", act, f.act, f.architecture)
	case h.MLPBias:
		return errors.New("mlp_bias: biases of the feed-forward part are not supported")
	case h.AttentionBias && f.family != Qwen2 && !slices.Contains(biased, f.family):
		return fmt.Errorf("attention_bias: biases of the attention of %s are not supported", f.architecture)
	case h.Bidirectional:
		return errors.New("use_bidirectional_attention: attention to later tokens is not supported")
	case h.UseMRope:
		return errors.New("use_mrope: rotary embedding in several dimensions is not supported")
	case partial != 1 && f.family != Phi3:
		return fmt.Errorf("partial_rotary_factor %g: rotary embedding of a part of each head is known of Phi3ForCausalLM alone", partial)
	}
	return nil
}

// partial is the share of each head that rotary embedding turns.
func (h *hfConfig) partial() float64 {
	if h.RopeParameters != nil && h.RopeParameters.Partial != nil {
		return *h.RopeParameters.Partial
	}
	return valueOr(h.PartialRotary, 1)
}

// experts reads the mixture of a family that has one.
func (h *hfConfig) experts(c *Config) {
	if !slices.Contains([]Family{Mixtral, Qwen2MoE, Qwen3MoE}, c.Family) || c.Layers > 1<<12 {
		return // Validate says so
	}
	c.Experts, c.ExpertsUsed = valueOr(h.LocalExperts, valueOr(h.Experts, 0)), h.ExpertsUsed
	if h.Experts != nil && c.Family == Qwen3MoE {
		c.Experts = *h.Experts
	}
	c.ExpertHidden, c.NormTopK = valueOr(h.ExpertSize, c.Hidden), c.NormTopK || h.NormTopK
	if c.Family == Mixtral {
		c.ExpertHidden = c.Hidden
		return
	}
	if c.Family == Qwen2MoE {
		c.SharedHidden, c.Bias = h.SharedSize, valueOr(h.QKVBias, true)
	}
	for l := range c.Layers {
		if slices.Contains(h.DenseLayers, l) || (l+1)%max(valueOr(h.SparseStep, 1), 1) != 0 {
			c.Dense = append(c.Dense, l)
		}
	}
}

// factors reads those of Granite.
func (h *hfConfig) factors(c *Config) error {
	for _, f := range []struct {
		to    *float32
		name  string
		value float64
	}{
		{&c.EmbedScale, "embedding_multiplier", valueOr(h.EmbeddingFactor, 1)},
		{&c.AttentionScale, "attention_multiplier", valueOr(h.AttentionFactor, 1)},
		{&c.ResidualScale, "residual_multiplier", valueOr(h.ResidualFactor, 1)},
		{&c.LogitScale, "logits_scaling", 1 / valueOr(h.LogitDivisor, 1)},
	} {
		if *f.to = float32(f.value); !(*f.to > 0) || f.value > 1e30 {
			return fmt.Errorf("%s is %g", f.name, f.value)
		}
	}
	return nil
}

// unturned reads which layers have no rotary embedding: those that a list says, or each last one of as many as an interval says.
func (h *hfConfig) unturned(c *Config) error {
	if c.Family != SmolLM3 || c.Layers > 1<<12 {
		return nil // Validate says so
	}
	if h.TurnedLayers != nil && len(h.TurnedLayers) != c.Layers {
		return fmt.Errorf("no_rope_layers has %d entries for %d layers", len(h.TurnedLayers), c.Layers)
	}
	for l := range max(c.Layers, 0) {
		if h.TurnedLayers != nil && h.TurnedLayers[l] == 0 || h.TurnedLayers == nil && h.Unturned > 0 && (l+1)%h.Unturned == 0 {
			c.Unturned = append(c.Unturned, l)
		}
	}
	return nil
}

// caps reads what Gemma 2 and 3 do with scores and logits.
func (h *hfConfig) caps(c *Config) error {
	scalar := *h.QueryScalar
	c.AttentionScale = float32(1 / math.Sqrt(scalar))
	if !(scalar > 0) || scalar > 1e30 {
		return fmt.Errorf("query_pre_attn_scalar is %g", scalar)
	}
	for _, l := range []struct {
		to   *float32
		name string
		raw  json.RawMessage
	}{{&c.ScoreCap, "attn_logit_softcapping", h.ScoreCap}, {&c.LogitCap, "final_logit_softcapping", h.LogitCap}} {
		if len(l.raw) == 0 || string(l.raw) == "null" {
			continue
		}
		var v float64
		if err := json.Unmarshal(l.raw, &v); err != nil || !(v > 0) || v > 1e30 {
			return fmt.Errorf("%s is %s", l.name, l.raw)
		}
		*l.to = float32(v)
	}
	return nil
}

// windows reads which layers see a window of positions. One that is as long as the context changes nothing, unless such layers have a base
// of rotary embedding of their own.
func (h *hfConfig) windows(f *hfFamily, c *Config) error {
	w := valueOr(h.Sliding, 0)
	asked := strings.HasPrefix(f.modelType, "qwen") || f.family == SmolLM3
	if !f.window || w <= 0 || w >= c.Context && c.LocalTheta == 0 || asked && !h.UseSliding {
		return nil
	}
	if h.LayerTypes != nil && len(h.LayerTypes) != c.Layers {
		return fmt.Errorf("layer_types has %d entries for %d layers", len(h.LayerTypes), c.Layers)
	}
	if c.Layers > 1<<12 {
		return nil // Validate says so
	}
	list := make([]int, max(c.Layers, 0))
	for l := range list {
		kind := "sliding_attention"
		if h.LayerTypes != nil {
			kind = h.LayerTypes[l]
		} else if f.family == Qwen2MoE {
			return errors.New("use_sliding_window without layer_types is not supported")
		} else if (f.family == Qwen2 || f.family == Qwen3) && l < valueOr(h.MaxWindow, 0) {
			kind = "full_attention"
		} else if h.Pattern > 0 && (l+1)%h.Pattern == 0 {
			kind = "full_attention"
		}
		switch kind {
		case "sliding_attention":
			list[l], c.Windows = w, list
		case "full_attention":
		default:
			return fmt.Errorf("layer_types: attention of type %q is not supported", kind)
		}
	}
	return nil
}

func (h *hfConfig) rope(c *Config) error {
	c.RopeTheta = valueOr(h.RopeTheta, 10000)
	if partial := h.partial(); partial != 1 {
		if c.RotaryDim = int(partial * float64(c.HeadDim)); !(partial > 0 && partial < 1) || c.RotaryDim == 0 {
			return fmt.Errorf("partial_rotary_factor %g of heads of %d elements", partial, c.HeadDim)
		}
	}
	r := h.RopeScaling
	if h.RopeParameters != nil {
		r = h.RopeParameters
		if r.Full != nil {
			r = r.Full
		}
		c.RopeTheta = valueOr(r.Theta, c.RopeTheta)
	}
	if h.RopeLocal != nil && c.Family == Gemma3 {
		c.LocalTheta = *h.RopeLocal
		if h.RopeParameters != nil && h.RopeParameters.Local != nil {
			local := h.RopeParameters.Local
			c.LocalTheta = valueOr(local.Theta, c.LocalTheta)
			if kind := cmp.Or(local.Type, local.OldType, "default"); kind != "default" {
				return fmt.Errorf("rope_parameters of sliding_attention have the type %q; only default is supported", kind)
			}
		}
	}
	if r == nil {
		return nil
	}
	switch kind := cmp.Or(r.Type, r.OldType); kind {
	case "default", "":
		if r.Factor != 0 && r.Factor != 1 {
			return fmt.Errorf("rope_scaling has the factor %g and no type", r.Factor)
		}
	case "linear":
		if !(r.Factor > 0) {
			return fmt.Errorf("rope_scaling: the factor is %g", r.Factor)
		}
		c.Scaling = &RopeScaling{Factor: r.Factor}
	case "llama3":
		if !(r.Factor > 0 && r.LowFactor > 0 && r.HighFactor > r.LowFactor && r.OriginalContext > 0) {
			return fmt.Errorf("rope_scaling: factor %g, low_freq_factor %g, high_freq_factor %g, original_max_position_embeddings %d",
				r.Factor, r.LowFactor, r.HighFactor, r.OriginalContext)
		}
		c.Scaling = &RopeScaling{Factor: r.Factor, LowFactor: r.LowFactor, HighFactor: r.HighFactor, OriginalContext: r.OriginalContext}
	case "yarn":
		return h.yarn(r, c)
	case "longrope":
		return h.longrope(r, c)
	case "dynamic":
		return errors.New("rope_scaling of type dynamic is not supported: its frequencies change with the length of the text")
	default:
		return fmt.Errorf("rope_scaling of type %q is not supported; linear, llama3, yarn and longrope are", kind)
	}
	return nil
}

func (h *hfConfig) yarn(r *hfRope, c *Config) error {
	if r.MScale != nil || r.MScaleAll != nil || !valueOr(r.Truncate, true) {
		return errors.New("rope_scaling of type yarn with mscale, mscale_all_dim or without truncate is not supported")
	}
	s := &RopeScaling{Factor: r.Factor, OriginalContext: cmp.Or(r.OriginalContext, h.MaxPositions), BetaFast: valueOr(r.BetaFast, yarnFast),
		BetaSlow: valueOr(r.BetaSlow, yarnSlow), Attention: valueOr(r.Attention, YarnAttention(r.Factor))}
	if !(s.Factor > 0 && s.BetaSlow > 0 && s.BetaFast > s.BetaSlow && s.Attention > 0 && s.OriginalContext > 0) {
		return fmt.Errorf("rope_scaling: factor %g, beta_fast %g, beta_slow %g, attention_factor %g, original_max_position_embeddings %d",
			s.Factor, s.BetaFast, s.BetaSlow, s.Attention, s.OriginalContext)
	}
	c.Scaling = s
	return nil
}

// longrope reads the factors of short texts, the only ones that are computed here: longer texts have others, from their first token on.
func (h *hfConfig) longrope(r *hfRope, c *Config) error {
	s := &RopeScaling{Factor: r.Factor, OriginalContext: cmp.Or(h.OriginalMax, r.OriginalContext)}
	if s.OriginalContext > 0 && (s.Factor == 0 || h.OriginalMax > 0) {
		s.Factor = float64(c.Context) / float64(s.OriginalContext)
	}
	s.Attention = 1
	if s.Factor > 1 {
		s.Attention = math.Sqrt(1 + math.Log(s.Factor)/math.Log(float64(s.OriginalContext)))
	}
	s.Attention = valueOr(r.Attention, s.Attention)
	if !(s.Factor > 0 && s.Attention > 0 && s.OriginalContext > 1) {
		return fmt.Errorf("rope_scaling: factor %g, attention_factor %g, original_max_position_embeddings %d", s.Factor, s.Attention,
			s.OriginalContext)
	}
	if n := c.Turned() / 2; len(r.ShortFactors) != n {
		return fmt.Errorf("rope_scaling: %d short_factor for %d frequencies", len(r.ShortFactors), n)
	}
	for _, f := range r.ShortFactors {
		s.Factors = append(s.Factors, float32(f))
	}
	c.Scaling, c.Context = s, min(c.Context, s.OriginalContext)
	return nil
}

// ends reads the ids that begin and end a text. Without one that begins it, that which ends it stands there.
func (h *hfConfig) ends(f *hfFamily, c *Config) error {
	bos, err := tokenIDs("bos_token_id", h.BOS)
	if err != nil {
		return err
	}
	if c.EOS, err = tokenIDs("eos_token_id", h.EOS); err != nil {
		return err
	}
	switch {
	case len(bos) > 0:
		c.BOS = bos[0]
	case f.begin >= 0:
		c.BOS = f.begin
	case len(c.EOS) > 0:
		c.BOS = c.EOS[0]
	}
	if c.BOS < 0 || c.BOS >= c.Vocab {
		return fmt.Errorf("bos_token_id %d is outside of the vocabulary of %d", c.BOS, c.Vocab)
	}
	return nil
}

// tokenIDs reads an id, several, or none.
func tokenIDs(key string, raw json.RawMessage) ([]int, error) {
	var one int
	var many []int
	switch {
	case len(raw) == 0 || string(raw) == "null":
		return nil, nil
	case json.Unmarshal(raw, &one) == nil:
		return []int{one}, nil
	case json.Unmarshal(raw, &many) == nil:
		return many, nil
	}
	return nil, fmt.Errorf("%s is neither an id nor a list of ids", key)
}
