#!/usr/bin/env python3
"""Holds both ONNX forms of a plan to each other, and both to qwb, in ONNX Runtime.

  ort_forms.py QWB DATA [--work DIR] [--only NAME,...] [--types NAME,...] [--inputs N]

QWB is the built binary, DATA a folder with models/ and data/ as the tests use it (QWB_TESTDATA). Needs: pip install onnxruntime==1.32.0
onnx==1.23.2 numpy. Every network is calibrated for `onnxruntime`, once for each choice of types, and exported with `--format onnx` (Q/DQ)
and `--format qoperator`. ONNX Runtime runs both files, with all its optimizations, on N inputs of the evaluation data; what both files call by
one name, every tensor of integers and every output, is compared, and `qwb verify --against` computes every step of qwb's integer program again
from what ONNX Runtime recorded of the QOperator file. "integer operators" are those of the QOperator file and those that ONNX Runtime's
optimizer makes of the Q/DQ file.
"""
import argparse, json, os, shutil, sys
import numpy as np, onnx, onnxruntime as ort
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "evidence"))
from networks import Workplace, table

ap = argparse.ArgumentParser()
ap.add_argument("qwb"); ap.add_argument("data"); ap.add_argument("--work"); ap.add_argument("--only", default=""); ap.add_argument("--types", default="")
ap.add_argument("--inputs", type=int, default=3)
a = ap.parse_args()
place = Workplace(a.qwb, a.data, a.work)

# What is decided about all operators, or some, beside the platform's defaults.
TYPES = {
    "U8S8": [],
    "S8S8": [("*", "activations=int8-asym-tensor")],
    "U8U8": [("*", "weights=uint8-sym-channel")],
    "U8U8 per tensor": [("*", "weights=uint8-asym-tensor")],
    "reduced range of the first layer": [("first", "reduce_range=true")],
}


def integer(op): return op.op_type.startswith("QLinear") or op.op_type in ("QGemm", "MatMulIntegerToFloat")


def session(model, optimized=None):
    o = ort.SessionOptions()
    o.intra_op_num_threads, o.log_severity_level = 1, 3
    if optimized: o.optimized_model_filepath = optimized
    return ort.InferenceSession(model, o, providers=["CPUExecutionProvider"])


def fused(model):
    """How many operators on integers ONNX Runtime's optimizer leaves or makes."""
    session(model, place.path("optimized.onnx"))
    return sum(integer(n) for n in onnx.load(place.path("optimized.onnx")).graph.node)


def recorder(file):
    """A session of a file whose tensors of integers are outputs; floats in between are not, which would no longer be fused."""
    m = onnx.load(file)
    form = {integer(n) for n in m.graph.node}
    constants, have = {c.name for c in m.graph.initializer}, {o.name for o in m.graph.output}
    for n in m.graph.node:
        if n.op_type == "QuantizeLinear" and n.input[0] not in constants or integer(n) or n.op_type == "Clip" and True in form:
            if n.output[0] not in have: m.graph.output.append(onnx.ValueInfoProto(name=n.output[0]))
    return m.SerializeToString()


def run(s, feeds): return dict(zip([o.name for o in s.get_outputs()], s.run(None, feeds)))


def record(folder, feeds, tensors):
    shutil.rmtree(folder, ignore_errors=True); os.makedirs(folder)
    names = {}
    for k, (name, v) in enumerate({**feeds, **tensors}.items()):
        np.save(os.path.join(folder, f"{k}.npy"), v); names[k] = name
    with open(os.path.join(folder, "names.json"), "w") as f: json.dump(names, f)


rows = []
for name, n in place.networks(a.only):
    plan = f"{name}.plan.json"
    if os.path.exists(place.path(plan)): os.remove(place.path(plan))  # its decisions would stay
    place.json("calibrate", n.model, "--data", n.calibration, "--preprocess", n.preprocess, "--samples", n.samples or 50, "--platform", "onnxruntime", "-o", plan)
    shutil.copy(place.path(plan), place.path("calibrated"))
    for types, decisions in TYPES.items():
        if a.types and types not in a.types.split(","): continue
        shutil.copy(place.path("calibrated"), place.path(plan))
        for selector, words in decisions: place.json("set", plan, selector, words)
        files = {f: place.path(f"{name}.{f}.onnx") for f in ("onnx", "qoperator")}
        for f, path in files.items(): v = place.json("export", plan, "--platform", "onnxruntime", "--format", f, "-o", path)["verification"]
        own, engine = fused(files["qoperator"]), fused(files["onnx"])
        recorders = {f: recorder(path) for f, path in files.items()}
        # Where outputs in between keep ONNX Runtime from fusing the Q/DQ file, only the outputs of the file as it is can be compared.
        inside = fused(recorders["onnx"]) == engine
        s = {"qoperator": session(recorders["qoperator"]), "onnx": session(recorders["onnx"] if inside else files["onnx"])}
        compared = different = steps = wrong = 0
        for file in place.inputs(name, n, a.inputs):
            x = np.load(file)
            feeds = dict(x) if file.endswith(".npz") else {s["onnx"].get_inputs()[0].name: x}
            r = {f: run(s[f], feeds) for f in s}
            for t in r["onnx"].keys() & r["qoperator"].keys():
                x, y = r["onnx"][t], r["qoperator"][t]
                compared += x.size; different += int((x != y).sum()) if x.shape == y.shape else x.size
            record(place.path("record"), feeds, r["qoperator"])
            g = place.json("verify", plan, "--against", place.path("record"), "--profile", v["profile"], ok=(0, 3))
            steps += g["integers_compared"]; wrong += g["integers_different"]
        rows.append([name, types, f"{compared:,}" if inside else f"{compared:,} (outputs)", different, f"{steps:,}", wrong, own, engine])
        print(rows[-1], file=sys.stderr, flush=True)

print(f"ONNX Runtime {ort.__version__}, {a.inputs} inputs per network\n")
table(["network", "types", "integers and outputs in both forms", "different", "integers against qwb", "different", "integer operators, QOperator file",
       "integer operators, Q/DQ file optimized"], rows)
