#!/usr/bin/env python3
"""Holds OpenVINO to qwb's plans for openvino_int8, and counts how much of the work runs on integers there, next to NNCF's own file.

  ov_integers.py QWB DATA [--work DIR] [--only NAME,...] [--inputs N]

QWB is the built binary, DATA a folder with models/ and data/ as the tests use it (QWB_TESTDATA). Needs: pip install openvino nncf onnx
numpy. Every network is calibrated and exported. OpenVINO then runs the exported file on N inputs with what QuantizeLinear gives as
further outputs (fusions stay), and `qwb verify --against` computes every step again from the tensors that were recorded: a step is
equal, or its exact value lies on a rounding boundary (a tie). The file itself, without further outputs, is compiled too:
get_runtime_model says in which precision every layer runs; the same is asked of the model that nncf.quantize makes of the float
network and the same samples.
"""
import argparse, glob, json, logging, math, os, shutil, sys
import numpy as np
import nncf, onnx, openvino as ov
from networks import Workplace, table

ap = argparse.ArgumentParser()
ap.add_argument("qwb"); ap.add_argument("data"); ap.add_argument("--work"); ap.add_argument("--only", default="")
ap.add_argument("--inputs", type=int, default=3)
a = ap.parse_args()
place, core = Workplace(a.qwb, a.data, a.work), ov.Core()
logging.getLogger("nncf").setLevel(logging.ERROR)
CONFIG = {"INFERENCE_NUM_THREADS": 2, "INFERENCE_PRECISION_HINT": "f32"}  # else layers that stay float run in bfloat16 where there is any


def compiled(model, x):
    """A file, or a model, compiled for inputs of the shape of x."""
    if isinstance(model, str): model = core.read_model(model)
    if model.is_dynamic(): model.reshape(list(x.shape))
    return core.compile_model(model, "CPU", CONFIG)


def share(model):
    """Of a compiled model: the share of the multiply-accumulates that read 8-bit integers, and the operators that do and do not."""
    macs, count = {True: 0, False: 0}, {True: 0, False: 0}
    for op in model.get_runtime_model().get_ordered_ops():
        kind, precision = (op.get_rt_info()[k].astype(str) for k in ("layerType", "runtimePrecision"))
        if kind not in ("Convolution", "Deconvolution", "FullyConnected", "MatMul"): continue
        x, w, y = (tuple(t.get_shape()) for t in (op.input(0), op.input(1), op.output(0)))
        if kind == "Convolution": n = math.prod(y) * math.prod(w) // y[1]
        elif kind == "Deconvolution": n = math.prod(x) * math.prod(w) // x[1]
        else: n = math.prod(y) * x[-1]
        macs[precision in ("i8", "u8")] += n; count[precision in ("i8", "u8")] += 1
    return 100 * macs[True] / max(sum(macs.values()), 1), f"{count[True]} of {sum(count.values())}"


def record(file, x, folder):
    """Runs a file in OpenVINO and writes its input, its outputs and what its QuantizeLinear give."""
    m = onnx.load(file)
    known = {v.name: v for v in onnx.shape_inference.infer_shapes(m).graph.value_info}
    constants = {c.name for c in m.graph.initializer}
    have = {o.name for o in m.graph.output}
    for n in m.graph.node:
        if n.op_type == "QuantizeLinear" and n.input[0] not in constants and n.output[0] not in have: m.graph.output.append(known[n.output[0]])
    onnx.save(m, place.path("recorded.onnx"))
    c = compiled(place.path("recorded.onnx"), x)
    shutil.rmtree(folder, ignore_errors=True); os.makedirs(folder)
    names, results = [c.inputs[0].get_any_name()], [x]
    for o, v in c(x).items():
        for name in sorted(o.get_names() & (known.keys() | have)): names.append(name); results.append(v)
    for k, v in enumerate(results): np.save(os.path.join(folder, f"{k}.npy"), v)
    with open(os.path.join(folder, "names.json"), "w") as f: json.dump(dict(enumerate(names)), f)


def by_nncf(model, files, preset):
    """The share of work of what NNCF makes of a float model, as text; there are models that it cannot quantize."""
    data = [np.load(f) for f in files]
    try: return "{:.2f} ({})".format(*share(compiled(nncf.quantize(core.read_model(model), nncf.Dataset(data), preset=preset, subset_size=len(files)), data[0])))
    except RuntimeError as e: return "fails: " + str(e).strip().splitlines()[-1]


rows = []
for name, n in place.networks(a.only):
    plan, exported = f"{name}.plan.json", place.path(f"{name}.openvino_int8.onnx")
    place.json("calibrate", n.model, "--data", n.calibration, "--preprocess", n.preprocess, "--samples", n.samples, "--platform", "openvino_int8", "-o", plan)
    v = place.json("export", plan, "--platform", "openvino_int8", "-o", exported)["verification"]
    total = dict(tensors=0, integers_compared=0, integers_different=0, ties=0)
    for file in place.inputs(name, n, a.inputs):
        record(exported, np.load(file), place.path("record"))
        r = place.json("verify", plan, "--against", place.path("record"), "--profile", v["profile"], ok=(0, 3))
        total["tensors"] = r["tensors"]
        for k in ("integers_compared", "integers_different", "ties"): total[k] += r[k]
        if r["verdict"] == "different": print(f"{name}: {r['first']}", file=sys.stderr)
    place.call("preprocess", n.model, "--data", n.calibration, "--preprocess", n.preprocess, "--samples", n.samples or 100, "--dump", name + ".calibration")
    files = sorted(glob.glob(place.path(name + ".calibration/*.npy")))
    rows.append([name, v["profile"], total["tensors"], f"{total['integers_compared']:,}", total["integers_different"], total["ties"],
                 "{:.2f} ({})".format(*share(compiled(exported, np.load(files[0])))),
                 *(by_nncf(n.model, files, p) for p in (nncf.QuantizationPreset.PERFORMANCE, nncf.QuantizationPreset.MIXED))])
    print(f"{name} done", file=sys.stderr)

print(f"OpenVINO {ov.get_version()}, {a.inputs} inputs per network; work that runs on integers in % of the multiply-accumulates (and operators)\n")
table(["network", "profile", "tensors", "integers", "different", "ties", "qwb", "NNCF", "NNCF mixed"], rows)
