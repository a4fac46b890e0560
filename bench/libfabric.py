"""Cost of libfabric's own calls on this host: ``libfabric.c``, between two processes, through software providers.

Needs a C compiler and libfabric's headers (Debian: libfabric-dev); without them the bench is skipped.
"""

import functools
import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from bench.peer import Call

__all__ = ["PROVIDERS", "compiled", "libfabric_rates", "parse", "why_not"]

PROVIDERS = ("tcp;ofi_rxm", "shm")
"""Sockets on the loopback interface, below the provider that makes reliable datagrams of them; and shared memory."""
_SOURCE = Path(__file__).with_suffix(".c")
_PROGRAM = Path(__file__).resolve().parents[1] / "build" / "bench" / "libfabric"
_FLAGS = ["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror"]
_TIMEOUT = 90.0
_COMPILERS = ("cc", "gcc", "clang")


def _compiler() -> str | None:
    return next(filter(None, map(shutil.which, _COMPILERS)), None)


@functools.cache
def why_not() -> str | None:
    """Return the reason why the bench cannot run here; None if it can."""
    compiler = _compiler()
    if compiler is None:
        return f"no C compiler: expected one of {', '.join(_COMPILERS)}"
    found = subprocess.run(
        [compiler, "-E", "-x", "c", "-"], input="#include <rdma/fabric.h>\n", capture_output=True, text=True
    )
    return None if found.returncode == 0 else "no rdma/fabric.h: install libfabric-dev"


def compiled() -> Path:
    """Compile the program if it is older than its source. Raises CalledProcessError with the compiler's output."""
    if not _PROGRAM.is_file() or _PROGRAM.stat().st_mtime < _SOURCE.stat().st_mtime:
        compiler = _compiler()
        assert compiler is not None  # why_not() has said so
        _PROGRAM.parent.mkdir(parents=True, exist_ok=True)
        command = [compiler, *_FLAGS, "-o", str(_PROGRAM), str(_SOURCE), "-lfabric"]
        subprocess.run(command, check=True, capture_output=True, text=True)
    return _PROGRAM


def parse(printed: str) -> dict[str, Call]:
    """Parse the program's output, by call. Raises ValueError for anything else."""
    found = json.loads(printed)
    if not isinstance(found, dict) or not found:
        raise ValueError(f"expected an object with a call or more, got {printed!r}")
    try:
        calls = {name: Call(**figures) for name, figures in found.items()}
    except TypeError as error:
        raise ValueError(f"expected per_second and call_ns of each call, got {printed!r}") from error
    if any(call.per_second <= 0 or call.call_ns < 0 for call in calls.values()):
        raise ValueError(f"expected rates above 0, got {printed!r}")
    return calls


def libfabric_rates(
    provider: str, operations: int, window: int, environment: Mapping[str, str] = {}
) -> dict[str, Call]:
    """Measure each call: 8 bytes each, ``window`` in flight between two processes, which spin while they wait.

    The processes spin while they wait. ``environment``: extra variables for the provider.

    Raises CalledProcessError, with the program's output, if the compiler fails or the provider does not work here,
    and TimeoutExpired.
    """
    command = [str(compiled()), provider, str(operations), str(window)]
    ended = subprocess.run(
        command, capture_output=True, text=True, timeout=_TIMEOUT, check=True,
        env={**os.environ, **environment},
    )  # fmt: skip
    return parse(ended.stdout)
