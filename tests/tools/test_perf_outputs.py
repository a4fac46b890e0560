"""``amoeba perf --compare``, ``--plot`` and ``--html``.

Covers ``perf/compare.py``.
"""

import json
import re
import xml.etree.ElementTree as ElementTree

import pytest
from amoeba.core.errors import FabricError
from amoeba.core.release import RELEASE
from amoeba_tools.cli import app
from amoeba_tools.perf.compare import comparison, origin, page_of, plot_of, read_results
from amoeba_tools.plots import svg_of
from typer.testing import CliRunner

from tests.support.browser import chromium
from tests.support.drawings import lines_of


def result(test="rma_bw", size=8, overall=10.0, **fields):
    plan = {"api": "libfabric", "test": test, "op": "", "datatype": "uint64", "outstanding": None, "sizes": [size],
            "layouts": ["contig", "contig"]}  # fmt: skip
    plan |= fields.pop("plan", {})
    return {
        "plan": plan, "devices": ["model"], "overall": overall, "bandwidth_overall": size / overall,
        "rate_overall": 1e6 / overall, "cycles": None, "verified": True, **fields,
    }  # fmt: skip


def perf(*arguments):
    return CliRunner().invoke(app, ["perf", *map(str, arguments)], env={"COLUMNS": "120"})


def test_results_are_compared_with_those_of_the_same_run():
    old = [result(overall=20.0), result(size=64, overall=5.0), result(plan={"op": "read"})]
    rows = comparison([result(), result(size=64), result(size=128)], old)
    assert [(then, ratio) for _, _, then, ratio in rows] == [(20.0, 2.0), (5.0, 0.5), (None, None)]


def test_runs_on_other_devices_are_not_compared():
    assert comparison([result(devices=["rtl"])], [result()])[0][2] is None


def test_cycles_are_compared_where_both_have_them():
    assert comparison([result(cycles=50.0)], [result(cycles=100.0)])[0][1:] == (50.0, 100.0, 2.0)
    assert comparison([result(cycles=50.0)], [result()])[0][1:] == (10.0, 10.0, 1.0)


def test_a_plot_has_a_line_for_each_test():
    facts = [result(test, size) for test in ("bw", "rma_bw") for size in (8, 64, 512)]
    lines = lines_of(svg_of(plot_of(facts, "bandwidth")), "line")
    assert [len(line) for line in lines] == [3, 3]


def test_cycles_that_nobody_has_are_not_plotted():
    with pytest.raises(FabricError, match="no cycles to plot"):
        plot_of([result()], "cycles")


def test_a_page_has_plots_and_numbers_and_needs_no_other_file():
    results = [result(size=8), result(size=64, cycles=99.0), result("bw", errors=["wrong"], verified=False)]
    page = page_of(results, {})
    assert page.count("<svg") == 4
    assert "rma_bw, 64 bytes" in page
    assert "<td>99.00</td>" in page
    assert "src=" not in page
    assert re.findall(r'href="[^#][^"]*"', page) == []


@pytest.mark.parametrize("width", [390, 1280])
def test_a_page_shows_each_plot_and_its_legend_without_scrolling(tmp_path, width):
    tests = ("bw", "rma_bw", "tag_bw", "lat")
    results = [result(test, size, cycles=9.0) for test in tests for size in (8, 1024, 1 << 20)]
    path = tmp_path / "page.html"
    path.write_text(page_of(results, origin(["perf", "--html", "page.html"])))
    with chromium(width=width) as visit:
        page = visit.open(path.as_uri())
        assert page.evaluate("document.documentElement.scrollWidth") == width
        figures = page.locator("figure")
        assert figures.count() == 4
        for number in range(figures.count()):
            parts = [figures.nth(number).locator(name) for name in ("figcaption", "svg", "li")]
            assert [part.count() for part in parts] == [1, 1, len(tests)]
            for box in (each.bounding_box() for part in parts for each in part.all()):
                assert 0 <= box["x"] <= box["x"] + box["width"] <= width
            legend = parts[2].all_inner_texts()
            assert [text.split()[0] for text in legend] == ["●", "■", "▲", "◆"]
        size = page.evaluate("""() => {
            const svg = document.querySelector('svg'), text = svg.querySelector('text')
            return parseFloat(getComputedStyle(text).fontSize) * svg.clientWidth / svg.viewBox.baseVal.width
        }""")
        assert size > 10
        assert visit.errors == []


def test_a_page_says_how_when_and_where_it_was_measured():
    page = page_of([result()], origin(["perf", "-t", "rma_bw", "--html", "a page.html"]))
    for part in ("amoeba perf -t rma_bw --html &#x27;a page.html&#x27;", "UTC", RELEASE, "Python", "model"):
        assert part in page


def test_a_page_shows_four_digits():
    page = page_of([result(overall=5483.857, size=8), result(overall=0.0123456, size=64)], {})
    assert "<td>5,484</td>" in page
    assert "<td>0.01235</td>" in page
    assert "5,483.857" not in page


NO_RESULTS = [
    "", "{}", "[1]", '[{"plan": {}}]', '[{"plan": 1, "overall": 1}]', '[{"plan": {}, "overall": "1"}]',
    '[{"plan": {"peers": "2"}, "overall": 1}]', '[{"plan": {}, "overall": 1, "cycles": [1]}]', "[" * 100_000,
]  # fmt: skip


@pytest.mark.parametrize("text", NO_RESULTS, ids=range(len(NO_RESULTS)))
def test_a_file_that_holds_no_results_is_refused(tmp_path, text):
    path = tmp_path / "old.json"
    path.write_text(text)
    with pytest.raises(FabricError, match=r"old\.json"):
        read_results(path)


def test_the_command_writes_and_compares(tmp_path):
    common = ["--api", "libfabric", "-t", "rma_bw", "-s", 8, "-s", 64, "-n", 5]
    old, plot, page = tmp_path / "old.json", tmp_path / "plot.svg", tmp_path / "page.html"
    old.write_text(perf(*common, "--json").stdout)
    assert len(json.loads(old.read_text())) == 2
    done = perf(*common, "--compare", old, "--plot", plot, "--quantity", "rate", "--html", page)
    assert done.exit_code == 0, done.output
    assert "times as fast" in done.output
    ElementTree.parse(plot)
    assert "</html>" in page.read_text()


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["--compare", "nowhere.json"], 1, "nowhere.json"),
        (["--quantity", "beauty"], 2, "unknown quantity 'beauty'; expected latency, bandwidth"),
        (["--plot", "x.svg", "--quantity", "cycles"], 1, "no cycles to plot"),
        (["--plot", "x.bmp"], 1, "expected a file name that ends in .pdf, .png, .svg; got x.bmp"),
        (["--html", "no/such/folder/x.html"], 1, "no/such/folder"),
    ],
)
def test_mistakes_are_told(tmp_path, monkeypatch, arguments, status, said):
    monkeypatch.chdir(tmp_path)
    done = perf("-t", "tag_lat", "-n", 5, *arguments)
    assert done.exit_code == status
    assert said in " ".join(done.output.replace("│", " ").split())
