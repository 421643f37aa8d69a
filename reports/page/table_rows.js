// Which rows of a table pass a filter, and in which order they stand.
import { known } from "./format.js";

const names = new Intl.Collator("en", { numeric: true }); // ten times as fast as localeCompare

// parseFilter makes a test of rows from what was typed. columns have the keys that figures are compared by. An unfinished regex is its
// text.
export function parseFilter(text, columns) {
  const tests = [];
  for (const part of text.match(/!?\/(?:\\.|[^/\\])*\/|\S+/g) || []) {
    const not = part.length > 1 && part[0] === "!", word = not ? part.slice(1) : part;
    const found = test(word);
    tests.push(not ? (row) => !found(row) : found);
  }
  return (row) => tests.every((t) => t(row));

  function test(word) {
    let m = /^\/(.+)\/$/.exec(word);
    if (m) {
      try {
        const r = new RegExp(m[1]);
        return (row) => r.test(row.name);
      } catch { /* not finished */ }
    }
    if ((m = /^(type|domain|format):(.+)$/i.exec(word))) {
      const key = { type: "op", domain: "domain", format: "format" }[m[1].toLowerCase()], want = m[2].toLowerCase();
      return (row) => String(row[key] || "").toLowerCase() === want;
    }
    if ((m = /^([a-z_]+)([<>]=?)([-+.\deE]+)$/i.exec(word)) && Number.isFinite(Number(m[3]))) {
      const column = columns.find((c) => c.key.toLowerCase() === m[1].toLowerCase() || c.label.toLowerCase() === m[1].toLowerCase()),
        limit = Number(m[3]);
      if (column) {
        return (row) => {
          const v = column.value(row);
          return known(v) && { "<": v < limit, ">": v > limit, "<=": v <= limit, ">=": v >= limit }[m[2]];
        };
      }
    }
    const want = word.toLowerCase();
    return (row) => row.name.toLowerCase().includes(want) || String(row.op || "").toLowerCase().includes(want);
  }
}

// sorted are rows by value(row), numbers or texts; what is not known comes last, either way.
export function sorted(rows, value, down) {
  const values = new Map(rows.map((row) => [row, value(row)])), sign = down ? -1 : 1;
  const missing = (v) => !known(v) || v === "";
  return [...rows].sort((a, b) => {
    const x = values.get(a), y = values.get(b);
    if (missing(x) || missing(y)) return Number(missing(x)) - Number(missing(y));
    return sign * (typeof x === "string" ? names.compare(x, y) : x - y);
  });
}
