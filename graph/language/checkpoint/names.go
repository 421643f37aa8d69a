package checkpoint

import (
	"fmt"
	"strconv"
	"strings"
)

// naming is how a format names the parts of a model.
type naming struct {
	layer string // in front of a layer's number
	fixed map[string]Role
	inner map[string]Role // behind the number and a dot
	// expert stands in front of the number of an expert, which is # in inner.
	expert string
	// other are names that a family has instead.
	other map[Family]map[string]Role
	// after are those of models with norms behind both parts, where they are others.
	after map[string]Role
	// joined are matrices that stand one below the other in one tensor.
	joined map[string][]Role
	// ignored parts hold what is computed anew.
	ignored []string
}

var hfNames = naming{
	layer: "model.layers.",
	fixed: map[string]Role{"model.embed_tokens.weight": Embedding, "model.norm.weight": FinalNorm, "lm_head.weight": Classifier},
	inner: map[string]Role{
		"input_layernorm.weight": AttentionNorm, "post_attention_layernorm.weight": FeedNorm,
		"self_attn.q_proj.weight": Query, "self_attn.k_proj.weight": Key, "self_attn.v_proj.weight": Value, "self_attn.o_proj.weight": Output,
		"self_attn.q_proj.bias": QueryBias, "self_attn.k_proj.bias": KeyBias, "self_attn.v_proj.bias": ValueBias,
		"self_attn.o_proj.bias": OutputBias, "self_attn.q_norm.weight": QueryNorm, "self_attn.k_norm.weight": KeyNorm,
		"mlp.gate_proj.weight": Gate, "mlp.up_proj.weight": Up, "mlp.down_proj.weight": Down,
		"mlp.gate.weight": Router, "mlp.experts.#.gate_proj.weight": ExpertGate, "mlp.experts.#.up_proj.weight": ExpertUp,
		"mlp.experts.#.down_proj.weight": ExpertDown, "mlp.shared_expert_gate.weight": SharedRouter,
		"mlp.shared_expert.gate_proj.weight": SharedGate, "mlp.shared_expert.up_proj.weight": SharedUp,
		"mlp.shared_expert.down_proj.weight": SharedDown,
	},
	expert: ".experts.",
	other: map[Family]map[string]Role{Mixtral: {"block_sparse_moe.gate.weight": Router, "block_sparse_moe.experts.#.w1.weight": ExpertGate,
		"block_sparse_moe.experts.#.w3.weight": ExpertUp, "block_sparse_moe.experts.#.w2.weight": ExpertDown}},
	after: map[string]Role{"post_attention_layernorm.weight": AfterAttention, "pre_feedforward_layernorm.weight": FeedNorm,
		"post_feedforward_layernorm.weight": AfterFeed},
	joined:  map[string][]Role{"self_attn.qkv_proj.weight": {Query, Key, Value}, "mlp.gate_up_proj.weight": {Gate, Up}},
	ignored: []string{"self_attn.rotary_emb.inv_freq"},
}

var ggufNames = naming{
	layer: "blk.",
	fixed: map[string]Role{"token_embd.weight": Embedding, "output_norm.weight": FinalNorm, "output.weight": Classifier},
	inner: map[string]Role{
		"attn_norm.weight": AttentionNorm, "ffn_norm.weight": FeedNorm,
		"attn_q.weight": Query, "attn_k.weight": Key, "attn_v.weight": Value, "attn_output.weight": Output,
		"attn_q.bias": QueryBias, "attn_k.bias": KeyBias, "attn_v.bias": ValueBias,
		"attn_output.bias": OutputBias, "attn_q_norm.weight": QueryNorm, "attn_k_norm.weight": KeyNorm,
		"ffn_gate.weight": Gate, "ffn_up.weight": Up, "ffn_down.weight": Down,
		"ffn_gate_inp.weight": Router, "ffn_gate_exps.weight": ExpertGate, "ffn_up_exps.weight": ExpertUp, "ffn_down_exps.weight": ExpertDown,
		"ffn_gate_inp_shexp.weight": SharedRouter, "ffn_gate_shexp.weight": SharedGate, "ffn_up_shexp.weight": SharedUp,
		"ffn_down_shexp.weight": SharedDown,
	},
	ignored: []string{"attn_rot_embd"},
}

// GGUFName is what GGUF calls a part of a model.
func GGUFName(p Part) string { return ggufNames.of(p) }

// TransformersName is what Hugging Face calls a part of a model.
func TransformersName(p Part) string { return hfNames.of(p) }

// of is the inverse of find.
func (n *naming) of(p Part) string {
	in, prefix := n.fixed, ""
	if p.Layer >= 0 {
		in, prefix = n.inner, n.layer+strconv.Itoa(p.Layer)+"."
	}
	for name, role := range in {
		if role == p.Role {
			return prefix + strings.Replace(name, "#", strconv.Itoa(p.Expert), 1)
		}
	}
	return ""
}

// find says which part of the model a tensor is. A tensor of a layer that the model would have to compute with, and does not know, is
// an error; others are not known (ok false): the caller may leave them out.
func (n *naming) find(c *Config, name string) (p Part, ok bool, err error) {
	if role, known := n.fixed[name]; known {
		return Part{Role: role, Layer: -1}, true, nil
	}
	rest, inLayer := strings.CutPrefix(name, n.layer)
	number, inner, _ := strings.Cut(rest, ".")
	layer, bad := strconv.ParseUint(number, 10, 31)
	if !inLayer || bad != nil {
		return p, false, nil
	}
	if int(layer) >= c.Layers {
		return p, false, fmt.Errorf("tensor %q belongs to layer %d; the configuration has %d layers", name, layer, c.Layers)
	}
	for _, ignored := range n.ignored {
		if strings.HasPrefix(inner, ignored) {
			return p, false, nil
		}
	}
	expert := 0
	if inner, expert, err = n.expertOf(inner); err != nil || expert >= max(c.Experts, 1) {
		return p, false, fmt.Errorf("tensor %q is of no expert of %d", name, c.Experts)
	}
	role, known := n.inner[inner]
	if other, is := n.other[c.Family][inner]; is {
		role, known = other, true
	}
	if other, is := n.after[inner]; is && c.AfterNorm {
		role, known = other, true
	}
	if known {
		for _, r := range c.layerRoles(int(layer)) {
			if r == role {
				return Part{role, int(layer), expert}, true, nil
			}
		}
	}
	return p, false, fmt.Errorf("tensor %q is not part of a %s model as it is known here", name, c.Family)
}

// expertOf replaces the number of an expert in a name by #.
func (n *naming) expertOf(inner string) (name string, expert int, err error) {
	before, after, ok := strings.Cut(inner, n.expert)
	if n.expert == "" || !ok {
		return inner, 0, nil
	}
	number, rest, _ := strings.Cut(after, ".")
	e, err := strconv.ParseUint(number, 10, 31)
	return before + n.expert + "#." + rest, int(e), err
}

// parts are those of a tensor that holds several, nil of one that does not.
func (n *naming) parts(c *Config, name string) []Part {
	rest, inLayer := strings.CutPrefix(name, n.layer)
	number, inner, _ := strings.Cut(rest, ".")
	layer, bad := strconv.ParseUint(number, 10, 31)
	if !inLayer || bad != nil || int(layer) >= c.Layers {
		return nil
	}
	var list []Part
	if c.Family == Phi3 {
		for _, r := range n.joined[inner] {
			list = append(list, Part{Role: r, Layer: int(layer)})
		}
	}
	if r := n.inner[inner]; n.expert == "" && r.OfExpert() && c.Routed(int(layer)) {
		for e := range c.Experts {
			list = append(list, Part{r, int(layer), e})
		}
	}
	return list
}

// quiet reports whether a tensor that is left out needs no warning.
func (n *naming) quiet(name string) bool {
	for _, ignored := range n.ignored {
		if strings.Contains(name, "."+ignored) {
			return true
		}
	}
	return false
}
