package weights

import (
	"fmt"

	"qwb/graph/checkpoint"
)

// transformersNames are those of Hugging Face; in layers they stand behind "model.layers.", the layer's number and a dot.
var transformersNames = map[checkpoint.Role]string{
	checkpoint.Embedding: "model.embed_tokens.weight", checkpoint.FinalNorm: "model.norm.weight", checkpoint.Classifier: "lm_head.weight",
	checkpoint.AttentionNorm: "input_layernorm.weight", checkpoint.FeedNorm: "post_attention_layernorm.weight",
	checkpoint.Query: "self_attn.q_proj.weight", checkpoint.Key: "self_attn.k_proj.weight", checkpoint.Value: "self_attn.v_proj.weight",
	checkpoint.QueryBias: "self_attn.q_proj.bias", checkpoint.KeyBias: "self_attn.k_proj.bias", checkpoint.ValueBias: "self_attn.v_proj.bias",
	checkpoint.Output: "self_attn.o_proj.weight",
	checkpoint.Gate:   "mlp.gate_proj.weight", checkpoint.Up: "mlp.up_proj.weight", checkpoint.Down: "mlp.down_proj.weight",
}

// TransformersName is what Hugging Face calls a part of a model.
func TransformersName(p checkpoint.Part) string {
	if p.Layer < 0 {
		return transformersNames[p.Role]
	}
	return fmt.Sprintf("model.layers.%d.%s", p.Layer, transformersNames[p.Role])
}

// UntiedParts are the parts of a model with a classifier of its own, whether it has one or shares the embedding.
func UntiedParts(c *checkpoint.Config) []checkpoint.Part {
	untied := *c
	untied.Tied = false
	return untied.Parts()
}

// Blocks reports the first matrix whose rows are no multiple of n elements.
func Blocks(c *checkpoint.Config, n int, format string) error {
	if role := cutRow(c, n); role != nil {
		_, cols := c.Shape(*role)
		return fmt.Errorf("export: %s needs rows of a multiple of %d elements, those of %s have %d", format, n, *role, cols)
	}
	return nil
}
