// A tensor inside the network on one sample: float, simulated, integers and their difference, whole or one channel.
import { el } from "../dom.js";
import { known, problemText, sqnr } from "../format.js";
import { heatFigure, worstRows } from "../heat.js";
import { message } from "./parts.js";

let listNumber = 0;

// insideOf draws the tool into host: an operator to choose, and what comes out of it for the sample. sample is as results name it, data
// what finds it; first is the operator that is drawn at once.
/** @param {HTMLElement} host @param {App} app @param {{ data: Core.DataOptions; sample: string; first?: string }} of */
export function insideOf(host, app, { data, sample, first }) {
  const names = app.rows.filter((r) => r.op !== "Input" && r.op !== "Output").map((r) => r.name), id = `operators${++listNumber}`;
  const pick = el("input", { type: "text", list: id, value: first || names[0] || "",
    "aria-label": `operator whose output is drawn, ${sample}`, autocomplete: "off", spellcheck: "false", onchange: () => draw(-1) });
  const channel = el("select", { "aria-label": `channel, ${sample}`, hidden: true, onchange: () => draw(Number(channel.value)) }),
    shown = el("div", { class: "result", "aria-live": "polite" });
  const step = (by) => {
    pick.value = names[Math.min(Math.max(names.indexOf(pick.value) + by, 0), names.length - 1)];
    draw(-1);
  };
  host.replaceChildren(
    el("p", { class: "actions" }, el("label", {}, "Output of ", pick), el("datalist", { id }, names.map((n) => el("option", { value: n }))),
      el("button", { type: "button", title: "the operator before", onclick: () => step(-1) }, "◂"),
      el("button", { type: "button", title: "the next operator", onclick: () => step(1) }, "▸"), channel),
    shown
  );
  draw(-1);

  async function draw(number) {
    shown.classList.add("asking");
    try {
      const options = { ...data, sample, node: pick.value, ...(number >= 0 ? { channel: number } : {}) };
      const f = await app.client.call("feature", options);
      const many = f.shape.length === 4 && f.shape[0] === 1 && f.shape[1] > 1;
      if (number < 0) channels(f, many);
      shown.classList.remove("bad");
      const of = number < 0 ? many ? "a row for each channel" : "" : `channel ${number}`;
      shown.replaceChildren(
        el("p", { class: "hint" }, el("bdi", {}, f.at), ` [${f.shape.join(", ")}]${of ? `, ${of}` : ""}`,
          f.at !== pick.value && f.heat.int8 ? ": what the integers compute in one step" : "", "."),
        heatFigure(f.heat, `${f.at} of ${sample}`),
        number < 0 ? worstRows(f.heat) : ""
      );
    } catch (problem) {
      message(shown, problemText(problem), true);
    } finally {
      shown.classList.remove("asking");
    }
  }

  // channels fills the list, the worst first; they are only those of a map of channels.
  /** @param {Core.FeatureMap} f */
  function channels(f, many) {
    channel.hidden = !many;
    if (!many) return;
    const list = f.errors.map((nsr, i) => ({ nsr, i })).sort((a, b) => (b.nsr || 0) - (a.nsr || 0));
    channel.replaceChildren(el("option", { value: "-1" }, "all channels, a row each"),
      ...list.map(({ nsr, i }) => el("option", { value: String(i) }, `channel ${i}${known(nsr) ? `: ${sqnr(nsr)}` : ""}`)));
  }
}

// insideButton opens the tool in where, or closes it.
/** @param {App} app @param {Parameters<typeof insideOf>[2]} of @param {HTMLElement} where */
export function insideButton(app, of, where) {
  return el("button", { type: "button", title: "this sample inside the network: the output of any operator, as colours", onclick: (e) => {
    const card = e.target.closest("li");
    if (card) card.classList.add("wide");
    insideOf(where, app, of);
  } }, "Look inside the network");
}
