// Colours of the network: what a colour may stand for (colourings), and the scales.
// Sequential colours are viridis and pale towards the background, so that what is harmless is quiet; diverging ones go from blue to
// orange; classes have the colours of Okabe and Ito. All three are told apart by colour-blind people, and by lightness alone.
import { count, number, partSQNR, percent, small, sqnr, withError } from "./format.js";

const viridis = ["#440154", "#482878", "#3e4989", "#31688e", "#26828e", "#1f9e89", "#35b779", "#6ece58", "#b5de2b", "#fde725"];
const divergingLight = ["#1b5fa8", "#6ba6d6", "#cfe2f1", "#f4f4f2", "#fbdcb4", "#ee9e3c", "#ad5606"];
const divergingDark = ["#7cc0ff", "#4785bd", "#2f4a63", "#2b323b", "#64492a", "#b8762a", "#ffb152"];
const classColours = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#8a8f98"];
const colourSteps = 64;

// One row per colouring: value(row) is a number (or a word where scale is "class"), null where it is not known. A closed block shows
// the largest value of its operators (fold "max"), their sum ("sum"), the one farthest from 0 ("far") or its most frequent class ("mode").
// needs says how to get the values when no row has one.
export const colourings = [
  { key: "nsr", label: "Error alone", scale: "log", fold: "max", unit: "SQNR of the outputs, dB", tick: inDecibels,
    doc: "Signal-to-noise ratio (SQNR) of the network's outputs when only this operator is quantized. Strong colours are much error.",
    value: (row) => row.nsr, text: (row) => inBoth(row.nsr, row.nsrError), brief: (row) => sqnr(row.nsr),
    needs: "qwb analyze --layerwise" },
  { key: "accumulated", label: "Error accumulated", scale: "log", fold: "max", unit: "SQNR at the operator's output, dB", tick: inDecibels,
    doc: "SQNR of this operator's output when the whole network is quantized. A jump shows where error enters.",
    value: (row) => row.accumulated, text: (row) => inBoth(row.accumulated, row.accumulatedError), brief: (row) => sqnr(row.accumulated),
    needs: "qwb analyze" },
  { key: "local", label: "Error local", scale: "log", fold: "max", unit: "SQNR at the operator's own output, dB", tick: inDecibels,
    doc: "SQNR of this operator's own output from exact inputs.", value: (row) => row.local, text: (row) => inBoth(row.local, null),
    brief: (row) => sqnr(row.local), needs: "qwb analyze --layerwise" },
  { key: "cause", label: "Clipping or rounding", scale: "diverging", fold: "far", unit: "", low: "rounding", high: "clipping",
    doc: "Which step makes the local error: values cut off at the threshold (clipping), or values between two levels (rounding).",
    value: (row) => shareOf(row.clip, row.round), text: (row) => `clip ${partSQNR(row.clip)}, round ${partSQNR(row.round)}`,
    brief: (row) => row.clip > row.round ? `clip ${partSQNR(row.clip)}` : `round ${partSQNR(row.round)}`,
    needs: "qwb analyze --layerwise" },
  { key: "part", label: "Weight or activation", scale: "diverging", fold: "far", unit: "", low: "activation", high: "weight",
    doc: "Which part makes the local error: the quantized weights, or the quantized activations.",
    value: (row) => shareOf(row.weight, row.activation),
    text: (row) => `weight ${partSQNR(row.weight)}, activation ${partSQNR(row.activation)}`,
    brief: (row) => row.weight > row.activation ? `w. ${partSQNR(row.weight)}` : `act. ${partSQNR(row.activation)}`,
    needs: "qwb analyze --layerwise --split" },
  { key: "meanShift", label: "Mean shift", scale: "log", fold: "max", unit: "SQNR at the operator's own output, dB", tick: inDecibels,
    doc: "The part of the local error that is one constant per channel; a corrected bias (qwb tune --method bias) removes it.",
    value: (row) => row.meanShift,
    text: (row) => `${partSQNR(row.meanShift)}${row.local > 0 ? `, ${percent(row.meanShift / row.local)} of the local error` : ""}`,
    brief: (row) => partSQNR(row.meanShift), needs: "qwb analyze --layerwise --split" },
  { key: "domain", label: "Where it runs", scale: "class", fold: "mode", unit: "",
    doc: "Whether the operator runs on integers, in floating point, or computes shapes and indices only.",
    value: (row) => row.domain || null, text: (row) => row.domain, needs: "a plan: qwb calibrate" },
  { key: "format", label: "Number format", scale: "class", fold: "mode", unit: "",
    doc: "Number format of the operator's activations and weights.", value: (row) => row.format || null, text: (row) => row.format,
    needs: "a plan: qwb calibrate" },
  { key: "macs", label: "Work", scale: "log", fold: "sum", unit: "multiply-accumulates (MACs)",
    doc: "Multiply-accumulates of the operator for one sample.", value: (row) => row.macs || null, text: (row) => `${count(row.macs)} MACs`,
    needs: "" },
  { key: "gain", label: "Predicted gain", scale: "log", fold: "max", unit: "NSR taken off the network's outputs",
    doc: "By how much the best advice for this operator is predicted to lower the NSR at the network's outputs.", value: (row) => row.gain,
    text: (row) => small(row.gain), needs: "qwb analyze --layerwise" },
  { key: "saturation", label: "Saturation", scale: "log", fold: "max", unit: "share of pairs of products",
    doc: "Share of neighbouring products whose sum can leave 16 bits, on processors that add them in 16 bits (x86 without VNNI).",
    value: (row) => row.saturation, text: (row) => percent(row.saturation), needs: "operators that are computed in integers" },
  { key: "dead", label: "Constant channels", scale: "linear", fold: "sum", unit: "channels",
    doc: "Channels of the output that never change on these samples (dead channels).", value: (row) => row.deadChannels || null,
    text: (row) => `${row.deadChannels}`, needs: "qwb analyze" },
  { key: "difference", label: "Difference of two plans", scale: "ratio", fold: "far", unit: "", low: "less error", high: "more error",
    doc: "SQNR in this plan beside the other plan. Full colour is ten times more or less error.",
    value: (row) => row.other ? ratioOf(errorOf(row), errorOf(row.other)) : null,
    brief: (row) => `${inDecibels(errorOf(row.other)) || "exact"} → ${errorOf(row) > 0 ? inDecibels(errorOf(row)) + " dB" : "exact"}`,
    text: (row) => `${inBoth(errorOf(row.other))} → ${inBoth(errorOf(row))}`, needs: "a second plan to compare with" },
  { key: "structure", label: "In both networks", scale: "class", fold: "max", unit: "",
    order: ["in both", "other form", "only in A", "only in B"],
    doc: "Whether the other network has this operator too. A closed block that holds one which differs shows that.",
    value: (row) => row.structure || null, text: (row) => row.structure, needs: "a second network to compare with" },
];

// inDecibels is an NSR as a number of a legend; inBoth has the NSR too.
function inDecibels(nsr) {
  return nsr > 0 ? String(Math.round(-10 * Math.log10(nsr))) : "";
}

function inBoth(nsr, error) {
  return `${sqnr(nsr, error)} (NSR ${withError(nsr, error)})`;
}

// shareOf is how far the first of two parts outweighs the second, from -1 to 1. A part below 0 cancels error and counts as none.
function shareOf(a, b) {
  if (!isNumber(a) || !isNumber(b)) return null;
  const p = Math.max(a, 0), q = Math.max(b, 0);
  return p + q > 0 ? (p - q) / (p + q) : null;
}

// errorOf is what two plans are compared by: the error of an operator alone, or where only that was measured, up to it.
const errorOf = (row) => row.nsr ?? row.accumulated;

// ratioOf is how much more error there is here, from -1 (ten times less) to 1; any error is far more than none.
function ratioOf(here, there) {
  if (!isNumber(here) || !isNumber(there) || here < 0 || there < 0) return null;
  if (here === there) return 0;
  return Math.max(-1, Math.min(1, Math.log10(here / there)));
}

function isNumber(x) {
  return typeof x === "number" && Number.isFinite(x);
}

export function findColouring(key) {
  return colourings.find((c) => c.key === key) || colourings[0];
}

export function hasValues(colouring, rows) {
  return rows.some((row) => colouring.value(row) != null);
}

function mixHex(a, b, t) {
  let out = "#";
  for (let i = 1; i < 7; i += 2) {
    const p = parseInt(a.slice(i, i + 2), 16), q = parseInt(b.slice(i, i + 2), 16);
    out += Math.round(p + (q - p) * t).toString(16).padStart(2, "0");
  }
  return out;
}

function rampAt(stops, t) {
  const x = Math.max(0, Math.min(1, t)) * (stops.length - 1), i = Math.min(Math.floor(x), stops.length - 2);
  return mixHex(stops[i], stops[i + 1], x - i);
}

// rampOf is the list of colours of a scale, from its lowest to its highest value.
export function rampOf(kind, dark) {
  const out = [];
  for (let i = 0; i < colourSteps; i++) {
    const t = i / (colourSteps - 1);
    if (kind === "diverging") out.push(rampAt(dark ? divergingDark : divergingLight, t));
    else if (dark) out.push(mixHex(rampAt(viridis, t), "#232b34", 0.6 * (1 - t) ** 2));
    else out.push(mixHex(rampAt(viridis, 1 - t), "#ffffff", 0.8 * (1 - t) ** 1.5));
  }
  return out;
}

// inkOn is black or white, whichever reads better on a colour: at least 4.5 to 1 on every colour.
export function inkOn(colour) {
  const part = (i) => {
    const c = parseInt(colour.slice(i, i + 2), 16) / 255;
    return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  };
  return 0.2126 * part(1) + 0.7152 * part(3) + 0.0722 * part(5) > 0.179 ? "#000000" : "#ffffff";
}

// colourScale maps the values of the rows onto colours: colours[indexOf(value)], -1 for no value. Rows of a second graph may be given
// along, so that the same colour means the same value in both.
export function colourScale(colouring, rows, dark) {
  const values = rows.map((row) => colouring.value(row)).filter((v) => v != null);
  if (colouring.scale === "class") {
    const times = new Map();
    for (const v of values) times.set(v, (times.get(v) || 0) + 1);
    const names = colouring.order || [...times.keys()].sort((a, b) => times.get(b) - times.get(a) || (a < b ? -1 : 1));
    const place = new Map(names.map((name, i) => [name, Math.min(i, classColours.length - 1)]));
    const colours = dark ? classColours.map((c) => mixHex(c, "#151a20", 0.18)) : classColours;
    return { colouring, colours, classes: names, counts: times, ticks: [], indexOf: (v) =>
      v == null ? -1 : place.has(v) ? place.get(v) : -1 };
  }
  if (colouring.scale === "diverging" || colouring.scale === "ratio") {
    return { colouring, colours: rampOf("diverging", dark), classes: null, low: colouring.low, high: colouring.high, ticks: [],
      indexOf: (v) => v == null ? -1 : Math.round((v + 1) / 2 * (colourSteps - 1)) };
  }
  const log = colouring.scale === "log", sum = colouring.fold === "sum";
  let low = Infinity, high = 0, total = 0;
  for (const v of values) {
    if (v > high) high = v;
    if (v > 0 && v < low) low = v;
    if (v > 0) total += v;
  }
  if (sum && !log) high = Math.max(high, total);
  const top = high;
  if (log && !sum) high = withoutOutlier(values, high);
  const at = {};
  if (log) {
    // Four decades are enough: what is ten thousand times smaller than the largest is nothing.
    at.low = high > 0 ? Math.min(Math.max(low, high / 1e4), high / 10) : 0;
    at.of = (v) => v > 0 && high > 0 ? Math.log(v / at.low) / Math.log(high / at.low) : 0;
  } else {
    at.low = 0;
    at.of = (v) => high > 0 ? v / high : 0;
  }
  const ticks = [];
  if (high > 0 && log) {
    for (let e = Math.ceil(Math.log10(at.low) - 1e-9); e <= Math.log10(high) + 1e-9; e++) {
      ticks.push({ at: at.of(10 ** e), value: 10 ** e });
    }
    if (ticks.length && ticks[ticks.length - 1].at < 0.6) ticks.push({ at: 1, value: high });
    if (ticks.length < 2) ticks.splice(0, ticks.length, { at: 0, value: at.low }, { at: 1, value: high });
  } else if (high > 0) ticks.push({ at: 0, value: 0 }, { at: 1, value: high });
  if (top > high && ticks.length) ticks[ticks.length - 1].beyond = top;
  return { colouring, colours: rampOf("sequential", dark), classes: null, ticks,
    indexOf: (v) => v == null ? -1 : Math.round(Math.max(0, Math.min(1, at.of(v))) * (colourSteps - 1)) };
}

// withoutOutlier is where a logarithmic scale ends: at ten times the second largest of eight and more values where the largest is a hundred
// times that, so that one value takes the colours of no others. What lies beyond has the strongest colour.
function withoutOutlier(values, high) {
  let second = 0, tops = 0;
  for (const v of values) {
    if (v === high) tops++;
    else if (v > second) second = v;
  }
  return values.length >= 8 && tops === 1 && second > 0 && high > 100 * second ? 10 * second : high;
}

// foldValues is the value that a closed block shows of its operators' rows, and the row that it is from.
export function foldValues(colouring, rows) {
  let value = null, from = null;
  const times = new Map();
  for (const row of rows) {
    const v = colouring.value(row);
    if (v == null) continue;
    if (colouring.fold === "sum") value = (value || 0) + v;
    else if (colouring.fold === "mode") {
      const n = (times.get(v) || 0) + 1;
      times.set(v, n);
      if (value == null || n > times.get(value)) value = v;
    } else if (value == null || (colouring.fold === "far" ? Math.abs(v) > Math.abs(value) : v > value)) {
      value = v;
      from = row;
    }
  }
  return { value, from };
}

// textOfFold says a closed block's value in words.
export function textOfFold(colouring, fold) {
  if (fold.value == null) return "";
  if (fold.from) return `${colouring.text(fold.from)} (${fold.from.name})`;
  if (colouring.key === "macs") return `${count(fold.value)} MACs`;
  return typeof fold.value === "number" ? small(fold.value) : fold.value;
}
