"""Run qwb's files for TensorRT, and files with fp16 and bf16 operators, in ONNX Runtime and OpenVINO, and compare with qwb's simulation.

    pip install onnxruntime==1.32.0 openvino==2026.4.1 onnx==1.23.0 numpy
    python trt.py QWB TESTDATA [NETWORK ...]

No TensorRT: this holds that the graphs are what qwb simulated, not what TensorRT's kernels compute. For every network: calibrate, export, run inputs
that were not calibrated on. Plans: trt11 (trt11_int8: int8, float operators fp16), fp16 and bf16 (trt11_int8, every operator sent to that domain), fp8
(trt_fp8, e4m3). Files: typed (tensors of the type) and rounded (--half rounded, float32 between Casts). "NSR" is the noise of the engine's
outputs to those of `qwb run --mode sim`, the largest of the samples; "of the plan" the noise of the simulation to float32, for scale; "answers" how many
have the same largest output. ONNX Runtime runs with optimizations off: with them it takes pairs of Casts away. Prints a Markdown table.
"""
import os
import sys
import tempfile

import numpy as np
import onnxruntime as ort
import openvino as ov

from short import NETWORKS, qwb

SAMPLES = 3


def run_ort(path, feeds):
    o = ort.SessionOptions()
    o.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    o.intra_op_num_threads = 1
    s = ort.InferenceSession(path, o, ["CPUExecutionProvider"])
    return [s.run(None, {s.get_inputs()[0].name: x})[0] for x in feeds]


def run_ov(path, feeds):
    core = ov.Core()
    m = core.compile_model(path, "CPU", {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1})
    return [m([x])[m.output(0)] for x in feeds]


def nsr(a, b):
    a, b = a.astype(np.float64).ravel(), b.astype(np.float64).ravel()
    return float(((a - b) ** 2).sum() / max((b ** 2).sum(), 1e-30))


def load(folder):
    return [np.load(f"{folder}/{f}") for f in sorted(os.listdir(folder)) if f.endswith(".npy")]


def network(name, spec, work):
    model, data, count, other, pre = spec
    model = f"{DATA}/models/{model}"
    path = lambda d: d if d.startswith("synthetic") else f"{DATA}/{d}"
    qwb("preprocess", model, "--data", path(other), "--samples", SAMPLES, "--seed", 3, "--preprocess", pre, "--dump", f"{work}/in")
    feeds = load(f"{work}/in")
    rows = []
    for kind, platform, domain in (("trt11", "trt11_int8", None), ("fp16", "trt11_int8", "fp16"), ("bf16", "trt11_int8", "bf16"), ("fp8", "trt_fp8", None)):
        plan = f"{work}/{kind}.plan.json"
        try:
            qwb("calibrate", model, "--data", path(data), "--samples", count, "--preprocess", pre, "--platform", platform, "-o", plan)
            if domain:
                qwb("set", plan, "*", f"domain={domain}")
            for mode in ("sim", "fp32"):
                qwb("run", plan, "--data", f"{work}/in", "--preprocess", "none", "--mode", mode, "--output", f"{work}/{kind}.{mode}")
        except RuntimeError as e:
            rows.append((name, kind, "-", "-", "-", "-", str(e)[-120:]))
            continue
        sim, real = load(f"{work}/{kind}.sim"), load(f"{work}/{kind}.fp32")
        plain = max(nsr(s, r) for s, r in zip(sim, real))
        for form in ("typed", "rounded"):
            file = f"{work}/{kind}.{form}.onnx"
            try:
                flags = [] if kind == "trt11" else ["--unverified"]
                qwb("export", plan, "--platform", platform, "--half", form, "-o", file, *flags)
                qwb("doctor", file, "--platform", platform)
            except RuntimeError as e:
                rows.append((name, kind, form, "-", "-", "-", str(e)[-120:]))
                continue
            for engine, run in ((f"ONNX Runtime {ort.__version__}", run_ort), (f"OpenVINO {ov.__version__.split('-')[0]}", run_ov)):
                try:
                    got = run(file, feeds)
                except Exception as e:
                    rows.append((name, kind, form, engine, f"{plain:.2g}", "does not open", " ".join(str(e).split())[:110]))
                    continue
                worst = max(nsr(g, s) for g, s in zip(got, sim))
                same = sum(int(np.argmax(g) == np.argmax(s)) for g, s in zip(got, sim))
                rows.append((name, kind, form, engine, f"{plain:.2g}", f"{worst:.2g}", f"{same} of {len(sim)}"))
    return rows


DATA = os.path.abspath(sys.argv[2])
print("| network | plan | file | engine | NSR of the plan | NSR to the simulation | equal answers |")
print("|---|---|---|---|---|---|---|")
for name in sys.argv[3:] or NETWORKS:
    with tempfile.TemporaryDirectory() as work:
        try:
            for row in network(name, NETWORKS[name], work):
                print("| " + " | ".join(map(str, row)) + " |", flush=True)
        except Exception as e:
            print(f"| {name} | | | | | | {str(e)[-160:]} |", flush=True)
