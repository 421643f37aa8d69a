// Two plans, models, or recorded outputs on the same samples: which is worse, how sure that is, and where they differ.
import { place, placed } from "../address.js";
import { el } from "../dom.js";
import { gained, known, number, ofNoise, percent, plural, points, problemText, sqnr, withError } from "../format.js";
import { drawGraph } from "../graph.js";
import { drawIntervals } from "./intervals.js";
import { showPair } from "./pair.js";
import { dataForm, dataOptions, drawForm, fields, grid, message, part, showOperator, steady } from "./parts.js";
import { structureOf } from "./structure.js";
import { task } from "./task.js";

export const compareView = {
  key: "compare",
  label: "Compare",
  doc: "Two or more plans, models, or outputs that another engine recorded, on the same samples, with a paired test.",
  draw: drawCompare,
  usable: /** @param {App} app */ (app) => Boolean(app.state.model) && !app.state.language,
};

/** @param {HTMLElement} host @param {App} app */
function drawCompare(host, app) {
  const result = el("div", { class: "result" });
  const form = drawForm(app, [
    { name: "run_a", label: "A", type: "file", of: "any", value: placed("a") || app.state.plan || "", changed: (a) => place({ a }),
      doc: "A plan, a model (also one that another tool quantized), or a folder or file of recorded outputs." },
    { name: "run_b", label: "B", type: "file", of: "any", value: placed("b"), changed: (b) => place({ b }),
      doc: "Or tick two plans in Runs." },
    { name: "run_c", label: "C (optional)", type: "file", of: "any", value: "" },
    ...fields(app, "compare"),
  ]);
  const data = dataForm(app);
  const run = task(app, { label: "Compare", fold: true, kind: "compare", options: () => {
    const { run_a, run_b, run_c, ...rest } = { ...form.read(), ...dataOptions(data.read()) };
    if (!run_a || !run_b) throw new Error("choose A and B");
    return { ...rest, runs: [run_a, run_b, run_c].filter(Boolean) };
  }, show: (r) => showComparison(result, app, r, changes.firstChild) });
  const changes = el("div", { class: "result" });
  const settings = el("button", { type: "button",
    title: "At once, without data: which operators only one of the two has, and what they decide differently", onclick: async () => {
      const { run_a, run_b } = form.read();
      try {
        if (!run_a || !run_b) throw new Error("choose A and B");
        const s = await app.client.call("structures", { a: run_a, b: run_b }), structure = structureOf(app, s);
        const settings = el("div", {});
        if (!s.different && [run_a, run_b].some((name) => name.endsWith(".plan.json"))) {
          showSettings(settings, app, await app.client.call("diff", { a: run_a, b: run_b }), s);
        }
        changes.classList.remove("bad");
        changes.replaceChildren(structure, settings);
      } catch (problem) {
        message(changes, problemText(problem), true);
      }
    } }, "Show differing settings and operators");
  host.replaceChildren(part("Compare", compareView.doc, form.node, data.node, run, el("p", {}, settings), changes, result));
  return steady(app, () => drawCompare(host, app));
}

const chance = (p) => atMost(p).replace("= ", "").replace("not known", "–");

// sentences say in words what one pair shows: the score first, then the error of the outputs, which tells more from few samples.
/** @param {Core.CompareResult} r @param {Core.PairOfRuns} p */
function sentences(r, p) {
  const a = shortName(p.a, r), b = shortName(p.b, r), list = [], metric = (r.metric || "score").replace(/^top(\d)/, "top-$1");
  const sure = (text, p, yes) => (yes ? `${text} (p ${atMost(p)}).` : `${text}: within chance (p ${atMost(p)}, n = ${r.samples}).`);
  if (known(p.drop)) {
    list.push(p.drop === 0 ? `The ${metric} of ${a} and ${b} is the same (n = ${r.samples}).`
      : sure(
        `The ${metric} of ${b} is ${p.drop > 0 ? "lower" : "higher"} than that of ${a} by ${scoreText(r, Math.abs(p.drop), p.drop_error)}`,
        p.p_adjusted,
        p.significant
      ));
  }
  const of = (name) => r.runs.find((x) => x.name === name), error = (name) => sqnr(of(name).nsr, of(name).nsr_error);
  list.push(
    sure(`The output error of ${b} is ${p.nsr_change >= 0 ? "larger" : "smaller"} than that of ${a}: SQNR ${error(p.b)}, not ${error(p.a)}`,
      p.nsr_p_adjusted, p.nsr_significant)
  );
  return list.join(" ");
}

/** @param {Core.CompareResult} r */
const scoreText = (r, x, error) => (r.percent ? points(x, error) : withError(x, error));

const atMost = (p) => (!known(p) ? "not known" : p < 0.001 ? "< 0.001" : `= ${p.toFixed(3)}`);

// shortName leaves out the folders where that is enough to tell runs apart.
/** @param {string} name @param {Core.CompareResult} r */
function shortName(name, r) {
  const base = (n) => n.split("/").pop();
  return r.runs.filter((x) => base(x.name) === base(name)).length > 1 ? name : base(name);
}

/** @param {HTMLElement} result @param {App} app @param {Core.CompareResult} r */
function showComparison(result, app, r, shown) {
  const pieces = r.pairs.map((p) =>
    el("p", { class: p.significant || p.nsr_significant ? "headline" : "headline open",
      title: `change of ${ofNoise(p.nsr_change, p.nsr_change_error)}` }, sentences(r, p))
  );
  const chart = el("div", { class: "chart" });
  const runs = grid({ caption: `Runs, ${r.samples} samples${r.agreement ? ", no labels: the prediction of float counts as correct" : ""}`,
    rows: r.runs, columns: [
      { label: "run", cell: (x) => shortName(x.name, r), title: (x) => x.name },
      { label: (r.metric || "score").replace(/^top(\d)/, "top-$1"), number: true,
        cell: (x) => (x.score === undefined || x.score === null ? "–" : r.percent ? percent(x.score) : number(x.score)),
        title: (x) => String(x.score) },
      { label: "drop from float", number: true,
        cell: (x) => (x.drop === undefined || x.drop === null ? "–" : scoreText(r, x.drop, x.drop_error)), title: (x) => String(x.drop) },
      { label: "SQNR of the outputs",
        doc: `signal-to-noise ratio${r.centred ? " at the input of Softmax, without the mean over the classes" : ""}; larger is better`,
        number: true, cell: (x) => sqnr(x.nsr, x.nsr_error), title: (x) => ofNoise(x.nsr, x.nsr_error) },
      { label: "predictions unlike float", number: true, cell: (x) => (x.flips === undefined ? "–" : String(x.flips)) },
    ] });
  const nsrOf = (name) => (r.runs.find((x) => x.name === name) || {}).nsr;
  const pairs = r.pairs.length > 1 ? grid({ caption: "Pairs: how much worse the second is", rows: r.pairs, columns: [
    { label: "first", cell: (p) => shortName(p.a, r) },
    { label: "second", cell: (p) => shortName(p.b, r) },
    { label: "drop", number: true, cell: (p) => (p.drop === null || p.drop === undefined ? "–" : scoreText(r, p.drop, p.drop_error)) },
    { label: "p", doc: "probability of such a difference by chance, adjusted for the number of pairs (Holm)", number: true,
      cell: (p) => chance(p.p_adjusted) },
    { label: "SQNR", number: true, cell: (p) => gained(nsrOf(p.a), p.nsr_change, p.nsr_change_error),
      title: (p) => `change of ${ofNoise(p.nsr_change, p.nsr_change_error)}` },
    { label: "p of SQNR", number: true, cell: (p) => chance(p.nsr_p_adjusted) },
    { label: "predictions that differ", number: true, cell: (p) => (p.flips === undefined ? "–" : String(p.flips)) },
  ] }) : "";
  result.replaceChildren(...pieces, chart, runs, pairs, ...r.pairs.map(
    (p) => (r.pairs.length === 1 ? el("div", {}, pairDetails(app, r, p, shown))
      : el("details", {}, el("summary", {}, `${shortName(p.a, r)} and ${shortName(p.b, r)}, operator by operator`), pairDetails(app, r, p)))
  ));
  drawIntervals(chart,
    r.runs.map((x) => ({ label: shortName(x.name, r), value: x.nsr, error: x.nsr_error,
      title: `${x.name}: ${sqnr(x.nsr, x.nsr_error)}, ${ofNoise(x.nsr, x.nsr_error)}`, mark: "best" })
    ), { label: "SQNR of the outputs in dB", noise: true });
  if (r.pairs.length) {
    chart.after(
      el("p", { class: "hint" },
        "The bars are of each run by itself. Two runs are compared sample by sample, which tells smaller differences from chance: bars that overlap may still differ.")
    );
  }
}

// pickTensor is what a click on a row does: the tensor in both plans, drawn into host; the network where there are no two plans.
/** @param {HTMLElement} host @param {App} app @param {string} a @param {string} b */
function pickTensor(host, app, a, b) {
  const both = [a, b].every((name) => name.endsWith(".plan.json"));
  return { pick: (row) => (both ? showPair(host, app, a, b, row.node, row.at) : showOperator(app, row.node)),
    pickDoc: both ? "show the values, ranges and levels of both plans" : "show this operator in the network" };
}

// shown: its settings stand above already, with every single one.
/** @param {App} app @param {Core.CompareResult} r @param {Core.PairOfRuns} p @param {boolean} [shown] */
function pairDetails(app, r, p, shown) {
  const list = p.different ? [el("p", { class: "headline visible" }, `Not compared operator by operator: ${p.different}.`)] : [];
  if (p.layers && p.layers.length) {
    /** @type {Core.LayerDrift[]} */
    const rows = [...p.layers].sort((a, b) => Math.abs(b.change) - Math.abs(a.change)), chosen = el("div", { class: "result" }),
      click = pickTensor(chosen, app, p.a, p.b);
    list.push(
      el("p", { class: "hint" },
        `The error that has accumulated up to each operator, on the first ${
          plural(r.layer_samples, "sample")
        }; the largest change first. A click: ${click.pickDoc}.`),
      grid({ caption: "Operators where the error differs most", rows, limit: 40, ...click, mark: (l) => (l.significant ? "best" : ""),
        columns: [
          { label: "operator", cell: (l) => l.node, sort: (l) => l.node },
          { label: "type", cell: (l) => l.op, sort: (l) => l.op },
          { label: `SQNR in ${shortName(p.a, r)}`, number: true, cell: (l) => sqnr(l.a), title: (l) => ofNoise(l.a), sort: (l) => l.a },
          { label: `SQNR in ${shortName(p.b, r)}`, number: true, cell: (l) => sqnr(l.b), title: (l) => ofNoise(l.b), sort: (l) => l.b },
          { label: "second against first", doc: "above 0 the second is better", number: true, cell: (l) =>
            gained(l.a, l.change, l.change_error), title: (l) => `change of ${ofNoise(l.change, l.change_error)}`, sort: (l) =>
              l.change },
          { label: "more than chance", doc: "at 5 % for all operators together", cell: (l) => (l.significant ? "yes" : "no"),
            sort: (l) => (l.significant ? 1 : 0) },
        ] }),
      chosen
    );
  }
  if (p.layers && p.layers.length && app.view && app.view.picture && [p.a, p.b].includes(app.state.plan)) {
    list.unshift(differenceGraph(app, r, p));
  }
  if (p.settings && !shown) {
    const box = el("div", {});
    showSettings(box, app, { ...p.settings, a: p.a, b: p.b });
    list.push(box);
  }
  return list;
}

// differenceGraph is the network with the error up to each operator in the second run beside that in the first.
/** @param {App} app @param {Core.CompareResult} r @param {Core.PairOfRuns} p */
function differenceGraph(app, r, p) {
  const at = new Map(p.layers.map((l) => [l.node, l])), host = el("div", { class: "differs" });
  const rows = app.rows.map((row) => {
    const l = at.get(row.name);
    return { ...row, nsr: null, nsrError: null, accumulated: l ? l.b : null, accumulatedError: null,
      other: l ? { accumulated: l.a } : null };
  });
  const name = `${shortName(p.b, r)} beside ${shortName(p.a, r)}`;
  // Drawn once it is seen: inside of a part that is closed it has no size.
  const seen = new IntersectionObserver((entries) => {
    if (!entries.some((e) => e.isIntersecting)) return;
    seen.disconnect();
    drawGraph(host, { picture: app.view.picture, rows, selection: app.selection, colouring: "difference",
      title: `Network: the error of ${name}` });
  });
  seen.observe(host);
  return el("div", {},
    el("p", { class: "hint" },
      `The error that has accumulated up to each operator: ${name}. The colour is the ratio of the two, full at ten times more or less error in ${
        shortName(p.b, r)
      }.`), host);
}

// What a comparison of settings counts, in words.
const settingKinds = [
  ["domains", "operators in another number format (integers or float)"],
  ["states", "tensors quantized in one, not in the other"],
  ["schemes", "number formats of tensors"],
  ["scales", "scales"],
  ["zero_points", "zero points"],
  ["flipped", "integers of weights and biases"],
  ["missing", "operators that only A has"],
  ["extra", "operators that only B has"],
];

// showSettings lists what two plans decide differently; above, where it stands above already, has the operators that only one has: counts
// first, then decisions, then the single ones that do not follow from others.
/** @param {HTMLElement} host @param {App} app @param {Partial<Core.DiffResult> & { a: string; b: string }} d @param {object} [above] */
function showSettings(host, app, d, above) {
  const counts = settingKinds.filter(([key]) => d[key] && !(above && ["missing", "extra"].includes(key))),
    single = (d.differences || []).filter((x) => !x.follows && !(above && ["missing", "extra"].includes(x.what)));
  const decisions = [...(d.only_a || []).map((text) => ({ side: "A", text })), ...(d.only_b || []).map((text) => ({ side: "B", text }))];
  const pieces = [
    el("h4", {}, "Differing settings"),
    el("p", {}, counts.length
      ? `${counts.map(([key, what]) => `${what}: ${d[key]}`).join("; ")}.${
        d.following ? ` Differences that follow from others: ${d.following}.` : ""
      }` : "The two decide the same."),
  ];
  if (decisions.length) {
    pieces.push(
      grid({ caption: "Decisions that only one of them has", rows: decisions, columns: [{ label: "in", cell: (x) =>
        x.side }, { label: "decision", cell: (x) => x.text }] })
    );
  }
  if (single.length) {
    const chosen = el("div", { class: "result" });
    pieces.push(grid({ caption: "One by one", rows: single, limit: 40, ...pickTensor(chosen, app, d.a, d.b), columns: [
      { label: "operator", cell: (x) => x.node, sort: (x) => x.node },
      { label: "at", doc: "in0, in1: inputs; out0: output; empty: the operator", cell: (x) => x.at || "operator" },
      { label: "what", cell: (x) => x.what, sort: (x) => x.what },
      { label: "A", cell: (x) => x.a || "" },
      { label: "B", cell: (x) => x.b || "" },
      { label: "largest difference", doc: "relative for scales", number: true, cell: (x) => (x.largest ? number(x.largest) : ""),
        sort: (x) => x.largest || 0 },
    ] }), chosen);
  }
  host.classList.remove("bad");
  host.replaceChildren(...pieces);
}
