#!/usr/bin/env python3
"""LSTM on integers in ONNX Runtime (DynamicQuantizeLSTM) and LiteRT (UNIDIRECTIONAL_SEQUENCE_LSTM): whether the results of qwb's program are the
engine's, and its speed.

  lstm.py QWB [--work DIR] [--runs N] [--engine ort|litert]

QWB is the built binary. Needs: pip install onnxruntime==1.32.0 onnx==1.23.2 ai-edge-litert==2.3.0 numpy. Networks of one LSTM are made from a seed.
Results of qwb are those of its integer program (run --mode int8), of its own file and of quantize_dynamic's, imported. NSR is that of the first
result against the float model. Times are CPU times with one thread, in turns, the median of the ratios of a turn. LiteRT runs every file on all
samples twice, by its reference kernels and by its default: states must not go over from one run to the next."""
import argparse, glob, logging, os, shutil, subprocess, tempfile, time
import numpy as np, onnx, onnxruntime as ort
from onnx import helper as h, numpy_helper as nh
from onnxruntime.quantization import QuantType, quantize_dynamic

ap = argparse.ArgumentParser()
ap.add_argument("qwb"); ap.add_argument("--work"); ap.add_argument("--runs", type=int, default=60)
ap.add_argument("--engine", choices=["ort", "litert"])
a = ap.parse_args()
work = a.work or tempfile.mkdtemp()
os.makedirs(work, exist_ok=True)
logging.disable(logging.WARNING)
rng = np.random.default_rng(3)


def network(file, data, S=12, B=1, I=24, H=32, dirs=1, direction="forward", states=False, lens=None, peep=False, product=False):
    c = {"W": rng.standard_normal((dirs, 4 * H, I)) / np.sqrt(I), "R": rng.standard_normal((dirs, 4 * H, H)) / np.sqrt(H),
         "b": rng.standard_normal((dirs, 8 * H)) * 0.1}
    if peep: c["P"] = rng.standard_normal((dirs, 3 * H)) * 0.2
    if product: c["m"] = rng.standard_normal((H, 4))
    c = {k: v.astype(np.float32) for k, v in c.items()}
    if lens: c["lens"] = np.array(lens, np.int32)
    names = ["x", "W", "R", "b", "lens" if lens else "", "h" if states else "", "c" if states else "", "P" if peep else ""]
    info = lambda n, *s: h.make_tensor_value_info(n, 1, s)
    inputs = [info("x", S, B, I)] + ([info(n, dirs, B, H) for n in "hc"] if states else [])
    nodes = [h.make_node("LSTM", names, ["y", "yh", "yc"], name="cells", hidden_size=H, direction=direction)]
    outputs = [info("y", S, dirs, B, H), info("yh", dirs, B, H), info("yc", dirs, B, H)]
    if product:
        nodes.append(h.make_node("MatMul", ["yh", "m"], ["z"], name="product"))
        outputs.append(info("z", dirs, B, 4))
    g = h.make_graph(nodes, "g", inputs, outputs, [nh.from_array(v, k) for k, v in c.items()])
    onnx.save(h.make_model(g, opset_imports=[h.make_opsetid("", 17)], ir_version=8), file)
    os.makedirs(data, exist_ok=True)
    for i in range(8):
        d = {"x": rng.standard_normal((S, B, I)).astype(np.float32)}
        if states: d |= {n: (rng.standard_normal((dirs, B, H)) * 0.4).astype(np.float32) for n in "hc"}
        np.savez(f"{data}/{i}.npz", **d)


def session(file):
    o = ort.SessionOptions(); o.intra_op_num_threads = 1; o.log_severity_level = 4
    return ort.InferenceSession(file, o, providers=["CPUExecutionProvider"])


def qwb(*args):
    r = subprocess.run([a.qwb, *map(str, args)], cwd=work, capture_output=True, text=True)
    if r.returncode: raise SystemExit(f"qwb {' '.join(map(str, args))}: {r.stderr or r.stdout}")


def held(plan, engine, float_, data):
    """Results of a plan's program and of its file in the engine: compared, different, largest difference, NSR of the engine's."""
    out = os.path.join(work, "out"); shutil.rmtree(out, ignore_errors=True)
    qwb("run", plan, "--mode", "int8", "--data", data, "-o", "out")
    n = differ = 0; most = 0.0; nsr = []
    for file in sorted(glob.glob(data + "/*.npz")):
        d = dict(np.load(file)); got = np.load(glob.glob(out + "/*_" + os.path.basename(file))[0])
        want, plain = engine.run(None, d), float_.run(None, d)
        nsr.append(np.sum((want[0] - plain[0]) ** 2.0) / np.sum(plain[0] ** 2.0))
        for o, w in zip(engine.get_outputs(), want):
            n += w.size; differ += int((got[o.name] != w).sum()); most = max(most, float(np.abs(got[o.name] - w).max()))
    return n, differ, most, np.mean(nsr), d


def in_litert():
    """LSTM in float and hybrid, beside a product on integers, which alone is on integers in the first plan."""
    from ai_edge_litert import interpreter as tfl
    kinds = {"reference": tfl.OpResolverType.BUILTIN_REF, "default": tfl.OpResolverType.AUTO}
    rows = [("forward, 24 to 32", {}), ("states given, 33 to 20", dict(states=True, I=33, H=20)), ("reverse, 3 samples", dict(direction="reverse", B=3)),
            ("both directions, states, 2 samples", dict(dirs=2, direction="bidirectional", states=True, B=2)), ("1 step, states", dict(S=1, states=True)),
            ("forward, 128 to 128, 40 steps", dict(I=128, H=128, S=40)), ("both directions, peepholes", dict(dirs=2, direction="bidirectional", peep=True))]
    open(os.path.join(work, "lstm.yaml"), "w").write('- {select: "type:LSTM", domain: int}\n')
    open(os.path.join(work, "integer.yaml"), "w").write('- {select: "type:LSTM", activations: int8-asym-tensor}\n')
    print("| network | form | results compared | further apart than 1e-6 | largest difference | NSR | time by float |")
    print("|" + " --- |" * 7)
    for k, (name, options) in enumerate(rows):
        file, data = os.path.join(work, f"t{k}.onnx"), os.path.join(work, f"t{k}")
        network(file, data, product=True, **options)
        float_, clocks = session(file), {}
        for form, more in (("float", []), ("hybrid", ["--recipe", "lstm.yaml"]), ("integer", ["--recipe", "integer.yaml"])):
            if form != "float" and "peep" in options: continue
            plan, out = os.path.join(work, f"t{k}.{form}.plan.json"), os.path.join(work, "out")
            qwb("calibrate", file, "--data", data, "--platform", "tflite_int8", "--border-cost", 0, *more, "-o", plan)
            qwb("export", plan, "--platform", "tflite_int8", "-o", plan + ".tflite")
            shutil.rmtree(out, ignore_errors=True)
            qwb("run", plan, "--mode", "int8", "--data", data, "-o", "out")
            n = apart = 0; most = 0.0; nsr = []
            for kind in kinds.values():
                run = tfl.Interpreter(plan + ".tflite", experimental_op_resolver_type=kind, num_threads=1).get_signature_runner()
                clocks[form] = run
                for i in sorted(glob.glob(data + "/*.npz")) * 2:
                    d = dict(np.load(i)); got = run(**d); own = np.load(glob.glob(out + "/*_" + os.path.basename(i))[0])
                    want = float_.run(["y"], d)[0]
                    nsr.append(np.sum((got["y"] - want) ** 2.0) / np.sum(want ** 2.0))
                    for o in ("y", "yh", "yc"):
                        far = np.abs(got[o] - own[o])
                        n += far.size; apart += int((far > 1e-6).sum()); most = max(most, float(far.max()))
            times = []
            for _ in range(0 if form == "float" else a.runs):
                t = [time.process_time()]
                for f in ("float", form): clocks[f](**d); t.append(time.process_time())
                times.append((t[2] - t[1]) / (t[1] - t[0]))
            print(f"| {name} | {form} | {n} | {apart} | {most:.2g} | {np.mean(nsr):.2g} | {f'{np.median(times):.2f}' if times else ''} |", flush=True)


if a.engine != "ort": in_litert()
if a.engine == "litert": raise SystemExit
rows = [("forward, 24 to 32", {}), ("states given, 33 to 20", dict(states=True, I=33, H=20)),
        ("reverse, 3 samples of 12, 5 and 9 steps", dict(direction="reverse", B=3, lens=[12, 5, 9])),
        ("both directions, states, peepholes", dict(dirs=2, direction="bidirectional", states=True, peep=True)),
        ("both directions, 4, 12 and 0 steps", dict(dirs=2, direction="bidirectional", B=3, lens=[4, 12, 0])),
        ("forward, 128 to 128, 40 steps", dict(I=128, H=128, S=40))]
print("| network | results compared | different | largest difference | NSR | quantize_dynamic, per tensor: NSR, different | per channel | time by float |")
print("|" + " --- |" * 8)
for k, (name, options) in enumerate(rows):
    file, data = os.path.join(work, f"n{k}.onnx"), os.path.join(work, f"n{k}")
    network(file, data, **options)
    qwb("calibrate", file, "--data", data, "--platform", "onnxruntime", "--recipe", "preset:dynamic", "-o", f"n{k}.plan.json")
    qwb("export", f"n{k}.plan.json", "--platform", "onnxruntime", "-o", f"n{k}.q.onnx")
    f, q = session(file), session(os.path.join(work, f"n{k}.q.onnx"))
    n, differ, most, nsr, d = held(f"n{k}.plan.json", q, f, data)
    peers = []
    for per_channel in (False, True):
        peer = os.path.join(work, f"peer{k}{int(per_channel)}.onnx")
        quantize_dynamic(file, peer, per_channel=per_channel, weight_type=QuantType.QInt8)
        qwb("import", peer, "--platform", "onnxruntime", "-o", peer + ".plan.json")
        r = held(peer + ".plan.json", session(peer), f, data)
        peers.append(f"{r[3]:.2g}, {r[1]} of {r[0]}")
    times = []
    for _ in range(a.runs):
        t = [time.process_time()]
        for s in (f, q): s.run(None, d); t.append(time.process_time())
        times.append((t[2] - t[1]) / (t[1] - t[0]))
    print(f"| {name} | {n} | {differ} | {most:.2g} | {nsr:.2g} | {peers[0]} | {peers[1]} | {np.median(times):.2f} |")
