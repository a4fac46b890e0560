"""Use of a receive's buffer by a message."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amoeba_model.descriptors import MULTI_ALIGNMENT

__all__ = ["BufferUse"]

_ALIGNMENT_BITS = MULTI_ALIGNMENT.bit_length() - 1


class BufferUse(wiring.Component):
    """How much of a message fits, and whether the buffer takes another one. Combinational.

    Members
    -------
    address : In(64)
        Where the message's place begins.
    room, length : In(32)
        Bytes left in the buffer, from there on; of the message.
    multi, least_space : In(1), In(32)
        Of the receive.
    size : Out(32)
        Bytes of the message that fit.
    used, left : Out(32)
        Bytes up to the place of the next message, whose address is a multiple of ``MULTI_ALIGNMENT``, and from there
        on, if there is a next place.
    cut : Out(1)
        Not all of the message fits.
    used_up : Out(1)
        The receive takes no other message: it is not MULTI, or has neither ``least_space`` bytes left nor one.
    """

    address: In(64)
    space: In(32)
    length: In(32)
    multi: In(1)
    least_space: In(32)
    size: Out(32)
    used: Out(32)
    left: Out(32)
    cut: Out(1)
    used_up: Out(1)

    def elaborate(self, platform):
        m = Module()
        end = Signal(_ALIGNMENT_BITS)
        used = Signal(33)
        left = Signal(34)
        m.d.comb += [
            end.eq(self.address[:_ALIGNMENT_BITS] + self.length[:_ALIGNMENT_BITS]),
            used.eq(self.length + (-end)[:_ALIGNMENT_BITS]),
            left.eq(self.space - used),
            self.cut.eq(self.space < self.length),
            self.size.eq(Mux(self.cut, self.space, self.length)),
            self.used.eq(used),
            self.left.eq(left),
            # A place that would begin behind the buffer's end does not exist.
            self.used_up.eq(~self.multi | left[-1] | (left == 0) | (left[:32] < self.least_space)),
        ]
        return m
