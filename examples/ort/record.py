"""Run an ONNX model in ONNX Runtime with graph optimizations off and record every tensor.

    python record.py MODEL OUT INPUT.npy [INPUT.npy ...]       a model with one input: one run per file
    python record.py MODEL OUT INPUTS.npz [INPUTS.npz ...]     several inputs, by name

Run number i is written to OUT/i: names.json lists the tensors in the order of computation, tensor number k is in k.npy. Graph
inputs are recorded as well. Needs the packages numpy, onnx and onnxruntime.
"""
import json
import os
import sys

import numpy as np
import onnx
import onnxruntime


def main(model, out, *files):
    m = onnx.load(model)
    onnx.checker.check_model(m, full_check=True)
    outputs = {o.name for o in m.graph.output}
    for node in m.graph.node:
        for name in node.output:
            if name and name not in outputs:  # every tensor an output: none can be fused away
                m.graph.output.append(onnx.ValueInfoProto(name=name))
                outputs.add(name)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(m.SerializeToString(), options, providers=["CPUExecutionProvider"])
    inputs = [i.name for i in session.get_inputs()]
    names = [name for node in m.graph.node for name in node.output if name]
    for i, file in enumerate(files):
        data = np.load(file)
        feeds = {name: data[name] for name in inputs} if file.endswith(".npz") else {inputs[0]: data}
        folder = os.path.join(out, str(i))
        os.makedirs(folder, exist_ok=True)
        recorded = list(feeds.values()) + session.run(names, feeds)
        for k, tensor in enumerate(recorded):
            np.save(os.path.join(folder, f"{k}.npy"), np.ascontiguousarray(tensor) if np.ndim(tensor) else tensor)
        with open(os.path.join(folder, "names.json"), "w") as f:
            json.dump(list(feeds) + names, f, indent=0)


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
