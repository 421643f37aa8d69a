"""What the commands return, with the keys that docs/cli.md lists.

Every field is None where the JSON has no such key. Keys without a field stand in extra, the whole object in raw; r["key"]
is raw["key"]. NSR is the energy of the error over that of the float values, mean over the samples.
"""

from __future__ import annotations

import dataclasses
import functools
import html
import typing
from dataclasses import dataclass
from typing import Any, Dict, List, Optional


Number = float  # the type: Score has a field of that name


class Result:
    """An object of JSON with its keys as attributes."""

    extra: Dict[str, Any]
    raw: Dict[str, Any]

    def __init_subclass__(cls):
        dataclass(cls, repr=False)

    @classmethod
    def from_json(cls, obj):
        self = cls()
        types = _types(cls)
        for key, value in obj.items():
            if key in types:
                setattr(self, key, _convert(types[key], value))
        self.raw, self.extra = obj, {k: v for k, v in obj.items() if k not in types}
        return self

    def __getitem__(self, key):
        return self.raw[key]

    def __repr__(self):
        shown = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)} if dataclasses.is_dataclass(self) else self.raw
        return f"{type(self).__name__}({', '.join(f'{k}={_short(v)}' for k, v in shown.items() if v is not None)})"


def _short(value):
    if isinstance(value, (list, dict)) and len(value) > 3:
        return f"<{len(value)} {'items' if isinstance(value, list) else 'keys'}>"
    return repr(value)


@functools.lru_cache(maxsize=None)
def _types(cls):
    hints = typing.get_type_hints(cls)
    return {f.name: hints[f.name] for f in dataclasses.fields(cls)} if dataclasses.is_dataclass(cls) else {}


def _convert(hint, value):
    args = [a for a in typing.get_args(hint) if a is not type(None)]
    if value is None or hint is Any:
        return value
    if typing.get_origin(hint) is typing.Union:
        return _convert(args[0], value)
    if typing.get_origin(hint) is list:
        return Rows(_convert(args[0], v) for v in value)
    if isinstance(hint, type) and issubclass(hint, Result):
        return hint.from_json(value)
    return value


class Rows(list):
    """A list of results, which Jupyter shows as a table of the fields that have a number, a word or a truth value."""

    def _repr_html_(self):
        kinds = (str, int, float, bool)
        names = [f.name for f in dataclasses.fields(self[0])] if self and dataclasses.is_dataclass(self[0]) else []
        names = [n for n in names if any(isinstance(getattr(r, n), kinds) for r in self)]
        if not names:
            return None
        lines = [[_cell(getattr(r, n)) for n in names] for r in self]
        return "<table>" + "".join(f"<tr>{''.join(row)}</tr>" for row in [[f"<th>{n}</th>" for n in names], *lines]) + "</table>"


def _cell(value):
    text = "" if value is None or isinstance(value, (list, dict)) else f"{value:.4g}" if isinstance(value, float) else str(value)
    return f"<td>{html.escape(text)}</td>"


class Note(Result):
    """A warning: what to know about a node or tensor."""
    node: Optional[str] = None
    text: Optional[str] = None
    value: Optional[float] = None


class Tensor(Result):
    name: Optional[str] = None
    dtype: Optional[str] = None
    shape: Optional[list] = None


class Operator(Result):
    name: Optional[str] = None
    op: Optional[str] = None
    shape: Optional[list] = None
    macs: Optional[int] = None
    bytes: Optional[int] = None
    intensity: Optional[float] = None


class OperatorSupport(Result):
    """Where an operator runs on a target (integer, float, host, shape, unsupported, unknown), and by which rule."""
    node: Optional[str] = None
    op: Optional[str] = None
    tensor: Optional[str] = None
    where: Optional[str] = None
    rule: Optional[str] = None
    reason: Optional[str] = None
    macs: Optional[int] = None


class Support(Result):
    platform: Optional[str] = None
    format: Optional[str] = None
    engine: Optional[str] = None
    profile: Optional[str] = None
    known: Optional[bool] = None
    tried: Optional[bool] = None
    nodes: Optional[List[OperatorSupport]] = None


class Inspection(Result):
    model: Optional[str] = None
    opset: Optional[int] = None
    inputs: Optional[List[Tensor]] = None
    outputs: Optional[List[Tensor]] = None
    nodes: Optional[List[Operator]] = None
    parameters: Optional[int] = None
    macs: Optional[int] = None
    unsupported: Optional[list] = None
    support: Optional[Support] = None


class Calibration(Result):
    plan: Optional[str] = None
    stats: Optional[str] = None
    samples: Optional[int] = None
    seconds: Optional[float] = None
    forward_seconds: Optional[float] = None
    peak_rss_bytes: Optional[int] = None
    warnings: Optional[List[Note]] = None


class NodeError(Result):
    """The error at a node (graphwise), or at the outputs with this node alone quantized (layerwise)."""
    node: Optional[str] = None
    op: Optional[str] = None
    nsr: Optional[float] = None
    nsr_error: Optional[float] = None
    mse: Optional[float] = None
    cosine: Optional[float] = None
    local: Optional[float] = None
    clip: Optional[float] = None
    round: Optional[float] = None


class TensorStatistics(Result):
    tensor: Optional[str] = None
    min: Optional[float] = None
    max: Optional[float] = None
    mean: Optional[float] = None
    std: Optional[float] = None
    zeros: Optional[float] = None


class Gain(Result):
    """What a metric of one's own changes by where a node stays in float: change, its standard error, and 95 % between low and high."""
    node: Optional[str] = None
    op: Optional[str] = None
    change: Optional[float] = None
    error: Optional[float] = None
    low: Optional[float] = None
    high: Optional[float] = None


class Score(Result):
    """A metric of eval, float and quantized; drop is a loss, in percentage points of one that is a share (percent)."""
    name: Optional[str] = None
    against: Optional[str] = None
    percent: Optional[bool] = None
    value: Optional[Number] = None
    float: Optional[Number] = None
    drop: Optional[Number] = None
    drop_error: Optional[Number] = None


class Analysis(Result):
    """What analyze measured. Jupyter shows it as the report."""
    graphwise: Optional[List[NodeError]] = None
    layerwise: Optional[List[NodeError]] = None
    statistical: Optional[List[TensorStatistics]] = None
    outputs: Optional[list] = None
    samples: Optional[int] = None
    seconds: Optional[float] = None
    forwards: Optional[float] = None
    warnings: Optional[List[Note]] = None

    report = None  # a qwb.Report where Plan.analyze made one
    pictures: typing.ClassVar[Dict[str, Any]] = {}  # of png=: a qwb.Picture each: graph, error, layers, tensors-01 ...
    gains: typing.ClassVar[Optional[List[Gain]]] = None  # of metric=

    def worst(self, n: int = 10) -> List[NodeError]:
        """The n nodes that cost the most when they alone are quantized, the worst first."""
        return Rows(sorted(self.layerwise or [], key=lambda e: -(e.nsr or 0))[:n])

    def _repr_html_(self):
        return self.report._repr_html_() if self.report else None


class Dispatch(Result):
    plan: Optional[str] = None
    fp32: Optional[list] = None
    evaluations: Optional[int] = None
    before: Optional[float] = None
    after: Optional[float] = None


class Evaluation(Result):
    """How often a classifier is right. drop is in percentage points of top-1, drop_error its standard error."""
    mode: Optional[str] = None
    backend: Optional[str] = None
    n: Optional[int] = None
    top1: Optional[int] = None
    top5: Optional[int] = None
    seconds: Optional[float] = None
    float_top1: Optional[int] = None
    float_top5: Optional[int] = None
    flips: Optional[int] = None
    flip_rate: Optional[float] = None
    drop: Optional[float] = None
    drop_error: Optional[float] = None
    nsr: Optional[float] = None
    nsr_error: Optional[float] = None
    sqnr_db: Optional[float] = None
    metrics: Optional[List[Score]] = None


class TextEvaluation(Result):
    """How well a language model predicts text, and how far it is from the float one."""
    mode: Optional[str] = None
    tokens: Optional[int] = None
    mean_nll: Optional[float] = None
    perplexity: Optional[float] = None
    kl: Optional[float] = None
    kl_error: Optional[float] = None
    flips: Optional[int] = None
    flip_rate: Optional[float] = None


class Difference(Result):
    node: Optional[str] = None
    tensor: Optional[str] = None
    index: Optional[Any] = None
    expected: Optional[Any] = None
    got: Optional[Any] = None
    expected_by: Optional[str] = None


class Verification(Result):
    """The integer program held against plan and simulation. verdict: equal, ties, partial, nothing, different."""
    profile: Optional[str] = None
    backend: Optional[str] = None
    tensors: Optional[int] = None
    integers_compared: Optional[int] = None
    integers_different: Optional[int] = None
    ties: Optional[int] = None
    max_difference: Optional[float] = None
    verdict: Optional[str] = None
    first: Optional[Difference] = None


class Export(Result):
    platform: Optional[str] = None
    format: Optional[str] = None
    file: Optional[str] = None
    sha256: Optional[str] = None
    warnings: Optional[List[Note]] = None


class Noise(Result):
    nsr: Optional[float] = None
    nsr_error: Optional[float] = None
    sqnr_db: Optional[float] = None


class Method(Result):
    name: Optional[str] = None
    layers: Optional[list] = None
    kept: Optional[int] = None
    before: Optional[Noise] = None
    after: Optional[Noise] = None


class Tuning(Result):
    """What tuning was worth on samples that it was not fitted on. overlay is empty where nothing was kept."""
    plan: Optional[str] = None
    overlay: Optional[str] = None
    samples: Optional[int] = None
    held_out: Optional[int] = None
    held_out_kind: Optional[str] = None
    before: Optional[Noise] = None
    after: Optional[Noise] = None
    methods: Optional[List[Method]] = None

    metric: typing.ClassVar[Any] = None  # of metric=: a qwb.Metric, of which float is that before and quantized that after
    undone = False  # metric= became worse, and the plan is as it was


class Decision(Result):
    by: Optional[str] = None
    select: Optional[Any] = None
    number: Optional[int] = None
    in_force: Optional[bool] = None


class Decided(Result):
    plan: Optional[str] = None
    decisions: Optional[List[Decision]] = None
    governed: Optional[list] = None
    fp32: Optional[list] = None
    warnings: Optional[List[Note]] = None


class Log(Result):
    plan: Optional[str] = None
    version: Optional[int] = None
    decisions: Optional[List[Decision]] = None
    redo: Optional[int] = None


class Summary(Result):
    plan: Optional[str] = None
    sha256: Optional[str] = None
    model: Any = None
    data: Optional[Any] = None
    samples: Optional[int] = None
    platform: Optional[str] = None
    profile: Optional[str] = None
    domains: Optional[dict] = None
    schemes: Optional[dict] = None
    decisions: Optional[List[Decision]] = None


class Explanation(Result):
    plan: Optional[str] = None
    node: Optional[str] = None
    op: Optional[str] = None
    domain: Optional[str] = None
    why: Optional[str] = None
    slots: Optional[list] = None


class Comparison(Result):
    """Two plans or quantized models: what differs."""
    a: Optional[str] = None
    b: Optional[str] = None
    equal: Optional[bool] = None
    differences: Optional[list] = None


class Files(Result):
    files: Optional[list] = None


class Generation(Result):
    text: Optional[str] = None
    tokens: Optional[int] = None
    tokens_per_second: Optional[float] = None


class Timing(Result):
    name: Optional[str] = None
    backend: Optional[str] = None
    threads: Optional[int] = None
    batch: Optional[int] = None
    mode: Optional[str] = None
    seconds: Optional[float] = None
    gops: Optional[float] = None
    share_of_peak: Optional[float] = None


class Benchmark(Result):
    results: Optional[List[Timing]] = None


class Imported(Result):
    plan: Optional[str] = None
    model: Optional[str] = None
    platform: Optional[str] = None
    profile: Optional[str] = None


class Version(Result):
    version: Optional[str] = None
    revision: Optional[str] = None
    go: Optional[str] = None
    platform: Optional[str] = None


OF = {
    "inspect": Inspection, "calibrate": Calibration, "analyze": Analysis, "dispatch": Dispatch, "eval": Evaluation, "verify": Verification,
    "export": Export, "tune": Tuning, "set": Decided, "unset": Decided, "plan undo": Decided, "plan redo": Decided, "plan rederive": Decided,
    "plan log": Log, "plan show": Summary, "plan explain": Explanation, "diff": Comparison, "run": Files, "preprocess": Files,
    "generate": Generation, "import": Imported, "version": Version,
}

__all__ = ["Result", "Rows"]
__all__ += [c.__name__ for c in Result.__subclasses__()]


def of(command, obj):
    """The result of a command: of its class, of Result where it has none, or a list of them."""
    if isinstance(obj, list):
        return [of(command, o) for o in obj]
    if command.startswith("bench"):
        return Benchmark.from_json(obj)
    if command == "eval" and "tokens" in obj:
        return TextEvaluation.from_json(obj)
    return OF.get(command, Result).from_json(obj)
