#!/usr/bin/env python3
"""Opens exports with --doc-string in Netron, clicks an operator, and reads what the panel says of it.

    pip install netron==9.3.3 websocket-client==1.9.2     # and chromium, which QWB_CHROMIUM may name
    python3 examples/viewers/netron_panel.py QWB [PICTURE.png]
"""
import importlib.metadata
import json
import os
import subprocess
import sys
import tempfile

import netron

from browser import Page

QWB, PICTURE = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2]) if len(sys.argv) > 2 else None


def qwb(*args):
    return subprocess.run([QWB, *args], check=True, capture_output=True, text=True).stdout


def said(file, node):
    """The text of Netron's panel for a node."""
    address = netron.start(file, browse=False)
    try:
        with Page(f"http://{address[0]}:{address[1]}") as page:
            page.until("document.body.innerText.includes('Accept')")  # asks for consent to its cookies
            page.eval("document.cookie = 'consent=1;path=/'")
            page.call("Page.reload")
            page.until(f"document.getElementById({json.dumps('node-name-' + node)})?.querySelector('.node-item')?.tagName")
            page.eval(f"document.getElementById({json.dumps('node-name-' + node)}).querySelector('.node-item').dispatchEvent(new MouseEvent('click', "
                      "{bubbles: true}))")
            text = page.until("document.getElementById('sidebar')?.innerText")
            if PICTURE:
                page.picture(PICTURE)
            return text
    finally:
        netron.stop(address)


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    qwb("demo")
    os.chdir("qwb-demo")
    qwb("calibrate", "glyphs.onnx", "--data", "data/calibration", "--platform", "onnxruntime", "-o", "ort.plan.json")
    qwb("analyze", "ort.plan.json", "--graphwise", "--layerwise")
    words = qwb("plan", "explain", "stem", "ort.plan.json").splitlines()
    for form in ["onnx", "qoperator"]:
        qwb("export", "ort.plan.json", "--format", form, "-o", form + ".onnx", "--doc-string", "both")
        text = said(form + ".onnx", "stem")
        lines = [" ".join(line.split()) for line in text.splitlines()]
        missing = [w for w in words if " ".join(w.split()) not in lines and " ".join(w.split()) not in " ".join(lines)]
        if missing or "NSR" not in text:
            sys.exit(f"{form}: Netron's panel lacks {missing}:\n{text}")
        print(f"Netron {importlib.metadata.version('netron')}: {form}: the panel of operator stem shows the {len(words)} lines of plan explain and its NSR")
