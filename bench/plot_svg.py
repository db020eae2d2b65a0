"""plot_svg - lines over logarithmic axes, as an SVG that needs nothing else.

No fonts, scripts or files from elsewhere. Colours are readable on white and
apart for the colour-blind; every line has a marker of its own besides.
"""
import math
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 760, 420
LEFT, RIGHT, TOP, BOTTOM = 70, 190, 36, 48
COLOURS = ["#0072b2", "#009e73", "#e69f00", "#d55e00", "#cc79a7", "#555555",
           "#56b4e9", "#000000", "#9a8c00"]


def _marker(kind, x, y, colour):
    if kind % 4 == 0:
        return '<circle cx="%.1f" cy="%.1f" r="3" fill="%s"/>' % (x, y, colour)
    if kind % 4 == 1:
        return '<rect x="%.1f" y="%.1f" width="5.6" height="5.6" fill="%s"/>' \
            % (x - 2.8, y - 2.8, colour)
    points = [(0, -3.8), (3.5, 2.8), (-3.5, 2.8)] if kind % 4 == 2 else \
        [(0, -4), (4, 0), (0, 4), (-4, 0)]
    return '<polygon points="%s" fill="%s"/>' % (
        " ".join("%.1f,%.1f" % (x + dx, y + dy) for dx, dy in points), colour)


def _text(x, y, text, anchor="middle", size=12, extra=""):
    return '<text x="%.1f" y="%.1f" text-anchor="%s" font-size="%d" %s>%s' \
        '</text>' % (x, y, anchor, size, extra, escape(text))


def time_label(us):
    """A power of ten of microseconds, in words."""
    for unit, factor in (("s", 1e6), ("ms", 1e3), ("µs", 1)):
        if us >= factor:
            return "%g %s" % (us / factor, unit)
    return "%g ns" % (us * 1000)


def lines(title, series, size_label):
    """series: list of (name, {size in bytes: us}, dashed). The SVG's text, or
    None if there is nothing to draw."""
    values = [us for _, points, _ in series for us in points.values()]
    sizes = sorted({size for _, points, _ in series for size in points})
    if not values:
        return None
    low = math.floor(math.log10(min(values)))
    high = max(math.ceil(math.log10(max(values))), low + 1)
    first, last = math.log(sizes[0]), math.log(max(sizes[-1], sizes[0] * 2))

    def x_of(size):
        return LEFT + (math.log(size) - first) / (last - first) \
            * (WIDTH - LEFT - RIGHT)

    def y_of(us):
        return HEIGHT - BOTTOM - (math.log10(us) - low) / (high - low) \
            * (HEIGHT - TOP - BOTTOM)

    out = ['<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" '
           'width="%d" height="%d" font-family="sans-serif" fill="#222">'
           % (WIDTH, HEIGHT, WIDTH, HEIGHT),
           '<rect width="%d" height="%d" fill="#fff"/>' % (WIDTH, HEIGHT),
           _text(LEFT, 20, title, "start", 14, 'font-weight="bold"')]
    for exponent in range(low, high + 1):
        y = y_of(10.0 ** exponent)
        out.append('<line x1="%d" y1="%.1f" x2="%d" y2="%.1f" '
                   'stroke="#ddd"/>' % (LEFT, y, WIDTH - RIGHT, y))
        out.append(_text(LEFT - 6, y + 4, time_label(10.0 ** exponent), "end",
                         11))
    beyond = -math.inf
    for size in sizes:
        x = x_of(size)
        out.append('<line x1="%.1f" y1="%d" x2="%.1f" y2="%d" '
                   'stroke="#eee"/>' % (x, TOP, x, HEIGHT - BOTTOM))
        if x - beyond >= 30:
            out.append(_text(x, HEIGHT - BOTTOM + 16, size_label(size), size=10))
            beyond = x
    out.append('<rect x="%d" y="%d" width="%d" height="%d" fill="none" '
               'stroke="#888"/>' % (LEFT, TOP, WIDTH - LEFT - RIGHT,
                                    HEIGHT - TOP - BOTTOM))
    out.append(_text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 10,
                     "size, bytes (logarithmic)"))
    out.append(_text(0, 0, "time of a call (logarithmic)", extra='transform='
                     '"translate(14 %.0f) rotate(-90)"'
                     % ((TOP + HEIGHT - BOTTOM) / 2)))
    for i, (name, points, dashed) in enumerate(series):
        colour = COLOURS[i % len(COLOURS)]
        places = [(x_of(size), y_of(us)) for size, us in
                  sorted(points.items())]
        dash = ' stroke-dasharray="5 4"' if dashed else ""
        out.append('<polyline points="%s" fill="none" stroke="%s" '
                   'stroke-width="1.8"%s/>' % (
                       " ".join("%.1f,%.1f" % place for place in places),
                       colour, dash))
        out += [_marker(i, x, y, colour) for x, y in places]
        y = TOP + 12 + 20 * i
        x = WIDTH - RIGHT + 14
        out.append('<line x1="%d" y1="%d" x2="%d" y2="%d" stroke="%s" '
                   'stroke-width="1.8"%s/>' % (x, y, x + 24, y, colour, dash))
        out.append(_marker(i, x + 12, y, colour))
        out.append(_text(x + 30, y + 4, name, "start"))
    return "\n".join(out) + "\n</svg>\n"
