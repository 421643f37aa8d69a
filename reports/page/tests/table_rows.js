import { parseFilter, sorted } from "../table_rows.js";
import { equal, test } from "./unit.js";

const rows = [
  { name: "conv2", op: "Conv", domain: "INT8", nsr: 0.02 },
  { name: "conv10", op: "Conv", domain: "FP32", nsr: null },
  { name: "head/fc", op: "Gemm", domain: "INT8", nsr: 0.5 },
];
const columns = [{ key: "nsr", label: "NSR alone", value: (row) => row.nsr }];
const passing = (text) => rows.filter(parseFilter(text, columns)).map((row) => row.name);

test("a filter is a part of a name or type, in any case", () => {
  equal([passing("CONV"), passing("gemm"), passing("")], [["conv2", "conv10"], ["head/fc"], ["conv2", "conv10", "head/fc"]]);
});

test("all words have to fit, and ! turns one around", () => {
  equal([passing("conv !10"), passing("type:conv domain:int8"), passing("type:con")], [["conv2"], ["conv2"], []]);
});

test("a regular expression is one, and text until it is finished", () => {
  equal([passing("/^conv\\d$/"), passing("/conv("), passing("/(/")], [["conv2"], [], []]);
});

test("figures are compared, and what is not known passes no comparison", () => {
  equal([passing("nsr>0.02"), passing("nsr>=0.02"), passing("!nsr>0.1"), passing("nsr<1")], [["head/fc"], ["conv2", "head/fc"], [
    "conv2",
    "conv10",
  ], ["conv2", "head/fc"]]);
});

test("what is not known comes last, either way", () => {
  const order = (down) => sorted(rows, (row) => row.nsr, down).map((row) => row.nsr);
  equal([order(false), order(true)], [[0.02, 0.5, null], [0.5, 0.02, null]]);
});

test("numbers in names are ordered as numbers, and rows stay where they were", () => {
  equal(sorted(rows, (row) => row.name, false).map((row) => row.name), ["conv2", "conv10", "head/fc"]);
  equal(rows[0].name, "conv2");
});
