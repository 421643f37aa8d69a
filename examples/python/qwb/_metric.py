"""A function of Python as the metric: float and quantized outputs on the same samples, with the error of their difference."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ._feeds import numpy
from ._process import InputError


Number = float  # the type: Metric has a field of that name


@dataclass
class Metric:
    """What a metric is in float and quantized, on the same n samples.

    change is quantized - float. error is its standard error, low and high hold it with 95 %: from a bootstrap that draws samples anew
    with both outputs of each (a paired one), so that what all samples have in common falls out. significant: 0 is not between low and high.
    """

    float: Number
    quantized: Number
    change: Number
    error: Number
    low: Number
    high: Number
    n: int
    mode: str
    resamples: int

    @property
    def significant(self) -> bool:
        return not self.low <= 0 <= self.high


def stacked(list_):
    """Outputs of samples as one array with a sample in each row, as a dict of such arrays where there are several outputs, or, where samples
    differ in shape, the list as it is."""
    np = numpy()
    if isinstance(list_[0], dict):
        joined = {k: stacked([s[k] for s in list_]) for k in list_[0]}
        return joined if not any(isinstance(v, list) for v in joined.values()) else list_
    if len({a.shape for a in list_}) > 1:
        return list_
    return np.concatenate(list_) if list_[0].ndim and list_[0].shape[0] == 1 else np.stack(list_)


def choose(rows, index):
    """The samples of those numbers, of anything that holds one sample in each row."""
    if isinstance(rows, dict):
        return {k: choose(v, index) for k, v in rows.items()}
    if hasattr(rows, "shape"):
        return rows[index]
    return [rows[i] for i in index]


def value(function, outputs, labels, which="") -> Number:
    """What the function says of outputs and labels, which has to be a number."""
    v = function(outputs, labels)
    try:
        v = float(v)
    except (TypeError, ValueError) as e:
        raise InputError(f"metric: the function returned {type(v).__name__}, not a number") from e
    if not math.isfinite(v):
        raise InputError(f"metric: the function returned {v}{which}")
    return v


def measure(function, float_outputs, quantized_outputs, labels, mode, resamples=200, seed=0) -> Metric:
    """A metric of two lists of outputs, as Plan._outputs gives them, of the same samples: before and after, or float and quantized."""
    np, n = numpy(), len(float_outputs)
    if labels is not None and not hasattr(labels, "shape"):
        labels = list(labels)
    if labels is not None and len(labels) != n:
        raise InputError(f"metric: {len(labels)} labels for {n} samples")
    if n < 2 or resamples < 2:
        raise InputError(f"metric: {n} samples and {resamples} resamples; the error of the difference needs 2 or more of both")
    float_outputs, quantized_outputs = stacked(float_outputs), stacked(quantized_outputs)

    def drawn(outputs, index):
        chosen = choose(labels, index) if labels is not None else None
        return value(function, choose(outputs, index), chosen, " for samples drawn anew: it has to take any choice of them")

    before, after = value(function, float_outputs, labels), value(function, quantized_outputs, labels)
    draw = np.random.Generator(np.random.PCG64(seed))
    changes = np.empty(resamples)
    for i in range(resamples):
        index = draw.integers(0, n, n)
        changes[i] = drawn(quantized_outputs, index) - drawn(float_outputs, index)
    low, high = np.quantile(changes, [0.025, 0.975])
    return Metric(before, after, after - before, float(changes.std(ddof=1)), float(low), float(high), n, mode, resamples)
