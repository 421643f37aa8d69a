"""mypy on the package, on a use of it, and on wrong ones."""

import os
import subprocess
import sys
import tempfile
import unittest

from tests.support import has

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
USE = os.path.join(HERE, "tests", "typed.py")


@unittest.skipUnless(has("mypy"), "no mypy")
class Types(unittest.TestCase):
    def mypy(self, *files):
        with tempfile.TemporaryDirectory() as cache:
            r = subprocess.run([sys.executable, "-m", "mypy", "--cache-dir", cache, "--ignore-missing-imports", *files], capture_output=True,
                               text=True, cwd=HERE, env={**os.environ, "MYPYPATH": HERE})
        return r.stdout

    def test_the_package(self):
        self.assertIn("Success", self.mypy(os.path.join(HERE, "qwb")))

    def test_a_use_of_it_and_wrong_ones(self):
        self.assertIn("Success", self.mypy(USE))
        with open(USE, encoding="utf-8") as f:
            text = f.read()
        with tempfile.TemporaryDirectory() as folder:
            wrong = os.path.join(folder, "wrong.py")
            for before, after, said in [("drop: Optional[float]", "drop: str", "Incompatible types"), (".worst(3)", ".wurst(3)", "attribute"),
                                        ("evaluation.drop", "evaluation.dropp", "attribute"), (".change", ".delta", "attribute")]:
                self.assertIn(before, text)
                with open(wrong, "w", encoding="utf-8") as f:
                    f.write(text.replace(before, after))
                self.assertIn(said, self.mypy(wrong), after)
