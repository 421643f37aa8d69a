// All operators in one table, a drawer that shows the worst five while it is closed. Those that are ticked are what a decision is about;
// its effect is estimated before anything is done.
import { place, placed } from "../address.js";
import { operatorColumns } from "../columns.js";
import { operators } from "../data.js";
import { el, replace } from "../dom.js";
import { ofNoise, plural, shorten, sqnr } from "../format.js";
import { keep, kept } from "../frame.js";
import { drawTable } from "../table.js";
import { decision } from "./decide.js";

export const rankingView = {
  key: "ranking",
  label: "Operators",
  doc: "All operators, ranked by the error that they make; tick some to decide something about all of them at once",
  /** @param {HTMLElement} host @param {App} app @param {(open: boolean) => void} opened */
  draw(host, app, opened) {
    const ticked = el("b", { "aria-live": "polite" });
    const clear = el("button", { type: "button", class: "link", title: "Tick none", onclick: () => app.selection.choose([]) }, "clear");
    const form = decision(app, { before: [ticked, " ", clear, " "],
      target: () => (app.selection.nodes.size ? { nodes: [...app.selection.nodes] } : null) });
    const tableHost = el("div", { class: "tablehost", id: "operators" }), worst = el("span", { class: "worst" });
    const drawer = el("button", { type: "button", class: "drawer", "aria-controls": "operators", onclick: () => pull(tableHost.hidden) });
    host.append(el("div", { class: "drawerbar" }, drawer, worst), form.node, tableHost);

    // pull opens or closes the drawer; a tab remembers it.
    function pull(open) {
      tableHost.hidden = !open;
      drawer.setAttribute("aria-expanded", String(open));
      keep("qwb-drawer", open ? "open" : "");
      opened(open);
      name();
    }

    // name is what the drawer says of what is in it.
    function name() {
      const list = operators(app.rows), first = list.filter((row) => row.nsr > 0).sort((a, b) => b.nsr - a.nsr).slice(0, 5);
      drawer.textContent = `${tableHost.hidden ? "▸" : "▾"} ${plural(list.length, "operator")}`;
      drawer.title = tableHost.hidden ? "Show all operators in a table" : "Close the table";
      replace(worst, tableHost.hidden && first.length > 0 && [
        el("span", { class: "soft" }, "worst: "),
        first.map((row) =>
          el("button", { type: "button", class: "link", title: `${row.name}: ${ofNoise(row.nsr, row.nsrError)} alone`, onclick: () =>
            app.selection.set(row.name, "drawer") }, el("bdi", null, shorten(row.name, 19)), ` ${sqnr(row.nsr)}`)
        ),
      ]);
    }
    let columns = operatorColumns(app.rows), had = app.rows.some((row) => row.weight !== null);
    const [column, down] = placed("sort").split(",");
    const table = drawTable(tableHost, { rows: operators(app.rows), columns, selection: app.selection, multi: true,
      sort: { key: column || "nsr", down: down !== "up" }, label: "Operators", height: 12, filter: placed("filter"),
      noted: (filter, sort) =>
        place({ filter, sort: sort.key === "nsr" && sort.down ? "" : `${sort.key},${sort.down ? "down" : "up"}` }) });
    function count() {
      const n = app.selection.nodes.size;
      form.node.hidden = n === 0 || !app.state.exists;
      ticked.textContent = `${plural(n, "operator")} ticked:`;
    }
    count();
    pull(kept("qwb-drawer") === "open");
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
        name();
      },
      close: off,
    };
  },
};
