#!/usr/bin/env python3
"""Holds qwb's table of engines' faults (quantizer/target/faults.go, `qwb doctor --platform P`) against the engines.

  faults.py [--rows NAME,...] [--also ENGINE=SITE ...] [--work DIR] [--write]

Run it in the root of the repository. Needs: pip install numpy onnx==1.23.2 onnxruntime==1.32.0 openvino==2026.4.1
ai-edge-litert==2.3.0 ncnn==1.0.20261020. --also runs another version of an
engine as well, from a folder that `pip install --no-deps --target SITE onnxruntime==1.26.0` filled. For every row it builds the smallest model that
meets the fault, computes what ONNX says (by ONNX's operators on floats without any optimization, or by hand), runs the model in the engine in a process
of its own, and prints the noise-to-signal ratio, or how it failed. --write writes measured/faults_table.md. The exit code is 1 if a row that has to be
reproduced by the newest version is not.
"""
import argparse, json, os, subprocess, sys, tempfile
import numpy as np

F32, I8, U8, I16, I64, I4 = 1, 3, 2, 5, 7, 22
WORKER = """
import os, sys, numpy as np
engine, path, feeds, out, level = sys.argv[1:6]
z = dict(np.load(feeds))
if engine == "onnxruntime":
    import onnxruntime as ort
    o = ort.SessionOptions(); o.log_severity_level = 4; o.intra_op_num_threads = 1
    o.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL if level == "0" else ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    y = ort.InferenceSession(path, o, providers=["CPUExecutionProvider"]).run(None, z)[0]
elif engine == "ncnn":
    import ncnn
    net = ncnn.Net(); net.opt.num_threads = 1; net.opt.use_packing_layout = False; net.opt.lightmode = level != "0"
    net.opt.use_fp16_packed = net.opt.use_fp16_storage = net.opt.use_fp16_arithmetic = net.opt.use_bf16_storage = False
    assert net.load_param(path) == 0 and net.load_model(path[:-5] + "bin") == 0, "it does not load"
    ex = net.create_extractor()
    for n, x in z.items(): ex.input(n, ncnn.Mat(x).clone())
    y = None
    for n in open(path + ".out").read().split():
        code, m = ex.extract(n)
        assert code == 0, f"extract {n}: {code}"
        y = np.array(m)
elif engine == "ai_edge_litert":
    from ai_edge_litert import interpreter as tfl
    kind = tfl.OpResolverType.AUTO if level == "0" else tfl.OpResolverType.BUILTIN_REF
    it = tfl.Interpreter(path, experimental_op_resolver_type=kind, num_threads=1)
    it.allocate_tensors()
    it.set_tensor(it.get_input_details()[0]["index"], z["x0"]); it.invoke()
    y = it.get_tensor(it.get_output_details()[0]["index"])
else:
    import openvino as ov
    c = ov.Core(); m = c.compile_model(path, "CPU", {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1})
    y = m([z[next(n for n in i.get_names() if n in z)] for i in m.inputs])[0]
np.save(out, np.asarray(y))
"""
ROWS = {}


def row(name, engine, newest=True):
    """A reproduction of the row of that name; newest: the newest version of the engine has the fault."""
    def add(build):
        ROWS[name] = (engine, newest, build)
        return build
    return add


class Model:
    """A graph that is written from front to back. Values are float tensors; pair rounds one."""

    def __init__(self, opset=21, seed=0):
        self.nodes, self.inits, self.inputs, self.feeds, self.opset, self.n = [], [], [], {}, opset, 0
        self.rng = np.random.default_rng(seed)

    def const(self, x, dtype=None):
        from onnx import helper, numpy_helper
        self.n += 1
        name = f"c{self.n}"
        x = np.asarray(x)
        self.inits.append(helper.make_tensor(name, dtype, x.shape, x.ravel().tolist()) if dtype else numpy_helper.from_array(x, name))
        return name

    def input(self, *shape, low=-1.0, high=1.0):
        from onnx import helper
        name = f"x{len(self.inputs)}"
        self.inputs.append(helper.make_tensor_value_info(name, F32, shape))
        self.feeds[name] = self.rng.uniform(low, high, shape).astype(np.float32)
        return name

    def op(self, kind, *inputs, domain="", outputs=1, **attrs):
        from onnx import helper
        self.n += 1
        names = [f"v{self.n}" if i == 0 else "" for i in range(outputs)]
        self.nodes.append(helper.make_node(kind, list(inputs), names, domain=domain, **attrs))
        return names[0]

    def pair(self, x, scale=1 / 64, zero=128, dtype=np.uint8):
        s, z = self.const(np.float32(scale)), self.const(dtype(zero))
        return self.op("DequantizeLinear", self.op("QuantizeLinear", x, s, z), s, z)

    def weight(self, *shape, axis=0):
        """int8 weights with a scale per channel, those of the channels far apart."""
        w = self.rng.integers(-127, 128, shape).astype(np.int8)
        scale = (2.0 ** -self.rng.uniform(6, 10, shape[axis])).astype(np.float32)
        return self.op("DequantizeLinear", self.const(w), self.const(scale), self.const(np.zeros(shape[axis], np.int8)), axis=axis)

    def save(self, path, y):
        import onnx
        from onnx import helper
        out = onnx.ValueInfoProto(name=y)
        out.type.tensor_type.elem_type = F32
        g = helper.make_graph(self.nodes, "g", self.inputs, [out], self.inits)
        m = helper.make_model(g, opset_imports=[helper.make_opsetid("", self.opset), helper.make_opsetid("com.microsoft", 1)], ir_version=10)
        onnx.save(m, path)


# ---- ONNX Runtime -------------------------------------------------------------------------------------------------------------------

@row("ort-softmax-one", "onnxruntime", newest=False)
def _(m):
    return m.pair(m.op("Softmax", m.pair(m.input(1, 8, 1), 4.0), axis=-1), 1 / 256, 0)


@row("ort-softmax-int8", "onnxruntime", newest=False)
def _(m):
    scale, zero, ys, yz = m.const(np.float32(.1)), m.const(np.int8(0)), m.const(np.float32(1 / 256)), m.const(np.int8(-128))
    x = m.op("QuantizeLinear", m.input(1, 4), scale, zero)
    m.feeds["x0"] = np.array([[12, -12, -12, -12]], np.float32)
    m.want = np.array([[255 / 256, 0, 0, 0]])
    y = m.op("QLinearSoftmax", x, scale, zero, ys, yz, domain="com.microsoft", axis=-1, opset=13)
    return m.op("DequantizeLinear", y, ys, yz)


@row("ort-average-ceil", "onnxruntime")
def _(m):
    y = m.op("AveragePool", m.pair(m.input(1, 4, 8, 8)), kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1], ceil_mode=1, count_include_pad=1)
    return m.pair(y)


@row("ort-add-scales", "onnxruntime")
def _(m):
    a, b = m.input(1, 64), m.input(1, 64, low=0, high=0)
    return m.pair(m.op("Add", m.pair(a), m.pair(b, 2.0 ** 18)), 1 / 64)


@row("ort-resize-linear", "onnxruntime", newest=False)
def _(m):
    y = m.op("Resize", m.pair(m.input(1, 1, 1, 3, high=7, low=0), 1.0, 0, np.int8), "", "", m.const(np.array([1, 1, 1, 6])), mode="linear",
             coordinate_transformation_mode="half_pixel")
    return m.pair(y, 1.0, 0, np.int8)


@row("ort-resize-cubic", "onnxruntime")
def _(m):
    x = m.pair(m.op("Conv", m.pair(m.input(1, 16, 16, 16)), m.weight(16, 16, 3, 3), pads=[1] * 4), 0.1)
    x = m.pair(m.op("Resize", x, "", m.const(np.array([1, 1, .5, .5], np.float32)), mode="cubic"), 0.1)
    return m.pair(m.op("Conv", x, m.weight(16, 16, 3, 3), pads=[1] * 4), 0.5)


@row("ort-gemm-alpha", "onnxruntime", newest=False)
def _(m):
    bias = m.op("DequantizeLinear", m.const(np.array([4000, -3000, 2000], np.int32)), m.const(np.float32(1 / 64 / 64)), m.const(np.int32(0)))
    w = m.op("DequantizeLinear", m.const(m.rng.integers(-127, 128, (8, 3)).astype(np.int8)), m.const(np.float32(1 / 64)), m.const(np.int8(0)))
    return m.pair(m.op("Gemm", m.pair(m.input(2, 8)), w, bias, alpha=2.0), 1 / 8)


@row("ort-reshape-constant", "onnxruntime", newest=False)
def _(m):
    from onnx import helper
    w = m.op("Constant", value=helper.make_tensor("w", I8, [4], [12, -45, 7, -3]))
    s = m.op("Constant", value=helper.make_tensor("s", F32, [], [0.02]))
    shape = m.op("Constant", value=helper.make_tensor("t", I64, [2], [2, 2]))
    return m.op("Add", m.op("Reshape", m.op("DequantizeLinear", w, s), shape), m.input(2, 2, low=0, high=0))


def int4(m, k, n, block, axis=0, dtype=I4):
    q = m.rng.integers(-8, 8, (k, n))
    scale = m.rng.uniform(.01, .1, (k // block, n)).astype(np.float32)
    w = m.const(q, dtype) if dtype == I4 else m.const(q.astype(np.int8))
    return m.op("DequantizeLinear", w, m.const(scale), axis=axis, block_size=block)


@row("ort-blocks-512", "onnxruntime", newest=False)
def _(m):
    k, n, block = 1024, 32, 512
    q = m.rng.integers(0, 16, (n, k))
    scale = m.rng.uniform(.01, .1, (n, k // block)).astype(np.float32)
    packed = (q[:, 0::2] | q[:, 1::2] << 4).astype(np.uint8).reshape(n, k // block, block // 2)
    x = m.input(4, k)
    m.want = m.feeds[x].astype(np.float64) @ ((q - 8.0) * np.repeat(scale, block, 1)).T
    return m.op("MatMulNBits", x, m.const(packed), m.const(scale.ravel()), domain="com.microsoft", K=k, N=n, bits=4, block_size=block)


# ---- OpenVINO -----------------------------------------------------------------------------------------------------------------------

@row("ov-average-padding", "openvino")
def _(m):
    x = m.pair(m.input(1, 8, 8, 8, low=0, high=2), 1 / 64, 0)
    x = m.pair(m.op("Conv", x, m.weight(8, 8, 3, 3), pads=[1] * 4), 1 / 16)
    y = m.op("AveragePool", x, kernel_shape=[3, 3], pads=[1] * 4, count_include_pad=1)
    return m.op("Conv", m.pair(y, 1 / 16), m.weight(8, 8, 1, 1))


@row("ov-pool-columns", "openvino")
def _(m):
    x = m.op("MatMul", m.pair(m.input(1, 4, 8, 16)), m.weight(16, 16, axis=1))
    return m.op("MaxPool", x, kernel_shape=[1, 2], strides=[1, 2])


@row("ov-resize-columns", "openvino")
def _(m):
    x = m.op("MatMul", m.pair(m.input(1, 4, 8, 16)), m.weight(16, 16, axis=1))
    return m.op("Resize", x, "", m.const(np.array([1, 1, 1, 2], np.float32)), mode="nearest")


@row("ov-middle-sum", "openvino")
def _(m):
    return m.op("ReduceMean", m.pair(m.input(2, 7, 64)), m.const(np.array([1], np.int64)), keepdims=0)


@row("ov-few-rows", "openvino")
def _(m):
    x = m.pair(m.op("MatMul", m.pair(m.input(4, 16), zero=120), m.weight(16, 24, axis=1)), 1 / 16, 100)
    return m.pair(m.op("MatMul", x, m.weight(24, 32, axis=1)), 1 / 16, 128)


@row("ov-last-sum", "openvino")
def _(m):
    return m.op("GlobalAveragePool", m.pair(m.input(4, 2, 4), 1 / 64, 60))


@row("ov-repeated-product", "openvino")
def _(m):
    x = m.input(1, 3, 1, 3)
    m.inputs[0].type.tensor_type.shape.dim[0].dim_param = "N"
    return m.op("Expand", m.op("MatMul", m.pair(x), m.weight(3, 4, axis=1)), m.const(np.array([1, 3, 3, 4])))


@row("ov-cut-factor", "openvino")
def _(m):
    scale, x = .0777, m.input(1, 5, 9, 16)
    m.feeds[x] = (m.rng.integers(-3, 4, (1, 5, 9, 16)) * scale).astype(np.float32)
    x = m.pair(x, scale, 114)
    product = m.op("MatMul", m.pair(m.input(1, 5, 7, 9), 1 / 64, 0), x)
    return m.op("Concat", m.op("Ceil", x), product, axis=2)


@row("ov-negative-norm", "openvino")
def _(m):
    return m.pair(m.op("LayerNormalization", m.input(4, 16), m.const(np.float32([.5, -1] * 8))), 1 / 32, 120)


@row("ov-reduced-columns", "openvino")
def _(m):
    return m.op("GlobalMaxPool", m.op("Conv", m.pair(m.input(2, 4, 9)), m.weight(32, 4, 2)))


@row("ov-scaled-sum", "openvino")
def _(m):
    t = m.op("Mul", m.input(2, 8, 5), m.const(np.linspace(0.5, 3, 8, dtype=np.float32).reshape(1, 8, 1)))
    return m.op("Concat", m.op("GlobalMaxPool", t), m.op("MatMul", m.pair(t), m.weight(5, 4, axis=1)), axis=2)


@row("ov-shifted-padding", "openvino")
def _(m):
    x = m.input(2, 8, 5)
    t = m.op("Add", m.op("Mul", x, m.const(np.float32(1.7))), m.const(np.float32(0.7)))
    return m.op("Concat", m.op("AveragePool", t, kernel_shape=[3], pads=[1, 1], count_include_pad=1), m.op("MatMul", m.pair(x), m.weight(5, 4, axis=1)), axis=2)


@row("ov-reduce-axes", "openvino")
def _(m):
    m.opset = 13
    return m.op("ReduceL1", m.input(2, 7, 64), axes=[1], keepdims=0)


@row("ov-moved-ones", "openvino")
def _(m):
    return m.op("Transpose", m.op("ReduceMean", m.input(2, 1, 4, 5), m.const(np.array([2], np.int64)), keepdims=0), perm=[0, 2, 1])


@row("ov-gaps", "openvino")
def _(m):
    y = m.op("ConvTranspose", m.pair(m.input(1, 4, 5, 8, low=0, high=2), 1 / 128, 0), m.weight(4, 4, 3, 1, axis=1), m.const(np.float32([.3, -.2, .1, .4])),
             strides=[1, 2])
    return m.pair(y, 0.03, 88)


@row("ov-dilated-steps", "openvino")
def _(m):
    return m.op("ConvTranspose", m.pair(m.input(1, 16, 4, 4, low=0), 1 / 255, 0), m.weight(16, 8, 4, 3, axis=1), strides=[3, 3], dilations=[2, 2])


@row("ov-signed-steps", "openvino")
def _(m):
    return m.op("ConvTranspose", m.pair(m.input(2, 1, 2, 8), zero=0, dtype=np.int8), m.weight(1, 2, 3, 3, axis=1), m.const(np.float32([.3, -.2])),
                strides=[3, 3], pads=[0, 1, 0, 1])


@row("ov-small-norm", "openvino")
def _(m):
    a, b = (m.pair(m.input(*s, low=-.01, high=.01), 1e-4, 0, np.int8) for s in ((8, 16), (16, 8)))
    return m.op("LayerNormalization", m.op("MatMul", a, b), m.const(np.ones(8, np.float32)))


@row("ov-one-factor", "openvino")
def _(m):
    return m.op("MatMul", m.op("MatMul", m.pair(m.input(2, 32)), m.weight(32, 1, axis=1)), m.const(np.float32([[.7]])))


@row("ov-joined-int8", "openvino")
def _(m):
    x = m.op("Concat", m.input(1, 4, 8, 8), m.input(1, 4, 8, 8), axis=1)
    return m.op("Conv", m.pair(x, zero=0, dtype=np.int8), m.weight(8, 8, 1, 1))


@row("ov-rounded-max", "openvino")
def _(m):
    return m.pair(m.op("GlobalMaxPool", m.input(1, 16, 8, 8)), 1 / 100, 100)


@row("ov-clip-limits", "openvino")
def _(m):
    x = m.op("MatMul", m.pair(m.input(2, 15, 8)), m.weight(8, 4, axis=1))
    return m.op("Clip", m.pair(x, .4), m.const(np.float32(-.3)), m.const(np.float32(.5)))


@row("ov-joined-constant", "openvino")
def _(m):
    x = m.pair(m.op("Concat", m.input(1, 4, 8, 8), m.input(1, 4, 8, 8), axis=1), zero=100)
    return m.op("Relu", m.pair(m.op("Div", x, m.const(np.float32(3))), zero=100))


@row("ov-joined-channels", "openvino")
def _(m):
    return m.op("DepthToSpace", m.pair(m.op("Concat", m.input(1, 4, 8, 8), m.input(1, 4, 8, 8), axis=1), zero=100), blocksize=2)


@row("ov-joined-gather", "openvino")
def _(m):
    x = m.input(2, 3, 4, 5)
    return m.op("Gather", m.pair(m.op("Concat", m.pair(x), m.pair(x), axis=1), zero=100), m.const(np.int64(0)), axis=2)


@row("ov-joined-rows", "openvino")
def _(m):
    x, one = m.pair(m.input(1, 16, 8), zero=100), m.const(np.array([1], np.int64))
    a = m.op("Slice", x, one, m.const(np.array([16])), one)
    return m.op("MatMul", m.pair(m.op("Concat", a, m.op("Slice", x, m.const(np.array([0])), one, one), axis=1), zero=100), m.weight(8, 8, axis=1))


@row("ov-shared-sum", "openvino")
def _(m):
    x = m.input(2, 8, 6, 6, low=0, high=2)
    m.inputs[0].type.tensor_type.shape.dim[0].dim_param = "N"
    y = m.op("Conv", m.pair(x, 1 / 128, 0), m.weight(8, 8, 1, 1))
    return m.op("Sub", y, m.op("ReduceMean", y, m.const(np.array([2, 3], np.int64))))


@row("ov-open-scales", "openvino")
def _(m):
    x = m.input(2, 35, 3, 5)
    m.inputs[0].type.tensor_type.shape.dim[0].dim_param = "N"
    return m.pair(m.op("Mul", x, m.const(np.random.default_rng(0).normal(size=(35, 1, 1)).astype(np.float32))), 0.03, 120)


@row("ov-small-shift", "openvino")
def _(m):
    return m.pair(m.op("Sub", m.pair(m.input(2, 8, 4, 4, low=0, high=1), 0.0161, 0), m.const(np.float32(0.018))), 0.01612, 2)


@row("ov-column-constant", "openvino")
def _(m):
    y = m.pair(m.op("MatMul", m.input(1, 8, 1, 6), m.input(1, 8, 6, 1)), 0.03, 0)
    return m.op("Sub", y, m.const(np.random.default_rng(0).normal(size=(1, 8, 1, 1)).astype(np.float32)))


@row("ort-resize-corners", "onnxruntime")
@row("ov-resize-corners", "openvino")
def _(m):
    """By hand: places by the length of 16.5 that ONNX has (and its own test resize_downsample_scales_linear_align_corners)."""
    x, scales = m.input(1, 1, 1, 11), m.const(np.array([1, 1, 1, 1.5], np.float32))
    at = np.arange(16) * 10 / 15.5
    m.want = np.interp(at, np.arange(11), m.feeds[x].ravel()).reshape(1, 1, 1, 16)
    return m.op("Resize", x, "", scales, mode="linear", coordinate_transformation_mode="align_corners")


@row("ov-empty-constant", "openvino")
def _(m):
    return m.op("Concat", m.pair(m.const(np.zeros((1, 0, 8), np.float32))), m.pair(m.input(1, 4, 8)), axis=1)


@row("ov-float64", "openvino")
def _(m):
    from onnx import helper
    name = "x0"
    m.inputs.append(helper.make_tensor_value_info(name, 11, [1, 8, 16]))
    m.feeds[name] = m.rng.uniform(-1, 1, (1, 8, 16))
    return m.op("MatMul", m.pair(m.op("Cast", name, to=F32)), m.weight(16, 16, axis=1))


@row("ov-blocks-axis1", "openvino", newest=False)
def _(m):
    q, s = m.const(m.rng.integers(-8, 8, (96, 128)).astype(np.int8)), m.const(m.rng.uniform(.01, .1, (96, 4)).astype(np.float32))
    w = m.op("DequantizeLinear", q, s, axis=1, block_size=32)
    return m.op("MatMul", m.input(4, 128), m.op("Transpose", w, perm=[1, 0]))


# ---- ncnn and LiteRT: the engine itself in another mode says what is right ----------------------------------------------------------

class Net:
    """A network of ncnn: layers as text, inputs, outputs in the order in which they are asked for."""

    def __init__(self, layers, feeds, outputs):
        self.layers, self.feeds, self.outputs = layers, feeds, outputs

    def save(self, path, _):
        blobs = sum(int(l.split()[3]) for l in self.layers)
        with open(path, "w") as f: f.write("\n".join(["7767517", f"{len(self.layers)} {blobs}"] + self.layers) + "\n")
        open(path[:-5] + "bin", "wb").close()
        with open(path + ".out", "w") as f: f.write(" ".join(self.outputs))


@row("ncnn-light-blob", "ncnn")
def _(m):
    x = m.rng.uniform(-1, 1, (4, 4)).astype(np.float32)
    m.net = Net(["Input x 0 1 x", "ReLU r 1 1 x r", "Sigmoid s 1 1 r y"], {"x": x}, ["y", "r"])
    m.want = np.maximum(x, 0).astype(np.float64)
    return ""


@row("litert-reference-kernels", "ai_edge_litert")
def _(m):
    m.tflite = True
    return m.op("Relu", m.op("Tile", m.op("Conv", m.input(1, 4, 8, 8), m.const(m.rng.uniform(-1, 1, (4, 4, 1, 1)).astype(np.float32))),
                             m.const(np.array([1, 2, 1, 1]))))


@row("litert-add-scales", "ai_edge_litert")
def _(m):
    def far(path):
        """Makes the scale of an addend 2^20 times that of the sum."""
        from ai_edge_litert import schema_py_generated as s
        data = bytearray(open(path, "rb").read())
        file = s.Model.GetRootAs(data)
        g = file.Subgraphs(0)
        add, = [o for o in map(g.Operators, range(g.OperatorsLength())) if file.OperatorCodes(o.OpcodeIndex()).BuiltinCode() == s.BuiltinOperator.ADD]
        y = g.Tensors(add.Outputs(0)).Quantization().Scale(0)
        g.Tensors(add.Inputs(1)).Quantization().ScaleAsNumpy()[0] = y * 2 ** 20
        open(path, "wb").write(data)

    m.tflite, m.want, x = far, np.zeros((1, 8, 8, 4)), m.input(1, 4, 8, 8)
    return m.op("Add", *[m.op("Conv", x, m.const(m.rng.uniform(-1, 1, (4, 4, 1, 1)).astype(np.float32))) for _ in range(2)])


def tflite(qwb, model, work):
    """The .tflite that qwb writes of the float model."""
    import onnx
    data = os.path.join(work, "data"); os.makedirs(data, exist_ok=True)
    rng = np.random.default_rng(1)
    for i in range(4): np.save(os.path.join(data, f"{i}.npy"), rng.uniform(-1, 1, (1, 4, 8, 8)).astype(np.float32))
    plan = os.path.join(work, "t.plan.json")
    for args in (["calibrate", model, "--data", data, "--platform", "tflite_int8", "-o", plan],
                 ["export", plan, "--platform", "tflite_int8", "-o", model[:-5] + ".tflite"]):
        subprocess.run([qwb, *args], check=True, capture_output=True)
    return model[:-5] + ".tflite"


def built(work):
    qwb = os.path.join(work, "qwb")
    subprocess.run(["go", "build", "-o", qwb, "./cmd/qwb"], check=True)
    return qwb


def run(engine, path, feeds, out, level, site=None):
    env = dict(os.environ, PYTHONPATH=site or "")
    r = subprocess.run([sys.executable, "-c", WORKER, engine, path, feeds, out, level], capture_output=True, text=True, env=env, timeout=300)
    if r.returncode < 0: return None, f"ends the process (signal {-r.returncode})"
    if r.returncode: return None, "fails: " + (r.stderr.strip().splitlines() or ["?"])[-1].split(" : ")[-1][:90].replace("|", "/")
    return np.load(out).astype(np.float64), ""


def version(engine, site):
    r = subprocess.run([sys.executable, "-c", f"import {engine} as e; print(e.__version__)"], capture_output=True, text=True,
                       env=dict(os.environ, PYTHONPATH=site or ""))
    return r.stdout.split("-")[0].strip()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--rows"); ap.add_argument("--also", action="append", default=[]); ap.add_argument("--work"); ap.add_argument("--write", action="store_true")
    ap.add_argument("--qwb", help="the program; default: it is built")
    a = ap.parse_args()
    work = a.work or tempfile.mkdtemp()
    sites = [(e, None) for e in ("onnxruntime", "openvino", "ncnn", "ai_edge_litert")] + [tuple(x.split("=", 1)) for x in a.also]
    versions = {s: version(*s) for s in sites}
    lines, bad = [], 0
    for name, (engine, newest, build) in ROWS.items():
        if a.rows and name not in a.rows.split(","): continue
        m = Model()
        m.want = m.net = m.tflite = None
        y = build(m)
        path, feeds, out = (os.path.join(work, name + e) for e in (".param" if m.net else ".onnx", ".npz", ".npy"))
        (m.net or m).save(path, y)
        if m.tflite:
            path = tflite(a.qwb or built(work), path, work)
            if callable(m.tflite): m.tflite(path)
            m.feeds["x0"] = np.ascontiguousarray(m.feeds["x0"].transpose(0, 2, 3, 1))  # channels are last there
        np.savez(feeds, **(m.net or m).feeds)
        want, why = (m.want, "") if m.want is not None else run(engine if m.tflite else "onnxruntime", path, feeds, out, "0")
        if want is None: raise SystemExit(f"{name}: nothing to compare with: {why}")
        for s in sites:
            if s[0] != engine: continue
            got, how = run(engine, path, feeds, out, "all", s[1])
            if got is not None:
                if got.shape != want.shape: how = f"shape {list(got.shape)} for {list(want.shape)}"
                else:
                    nsr = float(np.square(got - want).sum() / max(np.square(want).sum(), 1e-30))
                    how = f"wrong, NSR {nsr:.2g}" if nsr > 1e-4 or not np.isfinite(nsr) else f"right, NSR {nsr:.2g}"
            wrong = not how.startswith("right")
            if s[1] is None and wrong != newest: bad, how = bad + 1, how + " (UNEXPECTED)"
            lines.append((name, f"{engine} {versions[s]}", how))
            print("%-22s %-22s %s" % lines[-1], flush=True)
    if a.write:
        with open("examples/engines/measured/faults_table.md", "w") as f:
            f.write("# Faults of engines, reproduced\n\nWritten by `examples/engines/faults.py`, on x86 with VNNI. The rows are those of `qwb doctor "
                    "--platform P`. *Right*: the fault is not in that\nversion, or not any more. NSR: noise-to-signal ratio of the engine's output.\n\n"
                    "| row | outcome | versions |\n|---|---|---|\n")
            for name in dict.fromkeys(n for n, _, _ in lines):
                for how in dict.fromkeys(h for n, _, h in lines if n == name):
                    f.write(f"| `{name}` | {how} | {', '.join(e if not i else e.split()[1] for i, e in enumerate(e for n, e, h in lines if (n, h) == (name, how)))} |\n")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
