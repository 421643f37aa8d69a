"""Writes packed/NAME: tiny checkpoints with quantized weights in the layouts of GPTQ, AWQ, compressed-tensors and Model Optimizer, and
packed/expected.json: the SHA-256 of what the tools' own code makes of every matrix in float32. Versions: compressed-tensors 0.20.1,
gptqmodel 7.7.0, nvidia-modelopt 0.47.0, autoawq 0.2.9 (its awq/utils/packing_utils.py is the argument)."""
import functools, hashlib, importlib.util, json, os, shutil, sys
import numpy as np, torch
from safetensors.torch import save_file
from compressed_tensors.compressors import BaseCompressor
from compressed_tensors.compressors.nvfp4 import base as nvfp4
from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
from gptqmodel.nn_modules.qlinear.torch import TorchLinear
from modelopt.torch.export.quant_utils import to_quantized_weight
from modelopt.torch.quantization.qtensor import MXFP8QTensor, NVFP4QTensor

nvfp4.unpack_fp4_from_uint8 = functools.partial(nvfp4.unpack_fp4_from_uint8, dtype=torch.float32)  # bfloat16 if nothing is said
spec = importlib.util.spec_from_file_location("awq_packing", sys.argv[1])
awq = importlib.util.module_from_spec(spec)
spec.loader.exec_module(awq)
os.chdir(os.path.dirname(os.path.abspath(__file__)))
dim, hidden, vocab, kv = 32, 64, 8, 32
shapes = {"self_attn.q_proj": (dim, dim), "self_attn.k_proj": (kv, dim), "self_attn.v_proj": (kv, dim), "self_attn.o_proj": (dim, dim),
          "mlp.gate_proj": (hidden, dim), "mlp.up_proj": (hidden, dim), "mlp.down_proj": (dim, hidden)}
config = dict(architectures=["LlamaForCausalLM"], model_type="llama", hidden_size=dim, intermediate_size=hidden, num_hidden_layers=1,
              num_attention_heads=4, num_key_value_heads=4, vocab_size=vocab, max_position_embeddings=16, rms_norm_eps=1e-6,
              hidden_act="silu", tie_word_embeddings=True, bos_token_id=1, eos_token_id=2)
random = torch.Generator().manual_seed(3)
rand = lambda *n: torch.randn(*n, generator=random)
ints = lambda low, high, n: torch.randint(low, high, n, generator=random)

def pack(x, bits):
    """Numbers along the last axis as one stream of bits in int32 words."""
    x = x.numpy().astype(np.uint8)
    b = np.unpackbits(x[..., None], axis=-1, count=bits, bitorder="little").reshape(*x.shape[:-1], -1)
    b = np.pad(b, [(0, 0)] * (b.ndim - 1) + [(0, -b.shape[-1] % 32)])
    return torch.from_numpy(np.ascontiguousarray(np.packbits(b, axis=-1, bitorder="little")).view(np.int32).copy())

def gptq(bits, group, v1, order=False):
    def one(rows, cols):
        g = group if group > 0 else cols
        groups = (cols + g - 1) // g
        codes, zeros = ints(0, 2**bits, (cols, rows)), ints(1 if v1 else 0, 2**bits, (groups, rows))
        index = torch.arange(cols) // g
        if order:
            index = index[torch.randperm(cols, generator=random)]
        scales = (rand(groups, rows).abs() * 0.1 + 0.01).half()
        m = TorchLinear(bits=bits, group_size=group, sym=False, desc_act=order, in_features=cols, out_features=rows, bias=False,
                        pack_dtype=torch.int32, register_buffers=True)
        m.qweight, m.qzeros = pack(codes.T, bits).T.contiguous(), pack(zeros, bits)
        m.scales, m.g_idx = scales.float(), index.int()
        m.post_init()
        arrays = dict(qweight=pack(codes.T, bits).T.contiguous(), qzeros=pack(zeros - 1 if v1 else zeros, bits), scales=scales,
                      g_idx=index.int(), bias=torch.zeros(rows, dtype=torch.float16))
        return arrays, m.dequantize_weight().T
    return one, dict(quant_method="gptq", bits=bits, group_size=group, desc_act=order, sym=False,
                     checkpoint_format="gptq" if v1 else "gptq_v2")

def awq_gemm():
    def one(rows, cols):
        q, z = (ints(-2**31, 2**31, (n, rows // 8)).int() for n in (cols, cols // 16))
        scales = (rand(cols // 16, rows).abs() * 0.1 + 0.01).half()
        return dict(qweight=q, qzeros=z, scales=scales), awq.dequantize_gemm(q, z, scales.float(), 4, 16).T
    return one, dict(quant_method="awq", bits=4, group_size=16, zero_point=True, version="gemm")

def ct(form, args, inputs=None, dtype=torch.bfloat16):
    args = QuantizationArgs(**args)
    scheme = QuantizationScheme(targets=["Linear"], weights=args, input_activations=inputs and QuantizationArgs(**inputs), format=form)
    def one(rows, cols):
        group = {"tensor": rows * cols, "channel": cols, "block": 0}.get(str(args.strategy), args.group_size)
        down, along = rows if str(args.strategy) == "tensor" else 1, min(group, cols)
        if str(args.strategy) == "block":
            down, along = args.block_structure
        w = rand(rows, cols) * 0.3
        most = w.abs().reshape(rows // down, down, cols // along, along).amax((1, 3))
        state = dict(weight=w)
        top = 448.0 if args.num_bits == 8 else 6.0
        if form.startswith("mxfp"):
            scale = 2.0 ** torch.ceil(torch.log2(most / top))
        elif form == "nvfp4-pack-quantized":
            state["weight_global_scale"] = torch.tensor([2688.0]) / w.abs().max()
            scale = (state["weight_global_scale"] * most / 6).to(torch.float8_e4m3fn).float()
        else:
            largest = 448.0 if str(args.type) == "float" else 2 ** (args.num_bits - 1) - 1
            scale = (most / largest * (1 if args.symmetric else 0.5)).to(dtype).float()
        if str(args.strategy) == "tensor":
            scale = scale.reshape(1)
        state["weight_scale"] = scale
        if not args.symmetric:
            state["weight_zero_point"] = ints(-2 ** (args.num_bits - 1), 2 ** (args.num_bits - 1), scale.shape).to(torch.int8)
        c = BaseCompressor.get_value_from_registry(form)
        out = c.compress(state, scheme)
        for key, v in out.items():
            if key == "weight_scale" and v.dtype == torch.float32:
                out[key] = v.to(dtype)
        back = dict(out)
        if out["weight_scale"].dtype in (torch.bfloat16, torch.float16):
            back["weight_scale"] = out["weight_scale"].float()
        return out, c.decompress(back, scheme)["weight"]
    return one, dict(quant_method="compressed-tensors", format=form, ignore=["lm_head"],
                     config_groups=dict(group_0=json.loads(scheme.model_dump_json())))

def modelopt(algo):
    def one(rows, cols):
        w = rand(rows, cols) * 0.3
        if algo == "NVFP4":
            second = NVFP4QTensor.get_weights_scaling_factor_2(w)
            scale, _ = NVFP4QTensor.get_weights_scaling_factor(w, 16, second)
            q = NVFP4QTensor.quantize(w, 16, scale, second)[0]
            arrays = dict(weight=q._quantized_data, weight_scale=scale, weight_scale_2=second, input_scale=torch.tensor(0.01))
            return arrays, q.dequantize(torch.float32, scale=scale, double_scale=second, block_sizes={-1: 16})
        if algo == "MXFP8":
            scale = MXFP8QTensor.get_weights_scaling_factor(w)
            q = to_quantized_weight(w, scale, "mxfp8")
            t = MXFP8QTensor(w.shape, torch.float32, q)
            return dict(weight=q, weight_scale=scale), t.dequantize(torch.float32, scale=scale)
        scale = w.abs().max() / 448
        q = to_quantized_weight(w, scale, "fp8")
        return dict(weight=q, weight_scale=scale), q.float() * scale
    return one, dict(quantization=dict(quant_algo=algo, group_size=32 if algo == "MXFP8" else 16, exclude_modules=["lm_head"]))

def int8(**more):
    return dict(num_bits=8, type="int", symmetric=True) | more

fp8_tokens = dict(num_bits=8, type="float", strategy="token", dynamic=True, symmetric=True)
int8_tokens = dict(num_bits=8, type="int", strategy="token", dynamic=True, symmetric=True)
w4 = dict(num_bits=4, type="int", symmetric=True, strategy="group", group_size=16)
models = {
    "gptq-4": gptq(4, 16, True), "gptq-3-order": gptq(3, 16, True, True), "gptq_v2-2": gptq(2, 32, False), "gptq_v2-8": gptq(8, -1, False),
    "awq": awq_gemm(),
    "ct-w4a16": ct("pack-quantized", w4), "ct-w4a16-asym": ct("pack-quantized", w4 | dict(symmetric=False), dtype=torch.float16),
    "ct-w3": ct("pack-quantized", w4 | dict(num_bits=3)), "ct-w8-channel": ct("pack-quantized", int8(strategy="channel")),
    "ct-w8a8": ct("int-quantized", int8(strategy="channel"), int8_tokens),
    "ct-fp8": ct("float-quantized", dict(num_bits=8, type="float", symmetric=True, strategy="tensor")),
    "ct-fp8-dynamic": ct("float-quantized", dict(num_bits=8, type="float", symmetric=True, strategy="channel"), fp8_tokens),
    "ct-fp8-block": ct("float-quantized", dict(num_bits=8, type="float", symmetric=True, strategy="block", block_structure=[16, 16])),
    "ct-nvfp4": ct("nvfp4-pack-quantized", dict(num_bits=4, type="float", symmetric=True, strategy="tensor_group", group_size=16)),
    "ct-mxfp4": ct("mxfp4-pack-quantized", dict(num_bits=4, type="float", symmetric=True, strategy="group", group_size=32,
                                             scale_dtype="torch.uint8")),
    "modelopt-nvfp4": modelopt("NVFP4"), "modelopt-mxfp8": modelopt("MXFP8"), "modelopt-fp8": modelopt("FP8"),
}
shutil.rmtree("packed", ignore_errors=True)
expected = {}
for name, (one, quantization) in models.items():
    arrays = {"model.embed_tokens.weight": rand(vocab, dim).half(), "model.norm.weight": torch.ones(dim).half(),
              "model.layers.0.input_layernorm.weight": torch.ones(dim).half(),
              "model.layers.0.post_attention_layernorm.weight": torch.ones(dim).half()}
    expected[name] = {}
    for module, (rows, cols) in shapes.items():
        module = "model.layers.0." + module
        parts, want = one(rows, cols)
        arrays.update({f"{module}.{k}": v.contiguous() for k, v in parts.items()})
        want = want.detach().float().contiguous().numpy() + np.float32(0)  # a zero has no sign
        assert want.shape == (rows, cols)
        expected[name][module + ".weight"] = hashlib.sha256(want.tobytes()).hexdigest()
    os.makedirs("packed/" + name)
    save_file(arrays, f"packed/{name}/model.safetensors")
    more = {} if "quantization" in quantization else dict(quantization_config=quantization)
    json.dump(config | more, open(f"packed/{name}/config.json", "w"))
    if not more:
        json.dump(quantization, open(f"packed/{name}/hf_quant_config.json", "w"))
json.dump(expected, open("packed/expected.json", "w"), indent=1)
