#!/usr/bin/env python3
"""Measures qwb on trained networks next to ONNX Runtime and prints the tables as Markdown.

  evidence.py QWB DATA [--work DIR] [--only NAME,...] [--quick]

QWB is the built binary, DATA a folder with models/ and data/ as the tests use it (QWB_TESTDATA). Needs: pip install onnxruntime
numpy. Every comparison is fed from `qwb preprocess --dump`, so that both see the same numbers.
"""
import argparse, glob, json, os, shutil, subprocess, sys, tempfile, time
import numpy as np
import onnxruntime as ort

ap = argparse.ArgumentParser()
ap.add_argument("qwb"); ap.add_argument("data"); ap.add_argument("--work"); ap.add_argument("--only", default="")
ap.add_argument("--quick", action="store_true", help="one platform, default observer only")
a = ap.parse_args()
QWB, ROOT = os.path.abspath(a.qwb), os.path.abspath(a.data)
WORK = os.path.abspath(a.work or tempfile.mkdtemp(prefix="evidence-"))
OBSERVERS = ["minmax", "percentile", "kl", "mse", "auto"]
PLATFORMS = ["trt_int8", "onnxruntime"]

MNIST = "scale: 0.00392156862745098\nmean: [0.1307]\nstd: [0.3081]\n"
CASES = {  # name: model, calibration data, evaluation data, labels, label offset, preprocessing, calibration samples
    "mobilenet_v1": ("models/classifiers/mobilenet_v1_1.0_224.onnx", "data/pets/calibration", "data/pets/eval", "data/pets/eval.tsv", 1, "imagenet-inception", 0),
    "squeezenet": ("models/classifiers/squeezenet1.0.onnx", "data/pets/calibration", "data/pets/eval", "data/pets/eval.tsv", 0, "imagenet-caffe", 0),
    "resnet8": ("models/mlperf-tiny/pretrainedResnet.onnx", "data/cifar10/calibration_500.bin", "data/cifar10/eval_2000.bin", None, 0, "none", 0),
    "resnet_large": ("models/mlperf-tiny/pretrainedResnet_large_float.onnx", "data/cifar10/calibration_500.bin", "data/cifar10/eval_2000.bin", None, 0, "none", 0),
    "mnist-8": ("models/mnist/mnist-8.onnx", "data/mnist/t10k-images-idx3-ubyte.gz", "data/mnist/t10k-images-idx3-ubyte.gz", "data/mnist/t10k-labels-idx1-ubyte", 0, "none", 200),
    "mnist-pytorch": ("models/mnist/cnn_mnist_pytorch.onnx", "data/mnist/t10k-images-idx3-ubyte.gz", "data/mnist/t10k-images-idx3-ubyte.gz", "data/mnist/t10k-labels-idx1-ubyte", 0, "yaml", 200),
    "demo": (None, None, None, None, 0, "none", 0),
}


def run(*args):
    """Runs qwb with --json; returns the object, the seconds and the peak memory in MB that it states."""
    t = time.time()
    p = subprocess.run([QWB, *map(str, args), "--json"], capture_output=True, cwd=WORK)
    if p.returncode: sys.exit(f"qwb {' '.join(map(str, args))}: {p.stderr.decode()[-400:]}")
    d = json.loads(p.stdout)
    return d, time.time() - t, d.get("peak_rss_bytes", 0) / 2**20


def answers(model, inputs, optimize=True):
    """ONNX Runtime's class for every dumped input. Without optimizations a Q/DQ model is computed as it is written."""
    so = ort.SessionOptions(); so.intra_op_num_threads = 2; so.log_severity_level = 3
    so.graph_optimization_level = getattr(ort.GraphOptimizationLevel, "ORT_ENABLE_ALL" if optimize else "ORT_DISABLE_ALL")
    s = ort.InferenceSession(model, so, providers=["CPUExecutionProvider"])
    name = s.get_inputs()[0].name
    return [int(np.argmax(s.run(None, {name: np.load(f)})[0].reshape(-1))) for f in inputs]


def table(head, rows):
    print("| " + " | ".join(head) + " |\n|" + " --- |" * len(head))
    for r in rows: print("| " + " | ".join(str(c) for c in r) + " |")
    print(flush=True)


def column(path, i):
    """A column of what `qwb eval --answers` wrote: 1 is the label, 2 the answer."""
    return [int(line.rstrip("\n").split("\t")[i]) for line in open(path)]


accuracy, errors, costs = [], [], []
for name, (model, cal, ev, lab, offset, pre, samples) in CASES.items():
    if a.only and name not in a.only.split(","): continue
    if model is None:
        subprocess.run([QWB, "demo", "-o", os.path.join(WORK, "demo")], check=True, capture_output=True)
        model, cal, ev, lab = (os.path.join(WORK, "demo", p) for p in ("glyphs.onnx", "data/calibration", "data/eval", "data/eval.tsv"))
    else:
        model, cal, ev = (os.path.join(ROOT, p) for p in (model, cal, ev))
        lab = lab and os.path.join(ROOT, lab)
    if pre == "yaml":
        pre = os.path.join(WORK, "mnist.yaml")
        with open(pre, "w") as f: f.write(MNIST)
    where = ("--data", ev, "--preprocess", pre)
    labelled = where + (("--labels", lab, "--label-offset", offset) if lab else ())
    dump = os.path.join(WORK, name + ".inputs"); shutil.rmtree(dump, ignore_errors=True)
    subprocess.run([QWB, "preprocess", model, *where, "--dump", dump], check=True, capture_output=True)
    inputs = sorted(glob.glob(dump + "/*.npy"))
    f, _, _ = run("eval", model, *labelled, "--answers", name + ".fp32.tsv")
    truth, mine = (column(f"{WORK}/{name}.fp32.tsv", i) for i in (1, 2))
    other = answers(model, inputs)
    floats = (f["top1"], sum(o == t for o, t in zip(other, truth)), sum(o != m for o, m in zip(other, mine)))
    plan, first = f"{name}.plan.json", True
    for platform in PLATFORMS[:1] if a.quick else PLATFORMS:
        nsr = {}
        for o in [None] if a.quick else [None] + OBSERVERS:
            more = () if o is None else ("--observer", o)
            data = ("--data", cal, "--preprocess", pre, "--samples", samples) if first else ()
            c, seconds, rss = run("calibrate", model, *data, "--platform", platform, *more, "-o", plan)
            if first: costs.append([name, c["samples"], f"{seconds:.2f}", f"{c['forward_seconds']:.2f}", f"{rss:.0f}"])
            first = False
            r, _, _ = run("analyze", plan, "--graphwise", "--html", "r.html")
            if o: nsr[o] = max(out["nsr"] for out in r["outputs"])
            if o is None:
                s, _, _ = run("eval", plan, *labelled, "--mode", "sim", "--answers", name + ".sim.tsv")
                exported = os.path.join(WORK, f"{name}.{platform}.onnx")
                run("export", plan, "--platform", platform, "-o", exported)
                deployed, literal = answers(exported, inputs), answers(exported, inputs, optimize=False)
                sim = column(f"{WORK}/{name}.sim.tsv", 2)
                accuracy.append([name, platform, s["n"], floats[0], floats[1], floats[2], s["top1"], f"{s['drop']:.2f} ± {s['drop_error']:.2f}", s["flips"],
                                 sum(d == t for d, t in zip(literal, truth)), sum(d != m for d, m in zip(literal, sim)), sum(d == t for d, t in zip(deployed, truth)), sum(d != m for d, m in zip(deployed, sim))])
                if platform == PLATFORMS[0]:
                    l, seconds, rss = run("analyze", plan, "--layerwise", "--samples", 8, "--html", "r.html")
                    costs[-1] += [len(l["layerwise"]), f"{l['forwards']:.1f}", 1 + len(l["layerwise"]), f"{l['seconds']:.2f}", f"{rss:.0f}"]
        if nsr: errors.append([name, platform] + [f"{nsr[o]:.2e}" for o in OBSERVERS])
    print(f"{name} done", file=sys.stderr)

print(f"ONNX Runtime {ort.__version__}, {os.cpu_count()} cores\n")
print("### Accuracy: right first answers, default observer\n")
table(["network", "platform", "samples", "float qwb", "float ONNX Runtime", "answers apart", "simulated INT8", "drop (points)", "answers changed",
       "exported file in ONNX Runtime, as written", "apart from simulation", "optimized", "apart from simulation"], accuracy)
if errors:
    print("### Noise-to-signal ratio at the output, per observer\n")
    table(["network", "platform"] + OBSERVERS, errors)
print("### Cost\n")
table(["network", "calibration samples", "calibrate s", "of it on data s", "peak MB", "layers", "forwards per sample", "naive forwards", "layerwise s (8 samples)", "peak MB"], costs)
