"""Writes written.bin: blocks of float32, and what ggml's own quantizers (llama-cpp-python 0.3.36, built without FMA) make of them, type after type."""
import ctypes, glob, os, sys
import numpy as np
os.chdir(os.path.dirname(os.path.abspath(__file__)))
lib = ctypes.CDLL(glob.glob(os.path.join(sys.prefix, "lib/python3*/site-packages/llama_cpp/lib/libggml-base.so"))[0])
r = np.random.default_rng(5)
normal = lambda s=1: r.standard_normal(256) * s
rows = [np.zeros(256), normal(), r.standard_t(3, 256) * 0.02, np.abs(normal(3)), -np.abs(normal(1e-3)), np.round(normal(4)) / 8,
        np.where(r.random(256) < 0.7, 0, normal()), np.where(np.arange(256) // 16 % 3 == 0, 0, normal(0.1)), normal() + 5, np.full(256, -0.3),
        normal(3e-7), normal() * np.repeat(10.0 ** r.uniform(-3, 1, 8), 32)]
x = np.array(rows, np.float32)
types = [("q4_1", 20, 32), ("q5_0", 22, 32), ("q5_1", 24, 32), ("q2_K", 84, 256), ("q3_K", 110, 256), ("q4_K", 144, 256), ("q5_K", 176, 256),
         ("q6_K", 210, 256), ("iq4_nl", 18, 32), ("iq4_xs", 136, 256)]
with open("written.bin", "wb") as f:
    f.write(x.tobytes())
    for name, size, elements in types:
        out = np.zeros(x.size // elements * size, np.uint8)
        call = getattr(lib, "quantize_" + name)
        call.restype, call.argtypes = ctypes.c_size_t, [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p]
        assert call(x.ctypes.data, out.ctypes.data, len(rows), 256, None) == out.size
        f.write(out.tobytes())
