"""Run every operator that qwb writes as an ncnn layer in ncnn, and compare with qwb's own float results.

    pip install ncnn==1.0.20261020 onnx==1.23.2 numpy
    python ncnn_operators.py QWB

Each case is a float model of one or two nodes, exported without integers. Prints the largest difference per case, relative to the largest
number of the result, and exits with 1 where one is above 1e-5 (1e-3 where ncnn approximates: exp, tanh, erf, gelu and the like).
"""
import os
import subprocess
import sys
import tempfile

import ncnn
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

RNG = np.random.default_rng(1)


def w(*shape):
    return RNG.normal(size=shape).astype(np.float32)


def i64(*v):
    return np.array(v, np.int64)


# name, shapes of inputs, nodes as (operator, inputs, attributes); inputs are x, y, the results t0, t1, ... and constants
CASES = []


def case(name, shapes, *nodes):
    CASES.append((name, shapes, nodes))


X = (1, 6, 7, 9)
for op in "Relu Sigmoid Tanh Softplus Erf HardSwish Elu Selu LeakyRelu HardSigmoid Abs Neg Floor Ceil Exp Sin Cos Atan Round Mish".split():
    case(op, [X], (op, ["x"], {}))
case("Gelu", [X], ("Gelu", ["x"], {}))
case("Gelu tanh", [X], ("Gelu", ["x"], {"approximate": "tanh"}))
case("LeakyRelu .3", [X], ("LeakyRelu", ["x"], {"alpha": 0.3}))
case("Sqrt Log Reciprocal", [X], ("Abs", ["x"], {}), ("Add", ["t0", np.float32(1)], {}), ("Sqrt", ["t1"], {}), ("Log", ["t2"], {}), ("Add", ["t3", np.float32(2)], {}),
     ("Reciprocal", ["t4"], {}))
case("Clip", [X], ("Clip", ["x", np.float32(-0.5), np.float32(0.7)], {}))
case("PRelu", [X], ("PRelu", ["x", w(6, 1, 1)], {}))
for op in "Add Sub Mul Div Max Min".split():
    case(op, [X, X], (op, ["x", "y"], {}))
    case(op + " channels", [X], (op, ["x", w(1, 6, 1, 1)], {}))
    case(op + " width left", [X], (op, [w(9), "x"], {}))
    case(op + " vector of two", [X, (1, 9)], (op, ["x", "y"], {}))
case("Sub scalar left", [X], ("Sub", [np.float32(2), "x"], {}))
case("Pow", [X], ("Pow", ["x", np.float32(2)], {}))
case("Add squeezed", [X, (1, 6, 1, 1)], ("Add", ["x", "y"], {}))
for k, a in enumerate([{}, {"strides": [2, 1], "pads": [0, 1, 2, 3]}, {"dilations": [2, 1]}]):
    case(f"Conv {k}", [X], ("Conv", ["x", w(5, 6, 3, 2), w(5)], a))
    case(f"Conv depthwise {k}", [X], ("Conv", ["x", w(6, 1, 3, 2), w(6)], {**a, "group": 6}))
    case(f"Conv groups {k}", [X], ("Conv", ["x", w(4, 3, 3, 2)], {**a, "group": 2}))
    case(f"ConvTranspose {k}", [X], ("ConvTranspose", ["x", w(6, 4, 3, 2), w(4)], a))
    case(f"ConvTranspose groups {k}", [X], ("ConvTranspose", ["x", w(6, 2, 3, 2)], {**a, "group": 3}))
case("ConvTranspose output_padding", [X], ("ConvTranspose", ["x", w(6, 4, 3, 3)], {"strides": [2, 3], "output_padding": [1, 2]}))
case("Conv 1D", [(1, 6, 11)], ("Conv", ["x", w(4, 6, 3), w(4)], {"pads": [1, 2]}))
for act, args in (("Relu", []), ("Sigmoid", []), ("HardSwish", []), ("LeakyRelu", []), ("Clip", [np.float32(-1), np.float32(1)]), ("Mish", [])):
    case(f"Conv {act}", [X], ("Conv", ["x", w(8, 6, 3, 3), w(8)], {}), (act, ["t0", *args], {}))
case("Conv Swish", [X], ("Conv", ["x", w(8, 6, 1, 1)], {}), ("Sigmoid", ["t0"], {}), ("Mul", ["t0", "t1"], {}))
case("Gemm", [(1, 20)], ("Gemm", ["x", w(20, 7), w(7)], {}))
case("Gemm transB", [(1, 20)], ("Gemm", ["x", w(7, 20)], {"transB": 1, "alpha": 0.5}))
case("MatMul rows", [(1, 5, 20)], ("MatMul", ["x", w(20, 7)], {}))
case("MatMul 4", [(1, 3, 5, 20)], ("MatMul", ["x", w(20, 7)], {}))
case("MatMul two", [(1, 3, 5, 20), (1, 3, 20, 6)], ("MatMul", ["x", "y"], {}))
case("MaxPool", [X], ("MaxPool", ["x"], {"kernel_shape": [3, 2], "strides": [2, 2], "pads": [1, 0, 1, 1]}))
case("MaxPool ceil", [X], ("MaxPool", ["x"], {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}))
case("AveragePool", [X], ("AveragePool", ["x"], {"kernel_shape": [3, 2], "strides": [1, 2], "pads": [1, 1, 1, 0]}))
case("AveragePool count", [X], ("AveragePool", ["x"], {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "count_include_pad": 1}))
case("GlobalAveragePool", [X], ("GlobalAveragePool", ["x"], {}))
case("GlobalMaxPool", [X], ("GlobalMaxPool", ["x"], {}))
case("squeeze and excite", [X], ("GlobalAveragePool", ["x"], {}), ("Conv", ["t0", w(6, 6, 1, 1)], {}), ("HardSigmoid", ["t1"], {}), ("Mul", ["x", "t2"], {}))
for axis in (1, 2, 3, -1):
    case(f"Softmax {axis}", [X], ("Softmax", ["x"], {"axis": axis}))
    case(f"Concat {axis}", [X, X], ("Concat", ["x", "y"], {"axis": axis}))
    case(f"Slice {axis}", [X], ("Slice", ["x", i64(1), i64(-1), i64(axis)], {}))
    case(f"ReduceMean {axis}", [X], ("ReduceMean", ["x", i64(axis)], {"keepdims": 0}))
case("LogSoftmax", [(1, 11)], ("LogSoftmax", ["x"], {}))
case("LogSoftmax of far numbers", [(1, 11)], ("Mul", ["x", np.float32(100)], {}), ("LogSoftmax", ["t0"], {}))
case("ReduceSum 2 3", [X], ("ReduceSum", ["x", i64(2, 3)], {"keepdims": 1}))
case("ReduceMax", [X], ("ReduceMax", ["x", i64(1)], {}))
case("ReduceL2", [X], ("ReduceL2", ["x", i64(-1)], {}))
case("Split", [X], ("Split", ["x", i64(2, 4)], {"axis": 1}, 2), ("ReduceMean", ["t0", i64(1)], {}), ("ReduceMean", ["t0b", i64(1)], {}), ("Sub", ["t1", "t2"], {}))
for p in ([0, 1, 3, 2], [0, 2, 1, 3], [0, 2, 3, 1], [0, 3, 1, 2], [0, 3, 2, 1], [2, 0, 1, 3], [1, 0, 2, 3]):
    case(f"Transpose {p}", [X], ("Transpose", ["x"], {"perm": p}))
case("Transpose 3", [(1, 4, 6)], ("Transpose", ["x"], {"perm": [0, 2, 1]}))
for p in ([0, 2, 1, 3, 4], [0, 4, 1, 2, 3], [0, 3, 4, 1, 2], [0, 1, 4, 3, 2]):
    case(f"Transpose {p}", [(1, 2, 3, 4, 5)], ("Transpose", ["x"], {"perm": p}))
case("Reshape", [X], ("Reshape", ["x", i64(1, 3, 14, 9)], {}))
case("Flatten", [X], ("Flatten", ["x"], {}))
case("Flatten Relu", [X], ("Flatten", ["x"], {}), ("Relu", ["t0"], {}))
case("Squeeze", [(1, 6, 1, 9)], ("Squeeze", ["x", i64(2)], {}))
case("Unsqueeze", [(1, 6, 9)], ("Unsqueeze", ["x", i64(2)], {}))
case("Pad", [X], ("Pad", ["x", i64(0, 0, 1, 2, 0, 0, 3, 1), np.float32(0.5)], {}))
case("Pad channels", [X], ("Pad", ["x", i64(0, 2, 0, 0, 0, 1, 0, 0)], {}))
case("Pad edge", [X], ("Pad", ["x", i64(0, 0, 1, 2, 0, 0, 3, 1)], {"mode": "edge"}))
case("Pad reflect", [X], ("Pad", ["x", i64(0, 0, 1, 2, 0, 0, 3, 1)], {"mode": "reflect"}))
SCALES = np.array([1, 1, 2, 3], np.float32)
case("Resize nearest", [X], ("Resize", ["x", "", SCALES], {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}))
case("Resize nearest half_pixel", [X], ("Resize", ["x", "", SCALES], {"mode": "nearest"}))
case("Resize linear", [X], ("Resize", ["x", "", SCALES], {"mode": "linear"}))
case("Resize linear down", [X], ("Resize", ["x", "", "", i64(1, 6, 4, 5)], {"mode": "linear"}))
case("Resize align_corners", [X], ("Resize", ["x", "", "", i64(1, 6, 13, 4)], {"mode": "linear", "coordinate_transformation_mode": "align_corners"}))
case("Resize of one", [(1, 6, 1, 1)], ("Resize", ["x", "", "", i64(1, 6, 5, 4)], {"mode": "linear"}))
case("DepthToSpace", [(1, 8, 3, 5)], ("DepthToSpace", ["x"], {"blocksize": 2}))
case("DepthToSpace CRD", [(1, 8, 3, 5)], ("DepthToSpace", ["x"], {"blocksize": 2, "mode": "CRD"}))
for index in (0, -1, [1, 2], [4, 0, 0, 3]):
    case(f"Gather {index}", [X], ("Gather", ["x", np.array(index, np.int64)], {"axis": 1}))
    case(f"Gather {index} of the last", [X], ("Gather", ["x", np.array(index, np.int64)], {"axis": -1}))
case("Gather along the batch", [X], ("Gather", ["x", np.array(0, np.int64)], {"axis": 0}))
for step in (2, 3, -1, -2):
    a = (i64(0, 1), i64(9, 9)) if step > 0 else (i64(-1, -2), i64(-100, -100))
    case(f"Slice by {step}", [X], ("Slice", ["x", *a, i64(2, 3), i64(step, step)], {}))
    case(f"Slice of four axes by {step}", [(1, 2, 3, 9, 8)], ("Slice", ["x", *a, i64(3, 4), i64(step, step)], {}))
case("Slice of wide rows by 2", [(1, 3, 65)], ("Slice", ["x", i64(1), i64(1000), i64(2), i64(2)], {}))
case("Focus", [(1, 3, 64, 64)], *[("Slice", ["x", i64(i, k), i64(64, 64), i64(2, 3), i64(2, 2)], {}) for i in (0, 1) for k in (0, 1)],
     ("Concat", ["t0", "t1", "t2", "t3"], {"axis": 1}))
case("Tile", [X], ("Tile", ["x", i64(1, 2, 1, 3)], {}))
case("Tile of ones", [(1, 6, 1, 9)], ("Tile", ["x", i64(1, 2, 80, 3)], {}))
case("Expand", [(1, 6, 1, 1)], ("Expand", ["x", i64(1, 6, 70, 5)], {}))
case("Expand to more axes", [(1, 9)], ("Expand", ["x", i64(1, 6, 4, 9)], {}))
for op in ("Sum", "Mean", "Max", "Min"):
    case(f"{op} of three", [X, X], (op, ["x", "y", w(1, 6, 1, 1)], {}))
case("ReduceSumSquare", [X], ("ReduceSumSquare", ["x"], {"axes": [2, 3]}))
case("Softsign", [X], ("Softsign", ["x"], {}))
case("Celu", [X], ("Celu", ["x"], {"alpha": 0.7}))
case("Conv 1D depthwise", [(1, 6, 11)], ("Conv", ["x", w(6, 1, 3), w(6)], {"pads": [1, 2], "strides": [2], "group": 6}), ("Relu", ["t0"], {}))
case("ConvTranspose 1D", [(1, 6, 11)], ("ConvTranspose", ["x", w(6, 4, 3), w(4)], {"pads": [1, 0], "strides": [2], "output_padding": [1]}), ("Relu", ["t0"], {}))
case("ConvTranspose 1D groups", [(1, 6, 11)], ("ConvTranspose", ["x", w(6, 2, 3)], {"strides": [2], "group": 3}))
case("MaxPool 1D", [(1, 6, 11)], ("MaxPool", ["x"], {"kernel_shape": [3], "strides": [2], "pads": [1, 1]}))
case("AveragePool 1D", [(1, 6, 11)], ("AveragePool", ["x"], {"kernel_shape": [3], "strides": [2], "pads": [1, 0]}))
case("GlobalAveragePool 1D", [(1, 6, 11)], ("GlobalAveragePool", ["x"], {}))
case("GlobalMaxPool 3D", [(1, 6, 4, 5, 3)], ("GlobalMaxPool", ["x"], {}))
case("LayerNormalization", [(1, 5, 12)], ("LayerNormalization", ["x", w(12), w(12)], {"epsilon": 1e-4}))
case("Split in batches of 1", [(1, 2, 9)], ("Squeeze", ["x", i64(0)], {}), ("Split", ["t0", i64(1, 1)], {"axis": 0}, 2), ("Sub", ["t1", "t1b"], {}))
case("two outputs of one", [X], ("Relu", ["x"], {}), ("Neg", ["t0"], {}), ("Add", ["t0", "t1"], {}), ("Add", ["t2", "t0"], {}))
LOOSE = {"Celu", "Tanh", "Erf", "Gelu", "Gelu tanh", "Mish", "Selu", "Elu", "Softplus", "Conv Mish", "LogSoftmax", "Sigmoid", "Exp", "Atan", "Sin", "Cos"}


def model(shapes, nodes):
    made, constants = [], []
    for k, (op, inputs, attrs, *more) in enumerate(nodes):
        names = []
        for a in inputs:
            if isinstance(a, str):
                names.append(a)
                continue
            name = f"c{len(constants)}"
            constants.append(numpy_helper.from_array(np.asarray(a), name))
            names.append(name)
        outs = [f"t{k}"] + [f"t{k}b"] * (more == [2])
        made.append(helper.make_node(op, names, outs, name=f"n{k}", **attrs))
    ins = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in zip("xy", shapes)]
    g = helper.make_graph(made, "case", ins, [helper.make_tensor_value_info(f"t{len(nodes) - 1}", TensorProto.FLOAT, None)], constants)
    return helper.make_model(g, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


def run(qwb, work, shapes, nodes):
    m = model(shapes, nodes)
    onnx.save(m, f"{work}/m.onnx")
    feeds = {n: w(*s) for n, s in zip("xy", shapes)}
    given = []
    for n, x in feeds.items():
        np.save(f"{work}/{n}.npy", x)
        given += ["--input", f"{n}={work}/{n}.npy"]
    for args in (["run", f"{work}/m.onnx", *given, "--output", f"{work}/out"],
["calibrate", f"{work}/m.onnx", "--data", "synthetic:1", "--platform", "ncnn_int8", "-o", f"{work}/m.plan.json"],
                 ["export", f"{work}/m.plan.json", "--platform", "ncnn_int8", "--unverified", "-o", f"{work}/m.param"]):
        r = subprocess.run([qwb, *args], capture_output=True, text=True)
        if r.returncode:
            return r.stderr.strip().splitlines()[-1]
    want = np.load(f"{work}/out/t{len(nodes) - 1}.npy")
    net = ncnn.Net()
    o = net.opt
    o.num_threads, o.use_vulkan_compute, o.use_bf16_storage, o.use_fp16_storage = 1, False, False, False
    if net.load_param(f"{work}/m.param") or net.load_model(f"{work}/m.bin"):
        return "ncnn does not load it"
    ex = net.create_extractor()
    for n, x in feeds.items():
        ex.input(n, ncnn.Mat(np.ascontiguousarray(x[0])).clone())
    code, out = ex.extract(f"t{len(nodes) - 1}")
    got = np.array(out)
    if code or got.size != want.size:
        return f"ncnn gives {code}, {got.shape} for {want.shape}"
    return float(np.abs(got.ravel() - want.ravel()).max() / max(np.abs(want).max(), 1e-9))


def main(qwb):
    bad = 0
    for name, shapes, nodes in CASES:
        with tempfile.TemporaryDirectory() as work:
            r = run(qwb, work, shapes, nodes)
        wrong = isinstance(r, str) or not r <= (1e-3 if name in LOOSE else 1e-5)
        bad += wrong
        if wrong or "-v" in sys.argv:
            print(f"{name}: {r if isinstance(r, str) else format(r, '.3g')}")
    print(f"{len(CASES)} cases, {bad} wrong")
    return bad > 0


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    sys.exit(main(os.path.abspath(sys.argv[1])))
