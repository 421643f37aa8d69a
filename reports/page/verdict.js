// The verdict on a plan: one sentence and the figures behind it. Figures that nobody measured are named with the command that finds them.
import { judgedOf } from "./data.js";
import { commandLine, el } from "./dom.js";
import { bytes, count, decibels, exact, insignificant, known, noise, number, percent, plural, points, small, withError } from "./format.js";

// What an NSR of the outputs usually means; docs/reports.md has the same rule of thumb.
const levels = {
  small: "The error at the outputs is small. Accuracy usually stays as it is.",
  visible: "The error at the outputs is visible. Accuracy may suffer: check it with labelled data.",
  large: "The error at the outputs is large. Expect a loss of accuracy.",
};

// headline is the verdict in a sentence.
/** @param {Core.View} view */
export function headline(view) {
  const v = /** @type {Partial<Core.Verdict>} */ (view.verdict || {});
  if (known(v.drop) && v.metric) {
    const drop = scoreText(v.drop, v.drop_error, v.percent), none = insignificant(v.drop, v.drop_error) || v.drop === 0;
    const text = v.drop < 0 && !none ? "The quantized network scores better than float: " + v.metric + " drop " + drop + "."
      : none ? "No loss of " + v.metric + " can be told from chance: drop " + drop + " on " + plural(v.scored, "sample") + "."
      : "The quantized network loses " + drop + " of " + v.metric + " on " + plural(v.scored, "sample") + ".";
    const flips = known(v.flips) ? " " + (v.flips === 1 ? "1 prediction" : v.flips + " predictions") + " of " + v.scored + " changed." : "";
    return el("p", { class: "headline " + (none || v.drop < 0 ? "small" : "large") }, text + flips);
  }
  if (!known(v.nsr)) return el("p", { class: "headline visible" }, "The error of this plan is not measured yet.");
  if (v.mismatches) {
    return el("p", { class: "headline visible" },
      percent(v.nsr) + " of the elements of " + v.output + " differ, measured on " + plural(v.samples, "sample")
        + ". No output is float: there is no NSR.");
  }
  return el("p", { class: "headline " + (v.level || "") },
    (levels[v.level] ? levels[v.level] + " " : "") + "NSR " + noise(v) + ", measured on " + plural(v.samples, "sample") + ".");
}

const scoreText = (x, error, percents) => (percents ? points(x, error) : number(x) + (known(error) ? " ± " + small(error) : ""));

// verdictTiles are the figures, a tile each.
/** @param {Core.View & { partial?: boolean }} view */
export function verdictTiles(view) {
  const v = /** @type {Partial<Core.Verdict>} */ (view.verdict || {}), report = /** @type {Partial<Core.Report>} */ (view.report || {}),
    missing = view.missing || {};
  const tile = (what, doc, figure, note, title) =>
    el("div", { class: "tile", title: title || doc }, el("span", { class: "soft" }, what), el("b", null, figure),
      el("span", { class: "soft" }, note));
  const score = (x) => (v.percent ? percent(x) : number(x));
  const tiles = [];
  if (v.metric) {
    tiles.push(
      tile(v.metric + ", quantized", "The metric of the last qwb eval of this plan.", score(v.quantized),
        known(v.float) ? "float " + score(v.float) + ", " + plural(v.scored, "sample") : plural(v.scored, "sample"), exact(v.quantized))
    );
    tiles.push(
      tile("drop of " + v.metric, "How much worse than float, ± its standard error over pairs of predictions (pp: percentage points).",
        scoreText(v.drop, v.drop_error, v.percent),
        insignificant(v.drop, v.drop_error) ? "not significant" : known(v.flips) ? plural(v.flips, "changed prediction") : "")
    );
  } else if (!view.partial) {
    tiles.push(tile("accuracy", "Nobody has measured the accuracy of this plan.", "not measured", missing.metric || "qwb eval"));
  }
  if (known(v.nsr) && v.mismatches) {
    tiles.push(
      tile("mismatches of the outputs",
        "Share of the elements of an integer output that differ from those of the float network, ± its standard error.",
        percent(v.nsr) + (known(v.nsr_error) ? " ± " + percent(v.nsr_error) : ""),
        view.stale ? "before the last change" : plural(v.samples, "sample"), v.output + ": " + exact(v.nsr))
    );
  } else if (known(v.nsr)) {
    tiles.push(
      tile("NSR of the outputs", "Noise-to-signal ratio: power of the error over power of the signal, ± its standard error; 0 for no error."
        + (v.centred ? " Of the class scores before Softmax, without their mean over the classes, which Softmax does not see." : ""),
        withError(v.nsr, v.nsr_error),
        view.stale ? "before the last change" : "SQNR " + decibels(v.sqnr_db) + ", " + plural(v.samples, "sample"),
        v.output + ": " + exact(v.nsr) + " ± " + exact(v.nsr_error))
    );
  } else tiles.push(tile("NSR of the outputs", "Noise-to-signal ratio, 0 for no error.", "not measured", missing.report || "qwb analyze"));
  if (v.budget) {
    tiles.push(
      tile("budget: " + v.budget.metric, "The limit of the last search.", "≤ " + number(v.budget.limit),
        v.budget.met ? "met on held-out samples" : v.budget.met === false ? "not met, or not shown to be met" : "")
    );
  }
  if (v.size_bytes) {
    tiles.push(
      tile("size of weights", "Bytes of all constants, with scales and zero points.", bytes(v.size_bytes.quantized),
        "float " + bytes(v.size_bytes.float), v.size_bytes.quantized + " of " + v.size_bytes.float + " bytes")
    );
  }
  if (v.work && v.work.length) {
    tiles.push(
      el("div", { class: "tile", title: "Share of the multiply-accumulates by the format that they are computed in." },
        el("span", { class: "soft" }, "work by format"), el("b", null, percent(v.work[0].share) + " " + v.work[0].format),
        el("span", { class: "split", "aria-hidden": "true" }, v.work.map((w) =>
          el("i", { style: { "flex-grow": w.share, "flex-basis": "0" } })
        )), el("span", { class: "soft" }, v.work.slice(1).map((w) =>
          percent(w.share) + " " + w.format
        ).join(", ") || count(v.work[0].macs) + " MACs"))
    );
  }
  const worst = (report.layerwise || []).map((l) => ({ node: l.node, op: l.op, ...judgedOf(l) })).reduce(
    (m, l) => (m === null || l.nsr > m.nsr ? l : m),
    null
  );
  if (worst && worst.nsr > 0) {
    tiles.push(
      el("div", { class: "tile", title: worst.node + ": NSR " + exact(worst.nsr) + " of the outputs with only this operator quantized" },
        el("span", { class: "soft" }, "most sensitive operator"), el("b", null, el("bdi", null, worst.node)),
        el("span", { class: "soft" }, worst.op + ", NSR alone " + withError(worst.nsr, worst.nsr_error)))
    );
  }
  if (view.stale) { for (const t of tiles) if (/^NSR|^mismatches|sensitive/.test(t.firstChild.textContent)) t.classList.add("stale"); }
  return el("div", { class: "tiles" }, tiles);
}

// notKnown is a box that says how to get what is missing.
export function notKnown(text, command) {
  return el("div", { class: "empty" }, el("p", null, text), command && commandLine(command));
}
