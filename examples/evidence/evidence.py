#!/usr/bin/env python3
"""Measures qwb on trained networks next to ONNX Runtime and prints the tables as Markdown.

  evidence.py QWB DATA [--work DIR] [--only NAME,...] [--quick]

QWB is the built binary, DATA a folder with models/ and data/ as the tests use it (QWB_TESTDATA). Needs: pip install onnxruntime
numpy. Every comparison is fed from `qwb preprocess --dump`, so that both see the same numbers.
"""
import argparse, os, sys, time
import numpy as np
import onnxruntime as ort
from networks import Workplace, table

ap = argparse.ArgumentParser()
ap.add_argument("qwb"); ap.add_argument("data"); ap.add_argument("--work"); ap.add_argument("--only", default="")
ap.add_argument("--quick", action="store_true", help="one platform, default observer only")
a = ap.parse_args()
place = Workplace(a.qwb, a.data, a.work)
OBSERVERS = ["minmax", "percentile", "kl", "mse", "auto"]
PLATFORMS = ["trt_int8", "onnxruntime"]


def run(*args):
    """Runs qwb; returns the object, the seconds and the peak memory in MB that it states."""
    t = time.time()
    d = place.json(*args)
    return d, time.time() - t, d.get("peak_rss_bytes", 0) / 2**20


def answers(model, inputs, optimize=True):
    """ONNX Runtime's class for every dumped input. Without optimizations a Q/DQ model is computed as it is written."""
    so = ort.SessionOptions(); so.intra_op_num_threads = 2; so.log_severity_level = 3
    so.graph_optimization_level = getattr(ort.GraphOptimizationLevel, "ORT_ENABLE_ALL" if optimize else "ORT_DISABLE_ALL")
    s = ort.InferenceSession(model, so, providers=["CPUExecutionProvider"])
    name = s.get_inputs()[0].name
    return [int(np.argmax(s.run(None, {name: np.load(f)})[0].reshape(-1))) for f in inputs]


def column(path, i):
    """A column of what `qwb eval --answers` wrote: 1 is the label, 2 the answer."""
    return [int(line.rstrip("\n").split("\t")[i]) for line in open(path)]


accuracy, errors, costs = [], [], []
for name, n in place.networks(a.only):
    if n.labels is None: continue
    inputs = place.inputs(name, n)
    f, _, _ = run("eval", n.model, *n.labelled, "--answers", name + ".fp32.tsv")
    truth, mine = (column(place.path(f"{name}.fp32.tsv"), i) for i in (1, 2))
    other = answers(n.model, inputs)
    floats = (f["top1"], sum(o == t for o, t in zip(other, truth)), sum(o != m for o, m in zip(other, mine)))
    plan, first = f"{name}.plan.json", True
    for platform in PLATFORMS[:1] if a.quick else PLATFORMS:
        nsr = {}
        for o in [None] if a.quick else [None] + OBSERVERS:
            more = () if o is None else ("--observer", o)
            data = ("--data", n.calibration, "--preprocess", n.preprocess, "--samples", n.samples) if first else ()
            c, seconds, rss = run("calibrate", n.model, *data, "--platform", platform, *more, "-o", plan)
            if first: costs.append([name, c["samples"], f"{seconds:.2f}", f"{c['forward_seconds']:.2f}", f"{rss:.0f}"])
            first = False
            r, _, _ = run("analyze", plan, "--graphwise", "--html", "r.html")
            if o: nsr[o] = max(out["nsr"] for out in r["outputs"])
            if o is None:
                s, _, _ = run("eval", plan, *n.labelled, "--mode", "sim", "--answers", name + ".sim.tsv")
                exported = place.path(f"{name}.{platform}.onnx")
                run("export", plan, "--platform", platform, "-o", exported)
                deployed, literal = answers(exported, inputs), answers(exported, inputs, optimize=False)
                sim = column(place.path(f"{name}.sim.tsv"), 2)
                accuracy.append([name, platform, s["n"], floats[0], floats[1], floats[2], s["top1"], f"{s['drop']:.2f} ± {s['drop_error']:.2f}", s["flips"],
                                 sum(d == t for d, t in zip(literal, truth)), sum(d != m for d, m in zip(literal, sim)), sum(d == t for d, t in zip(deployed, truth)), sum(d != m for d, m in zip(deployed, sim))])
                if platform == PLATFORMS[0]:
                    l, seconds, rss = run("analyze", plan, "--layerwise", "--samples", 8, "--html", "r.html")
                    costs[-1] += [len(l["layerwise"]), f"{l['forwards']:.1f}", 1 + len(l["layerwise"]), f"{l['seconds']:.2f}", f"{rss:.0f}"]
        if nsr: errors.append([name, platform] + [f"{nsr[o]:.2e}" for o in OBSERVERS])
    print(f"{name} done", file=sys.stderr)

print(f"ONNX Runtime {ort.__version__}, {os.cpu_count()} cores\n")
print("### Accuracy: right first answers, default observer\n")
table(["network", "platform", "samples", "float qwb", "float ONNX Runtime", "answers apart", "simulated INT8", "drop (points)", "answers changed",
       "exported file in ONNX Runtime, as written", "apart from simulation", "optimized", "apart from simulation"], accuracy)
if errors:
    print("### Noise-to-signal ratio at the output, per observer\n")
    table(["network", "platform"] + OBSERVERS, errors)
print("### Cost\n")
table(["network", "calibration samples", "calibrate s", "of it on data s", "peak MB", "layers", "forwards per sample", "naive forwards", "layerwise s (8 samples)", "peak MB"], costs)
