// The part of the network that is in sight: where it is moved to, and how far it is zoomed.
const largest = 4, readable = 0.56;

// makeView is a window onto the scene that get gives; paint is called at the next frame after a change, and drawn at once while it glides.
export function makeView({ get, paint }) {
  const view = { scale: 1, x: 0, y: 0, width: 0, height: 0, ratio: 1, touched: false, fit, start, zoomBy, pan, moveTo, ask, keepInside };
  let asked = 0, moving = 0;

  function ask() {
    if (!asked) {
      asked = requestAnimationFrame(() => {
        asked = 0;
        paint();
      });
    }
  }

  function stop() {
    if (moving) cancelAnimationFrame(moving);
    moving = 0;
  }

  // fit shows all.
  function fit() {
    stop();
    const scene = get();
    view.scale = Math.min((view.width - 30) / scene.w, (view.height - 30) / scene.h, 1.5);
    view.x = (view.width - scene.w * view.scale) / 2;
    view.y = (view.height - scene.h * view.scale) / 2;
    ask();
  }

  // start shows all if it can be read, else the beginning.
  function start() {
    fit();
    if (view.scale >= readable) return;
    view.scale = readable;
    view.x = Math.max((view.width - get().w * view.scale) / 2, 16);
    view.y = 16;
  }

  function zoomBy(factor, x = view.width / 2, y = view.height / 2) {
    stop();
    view.touched = true;
    const scene = get(), least = Math.min(0.05, (view.width - 30) / scene.w, (view.height - 30) / scene.h);
    const to = Math.max(least, Math.min(largest, view.scale * factor)), by = to / view.scale;
    view.x = x - (x - view.x) * by;
    view.y = y - (y - view.y) * by;
    view.scale = to;
    ask();
  }

  function pan(dx, dy) {
    stop();
    view.touched = true;
    view.x += dx;
    view.y += dy;
    ask();
  }

  // keepInside leaves a part of the network in sight, however far somebody drags.
  function keepInside() {
    const keep = 60, w = get().w * view.scale, h = get().h * view.scale;
    view.x = Math.max(keep - w, Math.min(view.width - keep, view.x));
    view.y = Math.max(keep - h, Math.min(view.height - keep, view.y));
  }

  // moveTo brings a box into the middle (or as near to it as leaves no empty border), gliding unless the reader wants no motion.
  function moveTo(box) {
    const s = Math.max(view.scale, readable), border = 24, scene = get();
    const held = (at, room, length) =>
      length * s + 2 * border < room ? (room - length * s) / 2 : Math.min(border, Math.max(room - length * s - border, room / 2 - at * s));
    const x = held(box.x + box.w / 2, view.width, scene.w), y = held(box.y + Math.min(box.h, view.height / s) / 2, view.height, scene.h);
    const left = box.x * view.scale + view.x, top = box.y * view.scale + view.y;
    const inside = left > 40 && top > 40 && left + box.w * view.scale < view.width - 60 && top + box.h * view.scale < view.height - 40;
    if (inside && s === view.scale) return ask();
    stop();
    const from = { ...view }, begin = performance.now(), length = matchMedia("(prefers-reduced-motion: reduce)").matches ? 0 : 180;
    const step = (now) => {
      const t = length ? Math.min(1, Math.max(0, now - begin) / length) : 1, e = t * (2 - t);
      view.scale = from.scale + (s - from.scale) * e;
      view.x = from.x + (x - from.x) * e;
      view.y = from.y + (y - from.y) * e;
      moving = t < 1 ? requestAnimationFrame(step) : 0;
      paint();
    };
    step(begin);
  }

  return view;
}
