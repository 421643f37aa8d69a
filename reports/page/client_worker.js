// The workbench inside the page: the same calls as client.js, answered by a worker (worker.js). Nothing leaves the machine.

// openWorker returns the client of a worker. wasm is the core, where the page has it inside. progress hears how much of it is loaded, and
// null when the core is ready.
/** @param {Worker} worker @param {ArrayBuffer} [wasm] @param {(part: number | null) => void} progress */
export function openWorker(worker, wasm, progress = () => {}) {
  const heard = new Map(); // functions by type of event
  const open = new Map(); // calls that wait, by number
  let last = 0, failed = "";

  const tell = (type, event) =>
    (heard.get(type) || []).forEach((fn) => {
      try {
        fn(event);
      } catch (error) {
        console.error(error); // one bad listener does not end the others
      }
    });
  const problem = (fault) => Object.assign(new Error(fault.message), fault);

  function end(why) {
    if (failed) return;
    failed = why;
    for (const [, reject] of open.values()) reject(problem({ kind: "failed", message: failed }));
    open.clear();
    tell("failed", failed);
  }

  worker.onerror = (e) => end(e.message || "the worker cannot be started");
  worker.onmessage = ({ data }) => {
    if (data.failed) end(data.failed);
    else if (data.ready) progress(null);
    else if (data.loading !== undefined) progress(data.loading);
    else if (data.event) {
      const event = JSON.parse(data.event);
      tell(event.type, event);
    } else {
      const [resolve, reject] = open.get(data.id) || [];
      open.delete(data.id);
      if (!resolve) return;
      if (data.fault) reject(problem(JSON.parse(data.fault)));
      else resolve(data.bytes || JSON.parse(data.result));
    }
  };
  worker.postMessage({ start: true, wasm }, wasm ? [wasm] : []);

  const ask = (message, transfer = []) =>
    new Promise((resolve, reject) => {
      if (failed) {
        reject(problem({ kind: "failed", message: failed }));
        return;
      }
      const id = ++last;
      open.set(id, [resolve, reject]);
      worker.postMessage({ id, ...message }, transfer);
    });

  return {
    kind: "worker",

    // call asks for a result. What changes the plan needs the revision that the page has seen.
    call(method, params = {}, { revision = "" } = {}) {
      return ask({ method, params, revision });
    },

    // on hears events of a type, "failed" too: the core has ended. The function that it returns ends that.
    on(type, fn) {
      heard.set(type, [...(heard.get(type) || []), fn]);
      return () => heard.set(type, heard.get(type).filter((f) => f !== fn));
    },

    // upload keeps a file in the memory of this tab.
    async upload(name, blob) {
      const bytes = await blob.arrayBuffer();
      return ask({ write: name, bytes }, [bytes]);
    },

    async download(file) {
      return new Blob([await ask({ read: file })]);
    },

    // demo writes the files of the demo and says where they are.
    demo: () => ask({ method: "demo" }),

    // unsaved names the files that are lost with this tab.
    unsaved: () => ask({ method: "unsaved" }),
  };
}
