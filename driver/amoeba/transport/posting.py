"""From an operation's buffers to its descriptors.

The caller has checked everything: these functions refuse an operation only if the ring has too few entries. One
buffer on each side takes one descriptor, which an API posts by :meth:`TransmitRings.post` itself. This module posts
all operations that take more.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from amoeba_model.descriptors import DescriptorFlags, DescriptorOpcode

from amoeba.core.buffers import Segment, address_of, cut, line_aligned
from amoeba.transport.operation import Operation
from amoeba.transport.requests import Grant, Piece
from amoeba.transport.rings import INJECT_SIZE
from amoeba.transport.transmit_rings import TransmitRings

__all__ = ["INLINE_SIZE", "Local", "Scattered", "gathered", "grants_of", "keep_of", "post_scattered", "total"]

INLINE_SIZE = 8
"""Maximum bytes of operands that fit into a descriptor."""
_U64 = 2**64 - 1
_FENCE = int(DescriptorFlags.FENCE)
_FENCES = int(DescriptorFlags.FENCE | DescriptorFlags.FENCE_ALL)
_IMMEDIATE = int(DescriptorFlags.IMMEDIATE)
_COMPARE_ATOMIC = int(DescriptorOpcode.COMPARE_ATOMIC)
_WRITE = int(DescriptorOpcode.WRITE)
_READ = int(DescriptorOpcode.READ)


class Local:
    """One local buffer of an operation. ``keep``: what keeps it accessible to the NIC; None: nothing does yet."""

    __slots__ = ("address", "keep", "length", "view", "writable")

    def __init__(self, view: memoryview, keep: Any, *, writable: bool) -> None:
        self.view = view
        self.keep = keep
        self.writable = writable
        self.length = view.nbytes
        self.address = address_of(view)

    @property
    def segment(self) -> Segment:
        return Segment(self.address, self.length)


def total(buffers: Sequence[Local]) -> int:
    """Bytes of all buffers together."""
    return sum(buffer.length for buffer in buffers)


def grants_of(used: Sequence[Local]) -> tuple[Grant, ...]:
    """Return the device access that buffers need which nothing else keeps accessible."""
    return tuple((each.address, each.length, each.writable) for each in used if each.keep is None and each.length)


def keep_of(used: Sequence[Local]) -> tuple[Any, ...]:
    """Return the objects that must stay alive while the NIC may touch the buffers."""
    return tuple((each.view, each.keep) for each in used)


def gathered(buffers: Sequence[Local], length: int) -> Local:
    """Copy the ``length`` bytes of buffers, one after the other, into memory of the driver, of one byte at least."""
    whole = line_aligned(max(length, 1))
    at = 0
    for buffer in buffers:
        whole[at : at + buffer.length] = buffer.view.cast("B")
        at += buffer.length
    return Local(whole, None, writable=False)


class Scattered(NamedTuple):
    """The memory of an operation that takes several descriptors; what there is of it is as long as ``remote``."""

    operands: Sequence[Local]
    compared: Sequence[Local]
    results: Sequence[Local]
    remote: Sequence[Segment]


def post_scattered(
    rings: TransmitRings, operation: Operation, memory: Scattered, *, inject: bool = False, commit: bool = False
) -> None:
    """Post an operation on scattered memory, in as many descriptors as its pieces and its immediate data need.

    The operation's flags are those of a single descriptor: fences are for the first one, immediate data for the last.
    ``inject``: operands and compare values, of 64 bytes each at most, are copied. ``commit``: it ends when the peer's
    memory has what it changed. Raises FI_EAGAIN if the ring is full, FI_EINVAL if it has not as many entries as there
    are pieces.
    """
    length = operation.length
    rings.check_space()
    operands, compared, results, remote = memory
    used = [*operands, *compared, *results]
    vectors = [[buffer.segment for buffer in buffers] for buffers in (operands, compared, results)]
    if inject:
        used = [*results]
        for vector, buffers, offset in ((0, operands, 0), (1, compared, INJECT_SIZE)):
            if buffers:
                vectors[vector] = [Segment(rings.bounce([b.view for b in buffers], offset), length)]
    absent = Segment(0, length)
    opcode = operation.opcode
    pieces = [
        Piece(opcode, 0, there.length, there.address, there.key, local.address, result.address, compare.address)
        for there, local, compare, result in cut([remote, *(vector or [absent] for vector in vectors)])
    ]
    if commit and length:
        used.append(_commit(pieces))
    if operation.flags & _IMMEDIATE:
        _attach(pieces, operation.compare)
    fences = operation.flags & _FENCES
    if fences:
        pieces[0] = pieces[0]._replace(flags=pieces[0].flags | fences)
    operation.buffers = keep_of(used)
    operation.grants = grants_of(used)
    rings.post_chain(operation, pieces)


def _commit(pieces: list[Piece]) -> Local:
    """Let pieces that change memory end when the changes are in it; returns where the NIC writes meanwhile.

    A read behind writes pushes them out of whatever holds them between the peer's NIC and its memory. It is fenced,
    to find nothing in the NIC any more. A write of no bytes ends the chain, so that the peer counts a write, not a
    read, and is notified of immediate data only then.
    """
    last = pieces[-1]
    end = (last.remote_address + last.length) & _U64
    flushed = Local(memoryview(bytearray(1)), None, writable=True)
    pieces.append(Piece(_READ, _FENCE, 1, (end - 1) & _U64, last.remote_key, 0, flushed.address, 0))
    pieces.append(Piece(_WRITE, _FENCE, 0, end, last.remote_key, 0, 0, 0))
    return flushed


def _attach(pieces: list[Piece], data: int) -> None:
    """Let immediate data go with the last piece.

    Descriptors of compare atomics cannot carry data: a write of no bytes follows them, to where the last one ends.
    So bounds that refuse the atomic refuse the write, too.
    """
    last = pieces[-1]
    if last.opcode == _COMPARE_ATOMIC:
        end = (last.remote_address + last.length) & _U64
        pieces.append(Piece(_WRITE, _IMMEDIATE, 0, end, last.remote_key, 0, 0, data))
    else:
        pieces[-1] = last._replace(flags=last.flags | _IMMEDIATE, compare=data)
