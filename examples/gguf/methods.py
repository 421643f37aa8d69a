"""Writes a table of the methods that quantize a checkpoint in groups: perplexity, KL and flips against the float model.

    python methods.py QWB MODEL TOKENIZER FIT TEST GROUP > METHODS.md

Weights are fitted to the text FIT and measured on TEST, one sequence a line, by qwb eval with float activations."""
import json, subprocess, sys

QWB, MODEL, TOKENIZER, FIT, TEST, GROUP = sys.argv[1:7]
METHODS = ["rtn", "range", "importance", "gptq", "gptaq", "awq", "awq+gptaq"]

print("| weights | method | perplexity | mean NLL above float | KL | flips, % |\n|---|---|---|---|---|---|")
for bits in ["4", "8"]:
    for method in METHODS:
        text = subprocess.run([QWB, "eval", MODEL, "--tokenizer", TOKENIZER, "--text", TEST, "--group-size", GROUP, "--bits", bits,
                               "--method", method, *(["--fit", FIT] if METHODS.index(method) > 1 else []), "--mode", "sim", "--threads", "1",
                               "--json"], check=True, capture_output=True, text=True).stdout
        e = json.loads(text)
        two = lambda key, scale, digits: f"{e[key] * scale:.{digits}f} ± {e[key + '_error'] * scale:.{digits}f}"
        print(f"| int{bits} in groups of {GROUP} | {method} | {e['perplexity']:.3f} | {two('nll_change', 1, 4)} | {two('kl', 1, 5)} "
              f"| {two('flip_rate', 100, 2)} |", flush=True)
