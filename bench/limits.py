"""Limits of the atomic unit and of the matching of messages, in cycles, and of the speed of a netlist."""

from dataclasses import dataclass

from amoeba_model.atomic.formats import is_complex, is_integer
from amoeba_model.atomic.matrix import Cell
from amoeba_model.opcodes import Datatype, Op

__all__ = [
    "LATENCY_BEFORE", "LATENCY_LIMIT", "MESSAGE_LIMITS", "NETLIST_LIMIT", "NODE_ATOMICS_PER_SECOND",
    "NODE_BYTES_PER_SECOND", "NODE_HZ", "UCP_MESSAGE_LIMIT", "Limit", "limit_of", "match_limit", "search_limit",
]  # fmt: skip

_ARITHMETIC = (Op.FI_SUM, Op.FI_DIFF, Op.FI_PROD)
_REAL = (Datatype.FI_FLOAT, Datatype.FI_DOUBLE, Datatype.FI_FLOAT16, Datatype.FI_BFLOAT16)
_X87 = (Datatype.FI_LONG_DOUBLE, Datatype.FI_LONG_DOUBLE_COMPLEX)
_LONGEST_SUM = 6
_ROW = 16
"""Entries of a list that are looked at in one cycle."""

MESSAGE_LIMITS = {
    "into one receive for all": 8,
    "into posted receives": 8,
    "unexpected": 8,
    "receives that take waiting messages": 12,
}
"""Maximum cycles per message, or receive, that meets the first of its list: the measurement (7, 7, 6, 10), and one or
two more."""


LATENCY_BEFORE = (0, 259, 267, 274, 533, 542, 555, 811, 815, 828, 1085, 1093, 1096, 1098)
"""By stage, cycles from the doorbell of an unloaded fetching atomic while queues took two cycles, as at fc63f43f1."""

LATENCY_LIMIT = 120
"""Maximum cycles of both NICs in an unloaded fetching atomic, beside host and link."""

NETLIST_LIMIT = 2000
"""Minimum cycles per second of a netlist in Verilator."""

NODE_HZ = 20_000_000
"""Clock at which a memory node must keep up with gigabit Ethernet, no faster than ``docs/synthesis.md`` has it."""

NODE_BYTES_PER_SECOND = 105_000_000
"""Goal for WRITEs and READs on gigabit Ethernet, which carries 111 MB/s of payload, 1,024 bytes in a frame."""

NODE_ATOMICS_PER_SECOND = 850_000
"""Goal for 8-byte atomics on gigabit Ethernet, which carries 906,000 of their frames."""

UCP_MESSAGE_LIMIT = 8
"""Maximum cycles per active message, or chunk of a stream, of 8 bytes."""


@dataclass(frozen=True)
class Limit:
    """Maximum cycles per beat; None without a limit."""

    independent: float | None
    """Beats on lines of their own."""
    chain: float | None
    """One element again and again, each operation waiting for the one before."""

    def misses(self, independent: float, chain: float) -> list[str]:
        """List which of the two measured figures exceed the limit, in words."""
        pairs = {"independent": (independent, self.independent), "chain": (chain, self.chain)}
        return [
            f"{name} {measured:g} instead of {limit:g}"
            for name, (measured, limit) in pairs.items()
            if limit is not None and measured > limit
        ]


def limit_of(cell: Cell, latency: int) -> Limit:
    """Return the limit of a cell, of a NIC with ``single_cycle_products``.

    Integer, bitwise, logical, swap and MIN/MAX operations: a beat per cycle, on one address or many. SUM, DIFF and
    PROD of binary16 to binary64 and bfloat16: a beat per cycle when independent. In a chain their limit is the
    pipeline's ``latency``, and in sums of 32 and 64 bits at most 6. Complex products and all operations on 80 bits:
    four cycles per beat, and the latency in a chain. Complex sums and 8-bit floating point have no limit.
    """
    op, datatype = cell.op, cell.datatype
    if datatype in _X87:
        return Limit(4, max(4, latency))
    if is_integer(datatype) or op not in _ARITHMETIC:
        return Limit(1, 1)
    if is_complex(datatype):
        return Limit(4, max(4, latency)) if op is Op.FI_PROD else Limit(None, None)
    if datatype not in _REAL:
        return Limit(None, None)
    if op is not Op.FI_PROD and datatype.size >= 4:
        return Limit(1, min(latency, _LONGEST_SUM))
    return Limit(1, latency)


def match_limit(depth: int) -> int:
    """Maximum cycles per message that visits so many posted receives: one for each row of 16, and 8."""
    return 8 + -(-depth // _ROW)


def search_limit(depth: int) -> int:
    """Maximum cycles per receive descriptor that visits so many waiting messages: one for each row of 16, and 10."""
    return 10 + -(-depth // _ROW)
