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
                                                  F.hardswish, F.hardsigmoid, F.relu6, torch.tanh, torch.sigmoid, torch.erf, torch.sin)},
}


class Module(nn.Module):
    def __init__(self, f):
        super().__init__()
        self.f = f

    def forward(self, *x):
        return self.f(*x)


def check(tool, name, f, inputs, folder):
    a, b = os.path.join(folder, "a.onnx"), os.path.join(folder, "b.onnx")
    names = [f"x{i}" for i in range(len(inputs))]
    torch.onnx.export(Module(f), inputs, a, input_names=names, output_names=["y"], opset_version=18, dynamo=False)
    subprocess.run([tool, a, b], check=True)
    leaves = [x.clone().requires_grad_() for x in inputs]
    y = f(*leaves)
    seed = torch.randn_like(y)
    want = torch.autograd.grad((y * seed).sum(), leaves)
    s = onnxruntime.InferenceSession(b, providers=["CPUExecutionProvider"])
    got = s.run(None, {**{n: x.numpy() for n, x in zip(names, inputs)}, "seed": seed.numpy()})[1:]
    return max(float(np.abs(g - w.numpy()).max() / max(float(w.abs().max()), 1e-9)) for g, w in zip(got, want))


def main():
    torch.manual_seed(1)
    onnxruntime.set_default_logger_severity(3)
    worst = 0.0
    with tempfile.TemporaryDirectory() as folder:
        tool = os.path.join(folder, "gradients")
        subprocess.run(["go", "build", "-o", tool, "./examples/gradients"], cwd=ROOT, check=True)
        for name, (f, inputs) in CASES.items():
            d = check(tool, name, f, tuple(inputs), folder)
            worst = max(worst, d)
            print(f"{name:28} {d:.1e}", flush=True)
    print(f"{len(CASES)} graphs, PyTorch {torch.__version__}, ONNX Runtime {onnxruntime.__version__}: largest difference {worst:.1e}")
    sys.exit(worst > LIMIT)


if __name__ == "__main__":
    main()
