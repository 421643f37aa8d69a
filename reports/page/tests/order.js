import { namedAt, orderScale } from "../order.js";
import { equal, test } from "./unit.js";

test("larger errors stand higher, the largest below the upper end", () => {
  const { y } = orderScale([0.5, 0.001, 0, null], 10, 100), at = [0.5, 0.1, 0.001].map(y);
  equal([at[0] > 10, at[0] < at[1], at[1] < at[2], at[2] < 100], [true, true, true, true]);
});

test("what is 0, not known or smaller than eight decades lies at the bottom", () => {
  const { y } = orderScale([1, 1e-30], 10, 100);
  equal([0, null, undefined, 1e-30].map(y), [100, 100, 100, 100]);
});

test("nothing measured is an axis all the same, and as many operators as there may be", () => {
  const { low, high } = orderScale([], 10, 100);
  equal(Number.isFinite(low) && high > low, true);
  equal(orderScale(new Array(300000).fill(0.25), 10, 100).high > -1, true);
});

test("names that fit stand on the axis, those of the largest errors first", () => {
  const rows = [0.1, 0.5, 0.4, 0.01, 0.3].map((dot) => ({ dot, bar: 1 }));
  equal(namedAt(rows, 1), [0, 1, 2, 3, 4]);
  equal(namedAt(rows, 2), [1, 4]);
  equal(namedAt([{ dot: null, bar: 0.1 }, { dot: null, bar: 0.9 }], 5), [1]);
  equal(namedAt([], 1), []);
});
