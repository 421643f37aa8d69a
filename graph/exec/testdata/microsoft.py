#!/usr/bin/env python3
"""Writes microsoft.json.gz: what ONNX Runtime answers for operators of its own, and qoperator.json.gz: a small network that
onnxruntime.quantization made integers of (QuantFormat.QOperator), with every tensor that ONNX Runtime computes in it. Needs onnxruntime, onnx, numpy and an x64
processor with AVX2 and FMA, better with VNNI (without it, products of u8 and s8 saturate)."""
import base64, gzip, json, tempfile
import numpy as np, onnx, onnxruntime as ort
import onnxruntime.quantization as q
from onnx import TensorProto as T, helper as h

rng = np.random.default_rng(11)
f32 = np.float32
TYPES = {"float32": (T.FLOAT, "f32"), "uint8": (T.UINT8, "u8"), "int8": (T.INT8, "i8"), "int32": (T.INT32, "i32"), "int64": (T.INT64, "i64"),
         "uint16": (T.UINT16, "u16"), "int16": (T.INT16, "i16"), "bool": (T.BOOL, "bool")}
cases = []


def encode(a):
    return None if a is None else {"type": TYPES[a.dtype.name][1], "shape": list(a.shape), "data": base64.b64encode(a.tobytes()).decode()}


def case(op, inputs, outputs=1, domain="com.microsoft", version=17, wanted=None, **attributes):
    """Runs op; None stands for an absent input. wanted lists the outputs that are asked for."""
    inputs = [None if a is None else np.asarray(a) for a in inputs]
    names = ["" if a is None else f"i{k}" for k, a in enumerate(inputs)]
    outs = [f"o{k}" if wanted is None or k in wanted else "" for k in range(outputs)]
    node = h.make_node(op, names, outs, domain=domain, **attributes)
    graph = h.make_graph([node], "g", [h.make_tensor_value_info(n, TYPES[a.dtype.name][0], a.shape) for n, a in zip(names, inputs) if n],
                         [onnx.ValueInfoProto(name=o) for o in outs if o])
    model = h.make_model(graph, opset_imports=[h.make_opsetid("", version), h.make_opsetid("com.microsoft", 1)], ir_version=8)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    got = iter(session.run(None, {n: a for n, a in zip(names, inputs) if n}))
    cases.append({"op": op, "domain": domain, "opset": version, "attributes": attributes, "inputs": [encode(a) for a in inputs],
                  "outputs": [encode(next(got)) if o else None for o in outs]})


def codes(t, *shape):
    i = np.iinfo(t)
    return rng.integers(i.min, i.max + 1, shape).astype(t)


def normal(*shape):
    return rng.standard_normal(shape).astype(f32)


def grid(t, s):
    return [np.array(s, f32), codes(t)]


for t in (np.uint8, np.int8):
    for op, sy in (("QLinearAdd", 0.07), ("QLinearMul", 0.9)):
        case(op, [codes(t, 2, 3, 5), *grid(t, 0.03), codes(t, 3, 1), *grid(t, 0.05), *grid(t, sy)])
        case(op, [codes(t, 1), *grid(t, 0.02), codes(t, 4, 7), *grid(t, 0.04), *grid(t, sy)])
    case("QLinearSigmoid", [codes(t, 3, 50), *grid(t, 0.05), *grid(t, 1 / 256)])
    case("QLinearLeakyRelu", [codes(t, 3, 50), *grid(t, 0.05), *grid(t, 0.04)], alpha=0.2)
    for shape, axis, opset in (((3, 4, 5), 1, 13), ((3, 4, 5), 1, 12), ((2, 9), -1, 13)):
        case("QLinearSoftmax", [codes(t, *shape), *grid(t, 0.04), np.array(1 / 256, f32), np.array(np.iinfo(t).min, t)], axis=axis, opset=opset)
    case("QLinearConcat", [*grid(t, 0.06), codes(t, 2, 3, 4), *grid(t, 0.05), codes(t, 2, 1, 4), *grid(t, 0.06), codes(t, 2, 5, 4), *grid(t, 0.1)], axis=1)
    case("QLinearWhere", [rng.integers(0, 2, (4, 1)).astype(bool), codes(t, 4, 6), *grid(t, 0.05), codes(t, 6), *grid(t, 0.02), *grid(t, 0.07)])
    for kw in ({}, {"pads": [1, 1, 1, 1]}, {"pads": [1, 0, 1, 0], "count_include_pad": 1}, {"strides": [2, 2], "ceil_mode": 1}):
        case("QLinearAveragePool", [codes(t, 2, 3, 7, 6), *grid(t, 0.05), *grid(t, 0.04)], kernel_shape=[3, 2], **kw)
    case("QLinearAveragePool", [codes(t, 2, 7, 6, 3), *grid(t, 0.05), *grid(t, 0.04)], kernel_shape=[2, 2], strides=[2, 1], channels_last=1)
    case("QLinearAveragePool", [codes(t, 2, 3, 11), *grid(t, 0.05), *grid(t, 0.04)], kernel_shape=[3], pads=[1, 1])
    case("QLinearGlobalAveragePool", [codes(t, 2, 9, 5, 5), *grid(t, 0.05), *grid(t, 0.02)])
    case("QLinearGlobalAveragePool", [codes(t, 2, 5, 5, 9), *grid(t, 0.05), *grid(t, 0.02)], channels_last=1)

s = np.array(0.02, f32)
for ta, tb in ((np.uint8, np.int8), (np.uint8, np.uint8), (np.int8, np.int8)):
    bias = rng.integers(-3000, 3000, 6).astype(np.int32)
    per = (rng.random(6) * 0.02 + 0.001).astype(f32)
    case("QGemm", [codes(ta, 4, 9), *grid(ta, 0.02), codes(tb, 9, 6), *grid(tb, 0.01), bias, *grid(ta, 0.7)])
    case("QGemm", [codes(ta, 4, 9), *grid(ta, 0.02), codes(tb, 6, 9), *grid(tb, 0.01), None, *grid(ta, 0.7)], transB=1, alpha=0.5)
    case("QGemm", [codes(ta, 4, 9), *grid(ta, 0.02), codes(tb, 9, 6), per, codes(tb, 6), bias])
    case("MatMulIntegerToFloat", [codes(ta, 2, 4, 9), codes(tb, 9, 6), s, per, codes(ta), codes(tb, 6), normal(6)])
    case("MatMulIntegerToFloat", [codes(ta, 4, 9), codes(tb, 9, 6), s, np.array([0.01], f32), codes(ta), codes(tb), None])
for tb in (np.int8, np.uint8):
    case("DynamicQuantizeMatMul", [normal(3, 9), codes(tb, 9, 6), np.array([0.01], f32), codes(tb, 1), normal(6)])
    case("DynamicQuantizeMatMul", [normal(2, 3, 9), codes(tb, 9, 6), (rng.random(6) * 0.02 + 0.001).astype(f32), codes(tb, 6)])

for bits, block, k, n in ((4, 16, 40, 5), (4, 32, 64, 8), (8, 32, 64, 5), (2, 16, 48, 8)):
    blocks = -(-k // block)
    b, scales = codes(np.uint8, n, blocks, block * bits // 8), (rng.random(n * blocks) * 0.1 + 0.01).astype(f32)
    packed = codes(np.uint8, n * -(-blocks * bits // 8))
    kw = {"K": k, "N": n, "bits": bits, "block_size": block}
    case("MatMulNBits", [normal(3, k), b, scales], **kw)
    case("MatMulNBits", [normal(2, 3, k), b, scales, packed, None, normal(n)], **kw)
    if bits == 4:
        case("MatMulNBits", [normal(3, k), b, scales, (rng.random(n * blocks) * 15).astype(f32)], **kw)

x = normal(3, 4, 8) * 3
case("Gelu", [x])
case("QuickGelu", [x], alpha=1.3)
case("FastGelu", [x, normal(8)])
case("FastGelu", [x])
case("BiasGelu", [x, normal(8)])
case("FusedMatMul", [normal(2, 5, 4), normal(2, 5, 6)], transA=1, alpha=0.3)
case("FusedMatMul", [normal(2, 4, 5), normal(6, 5)], transB=1)
for act in ("Relu", "Sigmoid", "Tanh"):
    case("FusedConv", [normal(1, 4, 6, 6), normal(8, 4, 3, 3), normal(8)], activation=act, kernel_shape=[3, 3], pads=[1, 1, 1, 1])
case("FusedConv", [normal(1, 4, 6, 6), normal(8, 4, 3, 3), normal(8), normal(1, 8, 4, 4)], activation="Relu", kernel_shape=[3, 3])
case("FusedConv", [normal(1, 4, 6, 6), normal(8, 4, 1, 1)], activation="LeakyRelu", activation_params=[0.2], kernel_shape=[1, 1])
case("FusedConv", [normal(1, 4, 6, 6), normal(8, 4, 1, 1)], activation="Clip", activation_params=[-0.5, 1.5], kernel_shape=[1, 1])
case("FusedConv", [normal(1, 4, 6, 6), normal(8, 4, 1, 1)], activation="HardSigmoid", activation_params=[0.3, 0.4], kernel_shape=[1, 1])
case("FusedGemm", [normal(3, 5), normal(7, 5), normal(7)], activation="Relu", transB=1)
case("FusedGemm", [normal(3, 5), normal(5, 7), normal(7)], activation="LeakyRelu", activation_alpha=0.3)
case("SkipLayerNormalization", [normal(2, 3, 8), normal(2, 3, 8), normal(8), normal(8), normal(8)], outputs=4, wanted=(0, 3), epsilon=1e-5)
case("SkipLayerNormalization", [normal(2, 3, 8), normal(2, 3, 8), normal(8)])
case("SkipLayerNormalization", [normal(2, 3, 8), normal(3, 8), normal(8), normal(8)])
case("SkipSimplifiedLayerNormalization", [normal(2, 3, 8), normal(2, 3, 8), normal(8), normal(8)], outputs=4, wanted=(0, 3), epsilon=1e-5)
case("SimplifiedLayerNormalization", [normal(2, 3, 8), normal(8)], domain="", epsilon=1e-5)
case("LayerNormalization", [normal(2, 3, 8), normal(8), normal(8)], domain="", version=13, epsilon=1e-5)
ids, segments = rng.integers(0, 11, (2, 5)).astype(np.int32), rng.integers(0, 2, (2, 5)).astype(np.int32)
mask = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], np.int32)
tables = [normal(11, 8), normal(7, 8), normal(2, 8), normal(8), normal(8)]
case("EmbedLayerNormalization", [ids, segments, *tables, mask], outputs=3, epsilon=1e-5)
case("EmbedLayerNormalization", [ids, None, *tables[:2], None, *tables[3:]], outputs=2)
for t in (np.uint8, np.int8, np.uint16, np.int16):
    case("QuantizeLinear", [normal(3, 4) * 3, *grid(t, 0.01)])
    case("DequantizeLinear", [codes(t, 3, 4), *grid(t, 0.01)])
case("QuantizeLinear", [normal(3, 4) * 3, np.array([0.1, 0.2, 0.3, 0.4], f32), codes(np.int8, 4)], axis=1)
case("DequantizeLinear", [codes(np.int32, 3, 4), np.array(1e-5, f32)])


# Attention: masks of integers in every form, what is added to scores, past and present; sizes of their own for values.
b, n, l, hs, past = 2, 3, 5, 16, 6
d = n * hs
w, wb = normal(7, 3 * d), normal(3 * d)
i32 = np.int32
added = normal(b, n, l, l)
raw = (rng.random((b, l)) < 0.7).astype(i32)
raw[:, 0] = 1
case("Attention", [normal(b, l, 7), w, wb], num_heads=n)
case("Attention", [normal(b, l, 7), w, wb, np.array([3, 5], i32)], num_heads=n)
case("Attention", [normal(b, l, 7), w, wb, np.array([3, 5, 1, 0], i32)], num_heads=n)
case("Attention", [normal(b, l, 7), w, wb, raw, None, added], num_heads=n, unidirectional=1)
case("Attention", [normal(b, l, 7), w, wb, (rng.random((b, l, l)) < 0.8).astype(i32), None, added[:1]], num_heads=n, scale=0.3, mask_filter_value=-5.5)
case("Attention", [normal(b, l, 7), normal(7, 2 * d + 2 * n), normal(2 * d + 2 * n), raw], num_heads=n, qkv_hidden_sizes=[d, d, 2 * n])
case("Attention", [normal(b, l, 7), w, wb, None, normal(2, b, n, past, hs)], outputs=2, num_heads=n, unidirectional=1)
case("Attention", [normal(b, 1, 7), w, wb, (rng.random((b, past + 1)) < 0.7).astype(i32), normal(2, b, n, past, hs)], outputs=2, num_heads=n, unidirectional=1)
m = 9
qkv = [normal(b, l, d), normal(b, m, d), normal(b, m, n * 2)]
case("MultiHeadAttention", [*qkv], num_heads=n)
case("MultiHeadAttention", [*qkv, normal(2 * d + 2 * n), np.array([4, 9], i32)], num_heads=n, scale=0.4)
case("MultiHeadAttention", [*qkv, None, (rng.random((b, m)) < 0.7).astype(i32), normal(b, n, l, m)], num_heads=n)
case("MultiHeadAttention", [*qkv, None, (rng.random((b, l, m)) < 0.7).astype(i32), normal(1, 1, l, m)], num_heads=n, mask_filter_value=-7.5)
case("MultiHeadAttention", [normal(b, l, d), normal(b, n, m, hs), normal(b, n, m, hs)], num_heads=n)
case("MultiHeadAttention", [*(normal(b, l, d) for _ in range(3)), normal(3 * d)], num_heads=n, unidirectional=1)
case("MultiHeadAttention", [*(normal(b, l, d) for _ in range(3)), normal(3 * d), None, None, normal(b, n, past, hs), normal(b, n, past, hs)], outputs=3, num_heads=n, unidirectional=1)
case("MultiHeadAttention", [*(normal(b, 1, d) for _ in range(3)), None, None, normal(1, n, 1, past + 1), normal(b, n, past, hs), normal(b, n, past, hs)], outputs=3, num_heads=n)

angles = np.outer(np.arange(16), 0.5 ** np.arange(8)).astype(f32)
cos, sin = np.cos(angles), np.sin(angles)
at = rng.integers(0, 16, (b, l)).astype(np.int64)
for interleaved in (0, 1):
    case("RotaryEmbedding", [normal(b, l, d), at, cos, sin], interleaved=interleaved)
    case("RotaryEmbedding", [normal(b, n, l, hs), np.array([3], np.int64), cos, sin], interleaved=interleaved)
    case("RotaryEmbedding", [normal(b, l, 2 * n * hs), at, cos, sin], interleaved=interleaved, num_heads=n, rotary_embedding_dim=16)

# Grouped queries: the first ones of a text, one after the other, several at once, room in the cache, windows.
kv = 2
d, dk = 4 * hs, kv * hs
rope = {"do_rotary": 1, "num_heads": 4, "kv_num_heads": kv}
plain = {"num_heads": 4, "kv_num_heads": kv}
total = lambda v: np.array(v, i32)
empty = normal(b, kv, 0, hs)
for kw in (plain, rope, {**rope, "rotary_interleaved": 1}, {**plain, "local_window_size": 3}, {**rope, "softcap": 2.5, "scale": 0.7}):
    tables = [cos, sin] if "do_rotary" in kw else []
    case("GroupQueryAttention", [normal(b, l, d), normal(b, l, dk), normal(b, l, dk), None, None, np.array([l - 1, l - 1], i32), total(l), *tables], outputs=3, **kw)
    case("GroupQueryAttention", [normal(b, 1, d), normal(b, 1, dk), normal(b, 1, dk), normal(b, kv, past, hs), normal(b, kv, past, hs), np.array([past, past], i32), total(past + 1), *tables], outputs=3, **kw)
    case("GroupQueryAttention", [normal(1, 3, d + 2 * dk), None, None, normal(1, kv, past, hs), normal(1, kv, past, hs), np.array([past + 2], i32), total(past + 3), *tables], outputs=3, **kw)
case("GroupQueryAttention", [normal(b, 1, d), normal(b, 1, dk), normal(b, 1, dk), normal(b, kv, past, hs), normal(b, kv, past, hs), np.array([past, 2], i32), total(past + 1), cos, sin], outputs=3, **rope)
case("GroupQueryAttention", [normal(1, 2, d), normal(1, 2, dk), normal(1, 2, dk), normal(1, kv, past, hs), normal(1, kv, past, hs), np.array([past + 1], i32), total(past + 2), None, None, None, normal(1, 4, 2, past + 2)], outputs=3, **plain)

for kw in ({"transBatchA": 1}, {"transBatchB": 1}, {"transBatchA": 1, "transA": 1, "alpha": 2.0}, {"transBatchA": 1, "transBatchB": 1, "transB": 1}):
    left = [3, 2, 4, 5] if "transBatchA" in kw else [2, 4, 3, 5]
    right = [5, 2, 4, 6] if "transBatchB" in kw else [2, 4, 5, 6]
    if "transA" in kw:
        left[0], left[3] = left[3], left[0]
    if "transB" in kw:
        right[0], right[3] = right[3], right[0]
    case("FusedMatMul", [normal(*left), normal(*right)], **kw)


def network():
    """Returns a random network of convolutions with a residual and a concatenation."""
    weights = {"w1": normal(8, 3, 3, 3), "b1": normal(8), "w2": normal(8, 1, 3, 3), "w3": normal(8, 8, 1, 1), "w4": normal(5, 16), "b4": normal(5)}
    nodes = [h.make_node("Conv", ["x", "w1", "b1"], ["c1"], pads=[1, 1, 1, 1], strides=[2, 2]), h.make_node("Relu", ["c1"], ["r1"]),
             h.make_node("Conv", ["r1", "w2"], ["c2"], pads=[1, 1, 1, 1], group=8), h.make_node("Conv", ["c2", "w3"], ["c3"]),
             h.make_node("Add", ["c3", "r1"], ["a"]), h.make_node("LeakyRelu", ["a"], ["l"], alpha=0.1), h.make_node("Sigmoid", ["c3"], ["s"]),
             h.make_node("Mul", ["l", "s"], ["m"]), h.make_node("Concat", ["m", "r1"], ["k"], axis=1),
             h.make_node("MaxPool", ["k"], ["p"], kernel_shape=[2, 2], strides=[2, 2]), h.make_node("AveragePool", ["p"], ["v"], kernel_shape=[2, 2]),
             h.make_node("GlobalAveragePool", ["v"], ["g"]), h.make_node("Flatten", ["g"], ["f"]),
             h.make_node("Gemm", ["f", "w4", "b4"], ["z"], transB=1), h.make_node("Softmax", ["z"], ["y"])]
    graph = h.make_graph(nodes, "network", [h.make_tensor_value_info("x", T.FLOAT, [1, 3, 12, 12])], [h.make_tensor_value_info("y", T.FLOAT, [1, 5])],
                         [onnx.numpy_helper.from_array(a, n) for n, a in weights.items()])
    return h.make_model(graph, opset_imports=[h.make_opsetid("", 13)], ir_version=8)


def quantized(model, activation, weight, per_channel):
    """Quantizes model and runs it: all tensors are outputs."""
    class Reader(q.CalibrationDataReader):
        left = [{"x": normal(1, 3, 12, 12)} for _ in range(4)]

        def get_next(self):
            return self.left.pop() if self.left else None

    with tempfile.TemporaryDirectory() as d:
        onnx.save(model, d + "/f.onnx")
        q.quantize_static(d + "/f.onnx", d + "/q.onnx", Reader(), quant_format=q.QuantFormat.QOperator, activation_type=activation,
                          weight_type=weight, per_channel=per_channel)
        model = onnx.load(d + "/q.onnx")
    del model.graph.output[:]
    model.graph.output.extend(onnx.ValueInfoProto(name=o) for n in model.graph.node for o in n.output)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    x = normal(1, 3, 12, 12)
    return {"model": base64.b64encode(model.SerializeToString()).decode(), "inputs": [encode(x)],
            "outputs": [encode(np.asarray(a)) for a in session.run(None, {"x": x})]}


def write(name, value):
    with gzip.GzipFile(name, "wb", mtime=0) as f:
        f.write(json.dumps(value, separators=(",", ":")).encode())


lstms = np.random.default_rng(23)


def lstm(steps, batch, features, hidden, dirs=1, t=np.int8, per_channel=True, bias=True, lens=None, states=False, peepholes=False, wanted=None, **attributes):
    """LSTM with weights of 8 bits, whose engine wants one zero point in a direction, and 0 where they are signed."""
    i = np.iinfo(t)
    draw = lambda *shape: (lstms.standard_normal(shape) * 0.4).astype(f32)
    weights = lambda k: lstms.integers(i.min, i.max + 1, (dirs, k, 4 * hidden)).astype(t)
    shape = (dirs, 4 * hidden) if per_channel else (dirs,)
    scale = lambda k: (lstms.uniform(0.5, 1, shape) * 0.01 / np.sqrt(k)).astype(f32)
    zero = np.zeros(shape, t) if t == np.int8 else np.full(shape, 131, t)
    case("DynamicQuantizeLSTM", [draw(steps, batch, features) * 3, weights(features), weights(hidden), draw(dirs, 8 * hidden) if bias else None,
         None if lens is None else np.asarray(lens, np.int32), draw(dirs, batch, hidden) if states else None, draw(dirs, batch, hidden) if states else None,
         draw(dirs, 3 * hidden) if peepholes else None, scale(features), zero, scale(hidden), zero], outputs=3, wanted=wanted, hidden_size=hidden, **attributes)


lstm(7, 1, 16, 8)
lstm(9, 1, 33, 20, t=np.uint8, per_channel=False, states=True)
lstm(6, 3, 12, 24, dirs=2, direction="bidirectional", lens=[6, 0, 4], states=True, t=np.uint8)
lstm(6, 2, 12, 24, direction="reverse", lens=[3, 5], peepholes=True, per_channel=False)
lstm(5, 2, 7, 9, lens=[2, 5], wanted=(1, 2), bias=False)
lstm(8, 1, 40, 16, clip=0.7, input_forget=1, states=True, peepholes=True)
lstm(4, 1, 8, 8, dirs=2, direction="bidirectional", activations=["Sigmoid", "Tanh", "Sigmoid", "HardSigmoid", "Relu", "Tanh"])

if __name__ == "__main__":
    write("microsoft.json.gz", cases)
    net, u8, i8 = network(), q.QuantType.QUInt8, q.QuantType.QInt8
    write("qoperator.json.gz", [quantized(net, u8, i8, True), quantized(net, u8, u8, False), quantized(net, i8, i8, False)])
    print(len(cases), "cases")
