#!/usr/bin/env python3
"""Peak memory of commands on networks and language models that are larger than what they may take, under a limit of the system.

    memory.py FOLDER [--only NAME ...] [MEBIBYTES ...] > memory.md       default: 256 1024 4096

Models are made by weights.py from a seed and removed again; FOLDER has to be on a disk with twice the largest free. Each command runs with
--mem 256M in a cgroup of 256 MiB (versions 1 and 2; where none can be made, the table says so), its temporary files in FOLDER. Sizes
up to that are run once more without either, and what was written is compared. Every command gets the plan of calibrate. --only names the
commands to measure; calibrate is then run to have the plan. Needs numpy and onnx.
"""
import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import time

QWB = os.environ.get("QWB", "qwb")
MIB = 256
DATA = ["--data", "data"]
# Name, arguments, files it writes. What is printed with --json counts too, but for times.
NETWORK = (
    ("calibrate", ["calibrate", "m.onnx", *DATA, "--platform", "trt_int8", "-o", "m.plan.json"], ["m.plan.json", "m.stats"]),
    ("eval --mode sim", ["eval", "m.plan.json", *DATA, "--mode", "sim", "--json"], []),
    ("verify", ["verify", "m.plan.json", *DATA, "--json"], []),
    ("export", ["export", "m.plan.json", "-o", "out.onnx"], ["out.onnx"]),
    ("tune --method bias", ["tune", "m.plan.json", *DATA, "--method", "bias", "--force"], ["m.plan.json"]),
    ("tune --method range", ["tune", "m.plan.json", *DATA, "--method", "range", "--force"], ["m.plan.json"]),
    ("tune --method gptq", ["tune", "m.plan.json", *DATA, "--method", "gptq", "--force"], ["m.plan.json"]),
    ("analyze --layerwise", ["analyze", "m.plan.json", "--layerwise", *DATA, "--json"], []),  # last: quadratic in operators
)
CHECKPOINT = (
    ("export --format q80", ["export", ".", "--format", "q80", "-o", "out.bin"], ["out.bin"]),
    ("export --format gguf", ["export", ".", "--format", "gguf", "--weights", "q4_0", "--tokenizer", "none", "-o", "out.gguf"], ["out.gguf"]),
)
FIT = ["--format", "gguf", "--tokenizer", "tokenizer.bin", "--fit", "fit.txt", "-o", "out.gguf", "--weights", "q4_0", "--method"]
FITTING = (
    ("export --method importance", ["export", ".", *FIT, "importance", "--imatrix-out", "out.imatrix"], ["out.gguf", "out.imatrix"]),
    ("export --method gptq", ["export", ".", *FIT, "gptq"], ["out.gguf"]),
    ("export --method gptaq", ["export", ".", *FIT, "gptaq"], ["out.gguf"]),
    ("export --bpw 5", ["export", ".", *FIT[:-3], "--bpw", "5", "--method", "importance"], ["out.gguf"]),
)
KINDS = {"onnx": ("ONNX with external data", NETWORK), "checkpoint": ("A Llama checkpoint", CHECKPOINT),
         "fitting": ("A Llama checkpoint of the width of 110M, fitted to 16,384 tokens", FITTING)}


def group():
    """The cgroup to put processes into, None where it cannot be made."""
    for above, name, value in ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", MIB << 20), ("/sys/fs/cgroup", "memory.max", MIB << 20):
        path = f"{above}/qwb-growth-{os.getpid()}"
        try:
            os.mkdir(path)
            if os.path.exists(f"{path}/{name}"):
                with open(f"{path}/{name}", "w") as f:
                    f.write(str(value))
                return path
            os.rmdir(path)
        except OSError:
            pass
    return None


def run(args, limit=None):
    """Exit code, standard output, last line of standard error, peak MB, processor seconds and seconds of a command."""
    def enter():
        with open(f"{limit}/cgroup.procs", "w") as f:
            f.write(str(os.getpid()))
    begin = time.monotonic()
    with open("stdout", "wb") as out, open("stderr", "wb") as err:
        p = subprocess.Popen([QWB, *args], stdout=out, stderr=err, preexec_fn=enter if limit else None, env={**os.environ, "TMPDIR": os.getcwd()})
        _, status, used = os.wait4(p.pid, 0)
        p.returncode = os.waitstatus_to_exitcode(status)
    lines = open("stderr", errors="replace").read().strip().splitlines()
    return (p.returncode, open("stdout", "rb").read(), lines[-1] if lines else "", used.ru_maxrss / 1024, used.ru_utime + used.ru_stime,
            time.monotonic() - begin)


def digest(out, files):
    """Of what a command printed and wrote, without what differs from run to run."""
    h = hashlib.sha256()
    try:
        h.update(json.dumps(plain(json.loads(out)), sort_keys=True).encode())
    except ValueError:
        pass
    for name in files:
        with open(name, "rb") as f:
            for part in iter(lambda: f.read(1 << 20), b""):
                h.update(part)
    return h.hexdigest()


def plain(v):
    if isinstance(v, dict):
        return {k: plain(x) for k, x in v.items() if "seconds" not in k and k not in ("peak_rss_bytes", "warnings")}
    return [plain(x) for x in v] if isinstance(v, list) else v


def row(*cells):
    print("| " + " | ".join(str(c) for c in cells) + " |", flush=True)


def measure(commands, kind, size, limit, compare):
    """The rows of one model; compare says whether to run commands without limits too."""
    here = os.path.dirname(os.path.abspath(__file__))
    subprocess.run([sys.executable, f"{here}/weights.py", kind, str(size), "."], check=True)
    plan = None
    for name, args, files in commands:
        digests = []
        for bound in (False, True) if compare else (True,):
            if name == "calibrate":
                for file in files:
                    if os.path.exists(file):
                        os.remove(file)
            elif plan:
                with open("m.plan.json", "wb") as f:
                    f.write(plan)
            code, out, last, peak, cpu, wall = run([*args, "--mem", f"{MIB}M"] if bound and kind == "onnx" else args, limit if bound else None)
            digests.append(digest(out, files) if code in (0, 3) else None)
            if not bound:
                free = peak
        if name == "calibrate":
            plan = open("m.plan.json", "rb").read()
        result = "done" if code in (0, 3) else f"ended with {code}: {last}"
        if compare and code in (0, 3):
            result = ("the same bytes" if digests[0] == digests[1] else "OTHER BYTES") + f" without limits, {free:.0f} MB"
        row(name, size, f"{peak:.0f}", f"{cpu:.1f}", f"{wall:.0f}", result)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("sizes", type=int, nargs="*", default=[256, 1024, 4096])
    parser.add_argument("--only", action="append")
    args = parser.parse_intermixed_args()
    folder = os.path.abspath(args.folder)
    limit = group()
    print(f"# Memory\n\n`memory.py`, {MIB} MiB of memory, " + ("under a limit of the system." if limit else "WITHOUT a limit of the system."))
    try:
        for kind, (title, commands) in KINDS.items():
            commands = [c for c in commands if not args.only or c[0] in args.only or c[0] == "calibrate"]
            if not commands:
                continue
            print(f"\n## {title}\n")
            row("command", "MiB of weights", "peak RSS, MB", "CPU s", "s", "result")
            row(*["---"] * 6)
            for size in args.sizes:
                place = f"{folder}/{kind}{size}"
                os.makedirs(place, exist_ok=True)
                os.chdir(place)
                measure(commands, kind, size, limit, size <= MIB)
                os.chdir(folder)
                shutil.rmtree(place)
    finally:
        if limit:
            os.rmdir(limit)


if __name__ == "__main__":
    main()
