// What is wrong with the plan and what helps: a card for each cause, with its figures, the command that cures it, and buttons that try and
// do it.
import { adviceCard, causeText } from "../advice_cards.js";
import { commandLine, el, replace } from "../dom.js";
import { bareSQNR, known, ofNoise, sqnr } from "../format.js";
import { drawSlices, headlineList, slicesOf } from "../judged.js";
import { effectOf } from "./decide.js";
import { grid } from "./parts.js";
import { jobButton } from "./task.js";

export const adviceView = {
  key: "advice",
  label: "Advice",
  doc: "What makes the error, and which command cures it, with the effect predicted and measured",
  /** @param {HTMLElement} host @param {App} app */
  draw(host, app) {
    const list = el("ol", { class: "advice" }), judged = el("div");
    host.append(judged, list);

    let shown = "";
    function update() {
      const report = app.view && app.view.report, advice = report && report.advice;
      const now = JSON.stringify([
        app.state.revision,
        app.view && app.view.stale,
        report && [advice, report.headlines, report.together, slicesOf(report)],
      ]);
      if (now === shown) return; // what was tried in a card stays in it
      shown = now;
      const parts = report && slicesOf(report).length ? el("div") : null;
      replace(judged, report && headlineList(report), parts && el("h3", null, "Parts of the outputs"), parts);
      if (parts) drawSlices(parts, slicesOf(report));
      if (!advice) {
        replace(list,
          el("li", null, el("p", null, "Advice comes with the measurement of every operator."), measure("Measure", {}),
            commandLine(`qwb analyze ${app.state.plan}`)));
      } else if (advice.length === 0) {
        replace(list,
          el("li", null, el("p", null, "Nothing was found that lowers the error by 10 % or more."),
            el("p", { class: "soft" },
              "Causes are looked for where the NSR of the outputs is 0.01 or more; what is wrong with the data is said in any case.")));
      } else {
        const untried = advice.filter((a) => a.command && !a.trial).length > 1;
        replace(list, app.view.stale
          && el("li", null, el("p", null, "This advice is about the plan before the last change.")), untried
          && el("li", null, measure("Try all of them", { try: true }),
            el("p", { class: "soft" },
              "Each command is run on a copy of the plan in memory, on samples that calibration has not seen where there are any. The plan stays as it is.")),
          tried(app, advice), advice.map((a) =>
            adviceCard(a, app.selection, (line) => cureButtons(app, line, a.trial || line !== a.command ? "" : a.cause))
          ));
      }
    }

    const measure = (label, options) => jobButton(app, { label, kind: "analyze", options });

    update();
    return { update };
  },
};

// tried is one line for each cure that was measured, the best first, where several were: cards are too high to be seen side by side.
/** @param {App} app @param {Core.Advice[]} advice */
function tried(app, advice) {
  const rows = advice.filter((a) => a.trial && known(a.trial.measured)).sort((a, b) => a.trial.measured.nsr - b.trial.measured.nsr);
  return rows.length > 1 && el("li", null, grid({ caption: "Tried, the best first", rows, columns: [
    { label: "cure of", cell: (a) => causeText(a.cause), title: (a) => a.command },
    { label: "SQNR", number: true, cell: (a) => `${bareSQNR(a.trial.before.nsr)[0]} → ${sqnr(a.trial.measured.nsr)}`, title: (a) =>
      `${ofNoise(a.trial.before.nsr)} → ${ofNoise(a.trial.measured.nsr, a.trial.measured.nsr_error)}` },
    { label: "", cell: (a) => cureButtons(app, a.command, "", false) },
  ] }));
}

// triedCauses are the causes whose commands have been tried: a trial of another one is to keep what was found of them.
const triedCauses = (app) => app.view.report.advice.filter((a) => a.trial).map((a) => a.cause);

let used = { line: "", before: "", after: "" }; // the last cure that was put into the plan from a card, and revisions of that

// cureButtons are what a card has for a command: try it, at once from the figures that are there, or by running it on a copy; use it; and
// take it back. cause, where given, is what is tried by running; untried: whether it is still to be tried.
/** @param {App} app @param {string} line @param {string} [cause] @param {boolean} [untried] */
export function cureButtons(app, line, cause = "", untried = true) {
  const doIt = planned(line), asked = untried && setting(line), effect = el("div", { class: "effect", role: "status" });
  if (!doIt) return null;
  const button = (label, title, kind, act) => {
    const b = el("button", { type: "button", class: kind, title, onclick: async () => {
      b.disabled = true;
      await act().catch((problem) => replace(effect, el("p", { class: "bad" }, problem.message)));
      b.disabled = false;
    } }, label);
    return b;
  };
  const now = app.state.revision;
  if (used.line === line && !used.after && now !== used.before) used.after = now;
  if (used.line === line && used.after === now) {
    return el("p", { class: "actions" }, el("b", null, untried ? "In the plan." : "in use"), button("Undo", "Take it back", "", () =>
      app.change("undo")));
  }
  return [
    el("p", { class: "actions" }, asked
      && button("Try", "What it would do, from the figures that are there: at once, without running the model", "",
        async () => replace(effect, effectOf(await app.client.call("estimate", asked)))), !asked && cause
      && button("Try", "Run this command on a copy of the plan in memory and measure it. The plan stays as it is.", "",
        async () => app.run("analyze", { try: true, cause: [...triedCauses(app), cause].join(",") })),
      button("Use", "Run this command on the plan. Undo takes it back.", "primary", async () => {
        used = { line, before: now, after: "" }; // the cards are drawn anew once the plan is another one
        await doIt(app).catch((problem) => {
          used.line = "";
          throw problem;
        });
      })),
    effect,
  ];
}

// planned is what does a command line of qwb from here; null where the page has no button for it.
function planned(line) {
  const asked = setting(line), said = words(line);
  if (asked) return (app) => app.change("set", asked);
  if (said[1] !== "tune" && said[1] !== "calibrate") return null;
  return (app) =>
    app.run(said[1], optionsOf(said, app.state.options[said[1]])).then(() =>
      app.say(`${said[1] === "tune" ? "Tuned" : "Calibrated"}; Undo takes it back.`)
    );
}

// optionsOf are the options of a job in the words of a command line; known are those that the job has.
function optionsOf(said, known) {
  const options = {};
  for (let i = 2; i < said.length; i++) {
    if (!said[i].startsWith("--")) continue;
    const name = said[i].slice(2).replace(/-/g, "_"), { type } = known.find((o) => o.name === name) || {};
    if (type === "flag") options[name] = true;
    else if (type === "list" || type === "commas") {
      options[name] = [...(options[name] || []), ...(type === "list" ? [said[++i]] : said[++i].split(","))];
    } else options[name] = type === "count" || type === "number" ? Number(said[++i]) : said[++i];
  }
  return options;
}

// setting is what a `qwb set` line decides, null of other lines.
function setting(line) {
  const said = words(line);
  return said[1] === "set" ? { select: said[3], properties: said.slice(4) } : null;
}

// words are those that a shell reads in a line; what needs it stands in single quotes.
export function words(line) {
  const list = [];
  for (const m of line.matchAll(/(?:'[^']*'|\\.|[^\s'\\])+/g)) {
    list.push(m[0].replace(/'([^']*)'|\\(.)/g, (_, quoted, escaped) => (quoted === undefined ? escaped : quoted)));
  }
  return list;
}
