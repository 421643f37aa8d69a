"""Holds .espdl files of qwb to ESP-PPQ: its FlatBuffers schema reads them, its exporter writes the same, its executor computes the same integers.

    pip install --no-deps esp-ppq==1.3.12 torch==2.15.0
    pip install "onnx<1.20" numpy flatbuffers toml tqdm cryptography onnxruntime onnxsim==0.7.3 typing_extensions sympy networkx jinja2 filelock fsspec
    python espdl.py QWB SHARED_FOLDER WORK_FOLDER [NETWORK...]

For every network and target: qwb calibrates and exports; ESP-PPQ configures the same float model, gets the scales of the file, exports it itself and
runs it (in float64: sums of int16 do not fit into float32). Compared are the constants and attributes of nodes with weights, byte by byte, and the
integers of every tensor of the sample that both have. PyPI's torch wants CUDA's libraries to be there, even where it has nothing to do for them.
"""
import contextlib, json, os, shutil, subprocess, sys
import numpy as np, torch
import esp_ppq
from esp_ppq.api import espdl_quantize_onnx
from esp_ppq.core import TargetPlatform, QuantizationStates, QuantizationPolicy, QuantizationProperty as P
from esp_ppq.executor import TorchExecutor
from esp_ppq.IR.quantize import QuantableOperation
from esp_ppq.parser.espdl_exporter import EspdlExporter
from esp_ppq.parser.espdl import helper

DATA = {  # model, data, preprocessing
    "resnet8": ("mlperf-tiny/pretrainedResnet.onnx", "cifar10/calibration_500.bin", "none"),
    "resnet_large": ("mlperf-tiny/pretrainedResnet_large_float.onnx", "cifar10/calibration_500.bin", "none"),
    "vww": ("mlperf-tiny/vww_96_float.onnx", "pets/calibration", "@96"),
    "kws": ("mlperf-tiny/kws_dequant_fp32.onnx", "synthetic:8", None),
    "ad01": ("mlperf-tiny/ad01_fp32.onnx", "synthetic:8", None),
    "str_ww": ("mlperf-tiny/str_ww_dequant_fp32.onnx", "models/mlperf-tiny/training__streaming_wakeword__calibration_samples.npz", None),
    "catdog": ("classifiers/mobilenetv2_0.35_catdog.onnx", "pets/calibration", "imagenet-inception"),
    "mobilenet_v1": ("classifiers/mobilenet_v1_1.0_224.onnx", "pets/calibration", "imagenet-inception"),
    "squeezenet": ("classifiers/squeezenet1.0.onnx", "pets/calibration", "imagenet-torch"),
    "mnist8": ("mnist/mnist-8.onnx", "mnist", "none"),
    "cnn_mnist": ("mnist/cnn_mnist_pytorch.onnx", "mnist", "none"),
}
CHIP = {"espdl_int8": ("esp32p4", 8), "espdl_int8_s3": ("esp32s3", 8), "espdl_int8_c": ("c", 8),
        "espdl_int16": ("esp32p4", 16), "espdl_int16_s3": ("esp32s3", 16), "espdl_int16_c": ("c", 16)}


def run(*args):
    r = subprocess.run(args, capture_output=True, text=True)
    if r.returncode:
        raise RuntimeError(r.stderr.strip().splitlines()[-1])
    return r.stdout


DEFAULTS = {"alpha": 1.0, "beta": 1.0, "transA": 0}  # of Gemm: what is absent
TYPES = {1: np.float32, 3: np.int8, 5: np.int16, 6: np.int32, 7: np.int64, 9: np.bool_}


def tensor(t):
    raw = t.RawDataAsNumpy() if hasattr(t, "RawDataAsNumpy") else None
    if raw is None or isinstance(raw, int):
        raw = np.array([list(t.RawData(i).Bytes()) for i in range(t.RawDataLength())], np.uint8).reshape(-1)
    dims = [t.Dims(i) for i in range(t.DimsLength())]
    n = int(np.prod(dims))
    return np.frombuffer(raw.astype(np.uint8).tobytes(), TYPES[t.DataType()])[:n].reshape(dims), [t.Exponents(i) for i in range(t.ExponentsLength())]


class File:
    """An .espdl file as ESP-PPQ's own FlatBuffers classes read it."""

    def __init__(self, path):
        data = open(path, "rb").read()
        assert data[:4] == b"EDL2"
        g = helper.Model.Model.GetRootAs(data[16:], 0).Graph()
        self.constants = {g.Initializer(i).Name().decode(): tensor(g.Initializer(i)) for i in range(g.InitializerLength())}
        self.values, self.nodes = {}, {}
        for i in range(g.ValueInfoLength()):
            v = g.ValueInfo(i)
            self.values[v.Name().decode()] = [v.Exponents(k) for k in range(v.ExponentsLength())]
        for i in range(g.InputLength()):
            v = g.Input(i)
            self.values[v.Name().decode()] = [v.Exponents(k) for k in range(v.ExponentsLength())]
        for i in range(g.NodeLength()):
            n = g.Node(i)
            attrs = {}
            for k in range(n.AttributeLength()):
                a = n.Attribute(k)
                kind = a.AttrType()
                attrs[a.Name().decode()] = {1: lambda: a.F().F(), 2: lambda: a.I().I(), 3: lambda: bytes(a.S(j) for j in range(a.SLength())).decode(),
                                            7: lambda: [a.Ints(j) for j in range(a.IntsLength())]}[kind]()
            self.nodes[n.Name().decode()] = (n.OpType().decode(), [n.Input(k).decode() for k in range(n.InputLength())], [n.Output(k).decode() for k in range(n.OutputLength())], attrs)
        self.inputs = {g.TestInputsValue(i).Name().decode(): tensor(g.TestInputsValue(i)) for i in range(g.TestInputsValueLength())}
        self.outputs = {g.TestOutputsValue(i).Name().decode(): tensor(g.TestOutputsValue(i)) for i in range(g.TestOutputsValueLength())}


def policy(channel):
    return QuantizationPolicy(P.SYMMETRICAL + P.LINEAR + P.POWER_OF_2 + (P.PER_CHANNEL if channel else P.PER_TENSOR))


def node_of(f, op):
    """The name of the node of the file that computes the result of ESP-PPQ's operator: nodes of the model may have no names, or other ones in a simplified model."""
    of = {outs[0]: n for n, (_, _, outs, _) in f.nodes.items()}
    result = op.outputs[0]
    behind = [d.outputs[0].name for d in result.dest_ops if d.type in ("Relu", "Clip") and len(result.dest_ops) == 1]
    return next((of[n] for n in [result.name] + behind if n in of), None)


def configure(graph, f):
    """Gives ESP-PPQ's configs the scales of the file; what the file does not quantize is not quantized."""
    for op in graph.operations.values():
        if not isinstance(op, QuantableOperation):
            continue
        node = f.nodes.get(node_of(f, op))
        for i, (cfg, var) in enumerate(zip(list(op.input_quant_config) + list(op.output_quant_config), op.inputs + op.outputs)):
            weight = op.type in ("Conv", "Gemm", "MatMul") and var.is_parameter and var in op.inputs
            exponents = None
            if weight and node and i < len(node[1]) and node[1][i] in f.constants:
                exponents = f.constants[node[1][i]][1]
            elif not var.is_parameter and f.values.get(var.name) and var.name in f.integers:
                exponents = f.values[var.name]
            elif var.is_parameter and var in op.inputs and node and i < len(node[1]) and node[1][i] in f.constants and f.constants[node[1][i]][0].dtype in (np.int8, np.int16):
                exponents = f.constants[node[1][i]][1]
            cfg._dominator = cfg
            if exponents is None:
                cfg.state = QuantizationStates.FP32
                continue
            channel = weight and len(exponents) > 1
            cfg.policy = policy(channel)
            if channel:
                cfg.channel_axis = 0 if i != 1 or op.type == "Conv" or op.attributes.get("transB", 0) else 1
            cfg._scale = torch.tensor([2.0 ** e for e in exponents] if channel else 2.0 ** exponents[0], dtype=torch.float64).float()
            cfg._offset = torch.zeros_like(cfg._scale)
            cfg.state = QuantizationStates.ACTIVATED


def dump(folder):
    """The integers of the sample by the names of tensors, from `qwb verify --dump`."""
    p = json.load(open(os.path.join(folder, "program.json")))
    out = {}
    for t in p["tensors"]:
        if not t["constant"] and "encoding" in t:
            out[t["name"].removesuffix("_QuantizeLinear")] = np.load(os.path.join(folder, t["npy"]))
    return out


def network(qwb, shared, work, name, target):
    model, data, pre = DATA[name]
    base = os.path.join(work, f"{name}.{target}")
    onnx = os.path.join(work, name + ".onnx")
    shutil.copyfile(os.path.join(shared, "models", model), onnx)
    theirs = base + ".ppq.onnx"  # a copy: ESP-PPQ simplifies a model and writes it back to the file it was given
    shutil.copyfile(onnx, theirs)
    where = data if data.startswith("synthetic") else os.path.join(shared, data if data.startswith("models") else "data/" + data)
    if data == "mnist":
        where = next(os.path.join(where, f) for f in sorted(os.listdir(where)) if "images" in f)
    args = ["calibrate", onnx, "--data", where, "--samples", "8", "--platform", target, "-o", base + ".plan.json"]
    if pre and pre.startswith("@"):
        yaml = os.path.join(work, f"pre{pre[1:]}.yaml")
        open(yaml, "w").write(f"resize: {{size: [{pre[1:]}, {pre[1:]}], filter: bilinear}}\nscale: 0.00392156862745098\n")
        pre = yaml
    if pre:
        args += ["--preprocess", pre]
    run(qwb, *args)
    run(qwb, "export", base + ".plan.json", "--platform", target, "-o", base + ".espdl")
    run(qwb, "verify", base + ".plan.json", "--dump", base + ".dump")
    run(qwb, "doctor", base + ".espdl", "--platform", target)
    f = File(base + ".espdl")
    ours = dump(base + ".dump")
    f.integers = set()
    for n in f.values:
        if n in f.inputs and f.inputs[n][0].dtype in (np.int8, np.int16):
            f.integers.add(n)
    f.integers |= {o for _, _, outs, a in f.nodes.values() for o in outs if a.get("quant_type") in ("S8", "S16")}
    chip, bits = CHIP[target]
    (iname, (ivalue, iexp)), = f.inputs.items()
    x = ivalue.astype(np.float64) * 2.0 ** iexp[0]
    import onnx as onnxlib
    from onnx import shape_inference
    shape = [d.dim_value or 1 for d in onnxlib.load(onnx).graph.input[0].type.tensor_type.shape.dim]
    if list(x.shape) != shape:
        perm = {4: (0, 3, 1, 2), 3: (0, 2, 1)}[x.ndim]
        x = x.transpose(perm)
    assert list(x.shape) == shape, (x.shape, shape)
    sample = torch.tensor(x).float()
    graph = espdl_quantize_onnx(onnx_import_file=theirs, espdl_export_file=base + ".own.espdl", calib_dataloader=[sample] * 8, calib_steps=8, input_shape=[shape],
                                inputs=[sample], target=chip, num_of_bits=bits, device="cpu", error_report=False, verbose=0, skip_export=True)
    configure(graph, f)
    # Their file with our scales.
    reference, nodes, different_nodes = None, 0, []
    try:
        EspdlExporter().export(base + ".own.espdl", graph.copy() if hasattr(graph, "copy") else graph, export_config=False)
        reference = File(base + ".own.espdl")
    except Exception as e:
        print(f"  {name} {target}: ESP-PPQ's exporter: {type(e).__name__}: {e}", file=sys.stderr)
    if reference:
        for n, (op, ins, outs, attrs) in reference.nodes.items():
            mine = next((m for m in f.nodes.values() if m[2][0] == outs[0]), None)
            if op not in ("Conv", "Gemm", "MatMul") or mine is None:
                continue
            nodes += 1
            same = mine[0] == op and all(mine[3].get(k, DEFAULTS.get(k)) == v for k, v in attrs.items() if v is not None)
            for a, b in zip(ins[1:], mine[1][1:]):
                (ra, ea), (rb, eb) = reference.constants[a], f.constants[b]
                same = same and ra.dtype == rb.dtype and ra.shape == rb.shape and ra.tobytes() == rb.tobytes() and ea == eb
            if not same:
                different_nodes.append(n)
    # Their integers.
    for v in graph.variables.values():
        if v.is_parameter and isinstance(v.value, torch.Tensor) and v.value.is_floating_point():
            v.value = v.value.double()
    for op in graph.operations.values():
        if isinstance(op, QuantableOperation):
            if bits == 16:  # the platforms that ESP-PPQ's executor does not round to float32 on
                op.platform = {"esp32p4": TargetPlatform.ESPDL_H_PRE_INT16, "esp32s3": TargetPlatform.ESPDL_S3_H_PRE_INT16}.get(chip, TargetPlatform.ESPDL_C_H_PRE_INT16)
            node = f.nodes.get(node_of(f, op))
            if op.type in ("Conv", "Gemm") and node and len(node[1]) > 2 and len(op.inputs) > 2:  # ESP-PPQ rounds a bias in float32
                codes, exponents = f.constants[node[1][2]]
                op.inputs[2].value = torch.tensor(codes.astype(np.float64) * 2.0 ** np.array(exponents, np.float64))
            for cfg in list(op.input_quant_config) + list(op.output_quant_config):
                if isinstance(cfg._scale, torch.Tensor):
                    cfg._scale, cfg._offset = cfg._scale.double(), cfg._offset.double()
    names = [n for n in graph.variables if n in f.integers and n in ours and not graph.variables[n].is_parameter and graph.variables[n].source_op is not None]
    results = TorchExecutor(graph, device="cpu").forward(torch.tensor(x), output_names=names)
    compared = different = 0
    first = ""
    for n, r in zip(names, results):
        q = np.rint(r.detach().numpy().astype(np.float64) / 2.0 ** f.values[n][0]).astype(np.int64)
        mine = ours[n].astype(np.int64).reshape(q.shape)
        compared += q.size
        d = int((q != mine).sum())
        if d and os.environ.get("SHOW"):
            print(n, q.size, d, np.abs(q - mine).max(), f.values[n], q.ravel()[(q != mine).ravel()][:6], mine.ravel()[(q != mine).ravel()][:6], file=sys.stderr)
        if d and not first:
            first = f"{n}: {d} of {q.size}, up to {np.abs(q - mine).max()}"
        different += d
    return nodes, different_nodes, len(names), compared, different, first


if __name__ == "__main__":
    qwb, shared, work = sys.argv[1:4]
    os.makedirs(work, exist_ok=True)
    wanted = sys.argv[4:] or list(DATA)
    print(f"ESP-PPQ {getattr(esp_ppq, '__version__', '1.3.12')}, torch {torch.__version__}\n")
    print("| network | target | nodes with weights compared | different | tensors | integers compared | different | first |")
    print("|---|---|---|---|---|---|---|---|")
    for name in wanted:
        name, _, only = name.partition(":")
        for target in [only] if only else CHIP:
            try:
                with open(os.devnull, "w") as quiet, contextlib.redirect_stdout(quiet):
                    nodes, bad, tensors, compared, different, first = network(qwb, shared, work, name, target)
                print(f"| {name} | {target} | {nodes} | {len(bad)} {bad[:3] if bad else ''} | {tensors} | {compared:,} | {different} | {first} |", flush=True)
            except Exception as e:
                print(f"| {name} | {target} | | | | | | {type(e).__name__}: {str(e)[:200]} |", flush=True)
