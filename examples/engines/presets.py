#!/usr/bin/env python3
"""16-bit and FP8 formats for a whole network: qwb's simulation beside ONNX Runtime's computation of the file.

  presets.py QWB WORK NETWORK...

WORK holds NETWORK.onnx and NETWORK/calibration, NETWORK/unseen, as networks2026.py leaves them. --recipe preset:int16 and preset:fp8 for onnxruntime. NSR of
the worst output on the unseen samples, against the float model: of the simulation, of the file as written (no optimizations) and as ONNX Runtime
optimizes it; and the NSR of the file against the simulation. Needs: pip install onnxruntime==1.32.0 numpy.
"""
import glob, os, subprocess, sys, tempfile
import numpy as np, onnxruntime as ort

qwb, work, names = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2]), sys.argv[3:]
ort.set_default_logger_severity(4)


def call(*args):
    r = subprocess.run([qwb, *args], capture_output=True, text=True, cwd=work)
    if r.returncode: raise RuntimeError(r.stderr.strip().splitlines()[-1])


def engine(file, samples, optimized=True):
    o = ort.SessionOptions(); o.intra_op_num_threads = 1
    if not optimized: o.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    s = ort.InferenceSession(file, o, providers=["CPUExecutionProvider"])
    outputs = [x.name for x in s.get_outputs()]
    return [dict(zip(outputs, s.run(None, {i.name: x[i.name] for i in s.get_inputs()}))) for x in samples]


def simulated(plan, data, outputs):
    with tempfile.TemporaryDirectory() as t:
        call("run", plan, "--mode", "sim", "--data", data, "--output", t)
        found = [np.load(f) for f in sorted(glob.glob(t + "/**/*.np[yz]", recursive=True))]
        return [dict(f) if hasattr(f, "files") else {outputs[0]: f} for f in found]


def nsr(got, want):
    each = lambda k: np.mean([np.sum((np.float64(g[k]) - w[k]) ** 2) / max(np.sum(np.float64(w[k]) ** 2), 1e-30) for g, w in zip(got, want)])
    return max(each(k) for k, v in want[0].items() if v.dtype.kind == "f" and k in got[0])


print("| network | preset | simulation | file as written | optimized | written against simulation |\n|---|---|---|---|---|---|")
for name in names:
    model, data = os.path.join(work, name + ".onnx"), os.path.join(work, name, "unseen")
    samples = [dict(np.load(f)) for f in sorted(glob.glob(data + "/*.npz"))]
    want = engine(model, samples)
    for preset in ("int16", "fp8"):
        base = os.path.join(work, f"{name}.preset.{preset}")
        try:
            call("calibrate", model, "--data", os.path.join(work, name, "calibration"), "--platform", "onnxruntime", "--recipe", "preset:" + preset, "--fresh",
                 "-o", base + ".plan.json")
            call("export", base + ".plan.json", "--platform", "onnxruntime", "--unverified", "-o", base + ".onnx")
            sim = simulated(base + ".plan.json", data, list(want[0]))
            written, optimized = (engine(base + ".onnx", samples, o) for o in (False, True))
            print(f"| {name} | {preset} | {nsr(sim, want):.2g} | {nsr(written, want):.2g} | {nsr(optimized, want):.2g} | {nsr(written, sim):.2g} |", flush=True)
        except Exception as e:
            print(f"| {name} | {preset} | {str(e)[-200:]} | | | |", flush=True)
