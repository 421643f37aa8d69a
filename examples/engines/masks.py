#!/usr/bin/env python3
"""Attention with masks in all their forms: does an engine compute what the float network does, and do masked entries stay masked?

  masks.py QWB [--work DIR] [--only NAME,...] [--ends Softmax,ArgMax] [--platforms NAME,...] [--padded]

Needs: pip install numpy onnx==1.23.2 onnxruntime==1.32.0 openvino==2026.4.1 ai-edge-litert==2.3.0. Every network is one layer of attention over 12
positions, 2 heads of 16, with a residual; qwb calibrates it on 16 samples and exports it, the engine runs 16 others. Printed is NSR of the layer's
output (of the probabilities behind TopK; at most 0.006) and the largest sum of probabilities of a row over entries that the float network gives none
(below 1/512); in front of ArgMax the share of rows that choose otherwise than the float network, and of those that choose a masked entry (none).
--padded tries whether padded positions take part in ranges: the same samples with numbers 100 times as large there have to get the same scales.
"""
import argparse, json, os, subprocess, sys, tempfile
import numpy as np

ap = argparse.ArgumentParser()
ap.add_argument("qwb"); ap.add_argument("--work"); ap.add_argument("--only", default=""); ap.add_argument("--ends", default="Softmax,ArgMax")
ap.add_argument("--platforms", default="onnxruntime,openvino_int8,tflite_int8,trt_int8"); ap.add_argument("--padded", action="store_true")
a = ap.parse_args()
T, D, H = 12, 32, 2
VALUES = {"-inf": -np.inf, "-3.4e38": -3.4028235e38, "-1e9": -1e9, "-1e4": -1e4}
CAUSAL = np.tril(np.ones((T, T), bool))


class Net:
    def __init__(self):
        self.nodes, self.inits, self.inputs, self.rng = [], [], [("x", 1, (1, T, D))], np.random.default_rng(1)

    def const(self, x, node=False):
        from onnx import helper, numpy_helper
        name = f"c{len(self.nodes)}_{len(self.inits)}"
        t = numpy_helper.from_array(np.asarray(x), name)
        if node: self.nodes.append(helper.make_node("Constant", [], [name], value=t))
        else: self.inits.append(t)
        return name

    def op(self, kind, *inputs, out=1, **attrs):
        from onnx import helper
        names = [f"v{len(self.nodes)}_{i}" for i in range(out)]
        self.nodes.append(helper.make_node(kind, [i if isinstance(i, str) else self.const(np.float32(i)) for i in inputs], names, **attrs))
        return names[0] if out == 1 else names

    def input(self, name, kind, shape):
        self.inputs.append((name, kind, shape))
        return name


def initializer(n, s, c): return n.op("Add", s, np.where(CAUSAL, 0, c).astype(np.float32))
def constant(n, s, c): return n.op("Add", s, n.const(np.where(CAUSAL, 0, c).astype(np.float32), True))
def chosen(n, s, c): return n.op("Add", s, n.op("Where", n.const(CAUSAL), 0., c))
def where(n, s, c): return n.op("Where", n.const(CAUSAL), s, c)
def product(n, s, c): return n.op("Add", s, n.op("Mul", n.op("Sub", 1., n.input("mask", 1, (1, 1, 1, T))), c))
def fed(n, s, c): return n.op("Add", s, n.input("bias", 1, (1, 1, T, T)))
def boolean(n, s, c): return n.op("Where", n.input("keep", 9, (1, 1, 1, T)), s, c)
def largest(n, s, c): return n.op("Max", n.op("Add", s, np.where(CAUSAL, 0, c).astype(np.float32)), max(c, -3.4028235e38))
def least(n, s, c): return n.op("Min", s, np.where(CAUSAL, 3.4028235e38, c).astype(np.float32))
def clipped(n, s, c): return n.op("Clip", initializer(n, s, c), max(c, -3.4028235e38), 1e4)
def minus(n, s, c): return n.op("Sub", s, n.op("Mul", n.op("Sub", 1., n.input("mask", 1, (1, 1, 1, T))), -c))
def both(n, s, c):
    s = initializer(n, s, c)
    n.outs = [(n.op("ArgMax", s, axis=-1, keepdims=0), 7)]
    return s
def joined(n, s, c): return n.op("Concat", initializer(n, s, c), n.const(np.full((1, H, T, 1), -3, np.float32)), axis=-1)
def top(n, s, c): return n.op("TopK", initializer(n, s, c), n.const(np.array([4], np.int64)), out=2, axis=-1)[0]


FORMS = {f.__name__: f for f in (initializer, constant, chosen, where, product, fed, boolean, largest, least, clipped, minus, both, joined, top)}


def network(path, form, value, end):
    from onnx import helper, save, shape_inference
    n = Net()
    w = lambda *s: n.const((n.rng.normal(size=s) / np.sqrt(s[0])).astype(np.float32))
    split = lambda v: n.op("Transpose", n.op("Reshape", v, n.const(np.array([1, T, H, D // H], np.int64))), perm=[0, 2, 1, 3])
    q, k, v = (split(n.op("Add", n.op("MatMul", "x", w(D, D)), n.const((n.rng.normal(size=D) * .1).astype(np.float32)))) for _ in range(3))
    s = n.op("Mul", n.op("MatMul", q, n.op("Transpose", k, perm=[0, 1, 3, 2])), 1.5 / np.sqrt(D // H))
    s = FORMS[form](n, s, np.float32(VALUES[value]))
    if end == "ArgMax": outs = [(n.op("ArgMax", s, axis=-1, keepdims=0), 7)]
    else:
        p = n.op("Softmax", s, axis=-1)
        outs = [(p, 1)]
        if form == "joined": p = n.op("Slice", p, *(n.const(np.array([i], np.int64)) for i in (0, T, 3)))
        if form != "top":
            y = n.op("Reshape", n.op("Transpose", n.op("MatMul", p, v), perm=[0, 2, 1, 3]), n.const(np.array([1, T, D], np.int64)))
            outs.append((n.op("Add", n.op("MatMul", y, w(D, D)), "x"), 1))
    outs = outs[:1] + getattr(n, "outs", []) + outs[1:]
    g = helper.make_graph(n.nodes, "attention", [helper.make_tensor_value_info(*i) for i in n.inputs],
                          [helper.make_tensor_value_info(o, kind, None) for o, kind in outs], n.inits)
    save(shape_inference.infer_shapes(helper.make_model(g, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)), path)
    return [i[0] for i in n.inputs], [o for o, _ in outs]


def samples(inputs, value, first, noise=1.0):
    for i in range(first, first + 16):
        r = np.random.default_rng(i)
        kept = np.arange(T) < r.integers(T // 2, T + 1)
        z = {"x": r.normal(size=(1, T, D)).astype(np.float32)}
        if "mask" in inputs or "keep" in inputs: z["x"][:, ~kept] *= noise
        made = {"mask": np.float32(kept)[None, None, None], "keep": kept[None, None, None],
                "bias": np.where(CAUSAL & kept, 0, VALUES[value]).astype(np.float32)[None, None]}
        yield {**z, **{k: x for k, x in made.items() if k in inputs}}


def runner(platform, path):
    if platform == "openvino_int8":
        import openvino as ov
        core = runner.__dict__.setdefault("core", ov.Core())
        m = core.compile_model(path, "CPU", {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1})
        def run(z, outs):
            r = m({i: z[next(n for n in i.get_names() if n in z)] for i in m.inputs})
            by = {n: x for o, x in r.items() for n in o.get_names()}
            return [by[o] for o in outs]
    elif platform.startswith("tflite"):
        from ai_edge_litert import interpreter as tfl
        f = tfl.Interpreter(path, num_threads=1).get_signature_runner()
        def run(z, outs):
            r = f(**z)
            return [r[o] for o in outs]
    else:
        import onnxruntime as ort
        o = ort.SessionOptions(); o.log_severity_level = 4; o.intra_op_num_threads = 1
        s = ort.InferenceSession(path, o, providers=["CPUExecutionProvider"])
        def run(z, outs): return s.run(outs, z)
    return run


def quantized(folder, name, platform, data):
    plan, file = f"{name}.{platform}.plan.json", f"{name}.{platform}" + (".tflite" if platform.startswith("tflite") else ".onnx")
    for args in (["calibrate", name + ".onnx", "--data", data, "--platform", platform, "--border-cost", "0", "--fresh", "-o", plan],
                 ["export", plan, "-o", file, "--unverified"]):
        r = subprocess.run([os.path.abspath(a.qwb), *args], cwd=folder, capture_output=True, text=True)
        if r.returncode: raise RuntimeError(r.stderr.strip().splitlines()[-1])
    return os.path.join(folder, file), os.path.join(folder, plan)


def stored(folder, name, zs):
    os.makedirs(os.path.join(folder, name), exist_ok=True)
    for i, z in enumerate(zs): np.savez(os.path.join(folder, name, f"{i:02}.npz"), **z)
    return name


def measure(folder, form, value, end):
    """By platform: NSR of the output and the worst of a row, or what was refused."""
    name = f"{form}{value}{end}"
    inputs, outs = network(os.path.join(folder, name + ".onnx"), form, value, end)
    data = stored(folder, name + ".data", samples(inputs, value, 0))
    reference, tests, result = runner("float", os.path.join(folder, name + ".onnx")), list(samples(inputs, value, 100)), {}
    want = [reference(z, outs) for z in tests]
    for platform in a.platforms.split(","):
        try:
            run = runner(platform, quantized(folder, name, platform, data)[0])
            got = [run(z, outs) for z in tests]
        except Exception as e:
            result[platform] = " ".join(str(e).split())[-160:]
            continue
        if end == "ArgMax":
            allowed = lambda z: np.broadcast_to(z["mask"] > 0 if "mask" in z else z["keep"] if "keep" in z else z["bias"] == 0 if "bias" in z else CAUSAL,
                                                (1, H, T, T))
            chosen = [np.take_along_axis(allowed(z), np.int64(g[0])[..., None], -1) for g, z in zip(got, tests)]
            result[platform] = (float(np.mean([g[0] != w[0] for g, w in zip(got, want)])), float(1 - np.mean(chosen)))
        else:
            e, w = (np.stack([np.float64(y[-1]) for y in l]) for l in (got, want))
            leaked = max(float(np.where(w[0] < 1e-8, g[0], 0).sum(-1).max()) for g, w in zip(got, want))
            result[platform] = (float(np.square(e - w).sum() / np.square(w).sum()), leaked)
    return result


def padded(folder):
    """How many scales change where padded positions hold 100 times as much, with a mask as an input and with none."""
    for form in ("product", "boolean", "initializer"):
        inputs, _ = network(os.path.join(folder, form + ".onnx"), form, "-1e9", "Softmax")
        scales = []
        for noise in (1.0, 100.0):
            zs = list(samples(inputs + ["mask"], "-1e9", 0, noise))  # without a mask the same positions are as large
            plan = quantized(folder, form, "onnxruntime", stored(folder, f"{form}{noise}", [{k: z[k] for k in inputs} for z in zs]))[1]
            scales.append([s.get("scale") for n in json.load(open(plan))["nodes"] for s in n.get("slots", [])])
        print(f"{form}: {sum(x != y for x, y in zip(*scales))} of {len(scales[0])} scales change")


def main():
    folder = a.work or tempfile.mkdtemp()
    os.makedirs(folder, exist_ok=True)
    if a.padded: return padded(folder)
    platforms, rows, failed = a.platforms.split(","), [], 0
    for end in a.ends.split(","):
        for form in FORMS:
            for value in VALUES:
                if a.only and form not in a.only.split(",") or form in ("product", "minus") and value == "-inf": continue
                if end == "ArgMax" and form in ("top", "both", "joined"): continue
                r = measure(folder, form, value, end)
                cells = []
                for p in platforms:
                    x = r[p]
                    bad = isinstance(x, str) or x[1] >= 1 / 512 or end == "Softmax" and x[0] > 0.006
                    failed += bad
                    cells.append(("**" if bad else "") + (x if isinstance(x, str) else f"{x[0]:.2g}, {x[1]:.2g}") + ("**" if bad else ""))
                rows.append(f"| {form} | {value} | {end} | " + " | ".join(cells) + " |")
                print(rows[-1], flush=True)
    print(f"{len(rows)} networks, {failed} of {len(rows) * len(platforms)} files not within the bounds")


main()
