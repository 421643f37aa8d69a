// The workbench behind `qwb serve`: methods as requests, events as a stream. client_worker.js offers the same without a server.

const tokenKey = "qwb-token";

// takeToken moves the token from the address into the storage of this tab, so that it is in no history, bookmark or screenshot.
function takeToken() {
  const url = new URL(location.href);
  const given = url.searchParams.get("token");
  if (given) {
    sessionStorage.setItem(tokenKey, given);
    url.searchParams.delete("token");
    history.replaceState(history.state, "", url);
  }
  return sessionStorage.getItem(tokenKey) || "";
}

// fault makes an Error of what the server says: kind, message, stage, node, op; status; revision, where the plan is another.
async function fault(response) {
  let told = {};
  try {
    told = await response.json();
  } catch {
    // no JSON: something between page and server answered
  }
  const error = new Error(told.error?.message || `the server answered ${response.status}`);
  return Object.assign(error, told.error, { status: response.status, revision: told.revision });
}

// openClient returns the client of this page. The events "online" (true or false) say whether the server is there.
export function openClient() {
  const token = takeToken();
  const heard = new Map(); // functions by type of event
  let online = true;
  let listening = false;

  const tell = (type, event) => (heard.get(type) || []).forEach((fn) => fn(event));

  function setOnline(now) {
    if (now !== online) {
      online = now;
      tell("online", now);
    }
  }

  async function ask(path, options = {}) {
    let response;
    try {
      response = await fetch(path, {
        ...options,
        headers: { ...options.headers, "X-Qwb-Token": token },
        referrerPolicy: "no-referrer",
      });
    } catch (error) {
      if (error.name === "AbortError") throw error;
      setOnline(false);
      throw Object.assign(new Error("qwb serve does not answer: it has ended, or the connection is gone"), { kind: "offline", status: 0 });
    }
    setOnline(true);
    if (!response.ok) throw await fault(response);
    return response;
  }

  // call asks for a result. What changes the plan needs the revision that the page has seen.
  /** @param {string} method @param {object} params @param {{ revision?: string; signal?: AbortSignal }} more */
  async function call(method, params = {}, { revision, signal } = {}) {
    const response = await ask(`/api/${encodeURIComponent(method)}`, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ params, revision }),
      signal,
    });
    return response.json();
  }

  // listen reads the stream of events, and again from the start when it breaks off: whoever comes late is told what is running.
  async function listen() {
    for (let wait = 500;; wait = Math.min(wait * 2, 10000)) {
      try {
        const response = await ask("/api/events");
        wait = 500;
        const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
        let rest = "";
        for (let part = await reader.read(); !part.done; part = await reader.read()) {
          const records = (rest + part.value).split("\n\n");
          rest = records.pop();
          for (const record of records) {
            if (record.startsWith("data: ")) dispatch(JSON.parse(record.slice(6)));
          }
        }
      } catch (error) {
        if (error.status === 403) return; // another start of the server: this page has to be opened anew
      }
      setOnline(false);
      await new Promise((go) => setTimeout(go, wait));
    }
  }

  function dispatch(event) {
    try {
      tell(event.type, event);
    } catch (error) {
      console.error(error); // one bad listener does not end the stream
    }
  }

  return {
    kind: "http",
    call,

    // on hears events of a type; the function that it returns ends that.
    on(type, fn) {
      heard.set(type, [...(heard.get(type) || []), fn]);
      if (!listening) {
        listening = true;
        listen();
      }
      return () => heard.set(type, heard.get(type).filter((f) => f !== fn));
    },

    // upload sends a file into the first folder of the server; the path in the result is its name there.
    async upload(name, blob) {
      const response = await ask(`/api/upload?name=${encodeURIComponent(name)}`, { method: "POST", body: blob });
      return response.json();
    },

    async download(file) {
      const response = await ask(`/api/download?file=${encodeURIComponent(file)}`);
      return response.blob();
    },
  };
}
