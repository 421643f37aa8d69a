#!/usr/bin/env python3
"""How the cost of commands grows with samples, operators and parts: measured, fitted, and where the fit ends.

    growth.py MODEL.onnx DATA [PREPROCESS] > growth.md

Costs are processor seconds (user and system) of one process with one thread, so that other work on the machine counts little; of three runs
the least. What grows is fitted by least squares of relative errors; a point that is more than a fifth off its fit is where that ends. The
chains of operators need the Python package onnx; without it that table is left out.
"""
import json
import os
import random
import subprocess
import sys
import tempfile

QWB = os.environ.get("QWB", "qwb")
UNIT = 8  # samples of one part
OFF = 0.2


def run(*args, times=3):
    """Processor seconds and peak memory in MB of a command, the least of some runs."""
    best = None
    for _ in range(times):
        with subprocess.Popen([QWB, *args], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as p:
            err = p.stderr.read()
            _, status, used = os.wait4(p.pid, 0)
            p.returncode = os.waitstatus_to_exitcode(status)
        if p.returncode not in (0, 3):
            sys.exit(f"{' '.join(args)}: {err.decode()}")
        cost = (used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)
        best = cost if best is None or cost < best else best
    return best


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


def row(*cells):
    print("| " + " | ".join(str(c) for c in cells) + " |")


def by_samples(model, data, pre):
    print("\n## Samples\n\nt = a + b n, in processor seconds, for n samples; memory in MB at the fewest and at the most.\n")
    ns = [UNIT * k for k in (1, 2, 4, 8, 16, 32, 64)]
    row("command", "a", "b per sample", "off by more than 20 % at", "MB", *[f"n = {n}" for n in ns])
    row(*["---"] * (5 + len(ns)))
    run("calibrate", model, "--platform", "trt_int8", "-o", "m.plan.json", *data, "--samples", "64", *pre, times=1)
    commands = {
        "calibrate": ["calibrate", model, "--shard", "1/1", "-o", "c.part", *data, *pre],
        "tune --shard": ["tune", "m.plan.json", "--shard", "1/1", "-o", "g.part", *data],
        "eval --mode sim": ["eval", "m.plan.json", "--mode", "sim", *data],
        "eval --mode int8": ["eval", "m.plan.json", "--mode", "int8", *data],
        "analyze --layerwise": ["analyze", "m.plan.json", "--layerwise", "--shard", "1/1", "-o", "a.part", *data],
        "verify": ["verify", "m.plan.json", *data],
    }
    for name, command in commands.items():
        costs = [run(*command, "--samples", str(n), "--threads", "1") for n in ns]
        points = [(n, t) for n, (t, _) in zip(ns, costs)]
        a, b = fit(points)
        row(name, f"{a:.3f}", f"{b:.5f}", ", ".join(map(str, ends(points, a, b))) or "none",
            f"{costs[0][1]:.0f} to {costs[-1][1]:.0f}", *[f"{t:.2f}" for t, _ in costs])


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
    print("\n## Operators\n\nA chain of d convolutions with Relu, 8 samples. t = a + b d, of `analyze --layerwise` t = a + b d^2: each operator is "
          "run with all that follow it.\n")
    depths = [2, 4, 8, 16, 32, 64]
    row("command", "a", "b", "off by more than 20 % at", *[f"d = {d}" for d in depths])
    row(*["---"] * (4 + len(depths)))
    data = ["--data", "synthetic:8", "--threads", "1"]
    for d in depths:
        chain(f"d{d}.onnx", d)
        run("calibrate", f"d{d}.onnx", "--data", "synthetic:8", "--platform", "trt_int8", times=1)
    for name, power, args in (("eval --mode int8", 1, ["eval", "{}.plan.json", "--mode", "int8", *data]),
                              ("verify", 1, ["verify", "{}.plan.json", *data]),
                              ("analyze --layerwise", 2, ["analyze", "{}.plan.json", "--layerwise", "--shard", "1/1", "-o", "{}.part", *data])):
        points = [(d, run(*[a.replace("{}", f"d{d}") for a in args])[0]) for d in depths]
        a, b = fit(points, power)
        row(name, f"{a:.3f}", f"{b:.6f}", ", ".join(map(str, ends(points, a, b, power))) or "none", *[f"{t:.2f}" for _, t in points])


def by_parameters():
    try:
        import numpy  # noqa: F401
        import onnx  # noqa: F401
    except ImportError:
        return
    print("\n## Parameters\n\nA chain of products by 1024 x 1024 weights with Tanh (weights.py), 2 samples. t = a + b p for p Mi parameters; peak "
          "memory m = a + b p in MB; bytes are those of what is written.\n")
    sizes = [4, 8, 16, 32, 64]  # MiB, a quarter of that in Mi parameters
    row("command", "a", "b", "off by more than 20 % at", "MB: a", "b", "off at", "bytes written", *[f"p = {s // 4}" for s in sizes])
    row(*["---"] * (8 + len(sizes)))
    here = os.path.dirname(os.path.abspath(__file__))
    for s in sizes:
        subprocess.run([sys.executable, f"{here}/weights.py", "onnx", str(s), f"p{s}"], check=True)
    for name, args, out in (("calibrate", ["calibrate", "{}/m.onnx", "--data", "{}/data", "--platform", "trt_int8", "-o", "{}/m.plan.json"],
                             ["m.plan.json", "m.stats"]),
                            ("eval --mode int8", ["eval", "{}/m.plan.json", "--mode", "int8", "--data", "{}/data"], []),
                            ("analyze", ["analyze", "{}/m.plan.json", "--data", "{}/data"], []),
                            ("verify", ["verify", "{}/m.plan.json", "--data", "{}/data"], []),
                            ("export", ["export", "{}/m.plan.json", "-o", "{}/out.onnx"], ["out.onnx", "out.onnx.data"]),
                            ("tune --method bias", ["tune", "{}/m.plan.json", "--method", "bias", "--force", "--data", "{}/data"], ["m.plan.json"])):
        costs = [run(*[a.replace("{}", f"p{s}") for a in args], "--threads", "1", times=1) for s in sizes]
        written = sum(os.path.getsize(f"p{sizes[-1]}/{f}") for f in out if os.path.exists(f"p{sizes[-1]}/{f}"))
        fits = []
        for points in ([(s / 4, c[k]) for s, c in zip(sizes, costs)] for k in (0, 1)):
            a, b = fit(points)
            fits += [f"{a:.3g}", f"{b:.3g}", ", ".join(f"{n:g}" for n in ends(points, a, b)) or "none"]
        row(name, *fits, written, *[f"{t:.2f} s, {m:.0f} MB" for t, m in costs])


def by_parts(data):
    total = 64 * UNIT
    print(f"\n## Parts\n\n{total} samples in N parts. Slowest part and merge in processor seconds; speed-up is one run over slowest part and merge, "
          "as on N machines with one processor each. Model: (a + b n) / (a + b n / N + m), with a and b of one run and m the merge; "
          "bytes are those of all parts.\n")
    row("command", "N", "slowest part", "merge", "speed-up", "model", "bytes")
    row(*["---"] * 7)
    for name, command, n in (("eval --mode int8", ["eval", "m.plan.json", "--mode", "int8"], total),
                             ("verify", ["verify", "m.plan.json"], total),
                             ("analyze --layerwise", ["analyze", "m.plan.json", "--layerwise"], 64)):
        args = [*command, *data, "--samples", str(n), "--threads", "1"]
        few = [*command, *data, "--samples", str(max(1, n // 16)), "--threads", "1"]
        end = ["-o", "one.part", "--shard", "1/1"]
        one, least = run(*args, *end)[0], run(*few, *end)[0]
        b = (one - least) / (n - max(1, n // 16))
        a = max(0.0, one - b * n)
        for parts in (1, 2, 4, 8, 16, 32, 64):
            names, costs = [f"{i + 1}.p{parts}" for i in range(parts)], []
            for i, file in enumerate(names):
                costs.append(run(*args, "--shard", f"{i + 1}/{parts}", "-o", file, times=1 if parts > 4 else 3)[0])
            merge = run("merge", *names)[0]
            size = sum(os.path.getsize(f) for f in names)
            row(name, parts, f"{max(costs):.2f}", f"{merge:.2f}", f"{one / (max(costs) + merge):.1f}",
                f"{one / (a + b * n / parts + merge):.1f}", size)


def main():
    model, path = (os.path.abspath(p) for p in sys.argv[1:3])
    data = ["--data", path]
    pre = ["--preprocess", sys.argv[3]] if len(sys.argv) > 3 else []
    version = json.loads(subprocess.run([QWB, "version", "--json"], capture_output=True, check=True).stdout)
    cpu = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "unknown")
    print(f"# Growth\n\n`growth.py {os.path.basename(model)} {os.path.basename(path)}` with qwb {version['version']} on {cpu}, one thread.")
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        by_samples(model, data, pre)
        by_operators()
        by_parameters()
        by_parts(data)


if __name__ == "__main__":
    main()
