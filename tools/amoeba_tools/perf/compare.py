"""Results against those of another run, and as plots and pages."""

import datetime
import json
import math
import platform
import shlex
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from amoeba.core.errno import Errno
from amoeba.core.errors import fabric_error
from amoeba.core.release import RELEASE

from amoeba_tools.plots import Point, html_of, line_plot

__all__ = ["QUANTITIES", "comparison", "origin", "page_of", "plot_of", "read_results"]

QUANTITIES = {
    "latency": ("overall", "microseconds of an operation"),
    "bandwidth": ("bandwidth_overall", "MiB per second"),
    "rate": ("rate_overall", "operations per second"),
    "cycles": ("cycles", "cycles of an operation"),
}
"""Quantities to plot: the result's name and the unit."""
_SAME = ("api", "test", "op", "datatype", "outstanding", "sizes", "layouts", "peers")
"""Members of a plan that must agree for two results to be comparable."""

Facts = Mapping[str, Any]


def read_results(path: Path) -> list[dict[str, Any]]:
    """Read a file with the output of ``amoeba perf --json``.

    Raises FI_EINVAL for a file with other content, and OSError if the file cannot be opened.
    """
    try:
        told = json.loads(path.read_text())
    except (ValueError, RecursionError) as error:
        raise fabric_error(Errno.FI_EINVAL, f"{path} is no JSON: {error}") from None
    results: list[dict[str, Any]] = told if isinstance(told, list) else [{}]
    if not all(map(_is_result, results)):
        raise fabric_error(Errno.FI_EINVAL, f"expected what amoeba perf --json prints in {path}")
    return results


def _is_result(told: Any) -> bool:
    """Return whether a value has the members of a result that :func:`comparison` reads."""
    if not isinstance(told, dict) or not isinstance(told.get("plan"), dict):
        return False
    numbers = (told.get("overall"), told.get("cycles") or 0)
    peers = told["plan"].get("peers", 1)
    return all(isinstance(number, int | float) for number in numbers) and isinstance(peers, int)


def comparison(facts: Sequence[Facts], old: Sequence[Facts]) -> list[tuple[str, float, float | None, float | None]]:
    """Compare results with old ones: for each its name, microseconds per operation now and before, and the speedup.

    The last two are None without an old result of the same test, operation and sizes. Cycles are compared where both
    have them: they do not depend on the host.
    """
    before = {_identity(each): each for each in old}
    rows = []
    for each in facts:
        other = before.get(_identity(each))
        key = "cycles" if other is not None and each.get("cycles") and other.get("cycles") else "overall"
        now, then = each[key], None if other is None else other[key]
        rows.append((name_of(each), now, then, None if not then or not now else then / now))
    return rows


def name_of(facts: Facts) -> str:
    """Return the name of a result: test, operation, size, and the number of peers if there are several."""
    plan = facts["plan"]
    return f"{_kind_of(plan)}, {sum(plan['sizes'])} bytes{_with_peers(plan)}"


def _kind_of(plan: Facts) -> str:
    """Return the test and its operation."""
    op = f" {plan['op']}" if plan.get("op") else ""
    datatype = f" {plan['datatype']}" if plan["test"] == "rdm_atomic" else ""
    return f"{plan['test']}{op}{datatype}"


def _with_peers(plan: Facts) -> str:
    peers = _peers_of(plan)
    return f", {peers} peers" if peers > 1 else ""


def _peers_of(plan: Facts) -> int:
    """1 in a file of before there could be more."""
    return int(plan.get("peers", 1))


def _identity(facts: Facts) -> str:
    plan = facts["plan"]
    same = {**{name: plan.get(name) for name in _SAME}, "peers": _peers_of(plan), "devices": facts.get("devices")}
    return json.dumps(same, default=str)


def plot_of(facts: Sequence[Facts], quantity: str) -> Any:
    """Plot one quantity over the message size as a matplotlib figure, with a line for each test and number of peers.

    The x axis is the number of peers if that varies and the size does not. Raises FI_EINVAL without results.
    """
    name, unit = QUANTITIES[quantity]
    plans = [each["plan"] for each in facts]
    over_peers = len({sum(plan["sizes"]) for plan in plans}) == 1 < len(set(map(_peers_of, plans)))
    lines: dict[str, list[Point]] = {}
    for each in facts:
        plan, value = each["plan"], each.get(name)
        at = _peers_of(plan) if over_peers else sum(plan["sizes"])
        if at and value:
            line = _kind_of(plan) if over_peers else _kind_of(plan) + _with_peers(plan)
            lines.setdefault(line, []).append((at, value))
    if not lines:
        raise fabric_error(Errno.FI_EINVAL, f"there is no {quantity} to plot: cycles are of RTL, in one process")
    devices = " and ".join(dict.fromkeys(device for each in facts for device in each.get("devices", ())))
    title = f"{quantity.capitalize()} on {devices}"
    if over_peers:
        size = sum(plans[0]["sizes"])
        return line_plot(title, lines, x_label=f"peers, with messages of {size} bytes", y_label=unit, x_binary=True)
    return line_plot(title, lines, x_label="bytes of a message", y_label=unit, x_binary=True)


def origin(arguments: Sequence[str]) -> dict[str, str]:
    """Return the command line, date, release and machine of a measurement, for a page's head."""
    now = datetime.datetime.now(datetime.UTC)
    system = f"{platform.system()} {platform.release()}, Python {platform.python_version()}"
    return {
        "command": shlex.join(["amoeba", *arguments]),
        "measured": f"{now:%Y-%m-%d %H:%M} UTC",
        "Amoeba": RELEASE,
        "machine": f"{_processor()}, {system}",
    }


def _processor() -> str:
    """Return the processor's name, where Linux knows the name, else its architecture."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def page_of(facts: Sequence[Facts], head: Mapping[str, str]) -> str:
    """Return a self-contained page with plots of all quantities, and the table.

    ``head``: facts about the measurement, as from :func:`origin`.
    """
    quantities = [name for name, (key, _) in QUANTITIES.items() if any(each.get(key) for each in facts)]
    plots = "\n".join(html_of(plot_of(facts, name)) for name in quantities)
    columns = ("overall", "bandwidth_overall", "rate_overall", "cycles")
    rows = "\n".join(
        f"<tr><td>{escape(name_of(each))}</td>"
        + "".join(f"<td>{_shown(each[key])}</td>" if each.get(key) else "<td>-</td>" for key in columns)
        + f"<td>{'yes' if each.get('verified') else 'no'}</td></tr>"
        for each in facts
    )
    devices = ", ".join(dict.fromkeys(device for each in facts for device in each.get("devices", ())))
    told = {**head, "NICs": devices}
    origins = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in told.items())
    return _PAGE.format(head=origins, plots=plots, rows=rows)


def _shown(number: float) -> str:
    """Return a number with four digits that count; timing has no more."""
    digits = 3 - math.floor(math.log10(abs(number)))
    return f"{round(number, digits):,.{max(digits, 0)}f}"


_PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>amoeba perf</title>
<style>:root{{color-scheme:light dark}}body{{font:16px sans-serif;margin:2em auto;max-width:60em;padding:0 1em}}
table{{border-collapse:collapse}}td,th{{padding:.3em .8em;border-bottom:1px solid #8884;text-align:right}}
td:first-child,th:first-child{{text-align:left}}figure{{margin:2em 0}}svg{{max-width:36em;width:100%;height:auto}}
figcaption{{font-weight:bold}}ul{{display:flex;flex-wrap:wrap;gap:.3em 1.2em;margin:.6em 0;padding:0;list-style:none}}
dl{{display:grid;grid-template-columns:max-content 1fr;gap:.3em 1em}}dt{{opacity:.7}}
dd{{margin:0;overflow-wrap:anywhere}}.wide{{overflow-x:auto}}
@media(prefers-color-scheme:dark){{body{{background:#0d1117;color:#e6edf3}}}}</style>
<h1>amoeba perf</h1>
<dl>{head}</dl>
{plots}
<div class="wide">
<table><thead><tr><th>test</th><th>µs</th><th>MiB/s</th><th>operations/s</th><th>cycles</th><th>verified</th></tr></thead>
<tbody>
{rows}
</tbody></table></div></html>
"""
