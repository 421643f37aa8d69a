// Samples as the network sees them, and classes by their names.
import { el } from "../dom.js";

// classNote says that there are more or fewer names than classes.
export const classNote =
  (app) => (app.state.classes && app.state.classes.note ? [el("p", { class: "warn" }, `Class names: ${app.state.classes.note}.`)] : []);

// className is a class with its name where one is known.
/** @param {App} app @param {number} index */
export function className(app, index) {
  const names = app.state.classes ? app.state.classes.names : [];
  return names[index] ? `${names[index]} (${index})` : `class ${index}`;
}

// thumbnail draws the pixels that the network reads, made visible by the core.
/** @param {Core.Thumbnail} t @param {string} label */
export function thumbnail(t, label) {
  if (!t) return el("span", { class: "nopicture", "aria-hidden": "true" });
  const canvas = el("canvas", { width: t.width, height: t.height, class: "thumbnail", role: "img", "aria-label": label });
  const bytes = atob(t.rgb), pen = canvas.getContext("2d"), image = pen.createImageData(t.width, t.height);
  for (let i = 0, n = t.width * t.height; i < n; i++) {
    for (let c = 0; c < 3; c++) image.data[4 * i + c] = bytes.charCodeAt(3 * i + c);
    image.data[4 * i + 3] = 255;
  }
  pen.putImageData(image, 0, 0);
  return canvas;
}
