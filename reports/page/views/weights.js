// The weights of an operator, channel by channel: their range, which integers they fall on, and what rounding them costs.
import { el, replace, svg } from "../dom.js";
import { barePart, known, number, ofNoise, plural } from "../format.js";
import { drawChannels } from "../histogram.js";
import { newSelection } from "../selection.js";
import { drawTable } from "../table.js";

const figure = (key, label, doc, show) => ({ key, label, doc, kind: "number", value: (row) => row[key],
  show: (row) => (known(row[key]) ? show(row[key]) : null), width: 6 });

const noise = (key, label, doc) => ({ ...figure(key, label, doc, barePart), exact: (row) => ofNoise(row[key]) });

const columns = () => [
  { key: "name", label: "channel", doc: "Output channel, counted from 0", kind: "number", value: (row) => row.channel,
    show: (row) => `${row.channel}${row.dead ? " dead" : ""}`, width: 6 },
  noise("nsr", "SQNR", "Signal-to-noise ratio of the channel's weights, in decibels: what quantizing leaves of them"),
  figure("min", "min", "Smallest weight", number),
  figure("max", "max", "Largest weight", number),
  figure("scale", "scale", "Distance between two levels", number),
  noise("clip", "clip", "The part of the error from weights outside of the range, in decibels"),
  noise("round", "round", "The part of the error from rounding, in decibels"),
];

// drawWeights draws weights as the method node has them.
/** @param {HTMLElement} host @param {Core.Weights} weights */
export function drawWeights(host, weights) {
  const rows = weights.channels.map((c) => ({ ...c, name: String(c.channel), op: c.dead ? "dead" : "" })),
    dead = rows.filter((c) => c.dead).length;
  const picture = el("div"), table = el("div"), codes = el("div", { class: "codes" }), selection = newSelection();
  replace(host,
    el("p", { class: "soft" },
      `${weights.tensor}: ${weights.scheme || "not quantized"}, ${
        rows.length < weights.of ? `${rows.length} of ${weights.of} channels, those with the largest error` : plural(weights.of, "channel")
      }`, dead > 0 && `, ${plural(dead, "of them is", "of them are")} constant (dead)`), picture, table, codes);
  drawChannels(picture, rows.map((c) => [c.min, c.max]), { name: weights.tensor });
  drawTable(table, { rows, columns: columns(), selection, label: "Channels", what: "channel", height: 6, search: false,
    sort: { key: "nsr", down: true } });
  selection.on(() => showCodes(rows.find((c) => c.name === selection.node)));
  if (rows.length) selection.set(rows.reduce((worst, c) => ((c.nsr || 0) > (worst.nsr || 0) ? c : worst)).name);

  // showCodes draws how often the integers occur, some neighbours to a bar.
  function showCodes(c) {
    const most = Math.max(...c.codes, 1), n = c.codes.length, wide = (weights.code_hi - weights.code_lo + 1) / n, height = 70,
      step = 100 / n;
    const label = `Channel ${c.channel}: on which of the integers ${weights.code_lo} to ${weights.code_hi} its weights fall`;
    replace(codes, el("h4", null, label),
      svg("svg", { viewBox: `0 0 100 ${height}`, preserveAspectRatio: "none", role: "img", "aria-label": label,
        style: { height: `${height}px`, width: "100%" } }, c.codes.map((k, i) =>
          k > 0
          && svg("rect", { class: "range", x: i * step, y: height - Math.max(1, height * k / most), width: step * 0.9,
            height: Math.max(1, height * k / most),
            title: `${plural(k, "weight")} on ${weights.code_lo + i * wide} to ${weights.code_lo + (i + 1) * wide - 1}` })
        )));
  }
}
