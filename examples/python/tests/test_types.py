"""mypy and pyright on the package, on a use of it, and on wrong ones."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

from tests.support import has

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
USE = os.path.join(HERE, "tests", "typed.py")


class Types:
    """A checker: check(files) returns what it says."""

    def test_the_package(self):
        self.assertIn(self.fine, self.check(os.path.join(HERE, "qwb")))

    def test_a_use_of_it_and_wrong_ones(self):
        with open(USE, encoding="utf-8") as f:
            text = f.read()
        wrong = [("drop: Optional[float]", "drop: str", self.mismatch), (".worst(3)", ".wurst(3)", "attribute"),
                 ("evaluation.drop", "evaluation.dropp", "attribute"), (".change", ".delta", "attribute")]
        with tempfile.TemporaryDirectory() as folder:
            files = [os.path.join(folder, f"wrong{i}.py") for i in range(len(wrong))]
            for path, (before, after, _) in zip(files, wrong):
                self.assertIn(before, text)
                with open(path, "w", encoding="utf-8") as f:
                    f.write(text.replace(before, after))
            said = self.check(USE, *files)
        self.assertNotIn("typed.py:", said)
        for path, (_, after, what) in zip(files, wrong):
            self.assertRegex(said, rf"{os.path.basename(path)}:\d.*{what}", after)


@unittest.skipUnless(has("mypy"), "no mypy")
class Mypy(Types, unittest.TestCase):
    fine, mismatch = "Success", "Incompatible types"

    def check(self, *files):
        with tempfile.TemporaryDirectory() as cache:
            return run("mypy", "--cache-dir", cache, "--ignore-missing-imports", *files, MYPYPATH=HERE)


@unittest.skipUnless(has("pyright"), "no pyright")
class Pyright(Types, unittest.TestCase):
    fine, mismatch = "0 errors, 0 warnings", "is not assignable"

    def check(self, *files):
        with tempfile.TemporaryDirectory() as folder:  # of modules that are not there it says nothing, as mypy does not
            shutil.copytree(os.path.join(HERE, "qwb"), os.path.join(folder, "qwb"))
            for path in files:
                if os.path.isfile(path):
                    shutil.copy(path, folder)
            with open(os.path.join(folder, "pyrightconfig.json"), "w", encoding="utf-8") as f:
                json.dump({"reportMissingImports": False}, f)
            return run("pyright", "--pythonpath", sys.executable, "-p", folder)


def run(module, *args, **environment):
    return subprocess.run([sys.executable, "-m", module, *args], capture_output=True, text=True, cwd=HERE, env={**os.environ, **environment}).stdout
