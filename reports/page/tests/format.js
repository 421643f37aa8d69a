import { barePart, bareSQNR, bytes, count, decibels, duration, gained, insignificant, noise, number, percent, plural, points, problemText,
  rankDoc, rankText, shorten, small, sqnr, withError } from "../format.js";
import { equal, test } from "./unit.js";

// The same figures as the command line are held to it by testdata/figures.json; these are what only the page writes, and the borders.

test("what is not known is a dash", () => {
  for (const f of [number, small, percent, points, bytes, count, duration, decibels, noise]) equal(f(null), "–", f.name);
  equal(withError(0.5, null), "0.50");
});

test("halves are rounded to even, as Go does it", () => {
  equal([number(0.00012345), number(1.0625), small(0.125), percent(0.00125)], ["0.0001234", "1.062", "0.12", "0.12 %"]);
});

test("counts have up to three digits and a prefix", () => {
  equal([999, 1000, 1234567, 2.5e9, 7e12].map(count), ["999", "1k", "1.23M", "2.5G", "7T"]);
  equal([500, 4234567].map(bytes), ["500 B", "4.23 MB"]);
});

test("a value is written to the last place of its error", () => {
  equal([withError(0.01334, 0.0061), withError(1234.5, 56), withError(-0.0004, 0.02)], ["0.0133 ± 0.0061", "1234 ± 56", "0.000 ± 0.020"]);
});

test("an error is written in decibels, its own error from the same figures", () => {
  equal([sqnr(0.01, null), sqnr(0.01, 0.001), sqnr(0, 0), sqnr(2, null), sqnr(null, 1)], [
    "20.0 dB",
    "20.0 ± 0.4 dB",
    "exact",
    "-3.0 dB",
    "–",
  ]);
});

test("a part of an error may be none, or make up for another", () => {
  equal([0.01, 0, -1.1e-9, -0.01, null].map(barePart), ["20.0", "none", "none", "< 0", "–"]);
});

test("a rank that samples leave open is no range of ranks", () => {
  equal([rankText([1, 1], 119), rankText([2, 7], 119), rankText([1, 119], 119), rankText([1, 4], 4)], ["1", "2–7", "open", "1–4"]);
  equal(rankDoc([1, 119], 119), "these samples do not decide it: on other samples it may have rank 1 to 119");
});

test("a unit that is named once is not written again", () => {
  equal([bareSQNR(0.01, 0.001), bareSQNR(0.01, null), bareSQNR(0, 0), bareSQNR(null)], [["20.0", "0.4"], ["20.0", ""], ["exact", ""], [
    "–",
    "",
  ]]);
});

test("a change of an NSR is a gain or a loss in decibels", () => {
  equal([gained(0.01, -0.005, 0.0005), gained(0.01, 0.01, null), gained(0.01, 1e-6, 0), gained(0.01, -0.01), gained(0.01, null)], [
    "+3.0 ± 0.4 dB",
    "-3.0 dB",
    "0.0 dB",
    "NSR -0.010",
    "–",
  ]);
});

test("numbers that are none have names", () => {
  equal([number(NaN), number(Infinity), number(-Infinity), number(0), number(-0)], ["NaN", "+Inf", "-Inf", "0", "0"]);
});

test("times are in words", () => {
  equal([0.0123, 1.44, 9.96, 59.6, 200, 7500].map(duration), ["12 ms", "1.4 s", "10 s", "1 min", "3 min 20 s", "2 h 5 min"]);
});

test("within twice its error a difference may be chance", () => {
  equal([insignificant(0.2, 0.1), insignificant(0.21, 0.1), insignificant(0, 0.1), insignificant(0.1, null)], [true, false, false, false]);
});

test("names keep their ends and whole letters", () => {
  equal([shorten("backbone/conv_1", 7), shorten("short", 7), shorten("a𝒳𝒴𝒵", 3)], ["…conv_1", "short", "…𝒴𝒵"]);
});

test("things are counted", () => {
  equal([plural(1, "sample"), plural(2, "sample"), plural(0, "class", "classes")], ["1 sample", "2 samples", "0 classes"]);
});

test("a fault names its operator", () => {
  equal([problemText({ message: "no", node: "conv1" }), problemText({ message: "no" }), problemText("no")], [
    "no (operator conv1)",
    "no",
    "no",
  ]);
});
