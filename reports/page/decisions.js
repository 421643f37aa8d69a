// The decisions of a plan, as qwb plan log lists them.
import { add, el } from "./dom.js";
import { known, number, percent, plural, points, sqnr, withError } from "./format.js";

/** @param {HTMLElement} host @param {Core.Logged} log */
export function drawDecisions(host, log) {
  add(host,
    el("ol", { class: "decisions" },
      log.decisions.map((d) =>
        el("li", { class: d.in_force ? null : "soft", value: d.number }, el("b", null, d.by), " ", words(d),
          !d.in_force && " (taken back or replaced)", d.stale && " (outdated: measured under other decisions or inputs)",
          (d.runs || []).map((run) => el("div", { class: "soft" }, "→ " + measured(run), run.missed && " (a check did not hold)")))
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

// measured says what a command found, in a sentence where it is one that all know.
/** @param {{ command: string; figures: any }} run */
export function measured({ command, figures: f }) {
  if (command === "analyze" && f && known(f.nsr)) {
    return `SQNR ${sqnr(f.nsr, f.nsr_error)} on ${plural(f.samples, "sample")}`
      + (f.worst_layer ? `; worst ${f.worst_layer}, ${sqnr(f.layer_nsr)} alone` : "");
  }
  if (command === "eval" && f && known(f.top1)) {
    return `top-1 ${percent(f.top1 / f.n)} ${f.mode === "int8" ? "on integers" : "simulated"}`
      + (known(f.float_top1) ? `, float ${percent(f.float_top1 / f.n)}, drop ${points(f.drop, f.drop_error)}` : "")
      + `, on ${plural(f.n, "sample")}`;
  }
  if (command === "sweep" && f && known(f.nsr)) return `sweep: best ${f.observer} for ${f.platform}, SQNR ${sqnr(f.nsr, f.nsr_error)}`;
  if (command === "dispatch" && f && f.metric === "nsr" && known(f.budget)) {
    return `search: SQNR of ${sqnr(f.budget)} ${f.claimed ? "met" : "not proven"}`
      + (known(f.held_out) ? `, ${sqnr(f.held_out, f.held_out_error)} on held-out samples` : "");
  }
  if (command === "verify" && f && known(f.integers_compared)) {
    return `verify: ${f.integers_different} of ${f.integers_compared.toLocaleString("en")} integers differ on ${
      plural(f.samples, "sample")
    }`;
  }
  if (command === "export" && f && f.format) {
    return `export: ${f.format} for ${f.platform}, ${["equal", "ties"].includes(f.verified) ? "verified" : f.verified}`;
  }
  return command + ": " + figures(f);
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
