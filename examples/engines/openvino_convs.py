#!/usr/bin/env python3
"""Counts the convolutions that OpenVINO runs on integers, and measures latency, beside NNCF's model of the same network.

  openvino_convs.py QWB DATA [--work DIR] [--only NAME,...] [--random MODEL.onnx ...] [--runs N] [--threads N]

QWB is the built binary, DATA a folder with models/ and data/ as the tests use it (QWB_TESTDATA). Needs: pip install openvino==2026.4.0
nncf==3.4.0 onnx==1.23.2 numpy. Files of --random (for instance a ResNet-50 of `gen_models.py`) are calibrated on four random inputs, which is
enough for counts and speed. "before" is the same file without the MaxPools that qwb puts in front of 1x1 convolutions with strides. Models take turns
in every run; the smallest time counts. Integers: `qwb verify --against` recomputes every step from what OpenVINO recorded.
"""
import argparse, glob, json, logging, os, shutil, sys, time
import numpy as np, nncf, onnx, openvino as ov
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "evidence"))
from networks import Network, Workplace, table

ap = argparse.ArgumentParser()
ap.add_argument("qwb"); ap.add_argument("data"); ap.add_argument("--work"); ap.add_argument("--only", default="mobilenet_v1,resnet8,resnet_large")
ap.add_argument("--random", nargs="*", default=[]); ap.add_argument("--runs", type=int, default=30); ap.add_argument("--threads", type=int, default=2)
a = ap.parse_args()
place, core = Workplace(a.qwb, a.data, a.work), ov.Core()
logging.getLogger("nncf").setLevel(logging.ERROR)
CONFIG = {"INFERENCE_NUM_THREADS": a.threads, "INFERENCE_PRECISION_HINT": "f32"}


def compiled(model, x):
    if isinstance(model, str): model = core.read_model(model)
    if model.is_dynamic(): model.reshape(list(x.shape))
    return core.compile_model(model, "CPU", CONFIG)


def convolutions(c):
    ops = [o.get_rt_info() for o in c.get_runtime_model().get_ordered_ops()]
    list_ = [i["runtimePrecision"].astype(str) for i in ops if i["layerType"].astype(str) == "Convolution"]
    return f"{sum(p in ('i8', 'u8') for p in list_)} of {len(list_)}"


def without(file):
    """The file with the strides back in the convolutions, and how many MaxPools that took away."""
    m = onnx.load(file)
    by = {o: n for n in m.graph.node for o in n.output}
    gone = []
    for n in m.graph.node:
        if n.op_type != "Conv": continue
        chain, v = [], n.input[0]
        for op in ("DequantizeLinear", "QuantizeLinear", "MaxPool"):
            p = by.get(v)
            if p is None or p.op_type != op: break
            chain.append(p); v = p.input[0]
        if len(chain) < 3 or not chain[2].output[0].endswith("_subsampled_MaxPool"): continue
        strides = next(x.ints for x in chain[2].attribute if x.name == "strides")
        n.input[0] = v
        next(x for x in n.attribute if x.name == "strides").ints[:] = strides
        gone += [c for c in chain if c not in gone]
    for c in gone: m.graph.node.remove(c)
    onnx.save(m, place.path("without.onnx"))
    return place.path("without.onnx"), len(gone) // 3


def against(file, x, plan, profile):
    """Records what QuantizeLinear gives in OpenVINO; qwb computes every step again from it."""
    m = onnx.load(file)
    known = {v.name: v for v in onnx.shape_inference.infer_shapes(m).graph.value_info}
    constants, have = {c.name for c in m.graph.initializer}, {o.name for o in m.graph.output}
    for n in m.graph.node:
        if n.op_type == "QuantizeLinear" and n.input[0] not in constants and n.output[0] not in have: m.graph.output.append(known[n.output[0]])
    onnx.save(m, place.path("recorded.onnx"))
    c, folder = compiled(place.path("recorded.onnx"), x), place.path("record")
    shutil.rmtree(folder, ignore_errors=True); os.makedirs(folder)
    names, results = [c.inputs[0].get_any_name()], [x]
    for o, v in c(x).items():
        for name in sorted(o.get_names() & (known.keys() | have)): names.append(name); results.append(v)
    for k, v in enumerate(results): np.save(os.path.join(folder, f"{k}.npy"), v)
    with open(os.path.join(folder, "names.json"), "w") as f: json.dump(dict(enumerate(names)), f)
    return place.json("verify", plan, "--against", folder, "--profile", profile, ok=(0, 3))


def networks():
    yield from place.networks(a.only)
    for f in a.random: yield os.path.basename(f)[:-5] + " (random weights)", Network(os.path.abspath(f), "synthetic:4", "synthetic:4")


rows = []
for name, n in networks():
    plan, file = name.split()[0] + ".plan.json", place.path(name.split()[0] + ".ov.onnx")
    if os.path.exists(place.path(plan)): os.remove(place.path(plan))
    place.json("calibrate", n.model, "--data", n.calibration, "--preprocess", n.preprocess, "--samples", n.samples or 50, "--platform", "openvino_int8", "-o", plan)
    v = place.json("export", plan, "--platform", "openvino_int8", "-o", file)["verification"]
    x = np.load(place.inputs("x", n, 1)[0])
    g = against(file, x, plan, v["profile"])
    shutil.rmtree(place.path("cal"), ignore_errors=True)
    place.call("preprocess", n.model, "--data", n.calibration, "--preprocess", n.preprocess, "--samples", 20, "--dump", "cal")
    peer = nncf.quantize(core.read_model(n.model), nncf.Dataset([np.load(f) for f in sorted(glob.glob(place.path("cal/*.npy")))]), subset_size=20)
    old, pools = without(file)
    models = [compiled(m, x) for m in (file, old, peer)]
    best = [float("inf")] * 3
    for _ in range(a.runs):
        for k, c in enumerate(models):
            start = time.perf_counter(); c(x); best[k] = min(best[k], time.perf_counter() - start)
    rows.append([name, pools, *(f"{convolutions(c)}, {t * 1e3:.2f} ms" for c, t in zip(models, best)), f"{g['integers_compared']:,}", g["integers_different"], g["ties"]])
    print(rows[-1], file=sys.stderr, flush=True)

print(f"OpenVINO {ov.__version__}, NNCF {nncf.__version__}, {a.threads} threads; convolutions on integers, and latency\n")
table(["network", "MaxPools", "qwb", "before", "NNCF", "integers compared", "different", "ties"], rows)
