// Samples whose prediction changed: float, simulated and integers side by side, as the network sees them, and where the error of one sample
// arises.
import { judging } from "../context.js";
import { el } from "../dom.js";
import { exact, insignificant, known, number, ofNoise, percent, plural, points, problemText, sqnr, withError } from "../format.js";
import { drawSlices } from "../judged.js";
import { drawOrder } from "../order.js";
import { answersPart, metricForm, worstOf } from "./answers.js";
import { insideButton } from "./feature.js";
import { dataForm, dataOptions, grid, message, part, planned, showOperator, steady, tiles } from "./parts.js";
import { className, classNote, thumbnail } from "./pictures.js";
import { task } from "./task.js";

export const samplesView = {
  key: "samples",
  label: "Samples",
  doc:
    "Samples whose prediction changed by quantization: what float, simulation and integers say, and which operator makes the error of a sample.",
  draw: drawSamples,
  usable: planned,
};

// Ways a prediction changes, by what the label says.
const changeKinds = [
  { name: "all", label: "all that changed", fits: () => true },
  { name: "lost", label: "float was correct, now wrong",
    fits: (f) => known(f.label) && f.float.class === f.label && changedTo(f).class !== f.label },
  { name: "gained", label: "float was wrong, now correct",
    fits: (f) => known(f.label) && f.float.class !== f.label && changedTo(f).class === f.label },
  { name: "apart", label: "simulation and integers differ", fits: (f) => f.sim && f.int8 && f.sim.class !== f.int8.class },
];

const manyCards = 30;

/** @param {Core.Flip} f */
const changedTo = (f) => f.int8 || f.sim;

/** @param {HTMLElement} host @param {App} app */
function drawSamples(host, app) {
  const result = el("div", { class: "result" });
  const classes = scoresClasses(app),
    form = dataForm(app, { open: classes && !judging(app).labels,
      note: "Empty: the data of the plan. Samples that no range was fitted on tell more." });
  const metric = classes ? undefined : metricForm(app);
  const judged = () => ({ ...dataOptions(form.read()), ...(metric ? metric.read() : {}) });
  const run = task(app, { label: "Find changed predictions", kind: "flips", options: () => dataOptions(form.read()), into: result,
    show: (r) => showFlips(result, app, r) });
  const figures = el("div", { class: "result" });
  const measure = (label, mode, doc) =>
    task(app, { label, kind: "eval", only: `--mode ${mode}`, doc, options: () => ({ ...judged(), mode }), result: mode === "int8",
      into: figures, show: (r) => showAccuracy(figures, r) });
  host.replaceChildren(
    part("Accuracy",
      "The network in float and quantized, on the same samples. Simulated is enough to compare plans; integers are what the engine will compute: measure them before an export.",
      form.node, metric ? metric.node : "",
      measure("Measure, simulated", "sim", "weights and activations rounded as the plan says, computed in float"),
      measure("Measure on integers", "int8", "the integer program, as an engine computes it"), figures),
    ...(classes ? [part("Predictions that changed", samplesView.doc, run, result)] : []),
    answersPart(app, metric)
  );
  return steady(app, () => drawSamples(host, app));
}

// scoresClasses says whether the first output is one row of scores, or a class: then there are predictions that may change.
/** @param {App} app */
function scoresClasses(app) {
  const picture = app.view && app.view.picture, outputs = picture ? picture.nodes.map((n, i) => n.op === "Output" ? i : -1) : [];
  const edge = picture && picture.edges.find((e) => outputs[e.to] === e.to);
  return !edge || !edge.shape || edge.shape.filter((d, i) => d !== 1 && !(i === 0 && typeof d !== "number")).length <= 1;
}

// showAccuracy is the loss against float, said so that chance is not taken for a loss, and the error of each part of the outputs.
/** @param {HTMLElement} host @param {Core.Accuracy} r */
function showAccuracy(host, r) {
  const n = r.n, how = r.mode === "int8" ? "on integers" : r.mode === "sim" ? "simulated" : "in float";
  const scores = r.metrics && r.metrics.length ? r.metrics
    : known(r.top1)
    ? [{ name: "top-1", percent: true, value: r.top1 / n, float: known(r.float_top1) ? r.float_top1 / n : null, drop: r.drop,
      drop_error: r.drop_error, of: [r.float_top1, r.top1] }] : [];
  const first = scores.find((m) => known(m.drop)), within = first && insignificant(first.drop, first.drop_error),
    change = (m) => (m.percent ? points : withError)(Math.abs(m.drop), m.drop_error);
  const said = first
    ? first.drop === 0 ? `No loss of ${first.name} on ${n} samples, ${how}.`
      : `${first.name.replace(/^t/, "T")} is ${first.drop > 0 ? "worse" : "better"} by ${change(first)}, ${how}${
        within ? `: within chance, n = ${n}` : ""
      }.` : `Measured on ${n} samples, ${how}.`;
  const value = (m, v, count) =>
    known(v) && { value: m.percent ? percent(v) : number(v), title: known(count) ? `${count} of ${n}` : exact(v) };
  const tile = (m, v, count, what) => (known(v) ? { label: `${m.name} ${what}`, ...value(m, v, count) } : null);
  const noise = (f, label, doc) => ({ label, value: sqnr(f.nsr, f.nsr_error), title: ofNoise(f.nsr, f.nsr_error), doc });
  const parts = [...r.slices || []].sort((a, b) => b.nsr - a.nsr), table = el("div");
  host.replaceChildren(el("p", { class: first && first.drop > 0 && !within ? "headline visible" : "headline" }, said), tiles([
    ...scores.flatMap((m) => [tile(m, m.float, m.of && m.of[0], "in float"), tile(m, m.value, m.of && m.of[1], how)]),
    known(r.top5) ? { label: `top-5 ${how}`, value: percent(r.top5 / n), title: `${r.top5} of ${n}` } : null,
    known(r.flips) ? { label: `predictions that changed ${how}`, value: `${r.flips} of ${n}`, title: percent(r.flip_rate) } : null,
    known(r.nsr) ? noise(r, r.centred ? "SQNR after Softmax" : "SQNR of the outputs", r.centred
      ? "signal-to-noise ratio of the class probabilities; not to be compared with that of the outputs, which is taken before Softmax"
      : "signal-to-noise ratio of the outputs against float; larger is better") : null,
    r.centred
      ? noise(r.centred, `SQNR of the outputs${r.mode === "int8" ? ", simulated" : ""}`,
        "of the class scores before Softmax, without their mean over the classes, on these samples") : null,
  ]), parts.length > 1 ? el("details", {}, el("summary", {}, `Parts of the outputs: ${parts.length}`), table) : "");
  if (parts.length > 1) drawSlices(table, parts);
}

// changedText counts the samples below: those that changed in simulation, on integers, or in both.
/** @param {Core.Flips} r */
function changedText(r) {
  const all = `${plural(r.flips.length, "prediction")} of ${r.samples} changed`;
  return known(r.int8_flips)
    ? r.int8_flips === r.flips.length && r.sim_flips === r.flips.length
      ? `${all}, the same on integers and simulated.`
      : `${all}: ${r.int8_flips} on integers, ${r.sim_flips} simulated${
        r.int8_flips + r.sim_flips > r.flips.length ? ", some of them in both" : ""
      }.` : `${all}, simulated.`;
}

/** @param {HTMLElement} result @param {App} app @param {Core.Flips} r */
function showFlips(result, app, r) {
  const flips = r.flips, labelled = r.labelled > 0;
  const cards = el("ul", { class: "samples" }), chosen = el("div", { class: "result", "aria-live": "polite" }), confusion = el("div", {});
  let kind = "all", all = false;
  const pictures = {}, opened = new Map(), more = el("button", { type: "button", hidden: true, onclick: () => {
    all = true;
    show();
  } });
  // What was opened in a card stays there when pictures come or others are shown.
  const where = (f) => opened.get(f) || opened.set(f, el("div", { class: "where", "aria-live": "polite" })).get(f);
  const show = () => {
    const list = flips.filter(changeKinds.find((k) => k.name === kind).fits);
    const shown = all ? list : list.slice(0, manyCards);
    cards.replaceChildren(...shown.map((f) => card(app, r, f, pictures[f.sample], where(f), (host) => layersOf(host, app, r, f))));
    more.hidden = shown.length === list.length;
    more.textContent = `Show all ${list.length}`;
    if (!list.length) cards.append(el("li", {}, "None of this kind."));
    confusion.replaceChildren(confusionOf(app, list));
  };
  const choice = el("select", { "aria-label": "which changes" },
    ...changeKinds.filter((k) => labelled || !["lost", "gained"].includes(k.name)).map((k) =>
      el("option", { value: k.name }, `${k.label} (${flips.filter(k.fits).length})`)
    ));
  choice.addEventListener("change", () => {
    kind = choice.value;
    show();
  });
  const n = r.samples, figure = (count, what) => ({ label: what, value: `${count} of ${n}`, title: percent(count / n) });
  result.replaceChildren(...classNote(app),
    el("p", { class: "headline open" }, flips.length ? changedText(r) : `No prediction of ${n} samples changed.`), tiles([
      labelled && known(r.float_top1) ? figure(r.float_top1, "correct in float") : null,
      known(r.sim_top1) ? figure(r.sim_top1, "correct, simulated") : null,
      known(r.int8_top1) ? figure(r.int8_top1, "correct on integers") : null,
      known(r.apart) ? { label: "simulation and integers differ", value: `${r.apart} of ${n}` } : null,
    ]), flips.length ? el("p", { class: "actions" }, el("label", {}, "Show ", choice)) : "", cards, more, chosen, confusion);
  show();
  const names = flips.slice(0, 60).map((f) => f.sample);
  if (!names.length) return;
  app.client.call("thumbnails", { ...r.data, names }).then((list) => {
    for (const t of list.items) pictures[t.name] = t;
    show();
  }, (problem) => {
    chosen.append(el("p", { class: "hint" }, `No pictures: ${problemText(problem)}`));
  });
}

// card is one sample: picture, label, what each mode predicts, and a button for its error layer by layer.
/** @param {App} app @param {Core.Flips} r @param {Core.Flip} f */
function card(app, r, f, picture, where, act) {
  const line = (name, p) => {
    if (!p) return "";
    const good = known(f.label) ? (p.class === f.label ? " ✓" : " ✕") : "";
    const top = (p.top5 || []).map((t) => `${className(app, t.class)} ${percent(t.p)}`).join("\n");
    return el("tr", {}, el("th", { scope: "row" }, name),
      el("td", { title: top }, className(app, p.class),
        good ? el("span", { title: good === " ✓" ? "correct" : "not the label", "aria-label": good === " ✓" ? "correct" : "wrong" }, good)
          : ""), el("td", { class: "num", title: String(p.p) }, percent(p.p)));
  };
  return el("li", { class: where.hasChildNodes() ? "sample wide" : "sample" }, thumbnail(picture, `${f.sample} as the network sees it`),
    el("div", {}, el("p", { class: "name", title: f.sample }, el("bdi", {}, f.sample)),
      known(f.label) ? el("p", { class: "hint" }, `label: ${className(app, f.label)}`) : "",
      el("table", { class: "results", "aria-label": `Predictions for ${f.sample}` },
        el("tbody", {}, line("float", f.float), line("simulated", f.sim), line("integers", f.int8))),
      el("p", { class: "hint" }, el("span", {
        title: f.worst_slice ? `signal-to-noise ratio of the part of an output that loses most on this sample; ${ofNoise(f.nsr)}`
          : `signal-to-noise ratio of this sample's outputs; ${ofNoise(f.nsr)}`,
      }, `${sqnr(f.nsr)} `, f.worst_slice ? el("span", {}, "of ", el("bdi", {}, f.worst_slice), " ") : ""),
        el("button", { type: "button", title: "the error of this sample after each operator, here in its card", onclick: (e) => {
          e.target.closest("li").classList.add("wide");
          act(where);
        } }, "Error by operator"), " ", insideButton(app, { data: r.data, sample: f.sample, first: worstOf(app) }, where))), where);
}

// layersOf measures where the error of one sample arises, and draws it along the network.
/** @param {HTMLElement} host @param {App} app @param {Core.Flips} r @param {Core.Flip} f */
async function layersOf(host, app, r, f) {
  message(host, `measuring ${f.sample} …`);
  try {
    const answer = await app.client.call("sample-layers", { ...r.data, sample: f.sample });
    const rows = answer.layers;
    const chart = el("div", { class: "chart" });
    host.replaceChildren(
      part("Operator by operator",
        "The error after each operator on this one sample, in the order of the network: the higher, the more. A click shows the operator in the network.",
        chart, grid({ caption: "Operators", rows: [...rows].sort((a, b) =>
          b.nsr - a.nsr
        ), limit: 20, pick: (l) => showOperator(app, l.node), pickDoc: "show this operator in the network", columns: [
          { label: "operator", cell: (l) => l.node, sort: (l) => l.node },
          { label: "type", cell: (l) => l.op || "", sort: (l) => l.op || "" },
          { label: "SQNR up to here", doc: "error that has accumulated up to this operator, on this sample", number: true, cell: (l) =>
            sqnr(l.nsr), title: (l) => ofNoise(l.nsr), sort: (l) => l.nsr },
          { label: "SQNR alone", doc: "error at the outputs when only this operator is quantized, on this sample", number: true,
            cell: (l) => (known(l.alone) ? sqnr(l.alone) : ""), title: (l) => ofNoise(l.alone), sort: (l) => l.alone || 0 },
          { label: answer.stale ? "mean of the samples (of earlier decisions)" : "mean of the samples",
            doc: "the error up to the operator in the analysis of the plan", number: true, cell: (l) => (known(l.mean) ? sqnr(l.mean) : ""),
            title: (l) => ofNoise(l.mean), sort: (l) => l.mean || 0 },
        ] }))
    );
    drawOrder(chart, rows.map((l) => ({ name: l.node, bar: l.nsr, dot: l.alone })), {
      pick: (name) => showOperator(app, name),
    });
  } catch (problem) {
    message(host, problemText(problem), true);
  }
}

// confusionOf counts which class became which.
/** @param {App} app @param {Core.Flip[]} flips */
function confusionOf(app, flips) {
  const pairs = new Map();
  for (const f of flips.filter((x) => changedTo(x).class !== x.float.class)) {
    const key = `${f.float.class} ${changedTo(f).class}`, was = pairs.get(key);
    if (was) was.n++;
    else pairs.set(key, { from: f.float.class, to: changedTo(f).class, n: 1 });
  }
  if (pairs.size === 0) return el("p", {});
  return grid({ caption: "Which class became which", rows: [...pairs.values()].sort((a, b) => b.n - a.n), limit: 20, columns: [
    { label: "float", cell: (p) => className(app, p.from), sort: (p) => p.from },
    { label: "quantized", cell: (p) => className(app, p.to), sort: (p) => p.to },
    { label: "samples", number: true, cell: (p) => String(p.n), sort: (p) => p.n },
  ] });
}
