// What runs, what waits and what is over, at the foot of the page, with the command lines that do what was done here.
import { commandLine, el, replace } from "../dom.js";
import { duration } from "../format.js";

const words = { queued: "waits", running: "runs", done: "done", failed: "failed", cancelled: "stopped" };

// jobsBar makes the foot: {node, update(job), command(line)}.
export function jobsBar(app) {
  const jobs = new Map(); // by id, the oldest first
  const lines = [];
  const now = el("div", { class: "now", role: "status", "aria-live": "off" });
  const list = el("ol", { class: "jobs" }), log = el("ol", { class: "log" });
  const last = el("code", { class: "last" });
  const copyAll = el("button", { type: "button", title: "Copy all command lines, one after another", onclick: () => navigator.clipboard && navigator.clipboard.writeText(lines.join("\n")) }, "Copy all");
  const details = el("details", { class: "past" }, el("summary", { title: "All jobs, and the command line of everything that was done on this page" }, "Jobs and commands"),
    el("div", { class: "pastgrid" },
      el("section", { "aria-label": "Jobs" }, el("h3", null, "Jobs"), el("p", { class: "soft" }, "One runs at a time. One that is stopped or interrupted goes on where it was, where its command can."), list),
      el("section", { "aria-label": "Commands" }, el("h3", null, "Commands ", copyAll), el("p", { class: "soft" }, "Each of these does on the command line what was done here."), log)));
  const node = el("footer", { class: "foot" }, el("div", { class: "footline" }, now, last, details));
  draw();

  function draw() {
    const all = [...jobs.values()], running = all.find((j) => j.state === "running"), queued = all.filter((j) => j.state === "queued");
    replace(now, running ? runningLine(running) : el("span", { class: "soft" }, "Nothing runs."), queued.length > 0 && el("span", { class: "soft" }, ` ${queued.length} more wait${queued.length === 1 ? "s" : ""}.`));
    replace(list, all.length === 0 && el("li", { class: "soft" }, "none yet"), all.reverse().map(pastLine));
    replace(log, lines.length === 0 && el("li", { class: "soft" }, "none yet"), lines.map((line) => el("li", null, commandLine(line))));
    copyAll.hidden = lines.length < 2;
    last.textContent = lines.length ? lines[lines.length - 1] : "";
    last.title = lines.length ? "The command line that does what was done last" : "";
  }

  function runningLine(job) {
    const known = job.total > 0;
    const meter = el("progress", { "aria-label": `Progress of ${job.kind}`, max: known ? job.total : null, value: known ? job.done : undefined });
    const left = job.eta !== null && job.eta !== undefined ? `, about ${duration(Math.ceil(job.eta))} left` : "";
    return [el("b", null, job.kind), " ", meter, ` ${job.what || ""}${known ? ` ${job.done} of ${job.total}` : ""}, ${duration(Math.round(job.seconds))}${left} `, stopButton(job)];
  }

  function stopButton(job) {
    return el("button", { type: "button", title: "Stop this job. The plan stays as it was before the job.",
      onclick: (e) => { e.target.disabled = true; app.client.call("cancel", { job: job.id }).catch((problem) => app.say(problem.message, true)); } }, "Stop");
  }

  function pastLine(job) {
    return el("li", { class: `job ${job.state}` }, el("b", null, job.kind), ` ${words[job.state] || job.state}${job.seconds ? `, ${duration(job.seconds)}` : ""} `,
      (job.state === "running" || job.state === "queued") && stopButton(job),
      job.error && el("p", { class: "bad" }, job.error.message),
      [...(job.notes || []), ...(job.warnings || []).map((w) => w.text || w)].map((text) => el("p", { class: "soft" }, text)),
      job.command && commandLine(job.command));
  }

  return {
    node,
    update(job) {
      const before = jobs.get(job.id);
      jobs.set(job.id, job);
      if (job.state === "done" && before && before.state !== "done" && job.command) lines.push(job.command);
      if (job.state === "failed" && (!before || before.state !== "failed") && before) app.say(`${job.kind} failed: ${job.error ? job.error.message : ""}`, true);
      draw();
    },
    command(line) {
      lines.push(line);
      draw();
    },
  };
}
