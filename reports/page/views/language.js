// Language models: which matrices suffer from few bits, how much text is lost, and two continuations side by side.
import { colourScale, inkOn } from "../colours.js";
import { el, replace } from "../dom.js";
import { count, duration, known, number, percent, plural, small, withError } from "../format.js";
import { drawForm, field, grid, part, steady, tiles } from "./parts.js";
import { lastTime, task } from "./task.js";

export const languageView = {
  key: "language",
  label: "Language model",
  doc: "Checkpoints of language models: error by layer and matrix, perplexity, and generated text, for a choice of bits and group size.",
  draw: drawLanguage,
  usable: /** @param {App} app */ (app) => app.state.language,
};

const groupSizes = [0, 4, 8, 16, 32, 64, 128, 256];

/** @param {HTMLElement} host @param {App} app */
function drawLanguage(host, app) {
  const s = app.state, ranks = el("div", { class: "result" }), stored = el("div", { class: "result" }),
    figures = el("div", { class: "result" }), texts = el("div", { class: "result" });
  const row = (name, own) => field(app, "language-rank", name, own);
  const weights = drawForm(app, [
    row("tokenizer"),
    row("bits", { min: 4, max: 8, step: 4, show: (n) => `${n} bits` }),
    row("group_size", { name: "group_step", max: groupSizes.length - 1, value: 0,
      show: (n) => (groupSizes[n] ? `${groupSizes[n]} weights with one scale` : "64, halved until it fits") }),
    row("method", { name: "language_method" }),
  ]);
  proposeTokenizer(app, weights);
  const text = drawForm(app, [
    row("text"),
    row("samples", { name: "text_samples", label: "Lines", min: 1, value: 8, placeholder: undefined,
      doc: "Drawn at random, always the same ones." }),
  ]);
  const prompt = drawForm(app, [
    field(app, "language-generate", "prompt"),
    field(app, "language-generate", "tokens", { min: 2, max: 2048 }),
  ]);
  const form = () => {
    const { group_step, language_method, ...rest } = weights.read();
    return { ...rest, group_size: groupSizes[group_step] || undefined, method: language_method };
  };
  const onText = () => {
    const { text_samples, ...rest } = text.read();
    if (!rest.text) throw new Error("choose a text");
    return { ...form(), ...rest, samples: text_samples };
  };
  if (s.model) showStored(stored, app);
  host.replaceChildren(
    el("div", { class: "mapped" }, stored,
      el("div", {}, part("Weights", s.model ? `How the weights of ${s.model} are to be stored. All three measurements use this.`
        : "Open a checkpoint first.", weights.node),
        part("Two texts", "The same beginning continued by the float model and by the quantized one.", prompt.node,
          task(app, { label: "Generate", kind: "language-generate", options: () => ({ ...form(), ...prompt.read() }),
            show: (r) => showTexts(texts, r) }), texts))),
    part("How much is lost", "Perplexity of a text, and how often the most likely next token changes.", text.node,
      task(app, { label: "Measure", kind: "language-eval", options: onText, show: (r) => {
        app.judged(r);
        showLoss(figures, r);
      } }), figures),
    part("Which matrices suffer",
      "One matrix at a time is quantized, the rest stays float. KL is how far the predicted distributions move from those of float, in nats per token. This runs the text for each matrix from its layer on, a hundred times and more, and is the slowest of the three: with 8 lines minutes, with fewer lines less.",
      task(app, { label: "Rank the matrices", kind: "language-rank", options: onText, cost: costOfRank, show: (r) => showHeat(ranks, r) }),
      ranks)
  );
  return steady(app, () => drawLanguage(host, app));
}

// proposeTokenizer fills in the only file beside the checkpoint that is one by its name, where none has a name that is found by itself.
/** @param {App} app @param {ReturnType<typeof drawForm>} form */
async function proposeTokenizer(app, form) {
  const dir = app.state.model.replace(/[^/]*$/, "").replace(/\/$/, "") || ".";
  const { entries } = await app.client.call("files", { dir, kind: "any" }).catch(() => ({ entries: [] }));
  const found = entries.filter((e) => !e.dir && /^tok\w*\.(bin|model|json)$/.test(e.label));
  if (found.length === 1 && !/^tokenizer\./.test(found[0].label) && !form.read().tokenizer) form.set("tokenizer", found[0].name);
}

// costOfRank says what ranking costs by what measuring took: that runs the text twice, ranking for each matrix half of it on average.
/** @param {Core.Job[]} list */
function costOfRank(list) {
  const last = list.find((j) => j.kind === "language-eval");
  return lastTime("language-rank")(list) || (last ? `about ${duration(last.seconds / 4)} for each matrix, as measuring took` : "");
}

/**
 * heat is a table of layers x matrices, coloured by a figure that each cell has as text too, and a line about the cell that was chosen.
 * @template {{ op: string, layer: number, node: string }} M
 * @param {M[]} rows
 * @param {{ caption: string, scale: string, value: (m: M) => number, text: (m: M) => string, words: (m: M) => string }} how
 */
function heat(rows, how) {
  const kinds = [...new Set(rows.map((m) => m.op))], layers = [...new Set(rows.map((m) => m.layer))].sort((a, b) => a - b);
  const order = ["embedding", "query", "key", "value", "output", "gate", "up", "down", "classifier"],
    place = (k) => (order.indexOf(k) < 0 ? order.length : order.indexOf(k));
  kinds.sort((a, b) => place(a) - place(b) || a.localeCompare(b));
  const at = new Map(rows.map((m) => [`${m.layer} ${m.op}`, m]));
  const scale = colourScale({ scale: how.scale, fold: "max", value: how.value }, rows, matchMedia("(prefers-color-scheme: dark)").matches),
    about = el("p", { class: "hint", role: "status" }, "Choose a cell for its figures.");
  /** @param {M} m */
  const cell = (m) => {
    if (!m) return el("td", { class: "none" }, "");
    const colour = scale.colours[scale.indexOf(how.value(m))], show = () => (about.textContent = how.words(m)),
      button = el("button", { type: "button", class: "cell", title: how.words(m), onclick: show, onfocus: show }, how.text(m));
    button.style.background = colour;
    button.style.color = inkOn(colour);
    return el("td", {}, button);
  };
  return [
    el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": how.caption },
      el("table", { class: "heat", style: { "--rows": layers.length } }, el("caption", {}, how.caption),
        el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "layer"), ...kinds.map((k) => el("th", { scope: "col" }, k)))),
        el("tbody", {},
          ...layers.map((l) =>
            el("tr", {}, el("th", { scope: "row" }, l < 0 ? "outside" : String(l)), ...kinds.map((k) => cell(at.get(`${l} ${k}`))))
          )))),
    about,
  ];
}

// showStored draws what the file of the model that is open holds; nothing has to be measured for that.
/** @param {HTMLElement} host @param {App} app */
async function showStored(host, app) {
  /** @type {Core.StoredMatrices} */
  let r;
  try {
    r = await app.client.call("matrices");
  } catch (e) {
    host.replaceChildren(el("p", { class: "hint" }, String(e.message || e)));
    return;
  }
  const rows = r.matrices, weighed = rows.filter((m) => known(m.energy));
  const bytes = rows.reduce((n, m) => n + m.bytes, 0), weights = rows.reduce((n, m) => n + m.rows * m.cols, 0),
    types = [...new Set(rows.map((m) => m.type))];
  host.replaceChildren(
    el("p", { class: "headline open" },
      `${plural(rows.length, "matrix", "matrices")}, ${count(weights)} weights in ${count(bytes)} bytes: ${
        number(8 * bytes / weights)
      } bits per weight, ${types.join(", ")}.`),
    ...heat(rows, { caption: "Bits per weight in the file, scales included, by layer and matrix", scale: "linear", value: (m) => m.bits,
      text: (m) => number(m.bits),
      words: (m) =>
        `${m.name}, the ${m.node}: ${m.type}, ${number(m.bits)} bits per weight, ${m.rows} × ${m.cols}, ${count(m.bytes)} bytes.` }),
    ...(r.note ? [el("p", { class: "hint" }, `The importance matrix is not shown: ${r.note}`)] : []),
    ...(weighed.length
      ? heat(weighed, { caption: `Importance by ${r.imatrix}: mean square of the inputs, by layer and matrix`, scale: "log",
        value: (m) => m.energy, text: (m) => small(m.energy),
        words: (m) =>
          `${m.name}, the ${m.node}: mean square of its inputs ${small(m.energy)}; the strongest hundredth of them has ${
            percent(m.focus)
          } of the energy.` })
      : [])
  );
}

// showHeat draws layers x matrices, coloured by KL on a logarithmic scale.
/** @param {HTMLElement} host @param {Core.Layers} r */
export function showHeat(host, r, listed = true) {
  const worst = [...r.layerwise].sort((a, b) => b.kl - a.kl)[0];
  replace(host,
    el("p", { class: "headline open" },
      `All matrices together: KL ${
        withError(r.whole.kl, r.whole.kl_error)
      } nats per token, with ${r.weights}. The worst alone: ${worst.node}, ${small(worst.kl)}.`),
    ...heat(r.layerwise, { caption: "KL in nats per token, by layer and matrix", scale: "log", value: (m) => m.kl, text: (m) => small(m.kl),
      words: (m) =>
        `${m.node}: KL ${withError(m.kl, m.kl_error)} nats per token, NLL change ${withError(m.nll_change, m.nll_change_error)}, ${
          percent(m.flip_rate)
        } of the most likely tokens change, ${count(m.parameters)} weights.` }),
    listed && grid({ caption: "Matrices, the worst first", rows: r.layerwise, limit: 15, columns: [
      { label: "matrix", cell: (m) => m.node, sort: (m) => m.node },
      { label: "KL", number: true, cell: (m) => withError(m.kl, m.kl_error), title: (m) => String(m.kl), sort: (m) => m.kl },
      { label: "NLL change", doc: "change of the mean negative log-likelihood per token", number: true, cell: (m) =>
        withError(m.nll_change, m.nll_change_error), title: (m) => String(m.nll_change), sort: (m) => m.nll_change },
      { label: "tokens that change", number: true, cell: (m) => percent(m.flip_rate), title: (m) => String(m.flips), sort: (m) =>
        m.flip_rate },
      { label: "weights", number: true, cell: (m) => count(m.parameters), title: (m) => String(m.parameters), sort: (m) => m.parameters },
    ] }));
}

/** @param {HTMLElement} host @param {Core.LanguageResult} r */
function showLoss(host, r) {
  const sure = known(r.nll_change_error) && Math.abs(r.nll_change) > 2 * r.nll_change_error;
  host.replaceChildren(
    el("p", { class: "headline open" },
      `${r.weights || "Weights as stored"}: perplexity ${number(r.float_perplexity)} → ${number(r.perplexity)}${
        known(r.nll_change_error) ? sure ? "." : ", a change within chance." : "."
      }`),
    tiles([
      { label: "NLL change per token", value: withError(r.nll_change, r.nll_change_error), title: String(r.nll_change),
        doc: "negative log-likelihood, in nats, with the paired standard error over sequences" },
      { label: "KL per token", value: withError(r.kl, r.kl_error), title: String(r.kl),
        doc: "how far the predicted distributions move, in nats" },
      { label: "most likely token changes",
        value: `${percent(r.flip_rate)}${known(r.flip_rate_error) ? ` ± ${percent(r.flip_rate_error)}` : ""}`,
        title: `${r.flips} of ${r.tokens}` },
      { label: "perplexity", value: withError(r.perplexity, r.perplexity_error), title: String(r.perplexity),
        doc: "its error is that of the text; the change is known far better, see NLL change" },
      { label: "measured on", value: `${plural(r.sequences, "sequence")}, ${r.tokens} tokens` },
    ]),
    ...tokenStrip(r)
  );
}

// steps are the colours of the strip: full colour is a change of 1 nat or more.
const steps = { scale: "diverging", fold: "far", low: "", high: "",
  value: /** @param {Core.TokenScore} t */ (t) => Math.max(-1, Math.min(1, t.nll_change)) };

// tokenStrip is the text with each token coloured by how much worse it is predicted than in float, and the same as a table.
/** @param {Core.LanguageResult} r */
function tokenStrip(r) {
  const list = r.per_token || [];
  if (!list.length) return [];
  const scale = colourScale(steps, list, matchMedia("(prefers-color-scheme: dark)").matches);
  /** @param {Core.TokenScore} t */
  const figures = (t) =>
    `NLL ${small(t.float_nll)} in float, ${small(t.nll)} quantized: change ${small(t.nll_change)} nats; KL ${small(t.kl)} nats${
      t.flip ? "; the most likely token is another one" : ""
    }`;
  /** @param {Core.TokenScore} t */
  const piece = (t) => {
    const node = el("span", { class: t.flip ? "token flip" : "token", title: figures(t) }, t.text),
      colour = scale.colours[scale.indexOf(steps.value(t))];
    node.style.background = colour;
    node.style.color = inkOn(colour);
    return node;
  };
  const sequences = [...new Set(list.map((t) => t.sequence))], bar = el("span", { class: "legend-bar", "aria-hidden": "true" });
  bar.style.backgroundImage = `linear-gradient(to right, ${scale.colours.join(", ")})`;
  return [
    el("h4", {}, "Token by token"),
    el("p", { class: "hint" },
      `How well each token is predicted from those before it: the change of its negative log-likelihood (NLL) by quantization${
        list.length < r.tokens ? `, of the first ${list.length} of ${r.tokens} tokens` : ""
      }. Underlined: another token is the most likely one.`),
    el("p", { class: "hint strip-legend" }, "better predicted, 1 nat or more ", bar, " worse, 1 nat or more"),
    el("div", { class: "strip", tabindex: "0", role: "region", "aria-label": "Text, token by token; the table below has the figures" },
      ...sequences.map((s) => el("p", {}, el("span", { class: "soft" }, `${s} `), ...list.filter((t) => t.sequence === s).map(piece)))),
    grid({ caption: "Tokens, the largest change first", rows: [...list].sort((a, b) => Math.abs(b.nll_change) - Math.abs(a.nll_change)),
      limit: 15, columns: [
        { label: "token", cell: (t) => JSON.stringify(t.text), sort: (t) => t.text },
        { label: "where", cell: (t) => t.sequence, sort: (t) => t.sequence },
        { label: "NLL in float", number: true, cell: (t) => small(t.float_nll), title: (t) => String(t.float_nll),
          sort: (t) => t.float_nll },
        { label: "NLL quantized", number: true, cell: (t) => small(t.nll), title: (t) => String(t.nll), sort: (t) => t.nll },
        { label: "change", doc: "in nats; above 0: worse predicted", number: true, cell: (t) => small(t.nll_change),
          title: (t) => String(t.nll_change), sort: (t) => t.nll_change },
        { label: "KL", doc: "how far the predicted distribution moves, in nats", number: true, cell: (t) => small(t.kl),
          title: (t) => String(t.kl), sort: (t) => t.kl },
        { label: "most likely token", cell: (t) => (t.flip ? "another one" : "the same"), sort: (t) => (t.flip ? 1 : 0) },
      ] }),
  ];
}

// showTexts puts two continuations side by side; the first token that differs is framed and named in words.
/** @param {HTMLElement} host @param {Core.TwoTexts} r */
function showTexts(host, r) {
  const first = known(r.first_difference) && r.first_difference >= 0 ? r.first_difference : -1;
  const column = (title, tokens) =>
    el("div", { class: "text" }, el("h4", {}, title), el("p", { class: "generated" }, ...tokens.map((t, i) => {
      const piece = typeof t === "string" ? t : t.text;
      if (i === first) {
        return el("mark", { title: "the first token that differs", "aria-label": `first token that differs: ${piece}` }, piece);
      }
      return first >= 0 && i > first ? el("span", { class: "after" }, piece) : piece;
    })));
  host.replaceChildren(
    el("p", { class: "headline open" }, first < 0 ? `Both texts are the same, ${plural(r.float.tokens.length, "token")}.`
      : `The first ${plural(first, "token")} are the same; then they differ.`),
    el("div", { class: "texts" }, column("float", r.float.tokens), column("quantized", r.quantized.tokens))
  );
}
