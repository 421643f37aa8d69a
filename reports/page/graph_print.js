// The whole network on paper, and as a picture file: dark on white, folded so that it is as large as the sheet allows.
import { download, el } from "./dom.js";
import { paintGraph, printTheme } from "./graph_paint.js";
import { placeGraph } from "./graph_place.js";

// sheetOf paints all that is open on a canvas of this size (in pixels of the page, half as large as its own); less where there is less.
export function sheetOf(index, open, labelOf, look, width, height) {
  const scene = placeGraph(index, open, labelOf, { room: { width, height } });
  const scale = Math.min(width / scene.w, height / scene.h, 1), ratio = 2;
  const sheet = el("canvas", { class: "graph-paper", role: "img", "aria-label": "The network" });
  sheet.width = Math.ceil(scene.w * scale * ratio);
  sheet.height = Math.ceil((scene.h * scale + 8) * ratio);
  const c = sheet.getContext("2d");
  c.fillStyle = printTheme.paper;
  c.fillRect(0, 0, sheet.width, sheet.height);
  paintGraph(c, scene, { scale, x: 0, y: 4, width: sheet.width / ratio, height: sheet.height / ratio, ratio }, { ...look, theme: printTheme,
    chosen: new Set(), cursor: null, hover: null, found: null, near: null });
  return sheet;
}

// savePicture offers the network as a PNG file, large enough to read every name if that is at most a few thousand pixels.
export function savePicture(index, open, labelOf, look, scene) {
  const side = Math.sqrt(scene.w * scene.h * 1.1);
  sheetOf(index, open, labelOf, look, Math.min(4000, side * 1.25), Math.min(4000, side)).toBlob((blob) => download("network.png", blob));
}
