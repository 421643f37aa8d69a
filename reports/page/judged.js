// What the outputs are judged by beside one figure: sentences that count more than it, and the parts of outputs by themselves.
import { el } from "./dom.js";
import { exact, known, number, percent, plural, small, sqnr } from "./format.js";
import { drawTable } from "./table.js";

// headlineList has a line for each: parts without signal, classes that change, errors that contradict each other, and where single
// operators say little of the whole.
/** @param {Partial<Core.Report>} report */
export function headlineList(report) {
  const lines = [...(report.headlines || [])], t = report.together;
  if (t && (t.whole > 3 * t.sum || t.sum > 3 * t.whole)) {
    lines.push("Quantized alone, the operators sum to NSR " + small(t.sum) + ", the whole has " + small(t.whole) + ": " + apart(t) + ".");
  }
  return lines.length ? el("ul", { class: "headlines" }, lines.map((line) => el("li", { class: "warn" }, el("bdi", null, line)))) : null;
}

function apart(t) {
  if (t.sum > t.whole) return "errors make up for each other";
  const names = t.nodes || [];
  if (names.length === 0) return "operators work together, more than a few of them";
  if (names.length === 1) {
    return names[0] + " makes most of it on the first samples (NSR " + small(t.nsr) + " on " + plural(t.samples, "sample") + ")";
  }
  return names.slice(0, -1).join(", ") + " and " + names[names.length - 1] + " work together, NSR " + small(t.nsr)
    + " with nothing else quantized; each alone they sum to " + small(t.alone) + " (" + plural(t.samples, "sample") + ")";
}

// estimated says which figures of operators are estimates; null where all are measured.
/** @param {Partial<Core.Report>} report */
export function estimated(report) {
  const rows = (report.layerwise || []).filter((l) => l.bounded > 0);
  if (!rows.length) return null;
  return el("p", { class: "soft" },
    "Estimated on up to " + plural(Math.max(...rows.map((l) => l.bounded)), "sample") + ", from the error at their own output: "
      + plural(rows.length, "operator")
      + " without products whose error is small.");
}

// agreed says how far estimates from gradients order the operators as measuring does; null without both.
/** @param {Partial<Core.Report>} report */
export function agreed(report) {
  const s = report.sensitivity;
  if (!s) return null;
  const all = [
    { of: "", at: /** @type {Partial<Core.RankAgreement>} */ (s) },
    ...(s.formats || []).map((f) => ({ of: " in " + f.format, at: f })),
    { of: " in all formats together", at: s.all_formats || {} },
  ];
  const list = all.filter(({ at }) => known(at.spearman) && known(at.kendall))
    .map(({ of, at }) => "Spearman " + at.spearman.toFixed(3) + ", Kendall " + at.kendall.toFixed(3) + of);
  return list.length
    ? el("p", { class: "soft" }, "Rank correlation of the estimates from gradients with what was measured: " + list.join("; ") + ".")
    : null;
}

// slicesOf lists the parts that count, or say that they do not: the verdict's are first, the worst at the top.
/** @param {Partial<Core.Report>} report @returns {Partial<Core.SliceError>[]} */
export function slicesOf(report) {
  /** @type {(o: Core.OutputError) => Partial<Core.SliceError>[]} */
  const partsOf = (o) =>
    o.integer && !(o.slices || []).some((s) => s.mismatch)
      ? [{ name: o.output, output: o.output, nsr: o.mismatch || 0, nsr_error: o.nsr_error, mismatch: true, judged: true }] : o.slices || [];
  const list = (report.outputs || []).flatMap(partsOf).filter((s) => s.judged || s.part || s.mismatch);
  return list.sort((a, b) => Number(Boolean(b.judged)) - Number(Boolean(a.judged)) || b.nsr - a.nsr);
}

/** @param {HTMLElement} host @param {Partial<Core.SliceError>[]} rows */
export function drawSlices(host, rows) {
  const text = (key, label, doc, value, width = 9) => ({ key, label, doc, kind: "text", value, width });
  const figure = (key, label, doc, value, show, width = 8) => ({ key, label, doc, kind: "number", value,
    show: (row) => (known(value(row)) ? show(row) : null), exact: (row) => exact(value(row)), width });
  /** @type {(row: Partial<Core.SliceError>) => string} */
  const error = (row) => (row.mismatch ? percent(row.nsr) + " differ" : sqnr(row.nsr, row.nsr_error));
  drawTable(host, { label: "Parts of the outputs", what: "part", search: false, height: 10, rows, columns: [
    { key: "name", label: "part", doc: "Name in the model, or of the file of --slices.", kind: "name", value: (row) => row.name },
    figure("nsr", "SQNR",
      "Signal-to-noise ratio of this part alone, over all samples, ± its standard error; of an integer output the share of its elements that differ.",
      (row) => row.nsr, error, 12),
    text("signal", "signal", "Whether float has a signal in it, and the quantized network still has.", (row) => row.finding || "yes", 14),
    text("counts", "counts", "Whether the verdict of the output counts it.", (row) => (row.judged ? "yes" : "no"), 5),
    figure("correlation", "correlation", "Of quantized and float values.", (row) => row.correlation, (row) => number(row.correlation)),
    figure("levels", "levels", "Different values of the quantized part, counted up to 256.", (row) => (row.mismatch ? null : row.levels),
      (row) => (row.levels >= 256 ? "256 or more" : String(row.levels))),
    text("output", "output", "Where it lies: the output, its axis and the indices.", (row) => row.output, 7),
    text("at", "indices", "Indices along the axis.",
      (row) =>
        (row.mismatch ? "all" : row.to === row.from + 1 ? row.from : row.from + " to " + (row.to - 1))
        + (row.period ? " of every " + row.period : "") + " of axis " + row.axis, 11),
  ] });
}
