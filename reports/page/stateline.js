// One line that says how things stand: what runs, what went wrong, what is stale or not measured yet; and the one thing to do about it.
import { judging, remember } from "./context.js";
import { copied, el, replace } from "./dom.js";
import { plural } from "./format.js";
import { shifted } from "./verdict.js";

// makeStateLine is {node, update(), say(text, bad), unsay(text), online(now)}. progress is what the line shows of the job that runs.
/** @param {App} app @param {{ progress: HTMLElement; busy: () => boolean }} choices */
export function makeStateLine(app, { progress, busy }) {
  const text = el("p", { role: "status", "aria-live": "polite" }), act = el("span", { class: "act" });
  const node = el("div", { class: "stateline" }, text, progress, act);
  let said = { text: "", bad: false }, fading = 0, gone = false;

  function update() {
    const running = busy();
    /** @type {Standing} */
    const now = gone ? offline : said.bad ? { text: said.text, bad: true } : app.state ? standing(app, text) : { text: "" };
    const words = gone || said.bad ? now.text : [said.text, running ? "" : now.text].filter(Boolean).join(" ");
    if (text.textContent !== words) text.textContent = words; // a live region speaks when it changes
    node.className = `stateline${now.bad ? " bad" : ""}${now.warn ? " warned" : ""}${
      !running && !words || now.quiet && !said.text && !running ? " calm" : ""
    }`;
    text.title = words;
    progress.hidden = !running;
    replace(act, said.bad && !gone
      && el("button", { type: "button", class: "plain", "aria-label": "Close this message", onclick: () => say("") }, "×"),
      now.act && !running
        && el("button", { type: "button", class: now.quiet ? null : "primary", title: now.doc, onclick: now.act }, now.label));
  }

  // say shows a message; bad: that something did not work. A good one goes by itself.
  function say(words, bad = false) {
    clearTimeout(fading);
    said = { text: words, bad };
    if (words && !bad) fading = setTimeout(() => say(""), 8000);
    update();
  }

  return { node, update, say, unsay: (words) => said.text === words && say(""), online(now) {
    gone = !now;
    update();
  } };
}

const offline = { bad: true,
  text:
    "qwb serve does not answer. The plan is on disk and nothing is lost: start it again, and what was interrupted goes on where it was." };

// standing is how the plan stands, {text, label, act, doc}: what is to be done next. quiet: it need not be done; warn: figures are old.
/** @param {App} app @param {HTMLElement} text where it is shown @returns {Standing} */
function standing(app, text) {
  const { state, view } = app, quietly = (job) => job.catch(() => {}); // the line itself says what went wrong
  if (!state.model) return { text: "Nothing is open yet.", label: "Open a model", act: () => app.go("open") };
  if (state.language) {
    return app.exported() ? { text: "Exported." }
      : { text: "The file stays as it is: see what fewer bits cost.", label: "Export …", act: () => app.go("export"), quiet: true };
  }
  if (!state.exists) {
    return { text: "This model has no plan yet.", label: "Choose samples and target", act: () => app.go("data"),
      doc: "Samples and a target make a plan." };
  }
  if ((state.outside || []).length && !app.rows.some((row) => row.nsr !== null)) {
    const command = state.outside_command;
    return { text: `This page may not read ${state.outside.join(", ")}, which the plan names. To let it: ${command}`, warn: true,
      label: "Copy the command", act: () => copied(command, () => app.say("Copied: end qwb serve and start it so."), text),
      doc: "A plan may come from anybody: of one that was opened in the page, files in other folders are read only where you allow it" };
  }
  const analysis = "Run the analysis on the plan as it stands: qwb analyze";
  if (!app.rows.some((row) => row.nsr !== null)) {
    return { text: "It has not been measured yet.", label: "Measure", act: () => quietly(app.run("analyze")), doc: analysis };
  }
  if (view && view.stale) {
    return { text: "Figures measured before the last change.", warn: true, label: "Measure again", act: () => quietly(app.run("analyze")),
      doc: analysis };
  }
  const judge = judging(app), shift = view && view.verdict && view.verdict.shift;
  if (shift && judge.labels) {
    const offset = (judge.label_offset || 0) + shift;
    return { text: "The labels are of other classes.", warn: true, label: `Use label offset ${offset}`, doc: shifted(view.verdict),
      act: () => {
        remember({ label_offset: offset });
        quietly(app.run("eval", { ...judging(app), mode: "sim" }));
      } };
  }
  if (!view || !view.verdict || !view.verdict.metric) {
    return judge.labels
      ? { text: "Measured; accuracy is not.", label: "Measure accuracy", act: () => quietly(app.run("eval", { ...judge, mode: "sim" })),
        quiet: true }
      : { text: `Measured on ${plural(view.verdict.samples, "sample")}.`, label: "Next: prove it", act: () => app.go("samples"),
        quiet: true, doc: "Accuracy on samples with labels, and what changed" };
  }
  if (!state.verification) {
    return { text: "Measured, not verified.", label: "Verify", act: () => quietly(app.run("verify", { samples: 8 })), quiet: true };
  }
  return app.exported() ? { text: "Measured, verified, exported." }
    : { text: "Measured and verified.", label: "Export …", act: () => app.go("export"), quiet: true };
}
