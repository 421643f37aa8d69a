// What is wrong and what helps: one card for each cause, the most helpful first.
import { commandLine, el } from "./dom.js";
import { known, ofNoise, plural, sqnr } from "./format.js";

// What the names of causes mean, for people.
const causes = {
  clipping: "Values outside of the range are cut off",
  outliers: "A few values far out stretch the range",
  "coarse-grid": "8 bits are too coarse here",
  "weight-mean-shift": "Rounding the weights moves channel means",
  "weight-channels": "Channels of very different width share a scale",
  "weight-bits": "The weights need more bits",
  "depthwise-channels": "A depthwise convolution has one scale for all channels",
  "concat-ranges": "Tensors of different range are joined",
  "softmax-tails": "Softmax scores span more than their grid can tell apart",
  "dead-channels": "Many channels that are constant",
  saturation: "Sums of products leave 16 bits",
  "few-samples": "Too few calibration samples",
};

// causeText is the name of a cause for people.
export const causeText = (cause) => causes[cause] || cause.replaceAll("-", " ");

// adviceCard is one advice. buttons(command) may add what a live page can do with a command.
/** @param {Core.Advice} a @param {Selected} selection @param {(line: string) => any} [buttons] */
export function adviceCard(a, selection, buttons) {
  const names = a.nodes && a.nodes.length ? a.nodes : a.node ? [a.node] : [], shown = names.slice(0, 4);
  const link = (name) =>
    el("button", { type: "button", title: "Show " + name, onclick: () => selection && selection.set(name, "advice") },
      el("bdi", null, name));
  const line = (command) => [commandLine(command), buttons && buttons(command)];
  return el("li", null, el("h3", null, causeText(a.cause)),
    names.length > 0 && el("div", { class: "names" }, shown.map(link), names.length > shown.length
      && el("details", null, el("summary", null, "and " + (names.length - shown.length) + " more"), names.slice(shown.length).map(link))),
    el("p", null, a.evidence.charAt(0).toUpperCase() + a.evidence.slice(1) + "."), effects(a).map((text) => el("p", text.props, text.text)),
    a.command && line(a.command),
    (a.others || []).length > 0 && el("details", null, el("summary", null, "other commands that help"), a.others.map(line)));
}

// effects says what a cure does: as predicted, and as measured where it was tried.
/** @param {Core.Advice} a */
function effects(a) {
  const list = [], t = a.trial;
  if (known(a.before) && known(a.predicted)) {
    list.push({ props: { title: ofNoise(a.before) + " → " + ofNoise(a.predicted) },
      text: "Predicted SQNR of the outputs: " + sqnr(a.before) + " → " + sqnr(a.predicted) + " (at most 8 calibration samples)." });
  }
  if (t && t.failed) list.push({ text: "Tried: " + t.failed });
  else if (t) {
    list.push({ props: { title: ofNoise(t.before.nsr) + " → " + ofNoise(t.measured.nsr) + "; change " + ofNoise(t.change, t.change_error) },
      text: "Measured on " + plural(t.samples, { unseen: "unseen sample", half: "held-out sample" }[t.held_out_kind] || "sample") + ": "
        + sqnr(t.before.nsr) + " → " + sqnr(t.measured.nsr, t.measured.nsr_error) + "." });
  }
  return list;
}

// adviceList is all advice about a plan, or a line that says why there is none.
/** @param {Core.View} view @param {Selected} selection @param {(line: string) => any} [buttons] */
export function adviceList(view, selection, buttons) {
  const report = /** @type {Partial<Core.Report>} */ (view.report || {});
  if (report.advice && report.advice.length) {
    return el("ol", { class: "advice" }, report.advice.map((a) => adviceCard(a, selection, buttons)));
  }
  return el("p", { class: "empty" }, (report.layerwise || []).length
    ? "Nothing was found that lowers the error by 10 % or more. Causes are looked for where the NSR of the outputs is 0.01 or more."
    : "Advice comes with qwb analyze --layerwise.");
}
