"""Run qwb's networks for ncnn in ncnn, and compare every integer with qwb's.

    pip install ncnn==1.0.20261020 numpy
    python ncnn_int8.py QWB TESTDATA [NETWORK ...]

For every network: calibrate, export (.param, .bin), run five inputs that were not calibrated on with every blob kept, and ask
`qwb verify --against` which of the integers are not those of profile ncnn. An int8 blob is the engine's; where a layer quantizes its float
input, the integers are round(x * scale), half away from zero, of the engine's own float numbers, as src/layer/quantize.cpp has it.
"plain" is without packed layouts, "packed" is how ncnn runs by default, there also with float16 storage left at its default.
The network is run as a whole too: outputs of ncnn and of `qwb run --mode int8`, largest difference and equal answers.
Prints a Markdown table.
"""
import json
import os
import sys
import tempfile

import ncnn
import numpy as np

import short
from short import qwb

NETWORKS = short.NETWORKS | {
    "blazeface": ("vision/blazeface_front_128.onnx", "data/cc0", 4, "data/cc0", {"size": 128}),
    "deeplabv3": ("vision/deeplabv3_257_mobilenetv2.onnx", "data/cc0", 4, "data/cc0", {"size": 257}),
    "ocr_det": ("ocr/ch_PP-OCRv4_det_infer.onnx", "data/ocr", 4, "data/ocr", {"size": 320}),
    "ocr_rec": ("ocr/en_PP-OCRv4_rec.onnx", "data/ocr", 4, "data/ocr", {"size": [48, 320]}),
}
SAMPLES = 5


class Net:
    def __init__(self, param, packed):
        self.net = ncnn.Net()
        o = self.net.opt
        o.num_threads, o.use_vulkan_compute, o.use_bf16_storage = 1, False, False
        if not packed:
            o.use_packing_layout = o.use_fp16_storage = o.use_fp16_packed = o.use_fp16_arithmetic = False
        if self.net.load_param(param) or self.net.load_model(param.replace(".param", ".bin")):
            raise RuntimeError("ncnn does not load it")

    def run(self, feeds):
        """Returns all blobs by name."""
        ex = self.net.create_extractor()
        ex.set_light_mode(False)
        for name, x in feeds.items():
            ex.input(name, ncnn.Mat(np.ascontiguousarray(x)).clone())
        out = {}
        for layer in self.net.layers():
            for t in layer.tops:
                name = self.net.blobs()[t].name
                r, m = ex.extract(name)
                if r:
                    raise RuntimeError(f"{layer.type} {layer.name}: {r}")
                out[name] = np.array(m)
        return out


def half_away(x):
    return np.trunc(x + np.copysign(np.float32(0.5), x)).clip(-127, 127).astype(np.int8)


def record(folder, param, plan, blobs):
    """Writes the blobs as qwb's tensors: an int8 blob X as X_QuantizeLinear, a float one as X, and the integers of layers that quantize it."""
    shapes = {}
    layers = [line.split() for line in open(param).read().splitlines()[2:]]
    origin, int8, quantized = {}, set(), {}
    for f in layers:
        nin, nout = int(f[2]), int(f[3])
        bottoms, tops, params = f[4:4 + nin], f[4 + nin:4 + nin + nout], dict(p.split("=", 1) for p in f[4 + nin + nout:])
        if f[0] == "Split":
            for t in tops:
                origin[t] = bottoms[0]
        if int(params.get("8", 0)) and f[0] in ("Convolution", "ConvolutionDepthWise", "InnerProduct"):
            source = origin.get(bottoms[0], bottoms[0])
            if source not in int8:
                quantized[source] = f[1]
            if int(params["8"]) > 100:
                int8.add(tops[0])
    scales = {}
    for n in plan["nodes"]:
        for s in n.get("slots", []):
            if s["at"] == "in0" and "scale" in s:
                scales[n["node"]] = np.float32(s["scale"])
    os.makedirs(folder, exist_ok=True)
    names = {}

    def put(name, x):
        k = len(names)
        np.save(f"{folder}/{k}.npy", np.ascontiguousarray(x)[None])
        names[str(k)] = name

    for name, x in blobs.items():
        if name in origin:
            continue
        if name in int8:
            put(name + "_QuantizeLinear", x.astype(np.int8))
            continue
        put(name, x)
        node = quantized.get(name)
        if node in scales:
            put(name + "_QuantizeLinear", half_away(x * (np.float32(1) / scales[node])))
    json.dump(names, open(f"{folder}/names.json", "w"))


def network(name, spec, work):
    model, data, count, other, pre = spec
    model = f"{DATA}/models/{model}"
    path = lambda d: d if d.startswith("synthetic") else f"{DATA}/{d}"
    if isinstance(pre, dict):
        size = pre["size"] if isinstance(pre["size"], list) else [pre["size"]] * 2
        open(f"{work}/pre.yaml", "w").write(f"resize: {{size: {size}}}\nmean: 127.5\nstd: 127.5\n")
        pre = f"{work}/pre.yaml"
    if name.startswith("ocr"):
        bound = f"{work}/bound.onnx"
        qwb("bind", model, "--shape", "x=1,3," + ("320,320" if name == "ocr_det" else "48,320"), "-o", bound)
        model = bound
    plan, param = f"{work}/m.plan.json", f"{work}/m.param"
    qwb("calibrate", model, "--data", path(data), "--samples", count, "--preprocess", pre, "--platform", "ncnn_int8", "-o", plan)
    qwb("export", plan, "--platform", "ncnn_int8", "-o", param)
    qwb("preprocess", model, "--data", path(other), "--samples", SAMPLES, "--seed", 3, "--preprocess", pre, "--dump", f"{work}/in")
    files = sorted(f for f in os.listdir(f"{work}/in") if f.endswith(".npy"))
    qwb("run", plan, "--data", f"{work}/in", "--preprocess", "none", "--mode", "int8", "--output", f"{work}/out")
    described = json.load(open(plan))
    inputs = [l.split()[4] for l in open(param) if l.startswith("Input ")]
    outs = sorted(os.listdir(f"{work}/out"))
    rows = []
    for packed in (False, True):
        net = Net(param, packed)
        wrong = ties = total = 0
        verdicts, largest, equal = set(), 0.0, 0
        for k, f in enumerate(files):
            x = np.load(f"{work}/in/{f}")
            blobs = net.run({inputs[0]: x[0]})
            folder = f"{work}/rec{int(packed)}-{k}"
            record(folder, param, described, blobs)
            r = qwb("verify", plan, "--against", folder, "--profile", "ncnn", "--json", check=False)
            v = json.loads(r.stdout)
            fit = next(p for p in v["fits"] if p["profile"] == "ncnn")
            total, wrong = total + fit["compared"], wrong + fit["different"]
            verdicts.add(v["verdict"])
            y = np.load(f"{work}/out/{outs[k]}")
            pairs = [(blobs[key], y[key]) for key in y] if outs[k].endswith(".npz") else [(list(blobs.values())[-1], y)]
            largest = max([largest] + [float(np.abs(a.ravel() - b.ravel()).max()) for a, b in pairs])
            equal += all(a.argmax() == b.argmax() for a, b in pairs)
        rows.append((name, "packed" if packed else "plain", total, wrong, ", ".join(sorted(verdicts)), largest, f"{equal} of {len(files)}"))
    return rows


def main():
    names = sys.argv[3:] or list(NETWORKS)
    print(f"ncnn {ncnn.__version__}, {SAMPLES} inputs each\n")
    print("| network | layout | integers compared | different | verdict | outputs, largest difference | answers equal |")
    print("|---|---|---|---|---|---|---|")
    for name in names:
        with tempfile.TemporaryDirectory() as work:
            try:
                for r in network(name, NETWORKS[name], work):
                    print(f"| {r[0]} | {r[1]} | {r[2]:,} | {r[3]:,} | {r[4]} | {r[5]:.3g} | {r[6]} |", flush=True)
            except RuntimeError as e:
                print(f"| {name} | | | | refused: {e} | | |", flush=True)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    DATA = sys.argv[2]
    main()
