"""Plots of figures that are exact: of the RTL's `amoeba perf` over sizes, and of what matching costs."""

import json
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

from amoeba_tools.plots import Point, line_plot, svg_of

__all__ = ["PERF", "match_cost", "perf_plots"]

DOCS = Path(__file__).parents[2] / "docs"
PERF = DOCS / "pictures" / "perf.json"
"""Output of `amoeba perf --device rtl --json`: docs/benchmarks.md says which tests."""
CLOCK = 250e6
QUANTITIES = {
    "bandwidth": ("Bandwidth on RTL, at 250 MHz", "gigabits per second", lambda size, us: size * 8 / us / 1e3),
    "latency": ("Latency on RTL, at 250 MHz", "microseconds", lambda size, us: us),
    "rate": ("Rate on RTL, at 250 MHz", "millions per second", lambda size, us: 1 / us),
}


def perf_plots() -> dict[str, str]:
    """Plot each quantity, by the file's name: bandwidth and rate of `_bw` tests, latency of the others."""
    results: list[dict[str, Any]] = json.loads(PERF.read_text())
    plots = {}
    for quantity, (title, unit, of) in QUANTITIES.items():
        lines: dict[str, list[Point]] = defaultdict(list)
        for each in results:
            plan = each["plan"]
            many = plan["test"].endswith("bw")
            if many == (quantity != "latency"):
                size = sum(plan["sizes"])
                lines[plan["test"]].append((size, of(size, each["modelled"])))
        figure = line_plot(title, lines, x_label="bytes of a message", y_label=unit, x_binary=True)
        plots[f"perf-{quantity}"] = svg_of(figure)
    return plots


def match_cost() -> str:
    """Cycles that a message or a receive costs, over the length of the list: docs/benchmarks.md."""
    text = (DOCS / "benchmarks.md").read_text()
    table = re.search(r"\| length of the list.*?\n((?:\|.*\n)+)", text)
    if table is None:
        raise SystemExit("docs/benchmarks.md has no table of what matching costs")
    names = {1: "message, last matches", 3: "receive, last matches", 5: "message, random", 6: "receive, random"}
    lines: dict[str, list[Point]] = defaultdict(list)
    for row in table[1].splitlines()[1:]:
        cells = [cell.strip() for cell in row.strip("|").split("|")]
        for column, name in names.items():
            if cells[column]:
                lines[name].append((float(cells[0]), float(cells[column])))
    return svg_of(line_plot("Cost of matching", lines, x_label="length of the list", y_label="cycles each"))
