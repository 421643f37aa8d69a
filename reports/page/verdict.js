// The verdict on a plan: a few words, one sentence, and the figures behind it.
import { judgedOf } from "./data.js";
import { commandLine, el } from "./dom.js";
import { bytes, count, exact, insignificant, known, number, ofNoise, percent, plural, points, shorten, small, sqnr,
  withError } from "./format.js";

// What an NSR of the outputs usually means; docs/reports.md has the same rule of thumb.
const levels = {
  small: "Keeps its accuracy, by the error at the outputs",
  visible: "May lose accuracy: check it with labelled data",
  large: "Expect a loss of accuracy",
};

// headline is the verdict in a sentence.
/** @param {Core.View} view */
export function headline(view) {
  const v = /** @type {Partial<Core.Verdict>} */ (view.verdict || {}), budget = budgetText(v.budget);
  if (v.shift) return el("p", { class: "headline large" }, shifted(v));
  if (known(v.drop) && v.metric) {
    const drop = scoreText(v.drop, v.drop_error, v.percent), none = insignificant(v.drop, v.drop_error) || v.drop === 0;
    const text = v.drop < 0 && !none ? "The quantized network scores better than float: " + v.metric + " drop " + drop + "."
      : none ? "No loss of " + v.metric + " can be told from chance: drop " + drop + " on " + plural(v.scored, "sample") + "."
      : "The quantized network loses " + drop + " of " + v.metric + " on " + plural(v.scored, "sample") + ".";
    const flips = known(v.flips) ? " " + (v.flips === 1 ? "1 prediction" : v.flips + " predictions") + " of " + v.scored + " changed." : "";
    return el("p", { class: "headline " + (none || v.drop < 0 ? "small" : "large") }, text + flips + budget);
  }
  if (!known(v.nsr)) return el("p", { class: "headline visible" }, "The error of this plan is not measured yet.");
  if (v.mismatches) {
    return el("p", { class: "headline visible" },
      percent(v.nsr) + " of the elements of " + v.output + " differ, measured on " + plural(v.samples, "sample")
        + ". No output is float: there is no NSR.");
  }
  return el("p", { class: "headline " + (v.level || "") },
    (levels[v.level] ? levels[v.level] + ". " : "") + "SQNR " + sqnr(v.nsr, v.nsr_error) + " (NSR " + withError(v.nsr, v.nsr_error)
      + "), measured on " + plural(v.samples, "sample") + "." + budget);
}

// shifted says that the labels are those of other classes.
/** @param {Partial<Core.Verdict>} v */
export const shifted = (v) =>
  "Only " + Math.round(v.float * v.scored) + " of " + v.scored + " float predictions are correct; with a label offset larger by " + v.shift
  + " about " + v.shift_right + " of the quantized ones are. The labels are of other classes.";

// budgetText says whether a budget is met, in the figure of the headline: NSR as SQNR.
/** @param {Core.Budget | null} [b] */
function budgetText(b) {
  if (!b) return "";
  return " Budget " + limitOf(b) + (b.met ? ": met on held-out samples." : b.met === false ? ": not proven." : ".");
}

/** @param {Core.Budget} b */
const limitOf = (b) => b.metric === "NSR" ? "SQNR ≥ " + sqnr(b.limit) : b.metric + " ≤ " + number(b.limit);

const scoreText = (x, error, percents) => (percents ? points(x, error) : number(x) + (known(error) ? " ± " + small(error) : ""));

// worstOf is the operator that does most alone, {node, op, nsr, nsr_error}; null where none was measured.
/** @param {Core.View} view */
function worstOf(view) {
  const list = (view.report && view.report.layerwise || []).map((l) => ({ node: l.node, op: l.op, ...judgedOf(l) }));
  const worst = list.reduce((m, l) => (m === null || l.nsr > m.nsr ? l : m), null);
  return worst && worst.nsr > 0 ? worst : null;
}

// inWords is the verdict in two or three words, with what it is to be looked at for: "ready", "look at conv_1".
/** @param {Core.View} view @returns {{ text: string; why: string; level: string; node?: string }} */
export function inWords(view) {
  const v = /** @type {Partial<Core.Verdict>} */ (view.verdict || {}), worst = worstOf(view), why = headline(view).textContent;
  const look = worst ? { text: "look at " + shorten(worst.node, 21), why, level: "large", node: worst.node }
    : { text: "loses accuracy", why, level: "large" };
  if (!known(v.nsr) && !v.metric) return { text: "not measured", why, level: "open" };
  if (v.shift) return { text: "labels do not fit", why, level: "large" };
  if (v.budget && v.budget.met === false) {
    return { text: "budget not proven", why, level: "visible" };
  }
  if (known(v.drop) && v.metric) return v.drop <= 0 || insignificant(v.drop, v.drop_error) ? { text: "ready", why, level: "small" } : look;
  if (v.mismatches) return { text: v.nsr > 0 ? percent(v.nsr) + " differ" : "ready", why, level: v.nsr > 0 ? "visible" : "small" };
  if (v.level === "small") return { text: "looks ready", why, level: "small" };
  return v.level === "visible" ? { ...look, level: "visible" } : look;
}

// figuresOf are the figures of a verdict: key, what, doc (what it is), figure, note (what it is of), title (with all digits), none (why it
// is not known, and the command that finds it), stale, work (shares by format).
/** @param {Core.View & { partial?: boolean }} view @returns {Figure[]} */
export function figuresOf(view) {
  const v = /** @type {Partial<Core.Verdict>} */ (view.verdict || {}), missing = view.missing || {}, worst = worstOf(view);
  const list = [], score = (x) => (v.percent ? percent(x) : number(x)), of = view.stale ? "before the last change" : "";
  /** @param {Figure} f */
  const put = (f) => list.push(f);
  if (v.metric) {
    put({ key: "score", what: v.metric + ", quantized", doc: "The metric of the last qwb eval of this plan.", figure: score(v.quantized),
      note: (known(v.float) ? "float " + score(v.float) + ", " : "") + plural(v.scored, "sample"), title: exact(v.quantized) });
    put({ key: "drop", what: "drop of " + v.metric,
      doc: "How much worse than float, ± its standard error over pairs of predictions (pp: percentage points).",
      figure: scoreText(v.drop, v.drop_error, v.percent),
      note: insignificant(v.drop, v.drop_error) ? "not significant" : known(v.flips) ? plural(v.flips, "changed prediction") : "" });
  } else if (!view.partial) {
    put({ key: "score", what: "accuracy", doc: "Nobody has measured the accuracy of this plan.", none: missing.metric || "qwb eval" });
  }
  if (known(v.nsr) && v.mismatches) {
    put({ key: "error", what: "mismatches of the outputs",
      doc: "Share of the elements of an integer output that differ from those of the float network, ± its standard error.",
      figure: percent(v.nsr) + (known(v.nsr_error) ? " ± " + percent(v.nsr_error) : ""), note: of || plural(v.samples, "sample"),
      title: v.output + ": " + exact(v.nsr), stale: view.stale });
  } else if (known(v.nsr)) {
    put({ key: "error", what: "SQNR of the outputs",
      doc:
        "Power of the signal over power of the error (SQNR), ± its standard error; larger is better. NSR is the same the other way round."
        + (v.centred ? " Of the class scores before Softmax, without their mean over the classes, which Softmax does not see." : ""),
      figure: sqnr(v.nsr, v.nsr_error), note: of || "NSR " + withError(v.nsr, v.nsr_error) + ", " + plural(v.samples, "sample"),
      title: v.output + ": " + ofNoise(v.nsr, v.nsr_error), stale: view.stale });
  } else {
    put({ key: "error", what: "SQNR of the outputs", doc: "Power of the signal over power of the error; larger is better.",
      none: missing.report || "qwb analyze" });
  }
  if (v.budget) {
    put({ key: "budget", what: "budget", doc: "The limit of the last search.", figure: limitOf(v.budget),
      title: v.budget.metric + " at most " + exact(v.budget.limit),
      note: v.budget.met ? "met on held-out samples" : v.budget.met === false ? "not proven" : "" });
  }
  if (v.size_bytes) {
    put({ key: "size", what: "size of weights", doc: "Bytes of all constants, with scales and zero points.",
      figure: bytes(v.size_bytes.quantized), note: "float " + bytes(v.size_bytes.float),
      title: v.size_bytes.quantized + " of " + v.size_bytes.float + " bytes" });
  }
  if (v.work && v.work.length) {
    put({ key: "work", what: "work by format", doc: "Share of the multiply-accumulates by the format that they are computed in.",
      figure: percent(v.work[0].share) + " " + v.work[0].format, work: v.work, note: v.work.slice(1).map((w) =>
        percent(w.share) + " " + w.format
      ).join(", ") || count(v.work[0].macs) + " MACs" });
  }
  if (worst) {
    put({ key: "worst", what: "most sensitive operator", doc: "The operator that does most to the outputs when it alone is quantized.",
      figure: worst.node, note: worst.op + ", " + sqnr(worst.nsr, worst.nsr_error) + " alone",
      title: worst.node + ": " + ofNoise(worst.nsr, worst.nsr_error) + " of the outputs with only this operator quantized",
      stale: view.stale });
  }
  return list;
}

// verdictTiles are the figures, a tile each; where one is not known, it has the command that finds it.
/** @param {Core.View & { partial?: boolean }} view */
export function verdictTiles(view) {
  return el("div", { class: "tiles" },
    figuresOf(view).map((f) =>
      el("div", { class: f.stale ? "tile stale" : "tile", title: f.title || f.doc }, el("span", { class: "soft" }, f.what),
        el("b", null, el("bdi", null, f.none ? "not measured" : f.figure)), f.work && workBar(f.work),
        el("span", { class: "soft" }, f.none || f.note))
    ));
}

// workBar shows the shares of formats.
/** @param {Core.Work[]} work */
export const workBar = (work) =>
  el("span", { class: "split", "aria-hidden": "true" }, work.map((w) => el("i", { style: { "flex-grow": w.share, "flex-basis": "0" } })));

// notKnown is a box that says how to get what is missing.
export function notKnown(text, command) {
  return el("div", { class: "empty" }, el("p", null, text), command && commandLine(command));
}
