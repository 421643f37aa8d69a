// The top of the live page: what is open, how good it is, and the way back.
import { el, replace } from "./dom.js";
import { bytes, decibels, exact, insignificant, known, number, percent, plural, points, small, withError } from "./format.js";
import { baseName } from "./frame.js";

// drawTopBar fills the bar anew.
export function drawTopBar(host, app) {
  const { state } = app;
  const button = (label, doc, act, off) => el("button", { type: "button", title: doc, disabled: off, onclick: act }, label);
  const change = (method) => () => app.change(method).catch(() => {});
  replace(host,
    el("div", { class: "what" },
      el("h1", { title: state.model || "" }, state.model ? baseName(state.model) : "qwb"),
      el("p", { class: "soft" }, whatIsOpen(app))),
    app.view && app.view.verdict ? el("dl", { class: "verdict" }, figures(app)) : el("span", { class: "grow" }),
    state.exists ? el("div", { class: "back", role: "group", "aria-label": "History of the plan" },
      button("↶ Undo", "Take back the last command (Ctrl+Z)", change("undo"), !state.undo),
      button("↷ Redo", "Do again what was taken back (Ctrl+Y)", change("redo"), !state.redo)) : null);
}

function whatIsOpen(app) {
  const { state } = app;
  if (!state.model) return "Nothing is open yet.";
  if (!state.exists) return "not quantized yet";
  return [el("span", { title: `The plan: ${state.plan}. It has every decision and every scale.` }, baseName(state.plan)), " for ",
    el("span", { title: "The target: the engine that the quantized model is for" }, state.platform)];
}

// figures are the verdict: what was lost, and for what.
function figures(app) {
  const v = app.view.verdict, old = app.view.stale;
  const tile = (label, doc, value, title, extra) => el("div", { class: "tile", title: doc }, el("dt", null, label), el("dd", { title: title || doc }, value, extra && el("small", null, extra)));
  const list = [];
  if (known(v.float) && known(v.quantized)) {
    const share = v.percent ? percent : number, n = v.scored ? `, n = ${v.scored}` : "";
    list.push(tile(v.metric, `${v.metric} in FP32 and quantized, on ${plural(v.scored, "sample")}`, `${share(v.float)} → ${share(v.quantized)}`, `${exact(v.float)} → ${exact(v.quantized)}`,
      known(v.drop) && `drop ${v.percent ? points(v.drop, v.drop_error) : withError(v.drop, v.drop_error)}${insignificant(v.drop, v.drop_error) ? " (not significant" : " ("}${n.replace(/^, /, insignificant(v.drop, v.drop_error) ? ", " : "")})`));
  } else {
    list.push(tile("Accuracy", "Correct predictions in FP32 and quantized. It needs samples with labels.", el("button", { type: "button", class: "link", onclick: () => app.go("samples") }, "not measured"), "", "needs labels"));
  }
  if (known(v.nsr)) {
    list.push(tile(`Error at the output (NSR${v.centred ? ", centred" : ""})`,
      `Noise-to-signal ratio of the output ${v.output}, 0 for no error. Below 0.01 it is usually harmless, above 0.1 it costs accuracy.${v.centred ? " Centred: of the class scores without their mean, which Softmax does not see." : ""}`,
      withError(v.nsr, v.nsr_error), `${exact(v.nsr)} ± ${exact(v.nsr_error)}`, `${known(v.sqnr_db) ? `SQNR ${decibels(v.sqnr_db)}, ` : ""}n = ${v.samples}${old ? ", before the last change" : ""}`));
  }
  const work = (v.work || [])[0];
  if (work) list.push(tile("Work", `Share of the multiply-accumulates (MACs) by number format: ${v.work.map((w) => `${w.format} ${percent(w.share)}`).join(", ")}`, `${percent(work.share)} ${work.format}`, "", v.work.length > 1 ? v.work.slice(1).map((w) => `${percent(w.share)} ${w.format}`).join(", ") : "of all MACs"));
  if (v.size_bytes) list.push(tile("Constants", "Size of weights and biases, in FP32 and as the plan quantizes them", `${bytes(v.size_bytes.float)} → ${bytes(v.size_bytes.quantized)}`, `${v.size_bytes.float} → ${v.size_bytes.quantized} bytes`, v.size_bytes.quantized > 0 && `${number(v.size_bytes.float / v.size_bytes.quantized)} times smaller`));
  if (v.budget) list.push(tile("Budget", "What the last search was to hold", `${v.budget.metric} ≤ ${small(v.budget.limit)}`, exact(v.budget.limit), known(v.budget.met) && (v.budget.met ? "met" : "not met")));
  return list;
}
