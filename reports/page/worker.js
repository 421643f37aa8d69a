// The worker of a page without a server: Go's core as WebAssembly, which keeps all files in memory. A classic script, since the page in one
// file makes it of text. client_worker.js talks to it.

const waiting = []; // messages that came before the core was ready
let ready = false;

const core = /** @type {any} */ (self); // with what wasm_exec.js and the core add to it
const post = (message, transfer = []) => core.postMessage(message, transfer);

self.onmessage = ({ data }) => {
  if (data.start) start(data).catch((problem) => post({ failed: String(problem.message || problem) }));
  else if (ready) take(data);
  else waiting.push(data);
};

// start loads the core: the bytes that came along, or the file beside this one, compressed or not.
async function start({ wasm }) {
  if (!core.Go) core.importScripts("wasm_exec.js");
  const bytes = wasm ? new Uint8Array(wasm) : await download("qwb.wasm.gz");
  const plain = bytes[0] === 0x1f && bytes[1] === 0x8b ? new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))
    : new Blob([bytes]).stream();
  post({ loading: 1 });
  const module = await WebAssembly.compileStreaming(new Response(plain, { headers: { "Content-Type": "application/wasm" } }));
  const go = new core.Go();
  go.exit = (code) => post({ failed: `the core ended with code ${code}` });
  const instance = await WebAssembly.instantiate(module, go.importObject);
  go.run(instance).then(() => post({ failed: "the core has ended: it ran out of memory, or met a bug of qwb; load the page again" }));
}

// download reads a file and says how much of it is here.
async function download(name) {
  const response = await fetch(name);
  if (!response.ok) throw new Error(`${name}: the server answered ${response.status}`);
  const total = Number(response.headers.get("Content-Length")), parts = [], reader = response.body.getReader();
  let length = 0;
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    parts.push(part.value);
    length += part.value.length;
    if (total) post({ loading: Math.min(length / total, 1) });
  }
  return new Uint8Array(await new Blob(parts).arrayBuffer());
}

// take hands a message to the core.
function take(m) {
  try {
    if (m.write !== undefined) {
      core.qwbWrite(m.write, new Uint8Array(m.bytes));
      post({ id: m.id, result: JSON.stringify({ path: m.write }) });
    } else if (m.read !== undefined) {
      const bytes = core.qwbRead(m.read);
      if (bytes) post({ id: m.id, bytes: bytes.buffer }, [bytes.buffer]);
      else post({ id: m.id, fault: JSON.stringify({ kind: "file", message: `there is no file ${m.read}` }) });
    } else {
      core.qwbCall(m.id, m.method, JSON.stringify(m.params || {}), m.revision || "");
    }
  } catch (problem) { // the core has ended
    post({ id: m.id, fault: JSON.stringify({ kind: "failed", message: String(problem.message || problem) }) });
  }
}

// Functions that the core calls: for an answer or an event, and once when it can be asked.
core.qwbAnswer = (id, result, fault) => post(id === "event" ? { event: result } : { id, result, fault });
core.qwbReady = () => {
  ready = true;
  post({ ready: true });
  waiting.splice(0).forEach(take);
};
