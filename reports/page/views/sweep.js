// Options compared on held-out samples (sweep), and the search for the fewest operators in FP32 (Pareto front).
import { commandLine, el } from "../dom.js";
import { bytes, count, gained, known, number, ofNoise, percent, plural, problemText, small, sqnr, withError } from "../format.js";
import { drawScatter } from "../scatter.js";
import { drawIntervals } from "./intervals.js";
import { dataForm, dataOptions, drawForm, fields, grid, message, part, planned, steady, tiles } from "./parts.js";
import { usePlan } from "./runs.js";
import { task } from "./task.js";

export const sweepView = {
  key: "sweep",
  label: "Sweep",
  doc: "Which options are best, and which differences are chance.",
  draw: drawSweep,
  usable: /** @param {App} app */ (app) => Boolean(app.state.model) && !app.state.language,
};

export const paretoView = {
  key: "pareto",
  label: "Pareto",
  doc: "Which operators to keep in FP32 for an error budget, by error and by work.",
  draw: drawPareto,
  usable: planned,
};

/** @param {HTMLElement} host @param {App} app */
function drawSweep(host, app) {
  const s = app.state, result = el("div", { class: "result" });
  const options = drawForm(app, fields(app, "sweep", { platforms: { value: [s.platform].filter(Boolean) } }));
  const data = searchData(app, "the few that the statistics keep: a hint within seconds");
  host.replaceChildren(
    part("Compare options",
      "Every combination is calibrated on one half of the samples and measured on the other. Plans of the same rank cannot be told apart.",
      data.node, options.node,
      task(app, { label: "Sweep", fold: true, kind: "sweep", options: () => ({ ...dataOptions(data.read()), ...options.read() }),
        show: (r) => showSweep(result, app, r) }), result)
  );
  return steady(app, () => drawSweep(host, app), (was, now) => was.model === now.model);
}

/** @param {App} app @param {string} empty */
const searchData = (app, empty) =>
  dataForm(app, { fit: "search", empty,
    note: "Not those that accuracy is measured on in the end. Half of them choose, the other half (held out) judges." });

// What a budget may be on: the option, its value at first, and what the option takes of that.
const goals = {
  nsr: { label: "SQNR of the outputs at least, in dB", option: "max_nsr", first: 20,
    of: (db) => Number((10 ** (-db / 10)).toPrecision(3)) },
  drop: { label: "top-1 drop at most, in pp (needs labels)", option: "max_drop", first: 1, of: (pp) => pp },
  cosine: { label: "cosine at least", option: "min_cosine", first: 0.99, of: (x) => x },
};

/** @param {HTMLElement} host @param {App} app */
function drawPareto(host, app) {
  const front = el("div", { class: "result" }), data = searchData(app, "those of the plan");
  const search = drawForm(app, [
    { name: "goal", label: "Budget", type: "select", value: "nsr",
      options: Object.entries(goals).map(([name, { label }]) => ({ name, label })),
      changed: (goal) => search.set("limit", goals[goal].first) },
    { name: "limit", memory: "search budget", label: "Value", type: "number", step: "any", min: 0, value: goals.nsr.first },
    { name: "force", memory: "unproven", label: "Decide without proof", type: "check",
      doc: "Takes the best set that was found, even where held-out samples do not confirm it." },
  ]);
  host.replaceChildren(
    part("Keep the most sensitive operators in FP32",
      "Sends operators to FP32 one after the other, the most sensitive first, until the budget is met, and confirms the result on held-out samples.",
      data.node, search.node, task(app, { label: "Search", fold: true, kind: "dispatch", only: "--auto", options: () => {
        const { goal, limit, force } = search.read();
        if (limit === undefined) throw new Error("give the budget a value");
        return { ...dataOptions(data.read()), auto: true, [goals[goal].option]: goals[goal].of(limit), ...(force ? { force } : {}) };
      }, show: (r) => showSearch(front, app, r) }), front)
  );
  return steady(app, () => drawPareto(host, app));
}

// differing are the names of rows without what all of them have in common.
/** @param {Core.Jobs["sweep"]["result"]["rows"]} rows */
function differing(rows) {
  const keys = ["platform", "observer", "granularity", "dispatcher", "format"].filter((k) => rows.some((r) => r[k] !== rows[0][k]));
  return (r) => keys.map((k) => (k === "granularity" ? `per ${r[k]}` : r[k])).join(", ") || rowTitle(r);
}

/** @param {any} r */
function rowTitle(r) {
  const rest = [r.dispatcher, r.format].filter((x) => x && x !== "conservative" && x !== "default");
  return [r.platform, r.observer, r.granularity === "tensor" ? "one scale per weight tensor" : "one scale per channel", ...rest].join(", ");
}

/** @param {HTMLElement} result @param {App} app @param {Core.SweepResult} r */
function showSweep(result, app, r) {
  const labelled = r.rows.some((x) => x.top1 !== undefined), first = r.rows.filter((x) => x.rank === 1);
  const hint = r.held_out_kind === "kept";
  const verdict = r.rows.length === 0 ? "No combination gave a plan."
    : `${first.length === 1 ? "One plan is" : `${first.length} of ${r.rows.length} plans are`} best${
      first.length === 1 ? "" : " and cannot be told apart"
    }, on ${r.held_out} held-out samples.`
      + (hint ? " This is a hint: their scales were fitted on these few samples too."
        : r.plan ? ` Its plan is ${r.plan}.` : " Nothing is written.");
  const said = el("p", { class: "status", role: "status" });
  const written = !hint && r.plan
    && el("button", { type: "button", class: "main", title: `Open ${r.plan}; the plan that is open now stays as it is`,
      onclick: (e) => usePlan(app, said, r.plan, e.target) }, "Use this plan");
  const best = (r.rows.find((x) => x.chosen) || r.rows[0] || {}).nsr;
  /** @type {Column<Core.Row>[]} */
  const columns = [
    { label: "use", cell: (x) => useRow(app, said, r, x) },
    { label: "rank", doc: "plans with the same rank cannot be told apart from the best of them (5 % for all comparisons together)",
      number: true, cell: (x) => String(x.rank), sort: (x) => x.rank },
    { label: "target", cell: (x) => x.platform, sort: (x) => x.platform },
    { label: "observer", cell: (x) => x.observer + (x.default ? " (default)" : ""), sort: (x) => x.observer },
    { label: "weights", cell: (x) => `per ${x.granularity}`, sort: (x) => x.granularity },
    { label: "SQNR of the outputs", doc: "signal-to-noise ratio of the outputs, as at the top, with its standard error; larger is better",
      number: true, cell: (x) => sqnr(x.nsr, x.nsr_error), title: (x) => ofNoise(x.nsr, x.nsr_error), sort: (x) => -x.nsr },
    { label: "against the best", doc: "SQNR against that of the chosen plan over the same samples", number: true,
      cell: (x) => (x.behind ? gained(best, x.behind, x.behind_error) : "-"),
      title: (x) => `change of ${ofNoise(x.behind, x.behind_error)}`, sort: (x) => -x.behind },
    { label: "MACs on integers", doc: "share of the multiply-accumulates", number: true, cell: (x) => percent(x.macs_int8),
      title: (x) => String(x.macs_int8), sort: (x) => x.macs_int8 },
    { label: "constants", doc: "bytes of weights and biases", number: true, cell: (x) => bytes(x.constant_bytes),
      title: (x) => String(x.constant_bytes), sort: (x) => x.constant_bytes },
  ];
  if (labelled) {
    /** @type {Column<Core.Row>[]} */
    const scores = [
      { label: "top-1", number: true, cell: (x) => percent(x.top1 / r.held_out), title: (x) => `${x.top1} of ${r.held_out}`, sort: (x) =>
        x.top1 },
      { label: "drop, pp", doc: "loss of top-1 against float in percentage points, with its paired standard error", number: true,
        cell: (x) => withError(x.drop, x.drop_error), title: (x) => String(x.drop), sort: (x) => x.drop },
    ];
    columns.splice(7, 0, ...scores);
  }
  const chart = el("div", { class: "chart" });
  result.replaceChildren(el("p", { class: hint ? "headline open" : "headline" }, verdict, " ", app.state.plan !== r.plan && written || ""),
    said, chart,
    el("p", { class: "hint" },
      "Right is less error. Filled circles, and the grey band from the first to the last of them, have rank 1: they cannot be told apart. The test is paired, so bars may overlap and differ all the same. A click marks the row."),
    grid({ caption: "Plans, the best first", rows: r.rows, columns, mark: (x) => (x.chosen ? "chosen" : x.rank === 1 ? "best" : "") }),
    r.skipped && r.skipped.length
      ? grid({ caption: "Not possible", rows: r.skipped,
        columns: [{ label: "combination", cell: rowTitle }, { label: "why", cell: (x) => x.why }] }) : "",
    r.command ? commandLine(r.command) : "", hint || !r.command ? "" : el("p", { class: "hint" }, "This command gives the same scales."));
  const name = differing(r.rows), ranked = first.map((x) => x.nsr);
  if (r.rows.length) {
    drawIntervals(chart,
      r.rows.map((x, i) => ({ label: name(x), value: x.nsr, error: x.nsr_error, mark: x.rank === 1 ? "best" : "",
        title: `${rowTitle(x)}: ${sqnr(x.nsr, x.nsr_error)}, ${ofNoise(x.nsr, x.nsr_error)}, rank ${x.rank}`, pick: () =>
          markRow(result, i) })
      ), { label: "SQNR of the outputs in dB", noise: true,
      band: ranked.length ? { from: Math.min(...ranked), to: Math.max(...ranked), label: "rank 1: cannot be told apart" } : null });
  }
}

// useRow is a button that makes the plan of a row and opens it: the chosen one is there, the others are calibrated from the statistics.
/** @param {App} app @param {HTMLElement} said @param {Core.SweepResult} r @param {Core.Row} x */
function useRow(app, said, r, x) {
  const there = x.chosen && r.plan && r.held_out_kind !== "kept", other = (x.format && x.format !== "default") || !app.state.exists;
  if (!there && other) return "";
  return el("button", { type: "button", title: there ? `Open ${r.plan}`
    : `Calibrate with these options: ${rowTitle(x)}. Of another target that makes another plan; else Undo takes it back.`,
    onclick: async (e) => {
      if (there) return usePlan(app, said, r.plan, e.target);
      e.target.disabled = true;
      try {
        const made = await app.run("calibrate", { platform: x.platform, observer: x.observer, per_tensor: x.granularity === "tensor",
          dispatcher: x.dispatcher });
        message(said, `${made.plan} has these options now.`);
      } catch (problem) {
        message(said, problemText(problem), true);
      }
      e.target.disabled = false;
    } }, "Use");
}

// markRow shows the row of a table that a point stands for.
function markRow(result, index) {
  const rows = result.querySelectorAll("table.results tbody tr");
  rows.forEach((row, i) => row.classList.toggle("picked", i === index));
  if (rows[index]) rows[index].scrollIntoView({ block: "nearest" });
}

const labelOf =
  (p) => (p.fp32.length ? `${p.fp32.slice(0, 4).join(", ")}${p.fp32.length > 4 ? ` and ${p.fp32.length - 4} more` : ""} in FP32`
    : "all on integers");

// exactSelector selects the operator of a name, whatever that is.
const exactSelector = (name) => (/^[\w./-]*[\w.-]$/.test(name) && !["first", "last", "depthwise"].includes(name) ? name
  : `/^${name.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&").replace(/,/g, "\\,")}$/`);

/** @param {HTMLElement} front @param {App} app @param {Core.Jobs["dispatch"]["result"]} r */
function showSearch(front, app, r) {
  const said = r.claimed
    ? `The budget is met, confirmed on ${r.held_out ? r.held_out.samples : "held-out"} samples, with ${
      r.fp32.length ? plural(r.fp32.length, "operator") : "no operator"
    } in FP32.`
    : r.refused || `Budget not reached: not proven on ${r.held_out ? plural(r.held_out.samples, "held-out sample") : "these samples"}.`;
  const goal = r.goal ? r.goal.metric : "nsr", percent = /drop|top/.test(goal),
    errorName = percent ? "drop, pp" : goal === "nsr" ? "NSR" : goal.replace("_", " "), points = r.points || [],
    figure = (x, error) => (goal === "nsr" ? sqnr(x, error) : known(error) ? withError(x, error) : number(x)),
    figureName = goal === "nsr" ? "SQNR of the outputs" : errorName, figureTitle = (x, error) =>
      goal === "nsr" ? ofNoise(x, error)
        : String(x), status = el("p", { class: "status", role: "status" });
  const use = async (point) => { // in place of what was sent to FP32 before, as the point was measured
    message(status, "the plan is derived …");
    try {
      await app.run("dispatch", { reset: true, ...(point.fp32.length ? { fp32: point.fp32.map(exactSelector) } : {}) });
      message(status, `This plan is in force: ${labelOf(point)}. Undo takes it back.`);
    } catch (problem) {
      message(status, problemText(problem), true);
    }
  };
  if (!points.length) { // refused before anything was measured
    front.replaceChildren(el("p", { class: "headline open" }, said.replace(/ \(--force[^)]*\)/, "")),
      el("p", { class: "hint" }, r.needed ? `About ${plural(r.needed, "sample")} would decide this. ` : "",
        "Change the options, Decide without proof: searches all the same."));
    return;
  }
  const chart = el("div", { class: "chart" });
  const listed = points.filter((p) => p.pareto).concat(points.filter((p) => !p.pareto));
  front.replaceChildren(el("p", { class: r.claimed ? "headline" : "headline open" }, said), tiles([
    { label: `${figureName}, before`, value: figure(r.before), title: figureTitle(r.before),
      doc: "the budget's figure of the plan as it was" },
    { label: r.claimed ? "after" : "of the best set tried", value: figure(r.after), title: figureTitle(r.after) },
    r.held_out
    && { label: "the same on held-out samples", value: figure(r.held_out.value, r.held_out.error),
      title: figureTitle(r.held_out.value, r.held_out.error), doc: "samples that no operator was chosen on" },
    r.needed ? { label: "samples needed", value: String(r.needed), doc: "about how many samples would decide this" } : null,
    { label: "evaluations", value: String(r.evaluations), doc: "how many plans were tried" },
  ]), chart,
    el("p", { class: "hint" },
      `Left is less work in FP32, ${
        goal === "nsr" ? "up" : "down"
      } is less error. The bars hold the true value with 95 %; points in the grey band cannot be told from the float network. A click on a point uses its plan; undo takes it back.`),
    status,
    grid({ caption: "Plans that were tried", rows: listed, pick: use, pickDoc: "make this the plan", limit: 40,
      mark: (p) => (p.pareto ? "best" : ""), columns: [
        { label: "use", cell: (p) => (p.fp32.length ? `${plural(p.fp32.length, "operator")} in FP32` : "all on integers"),
          sort: (p) => p.fp32.length, title: (p) => p.fp32.join(", ") },
        { label: figureName, doc: "the budget's figure on the samples that the search fits on, with its standard error", number: true,
          cell: (p) => figure(p.metric, p.error), title: (p) => figureTitle(p.metric, p.error), sort: (p) => p.metric },
        { label: "MACs in FP32", number: true, cell: (p) => count(p.macs_fp32), title: (p) => String(p.macs_fp32),
          sort: (p) => p.macs_fp32 },
        { label: "Q/DQ boundaries", doc: "tensors converted between integers and float", number: true, cell: (p) => String(p.borders),
          sort: (p) => p.borders },
        { label: "best trade-off", doc: "no other plan has less error, less work in FP32 and fewer boundaries",
          cell: (p) => (p.pareto ? "yes" : "no"), sort: (p) => (p.pareto ? 1 : 0) },
      ] }), r.apply ? commandLine(r.apply) : "");
  const chosen = (p) => r.claimed && p.fp32.length === r.fp32.length && p.fp32.every((n) => r.fp32.includes(n));
  drawScatter(chart, { cost: "MACs in FP32", metric: errorName, percent, budget: r.goal ? r.goal.budget : null,
    points: points.map((p) => ({ cost: p.macs_fp32, metric: p.metric, error: p.error, label: labelOf(p), pareto: p.pareto,
      chosen: chosen(p), fp32: p.fp32 })
    ) }, { onPick: use });
}
