// What runs, what waits and what is over, at the foot of the page, with the command lines that do what was done here.
import { commandLine, el, replace } from "../dom.js";
import { duration, plural } from "../format.js";
import { progressText } from "../job_state.js";

// What jobs are called whose kind is no word for people.
const names = { flips: "Changed predictions", trial: "Preprocessing", dispatch: "Search", eval: "Accuracy", open: "Open",
  "language-generate": "Two texts", "language-eval": "Perplexity", "language-rank": "Ranking", "sample-layers": "Error by operator" };

const words = { queued: "waits", running: "runs", done: "done", failed: "failed", cancelled: "stopped" };

// jobsBar makes the foot and the progress of what runs: {node, now, update(job), command(line)}; what is known of jobs: busy(), runs(kind),
// exported(of), of such a plan.
/** @param {App} app */
export function jobsBar(app) {
  const jobs = new Map(); // by id, the oldest first
  const lines = [], complaints = new Map(); // what was said of the last job that failed, by kind
  // What runs: its elements stay, so that a click on Stop meets the button that was aimed at.
  const kind = el("b"), meter = el("progress"), said = el("span"), waiting = el("span", { class: "soft" });
  let running = null;
  const stop = stopButton(() => running);
  const now = el("div", { class: "now" }, kind, " ", meter, " ", said, " ", stop, waiting);
  const list = el("ol", { class: "jobs" }), log = el("ol", { class: "log" });
  const last = el("code", { class: "last" });
  const copyAll = el("button", { type: "button", title: "Copy all command lines, one after another",
    onclick: () => navigator.clipboard && navigator.clipboard.writeText(lines.join("\n")) }, "Copy all");
  const details = el("details", { class: "past" },
    el("summary", { title: "All jobs, and the command line of everything that was done on this page" }, "Jobs and commands"),
    el("div", { class: "pastgrid" },
      el("section", { "aria-label": "Jobs" }, el("h3", null, "Jobs"),
        el("p", { class: "soft" }, "One runs at a time. One that is stopped or interrupted goes on where it was, where its command can."),
        list),
      el("section", { "aria-label": "Commands" }, el("h3", null, "Commands ", copyAll),
        el("p", { class: "soft" }, "Each of these does on the command line what was done here."), log)));
  const idle = el("span", { class: "now soft" }),
    node = el("footer", { class: "foot" }, el("div", { class: "footline" }, idle, last, details));
  draw();

  // drawNow shows how far the job is that runs.
  function drawNow() {
    const queued = [...jobs.values()].filter((j) => j.state === "queued").length;
    running = [...jobs.values()].find((j) => j.state === "running") || null;
    waiting.textContent = queued > 0 ? ` ${plural(queued, "job")} queued` : "";
    idle.textContent = running ? `${names[running.kind] || running.kind} runs, ${duration(Math.round(running.seconds))}.`
      : queued ? waiting.textContent : "Nothing runs.";
    kind.hidden = meter.hidden = stop.hidden = !running;
    if (!running) {
      stop.disabled = false;
      said.textContent = "";
      return;
    }
    const { done, total } = running, text = progressText(running);
    kind.textContent = text.includes(running.kind) ? "" : names[running.kind] || running.kind;
    meter.setAttribute("aria-label", `Progress of ${running.kind}`);
    if (total > 0) Object.assign(meter, { max: total, value: done });
    else meter.removeAttribute("value");
    said.textContent = said.title = text;
  }

  // draw brings the lists up to date too: when a job begins or ends, and when there is a new command.
  function draw() {
    drawNow();
    const all = [...jobs.values()].reverse();
    replace(list, all.length === 0 && el("li", { class: "soft" }, "none yet"), all.map(pastLine));
    replace(log, lines.length === 0 && el("li", { class: "soft" }, "none yet"), lines.map((line) => el("li", null, commandLine(line))));
    copyAll.hidden = lines.length < 2;
    last.textContent = lines.length ? lines[lines.length - 1] : "";
    last.title = lines.length ? "The command line that does what was done last" : "";
  }

  function stopButton(which) {
    const button = el("button", { type: "button", title: "Stop this job. The plan stays as it was before the job.", onclick: () => {
      const job = which();
      if (!job) return;
      button.disabled = true;
      app.client.call("cancel", { job: job.id }).catch((problem) => app.say(problem.message, true));
    } }, "Stop");
    return button;
  }

  /** @param {Core.Job} job */
  function pastLine(job) {
    return el("li", { class: `job ${job.state}` }, el("b", null, job.kind),
      ` ${words[job.state] || job.state}${job.seconds ? `, ${duration(job.seconds)}` : ""} `,
      (job.state === "running" || job.state === "queued") && stopButton(() => job),
      job.error && job.state !== "cancelled" && el("p", { class: "bad" }, job.error.message),
      [...(job.notes || []), ...(job.warnings || []).map((w) => w.text || w)].map((text) => el("p", { class: "soft" }, text)),
      job.command && commandLine(job.command));
  }

  return {
    node,
    now,
    busy: () => [...jobs.values()].some((job) => job.state === "queued" || job.state === "running"),
    runs: (what) => [...jobs.values()].some((job) => job.kind === what && (job.state === "queued" || job.state === "running")),
    exported: (of) => [...jobs.values()].some((job) => job.kind === "export" && job.state === "done" && job.of === of),
    update(job) {
      const before = jobs.get(job.id);
      if (before && job.state === "queued") return; // the answer to its start, older than what events have said since
      jobs.set(job.id, job);
      if (job.state === "done" && before && before.state !== "done") {
        if (job.command) lines.push(job.command);
        if (complaints.has(job.kind)) app.unsay(complaints.get(job.kind)); // it works now
      }
      if (job.state === "failed" && before && before.state !== "failed") {
        complaints.set(job.kind,
          `${names[job.kind] || `${job.kind} failed`}: ${job.error ? job.error.message.replace(`${job.kind}: `, "") : ""}`);
        const buttons = [...document.querySelectorAll(`.task[data-kind="${job.kind}"]`)];
        if (!buttons.some((n) => n.checkVisibility())) { // those say so themselves
          app.say(complaints.get(job.kind), true);
        }
      }
      if (before && before.state === job.state) drawNow();
      else draw();
    },
    command(line) {
      lines.push(line);
      draw();
    },
    // writer is the id of the last job that may write the plan, of those that are not over: what is started now is to follow it.
    writer: () =>
      [...jobs.values()].filter((job) => job.changes && (job.state === "queued" || job.state === "running")).map((job) => job.id).pop()
      || "",
    // knows says whether the line is that of a job, which notes it when it is done.
    knows: (line) => [...jobs.values()].some((job) => job.command === line),
  };
}
