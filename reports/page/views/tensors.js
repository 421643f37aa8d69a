// Statistics of every tensor: ranges, moments, and the histogram of the one that is chosen.
import { levelsOf, statisticsOf } from "../data.js";
import { el, replace } from "../dom.js";
import { known, number, percent, plural } from "../format.js";
import { drawHistogram } from "../histogram.js";
import { newSelection } from "../selection.js";
import { drawTable } from "../table.js";

const figure = (key, label, doc, more) => ({ key, label, doc, kind: "number", value: (row) => row[key], show: (row) => number(row[key]),
  width: 6, ...more });

const columns = () => [
  { key: "name", label: "tensor", doc: "Name of the tensor in the model.", kind: "name", value: (row) => row.name },
  { key: "kind", label: "kind", doc: "activation: computed by an operator; input: of the network; parameter: a constant.", kind: "text",
    value: (row) => row.kind, width: 7 },
  figure("min", "min", "Smallest value."),
  figure("max", "max", "Largest value."),
  figure("mean", "mean", "Mean of all values."),
  figure("std", "std", "Standard deviation of all values."),
  figure("skewness", "skewness", "How lopsided the values are. 0: symmetric."),
  figure("kurtosis", "kurtosis", "Excess kurtosis, 0 for a normal distribution. Large: few values far out, which stretch the range."),
  figure("zeros", "zeros", "Share of values that are exactly zero.", { show: (row) => percent(row.zeros) }),
  { key: "dead", label: "dead channels", doc: "Channels that are constant over all samples, of all that there are.", kind: "number",
    value: (row) => (row.channels ? (row.dead || []).length : null),
    show: (row) => (row.channels ? (row.dead || []).length + " of " + row.channels : null), width: 8 },
];

export const tensorsView = {
  key: "tensors",
  label: "Tensors",
  doc: "Ranges and moments of every tensor, measured on the samples of the analysis.",
  /** @param {HTMLElement} host @param {Pick<App, "view" | "rows" | "selection"> & Partial<Pick<App, "run">>} app */
  draw(host, app) {
    const list = statisticsOf(app.view), own = Boolean(app.view.report && (app.view.report.statistical || []).length);
    if (!list.length) {
      replace(host, el("p", { class: "empty" }, "No statistics are known. They come with: qwb analyze --statistical"), app.run
        && el("p", { class: "actions" }, el("button", { type: "button", class: "primary", onclick: () => app.run("analyze") }, "Measure")));
      return;
    }
    const rows = list.map((s) => ({ ...s, name: s.tensor, op: s.kind })), selection = newSelection(), table = el("div"),
      beside = el("div", { class: "beside layer" });
    const grids = new Map();
    for (const row of app.rows) {
      for (const t of row.tensors) if (levelsOf(t.slot) && !grids.has(t.name)) grids.set(t.name, levelsOf(t.slot));
    }
    replace(host, el("p", { class: "soft" }, (own ? "Measured on " + plural(app.view.report.samples, "sample")
      + ". The ranges of observers come from all calibration samples, so they may reach further."
      : "As calibration saw them. Means, moments and parameters come with qwb analyze --statistical.")
      + " Counts are drawn on a logarithmic scale."), el("div", { class: "columns" }, table, beside));
    drawTable(table, { rows, columns: columns(), selection, label: "Tensors", what: "tensor", height: 13 });
    selection.on(show);
    selection.set((rows.find((r) => r.kind !== "parameter") || rows[0]).name);

    function show() {
      const row = rows.find((r) => r.name === selection.node), picture = el("div");
      if (!row) return;
      replace(beside, el("h3", null, el("bdi", null, row.name)), el("p", { class: "soft" }, row.node
        ? ["computed by ", el("button", { type: "button", onclick: () => app.selection.set(row.node) }, el("bdi", null, row.node))]
        : row.kind), picture);
      drawHistogram(picture, row, { grid: grids.get(row.name) });
      if (row.dead && row.dead.length) {
        add(beside, "Constant channels: ", row.dead.slice(0, 40).join(", "), row.dead.length > 40 ? " …" : "");
      }
    }
    function add(node, ...texts) {
      node.append(el("p", { class: "soft" }, texts.filter(known)));
    }
  },
};
