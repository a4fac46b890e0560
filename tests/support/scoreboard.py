"""The required memory and completions, given the order in which a target executed its packets.

It takes that order from the target's trace and everything else from what was posted: how requests are cut into
packets, what each does to memory, what it answers. Arithmetic is the model's, which has tests of its own.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
from amoeba_model.atomic.execute import execute
from amoeba_model.descriptors import DescriptorFlags, DescriptorOpcode, EventKind
from amoeba_model.opcodes import Datatype, Op
from amoeba_model.parameters import NicParameters
from amoeba_model.trace import Stage, TraceEvent
from amoeba_model.wire.uet import ReturnCode

__all__ = ["PSNS", "Memory", "Posted", "retired"]

PSNS = 1 << 32
OK = ReturnCode.OK
_LARGEST_EXTENSION = 16
"""Bytes of an element whose compare atomic fits UET's own header extension, and so is a packet of its own."""
_KINDS = {
    DescriptorOpcode.WRITE: EventKind.REMOTE_WRITE,
    DescriptorOpcode.READ: EventKind.REMOTE_READ,
    DescriptorOpcode.ATOMIC: EventKind.REMOTE_ATOMIC,
    DescriptorOpcode.FETCH_ATOMIC: EventKind.REMOTE_ATOMIC,
    DescriptorOpcode.COMPARE_ATOMIC: EventKind.REMOTE_ATOMIC,
}


@dataclass(eq=False)
class Posted:
    """A request: its descriptor, its operands, and what came of it."""

    fields: dict[str, int]
    """Of the descriptor."""
    first_psn: int
    place: int = 0
    """Offset of its first byte in the target's :class:`Memory`."""
    operand: bytes = b""
    compare: bytes = b""
    slot: int = 0
    """Of the local buffers it uses."""
    before: list["Posted"] = field(default_factory=list)
    """Earlier pieces of its chain."""
    status: int | None = None
    """Of its completion; None until it completes."""
    data: bytes = b""
    """The content of its result buffer then."""

    @property
    def opcode(self) -> int:
        return self.fields["opcode"]

    @property
    def length(self) -> int:
        return self.fields["length"]

    @property
    def has_result(self) -> bool:
        return self.opcode in (DescriptorOpcode.READ, DescriptorOpcode.FETCH_ATOMIC, DescriptorOpcode.COMPARE_ATOMIC)

    @property
    def is_one_message(self) -> bool:
        """Whether all its packets are one message; each packet that only reads is one of its own."""
        reads = self.opcode == DescriptorOpcode.FETCH_ATOMIC and self.fields["op"] == Op.FI_ATOMIC_READ
        return self.opcode != DescriptorOpcode.READ and not reads

    @property
    def signals(self) -> bool:
        """Whether a completion tells that it went well."""
        flags = self.fields["flags"]
        return bool(flags & DescriptorFlags.COMPLETION) and not flags & DescriptorFlags.CHAINED

    def parts(self, payload: int) -> list[slice]:
        """The bytes that each of its packets concerns."""
        size = payload
        if self.opcode == DescriptorOpcode.COMPARE_ATOMIC:
            element = Datatype(self.fields["datatype"]).size
            size = payload if self.length == element <= _LARGEST_EXTENSION else payload // 2
        return [slice(start, min(start + size, self.length)) for start in range(0, self.length or 1, size)]

    def psns(self, payload: int) -> list[int]:
        if self.opcode == DescriptorOpcode.NOP:
            return []
        return [(self.first_psn + number) % PSNS for number in range(len(self.parts(payload)))]


def retired(events: Iterable[TraceEvent]) -> tuple[list[tuple[int, int]], list[int]]:
    """(psn, return code) of the packets that a target accepted, and psn of those that touched memory, in order."""
    checked, executed = [], []
    for event in events:
        if event.stage is Stage.REQUEST_CHECKED:
            checked.append((event.psn, event.status))
        elif event.stage is Stage.EXECUTED:
            executed.append(event.psn)
    return checked, executed


class Memory:
    """The memory behind a target, and the requests that were sent to it."""

    def __init__(self, content: bytes, address: int, parameters: NicParameters) -> None:
        self.content = bytearray(content)
        self.events: list[tuple[int, ...]] = []
        """(data, address, length, kind) of the events it caused, in order."""
        self._address = address
        self._payload = parameters.payload
        self._line = parameters.beat_bytes
        self._parts: dict[int, tuple[Posted, slice]] = {}
        self._codes: dict[int, int] = {}
        self._data: dict[int, bytes] = {}

    def expect(self, posted: Posted) -> None:
        """A request that may arrive. No two have a psn in common."""
        for psn, part in zip(posted.psns(self._payload), posted.parts(self._payload), strict=False):
            assert psn not in self._parts, f"the test gave psn {psn:#x} twice"
            self._parts[psn] = posted, part

    def replay(self, checked: list[tuple[int, int]], executed: list[int]) -> None:
        """Do what was executed, in the same order. Raises AssertionError if it was not once, or not as checked."""
        for psn, code in checked:
            assert psn in self._parts, f"psn {psn:#x} was executed, and never posted"
            assert psn not in self._codes, f"psn {psn:#x} was executed twice"
            closes = self._parts[psn][0].opcode == DescriptorOpcode.CLOSE
            assert closes == (code == ReturnCode.NULL), f"psn {psn:#x} was answered {code}"
            self._codes[psn] = OK if closes else code
            self._check_message(psn, code)
            if code == OK:
                self._execute(psn, *self._parts[psn])
        self._check_execution([psn for psn, code in checked if code == OK], executed)

    def _check_message(self, psn: int, code: int) -> None:
        """No part of a message is executed behind one that was refused."""
        posted, part = self._parts[psn]
        if posted.is_one_message and part.start and code == OK:
            assert self._codes.get((psn - 1) % PSNS) == OK, f"psn {psn:#x} was executed, not the part before it"

    def _check_execution(self, accepted: list[int], executed: list[int]) -> None:
        """Accepted requests went through the atomic unit once, and those of one line only in the same order.

        Requests for other lines may pass one that waits for its line to be read.
        """
        orders: list[dict[int, list[int]]] = []
        for psns in (accepted, executed):
            lines: dict[int, list[int]] = {}
            for psn in psns:
                posted, part = self._parts[psn]
                first = (posted.place + part.start) // self._line
                if part.start == part.stop:
                    continue  # nothing to execute
                single = first == (posted.place + part.stop - 1) // self._line
                lines.setdefault(first if single else -1, []).append(psn)
            lines.get(-1, []).sort()
            orders.append(lines)
        assert orders[0] == orders[1], f"checked in this order, but executed in another: {_difference(*orders)}"

    def _execute(self, psn: int, posted: Posted, part: slice) -> None:
        place = slice(posted.place + part.start, posted.place + part.stop)
        old = bytes(self.content[place])
        if posted.opcode == DescriptorOpcode.WRITE:
            self.content[place] = posted.operand[part]
        elif posted.opcode not in (DescriptorOpcode.READ, DescriptorOpcode.CLOSE):
            self.content[place] = _compute(posted, part, old)
        if posted.has_result:
            self._data[psn] = old
        if posted.fields["flags"] & DescriptorFlags.IMMEDIATE and part.stop == posted.length:
            told = slice(0, posted.length) if posted.is_one_message else part
            address, length = self._address + posted.place + told.start, told.stop - told.start
            kind = _KINDS[DescriptorOpcode(posted.opcode)]
            self.events.append((posted.fields["compare"], address, length, kind))

    def outcome(self, posted: Posted) -> tuple[int | None, bytes]:
        """Status and data of a request; None if not all of it was executed."""
        chain = [*posted.before, posted]
        codes = [self._codes.get(psn) for piece in chain for psn in piece.psns(self._payload)]
        status = next((code for code in codes if code != OK), OK)
        return status, b"".join(self._data.get(psn, b"") for psn in posted.psns(self._payload))

    def runs(self) -> Iterator[tuple[int, bool]]:
        """(psn, whether it was executed) of every packet that was posted."""
        for psn in self._parts:
            yield psn, psn in self._codes


def _compute(posted: Posted, part: slice, old: bytes) -> bytes:
    op, datatype = Op(posted.fields["op"]), Datatype(posted.fields["datatype"])
    if op is Op.FI_ATOMIC_READ:
        return old
    memory, operand, compare = (
        np.frombuffer(data, np.uint8).reshape(-1, datatype.size) if data else None
        for data in (old, posted.operand[part], posted.compare[part])
    )
    assert memory is not None
    return bytes(execute(op, datatype, memory, operand, compare).tobytes())


def _difference(expected: dict[int, list[int]], actual: dict[int, list[int]]) -> str:
    """The first line of which two orders differ."""
    line = min(line for line in {*expected, *actual} if expected.get(line) != actual.get(line))
    orders = (" ".join(f"{psn:#x}" for psn in order.get(line, [])) for order in (expected, actual))
    return f"line {line}: " + "; ".join(orders)
