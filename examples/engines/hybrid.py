#!/usr/bin/env python3
"""Scales of run time (`preset:dynamic_range`) in LiteRT, beside its own dynamic-range quantizer and qwb's file with scales of the plan.

  hybrid.py QWB DATA [--work DIR] [--only NAME,...]

QWB is the built binary, DATA a folder with models/ and data/ as the tests use it (QWB_TESTDATA). Needs: pip install ai-edge-litert==2.3.0
ai-edge-quantizer==0.10.0 onnx numpy pillow. Inputs of three channels are photos between -1 and 1, others normal; 16 to calibrate, 32 others to
judge. Columns: NSR of the outputs by those of the float .tflite file, CPU time of one thread by its; and, of qwb's file, what the integer program
gives on four inputs beside LiteRT's reference kernels and beside XNNPACK, the default delegate, whose rows have zero points.
"""
import argparse, glob, os, subprocess, sys, time
import numpy as np, onnx
from PIL import Image
from ai_edge_litert import interpreter as tfl
from ai_edge_quantizer import quantizer, recipe

NETWORKS = {"kws": "mlperf-tiny/kws_dequant_fp32", "ad01": "mlperf-tiny/ad01_fp32", "resnet8": "mlperf-tiny/pretrainedResnet",
            "vww": "mlperf-tiny/vww_96_float", "catdog": "classifiers/mobilenetv2_0.35_catdog",
            "mobilenet_v1": "classifiers/mobilenet_v1_1.0_224"}
ap = argparse.ArgumentParser()
ap.add_argument("qwb"); ap.add_argument("data"); ap.add_argument("--work", default="hybrid"); ap.add_argument("--only", default="")
a = ap.parse_args()


def qwb(*args):
    r = subprocess.run([a.qwb, *args], capture_output=True, text=True)
    if r.returncode:
        raise RuntimeError(" ".join(args[:2]) + ": " + r.stderr.strip().split("\n")[-1])


def run(file, samples, kernels="AUTO"):
    """Outputs in the order of the file, and seconds of CPU for a sample."""
    it = tfl.Interpreter(file, num_threads=1, experimental_op_resolver_type=getattr(tfl.OpResolverType, kernels))
    it.allocate_tensors()
    d, out, took = it.get_input_details()[0], [], []
    for x in samples:
        it.set_tensor(d["index"], np.ascontiguousarray(x if list(d["shape"]) == list(x.shape) else x.transpose(0, 2, 3, 1)))
        t = time.process_time(); it.invoke(); took.append(time.process_time() - t)
        out.append(np.concatenate([it.get_tensor(o["index"]).astype(np.float64).ravel() for o in it.get_output_details()]))
    return out, np.median(took)


def nsr(got, want):
    return sum(((g - w) ** 2).sum() for g, w in zip(got, want)) / sum((w ** 2).sum() for w in want)


def inputs(shape, folder):
    os.makedirs(folder, exist_ok=True)
    photos, r, out = sorted(glob.glob(a.data + "/data/pets/eval/*.jpg")), np.random.default_rng(1), []
    for k in range(48):
        x = r.standard_normal(shape).astype(np.float32)
        if len(shape) == 4 and 3 in (shape[1], shape[3]):
            photo = Image.open(photos[k]).convert("RGB").resize((shape[2], shape[1] if shape[3] == 3 else shape[2]))
            x = np.asarray(photo, np.float32)[None] / 127.5 - 1
            x = x if shape[3] == 3 else x.transpose(0, 3, 1, 2).copy()
        if k < 16: np.save(f"{folder}/{k:02}.npy", x)
        out.append(x)
    return out[16:]


def row(name, model):
    v = onnx.load(model).graph.input[0]
    w = f"{a.work}/{name}"
    samples = inputs([d.dim_value or 1 for d in v.type.tensor_type.shape.dim], w + "/data")
    bound = w + "/m.onnx"
    qwb("bind", model, "--float32", "-o", bound,
        *[f for d in v.type.tensor_type.shape.dim if d.dim_param for f in ("--dim", d.dim_param + "=1")])
    for kind, args in {"plan": [], "run": ["--recipe", "preset:dynamic_range"], "float": []}.items():
        plan = f"{w}/{kind}.plan.json"
        qwb("calibrate", bound, "--data", w + "/data", "--platform", "tflite_int8", "-o", plan, *args)
        if kind == "float": qwb("set", plan, "*", "domain=fp32")
        qwb("export", plan, "--platform", "tflite_int8", "-o", f"{w}/{kind}.tflite", *(["--unverified"] if kind == "float" else []))
    q = quantizer.Quantizer(w + "/float.tflite")
    q.load_quantization_recipe(recipe.dynamic_wi8_afp32())
    q.quantize().export_model(w + "/peer.tflite", overwrite=True)
    want, base = run(w + "/float.tflite", samples)
    cells = []
    for kind in ("run", "peer", "plan"):
        got, took = run(f"{w}/{kind}.tflite", samples)
        cells.append(f"{nsr(got, want):.3g}, {took / base:.2f}, {os.path.getsize(f'{w}/{kind}.tflite') / 1e6:.2f} MB")
    own = []
    for k, x in enumerate(samples[:4]):
        np.save(w + "/x.npy", x)
        qwb("run", w + "/run.plan.json", "--mode", "int8", "--input", f"{v.name}={w}/x.npy", "--output", f"{w}/out{k}")
        own.append(np.concatenate([np.load(f).astype(np.float64).ravel() for f in sorted(glob.glob(f"{w}/out{k}/*.npy"))]))
    for kernels in ("BUILTIN_REF", "AUTO"):
        cells.append(f"{nsr(own, run(w + '/run.tflite', samples[:4], kernels)[0]):.2g}")
    print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


print("| network | qwb, run time | LiteRT's quantizer | qwb, scales of the plan | program beside kernels | beside XNNPACK |\n|---|---|---|---|---|---|")
for name, model in NETWORKS.items():
    if not a.only or name in a.only.split(","):
        row(name, f"{a.data}/models/{model}.onnx")
