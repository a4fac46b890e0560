"""Answers to ARP requests, beat by beat."""

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring

from amoeba_hw.boards.network_fields import ANSWER_MEMBERS, BEAT_BYTES, take_field

__all__ = ["ArpAnswer"]

_BROADCAST = (1 << 48) - 1
_TYPE, _HARDWARE, _PROTOCOL, _REQUEST, _REPLY = 0x0806, 1, 0x0800, 1, 2
_BYTES, _PADDED = 42, 60
"""Of an ARP packet in a frame, without and with Ethernet's padding."""


class ArpAnswer(wiring.Component):
    """Turns a frame with an ARP request (RFC 826) for the node's address into the frame with its answer.

    Other requests, answers, and frames to other stations are not answered; nor are frames that are cut off or longer
    than padding makes them, and senders that claim the node's address, a group's, or another one than the frame's.

    Members
    -------
    All of :data:`~amoeba_hw.boards.network_fields.ANSWER_MEMBERS`.
    """

    def __init__(self):
        super().__init__(ANSWER_MEMBERS)

    def elaborate(self, platform):
        m = Module()
        fits, right = Signal(), Signal()
        """Whether all beats before this one fit, and whether this one does."""
        asker, asker_ip = Signal(48), Signal(32)

        def field(first, count):
            return take_field(self.beat, first, count)

        def answered(first, count):
            return take_field(self.answer, first, count)

        with m.Switch(self.index):
            with m.Case(0):
                m.d.comb += [
                    right.eq(
                        ((field(0, 6) == self.mac) | (field(0, 6) == _BROADCAST))
                        & ~field(6, 6)[40]
                        & (field(12, 2) == _TYPE)
                        & (field(14, 2) == _HARDWARE)
                    ),
                    self.answer.eq(self.beat),
                    answered(0, 6).eq(field(6, 6)),
                    answered(6, 6).eq(self.mac),
                ]
            with m.Case(1):
                m.d.comb += [
                    right.eq(
                        (field(16, 6) == _PROTOCOL << 32 | 6 << 24 | 4 << 16 | _REQUEST)
                        & (field(22, 6) == asker)
                        & (field(28, 4) != self.ip)
                    ),
                    answered(16, 6).eq(_PROTOCOL << 32 | 6 << 24 | 4 << 16 | _REPLY),
                    answered(22, 6).eq(self.mac),
                    answered(28, 4).eq(self.ip),
                ]
            with m.Case(2):
                m.d.comb += [
                    right.eq(field(38, 4) == self.ip),
                    answered(32, 6).eq(asker),
                    answered(38, 4).eq(asker_ip),
                ]
            with m.Case(3):
                m.d.comb += right.eq(1)
        with m.If(self.moves):
            m.d.sync += fits.eq((fits | (self.index == 0)) & right)
            with m.If(self.index == 0):
                m.d.sync += asker.eq(field(6, 6))
            with m.If(self.index == 1):
                m.d.sync += asker_ip.eq(field(28, 4))
        ends = ((self.index == 2) & (self.count >= _BYTES - 2 * BEAT_BYTES)) | (
            (self.index == 3) & (self.count <= _PADDED - 3 * BEAT_BYTES)
        )
        m.d.comb += self.good.eq(self.last & fits & right & ends)
        return m
