import { words } from "../views/advice.js";
import { equal, test } from "./unit.js";

test("a command line is read as a shell reads it", () => {
  equal(words("qwb set 'my plan.json' a\\ b domain=fp32"), ["qwb", "set", "my plan.json", "a b", "domain=fp32"]);
  equal(words("qwb set p 'it'\\''s' ''"), ["qwb", "set", "p", "it's", ""]);
});
