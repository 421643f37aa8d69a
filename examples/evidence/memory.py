#!/usr/bin/env python3
"""Whether --mem holds: the figure that a command names where too little is given, and its peak of resident memory with that figure. Prints a table as Markdown.

  memory.py QWB DATA [--work DIR] [--only NAME,...] [--commands NAME,...] [--threads N]

A command that asks for no more than 96 MiB is not refused: its figure is that. Of language models (stories15M, 110M) it is export that fits weights to a text;
with 110M that takes an hour. Needs onnx and GNU time; two of the networks are made as in rows.py.
"""
import argparse, os, re, shutil, subprocess
from networks import Workplace, table
from rows import minilm, yolo

COMMANDS = ("calibrate", "analyze", "eval", "eval int8", "tune", "dispatch", "sweep", "run", "verify", "export")
LEAST = 96
FITTING = {"--weights q4_0 importance": ("--weights", "q4_0", "--method", "importance"), "--weights q4_0 gptq": ("--weights", "q4_0", "--method", "gptq"),
           "--weights q4_0 gptaq": ("--weights", "q4_0", "--method", "gptaq"), "--weights q4_0 awq": ("--weights", "q4_0", "--method", "awq"),
           "--weights q4_0 smoothquant": ("--weights", "q4_0", "--method", "smoothquant"), "--bpw 5 importance": ("--bpw", "5", "--method", "importance")}


def measure(place, args, mem, threads):
    """Runs a command and returns what it wrote to standard error, its exit code, its peak in MiB and its CPU seconds. GNU time stands between: a child of Python
    begins with Python's peak."""
    said = place.path("time.txt")
    p = subprocess.run(["/usr/bin/time", "-q", "-o", said, "-f", "%M %U %S", place.qwb, *map(str, args), "--threads", str(threads), "--mem", f"{mem}M"],
                       stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, cwd=place.work)
    peak, user, system = map(float, open(said).read().split())
    return p.stderr.decode(), p.returncode, peak / 1024, user + system


def commands(place, model, data, plan):
    """The arguments of each command; each works on a fresh copy of the plan."""
    return {
        "calibrate": ("calibrate", model, *data, "--platform", "onnxruntime", "--fresh", "-o", "t.plan.json"),
        "analyze": ("analyze", plan), "eval": ("eval", plan, *data, "--mode", "sim"), "eval int8": ("eval", plan, *data, "--mode", "int8"),
        "tune": ("tune", plan, "--method", "bias", "--force"),
        "dispatch": ("dispatch", plan, "--auto", "--force", "--max-nsr", "1e-9"),
        "sweep": ("sweep", model, *data, "--platforms", "onnxruntime"),
        "run": ("run", plan, *data, "--output", "outputs"), "verify": ("verify", plan), "export": ("export", plan, "-o", "out.onnx"),
    }


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("qwb"); ap.add_argument("data"); ap.add_argument("--work"); ap.add_argument("--only", default=""); ap.add_argument("--commands", default="")
    ap.add_argument("--threads", type=int, default=2); ap.add_argument("--samples", type=int, default=8)
    a = ap.parse_args()
    place, rows, worst = Workplace(a.qwb, a.data, a.work), [], 0
    def row(name, command, call):
        global worst
        said, code, peak, cpu = call(LEAST)
        asked, before = re.search(r"--mem (\d+)M would", said), peak
        figure = int(asked[1]) if asked else LEAST
        if asked: said, code, peak, cpu = call(figure)
        if code not in (0, 3): said = said.strip().splitlines()[-1][:120]
        ratio = peak / figure
        worst = max(worst, ratio)
        rows.append([name, command, f"{figure}M", f"{before:.0f}M" if asked else "not refused", f"{peak:.0f}M", f"{ratio:.2f}", f"{cpu:.1f}", "" if code in (0, 3) else said])
        print(*rows[-1], sep=" | ", flush=True)

    networks = {"mobilenet_v1": None, "squeezenet": None, "ocr": None, "MiniLM-like": minilm, "YOLO head": yolo}
    for name, make in networks.items():
        if a.only and name not in a.only.split(","): continue
        if make is None:
            n = next(iter(place.networks(name)))[1]
            model, data = n.model, ("--data", n.calibration, "--preprocess", n.preprocess, "--samples", a.samples)
        else:
            model, data = place.path(make.__name__ + ".onnx"), ("--data", f"synthetic:{a.samples}")
            make(model)
        kept = place.path("kept.plan.json")
        place.call("calibrate", model, *data, "--platform", "onnxruntime", "--fresh", "-o", kept)
        for command in COMMANDS:
            if a.commands and command not in a.commands.split(","): continue
            def call(mem):
                for f in ("t.plan.json", "t.stats", "w.plan.json", "out.onnx"):
                    if os.path.exists(place.path(f)): os.remove(place.path(f))
                shutil.rmtree(place.path("outputs"), ignore_errors=True)
                shutil.copy(kept, place.path("w.plan.json")); shutil.copy(kept.replace(".plan.json", ".stats"), place.path("w.stats"))
                return measure(place, commands(place, model, data, "w.plan.json")[command], mem, a.threads)
            row(name, command, call)
    model = {"stories15M": place.located("models/llm/stories15M.bin"), "110M": place.path("110M.bin")}
    for name, file in model.items():
        if a.only and name not in a.only.split(","): continue
        if name == "110M": place.call("bench", "checkpoint", "--shape", "110M", "--group-size", 0, "-o", file)
        for command, more in FITTING.items():
            if a.commands and command not in a.commands.split(","): continue
            def call(mem):
                for f in ("out.gguf", "out.gguf.fitting"):
                    if os.path.exists(place.path(f)): os.remove(place.path(f))
                return measure(place, ("export", file, "--format", "gguf", "--tokenizer", place.located("models/llm/tokenizer.bin"), *more, "--fit",
                                       place.located("data/text/tinystories_minigpt.txt"), "-o", "out.gguf"), mem, a.threads)
            row(name, command, call)
    table(["network", "command", "figure", "peak when refused", "peak with the figure", "ratio", "CPU s", "exit"], rows)
    print(f"Largest ratio: {worst:.2f}")
