"""Writes qwen2/, a small random checkpoint of the Qwen2 family in two files (matrices in half precision), and qwen2-logits.json: the
logits after each of some tokens, computed here in float64 from the definition of the architecture. Needs numpy.
"""

import json, os, struct
import numpy as np

os.chdir(os.path.dirname(os.path.abspath(__file__)))
r = np.random.default_rng(0)
d, h, L, H, K, hd, V = 16, 24, 2, 4, 2, 4, 40
W = {}


def w(n, *s, std=0.2):
    W[n] = (r.standard_normal(s) * std).astype("float32")


w("model.embed_tokens.weight", V, d, std=0.5)
for l in range(L):
    p = f"model.layers.{l}."
    W[p + "input_layernorm.weight"] = (1 + 0.1 * r.standard_normal(d)).astype("float32")
    W[p + "post_attention_layernorm.weight"] = (1 + 0.1 * r.standard_normal(d)).astype("float32")
    for n, o in (("q", H * hd), ("k", K * hd), ("v", K * hd)):
        w(p + f"self_attn.{n}_proj.weight", o, d)
        w(p + f"self_attn.{n}_proj.bias", o)
    w(p + "self_attn.o_proj.weight", d, H * hd)
    w(p + "mlp.gate_proj.weight", h, d)
    w(p + "mlp.up_proj.weight", h, d)
    w(p + "mlp.down_proj.weight", d, h)
W["model.norm.weight"] = (1 + 0.1 * r.standard_normal(d)).astype("float32")
w("lm_head.weight", V, d)
os.makedirs("qwen2", exist_ok=True)
json.dump(
    dict(
        architectures=["Qwen2ForCausalLM"],
        model_type="qwen2",
        hidden_size=d,
        intermediate_size=h,
        num_hidden_layers=L,
        num_attention_heads=H,
        num_key_value_heads=K,
        vocab_size=V,
        max_position_embeddings=64,
        rms_norm_eps=1e-6,
        rope_theta=1e6,
        hidden_act="silu",
        tie_word_embeddings=False,
        use_sliding_window=False,
        bos_token_id=3,
        eos_token_id=4,
    ),
    open("qwen2/config.json", "w"),
)
W = {n: x.astype("float16") if x.ndim == 2 else x for n, x in W.items()}
names, where = list(W), {}
for i, part in enumerate((names[:15], names[15:])):
    file, hdr, data = f"model-0000{i+1}-of-00002.safetensors", {}, b""
    for n in part:
        hdr[n] = dict(dtype="F16" if W[n].ndim == 2 else "F32", shape=list(W[n].shape), data_offsets=[len(data), len(data) + W[n].nbytes])
        data += W[n].tobytes()
        where[n] = file
    j = json.dumps(hdr).encode()
    j += b" " * (-len(j) % 8)
    open("qwen2/" + file, "wb").write(struct.pack("<Q", len(j)) + j + data)
json.dump(
    dict(metadata=dict(total_size=sum(x.nbytes for x in W.values())), weight_map=where), open("qwen2/model.safetensors.index.json", "w")
)
ids = np.array([[3, 1, 4, 1, 5, 9, 2, 6, 5, 35, 8, 39]])
W = {k: v.astype("float64") for k, v in W.items()}
rms = lambda x, g: x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6) * g
x = W["model.embed_tokens.weight"][ids[0]]
T = len(ids[0])
f = 1e6 ** (-np.arange(0, hd, 2) / hd)
ang = np.arange(T)[:, None] * f
c = np.cos(np.concatenate([ang, ang], -1))
s = np.sin(np.concatenate([ang, ang], -1))
rot = lambda y: y * c[:, None] + np.concatenate([-y[..., hd // 2 :], y[..., : hd // 2]], -1) * s[:, None]
for l in range(L):
    p = f"model.layers.{l}."
    n = rms(x, W[p + "input_layernorm.weight"])
    q, k, v = [(n @ W[p + f"self_attn.{m}_proj.weight"].T + W[p + f"self_attn.{m}_proj.bias"]).reshape(T, -1, hd) for m in "qkv"]
    q, k = rot(q), rot(k)
    k = np.repeat(k, H // K, 1)
    v = np.repeat(v, H // K, 1)
    a = np.einsum("ihd,jhd->hij", q, k) / np.sqrt(hd)
    a = np.where(np.tril(np.ones((T, T))) > 0, a, -np.inf)
    a = np.exp(a - a.max(-1, keepdims=True))
    a /= a.sum(-1, keepdims=True)
    x = x + np.einsum("hij,jhd->ihd", a, v).reshape(T, -1) @ W[p + "self_attn.o_proj.weight"].T
    n = rms(x, W[p + "post_attention_layernorm.weight"])
    g = n @ W[p + "mlp.gate_proj.weight"].T
    x = x + (g / (1 + np.exp(-g)) * (n @ W[p + "mlp.up_proj.weight"].T)) @ W[p + "mlp.down_proj.weight"].T
logits = rms(x, W["model.norm.weight"]) @ W["lm_head.weight"].T
json.dump(dict(ids=ids[0].tolist(), logits=[round(v, 7) for v in logits.ravel()]), open("qwen2-logits.json", "w"))
