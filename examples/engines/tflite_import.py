#!/usr/bin/env python3
"""Imports .tflite files by qwb, holds the plan to TensorFlow Lite's interpreter, writes the file again and holds it to the first.

  tflite_import.py QWB TINY [--work DIR] [--inputs N] [--cifar FILE]

QWB is the built binary, TINY a clone of https://github.com/mlcommons/tiny (here at 1afd2c9). Needs: pip install ai-edge-litert==2.3.0
numpy==2.4.6 tflite==2.18.0, or tflite-runtime==2.14.0 'numpy<2' for that interpreter. Inputs are images of CIFAR-10 for the two ResNets where
--cifar names a binary batch, and random codes for the others. Columns:

  integers, different   of all tensors that the reference kernels (BUILTIN_REF) record, `qwb verify --against` under profile tflite2: every step
                        from the recorded inputs. Tensors that an ADD overwrites in place are left out, and counted (in place)
  again                 of the file that qwb writes from the imported plan: operators, tensors, scales and zero points, constants and options
                        that differ from the original's, and output codes that differ on the same inputs. A constant differs where a shape
                        has -1 in the original and a number in the other, options where SAME and VALID padding are the same
"""
import argparse, json, os, subprocess, sys
import numpy as np
del sys.path[0]  # the script beside this one has the name of the package
import tflite as schema
try:
    from ai_edge_litert.interpreter import Interpreter, OpResolverType
    from importlib.metadata import version
    ENGINE = "LiteRT " + version("ai-edge-litert")
except ImportError:
    from tflite_runtime.interpreter import Interpreter, OpResolverType
    ENGINE = "tflite-runtime 2.14.0"

FILES = {
    "ad01": "anomaly_detection/trained_models/ad01_int8", "kws": "keyword_spotting/trained_models/kws_ref_model",
    "ResNet-8": "image_classification/trained_models/pretrainedResnet_quant", "large ResNet": "image_classification/trained_models/pretrainedResnet_large_int8",
    "str_ww": "streaming_wakeword/trained_models/str_ww_ref_model", "vww": "visual_wake_words/trained_models/vww_96_int8",
}


def interpreter(path, keep):
    it = Interpreter(path, experimental_op_resolver_type=OpResolverType.BUILTIN_REF, experimental_preserve_all_tensors=keep)
    it.allocate_tensors()
    return it


def run(it, x):
    d = it.get_input_details()[0]
    it.set_tensor(d["index"], x.reshape(d["shape"]).astype(d["dtype"]))
    it.invoke()
    return [it.get_tensor(o["index"]) for o in it.get_output_details()]


def overwritten(model):
    """Names of tensors that an ADD reads: older interpreters write its result over one of them."""
    g, names = model.Subgraphs(0), set()
    for i in range(g.OperatorsLength()):
        op = g.Operators(i)
        if code(model, op) == schema.BuiltinOperator.ADD:
            names |= {g.Tensors(t).Name().decode() for t in op.InputsAsNumpy()}
    return names


def code(model, op):
    c = model.OperatorCodes(op.OpcodeIndex())
    return max(c.BuiltinCode(), c.DeprecatedBuiltinCode())


def load(path):
    return schema.Model.GetRootAsModel(open(path, "rb").read(), 0)


KINDS = {v: k for k, v in vars(schema.BuiltinOptions).items() if not k.startswith("_")}


def options(op):
    """The fields of an operator's options by name, those that are left out with their defaults."""
    name = KINDS[op.BuiltinOptionsType()]
    if name == "NONE" or op.BuiltinOptions() is None:
        return {}
    o = getattr(schema, name)()
    o.Init(op.BuiltinOptions().Bytes, op.BuiltinOptions().Pos)
    fields = {}
    for f in dir(o):
        if f[0].isupper() and not f.startswith(("Init", "GetRootAs")) and not f.endswith(("AsNumpy", "Length", "IsNone", "BufferHasIdentifier")) and f + "Length" not in dir(o):
            fields[f] = getattr(o, f)()
    return fields


def tensor(model, t):
    q = t.Quantization()
    n = q.ScaleLength() if q else 0
    scale = q.ScaleAsNumpy().tolist() if n else []
    zero = q.ZeroPointAsNumpy().tolist() if n else []
    b = model.Buffers(t.Buffer())
    return {"type": t.Type(), "shape": [t.Shape(i) for i in range(t.ShapeLength())], "scale": scale, "zero": zero, "axis": q.QuantizedDimension() if n > 1 else 0,
            "data": b.DataAsNumpy().tobytes() if b.DataLength() else b""}


def differences(a, b):
    """Counts what differs between two files, operator by operator as their outputs are named: kinds, tensors, quantization, constants, options."""
    count, said = dict(operators=0, tensors=0, quantization=0, constants=0, options=0), []
    ga, gb = a.Subgraphs(0), b.Subgraphs(0)
    count["operators"] = abs(ga.OperatorsLength() - gb.OperatorsLength())
    own = lambda t: t.Name().decode().removesuffix("_QuantizeLinear")  # what qwb calls the integers of a value
    named = lambda g: {own(g.Tensors(g.Operators(i).Outputs(0))): g.Operators(i) for i in range(g.OperatorsLength())}
    others = named(gb)
    for i, (result, x) in enumerate(named(ga).items()):
        y = others.get(result)
        if y is None:
            count["operators"] += 1
            said.append(f"operator {i}: no other computes {result}")
            continue
        if code(a, x) != code(b, y):
            count["operators"] += 1
            said.append(f"operator {i}: {code(a, x)} and {code(b, y)}")
            continue
        if options(x) != options(y):
            count["options"] += 1
            said.append(f"operator {i}: {options(x)} and {options(y)}")
        for k in range(max(x.InputsLength(), y.InputsLength()) + x.OutputsLength()):
            inputs = max(x.InputsLength(), y.InputsLength())
            ids = [(g.Inputs(k) if k < g.InputsLength() else -1) if k < inputs else g.Outputs(k - inputs) for g in (x, y)]
            if min(ids) < 0:
                count["tensors"] += ids[0] != ids[1]
                if ids[0] != ids[1]: said.append(f"operator {i}: input {k} is left out in one")
                continue
            s, t = tensor(a, ga.Tensors(ids[0])), tensor(b, gb.Tensors(ids[1]))
            for what, keys in (("tensors", ("type", "shape")), ("quantization", ("scale", "zero", "axis")), ("constants", ("data",))):
                if any(s[key] != t[key] for key in keys):
                    count[what] += 1
                    said.append(f"operator {i}, tensor {k} ({ga.Tensors(ids[0]).Name().decode()[-40:]}): " + ", ".join(f"{str(s[key])[:60]} and {str(t[key])[:60]}" for key in keys if s[key] != t[key]))
    return count, said


def main():
    p = argparse.ArgumentParser()
    p.add_argument("qwb")
    p.add_argument("tiny")
    p.add_argument("--work", default="work")
    p.add_argument("--inputs", type=int, default=5)
    p.add_argument("--cifar")
    a = p.parse_args()
    os.makedirs(a.work, exist_ok=True)
    print("| network | engine | inputs | integers | different | in place | again: operators, tensors, quantization, constants, options | output codes | different |\n|---|---|---|---|---|---|---|---|---|")
    for name, file in FILES.items():
        original = f"{a.tiny}/benchmark/training/{file}.tflite"
        base = os.path.join(a.work, os.path.basename(file))
        q = lambda *args: subprocess.run([a.qwb, *args], capture_output=True, text=True)
        for plan, platform in ((base + ".plan.json", "tflite"), (base + ".again.plan.json", "tflite_int8")):
            r = q("import", original, "--platform", platform, "-o", plan)
            assert r.returncode == 0, r.stderr
        r = q("export", base + ".again.plan.json", "--platform", "tflite_int8", "--inputs", "integers", "--outputs", "integers", "--unverified", "-o", base + ".tflite")
        assert r.returncode == 0, r.stderr
        it, bare, again = interpreter(original, True), interpreter(original, False), interpreter(base + ".tflite", False)
        d = it.get_input_details()[0]
        rng = np.random.default_rng(1)
        images = None
        if "ResNet" in name and a.cifar:
            images = np.fromfile(a.cifar, np.uint8).reshape(-1, 3073)[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
        skip = overwritten(load(original)) if "tflite-runtime" in ENGINE else set()
        integers = different = outputs = wrong = 0
        for k in range(a.inputs):
            x = images[k].astype(np.int16) - 128 if images is not None else rng.integers(-128, 128, d["shape"])
            run(it, x)
            recorded = {}
            for t in it.get_tensor_details():
                if t["name"] and t["name"] not in skip:
                    try:
                        recorded[t["name"]] = it.get_tensor(t["index"])
                    except ValueError:
                        pass  # scratch memory of an operator
            np.savez(base + ".npz", **recorded)
            r = q("verify", base + ".plan.json", "--profile", "tflite2", "--against", base + ".npz", "--json")
            assert r.stdout, r.stderr
            v = json.loads(r.stdout)["bit_exact"]
            integers, different = integers + v["compared"], different + v["different"]
            for u, w in zip(run(bare, x), run(again, x)):
                outputs, wrong = outputs + u.size, wrong + int((u != w.reshape(u.shape)).sum())
        count, said = differences(load(original), load(base + ".tflite"))
        print(f"| {name} | {ENGINE} | {a.inputs} | {integers:,} | {different} | {len(skip)} | {', '.join(str(n) for n in count.values())} | {outputs} | {wrong} |", flush=True)
        for s in said[:6]:
            print("  ", s, file=sys.stderr)


main()
