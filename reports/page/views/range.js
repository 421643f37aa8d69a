// The range of one tensor: its histogram with handles to drag, what clipping and rounding come to while one drags, and what every observer
// would choose. All of it is computed from the statistics beside the plan, without data.
import { drawHistogram } from "../histogram.js";
import { commandLine, el, replace } from "../dom.js";
import { decibels, exact, known, number, small } from "../format.js";

// rangeTool draws into host for the slot "node:in0" of an operator.
export function rangeTool(host, app, node, at) {
  const slot = `${node}:${at}`;
  const picture = el("div", { class: "tensor" }), tried = el("div", { class: "tried", role: "status" }), choices = el("div");
  let tensor = null, drawing = null, wanted = null, busy = false, last = null, gone = false;
  replace(host, el("p", { class: "soft" }, "Reading the statistics …"));
  load();
  return { close() { gone = true; } };

  async function load() {
    try {
      tensor = await app.client.call("tensor", { slot });
    } catch (problem) {
      if (!gone) replace(host, el("p", { class: "soft" }, problem.message));
      return;
    }
    if (gone) return;
    replace(host, picture, tried, choices);
    drawing = drawHistogram(picture, tensor, { grid: tensor.grid, onDrag: (lo, hi) => ask({ lo, hi }), onPick: (o) => ask({ observer: o.method || o.name }), height: 190 });
    replace(tried, el("p", { class: "soft" }, "Drag a handle, or focus it and use the arrow keys (Shift: larger steps). Nothing changes until Apply."));
    drawObservers();
  }

  // ask says what a range would do. While an answer is under way only the newest question waits: dragging is never behind.
  async function ask(question) {
    wanted = question;
    if (busy) return;
    busy = true;
    while (wanted && !gone) {
      const now = wanted;
      wanted = null;
      try {
        const begun = performance.now(), r = await app.client.call("whatif", { slot, ...now });
        last = { question: now, answer: r };
        if (!gone) show(r, now);
        performance.measure("qwb-whatif", { start: begun, end: performance.now() });
      } catch (problem) {
        if (!gone) replace(tried, el("p", { class: "bad" }, problem.message));
      }
    }
    busy = false;
  }

  function show(r, question) {
    if (question.observer || question.scheme) drawing.setRange(r.lo, r.hi);
    if (drawing.setGrid && r.grid) drawing.setGrid(r.grid);
    const was = r.before || tensor;
    const line = (label, doc, f, key) => el("tr", null, el("th", { scope: "row", title: doc }, label), [was, r].map((x) => el("td", { title: known(x[key]) && !Array.isArray(x[key]) ? exact(x[key]) : null }, f(x))));
    const one = (v) => (Array.isArray(v) ? (v.length === 1 ? v[0] : null) : v);
    replace(tried,
      el("table", { class: "beforeafter" }, el("caption", { class: "unseen" }, "This tensor before and after"),
        el("thead", null, el("tr", null, el("td"), el("th", { scope: "col" }, "in the plan"), el("th", { scope: "col" }, "tried"))),
        el("tbody", null,
          line("range", "The smallest and the largest value that can be represented", (x) => `${number(x.lo)} to ${number(x.hi)}`, "lo"),
          line("scale", "Distance between two levels", (x) => number(one(x.scale)), "scale"),
          line("zero point", "The integer that stands for 0", (x) => String(one(x.zero_point)), "zero_point"),
          line("clip", "Part of the error from values outside of the range, as NSR of this tensor", (x) => small(x.clip), "clip"),
          line("round", "Part of the error from rounding to the grid, as NSR of this tensor", (x) => small(x.round), "round"),
          line("NSR", "Noise-to-signal ratio of this tensor: clip and round together", (x) => el("b", null, small(x.nsr)), "nsr"),
          line("SQNR", "The same as a signal-to-noise ratio in decibels; larger is better", (x) => decibels(x.sqnr_db), "sqnr_db"),
          line("levels used", "How many of the levels some value falls on", (x) => (known(x.levels_used) ? String(x.levels_used) : "–"), "levels_used"))),
      el("p", { class: "actions" },
        el("button", { type: "button", class: "primary", title: "Put this range into the plan. Undo takes it back.", onclick: apply }, "Apply"),
        el("button", { type: "button", title: "Back to the range of the plan", onclick: load }, "Reset")),
      el("p", { class: "soft" }, "NSR of this tensor alone, from the statistics. What it does to the outputs is measured after Apply."),
      r.command && commandLine(r.command));
  }

  async function apply(e) {
    e.target.disabled = true;
    const { question, answer } = last, one = (v) => (Array.isArray(v) ? v.join(";") : v);
    const properties = answer.properties || (question.observer ? [`observer=${question.observer}`] : [`scale=${one(answer.scale)}`, `zero_point=${one(answer.zero_point)}`]);
    await app.change("set", { nodes: [node], at, properties }).catch(() => { e.target.disabled = false; });
  }

  function drawObservers() {
    const list = (tensor.observers || []).filter((o) => known(o.nsr));
    if (list.length === 0) return;
    const best = Math.min(...list.map((o) => o.nsr));
    replace(choices, el("table", { class: "observers" },
      el("caption", null, "What every observer would choose"),
      el("thead", null, el("tr", null, [["observer", "The method that chooses the range"], ["range", ""], ["clip", "Error from values outside of the range"], ["round", "Error from rounding"], ["NSR", "Both together, of this tensor"], ["", ""]].map(([label, doc]) => el("th", { scope: "col", title: doc }, label)))),
      el("tbody", null, list.map((o) => el("tr", { class: o.used ? "used" : null }, el("th", { scope: "row", title: o.doc }, o.name, o.used && " (in use)"), el("td", null, `${number(o.lo)} to ${number(o.hi)}`),
        el("td", { title: exact(o.clip) }, small(o.clip)), el("td", { title: exact(o.round) }, small(o.round)), el("td", { title: exact(o.nsr) }, o.nsr === best ? el("b", null, small(o.nsr)) : small(o.nsr)),
        el("td", null, el("button", { type: "button", title: `Show what ${o.name} does to this tensor`, onclick: () => ask({ observer: o.name }) }, "Try")))))));
  }
}
