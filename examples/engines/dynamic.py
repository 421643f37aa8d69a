#!/usr/bin/env python3
"""Scales of run time in ONNX Runtime: what its optimizer makes of qwb's file, whether the integers are the engine's, and how fast it is.

  dynamic.py QWB [--work DIR] [--runs N]

QWB is the built binary. Needs: pip install onnxruntime==1.32.0 onnx==1.23.2 numpy. Networks are made from a seed: layers of attention and two
linear layers each, without normalization. Codes and sums of every product are those that qwb writes as test vectors (export --format vectors)
of two samples, and in the engine further outputs of the same file. NSR is against the float model on 16 samples that nothing was fitted on.
Times are CPU times with one thread, files in turns, the median of the ratios of a turn."""
import argparse, json, logging, os, subprocess, tempfile, time
import numpy as np, onnx, onnxruntime as ort
from onnx import TensorProto as T, helper as h, numpy_helper as nh
from onnxruntime.quantization import QuantType, quantize_dynamic

ap = argparse.ArgumentParser()
ap.add_argument("qwb"); ap.add_argument("--work"); ap.add_argument("--runs", type=int, default=40)
a = ap.parse_args()
work = a.work or tempfile.mkdtemp()
ort.set_default_logger_severity(4)
logging.disable(logging.WARNING)


def network(file, layers, length, width, seed):
    rng, nodes, consts = np.random.default_rng(seed), [], []

    def const(name, x):
        consts.append(nh.from_array(np.asarray(x, np.float32), name))
        return name

    def linear(x, n, m, name):
        w = const(name + ".w", rng.standard_normal((n, m)) / np.sqrt(n)), const(name + ".b", rng.standard_normal(m) * 0.1)
        nodes.append(h.make_node("MatMul", [x, w[0]], [name + ".product"], name=name))
        nodes.append(h.make_node("Add", [name + ".product", w[1]], [name + ".y"], name=name + "/Add"))
        return name + ".y"

    def node(op, inputs, name, **attrs):
        nodes.append(h.make_node(op, inputs, [name + ".y"], name=name, **attrs))
        return name + ".y"

    x, scale = "x", const("scale", 1 / np.sqrt(width))
    for i in range(layers):
        p = f"layer{i}/"
        q, k, v = (linear(x, width, width, p + n) for n in "qkv")
        s = node("MatMul", [q, node("Transpose", [k], p + "turn", perm=[0, 2, 1])], p + "scores")
        s = node("Softmax", [node("Mul", [s, scale], p + "scaled")], p + "softmax", axis=-1)
        x = node("Add", [linear(node("MatMul", [s, v], p + "context"), width, width, p + "out"), x], p + "residual1")
        y = linear(node("Relu", [linear(x, width, 4 * width, p + "up")], p + "relu"), 4 * width, width, p + "down")
        x = node("Mul", [node("Add", [y, x], p + "residual2"), const(p + "half", 0.5)], p + "halved")
    info = lambda n, s: h.make_tensor_value_info(n, T.FLOAT, s)
    g = h.make_graph(nodes, "g", [info("x", [1, length, width])], [info(x, [1, length, width])], consts)
    onnx.save(h.make_model(g, opset_imports=[h.make_opsetid("", 17)], ir_version=8), file)


def session(file, optimized=None):
    o = ort.SessionOptions(); o.intra_op_num_threads = 1
    if optimized: o.optimized_model_filepath = optimized
    return ort.InferenceSession(file, o, providers=["CPUExecutionProvider"])


def qwb(*args):
    r = subprocess.run([a.qwb, *map(str, args)], cwd=work, capture_output=True, text=True)
    if r.returncode: raise SystemExit(f"qwb {' '.join(map(str, args))}: {r.stderr or r.stdout}")
    return r.stdout


def fused(file):
    session(file, os.path.join(work, "optimized.onnx"))
    ops = [n.op_type for n in onnx.load(os.path.join(work, "optimized.onnx")).graph.node]
    return {op: ops.count(op) for op in sorted(set(ops)) if "MatMul" in op or op == "Gemm"}


def compare(file, vectors):
    """Integers of every product in the engine and in qwb's program: compared, different."""
    v = json.load(open(os.path.join(vectors, "program.json")))
    m = onnx.load(file)
    products = {n.name: n for n in m.graph.node if n.op_type == "MatMulInteger"}
    wanted = []
    for s in v["steps"]:
        if s["kind"] == "run_time":
            n = products[s["nodes"][0]]
            wanted.append((n.input[0], s["outputs"][1])); wanted.append((n.output[0], s["outputs"][2]))
    names = list(dict.fromkeys(n for n, _ in wanted))
    codes = {n.output[0] for n in m.graph.node if n.op_type == "DynamicQuantizeLinear"}
    del m.graph.output[1:]
    m.graph.output.extend(h.make_tensor_value_info(n, T.UINT8 if n in codes else T.INT32, None) for n in names)
    read = lambda i: np.load(os.path.join(vectors, "tensors", f"{i}.npy"))
    got = dict(zip(names, session(m.SerializeToString()).run(names, {"x": read(v["inputs"][0])})))
    differ = [int(np.sum(got[n].reshape(-1) != read(i).reshape(-1))) for n, i in wanted]
    first = next((k for k, d in enumerate(differ) if d), None)
    return sum(got[n].size for n, _ in wanted), sum(differ), "-" if first is None else f"{wanted[first][0]} ({differ[first]} of {got[wanted[first][0]].size})"


rows = []
for name, layers, length, width in (("one layer, 64 x 64", 1, 64, 64), ("two layers, 64 x 256", 2, 64, 256), ("four layers, 128 x 384", 4, 128, 384)):
    file, data = os.path.join(work, "float.onnx"), os.path.join(work, "data")
    os.makedirs(data, exist_ok=True)
    network(file, layers, length, width, layers)
    rng = np.random.default_rng(99)
    draw = lambda: (rng.standard_normal((1, length, width)) * np.exp(rng.standard_normal() * 0.3)).astype(np.float32)
    for i in range(16): np.save(os.path.join(data, f"{i:02}.npy"), draw())
    qwb("calibrate", file, "--data", data, "--platform", "onnxruntime", "-o", "d.plan.json")
    qwb("set", "d.plan.json", "*", "activations=uint8-asym-dynamic-tensor")
    qwb("verify", "d.plan.json")
    qwb("export", "d.plan.json", "--platform", "onnxruntime", "-o", "d.onnx")
    subprocess.run(["rm", "-rf", os.path.join(work, "vectors")])
    qwb("export", "d.plan.json", "--format", "vectors", "-o", "vectors")
    own, peer = os.path.join(work, "d.onnx"), os.path.join(work, "peer.onnx")
    quantize_dynamic(file, peer, per_channel=True, weight_type=QuantType.QInt8, extra_options={"MatMulConstBOnly": False})
    files = {"float": file, "qwb": own, "peer": peer}
    runs = {k: session(f) for k, f in files.items()}
    unseen = [draw() for _ in range(16)]
    out = {k: [s.run(None, {"x": x})[0].astype(np.float64) for x in unseen] for k, s in runs.items()}
    nsr = {k: np.mean([np.sum((y - w) ** 2) / np.sum(w ** 2) for y, w in zip(out[k], out["float"])]) for k in ("qwb", "peer")}
    times = {k: [] for k in runs}
    for _ in range(a.runs):
        for k, s in runs.items():
            t = time.process_time()
            for x in unseen[:4]: s.run(None, {"x": x})
            times[k].append(time.process_time() - t)
    ratio = {k: np.median(np.array(times["qwb"]) / np.array(times[k])) for k in ("float", "peer")}
    n = sum(1 for n in onnx.load(file).graph.node if n.op_type == "MatMul")
    compared, different, where = compare(own, os.path.join(work, "vectors"))
    rows.append((name, n, ", ".join(f"{k} {v}" for k, v in fused(own).items()), f"{compared}", f"{different}", where, f"{nsr['qwb']:.2g}", f"{nsr['peer']:.2g}",
                 f"{ratio['float']:.2f}", f"{ratio['peer']:.2f}"))
print("| network | products | products of the optimized file | integers compared | different | first difference | NSR | NSR, quantize_dynamic | time by float | time by quantize_dynamic |")
print("|" + " --- |" * 10)
for r in rows: print("| " + " | ".join(map(str, r)) + " |")
