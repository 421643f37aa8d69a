"""Panels of curves on logarithmic axes as SVG: measured points, the fit as a line, points that are off the fit hollow."""
import math

WIDTH, HEIGHT, LEFT, TOP, COLUMNS = 520, 360, 60, 40, 2
COLOURS = ("#1b6ca8", "#c8553d", "#3a7d44", "#7b4fa3", "#b8860b", "#00838f", "#8d3b72", "#555555", "#d4a017", "#2f4f4f")


def svg(panels):
    """The text of a figure; a panel is (title, x axis, y axis, curves), a curve (name, points (x, y, off), function of the fit)."""
    rows = -(-len(panels) // COLUMNS)
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {COLUMNS * WIDTH} {rows * HEIGHT}" font-family="sans-serif" '
             'font-size="12">',
             '<rect width="100%" height="100%" fill="white"/>']
    for i, p in enumerate(panels):
        parts += [f'<g transform="translate({i % COLUMNS * WIDTH} {i // COLUMNS * HEIGHT})">', *panel(*p), "</g>"]
    return "\n".join([*parts, "</svg>", ""])


def panel(title, across, up, curves):
    inner, tall = WIDTH - LEFT - 140, HEIGHT - TOP - 50
    xs = [p[0] for _, points, _ in curves for p in points]
    ys = [p[1] for _, points, _ in curves for p in points]
    x0, x1, y0, y1 = (math.log2(v) for v in (min(xs), max(xs), min(ys) / 1.3, max(ys) * 1.3))
    x = lambda v: LEFT + (math.log2(v) - x0) / (x1 - x0) * inner
    y = lambda v: TOP + tall - (math.log2(v) - y0) / (y1 - y0) * tall
    yield f'<text x="{LEFT}" y="20" font-weight="bold">{title}</text>'
    yield f'<rect x="{LEFT}" y="{TOP}" width="{inner}" height="{tall}" fill="none" stroke="#999"/>'
    yield f'<text x="{LEFT + inner / 2}" y="{TOP + tall + 38}" text-anchor="middle">{across}</text>'
    yield f'<text transform="translate(14 {TOP + tall / 2}) rotate(-90)" text-anchor="middle">{up}</text>'
    for v in sorted(set(xs)):
        yield f'<text x="{x(v):.0f}" y="{TOP + tall + 16}" text-anchor="middle" fill="#555">{v:g}</text>'
    for e in range(math.ceil(y0 / math.log2(10)), math.floor(y1 / math.log2(10)) + 1):
        yield f'<path d="M{LEFT} {y(10**e):.1f}h{inner}" stroke="#ddd"/>'
        yield f'<text x="{LEFT - 5}" y="{y(10**e) + 4:.0f}" text-anchor="end" fill="#555">{10.0**e:g}</text>'
    ends = []  # names beside the last points, apart from each other
    for k, (name, points, fit) in enumerate(curves):
        colour, steps = COLOURS[k % len(COLOURS)], [2 ** (x0 + (x1 - x0) * s / 40) for s in range(41)]
        line = " ".join(f"{x(v):.1f},{y(fit(v)):.1f}" for v in steps if y0 <= math.log2(fit(v)) <= y1)
        yield f'<polyline points="{line}" fill="none" stroke="{colour}"/>'
        for a, b, off in points:
            yield f'<circle cx="{x(a):.1f}" cy="{y(b):.1f}" r="3" stroke="{colour}" fill="{"white" if off else colour}"/>'
        ends.append((y(points[-1][1]), name, colour))
    low = -math.inf
    for at, name, colour in sorted(ends):
        low = max(low + 14, at)
        yield f'<text x="{LEFT + inner + 8}" y="{low + 4:.0f}" fill="{colour}">{name}</text>'
