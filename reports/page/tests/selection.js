import { newSelection } from "../selection.js";
import { equal, test } from "./unit.js";

test("whoever listens hears each change once, with who did it", () => {
  const s = newSelection(), heard = [];
  const off = s.on(({ what, from }) => heard.push(`${what} ${from} ${s.node} ${[...s.nodes]}`));
  s.set("a", "table");
  s.set("a", "graph"); // it is selected already
  s.toggle("b", true, "graph");
  s.toggle("b", true, "graph");
  s.toggle("b", undefined, "graph");
  s.choose(["x", "y", "x"], "search");
  off();
  s.set("", "nobody");
  equal(heard, ["node table a ", "nodes graph a b", "nodes graph a ", "nodes search a x,y"]);
  equal(s.node, "");
});

test("a listener may go while others are told", () => {
  const s = newSelection(), heard = [];
  const off = s.on(() => off());
  s.on(() => heard.push("second"));
  s.set("a");
  s.set("b");
  equal(heard, ["second", "second"]);
});

test("the address holds the operator, whatever its name", () => {
  const s = newSelection({ hash: true }), other = () => newSelection({ hash: true }).node, name = "a/b c%#ü\u202e";
  s.set(name);
  equal(other(), name);
  s.set("");
  equal([other(), location.hash], ["", ""]);
  history.replaceState(null, "", "#node=%E0%A4%A"); // somebody shortened it
  equal(other(), "");
  history.replaceState(null, "", location.pathname);
});
