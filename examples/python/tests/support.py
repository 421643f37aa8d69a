"""What the tests share: the demo's model and samples, a folder qwb-demo that $QWB_TEST_SAMPLES names, and a folder of one's own."""

import importlib.util
import os
import tempfile
import unittest

SAMPLES = os.environ.get("QWB_TEST_SAMPLES", "")
MODEL, DATA, LABELS = (os.path.join(SAMPLES, n) for n in ("glyphs.onnx", "data/eval", "data/eval.tsv"))


def has(*modules):
    return all(importlib.util.find_spec(m) is not None for m in modules)


def labels():
    with open(LABELS, encoding="utf-8") as f:
        return [int(line.split("\t")[1]) for line in f if not line.startswith("file")]


def arrays():
    """The samples as one array."""
    import numpy as np

    return np.concatenate([np.load(os.path.join(DATA, name)) for name in sorted(os.listdir(DATA))])


@unittest.skipUnless(SAMPLES, "QWB_TEST_SAMPLES is not set: go test ./examples/python sets it")
class InFolder(unittest.TestCase):
    """Each test runs in a folder of its own, with a temporary folder beside it that has to be empty in the end."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder, self.temporary = os.path.join(folder.name, "here"), os.path.join(folder.name, "tmp")
        os.mkdir(self.folder)
        os.mkdir(self.temporary)
        before, kept = os.getcwd(), tempfile.tempdir
        os.chdir(self.folder)
        tempfile.tempdir = self.temporary
        self.addCleanup(setattr, tempfile, "tempdir", kept)
        self.addCleanup(os.chdir, before)

    def left(self):
        """What lies in the temporary folder."""
        return os.listdir(self.temporary)
