#!/usr/bin/env python3
"""Holds qwb's gradients, run in ONNX Runtime, to those of PyTorch's autograd.

    torch.py        needs go, and torch, onnx, onnxscript, onnxruntime, numpy

Every module is exported with its weights as inputs, differentiated by `go run ./examples/gradients`, and run on random numbers. Printed is
the largest difference of a gradient, as a part of that gradient's largest element.
"""
import os
import subprocess
import sys
import tempfile

sys.path = [p for p in sys.path if os.path.abspath(p or ".") != os.path.dirname(os.path.abspath(__file__))]  # this file is called torch too
import numpy as np
import onnx, onnx.reference
import onnxruntime
import torch
from torch import nn
from torch.nn import functional as F

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LIMIT = 2e-5


def r(*shape):
    return torch.randn(*shape)


def attention(x, q, k, v, o, g, b):
    h = F.layer_norm(x, x.shape[-1:], g, b)
    split = lambda w: (h @ w).reshape(2, 5, 2, 4).transpose(1, 2)
    s = F.softmax(split(q) @ split(k).transpose(2, 3) * 0.5, -1) @ split(v)
    return x + F.gelu(s.transpose(1, 2).reshape(2, 5, 8) @ o)


def residual(x, w, b, v, c):
    return F.relu(F.conv2d(F.relu(F.conv2d(x, w, b, padding=1)), v, c, padding=1) + x)


def inverted(x, w, d, p, s1, s2):
    h = F.hardswish(F.conv2d(x, w))
    h = F.relu6(F.conv2d(h, d, stride=2, padding=1, groups=6))
    gate = F.hardsigmoid(F.conv2d(F.relu(F.conv2d(F.adaptive_avg_pool2d(h, 1), s1)), s2))
    return F.conv2d(h * gate, p)


def norm(f, *more):
    """A function behind one that keeps its arguments where it is smooth."""
    return lambda x: f(torch.tanh(x) * 0.5, *more)


def grouped(q, k, v, mask):
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)


CASES = {
    "residual block": (residual, (r(2, 4, 7, 7), r(4, 4, 3, 3), r(4), r(4, 4, 3, 3), r(4))),
    "inverted residual block": (inverted, (r(2, 3, 9, 9), r(6, 3, 1, 1), r(6, 1, 3, 3), r(4, 6, 1, 1), r(2, 6, 1, 1), r(6, 2, 1, 1))),
    "attention block": (attention, (r(2, 5, 8), r(8, 8), r(8, 8), r(8, 8), r(8, 8), r(8), r(8))),
    "conv, strides and groups": (lambda x, w, b: F.conv2d(x, w, b, stride=(2, 3), padding=(1, 2), dilation=(2, 1), groups=2),
                                 (r(2, 4, 11, 12), r(6, 2, 3, 3), r(6))),
    "conv, one axis": (lambda x, w: F.conv1d(x, w, padding=2, stride=2), (r(2, 3, 10), r(5, 3, 4))),
    "conv transpose": (lambda x, w, b: F.conv_transpose2d(x, w, b, stride=2, padding=1, output_padding=1), (r(2, 3, 4, 5), r(3, 4, 3, 3), r(4))),
    "linear": (lambda x, w, b: F.linear(x, w, b), (r(3, 5), r(4, 5), r(4))),
    "products that repeat": (lambda a, b: a @ b, (r(2, 1, 3, 4), r(5, 4, 2))),
    "max pool": (lambda x: F.max_pool2d(x, 3, 2, 1), (r(2, 3, 8, 8),)),
    "average pool": (lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False), (r(2, 3, 8, 8),)),
    "batch norm": (lambda x, w, b: F.batch_norm(x, torch.zeros(3) + 0.1, torch.ones(3) * 1.3, w, b), (r(2, 3, 5, 5), r(3), r(3))),
    "instance norm": (lambda x, w, b: F.instance_norm(x, None, None, w, b), (r(2, 3, 5, 5), r(3), r(3))),
    "log softmax": (lambda x: F.log_softmax(x, 1), (r(3, 7),)),
    "resize, linear": (lambda x: F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False), (r(1, 2, 4, 5),)),
    "resize, nearest": (lambda x: F.interpolate(x, scale_factor=2, mode="nearest"), (r(1, 2, 4, 5),)),
    "pad, slice, concat": (lambda x, y: torch.cat([F.pad(x, (1, 2), mode="reflect")[:, 1:], y], 1), (r(2, 3, 4), r(2, 2, 7))),
    "means": (lambda x, y: x.mean((1, 2), keepdim=True) * y - y.sum(0) / (x.abs() + 1).sqrt(), (r(2, 3, 4), r(2, 3, 4))),
    "pixel shuffle": (lambda x: F.pixel_shuffle(x, 2), (r(1, 8, 2, 3),)),
    "prelu": (lambda x, a: F.prelu(x, a), (r(2, 3, 4), r(3))),
    "max and where": (lambda x, y: torch.where(x > 0, torch.maximum(x, y), torch.minimum(x, y)), (r(3, 4), r(3, 4))),
    **{f.__name__: (f, (3 * r(4, 5),)) for f in (F.relu, F.leaky_relu, F.elu, F.selu, F.celu, F.softplus, F.softsign, F.mish, F.silu, F.gelu,
                                                  F.hardswish, F.hardsigmoid, F.relu6, F.hardshrink, F.softshrink, torch.tanh, torch.sigmoid,
                                                  torch.erf, torch.sin, torch.cos, torch.atan)},
    **{f.__name__: (norm(f), (r(4, 5),)) for f in (torch.tan, torch.asin, torch.acos)},
    "gelu by tanh": (lambda x: F.gelu(x, approximate="tanh"), (r(4, 5),)),
    "einsum": (lambda a, b, c: torch.einsum("bij,bjk,k->ki", a, b, c), (r(2, 3, 4), r(2, 4, 5), r(5))),
    "einsum, dots": (lambda a, b: torch.einsum("...ij,kj->...ik", a, b), (r(2, 2, 3, 4), r(5, 4))),
    "group norm": (lambda x, w, b: F.group_norm(x, 2, w, b), (r(2, 4, 3, 5), r(4), r(4))),
    "lrn": (lambda x: F.local_response_norm(x, 3, alpha=0.5), (r(2, 5, 3, 3),)),
    "normalize": (lambda x: F.normalize(x, dim=1), (r(2, 3, 4),)),
    "reductions": (lambda x: x.norm(dim=1) + x.logsumexp(1) + x.amax(1) + x.amin(1) + x.abs().sum(1), (r(2, 3, 4),)),
    "prod": (lambda x: x.prod(1), (r(2, 3, 4),)),
    "cumsum": (lambda x: x.cumsum(1), (r(2, 3, 4),)),
    "tril": (lambda x: x.tril(), (r(2, 4, 4),)),
    "gather": (lambda x: x.gather(1, torch.tensor([[0, 2, 2], [1, 1, 0]])), (r(2, 4),)),
    "scatter": (lambda x, y: x.scatter(1, torch.tensor([[0, 2], [1, 3]]), y), (r(2, 4), r(2, 2))),
    "top": (lambda x: x.topk(2, 1)[0], (r(3, 5),)),
    "remainder": (lambda x, y: torch.fmod(2 * x, y.abs() + 0.5), (r(3, 4), r(3, 4))),
    "tile, expand": (lambda x, y: x.repeat(2, 3) + y.expand(4, 9), (r(2, 3), r(4, 1))),
    "resize, cubic": (lambda x: F.interpolate(x, size=(7, 5), mode="bicubic", align_corners=False), (r(1, 2, 4, 5),)),
    "max pool, ceiling": (lambda x: F.max_pool2d(x, 3, 2, 0, ceil_mode=True), (r(1, 2, 8, 8),)),
    "split": (lambda x: torch.cat([a * b for a, b in zip(x.split(2, 1), x.split(2, 1)[::-1])], 0), (r(2, 6),)),
}

# Operators that PyTorch's exporter writes as others: the model by hand, and its meaning in PyTorch.
MODELS = {
    "attention": (23, "Attention", {}, lambda q, k, v: F.scaled_dot_product_attention(q, k, v), (r(2, 3, 4, 5), r(2, 3, 6, 5), r(2, 3, 6, 2))),
    "attention, causal": (23, "Attention", {"is_causal": 1}, lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
                          (r(2, 3, 4, 5), r(2, 3, 4, 5), r(2, 3, 4, 5))),
    "attention, shared heads": (23, "Attention", {}, grouped, (r(2, 4, 3, 6), r(2, 2, 5, 6), r(2, 2, 5, 4), r(2, 4, 3, 5))),
    "group norm of ONNX": (21, "GroupNormalization", {"num_groups": 2}, lambda x, w, b: F.group_norm(x, 2, w, b), (r(2, 4, 3, 5), r(4), r(4))),
    **{f.__name__: (18, f.__name__.capitalize(), {}, f, (x,))
       for x, f in ((r(4, 5), torch.asinh), (r(4, 5), torch.sinh), (r(4, 5), torch.cosh), (1.5 + torch.rand(4, 5), torch.acosh),
                    (torch.rand(4, 5) - 0.5, torch.atanh))},
    "thresholded relu": (18, "ThresholdedRelu", {"alpha": 0.3}, lambda x: F.threshold(x, 0.3, 0), (r(4, 5),)),
    "rms norm": (23, "RMSNormalization", {"epsilon": 1e-3}, lambda x, w: F.rms_norm(x, (5,), w, 1e-3), (r(2, 3, 5), r(5))),
    "swish of ONNX": (24, "Swish", {"alpha": 1.5}, lambda x: x * torch.sigmoid(1.5 * x), (r(4, 5),)),
}


class Module(nn.Module):
    def __init__(self, f):
        super().__init__()
        self.f = f

    def forward(self, *x):
        return self.f(*x)


def by_hand(file, opset, op, attributes, f, inputs, names):
    """A model of one operator."""
    info = lambda n, x: onnx.helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, x.shape)
    graph = onnx.helper.make_graph([onnx.helper.make_node(op, names, ["y"], op, **attributes)], op, [info(n, x) for n, x in zip(names, inputs)],
                                   [info("y", f(*inputs))])
    onnx.save(onnx.helper.make_model(graph, ir_version=10, opset_imports=[onnx.helper.make_opsetid("", opset)]), file)


def run(file, feeds):
    """The outputs by ONNX Runtime, where that has the operators, else by ONNX's reference; and whose they are."""
    try:
        return onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"]).run(None, feeds), "ONNX Runtime"
    except Exception:
        return onnx.reference.ReferenceEvaluator(file).run(None, feeds), "ONNX's reference"


def check(tool, f, inputs, folder, model=None):
    a, b = os.path.join(folder, "a.onnx"), os.path.join(folder, "b.onnx")
    names = [f"x{i}" for i in range(len(inputs))]
    if model:
        by_hand(a, *model, f, inputs, names)
    else:
        torch.onnx.export(Module(f), inputs, a, input_names=names, output_names=["y"], opset_version=18, dynamo=False)
    subprocess.run([tool, a, b], check=True)
    leaves = [x.clone().requires_grad_() for x in inputs]
    y = f(*leaves)
    seed = torch.randn_like(y)
    want = torch.autograd.grad((y * seed).sum(), leaves)
    got, by = run(b, {**{n: x.numpy() for n, x in zip(names, inputs)}, "seed": seed.numpy()})
    return max(float(np.abs(g - w.numpy()).max() / max(float(w.abs().max()), 1e-9)) for g, w in zip(got[1:], want)), by


def main():
    torch.manual_seed(1)
    onnxruntime.set_default_logger_severity(3)
    worst = 0.0
    with tempfile.TemporaryDirectory() as folder:
        tool = os.path.join(folder, "gradients")
        subprocess.run(["go", "build", "-o", tool, "./examples/gradients"], cwd=ROOT, check=True)
        every = {n: (f, x, None) for n, (f, x) in CASES.items()} | {n: (f, x, m) for n, (*m, f, x) in MODELS.items()}
        for name, (f, inputs, model) in every.items():
            d, by = check(tool, f, tuple(inputs), folder, model)
            worst = max(worst, d)
            print(f"{name:28} {d:.1e}  {by}", flush=True)
    print(f"{len(every)} graphs, PyTorch {torch.__version__}, ONNX Runtime {onnxruntime.__version__}: largest difference {worst:.1e}")
    sys.exit(worst > LIMIT)


if __name__ == "__main__":
    main()
