// Pointer, wheel, touch and keyboard on the drawn network.

// bindGraph makes a canvas answer; g has what may be done (graph.js).
export function bindGraph(canvas, g) {
  const pointers = new Map();
  let moved = 0, pinch = 0;

  const toPicture = (x, y) => ({ x: (x - g.view.x) / g.view.scale, y: (y - g.view.y) / g.view.scale });
  const at = (e) => {
    const r = canvas.getBoundingClientRect();
    return { x: e.clientX - r.left, y: e.clientY - r.top };
  };

  // hit is what lies under a point: a box, the sign or title of an open block, or a line.
  function hit(x, y) {
    const { scene } = g.get(), p = toPicture(x, y), slack = 4 / g.view.scale;
    let box = null, wire = null;
    scene.find("boxes", p.y - slack, p.y + slack, (b) => {
      if (p.x >= b.x - slack && p.x <= b.x + b.w + slack && p.y >= b.y - slack && p.y <= b.y + b.h + slack) box = b;
    });
    if (box) return { box, sign: box.block >= 0 && p.x < box.x + 24 };
    for (const f of scene.frames) if (p.x >= f.x && p.x <= f.x + f.w && p.y >= f.y && p.y <= f.y + 26) box = f;
    if (box) return { box, sign: true };
    let best = 5 / g.view.scale;
    scene.find("wires", p.y - best, p.y + best, (w) => {
      const d = distance(w.points, p, best);
      if (d < best) [best, wire] = [d, w];
    });
    return wire ? { wire } : null;
  }

  // distance of a point from a line, by its straight pieces; curves lie close to them.
  function distance(points, p, enough) {
    let best = Infinity;
    for (let i = 2; i < points.length && best > enough / 4; i += 2) {
      const x0 = points[i - 2], y0 = points[i - 1], dx = points[i] - x0, dy = points[i + 1] - y0;
      const t = Math.max(0, Math.min(1, ((p.x - x0) * dx + (p.y - y0) * dy) / (dx * dx + dy * dy || 1)));
      // A curve leaves and arrives upright: at a share t of its height it is at 3t²-2t³ of its width.
      const e = t * t * (3 - 2 * t);
      best = Math.min(best, Math.hypot(p.x - x0 - dx * e, p.y - y0 - dy * t));
    }
    return best;
  }

  canvas.addEventListener("pointerdown", (e) => {
    canvas.setPointerCapture(e.pointerId);
    pointers.set(e.pointerId, at(e));
    if (pointers.size === 1) moved = 0;
    pinch = 0;
    g.showTip(null);
  });
  canvas.addEventListener("pointermove", (e) => {
    const now = at(e), before = pointers.get(e.pointerId);
    if (!before) {
      const thing = hit(now.x, now.y);
      canvas.style.cursor = thing && thing.box ? "pointer" : "grab";
      g.showTip(thing, now.x, now.y);
      return;
    }
    pointers.set(e.pointerId, now);
    moved += Math.abs(now.x - before.x) + Math.abs(now.y - before.y);
    if (pointers.size === 1 && moved > 4) {
      canvas.style.cursor = "grabbing";
      g.view.pan(now.x - before.x, now.y - before.y);
    } else if (pointers.size === 2) {
      const [a, b] = [...pointers.values()], apart = Math.hypot(a.x - b.x, a.y - b.y);
      if (pinch) g.view.zoomBy(apart / pinch, (a.x + b.x) / 2, (a.y + b.y) / 2);
      pinch = apart;
    }
  });
  const up = (e) => {
    const was = pointers.delete(e.pointerId);
    pinch = 0;
    canvas.style.cursor = "grab";
    if (!was || moved > 4 || e.type === "pointercancel" || e.button > 0) return;
    const p = at(e), thing = hit(p.x, p.y);
    if (!thing) g.leave();
    else if (thing.box && thing.sign) g.toggle(thing.box.block);
    else if (thing.box && thing.box.node >= 0 && (e.ctrlKey || e.metaKey || e.shiftKey)) g.pick(thing.box);
    else if (thing.box) g.setCursor(thing.box);
  };
  canvas.addEventListener("pointerup", up);
  canvas.addEventListener("pointercancel", up);
  canvas.addEventListener("pointerleave", () => g.showTip(null));
  canvas.addEventListener("dblclick", (e) => {
    const p = at(e), thing = hit(p.x, p.y);
    if (thing && thing.box && thing.box.block >= 0 && !thing.sign) g.toggle(thing.box.block);
    else if (!thing) g.view.zoomBy(1.6, p.x, p.y);
  });
  // The wheel scrolls the page until somebody clicks into the picture, so that nobody is caught in it.
  canvas.addEventListener("wheel", (e) => {
    if (!e.ctrlKey && !e.metaKey && document.activeElement !== canvas) return;
    const p = at(e), unit = e.deltaMode === 1 ? 16 : 1;
    if (e.shiftKey) g.view.pan(-e.deltaY * unit, 0);
    else g.view.zoomBy(Math.exp(-Math.max(-120, Math.min(120, e.deltaY * unit)) * (e.ctrlKey ? 0.006 : 0.0022)), p.x, p.y);
    g.showTip(null);
    e.preventDefault();
  }, { passive: false });

  const middle = (b) => b.x + b.w / 2;

  // along is the nearest box that a tensor leads to (or comes from).
  function along(from, forward) {
    const { index, scene, picture } = g.get();
    const nodes = index.inBox(from), inner = new Set(nodes), next = new Set();
    for (const n of nodes) {
      for (const e of forward ? index.outOf[n] : index.into[n]) {
        const other = forward ? picture.edges[e].to : picture.edges[e].from;
        if (!inner.has(other)) next.add(scene.ofNode[other]);
      }
    }
    const list = [...next].sort((a, b) =>
      Math.abs(a.depth - from.depth) - Math.abs(b.depth - from.depth)
      || Math.abs(middle(a) - middle(from)) - Math.abs(middle(b) - middle(from))
    );
    return list[0] || null;
  }

  // beside is the next box to the left or right: of the same layer, else the nearest at about the same height.
  function beside(from, step) {
    const { scene } = g.get();
    let best = null;
    scene.find("boxes", from.y, from.y + from.h, (b) => {
      if (b === from || (middle(b) - middle(from)) * step <= 0 || b.y > from.y + from.h || b.y + b.h < from.y) return;
      if (!best || Math.abs(middle(b) - middle(from)) < Math.abs(middle(best) - middle(from))) best = b;
    });
    return best;
  }

  const keys = {
    ArrowDown: (c) => go(along(c, true), "No tensor leads on from here."),
    ArrowUp: (c) => go(along(c, false), "Nothing before this."),
    ArrowLeft: (c) => go(beside(c, -1), "Nothing to the left."),
    ArrowRight: (c) => go(beside(c, 1), "Nothing to the right."),
    Home: () => g.setCursor(g.get().scene.ofNode[0]),
    End: () => g.setCursor(g.get().scene.ofNode[g.get().picture.nodes.length - 1]),
    PageUp: () => g.worse(-1),
    PageDown: () => g.worse(1),
    Enter: (c) => c.block >= 0 ? g.toggle(c.block) : g.setCursor(c),
    Backspace: (c) => c.open ? g.toggle(c.block) : c.parent ? g.toggle(c.parent.block) : g.announce("No block around this."),
    " ": (c) => c.node >= 0 ? g.pick(c) : g.toggle(c.block),
    "+": () => g.view.zoomBy(1.3),
    "=": () => g.view.zoomBy(1.3),
    "-": () => g.view.zoomBy(1 / 1.3),
    "0": () => g.fit(),
    "/": () => g.input.focus(),
    Escape: () => canvas.blur(),
  };

  function go(box, otherwise) {
    if (box) g.setCursor(box);
    else g.announce(otherwise);
  }

  canvas.addEventListener("keydown", (e) => {
    if (e.ctrlKey || e.metaKey || e.altKey || !keys[e.key]) return;
    const { cursor, scene } = g.get();
    keys[e.key](cursor || scene.ofNode[0]);
    g.showTip(null);
    e.preventDefault();
  });
}
