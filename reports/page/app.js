// The live page: one frame around all views, what the views share (app), and how that is kept in step with the plan. It computes no figure.
import { rowsOf } from "./data.js";
import { el } from "./dom.js";
import { plural } from "./format.js";
import { baseName, keep, kept } from "./frame.js";
import { repeated } from "./repeated.js";
import { newSelection } from "./selection.js";
import { drawTopBar } from "./topbar.js";
import { compareView } from "./views/compare.js";
import { droppedView } from "./views/dropped.js";
import { exportView } from "./views/export.js";
import { jobsBar } from "./views/jobs.js";
import { languageView } from "./views/language.js";
import { networkView } from "./views/network.js";
import { openView } from "./views/open.js";
import { samplesView } from "./views/samples.js";
import { sweepView } from "./views/sweep.js";
import { tensorsView } from "./views/tensors.js";
import { tuneView } from "./views/tune.js";
import { verifyView } from "./views/verify.js";

// All views, in the order in which one works. A view is {key, label, doc, draw(host, app)}; usable(app), where it has one, says whether its
// tab is there. draw may return {update(), close()}: update is called after the plan changed, in place of drawing the view anew.
export const views = [
  openView,
  networkView,
  { ...tensorsView, usable: (app) => Boolean(app.view && app.view.report) },
  samplesView,
  sweepView,
  tuneView,
  compareView,
  verifyView,
  exportView,
  languageView,
  droppedView,
];

const over = (job) => ["done", "failed", "cancelled"].includes(job.state);

// startApp draws the page into host and resolves when it can be used.
export async function startApp(client, host) {
  const waiting = new Map(); // all who wait for the end of a job, by its id
  const ended = new Map(); // jobs that are over, by id
  const drawn = new Map(); // views that have been drawn, by key
  const listeners = new Set();
  let active = "", brief = true, fading = 0, changing = 0;

  const app = {
    client,
    selection: newSelection({ hash: true }),
    state: null,
    view: null,
    rows: [],
    report: null,

    // say shows a message; bad: that something did not work. A good one goes by itself.
    say(text, bad = false) {
      clearTimeout(fading);
      if (!bad) {
        fading = setTimeout(() => {
          messageBox.hidden = true;
        }, 8000);
      }
      message.textContent = text;
      messageBox.classList.toggle("bad", bad);
      messageBox.hidden = !text;
    },

    // unsay takes a message away, if it is still the one that is shown.
    unsay(text) {
      if (message.textContent === text) app.say("");
    },

    // command notes the command line that does what was just done.
    command(line) {
      if (line) bar.command(line);
    },

    // run starts a job and resolves with its result once the page shows what it changed. It fails with {kind, message, node, result}: kind
    // "canceled" where somebody stopped it; result where there is one although a check did not hold.
    async run(kind, options = {}) {
      const { job } = await guarded("start", { kind, options, after: bar.writer() });
      bar.update(job);
      const last = ended.get(job.id) || await new Promise((resolve) => waiting.set(job.id, [...(waiting.get(job.id) || []), resolve]));
      await app.reload.running(); // a short job may be over before its start was answered: the page is to show it first
      const { result } = await client.call("result", { job: job.id });
      if (last.state === "done" && !last.error) return result;
      const why = last.error || { kind: "canceled", message: "stopped" };
      throw Object.assign(new Error(why.message), why, { result });
    },

    // change calls a method that changes the plan, under the revision that is on the screen. Whoever calls it need not say what went wrong.
    async change(method, params = {}) {
      busy(1);
      let r;
      try {
        r = await guarded(method, params);
        app.command(r.command);
        await app.reload();
      } catch (problem) {
        if (problem.status !== 409) app.say(problem.message, true);
        throw problem;
      } finally {
        busy(-1);
      }
      app.say(
        [
          r.changed && r.changed.length
            ? `${r.changed.length === 1 ? r.changed[0] : plural(r.changed.length, "operator")} changed; Undo takes it back.` : "",
          ...(r.warnings || []).map((w) => w.text),
        ].join(" ").trim()
      );
      return r;
    },

    // reload reads state and view again and brings what is on the screen up to date. Calls meanwhile are one more call.
    reload: repeated(() => read()),

    // go shows a view, by its key.
    go(key) {
      show(key);
    },

    // present shows a report that was dropped, null for none any more.
    present(report) {
      app.report = report;
      frame();
      show(droppedView.key);
    },

    // on calls fn after each reload; the function that it returns ends that.
    on(fn) {
      listeners.add(fn);
      return () => listeners.delete(fn);
    },
  };

  const message = el("p", { role: "status", "aria-live": "polite" });
  const messageBox = el("div", { class: "message", hidden: true }, message,
    el("button", { type: "button", class: "plain", "aria-label": "Close this message", onclick: () => app.say("") }, "×"));
  const offline = el("p", { class: "offline", role: "alert", hidden: true },
    "qwb serve does not answer. The plan is on disk and nothing is lost: start it again, and what was interrupted goes on where it was.");
  const bar = jobsBar(app), top = el("header", { class: "top" }), tabs = el("nav", { class: "tabs", "aria-label": "Views" });
  const main = el("main", { id: "main", tabindex: "-1" });
  const buttons = new Map(views.map((v) => [
    v.key,
    el("button", { type: "button", title: v.doc, onclick: () => {
      if (app.state) show(v.key);
    } }, v.label),
  ]));
  tabs.append(...buttons.values());
  host.replaceChildren(el("a", { class: "skip", href: "#main", onclick: (e) => {
    e.preventDefault();
    main.focus();
  } }, "Skip to the view"), top, tabs, offline, messageBox, main, bar.node);

  // busy counts changes that are under way: undo and redo wait for them, or the second of two clicks would find another plan.
  function busy(step) {
    changing += step;
    drawTopBar(top, app, changing > 0);
  }

  // guarded calls what needs the revision that is on the screen. Where the plan is another one by now, it is read again and nothing is
  // done.
  async function guarded(method, params) {
    try {
      return await client.call(method, params, { revision: app.state.revision });
    } catch (problem) {
      if (problem.status === 409) {
        await app.reload();
        app.say(
          "The plan was changed in another tab or by a command. It has been read again and nothing was overwritten: do this once more if you still want it.",
          true
        );
      }
      throw problem;
    }
  }

  const usable = (v) => !v.usable || v.usable(app);

  async function read() {
    let fault = null;
    const [state, view] = await Promise.all([
      client.call("state", {}),
      client.call("view", brief ? { brief } : {}).catch((problem) => {
        fault = problem;
      }),
    ]);
    app.state = state;
    app.view = view || null;
    if (fault && state.exists) app.say(fault.message, true);
    app.rows = app.view ? rowsOf(app.view) : [];
    brief = false; // the network is drawn without what takes long, once
    frame();
    for (const fn of [...listeners]) fn();
  }

  // frame brings the top bar, the tabs and the view that is shown up to date; the other views follow when they are.
  function frame() {
    document.title = app.state.model ? `${baseName(app.state.model)} · qwb` : "qwb";
    drawTopBar(top, app, changing > 0);
    for (const v of views) buttons.get(v.key).hidden = !usable(v);
    for (const [key, d] of drawn) {
      if (key === active) refresh(d);
      else d.stale = true;
    }
  }

  function refresh(d) {
    d.stale = false;
    if (d.handle && d.handle.update) d.handle.update();
    else redraw(d);
  }

  function redraw(d) {
    if (d.handle && d.handle.close) d.handle.close();
    d.handle = null;
    d.host.replaceChildren();
    try {
      d.handle = d.view.draw(d.host, app) || null;
    } catch (problem) { // a view that fails takes no other with it
      d.host.append(el("p", { class: "bad" }, `This view cannot be shown: ${problem.message}`));
      console.error(problem);
    }
  }

  function show(key) {
    const v = views.find((x) => x.key === key && usable(x)) || views.find(usable);
    active = v.key;
    for (const [k, b] of buttons) {
      if (k === active) b.setAttribute("aria-current", "page");
      else b.removeAttribute("aria-current");
    }
    let d = drawn.get(active);
    const fresh = !d;
    if (fresh) {
      d = { view: v, host: el("section", { class: `view view-${active}`, "aria-label": v.label }), handle: null, stale: false };
      drawn.set(active, d);
      main.append(d.host);
    }
    for (const [k, x] of drawn) x.host.hidden = k !== active;
    if (fresh) redraw(d);
    else if (d.stale) refresh(d);
    keep("qwb-view", active);
  }

  // finish lets go whoever waits for a job, once the page shows what the job did.
  async function finish(job) {
    if (ended.has(job.id)) return;
    ended.set(job.id, job);
    if (job.state === "done") await app.reload().catch((problem) => app.say(problem.message, true));
    const resolves = waiting.get(job.id) || [];
    waiting.delete(job.id);
    for (const resolve of resolves) resolve(job);
  }
  const heard = (job) => {
    if (app.state && job.state === "running") app.state.job = job;
    else if (app.state && app.state.job && app.state.job.id === job.id) app.state.job = null;
    bar.update(job);
    if (over(job)) finish(job);
  };
  client.on("job", (e) => heard(e.job));
  client.on("plan", (e) => {
    if (!changing && e.command && !bar.knows(e.command)) app.command(e.command); // of another tab
    if (app.state && e.revision !== app.state.revision) app.reload().catch((problem) => app.say(problem.message, true));
  });
  client.on("online", (now) => {
    offline.hidden = now;
    if (now) app.reload().then(missed).catch(() => {}); // what happened meanwhile
  });
  const missed = async () => {
    const { jobs } = await client.call("jobs", {});
    for (const job of jobs) heard(job);
  };

  document.addEventListener("keydown", (e) => {
    if (!(e.ctrlKey || e.metaKey) || e.target instanceof Element && e.target.closest("input, textarea, select, dialog")) return;
    const what = e.key === "z" ? "undo" : e.key === "y" || e.key === "Z" ? "redo" : "";
    if (!what || changing || !app.state || !app.state[what]) return;
    e.preventDefault();
    app.change(what).catch(() => {});
  });
  tabs.addEventListener("keydown", (e) => { // arrows walk along the tabs
    const list = [...buttons.values()].filter((b) => !b.hidden), at = list.indexOf(document.activeElement),
      step = { ArrowRight: 1, ArrowLeft: -1 }[e.key];
    if (!step || at < 0) return;
    e.preventDefault();
    list[(at + step + list.length) % list.length].focus();
  });

  await app.reload();
  show(app.view ? kept("qwb-view") || "network" : "open");
  const { jobs } = await client.call("jobs", {});
  for (const job of jobs) {
    if (over(job)) ended.set(job.id, job); // before the page was opened: what it shows has them
    bar.update(job);
  }
  app.reload().catch((problem) => app.say(problem.message, true)); // what the first, brief view lacks
  return app;
}
