import { repeated } from "../repeated.js";
import { equal, test } from "./unit.js";

test("a call while it runs, also in the very step in which it ends, is one more run", async () => {
  for (let steps = 0; steps < 30; steps++) {
    let begun = 0;
    const reload = repeated(async () => {
      begun++;
    });
    const first = reload();
    for (let i = 0; i < steps; i++) await null;
    const before = begun;
    await reload();
    await first;
    equal(begun > before, true, `a call ${steps} steps later`);
  }
});

test("who called hears that it failed, and the next call runs again", async () => {
  let fails = true;
  const said = [], reload = repeated(async () => {
    if (fails) throw new Error("no answer");
  });
  await reload().catch((problem) => said.push(problem.message));
  said.push(reload.running());
  fails = false;
  await reload();
  equal(said, ["no answer", null]);
});
