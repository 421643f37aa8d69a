// Figures as the command line writes them (reports/format.go): the same digits, rounded the same way. The exact value belongs in a title.

// digits is x.toExponential(d) or x.toFixed(d) with halves rounded to even, as Go rounds them: JavaScript rounds them away from zero.
function digits(x, d, how) {
  const text = x[how](d), long = x[how](Math.min(100, d + 60));
  const end = long.indexOf("e") < 0 ? long.length : long.indexOf("e");
  const cut = long.indexOf(".") + 1 + d, kept = long.slice(0, d === 0 ? cut - 1 : cut);
  if (!/^50*$/.test(long.slice(cut, end)) || Number(kept[kept.length - 1]) % 2) return text;
  return kept + long.slice(end);
}

// extreme writes 0, what is no number, and what needs an exponent.
function extreme(x, decimals) {
  if (Number.isNaN(x)) return "NaN";
  if (!Number.isFinite(x)) return x > 0 ? "+Inf" : "-Inf";
  if (x === 0) return "0";
  return digits(x, decimals, "toExponential").replace(/e([+-])(\d)$/, "e$10$2");
}

const plain = (x) => Math.abs(x) >= 1e-4 && Math.abs(x) < 1e5;

// known says that a figure is there: JSON has null where there is none.
export const known = (x) => x !== null && x !== undefined;

// number is a measured value with up to four digits that matter.
export function number(x) {
  if (!known(x)) return "–";
  return plain(x) ? String(Number(digits(x, 3, "toExponential"))) : extreme(x, 2);
}

// small is an error, a noise-to-signal ratio for instance, with two digits that matter.
export function small(x) {
  if (!known(x)) return "–";
  if (!plain(x)) return extreme(x, 1);
  const e = Number(digits(x, 1, "toExponential").split("e")[1]);
  return digits(x, Math.max(1 - e, 0), "toFixed");
}

// withError is a value with its standard error: two digits of the error, the value to the last of them, both in one notation.
export function withError(x, error) {
  if (!known(error) || !known(x)) return small(x);
  const last = Number(digits(error, 1, "toExponential").split("e")[1]) - 1, first = exponent(x);
  if (!(error > 0) || !Number.isFinite(error) || !Number.isFinite(x) || first - last > 9) return number(x) + " ± " + small(error);
  const size = Math.max(Math.abs(x), error);
  if (size >= 1e-4 && size < 1e5 && last >= -9) return fixed(x, last) + " ± " + fixed(error, last);
  return extreme(x, Math.max(first - last, 0)) + " ± " + extreme(error, 1);
}

const exponent = (x) => Number(x.toExponential().split("e")[1]);

// fixed writes a value up to the place 10^last, without a sign where nothing is left of it.
function fixed(x, last) {
  if (last > 0) x = Number(digits(x, Math.max(exponent(x) - last, 0), "toExponential"));
  const text = digits(x, Math.max(-last, 0), "toFixed");
  return Number(text) === 0 ? text.replace("-", "") : text;
}

// decibels is a signal-to-noise ratio (SQNR), -10 log10 of the NSR.
export function decibels(x) {
  return known(x) ? digits(x, 1, "toFixed") + " dB" : "–";
}

const tenths = (x) => digits(x, 1, "toFixed");

// bareSQNR is an NSR in decibels without the unit, for places that name it once: the figure and its error, which may be "". No noise at all
// is "exact".
export function bareSQNR(nsr, error) {
  if (!known(nsr)) return ["–", ""];
  if (nsr === 0) return ["exact", ""];
  return [tenths(-10 * Math.log10(nsr)), known(error) && error > 0 ? tenths(10 / Math.LN10 * error / nsr) : ""];
}

// sqnr is an NSR as eyes read it: the signal-to-noise ratio in decibels with its error, "18.7 ± 2.0 dB".
export function sqnr(nsr, error) {
  const [value, spread] = bareSQNR(nsr, error);
  return value + (spread && " ± " + spread) + (nsr > 0 ? " dB" : "");
}

// barePart is a part of the error of a tensor, an NSR, in decibels without the unit: what the SQNR were with this part alone. A part that
// makes up for others is below 0; what is left of a rounded sum is none.
export function barePart(nsr) {
  if (!known(nsr)) return "–";
  return nsr > 0 ? tenths(-10 * Math.log10(nsr)) : nsr < -1e-6 ? "< 0" : "none";
}

// part is the same with its unit.
export const partSQNR = (nsr) => barePart(nsr) + (nsr > 0 ? " dB" : "");

// gained is what a change of an NSR is worth in decibels of SQNR, "+2.3 ± 0.4 dB": above 0 is better. change is after minus before, error
// its standard error. Where nothing is left of one of the two, it is the NSR that is written.
export function gained(before, change, error) {
  if (!known(before) || !known(change)) return "–";
  const after = before + change;
  if (!(before > 0 && after > 0)) return "NSR " + withError(change, error);
  const value = tenths(-10 * Math.log10(after / before));
  return (value === "-0.0" ? "0.0" : value > 0 ? "+" + value : value)
    + (known(error) && error > 0 ? " ± " + tenths(10 / Math.LN10 * error / after) : "") + " dB";
}

// undecided says of ranks [from, to] among so many that they say nothing: more than four places, and more than half of all.
const undecided = ([from, to], among) => to - from >= 4 && 2 * (to - from + 1) > among;

// rankText is where an operator may stand on other samples.
export function rankText(rank, among) {
  if (!rank) return "";
  const [from, to] = rank;
  return from === to ? String(from) : undecided(rank, among) ? "open" : from + "–" + to;
}

// rankDoc says the same in a sentence.
export function rankDoc(rank, among) {
  const [from, to] = rank;
  if (from === to) return "rank " + from + ", also on other samples";
  return (undecided(rank, among) ? "these samples do not decide it: " : "") + "on other samples it may have rank " + from + " to "
    + to;
}

// ofNoise says behind a figure in decibels what it is of, with all digits: "NSR 0.013 ± 0.0061".
export const ofNoise = (nsr, error = null) => "NSR " + exact(nsr) + (known(error) ? " ± " + exact(error) : "");

// noise is an NSR with its error and the same in decibels: "0.013 ± 0.0061 (18.7 dB)".
/** @param {Partial<Core.NSR>} f */
export function noise(f) {
  if (!f || !known(f.nsr)) return "–";
  return withError(f.nsr, f.nsr_error) + (known(f.sqnr_db) ? " (" + decibels(f.sqnr_db) + ")" : "");
}

export const cosine = (x) => (known(x) ? digits(x, 6, "toFixed") : "–");

// exact has all digits.
export const exact = (x) => (known(x) ? String(x) : "not known");

const prefixes = [{ factor: 1e12, name: "T" }, { factor: 1e9, name: "G" }, { factor: 1e6, name: "M" }, { factor: 1e3, name: "k" }];

// count is a number of operations or elements with a decimal prefix.
export function count(n) {
  if (!known(n)) return "–";
  for (const { factor, name } of prefixes) {
    if (Math.abs(n) < factor) continue;
    const e = Number(digits(n / factor, 2, "toExponential").split("e")[1]);
    return e > 2 ? digits(n / factor, 0, "toFixed") + name : String(Number(digits(n / factor, 2 - e, "toFixed"))) + name;
  }
  return String(n);
}

// bytes is a size: "4.2 MB", of a thousand kilobytes each.
export function bytes(n) {
  return known(n) ? count(n).replace(/[kMGT]?$/, (unit) => " " + unit + "B") : "–";
}

export const percent = (x) => (known(x) ? digits(100 * x, 2, "toFixed") + " %" : "–");

// points is a difference of shares in percentage points (pp), with its error.
export function points(x, error) {
  if (!known(x)) return "–";
  return digits(x, 2, "toFixed") + (known(error) ? " ± " + digits(error, 2, "toFixed") : "") + " pp";
}

// insignificant says of a difference that it lies within twice its standard error.
export const insignificant = (x, error) => known(x) && known(error) && x !== 0 && Math.abs(x) <= 2 * error;

// duration is a time in words: "1.4 s", "3 min 20 s", "2 h 5 min".
export function duration(seconds) {
  if (!known(seconds)) return "–";
  if (seconds < 0.95) return Math.round(1000 * seconds) + " ms";
  if (seconds < 9.95) return seconds.toFixed(1) + " s";
  const s = Math.round(seconds), m = Math.floor(s / 60);
  if (s < 60) return s + " s";
  if (m < 60) return m + " min" + (s % 60 ? " " + (s % 60) + " s" : "");
  return Math.floor(m / 60) + " h" + (m % 60 ? " " + (m % 60) + " min" : "");
}

// shorten keeps the end of long names, which tells them apart.
export function shorten(name, n) {
  const letters = [...name];
  return letters.length <= n ? name : "…" + letters.slice(letters.length - n + 1).join("");
}

// plural counts things: "1 sample", "2 samples".
export function plural(n, word, many) {
  return n + " " + (n === 1 ? word : many || word + "s");
}

// problemText is an error of the core in one line: what failed, and at which operator.
export function problemText(problem) {
  const node = problem.node ? ` (operator ${problem.node})` : "";
  return `${problem.message || problem}${node}`;
}
