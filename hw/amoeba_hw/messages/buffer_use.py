"""What a message takes of a receive's buffer."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

__all__ = ["BufferUse"]


class BufferUse(wiring.Component):
    """How much of a message fits, and whether the buffer takes another one. Combinational.

    Members
    -------
    room, length : In(32)
        Bytes left in the buffer; of the message.
    multi, least_room : In(1), In(32)
        Of the receive.
    size : Out(32)
        Bytes of the message that fit.
    left : Out(32)
        Bytes that are then left.
    cut : Out(1)
        Not all of the message fits.
    used_up : Out(1)
        The receive takes no other message: it is not MULTI, or has neither ``least_room`` bytes left nor one.
    """

    room: In(32)
    length: In(32)
    multi: In(1)
    least_room: In(32)
    size: Out(32)
    left: Out(32)
    cut: Out(1)
    used_up: Out(1)

    def elaborate(self, platform):
        m = Module()
        difference = Signal(33)
        m.d.comb += [
            difference.eq(self.room - self.length),
            self.cut.eq(difference[32]),
            self.size.eq(Mux(self.cut, self.room, self.length)),
            self.left.eq(Mux(self.cut, 0, difference[:32])),
            self.used_up.eq(~self.multi | self.cut | (self.left == 0) | (difference[:32] < self.least_room)),
        ]
        return m
