"""Plots as SVG: lines over a logarithmic axis, readable on light and dark pages, made without any other library."""

import math
from collections.abc import Mapping, Sequence
from html import escape

__all__ = ["Point", "line_plot"]

Point = tuple[float, float]

_WIDTH, _HEIGHT = 720, 420
_LEFT, _RIGHT, _TOP, _BOTTOM = 76, 180, 44, 52
_COLOURS = ("#3b7dd8", "#e0722f", "#2f9e62", "#b04ac0", "#c9a11a", "#d64545", "#3aa6a6", "#8a7a6a")
_MARKERS = 4
_STYLE = (
    "text{font:13px sans-serif;fill:#24292f}.axis{stroke:#57606a}.grid{stroke:#d0d7de;stroke-width:.6}"
    ".back{fill:#ffffff}.title{font-size:15px;font-weight:600}"
    "@media(prefers-color-scheme:dark){text{fill:#e6edf3}.axis{stroke:#8b949e}.grid{stroke:#30363d}"
    ".back{fill:#0d1117}}"
)


def line_plot(
    title: str, lines: Mapping[str, Sequence[Point]], *, x_label: str, y_label: str, x_in_bytes: bool = False
) -> str:
    """A plot with a line for each name, as the text of an SVG file.

    Both axes are logarithmic: every coordinate has to be greater than 0. ``x_in_bytes``: ticks are powers of two,
    with units. Raises ValueError if there is no point, or one that a logarithm does not have.
    """
    points = [point for line in lines.values() for point in line]
    if not points:
        raise ValueError("expected a point or more, got none")
    for x, y in points:
        if not (x > 0 and y > 0 and math.isfinite(x) and math.isfinite(y)):
            raise ValueError(f"a logarithmic plot has coordinates above 0, got ({x}, {y})")
    across = _Axis([x for x, _ in points], 2 if x_in_bytes else 10, _LEFT, _WIDTH - _RIGHT)
    up = _Axis([y for _, y in points], 10, _HEIGHT - _BOTTOM, _TOP)
    middle, half = (_LEFT + _WIDTH - _RIGHT) / 2, (_TOP + _HEIGHT - _BOTTOM) / 2
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
        f'aria-label="{escape(title)}">',
        f"<style>{_STYLE}</style>",
        f'<rect class="back" width="{_WIDTH}" height="{_HEIGHT}"/>',
        f'<text class="title" x="{_LEFT}" y="24">{escape(title)}</text>',
        *_grid(across, up, x_in_bytes),
        f'<text x="{middle:.0f}" y="{_HEIGHT - 12}" text-anchor="middle">{escape(x_label)}</text>',
        f'<text transform="translate(18 {half:.0f}) rotate(-90)" text-anchor="middle">{escape(y_label)}</text>',
    ]
    for number, (name, line) in enumerate(lines.items()):
        parts += _line(number, name, line, across, up)
    return "\n".join([*parts, "</svg>", ""])


class _Axis:
    """From numbers to places between ``begin`` and ``end``."""

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
        """At most a dozen of the base's powers."""
        step = max(1, math.ceil((self.high - self.low) / 11))
        return [float(self.base) ** power for power in range(self.low + -self.low % step, self.high + 1, step)]


def _grid(across: _Axis, up: _Axis, in_bytes: bool) -> list[str]:
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
    height = _TOP + 14 + 20 * number
    legend = _WIDTH - _RIGHT + 16
    parts += [*marks, _marker(number, legend, height, colour)]
    parts.append(f'<text x="{legend + 12}" y="{height + 4}">{escape(name)}</text>')
    return parts


def _marker(number: int, x: float, y: float, colour: str) -> str:
    """Lines differ by shape, too: not everybody tells the colours apart."""
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
