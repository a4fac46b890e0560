"""The event counters of a NIC, which it writes to host memory whenever one advances."""

from amoeba_model.descriptors import EVENT_COUNTER
from amoeba_model.trace import NO_CONTEXT

from amoeba.core.buffers import address_of, allocate
from amoeba.nic.dma import DmaMap
from amoeba.nic.quotas import Quota
from amoeba.nic.records import record_struct
from amoeba.nic.registers import Registers

__all__ = ["EventCounters"]

_COUNTER = record_struct(EVENT_COUNTER)


class EventCounters:
    """The event counters of one NIC; number 0 counts nothing."""

    def __init__(self, registers: Registers, dma: DmaMap) -> None:
        self._registers = registers
        self._dma = dma
        parameters = registers.parameters
        self._quota = Quota("event counters", "protection domain", parameters.event_counters - 1, parameters.contexts)
        self.free = list(range(1, parameters.event_counters))
        """Free counters, the one unused longest first."""
        self._memory: memoryview | None = None
        self._admitted: dict[int, int] = {}
        """By counter in use: the contexts whose descriptors advance it, as a bit mask."""

    def take(self, domain: int) -> int:
        """Take an event counter for a protection domain, set to zero; 0 if all are in use, or kept for other domains.

        Registers may name the counter from now on, but no context's descriptors: see :meth:`admit`.
        """
        if not self._quota.space(domain):
            return 0
        number = self.free.pop(0)
        self._quota.assign(number, domain)
        entry = self._values()
        self._registers.write("device", "counter_clear", number)
        self._let_in(number, 0)
        self._registers.flush()
        start = number * EVENT_COUNTER.size
        entry[start : start + EVENT_COUNTER.size] = bytes(EVENT_COUNTER.size)
        return number

    def release(self, number: int) -> None:
        """Free a counter that nothing advances any more."""
        self._admitted.pop(number, None)
        self._quota.release(number)
        self.free.append(number)

    def refusal(self, domain: int) -> str:
        """Describe why a domain got no counter."""
        return self._quota.refusal(domain)

    def admit(self, number: int, context: int) -> None:
        """Let a context's descriptors advance a counter in use."""
        self._let_in(number, self._admitted[number] | 1 << context)

    def dismiss(self, context: int) -> None:
        """Withdraw all counters from a context's descriptors."""
        for number, contexts in self._admitted.items():
            if contexts >> context & 1:
                self._let_in(number, contexts & ~(1 << context))

    def _let_in(self, number: int, contexts: int) -> None:
        self._admitted[number] = contexts
        self._registers.write("device", "counter_contexts", contexts)
        self._registers.write("device", "counter_admit", number)

    def value(self, number: int) -> tuple[int, int]:
        """(successes, errors) that a counter in use has reached."""
        return _COUNTER.unpack_from(self._values(), number * EVENT_COUNTER.size)

    def _values(self) -> memoryview:
        """Return the memory of the event counters: made at the first use, the NIC's until the NIC is closed."""
        if self._memory is None:
            self._memory = allocate(self._registers.parameters.event_counters * EVENT_COUNTER.size)
            address = address_of(self._memory)
            self._dma.grant(address, self._memory.nbytes, writable=True, whose=NO_CONTEXT)
            self._registers.write_wide("device", "counter_base", address)
        return self._memory
