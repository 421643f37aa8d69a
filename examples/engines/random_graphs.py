#!/usr/bin/env python3
"""Runs small networks of all operators, random ones or those of a list, in the engines, and compares their outputs with qwb's integers.

  random_graphs.py [--kind random|listed] [--first N] [--count N] [--step N] [--work DIR] [--platforms NAME,...] [--levels ...] [--keep]

Run it in the root of the repository, with Go. Needs: pip install onnxruntime==1.32.0 openvino==2026.4.1 ai-edge-litert==2.3.0
ncnn==1.0.20261020 numpy. The test TestDrawnNetworks of the root package makes the networks (internal/networktest), calibrates each for every platform,
exports it, and writes files, inputs and qwb's outputs; a worker process runs the files, and one that an engine ends is named and skipped.
ONNX Runtime runs every file at each level of optimization, LiteRT by reference kernels and by XNNPACK, ncnn in its plain layout.

Different is a file whose outputs are farther from qwb's integers than these are from the float network, by more than NSR 1e-4, and by more than
qwb's own outputs move where codes are one step off (nudged_test.go: single codes, and a quarter or a fortieth of all): an engine that rounds ties
otherwise is not different, however much the network makes of one step. Every such file, every crash and everything refused is printed with its
network's number; the table counts.
"""
import argparse, collections, json, os, re, shutil, subprocess, sys, tempfile
import numpy as np

ap = argparse.ArgumentParser()
ap.add_argument("--kind", default="random"); ap.add_argument("--first", type=int, default=0); ap.add_argument("--count", type=int, default=200)
ap.add_argument("--step", type=int, default=1); ap.add_argument("--work"); ap.add_argument("--keep", action="store_true"); ap.add_argument("--chunk", type=int, default=400)
ap.add_argument("--platforms", default="onnxruntime,openvino_int8,tflite_int8,ncnn_int8"); ap.add_argument("--levels", default="0,1,2,3")
ap.add_argument("--worker", nargs=2); ap.add_argument("--test", help="the compiled test of the root package; default: it is compiled"); ap.add_argument("-v", action="store_true")
a = ap.parse_args()


def ort_session(path, level):
    import onnxruntime as ort
    o = ort.SessionOptions()
    o.intra_op_num_threads, o.log_severity_level = 1, 4
    o.graph_optimization_level = [ort.GraphOptimizationLevel.ORT_DISABLE_ALL, ort.GraphOptimizationLevel.ORT_ENABLE_BASIC,
                                  ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED, ort.GraphOptimizationLevel.ORT_ENABLE_ALL][level]
    s = ort.InferenceSession(path, o, providers=["CPUExecutionProvider"])
    return lambda feeds, names: s.run(names, feeds)


def openvino_session(path):
    import openvino as ov
    core = openvino_session.__dict__.setdefault("core", ov.Core())
    c = core.compile_model(core.read_model(path), "CPU", {"INFERENCE_NUM_THREADS": 1, "INFERENCE_PRECISION_HINT": "f32"})

    def run(feeds, names):
        r = c({i: feeds[next(n for n in i.get_names() if n in feeds)] for i in c.inputs})
        by = {n: v for o, v in r.items() for n in o.get_names()}
        return [by[n] if n in by else r[i] for i, n in enumerate(names)]  # two names of one tensor are one there
    return run


def litert_session(path, kernels):
    from ai_edge_litert import interpreter as tfl, schema_py_generated as schema
    it = tfl.Interpreter(path, experimental_op_resolver_type=getattr(tfl.OpResolverType, kernels), num_threads=1)
    it.allocate_tensors()
    m = schema.ModelT.InitFromObj(schema.Model.GetRootAs(open(path, "rb").read(), 0))
    layouts = {}
    for d in m.metadata or []:
        if d.name == b"qwb.layouts":
            lines = bytes(m.buffers[d.buffer].data).decode().splitlines()
            layouts = {n: [int(i) for i in p.strip("[]").split()] for n, p in (l.split("\t") for l in lines)}
    sig = m.signatureDefs[0]
    tensors = m.subgraphs[0].tensors

    def run(feeds, names):
        for t in sig.inputs:
            if sorted(feeds[t.name.decode()].shape) != sorted(tensors[t.tensorIndex].shape): raise RuntimeError("the file has a batch of 1")
            x, perm = feeds[t.name.decode()], layouts.get(tensors[t.tensorIndex].name.decode())
            it.set_tensor(t.tensorIndex, x.transpose(perm) if perm else x)
        it.invoke()
        out = {}
        for t in sig.outputs:
            x, perm = it.get_tensor(t.tensorIndex), layouts.get(tensors[t.tensorIndex].name.decode())
            out[t.name.decode()] = x.transpose(np.argsort(perm)) if perm else x
        return [out[n] for n in names]
    return run


def ncnn_session(path):
    import ncnn
    net = ncnn.Net()
    o = net.opt
    o.num_threads, o.use_packing_layout, o.use_vulkan_compute = 1, False, False
    o.use_bf16_storage = o.use_fp16_packed = o.use_fp16_storage = o.use_fp16_arithmetic = False
    axes = {l.split()[4]: sum(p.split("=")[0] in ("0", "1", "2", "11") for p in l.split()[5:]) for l in open(path) if l.startswith("Input ")}
    if net.load_param(path) or net.load_model(path.replace(".param", "") + ".bin"): raise RuntimeError("does not load")

    told = lambda n: re.sub(r"[\s=]", "_", n)

    def run(feeds, names):
        ex = net.create_extractor()
        feeds, names = {told(n): x.astype(np.float32) for n, x in feeds.items()}, [told(n) for n in names]
        if any(x.ndim > 1 and x.ndim != axes[n] and len(x) > 1 for n, x in feeds.items()): raise RuntimeError("the file has a batch of 1")
        for n, x in feeds.items(): ex.input(n, ncnn.Mat(np.ascontiguousarray(x if x.ndim == axes[n] else x[0])).clone())
        out = []
        for n in names:
            code, m = ex.extract(n)
            if code: raise RuntimeError(f"extract {n}: {code}")
            out.append(np.array(m))
        return out
    return run


def engine(what):
    """The engine of a run, and how far it optimizes."""
    words = what.split()
    return words[0], words[-1] if "level" in words else ""


def runs(f):
    """How the engines run a file: names and what opens it."""
    p = f["platform"]
    if p == "tflite_int8": return [("LiteRT " + k, lambda path, k=k: litert_session(path, k)) for k in ("BUILTIN_REF", "AUTO")]
    if p in ("openvino_int8", "openvino_int8_amx"): return [("OpenVINO", openvino_session)]
    if p == "ncnn_int8": return [("ncnn", ncnn_session)]
    if p == "float": return [(f"ORT float level {l}", lambda path, l=int(l): ort_session(path, l)) for l in a.levels.split(",")] + \
                            [("OpenVINO float", openvino_session)]
    return [(f"ORT {f['format']} level {l}", lambda path, l=int(l): ort_session(path, l)) for l in a.levels.split(",") if f["format"] == "onnx" or l in "03"]


def compare(z, k, names, got):
    """The worst output of a sample: NSR of the engine against the integers, of the integers against float."""
    worst = (0.0, 0.0, "", 0.0)
    for n, e in zip(names, got):
        f = z[f"{k}.float.{n}"]
        q = f if f"{k}.out.{n}" not in z.files else z[f"{k}.out.{n}"]
        if e.size != q.size: return (float("inf"), 0.0, f"{n}: {e.shape} for {q.shape}", 1.0)
        if q.size == 0: continue
        e, q, f = (x.astype(np.float64).ravel() for x in (e, q, f))
        same = (e == q) | (np.isnan(e) & np.isnan(q)) | (np.maximum(abs(e), abs(q)) < 5e-7)  # last bits of sums near 1 that cancel
        if same.all(): continue
        if not (np.isfinite(e) == np.isfinite(q)).all(): return (float("inf"), 0.0, f"{n}: not finite", 1.0)
        ok = np.isfinite(e) & np.isfinite(q) & np.isfinite(f)
        power = max(*(np.square(x[ok]).sum() for x in (f, q, e)), 1e-24)
        nsr, own = np.square(e - q)[ok].sum() / power, np.square(q - f)[ok].sum() / power
        if nsr >= worst[0]: worst = (nsr, own, n, float((~same).mean()))
    return worst


def worker(folder, log):
    """Runs the files of an index, from stdin on: a line of JSON for each run, one with where it is before."""
    with open(log, "a", buffering=1) as out:
        for line in sys.stdin:
            i, k = map(int, line.split())
            f = INDEX[i]
            d = os.path.join(folder, f["network"])
            name, opens = runs(f)[k]
            out.write(json.dumps(["at", i, k]) + "\n")
            try:
                z = np.load(os.path.join(d, f["samples"]))
                run = opens(os.path.join(d, f["file"]))
                worst = (0.0, 0.0, "", 0.0)
                for s in range(2):
                    feeds = {n[len(f"{s}.in."):]: z[n] for n in z.files if n.startswith(f"{s}.in.")}
                    worst = max(worst, compare(z, s, f["outputs"], run(feeds, f["outputs"])))
                out.write(json.dumps(["ran", i, k, *worst]) + "\n")
            except Exception as e:
                out.write(json.dumps(["error", i, k, " ".join(str(e).split())[:400]]) + "\n")


def load(folder):
    whole = os.path.join(folder, "index.json")
    return json.load(open(whole)) if os.path.exists(whole) else [json.loads(l) for l in open(os.path.join(folder, "index.jsonl"))]


if a.worker:
    INDEX = load(a.worker[0])
    worker(*a.worker)
    sys.exit()


def engines(folder, index):
    """Runs all files in worker processes; what ends one is a crash."""
    todo = [(i, k) for i, f in enumerate(index) if not f.get("refused") for k in range(len(runs(f)))]
    todo.sort(key=lambda t: (index[t[0]]["platform"], t[0]))
    halves = [todo[:len(todo) // 2], todo[len(todo) // 2:]]
    log = [os.path.join(folder, f"log{n}") for n in range(2)]
    results = []
    procs = [None, None]
    def start(n):
        p = subprocess.Popen([sys.executable, os.path.abspath(__file__), "--levels", a.levels, "--worker", folder, log[n]], stdin=subprocess.PIPE,
                             stdout=subprocess.DEVNULL, stderr=None if a.v else subprocess.DEVNULL, text=True)
        import threading
        def feed():
            try:
                for i, k in halves[n]: p.stdin.write(f"{i} {k}\n")
                p.stdin.close()
            except BrokenPipeError: pass
        threading.Thread(target=feed, daemon=True).start()
        return p
    for n in range(2): open(log[n], "w").close(); procs[n] = start(n)
    for n in range(2):
        while True:
            procs[n].wait()
            lines = [json.loads(l) for l in open(log[n])]
            done = {(l[1], l[2]) for l in lines if l[0] != "at"}
            if lines and lines[-1][0] == "at":  # it ended within
                with open(log[n], "a") as out: out.write(json.dumps(["crash", lines[-1][1], lines[-1][2], f"exit {procs[n].returncode}"]) + "\n")
                done.add((lines[-1][1], lines[-1][2]))
            halves[n] = [t for t in halves[n] if t not in done]
            if not halves[n]: break
            procs[n] = start(n)
        results += [json.loads(l) for l in open(log[n]) if not l.startswith('["at"')]
    return results


def kind(text):
    """A message without what differs between networks."""
    text = re.sub(r'"(?:[^"\\]|\\.)*"', '""', text)
    text = re.sub(r"\([A-Za-z]+, [^()]*\)|\[[^\]]*\]", "", text)
    return re.sub(r"[-+]?\d+(\.\d+)?(e[-+]?\d+)?", "N", text)[:160]


def reached(f):
    """How far the outputs of a file move where codes are one step off: NSR by name."""
    with tempfile.TemporaryDirectory() as folder:
        env = dict(os.environ, QWB_DRAWN=folder, QWB_DRAWN_FIRST=f["network"], QWB_DRAWN_COUNT="1", QWB_DRAWN_KIND=a.kind, QWB_DRAWN_PLATFORMS=f["platform"],
                   QWB_DRAWN_REACH="1")
        subprocess.run([test, "-test.run", "^TestDrawnNetworks$", "-test.timeout", "0"], env=env, capture_output=True, check=True)
        return next((x.get("reach") or {} for x in load(folder) if x["format"] == f["format"]), {})


test = a.test
work = a.work or tempfile.mkdtemp()
os.makedirs(work, exist_ok=True)
if not test:
    test = os.path.join(work, "root.test")
    subprocess.run(["go", "test", "-c", "-o", test, "."], check=True)
counts, kinds, networks = collections.defaultdict(collections.Counter), collections.defaultdict(list), 0
for first in range(0, a.count, a.chunk):
    folder = os.path.join(work, str(a.first + first * a.step))
    shutil.rmtree(folder, ignore_errors=True); os.makedirs(folder)
    n = min(a.chunk, a.count - first)
    env = dict(os.environ, QWB_DRAWN=folder, QWB_DRAWN_FIRST=str(a.first + first * a.step), QWB_DRAWN_COUNT=str(n), QWB_DRAWN_STEP=str(a.step), QWB_DRAWN_KIND=a.kind,
               QWB_DRAWN_PLATFORMS=a.platforms)
    p = subprocess.run([test, "-test.run", "^TestDrawnNetworks$", "-test.timeout", "0"], env=env, capture_output=True, text=True)
    if p.returncode: sys.exit(p.stdout[-4000:] + p.stderr[-4000:])
    index = load(folder)
    floats = {f["network"]: dict(f, platform="float", file="m.onnx") for f in index if not f.get("refused")}
    for x in floats.values():  # the network itself, of which the engine may not think as qwb does
        z = np.load(os.path.join(folder, x["network"], x["samples"]))
        x["samples"] = "float.npz"
        np.savez(os.path.join(folder, x["network"], "float.npz"), **{n: z[n] for n in z.files if ".out." not in n})
    index += floats.values()
    json.dump(index, open(os.path.join(folder, "index.json"), "w"))
    networks += len({f["network"] for f in index})
    for f in index:
        what = f"{f['platform']} {f['format']}"
        if not f.get("refused"): counts[what]["written"] += 1; continue
        if "changes nothing of the float model" in f["refused"]: counts[what]["nothing to quantize"] += 1; continue
        how = "refused by calibrate" if f["at"] == "calibrate" and "panic" not in f["refused"] else "refused later"
        if how == "refused later" and any(w.startswith("this plan is bad: it gives") for w in f.get("warnings", [])): how = "calibrate said so"
        counts[what][how] += 1
        kinds[f"{how}: {what}: {kind(f['refused'])}"].append((f["network"], f["refused"]))
    results = engines(folder, index)
    bad = lambda r: r[0] != "ran" or r[3] > 1e-4 and r[3] > r[4]
    own = {(index[r[1]]["network"], engine(runs(index[r[1]])[r[2]][0])) for r in results if index[r[1]]["platform"] == "float" and bad(r)}
    # LiteRT and ncnn do not read the network itself: what another engine has otherwise in float is counted apart, by output
    others = {(index[r[1]]["network"], r[5]) for r in results if index[r[1]]["platform"] == "float" and r[0] == "ran" and bad(r)}
    reaches = {}
    def reach(f):
        key = f["network"], f["platform"], f["format"]
        if key not in reaches: reaches[key] = reached(f)
        return reaches[key]
    for r in results:
        f = index[r[1]]
        what = runs(f)[r[2]][0]
        text = r[3] if r[0] != "ran" else f"NSR {r[3]:.3g}, qwb's own {r[4]:.3g}, {r[5]}, {r[6]:.0%} of elements"
        counts[what]["runs"] += 1
        if not bad(r): counts[what]["equal" if r[3] <= 1e-12 else "ties"] += 1
        elif "a batch of 1" in text: counts[what]["batch of 1"] += 1
        elif any("OpenVINO does not open" in w or "with AMX OpenVINO" in w for w in f.get("warnings", [])) and what == "OpenVINO": counts[what]["warned of"] += 1
        elif r[0] == "ran" and any("are +inf in float" in w and f'"{r[5].split(":")[0]}"' in w for w in f.get("warnings", [])): counts[what]["warned of"] += 1
        elif f["platform"] != "float" and (f["network"], engine(what)) in own: counts[what]["the float network too"] += 1
        elif r[0] == "ran" and what.split()[0] in ("LiteRT", "ncnn") and (f["network"], r[5]) in others: counts[what]["float elsewhere too"] += 1
        elif r[0] == "ran" and f["platform"] != "float" and r[3] <= reach(f).get(r[5], 0): counts[what]["ties that grow"] += 1
        else:
            how = "different" if r[0] == "ran" else r[0]
            counts[what][how] += 1
            kinds[f"{how}: {what.split(' level')[0]}: {kind(r[3]) if r[0] == 'error' else ''}"].append((f["network"], what[-2:] + " " + text))
    if not a.keep: shutil.rmtree(folder)
    print(f"{networks} networks", {k: dict(v) for k, v in counts.items()}, file=sys.stderr, flush=True)

for k in sorted(kinds, key=lambda k: -len(kinds[k])):
    print(f"## {len(kinds[k])} times {k}")
    seen = {}
    for network, text in kinds[k]: seen.setdefault(network, []).append(text)
    for network, texts in list(seen.items())[:12 if k.startswith("different") else 3]:
        print(f"    {network}: {texts[0][:260]}" + (f" (and{''.join(t[:2] for t in texts[1:])})" if len(texts) > 1 else ""))
print(f"\n{networks} networks ({a.kind}, from {a.first} in steps of {a.step})")
for what in sorted(counts): print(f"| {what} | " + ", ".join(f"{v} {k}" for k, v in sorted(counts[what].items())) + " |")
