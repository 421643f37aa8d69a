#!/usr/bin/env python3
"""Holds ONNX Runtime to qwb's integer programs step by step, and prints accuracy in float, simulated and in integers.

  integers.py QWB DATA [--work DIR] [--only NAME,...] [--inputs N]

QWB is the built binary, DATA a folder with models/ and data/ as the tests use it (QWB_TESTDATA). Needs: pip install onnxruntime onnx
numpy. Every network is calibrated and exported for each platform. ONNX Runtime then runs the exported file on N inputs twice: as it is
written (optimizations off, every tensor recorded: profile onnx), and optimized (only what QuantizeLinear gives is recorded, so that
fusions stay: profile ort). `qwb verify --against` computes every step again from the tensors that were recorded.
"""
import argparse, json, os, shutil, sys
import numpy as np
import onnx, onnxruntime as ort
from networks import Workplace, table

ap = argparse.ArgumentParser()
ap.add_argument("qwb"); ap.add_argument("data"); ap.add_argument("--work"); ap.add_argument("--only", default="")
ap.add_argument("--inputs", type=int, default=3)
a = ap.parse_args()
place = Workplace(a.qwb, a.data, a.work)


def record(model, feed, folder, optimized):
    """Runs a model in ONNX Runtime and writes its tensors: all of them, or with optimizations what QuantizeLinear gives."""
    m = onnx.load(model)
    have = {o.name for o in m.graph.output}
    known = {v.name: v for v in onnx.shape_inference.infer_shapes(m).graph.value_info}
    for n in m.graph.node:
        for o in n.output:
            if o and o not in have and (not optimized or n.op_type == "QuantizeLinear"):
                m.graph.output.append(known.get(o, onnx.ValueInfoProto(name=o))); have.add(o)
    so = ort.SessionOptions(); so.intra_op_num_threads = 2; so.log_severity_level = 3
    so.graph_optimization_level = getattr(ort.GraphOptimizationLevel, "ORT_ENABLE_ALL" if optimized else "ORT_DISABLE_ALL")
    s = ort.InferenceSession(m.SerializeToString(), so, providers=["CPUExecutionProvider"])
    names = [o.name for o in s.get_outputs()]
    shutil.rmtree(folder, ignore_errors=True); os.makedirs(folder)
    for k, v in enumerate(s.run(names, feed)): np.save(os.path.join(folder, f"{k}.npy"), v)
    with open(os.path.join(folder, "names.json"), "w") as f: json.dump(dict(enumerate(names)), f)


def feeds(file, model):
    """The inputs of one dumped sample by name."""
    data = np.load(file)
    if file.endswith(".npz"): return {k: data[k] for k in data.files}
    return {ort.InferenceSession(model, providers=["CPUExecutionProvider"]).get_inputs()[0].name: data}


def against(plan, exported, inputs, profile):
    """Sums what `qwb verify --against` says of every input."""
    total = dict(tensors=0, integers_compared=0, integers_different=0, ties=0, distance=0.0)
    for file in inputs:
        folder = place.path("record")
        record(exported, feeds(file, exported), folder, optimized=profile == "ort")
        r = place.json("verify", plan, "--against", folder, "--profile", profile, ok=(0, 3))
        total["tensors"] = r["tensors"]
        for k in ("integers_compared", "integers_different", "ties"): total[k] += r[k]
        total["distance"] = max([total["distance"]] + [t["distance"] for t in r["per_tensor"]])
        if r["verdict"] == "different": print(f"{plan} {profile}: {r['first']}", file=sys.stderr)
    return total


steps, accuracy = [], []
for name, n in place.networks(a.only):
    inputs = place.inputs(name, n, a.inputs)
    plan = f"{name}.plan.json"
    for platform in ("onnxruntime", "trt_int8"):
        given = ("--data", n.calibration, "--preprocess", n.preprocess, "--samples", n.samples) if platform == "onnxruntime" else ()
        place.json("calibrate", n.model, *given, "--platform", platform, "-o", plan)
        exported = place.path(f"{name}.{platform}.onnx")
        v = place.json("export", plan, "--platform", platform, "-o", exported)["verification"]
        for profile in ("onnx", "ort") if platform == "onnxruntime" else ("onnx",):
            t = against(plan, exported, inputs, profile)
            steps.append([name, platform, profile, t["tensors"], f"{t['integers_compared']:,}", t["integers_different"], t["ties"], f"{t['distance']:.1e}"])
        if n.labels is not None:
            top = {m: place.json("eval", plan, *n.labelled, "--mode", m) for m in ("fp32", "sim", "int8")}
            accuracy.append([name, platform, v["profile"], top["fp32"]["n"]] + [top[m]["top1"] for m in ("fp32", "sim", "int8")] +
                            [f"{top['int8']['drop']:.2f} ± {top['int8']['drop_error']:.2f}"])
    print(f"{name} done", file=sys.stderr)

print(f"ONNX Runtime {ort.__version__}, {a.inputs} inputs per network\n")
print("### Steps computed again from the tensors that ONNX Runtime recorded\n")
table(["network", "platform", "profile", "tensors", "integers", "different", "ties", "largest distance of a tie (steps)"], steps)
print("### Right first answers\n")
table(["network", "platform", "profile of the integers", "samples", "float", "simulated", "integers", "drop of the integers (points)"], accuracy)
