// The entry of the page that needs no server: the core runs in a worker of this tab.
import { el } from "./dom.js";
import { openWorker } from "./client_worker.js";
import { startApp } from "./app.js";

// A page in one file has the core and the worker's script inside, as JSON in elements of these ids.
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

const host = document.getElementById("app") || document.body.appendChild(el("div", { id: "app" }));
const bar = el("progress", { max: "1", "aria-label": "loading" });
host.replaceChildren(el("p", { class: "loading" }, "Loading the core, which does here what the command line does. Nothing that you open leaves this machine. ", bar));
const client = open((part) => {
  if (part === null) startApp(client, host).catch((problem) => failed(problem.message));
  else if (part < 1) bar.value = part;
  else bar.removeAttribute("value");
});

const failed = (text) => host.replaceChildren(el("p", { class: "loading", role: "alert" }, `The page cannot go on: ${text}`),
  el("p", {}, "Everything that was opened lay in the memory of this tab and is gone. Load the page again."));
client.on("failed", failed);

// A file that is dropped beside the place for it must not take the page's place.
for (const type of ["dragover", "drop"]) addEventListener(type, (e) => e.preventDefault());

// What was decided and not downloaded is lost with the tab: the browser asks.
let work = false;
client.on("plan", () => { work = true; });
addEventListener("beforeunload", (e) => { if (work) e.preventDefault(); });
