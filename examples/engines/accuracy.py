#!/usr/bin/env python3
"""Accuracy on real data: the float model, qwb's simulation, qwb's integers, and the engine that runs the exported file.

  accuracy.py QWB DATA [--work DIR] [--only NETWORK,...] [--engines ENGINE,...] [--samples N]

QWB is the built binary, DATA a folder with models/ and data/ as the tests use it (QWB_TESTDATA). Needs:

  pip install onnxruntime==1.32.0 openvino==2026.4.0 ai-edge-litert==2.3.0 ncnn==1.0.20261020 numpy

Every network is calibrated and exported for each engine. The engine runs the file on the exact inputs that qwb uses, and `qwb compare` holds its
outputs, the simulated plan and the integer program against the float model, sample by sample. Scores are top-1 where the data have labels;
without them they are the share of samples on which the float model gives the same class. In
brackets the change from float in percentage points, with its paired standard error. "unlike qwb" counts the samples on
which the engine answers another class than qwb's integers. Networks without data of their own (ad01) get random inputs, and NSR instead of a score.
Prints a Markdown table.
"""
import argparse, glob, json, os, shutil, sys
import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "evidence"))
from networks import Workplace, table

NETWORKS = "mobilenet_v1,squeezenet,resnet8,resnet_large,vww,kws,str_ww,ad01"


class ONNXRuntime:
    """Q/DQ or QOperator form; the processor's kernels, all optimizations."""
    def __init__(self, file):
        import onnxruntime as ort
        o = ort.SessionOptions(); o.log_severity_level = 3
        self.session = ort.InferenceSession(file, o, providers=["CPUExecutionProvider"])
        self.name = self.session.get_inputs()[0].name

    def run(self, x): return self.session.run(None, {self.name: x})[0]


class OpenVINO:
    def __init__(self, file):
        import openvino as ov
        self.model = ov.Core().compile_model(file, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})

    def run(self, x): return self.model([x])[0]


class LiteRT:
    """As applications run it: with XNNPACK."""
    kernels = "AUTO"

    def __init__(self, file):
        from ai_edge_litert.interpreter import Interpreter, OpResolverType
        self.it = Interpreter(file, num_threads=1, experimental_op_resolver_type=OpResolverType[self.kernels])
        self.it.allocate_tensors()
        self.input, self.output = self.it.get_input_details()[0], self.it.get_output_details()[0]

    def codes(self, x, d):
        """Floats as the integers of a tensor, where it has any."""
        scale, zero = d["quantization"]
        if d["dtype"] == np.float32: return x
        q = np.trunc(x / np.float32(scale) + np.copysign(np.float32(0.5), x)) + zero
        i = np.iinfo(d["dtype"])
        return q.clip(i.min, i.max).astype(d["dtype"])

    def run(self, x):
        want = tuple(self.input["shape"])
        if x.shape != want: x = x.transpose(0, *range(2, x.ndim), 1)
        self.it.set_tensor(self.input["index"], self.codes(np.ascontiguousarray(x), self.input))
        self.it.invoke()
        y = self.it.get_tensor(self.output["index"])
        if y.dtype != np.float32:
            scale, zero = self.output["quantization"]
            y = (y.astype(np.float32) - zero) * np.float32(scale)
        return y


class LiteRTReference(LiteRT):
    """The reference kernels, which TFLite Micro has too."""
    kernels = "BUILTIN_REF"


class NCNN:
    def __init__(self, file):
        import ncnn
        self.ncnn, self.net = ncnn, ncnn.Net()
        self.net.opt.num_threads, self.net.opt.use_bf16_storage = 1, False
        if self.net.load_param(file) or self.net.load_model(file.replace(".param", ".bin")): raise RuntimeError("ncnn does not load it")

    def run(self, x):
        e = self.net.create_extractor()
        e.input(self.net.input_names()[0], self.ncnn.Mat(np.ascontiguousarray(x[0])).clone())
        code, y = e.extract(self.net.output_names()[0])
        if code: raise RuntimeError(f"ncnn: {code}")
        return np.array(y)[None]


# engine: platform, format of export, what its files end in, the arithmetic profile that is the engine's, and who runs them
ENGINES = {
    "onnxruntime": ("onnxruntime", "onnx", ".onnx", "ort", ONNXRuntime),
    "onnxruntime-qoperator": ("onnxruntime", "qoperator", ".onnx", "ort", ONNXRuntime),
    "openvino": ("openvino_int8", "onnx", ".onnx", "trt", OpenVINO),
    "litert-xnnpack": ("tflite_int8", "tflite", ".tflite", "tflite2", LiteRT),
    "litert-reference": ("tflite_int8", "tflite", ".tflite", "litert", LiteRTReference),
    "ncnn": ("ncnn_int8", "ncnn", ".param", "ncnn", NCNN),
}

ap = argparse.ArgumentParser()
ap.add_argument("qwb"); ap.add_argument("data"); ap.add_argument("--work"); ap.add_argument("--only", default=NETWORKS)
ap.add_argument("--engines", default=",".join(ENGINES)); ap.add_argument("--samples", type=int, default=500)
a = ap.parse_args()
place = Workplace(a.qwb, a.data, a.work)


def recorded(folder, answers):
    """Writes one file for each sample, as `qwb run` does."""
    shutil.rmtree(folder, ignore_errors=True); os.makedirs(folder)
    for name, y in answers: np.save(os.path.join(folder, name), np.ascontiguousarray(y, dtype=np.float32))


def row(name, n, engine):
    platform, form, ext, profile, runner = ENGINES[engine]
    plan, file = place.path(f"{name}.{platform}.plan.json"), place.path(f"{name}.{form}{ext}")
    if not os.path.exists(plan):
        place.call("calibrate", n.model, "--data", n.calibration, "--preprocess", n.preprocess, "--samples", n.samples, "--platform", platform, "-o", plan)
    place.call("export", plan, "--platform", platform, "--format", form, "-o", file)
    data = ["--data", n.evaluation, "--preprocess", n.preprocess, "--samples", a.samples]
    if not os.path.exists(place.path(f"{name}.inputs")): place.call("preprocess", n.model, *data, "--dump", place.path(f"{name}.inputs"))
    net = runner(file)
    like = None
    def answers():
        nonlocal like
        for f in sorted(glob.glob(place.path(f"{name}.inputs/*.npy"))):
            x = np.load(f)
            if like is None:
                shutil.rmtree(place.path("one"), ignore_errors=True)
                place.call("run", n.model, "--input", f"{place.json('inspect', n.model)['inputs'][0]['name']}={f}", "--output", place.path("one"))
                like = np.load(sorted(glob.glob(place.path("one/*.npy")))[0]).shape
            yield os.path.basename(f), net.run(x).reshape(like)
    ours, theirs = place.path(f"{name}.{platform}.{profile}"), place.path(f"{name}.{engine}.outputs")
    recorded(theirs, answers())
    place.call("run", plan, *data, "--mode", "int8", "--profile", profile, "--output", ours)
    labels = ["--labels", n.labels, "--label-offset", n.offset] if n.labels else []
    r = place.json("compare", plan, ours, theirs, "--float", n.model, *data, *labels, "--layers", 0)
    sim, ints, eng = r["runs"]
    pair = next(p for p in r["pairs"] if p["a"] == ours and p["b"] == theirs)
    def cell(k):
        drop = f"{k['score']:.2%} ({-k['drop']:+.2f} ± {k['drop_error'] or 0:.2f})" if k.get("score") is not None else ""
        return f"{drop} NSR {k['nsr']:.2g}".strip()
    score = "" if eng.get("float") is None else f"{eng['float']:.2%}" + (" (agreement)" if r.get("agreement") else "")
    return [name, engine, r["samples"], score, cell(sim), cell(ints), cell(eng), pair["flips"], f"{pair['apart']:.2g}"]


rows = []
for name, n in place.networks(a.only):
    for engine in a.engines.split(","):
        try:
            rows.append(row(name, n, engine))
        except (Exception, SystemExit) as e:
            rows.append([name, engine, "", "", "", "", str(e).strip().splitlines()[-1][:160], "", ""])
        print(*rows[-1], sep=" | ", file=sys.stderr, flush=True)
table(["network", "engine", "samples", "float", "simulated", "qwb integers", "engine", "unlike qwb", "outputs apart (NSR)"], rows)
