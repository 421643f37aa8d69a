// Figures with their error bars, one line each: what can be told apart is seen at once. Used where there is no second axis.
import { el, svg } from "../dom.js";
import { number } from "../format.js";

// drawIntervals draws rows {label, value, error, title, mark, pick()} from top to bottom. band {from, to, label} is what cannot be told
// apart. noise: values are NSRs, drawn in decibels. Drawn anew where the window changes.
/** @param {HTMLElement} host @param {any[]} rows @param {{ label: string; band?: any; noise?: boolean }} choices */
export function drawIntervals(host, rows, choices) {
  let drawn = 0;
  const draw = () => {
    const width = pictureWidth(host);
    if (width !== drawn) host.replaceChildren(el("div", { class: "scroll" }, intervals(rows, drawn = width, choices)));
  };
  new ResizeObserver(draw).observe(host);
  draw();
}

/** @param {any[]} rows @param {number} width @param {{ label: string; band?: any; noise?: boolean }} choices */
function intervals(rows, width, { label, band, noise }) {
  const low = (r) => r.value - 2 * (r.error || 0), high = (r) => r.value + 2 * (r.error || 0);
  const above = rows.map((r) => r.value).filter((v) => v > 0), floor = above.length ? Math.min(...above) / 4 : 1; // a bar may reach 0
  const at = (v) => (noise ? -10 * Math.log10(Math.max(v, floor)) : v);
  const ends = rows.flatMap((r) => [at(low(r)), at(high(r))]);
  const min = Math.min(...ends), max = Math.max(...ends), span = max - min || 1;
  const names = Math.min(260, Math.round(0.36 * width)), step = 24, top = 8, height = top + rows.length * step + 34;
  const place = (v) => names + 10 + ((v - min) / span) * (width - names - 30), x = (v) => place(at(v));
  const picture = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, class: "intervals", role: "img",
    "aria-label": `${label}: ${rows.length} values with error bars of two standard errors; the table has the numbers` });
  if (band) {
    const [from, to] = [x(band.from), x(band.to)].sort((a, b) => a - b);
    picture.append(
      svg("rect", { class: "band", x: from, y: top, width: Math.max(to - from, 2), height: rows.length * step },
        svg("title", {}, band.label))
    );
  }
  for (const t of ticksOf(min, max, Math.max(2, Math.floor((width - names) / 90)))) {
    picture.append(svg("line", { class: "rule", x1: place(t), x2: place(t), y1: top, y2: top + rows.length * step }),
      svg("text", { class: "tick", x: place(t), y: top + rows.length * step + 15, "text-anchor": "middle" }, number(t)));
  }
  rows.forEach((r, i) => {
    const y = top + i * step + step / 2, group = svg("g", { class: `interval ${r.mark || ""}` }, svg("title", {}, r.title || r.label));
    group.append(svg("text", { class: "name", x: names, y: y + 4, "text-anchor": "end" }, shortEnd(r.label, Math.floor(names / 6.6))),
      svg("line", { class: "bar", x1: x(low(r)), x2: x(high(r)), y1: y, y2: y }));
    for (const end of r.error ? [low(r), high(r)] : []) {
      group.append(svg("line", { class: "bar", x1: x(end), x2: x(end), y1: y - 4, y2: y + 4 }));
    }
    // Filled or hollow, not by colour alone: the best ones are filled.
    group.append(
      r.mark === "best" ? svg("circle", { cx: x(r.value), cy: y, r: 5 }) : svg("rect", { x: x(r.value) - 4, y: y - 4, width: 8, height: 8 })
    );
    if (r.pick) group.addEventListener("click", r.pick);
    picture.append(group);
  });
  picture.append(
    svg("text", { class: "axis", x: width < 500 ? width / 2 : (names + width) / 2, y: height - 4, "text-anchor": "middle" },
      `${label} (bars: two standard errors)`)
  );
  return picture;
}

// pictureWidth is how wide a picture is drawn, so that its letters have their size on narrow screens too.
function pictureWidth(host) {
  return Math.max(320, Math.min(host.clientWidth || document.documentElement.clientWidth - 60, 900));
}

const shortEnd = (text, n) => (text.length > n ? `${text.slice(0, n - 1)}…` : text);

// ticksOf are round positions on an axis, in steps of 1, 2 or 5: two at least.
function ticksOf(min, max, most) {
  const list = [], raw = (max - min || 1) / most, unit = 10 ** Math.floor(Math.log10(raw)),
    step = unit * [1, 2, 5, 10].find((m) => m * unit >= raw);
  for (let i = Math.ceil(min / step); i * step <= max; i++) list.push(Number((i * step).toPrecision(12)));
  return list.length > 1 || most > 8 ? list : ticksOf(min, max, 2 * most);
}
