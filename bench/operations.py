"""Time of operations of 8 bytes through libfabric and UCX: through Amoeba's and through others', in one run.

Processor time of both processes for an operation, 32 in flight, and the time that one takes by the clock, alone in
flight. libfabric's by ``libfabric.c``; UCX's by its own ``ucx_perftest``, which has one way of doing each.
"""

import shutil
import subprocess
from collections.abc import Mapping

from amoeba import FabricError

from bench import libfabric
from bench.programs import PROVIDERS, environment_of, timed_pair
from bench.report import Grid

__all__ = ["Figures", "fabric_figures", "fabric_grid", "parse_perftest", "ucx_figures", "ucx_grid"]

_OPERATIONS, _ALONE, _WINDOW = 2048, 512, 32
_NAMES = {
    "fi_write, 8 bytes": "write",
    "fi_fetch_atomic": "fetch_atomic",
    "fi_tsend, 8 bytes": "tsend and trecv",
}
UCX_TESTS = ("ucp_put_lat", "ucp_fadd", "tag_lat")
_SHORT, _LONG = 200, (1200, 12_000)
"""Iterations of two runs, whose processor times differ by that of operations alone; the last where the first are few.
"""
_NOISE = 0.05
"""Seconds of processor time that two starts of a program may differ by."""
_SETTLING = 1.0
"""Seconds for a server to listen."""

Figures = dict[str, dict[str, tuple[float, float]]]
"""By what carries it out, and operation: microseconds of processor time, and by the clock."""


def fabric_figures() -> Figures:
    """Through libfabric's providers and ours; none where the program cannot be compiled, or a provider fails."""
    found: Figures = {}
    if libfabric.why_not() is not None:
        return found
    for provider in PROVIDERS:
        environment = environment_of(provider)
        if environment is None:
            continue
        try:
            alone = libfabric.libfabric_rates(provider, _ALONE, 1, environment)
            many = libfabric.libfabric_rates(provider, _OPERATIONS, _WINDOW, environment)
        except (subprocess.SubprocessError, ValueError):
            continue
        found[provider] = {
            ours: (1e6 / many[name].per_second, alone[name].clock_us) for name, ours in _NAMES.items() if name in many
        }
    return found


def fabric_grid(found: Figures) -> Grid:
    """Return a table with the ratios of Amoeba's processor time to that of each other library."""
    return _grid("8 bytes through libfabric, two processes", "CPU us of both", found)


def ucx_figures() -> Figures:
    """Measure UCX's library and Amoeba's; empty if ``ucx_perftest`` is missing or fails."""
    if shutil.which("ucx_perftest") is None:
        return {}
    ways: dict[str, Mapping[str, str] | None] = {"amoeba": _libucp(), "UCX over tcp": {"UCX_TLS": "tcp,self"}}
    found: Figures = {}
    for name, environment in ways.items():
        rows = {test: _perftest(test, environment) for test in UCX_TESTS} if environment is not None else {}
        found[name] = {test: row for test, row in rows.items() if row is not None}
    return found


def ucx_grid(found: Figures) -> Grid:
    return _grid("8 bytes by ucx_perftest, two processes", "client's CPU us", found)


def _grid(title: str, processor: str, found: Figures) -> Grid:
    own = found.get("amoeba", {})
    rows = [
        (each, name, round(cpu, 1), round(clock, 1), round(own[each][0] / cpu, 1) if each in own else "")
        for name, operations in found.items()
        for each, (cpu, clock) in operations.items()
    ]
    rows.sort(key=lambda row: row[0])  # those of one operation together
    return Grid(title, ("operation", "through", processor, "us by the clock", "CPU, ours / this"), rows)


def _libucp() -> Mapping[str, str] | None:
    """Return the variables by which UCX's programs find Amoeba's library; None if the build fails."""
    try:
        from amoeba.embed import build
        from amoeba.openucx.libucp.library import LIBRARY

        return {"LD_LIBRARY_PATH": str(build(LIBRARY).parent)}
    except (FabricError, ImportError):
        return None


def _perftest(test: str, environment: Mapping[str, str]) -> tuple[float, float] | None:
    """Microseconds of processor time and by the clock; None without a figure, or with less than starts differ by."""
    short = _run(test, _SHORT, environment)
    if short is None:
        return None
    for count in _LONG:
        long = _run(test, count, environment)
        if long is None:
            return None
        spent = long[1] - short[1]
        if spent >= _NOISE:
            return 1e6 * spent / (count - _SHORT), long[0]
    return None


def _run(test: str, count: int, environment: Mapping[str, str]) -> tuple[float, float] | None:
    """Microseconds of an operation as the client prints them, and its processor time in seconds."""
    client = ["ucx_perftest", "127.0.0.1", "-t", test, "-n", str(count), "-w", "50", "-s", "8", "-f"]
    ran = timed_pair(["ucx_perftest"], client, environment, _SETTLING)
    latency = None if ran is None else parse_perftest(ran[0])
    return None if ran is None or latency is None else (latency, ran[1])


def parse_perftest(printed: str) -> float | None:
    """Parse the average latency in microseconds of the last line of figures; None without such a line."""
    for line in reversed(printed.splitlines()):
        words = line.split()
        if len(words) >= 4 and words[0].isdecimal():
            return float(words[3])  # iterations, median, average of the last second, average of all
    return None
