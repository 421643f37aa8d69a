// The decisions of a plan, as qwb plan log lists them.
import { add, el } from "./dom.js";
import { number, plural, withError } from "./format.js";

/** @param {HTMLElement} host @param {Core.Logged} log */
export function drawDecisions(host, log) {
  add(host,
    el("ol", { class: "decisions" },
      log.decisions.map((d) =>
        el("li", { class: d.in_force ? null : "soft", value: d.number }, el("b", null, d.by), " ", words(d),
          !d.in_force && " (taken back or replaced)", d.stale && " (outdated: measured under other decisions or inputs)",
          (d.runs || []).map((run) =>
            el("div", { class: "soft" }, "→ " + run.command + ": " + figures(run.figures), run.missed && " (a check did not hold)")
          ))
      )), log.redo > 0 && el("p", { class: "soft" }, plural(log.redo, "command") + " undone; qwb plan redo does the last of them again."));
}

// words are what a decision says: its keys, but for who made it and what only programs need.
/** @param {Core.Decision} d */
export function words(d) {
  const hidden = new Set(["by", "number", "step", "in_force", "stale", "governed", "runs", "after", "evidence", "params", "overlay"]);
  return Object.entries(d).filter(([key, v]) => !hidden.has(key) && v !== false && v !== null).map(
    ([key, v]) => (key === "select" ? [].concat(v).join(", ")
      : key.replaceAll("_", " ") + " " + [].concat(typeof v === "object" && !Array.isArray(v) ? JSON.stringify(v) : v).join(", "))
  ).join(" · ");
}

// figures are those that a command found, with two digits of their errors.
export function figures(f) {
  const unit = (key) => (key === "drop" && (f.top1 !== undefined || f.percent) ? " pp" : "");
  const one = (
    key,
    v,
  ) => (typeof f[key + "_error"] === "number" ? withError(v, f[key + "_error"]) + unit(key)
    : typeof v === "number" && !Number.isInteger(v) ? number(v) : v);
  return Object.entries(f || {}).filter(([key, v]) => typeof v !== "object" && !key.endsWith("_error")).map(([key, v]) =>
    key.replaceAll("_", " ") + " " + one(key, v)
  ).join(", ");
}
