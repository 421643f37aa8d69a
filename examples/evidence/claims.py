#!/usr/bin/env python3
"""Holds what `qwb dispatch --auto` claims to samples that it never saw, and prints the table as Markdown.

  claims.py QWB DATA --cache DIR [--only NAME,...] [--budgets drop,nsr] [--splits 20] [--before QWB] [--print]

Evaluation samples are split at random in three: two thirds go to the search, which fits on about half of them and confirms on the rest; the last
third judges. A claim is broken where the error on the last third exceeds the budget by more than 1.64 of its own (paired) standard errors. The NSR
budget of a network is half of the NSR that its plan has on all evaluation samples. With --before an older program goes through the same splits;
whatever it accepts counts as a claim. Results stand in DIR, so that a run can be killed and repeated. Needs: pip install onnxruntime numpy.
"""
import argparse, hashlib, json, os, random, shutil, subprocess, sys, time
import numpy as np
from networks import Workplace, table

ap = argparse.ArgumentParser()
ap.add_argument("qwb"); ap.add_argument("data"); ap.add_argument("--cache", required=True)
for name in ("only", "before"): ap.add_argument("--" + name, default="")
ap.add_argument("--budgets", default="drop,nsr"); ap.add_argument("--splits", type=int, default=20)
ap.add_argument("--print", action="store_true"); ap.add_argument("--threads", type=int, default=2)
a = ap.parse_args()
os.makedirs(a.cache, exist_ok=True)

# Network, platform and flags of calibrate. With one scale per weight tensor the small networks of CIFAR lose about a point.
ROWS = [("demo", "trt_int8", ["--observer", "mse"]), ("resnet8", "trt_int8", ["--per-tensor", "--observer", "minmax"]), ("resnet8", "onnxruntime", []),
        ("resnet_large", "trt_int8", ["--per-tensor", "--observer", "minmax"]), ("mobilenet_v1", "onnxruntime", []), ("squeezenet", "trt_int8", []), ("ocr", "trt_int8", [])]
DEMO_SEEDS = 3  # the demo draws 1,000 pictures from a seed: more pictures are more seeds


class Place(Workplace):
    """A network with its evaluation samples as single items that can be dealt out."""

    def items(self, name, n):
        if n.evaluation.endswith(".bin"):
            raw = np.fromfile(n.evaluation, np.uint8).reshape(-1, 3073)
            return [(f"{i:05}", raw[i]) for i in range(len(raw))], None
        label = dict(line.split("\t")[:2] for line in open(n.labels).read().split("\n")[1:] if line) if n.labels else None
        files = [(f, os.path.join(n.evaluation, f)) for f in sorted(os.listdir(n.evaluation))]
        if name == "demo":
            for seed in range(2, DEMO_SEEDS + 1):
                folder = self.path(f"demo{seed}")
                if not os.path.exists(folder): self.call("demo", "--seed", seed, "-o", folder)
                label |= {f"{seed}-{k}": v for k, v in (line.split("\t")[:2] for line in open(folder + "/data/eval.tsv").read().split("\n")[1:] if line)}
                files += [(f"{seed}-{f}", os.path.join(folder, "data/eval", f)) for f in sorted(os.listdir(folder + "/data/eval"))]
        return files, label

    def deal(self, folder, items, label):
        """Writes items as a data set; returns the flags that name it."""
        shutil.rmtree(folder, ignore_errors=True); os.makedirs(folder)
        if isinstance(items[0][1], np.ndarray):
            np.stack([x for _, x in items]).tofile(folder + "/data.bin")
            return ["--data", folder + "/data.bin"]
        os.makedirs(folder + "/data")
        for name, file in items: os.symlink(file, f"{folder}/data/{name}")
        if not label: return ["--data", folder + "/data"]
        with open(folder + "/labels.tsv", "w") as f: f.write("file\tindex\n" + "".join(f"{name}\t{label[name]}\n" for name, _ in items))
        return ["--data", folder + "/data", "--labels", folder + "/labels.tsv"]


def run(qwb, *args, cwd):
    start = time.time()
    p = subprocess.run([qwb, *map(str, args), "--threads", str(a.threads), "--json"], capture_output=True, text=True, cwd=cwd)
    try: out = json.loads(p.stdout)
    except ValueError: out = {}
    return p.returncode, out, p.stderr.strip().split("\n")[-1], time.time() - start


def unseen(qwb, n, plan, kind, data, labels, cwd):
    """The error of the plan on samples that no search saw: value and standard error, in the unit of the budget."""
    if kind == "drop":
        code, r, why, _ = run(qwb, "eval", plan, *data, *labels, "--mode", "sim", cwd=cwd)
        if code: sys.exit(why)
        return r["drop"], r["drop_error"]
    code, r, why, _ = run(qwb, "analyze", plan, *[x for x in data if "labels" not in str(x)], cwd=cwd)
    if code: sys.exit(why)
    o = max(r["outputs"], key=lambda o: o["nsr"])
    return o["nsr"], o["nsr_error"] or 0


def measure(row, kind, split, qwb, place, n, items, label, plan, budget):
    rng = random.Random(f"{row} {split}")
    order = items[:]; rng.shuffle(order)
    third = len(order) // 3
    cwd, mine = place.work, place.path("m.plan.json")
    for end in (".plan.json", ".stats"): shutil.copy(plan[:-10] + end, place.path("m" + end))
    search, last = place.deal(place.path("search"), order[third:], label), place.deal(place.path("last"), order[:third], label)
    labels = ["--label-offset", n.offset] if n.labels else []
    flags = ["--max-drop", budget, *search, *labels] if kind == "drop" else ["--max-nsr", budget, *search[:2]]
    before = open(mine, "rb").read()
    code, r, why, seconds = run(qwb, "dispatch", "m.plan.json", "--auto", *flags, "--samples", len(order) - third, cwd=cwd)
    claimed = r.get("claimed", code == 0)
    if code not in (0, 3): sys.exit(f"{row} {kind} {split}: exit {code}: {why}")
    if not claimed and open(mine, "rb").read() != before: sys.exit(f"{row}: no claim, but the plan changed")
    out = {"code": code, "claimed": claimed, "refused": bool(r.get("refused")), "why": why, "evaluations": r.get("evaluations"), "seconds": seconds, "fp32": len(r.get("fp32") or []),
           "held": (r.get("held_out") or {}).get("value"), "upper": (r.get("held_out") or {}).get("upper")}
    if claimed: out["unseen"], out["error"] = unseen(qwb, n, "m.plan.json", kind, last if kind == "drop" else last[:2], labels, cwd)
    return out


def main():
    rows = []
    for qwb in filter(None, (a.before, a.qwb)):
        key = hashlib.sha256(open(qwb, "rb").read()).hexdigest()[:12]
        place = Place(qwb, a.data, os.path.join(a.cache, "work-" + key))
        for name, platform, flags in ROWS:
            if a.only and name not in a.only.split(","): continue
            row = " ".join([name, platform, *[f.lstrip("-") for f in flags if f not in ("--observer",)]])
            (_, n), = place.networks(name)
            if name == "ocr": n.calibration, n.evaluation = n.evaluation, n.calibration  # there are few lines: most are for the search
            items, label = place.items(name, n)
            plan = place.path(row.replace(" ", "_") + ".plan.json")
            if not os.path.exists(plan): place.call("calibrate", n.model, "--data", n.calibration, "--preprocess", n.preprocess, "--platform", platform, *flags, "-o", plan)
            for kind in a.budgets.split(","):
                if kind == "drop" and n.labels is None: continue
                got, budget = [], 1.0
                if kind == "nsr":
                    file = plan[:-10] + ".nsr.json"
                    if not os.path.exists(file): json.dump(unseen(place.qwb, n, plan, kind, place.deal(place.path("all"), items, None), [], place.work)[0], open(file, "w"))
                    budget = float(f"{json.load(open(file)) / 2:.2g}")
                for split in range(a.splits):
                    file = os.path.join(a.cache, f"{key}.{row.replace(' ', '_')}.{kind}.{split}.json")
                    if not os.path.exists(file):
                        if a.print: continue
                        r = measure(row, kind, split, place.qwb, place, n, items, label, plan, budget)
                        json.dump(r, open(file, "w")); print(file, r, file=sys.stderr, flush=True)
                    got.append(json.load(open(file)))
                if not got: continue
                claims = [g for g in got if g["claimed"]]
                broken = [g for g in claims if g["unseen"] - budget > 1.64 * g["error"]]
                mean = lambda k, of: f"{np.mean([g[k] for g in of if g[k] is not None] or [0]):.3g}"
                rows.append([row, "before" if qwb == a.before else "now", f"{kind} {budget:g}", len(items) - len(items) // 3, f"{len(claims)} of {len(got)}", len(broken),
                             sum(g["refused"] for g in got), mean("fp32", claims), mean("unseen", claims) if claims else "", mean("evaluations", got), mean("seconds", got)])
    table(["network, platform", "program", "budget", "samples", "claims", "broken", "refused", "operators in FP32", "unseen, mean", "evaluations", "seconds"], rows)


main()
