// The network as a tree of blocks and operators: what the drawing shows, for screen readers and for those who would rather read.
import { el, replace } from "./dom.js";

// makeTree gives an element that is closed at first and filled when somebody opens it. get gives picture and index as they are.
export function makeTree({ title, get, words, pick }) {
  const list = el("ul", { class: "tree", role: "tree", "aria-label": `${title}: blocks and operators in order` });
  const element = el("details", { class: "graph-tree" }, el("summary", { title: "The network as a list of blocks and operators" }, "List"),
    list);
  const opened = new Set();

  // children are the operators and blocks directly in a block, in the order of the graph.
  function children(block) {
    const { picture, index } = get(), out = [], seen = new Set();
    const nodes = block < 0 ? picture.nodes.keys() : index.members[block];
    for (const n of nodes) {
      const up = index.around[n], depth = block < 0 ? up.length : up.indexOf(block);
      if (depth === 0) out.push({ node: n });
      else if (!seen.has(up[depth - 1])) {
        seen.add(up[depth - 1]);
        out.push({ block: up[depth - 1] });
      }
    }
    return out;
  }

  function item(thing, level) {
    const { picture, index } = get();
    if (thing.node !== undefined) {
      const from = index.into[thing.node].map((e) => picture.nodes[picture.edges[e].from].name);
      return el("li", { role: "treeitem", tabindex: "-1", "aria-level": level, data: { node: thing.node } },
        el("span", { class: "tree-text" }, words.ofNode(thing.node)),
        from.length > 0 && el("span", { class: "soft" }, ` from ${from.slice(0, 4).join(", ")}`));
    }
    const open = opened.has(thing.block);
    const li = el("li", { role: "treeitem", tabindex: "-1", "aria-level": level, "aria-expanded": String(open),
      data: { block: thing.block } }, el("span", { class: "tree-text" }, words.ofBlock(thing.block)));
    if (open) li.append(el("ul", { role: "group" }, children(thing.block).map((c) => item(c, level + 1))));
    return li;
  }

  function draw() {
    const at = list.querySelector("li[tabindex='0']"), held = list.contains(document.activeElement);
    replace(list, children(-1).map((c) => item(c, 1)));
    const same = at
      && list.querySelector(at.dataset.node !== undefined ? `li[data-node="${at.dataset.node}"]` : `li[data-block="${at.dataset.block}"]`);
    const first = same || list.querySelector("li");
    if (first) first.tabIndex = 0;
    if (same && held) same.focus();
  }

  function move(to) {
    if (!to) return;
    for (const li of list.querySelectorAll("li[tabindex='0']")) li.tabIndex = -1;
    to.tabIndex = 0;
    to.focus();
  }

  function toggle(li, open) {
    const block = Number(li.dataset.block);
    if (open) opened.add(block);
    else opened.delete(block);
    const now = item({ block }, Number(li.getAttribute("aria-level")));
    li.replaceWith(now);
    move(now);
  }

  const act = (li) =>
    li.dataset.node !== undefined ? pick(get().picture.nodes[Number(li.dataset.node)].name)
      : toggle(li, li.getAttribute("aria-expanded") !== "true");

  list.addEventListener("click", (e) => {
    const li = e.target.closest("li");
    if (!li) return;
    move(li);
    act(li);
  });
  list.addEventListener("keydown", (e) => {
    const li = e.target.closest("li");
    if (!li) return;
    const all = [...list.querySelectorAll("li")], at = all.indexOf(li), expanded = li.getAttribute("aria-expanded");
    if (e.key === "ArrowDown") move(all[at + 1]);
    else if (e.key === "ArrowUp") move(all[at - 1]);
    else if (e.key === "Home") move(all[0]);
    else if (e.key === "End") move(all[all.length - 1]);
    else if (e.key === "ArrowRight") expanded === "false" ? toggle(li, true) : expanded === "true" && move(all[at + 1]);
    else if (e.key === "ArrowLeft") expanded === "true" ? toggle(li, false) : move(li.parentElement.closest("li"));
    else if (e.key === "Enter" || e.key === " ") act(li);
    else return;
    e.preventDefault();
    e.stopPropagation();
  });
  element.addEventListener("toggle", () => {
    if (element.open) draw();
  });
  return { element, refresh: () => {
    if (element.open) draw();
  } };
}
