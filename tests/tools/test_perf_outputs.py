"""``amoeba perf --compare``, ``--plot`` and ``--html``.

Covers ``perf/compare.py``.
"""

import json
import xml.etree.ElementTree as ElementTree

import pytest
from amoeba.core.errors import FabricError
from amoeba_tools.cli import app
from amoeba_tools.perf.compare import comparison, page_of, plot_of, read_results
from typer.testing import CliRunner


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


def test_results_are_compared_with_those_of_the_same_thing():
    old = [result(overall=20.0), result(size=64, overall=5.0), result(plan={"op": "read"})]
    rows = comparison([result(), result(size=64), result(size=128)], old)
    assert [(then, ratio) for _, _, then, ratio in rows] == [(20.0, 2.0), (5.0, 0.5), (None, None)]


def test_other_devices_are_another_thing():
    assert comparison([result(devices=["rtl"])], [result()])[0][2] is None


def test_cycles_are_compared_where_both_have_them():
    assert comparison([result(cycles=50.0)], [result(cycles=100.0)])[0][1:] == (50.0, 100.0, 2.0)
    assert comparison([result(cycles=50.0)], [result()])[0][1:] == (10.0, 10.0, 1.0)


def test_a_plot_has_a_line_for_each_test():
    facts = [result(test, size) for test in ("bw", "rma_bw") for size in (8, 64, 512)]
    root = ElementTree.fromstring(plot_of(facts, "bandwidth"))
    lines = [line.get("points").split() for line in root.iter("{http://www.w3.org/2000/svg}polyline")]
    assert [len(line) for line in lines] == [3, 3]


def test_cycles_that_nobody_has_are_not_plotted():
    with pytest.raises(FabricError, match="no cycles to plot"):
        plot_of([result()], "cycles")


def test_a_page_has_plots_and_numbers_and_needs_no_other_file():
    page = page_of([result(size=8), result(size=64, cycles=99.0), result("bw", errors=["wrong"], verified=False)])
    assert page.count("<svg") == 4
    assert "rma_bw, 64 bytes" in page
    assert "<td>99.000</td>" in page
    assert "src=" not in page
    assert "href=" not in page


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
        (["--html", "no/such/folder/x.html"], 1, "no/such/folder"),
    ],
)
def test_mistakes_are_told(tmp_path, monkeypatch, arguments, status, said):
    monkeypatch.chdir(tmp_path)
    done = perf("-t", "tag_lat", "-n", 5, *arguments)
    assert done.exit_code == status
    assert said in " ".join(done.output.replace("│", " ").split())
