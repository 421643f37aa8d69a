import { active, idle, next, said } from "../job_state.js";
import { equal, test } from "./unit.js";

const job = (id, state, more = {}) => ({ id, state, kind: "tune", command: "qwb tune", what: "", done: 0, total: 0, eta: null, error: null,
  ...more });
/** @returns {any[]} */
const heard = (...jobs) => jobs.map((j) => ({ type: "job", job: j }));
const after = (...events) => events.reduce(next, idle);

test("a job that was started here waits, runs and is done when its result is drawn", () => {
  const steps = [
    { type: "ask" },
    ...heard(job("1", "queued"), job("1", "running", { what: "layers", done: 2, total: 8, eta: 3 }), job("1", "done", { of: "r" })),
    { type: "result" },
  ];
  const states = steps.map((_, i) => after(...steps.slice(0, i + 1)));
  equal(states.map((s) => s.at), ["asked", "waiting", "running", "running", "done"]);
  equal(states.map((s) => said(s).working), [true, true, true, true, false]);
  equal([0, 1, 2, 4].map((i) => said(states[i]).text), ["", "waits for another job", "layers 2 of 8, about 3.0 s left", "done"]);
  equal(said(after(heard(job("1", "running", { what: "tune (8 stages, in percent)", done: 40, total: 100 }))[0])).text,
    "tune, 8 stages: 40 %");
  equal([said(states[2]).max, said(states[2]).done, said(states[4]).going], [8, 2, false]);
  equal(states[4].shown.id, "1");
});

test("what another tab started shows its progress and ends with it", () => {
  const s = after(...heard(job("7", "running"), job("7", "done")));
  equal([s.at, s.mine, said(s).text, said(s).working], ["done", false, "done", false]);
  equal(after(...heard(job("7", "running"), job("7", "cancelled"))).at, "stopped");
  const failed = after(...heard(job("7", "running"), job("7", "failed", { error: { message: "no data", node: "conv" } })));
  equal([failed.at, said(failed).text, said(failed).bad], ["refused", "no data (operator conv)", true]);
});

test("of two jobs at once the first counts until it is over", () => {
  const s = after({ type: "ask" }, ...heard(job("1", "running"), job("2", "queued")));
  equal(s.job.id, "1");
  equal(next(next(s, heard(job("1", "done"))[0]), heard(job("2", "running"))[0]).job.id, "2");
});

test("a button that is pressed twice asks once", () => {
  const s = after({ type: "ask" }, ...heard(job("1", "running")));
  equal(next(s, { type: "ask" }) === s, true);
  equal(active(s), true);
});

test("a refusal says why, and that an earlier result is still there", () => {
  const s = after({ type: "found", job: job("1", "done") }, { type: "ask" }, { type: "fault", problem: { message: "choose a file" },
    drawn: false });
  equal([s.at, said(s).text, said(s).bad, s.shown.id], ["refused", "choose a file; below is the result of an earlier run", true, "1"]);
  equal(said(after({ type: "ask" }, { type: "fault", problem: { kind: "canceled" }, drawn: false })).text, "stopped");
});

test("a check that does not hold has its result all the same", () => {
  const s = after({ type: "ask" }, ...heard(job("1", "failed")), { type: "fault", problem: { message: "it differs" }, drawn: true });
  equal([s.shown.id, said(s).text, said(s).bad], ["1", "a check did not hold", true]);
});

test("a result is old once another plan is open, and not when that is undone", () => {
  const s = after({ type: "plan", of: "a" }, { type: "found", job: job("1", "done", { of: "a" }) });
  const changed = next(s, { type: "plan", of: "b" });
  equal([said(s).old, said(changed).old, said(next(changed, { type: "plan", of: "a" })).old], [false, true, false]);
  equal(said(after({ type: "plan", of: "b" })).old, false);
});

test("an earlier result that is found late does not hide what runs", () => {
  const s = after(...heard(job("2", "running")), { type: "found", job: job("1", "done") });
  equal([s.at, s.job.id], ["running", "2"]);
});
