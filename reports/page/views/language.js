// Language models: which matrices suffer from few bits, how much text is lost, and two continuations side by side.
import {el} from "../dom.js";
import {small, withError, number, count, plural, known, percent} from "../format.js";
import {colourScale, inkOn} from "../colours.js";
import {part, drawForm, task, grid, tiles, steady} from "./parts.js";

export const languageView = {
  key: "language",
  label: "Language model",
  doc: "Checkpoints of language models: error by layer and matrix, perplexity, and generated text, for a choice of bits and group size.",
  draw: drawLanguage,
  usable: app => app.state.language,
};

const groupSizes = [4, 8, 16, 32, 64, 128, 256];

function drawLanguage(host, app) {
  const s = app.state, heat = el("div", {class: "result"}), figures = el("div", {class: "result"}), texts = el("div", {class: "result"});
  const weights = drawForm(app, [
    {name: "tokenizer", label: "Tokenizer", type: "file", of: "any", placeholder: "the one in the checkpoint or its folder"},
    {name: "bits", label: "Bits of weights", type: "range", min: 4, max: 8, step: 4, value: 8, show: n => `${n} bits`},
    {name: "group_step", label: "Group size", type: "range", min: 0, max: groupSizes.length - 1, value: 4, show: n => `${groupSizes[n]} weights with one scale`, doc: "Smaller groups: less error, more bytes for scales. It must divide the rows of every matrix."},
    {name: "language_method", label: "Scales", type: "select", value: "rtn", options: [{name: "rtn", label: "from the largest weight of a group"}, {name: "range", label: "with the smallest squared error"}]},
  ]);
  const text = drawForm(app, [
    {name: "text", label: "Text", type: "file", of: "text", doc: "One sequence per line."},
    {name: "text_samples", label: "Lines", type: "number", min: 1, value: 8, doc: "Drawn at random, always the same ones."},
  ]);
  const prompt = drawForm(app, [{name: "prompt", label: "Beginning of a text", value: "Once upon a time"}, {name: "tokens", label: "Tokens", type: "number", min: 2, max: 2048, value: 100, doc: "The largest number, those of the beginning included. The most likely token is taken each time."}]);
  const form = () => {
    const {group_step, language_method, ...rest} = weights.read();
    return {...rest, group_size: groupSizes[group_step], method: language_method};
  };
  const onText = () => {
    const {text_samples, ...rest} = text.read();
    if (!rest.text) throw new Error("choose a text");
    return {...form(), ...rest, samples: text_samples};
  };
  host.replaceChildren(
    part("Weights", s.model ? `How the weights of ${s.model} are stored. All three measurements below use this.` : "Open a checkpoint first.", weights.node),
    part("Which matrices suffer", "One matrix at a time is quantized, the rest stays float. KL is how far the predicted distributions move from those of float, in nats per token.", text.node,
      task(app, {label: "Rank the matrices", kind: "language-rank", options: onText, show: r => showHeat(heat, r)}), heat),
    part("How much is lost", "Perplexity of the text above, and how often the most likely next token changes.", task(app, {label: "Measure", kind: "language-eval", options: onText, show: r => showLoss(figures, r)}), figures),
    part("Two texts", "The same beginning continued by the float model and by the quantized one.", prompt.node,
      task(app, {label: "Generate", kind: "language-generate", options: () => ({...form(), ...prompt.read()}), show: r => showTexts(texts, r)}), texts));
  return steady(app, () => drawLanguage(host, app));
}

// showHeat draws layers x matrices, coloured by KL on a logarithmic scale; each cell has the number too.
export function showHeat(host, r) {
  const kinds = [...new Set(r.layerwise.map(m => m.op))], layers = [...new Set(r.layerwise.map(m => m.layer))].sort((a, b) => a - b);
  const order = ["embedding", "query", "key", "value", "output", "gate", "up", "down", "classifier"], place = k => (order.indexOf(k) < 0 ? order.length : order.indexOf(k));
  kinds.sort((a, b) => place(a) - place(b) || a.localeCompare(b));
  const at = new Map(r.layerwise.map(m => [`${m.layer} ${m.op}`, m]));
  const scale = colourScale({scale: "log", fold: "max", value: m => m.kl}, r.layerwise, matchMedia("(prefers-color-scheme: dark)").matches), about = el("p", {class: "hint", role: "status"}, "Choose a cell for its figures.");
  const show = m => {
    about.textContent = `${m.node}: KL ${withError(m.kl, m.kl_error)} nats per token, NLL change ${withError(m.nll_change, m.nll_change_error)}, ${percent(m.flip_rate)} of the most likely tokens change, ${count(m.parameters)} weights.`;
  };
  const cell = m => {
    if (!m) return el("td", {class: "none"}, "");
    const colour = scale.colours[scale.indexOf(m.kl)], button = el("button", {type: "button", class: "cell", title: `${m.node}: KL ${m.kl}`, onclick: () => show(m), onfocus: () => show(m)}, small(m.kl));
    button.style.background = colour;
    button.style.color = inkOn(colour);
    return el("td", {}, button);
  };
  const worst = [...r.layerwise].sort((a, b) => b.kl - a.kl)[0];
  host.replaceChildren(
    el("p", {class: "headline open"}, `All matrices together: KL ${withError(r.whole.kl, r.whole.kl_error)} nats per token, with ${r.weights}. The worst alone: ${worst.node}, ${small(worst.kl)}.`),
    el("div", {class: "scroll", tabindex: "0", role: "region", "aria-label": "KL by layer and matrix"}, el("table", {class: "heat"}, el("caption", {}, "KL in nats per token, by layer and matrix"),
      el("thead", {}, el("tr", {}, el("th", {scope: "col"}, "layer"), ...kinds.map(k => el("th", {scope: "col"}, k)))),
      el("tbody", {}, ...layers.map(l => el("tr", {}, el("th", {scope: "row"}, l < 0 ? "outside" : String(l)), ...kinds.map(k => cell(at.get(`${l} ${k}`)))))))),
    about,
    grid({caption: "Matrices, the worst first", rows: r.layerwise, limit: 15, columns: [
      {label: "matrix", cell: m => m.node, sort: m => m.node}, {label: "KL", number: true, cell: m => withError(m.kl, m.kl_error), title: m => String(m.kl), sort: m => m.kl},
      {label: "NLL change", doc: "change of the mean negative log-likelihood per token", number: true, cell: m => withError(m.nll_change, m.nll_change_error), title: m => String(m.nll_change), sort: m => m.nll_change},
      {label: "tokens that change", number: true, cell: m => percent(m.flip_rate), title: m => String(m.flips), sort: m => m.flip_rate}, {label: "weights", number: true, cell: m => count(m.parameters), title: m => String(m.parameters), sort: m => m.parameters}]}));
}

function showLoss(host, r) {
  const sure = known(r.nll_change_error) && Math.abs(r.nll_change) > 2 * r.nll_change_error;
  host.replaceChildren(el("p", {class: "headline open"}, `${r.weights || "Weights as stored"}: perplexity ${number(r.float_perplexity)} → ${number(r.perplexity)}${known(r.nll_change_error) ? sure ? "." : ", a change within chance." : "."}`),
    tiles([{label: "NLL change per token", value: withError(r.nll_change, r.nll_change_error), title: String(r.nll_change), doc: "negative log-likelihood, in nats, with the paired standard error over sequences"},
      {label: "KL per token", value: withError(r.kl, r.kl_error), title: String(r.kl), doc: "how far the predicted distributions move, in nats"},
      {label: "most likely token changes", value: `${percent(r.flip_rate)}${known(r.flip_rate_error) ? ` ± ${percent(r.flip_rate_error)}` : ""}`, title: `${r.flips} of ${r.tokens}`},
      {label: "perplexity", value: withError(r.perplexity, r.perplexity_error), title: String(r.perplexity), doc: "its error is that of the text; the change is known far better, see NLL change"},
      {label: "measured on", value: `${plural(r.sequences, "sequence")}, ${r.tokens} tokens`}]));
}

// showTexts puts two continuations side by side; the first token that differs is framed and named in words.
function showTexts(host, r) {
  const first = known(r.first_difference) && r.first_difference >= 0 ? r.first_difference : -1;
  const column = (title, tokens) => el("div", {class: "text"}, el("h4", {}, title), el("p", {class: "generated"}, ...tokens.map((t, i) => {
    const piece = typeof t === "string" ? t : t.text;
    if (i === first) return el("mark", {title: "the first token that differs", "aria-label": `first token that differs: ${piece}`}, piece);
    return first >= 0 && i > first ? el("span", {class: "after"}, piece) : piece;
  })));
  host.replaceChildren(el("p", {class: "headline open"}, first < 0 ? `Both texts are the same, ${plural(r.float.tokens.length, "token")}.` : `The first ${plural(first, "token")} are the same; then they differ.`),
    el("div", {class: "texts"}, column("float", r.float.tokens), column("quantized", r.quantized.tokens)));
}
