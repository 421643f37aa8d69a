"""Writes blocks.json: random blocks of ggml's types in base64, and what gguf-py (0.19 was used) says that they stand for."""
import base64, json, os
import numpy as np
from gguf import GGMLQuantizationType as T, quants
os.chdir(os.path.dirname(os.path.abspath(__file__)))
r = np.random.default_rng(3)
# type: bytes of a block, where half-precision numbers lie
types = {"Q4_1": (20, 0, 2), "Q5_0": (22, 0), "Q5_1": (24, 0, 2), "Q2_K": (84, 80, 82), "Q3_K": (110, 108), "Q4_K": (144, 0, 2),
         "Q5_K": (176, 0, 2), "Q6_K": (210, 208), "IQ4_NL": (18, 0), "IQ4_XS": (136, 0)}
out = {}
for name, (size, *halves) in types.items():
    b = r.integers(0, 256, (3, size), dtype=np.uint8)
    for at in halves:
        b[:, at:at + 2] = (r.standard_normal(3) * 0.05).astype("<f2").view(np.uint8).reshape(3, 2)
    x = quants.dequantize(b.reshape(1, -1), T[name])
    out[name] = dict(number=int(T[name]), blocks=base64.b64encode(b.tobytes()).decode(), floats=base64.b64encode(x.astype("<f4").tobytes()).decode())
# Blocks without numbers in half precision; ggml takes their scales for what they are without signs.
for name, size, scales in ("MXFP4", 17, 1), ("NVFP4", 36, 4):
    b = r.integers(0, 256, (3, size), dtype=np.uint8)
    b[:, :scales] = r.integers(1, 126, (3, scales)) if scales > 1 else [[0], [1], [140]]
    x = quants.dequantize(b.reshape(1, -1), T[name])
    out[name] = dict(number=int(T[name]), blocks=base64.b64encode(b.tobytes()).decode(), floats=base64.b64encode(x.astype("<f4").tobytes()).decode())
json.dump(out, open("blocks.json", "w"), indent=0)
