// The address of the page is what it shows: the operator, the view, its colour, filter and order. A link shows the same to whoever has the
// files; Back and Forward go along the views.

const heard = new Set();

function read() {
  const parts = new Map();
  for (const part of location.hash.slice(1).split("&")) {
    const at = part.indexOf("=");
    try {
      if (at > 0) parts.set(part.slice(0, at), decodeURIComponent(part.slice(at + 1)));
    } catch { /* an address that somebody shortened */ }
  }
  return parts;
}

// placed is a part of the address, "" where it has none of that name.
export const placed = (key) => read().get(key) || "";

// place puts parts into the address, and takes out those that are empty; step: it is one that Back takes back.
export function place(values, step = false) {
  const parts = read(), before = location.hash;
  for (const [key, value] of Object.entries(values)) {
    if (value) parts.set(key, String(value));
    else parts.delete(key);
  }
  const hash = [...parts].map(([key, value]) => key + "=" + encodeURIComponent(value)).join("&");
  if ("#" + hash === before || hash === before) return;
  try {
    history[step ? "pushState" : "replaceState"](null, "", hash ? "#" + hash : location.pathname + location.search);
  } catch { /* a frame without an address of its own, as in a notebook */ }
}

// onPlace calls fn when somebody goes back or forward, or writes another address, until the function that it returns is called.
export function onPlace(fn) {
  if (!heard.size) addEventListener("popstate", tell);
  heard.add(fn);
  return () => heard.delete(fn);
}

function tell() {
  for (const fn of [...heard]) fn();
}
