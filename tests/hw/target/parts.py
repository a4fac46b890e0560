"""Messages of several packets for the benches of the target: right ones, and such with a lie in the middle."""

import random
from typing import NamedTuple

__all__ = ["WITH_KEY", "Part", "random_parts"]

WRITE, SEND, TAGGED_SEND, COMPARE_ATOMIC, LONG_ATOMIC, LONG_FETCHING = 1, 5, 9, 0x30, 0x31, 0x32
WITH_KEY = (WRITE, WRITE, LONG_ATOMIC, LONG_FETCHING, COMPARE_ATOMIC)
START, END, HEADER_DATA, DELIVERY_COMPLETE = 1, 2, 4, 0x20
SUM, CSWAP, UINT64 = 2, 0xD, 7
FIELDS = (
    "message_id", "request_length", "memory_key", "buffer_offset", "header_data", "flags", "opcode", "initiator",
    "job_id",
)  # fmt: skip
"""Fields that may be wrong."""


class Part(NamedTuple):
    """One packet: arguments for a bench's own way to make requests, and what to spoil of the result."""

    opcode: int
    length: int
    """``request_length``."""
    payload_length: int
    fields: dict[str, int]
    lie: tuple[str, int] | None
    """A field, and the bits of it that are wrong."""

    def spoil(self, header):
        """The header with its lie."""
        return header if self.lie is None else header | {self.lie[0]: header[self.lie[0]] ^ self.lie[1]}


def random_parts(payload, same, opcodes=WITH_KEY):
    """The packets of a message with one of these opcodes; ``same``: fields that all of them have."""
    opcode = random.choice(opcodes)
    is_atomic = opcode not in (WRITE, SEND, TAGGED_SEND)
    vectors = 2 if opcode == COMPARE_ATOMIC else 1
    small = 24 if is_atomic else 1
    sizes = [random.choice([small, 8, payload // vectors]) for _ in range(random.choice([2, 2, 3, 5]))]
    codes = {"atomic_opcode": CSWAP if opcode == COMPARE_ATOMIC else SUM, "atomic_datatype": UINT64}
    same = {**same, **(codes if is_atomic else {})}
    same |= {"message_id": random.getrandbits(16), "initiator": random.getrandbits(32)}
    flags, data = random.choice([0, HEADER_DATA]), random.getrandbits(64)
    wrong = random.choice([None, None, *range(len(sizes))])
    parts = []
    for number, size in enumerate(sizes):
        fields = {"header_data": size << 32 | sum(sizes[:number]) if number else data}
        fields["flags"] = flags | START * (number == 0) | (END | DELIVERY_COMPLETE) * (number == len(sizes) - 1)
        lie = (random.choice(FIELDS), random.choice([1, 2, 3])) if number == wrong else None
        parts.append(Part(opcode, sum(sizes), vectors * size, same | fields, lie))
    if random.random() < 0.1:
        parts.pop(random.randrange(len(parts)))
    return parts
