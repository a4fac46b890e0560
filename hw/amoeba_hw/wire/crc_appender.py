"""Ends every frame with its CRC."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from amoeba_model.wire import uet

from amoeba_hw.interfaces import packet_beat
from amoeba_hw.packed import select
from amoeba_hw.wire.crc import apply, contribution, inverse_power, power

__all__ = ["CrcAppender", "covered"]


def covered(beat, index):
    """Return the bytes of a frame's beat that enter the CRC register, which starts from zero.

    Everything in front of the IPv4 source address is zero; the first four bytes from there on are inverted, which is
    what a register that starts from all ones does to them. ``index`` counts the frame's beats, and may stay at any
    number beyond the one that they lie in.
    """
    first, offset = divmod(uet.CRC_START, len(beat) // 8)
    tail = Cat(beat[: 8 * offset] & 0, beat[8 * offset :]) ^ ((1 << 8 * uet.CRC_SIZE) - 1 << 8 * offset)
    return Mux(index > first, beat, Mux(index == first, tail, 0))


class CrcAppender(wiring.Component):
    """Computes the CRC of each frame from its IPv4 source address on, and puts it behind the last byte.

    Parameters
    ----------
    width : int
        Bits per beat.

    Members
    -------
    i : :func:`packet_beat` stream
        Frames without CRC; bytes beyond ``count`` must be zero.
    o : :func:`packet_beat` stream
        The frames with CRC. Latency four cycles, one beat per cycle, and one more where the CRC reaches into a beat
        of its own. ``i.ready`` depends on ``o.ready`` combinationally.

    ::

        stage     product   register        unpad_low            unpad_high         o
        work      matrix    register of     undo zero bytes      undo the other     place the CRC
                  times     the CRC         behind the frame,    zero bytes
                  beat                      count modulo 8
    """

    STAGES = ("product", "register", "unpad_low", "unpad_high")

    def __init__(self, width):
        self._line_bytes = width // 8
        beat = packet_beat(width)
        super().__init__({"i": In(stream.Signature(beat)), "o": Out(stream.Signature(beat))})
        self._beats = {name: Signal(beat, name=f"{name}_beat") for name in self.STAGES}
        self._valid = {name: Signal(name=f"{name}_valid") for name in self.STAGES}
        self._index = Signal(range(uet.CRC_START // self._line_bytes + 2))
        self._product = Signal(32)
        self._product_first = Signal()
        self._register = Signal(32)
        self._unpadded_low = Signal(32)
        self._unpadded = Signal(32)
        self._overflowing = Signal()
        """The frame's last beat has left; the rest of its CRC has not."""

    def elaborate(self, platform):
        m = Module()
        line_bytes = self._line_bytes
        overflow = Signal()
        advance = Signal()
        final = self._beats["unpad_high"]
        m.d.comb += [
            overflow.eq(final.last & (final.count > line_bytes - uet.CRC_SIZE)),
            self.o.valid.eq(self._valid["unpad_high"]),
            advance.eq(~self.o.valid | (self.o.ready & (~overflow | self._overflowing))),
            self.i.ready.eq(advance),
        ]
        self._elaborate_output(m, final, overflow)
        with m.If(self.o.valid & self.o.ready):
            m.d.sync += self._overflowing.eq(overflow & ~self._overflowing)
        with m.If(advance):
            valid, beat = self.i.valid, self.i.p
            for name in self.STAGES:
                m.d.sync += [self._valid[name].eq(valid), self._beats[name].eq(beat)]
                valid, beat = self._valid[name], self._beats[name]
            self._elaborate_register(m)
        return m

    def _elaborate_register(self, m):
        beat = self._beats["register"]
        padding = Signal(range(self._line_bytes))
        """Zero bytes that entered the register behind the frame."""
        m.d.comb += padding.eq(self._line_bytes - beat.count)
        entering = Signal(8 * self._line_bytes)
        m.d.comb += entering.eq(covered(self.i.p.data, self._index))
        m.d.sync += [
            self._product.eq(contribution(entering)),
            self._product_first.eq(self._index == 0),
        ]
        with m.If(self.i.valid):
            beyond = self._index == uet.CRC_START // self._line_bytes + 1
            m.d.sync += self._index.eq(Mux(self.i.p.last, 0, Mux(beyond, self._index, self._index + 1)))
        with m.If(self._valid["product"]):
            previous = apply(power(self._line_bytes), self._register)
            m.d.sync += self._register.eq(self._product ^ Mux(self._product_first, 0, previous))
        padding_high = Signal(len(padding) - 3)
        m.d.sync += [
            self._unpadded_low.eq(self._undo(m, self._register, padding[:3], 0)),
            padding_high.eq(padding[3:]),
            # The last step of the CRC: the register inverted.
            self._unpadded.eq(~self._undo(m, self._unpadded_low, padding_high, 3)),
        ]

    def _undo(self, m, state, padding, lowest):
        """Return the register before ``padding << lowest`` zero bytes."""
        for bit in range(len(padding)):
            undone = Signal(32, name=f"undone_{1 << bit + lowest}")
            m.d.comb += undone.eq(Mux(padding[bit], apply(inverse_power(1 << bit + lowest), state), state))
            state = undone
        return state

    def _elaborate_output(self, m, final, overflow):
        line_bytes = self._line_bytes
        whole = Signal(8 * (line_bytes + uet.CRC_SIZE))
        length = Signal(range(line_bytes + uet.CRC_SIZE + 1))
        placed = [
            select(
                8,
                (
                    (final.last & (final.count == position - byte), self._unpadded.word_select(byte, 8))
                    for byte in range(uet.CRC_SIZE)
                    if 1 <= position - byte <= line_bytes
                ),
            )
            for position in range(line_bytes + uet.CRC_SIZE)
        ]
        m.d.comb += [
            whole.eq(final.data | Cat(placed)),
            length.eq(final.count + Mux(final.last, uet.CRC_SIZE, 0)),
            self.o.p.data.eq(whole),
            self.o.p.count.eq(Mux(overflow, line_bytes, length)),
            self.o.p.last.eq(final.last & ~overflow),
        ]
        with m.If(self._overflowing):
            m.d.comb += [
                self.o.p.data.eq(whole[8 * line_bytes :]),
                self.o.p.count.eq(length - line_bytes),
                self.o.p.last.eq(1),
            ]
