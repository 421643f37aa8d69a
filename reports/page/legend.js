// The legend of the network: what its colours mean.
import { el, replace } from "./dom.js";
import { number, small } from "./format.js";

// drawLegend shows what the colours of a scale mean.
export function drawLegend(host, scale) {
  const c = scale.colouring;
  const parts = [el("span", { class: "legend-name", title: c.doc }, c.unit ? `${c.label}: ${c.unit}` : c.label)];
  const swatch = (colour) => {
    const box = el("span", { class: "legend-swatch", "aria-hidden": "true" });
    if (colour) box.style.backgroundColor = colour;
    return box;
  };
  if (scale.classes) {
    scale.classes.forEach((name, i) =>
      scale.counts.has(name)
      && parts.push(
        el("span", { class: "legend-class" }, swatch(scale.colours[Math.min(i, scale.colours.length - 1)]),
          `${name} (${scale.counts.get(name)})`)
      )
    );
  } else {
    const bar = el("span", { class: "legend-bar", role: "img", "aria-label": legendText(scale) });
    bar.style.backgroundImage = `linear-gradient(to right, ${scale.colours.join(", ")})`;
    let free = Infinity; // there is room for some of them: the largest first
    for (const t of scale.ticks.toReversed()) {
      if (t.at > free) continue;
      free = t.at - 0.3;
      const mark = el("span", { class: "legend-tick", "aria-hidden": "true" },
        c.tick ? c.tick(t.value) : number(t.value).replace(".00e", "e"), t.beyond && " …");
      if (t.beyond) mark.title = "One lies far beyond: " + (c.tick ? c.tick(t.beyond) : small(t.beyond));
      mark.style.left = `${100 * t.at}%`;
      bar.append(mark);
    }
    if (scale.low) parts.push(el("span", { class: "legend-end" }, scale.low), bar, el("span", { class: "legend-end" }, scale.high));
    else parts.push(bar);
  }
  parts.push(el("span", { class: "legend-class" }, swatch(""), "no value"));
  replace(host, parts);
}

function legendText(scale) {
  if (scale.low) return `from ${scale.low} to ${scale.high}`;
  if (!scale.ticks.length) return "no values";
  const text = scale.colouring.tick || small;
  return `from pale, ${text(scale.ticks[0].value)}, to strong, ${text(scale.ticks[scale.ticks.length - 1].value)}`;
}
