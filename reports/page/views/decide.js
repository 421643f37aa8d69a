// Deciding something about one or many operators: what, the estimated effect at once, the command line, and a button that does it.
import { commandLine, el, replace, unique } from "../dom.js";
import { bytes, ofNoise, percent, sqnr } from "../format.js";

// What can be decided of operators. values(state) are choices; hand is the first text of a value written by
// hand; offers, which schemes of the target there are to choose from.
const choices = [
  { key: "fp32", label: "Keep in FP32", properties: () => ["domain=fp32"],
    doc: "Compute these operators in float. Costs speed and size, takes their error away." },
  { key: "int", label: "Compute on integers", properties: () => ["domain=int"],
    doc: "Quantize these operators, whatever target or search decided." },
  { key: "observer", label: "Observer", values: (state) => state.observers, properties: (v) => [`observer=${v}`],
    doc: "The method that chooses the range of activations from the statistics. Needs no data." },
  { key: "channel", label: "Weights: one scale per channel", properties: () => ["per_tensor=false"],
    doc: "A scale for each output channel: more exact weights, where the target can." },
  { key: "tensor", label: "Weights: one scale per tensor", properties: () => ["per_tensor=true"],
    doc: "One scale for all weights of an operator." },
  { key: "activations", label: "Scheme of activations", offers: "activations", properties: (v) => [`activations=${v}`],
    doc: "Number format and scales of activations, of those that the target has for these operators." },
  { key: "weights", label: "Scheme of weights", offers: "weights", properties: (v) => [`weights=${v}`],
    doc: "Number format and scales of weights, of those that the target has for these operators." },
  { key: "other", label: "Other property", hand: "reduce_range=true", properties: (v) => v.split(/\s+/).filter(Boolean),
    doc: "Any property that qwb set takes, as KEY=VALUE." },
];

// decision makes the form. target() says what it is about, {nodes: [...]} or {select}, null for nothing; note, what stands before it.
/** @param {App} app @param {{ target: () => any; before?: any }} choices */
export function decision(app, { target, before }) {
  const ids = { what: unique("decide"), value: unique("value") };
  let choice = null, asked = 0, timer = 0, deciding = false;
  const what = el("select", { id: ids.what, onchange: pick }, el("option", { value: "" }, "Choose what to decide …"),
    choices.map((c) => el("option", { value: c.key, title: c.doc }, c.label)));
  const valueHost = el("span", { class: "value" }), doc = el("p", { class: "soft" }),
    effect = el("div", { class: "effect", role: "status" });
  const apply = el("button", { type: "button", class: "primary", disabled: true,
    title: "Put this decision into the plan. Undo takes it back.", onclick: decide }, "Use");
  let value = null;
  const node = el("div", { class: "decide" },
    el("div", { class: "actions" }, before, el("label", { for: ids.what, class: "unseen" }, "What to decide"), what, valueHost, apply), doc,
    effect);

  function pick() {
    choice = choices.find((c) => c.key === what.value) || null;
    doc.textContent = what.title = choice ? choice.doc : "";
    value = null;
    if (choice && choice.values) {
      value = el("select", { id: ids.value, "aria-label": choice.label, onchange: ask }, choice.values(app.state).map((o) =>
        el("option", { value: o.name, title: o.doc }, o.name)
      ));
    } else if (choice && choice.offers) {
      value = el("select", { id: ids.value, "aria-label": choice.label, onchange: ask });
    } else if (choice && choice.hand) {
      value = el("input", { id: ids.value, type: "text", value: choice.hand, "aria-label": choice.label, autocomplete: "off",
        spellcheck: "false", oninput: () => {
          clearTimeout(timer);
          timer = setTimeout(ask, 250);
        } });
    }
    replace(valueHost, value);
    update();
  }

  // update asks anew: operators or figures may be other ones. The schemes that there are hang on the operators.
  async function update() {
    const about = target(), now = value, offers = choice && choice.offers;
    if (!offers || !about || deciding) return ask();
    try {
      const names = (await app.client.call("schemes", about))[offers];
      if (now !== value) return null;
      const was = now.value;
      replace(now, names.map((name) => el("option", { value: name, selected: name === was }, name)));
    } catch (problem) {
      replace(effect, el("p", { class: "bad" }, problem.message));
      return null;
    }
    return ask();
  }

  const properties = () => choice.properties(value ? value.value.trim() : "");

  // ask shows the estimated effect of what is chosen; of several answers under way the last counts.
  async function ask() {
    if (deciding) return; // the page is read anew before the choice is taken back
    const mine = ++asked, about = target();
    apply.disabled = !choice || !about || Boolean(choice.offers && !value.value);
    if (apply.disabled) {
      replace(effect, choice && about && el("p", { class: "soft" }, "The target has none that these operators share."));
      return;
    }
    apply.disabled = true;
    effect.classList.add("asking"); // what stands there is of another choice
    try {
      const e = await app.client.call("estimate", { ...about, properties: properties() });
      if (mine !== asked) return;
      replace(effect, effectOf(e));
      apply.disabled = false;
    } catch (problem) {
      if (mine !== asked) return;
      apply.disabled = problem.kind === "usage" || problem.kind === "decision";
      replace(effect, el("p", { class: "bad" }, problem.message));
    }
    effect.classList.remove("asking");
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

  return { node, update };
}

// effectOf shows an estimate: error, work and size, before and after.
/** @param {Core.Estimate} e */
export function effectOf(e) {
  /** @param {Core.NSR} f */
  const nsr = (f) => el("b", { title: ofNoise(f.nsr, f.nsr_error) }, sqnr(f.nsr, f.nsr_error));
  const taken = e.taken_along;
  // change is a figure before and after, as far as one can see it.
  const change = (what, { before, after }, show) => show(before) === show(after) ? "" : `; ${what} ${show(before)} → ${show(after)}`;
  return [
    el("p", null, el("abbr", { title: `Not measured: ${e.basis}` }, "Estimated"), " SQNR of the outputs: ",
      e.before ? [nsr(e.before), " → ", e.after ? nsr(e.after) : "not known"] : "not known before the plan is measured",
      e.stale && " (from figures before the last change)",
      el("span", { class: "soft" }, change("MACs on integers", e.macs_int8, percent), change("constants", e.bytes, bytes), taken.length > 0
        && el("span", { title: `computed together with it: ${taken.join(", ")}` }, "; takes along ", el("bdi", null, taken[0]),
          taken.length > 1 && ` and ${taken.length - 1} more`))),
    commandLine(e.command),
  ];
}
