package checkpoint

import (
	"math"
	"slices"
)

// Family names an architecture of which the tensors and the configuration have their own names. What it computes is in Switches.
type Family string

const (
	Llama    Family = "llama"
	Mistral  Family = "mistral"  // attention sees a window of positions
	Qwen2    Family = "qwen2"    // query, key and value have biases
	Qwen3    Family = "qwen3"    // heads of queries and keys are normalized
	Phi3     Family = "phi3"     // matrices that read the same vector are one
	Granite  Family = "granite"  // factors of embedding, attention, residuals and logits
	Gemma    Family = "gemma"    // gains of norms are stored less one, the embedding is scaled, GELU
	Gemma2   Family = "gemma2"   // and norms behind both parts, limits of scores and logits, windows in every other layer
	Mixtral  Family = "mixtral"  // experts
	Qwen2MoE Family = "qwen2moe" // experts beside one for all tokens
	Qwen3MoE Family = "qwen3moe" // experts
	Gemma3   Family = "gemma3"   // and norms of heads in place of the limits, two bases of rotary embedding
	SmolLM3  Family = "smollm3"  // layers without rotary embedding
)

// Switches are what models differ in beside numbers. The zero value is Llama's.
type Switches struct {
	Bias       bool `json:"bias,omitempty"`        // query, key and value have biases; of Qwen2 always
	OutputBias bool `json:"output_bias,omitempty"` // the output of attention has one
	HeadNorm   bool `json:"head_norm,omitempty"`   // RMSNorm of every head of queries and keys, in front of rotary embedding
	UnitNorm   bool `json:"unit_norm,omitempty"`   // gains of norms are 1 more than what is stored
	AfterNorm  bool `json:"after_norm,omitempty"`  // what both parts add to the residual stream is normalized
	GELU       bool `json:"gelu,omitempty"`        // in place of silu, in the approximation by tanh
	// EmbedScale, if not 0, is what vectors of the embedding are multiplied with.
	EmbedScale float32 `json:"embed_scale,omitempty"`
	// AttentionScale, if not 0, is what products of queries and keys are multiplied with, in place of 1/sqrt(HeadDim); ResidualScale what is
	// added to the residual stream, LogitScale the logits.
	AttentionScale float32 `json:"attention_scale,omitempty"`
	ResidualScale  float32 `json:"residual_scale,omitempty"`
	LogitScale     float32 `json:"logit_scale,omitempty"`
	// ScoreCap and LogitCap, if not 0, limit scaled products of queries and keys, and logits: x becomes cap * tanh(x/cap).
	ScoreCap float32 `json:"score_cap,omitempty"`
	LogitCap float32 `json:"logit_cap,omitempty"`
	// Experts, if not 0, are how many feed-forward parts a layer has, of ExpertHidden elements; each token goes through ExpertsUsed of them,
	// those that the softmax of the router's product prefers, which is what they are weighted with, with NormTopK made 1 together. Dense
	// are the layers without. SharedHidden, if not 0, is the width of one for all tokens, weighted with a sigmoid.
	Experts      int   `json:"experts,omitempty"`
	ExpertsUsed  int   `json:"experts_used,omitempty"`
	ExpertHidden int   `json:"expert_hidden,omitempty"`
	NormTopK     bool  `json:"norm_top_k,omitempty"`
	SharedHidden int   `json:"shared_hidden,omitempty"`
	Dense        []int `json:"dense,omitempty"`
	// RotaryDim, if not 0, is how many elements of a head rotary embedding turns, the first ones; it is even.
	RotaryDim int `json:"rotary_dim,omitempty"`
	// LocalTheta, if not 0, is the base of rotary embedding in layers with a window, where frequencies are not scaled.
	LocalTheta float64 `json:"local_theta,omitempty"`
	// Unturned are the layers without rotary embedding, ascending.
	Unturned []int `json:"unturned,omitempty"`
	// Windows, if not nil, is for each layer how many positions attention sees, its own being the last; 0: all.
	Windows []int `json:"windows,omitempty"`
}

// Plain reports whether there is nothing but perhaps biases of query, key and value: what other programs' simple formats hold.
func (s *Switches) Plain() bool {
	return !s.OutputBias && !s.HeadNorm && !s.UnitNorm && !s.GELU && s.EmbedScale == 0 && s.AttentionScale == 0 && s.ResidualScale == 0 &&
		s.LogitScale == 0 && !s.AfterNorm && s.ScoreCap == 0 && s.LogitCap == 0 && s.LocalTheta == 0 && s.RotaryDim == 0 && s.Experts == 0 &&
		s.Windows == nil && s.Unturned == nil
}

// Biased reports whether query, key and value have biases.
func (c *Config) Biased() bool { return c.Bias || c.Family == Qwen2 }

// Routed reports whether a layer has experts.
func (c *Config) Routed(layer int) bool { return c.Experts > 0 && !slices.Contains(c.Dense, layer) }

// Turns reports whether rotary embedding turns the queries and keys of a layer.
func (c *Config) Turns(layer int) bool { return !slices.Contains(c.Unturned, layer) }

// Window is how many positions attention sees in a layer, its own being the last; 0: all.
func (c *Config) Window(layer int) int {
	if layer >= len(c.Windows) {
		return 0
	}
	return c.Windows[layer]
}

// hfFamily is an architecture as Hugging Face has it.
type hfFamily struct {
	architecture string
	modelType    string
	family       Family
	act          string // hidden_act
	eps          float64
	headDim      int // where the file says nothing; 0: the dimension by the heads
	begin        int // the id that begins a text where the file says nothing; -1: the one that ends it
	window       bool
	switches     Switches
	defaults     string // config.json with what a file may leave out and the columns do not have
}

var hfFamilies = []hfFamily{
	{"LlamaForCausalLM", "llama", Llama, "silu", 1e-6, 0, 1, false, Switches{}, ""},
	{"MistralForCausalLM", "mistral", Mistral, "silu", 1e-6, 0, 1, true, Switches{}, ""},
	{"Qwen2ForCausalLM", "qwen2", Qwen2, "silu", 1e-6, 0, -1, true, Switches{}, ""},
	{"Qwen3ForCausalLM", "qwen3", Qwen3, "silu", 1e-6, 128, -1, true, Switches{HeadNorm: true}, ""},
	{"MixtralForCausalLM", "mixtral", Mixtral, "silu", 1e-5, 0, 1, true, Switches{NormTopK: true},
		`{"rope_theta": 1e6, "num_local_experts": 8, "num_experts_per_tok": 2, "num_key_value_heads": 8}`},
	{"Qwen2MoeForCausalLM", "qwen2_moe", Qwen2MoE, "silu", 1e-6, 0, -1, true, Switches{Bias: true},
		`{"num_experts": 60, "num_experts_per_tok": 4, "moe_intermediate_size": 1408, "shared_expert_intermediate_size": 5632}`},
	{"Qwen3MoeForCausalLM", "qwen3_moe", Qwen3MoE, "silu", 1e-6, 0, -1, true, Switches{HeadNorm: true},
		`{"num_local_experts": 128, "num_experts_per_tok": 8, "moe_intermediate_size": 768}`},
	{"Phi3ForCausalLM", "phi3", Phi3, "silu", 1e-5, 0, 1, true, Switches{}, ""},
	{"GraniteForCausalLM", "granite", Granite, "silu", 1e-6, 0, 1, false, Switches{}, ""},
	{"SmolLM3ForCausalLM", "smollm3", SmolLM3, "silu", 1e-6, 0, -1, true, Switches{},
		`{"rope_theta": 2e6, "no_rope_layer_interval": 4, "num_key_value_heads": 4, "tie_word_embeddings": true}`},
	{"GemmaForCausalLM", "gemma", Gemma, "gelu_pytorch_tanh", 1e-6, 256, 2, false, Switches{UnitNorm: true, GELU: true, EmbedScale: 1}, ""},
	{"Gemma2ForCausalLM", "gemma2", Gemma2, "gelu_pytorch_tanh", 1e-6, 256, 2, true,
		Switches{UnitNorm: true, GELU: true, EmbedScale: 1, AfterNorm: true},
		`{"sliding_window_pattern": 2, "query_pre_attn_scalar": 256, "attn_logit_softcapping": 50, "final_logit_softcapping": 30}`},
	{"Gemma3ForCausalLM", "gemma3_text", Gemma3, "gelu_pytorch_tanh", 1e-6, 256, 2, true,
		Switches{UnitNorm: true, GELU: true, EmbedScale: 1, AfterNorm: true, HeadNorm: true},
		`{"sliding_window_pattern": 6, "query_pre_attn_scalar": 256, "rope_theta": 1e6, "rope_local_base_freq": 1e4, "num_attention_heads": 8,
		"num_key_value_heads": 4, "vocab_size": 262208, "max_position_embeddings": 131072, "sliding_window": 4096, "eos_token_id": 1,
		"hidden_activation": "gelu_pytorch_tanh"}`},
}

// apply sets what follows from the numbers of a model.
func (s Switches) apply(c *Config) {
	c.Switches = s
	if s.EmbedScale != 0 {
		c.EmbedScale = float32(math.Sqrt(float64(c.Dim)))
	}
}
