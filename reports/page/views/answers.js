// Answers side by side: what float, simulation and integers say of a sample, as the task has it: boxes, texts, maps of classes, or the
// outputs themselves; what the metric of the task says of each; and the outputs as rows and colours.
import { el } from "../dom.js";
import { known, number, ofNoise, percent, plural, problemText, sqnr } from "../format.js";
import { boxesOn, classesOf, heatFigure, mapOn, swatch, unlike, worstRows } from "../heat.js";
import { insideButton } from "./feature.js";
import { dataForm, dataOptions, drawForm, field, part, tiles } from "./parts.js";
import { className, thumbnail } from "./pictures.js";
import { task } from "./task.js";

// kinds are how answers of a kind are drawn: draw(reading, picture, label, float) is a node; said names them.
const kinds = {
  boxes: { said: "Boxes", draw: (app, r, picture, label) => {
    const list = r.boxes || [], sure = list.filter((b) => b.score >= 0.5), name = (c) => className(app, c);
    return [
      boxesOn(picture, list, name, label),
      el("p", { class: "hint" },
        `${plural(sure.length, "box", "boxes")} of a score of 0.5 or more${
          list.length > sure.length ? `, ${list.length - sure.length} below` : ""
        }`),
    ];
  } },
  map: { said: "Maps of classes", draw: (app, r, picture, label, float) => [
    mapOn(picture, r.map, label, float && float.map),
    float ? el("p", { class: "hint" }, swatch(-1), ` ${percent(unlike(r.map, float.map))} of the pixels unlike float`) : "",
    el("p", { class: "hint" }, classesOf(r.map).slice(0, 4).map(([c, share]) => [swatch(c), ` ${className(app, c)} ${percent(share)} `])),
  ] },
  text: { said: "Texts", draw: (_, r, __, label, float) => [
    el("p", { class: "generated", "aria-label": `text, ${label}` }, ...marked(r.text || "", float && float.text)),
  ] },
  numbers: { said: "Outputs", draw: () => [] },
};

// marked is a text with what differs from another one between their common beginning and end in a mark.
function marked(text, other) {
  if (!known(other) || other === text) return [text || "(empty)"];
  let from = 0, end = 0;
  const most = Math.min(text.length, other.length);
  while (from < most && text[from] === other[from]) from++;
  while (end < most - from && text[text.length - 1 - end] === other[other.length - 1 - end]) end++;
  const middle = text.slice(from, text.length - end);
  return [
    text.slice(0, from),
    el("mark", { title: `float: ${other.slice(from, other.length - end) || "nothing"}` }, middle || "∅"),
    text.slice(text.length - end),
  ];
}

// silent says of a sample that float has no signal at the outputs: what differs there is a share of nothing.
/** @param {Core.SampleAnswer} item */
const silent = (item) => !(item.nsr > 0) && item.outputs.some((h) => h.most > 0);

// scoreText is a score of the metric.
const scoreText = (r, v) => (!known(v) ? "–" : r.percent ? percent(v) : number(v));

// metricForm says what answers are and how they are scored.
/** @param {App} app */
export const metricForm = (app) =>
  drawForm(app, [
    field(app, "answers", "metric", { doc: "miou: labels are a folder of masks; map: COCO's JSON; cer, wer, em: lines of file and text." }),
    field(app, "answers", "alphabet"),
  ]);

// answersPart is the part of the view; more is the form of the metric, where it stands elsewhere already.
/** @param {App} app @param {ReturnType<typeof metricForm>} [more] */
export function answersPart(app, more) {
  const most = 12, own = more ? "" : (more = metricForm(app)).node, result = el("div", { class: "result" });
  const form = dataForm(app, { own: "look at", samples: most, note: "Empty: the data of the plan." });
  const run = task(app, { label: "Show answers side by side", kind: "answers", most,
    options: () => ({ ...dataOptions(form.read()), ...more.read() }), into: result, fold: true, show: (r) => showAnswers(result, app, r) });
  return part("Answers side by side",
    "Boxes, texts, maps of classes, or the outputs as colours: float, simulated and on integers. The metric's own reading of the outputs decides which; without labels float is what is right.",
    form.node, own, run, result);
}

/** @param {HTMLElement} host @param {App} app @param {Core.Jobs["answers"]["result"]} r */
function showAnswers(host, app, r) {
  const kind = kinds[r.kind] || kinds.numbers, cards = el("ul", { class: "samples answers" }), pictures = {},
    opened = r.items.map(() => el("div", { class: "where" })); // stays when the pictures come
  const of = r.against === "float" ? "agreement with float" : "against the labels";
  const figure = (
    value,
    how,
  ) => (known(value) ? { label: `${r.metric}, ${how}`, value: scoreText(r, value), title: `${value}; ${of}` } : null);
  const order = r.items.map((item, i) => ({ item, i })).sort((a, b) => Number(silent(a.item)) - Number(silent(b.item))),
    without = r.items.filter(silent).length;
  const show = () => cards.replaceChildren(...order.map(({ item, i }) => card(app, r, kind, item, pictures[item.sample], opened[i])));
  host.replaceChildren(
    el("p", { class: "headline open" },
      `${kind.said} of ${plural(r.samples, "sample")}, the worst first${r.metric ? `: ${r.metric}, ${of}` : ""}.${
        without ? ` ${plural(without, "sample has", "samples have")} no signal in float, last.` : ""
      }${r.profile ? "" : " The plan has no integer program: only float and simulation."}`),
    tiles([figure(r.scores.float, "float"), figure(r.scores.sim, "simulated"), figure(r.scores.int8, "on integers")]),
    cards
  );
  show();
  app.client.call("thumbnails", { ...r.data, names: r.items.map((i) => i.sample), side: 256 }).then((list) => {
    for (const t of list.items) if (t.rgb) pictures[t.name] = t;
    show();
  }, (problem) => host.append(el("p", { class: "hint" }, `No pictures: ${problemText(problem)}`)));
}

/**
 * @param {App} app @param {Core.Jobs["answers"]["result"]} r @param {Core.SampleAnswer} item
 * @param {Core.Thumbnail | undefined} picture @param {HTMLElement} where
 */
function card(app, r, kind, item, picture, where) {
  const column = (name, reading, score) => {
    const drawn = reading ? kind.draw(app, reading, picture, `${item.sample}, ${name}`, name === "float" ? null : item.float) : [];
    return reading && (drawn.length || known(score))
      ? el("div", { class: "answercell" }, el("p", {}, el("b", {}, name), known(score) ? ` ${r.metric} ${scoreText(r, score)}` : ""), drawn)
      : "";
  };
  const alone = r.kind === "text" || r.kind === "numbers";
  const heats = item.outputs.map((h) =>
    el("div", {}, el("h4", {}, "Output ", el("bdi", {}, h.name)), heatFigure(h, `output ${h.name} of ${item.sample}`),
      silent(item) ? "" : worstRows(h, r.kind === "map" && h.what === "channel" ? (c) => className(app, c) : undefined))
  );
  return el("li", { class: "sample wide" }, alone && picture ? thumbnail(picture, `${item.sample} as the network sees it`) : "",
    el("div", {}, el("p", { class: "name", title: item.sample }, el("bdi", {}, item.sample), " ", silent(item)
      && el("span", { class: "hint" }, "no signal in float"), item.nsr > 0
      && el("span", { class: "hint", title: `signal-to-noise ratio of this sample's outputs; ${ofNoise(item.nsr)}` }, sqnr(item.nsr),
        item.worst_slice ? [" of ", el("bdi", {}, item.worst_slice)] : "")),
      el("div", { class: "answercells" }, column("float", item.float, item.scores.float), column("simulated", item.sim, item.scores.sim),
        column("integers", item.int8, item.scores.int8)),
      heats.length ? el("details", { open: r.kind === "numbers" }, el("summary", {}, "Outputs as rows and colours"), heats) : "",
      el("p", { class: "actions" }, insideButton(app, { data: r.data, sample: item.sample, first: worstOf(app) }, where))), where);
}

// worstOf is the operator that the network shows, or the one that costs most alone.
/** @param {App} app */
export function worstOf(app) {
  const named = app.rows.find((r) => r.name === app.selection.node), alone = (r) => r.nsr || 0;
  const worst = app.rows.reduce((w, r) => (alone(r) > (w ? alone(w) : 0) ? r : w), null);
  return (named || worst || app.rows.find((r) => r.op === "Conv") || { name: "" }).name;
}
