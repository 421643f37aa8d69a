#!/usr/bin/env python3
"""Prints the JSON files of run.sh as Markdown tables, as docs/gpu.md has them: figures.py FOLDER...

Of convolutions it prints those of the largest batch."""

import json
import pathlib
import sys


def load(name):
    for folder in sys.argv[1:]:
        path = pathlib.Path(folder, name + ".json")
        if path.exists():
            return json.loads(path.read_text())
    return {}


def table(head, rows):
    print("| " + " | ".join(head) + " |")
    print("|" + "---|" * len(head))
    for row in rows:
        print("| " + " | ".join(row) + " |")
    print()


def by_name(part):
    return {r["name"]: r for r in (part or {}).get("results", []) if "error" not in r}


def us(r):
    return f"{r['seconds'] * 1e6:.1f}"


def products(rows, tuned, torch, class_of, copying):
    """Times, ratios to cuBLASLt where torch ran, shares of the peak of products and of what peak and copying allow, and what measuring
    tiles gained."""
    for r in rows:
        name = r["name"]
        if not name.startswith(class_of):
            continue
        t, other = tuned.get(name), torch.get(name)
        gain = f"{t['how'].removeprefix('product ')}, {r['seconds'] / t['seconds']:.2f}" if t and t["how"] != r["how"] else ""
        roof = max(r["share_of_peak"], r["gbps"] * 1e9 / copying)
        row = [name.removeprefix(class_of).strip(), us(r), f"{r['share_of_peak']:.2f}", f"{roof:.2f}", r["how"].removeprefix("product "), gain]
        yield row + ([f"{other['ratio']:.2f}" if other else ""] if torch else [])


machine, verify, kernels, networks, tests = map(load, ["machine", "verify", "kernels", "networks", "tests"])
print(machine.get("nvidia_smi", ""), "CUDA", machine["qwb"]["cuda"]["driver"], machine["date"], machine["cpu"], machine["cores"], "cores\n")

if verify:
    print(f"{verify['held']} hold, {verify['failed']} do not; {verify['integers_compared']} integers compared\n")
    seconds = [(c["model"], where, c[where]) for c in verify["calibrations"] for where in ("cpu", "cuda") if where in c]
    table(["model", "on", "calibrate, s", "Gram, s"],
          [[m, w, f"{s['calibrate_seconds']:.3f}", f"{s['gram_seconds']:.3f}"] for m, w, s in seconds])
if tests:
    columns = ("binary", "passed", "failed", "skipped", "seconds")
    table([*columns, ""], [[str(t[c]) for c in columns] + ["cut off" if t["rc"] in (124, 137) else ""] for t in tests["tests"]])
if kernels:
    table(["peak", "a second"], [[k, f"{v:.3g}"] for k, v in kernels["qwb"]["peaks"].items()])
    rows, tuned, torch = kernels["qwb"]["results"], by_name(kernels["tuned"]), by_name(kernels["torch"])
    head, copying = ["", "us", "of peak", "of roof", "tile", "measured tile, gain"], kernels["qwb"]["peaks"]["copy_bytes"]
    table(head + ["cuBLASLt"], products(rows, tuned, torch, "gemm", copying))
    largest = "n=%d " % max(int(r["name"].split("n=")[1].split()[0]) for r in rows if r["name"].startswith("conv"))
    for kind in ("conv resnet50 ", "conv grouped "):
        table(head, products(rows, tuned, {}, kind + largest, copying))
    others = [r for r in rows if not r["name"].startswith(("gemm", "conv"))]
    limited = [r for r in rows if r["name"].startswith("conv depthwise " + largest)] + others
    table(["", "us", "of", "share"], [[r["name"], us(r), r["peak"], f"{r['share_of_peak']:.2f}"] for r in limited])
if networks:
    tuned, torch = by_name(networks["tuned"]), networks["torch"].get("results", [])
    rows = []
    for r in networks["qwb"]["results"]:
        bf16 = {t["compiled"]: f"{t['images_per_second']:,.0f}" for t in torch if t["name"] == r["name"]}
        speeds = [f"{v:,.0f}" for v in (r["images_per_second"], tuned[r["name"]]["images_per_second"], r["images_per_second_end_to_end"])]
        rows.append([str(r["batch"])] + speeds + [bf16.get(False, ""), bf16.get(True, "")])
    table(["batch", "images/s", "tiles measured", "end to end", "bf16 eager", "bf16 compiled"], rows)
    measured = [(m["shape"], m["measured"]) for m in networks["language"] if "decode" in m["measured"]]
    table(["language model", "tokens/s", "ms a token", "of reading", "prompt of 128, tokens/s", "of dp4a"],
          [[s, f"{m['decode']['tokens_per_second']:.0f}", f"{m['decode']['seconds'] * 1e3:.2f}", f"{m['decode']['share_of_bandwidth']['median']:.3f}",
            f"{m['prefill']['tokens_per_second']:,.0f}", f"{m['prefill']['share_of_peak']:.2f}"] for s, m in measured])
