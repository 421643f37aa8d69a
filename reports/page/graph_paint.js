// Paints a placed network on a canvas: colours only from afar, then types, then names and figures, then shapes of tensors. Only what is in
// sight is painted, boxes of one colour together, so that thousands of operators move smoothly.
import { inkOn } from "./colours.js";
import { visible } from "./dom.js";

// From which scale on what is painted.
const zoom = { arrows: 0.3, ends: 0.34, marks: 0.55, types: 0.26, names: 0.52, shapes: 0.72 };
const font = "system-ui, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif";
export const marks = {
  q: { text: "Q", doc: "quantized here: floating point becomes integers (QuantizeLinear)" },
  dq: { text: "DQ", doc: "dequantized here: integers become floating point (DequantizeLinear)" },
  qdq: { text: "Q DQ", doc: "rounded to the levels of a scale of its own; goes on as integers" },
  shared: { text: "=", doc: "rounded with the scale of another tensor" },
};

// readTheme takes the colours of the page, light or dark, from its style sheet.
export function readTheme(host) {
  const style = getComputedStyle(host), read = (name, otherwise) => style.getPropertyValue(name).trim() || otherwise;
  const dark = matchMedia("(prefers-color-scheme: dark)").matches && !matchMedia("print").matches;
  return { dark, ink: read("--ink", "#1d2530"), soft: read("--soft", "#66717f"), line: read("--line", "#dfe4ea"),
    paper: read("--paper", "#fff"), panel: read("--panel", "#f6f8fa"), accent: read("--accent", "#1f5fa8"), mark: read("--warn", "#8a5300"),
    found: dark ? "#ff9ecb" : "#b0307a" };
}

// printTheme is dark on white, whatever the screen has.
export const printTheme = { dark: false, ink: "#000000", soft: "#444c55", line: "#b8bfc7", paper: "#ffffff", panel: "#f4f6f8",
  accent: "#1b5fa8", mark: "#9c5c00", found: "#b0307a" };

// paintGraph paints what a view shows. view: scale, x, y (position of the picture's corner in pixels), width, height, ratio (pixels of the
// device per pixel). look: theme, scale (colours), values (index of colour per box, -1 none), texts, strips, chosen, cursor, hover, found.
export function paintGraph(ctx, scene, view, look) {
  const { theme } = look, s = view.scale;
  const seen = { left: -view.x / s, top: -view.y / s, right: (view.width - view.x) / s, bottom: (view.height - view.y) / s };
  const inSight = (b) => b.x < seen.right && b.x + b.w > seen.left && b.y < seen.bottom && b.y + b.h > seen.top;
  ctx.setTransform(view.ratio * s, 0, 0, view.ratio * s, view.ratio * view.x, view.ratio * view.y);
  ctx.lineJoin = "round";
  ctx.textBaseline = "middle";
  const frames = scene.frames.filter(inSight);
  for (const frame of frames) paintFrame(ctx, frame, s, theme, look.cursor === frame);
  const wires = [];
  scene.find("wires", seen.top, seen.bottom, (w) => {
    if (w.left < seen.right && w.right > seen.left) wires.push(w);
  });
  paintWires(ctx, wires, s, look);
  if (s >= zoom.types) { for (const frame of frames) paintTitle(ctx, frame, theme); }
  const boxes = [];
  scene.find("boxes", seen.top, seen.bottom, (b) => {
    if (inSight(b)) boxes.push(b);
  });
  paintBoxes(ctx, boxes, s, look);
  if (s >= zoom.ends) { for (const w of wires) paintMark(ctx, w, s, look); }
  ctx.setTransform(1, 0, 0, 1, 0, 0);
}

function paintFrame(ctx, frame, s, theme, isCursor) {
  ctx.globalAlpha = 0.55;
  ctx.fillStyle = theme.panel;
  ctx.fillRect(frame.x, frame.y, frame.w, frame.h);
  ctx.globalAlpha = 1;
  ctx.strokeStyle = isCursor ? theme.accent : s >= zoom.types ? theme.soft : theme.line;
  ctx.lineWidth = (isCursor ? 3 : 1) / s;
  if (s >= zoom.types) ctx.setLineDash([4 / s, 3 / s]);
  ctx.strokeRect(frame.x, frame.y, frame.w, frame.h);
  ctx.setLineDash([]);
}

function paintTitle(ctx, frame, theme) {
  paintSign(ctx, frame.x + 14, frame.y + 13, false, theme);
  ctx.font = `600 12px ${font}`;
  const text = fitText(ctx, frame, "title", frame.label, frame.w - 36, ctx.font);
  ctx.strokeStyle = theme.panel;
  ctx.lineWidth = 4;
  ctx.strokeText(text, frame.x + 26, frame.y + 13);
  ctx.fillStyle = theme.ink;
  ctx.fillText(text, frame.x + 26, frame.y + 13);
}

// paintSign is the plus or minus of a block.
function paintSign(ctx, x, y, plus, theme) {
  ctx.fillStyle = theme.paper;
  ctx.strokeStyle = theme.ink;
  ctx.lineWidth = 1.2;
  ctx.fillRect(x - 6, y - 6, 12, 12);
  ctx.strokeRect(x - 6, y - 6, 12, 12);
  ctx.beginPath();
  ctx.moveTo(x - 3.5, y);
  ctx.lineTo(x + 3.5, y);
  if (plus) {
    ctx.moveTo(x, y - 3.5);
    ctx.lineTo(x, y + 3.5);
  }
  ctx.stroke();
}

// traceWire draws lines that leave and enter boxes upright; from afar they are straight.
function traceWire(ctx, p, curved) {
  ctx.moveTo(p[0], p[1]);
  for (let i = 2; i < p.length; i += 2) {
    const x0 = p[i - 2], y0 = p[i - 1], x1 = p[i], y1 = p[i + 1];
    if (!curved || x0 === x1 || y1 <= y0) ctx.lineTo(x1, y1);
    else {
      const bend = Math.max((y1 - y0) / 2, 6);
      ctx.bezierCurveTo(x0, y0 + bend, x1, y1 - bend, x1, y1);
    }
  }
}

function paintWires(ctx, wires, s, look) {
  const { theme } = look, near = [], marked = [], rest = [];
  for (const w of wires) (look.near && look.near(w) ? near : look.markOf(w) === "q" || look.markOf(w) === "dq" ? marked : rest).push(w);
  const stroke = (some, colour, width) => {
    if (!some.length) return;
    ctx.strokeStyle = colour;
    ctx.lineWidth = width / s;
    ctx.beginPath();
    for (const w of some) traceWire(ctx, w.points, s >= zoom.types);
    ctx.stroke();
    if (s < zoom.arrows) return;
    ctx.fillStyle = colour;
    ctx.beginPath();
    for (const w of some) {
      if (!w.arrives) continue;
      const x = w.points[w.points.length - 2], y = w.points[w.points.length - 1];
      ctx.moveTo(x, y);
      ctx.lineTo(x - 3.5, y - 7);
      ctx.lineTo(x + 3.5, y - 7);
    }
    ctx.fill();
  };
  ctx.globalAlpha = look.found ? 0.4 : 1;
  stroke(rest, theme.soft, s < zoom.types ? 0.8 : 1.1);
  stroke(marked, theme.mark, 1.8);
  stroke(near, theme.accent, 2.4);
  ctx.globalAlpha = 1;
}

// paintMark writes a tensor's shape beside its line, and where integers begin and end.
function paintMark(ctx, w, s, look) {
  const p = w.points, x = p[0], y = p[1], mark = marks[look.markOf(w)];
  if (mark && w.main && s >= (mark === marks.q || mark === marks.dq ? zoom.ends : mark === marks.qdq ? zoom.marks : zoom.shapes)) {
    ctx.font = `700 9px ${font}`;
    const wide = ctx.measureText(mark.text).width + 8, my = y + 9;
    ctx.fillStyle = look.theme.paper;
    ctx.strokeStyle = mark === marks.shared ? look.theme.soft : look.theme.mark;
    ctx.lineWidth = 1;
    ctx.fillRect(x - wide / 2, my - 6, wide, 12);
    ctx.strokeRect(x - wide / 2, my - 6, wide, 12);
    ctx.fillStyle = look.theme.ink;
    ctx.textAlign = "center";
    ctx.fillText(mark.text, x, my + 0.5);
    ctx.textAlign = "left";
  }
  if (s < zoom.shapes || !w.main) return;
  const text = look.shapeOf(w);
  if (!text) return;
  ctx.font = `10px ${font}`;
  const at = [x + (mark ? 20 : 6), y + 10];
  ctx.strokeStyle = look.theme.paper;
  ctx.lineWidth = 3;
  ctx.strokeText(text, ...at);
  ctx.fillStyle = look.theme.soft;
  ctx.fillText(text, ...at);
}

function paintBoxes(ctx, boxes, s, look) {
  const { theme, scale } = look, groups = new Map();
  for (const b of boxes) {
    const key = look.values[b.at] + (look.found && !look.found.has(b) ? 1000 : 0);
    if (!groups.has(key)) groups.set(key, []);
    groups.get(key).push(b);
  }
  // Boxes that are small on the screen are painted a little larger than they are, or they would be lost.
  const grow = s < 0.1 ? Math.min(8, 0.6 / s) : 0;
  for (const [key, group] of groups) {
    const index = key >= 999 ? key - 1000 : key;
    ctx.globalAlpha = key >= 999 ? 0.3 : 1;
    ctx.fillStyle = index < 0 ? theme.panel : scale.colours[index];
    if (s >= zoom.types) { for (const b of group) if (b.block >= 0) ctx.fillRect(b.x + 4, b.y + 4, b.w, b.h); }
    for (const b of group) ctx.fillRect(b.x - grow, b.y - grow, b.w + 2 * grow, b.h + 2 * grow);
  }
  ctx.globalAlpha = 1;
  if (s >= 0.08) {
    ctx.strokeStyle = theme.dark ? "#77828f" : "#7b8794";
    ctx.lineWidth = Math.min(1, 0.7 / s);
    ctx.beginPath();
    for (const b of boxes) {
      ctx.rect(b.x, b.y, b.w, b.h);
      if (b.block < 0 || s < zoom.types) continue;
      ctx.moveTo(b.x + 4, b.y + b.h);
      ctx.lineTo(b.x + 4, b.y + b.h + 4);
      ctx.lineTo(b.x + b.w + 4, b.y + b.h + 4);
      ctx.lineTo(b.x + b.w + 4, b.y + 4);
      ctx.lineTo(b.x + b.w, b.y + 4);
    }
    ctx.stroke();
  }
  for (const b of boxes) if (b.block >= 0 && s >= 0.12) paintStrip(ctx, b, look);
  if (s >= zoom.types) { for (const b of boxes) paintText(ctx, b, s, look); }
  for (const b of boxes) {
    const width = look.cursor === b ? 3.5 : look.hover === b ? 2 : 2.5;
    const colour = look.cursor === b ? theme.accent
      : look.chosen.has(b) ? theme.ink : look.found && look.found.has(b) ? theme.found : look.hover === b ? theme.ink : "";
    if (!colour) continue;
    ctx.strokeStyle = theme.paper;
    ctx.lineWidth = (width + 2.5) / s;
    ctx.strokeRect(b.x, b.y, b.w, b.h);
    ctx.strokeStyle = colour;
    ctx.lineWidth = width / s;
    if (look.chosen.has(b) && look.cursor !== b) ctx.setLineDash([5 / s, 3 / s]);
    ctx.strokeRect(b.x, b.y, b.w, b.h);
    ctx.setLineDash([]);
  }
}

// paintStrip shows the colours of the operators in a closed block, in their order.
function paintStrip(ctx, b, look) {
  const strip = look.strips.get(b.block);
  if (!strip || strip.every((index) => index === strip[0])) return;
  const wide = (b.w - 8) / strip.length, high = Math.min(6, b.h / 5), y = b.y + b.h - high - 3;
  strip.forEach((index, i) => {
    ctx.fillStyle = index < 0 ? look.theme.panel : look.scale.colours[index];
    ctx.fillRect(b.x + 4 + i * wide, y, wide, high);
  });
  ctx.strokeStyle = look.theme.dark ? "#000000" : "#ffffff";
  ctx.lineWidth = 0.6;
  ctx.strokeRect(b.x + 4, y, b.w - 8, high);
}

function paintText(ctx, b, s, look) {
  const { theme } = look, index = look.values[b.at], text = look.textOf(b);
  ctx.fillStyle = index < 0 ? theme.ink : inkOn(look.scale.colours[index]);
  if (look.found && !look.found.has(b)) ctx.globalAlpha = 0.45;
  const left = b.block >= 0 ? 24 : 7, room = b.w - left - 6, low = b.block >= 0 ? 9 : 0, middle = b.y + (b.h - low) / 2;
  if (b.block >= 0) {
    const ink = ctx.fillStyle;
    paintSign(ctx, b.x + 13, middle, true, theme);
    ctx.fillStyle = ink;
  }
  if (s < zoom.names) {
    const high = Math.min(22, (b.h - low) * 0.5);
    ctx.font = `600 ${high}px ${font}`;
    ctx.fillText(fitText(ctx, b, "type", text.type, room, ctx.font, true), b.x + left, middle);
  } else if (b.h - low < 34) {
    ctx.font = `600 11px ${font}`;
    ctx.fillText(fitText(ctx, b, "one", text.name, room, ctx.font), b.x + left, middle);
  } else {
    const large = Math.round(2 * Math.min(Math.max(12, 10 / s), (b.h - low) * 0.44)) / 2; // letters are ten pixels high at least
    ctx.font = `600 ${large}px ${font}`;
    ctx.fillText(fitText(ctx, b, "name", text.name, room, ctx.font), b.x + left, middle - 0.62 * large);
    ctx.font = `${Math.max(11, large - 1)}px ${font}`;
    const value = text.value, wide = value ? ctx.measureText(value).width + 8 : 0;
    const under = text.under.find((t) => ctx.measureText(t).width <= room - wide);
    if (under) ctx.fillText(under, b.x + left, middle + 0.66 * large);
    if (value) {
      ctx.textAlign = "right";
      ctx.fillText(value, b.x + b.w - 6, middle + 0.66 * large, room);
      ctx.textAlign = "left";
    }
  }
  ctx.globalAlpha = 1;
}

// fitText shortens a text to a width. It keeps the end, which tells names apart, or the beginning; it remembers on the box what it found.
function fitText(ctx, box, slot, text, room, fontName, beginning) {
  const kept = box.fitted || (box.fitted = {}), key = `${text}\n${Math.round(room)} ${fontName}`;
  if (kept[slot] && kept[slot].key === key) return kept[slot].text;
  ctx.font = fontName;
  text = visible(text);
  let out = text;
  if (ctx.measureText(text).width > room) {
    const letters = [...text], cut = (n) =>
      beginning ? letters.slice(0, n).join("") + "…" : "…" + letters.slice(letters.length - n).join("");
    let low = 0, high = letters.length;
    while (low < high) {
      const n = (low + high + 1) >> 1;
      if (ctx.measureText(cut(n)).width <= room) low = n;
      else high = n - 1;
    }
    out = low ? cut(low) : "";
  }
  kept[slot] = { key, text: out };
  return out;
}
