"""A notebook that is run as Jupyter runs it."""

import os
import unittest

from tests.support import DATA, MODEL, InFolder, has


@unittest.skipUnless(has("nbformat", "nbclient", "ipykernel"), "no Jupyter")
class Notebook(InFolder):
    def test_the_report_is_shown(self):
        import nbclient
        import nbformat

        cells = [f"import qwb\nplan = qwb.calibrate({MODEL!r}, data={DATA!r}, output='n.plan.json')", "plan.analyze(samples=2)"]
        book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(c) for c in cells])
        nbclient.NotebookClient(book, timeout=120, kernel_name="python3", resources={"metadata": {"path": os.getcwd()}}).execute()
        shown = [o["data"] for o in book.cells[1].outputs if o.output_type == "execute_result"]
        self.assertEqual(len(shown), 1)
        self.assertTrue(shown[0]["text/html"].startswith("<iframe srcdoc="))
        self.assertTrue(shown[0]["text/plain"].startswith("Analysis("))
        nbformat.validate(book)
