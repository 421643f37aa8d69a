"""Plans, and what needs none: the commands of qwb as functions. Keyword arguments that are not named here become flags: samples=64 is
--samples 64; help(calibrate) and the like list them, docs/cli.md says more."""

from __future__ import annotations

import inspect as inspect_module
import os
import tempfile
from typing import Any, Callable, Optional, TypeVar

from . import _metric, results
from ._options import OPTIONS
from ._feeds import Labels, Samples, as_model, is_path, numpy
from ._process import InputError, flags, run_command
from ._report import Report


F = TypeVar("F", bound=Callable[..., Any])


def _keywords(command: str) -> Callable[[F], F]:
    """Says in the help of a function which keywords it passes on to a command."""
    def documented(function: F) -> F:
        names = inspect_module.signature(function).parameters
        rows = [f"{name}: {doc}" for name, (_, doc) in OPTIONS[command].items() if name not in names]
        function.__doc__ = "\n    ".join([(function.__doc__ or "").rstrip() + "\n", f"Further keywords, as of qwb {command}:", *rows])
        return function
    return documented


@_keywords("calibrate")
def calibrate(model, data=None, platform="onnxruntime", output=None, example=None, progress=None, **options) -> "Plan":
    """Runs the float model on data, observes every tensor and chooses scales for a platform.

    model: the path of an ONNX model; or a module of torch, exported to an ONNX file beside the plan with the tensors of example= (or the first
    sample of data); or an onnx.ModelProto.
    data: a path or paths (docs/data.md), an array with a sample in each row, a dict of such arrays by input, or a list of samples. Arrays lie
    in a temporary folder as long as the plan is in use. Not needed where the model has statistics.
    output: the path of the plan; by default MODEL.plan.json in the current folder.
    """
    model, output = as_model(model, output, data, example)
    samples = Samples(data) if data is not None else None
    result = run_command(["calibrate", model, *flags({"data": samples and samples.paths, "platform": platform, "output": output, **options})], progress)
    plan = Plan(result.plan, progress)
    plan.calibration, plan._samples = result, samples
    return plan


@_keywords("import")
def import_model(model, output=None, data=None, progress=None, **options) -> "Plan":
    """Makes a plan of an ONNX model that another tool has quantized; the float model behind it is written beside it."""
    samples = Samples(data) if data is not None else None
    try:
        result = run_command(["import", model, *flags({"output": output, "data": samples and samples.paths, **options})], progress)
    finally:
        samples and samples.close()
    plan = Plan(result.plan, progress)
    plan.imported = result
    return plan


@_keywords("inspect")
def inspect(model, progress=None, **options) -> results.Inspection:
    """What is in a model: operators, shapes, work, what each platform would quantize."""
    return run_command(["inspect", model, *flags(options)], progress)


@_keywords("bind")
def bind(model, output, progress=None, **options) -> results.Result:
    """Writes a copy of a model with fixed inputs (input=["sr=16000"]), shapes and sizes."""
    return run_command(["bind", model, *flags({"output": output, **options})], progress)


@_keywords("generate")
def generate(checkpoint, prompt, progress=None, **options) -> results.Generation:
    """Continues a text with a language model."""
    return run_command(["generate", checkpoint, *flags({"prompt": prompt, **options})], progress)


@_keywords("eval")
def eval(model, data=None, labels=None, progress=None, **options) -> results.Evaluation:
    """Counts right answers of a model in float; or, of a checkpoint with text=FILE, scores a text."""
    return _evaluate(model, Samples(data) if data is not None else None, labels, progress, options)


def _evaluate(what, samples, labels, progress, options, own=None):
    given = Labels(labels, samples or own)
    try:
        return run_command(["eval", what, *flags({"data": samples and samples.paths, "labels": given.path, **options})], progress)
    finally:
        given.close()
        samples and samples.close()


class Plan:
    """A plan: the decisions about a model, and all scales that follow from them, in a file.

    Every method runs a command on the file, which it changes where the command does. data= is what calibrate takes; without it the
    plan's own samples are used. progress= of the constructor gets every line of warnings and progress (None: standard error, False: nowhere).
    """

    calibration: Optional[results.Calibration] = None  # a results.Calibration where calibrate made this object
    imported: Optional[results.Imported] = None

    def __init__(self, path, progress=None):
        self.path, self.progress = os.path.abspath(path), progress
        self._samples = None

    def __repr__(self):
        return f"Plan({self.path!r})"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """Removes the temporary folder of data that came as arrays. The plan stays."""
        if self._samples is not None:
            self._samples.close()

    def _run(self, command, *args, **options):
        return run_command([*command.split(), self.path, *args, *flags(options)], self.progress)

    def _with(self, command, data, options):
        samples = Samples(data) if data is not None else None
        try:
            return self._run(command, **{"data": samples and samples.paths, **options})
        finally:
            samples and samples.close()

    # Looking

    @_keywords("analyze")
    def analyze(self, data=None, html=None, **options) -> results.Analysis:
        """Measures the error: layerwise=True, graphwise=True, statistical=True choose (none: all three). Jupyter shows the report, which
        html= also writes to a file."""
        with tempfile.TemporaryDirectory(prefix="qwb-report-") as folder:
            page = os.fspath(html) if html else os.path.join(folder, "report.html")
            result = self._with("analyze", data, {"html": page, **options})
            with open(page, encoding="utf-8") as f:
                result.report = Report(f.read())
        return result

    def show(self) -> results.Summary:
        return self._run("plan show")

    def log(self) -> results.Log:
        return self._run("plan log")

    def explain(self, node) -> results.Explanation:
        """What holds for an operator, and which decisions that comes from."""
        return run_command(["plan", "explain", node, self.path], self.progress)

    def diff(self, other) -> results.Comparison:
        """Compares with another plan or quantized model."""
        return self._run("diff", other.path if isinstance(other, Plan) else other)

    def recipe(self) -> str:
        """The decisions in force as YAML, for recipe= of calibrate."""
        return self._run("plan recipe")

    # Deciding

    def set(self, selector, **properties) -> results.Decided:
        """Decides something of the operators or tensors that a selector names: plan.set("type:Softmax", domain="fp32")."""
        return self._run("set", selector, *[f"{k}={_value(v)}" for k, v in properties.items()])

    def unset(self, what) -> results.Decided:
        """Takes decisions back: by selector, or by number in the log."""
        return self._run("unset", f"#{what}" if isinstance(what, int) else what)

    def undo(self) -> results.Decided:
        return self._run("plan undo")

    def redo(self) -> results.Decided:
        return self._run("plan redo")

    def rederive(self) -> results.Decided:
        return self._run("plan rederive")

    @_keywords("dispatch")
    def dispatch(self, data=None, labels=None, **options) -> results.Dispatch:
        """Keeps operators in float: fp32="SELECTORS", or auto=True with max_nsr=, min_cosine= or max_drop=."""
        samples = Samples(data) if data is not None else None
        given = Labels(labels, samples or self._samples)
        try:
            return self._run("dispatch", **{"data": samples and samples.paths, "labels": given.path, **options})
        finally:
            given.close()
            samples and samples.close()

    @_keywords("tune")
    def tune(self, data=None, method="auto", **options) -> results.Tuning:
        """Repairs the error: changes biases, weights and scales, and keeps what held-out samples confirm."""
        methods = method if isinstance(method, str) else ",".join(method)
        return self._with("tune", data, {"method": methods, **options})

    # Checking

    @_keywords("eval")
    def eval(self, data=None, labels=None, mode="int8", **options) -> results.Evaluation:
        """Counts right answers, in float and as the plan quantizes. mode: fp32, sim (simulated) or int8 (the integer program)."""
        return _evaluate(self.path, Samples(data) if data is not None else None, labels, self.progress, {"mode": mode, **options}, self._samples)

    @_keywords("verify")
    def verify(self, data=None, **options) -> results.Verification:
        """Runs the integers and holds them against plan and simulation; VerdictError where they differ."""
        return self._with("verify", data, options)

    @_keywords("run")
    def outputs(self, mode="sim", data=None, **options):
        """The outputs of the model on data: an array with a sample in each row, a dict of such arrays where there are several outputs, a list
        where samples differ in shape. mode: fp32, sim or int8."""
        return _metric.stacked(self._outputs(mode, data, options))

    def _outputs(self, mode, data, options):
        np = numpy()
        with tempfile.TemporaryDirectory(prefix="qwb-outputs-") as folder:
            out = []
            for path in self._with("run", data, {"mode": mode, "output": folder, **options}).files:
                if path.endswith(".npz"):
                    with np.load(path) as several:
                        out.append({name: several[name] for name in several.files})
                else:
                    out.append(np.load(path))
        return out

    def metric(self, function, labels=None, data=None, mode="int8", resamples=200, seed=0, **options) -> _metric.Metric:
        """A metric of your own, in float and quantized, with the error of the difference.

        function(outputs, labels) returns a number. outputs is what Plan.outputs returns; labels is what is given here: anything with one entry
        for each sample, in the order of the data (files: by name). It is called for all samples and for resamples choices of them.
        """
        samples = Samples(data) if data is not None else None
        try:
            paths = samples.paths if samples else None
            before, after = self._outputs("fp32", paths, options), self._outputs(mode, paths, options)
        finally:
            samples and samples.close()
        n = len(before)
        if labels is not None and not hasattr(labels, "shape"):
            labels = list(labels)
        if labels is not None and len(labels) != n:
            raise InputError(f"metric: {len(labels)} labels for {n} samples")
        return _metric.measure(function, _metric.stacked(before), _metric.stacked(after), labels, n, mode, resamples, seed)

    # Writing

    @_keywords("export")
    def export(self, output=None, platform=None, **options) -> results.Export:
        """Writes the quantized model, for the plan's own platform; format="c" and others: docs/cli.md."""
        if platform is None and options.get("format", "onnx") == "onnx":
            platform = self.show().platform
        return self._run("export", **{"output": output, "platform": platform, **options})


def _value(v) -> str:
    if isinstance(v, bool):
        return "true" if v else "false"
    return ";".join(_value(x) for x in v) if isinstance(v, (list, tuple)) else str(v)
