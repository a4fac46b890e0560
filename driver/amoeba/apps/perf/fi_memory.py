"""Tests of libfabric on the other side's memory: RMA and atomics."""

from collections import deque
from typing import Any

from amoeba_model.atomic.element import execute_element
from amoeba_model.atomic.matrix import COMPARE_OPS
from amoeba_model.opcodes import Op

from amoeba.apps.perf.fi_side import FiSide
from amoeba.apps.perf.meter import Meter
from amoeba.apps.perf.plan import DATATYPES
from amoeba.apps.perf.sides import Steps

__all__ = ["Operations", "WritePingPong", "operations_of"]


class WritePingPong:
    """Messages that are written where the other side looks for them."""

    def __init__(self, side: FiSide) -> None:
        self._side = side
        self._memory = memoryview(side.memory)[: side.plan.size]
        self._under_way = 0

    def send(self, number: int) -> Steps:
        while self._under_way:
            yield
        side = self._side
        self._under_way = 1
        content = side.payloads.of(number)
        yield from side.posted(side.ep.write, content, side.peer, side.remote, side.key, context=self._over)

    def receive(self, number: int) -> Steps:
        """The last byte is looked at, and with verification everything: what is not all there is waited for."""
        memory, content, last = self._memory, self._side.payloads.of(number), self._side.plan.size - 1
        while memory[last] != content[last] or (self._side.plan.verify and bytes(memory) != content):
            yield

    def finish(self) -> Steps:
        while self._under_way:
            yield

    def _over(self, entry: Any) -> None:
        self._under_way = 0


class Operations:
    """Operations of the client, of which a window is under way; the server does nothing but making progress."""

    def __init__(self, side: FiSide) -> None:
        self.side, self.plan = side, side.plan
        self.total = side.plan.warmup + side.plan.iterations
        self.free = deque(range(side.plan.window))
        """Places of operations that are not under way."""

    def prepare_target(self) -> None:
        """Fill the server's memory."""

    def post(self, number: int, place: int) -> Steps:
        """Post the operation of this number."""
        raise NotImplementedError

    def take(self, number: int, place: int, entry: Any) -> None:
        """It is over."""

    def verify_target(self) -> None:
        """Note what is wrong in the server's memory, at the end."""

    def run(self, meter: Meter) -> Steps:
        """All operations of the client."""
        number = 0
        for count, meant in ((self.plan.warmup, False), (self.plan.iterations, True)):
            if meant:
                meter.start()
            for _ in range(count):
                while not self.free:
                    yield
                yield from self.post(number, self.free.popleft())
                number += 1
                if meant:
                    meter.update()
            while len(self.free) < self.plan.window:
                yield
            if meant:
                meter.finish()

    def over(self, number: int, place: int) -> Any:
        """What to do when it is: a context."""

        def ended(entry: Any) -> None:
            self.take(number, place, entry)
            self.free.append(place)

        return ended


class _Write(Operations):
    def post(self, number: int, place: int) -> Steps:
        side = self.side
        address = side.remote + number % side.places * self.plan.size
        yield from side.posted(
            side.ep.write, side.payloads.of(number), side.peer, address, side.key, context=self.over(number, place)
        )

    def verify_target(self) -> None:
        size = self.plan.size
        for number in range(max(self.total - self.side.places, 0), self.total):
            place = number % self.side.places * size
            found = bytes(memoryview(self.side.memory)[place : place + size])
            self.side.findings.expect(found, self.side.payloads.of(number), f"write {number}")


class _WriteData(_Write):
    """With immediate data; each is an entry of the server's queue."""

    def post(self, number: int, place: int) -> Steps:
        side = self.side
        address = side.remote + number % side.places * self.plan.size
        yield from side.posted(
            side.ep.writedata, side.payloads.of(number), number, side.peer, address, side.key,
            context=self.over(number, place),
        )  # fmt: skip


class _Read(Operations):
    def __init__(self, side: FiSide) -> None:
        super().__init__(side)
        self._buffers = [bytearray(self.plan.size) for _ in range(self.plan.window)]

    def prepare_target(self) -> None:
        size, memory = self.plan.size, memoryview(self.side.memory)
        for place in range(self.side.places):
            memory[place * size : (place + 1) * size] = self.side.payloads.of(place)

    def post(self, number: int, place: int) -> Steps:
        side = self.side
        address = side.remote + number % side.places * self.plan.size
        yield from side.posted(
            side.ep.read, self._buffers[place], side.peer, address, side.key, context=self.over(number, place)
        )

    def take(self, number: int, place: int, entry: Any) -> None:
        if self.plan.verify:
            content = self.side.payloads.of(number % self.side.places)
            if self._buffers[place] != content:
                self.side.findings.expect(self._buffers[place], content, f"read {number}")
            self._buffers[place][:1] = b"\0"


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
        self._state, self._known = bytes(len(element)), 0
        """An element after this many operations."""
        self._element = element

    def post(self, number: int, place: int) -> Steps:
        side, op, datatype = self.side, self._op, self._datatype
        where = side.peer, side.remote, side.key, op, datatype
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

    def _after(self, count: int) -> bytes:
        """An element after so many operations, as the model has it."""
        while self._known < count:
            operand = None if self._op is Op.FI_ATOMIC_READ else self._element
            compare = bytes(len(self._element)) if self._compares else None
            before = self._state
            self._state = execute_element(self._op, self._datatype, before, operand, compare)
            self._known += 1
            if self._state == before:  # and so it stays
                self._known = count
        return self._state

    def take(self, number: int, place: int, entry: Any) -> None:
        if self.plan.verify and (self._fetches or self._compares):
            expected = self._after(number) * self._count
            if self._results[place] != expected:
                self.side.findings.expect(self._results[place], expected, f"atomic {number} found")

    def verify_target(self) -> None:
        found = bytes(memoryview(self.side.memory)[: self.plan.size])
        self.side.findings.expect(found, self._after(self.total) * self._count, f"memory after {self.total} atomics")


_RMA: dict[str, type[Operations]] = {
    "write": _Write,
    "read": _Read,
    "writedata": _WriteData,
}


def operations_of(side: FiSide) -> Operations:
    """What the plan's client does."""
    plan = side.plan
    return _Atomic(side) if plan.command == "atomic" else _RMA[plan.operation](side)
