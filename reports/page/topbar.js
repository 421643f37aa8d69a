// The top of the live page: what is open, how good it is, and the way back.
import { el, replace } from "./dom.js";
import { baseName } from "./frame.js";
import { verdictTiles } from "./verdict.js";

// drawTopBar fills the bar anew.
/** @param {HTMLElement} host @param {App} app */
export function drawTopBar(host, app) {
  const { state } = app;
  const button = (label, doc, act, off) => el("button", { type: "button", title: doc, disabled: off, onclick: act }, label);
  const change = (method) => () => app.change(method).catch(() => {});
  replace(host,
    el("div", { class: "what" }, el("h1", { title: state.model || "" }, state.model ? baseName(state.model) : "qwb"),
      el("p", { class: "soft" }, whatIsOpen(app))), app.view ? verdictTiles(app.view) : el("span", { class: "grow" }),
    state.exists && app.view && !app.view.verdict.metric
      && el("button", { type: "button", title: "Run the network in float and quantized on samples with labels: qwb eval",
        onclick: () => app.go("samples") }, "Measure accuracy …"), state.exists
    ? el("div", { class: "back", role: "group", "aria-label": "History of the plan" },
      button("↶ Undo", "Take back the last command (Ctrl+Z)", change("undo"), !state.undo),
      button("↷ Redo", "Do again what was taken back (Ctrl+Y)", change("redo"), !state.redo)) : null);
}

/** @param {App} app */
function whatIsOpen(app) {
  const { state } = app;
  if (!state.model) return "Nothing is open yet.";
  if (!state.exists) return "not quantized yet";
  return [
    el("span", { title: `The plan: ${state.plan}. It has every decision and every scale.` }, baseName(state.plan)),
    " for ",
    el("span", { title: "The target: the engine that the quantized model is for" }, state.platform),
  ];
}
