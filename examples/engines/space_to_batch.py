#!/usr/bin/env python3
"""int8 .tflite files with SPACE_TO_BATCH_ND, a convolution and BATCH_TO_SPACE_ND: imported by qwb as one convolution with dilation, written again, and
both files run by LiteRT.

  space_to_batch.py QWB WORK

Needs: pip install ai-edge-litert==2.3.0 flatbuffers numpy. Weights and codes are random; one scale for each output channel.
"""
import os, subprocess, sys
import flatbuffers, numpy as np
from ai_edge_litert import schema_py_generated as s
from ai_edge_litert.interpreter import Interpreter, OpResolverType

# kind, input height, width and channels, outputs, kernel, blocks, padding of SPACE_TO_BATCH_ND, cropping of BATCH_TO_SPACE_ND
CASES = {
    "conv, 2x2, as SAME": ("CONV_2D", (7, 8, 3), 5, (3, 3), (2, 2), [[2, 3], [2, 2]], [[0, 1], [0, 0]]),
    "conv, 4x4, as SAME": ("CONV_2D", (16, 16, 8), 6, (3, 3), (4, 4), [[4, 4], [4, 4]], [[0, 0], [0, 0]]),
    "conv, 3x2, as VALID": ("CONV_2D", (13, 9, 4), 7, (3, 2), (3, 2), [[0, 2], [0, 1]], [[0, 2], [0, 1]]),
    "depthwise, 2x2, as SAME": ("DEPTHWISE_CONV_2D", (7, 8, 6), 6, (3, 3), (2, 2), [[2, 3], [2, 2]], [[0, 1], [0, 0]]),
    "depthwise, 3x2, as VALID": ("DEPTHWISE_CONV_2D", (9, 7, 3), 3, (2, 3), (3, 2), [[0, 0], [0, 1]], [[0, 0], [0, 1]]),
}


def build(kind, shape, outputs, kernel, blocks, pads, crops, rng):
    m, g = s.ModelT(), s.SubGraphT()
    m.version, m.description, m.buffers, m.operatorCodes, m.subgraphs = 3, "", [s.BufferT()], [], [g]
    g.tensors, g.operators = [], []
    def tensor(name, type_, dims, scale=None, zero=0, axis=0, data=None):
        t = s.TensorT()
        t.name, t.type, t.shape, t.buffer = name, type_, list(dims), 0
        if scale is not None:
            t.quantization = s.QuantizationParametersT()
            t.quantization.scale, t.quantization.zeroPoint = list(np.atleast_1d(scale)), [zero] * np.size(scale)
            t.quantization.quantizedDimension = axis
        if data is not None:
            b = s.BufferT(); b.data = np.frombuffer(data.tobytes(), np.uint8)
            m.buffers.append(b); t.buffer = len(m.buffers) - 1
        g.tensors.append(t)
        return len(g.tensors) - 1
    def operator(name, version, inputs, outputs, kind=0, options=None):
        c = s.OperatorCodeT(); c.builtinCode = c.deprecatedBuiltinCode = getattr(s.BuiltinOperator, name); c.version = version
        m.operatorCodes.append(c)
        o = s.OperatorT()
        o.opcodeIndex, o.inputs, o.outputs, o.builtinOptionsType, o.builtinOptions = len(m.operatorCodes) - 1, inputs, outputs, kind, options
        g.operators.append(o)
    ints = lambda name, v: tensor(name, s.TensorType.INT32, np.shape(v), data=np.array(v, np.int32))
    wide = kind == "DEPTHWISE_CONV_2D"
    size = [(shape[i] + sum(pads[i])) // blocks[i] for i in range(2)]
    inner = [size[i] - kernel[i] + 1 for i in range(2)]
    batch, code = blocks[0] * blocks[1], s.TensorType.INT8
    x = tensor("x", code, (1, *shape), 0.02, 3)
    a = tensor("apart", code, (batch, *size, shape[2]), 0.02, 3)
    scales = rng.uniform(0.002, 0.01, outputs).astype(np.float32)
    w = tensor("w", code, (1, *kernel, outputs) if wide else (outputs, *kernel, shape[2]), scales, 0, 3 if wide else 0,
               rng.integers(-127, 128, (1, *kernel, outputs) if wide else (outputs, *kernel, shape[2])).astype(np.int8))
    b = tensor("b", s.TensorType.INT32, (outputs,), scales * np.float32(0.02), 0, 0, rng.integers(-2000, 2000, outputs).astype(np.int32))
    y = tensor("y", code, (batch, *inner, outputs), 0.07, -5)
    z = tensor("z", code, (1, *(inner[i] * blocks[i] - sum(crops[i]) for i in range(2)), outputs), 0.07, -5)
    o = s.DepthwiseConv2DOptionsT() if wide else s.Conv2DOptionsT()
    o.padding, o.strideW, o.strideH, o.dilationWFactor, o.dilationHFactor = s.Padding.VALID, 1, 1, 1, 1
    if wide: o.depthMultiplier = 1
    operator("SPACE_TO_BATCH_ND", 2, [x, ints("blocks", blocks), ints("pads", pads)], [a])
    operator(kind, 3, [a, w, b], [y], s.BuiltinOptions.DepthwiseConv2DOptions if wide else s.BuiltinOptions.Conv2DOptions, o)
    operator("BATCH_TO_SPACE_ND", 2, [y, ints("blocks2", blocks), ints("crops", crops)], [z])
    g.inputs, g.outputs = [x], [z]
    f = flatbuffers.Builder(4096)
    f.Finish(m.Pack(f), b"TFL3")
    return bytes(f.Output())


def run(file, x):
    it = Interpreter(file, experimental_op_resolver_type=OpResolverType.BUILTIN_REF)
    it.allocate_tensors()
    out = []
    for one in x:
        d = it.get_input_details()[0]
        it.set_tensor(d["index"], one.reshape(d["shape"]).astype(d["dtype"]))
        it.invoke()
        d = it.get_output_details()[0]
        out.append(it.get_tensor(d["index"]).copy())
    return np.stack(out), [o["op_name"] for o in it._get_ops_details()]


def main(qwb, work):
    os.makedirs(work, exist_ok=True)
    rng = np.random.default_rng(1)
    print("| network | operators of the file | written again | output codes | different |\n|---|---|---|---|---|")
    for name, case in CASES.items():
        base = os.path.join(work, name.replace(", ", "_").replace(" ", "_"))
        with open(base + ".tflite", "wb") as f: f.write(build(*case, rng))
        for args in (["import", base + ".tflite", "--platform", "tflite_int8", "-o", base + ".plan.json"],
                     ["export", base + ".plan.json", "--platform", "tflite_int8", "--inputs", "integers", "--outputs", "integers", "--unverified", "-o", base + ".again.tflite"]):
            r = subprocess.run([qwb, *args], capture_output=True, text=True)
            if r.returncode: sys.exit(f"{name}: {r.stderr}")
        x = rng.integers(-128, 128, (16, 1, *case[1]))
        (u, before), (v, after) = run(base + ".tflite", x), run(base + ".again.tflite", x)
        print(f"| {name} | {', '.join(before)} | {', '.join(after)} | {u.size} | {int((u != v.reshape(u.shape)).sum())} |")


main(*sys.argv[1:3])
