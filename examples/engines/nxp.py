"""Holds files of qwb for nxp_int8 to ESP-PPQ, which has PPQ's quantizer, exporter and executor for NXP.

    pip install --no-deps esp-ppq==1.3.12 torch==2.15.0
    pip install "onnx<1.20" numpy flatbuffers toml tqdm cryptography onnxruntime onnxsim==0.7.3 typing_extensions sympy networkx jinja2 filelock fsspec
    python nxp.py QWB SHARED_FOLDER WORK_FOLDER [NETWORK...]

For every network: qwb calibrates, exports with --ranges all and dumps the integers of a sample. ESP-PPQ's NXP quantizer configures the operators that have ranges, its pass
sets the rounding of inputs, and every config gets the scale of the file. Then its exporter writes the model: names and values of all NAME_min and NAME_max are
compared. Its executor runs it (in float64, on the sample): the integers of every tensor with a range are compared. ONNX Runtime runs qwb's file as it stands.
"""
import contextlib, json, os, shutil, sys
import numpy as np, onnx, onnxruntime, torch
from esp_ppq.api import load_onnx_graph
from esp_ppq.core import QuantizationStates, TargetPlatform
from esp_ppq.executor import TorchExecutor
from esp_ppq.IR.quantize import QuantableOperation
from esp_ppq.parser.nxp_exporter import NxpExporter
from esp_ppq.quantization.optim import NxpInputRoundingRefinePass
from esp_ppq.quantization.quantizer import NXP_Quantizer
from espdl import DATA, dump, run


def ranges(model):
    """{name: (min, max)} of the inputs with a value."""
    values = {t.name: onnx.numpy_helper.to_array(t) for t in model.graph.initializer}
    return {i.name[:-4]: (values[i.name], values[i.name[:-4] + "_max"]) for i in model.graph.input if i.name.endswith("_min") and i.name in values}


def scale(r):
    return -np.asarray(r[0], np.float64) / 128


def network(qwb, shared, work, name):
    model, data, pre = DATA[name]
    base = os.path.join(work, name + ".nxp")
    source = os.path.join(work, name + ".onnx")
    shutil.copyfile(os.path.join(shared, "models", model), source)
    where = data if data.startswith("synthetic") else os.path.join(shared, data if data.startswith("models") else "data/" + data)
    if data == "mnist":
        where = next(os.path.join(where, f) for f in sorted(os.listdir(where)) if "images" in f)
    if pre and pre.startswith("@"):
        yaml = os.path.join(work, f"pre{pre[1:]}.yaml")
        open(yaml, "w").write(f"resize: {{size: [{pre[1:]}, {pre[1:]}], filter: bilinear}}\nscale: 0.00392156862745098\n")
        pre = yaml
    run(qwb, "calibrate", source, "--data", where, "--samples", "8", "--platform", "nxp_int8", "-o", base + ".plan.json", *(["--preprocess", pre] if pre else []))
    run(qwb, "export", base + ".plan.json", "--platform", "nxp_int8", "--ranges", "all", "-o", base + ".onnx")
    run(qwb, "verify", base + ".plan.json", "--dump", base + ".dump")
    run(qwb, "doctor", base + ".onnx", "--platform", "nxp_int8")
    ours = dump(base + ".dump")
    file = onnx.load(base + ".onnx")
    mine = ranges(file)
    # The same model without its ranges, for PPQ to put them there.
    extra = {n + s for n in mine for s in ("_min", "_max")}
    for part in (file.graph.input, file.graph.initializer):
        for x in [x for x in part if x.name in extra]:
            part.remove(x)
    onnx.save(file, base + ".plain.onnx")
    inputs = {i.name for i in file.graph.input}
    graph = load_onnx_graph(base + ".plain.onnx")
    quantizer = NXP_Quantizer(graph)
    for op in list(graph.operations.values()):
        reads = [v.name for v in op.inputs if not v.is_parameter]
        result = op.outputs[0]
        fused = len(result.dest_ops) == 1 and result.dest_ops[0].type in ("Relu", "Clip") and result.dest_ops[0].outputs[0].name in mine
        behind = op.type in ("Relu", "Clip") and reads[0] not in mine
        if op.type in quantizer.quant_operation_types and (result.name in mine or fused) and (behind or any(n in mine for n in reads)):
            quantizer.quantize_operation(op.name, TargetPlatform.NXP_INT8)
    NxpInputRoundingRefinePass().optimize(graph, None, None)
    for op in graph.operations.values():
        if not isinstance(op, QuantableOperation):
            continue
        op.type_is_linear = op.type in ("Conv", "Gemm")
        for i, (cfg, var) in enumerate(zip(list(op.input_quant_config) + list(op.output_quant_config), op.inputs + op.outputs)):
            cfg._dominator = cfg
            if var.name not in mine:
                cfg.state = QuantizationStates.FP32
                continue
            s = scale(mine[var.name])
            if op.type_is_linear and i == 2 and var.is_parameter:
                s = s * 128 / 2 ** (cfg.num_of_bits - 1)
                cfg.channel_axis = var.value.ndim - 1  # PPQ says 0, also of a bias of one row
            cfg._scale = torch.tensor(s).float()
            cfg._offset = torch.zeros_like(cfg._scale)
            if s.ndim and op.type == "Gemm" and i == 1 and not op.attributes.get("transB", 0):
                cfg.channel_axis = 1  # PPQ says 0, which are the inputs
            cfg.state = QuantizationStates.ACTIVATED
    NxpExporter().export(base + ".ppq.onnx", graph, export_param=True)
    theirs = ranges(onnx.load(base + ".ppq.onnx"))
    same = sum(n in theirs and all(np.array_equal(a, b) for a, b in zip(mine[n], theirs[n])) for n in mine)
    # Integers.
    for v in graph.variables.values():
        if v.is_parameter and isinstance(v.value, torch.Tensor) and v.value.is_floating_point():
            v.value = v.value.double()
    for op in graph.operations.values():
        if isinstance(op, QuantableOperation):
            for cfg in list(op.input_quant_config) + list(op.output_quant_config):
                if isinstance(cfg._scale, torch.Tensor):
                    cfg._scale, cfg._offset = cfg._scale.double(), cfg._offset.double()
    (source_name,) = inputs
    program = json.load(open(os.path.join(base + ".dump", "program.json")))
    sample = next(np.load(os.path.join(base + ".dump", t["npy"])) for t in program["tensors"] if t["name"] == source_name and "encoding" not in t)
    names = [n for n in mine if n in ours and n in graph.variables and not graph.variables[n].is_parameter and graph.variables[n].source_op is not None]
    results = TorchExecutor(graph, device="cpu").forward(torch.tensor(sample).double(), output_names=names)
    x = sample.astype(np.float64) / scale(mine[source_name])
    pairs = [(source_name, np.clip(np.ceil(x - 0.5), -128, 127))] + [(n, np.rint(r.detach().numpy() / scale(mine[n]))) for n, r in zip(names, results)]
    compared = different = 0
    first = ""
    for n, q in pairs:
        d = np.abs(q.astype(np.int64) - ours[n].astype(np.int64).reshape(q.shape))
        compared, different = compared + d.size, different + int((d > 0).sum())
        if d.any() and not first:
            first = f"{n}: {(d > 0).sum()} of {d.size}, up to {d.max()}"
    onnxruntime.InferenceSession(base + ".onnx", providers=["CPUExecutionProvider"]).run(None, {source_name: sample})
    return len(mine), len(theirs), same, len(pairs), compared, different, first


if __name__ == "__main__":
    qwb, shared, work = sys.argv[1:4]
    os.makedirs(work, exist_ok=True)
    print(f"ESP-PPQ 1.3.12, torch {torch.__version__}, ONNX Runtime {onnxruntime.__version__}\n")
    print("| network | ranges | of PPQ's exporter | equal | tensors | integers compared | different | first |")
    print("|---|---|---|---|---|---|---|---|")
    for name in sys.argv[4:] or list(DATA):
        try:
            with open(os.devnull, "w") as quiet, contextlib.redirect_stdout(quiet):
                mine, theirs, same, tensors, compared, different, first = network(qwb, shared, work, name)
            print(f"| {name} | {mine} | {theirs} | {same} | {tensors} | {compared:,} | {different} | {first} |", flush=True)
        except Exception as e:
            print(f"| {name} | | | | | | | {type(e).__name__}: {str(e)[:300]} |", flush=True)
