"""What docs/python.md shows, run as it stands."""

import contextlib
import io
import os
import re
import shutil
import unittest

from tests.support import SAMPLES, InFolder, has

DOCUMENT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "docs", "python.md")


@unittest.skipUnless(has("numpy"), "no NumPy")
class Document(InFolder):
    def test_the_cells_run(self):
        with open(DOCUMENT, encoding="utf-8") as f:
            cells = re.findall(r"(?ms)^```python\n(.*?)^```", f.read())
        self.assertGreater(len(cells), 3)
        shutil.copytree(SAMPLES, "qwb-demo")
        names, out = {}, io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
            for cell in cells:
                exec(compile(cell, "docs/python.md", "exec"), names)
        self.assertRegex(out.getvalue(), r"^\d+ of \d+ right in float, \d+ in INT8: -?[\d.]+ ± [\d.]+ points lost\n-?[\d.]+\n[\d.]+ in float, [-+][\d.]+ ± ")
        self.assertTrue(os.path.exists("glyphs.int8.onnx"))
