#!/usr/bin/env python3
"""Measures what quantization does to trained language models and prints the tables as Markdown.

  language.py QWB DATA [--samples N] [--only MODEL,...]

QWB is the built binary, DATA a folder with models/llm and data/text as the tests use it (QWB_TESTDATA). Weights and activations are
quantized as llama2.c's runq does (mode int8); errors are standard errors over sequences, paired with the float model.
"""
import argparse, os, re
from networks import Workplace, table

ap = argparse.ArgumentParser()
ap.add_argument("qwb"); ap.add_argument("data"); ap.add_argument("--only", default="")
ap.add_argument("--samples", type=int, default=40, help="lines of each text, chosen by seed 0")
a = ap.parse_args()
place = Workplace(a.qwb, a.data)

# Model: tokenizer and sizes of groups. 96 divides the rows of stories15M (288 and 768), 64 does not; 8 straddles the rows of 172 of stories260K.
MODELS = {"stories260K": ("tok512.bin", (4, 8)), "stories15M": ("tokenizer.bin", (16, 32, 96))}
TEXTS = {"TinyStories": "tinystories_valid_head.txt", "TinyStories (minigpt)": "tinystories_minigpt.txt", "WikiText": "wikitext2_valid.txt"}
PROMPTS = ["Once upon a time", "One day, Tim and his sister", "The little dog"]


def llm(*names): return os.path.join(place.data, "models", "llm", *names)
def pm(x, error, digits): return f"{x:.{digits}f}" + (f" ± {error:.{digits}f}" if error is not None else "")


def common(a, b):
    """How many characters two texts have in common at the beginning."""
    return next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))


for model, (tokenizer, groups) in MODELS.items():
    if a.only and model not in a.only.split(","): continue
    checkpoint, tok = llm(model + ".bin"), ("--tokenizer", llm(tokenizer))
    rows = []
    for name, file in TEXTS.items():
        text = ("--text", os.path.join(place.data, "data", "text", file), "--samples", a.samples)
        for bits in (8, 4):
            for g in groups:
                for scales in ("rtn", "range"):
                    d = place.json("eval", checkpoint, *tok, *text, "--bits", bits, "--group-size", g, "--method", scales)
                    rows.append([name, d["tokens"], f"{d['float_perplexity']:.4f}", f"int{bits}", g, scales, f"{d['perplexity']:.4f}", pm(d["nll_change"], d["nll_change_error"], 5),
                                 pm(d["kl"], d["kl_error"], 6), pm(100 * d["flip_rate"], 100 * d["flip_rate_error"], 2)])
    print(f"### {model}\n")
    table(["text", "tokens", "perplexity, float", "weights", "group", "scales", "perplexity", "change of NLL", "KL (nats)", "flips (%)"], rows)
    rows = []
    for prompt in PROMPTS:
        short = re.sub(r"\W", "", prompt)[:12]
        say = lambda *more: place.json("generate", checkpoint, *tok, "--prompt", prompt, "--tokens", 200, *more)["text"]
        for kind, more in [("float", ())] + [(f"q80-g{g}", ("--group-size", g)) for g in groups] + [(f"int4-g{groups[0]}", ("--group-size", groups[0], "--bits", 4))]:
            mine, path = say(*more), llm("expected", f"{model}.{kind}.{short}.txt")
            other = open(path).read().rstrip("\n") if os.path.exists(path) else None
            rows.append([prompt, kind, len(mine), "–" if other is None else "equal" if mine == other else f"parts after {common(mine, other)} of {len(other)} characters"])
    print("Greedy texts of 200 positions, and where llama2.c's run and runq have the same:\n")
    table(["prompt", "weights", "characters", "against llama2.c"], rows)
