"""The contexts of a NIC: their users, and their settings."""

import contextlib
from collections.abc import Callable, Collection
from dataclasses import dataclass

from amoeba_model.device import DeviceClosedError, DeviceError
from amoeba_model.registers import ContextControl
from amoeba_model.trace import NO_CONTEXT

from amoeba.core.buffers import address_of, allocate
from amoeba.core.errno import Errno
from amoeba.core.errors import FabricError, fabric_error
from amoeba.core.log import logger
from amoeba.nic import watching
from amoeba.nic.dma import DmaMap
from amoeba.nic.event_counters import EventCounters
from amoeba.nic.registers import Registers
from amoeba.nic.watching import RingMemory

__all__ = ["ContextSettings", "ContextTable"]

_log = logger("nic.contexts")
_MORE = "a simulated NIC can have up to 32: NicParameters(contexts=...), or AMOEBA_CONTEXTS of a C program"


@dataclass(frozen=True)
class ContextSettings:
    """Settings of a context, programmed when an endpoint is enabled; sizes are log2 of entries."""

    transmit_base: int
    transmit_size: int
    completion_base: int
    completion_size: int
    domain: int
    job_id: int
    pid_on_fep: int
    relative: bool = False
    """``pid_on_fep`` counts within the job."""
    cswap_by_bits: bool = False
    event_base: int = 0
    """0: without an event ring."""
    event_size: int = 0
    receive_base: int = 0
    receive_size: int = 0
    unexpected_base: int = 0
    """0: without messages."""
    read_counter: int = 0
    """Event counters of peers' operations; 0: none."""
    write_counter: int = 0
    receive_context: int | None = None
    """The context whose receives match the messages; None: its own."""
    data_by_key: bool = False
    """Reads carry immediate data only by keys that allow it."""
    announce: bool = False
    """A message without a matching receive writes an event ARRIVED."""


class ContextTable:
    """The contexts of one NIC."""

    def __init__(self, registers: Registers, dma: DmaMap, event_counters: EventCounters) -> None:
        self._registers = registers
        self._dma = dma
        self._event_counters = event_counters
        self._total = registers.parameters.contexts
        self.free = list(range(self._total))
        """Free contexts, the one unused longest first."""
        self.retired: list[Callable[[], bool]] = []
        """Functions that return whether a closed context's operations have ended and the context is free again."""
        self._answers: memoryview | None = None
        self._enabled: set[int] = set()
        self.lost = False
        """The NIC was reset, or is gone: its state is lost, and the driver no longer accesses it."""

    def take(self) -> int:
        """Take a free context; prefer those that leave the most free ones side by side, then the one unused longest.

        Raises FI_ENOSPC when all contexts are in use.
        """
        self.reclaim()
        free = self.free
        if not free:
            raise self._all_used()

        def cost(context: int) -> tuple[int, bool]:
            run = _run(context, free)
            return len(run), context not in (run[0], run[-1])

        context = min(free, key=cost)
        free.remove(context)
        return context

    def take_last(self) -> int:
        """Take the free context with the highest number, for uses without an address: endpoints get low numbers.

        Raises FI_ENOSPC when all contexts are in use.
        """
        self.reclaim()
        if not self.free:
            raise self._all_used()
        context = max(self.free)
        self.free.remove(context)
        return context

    def take_block(self, count: int) -> int:
        """Take ``count`` free contexts side by side; return the first. Raises FI_ENOSPC without such a block."""
        self.reclaim()
        free = set(self.free)
        for first in range(self._total - count + 1):
            block = set(range(first, first + count))
            if block <= free:
                self.free = [context for context in self.free if context not in block]
                return first
        raise fabric_error(
            Errno.FI_ENOSPC,
            f"expected {count} endpoint contexts side by side, {len(free)} of {self._total} are free; {_MORE}",
        )

    def _all_used(self) -> FabricError:
        return fabric_error(Errno.FI_ENOSPC, f"all {self._total} endpoint contexts are in use; {_MORE}")

    def release(self, context: int) -> None:
        """Free a context, so that nothing meant for its last user reaches the next."""
        with contextlib.suppress(DeviceClosedError):
            self._dma.leave(context)
            self._event_counters.dismiss(context)
        self.free.append(context)

    def reclaim(self) -> None:
        """Free closed contexts whose operations have ended."""
        self.retired = [is_over for is_over in self.retired if not is_over()]

    def enable(self, context: int, settings: ContextSettings) -> None:
        """Program and start a context; its ring indices begin at 0. When this returns, peers can reach it.

        Raises FI_ENODEV if the NIC was reset.
        """
        if self.lost:
            raise fabric_error(Errno.FI_ENODEV, "the NIC was reset and has forgotten everything: open it anew")
        self._provide_answer_memory()
        self._dma.join(context, settings.domain)
        _log.debug("context %d: job %d, process %d", context, settings.job_id, settings.pid_on_fep)
        rings = RingMemory(
            settings.transmit_base, settings.transmit_size, settings.completion_base, settings.completion_size
        )
        watching.enabled(self._registers.device, self._registers.parameters, context, rings)
        # A driver that ended without closing may have left it enabled, and only disabled contexts begin at index 0.
        self._registers.write("contexts", "control", 0, context)
        self._registers.write_wide("contexts", "transmit_base", settings.transmit_base, context)
        self._registers.write("contexts", "transmit_size", settings.transmit_size, context)
        self._registers.write_wide("contexts", "completion_base", settings.completion_base, context)
        self._registers.write("contexts", "completion_size", settings.completion_size, context)
        self._registers.write("contexts", "domain", settings.domain, context)
        self._registers.write("contexts", "job_id", settings.job_id, context)
        self._registers.write("contexts", "pid_on_fep", settings.pid_on_fep, context)
        self._registers.write_wide("contexts", "event_base", settings.event_base, context)
        self._registers.write("contexts", "event_size", settings.event_size, context)
        self._registers.write_wide("contexts", "receive_base", settings.receive_base, context)
        self._registers.write("contexts", "receive_size", settings.receive_size, context)
        self._registers.write_wide("contexts", "unexpected_base", settings.unexpected_base, context)
        self._registers.write("contexts", "read_counter", settings.read_counter, context)
        self._registers.write("contexts", "write_counter", settings.write_counter, context)
        control = ContextControl.ENABLE
        if settings.relative:
            control |= ContextControl.RELATIVE
        if settings.cswap_by_bits:
            control |= ContextControl.CSWAP_BY_BITS
        if settings.receive_context is not None:
            self._registers.write("contexts", "receive_context", settings.receive_context, context)
            control |= ContextControl.SHARES_RECEIVES
        if settings.data_by_key:
            control |= ContextControl.DATA_BY_KEY
        if settings.announce:
            control |= ContextControl.ANNOUNCE
        self._registers.write("contexts", "control", control, context)
        self._registers.flush()
        self._enabled.add(context)

    def find_lost(self) -> bool:
        """Return whether the NIC was reset or is gone: it forgot enabled contexts, or no longer answers.

        Once true, the result stays true.
        """
        if not self.lost:
            try:
                self._registers.flush()
                controls = [self._registers.read("contexts", "control", context) for context in self._enabled]
            except DeviceClosedError:
                raise
            except DeviceError as error:
                _log.error("the NIC does not answer: %s", error)
                controls = [0]
            self.lost = not all(control & ContextControl.ENABLE for control in controls)
        return self.lost

    def _provide_answer_memory(self) -> None:
        """Give the NIC the memory in which it keeps long answers, once.

        The NIC owns the memory until the NIC is closed. Pages without answers cost nothing.
        """
        if self._answers is None:
            parameters = self._registers.parameters
            self._answers = allocate(parameters.target_pdcs * parameters.window * parameters.payload)
            address = address_of(self._answers)
            self._dma.grant(address, self._answers.nbytes, writable=True, whose=NO_CONTEXT)
            self._registers.write_wide("device", "answer_base", address)

    def disable(self, context: int) -> None:
        """Stop a context; when this returns, the NIC takes no more descriptors and requests for it."""
        self._enabled.discard(context)
        self._registers.write("contexts", "control", 0, context)
        self._registers.flush()
        watching.disabled(self._registers.device, context)
        _log.debug("context %d: stopped", context)


def _run(context: int, free: Collection[int]) -> range:
    """Return the free contexts side by side that include this one."""
    first = last = context
    while first - 1 in free:
        first -= 1
    while last + 1 in free:
        last += 1
    return range(first, last + 1)
