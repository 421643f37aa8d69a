import { colourings, colourScale, findColouring, foldValues, inkOn, textOfFold } from "../colours.js";
import { equal, test } from "./unit.js";

const errors = [{ name: "a", nsr: 1 }, { name: "b", nsr: 0.1 }, { name: "c", nsr: 1e-9 }, { name: "d", nsr: 0 }, { name: "e", nsr: null }];
const nsr = findColouring("nsr");

// contrast is that of WCAG.
function contrast(a, b) {
  const light = (colour) =>
    [1, 3, 5].map((i) => parseInt(colour.slice(i, i + 2), 16) / 255).map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
      .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const [x, y] = [light(a), light(b)].sort((p, q) => q - p);
  return (x + 0.05) / (y + 0.05);
}

test("a logarithmic scale has four decades, and what is smaller or 0 the palest colour", () => {
  const scale = colourScale(nsr, errors, false), last = scale.colours.length - 1;
  equal(errors.map((row) => scale.indexOf(row.nsr)), [last, Math.round(0.75 * last), 0, 0, -1]);
  equal(scale.ticks.map((t) => t.value), [0.0001, 0.001, 0.01, 0.1, 1]);
});

test("one value far beyond all others does not take their colours", () => {
  const rows = [1e-7, 2e-7, 5e-7, 1e-6, 2e-6, 5e-6, 1e-5, 1].map((x) => ({ nsr: x })), scale = colourScale(nsr, rows, false),
    last = scale.colours.length - 1, at = rows.map((row) => scale.indexOf(row.nsr));
  equal([at[0] < at[3], at[3] < at[6], at[6] < at[7], at[7]], [true, true, true, last]);
  equal(scale.ticks[scale.ticks.length - 1].beyond, 1);
  equal(colourScale(nsr, [{ nsr: 1e-5 }, { nsr: 1 }], false).ticks.some((t) => t.beyond), false); // of few, none is an outlier
});

test("a scale without values has no ticks and divides by nothing", () => {
  for (const c of colourings) {
    const scale = colourScale(c, [], false);
    equal(scale.ticks, [], c.key);
    equal(scale.indexOf(null), -1, c.key);
  }
  equal(colourScale(nsr, [{ nsr: 0 }], false).indexOf(0), 0);
});

test("a ratio has the middle colour where both are the same", () => {
  const scale = colourScale(findColouring("difference"), [], false), last = scale.colours.length - 1;
  equal([scale.indexOf(-1), scale.indexOf(0), scale.indexOf(1)], [0, Math.round(last / 2), last]);
  const of = (here, there) => findColouring("difference").value({ nsr: here, other: { nsr: there } });
  equal([of(0.01, 0.01), of(0, 0), of(1, 0.01), of(0.01, 0), of(0, 0.01), of(null, 0.01)], [0, 0, 1, 1, -1, null]);
});

test("classes stand by how often they are, or in the order of the colouring", () => {
  const rows = [{ format: "int8" }, { format: "FP32" }, { format: "int8" }].map((row) => ({ ...row, domain: row.format }));
  const scale = colourScale(findColouring("format"), rows, true);
  equal([scale.classes, scale.indexOf("int8"), scale.indexOf("none")], [["int8", "FP32"], 0, -1]);
});

test("letters can be read on every colour, light and dark", () => {
  for (const c of colourings) {
    for (const dark of [false, true]) {
      const worst = Math.min(...colourScale(c, errors, dark).colours.map((colour) => contrast(colour, inkOn(colour))));
      equal(worst >= 4.5, true, `${c.key}: ${worst}`);
    }
  }
});

test("a closed block shows the worst of its operators, the sum, or what most of them are", () => {
  equal(foldValues(nsr, errors), { value: 1, from: errors[0] });
  equal(textOfFold(nsr, foldValues(nsr, [])), "");
  const macs = findColouring("macs");
  equal(foldValues(macs, [{ macs: 3000 }, { macs: 1000 }, {}]).value, 4000);
  equal(foldValues(findColouring("domain"), [{ domain: "INT8" }, { domain: "FP32" }, { domain: "INT8" }]).value, "INT8");
});

test("an operator that is fused into another counts in its box", () => {
  const structure = findColouring("structure"), fold = foldValues(structure, [{ structure: "in both" }, { structure: "other form" }]);
  equal(fold.value, "other form");
});
