"""Plots as SVG: lines over logarithmic axes, points with their fronts.

The plots are readable on light and dark pages, and need no other library.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

__all__ = ["Mark", "Point", "line_plot", "scatter_plot"]

Point = tuple[float, float]

_WIDTH, _HEIGHT = 720, 420
_LEFT, _RIGHT, _TOP, _BOTTOM = 76, 180, 44, 52
_LEGEND, _CHARACTER = 36, 7.5
"""Width of a legend's line without its name, and of each character of the name, in a wide font."""
_COLOURS = ("#3b7dd8", "#e0722f", "#2f9e62", "#b04ac0", "#c9a11a", "#d64545", "#3aa6a6", "#8a7a6a")
_MARKERS = 4
_STYLE = (
    "text{font:13px sans-serif;fill:#24292f}.axis{stroke:#57606a}.grid{stroke:#d0d7de;stroke-width:.6}"
    ".back{fill:#ffffff}.label{font-size:11px}.title{font-size:15px;font-weight:600}"
    "@media(prefers-color-scheme:dark){text{fill:#e6edf3}.axis{stroke:#8b949e}.grid{stroke:#30363d}"
    ".back{fill:#0d1117}}"
)


def line_plot(
    title: str, lines: Mapping[str, Sequence[Point]], *, x_label: str, y_label: str, x_binary: bool = False
) -> str:
    """Return a plot with a line for each name, as the text of an SVG file.

    Both axes are logarithmic: every coordinate must be greater than 0. ``x_binary``: ticks are powers of two, with
    units of bytes. Raises ValueError without points, and for a coordinate without logarithm.
    """
    points = [point for line in lines.values() for point in line]
    if not points:
        raise ValueError("expected a point or more, got none")
    for x, y in points:
        if not (x > 0 and y > 0 and math.isfinite(x) and math.isfinite(y)):
            raise ValueError(f"a logarithmic plot has coordinates above 0, got ({x}, {y})")
    across = _Axis([x for x, _ in points], 2 if x_binary else 10, _LEFT, _WIDTH - _RIGHT)
    up = _Axis([y for _, y in points], 10, _HEIGHT - _BOTTOM, _TOP)
    parts = _frame(title, across, up, x_label, y_label, x_binary)
    for number, (name, line) in enumerate(lines.items()):
        parts += _line(number, name, line, across, up)
    return "\n".join([*parts, "</svg>", ""])


@dataclass(frozen=True)
class Mark:
    """A point of :func:`scatter_plot`."""

    x: float
    y: float
    label: str
    """Shown where the pointer rests on it, and beside it if it is on the front."""
    on_front: bool = False


def scatter_plot(title: str, series: Mapping[str, Sequence[Mark]], *, x_label: str, y_label: str) -> str:
    """Return a plot with a series of points for each name, as the text of an SVG file.

    Steps join the points on the front. Both axes are linear. Raises ValueError without points, and for a point that
    is not finite.
    """
    marks = [mark for line in series.values() for mark in line]
    if not marks:
        raise ValueError("expected a point or more, got none")
    for mark in marks:
        if not (math.isfinite(mark.x) and math.isfinite(mark.y)):
            raise ValueError(f"expected finite coordinates, got ({mark.x}, {mark.y})")
    across = _LinearAxis([mark.x for mark in marks], _LEFT, _WIDTH - _RIGHT)
    up = _LinearAxis([mark.y for mark in marks], _HEIGHT - _BOTTOM, _TOP)
    longest = max(map(len, series))
    width = max(_WIDTH, _WIDTH - _RIGHT + _LEGEND + _CHARACTER * longest)
    parts = _frame(title, across, up, x_label, y_label, False, width)
    for number, (name, line) in enumerate(series.items()):
        parts += _scattered(number, name, line, across, up)
    return "\n".join([*parts, "</svg>", ""])


def _scattered(number: int, name: str, marks: Sequence[Mark], across: "_LinearAxis", up: "_LinearAxis") -> list[str]:
    colour = _COLOURS[number % len(_COLOURS)]
    front = sorted((across.place(mark.x), up.place(mark.y)) for mark in marks if mark.on_front)
    steps = front[:1]
    for x, y in front[1:]:
        steps += [(x, steps[-1][1]), (x, y)]  # what is promised between two points is no better than the left one
    parts = []
    if steps:
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in steps)
        parts.append(f'<polyline fill="none" stroke="{colour}" stroke-width="1.5" points="{path}"/>')
    for mark in marks:
        x, y = across.place(mark.x), up.place(mark.y)
        opacity = "" if mark.on_front else ' opacity=".45"'
        parts.append(f"<g{opacity}><title>{escape(mark.label)}</title>{_marker(number, x, y, colour)}</g>")
        if mark.on_front:
            parts.append(f'<text class="label" x="{x + 7:.1f}" y="{y - 6:.1f}">{escape(mark.label)}</text>')
    return [*parts, *_legend(number, name, colour)]


class _LinearAxis:
    """Map from numbers to places between ``begin`` and ``end``, with round numbers at both ends."""

    def __init__(self, numbers: Sequence[float], begin: float, end: float) -> None:
        low, high = min(numbers), max(numbers)
        span = high - low or abs(high) or 1.0
        power = 10.0 ** math.floor(math.log10(span / 4))
        self.step = next(factor * power for factor in (1, 2, 5, 10) if span / (factor * power) <= 6)
        self.low = math.floor(low / self.step) - (low == high)
        self.high = max(math.ceil(high / self.step), self.low + 1)
        self.begin, self.end = begin, end

    def place(self, number: float) -> float:
        part = (number / self.step - self.low) / (self.high - self.low)
        return self.begin + part * (self.end - self.begin)

    @property
    def ticks(self) -> list[float]:
        """Return at most nine ticks."""
        return [round(count * self.step, 10) for count in range(self.low, self.high + 1)]


class _Axis:
    """Map from numbers to places between ``begin`` and ``end``."""

    def __init__(self, numbers: Sequence[float], base: int, begin: float, end: float) -> None:
        self.base = base
        self.low = math.floor(math.log(min(numbers), base) + 1e-9)
        self.high = max(math.ceil(math.log(max(numbers), base) - 1e-9), self.low + 1)
        self.begin, self.end = begin, end

    def place(self, number: float) -> float:
        part = (math.log(number, self.base) - self.low) / (self.high - self.low)
        return self.begin + part * (self.end - self.begin)

    @property
    def ticks(self) -> list[float]:
        """Return at most a dozen of the base's powers."""
        step = max(1, math.ceil((self.high - self.low) / 11))
        return [float(self.base) ** power for power in range(self.low + -self.low % step, self.high + 1, step)]


def _frame(
    title: str,
    across: "_Axis | _LinearAxis",
    up: "_Axis | _LinearAxis",
    x_label: str,
    y_label: str,
    x_binary: bool,
    width: float = _WIDTH,
) -> list[str]:
    """Return the begin of the file: all but lines and points."""
    middle, half = (_LEFT + _WIDTH - _RIGHT) / 2, (_TOP + _HEIGHT - _BOTTOM) / 2
    return [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {_HEIGHT}" role="img" '
        f'aria-label="{escape(title)}">',
        f"<style>{_STYLE}</style>",
        f'<rect class="back" width="{width}" height="{_HEIGHT}"/>',
        f'<text class="title" x="{_LEFT}" y="24">{escape(title)}</text>',
        *_grid(across, up, x_binary),
        f'<text x="{middle:.0f}" y="{_HEIGHT - 12}" text-anchor="middle">{escape(x_label)}</text>',
        f'<text transform="translate(18 {half:.0f}) rotate(-90)" text-anchor="middle">{escape(y_label)}</text>',
    ]


def _grid(across: "_Axis | _LinearAxis", up: "_Axis | _LinearAxis", in_bytes: bool) -> list[str]:
    parts = []
    for tick in across.ticks:
        x = across.place(tick)
        parts.append(f'<line class="grid" x1="{x:.1f}" y1="{up.begin}" x2="{x:.1f}" y2="{up.end}"/>')
        label = _bytes(tick) if in_bytes else _number(tick)
        parts.append(f'<text x="{x:.1f}" y="{up.begin + 18}" text-anchor="middle">{label}</text>')
    for tick in up.ticks:
        y = up.place(tick)
        parts.append(f'<line class="grid" x1="{across.begin}" y1="{y:.1f}" x2="{across.end}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{across.begin - 8}" y="{y + 4:.1f}" text-anchor="end">{_number(tick)}</text>')
    parts.append(f'<line class="axis" x1="{across.begin}" y1="{up.begin}" x2="{across.end}" y2="{up.begin}"/>')
    parts.append(f'<line class="axis" x1="{across.begin}" y1="{up.begin}" x2="{across.begin}" y2="{up.end}"/>')
    return parts


def _line(number: int, name: str, line: Sequence[Point], across: _Axis, up: _Axis) -> list[str]:
    colour = _COLOURS[number % len(_COLOURS)]
    places = [(across.place(x), up.place(y)) for x, y in sorted(line)]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    parts = [f'<polyline fill="none" stroke="{colour}" stroke-width="2" points="{path}"/>']
    marks = [_marker(number, x, y, colour) for x, y in places]
    return [*parts, *marks, *_legend(number, name, colour)]


def _legend(number: int, name: str, colour: str) -> list[str]:
    height = _TOP + 14 + 20 * number
    left = _WIDTH - _RIGHT + 16
    return [
        _marker(number, left, height, colour),
        f'<text x="{left + 12}" y="{height + 4}">{escape(name)}</text>',
    ]


def _marker(number: int, x: float, y: float, colour: str) -> str:
    """Return a marker of the series' own shape, since some readers cannot tell the colours apart."""
    shape = number % _MARKERS
    if shape == 0:
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}"/>'
    if shape == 1:
        return f'<rect x="{x - 4:.1f}" y="{y - 4:.1f}" width="8" height="8" fill="{colour}"/>'
    corners = ((0, -5), (5, 4), (-5, 4)) if shape == 2 else ((0, -5), (5, 0), (0, 5), (-5, 0))
    path = " ".join(f"{x + right:.1f},{y + down:.1f}" for right, down in corners)
    return f'<polygon points="{path}" fill="{colour}"/>'


def _bytes(number: float) -> str:
    for unit, size in (("MiB", 1 << 20), ("KiB", 1 << 10)):
        if number >= size:
            return f"{number / size:g} {unit}"
    return f"{number:g}"


def _number(number: float) -> str:
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if number >= size:
            return f"{number / size:g}{unit}"
    return f"{number:g}"
