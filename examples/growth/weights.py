#!/usr/bin/env python3
"""Models of any size with weights from a seed, to see what a command takes of memory.

    weights.py onnx MEBIBYTES FOLDER         m.onnx with m.data (external data), and two samples in data/
    weights.py checkpoint MEBIBYTES FOLDER   a Llama checkpoint: config.json and model.safetensors (float32)
    weights.py fitting MEBIBYTES FOLDER      the same with the matrices of 110M (width 768), tokenizer.bin, and fit.txt, a text for it

Needs numpy, and onnx for the first. Blocks are written one at a time: it takes no more memory than one of them.
"""
import json
import os
import struct
import sys

import numpy as np

WIDTH = 1024  # a block of m.onnx is WIDTH x WIDTH floats: 4 MiB


def block(seed, *shape):
    return (np.random.default_rng(seed).standard_normal(shape, dtype=np.float32) / np.sqrt(shape[-1])).astype("<f4")


def onnx(size, folder):
    from onnx import TensorProto, helper, save
    count = size * 2**20 // (4 * WIDTH * WIDTH)
    nodes, tensors, name = [], [], "x"
    with open(f"{folder}/m.data", "wb") as f:
        for i in range(count):
            t = TensorProto(name=f"w{i}", data_type=TensorProto.FLOAT, dims=[WIDTH, WIDTH], data_location=TensorProto.EXTERNAL)
            for key, value in ("location", "m.data"), ("offset", str(f.tell())), ("length", str(4 * WIDTH * WIDTH)):
                t.external_data.add(key=key, value=value)
            f.write(block(i, WIDTH, WIDTH).tobytes())
            tensors.append(t)
            nodes += [helper.make_node("Gemm", [name, f"w{i}"], [f"y{i}"], f"gemm{i}"), helper.make_node("Tanh", [f"y{i}"], [f"t{i}"], f"tanh{i}")]
            name = f"t{i}"
    value = lambda n: helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, WIDTH])
    graph = helper.make_graph(nodes, "m", [value("x")], [value(name)], tensors)
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), f"{folder}/m.onnx")
    os.makedirs(f"{folder}/data", exist_ok=True)
    for i in range(2):
        np.save(f"{folder}/data/{i}.npy", block(10**6 + i, 1, WIDTH) * np.sqrt(WIDTH))


def fitting(size, folder):
    checkpoint(size, folder, 768, 2048, 32000, 12)
    words = [b"<unk>", b"<s>", b"</s>"] + [b"<0x%02X>" % i for i in range(256)]
    for n in range(1, 5):  # of one letter, two, ...: longer ones are merged first
        words += [bytes(97 + i // 26**k % 26 for k in reversed(range(n))) for i in range(26**n)]
    with open(f"{folder}/tokenizer.bin", "wb") as f:
        f.write(struct.pack("<I", 8))
        for word in words[:32000]:
            f.write(struct.pack("<fI", len(word), len(word)) + word)
    letters = np.random.default_rng(2 * 10**6).integers(97, 123, (80, 1000)).astype(np.uint8)
    with open(f"{folder}/fit.txt", "wb") as f:
        f.write(b"\n".join(row.tobytes() for row in letters))


def checkpoint(size, folder, d=1024, ffn=4096, vocab=4096, heads=16):
    layer = {"self_attn.q_proj": (d, d), "self_attn.k_proj": (d, d), "self_attn.v_proj": (d, d), "self_attn.o_proj": (d, d),
             "mlp.gate_proj": (ffn, d), "mlp.up_proj": (ffn, d), "mlp.down_proj": (d, ffn), "input_layernorm": (d,),
             "post_attention_layernorm": (d,)}
    layers = max(1, round((size * 2**20 - 8 * vocab * d) / (4 * sum(np.prod(s) for s in layer.values()))))
    shapes = {"model.embed_tokens.weight": (vocab, d), "lm_head.weight": (vocab, d), "model.norm.weight": (d,)}
    shapes |= {f"model.layers.{i}.{n}.weight": s for i in range(layers) for n, s in layer.items()}
    header, at = {}, 0
    for name, shape in shapes.items():
        end = at + 4 * int(np.prod(shape))
        header[name], at = {"dtype": "F32", "shape": shape, "data_offsets": [at, end]}, end
    text = json.dumps(header).encode()
    with open(f"{folder}/model.safetensors", "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for seed, shape in enumerate(shapes.values()):
            f.write(block(seed, *shape).tobytes())
    with open(f"{folder}/config.json", "w") as f:
        json.dump({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": d, "intermediate_size": ffn,
                   "num_hidden_layers": layers, "num_attention_heads": heads, "num_key_value_heads": heads, "vocab_size": vocab,
                   "max_position_embeddings": 2048, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "hidden_act": "silu",
                   "tie_word_embeddings": False, "torch_dtype": "float32"}, f)


if __name__ == "__main__":
    os.makedirs(sys.argv[3], exist_ok=True)
    {"onnx": onnx, "checkpoint": checkpoint, "fitting": fitting}[sys.argv[1]](int(sys.argv[2]), sys.argv[3])
