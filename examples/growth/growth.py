#!/usr/bin/env python3
"""How the cost of commands grows with samples, operators, parameters and parts: measured, fitted, and where the fit ends.

    growth.py FIGURE.svg MODEL.onnx DATA [PREPROCESS] [--only NAME ...] > growth.md

Costs are processor seconds (user and system) of one process with one thread, so that other work on the machine counts little; of three runs
the least. What grows is fitted by least squares of relative errors; a point that is more than a fifth off its fit is where that ends. The
chains need the Python packages onnx and numpy; without them their tables are left out. --only measures commands of these names alone.
"""
import argparse
import json
import os
import random
import subprocess
import sys
import tempfile

import figure

QWB = os.environ.get("QWB", "qwb")
UNIT = 8  # samples of one part
UNITS = (1, 2, 4, 8, 16, 32, 64)  # parts' worth of work
OFF = 0.2
CURVES = {}  # of the figure: panel to curves
INPUTS = ["."]  # files and folders that commands read
ONLY = []  # names of commands; empty: all


def cold():
    """Lets the system forget what it keeps of the inputs in memory."""
    for path in INPUTS:
        for name in [path] if os.path.isfile(path) else [os.path.join(f, n) for f, _, names in os.walk(path) for n in names]:
            file = os.open(name, os.O_RDONLY)
            os.fsync(file)
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(file)


def run(*args, times=3):
    """Processor seconds and peak memory in MB of a command, the least of some runs, and of the first run MB that came from the disk, that
    calls read and that calls wrote. Mapped files are in the first alone, which counts whole pages and what the system reads ahead."""
    best, moved = None, ()
    for i in range(times):
        if i == 0:
            cold()
        with subprocess.Popen([QWB, *args], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as p:
            err = p.stderr.read()
            os.waitid(os.P_PID, p.pid, os.WEXITED | os.WNOWAIT)
            if i == 0:
                counts = dict(line.split(":") for line in open(f"/proc/{p.pid}/io"))
                moved = tuple(int(counts[k]) / 1e6 for k in ("read_bytes", "rchar", "wchar"))
            _, status, used = os.wait4(p.pid, 0)
            p.returncode = os.waitstatus_to_exitcode(status)
        if p.returncode not in (0, 3):
            sys.exit(f"{' '.join(args)}: {err.decode()}")
        cost = (used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)
        best = cost if best is None or cost < best else best
    return best + moved


def fit(points, power=1):
    """Least squares of the relative errors of t = a + b n^power, a not below 0."""
    rows = [(1 / t, n**power / t) for n, t in points]
    s11 = sum(x * x for x, _ in rows)
    s12 = sum(x * y for x, y in rows)
    s22 = sum(y * y for _, y in rows)
    r1, r2 = sum(x for x, _ in rows), sum(y for _, y in rows)
    det = s11 * s22 - s12 * s12
    a, b = (r1 * s22 - r2 * s12) / det, (s11 * r2 - s12 * r1) / det
    if a < 0:
        a, b = 0, r2 / s22
    return a, b


def ends(points, a, b, power=1):
    """The points that are off the fit."""
    return [n for n, t in points if abs(a + b * n**power - t) > OFF * t]


def fitted(panel, name, points, power=1):
    """The cells of a fit: a, b and where it ends; the figure gets the curve."""
    a, b = fit(points, power)
    off = ends(points, a, b, power)
    if panel:
        CURVES.setdefault(panel, []).append((name, [(n, t, n in off) for n, t in points], lambda n: a + b * n**power))
    return f"{a:.3g}", f"{b:.3g}", ", ".join(f"{n:g}" for n in off) or "none"


def table(panel, unit, ns, commands):
    """Two tables of commands, (name, power of n in the seconds, function of n to the costs): time and memory, and bytes."""
    titles = ("s: a", f"b per {unit}", "off at", "MB: a", "b", "off at")
    row("command", *titles, *[f"{n:g}" for n in ns])
    row(*["---"] * (1 + len(titles) + len(ns)))
    rest = []
    for name, power, cost in commands:
        if ONLY and name not in ONLY:
            continue
        costs = [cost(n) for n in ns]
        points = [list(zip(ns, c)) for c in zip(*costs)]
        row(name, *fitted(panel, name, points[0], power), *fitted(None, name, points[1]),
            *[f"{c[0]:.2f} s, {c[1]:.0f} MB" for c in costs])
        rest.append((name, points, costs))
    print()
    row("MB moved", "disk: a", f"b per {unit}", "off at", "read: a", "b", "off at", "written: a", "b", "off at",
        f"disk, read, written at {ns[-1]:g}")
    row(*["---"] * 11)
    for name, points, costs in rest:
        cells = []
        for p in points[2:]:
            cells += fitted(None, name, p) if all(v > 0 for _, v in p) else ("0", "0", "none")
        row(name, *cells, ", ".join(f"{v:.3g}" for v in costs[-1][2:]))


def row(*cells):
    print("| " + " | ".join(str(c) for c in cells) + " |")


def by_samples(model, data, pre):
    print("\n## Samples\n\nt = a + b n, in processor seconds, for n samples, and so memory and MB moved.\n")
    calibrated = ["calibrate", model, "--platform", "trt_int8", *data, "--samples", "64", *pre, "-o"]
    run(*calibrated, "m.plan.json", times=1)
    run(*calibrated, "other.plan.json", "--observer", "minmax", times=1)
    commands = {
        "calibrate": ["calibrate", model, "--shard", "1/1", "-o", "c.part", *data, *pre],
        "tune --shard": ["tune", "m.plan.json", "--shard", "1/1", "-o", "g.part", *data],
        "eval --mode sim": ["eval", "m.plan.json", "--mode", "sim", *data],
        "eval --mode int8": ["eval", "m.plan.json", "--mode", "int8", *data],
        "analyze --layerwise": ["analyze", "m.plan.json", "--layerwise", "--shard", "1/1", "-o", "a.part", *data],
        "verify": ["verify", "m.plan.json", *data],
        "sweep, 16 plans": ["sweep", model, "--platforms", "trt_int8", "--granularity", "channel,tensor", "--shard", "1/1",
                            "--part", "s.part", *data, *pre],
        "compare, 2 plans": ["compare", "m.plan.json", "other.plan.json", *data],
    }
    part = lambda n, *c: run(*c, "--samples", str(n), "--threads", "1", "--shard", "1/1", times=1)

    def merged(n, name):
        part(n, *commands[name], "-o", "e.part")
        return run("merge", "e.part")
    table("samples", "sample", [UNIT * k for k in UNITS],
          [(name, 1, lambda n, c=c: run(*c, "--samples", str(n), "--threads", "1")) for name, c in commands.items()]
          + [(f"merge of {name}", 1, lambda n, name=name: merged(n, name)) for name in ("eval --mode int8", "verify")])


def chain(path, depth):
    """A chain of convolutions of one size."""
    import onnx
    from onnx import TensorProto, helper
    r, nodes, consts = random.Random(depth), [], []
    for i in range(depth):
        w = [r.gauss(0, 0.12) for _ in range(16 * 16 * 9)]
        consts.append(helper.make_tensor(f"w{i}", TensorProto.FLOAT, [16, 16, 3, 3], w))
        nodes.append(helper.make_node("Conv", [f"x{i}", f"w{i}"], [f"c{i}"], f"conv{i}", pads=[1, 1, 1, 1]))
        nodes.append(helper.make_node("Relu", [f"c{i}"], [f"x{i + 1}"], f"relu{i}"))
    value = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 16, 24, 24])
    g = helper.make_graph(nodes, "chain", [value("x0")], [value(f"x{depth}")], consts)
    onnx.save(helper.make_model(g, opset_imports=[helper.make_opsetid("", 17)]), path)


def by_operators():
    try:
        import onnx  # noqa: F401
    except ImportError:
        return
    print("\n## Operators\n\nA chain of d convolutions with Relu, 8 samples. t = a + b d, of `analyze --layerwise` t = a + b d^2: each "
          "operator is run with all that follow it.\n")
    data = ["--data", "synthetic:8", "--threads", "1"]
    for d in UNITS:
        chain(f"d{d}.onnx", d)
        for observer, plan in ("auto", f"d{d}"), ("minmax", f"d{d}.other"):
            run("calibrate", f"d{d}.onnx", "--data", "synthetic:8", "--platform", "trt_int8", "--observer", observer,
                "-o", f"{plan}.plan.json", times=1)
    commands = {
        "calibrate": ["calibrate", "{}.onnx", "--shard", "1/1", "-o", "c{}.part", *data],
        "tune --shard": ["tune", "{}.plan.json", "--shard", "1/1", "-o", "t{}.part", *data],
        "eval --mode int8": ["eval", "{}.plan.json", "--mode", "int8", *data],
        "verify": ["verify", "{}.plan.json", *data],
        "analyze --layerwise": ["analyze", "{}.plan.json", "--layerwise", "--shard", "1/1", "-o", "a{}.part", *data],
        "sweep, 8 plans": ["sweep", "{}.onnx", "--platforms", "trt_int8", "--shard", "1/1", "--part", "s{}.part", *data],
        "export": ["export", "{}.plan.json", "-o", "{}.out.onnx", "--threads", "1"],
        "compare, 2 plans": ["compare", "{}.plan.json", "{}.other.plan.json", *data],
    }

    def merged(d):
        run(*[a.replace("{}", f"d{d}") for a in commands["calibrate"]], times=1)
        return run("merge", f"cd{d}.part", "-o", f"d{d}.stats")
    table("operators", "operator", UNITS, [
        (name, 2 if "layerwise" in name else 1, lambda d, c=c: run(*[a.replace("{}", f"d{d}") for a in c]))
        for name, c in commands.items()] + [("merge of calibrate", 1, merged)])


def by_parameters():
    try:
        import numpy  # noqa: F401
        import onnx  # noqa: F401
    except ImportError:
        return
    print("\n## Parameters\n\nA chain of products by 1024 x 1024 weights with Tanh (weights.py), 2 samples. t = a + b p for p Mi "
          "parameters (4 MiB of weights each), and so memory and MB moved; without `--mem`.\n")
    here = os.path.dirname(os.path.abspath(__file__))
    for p in UNITS:
        subprocess.run([sys.executable, f"{here}/weights.py", "onnx", str(4 * p), f"p{p}"], check=True)
    data = ["--data", "{}/data"]
    for p in UNITS if ONLY else ():
        run("calibrate", f"p{p}/m.onnx", "--data", f"p{p}/data", "--platform", "trt_int8", "-o", f"p{p}/m.plan.json", times=1)
    commands = {
        "calibrate": ["calibrate", "{}/m.onnx", *data, "--platform", "trt_int8", "-o", "{}/m.plan.json"],
        "eval --mode int8": ["eval", "{}/m.plan.json", "--mode", "int8", *data],
        "analyze": ["analyze", "{}/m.plan.json", *data],
        "verify": ["verify", "{}/m.plan.json", *data],
        "sweep, 2 plans": ["sweep", "{}/m.onnx", "--platforms", "trt_int8", "--observers", "minmax,mse", "--shard", "1/1",
                           "--part", "s.part", "--data", "synthetic:8"],
        "export": ["export", "{}/m.plan.json", "-o", "out.onnx"],
        "compare": ["compare", "{}/m.plan.json", "{}/m.onnx", *data],
        "tune --method bias": ["tune", "{}/m.plan.json", "--method", "bias", "--force", *data],
    }
    table("parameters", "Mi parameters", UNITS, [
        (name, 1, lambda p, c=c: run(*[a.replace("{}", f"p{p}") for a in c], "--threads", "1", times=1)) for name, c in commands.items()])


def by_parts(model, data, pre):
    total = 64 * UNIT
    print(f"\n## Parts\n\n{total} samples (of `analyze` 64; of `sweep` 64 plans on 64 samples) in N parts. Slowest part and merge in "
          "processor seconds; speed-up is one run over slowest part and merge, as on N machines with one processor each. Model: "
          "(a + b n) / (a + b n / N + m), with a and b of one run and m the merge. Moved are MB that all parts together read from the disk "
          "and wrote (this goes to the machine that merges); Beam sends each part to the runner and on to the worker that merges: twice "
          "that, with several branches (-workers) four times.\n")
    row("command", "N", "slowest part", "merge", "speed-up", "model", "read", "written", "by Beam")
    row(*["---"] * 9)
    few = ["--observers", "minmax,mse,kl,auto"]
    whole = ["--granularity", "channel,tensor", "--dispatchers", "conservative,pplnn,aggressive,allin"]
    plans = ["sweep", model, "--platforms", "trt_int8", "--samples", "64", *pre]
    samples = lambda *c: lambda n: [*c, "--samples", str(n)]
    fits = []
    for name, command, n, end in (("eval --mode int8", samples("eval", "m.plan.json", "--mode", "int8"), total, "-o"),
                                  ("verify", samples("verify", "m.plan.json"), total, "-o"),
                                  ("analyze --layerwise", samples("analyze", "m.plan.json", "--layerwise"), 64, "-o"),
                                  ("sweep", lambda n: [*plans, *(whole if n == 64 else few)], 64, "--part")):
        args, less = ([*command(k), *data, "--threads", "1"] for k in (n, max(1, n // 16)))
        one, least = (run(*c, end, "one.part", "--shard", "1/1")[0] for c in (args, less))
        b = (one - least) / (n - max(1, n // 16))
        a = max(0.0, one - b * n)
        gains, merges = [], []
        for parts in UNITS:
            names = [f"{i + 1}.p{parts}" for i in range(parts)]
            costs = [run(*args, "--shard", f"{i + 1}/{parts}", end, file, times=1 if parts > 4 else 3) for i, file in enumerate(names)]
            slowest, merge = max(c[0] for c in costs), run("merge", *names)[0]
            merges.append((parts, merge))
            size = sum(os.path.getsize(f) for f in names) / 1e6
            expected = one / (a + b * n / parts + merge)
            gain = one / (slowest + merge)
            gains.append((parts, gain, abs(expected - gain) > OFF * gain))
            row(name, parts, f"{slowest:.2f}", f"{merge:.2f}", f"{gain:.1f}", f"{expected:.1f}", f"{sum(c[2] for c in costs):.2f}",
                f"{size:.3f}", "-" if name == "sweep" else f"{2 * size:.3f}")
        fits.append((f"merge of {name}", *fitted("merge by parts", name, merges)))
        CURVES.setdefault("parts", []).append((name, gains, lambda k, a=a, b=b, n=n, one=one, merge=merge: one / (a + b * n / k + merge)))
    print("\nThe merge by itself, m = a + b N:\n")
    row("command", "s: a", "b per part", "off at")
    row(*["---"] * 4)
    for cells in fits:
        row(*cells)


def main():
    parser = argparse.ArgumentParser()
    for name in ("figure", "model", "data"):
        parser.add_argument(name)
    parser.add_argument("preprocess", nargs="?")
    parser.add_argument("--only", action="append", default=[])
    options = parser.parse_intermixed_args()
    picture, model, path = (os.path.abspath(p) for p in (options.figure, options.model, options.data))
    data = ["--data", path]
    pre = ["--preprocess", options.preprocess] if options.preprocess else []
    ONLY.extend(options.only)
    INPUTS.extend((model, path))
    version = json.loads(subprocess.run([QWB, "version", "--json"], capture_output=True, check=True).stdout)
    cpu = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "unknown")
    print(f"# Growth\n\n`growth.py {os.path.basename(model)} {os.path.basename(path)}` with qwb {version['version']} on {cpu}, one thread.")
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        by_samples(model, data, pre)
        by_operators()
        by_parameters()
        if not ONLY:
            by_parts(model, data, pre)
    with open(picture, "w") as f:
        f.write(figure.svg([(f"{name[0].upper()}{name[1:]}", name if name != "parameters" else "Mi parameters",
                             "processor seconds" if name != "parts" else "speed-up", curves) for name, curves in CURVES.items()]))


if __name__ == "__main__":
    main()
