"""Writes small.tflite, the model of tflite_test.go, with LiteRT's own schema classes, and reads FILE (what this package wrote) by them.

    pip install ai-edge-litert==2.3.0
    python small.py            # writes small.tflite
    python small.py FILE       # prints the file as the schema's classes see it
"""
import sys
import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as s


def show(x, indent=0):
    for k, v in sorted(vars(x).items()):
        if v is None:
            continue
        if isinstance(v, list) and v and hasattr(v[0], "__dict__"):
            for i, e in enumerate(v):
                print(" " * indent + f"{k}[{i}]")
                show(e, indent + 2)
        elif hasattr(v, "__dict__"):
            print(" " * indent + k)
            show(v, indent + 2)
        else:
            print(" " * indent + f"{k} = {v if len(str(v)) < 100 else str(v)[:100]}")


if len(sys.argv) > 1:
    show(s.ModelT.InitFromObj(s.Model.GetRootAs(open(sys.argv[1], "rb").read(), 0)))
    sys.exit()

BO, OP = s.BuiltinOptions, s.BuiltinOperator


def quant(**kw):
    q = s.QuantizationParametersT()
    for k, v in kw.items():
        setattr(q, k, v)
    return q


def tensor(name, type, shape, buffer=0, q=None, signature=None, variable=False, rank=False):
    t = s.TensorT()
    t.name, t.type, t.shape, t.buffer, t.quantization, t.shapeSignature, t.isVariable, t.hasRank = name, type, shape, buffer, q, signature, variable, rank
    return t


def op(code, inputs, outputs, kind=0, options=None, **kw):
    o = s.OperatorT()
    o.opcodeIndex, o.inputs, o.outputs, o.builtinOptionsType, o.builtinOptions = code, inputs, outputs, kind, None
    if options:
        table = options[0]()
        for k, v in options[1].items():
            setattr(table, k, v)
        o.builtinOptions = table
    for k, v in kw.items():
        setattr(o, k, v)
    return o


def code(builtin, version=1, custom=None):
    c = s.OperatorCodeT()
    c.builtinCode, c.deprecatedBuiltinCode, c.version, c.customCode = builtin, min(builtin, 127), version, custom
    return c


def buffer(data):
    b = s.BufferT()
    b.data = np.frombuffer(data, np.uint8) if data else None
    return b


def named(name, i):
    t = s.TensorMapT()
    t.name, t.tensorIndex = name, i
    return t


T = s.TensorType
g = s.SubGraphT()
g.name, g.inputs, g.outputs = "main", [0], [3]
g.tensors = [
    tensor("x", T.INT8, [1, 2, 2, 1], q=quant(scale=[0.5], zeroPoint=[-128], min=[0.0], max=[127.5]), signature=[-1, 2, 2, 1]),
    tensor("w", T.INT8, [2, 2, 2, 1], 1, quant(scale=[0.25, 1.0], zeroPoint=[0, 0])),
    tensor("b", T.INT32, [2], 1, rank=True),
    tensor("y", T.INT8, [1, 1, 1, 2], q=quant(scale=[0.5], zeroPoint=[3])),
    tensor("state", T.FLOAT32, [], variable=True),
    tensor("empty", T.FLOAT32, [0], q=quant()),
]
g.operators = [
    op(0, [0, 1, 2], [3], BO.Conv2DOptions, (s.Conv2DOptionsT, dict(padding=1, strideW=2, strideH=3, fusedActivationFunction=3, dilationWFactor=1, dilationHFactor=2))),
    op(1, [3, -1], [3], BO.ReshapeOptions, (s.ReshapeOptionsT, dict(newShape=[1, -1]))),
    op(2, [3], [3], BO.SoftmaxOptions, (s.SoftmaxOptionsT, dict(beta=1.5))),
    op(3, [], [4], BO.VarHandleOptions, (s.VarHandleOptionsT, dict(container="c", sharedName="n")), mutatingVariableInputs=[True, False]),
    op(4, [3], [4], BO.BucketizeOptions, (s.BucketizeOptionsT, dict(boundaries=[1.0, 2.0])), intermediates=[5]),
    op(5, [3], [4], BO.RandomOptions, (s.RandomOptionsT, dict(seed=-1 << 40, seed2=1 << 40))),
    op(6, [3], [4], customOptions=[9, 8]),
    op(7, [3], [4]),
]
h = s.SubGraphT()
h.name, h.inputs, h.outputs, h.tensors, h.operators = "other", [], [0], [tensor("t", T.BOOL, [1], 2)], []
m = s.ModelT()
m.version, m.description, m.subgraphs = 3, "small", [g, h]
m.operatorCodes = [code(OP.CONV_2D, 3), code(OP.RESHAPE), code(OP.SOFTMAX, 2), code(OP.VAR_HANDLE), code(OP.BUCKETIZE), code(OP.RANDOM_UNIFORM),
                   code(OP.CUSTOM, custom="Mine"), code(OP.STABLEHLO_CASE)]
m.buffers = [buffer(b""), buffer(bytes(range(1, 9))), buffer(b"\1"), buffer(b"1.5.0")]
meta = s.MetadataT()
meta.name, meta.buffer = "min_runtime_version", 3
m.metadata = [meta]
sig = s.SignatureDefT()
sig.signatureKey, sig.subgraphIndex, sig.inputs, sig.outputs = "serve", 0, [named("in", 0)], [named("out", 3)]
m.signatureDefs = [sig]
b = flatbuffers.Builder(1024)
b.Finish(m.Pack(b), b"TFL3")
open("small.tflite", "wb").write(b.Output())
