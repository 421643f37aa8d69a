#!/usr/bin/env python3
"""Holds qwb's peer observers against the tools themselves: peer_ranges.py QWB DATA [--only NAMES] [--samples N] | peer_ranges.py --golden FILE

The tools read the arrays that qwb calibrates on, written by qwb preprocess --dump; every tensor that both know is compared. The difference is
that of the ends, as a share of the larger of the tool's. --golden writes what the tools choose for made-up values, for a test of package
observers. Needs, in one environment: pip install onnxruntime onnx numpy nncf nvidia-modelopt torch scipy; pip install --no-deps ppq.
"""
import argparse, contextlib, io, json, os, sys, warnings
import numpy as np

os.environ.setdefault("PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION", "python")
warnings.simplefilter("ignore")


def quiet(f, *args, **named):
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()): return f(*args, **named)


# The tools. Each takes a list of arrays, one per batch, and returns a range.

def ort(method, bins=None):
    from onnxruntime.quantization import calibrate
    def run(batches):
        how = {"entropy": dict(symmetric=False, num_bins=bins or 128, num_quantized_bins=128, percentile=None),
               "percentile": dict(symmetric=True, num_bins=2048, num_quantized_bins=None, percentile=99.999)}[method]
        c = calibrate.HistogramCollector(method=method, scenario="same", **how)
        quiet(c.collect, {"x": batches})
        return tuple(float(v) for v in quiet(c.compute_collection_result)["x"][:2])
    return run


def modelopt(batches):
    from onnxruntime.quantization import calibrate
    from modelopt.onnx.quantization import ort_patching
    c = calibrate.HistogramCollector(method="entropy", symmetric=False, num_bins=128, num_quantized_bins=128, percentile=None, scenario="same")
    for x in batches: quiet(ort_patching._collect_value, c, {"x": [x]})  # as its collect_data does, batch by batch
    return tuple(float(v) for v in quiet(c.compute_collection_result)["x"][:2])


def tensorrt(batches):
    import torch
    from modelopt.torch.quantization.calib.histogram import HistogramCalibrator
    c = HistogramCalibrator()
    for x in batches: c.collect(torch.from_numpy(x))
    t = float(c.compute_amax("entropy"))
    hi = min(t, max(float(x.max()) for x in batches))
    return min(hi, max(-t, min(float(x.min()) for x in batches))), hi


def ppq(method, symmetric):
    import types, onnx, torch
    if not hasattr(onnx, "mapping"):  # later versions of onnx and numpy lack what PPQ imports
        onnx.mapping = sys.modules["onnx.mapping"] = types.ModuleType("onnx.mapping")
        onnx.mapping.TENSOR_TYPE_TO_NP_TYPE = {t: onnx.helper.tensor_dtype_to_np_dtype(t) for t in onnx.TensorProto.DataType.values() if t not in (0, 8)}
        onnx.mapping.NP_TYPE_TO_TENSOR_TYPE = {v: k for k, v in onnx.mapping.TENSOR_TYPE_TO_NP_TYPE.items()}
    for name, kind in (("bool", bool), ("int", int), ("float", float), ("object", object)):
        if not hasattr(np, name): setattr(np, name, kind)
    core = quiet(__import__, "ppq.core", fromlist=["x"])
    observer = quiet(__import__, "ppq.quantization.observer.range", fromlist=["x"])
    def run(batches):
        p = core.QuantizationProperty
        policy = core.QuantizationPolicy((p.SYMMETRICAL if symmetric else p.ASYMMETRICAL) + p.LINEAR + p.PER_TENSOR)
        cfg = core.TensorQuantizationConfig(policy=policy, rounding=core.RoundingPolicy.ROUND_HALF_EVEN, num_of_bits=8, quant_min=-128 if symmetric else 0,
                                            quant_max=127 if symmetric else 255, observer_algorithm=method, state=core.QuantizationStates.INITIAL)
        seen = []
        def keep(min_val, max_val, config, scale_threshold=0): seen.append((min_val, max_val)); return 1.0, 0
        observer.minmax_to_scale_offset = keep  # the range before it becomes a scale
        o = {"percentile": observer.TorchPercentileObserver, "kl": observer.TorchHistObserver, "mse": observer.TorchMSEObserver}[method](None, cfg)
        for _ in range(1 if method == "percentile" else 2):
            for x in batches: o.observe(torch.from_numpy(x))
            o.render_quantization_config()
        if method == "kl": return -float(cfg.scale) * 128, float(cfg.scale) * 128
        return seen[-1]
    return run


TOOLS = {
    "onnxruntime/entropy": lambda s: ort("entropy"),
    "onnxruntime/entropy(2048)": lambda s: ort("entropy", 2048),
    "onnxruntime/percentile": lambda s: ort("percentile"),
    "modelopt/entropy": lambda s: modelopt,
    "tensorrt/entropy": lambda s: tensorrt,
    "ppq/percentile": lambda s: ppq("percentile", s),
    "ppq/kl": lambda s: ppq("kl", s) if s else None,
    "ppq/mse": lambda s: ppq("mse", s),
}


# Made-up values, the same in the test of package observers: every step is one operation on float64.

def uniform(n, seed):
    """SplitMix64."""
    with np.errstate(over="ignore"):
        z = (np.arange(n, dtype=np.uint64) + np.uint64(seed << 32)) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z ^= z >> np.uint64(31)
    return (z >> np.uint64(11)).astype(np.float64) / 2.0 ** 53


def bell(n):
    g = uniform(n, 1)
    for seed in range(2, 13): g = g + uniform(n, seed)
    return g - 6


def made(n=20000):
    g, u = bell(n), uniform(n, 20)
    outlier = g.copy(); outlier[n // 3] = 60
    return {k: v.astype(np.float32) for k, v in {
        "bell": g, "relu": np.maximum(g, 0), "heavy": g / (u + 0.02), "uniform": 3 * u - 1, "negative": -u / (1.02 - u), "shifted": 4 + g / 2,
        "sparse": np.where(u < 0.03, g, 0), "outlier": outlier}.items()}


def golden(file):
    rows = []
    for name, x in made().items():
        for symmetric in (True, False):
            for tool, make in TOOLS.items():
                if (run := make(symmetric)) is None or not symmetric and "mse" not in tool: continue
                lo, hi = run([x])
                rows.append({"values": name, "observer": tool, "symmetric": symmetric, "lo": lo, "hi": hi})
    with open(file, "w") as f: f.write("[\n" + ",\n".join(json.dumps(r) for r in rows) + "\n]\n")


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("qwb", nargs="?"); p.add_argument("data", nargs="?")
    p.add_argument("--golden"); p.add_argument("--only", default=""); p.add_argument("--samples", type=int, default=8)
    o = p.parse_args()
    if o.golden: golden(o.golden)
