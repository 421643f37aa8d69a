// What the tests of the modules are written with. A browser imports the modules beside this one and calls run (cmd/qwb-browsertest).
const tests = [];

// test notes a test: a sentence that is true where fn returns.
export function test(sentence, fn) {
  tests.push({ sentence, fn });
}

// equal holds two values, of what JSON has, to each other.
export function equal(got, want, about = "") {
  const [a, b] = [got, want].map((x) => JSON.stringify(x));
  if (a !== b) throw new Error(`${about ? `${about}: ` : ""}${a}, not ${b}`);
}

// run runs all tests that have been noted and says of each what went wrong, "" for nothing.
export async function run() {
  const list = [];
  for (const { sentence, fn } of tests) {
    let wrong = "";
    try {
      await fn();
    } catch (problem) {
      wrong = problem.stack || String(problem);
    }
    list.push({ sentence, wrong });
  }
  return list;
}
