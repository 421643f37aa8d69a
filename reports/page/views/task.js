// Buttons that run a job. How the job stands is one value (job_state.js), also where another tab or the demo started it.
import { commandLine, el } from "../dom.js";
import { duration, problemText } from "../format.js";
import { idle, next, said } from "../job_state.js";
import { message, warningList } from "./parts.js";

/**
 * watch follows the jobs of a kind, those whose command has only, and calls changed(state, job) at once and after all that happens; job
 * where one was heard of. It ends when node is no longer on the page.
 * @template {keyof Core.Jobs} K
 * @param {App} app @param {K} kind @param {string} only @param {HTMLElement} node
 * @param {(state: JobState, job?: Core.Job) => void} changed
 */
function watch(app, kind, only, node, changed) {
  let state = idle;
  const to = (event) => {
    state = next(state, event);
    changed(state, event.type === "job" ? event.job : undefined);
  };
  const heard = (job) => {
    if (job && job.kind === kind && job.command.includes(only)) to({ type: "job", job });
  };
  const here = (fn) => (x) => {
    if (node.isConnected) fn(x);
    else ends.forEach((end) => end()); // the view was drawn anew
  };
  const ends = [
    app.client.on("job", here((event) => heard(event.job))),
    app.on(here(() => to({ type: "plan", of: app.state.of }))),
  ];
  to({ type: "plan", of: app.state.of });
  return { to, heard, state: () => state };
}

// task is a button that runs a job and shows its result: label, kind, options() or null to refuse with a reason by throwing, show(result).
// only tells apart jobs of one kind by what their command has. While it runs the line beside it has the progress. The newest result of this
// kind is shown at once, so that leaving the view loses nothing. into is where show draws what is true of one state of the plan only: it
// says so once that is another one. most is the number of samples that the form fills in. fold: the form of the part folds into a button
// when there is a result. cost(jobs) says what the job will cost, by jobs of this model that are done.
/** @template {keyof Core.Jobs} K @param {App} app @param {Task<K>} choices */
export function task(
  app,
  { label, kind, only = "", doc, options, show, into, fold = false, result = true, cost = lastTime(kind), most = 0 },
) {
  const bar = el("progress", { hidden: true, "aria-label": `progress: ${label}` }),
    status = el("span", { class: "status", role: "status" });
  const stop = el("button", { type: "button", hidden: true,
    title: "Stop this job. What it has done so far stays where the command can go on from it.", onclick: cancel }, "Cancel");
  const button = el("button", { type: "button", class: "main", title: doc || "", onclick: run }, label), line = el("div", { class: "ran" });
  const old = el("p", { class: "warn" }, "The plan has changed since: this is of the plan before.");
  const price = el("span", { class: "hint" });
  const node = el("div", { class: "task", "data-kind": kind }, button, " ", price, " ", bar, " ", stop, " ", status, line);
  const job = watch(app, kind, only, node, (state, news) => {
    const now = said(state);
    button.disabled = now.working;
    bar.hidden = stop.hidden = !now.going;
    price.hidden = now.working || Boolean(now.text);
    if (news && news.state === "done") priced();
    if (now.max) {
      bar.max = now.max;
      bar.value = now.done;
    } else bar.removeAttribute("value");
    message(status, now.text, now.bad);
    old.hidden = !now.old;
    if (news && state.job === news) line.replaceChildren(commandLine(news.command), ...warningList(news.warnings, most));
    if (news && news.state === "done" && !state.mine) latest(); // another tab or the demo started it
  });

  // The form above folds into a button once there is a result, which then stands where the hand is.
  const change = el("button", { type: "button", hidden: true, title: "Show the options again", onclick: () => folded(false) },
    "Change the options");
  if (fold) button.after(" ", change);
  function folded(on) {
    const part = node.closest(".part");
    if (!fold || !part) return;
    part.classList.toggle("folded", on);
    change.hidden = !on;
    if (on) { for (const d of part.querySelectorAll("details.datafold")) d.open = false; }
  }

  function draw(r) {
    show(r);
    folded(true);
    if (into) into.prepend(old);
  }

  async function run() {
    job.to({ type: "ask" });
    try {
      const r = await app.run(kind, options ? options() : {});
      job.to({ type: "result" });
      draw(r);
    } catch (problem) {
      job.to({ type: "fault", problem, drawn: Boolean(problem.result) });
      if (problem.result) draw(problem.result);
    }
    if (line.getBoundingClientRect().bottom > 0.6 * innerHeight) node.scrollIntoView({ block: "start" }); // what came of it is below
  }

  function cancel() {
    app.client.call("cancel", { job: job.state().job.id }).catch((problem) => message(status, problemText(problem), true));
  }

  async function priced() {
    const { jobs } = await app.client.call("jobs", {}).catch(() => ({ jobs: [] }));
    price.textContent = cost(jobs.filter((j) => j.state === "done" && j.model === app.state.model).reverse());
  }

  async function latest() {
    const found = result && await newest(app, kind, only);
    if (!found || said(job.state()).working) return;
    line.replaceChildren(commandLine(found.job.command), ...warningList(found.job.warnings, most));
    job.to({ type: "found", job: found.job });
    draw(found.result);
  }

  job.heard(app.state.job);
  latest();
  priced();
  return node;
}

// slow is from how many seconds it is said how long a job takes.
const slow = 3;

// lastTime says how long a job of a kind took last; list are those that are done, the newest first.
/** @param {string} kind */
export const lastTime = (kind) => /** @param {Core.Job[]} list */ (list) => {
  const last = list.find((j) => j.kind === kind);
  return last && last.seconds >= slow ? `took ${duration(last.seconds)} the last time` : "";
};

/**
 * jobButton is a button that runs a job and no more: its result is what the page shows anyhow, and the foot says how it goes.
 * @template {keyof Core.Jobs} K
 * @param {App} app @param {{ label: string; kind: K; options?: Core.Jobs[K]["options"]; title?: string }} choices
 */
export function jobButton(app, { label, kind, options = {}, title }) {
  const button = el("button", { type: "button", class: "primary", title, onclick: () => {
    job.to({ type: "ask" });
    app.run(kind, options).then(() => job.to({ type: "result" }), (problem) => job.to({ type: "fault", problem, drawn: false }));
  } }, label);
  const job = watch(app, kind, "", button, (state) => {
    button.disabled = said(state).working;
  });
  job.heard(app.state.job);
  return button;
}

// newest is the last job of a kind that has a result, {job, result}, or null.
/** @param {App} app */
async function newest(app, kind, only) {
  try {
    const { jobs } = await app.client.call("jobs", {});
    const done = jobs.filter((j) =>
      // results of another model say nothing here
      j.kind === kind && (kind === "open" || j.model === app.state.model) && j.command.includes(only)
      && (j.state === "done" || j.state === "failed")
    );
    const answer = done.length ? await app.client.call("result", { job: done[done.length - 1].id }) : null;
    return answer && answer.result ? answer : null;
  } catch {
    return null; // a result that is gone is not worth a message: the button makes a new one
  }
}
