#!/usr/bin/env python3
"""Measures qwb next to ONNX Runtime, OpenVINO, oneDNN, llama.cpp, the processor's peak, itself and an older qwb, in turn; prints a table as Markdown.

  compare.py QWB MODELS DATA [--before OLDQWB] [--generator gen_models.py] [--only LINE,...] [--json OUT] [--work DIR] [--write FILE] [--list]

QWB is the built binary. MODELS holds the networks with random weights; what is missing is made by the generator.
DATA is a folder with models/ and data/ as the tests use it (QWB_TESTDATA). Needs Linux and: pip install onnxruntime onnx openvino numpy; for the
lines "generate" llama-cpp-python.

All parties of a line run in turn: old qwb, qwb, peers, old qwb, qwb, peers, ... One turn of all is a round. A round counts if nobody else
used 6 % of a core or more while it was taken; others are repeated. Ratios are those within rounds: median, smallest, largest.
With --json an interrupted run continues where it was.
"""
import argparse, collections, contextlib, fnmatch, glob, hashlib, json, os, re, shutil, statistics, subprocess, sys, tempfile, time

QUIET = 0.06  # of a core
SPAN = 0.15   # seconds, the least that a sample takes
GENERATE, PROMPT = 0.4, 128  # seconds of decoding, and of prompts, of how many tokens each
SETTLE = 0.05 # seconds; the threads of ONNX Runtime spin for 40 ms after a run


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
    """Tells what others use while a round is taken. The processes of the round are this one, those in pids, and children that ended."""

    def __init__(self, pids):
        self.pids = [os.getpid(), *pids]
        self.start, self.others = time.monotonic(), self.now()

    def now(self):
        ended = os.times()
        return busy() - sum(map(cpu_of, self.pids)) - ended.children_user - ended.children_system

    def share(self):
        return max(0.0, (self.now() - self.others) / (time.monotonic() - self.start))


# ---- the other side: this script runs itself as a server of samples, in a process of its own for each peer

def serve(peer, file, feed, threads):
    """Answers every line of standard input with the seconds of one forward."""
    step, isa = {"ONNX Runtime": ort_step, "OpenVINO": openvino_step, "oneDNN": onednn_step}[peer](file, feed, threads)
    step(); step()
    print(json.dumps({"ready": True, "isa": isa}), flush=True)
    for _ in sys.stdin:
        n, t = 0, time.perf_counter()
        while time.perf_counter() - t < SPAN or n == 0:
            step(); n += 1
        seconds = (time.perf_counter() - t) / n
        if threads > 1: time.sleep(SETTLE)
        print(json.dumps({"seconds": seconds}), flush=True)


def ort_step(file, feed, threads):
    import numpy as np, onnxruntime as ort
    so = ort.SessionOptions(); so.intra_op_num_threads = threads; so.log_severity_level = 3
    s = ort.InferenceSession(file, so, providers=["CPUExecutionProvider"])
    feeds = {s.get_inputs()[0].name: np.load(feed)}
    return lambda: s.run(None, feeds), {}


def openvino_step(file, feed, threads):
    import numpy as np, openvino as ov
    x, core = np.load(feed), ov.Core()
    m = core.read_model(file)
    m.reshape({m.inputs[0]: x.shape})
    # in float32, as all others: the default is bfloat16 on processors that have it
    c = core.compile_model(m, "CPU", {"INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1, "INFERENCE_PRECISION_HINT": "f32"})
    request, isa = c.create_infer_request(), collections.Counter()
    for o in c.get_runtime_model().get_ops():
        i = o.get_rt_info()
        if i["layerType"].astype(str) in ("Convolution", "FullyConnected", "MatMul"): isa[i["primitiveType"].astype(str)] += 1
    return lambda: request.infer({0: x}, share_inputs=True), isa


def onednn_step(kind, size, threads):
    """oneDNN's own products: in float32 with packed weights; torch.mm would be another library."""
    import torch, torch.utils.mkldnn
    torch.set_num_threads(threads); torch.set_grad_enabled(False)
    n = int(size)
    if kind == "f32":
        linear, x = torch.utils.mkldnn.to_mkldnn(torch.nn.Linear(n, n, bias=False).eval()), torch.randn(n, n).to_mkldnn()
        return lambda: linear(x), {}
    a, b = (torch.randint(-127, 127, (n, n), dtype=torch.int8) for _ in range(2))
    return lambda: torch._int_mm(a, b), {}


def llama_steps(file, threads):
    """What decodes 64 tokens, one after the other, and what runs a prompt, by llama.cpp, as qwb bench generate does."""
    import llama_cpp as l, numpy as np
    l.llama_log_set(quiet := l.llama_log_callback(lambda *a: None), None)
    m, c = l.llama_model_load_from_file(file.encode(), l.llama_model_default_params()), l.llama_context_default_params()
    c.n_ctx, c.n_batch, c.n_ubatch, c.n_threads, c.n_threads_batch = 256, PROMPT, PROMPT, threads, threads
    context, words = l.llama_init_from_model(m, c), l.llama_vocab_n_tokens(l.llama_model_get_vocab(m))
    memory = l.llama_get_memory(context)

    def run(*tokens):
        ids = (l.llama_token * len(tokens))(*tokens)
        if l.llama_decode(context, l.llama_batch_get_one(ids, len(tokens))): raise RuntimeError("llama_decode failed")
        return int(np.ctypeslib.as_array(l.llama_get_logits_ith(context, -1), (words,)).argmax())

    def decode():
        l.llama_memory_clear(memory, False)
        token = 1
        for _ in range(64): token = run(token)

    def prompt():
        l.llama_memory_clear(memory, False)
        run(*[i * 7919 % words for i in range(PROMPT)])
    return decode, prompt, quiet  # what is logged to has to stay


def serve_llama(file, threads):
    """Answers every line of standard input with the seconds of a token and of a prompt."""
    decode, prompt, quiet = llama_steps(file, threads)

    def seconds(step):
        n, t = 0, time.perf_counter()
        while time.perf_counter() - t < GENERATE or n == 0: step(); n += 1
        return (time.perf_counter() - t) / n
    decode(); prompt()
    print(json.dumps({"ready": True}), flush=True)
    for _ in sys.stdin: print(json.dumps({"decode": seconds(decode) / 64, "prompt": seconds(prompt)}), flush=True)


def ort_calibrate(model, folder, threads):
    """onnxruntime.quantization's percentile calibration; in a process of its own, whose memory counts. Prints JSON."""
    out, sys.stdout = sys.stdout, sys.stderr
    import numpy as np, onnxruntime as ort
    from onnxruntime.quantization.calibrate import CalibrationDataReader, CalibrationMethod, create_calibrator
    ort.set_default_logger_severity(3)
    make = ort.InferenceSession

    def session(path, sess_options=None, **k):  # the calibrator leaves the number of threads open
        sess_options.intra_op_num_threads = threads
        return make(path, sess_options=sess_options, **k)
    ort.InferenceSession = session
    name = make(model, providers=["CPUExecutionProvider"]).get_inputs()[0].name

    class Reader(CalibrationDataReader):
        files = iter([os.path.join(folder, f) for f in sorted(os.listdir(folder))])

        def get_next(self):
            f = next(self.files, None)
            return f and {name: np.load(f)}
    with tempfile.TemporaryDirectory() as d:
        c = create_calibrator(model, augmented_model_path=os.path.join(d, "augmented.onnx"), calibrate_method=CalibrationMethod.Percentile)
        t = time.perf_counter()
        c.collect_data(Reader()); c.compute_data()
        seconds = time.perf_counter() - t
    print(json.dumps({"seconds": seconds, "rss": peak_memory()}), file=out)


def nncf_bias(model, folder, correction):
    """nncf.quantize with fast or accurate bias correction; in a process of its own, whose memory counts. Prints JSON."""
    out, sys.stdout = sys.stdout, sys.stderr
    import nncf, numpy as np, openvino as ov
    m = ov.Core().read_model(model)
    files = [os.path.join(folder, f) for f in sorted(os.listdir(folder))]
    m.reshape({m.inputs[0]: np.load(files[0]).shape})
    t = time.perf_counter()
    nncf.quantize(m, nncf.Dataset(files, np.load), subset_size=len(files), fast_bias_correction=correction == "fast")
    print(json.dumps({"seconds": time.perf_counter() - t, "rss": peak_memory()}), file=out)


def peak_memory():
    with open("/proc/self/status") as f:
        return next(int(l.split()[1]) * 1024 for l in f if l.startswith("VmHWM:"))


# ---- parties: what is measured in a round. A party is called, and gives an object of numbers.

class Paced:
    """A process that measures one sample for each line that it is sent."""

    def __init__(self, *command):
        self.command, self.errors = list(map(str, command)), tempfile.TemporaryFile()

    def start(self):
        self.p = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True, cwd=WORK)
        self.pid = self.p.pid

    def answer(self):
        line = self.p.stdout.readline()
        if not line:
            self.errors.seek(0)
            raise RuntimeError(last(self.errors.read()))
        return json.loads(line)

    def __call__(self):
        self.p.stdin.write("\n"); self.p.stdin.flush()
        return self.answer()

    def close(self):
        with contextlib.suppress(BrokenPipeError): self.p.stdin.close()
        self.p.wait()


def last(errors): return (errors.decode(errors="replace").strip().splitlines() or ["ended without a word"])[-1][-300:]


def process(*command, ok=(0,)):
    """Runs a command to its end. Gives its seconds, its CPU time, its peak memory in bytes."""
    with tempfile.TemporaryFile() as errors:
        t = time.perf_counter()
        p = subprocess.Popen(list(map(str, command)), stdout=subprocess.DEVNULL, stderr=errors, cwd=WORK)
        _, status, used = os.wait4(p.pid, 0)
        seconds, p.returncode = time.perf_counter() - t, os.waitstatus_to_exitcode(status)
        errors.seek(0)
        if p.returncode not in ok: raise RuntimeError(f"{' '.join(map(str, command[1:]))}: {last(errors.read())}")
    return {"seconds": seconds, "cpu": used.ru_utime + used.ru_stime, "rss": used.ru_maxrss * 1024}


def answer(*command):
    """Runs a command to its end and returns the object that it prints."""
    p = subprocess.run(list(map(str, command)), capture_output=True, cwd=WORK)
    if p.returncode: raise RuntimeError(f"{' '.join(map(str, command[1:]))}: {last(p.stderr)}")
    return json.loads(p.stdout)


def sides(): return ([("before", args.before)] if args.before else []) + [("now", args.qwb)]


def forward(file, data, batch, threads, mode="fp32", part="forward"):
    return {(side, part): Paced(binary, "bench", "model", file, "--data", data, "--batch", batch, "--threads", threads, "--mode", mode, "--span", f"{SPAN}s", "--paced")
            for side, binary in sides()}


def peers(file, data, threads, part="forward"):
    return {(peer, part): Paced(sys.executable, __file__, "--serve", peer, file, data, threads) for peer in ("ONNX Runtime", "OpenVINO")}


def onednn(kind, size, threads, part="forward"):
    return {("oneDNN", part): Paced(args.torch, __file__, "--serve", "oneDNN", kind, size, threads)} if args.torch else {}


def kernel(case, part="kernel"):
    def party(binary):
        r = answer(binary, "bench", "kernels", "--only", f"^{case} ", "--rounds", 1, "--span", "100ms", "--json")
        x = next(x for x in r["results"] if x.get("picked"))
        return {"seconds": x["seconds"], "share": x["share_of_peak"], "speed": x["speed"], "peak": x["peak_speed"]}
    return {(side, part): lambda b=binary: party(b) for side, binary in sides()}


def generate(shape, weights, threads):
    """Random weights in a GGUF file, which both run; qwb with the bandwidth and the peak of the same round."""
    file = gguf(shape, weights)

    def party(binary):
        r = answer(binary, "bench", "generate", file, "--threads", threads, "--prompt", PROMPT, "--rounds", 1, "--patience", 0, "--span", f"{GENERATE}s", "--json")
        return {"decode": r["decode"]["seconds"], "prompt": r["prefill"]["seconds"], "bandwidth": r["decode"]["share_of_bandwidth"]["median"],
                "peak": r["prefill"]["share_of_peak"], "read": r["decode"]["read_gbps"]}
    return {(side, "generate"): lambda b=binary: party(b) for side, binary in sides()} | {
        ("llama.cpp", "generate"): Paced(sys.executable, __file__, "--llama", file, threads)}


def command(part, *a, prepare=None, ok=(0,)):
    """A command of each qwb; SIDE in its arguments becomes the side, so that each has files of its own."""
    def party(side, binary):
        if prepare: prepare(side)
        return process(binary, *[str(x).replace("SIDE", side) for x in a], ok=ok)
    return {(side, part): lambda s=side, b=binary: party(s, b) for side, binary in sides()}


# ---- inputs and files

TINY = {n: f"models/mlperf-tiny/{n}.onnx" for n in ("pretrainedResnet", "kws_dequant_fp32", "vww_96_float", "ad01_fp32", "str_ww_dequant_fp32")}
REAL = {"mobilenet_v1": "models/classifiers/mobilenet_v1_1.0_224.onnx", "squeezenet": "models/classifiers/squeezenet1.0.onnx", **TINY,
        "resnet_large": "models/mlperf-tiny/pretrainedResnet_large_float.onnx", "ocr_rec": "models/ocr/en_PP-OCRv4_rec.onnx", "ocr_det": "models/ocr/ch_PP-OCRv4_det_infer.onnx"}
OPEN = {"ocr_rec": [3, 48, 320], "ocr_det": [3, 320, 320]}  # dimensions that the file leaves open; else 224
LINES_OF_TEXT = "resize: {size: [48, 320]}\nchannel_order: bgr\nmean: 127.5\nstd: 127.5\n"


def data(*path): return os.path.join(args.data, *path)


def kept(make):
    """Makes a file or folder of the work folder if it is not there yet, all or nothing."""
    def wrapped(*a):
        file = os.path.join(WORK, ".".join(map(str, a)) + "." + make.__name__)
        if not os.path.exists(file):
            shutil.rmtree(file + ".part", ignore_errors=True)
            make(file + ".part", *a); os.rename(file + ".part", file)
        return file
    return wrapped


def model(name):
    if name == "glyphs":
        if not os.path.exists(os.path.join(WORK, "qwb-demo", "glyphs.onnx")): process(args.qwb, "demo")
        return os.path.join(WORK, "qwb-demo", "glyphs.onnx")
    if name in REAL: return data(REAL[name])
    file = os.path.join(args.models, name + ".onnx")
    if not os.path.exists(file):
        if not args.generator: raise RuntimeError(f"{file} is missing, and there is no --generator")
        subprocess.run([sys.executable, args.generator, args.models, name], check=True, capture_output=True)
    return file


def shape(name, batch):
    import onnx
    g = onnx.load(model(name), load_external_data=False).graph
    weights = {w.name for w in g.initializer}
    dims = next(i for i in g.input if i.name not in weights).type.tensor_type.shape.dim
    if name.startswith("gemm"): return [d.dim_value for d in dims]
    if dims[0].dim_value not in (0, batch): raise RuntimeError(f"takes batches of {dims[0].dim_value} only")
    return [batch] + OPEN.get(name, [d.dim_value or 224 for d in dims[1:]])


@kept
def npy(file, name, batch):
    import numpy as np
    with open(file, "wb") as f: np.save(f, np.random.default_rng(0).standard_normal(shape(name, batch)).astype(np.float32))


@kept
def samples(folder, name, count):
    """A folder of that many inputs, one file each."""
    import numpy as np
    r, s = np.random.default_rng(1), shape(name, 1)
    os.makedirs(folder)
    for k in range(count): np.save(os.path.join(folder, f"{k:04}.npy"), r.standard_normal(s).astype(np.float32))


@kept
def gguf(file, shape, weights):
    """A language model of random weights with llama2.c's tokenizer, which llama.cpp asks for."""
    process(args.qwb, "bench", "checkpoint", "--shape", shape, "--group-size", 32, "-o", file + ".q80")
    process(args.qwb, "export", file + ".q80", "--format", "gguf", "--weights", weights, "--requantize", "yes", "--tokenizer", data("models/llm/tokenizer.bin"), "-o", file)
    os.remove(file + ".q80")


def calibrated(file, name, platform, *a):
    process(args.qwb, "calibrate", model(name), "--platform", platform, "-o", file, *a)


def plan(name, platform="trt_int8", count=8):
    file = os.path.join(WORK, f"{name}.{platform}.{count}.plan.json")
    if not os.path.exists(file): calibrated(file, name, platform, "--data", samples(name, count))
    return file


def exported(name):
    """The model as the peers read it in INT8. Whether the integers are right is not this script's question."""
    file = os.path.join(WORK, name + ".int8.onnx")
    if not os.path.exists(file): process(args.qwb, "export", plan(name, "onnxruntime"), "--platform", "onnxruntime", "--unverified", "-o", file)
    return file


def imported(name):
    """A plan of a model that is quantized already."""
    file = os.path.join(WORK, name + ".imported.plan.json")
    if not os.path.exists(file): process(args.qwb, "import", model(name), "--platform", "onnxruntime", "-o", file)
    return file


def real(name, platform, *a):
    """A plan calibrated on real data."""
    file = os.path.join(WORK, f"{name}.{platform}.real.plan.json")
    if not os.path.exists(file): calibrated(file, name, platform, *a)
    return file


def copy_plan(file, part):
    """Gives each side a copy of a plan and its statistics, as they were, for a command that changes them."""
    def prepare(side):
        for old in glob.glob(os.path.join(WORK, f"{side}.{part}.*")): os.remove(old)
        for end in (".plan.json", ".stats"): shutil.copy(file.replace(".plan.json", end), os.path.join(WORK, f"{side}.{part}{end}"))
    return prepare


# ---- groups: what is measured in the same rounds; lines: what is said of it

Line = collections.namedtuple("Line", "group part field over reach goal more unit", defaults=("seconds", None, None, None, False, ""))
GROUPS, LINES = {}, {}
# Line.over: None for the number itself; PEERS for the ratio to the better of them; a part for the ratio to that part of the same side;
# PEAK for the share of the processor's peak that a product of that many operations reaches.
PEERS, PEAK = "peers", "peak"


def line(name, group, start, *a, **k):
    GROUPS[group] = start
    LINES[name] = Line(group, *a, **k)


def float_forward(name, batch, threads):
    got = forward(model(name), npy(name, batch), batch, threads)
    if (batch, threads) == (1, 1) and f"simulated {name}" in LINES: got |= forward(plan(name), npy(name, 1), 1, 1, "sim", "sim")
    return got | peers(model(name), npy(name, batch), threads)


def int8_forward(name, batch, threads):
    return forward(plan(name, "onnxruntime"), npy(name, batch), batch, threads, "int8") | peers(exported(name), npy(name, batch), threads)


def int8_imported(name, threads):
    return forward(imported(name), npy(name, 1), 1, threads, "int8") | peers(model(name), npy(name, 1), threads)


def gemm(kind, n):
    name = f"gemm{n}" if kind == "f32" else f"gemm{n}_qdq"
    case, x = "gemm" if kind == "f32" else "gemm-u8s8", npy(name, 1)
    ours = forward(model(name), x, 1, 1) if kind == "f32" else forward(imported(name), x, 1, 1, "int8")
    return kernel(f"{case} m={n} n={n} k={n}") | ours | peers(model(name), x, 1) | onednn(kind, n, 1)


def minmax_only(name, threads):
    def party(binary):
        r = answer(binary, "bench", "calibration", model(name), "--data", samples(name, 8), "--samples", 8 if name == "mobilenetv2" else 4, "--threads", threads,
                   "--rounds", 3, "--patience", 3, "--span", "50ms", "--json")
        x = next(x for x in r["results"] if x["name"] == "minmax-only")
        return {"seconds": x["seconds"], "over": x["over_forward"]["median"]}
    return {(side, "minmax"): lambda b=binary: party(b) for side, binary in sides()}


def calibrate(name, count, part, threads=0):
    def prepare(side):  # statistics that are there would be resumed from
        for old in glob.glob(os.path.join(WORK, f"{side}.{part}.*")): os.remove(old)
    return command(part, "calibrate", model(name), "--data", samples(name, count), "--platform", "trt_int8", "--threads", threads, "-o", f"SIDE.{part}.plan.json", prepare=prepare)


def calibrate_all(name):
    def peer():
        return answer(sys.executable, __file__, "--calibrate", model(name), samples(name, 32), 1)
    return calibrate(name, 32, "calibrate", 1) | {("onnxruntime.quantization", "calibrate"): peer}


def more_images(name): return calibrate(name, 32, "32") | calibrate(name, 256, "256")


def export_verify(name):
    p = plan(name, count=32)
    return {**calibrate(name, 32, "calibrate"),
            **command("export", "export", "SIDE.export.plan.json", "--platform", "trt_int8", "-o", "SIDE.export.onnx", prepare=copy_plan(p, "export")),
            **command("verify", "verify", "SIDE.verify.plan.json", prepare=copy_plan(p, "verify"))}


def tune(name):
    """The default method of tune, on 128 samples, in turn with NNCF's two bias corrections and onnxruntime's calibration on the same."""
    def nncf(correction):
        return answer(sys.executable, __file__, "--nncf", model(name), samples(name, 128), correction)

    def onnxruntime():
        return answer(sys.executable, __file__, "--calibrate", model(name), samples(name, 128), 2)
    return {**command("tune", "tune", "SIDE.tune.plan.json", "--data", samples(name, 128), prepare=copy_plan(plan(name, count=32), "tune"), ok=(0, 3)),
            ("NNCF, fast bias correction", "tune"): lambda: nncf("fast"), ("NNCF, accurate bias correction", "tune"): lambda: nncf("accurate"),
            ("onnxruntime.quantization, percentile", "tune"): onnxruntime}


def layerwise(name):
    def party(binary):
        r = answer(binary, "bench", "layerwise", plan(name), "--data", samples(name, 8), "--samples", 4, "--threads", 1, "--rounds", 1 if name in CONVOLUTIONS else 3, "--span", "50ms",
                   "--json")  # by one round, the difference of two short runs is noise
        return {"seconds": next(x["seconds"] for x in r["results"] if x["name"] == "layerwise"), "forwards": r["forwards"]["median"],
                "share": r["forwards"]["median"] / r["bound_macs"]["suffix"]}
    return {(side, "layerwise"): lambda b=binary: party(b) for side, binary in sides()}


def pets(): return "--data", data("data/pets/eval"), "--preprocess", "imagenet-inception"


def dispatch(p, *a):
    return command("dispatch", "dispatch", "SIDE.dispatch.plan.json", "--auto", *a, prepare=copy_plan(p, "dispatch"), ok=(0, 3))


def dispatch_nsr():
    p = real("mobilenet_v1", "trt_int8", "--data", data("data/pets/calibration"), "--samples", 32, "--preprocess", "imagenet-inception")
    return dispatch(p, "--max-nsr", 0.005, *pets())


def dispatch_drop(name):
    p = real(name, "trt_int8", "--data", data("data/cifar10/calibration_500.bin"), "--samples", 100)
    return dispatch(p, "--max-drop", 1, "--data", data("data/cifar10/eval_2000.bin"))


def sweep(name, *a):
    def prepare(side):
        for old in glob.glob(os.path.join(WORK, f"{side}.sweep.*")): os.remove(old)
    return command("sweep", "sweep", model(name), "--platforms", "trt_int8", "--observers", "minmax,mse,robust,kl", "-o", "SIDE.sweep.plan.json", *a, prepare=prepare, ok=(0, 3))


def analyze_ocr():
    with open(os.path.join(WORK, "lines.yaml"), "w") as f: f.write(LINES_OF_TEXT)
    inputs = ("--data", data("data/ocr"), "--preprocess", os.path.join(WORK, "lines.yaml"))
    p = real("ocr_rec", "trt_int8", *inputs)
    return command("analyze", "analyze", "SIDE.analyze.plan.json", "--layerwise", "--html", "SIDE.analyze.html", *inputs, prepare=copy_plan(p, "analyze"))


def start_up():
    return command("version", "version") | command("inspect", "inspect", data(TINY["kws_dequant_fp32"]))


def size():
    return {(side, "size"): lambda b=binary: {"size": os.path.getsize(b)} for side, binary in sides()}


def histogram():
    n = 1 << 22

    def theirs():
        import numpy as np
        x = np.random.default_rng(0).standard_normal(n).astype(np.float32)
        t = time.perf_counter(); np.histogram(x, 2048, (-8, 8))
        return {"seconds": time.perf_counter() - t}
    return kernel(f"bins n={n}") | {("numpy", "kernel"): theirs}


CONVOLUTIONS = ("resnet50", "mobilenetv2", "mobilenet_v1", "squeezenet")
BATCHES = {"resnet50": (1, 16), "mobilenetv2": (1, 16), "bert": (1, 16), "mobilenet_v1": (1,), "squeezenet": (1,)}  # the files of the last two have a fixed batch
for kind in ("f32", "u8s8s32"):
    for n in (512, 1024, 2048):
        group = f"gemm {kind} {n}"
        line(f"{group}, kernel's share", group, lambda k=kind, n=n: gemm(k, n), "kernel", "share", None, .92, .95, True)
        line(f"{group}, share", group, lambda k=kind, n=n: gemm(k, n), "forward", 2 * n**3, PEAK, None, .95, True)
        line(group, group, lambda k=kind, n=n: gemm(k, n), "forward", over=PEERS, reach=1.0, goal=.95)
for name in CONVOLUTIONS + ("bert",):
    for batch in BATCHES[name]:
        for t in (1, 2):
            end = f"{name} batch {batch} threads {t}"
            line(f"float {end}", f"float {end}", lambda n=name, b=batch, t=t: float_forward(n, b, t), "forward", over=PEERS, reach=1.0, goal=.95)
for name in CONVOLUTIONS:
    for batch in BATCHES[name]:
        for t in (1, 2):
            end = f"{name} batch {batch} threads {t}"
            line(f"int8 {end}", f"int8 {end}", lambda n=name, b=batch, t=t: int8_forward(n, b, t), "forward", over=PEERS, reach=1.0, goal=.95)
for t in (1, 2):
    line(f"int8 bert threads {t}", f"int8 bert threads {t}", lambda t=t: int8_forward("bert", 1, t), "forward", over=PEERS, reach=1.2, goal=1.0)
    line(f"int8 bert_qdq threads {t}", f"int8 bert_qdq threads {t}", lambda t=t: int8_imported("bert_qdq", t), "forward", over=PEERS, reach=1.2, goal=1.0)
    line(f"int8 bert_dyn threads {t}", f"int8 bert_dyn threads {t}", lambda t=t: float_forward("bert_dyn", 1, t), "forward", over=PEERS, reach=1.2, goal=1.0)
for name in ("resnet50_qdqs8", "mobilenetv2_qdqs8"):
    line(f"int8 s8 x s8 {name}", f"int8 s8 x s8 {name}", lambda n=name: int8_imported(n, 1), "forward", over=PEERS, reach=1.0, goal=.95)
for name in TINY:
    for t in (1, 2):
        end = f"tiny {name} threads {t}"
        line(f"float {end}", f"float {end}", lambda n=name, t=t: float_forward(n, 1, t), "forward", over=PEERS, reach=1.0)
        line(f"int8 {end}", f"int8 {end}", lambda n=name, t=t: int8_forward(n, 1, t), "forward", over=PEERS, reach=1.0)
for name, reach in (("resnet50", 1.15), ("mobilenetv2", 1.4), ("bert", 1.15)):
    line(f"simulated {name}", f"float {name} batch 1 threads 1", lambda n=name: float_forward(n, 1, 1), "sim", over="forward", reach=reach, goal=1.08)
for name, t in (("mobilenetv2", 1), ("mobilenetv2", 2), ("resnet50", 1)):
    line(f"calibrate minmax {name} threads {t}, forwards", f"minmax {name} {t}", lambda n=name, t=t: minmax_only(n, t), "minmax", "over", reach=1.1)
for name, reach, memory in (("mobilenetv2", .12, .10), ("resnet50", .25, .10)):
    line(f"calibrate {name}", f"calibrate {name}", lambda n=name: calibrate_all(n), "calibrate", over=PEERS, reach=reach)
    line(f"calibrate {name}, memory", f"calibrate {name}", lambda n=name: calibrate_all(n), "calibrate", "rss", PEERS, memory)
line("calibrate mobilenetv2, memory of 256 images over 32", "calibrate 256", lambda: more_images("mobilenetv2"), "256", "rss", "32", 1.05)
for name in CONVOLUTIONS + ("ocr_rec", "ocr_det", "kws_dequant_fp32"):
    for what in ("export", "verify"):
        tiny = name in TINY
        line(f"{what} {name}" + (", s" if tiny else ""), f"export and verify {name}", lambda n=name: export_verify(n), what, over=None if tiny else "calibrate", reach=1 if tiny else 2)
        if name == "resnet50": line(f"{what} {name}, MB", f"export and verify {name}", lambda n=name: export_verify(n), what, "rss", None, 1000, unit="MB")
for name, reach in (("mobilenetv2", 40), ("ocr_rec", 120), ("resnet50", 180)):
    line(f"tune {name}, s", f"tune {name}", lambda n=name: tune(n), "tune", reach=reach)
    line(f"tune {name}, MB", f"tune {name}", lambda n=name: tune(n), "tune", "rss", None, 2048, unit="MB")
line("dispatch --auto --max-nsr mobilenet_v1, s of CPU", "dispatch mobilenet_v1", dispatch_nsr, "dispatch", "cpu", reach=28)
for name in ("pretrainedResnet", "resnet_large"):
    line(f"dispatch --auto --max-drop {name}, s of CPU", f"dispatch {name}", lambda n=name: dispatch_drop(n), "dispatch", "cpu")
line("sweep mobilenet_v1, s of CPU", "sweep mobilenet_v1", lambda: sweep("mobilenet_v1", *pets(), "--samples", 48), "sweep", "cpu")
line("sweep pretrainedResnet, s of CPU", "sweep pretrainedResnet", lambda: sweep("pretrainedResnet", "--data", data("data/cifar10/calibration_500.bin"), "--samples", 200), "sweep", "cpu")
line("analyze --layerwise ocr_rec, s of CPU", "analyze ocr_rec", analyze_ocr, "analyze", "cpu")
for name in CONVOLUTIONS + tuple(TINY) + ("glyphs",):
    line(f"layerwise {name}, times its bound", f"layerwise {name}", lambda n=name: layerwise(n), "layerwise", "share", reach=1.1)
line("observe min-max, share of read bandwidth", "min-max", lambda: kernel("min-max n=33554432"), "kernel", "share", None, .85, .95, True)
line("observe histogram, Gelem/s", "histogram", histogram, "kernel", "speed", None, 3.0, 3.5, True)
line("observe histogram", "histogram", histogram, "kernel", over=PEERS)
for network in ("110M", "1.1B"):
    for kind in ("q8_0", "q4_0"):
        for t in (1, 2):
            end = f"{network} {kind} threads {t}"
            start = lambda n=network, k=kind, t=t: generate(n, k, t)
            line(f"decode {end}", f"generate {end}", start, "generate", "decode", PEERS, reach=1.0, unit="s")
            line(f"decode {end}, share of read bandwidth", f"generate {end}", start, "generate", "bandwidth", None, .92, None, True)
            line(f"prompt {end}", f"generate {end}", start, "generate", "prompt", PEERS, reach=1.0, unit="s")
            line(f"prompt {end}, share of peak", f"generate {end}", start, "generate", "peak", None, .7, None, True)
line("version, s", "start-up", start_up, "version", reach=.02)
line("inspect kws_dequant_fp32, s", "start-up", start_up, "inspect", reach=.02)
line("size of the binary, MB", "size", size, "size", "size", None, 35, unit="MB")


# ---- taking a group

def started(group):
    """The parties of a group, ready: first those of qwb, one after the other, since they choose how often to run, then the peers."""
    parties, isa, failed = GROUPS[group](), {}, {}
    paced = [k for k, p in parties.items() if isinstance(p, Paced)]
    own = [k for k in paced if k[0] in ("before", "now")]

    def ready(key):
        try:
            if words := parties[key].answer().get("isa"): isa[key[0]] = words
        except Exception as e:
            failed[key] = str(e)
    for key in own: parties[key].start(); ready(key)
    rest = [k for k in paced if k not in own]
    for key in rest: parties[key].start()
    for key in rest: ready(key)
    for key in failed: parties.pop(key).close()
    if why := next((w for (side, _), w in failed.items() if side == "now"), None):
        close(parties)
        raise RuntimeError(why)
    return parties, isa, {" ".join(k): why for k, why in failed.items()}


def close(parties):
    for p in parties.values():
        if isinstance(p, Paced): p.close()


def take(group):
    """Rounds until enough are quiet or the time is over. What takes long is taken once."""
    parties, isa, failed = started(group)
    quiet, rest, took, slow, began = [], [], {}, args.seconds / 3, None
    try:
        while True:
            w, turn = Watch([p.pid for p in parties.values() if isinstance(p, Paced)]), []
            for (side, part), p in list(parties.items()):
                if took.get((side, part), 0) > slow: continue
                t = time.monotonic()
                try:
                    turn.append({"side": side, "part": part, **p()})
                except Exception as e:
                    if side == "now": raise
                    failed[f"{side} {part}"] = str(e)
                    close({0: parties.pop((side, part))})
                took[side, part] = time.monotonic() - t
            (quiet if w.share() < QUIET else rest).append(turn)
            if began is None: began = time.monotonic()
            spent, n = time.monotonic() - began, len(quiet) + len(rest)
            if len(quiet) >= args.rounds or n >= 3 * args.rounds or min(took.values()) > slow: break
            if spent > args.seconds and (len(quiet) >= 3 or spent > 2 * args.seconds): break
    finally:
        close(parties)
    once = any(took[x["side"], x["part"]] > slow for r in rest for x in r)  # what is not taken again must be quiet too
    enough = len(quiet) >= min(3, len(quiet) + len(rest)) and not once
    return {"rounds": quiet if enough else quiet + rest, "quiet": enough, "isa": isa, "failed": failed}


# ---- what follows from the rounds

def column(rounds, side, part, field):
    """The numbers of a party by round."""
    return {i: x[field] for i, r in enumerate(rounds) for x in r if (x["side"], x["part"]) == (side, part) and field in x}


def over(a, b):
    """Ratios within rounds. What was taken once is compared with the median of the other."""
    if not a or not b: return []
    if len(a) == 1 or len(b) == 1: return [x / statistics.median(b.values()) for x in a.values()]
    return [a[i] / b[i] for i in sorted(a.keys() & b.keys())]


def figures(l, rounds, side):
    """The ratios or numbers that a line says of a side."""
    if l.over == PEAK:
        peaks = statistics.median(column(rounds, "now", "kernel", "peak").values()) * 1e9
        return [l.field / s / peaks for s in column(rounds, side, l.part, "seconds").values()]
    own = column(rounds, side, l.part, l.field)
    if l.over is None: return [x / (1e6 if l.unit == "MB" else 1) for x in own.values()]
    return over(own, column(rounds, side, l.over, l.field))


def judge(name, group):
    """The row of a line."""
    l, rounds = LINES[name], group["rounds"]
    row = {"line": name, "reach": l.reach, "goal": l.goal, "quiet": group["quiet"]}
    others = sorted({x["side"] for r in rounds for x in r if x["part"] == l.part} - {"before", "now"})
    if l.over == PEERS:
        field = {o: column(rounds, o, l.part, l.field) for o in others}
        if not field: raise RuntimeError("; ".join(group["failed"].values()) or "no peer")
        best = min(others, key=lambda o: statistics.median(field[o].values()))
        row["peer"] = best
        ratios = {s: over(column(rounds, s, l.part, l.field), field[best]) for s in ("before", "now")}
        row["peers"] = {o: statistics.median(over(column(rounds, "now", l.part, l.field), field[o])) for o in others}
    else:
        ratios = {s: figures(l, rounds, s) for s in ("before", "now")}
        row["peer"] = "" if l.over in (None, PEAK) else f"own {l.over}"
        if l.over is None: row["peers"] = {o: statistics.median(x) for o in others if (x := figures(l, rounds, o))}
        if l.over == PEAK:
            row["peers"] = {o: statistics.median(figures(l, rounds, o)) for o in others}
            row["reach"] = max(row["peers"].values(), default=None)
    now = ratios["now"]
    row |= {"median": statistics.median(now), "min": min(now), "max": max(now), "rounds": len(now)}
    if ratios["before"]: row["before"] = statistics.median(ratios["before"])
    row["seconds"] = {s: statistics.median(c.values()) for s in ("before", "now", *others) if (c := column(rounds, s, l.part, l.field if l.unit == "s" else "seconds"))}
    good = lambda limit: limit is not None and (row["median"] >= limit if l.more else row["median"] <= limit)
    verdict = [] if row["reach"] is None else ["goal" if good(row["goal"]) else "reach" if good(row["reach"]) else "missed"]
    row["verdict"] = ", ".join(verdict + ([] if group["quiet"] else ["not quiet"]))
    return row


# ---- printing

def number(x): return "" if x is None else f"{x:#.3g}".rstrip(".") if abs(x) < 999.5 else f"{x:.0f}"
def duration(s): return f"{number(s)} s" if s >= 1 else f"{number(s * 1e3)} ms" if s >= 1e-3 else f"{number(s * 1e6)} µs"


HEAD = "| line | over | before | now [least, most] | beside | time before | time now | reach | goal | verdict |\n|" + "---|" * 10


def show(row):
    if "median" not in row: return f"| {row['line']} | | | | | | | | | {row['verdict']} |"
    now = number(row["median"]) + (f" [{number(row['min'])}, {number(row['max'])}]" if row["rounds"] > 1 else "")
    beside = ", ".join(f"{o} {number(x)}" for o, x in row.get("peers", {}).items() if o != row["peer"])
    times = [duration(row["seconds"][s]) if s in row.get("seconds", {}) else "" for s in ("before", "now")]
    return "| " + " | ".join([row["line"], row["peer"], number(row.get("before")), now, beside, *times, number(row["reach"]), number(row["goal"]), row["verdict"]]) + " |"


def instruction_sets(groups):
    """Which primitives the peers said that they use, over all groups of a kind."""
    seen = collections.defaultdict(collections.Counter)
    for name, g in groups.items():
        for peer, words in g.get("isa", {}).items():
            for w, n in words.items(): seen[peer, "integers" if re.match("int8|gemm u8", name) else "floats"][w] += n
    return [f"{peer}, {kind}: " + ", ".join(f"{w} ({n})" for w, n in words.most_common(6)) for (peer, kind), words in sorted(seen.items())]


def machine():
    import onnxruntime, openvino, numpy
    m = answer(args.qwb, "bench", "kernels", "--only", "^add n=32768 ", "--rounds", 1, "--span", "1ms", "--json")["machine"]
    m |= {"onnxruntime": onnxruntime.__version__, "openvino": openvino.__version__.split("-")[0], "numpy": numpy.__version__}
    with open("/proc/cpuinfo") as f:
        flags = next(set(l.split(":")[1].split()) for l in f if l.startswith("flags"))
    # ONNX Runtime does not say what it uses. Its library MLAS chooses by these flags, in this order.
    row = lambda *want: next((name for flag, name in want if flag in flags), "SSE2")
    m["mlas"] = {"floats": row(("avx512f", "AVX-512F"), ("fma", "AVX2 and FMA"), ("avx", "AVX")),
                 "integers": row(("avx512_vnni", "AVX-512 VNNI"), ("avx512bw", "AVX-512BW"), ("avx_vnni", "AVX-VNNI"), ("avx2", "AVX2")) + (", AMX" if "amx_int8" in flags else "")}
    if args.torch:
        words = [subprocess.run([args.torch, __file__, "--serve", "oneDNN", kind, "256", "1"], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                env={**os.environ, "ONEDNN_VERBOSE": "1"}).stdout for kind in ("f32", "int8")]
        m["onednn"] = {what: next(iter(re.findall(pattern, "".join(words))), "") for what, pattern in
                       {"version": r"oneDNN (v[\d.]+)", "isa": r"cpu,isa:(.*)", "floats": r"exec,cpu,inner_product,([^,]*)", "integers": r"exec,cpu,(gemm_api|matmul,[^,]*)"}.items()}
    return m


def digest(file):
    with open(file, "rb") as f: return hashlib.file_digest(f, "sha256").hexdigest()


def main(names):
    found = {"machine": machine(), "binaries": {side: digest(b) for side, b in sides()}, "groups": {}}
    if args.json and os.path.exists(args.json):
        with open(args.json) as f: earlier = json.load(f)
        for what in ("machine", "binaries"):
            if earlier[what] != found[what]: sys.exit(f"{args.json} is of another run: {what} was {earlier[what]}, is {found[what]}; remove it or name another file")
        found["groups"] = earlier["groups"]
    m, text = found["machine"], []

    def say(words):
        text.append(words); print(words, flush=True)
    say(f"{m['cpu']}, {m['cores']} cores, {m['system']}; qwb uses {m['isa']}; ONNX Runtime {m['onnxruntime']} by the processor's flags {m['mlas']['floats']} for floats, "
        f"{m['mlas']['integers']} for integers; OpenVINO {m['openvino']}; numpy {m['numpy']}" + (f"; oneDNN {m['onednn']['version']} by torch, {m['onednn']['isa']}, {m['onednn']['floats']} for floats, {m['onednn']['integers']} for integers" if "onednn" in m else "") + ".\n")
    say(HEAD)
    began, results = time.monotonic(), []
    for name in names:
        group = LINES[name].group
        g = found["groups"].get(group)
        late = args.minutes and time.monotonic() - began > 60 * args.minutes
        if g is None and late:
            g = {"error": "the time is over; the same command continues", "failed": {}}
        elif g is None or not g["quiet"] and group not in fresh and not late:
            fresh.add(group)
            t = time.monotonic()
            try:
                g = take(group)
            except Exception as e:  # a line that cannot be taken leaves the others
                g = {"rounds": [], "quiet": False, "error": " ".join(str(e).split()), "isa": {}, "failed": {}}
            g["took"] = time.monotonic() - t
            found["groups"][group] = g
        try:
            if "error" in g: raise RuntimeError(g["error"])
            row = judge(name, g)
        except Exception as e:
            row = {"line": name, "verdict": f"left out: {e}"}
        results.append(row)
        say(show(row))
        if args.json:
            with open(args.json + ".part", "w") as f: json.dump({**found, "results": results}, f, indent=1)
            os.replace(args.json + ".part", args.json)
    say("")
    for words in instruction_sets({g: x for g, x in found["groups"].items() if any(LINES[n].group == g for n in names)}): say("- " + words)
    for group, g in found["groups"].items():
        for who, why in g["failed"].items(): say(f"- without {who} in {group}: {why}")
    print(f"\n{time.monotonic() - began:.0f} s, of which: " + ", ".join(f"{g} {x['took']:.0f}" for g, x in sorted(found["groups"].items(), key=lambda x: -x[1]["took"])[:12]), file=sys.stderr)
    if args.write: write(args.write, "\n".join(text))


def write(file, text):
    """Puts the table between the two marks of a Markdown file."""
    with open(file) as f: old = f.read()
    begin, end = "<!-- compare.py -->\n", "<!-- end of compare.py -->"
    if begin not in old or end not in old: sys.exit(f"{file} has no lines {begin.strip()} and {end}")
    with open(file, "w") as f: f.write(old[:old.index(begin) + len(begin)] + text + "\n" + old[old.index(end):])


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        serve(*sys.argv[2:5], int(sys.argv[5])); sys.exit()
    if sys.argv[1:2] == ["--llama"]:
        serve_llama(sys.argv[2], int(sys.argv[3])); sys.exit()
    if sys.argv[1:2] == ["--calibrate"]:
        ort_calibrate(*sys.argv[2:4], int(sys.argv[4])); sys.exit()
    if sys.argv[1:2] == ["--nncf"]:
        nncf_bias(*sys.argv[2:5]); sys.exit()
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("qwb", nargs="?"); ap.add_argument("models", nargs="?"); ap.add_argument("data", nargs="?")
    ap.add_argument("--before", help="an older qwb, measured in the same rounds")
    ap.add_argument("--generator", help="makes models that are missing")
    ap.add_argument("--only", help="lines, with wildcards, separated by commas")
    ap.add_argument("--rounds", type=int, default=7, help="quiet rounds of a line")
    ap.add_argument("--seconds", type=float, default=12, help="after this time a line takes no more rounds than it needs; what takes a third of it is taken once")
    ap.add_argument("--minutes", type=float, help="begin no line after this time")
    ap.add_argument("--torch", metavar="PYTHON", help="a Python with torch, which has oneDNN, for products of matrices")
    ap.add_argument("--json", help="write the results to this file after every line, and continue from it")
    ap.add_argument("--work", help="keep inputs, plans and statistics in this folder")
    ap.add_argument("--write", help="put the table into this Markdown file, between its marks")
    ap.add_argument("--list", action="store_true", help="print the names of the lines")
    args = ap.parse_args()
    names = [n for n in LINES if not args.only or any(fnmatch.fnmatch(n, p) for p in args.only.split(","))]
    if args.list:
        print("\n".join(names)); sys.exit()
    if not args.data: ap.error("QWB, MODELS and DATA are needed")
    if not names: ap.error(f"no line is named {args.only}; --list names them")
    for name in ("qwb", "models", "data", "before", "generator"):
        if getattr(args, name): setattr(args, name, os.path.abspath(getattr(args, name)))
    __file__, fresh = os.path.abspath(__file__), set()
    with tempfile.TemporaryDirectory(prefix="compare-") as temporary:
        WORK = os.path.abspath(args.work or temporary); os.makedirs(WORK, exist_ok=True)
        main(names)
