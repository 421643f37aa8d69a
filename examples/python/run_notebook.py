#!/usr/bin/env python3
"""Runs quantize.ipynb as Jupyter does, and looks at what its cells show.

    pip install dist/qwb-*.whl numpy==2.4.6 nbclient==0.11.0 nbformat==5.11.1 ipykernel==7.4.0
    python3 examples/python/run_notebook.py [-o executed.ipynb]
"""
import argparse
import importlib.metadata
import os
import sys
import tempfile

import nbclient
import nbformat

NOTEBOOK = os.path.join(os.path.dirname(os.path.abspath(__file__)), "quantize.ipynb")


def run(folder):
    """The notebook with the outputs of its cells, run in a folder; an error of a cell is raised."""
    book = nbformat.read(NOTEBOOK, as_version=4)
    nbclient.NotebookClient(book, timeout=600, kernel_name="python3", resources={"metadata": {"path": folder}}).execute()
    nbformat.validate(book)
    return book


def shown(book):
    """What the cells show, by their tags: the kinds of data of each."""
    out = {}
    for cell in book.cells:
        for tag in cell.metadata.get("tags", []):
            out[tag] = {kind: data for o in cell.get("outputs", []) if "data" in o for kind, data in o["data"].items()}
    return out


WANT = {"report": ("text/html", "<iframe srcdoc="), "graph": ("image/png", "iVBOR"), "errors": ("image/png", "iVBOR"), "layers": ("text/html", "<table>"),
        "gains": ("text/html", "<table>"), "metric": ("text/plain", "Metric("), "export": ("text/plain", "Export(")}


def check(book):
    found = shown(book)
    return [f"the cell {tag} does not show {kind}" for tag, (kind, start) in WANT.items() if not found.get(tag, {}).get(kind, "").startswith(start)]


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("-o", "--output")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        executed = run(folder)
    if arguments.output:
        nbformat.write(executed, arguments.output)
    wrong = check(executed)
    if wrong:
        sys.exit("notebook: " + "; ".join(wrong))
    cells = sum(c.cell_type == "code" for c in executed.cells)
    print(f"nbclient {importlib.metadata.version('nbclient')}: {cells} cells ran; shown: {', '.join(f'{t} ({k})' for t, (k, _) in WANT.items())}")
