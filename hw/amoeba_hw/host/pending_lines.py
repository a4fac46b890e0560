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
    """Finds the last burst that wrote a line, and says whether a burst waits for its answer.

    Bursts are numbered as they begin and answered in that order, so a burst waits while its number lies between
    the two ends. A table in block RAM, indexed by a line's low address bits, keeps the number of the last burst and a
    tag of the line. Where two lines with waiting bursts share a place, it stands for every line until both are
    answered: in rare cases a line is found that was not written, and never holds up a read for longer than some burst
    waits. So does what a reset leaves in the table. The host must leave fewer than 65,536 bursts unanswered, which is
    far beyond what any keeps::

        cycle           0          1              2
        a burst         begins     counts,        is found
                                   is stored
        a line                     asked for      found, number

    Parameters
    ----------
    line_bits : int
        Bits of a line's number, more than 10.

    Members
    -------
    begins, line, remembered : in
        Pulse: a burst begins; the line it writes, if that is to be remembered.
    answered : in, pulse
        The oldest burst was answered, in a later cycle than it began.
    ask, asked : in
        Pulse: look for a line, among the bursts that began in earlier cycles.
    found, number : out
        From the next cycle until the next ``ask``: whether a burst was found that may have written the line and may
        wait; its number.
    next_number, oldest, outstanding : out
        Numbers of the burst that begins next and of the oldest that waits; how many wait.
    """

    def __init__(self, line_bits):
        super().__init__(
            {
                "begins": In(1),
                "line": In(line_bits),
                "remembered": In(1),
                "answered": In(1),
                "ask": In(1),
                "asked": In(line_bits),
                "found": Out(1),
                "number": Out(NUMBER_BITS),
                "next_number": Out(NUMBER_BITS),
                "oldest": Out(NUMBER_BITS),
                "outstanding": Out(NUMBER_BITS),
            }
        )

    def waits(self, number):
        """Say whether a burst waits. Answered long ago, it may seem to, but no longer than some other waits."""
        return (number - self.oldest)[:NUMBER_BITS] < self.outstanding

    def elaborate(self, platform):
        m = Module()
        entry = data.StructLayout({"number": NUMBER_BITS, "tag": _TAG_BITS, "any": 1})
        m.submodules.table = table = memory.Memory(shape=entry, depth=1 << _INDEX_BITS, init=[])
        write = table.write_port()
        old, found = (table.read_port(transparent_for=(write,)) for _ in range(2))
        begun, asked_tag, tag = Signal(), Signal(_TAG_BITS), Signal(_TAG_BITS)
        number, place = Signal(NUMBER_BITS), Signal(_INDEX_BITS)
        m.d.comb += [
            self.outstanding.eq(self.next_number - self.oldest),
            found.addr.eq(self.asked[:_INDEX_BITS]),
            found.en.eq(self.ask),
            self.found.eq(found.data.any | (found.data.tag == asked_tag)),
            self.number.eq(found.data.number),
            old.addr.eq(self.line[:_INDEX_BITS]),
            write.addr.eq(place),
            write.en.eq(begun),
            write.data.number.eq(number),
            write.data.tag.eq(tag),
            write.data.any.eq(self.waits(old.data.number) & (old.data.any | (old.data.tag != tag))),
        ]
        with m.If(self.ask):
            m.d.sync += asked_tag.eq(_tag(self.asked))
        m.d.sync += [
            begun.eq(self.begins & self.remembered),
            number.eq(self.next_number),
            tag.eq(_tag(self.line)),
            place.eq(self.line[:_INDEX_BITS]),
            self.next_number.eq(self.next_number + self.begins),
            # An answer that nobody waits for, such as one from before a reset, counts for nothing.
            self.oldest.eq(self.oldest + Mux(self.outstanding == 0, 0, self.answered)),
        ]
        return m


def _tag(line):
    """Fold the other bits of a line, which tell lines of one index apart."""
    rest = line[_INDEX_BITS:]
    return reduce(xor, (rest[start : start + _TAG_BITS] for start in range(0, len(rest), _TAG_BITS)))[:_TAG_BITS]
