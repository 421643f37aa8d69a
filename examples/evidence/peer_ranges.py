#!/usr/bin/env python3
"""Holds qwb's peer observers against the tools themselves: peer_ranges.py QWB DATA [--only NAMES] [--samples N] | peer_ranges.py --golden FILE

The tools read the arrays that qwb calibrates on, written by qwb preprocess --dump; every tensor that both know is compared. The difference is
that of the ends, as a share of the larger of the tool's. --golden writes what the tools choose for made-up values, for a test of package
observers. Needs, in one environment: pip install onnxruntime onnx numpy nncf nvidia-modelopt torch scipy; pip install --no-deps ppq.
"""
import argparse, contextlib, glob, io, json, os, sys, warnings
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


# Networks.

def activations(model, names, samples):
    """The tensors of these names, by name a list of arrays, one per sample, from ONNX Runtime without optimizations."""
    import onnx, onnxruntime
    m = onnx.load(model)
    constants = {t.name for t in m.graph.initializer}
    fed = [v.name for v in m.graph.input if v.name not in constants]
    inner = [o for n in m.graph.node for o in n.output if o in names]
    del m.graph.output[:]
    m.graph.output.extend(onnx.helper.make_tensor_value_info(o, onnx.TensorProto.FLOAT, None) for o in inner)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    run = onnxruntime.InferenceSession(m.SerializeToString(), options, providers=["CPUExecutionProvider"]).run
    out = {}
    for x in samples:
        feeds = {fed[0]: x}
        for name, v in {**feeds, **dict(zip(inner, run(None, feeds)))}.items():
            if name in names: out.setdefault(name, []).append(np.asarray(v))
    return out


def nncf_ranges(model, samples):
    """What NNCF collects of activations: its own statistics, caught before it makes quantizers of them."""
    import onnx, nncf
    from nncf.quantization.algorithms.min_max.algorithm import MinMaxQuantization
    m = onnx.load(model)
    constants = {t.name for t in m.graph.initializer}
    fed, nodes, found = [v.name for v in m.graph.input if v.name not in constants][0], {n.name: n for n in m.graph.node}, {}
    if next(o.version for o in m.opset_import if o.domain in ("", "ai.onnx")) < 13: m = onnx.version_converter.convert_version(m, 13)
    keep = [v for v in m.graph.input if v.name not in {t.name for t in m.graph.initializer}]
    del m.graph.input[:]; m.graph.input.extend(keep)
    m.ir_version = max(m.ir_version, 8)
    nodes, apply = {n.name: n for n in m.graph.node}, MinMaxQuantization.apply
    def catch(self, model, graph, statistic_points, dataset=None):
        by_name = {n.name: n for n in model.graph.node}
        for point in (p for points in statistic_points.values() for p in points):
            at, n = point.target_point, by_name.get(point.target_point.target_node_name)
            if at.type.name == "OPERATION_WITH_WEIGHTS": continue
            tensor = fed if n is None else (n.output if at.type.name == "POST_LAYER_OPERATION" else n.input)[at.port_id or 0]
            for collectors in point.algorithm_to_tensor_collectors.values():
                for c in collectors:
                    st = c.get_statistics()
                    if not hasattr(st, "min_values"): continue  # of the bias correction
                    lo, hi = np.asarray(st.min_values.data).ravel(), np.asarray(st.max_values.data).ravel()
                    if lo.size == 1: found[tensor] = float(lo[0]), float(hi[0])
        return apply(self, model, graph, statistic_points, dataset)
    MinMaxQuantization.apply = catch
    try: quiet(nncf.quantize, m, nncf.Dataset(samples, lambda x: {fed: x}), subset_size=len(samples))
    finally: MinMaxQuantization.apply = apply
    return found


def ort_ranges(model, samples, method, work):
    """onnxruntime.quantization itself, calibrator and all."""
    import onnx
    from onnxruntime.quantization import CalibrationDataReader, CalibrationMethod, calibrate
    m = onnx.load(model)
    constants = {t.name for t in m.graph.initializer}
    keep = [v for v in m.graph.input if v.name not in constants]
    del m.graph.input[:]; m.graph.input.extend(keep)
    m.ir_version = max(m.ir_version, 4)  # initializers need not be inputs
    file = os.path.join(work, "ort.onnx"); onnx.save(m, file)
    class Reader(CalibrationDataReader):
        def __init__(self): self.rest = iter(samples)
        def get_next(self): return next(({keep[0].name: x} for x in self.rest), None)
    c = quiet(calibrate.create_calibrator, file, augmented_model_path=os.path.join(work, "augmented.onnx"), calibrate_method=CalibrationMethod[method])
    quiet(c.collect_data, Reader())
    return {k: tuple(float(np.asarray(v).ravel()[0]) for v in (t.range_value if hasattr(t, "range_value") else t)[:2]) for k, t in quiet(c.compute_data).items()}


def compare(wp, name, n, samples, skip):
    """By tool a list of (difference, tensor); under "TOOL, batches of 1" what its batches change."""
    plan = f"{name}.plan.json"
    how = ("--data", n.calibration, "--preprocess", n.preprocess, "--samples", samples)
    wp.call("calibrate", n.model, *how, "--platform", "trt_int8", "-o", plan)
    wp.call("preprocess", n.model, *how, "--dump", f"{name}.dump")
    arrays = [np.load(f) for f in sorted(glob.glob(wp.path(f"{name}.dump/*.npy")))]
    r = wp.json("analyze", plan, "--statistical", "--peers", "--samples", 1, "--html", f"{name}.html")
    ours = {s["tensor"]: {t["method"]: (t["lo"], t["hi"]) for t in s["thresholds"]} for s in r["statistical"] if s.get("thresholds")}
    found = {}
    def note(tool, tensor, want, got):
        top = max(abs(want[0]), abs(want[1]))
        if top > 0: found.setdefault(tool, []).append((max(abs(want[0] - got[0]), abs(want[1] - got[1])) / top, f"{name} {tensor}"))
    for tool, run in (("onnxruntime/minmax", lambda: ort_ranges(n.model, arrays, "MinMax", wp.work)), ("onnxruntime/entropy", lambda: ort_ranges(n.model, arrays, "Entropy", wp.work)),
                      ("onnxruntime/percentile", lambda: ort_ranges(n.model, arrays, "Percentile", wp.work)), ("nncf/mean-minmax", lambda: nncf_ranges(n.model, arrays))):
        try: ranges = run()
        except Exception as e: print(f"{tool} fails on {name}: {type(e).__name__}: {e}", file=sys.stderr); continue
        for tensor, want in ranges.items():
            if tensor in ours and tool in ours[tensor]: note(tool, tensor, want, ours[tensor][tool])
    for tensor, batches in activations(n.model, set(ours), arrays).items():
        whole = [np.concatenate([b.ravel() for b in batches])]
        for tool, make in TOOLS.items():
            if tool not in ours[tensor] or tool.startswith("onnxruntime/") or tool in skip: continue
            note(tool, tensor, make(True)(whole), ours[tensor][tool])
            if tool in ("ppq/percentile", "modelopt/entropy"): note(tool + ", batches of 1", tensor, make(True)(batches), ours[tensor][tool])
    return found


def table(found):
    print("| observer | tensors | within 1e-6 | within 2^-10 | largest difference | where |\n| --- | --- | --- | --- | --- | --- |")
    for tool, rows in found.items():
        worst = max(rows)
        print(f"| `{tool}` | {len(rows)} | {sum(d <= 1e-6 for d, _ in rows)} | {sum(d <= 2**-10 for d, _ in rows)} | {worst[0]:.1e} | {worst[1]} |")
    print(flush=True)


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("qwb", nargs="?"); p.add_argument("data", nargs="?")
    p.add_argument("--golden"); p.add_argument("--only", default="mobilenet_v1,squeezenet,resnet8,mnist-8,demo,ocr"); p.add_argument("--samples", type=int, default=8)
    p.add_argument("--skip", default="", help="tools to leave out; tensorrt/entropy takes seconds per tensor")
    p.add_argument("--rows", help="JSON file of what was compared, to which networks are added")
    o = p.parse_args()
    if o.golden: golden(o.golden); sys.exit()
    from networks import Workplace
    wp, all = Workplace(o.qwb, o.data), json.load(open(o.rows)) if o.rows and os.path.exists(o.rows) else {}
    for name, n in wp.networks(o.only):
        print(name, file=sys.stderr, flush=True)
        for tool, rows in compare(wp, name, n, o.samples, o.skip.split(",")).items(): all.setdefault(tool, []).extend(map(list, rows))
        if o.rows:
            with open(o.rows, "w") as f: json.dump(all, f)
    table(all)
