// One table for all lists: it draws only the rows that can be seen, so that ten thousand are as quick as ten. It filters (by name,
// type:Conv, /regex/, nsr>0.01, ! before any of them), sorts, lets columns be chosen, and can have a set of rows ticked.
import { announce, el, replace, unique } from "./dom.js";
import { exact, known, plural } from "./format.js";
import { parseFilter, sorted } from "./table_rows.js";

const rowHeight = 28;

// drawTable draws rows. Options: columns, rows of {key, label, doc, kind: "name" | "text" | "number", value(row), show(row) (a text or an
// element), exact(row), width (in em), hidden, bar(row) (parts {class, share})}; selection; multi, which makes ticks for selection.nodes;
// sort {key, down}; label; filter, the first text; noted(filter, sort), called when somebody changes them; search: false leaves the box
// out; what, the word for a row, and many for several; height in rows. Rows need a name. It returns {setRows(rows), setColumns(columns),
// filter(text), rows()}: the rows that pass, in their order.
export function drawTable(host, options) {
  const { selection, multi = false, label = "Operators", what = "operator", many, height = 16, search = true } = options;
  let { rows, columns, sort = null } = options, list = [], at = 0, first = -1, last = -1, test = () => true;
  const from = {}; // who changes the selection
  const id = unique("table");
  const box = el("input", { type: "search", id: id + "-filter", value: options.filter || "",
    placeholder: what === "operator" ? "name, type:Conv, /regex/, nsr>0.01" : "name, /regex/, or a figure: mean>0.01", autocomplete: "off",
    spellcheck: "false", oninput: () => {
      refilter();
      if (options.noted) options.noted(box.value.trim(), sort);
    },
    title:
      "Rows whose name or type has this text. type:Conv, domain:FP32: exactly that. /regex/: names that match. nsr>0.01: by figures, of any column. ! before one: not. Several: all of them." });
  const counter = el("span", { class: "soft", "aria-live": "polite" });
  const chooser = el("details", { class: "chooser" });
  const all = multi && el("input", { type: "checkbox", "aria-label": "Tick all rows that are shown", onchange: () => {
    for (const row of list) selection.nodes[all.checked ? "add" : "delete"](row.name);
    selection.choose(selection.nodes, from);
    paint(true);
  } });
  const head = el("thead"), body = el("tbody"), group = el("colgroup");
  const table = el("table", { class: "rows", role: "grid", "aria-label": label, "aria-multiselectable": multi ? "true" : null }, group,
    head, body);
  const view = el("div", { class: "scroll window", style: { "max-height": (height + 1.4) * rowHeight + "px" },
    onscroll: () => paint(false) }, table);
  replace(host, search && el("div", { class: "tools" }, el("label", { for: box.id }, "Filter"), box, counter, chooser), view);
  body.addEventListener("click", click);
  body.addEventListener("keydown", press);
  if (selection) {
    selection.on(({ what: part, from: by }) => {
      if (part === "node" && by !== from) reveal();
      paint(true);
    });
  }
  new ResizeObserver(() => paint(false)).observe(view);
  const print = (paper) => {
    heads(paper);
    paint(true, paper);
  };
  addEventListener("beforeprint", () => print(true));
  addEventListener("afterprint", () => print(false));
  choose();
  refilter();
  if (selection && selection.node) reveal();
  return { setRows(r) {
    rows = r;
    refilter();
  }, setColumns(c) {
    columns = c;
    choose();
    refilter();
  }, filter(text) {
    box.value = text;
    refilter();
  }, rows: () => list };

  function shown() {
    return columns.filter((c) => !c.hidden);
  }

  function choose() {
    replace(chooser, el("summary", null, "Columns"),
      el("div", { class: "popup" },
        columns.map((c) =>
          c.kind === "name" ? null : el("label", { title: c.doc }, el("input", { type: "checkbox", checked: !c.hidden, onchange: (e) => {
            c.hidden = !e.target.checked;
            heads();
            paint(true);
          } }), c.label)
        )));
    heads();
  }

  // heads are buttons, which sort; on paper they are text, because Chromium repeats no head with a button on the next page.
  function heads(paper) {
    replace(group, multi && el("col", { style: { width: "2.4em" } }),
      shown().map((c) =>
        el("col", { style: { width: c.width ? c.width + "em" : c.kind === "name" ? "" : c.kind === "text" ? "8em" : "7.5em" } })
      ));
    table.style.setProperty("min-width",
      shown().reduce((sum, c) => sum + (c.width || (c.kind === "name" ? 15 : c.kind === "text" ? 8 : 7.5)), multi ? 2.4 : 0) + "em");
    replace(head, el("tr", null, multi && el("th", { class: "tick" }, all), shown().map((c) => {
      const by = sort && sort.key === c.key;
      return el("th", { class: c.kind === "number" ? null : "name", scope: "col",
        "aria-sort": by ? (sort.down ? "descending" : "ascending") : null }, paper ? c.label
        : el("button", { type: "button", title: (c.doc ? c.doc + " " : "") + "Click to sort.", onclick: () => order(c) }, c.label));
    })));
  }

  function order(column) { // numbers from the largest, names from A; again: the other way
    sort = sort && sort.key === column.key ? { key: column.key, down: !sort.down } : { key: column.key, down: column.kind === "number" };
    heads();
    arrange();
    view.scrollTop = 0;
    paint(true);
    if (options.noted) options.noted(box.value.trim(), sort);
    for (const b of head.querySelectorAll("th[aria-sort] button")) b.focus();
  }

  function refilter() {
    test = parseFilter(box.value.trim(), columns);
    arrange();
    replace(counter,
      list.length === rows.length ? plural(rows.length, what, many) : list.length + " of " + plural(rows.length, what, many));
    view.scrollTop = 0;
    paint(true);
  }

  function arrange() {
    const column = sort && columns.find((c) => c.key === sort.key);
    list = column ? sorted(rows.filter(test), column.value, sort.down) : rows.filter(test);
    at = Math.min(at, Math.max(list.length - 1, 0));
    table.setAttribute("aria-rowcount", list.length + 1);
  }

  function paint(again, whole) {
    const top = whole ? 0 : Math.max(Math.floor(view.scrollTop / rowHeight) - 8, 0);
    const end = whole ? Math.min(list.length, 1000)
      : Math.min(list.length, top + Math.ceil((view.clientHeight || height * rowHeight) / rowHeight) + 18);
    if (!again && top >= first && end <= last && (last - first) < 90) return;
    const focused = body.contains(document.activeElement);
    if (!again && top === first && end === last) return;
    first = top;
    last = end;
    const space = (n) =>
      n > 0
      && el("tr", { class: "space", "aria-hidden": "true" },
        el("td", { colspan: shown().length + (multi ? 1 : 0), style: { height: n * rowHeight + "px" } }));
    replace(body, space(top), list.slice(top, end).map((row, i) => line(row, top + i)), space(whole ? 0 : list.length - end),
      whole && end < list.length
        && el("tr", null,
          el("td", { class: "name", colspan: shown().length },
            "and " + (list.length - end) + " more: they are in the page, not on paper")));
    if (!list.length) {
      body.append(
        el("tr", null, el("td", { class: "name soft", colspan: shown().length + (multi ? 1 : 0) }, "No " + what + " passes the filter."))
      );
    }
    if (focused) focus();
    if (all) {
      const ticked = list.reduce((n, row) => n + selection.nodes.has(row.name), 0);
      all.checked = list.length > 0 && ticked === list.length;
      all.indeterminate = ticked > 0 && ticked < list.length;
    }
  }

  function line(row, i) {
    const selected = selection && row.name === selection.node;
    return el("tr", { data: { i }, tabindex: i === at ? "0" : "-1", class: (selected ? "selected " : "") + (row.stale ? "stale" : ""),
      "aria-rowindex": i + 2, "aria-selected": selection ? String(multi ? selection.nodes.has(row.name) : selected) : null }, multi
      && el("td", { class: "tick" },
        el("input", { type: "checkbox", tabindex: "-1", checked: selection.nodes.has(row.name), "aria-label": "Tick " + row.name })),
      shown().map((c) => {
        const v = c.show ? c.show(row) : c.value(row), bars = c.bar && c.bar(row);
        const title = c.exact ? c.exact(row)
          : c.kind === "number" ? (known(c.value(row)) ? exact(c.value(row)) : "not measured") : typeof v === "string" ? v : null;
        return el("td", { class: c.kind === "number" ? null : "name", title },
          c.kind === "name" ? el("bdi", null, v) : v === null || v === undefined ? "–" : v, bars
          && el("span", { class: "meter", "aria-hidden": "true" },
            bars.map((b) => el("i", { class: b.class, style: { width: 100 * Math.min(Math.max(b.share || 0, 0), 1) + "%" } }))));
      }));
  }

  function focus() {
    const row = body.querySelector("tr[data-i=\"" + at + "\"]");
    if (row) row.focus({ preventScroll: true });
  }

  function show(i) { // scrolls so that row i can be seen
    const y = i * rowHeight, room = view.clientHeight - 1.4 * rowHeight;
    if (y < view.scrollTop) view.scrollTop = y;
    else if (y + rowHeight > view.scrollTop + room) view.scrollTop = y + rowHeight - room;
  }

  function reveal() {
    const i = list.findIndex((row) => row.name === selection.node);
    if (i < 0) return;
    at = i;
    show(i);
  }

  function click(e) {
    const tr = e.target.closest("tr[data-i]");
    if (!tr) return;
    const row = list[at = Number(tr.dataset.i)];
    if (multi && e.target.closest("td.tick")) {
      if (e.target.tagName !== "INPUT") e.preventDefault();
      selection.toggle(row.name, undefined, from);
      announce(plural(selection.nodes.size, what) + " ticked");
    } else if (selection) selection.set(row.name, from);
    paint(true);
    focus();
  }

  function press(e) {
    const page = Math.max(Math.floor(view.clientHeight / rowHeight) - 2, 1), key = e.key;
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, PageDown: at + page, PageUp: at - page, Home: 0, End: list.length - 1 }[key];
    if (to !== undefined) {
      at = Math.min(Math.max(to, 0), list.length - 1);
      show(at);
    } else if (key === "Enter" && selection && list[at]) selection.set(list[at].name, from);
    else if (key === " " && multi && list[at]) selection.toggle(list[at].name, undefined, from);
    else return;
    e.preventDefault();
    paint(true);
    focus();
  }
}
