#!/usr/bin/env python3
"""silero_vad over a minute of speech in ONNX Runtime, OpenVINO and LiteRT, each file on its own states: the error step by step, decisions (speech or not,
0.5) other than float's, and time.

  silero.py QWB MODEL.onnx WAVE.wav [--work DIR] [--only ORT|OpenVINO|LiteRT]

QWB is the built binary. Needs: pip install onnxruntime==1.32.0 openvino==2026.4.1 nncf==3.4.0 ai-edge-litert==2.3.0 onnx==1.23.2 numpy.
The model is bound to 16 kHz and calibrated on the first half of the wave, read as it is (frames of 576 samples, 512 apart); figures are of the second half. "zeros": calibrated
with states of zeros, else with states rolled. The peers get the same steps (NNCF's network all of them, quantize_static every eighth), rolled in
float. NSR of the probability is over all steps together; of the state at a step, or the mean of steps. Times are CPU times of one thread, in
turns, the median of ratios, by the float file in the same engine."""
import argparse, logging, os, subprocess, tempfile, time, wave
import numpy as np, onnx, onnxruntime as ort
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_dynamic, quantize_static

ap = argparse.ArgumentParser()
ap.add_argument("qwb"); ap.add_argument("model"); ap.add_argument("wave"); ap.add_argument("--work"); ap.add_argument("--only", default="")
a = ap.parse_args()
work = os.path.abspath(a.work or tempfile.mkdtemp())
a.qwb, a.model, a.wave = map(os.path.abspath, (a.qwb, a.model, a.wave))
os.makedirs(os.path.join(work, "fit"), exist_ok=True)
os.chdir(work)
ort.set_default_logger_severity(4)
logging.disable(logging.WARNING)
ROLLED, CUT = ["--state", "state=stateN"], ["--preprocess", "hop.yaml"]


def qwb(*args):
    r = subprocess.run([a.qwb, *map(str, args)], capture_output=True, text=True)
    if r.returncode: raise SystemExit(f"qwb {' '.join(map(str, args))}: {r.stderr or r.stdout}")


def in_onnxruntime(file):
    o = ort.SessionOptions()
    o.intra_op_num_threads = 1
    s = ort.InferenceSession(file, o, providers=["CPUExecutionProvider"])
    return lambda frame, state: s.run(["output", "stateN"], {"input": frame, "state": state})


def in_openvino(model):
    import openvino as ov
    core = ov.Core()
    model = core.read_model(model) if isinstance(model, str) else model
    request = core.compile_model(model, "CPU", {"INFERENCE_NUM_THREADS": 1, "INFERENCE_PRECISION_HINT": "f32"}).create_infer_request()
    def run(frame, state):
        r = request.infer({"input": frame, "state": state})
        return r["output"].copy(), r["stateN"].copy()
    return run


def in_litert(file):
    from ai_edge_litert.interpreter import Interpreter
    call = Interpreter(file, num_threads=1).get_signature_runner()
    def run(frame, state):
        r = call(input=frame, state=state)
        return r["output"], r["stateN"]
    return run


w = wave.open(a.wave)
x = np.frombuffer(w.readframes(w.getnframes()), np.int16)
half = len(x) // 1024 * 512
with wave.open("fit/a.wav", "wb") as o:
    o.setparams(w.getparams())
    o.writeframes(x[:half].tobytes())
open("hop.yaml", "w").write("hop: 512\n")
qwb("bind", a.model, "--input", "sr=16000", "--shape", "input=1,576", "--shape", "state=2,1,128", "-o", "m.onnx")
STFT = next(n.name for n in onnx.load("m.onnx").graph.node if n.name.endswith("stft/Conv"))


def frames(part):
    part = np.concatenate([np.zeros(64, np.float32), part.astype(np.float32) / 32768])
    return [part[i:i + 576][None] for i in range(0, len(part) - 575, 512)]


unseen, steps, state, run = frames(x[half:]), [], np.zeros((2, 1, 128), np.float32), in_onnxruntime("m.onnx")
for f in frames(x[:half]):
    steps.append({"input": f, "state": state})
    state = run(f, state)[1]

files = {"float": ("ORT", "m.onnx")}
if a.only in "OpenVINO": files["float "] = "OpenVINO", "m.onnx"


def made(name, platform, more=(), sets=(), rolled=True):
    engine, ext = {"onnxruntime": ("ORT", "onnx"), "openvino_int8": ("OpenVINO", "onnx"), "tflite_int8": ("LiteRT", "tflite")}[platform]
    plan, file = f"{len(files)}.plan.json", f"{len(files)}.{ext}"
    if a.only not in engine: return
    data = ["fit", *ROLLED, *CUT] if rolled else ["zeros"]
    qwb("calibrate", "m.onnx", "--data", *data, "--platform", platform, "--border-cost", 0, *more, "-o", plan)
    for s in sets: qwb("set", plan, *s)
    qwb("export", plan, "-o", file)
    files[name + " " * ["ORT", "OpenVINO", "LiteRT"].index(engine)] = engine, file


class Reader(CalibrationDataReader):
    def __init__(self, rows): self.rest = iter(rows)
    def get_next(self): return next(self.rest, None)


os.makedirs("zeros", exist_ok=True)
for k, s in enumerate(steps): np.savez(f"zeros/{k:03}.npz", input=s["input"], state=np.zeros_like(state))
LSTM = ["type:LSTM", "domain=int"]
made("qwb: static", "onnxruntime")
made("qwb: static, zeros", "onnxruntime", rolled=False)
made("qwb: static, LSTM on integers", "onnxruntime", sets=[LSTM])
made("qwb: static, LSTM on integers, STFT in float", "onnxruntime", sets=[LSTM, [STFT, "domain=fp32"]])
made("qwb: preset:dynamic", "onnxruntime", ["--recipe", "preset:dynamic"])
open("cells.yaml", "w").write('- {select: "*", domain: fp32}\n- {select: "type:LSTM", domain: int}\n')
made("qwb: static", "tflite_int8")
made("qwb: static, LSTM on integers", "tflite_int8", sets=[LSTM])
made("qwb: LSTM alone, on integers", "tflite_int8", ["--recipe", "cells.yaml"])
open("static.yaml", "w").write('- {select: "*", domain: fp32}\n- {select: "type:LSTM", domain: int, activations: int8-asym-tensor}\n')
made("qwb: LSTM alone, on integers, scales of the plan", "tflite_int8", ["--recipe", "static.yaml"])
made("qwb: static, LSTM on integers, scales of the plan", "tflite_int8", sets=[[*LSTM, "activations=int8-asym-tensor"]])
if a.only in "ORT": quantize_dynamic("m.onnx", "ort.onnx", weight_type=QuantType.QInt8, per_channel=True, op_types_to_quantize=["LSTM", "MatMul", "Gemm"])
if a.only in "ORT": files["ORT: quantize_dynamic"] = "ORT", "ort.onnx"
for name, rows in () if a.only not in "ORT" else (("ORT: quantize_static", steps), ("ORT: quantize_static, zeros", [{**s, "state": np.zeros_like(state)} for s in steps])):
    quantize_static("m.onnx", f"static{len(files)}.onnx", Reader(rows[::8]), quant_format=QuantFormat.QDQ, per_channel=True)
    files[name] = "ORT", f"static{len(files)}.onnx"
made("qwb: static", "openvino_int8")
made("qwb: static, zeros", "openvino_int8", rolled=False)
made("qwb: static, mean ranges", "openvino_int8", ["--observer", "nncf/mean-minmax"])
made("qwb: static, STFT in float", "openvino_int8", sets=[[STFT, "domain=fp32"]])
if a.only in "OpenVINO":
    import nncf, openvino as ov
    files["NNCF"] = "OpenVINO", nncf.quantize(ov.Core().read_model("m.onnx"), nncf.Dataset(steps), subset_size=len(steps))

runs = {n: {"ORT": in_onnxruntime, "OpenVINO": in_openvino, "LiteRT": in_litert}[e](f) for n, (e, f) in files.items()}
state, out, left, seconds = {n: np.zeros((2, 1, 128), np.float32) for n in files}, {n: [] for n in files}, {n: [] for n in files}, {n: [] for n in files}
for frame in unseen:
    for n, run in runs.items():
        start = time.process_time()
        p, state[n] = run(frame, state[n])
        seconds[n].append(time.process_time() - start)
        out[n].append(p.ravel()[0]); left[n].append(state[n].ravel())
f, g = np.array(out["float"]), np.array(left["float"])
print(f"{len(unseen)} steps, {int((f > .5).sum())} of them speech\n")
print("| engine | file | NSR of probability | NSR of state: step 1 | an eighth | last | mean | decisions apart | largest difference | integers | bytes | time by float |")
print("|" + "---|" * 12)
for n, (engine, file) in files.items():
    p, q = np.array(out[n]), np.array(left[n])
    nsr = ((q - g) ** 2).sum(1) / (g ** 2).sum(1)
    ops = [k.op_type for k in onnx.load(file).graph.node] if str(file).endswith(".onnx") else ["DynamicQuantizeLSTM"] * (engine == "LiteRT" and "LSTM" in n)
    cells = [f"{((p - f) ** 2).sum() / (f ** 2).sum():.2g}", *(f"{v:.2g}" for v in (nsr[0], nsr[len(nsr) // 8], nsr[-1], nsr.mean())),
             f"{int(((p > .5) != (f > .5)).sum())}", f"{np.abs(p - f).max():.2g}",
             "LSTM" if "DynamicQuantizeLSTM" in ops else "-", f"{os.path.getsize(file) / 1e6:.2f} M" if isinstance(file, str) else "-",
             "-" if engine == "LiteRT" else f"{np.median(np.array(seconds[n]) / np.array(seconds['float' + ' ' * (engine != 'ORT')])):.2f}"]
    print(f"| {engine} | {n.strip()} | " + " | ".join(cells) + " |")
