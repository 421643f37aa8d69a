"""Holds ONNX files that take or return integers (qwb export --inputs integers, pixels; --outputs integers) to the file of floats, in ONNX Runtime and
OpenVINO.

    pip install onnx onnxruntime openvino numpy
    python examples/engines/inputs.py QWB MODEL PICTURES PREPROCESS WORK

MODEL is calibrated for both engines with PICTURES. Random pictures and even ones of all 256 values run through the three files: outputs are
compared bit by bit, and times are of processor seconds, one thread, in turns. Codes that a file returns are made numbers by the scale of the
quantizer that gives them.
"""

import json
import os
import subprocess
import sys
import time

import numpy as np
import onnx
import onnxruntime
import openvino

QWB, MODEL, PICTURES, PREPROCESS, WORK = sys.argv[1:6]


def run(*args):
    subprocess.run([QWB, *args], check=True, capture_output=True, text=True)


def sessions(engine, file):
    if engine == "onnxruntime":
        o = onnxruntime.SessionOptions()
        o.intra_op_num_threads = 1
        s = onnxruntime.InferenceSession(file, o, providers=["CPUExecutionProvider"])
        return lambda x: s.run(None, {s.get_inputs()[0].name: x})[0]
    core = openvino.Core()
    core.set_property("CPU", {"INFERENCE_NUM_THREADS": 1, "INFERENCE_PRECISION_HINT": "f32"})
    c = core.compile_model(file, "CPU")
    return lambda x: c(x)[0].copy()


def dequantized(g):
    """Numbers of the codes of the first output, whose quantizer may stand in front of what moves them."""
    consts, v = {c.name: onnx.numpy_helper.to_array(c) for c in g.initializer}, g.output[0].name
    while True:
        n = next(n for n in g.node if v in n.output)
        if n.op_type == "QuantizeLinear": break
        v = n.input[0]
    scale, zero = consts[n.input[1]], consts[n.input[2]]
    return lambda y: (y.astype(np.int32) - zero.astype(np.int32)).astype(np.float32) * scale


def main():
    name = os.path.join(WORK, os.path.basename(MODEL))
    print("| engine | inputs | type | compared | different | time by float32 |\n| --- | --- | --- | --- | --- | --- |")
    for engine, platform in (("onnxruntime", "onnxruntime"), ("openvino", "openvino_int8")):
        plan = f"{name}.{engine}.plan.json"
        run("calibrate", MODEL, "--data", PICTURES, "--samples", "24", "--preprocess", PREPROCESS, "--platform", platform, "-o", plan)
        pre = json.load(open(plan))["preprocess"]
        f32 = lambda v: np.array(v if isinstance(v, list) else [v], np.float32)
        mean, std, scale = f32(pre.get("mean") or 0), f32(pre.get("std") or 1), np.float32(pre.get("scale") or 1)
        files, numbers = {}, {}
        for i in ("float32", "integers", "pixels", "outputs"):
            file = f"{name}.{engine}.{i}.onnx"
            r = subprocess.run([QWB, "export", plan, *(["--outputs", "integers"] if i == "outputs" else ["--inputs", i]), "-o", file], capture_output=True, text=True)
            if r.returncode: print(f"{engine}, {i}: {r.stderr.strip().splitlines()[-1]}", file=sys.stderr)
            else: files[i] = file
        if "outputs" in files: numbers["outputs"] = dequantized(onnx.load(files["outputs"]).graph)
        g = onnx.load(files["float32"]).graph
        shape = [d.dim_value or 1 for d in g.input[0].type.tensor_type.shape.dim]
        axis = 1 if shape[1] in (1, 3) else 3
        per = lambda v: v.reshape([-1] + [1] * (len(shape) - 1 - axis)) if v.size > 1 else v
        consts = {c.name: onnx.numpy_helper.to_array(c) for c in g.initializer}
        q = next(n for n in g.node if n.op_type == "QuantizeLinear")
        step, zero = consts[q.input[1]], consts[q.input[2]]
        rng = np.random.RandomState(0)
        pictures = [rng.randint(0, 256, shape).astype(np.uint8) for _ in range(8)]
        pictures += [np.resize(np.roll(np.arange(256, dtype=np.uint8), k), shape) for k in range(8)]
        feeds = []
        for p in pictures:
            x = ((p.astype(np.float32) * scale - per(mean)) / per(std)).astype(np.float32)
            info = np.iinfo(zero.dtype)
            codes = np.clip(np.rint(x / step) + zero, info.min, info.max).astype(zero.dtype)
            feeds.append({"float32": x, "integers": codes, "pixels": p, "outputs": x})
        models = {i: sessions(engine, file) for i, file in files.items()}
        seconds = {i: [] for i in files}
        outs = {i: [] for i in files}
        for f in feeds * 3:
            for i in files:
                start = time.process_time()
                y = models[i](f[i])
                seconds[i].append(time.process_time() - start)
                outs[i].append(numbers.get(i, lambda y: y)(y))
        for i in files:
            n, d = sum(y.size for y in outs[i]), sum(int((a.view(np.uint32) != b.view(np.uint32)).sum()) for a, b in zip(outs[i], outs["float32"]))
            t = np.median(seconds[i]) / np.median(seconds["float32"])
            print(f"| {engine} | {i} | {feeds[0][i].dtype} | {n} | {d} | {t:.2f} |")


main()
