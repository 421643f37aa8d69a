// Verification as a traffic light: does the integer program compute what the plan says, integer by integer; where it first does not.
import { el } from "../dom.js";
import { cosine, count, number, ofNoise, percent, plural, small, sqnr } from "../format.js";
import { dataForm, dataOptions, drawForm, fields, grid, part, planned, showOperator, steady, tiles } from "./parts.js";
import { task } from "./task.js";

export const verifyView = {
  key: "verify",
  label: "Verify",
  doc:
    "Runs the plan on integers and holds every integer against exact real arithmetic and, if named, against outputs that an engine recorded.",
  draw: drawVerify,
  usable: planned,
};

/** @param {HTMLElement} host @param {App} app */
function drawVerify(host, app) {
  const result = el("div", { class: "result" });
  const form = drawForm(app, fields(app, "verify"));
  const data = dataForm(app, { labels: false, samples: 8, own: "verify", note: "Empty: the data of the plan." });
  const run = task(app, { label: "Verify", fold: true, kind: "verify", most: 8, options: () => {
    const { against, ...rest } = { ...form.read(), ...dataOptions(data.read()) };
    return against ? { ...rest, against: [against] } : rest;
  }, into: result, show: (r) => showVerified(result, app, r) });
  const last = app.state.verification;
  if (last) result.append(el("p", { class: "hint" }, lastText(last)));
  host.replaceChildren(part("Verify the integers", verifyView.doc, data.node, form.node, run, result));
  return steady(app, () => drawVerify(host, app));
}

// lastText says what the plan holds of its last verification: export takes one that is as strong as its own, and of the plan as it is.
/** @param {Core.Verification} v */
const lastText = (v) =>
  `Last verification of this plan: ${v.verdict}, arithmetic ${v.profile}, computed by ${v.backend}, ${plural(v.samples, "sample")}${
    v.data ? ` of ${v.data} data` : ""
  }. Export verifies again what was changed since, or verified on less.`;

// The verdicts, as light, word and sentence. The lights differ in place, form and word, not in colour alone.
const lightOf = {
  equal: { light: "go", sign: "✓", word: "OK" },
  ties: { light: "go", sign: "✓", word: "OK" },
  partial: { light: "slow", sign: "!", word: "PARTLY VERIFIED" },
  unverified: { light: "slow", sign: "!", word: "NOT VERIFIED" },
  nothing: { light: "slow", sign: "!", word: "NOT VERIFIED" },
  other: { light: "stop", sign: "✕", word: "FAILED" },
  different: { light: "stop", sign: "✕", word: "FAILED" },
};

// exactCount is a number of integers with all its digits: of the verification nothing is rounded.
export const exactCount = (n) => Number(n).toLocaleString("en-US");

// knownText says whether the arithmetic is the engine's own.
/** @param {{ engine_known?: boolean; verdict?: string }} v */
export const knownText = (v) => (v.engine_known === undefined || v.verdict === "nothing" ? ""
  : v.engine_known ? " (compared with the engine's own integers)" : " (whether the engine computes so is not known)");

export function trafficLight(verdict) {
  const now = lightOf[verdict] || lightOf.different, box = el("div", { class: "light", role: "img", "aria-label": now.word });
  for (const name of ["stop", "slow", "go"]) {
    box.append(
      el("span", { class: name === now.light ? `lamp ${name} on` : `lamp ${name}`, "aria-hidden": "true" },
        name === now.light ? now.sign : "")
    );
  }
  return box;
}

/** @param {Core.AnalysisVerification} v */
function verdictText(v) {
  const compared = v.simulation.compared, ties = v.simulation.ties;
  const none = `0 of ${exactCount(compared)} integers differ on ${plural(v.samples, "sample")}${
    ties ? `, ${exactCount(ties)} rounding tie${ties === 1 ? "" : "s"}` : ""
  }`;
  const different = v.simulation.different + v.backends.different, faults = (v.static.faults || []).length;
  switch (v.verdict) {
    case "equal":
    case "ties":
      return none + ".";
    case "partial":
      return `${none} in what has an integer form${
        v.share ? ` (${percent(v.share.verified / v.share.all)} of the ${v.share.of === "macs" ? "multiply-accumulates" : "operators"})`
          : ""
      }.`;
    case "nothing":
      return "Nothing was compared: no operator runs on integers, or none was recorded.";
    case "other":
      return "The recorded integers follow another arithmetic than this target's; see the profiles below.";
  }
  return `${exactCount(different)} of ${exactCount(compared + v.backends.compared)} integers and ${
    plural(faults, "constant")
  } of the program differ.`;
}

/** @param {HTMLElement} result @param {Shown} app @param {Core.AnalysisVerification} v */
export function showVerified(result, app, v) {
  const now = lightOf[v.verdict] || lightOf.different, bad = now.light === "stop";
  const head = el("div", { class: "lighted" }, trafficLight(v.verdict),
    el("div", {}, el("p", { class: bad ? "headline large" : "headline" }, el("strong", {}, `${now.word}: `), verdictText(v)),
      el("p", { class: "hint" },
        `Arithmetic ${v.profile}${knownText(v)}, computed by ${v.backend}, ${plural(v.samples, "sample")}${
          v.data ? ` of ${v.data} data` : ""
        }. A rounding tie is an integer whose exact value lies halfway between two integers, within the error of float: either is correct.`)));
  const pieces = [v.first && !v.first.tie ? firstDivergence(app, v.first) : ""];
  pieces.push(
    grid({ caption: "Compared", columns: [
      { label: "what", cell: (r) => r.what },
      { label: "compared", number: true, cell: (r) => exactCount(r.compared) },
      { label: "different", number: true, cell: (r) => exactCount(r.different) },
      { label: "rounding ties", number: true, cell: (r) => (r.ties === undefined ? "" : exactCount(r.ties)) },
    ], rows: [
      { what: "constants of the program, derived again from the plan", compared: v.static.values, different: (v.static.faults || []).length,
        ties: undefined },
      { what: `integers computed by ${v.backend} and by the reference`, ...v.backends, ties: undefined },
      { what: "integers and exact real arithmetic", ...v.simulation },
    ] })
  );
  if (v.bit_exact) {
    pieces.push(
      el("p", { class: "headline open" },
        `The recorded engine is ${v.bit_exact.holds ? "" : "not "}bit-exact with arithmetic ${v.bit_exact.profile}: ${
          exactCount(v.bit_exact.different)
        } of ${exactCount(v.bit_exact.compared)} integers differ${v.bit_exact.max ? `, by up to ${v.bit_exact.max}` : ""}.`)
    );
  }
  if (v.fits && v.fits.length) {
    pieces.push(grid({ caption: "How well each arithmetic explains the recorded integers, the best first", rows: v.fits, columns: [
      { label: "arithmetic", cell: (f) => f.profile },
      { label: "integers", number: true, cell: (f) => exactCount(f.compared) },
      { label: "different", number: true, cell: (f) => exactCount(f.different) },
      { label: "largest difference", number: true, cell: (f) => String(f.max) },
      { label: "note", cell: (f) => f.why || "" },
    ] }));
  }
  const off = v.per_tensor.filter((t) => t.different || t.backend || t.ties);
  pieces.push(el("p", {}, `${off.length} of ${plural(v.per_tensor.length, "tensor")} have a difference or a tie.`));
  if (off.length) {
    pieces.push(
      grid({ caption: "Tensors with differences or ties", rows: off, limit: 40, pick: (t) => showOperator(app, t.node),
        pickDoc: "show this operator in the network", columns: [
          { label: "operator", cell: (t) => t.node, sort: (t) => t.node },
          { label: "type", cell: (t) => t.op, sort: (t) => t.op },
          { label: "integers", number: true, cell: (t) => exactCount(t.compared), sort: (t) => t.compared },
          { label: "different", number: true, cell: (t) => exactCount(t.different + t.backend), sort: (t) => t.different + t.backend },
          { label: "ties", number: true, cell: (t) => exactCount(t.ties), sort: (t) => t.ties },
          { label: "farthest from a tie, in steps",
            doc: "how far the exact value lies from halfway between two integers, at most; the bound is what float may err by",
            number: true, cell: (t) => small(t.distance), title: (t) => `${t.distance}, bound ${t.bound}`, sort: (t) => t.distance },
        ] })
    );
  }
  if (v.simulated && v.simulated.length) {
    pieces.push(
      grid({ caption: "Without an integer form: simulated, not compared", rows: v.simulated, limit: 40, pick: (s) =>
        showOperator(app, s.node), columns: [
          { label: "operator", cell: (s) => s.node },
          { label: "type", cell: (s) => s.op },
          { label: "MACs", number: true, cell: (s) => count(s.macs), title: (s) => String(s.macs) },
          { label: "why", cell: (s) => s.why },
        ] })
    );
  }
  if (v.first && v.first.tie) pieces.push(firstDivergence(app, v.first));
  pieces.push(...hazards(app, v));
  const risky = (v.safety || []).some((s) => !s.fits);
  result.replaceChildren(head,
    el("details", { class: "more", open: now.light !== "go" || risky || Boolean(v.bit_exact || v.fits && v.fits.length) },
      el("summary", {}, "What was compared, tensor by tensor"), pieces));
}

// firstDivergence is where the first integer differs: what was expected, by whom, and what came.
/** @param {Shown} app @param {Core.Divergence} d */
function firstDivergence(app, d) {
  return part(d.tie ? "The first rounding tie" : "The first integer that differs", "", tiles([
    { label: "operator",
      value: el("button", { type: "button", class: "link", title: "show this operator in the network",
        onclick: () => showOperator(app, d.node) }, el("bdi", {}, d.node)) },
    { label: "tensor", value: el("bdi", {}, d.tensor) },
    { label: "element", value: String(d.index) },
    { label: d.what || "value", value: `${d.got}`, doc: "what was computed" },
    { label: `expected by the ${d.expected_by}`, value: String(d.expected) },
    d.exact === undefined || d.exact === null ? null
      : { label: "exact value", value: number(d.exact), title: String(d.exact), doc: "in real arithmetic, before rounding" },
    d.accumulator === undefined || d.accumulator === null ? null
      : { label: "sum", value: String(d.accumulator), doc: "the int32 accumulator" },
    d.multiplier ? { label: "multiplier", value: d.multiplier } : null,
  ]));
}

// hazards are sums that may not fit, and where integers become float and back.
/** @param {Shown} app @param {Core.AnalysisVerification} v */
function hazards(app, v) {
  const list = [], risky = (v.safety || []).filter((s) => !s.fits || s.at_risk);
  list.push(el("h4", {}, "Integer overflow"),
    el("p", {},
      (v.safety || []).every((s) => s.fits) ? `All sums fit into 32 bits for every input (${plural((v.safety || []).length, "operator")}).`
        : "Some sums may leave 32 bits."));
  if (risky.length) {
    list.push(
      grid({ caption: "16-bit saturation on x86 without VNNI, and sums that do not fit", rows: risky, limit: 30, pick: (s) =>
        showOperator(app, s.node), columns: [
          { label: "operator", cell: (s) => s.node },
          { label: "bits of the sums", number: true, cell: (s) => String(s.bits), sort: (s) => s.bits },
          { label: "weight pairs at risk", doc: "two products whose sum may leave 16 bits for some input", number: true, cell: (s) =>
            `${exactCount(s.at_risk)} of ${exactCount(s.pairs)}`, sort: (s) => s.at_risk },
          { label: "saturated on these samples", number: true,
            cell: (s) => (s.sums ? `${exactCount(s.saturated)} of ${exactCount(s.sums)}` : "0"), sort: (s) => s.saturated },
          { label: "cure", cell: (s) => s.cure || "" },
        ] })
    );
  }
  if (v.drift && v.drift.length) {
    list.push(grid({ caption: "Integer program and simulation, both run freely", rows: v.drift, columns: [
      { label: "output", cell: (d) => d.output },
      { label: "SQNR", number: true, cell: (d) => sqnr(d.nsr), title: (d) => ofNoise(d.nsr) },
      { label: "cosine", number: true, cell: (d) => cosine(d.cosine) },
      { label: "largest difference", number: true, cell: (d) => small(d.max_difference), title: (d) => String(d.max_difference) },
    ] }));
  }
  if (v.crossings && v.crossings.length) {
    list.push(grid({ caption: "Precision boundaries: tensors converted between integers and float", rows: v.crossings, limit: 20, columns: [
      { label: "step", cell: (c) => c.step },
      { label: "tensor", cell: (c) => c.tensor },
      { label: "to", cell: (c) => (c.to_float ? "float" : "integers") },
      { label: "where", cell: (c) => (c.island ? "at an operator in float" : "at an end of the graph") },
      { label: "bytes per sample", number: true, cell: (c) => exactCount(c.bytes), sort: (c) => c.bytes },
    ] }));
  }
  return list;
}
