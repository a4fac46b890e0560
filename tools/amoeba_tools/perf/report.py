"""Results as ``ucx_perftest`` prints them: a table, comma-separated values; and JSON. Cycles are two columns more."""

import dataclasses
from collections import Counter
from typing import Any

from amoeba_tools.perf.meter import PerfResult
from amoeba_tools.perf.plan import PerfPlan

__all__ = ["csv_header", "csv_row", "facts", "header", "row"]

_LINE = "+--------------+--------------+----------+---------+---------+----------+----------+-----------+-----------+"
_CYCLES_LINE = "----------+-----------------+"
_BOX = len(_LINE) - 2
_API_NAMES = {"ucp": "protocol layer", "libfabric": "libfabric"}


def header(plan: PerfPlan, devices: tuple[str, ...], *, cycles: bool, final_only: bool) -> str:
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
    box = [f"| {name + ':':14}{value}".ljust(_BOX + 1) + "|" for name, value in told]
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
    return "\n".join(["+" + "-" * _BOX + "+", *box, line, above, line, below, line])


def _counted(devices: tuple[str, ...]) -> str:
    return ", ".join(f"{count} x {name}" if count > 1 else name for name, count in Counter(devices).items())


def _operation(plan: PerfPlan) -> str:
    return f"{plan.operation} on {plan.datatype}" if plan.command == "atomic" else plan.operation


def row(result: PerfResult, *, final: bool, final_only: bool, thousands: bool) -> str:
    """Return a row of the table."""
    comma = "," if thousands else ""
    name = f"{result.test:>10}" if final and final_only else f"{'Final:' if final else '':10}"
    cells = (
        f"{name}{result.iterations:>18{comma}} {result.percentile:10.3f} {result.average:9.3f} {result.overall:9.3f} "
        f"{result.bandwidth_average:11.2f} {result.bandwidth_overall:10.2f} "
        f"{result.rate_average:>11{comma}.0f} {result.rate_overall:>11{comma}.0f}"
    )
    if result.cycles is not None and result.modelled is not None:
        cells += f" {result.cycles:10.2f} {result.modelled:17.4f}"
    return cells


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
