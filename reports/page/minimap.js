// The whole network, small, with the part in sight framed. A click or drag moves there. Long chains are stretched across, so that their
// colours can be seen.
const widest = 124, narrowest = 34;

export function makeMinimap(canvas, { onMove }) {
  let scene = null, cache = null, across = 1, down = 1, look = null, ratio = 1, height = 0;
  const ctx = canvas.getContext("2d");

  // redraw paints the network anew: it has other boxes, colours or room.
  function redraw(newScene, newLook, view) {
    scene = newScene;
    look = newLook;
    ratio = window.devicePixelRatio || 1;
    down = Math.min((view.height - 32) / scene.h, 1);
    const most = Math.min(widest, view.width / 5), fair = scene.w * down, width = Math.max(narrowest, Math.min(most, fair));
    if (fair > most) down = Math.max(most / scene.w, Math.min(down, 60 / scene.h));
    across = width / scene.w;
    height = Math.max(20, Math.round(scene.h * down));
    canvas.style.width = `${Math.round(width)}px`;
    canvas.style.height = `${height}px`;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    cache = document.createElement("canvas");
    cache.width = canvas.width;
    cache.height = canvas.height;
    const c = cache.getContext("2d"), x = ratio * across, y = ratio * down;
    c.fillStyle = look.theme.paper;
    c.fillRect(0, 0, cache.width, cache.height);
    for (const b of scene.boxes) {
      const index = look.values[b.at];
      c.fillStyle = index < 0 ? look.theme.line : look.scale.colours[index];
      c.fillRect(x * b.x, y * b.y, Math.max(1.5, x * b.w), Math.max(1.5, y * b.h));
    }
    c.fillStyle = look.theme.accent;
    for (const b of look.chosen) c.fillRect(x * b.x - 2, y * b.y - 1, x * b.w + 4, Math.max(3, y * b.h + 2));
  }

  function frame(view) {
    if (!cache) return;
    // Where most of the network is in sight the map would only cover it.
    const shown = (at, room, length) => Math.max(0, Math.min(room, at + length * view.scale) - Math.max(0, at)) / (length * view.scale);
    const whole = shown(view.x, view.width, scene.w) * shown(view.y, view.height, scene.h) > 0.7;
    canvas.style.visibility = whole ? "hidden" : "visible";
    if (whole) return;
    ctx.setTransform(1, 0, 0, 1, 0, 0);
    ctx.drawImage(cache, 0, 0);
    const x = -view.x / view.scale * across * ratio, y = -view.y / view.scale * down * ratio;
    const w = view.width / view.scale * across * ratio, h = view.height / view.scale * down * ratio;
    const left = Math.max(x, 1), top = Math.max(y, 1);
    ctx.strokeStyle = look.theme.ink;
    ctx.lineWidth = 1.5 * ratio;
    ctx.strokeRect(left, top, Math.min(x + w, canvas.width - 1) - left, Math.min(y + h, canvas.height - 1) - top);
  }

  function move(e) {
    if (!scene || !(e.buttons & 1)) return;
    const box = canvas.getBoundingClientRect();
    onMove((e.clientX - box.left) / across, (e.clientY - box.top) / down);
    e.preventDefault();
  }
  canvas.addEventListener("pointerdown", (e) => {
    canvas.setPointerCapture(e.pointerId);
    move(e);
  });
  canvas.addEventListener("pointermove", move);
  return { redraw, frame };
}
