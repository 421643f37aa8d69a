#!/usr/bin/env python3
"""Holds .tflite files of qwb to TensorFlow Lite's interpreters, tensor by tensor.

  tflite.py QWB DATA [--work DIR] [--only NAME,...] [--platform tflite_int8|tflite_16x8] [--runtime PYTHON] [--inputs N] [--kernels ref,xnnpack]

QWB is the built binary, DATA a folder with models/ and data/ as the tests use it (QWB_TESTDATA). Needs: pip install ai-edge-litert==2.3.0
numpy==2.4.6. --runtime is another Python, with pip install tflite-runtime==2.14.0 'numpy<2', whose interpreter runs the files too. Every
network is calibrated for the platform, exported, and run freely on N inputs of the evaluation data by reference kernels (BUILTIN_REF) of both
interpreters, LiteRT's under profile litert; every tensor that they have in common with the dump of qwb's integer program, by name, is compared integer by integer. With
--kernels xnnpack all tensors are made outputs, the default delegate runs the file, and `qwb verify --against` holds every step to real arithmetic
(rule b): different are integers that are not within one step, or not at a near-tie. "In place" are tensors whose memory
holds the result of an operator that reads them (2.14 computes ADD and SOFTMAX so): recorded equal to that result, they are listed by name.
"""
import argparse, json, os, subprocess, sys
import numpy as np


def interpreter(path, kernels):
    try:
        from ai_edge_litert import interpreter as tfl
        kind = tfl.OpResolverType
    except ImportError:
        import tflite_runtime.interpreter as tfl
        kind = tfl.OpResolverType
    how = {"ref": kind.BUILTIN_REF, "opt": kind.BUILTIN_WITHOUT_DEFAULT_DELEGATES, "xnnpack": kind.AUTO}[kernels]
    return tfl.Interpreter(path, experimental_op_resolver_type=how, experimental_preserve_all_tensors=kernels != "xnnpack", num_threads=1)


def run(job):
    """Runs a file on inputs and saves all tensors by name, one npz per input: the work of a process of its own, by the Python of the runtime."""
    it = interpreter(job["file"], job["kernels"])
    it.allocate_tensors()
    signature = it.get_signature_list()["serving_default"]
    where = {d["name"]: d for d in it.get_tensor_details()}
    inputs = it.get_input_details()
    for k, path in enumerate(job["inputs"]):
        x = np.load(path)
        feeds = dict(x) if path.endswith(".npz") else {signature["inputs"][0]: x}
        for d in inputs:
            name = job["names"][str(d["index"])]
            v, perm = feeds[name], job["layouts"].get(d["name"])
            it.set_tensor(d["index"], v.transpose(perm) if perm else v)
        it.invoke()
        out = {}
        for d in (it.get_output_details() if job["kernels"] == "xnnpack" else it.get_tensor_details()):
            if d["name"] and d["index"] < job["tensors"]:
                try: v = it.get_tensor(d["index"])
                except ValueError: continue
                perm = job["layouts"].get(d["name"])
                out[d["name"]] = v.transpose(np.argsort(perm)) if perm else v
        np.savez(f"{job['out']}.{k}.npz", **{n.replace("/", "|"): v for n, v in out.items()})


if len(sys.argv) == 3 and sys.argv[1] == "--job":
    run(json.load(open(sys.argv[2])))
    sys.exit()

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "evidence"))
from importlib.metadata import version
from networks import Workplace, table
import flatbuffers
from ai_edge_litert import schema_py_generated as schema

ap = argparse.ArgumentParser()
ap.add_argument("qwb"); ap.add_argument("data"); ap.add_argument("--work"); ap.add_argument("--only", default=""); ap.add_argument("--platform", default="tflite_int8")
ap.add_argument("--runtime"); ap.add_argument("--inputs", type=int, default=2); ap.add_argument("--kernels", default="ref")
a = ap.parse_args()
place = Workplace(a.qwb, a.data, a.work)


def read(path):
    return schema.ModelT.InitFromObj(schema.Model.GetRootAs(open(path, "rb").read(), 0))


def layouts(m):
    for d in m.metadata:
        if d.name == b"qwb.layouts":
            lines = bytes(m.buffers[d.buffer].data).decode().splitlines()
            return {n: [int(i) for i in p.strip("[]").split()] for n, p in (l.split("\t") for l in lines)}
    return {}


def open_all(path, to):
    """Makes all computed tensors outputs, so that the delegate keeps them."""
    m = read(path)
    g = m.subgraphs[0]
    made = [int(i) for o in g.operators for i in o.outputs]
    g.outputs = np.array(list(g.outputs) + [i for i in made if i not in set(g.outputs)], np.int32)
    b = flatbuffers.Builder(1 << 20)
    b.Finish(m.Pack(b), b"TFL3")
    open(to, "wb").write(b.Output())


def engine(python, file, kernels, inputs, names):
    m = read(file)
    job = dict(file=file, kernels=kernels, inputs=inputs, out=place.path("engine"), layouts=layouts(m), tensors=len(m.subgraphs[0].tensors), names=names)
    with open(place.path("job.json"), "w") as f: json.dump(job, f)
    p = subprocess.run([python, os.path.abspath(__file__), "--job", place.path("job.json")], capture_output=True)
    if p.returncode: raise RuntimeError(p.stderr.decode().strip().splitlines()[-1])
    return [{n.replace("|", "/"): v for n, v in np.load(place.path(f"engine.{k}.npz")).items()} for k in range(len(inputs))]


def dump(plan, file, profile):
    """The tensors of qwb's integer program under a profile on one input, by name."""
    d = place.path("dump")
    place.json("verify", plan, "--data", file, "--preprocess", "none", "--samples", 1, "--dump", d, "--profile", profile, ok=(0, 3))
    p = json.load(open(os.path.join(d, "program.json")))
    return {t["name"]: np.load(os.path.join(d, t["npy"])) for t in p["tensors"] if not t["constant"] and t.get("npy")}


def readers(m):
    """The names of what operators compute from a tensor, by its name."""
    g, r = m.subgraphs[0], {}
    name = lambda i: g.tensors[i].name.decode()
    for o in g.operators:
        for i in o.inputs:
            if i >= 0: r.setdefault(name(i), []).extend(name(k) for k in o.outputs)
    return r


def record(folder, tensors):
    import shutil
    shutil.rmtree(folder, ignore_errors=True); os.makedirs(folder)
    for k, (name, v) in enumerate(tensors.items()): np.save(os.path.join(folder, f"{k}.npy"), v)
    with open(os.path.join(folder, "names.json"), "w") as f: json.dump({k: name for k, name in enumerate(tensors)}, f)


engines = [(f"LiteRT {version('ai-edge-litert')}", sys.executable, "litert")]
if a.runtime: engines.append(("tflite-runtime 2.14.0", a.runtime, "tflite2"))
rows = []
for name, n in place.networks(a.only):
    plan, file = f"{name}.{a.platform}.plan.json", place.path(f"{name}.{a.platform}.tflite")
    if os.path.exists(place.path(plan)): os.remove(place.path(plan))
    try:
        place.json("calibrate", n.model, "--data", n.calibration, "--preprocess", n.preprocess, "--samples", n.samples or 50, "--platform", a.platform, "-o", plan)
        place.json("export", plan, "--platform", a.platform, "--format", "tflite", "--unverified", "-o", file)
    except SystemExit as e:
        rows.append([name, "-", "-", "-", "-", "-", str(e)[-160:].strip()])
        print(rows[-1], file=sys.stderr, flush=True)
        continue
    m = read(file)
    g = m.subgraphs[0]
    names = {int(t.tensorIndex): t.name.decode() for t in m.signatureDefs[0].inputs}
    kinds = sorted({schema.BuiltinOperator.__dict__ and next(k for k, v in vars(schema.BuiltinOperator).items() if v == max(m.operatorCodes[o.opcodeIndex].builtinCode, m.operatorCodes[o.opcodeIndex].deprecatedBuiltinCode)) for o in g.operators})
    inputs = place.inputs(name, n, a.inputs)
    ours = {p: [dump(plan, f, p) for f in inputs] for _, _, p in engines if "ref" in a.kernels}
    for kernels in a.kernels.split(","):
        for what, python, profile in engines:
            run_file = file
            if kernels == "xnnpack":
                run_file = place.path("open.tflite"); open_all(file, run_file)
            try: theirs = engine(python, run_file, kernels, inputs, names)
            except RuntimeError as e:
                rows.append([name, what, kernels, profile, "-", "-", str(e)[-160:]])
                print(rows[-1], file=sys.stderr, flush=True)
                continue
            compared = different = worst = kept = 0
            bad, place_taken, after = {}, set(), readers(m)
            if kernels == "xnnpack":
                for f, t in zip(inputs, theirs):
                    x = np.load(f)
                    feeds = dict(x) if f.endswith(".npz") else {next(iter(names.values())): x}
                    record(place.path("record"), {**feeds, **{k: v for k, v in t.items() if v.dtype in (np.int8, np.int16)}})
                    r = place.json("verify", plan, "--against", place.path("record"), ok=(0, 3))
                    compared += r["integers_compared"]; different += r["integers_different"]
                    kept += r.get("ties", 0) or 0
            else:
                for o, t in zip(ours[profile], theirs):
                    for k in o.keys() & t.keys():
                        if o[k].dtype not in (np.int8, np.int16): continue
                        d = np.abs(o[k].astype(int) - t[k].reshape(o[k].shape).astype(int))
                        if d.any() and any(np.array_equal(t[k].ravel(), t[x].ravel()) for x in after.get(k, []) if x in t):
                            place_taken.add(k); continue  # holds what was computed from it
                        compared += d.size; different += int((d > 0).sum()); worst = max(worst, int(d.max(initial=0)))
                        if d.any(): bad[k] = int((d > 0).sum())
            note = f"ties {kept}" if kernels == "xnnpack" else (f"overwritten in place, not counted: {', '.join(sorted(place_taken))}" if place_taken else "")
            if bad: note += f" {len(bad)} tensors, by up to {worst}: {', '.join(list(bad)[:3])}"
            rows.append([name, what, kernels, profile if kernels == "ref" else "rule b", f"{compared:,}", f"{different:,}", note])
            print(rows[-1], kinds if what == engines[0][0] else "", file=sys.stderr, flush=True)

print(f"{a.platform}, {a.inputs} inputs per network\n")
table(["network", "engine", "kernels", "held to", "integers compared", "different", ""], rows)
