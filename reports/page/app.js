// The live page: one frame around all views, what the views share (app), and how that is kept in step with the plan. It computes no figure.
import { onPlace, place, placed } from "./address.js";
import { follow } from "./context.js";
import { rowsOf } from "./data.js";
import { el } from "./dom.js";
import { plural } from "./format.js";
import { baseName, keep, kept } from "./frame.js";
import { repeated } from "./repeated.js";
import { newSelection } from "./selection.js";
import { makeSpine } from "./spine.js";
import { makeStateLine } from "./stateline.js";
import { drawTopBar } from "./topbar.js";
import { adviceView } from "./views/advice.js";
import { compareView } from "./views/compare.js";
import { dataView } from "./views/data.js";
import { droppedView } from "./views/dropped.js";
import { exportView } from "./views/export.js";
import { historyView } from "./views/history.js";
import { jobsBar } from "./views/jobs.js";
import { languageView } from "./views/language.js";
import { networkView } from "./views/network.js";
import { openView } from "./views/open.js";
import { runsView } from "./views/runs.js";
import { samplesView } from "./views/samples.js";
import { paretoView, sweepView } from "./views/sweep.js";
import { tensorsView } from "./views/tensors.js";
import { tuneView } from "./views/tune.js";
import { verifyView } from "./views/verify.js";

// pane is a view that is a pane of another one, beside the network.
const pane = (view) => ({ key: view.key, label: view.label, doc: view.doc, of: "network", usable: (app) => app.state.exists });

// All views; spine.js has their order. A view is {key, label, doc, draw(host, app)}; usable(app), where it has one, says whether its tab is
// there. draw may return {update(), close(), pane(key)}: update is called after the plan changed, in place of drawing the view anew.
/** @type {View[]} */
export const views = [
  openView,
  dataView,
  networkView,
  { ...tensorsView, usable: (app) => Boolean(app.view && app.view.report) },
  pane(adviceView),
  pane(historyView),
  samplesView,
  sweepView,
  paretoView,
  tuneView,
  compareView,
  verifyView,
  runsView,
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
  let active = "", side = "", brief = true, changing = 0;

  const app = {
    client,
    selection: newSelection({ hash: true }),
    state: null,
    view: null,
    rows: [],
    loss: null,
    report: null,

    // judged notes what a text showed of a checkpoint.
    judged(r) {
      app.loss = r;
      stand();
    },

    // say shows a message; bad: that something did not work. A good one goes by itself. unsay takes it away, if it is still there.
    say: (text, bad = false) => line.say(text, bad),
    unsay: (text) => line.unsay(text),

    // running says whether a job of a kind runs or waits.
    running: (kind) => bar.runs(kind),

    // exported says whether the plan as it is was written for its engine, as far as this page knows.
    exported: () => bar.exported(app.state && app.state.of),

    // command notes the command line that does what was just done.
    command(line) {
      if (line) bar.command(line);
    },

    // run starts a job and resolves with its result once the page shows what it changed. It fails with {kind, message, node, result}: kind
    // "canceled" where somebody stopped it; result where there is one although a check did not hold.
    async run(kind, options = {}) {
      const { job } = await guarded("start", { kind, options, after: bar.writer() });
      bar.update(job);
      stand(); // events of the job may come later than this answer
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
            ? `${r.changed.length === 1 ? r.changed[0] : plural(r.changed.length, "operator")} ${
              method === "undo" ? "as before." : "changed; Undo takes it back."
            }` : "",
          ...(r.warnings || []).map((w) => w.text),
        ].join(" ").trim()
      );
      return r;
    },

    // reload reads state and view again and brings what is on the screen up to date. Calls meanwhile are one more call.
    reload: repeated(() => read()),

    // go shows a view, by its key.
    go(key) {
      show(key, true);
    },

    // paned says which pane beside the network is shown.
    paned(key, first) {
      side = key;
      if (active === "network") settle(!first);
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

  const bar = jobsBar(app), top = el("header", { class: "top" }), main = el("main", { id: "main", tabindex: "-1" });
  const usable = (v) => !v.usable || v.usable(app);
  const here = () => active === "network" && views.some((v) => v.of && v.key === side) ? side : active; // a pane counts as a view
  const spine = makeSpine(app, { views, usable: (v) => app.state ? usable(v) : v !== droppedView && v !== languageView,
    current: () => here() || placed("view"), show: (key) => {
      if (active) return show(key, true);
      place({ view: key }); // what is asked for before the plan is known is what is shown once it is
      spine.update();
    } });
  const line = makeStateLine(app, { progress: bar.now, busy: bar.busy });
  host.replaceChildren(el("a", { class: "skip", href: "#main", onclick: (e) => {
    e.preventDefault();
    main.focus();
  } }, "Skip to the view"), top, el("div", { class: "spine" }, spine.node, line.node), main, bar.node);
  spine.update();

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

  async function read() {
    let fault = null;
    const [state, view] = await Promise.all([
      client.call("state", {}),
      client.call("view", brief ? { brief } : {}).catch((problem) => {
        fault = problem;
      }),
    ]);
    if (app.state && app.state.model !== state.model) app.loss = null;
    app.state = state;
    follow(state.model);
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
    stand();
    for (const [key, d] of drawn) {
      if (key === active) refresh(d);
      else d.stale = true;
    }
  }

  // stand brings up to date what says how things stand.
  function stand() {
    if (!app.state) return;
    drawTopBar(top, app, changing > 0);
    spine.update();
    line.update();
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

  // show shows a view; step: somebody went there, and Back takes that back.
  function show(key, step = false) {
    const asked = views.find((x) => x.key === key && usable(x)) || views.find(usable), v = asked.of
      ? views.find((x) => x.key === asked.of) : asked;
    active = v.key;
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
    if (d.handle && d.handle.pane) d.handle.pane(asked.of ? asked.key : key === "network" ? "inspector" : side);
    settle(step);
  }

  // settle notes what is shown, in the address and for the next visit.
  function settle(step) {
    keep("qwb-view", here());
    place({ view: here() }, step);
    spine.update();
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
    const before = bar.busy();
    bar.update(job);
    if (over(job) || bar.busy() !== before) stand();
    if (over(job)) finish(job);
  };
  client.on("job", (e) => heard(e.job));
  client.on("plan", (e) => {
    if (!changing && e.command && !bar.knows(e.command)) app.command(e.command); // of another tab
    if (app.state && e.revision !== app.state.revision) app.reload().catch((problem) => app.say(problem.message, true));
  });
  client.on("online", (now) => {
    line.online(now);
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
  onPlace(() => placed("view") && placed("view") !== here() && show(placed("view")));

  await app.reload();
  show(placed("view") || (app.view ? kept("qwb-view") || "network" : app.state.language ? "language" : "open"));
  const { jobs } = await client.call("jobs", {});
  for (const job of jobs) {
    if (over(job)) ended.set(job.id, job); // before the page was opened: what it shows has them
    bar.update(job);
  }
  stand();
  app.reload().catch((problem) => app.say(problem.message, true)); // what the first, brief view lacks
  return app;
}
