// What quantizing each matrix of a language model alone does.
import { el } from "./dom.js";
import { barePart, bareSQNR, cosine, count, exact, number, ofNoise, percent, plural, withError } from "./format.js";
import { newSelection } from "./selection.js";
import { drawTable } from "./table.js";
import { showHeat } from "./views/language.js";

// drawLanguageReport fills main with what qwb analyze --json prints of a language model.
/** @param {HTMLElement} main @param {Core.Layers} r */
export function drawLanguageReport(main, r) {
  const heat = el("div", { class: "result" }), table = el("div");
  const tile = (what, value, note, title) =>
    el("div", { class: "tile", title }, el("span", { class: "soft" }, what), el("b", null, value), el("span", { class: "soft" }, note));
  main.append(el("h1", null, el("bdi", null, r.model)),
    el("p", { class: "soft" },
      "Quantization report of a language model · " + r.weights + " · mode " + r.mode + " · " + plural(r.samples, "sequence") + ", "
        + r.tokens + " tokens"),
    el("div", { class: "tiles" },
      tile("KL divergence, all quantized", withError(r.whole.kl, r.whole.kl_error), "nats per token", exact(r.whole.kl)),
      tile("change of NLL, all quantized", withError(r.whole.nll_change, r.whole.nll_change_error), "nats per token",
        exact(r.whole.nll_change)), tile("other most likely token", percent(r.whole.flip_rate), "of " + r.tokens, exact(r.whole.flip_rate)),
      tile("most sensitive matrix", el("bdi", null, r.layerwise[0].node), "KL " + withError(r.layerwise[0].kl, r.layerwise[0].kl_error),
        r.layerwise[0].node)),
    el("p", { class: "soft" },
      "Each matrix is quantized alone; the rest stays float. All figures compare the predicted distributions with those of the float model, token by token; errors are standard errors over sequences. KL: Kullback-Leibler divergence, NLL: negative log-likelihood."),
    heat, el("h2", null, "Matrices"), table);
  showHeat(heat, r, false); // the table below has all of them
  /**
   * @param {keyof Core.MatrixDamage} key @param {string} label @param {string} doc @param {(row: Core.MatrixDamage) => string} show
   * @param {number} [width]
   */
  const figure = (key, label, doc, show, width) => ({ key, label, doc, kind: "number", value: (row) => row[key], show, width: width || 8 });
  drawTable(table, { rows: r.layerwise.map((m) => ({ ...m, name: m.node })), label: "Matrices", what: "matrix", many: "matrices",
    selection: newSelection(), height: 22, columns: [
      { key: "name", label: "matrix", doc: "Name of the matrix.", kind: "name", value: (row) => row.name },
      figure("kl", "KL", "Nats per token, ± standard error.", (row) => withError(row.kl, row.kl_error), 13),
      figure("nll_change", "NLL change", "Nats per token, ± standard error.", (row) => withError(row.nll_change, row.nll_change_error), 13),
      figure("flip_rate", "flips", "Share of tokens whose most likely next token changes.", (row) => percent(row.flip_rate)),
      { ...figure("nsr", "SQNR, dB", "Signal-to-noise ratio of the logits.", (row) => bareSQNR(row.nsr)[0]),
        exact: (row) => ofNoise(row.nsr) },
      figure("cosine", "cosine", "Of the angle between the logits.", (row) => cosine(row.cosine)),
      ...[
        ["local", "own, dB", "Signal-to-noise ratio of what the matrix gives, from inputs of the float model."],
        ["clip", "clip, dB", "The part of that noise of weights beyond the last codes of their group."],
        ["round", "round, dB", "The part of weights that are rounded."],
        ["activation", "inputs, dB", "The part of inputs that are rounded."],
      ].map(([key, label, doc]) => ({
        ...figure(/** @type {keyof Core.MatrixDamage} */ (key), label, doc, (row) => barePart(row[key])),
        exact: (row) => ofNoise(row[key]),
      })),
      figure("mse", "MSE", "Mean squared error of the logits.", (row) => number(row.mse)),
      figure("parameters", "weights", "How many weights.", (row) => count(row.parameters)),
    ] });
}
