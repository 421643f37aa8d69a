// What the loss of the integers is made of (analyze --explain): at the outputs, and step by step.
import { add, el } from "./dom.js";
import { exact, known, small } from "./format.js";
import { drawTable } from "./table.js";

const parts = [
  ["nsr", "NSR", "The loss."],
  ["weights", "weights", "Rounding the weights."],
  ["weights_shift", "shift", "Of the weights' part, what one number per output channel takes away (a corrected bias)."],
  ["weights_noise", "noise", "Of the weights' part, what that leaves."],
  ["clip", "clip", "Activations outside of their range."],
  ["round", "round", "Rounding activations."],
  ["bias", "bias", "Rounding the bias."],
  ["tables", "tables", "Tables for functions."],
  ["profile", "profile", "The arithmetic of the chip."],
  ["rest", "rest", "What the changes do together."],
];

/** @param {HTMLElement} host @param {Core.Explanation} explained */
export function drawLosses(host, explained, selection) {
  const columns = (label) => [
    { key: "name", label, doc: "Name in the model.", kind: "name", value: (row) => row.name },
    ...parts.map(([key, word, doc]) => ({ key, label: word, doc, kind: "number", value: (row) => row[key],
      show: (row) => (known(row[key]) ? small(row[key]) : null), exact: (row) => exact(row[key]), width: 6.6 })
    ),
  ];
  const outputs = el("div"), layers = el("div");
  add(host, outputs,
    el("p", { class: "soft" },
      "The same for every step from float inputs, at its own output. Here the parts sum to the NSR; a negative one makes up for others."),
    layers);
  drawTable(outputs, {
    rows: explained.outputs.flatMap(
      (o) => [{ ...o, name: o.output }, ...(o.slices || []).map((s) => ({ ...s, name: o.output + ": " + s.name }))]
    ),
    columns: columns("output"),
    label: "Loss at the outputs and their parts",
    what: "output",
    search: false,
    height: 4,
  });
  drawTable(layers, { rows: explained.layers.map((l) => ({ ...l, name: l.node })), columns: columns("operator"), selection,
    sort: { key: "nsr", down: true }, label: "Loss of every step", what: "step", height: 12 });
}
