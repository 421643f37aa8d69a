// All that is known of one operator: what its error costs and where it comes from, how each of its tensors becomes integers and why, the
// histograms with grid and ranges, its weights by channel, and what helps.
import { adviceCard } from "./advice_cards.js";
import { adviceFor, byName, levelsOf } from "./data.js";
import { commandLine, el, replace, termed } from "./dom.js";
import { count, exact, known, number, ofNoise, partSQNR, percent, rankDoc, rankText, sqnr } from "./format.js";
import { drawChannels, drawHistogram } from "./histogram.js";

// What the states of a tensor mean. Names are those of PPQ, as plans have them.
const states = {
  ACTIVATED: ["own scale", "The tensor has a scale of its own."],
  PASSIVE: ["another's scale", "The tensor takes the scale of another one, or of the product of its factors (a bias)."],
  OVERLAPPED: ["not rounded here", "Another operator rounds this tensor already; it is not rounded twice."],
  BAKED: ["stored as integers", "The constant is stored as integers."],
  PASSIVE_BAKED: ["stored as integers", "The constant is stored as integers with another tensor's scale."],
  INITIAL: ["no range yet", "Calibration has not seen this tensor."],
  PASSIVE_INIT: ["no range yet", "Calibration has not seen the tensor whose scale this one takes."],
};

// drawPanel draws the operator that is selected, or row. tools are functions (row, slot) that add elements of a live page: without slot for
// the operator, else for one of its tensors; cures(line) adds buttons to a command that is advised. pictures: false
// leaves histograms and weights out, for who draws them better.
/**
 * @param {HTMLElement} host
 * @param {{ view: Core.View; row?: Row; rows: Row[]; selection: Selected; pictures?: boolean; cures?: (line: string) => any;
 *   tools?: ((row: Row, slot?: any) => any)[] }} choices
 */
export function drawPanel(host, { view, row, rows, selection, tools = [], pictures = true, cures }) {
  if (row) return draw(row);
  const names = byName(rows);
  selection.on(({ what }) => {
    if (what === "node") draw(names.get(selection.node));
  });
  draw(names.get(selection.node));

  function draw(r) {
    if (!r) {
      replace(host,
        el("p", { class: "empty" }, "Select an operator, in the network or in the table, to see its settings, ranges and errors."));
      return;
    }
    const more = (slot) => tools.map((tool) => tool(r, slot)), later = [];
    replace(host, el("h2", null, el("bdi", null, r.name)),
      el("p", { class: "soft" }, r.op, r.format && [" · ", r.format], r.fused && [" · computed with ", link(r.fused)]), more(null),
      figures(r), r.why
      && el("p", { class: "soft", title: (view.whys || {})[r.why] || r.why }, r.domain || r.format, ": chosen by ",
        el("i", null, r.why.replace(/:.*/, ""))), advice(r), tensors(r, more, later), pictures && weights(r, later), lossParts(r), view.plan
      && el("details", null, el("summary", null, "Commands about this operator"),
        commandLine("qwb plan explain " + shell(r.name) + " " + shell(view.plan)),
        r.domain === "INT8" && commandLine("qwb set " + shell(view.plan) + " " + shell(r.name) + " domain=fp32")));
    for (const f of later) f(); // pictures need their width
  }

  function link(name) {
    return el("button", { type: "button", onclick: () => selection && selection.set(name, "panel") }, el("bdi", null, name));
  }

  function figures(r) {
    const list = [];
    const put = (word, doc, value, text, title = exact(value)) => {
      if (known(value)) list.push(el("dt", null, termed(word, doc)), el("dd", { title }, text));
    };
    put("SQNR alone",
      "SQNR of the outputs (signal-to-noise ratio, as at the top) with only this operator quantized, ± its standard error. Larger is better.",
      r.nsr, sqnr(r.nsr, r.nsrError), ofNoise(r.nsr, r.nsrError));
    if (r.rank) {
      put("rank", "The places that the operator may have by its error alone on other samples; open where these leave it more than half.",
        r.rank[0], rankText(r.rank, r.rankAmong), rankDoc(r.rank, r.rankAmong));
    }
    put("accumulated", "SQNR at this operator's output with the whole network quantized.", r.accumulated,
      sqnr(r.accumulated, r.accumulatedError), ofNoise(r.accumulated, r.accumulatedError));
    const local = (word, doc, nsr) => put(word, doc, nsr, partSQNR(nsr), ofNoise(nsr));
    local("local",
      "SQNR at the operator's own output, from float inputs: clip and round together. It is relative to that output, not to the network's; no error bar is measured.",
      r.local);
    local("clip",
      "The part of the local error from values outside of the range: the SQNR with it alone. A part below 0 makes up for some of the other.",
      r.clip);
    local("round", "The part of the local error from rounding to the grid of levels: the SQNR with it alone.", r.round);
    local("weights", "The part of the local error from quantizing weights.", r.weight);
    local("activations", "The part of the local error from quantizing activations.", r.activation);
    local("mean shift",
      "The part of the local error that rounding the weights makes by moving the means of channels. Bias correction takes it away.",
      r.meanShift);
    if (r.channels && r.deadChannels) {
      put("constant channels", "Channels that do not change over all samples.", r.deadChannels, r.deadChannels + " of " + r.channels);
    }
    if (known(r.saturation) && r.saturation > 0) {
      put("pairs at risk",
        "Share of neighbouring products whose sum can leave 16 bits, on processors that add them in 16 bits (x86 without VNNI).",
        r.saturation, percent(r.saturation));
    }
    if (r.macs) {
      put("work", "Multiply-accumulates of one sample, and their share of the network's.", r.macs,
        count(r.macs) + " MACs, " + percent(r.share));
    }
    return list.length ? el("dl", { class: "figures" }, list)
      : el("p", { class: "soft" }, r.fused ? "Its error is counted with that operator."
        : r.domain === "INT8" ? "Its error is not measured." : "It is not quantized: no error of its own.");
  }

  function advice(r) {
    const list = adviceFor(view, r.name);
    return list.length ? [el("h3", null, "What helps"), el("ol", { class: "advice" }, list.map((a) => adviceCard(a, selection, cures)))]
      : null;
  }

  function tensors(r, more, later) {
    if (!r.tensors.length) return null;
    return [
      el("h3", null, "Tensors"),
      el("p", { class: "soft" }, "A tensor becomes integers by value = scale × (integer − zero point)."),
      r.tensors.map((t) => {
        const s = t.slot, picture = el("div");
        if (pictures && t.statistics) later.push(() => drawHistogram(picture, t.statistics, { grid: levelsOf(s) }));
        return el("section", { class: "tensor" }, el("h4", null, place(t.at, r), ": ", el("bdi", null, t.name)), s && slotFigures(s),
          t.at.startsWith("in1") ? null : picture, more(s));
      }),
    ];
  }

  function slotFigures(s) {
    const list = [],
      put = (word, doc, text, title) => list.push(el("dt", null, termed(word, doc)), el("dd", { title: title || null }, text));
    const [word, doc] = states[s.state] || [s.state.toLowerCase(), ""];
    put("state", doc + " (" + s.state + ")", word);
    put("scheme", "Number format; symmetric: zero is code 0; per-channel: one scale for each output channel.", s.scheme);
    if (s.scales) {
      const range = (a, f) => (a[0] === a[1] ? f(a[0]) : f(a[0]) + " … " + f(a[1])), title = s.scale.map(exact).join(" … ");
      put("scale", "The distance of two levels.", range(s.scale, number) + (s.scales > 1 ? " (" + s.scales + " scales)" : ""), title);
      put("zero point", "The integer that stands for 0.", range(s.zero_point, String));
    }
    if (s.root) put("scale of", "The tensor whose scale this one takes.", link(s.root.replace(/:(in|out)\d+$/, "")));
    else if (s.method) put("range by", "The observer that chose the range.", s.method);
    return el("dl", { class: "figures" }, list);
  }

  function weights(r, later) {
    if (!r.weightRange) return null;
    const picture = el("div");
    later.push(() => drawChannels(picture, r.weightRange, { name: r.name }));
    return [
      el("h3", null, "Range of the weights per output channel"),
      el("p", { class: "soft" }, "Channels of very different width are why weights have a scale per channel."),
      picture,
    ];
  }

  function lossParts(r) {
    if (!r.loss) return null;
    const parts = [
      ["weights", "rounding the weights"],
      ["clip", "values outside of ranges"],
      ["round", "rounding activations"],
      ["bias", "rounding the bias"],
      ["tables", "tables for functions"],
      ["profile", "the arithmetic of the chip"],
      ["rest", "what they do together"],
    ];
    return [
      el("h3", null, "Loss of the integers"),
      el("p", { class: "soft" }, "NSR of the integer program at this step, and its parts; a negative one makes up for others."),
      el("dl", { class: "figures" }, el("dt", null, "in all"), el("dd", { title: exact(r.loss.nsr) }, number(r.loss.nsr)),
        parts.map(([key, doc]) => [el("dt", null, termed(key, doc)), el("dd", { title: exact(r.loss[key]) }, number(r.loss[key]))])),
    ];
  }
}

// place says in words which tensor of an operator a slot is.
function place(at, r) {
  const n = Number(at.replace(/\D+/g, ""));
  if (at.startsWith("out")) return n ? "Output " + (n + 1) : "Output";
  if (r.weightRange && n === 1) return "Weights";
  return n ? "Input " + (n + 1) : "Input";
}

// shell writes a word as a shell reads it back.
export function shell(word) {
  return word === "" || /[\s'"\\$`*?[\]{}()<>|&;!#~]/.test(word) ? "'" + word.replaceAll("'", "'\\''") + "'" : word;
}
