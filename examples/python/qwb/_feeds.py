"""Makes files of what Python has: arrays become a folder of samples, modules of torch become ONNX files."""

from __future__ import annotations

import os
import shutil
import tempfile
import warnings
import weakref
from pathlib import Path

from ._process import InputError


def numpy():
    try:
        import numpy
    except ImportError as e:
        raise InputError("arrays need NumPy: pip install numpy") from e
    return numpy


def is_path(x) -> bool:
    return isinstance(x, (str, os.PathLike))


def is_array(x) -> bool:
    return hasattr(x, "__array__") or hasattr(x, "detach")


def to_array(x):
    """A NumPy array of an array, a tensor of torch on any device, or numbers in lists."""
    if hasattr(x, "detach"):
        x = x.detach().cpu().numpy()
    return numpy().ascontiguousarray(x)


class Folder:
    """A temporary folder: removed by close, with the object, or at the end of the process."""

    def __init__(self, prefix):
        self.name = tempfile.mkdtemp(prefix=prefix)
        self.close = weakref.finalize(self, shutil.rmtree, self.name, ignore_errors=True)


class Samples:
    """Data for --data: paths as they are, or arrays in a folder of their own that goes with this object.

    data: a path, paths, one array, a dict of arrays by the name of the input (several inputs) with a sample in each row, or an iterable of
    samples: arrays or dicts of them.
    """

    def __init__(self, data):
        self.paths, self.names, self._folder = None, None, None
        if is_path(data):
            self.paths = [os.fspath(data)]
        elif isinstance(data, (list, tuple)) and data and all(is_path(d) for d in data):
            self.paths = [os.fspath(d) for d in data]
        else:
            self._write(_rows(data))

    def _write(self, rows):
        np = numpy()
        self._folder = Folder("qwb-data-")
        self.paths, self.names = [self._folder.name], []
        for row in rows:
            several = isinstance(row, dict)
            name = f"{len(self.names):06d}.{'npz' if several else 'npy'}"
            path = os.path.join(self._folder.name, name)
            if several:
                np.savez(path, **{k: to_array(v) for k, v in row.items()})  # pyright: ignore[reportArgumentType]
            else:
                np.save(path, to_array(row))
            self.names.append(name)
        if not self.names:
            self.close()
            raise InputError("data: no samples")

    def close(self):
        if self._folder is not None:
            self._folder.close()


def _rows(data):
    """The samples of arrays."""
    if is_array(data):
        data = to_array(data)
        if data.ndim == 0:
            raise InputError("data: one number is no array of samples")
        return iter(data)
    if isinstance(data, dict):
        arrays = {k: to_array(v) for k, v in data.items()}
        sizes = {k: len(a) if a.ndim else 0 for k, a in arrays.items()}
        if len(set(sizes.values())) > 1:
            raise InputError(f"data: inputs with different numbers of samples: {sizes}")
        return ({k: a[i] for k, a in arrays.items()} for i in range(next(iter(sizes.values()), 0)))
    try:
        return iter(data)
    except TypeError as e:
        raise InputError(f"data: {type(data).__name__} is no path, array, dict of arrays or list of samples") from e


class Labels:
    """Labels for --labels: a file as it is, or numbers, one for each sample, in a file that goes with this object."""

    def __init__(self, labels, samples):
        self.path, self._file = None, None
        if labels is None:
            return
        if is_path(labels):
            self.path = os.fspath(labels)
            return
        labels = [int(v) for v in labels]
        if samples is None or samples.names is None:
            raise InputError("labels: numbers go with data in arrays; for files name a label file (file<TAB>class in each line)")
        if len(labels) != len(samples.names):
            raise InputError(f"labels: {len(labels)} for {len(samples.names)} samples")
        self._file = Folder("qwb-labels-")
        self.path = os.path.join(self._file.name, "labels.tsv")
        with open(self.path, "w", encoding="utf-8") as f:
            f.writelines(f"{name}\t{label}\n" for name, label in zip(samples.names, labels))

    def close(self):
        if self._file is not None:
            self._file.close()


def as_model(model, output, data=None, example=None):
    """The path of a model: its own, or that of the ONNX file that is written beside the plan for a module of torch or a ModelProto.

    Returns the path and the path of the plan, which is named after the model unless output names it.
    """
    if is_path(model):
        return os.fspath(model), output
    suffix = ".plan.json"
    plan = os.fspath(output) if output else type(model).__name__.lower() + suffix
    if not plan.endswith(suffix):
        raise InputError(f"output={plan}: the name of a plan ends in {suffix}")
    path = plan[: -len(suffix)] + ".onnx"
    if hasattr(model, "SerializeToString"):
        Path(path).write_bytes(model.SerializeToString())
    elif hasattr(model, "state_dict") and callable(model):
        _export_torch(model, path, data, example)
    else:
        raise InputError(f"model: {type(model).__name__} is no path, no torch module and no ONNX ModelProto")
    return path, plan


def _export_torch(module, path, data, example):
    import torch

    names = None
    if example is None:
        example, names = _first(data)
    if isinstance(example, dict):
        names, example = list(example), tuple(example.values())
    elif not isinstance(example, (tuple, list)):
        example = (example,)
    device = next((p.device for p in module.parameters()), torch.device("cpu"))
    args = tuple(torch.as_tensor(e).to(device) for e in example)
    names = names or [f"input{i}" for i in range(len(args))] if len(args) > 1 else names or ["input"]
    training = module.training
    module.eval()
    with tempfile.TemporaryDirectory(prefix="qwb-onnx-") as folder:  # a failed export leaves nothing where the model is to be
        written = os.path.join(folder, "model.onnx")
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # of the exporter that traces, which needs torch alone
                torch.onnx.export(module, args, written, input_names=names, opset_version=17,
                                  dynamic_axes={n: {0: "batch"} for n in names}, dynamo=False)
        except Exception as e:
            raise InputError(f"torch.onnx.export: {' '.join(str(e).split())[:500]}") from e
        finally:
            module.train(training)
        Path(path).write_bytes(Path(written).read_bytes())


def _first(data):
    """The first sample of arrays as a batch of one, and the names of the inputs where they have names."""
    if data is None or is_path(data) or isinstance(data, (list, tuple)) and data and is_path(data[0]):
        raise InputError("a torch module needs example=: the tensors that it is exported with, or data in arrays")
    if is_array(data):
        return to_array(data)[:1], None
    if isinstance(data, dict):
        return tuple(to_array(v)[:1] for v in data.values()), list(data)
    if isinstance(data, (list, tuple)) and data:
        first = data[0]
        if isinstance(first, dict):
            return tuple(to_array(v) for v in first.values()), list(first)
        return to_array(first), None
    raise InputError("a torch module needs example=: the tensors that it is exported with")
