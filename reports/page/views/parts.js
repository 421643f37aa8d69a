// What the views share: forms made of rows, result tables, buttons that run a job, and the choice of a file.
import { linesOf, onRemember, proposed, remember } from "../context.js";
import { el, visible } from "../dom.js";
import { bytes, known, plural, problemText } from "../format.js";
import { baseName } from "../frame.js";

// part is a titled piece of a view. doc is one sentence that says what it is for.
export function part(title, doc, ...children) {
  return el("section", { class: "part" }, el("h3", {}, title), doc ? el("p", { class: "doc" }, doc) : "", ...children);
}

// grouped are the options of a field by their group, in the order in which the groups first come: [[group or undefined, options], ...].
function grouped(options) {
  const groups = new Map();
  for (const o of options) groups.set(o.group, [...(groups.get(o.group) || []), o]);
  return [...groups];
}

let fieldNumber = 0; // for ids that tie labels and hints to their controls

// drawForm makes labelled controls out of rows {name, label, doc, type, options, value, min, max, step, placeholder, of}.
// type: text (default), number, check, select, many (check boxes), range, file (with a chooser; of: the kind of files).
/** @param {App} app */
export function drawForm(app, rows) {
  const node = el("div", { class: "fields" }), readers = {}, writers = {}, noted = new Map();
  const names = new Map(rows.filter((row) => row.type !== "many").map((row) => [row.memory || row.name, row.name]));
  const off = onRemember((more) => { // what another view notes of the same field
    if (!node.isConnected) return off();
    for (const [memory, value] of Object.entries(more)) {
      if (names.has(memory) && noted.get(memory) !== value) writers[names.get(memory)](value);
    }
  });
  for (const row of rows) {
    const id = `field${++fieldNumber}`, hint = row.doc ? el("p", { class: "hint", id: `${id}doc` }, row.doc) : null;
    const memory = row.memory || row.name, first = proposed(memory, row.value), keep = (value) => {
      noted.set(memory, value);
      remember({ [memory]: value });
      if (row.changed) row.changed(value);
    };
    const about = { id, "aria-describedby": hint ? `${id}doc` : null };
    /** @type {any} */
    let control;
    let extra = [];
    if (row.type === "many") {
      const chosen = new Set(first || []);
      const boxes = row.options.map((o) => {
        const box = el("input", { type: "checkbox", value: o.name, checked: chosen.has(o.name) });
        box.addEventListener("change", () => {
          if (box.checked) chosen.add(o.name);
          else chosen.delete(o.name);
          keep([...chosen]);
        });
        return el("label", { class: "box", title: o.doc || "" }, box, " ", o.label || o.name);
      });
      const box = new Map(row.options.map((o, i) => [o, boxes[i]])), listed = ([group, list]) =>
        group ? el("div", { role: "group", "aria-label": group }, el("b", {}, group), list.map((o) =>
          box.get(o)
        )) : list.map((o) => box.get(o));
      node.append(
        el("fieldset", { class: "field many" }, el("legend", {}, row.label), hint || "",
          el("div", { class: "boxes" }, grouped(row.options).map(listed)))
      );
      readers[row.name] = () =>
        row.options.map((o) => o.name).filter((name) => chosen.has(name));
      continue;
    }
    if (row.type === "select") {
      const option = (o) => el("option", { value: o.name, title: o.doc || "" }, o.label || o.name);
      control = el("select", about, grouped(row.options).map(([group, list]) =>
        group ? el("optgroup", { label: group }, list.map(option)) : list.map(option)
      ));
      control.value = row.options.some((o) => o.name === first) ? first : row.options.length ? row.options[0].name : "";
      readers[row.name] = () => control.value;
    } else if (row.type === "check") {
      control = el("input", { ...about, type: "checkbox", checked: Boolean(first) });
      readers[row.name] = () => control.checked;
    } else if (row.type === "number" || row.type === "range") {
      control = el("input", { ...about, type: row.type, min: row.min, max: row.max, step: row.step || 1, placeholder: row.placeholder });
      if (first !== undefined && first !== null) control.value = String(first);
      readers[row.name] = () => (control.value === "" ? undefined : Number(control.value));
      if (row.type === "range") {
        const out = el("output", { for: id }), show = () => {
          out.textContent = row.show ? row.show(Number(control.value)) : control.value;
        };
        control.addEventListener("input", show);
        show();
        extra = [out];
      }
    } else {
      const lines = String(first || "").split("\n").length,
        text = { ...about, autocomplete: "off", spellcheck: "false", placeholder: row.placeholder };
      control = lines > 1 ? el("textarea", { ...text, rows: lines, title: "one in each line" }) : el("input", { ...text, type: "text" });
      control.value = first || "";
      readers[row.name] = () => control.value.trim();
      if (row.choices) {
        control.setAttribute("list", `${id}list`);
        extra = [el("datalist", { id: `${id}list` }, row.choices.map((c) => el("option", { value: c })))];
      }
      if (row.type === "file") {
        const put = (value) => {
          control.value = value;
          keep(value);
        };
        extra = [
          el("button", { type: "button", title: "Choose among the files that this page may see", onclick: () =>
            chooseFile(app, row.of || "any", row.label, put) }, "Browse…"),
        ];
      }
    }
    control.addEventListener("change", () => keep(readers[row.name]()));
    writers[row.name] = (value) => {
      if (row.type === "check") control.checked = Boolean(value);
      else control.value = value;
      keep(value);
    };
    const label = el("label", { for: id }, row.label);
    const line = row.type === "check" ? [control, label] : [label, el("span", { class: "with" }, control, ...extra)];
    node.append(el("div", { class: row.type === "check" ? "field check" : "field" }, ...line, hint || ""));
  }
  const read = () => {
    /** @type {Record<string, any>} */
    const values = {};
    for (const row of rows) {
      const v = readers[row.name]();
      if (v !== undefined && v !== "" && !(Array.isArray(v) && v.length === 0)) values[row.name] = v;
    }
    return values;
  };
  return { node, read, set: (name, value) => writers[name](value) };
}

// chooseFile opens a dialog with the files under the folders that the server was given, and those dropped on the page.
/** @param {App} app */
function chooseFile(app, kind, label, take) {
  const list = el("ul", { class: "entries" }), where = el("p", { class: "where", "aria-live": "polite" });
  const dialog = el("dialog", { class: "filedialog", "aria-label": `Choose: ${label}` });
  const close = () => {
    dialog.close();
    dialog.remove();
  };
  const show = async (dir) => {
    let answer;
    try {
      answer = await app.client.call("files", { dir, kind });
    } catch (problem) {
      where.textContent = problem.message;
      return;
    }
    where.textContent = answer.dir ? `in ${answer.dir}` : "folders that this page may see";
    const use = (name) => {
      take(name);
      close();
    };
    const rows = answer.entries.map((e) => (e.dir
      ? el("li", {}, el("button", { type: "button", title: "open this folder", onclick: () => show(e.name) }, `${e.label}/`),
        el("button", { type: "button", title: "take this folder with all that is in it", onclick: () => use(e.name) }, "use"))
      : el("li", {},
        el("button", { type: "button", title: e.name, onclick: () => use(e.name) },
          `${e.label}${known(e.size) ? ` (${bytes(e.size)})` : ""}`)))
    );
    if (answer.parent || answer.dir && (app.state.roots || []).length > 1) {
      rows.unshift(
        el("li", {}, el("button", { type: "button", title: "the folder above", onclick: () => show(answer.parent || "") }, ".."))
      );
    }
    list.replaceChildren(...(rows.length ? rows : [el("li", {}, "nothing of this kind here")]));
  };
  dialog.append(el("h3", {}, label), where, list,
    el("p", { class: "actions" }, el("button", { type: "button", onclick: close }, "Cancel")));
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
  show("");
}

// message writes what went wrong, or what happened, into a live region.
export function message(host, text, bad) {
  host.classList.toggle("bad", Boolean(bad));
  host.textContent = visible(text);
}

// grid is a table of results. columns: {label, doc, cell(row) (text or node), sort(row) (number or text; without: not sortable),
// title(row)}. pick(row), where given, makes the first cell a button.
/** @template R @param {Grid<R>} choices */
export function grid({ caption, columns, rows, pick, pickDoc, limit = 200, mark }) {
  const body = el("tbody", {}), heads = columns.map((c) => el("th", { scope: "col", title: c.doc || "", class: c.number ? "" : "name" }));
  let all = false, order = null, down = true;
  const fill = () => {
    const sorted = order ? [...rows].sort((a, b) => (down ? -1 : 1) * compareKeys(order.sort(a), order.sort(b))) : rows;
    const shown = all ? sorted : sorted.slice(0, limit);
    body.replaceChildren(...shown.map((row) =>
      el("tr", { class: mark ? mark(row) : "" }, ...columns.map((c, i) => {
        const value = c.cell(row),
          text = value === null || value === undefined || value === "" ? "–"
            : !c.number && typeof value === "string" ? el("bdi", {}, value) : value;
        const title = c.title ? c.title(row) : "";
        return el(i === 0 ? "th" : "td", { class: c.number ? "" : "name wrap", title, scope: i === 0 ? "row" : null },
          i === 0 && pick ? el("button", { type: "button", class: "link", title: pickDoc || "", onclick: () => pick(row) }, text) : text);
      }))
    ));
    more.hidden = all || rows.length <= limit;
  };
  const more = el("button", { type: "button", onclick: () => {
    all = true;
    fill();
  } }, `Show all ${rows.length} rows`);
  columns.forEach((c, i) => {
    if (!c.sort) {
      heads[i].append(c.label);
      return;
    }
    heads[i].append(el("button", { type: "button", class: "sort", title: `${c.doc || c.label}: sort`, onclick: () => {
      down = order === c ? !down : rows.length > 0 && typeof c.sort(rows[0]) === "number";
      order = c;
      heads.forEach((h) => h.removeAttribute("aria-sort"));
      heads[i].setAttribute("aria-sort", down ? "descending" : "ascending");
      fill();
    } }, c.label));
  });
  const node = el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    el("table", { class: "results" }, el("caption", {}, caption), el("thead", {}, el("tr", {}, ...heads)), body), more);
  fill();
  return node;
}

// compareKeys orders numbers and texts; what is not known comes last from the largest.
function compareKeys(a, b) {
  if (typeof a === "number" && typeof b === "number") return a - b;
  return String(a === null || a === undefined ? "" : a).localeCompare(String(b === null || b === undefined ? "" : b), undefined, {
    numeric: true,
  });
}

// tiles are the few figures that matter: {label, value, doc, title}.
export function tiles(list) {
  return el("div", { class: "tiles" },
    list.filter(Boolean).map((t) =>
      el("div", { class: "tile", title: t.doc || "" }, el("span", { class: "soft" }, t.label), el("b", { title: t.title || "" }, t.value))
    ));
}

// warningList shows warnings, which are texts or objects with one, but that there are fewer samples than a form filled in by itself.
export function warningList(list, most = 0) {
  const texts = (list || []).map((w) => w.text || String(w)), own = `--samples ${most}: the data have only`;
  return texts.filter((text) => !text.startsWith(own)).map((text) => el("p", { class: "warn" }, text));
}

// field is the row of a form for an option of a job, as the core has it; own is what only this page knows of it.
/** @param {App} app */
export function field(app, kind, name, own = {}) {
  const option = app.state.options[kind].find((o) => o.name === name), f = option.field,
    list = f.list ? app.state[f.list] || [] : f.choices;
  const row = { name, label: f.label, doc: f.doc, of: f.of, placeholder: f.placeholder, value: f.value,
    type: f.type || { flag: "check", count: "number", number: "number" }[option.type] };
  if (option.type === "count") row.min = 0;
  if (row.type === "select" || row.type === "many") row.options = [...(f.none ? [{ name: "", label: f.none }] : []), ...list];
  else if (list) row.choices = list;
  return { ...row, ...own };
}

// fields are the rows for all options of a job that have a field, but for those about samples, which dataRows has; own has more by their
// names.
/** @param {App} app */
export function fields(app, kind, own = {}) {
  const apart = ["data", "preprocess", "labels", "label_offset", "samples", "metric", "alphabet"];
  return app.state.options[kind].filter((o) => o.field && !apart.includes(o.name)).map((o) => field(app, kind, o.name, own[o.name]));
}

// defaults are what those fields say before anybody changes them, as options of a job.
/** @param {App} app @param {string} kind */
export const defaults = (app, kind) => drawForm(app, fields(app, kind)).read();

// dataRows are the fields of a form that say which samples are used; the plan's own data are proposed. fit names what fits something on
// them: it has a memory of its own, so that nothing is ever fitted on samples only because accuracy was measured on them. own names what
// needs a number of samples of its own.
/**
 * @param {App} app
 * @param {{ labels?: boolean; samples?: number; note?: string; fallback?: string[]; fit?: string; own?: string }} choices
 */
export function dataRows(app, { labels = true, samples, note, fallback, fit, own = fit } = {}) {
  const data = /** @type {Partial<Core.DataOptions>} */ (app.state.data || {}),
    paths = !fit && data.data && data.data.length ? data.data : fallback || [];
  const same = !fit || paths.join("\n") === (data.data || []).join("\n"); // labels belong to their samples
  const row = (name, own) => field(app, "trial", name, own), apart = (name) => fit === "search" && `${name} to search`;
  const rows = [row("data", { memory: fit && `data to ${fit}`, value: paths.join("\n"), ...(note ? { doc: note } : {}) })];
  if (labels) {
    rows.push(row("labels", { memory: apart("labels"), value: same && fit !== "search" ? data.labels || "" : "" }),
      row("label_offset", { memory: apart("label_offset"), value: data.label_offset || 0 }));
  }
  rows.push(row("samples", { memory: own && `samples to ${own}`, value: samples }));
  return rows;
}

// dataForm is the form of dataRows, folded into one line that says which samples are used. empty are the words for none named; open, that
// there is something to fill in.
/** @param {App} app @param {Parameters<typeof dataRows>[1] & { empty?: string; open?: boolean }} choices */
export function dataForm(app, { empty = "those of the plan", open = false, ...choices } = {}) {
  const form = drawForm(app, dataRows(app, choices)), said = el("bdi");
  const node = el("details", { class: "datafold", open },
    el("summary", { title: "Which samples this view uses" }, el("b", null, "Samples: "), said, " ",
      el("span", { class: "change" }, "change")), form.node);
  const tell = () => {
    const v = form.read(), list = linesOf(v.data).map(baseName);
    said.textContent = visible([
      list.length ? list.join(", ") : empty,
      v.samples && `at most ${v.samples}`,
      v.labels && `labels ${baseName(v.labels)}${v.label_offset ? ` moved by ${v.label_offset}` : ""}`,
    ].filter(Boolean).join(", "));
  };
  tell();
  node.addEventListener("change", tell);
  const off = onRemember(() => node.isConnected ? tell() : off());
  return { ...form, node };
}

// dataOptions turns the fields of dataRows into the options of a job.
export function dataOptions(values) {
  const { data, ...rest } = values;
  if (!rest.labels) delete rest.label_offset;
  return data ? { ...rest, data: linesOf(data) } : rest;
}

// showOperator selects an operator and goes where network, inspector and table show it. Methods name several as "a and 3 more".
/** @param {Shown} app @param {string} name */
export function showOperator(app, name) {
  const row = app.rows.find((r) => r.name === name) || app.rows.find((r) => r.name === name.replace(/ and \d+ more$/, ""));
  if (!row) return;
  app.selection.set(row.name);
  app.go("network");
}

// planned says whether a view that works on a plan has one.
/** @param {App} app */
export const planned = (app) => app.state.exists && !app.state.language;

// steady is what a view's draw returns: it is drawn anew only where another model, plan or target is open, so that results stay. calm(was,
// now), where given, names changes that it need not be drawn anew for.
/** @param {App} app @param {() => void} redraw @param {(was: any, now: any) => boolean} calm */
export function steady(app, redraw, calm = () => false) {
  const now = () => ({ model: app.state.model, plan: app.state.plan, exists: app.state.exists, platform: app.state.platform });
  let was = now();
  return { update() {
    const before = was;
    was = now();
    if (JSON.stringify(before) !== JSON.stringify(was) && !calm(before, was)) redraw();
  } };
}
