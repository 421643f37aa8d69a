#!/usr/bin/env python3
"""AIMET's quantization simulated by AIMET, on the networks of networks2026.py: NSR of the worst output on unseen samples.

  aimet_networks.py WORK NETWORK...

WORK holds NETWORK.onnx and NETWORK/calibration, NETWORK/unseen. Weights int8 per channel and activations uint8 by AIMET's default configuration, once
with its scheme min_max and once with tf_enhanced, as calibrated. No engine runs the files: float operators with quantizers between, by ONNX Runtime.
Needs: pip install aimet-onnx==2.42.0 onnxruntime numpy.
"""
import glob, logging, os, sys
import numpy as np, onnx, onnxruntime as ort
from aimet_onnx.common.defs import QuantScheme
from aimet_onnx.quantsim import QuantizationSimModel
from aimet_onnx.utils import duplicate_shared_initializers

work, names = sys.argv[1], sys.argv[2:]
ort.set_default_logger_severity(4)
logging.disable(logging.WARNING)


def run(session, samples):
    outputs, inputs = [x.name for x in session.get_outputs()], [i.name for i in session.get_inputs()]
    return [dict(zip(outputs, session.run(None, {n: x[n] for n in inputs}))) for x in samples]


def nsr(got, want):
    each = lambda k: np.mean([np.sum((np.float64(g) - np.float64(w[k])) ** 2) / max(np.sum(np.float64(w[k]) ** 2), 1e-30)
                              for g, w in zip(map(lambda x: list(x.values())[list(want[0]).index(k)], got), want)])
    return max(each(k) for k, v in want[0].items() if v.dtype.kind == "f")


print("| network | min_max | tf_enhanced |\n|---|---|---|")
for name in names:
    file = os.path.join(work, name + ".bound.onnx")
    if not os.path.exists(file): file = os.path.join(work, name + ".onnx")
    samples = {p: [dict(np.load(f)) for f in sorted(glob.glob(os.path.join(work, name, p, "*.npz")))] for p in ("calibration", "unseen")}
    want, row = run(ort.InferenceSession(file, providers=["CPUExecutionProvider"]), samples["unseen"]), []
    for scheme in (QuantScheme.min_max, QuantScheme.post_training_tf_enhanced):
        try:
            model = onnx.load(file)
            duplicate_shared_initializers(model.graph)
            sim = QuantizationSimModel(model, quant_scheme=scheme, providers=["CPUExecutionProvider"])
            sim.compute_encodings(lambda s: run(s, samples["calibration"]))
            row.append(f"{nsr(run(sim.session, samples['unseen']), want):.2g}")
        except Exception as e:
            row.append(f"{type(e).__name__}: {str(e).strip().splitlines()[-1][:120] if str(e).strip() else ''}")
    print(f"| {name} | {' | '.join(row)} |", flush=True)
