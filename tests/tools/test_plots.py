"""Plots: well-formed SVG whose points lie where the numbers say."""

import re
import xml.etree.ElementTree as ElementTree

import pytest
from amoeba_tools.plots import Mark, line_plot, scatter_plot

SVG = "{http://www.w3.org/2000/svg}"
LINES = {"write <8>": [(8, 1.0), (4096, 100.0), (1 << 20, 1000.0)], "read": [(8, 10.0), (1 << 20, 10.0)]}


def plotted(**fields):
    return ElementTree.fromstring(line_plot("Rate & size", LINES, x_label="bytes", y_label="MB/s", **fields))


def points(root):
    return [[tuple(map(float, pair.split(","))) for pair in line.get("points").split()]
            for line in root.iter(f"{SVG}polyline")]  # fmt: skip


def test_a_plot_names_everything():
    texts = [text.text for text in plotted(x_binary=True).iter(f"{SVG}text")]
    assert {"Rate & size", "bytes", "MB/s", "write <8>", "read", "4 KiB", "1 MiB", "1k"} <= set(texts)


def test_points_lie_as_logarithms_have_them():
    rising, level = points(plotted(x_binary=True))
    assert level[0][1] == level[1][1]
    (x0, y0), (x1, y1), (x2, y2) = rising
    assert (x1 - x0) / (x2 - x0) == pytest.approx(9 / 17, abs=0.01)  # 2**3, 2**12, 2**20
    assert (y0 - y1) / (y0 - y2) == pytest.approx(2 / 3, abs=0.01)
    assert level[0][0] == x0
    assert level[0][1] == pytest.approx(y0 - (y0 - y2) / 3, abs=1)


def test_points_are_sorted_and_single_ones_are_shown():
    root = ElementTree.fromstring(line_plot("", {"a": [(4, 2), (1, 1)], "b": [(3, 3)]}, x_label="", y_label=""))
    first, second = points(root)
    assert first == sorted(first)
    assert len(second) == 1
    assert len(list(root.iter(f"{SVG}circle"))) == 3  # two points, and the legend's


def test_all_lies_within_the_picture():
    for line in points(plotted()):
        assert all(0 < x < 720 and 0 < y < 420 for x, y in line)


def test_a_plot_is_readable_on_dark_pages():
    assert "prefers-color-scheme:dark" in line_plot("", {"a": [(1, 1)]}, x_label="", y_label="")


@pytest.mark.parametrize("lines", [{}, {"a": []}, {"a": [(0, 1)]}, {"a": [(1, -1)]}, {"a": [(1, float("inf"))]}])
def test_what_has_no_logarithm_is_refused(lines):
    with pytest.raises(ValueError, match=r"expected a point|coordinates above 0"):
        line_plot("", lines, x_label="", y_label="")


def test_names_cannot_end_the_markup():
    text = line_plot("<script>", {"</svg>": [(1, 1)]}, x_label='"', y_label="&")
    assert "<script>" not in text
    assert len(re.findall("</svg>", text)) == 1


def test_scattered_points_lie_on_linear_axes_with_round_ends():
    marks = [Mark(1000, 7, "one", True), Mark(3000, 2, "two", True), Mark(2000, 7, "three")]
    root = ElementTree.fromstring(scatter_plot("T", {"gups & more": marks}, x_label="luts", y_label="cycles"))
    texts = [text.text for text in root.iter(f"{SVG}text")]
    assert {"T", "luts", "cycles", "gups & more", "one", "two", "1k", "3k", "2", "7"} <= set(texts)
    assert "three" not in texts, "what is not on the front has its label where the pointer rests"
    (front,) = points(root)
    first, corner, last = front
    assert corner == (last[0], first[1])
    places = [float(circle.get("cx")) for circle in root.iter(f"{SVG}circle")][:3]
    assert (places[2] - places[0]) / (places[1] - places[0]) == pytest.approx(0.5, abs=0.01)


def test_a_single_point_and_a_level_line_can_be_scattered():
    for marks in ([Mark(0, 0, "origin", True)], [Mark(1, 5, "a"), Mark(2, 5, "b")]):
        root = ElementTree.fromstring(scatter_plot("", {"x": marks}, x_label="", y_label=""))
        assert len(list(root.iter(f"{SVG}title"))) == len(marks)


@pytest.mark.parametrize("marks", [[], [Mark(float("nan"), 1, "")], [Mark(1, float("inf"), "")]])
def test_what_cannot_be_scattered_is_refused(marks):
    with pytest.raises(ValueError, match="expected"):
        scatter_plot("", {"x": marks}, x_label="", y_label="")
