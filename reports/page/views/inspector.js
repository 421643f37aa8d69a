// One operator: where it runs and why, what can be decided of it, the ranges of its tensors with handles to drag, and its measured error.
import { drawPanel } from "../panel.js";
import { el, replace } from "../dom.js";
import { byName } from "../data.js";
import { decision } from "./decide.js";
import { rangeTool } from "./range.js";

export const inspectorView = {
  key: "inspector", label: "Operator", doc: "The selected operator: its settings, its tensors and what they cost, and how to change them",
  draw(host, app) {
    let tools = [];
    function update() {
      for (const t of tools) t.close();
      tools = [];
      const row = byName(app.rows).get(app.selection.node);
      if (!row) {
        replace(host, el("p", { class: "soft pad" }, "Select an operator in the network or in the table. Colours say where the error comes from; the table below has the worst first."));
        return;
      }
      const live = el("div");
      replace(host, live);
    }
    const off = app.selection.on((change) => { if (change.what === "node") update(); });
    update();
    return { update, close: off };
  },
};
