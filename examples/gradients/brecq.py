#!/usr/bin/env python3
"""Holds `qwb tune --method block` to AdaRound over a block (BRECQ, with QDrop's mixed inputs) written in PyTorch, on three blocks.

  brecq.py QWB DATA [--steps N] [--turns N] [--threads N]        needs torch, onnx, onnxruntime, numpy

Each block is cut out of its network, with weights of 4 bits and activations of 8, and what enters it comes from the float network. Both get the
same samples, the scales of qwb's plan, batches of 16 and the same recipe: rectified sigmoid, a fifth of the steps without regularization, Adam at
0.05, biases learnt, rounded weights at the end. Printed are the NSR of the block's output on samples that neither has seen, and milliseconds a
step, of the processor and by the clock: of PyTorch around the steps, of qwb by the difference of two runs, in turns.
"""
import argparse, json, os, re, resource, subprocess, sys, tempfile, time

sys.path = [p for p in sys.path if os.path.abspath(p or ".") != os.path.dirname(os.path.abspath(__file__))]  # torch.py stands beside
import numpy as np
import onnx
import onnxruntime
import torch
from torch.nn import functional as F

BLOCKS = [  # network, samples, preprocessing, entry, exit
    ("models/mlperf-tiny/pretrainedResnet.onnx", "data/cifar10/calibration_500.bin", "none", "conv_2d_0_act", "add_3_act"),
    ("models/mlperf-tiny/pretrainedResnet.onnx", "data/cifar10/calibration_500.bin", "none", "add_3_act", "add_7_act"),
    ("models/classifiers/mobilenet_v1_1.0_224.onnx", "data/pets/calibration", "imagenet-inception", "conv_2d_12_act", "conv_2d_14_act"),
]
ap = argparse.ArgumentParser()
ap.add_argument("qwb"); ap.add_argument("data"); ap.add_argument("--steps", type=int, default=300); ap.add_argument("--turns", type=int, default=3)
ap.add_argument("--samples", type=int, default=104); ap.add_argument("--only", type=int, default=-1); ap.add_argument("--threads", type=int, default=1)
a = ap.parse_args()
a.qwb = os.path.abspath(a.qwb)
torch.set_num_threads(a.threads)
torch.manual_seed(1)
onnxruntime.set_default_logger_severity(3)


def qwb(*args):
    """Runs qwb and returns what it prints, and the seconds of the processor and of the clock."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime, time.perf_counter()
    p = subprocess.run([a.qwb, *map(str, args)], capture_output=True, text=True)
    if p.returncode: sys.exit(f"qwb {' '.join(map(str, args))}: {p.stderr[-400:]}")
    return p.stdout, np.array([resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before[0], time.perf_counter() - before[1]])


def platform(folder):
    y, _ = qwb("target", "show", "onnxruntime")
    y = re.sub(r"^name: .*", "name: w4a8", y, flags=re.M)
    y = re.sub(r"^weight: .*", "weight: {scheme: int4-sym-channel, range: [-8, 7], observer: minmax}", y, flags=re.M)
    y = re.sub(r"^border_cost: .*", "border_cost: 0", re.sub(r"^reduced_weight.*\n", "", y, flags=re.M), flags=re.M)
    file = os.path.join(folder, "w4a8.yaml")
    with open(file, "w") as f: f.write(y)
    return file


def block(folder, model, data, preprocess, entry, exit):
    """Writes the block, with a Flatten behind it, as block.onnx, and what enters it as fit/ and unseen/."""
    path = os.path.join(folder, "block.onnx")
    whole = onnx.shape_inference.infer_shapes(onnx.load(os.path.join(a.data, model)))
    onnx.save(whole, path)
    onnx.utils.extract_model(path, path, [entry], [exit])
    m = onnx.load(path)
    flat = onnx.helper.make_tensor_value_info("flat", onnx.TensorProto.FLOAT, None)
    m.graph.node.append(onnx.helper.make_node("Flatten", [exit], ["flat"], "flat"))
    del m.graph.output[:]
    m.graph.output.append(flat)
    onnx.save(onnx.shape_inference.infer_shapes(m), path)
    qwb("preprocess", os.path.join(a.data, model), "--data", os.path.join(a.data, data), "--preprocess", preprocess, "--samples", a.samples, "--dump",
        os.path.join(folder, "inputs"))
    whole.graph.output.append(onnx.helper.make_tensor_value_info(entry, onnx.TensorProto.FLOAT, None))
    s = onnxruntime.InferenceSession(whole.SerializeToString(), providers=["CPUExecutionProvider"])
    lists = [], []
    for d in ("fit", "unseen"): os.mkdir(os.path.join(folder, d))
    for i, f in enumerate(sorted(os.listdir(os.path.join(folder, "inputs")))):
        if not f.endswith(".npy"): continue
        x = s.run([entry], {s.get_inputs()[0].name: np.load(os.path.join(folder, "inputs", f))})[0]
        which = int(i >= 64)
        lists[which].append(x)
        np.save(os.path.join(folder, ("fit", "unseen")[which], f"{i:03}.npy"), x)
    return path, torch.tensor(np.concatenate(lists[0])), torch.tensor(np.concatenate(lists[1]))


def straight(x):
    """Rounds; the gradient passes."""
    return x + (torch.round(x) - x).detach()


class Block:
    """A block in PyTorch, quantized by the scales of a plan."""

    def __init__(self, path, plan):
        g = onnx.load(path).graph
        constants = {t.name: torch.tensor(onnx.numpy_helper.to_array(t).copy()) for t in g.initializer}
        self.nodes, self.scales, self.weights = [n for n in g.node if n.op_type != "Flatten"], {}, {}
        self.constants, self.entry = constants, g.input[0].name
        self.exit = self.nodes[-1].output[0]
        slots = {n["node"]: {s["at"]: s for s in n["slots"]} for n in plan["nodes"] if "slots" in n}
        for n in self.nodes:
            for at, name in ("in0", n.input[0]), ("out0", n.output[0]):
                slot = slots.get(n.name, {}).get(at, {})
                if "scale" in slot: self.scales[name] = slot["scale"], slot["zero_point"]
        for n in self.nodes:
            if n.op_type != "Conv": continue
            of = slots[n.name]
            w = constants[n.input[1]]
            s = torch.tensor(of["in1"]["scale"]).reshape(-1, *[1] * (w.dim() - 1))
            lower = torch.clamp(torch.floor(w / s), -8, 6)
            rest = torch.clamp(w / s - lower, 0.01, 0.99)
            v = (-torch.log(1.2 / (rest + 0.1) - 1)).requires_grad_()
            b = constants[n.input[2]].clone().requires_grad_()
            reach = self.scales[n.input[0]][0] * 255
            unit = s.flatten() * reach * (w[0].numel() ** 0.5) / 4
            self.weights[n.name] = lower, s, v, b, unit

    def quantize(self, name, x, drop):
        if name not in self.scales: return x
        s, zero = self.scales[name]
        q = torch.clamp(straight(x / s), -zero, 255 - zero) * s
        return torch.where(torch.rand_like(x) < 0.5, q, x) if drop else q

    def run(self, x, mode, drop=False, end=True):
        """The exit; mode is float, soft or hard."""
        values = {self.entry: x}
        entered = x if mode == "float" else self.quantize(self.entry, x, drop)  # as a Conv reads it; an Add of what enters is in float
        for n in self.nodes:
            v = [entered if i == self.entry and n.op_type == "Conv" else values.get(i, self.constants.get(i)) for i in n.input]
            if n.op_type == "Conv":
                w, b = v[1], v[2]
                if mode != "float":
                    lower, s, soft, b, _ = self.weights[n.name]
                    w = (lower + (torch.clamp(torch.sigmoid(soft) * 1.2 - 0.1, 0, 1) if mode == "soft" else (soft >= 0).float())) * s
                attrs = {k.name: onnx.helper.get_attribute_value(k) for k in n.attribute}
                top, left, bottom, right = attrs.get("pads", [0] * 4)
                y = F.conv2d(F.pad(v[0], (left, right, top, bottom)), w, b, stride=attrs.get("strides", [1, 1]), groups=attrs.get("group", 1))
            elif n.op_type == "Clip": y = torch.clamp(v[0], float(v[1]), float(v[2]))
            else: y = {"Relu": lambda: F.relu(v[0]), "Add": lambda: v[0] + v[1]}[n.op_type]()
            values[n.output[0]] = y if mode == "float" or n.output[0] == self.exit and not end else self.quantize(n.output[0], y, drop)
        return values[self.exit]


def learn(k, x, steps):
    """Learns the rounding; the seconds of the steps, of the processor and of the clock."""
    with torch.no_grad():
        target = k.run(x, "float")
        unit = ((k.run(x, "hard", end=False) - target) ** 2).sum() / len(x)
    soft = [v for _, _, v, _, _ in k.weights.values()]
    count, best = sum(v.numel() for v in soft), (float("inf"), None)
    rounding = torch.optim.Adam(soft, lr=0.05)
    shift = [torch.zeros_like(b).requires_grad_() for *_, b, _ in k.weights.values()]  # in units, so that one rate serves all channels
    first = [b.detach().clone() for *_, b, _ in k.weights.values()]
    biases = torch.optim.Adam(shift, lr=0.01)
    last, start = int(steps * 0.85), np.array([time.process_time(), time.perf_counter()])
    for n in range(1, steps + 1):
        at = n / last
        for i, (name, (lower, s, v, _, unit_b)) in enumerate(k.weights.items()): k.weights[name] = lower, s, v, first[i] + shift[i] * unit_b, unit_b
        pick = torch.randperm(len(x))[:16]
        y = k.run(x[pick], "soft" if at <= 1 else "hard", drop=True, end=False)
        loss = ((y - target[pick]) ** 2).sum() / len(pick) / unit
        regular = (at - 0.2) / 0.8
        if 0 < regular and at <= 1:
            h = torch.cat([torch.clamp(torch.sigmoid(v) * 1.2 - 0.1, 0, 1).flatten() for v in soft])
            loss = loss + 60 * (1 - (2 * h - 1).abs() ** (2 + 18 * max(1 - regular, 0))).sum() / count
        rounding.zero_grad(); biases.zero_grad()
        loss.backward()
        if at <= 1: rounding.step()
        for g in biases.param_groups: g["lr"] = 0.01 * (max(1 - at, 0) if at <= 1 else 1 - (at - 1) / (1 / 0.85 - 1))
        biases.step()
        if n == steps or n > last / 2 and n % max(steps // 10, 1) == 0:
            with torch.no_grad():
                for i, (name, (lower, s, v, _, unit_b)) in enumerate(k.weights.items()):
                    k.weights[name] = lower, s, v, first[i] + shift[i] * unit_b, unit_b
                e = float(((k.run(x, "hard", end=False) - target) ** 2).sum())
            if e < best[0]: best = e, {name: (lower, s, v.detach().clone(), b.detach().clone(), u) for name, (lower, s, v, b, u) in k.weights.items()}
    took = np.array([time.process_time(), time.perf_counter()]) - start
    if best[1]: k.weights = best[1]
    return took


def nsr(y, t):
    """By sample: mean and standard error."""
    d = np.array([float(((p - q) ** 2).sum() / (q ** 2).sum()) for p, q in zip(y, t)])
    return d.mean(), d.std(ddof=1) / len(d) ** 0.5


def outputs(folder, plan, name):
    out = os.path.join(folder, name)
    qwb("run", plan, "--mode", "sim", "--data", os.path.join(folder, "unseen"), "--output", out)
    return [torch.tensor(np.load(os.path.join(out, f))).flatten() for f in sorted(os.listdir(out))]


def main():
    print("| block | before | qwb | PyTorch | qwb, ms a step | PyTorch, ms a step | qwb, by the clock | PyTorch, by the clock |\n|" + " --- |" * 8)
    for i, (model, *rest) in enumerate(BLOCKS):
        if a.only not in (-1, i): continue
        with tempfile.TemporaryDirectory() as folder:
            path, fit, unseen = block(folder, model, *rest)
            plan = os.path.join(folder, "b.plan.json")
            qwb("calibrate", path, "--data", os.path.join(folder, "fit"), "--platform", platform(folder), "-o", plan)
            with open(plan, "rb") as f: calibrated = f.read()
            target = Block(path, json.loads(calibrated)).run(unseen, "float")
            flat = [t.flatten() for t in target]
            before = nsr(outputs(folder, plan, "before"), flat)
            ours, theirs = [], []
            for turn in range(a.turns):
                k = Block(path, json.loads(calibrated))
                theirs.append(learn(k, fit, a.steps) / a.steps)
                took = []
                for steps in (a.steps // 3, a.steps):
                    with open(plan, "wb") as f: f.write(calibrated)
                    took.append(qwb("tune", plan, "--method", "block", "--steps", steps, "--samples", 64, "--force", "--threads", a.threads)[1])
                ours.append((took[1] - took[0]) / (a.steps - a.steps // 3))
            with torch.no_grad(): peer = nsr([y.flatten() for y in k.run(unseen, "hard")], flat)
            own = nsr(outputs(folder, plan, "after"), flat)
            text = lambda e: f"{e[0]:.3g} ± {e[1]:.1g}"
            times = [f"{1000 * np.median(x[:, by]):.1f} ({1000 * min(x[:, by]):.1f} to {1000 * max(x[:, by]):.1f})" for by in (0, 1)
                     for x in (np.array(ours), np.array(theirs))]
            print(f"| {os.path.basename(model)}, {rest[2]} to {rest[3]} | {text(before)} | {text(own)} | {text(peer)} | {' | '.join(times)} |", flush=True)


if __name__ == "__main__":
    main()
