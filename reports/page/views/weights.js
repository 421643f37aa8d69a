// The weights of an operator, channel by channel: their range, which integers they fall on, and what rounding them costs.
import { drawChannels } from "../histogram.js";
import { el, replace, svg } from "../dom.js";
import { known, number, percent, plural, small } from "../format.js";
import { newSelection } from "../selection.js";
import { drawTable } from "../table.js";

const figure = (key, label, doc, show) => ({ key, label, doc, kind: "number", value: (row) => row[key], show: (row) => (known(row[key]) ? show(row[key]) : null), width: 6 });

const columns = () => [
  { key: "name", label: "channel", doc: "Output channel, counted from 0", kind: "number", value: (row) => row.channel, show: (row) => `${row.channel}${row.dead ? " dead" : ""}`, width: 6 },
  figure("nsr", "NSR", "Noise-to-signal ratio of the channel's weights: what quantizing costs them", small),
  figure("min", "min", "Smallest weight", number), figure("max", "max", "Largest weight", number),
  figure("scale", "scale", "Distance between two levels", number),
  figure("clip", "clip", "The part of the error from weights outside of the range", small),
  figure("round", "round", "The part of the error from rounding", small),
];

// drawWeights draws weights as the method node has them.
export function drawWeights(host, weights) {
  const rows = weights.channels.map((c) => ({ ...c, name: String(c.channel), op: c.dead ? "dead" : "" })), dead = rows.filter((c) => c.dead).length;
  const picture = el("div"), table = el("div"), codes = el("div", { class: "codes" }), selection = newSelection();
  replace(host, el("p", { class: "soft" }, `${weights.tensor}: ${weights.scheme}, ${weights.shown < weights.of ? `the ${weights.shown} channels with the largest error of ${weights.of}` : plural(weights.of, "channel")}`,
    dead > 0 && `, ${plural(dead, "of them is", "of them are")} constant (dead)`), picture, table, codes);
  drawChannels(picture, rows.map((c) => [c.min, c.max]), { name: weights.tensor });
  drawTable(table, { rows, columns: columns(), selection, label: "Channels", what: "channel", height: 6, search: false, sort: { key: "nsr", down: true } });
  selection.on(() => showCodes(rows.find((c) => c.name === selection.node)));
  if (rows.length) selection.set(rows.reduce((worst, c) => ((c.nsr || 0) > (worst.nsr || 0) ? c : worst)).name);

  function showCodes(c) {
    if (!c || !c.codes) return;
    const most = Math.max(...c.codes, 1), n = c.codes.length, used = c.codes.filter((k) => k > 0).length, height = 70, step = 100 / n;
    const label = `Channel ${c.channel}: ${used} of ${n} integers from ${c.code_lo} to ${c.code_hi} are used (${percent(used / n)})`;
    replace(codes, el("h4", null, label), svg("svg", { class: "codes", viewBox: `0 0 100 ${height}`, preserveAspectRatio: "none", role: "img", "aria-label": label, style: { height: `${height}px`, width: "100%" } },
      c.codes.map((k, i) => k > 0 && svg("rect", { class: "range", x: i * step, y: height - Math.max(1, height * k / most), width: Math.max(step * 0.9, 0.15), height: Math.max(1, height * k / most),
        title: `integer ${c.code_lo + Math.round(i * (c.code_hi - c.code_lo) / Math.max(n - 1, 1))}: ${plural(k, "weight")}` }))));
  }
}
