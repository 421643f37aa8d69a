#!/usr/bin/env python3
"""Records what engines answer: record.py FILE... writes the last part of each file anew.

A file has parts behind lines "-- NAME --". "network" is a network of Q and DQ as text, of ONNX operators with constants of numbers; its
input x is quantized first, and its output y is dequantized last. "engines" has one engine per line, with platform and arithmetic
profile of qwb: "onnxruntime PLATFORM PROFILE" runs the network, "litert:OPERATOR PLATFORM PROFILE" runs TFLite's operator of that name
on the integers instead of the network's only operator between Q and DQ. "answers" are the integers of y, one line per engine; those of x
come from a linear congruential generator. Needs numpy, and onnx with onnxruntime, or ai-edge-litert with flatbuffers."""
import re
import sys

import numpy as np

TYPES = {"f32": np.float32, "i8": np.int8, "u8": np.uint8, "i16": np.int16, "u16": np.uint16, "i32": np.int32, "i64": np.int64}


def parts(text):
    pieces = re.split(r"(?m)^-- (\w+) --\n", text)
    return dict(zip(pieces[1::2], pieces[2::2]))


class Network:
    def __init__(self, text):
        self.constants, self.nodes, self.opset = {}, [], int(re.search(r"opset (\d+)", text)[1])
        self.type, shape = re.search(r"input x: (\w+)\[([\d,]*)\]", text).groups()
        self.shape = [int(n) for n in shape.split(",")]
        for name, kind, shape, values in re.findall(r"const (\w+): (\w+)\[([\d,]*)\] = \[?([^\]\n]*)\]?", text):
            shape = [int(n) for n in shape.split(",") if n]
            self.constants[name] = np.array([float(v) for v in values.split(",")]).astype(TYPES[kind]).reshape(shape)
        for out, op, ins, rest in re.findall(r"(?m)^(\w+) = (\w+)\(([^)]*)\)(.*)$", text):
            attrs = {}
            for key, value in re.findall(r"(\w+)=(\[[^\]]*\]|[-\d.]+|\"[^\"]*\")", (re.search(r"\{(.*)\}", rest) or ["", ""])[1]):
                attrs[key] = eval(value)
            self.nodes.append((op, [i.strip() for i in ins.split(",")], out, attrs))

    def maker(self, name):
        return next(n for n in self.nodes if n[2] == name)

    def grid(self, node):
        """Scale and zero point of a Q or DQ."""
        return self.constants[node[1][1]], self.constants[node[1][2]]


def drawn(n, kind, seed=20261122):
    out = np.zeros(n, np.int64)
    for i in range(n):
        seed = (seed * 1103515245 + 12345) & (2 ** 31 - 1)
        out[i] = seed >> 8 & 0xFFFF
    return out.astype(np.uint16).astype(TYPES[kind]) if kind in ("i16", "u16") else (out >> 8).astype(np.uint8).astype(TYPES[kind])


def onnxruntime(net, codes):
    import onnx
    import onnxruntime as ort
    from onnx import helper, numpy_helper
    nodes = [helper.make_node(op, ins, [out], **attrs) for op, ins, out, attrs in net.nodes]
    io = [helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, None if n == "y" else net.shape) for n in "xy"]
    graph = helper.make_graph(nodes, "g", io[:1], io[1:], [numpy_helper.from_array(v, k) for k, v in net.constants.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", net.opset)], ir_version=8)
    scale, zero = net.grid(next(n for n in net.nodes if n[1][0] == "x"))
    x = ((codes.astype(np.int32) - zero.astype(np.int32)).astype(np.float32) * scale).reshape(net.shape)
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    scale, zero = net.grid(net.maker("y"))
    return np.rint(session.run(None, {"x": x})[0].astype(np.float64) / scale).astype(np.int64) + int(zero)


def litert(net, codes, operator):
    import flatbuffers
    from ai_edge_litert import interpreter as tfl, schema_py_generated as S
    types = {np.dtype(np.int8): S.TensorType.INT8, np.dtype(np.int16): S.TensorType.INT16}
    model, graph, op, code = S.ModelT(), S.SubGraphT(), S.OperatorT(), S.OperatorCodeT()
    model.version, model.buffers, graph.tensors, graph.name = 3, [S.BufferT()], [], "g"

    def tensor(name, dtype, shape, scale, zero, data=None):
        t = S.TensorT()
        t.name, t.shape, t.type, t.buffer = name, list(shape), types[np.dtype(dtype)], 0
        if data is not None:
            b = S.BufferT()
            b.data, t.buffer = np.frombuffer(data.tobytes(), np.uint8), len(model.buffers)
            model.buffers.append(b)
        t.quantization = S.QuantizationParametersT()
        t.quantization.scale, t.quantization.zeroPoint = [float(scale)], [int(zero)]
        graph.tensors.append(t)
        return len(graph.tensors) - 1

    middle = next(n for n in net.nodes if n[0] not in ("QuantizeLinear", "DequantizeLinear"))
    op.inputs = []
    for name in middle[1]:
        dq = net.maker(name)
        constant = net.constants.get(dq[1][0])
        own = codes.reshape(net.shape) if constant is None else constant
        op.inputs.append(tensor(name, own.dtype, own.shape, *net.grid(dq), constant))
    scale, zero = net.grid(net.maker("y"))
    op.outputs, op.opcodeIndex = [tensor("y", zero.dtype, net.shape, scale, zero)], 0
    graph.inputs, graph.outputs, graph.operators = op.inputs[:1], op.outputs, [op]
    builtin = getattr(S.BuiltinOperator, operator)
    code.builtinCode, code.deprecatedBuiltinCode, code.version = builtin, min(builtin, 127), 1
    model.operatorCodes, model.subgraphs = [code], [graph]
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    it = tfl.Interpreter(model_content=bytes(builder.Output()), experimental_op_resolver_type=tfl.OpResolverType.BUILTIN_REF)
    it.allocate_tensors()
    it.set_tensor(it.get_input_details()[0]["index"], codes.reshape(net.shape))
    it.invoke()
    return it.get_tensor(it.get_output_details()[0]["index"])


for path in sys.argv[1:]:
    text = open(path).read()
    p = parts(text)
    net = Network(p["network"])
    q = next(n for n in net.nodes if n[1][0] == "x")
    codes = drawn(int(np.prod(net.shape)), {v: k for k, v in TYPES.items()}[net.grid(q)[1].dtype.type])
    old, answers = p.get("answers", "").splitlines(), []
    for i, line in enumerate(p["engines"].splitlines()):
        engine, _, operator = line.split()[0].partition(":")
        try:
            y = litert(net, codes, operator) if engine == "litert" else onnxruntime(net, codes)
        except ImportError:  # this Python has the other engine
            answers.append(old[i] if i < len(old) else "")
            continue
        answers.append(" ".join(str(v) for v in y.flatten()))
    open(path, "w").write(text.split("-- answers --\n")[0] + "-- answers --\n" + "\n".join(answers) + "\n")
