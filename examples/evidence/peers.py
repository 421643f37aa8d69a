#!/usr/bin/env python3
"""Quantizes a float model with another tool: peers.py PEER COLUMN MODEL INPUTS OUT

INPUTS is a folder of npy files, one per sample; OUT the file to write. Columns are those of repair.py. What a peer cannot do raises.
Needs: pip install nncf onnxruntime onnx numpy; PPQ (ppq or esp-ppq, torch) in an environment of its own.
"""
import glob, sys
import numpy as np
import onnx

peer, column, model, folder, out = sys.argv[1:]
samples = [np.load(f) for f in sorted(glob.glob(folder + "/*.np[yz]"))]
WEIGHT_BITS = {"w8a8": 8, "tensor": 8, "w4a8-sym": 4, "w4a8-asym": 4, "pow2": 8}[column]
PER_CHANNEL = column in ("w8a8", "w4a8-sym", "w4a8-asym")


def inputs(m):
    """What is fed by name: inputs without an initializer."""
    constants = {t.name for t in m.graph.initializer}
    return [i for i in m.graph.input if i.name not in constants]


def lifted(m):
    """The model at an opset that the tools take; initializers are no inputs."""
    keep = inputs(m)
    del m.graph.input[:]
    m.graph.input.extend(keep)
    version = next(o.version for o in m.opset_import if o.domain in ("", "ai.onnx"))
    m.ir_version = max(m.ir_version, 8)
    return m if version >= 13 else onnx.version_converter.convert_version(m, 13)


def nncf(accurate):
    import nncf
    from nncf.quantization.advanced_parameters import AdvancedQuantizationParameters as Advanced, QuantizationParameters as Parameters
    if column not in ("w8a8", "tensor"): raise NotImplementedError("NNCF quantizes ONNX models to 8 bits with free scales only")
    m = lifted(onnx.load(model))
    name = inputs(m)[0].name
    how = Advanced() if PER_CHANNEL else Advanced(weights_quantization_params=Parameters(per_channel=False))
    data = nncf.Dataset(samples, lambda x: {name: x})
    onnx.save(nncf.quantize(m, data, subset_size=len(samples), fast_bias_correction=not accurate, advanced_parameters=how), out)


def ort(method):
    from onnxruntime.quantization import CalibrationDataReader, CalibrationMethod, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process
    if column == "pow2": raise NotImplementedError("onnxruntime.quantization has no power-of-two scales")
    weights = {"w4a8-sym": QuantType.QInt4, "w4a8-asym": QuantType.QUInt4}.get(column, QuantType.QInt8)
    m = lifted(onnx.load(model))
    if WEIGHT_BITS == 4: m = onnx.version_converter.convert_version(m, 21)
    name = inputs(m)[0].name
    onnx.save(m, out + ".float")
    quant_pre_process(out + ".float", out + ".pre", skip_symbolic_shape=True)

    class Reader(CalibrationDataReader):
        # all but MinMax keep every tensor of every sample in memory
        def __init__(self): self.rest = iter(samples if method == "MinMax" or samples[0].size < 50000 else samples[:32])
        def get_next(self): return next(({name: x} for x in self.rest), None)

    quantize_static(out + ".pre", out, Reader(), per_channel=PER_CHANNEL, activation_type=QuantType.QUInt8, weight_type=weights,
                    calibrate_method=CalibrationMethod[method],
                    extra_options={"WeightSymmetric": column != "w4a8-asym"})


def ppq(platform, **passes):
    """PPQ 0.6.6 needs PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION=python and the two names below, which later versions of onnx and numpy lack."""
    import types, torch
    mapping = types.ModuleType("onnx.mapping")
    mapping.TENSOR_TYPE_TO_NP_TYPE = {t: onnx.helper.tensor_dtype_to_np_dtype(t) for t in onnx.TensorProto.DataType.values() if t not in (0, 8)}
    mapping.NP_TYPE_TO_TENSOR_TYPE = {v: k for k, v in mapping.TENSOR_TYPE_TO_NP_TYPE.items()}
    sys.modules["onnx.mapping"] = onnx.mapping = mapping
    for name, kind in (("bool", bool), ("int", int), ("float", float), ("object", object)):
        if not hasattr(np, name): setattr(np, name, kind)
    import ppq
    from ppq.api import export_ppq_graph, quantize_onnx_model
    setting = ppq.QuantizationSettingFactory.default_setting()
    for name in passes: setattr(setting, name, True)
    if WEIGHT_BITS == 4: raise NotImplementedError("no platform of PPQ has 4-bit weights and 8-bit activations")
    onnx.save(lifted(onnx.load(model)), out + ".pre")
    graph = quantize_onnx_model(out + ".pre", [torch.from_numpy(x) for x in samples], calib_steps=len(samples), input_shape=list(samples[0].shape),
                                platform=getattr(ppq.TargetPlatform, platform), setting=setting, device="cpu", verbose=0)
    export_ppq_graph(graph, ppq.TargetPlatform.ONNXRUNTIME, out, out + ".json")
    repair()


def repair():
    """PPQ writes opset 13 whatever the model needs, and biases of 20 bits as QuantizeLinear to int32, which ONNX does not have: they stay float."""
    m = onnx.load(out)
    m.opset_import[0].version = max(13, *(o.version for o in onnx.load(out + ".pre").opset_import if o.domain in ("", "ai.onnx")), 0)
    constant = {t.name: t.data_type for t in m.graph.initializer}
    taken = {n.output[0]: n for n in m.graph.node if n.op_type == "QuantizeLinear" and constant.get(n.input[2]) == onnx.TensorProto.INT32}
    back = {n.output[0]: taken[n.input[0]].input[0] for n in m.graph.node if n.op_type == "DequantizeLinear" and n.input[0] in taken}
    rest = [n for n in m.graph.node if n.output[0] not in taken and n.output[0] not in back]
    for n in rest: n.input[:] = [back.get(x, x) for x in n.input]
    del m.graph.node[:]
    m.graph.node.extend(rest)
    onnx.save(m, out)


PLATFORM = {"w8a8": "TRT_INT8", "tensor": "PPL_DSP_INT8", "pow2": "FPGA_INT8"}.get(column)
PEERS = {
    "nncf": lambda: nncf(accurate=False),
    "nncf-accurate": lambda: nncf(accurate=True),
    "ort-minmax": lambda: ort("MinMax"),
    "ort-percentile": lambda: ort("Percentile"),
    "ort-entropy": lambda: ort("Entropy"),
    "ppq": lambda: ppq(PLATFORM),
    "ppq-tuned": lambda: ppq(PLATFORM, equalization=True, bias_correct=True),
}
PEERS[peer]()
