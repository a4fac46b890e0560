"""The same operations as others do them on this host, as far as they are installed: UDP, MPI, libfabric."""

import subprocess
from collections.abc import Callable, Mapping
from typing import Any

from amoeba_model.extras import installation

from bench import libfabric, mpi
from bench.peer import Call, request_response_rate
from bench.report import Grid

__all__ = ["UDP", "measure", "rates_grid", "ratios_grid"]

UDP = ("8 bytes there and back over UDP", "")
"""Call that all others are compared with."""
_SAME = {
    "fi_fetch_atomic": "fetch_atomic",
    "fi_write, 8 bytes": "write, 8 bytes",
    "fi_tsend, 8 bytes": "tagged send, 8 bytes",
}
"""libfabric's calls, as its bench names them, and the driver's."""

Measured = dict[tuple[str, str], Call]
"""By call and what carries it out."""


def measure(operations: int, window: int) -> tuple[Measured, list[tuple[str, str]]]:
    """Measure the calls of others, ``window`` operations in flight; return also which failed, and why."""
    found = {UDP: Call.alone(request_response_rate(10 * operations, window))}
    missing: list[tuple[str, str]] = []

    def try_out(what: str, reason: str | None, rates: Callable[[], Mapping[str, Call]]) -> None:
        if reason is not None:
            missing.append((what, reason))
            return
        try:
            found.update({(call, what): figures for call, figures in rates().items()})
        except (subprocess.SubprocessError, ValueError) as error:
            missing.append((what, _last_line(error)))

    for transport in mpi.TRANSPORTS:
        try_out(
            transport,
            None if mpi.available() else f"no mpi4py: {installation('bench')}",
            lambda transport=transport: {
                f"MPI {call}": Call.alone(rate) for call, rate in mpi.mpi_rates(transport, operations, window).items()
            },
        )
    for provider in libfabric.PROVIDERS:
        try_out(
            f"libfabric's {provider}",
            libfabric.why_not(),
            lambda provider=provider: libfabric.libfabric_rates(provider, operations, window),
        )
    return found, missing


def _last_line(error: Exception) -> str:
    """Return the last line of a program that failed."""
    printed = (error.stderr if isinstance(error, subprocess.CalledProcessError) else "") or str(error)
    return printed.strip().splitlines()[-1]


def rates_grid(calls: Mapping[str, Mapping[str, Any]], others: Measured) -> Grid:
    """Rates of the driver's calls (see :func:`bench.driver_rate.measure`) and of others'."""
    peer = others[UDP].per_second
    rows: list[tuple[object, ...]] = [
        (name, call["per_second"], call["per_second"] / peer, call["alone_ns"], f"{call['driver_share']:.0%}")
        for name, call in calls.items()
    ]
    for (name, what), call in others.items():
        share = f"{call.call_ns * call.per_second / 1e9:.0%}"
        rows.append(
            (", ".join(filter(None, (name, what))), round(call.per_second), call.per_second / peer,
             round(call.call_ns), share)
        )  # fmt: skip
    header = ("operation", "per CPU second", "ratio to UDP", "ns in the call", "share of the call")
    return Grid("driver on two model devices, in one process", header, rows)


def ratios_grid(calls: Mapping[str, Mapping[str, Any]], others: Measured) -> Grid:
    """Compare the driver's calls with libfabric's, by provider; without rows if no provider was measured."""
    rows = [
        (
            _SAME[name],
            f"{name.split(',')[0]}, {what}",
            calls[_SAME[name]]["alone_ns"] / call.call_ns,
            calls[_SAME[name]]["per_second"] / call.per_second,
        )
        for (name, what), call in others.items()
        if name in _SAME
    ]
    header = ("call of the driver", "call of libfabric", "ratio of CPU time in the call", "ratio of operations")
    return Grid("driver and libfabric, as ratios of this run", header, rows)
