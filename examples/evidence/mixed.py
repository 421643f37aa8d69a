#!/usr/bin/env python3
"""Compares the choice of a format for each operator by `qwb dispatch --auto --formats` with greedy choices by layerwise rank and with NNCF's.

  mixed.py QWB DATA --cache DIR [--only NAME,...] [--samples N] [--eval N] [--nncf]

Two questions for each network, on the target onnxruntime:
  bytes: weights of which operators get 4 bits, so that all constants fit into a share of the bytes of INT8? Greedy gives 4 bits to the operators
         that layerwise analysis (of INT8) finds least sensitive, until it fits. NNCF's compress_weights chooses by its own sensitivity; it does so
         for MatMul and Gemm only.
  macs:  which operators go to float32, so that the work (int8 multiply-accumulates, float32 counting 4) stays below a limit? Greedy sends the most
         sensitive. NNCF's quantize_with_accuracy_control (--nncf) reverts operators until its metric, here 1 - NSR, loses less than a third of what
         it loses with INT8; the limit is then the work of NNCF's choice.
All choose on the calibration samples; the table has the NSR (centred, `qwb eval`) of the same qwb plan with each choice on samples that nothing was
fitted on, with its standard error. Needs: pip install numpy onnx; nncf, onnxruntime for --nncf.
"""
import argparse, glob, json, os, shutil, sys
import numpy as np
import onnx
from networks import Workplace, table

ap = argparse.ArgumentParser()
ap.add_argument("qwb"); ap.add_argument("data"); ap.add_argument("--cache", required=True); ap.add_argument("--only", default="demo,resnet8,kws,squeezenet")
ap.add_argument("--samples", type=int, default=128); ap.add_argument("--eval", type=int, default=200); ap.add_argument("--nncf", action="store_true")
a = ap.parse_args()
os.makedirs(a.cache, exist_ok=True)
place = Workplace(a.qwb, a.data, os.path.join(a.cache, "work"))
INT4 = "weights=int4-sym-channel"


class Case:
    def __init__(self, name, net):
        self.name, self.net = name, net
        self.n = net.samples or a.samples
        self.base = place.path(name + ".base.plan.json")
        self.fit = ("--data", net.calibration, "--preprocess", net.preprocess, "--samples", self.n)
        if not os.path.exists(self.base):
            place.call("calibrate", net.model, *self.fit, "--platform", "onnxruntime", "--fresh", "-o", self.base)
        self.layers = json.loads(place.call("analyze", self.base, "--layerwise", "--json", *self.fit))["layerwise"]
        self.float, self.int8 = self.cost(self.base)

    def plan(self, what):
        """A copy of the plan to change."""
        for end in (".plan.json", ".stats"): shutil.copy(self.base.replace(".plan.json", end), place.path(f"{self.name}.{what}{end}"))
        return place.path(f"{self.name}.{what}.plan.json")

    def cost(self, plan):
        c = json.loads(place.call("plan", "show", plan, "--json"))["cost"]
        return c["macs"].get("fp32", 0), sum(c["bytes"].values())

    def work(self, plan):
        c = json.loads(place.call("plan", "show", plan, "--json"))["cost"]
        bits = {"fp32": 4, "int8": 1}
        return sum(bits[k] * v for k, v in c["macs"].items()) + 26 * c["converted"]

    def nsr(self, plan):
        r = json.loads(place.call("eval", plan, "--data", self.net.evaluation, "--preprocess", self.net.preprocess, "--samples", a.eval, "--mode", "sim", "--json"))
        return f"{r['nsr']:.3g} ± {r['nsr_error']:.1g}"

    def searched(self, *flags):
        """Ours: the plan, and how many choices were measured."""
        self.made = getattr(self, "made", 0) + 1
        plan = self.plan(f"searched{self.made}")
        out = place.call("dispatch", plan, "--auto", *flags, *self.fit, "--force", "--json", ok=(0, 3))
        r = json.loads(out)
        return None if "no choice of formats" in r["refused"] else plan, r["evaluations"]

    def greedy_bytes(self, limit):
        """Narrows the operators that are least sensitive, one after the other, until all fit."""
        names = []
        for l in sorted(self.layers, key=lambda l: l["nsr"]):
            plan = self.plan("greedy")
            names.append(l["node"])
            place.call("set", plan, ",".join(n.replace(",", "\\,") for n in names), INT4)
            if self.cost(plan)[1] <= limit: return plan
        return None

    def greedy_work(self, limit):
        """Sends the operators that are most sensitive to float32, one after the other, as long as the work stays below the limit."""
        names, best = [], self.base
        for k, l in enumerate(sorted(self.layers, key=lambda l: -l["nsr"])):
            plan = self.plan(f"greedy{k}")
            place.call("dispatch", plan, "--fp32", ",".join(names + [l["node"]]))
            if self.work(plan) > limit: continue
            names.append(l["node"]); best = plan
        return best

    # NNCF works on the exact inputs.

    def inputs(self):
        folder = place.path(f"{self.name}.inputs.{self.n}")
        if not os.path.exists(folder): place.call("preprocess", self.net.model, "--data", self.net.calibration, "--preprocess", self.net.preprocess, "--samples", self.n, "--dump", folder)
        return [np.load(f) for f in sorted(glob.glob(folder + "/*.np[yz]"))]

    def nncf_work(self):
        """The operators that NNCF's accuracy control leaves in float."""
        import nncf, onnxruntime as ort
        m = lifted(onnx.load(self.net.model))
        for i, n in enumerate(m.graph.node): n.name = n.name or f"{n.op_type}_{i}"
        name, xs = m.graph.input[0].name, self.inputs()
        f = ort.InferenceSession(m.SerializeToString())
        ys = [f.run(None, {name: x})[0] for x in xs]
        pairs = list(zip(xs, ys))

        def metric(q, items):
            s = ort.InferenceSession(q.SerializeToString())
            e = [1 - float(((s.run(None, {name: x})[0] - y) ** 2).sum() / ((y ** 2).sum() + 1e-7)) for x, y in items]
            return float(np.mean(e)), e
        calibration = nncf.Dataset(xs, lambda x: {name: x})
        validation = nncf.Dataset(pairs, lambda p: p)
        lost = 1 - metric(nncf.quantize(m, calibration, subset_size=len(xs)), pairs)[0]
        q = nncf.quantize_with_accuracy_control(m, calibration, validation, metric, max_drop=lost / 3, subset_size=len(xs))
        made = {o: n for n in q.graph.node for o in n.output}
        stays = [n for n in q.graph.node if n.op_type in ("Conv", "Gemm", "MatMul", "ConvTranspose") and made.get(n.input[1], n).op_type != "DequantizeLinear"]
        return self.ours(m, [n.name for n in stays])

    def ours(self, m, names):
        """The operators of the plan whose weights are those of NNCF's: names change where a tool gives its own."""
        known = {l["node"] for l in self.layers}
        original = {n.name: n for n in m.graph.node}
        out = []
        for x in names:
            n = original.get(x)
            out += [k for k in ([x] + (list(n.output) if n else [])) if k in known][:1]
        return out

    def nncf_bytes(self, ratio):
        """The operators that NNCF gives 4 bits; empty where it gives them to none."""
        import nncf
        m = lifted(onnx.load(self.net.model))
        for i, n in enumerate(m.graph.node): n.name = n.name or f"{n.op_type}_{i}"
        name, xs = m.graph.input[0].name, self.inputs()
        q = nncf.compress_weights(lifted(onnx.load(self.net.model)), mode=nncf.CompressWeightsMode.INT4_SYM, ratio=ratio, group_size=-1, all_layers=True,
                                  dataset=nncf.Dataset(xs, lambda x: {name: x}), sensitivity_metric=nncf.SensitivityMetric.MEAN_ACTIVATION_VARIANCE)
        types = {t.name: t.data_type for t in q.graph.initializer}
        made = {o: n for n in q.graph.node for o in n.output}
        narrow = [n.name for n in q.graph.node if n.op_type in ("Conv", "Gemm", "MatMul") and types.get(made.get(n.input[1], n).input[0]) == onnx.TensorProto.INT4]
        return self.ours(m, narrow)


def lifted(m):
    constants = {t.name for t in m.graph.initializer}
    keep = [i for i in m.graph.input if i.name not in constants]
    del m.graph.input[:]
    m.graph.input.extend(keep)
    m.ir_version = max(m.ir_version, 10)
    return m if next(o.version for o in m.opset_import if o.domain in ("", "ai.onnx")) >= 21 else onnx.version_converter.convert_version(m, 21)


lines = []
for name, net in place.networks(a.only):
    c = Case(name, net)
    as_is = c.nsr(c.base)
    for share in (0.9, 0.8, 0.7):
        limit = share * c.int8
        ours, n = c.searched("--formats", "int4", "--max-bytes", int(limit))
        greedy = c.greedy_bytes(limit)
        show = lambda p, more="": f"{c.nsr(p)} ({c.cost(p)[1] / 1e3:.4g} KB{more})" if p else "does not fit"
        lines.append([name, f"bytes, {share:.0%} of INT8", as_is, show(ours, f", {n}"), show(greedy), ""])
        print(*lines[-1], sep=" | ", file=sys.stderr, flush=True)
    if a.nncf:
        try: names = c.nncf_bytes(0.5)
        except Exception as e: names = print(name, "NNCF, weights:", str(e)[:300], file=sys.stderr)
        if names:
            plan = c.plan("nncf4")
            place.call("set", plan, ",".join(n.replace(",", "\\,") for n in names), INT4)
            limit = c.cost(plan)[1]
            ours, n = c.searched("--formats", "int4", "--max-bytes", limit)
            lines.append([name, f"bytes of NNCF's choice of {len(names)}", as_is, show(ours, f", {n}"), show(c.greedy_bytes(limit)), show(plan)])
            print(*lines[-1], sep=" | ", file=sys.stderr, flush=True)
    limits = [(f"work, {s:g} of INT8", s * c.work(c.base), None) for s in (1.3, 1.8)]
    if a.nncf:
        try:
            chosen = c.nncf_work()
            plan = c.plan("nncf")
            if chosen: place.call("dispatch", plan, "--fp32", ",".join(chosen))
            limits.append((f"work of NNCF's choice of {len(chosen)}", c.work(plan), plan))
        except Exception as e: print(name, "NNCF:", str(e)[:300], file=sys.stderr)
    for what, limit, nncf in limits:
        ours, n = c.searched("--formats", "fp32", "--max-macs", int(limit + 1))
        greedy = c.greedy_work(limit + 1)
        show = lambda p, more="": f"{c.nsr(p)} ({c.work(p) / 1e6:.4g} M{more})" if p else "does not fit"
        lines.append([name, what, as_is, show(ours, f", {n}"), show(greedy), show(nncf) if nncf else ""])
        print(*lines[-1], sep=" | ", file=sys.stderr, flush=True)
table(["network", "limit", "INT8", "qwb (cost, evaluations)", "greedy by layerwise rank", "NNCF"], lines)
