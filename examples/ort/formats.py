"""Hold engines to the models that `go run ./examples/ort/formats DIR` wrote, one for every number format and granularity.

    python formats.py DIR [PART OF A NAME]     needs numpy, onnx, onnxruntime, openvino

Prints a table: by case the opset, and for every engine the largest difference to qwb's simulation relative to the largest output, "no" where
it does not open the file, with the reason below. ONNX Runtime runs with its optimizations on, and once more (exact) with products of
dequantized weights in float32: by default it quantizes the activations of MatMul behind a DequantizeLinear of 2, 4 or 8 bits to int8 on its own
(session.qdq_matmulnbits_accuracy_level is 4). OpenVINO runs in float32 without its dynamic quantization.
"""
import json, os, sys, warnings
import numpy as np

warnings.filterwarnings("ignore")
import onnx, onnxruntime as ort, openvino as ov
from onnx.reference import ReferenceEvaluator

def runtime(path, x, level):
    o = ort.SessionOptions()
    o.log_severity_level = 4
    if level:
        o.add_session_config_entry("session.qdq_matmulnbits_accuracy_level", level)
    return ort.InferenceSession(path, o, providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]


def openvino(path, x):
    core = ov.Core()
    m = core.compile_model(core.read_model(path), "CPU", {"INFERENCE_PRECISION_HINT": "f32", "DYNAMIC_QUANTIZATION_GROUP_SIZE": "0"})
    return list(m([x]).values())[0]


engines = {"ONNX Runtime": lambda p, x: runtime(p, x, None), "exact": lambda p, x: runtime(p, x, "1"), "OpenVINO": openvino,
           "onnx.reference": lambda p, x: ReferenceEvaluator(p).run(None, {"x": x})[0]}
reasons = {}


def attempt(name, path, x, want):
    """Runs in a process of its own, which some files end."""
    back, to = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            y = np.asarray(engines[name](path, x), np.float32)
            text = f"{np.abs(y - want).max() / np.abs(want).max():.0e}"
        except Exception as e:
            text = "no " + " ".join(str(e).split())[:160]
        os.write(to, text.encode())
        os._exit(0)
    os.close(to)
    with os.fdopen(back) as f:
        text = f.read()
    _, status = os.waitpid(child, 0)
    if status != 0:
        text = f"no the process ends with signal {status & 127}"
    if text.startswith("no "):
        reasons.setdefault((name, text[3:]), []).append(os.path.basename(path))
        return "no"
    return text


def main(folder, only=""):
    print(f"onnxruntime {ort.__version__}, openvino {ov.__version__.split('-')[0]}, onnx {onnx.__version__}\n")
    print("| operator | weight | activation | scales | opset | IR |", " | ".join(engines), "|\n|" + "---|" * (6 + len(engines)))
    for c in json.load(open(os.path.join(folder, "cases.json"))):
        path = os.path.join(folder, c["Name"] + ".onnx")
        if only not in c["Name"]:
            continue
        m = onnx.load(path)
        onnx.checker.check_model(m, full_check=True)
        x = np.float32(c["Input"]).reshape(c["Shape"])
        want = np.float32(c["Output"])
        cells = [attempt(e, path, x, want.reshape(5, 24) if c["Op"] == "MatMul" else want.reshape(1, 24, 6, 6)) for e in engines]
        print("|", c["Op"], "|", c["Weight"] or "float", "|", c["Activation"] or "float", "|", c["Powers"], "|", c["Opset"], "|", m.ir_version, "|",
              " | ".join(cells), "|", flush=True)
    print()
    for (name, reason), files in reasons.items():
        print(f"{name}, {len(files)} files, the first is {files[0]}: {reason}")


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    main(*sys.argv[1:])
