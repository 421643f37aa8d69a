// The way from a model to a file for its engine, as the navigation of the page: six steps, each with its views and with how far it is.
import { el, replace } from "./dom.js";

const analysed = (app) => app.rows.some((row) => row.nsr !== null);
const stale = (app) => Boolean(app.view && app.view.stale);
const scored = (app) => Boolean(app.view && app.view.verdict && app.view.verdict.metric);

// steps are what one does, in order: the keys of their views, the kinds of jobs that work on them, and state(app), one of states.
export const steps = [
  { key: "model", label: "Model", views: ["open"], jobs: ["open", "import"], state: (app) => app.state.model ? "done" : "empty" },
  { key: "data", label: "Data", views: ["data"], jobs: ["trial", "calibrate"], state: (app) => app.state.exists ? "done" : "empty" },
  { key: "measure", label: "Measure", views: ["network", "tensors", "language"],
    jobs: ["analyze", "language-rank", "language-eval", "language-generate"],
    state: (app) => !analysed(app) ? "empty" : stale(app) ? "stale" : "done" },
  { key: "improve", label: "Improve", views: ["advice", "sweep", "pareto", "tune"], jobs: ["sweep", "dispatch", "tune"],
    state: (app) => app.state.undo > 0 ? "done" : "empty" },
  { key: "prove", label: "Prove", views: ["samples", "compare", "verify", "runs", "history"],
    jobs: ["eval", "flips", "compare", "verify", "sample-layers"],
    state: (app) =>
      !scored(app) && !app.state.verification ? "empty" : stale(app) ? "stale" : scored(app) && app.state.verification ? "done" : "part" },
  { key: "ship", label: "Ship", views: ["export"], jobs: ["export"], state: (app) => app.exported() ? "done" : "empty" },
  { key: "other", label: "From a file", views: ["report"], jobs: [], state: () => "done" },
];

const states = { done: { sign: "✓", word: "done" }, stale: { sign: "!", word: "not of the plan as it is" },
  part: { sign: "◐", word: "accuracy or the integers are still to be looked at" }, empty: { sign: "○", word: "not yet" },
  running: { sign: "…", word: "running" } };

// makeSpine is the row of steps: {node, update()}. views are all that there are; usable(view), whether one can be shown; current(), the key
// of the one that is; show(key) goes to it.
/**
 * @param {App} app
 * @param {{ views: { key: string; label: string; doc: string }[]; usable: (v: any) => boolean; current: () => string;
 *   show: (key: string) => void }} choices
 */
export function makeSpine(app, { views, usable, current, show }) {
  const node = el("nav", { class: "tabs", "aria-label": "Steps and views" });
  const last = {}; // the view of each step that was shown last
  const list = steps.map((step) => {
    const buttons = views.filter((v) => step.views.includes(v.key)).sort((a, b) => step.views.indexOf(a.key) - step.views.indexOf(b.key))
      .map((v) => ({ view: v, node: el("button", { type: "button", class: "to", title: v.doc, onclick: () => show(v.key) }, v.label) }));
    const sign = el("span", { class: "sign", "aria-hidden": "true" });
    const name = el("button", { type: "button", class: "name", onclick: () => show(last[step.key] || first().view.key) }, sign, " ",
      step.label);
    const first = () => buttons.find((b) => usable(b.view)) || buttons[0];
    const host = el("div", { class: "step", role: "group", "aria-label": step.label }, name,
      el("div", { class: "children" }, buttons.map((b) => b.node)));
    return { step, name, sign, buttons, host };
  });
  replace(node, list.map((x) => x.host));
  node.addEventListener("keydown", (e) => { // arrows walk along the views
    const all = [...node.querySelectorAll("button")].filter((b) => b.checkVisibility()), at = all.indexOf(document.activeElement),
      by = { ArrowRight: 1, ArrowLeft: -1 }[e.key];
    if (!by || at < 0) return;
    e.preventDefault();
    all[(at + by + all.length) % all.length].focus();
  });

  function update() {
    const here = current();
    for (const { step, name, sign, buttons, host } of list) {
      const on = step.views.includes(here), running = step.jobs.some((kind) => app.running(kind)),
        state = running ? "running" : app.state ? step.state(app) : "empty";
      if (on) last[step.key] = here;
      host.hidden = !buttons.some((b) => usable(b.view));
      host.className = `step is-${state}${on ? " on" : ""}`;
      sign.textContent = states[state].sign;
      name.title = `${step.label}: ${states[state].word}`;
      name.setAttribute("aria-label", name.title);
      for (const b of buttons) {
        b.node.hidden = !usable(b.view);
        if (b.view.key === here) b.node.setAttribute("aria-current", "page");
        else b.node.removeAttribute("aria-current");
      }
    }
  }
  return { node, update };
}
