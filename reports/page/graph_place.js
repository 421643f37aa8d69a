// Where everything of a network stands, for any set of open blocks. A picture has one layout per block, made with all blocks in it closed
// (reports/layout). A block that is opened takes the size of its own layout, and what stands beside and below it makes room: order, layers
// and straight lines stay as they were, so that the eye finds its place again.

import { foldScene } from "./graph_fold.js";

const head = 26, pad = 10, bucket = 256;

// graphIndex is what every placing of one picture needs: its layouts by block, the blocks around each node, innermost first, and the
// operators of each box: parts has those of an operator's box, itself first, and nothing for what is fused into another one's.
export function graphIndex(picture) {
  const levels = new Map(), around = [], members = picture.blocks.map(() => []);
  for (const level of picture.levels) levels.set(level.block, level);
  picture.nodes.forEach((node, i) => {
    const up = [];
    for (let b = node.block ?? -1; b >= 0; b = picture.blocks[b].parent) {
      up.push(b);
      members[b].push(i);
    }
    around.push(up);
  });
  const into = picture.nodes.map(() => []), outOf = picture.nodes.map(() => []);
  picture.edges.forEach((edge, i) => {
    into[edge.to].push(i);
    outOf[edge.from].push(i);
  });
  const parts = picture.nodes.map(() => []), home = picture.nodes.map((node) => node.fused);
  for (const level of picture.levels) for (const item of level.items) if (item.node >= 0) home[item.node] = item.node;
  home.forEach((root, node) => parts[root][root === node ? "unshift" : "push"](node));
  return { picture, levels, around, members, into, outOf, parts, inBox: (box) => box.node >= 0 ? parts[box.node] : members[box.block] };
}

// placeGraph gives the boxes (operators and closed blocks), frames of open blocks and wires of a picture in which some blocks are open.
// labelOf names frames. columns, if any, says how it is folded (graph_fold.js); column of the result is how high the columns are then.
export function placeGraph(index, open, labelOf, columns) {
  const measured = new Map();
  const root = measure(index, -1, open, measured);
  const scene = { w: root.w, h: root.h, boxes: [], frames: [], wires: [], ofNode: new Array(index.picture.nodes.length),
    ofBlock: new Map() };
  emit(index, -1, 0, 0, null, open, measured, scene);
  scene.boxes.forEach((box, i) => Object.assign(box, { at: i, depth: box.y }));
  for (const frame of scene.frames) Object.assign(frame, { label: labelOf(frame.block), depth: frame.y });
  scene.column = columns ? foldScene(scene, columns) : 0;
  scene.find = buckets(scene);
  return scene;
}

const isOpen = (open, item) => item.block >= 0 && open.has(item.block);

const linksOf = (level) => [...level.links, ...level.enter || [], ...level.leave || []];

// measure places one level: sizes and positions of its items, and how its x and layers moved.
function measure(index, block, open, measured) {
  const level = index.levels.get(block), items = level.items;
  const size = items.map((item) => {
    if (!isOpen(open, item)) return { w: item.w, h: item.h };
    const inner = measure(index, item.block, open, measured);
    return { w: Math.max(item.w, inner.w + 2 * pad), h: inner.h + head + pad };
  });
  const m = { level, size, x: moveAcross(level, size), ...moveDown(level, size), at: [], w: 0 };
  m.at = items.map((item, i) => {
    const layer = m.layers.get(item.layer);
    return { x: m.x(item.x + item.w / 2) - size[i].w / 2, y: layer.top + (layer.bottom - layer.top - size[i].h) / 2, ...size[i] };
  });
  let right = 0;
  for (const a of m.at) right = Math.max(right, a.x + a.w);
  for (const link of linksOf(level)) for (const b of link.bends) right = Math.max(right, m.x(b[0]));
  const was = items.reduce((w, item) => Math.max(w, item.x + item.w), 0);
  m.w = Math.max(right + Math.max(0, level.w - was), level.w);
  measured.set(block, m);
  return m;
}

// moveAcross is one function of x for the whole level that leaves no two neighbours of a layer nearer to each other than they were. Equal
// x stay equal, so lines that ran straight still do.
function moveAcross(level, size) {
  const items = level.items, grown = size.some((s, i) => s.w > items[i].w);
  if (!grown) return (x) => x;
  const layers = new Map(), xs = new Set();
  const put = (layer, x, more) => {
    xs.add(x);
    if (!layers.has(layer)) layers.set(layer, []);
    layers.get(layer).push({ x, more });
  };
  items.forEach((item, i) => put(item.layer, item.x + item.w / 2, (size[i].w - item.w) / 2));
  for (const link of linksOf(level)) for (const [x, , layer] of link.bends) put(layer, x, 0);
  xs.add(level.top).add(level.bottom);
  const needs = new Map(); // by the right one of two neighbours: what the left one is and how far they must be apart
  for (const row of layers.values()) {
    row.sort((a, b) => a.x - b.x);
    for (let i = 1; i < row.length; i++) {
      const more = row[i].more + row[i - 1].more;
      if (more <= 0) continue;
      if (!needs.has(row[i].x)) needs.set(row[i].x, []);
      needs.get(row[i].x).push([row[i - 1].x, row[i].x - row[i - 1].x + more]);
    }
  }
  const sorted = [...xs].sort((a, b) => a - b), to = new Map();
  sorted.forEach((x, i) => {
    let v = i ? to.get(sorted[i - 1]) + x - sorted[i - 1] : x;
    for (const [left, apart] of needs.get(x) || []) v = Math.max(v, to.get(left) + apart);
    to.set(x, v);
  });
  // The leftmost of each layer may stick out to the left by now.
  let out = 0;
  items.forEach((item, i) => {
    out = Math.max(out, size[i].w / 2 - to.get(item.x + item.w / 2) + Math.min(item.x, pad));
  });
  return (x) => to.get(x) + out;
}

// moveDown gives each layer its place: as high as its highest item, as far from the next as it was.
function moveDown(level, size) {
  const rows = new Map();
  level.items.forEach((item, i) => {
    const row = rows.get(item.layer);
    const bottom = item.y + item.h;
    if (!row) rows.set(item.layer, { was: item.y, end: bottom, h: size[i].h });
    else Object.assign(row, { was: Math.min(row.was, item.y), end: Math.max(row.end, bottom), h: Math.max(row.h, size[i].h) });
  });
  // A layer that has bends of long lines only.
  for (const link of linksOf(level)) for (const [, y, layer] of link.bends) if (!rows.has(layer)) rows.set(layer, { was: y, end: y, h: 0 });
  const layers = new Map();
  let more = 0;
  for (const [layer, row] of [...rows].sort((a, b) => a[0] - b[0])) {
    const top = row.was + more, h = Math.max(row.h, row.end - row.was);
    layers.set(layer, { top, bottom: top + h });
    more += h - (row.end - row.was);
  }
  return { layers, h: level.h + more };
}

function emit(index, block, ox, oy, parent, open, measured, scene) {
  const m = measured.get(block), boxes = [];
  m.level.items.forEach((item, i) => {
    const a = m.at[i],
      box = { x: ox + a.x, y: oy + a.y, w: a.w, h: a.h, node: item.node, block: item.block, parent, open: false,
        top: oy + m.layers.get(item.layer).top, bottom: oy + m.layers.get(item.layer).bottom };
    boxes.push(box);
    if (box.block >= 0) scene.ofBlock.set(box.block, box);
    if (!isOpen(open, item)) {
      scene.boxes.push(box);
      for (const node of index.inBox(box)) scene.ofNode[node] = box;
      return;
    }
    box.open = true;
    scene.frames.push(box);
    const inner = measured.get(item.block), left = box.x + (box.w - inner.w) / 2;
    box.enter = left + inner.x(inner.level.top);
    box.leave = left + inner.x(inner.level.bottom);
    emit(index, item.block, left, box.y + head, box, open, measured, scene);
  });
  // Every line goes upright through the layers that it passes.
  const wire = (link, start, end, main, arrives) => {
    const p = [], bends = link.bends.map(([x, , layer]) => ({ x: ox + m.x(x), at: m.layers.get(layer) }));
    const ends = [bends.length ? bends[0].x : end(0)[0], bends.length ? bends[bends.length - 1].x : start(0)[0]];
    p.push(...start(ends[0]));
    for (const { x, at } of bends) {
      p.push(x, oy + at.top);
      if (at.bottom > at.top) p.push(x, oy + at.bottom);
    }
    p.push(...end(ends[1]));
    scene.wires.push({ points: p, edges: link.edges, arrives, main });
  };
  const below = (box) => (x) => {
    const at = box.open ? box.leave : port(box, x), y = box.y + box.h;
    return box.bottom > y ? [at, y, at, box.bottom] : [at, y];
  };
  const above = (box) => (x) => {
    const at = box.open ? box.enter : port(box, x);
    return box.top < box.y ? [at, box.top, at, box.y] : [at, box.y];
  };
  for (const k of m.level.links) wire(k, below(boxes[k.from]), above(boxes[k.to]), true, !boxes[k.to].open);
  for (const k of m.level.enter || []) wire(k, () => [parent.enter, parent.y], above(boxes[k.to]), false, !boxes[k.to].open);
  for (const k of m.level.leave || []) wire(k, below(boxes[k.from]), () => [parent.leave, parent.y + parent.h], false, false);
}

// port is where a line meets the edge of a box: as straight as its width allows, but near the middle.
function port(box, x) {
  const middle = box.x + box.w / 2;
  return middle + Math.max(-box.w / 6, Math.min(box.w / 6, (x || middle) - middle));
}

// buckets finds what lies between two heights without looking at all of it.
function buckets(scene) {
  const count = Math.ceil(scene.h / bucket) + 1, make = () => Array.from({ length: count }, () => []);
  const lists = { boxes: make(), wires: make() };
  const clamp = (y) => Math.max(0, Math.min(count - 1, Math.floor(y / bucket)));
  const put = (list, thing, top, bottom) => {
    for (let i = clamp(top), n = clamp(bottom); i <= n; i++) list[i].push(thing);
  };
  for (const box of scene.boxes) put(lists.boxes, box, box.y, box.y + box.h);
  for (const wire of scene.wires) {
    const p = wire.points;
    let top = Infinity, bottom = -Infinity, left = Infinity, right = -Infinity;
    for (let i = 0; i < p.length; i += 2) {
      left = Math.min(left, p[i]);
      right = Math.max(right, p[i]);
      top = Math.min(top, p[i + 1]);
      bottom = Math.max(bottom, p[i + 1]);
    }
    Object.assign(wire, { left, right, top, bottom });
    put(lists.wires, wire, top, bottom);
  }
  let round = 0;
  return (kind, top, bottom, f) => {
    round++;
    for (let i = clamp(top), n = clamp(bottom); i <= n; i++) {
      for (const thing of lists[kind][i]) {
        if (thing.seen === round) continue;
        thing.seen = round;
        f(thing);
      }
    }
  };
}
