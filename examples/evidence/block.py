#!/usr/bin/env python3
"""Measures what `qwb tune --method block` gains beside the closed forms, on samples that nothing was fitted on, and prints the table as Markdown.

  block.py QWB DATA --cache DIR [--only NAME,...] [--columns C,...] [--steps N] [--eval N]

A plan is calibrated, then tuned by `gptq`, by `block`, and by both, each from the same beginning; `qwb compare` runs all of them on the same
other samples. Plans that are in DIR are not made again, so that a run can be killed and repeated. Seconds are those of the processor, of
tune alone. Needs numpy.
"""
import argparse, json, os, re, resource, sys, time
from networks import Workplace, table

ap = argparse.ArgumentParser()
ap.add_argument("qwb"); ap.add_argument("data"); ap.add_argument("--cache", required=True); ap.add_argument("--only", default="resnet8")
ap.add_argument("--columns", default="w4a8,w4a4,w3a8,pow2"); ap.add_argument("--methods", default="gptq;block;gptq,block;distill;gptq,distill")
ap.add_argument("--steps", type=int, default=400); ap.add_argument("--eval", type=int, default=500)
ap.add_argument("--calibration", type=int, default=104); ap.add_argument("--tune", type=int, default=200)
ap.add_argument("--threads", type=int, default=2)
ap.add_argument("--flags", default="", help="more flags of tune")
a = ap.parse_args()
os.makedirs(a.cache, exist_ok=True)
place = Workplace(a.qwb, a.data, a.cache)

# platform, its weights (scheme and range) and the range of its activations
COLUMNS = {"w4a8": ("onnxruntime", "[-8, 7]", None), "w4a4": ("onnxruntime", "[-8, 7]", "[0, 15]"), "w3a8": ("onnxruntime", "[-4, 3]", None),
           "pow2": ("pow2_int8", None, None), "w4-pow2": ("pow2_int8", "[-8, 7]", None)}


def platform(column):
    base, weights, activations = COLUMNS[column]
    if not weights: return base
    y = place.call("target", "show", base).decode()
    scheme = "int4-sym-channel" + ("-pow2" if "pow2" in base else "")
    y = re.sub(r"^name: .*", "name: " + column.replace("-", "_"), y, flags=re.M)
    y = re.sub(r"^weight: .*", f"weight: {{scheme: {scheme}, range: {weights}, observer: minmax}}", y, flags=re.M)
    y = re.sub(r"^reduced_weight.*\n", "", y, flags=re.M)
    if activations: y = re.sub(r"^(activation: .*range: )\[[^]]*\]", r"\1" + activations, y, flags=re.M)
    with open(place.path(column + ".yaml"), "w") as f: f.write(y)
    return column + ".yaml"


def plans(name, net, column):
    """The plans by row, with what tune said and took."""
    first = f"{name}.{column}.plan.json"
    if not os.path.exists(place.path(first)):
        place.call("calibrate", net.model, "--data", net.calibration, "--preprocess", net.preprocess, "--samples", str(a.calibration), "--platform",
                   platform(column), "--fresh", "-o", first)
    rows = {"as calibrated": (first, None)}
    for methods in a.methods.split(";"):
        stem = f"{name}.{column}.{methods.replace(',', '+')}.{a.steps}"
        plan, report = stem + ".plan.json", place.path(stem + ".json")
        if not os.path.exists(report):
            for end in (".plan.json", ".stats"):
                with open(place.path(first.replace(".plan.json", end)), "rb") as f, open(place.path(stem + end), "wb") as g: g.write(f.read())
            before, start = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime, time.monotonic()
            t = json.loads(place.call("tune", plan, "--method", methods, "--steps", str(a.steps), "--samples", str(a.tune), "--threads", str(a.threads), "--json", *(a.flags.split() if "distill" in methods or "--loss" not in a.flags else [])))
            t["user"], t["wall"] = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before, time.monotonic() - start
            with open(report, "w") as f: json.dump(t, f)
        with open(report) as f: rows[methods] = (plan, json.load(f))
        print(stem, f"{rows[methods][1]['user']:.0f} s, {rows[methods][1].get('wall', 0):.0f} s by the clock", file=sys.stderr, flush=True)
    return rows


lines = []
for name, net in place.networks(a.only):
    for column in a.columns.split(","):
        rows = plans(name, net, column)
        names = list(rows)
        c = json.loads(place.call("compare", *(rows[r][0] for r in names), "--data", net.evaluation, "--preprocess", net.preprocess, "--samples", str(a.eval),
                                  "--layers", "0", "--json"))
        pairs = {(p["a"], p["b"]): p for p in c["pairs"]}
        best = "gptq" if "gptq" in rows else names[0]
        for r, run in zip(names, c["runs"]):
            p, t = pairs.get((rows[best][0], rows[r][0])), rows[r][1]
            verdict = f"{t['before']['nsr']:.3g} to {t['after']['nsr']:.3g}" if t else ""
            if t and not t["methods"][-1]["confirmed"]: verdict += ", last not confirmed"
            lines.append([name, column, r, f"{run['nsr']:.3g} ± {run['nsr_error']:.1g}", f"{p['nsr_change']:.2g} ± {p['nsr_change_error']:.1g}" if p else "", run["flips"],
                          verdict, f"{t['user']:.0f}" if t else ""])
print(f"NSR (centred behind a Softmax) on {a.eval} unseen samples, the paired difference from gptq, answers unlike float; held-out NSR in tune; {a.steps} steps\n")
table(["network", "weights, activations", "tuned by", "NSR", "beside gptq", "answers", "held out", "CPU s"], lines)
