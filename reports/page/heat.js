// Heats: tensors as rows of colours, of float, the simulation, the integers, and their difference; and pictures with answers drawn on them.
import { rampOf } from "./colours.js";
import { el } from "./dom.js";
import { known, number, percent, plural, small, sqnr } from "./format.js";

const isDark = () => matchMedia("(prefers-color-scheme: dark)").matches;
const channelsOf = (hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));

// paint makes a canvas of bytes in base64; colours(byte, index) is [r, g, b] or [r, g, b, a].
function paint(width, height, bytes, colours, label) {
  const canvas = el("canvas", { width, height, role: "img", "aria-label": label, title: label }), pen = canvas.getContext("2d");
  const image = pen.createImageData(width, height), text = atob(bytes);
  for (let i = 0; i < width * height; i++) {
    const [r, g, b, a = 255] = colours(text.charCodeAt(i), i);
    image.data.set([r, g, b, a], 4 * i);
  }
  pen.putImageData(image, 0, 0);
  return canvas;
}

// tableOf is a function from a byte to a colour of a ramp.
function tableOf(kind) {
  const list = rampOf(kind, isDark()).map(channelsOf);
  return (byte) => list[Math.round(byte / 255 * (list.length - 1))];
}

// heatFigure draws a heat: the runs beside each other on one scale, then what the last of them differs by.
/** @param {Core.Heat} h @param {string} what */
export function heatFigure(h, what) {
  const sequential = tableOf("sequential"), diverging = tableOf("diverging"), last = h.int8 ? "integers" : "simulated";
  const one = (name, bytes, colours, note) =>
    bytes
      ? el("figure", { "aria-label": `${what}, ${name}` }, paint(h.columns, h.rows, bytes, colours, `${what}, ${name}: ${note}`),
        el("figcaption", {}, el("b", {}, name), ` ${note}`)) : "";
  const scale = `colours from ${number(h.lo)} to ${number(h.hi)}`, same = "same colours";
  return el("div", { class: h.what === "row" && h.rows > 4 ? "heats pictures" : "heats" }, one("float", h.float, sequential, scale),
    one("simulated", h.sim, sequential, same), one("integers", h.int8, sequential, same),
    one(`${last} less float`, h.difference, diverging, h.most ? `±${small(h.most)}` : "no difference"));
}

// worstRows are the rows of a heat that lose most, in words; named, where given, names them.
/** @param {Core.Heat} h @param {(i: number) => string} [named] */
export function worstRows(h, named = (i) => `${h.what} ${i}`) {
  const list = h.nsr.map((nsr, i) => ({ i, nsr })).filter((r) => known(r.nsr) && r.nsr > 0).sort((a, b) => b.nsr - a.nsr);
  if (h.all < 2 || !list.length) return "";
  return el("p", { class: "hint" },
    `${plural(h.all, h.what, h.what === "index" ? "indices" : "")}${h.all > h.rows ? `, drawn in ${h.rows} lines` : ""}. Worst: `,
    list.slice(0, 5).map((r) => `${named(r.i)} ${sqnr(r.nsr)}`).join(", "), ".");
}

// hueOf tells neighbouring classes apart, and by their brightness those that have the same hue nearly.
const hueOf = (c) => `rgb(${rgbOf(c).join(" ")})`;

const mark = [255, 0, 255]; // what differs: a colour that no class has

function rgbOf(c) {
  if (c < 0) return mark;
  const h = ((c * 137.5 + 210) % 360) / 60, x = Math.round(230 * (1 - Math.abs(h % 2 - 1))),
    list = [[230, x, 25], [x, 230, 25], [25, 230, x], [25, x, 230], [x, 25, 230], [230, 25, x]];
  return list[Math.floor(h)].map((v) => Math.round(Math.max(v, 25) * [1, 0.65, 0.4][(c >> 3) % 3]));
}

// picturePart draws the picture of a sample, enlarged to side.
/** @param {Core.Thumbnail | undefined} t @param {number} side */
function pictureOn(t, side) {
  const width = t && t.width ? t.width : side, height = t && t.height ? t.height : side,
    k = Math.max(1, Math.round(side / Math.max(width, height)));
  const canvas = el("canvas", { width: width * k, height: height * k, class: "answer" }), pen = canvas.getContext("2d");
  if (t && t.rgb) {
    const small = el("canvas", { width, height }), text = atob(t.rgb), inner = small.getContext("2d"),
      image = inner.createImageData(width, height);
    for (let i = 0; i < width * height; i++) {
      image.data.set([text.charCodeAt(3 * i), text.charCodeAt(3 * i + 1), text.charCodeAt(3 * i + 2), 255], 4 * i);
    }
    inner.putImageData(image, 0, 0);
    pen.imageSmoothingEnabled = false;
    pen.drawImage(small, 0, 0, width * k, height * k);
  }
  return canvas;
}

// boxesOn draws boxes on the picture: of pixels as the network sees them, or of shares of it. What scores below a half is thin.
/** @param {Core.Thumbnail | undefined} t @param {Core.Box[]} boxes @param {(c: number) => string} name */
export function boxesOn(t, boxes, name, label) {
  const canvas = pictureOn(t, 224), pen = canvas.getContext("2d"), share = boxes.every((b) => b.box.every((v) => Math.abs(v) <= 2));
  const [h, w] = share || !t ? [1, 1] : t.of;
  const named = boxes.filter((b) => b.score >= 0.5).length <= 8; // the words of more lie over each other
  for (const b of boxes.slice(0, 30).reverse()) {
    const [x1, y1, x2, y2] = b.box, x = x1 / w * canvas.width, y = y1 / h * canvas.height;
    pen.strokeStyle = pen.fillStyle = hueOf(b.class);
    pen.lineWidth = b.score >= 0.5 ? 3 : 1;
    pen.strokeRect(x, y, (x2 - x1) / w * canvas.width, (y2 - y1) / h * canvas.height);
    if (named && b.score >= 0.5) pen.fillText(`${name(b.class)} ${percent(b.score)}`, x + 3, Math.max(10, y - 3));
  }
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", `${label}: ${plural(boxes.length, "box", "boxes")}`);
  return canvas;
}

// classesOf counts the pixels of a map by class: [class, share], the largest first.
/** @param {Core.ClassMap} m */
export function classesOf(m) {
  const times = new Map(), text = atob(m.classes);
  for (let i = 0; i < text.length; i++) times.set(text.charCodeAt(i), (times.get(text.charCodeAt(i)) || 0) + 1);
  return [...times].map(([c, n]) => [c, n / text.length]).sort((a, b) => b[1] - a[1]);
}

// unlike is the share of pixels that have another class than in another map.
/** @param {Core.ClassMap} m @param {Core.ClassMap} other */
export function unlike(m, other) {
  const a = atob(m.classes), b = atob(other.classes);
  let n = 0;
  for (let i = 0; i < a.length; i++) n += a[i] === b[i] ? 0 : 1;
  return n / a.length;
}

// mapOn lays a map of classes over the picture. Class 0 stays clear; what has another class in float, where that is given, is marked.
/** @param {Core.Thumbnail | undefined} t @param {Core.ClassMap} m @param {Core.ClassMap} [float] */
export function mapOn(t, m, label, float) {
  const canvas = pictureOn(t, 224), pen = canvas.getContext("2d");
  const other = float && atob(float.classes);
  const mask = paint(m.width, m.height, m.classes,
    (c, i) => (other && other.charCodeAt(i) !== c ? mark : c ? [...rgbOf(c), 165] : [0, 0, 0, 0]), "");
  pen.imageSmoothingEnabled = false;
  pen.drawImage(mask, 0, 0, canvas.width, canvas.height);
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", `${label}: ${classesOf(m).slice(0, 4).map(([c, s]) => `class ${c} ${percent(s)}`).join(", ")}`);
  return canvas;
}

// swatch is the colour of a class in maps and boxes, of -1 that of what differs.
export const swatch = (c) => el("i", { class: "swatch", style: { background: c ? hueOf(c) : "transparent" } });
