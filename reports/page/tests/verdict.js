import { inWords } from "../verdict.js";
import { equal, test } from "./unit.js";

const layers = [{ node: "a", op: "Conv", nsr: 0.01 }, { node: "b", op: "Conv", nsr: 0.2, centred: { nsr: 0.001 } }];
const words = (verdict, report = { layerwise: layers }) => inWords(/** @type {any} */ ({ verdict, report }));

test("the verdict is a few words: what is known best decides", () => {
  equal(words({}).text, "not measured");
  equal(words({ nsr: 1e-4, level: "small" }).text, "looks ready");
  equal([words({ nsr: 0.05, level: "visible" }).text, words({ nsr: 0.05, level: "visible" }).node], ["look at a", "a"]);
  equal(words({ nsr: 0.5, level: "large" }, { layerwise: [] }).text, "loses accuracy");
  equal(words({ nsr: 0.5, level: "large", metric: "top1", drop: 0.5, drop_error: 0.4, scored: 100 }).text, "ready");
  equal(words({ nsr: 1e-4, level: "small", metric: "top1", drop: 5, drop_error: 0.4, scored: 100 }).text, "look at a");
  equal(words({ nsr: 1e-4, level: "small", budget: { metric: "drop", limit: 1, met: false } }).text, "budget not proven");
  equal([
    words({ nsr: 0, mismatches: true, output: "y", samples: 4 }).text,
    words({ nsr: 0.1, mismatches: true, output: "y", samples: 4 }).text,
  ], ["ready", "10.00 % differ"]);
});
