#!/usr/bin/env python3
"""Measures what `qwb tune` is worth in ONNX Runtime and prints a table as Markdown.

  tuning.py QWB DATA [--work DIR] [--only NAME,...] [--platform P] [--method NAME] [--eval N]

Each network is calibrated, exported, tuned, exported again; both files run in ONNX Runtime (optimizations on and off) on the evaluation
data, and are held against the float model there. cNSR is the NSR of the tensor that Softmax reads after its mean over the classes is
taken off (plain NSR of the output where there is no Softmax), mean over samples with its standard error; "change" is the mean of the
paired differences with theirs. Needs: pip install onnxruntime onnx numpy.
"""
import argparse, glob, math
import numpy as np
import onnx
import onnxruntime as ort
from networks import Workplace, table

ap = argparse.ArgumentParser()
ap.add_argument("qwb"); ap.add_argument("data"); ap.add_argument("--work"); ap.add_argument("--only", default="")
ap.add_argument("--platform", default="onnxruntime"); ap.add_argument("--method", default="bias"); ap.add_argument("--eval", type=int, default=120)
a = ap.parse_args()
place = Workplace(a.qwb, a.data, a.work)


def scores(path):
    """The model with the tensor that its Softmax reads as the only output, that tensor's axis of classes (None: no Softmax)."""
    m = onnx.load(path)
    made = {o: n for n in m.graph.node for o in n.output}
    name, axis = m.graph.output[0].name, None
    while name in made:
        n = made[name]
        if n.op_type in ("Softmax", "LogSoftmax"):
            old = next(o.version for o in m.opset_import if o.domain in ("", "ai.onnx")) < 13  # then a row is all axes from axis on
            axis = next((x.i for x in n.attribute if x.name == "axis"), 1 if old else -1)
            if old: axis = (axis, "on")
            name = n.input[0]
            break
        if n.op_type not in ("Identity", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "DequantizeLinear", "QuantizeLinear"):
            name = m.graph.output[0].name
            break
        name = n.input[0]
    else:
        name = m.graph.output[0].name
    del m.graph.output[:]
    m.graph.output.append(onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None))
    return m.SerializeToString(), axis


def run(path, inputs, optimize=True):
    """The scores of every input, the mean over the classes taken off."""
    so = ort.SessionOptions(); so.intra_op_num_threads = 2; so.log_severity_level = 3
    so.graph_optimization_level = getattr(ort.GraphOptimizationLevel, "ORT_ENABLE_ALL" if optimize else "ORT_DISABLE_ALL")
    model, axis = scores(path)
    s = ort.InferenceSession(model, so, providers=["CPUExecutionProvider"])
    name, out = s.get_inputs()[0].name, []
    for f in inputs:
        y = s.run(None, {name: np.load(f)})[0].astype(np.float64)
        if isinstance(axis, tuple): y = y.reshape(*y.shape[:axis[0]], -1)
        out.append((y if axis is None else y - y.mean(-1 if isinstance(axis, tuple) else axis, keepdims=True)).ravel())
    return out


def nsr(q, f):
    return np.array([((x - y) ** 2).sum() / ((y ** 2).sum() + 1e-7) for x, y in zip(q, f)])


def mean(x):
    return f"{x.mean():.3g} ± {x.std(ddof=1) / math.sqrt(len(x)):.2g}"


rows = []
for name, n in place.networks(a.only):
    inputs = place.inputs(name, n, a.eval)
    plan = f"{name}.plan.json"
    place.call("calibrate", n.model, "--data", n.calibration, "--preprocess", n.preprocess, "--samples", n.samples, "--platform", a.platform, "-o", plan)
    place.call("export", plan, "--platform", a.platform, "-o", f"{name}.before.onnx")
    t = place.json("tune", plan, "--method", a.method)
    place.call("export", plan, "--platform", a.platform, "-o", f"{name}.after.onnx")
    f = run(n.model, inputs)
    before, after = (nsr(run(place.path(f"{name}.{w}.onnx"), inputs), f) for w in ("before", "after"))
    off = nsr(run(place.path(f"{name}.after.onnx"), inputs, optimize=False), f)
    d = after - before
    rows.append([name, len(inputs), mean(before), mean(after), f"{off.mean():.3g}", mean(d), f"{after.mean() / before.mean():.3f}",
                 f"{'+'.join(str(m['kept']) for m in t['methods'])} of {max(len(m['layers']) for m in t['methods'])}", f"{t['held_out']} {t['held_out_kind']}"])
    print(rows[-1], flush=True)
print(f"{a.platform}, method {a.method}: cNSR in ONNX Runtime\n")
table(["network", "samples", "before", "after", "after, unoptimized", "change", "after / before", "kept", "held out"], rows)
