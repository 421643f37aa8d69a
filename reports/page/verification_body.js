// A verification: the verdict, the first difference, and every tensor that was compared.
import { el } from "./dom.js";
import { count, exact, known, number, plural, small } from "./format.js";
import { drawTable } from "./table.js";
import { showVerified } from "./views/verify.js";

// drawVerification fills main with a verification, as qwb verify --json prints it.
/** @param {HTMLElement} main @param {string} title @param {Core.AnalysisVerification} v */
export function drawVerification(main, title, v, selection) {
  const result = el("div", { class: "result" });
  main.append(el("h1", null, el("bdi", null, title)),
    el("p", { class: "soft" }, "Verification · profile ", el("b", null, v.profile), " · backend ", el("b", null, v.backend),
      " · " + plural(v.samples, "sample"), v.placed
      && " · " + (v.placed.on_device || 0) + " of " + plural(v.placed.steps, "step") + " on " + v.placed.device + ", "
        + (v.placed.on_host || []).length + " on the CPU"), result);
  if (v.measured) {
    main.append(el("p", { class: "warn" }, "The profile saturates: what differs from real arithmetic is measured, not held against it."));
  }
  showVerified(result, { selection, rows: [] }, v);

  const whole = (key, label, doc) => ({ key, label, doc, kind: "number", value: (row) => row[key],
    show: (row) => (known(row[key]) ? String(row[key]) : null), width: 7 });
  const text = (key, label, doc, width) => ({ key, label, doc, kind: "text", value: (row) => row[key], width: width || 9 });
  const named = (key, label) => ({ key, label, doc: "Name in the model.", kind: "name", value: (row) => row[key] });
  const op = text("op", "type", "Type of the operator.");

  if ((v.static.faults || []).length) {
    table("Numbers that are not the plan's", "Constants of the program that were derived again from the plan, and differ.", v.static.faults,
      [
        named("node", "operator"),
        op,
        text("tensor", "tensor", "Name of the tensor.", 14),
        text("what", "what", "Which constant."),
        whole("index", "index", "Of the element or channel."),
        text("expected", "expected", "By the plan."),
        text("got", "got", "In the program."),
      ]);
  }
  table("Tensors",
    "Every step is computed again from the integers that it read. A difference is a tie where the exact value lies within the bound of a rounding boundary; distance is the largest one of an integer that differs, in steps.",
    v.per_tensor, [
    named("tensor", "tensor"),
    text("node", "operator", "The operator that computes it.", 14),
    op,
    whole("compared", "integers", "Compared with exact real arithmetic."),
    whole("different", "different", "Integers that differ, ties excepted."),
    whole("ties", "ties", "Exact value halfway between two integers, within the error of float: either is correct."),
    whole("backend", "backend", "Integers in which the backend differs from the reference."),
    { key: "bound", label: "bound", doc: "By how much float may err, in steps.", kind: "number", value: (row) => row.bound,
      show: (row) => small(row.bound), width: 7 },
    { key: "distance", label: "distance", doc: "Of the exact value from the rounding boundary, at most, in steps.", kind: "number",
      value: (row) => row.distance, show: (row) => small(row.distance), width: 7 },
    { key: "histogram", label: "differences", doc: "How many integers differ by how many steps.", kind: "text",
      value: (row) => (row.histogram || []).map((h) => (h.difference > 0 ? "+" : "") + h.difference + ": " + h.count).join(", "),
      width: 12 },
  ]);
  if ((v.safety || []).length) {
    table("Sums of products",
      "Bounds hold for every input. Processors without VNNI add pairs of neighbouring products in 16 bits: those at risk saturate for some input, the saturated ones did on the data.",
      v.safety, [
      named("node", "operator"),
      op,
      whole("min", "least", "Smallest partial sum for any input."),
      whole("max", "most", "Largest partial sum for any input."),
      whole("bits", "bits", "That a signed accumulator needs."),
      whole("bias", "largest bias", "Largest magnitude of an integer bias."),
      whole("pairs", "pairs", "Of neighbouring products."),
      whole("at_risk", "at risk", "Pairs that leave 16 bits for some input."),
      whole("sums", "sums of pairs", "Counted on the data."),
      whole("saturated", "saturated", "Sums that left 16 bits on the data."),
      whole("affected", "accumulators", "That have a saturated sum."),
      text("cure", "cure", "What helps.", 20),
    ]);
  }

  function table(heading, doc, rows, columns) {
    const host = el("div");
    main.append(el("h2", null, heading), el("p", { class: "soft" }, doc), host);
    const list = rows.map((row, i) => ({ ...row, name: row[columns[0].key], key: i }));
    drawTable(host, { rows: list, columns, label: heading, what: "row", height: Math.min(16, rows.length + 1), search: rows.length > 10 });
  }
}
