// Open: a model, or a plan that is there; what is in it.
import { el } from "../dom.js";
import { count, known } from "../format.js";
import { dropArea } from "./drop.js";
import { drawForm, grid, part, steady, tiles } from "./parts.js";
import { task } from "./task.js";

export const openView = {
  key: "open",
  label: "Open",
  doc: "A model, or a plan that is there already.",
  draw: drawOpen,
};

/** @param {HTMLElement} host @param {App} app */
function drawOpen(host, app) {
  const s = app.state, opened = el("div", { class: "result" }), file = drawForm(app, [
    { name: "file", label: "Model or plan", type: "file", of: "any", value: s.plan && s.exists ? s.plan : s.model || "",
      placeholder: app.client.demo ? "ONNX, .tflite, PNNX or a plan" : "ONNX, .tflite, PNNX, checkpoint or plan",
      doc: `A network as ONNX (with its files of weights), .tflite or PNNX (.param and .bin); a plan, .plan.json${
        app.client.demo ? ". Checkpoints of language models need qwb on the command line"
          : "; the checkpoint of a language model: GGUF, llama2.c, or a folder of Hugging Face"
      }.` },
  ]);
  const open = task(app, { label: "Open", kind: "open", options: () => {
    if (!file.read().file) throw new Error("choose a file, or drop one on this page");
    return { file: file.read().file };
  }, show: (r) => showOpened(opened, app, r) });
  const dropped = async (name) => {
    file.set("file", name);
    const r = await app.run("open", { file: name });
    if (r.exists) app.go("network");
  };
  const steps = [part("Model", "", dropArea(app, dropped), file.node, open, opened)];
  if (s.model && s.language) {
    steps.push(
      part("Weights", "A language model needs no plan.", el("button", { type: "button", class: "main", onclick: () =>
        app.go("language") }, "Go to the language model"))
    );
  }
  host.replaceChildren(...steps);
  // A plan that comes or changes leaves what was said on the way to it where it is.
  return steady(app, () => drawOpen(host, app),
    (was, now) => was.model === now.model && now.exists && (!was.exists || was.plan === now.plan));
}

/** @param {HTMLElement} host @param {App} app @param {Core.OpenedFile} r */
function showOpened(host, app, r) {
  const i = r.inspection, ops = new Map();
  for (const n of i.nodes) ops.set(n.op, (ops.get(n.op) || 0) + 1);
  const ports = (list) => list.map((p) => `${p.name}: ${p.dtype} [${(p.shape || []).join(", ")}]`).join("; ");
  host.replaceChildren(
    tiles([
      { label: "operators", value: String(i.nodes.length) },
      known(i.macs) ? { label: "multiply-accumulates", value: count(i.macs), title: String(i.macs), doc: "for one sample" } : null,
      { label: "parameters", value: count(i.parameters), title: String(i.parameters) },
      { label: "inputs", value: ports(i.inputs) },
      { label: "outputs", value: ports(i.outputs) },
    ]),
    i.unsupported && i.unsupported.length
      ? el("p", { class: "headline large" }, `Not supported: ${i.unsupported.map((u) => u.op || u).join(", ")}.`) : "",
    grid({ caption: "Operators by type", limit: 8, rows: [...ops].sort((a, b) => b[1] - a[1]), columns: [
      { label: "type", cell: (o) => o[0], sort: (o) => o[0] },
      { label: "how many", number: true, cell: (o) => String(o[1]), sort: (o) => o[1] },
    ] }),
    r.exists
      ? el("p", { class: "headline" }, `${r.plan} is open. `,
        el("button", { type: "button", class: "main", onclick: () => app.go("network") }, "See the network"))
      : el("p", { class: "headline open" }, "No plan yet. ", app.state.language ? ""
        : el("button", { type: "button", class: "main", onclick: () => app.go("data") }, "Choose samples and target"))
  );
}
