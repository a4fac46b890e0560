"""A record for each entry of the line table, in memory instead of registers."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out

__all__ = ["EntryRecords"]


class EntryRecords(wiring.Component):
    """Records that one side writes and another side forgets, each at one per cycle.

    A memory has one writer here, so forgetting does not touch the record: it begins a generation of the entry, and
    a record of another generation reads as zero. One bit tells the generations apart, since a new one only has to
    differ from that of the record that is there. So nothing depends on what the memories held before a reset, as
    long as an entry is forgotten before its first use.

    Parameters
    ----------
    shape : shape-like
        Of a record.
    depth : int
        Entries, at least 2.
    readers : int

    Members
    -------
    forget, forget_entry : in
        Pulse: the entry's record is zero from the next cycle on.
    write, write_entry, write_data : in
        Pulse: the entry's record is this from the next cycle on, also if it is forgotten in this one.
    asked : array of ``readers`` entries, in
    records : array of ``readers`` records, out
        In the same cycle.
    """

    def __init__(self, shape, depth: int, readers: int):
        self._shape = shape
        self._depth = depth
        self._readers = readers
        entry = range(depth)
        super().__init__(
            {
                "forget": In(1),
                "forget_entry": In(entry),
                "write": In(1),
                "write_entry": In(entry),
                "write_data": In(shape),
                "asked": In(entry).array(readers),
                "records": Out(shape).array(readers),
            }
        )

    def elaborate(self, platform):
        m = Module()
        stored = data.StructLayout({"record": self._shape, "generation": 1})
        m.submodules.stored = stored = memory.Memory(shape=stored, depth=self._depth, init=[])
        m.submodules.generations = generations = memory.Memory(shape=1, depth=self._depth, init=[])
        write, begin = stored.write_port(), generations.write_port()
        forgotten, current = stored.read_port(domain="comb"), generations.read_port(domain="comb")
        renewed = Signal()
        m.d.comb += [
            forgotten.addr.eq(self.forget_entry),
            begin.addr.eq(self.forget_entry),
            begin.data.eq(~forgotten.data.generation),
            begin.en.eq(self.forget),
            renewed.eq(self.forget & (self.forget_entry == self.write_entry)),
            current.addr.eq(self.write_entry),
            write.addr.eq(self.write_entry),
            write.data.record.eq(self.write_data),
            write.data.generation.eq(Mux(renewed, begin.data, current.data)),
            write.en.eq(self.write),
        ]
        for index in range(self._readers):
            found, generation = stored.read_port(domain="comb"), generations.read_port(domain="comb")
            m.d.comb += [found.addr.eq(self.asked[index]), generation.addr.eq(self.asked[index])]
            with m.If(found.data.generation == generation.data):
                m.d.comb += self.records[index].eq(found.data.record)
        return m
