"""Convert PyTorch modules by PNNX, run the .pnnx.param in qwb, and compare with PyTorch.

    pip install pnnx==20261020 torch==2.15.0 numpy
    python pnnx_models.py QWB

Each case is a module that uses one rule of qwb's reader, or a small network. Prints the largest difference where it is above 1e-5 of the largest
number, and exits with 1 then.
"""
import os
import subprocess
import sys
import tempfile
import warnings

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

warnings.filterwarnings("ignore")
X = (1, 8, 12, 10)


class Fn(nn.Module):
    def __init__(self, f, *modules):
        super().__init__()
        self.f, self.m = f, nn.ModuleList(modules)

    def forward(self, x):
        return self.f(x, *self.m)


class Block(nn.Module):
    def __init__(self, ci, co, stride):
        super().__init__()
        self.a, self.b = nn.Conv2d(ci, co, 3, stride, 1, bias=False), nn.BatchNorm2d(co)
        self.c, self.d = nn.Conv2d(co, co, 3, 1, 1, bias=False), nn.BatchNorm2d(co)
        self.s = nn.Sequential(nn.Conv2d(ci, co, 1, stride, bias=False), nn.BatchNorm2d(co)) if stride > 1 else nn.Identity()

    def forward(self, x):
        return F.relu(self.d(self.c(F.relu(self.b(self.a(x))))) + self.s(x))


class Yolo(nn.Module):
    """Convolutions with SiLU, a spatial pyramid, upsampling and Concat, as the networks have that KuiperInfer shows."""
    def __init__(self):
        super().__init__()
        c = lambda i, o, k, s: nn.Sequential(nn.Conv2d(i, o, k, s, k // 2, bias=False), nn.BatchNorm2d(o), nn.SiLU())
        self.a, self.b, self.p, self.d = c(3, 8, 6, 2), c(8, 16, 3, 2), c(16, 8, 1, 1), c(32, 16, 1, 1)
        self.u, self.e = nn.Upsample(scale_factor=2), c(24, 6, 1, 1)

    def forward(self, x):
        a = self.a(x)
        b = self.p(self.b(a))
        y = [b]
        for _ in range(3):
            y.append(F.max_pool2d(y[-1], 5, 1, 2))
        d = self.u(self.d(torch.cat(y, 1)))
        e = self.e(torch.cat((d[:, :, :a.shape[2], :a.shape[3]], a), 1))
        return e.view(1, 2, 3, -1).permute(0, 1, 3, 2).contiguous().sigmoid() * 2 - 0.5


CASES = {
    "Conv2d": (nn.Conv2d(8, 6, (3, 2), (2, 1), (1, 0)), X), "groups": (nn.Conv2d(8, 8, 3, dilation=2, groups=4, bias=False), X),
    "Conv1d": (nn.Conv1d(8, 6, 3, padding=1), (1, 8, 12)), "same": (nn.Conv2d(8, 6, 3, padding="same"), X),
    "ConvTranspose2d": (nn.ConvTranspose2d(8, 6, 3, 2, 1, 1), X), "Linear": (nn.Linear(8, 5), (1, 8)), "Linear of rows": (nn.Linear(8, 5), (1, 7, 8)),
    "BatchNorm2d": (nn.BatchNorm2d(8), X), "LayerNorm": (nn.LayerNorm(10), X),
    "activations": (nn.Sequential(nn.ReLU6(), nn.Hardswish(), nn.Hardsigmoid(), nn.SiLU(), nn.LeakyReLU(0.2), nn.ELU(), nn.PReLU(8), nn.GELU(), nn.Mish(), nn.Tanh(),
                                  nn.Softplus(), nn.SELU(), nn.Hardtanh(-0.3, 0.9), nn.Sigmoid()), X),
    "pools": (nn.Sequential(nn.MaxPool2d(3, 2, 1, ceil_mode=True), nn.AvgPool2d(2, 1, 1), nn.AdaptiveAvgPool2d((1, 1))), X),
    "AdaptiveAvgPool2d": (nn.AdaptiveAvgPool2d((3, 5)), X), "AdaptiveMaxPool2d": (nn.AdaptiveMaxPool2d((1, 1)), X),
    "Upsample nearest": (nn.Upsample(scale_factor=(2, 3)), X), "Upsample bilinear": (nn.Upsample((20, 31), mode="bilinear"), X),
    "align_corners": (nn.Upsample((20, 31), mode="bilinear", align_corners=True), X), "PixelShuffle": (nn.PixelShuffle(2), X),
    "Softmax": (nn.Softmax(1), X), "LogSoftmax": (Fn(lambda x: F.log_softmax(x, -1)), X), "Flatten": (nn.Flatten(), X),
    "flatten of some": (Fn(lambda x: torch.flatten(x, 1, 2)), X), "view": (Fn(lambda x: x.view(1, 4, 2, -1)), X), "permute": (Fn(lambda x: x.permute(0, 2, 3, 1)), X),
    "transpose": (Fn(lambda x: x.transpose(1, -1)), X), "mean": (Fn(lambda x: x.mean((2, 3))), X), "mean keepdim": (Fn(lambda x: x.mean(1, keepdim=True)), X),
    "Softmax of three axes": (Fn(lambda x: F.softmax(x, None, _stacklevel=0)), (2, 3, 4)), "Upsample to 1x1": (nn.Upsample((1, 1), mode="bilinear"), X),
    "select": (Fn(lambda x: x[:, 1:7:2, 2:, 3]), X), "recompute": (Fn(lambda x: F.interpolate(x, scale_factor=1.55, mode="bilinear", recompute_scale_factor=True)), X),
    "corners by 1.55": (Fn(lambda x: F.interpolate(x, scale_factor=1.55, mode="bilinear", align_corners=True)), X),
    "slice": (Fn(lambda x: x[:, 1:7:2, 2:]), X), "chunk": (Fn(lambda x: torch.mul(*torch.chunk(x, 2, 1))), X),
    "split": (Fn(lambda x: torch.cat(torch.split(x, [3, 5], 1)[::-1], 1)), X), "pad": (Fn(lambda x: F.pad(x, (1, 2, 3, 0), value=0.5)), X),
    "reflect": (Fn(lambda x: F.pad(x, (1, 2, 3, 0), mode="reflect")), X), "unsqueeze": (Fn(lambda x: x.unsqueeze(2).squeeze(2) * 2), X),
    "expression": (Fn(lambda x: torch.sqrt(torch.abs(x * 2 - 1) + 0.1) / (x.exp() + 1) - torch.maximum(x, -x) ** 2), X),
    "matmul": (Fn(lambda x: torch.matmul(x, x.transpose(2, 3))), X), "clamp": (Fn(lambda x: x.clamp(-0.5, 0.5)), X),
    "attribute": (Fn(lambda x: x + torch.arange(8).view(1, 8, 1, 1) * 0.5), X),
    "two outputs": (Fn(lambda x, c: (c(x), x * 3), nn.Conv2d(8, 2, 1)), X),
    "residual network": (nn.Sequential(nn.Conv2d(3, 8, 7, 2, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(3, 2, 1), Block(8, 8, 1), Block(8, 16, 2),
                                       nn.AdaptiveAvgPool2d((1, 1)), nn.Flatten(), nn.Linear(16, 10)), (1, 3, 32, 32)),
    "yolo": (Yolo(), (1, 3, 32, 48)),
}


def run(qwb, work, module, shape):
    torch.manual_seed(1)
    for m in module.modules():
        if isinstance(m, nn.BatchNorm2d):
            m.running_mean.normal_()
            m.running_var.uniform_(0.5, 2)
    module.eval()
    x = torch.randn(shape)
    with torch.no_grad():
        want = module(x)
    want = [w.numpy() for w in (want if isinstance(want, tuple) else (want,))]
    torch.jit.trace(module, x).save(f"{work}/m.pt")
    pnnx = os.path.join(os.path.dirname(sys.executable), "pnnx")
    r = subprocess.run([pnnx, "m.pt", "inputshape=[" + ",".join(map(str, shape)) + "]"], cwd=work, capture_output=True, text=True)
    if r.returncode:
        return "pnnx fails: " + r.stderr[-200:]
    np.save(f"{work}/x.npy", x.numpy())
    lines = [line.split() for line in open(f"{work}/m.pnnx.param")]
    first = next(l[4] for l in lines if l[0] == "pnnx.Input")
    lists = {l[4 + int(l[2])]: l[4:4 + int(l[2])] for l in lines if l[0] == "prim::TupleConstruct"}
    outputs = next(l[4:4 + int(l[2])] for l in lines if l[0] == "pnnx.Output")
    outputs = [n for o in outputs for n in lists.get(o, [o])]
    r = subprocess.run([qwb, "run", f"{work}/m.pnnx.param", "--input", f"{first}={work}/x.npy", "--output", f"{work}/out"], capture_output=True, text=True)
    if r.returncode:
        return r.stderr.strip().splitlines()[-1]
    worst = 0.0
    for name, w in zip(outputs, want):
        got = np.load(f"{work}/out/{name}.npy")
        if got.shape != w.shape:
            return f"{got.shape}, not {w.shape}"
        worst = max(worst, float(np.abs(got - w).max() / max(np.abs(w).max(), 1e-9)))
    return worst


def main(qwb):
    bad = 0
    for name, (module, shape) in CASES.items():
        with tempfile.TemporaryDirectory() as work:
            r = run(qwb, work, module, shape)
        wrong = isinstance(r, str) or not r <= 1e-5
        bad += wrong
        if wrong or "-v" in sys.argv:
            print(f"{name}: {r if isinstance(r, str) else format(r, '.3g')}")
    print(f"{len(CASES)} modules, {bad} wrong")
    return bad > 0


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    sys.exit(main(os.path.abspath(sys.argv[1])))
