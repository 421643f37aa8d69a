import { onPlace, place, placed } from "../address.js";
import { equal, test } from "./unit.js";

test("the address holds what is shown, and Back goes along the steps alone", async () => {
  const heard = [], off = onPlace(() => heard.push(placed("view")));
  history.replaceState(null, "", location.pathname);
  place({ view: "network" });
  place({ view: "tune", colour: "" }, true);
  place({ node: "a/b c&=#" });
  equal([placed("view"), placed("node"), placed("colour")], ["tune", "a/b c&=#", ""]);
  const before = history.length;
  place({ view: "tune" }, true); // which is shown already
  equal(history.length, before);
  history.back();
  await new Promise((done) => addEventListener("popstate", done, { once: true }));
  equal([heard, placed("view")], [["network"], "network"]);
  off();
  history.replaceState(null, "", location.pathname);
});
