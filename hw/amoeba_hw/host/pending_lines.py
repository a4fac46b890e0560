"""Remembers which lines have writes that the host has not answered yet."""

from functools import reduce
from operator import xor

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out

__all__ = ["NUMBER_BITS", "PendingLines"]

_INDEX_BITS = 10
_TAG_BITS = 10
NUMBER_BITS = 16


class PendingLines(wiring.Component):
    """Says whether a line was written by a burst that waits for its answer. It never misses one.

    Bursts are numbered as they begin and answered in that order, so a burst waits while its number lies between
    the two ends. A table indexed by a line's low address bits keeps the number of the last burst and a tag of
    the line. Where two lines with waiting bursts share a place, it stands for every line until both are answered:
    in rare cases a line counts as waiting that is not, and never for longer than some burst waits. The host must
    leave fewer than 65,536 bursts unanswered, which is far beyond what any keeps.

    Parameters
    ----------
    line_bits : int
        Bits of a line's number, more than 10.

    Members
    -------
    begins, line, remembered : in
        Pulse: a burst begins; the line it writes, if that is to be remembered.
    answered : in, pulse
        The oldest burst was answered.
    asked, waits : in, out
        Whether a line's write waits, in the same cycle; one that begins in this cycle does not count yet.
    number : out
        Of the burst that begins next.
    asked_number, number_waits : in, out
        Whether the burst of a number waits; of one that was answered long ago this may be true, too, but never for
        longer than some burst waits.
    """

    def __init__(self, line_bits):
        super().__init__(
            {
                "begins": In(1),
                "line": In(line_bits),
                "remembered": In(1),
                "answered": In(1),
                "asked": In(line_bits),
                "waits": Out(1),
                "number": Out(NUMBER_BITS),
                "asked_number": In(NUMBER_BITS),
                "number_waits": Out(1),
            }
        )
        self._sent = Signal(NUMBER_BITS)
        self._done = Signal(NUMBER_BITS)
        self._used = Signal(1 << _INDEX_BITS)
        """Places of the table that were written since the last reset."""

    def elaborate(self, platform):
        m = Module()
        entry = data.StructLayout({"number": NUMBER_BITS, "tag": _TAG_BITS, "any": 1})
        m.submodules.table = table = memory.Memory(shape=entry, depth=1 << _INDEX_BITS, init=[])
        write = table.write_port()
        old, found = table.read_port(domain="comb"), table.read_port(domain="comb")
        outstanding = Signal(NUMBER_BITS)
        place = self.line[:_INDEX_BITS]
        m.d.comb += [
            outstanding.eq(self._sent - self._done),
            self.number.eq(self._sent),
            self.number_waits.eq((self.asked_number - self._done)[:NUMBER_BITS] < outstanding),
            found.addr.eq(self.asked[:_INDEX_BITS]),
            self.waits.eq(self._stands_for(found, self.asked, outstanding)),
            old.addr.eq(place),
            write.addr.eq(place),
            write.en.eq(self.begins & self.remembered),
            write.data.number.eq(self._sent),
            write.data.tag.eq(_tag(self.line)),
            write.data.any.eq(self._waits(old, outstanding) & (old.data.any | (old.data.tag != _tag(self.line)))),
        ]
        with m.If(write.en):
            m.d.sync += self._used.bit_select(place, 1).eq(1)
        m.d.sync += [
            self._sent.eq(self._sent + self.begins),
            # An answer that nobody waits for, such as one from before a reset, counts for nothing.
            self._done.eq(self._done + Mux(outstanding == 0, 0, self.answered)),
        ]
        return m

    def _waits(self, port, outstanding):
        used = self._used.bit_select(port.addr, 1)
        return used & ((port.data.number - self._done)[:NUMBER_BITS] < outstanding)

    def _stands_for(self, port, line, outstanding):
        return self._waits(port, outstanding) & (port.data.any | (port.data.tag == _tag(line)))


def _tag(line):
    """Fold the other bits of a line, which tell lines of one index apart."""
    rest = line[_INDEX_BITS:]
    return reduce(xor, (rest[start : start + _TAG_BITS] for start in range(0, len(rest), _TAG_BITS)))[:_TAG_BITS]
