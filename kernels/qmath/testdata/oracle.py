"""What ort.py and tflite.py share: the inputs both sides make for themselves, and the file of cases.

A case names an operator with its parameters and holds the codes that the runtime answered. Its inputs are not stored: codes
come from a linear congruential generator that the Go test has too.
"""
import base64, gzip, json
import numpy as np


def codes(seed, n, signed):
    out = np.empty(n, np.uint8)
    state = seed
    for i in range(n):
        state = (state * 1103515245 + 12345) % 2**31
        out[i] = state >> 16 & 255
    return out.view(np.int8) if signed else out


def encode(y):
    return base64.b64encode(np.ascontiguousarray(y).tobytes()).decode()


def scale(rng, lo, hi):
    """A float32 between 2^lo and 2^hi, log-uniform, as a Python float."""
    return float(np.float32(2.0 ** rng.uniform(lo, hi)))


def write(name, runtime, cases):
    text = json.dumps({"runtime": runtime, "cases": cases}, separators=(",", ":"))
    with open(name, "wb") as raw, gzip.GzipFile("", "wb", 9, raw, mtime=0) as f:
        f.write(text.encode())
    print(name, len(cases), "cases")
