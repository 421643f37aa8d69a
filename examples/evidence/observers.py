#!/usr/bin/env python3
"""Measures what each observer is worth on all networks: `qwb sweep` on each, with the default's rank, and prints tables as Markdown.

  observers.py QWB DATA [--work DIR] [--only NAME,...] [--platforms A,B] [--observers A,B]

The scales come from one half of the samples, the errors from the other. Results are kept in the work folder, so that it can be killed and repeated.
"""
import argparse, json, math, os, sys
from networks import Workplace, table

ap = argparse.ArgumentParser()
ap.add_argument("qwb"); ap.add_argument("data"); ap.add_argument("--work"); ap.add_argument("--only", default="")
ap.add_argument("--platforms", default="trt_int8,onnxruntime"); ap.add_argument("--observers", default="minmax,percentile(0.999),percentile(0.9999),percentile(0.99999),mse,kl,auto")
a = ap.parse_args()
place = Workplace(a.qwb, a.data, a.work)
SAMPLES = {"mobilenet_v1": 120, "squeezenet": 120, "catdog": 120, "deeplab": 40, "ocr": 80, "blazeface": 120, "vww": 160, "resnet_large": 600, "mnist-8": 600, "mnist-pytorch": 600}

results = {}
for name, n in place.networks(a.only):
    file = place.path(f"{name}.sweep.json")
    known = json.load(open(file)) if os.path.exists(file) else {}
    for platform in a.platforms.split(","):
        missing = [o for o in a.observers.split(",") if f"{platform} {o}" not in known]
        if missing:
            data = [x for d in dict.fromkeys((n.evaluation,) if n.labels is not None else (n.calibration, n.evaluation)) for x in ("--data", d)]
            labels = ("--labels", n.labels, "--label-offset", n.offset) if n.labels else ()
            # all observers again: the paired differences are from the best of them
            r = place.json("sweep", n.model, *data, *labels, "--preprocess", n.preprocess, "--samples", SAMPLES.get(name, 0), "--platforms", platform,
                           "--observers", a.observers, "--fresh", "--force", "-o", f"{name}.sweep.plan.json", ok=(0, 3))
            for row in r["rows"]: known[f"{platform} {row['observer']}"] = dict(row, samples=r["samples"], held_out=r["held_out"], passes=r["seconds"] / r["calibration_seconds"])
            for s in r["skipped"]: known[f"{platform} {s['observer']}"] = None
            json.dump(known, open(file, "w"), indent=1)
        print(f"{name} {platform} done", file=sys.stderr, flush=True)
    results[name] = known

order = a.observers.split(",")
for platform in a.platforms.split(","):
    print(f"### {platform}: centred output NSR on held-out samples; in brackets the rank\n")
    rows, logs, firsts, worst = [], {o: [] for o in order}, {o: 0 for o in order}, {o: 1 for o in order}
    for name, known in results.items():
        got = {o: known.get(f"{platform} {o}") for o in order}
        if not any(got.values()): continue
        best = min(r["nsr"] for r in got.values() if r)
        for o, r in got.items():
            if not r: continue
            ratio = r["nsr"] / best if best > 0 else 1
            logs[o].append(math.log(ratio)); firsts[o] += r["rank"] == 1; worst[o] = max(worst[o], ratio)
        some = next(r for r in got.values() if r)
        rows.append([name, some["held_out"]] + [f"{r['nsr']:.2e} ({r['rank']})" + (f" {r['drop']:+.1f} pp" if "drop" in r else "") if r else "-" for r in got.values()])
    rows.append(["times the best, geometric mean", ""] + [f"{math.exp(sum(l) / len(l)):.2f}" if (l := logs[o]) else "-" for o in order])
    rows.append(["times the best, at worst", ""] + [f"{worst[o]:.1f}" for o in order])
    rows.append(["rank 1", ""] + [f"{firsts[o]} of {len(logs[o])}" for o in order])
    table(["network", "held out"] + order, rows)
    print()
