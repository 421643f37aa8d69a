#!/usr/bin/env python3
"""Quantizes networks with other tools, in all forms that they write, imports the files and holds the float of the import to the original.

  import_forms.py QWB DATA [--work DIR] [--only NETWORK,...] [--tools TOOL,...] [--inputs N]

QWB is the built binary, DATA a folder with models/ and data/ as the tests use it (QWB_TESTDATA). Needs: pip install onnxruntime==1.32.0
onnx==1.23.2 numpy==2.4.6, and for each tool that is tried (the others are left out, with a line that says so) nncf==3.4.0, amd-quark==0.13,
olive-ai==0.13.0, nvidia-modelopt[onnx]==0.47.0, aimet-onnx==2.42.0, torch==2.15.0 with torchao==0.18.0. Columns:

  float NSR     of X.float.onnx against the original network, in ONNX Runtime, on N inputs that calibration has not seen: the weights of the
                import are rounded, its activations may have been put back
  the same      labels of the original and X.float.onnx that agree
  put back      activations that the file left to its quantizers
  --float NSR   the same of `qwb import --float ORIGINAL`, or why it refuses
"""
import argparse, contextlib, importlib.util, json, logging, os, re, subprocess, sys
import numpy as np, onnx, onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "evidence"))
from networks import Network, Workplace, table

ap = argparse.ArgumentParser()
ap.add_argument("qwb"); ap.add_argument("data"); ap.add_argument("--work"); ap.add_argument("--only", default=""); ap.add_argument("--tools", default="")
ap.add_argument("--inputs", type=int, default=64)
a = ap.parse_args()
place = Workplace(a.qwb, a.data, a.work)
logging.disable(logging.WARNING)
os.environ["TQDM_DISABLE"] = "1"


def made():
    """A small network with random weights and an activation behind each kind of operator, as tools drop and fold them."""
    r, nodes, weights = np.random.default_rng(3), [], []

    def const(name, x):
        weights.append(numpy_helper.from_array(np.asarray(x, np.float32), name)); return name

    def node(op, *inputs, **attrs):
        name = f"n{len(nodes)}"
        nodes.append(helper.make_node(op, list(inputs), [name], name=f"{op}_{name}", **attrs)); return name

    def conv(x, i, o, k=3, group=1):
        n = len(nodes)
        return node("Conv", x, const(f"w{n}", r.normal(0, (2 / (i // group * k * k)) ** .5, (o, i // group, k, k))), const(f"b{n}", r.normal(0, .3, o)),
                    pads=[k // 2] * 4, group=group, kernel_shape=[k, k])

    def clip(x, low, high):
        n = len(nodes)
        return node("Clip", x, const(f"low{n}", low), const(f"high{n}", high))

    def norm(x, c):
        n = len(nodes)
        return node("BatchNormalization", x, const(f"g{n}", r.uniform(.5, 1.5, c)), const(f"o{n}", r.normal(0, .5, c)), const(f"m{n}", r.normal(0, .5, c)),
                    const(f"v{n}", r.uniform(.5, 2, c)))

    x = clip(norm(conv("x", 3, 16), 16), 0, 6)
    y = node("Relu", norm(conv(x, 16, 16, group=16), 16))
    x = node("Relu", node("Add", conv(y, 16, 16, 1), x))
    x = node("Relu", node("Sub", conv(x, 16, 16), conv(y, 16, 16, 1)))
    x = node("Relu", node("Mul", conv(x, 16, 16, 1), conv(y, 16, 16, 1)))
    x = node("Relu", node("AveragePool", conv(x, 16, 16), kernel_shape=[2, 2], strides=[2, 2]))
    x = node("Relu", node("MaxPool", conv(x, 16, 16), kernel_shape=[2, 2], strides=[2, 2]))
    x = clip(conv(x, 16, 16), -1, 1)
    x = node("Relu", node("Concat", conv(x, 16, 8), conv(x, 16, 8, 1), axis=1))
    x = clip(conv(x, 16, 32), 0, 1)
    x = node("LeakyRelu", conv(x, 32, 32), alpha=.1)
    x = node("Flatten", node("GlobalAveragePool", x), axis=1)
    x = node("Relu", node("Gemm", x, const("fw", r.normal(0, .3, (32, 32))), const("fb", r.normal(0, .2, 32)), transB=1))
    nodes.append(helper.make_node("Gemm", [x, const("hw", r.normal(0, .3, (10, 32))), const("hb", r.normal(0, .2, 10))], ["y"], name="head", transB=1))
    g = helper.make_graph(nodes, "made", [helper.make_tensor_value_info("x", 1, [1, 3, 16, 16])], [helper.make_tensor_value_info("y", 1, [1, 10])], weights)
    onnx.save(helper.make_model(g, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), place.path("made.onnx"))
    for part, n in (("calibration", 64), ("eval", 64)):
        os.makedirs(place.path("made." + part), exist_ok=True)
        for k in range(n): np.save(place.path(f"made.{part}/{k:02}.npy"), r.normal(0, 1, (1, 3, 16, 16)).astype(np.float32))
    return Network(place.path("made.onnx"), place.path("made.calibration"), place.path("made.eval"))


def samples(name, n, source, count):
    """The inputs of data as the network is fed, by name."""
    s = session(n.model)
    files = place.inputs(name, Network(n.model, n.calibration, source, None, 0, n.preprocess), count)
    return [{s.get_inputs()[0].name: np.load(f)} for f in files]


def session(path):
    o = ort.SessionOptions()
    o.intra_op_num_threads, o.log_severity_level = 1, 3
    return ort.InferenceSession(path, o, providers=["CPUExecutionProvider"])


class Reader:
    """Samples as onnxruntime.quantization and its descendants take them."""

    def __init__(self, feeds): self.feeds = feeds; self.rewind()
    def get_next(self): return next(self.left, None)
    def rewind(self): self.left = iter(self.feeds)
    def get_first(self): return self.feeds[0]
    def __len__(self): return len(self.feeds)
    def __iter__(self): return iter(self.feeds)


def opset(model, least, out):
    """A copy of the model with an opset that the tool can write Q and DQ for."""
    m = onnx.load(model)
    if next(o.version for o in m.opset_import if o.domain in ("", "ai.onnx")) < least: m = onnx.version_converter.convert_version(m, least)
    onnx.save(onnx.shape_inference.infer_shapes(m), out); return out


def ort_static(fmt, act, weight, method="MinMax", per_channel=False, pre=False, **extra):
    def quantize(model, feeds, out):
        from onnxruntime.quantization import CalibrationMethod, QuantFormat, QuantType, quantize_static, shape_inference
        model = opset(model, 13, out + ".13.onnx")
        if pre:
            shape_inference.quant_pre_process(model, out + ".pre.onnx", skip_symbolic_shape=True)
            model = out + ".pre.onnx"
        quantize_static(model, out, Reader(feeds), quant_format=QuantFormat[fmt], activation_type=QuantType[act], weight_type=QuantType[weight],
                        per_channel=per_channel, calibrate_method=CalibrationMethod[method], extra_options=extra)
    return quantize


def nncf_default(**options):
    def quantize(model, feeds, out):
        import nncf
        m = onnx.load(opset(model, 13, out + ".13.onnx"))
        onnx.save(nncf.quantize(m, nncf.Dataset(feeds), **{k: getattr(nncf, v[0])(v[1]) if isinstance(v, tuple) else v for k, v in options.items()}), out)
    return quantize


def quark(config):
    def quantize(model, feeds, out):
        from quark.onnx import ModelQuantizer
        from quark.onnx.quantization.config import Config, get_default_config
        c = get_default_config(config.split(",")[0])
        if "without" in config: c.include_cle = False
        ModelQuantizer(Config(global_quant_config=c)).quantize_model(opset(model, 17, out + ".17.onnx"), out, Reader(feeds))
    return quantize


def modelopt(method, precision):
    def quantize(model, feeds, out):
        from modelopt.onnx.quantization import quantize as run
        name, = feeds[0]
        run(opset(model, 19, out + ".19.onnx"), quantize_mode="int8", high_precision_dtype=precision, calibration_data={name: np.concatenate([f[name] for f in feeds])},
            calibration_method=method, output_path=out, calibration_eps=["cpu"])
    return quantize


def olive(quant_format, **options):
    def quantize(model, feeds, out):
        from olive.data.config import DataComponentConfig, DataConfig
        from olive.data.registry import Registry
        from olive.hardware import DEFAULT_CPU_ACCELERATOR
        from olive.model import ONNXModelHandler
        from olive.passes.olive_pass import create_pass_from_dict
        from olive.passes.onnx.quantization import OnnxStaticQuantization
        import torch

        @Registry.register_dataset("qwb_samples")
        class Samples(torch.utils.data.Dataset):
            def __init__(self, **_): pass
            def __len__(self): return len(feeds)
            def __getitem__(self, i): return {k: v[0] for k, v in feeds[i].items()}, 0
        data = DataConfig(name="samples", load_dataset_config=DataComponentConfig(type="qwb_samples"))
        p = create_pass_from_dict(OnnxStaticQuantization, {"data_config": data, "quant_format": quant_format, **options}, disable_search=True,
                                  accelerator_spec=DEFAULT_CPU_ACCELERATOR)
        r = p.run(ONNXModelHandler(opset(model, 13, out + ".13.onnx")), os.path.join(os.path.dirname(out), "olive"))
        onnx.save(onnx.load(r.model_path), out)
    return quantize


def aimet(model, feeds, out):
    import aimet_onnx
    m = onnx.load(opset(model, 13, out + ".13.onnx"))
    s = aimet_onnx.QuantizationSimModel(m, param_type=aimet_onnx.int8, activation_type=aimet_onnx.int8, providers=["CPUExecutionProvider"])
    s.compute_encodings(feeds)
    onnx.save(s.to_onnx_qdq(), out)


def pt2e(quantizer):
    """The network again in PyTorch: no tool reads ONNX there, so this is a network of its own, exported in float and quantized."""
    def quantize(model, feeds, out):
        import torch
        from torch import nn
        from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
        q = quantizer()
        torch.manual_seed(0)
        net = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU6(), nn.Conv2d(16, 16, 3, padding=1, groups=16), nn.ReLU(),
                            nn.Conv2d(16, 32, 3, stride=2), nn.Hardtanh(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10)).eval()
        x = tuple(torch.from_numpy(v) for v in feeds[0].values())
        torch.onnx.export(net, x, out + ".float.onnx", dynamo=True, external_data=False, input_names=["x"], output_names=["y"])
        p = prepare_pt2e(torch.export.export(net, x).module(), q)
        for f in feeds: p(*(torch.from_numpy(v) for v in f.values()))
        torch.onnx.export(torch.export.export(convert_pt2e(p), x), x, out, dynamo=True, external_data=False, input_names=["x"], output_names=["y"])
        return out + ".float.onnx"
    return quantize


def xnnpack():
    from torchao.quantization.pt2e.quantizer.xnnpack_quantizer import XNNPACKQuantizer, get_symmetric_quantization_config  # moved to ExecuTorch
    return XNNPACKQuantizer().set_global(get_symmetric_quantization_config(is_per_channel=True))


def x86():
    from torchao.quantization.pt2e.quantizer import x86_inductor_quantizer as m
    return m.X86InductorQuantizer().set_global(m.get_default_x86_inductor_quantization_config())


# tool, package, form: how it quantizes
FORMS = [("ONNX Runtime 1.32.0", "onnxruntime", k, v) for k, v in {
    "Q/DQ U8S8": ort_static("QDQ", "QUInt8", "QInt8"),
    "Q/DQ U8S8, per channel, pre-processed": ort_static("QDQ", "QUInt8", "QInt8", per_channel=True, pre=True),
    "Q/DQ U8U8": ort_static("QDQ", "QUInt8", "QUInt8"),
    "Q/DQ S8S8": ort_static("QDQ", "QInt8", "QInt8"),
    "Q/DQ S8S8, symmetric": ort_static("QDQ", "QInt8", "QInt8", ActivationSymmetric=True, WeightSymmetric=True),
    "Q/DQ U16S8": ort_static("QDQ", "QUInt16", "QInt8", UseQDQContribOps=True),
    "Q/DQ U8S8, Percentile": ort_static("QDQ", "QUInt8", "QInt8", "Percentile", CalibPercentile=99.9),
    "Q/DQ U8S8, Entropy": ort_static("QDQ", "QUInt8", "QInt8", "Entropy"),
    "Q/DQ U8S8, per channel, Entropy, pre-processed": ort_static("QDQ", "QUInt8", "QInt8", "Entropy", per_channel=True, pre=True),
    "Q/DQ U8S8, activations kept": ort_static("QDQ", "QUInt8", "QInt8", QDQKeepRemovableActivations=True),
    "Q/DQ U8S8, pairs of their own": ort_static("QDQ", "QUInt8", "QInt8", DedicatedQDQPair=True),
    "Q/DQ U8S8, float weights with Q and DQ": ort_static("QDQ", "QUInt8", "QInt8", AddQDQPairToWeight=True),
    "QOperator U8S8": ort_static("QOperator", "QUInt8", "QInt8"),
    "QOperator U8U8": ort_static("QOperator", "QUInt8", "QUInt8"),
    "QOperator S8S8": ort_static("QOperator", "QInt8", "QInt8"),
    "QOperator U8S8, per channel, pre-processed": ort_static("QOperator", "QUInt8", "QInt8", per_channel=True, pre=True),
    "QOperator U8S8, Percentile": ort_static("QOperator", "QUInt8", "QInt8", "Percentile", CalibPercentile=99.9),
}.items()] + [("NNCF 3.4.0", "nncf", k, v) for k, v in {
    "default": nncf_default(), "mixed preset": nncf_default(preset=("QuantizationPreset", "mixed")),
    "accurate bias correction": nncf_default(fast_bias_correction=False), "for NPU": nncf_default(target_device=("TargetDevice", "NPU")),
}.items()] + [("Quark 0.13", "quark", k, quark(k)) for k in ("XINT8", "A8W8", "A8W8, without equalization", "A16W8", "S8S8_AAWS", "U8S8_AAWS", "U8S8_AAWS, without equalization", "U8U8_AAWA")
] + [("Olive 0.13.0", "olive", "Q/DQ", olive("QDQ")), ("Olive 0.13.0", "olive", "QOperator", olive("QOperator")),
] + [("Model Optimizer 0.47.0", "modelopt", f"{k}, {p}", modelopt(k, p)) for k, p in (("entropy", "fp16"), ("max", "fp32"))
] + [("AIMET 2.42.0", "aimet_onnx", "Q/DQ", aimet)
] + [("PyTorch 2.15 PT2E", "torchao", "X86Inductor", pt2e(x86)), ("PyTorch 2.15 PT2E", "executorch", "XNNPACK", pt2e(xnnpack))]


def nsr(want, got): return float(sum(((g - w) ** 2).sum() for w, g in zip(want, got)) / sum((w ** 2).sum() for w in want))


def outputs(path, feeds):
    s = session(path)
    return [s.run(None, dict(zip([i.name for i in s.get_inputs()], f.values())))[0].astype(np.float64).ravel() for f in feeds]


def qwb_import(file, *more):
    p = subprocess.run([place.qwb, "import", file, "-o", file + ".plan.json", *more], capture_output=True, text=True, cwd=place.work)
    if p.returncode: return None, p.stderr.strip().splitlines()[-1].split(": ", 1)[-1]
    return file + ".float.onnx", p.stderr


rows = []
networks = [("made", made())] if not a.only or "made" in a.only.split(",") else []
networks += [(k, n) for k, n in place.networks(a.only or "resnet8")]
for name, n in networks:
    calibration, unseen = samples(name, n, n.calibration, 32), samples(name, n, n.evaluation, a.inputs)
    for tool, package, form, quantize in FORMS:
        if a.tools and package not in a.tools.split(","): continue
        if importlib.util.find_spec(package.split(".")[0]) is None: print(f"{tool}: not installed", file=sys.stderr); continue
        if "PT2E" in tool and name != "made": continue
        file = place.path(re.sub(r"\W+", "-", f"{name}-{tool}-{form}") + ".onnx")
        try:
            with open(place.path("tools.log"), "a") as log, contextlib.redirect_stdout(log), contextlib.redirect_stderr(log):
                original = quantize(n.model, calibration, file) or n.model
        except Exception as e:
            rows.append([tool, form, name, f"the tool fails: {str(e).splitlines()[0][:90] if str(e) else type(e).__name__}"] + [""] * 4)
            print(rows[-1], file=sys.stderr, flush=True); continue
        want = outputs(original, unseen)
        float_, said = qwb_import(file)
        if float_ is None:
            rows.append([tool, form, name, f"refused: {said}"] + [""] * 4)
        else:
            got = outputs(float_, unseen)
            back = re.search(r"(\d+) activations? put back", said)
            same = sum(int(w.argmax() == g.argmax()) for w, g in zip(want, got))
            true, said = qwb_import(file, "--float", original)
            bound = f"{nsr(want, outputs(true, unseen)):.2g}" if true else re.sub(r".*?(node .*?) [(].*?that was quantized: ", r"refused: \1: ", said)
            engine = "does not load"
            with contextlib.suppress(Exception): engine = f"{nsr(want, outputs(file, unseen)):.2g}"
            rows.append([tool, form, name, f"{nsr(want, got):.2g}", f"{same} of {len(want)}", back.group(1) if back else 0, bound, engine])
        print(rows[-1], file=sys.stderr, flush=True)

print(f"{a.inputs} inputs per network, ONNX Runtime {ort.__version__}\n")
table(["tool", "form", "network", "float NSR", "same labels", "put back", "`--float` NSR", "NSR of the quantized file"], rows)
