#!/usr/bin/env python3
"""Weights that were rounded before, in files that name no quantizer any more: does `qwb calibrate` find the integers again?

  dropped_grid.py QWB

Needs: pip install torch==2.15.0 onnx==1.23.2 onnxruntime==1.32.0 numpy==2.4.6. PyTorch rounds the weights of a small network of convolutions
with normalizations to codes of 4 or 8 bits, by one step per tensor or per channel (fake_quantize_*), and writes it as a plain float ONNX file.
Columns: weights in channels whose integers in the file that qwb exports are PyTorch's, up to a whole factor; and those by the largest
magnitude of each channel over 127.
"""
import os, subprocess, sys, tempfile
import numpy as np, onnx, torch
from onnx import numpy_helper

QWB = os.path.abspath(sys.argv[1])


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        conv = torch.nn.Conv2d
        self.convs = torch.nn.ModuleList([conv(3, 16, 3, padding=1), conv(16, 16, 3, padding=1, groups=16), conv(16, 32, 1)])
        self.norms = torch.nn.ModuleList([torch.nn.BatchNorm2d(c) for c in (16, 16, 32)])
        self.last = torch.nn.Linear(32, 10)
        for n in self.norms:
            torch.nn.init.uniform_(n.weight, 0.5, 1.5), torch.nn.init.uniform_(n.running_var, 0.5, 2), torch.nn.init.normal_(n.running_mean)

    def forward(self, x):
        for c, n in zip(self.convs, self.norms):
            x = torch.relu(n(c(x)))
        return self.last(x.mean((2, 3)))


def rounded(net, bits, channel):
    """Rounds the weights in place; returns their integers."""
    codes, top = [], 2 ** (bits - 1) - 1
    for m in [*net.convs, net.last]:
        w = m.weight.data
        if channel:
            s = w.abs().flatten(1).amax(1) * 1.1 / top
            z = torch.zeros(len(s), dtype=torch.int32)
            m.weight.data = torch.fake_quantize_per_channel_affine(w, s, z, 0, -top - 1, top)
            codes.append(torch.round(m.weight.data / s.view(-1, *[1] * (w.dim() - 1))))
        else:
            s = float(w.abs().max() * 1.1 / top)
            m.weight.data = torch.fake_quantize_per_tensor_affine(w, s, 0, -top - 1, top)
            codes.append(torch.round(m.weight.data / s))
    return [c.numpy().astype(int) for c in codes]


def same(a, b):
    """Whether two rows of integers are whole multiples of one."""
    ga, gb = np.gcd.reduce(a), np.gcd.reduce(b)
    return np.array_equal(a // max(ga, 1), b // max(gb, 1))


print("| rounded by PyTorch to | normalizations | weights found again | by min-max |\n| --- | --- | --- | --- |")
with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    np.save("x.npy", np.random.default_rng(0).normal(size=(16, 3, 16, 16)).astype(np.float32))
    for bits in (8, 4):
        for channel in (False, True):
            for fold in (False, True):
                torch.manual_seed(bits)
                net = Net().eval()
                codes = rounded(net, bits, channel)
                if not fold:
                    net.norms = torch.nn.ModuleList([torch.nn.Identity() for _ in net.norms])
                torch.onnx.export(net, (torch.zeros(1, 3, 16, 16),), "m.onnx", dynamo=False, do_constant_folding=False,
                                  training=torch.onnx.TrainingMode.PRESERVE)
                for args in (["calibrate", "m.onnx", "--data", "x.npy", "--platform", "openvino_int8", "--fresh"],
                             ["export", "m.plan.json", "--platform", "openvino_int8", "-o", "q.onnx", "--unverified"]):
                    r = subprocess.run([QWB, *args], capture_output=True, text=True)
                    if r.returncode:
                        sys.exit(f"qwb {' '.join(args)}: {r.stderr}")
                q = onnx.load("q.onnx")
                const = {t.name: numpy_helper.to_array(t) for t in q.graph.initializer}
                found = ranged = total = 0
                shapes = {c.shape: c for c in codes}
                for n in q.graph.node:
                    if n.op_type != "DequantizeLinear" or n.input[0] not in const or const[n.input[0]].ndim < 2:
                        continue
                    w = const[n.input[0]].astype(int)
                    a, b = (w, shapes[w.shape]) if w.shape in shapes else (w.T, shapes[w.T.shape])
                    for x, y in zip(a.reshape(len(a), -1), b.reshape(len(b), -1)):
                        total += x.size
                        found += x.size * same(x, y)
                        ranged += x.size * same(np.round(y * 127 / max(abs(y).max(), 1)).astype(int), y)
                print(f"| {bits} bits per {'channel' if channel else 'tensor'} | {'folded by qwb' if fold else 'none'} | {found} of {total} "
                      f"| {ranged} of {total} |", flush=True)
