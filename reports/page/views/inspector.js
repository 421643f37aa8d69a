// One operator: what can be decided of it, the ranges of its tensors with handles to drag, its weights by channel, and what was measured.
import { byName } from "../data.js";
import { el, replace } from "../dom.js";
import { drawPanel } from "../panel.js";
import { cureButtons } from "./advice.js";
import { decision } from "./decide.js";
import { rangeTool } from "./range.js";
import { drawWeights } from "./weights.js";

export const inspectorView = {
  key: "inspector",
  label: "Operator",
  doc: "The selected operator: its settings, its tensors and what they cost, and how to change them",
  /** @param {HTMLElement} host @param {App} app */
  draw(host, app) {
    let range = null, slotKind = "in0", shown = "", form = null, drawn = { of: "", tensors: null, weights: null };
    const off = app.selection.on((change) => {
      if (change.what === "node" && app.selection.node !== shown) update();
    });
    update();
    return { update, close: off };

    function update() {
      const { report = null, stale = false } = app.view || {};
      const of = JSON.stringify([app.selection.node, app.state.revision, stale, report && [report.samples, report.seconds]]);
      const kept = of === drawn.of && drawn.tensors.isConnected; // a handle that is being dragged stays where nothing else is known
      if (!kept && range) range.close();
      if (!kept) range = null;
      const row = byName(app.rows).get(app.selection.node), body = host.parentElement, same = shown === app.selection.node,
        place = same ? body.scrollTop : 0;
      shown = app.selection.node;
      if (!row) {
        replace(host,
          el("p", { class: "soft pad" },
            "Select an operator in the network or in the table. Colours say where the error comes from; the table below has the worst first."));
        return;
      }
      if (!app.state.exists) { // a model without a plan has nothing to decide
        replace(host, el("div", { class: "layer" }));
        drawPanel(/** @type {HTMLElement} */ (host.firstChild), { view: app.view, row, rows: app.rows, selection: app.selection });
        return;
      }
      if (form && same) form.update(); // what is being chosen outlives new figures
      else form = decision(app, { target: () => ({ nodes: [row.name] }) });
      if (!kept) drawn = { of, tensors: el("section", { "aria-label": "Range" }), weights: el("section", { "aria-label": "Weights" }) };
      const { tensors, weights } = drawn;
      const panel = el("div", { class: "layer" });
      replace(host, panel, weights);
      drawPanel(panel, { view: app.view, row, rows: app.rows, selection: app.selection, pictures: false,
        cures: (line) => cureButtons(app, line), tools: [(_, slot) => (slot ? null : [form.node, tensors])] });
      if (kept) {
        body.scrollTop = place;
        return;
      }
      drawTools(row, tensors, weights).then(() => {
        if (shown === row.name) body.scrollTop = place;
      });
    }

    async function drawTools(row, tensors, weights) {
      let about;
      try {
        about = await app.client.call("node", { node: row.name });
      } catch (problem) {
        drawn.of = ""; // the next update asks again
        if (shown === row.name) replace(tensors, el("p", { class: "soft" }, problem.message));
        return;
      }
      if (shown !== row.name || !tensors.isConnected) return; // drawn anew meanwhile
      const slots = about.explain.slots.filter((s) => s.scheme && (!about.weights || s.tensor !== about.weights.tensor)).map((s) =>
        s.slot.slice(s.slot.lastIndexOf(":") + 1)
      );
      if (slots.length === 0) {
        replace(tensors, el("p", { class: "soft" }, "This operator is computed in float: none of its tensors has a range."));
      } else {
        const at = el("div"), of = el("bdi", { class: "soft" }), first = slots.includes(slotKind) ? slotKind : slots[0];
        const pick = (slot) => {
          slotKind = slot;
          for (const b of buttons) b.setAttribute("aria-pressed", String(b.dataset.slot === slot));
          of.textContent = tensorAt(slot, row);
          if (range) range.close();
          range = rangeTool(at, app, `${row.name}:${slot}`);
        };
        const buttons = slots.map((slot) =>
          el("button", { type: "button", data: { slot }, title: `The range of ${row.name}:${slot}, ${tensorAt(slot, row)}`, onclick: () =>
            pick(slot) }, slotName(slot))
        );
        replace(tensors, el("h3", null, "Range ", of),
          el("div", { class: "actions", role: "group", "aria-label": "Which tensor" }, buttons), at);
        pick(first);
      }
      if (about.weights) {
        const at = el("div");
        replace(weights, el("h3", null, "Weights by channel"), at);
        drawWeights(at, about.weights);
      }
    }
  },
};

// slotName is an input or output in words, tensorAt the name of its tensor.
function slotName(slot) {
  const m = /^(in|out)(\d+)$/.exec(slot);
  return m ? `${m[1] === "in" ? "input" : "output"}${m[2] === "0" ? "" : ` ${Number(m[2]) + 1}`}` : slot;
}

const tensorAt = (slot, row) => (row.tensors.find((t) => t.at === slot) || { name: "" }).name;
