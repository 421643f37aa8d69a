#!/usr/bin/env python3
"""Holds ONNX Runtime to qwb's integer programs step by step, and prints accuracy in float, simulated and in integers.

  integers.py QWB DATA [--work DIR] [--only NAME,...] [--inputs N]

QWB is the built binary, DATA a folder with models/ and data/ as the tests use it (QWB_TESTDATA). Needs: pip install onnxruntime onnx
numpy. Every network is calibrated and exported for each platform. ONNX Runtime then runs the exported file on N inputs twice: as it is
written (optimizations off, every tensor recorded: profile onnx), and optimized (only what QuantizeLinear gives is recorded, so that
fusions stay: profile ort). `qwb verify --against` computes every step again from the tensors that were recorded.
"""
import argparse, glob, json, os, shutil, subprocess, sys, tempfile
import numpy as np
import onnx, onnxruntime as ort

ap = argparse.ArgumentParser()
ap.add_argument("qwb"); ap.add_argument("data"); ap.add_argument("--work"); ap.add_argument("--only", default="")
ap.add_argument("--inputs", type=int, default=3)
a = ap.parse_args()
QWB, ROOT = os.path.abspath(a.qwb), os.path.abspath(a.data)
WORK = os.path.abspath(a.work or tempfile.mkdtemp(prefix="integers-"))
os.makedirs(WORK, exist_ok=True)

MNIST = "scale: 0.00392156862745098\nmean: [0.1307]\nstd: [0.3081]\n"
PETS = ("data/pets/calibration", "data/pets/eval", "data/pets/eval.tsv")
CIFAR = ("data/cifar10/calibration_500.bin", "data/cifar10/eval_2000.bin", "")
DIGITS = ("data/mnist/t10k-images-idx3-ubyte.gz", "data/mnist/t10k-images-idx3-ubyte.gz", "data/mnist/t10k-labels-idx1-ubyte")
TINY = "models/mlperf-tiny/"
# name: model, (calibration data, evaluation data, labels; None: there are none), label offset, preprocessing, calibration samples
NETWORKS = {
    "mobilenet_v1": ("models/classifiers/mobilenet_v1_1.0_224.onnx", PETS, 1, "imagenet-inception", 0),
    "squeezenet": ("models/classifiers/squeezenet1.0.onnx", PETS, 0, "imagenet-caffe", 0),
    "catdog": ("models/classifiers/mobilenetv2_0.35_catdog.onnx", PETS[:2] + (None,), 0, "imagenet-inception", 0),
    "resnet8": (TINY + "pretrainedResnet.onnx", CIFAR, 0, "none", 0),
    "resnet_large": (TINY + "pretrainedResnet_large_float.onnx", CIFAR, 0, "none", 0),
    "vww": (TINY + "vww_96_float.onnx", ("synthetic:32", "synthetic:32", None), 0, "none", 0),
    "kws": (TINY + "kws_dequant_fp32.onnx", ("synthetic:32", "synthetic:32", None), 0, "none", 0),
    "str_ww": (TINY + "str_ww_dequant_fp32.onnx", ("wake", "wake", None), 0, "none", 0),
    "ad01": (TINY + "ad01_fp32.onnx", ("synthetic:32", "synthetic:32", None), 0, "none", 0),
    "mnist-8": ("models/mnist/mnist-8.onnx", DIGITS, 0, "none", 200),
    "mnist-pytorch": ("models/mnist/cnn_mnist_pytorch.onnx", DIGITS, 0, "mnist.yaml", 200),
    "demo": (None, None, 0, "none", 0),
}


def qwb(*args, ok=(0,)):
    """Runs qwb with --json in WORK and returns the object."""
    p = subprocess.run([QWB, *map(str, args), "--json"], capture_output=True, cwd=WORK)
    if p.returncode not in ok: sys.exit(f"qwb {' '.join(map(str, args))}: {p.stderr.decode()[-400:]}")
    return json.loads(p.stdout)


def located(path):
    """The path of a model or of data below DATA; names of synthetic data and of what lies in WORK stay."""
    return path if not path or path.startswith("synthetic:") or path == "wake" else os.path.join(ROOT, path)


def record(model, feed, folder, optimized):
    """Runs a model in ONNX Runtime and writes its tensors: all of them, or with optimizations what QuantizeLinear gives."""
    m = onnx.load(model)
    have = {o.name for o in m.graph.output}
    known = {v.name: v for v in onnx.shape_inference.infer_shapes(m).graph.value_info}
    for n in m.graph.node:
        for o in n.output:
            if o and o not in have and (not optimized or n.op_type == "QuantizeLinear"):
                m.graph.output.append(known.get(o, onnx.ValueInfoProto(name=o))); have.add(o)
    so = ort.SessionOptions(); so.intra_op_num_threads = 2; so.log_severity_level = 3
    so.graph_optimization_level = getattr(ort.GraphOptimizationLevel, "ORT_ENABLE_ALL" if optimized else "ORT_DISABLE_ALL")
    s = ort.InferenceSession(m.SerializeToString(), so, providers=["CPUExecutionProvider"])
    names = [o.name for o in s.get_outputs()]
    shutil.rmtree(folder, ignore_errors=True); os.makedirs(folder)
    for k, v in enumerate(s.run(names, feed)): np.save(os.path.join(folder, f"{k}.npy"), v)
    with open(os.path.join(folder, "names.json"), "w") as f: json.dump(dict(enumerate(names)), f)


def feeds(file, model):
    """The inputs of one dumped sample by name."""
    data = np.load(file)
    if file.endswith(".npz"): return {k: data[k] for k in data.files}
    return {ort.InferenceSession(model, providers=["CPUExecutionProvider"]).get_inputs()[0].name: data}


def against(plan, exported, inputs, profile):
    """Sums what `qwb verify --against` says of every input."""
    total = dict(tensors=0, integers_compared=0, integers_different=0, ties=0, distance=0.0, best={})
    for file in inputs:
        folder = os.path.join(WORK, "record")
        record(exported, feeds(file, exported), folder, optimized=profile == "ort")
        r = qwb("verify", plan, "--against", folder, "--profile", profile, ok=(0, 3))
        total["tensors"] = r["tensors"]
        for k in ("integers_compared", "integers_different", "ties"): total[k] += r[k]
        total["distance"] = max([total["distance"]] + [t["distance"] for t in r["per_tensor"]])
        if r["verdict"] == "different": print(f"{plan} {profile}: {r['first']}", file=sys.stderr)
    return total


def table(head, rows):
    print("| " + " | ".join(head) + " |\n|" + " --- |" * len(head))
    for r in rows: print("| " + " | ".join(str(c) for c in r) + " |")
    print(flush=True)


with open(os.path.join(WORK, "mnist.yaml"), "w") as f: f.write(MNIST)
os.makedirs(os.path.join(WORK, "wake"), exist_ok=True)
specs = np.load(os.path.join(ROOT, TINY + "training__streaming_wakeword__calibration_samples.npz"))["specs"]  # samples, time, 1, mel bands
for i, x in enumerate(specs): np.save(os.path.join(WORK, "wake", f"{i:02}.npy"), x.transpose(2, 0, 1)[None].astype(np.float32))
steps, accuracy = [], []
for name, (model, data, offset, pre, samples) in NETWORKS.items():
    if a.only and name not in a.only.split(","): continue
    if model is None:
        subprocess.run([QWB, "demo", "-o", os.path.join(WORK, "demo")], check=True, capture_output=True)
        model, *data = (os.path.join(WORK, "demo", p) for p in ("glyphs.onnx", "data/calibration", "data/eval", "data/eval.tsv"))
    else:
        model, data = located(model), [d if d is None else located(d) for d in data]
    cal, ev, labels = data
    dump = os.path.join(WORK, name + ".inputs"); shutil.rmtree(dump, ignore_errors=True)
    subprocess.run([QWB, "preprocess", model, "--data", ev, "--preprocess", pre, "--samples", str(a.inputs), "--dump", dump],
                   check=True, capture_output=True, cwd=WORK)
    inputs = sorted(glob.glob(dump + "/*.np[yz]"))
    plan = f"{name}.plan.json"
    for platform in ("onnxruntime", "trt_int8"):
        given = ("--data", cal, "--preprocess", pre, "--samples", samples) if platform == "onnxruntime" else ()
        qwb("calibrate", model, *given, "--platform", platform, "-o", plan)
        exported = os.path.join(WORK, f"{name}.{platform}.onnx")
        v = qwb("export", plan, "--platform", platform, "-o", exported)["verification"]
        for profile in ("onnx", "ort") if platform == "onnxruntime" else ("onnx",):
            t = against(plan, exported, inputs, profile)
            steps.append([name, platform, profile, t["tensors"], f"{t['integers_compared']:,}", t["integers_different"], t["ties"], f"{t['distance']:.1e}"])
        if labels is not None:
            told = ("--data", ev, "--preprocess", pre) + (("--labels", labels, "--label-offset", offset) if labels else ())
            top = {m: qwb("eval", plan, *told, "--mode", m) for m in ("fp32", "sim", "int8")}
            accuracy.append([name, platform, v["profile"], top["fp32"]["n"]] + [top[m]["top1"] for m in ("fp32", "sim", "int8")] +
                            [f"{top['int8']['drop']:.2f} ± {top['int8']['drop_error']:.2f}"])
    print(f"{name} done", file=sys.stderr)

print(f"ONNX Runtime {ort.__version__}, {a.inputs} inputs per network\n")
print("### Steps computed again from the tensors that ONNX Runtime recorded\n")
table(["network", "platform", "profile", "tensors", "integers", "different", "ties", "largest distance of a tie (steps)"], steps)
print("### Right first answers\n")
table(["network", "platform", "profile of the integers", "samples", "float", "simulated", "integers", "drop of the integers (points)"], accuracy)
