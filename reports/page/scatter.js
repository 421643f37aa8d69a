// Choices by their cost and their error, an NSR in decibels of SQNR: points with error bars, the line of those that none beats in both, and
// a grey band of what cannot be told from no error at all.
import { el, replace, svg } from "./dom.js";
import { bareSQNR, bytes, count, exact, known, points as percentPoints, small, sqnr, withError } from "./format.js";
import { ticks } from "./histogram.js";

// spread is half of the bar of a point: its true value lies in the bar with 95 %, as in a sweep.
const spread = (p) => 1.96 * (p.error || 0);

// drawScatter draws a search (reports.Search). Options: onPick(point), height. Other errors are on a logarithmic axis where all are
// above 0 and they span more than a factor of ten.
export function drawScatter(host, search, options) {
  const { onPick, height = 320 } = options || {}, list = search.points;
  const costText = (x) => (search.cost === "bytes" ? bytes(x) : count(x)),
    noise = /NSR$/.test(search.metric),
    named = noise ? search.metric.replace("NSR", "SQNR") + ", dB" : search.metric,
    metricText = (p) => search.percent ? percentPoints(p.metric, p.error) : noise ? sqnr(p.metric, p.error) : withError(p.metric, p.error);
  const tickText = (v) => (noise ? bareSQNR(v)[0].replace(/\.0$/, "") : small(v));
  let width = 0;
  const picture = svg("svg", { class: "scatter", role: onPick ? "group" : "img",
      "aria-label": named + " against " + search.cost + " of " + list.length + " choices" }),
    note = el("p", { class: "soft", "aria-live": "polite" });
  replace(host, picture, note, table());
  new ResizeObserver(() => {
    if (host.clientWidth && host.clientWidth !== width) draw();
  }).observe(host);
  draw();

  function draw() {
    width = Math.max(host.clientWidth || 600, 260);
    const left = 64, right = width - 16, top = 12, bottom = height - 44;
    const low = list.map((p) => p.metric - spread(p)), high = list.map((p) => p.metric + spread(p));
    const errors = list.map((p) => p.metric), floor = Math.min(...errors.filter((v) => v > 0)),
      log = noise ? floor < Infinity : Math.min(...errors) > 0 && Math.max(...errors) > 10 * floor;
    const scale = (v) => (log ? Math.log10(Math.max(v, floor / 3)) : v);
    let y0 = Math.min(...low.map(scale), ...(log ? [] : [0])),
      y1 = Math.max(...high.map(scale), ...(known(search.budget) && search.budget > 0 ? [scale(search.budget)] : []));
    if (!(y1 > y0)) y1 = y0 + 1;
    y1 += (y1 - y0) * 0.06;
    let x1 = Math.max(...list.map((p) => p.cost)) * 1.05 || 1;
    const x0 = Math.min(...list.map((p) => p.cost)) < x1 / 2 ? 0 : Math.min(...list.map((p) => p.cost)) * 0.97;
    const x = (v) => left + ((v - x0) / (x1 - x0)) * (right - left), share = (v) => (scale(v) - y0) / (y1 - y0),
      y = (v) => noise ? top + share(v) * (bottom - top) : bottom - share(v) * (bottom - top); // a large SQNR stands high, as a small error
    // What lies within twice its error of zero cannot be told from float.
    const float = Math.max(0, ...list.filter((p) => known(p.error) && p.metric <= 2 * p.error).map((p) => p.metric + p.error));
    const yTicks = log && noise ? ticks(-10 * y1, -10 * y0).map((v) => 10 ** (-v / 10)) : log
      ? Array.from({ length: Math.ceil(y1) - Math.floor(y0) + 1 }, (_, i) => Math.pow(10, Math.floor(y0) + i)).filter((v) =>
        scale(v) >= y0 && scale(v) <= y1
      ) : ticks(y0, y1);
    const front = list.filter((p) => p.pareto).sort((a, b) => a.cost - b.cost);
    picture.setAttribute("viewBox", "0 0 " + width + " " + height);
    picture.style.setProperty("height", height + "px");
    replace(picture, float > 0
      && svg("rect", { class: "band", x: left, y: noise ? top : y(float), width: right - left,
        height: Math.max(noise ? y(float) - top : bottom - y(float), 0), title: "Cannot be told from float on these samples" }), yTicks.map(
        (v) => [
          svg("line", { class: "grid", x1: left, x2: right, y1: y(v), y2: y(v) }),
          svg("text", { class: "tick end", x: left - 6, y: y(v) + 4 }, tickText(v)),
        ]
      ), ticks(x0, x1).map((v) => svg("text", { class: "tick mid", x: x(v), y: bottom + 16 }, costText(v))),
      svg("line", { class: "axis", x1: left, x2: right, y1: bottom, y2: bottom }), known(search.budget) && search.budget > 0
      && [
        svg("line", { class: "axis", x1: left, x2: right, y1: y(search.budget), y2: y(search.budget), "stroke-dasharray": "6 4" }),
        svg("text", { class: "tick end", x: right, y: y(search.budget) - 4 }, "budget " + tickText(search.budget)),
      ], front.length > 1
      && svg("path", { class: "front",
        d: front.map((p, i) => (i ? "L" : "M") + x(p.cost).toFixed(1) + " " + y(p.metric).toFixed(1)).join("") }),
      list.map((p) => mark(p, x(p.cost), y(p.metric))), list.map((p) =>
        known(p.error)
        && svg("path", { class: "bar-error",
          d: [p.metric + spread(p), p.metric - spread(p)].map((v) => "M" + (x(p.cost) - 4).toFixed(1) + " " + y(v).toFixed(1) + "h8m-4 0")
            .join(
              "V" + y(p.metric - spread(p)).toFixed(1)
            ) })
      ), svg("text", { class: "tick mid", x: (left + right) / 2, y: height - 6 }, search.cost),
      svg("text", { class: "tick", x: 4, y: top - 1 }, named));
  }

  function mark(p, x, y) {
    const title = p.label + ": " + (noise ? "SQNR" : search.metric) + " " + metricText(p) + ", " + costText(p.cost) + " (" + search.cost
      + ")"
      + (p.chosen ? ", chosen" : "");
    const say = () => {
      note.textContent = title;
    };
    const pick = onPick && (() => onPick(p));
    return svg(p.chosen ? "path" : "circle", { class: "point" + (p.chosen ? " chosen" : p.pareto ? "" : " off"),
      ...(p.chosen ? { d: "M" + x + " " + (y - 8) + "l8 8-8 8-8-8z" } : { cx: x, cy: y, r: 6 }), title, tabindex: "0",
      role: pick ? "button" : "img", "aria-label": title, onfocus: say, onpointerenter: say, onclick: pick, onkeydown: pick && ((e) => {
        if (e.key === "Enter" || e.key === " ") {
          e.preventDefault();
          pick();
        }
      }) });
  }

  function table() {
    return el("details", null, el("summary", null, "As a table"),
      el("div", { class: "scroll" },
        el("table", null,
          el("thead", null, el("tr", null, el("th", { class: "name" }, "choice"), el("th", null, named), el("th", null, search.cost))),
          el("tbody", null,
            list.map((p) =>
              el("tr", null, el("td", { class: "name" }, p.label + (p.chosen ? " (chosen)" : "")),
                el("td", { title: exact(p.metric) }, metricText(p)), el("td", { title: exact(p.cost) }, costText(p.cost)))
            )))));
  }
}
