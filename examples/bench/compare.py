#!/usr/bin/env python3
"""Measures qwb next to ONNX Runtime, numpy, the processor's peak and itself, in turn, and prints a table as Markdown.

  compare.py QWB MODELS DATA [--generator gen_models.py] [--only LINE,...] [--pairs N] [--json OUT] [--work DIR] [--list]

QWB is the built binary. MODELS holds resnet50.onnx, mobilenetv2.onnx and bert.onnx; what is missing is made by the generator.
DATA is a folder with models/ as the tests use it (QWB_TESTDATA). Needs Linux and: pip install onnxruntime onnx numpy.

Every line is taken in pairs: qwb, peer, qwb, peer, ... A pair counts if nobody else used 6 % of a core or more while it was taken;
other pairs are repeated, up to three times as many as asked for. A line for which too few pairs were quiet says so. Ratios are
those within pairs: median, smallest, largest.
"""
import argparse, fnmatch, json, os, subprocess, sys, tempfile, time
import numpy as np

QUIET = 0.06  # of a core
SPAN = 0.3    # seconds, the least that a sample takes


# ---- how busy the machine is

def cpu_of(pid):
    """Seconds of CPU that a process has used; those of its children are theirs."""
    try:
        with open(f"/proc/{pid}/stat") as f:
            fields = f.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    except FileNotFoundError:
        return 0.0


def busy():
    """Seconds of CPU that all processes, and the hypervisor, have used."""
    with open("/proc/stat") as f:
        t = [int(x) for x in f.readline().split()[1:9]]
    return (sum(t) - t[3] - t[4]) / os.sysconf("SC_CLK_TCK")


class Watch:
    """Tells what others use while a pair is taken. The processes of the pair are this one, those in pids, and children that ended."""

    def __init__(self, *pids):
        self.pids = [os.getpid(), *pids]
        self.start, self.others = time.monotonic(), self.now()

    def now(self):
        ended = os.times()
        return busy() - sum(map(cpu_of, self.pids)) - ended.children_user - ended.children_system

    def share(self):
        return max(0.0, (self.now() - self.others) / (time.monotonic() - self.start))


def pairs(ours, theirs, pids=()):
    """Takes pairs until enough were quiet. Returns the pairs that count and whether they are quiet ones."""
    quiet, rest = [], []
    for _ in range(3 * args.pairs):
        w = Watch(*pids)
        pair = (ours(), theirs())
        (quiet if w.share() < QUIET else rest).append(pair)
        if len(quiet) == args.pairs: break
    return (quiet, True) if len(quiet) == args.pairs else (quiet + rest, False)


# ---- the two sides

def qwb(*a):
    """Runs qwb and returns the object that it prints."""
    p = subprocess.run([QWB, *map(str, a), "--json"], capture_output=True, cwd=WORK)
    if p.returncode: raise RuntimeError(f"qwb {' '.join(map(str, a))}: {p.stderr.decode().strip()[-300:]}")
    return json.loads(p.stdout)


class Forward:
    """A qwb process that gives the seconds of one forward each time it is called."""

    def __init__(self, file, data, batch, threads, mode="fp32"):
        self.p = subprocess.Popen([QWB, "bench", "model", file, "--data", data, "--batch", str(batch), "--threads", str(threads), "--mode", mode,
                                   "--span", f"{SPAN}s", "--paced"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=WORK)
        self.pid = self.p.pid
        self.answer()

    def answer(self):
        line = self.p.stdout.readline()
        if not line: raise RuntimeError(self.p.stderr.read().strip()[-300:])
        return json.loads(line)

    def __call__(self):
        self.p.stdin.write("\n"); self.p.stdin.flush()
        return self.answer()["seconds"]

    def close(self):
        self.p.stdin.close(); self.p.wait()


def ort_forward(model, feeds, threads):
    """ONNX Runtime with all optimizations: a function that gives the seconds of one forward."""
    import onnxruntime as ort
    so = ort.SessionOptions(); so.intra_op_num_threads = threads; so.log_severity_level = 3
    s = ort.InferenceSession(model, so, providers=["CPUExecutionProvider"])
    s.run(None, feeds); s.run(None, feeds)

    def sample():
        n, t = 0, time.perf_counter()
        while time.perf_counter() - t < SPAN or n == 0:
            s.run(None, feeds); n += 1
        return (time.perf_counter() - t) / n
    return sample


def ort_calibrate(model, folder, count, threads):
    """onnxruntime.quantization's percentile calibration; run in a process of its own, whose memory counts. Prints JSON."""
    import onnxruntime as ort
    from onnxruntime.quantization.calibrate import CalibrationDataReader, CalibrationMethod, create_calibrator
    ort.set_default_logger_severity(3)
    make = ort.InferenceSession

    def session(path, sess_options=None, **k):  # the calibrator leaves the number of threads open
        sess_options.intra_op_num_threads = threads
        return make(path, sess_options=sess_options, **k)
    ort.InferenceSession = session
    name = make(model, providers=["CPUExecutionProvider"]).get_inputs()[0].name

    class Reader(CalibrationDataReader):
        files = iter([os.path.join(folder, f) for f in sorted(os.listdir(folder))][:count])

        def get_next(self):
            f = next(self.files, None)
            return f and {name: np.load(f)}
    with tempfile.TemporaryDirectory() as d:
        c = create_calibrator(model, augmented_model_path=os.path.join(d, "augmented.onnx"), calibrate_method=CalibrationMethod.Percentile)
        t = time.perf_counter()
        c.collect_data(Reader()); c.compute_data()
        seconds = time.perf_counter() - t
    with open("/proc/self/status") as f:
        rss = next(int(l.split()[1]) * 1024 for l in f if l.startswith("VmHWM:"))
    print(json.dumps({"seconds": seconds, "rss": rss}))


def peer_calibrate(model, folder, count, threads):
    p = subprocess.run([sys.executable, os.path.abspath(__file__), "--peer", model, folder, str(count), str(threads)], capture_output=True)
    if p.returncode: raise RuntimeError(f"onnxruntime.quantization: {p.stderr.decode().strip()[-300:]}")
    return json.loads(p.stdout.splitlines()[-1])


# ---- inputs and files

SHAPES = ("resnet50", "mobilenetv2", "bert")
TINY = ("pretrainedResnet", "kws_dequant_fp32", "vww_96_float", "ad01_fp32", "str_ww_dequant_fp32")
REAL = {"mobilenet_v1": "classifiers/mobilenet_v1_1.0_224.onnx", "squeezenet": "classifiers/squeezenet1.0.onnx", **{n: f"mlperf-tiny/{n}.onnx" for n in TINY}}


def model(name):
    if name in REAL: return os.path.join(args.data, "models", REAL[name])
    file = os.path.join(args.models, name + ".onnx")
    if not os.path.exists(file):
        if not args.generator: raise RuntimeError(f"{file} is missing, and there is no --generator")
        subprocess.run([sys.executable, args.generator, args.models, name], check=True, capture_output=True)
    return file


def inputs(name, batch):
    """The feeds for ONNX Runtime, and the same numbers as a file for qwb."""
    import onnxruntime as ort
    i, = ort.InferenceSession(model(name), providers=["CPUExecutionProvider"]).get_inputs()
    if name.startswith("gemm"): batch = i.shape[0]
    if isinstance(i.shape[0], int) and i.shape[0] != batch: raise RuntimeError(f"takes batches of {i.shape[0]} only")
    shape = [batch] + [d if isinstance(d, int) else 224 for d in i.shape[1:]]
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    file = os.path.join(WORK, f"{name}.{batch}.npy"); np.save(file, x)
    return {i.name: x}, file


def samples(name, count):
    """A folder of that many inputs, one file each."""
    folder = os.path.join(WORK, f"{name}.samples.{count}")
    if not os.path.isdir(folder):
        feeds, _ = inputs(name, 1)
        os.makedirs(folder)
        r = np.random.default_rng(1)
        for k in range(count): np.save(os.path.join(folder, f"{k:04}.npy"), r.standard_normal(next(iter(feeds.values())).shape).astype(np.float32))
    return folder


def plan(name, platform="trt_int8"):
    file = os.path.join(WORK, f"{name}.{platform}.plan.json")
    if not os.path.exists(file): qwb("calibrate", model(name), "--data", samples(name, 8), "--platform", platform, "--observer", "percentile", "-o", file)
    return file


def exported(name):
    """The model as ONNX Runtime reads it in INT8, of the plan for that platform. Whether the integers are right is not this script's question."""
    file = os.path.join(WORK, name + ".int8.onnx")
    if not os.path.exists(file): qwb("export", plan(name, "onnxruntime"), "--platform", "onnxruntime", "--unverified", "-o", file)
    return file


def imported(name):
    """A plan of a model that is quantized already."""
    file = os.path.join(WORK, name + ".plan.json")
    if not os.path.exists(file): qwb("import", model(name), "--platform", "onnxruntime", "-o", file)
    return file


# ---- lines: each returns (ratios, quiet) or (ratios, quiet, reach, goal) where these follow from the measurement

def forward(name, batch, threads):
    feeds, file = inputs(name, batch)
    ours, theirs = Forward(model(name), file, batch, threads), ort_forward(model(name), feeds, threads)
    try: got, quiet = pairs(ours, theirs, [ours.pid])
    finally: ours.close()
    return [a / b for a, b in got], quiet


def speedup(name, batch):
    _, file = inputs(name, batch)
    one, two = Forward(model(name), file, batch, 1), Forward(model(name), file, batch, 2)
    try: got, quiet = pairs(one, two, [one.pid, two.pid])
    finally: one.close(); two.close()
    return [a / b for a, b in got], quiet


def simulated(name, batch):
    _, file = inputs(name, batch)
    one, two = Forward(plan(name), file, batch, 1, "sim"), Forward(model(name), file, batch, 1)
    try: got, quiet = pairs(one, two, [one.pid, two.pid])
    finally: one.close(); two.close()
    return [a / b for a, b in got], quiet


def int8(name, threads):
    feeds, file = inputs(name, 1)
    ours, theirs = Forward(plan(name, "onnxruntime"), file, 1, threads, "int8"), ort_forward(exported(name), feeds, threads)
    try: got, quiet = pairs(ours, theirs, [ours.pid])
    finally: ours.close()
    return [a / b for a, b in got], quiet


def int8_imported(name, threads):
    feeds, file = inputs(name, 1)
    ours, theirs = Forward(imported(name), file, 1, threads, "int8"), ort_forward(model(name), feeds, threads)
    try: got, quiet = pairs(ours, theirs, [ours.pid])
    finally: ours.close()
    return [a / b for a, b in got], quiet


def int8_gain(name, threads):
    _, file = inputs(name, 1)
    one, two = Forward(model(name), file, 1, threads), Forward(plan(name, "onnxruntime"), file, 1, threads, "int8")
    try: got, quiet = pairs(one, two, [one.pid, two.pid])
    finally: one.close(); two.close()
    return [a / b for a, b in got], quiet


def rounds(): return "--rounds", args.pairs, "--patience", 2 * args.pairs


def spread(r): return [r["min"], r["median"], r["max"]]


def minmax_only(name, threads):
    r = qwb("bench", "calibration", model(name), "--data", samples(name, 32), "--samples", 8, "--threads", threads, *rounds())
    x = next(x for x in r["results"] if x["name"] == "minmax-only")
    return spread(x["over_forward"]), x["quiet_rounds"] >= args.pairs


def own_calibrate(name, count, threads):
    folder, out = samples(name, count), os.path.join(WORK, "calibrate.plan.json")
    for f in (out, out.replace(".plan.json", ".stats")):  # statistics that are there would be resumed from
        if os.path.exists(f): os.remove(f)
    return qwb("calibrate", model(name), "--data", folder, "--platform", "trt_int8", "--observer", "percentile", "--threads", threads, "-o", out)


def all_methods(name, threads):
    folder = samples(name, 32)
    got, quiet = pairs(lambda: own_calibrate(name, 32, threads)["seconds"], lambda: peer_calibrate(model(name), folder, 32, threads)["seconds"])
    return [a / b for a, b in got], quiet


def memory(name):
    folder = samples(name, 32)
    got = [(own_calibrate(name, 32, 1)["peak_rss_bytes"], peer_calibrate(model(name), folder, 32, 1)["rss"]) for _ in range(3)]
    return [a / b for a, b in got], True


def memory_growth(name):
    got = [(own_calibrate(name, 256, 1)["peak_rss_bytes"], own_calibrate(name, 32, 1)["peak_rss_bytes"]) for _ in range(3)]
    return [a / b for a, b in got], True


def layerwise(name):
    r = qwb("bench", "layerwise", plan(name), "--data", samples(name, 8), "--samples", 4, "--threads", 1, *rounds())
    quiet = r["results"][0]["quiet_rounds"] >= args.pairs
    bound = r["bound_macs"]["suffix"]
    return spread(r["forwards"]), quiet, 1.15 * bound, 1.05 * bound


def kernel(case):
    """Shares of the peak of the row that is used."""
    r = qwb("bench", "kernels", "--only", f"^{case} ", "--span", "100ms", *rounds())
    x = next(x for x in r["results"] if x.get("picked"))
    return [x["share_of_peak"]], x["quiet_rounds"] >= args.pairs


def histogram():
    """Elements per second of qwb over those of numpy.histogram, which is told the range."""
    n = 1 << 22
    x = np.random.default_rng(0).standard_normal(n).astype(np.float32)

    def ours():
        r = qwb("bench", "kernels", "--only", f"^bins n={n} ", "--rounds", 1, "--span", f"{SPAN}s")
        return next(x for x in r["results"] if x.get("picked"))["speed"] * 1e9

    def theirs():
        t = time.perf_counter(); np.histogram(x, 2048, (-8, 8))
        return n / (time.perf_counter() - t)
    got, quiet = pairs(ours, theirs)
    return [a / b for a, b in got], quiet


def histogram_speed():
    r = qwb("bench", "kernels", "--only", "^bins n=4194304 ", "--span", "100ms", *rounds())
    x = next(x for x in r["results"] if x.get("picked"))
    work = 4194304e-9
    return [work / x["max_seconds"], x["speed"], work / x["min_seconds"]], x["quiet_rounds"] >= args.pairs


# name: what it is compared with, reach, goal, whether more is better, how it is measured
LINES = {}
for n in (512, 1024, 2048):
    LINES[f"gemm f32 {n}, share"] = "FMA peak", .92, .97, True, lambda n=n: kernel(f"gemm m={n} n={n} k={n}")
    LINES[f"gemm f32 {n}"] = "ONNX Runtime", None, None, False, lambda n=n: forward(f"gemm{n}", 1, 1)
for n in (512, 1024, 2048):
    LINES[f"gemm u8s8s32 {n}, share"] = "VPDPBUSD peak", .92, .97, True, lambda n=n: kernel(f"gemm-u8s8 m={n} n={n} k={n}")
for name, reach in (("resnet50", 1.2), ("mobilenetv2", 1.3), ("bert", 1.1), ("mobilenet_v1", 1.3), ("squeezenet", 1.3)):
    for batch in (1, 16):
        for t in (1, 2):
            LINES[f"forward {name} batch {batch} threads {t}"] = "ONNX Runtime", reach, 1.0, False, lambda n=name, b=batch, t=t: forward(n, b, t)
for name in TINY:
    for t in (1, 2):
        LINES[f"tiny {name} threads {t}"] = "ONNX Runtime", 1.0, .7, False, lambda n=name, t=t: forward(n, 1, t)
for name, reach in (("resnet50", 1.15), ("mobilenetv2", 1.4), ("bert", 1.15)):
    LINES[f"simulated {name}"] = "own float forward", reach, 1.08, False, lambda n=name: simulated(n, 1)
for name in SHAPES[:2]:
    for t in (1, 2):
        LINES[f"calibrate minmax {name} threads {t}"] = "own float forward", 1.08, 1.04, False, lambda n=name, t=t: minmax_only(n, t)
for name, reach, goal in (("mobilenetv2", .12, .08), ("resnet50", .25, .20)):
    for t in (1, 2):
        LINES[f"calibrate all {name} threads {t}"] = "onnxruntime.quantization percentile", reach, goal, False, lambda n=name, t=t: all_methods(n, t)
for name in SHAPES[:2]:
    LINES[f"memory {name} 32 images"] = "onnxruntime.quantization percentile", .10, .06, False, lambda n=name: memory(n)
    LINES[f"memory {name} 256 images"] = "own with 32 images", 1.05, 1.0, False, lambda n=name: memory_growth(n)
for name in SHAPES[:2]:
    LINES[f"layerwise {name}, forwards"] = "suffix bound x 1.15, x 1.05", None, None, False, lambda n=name: layerwise(n)
LINES["observe min-max, share"] = "read bandwidth", .85, .95, True, lambda: kernel("min-max n=33554432")
LINES["observe histogram, Gelem/s"] = "", 2.0, 3.5, True, histogram_speed
LINES["observe histogram, times"] = "numpy.histogram", None, None, True, histogram
for name, reach in (("resnet50", 1.8), ("mobilenetv2", 1.5)):
    LINES[f"two threads {name}, times"] = "own on one thread", reach, 1.95, True, lambda n=name: speedup(n, 1)
for name, reach in (("resnet50", 1.2), ("mobilenetv2", 1.35), ("bert", 1.2), ("mobilenet_v1", 1.2), ("squeezenet", 1.2)):
    for t in (1, 2):
        LINES[f"int8 {name} threads {t}"] = "ONNX Runtime, the exported file", reach, 1.0, False, lambda n=name, t=t: int8(n, t)
for name in ("resnet50_qdqs8", "mobilenetv2_qdqs8"):
    for t in (1, 2):
        LINES[f"int8 s8 x s8 {name} threads {t}"] = "ONNX Runtime, the same file", .6, .45, False, lambda n=name, t=t: int8_imported(n, t)
for name in TINY:
    for t in (1, 2):
        LINES[f"int8 tiny {name} threads {t}"] = "ONNX Runtime, the exported file", 1.0, None, False, lambda n=name, t=t: int8(n, t)
for name, reach in (("resnet50", 3), ("mobilenetv2", 1.8)):
    LINES[f"int8 {name}, times"] = "own float", reach, None, True, lambda n=name: int8_gain(n, 1)


def verdict(x, reach, goal, more, quiet):
    def good(limit): return x >= limit if more else x <= limit
    v = "" if reach is None else "goal" if goal is not None and good(goal) else "reach" if good(reach) else "missed"
    return v + ("" if quiet else (", " if v else "") + "not quiet")


def main():
    import onnxruntime as ort
    machine = qwb("bench", "kernels", "--only", "^add n=32768 ", "--rounds", 1, "--span", "1ms")["machine"]
    machine["onnxruntime"], machine["numpy"] = ort.__version__, np.__version__
    print(f"{machine['cpu']} ({machine['isa']}), {machine['cores']} cores; ONNX Runtime {ort.__version__}, numpy {np.__version__}; "
          f"{args.pairs} pairs a line\n\n| line | peer | ratio [least, most] | reach | goal | verdict |\n|---|---|---|---|---|---|", flush=True)
    results = []
    for name, (peer, reach, goal, more, measure) in LINES.items():
        if args.only and not any(fnmatch.fnmatch(name, p) for p in args.only.split(",")): continue
        row = {"line": name, "peer": peer, "reach": reach, "goal": goal}
        try:
            ratios, quiet, *limits = measure()
            row["reach"], row["goal"] = reach, goal = limits or (reach, goal)
            row |= {"median": float(np.median(ratios)), "min": min(ratios), "max": max(ratios), "quiet": quiet, "verdict": verdict(np.median(ratios), reach, goal, more, quiet)}
            shown = f"{row['median']:.3f} [{row['min']:.3f}, {row['max']:.3f}]"
        except Exception as e:  # a line that cannot be taken leaves the others
            row["verdict"], shown = "left out: " + " ".join(str(e).split()), ""
        limits = ["" if x is None else f"{x:.3g}" for x in (reach, goal)]
        print(f"| {name} | {peer} | {shown} | {limits[0]} | {limits[1]} | {row['verdict']} |", flush=True)
        results.append(row)
        if args.json:
            with open(args.json, "w") as f: json.dump({"machine": machine, "results": results}, f, indent=2)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--peer"]:
        ort_calibrate(sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))
        sys.exit()
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("qwb"); ap.add_argument("models"); ap.add_argument("data")
    ap.add_argument("--generator", help="makes models that are missing")
    ap.add_argument("--only", help="lines, with wildcards, separated by commas")
    ap.add_argument("--pairs", type=int, default=7)
    ap.add_argument("--json", help="write the results to this file too")
    ap.add_argument("--work", help="keep inputs, plans and statistics in this folder")
    ap.add_argument("--list", action="store_true", help="print the names of the lines")
    args = ap.parse_args()
    if args.list:
        print("\n".join(LINES)); sys.exit()
    QWB = os.path.abspath(args.qwb)
    args.models, args.data = os.path.abspath(args.models), os.path.abspath(args.data)
    with tempfile.TemporaryDirectory(prefix="compare-") as temporary:
        WORK = os.path.abspath(args.work or temporary); os.makedirs(WORK, exist_ok=True)
        main()
