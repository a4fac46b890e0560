"""Processor time of a library's functions, taken in C."""

import os
import subprocess
import sys
from collections.abc import Sequence

from amoeba import FabricError
from amoeba.embed import CLibrary, build

__all__ = ["COST_C", "cost"]

_CALLS = 20_000
COST_C = """
#include <time.h>
static double shim_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return now.tv_sec + now.tv_nsec / 1e9;
}
__attribute__((visibility("default"))) double shim_cost(int kind, int calls) {
    double begin;
    if (kind < 0) {
        shim_begin();
        return 0;
    }
    begin = shim_seconds();
    for (int index = 0; index < calls; index++)
        if (shim_call(kind) < 0)
            return -1;
    return (shim_seconds() - begin) / calls * 1e6;
}
"""
"""Goes behind ``long shim_call(int kind)``, negative where a call has failed, and ``void shim_begin(void)``, which
starts Python."""


def cost(library: CLibrary, kinds: Sequence[str]) -> dict[str, float]:
    """Microseconds of processor time by kind of call; nothing where no library can be built."""
    try:
        path = build(library)
    except FabricError:
        return {}
    code = (
        "import ctypes, sys\n"
        "cost = ctypes.CDLL(sys.argv[1]).shim_cost\n"
        "cost.restype = ctypes.c_double\n"
        "cost(-1, 0)\n"
        f"print(*(min(cost(kind, {_CALLS}) for _ in range(5)) for kind in range({len(kinds)})))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True, env=dict(os.environ)
    )
    found = dict(zip(kinds, map(float, done.stdout.split()), strict=True))
    if min(found.values()) < 0:
        raise RuntimeError(f"a call has failed: {found}; {done.stderr}")
    return found
