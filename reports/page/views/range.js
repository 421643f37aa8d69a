// The range of one tensor: its histogram with handles to drag, what clipping and rounding come to while one drags, and what every observer
// would choose. All of it is computed from the statistics beside the plan, without data.
import { commandLine, el, replace } from "../dom.js";
import { barePart, decibels, exact, known, number, ofNoise, partSQNR, percent, small, sqnr } from "../format.js";
import { drawHistogram, observerMark } from "../histogram.js";

// rangeTool draws into host what there is to say about a slot, "node:in0".
/** @param {HTMLElement} host @param {App} app @param {string} slot */
export function rangeTool(host, app, slot) {
  const picture = el("div", { class: "tensor" }), tried = el("div", { class: "tried", role: "status" }), choices = el("div"),
    figures = el("div"); // the note at the handle has those that matter: the table of all stands last
  /** @type {Core.Tensor} */
  let tensor = null;
  let drawing = null, at = null, wanted = null, busy = false, gone = false;
  replace(host, el("p", { class: "soft" }, "Reading the statistics …"));
  load();
  return { close() {
    gone = true;
  } };

  async function load() {
    try {
      tensor = await app.client.call("tensor", { slot });
    } catch (problem) {
      if (!gone) replace(host, el("p", { class: "soft" }, problem.message));
      return;
    }
    if (gone) return;
    at = { lo: tensor.lo, hi: tensor.hi };
    replace(host, picture, tried, choices, figures);
    replace(figures);
    drawing = drawHistogram(picture, { ...tensor, grid: null }, { grid: gridOf(tensor), height: 150, keyed: false,
      ...(tensor.drag ? { onDrag: drag } : {}) });
    replace(tried,
      el("p", { class: "soft", title: tensor.drag ? "Shift makes larger steps. Nothing changes until Use." : null },
        tensor.drag ? "Drag a handle, or focus it and use the arrow keys."
          : `This range cannot be dragged${tensor.why ? `: ${tensor.why}` : ""}.`), tensor.root && tensor.root !== tensor.slot
      && el("p", { class: "soft" }, `Its scale is that of ${tensor.root}: what is decided here is decided there.`));
    drawObservers();
  }

  // drag takes a range from the handles. On a symmetric scheme both ends move: the farther one is the range.
  function drag(lo, hi) {
    if (/-sym-/.test(tensor.scheme)) {
      const end = Math.abs(lo - at.lo) > Math.abs(hi - at.hi) ? -lo : hi;
      [lo, hi] = [-Math.abs(end), Math.abs(end)];
      drawing.setRange(lo, hi);
    }
    at = { lo, hi };
    ask(at);
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
        if (!gone) show(r, now);
        performance.measure("qwb-whatif", { start: begun, end: performance.now() });
      } catch (problem) {
        if (!gone) replace(tried, el("p", { class: "bad" }, problem.message));
      }
    }
    busy = false;
  }

  /** @param {Core.Methods["whatif"]["result"]} r @param {Core.Methods["whatif"]["params"]} question */
  function show(r, question) {
    const { before, after } = r;
    if (!known(question.lo)) {
      at = { lo: after.lo, hi: after.hi };
      drawing.setRange(at.lo, at.hi);
    }
    drawing.setGrid(gridOf(after));
    drawing.setNote([
      `${decibels(after.sqnr_db)}, was ${decibels(before.sqnr_db)}`,
      `clip ${partSQNR(after.clip)}`,
      `round ${partSQNR(after.round)}`,
      `NSR ${small(after.nsr)}`,
    ]);
    /** @param {string} label @param {string} doc @param {keyof Core.Figures | ""} key @param {(e: Core.Figures) => any} f */
    const line = (label, doc, key, f, title = exact) =>
      el("tr", null, el("th", { scope: "row", title: doc }, label), [before, after].map((e) =>
        el("td", { title: key && known(e[key]) ? title(e[key]) : null }, f(e))
      ));
    replace(tried,
      el("p", { class: "actions" },
        el("button", { type: "button", class: "primary", title: "Put this range into the plan. Undo takes it back.",
          onclick: (e) => use(e, r.select, r.properties) }, "Use"),
        el("button", { type: "button", title: "Back to the range of the plan", onclick: load }, "Reset"),
        el("span", { class: "soft" }, "of this tensor alone")));
    replace(figures,
      el("table", { class: "beforeafter" }, el("caption", { class: "unseen" }, "This tensor in the plan, and as tried"),
        el("thead", null, el("tr", null, el("td"), el("th", { scope: "col" }, "in the plan"), el("th", { scope: "col" }, "tried"))),
        el("tbody", null,
          line("range", "The smallest and the largest value that can be represented", "", (e) => `${number(e.lo)} to ${number(e.hi)}`),
          line("scale", "Distance between two levels", "scale", (e) => number(e.scale)),
          line("zero point", "The integer that stands for 0", "zero_point", (e) => String(e.zero_point)),
          line("clip", "Part of the error from values outside of the range: the SQNR with it alone", "clip", (e) => partSQNR(e.clip),
            ofNoise),
          line("round", "Part of the error from rounding to the grid: the SQNR with it alone", "round", (e) => partSQNR(e.round), ofNoise),
          line("SQNR", "Signal-to-noise ratio of this tensor, clip and round together; larger is better", "nsr",
            (e) => el("b", null, sqnr(e.nsr)), ofNoise),
          line("levels used",
            "Share of the levels that some value falls on. With a symmetric scale, values that are never negative leave half of them unused",
            "levels_used", (e) => percent(e.levels_used)))), r.shared && r.shared.length > 0
      && el("p", { class: "soft" },
        `The same scale is used at ${r.shared.slice(0, 4).join(", ")}${
          r.shared.length > 4 ? ` and ${r.shared.length - 4} more` : ""
        }, which change with it.`), commandLine(r.command));
  }

  function use(e, select, properties) {
    e.target.disabled = true;
    app.change("set", { select, properties }).catch(() => {
      e.target.disabled = false;
    });
  }

  function drawObservers() {
    const list = (tensor.observers || []).filter((o) => known(o.nsr));
    if (list.length === 0) return;
    const best = Math.min(...list.map((o) => o.nsr));
    replace(choices,
      el("div", { class: "scroll" },
        el("table", { class: "observers" }, el("caption", null, "What every observer would choose"), el("thead", null, el("tr", null, [
          ["observer", "The method that chooses the range"],
          ["range", "Below it the parts of the error in decibels: from values outside of the range (clip), and from rounding (round)"],
          ["SQNR", "Signal-to-noise ratio of this tensor, from both together; larger is better"],
          ["", ""],
        ].map(([label, doc]) => el("th", { scope: "col", title: doc }, label)))),
          el("tbody", null,
            list.map((o) =>
              el("tr", { class: o.used ? "used" : null }, el("th", { scope: "row", title: app.state.observers.find((x) =>
                x.name === o.name
              )?.doc }, observerMark((tensor.observers || []).indexOf(o), o.used), " ", o.name, o.used && " ✓"),
                el("td", { title: `clip: ${ofNoise(o.clip)}; round: ${ofNoise(o.round)}` }, `${number(o.lo)} to ${number(o.hi)}`,
                  el("small", null, `clip ${barePart(o.clip)}, round ${barePart(o.round)}`)),
                el("td", { title: ofNoise(o.nsr) }, o.nsr === best ? el("b", null, sqnr(o.nsr)) : sqnr(o.nsr)),
                el("td", { class: "actions" }, tensor.drag && !o.used && [
                  el("button", { type: "button", title: `Show above what ${o.name} does to this tensor`, onclick: () => {
                    ask({ observer: o.name });
                    picture.scrollIntoView({ block: "nearest" });
                  } }, "Try"),
                  el("button", { type: "button", title: `Put the range of ${o.name} into the plan: qwb set. Undo takes it back.`,
                    onclick: async (e) => {
                      e.target.disabled = true;
                      const r = await app.client.call("whatif", { slot, observer: o.name }).catch((problem) =>
                        replace(tried, el("p", { class: "bad" }, problem.message))
                      );
                      if (r && "select" in r) use(e, r.select, r.properties);
                    } }, "Use"),
                ]))
            )))));
  }
}

// gridOf is the grid of integers that a range has, as the histogram draws it; null for other formats.
/** @param {Partial<Core.Figures>} e */
function gridOf(e) {
  if (!(e.scale > 0) || !/^u?int/.test(e.scheme || "")) return null;
  const zero = e.zero_point || 0, code = (v) => Math.round(v / e.scale) + zero;
  return { scale: e.scale, zero, lowest: code(e.lo), highest: code(e.hi) };
}
