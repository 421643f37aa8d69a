// The top of the live page, one line: what is open, how good it is, and the way back. What the figures are of unfolds.
import { el, replace } from "./dom.js";
import { baseName, keep, kept } from "./frame.js";
import { verdictTiles } from "./verdict.js";

// drawTopBar fills the bar anew.
/** @param {HTMLElement} host @param {App} app @param {boolean} busy */
export function drawTopBar(host, app, busy) {
  const { state } = app;
  const button = (label, doc, act, off) => el("button", { type: "button", title: doc, disabled: off, onclick: act }, label);
  const change = (method) => () => app.change(method).catch(() => {});
  const more = el("button", { type: "button", class: "more", "aria-label": "What the figures mean",
    title: "The figures with what they are of, in more lines", onclick: () => open(more.getAttribute("aria-expanded") !== "true") }, "▾");
  function open(on) {
    more.setAttribute("aria-expanded", String(on));
    host.classList.toggle("open", on);
    keep("qwb-head", on ? "open" : "");
  }
  replace(host,
    el("div", { class: "what" }, el("h1", { title: state.model || "" }, state.model ? baseName(state.model) : "qwb"),
      el("p", { class: "soft" }, whatIsOpen(app))), state.exists && app.view ? verdictTiles(app.view) : el("span", { class: "grow" }),
    el("div", { class: "back", role: "group", "aria-label": "Figures and history of the plan" },
      state.exists && app.view && !app.view.verdict.metric
        && button("Measure accuracy …", "Run the network in float and quantized on samples with labels: qwb eval", () => app.go("samples"),
          false), state.exists && app.view && more, state.exists && [
      button("↶ Undo", "Take back the last command (Ctrl+Z)", change("undo"), busy || !state.undo),
      button("↷ Redo", "Do again what was taken back (Ctrl+Y)", change("redo"), busy || !state.redo),
    ]));
  open(kept("qwb-head") === "open");
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
