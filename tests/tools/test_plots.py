"""Plots: well-formed SVG whose points lie where the numbers say."""

import re
import sys
import xml.etree.ElementTree as ElementTree

import pytest
from amoeba import FabricError
from amoeba_tools.plots import FORMATS, Mark, line_plot, save, scatter_plot, svg_of

from tests.support.drawings import SVG, lines_of

LINES = {"write <8>": [(8, 1.0), (4096, 100.0), (1 << 20, 1000.0)], "read": [(8, 10.0), (1 << 20, 10.0)]}


def plotted(**fields):
    return svg_of(line_plot("Rate & size", LINES, x_label="bytes", y_label="MB/s", **fields))


def texts_of(text):
    return {each.text for each in ElementTree.fromstring(text).iter(f"{SVG}text")}


def test_a_plot_names_everything():
    texts = texts_of(plotted(x_binary=True))
    assert {"Rate & size", "bytes", "MB/s", "write <8>", "read", "4 KiB", "1 MiB", "1k"} <= texts


def test_points_lie_as_logarithms_have_them():
    rising, level = lines_of(plotted(x_binary=True), "line")
    assert level[0][1] == level[1][1]
    (x0, y0), (x1, y1), (x2, y2) = rising
    assert (x1 - x0) / (x2 - x0) == pytest.approx(9 / 17, abs=0.01)  # 2**3, 2**12, 2**20
    assert (y0 - y1) / (y0 - y2) == pytest.approx(2 / 3, abs=0.01)
    assert level[0][0] == x0
    assert level[0][1] == pytest.approx(y0 - (y0 - y2) / 3, abs=1)


def test_points_are_sorted_and_single_ones_are_shown():
    text = svg_of(line_plot("", {"a": [(4, 2), (1, 1)], "b": [(3, 3)]}, x_label="", y_label=""))
    first, second = lines_of(text, "line")
    assert first == sorted(first)
    assert len(first) == 2
    assert len(second) == 1
    markers = {gid: len(list(ElementTree.fromstring(part).iter(f"{SVG}use"))) for gid, part in groups(text).items()}
    assert markers == {"line-0": 2, "line-1": 1}


def groups(text):
    """The parts of an SVG that are lines, by their ids."""
    found = ElementTree.fromstring(text).iter(f"{SVG}g")
    return {each.get("id"): ElementTree.tostring(each) for each in found if each.get("id", "").startswith("line-")}


def test_ticks_of_a_short_axis_are_numbers_within_it():
    """Not only powers of ten, of which a short axis has one or none."""
    texts = texts_of(svg_of(line_plot("", {"a": [(8, 1.2), (4096, 5.6)]}, x_label="", y_label="")))
    assert {"2", "3", "5"} <= texts
    assert "10" in texts
    (line,) = lines_of(svg_of(line_plot("", {"a": [(8, 12), (4096, 56)]}, x_label="", y_label="")), "line")
    (_, low), (_, high) = line
    assert low - high > 420 / 2, "the data fill the plot's height"


def test_all_lies_within_the_picture():
    for line in lines_of(plotted(), "line"):
        assert all(0 < x < 720 and 0 < y < 420 for x, y in line)


def test_a_plot_is_readable_on_dark_pages():
    assert "prefers-color-scheme:dark" in svg_of(line_plot("", {"a": [(1, 1)]}, x_label="", y_label=""))


def test_the_same_plot_is_the_same_file():
    assert plotted() == plotted()


@pytest.mark.parametrize(("name", "begin"), [("a.svg", b"<svg"), ("a.png", b"\x89PNG"), ("A.PDF", b"%PDF")])
def test_a_file_has_the_format_of_its_name(tmp_path, name, begin):
    figure = line_plot("", {"a": [(1, 1)]}, x_label="", y_label="")
    save(figure, tmp_path / name)
    assert (tmp_path / name).read_bytes().startswith(begin)


@pytest.mark.parametrize("name", ["plot", "plot.bmp", "svg"])
def test_a_name_without_a_format_is_refused(tmp_path, name):
    figure = line_plot("", {"a": [(1, 1)]}, x_label="", y_label="")
    with pytest.raises(FabricError, match=", ".join(FORMATS)):
        save(figure, tmp_path / name)
    assert not (tmp_path / name).exists()


def test_without_matplotlib_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(FabricError, match=r"\[plot\]"):
        line_plot("", {"a": [(1, 1)]}, x_label="", y_label="")


@pytest.mark.parametrize("lines", [{}, {"a": []}, {"a": [(0, 1)]}, {"a": [(1, -1)]}, {"a": [(1, float("inf"))]}])
def test_what_has_no_logarithm_is_refused(lines):
    with pytest.raises(ValueError, match=r"expected a point|coordinates above 0"):
        line_plot("", lines, x_label="", y_label="")


def test_names_cannot_end_the_markup():
    text = svg_of(line_plot("<script>", {"</svg>": [(1, 1)]}, x_label='"', y_label="&"))
    assert "<script>" not in text
    assert len(re.findall("</svg>", text)) == 1


def test_names_are_shown_as_they_are():
    text = svg_of(line_plot("$x$ and $", {"$a$_b": [(1, 1)]}, x_label="$y", y_label="^{z}$w$"))
    assert {"$x$ and $", "$y", "^{z}$w$", "$a$_b"} <= texts_of(text)


def test_scattered_points_lie_on_linear_axes_with_round_ends():
    marks = [Mark(1000, 7, "one", True), Mark(3000, 2, "two", True), Mark(2000, 7, "three")]
    text = svg_of(scatter_plot("T", {"gups & more": marks}, x_label="luts", y_label="cycles"))
    texts = texts_of(text)
    assert {"T", "luts", "cycles", "gups & more", "one", "two", "1k", "3k", "2", "7"} <= texts
    assert "three" not in texts, "what is not on the front has its label where the pointer rests"
    (front,) = lines_of(text, "front")
    first, corner, last = front
    assert corner == (last[0], first[1])
    places = [line[0][0] for line in lines_of(text, "mark-0")]
    assert (places[2] - places[0]) / (places[1] - places[0]) == pytest.approx(0.5, abs=0.01)


def test_a_single_point_and_a_level_line_can_be_scattered():
    for marks in ([Mark(0, 0, "origin", True)], [Mark(1, 5, "a"), Mark(2, 5, "b")]):
        root = ElementTree.fromstring(svg_of(scatter_plot("", {"x": marks}, x_label="", y_label="")))
        assert len(list(root.iter(f"{SVG}title"))) == len(marks)


@pytest.mark.parametrize("marks", [[], [Mark(float("nan"), 1, "")], [Mark(1, float("inf"), "")]])
def test_what_cannot_be_scattered_is_refused(marks):
    with pytest.raises(ValueError, match="expected"):
        scatter_plot("", {"x": marks}, x_label="", y_label="")
