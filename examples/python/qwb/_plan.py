"""Plans, and what needs none: the commands of qwb as functions. Keyword arguments that are not named here become flags: samples=64 is
--samples 64; help(calibrate) and the like list them, docs/cli.md says more."""

from __future__ import annotations

import contextlib
import inspect as inspect_module
import os
import tempfile
from typing import Any, Callable, Optional, TypeVar

from . import _metric, results
from ._asked import Asked
from ._options import OPTIONS
from ._feeds import Labels, Samples, as_model, is_path, numpy
from ._process import UsageError, flags, run_command
from ._report import Picture, Report


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
        _close(samples)
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
    return _evaluate("eval", model, Samples(data) if data is not None else None, labels, progress, options)


def _evaluate(command, what, samples, labels, progress, options, own=None):
    """Runs a command that scores outputs. metric may be a function, which the command then asks."""
    with contextlib.ExitStack() as stack:
        if samples:
            stack.callback(samples.close)
        if callable(options.get("metric")):
            asked = stack.enter_context(Asked(options["metric"], labels, samples or own))
            options = {**options, "metric": None, "metric_cmd": asked}
            labels = labels if is_path(labels) else None
        given = Labels(labels, samples or own)
        stack.callback(given.close)
        return run_command([command, what, *flags({"data": samples and samples.paths, "labels": given.path, **options})], progress)


def _close(samples: Optional[Samples]) -> None:
    if samples is not None:
        samples.close()


class Plan:
    """A plan: the decisions about a model, and all scales that follow from them, in a file.

    Every method runs a command on the file, which it changes where the command does. data= is what calibrate takes; without it the
    plan's own samples are used. progress= of the constructor gets every line of warnings and progress (None: standard error, False: nowhere).
    """

    calibration: Optional[results.Calibration] = None  # a results.Calibration where calibrate made this object
    imported: Optional[results.Imported] = None
    _samples: Optional[Samples] = None

    def __init__(self, path, progress=None):
        self.path, self.progress = os.path.abspath(path), progress

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
            _close(samples)

    # Looking

    @_keywords("analyze")
    def analyze(self, data=None, html=None, png=None, metric=None, labels=None, nodes=5, **options) -> results.Analysis:
        """Measures the error: layerwise=True, graphwise=True, statistical=True choose (none: all three). Jupyter shows the report, which
        html= also writes to a file. png=True makes pictures of it, a path also writes them there.

        metric: a function as of Plan.metric, with its labels; gains then says what it changes by where one of the nodes (a number: so many
        of those that layerwise finds the worst; or names) is kept in float.
        """
        with tempfile.TemporaryDirectory(prefix="qwb-report-") as folder:
            page = os.fspath(html) if html else os.path.join(folder, "report.html")
            plots = None if not png else os.path.join(folder, "plots") if png is True else os.fspath(png)
            result = self._with("analyze", data, {"html": page, "png": plots, **options})
            with open(page, encoding="utf-8") as f:
                result.report = Report(f.read())
            if plots:
                drawn = sorted(name for name in os.listdir(plots) if name.endswith(".png"))
                result.pictures = {name[:-4]: Picture(_bytes(os.path.join(plots, name))) for name in drawn}
            if metric is not None:
                result.gains = self._gains(metric, labels, data, result.worst(nodes) if isinstance(nodes, int) else nodes, folder, options)
        return result

    def _gains(self, metric, labels, data, nodes, folder, options):
        """Copies of the plan with one node more in float, and what the metric says of each beside the plan itself."""
        given, about = Samples(data) if data is not None else None, self.show()
        model = os.path.join(os.path.dirname(self.path), about.model["path"])
        options = {k: options[k] for k in ("samples", "seed", "preprocess", "state") if k in options}
        try:
            paths = given and given.paths
            before, gains = self._outputs("sim", paths, options), []
            for node in nodes:
                name, op = (node.node, node.op) if isinstance(node, results.NodeError) else (node, None)
                copy = os.path.join(folder, f"{len(gains)}.plan.json")
                run_command(["calibrate", model, "--from", self.path, "--platform", about.platform, "-o", copy], False)
                other = Plan(copy, False)
                other.set(name, domain="fp32")
                m = _metric.measure(metric, before, other._outputs("sim", paths, options), labels, "sim")
                gains.append(results.Gain.from_json({"node": name, "op": op, "change": m.change, "error": m.error, "low": m.low, "high": m.high}))
        finally:
            _close(given)
        return results.Rows(sorted(gains, key=lambda g: -g.change))

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
        return _evaluate("dispatch", self.path, Samples(data) if data is not None else None, labels, self.progress, options, self._samples)

    @_keywords("tune")
    def tune(self, data=None, method="auto", metric=None, judge=None, labels=None, **options) -> results.Tuning:
        """Repairs the error: changes biases, weights and scales, and keeps what held-out samples confirm.

        metric: a function as of Plan.metric, the larger the better, that judges the plan before and after on samples judge (not those of
        data=) and their labels. Where it is worse, beyond its 95 %, the plan is left as it was.
        """
        methods = method if isinstance(method, str) else ",".join(method)
        if metric is None:
            return self._with("tune", data, {"method": methods, **options})
        if judge is None:
            raise UsageError("tune: a metric needs judge=, samples that tuning does not see")
        samples = Samples(judge)
        try:
            before = self._outputs("sim", samples.paths, {})
            result = self._with("tune", data, {"method": methods, **options})
            result.metric = _metric.measure(metric, before, self._outputs("sim", samples.paths, {}), labels, "sim")
        finally:
            samples.close()
        if result.metric.high < 0:
            self.undo()
            result.undone = True
        return result

    # Checking

    @_keywords("eval")
    def eval(self, data=None, labels=None, mode="int8", **options) -> results.Evaluation:
        """Counts right answers, in float and as the plan quantizes. mode: fp32, sim (simulated) or int8 (the integer program)."""
        return _evaluate("eval", self.path, Samples(data) if data is not None else None, labels, self.progress, {"mode": mode, **options}, self._samples)

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
            _close(samples)
        return _metric.measure(function, before, after, labels, mode, resamples, seed)

    # Writing

    @_keywords("export")
    def export(self, output=None, platform=None, **options) -> results.Export:
        """Writes the quantized model, for the plan's own platform; format="c" and others: docs/cli.md."""
        if platform is None and options.get("format", "onnx") == "onnx":
            platform = self.show().platform
        return self._run("export", **{"output": output, "platform": platform, **options})


def _bytes(path) -> bytes:
    with open(path, "rb") as f:
        return f.read()


def _value(v) -> str:
    if isinstance(v, bool):
        return "true" if v else "false"
    return ";".join(_value(x) for x in v) if isinstance(v, (list, tuple)) else str(v)
