"""Writes families/NAME, tiny random models of transformers (5.24 was used) in float32, and families/NAME/expected.json: logits after each of
some tokens, by eager attention."""

import json, os, shutil
import sys
import torch, transformers as T
from safetensors.torch import load_file, save_file

os.chdir(os.path.dirname(os.path.abspath(__file__)))
small = dict(hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, vocab_size=40,
             max_position_embeddings=64, bos_token_id=1, eos_token_id=2, pad_token_id=0, attn_implementation="eager")
models = {
    "llama-biases": (T.LlamaForCausalLM, T.LlamaConfig(**small, attention_bias=True)),
    "llama3": (T.LlamaForCausalLM, T.LlamaConfig(**small, head_dim=8, tie_word_embeddings=True, rope_parameters=dict(
        rope_type="llama3", rope_theta=500000.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
        original_max_position_embeddings=16))),
    "mistral": (T.MistralForCausalLM, T.MistralConfig(**small, sliding_window=5)),
    "mistral-wide": (T.MistralForCausalLM, T.MistralConfig(**(small | dict(num_attention_heads=2, num_key_value_heads=1, head_dim=20)),
                                                           sliding_window=17)),
    "qwen2-window": (T.Qwen2ForCausalLM, T.Qwen2Config(**small, use_sliding_window=True, sliding_window=4, max_window_layers=1)),
    "qwen3": (T.Qwen3ForCausalLM, T.Qwen3Config(**small, head_dim=6, tie_word_embeddings=True)),
    "qwen3-biases": (T.Qwen3ForCausalLM, T.Qwen3Config(**small, head_dim=8, attention_bias=True, use_sliding_window=True,
                                                       sliding_window=6, layer_types=["sliding_attention", "full_attention"])),
    "phi3": (T.Phi3ForCausalLM, T.Phi3Config(**small, sliding_window=7, original_max_position_embeddings=64)),
    "phi3-partial": (T.Phi3ForCausalLM, T.Phi3Config(**(small | dict(hidden_size=32)), original_max_position_embeddings=64,
        rope_parameters=dict(rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.75))),
    "phi3-longrope": (T.Phi3ForCausalLM, T.Phi3Config(**(small | dict(hidden_size=32)), original_max_position_embeddings=48,
        rope_parameters=dict(rope_type="longrope", rope_theta=10000.0, partial_rotary_factor=0.75, short_factor=[1.0, 1.1, 1.7],
                             long_factor=[1.2, 2.0, 5.0]))),
    "smollm3": (T.SmolLM3ForCausalLM, T.SmolLM3Config(**(small | dict(num_hidden_layers=3)), no_rope_layers=[1, 0, 1], use_sliding_window=True,
        sliding_window=6, layer_types=["full_attention", "full_attention", "sliding_attention"])),
    "granite": (T.GraniteForCausalLM, T.GraniteConfig(**small, embedding_multiplier=3.0, attention_multiplier=0.2, residual_multiplier=0.4,
                                                      logits_scaling=2.5, attention_bias=True)),
    "gemma": (T.GemmaForCausalLM, T.GemmaConfig(**small, head_dim=6, hidden_act="gelu_pytorch_tanh")),
    "gemma2": (T.Gemma2ForCausalLM, T.Gemma2Config(**small, head_dim=6, query_pre_attn_scalar=9, sliding_window=5,
                                                   attn_logit_softcapping=2.0, final_logit_softcapping=3.0)),
    "mixtral": (T.MixtralForCausalLM, T.MixtralConfig(**small, num_local_experts=5, num_experts_per_tok=2, sliding_window=9)),
    "qwen2moe": (T.Qwen2MoeForCausalLM, T.Qwen2MoeConfig(**(small | dict(num_hidden_layers=3)), num_experts=4, num_experts_per_tok=3,
        moe_intermediate_size=8, shared_expert_intermediate_size=12, mlp_only_layers=[1])),
    "qwen3moe": (T.Qwen3MoeForCausalLM, T.Qwen3MoeConfig(**(small | dict(num_hidden_layers=3)), head_dim=6, num_experts=6,
        num_experts_per_tok=2, moe_intermediate_size=8, norm_topk_prob=True, decoder_sparse_step=2, use_sliding_window=True,
        sliding_window=7, attention_bias=True)),
    # Those that GGUF holds too (make_experts.py): all layers have experts, none has a window.
    "experts-mixtral": (T.MixtralForCausalLM, T.MixtralConfig(**small, num_local_experts=3, num_experts_per_tok=2)),
    "experts-qwen2": (T.Qwen2MoeForCausalLM, T.Qwen2MoeConfig(**small, num_experts=3, num_experts_per_tok=2, moe_intermediate_size=8,
        shared_expert_intermediate_size=12)),
    "experts-qwen3": (T.Qwen3MoeForCausalLM, T.Qwen3MoeConfig(**small, num_experts=3, num_experts_per_tok=2, moe_intermediate_size=8,
        norm_topk_prob=True)),
    "gemma3": (T.Gemma3ForCausalLM, T.Gemma3TextConfig(**(small | dict(num_hidden_layers=3)), head_dim=6, query_pre_attn_scalar=9,
        sliding_window=5, layer_types=["sliding_attention", "full_attention", "sliding_attention"], final_logit_softcapping=3.0,
        rope_parameters=dict(full_attention=dict(rope_type="linear", factor=4.0, rope_theta=1e6),
                             sliding_attention=dict(rope_type="default", rope_theta=100.0)))),
    "gemma3-images": (T.Gemma3ForConditionalGeneration, T.Gemma3Config(attn_implementation="eager", text_config={
        k: v for k, v in small.items() if k not in ("pad_token_id", "attn_implementation")} | dict(head_dim=6, pad_token_id=0),
        vision_config=dict(hidden_size=4, intermediate_size=4, num_hidden_layers=1, num_attention_heads=1, image_size=28, patch_size=14))),
}
ids = [(7 * i * i + 3 * i + 1) % 40 for i in range(40)]
for name, (kind, config) in models.items():
    if len(sys.argv) > 1 and name not in sys.argv[1:]:
        continue
    shutil.rmtree("families/" + name, ignore_errors=True)
    torch.manual_seed(len(name))
    m = kind(config).eval()
    with torch.no_grad():
        for key, p in m.named_parameters():
            if "norm" in key:
                p.copy_(torch.randn_like(p) * 0.2 + (0 if name.startswith("gemma") else 1))
            else:
                p.copy_(torch.randn_like(p) * (0.5 if "embed" in key else 0.3))
        logits = m(torch.tensor([ids])).logits[0].double()
    folder = "families/" + name
    m.save_pretrained(folder)
    os.path.exists(folder + "/generation_config.json") and os.remove(folder + "/generation_config.json")
    json.dump(dict(ids=ids, logits=[float(f"{v:.7g}") for v in logits.ravel()]), open(folder + "/expected.json", "w"))
