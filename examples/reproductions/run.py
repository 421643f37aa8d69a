"""Runs reproductions of faults and says of each whether its outcome is right.

    python run.py QWB REPRODUCTIONS [NAME ...]

QWB is the program, REPRODUCTIONS the folder with the models, data and bugs/NAME.py of the reproductions; of it nothing is changed. The scripts in bugs
need numpy and onnx. One line for each: ok, or FAILED with the reason. The exit code is 1 if one failed.
"""
import json, os, re, subprocess, sys, tempfile

QWB, FROM = (os.path.abspath(p) for p in sys.argv[1:3])
ONLY = sys.argv[3:]


class Wrong(Exception):
    pass


def qwb(*args, code=0):
    """What a command printed, both streams; a code of None takes any."""
    r = subprocess.run([QWB, *args], capture_output=True, text=True, timeout=600)
    if r.returncode < 0 or "panic:" in r.stderr or code is not None and r.returncode != code:
        raise Wrong(f"qwb {' '.join(args[:2])}: exit code {r.returncode}: {(r.stderr.strip().splitlines() or [''])[-1][:160]}")
    return r.stdout + r.stderr


def result(*args, code=0):
    """The JSON of a command."""
    r = subprocess.run([QWB, *args, "--json"], capture_output=True, text=True, timeout=600)
    if r.returncode < 0 or code is not None and r.returncode != code or not r.stdout.strip():
        raise Wrong(f"qwb {' '.join(args[:2])}: exit code {r.returncode}: {(r.stderr.strip().splitlines() or [''])[-1][:160]}")
    return json.loads(r.stdout)


def says(text, *patterns):
    for p in patterns:
        if not re.search(p, text):
            raise Wrong(f"nothing says {p!r}")


def near(x, low, high, what):
    if not low <= x <= high:
        raise Wrong(f"{what} is {x:.3g}, not between {low:.3g} and {high:.3g}")


def built(name):
    """Builds bugs/NAME.py in the current folder."""
    env = dict(os.environ, PYTHONDONTWRITEBYTECODE="1")
    r = subprocess.run([sys.executable, os.path.join(FROM, "bugs", name + ".py"), "."], capture_output=True, text=True, env=env)
    if r.returncode:
        raise Wrong("it could not be built: " + (r.stderr.strip().splitlines() or [""])[-1][:120])


def calibrate(platform, *more, model="m.onnx", data="calib", code=0):
    return qwb("calibrate", model, "--data", data, "--platform", platform, "-o", "p.plan.json", *more, code=code)


def stored(model, data, platform="onnxruntime"):
    return calibrate(platform, model=os.path.join(FROM, model), data=os.path.join(FROM, data))


def pooled_concat():
    built("pooled_concat")
    calibrate("onnxruntime")
    o = result("analyze", "p.plan.json", "--data", "eval")["outputs"][0]
    if max([s["nsr"] for s in o.get("slices", [])] + [o["nsr"]]) < 0.01:
        return  # the Concat stays in float: no score is lost
    says(qwb("analyze", "p.plan.json", "--data", "eval"), "no signal left", r"y_n")
    says(qwb("gate", "p.plan.json", "--max-nsr", "0.001", "--data", "eval", code=3), "signal")


def boxes_and_scores():
    qwb("calibrate", os.path.join(FROM, "boxes_and_scores.onnx"), "--data", os.path.join(FROM, "anchors.npy"), "--platform", "trt_int8", "--border-cost", "0", "-o", "p.plan.json")
    if not any(s["name"] for o in result("analyze", "p.plan.json")["outputs"] for s in o.get("slices", [])):
        raise Wrong("its parts have no figures of their own")


def masked_classes_inf():
    built("masked_classes_inf")
    calibrate("onnxruntime", "--border-cost", "0")
    near(max(o["centred"]["nsr"] for o in result("analyze", "p.plan.json", "--data", "eval")["outputs"] if o.get("centred")), 0, 0.01, "the NSR of the classes that are not masked")
    qwb("gate", "p.plan.json", "--max-nsr", "0.01", "--data", "eval")


def nan_of(name, platform):
    built(name)
    text = calibrate(platform, code=None) + qwb("verify", "p.plan.json", code=None)
    if re.search("NaN|not finite", text):
        says(text, r"(NaN|not finite).*_n\b|_n\b.*(NaN|not finite)")  # the operator is named
    elif "this plan is bad" not in text:  # quiet samples may be lost to a coarse grid, but never without a word
        near(max(o["nsr"] for o in result("analyze", "p.plan.json", "--data", "eval")["outputs"]), 0, 0.1, "the NSR")


def mask_finite_blame():
    built("mask_finite_blame")
    calibrate("onnxruntime", "--border-cost", "0")
    r = result("analyze", "p.plan.json")
    if max(o["nsr"] for o in r["outputs"]) > 0.05 and not any(a["node"] == "ms_n" for a in r["advice"]):
        raise Wrong("the Add of the mask is not named")


def grn_no_advice():
    built("grn_no_advice")
    calibrate("onnxruntime")
    r = result("analyze", "p.plan.json")
    if max(o["nsr"] for o in r["outputs"]) > 0.1 and not any("sq_n" in [a["node"], *a.get("nodes", [])] for a in r["advice"]):
        raise Wrong("the square is not named")


def counted_output():
    built("counted_output")
    calibrate("onnxruntime")
    o = result("analyze", "p.plan.json")["outputs"][0]
    if o["output"] != "s" or o.get("for") != ["y"]:
        raise Wrong("s does not stand for y")
    near(o["nsr"], 1e-6, 0.01, "the NSR of s")
    qwb("gate", "p.plan.json", "--max-nsr", "0.01", "--data", "eval")
    qwb("tune", "p.plan.json", "--method", "bias")
    says(qwb("eval", "p.plan.json", "--mode", "sim", "--data", "eval"), "NSR of s")


def floats(model, most):
    stored(model, "x16.npy")
    for o in result("analyze", "p.plan.json")["outputs"]:
        near(o["nsr"], 1e-6, most, "the NSR of " + o["output"])
    qwb("gate", "p.plan.json", "--max-nsr", "0.01")
    qwb("eval", "p.plan.json", "--mode", "int8")
    says(qwb("eval", "p.plan.json", "--mode", "int8", "--output", "conf"), "cosine")


def argmax_only():
    stored("argmax_only.onnx", "x16.npy")
    says(qwb("eval", "p.plan.json", "--mode", "int8"), "top1", "elements that differ")


def lstm_only():
    says(calibrate("tflite_int8", model=os.path.join(FROM, "lstm_only.onnx"), data=os.path.join(FROM, "seq.npy")),
         r"0\.1 % of the work on integers")  # said, and the file is written with the LSTM in float
    says(qwb("export", "p.plan.json", "-o", "m.tflite"), r"m\.tflite: tflite")
    if os.path.getsize("m.tflite") < 25000: raise Wrong("the LSTM's weights are not in the file")


def doctor_data():
    built("doctor_data")
    says(qwb("doctor", "m.onnx", "--data", "calib", code=3), "0006", r"\[0 2 3 4\]", '"x"')
    says(calibrate("onnxruntime", code=1), r'sample "0006.npz": element \[0 2 3 4\] of input "x"')
    says(qwb("doctor", "ones/m.onnx", "--data", "ones/calib"), "constant: mask")


def empty_input():
    built("empty_input")
    says(qwb("doctor", "m.onnx", "--data", "calib", code=3), "empty: pk", "empty: pv")
    says(calibrate("onnxruntime", "--border-cost", "0"), "pk: the input has no element")


def read_back():
    stored("f64_output.onnx", "x16.npy")
    r = result("export", "p.plan.json", "-o", "o.onnx")
    v = r["verification"]
    if not v.get("read_back"):
        raise Wrong("nothing says what was read back")
    if v.get("samples") != 8 or v.get("data") != "real" or not v.get("profile") or not v.get("backend"):
        raise Wrong("profile, backend, samples or kind of data are missing")
    qwb("verify", "p.plan.json", "--data", "synthetic:1")
    if result("export", "p.plan.json", "-o", "o2.onnx")["verification"].get("data") != "real":
        raise Wrong("made-up data stood for a verification")


CASES = {  # name: what is run
    "pooled_concat": pooled_concat, "boxes_and_scores": boxes_and_scores, "masked_classes_inf": masked_classes_inf,
    "nan_std": lambda: nan_of("nan_std", "onnxruntime"), "nan_hidden": lambda: nan_of("nan_hidden", "pow2_int8"),
    "mask_finite_blame": mask_finite_blame, "grn_no_advice": grn_no_advice, "counted_output": counted_output,
    "f64_output": lambda: floats("f64_output.onnx", 0.005), "f16_output": lambda: floats("f16_output.onnx", 0.005),
    "argmax_only": argmax_only, "lstm_only": lstm_only, "doctor_data": doctor_data, "empty_input": empty_input, "read_back": read_back,
}

failed = 0
for name, case in CASES.items():
    if ONLY and name not in ONLY:
        continue
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            case()
            print(f"ok      {name}", flush=True)
        except (Wrong, subprocess.TimeoutExpired, KeyError, ValueError) as why:
            failed += 1
            print(f"FAILED  {name}: {why}", flush=True)
        os.chdir("/")
sys.exit(1 if failed else 0)
