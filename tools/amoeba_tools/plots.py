"""Plots by matplotlib: lines over logarithmic axes, points with their fronts.

:func:`save` writes the format of the file's name. SVG follows the reader's colour scheme, light or dark. In a page,
:func:`html_of` puts title and legend around the plot, as text.
"""

import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from amoeba.core.errno import Errno
from amoeba.core.errors import fabric_error
from amoeba_model.extras import installation

__all__ = ["FORMATS", "Mark", "Point", "check", "html_of", "line_plot", "save", "scatter_plot", "svg_of"]

Point = tuple[float, float]

FORMATS = (".pdf", ".png", ".svg")
"""Endings of names of files that :func:`save` writes."""

_SIZE = (10, 35 / 6)
"""Inches; 720 by 420 units of an SVG."""
_SIZE_IN_PAGE = (6, 4.2)
"""Inches: text remains readable where the page is as narrow as a phone."""
_TICKS_IN_PAGE = 6
_COLOURS = ("#3b7dd8", "#e0722f", "#2f9e62", "#b04ac0", "#c9a11a", "#d64545", "#3aa6a6", "#8a7a6a")
_MARKERS = "os^D"
"""Each series has a marker of its own, since some readers cannot tell the colours apart."""
_SIGNS = dict(zip(_MARKERS, "●■▲◆", strict=True))
"""The markers in text."""
_TEXT, _AXIS, _GRID, _BACK = "#24292f", "#57606a", "#d0d7de", "#ffffff"
_DARK = {_TEXT: "#e6edf3", _AXIS: "#8b949e", _GRID: "#30363d", _BACK: "#0d1117"}
_SETTINGS = {
    "svg.fonttype": "none",  # text stays text, for readers and searches
    "svg.hashsalt": "amoeba",  # the same plot is the same file
    "font.size": 13,
    "axes.titlesize": 15,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "lines.linewidth": 2,
    **dict.fromkeys(("text.color", "axes.labelcolor", "xtick.labelcolor", "ytick.labelcolor"), _TEXT),
    **dict.fromkeys(("axes.edgecolor", "xtick.color", "ytick.color"), _AXIS),
    **dict.fromkeys(("figure.facecolor", "axes.facecolor"), _BACK),
    "grid.color": _GRID,
}
_NAMESPACE = "http://www.w3.org/2000/svg"
_PREFIXES = {"": _NAMESPACE, "xlink": "http://www.w3.org/1999/xlink"}


@dataclass(frozen=True)
class Mark:
    """A point of :func:`scatter_plot`."""

    x: float
    y: float
    label: str
    """Shown where the pointer rests on it, and beside it if it is on the front."""
    on_front: bool = False


def line_plot(
    title: str, lines: Mapping[str, Sequence[Point]], *, x_label: str, y_label: str, x_binary: bool = False
) -> Any:
    """Return a matplotlib figure with a line for each name.

    Both axes are logarithmic: every coordinate must be greater than 0. ``x_binary``: ticks are powers of two, with
    units of bytes. Raises ValueError without points, and for a coordinate without logarithm.
    """
    points = [point for line in lines.values() for point in line]
    if not points:
        raise ValueError("expected a point or more, got none")
    for x, y in points:
        if not (x > 0 and y > 0 and math.isfinite(x) and math.isfinite(y)):
            raise ValueError(f"a logarithmic plot has coordinates above 0, got ({x}, {y})")
    with _library().rc_context(_SETTINGS):
        figure, axes = _figure(title, x_label, y_label)
        for number, (name, line) in enumerate(lines.items()):
            axes.plot(*zip(*sorted(line), strict=True), label=name, gid=f"line-{number}", **_look(number))
        axes.set_xscale("log", base=2 if x_binary else 10)
        axes.set_yscale("log", base=10)
        _fit(axes.xaxis, [x for x, _ in points], 2 if x_binary else 10)
        _fit(axes.yaxis, [y for _, y in points], 10)
        if x_binary:
            axes.xaxis.set_major_formatter(lambda number, _: _bytes(number))
        _legend(figure)
    return figure


def scatter_plot(title: str, series: Mapping[str, Sequence[Mark]], *, x_label: str, y_label: str) -> Any:
    """Return a matplotlib figure with a series of points for each name.

    Steps join the points on the front. Both axes are linear. Raises ValueError without points, and for a point that
    is not finite.
    """
    marks = [mark for line in series.values() for mark in line]
    if not marks:
        raise ValueError("expected a point or more, got none")
    for mark in marks:
        if not (math.isfinite(mark.x) and math.isfinite(mark.y)):
            raise ValueError(f"expected finite coordinates, got ({mark.x}, {mark.y})")
    with _library().rc_context(_SETTINGS):
        figure, axes = _figure(title, x_label, y_label)
        figure.hints = []
        for number, (name, line) in enumerate(series.items()):
            _scatter(figure, axes, number, name, line)
        axes.margins(0.1)
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter(lambda number, _: _number(number))
        _legend(figure)
    return figure


def check(path: Path | None = None) -> None:
    """Raise FI_EINVAL for a file name that :func:`save` has no format for, and FI_ENOSYS without matplotlib."""
    _library()
    if path is not None and path.suffix.lower() not in FORMATS:
        raise fabric_error(Errno.FI_EINVAL, f"expected a file name that ends in {', '.join(FORMATS)}; got {path}")


def save(figure: Any, path: Path) -> None:
    """Write a figure in the format of the file's name.

    Raises as :func:`check` does, and OSError if the file cannot be written.
    """
    check(path)
    if path.suffix.lower() == ".svg":
        path.write_text(svg_of(figure))
    else:
        figure.savefig(path, dpi=144)


def svg_of(figure: Any) -> str:
    """Return a figure as the text of an SVG file, which also reads well on dark pages."""
    return _svg(figure, figure.axes[0].get_title("left"))


def html_of(figure: Any) -> str:
    """Return a plot of lines as a part of an HTML page: title and legend are text, so that the plot may be narrow."""
    (axes,) = figure.axes
    title = axes.get_title("left")
    axes.set_title("", loc="left")
    figure.legends.clear()
    figure.set_size_inches(*_SIZE_IN_PAGE)
    axes.xaxis.get_major_locator().set_params(numticks=_TICKS_IN_PAGE)
    names = "".join(
        f'<li><span style="color:{line.get_color()}" aria-hidden="true">{_SIGNS[line.get_marker()]}</span> '
        f"{escape(line.get_label())}</li>"
        for line in axes.get_lines()
    )
    return f"<figure><figcaption>{escape(title)}</figcaption><ul>{names}</ul>{_svg(figure, title)}</figure>"


def _svg(figure: Any, title: str) -> str:
    """Return a figure as the text of an SVG file with this name."""
    with _library().rc_context(_SETTINGS):
        buffer = io.BytesIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    for prefix, name in _PREFIXES.items():
        ElementTree.register_namespace(prefix, name)
    root = ElementTree.fromstring(buffer.getvalue())
    for name in ("width", "height"):
        del root.attrib[name]
    root.attrib |= {"width": f"{figure.get_figwidth() * 72:.0f}", "role": "img", "aria-label": title}
    root.remove(root[0])  # matplotlib's metadata
    parts = {each.get("id"): each for each in root.iter()}
    parts["back"].set("class", "back")
    for name, text in getattr(figure, "hints", ()):
        hint = ElementTree.Element(f"{{{_NAMESPACE}}}title")
        hint.text = text
        parts[name].insert(0, hint)
    style = ElementTree.Element(f"{{{_NAMESPACE}}}style")
    style.text = _style()
    root.insert(0, style)
    return ElementTree.tostring(root, encoding="unicode") + "\n"


def _library() -> Any:
    """Import matplotlib. Raises FI_ENOSYS if it is not installed."""
    try:
        import matplotlib
    except ImportError as error:
        raise fabric_error(
            Errno.FI_ENOSYS, f"plots need matplotlib: {installation('plot')} ({error})"
        ) from error
    return matplotlib


def _figure(title: str, x_label: str, y_label: str) -> tuple[Any, Any]:
    from matplotlib.figure import Figure  # draws without a window
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    figure = Figure(figsize=_SIZE, layout=ConstrainedLayoutEngine(w_pad=0.15, h_pad=0.15))
    figure.patch.set_gid("back")
    axes = figure.add_subplot()
    axes.set_title(title, pad=14, parse_math=False)
    axes.set_xlabel(x_label, parse_math=False)
    axes.set_ylabel(y_label, parse_math=False)
    return figure, axes


def _legend(figure: Any) -> None:
    for text in figure.legend(loc="outside right upper").get_texts():
        text.set_parse_math(False)


def _look(number: int) -> dict[str, Any]:
    return {"color": _COLOURS[number % len(_COLOURS)], "marker": _MARKERS[number % len(_MARKERS)], "markersize": 7}


def _fit(axis: Any, numbers: Sequence[float], base: int) -> None:
    """Fit a logarithmic axis to its numbers. A short axis has several labelled ticks in each decade."""
    from matplotlib.ticker import LogLocator, NullLocator

    low, high = min(numbers), max(numbers)
    margin = (high / low) ** 0.06 if high > low else base**0.5
    factors = (1, 2, 3, 5, 7) if high / low < 20 else (1, 2, 5) if high / low < 500 else (1,)
    axis.set_view_interval(low / margin, high * margin, ignore=True)
    axis.set_major_locator(LogLocator(base, subs=factors if base == 10 else (1,), numticks=12))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(lambda number, _: _number(number))


def _scatter(figure: Any, axes: Any, number: int, name: str, marks: Sequence[Mark]) -> None:
    look = _look(number)
    axes.plot([], [], label=name, linestyle="none", **look)
    front = sorted((mark.x, mark.y) for mark in marks if mark.on_front)
    if front:  # between two points, the left one is the best
        axes.step(*zip(*front, strict=True), where="post", color=look["color"], linewidth=1.5, gid=f"front-{number}")
    for place, mark in enumerate(marks):
        gid = f"mark-{number}-{place}"
        axes.plot(mark.x, mark.y, alpha=None if mark.on_front else 0.45, gid=gid, **look)
        figure.hints.append((gid, mark.label))
        if mark.on_front:
            axes.annotate(mark.label, (mark.x, mark.y), (6, 6), textcoords="offset points", fontsize=11,
                          parse_math=False)  # fmt: skip


def _style() -> str:
    """Return the style sheet that exchanges colours on dark pages."""
    rules = [
        f'[style*="{what}: {light}"]{{{what}:{dark} !important}}'
        for light, dark in _DARK.items()
        for what in ("fill", "stroke")
    ]
    dark = "".join([*rules, f"text{{fill:{_DARK[_TEXT]} !important}}.back{{fill:{_DARK[_BACK]}}}"])
    return f"text{{fill:{_TEXT}}}.back{{fill:{_BACK}}}@media(prefers-color-scheme:dark){{{dark}}}"


def _bytes(number: float) -> str:
    for unit, size in (("MiB", 1 << 20), ("KiB", 1 << 10)):
        if number >= size:
            return f"{number / size:g} {unit}"
    return f"{number:g}"


def _number(number: float) -> str:
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(number) >= size:
            return f"{number / size:g}{unit}"
    return f"{number:g}"
