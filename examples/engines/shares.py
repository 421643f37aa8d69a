"""The part of a file's multiply-accumulates that its engine does on integers, as the engine itself tells, behind all of its own optimizations.

ONNX Runtime: the kernels and shapes of a profiled run. OpenVINO: layers and precisions of the runtime model; what its subgraphs contain stands in the
model that it writes for its cache. LiteRT: the operators of the interpreter, by the types that they read. Each function takes one sample, by the inputs'
names, and returns a Share.
"""
import json, math, os, tempfile, xml.etree.ElementTree as xml
import numpy as np, onnx


class Share:
    """Multiply-accumulates by whether they are on integers, and the operators: name, kind, multiply-accumulates."""

    def __init__(self): self.macs, self.operators = {True: 0, False: 0}, {True: [], False: []}

    def add(self, name, kind, integers, n):
        self.macs[integers] += n; self.operators[integers].append((name, kind, n))

    @property
    def part(self): return self.macs[True] / max(sum(self.macs.values()), 1)


RECURRENT = {"LSTM": 4, "DynamicQuantizeLSTM": 4, "GRU": 3, "RNN": 1}  # gates


def convolution(weights, y): return math.prod(y) * math.prod(weights[1:])  # weights: outputs, inputs of a group, kernel


def onnxruntime(file, sample):
    import onnxruntime as ort
    o = ort.SessionOptions(); o.intra_op_num_threads, o.enable_profiling = 1, True
    with tempfile.TemporaryDirectory() as t:
        o.profile_file_prefix, o.optimized_model_filepath = os.path.join(t, "p"), os.path.join(t, "m.onnx")
        s = ort.InferenceSession(file, o, providers=["CPUExecutionProvider"])
        s.run(None, {i.name: sample[i.name] for i in s.get_inputs()})
        with open(s.end_profiling()) as f: events = json.load(f)
        graph = onnx.load(o.optimized_model_filepath).graph
    constants, nodes = {c.name: tuple(c.dims) for c in graph.initializer}, {n.name: n for n in graph.node}
    integer = {"QLinearConv": 3, "ConvInteger": 1, "QGemm": 3, "QLinearMatMul": 3, "MatMulInteger": 1, "MatMulIntegerToFloat": 1, "DynamicQuantizeMatMul": 1}
    float_ = dict.fromkeys(("Conv", "FusedConv", "NhwcFusedConv", "ConvTranspose", "Gemm", "FusedGemm", "MatMul", "FusedMatMul"), 1)
    out = Share()
    for e in events:
        a = e.get("args", {})
        kind = a.get("op_name", "")
        if not e["name"].endswith("_kernel_time"): continue
        if kind in RECURRENT:
            node = nodes[e["name"][:-12]]
            steps, batch, width = tuple(next(iter(a["input_type_shape"][0].values())))
            hidden = next(k.i for k in node.attribute if k.name == "hidden_size")
            two = any(k.name == "direction" and k.s == b"bidirectional" for k in node.attribute)
            out.add(node.name, kind, kind == "DynamicQuantizeLSTM", (1 + two) * steps * batch * RECURRENT[kind] * hidden * (width + hidden))
            continue
        if "Attention" in kind or kind == "MatMulNBits": raise NotImplementedError(kind)
        if kind not in integer | float_: continue
        node, second = nodes[e["name"][:-12]], (integer | float_)[kind]
        shapes = [tuple(next(iter(s.values()))) for s in a["input_type_shape"]]
        x, y, w = shapes[0], tuple(next(iter(a["output_type_shape"][0].values()))), constants.get(node.input[second]) or shapes[second]
        turned = any(k.name == "transA" and k.i for k in node.attribute)
        if kind == "ConvTranspose": n = math.prod(x) * math.prod(w[1:])
        else: n = convolution(w, y) if "Conv" in kind else math.prod(y) * x[-2 if turned else -1]
        out.add(node.name, kind, kind in integer, n)
    return out


def openvino(model, sample):
    """Of a file, or a model."""
    import openvino as ov
    core, same = ov.Core(), lambda text: text
    if isinstance(model, str): model = core.read_model(model)
    if model.is_dynamic(): model.reshape({i: list(sample[n].shape) for i in model.inputs for n in i.get_names() if n in sample})
    c = core.compile_model(model, "CPU", {"INFERENCE_NUM_THREADS": 1, "INFERENCE_PRECISION_HINT": "f32", "CACHE_ENCRYPTION_CALLBACKS": [same, same]})
    out = Share()
    for op in c.get_runtime_model().get_ordered_ops():
        kind, precision = (op.get_rt_info()[k].astype(str) for k in ("layerType", "runtimePrecision"))
        if kind in ("ScaledDotProductAttention", "MHA"): raise NotImplementedError(kind)
        if kind not in ("Convolution", "Deconvolution", "FullyConnected", "MatMul"): continue
        x, w, y = (tuple(t.get_shape()) for t in (op.input(0), op.input(1), op.output(0)))
        if kind == "Convolution": n = math.prod(y) * math.prod(w) // y[1]
        elif kind == "Deconvolution": n = math.prod(x) * math.prod(w) // x[1]
        else: n = math.prod(y) * (math.prod(w[-2:]) // y[-1] if len(w) > 1 else w[0])
        out.add(op.get_friendly_name(), kind, precision in ("i8", "u8"), n)
    blob = c.export_model()
    blob = blob.read() if hasattr(blob, "read") else bytes(blob)
    for graph in xml.fromstring(blob[blob.find(b"<net name="):blob.rfind(b"</net>") + 6]).iter("body"):
        for l in graph.iter("layer"):
            if l.get("type") not in ("MatMul", "Brgemm"): continue
            types, shapes = zip(*((p.get("precision"), [int(d.text) for d in p.iter("dim")]) for p in l.iter("port")))
            k = shapes[0][-2 if l.find("data").get("transpose_a") == "true" else -1]
            out.add(l.get("name"), "MatMul of a subgraph", types[0] in ("I8", "U8") and types[1] in ("I8", "U8"), math.prod(shapes[2]) * k)
    return out


def litert(file, _=None):
    from ai_edge_litert import interpreter as tfl
    it = tfl.Interpreter(file)
    it.allocate_tensors()
    tensors, out = {t["index"]: t for t in it.get_tensor_details()}, Share()
    for op in it._get_ops_details():
        kind = op["op_name"]
        if kind not in ("CONV_2D", "DEPTHWISE_CONV_2D", "TRANSPOSE_CONV", "FULLY_CONNECTED", "BATCH_MATMUL"): continue
        ins = [tensors[i] for i in op["inputs"] if i >= 0]
        y = tuple(tensors[op["outputs"][0]]["shape"])
        x, w = ins[0], ins[1]["shape"]
        if kind == "CONV_2D": n = math.prod(y) * math.prod(w[1:])
        elif kind == "DEPTHWISE_CONV_2D": n = math.prod(y) * w[1] * w[2]
        elif kind == "TRANSPOSE_CONV": x = ins[2]; n = math.prod(x["shape"]) * math.prod(w[:3])
        elif kind == "FULLY_CONNECTED": n = math.prod(y) * w[1]
        else: n = math.prod(y) * (math.prod(w[-2:]) // y[-1])
        integers = np.dtype(ins[1]["dtype"]).kind in "iu" if kind != "TRANSPOSE_CONV" else np.dtype(x["dtype"]).kind in "iu"  # hybrid: real inputs get a scale of run time
        out.add(f"{kind} {op['index']}", kind, integers, int(n))
    return out


OF = {"onnxruntime": onnxruntime, "openvino": openvino, "tflite": litert}
