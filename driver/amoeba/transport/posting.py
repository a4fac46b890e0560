"""From a request's buffers to its descriptors.

Whoever posts has checked everything: here nothing is refused but for want of room in the ring. One buffer on each
side takes one descriptor, which an API writes by :meth:`TransmitRings.post` itself; this is for all that takes more.
"""

import enum
from collections.abc import Sequence
from typing import Any

from amoeba_model.descriptors import DescriptorFlags, DescriptorOpcode

from amoeba.core.buffers import Segment, address_of, cut
from amoeba.transport.requests import Grant, Piece, Request
from amoeba.transport.rings import INJECT_SIZE
from amoeba.transport.transmit_rings import TransmitRings

__all__ = ["INLINE_SIZE", "Local", "PostFlags", "gathered", "grants_of", "keep_of", "post_vector", "total"]

INLINE_SIZE = 8
"""Most bytes of operands that fit into a descriptor."""
_U64 = 2**64 - 1
_FENCE = int(DescriptorFlags.FENCE)
_FENCE_ALL = int(DescriptorFlags.FENCE_ALL)
_IMMEDIATE = int(DescriptorFlags.IMMEDIATE)
_COMPARE_ATOMIC = int(DescriptorOpcode.COMPARE_ATOMIC)
_WRITE = int(DescriptorOpcode.WRITE)
_READ = int(DescriptorOpcode.READ)


class PostFlags(enum.IntFlag):
    """How a request is posted."""

    NONE = 0
    MORE = 1
    """Others follow at once: the doorbell is theirs."""
    FENCE = 2
    """It begins when everything sent to this peer before has been answered."""
    INJECT = 4
    """Operands and compare values, of 64 bytes each at most, are copied."""
    COMMIT = 8
    """It ends when the peer's memory has what it changed."""
    FENCE_ALL = 16
    """It begins when everything that the NIC's context sent before, to whichever peer, has been answered."""


class Local:
    """One local buffer of a request. ``keep``: what keeps it accessible to the NIC; None: nothing does yet."""

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
    """Device access that buffers take which nothing else keeps accessible."""
    return tuple((each.address, each.length, each.writable) for each in used if each.keep is None and each.length)


def keep_of(used: Sequence[Local]) -> tuple[Any, ...]:
    """What must stay while the NIC may touch the buffers."""
    return tuple((each.view, each.keep) for each in used)


def gathered(buffers: Sequence[Local], length: int) -> Local:
    """The ``length`` bytes of buffers, one after the other, in memory of the driver's: of one byte at least."""
    whole = memoryview(bytearray(max(length, 1)))
    at = 0
    for buffer in buffers:
        whole[at : at + buffer.length] = buffer.view.cast("B")
        at += buffer.length
    return Local(whole, None, writable=False)


def post_vector(
    rings: TransmitRings,
    request: Request,
    flags: PostFlags,
    peer: int,
    opcode: int,
    op: int,
    datatype: int,
    operands: Sequence[Local],
    compared: Sequence[Local],
    results: Sequence[Local],
    remote: Sequence[Segment],
    data: int | None = None,
) -> None:
    """Post a request of scattered buffers and segments, in as many descriptors as these and its data need.

    ``request.length`` is that of ``remote``, and of all sorts of buffers that there are. ``data``: immediate data.
    Raises FI_EAGAIN if the ring is full, FI_EINVAL if it has not as many entries as there are pieces.
    """
    length = request.length
    rings.check_space()
    used = [*operands, *compared, *results]
    vectors = [[buffer.segment for buffer in buffers] for buffers in (operands, compared, results)]
    if flags & PostFlags.INJECT:
        used = [*results]
        for vector, buffers, offset in ((0, operands, 0), (1, compared, INJECT_SIZE)):
            if buffers:
                vectors[vector] = [Segment(rings.stash([b.view for b in buffers], offset), length)]
    absent = Segment(0, length)
    pieces = [
        Piece(opcode, 0, there.length, there.address, there.key, local.address, result.address, compare.address)
        for there, local, compare, result in cut([remote, *(vector or [absent] for vector in vectors)])
    ]
    if flags & PostFlags.COMMIT and length:
        used.append(_commit(pieces))
    if data is not None:
        _attach(pieces, data)
    fences = (_FENCE if flags & PostFlags.FENCE else 0) | (_FENCE_ALL if flags & PostFlags.FENCE_ALL else 0)
    if fences:
        pieces[0] = pieces[0]._replace(flags=pieces[0].flags | fences)
    request.buffers = keep_of(used)
    request.grants = grants_of(used)
    rings.post_chain(request, flags & PostFlags.MORE, peer, op, datatype, pieces)


def _commit(pieces: list[Piece]) -> Local:
    """Let pieces that change memory end when the changes are in it; returns where the NIC writes meanwhile.

    A read behind writes pushes them out of whatever holds them between the peer's NIC and its memory. It is fenced,
    to find nothing in the NIC any more. A write of no bytes ends the chain, so that the peer counts a write, not a
    read, and hears of data only then.
    """
    last = pieces[-1]
    end = (last.remote_address + last.length) & _U64
    flushed = Local(memoryview(bytearray(1)), None, writable=True)
    pieces.append(Piece(_READ, _FENCE, 1, (end - 1) & _U64, last.remote_key, 0, flushed.address, 0))
    pieces.append(Piece(_WRITE, _FENCE, 0, end, last.remote_key, 0, 0, 0))
    return flushed


def _attach(pieces: list[Piece], data: int) -> None:
    """Let immediate data go with the last piece.

    Compare atomics have no room for it: a write of no bytes follows them, to where the last one ends, so that bounds
    which refuse the one refuse the other.
    """
    last = pieces[-1]
    if last.opcode == _COMPARE_ATOMIC:
        end = (last.remote_address + last.length) & _U64
        pieces.append(Piece(_WRITE, _IMMEDIATE, 0, end, last.remote_key, 0, 0, data))
    else:
        pieces[-1] = last._replace(flags=last.flags | _IMMEDIATE, compare=data)
