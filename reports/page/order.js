// The error operator by operator, in the order of the network: a bar for what has accumulated up to it, a dot for what it makes alone.
import { replace, svg } from "./dom.js";
import { bareSQNR, known, shorten, small, sqnr } from "./format.js";

const manyRows = 1000;

// orderScale is a logarithmic axis for values from bottom to top: at most eight decades, what is smaller or not above 0 lies at the bottom.
export function orderScale(values, top, bottom) {
  const positive = values.filter((x) => x > 0);
  const high = Math.log10(positive.reduce((a, b) => Math.max(a, b), 1e-6)) + 0.1;
  const low = Math.min(Math.max(Math.log10(positive.reduce((a, b) => Math.min(a, b), 1)) - 0.2, high - 8), high - 0.3);
  return { low, high, y: (v) => (v > 0 ? Math.min(bottom, top + (bottom - top) * (1 - (Math.log10(v) - low) / (high - low))) : bottom) };
}

// namedAt are the places of rows whose names stand on the axis: all that fit with a gap between, those with the largest errors first.
export function namedAt(rows, gap) {
  const size = (r) => Math.max(r.dot || 0, r.dot === null || r.dot === undefined ? r.bar || 0 : 0), chosen = [];
  const order = rows.map((_, i) => i).sort((a, b) => size(rows[b]) - size(rows[a]) || a - b);
  for (const i of order) {
    if (chosen.every((j) => Math.abs(i - j) >= gap)) chosen.push(i);
    if (chosen.length * gap > rows.length + gap) break;
  }
  return chosen.sort((a, b) => a - b);
}

// drawOrder draws rows of {name, bar, dot, error} on a logarithmic scale into host; error is the standard error of the dot. The axis has
// the names that fit. A click calls pick(name).
export function drawOrder(host, rows, { pick }) {
  const height = 268, left = 66, top = 10, bottom = height - 102;
  const { low, high, y } = orderScale(rows.flatMap((r) => [r.bar, r.dot]), top, bottom);
  const bars = rows.some((r) => known(r.bar)), dots = rows.some((r) => known(r.dot));
  const picture = svg("svg", { class: "bars", role: "img",
    "aria-label": [bars && "error up to each operator", dots && "error of each alone"]
      .filter(Boolean).join(", and ") + ", in the order of the network; the table has the numbers" });
  let width = 0;
  replace(host, picture);
  new ResizeObserver(() => {
    if (host.clientWidth && host.clientWidth !== width) draw();
  }).observe(host);
  draw();

  function draw() {
    width = Math.max(host.clientWidth || 600, 260);
    const step = (width - left - 4) / Math.max(rows.length, 1), x = (i) => left + 2 + i * step, wide = Math.max(step - 1, 0.5);
    const title = (r) =>
      r.name + ": "
      + [known(r.bar) && `up to here ${sqnr(r.bar)} (NSR ${small(r.bar)})`, known(r.dot) && `alone ${sqnr(r.dot)} (NSR ${small(r.dot)})`]
        .filter(Boolean).join(", ");
    const lines = [];
    for (let p = Math.floor(low); p <= high; p++) {
      for (const v of (high - low < 2 ? [1, 2, 5] : [1]).map((m) => m * 10 ** p)) {
        if (Math.log10(v) < low || Math.log10(v) > high) continue;
        lines.push(svg("line", { class: "grid", x1: left, x2: width, y1: y(v), y2: y(v) }),
          svg("text", { class: "tick end", x: left - 6, y: y(v) + 4 }, bareSQNR(v)[0].replace(/\.0$/, "")));
      }
    }
    picture.setAttribute("viewBox", "0 0 " + width + " " + height);
    replace(picture, lines, rows.length > manyRows
      ? svg("path", { class: "column",
        d: rows.map((r, i) => "M" + x(i).toFixed(2) + " " + bottom + "V" + y(r.bar).toFixed(1) + "h" + wide.toFixed(2) + "V" + bottom + "Z")
          .join("") })
      : rows.map((r, i) =>
        svg("g", { onclick: () => pick(r.name), title: title(r) },
          svg("rect", { class: "grip", x: x(i), width: step, y: top, height: bottom - top }),
          svg("rect", { class: "column", x: x(i), width: wide, y: y(r.bar), height: bottom - y(r.bar) }))
      ), rows.map((r, i) =>
        r.dot > 0 && r.error > 0
        && svg("line", { class: "reach", x1: x(i) + wide / 2, x2: x(i) + wide / 2, y1: y(r.dot - 2 * r.error), y2: y(r.dot + 2 * r.error) })
      ),
      rows.map((r, i) =>
        r.dot > 0 && svg("circle", { class: "alone", cx: x(i) + wide / 2, cy: y(r.dot), r: Math.max(1.2, Math.min(3, step / 3)) })
      ), namedAt(rows, Math.ceil(13 / step)).map((i) => {
        const at = x(i) + wide / 2;
        return [
          svg("line", { class: "grid", x1: at, x2: at, y1: bottom, y2: bottom + 4 }),
          svg("text", { class: "tick end", x: at, y: bottom + 12, transform: `rotate(-42 ${at} ${bottom + 12})` },
            shorten(rows[i].name, Math.max(6, Math.min(16, Math.floor(at / 5))))),
        ];
      }), svg("text", { class: "tick mid", x: (left + width) / 2, y: height - 4 }, "operators, from input to output; SQNR in dB, "
        + [bars && "bars: up to here", dots && (rows.some((r) => r.error > 0) ? "dots: alone, with two standard errors" : "dots: alone")]
          .filter(Boolean).join(", ")));
  }
}
