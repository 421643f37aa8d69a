#!/usr/bin/env python3
"""Measures what each method of `qwb tune` and other tools make of the same networks and samples, and prints the table as Markdown.

  repair.py QWB DATA --cache DIR [--only NAME,...] [--columns C,...] [--rows R,...] [--print] [--python PY] [--ppq-python PY]

A cell is a network, a column (what is quantized how) and a row (who chose the numbers). Each is computed once: its result stands in DIR
under a key made of the versions of row and tools, model, data and qwb's own hash (or --qwb-key), so that a run can be killed and
repeated; --print computes nothing and takes what is there. The rows "qwb" and "peers" are all of each; PPQ's need --ppq-python.

Figures are of exported files in ONNX Runtime on samples that nothing was fitted on: the centred NSR (scores.py), mean over samples with its
standard error, and how many answers differ from float. Needs: pip install onnxruntime onnx numpy nncf; PPQ (ppq, torch) in an environment of
its own, whose interpreter --ppq-python names.
"""
import argparse, glob, hashlib, importlib.metadata, json, math, os, re, shutil, subprocess, sys, time
import numpy as np
from networks import Workplace, table
from scores import compare, error

ap = argparse.ArgumentParser()
ap.add_argument("qwb"); ap.add_argument("data"); ap.add_argument("--cache", required=True)
for name in ("only", "columns", "rows", "qwb-key", "ppq-python"): ap.add_argument("--" + name, default="")
ap.add_argument("--print", action="store_true"); ap.add_argument("--python", default=sys.executable)
ap.add_argument("--calibration", type=int, default=104); ap.add_argument("--eval", type=int, default=60); ap.add_argument("--tune", type=int, default=64)
ap.add_argument("--limit", type=int, default=1200, help="seconds that a cell may take"); ap.add_argument("--threads", type=int, default=2)
a = ap.parse_args()
os.makedirs(a.cache, exist_ok=True)
place = Workplace(a.qwb, a.data, os.path.join(a.cache, "work"))
digest = lambda b: hashlib.sha256(b).hexdigest()[:16]
QWB = a.qwb_key or digest(open(a.qwb, "rb").read())


def platform(base, weight):
    """A platform with other weights, made of a built-in one. Its files are for engines that compute what ONNX says, no kernel's rules."""
    name = f"{base}_{weight[0]}".replace("-", "_")

    def make():
        y = place.call("target", "show", base).decode()
        y = re.sub(r"^name: .*", f"name: {name}", y, flags=re.M)
        y = re.sub(r"^weight: .*", f"weight: {{scheme: {weight[0]}, range: {weight[1]}, observer: minmax, others: [{', '.join(weight[2:])}]}}", y, flags=re.M)
        y = re.sub(r"^reduced_weight.*\n", "", y, flags=re.M)
        if "int16" in weight[0]: y = re.sub(r"^bias: .*\n", "", y.replace("int8_weights: true, ", ""), flags=re.M)
        if "int4-sym" not in weight[0]: y = y.replace("export: {", "export: {open: true, ")
        file = place.path(name + ".yaml")
        with open(file, "w") as f: f.write(y)
        return file
    return make


COLUMNS = {  # platform and flags of calibrate; the platform whose weights are as good as float, for the activations' own error
    "w8a8": (lambda: "onnxruntime", [], "a8"),
    "tensor": (lambda: "onnxruntime", ["--per-tensor"], "a8"),
    "pow2": (lambda: "pow2_int8", ["--per-tensor"], "a8-pow2"),
    "w4a8-sym": (platform("onnxruntime", ("int4-sym-channel", "[-8, 7]", "int4-asym-channel", "int8-sym-channel", "int8-sym-tensor")), [], "a8"),
    "w4a8-asym": (platform("onnxruntime", ("int4-asym-channel", "[-8, 7]", "int4-sym-channel", "int8-sym-channel", "int8-sym-tensor")), [], "a8"),
    "a8": (platform("onnxruntime", ("int16-sym-channel", "[-32767, 32767]", "int8-sym-channel")), [], None),
    "a8-pow2": (platform("pow2_int8", ("int16-sym-channel-pow2", "[-32767, 32767]", "int8-sym-channel-pow2")), [], None),
}
METHODS = re.findall(r"^  ([a-z][a-z0-9-]*)  +\S", place.call("tune", "--help").decode().split("Usage:")[0], re.M)
OURS = ["as calibrated", *(m for m in METHODS if m != "auto"), "auto"]
PEERS = {"nncf": ("nncf", 1), "nncf-accurate": ("nncf", 1), "ort-minmax": ("onnxruntime", 1), "ort-percentile": ("onnxruntime", 1), "ort-entropy": ("onnxruntime", 1),
         "ppq": ("ppq", 1), "ppq-tuned": ("ppq", 1)}
CANNOT = {("nncf", c) for c in ("pow2", "w4a8-sym", "w4a8-asym")} | {("onnxruntime", "pow2")} | {("ppq", c) for c in ("w4a8-sym", "w4a8-asym")}
VERSION = {p: importlib.metadata.version(p) for p in ("nncf", "onnxruntime")} | {"ppq": "0.6.6"}


class Failed(Exception): pass


def run(*args, env=None):
    try: p = subprocess.run([str(x) for x in args], capture_output=True, text=True, cwd=place.work, timeout=a.limit, env=os.environ | (env or {}))
    except subprocess.TimeoutExpired: raise Failed("not run: time limit")
    if p.returncode: raise Failed(((p.stderr.strip() or p.stdout.strip()).splitlines() or [f"exit code {p.returncode}"])[-1][-300:])
    return p.stdout


class Cell:
    def __init__(self, name, net, column, row):
        self.name, self.net, self.column, self.row = name, net, column, row
        self.stem = f"{name}.{column}.{row.replace(' ', '-')}"
        self.file = os.path.join(a.cache, self.stem + ".json")
        tool = [PEERS[row], VERSION[PEERS[row][0]], VERSION["onnxruntime"]] if row in PEERS else [QWB, a.tune, VERSION["onnxruntime"]]
        self.key = digest(json.dumps([2, tool, column, self.sources(), net.calibration, net.evaluation, net.preprocess, net.samples, a.calibration, a.eval]).encode())

    def sources(self):
        return digest(open(self.net.model, "rb").read()) if os.path.exists(self.net.model) else ""

    def stored(self):
        """The result in the cache, None if it is none of this key; with --print any."""
        if not os.path.exists(self.file): return None
        with open(self.file) as f: r = json.load(f)
        stopped = "time limit" in r.get("failed", "") and r.get("limit", 0) < a.limit
        return r if a.print or r["key"] == self.key and not stopped else None

    def compute(self):
        start, r = time.time(), {"key": self.key, "limit": a.limit, "tool": QWB if self.row not in PEERS else VERSION[PEERS[self.row][0]]}
        out = place.path(self.stem + ".onnx")
        try:
            r |= (self.peer if self.row in PEERS else self.ours)(out)
            r["seconds"] = time.time() - start
            inputs = dumped(self.name, self.net, "evaluation", a.eval)
            r["nsr"], r["plain"], r["changed"] = compare(self.net.model, out, inputs, True, a.threads)
            r["unoptimized"] = float(np.mean(compare(self.net.model, out, inputs[:8], False, a.threads)[0]))
        except Failed as e: r["failed"] = str(e)
        except Exception as e: r["failed"] = f"ONNX Runtime: {str(e)[:200]}"
        for f in glob.glob(out + "*"): os.remove(f)
        with open(self.file + ".part", "w") as f: json.dump(r, f)
        os.replace(self.file + ".part", self.file)
        return r

    def peer(self, out):
        ppq = self.row.startswith("ppq")
        folder = os.path.dirname(dumped(self.name, self.net, "calibration", a.calibration)[0])
        here = os.path.dirname(os.path.abspath(__file__))
        run("nice", "-n", 19, a.ppq_python if ppq else a.python, os.path.join(here, "peers.py"), self.row, self.column, self.net.model, folder, out,
            env={"PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION": "python"} if ppq else {"OMP_NUM_THREADS": "1"})
        return {}

    def ours(self, out):
        make, flags, _ = COLUMNS[self.column]
        plan, base, target = f"{self.stem}.plan.json", f"{self.name}.{self.column}", make()
        stats = place.path(f"{self.name}.stats")
        if os.path.exists(stats): shutil.copy(stats, place.path(self.stem + ".stats"))
        run(place.qwb, "calibrate", self.net.model, "--data", self.net.calibration, "--preprocess", self.net.preprocess, "--samples", self.samples(), "--platform", target, *flags,
            "--fresh", "-o", plan)
        if not os.path.exists(stats): shutil.copy(place.path(self.stem + ".stats"), stats)
        r, method = {}, self.row
        if method != "as calibrated":
            t = json.loads(run(place.qwb, "tune", plan, "--method", method, "--samples", a.tune, "--json"))
            r["tune"] = {"held_out": t["held_out"], "before": t["before"], "after": t["after"], "methods": [{k: v for k, v in m.items() if k != "layers"} | {"layers": len(m["layers"])} for m in t["methods"]]}
        run(place.qwb, "export", plan, "--platform", target, "-o", out, *(() if method in ("as calibrated", "auto") else ("--unverified",)))
        r["verified"] = json.loads(open(place.path(plan)).read()).get("verification", {}).get("verdict")
        if self.column.startswith("pow2"): r["integers"] = self.integers(plan)
        for f in glob.glob(place.path(self.stem + ".*")):
            if f != out: os.remove(f)
        return r

    def samples(self):
        n = len(glob.glob(self.net.calibration + "/*")) or a.calibration
        return self.net.samples or min(n, a.calibration)

    def integers(self, plan):
        """The centred NSR of the integer program, by qwb itself; the labels are made up, nothing counts them."""
        inputs = dumped(self.name, self.net, "evaluation", a.eval)
        labels = place.path(self.stem + ".tsv")
        with open(labels, "w") as f: f.writelines(f"{os.path.basename(x)}\t0\n" for x in inputs)
        try: return json.loads(run(place.qwb, "eval", plan, "--data", os.path.dirname(inputs[0]), "--labels", labels, "--mode", "int8", "--json"))
        except Failed as e: return str(e)


def dumped(name, net, which, n):
    """The exact inputs as files, made once: all tools read the same."""
    data = getattr(net, which)
    if which == "calibration": n = net.samples or min(n, len(glob.glob(data + "/*")) or n)
    else: n = min(n, len(glob.glob(data + "/*")) or n)
    folder = place.path(f"{name}.{which}.{n}")
    if not os.path.exists(folder + "/done"):
        run(place.qwb, "preprocess", net.model, "--data", data, "--preprocess", net.preprocess, "--samples", n, "--dump", folder)
        open(folder + "/done", "w").close()
    return sorted(glob.glob(folder + "/*.np[yz]"))


def text(r):
    if r is None: return ""
    if "failed" in r: return "not run: time limit" if "time limit" in r["failed"] else "fails"
    return f"{np.mean(r['nsr']):.3g} ± {error(r['nsr']):.1g}, {100 * np.mean(r['changed']):.1f} %"


names = ["mobilenet_v1", "ocr", "squeezenet", "catdog", "resnet8", "resnet_large", "kws", "vww", "blazeface", "demo", "deeplab"]
chosen = lambda given, all: [x for x in all if not given or x in given.split(",")]
columns = [c for c in COLUMNS if COLUMNS[c][2]]
results, networks = {}, dict(place.networks(a.only or ",".join(names)))
for name in chosen(a.only, names):
    for column in chosen(a.columns, columns):
        rows = [(column, r) for r in [*OURS, *PEERS]] + [(COLUMNS[column][2], "as calibrated")]
        for column_, row in rows:
            if a.rows and not {row, "peers" if row in PEERS else "qwb"} & set(a.rows.split(",")) or (PEERS.get(row, [""])[0], column_) in CANNOT: continue
            cell = Cell(name, networks[name], column_, row)
            r = cell.stored()
            if r is None and not a.print and (a.ppq_python or not row.startswith("ppq")):
                r = cell.compute()
                print(time.strftime("%H:%M:%S"), cell.stem, text(r), r.get("failed", ""), f"{r.get('seconds', 0):.0f} s", flush=True, file=sys.stderr)
            if r: results[name, column_, row] = r


def pair(x, y):
    """The mean of x - y by sample and its error; None where one is missing."""
    if x is None or y is None or "failed" in x or "failed" in y: return None
    d = np.subtract(x["nsr"], y["nsr"])
    return float(d.mean()), error(d)


lines = []
for name in names:
    for row in [*OURS, *PEERS, "activations only"]:
        cells = [text(results.get((name, COLUMNS[c][2], "as calibrated") if row == "activations only" else (name, c, row))) for c in columns]
        if any(cells): lines.append([name, row, *cells])
print(f"centred NSR ± standard error, answers changed; qwb {QWB}, " + ", ".join(f"{k} {v}" for k, v in VERSION.items()) + "\n")
table(["network", "row", *columns], lines)

bars, ratios = [], {}
for name in names:
    for c in columns:
        get = lambda row: results.get((name, c, row))
        peers = [(float(np.mean(r["nsr"])), p) for p in PEERS if (r := get(p)) and "failed" not in r]
        start, auto, only = get("as calibrated"), get("auto"), results.get((name, COLUMNS[c][2], "as calibrated"))
        row, best = [name, c], min(peers, default=(0, None))[1]
        if (d := pair(auto, start)): row += [f"{d[0]:.2g} ± {d[1]:.1g}", "worse" if d[0] > d[1] else "ok"]
        else: row += ["", ""]
        if (d := pair(auto, get(best))): row += [best, f"{d[0]:.2g} ± {d[1]:.1g}", "behind" if d[0] > d[1] else "ok"]
        else: row += [best or "", "", ""]
        if auto and best and only and not any("failed" in x for x in (auto, only)):
            ours, theirs = pair(auto, only), pair(get(best), only)
            if theirs[0] > theirs[1]: ratios.setdefault(c, []).append(max(ours[0], ours[1]) / theirs[0]); row.append(f"{ratios[c][-1]:.2g}")
            else: row.append("")
        else: row.append("")
        if any(row[2:]): bars.append(row)
print("auto against as calibrated and against the best peer: paired differences of the centred NSR; the excess over the activations-only error as a share of that peer's\n")
table(["network", "column", "auto - as calibrated", "", "best peer", "auto - peer", "", "excess"], bars)
for c, r in ratios.items(): print(f"excess, {c}: {math.exp(np.mean(np.log(r))):.2g} of the best peer's (geometric mean of {len(r)} networks; at most 0.5)")
value = lambda n, c, r, kind="nsr": float(np.mean(results[n, c, r][kind])) if kind in results.get((n, c, r), {}) else math.nan
m = "mobilenet_v1"
for what, got, limit in [("W8A8 over as calibrated", value(m, "w8a8", "auto") / value(m, "w8a8", "as calibrated"), 0.085), ("per tensor", value(m, "tensor", "auto"), 0.08),
                         ("W4A8", min(value(m, "w4a8-sym", "auto"), value(m, "w4a8-asym", "auto")), 0.08), ("power of two per tensor", value(m, "pow2", "auto"), 0.15),
                         ("OCR over NNCF", value("ocr", "w8a8", "auto") / value("ocr", "w8a8", "nncf"), 1.2),
                         ("OCR over NNCF, NSR behind Softmax", value("ocr", "w8a8", "auto", "plain") / value("ocr", "w8a8", "nncf", "plain"), 1.2)]:
    if not math.isnan(got): print(f"{m if 'OCR' not in what else 'ocr'}: {what} {got:.3g}, at most {limit}: {'ok' if got <= limit else 'missed'}")
