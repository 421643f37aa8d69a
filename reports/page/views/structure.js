// Two networks beside each other: which operators only one of them has, and which the other has under another form.
import { el } from "../dom.js";
import { plural } from "../format.js";
import { drawGraph } from "../graph.js";
import { newSelection } from "../selection.js";
import { grid } from "./parts.js";

const kinds = { only_a: "only in A", only_b: "only in B", form: "other form", renamed: "other name" };

// structureOf shows an answer of the method structures.
/** @param {App} app @param {Core.StructuresResult} s */
export function structureOf(app, s) {
  const host = el("div", { class: "result" }, el("h4", {}, "Operators"),
    el("p", { class: s.different ? "headline visible" : "headline open" }, sentence(s)));
  if (!s.rows.length || s.different) return host;
  const names = (list) => list.map((o) => o.node).join(", "), types = (list) => [...new Set(list.map((o) => o.op))].join(", ");
  host.append(grid({ caption: "Operators that are not the same in both", rows: s.rows, limit: 40, columns: [
    { label: "where", cell: (r) => kinds[r.kind], sort: (r) => kinds[r.kind] },
    { label: "in A", cell: (r) => names(r.a), sort: (r) => names(r.a) },
    { label: "type in A", cell: (r) => types(r.a), sort: (r) => types(r.a) },
    { label: "in B", cell: (r) => names(r.b), sort: (r) => names(r.b) },
    { label: "type in B", cell: (r) => types(r.b), sort: (r) => types(r.b) },
    { label: "what differs", cell: (r) => r.why },
  ] }), el("div", { class: "networks" }, network(s, "a"), network(s, "b")));
  return host;
}

/** @param {Core.StructuresResult} s */
function sentence(s) {
  if (s.different) return `${s.different[0].toUpperCase()}${s.different.slice(1)}.`;
  const all = `${plural(s.both, "operator")} ${s.both === 1 ? "is" : "are"} in both${
    s.renamed ? ` (${s.renamed} under another name)` : ""
  }`;
  if (s.both === s.a && s.both === s.b) {
    return s.renamed ? `${all}; there are no others.` : `A and B have the same ${plural(s.both, "operator")}.`;
  }
  const form = s.form_a || s.form_b ? [`in both under another form: ${s.form_a} of A, ${s.form_b} of B`] : [];
  return [all, `${s.only_a} only in A`, `${s.only_b} only in B`, ...form].join("; ") + ".";
}

// rowsOf are the operators of the picture of one side, for its colours.
/** @param {Core.StructuresResult} s @param {"a" | "b"} side */
function rowsOf(s, side) {
  const at = new Map(s.rows.flatMap((r) => r[side].map((o) => [o.node, r.kind])));
  const word = (n) => (n.op === "Input" || n.op === "Output" ? null
    : !at.has(n.name) || at.get(n.name) === "renamed" ? "in both" : kinds[at.get(n.name)]);
  return s[`picture_${side}`].nodes.map((n, index) => ({ index, name: n.name, op: n.op, structure: word(n) }));
}

// network draws one side, coloured by what the other one has. The colours mean the same on both sides.
/** @param {Core.StructuresResult} s @param {"a" | "b"} side */
function network(s, side) {
  const host = el("div", { class: "differs" }), letter = side.toUpperCase();
  const seen = new IntersectionObserver((entries) => { // drawn once it has a size
    if (!entries.some((e) => e.isIntersecting)) return;
    seen.disconnect();
    drawGraph(host, { picture: s[`picture_${side}`], rows: rowsOf(s, side), selection: newSelection(), colouring: "structure",
      title: `Network ${letter}: what the other one has` });
  });
  seen.observe(host);
  return el("section", { "aria-label": `Network ${letter}` }, el("h4", {}, `${letter}: `, el("bdi", {}, s[`file_${side}`])), host);
}
