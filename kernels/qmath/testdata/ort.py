#!/usr/bin/env python3
"""Writes ort.json.gz: what ONNX Runtime's QLinear operators answer, what it answers where Q/DQ is not fused, and what the ONNX
reference evaluator answers. Needs onnxruntime, onnx, numpy and an x64 processor with
AVX2 and FMA, better with VNNI (without it, products of u8 and s8 saturate in QLinearConv and QLinearMatMul)."""
import numpy as np, onnx, onnxruntime as ort
from onnx import TensorProto as T, helper as h
from onnx.reference import ReferenceEvaluator
from oracle import codes, encode, scale, write

rng = np.random.default_rng(7)
f32 = np.float32
cases = []


def run(op, inputs, constants, inputs_order, attributes={}, domain="com.microsoft", out=None, reference=False):
    """Runs one operator; constants are (name, array), inputs likewise, both by name in inputs_order."""
    types = {np.dtype(np.uint8): T.UINT8, np.dtype(np.int8): T.INT8, np.dtype(f32): T.FLOAT, np.dtype(np.int32): T.INT32}
    values = [h.make_tensor_value_info(n, types[a.dtype], a.shape) for n, a in inputs.items()]
    initializers = [h.make_tensor(n, types[np.asarray(a).dtype], np.asarray(a).shape, np.asarray(a).flatten().tolist()) for n, a in constants.items()]
    node = h.make_node(op, inputs_order, ["y"], domain=domain, **attributes)
    graph = h.make_graph([node], "g", values, [h.make_tensor_value_info("y", out, None)], initializers)
    model = h.make_model(graph, opset_imports=[h.make_opsetid("", 13), h.make_opsetid("com.microsoft", 1)], ir_version=8)
    if reference:
        return ReferenceEvaluator(model).run(None, inputs)[0]
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, inputs)[0]


def kind(signed):
    return (np.int8, T.INT8, -128) if signed else (np.uint8, T.UINT8, 0)


def point(signed):
    return int(rng.integers(0, 256)) + (-128 if signed else 0)


def binary(op, signed, n, sa, sb, sy, na=None, nb=None):
    t, out, _ = kind(signed)
    za, zb, zy = point(signed), point(signed), point(signed)
    seed = int(rng.integers(1, 1 << 30))
    a, b = codes(seed, na or n, signed), codes(seed + 1, nb or n, signed)
    y = run(op, {"a": a, "b": b}, {"sa": f32(sa), "za": t(za), "sb": f32(sb), "zb": t(zb), "sy": f32(sy), "zy": t(zy)},
            ["a", "sa", "za", "b", "sb", "zb", "sy", "zy"], out=out)
    cases.append({"op": op, "signed": signed, "seed": seed, "shape": [na or n, nb or n], "scales": [sa, sb, sy], "zeros": [za, zb, zy], "y": encode(y)})


for signed in (False, True):
    for op in ("QLinearAdd", "QLinearMul"):
        for i in range(8):
            lo = -6 if op == "QLinearAdd" else -5
            binary(op, signed, 1200, scale(rng, lo, 0), scale(rng, lo, 0), scale(rng, -5, 2))
        binary(op, signed, 1200, 0.5, 0.25, 0.5 if op == "QLinearAdd" else 8.0)
        for na, nb in ((1, 256), (256, 1)):
            for i in range(6):
                binary(op, signed, 0, scale(rng, -6, 0), scale(rng, -6, 0), scale(rng, -5, 2), na, nb)

# Additions on which the order of rounding in the constant part shows: K = zy - fma(ra, za, rb*zb) against rounded products.
def fma(a, b, c):
    return (np.longdouble(a) * np.longdouble(b) + np.longdouble(c)).astype(f32)


found = 0
while found < 4:
    sa, sb, sy = scale(rng, -6, 0), scale(rng, -6, 0), scale(rng, -5, 2)
    here = rng.bit_generator.state
    za, zb, zy, seed = point(False), point(False), point(False), int(rng.integers(1, 1 << 30))
    ra, rb = f32(sa) / f32(sy), f32(sb) / f32(sy)
    a, b = codes(seed, 300, False).astype(f32), codes(seed + 1, 300, False).astype(f32)
    fused, plain = f32(zy) - fma(ra, f32(za), rb * f32(zb)), f32(zy) - (ra * f32(za) + rb * f32(zb))
    if fused == plain:
        continue
    q = [np.clip(np.rint(fma(a, ra, fma(b, rb, k))), 0, 255) for k in (fused, plain)]
    if (q[0] != q[1]).any():
        rng.bit_generator.state = here
        binary("QLinearAdd", False, 300, sa, sb, sy)
        found += 1

# Tables: all 256 bytes.
every = np.arange(256, dtype=np.uint8)
for signed in (False, True):
    t, out, _ = kind(signed)
    for op in ("QLinearSigmoid", "QLinearLeakyRelu", "QLinearConcat"):
        for i in range(8):
            sx = scale(rng, -7, -1)
            sy = {"QLinearSigmoid": scale(rng, -9, -7), "QLinearLeakyRelu": sx * float(rng.uniform(0.3, 1.5)), "QLinearConcat": sx * float(rng.uniform(0.3, 3))}[op]
            if i == 0 and op == "QLinearSigmoid":
                sy = 1 / 256
            sx, sy, alpha = float(f32(sx)), float(f32(sy)), float(f32(rng.uniform(0.01, 0.4)))
            zx, zy = point(signed), point(signed)
            x = every.view(np.int8) if signed else every
            names = ["x", "sx", "zx", "sy", "zy"] if op != "QLinearConcat" else ["sy", "zy", "x", "sx", "zx"]
            attributes = {"QLinearSigmoid": {}, "QLinearLeakyRelu": {"alpha": alpha}, "QLinearConcat": {"axis": 0}}[op]
            y = run(op, {"x": x}, {"sx": f32(sx), "zx": t(zx), "sy": f32(sy), "zy": t(zy)}, names, attributes, out=out)
            cases.append({"op": op, "signed": signed, "seed": 0, "shape": [256], "scales": [sx, sy], "zeros": [zx, zy], "alpha": alpha, "y": encode(y)})

# Average pools: [1, channels, height, width].
for signed in (False, True):
    t, out, _ = kind(signed)
    for i in range(8):
        c, hh, w = 5, int(rng.integers(1, 12)), int(rng.integers(1, 12))
        sx, zx, zy = scale(rng, -6, 0), point(signed), point(signed)
        sy = float(f32(sx * rng.uniform(0.3, 1.5)))
        seed = int(rng.integers(1, 1 << 30))
        x = codes(seed, c * hh * w, signed).reshape(1, c, hh, w)
        y = run("QLinearGlobalAveragePool", {"x": x}, {"sx": f32(sx), "zx": t(zx), "sy": f32(sy), "zy": t(zy)}, ["x", "sx", "zx", "sy", "zy"], {"channels_last": 0}, out=out)
        cases.append({"op": "QLinearGlobalAveragePool", "signed": signed, "seed": seed, "shape": [c, hh, w], "scales": [sx, sy], "zeros": [zx, zy], "y": encode(y)})
        c, hh, w, k, p, pad = 3, 9, 8, int(rng.integers(2, 4)), int(rng.integers(0, 2)), int(rng.integers(0, 2))
        x = codes(seed, c * hh * w, signed).reshape(1, c, hh, w)
        y = run("QLinearAveragePool", {"x": x}, {"sx": f32(sx), "zx": t(zx), "sy": f32(sy), "zy": t(zy)}, ["x", "sx", "zx", "sy", "zy"],
                {"kernel_shape": [k, k], "pads": [p, p, p, p], "strides": [1, 2], "count_include_pad": pad}, out=out)
        cases.append({"op": "QLinearAveragePool", "signed": signed, "seed": seed, "shape": [c, hh, w, y.shape[2], y.shape[3], k, p, pad], "scales": [sx, sy], "zeros": [zx, zy], "y": encode(y)})

# Softmax over the last axis of [rows, n].
for signed in (False, True):
    t, out, low = kind(signed)
    for i in range(10):
        rows, n = 20, [2, 5, 10, 100, 300][i % 5]
        sx = scale(rng, -7, -1)
        sy, zy = (1 / 256, low) if i < 5 else (scale(rng, -9, -7), low + int(rng.integers(0, 30)))
        sy = max(sy, float(f32(1 / (140 * n))))  # below, the runtime overflows float32
        seed = int(rng.integers(1, 1 << 30))
        x = codes(seed, rows * n, signed).reshape(rows, n)
        y = run("QLinearSoftmax", {"x": x}, {"sx": f32(sx), "zx": t(0), "sy": f32(sy), "zy": t(zy)}, ["x", "sx", "zx", "sy", "zy"], {"axis": -1, "opset": 13}, out=out)
        cases.append({"op": "QLinearSoftmax", "signed": signed, "seed": seed, "shape": [rows, n], "scales": [sx, sy], "zeros": [0, zy], "y": encode(y)})

# Convolution 1x1 over [1, k, pixels] and matrix product: per-channel and per-tensor weights.
for i in range(10):
    signed_x, signed_w = i % 3 == 1, i % 3 != 2
    t, out, _ = kind(signed_x)
    tw, _, _ = kind(signed_w)
    k, m, pixels = int(rng.integers(3, 90)), 6, 40
    per = 1 if not signed_w else m
    sx, sw = scale(rng, -7, -3), [scale(rng, -9, -5) for _ in range(per)]
    sy = float(f32(sx * sw[0] * 127 * np.sqrt(k) / 2 * rng.uniform(0.5, 2)))
    zx, zw, zy = point(signed_x), (0 if signed_w else point(False)), point(signed_x)
    seed = int(rng.integers(1, 1 << 30))
    x, w = codes(seed, k * pixels, signed_x), codes(seed + 1, k * m, signed_w)
    bias = codes(seed + 2, m, True).astype(np.int32) * 20
    y = run("QLinearConv", {"x": x.reshape(1, k, pixels, 1)}, {"sx": f32(sx), "zx": t(zx), "w": w.reshape(m, k, 1, 1), "sw": np.array(sw, f32), "zw": np.full(per, zw, tw), "sy": f32(sy), "zy": t(zy), "b": bias},
            ["x", "sx", "zx", "w", "sw", "zw", "sy", "zy", "b"], domain="", out=out)
    cases.append({"op": "QLinearConv", "signed": signed_x, "signed_w": signed_w, "seed": seed, "shape": [k, m, pixels], "scales": [sx, sy] + sw, "zeros": [zx, zy, zw], "y": encode(y)})
    for name in ("", "reference "):
        one = {"sw": np.array(sw[:1], f32), "zw": np.full(1, zw, tw)} if not name else {"sw": f32(sw[0]), "zw": tw(zw)}
        y = run("QLinearMatMul", {"x": x.reshape(pixels, k)}, {"sx": f32(sx), "zx": t(zx), "w": w.reshape(k, m), **one, "sy": f32(sy), "zy": t(zy)},
                ["x", "sx", "zx", "w", "sw", "zw", "sy", "zy"], domain="", out=out, reference=bool(name))
        cases.append({"op": name + "QLinearMatMul", "signed": signed_x, "signed_w": signed_w, "seed": seed, "shape": [k, m, pixels], "scales": [sx, sy] + sw[:1], "zeros": [zx, zy, zw], "y": encode(y)})

# QuantizeLinear of multiples of 2^-10 up to 2, so that ties are among them.
for signed in (False, True):
    t, out, _ = kind(signed)
    for s in (1 / 64, 0.007843137718737125, 0.011764706112444401, 0.1):
        s, z = float(f32(s)), point(signed)
        x = (np.arange(-2048, 2048) / f32(1024)).astype(f32)
        y = run("QuantizeLinear", {"x": x}, {"s": f32(s), "z": t(z)}, ["x", "s", "z"], domain="", out=out)
        cases.append({"op": "QuantizeLinear", "signed": signed, "seed": 0, "shape": [4096], "scales": [s], "zeros": [z], "y": encode(y)})

# A Q/DQ convolution that is not fused. Scales of input and weights are powers of two, so that its float sums are exact.
for i in range(6):
    k, m, pixels = int(rng.integers(3, 90)), 6, 40
    sx, sw = 2.0 ** int(rng.integers(-7, -3)), [2.0 ** int(rng.integers(-9, -5)) for _ in range(m)]
    sy, zx, zy = float(f32(sx * sw[0] * 127 * np.sqrt(k) / 2 * rng.uniform(0.5, 2))), point(False), point(False)
    if i % 2:
        sy = 2.0 ** round(np.log2(sy))  # ties
    seed = int(rng.integers(1, 1 << 30))
    x, w, bias = codes(seed, k * pixels, False), codes(seed + 1, k * m, True), codes(seed + 2, m, True).astype(np.int32) * 20
    f = lambda n, v: h.make_tensor(n, T.FLOAT, np.shape(v), np.ravel(v).tolist())
    q = lambda n, v, t: h.make_tensor(n, t, np.shape(v), np.ravel(v).tolist())
    nodes = [h.make_node("DequantizeLinear", ["x", "sx", "zx"], ["xf"]), h.make_node("DequantizeLinear", ["w", "sw", "zw"], ["wf"], axis=0),
             h.make_node("DequantizeLinear", ["b", "sb", "zb"], ["bf"], axis=0), h.make_node("Conv", ["xf", "wf", "bf"], ["yf"]), h.make_node("QuantizeLinear", ["yf", "sy", "zy"], ["y"])]
    graph = h.make_graph(nodes, "g", [h.make_tensor_value_info("x", T.UINT8, [1, k, pixels, 1])], [h.make_tensor_value_info("y", T.UINT8, None)],
                         [f("sx", f32(sx)), q("zx", np.uint8(zx), T.UINT8), q("w", w.reshape(m, k, 1, 1), T.INT8), f("sw", np.array(sw, f32)), q("zw", np.zeros(m), T.INT8),
                          q("b", bias, T.INT32), f("sb", np.array(sw, f32) * f32(sx)), q("zb", np.zeros(m), T.INT32), f("sy", f32(sy)), q("zy", np.uint8(zy), T.UINT8)])
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(h.make_model(graph, opset_imports=[h.make_opsetid("", 13)], ir_version=8).SerializeToString(), options, providers=["CPUExecutionProvider"])
    y = session.run(None, {"x": x.reshape(1, k, pixels, 1)})[0]
    cases.append({"op": "unfused QLinearConv", "signed": False, "signed_w": True, "seed": seed, "shape": [k, m, pixels], "scales": [sx, sy] + sw, "zeros": [zx, zy, 0], "y": encode(y)})

write("ort.json.gz", "onnxruntime " + ort.__version__ + ", x64 with AVX-512 VNNI", cases)
