"""Answers to ICMP echo requests, beat by beat."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring

from amoeba_hw.boards.network_fields import ANSWER_MEMBERS, BEAT_BYTES, ones_sum, take_field

__all__ = ["EchoAnswer"]

_TYPE, _VERSION, _ICMP, _REQUEST = 0x0800, 0x45, 1, 8
_ETHERNET, _HEADERS, _PADDED = 14, 28, 60
"""Bytes of the Ethernet header, of those of IPv4 and ICMP, and of the shortest frame."""
_NOT_FRAGMENTED = 0xBFFF
"""Bits of flags and fragment offset that are zero in a whole packet: all but "do not fragment"."""
_TTL = 64
_LOOPBACK, _MULTICAST = 127, 224


class EchoAnswer(wiring.Component):
    """Turns a frame with an ICMP echo request (RFC 792) to the node into the frame with its answer.

    Frames to other stations or all, packets to other addresses, fragments, packets with IP options or a wrong header
    checksum, lengths that disagree, and senders that no answer would reach are not answered. The sender finds damage
    of the data itself: the answer has the request's checksum, changed by as much as the type.

    Members
    -------
    All of :data:`~amoeba_hw.boards.network_fields.ANSWER_MEMBERS`.
    """

    def __init__(self):
        super().__init__(ANSWER_MEMBERS)
        self._fits, self._right = Signal(), Signal()
        """Whether all beats before this one fit, and whether this one does."""
        self._length = Signal(16)
        """Of the IP packet."""
        self._asker = Signal(16)
        """Low half of the sender's address."""
        self._sum = Signal(16)
        """Of the IP header's words so far."""

    def elaborate(self, platform):
        m = Module()
        sums = Signal(16)
        m.d.comb += self.answer.eq(self.beat)
        with m.Switch(self.index):
            with m.Case(0):
                self._elaborate_first(m, sums)
            with m.Case(1):
                self._elaborate_second(m, sums)
            with m.Case(2):
                self._elaborate_third(m, sums)
            with m.Default():
                m.d.comb += self._right.eq(1)
        with m.If(self.moves):
            m.d.sync += [self._fits.eq((self._fits | (self.index == 0)) & self._right), self._sum.eq(sums)]
            with m.If(self.index == 1):
                m.d.sync += [self._length.eq(self._field(16, 2)), self._asker.eq(self._field(28, 2))]
        size, whole = Signal(16), Signal(16)
        m.d.comb += [
            size.eq(self.index * BEAT_BYTES + self.count),
            whole.eq(self._length + _ETHERNET),
            self.good.eq(
                self.last
                & (self.index >= 2)
                & (self._length >= _HEADERS)
                & (self._length < 1 << 12)
                & ((size == whole) | (size == Mux(whole < _PADDED, _PADDED, whole)))
                & self._fits
                & self._right
            ),
        ]
        return m

    def _field(self, first, count):
        return take_field(self.beat, first, count)

    def _answered(self, first, count):
        return take_field(self.answer, first, count)

    def _elaborate_first(self, m, sums):
        field = self._field
        m.d.comb += [
            self._right.eq(
                (field(0, 6) == self.mac) & ~field(6, 6)[40] & (field(12, 2) == _TYPE) & (field(14, 1) == _VERSION)
            ),
            sums.eq(field(14, 2)),
            self._answered(0, 6).eq(field(6, 6)),
            self._answered(6, 6).eq(self.mac),
        ]

    def _elaborate_second(self, m, sums):
        field = self._field
        network = field(26, 1)
        words = [field(first, 2) for first in range(16, 32, 2)]
        m.d.comb += [
            self._right.eq(
                ((field(20, 2) & _NOT_FRAGMENTED) == 0)
                & (field(23, 1) == _ICMP)
                & (field(26, 4) != self.ip)
                & (network != 0)
                & (network != _LOOPBACK)
                & (network < _MULTICAST)
                & (field(30, 2) == self.ip[16:])
            ),
            sums.eq(ones_sum(self._sum, *words)),
            self._answered(22, 1).eq(_TTL),
            # RFC 1624: the header's other words only change places.
            self._answered(24, 2).eq(~ones_sum(~field(24, 2), ~field(22, 2), _TTL << 8 | _ICMP)),
            self._answered(26, 4).eq(self.ip),
            self._answered(30, 2).eq(field(26, 2)),
        ]

    def _elaborate_third(self, m, sums):
        field = self._field
        m.d.comb += [
            self._right.eq(
                (field(32, 2) == self.ip[:16])
                & (ones_sum(self._sum, field(32, 2)) == 0xFFFF)
                & (field(34, 2) == _REQUEST << 8)
            ),
            sums.eq(0),
            self._answered(32, 2).eq(self._asker),
            self._answered(34, 1).eq(0),
            self._answered(36, 2).eq(~ones_sum(~field(36, 2), ~field(34, 2))),
        ]
