"""Counts of executed operations by kind, taken from the rings: the driver itself counts nothing.

A :class:`RingCounter` sits in front of a context's doorbells. When the driver announces descriptors, it notes their
kinds; when the driver gives completion entries back, it counts the operations that they end. So it counts all that
goes through the rings, and costs nothing where nobody counts.
"""

import enum
from collections.abc import Callable, MutableSequence
from dataclasses import dataclass
from typing import NamedTuple

from amoeba_model.descriptors import COMPLETION, TX_DESCRIPTOR, DescriptorFlags, DescriptorOpcode
from amoeba_model.wire.uet import ReturnCode

from amoeba.nic.records import record_struct
from amoeba.transport.batches import is_batched, token_of

__all__ = ["Executed", "RingCounter", "Rings"]


class Executed(enum.IntEnum):
    """Kinds of counts; the numbers are places in a sequence of counts."""

    WRITES = 0
    READS = 1
    ATOMICS = 2
    MESSAGES = 3
    FAILED = 4
    """Operations of all kinds that ended with an error."""


_D = DescriptorOpcode
_UNCOUNTED, _CHAINED = 254, 255
"""Kinds of descriptors that are no operation, and of those that another one of their chain follows."""
_KINDS = bytearray([_UNCOUNTED]) * 256
for _kind, _opcodes in {
    Executed.WRITES: (_D.WRITE,),
    Executed.READS: (_D.READ,),
    Executed.ATOMICS: (_D.ATOMIC, _D.FETCH_ATOMIC, _D.COMPARE_ATOMIC, _D.TAGGED_ATOMIC, _D.TAGGED_FETCH_ATOMIC),
    Executed.MESSAGES: (_D.SEND, _D.TAGGED_SEND, _D.RENDEZVOUS_SEND, _D.RENDEZVOUS_TAGGED_SEND),
}.items():
    for _opcode in _opcodes:
        _KINDS[_opcode] = _kind
_OK = int(ReturnCode.OK)
_CHAINED_FLAG = int(DescriptorFlags.CHAINED)
_FAILED = int(Executed.FAILED)
_unpack_descriptor = record_struct(TX_DESCRIPTOR, "opcode", "flags", "context").unpack_from
_unpack_completion = record_struct(COMPLETION, "context", "descriptor", "status").unpack_from
_DESCRIPTOR_SIZE = TX_DESCRIPTOR.size
_COMPLETION_SIZE = COMPLETION.size
_INDICES = 1 << 16
"""Ring indices, as doorbells and completions have them, count modulo this."""
_INDEX_MASK = _INDICES - 1


class Rings(NamedTuple):
    """A context's rings, and the registers of its doorbell page that tell of them."""

    transmit: memoryview
    completion: memoryview
    entries: int
    tail_register: int
    head_register: int


@dataclass(slots=True)
class _Stretch:
    """Requests of a batch that end with one completion."""

    kind: int
    left: int
    """Requests that have not failed."""
    last: int
    """Ring index of the last one."""


class RingCounter:
    """Rings a context's doorbells, and counts in ``counts``, by :class:`Executed`, the operations of its rings."""

    def __init__(
        self, ring: Callable[[int, int], None], rings: Rings, counts: MutableSequence[int]
    ) -> None:
        self._ring = ring
        self._rings = rings
        self._counts = counts
        self._tail = self._head = 0
        self._kinds = bytearray([_UNCOUNTED]) * _INDICES
        """By ring index: an entry of the ring may be posted anew before its completion entry is released."""
        self._first = _UNCOUNTED
        """The kind of a chain's first descriptor, while the chain goes on."""
        self._stretches: dict[int, _Stretch] = {}
        """By token."""

    def __call__(self, register: int, value: int) -> None:
        """Ring a doorbell, as :attr:`amoeba.nic.nic.Nic.ring` does."""
        if register == self._rings.head_register:
            self._complete(value)  # before the NIC may write there again
        self._ring(register, value)
        if register == self._rings.tail_register:
            self._announce(value)

    def _announce(self, tail: int) -> None:
        """Note the kinds of the descriptors up to ``tail``."""
        ring, mask, kinds, first = self._rings.transmit, self._rings.entries - 1, self._kinds, self._first
        index = self._tail
        while index != tail:
            opcode, flags, context = _unpack_descriptor(ring, (index & mask) * _DESCRIPTOR_SIZE)
            kind = _KINDS[opcode] if first == _UNCOUNTED else first
            if flags & _CHAINED_FLAG:
                first, kinds[index] = kind, _CHAINED
            else:
                first, kinds[index] = _UNCOUNTED, kind
                if is_batched(context):
                    self._announce_batched(token_of(context), kind, index)
            index = index + 1 & _INDEX_MASK
        self._tail, self._first = tail, first

    def _announce_batched(self, token: int, kind: int, index: int) -> None:
        stretch = self._stretches.setdefault(token, _Stretch(kind, 0, index))
        stretch.left += 1
        stretch.last = index

    def _complete(self, head: int) -> None:
        """Count the operations that the completion entries up to ``head`` end."""
        ring, mask, kinds, counts = self._rings.completion, self._rings.entries - 1, self._kinds, self._counts
        index = self._head
        while index != head:
            context, descriptor, status = _unpack_completion(ring, (index & mask) * _COMPLETION_SIZE)
            index = index + 1 & _INDEX_MASK
            if self._stretches and is_batched(context):
                self._complete_batched(token_of(context), descriptor, status)
                continue
            if status != _OK:
                descriptor = self._end_of_chain(descriptor)
            kind = kinds[descriptor]
            if kind < _UNCOUNTED:
                counts[kind if status == _OK else _FAILED] += 1
                kinds[descriptor] = _UNCOUNTED  # a chain that has failed ends once more
        self._head = head

    def _complete_batched(self, token: int, descriptor: int, status: int) -> None:
        """Count a request that has failed, and with the last one of a stretch all others."""
        stretch = self._stretches.get(token)
        if stretch is None:
            return
        if status != _OK:
            self._counts[_FAILED] += 1
            stretch.left -= 1
        if descriptor == stretch.last:
            self._counts[stretch.kind] += stretch.left
            del self._stretches[token]

    def _end_of_chain(self, descriptor: int) -> int:
        """Return the index of the descriptor that ends the chain of this one."""
        while self._kinds[descriptor] == _CHAINED:
            descriptor = descriptor + 1 & _INDEX_MASK
        return descriptor
