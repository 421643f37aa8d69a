#!/usr/bin/env python3
"""How many rows layerwise analysis has, what it costs beside its bound, and how far the sum of the rows is from the whole. Prints a table as Markdown.

  rows.py QWB DATA [--work DIR] [--only NAME,...] [--samples N]

Two of the networks are made here, with seeds: the shape of MiniLM (6 layers, 384 channels), and the head of a YOLO over three levels. Needs onnx.
"""
import argparse, os
import numpy as np
import onnx
from onnx import helper, numpy_helper, TensorProto
from networks import Workplace, table


class Builder:
    """A network whose weights are normal numbers."""

    def __init__(self, seed):
        self.r, self.nodes, self.constants, self.count = np.random.default_rng(seed), [], [], 0

    def constant(self, x):
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(x), name))
        return name

    def weights(self, *shape, fan):
        return self.constant((self.r.standard_normal(shape) * (2 / fan) ** .5).astype(np.float32))

    def __call__(self, op, *inputs, outputs=1, **attributes):
        self.count += 1
        names = [f"v{self.count}_{k}" for k in range(outputs)]
        inputs = [x if isinstance(x, str) else self.constant(x) for x in inputs]
        self.nodes.append(helper.make_node(op, inputs, names, name=f"{op}_{self.count}", **attributes))
        return names[0] if outputs == 1 else names

    def conv(self, x, ci, co, k=3, stride=1):
        y = self("Conv", x, self.weights(co, ci, k, k, fan=ci * k * k), (self.r.standard_normal(co) * .1).astype(np.float32),
                 pads=[k // 2] * 4, strides=[stride] * 2)
        return self("Mul", y, self("Sigmoid", y))

    def save(self, path, x, y, shape):
        info = helper.make_tensor_value_info
        g = helper.make_graph(self.nodes + [helper.make_node("Identity", [y], ["y"], name="out")], "g", [info("x", TensorProto.FLOAT, x)],
                              [info("y", TensorProto.FLOAT, shape)], self.constants)
        m = helper.make_model(g, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        onnx.checker.check_model(m)
        onnx.save(m, path)


def minilm(path, layers=6, width=384, heads=12, tokens=32):
    b, x = Builder(1), "x"
    scale = lambda: (b.constant((1 + b.r.standard_normal(width) * .1).astype(np.float32)), b.constant((b.r.standard_normal(width) * .1).astype(np.float32)))
    dense = lambda x, ci, co: b("Add", b("MatMul", x, b.constant((b.r.standard_normal((ci, co)) * ci ** -.5).astype(np.float32))), (b.r.standard_normal(co) * .02).astype(np.float32))
    for _ in range(layers):
        split = lambda x, perm: b("Transpose", b("Reshape", x, np.array([1, tokens, heads, width // heads])), perm=perm)
        q, k, v = split(dense(x, width, width), [0, 2, 1, 3]), split(dense(x, width, width), [0, 2, 3, 1]), split(dense(x, width, width), [0, 2, 1, 3])
        p = b("Softmax", b("Div", b("MatMul", q, k), np.float32((width // heads) ** .5)), axis=-1)
        a = b("Reshape", b("Transpose", b("MatMul", p, v), perm=[0, 2, 1, 3]), np.array([1, tokens, width]))
        x = b("LayerNormalization", b("Add", dense(a, width, width), x), *scale())
        h = dense(x, width, 4 * width)
        h = b("Mul", b("Mul", h, np.float32(.5)), b("Add", b("Erf", b("Div", h, np.float32(2 ** .5))), np.float32(1)))
        x = b("LayerNormalization", b("Add", dense(h, 4 * width, width), x), *scale())
    b.save(path, [1, tokens, width], b("ReduceMean", x, axes=[1], keepdims=0), [1, width])


def yolo(path, classes=8, size=256, width=32):
    b = Builder(2)
    w, w2, w4 = width, 2 * width, 4 * width
    p3 = b.conv(b.conv(b.conv("x", 3, w, stride=2), w, w2, stride=2), w2, w2, stride=2)
    p4 = b.conv(p3, w2, w4, stride=2)
    p5 = b.conv(p4, w4, w4, stride=2)
    up = lambda x: b("Resize", x, "", np.array([1, 1, 2, 2], np.float32), mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor")
    n4 = b.conv(b("Concat", up(p5), p4, axis=1), 2 * w4, w4)
    n3 = b.conv(b("Concat", up(n4), p3, axis=1), w4 + w2, w2)
    boxes, scores = [], []
    for x, ci, stride in ((n3, w2, 8), (n4, w4, 16), (p5, w4, 32)):
        n = (size // stride) ** 2
        for list, co in ((boxes, 4), (scores, classes)):
            h = b.conv(b.conv(x, ci, w2), w2, w2)
            h = b("Conv", h, b.weights(co, w2, 1, 1, fan=w2), np.full(co, 1.5 if co == 4 else -3, np.float32))
            h = b("Reshape", h, np.array([1, co, n]))
            list.append(b("Mul", h, np.float32(stride)) if co == 4 else b("Sigmoid", h))
    y = b("Concat", b("Concat", *boxes, axis=2), b("Concat", *scores, axis=2), axis=1)
    b.save(path, [1, 3, size, size], y, [1, 4 + classes, sum((size // s) ** 2 for s in (8, 16, 32))])


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("qwb"); ap.add_argument("data"); ap.add_argument("--work"); ap.add_argument("--only", default=""); ap.add_argument("--samples", type=int, default=16)
    a = ap.parse_args()
    place = Workplace(a.qwb, a.data, a.work)
    networks = {"mobilenet_v1": None, "MiniLM-like": minilm, "YOLO head": yolo}
    rows = []
    for name, make in networks.items():
        if a.only and name not in a.only.split(","): continue
        if make is None:
            n = next(iter(place.networks(name)))[1]
            data = ("--data", n.calibration, "--preprocess", n.preprocess)
            model = n.model
        else:
            model, data = place.path(make.__name__ + ".onnx"), ("--data", f"synthetic:{a.samples}")
            make(model)
        for platform in ("onnxruntime", "trt_int8"):
            plan = place.path(f"{platform}.{os.path.basename(model)}.plan.json")
            place.call("calibrate", model, *data, "--samples", a.samples, "--platform", platform, "--fresh", "-o", plan)
            r = place.json("analyze", plan, "--layerwise", *data, "--samples", a.samples, "--html", place.path("r.html"))
            c = place.json("bench", "layerwise", plan, *data, "--samples", 2, "--rounds", 1, "--span", "1ms", "--patience", 0, ok=(0, 3))
            least, t = c["bound_products"]["descendants"], r["together"]
            own = sum(1 for l in r["layerwise"] if l["macs"])
            rows.append([name, platform, f"{len(r['layerwise'])} ({own} with products)", f"{r['forwards']:.1f}", f"{least:.1f}", f"{r['forwards'] / least:.2f}",
                         f"{t['sum']:.2g}", f"{t['whole']:.2g}", ", ".join(t.get("nodes") or []) or "-"])
    table(["network", "platform", "rows", "forwards per sample", "bound of those with products", "ratio", "sum of the rows", "whole", "together"], rows)
