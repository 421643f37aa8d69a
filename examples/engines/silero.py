#!/usr/bin/env python3
"""silero_vad with its LSTM on integers in ONNX Runtime, over a minute of speech, each file on its own states: the error step by step, decisions
(speech or not, 0.5) other than float's, and time.

  silero.py QWB MODEL.onnx WAVE.wav [--work DIR]

QWB is the built binary. Needs: pip install onnxruntime==1.32.0 onnx==1.23.2 numpy. The model is bound to 16 kHz and calibrated on the first half
of the wave, read as it is (frames of 576 samples, 512 apart); figures are of the second half. quantize_dynamic is ONNX Runtime's. NSR of the
probability is over all steps together, that of the state a mean of steps. Times are CPU times of one thread, in turns, the median of ratios."""
import argparse, logging, os, subprocess, tempfile, time, wave
import numpy as np, onnx, onnxruntime as ort
from onnxruntime.quantization import QuantType, quantize_dynamic

ap = argparse.ArgumentParser()
ap.add_argument("qwb"); ap.add_argument("model"); ap.add_argument("wave"); ap.add_argument("--work")
a = ap.parse_args()
work = os.path.abspath(a.work or tempfile.mkdtemp())
a.qwb, a.model, a.wave = map(os.path.abspath, (a.qwb, a.model, a.wave))
os.makedirs(os.path.join(work, "fit"), exist_ok=True)
os.chdir(work)
ort.set_default_logger_severity(4)
logging.disable(logging.WARNING)
STFT, FLAGS = "If_0_then_branch__Inline_0__/stft/Conv", ["--state", "state=stateN", "--preprocess", "hop.yaml"]


def qwb(*args):
    r = subprocess.run([a.qwb, *map(str, args)], capture_output=True, text=True)
    if r.returncode: raise SystemExit(f"qwb {' '.join(map(str, args))}: {r.stderr or r.stdout}")


w = wave.open(a.wave)
x = np.frombuffer(w.readframes(w.getnframes()), np.int16)
half = len(x) // 1024 * 512
with wave.open("fit/a.wav", "wb") as o:
    o.setparams(w.getparams())
    o.writeframes(x[:half].tobytes())
open("hop.yaml", "w").write("hop: 512\n")
qwb("bind", a.model, "--input", "sr=16000", "--shape", "input=1,576", "--shape", "state=2,1,128", "-o", "m.onnx")
unseen = np.concatenate([np.zeros(64, np.float32), x[half:].astype(np.float32) / 32768])
frames = [unseen[i:i + 576][None] for i in range(0, len(unseen) - 575, 512)]

files = {"float": "m.onnx"}
for name, more, sets in (
    ("qwb: convolutions static, LSTM in float", [], []),
    ("qwb: convolutions static, LSTM on integers", [], [["type:LSTM", "domain=int"]]),
    ("the same, STFT in float", [], [["type:LSTM", "domain=int"], [STFT, "domain=fp32"]]),
    ("qwb: preset:dynamic", ["--recipe", "preset:dynamic"], [])):
    plan, file = f"{len(files)}.plan.json", f"{len(files)}.onnx"
    qwb("calibrate", "m.onnx", "--data", "fit", *FLAGS, "--platform", "onnxruntime", "--border-cost", 0, *more, "-o", plan)
    for s in sets: qwb("set", plan, *s)
    qwb("export", plan, "-o", file)
    files[name] = file
quantize_dynamic("m.onnx", "ort.onnx", weight_type=QuantType.QInt8, per_channel=True, op_types_to_quantize=["LSTM", "MatMul", "Gemm"])
files["ORT: quantize_dynamic"] = "ort.onnx"

o = ort.SessionOptions()
o.intra_op_num_threads = 1
sessions = {n: ort.InferenceSession(f, o, providers=["CPUExecutionProvider"]) for n, f in files.items()}
state, out, left, seconds = {n: np.zeros((2, 1, 128), np.float32) for n in files}, {n: [] for n in files}, {n: [] for n in files}, {n: [] for n in files}
for frame in frames:
    for n, s in sessions.items():
        start = time.process_time()
        p, state[n] = s.run(["output", "stateN"], {"input": frame, "state": state[n]})
        seconds[n].append(time.process_time() - start)
        out[n].append(p.ravel()[0]); left[n].append(state[n].ravel())
f, g = np.array(out["float"]), np.array(left["float"])
print(f"{len(frames)} steps, {int((f > .5).sum())} of them speech\n")
print("| file | NSR of probability | NSR of state: step 1 | an eighth | last | mean | decisions apart | largest difference | integers | bytes | time by float |")
print("|" + "---|" * 11)
for n in files:
    p, q = np.array(out[n]), np.array(left[n])
    nsr = ((q - g) ** 2).sum(1) / (g ** 2).sum(1)
    ops = [k.op_type for k in onnx.load(files[n]).graph.node]
    cells = [f"{((p - f) ** 2).sum() / (f ** 2).sum():.2g}", *(f"{v:.2g}" for v in (nsr[0], nsr[len(nsr) // 8], nsr[-1], nsr.mean())),
             f"{int(((p > .5) != (f > .5)).sum())}", f"{np.abs(p - f).max():.2g}",
             "LSTM" if "DynamicQuantizeLSTM" in ops else "-", f"{os.path.getsize(files[n]) / 1e6:.2f} M",
             f"{np.median(np.array(seconds[n]) / np.array(seconds['float'])):.2f}"]
    print(f"| {n} | " + " | ".join(cells) + " |")
