"""What Model Explorer loads: networks and plans as graphs, and what a plan does to them as colours on the nodes."""

from __future__ import annotations

import os

from model_explorer import graph_builder as gb
from model_explorer import node_data_builder as ndb
from model_explorer.adapter import Adapter, AdapterMetadata
from model_explorer.config_editor import ConfigEditor, ConfigEditorGroup, SlideToggleConfigEditor, TextInputConfigEditor
from model_explorer.types import ModelExplorerGraphs
from model_explorer.node_data_provider import GetConfigEditorsResult, NodeDataProvider, NodeDataProviderMetadata, NodeDataProviderResult

from .._options import OPTIONS
from .._process import QwbError, flags, run_command

PLAN = ".plan.json"

# Options of analyze that write files, or that are for language models or parts of a run.
NOT_IN_THE_FORM = {"graphwise", "layerwise", "statistical", "explain", "try", "cause", "all", "html", "png", "model_explorer", "shard", "part", "text", "bits",
                   "group_size", "group_fallback", "method", "fit", "judge", "tokenizer", "chunks", "context", "kv_cache", "against", "output", "mode",
                   "nodes", "slices"}

COLOURS = ["#e8f5e9", "#c8e6c9", "#fff9c4", "#ffcc80", "#ef9a9a"]  # from what nobody sees to what ruins a network


class QwbAdapter(Adapter):
    metadata = AdapterMetadata(id="qwb", name="qwb", description="ONNX networks and plans of qwb", fileExts=["onnx", "json"])

    def convert(self, model_path, settings) -> ModelExplorerGraphs:
        """The network as the file has it: a node for each operator, input and output. Constants are words at the operators that read them:
        as nodes, the edges from them hide the network."""
        model = run_command(["plan", "show", model_path], False).model["path"] if model_path.endswith(PLAN) else model_path
        if model is not model_path:
            model = os.path.join(os.path.dirname(os.path.abspath(model_path)), model)
        found = run_command(["inspect", model, "--nodes"], False).raw
        graph, made, shapes = gb.Graph(id="main"), {}, {}
        for t in found["inputs"]:
            shapes[t["name"]] = t["shape"]

        def add(node, outputs):
            graph.nodes.append(node)
            for i, name in enumerate(outputs):
                made[name] = (node.id, str(i))
                attrs = [gb.KeyValue(key="tensor_name", value=name)]
                if name in shapes:
                    attrs.append(gb.KeyValue(key="tensor_shape", value=str(shapes[name])))
                node.outputsMetadata.append(gb.MetadataItem(id=str(i), attrs=attrs))

        for t in found["inputs"]:
            add(gb.GraphNode(id="input " + t["name"], label=t["name"], namespace="inputs"), [t["name"]])
        rows = found["nodes"]
        for n in rows:
            if n["outputs"]:
                shapes.setdefault(n["outputs"][0], n["shape"])
            attrs = [gb.KeyValue(key=k, value=str(n[k])) for k in ("macs", "bytes") if n.get(k)]
            add(gb.GraphNode(id=n["name"], label=n["op"], namespace="/".join(n["name"].strip("/").split("/")[:-1]), attrs=attrs), n["outputs"])
        by_id = {n.id: n for n in graph.nodes}
        for n in rows:
            for i, name in enumerate(n["inputs"]):
                if not name:
                    continue
                if name not in made:
                    by_id[n["name"]].attrs.append(gb.KeyValue(key=f"input {i}", value=name))
                    continue
                source, output = made[name]
                by_id[n["name"]].incomingEdges.append(gb.IncomingEdge(sourceNodeId=source, sourceNodeOutputId=output, targetNodeInputId=str(i)))
        for t in found["outputs"]:
            node = gb.GraphNode(id="output " + t["name"], label=t["name"], namespace="outputs")
            if t["name"] in made:
                source, output = made[t["name"]]
                node.incomingEdges.append(gb.IncomingEdge(sourceNodeId=source, sourceNodeOutputId=output))
            graph.nodes.append(node)
        return {"graphs": [graph]}


class QwbNodeData(NodeDataProvider):
    metadata = NodeDataProviderMetadata(id="qwb_analysis", name="qwb: errors and precision", icon="speed",
                                        description="Errors, clipping, rounding, bits and domains of a plan")

    def get_config_editors(self, provider_id):
        editors: list[ConfigEditor | ConfigEditorGroup] = [TextInputConfigEditor(
            id="plan", label="plan", description="the plan of this network (default: MODEL.plan.json beside it)", defaultValue="")]
        for name, (kind, doc) in OPTIONS["analyze"].items():
            if name in NOT_IN_THE_FORM:
                continue
            if kind == "bool":
                editors.append(SlideToggleConfigEditor(id=name, label=name, description=doc, defaultValue=False))
            else:
                editors.append(TextInputConfigEditor(id=name, label=name, description=doc, number=kind in ("int", "float64"), defaultValue=""))
        return GetConfigEditorsResult(configEditors=editors)

    def run(self, provider_id, model_path, graph_id, config_values, graph):
        given = {k: v for k, v in (config_values or {}).items() if v not in ("", None, False)}
        given.pop("runName", None)  # which the page adds to its form
        plan = given.pop("plan", None)
        if plan is None:
            plan = model_path if model_path.endswith(PLAN) else os.path.splitext(model_path)[0] + PLAN
        try:
            unknown = sorted(set(given) - set(OPTIONS["analyze"]))
            if unknown:
                raise QwbError(f"no options of analyze: {', '.join(unknown)}")
            if not os.path.exists(os.path.expanduser(plan)):
                raise QwbError(f"{plan}: there is no such plan; make one with qwb calibrate, and name it in the form")
            report = run_command(["analyze", os.path.expanduser(plan), "--graphwise", "--layerwise", *flags(given)], False).raw
            return NodeDataProviderResult(result=overlays(report))
        except QwbError as e:
            return NodeDataProviderResult(error=str(e))


def overlays(report):
    """Node data of a report of analyze, by the names of nodes and of the tensors that they compute. The page shows the last at first."""
    tensors = {r["node"]: r["tensor"] for r in report["graphwise"]}
    heads = {s.get("fused") for s in report["settings"]}  # what others are computed together with, which have rows of their own

    def data(name, values, limits=None, **more):
        results = {}
        for node, value in values.items():
            for key in {node, tensors.get(node, node) if limits or node not in heads else node}:
                results[key] = ndb.NodeDataResult(value=value)
        d = ndb.GraphNodeData(name="qwb: " + name, results=results, **more)
        if limits:
            top = max([v for v in values.values()] + [limits[-1]]) * 1.0001
            d.thresholds = [ndb.ThresholdItem(value=v, bgColor=c) for v, c in zip([*limits, top], COLOURS)]
        return d

    errors = [1e-4, 1e-3, 1e-2, 1e-1]
    layers = {r["node"]: r for r in report["layerwise"]}
    out = []
    for key, name in [("clip", "its own error by clipping (NSR)"), ("round", "its own error by rounding (NSR)"),
                      ("nsr", "error of the outputs with it alone quantized (NSR)")]:
        out.append(data(name, {n: r[key] for n, r in layers.items() if r.get(key) is not None}, errors))
    bits, domains = {}, {}
    for s in report["settings"]:
        schemes = [slot["scheme"] for slot in s.get("slots") or [] if slot.get("scheme")]
        widths = [int("".join(c for c in scheme.split()[0] if c.isdigit())[:2] or 0) for scheme in schemes]
        domains[s["node"]] = s["domain"]
        if widths:
            bits[s["node"]] = min(widths)
    where = data("domain", domains)
    for r in where.results.values():
        r.bgColor = {"INT8": "#c8e6c9", "FP32": "#fff9c4", "SOI": "#e0e0e0"}.get(str(r.value), "#ce93d8")
    every = data("error with all quantized (NSR)", {r["node"]: r["nsr"] for r in report["graphwise"] if r["nsr"] is not None}, errors)
    return [where, data("fewest bits of its tensors", bits), *out, every]
