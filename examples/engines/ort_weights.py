#!/usr/bin/env python3
"""Holds plans with quantized weights alone, and with scales of run time, to ONNX Runtime, in both ONNX forms.

  ort_weights.py QWB DATA [--work DIR] [--only NAME,...] [--choices NAME,...] [--inputs N]

QWB is the built binary, DATA a folder with models/ and data/ as the tests use it (QWB_TESTDATA). Needs: pip install onnxruntime==1.32.0
onnx==1.23.2 numpy. All operators of a network get the properties of a choice; the plan is exported as Q/DQ and in QOperator form
(MatMulNBits; DynamicQuantizeLinear). ONNX Runtime runs both files on N inputs of the evaluation data, with its optimizations and
session.qdq_matmulnbits_accuracy_level = 1, the Q/DQ file without any optimization too. NSR is the squared difference of the outputs over the
squared outputs of the reference: of ONNX Runtime's results from qwb's simulation (`qwb run --mode sim`), and of the simulation from float.
"""
import argparse, collections, os, subprocess, sys
import numpy as np, onnx, onnxruntime as ort
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "evidence"))
from networks import Workplace, table

ap = argparse.ArgumentParser()
ap.add_argument("qwb"); ap.add_argument("data"); ap.add_argument("--work"); ap.add_argument("--only", default=""); ap.add_argument("--choices", default="")
ap.add_argument("--inputs", type=int, default=2)
a = ap.parse_args()
place = Workplace(a.qwb, a.data, a.work)
CHOICES = {w: ["domain=weights", "weights=" + w] for w in ("int8-sym-channel", "int4-sym-channel", "int4-sym-g32", "uint4-asym-g32", "e4m3-sym-channel", "nf4-sym-g32")}
CHOICES |= {w: ["activations=" + w] for w in ("uint8-asym-dynamic-tensor", "int8-sym-dynamic-tensor")}
CHOICES["int8-sym-dynamic-token"] = ["activations=int8-sym-dynamic-token"]
# Rows of a matrix have tokens, and whole groups.
MATRICES = ("nf4-sym-g32", "int8-sym-dynamic-token")


def session(file, optimized=True):
    o = ort.SessionOptions()
    o.intra_op_num_threads, o.log_severity_level = 1, 4
    if not optimized: o.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    o.add_session_config_entry("session.qdq_matmulnbits_accuracy_level", "1")
    return ort.InferenceSession(file, o, providers=["CPUExecutionProvider"])


def nsr(x, y): return sum(float(((a - b) ** 2).sum()) for a, b in zip(x, y)) / max(sum(float((b.astype(np.float64) ** 2).sum()) for b in y), 1e-300)


def outputs(s, feeds): return [v.astype(np.float64) for v in s.run(None, feeds)]


def attempt(*args):
    """Runs qwb; returns "" or why it refuses."""
    p = subprocess.run([place.qwb, *map(str, args)], capture_output=True, cwd=place.work, text=True)
    return "" if p.returncode == 0 else p.stderr.strip().splitlines()[-1].split(": ", 1)[-1]


rows = []
for name, n in place.networks(a.only):
    files = place.inputs(name, n, a.inputs)
    for choice, words in CHOICES.items():
        if a.choices and choice not in a.choices.split(","): continue
        plan, q, op = f"{name}.plan.json", place.path(f"{name}.qdq.onnx"), place.path(f"{name}.qop.onnx")
        for f in (place.path(plan), q, op):
            if os.path.exists(f): os.remove(f)
        place.json("calibrate", n.model, "--data", n.calibration, "--preprocess", n.preprocess, "--samples", 16, "--platform", "onnxruntime", "-o", plan)
        if choice in MATRICES:  # what follows them is float
            place.call("set", plan, *(("*", "domain=fp32") if "domain=weights" in words else ("type:Softmax", "domain=fp32")), ok=(0, 1))
            why = [attempt("set", plan, "type:" + o, *words) for o in ("Gemm", "MatMul")]
            why = "" if "" in why else why[0]
        else:
            why = attempt("set", plan, "*", *words)
        why = why or attempt("export", plan, "--platform", "onnxruntime", "-o", q, "--unverified")
        if why:
            rows.append([name, choice, "refused: " + why, "", "", "", ""])
            print(rows[-1], file=sys.stderr, flush=True)
            continue
        made = place.call("export", plan, "--platform", "onnxruntime", "--format", "qoperator", "-o", op, "--unverified", ok=(0, 1)) is not None and os.path.exists(op)
        own = collections.Counter(o.op_type for o in onnx.load(op).graph.node if o.domain == "com.microsoft" or o.op_type.endswith("Integer")) if made else {}
        found = collections.defaultdict(list)
        for file in files:
            x = np.load(file)
            s = session(q)
            feeds = dict(x) if file.endswith(".npz") else {s.get_inputs()[0].name: x}
            plain = outputs(session(q, False), feeds)
            folder = place.path("simulated")
            place.call("run", plan, "--mode", "sim", "--input", file if file.endswith(".npz") else f"{s.get_inputs()[0].name}={file}", "-o", folder)
            simulated = [np.load(os.path.join(folder, o.name + ".npy")).astype(np.float64) for o in s.get_outputs()]
            found["plain"].append(nsr(plain, simulated)); found["optimized"].append(nsr(outputs(s, feeds), simulated))
            if made: found["qop"].append(nsr(outputs(session(op), feeds), simulated))
            found["float"].append(nsr(simulated, outputs(session(n.model), feeds)))
        rows.append([name, choice, " ".join(f"{k} {v}" for k, v in sorted(own.items())) or "-"] + [f"{max(found[k]):.2g}" if found[k] else "-" for k in ("plain", "optimized", "qop", "float")])
        print(rows[-1], file=sys.stderr, flush=True)

print(f"ONNX Runtime {ort.__version__}, {a.inputs} inputs per network; the largest NSR\n")
table(["network", "weights or activations", "operators of the QOperator file", "Q/DQ, no optimization", "Q/DQ", "QOperator", "simulation from float"], rows)
