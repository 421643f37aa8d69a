#!/usr/bin/env python3
"""Writes tflite.json.gz: what TFLite's kernels answer: the reference ones, and of some operators the
optimized ones and XNNPACK's as well. Needs ai-edge-litert and numpy on x64."""
import numpy as np
import flatbuffers
from ai_edge_litert import interpreter as tfl, schema_py_generated as S
from oracle import codes, encode, scale, write

rng = np.random.default_rng(11)
f32 = np.float32
cases = []
TYPES = {np.dtype(np.int8): S.TensorType.INT8, np.dtype(np.uint8): S.TensorType.UINT8, np.dtype(np.int16): S.TensorType.INT16,
         np.dtype(np.int32): S.TensorType.INT32, np.dtype(np.int64): S.TensorType.INT64, np.dtype(f32): S.TensorType.FLOAT32}


def tensor(model, graph, name, dtype, shape, scales=(), zeros=(), axis=0, data=None):
    t = S.TensorT()
    t.name, t.shape, t.type, t.buffer = name, list(shape), TYPES[np.dtype(dtype)], 0
    if data is not None:
        b = S.BufferT()
        b.data = np.frombuffer(np.ascontiguousarray(data).tobytes(), np.uint8)
        t.buffer = len(model.buffers)
        model.buffers.append(b)
    if len(scales):
        q = S.QuantizationParametersT()
        q.scale, q.zeroPoint, q.quantizedDimension = [float(s) for s in scales], [int(z) for z in zeros], axis
        t.quantization = q
    graph.tensors.append(t)
    return len(graph.tensors) - 1


def run(builtin, options, options_type, inputs, output, constants=(), kernels=tfl.OpResolverType.BUILTIN_REF):
    """inputs and constants: (array, scales, zeros, axis); output: (dtype, shape, scale, zero). A None is a missing input."""
    model, graph = S.ModelT(), S.SubGraphT()
    model.version, model.buffers = 3, [S.BufferT()]
    graph.tensors, graph.name = [], "g"
    graph.inputs = [tensor(model, graph, f"x{i}", a.dtype, a.shape, s, z, ax) for i, (a, s, z, ax) in enumerate(inputs)]
    fixed = [tensor(model, graph, f"c{i}", a.dtype, a.shape, s, z, ax, a) for i, (a, s, z, ax) in enumerate(constants)]
    dtype, shape, sy, zy = output
    graph.outputs = [tensor(model, graph, "y", dtype, shape, [sy] if sy else [], [zy] if sy else [])]
    op = S.OperatorT()
    op.inputs, op.outputs, op.opcodeIndex = graph.inputs + fixed, graph.outputs, 0
    op.builtinOptions, op.builtinOptionsType = options, options_type
    graph.operators = [op]
    code = S.OperatorCodeT()
    code.builtinCode, code.deprecatedBuiltinCode, code.version = builtin, min(builtin, 127), 1
    model.operatorCodes, model.subgraphs = [code], [graph]
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    it = tfl.Interpreter(model_content=bytes(builder.Output()), experimental_op_resolver_type=kernels, num_threads=1)
    it.allocate_tensors()
    for d, (a, _, _, _) in zip(it.get_input_details(), inputs):
        it.set_tensor(d["index"], a)
    it.invoke()
    return it.get_tensor(it.get_output_details()[0]["index"])


def zero():
    return int(rng.integers(-128, 128))


def words(seed, n):
    """16-bit codes: pairs of bytes, the low one first."""
    return codes(seed, 2 * n, False).view(np.int16)


def case(op, y, **rest):
    cases.append({"op": op, "signed": True, "y": encode(y), **rest})


B, O, R = S.BuiltinOperator, S.BuiltinOptions, tfl.OpResolverType
for bits in (8, 16):
    for op, builtin, make, kind in (("ADD", B.ADD, S.AddOptionsT, O.AddOptions), ("SUB", B.SUB, S.SubOptionsT, O.SubOptions), ("MUL", B.MUL, S.MulOptionsT, O.MulOptions)):
        for i in range(12 if bits == 8 else 4):
            n, seed = 1200, int(rng.integers(1, 1 << 30))
            sa, sb = scale(rng, -6, 0), scale(rng, -6, 0)
            sy = float(f32(max(sa, sb) * rng.uniform(0.5, 3))) if op != "MUL" else float(f32(sa * sb * rng.uniform(20, 300)))
            za, zb, zy = (zero(), zero(), zero()) if bits == 8 else (0, 0, 0)
            if i == 0:
                sa, sb, sy = 0.5, 0.25, 0.5 if op != "MUL" else 16.0
            a, b = (codes(seed, n, True), codes(seed + 1, n, True)) if bits == 8 else (words(seed, n), words(seed + 1, n))
            if bits == 16 and op == "MUL":
                sy *= 100
                sy = float(f32(sy))
            options = make()
            if hasattr(options, "potScaleInt16"):
                options.potScaleInt16 = False
            for name, kernels in (("", R.BUILTIN_REF), ("xnnpack ", R.AUTO)):
                if name and (bits == 16 or op != "ADD"):
                    continue
                y = run(builtin, options, kind, [(a, [sa], [za], 0), (b, [sb], [zb], 0)], (a.dtype, [n], sy, zy), (), kernels)
                case(name + op, y, bits=bits, seed=seed, shape=[n, n], scales=[sa, sb, sy], zeros=[za, zb, zy])

every = np.arange(256, dtype=np.uint8).view(np.int8)
for i in range(10):
    for op, builtin in (("LOGISTIC", B.LOGISTIC), ("TANH", B.TANH), ("HARD_SWISH", B.HARD_SWISH), ("LEAKY_RELU", B.LEAKY_RELU), ("QUANTIZE", B.QUANTIZE)):
        sx, zx = scale(rng, -7, -2), zero()
        sy, zy = {"LOGISTIC": (1 / 256, -128), "TANH": (1 / 128, 0)}.get(op, (float(f32(sx * rng.uniform(0.4, 3))), zero()))
        if op == "HARD_SWISH":
            sy = float(f32(sx * rng.uniform(0.4, 1.5)))
        alpha = float(f32(rng.uniform(0.01, 0.5)))
        options, kind = None, 0
        if op == "LEAKY_RELU":
            options, kind = S.LeakyReluOptionsT(), O.LeakyReluOptions
            options.alpha = alpha
        if op == "HARD_SWISH":
            options, kind = S.HardSwishOptionsT(), O.HardSwishOptions
        for name, kernels in (("", R.BUILTIN_REF), ("xnnpack ", R.AUTO)):
            if name and op != "QUANTIZE":
                continue
            y = run(builtin, options, kind, [(every, [sx], [zx], 0)], (np.int8, [256], sy, zy), (), kernels)
            case(name + op, y, seed=0, shape=[256], scales=[sx, sy], zeros=[zx, zy], alpha=alpha)

# QUANTIZE of floats: multiples of 2^-10 up to 2, so that ties are among them.
for s in (1 / 64, 0.007843137718737125, 0.011764706112444401, 0.1):
    s, z = float(f32(s)), zero()
    x = (np.arange(-2048, 2048) / f32(1024)).astype(f32)
    for name, kernels in (("", R.BUILTIN_REF), ("xnnpack ", R.AUTO)):
        y = run(B.QUANTIZE, S.QuantizeOptionsT(), O.QuantizeOptions, [(x, [], [], 0)], (np.int8, [4096], s, z), (), kernels)
        case(name + "QUANTIZE_FLOAT", y, seed=0, shape=[4096], scales=[s], zeros=[z])

# Average pool on one grid, mean between two: [1, height, width, channels].
for i in range(8):
    c, hh, w, k, seed = 5, 9, 8, int(rng.integers(2, 4)), int(rng.integers(1, 1 << 30))
    sx, zx = scale(rng, -6, 0), zero()
    x = codes(seed, hh * w * c, True).reshape(1, hh, w, c)
    options = S.Pool2DOptionsT()
    options.filterHeight = options.filterWidth = k
    options.strideH, options.strideW, options.padding = 1, 2, S.Padding.VALID
    oh, ow = hh - k + 1, (w - k) // 2 + 1
    y = run(B.AVERAGE_POOL_2D, options, O.Pool2DOptions, [(x, [sx], [zx], 0)], (np.int8, [1, oh, ow, c], sx, zx))
    case("AVERAGE_POOL_2D", y, seed=seed, shape=[hh, w, c, oh, ow, k], scales=[sx, sx], zeros=[zx, zx])
    hh, w = int(rng.integers(1, 12)), int(rng.integers(1, 12))
    sy, zy = float(f32(sx * rng.uniform(0.3, 1.5))), zero()
    x = codes(seed, hh * w * c, True).reshape(1, hh, w, c)
    options = S.ReducerOptionsT()
    options.keepDims = False
    y = run(B.MEAN, options, O.ReducerOptions, [(x, [sx], [zx], 0)], (np.int8, [1, c], sy, zy), [(np.array([1, 2], np.int32), [], [], 0)])
    case("MEAN", y, seed=seed, shape=[hh * w, c], scales=[sx, sy], zeros=[zx, zy])

for i in range(10):
    rows, n, sx, zx, seed = 20, [2, 5, 10, 100, 300][i % 5], scale(rng, -7, 0), zero(), int(rng.integers(1, 1 << 30))
    x = codes(seed, rows * n, True).reshape(rows, n)
    options = S.SoftmaxOptionsT()
    options.beta = 1.0
    y = run(B.SOFTMAX, options, O.SoftmaxOptions, [(x, [sx], [zx], 0)], (np.int8, [rows, n], 1 / 256, -128))
    case("SOFTMAX", y, seed=seed, shape=[rows, n], scales=[sx, 1 / 256], zeros=[zx, -128])

# Convolution 1x1 with a scale per channel, fully connected with one scale; int8 and int16 activations.
for i in range(10):
    bits = 8 if i < 7 else 16
    k, m, pixels, seed = int(rng.integers(3, 90)), 6, 40, int(rng.integers(1, 1 << 30))
    sx, sw = scale(rng, -7, -3), [scale(rng, -9, -5) for _ in range(m)]
    if bits == 16:
        sx /= 256
    sy = float(f32(sx * sw[0] * 127 * 2 ** (bits - 8) * np.sqrt(k) / 2 * rng.uniform(0.5, 2) / 2 ** (bits - 8)))
    zx, zy = (zero(), zero()) if bits == 8 else (0, 0)
    x = codes(seed, k * pixels, True) if bits == 8 else words(seed, k * pixels)
    w = np.maximum(codes(seed + 1, k * m, True), -127)
    bias = codes(seed + 2, m, True).astype(np.int32 if bits == 8 else np.int64) * 20
    for op, builtin, scales in (("CONV_2D", B.CONV_2D, sw), ("FULLY_CONNECTED", B.FULLY_CONNECTED, sw[:1])):
        if op == "CONV_2D":
            options, kind = S.Conv2DOptionsT(), O.Conv2DOptions
            options.strideH = options.strideW = options.dilationHFactor = options.dilationWFactor = 1
            options.padding = S.Padding.VALID
            xs, ws, ys = (1, pixels, 1, k), (m, 1, 1, k), [1, pixels, 1, m]
        else:
            options, kind = S.FullyConnectedOptionsT(), O.FullyConnectedOptions
            xs, ws, ys = (pixels, k), (m, k), [pixels, m]
        bias_scales = [float(f32(sx) * f32(s)) for s in scales]
        for name, kernels in (("", R.BUILTIN_REF), ("optimized ", R.BUILTIN_WITHOUT_DEFAULT_DELEGATES), ("xnnpack ", R.AUTO)):
            if bits == 16 and name:
                continue
            y = run(builtin, options, kind, [(x.reshape(xs), [sx], [zx], 0)], (x.dtype, ys, sy, zy),
                    [(w.reshape(ws), scales, [0] * len(scales), 0), (bias, bias_scales, [0] * len(scales), 0)], kernels)
            case(name + op, y, bits=bits, seed=seed, shape=[k, m, pixels], scales=[sx, sy] + scales, zeros=[zx, zy])

write("tflite.json.gz", "ai-edge-litert 2.3.0, x64 with AVX-512 VNNI", cases)
