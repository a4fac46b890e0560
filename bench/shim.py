"""Time of the provider's own part of a call: from libfabric's table in C to the driver's method, and back.

The library is the provider's, with its functions in Python; they reach an endpoint, a queue and a counter that do
nothing.
"""

import dataclasses
import struct
from typing import Any

from amoeba.embed import Binding, Memory
from amoeba.libfabric.objects.constants import WaitObj
from amoeba.libfabric.provider.fids import FidClass, Fids
from amoeba.libfabric.provider.infos import Infos
from amoeba.libfabric.provider.library import LIBRARY as PROVIDER
from amoeba.libfabric.provider.objects import QueueSettings
from amoeba.libfabric.provider.process import Process
from amoeba.libfabric.provider.queues import Queues
from amoeba.libfabric.provider.transfers import Transfers, Vectors
from amoeba.libfabric.provider.triggers import Triggers

from bench import shim_ucp
from bench.report import Grid
from bench.shim_cost import COST_C, cost

__all__ = ["LIBRARY", "LIMIT", "grid", "measure", "misses", "start"]

LIMIT = 5.0
"""Microseconds of processor time that a call may take."""
_KINDS = ("fi_write", "fi_fetch_atomic", "fi_tsend", "fi_trecv", "fi_cq_read of an entry", "fi_cntr_read")
"""In the order of the C function."""
_BODY = """
static void *shim_ep, *shim_cq, *shim_cntr;
static void shim_objects(uintptr_t ep, uintptr_t cq, uintptr_t cntr) {
    shim_ep = (void *)ep, shim_cq = (void *)cq, shim_cntr = (void *)cntr;
}
static long shim_called(int kind) {
    static uint64_t memory[8];
    switch (kind) {
    case 0: return ops_rma.write(shim_ep, memory, 8, NULL, 0, 0, 7, NULL);
    case 1: return ops_atomic.readwrite(shim_ep, memory, 1, NULL, memory + 1, NULL, 0, 0, 7, 7, 2, NULL);
    case 2: return ops_tagged.send(shim_ep, memory, 8, NULL, 0, 1, NULL);
    case 3: return ops_tagged.recv(shim_ep, memory, 8, NULL, 0, 1, 0, NULL);
    case 4: return ops_cq.read(shim_cq, memory, 1) - 1;
    default: return (long)ops_cntr.read(shim_cntr);
    }
}
static long shim_call(int kind) { return shim_called(kind) ? -1 : 0; }
static void shim_begin(void) { prov_getinfo(0, NULL, NULL, 0, NULL, NULL); }
"""
LIBRARY = dataclasses.replace(
    PROVIDER,
    name="libamoeba-shim.so",
    entry="bench.shim",
    helpers=PROVIDER.helpers + "void shim_objects(uintptr_t ep, uintptr_t cq, uintptr_t cntr);",
    source=PROVIDER.source + _BODY + COST_C,
)


class _Nothing:
    """An endpoint, a queue and a counter. The queue has an entry whenever it is asked."""

    op_flags = 0
    _entries = [((0, 0, 0, 0, 0), 0)]

    def write(self, *arguments: Any, context: Any) -> None: ...

    fetch_atomic = tsend = write

    def trecv(self, *arguments: Any, src_addr: int, context: Any) -> None: ...

    def readfrom(self, count: int) -> list[tuple[tuple[int, ...], int]]:
        return self._entries

    def read(self) -> int:
        return 0


def _nothing(*arguments: Any) -> None: ...


def start(binding: Binding) -> None:
    """Define the library's functions: those that are measured as the provider does, all others as nothing."""
    ffi, lib = binding.ffi, binding.lib
    memory, fids = Memory(ffi), Fids(ffi, lib)
    triggers = Triggers(ffi, memory, fids)
    transfers = Transfers(ffi, memory, fids, Vectors(memory, triggers), triggers)
    queues = Queues(ffi, memory, fids, Infos(ffi, lib, memory), Process())
    nothing = _Nothing()
    ep, cq, cntr = (fids.add(kind, nothing) for kind in (FidClass.EP, FidClass.CQ, FidClass.CNTR))
    fids.posting[ep.address] = fids.receiving[ep.address] = nothing  # type: ignore[assignment]
    cq.more = QueueSettings(WaitObj.FI_WAIT_NONE, struct.Struct("=QQQQQ"))
    lib.shim_objects(ep.address, cq.address, cntr.address)
    measured = {"ep_rma", "ep_atomic", "ep_send", "ep_recv", "cq_read", "cntr_read"}
    for function in LIBRARY.functions:
        part = next((part for part in (transfers, queues) if hasattr(part, function.name)), None)
        done = getattr(part, function.name) if function.name in measured else _nothing
        binding.define(function.name, done, lambda error: 99)


def measure() -> dict[str, float]:
    """Microseconds of processor time by call, the provider's and libucp's; nothing where no library can be built."""
    return cost(LIBRARY, _KINDS) | cost(shim_ucp.LIBRARY, shim_ucp.KINDS)


def misses(found: dict[str, float]) -> list[str]:
    return [name for name, cost in found.items() if cost > LIMIT]


def grid(found: dict[str, float]) -> Grid:
    rows = [(name, round(cost, 2), LIMIT) for name, cost in found.items()]
    return Grid(
        "the provider's and libucp's part of a call, over a driver that does nothing",
        ("call", "CPU us", "at most"),
        rows,
    )
