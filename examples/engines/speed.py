#!/usr/bin/env python3
"""Time in the engine of qwb's file beside the files of NNCF and of ONNX Runtime's quantizer.

  speed.py QWB DATA [--work DIR] [--only NAME,...] [--more MODEL.onnx=SAMPLES[,UNSEEN] ...] [--runs N] [--engines openvino,onnxruntime] [--tune]

QWB is the built binary, DATA a folder with models/ and data/ as the tests use it (QWB_TESTDATA). Needs: pip install openvino==2026.4.1
nncf==3.4.0 onnxruntime==1.32.0 onnx==1.23.2 numpy. All tools calibrate on the same arrays. NNCF quantizes with its defaults; ONNX Runtime's
quantizer with Q/DQ, per channel, MinMax, after its own preprocessing. Files take turns in one process with one thread; a ratio is the median
over all turns of the CPU time of qwb's file by that of the other file in the same turn: above 1 qwb's is slower. NSR: of the engine's outputs,
against the float model in ONNX Runtime, mean over samples that nobody calibrated on, the worst output. OpenVINO computes floats in float32
(INFERENCE_PRECISION_HINT), so that processors with and without bf16 agree. With --best each peer also quantizes with its other setting (NNCF's
accurate bias correction; percentile 99.99), and the file with the smaller NSR is the peer's. openvino_amx is OpenVINO
with the file for openvino_int8_amx. Engines trt (TensorRT's file in ONNX Runtime, no
fusions) and litert (needs ai-edge-litert==2.3.0) have no peer. With --tune "qwb" is the file after `qwb tune` with its defaults, and
the untuned plan's NSR stands beside it: NNCF corrects biases by default, qwb when it tunes. --runs 0 measures no time.
"""
import argparse, contextlib, glob, io, logging, os, shutil, sys
import numpy as np, onnx, onnxruntime as ort, openvino as ov, nncf
from onnxruntime.quantization import CalibrationDataReader, CalibrationMethod, QuantFormat, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "evidence"))
from networks import Network, Workplace, table, turns

ap = argparse.ArgumentParser()
ap.add_argument("qwb"); ap.add_argument("data"); ap.add_argument("--work"); ap.add_argument("--only", default="")
ap.add_argument("--more", nargs="*", default=[]); ap.add_argument("--runs", type=int, default=40)
ap.add_argument("--engines", default="openvino,onnxruntime"); ap.add_argument("--samples", type=int, default=24)
ap.add_argument("--best", action="store_true"); ap.add_argument("--tune", action="store_true"); ap.add_argument("--unseen", type=int, default=8)
ap.add_argument("--flags", default="", help="more flags of qwb calibrate, separated by spaces")
a = ap.parse_args()
place, core = Workplace(a.qwb, a.data, a.work), ov.Core()
logging.disable(logging.WARNING)
ort.set_default_logger_severity(4)


class Reader(CalibrationDataReader):
    def __init__(self, name, arrays): self.rest = iter([{name: x} for x in arrays])
    def get_next(self): return next(self.rest, None)


def in_onnxruntime(file, fused=True):
    o = ort.SessionOptions(); o.intra_op_num_threads = 1
    if not fused: o.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    s = ort.InferenceSession(file, o, providers=["CPUExecutionProvider"])
    name = s.get_inputs()[0].name
    return lambda x: s.run(None, {name: x})


def in_openvino(model, x):
    if isinstance(model, str): model = core.read_model(model)
    if model.is_dynamic(): model.reshape(list(x.shape))
    r = core.compile_model(model, "CPU", {"INFERENCE_NUM_THREADS": 1, "INFERENCE_PRECISION_HINT": "f32"}).create_infer_request()
    return lambda x: [v.copy() for v in r.infer([x]).values()]


def in_litert(file, order):
    """The outputs in the order of the float model's, channels first as there."""
    from ai_edge_litert import interpreter as tfl
    it = tfl.Interpreter(file, num_threads=1); it.allocate_tensors()
    i, outs = it.get_input_details()[0], {d["name"]: d["index"] for d in it.get_output_details()}
    if not set(order) <= set(outs): order = list(outs)
    def run(x):
        it.set_tensor(i["index"], x if x.shape == tuple(i["shape"]) else x.transpose(0, *range(2, x.ndim), 1))
        it.invoke()
        return [it.get_tensor(outs[n]) for n in order]
    return run


def nsr(run, samples, wanted):
    worst = 0
    for k in range(len(wanted[0])):
        alike = lambda y, w: y if y.shape == w.shape else y.reshape(w.shape) if y.ndim != w.ndim else y.transpose(0, y.ndim - 1, *range(1, y.ndim - 1))
        each = [np.sum((alike(run(x)[k], w[k]).astype(np.float64) - w[k]) ** 2) / max(np.sum(np.float64(w[k]) ** 2), 1e-30) for x, w in zip(samples, wanted)]
        worst = max(worst, float(np.mean(each)))
    return worst


def quiet(f, *args, **more):
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()): return f(*args, **more)


def attempt(f):
    try: return f()
    except (Exception, SystemExit) as e:
        print("  ", type(e).__name__, (str(e).splitlines() or [""])[0][:150], file=sys.stderr)
        return None


def prepared(name, n, samples):
    """The model as ONNX Runtime's and NNCF's quantizers want it: shapes fixed, opset 13 at least."""
    m = onnx.load(n.model)
    if max(o.version for o in m.opset_import if o.domain in ("", "ai.onnx")) < 13:
        m = onnx.version_converter.convert_version(m, 13); m.ir_version = 8
    constants = {i.name for i in m.graph.initializer}
    for i in [i for i in m.graph.input if i.name in constants]: m.graph.input.remove(i)
    for d, size in zip(m.graph.input[0].type.tensor_type.shape.dim, samples[0].shape): d.dim_value = size
    onnx.save(m, place.path(name + ".fixed.onnx"))
    quiet(quant_pre_process, place.path(name + ".fixed.onnx"), place.path(name + ".pre.onnx"), skip_symbolic_shape=True)
    return place.path(name + ".pre.onnx")


def ort_quantizer(name, model, calibration, method="MinMax"):
    file = place.path(name + f".ort.{method}.onnx")
    more = {} if method == "MinMax" else {"calibrate_method": CalibrationMethod.Percentile, "extra_options": {"CalibPercentile": 99.99}}
    reader = Reader(onnx.load(model).graph.input[0].name, calibration)
    quiet(quantize_static, model, file, reader, quant_format=QuantFormat.QDQ, per_channel=True, **more)
    return file


def best(make, settings, unseen, wanted):
    """What make gives for the first of the settings; with --best for the one with the smallest error."""
    runs = [r for r in (attempt(lambda: make(s)) for s in settings[:None if a.best else 1]) if r]
    return min(runs, key=lambda r: nsr(r, unseen, wanted)) if runs else None


def qwb_file(name, n, platform, tuned=False):
    plan, file = f"{name}.{platform}.plan.json", place.path(f"{name}.{platform}." + ("tflite" if platform == "tflite_int8" else "onnx"))
    if tuned: place.json("tune", plan, "--method", "auto", "--samples", a.samples)
    elif os.path.exists(place.path(plan)): os.remove(place.path(plan))
    if not tuned: place.json("calibrate", n.model, "--data", n.calibration, "--preprocess", n.preprocess, "--samples", a.samples, "--platform", platform,
                             *a.flags.split(), "-o", plan)
    place.json("export", plan, "--platform", platform, "-o", file)
    return file


def arrays(n, data, count):
    folder = place.path("arrays"); shutil.rmtree(folder, ignore_errors=True)
    place.call("preprocess", n.model, "--data", data, "--preprocess", n.preprocess, "--samples", count, "--dump", folder)
    return [np.load(f) for f in sorted(glob.glob(folder + "/*.np[yz]"))]


def networks():
    if a.only != "none": yield from place.networks(a.only)
    for text in a.more:
        model, data = text.split("=")
        data, unseen = (os.path.abspath(x) for x in (data.split(",") * 2)[:2])
        yield os.path.basename(model)[:-5], Network(os.path.abspath(model), data, unseen)


rows = []
for name, n in networks():
    calibration, unseen = arrays(n, n.calibration, a.samples), arrays(n, n.evaluation, a.unseen)
    model = attempt(lambda: prepared(name, n, calibration)) or n.model
    float_run = in_onnxruntime(n.model)
    wanted = [float_run(x) for x in unseen]
    for engine in a.engines.split(","):
        order = [o.name for o in onnx.load(n.model, load_external_data=False).graph.output]
        open_ = {"onnxruntime": in_onnxruntime, **dict.fromkeys(("openvino", "openvino_amx"), lambda f: in_openvino(f, calibration[0])), "trt": lambda f: in_onnxruntime(f, False),
                 "litert": lambda f: in_litert(f, order)}[engine]
        platform = {"onnxruntime": "onnxruntime", "openvino": "openvino_int8", "openvino_amx": "openvino_int8_amx", "trt": "trt_int8", "litert": "tflite_int8"}[engine]
        files = {"qwb": attempt(lambda: open_(qwb_file(name, n, platform)))}
        untuned = nsr(files["qwb"], unseen, wanted) if a.tune and files["qwb"] else None
        if untuned is not None: files["qwb"] = attempt(lambda: open_(qwb_file(name, n, platform, True)))
        if engine in ("trt", "litert"):
            if files["qwb"]:
                own = [*([f"{untuned:.2g}"] if a.tune else []), f"{nsr(files['qwb'], unseen, wanted):.2g}"]
                rows.append([name, engine, *["-"] * (3 if a.runs else 0), *own, "-", "-"])
                print(rows[-1], file=sys.stderr, flush=True)
            continue
        def peer(fast):
            if engine.startswith("openvino"):
                m = core.read_model(n.model)
                if m.is_dynamic(): m.reshape(list(calibration[0].shape))
                return in_openvino(quiet(nncf.quantize, m, nncf.Dataset(calibration), fast_bias_correction=fast), calibration[0])
            m, file = onnx.load(model), place.path(f"nncf.{fast}.onnx")
            onnx.save(quiet(nncf.quantize, m, nncf.Dataset([{m.graph.input[0].name: x} for x in calibration]), fast_bias_correction=fast), file)
            return in_onnxruntime(file)
        files["NNCF"] = best(peer, [True, False], unseen, wanted)
        files["ORT"] = best(lambda method: open_(ort_quantizer(name, model, calibration, method)), ["MinMax", "Percentile"], unseen, wanted)
        files["float"] = open_(n.model)
        have = [k for k in files if files[k]]
        if "qwb" not in have: continue
        t = dict(zip(have, turns([files[k] for k in have], calibration[0], a.runs))) if a.runs else {}
        ratio = lambda k: f"{np.median(t['qwb'] / t[k]):.2f}" if k in t else "-"
        rows.append([name, engine, *(ratio(k) for k in ("NNCF", "ORT", "float") if a.runs), *([f"{untuned:.2g}"] if a.tune else []),
                     *(f"{nsr(files[k], unseen, wanted):.2g}" if files[k] else "-" for k in ("qwb", "NNCF", "ORT"))])
        print(rows[-1], file=sys.stderr, flush=True)

print(f"OpenVINO {ov.__version__}, NNCF {nncf.__version__}, ONNX Runtime {ort.__version__}; one thread. Time: qwb's file by the other one's.\n")
times = ["time by NNCF", "by ORT's quantizer", "by float"] if a.runs else []
table(["network", "engine", *times, *(["NSR qwb, untuned", "qwb tune"] if a.tune else ["NSR qwb"]), "NSR NNCF", "NSR ORT's quantizer"], rows)
