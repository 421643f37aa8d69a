#!/usr/bin/env python3
"""Networks with states, calibrated with states of zeros and with states that were rolled (--state), each file rolled on its own states in ONNX
Runtime: the error step by step.

  states.py QWB [--work DIR] [--silero MODEL.onnx WAVE.wav]

QWB is the built binary. Needs: pip install onnxruntime==1.32.0 onnx==1.23.2 numpy. Networks are made from a seed: a GRU cell of Gemm, Sigmoid,
Tanh and Mul, an LSTM cell of them, a bank of filters, a layer of attention with a cache that grows. ONNX Runtime's quantize_static is given
the same samples: with zeros, and with the states that qwb preprocess --state writes. NSR is that of an output against the float model's at the
same step, over sequences that nothing was fitted on; "last" is their last step. silero_vad is bound to 16 kHz and calibrated on the first half
of the wave; a decision is speech or not (0.5)."""
import argparse, glob, logging, os, subprocess, tempfile, wave
import numpy as np, onnx, onnxruntime as ort
from onnx import TensorProto as T, helper as h, numpy_helper as nh
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

ap = argparse.ArgumentParser()
ap.add_argument("qwb"); ap.add_argument("--work"); ap.add_argument("--silero", nargs=2)
a = ap.parse_args()
work = os.path.abspath(a.work or tempfile.mkdtemp())
ort.set_default_logger_severity(4)
logging.disable(logging.WARNING)
F, N, STEPS = 8, 16, 64


class Network:
    def __init__(self, seed):
        self.rng, self.nodes, self.consts = np.random.default_rng(seed), [], []

    def const(self, name, x, dtype=np.float32):
        self.consts.append(nh.from_array(np.asarray(x, dtype), name))
        return name

    def node(self, op, inputs, name, **attrs):
        self.nodes.append(h.make_node(op, inputs, [name], name="n_" + name, **attrs))
        return name

    def linear(self, x, n, m, name):
        w = self.const(name + "_w", self.rng.standard_normal((n, m)) / np.sqrt(n))
        return self.node("Add", [self.node("MatMul", [x, w], name + "_product"), self.const(name + "_b", self.rng.standard_normal(m) * 0.1)], name)

    def gate(self, act, x, hidden, name):
        return self.node(act, [self.node("Add", [self.linear(x, F, N, name + "x"), self.linear(hidden, N, N, name + "h")], name + "s")], name)

    def save(self, file, inputs, outputs):
        info = lambda n, s: h.make_tensor_value_info(n, T.FLOAT, s)
        g = h.make_graph(self.nodes, "g", [info(*i) for i in inputs], [info(*o) for o in outputs], self.consts)
        onnx.save(h.make_model(g, opset_imports=[h.make_opsetid("", 17)], ir_version=8), file)


def gru(file):
    n = Network(1)
    z, r = n.gate("Sigmoid", "x", "h", "z"), n.gate("Sigmoid", "x", "h", "r")
    new = n.gate("Tanh", "x", n.node("Mul", [r, "h"], "reset"), "new")
    kept = n.node("Mul", [z, "h"], "kept")
    n.node("Add", [n.node("Mul", [n.node("Sub", [n.const("one", [1]), z], "z1"), new], "taken"), kept], "h_out")
    n.linear("h_out", N, 4, "y")
    n.save(file, [("x", [1, F]), ("h", [1, N])], [("y", [1, 4]), ("h_out", [1, N])])
    return {"h": ("h_out", [1, N])}


def lstm(file):
    n = Network(2)
    i, f, o = (n.gate("Sigmoid", "x", "h", g) for g in "ifo")
    c = n.node("Add", [n.node("Mul", [f, "c"], "kept"), n.node("Mul", [i, n.gate("Tanh", "x", "h", "g")], "taken")], "c_out")
    n.node("Mul", [o, n.node("Tanh", [c], "squashed")], "h_out")
    n.linear("h_out", N, 4, "y")
    n.save(file, [("x", [1, F]), ("h", [1, N]), ("c", [1, N])], [("y", [1, 4]), ("h_out", [1, N]), ("c_out", [1, N])])
    return {"h": ("h_out", [1, N]), "c": ("c_out", [1, N])}


def filters(file):
    n = Network(3)
    back = n.const("back", np.linalg.qr(n.rng.standard_normal((N, N)))[0] * 0.95)
    n.node("Add", [n.linear("x", F, N, "in"), n.node("MatMul", ["s", back], "fed")], "s_out")
    n.linear("s_out", N, 4, "y")
    n.save(file, [("x", [1, F]), ("s", [1, N])], [("y", [1, 4]), ("s_out", [1, N])])
    return {"s": ("s_out", [1, N])}


def cache(file):
    n = Network(4)
    up = n.linear("x", F, N, "up")
    k = n.node("Concat", ["k", n.linear(up, N, N, "key")], "k_out", axis=1)
    v = n.node("Concat", ["v", n.linear(up, N, N, "value")], "v_out", axis=1)
    s = n.node("MatMul", [n.linear(up, N, N, "query"), n.node("Transpose", [k], "kt", perm=[0, 2, 1])], "scores")
    p = n.node("Softmax", [n.node("Mul", [s, n.const("scale", [1 / np.sqrt(N)])], "scaled")], "p", axis=-1)
    n.linear(n.node("Add", [n.linear(n.node("MatMul", [p, v], "context"), N, N, "out"), up], "residual"), N, 4, "y")
    n.save(file, [("x", [1, 1, F]), ("k", [1, "P", N]), ("v", [1, "P", N])], [("y", [1, 1, 4]), ("k_out", [1, "Q", N]), ("v_out", [1, "Q", N])])
    return {"k": ("k_out", [1, 0, N]), "v": ("v_out", [1, 0, N])}


def qwb(*args, cwd):
    r = subprocess.run([os.path.abspath(a.qwb), *map(str, args)], cwd=cwd, capture_output=True, text=True)
    if r.returncode: raise SystemExit(f"qwb {' '.join(map(str, args))}: {r.stderr or r.stdout}")
    return r.stdout


def rolled(file, states, first, xs):
    s = ort.InferenceSession(file, providers=["CPUExecutionProvider"])
    outs, state = [o.name for o in s.get_outputs()], {n: np.zeros(shape, np.float32) for n, (_, shape) in states.items()}
    got = []
    for x in xs:
        r = dict(zip(outs, s.run(None, {first: x, **state})))
        got.append(r[outs[0]].ravel())
        state = {n: r[o] for n, (o, _) in states.items()}
    return np.array(got)


class Reader(CalibrationDataReader):
    def __init__(self, samples): self.it = iter(samples)
    def get_next(self): return next(self.it, None)


def table(name, file, states, first, shape, fit, unseen, decide=None, in_float=None):
    cwd = os.path.dirname(file)
    flags = [w for n, (o, _) in states.items() for w in ("--state", f"{n}={o}")]
    for folder in ("fit", "zeros"): os.makedirs(os.path.join(cwd, folder), exist_ok=True)
    for i, xs in enumerate(fit):
        np.savez(os.path.join(cwd, "fit", f"{i}.npz"), **{first: xs.reshape(-1, *shape)})
        for t, x in enumerate(xs):
            zero = {n: np.zeros([max(d, 1) for d in s], np.float32) for n, (_, s) in states.items()}
            np.savez(os.path.join(cwd, "zeros", f"{i}_{t:04d}.npz"), **{first: x.reshape(shape), **zero})
    qwb("preprocess", file, "--data", "fit", *flags, "--dump", "recorded", cwd=cwd)
    files = {}
    for way, data, more in ("zeros", "zeros", []), ("rolled", "fit", flags):
        plan = f"{way}.plan.json"
        qwb("calibrate", file, "--data", data, "--platform", "onnxruntime", "--border-cost", 0, *more, "-o", plan, cwd=cwd)
        files["qwb, " + way] = os.path.join(cwd, f"qwb_{way}.onnx")
        qwb("export", plan, "-o", files["qwb, " + way], cwd=cwd)
        samples = [dict(np.load(f)) for f in sorted(glob.glob(os.path.join(cwd, "zeros" if way == "zeros" else "recorded", "*.npz")))]
        samples = [s for s in samples if all(s[n].size for n in s)]
        files["ORT, " + way] = os.path.join(cwd, f"ort_{way}.onnx")
        quantize_static(file, files["ORT, " + way], Reader(samples), quant_format=QuantFormat.QDQ, per_channel=True,
                        activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8)
    if in_float:
        files["qwb, rolled, STFT in float"] = os.path.join(cwd, "qwb_float.onnx")
        qwb("set", "rolled.plan.json", in_float, "domain=fp32", cwd=cwd)
        qwb("export", "rolled.plan.json", "-o", files["qwb, rolled, STFT in float"], cwd=cwd)
    float_ = [rolled(file, states, first, xs.reshape(-1, *shape)) for xs in unseen]
    for way in sorted(files, reverse=True):
        got = [rolled(files[way], states, first, xs.reshape(-1, *shape)) for xs in unseen]
        nsr = [((g - f) ** 2).sum(1) / ((f ** 2).sum(1) + 1e-7) for g, f in zip(got, float_)]
        at = lambda t: np.mean([e[t] for e in nsr])
        cells = [f"{at(0):.2g}", f"{at(len(nsr[0]) // 8):.2g}", f"{at(-1):.2g}", f"{np.mean(np.concatenate(nsr)):.2g}"]
        if decide is not None:
            cells.append(str(sum(int(((g > decide) != (f > decide)).sum()) for g, f in zip(got, float_))) + f" of {sum(map(len, got))}")
        else:
            cells.append("-")
        print(f"| {name} | {way} | " + " | ".join(cells) + " |", flush=True)


def folder(name):
    os.makedirs(os.path.join(work, name), exist_ok=True)
    return os.path.join(work, name)


rng = np.random.default_rng(9)
signal = lambda n: [(0.3 * np.cumsum(rng.normal(0, .3, (STEPS, F)), 0) + rng.normal(0, .5, (STEPS, F))).astype(np.float32) for _ in range(n)]
fit, unseen = signal(8), signal(16)
print("| network | file | step 1 | at an eighth | last | mean | decisions apart |\n|---|---|---|---|---|---|---|")
for make in gru, lstm, filters, cache:
    file = os.path.join(folder(make.__name__), "m.onnx")
    states = make(file)
    table(make.__name__, file, states, "x", [1, 1, F] if make is cache else [1, F], fit, unseen)
if a.silero:
    cwd = folder("silero")
    qwb("bind", os.path.abspath(a.silero[0]), "--input", "sr=16000", "--shape", "input=1,576", "--shape", "state=2,1,128", "-o", "m.onnx", cwd=cwd)
    w = wave.open(a.silero[1])
    x = np.frombuffer(w.readframes(w.getnframes()), np.int16).astype(np.float32) / 32768
    x = np.concatenate([np.zeros(64, np.float32), x])
    frames = np.array([x[i:i + 576] for i in range(0, len(x) - 575, 512)])
    half = len(frames) // 2
    table("silero_vad", os.path.join(cwd, "m.onnx"), {"state": ("stateN", [2, 1, 128])}, "input", [1, 576],
          np.array_split(frames[:half], 4), [frames[half:]], 0.5, "If_0_then_branch__Inline_0__/stft/Conv")
