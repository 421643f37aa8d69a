// What the parts of the live page share: names of files, what a tab remembers, panes whose border can be moved.
import { el } from "./dom.js";

// baseName is a file's name without its folder.
export function baseName(path) {
  return String(path || "").replace(/^.*[\\/]/, "");
}

// kept and keep are values that a tab remembers. A page from a file may have nothing to remember them in.
export function kept(key) {
  try {
    return sessionStorage.getItem(key) || "";
  } catch {
    return "";
  }
}

export function keep(key, value) {
  try {
    sessionStorage.setItem(key, value);
  } catch { /* the next visit starts afresh */ }
}

// splitter is a border between two panes that mouse and arrow keys move. It sets the custom property of the host to a share in percent.
/**
 * @param {{ host: HTMLElement; property: string; label: string; first: number; vertical?: boolean; min?: number; max?: number;
 *   moved?: () => void }} choices
 */
export function splitter({ host, property, label, vertical, first, min = 15, max = 85, moved }) {
  let share = Number(kept(property)) || first;
  const node = el("div", { class: `splitter ${vertical ? "upright" : "lying"}`, role: "separator", tabindex: "0", "aria-label": label,
    title: `${label}: drag, or use the arrow keys`, "aria-orientation": vertical ? "vertical" : "horizontal", "aria-valuemin": String(min),
    "aria-valuemax": String(max) });
  const put = (value) => {
    share = Math.max(min, Math.min(max, value));
    host.style.setProperty(property, `${share}%`);
    node.setAttribute("aria-valuenow", String(Math.round(share)));
    if (moved) moved();
  };
  node.addEventListener("pointerdown", (e) => {
    node.setPointerCapture(e.pointerId);
    e.preventDefault();
  });
  node.addEventListener("pointermove", (e) => {
    if (!node.hasPointerCapture(e.pointerId)) return;
    const box = host.getBoundingClientRect();
    put(vertical ? 100 * (e.clientX - box.left) / box.width : 100 * (e.clientY - box.top) / box.height);
  });
  node.addEventListener("pointerup", () => keep(property, String(share)));
  node.addEventListener("keydown", (e) => {
    const step =
      { ArrowLeft: vertical ? -2 : 0, ArrowRight: vertical ? 2 : 0, ArrowUp: vertical ? 0 : -2, ArrowDown: vertical ? 0 : 2 }[e.key];
    if (!step) return;
    e.preventDefault();
    put(share + step);
    keep(property, String(share));
  });
  put(share);
  return node;
}

// pages is a row of tabs over one host: list of {key, label, doc, draw(host)}; what has been drawn stays. shown(key) hears which one is
// shown, at the start too (first).
export function pages(list, label, shown = (_key, _first) => {}) {
  const row = el("div", { class: "pages", role: "tablist", "aria-label": label }), body = el("div", { class: "pagebody" });
  const all = list.map((p, i) => {
    const id = `page-${p.key}`;
    const tab = el("button", { type: "button", role: "tab", id: `${id}-tab`, title: p.doc, "aria-controls": id,
      onclick: () => show(p.key) }, p.label);
    const host = el("div", { id, role: "tabpanel", "aria-labelledby": `${id}-tab`, class: `page ${p.key}`, hidden: true });
    row.append(tab);
    body.append(host);
    return { ...p, tab, host, at: i };
  });
  function show(key, first = false) {
    for (const p of all) {
      const on = p.key === key;
      p.host.hidden = !on;
      p.tab.setAttribute("aria-selected", String(on));
      p.tab.tabIndex = on ? 0 : -1;
      if (on && p.draw) {
        const draw = p.draw;
        p.draw = null;
        draw(p.host);
      }
    }
    keep(`qwb-${label}`, key);
    shown(key, first);
  }
  row.addEventListener("keydown", (e) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[e.key], at = all.findIndex((p) => p.tab === document.activeElement);
    if (!step || at < 0) return;
    e.preventDefault();
    const next = all[(at + step + all.length) % all.length];
    show(next.key);
    next.tab.focus();
  });
  const last = kept(`qwb-${label}`);
  show(all.some((p) => p.key === last) ? last : all[0].key, true);
  return { row, body, show, tab: (key) => all.find((p) => p.key === key).tab };
}
