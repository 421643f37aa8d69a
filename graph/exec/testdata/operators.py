#!/usr/bin/env python3
"""Writes operators.json.gz: what ONNX Runtime, and for Attention, DFT, STFT, SwiGLU and GridSample in three dimensions ONNX's own
reference, answer for combinations of attributes that the ONNX vectors do not have. Needs onnxruntime, onnx and numpy."""
import base64, gzip, itertools, json
import numpy as np, onnx, onnxruntime as ort
from onnx import TensorProto as T, helper as h
from onnx.reference import ReferenceEvaluator

rng = np.random.default_rng(7)
f32 = np.float32
TYPES = {"float32": (T.FLOAT, "f32"), "float64": (T.DOUBLE, "f64"), "int64": (T.INT64, "i64"), "int8": (T.INT8, "i8"), "bool": (T.BOOL, "bool")}
cases = []


def encode(a):
    return None if a is None else {"type": TYPES[a.dtype.name][1], "shape": list(a.shape), "data": base64.b64encode(a.tobytes()).decode()}


def short(a):
    """Drops the last 8 bits of floats, for the sake of the file's size."""
    return ((a.view(np.uint32) + 128) & 0xFFFFFF00).view(f32) if a.dtype == f32 and a.size and np.isfinite(a).all() else a


def case(op, version, inputs, outputs=1, reference=False, **attributes):
    """Runs op; None stands for an absent input. Attributes that are floats must not be whole."""
    inputs = [None if a is None else np.asarray(a) for a in inputs]
    names = ["" if a is None else f"i{k}" for k, a in enumerate(inputs)]
    outs = [f"o{k}" for k in range(outputs)]
    node = h.make_node(op, names, outs, **attributes)
    graph = h.make_graph([node], "g", [h.make_tensor_value_info(n, TYPES[a.dtype.name][0], a.shape) for n, a in zip(names, inputs) if n],
                         [h.make_tensor_value_info(o, T.UNDEFINED, None) for o in outs])
    model = h.make_model(graph, opset_imports=[h.make_opsetid("", version)], ir_version=10)
    feeds = {n: a for n, a in zip(names, inputs) if n}
    if reference:
        got = ReferenceEvaluator(model).run(None, feeds)
    else:
        model = onnx.shape_inference.infer_shapes(model)
        got = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, feeds)
    cases.append({"op": op, "domain": "", "opset": version, "attributes": attributes, "inputs": [encode(a) for a in inputs],
                  "outputs": [encode(short(np.asarray(a))) for a in got]})


def normal(*shape):
    return (np.round(rng.standard_normal(shape) * 16) / 16).astype(f32)


def uniform(limit, *shape):
    return rng.uniform(-limit, limit, shape).astype(f32)


def yes():
    return bool(rng.integers(0, 2))


for padding, align in itertools.product(("zeros", "border", "reflection"), (0, 1)):
    kw = {"padding_mode": padding, "align_corners": align}
    for mode in ("bilinear", "nearest", "bicubic"):
        case("GridSample", 16, [normal(2, 2, 4, 5), uniform(2.2, 2, 4, 3, 2)], mode=mode, **kw)
    for mode in ("linear", "nearest"):
        case("GridSample", 20, [normal(1, 2, 3, 4, 2), uniform(2.2, 1, 2, 3, 3, 3)], mode=mode, reference=True, **kw)
for version, mode, ratio in itertools.product((10, 16), ("avg", "max"), (0, 2)):
    for kw in ({},) if version == 10 else ({}, {"coordinate_transformation_mode": "output_half_pixel"}):
        rois = np.sort(rng.uniform(-3, 20, (4, 2, 2)), axis=1).reshape(4, 4).astype(f32)
        case("RoiAlign", version, [normal(2, 2, 7, 8), rois, np.array([0, 1, 1, 0])], mode=mode, sampling_ratio=ratio, output_height=3,
             output_width=2, spatial_scale=0.5, **kw)
for scale in (0.5, 0.0625):
    rois = np.concatenate([rng.integers(0, 2, (4, 1)), np.sort(rng.uniform(-3, 26, (4, 2, 2)), axis=1).reshape(4, 4)], 1).astype(f32)
    case("MaxRoiPool", 13, [normal(2, 2, 7, 8), rois], pooled_shape=[3, 2], spatial_scale=scale)
for groups, offsets, (strides, dilations), pads, more in itertools.product((1, 2), (1, 2), (([1, 1], [1, 2]), ([2, 1], [1, 1])),
                                                                           ([0, 0, 0, 0], [1, 2, 0, 1]), (0, 1)):
    oh, ow = ((n + p - (k - 1) * d - 1) // s + 1 for n, p, k, d, s in zip((5, 6), (pads[0] + pads[2], pads[1] + pads[3]), (3, 2), dilations, strides))
    case("DeformConv", 22 if more else 19, [normal(1, 4, 5, 6), normal(2, 4 // groups, 3, 2), normal(1, offsets * 12, oh, ow),
                                            normal(2) if more else None, normal(1, offsets * 6, oh, ow) if more else None],
         group=groups, offset_group=offsets, strides=strides, pads=pads, dilations=dilations, kernel_shape=[3, 2])
for strides, pads, dilations in itertools.product(([1, 1], [2, 3]), ([0, 0, 0, 0], [1, 0, 2, 1]), ([1, 1], [2, 2])):
    windows = [(n + p - (k - 1) * d - 1) // s + 1 for n, p, k, d, s in zip((6, 7), (pads[0] + pads[2], pads[1] + pads[3]), (3, 2), dilations, strides)]
    case("Col2Im", 18, [normal(1, 12, windows[0] * windows[1]), np.array([6, 7]), np.array([3, 2])], strides=strides, pads=pads, dilations=dilations)
for align in (0, 1):
    case("AffineGrid", 20, [normal(2, 2, 3), np.array([2, 3, 4, 5])], align_corners=align)
    case("AffineGrid", 20, [normal(1, 3, 4), np.array([1, 3, 2, 3, 4])], align_corners=align)
for shape, axes in (([4, 9], [0, 1]), ([9, 4], [0, 1]), ([3], [1]), ([11], [-1])):
    case("CenterCropPad", 18, [normal(6, 7), np.array(shape)], axes=axes)
for axis, ordered, t in itertools.product((None, 0, -1), (0, 1), (f32, np.int64, np.int8)):
    case("Unique", 11, [rng.integers(0, 3, (5, 2)).astype(t)], 4, sorted=ordered, **({} if axis is None else {"axis": axis}))
for n in (1, 2, 5, 7):
    case("Det", 22, [normal(2, n, n)])
for n in (1, 2, 3, 4, 5, 7, 12, 30, 49, 53, 106):
    for inverse, half in ((0, 0), (0, 1), (1, 0), (1, 1)):
        if n > 1 or not (inverse and half):
            case("DFT", 20, [normal(1, n, 2, 1 if half and not inverse else 2), None, np.array(1)], reference=True, inverse=inverse, onesided=half)
    case("DFT", 17, [normal(1, n, 2, 1), np.array(10)], reference=True, axis=1)
for length, frame, step, window, half in ((64, 16, 8, 1, 1), (50, 10, 7, 1, 0), (50, 13, 4, 0, 1)):
    case("STFT", 17, [normal(2, length, 1), np.array(step), np.abs(normal(frame)) if window else None, np.array(frame)], reference=True, onesided=half)
for op, periodic, size in itertools.product(("HannWindow", "HammingWindow", "BlackmanWindow"), (0, 1), (2, 9)):
    case(op, 17, [np.array(size)], periodic=periodic)
for bands, length, rate, low, high in ((8, 64, 8192, 0, 4000), (6, 128, 16000, 20, 8000), (5, 100, 8000, 300, 3000)):
    case("MelWeightMatrix", 17, [np.array(bands), np.array(length), np.array(rate), np.array(low, f32), np.array(high, f32)])
for neighbours, part, flat, given in itertools.product((0, 1), (0, 4), (0, 1), (0, 1)):
    tables = [normal(9, (part or 8) // 2) if given else normal(2, 5, (part or 8) // 2) for _ in range(2)]
    case("RotaryEmbedding", 23, [normal(2, 5, 24) if flat else normal(2, 3, 5, 8), *tables, rng.integers(0, 9, (2, 5)) if given else None],
         interleaved=neighbours, num_heads=3, rotary_embedding_dim=part)
for mode, axis in itertools.product(("linear", "circular"), (-2, 1)):
    update = [3, 4, 5, 2]
    update[axis] = 2
    case("TensorScatter", 24, [normal(3, 4, 5, 2), normal(*update), np.array([0, 2, 1]) if mode == "linear" else np.array([1, 4, 11])], mode=mode, axis=axis)
for _ in range(60):
    version, flat, batch, shared, each = int(rng.choice([23, 24, 25])), yes(), *(int(rng.integers(1, 4)) for _ in range(3))
    heads, queries, keys, size, width = shared * each, *(int(v) for v in rng.integers(1, 7, 4))
    past = int(rng.integers(1, 5)) if yes() else 0
    kw = {"q_num_heads": heads, "kv_num_heads": shared} if flat else {}
    q, k, v = ((batch, n, c * s) if flat else (batch, c, n, s) for n, c, s in ((queries, heads, size), (keys, shared, size), (keys, shared, width)))
    if yes():
        kw["is_causal"] = 1
    if yes():
        kw["scale"] = 0.3125
    if yes():
        kw["softcap"] = 1.25
    mask, kind = None, rng.integers(0, 4)
    if kind:  # the reference mistakes a mask of one row for one query where it is causal, and shows capped scores as mode 0
        shape = [batch if yes() else 1, heads if yes() else 1, queries if yes() or "is_causal" in kw else 1, keys + past][int(rng.integers(0, 3)):]
        mask = rng.uniform(size=shape) < 0.7 if kind == 1 else normal(*shape)
        if kind == 3:
            mask[rng.uniform(size=shape) < 0.3] = -np.inf
    before = [normal(batch, shared, past, size), normal(batch, shared, past, width)] if past else [None, None]
    valid = rng.integers(0, keys + 1, (batch,)) if version >= 24 and not past and yes() else None
    if version >= 25:
        kw["left_window_size"], kw["right_window_size"] = int(rng.integers(-1, 4)), int(rng.integers(-1, 4))
    kw["qk_matmul_output_mode"] = int(rng.integers(1 if "softcap" in kw else 0, 4))
    case("Attention", version, [normal(*q), normal(*k), normal(*v), mask, *before] + ([valid] if version >= 24 else []), 4, reference=True, **kw)
case("SwiGLU", 28, [normal(3, 5), normal(3, 5)], reference=True)
case("SwiGLU", 28, [normal(3, 5), normal(3, 5)], reference=True, alpha=1.75)

for c in cases:
    while c["inputs"][-1] is None:
        c["inputs"].pop()
with open("operators.json.gz", "wb") as f, gzip.GzipFile("", "wb", 9, f, mtime=0) as z:
    z.write(json.dumps(cases, separators=(",", ":")).encode())
