"""What a type checker has to know of the package: checked by tests/test_types.py, never run."""

from typing import Any, List, Optional

import qwb
import qwb.results

plan: qwb.Plan = qwb.calibrate("m.onnx", data="samples")
evaluation: qwb.results.Evaluation = plan.eval(data="samples", labels="labels.tsv")
drop: Optional[float] = evaluation.drop
worst: List[qwb.results.NodeError] = plan.analyze(samples=4).worst(3)
nsr: Optional[float] = worst[0].nsr
change: float = plan.metric(lambda outputs, labels: 0.0).change
gains: Optional[List[qwb.results.Gain]] = plan.analyze(metric=lambda outputs, labels: 0.0).gains
undone: bool = plan.tune(metric=lambda outputs, labels: 0.0, judge="samples").undone
picture: bytes = plan.analyze(png=True).pictures["graph"].png
more: Any = evaluation.extra["anything"]
