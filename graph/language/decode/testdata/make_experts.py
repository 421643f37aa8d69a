"""Writes gguf/NAME.gguf: the mixtures of experts of families (make_families.py) as llama.cpp's converter lays them out, in float32, by
gguf-py (0.19 was used). With llama-cpp-python (0.3.36 was used) it also says how far llama.cpp's logits are from those of transformers."""

import json, os, sys
import numpy as np
import gguf
from safetensors.numpy import load_file

os.chdir(os.path.dirname(os.path.abspath(__file__)))
os.makedirs("gguf", exist_ok=True)
names = {"self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
         "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm", "input_layernorm": "attn_norm",
         "post_attention_layernorm": "ffn_norm", "mlp.gate": "ffn_gate_inp", "block_sparse_moe.gate": "ffn_gate_inp",
         "mlp.shared_expert_gate": "ffn_gate_inp_shexp", "mlp.shared_expert.gate_proj": "ffn_gate_shexp",
         "mlp.shared_expert.up_proj": "ffn_up_shexp", "mlp.shared_expert.down_proj": "ffn_down_shexp"}
parts = {"gate_proj": "gate", "w1": "gate", "up_proj": "up", "w3": "up", "down_proj": "down", "w2": "down"}


def convert(name, arch):
    c, tensors = json.load(open(f"families/{name}/config.json")), load_file(f"families/{name}/model.safetensors")
    heads, kv = c["num_attention_heads"], c["num_key_value_heads"]
    size = c.get("head_dim") or c["hidden_size"] // heads
    w = gguf.GGUFWriter(f"gguf/{name}.gguf", arch)
    w.add_context_length(c["max_position_embeddings"]); w.add_embedding_length(c["hidden_size"]); w.add_block_count(c["num_hidden_layers"])
    w.add_feed_forward_length(c["intermediate_size"]); w.add_head_count(heads); w.add_head_count_kv(kv); w.add_key_length(size)
    w.add_value_length(size); w.add_rope_dimension_count(size); w.add_rope_freq_base(c["rope_parameters"]["rope_theta"])
    w.add_layer_norm_rms_eps(c["rms_norm_eps"]); w.add_vocab_size(c["vocab_size"])
    w.add_expert_count(c.get("num_local_experts") or c["num_experts"]); w.add_expert_used_count(c["num_experts_per_tok"])
    if "moe_intermediate_size" in c:
        w.add_expert_feed_forward_length(c["moe_intermediate_size"])
    if "shared_expert_intermediate_size" in c:
        w.add_expert_shared_feed_forward_length(c["shared_expert_intermediate_size"])
    w.add_tokenizer_model("none"); w.add_bos_token_id(1); w.add_eos_token_id(2)
    w.add_tensor("token_embd.weight", tensors["model.embed_tokens.weight"])
    w.add_tensor("output_norm.weight", tensors["model.norm.weight"])
    w.add_tensor("output.weight", tensors["lm_head.weight"])
    stacks = {}
    for key, x in sorted(tensors.items()):
        if not key.startswith("model.layers."):
            continue
        layer, inner = key[len("model.layers."):].split(".", 1)
        inner, end = inner.rsplit(".", 1)
        if ".experts." in inner:
            number, part = inner.split(".experts.")[1].split(".")
            stacks.setdefault((layer, parts[part]), {})[int(number)] = x
            continue
        if arch == "llama" and inner in ("self_attn.q_proj", "self_attn.k_proj"):
            n = heads if "q_proj" in inner else kv
            x = x.reshape(n, 2, x.shape[0] // n // 2, *x.shape[1:]).swapaxes(1, 2).reshape(x.shape)
        w.add_tensor(f"blk.{layer}.{names[inner]}.{end}", np.ascontiguousarray(x.reshape(-1) if inner == "mlp.shared_expert_gate" else x))
    for (layer, part), experts in stacks.items():
        w.add_tensor(f"blk.{layer}.ffn_{part}_exps.weight", np.stack([experts[i] for i in range(len(experts))]))
    w.write_header_to_file(); w.write_kv_data_to_file(); w.write_tensors_to_file(); w.close()


def distance(name):
    import llama_cpp
    want = json.load(open(f"families/{name}/expected.json"))
    m = llama_cpp.Llama(f"gguf/{name}.gguf", n_ctx=64, logits_all=True, verbose=False, n_threads=1)
    m.eval(want["ids"])
    got = np.array(m._scores[:len(want["ids"])]).ravel()
    return np.abs(got - np.array(want["logits"])).max() / np.abs(want["logits"]).max()


for name, arch in ("experts-mixtral", "llama"), ("experts-qwen2", "qwen2moe"), ("experts-qwen3", "qwen3moe"):
    convert(name, arch)
    try:
        print(name, distance(name))
    except Exception as e:
        print(name, "not run by llama.cpp:", e)
