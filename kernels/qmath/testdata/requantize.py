#!/usr/bin/env python3
"""Writes requantize.txt.gz: accumulators, scales and the code that every profile makes of them, computed with Python's
integers and fractions. float32 operations round exact results once. Needs nothing but Python."""
import gzip, math, random, struct
from fractions import Fraction as F

I32MIN, I32MAX = -2**31, 2**31 - 1


def f32(v):
    """The float32 nearest to the exact v, ties to even, as a Fraction (no subnormals, no overflow here)."""
    v = F(v)
    if v == 0:
        return v
    e = math.frexp(float(abs(v)))[1]
    while abs(v) >= F(2) ** e:
        e += 1
    while abs(v) < F(2) ** (e - 1):
        e -= 1
    ulp = F(2) ** (e - 24)
    return round(v / ulp) * ulp  # Python's round is half to even


def f64(v):
    return F(float(v))  # correctly rounded


def half_away(v):
    return math.floor(abs(v) + F(1, 2)) * (1 if v >= 0 else -1)


def half_up(v):
    return math.floor(v + F(1, 2))


def clamp(v, lo, hi):
    return max(lo, min(hi, v))


def wrap32(v):
    v &= 0xFFFFFFFF
    return v - 2**32 if v >> 31 else v


def significand(real):
    if real == 0:
        return 0, 0
    m, e = math.frexp(float(real))
    q = half_away(F(m) * 2**31)
    if q == 2**31:
        q, e = q // 2, e + 1
    return (0, 0) if e < -31 else (q, e)


def srdhm(a, b):
    if a == b == I32MIN:
        return I32MAX
    ab = a * b
    n = ab + (2**30 if ab >= 0 else 1 - 2**30)
    return abs(n) // 2**31 * (1 if n >= 0 else -1)


def rdpot(x, n):
    mask = 2**n - 1
    return (x >> n) + ((x & mask) > (mask >> 1) + (x < 0))


def tflite2(acc, q, e):
    return rdpot(srdhm(wrap32(acc << max(e, 0)), q), max(-e, 0))


def single(acc, q, e):
    return (acc * q + (1 << 30 - e)) >> (31 - e)


def tvm_upward(acc, q, e):
    if q != 2**30:
        return single(acc, q, e)
    k = e - 1
    return wrap32(acc << k) if k >= 0 else wrap32(acc + (1 << -k - 1)) >> -k


def tvm_nearest(acc, q, e):
    p = acc * q
    return (p + (1 << 30 - e) - (p < 0)) >> (31 - e)


def tvm_a64(acc, q, e):
    if e < 0:
        h = (acc * q + 2**30) >> 31
        return (h + (1 << -e - 1)) >> -e
    return (wrap32(acc << e) * q + 2**30) >> 31


def profiles(acc, x, w, y, bias, zp, lo, hi):
    """The codes in the order of NAMES. x, w, y and bias are Fractions of float32 numbers."""
    code = lambda v: clamp(v + zp, lo, hi)
    double = f64(f64(x * w) / y)  # the product of two float32 is exact in float64
    one = f32(f32(x * w) / y)
    q31, tvm, narrow = significand(double), significand(f64(f32(x * w) / y)), significand(one)
    v = f32(f32(acc) * one)
    onnx = f32(f32(f32(f32(acc) * f32(x * w)) + bias) / y)
    trt = f32(f32(f32(acc) * one) + f32(bias / y))
    d = f32(1 / f32(f32(1 / x) * f32(1 / w)))
    ncnn = f32(f32(f32(f32(acc) * d) + bias) * f32(1 / y))
    return [code(wrap32(tflite2(acc, *q31))), code(wrap32(single(acc, *q31))), code(wrap32(tvm_upward(acc, *tvm))), code(wrap32(tvm_nearest(acc, *tvm))),
            code(wrap32(tvm_a64(acc, *tvm))), code(round(v)), clamp(round(f32(v + zp)), lo, hi), code(wrap32(single(acc, *narrow))),
            clamp(half_away(ncnn) + zp, max(lo, -127), hi), code(round(onnx)), code(round(trt)), code(half_away(trt))]


NAMES = ["tflite2", "tflite1", "tvm-upward", "tvm-nearest", "tvm-a64", "ort", "onnx-ref", "rndnu", "ncnn", "onnx", "trt", "mnn"]
POW2 = ["pow2", "pow2-floor", "pow2-half-away", "pow2-half-even"]


def main():
    rng = random.Random(3)
    scale = lambda lo, hi: f32(2 ** rng.uniform(lo, hi))
    lines = []

    def line(names, acc, x, w, y, bias, zp, lo, hi, codes):
        hexes = " ".join(struct.pack(">f", float(v)).hex() for v in (x, w, y, bias))
        lines.append(f"{acc} {hexes} {zp} {lo} {hi} " + " ".join(f"{n}={c}" for n, c in zip(names, codes)))

    def add(acc, x, w, y, bias=F(0), zp=0, lo=-128, hi=127):
        line(NAMES, acc, x, w, y, bias, zp, lo, hi, profiles(acc, x, w, y, bias, zp, lo, hi))

    for s in (F(1, 4), F(1, 2), F(3, 4), f32(0.1), F(1), F(2), F(1, 1024)):  # ties
        for acc in list(range(-12, 13)) + [-1536, -512, 512, 1536]:
            for zp in (0, 1, -3):
                add(acc, s, F(1), F(1), zp=zp)
    for acc in (I32MIN, I32MIN + 1, I32MAX, I32MAX - 1, 1 << 24, (1 << 24) + 1, -(1 << 30)):  # extremes
        for s in (F(1, 2**20), f32(1e-7), f32(3e-9), F(1, 2**31), f32(0.3)):
            add(acc, s, F(1), F(1))
    for _ in range(1500):  # what layers have
        x, w = scale(-8, -2), scale(-12, -4)
        y = scale(-7, -1)
        top = float(y / (x * w)) * 140
        add(int(rng.uniform(-top, top)), x, w, y, f32(rng.uniform(-1, 1)), *rng.choice([(0, -128, 127), (-7, -128, 127), (0, -127, 127), (131, 0, 255), (3, 3, 255)]))
    for _ in range(400):  # close to a half, where two roundings go wrong
        s = scale(-10, -6)
        acc = round((rng.randint(-120, 120) + F(1, 2)) / s)
        add(acc, s, F(1), F(1))
    for _ in range(400):
        x, w, y = (F(2) ** rng.randint(-12, 0) for _ in range(3))
        s = x * w / y
        acc = rng.choice([rng.randint(-3000, 3000), math.floor((rng.randint(-100, 100) + F(1, 2)) / s)])
        codes = [clamp(r(acc * s) + 5, -128, 127) for r in (half_up, math.floor, half_away, round)]
        line(POW2, clamp(acc, I32MIN, I32MAX), x, w, y, F(0), 5, -128, 127, codes)
    with open("requantize.txt.gz", "wb") as raw, gzip.GzipFile("", "wb", 9, raw, mtime=0) as f:
        f.write(("\n".join(lines) + "\n").encode())
    print(len(lines), "lines")


if __name__ == "__main__":
    main()
