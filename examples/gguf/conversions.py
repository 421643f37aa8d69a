"""Writes a table of conversions between types of quantized checkpoints: which are equal, tensor by tensor and bit for bit, and what the others
lose when they are quantized once more.

    python conversions.py QWB MODEL TOKENIZER FOLDER > conversions.md

Sources are MODEL by rtn in each form; a file that is in FOLDER already is not made again. The figure of what is lost is the mean over the
tensors that are not held of the root of squared errors over squares."""
import json, os, subprocess, sys

QWB, MODEL, TOKENIZER, FOLDER = sys.argv[1:5]
SOURCES = [("gguf", "q8_0"), ("gguf", "q4_0"), ("gguf", "q5_0"), ("gguf", "iq4_nl"), ("gguf", "q4_1"), ("q80", None),
           ("compressed-tensors", "w4a16"), ("compressed-tensors", "w8a16"), ("compressed-tensors", "fp8_dynamic"), ("gptq", "int4_asym"),
           ("gptq", "int8"), ("awq", "int4_asym")]
TARGETS = [("gguf", "q8_0"), ("gguf", "q4_0"), ("q80", None), ("compressed-tensors", "w4a16"), ("compressed-tensors", "w4a16_asym"),
           ("gptq", "int4"), ("gptq_v2", "int4_asym"), ("gptq", "int8"), ("awq", "int4_asym"), ("gguf", "f16")]


def export(source, form, out, *more):
    name, weights = form
    tokens = ["--tokenizer", TOKENIZER if source == MODEL else "none"] if name == "gguf" else []
    return subprocess.run([QWB, "export", source, "--format", name, *(["--weights", weights] if weights else []), *tokens, *more, "-o", out,
                           "--json", "--threads", "1"], capture_output=True, text=True)


def cell(source, form):
    out = os.path.join(FOLDER, "out-" + form[0])
    r = export(source, form, out)
    if r.returncode == 0:
        v = json.loads(r.stdout)["verification"]
        return f"equal ({v['weights'].get('equal_tensors', 0)})"
    r = export(source, form, out, "--requantize", "yes")
    if r.returncode:
        return r.stderr.strip().splitlines()[-1][:80]
    lost = json.loads(r.stdout)["verification"]["weights"].get("requantized", [])
    return f"{sum(t['error'] for t in lost) / max(1, len(lost)):.2g}"


name = lambda form: " ".join(x for x in form if x)
print("| from | " + " | ".join(map(name, TARGETS)) + " |\n|---" + "|---" * len(TARGETS) + "|")
for form in SOURCES:
    path = os.path.join(FOLDER, "-".join(x for x in form if x) + (".gguf" if form[0] == "gguf" else ""))
    if not os.path.exists(path):
        export(MODEL, form, path)
    print(f"| {name(form)} | " + " | ".join(cell(path, t) for t in TARGETS) + " |", flush=True)
