"""``python -m bench``: cycles of the RTL, which are exact, and ratios for everything that is timed.

Shows tables and writes all figures to build/bench.json. With --publish it also puts the tables of the benches that
ran into docs/benchmarks.md. Exits with 1 if a limit is missed.
"""

import argparse
import dataclasses
import datetime
import json
import platform
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from amoeba_model.parameters import NicParameters
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from bench import (
    batches,
    bounds,
    calls,
    driver_rate,
    history,
    limits,
    loss,
    model,
    nic,
    operations,
    others,
    pcie,
    processes,
    programs,
    ranks,
    shim,
    ucp_host,
    ucp_memory,
)
from bench.engine import measure_cells
from bench.freshness import SOURCES, Record, read_records, sample, written
from bench.memory import memory_rates
from bench.messages import message_rates, posted_depths, random_orders, waiting_depths
from bench.netlist import netlist_speed
from bench.report import Grid, cycles_grid, misses_grid, replace_section
from bench.simulation import IDLE_GAIN, IDLE_LIMIT, simulation_speed
from bench.ucp_messages import ucp_message_rates, ucp_transfers

_ROOT = Path(__file__).resolve().parents[1]
_RESULTS = _ROOT / "build" / "bench.json"
_PAGE = _ROOT / "docs" / "benchmarks.md"
_RECORDS = _PAGE.with_suffix(".json")


@dataclass
class Outcome:
    """Results of a bench: for the JSON file, for people, and whether all limits were kept."""

    figures: Any
    grids: list[Grid]
    kept: bool = True


def cells(progress: Progress) -> Outcome:
    """Cycles per beat of every cell."""
    task = progress.add_task("cells", total=len(NicParameters().cells()))
    measured = measure_cells(progress=lambda: progress.advance(task))
    figures = {
        str(cell.cell): {
            "independent": cell.independent, "chain": cell.chain, "pipeline": cell.latency, "above_limit": cell.misses
        }
        for cell in measured
    }  # fmt: skip
    missed = misses_grid(measured)
    return Outcome(figures, [cycles_grid(measured), *([missed] if missed.rows else [])], not missed.rows)


def memory(progress: Progress) -> Outcome:
    """Rates of the memory engine with a host memory as slow as a real one."""
    progress.add_task("memory", total=None)
    rates = memory_rates()
    grid = Grid("the memory engine alone (exact)", ("requests", "payload bytes per cycle"), list(rates.items()))
    return Outcome(rates, [grid])


def whole_nic(progress: Progress) -> Outcome:
    """Rates of two NICs that nothing but themselves and host memory holds up."""
    progress.add_task("whole NIC", total=None)
    small = {"fetching atomic": nic.fetching_atomics(), "write": nic.small_writes()}
    transfers = nic.transfers()
    rows: list[tuple[str, float, str, str]] = []
    kept = True
    for operation, figures in small.items():
        limit = 2 * nic.link_cycles(operation)
        for name, cycles in figures.items():
            rows.append((f"8-byte {operation}, {name}", cycles, f"at most {limit}", "cycles each"))
            kept &= cycles <= limit
    for operation, payload in transfers.items():
        floor = 0.9 * nic.link_rate(operation)
        rows.append((f"64 KiB {operation}", payload, f"at least {floor:.1f}", "payload bytes per cycle"))
        kept &= payload >= floor
    grid = Grid("two whole NICs (exact)", ("measurement", "figure", "limit", "unit"), rows)
    return Outcome({**small, "transfers": transfers}, [grid], kept)


def memory_node(progress: Progress) -> Outcome:
    """Rates of the build node, beside those of gigabit Ethernet at the clock of an open FPGA flow."""
    progress.add_task("memory node", total=None)
    transfers = nic.transfers(kind="node")
    atomics = nic.fetching_atomics(kind="node", most_peers=1)
    clock = limits.NODE_HZ
    rows: list[tuple[str, float, str, str]] = []
    least = limits.NODE_BYTES_PER_SECOND / clock
    for operation, payload in transfers.items():
        rows.append((f"64 KiB {operation}", payload, f"at least {least:.3g}", "payload bytes per cycle"))
    kept = all(payload >= least for payload in transfers.values())
    most = clock / limits.NODE_ATOMICS_PER_SECOND
    for name, cycles in atomics.items():
        rows.append((f"8-byte fetching atomic, {name}", cycles, f"at most {most:.3g}", "cycles each"))
    kept &= max(atomics.values()) <= most
    grid = Grid("a memory node, the build node (exact)", ("measurement", "figure", "limit", "unit"), rows)
    return Outcome({"transfers": transfers, "fetching atomic": atomics}, [grid], kept)


def on_pcie(progress: Progress) -> Outcome:
    """Measure the same two NICs on PCI Express."""
    progress.add_task("PCI Express", total=None)
    anywhere = "random addresses, 4 peers"
    updates = {host: nic.fetching_atomics(kind=kind)[anywhere] for host, kind in pcie.HOSTS.items()}
    transfers, both = nic.transfers(kind="rtl+pcie"), pcie.both_ways()
    rows: list[tuple[str, float, str, str]] = []
    kept = True
    limit = 2 * nic.link_cycles("fetching atomic")
    for host, cycles in updates.items():
        rows.append((f"8-byte fetching atomic on {host}", cycles, f"at most {limit}", "cycles each"))
        kept &= cycles <= limit
    for name, payload, rate in (
        *((f"64 KiB {name}", figure, pcie.link_rate()) for name, figure in transfers.items()),
        *((f"64 KiB {name}, both NICs at once", both[name], pcie.both_ways_rate(name)) for name in both),
    ):
        floor = pcie.FLOOR * rate
        rows.append((name, payload, f"at least {floor:.1f}", "payload bytes per cycle"))
        kept &= payload >= floor
    grid = Grid("two whole NICs on PCI Express (exact)", ("measurement", "figure", "limit", "unit"), rows)
    return Outcome({"updates": updates, "transfers": transfers, "both ways": both}, [grid], kept)


def on_losing_links(progress: Progress) -> Outcome:
    """Rates of 64 KiB transfers, by how many frames are lost."""
    figures, grids = {}, []
    for kind in loss.KINDS:
        task = progress.add_task(f"loss, {kind}", total=2 * len(loss.LOSSES))
        found = loss.curve(progress=partial(progress.advance, task), kind=kind)
        figures[kind] = {name: {str(share): rate for share, rate in rates.items()} for name, rates in found.items()}
        grids.append(loss.grid(found, kind))
    return Outcome(figures, grids)


def frames_of_strangers(progress: Progress) -> Outcome:
    """Measure the cost of one peer's frames for another, and for the NIC's own traffic."""
    progress.add_task("bounds", total=None)
    found, own = bounds.costs(), bounds.own_traffic()
    kept = own <= bounds.OWN_LIMIT and all(cycles <= bounds.LIMITS[what] for what, cycles in found.items())
    return Outcome({**found, bounds.OWN: own}, [bounds.bounds_grid(found, own)], kept)


def messages(progress: Progress) -> Outcome:
    """Cycles that messages and receives take to meet."""
    progress.add_task("messages", total=None)
    rates, posted, waiting, shuffled = message_rates(), posted_depths(), waiting_depths(), random_orders()
    pace = Grid(
        "8-byte tagged messages of one endpoint to another (exact)",
        ("measurement", "cycles each", "at most"),
        [(name, cycles, limits.MESSAGE_LIMITS[name]) for name, cycles in rates.items()],
    )
    in_depth = [
        (depth, posted[depth], limits.match_limit(depth), waiting[depth], limits.search_limit(depth))
        + (shuffled.get(depth) or ("", ""))
        for depth in posted
    ]
    header = (
        "length of the list",
        "message: the last receive matches", "at most",
        "receive: the last message matches", "at most",
        "message, random order", "receive, random order",
    )  # fmt: skip
    kept = all(cycles <= limits.MESSAGE_LIMITS[name] for name, cycles in rates.items())
    kept &= all(cycles <= limits.match_limit(depth) for depth, cycles in posted.items())
    kept &= all(cycles <= limits.search_limit(depth) for depth, cycles in waiting.items())
    figures = {"rates": rates, "posted": posted, "waiting": waiting, "random": shuffled}
    return Outcome(figures, [pace, Grid("cycles each by length of the list (exact)", header, in_depth)], kept)


def ucp_messages(progress: Progress) -> Outcome:
    """Measure UCP's active messages and streams."""
    progress.add_task("UCP's messages", total=None)
    small, long = ucp_message_rates(), ucp_transfers()
    rows: list[tuple[str, float, str, str]] = []
    kept = True
    for name, cycles in small.items():
        rows.append((f"8-byte {name}", cycles, f"at most {limits.UCP_MESSAGE_LIMIT}", "cycles each"))
        kept &= cycles <= limits.UCP_MESSAGE_LIMIT
    floor = 0.9 * nic.link_rate("write")
    for name, payload in long.items():
        rows.append((f"64 KiB {name}", payload, f"at least {floor:.1f}", "payload bytes per cycle"))
        kept &= payload >= floor
    grid = Grid("UCP's active messages and streams (exact)", ("measurement", "figure", "limit", "unit"), rows)
    return Outcome({"small": small, "long": long}, [grid], kept)


def latency(progress: Progress) -> Outcome:
    """Measure one fetching atomic without other traffic."""
    progress.add_task("latency", total=None)
    stages = nic.unloaded_latency()
    cycles = [cycle for *_, cycle in stages]
    rows = [
        (*stage, stage[-1] - last, before)
        for stage, last, before in zip(stages, [0, *cycles[:-1]], limits.LATENCY_BEFORE, strict=True)
    ]
    title = "one fetching atomic, unloaded: cycles since the doorbell, and since the stage before (exact)"
    return Outcome(
        [{"component": component, "stage": stage, "cycle": cycle} for component, stage, cycle in stages],
        [Grid(title, ("component", "stage", "cycle", "step", "cycle before"), rows)],
        cycles[-1] - 2 * (nic.HOST_LATENCY + nic.LINK_LATENCY) <= limits.LATENCY_LIMIT,
    )


def simulation(progress: Progress) -> Outcome:
    """Measure simulated cycles per second."""
    progress.add_task("simulation", total=None)
    speeds = simulation_speed()
    gain = speeds[IDLE_GAIN]
    rows = [(what, "no history" if figure is None else figure) for what, figure in speeds.items()]
    return Outcome(
        speeds,
        [Grid("simulated cycles per second of CPU time", ("measurement", "figure"), rows)],
        gain is None or gain >= IDLE_LIMIT,
    )


def netlist(progress: Progress) -> Outcome:
    """Measure simulated cycles per second of a synthesized NIC."""
    progress.add_task("netlist", total=None)
    speeds = netlist_speed()
    grid = Grid("simulated cycles per second of CPU time", ("measurement", "figure"), list(speeds.items()))
    return Outcome(speeds, [grid], min(speeds.values()) >= limits.NETLIST_LIMIT)


def model_speed(progress: Progress) -> Outcome:
    """Operations per second of two model NICs, now and before."""
    progress.add_task("model", total=None)
    present, earlier = model.measure()
    grid = model.speed_grid(present, earlier)
    return Outcome({"present": present, history.BASELINE: earlier}, [grid], not model.misses(present, earlier))


def call_costs(progress: Progress) -> Outcome:
    """Measure the driver's calls, now and before."""
    progress.add_task("calls", total=None)
    present, earlier = calls.measure()
    ucp, ucp_earlier = calls.measure(calls.UCP, commit=calls.UCP_BASELINE)
    grids = [
        calls.calls_grid(present, earlier),
        calls.calls_grid(ucp, ucp_earlier, calls.UCP_BASELINE, calls.UCP_LIMITS),
    ]
    figures = {"present": present, history.BASELINE: earlier, "ucp": ucp, calls.UCP_BASELINE: ucp_earlier}
    kept = not calls.misses(present, earlier) and not calls.misses(ucp, ucp_earlier, calls.UCP_LIMITS)
    return Outcome(figures, grids, kept)


def driver(progress: Progress) -> Outcome:
    """Operations per second on the model device, beside those of others on this host."""
    progress.add_task("driver", total=None)
    rates = driver_rate.measure()
    elsewhere, missing = others.measure(rates["operations"], rates["window"])
    grids = [others.rates_grid(rates["calls"], elsewhere), others.ratios_grid(rates["calls"], elsewhere)]
    if missing:
        grids.append(Grid("without the figures of these", ("what", "why"), missing))
    figures = {", ".join(filter(None, key)): dataclasses.asdict(call) for key, call in elsewhere.items()}
    return Outcome({**rates, "others": figures}, [grid for grid in grids if grid.rows])


def in_batches(progress: Progress) -> Outcome:
    """Measure the driver's time for an operation of a batch."""
    progress.add_task("batches", total=None)
    measured = batches.measure()
    return Outcome(measured, [batches.batches_grid(measured)], not batches.misses(measured))


def ucp_on_memory(progress: Progress) -> Outcome:
    """Measure operations of UCX's API: in cycles, and the host's time beside libfabric's endpoint."""
    progress.add_task("UCP", total=None)
    found, (ours, libfabrics) = ucp_memory.cycles(), ucp_host.host_times()
    rows: list[tuple[str, float, str, str]] = []
    kept = not ucp_host.misses(ours, libfabrics)
    for name, figure in found.items():
        if name.startswith("8-byte"):
            limit = 1.05 * nic.link_cycles("write" if name.endswith("put") else "fetching atomic")
            rows.append((name, figure, f"at most {limit:.2g}", "cycles each"))
            kept &= figure <= limit
        else:
            floor = 0.9 * nic.link_rate("write" if name.endswith("put") else "read")
            rows.append((name, figure, f"at least {floor:.1f}", "payload bytes per cycle"))
            kept &= figure >= floor
    grid = Grid("UCX's API on two whole NICs (exact)", ("measurement", "figure", "limit", "unit"), rows)
    figures = {"cycles": found, "host": ours, "endpoint": libfabrics}
    return Outcome(figures, [grid, ucp_host.host_grid(ours, libfabrics)], kept)


def between_processes(progress: Progress) -> Outcome:
    """Latencies between two processes, and the way from C to Python."""
    progress.add_task("processes", total=None)
    present, before = processes.measure()
    grids = [processes.grid(present), processes.comparison(present, before)]
    return Outcome({"present": present, processes.BEFORE: before}, grids, not processes.misses(present))


def ranks_of_mpi(progress: Progress) -> Outcome:
    """MPI over the provider on two ranks and on four, beside an earlier commit."""
    progress.add_task("ranks", total=None)
    found = ranks.measure()
    figures = [{str(number): times for number, times in state.items()} for state in found]
    return Outcome(figures, [ranks.grid(found)], not ranks.misses(found))


def programs_of_others(progress: Progress) -> Outcome:
    """fi_pingpong, single operations and ucx_perftest over ours and others'; and what our part of a call takes."""
    progress.add_task("programs of others", total=None)
    found, ours = programs.measure(), shim.measure()
    fabric, ucx = operations.fabric_figures(), operations.ucx_figures()
    figures = {
        "fi_pingpong": {
            provider: {str(size): row for size, row in sizes.items()} for provider, sizes in found.items()
        },
        "libfabric": fabric,
        "ucx_perftest": ucx,
        "shim": ours,
    }
    grids = [programs.grid(found), operations.fabric_grid(fabric), operations.ucx_grid(ucx), shim.grid(ours)]
    return Outcome(figures, [grid for grid in grids if grid.rows], not shim.misses(ours))


_BENCHES: dict[str, Callable[[Progress], Outcome]] = {
    "cells": cells,
    "memory": memory,
    "nic": whole_nic,
    "node": memory_node,
    "pcie": on_pcie,
    "loss": on_losing_links,
    "bounds": frames_of_strangers,
    "messages": messages,
    "ucp": ucp_messages,
    "latency": latency,
    "simulation": simulation,
    "netlist": netlist,
    "model": model_speed,
    "calls": call_costs,
    "driver": driver,
    "batches": in_batches,
    "ucp_memory": ucp_on_memory,
    "processes": between_processes,
    "ranks": ranks_of_mpi,
    "programs": programs_of_others,
}


def _origin() -> str:
    """Date and commit, and whether what was measured differs from it; the date alone outside a repository."""
    today = f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d}"

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(_ROOT), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    try:
        commit = git("rev-parse", "--short=9", "HEAD")
        changed = git("status", "--porcelain", "--", "hw", "model", "sim", "driver", "tools")
    except (OSError, subprocess.CalledProcessError):
        return today
    return f"{today}, commit {commit}{', with changes' if changed else ''}"


def _publish(outcomes: dict[str, Outcome]) -> None:
    page, measured = _PAGE.read_text(encoding="utf-8"), _origin()
    records = read_records(_RECORDS.read_text(encoding="utf-8"))
    for name, outcome in outcomes.items():
        tables = "\n".join(f"{grid.title[0].upper()}{grid.title[1:]}:\n\n{grid.markdown()}" for grid in outcome.grids)
        page = replace_section(page, name, f"Measured {measured}.\n\n{tables}")
        if name in SOURCES:
            records[name] = Record(measured, sample(_ROOT, SOURCES[name]))
    _PAGE.write_text(page, encoding="utf-8")
    _RECORDS.write_text(written(records), encoding="utf-8")


def main(arguments: list[str] | None = None) -> int:
    """Run benches, and return the exit status: 1 if a limit was missed."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("only", nargs="*", metavar="BENCH", help=f"{', '.join(_BENCHES)}; all by default")
    parser.add_argument("--publish", action="store_true", help="put the tables into docs/benchmarks.md")
    options = parser.parse_args(arguments)
    unknown = set(options.only) - set(_BENCHES)
    if unknown:
        parser.error(f"no bench {', '.join(sorted(unknown))}; there are {', '.join(_BENCHES)}")
    console = Console()
    outcomes = {}
    for name in options.only or _BENCHES:
        columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
        with Progress(*columns, TimeElapsedColumn(), console=console, transient=True) as progress:
            outcomes[name] = _BENCHES[name](progress)
        for grid in outcomes[name].grids:
            console.print(grid.console(), "")
    results = {"measured": _origin(), "python": platform.python_version(), "machine": platform.machine()}
    results |= {name: outcome.figures for name, outcome in outcomes.items()}
    _RESULTS.parent.mkdir(exist_ok=True)
    _RESULTS.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    console.print(f"All figures are in {_RESULTS.relative_to(_ROOT)}.")
    if options.publish:
        _publish(outcomes)
    missed = [name for name, outcome in outcomes.items() if not outcome.kept]
    if missed:
        console.print(f"[red]Above the limits: {', '.join(missed)}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
