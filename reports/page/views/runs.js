// Runs: the plans of the model that lie beside the one that is open, with what was measured of each, now and before its last changes.
import { place } from "../address.js";
import { judging, remember } from "../context.js";
import { el, replace } from "../dom.js";
import { bytes, exact, insignificant, known, ofNoise, percent, plural, points, problemText, sqnr, withError } from "../format.js";
import { baseName } from "../frame.js";
import { drawIntervals } from "./intervals.js";
import { defaults, grid, message, part, planned } from "./parts.js";

export const runsView = {
  key: "runs",
  label: "Runs",
  doc: "All plans of this model with what was measured of them; use one, or compare two.",
  usable: planned,
  /** @param {HTMLElement} host @param {App} app */
  draw(host, app) {
    const body = el("div", { class: "result" }), said = el("p", { class: "status", role: "status" });
    host.append(
      part("Runs",
        "Each plan as it is, and as it was when something was measured of it. Other data, another target and a sweep make another plan: use one, and the one before stays.",
        said, body)
    );
    const update = async () => {
      try {
        show(body, said, app, (await app.client.call("runs", {})).runs);
      } catch (problem) {
        message(said, problemText(problem), true);
      }
    };
    update();
    return { update };
  },
};

// figure is one of a run, as a command found it; undefined where none did.
/** @param {Core.PlanRun} r @param {string} command @param {string} key @returns {any} */
const figure = (r, command, key) => (r.figures[command] || {})[key];

/** @param {HTMLElement} body @param {HTMLElement} said @param {App} app @param {Core.PlanRun[]} runs */
function show(body, said, app, runs) {
  const now = runs.filter((r) => r.open && r.current).map((r) => r.plan), ticked = new Set(now), chart = el("div", { class: "chart" });
  const compare = el("button", { type: "button", disabled: true, title: "The two plans that are ticked, on the same samples",
    onclick: () => {
      const [a, b] = [...ticked];
      remember({ run_a: a, run_b: b });
      place({ a, b });
      app.go("compare");
      app.run("compare", { ...defaults(app, "compare"), ...judging(app), runs: [a, b] }).catch(() => {}); // the view says what went wrong
    } }, "Compare the two ticked");
  const error = (r) => figure(r, "analyze", "nsr"), spread = (r) => figure(r, "analyze", "nsr_error");
  const of = (r, key) => figure(r, figure(r, "eval", "n") === undefined ? "compare" : "eval", key);
  const score = (r) =>
    known(of(r, "top1")) ? { name: "top-1", percent: true, value: of(r, "top1") / (of(r, "n") || of(r, "samples")) }
      : known(of(r, "value")) ? { name: of(r, "metric"), percent: of(r, "percent"), value: of(r, "value") } : null;
  const metrics = [...new Set(runs.map(score).filter(Boolean).map((m) => m.name))];
  const inScore = (r, v, how, spread) => (score(r).percent ? how(v, spread) : withError(v, spread));
  const name = (r) => baseName(r.plan) + (r.current ? "" : ", before"), stem = baseName(app.state.model).replace(/\.[^.]*$/, "");
  const brief = (r) => name(r).replace(`${stem}.`, "").replace(/\.json\b/, ""); // what tells plans of one model apart
  /** @param {Core.PlanRun} r */
  const tick = (r) =>
    r.current && el("input", { type: "checkbox", "aria-label": `Tick ${r.plan}`, checked: ticked.has(r.plan), onchange: (e) => {
      ticked[e.target.checked ? "add" : "delete"](r.plan);
      compare.disabled = ticked.size !== 2;
    } });
  /** @param {Core.PlanRun} r */
  const use = (r) =>
    !r.current ? ""
      : r.open ? el("b", null, "in use")
      : el("button", { type: "button", title: `Open ${r.plan}; the plan that is open now stays`,
        onclick: (e) => usePlan(app, said, r.plan, e.target) }, "Use");
  const cost = (r, key, here) => (r.open && r.current && app.view ? here(app.view.verdict) : undefined) ?? figure(r, "analyze", key);
  const size = (r) => cost(r, "bytes", (v) => v.size_bytes && v.size_bytes.quantized);
  const work = (r) =>
    cost(r, "integer", (v) => v.work.length ? v.work.reduce((n, w) => n + (/int/.test(w.format) ? w.share : 0), 0) : undefined);
  replace(body, runs.filter((r) => known(error(r))).length > 1 && chart, el("p", { class: "actions" }, compare),
    grid({ caption: plural(new Set(runs.map((r) => r.plan)).size, "plan"), rows: runs, mark: (r) => (r.open && r.current ? "chosen" : ""),
      columns: [
        { label: "plan", cell: (r) => el("span", { class: r.current ? "" : "soft" }, tick(r), " ", name(r)), sort: name,
          title: (r) => `${r.plan}; measured by ${Object.keys(r.figures).join(", ") || "nothing yet"}` },
        { label: "use", cell: use },
        { label: metrics.length === 1 ? metrics[0] : metrics.length ? "score" : "top-1",
          doc: "of the last qwb eval of this state, or compare, and how much worse than float", number: true, cell: (r) =>
            score(r) && [
              metrics.length > 1 ? `${score(r).name} ` : "",
              inScore(r, score(r).value, percent),
              known(of(r, "drop")) && el("small", null, ` drop ${inScore(r, of(r, "drop"), points, of(r, "drop_error"))}`),
            ], title: (r) => exact(score(r) ? score(r).value : null), sort: (r) => (score(r) ? score(r).value : -1) },
        { label: "error", doc: "SQNR of the outputs, of the last qwb analyze of this state", number: true,
          cell: (r) => (known(error(r)) ? sqnr(error(r), spread(r)) : ""), title: (r) => ofNoise(error(r), spread(r)),
          sort: (r) => -(error(r) ?? Infinity) },
        { label: "size", doc: "of all constants", number: true, cell: (r) => known(size(r)) && bytes(size(r)), title: (r) => exact(size(r)),
          sort: (r) => size(r) ?? Infinity },
        { label: "on integers", doc: "share of the multiply-accumulates", number: true, cell: (r) => known(work(r)) && percent(work(r)),
          title: (r) => exact(work(r)), sort: (r) => work(r) ?? -1 },
        { label: "verdict", cell: (r) => verdictOf(r, error(r), spread(r)) },
        { label: "written", cell: (r) => (r.changed
          ? new Date(r.changed).toLocaleString(undefined, { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit" }) : ""),
          sort: (r) => r.changed },
        { label: "what", doc: "target, observer, and how many commands decided something after the calibration",
          cell: (r) => [r.platform, r.observer, r.steps ? plural(r.steps, "decision") : ""].filter(Boolean).join(", "),
          sort: (r) => r.platform + r.observer },
      ] }));
  if (chart.isConnected) {
    drawIntervals(chart, runs.filter((r) =>
      known(error(r))
    ).map((r) => ({ label: brief(r), value: error(r), error: spread(r), mark: r.open ? "best"
      : "", title: `${name(r)}: ${ofNoise(error(r), spread(r))}` })
    ), { label: "SQNR of the outputs in dB", noise: true });
  }
}

// verdictOf is what the figures of a run say in words, as at the top, and what its integers were found to be.
/** @param {Core.PlanRun} r @param {number | undefined} nsr @param {number | undefined} error */
function verdictOf(r, nsr, error) {
  const f = r.figures.eval || {}, level = !known(nsr) ? undefined : nsr < 0.01 ? "small" : nsr <= 0.1 ? "visible" : "large";
  const said = f.label_shift ? "labels do not fit"
    : known(f.drop) ? f.drop <= 0 || insignificant(f.drop, f.drop_error) ? "no loss beyond chance" : "loses accuracy"
    : level ? { small: "looks ready", visible: "may lose accuracy", large: "expect a loss" }[level] : "";
  const integers = r.verdict && (["equal", "ties"].includes(r.verdict) ? "integers OK" : `integers ${r.verdict}`);
  return [said, integers].filter(Boolean).join("; ");
}

// usePlan opens another plan in place of the one that is open, and says how to go back.
/** @param {App} app @param {HTMLElement} said @param {string} file @param {HTMLButtonElement} [button] */
export async function usePlan(app, said, file, button) {
  const before = app.state.plan;
  if (button) button.disabled = true;
  try {
    await app.run("open", { file });
    said.classList.remove("bad");
    replace(said, `${file} is in use. `, before !== file
      && el("button", { type: "button", title: `Use ${before} again`, onclick: (e) => usePlan(app, said, before, e.target) },
        `Back to ${baseName(before)}`));
  } catch (problem) {
    message(said, problemText(problem), true);
    if (button) button.disabled = false;
  }
}
