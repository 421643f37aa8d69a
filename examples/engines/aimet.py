"""Encodings in AIMET: the files of `qwb export --platform aimet` in load_encodings_to_sim of aimet-onnx.

    pip install --no-deps aimet-onnx==2.42.0
    pip install numpy==2.4.6 onnx==1.23.2 onnxruntime==1.32.0 onnx_ir onnxscript onnxsim scipy PyYAML jsonschema psutil tqdm Jinja2
    aimet.py QWB DATA [WORK]        # DATA: the folder of models and data

Of each network and version: entries that AIMET loads, entries that it gives back otherwise than they stand in the file, and the outputs of
its simulation beside those of `qwb run --mode sim`, in steps of the output's grid. torch, bokeh and others that aimet-onnx imports, and
needs for other things, are replaced by nothing.
"""
import json, logging, os, subprocess, sys
from unittest.mock import MagicMock
import numpy as np, onnx

for name in ("torch torch.nn torch.nn.functional torch.nn.parameter torch.optim torch.utils torch.utils.data torchvision onnx2torch"
             " onnx2torch.node_converters onnx2torch.node_converters.registry onnx2torch.onnx_graph onnx2torch.onnx_node onnx2torch.utils"
             " onnx2torch.utils.common sklearn sklearn.metrics osqp pandas tornado hvplot hvplot.pandas holoviews bokeh bokeh.server"
             " bokeh.server.server bokeh.model bokeh.models bokeh.models.annotations bokeh.layouts bokeh.plotting bokeh.document bokeh.io"
             " bokeh.resources bokeh.embed bokeh.application bokeh.application.handlers bokeh.themes").split():
    sys.modules[name] = MagicMock()
logging.disable(logging.CRITICAL)
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "evidence"))
from networks import Workplace
import aimet_onnx
from aimet_onnx.quantsim import QuantizationSimModel, load_encodings_to_sim

VERSIONS = ("0.6.1", "1.0.0", "2.0.0")
SAMPLES = 8


def entries(doc):
    if "encodings" in doc: return {e["name"]: e for e in doc["encodings"]}
    found = {}
    for part in (doc["activation_encodings"], doc["param_encodings"]): found |= part if isinstance(part, dict) else {e["name"]: e for e in part}
    return found


def plain(e):
    """An entry as numbers: what an encoding stands for."""
    if isinstance(e, list):
        if e[0]["dtype"] == "float": return None
        return (e[0]["bitwidth"], [x["scale"] for x in e], [x["offset"] for x in e])
    if "bw" in e: return None if e["dtype"] == "FLOAT" else (e["bw"], e["scale"], e["offset"])
    bits = int(e["output_dtype"].split("int")[1])
    scale = np.atleast_1d(e["y_scale"]).tolist()
    zero = np.atleast_1d(e.get("y_zero_point", 0)).tolist()
    shift = 0 if e["output_dtype"][0] == "u" else 1 << bits - 1
    return bits, scale, [-(z + shift) for z in (zero * len(scale))[:len(scale)]]


def main():
    place = Workplace(*sys.argv[1:4])
    print(f"aimet-onnx {aimet_onnx.__version__}, {SAMPLES} samples\n")
    print("| network | version | entries | other in AIMET | outputs compared | equal | within a step | further | largest, steps |\n|---|---|---|---|---|---|---|---|---|")
    for name, n in place.networks(os.environ.get("ONLY", "")):
        plan = place.path(name + ".aimet.plan.json")
        try:
            place.call("calibrate", n.model, "--data", n.calibration, "--preprocess", n.preprocess, "--platform", "aimet", "--samples", str(min(n.samples or 32, 32)), "-o", plan)
            place.call("run", plan, "--data", n.calibration, "--preprocess", n.preprocess, "--mode", "sim", "--samples", str(SAMPLES), "--output", name + ".sim")
            place.call("preprocess", n.model, "--data", n.calibration, "--preprocess", n.preprocess, "--samples", str(SAMPLES), "--dump", name + ".in")
        except SystemExit as e:
            print(f"| {name} | | not run: {str(e).strip().splitlines()[-1][:90]} |", flush=True)
            continue
        for version in VERSIONS:
            file = place.path(f"{name}.{version}.onnx")
            place.call("export", plan, "--platform", "aimet", "--encodings", version, "-o", file)
            model, ours = onnx.load(file), entries(json.load(open(file[:-5] + ".encodings")))
            try:
                sim = QuantizationSimModel(model, providers=["CPUExecutionProvider"])
                load_encodings_to_sim(sim, file[:-5] + ".encodings", strict=False)
            except Exception as e:
                print(f"| {name} | {version} | not loaded: {type(e).__name__} {str(e).splitlines()[0][:120]} |", flush=True)
                continue
            other = 0
            for tensor, e in ours.items():
                q, want = sim.qc_quantize_op_dict.get(tensor), plain(e)
                if q is None or want is None or want[0] == 32: continue  # 2.0.0: of what moves elements; floats; int32 biases, which AIMET keeps aside
                got = q.export_encodings("1.0.0")
                if got is None and version == "2.0.0": continue  # AIMET lets it follow from the tensor before
                got = plain(got) if got else None
                other += got is None or got[0] != want[0] or list(got[1]) != list(want[1]) or list(got[2]) != list(want[2])
            last = [o.name for o in onnx.load(file).graph.output]
            counts, largest = np.zeros(4, int), 0.0
            feeds = [i.name for i in sim.session.get_inputs()]
            for f in sorted(os.listdir(place.path(name + ".in")))[:SAMPLES]:
                if not f.endswith((".npy", ".npz")): continue
                x = np.load(place.path(f"{name}.in/{f}"))
                got = sim.session.run(None, {k: x[k] for k in x.files} if f.endswith("z") else {feeds[0]: x})
                stem = place.path(f"{name}.sim/{f[:-4]}")
                want = np.load(stem + (".npz" if os.path.exists(stem + ".npz") else ".npy"))
                for i, out in enumerate(last):
                    w = want[out] if hasattr(want, "files") else want
                    e = plain(ours[out]) if out in ours else None
                    step = e[1][0] if e else max(np.abs(w).max(), 1e-9) / 255
                    d = np.abs(got[i].astype(float) - w) / step
                    counts += [d.size, (d < 1e-3).sum(), ((d >= 1e-3) & (d < 1.001)).sum(), (d >= 1.001).sum()]
                    largest = max(largest, d.max())
            print(f"| {name} | {version} | {len(ours)} | {other} | {counts[0]:,} | {counts[1]:,} | {counts[2]:,} | {counts[3]:,} | {largest:.3g} |", flush=True)


main()
