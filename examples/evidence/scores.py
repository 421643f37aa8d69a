"""The error of a quantized ONNX file in ONNX Runtime against its float model, sample by sample."""
import functools, math
import numpy as np
import onnx
import onnxruntime as ort

PASSIVE = ("Identity", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "DequantizeLinear", "QuantizeLinear")


def scores(path):
    """The model with the tensors that its Softmaxes read in place of the outputs that they compute, and for each output the axis of the
    classes (None: no Softmax; (axis, "on"): all axes from there on)."""
    m = onnx.load(path)
    made = {o: n for n in m.graph.node for o in n.output}
    old = next(o.version for o in m.opset_import if o.domain in ("", "ai.onnx")) < 13  # then a row is all axes from axis on
    names, axes = [], []
    for out in m.graph.output:
        n, axis, name = made.get(out.name), None, out.name
        while n and n.op_type in PASSIVE: n = made.get(n.input[0])
        if n and n.op_type in ("Softmax", "LogSoftmax"):
            axis, name = next((x.i for x in n.attribute if x.name == "axis"), 1 if old else -1), n.input[0]
            if old: axis = (axis, "on")
        names.append(name); axes.append(axis)
    del m.graph.output[:]
    m.graph.output.extend(onnx.helper.make_tensor_value_info(x, onnx.TensorProto.FLOAT, None) for x in dict.fromkeys(names))
    return m, names, axes


class Runner:
    def __init__(self, path, optimize=True, threads=2):
        m, self.names, self.axes = scores(path)
        so = ort.SessionOptions(); so.intra_op_num_threads = threads; so.log_severity_level = 4
        so.graph_optimization_level = getattr(ort.GraphOptimizationLevel, "ORT_ENABLE_ALL" if optimize else "ORT_DISABLE_ALL")
        self.session = ort.InferenceSession(m.SerializeToString(), so, providers=["CPUExecutionProvider"])
        self.input = self.session.get_inputs()[0].name

    def __call__(self, x):
        """By output: the scores as [position, class], and whether there are classes; without them one row."""
        for y, axis in zip(self.session.run(self.names, {self.input: x}), self.axes):
            y = y.astype(np.float64)
            if isinstance(axis, tuple): yield y.reshape(*(math.prod(part) for part in (y.shape[:axis[0]], y.shape[axis[0]:]))), True
            elif axis is not None: yield np.moveaxis(y, axis, -1).reshape(-1, y.shape[axis]), True
            elif y.ndim == 4 and y.shape[1] > 1: yield np.moveaxis(y, 1, -1).reshape(-1, y.shape[1]), False  # a map: its largest channel is the answer
            else: yield y.reshape(1, -1), False


@functools.lru_cache(2)
def reference(path, inputs, threads):
    """What the float model says of each input."""
    f = Runner(path, True, threads)
    return [[(y.astype(np.float32), classes) for y, classes in f(np.load(x))] for x in inputs]


def compare(model, path, inputs, optimize=True, threads=2):
    """By sample: the NSR (of scores after the mean over the classes is taken off; mean over outputs), that of what Softmax makes of them, and
    the share of answers that change."""
    q, nsr, plain, changed = Runner(path, optimize, threads), [], [], []
    for file, float_ in zip(inputs, reference(model, tuple(inputs), threads)):
        e, p, c = [], [], []
        for (a, classes), (b, _) in zip(q(np.load(file)), float_):
            b = b.astype(np.float64)
            if a.shape[1] > 1: c.append(np.mean(a.argmax(1) != b.argmax(1)))
            if classes:
                p.append(ratio(softmax(a), softmax(b)))
                a, b = (y - y.mean(1, keepdims=True) for y in (a, b))
            e.append(ratio(a, b))
        nsr.append(float(np.mean(e))); plain.append(float(np.mean(p or e))); changed.append(float(np.mean(c)) if c else 0.0)
    return nsr, plain, changed


def ratio(a, b):
    return ((a - b) ** 2).sum() / ((b ** 2).sum() + 1e-7)


def softmax(x):
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def error(x):
    """The standard error of the mean."""
    return float(np.std(x, ddof=1) / math.sqrt(len(x)))
