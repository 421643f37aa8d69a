// All operators in one table. Those that are ticked are what a decision is about; its effect is estimated before anything is done.
import { operatorColumns } from "../columns.js";
import { operators } from "../data.js";
import { el } from "../dom.js";
import { plural } from "../format.js";
import { drawTable } from "../table.js";
import { decision } from "./decide.js";

export const rankingView = {
  key: "ranking",
  label: "Operators",
  doc: "All operators, ranked by the error that they make; tick some to decide something about all of them at once",
  /** @param {HTMLElement} host @param {App} app */
  draw(host, app) {
    const ticked = el("b", { "aria-live": "polite" });
    const clear = el("button", { type: "button", class: "link", title: "Tick none", onclick: () => app.selection.choose([]) }, "clear");
    const form = decision(app, { before: [ticked, " ", clear, " "],
      target: () => (app.selection.nodes.size ? { nodes: [...app.selection.nodes] } : null) });
    const tableHost = el("div", { class: "tablehost" });
    host.append(form.node, tableHost);
    let columns = operatorColumns(app.rows), had = app.rows.some((row) => row.weight !== null);
    const table = drawTable(tableHost, { rows: operators(app.rows), columns, selection: app.selection, multi: true,
      sort: { key: "nsr", down: true }, label: "Operators", height: 12 });
    function count() {
      const n = app.selection.nodes.size;
      form.node.hidden = n === 0;
      ticked.textContent = `${plural(n, "operator")} ticked:`;
    }
    count();
    const off = app.selection.on((change) => {
      if (change.what !== "nodes") return;
      count();
      form.update();
    });
    return {
      update() {
        const there = new Set(app.rows.map((row) => row.name));
        if ([...app.selection.nodes].some((name) => !there.has(name))) {
          app.selection.choose([...app.selection.nodes].filter((name) => there.has(name)));
        }
        const hidden = new Map(columns.map((c) => [c.key, c.hidden])); // those that were chosen stay; bars have the new figures' scale
        columns = operatorColumns(app.rows);
        const has = app.rows.some((row) => row.weight !== null);
        if (had === has) { for (const c of columns) c.hidden = hidden.get(c.key); }
        had = has;
        table.setColumns(columns);
        table.setRows(operators(app.rows));
        form.update();
      },
      close: off,
    };
  },
};
