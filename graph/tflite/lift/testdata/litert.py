"""Runs the models that TestOperators writes, by LiteRT's own kernels: litert.py DIR > litert.json (pip install ai-edge-litert==2.3.0 numpy)."""
import glob, json, os, sys
import numpy as np
from ai_edge_litert.interpreter import Interpreter, OpResolverType

results = {}
for path in sorted(glob.glob(os.path.join(sys.argv[1], "*.tflite"))):
    run = Interpreter(path, experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES)
    run.allocate_tensors()
    given = run.get_input_details()[0]
    run.set_tensor(given["index"], np.fromfile(path[:-7] + ".raw", np.float32).reshape(given["shape"]))
    run.invoke()
    outputs = [run.get_tensor(d["index"]) for d in run.get_output_details()]
    for d, y in zip(run.get_output_details(), outputs): print(path, d["name"], y.shape, file=sys.stderr)
    results[os.path.basename(path)[:-7]] = [[float(v) for v in y.ravel()] for y in outputs]
print(json.dumps(results, indent=0, allow_nan=False))
