// Deciding something about one or many operators: what, the estimated effect at once, the command line, and a button that does it.
import { commandLine, el, replace, unique } from "../dom.js";
import { bytes, exact, percent, plural, withError } from "../format.js";

// What can be decided of operators. values(state) are choices; hand is the first text of a value written by hand, some what is proposed for it.
const choices = [
  { key: "fp32", label: "Keep in FP32", properties: () => ["domain=fp32"], doc: "Compute these operators in float. Costs speed and size, takes their error away." },
  { key: "int", label: "Compute on integers", properties: () => ["domain=int"], doc: "Quantize these operators, whatever target or search decided." },
  { key: "observer", label: "Observer", values: (state) => state.observers, properties: (v) => [`observer=${v}`], doc: "The method that chooses the range of activations from the statistics. Needs no data." },
  { key: "channel", label: "Weights: one scale per channel", properties: () => ["per_tensor=false"], doc: "A scale for each output channel: more exact weights, where the target can." },
  { key: "tensor", label: "Weights: one scale per tensor", properties: () => ["per_tensor=true"], doc: "One scale for all weights of an operator." },
  { key: "activations", label: "Scheme of activations", hand: "int16-sym-tensor", some: ["int8-sym-tensor", "uint8-asym-tensor", "int16-sym-tensor", "uint16-asym-tensor", "int8-sym-dynamic-token", "e4m3-sym-tensor"], properties: (v) => [`activations=${v}`], doc: "Number format and scales of activations, for instance int16-sym-tensor or uint8-asym-tensor. What the target cannot do is refused, with what it can." },
  { key: "weights", label: "Scheme of weights", hand: "int8-sym-channel", some: ["int8-sym-channel", "int8-sym-tensor", "int4-sym-channel", "int4-sym-g32", "e4m3-sym-tensor", "e2m1-sym-nv16"], properties: (v) => [`weights=${v}`], doc: "Number format and scales of weights, for instance int8-sym-channel or int4-sym-g32." },
  { key: "other", label: "Other property", hand: "reduce_range=true", properties: (v) => v.split(/\s+/).filter(Boolean), doc: "Any property that qwb set takes, as KEY=VALUE." },
];

// decision makes the form. target() says what it is about, {nodes: [...]} or {select}, null for nothing; note, what stands before it.
export function decision(app, { target, before }) {
  const ids = { what: unique("decide"), value: unique("value") };
  let choice = null, asked = 0, timer = 0, deciding = false;
  const what = el("select", { id: ids.what, onchange: pick }, el("option", { value: "" }, "Choose what to decide …"), choices.map((c) => el("option", { value: c.key, title: c.doc }, c.label)));
  const valueHost = el("span", { class: "value" }), doc = el("p", { class: "soft" }), effect = el("div", { class: "effect", role: "status" });
  const apply = el("button", { type: "button", class: "primary", disabled: true, title: "Put this decision into the plan. Undo takes it back.", onclick: decide }, "Apply");
  let value = null, list = null;
  const node = el("div", { class: "decide" }, el("div", { class: "actions" }, before, el("label", { for: ids.what, class: "unseen" }, "What to decide"), what, valueHost, apply), doc, effect);

  function pick() {
    choice = choices.find((c) => c.key === what.value) || null;
    doc.textContent = what.title = choice ? choice.doc : "";
    value = list = null;
    if (choice && choice.values) {
      value = el("select", { id: ids.value, "aria-label": choice.label, onchange: ask }, choice.values(app.state).map((o) => el("option", { value: o.name, title: o.doc }, o.name)));
    } else if (choice && choice.hand) {
      list = choice.some && el("datalist", { id: `${ids.value}-some` }, choice.some.map((name) => el("option", { value: name })));
      value = el("input", { id: ids.value, type: "text", list: list && `${ids.value}-some`, value: choice.hand, "aria-label": choice.label, autocomplete: "off", spellcheck: "false", oninput: () => { clearTimeout(timer); timer = setTimeout(ask, 250); } });
    }
    replace(valueHost, value, list);
    ask();
  }

  const properties = () => choice.properties(value ? value.value.trim() : "");

  // ask shows the estimated effect of what is chosen; of several answers under way the last counts.
  async function ask() {
    if (deciding) return; // the page is read anew before the choice is taken back
    const mine = ++asked, about = target();
    apply.disabled = !choice || !about;
    if (!choice || !about) {
      replace(effect);
      return;
    }
    try {
      const e = await app.client.call("estimate", { ...about, properties: properties() });
      if (mine === asked) replace(effect, effectOf(e));
    } catch (problem) {
      if (mine !== asked) return;
      apply.disabled = problem.kind === "usage" || problem.kind === "decision";
      replace(effect, el("p", { class: "bad" }, problem.message));
    }
  }

  async function decide() {
    apply.disabled = deciding = true;
    const done = await app.change("set", { ...target(), properties: properties() }).then(() => true, () => false);
    deciding = false;
    if (!done) {
      apply.disabled = false;
      return;
    }
    what.value = "";
    pick();
  }

  return { node, update: ask };
}

// effectOf shows an estimate: error, work and size, before and after.
export function effectOf(e) {
  const nsr = (f) => el("b", { title: `${exact(f.nsr)} ± ${exact(f.nsr_error)}` }, withError(f.nsr, f.nsr_error));
  const taken = e.taken_along;
  return [
    el("p", null, el("abbr", { title: `Not measured: ${e.basis}` }, "Estimated"), " NSR of the outputs: ", e.before ? [nsr(e.before), " → ", e.after ? nsr(e.after) : "not known"] : "not known before the plan is measured", e.stale && " (from figures before the last change)",
      el("span", { class: "soft" }, `; MACs on integers ${percent(e.macs_int8.before)} → ${percent(e.macs_int8.after)}; constants ${bytes(e.bytes.before)} → ${bytes(e.bytes.after)}`,
        taken.length > 0 && `; taken along, because it is computed together: ${taken.slice(0, 4).join(", ")}${taken.length > 4 ? ` and ${plural(taken.length - 4, "more", "more")}` : ""}`)),
    commandLine(e.command)];
}
