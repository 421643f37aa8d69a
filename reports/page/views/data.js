// Data: samples, the preprocessing that float accuracy speaks for, the target; then the plan.
import { el } from "../dom.js";
import { known, number, percent, plural, problemText } from "../format.js";
import { baseName } from "../frame.js";
import { dataOptions, dataRows, drawForm, field, fields, grid, message, part, steady } from "./parts.js";
import { className, classNote, thumbnail } from "./pictures.js";
import { task } from "./task.js";

export const dataView = {
  key: "data",
  label: "Calibrate",
  doc: "Samples, labels and names of classes; the preprocessing, chosen by float accuracy; the target; and the plan that comes of them.",
  usable: /** @param {App} app */ (app) => Boolean(app.state.model) && !app.state.language,
  draw: drawData,
};

/** @param {HTMLElement} host @param {App} app */
function drawData(host, app) {
  host.replaceChildren(...calibration(app));
  // A plan that comes or changes leaves what was said on the way to it where it is.
  return steady(app, () => drawData(host, app), (was, now) => was.model === now.model && now.exists);
}

// calibration are the steps from a model to its first plan.
/** @param {App} app */
function calibration(app) {
  const s = app.state, tried = el("div", { class: "result" }), pictures = el("div", { class: "pictures" }),
    done = el("div", { class: "result" });
  let before = ""; // the plan that was open before another one was made
  const preprocess = drawForm(app, [
    field(app, "calibrate", "preprocess", { value: s.data.preprocess || "", placeholder: s.exists ? "that of the plan" : "none" }),
  ]);
  const data = drawForm(app, dataRows(app, {
    note: "Samples like those that the model will meet, other ones than accuracy is measured on later; a hundred are usually enough.",
    fallback: s.calibration,
    fit: "calibrate",
  }));
  const target = drawForm(app, fields(app, "calibrate", {
    platform: { options: (s.targets || []).map((t) => ({ ...t, label: t.doc ? `${t.name}: ${shortDoc(t.doc)}` : t.name })),
      value: s.platform || "trt_int8" },
  }));
  const all = () => ({ ...dataOptions(data.read()), ...preprocess.read() });
  const look = async () => {
    try {
      const list = await app.client.call("thumbnails", { ...all(), samples: 12 });
      showPictures(pictures, app, list);
    } catch (problem) {
      message(pictures, problemText(problem), true);
    }
  };
  return [
    part("1. Samples", "", data.node, classNames(app)),
    part("2. Preprocessing",
      "With labels: the float model runs with every preset and the usual ways to scale pixels, on a few samples. Half of them choose, the other half confirms.",
      preprocess.node,
      task(app, { label: "Try preprocessings", kind: "trial", options: all,
        show: (r) => showTrials(tried, app, r, preprocess, data, look) }), tried,
      el("p", { class: "actions" },
        el("button", { type: "button", onclick: look, title: "What the network reads, made visible: crop, size, order of channels" },
          "Show the samples as the network sees them")), pictures),
    part("3. Target and plan",
      "Runs the float model, records the range of every tensor, and chooses all scales. With the statistics there, another target or observer needs no data.",
      target.node, task(app, { label: "Calibrate", kind: "calibrate", options: () => {
        before = app.state.exists ? app.state.plan : "";
        return { ...all(), ...target.read() };
      }, show: (r) => showCalibrated(done, app, r, before) }), done),
  ];
}

// classNames takes a file with the names of classes, which are shown wherever a class is.
/** @param {App} app */
function classNames(app) {
  const said = el("div", { role: "status" }),
    show = () =>
      said.replaceChildren(
        ...(app.state.classes
          ? [
            el("p", { class: "hint" }, `${plural(app.state.classes.names.length, "name")} from ${app.state.classes.file}.`),
            ...classNote(app),
          ] : [])
      );
  const form = drawForm(app, [{ name: "class_names", label: "Class names", type: "file", of: "any",
    value: app.state.classes ? app.state.classes.file : "",
    doc:
      "A text file with one name on each line, the first for class 0; or JSON: a list, numbers and names, or a config.json with id2label." }]);
  const use = async () => {
    try {
      await app.client.call("classes", { file: form.read().class_names || "" });
      await app.reload();
      said.classList.remove("bad");
      show();
    } catch (problem) {
      message(said, problemText(problem), true);
    }
  };
  show();
  return el("details", { open: Boolean(app.state.classes) }, el("summary", {}, "Class names"), form.node,
    el("p", { class: "actions" }, el("button", { type: "button", onclick: use }, "Use these names")), said);
}

const shortDoc = (text) => (text.length > 60 ? `${text.slice(0, 59)}…` : text);

// showTrials is what float gets right with each preprocessing. Taking one fills in the forms.
/** @param {HTMLElement} host @param {App} app @param {Core.Jobs["trial"]["result"]} r */
function showTrials(host, app, r, preprocess, data, look) {
  /** @param {Core.DoctorChoice} t */
  const take = (t) => {
    preprocess.set("preprocess", t.flag);
    data.set("label_offset", t.label_offset);
    look();
    taken(t);
  };
  const best = r.best, sure = best && best.chance !== undefined && best.chance < 0.01 && best.correct > best.before;
  const said = !r.trials || !r.trials.length ? "Preprocessings can be told apart only with labels." : best ? sure
    ? `${best.preprocess}${
      best.label_offset ? `, label offset ${best.label_offset}` : ""
    }: ${best.correct} of ${best.samples} correct, ${best.before} as they are read now. Confirmed on samples that did not choose it. `
    : best.correct === best.before
    ? `${best.correct} of ${best.samples} samples are correct as they are read now, and no preprocessing that was tried makes it more.`
    : `Best on the samples that choose: ${best.preprocess}${
      best.label_offset ? `, label offset ${best.label_offset}` : ""
    }. On the others ${best.correct} of ${best.samples} are correct, ${best.before} as it is: not a clear difference.` : "";
  const findings = el("div"),
    taken = (t) =>
      findings.replaceChildren(
        el("p", { class: "hint", role: "status" },
          `Taken: ${t.preprocess}, label offset ${t.label_offset}. What was found spoke of the samples as they were read before; Try preprocessings finds anew.`)
      );
  if (r.findings && r.findings.length) {
    findings.append(grid({ caption: "Findings about the data", rows: r.findings, columns: [
      { label: "kind", cell: (f) => f.level },
      { label: "where", cell: (f) => f.node },
      { label: "what", cell: (f) => f.text },
      { label: "what helps", cell: (f) => onPage(f.fix) },
    ] }));
  }
  host.replaceChildren(
    el("p", { class: sure ? "headline" : "headline open" }, said,
      sure ? el("button", { type: "button", onclick: () => take(best) }, "Take it") : ""),
    r.trials && r.trials.length
      ? grid({ caption: "Float accuracy by preprocessing", rows: r.trials, pick: take, pickDoc: "take this preprocessing and label offset",
        mark: (t) => (best && t.flag === best.flag && t.label_offset === best.label_offset ? "best" : ""), columns: [
          { label: "preprocessing", cell: (t) => t.preprocess, title: (t) => t.flag },
          { label: "label offset", doc: "added to each label to get the class", number: true, cell: (t) => String(t.label_offset),
            sort: (t) => t.label_offset },
          { label: "correct", number: true, cell: (t) => `${t.correct} of ${t.samples}`, title: (t) => percent(t.correct / t.samples),
            sort: (t) => t.correct },
        ] }) : "",
    findings
  );
}

// onPage names the options of commands as the fields of this page do.
const fieldNames = { "--preprocess": "Preprocessing", "--label-offset": "Label offset", "--labels": "Labels",
  "--samples": "How many samples" };
const onPage = (text) => (text || "").replace(/--[a-z-]+/g, (flag) => fieldNames[flag] || flag);

/** @param {HTMLElement} host @param {App} app @param {Core.Thumbnails} r */
function showPictures(host, app, r) {
  host.classList.remove("bad");
  const items = r.items.filter((t) => t.rgb);
  host.replaceChildren(
    el("p", { class: "hint" },
      items.length ? `What the network reads, made visible: ${r.preprocess || r.note}. ${items.length} of ${plural(r.samples, "sample")}.`
        : r.note || "These samples are no pictures."),
    el("ul", { class: "thumbnails" },
      items.map((t) =>
        el("li", {}, thumbnail(t, `${t.name} as the network sees it`), el("span", { class: "hint", title: t.name }, baseName(t.name)),
          el("span", { class: "hint", title: `the numbers that the network is fed with; mean ${t.mean}` },
            `${known(t.label) ? `label ${app.state.classes ? className(app, t.label) : t.label}, ` : ""}${number(t.lo)} to ${
              number(t.hi)
            }`))
      ))
  );
}

/** @param {HTMLElement} host @param {App} app @param {Core.CalibrateResult} r */
function showCalibrated(host, app, r, before) {
  host.replaceChildren(
    el("p", { class: "headline" }, `${r.plan}: calibrated on ${plural(r.samples, "sample")}. `,
      el("button", { type: "button", class: "main", onclick: () => app.go("network") }, "See the network")),
    before && before !== app.state.plan
      ? el("p", {}, `${before} stays as it was: the view Runs has both. `,
        el("button", { type: "button", title: `Use ${before} again`, onclick: () => app.run("open", { file: before }).catch(() => {}) },
          `Back to ${baseName(before)}`)) : ""
  );
}
