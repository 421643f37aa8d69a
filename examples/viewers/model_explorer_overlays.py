#!/usr/bin/env python3
"""Runs Model Explorer's server with the extension qwb.model_explorer, lets it convert a network and its plan, and asks it for the overlays;
then does the same in its page, in Chromium, by clicks.

    pip install ai-edge-model-explorer==0.1.34 onnx websocket-client
    PYTHONPATH=examples/python QWB_BINARY=./qwb python3 examples/viewers/model_explorer_overlays.py [PICTURE.png]
"""
import importlib.metadata
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
import urllib.request

import onnx
import qwb
from browser import Page

VERSION = importlib.metadata.version("ai-edge-model-explorer")
os.environ.setdefault("QWB_BINARY", qwb.binary())
os.environ["QWB_BINARY"] = os.path.abspath(os.environ["QWB_BINARY"])


def free_port():
    with socket.socket() as s:
        s.bind(("localhost", 0))
        return s.getsockname()[1]


def serve(port, config):
    import model_explorer
    threading.Thread(target=model_explorer.visualize_from_config, daemon=True, kwargs={
        "config": config, "port": port, "extensions": ["qwb.model_explorer"], "no_open_in_browser": True}).start()
    for _ in range(200):
        try:
            return urllib.request.urlopen(f"http://localhost:{port}/check_health").read()
        except OSError:
            time.sleep(0.2)
    sys.exit("Model Explorer did not start")


def command(port, **cmd):
    request = urllib.request.Request(f"http://localhost:{port}/apipost/v1/send_command", json.dumps(cmd).encode(),
                                     {"Content-Type": "application/json"})
    return json.load(urllib.request.urlopen(request))


def check(condition, what):
    if not condition:
        sys.exit("Model Explorer: " + what)


def graph_is_the_files(port, path, model):
    answer = command(port, cmdId="convert", extensionId="qwb", modelPath=os.path.abspath(path), settings={}, deleteAfterConversion=False)
    graph = (answer.get("graphs") or answer["graphCollections"][0]["graphs"])[0]
    nodes = {n["id"]: n for n in graph["nodes"]}
    edges = {(e["sourceNodeId"], n["id"]) for n in graph["nodes"] for e in n.get("incomingEdges", [])}
    made = {o: n.name for n in model.node for o in n.output}
    want = {(made[i], n.name) for n in model.node for i in n.input if i in made}
    check({n.name for n in model.node} <= set(nodes), f"operators lack: {({n.name for n in model.node} - set(nodes))}")
    check(want <= edges, f"edges lack: {want - edges}")
    return graph, len(model.node), len(want)


def click(page, text):
    """Clicks what shows a text, once it is there."""
    page.until(f"(() => {{const e = [...document.querySelectorAll('button, span, div')].filter(x => !x.children.length && x.offsetParent"
               f" && x.innerText.trim() === {json.dumps(text)}).pop(); e.click(); return true}})()")


def in_the_page(port, path, names, picture):
    models = json.dumps({"models": [{"url": path, "adapterId": "qwb"}]})
    with Page(f"http://localhost:{port}/?data={urllib.parse.quote(models)}", (1600, 1000)) as page:
        for there, text in [("op node count", "Add per-node data"), ("qwb: errors", "qwb: errors and precision"), ("the plan of this", "Run")]:
            page.until(f"document.body.innerText.includes({json.dumps(there)})")
            time.sleep(1)  # menus and forms move before they take a click
            click(page, text)
        page.until("document.body.innerText.includes('NODE DATA PROVIDERS')")
        shown = page.eval("document.body.innerText")
        check(all(name in shown for name in names), f"the page does not show {[n for n in names if n not in shown]}")
        if picture:
            time.sleep(2)
            page.picture(picture)


PICTURE = os.path.abspath(sys.argv[1]) if len(sys.argv) > 1 else None
with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    qwb.run_command(["demo"], False)
    os.chdir("qwb-demo")
    import model_explorer
    port, path = free_port(), os.path.abspath("glyphs.onnx")
    config = model_explorer.config()
    config.add_model_from_path(path, adapterId="qwb")
    serve(port, config)
    model = onnx.load(path).graph
    for file in ["glyphs.onnx", "glyphs.plan.json"]:
        graph, n, e = graph_is_the_files(port, file, model)
        print(f"Model Explorer {VERSION}: {file}: {n} operators and {e} edges are those that onnx reads")
    form = command(port, cmdId="get_config_editors", extensionId="qwb_analysis")["configEditors"]
    flags = subprocess.run([qwb.binary(), "analyze", "--help"], capture_output=True, text=True).stdout
    ids = [editor["id"] for editor in form]
    check(all("--" + i.replace("_", "-") in flags for i in ids if i != "plan"), f"a setting is no option of analyze: {ids}")
    print(f"Model Explorer {VERSION}: settings from options of analyze: {', '.join(ids)}")
    answer = command(port, cmdId="run", extensionId="qwb_analysis", modelPath=path, graphId="main", configValues={"samples": 16}, graph=graph)
    check(not answer["error"], answer["error"])
    report = qwb.Plan("glyphs.plan.json").analyze(samples=16, graphwise=True, layerwise=True)
    keys = {n["id"] for n in graph["nodes"]} | {a["value"] for n in graph["nodes"] for o in n["outputsMetadata"] for a in o["attrs"]
                                               if a["key"] == "tensor_name"}
    for overlay in answer["result"]:
        stray = set(overlay["results"]) - keys
        check(overlay["results"] and not stray, f"{overlay['name']}: names that the graph has not: {stray}")
    first = answer["result"][-1]["results"]
    check(all(first[r.node]["value"] == r.nsr for r in report.graphwise), "the last overlay is not what analyze found")
    wrong = command(port, cmdId="run", extensionId="qwb_analysis", modelPath="/absent.onnx", graphId="main", configValues={})
    check("no such plan" in wrong["error"], f"no error without a plan: {wrong}")
    print(f"Model Explorer {VERSION}: {len(answer['result'])} overlays in one call: "
          + "; ".join(f"{o['name'][5:]} ({len(o['results'])})" for o in answer["result"]))
    in_the_page(port, path, [o["name"] for o in answer["result"]], PICTURE)
    print(f"Model Explorer {VERSION}: its page runs the form and lists the overlays")
