// Files of this machine, dropped on the page or chosen: a model, its data, labels, a plan with its statistics, in folders or not. What has
// no folder lies in the first folder of the page.
import { remember } from "../context.js";
import { el } from "../dom.js";
import { problemText } from "../format.js";
import { drawReport } from "../report_body.js";
import { newSelection } from "../selection.js";
import { reportOf } from "./dropped.js";
import { message } from "./parts.js";

const models = /\.(onnx|tflite|param|gguf)$/i, maybe = /\.(safetensors|bin)$/i, plans = /\.plan\.json$/i, labels = /\.(tsv|csv)$/i,
  samples = /\.(png|jpe?g|gif|bmp|webp|npy|npz|pb)$/i;

// dropArea is where to drop files, or to press a button. It draws what is there by open(file), the name of a model or plan.
/** @param {App} app */
export function dropArea(app, open) {
  const said = el("p", { class: "status", role: "status" });
  const chooser = (what, more) => {
    const input = el("input", { type: "file", multiple: true, class: "unseen", "aria-label": `Choose ${what} of this machine`, ...more });
    input.addEventListener("change", () => {
      take([...input.files].map((file) => ({ name: file.webkitRelativePath || file.name, file })));
      input.value = "";
    });
    return [el("button", { type: "button", onclick: () => input.click() }, `choose ${what}`), input];
  };
  let unopened = "";
  const take = async (files) => {
    try {
      const rest = [];
      let report = null;
      for (const f of files) {
        const r = await reportOf(f.file);
        if (r) report = r;
        else rest.push(f);
      }
      const main = rest.length && await keep(app, rest, (text) => message(said, text));
      if (report) app.present(report);
      if (main) unopened = main;
      if (rest.length && unopened) await open(unopened); // also what lacked the files that come now
      unopened = "";
    } catch (problem) {
      message(said, problemText(problem), true);
    }
  };
  const area = el("div", { class: "drop" },
    el("p", {},
      "Drop a model here, with its data, labels, plan or statistics, also whole folders; a report of qwb, HTML or JSON, is shown as it is. Or ",
      ...chooser("files"), " ", ...chooser("a folder", { webkitdirectory: true }), "."), said);
  if (app.client.demo) {
    area.append(
      el("p", {},
        el("button", { type: "button",
          title: "A small network that reads letters in dark pictures, with 256 pictures to calibrate on and 1,000 others with labels",
          onclick: () => demo(app, said) }, "Try the demo"))
    );
  }
  area.addEventListener("dragover", (e) => {
    e.preventDefault();
    area.classList.add("over");
  });
  area.addEventListener("dragleave", () => area.classList.remove("over"));
  area.addEventListener("drop", async (e) => {
    e.preventDefault();
    area.classList.remove("over");
    take(await filesOf(e.dataTransfer));
  });
  return area;
}

// filesOf lists dropped files, those in dropped folders too, as {name, file}. Entries have to be asked for before anything is awaited.
async function filesOf(transfer) {
  const entries = [...transfer.items].map((i) => i.webkitGetAsEntry && i.webkitGetAsEntry()).filter(Boolean), list = [];
  if (!entries.length) return [...transfer.files].map((file) => ({ name: file.name, file }));
  const walk = async (entry) => {
    if (entry.isFile) {
      list.push({ name: entry.fullPath.slice(1), file: await new Promise((done, fail) => entry.file(done, fail)) });
      return;
    }
    const reader = entry.createReader(); // which gives a hundred at a time
    for (let some; (some = await new Promise((done, fail) => reader.readEntries(done, fail))).length;) for (const e of some) await walk(e);
  };
  for (const e of entries) await walk(e);
  return list;
}

// keep uploads files and proposes them where forms ask for data and labels. It returns the plan, or else the model, that was among them.
/** @param {App} app */
async function keep(app, files, say) {
  const loose = files.filter((f) => samples.test(f.name) && !f.name.includes("/"));
  let plan = "", model = "", other = "";
  for (const [i, f] of files.entries()) {
    if (f.name.split("/").some((part) => part.startsWith("."))) continue;
    say(`reading ${i + 1} of ${files.length}: ${f.name} …`);
    const name = loose.length > 1 && loose.includes(f) ? `samples/${f.name}` : f.name;
    const { path } = await app.client.upload(name, f.file);
    if (plans.test(name)) plan = path;
    else if (models.test(name)) model = path;
    else if (maybe.test(name)) other = path;
    else if (labels.test(name)) remember({ labels: path });
    else if (samples.test(name)) {
      const data = name.includes("/") ? path.slice(0, path.lastIndexOf("/")) : path;
      remember({ data, "data to calibrate": data });
    }
  }
  say(files.length === 1 ? `${files[0].name} is here` : `${files.length} files are here`);
  return plan || model || (app.state.model ? "" : other); // beside a model these are its weights, or what its plan was tuned to
}

// demo shows what the demo comes to, and goes the whole way there in the meantime: what is pressed is what a user would press.
/** @param {App} app */
async function demo(app, said) {
  const note = el("div", { class: "measure", role: "status" });
  const say = (text, ...more) => note.replaceChildren(el("p", {}, text, " ", ...more));
  const to = (label, key, main) => el("button", { type: "button", class: main ? "main" : "", onclick: () => app.go(key) }, label);
  try {
    say("This is what the demo comes to. The same is computed in this tab now.");
    const view = await app.client.result().catch(() => null);
    if (view) app.present({ file: "the demo", note, draw: (main) => drawReport(main, view, newSelection()) });
    message(said, "drawing pictures …");
    const d = await app.client.demo();
    remember({ data: d.data, platform: d.platform });
    message(said, "");
    await app.run("open", { file: d.model });
    if (!view) app.go("network");
    await app.run("calibrate", { platform: d.platform, data: [d.data] });
    remember({ data: d.eval, labels: d.labels });
    await app.run("analyze", { samples: 32 });
    say("This is what the demo comes to. Its plan and the error of every operator are computed here now, too; accuracy follows.",
      to("See them", "network", true));
    await app.run("eval", { data: [d.eval], labels: d.labels, mode: "int8" });
    say("This is what the demo comes to. The same has been computed in this tab.", to("Work on it", "network", true), " ",
      to("Export it", "export"));
  } catch (problem) {
    app.say(problemText(problem), true);
    say("This is what the demo comes to. In this tab it was not computed to the end.");
  }
}
