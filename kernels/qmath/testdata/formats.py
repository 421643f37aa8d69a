"""Records what other implementations make of our numbers, format by format, for TestFormatsAreThoseOfOthers.

    pip install ml_dtypes numpy onnx onnxruntime gguf "mlx[cpu]" torch torchao compressed-tensors bitsandbytes nvidia-modelopt
    git clone https://github.com/microsoft/microxcaling && PYTHONPATH=microxcaling python formats.py

Writes formats.json.gz: the inputs, and for every source the codes (one byte each, E2M1 and NF4 not packed) or, where it gives no codes,
the numbers with or without their scale, and the codes of the scales of blocks. Inputs: every number of a format, the middles between neighbours with the float32 before and behind,
numbers beyond the ends, both zeros, subnormals; blocks of normal numbers at many magnitudes, of zeros, of ties, with powers of two as the
largest magnitude and the float32 beside them.
"""
import base64, gzip, importlib.metadata as meta, json
import numpy as np, ml_dtypes as md, torch, onnx
from onnx import TensorProto as T, helper as h

B64 = lambda a: base64.b64encode(np.ascontiguousarray(a).tobytes()).decode()
cases, inputs = [], []


def add(fmt, blocks, x, name, version=None, **results):
    x = B64(x.astype(np.float32))
    if x not in inputs:
        inputs.append(x)
    cases.append({"format": fmt, "blocks": blocks, "source": name + " " + (version or meta.version(name)), "input": inputs.index(x),
                  **{k: B64(v) for k, v in results.items()}})


def around(numbers):
    """Sorted finite numbers -> them, the middles, neighbours of both, and numbers beyond."""
    n = np.unique(np.asarray(numbers, np.float64))
    mid = ((n[:-1] + n[1:]) / 2).astype(np.float32)
    x = np.concatenate([n.astype(np.float32), mid])
    big = np.float32(abs(n).max())
    x = np.concatenate([x, np.nextafter(x, np.float32(np.inf)), np.nextafter(x, np.float32(-np.inf)),
                        big * np.float32([1.03, 1.0625, 1.125, 2, 1e6, -1.03, -1.125, -2, -1e6]), np.float32([0.0, -0.0, 1e-30, -1e-30, 1e-42])])
    return x.astype(np.float32)


def runtime(x, dtype, opset, scale=1.0):
    """QuantizeLinear of ONNX Runtime; codes one per byte."""
    import onnxruntime as ort
    npt = {T.FLOAT8E4M3FN: md.float8_e4m3fn, T.FLOAT8E5M2: md.float8_e5m2, T.INT4: md.int4}[dtype]
    init = [onnx.numpy_helper.from_array(np.float32(scale), "s"), onnx.numpy_helper.from_array(np.zeros((), npt), "z")]
    nodes = [h.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]), h.make_node("Cast", ["q"], ["y"], to=T.FLOAT)]
    g = h.make_graph(nodes, "g", [h.make_tensor_value_info("x", T.FLOAT, x.shape)], [h.make_tensor_value_info("y", T.FLOAT, x.shape)], init)
    m = h.make_model(g, opset_imports=[h.make_opsetid("", opset)], ir_version=10)
    return ort.InferenceSession(m.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]


def numbers():
    for fmt, d, t, o, big in (("e4m3", md.float8_e4m3fn, torch.float8_e4m3fn, T.FLOAT8E4M3FN, 448), ("e5m2", md.float8_e5m2, torch.float8_e5m2, T.FLOAT8E5M2, 57344)):
        all = np.arange(256, dtype=np.uint8).view(d).astype(np.float32)
        x = around(all[np.isfinite(all)])
        held = np.clip(x, -big, big)
        add(fmt, "", x, "ml_dtypes", codes=held.astype(d).view(np.uint8))
        add(fmt, "", x, "torch", codes=torch.from_numpy(held).to(t).view(torch.uint8).numpy())
        add(fmt, "", x, "onnxruntime", codes=runtime(x, o, 19).astype(d).view(np.uint8))
    all = np.arange(16, dtype=np.uint8).view(md.float4_e2m1fn).astype(np.float32)
    x = around(all)
    add("e2m1", "", x, "ml_dtypes", codes=x.astype(md.float4_e2m1fn).view(np.uint8))
    from torchao.prototype.mx_formats.kernels import f32_to_f4_unpacked
    add("e2m1", "", x, "torchao", codes=f32_to_f4_unpacked(torch.from_numpy(x)).numpy())
    from compressed_tensors.quantization.quant_args import FP4_E2M1_DATA
    add("e2m1", "", x, "compressed-tensors", numbers=FP4_E2M1_DATA.cast_to_fp4(torch.from_numpy(x.copy())).numpy())
    i4 = around(np.arange(-8, 8))
    add("int4", "", i4, "onnxruntime", numbers=runtime(i4, T.INT4, 21))
    from onnx.reference import ReferenceEvaluator
    g = h.make_graph([h.make_node("QuantizeLinear", ["x", "s"], ["q"], output_dtype=T.INT4), h.make_node("Cast", ["q"], ["y"], to=T.FLOAT)], "g",
                     [h.make_tensor_value_info("x", T.FLOAT, i4.shape)], [h.make_tensor_value_info("y", T.FLOAT, i4.shape)],
                     [onnx.numpy_helper.from_array(np.float32(1), "s")])
    y = ReferenceEvaluator(h.make_model(g, opset_imports=[h.make_opsetid("", 21)], ir_version=10)).run(None, {"x": i4})[0]
    add("int4", "", i4, "onnx", numbers=np.asarray(y, np.float32))
    normal_float()


def normal_float():
    """NF4: blocks of 64 whose largest magnitude is 1, so that scales are exact."""
    import bitsandbytes.functional as bf
    from torchao.quantization.quantize_.workflows.nf4.nf4_tensor import NF4Tensor
    book = bf.get_4bit_type("nf4", device="cpu").numpy()
    x = around(book)
    x = x[abs(x) <= 1]
    x = np.concatenate([np.concatenate([x, np.zeros(-len(x) % 63, np.float32)]).reshape(-1, 63), np.ones((-(-len(x) // 63), 1), np.float32)], 1)
    q, state = bf.quantize_4bit(torch.from_numpy(x.reshape(-1)), blocksize=64, quant_type="nf4", compress_statistics=False)
    q = q.numpy().reshape(-1)
    add("nf4", "", x.reshape(-1), "bitsandbytes", codes=np.stack([q >> 4, q & 15], 1).reshape(-1).astype(np.uint8))
    ao = NF4Tensor.convert_to_norm_float_weight  # gives packed nibbles, high first
    t = torch.from_numpy(x.reshape(-1))
    table = torch.tensor(book)
    p = ao(t, x.shape[0], 64, table).numpy().reshape(-1)
    add("nf4", "", x.reshape(-1), "torchao", codes=np.stack([p >> 4, p & 15], 1).reshape(-1).astype(np.uint8))


def sample(rng, n, size):
    """n blocks; the first ones are special."""
    x = rng.normal(size=(n, size)) * 2.0 ** rng.integers(-12, 12, size=(n, 1))
    x[0] = 0
    x[1] = -0.0
    for i, top in enumerate([1, 4, 6, 7, 7.5, 448, 480, 496, 256, 2.0 ** -20, 1.5, 1.75]):
        for k, v in enumerate([np.float32(top), np.nextafter(np.float32(top), np.float32(0)), np.nextafter(np.float32(top), np.float32(1e9))]):
            row = 2 + 3 * i + k
            x[row] *= 0.9 * float(v) / abs(x[row]).max()
            x[row, (7 * row) % size] = float(v) * (-1) ** k
    x[40] = np.resize([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5, 6, -0.25, -0.75, -1.25, -1.75, -2.5, -3.5, -5, -0.0], size)  # ties of E2M1 at scale 1
    x[41, 1:] *= 1e-9 / abs(x[41]).max()
    return x.astype(np.float32)


def micro():
    from torchao.prototype.mx_formats.config import ScaleCalculationMode as M
    from torchao.prototype.mx_formats.kernels import unpack_uint4
    from torchao.prototype.mx_formats.mx_tensor import to_mx
    from mx.mx_ops import _quantize_mx
    import gguf, mlx.core as mx
    mx.set_default_device(mx.cpu)
    x = sample(np.random.default_rng(15), 96, 32)
    for fmt, t, name in (("e2m1", torch.float4_e2m1fn_x2, "fp4_e2m1"), ("e4m3", torch.float8_e4m3fn, "fp8_e4m3"), ("e5m2", torch.float8_e5m2, "fp8_e5m2")):
        for blocks, mode in (("mx", M.FLOOR), ("mx-ceil", M.RCEIL)):
            s, q = to_mx(torch.from_numpy(x), t, 32, mode)
            q = unpack_uint4(q.view(torch.uint8)).reshape(x.shape) if fmt == "e2m1" else q.view(torch.uint8)
            add(fmt, blocks, x, "torchao", powers=s.view(torch.uint8).numpy(), codes=q.numpy())
        y = _quantize_mx(torch.from_numpy(x), 8, name, axes=[-1], block_size=32, round="even")
        add(fmt, "mx", x, "microxcaling", "7bc4195", numbers=y.numpy())
        if fmt != "e5m2":
            q, s = mx.quantize(mx.array(x), group_size=32, bits=4 if fmt == "e2m1" else 8, mode="mx" + ("fp4" if fmt == "e2m1" else "fp8"))
            q = np.array(q).view(np.uint8).reshape(len(x), -1)
            if fmt == "e2m1":
                q = np.stack([q & 15, q >> 4], -1).reshape(x.shape)
            add(fmt, "mx-ceil", x, "mlx", powers=np.array(s), codes=q)
    from modelopt.torch.quantization.qtensor import MXFP4QTensor
    q, s = MXFP4QTensor.quantize(torch.from_numpy(x), 32)
    q = q._quantized_data.numpy()
    add("e2m1", "mx-ceil", x, "nvidia-modelopt", powers=s.numpy().reshape(-1), codes=np.stack([q & 15, q >> 4], -1).reshape(x.shape))
    from modelopt.torch.quantization.qtensor import MXFP8QTensor
    q, s = MXFP8QTensor.quantize(torch.from_numpy(x))
    add("e4m3", "mx-ceil", x, "nvidia-modelopt", powers=s.numpy().reshape(-1), codes=q._quantized_data.view(torch.uint8).numpy())
    packed = gguf.quants.MXFP4.quantize_blocks(x.copy())
    q = packed[:, 1:]
    add("e2m1", "mx", x, "gguf", powers=packed[:, 0], codes=np.concatenate([q & 15, q >> 4], 1))


def nv():
    from torchao.prototype.mx_formats.kernels import unpack_uint4
    from torchao.prototype.mx_formats.nvfp4_tensor import nvfp4_quantize, per_tensor_amax_to_scale
    from compressed_tensors.quantization import QuantizationArgs
    from compressed_tensors.quantization.lifecycle.forward import quantize
    from compressed_tensors.quantization.utils import calculate_qparams, generate_gparam
    import mlx.core as mx
    mx.set_default_device(mx.cpu)
    for seed, scale in ((16, 1.0), (17, 3e-5), (18, 1e4)):
        x = (sample(np.random.default_rng(seed), 96, 16) * np.float32(scale)).astype(np.float32)
        t = torch.from_numpy(x)
        g = per_tensor_amax_to_scale(t.abs().max())
        s, q = nvfp4_quantize(t, per_tensor_scale=g)
        q = unpack_uint4(q).reshape(x.shape)
        add("e2m1", "nv", x, "torchao", powers=s.view(torch.uint8).numpy().reshape(-1), codes=q.numpy(), total=np.float32([g]))
        args = QuantizationArgs(num_bits=4, type="float", strategy="tensor_group", group_size=16, scale_dtype=torch.float8_e4m3fn, zp_dtype=torch.float8_e4m3fn)
        g = generate_gparam(t.min(), t.max())
        s, z = calculate_qparams(t.amin(1), t.amax(1), args, global_scale=g)
        y = quantize(t, s.reshape(-1, 1).float(), z.reshape(-1, 1).float(), args, global_scale=g)
        add("e2m1", "nv", x, "compressed-tensors", powers=s.to(torch.float8_e4m3fn).view(torch.uint8).numpy().reshape(-1),
            elements=y.float().numpy(), total=(1 / g).numpy())
    q, s = mx.quantize(mx.array(x), group_size=16, bits=4, mode="nvfp4")
    q = np.array(q).view(np.uint8).reshape(len(x), -1)
    add("e2m1", "nv", x, "mlx", powers=np.array(s).reshape(-1), codes=np.stack([q & 15, q >> 4], -1).reshape(x.shape), total=np.float32([1]))


numbers()
micro()
nv()
text = json.dumps({"inputs": inputs, "cases": cases}, separators=(",", ":"))
with open("formats.json.gz", "wb") as raw, gzip.GzipFile("", "wb", 9, raw, mtime=0) as f:
    f.write(text.encode())
print(len(cases), "cases of", sorted({c["source"] for c in cases}))
