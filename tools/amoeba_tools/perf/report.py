"""Results as ``ucx_perftest`` prints them: a table, comma-separated values; and JSON. Cycles are two columns more.

A terminal too narrow for the table gets 80 columns, without the averages of bandwidth and rate.
"""

import dataclasses
import shutil
import textwrap
from collections import Counter
from itertools import zip_longest
from typing import Any

from amoeba_tools.perf.meter import PerfResult
from amoeba_tools.perf.plan import PerfPlan

__all__ = ["csv_header", "csv_row", "facts", "header", "is_narrow", "row"]

_LINE = "+--------------+--------------+----------+---------+---------+----------+----------+-----------+-----------+"
_CYCLES_LINE = "----------+-----------------+"
_BOX = len(_LINE) - 2
_NARROW_BOX = 78
_API_NAMES = {"ucp": "protocol layer", "libfabric": "libfabric"}


def is_narrow(*, cycles: bool) -> bool:
    """Return whether the terminal has too few columns for the table. A pipe has enough, unless COLUMNS says less."""
    wide = len(_LINE) + (len(_CYCLES_LINE) if cycles else 0)
    return shutil.get_terminal_size((wide, 24)).columns < wide


def header(plan: PerfPlan, devices: tuple[str, ...], *, cycles: bool, final_only: bool, narrow: bool = False) -> str:
    """Return the lines above the rows of a plan."""
    test = plan.entry
    sides = " | ".join(dict.fromkeys(plan.layouts)) if plan.layouts != ("contig", "contig") else "(automatic)"
    told = [
        ("API", _API_NAMES[plan.api]),
        ("Test", test.description),
        *([("Operation", _operation(plan))] if plan.operation else []),
        ("Data layout", sides),
        ("Send memory", "host"),
        ("Recv memory", "host"),
        ("Message size", str(plan.size)),
        *([("AM header size", str(plan.header))] if plan.command == "am" else []),
        *([("Peers", str(plan.peers))] if plan.peers > 1 else []),
        ("Devices", _counted(devices)),
    ]
    box = _boxed(told, _NARROW_BOX if narrow else _BOX)
    if narrow:
        return "\n".join([*box, *_narrow_titles(plan, cycles=cycles)])
    line = _LINE + (_CYCLES_LINE if cycles else "")
    stage = "Test" if final_only else "Stage"
    rank = f"{plan.percentile:4.1f}%ile"
    above = "|              |              |" + f"{test.time:>15} (usec)        |" + "   bandwidth (MB/s)  |"
    above += "  message rate (msg/s) |"
    below = f"|    {stage:5}     | # iterations | {rank:8} | average | overall |  average |  overall |"
    below += "  average  |  overall  |"
    if cycles:
        above += "   NIC    | modelled (usec) |"
        below += "  cycles  |     overall     |"
    return "\n".join([*box, line, above, line, below, line])


def _boxed(told: list[tuple[str, str]], width: int) -> list[str]:
    """Return a line per fact, below a line of dashes; a long fact takes several lines."""
    lines = [
        f"| {label:14}{part}"
        for name, value in told
        for label, part in zip_longest([f"{name}:"], textwrap.wrap(value, width - 16), fillvalue="")
    ]
    return ["+" + "-" * width + "+", *(line.ljust(width + 1) + "|" for line in lines)]


def _narrow_titles(plan: PerfPlan, *, cycles: bool) -> list[str]:
    titles = ["count", f"{plan.percentile:.1f}%ile", "average", "overall", "MB/s", "msg/s", "cycles", "usec"]
    units = ["", *["usec"] * 3, *["overall"] * 2, "NIC", "modelled"]
    columns = 8 if cycles else 6
    return [_narrow_line("", units[:columns]), _narrow_line("", titles[:columns]), "-" * (_NARROW_BOX + 2)]


def _narrow_line(name: str, cells: list[str]) -> str:
    """Return a line of 80 columns, or of 61 without cycles."""
    widths = (7, 10, 10, 10, 9, 9, 9, 9)
    return f"{name:6}" + "".join(f" {cell:>{width - 1}}" for cell, width in zip(cells, widths, strict=False))


def _counted(devices: tuple[str, ...]) -> str:
    return ", ".join(f"{count} x {name}" if count > 1 else name for name, count in Counter(devices).items())


def _operation(plan: PerfPlan) -> str:
    return f"{plan.operation} on {plan.datatype}" if plan.command == "atomic" else plan.operation


def row(result: PerfResult, *, final: bool, final_only: bool, thousands: bool, narrow: bool = False) -> str:
    """Return a row of the table."""
    comma = "," if thousands else ""
    if narrow:
        return _narrow_row(result, comma, "Final:" if final else "")
    name = f"{result.test:>10}" if final and final_only else f"{'Final:' if final else '':10}"
    cells = (
        f"{name}{result.iterations:>18{comma}} {result.percentile:10.3f} {result.average:9.3f} {result.overall:9.3f} "
        f"{result.bandwidth_average:11.2f} {result.bandwidth_overall:10.2f} "
        f"{result.rate_average:>11{comma}.0f} {result.rate_overall:>11{comma}.0f}"
    )
    if result.cycles is not None and result.modelled is not None:
        cells += f" {result.cycles:10.2f} {result.modelled:17.4f}"
    return cells


def _narrow_row(result: PerfResult, comma: str, name: str) -> str:
    cells = [f"{result.iterations:{comma}}"]
    cells += [f"{value:.3f}" for value in (result.percentile, result.average, result.overall)]
    cells += [f"{result.bandwidth_overall:.2f}", f"{result.rate_overall:{comma}.0f}"]
    if result.cycles is not None and result.modelled is not None:
        cells += [f"{result.cycles:.2f}", f"{result.modelled:.4f}"]
    return _narrow_line(name, cells)


def csv_header(rank: float, *, cycles: bool, peers: bool = False) -> str:
    """Return the header of comma-separated rows; ``ucx_perftest`` starts with test and size if it runs several.

    ``peers``: whether the rows have a column of peers.
    """
    names = f"test,size,{'peers,' if peers else ''}iterations,"
    names += f"{rank:.1f}_percentile_lat,avg_lat,overall_lat,avg_bw,overall_bw,avg_mr,overall_mr"
    return names + (",cycles,modelled_lat" if cycles else "")


def csv_row(result: PerfResult, *, peers: bool = False) -> str:
    """Return a row of comma-separated values."""
    cells = (
        f"{result.test},{result.size},{f'{result.peers},' if peers else ''}{result.iterations},"
        f"{result.percentile:.3f},{result.average:.3f},"
        f"{result.overall:.3f},{result.bandwidth_average:.2f},{result.bandwidth_overall:.2f},"
        f"{result.rate_average:.0f},{result.rate_overall:.0f}"
    )
    if result.cycles is not None and result.modelled is not None:
        cells += f",{result.cycles:.2f},{result.modelled:.4f}"
    return cells


def facts(plan: PerfPlan, devices: tuple[str, ...], result: PerfResult) -> dict[str, Any]:
    """Return all results, as JSON can carry them. Times are microseconds, bandwidth is 2**20 bytes per second."""
    return {"plan": plan.told(), "devices": list(devices), **dataclasses.asdict(result), "window": plan.window}
