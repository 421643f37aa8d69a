#!/usr/bin/env python3
"""Holds imports and recipes of Model Optimizer and Quark against these tools: vendors.py modelopt|quark QWB DATA [--only NETWORKS]

    pip install 'nvidia-modelopt[onnx]==0.47.0'                                   for modelopt
    pip install amd-quark==0.13 onnxslim                                          for quark

Each tool quantizes networks to INT8 with configurations of its own. Its file is imported, and has to give what onnxruntime gives of the file,
and, before anything is rounded, the float network. The configuration, as the tool dumps it, is a recipe of qwb calibrate on the same samples:
the operators with weights that are quantized, the schemes of their weights and inputs, and the scales of the inputs are held against the file.
"""
import argparse, copy, importlib.metadata, inspect, json, logging, os, sys, warnings
import numpy as np, onnx, onnxruntime as ort

warnings.simplefilter("ignore")
from networks import Workplace, table

WEIGHTED = ("Conv", "Gemm", "MatMul")
SAMPLES = 16


def array(t): return onnx.numpy_helper.to_array(t)


class Quantized:
    """What a Q/DQ file says of operators with weights: by the name of the float network's operator, the grids of input and weight."""

    def __init__(self, path, model):
        self.path, graph = path, onnx.load(path).graph
        constants = {t.name: array(t) for t in graph.initializer}
        constants.update({n.output[0]: array(n.attribute[0].t) for n in graph.node if n.op_type == "Constant"})
        made = {o: n for n in graph.node for o in n.output}
        names = {n.name for n in model.node}
        behind = {}  # the operator with weights that a normalization belongs to, by what it computes
        producer = {o: n for n in model.node for o in n.output}
        for n in model.node:
            m = producer.get(n.input[0]) if n.op_type == "BatchNormalization" else n
            if m is not None and m.op_type in WEIGHTED: behind[n.output[0]] = m.name
        self.grids = {}
        for n in graph.node:
            if n.op_type not in WEIGHTED: continue
            name = n.name if n.name in names else behind.get(n.output[0], n.name)
            self.grids[name] = [self.grid(i, made, constants) for i in n.input[:2]]

    @staticmethod
    def grid(tensor, made, constants):
        """Scales, zero points and the type of the integers of a tensor behind a DQ, through what only moves data; None of others."""
        n = made.get(tensor)
        while n is not None and n.op_type in ("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "MaxPool", "Identity"): n = made.get(n.input[0])
        if n is None or n.op_type != "DequantizeLinear": return None
        zero = constants[n.input[2]]
        return constants[n.input[1]], zero, str(zero.dtype)

    def quantized(self): return {n for n, (x, w) in self.grids.items() if x and w}


def modelopt(model, inputs, settings, out):
    from modelopt.onnx.quantization import quantize
    logging.disable(logging.CRITICAL)
    given = {"quantize_mode": "int8", "calibration_method": "max", "high_precision_dtype": "fp32", "calibration_eps": ["cpu"], **copy.deepcopy(settings)}
    feeds = {k: np.concatenate([i[k] for i in inputs]) for k in inputs[0]}
    quantize(model, calibration_data=feeds, output_path=out, log_level="ERROR", **given)
    every = {k: p.default for k, p in inspect.signature(quantize).parameters.items() if p.default is not inspect.Parameter.empty}
    return {**every, **given, **settings, "onnx_path": model}


def quark(model, inputs, settings, out):
    import quark.onnx as q

    class Reader(q.CalibrationDataReader):
        def __init__(self): self.left = list(inputs)
        def get_next(self): return self.left.pop(0) if self.left else None

    settings = dict(settings)
    tensor = lambda kind: settings.pop(kind, q.Int8Spec)(calibration_method=method, **({"quant_granularity": q.QuantGranularity.Channel} if kind == "weight" and channels else {}))
    method, channels = q.CalibMethod[settings.pop("method", "MinMax")], settings.pop("channels", False)
    config = q.QConfig(q.QLayerConfig(activation=tensor("activation"), weight=tensor("weight")), **settings)
    quantizer = q.ModelQuantizer(config)
    quantizer.quantize_model(model, out, Reader())
    return config.to_dict()


def cases(tool, names, types, folds):
    """Settings and the platform that a recipe of them is for. Quark renames what it folds (normalizations) before it looks for names."""
    rare = [t for t in ("Gemm", "MatMul") if t in types][:1]
    if tool == "modelopt":
        yield "trt_int8", {}
        yield "trt_int8", {"nodes_to_exclude": [names[0][:-1] + ".*"], **({"op_types_to_exclude": rare} if len(types) > 1 else {})}
        yield "trt_int8", {"calibration_method": "entropy", "nodes_to_quantize": names[:len(names) // 2 + 1]}
        return
    import quark.onnx as q
    yield "onnxruntime", {}
    yield "onnxruntime", {"channels": True, "activation": q.UInt8Spec, "exclude": names[-1:], **({"layer_type_config": {None: rare}} if len(types) > 1 else {})}
    yield "onnxruntime", {"method": "Percentile", "exclude": [] if folds else ["^" + names[0][:3] + ".*"]}
    yield "xint8", {"activation": q.XInt8Spec, "weight": q.XInt8Spec, "method": "MinMSE"}


def outputs(path, inputs):
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    s = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return [s.run(None, i)[0] for i in inputs]


def noise(a, b): return float(sum(((x - y) ** 2).sum() for x, y in zip(a, b)) / sum((y ** 2).sum() for y in b))


def imported(place, path, model, files, inputs):
    """The noise of the imported plan: before rounding beside the float network, simulated beside onnxruntime on the file."""
    place.call("import", path, "-o", "i.plan.json")
    got = {}
    for mode in ("fp32", "sim"):
        made = place.json("run", "i.plan.json", "--data", os.path.dirname(files[0]), "--mode", mode, "--output", mode)["files"]
        got[mode] = [np.load(place.path(f)) for f in made]
    return noise(got["fp32"], outputs(model, inputs)), noise(got["sim"], outputs(path, inputs))


def held(place, plan, file, base):
    """What differs between plan and file: operators, schemes; and the largest ratio of scales."""
    nodes = {n["node"]: n for n in json.load(open(place.path(plan)))["nodes"]}
    both = [n for n in file.grids if n in nodes and base[n]["domain"] == "INT8"]
    ours, theirs = {n for n in both if nodes[n]["domain"] == "INT8"}, file.quantized() & set(both)
    said, worst = sorted(f"{n} by {'qwb' if n in ours else 'the tool'} alone" for n in ours ^ theirs), 1.0
    for n in sorted(ours & theirs):
        slots = {s["at"]: s for s in nodes[n]["slots"]}
        for at, (scale, zero, dtype) in zip(("in0", "in1"), file.grids[n]):
            root = slots[at]
            while "root" in root: root = next(s for s in nodes[root["root"].rsplit(":", 1)[0]]["slots"] if s["at"] == root["root"].rsplit(":", 1)[1])
            mine = [np.ndim(root["scale"]) > 0, not np.any(root["zero_point"]), ("u" if "uint" in root["scheme"] else "") + "int8"]
            his = [scale.size > 1, not np.any(zero), dtype]
            if np.size(root["scale"]) == 1: mine[0] = his[0] = scale.size > 1
            if mine != his: said.append(f"{n}:{at} {mine} {his}")
            elif at == "in0": worst = max(worst, float(np.max(np.maximum(root["scale"] / scale, scale / root["scale"]))))
    return len(both), said, worst


def main():
    p = argparse.ArgumentParser()
    p.add_argument("tool", choices=["modelopt", "quark"]); p.add_argument("qwb"); p.add_argument("data")
    p.add_argument("--only", default="demo,resnet8,kws,vww")
    a = p.parse_args()
    place, rows, failed = Workplace(a.qwb, a.data), [], 0
    for name, n in place.networks(a.only):
        files = place.inputs(name, n, SAMPLES)
        proto = onnx.load(n.model)
        feed = next(i.name for i in proto.graph.input if i.name not in {t.name for t in proto.graph.initializer})
        inputs = [{feed: np.load(f)} for f in files]
        model, base = place.path(name + ".onnx"), None
        onnx.save(proto, model)
        weighted = [x for x in proto.graph.node if x.op_type in WEIGHTED]
        for k, (platform, settings) in enumerate(cases(a.tool, [x.name for x in weighted], {x.op_type for x in weighted}, any(x.op_type == "BatchNormalization" for x in proto.graph.node))):
            out = place.path(f"{name}.{k}.onnx")
            config = globals()[a.tool](model, inputs, settings, out)
            json.dump(config, open(place.path("config.json"), "w"), default=lambda v: None)
            calibrate = ["calibrate", model, "--data", os.path.dirname(files[0]), "--platform", platform, "--border-cost", 0, "--fresh", "-o"]
            place.call(*calibrate, "base.plan.json")
            base = {x["node"]: x for x in json.load(open(place.path("base.plan.json")))["nodes"]}
            place.call(*calibrate, "r.plan.json", "--recipe", f"{a.tool}:config.json")
            quantized = Quantized(out, proto.graph)
            count, said, worst = held(place, "r.plan.json", quantized, base)
            before, after = imported(place, out, model, files, inputs) if any(x for x, _ in quantized.grids.values()) else (0.0, 0.0)
            failed += bool(said) + (after > 1e-4)  # sums of floats in front of a grid end in another code now and then
            rows.append([name, json.dumps({key: getattr(v, "__name__", v if not isinstance(v, dict) else str(v)) for key, v in settings.items()}), platform, count, "; ".join(said[:3]) or "equal", f"{worst:.3f}", f"{before:.1e}", f"{after:.1e}"])
    version = importlib.metadata.version({"modelopt": "nvidia-modelopt", "quark": "amd-quark"}[a.tool])
    table([f"{a.tool} {version}", "settings", "recipe on", "operators", "quantized, types", "largest ratio of scales", "import: float NSR", "NSR beside the engine"], rows)
    if failed: sys.exit(f"{failed} of {len(rows)} differ")


main()
