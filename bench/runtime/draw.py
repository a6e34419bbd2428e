"""Line charts as SVG, in the book's style: measurements, the published claim, and the statement beside them."""

from __future__ import annotations

import math
import textwrap
from html import escape

from figures import FIGURES, Figure

COLOURS = ["#0072b2", "#c05000", "#00805d", "#b0558a", "#7a6200", "#5b5bd6"]
STYLE = """<style>
.hb text{font-family:ui-sans-serif,system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif;font-variant-numeric:tabular-nums;fill:#1b1f24}
.hb .t1{font-size:17px;font-weight:650;letter-spacing:-.01em}
.hb .t2{font-size:12px}
.hb .t3{font-size:11px}
.hb .axis{fill:#57606a}
.hb .grid{stroke:#e1e5ea;stroke-width:1}
.hb .line{fill:none;stroke-width:1.8;stroke-linejoin:round}
.hb .range{stroke-width:1;opacity:.45}
</style>"""
LEFT, TOP, WIDTH, HEIGHT, SIDE = 62, 56, 400, 250, 290
Point = tuple[float, float, float, float]  # x, y, low, high


def size_text(value: float) -> str:
    """8, 4k, 1M: powers of two."""
    for unit, factor in (("M", 2**20), ("k", 2**10)):
        if value >= factor and value % factor == 0:
            return f"{value / factor:g}{unit}"
    return f"{value:g}"


def ticks(low: float, high: float) -> list[float]:
    """Powers of ten, or 1-2-5 steps where there are few of them."""
    found = []
    for exponent in range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 1):
        found += [m * 10.0**exponent for m in (1, 2, 5)]
    inside = [t for t in found if low <= t <= high]
    powers = [t for t in inside if math.isclose(math.log10(t), round(math.log10(t)), abs_tol=1e-9)]
    return powers if len(powers) > 3 else inside


def number(value: float) -> str:
    """Short text of a tick."""
    return f"{value:g}" if 1e-4 <= value < 1e5 else f"{value:.0e}"


class Panel:
    """One chart with its texts; `words` are the values of x that are no numbers."""

    def __init__(self, figure: Figure, series: dict[str, list[Point]], words: list[str], at: int) -> None:
        self.figure, self.series, self.words, self.top = figure, series, words, at
        points = [p for line in series.values() for p in line]
        self.low = min(p[2] for p in points)
        self.high = max(p[3] for p in points)
        if not figure.logarithmic:
            self.low, self.high = min(self.low, 0.9), max(self.high, 1.1)
        margin = (self.high / self.low) ** 0.06
        self.low, self.high = self.low / margin, self.high * margin
        self.first, self.last = min(p[0] for p in points), max(p[0] for p in points)

    def x(self, value: float) -> float:
        """Place of a value, logarithmic unless it is the number of a word."""
        if self.first == self.last:
            return LEFT + WIDTH / 2
        if self.words:
            return LEFT + WIDTH * (value - self.first + 0.5) / (self.last - self.first + 1)
        return LEFT + WIDTH * math.log(value / self.first) / math.log(self.last / self.first)

    def y(self, value: float) -> float:
        """Place of a value, logarithmic."""
        return self.top + TOP + HEIGHT * (1 - math.log(value / self.low) / math.log(self.high / self.low))

    def frame(self) -> list[str]:
        """Grid, ticks and titles."""
        bottom = self.top + TOP + HEIGHT
        out = []
        for tick in ticks(self.low, self.high):
            at = self.y(tick)
            out.append(f'<path class="grid" d="M{LEFT} {at:.1f}h{WIDTH}"/>')
            out.append(f'<text class="t3 axis" x="{LEFT - 6}" y="{at + 4:.1f}" text-anchor="end">{number(tick)}</text>')
        values = sorted({p[0] for line in self.series.values() for p in line})
        for value in values if len(values) <= 9 else values[:: len(values) // 7]:
            text = self.words[int(value)] if self.words else size_text(value)
            out.append(f'<text class="t3 axis" x="{self.x(value):.1f}" y="{bottom + 16}" text-anchor="middle">{text}</text>')
        out.append(f'<text class="t3 axis" x="{LEFT + WIDTH / 2}" y="{bottom + 33}" text-anchor="middle">{self.figure.x}</text>')
        better = "lower is better" if self.figure.lower_is_better else "higher is better"
        out.append(f'<text class="t3 axis" x="{LEFT - 50}" y="{self.top + 46}">{self.figure.y} ({better})</text>')
        return out

    def texts(self, name: str, cores: int) -> list[str]:
        """Title, legend, claim and statement."""
        out = [f'<text class="t1" x="12" y="{self.top + 24}">Fig. {name}: {escape(self.figure.title)}</text>']
        at, left = self.top + TOP + 6, LEFT + WIDTH + 24
        for (label, _), colour in zip(self.series.items(), COLOURS, strict=False):
            out.append(f'<path d="M{left} {at - 4}h18" stroke="{colour}" stroke-width="3"/>')
            out.append(f'<text class="t2" x="{left + 24}" y="{at}">{escape(label)}</text>')
            at += 18
        for head, text in (("Published: ", self.figure.published), ("Here: ", self.figure.shown.format(cores=cores))):
            at += 10
            for line in textwrap.wrap(head + text, 46):
                out.append(f'<text class="t3" x="{left}" y="{at}">{escape(line)}</text>')
                at += 15
        return out

    def lines(self) -> list[str]:
        """A line for each series, with the range of the trials."""
        out = []
        if not self.figure.logarithmic:
            out.append(f'<path d="M{LEFT} {self.y(1):.1f}h{WIDTH}" stroke="#57606a" stroke-dasharray="4 3"/>')
        for line, colour in zip(self.series.values(), COLOURS, strict=False):
            path = " ".join(f"{self.x(x):.1f},{self.y(y):.1f}" for x, y, _, _ in line)
            out.append(f'<polyline class="line" stroke="{colour}" points="{path}"/>')
            for x, y, low, high in line:
                out.append(f'<path class="range" stroke="{colour}" d="M{self.x(x):.1f} {self.y(low):.1f}V{self.y(high):.1f}"/>')
                out.append(f'<circle cx="{self.x(x):.1f}" cy="{self.y(y):.1f}" r="2.6" fill="{colour}"/>')
        return out


def picture(names: list[str], figures: dict[str, dict], cores: int) -> str:
    """The SVG of the panels that were measured, one below the other."""
    out, at = [], 0
    for name in names:
        measured = figures[name]
        series = {s: [tuple(p) for p in points] for s, points in measured["series"].items()}
        panel = Panel(FIGURES[name], series, measured.get("words", []), at)
        out += panel.frame() + panel.lines() + panel.texts(name, cores)
        at += TOP + HEIGHT + 48
    width = LEFT + WIDTH + 24 + SIDE
    head = f'<svg xmlns="http://www.w3.org/2000/svg" class="hb" viewBox="0 0 {width} {at}" width="{width}" height="{at}" role="img">'
    title = f"<title>Paper 004, Fig. {', '.join(names)}</title>"
    ground = f'<rect class="ground" width="{width}" height="{at}" fill="#fff"/>'
    return "\n".join([head, title, STYLE, ground, *out, "</svg>"]) + "\n"
