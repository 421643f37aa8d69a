// The network, drawn: operators in layers from inputs to outputs, blocks closed or opened in place, colours by what is chosen. It is a
// canvas, so that thousands of operators move smoothly; the same network stands beside it as a tree for those who do not see it
// (graph_tree.js).
import { colourings, colourScale, findColouring, foldValues, hasValues } from "./colours.js";
import { announce, el, replace, unique } from "./dom.js";
import { plural } from "./format.js";
import { bindGraph } from "./graph_input.js";
import { paintGraph, readTheme } from "./graph_paint.js";
import { graphIndex, placeGraph } from "./graph_place.js";
import { savePicture, sheetOf } from "./graph_print.js";
import { matcher } from "./graph_search.js";
import { makeTree } from "./graph_tree.js";
import { makeView } from "./graph_view.js";
import { makeWords } from "./graph_words.js";
import { drawLegend } from "./legend.js";
import { makeMinimap } from "./minimap.js";

const manyNodes = 60;

// drawGraph draws a picture into host. rows are those of data.js, one per node of the picture; others are rows of a second plan that
// colours are to be common with; sight and onSight(text) are what part of it is seen, for an address; title names the picture for screen
// readers. The result moves, colours and opens it, and takes new rows.
export function drawGraph(host, options) {
  const { selection, title = "Network", others = [], onColouring, onSight } = options;
  let { picture, rows } = options;
  let index = graphIndex(picture), scene = null, open = new Set(), found = null, hover = null, cursor = null, drawn = false;
  let key = options.colouring || "nsr", scale = null, theme = readTheme(document.documentElement), chosen = new Set(), near = new Set();
  let folded = true, column = 0, seeing = 0;
  let values = null, texts = new Map(), strips = new Map(), matches = [], match = -1, byName = new Map();
  const view = makeView({ get: () => scene, paint });

  // The page.
  const ids = { colour: unique("colour"), search: unique("search"), help: unique("help") };
  const select = el("select", { id: ids.colour, onchange: () => setColouring(select.value) });
  const input = el("input", { id: ids.search, type: "search", placeholder: "find operators", size: 18,
    title: "A name, type:Conv, or /regular expression/", autocomplete: "off", spellcheck: "false" });
  const hits = el("span", { class: "graph-hits", "aria-live": "polite" });
  const button = (text, label, f) => el("button", { type: "button", "aria-label": label, title: label, onclick: f }, text);
  const canvas = el("canvas", { class: "graph-canvas", tabindex: "0", role: "application", "aria-roledescription": "network graph",
    "aria-label": title, "aria-describedby": ids.help });
  const map = el("canvas", { class: "graph-minimap", "aria-hidden": "true", title: "The whole network; drag to move" });
  const tip = el("div", { class: "graph-tip", role: "tooltip", hidden: true });
  const stage = el("div", { class: "graph-stage" }, canvas, map, tip);
  const legend = el("div", { class: "graph-legend" });
  const help = el("p", { class: "graph-help soft", id: ids.help, hidden: true },
    "Drag to move, Ctrl and wheel (or wheel after a click) to zoom. Keys: arrows follow the tensors, Enter opens a block or selects, Backspace closes the "
      + "block around, Page Up and Page Down go to the next worse or better operator, Space picks several, + and − zoom, 0 shows all, / searches. "
      + "Marks on lines: Q quantized, DQ dequantized, Q DQ rounded to the levels of a scale, = with the scale of another tensor.");
  const blocks = picture.blocks.length > 0;
  const folding = button("Columns", "Fold a long network into columns", () => fold(!folded));
  const keys = button("?", "How to move in the network", () => {
    help.hidden = !help.hidden;
    keys.setAttribute("aria-expanded", String(!help.hidden));
  });
  const bar = el("div", { class: "graph-bar" }, el("span", null, el("label", { for: ids.colour, class: "unseen" }, "Colour "), select),
    legend, el("span", null, el("label", { for: ids.search, class: "unseen" }, "Find "), input), hits,
    el("span", { class: "graph-buttons" }, button("−", "Zoom out", () => view.zoomBy(1 / 1.4)),
      button("+", "Zoom in", () => view.zoomBy(1.4)), button("All", "Show the whole network", fitAll), folding,
      blocks && button("⊞", "Open all blocks", () => openAll(true)), blocks && button("⊟", "Close all blocks", () => openAll(false)),
      button("PNG", "Save the network as a PNG picture", () => savePicture(index, open, words.frameName, paperLook(), scene)), keys));
  const words = makeWords(() => ({ picture, index, rows, colouring: findColouring(key) }));
  const tree = makeTree({ title, get: () => ({ picture, index }), words,
    pick: (name) => isEnd(byName.get(name)) ? focus(name) : selection.set(name, "tree") });
  bar.lastElementChild.append(tree.element);
  replace(host, el("div", { class: "graph" }, bar, help, stage));
  const ctx = canvas.getContext("2d");
  const minimap = makeMinimap(map, { onMove: (x, y) => {
    view.x = view.width / 2 - x * view.scale;
    view.y = view.height / 2 - y * view.scale;
    view.ask();
  } });

  // The inputs and outputs of the network are drawn, but no operators: other views know nothing of them.
  const isEnd = (node) => ["Input", "Output"].includes(picture.nodes[node].op);
  const rowOf = (node) => rows[node] || {};
  // What is painted.
  function place() {
    const room = { width: view.width - 30, height: view.height - 30 };
    scene = placeGraph(index, open, words.frameName, folded && view.height ? { height: column, room } : null);
    column = scene.column;
    colour();
  }

  function colour() {
    const colouring = findColouring(key);
    scale = colourScale(colouring, rows.concat(others), theme.dark);
    values = new Int16Array(scene.boxes.length);
    texts = new Map();
    strips = new Map();
    const indexOf = (node) => scale.indexOf(valueOf(colouring, node));
    for (const box of scene.boxes) {
      if (box.node >= 0) values[box.at] = scale.indexOf(valueOfBox(colouring, box.node));
      else {
        values[box.at] = scale.indexOf(foldValues(colouring, index.members[box.block].map(rowOf)).value);
        strips.set(box.block, index.members[box.block].slice(0, 200).map(indexOf));
      }
    }
    mark();
    drawLegend(legend, scale);
    tree.refresh();
    if (view.height) minimap.redraw(scene, look(), view);
    view.ask();
  }

  // An operator that is fused into another one is part of it and has its colour.
  function valueOf(colouring, node) {
    const own = colouring.value(rowOf(node)), root = picture.nodes[node].fused ?? -1;
    return own == null && root >= 0 && colouring.fold !== "sum" ? colouring.value(rowOf(root)) : own;
  }

  // valueOfBox is that of an operator with what is fused into it, as a closed block has one; of classes that of the operator.
  const valueOfBox = (colouring, node) =>
    colouring.fold === "mode" ? valueOf(colouring, node) : foldValues(colouring, index.parts[node].map(rowOf)).value;

  // mark finds the boxes of what is selected and searched.
  function mark() {
    const box = (name) => byName.has(name) ? scene.ofNode[byName.get(name)] : null;
    chosen = new Set([...selection.nodes || []].map(box).filter(Boolean));
    const one = box(selection.node);
    if (one) chosen.add(one);
    if (cursor) cursor = cursor.node >= 0 ? scene.ofNode[cursor.node] : scene.ofBlock.get(cursor.block) || null;
    if (!cursor && one) cursor = one;
    hover = null;
    found = matches.length ? new Set(matches.map((m) => scene.ofNode[m])) : null;
    nearWires();
  }

  function nearWires() {
    const nodes = !cursor || cursor.open ? [] : index.inBox(cursor);
    near = new Set(nodes.flatMap((n) => [...index.into[n], ...index.outOf[n]]));
  }

  const markOf = (w) => {
    for (const e of w.edges) if (picture.edges[e].mark) return picture.edges[e].mark;
    return "";
  };
  const shapeOf = (w) => {
    const e = picture.edges[w.edges[0]];
    const text = e.shape && e.shape.length ? e.shape.join("×") : "";
    return w.edges.length > 1 ? `${text} +${w.edges.length - 1}` : text;
  };
  function textOf(box) {
    if (!texts.has(box)) texts.set(box, words.onBox(box));
    return texts.get(box);
  }
  const look = () => ({ theme, scale, values, strips, textOf, markOf, shapeOf, chosen, cursor, hover, found,
    near: near.size ? (w) => w.edges.some((e) => near.has(e)) : null });

  function paint() {
    if (!view.width) return;
    view.keepInside();
    ctx.setTransform(1, 0, 0, 1, 0, 0);
    ctx.fillStyle = theme.paper;
    ctx.fillRect(0, 0, canvas.width, canvas.height);
    paintGraph(ctx, scene, view, look());
    minimap.frame(view);
    if (!onSight || !view.touched) return;
    clearTimeout(seeing);
    seeing = setTimeout(
      () =>
        onSight(
          [view.scale, (view.width / 2 - view.x) / view.scale, (view.height / 2 - view.y) / view.scale].map((v) => Number(v.toFixed(2)))
            .join(",")
        ),
      300
    );
  }

  // see shows the part that a text of onSight says.
  function see(text) {
    const [scale, x, y] = String(text || "").split(",").map(Number);
    if (!(scale > 0.01 && scale < 20 && Number.isFinite(x) && Number.isFinite(y))) return;
    Object.assign(view, { touched: true, scale, x: view.width / 2 - x * scale, y: view.height / 2 - y * scale });
    view.ask();
  }

  function resize() {
    const w = stage.clientWidth, h = stage.clientHeight, ratio = window.devicePixelRatio || 1;
    if (!w || !h || (w === view.width && h === view.height && ratio === view.ratio)) return;
    view.x += (w - view.width) / 2;
    Object.assign(view, { width: w, height: h, ratio });
    canvas.width = Math.round(w * ratio);
    canvas.height = Math.round(h * ratio);
    if (!view.touched) return start(); // nobody has moved it yet: it may suit the new window
    minimap.redraw(scene, look(), view);
    paint();
  }

  // start shows the whole network if it can be read, else its beginning; the small map shows the whole.
  function start() {
    drawn = true;
    column = 0;
    place();
    view.start();
    if (selection.node) focus(selection.node);
    see(options.sight);
  }

  // fitAll shows the whole network, in columns as they suit the window.
  function fitAll() {
    if (!drawn) return;
    column = 0;
    place();
    view.fit();
  }

  function fold(on) {
    folded = on;
    folding.setAttribute("aria-pressed", String(on));
    fitAll();
    if (cursor) view.moveTo(cursor);
  }

  // setOpen opens or closes blocks; what was clicked stays where it is on the screen.
  function setOpen(next, block) {
    const was = block === undefined ? null : scene.ofBlock.get(block);
    const at = was && { x: (was.x + was.w / 2) * view.scale + view.x, y: was.y * view.scale + view.y };
    open = next;
    view.touched = true;
    place();
    const now = at && scene.ofBlock.get(block);
    if (now) {
      view.x = at.x - (now.x + now.w / 2) * view.scale;
      view.y = at.y - now.y * view.scale;
    }
    view.ask();
  }

  function toggle(block) {
    const next = new Set(open), opening = !next.has(block);
    if (opening) next.add(block);
    else next.delete(block);
    setOpen(next, block);
    cursor = opening ? scene.boxes.find((b) => b.parent && b.parent.block === block) || cursor : scene.ofBlock.get(block);
    nearWires();
    announce(`${words.blockName(block)} ${opening ? "opened" : "closed"}, ${plural(index.members[block].length, "operator")}`);
  }

  function openAll(all) {
    open = new Set(all ? picture.blocks.map((_, i) => i) : []);
    fitAll();
    if (cursor) view.moveTo(cursor);
  }

  // reveal opens what hides a node.
  function reveal(node) {
    const hiding = index.around[node].filter((b) => !open.has(b));
    if (hiding.length) setOpen(new Set([...open, ...hiding]));
    return scene.ofNode[node];
  }

  function focus(name) {
    const node = byName.get(name);
    if (node === undefined || !drawn) return;
    setCursor(reveal(node), false);
  }

  // setCursor moves the keyboard's place; an operator is selected with it, in all views.
  function setCursor(box, tell = true) {
    if (!box) return;
    cursor = box;
    view.touched = true;
    nearWires();
    if (tell && box.node >= 0) selection.set(isEnd(box.node) ? "" : words.nameOf(box), "graph");
    if (tell) announce(words.ofBox(box));
    view.moveTo(box);
  }

  // pick takes an operator into the set that changes are for, or out of it.
  function pick(box) {
    const name = words.nameOf(box);
    if (isEnd(box.node)) return;
    selection.toggle(name, undefined, "graph");
    announce(`${name} ${selection.nodes.has(name) ? "picked" : "no longer picked"}, ${selection.nodes.size} in all`);
  }

  // showTip explains what the pointer is on: an operator, a block, or a tensor.
  function showTip(thing, x, y) {
    if (thing && thing.box !== hover) {
      hover = thing.box || null;
      view.ask();
    } else if (!thing && hover) {
      hover = null;
      view.ask();
    }
    tip.hidden = !thing;
    if (!thing) return;
    replace(tip, words.tipOf(thing));
    tip.style.left = `${Math.max(4, Math.min(x + 14, view.width - tip.offsetWidth - 8))}px`;
    tip.style.top = `${y + 18 + tip.offsetHeight > view.height ? Math.max(4, y - tip.offsetHeight - 10) : y + 18}px`;
  }

  function setColouring(next) {
    key = findColouring(next).key;
    select.value = key;
    colour();
    if (onColouring) onColouring(key);
  }

  function drawChoices() {
    replace(select,
      colourings.filter((c) => !["difference", "structure"].includes(c.key) || hasValues(c, rows) || c.key === key).map((c) => {
        const has = hasValues(c, rows);
        return el("option", { value: c.key, disabled: !has, title: has ? c.doc : `${c.doc} Not known yet: ${c.needs}` },
          has ? c.label : `${c.label} (not known)`);
      }));
    if (!hasValues(findColouring(key), rows)) key = (colourings.find((c) => hasValues(c, rows)) || colourings[0]).key;
    select.value = key;
  }

  // search marks what matches; step goes to the next or previous one.
  function search(text, step) {
    if (input.value !== text) input.value = text;
    const test = matcher(text);
    matches = test ? picture.nodes.map((n, i) => test(n) ? i : -1).filter((i) => i >= 0) : [];
    if (step && matches.length) {
      match = (match + step + matches.length) % matches.length;
      setCursor(reveal(matches[match]));
    } else match = -1;
    replace(hits, !text ? ""
      : !test ? "not a regular expression"
      : match >= 0 ? `${match + 1} of ${matches.length}` : plural(matches.length, "match", "matches"));
    mark();
    view.ask();
  }
  input.addEventListener("input", () => search(input.value));
  input.addEventListener("keydown", (e) => {
    if (e.key === "Enter") search(input.value, e.shiftKey ? -1 : 1);
    else if (e.key === "Escape") search("");
    else return;
    e.preventDefault();
  });

  // worse goes along the operators in the order of their values.
  function worse(step) {
    const c = scale.colouring, list = picture.nodes.map((_, i) => i).filter((i) => index.parts[i].length && c.value(rowOf(i)) != null);
    if (!list.length) return;
    if (c.scale !== "class") list.sort((a, b) => c.value(rowOf(b)) - c.value(rowOf(a)) || a - b);
    const at = cursor && cursor.node >= 0 ? list.indexOf(cursor.node) : -1;
    setCursor(reveal(list[at < 0 ? 0 : Math.max(0, Math.min(list.length - 1, at + step))]));
  }

  const paperLook = () => ({ ...look(), scale: colourScale(scale.colouring, others.concat(rows), false) });

  function takeRows() {
    byName = new Map(picture.nodes.map((n, i) => [n.name, i]));
    drawChoices();
  }

  // update takes new figures, and a new picture where the network itself changed.
  function update(next) {
    rows = next.rows || rows;
    if (next.others) others.splice(0, others.length, ...next.others);
    const other = next.picture && next.picture !== picture;
    if (other) {
      picture = next.picture;
      index = graphIndex(picture);
      open = new Set([...open].filter((b) => b < picture.blocks.length));
      cursor = null;
      matches = [];
    }
    takeRows();
    if (other) place();
    else colour();
  }

  const media = matchMedia("(prefers-color-scheme: dark)");
  const retheme = () => {
    theme = readTheme(document.documentElement);
    colour();
  };
  media.addEventListener("change", retheme);
  let paper = null;
  const beforePrint = () => {
    paper = sheetOf(index, open, words.frameName, paperLook(), 1000, 1200);
    stage.after(paper);
    drawLegend(legend, paperLook().scale);
  };
  const afterPrint = () => {
    if (!paper) return;
    paper.remove();
    drawLegend(legend, scale);
  };
  addEventListener("beforeprint", beforePrint);
  addEventListener("afterprint", afterPrint);
  const off = selection.on((change) => {
    mark();
    if (change && change.what === "node" && change.from !== "graph" && selection.node) focus(selection.node);
    if (drawn) minimap.redraw(scene, look(), view);
    view.ask();
  });

  if (picture.nodes.length <= manyNodes) open = new Set(picture.blocks.map((_, i) => i));
  takeRows();
  folding.setAttribute("aria-pressed", "true");
  if (!stage.clientHeight) place(); // in a tab that is not shown yet
  bindGraph(canvas, { view, get: () => ({ scene, cursor, index, picture }), fit: () => fitAll(), toggle, setCursor, showTip, worse,
    announce, input, pick, leave: () => selection.set("", "graph") });
  const observer = new ResizeObserver(resize);
  observer.observe(stage);
  resize();

  return {
    setColouring,
    openAll,
    focus,
    fit: fitAll,
    search,
    update,
    fold,
    open: (block) => {
      if (!open.has(block)) toggle(block);
    },
    get scene() {
      return scene;
    },
    get view() {
      return view;
    },
    destroy() {
      observer.disconnect();
      media.removeEventListener("change", retheme);
      removeEventListener("beforeprint", beforePrint);
      removeEventListener("afterprint", afterPrint);
      off();
      replace(host);
    },
  };
}
