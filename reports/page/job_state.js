// How a job stands, as a view shows it: one value, what happens to it, and what is said of it. Nothing here touches the page.
import { duration, known, problemText } from "./format.js";

/** @type {JobState} */
export const idle = { at: "idle", job: null, mine: false, shown: null, problem: null, plan: "" };

const over = (job) => job.state !== "queued" && job.state !== "running";

// active says that there is something to wait for.
export const active = (state) => state.at === "asked" || state.at === "waiting" || state.at === "running";

/**
 * next is the state after something happened. ask: it was started here. job: a job was heard of. result: what was started has a result,
 * which is drawn now. found: the result of an earlier one is drawn. fault: what was started here has failed; drawn: with a result.
 * plan: this one is open, by what it is made of.
 * @param {JobState} state @param {JobEvent} event @returns {JobState}
 */
export function next(state, event) {
  switch (event.type) {
    case "ask":
      return active(state) ? state : { ...state, at: "asked", job: null, mine: true, problem: null };
    case "job":
      return heard(state, event.job);
    case "result":
      return { ...state, at: "done", mine: false, shown: state.job, problem: state.job && state.job.error };
    case "found":
      return active(state) ? state : { ...state, job: event.job, shown: event.job };
    case "fault":
      return { ...state, at: event.problem.kind === "canceled" ? "stopped" : "refused", mine: false, problem: event.problem,
        shown: event.drawn ? state.job : state.shown };
    case "plan":
      return { ...state, plan: event.of };
  }
}

// heard is the state after news of a job: of two at once the first counts, and what was started here ends when whoever did says so.
function heard(state, job) {
  if (active(state) && state.job && !over(state.job) && state.job.id !== job.id) return state;
  if (job.state === "queued") return { ...state, at: "waiting", job };
  if (job.state === "running") return { ...state, at: "running", job };
  if (state.mine || !active(state)) return { ...state, job };
  return { ...state, at: job.state === "done" ? "done" : job.state === "cancelled" ? "stopped" : "refused", job, problem: job.error };
}

/**
 * said is what a state looks like. working: it cannot be started again. going: it can be stopped; so much is done of max, 0 where nobody
 * knows. text, bad where something did not work. old: the result that is drawn is of another plan.
 * @param {JobState} state
 */
export function said(state) {
  const { at, job, shown, problem } = state;
  const going = at === "waiting" || at === "running", max = going && job.total || 0;
  return { working: active(state), going, max, done: max ? job.done : 0, text: textOf(state),
    bad: at === "refused" || at === "done" && Boolean(problem), old: known(shown) && (shown.of || "") !== state.plan };
}

// progressText is how far a job is: the stage, what is done of it, and how long the whole takes.
/** @param {Core.Job} job */
export function progressText(job) {
  const stage = job.stages > 1 ? `stage ${job.stage} of ${job.stages}, ` : "", what = job.what || "running",
    share = /^(.*) \((.*), in percent\)$/.exec(what);
  const done = share ? `${share[1]}, ${share[2]}: ${job.done} %` : job.total ? `${what} ${job.done} of ${job.total}` : what;
  return `${stage}${done}${job.eta ? `, about ${duration(job.eta)} left` : ""}`;
}

/** @param {JobState} state */
function textOf({ at, job, shown, problem }) {
  const earlier = shown && shown !== job ? "; below is the result of an earlier run" : "";
  switch (at) {
    case "waiting":
      return "waits for another job";
    case "running":
      return progressText(job);
    case "done":
      return problem ? problem.message : "done";
    case "stopped":
      return `stopped${earlier}`;
    case "refused": // what a check found is the result that is shown
      return shown && shown === job ? "a check did not hold" : `${problem ? problemText(problem) : "failed"}${earlier}`;
  }
  return "";
}
