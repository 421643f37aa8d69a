// The entry of the page that needs no server: the core runs in a worker of this tab.
import { startApp } from "./app.js";
import { openWorker } from "./client_worker.js";
import { announce, download, el, replace } from "./dom.js";
import { baseName } from "./frame.js";

// A page in one file has the core, the worker's script and the result of the demo inside, as JSON in elements of these ids.
const inside = (id) => {
  const node = document.getElementById(id);
  const value = node && JSON.parse(node.textContent);
  if (node) node.remove(); // megabytes of text that nobody reads again
  return value;
};

function bytesOf(base64) {
  const text = atob(base64), bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return bytes.buffer;
}

function open(progress) {
  const script = inside("qwb-worker"), core = inside("qwb-wasm");
  if (!script) return openWorker(new Worker("page/worker.js"), null, progress);
  return openWorker(new Worker(URL.createObjectURL(new Blob([script], { type: "text/javascript" }))), bytesOf(core), progress);
}

const note = el("div", { class: "measure unsaved", role: "group", "aria-label": "Files that are not saved", hidden: true });
let files = [], changed = false; // changed: what is in files may be old, or a job runs
const host = document.getElementById("app") || document.body.appendChild(el("div", { id: "app" }));
const bar = el("progress", { max: "1", "aria-label": "loading" });
host.replaceChildren(
  el("p", { class: "loading" }, "Loading the core, which does here what the command line does. Nothing that you open leaves this machine. ",
    bar)
);
const client = open((part) => {
  if (part === null) {
    startApp({ ...client, download: taken, result }, host).then(() => host.querySelector("main").before(note)).catch((problem) =>
      failed(problem.message)
    );
  } else if (part < 1) bar.value = part;
  else bar.removeAttribute("value");
});

// result is what the demo comes to, as the view of a report, made with this page.
let shown = null;
async function result() {
  shown = shown || inside("qwb-demo") || await (await fetch("page/demo.json")).json();
  return shown;
}

const failed = (text) => {
  files = [];
  changed = false;
  host.replaceChildren(el("p", { class: "loading", role: "alert" }, `The page cannot go on: ${text}`),
    el("p", {}, "Everything that was opened lay in the memory of this tab and is gone. Load the page again."));
};
client.on("failed", failed);

// A file that is dropped beside the place for it must not take the page's place.
for (const type of ["dragover", "drop"]) addEventListener(type, (e) => e.preventDefault());

// What lies only in this tab is lost with it. The page names it all the time, and while there is any the browser asks before the tab is
// closed.
async function taken(name) {
  const blob = await client.download(name);
  count();
  return blob;
}
const save = async (names) => {
  for (const name of names) download(baseName(name), await taken(name));
};
async function count() {
  const now = await client.unsaved().catch(() => []);
  changed = false;
  if (String(now) === String(files)) return;
  if (!files.length) announce("Files lie only in this tab and are lost when it is closed. They are named above the view, to be saved.");
  files = now;
  note.hidden = !files.length;
  replace(note, el("span", null, "Only in this tab, and lost when it is closed or loaded again: "),
    files.map((name) => el("button", { type: "button", title: "Save " + name, onclick: () => save([name]) }, baseName(name))),
    files.length > 1 && el("button", { type: "button", class: "main", onclick: () => save(files) }, "Save all " + files.length));
}
client.on("plan", () => {
  changed = true;
  count();
});
client.on("job", ({ job }) => {
  changed = true;
  if (!["queued", "running"].includes(job.state)) count();
});
addEventListener("beforeunload", (e) => {
  if (changed || files.length) e.preventDefault();
});
