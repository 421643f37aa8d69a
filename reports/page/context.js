// The data context: which samples, labels and other choices the views of the page propose. What is entered in one view is proposed in all,
// and a tab remembers it when it is loaded again with the same model.
import { keep, kept } from "./frame.js";

const key = "qwb-choices";
const heard = new Set();
let values = {}, of = null;

// remember notes choices by the names of their fields.
export function remember(more) {
  Object.assign(values, more);
  keep(key, JSON.stringify({ of, values }));
  for (const fn of [...heard]) fn(more);
}

// onRemember calls fn with what is noted, until the function that it returns is called.
export function onRemember(fn) {
  heard.add(fn);
  return () => heard.delete(fn);
}

// follow says which model is open: what this tab noted for it, before the page was loaded, is taken up.
export function follow(model) {
  if (model === of) return;
  const first = of === null;
  of = model;
  try {
    const last = first && JSON.parse(kept(key) || "{}");
    if (last && last.of === model) values = last.values;
  } catch { /* written by another version of the page */ }
  remember({});
}

// proposed is what was noted of a field; fallback, as the plan has it, until somebody enters something.
export const proposed = (name, fallback) => (values[name] === undefined ? fallback : values[name]);

// judging are the samples that accuracy is measured on, as options of a job: {data, labels, label_offset, samples, metric,
// alphabet}, those that are known.
/** @param {App} app @returns {Partial<Core.DataOptions>} */
export function judging(app) {
  const d = /** @type {Partial<Core.DataOptions>} */ (app.state.data || {}), data = linesOf(proposed("data", (d.data || []).join("\n")));
  const all = { data: data.length ? data : "", labels: proposed("labels", d.labels), samples: Number(proposed("samples", 0)),
    label_offset: Number(proposed("label_offset", d.label_offset || 0)), metric: proposed("metric", d.metric),
    alphabet: proposed("alphabet", d.alphabet) };
  return Object.fromEntries(Object.entries(all).filter(([, value]) => value));
}

// linesOf are the lines of a field that takes several names.
export const linesOf = (text) => String(text || "").split("\n").map((line) => line.trim()).filter(Boolean);
