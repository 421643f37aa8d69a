"""Convert qwb's models and compression parameters by MNN's converter, run them in MNN, and compare every integer with qwb's.

    pip install mnn==3.6.1 numpy onnx
    python mnn_int8.py QWB TESTDATA [NETWORK ...]

For every network: calibrate, export, convert, run inputs that were not calibrated on, and ask `qwb verify --against` which integers are not
those of profile mnn. The converter is called through its module: the command mnnconvert sends a log to its makers. Prints a Markdown table.
"""
import json
import os
import sys
import tempfile

import _tools
import MNN
import numpy as np
import onnx

import short
from short import qwb

NETWORKS = "resnet8 resnet_large kws vww str_ww cnn_mnist squeezenet mobilenetv2_catdog mobilenet_v1".split()
SAMPLES = 3


def host(tensor):
    h = MNN.Tensor(tensor.getShape(), MNN.Halide_Type_Float, np.zeros(tensor.getShape(), np.float32), MNN.Tensor_DimensionType_Caffe)
    tensor.copyToHostTensor(h)
    return np.array(h.getNumpyData()).reshape(tensor.getShape())


def run(model, x):
    """Returns the output of every operator by name, integers as the numbers that they stand for, and the result."""
    it = MNN.Interpreter(model)
    session = it.createSession({"numThread": 1, "precision": "high"})
    t = it.getSessionInput(session)
    it.resizeTensor(t, x.shape)
    it.resizeSession(session)
    t.copyFrom(MNN.Tensor(x.shape, MNN.Halide_Type_Float, np.ascontiguousarray(x), MNN.Tensor_DimensionType_Caffe))
    tensors = {}

    def end(made, name):
        tensors[name] = host(made[0])
        return True

    it.runSessionWithCallBack(session, lambda *_: True, end)
    return tensors, host(it.getSessionOutput(session))


def half_away(x):
    return np.trunc(x + np.copysign(np.float32(0.5), x)).clip(-127, 127).astype(np.int8)


def network(spec, work):
    model, data, count, other, pre = spec
    model = f"{DATA}/models/{model}"
    path = lambda d: d if d.startswith("synthetic") else f"{DATA}/{d}"
    plan, out = f"{work}/m.plan.json", f"{work}/m.onnx"
    qwb("calibrate", model, "--data", path(data), "--samples", count, "--preprocess", pre, "--platform", "mnn_int8", "-o", plan)
    qwb("export", plan, "--platform", "mnn_int8", "-o", out)
    qwb("preprocess", model, "--data", path(other), "--samples", SAMPLES, "--seed", 3, "--preprocess", pre, "--dump", f"{work}/in")
    qwb("run", plan, "--data", f"{work}/in", "--preprocess", "none", "--mode", "int8", "--output", f"{work}/out")
    stdout = os.dup(1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    _tools.mnnconvert(["mnnconvert", "-f", "ONNX", "--modelFile", out, "--MNNModel", f"{work}/m.mnn", "--compressionParamsFile", out + ".mnn.json", "--bizCode", "qwb"])
    os.dup2(stdout, 1)
    layers = json.load(open(out + ".mnn.json"))["algo"][0]["quantParams"]["layer"]
    graph = onnx.load(out).graph
    outputs = {n.name: n.output[0] for n in graph.node}
    constants = {i.name for i in graph.initializer}
    first = next(i.name for i in graph.input if i.name not in constants)
    total = wrong = equal = 0
    largest, verdicts = 0.0, set()
    files, outs = sorted(f for f in os.listdir(f"{work}/in") if f.endswith(".npy")), sorted(os.listdir(f"{work}/out"))
    for k, f in enumerate(files):
        x = np.load(f"{work}/in/{f}")
        tensors, result = run(f"{work}/m.mnn", x)
        names, folder = {"0": first}, f"{work}/rec{k}"
        os.makedirs(folder)
        np.save(f"{folder}/0.npy", x)
        for layer in layers:
            found = tensors.get(outputs.get(layer["opName"]), tensors.get(layer["output"][0]["name"]))
            if found is None:
                continue
            codes = half_away(found / np.float32(layer["output"][0]["scales"][0]))
            n = str(len(names))
            np.save(f"{folder}/{n}.npy", codes)
            names[n] = layer["output"][0]["name"] + "_QuantizeLinear"
        for name, v in tensors.items():
            if name not in names.values() and name not in outputs.values():
                continue
            n = str(len(names))
            np.save(f"{folder}/{n}.npy", v)
            names[n] = name
        json.dump(names, open(f"{folder}/names.json", "w"))
        r = qwb("verify", plan, "--against", folder, "--profile", "mnn", "--json", check=False)
        v = json.loads(r.stdout)
        fit = next(p for p in v["fits"] if p["profile"] == "mnn")
        total, wrong = total + fit["compared"], wrong + fit["different"]
        verdicts.add(v["verdict"])
        if os.environ.get("SHOW"):
            for t in v["per_tensor"]:
                print("   ", t["tensor"], t["compared"], t["different"], t["ties"], file=sys.stderr)
        y = np.load(f"{work}/out/{outs[k]}")
        largest, equal = max(largest, float(np.abs(result.ravel() - y.ravel()).max())), equal + (result.argmax() == y.argmax())
    return total, wrong, ", ".join(sorted(verdicts)), largest, f"{equal} of {len(files)}", len(layers)


def main():
    print(f"MNN {MNN.version()}, {SAMPLES} inputs each\n")
    print("| network | layers | integers compared | different | verdict | outputs, largest difference | answers equal |")
    print("|---|---|---|---|---|---|---|")
    for name in sys.argv[3:] or NETWORKS:
        with tempfile.TemporaryDirectory() as work:
            try:
                r = network(short.NETWORKS[name], work)
                print(f"| {name} | {r[5]} | {r[0]:,} | {r[1]:,} | {r[2]} | {r[3]:.3g} | {r[4]} |", flush=True)
            except RuntimeError as e:
                print(f"| {name} | | | | refused: {e} | | |", flush=True)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    DATA = sys.argv[2]
    main()
