"""Tests of libfabric on the other side's memory: RMA and atomics."""

from collections import deque
from typing import Any

from amoeba_model.atomic.element import execute_element
from amoeba_model.atomic.matrix import COMPARE_OPS
from amoeba_model.opcodes import Datatype, Op

from amoeba_tools.perf.fi_side import FiSide
from amoeba_tools.perf.meter import Meter
from amoeba_tools.perf.plan import DATATYPES
from amoeba_tools.perf.sides import Steps

__all__ = ["Operations", "WritePingPong", "operations_of"]


class WritePingPong:
    """Messages that are written where the other side looks for them."""

    def __init__(self, side: FiSide) -> None:
        self._side = side
        self._memory = memoryview(side.memory)[: side.plan.size]
        self._outstanding = 0

    def send(self, number: int, peer: int) -> Steps:
        while self._outstanding:
            yield
        side, to = self._side, self._side.peers[peer]
        self._outstanding = 1
        content = side.payloads.of(number)
        yield from side.posted(side.ep.write, content, to.fi_addr, to.address, to.key, context=self._over)

    def receive(self, number: int, peer: int) -> Steps:
        """Wait for the last byte, and with verification for all bytes of the message."""
        memory, content, last = self._memory, self._side.payloads.of(number), self._side.plan.size - 1
        while memory[last] != content[last] or (self._side.plan.verify and bytes(memory) != content):
            yield

    def finish(self) -> Steps:
        while self._outstanding:
            yield

    def _over(self, entry: Any) -> None:
        self._outstanding = 0


class Operations:
    """Operations of the client, with a window outstanding; servers only make progress."""

    def __init__(self, side: FiSide) -> None:
        self.side, self.plan = side, side.plan
        self.own = range(side.index, side.plan.total, side.plan.peers)
        """Numbers of the operations on a server's memory."""
        self.free = deque(range(side.plan.window))
        """Slots without an outstanding operation."""

    def prepare_target(self) -> None:
        """Fill a server's memory."""

    def where(self, number: int) -> tuple[int, int, int]:
        """(address of the peer, address and key of the memory) of the operation of this number."""
        peers = self.side.peers
        peer = peers[number % len(peers)]
        return peer.fi_addr, peer.address + self.offset(number), peer.key

    def offset(self, number: int) -> int:
        """Return the slot's offset in the server's memory."""
        return number // self.plan.peers % self.side.places * self.plan.size

    def post(self, number: int, place: int) -> Steps:
        """Post the operation of this number."""
        raise NotImplementedError

    def take(self, number: int, place: int, entry: Any) -> None:
        """Check the result of an operation."""

    def verify_target(self) -> None:
        """Note what is wrong in a server's memory, at the end."""

    def run(self, meter: Meter) -> Steps:
        """Run all operations of the client."""
        plan = self.plan
        for numbers, meant in ((range(plan.warmup), False), (range(plan.warmup, plan.total), True)):
            if meant:
                meter.start()
            for number in numbers:
                while not self.free:
                    yield
                yield from self.post(number, self.free.popleft())
                if meant:
                    meter.update()
            while len(self.free) < plan.window:
                yield
            if meant:
                meter.finish()

    def over(self, number: int, place: int) -> Any:
        """Return a context whose completion takes the result and frees the slot."""

        def ended(entry: Any) -> None:
            self.take(number, place, entry)
            self.free.append(place)

        return ended


class _Write(Operations):
    def post(self, number: int, place: int) -> Steps:
        side = self.side
        yield from side.posted(
            side.ep.write, side.payloads.of(number), *self.where(number), context=self.over(number, place)
        )

    def verify_target(self) -> None:
        size = self.plan.size
        for number in self.own[-self.side.places :]:
            place = self.offset(number)
            found = bytes(memoryview(self.side.memory)[place : place + size])
            self.side.findings.expect(found, self.side.payloads.of(number), f"write {number}")


class _WriteData(_Write):
    """With immediate data; each is an entry of the server's queue."""

    def post(self, number: int, place: int) -> Steps:
        side = self.side
        yield from side.posted(
            side.ep.writedata, side.payloads.of(number), number, *self.where(number), context=self.over(number, place)
        )


class _Read(Operations):
    def __init__(self, side: FiSide) -> None:
        super().__init__(side)
        self._buffers = [bytearray(self.plan.size) for _ in range(self.plan.window)]

    def prepare_target(self) -> None:
        size, memory = self.plan.size, memoryview(self.side.memory)
        for place in range(self.side.places):
            content = self.side.payloads.of(place * self.plan.peers + self.side.index)
            memory[place * size : (place + 1) * size] = content

    def post(self, number: int, place: int) -> Steps:
        side = self.side
        yield from side.posted(
            side.ep.read, self._buffers[place], *self.where(number), context=self.over(number, place)
        )

    def take(self, number: int, place: int, entry: Any) -> None:
        if self.plan.verify:
            content = self.side.payloads.of(number % (self.side.places * self.plan.peers))
            if self._buffers[place] != content:
                self.side.findings.expect(self._buffers[place], content, f"read {number}")
            self._buffers[place][:1] = b"\0"


class _Element:
    """An element of a server's memory, as the model has it."""

    def __init__(self, op: Op, datatype: Datatype, operand: bytes) -> None:
        self._op, self._datatype = op, datatype
        self._operand = None if op is Op.FI_ATOMIC_READ else operand
        self._compare = bytes(len(operand)) if op in COMPARE_OPS else None
        self._state, self._known = bytes(len(operand)), 0
        """Known value after a number of operations."""

    def after(self, count: int) -> bytes:
        """Return the value after so many operations, no fewer than in the previous call."""
        while self._known < count:
            before = self._state
            self._state = execute_element(self._op, self._datatype, before, self._operand, self._compare)
            self._known += 1
            if self._state == before:  # and so it stays
                self._known = count
        return self._state


class _Atomic(Operations):
    """One operation again and again on the same elements; what each finds and leaves follows from the one before."""

    def __init__(self, side: FiSide) -> None:
        super().__init__(side)
        name = self.plan.operation
        self._fetches = name.startswith("fetch_") or name == "atomic_read"
        self._op = Op[f"FI_{name.removeprefix('fetch_').upper()}"]
        self._datatype = DATATYPES[self.plan.datatype]
        self._compares = self._op in COMPARE_OPS
        element = (1).to_bytes(self._datatype.size, "little")
        self._count = self.plan.size // self._datatype.size
        self._operand, self._compare = element * self._count, bytes(len(element)) * self._count
        self._results = [bytearray(self.plan.size) for _ in range(self.plan.window)]
        self._elements = [_Element(self._op, self._datatype, element) for _ in range(self.plan.peers)]

    def offset(self, number: int) -> int:
        return 0

    def post(self, number: int, place: int) -> Steps:
        side, op, datatype = self.side, self._op, self._datatype
        where = *self.where(number), op, datatype
        context = self.over(number, place)
        operand = None if op is Op.FI_ATOMIC_READ else self._operand
        if self._compares:
            yield from side.posted(
                side.ep.compare_atomic, operand, self._compare, self._results[place], *where, context=context
            )
        elif self._fetches:
            yield from side.posted(side.ep.fetch_atomic, operand, self._results[place], *where, context=context)
        else:
            yield from side.posted(side.ep.atomic, operand, *where, context=context)

    def take(self, number: int, place: int, entry: Any) -> None:
        if self.plan.verify and (self._fetches or self._compares):
            element = self._elements[number % self.plan.peers]
            expected = element.after(number // self.plan.peers) * self._count
            if self._results[place] != expected:
                self.side.findings.expect(self._results[place], expected, f"atomic {number} found")

    def verify_target(self) -> None:
        found, count = bytes(memoryview(self.side.memory)[: self.plan.size]), len(self.own)
        expected = self._elements[self.side.index].after(count) * self._count
        self.side.findings.expect(found, expected, f"memory after {count} atomics")


_RMA: dict[str, type[Operations]] = {
    "write": _Write,
    "read": _Read,
    "writedata": _WriteData,
}


def operations_of(side: FiSide) -> Operations:
    """Return the operations of the plan's client."""
    plan = side.plan
    return _Atomic(side) if plan.command == "atomic" else _RMA[plan.operation](side)
