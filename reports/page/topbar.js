// The top of the live page, one line: what is open, the verdict in words, the figures behind it, and the way back. Each figure is a button
// that unfolds what the figures are of; one that nobody measured is a button that measures it.
import { judging } from "./context.js";
import { el, replace } from "./dom.js";
import { exact, number, percent, plural, withError } from "./format.js";
import { baseName, keep, kept } from "./frame.js";
import { figuresOf, inWords, workBar } from "./verdict.js";

const signs = { small: "✓", visible: "!", large: "!", open: "?" };
const short = { error: "error", size: "size", work: "on integers" };

// drawTopBar fills the bar anew.
/** @param {HTMLElement} host @param {App} app @param {boolean} busy */
export function drawTopBar(host, app, busy) {
  const { state } = app, planned = state.exists && app.view;
  const change = (label, doc, method) =>
    el("button", { type: "button", title: doc, disabled: busy || !state[method], onclick: () => app.change(method).catch(() => {}) },
      label);
  function open(on) {
    for (const b of host.querySelectorAll("[aria-expanded]")) b.setAttribute("aria-expanded", String(on));
    host.classList.toggle("open", on);
    keep("qwb-head", on ? "open" : "");
  }
  const unfold = () => open(!host.classList.contains("open"));
  replace(host,
    el("div", { class: "what" }, el("h1", { title: state.model || "" }, state.model ? baseName(state.model) : "qwb"),
      el("p", { class: "soft" }, whatIsOpen(app))), planned
    ? el("div", { class: "tiles", role: "group", "aria-label": "Verdict and figures" }, verdict(app),
      headFigures(app.view).map((f) => f.none ? measure(app, f) : figure(f, unfold)))
    : state.language && app.loss
    ? el("div", { class: "tiles", role: "group", "aria-label": "Figures" },
      lossFigures(app.loss).map((f) =>
        el("div", { class: "tile", title: f.title }, el("span", { class: "soft" }, f.what), el("b", null, f.figure))
      )) : el("span", { class: "grow" }),
    el("div", { class: "back", role: "group", "aria-label": "Figures and history of the plan" }, planned
      && el("button", { type: "button", class: "more", "aria-expanded": "false", "aria-label": "What the figures mean",
        title: "The figures with what they are of, in more lines", onclick: unfold }, "▾"), state.exists && [
      change("↶ Undo", "Take back the last command (Ctrl+Z)", "undo"),
      change("↷ Redo", "Do again what was taken back (Ctrl+Y)", "redo"),
    ]));
  open(kept("qwb-head") === "open");
}

// headFigures are those of a verdict that have room in one line: the loss stands beside the score, the worst operator in the verdict.
/** @param {Core.View} view */
function headFigures(view) {
  const list = figuresOf(view), drop = list.find((f) => f.key === "drop");
  return list.filter((f) => f.key !== "drop" && f.key !== "worst").map((f) => ({ ...f,
    what: short[f.key] || f.what.replace(", quantized", "").replace(/^top(\d)/, "top-$1"),
    ...(f.key === "score" && drop ? { beside: "drop " + drop.figure, doc: f.doc + " " + drop.doc, note: f.note + "; " + drop.note } : {}) })
  );
}

// lossFigures are those of a checkpoint with its weights as they were measured last.
/** @param {App["loss"]} r */
const lossFigures = (r) => [
  { what: "perplexity", figure: number(r.perplexity), title: `float ${number(r.float_perplexity)}` },
  { what: "KL per token", figure: withError(r.kl, r.kl_error), title: exact(r.kl) },
  { what: "tokens that change", figure: percent(r.flip_rate), title: "share of the most likely next tokens that are others" },
  { what: "weights", figure: r.weights || "as stored", title: `measured on ${plural(r.tokens, "token")}` },
];

/** @param {App} app */
function verdict(app) {
  const said = inWords(app.view), stale = app.view.stale;
  return el("button", { type: "button", class: "tile verdict " + said.level + (stale ? " stale" : ""),
    title: (stale ? "Before the last change: " : "") + said.why + (said.node ? " A click shows " + said.node + "." : ""), onclick: () => {
      if (said.node) app.selection.set(said.node, "verdict");
      app.go("advice");
    } }, el("span", { class: "soft" }, "verdict"),
    el("b", null, el("span", { class: "sign", "aria-hidden": "true" }, signs[said.level]), " ", el("bdi", null, said.text)));
}

/** @param {Figure & { beside?: string }} f */
const figure = (f, unfold) =>
  el("button", { type: "button", class: f.stale ? "tile stale" : "tile", title: (f.title ? f.title + ". " : "") + f.doc,
    "aria-expanded": "false", onclick: unfold }, el("span", { class: "soft" }, f.what),
    el("b", null, f.figure, f.beside && el("small", null, " " + f.beside)), f.work && workBar(f.work),
    el("span", { class: "soft" }, f.note));

// measure is a figure that is not known: accuracy runs on the samples with labels, which are asked for where none are known.
/** @param {App} app @param {Figure} f */
function measure(app, f) {
  const kind = f.key === "score" ? "eval" : "analyze", running = app.running(kind), asks = kind === "eval" && !judging(app).labels;
  const act = () => {
    if (asks) app.go("samples");
    else (kind === "eval" ? app.run("eval", { ...judging(app), mode: "sim" }) : app.run("analyze")).catch(() => {});
  };
  return el("div", { class: "tile" }, el("span", { class: "soft" }, f.what),
    el("button", { type: "button", class: "do", disabled: running, title: f.doc + (asks ? " It needs samples with labels." : ""),
      onclick: act, "aria-label": running ? `${f.what} is being measured` : kind === "eval" ? "Measure accuracy …" : "Measure the error" },
      running ? "measuring …" : asks ? "Measure …" : "Measure"), el("span", { class: "soft" }, f.doc));
}

/** @param {App} app */
function whatIsOpen(app) {
  const { state } = app;
  if (!state.model) return "Nothing is open yet.";
  if (!state.exists) return "not quantized yet";
  return [
    el("span", { title: "The target: the engine that the quantized model is for" }, state.platform),
    ": ",
    el("span", { title: `The plan: ${state.plan}. It has every decision and every scale.` }, baseName(state.plan)),
  ];
}
