#!/usr/bin/env python3
"""What qwb analyze advises on every network, and what the commands do: the predicted effect beside the measured one, on data that calibration has
not seen. Prints a table as Markdown.

  advice.py QWB DATA [--work DIR] [--only NAME,...] [--platforms A,B] [--samples N]

Results are kept in the work folder, so that it can be killed and repeated.
"""
import argparse, json, os, sys
from networks import Workplace, table

ap = argparse.ArgumentParser()
ap.add_argument("qwb"); ap.add_argument("data"); ap.add_argument("--work"); ap.add_argument("--only", default="")
ap.add_argument("--platforms", default="onnxruntime,trt_int8"); ap.add_argument("--samples", type=int, default=24)
a = ap.parse_args()
place = Workplace(a.qwb, a.data, a.work)

rows = []
for name, n in place.networks(a.only):
    for platform in a.platforms.split(","):
        file = place.path(f"{name}.{platform}.advice.json")
        if not os.path.exists(file):
            plan = f"{name}.{platform}.advice.plan.json"
            place.call("calibrate", n.model, "--data", n.calibration, "--preprocess", n.preprocess, "--samples", n.samples, "--platform", platform, "--fresh", "-o", plan)
            r = place.json("analyze", plan, "--layerwise", "--try", "--data", n.evaluation, "--samples", a.samples, "--html", place.path("advice.html"))
            json.dump({k: r[k] for k in ("outputs", "advice", "samples", "seconds", "forwards")}, open(file, "w"), indent=1)
        r = json.load(open(file))
        print(f"{name} {platform} done", file=sys.stderr, flush=True)
        nsr = max(o["centred"]["nsr"] if "centred" in o else o["nsr"] for o in r["outputs"])
        for x in r["advice"] or [None]:
            if x is None:
                rows.append([name, platform, f"{nsr:.2g}", "-", "", "", "", ""])
                continue
            t = x.get("trial")
            words = x["command"].split(); words = [words[1]] + [w if len(w) < 40 else w[:36] + "..." for w in words[3:]] if words else ["-"]
            measured = "" if not t else t.get("failed", "")[:40] if t.get("failed") else f"{t['measured']['nsr']:.2g} ± {t['measured']['nsr_error'] or 0:.1g} (of {t['before']['nsr']:.2g}, {t['samples']} {t['held_out_kind']})"
            rows.append([name, platform, f"{nsr:.2g}", x["cause"], str(len(x.get("nodes") or [])), " ".join(words), f"{x['predicted']:.2g}" if "predicted" in x else "", measured])
table(["network", "platform", "NSR", "cause", "operators", "command", "predicted", "measured"], rows)
