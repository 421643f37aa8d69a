// One tensor in two plans: values, ranges and levels of both over one axis, and the same as a table.
import { el, svg } from "../dom.js";
import { exact, number, ofNoise, partSQNR, percent, plural, problemText, sqnr } from "../format.js";
import { outline, ticks } from "../histogram.js";
import { message, showOperator } from "./parts.js";

// showPair asks for a tensor of an operator in plans a and b, and draws it. Without at it is the first whose scales differ.
/** @param {HTMLElement} host @param {App} app @param {string} a @param {string} b @param {string} node @param {string} at */
export async function showPair(host, app, a, b, node, at) {
  message(host, `reading ${node} …`);
  host.scrollIntoView({ block: "nearest" });
  let pair;
  try {
    pair = await app.client.call("tensor-pair", { a, b, node, ...(at ? { at } : {}) });
  } catch (problem) {
    message(host, problemText(problem), true);
    return;
  }
  const sides = [{ name: "A", file: a, tensor: pair.a }, { name: "B", file: b, tensor: pair.b }].filter((s) => s.tensor),
    picture = el("div", { class: "pair" });
  const choices = el("div", { class: "actions", role: "group", "aria-label": "Which tensor" },
    pair.ats.map((x) =>
      el("button", { type: "button", "aria-pressed": String(x === pair.at), onclick: () => showPair(host, app, a, b, node, x) }, x)
    ), el("button", { type: "button", onclick: () => showOperator(app, node) }, "Show this operator in the network"));
  host.replaceChildren(
    el("h4", {}, el("bdi", {}, `${node}:${pair.at}`), sides[0].tensor.tensor === node ? "" : ` (${sides[0].tensor.tensor})`),
    choices,
    picture,
    legend(pair, sides),
    el("p", { class: "hint" }, "How often values occur is drawn on a logarithmic scale. Marks below the axis are the levels."),
    figures(sides)
  );
  drawPair(picture, pair, sides);
  host.scrollIntoView({ block: "nearest" });
}

// rangeText says in words what a side can represent.
function rangeText({ tensor: t }) {
  if (!t.grid.length) return t.why || "no range";
  return `${number(t.lo)} to ${number(t.hi)}, ${plural(t.levels, "level")}${/^u?int/.test(t.scheme) ? ` ${number(t.scale)} apart` : ""}${
    t.scales > 1 ? ` (the widest of ${t.scales} scales)` : ""
  }`;
}

/** @param {Core.TensorPair} pair */
const valuesText = (pair, sides) => (pair.same ? "the same values in both" : `values in ${sides.map((s) => s.name).join(" and ")}`);

/** @param {Core.TensorPair} pair */
function legend(pair, sides) {
  const line = (s) =>
    svg("svg", { class: "mark", viewBox: "0 0 14 12", "aria-hidden": "true" },
      svg("line", { class: `limit side-${s.name}`, x1: 7, x2: 7, y1: 0, y2: 12 }));
  const values = (name, text) =>
    el("li", {},
      svg("svg", { class: "mark", viewBox: "0 0 14 12", "aria-hidden": "true" }, svg("path", { class: name, d: "M1 11V5H5V2H9V7H13V11Z" })),
      text);
  const drawn = sides.filter((s) => s.tensor.bins.counts.length);
  return el("ul", { class: "key", "aria-label": "Legend" }, pair.same ? values("area", "values, the same in both")
    : drawn.map((s) => values(s.name === "A" ? "area" : "values-B", `values in ${s.name}`)),
    sides.map((s) =>
      el("li", {}, line(s), el("b", {}, s.name), " ", el("bdi", { title: s.file }, s.file.split("/").pop()), `: ${rangeText(s)}`)
    ));
}

/** @param {HTMLElement} host @param {Core.TensorPair} pair */
function drawPair(host, pair, sides) {
  const picture = svg("svg", { class: "histogram", role: "img",
    "aria-label": `Histogram: ${valuesText(pair, sides)}. ${sides.map((s) => `${s.name}: ${rangeText(s)}`).join(". ")}.` });
  const height = 250, top = 30, bottom = height - 26 - 13 * sides.length, left = 20;
  let width = 0;
  host.replaceChildren(picture);
  const draw = () => {
    width = Math.max(host.clientWidth || 380, 200);
    const right = width - left, span = pair.to - pair.from || 1, x = (v) => left + ((v - pair.from) / span) * (right - left);
    picture.setAttribute("viewBox", `0 0 ${width} ${height}`);
    picture.style.setProperty("height", `${height}px`);
    const shape = (
      s,
      name,
    ) => (s.tensor.bins.counts.length ? [svg("path", { class: name, d: outline(s.tensor.bins, x, top, bottom) })] : []);
    picture.replaceChildren(
      ...sides.flatMap((s) => (s.name === "A" || sides.length === 1 ? shape(s, "area") : pair.same ? [] : shape(s, "values-B"))),
      svg("line", { class: "axis", x1: left, x2: right, y1: bottom, y2: bottom }),
      ...ticks(pair.from, pair.to).map((v) =>
        svg("text", { class: "tick mid", x: Math.min(Math.max(x(v), 22), width - 22), y: height - 6 }, number(v))
      ),
      ...sides.flatMap((s, i) => range(s, x, 11 + 12 * i, bottom)),
      ...sides.flatMap((s, i) => levels(s, x, bottom + 4 + 13 * i))
    );
  };
  new ResizeObserver(() => {
    if (host.clientWidth && Math.abs(host.clientWidth - width) > 1) draw();
  }).observe(host);
  draw();
}

// range are the two ends of what a side can represent, with its letter at each.
function range({ name, tensor: t }, x, y, bottom) {
  if (!t.grid.length) return [];
  return [t.lo, t.hi].flatMap((
    v,
    i,
  ) => [
    svg("line", { class: `limit side-${name}`, x1: x(v), x2: x(v), y1: y + 3, y2: bottom, title: `${name}: ${number(v)}` }),
    svg("text", { class: `letter-${name} ${i ? "end" : ""}`, x: x(v) + (i ? 5 : -5), y }, name),
  ]);
}

// levels is a strip with a mark for each value that can be represented, solid where they lie too close to draw.
function levels({ name, tensor: t }, x, y) {
  if (!t.grid.length) return [];
  const from = x(t.lo), to = x(t.hi);
  if ((to - from) / t.levels < 2.5) {
    return [svg("rect", { class: `levels-${name}`, x: from, y: y + 1, width: Math.max(to - from, 1), height: 7 })];
  }
  return [svg("path", { class: `level-${name}`, d: t.grid.map((v) => `M${x(v).toFixed(1)} ${y}v9`).join("") })];
}

// figures is the table of both sides.
function figures(sides) {
  const ready = (t) => t.grid.length > 0;
  /** @type {[string, string, (t: Core.Tensor) => string, (t: Core.Tensor) => boolean, ((t: Core.Tensor) => string)?][]} */
  const rows = [
    ["tensor", "", (t) => t.tensor, () => true],
    ["number format", "", (t) => (t.quantized ? t.scheme : "float"), () => true],
    ["observer", "the method that chose the range", (t) => t.observer || "–", () => true],
    [
      "values seen",
      "the smallest and the largest value of the calibration samples",
      (t) => `${number(t.min)} to ${number(t.max)}`,
      (t) => t.count > 0,
    ],
    ["range", "the smallest and the largest value that can be represented", (t) => `${number(t.lo)} to ${number(t.hi)}`, ready],
    ["levels", "how many values can be represented", (t) => String(t.levels), ready],
    [
      "scale",
      "distance between two levels",
      (t) => `${number(t.scale)}${t.scales > 1 ? `, the largest of ${t.scales}` : ""}`,
      ready,
      (t) => exact(t.scale),
    ],
    ["zero point", "the integer that stands for 0", (t) => String(t.zero_point), ready],
    [
      "clip",
      "part of the error from values outside of the range: the SQNR with it alone",
      (t) => partSQNR(t.clip),
      ready,
      (t) => ofNoise(t.clip),
    ],
    ["round", "part of the error from rounding: the SQNR with it alone", (t) => partSQNR(t.round), ready, (t) => ofNoise(t.round)],
    [
      "SQNR",
      "signal-to-noise ratio of this tensor, clip and round together; larger is better",
      (t) => sqnr(t.nsr),
      ready,
      (t) => ofNoise(t.nsr),
    ],
    ["levels used", "share of the levels that some value falls on", (t) => percent(t.levels_used), ready],
  ];
  return el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "The tensor in both plans" },
    el("table", { class: "results" },
      el("caption", {}, "The tensor in both plans; clip, round and SQNR are of this tensor alone, from the statistics"),
      el("thead", {},
        el("tr", {}, el("th", { scope: "col", class: "name" }, "figure"),
          sides.map((s) => el("th", { scope: "col", title: s.file }, s.name)))),
      el("tbody", {},
        rows.map(([label, doc, text, has, title]) =>
          el("tr", {}, el("th", { scope: "row", class: "name", title: doc }, label), sides.map((s) =>
            el("td", { class: "num", title: title && has(s.tensor) ? title(s.tensor) : "" }, has(s.tensor) ? text(s.tensor) : "–")
          ))
        ))));
}
