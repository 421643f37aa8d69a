package checkpoint

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// hfConfig is what config.json of Hugging Face says about a model of the Llama and Qwen2 families. Pointers tell what is absent, or
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
	RopeScaling    *hfRope  `json:"rope_scaling"`
	RopeParameters *hfRope  `json:"rope_parameters"` // newer files: in place of rope_theta and rope_scaling
	PartialRotary  *float64 `json:"partial_rotary_factor"`

	Act           string          `json:"hidden_act"`
	Tied          *bool           `json:"tie_word_embeddings"`
	AttentionBias bool            `json:"attention_bias"`
	MLPBias       bool            `json:"mlp_bias"`
	UseSliding    bool            `json:"use_sliding_window"`
	Sliding       *int            `json:"sliding_window"`
	MaxWindow     *int            `json:"max_window_layers"`
	UseMRope      bool            `json:"use_mrope"`
	Quantization  json.RawMessage `json:"quantization_config"`
	BOS           json.RawMessage `json:"bos_token_id"`
	EOS           json.RawMessage `json:"eos_token_id"`
}

type hfRope struct {
	Type            string   `json:"rope_type"`
	OldType         string   `json:"type"`
	Theta           *float64 `json:"rope_theta"`
	Factor          float64  `json:"factor"`
	LowFactor       float64  `json:"low_freq_factor"`
	HighFactor      float64  `json:"high_freq_factor"`
	OriginalContext int      `json:"original_max_position_embeddings"`
	BetaFast        *float64 `json:"beta_fast"`
	BetaSlow        *float64 `json:"beta_slow"`
	Attention       *float64 `json:"attention_factor"`
	MScale          *float64 `json:"mscale"`
	MScaleAll       *float64 `json:"mscale_all_dim"`
	Truncate        *bool    `json:"truncate"`
}

// hfFamilies are the architectures that are read, and what model_type calls them.
var hfFamilies = []struct {
	architecture, modelType string
	family                  Family
}{
	{"LlamaForCausalLM", "llama", Llama},
	{"Qwen2ForCausalLM", "qwen2", Qwen2},
}

// parseHFConfig turns config.json into a shape. tied tells whether the file says so, or says nothing.
func parseHFConfig(b []byte) (c Config, tied *bool, err error) {
	var h hfConfig
	if err := json.Unmarshal(b, &h); err != nil {
		return c, nil, err
	}
	if c.Family, err = h.family(); err != nil {
		return c, nil, err
	}
	if err := h.unsupported(c.Family); err != nil {
		return c, nil, err
	}
	c.Dim, c.Hidden, c.Layers, c.Heads, c.Vocab, c.Context = h.HiddenSize, h.IntermediateSize, h.Layers, h.Heads, h.VocabSize, h.MaxPositions
	c.Pairing = Halves
	c.KVHeads = valueOr(h.KVHeads, h.Heads)
	if c.Heads > 0 {
		c.HeadDim = valueOr(h.HeadDim, h.HiddenSize/h.Heads)
		if h.HeadDim == nil && h.HiddenSize%h.Heads != 0 {
			return c, nil, fmt.Errorf("vectors of %d elements cannot be cut into %d heads", h.HiddenSize, h.Heads)
		}
	}
	c.NormEps = float32(valueOr(h.NormEps, 1e-6))
	if err := h.rope(&c); err != nil {
		return c, nil, err
	}
	if err := c.Validate(); err != nil {
		return c, nil, err
	}
	c.Tied = valueOr(h.Tied, false)
	return c, h.Tied, h.ends(&c)
}

func valueOr[T any](p *T, otherwise T) T {
	if p == nil {
		return otherwise
	}
	return *p
}

func (h *hfConfig) family() (Family, error) {
	for _, f := range hfFamilies {
		if slices.Contains(h.Architectures, f.architecture) || len(h.Architectures) == 0 && h.ModelType == f.modelType {
			return f.family, nil
		}
	}
	known := make([]string, len(hfFamilies))
	for i, f := range hfFamilies {
		known[i] = f.architecture
	}
	return "", fmt.Errorf("unknown architecture %s (model_type %q); known are %s", strings.Join(h.Architectures, ", "), h.ModelType,
		strings.Join(known, " and "))
}

// unsupported reports what would change the numbers and is not computed.
func (h *hfConfig) unsupported(f Family) error {
	switch {
	case h.Act != "" && h.Act != "silu" && h.Act != "swish":
		return fmt.Errorf("the activation hidden_act is %q; only silu is known", h.Act)
	case h.MLPBias:
		return errors.New("mlp_bias: biases of the feed-forward part are not supported")
	case h.AttentionBias && f == Llama:
		return errors.New("attention_bias: biases of a Llama model's attention are not supported")
	case h.UseSliding && h.Sliding != nil && (h.MaxWindow == nil || *h.MaxWindow < h.Layers) && *h.Sliding < h.MaxPositions:
		return fmt.Errorf("use_sliding_window: attention to the last %d positions only is not supported", *h.Sliding)
	case h.UseMRope:
		return errors.New("use_mrope: rotary embedding in several dimensions is not supported")
	case valueOr(h.PartialRotary, 1) != 1:
		return fmt.Errorf("partial_rotary_factor %g: rotary embedding of a part of each head is not supported", *h.PartialRotary)
	case len(h.Quantization) > 0 && string(h.Quantization) != "null":
		return errors.New("quantization_config: the weights are quantized already; take the checkpoint that they were made from")
	}
	return nil
}

func (h *hfConfig) rope(c *Config) error {
	c.RopeTheta = valueOr(h.RopeTheta, 10000)
	r := h.RopeScaling
	if h.RopeParameters != nil {
		r = h.RopeParameters
		c.RopeTheta = valueOr(r.Theta, c.RopeTheta)
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
	case "dynamic":
		return errors.New("rope_scaling of type dynamic is not supported: its frequencies change with the length of the text")
	default:
		return fmt.Errorf("rope_scaling of type %q is not supported; linear, llama3 and yarn are", kind)
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

// ends reads the ids that begin and end a text. Without one that begins it, that which ends it stands there.
func (h *hfConfig) ends(c *Config) error {
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
	case c.Family == Llama:
		c.BOS = 1
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
