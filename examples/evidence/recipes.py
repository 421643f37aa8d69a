#!/usr/bin/env python3
"""Holds the recipes of other tools (qwb calibrate --recipe nncf:FILE, ort:FILE) against the tools: recipes.py QWB DATA [--scopes N] [--only NAMES]

NNCF: random ignored scopes of names, patterns, types and subgraphs; the operators that qwb decides about are to be those that
nncf.scopes finds in its own graph of the file. Then nncf.quantize with some of them: the weighted operators that it leaves in float.
onnxruntime: quantize_static with nodes_to_exclude, nodes_to_quantize, op_types_to_quantize: the weighted operators that it leaves in float;
TensorQuantOverrides: the scales in its file. Needs: pip install nncf onnxruntime onnx numpy.
"""
import argparse, contextlib, io, json, logging, os, random, re, subprocess, sys, tempfile, warnings
import numpy as np, onnx

warnings.simplefilter("ignore")
logging.disable(logging.CRITICAL)
from networks import NETWORKS

WEIGHTED = ("Conv", "Gemm", "MatMul")


def quiet(f, *args, **named):
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()): return f(*args, **named)


class Case:
    def __init__(self, qwb, model, folder):
        self.qwb, self.model, self.folder = qwb, model, folder
        self.proto = onnx.load(model)
        self.ours = {}  # names of qwb by those of NNCF, for operators without a name
        for i, n in enumerate(self.proto.graph.node):
            if not n.name:
                n.name = f"{n.op_type}_nncf_{i}"
                self.ours[n.name] = f"{n.op_type}_{n.output[0]}"
        self.run("calibrate", model, "--data", "synthetic:2", "--platform", "onnxruntime", "--minmax-only", "--border-cost", 0, "-o", "m.plan.json")
        self.base = self.plan()

    def run(self, *args):
        p = subprocess.run([self.qwb, *map(str, args)], capture_output=True, text=True, cwd=self.folder)
        if p.returncode: raise RuntimeError(p.stderr.strip().splitlines()[-1])
        return p.stdout, p.stderr

    def plan(self): return {n["node"]: n for n in json.load(open(f"{self.folder}/m.plan.json"))["nodes"]}

    def recipe(self, kind, content):
        """The operators that the recipe decides to keep in float, and the plan."""
        json.dump(content, open(f"{self.folder}/r.json", "w"))
        self.run("calibrate", self.model, "--platform", "onnxruntime", "--observer", "minmax", "--border-cost", 0, "--fresh", "--recipe", f"{kind}:r.json", "-o", "m.plan.json")
        decided = set()
        log = json.loads(self.run("plan", "log", "m.plan.json", "--json")[0])
        for d in log["decisions"]:
            if d["by"] != "recipe" or d.get("domain") != "fp32": continue
            for s in [d["select"]] if isinstance(d["select"], str) else d["select"]:
                decided |= {n for n, x in self.base.items() if n == s or s == "type:" + x["op"]}
        return decided, self.plan()

    def expected(self, names):
        """Of operators of the file those that qwb can decide about: in the normal form, no shapes, not computed together with others that stay."""
        names = {self.ours.get(n, n) for n in names} & self.base.keys()
        return {n for n in names if self.base[n]["domain"] != "SOI" and self.base[n].get("fused", n) in names}

    def samples(self, n=2):
        inputs = [i for i in self.proto.graph.input if i.name not in {t.name for t in self.proto.graph.initializer}]
        r = np.random.default_rng(0)
        shape = lambda i: [d.dim_value or 1 for d in i.type.tensor_type.shape.dim]
        return [{i.name: r.standard_normal(shape(i)).astype(np.float32) for i in inputs} for _ in range(n)]


def scopes(case, n):
    from nncf.onnx.graph.nncf_graph_builder import GraphConverter
    import nncf
    from nncf.scopes import get_ignored_node_names_from_ignored_scope as find
    graph = quiet(GraphConverter.create_nncf_graph, onnx.ModelProto.FromString(case.proto.SerializeToString()))
    nodes = [x for x in case.proto.graph.node if x.op_type != "Constant"]
    r = random.Random(1)
    same = total = 0
    for k in range(n):
        names = r.sample([x.name for x in nodes], min(3, len(nodes)))
        scope = {}
        if k % 4 == 0 or k % 5 == 0: scope["names"] = names
        if k % 4 == 1 or k % 5 == 0: scope["patterns"] = [re.escape(names[0])[:-1], r.choice([".*" + re.escape(names[1][-3:]), re.escape(names[1])])]
        if k % 4 == 2: scope["types"] = sorted({r.choice(nodes).op_type for _ in range(2)})
        if k % 4 == 3 or k % 5 == 0:
            i, j = sorted(r.sample(range(len(nodes)), 2))
            scope["subgraphs"] = [{"inputs": [nodes[i].name], "outputs": [nodes[j].name, nodes[min(j + 1, len(nodes) - 1)].name]}]
        scope["validate"] = False
        s = nncf.IgnoredScope(**{**scope, "subgraphs": [nncf.Subgraph(**g) for g in scope.get("subgraphs", [])]})
        want = case.expected(set(quiet(find, s, graph, strict=False)))
        got, _ = case.recipe("nncf", scope)
        total += 1
        if want == got: same += 1
        else: print("  differs:", json.dumps(scope), "missing", sorted(want - got)[:4], "too many", sorted(got - want)[:4])
    return same, total


def integers(model):
    """The weighted operators of a Q/DQ model whose inputs are quantized."""
    dq = {o for n in model.graph.node if n.op_type == "DequantizeLinear" for o in n.output}
    for n in model.graph.node:  # in their order: through what only moves data
        if n.op_type in ("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "MaxPool", "Identity", "Dropout") and n.input[0] in dq: dq.add(n.output[0])
    return {n.name for n in model.graph.node if n.op_type in WEIGHTED and n.input[0] in dq and n.input[1] in dq}


def weighted(case, plan):
    return {n for n, x in plan.items() if x["op"] in WEIGHTED and x["domain"] == "INT8"}


def nncf_files(case, n):
    import nncf
    same = total = 0
    r = random.Random(2)
    names = [x.name for x in case.proto.graph.node if x.op_type in WEIGHTED]
    for _ in range(n):
        scope = {"names": r.sample(names, min(2, len(names))), "validate": False}
        q = quiet(nncf.quantize, onnx.ModelProto.FromString(case.proto.SerializeToString()), nncf.Dataset(case.samples()), ignored_scope=nncf.IgnoredScope(**scope), subset_size=2, fast_bias_correction=True)
        _, plan = case.recipe("nncf", scope)
        common = {x for x in names if x in case.base and case.base[x]["domain"] == "INT8"}
        total += 1
        if integers(q) & common == weighted(case, plan) & common: same += 1
        else: print("  differs:", json.dumps(scope), sorted((integers(q) & common) ^ (weighted(case, plan) & common))[:4])
    return same, total


class Reader:
    def __init__(self, samples): self.left = list(samples)
    def get_next(self): return self.left.pop(0) if self.left else None


def ort_files(case, n):
    from onnxruntime.quantization import QuantFormat, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process
    prepared = f"{case.folder}/prepared.onnx"
    onnx.save(case.proto, f"{case.folder}/named.onnx")
    quiet(quant_pre_process, f"{case.folder}/named.onnx", prepared, skip_symbolic_shape=True)
    have = {x.name for x in onnx.load(prepared).graph.node}
    names = [x.name for x in case.proto.graph.node if x.op_type in WEIGHTED and x.name in have]
    common = {x for x in names if x in case.base and case.base[x]["domain"] == "INT8"}
    same = total = scales = close = 0
    worst = 0.0
    r = random.Random(3)
    def quantize(**args):
        quiet(quantize_static, prepared, f"{case.folder}/q.onnx", Reader(case.samples()), activation_type=QuantType.QUInt8, quant_format=QuantFormat.QDQ, per_channel=True, weight_type=QuantType.QInt8, **args)
        return onnx.load(f"{case.folder}/q.onnx")
    for k in range(n):
        args = [{"nodes_to_exclude": r.sample(names, min(2, len(names)))}, {"nodes_to_quantize": r.sample(names, max(1, len(names) // 2))},
                {"op_types_to_quantize": [r.choice(sorted({x.op_type for x in case.proto.graph.node if x.op_type in WEIGHTED}))]}][k % 3]
        q = quantize(**args)
        _, plan = case.recipe("ort", args)
        total += 1
        got, want = weighted(case, plan) & common, integers(q) & common
        if got == want: same += 1
        else: print("  differs:", json.dumps(args)[:100], "only qwb", sorted(got - want)[:4], "only onnxruntime", sorted(want - got)[:4])
    # Ranges and scales of activations that weighted operators read.
    tensors = sorted({x.input[0] for x in case.proto.graph.node if x.name in common})
    over = {t: [{"rmin": -1.25 - i / 7, "rmax": 2.5 + i / 3}] if i % 2 else [{"scale": 0.01 * (i + 1), "zero_point": 3 * i % 200}] for i, t in enumerate(r.sample(tensors, min(4, len(tensors))))}
    typed = {t: [{k: np.array(v, np.uint8 if k == "zero_point" else np.float32) for k, v in o[0].items()}] for t, o in over.items()}
    q = quantize(extra_options={"TensorQuantOverrides": typed})
    values = {i.name: onnx.numpy_helper.to_array(i) for i in q.graph.initializer}
    _, plan = case.recipe("ort", over)
    ours = {}
    by_output = {x.output[0]: x.op_type for x in case.proto.graph.node}
    by = {x.name: x for x in case.proto.graph.node}
    for name in common:
        slot = next(s for s in plan[name]["slots"] if s["at"] == "in0")
        root = slot.get("root", name + ":in0")
        node, at = root.rsplit(":", 1)
        s = next(s for s in plan[node]["slots"] if s["at"] == at)
        ours[by[name].input[0]] = (s["scale"], s["zero_point"])
    given = {t for t in over if by_output.get(t) not in ("Reshape", "Flatten", "MaxPool", "Transpose", "Squeeze", "Unsqueeze")}  # of others it takes the input's scale
    for t in over:
        for node in q.graph.node:
            if node.op_type == "QuantizeLinear" and node.input[0] == t and t in given:
                scale, zero = float(values[node.input[1]]), int(values[node.input[2]])
                scales += 1
                d = abs(ours[t][0] - scale) / scale
                worst = max(worst, d)
                if d < 1e-6 and ours[t][1] == zero: close += 1
                else: print("  differs:", t, over[t], "qwb", ours[t], "onnxruntime", (scale, zero))
                break
    return same, total, close, scales, worst


def main():
    a = argparse.ArgumentParser()
    a.add_argument("qwb"); a.add_argument("data"); a.add_argument("--scopes", type=int, default=20); a.add_argument("--files", type=int, default=3)
    a.add_argument("--only", default="mobilenet_v1,squeezenet,catdog,resnet8,resnet_large,vww")
    o = a.parse_args()
    print("| network | NNCF: scopes | same operators | files | same float operators | onnxruntime: files | same float operators | overridden scales | equal | largest relative difference |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for name in o.only.split(","):
        with tempfile.TemporaryDirectory() as folder:
            case = Case(os.path.abspath(o.qwb), os.path.abspath(os.path.join(o.data, NETWORKS[name].model)), folder)
            row = [name]
            for part in (lambda: scopes(case, o.scopes), lambda: nncf_files(case, o.files), lambda: ort_files(case, 2 * o.files)):
                try:
                    r = part()
                    row += [r[1], r[0]] + (list(r[3:1:-1]) + [f"{r[4]:.1g}"] if len(r) > 2 else [])
                except Exception as e: row += [f"fails: {type(e).__name__} {str(e)[:60]}", ""]
            print("| " + " | ".join(map(str, row)) + " |", flush=True)


main()
