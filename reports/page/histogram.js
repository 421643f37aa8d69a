// The histogram of a tensor with what quantization does to it: the grid of levels, the range that each observer chooses, and two handles
// for the range in use, which can be dragged or moved by the arrow keys where the page is alive.
import { el, replace, svg } from "./dom.js";
import { count, exact, number, plural } from "./format.js";

// shapeOf takes a tensor as analyze has it ({min, max, histogram, thresholds}) or as a running workbench has it ({bins: {edges, counts},
// observers, lo, hi, grid}).
function shapeOf(t) {
  const counts = t.histogram || (t.bins && t.bins.counts) || [];
  let edges = t.edges || (t.bins && t.bins.edges);
  if (!edges) edges = Array.from({ length: counts.length + 1 }, (_, i) => t.min + ((t.max - t.min) * i) / Math.max(counts.length, 1));
  const thresholds = (t.thresholds || t.observers || []).map((o) => ({ ...o, method: o.method || o.name })),
    used = thresholds.find((o) => o.used);
  return { counts, edges, thresholds, lo: t.lo === undefined ? used && used.lo : t.lo, hi: t.hi === undefined ? used && used.hi : t.hi };
}

// drawHistogram draws a tensor into host. Options: grid {scale, zero, lowest, highest} (else tensor.grid); onDrag(lo, hi, done), which
// makes the handles; keyed: false leaves out which line is which observer's; other, a second tensor drawn as an outline; height. It returns
// {setRange(lo, hi), setGrid(grid), setNote(lines)}: what stands beside the handle that is moved.
export function drawHistogram(host, tensor, options) {
  const { onDrag, other, keyed = true, height = 170 } = options || {};
  const shape = shapeOf(tensor), second = other && shapeOf(other);
  let grid = (options && options.grid) || tensor.grid || null, lo = shape.lo, hi = shape.hi, width = 0, scale = null, said = [],
    moved = "hi";
  const picture = svg("svg", { class: "histogram", role: onDrag ? "group" : "img", "aria-label": label() });
  const note = el("p", { class: "soft levels" });
  replace(host, picture, note, keyed && key());
  if (!shape.counts.length || !(shape.edges.at(-1) > shape.edges[0])) {
    replace(host,
      el("p", { class: "soft" },
        shape.counts.length ? "All values are " + number(shape.edges[0]) + "." : "No histogram of this tensor is known."));
    return { setRange() {}, setGrid() {}, setNote() {} };
  }
  new ResizeObserver(() => {
    if (host.clientWidth && Math.abs(host.clientWidth - width) > 1) draw();
  }).observe(host);
  draw();
  return {
    setRange(a, b) {
      lo = a;
      hi = b;
      draw();
    },
    setGrid(g) {
      grid = g;
      draw();
    },
    setNote(lines) {
      said = lines;
      draw();
    },
  };

  function label() {
    return "Histogram of " + (tensor.tensor || "the tensor") + ", values from " + number(shape.edges[0]) + " to "
      + number(shape.edges.at(-1));
  }

  function draw() {
    width = Math.max(host.clientWidth || 380, 200);
    const left = 8, right = width - 8, top = 16, bottom = height - 34;
    let from = shape.edges[0], to = shape.edges.at(-1);
    for (const t of [...shape.thresholds, { lo, hi }, ...(second ? [{ lo: second.edges[0], hi: second.edges.at(-1) }] : [])]) {
      if (Number.isFinite(t.lo)) from = Math.min(from, t.lo);
      if (Number.isFinite(t.hi)) to = Math.max(to, t.hi);
    }
    const margin = onDrag ? (to - from) * 0.05 : 0;
    from -= margin;
    to += margin;
    const x = (v) => left + ((v - from) / (to - from)) * (right - left);
    scale = { x, back: (px) => from + ((px - left) / (right - left)) * (to - from), from, to };
    picture.setAttribute("viewBox", "0 0 " + width + " " + height);
    picture.style.setProperty("height", height + "px");
    const held = document.activeElement, focused = held instanceof SVGElement && picture.contains(held) && held.dataset.end;
    replace(picture, levels(x, left, right, bottom), svg("path", { class: "area", d: outline(shape, x, top, bottom) }),
      second && svg("path", { class: "outline", d: outline(second, x, top, bottom) }),
      Number.isFinite(lo) && svg("rect", { class: "cut", x: left, y: top, width: Math.max(x(lo) - left, 0), height: bottom - top }),
      Number.isFinite(hi) && svg("rect", { class: "cut", x: x(hi), y: top, width: Math.max(right - x(hi), 0), height: bottom - top }),
      shape.thresholds.map((t, i) =>
        [t.lo, t.hi].map((v) =>
          Number.isFinite(v) && v !== 0
          && svg("line", { class: "limit m" + (i % 6) + (t.used ? " used" : ""), x1: x(v), x2: x(v), y1: top - 6, y2: bottom,
            title: t.method + ": " + number(v) })
        )
      ), svg("line", { class: "axis", x1: left, x2: right, y1: bottom, y2: bottom }),
      ticks(from, to).map((v) => svg("text", { class: "tick mid", x: Math.min(Math.max(x(v), 22), width - 22), y: height - 6 }, number(v))),
      onDrag && [handle("lo", top, bottom), handle("hi", top, bottom), beside(x, top)]);
    if (focused) picture.querySelector("[data-end=" + focused + "]").focus();
  }

  // beside is what stands next to the handle that is moved, on the side where there is room.
  function beside(x, top) {
    const at = x(moved === "lo" ? lo : hi), left = moved === "lo" ? at > width / 2 : at > 184;
    return said.length > 0
      && svg("g", { class: "beside-handle", "aria-hidden": "true" },
        svg("rect", { x: left ? at - 176 : at + 10, y: top + 4, width: 166, height: 17 * said.length + 8, rx: 5 }),
        said.map((line, i) => svg("text", { class: i ? "" : "first", x: left ? at - 168 : at + 18, y: top + 20 + 17 * i }, line)));
  }

  // levels is a strip below the axis with a mark for each value that can be represented, a solid band where they lie too close to draw.
  function levels(x, left, right, bottom) {
    replace(note);
    if (!grid || !(grid.scale > 0)) return null;
    const n = grid.highest - grid.lowest + 1, at = (code) => x(grid.scale * (code - grid.zero)), step = Math.abs(at(1) - at(0));
    const lowest = grid.scale * (grid.lowest - grid.zero), highest = grid.scale * (grid.highest - grid.zero);
    note.append(
      plural(n, "level") + " from " + number(lowest) + " to " + number(highest) + ", " + number(grid.scale) + " apart (zero point "
        + grid.zero + ")"
    );
    note.title = "Levels are the values that the integers stand for: scale × (integer − zero point). Scale " + exact(grid.scale);
    const a = Math.max(at(grid.lowest), left), b = Math.min(at(grid.highest), right);
    if (!(b > a)) return null;
    if (step < 2.5) return svg("rect", { class: "levels", x: a, y: bottom + 3, width: b - a, height: 6 });
    let d = "";
    for (let code = grid.lowest; code <= grid.highest; code++) {
      if (at(code) >= left - 1 && at(code) <= right + 1) d += "M" + at(code).toFixed(1) + " " + (bottom + 2) + "v8";
    }
    return svg("path", { class: "level", d });
  }

  function handle(end, top, bottom) {
    const value = end === "lo" ? lo : hi;
    if (!Number.isFinite(value)) return null;
    const px = scale.x(value), step = (scale.to - scale.from) / 200;
    const g = svg("g", { class: "handle", tabindex: "0", role: "slider",
      "aria-label": (end === "lo" ? "Lower" : "Upper") + " end of the range", data: { end }, "aria-valuemin": scale.from,
      "aria-valuemax": scale.to, "aria-valuenow": value, "aria-valuetext": number(value), onpointerdown: grab, onkeydown: press },
      svg("rect", { class: "grip", x: px - 12, y: top - 8, width: 24, height: bottom - top + 8 }),
      svg("line", { x1: px, x2: px, y1: top - 8, y2: bottom }), svg("path", { d: "M" + (px - 6) + " " + (top - 10) + "h12l-6 9z" }));
    function move(v, done) {
      moved = end;
      if (end === "lo") lo = Math.min(v, hi - step / 100);
      else hi = Math.max(v, lo + step / 100);
      draw();
      onDrag(lo, hi, done);
    }
    function grab(e) {
      if (e.button) return;
      e.preventDefault();
      g.focus();
      const moved = (m) =>
        move(scale.back(((m.clientX - picture.getBoundingClientRect().left) * width) / picture.getBoundingClientRect().width), false);
      const up = (m) => {
        removeEventListener("pointermove", moved);
        removeEventListener("pointerup", up);
        removeEventListener("pointercancel", up);
        onDrag(lo, hi, true);
      };
      addEventListener("pointermove", moved);
      addEventListener("pointerup", up);
      addEventListener("pointercancel", up);
    }
    function press(e) {
      const by = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageDown: -10, PageUp: 10 }[e.key];
      if (!by) return;
      e.preventDefault();
      move((end === "lo" ? lo : hi) + by * step * (e.shiftKey ? 10 : 1), true);
    }
    return g;
  }

  function key() {
    if (!shape.thresholds.length) return null;
    return el("ul", { class: "key", "aria-label": "Ranges by observer" }, shape.thresholds.map((t, i) => {
      const text = [el("b", null, t.method), " " + number(t.lo) + " to " + number(t.hi)],
        title = exact(t.lo) + " to " + exact(t.hi) + (t.used ? ", in use" : "");
      return el("li", { class: t.used && "used", title }, observerMark(i, t.used), text, t.used && " (in use)");
    }));
  }
}

// observerMark is the line that stands for the i-th observer.
export const observerMark = (i, used) =>
  svg("svg", { class: "mark", viewBox: "0 0 14 12", "aria-hidden": "true" },
    svg("line", { class: "limit m" + (i % 6) + (used ? " used" : ""), x1: 7, x2: 7, y1: 0, y2: 12 }));

// outline is the path of a histogram, its counts on a logarithmic scale.
export function outline(shape, x, top, bottom) {
  const most = Math.log1p(Math.max(...shape.counts, 1));
  let d = "M" + x(shape.edges[0]).toFixed(1) + " " + bottom;
  shape.counts.forEach((n, i) => {
    const y = (bottom - (Math.log1p(n) / most) * (bottom - top)).toFixed(1);
    d += "L" + x(shape.edges[i]).toFixed(1) + " " + y + "L" + x(shape.edges[i + 1]).toFixed(1) + " " + y;
  });
  return d + "L" + x(shape.edges.at(-1)).toFixed(1) + " " + bottom + "Z";
}

// ticks are three to five round values between two.
export function ticks(from, to) {
  const raw = (to - from) / 4, power = Math.pow(10, Math.floor(Math.log10(raw)));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= raw) || raw, list = [];
  for (let i = Math.ceil(from / step); i * step <= to; i++) list.push(i * step);
  return list;
}

// drawChannels draws the smallest and the largest weight of every output channel.
export function drawChannels(host, ranges, options) {
  const { height = 130, name = "" } = options || {}, width = Math.max(host.clientWidth || 380, 200),
    limit = Math.max(...ranges.map((r) => Math.max(-r[0], r[1])), 0) || 1;
  const step = (width - 16) / ranges.length, y = (v) => 8 + (1 - v / limit) * (height - 34) / 2;
  const wide = ranges.length <= 160;
  let d = "";
  if (!wide) {
    d = ranges.map((r, i) => (i ? "L" : "M") + (8 + i * step).toFixed(1) + " " + y(r[1]).toFixed(1) + "h" + step.toFixed(2)).join("")
      + ranges.map((_, k) => {
        const i = ranges.length - 1 - k;
        return "L" + (8 + (i + 1) * step).toFixed(1) + " " + y(ranges[i][0]).toFixed(1) + "h" + (-step).toFixed(2);
      }).join("") + "Z";
  }
  replace(host,
    svg("svg", { class: "ranges", viewBox: "0 0 " + width + " " + height, role: "img",
      "aria-label": "Range of the weights of each output channel of " + name, style: { height: height + "px" } }, wide
      ? ranges.map((r, i) =>
        svg("rect", { class: "range", x: 8 + i * step + step * 0.1, y: y(r[1]), width: step * 0.8, height: Math.max(y(r[0]) - y(r[1]), 0.7),
          title: "channel " + i + ": " + number(r[0]) + " to " + number(r[1]) })
      )
      : svg("path", { class: "range", d }), svg("line", { class: "axis", x1: 8, x2: width - 8, y1: y(0), y2: y(0) }),
      svg("text", { class: "tick", x: 8, y: height - 6 }, count(ranges.length) + " channels, weights within ±" + number(limit))));
}
