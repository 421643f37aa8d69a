#!/usr/bin/env python3
"""Times torch on the GPU for what qwb bench cuda measured, and writes one JSON object, again after every case.

torch_compare.py kernels --with FILE -o OUT    8-bit integer products (torch._int_mm, which is cuBLASLt) of the shapes in FILE
torch_compare.py networks --with FILE -o OUT   ResNet-50 in bfloat16, channels-last, at the batches in FILE
FILE is what qwb bench cuda --json printed. Ratios are qwb's speed over torch's.
"""
import argparse
import json
import os
import re
import statistics

import torch
from torch import nn


def captured(work):
    """Returns work as a CUDA graph, so that launching costs nothing, or as it is where it cannot be captured."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            work()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    return graph.replay


def seconds(work, rounds=9, span=0.01):
    """Median over rounds of the device's time for one run."""
    for _ in range(3):
        work()
    torch.cuda.synchronize()

    def timed(n):
        first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        first.record()
        for _ in range(n):
            work()
        last.record()
        torch.cuda.synchronize()
        return first.elapsed_time(last) / 1e3

    n = max(1, min(1000, int(span / max(timed(1), 1e-6))))
    return statistics.median(timed(n) / n for _ in range(rounds))


def product(m, n, k):
    a = torch.randint(-128, 128, (m, k), dtype=torch.int8, device="cuda")
    b = torch.randint(-128, 128, (n, k), dtype=torch.int8, device="cuda").t()  # column-major, as cuBLASLt has it fastest
    out = torch.empty((m, n), dtype=torch.int32, device="cuda")
    # Several products in one graph: a short one does not wait for its launch.
    times = max(1, min(64, int(2e11 / (2.0 * m * n * k))))

    def work():
        for _ in range(times):
            torch._int_mm(a, b, out=out)

    return seconds(captured(work)) / times


def kernels(measured, report):
    for x in measured["results"]:
        shape = re.search(r"^gemm\b.* m=(\d+) n=(\d+) k=(\d+)", x["name"])
        if not shape:
            continue
        m, n, k = map(int, shape.groups())
        row = {"name": x["name"], "m": m, "n": n, "k": k}
        try:
            took = product(m, n, k)
            row.update(seconds=took, gops=2.0 * m * n * k / took / 1e9, ratio=took / x["seconds"])
        except Exception as e:  # a shape that cuBLASLt does not take
            row["error"] = (str(e).splitlines() or [repr(e)])[0]
        report(row)


class Block(nn.Module):
    def __init__(self, channels, inner, stride):
        super().__init__()
        self.a = nn.Conv2d(channels, inner, 1)
        self.b = nn.Conv2d(inner, inner, 3, stride, 1)
        self.c = nn.Conv2d(inner, 4 * inner, 1)
        self.side = nn.Conv2d(channels, 4 * inner, 1, stride) if channels != 4 * inner or stride != 1 else nn.Identity()

    def forward(self, x):
        y = torch.relu(self.a(x))
        y = torch.relu(self.b(y))
        return torch.relu(self.c(y) + self.side(x))


def resnet50(width):
    """The network of qwb's benchmark: normalisations folded."""
    layers, channels = [nn.Conv2d(3, width, 7, 2, 3), nn.ReLU(), nn.MaxPool2d(3, 2, 1)], width
    for stage, blocks in enumerate((3, 4, 6, 3)):
        for i in range(blocks):
            inner = width << stage
            layers.append(Block(channels, inner, 2 if stage and not i else 1))
            channels = 4 * inner
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 1000 * width // 64))


def networks(measured, report):
    # As it is first, for all batches: compiling takes minutes.
    for compiled in (False, True):
        for x in measured["results"]:
            width, size, batch = map(int, re.search(r"width=(\d+) size=(\d+) batch=(\d+)", x["name"]).groups())
            row = {"name": x["name"], "batch": batch, "compiled": compiled}
            try:
                net = resnet50(width).to("cuda", torch.bfloat16, memory_format=torch.channels_last).eval()
                if compiled:
                    net = torch.compile(net)
                feed = torch.randn(batch, 3, size, size, device="cuda", dtype=torch.bfloat16).to(memory_format=torch.channels_last)
                with torch.inference_mode():
                    took = seconds(captured(lambda: net(feed)))
                row.update(seconds=took, images_per_second=batch / took, ratio=x["images_per_second"] * took / batch)
            except Exception as e:
                row["error"] = (str(e).splitlines() or [repr(e)])[0]
            report(row)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("what", choices=["kernels", "networks"])
    p.add_argument("--with", dest="file", required=True)
    p.add_argument("-o", dest="out", required=True)
    o = p.parse_args()
    with open(o.file, encoding="utf-8") as f:
        measured = json.load(f)
    torch.backends.cudnn.benchmark = True
    whole = {"torch": torch.__version__, "cuda": torch.version.cuda, "device": torch.cuda.get_device_name(), "results": []}

    def report(row):
        whole["results"].append(row)
        with open(o.out + ".part", "w", encoding="utf-8") as f:
            json.dump(whole, f, indent=2)
        os.replace(o.out + ".part", o.out)

    (kernels if o.what == "kernels" else networks)(measured, report)


if __name__ == "__main__":
    main()
