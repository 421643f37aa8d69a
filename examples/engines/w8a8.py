"""Writes a table of W8A8 folders (compressed-tensors): perplexity and KL against the float model, inputs of matrices rounded per token.

    python w8a8.py QWB MODEL TOKENIZER FIT TEST FOLDER > W8A8.md

Weights are fitted to FIT and measured on TEST, one sequence a line. transformers 5.24 and compressed-tensors 0.20 run what qwb wrote; since
they leave inputs of matrices as floats, a hook rounds them as their engines do: int8 by the largest of each token."""
import json, os, subprocess, sys

import numpy as np
import torch
from transformers import AutoModelForCausalLM

QWB, MODEL, TOKENIZER, FIT, TEST, FOLDER = sys.argv[1:7]
torch.set_num_threads(1)


def qwb(*args):
    return subprocess.run([QWB, *args], check=True, capture_output=True, text=True).stdout


def rounded(module, args):
    x = args[0]
    scale = x.abs().amax(-1, keepdim=True).clamp(min=1e-30) / 127
    return (torch.round(x / scale) * scale,)


def lines():
    tokens = os.path.join(FOLDER, "tokens.tsv")
    qwb("eval", MODEL, "--tokenizer", TOKENIZER, "--text", TEST, "--per-token", tokens, "--json")
    texts = {}
    for line in open(tokens, encoding="utf-8").read().split("\n")[1:]:
        if line:
            name, _, token = line.split("\t")[:3]
            texts.setdefault(name, [1]).append(int(token))
    return list(texts.values())


@torch.no_grad()
def run(path, texts, rounds=False, **more):
    model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32, **more)
    for name, module in model.named_modules():
        if rounds and name.endswith("_proj"):
            module.register_forward_pre_hook(rounded)
    return [torch.log_softmax(model(torch.tensor([ids])).logits[0, :-1].double(), -1) for ids in texts]


def main():
    os.makedirs(FOLDER, exist_ok=True)
    texts = lines()
    path = lambda name: os.path.join(FOLDER, name)
    n = np.array([len(ids) - 1 for ids in texts])
    of = lambda q: np.array([-float(q[i][torch.arange(n[i]), torch.tensor(texts[i][1:])].sum()) for i in range(len(texts))])
    error = lambda x: (len(n) / (len(n) - 1) * ((x - x.sum() / n.sum() * n) ** 2).sum()) ** 0.5 / n.sum()
    qwb("export", MODEL, "--format", "gguf", "--weights", "f32", "--tokenizer", TOKENIZER, "-o", path("float.gguf"))
    base = run(FOLDER, texts, gguf_file="float.gguf")
    print("| method | inputs | perplexity | mean NLL above float | KL |\n|---|---|---|---|---|")
    for method in ["rtn", "smoothquant", "gptq"]:
        if not os.path.exists(path(method)):
            fit = () if method == "rtn" else ("--fit", FIT, "--tokenizer", TOKENIZER)
            qwb("export", MODEL, "--format", "compressed-tensors", "--weights", "w8a8", "--method", method, *fit, "-o", path(method))
        for rounds in [False, True]:
            q = run(path(method), texts, rounds)
            above = of(q) - of(base)
            kl = np.array([float((p.exp() * (p - x)).sum()) for p, x in zip(base, q)])
            print(f"| {method} | {'int8' if rounds else 'float'} | {np.exp(of(q).sum() / n.sum()):.4f} | {above.sum() / n.sum():.5f} ± "
                  f"{error(above):.5f} | {kl.sum() / n.sum():.6f} ± {error(kl):.6f} |", flush=True)


main()
