"""fi_pingpong, libfabric's own program, over Amoeba's provider and over libfabric's, in one run.

The figures are half a round trip by the program's clock, and the client's processor time per transfer. The latter is
the difference of a long run and a short one, which excludes the start of a process.
"""

import os
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence

from amoeba import FabricError

from bench.report import Grid

__all__ = ["PROVIDERS", "environment_of", "grid", "measure", "timed_pair"]

PROVIDERS = ("amoeba", "sockets", "tcp;ofi_rxm")
_SIZES = (64, 4096)
_SHORT, _LONG = 100, 1100
_SETTLING = 1.0
"""Seconds for a server to listen."""
_PATIENCE = 120.0

Figures = dict[str, dict[int, tuple[float, float]]]
"""By provider and size: microseconds of half a round trip, and of processor time for each transfer."""


def measure() -> Figures:
    """Measure the figures; empty where fi_pingpong is missing, and without providers that are not available."""
    if shutil.which("fi_pingpong") is None:
        return {}
    found: Figures = {}
    for provider in PROVIDERS:
        environment = environment_of(provider)
        if environment is None:
            continue
        rows = {size: _figures(provider, size, environment) for size in _SIZES}
        found[provider] = {size: row for size, row in rows.items() if row is not None}
    return found


def grid(found: Figures) -> Grid:
    """Return a table with the ratios of Amoeba's times to those of each other provider."""
    ours = found.get("amoeba", {})
    rows = [
        (provider, size, round(half, 1), round(cpu, 1), round(ours[size][0] / half, 1) if size in ours else "")
        for provider, sizes in found.items()
        for size, (half, cpu) in sizes.items()
    ]
    columns = ("provider", "bytes", "half a round trip, us", "client's CPU for a transfer, us", "ours / this")
    return Grid("fi_pingpong between two processes of this host, two model NICs in ours", columns, rows)


def environment_of(provider: str) -> Mapping[str, str] | None:
    """Return the variables by which a program finds the provider; None if the build fails."""
    if provider != "amoeba":
        return {}
    try:
        from amoeba.embed import build
        from amoeba.libfabric.provider.library import LIBRARY

        path = build(LIBRARY)
    except (FabricError, ImportError):
        return None
    return {"FI_PROVIDER_PATH": str(path.parent), "FI_PROVIDER": "amoeba"}


def _figures(provider: str, size: int, environment: Mapping[str, str]) -> tuple[float, float] | None:
    short, long = (_run(provider, size, count, environment) for count in (_SHORT, _LONG))
    if short is None or long is None:
        return None
    return long[0], 1e6 * (long[1] - short[1]) / (_LONG - _SHORT) / 2


def _run(provider: str, size: int, count: int, environment: Mapping[str, str]) -> tuple[float, float] | None:
    """Microseconds for a transfer as the client prints them, and its processor time in seconds; None if it failed."""
    command = ["fi_pingpong", "-p", provider, "-e", "rdm", "-I", str(count), "-S", str(size)]
    ran = timed_pair(command, [*command, "127.0.0.1"], environment, _SETTLING)
    lines = [] if ran is None else ran[0].splitlines()
    return None if ran is None or len(lines) < 2 else (float(lines[-1].split()[6]), ran[1])


def timed_pair(
    server: Sequence[str], client: Sequence[str], environment: Mapping[str, str], settling: float
) -> tuple[str, float] | None:
    """Run a server and a client; return the client's output and processor time in seconds, or None if it failed.

    ``settling``: seconds for the server to listen.
    """
    together = {**os.environ, **environment}
    serving = subprocess.Popen(server, env=together, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        time.sleep(settling)
        asking = subprocess.Popen(
            client, env=together, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert asking.stdout is not None
        with asking.stdout as output:
            printed = output.read()
        _, status, used = os.wait4(asking.pid, 0)
        asking.returncode = os.waitstatus_to_exitcode(status)
        serving.wait(_PATIENCE)
    except subprocess.TimeoutExpired:
        return None
    finally:
        serving.kill()
        serving.wait()
    return None if asking.returncode else (printed, used.ru_utime + used.ru_stime)
