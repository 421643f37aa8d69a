#!/usr/bin/env python3
"""Runs real networks in qwb and in ONNX Runtime on the same inputs and prints, per network, how far the outputs are apart.

  compare.py QWB DATA [--work DIR] [--only NAME,...] [--samples N] [--quantize]

QWB is the built binary, DATA a folder with models/ and data/ as the tests use it (QWB_TESTDATA). With --quantize every float
network is also calibrated, analysed, verified and exported for both platforms, every Q/DQ network imported, and the exported file
is run in both. A cell says: layers analysed, verdict, noise-to-signal ratio of the exported file to the float network in ONNX
Runtime, difference between qwb and ONNX Runtime on the exported file. Needs Go for examples/inputs, and: pip install onnxruntime numpy.
"""
import argparse, glob, json, os, shutil, subprocess, sys, tempfile
import numpy as np
import onnxruntime as ort

ap = argparse.ArgumentParser()
ap.add_argument("qwb"); ap.add_argument("data"); ap.add_argument("--work"); ap.add_argument("--only", default="")
ap.add_argument("--samples", type=int, default=4, help="samples that are run in both")
ap.add_argument("--quantize", action="store_true")
a = ap.parse_args()
QWB, ROOT = os.path.abspath(a.qwb), os.path.abspath(a.data)
WORK = os.path.abspath(a.work or tempfile.mkdtemp(prefix="models-"))
REPO = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PLATFORMS = ["trt_int8", "onnxruntime"]
SPEECH = "data/speech/silero_test.wav"
MNIST = ("data/mnist/t10k-images-idx3-ubyte.gz", "none")
PETS = "data/pets/calibration"
CIFAR = ("data/cifar10/calibration_500.bin", "none")

MADE = {  # name: arguments of examples/inputs, paths below DATA
    "vad": ["vad", "-model", "models/speech/silero_vad.onnx", SPEECH],
    "mel": ["mel", SPEECH],
    "wakeword": ["wakeword", "models/mlperf-tiny/training__streaming_wakeword__calibration_samples.npz"],
    "filetype": ["filetype", "-config", "models/filetype/magika_v3_3.config.json", "data/filetype"],
    "page": ["ocr-page", "-side", "320", "data/ocr"],
    "line": ["ocr-line", "-detector", "models/ocr/ch_PP-OCRv4_det_infer.onnx", "data/ocr"],
}
BLAZE = "resize: {size: [128, 128]}\nscale: 1\nmean: 127.5\nstd: 127.5\n"
DEEPLAB = "resize: {size: [257, 257]}\nscale: 1\nmean: 127.5\nstd: 127.5\n"
ORTMN = "resize: {size: [244, 244]}\nscale: 0.00392156862745098\nmean: [0.485, 0.456, 0.406]\nstd: [0.229, 0.224, 0.225]\n"
MODELS = {  # path below models/: data (made, below DATA, or synthetic), preprocessing (a preset or YAML; None: arrays)
    "classifiers/mobilenet_v1_1.0_224.onnx": (PETS, "imagenet-inception"),
    "classifiers/mobilenetv2_0.35_catdog.onnx": (PETS, "imagenet-inception"),
    "classifiers/squeezenet1.0.onnx": (PETS, "imagenet-caffe"),
    "mnist/mnist-8.onnx": MNIST,
    "mnist/cnn_mnist_pytorch.onnx": (MNIST[0], "scale: 0.00392156862745098\nmean: [0.1307]\nstd: [0.3081]\n"),
    "vision/blazeface_front_128.onnx": ("data/cc0", BLAZE),
    "vision/deeplabv3_257_mobilenetv2.onnx": (PETS, DEEPLAB),
    "ocr/ch_PP-OCRv4_det_infer.onnx": ("page", None),
    "ocr/en_PP-OCRv4_rec.onnx": ("line", None),
    "speech/silero_vad.onnx": ("vad", None),
    "speech/silero_vad_16k_op15.onnx": ("vad", None),
    "speech/embedding_model.onnx": ("mel", None),
    "filetype/magika_v3_3.onnx": ("filetype", None),
    "mlperf-tiny/pretrainedResnet.onnx": CIFAR,
    "mlperf-tiny/pretrainedResnet_large_float.onnx": CIFAR,
    "mlperf-tiny/vww_96_float.onnx": ("synthetic:16", None),
    "mlperf-tiny/kws_dequant_fp32.onnx": ("synthetic:16", None),
    "mlperf-tiny/str_ww_dequant_fp32.onnx": ("wakeword", None),
    "mlperf-tiny/ad01_fp32.onnx": ("synthetic:16", None),
    "mlperf-tiny/pretrainedResnet_quant.qdq.onnx": CIFAR,
    "mlperf-tiny/pretrainedResnet_large_int8.qdq.onnx": CIFAR,
    "mlperf-tiny/vww_96_int8.qdq.onnx": ("synthetic:16", None),
    "mlperf-tiny/kws_ref_model.qdq.onnx": ("synthetic:16", None),
    "mlperf-tiny/str_ww_ref_model.qdq.onnx": ("wakeword", None),
    "mlperf-tiny/ad01_int8.qdq.onnx": ("synthetic:16", None),
    "quantized/mobilenet_v2_ort/mobilenet_v2_qdq.onnx": (PETS, ORTMN),
    "quantized/mobilenet_v2_tinynn_qdq.onnx": (PETS, "imagenet-inception"),
}


def qwb(*args, ok=(0,)):
    p = subprocess.run([QWB, *map(str, args)], capture_output=True, cwd=WORK, text=True)
    if p.returncode not in ok: raise RuntimeError(f"qwb {args[0]}: {p.stderr.strip().splitlines()[-1]}")
    return p


def made(name):
    """The folder of samples that examples/inputs makes, made once."""
    if not os.path.isdir(out := os.path.join(WORK, "inputs", name)):
        kind, *args = MADE[name]
        args = [x if x.startswith("-") or x.isdigit() else os.path.join(ROOT, x) for x in args]
        subprocess.run(["go", "run", "./examples/inputs", kind, "-o", out, *args], cwd=REPO, check=True, stdout=sys.stderr)
    return out


def feeds(model, files):
    """ONNX Runtime's inputs from npy or npz files."""
    for f in files:
        x = np.load(f)
        yield dict(x) if f.endswith(".npz") else {model.get_inputs()[0].name: x}


def session(path):
    so = ort.SessionOptions(); so.intra_op_num_threads = 2; so.log_severity_level = 3
    so.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL  # the file as it is written
    return ort.InferenceSession(path, so, providers=["CPUExecutionProvider"])


def outputs(s, files):
    return [s.run(None, f) for f in feeds(s, files)]


def mine(path, s, files):
    """The same outputs by qwb run. It names files after outputs; characters that file names cannot have become _."""
    clean = lambda n: "".join("_" if c in '/\\:*?"<>|' else c for c in n) + ".npy"
    for f in files:
        out = tempfile.mkdtemp(dir=WORK)
        qwb("run", path, "--input", f if f.endswith(".npz") else f"{s.get_inputs()[0].name}={f}", "--output", out)
        yield [np.load(os.path.join(out, clean(o.name))) for o in s.get_outputs()]
        shutil.rmtree(out)


def apart(a, b):
    """The largest difference of an element of any output, relative to the output's largest element in b over all samples."""
    worst = 0.0
    for x, y in zip(zip(*a), zip(*b)):  # the samples of one output
        for p, q in zip(x, y):
            if p.shape != q.shape or p.dtype != q.dtype: raise RuntimeError(f"{p.dtype}{p.shape} and {q.dtype}{q.shape}")
        largest = max(np.abs(q.astype(np.float64)).max(initial=1e-30) for q in y)
        worst = max(worst, *(np.abs(p.astype(np.float64) - q.astype(np.float64)).max(initial=0) / largest for p, q in zip(x, y)))
    return worst


def noise(a, b):
    """The noise-to-signal ratio of the worst output, mean over samples."""
    by = [[float(((p - q).astype(np.float64) ** 2).sum() / ((q.astype(np.float64) ** 2).sum() + 1e-7)) for p, q in zip(x, y)] for x, y in zip(a, b)]
    return max(np.mean(by, axis=0))


def quantized(name, path, data, pre, files, float_outputs):
    """What becomes of a model: cells of the table, by platform."""
    cells = {"nodes": len(json.loads(qwb("inspect", path, "--json").stdout)["nodes"])}
    where = ["--data", data] + (["--preprocess", pre] if pre else [])
    few = where + ["--samples", "4"]
    stem = os.path.join(WORK, name)
    if "qdq" in os.path.basename(path):
        r = json.loads(qwb("import", path, "-o", stem + ".plan.json", "--json").stdout)
        plans = {r["platform"]: stem + ".plan.json"}
    else:
        plans = {p: f"{stem}.{p}.plan.json" for p in PLATFORMS}
        for platform, plan in plans.items():
            qwb("calibrate", path, *where, "--samples", 64, "--platform", platform, "-o", plan)
    for platform, plan in plans.items():
        r = json.loads(qwb("analyze", plan, *few, "--html", plan + ".html", "--png", plan + ".png", "--json").stdout)
        v = json.loads(qwb("verify", plan, *few, "--json", ok=(0, 3)).stdout)
        exported = plan.replace(".plan.json", ".onnx")
        # An imported plan has no data of its own to be verified on.
        qwb("export", plan, "--platform", platform, "-o", exported, *([] if platform in PLATFORMS and len(plans) > 1 else ["--unverified"]))
        s = session(exported)
        theirs = outputs(s, files)
        cells[platform] = f"{len(r['layerwise'])} layers, {v['verdict']}, {noise(theirs, float_outputs):.1e}, {apart(list(mine(exported, s, files)), theirs):.1e}"
    return [cells.pop("nodes"), *[cells.pop(p, "-") for p in PLATFORMS], "; ".join(f"{p}: {c}" for p, c in cells.items()) or "-"]


rows, failed = [], False
os.makedirs(WORK, exist_ok=True)
for path, (data, pre) in MODELS.items():
    name = os.path.basename(path).removesuffix(".onnx")
    if a.only and not any(o in path for o in a.only.split(",")): continue
    path = os.path.join(ROOT, "models", path)
    row = [name]
    try:
        data = made(data) if data in MADE else data if data.startswith("synthetic") else os.path.join(ROOT, data)
        if pre and "\n" in pre:
            with open(os.path.join(WORK, name + ".yaml"), "w") as f: f.write(pre)
            pre = os.path.join(WORK, name + ".yaml")
        dump = os.path.join(WORK, "dump", name); shutil.rmtree(dump, ignore_errors=True)
        qwb("preprocess", path, "--data", data, *(["--preprocess", pre] if pre else []), "--samples", a.samples, "--dump", dump)
        files = sorted(glob.glob(dump + "/*.np[yz]"))
        s = session(path)
        theirs = outputs(s, files)
        row += [len(files), f"{apart(list(mine(path, s, files)), theirs):.1e}"]
        if a.quantize: row += quantized(name, path, data, pre, files, theirs)
    except Exception as e:
        row, failed = row + [f"FAILED: {e}"], True
    rows.append(row)
    print(*row, sep=" | ", file=sys.stderr, flush=True)

head = ["network", "samples", "qwb and ONNX Runtime"] + (["nodes", *PLATFORMS, "imported"] if a.quantize else [])
print(f"ONNX Runtime {ort.__version__}; differences relative to the largest element of an output over all samples\n")
print("| " + " | ".join(head) + " |\n|" + " --- |" * len(head))
for r in rows: print("| " + " | ".join(map(str, r)) + " |")
sys.exit(failed)
