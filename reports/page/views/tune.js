// Tuning: methods that repair accuracy without training, kept only where held-out samples confirm them.
import { el } from "../dom.js";
import { gained, number, ofNoise, plural, sqnr, withError } from "../format.js";
import { drawIntervals } from "./intervals.js";
import { dataForm, dataOptions, drawForm, fields, grid, part, planned, showOperator, steady, tiles } from "./parts.js";
import { task } from "./task.js";

export const tuneView = {
  key: "tune",
  label: "Tune",
  doc:
    "Repair accuracy without training: correct biases, round weights better, choose new scales, balance channels. Only what held-out samples confirm is kept.",
  draw: drawTune,
  usable: planned,
};

/** @param {HTMLElement} host @param {App} app */
function drawTune(host, app) {
  const methods = app.state.methods || [];
  const [method, ...rest] = fields(app, "tune", {
    method: {
      options: [{ name: "auto", label: "auto: a good choice and order", doc: "tries what fits this network, cheapest first" }, ...methods],
    },
  });
  const form = drawForm(app, [
    method,
    ...rest,
  ]);
  const data = dataForm(app, { fit: "tune", labels: false, samples: 64, empty: "those that the plan was calibrated on",
    note:
      "About half of the samples are held out: they judge and are never fitted on. Empty: the data that the plan was calibrated on. Not those that accuracy is measured on." });
  const result = el("div", { class: "result" });
  const start = task(app, { label: "Tune", fold: true, kind: "tune", most: 64,
    doc: "The model file is not changed; the new values lie in a file beside the plan, and undo takes the step back.", options: () => {
      const values = { ...dataOptions(data.read()), ...form.read() };
      if (!values.method) throw new Error("choose a method, or auto");
      return { ...values, method: values.method.includes("auto") ? ["auto"] : values.method };
    }, show: (r) => showTuned(result, app, r) });
  const list = el("dl", { class: "glossary" });
  for (const m of methods) list.append(el("dt", {}, m.name), el("dd", {}, m.doc));
  host.replaceChildren(part("Tune the plan", tuneView.doc, data.node, form.node, start, result), part("What the methods do", "", list));
  return steady(app, () => drawTune(host, app));
}

/** @param {HTMLElement} result @param {App} app @param {Core.TuneResult} r */
function showTuned(result, app, r) {
  const kept = r.methods.reduce((n, m) => n + m.kept, 0);
  const verdict = kept === 0
    ? `Nothing was kept: no method that was tried reduces the error of the held-out samples by more than chance.${
      r.budget && r.work >= r.budget ? " The limit was reached before all were tried." : ""
    } The plan is as it was.`
    : r.confirmed
    ? `Better: the outputs go from ${sqnr(r.before.nsr)} to ${sqnr(r.after.nsr, r.after.nsr_error)}, confirmed on ${
      plural(r.held_out, "held-out sample")
    }.`
    : `Kept, but not confirmed: ${r.held_out} held-out samples are too few to tell, or the change is within their error.`;
  const rows = r.methods.flatMap((m) => m.layers.map((l) => ({ method: m.name, ...l }))), chart = el("div", { class: "chart" });
  const table = (caption, list) =>
    grid({ caption, rows: list, pick: (l) => showOperator(app, l.node), pickDoc: "show this operator in the network", limit: 50, columns: [
      { label: "operator", cell: (l) => l.node, sort: (l) => l.node },
      { label: "method", cell: (l) => l.method, sort: (l) => l.method },
      { label: "change of NSR",
        doc:
          "of the error at the operator's own output (equalize, migrate and split: of the network's outputs) on the held-out samples, after minus before: below 0 is better",
        number: true, sort: (l) => l.change, cell: (l) => withError(l.change, l.change_error), title: (l) => String(l.change) },
      { label: "why not", cell: (l) => (l.kept ? "" : l.why) },
    ] });
  const kepts = rows.filter((l) => l.kept), refused = rows.filter((l) => !l.kept);
  result.replaceChildren(
    el("p", { class: kept && r.confirmed ? "headline" : "headline open" }, verdict),
    ...r.on_integers.words.map((line, i) => el("p", { class: i ? "headline open" : "" }, line)),
    tiles([
      { label: "SQNR of the outputs, before", value: sqnr(r.before.nsr, r.before.nsr_error),
        title: ofNoise(r.before.nsr, r.before.nsr_error),
        doc: "signal-to-noise ratio of the outputs on the held-out samples, with its standard error; larger is better" },
      { label: "after", value: sqnr(r.after.nsr, r.after.nsr_error), title: ofNoise(r.after.nsr, r.after.nsr_error) },
      { label: "gained", value: gained(r.before.nsr, r.change, r.change_error), title: `change of ${ofNoise(r.change, r.change_error)}`,
        doc: "of the same samples, after against before: above 0 is better" },
      { label: "held-out samples", value: `${r.held_out} of ${r.samples}`,
        doc: r.held_out_kind === "unseen" ? "none of them was among those the ranges come from"
          : "half of the samples given; the ranges may come from them" },
      { label: "work", value: `${number(r.work)} forward passes`, title: `${number(r.seconds)} s`, doc: "forward passes of one sample" },
    ]),
    chart,
    grid({ caption: "Methods", rows: r.methods, columns: [
      { label: "method", cell: (m) => m.name, sort: (m) => m.name },
      { label: "operators kept", doc: "operators whose change was kept, of those tried", number: true,
        cell: (m) => `${m.kept} of ${m.layers.length}`, sort: (m) => m.kept },
      { label: "before", doc: "SQNR of the outputs on the held-out samples", number: true,
        cell: (m) => sqnr(m.before.nsr, m.before.nsr_error), title: (m) => ofNoise(m.before.nsr, m.before.nsr_error) },
      { label: "after", number: true, cell: (m) => sqnr(m.after.nsr, m.after.nsr_error),
        title: (m) => ofNoise(m.after.nsr, m.after.nsr_error) },
      { label: "note", cell: (m) => m.note || (m.confirmed ? "confirmed" : m.kept ? "not confirmed" : "nothing kept") },
    ] }),
    kepts.length ? table("Operators that were changed", kepts) : "",
    refused.length
      ? el("details", {}, el("summary", {}, `${plural(refused.length, "change")} that helped no more than chance`),
        table("Operators that stayed", refused)) : ""
  );
  // From top to bottom: the plan before, after each method that kept something, and as it is now.
  drawIntervals(chart,
    [{ label: "before", ...r.before }, ...r.methods.filter((m) => m.kept).map((m) => ({ label: m.name, ...m.after })), { label: "after",
      ...r.after }].map((x, i, all) => ({ label: x.label, value: x.nsr, error: x.nsr_error, mark: i === all.length - 1 ? "best" : "",
        title: `${x.label}: ${sqnr(x.nsr, x.nsr_error)}, NSR ${withError(x.nsr, x.nsr_error)}` })
      ), { label: "SQNR of the outputs in dB, step by step", noise: true });
}
