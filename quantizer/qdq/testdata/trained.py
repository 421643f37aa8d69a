"""Trains tiny networks with quantization, exports them as their tools do, and writes what ONNX Runtime computes of them.

    pip install torch onnx onnxscript onnxruntime numpy torchao brevitas onnxoptimizer setuptools qonnx
    python trained.py FOLDER

writes FOLDER/NAME.onnx and FOLDER/trained.json with the inputs, and the outputs of each file without optimizations. The committed files are of
PyTorch 2.15, torchao 0.18, Brevitas 0.13 and ONNX Runtime 1.32.
"""
import json
import os
import sys
import warnings

import numpy as np
import onnx
import onnxruntime as ort
import torch
import torch.ao.quantization as tq
import torch.nn as nn

warnings.simplefilter("ignore")
torch.manual_seed(0)
torch.set_num_threads(1)
out = sys.argv[1]
example = torch.randn(1, 3, 12, 12)


def train(m, steps=15):
    opt = torch.optim.SGD(list(m.parameters()), lr=0.05)
    for _ in range(steps):
        x = torch.randn(16, 3, 12, 12)
        label = (x.mean((1, 2, 3)) * 30).long().clamp(-5, 4) + 5
        loss = nn.functional.cross_entropy(m(x), label)
        opt.zero_grad()
        loss.backward()
        opt.step()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.quant, self.dequant = tq.QuantStub(), tq.DeQuantStub()
        self.c1, self.b1, self.r1 = nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU()
        self.d, self.b2, self.r2 = nn.Conv2d(8, 8, 3, padding=1, groups=8, bias=False), nn.BatchNorm2d(8), nn.ReLU6()
        self.p, self.b3 = nn.Conv2d(8, 8, 1), nn.BatchNorm2d(8)
        self.add = torch.ao.nn.quantized.FloatFunctional()
        self.pool, self.fc = nn.AdaptiveAvgPool2d(1), nn.Linear(8, 10)

    def forward(self, x):
        a = self.r1(self.b1(self.c1(self.quant(x))))
        y = self.b3(self.p(self.r2(self.b2(self.d(a)))))
        y = self.pool(self.add.add(y, a)).flatten(1)
        return self.dequant(self.fc(y))


def eager(backend):
    m = Net().train()
    train(m, 5)
    tq.fuse_modules_qat(m, [["c1", "b1", "r1"], ["d", "b2"], ["p", "b3"]], inplace=True)
    m.qconfig = tq.get_default_qat_qconfig(backend, version=0)
    tq.prepare_qat(m, inplace=True)
    train(m)
    m.apply(tq.disable_observer)
    return m.eval()


class LSQ(nn.Module):
    def __init__(self, bits, signed, init):
        super().__init__()
        self.s = nn.Parameter(torch.tensor(init))
        self.n, self.p = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)

    def forward(self, x):
        q = torch.clamp(x / self.s, self.n, self.p)
        q = (q.round() - q).detach() + q if self.training else q.round()
        return q * self.s


class LSQConv(nn.Conv2d):
    def __init__(self, *a, signed=False, **k):
        super().__init__(*a, **k)
        self.qa = LSQ(8, signed, 0.03)
        self.qw = LSQ(4, True, float(self.weight.abs().mean() * 2 / 7**0.5))

    def forward(self, x):
        return self._conv_forward(self.qa(x), self.qw(self.weight), self.bias)


def lsq():
    m = nn.Sequential(LSQConv(3, 8, 3, signed=True), nn.ReLU(), LSQConv(8, 16, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10))
    train(m)
    return m.eval()


def pt2e():
    import torchao.quantization.pt2e as pe
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_qat_pt2e
    from torchao.testing.pt2e._xnnpack_quantizer import XNNPACKQuantizer, get_symmetric_quantization_config

    class P(nn.Module):
        def __init__(self):
            super().__init__()
            self.c1, self.b1, self.r1 = nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU()
            self.p, self.b3, self.fc, self.pool = nn.Conv2d(8, 8, 1), nn.BatchNorm2d(8), nn.Linear(8, 10), nn.AdaptiveAvgPool2d(1)

        def forward(self, x):
            a = self.r1(self.b1(self.c1(x)))
            return self.fc(self.pool(self.b3(self.p(a)) + a).flatten(1))

    m = P()
    train(m, 5)
    e = torch.export.export(m, (torch.randn(16, 3, 12, 12),), dynamic_shapes=({0: torch.export.Dim("n", min=1, max=64)},)).module()
    p = prepare_qat_pt2e(e, XNNPACKQuantizer().set_global(get_symmetric_quantization_config(is_per_channel=True, is_qat=True)))
    train(p)
    pe.move_exported_model_to_eval(p)
    return convert_pt2e(p)


def brevitas(bits):
    import brevitas.nn as qnn

    m = nn.Sequential(
        qnn.QuantIdentity(bit_width=8, return_quant_tensor=True), qnn.QuantConv2d(3, 8, 3, padding=1, weight_bit_width=bits, bias=True),
        qnn.QuantReLU(bit_width=bits, return_quant_tensor=True), qnn.QuantConv2d(8, 16, 3, weight_bit_width=bits), qnn.QuantReLU(bit_width=8),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), qnn.QuantIdentity(bit_width=8, return_quant_tensor=True),
        qnn.QuantLinear(16, 10, bias=True, weight_bit_width=8))
    train(m)
    return m.eval()


def path(name):
    return os.path.join(out, name + ".onnx")


def export(name, m, **k):
    torch.onnx.export(m, (example,), path(name), input_names=["x"], output_names=["y"], **k)


def bare(name):
    """Takes out what says where the network was made, and puts weights into the file."""
    m = onnx.load(path(name))
    for n in m.graph.node:
        n.doc_string = ""
        del n.metadata_props[:]
    for v in list(m.graph.value_info) + list(m.graph.input) + list(m.graph.output) + list(m.graph.initializer):
        v.doc_string = ""
        del v.metadata_props[:]
    del m.metadata_props[:], m.graph.metadata_props[:], m.graph.value_info[:]
    m.doc_string = m.graph.doc_string = ""
    onnx.save(m, path(name), save_as_external_data=False)
    if os.path.exists(path(name) + ".data"):
        os.remove(path(name) + ".data")


def run(name, xs):
    o = ort.SessionOptions()
    o.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    s = ort.InferenceSession(path(name), o, providers=["CPUExecutionProvider"])
    return [s.run(None, {s.get_inputs()[0].name: x})[0].ravel().tolist() for x in xs]


def main():
    for backend in ("fbgemm", "qnnpack"):
        export(backend, eager(backend), dynamo=False, opset_version=13)
    m = lsq()
    export("lsq", m, dynamo=False, opset_version=13)
    export("lsq_dynamo", m, dynamo=True)
    export("pt2e", pt2e(), dynamo=True)
    from brevitas.export import export_onnx_qcdq, export_qonnx

    m = brevitas(4)
    export_onnx_qcdq(m, args=example, export_path=path("qcdq"), opset_version=13, dynamo=False)
    export_qonnx(m, args=example, export_path=path("qonnx"), opset_version=13, dynamo=False)
    names = ["fbgemm", "qnnpack", "lsq", "lsq_dynamo", "pt2e", "qcdq", "qonnx"]
    for name in names:
        bare(name)
    rng = np.random.default_rng(0)
    xs = [np.round(rng.standard_normal((1, 3, 12, 12)), 2).astype(np.float32) for _ in range(2)]
    result = {"x": [[round(float(v), 2) for v in x.ravel()] for x in xs], "y": {}}
    for name in names:
        result["y"][name] = run("qcdq" if name == "qonnx" else name, xs)  # ONNX Runtime has no Quant: the same network in its other form
    with open(os.path.join(out, "trained.json"), "w") as f:
        json.dump(result, f, separators=(",", ":"))


main()
