"""qwb from Python: quantize a network, see what that did to it, repair it, export it.

    import qwb
    plan = qwb.calibrate("model.onnx", data="images/", preprocess="imagenet-torch", platform="onnxruntime")
    plan.analyze()                      # a report, shown by Jupyter
    plan.tune()
    plan.eval(data="images/", labels="labels.tsv", mode="int8").drop
    plan.export("model.int8.onnx")

The work is done by the program qwb, which the package carries; docs/python.md has the rest. Importing the package needs
nothing but Python; NumPy is needed where arrays come in or go out.
"""

from . import results
from ._plan import Plan, bind, calibrate, eval, generate, import_model, inspect
from ._process import InputError, QwbError, UsageError, VerdictError, binary, run_command
from ._report import Picture, Report
from ._metric import Metric
from .results import *  # noqa: F401,F403: the results of the commands

__all__ = ["Plan", "bind", "calibrate", "eval", "generate", "import_model", "inspect", "InputError", "QwbError", "UsageError",
           "VerdictError", "binary", "run_command", "Picture", "Report", "Metric"]
__all__ += results.__all__
