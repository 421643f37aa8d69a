"""The notebook, run as Jupyter runs it."""

import os
import shutil
import unittest

from tests.support import SAMPLES, InFolder, has


@unittest.skipUnless(has("numpy", "nbformat", "nbclient", "ipykernel"), "no Jupyter")
class Notebook(InFolder):
    def test_its_cells_show_what_they_say(self):
        import run_notebook

        shutil.copytree(SAMPLES, "qwb-demo")
        self.assertEqual(run_notebook.check(run_notebook.run(os.getcwd())), [])
