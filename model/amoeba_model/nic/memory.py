"""MemoryEngine: reads, writes and atomics on target memory, in order, line by line."""

from amoeba_model.atomic.element import execute_element
from amoeba_model.atomic.elements import execute_elements
from amoeba_model.nic.checker import MemoryRequest
from amoeba_model.nic.core import Core
from amoeba_model.nic.host import HostMemory
from amoeba_model.nic.lines import LineTable
from amoeba_model.nic.timing import EXECUTE, HOST_READ
from amoeba_model.opcodes import Datatype
from amoeba_model.registers import Counter
from amoeba_model.trace import NO_CONTEXT, Requester, Stage

__all__ = ["MemoryEngine", "atomic_beats"]

_ATOMIC_BEATS = Counter.ATOMIC_BEATS.value
_LINE_HITS = Counter.LINE_HITS.value
_REQUESTER = Requester.LINE_TABLE
_LINE_READS = Counter.LINE_READS.value
_LINE_WRITES = Counter.LINE_WRITES.value
_SIZES = [datatype.size for datatype in Datatype]


class MemoryEngine:
    """Executes checked requests.

    RMA writes need no old bytes and read no line. Any other request touches memory only if the host lets the NIC
    read all of it. Writes are posted: that the host refused one is counted and listed, and not answered.
    """

    def __init__(self, core: Core, host: HostMemory) -> None:
        self._core = core
        self._host = host
        self._lines = LineTable()
        self._executed = 0
        """Cycle in which the last request went through; the hardware lets those for other lines pass."""

    def execute(self, request: MemoryRequest, pdc: int, psn: int, cycle: int) -> tuple[bytes | None, int]:
        """MemoryEngine: do the request; ``pdc`` and ``psn`` are for the trace.

        Returns what it answers: the old bytes if they were asked for, else nothing; None if the host refused a line
        read. And the cycle when that may leave: all changed lines have been handed to the host.
        """
        if not request.length:
            return b"", cycle
        core = self._core
        old, new = b"", request.operand
        if request.datatype is not None and new is not None:
            beats = atomic_beats(request.datatype, request.address, request.length, core.beat_bytes)
            core.counters[_ATOMIC_BEATS] += beats
        if request.op is None and new is not None:
            cycle += EXECUTE
        else:
            bytes_there = self._host.look(request.address, request.length, request.context)
            if bytes_there is None:
                self._refuse_lines(request)
                return None, cycle + HOST_READ
            cycle = self.fetch_lines(request, pdc, cycle) + EXECUTE
            old = bytes_there
            new = self.compute(request, old)
        if cycle < self._executed:
            cycle = self._executed
        self._executed = cycle
        if core.tracing:
            core.trace(cycle, Stage.EXECUTED, NO_CONTEXT, pdc, psn)
        if new is not None:
            cycle = self.write_lines(request, new, cycle)
        return (old if request.returns_data else b""), cycle

    def fetch_lines(self, request: MemoryRequest, pdc: int, cycle: int) -> int:
        """LineTable: fetch the lines that are not on their way; the cycle at which the last one is at hand."""
        core = self._core
        first = request.address // core.beat_bytes
        count = (request.address + request.length - 1) // core.beat_bytes - first + 1
        at_hand, missing = self._lines.fetch(first, count, cycle)
        reads = sum([len(lines) for lines in missing]) if missing else 0
        core.counters[_LINE_READS] += reads
        core.counters[_LINE_HITS] += count - reads
        if core.tracing:
            for lines in missing:
                for line in lines:
                    core.trace(cycle + line - first, Stage.LINE_READ, NO_CONTEXT, pdc, line * core.beat_bytes)
        return at_hand

    def compute(self, request: MemoryRequest, old: bytes) -> bytes | None:
        """FastLanes and ArithmeticPipeline: the memory's new bytes; None if the request only reads."""
        operand = request.operand
        if operand is None or request.op is None or request.datatype is None:
            return None
        if request.length == _SIZES[request.datatype]:
            return execute_element(
                request.op,
                request.datatype,
                old,
                operand,
                request.compare,
                cswap_by_bits=request.cswap_by_bits,
            )
        return execute_elements(
            request.op,
            request.datatype,
            old,
            operand,
            request.compare,
            cswap_by_bits=request.cswap_by_bits,
        )

    def write_lines(self, request: MemoryRequest, new: bytes, cycle: int) -> int:
        """LineTable: hand the changed lines to the host's ordered write channel; the cycle of the last one."""
        core = self._core
        beat_bytes = core.beat_bytes
        address = request.address
        self._host.write(address, new, _REQUESTER, request.context)
        offset = address % beat_bytes
        count = (offset + request.length + beat_bytes - 1) // beat_bytes
        core.counters[_LINE_WRITES] += count
        if core.tracing:
            first = address - offset
            for number in range(count):
                core.trace(cycle + number + 1, Stage.LINE_WRITTEN, NO_CONTEXT, 0, first + number * beat_bytes)
        return cycle + count

    def _refuse_lines(self, request: MemoryRequest) -> None:
        """Report the lines that the host does not let the NIC read, clipped to the request."""
        beat_bytes = self._core.beat_bytes
        end = request.address + request.length
        address = request.address
        while address < end:
            size = min(beat_bytes - address % beat_bytes, end - address)
            if not self._host.allows(address, size, False, request.context):
                self._host.refuse(address, size, False, _REQUESTER, request.context)
            address += size


def atomic_beats(datatype: Datatype, address: int, length: int, beat_bytes: int) -> int:
    """Beats that the atomic unit calculates for an atomic on ``length`` bytes: see Counter.ATOMIC_BEATS."""
    step = _SIZES[datatype]
    if step > beat_bytes:
        step = beat_bytes
    if address % step:
        return length // step
    return (address % beat_bytes + length + beat_bytes - 1) // beat_bytes
