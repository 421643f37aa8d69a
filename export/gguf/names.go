package gguf

import (
	"fmt"

	"qwb/graph/checkpoint"
)

// names are those of the parts of a model; in layers they stand behind "blk.", the layer's number and a dot.
var names = map[checkpoint.Role]string{
	checkpoint.Embedding: "token_embd.weight", checkpoint.FinalNorm: "output_norm.weight", checkpoint.Classifier: "output.weight",
	checkpoint.AttentionNorm: "attn_norm.weight", checkpoint.FeedNorm: "ffn_norm.weight",
	checkpoint.Query: "attn_q.weight", checkpoint.Key: "attn_k.weight", checkpoint.Value: "attn_v.weight",
	checkpoint.QueryBias: "attn_q.bias", checkpoint.KeyBias: "attn_k.bias", checkpoint.ValueBias: "attn_v.bias",
	checkpoint.Output: "attn_output.weight",
	checkpoint.Gate:   "ffn_gate.weight", checkpoint.Up: "ffn_up.weight", checkpoint.Down: "ffn_down.weight",
}

func name(p checkpoint.Part) string {
	if p.Layer < 0 {
		return names[p.Role]
	}
	return fmt.Sprintf("blk.%d.%s", p.Layer, names[p.Role])
}
