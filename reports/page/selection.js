// What is selected, shared by all views of a page: one operator, and a set of operators for changes. The address holds the operator.
import { onPlace, place, placed } from "./address.js";

export function newSelection(options) {
  const { hash = false } = options || {};
  const listeners = new Set();
  const state = {
    node: "", // the operator that views show; "" for none
    nodes: new Set(), // the operators that a change is for
    // set selects one operator; from says who did, so that a view need not scroll to what was clicked in it.
    set(name, from) {
      if (name === state.node) return;
      state.node = name || "";
      if (hash) place({ node: state.node });
      tell({ what: "node", from });
    },
    // toggle puts an operator into the set or takes it out.
    toggle(name, on, from) {
      if (on === undefined) on = !state.nodes.has(name);
      if (on === state.nodes.has(name)) return;
      state.nodes[on ? "add" : "delete"](name);
      tell({ what: "nodes", from });
    },
    // choose makes the set these operators.
    choose(names, from) {
      state.nodes = new Set(names);
      tell({ what: "nodes", from });
    },
    // on calls f({what: "node" | "nodes", from}) at each change, until the function that it returns is called.
    on(f) {
      listeners.add(f);
      return () => listeners.delete(f);
    },
  };
  function tell(change) {
    for (const f of [...listeners]) f(change, state);
  }
  const read = () => {
    if (placed("node")) state.set(placed("node"), "address");
  };
  if (hash) {
    read();
    onPlace(read);
  }
  return state;
}
