// Networks are long and narrow, windows are not: a long one is folded into columns that are read like those of a newspaper. A line that
// goes on in the next column does so through the gap between the two.
const gutter = 46, lane = 5, lanes = 5, head = 24;

// foldScene moves everything of a scene into columns, of this height or of the one that shows it largest in a room. It cuts only where no
// box is, and outside of open blocks if there is such a place in the lower part of a column. It gives the height.
export function foldScene(scene, { height, room }) {
  const gaps = gapsOf(scene);
  if (!height) height = bestHeight(scene, gaps, room);
  const cuts = cutsOf(scene, gaps, height);
  if (cuts.length) cutScene(scene, cuts);
  return height;
}

function bestHeight(scene, gaps, room) {
  let best = 0, height = Infinity, last = 0;
  for (let k = 1; k <= 80; k++) {
    const limit = k > 1 ? scene.h / k * 1.02 + 20 : Infinity, cuts = cutsOf(scene, gaps, limit);
    if (k > 1 && cuts.length === last) continue;
    last = cuts.length;
    const tallest = [...cuts, scene.h].reduce((most, y, i) => Math.max(most, y - (i ? cuts[i - 1] : 0)), 0);
    const scale = Math.min(room.width / ((cuts.length + 1) * (scene.w + gutter)), room.height / tallest, 1.2);
    if (scale > best * 1.03) [best, height] = [scale, limit];
  }
  return height;
}

function cutScene(scene, cuts) {
  const columns = [...cuts, Infinity].map((bottom, i) => ({ top: i ? cuts[i - 1] : 0, bottom: Math.min(bottom, scene.h), left: Infinity,
    right: -Infinity, lead: 0, dx: 0, end: 0 })
  );
  const at = (y) => {
    let low = 0, high = columns.length - 1;
    while (low < high) {
      const mid = (low + high) >> 1;
      if (y < columns[mid].bottom) high = mid;
      else low = mid + 1;
    }
    return low;
  };
  const widen = (c, left, right) => {
    c.left = Math.min(c.left, left);
    c.right = Math.max(c.right, right);
  };
  for (const b of scene.boxes) widen(columns[at(b.y)], b.x, b.x + b.w);
  for (const c of columns) c.lead = head * scene.frames.reduce((n, f) => n + (f.y < c.top && c.top < f.y + f.h ? 1 : 0), 0);
  const frames = scene.frames.flatMap((f) => piecesOf(f, columns, at));
  for (const { c, f } of frames) widen(columns[c], f.x, f.x + f.w);
  const wires = scene.wires.map((w) => split(w.points, columns, at));
  for (const pieces of wires) {
    for (const { c, points } of pieces) for (let i = 0; i < points.length; i += 2) widen(columns[c], points[i], points[i]);
  }
  let x = 0;
  for (const c of columns) {
    c.dx = x + 12 - c.left;
    x += c.right - c.left + gutter;
    c.end = x - gutter + 12; // where the gap to the next column begins
  }
  for (const b of scene.boxes) {
    const c = columns[at(b.y)];
    b.x += c.dx;
    b.y += c.lead - c.top;
  }
  scene.frames = frames.map(({ c, f }) => {
    f.x += columns[c].dx;
    f.y += (f.above === undefined ? columns[c].lead : f.above) - columns[c].top;
    return f;
  });
  const used = columns.map(() => 0);
  scene.wires.forEach((w, i) => {
    const p = [];
    for (const { c, points } of wires[i]) {
      const column = columns[c];
      if (p.length) {
        const before = columns[c - 1], along = before.end + 12 + lane * (used[c - 1]++ % lanes);
        p.push(along, p[p.length - 1], along, 0);
        p.push(points[0] + column.dx, 0);
      }
      for (let k = 0; k < points.length; k += 2) p.push(points[k] + column.dx, points[k + 1] + column.lead - column.top);
    }
    w.points = p;
  });
  scene.w = x - gutter + 24;
  scene.h = Math.max(...columns.map((c) => c.bottom - c.top + c.lead));
  scene.columns = columns.length;
}

// gapsOf lists the heights at which no box is, each at the place where the fewest open blocks are around.
function gapsOf(scene) {
  const sorted = [...scene.boxes].sort((a, b) => a.y - b.y), gaps = [];
  let end = -Infinity;
  for (const b of sorted) {
    if (b.y > end + 1 && end > 0) gaps.push({ y: (end + b.y) / 2, from: end, to: b.y });
    end = Math.max(end, b.y + b.h);
  }
  // A gap may hold the end of one frame and the beginning of another.
  const crossed = (y) => scene.frames.reduce((n, f) => n + (f.y < y && y < f.y + f.h ? 1 : 0), 0);
  const rims = scene.frames.flatMap((f) => [f.y - 7, f.y + f.h + 7]).sort((a, b) => a - b);
  let rim = 0;
  for (const gap of gaps) {
    gap.around = crossed(gap.y);
    while (rim < rims.length && rims[rim] <= gap.from) rim++;
    for (let k = rim; k < rims.length && rims[k] < gap.to; k++) {
      const n = crossed(rims[k]);
      if (n < gap.around) Object.assign(gap, { y: rims[k], around: n });
    }
  }
  return gaps;
}

function cutsOf(scene, gaps, height) {
  const cuts = [];
  let top = 0;
  for (let i = 0; i < gaps.length; i++) {
    if (scene.h - top <= height * 1.1) break;
    if (gaps[i].y - top <= height * 0.7) continue;
    let best = i;
    for (let k = i + 1; k < gaps.length && gaps[k].y - top <= height; k++) if (gaps[k].around <= gaps[best].around) best = k;
    cuts.push(top = gaps[i = best].y);
  }
  return cuts;
}

// piecesOf cuts the frame of an open block; the block itself is its first piece. What goes on in a further column has its title above.
function piecesOf(f, columns, at) {
  const first = at(f.y), last = at(f.y + f.h - 1), bottom = f.y + f.h, out = [{ c: first, f }];
  for (let c = first + 1; c <= last; c++) {
    const column = columns[c], above = head * (column.begun = (column.begun || 0) + 1) - head + 4;
    out.push({ c,
      f: { ...f, above, y: column.top, h: Math.min(bottom, column.bottom) - column.top + column.lead - above - 4,
        label: `… ${f.label}` } });
  }
  if (last > first) f.h = columns[first].bottom - f.y - 4;
  return out;
}

// split cuts a line, which goes downwards, where columns end.
function split(points, columns, at) {
  let c = at(points[1]), piece = [points[0], points[1]];
  const out = [{ c, points: piece }];
  for (let i = 2; i < points.length; i += 2) {
    const x0 = points[i - 2], y0 = points[i - 1], x1 = points[i], y1 = points[i + 1];
    while (c < columns.length - 1 && y1 > columns[c].bottom) {
      const y = columns[c].bottom, t = y1 > y0 ? (y - y0) / (y1 - y0) : 0, x = x0 + (x1 - x0) * t * t * (3 - 2 * t);
      piece.push(x, y);
      c++;
      piece = [x, y];
      out.push({ c, points: piece });
    }
    piece.push(x1, y1);
  }
  return out;
}
