"""The bytes of the lines in flight."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out
from amoeba_model.parameters import NicParameters

from amoeba_hw.memory.entry_records import EntryRecords
from amoeba_hw.memory.operations import commit_of, entries, merge

__all__ = ["LineStore"]


class LineStore(wiring.Component):
    """Two memories with a line per entry: bytes from the host, and bytes that operations wrote since.

    A byte's newest value is the written one if it was written since the entry was allocated. With one memory
    each, lines arrive and operations commit at the same time, in any order. A byte is dirty if it was written since
    its line was last copied for the host.

    Parameters
    ----------
    parameters : NicParameters

    Members
    -------
    allocated, allocated_entry : in
        Pulse: forget what was written to this entry.
    fill, fill_entry, fill_data : in
        Pulse: the host's line has arrived.
    commit : in, commit_of
    dirtied, dirtied_entry : out
        Pulse: the commit of the cycle before made the first byte of its line dirty; those that a copy in that cycle
        took do not count.
    read, read_entry : in
        Start to read an entry.
    read_data : out
        One cycle later: the newest value, with all commits up to and including the cycle of ``read``.
    copy, copy_entry : in
        Start to read an entry for the host, whose bytes are clean then.
    copy_data, copy_strobe : out
        One cycle later, until the next ``copy``: the dirty bytes, with all commits before the cycle of ``copy``,
        and which they are; other bytes are meaningless.
    """

    def __init__(self, parameters: NicParameters):
        self._parameters = parameters
        entry = range(entries(parameters))
        width = parameters.data_width
        super().__init__(
            {
                "allocated": In(1),
                "allocated_entry": In(entry),
                "fill": In(1),
                "fill_entry": In(entry),
                "fill_data": In(width),
                "commit": In(commit_of(parameters)),
                "dirtied": Out(1),
                "dirtied_entry": Out(entry),
                "read": In(1),
                "read_entry": In(entry),
                "read_data": Out(width),
                "copy": In(1),
                "copy_entry": In(entry),
                "copy_data": Out(width),
                "copy_strobe": Out(width // 8),
            }
        )

    def elaborate(self, platform):
        m = Module()
        count, width = entries(self._parameters), self._parameters.data_width
        m.submodules.fetched = fetched = memory.Memory(shape=width, depth=count, init=[])
        m.submodules.written = written = memory.Memory(shape=width, depth=count, init=[])
        fill = fetched.write_port()
        commit = written.write_port(granularity=8)
        read_fetched = fetched.read_port()
        read_written = written.read_port(transparent_for=(commit,))
        copy = written.read_port()
        is_written = self._account(m)
        m.d.comb += [
            fill.addr.eq(self.fill_entry),
            fill.data.eq(self.fill_data),
            fill.en.eq(self.fill),
            commit.addr.eq(self.commit.entry),
            commit.data.eq(self.commit.data),
            commit.en.eq(Mux(self.commit.valid, self.commit.strobe, 0)),
            copy.addr.eq(self.copy_entry),
            copy.en.eq(self.copy),
            self.copy_data.eq(copy.data),
            *(port.addr.eq(self.read_entry) for port in (read_fetched, read_written)),
            *(port.en.eq(self.read) for port in (read_fetched, read_written)),
            self.read_data.eq(merge(is_written, read_written.data, read_fetched.data)),
        ]
        return m

    def _account(self, m):
        """Keep account of written and dirty bytes; return those written of the entry read in the cycle before."""
        count, strobe = entries(self._parameters), self._parameters.data_width // 8
        m.submodules.writes = writes = EntryRecords(strobe, count, readers=3)
        m.submodules.changes = changes = EntryRecords(strobe, count, readers=2)
        for records, index in ((writes, 0), (changes, 0)):
            m.d.comb += [
                records.asked[index].eq(self.commit.entry),
                records.write.eq(self.commit.valid),
                records.write_entry.eq(self.commit.entry),
            ]
        dirty, copied = Signal(strobe), Signal(strobe)
        found, is_written = Signal(strobe), Signal(strobe)
        m.d.comb += [
            writes.forget.eq(self.allocated),
            writes.forget_entry.eq(self.allocated_entry),
            writes.write_data.eq(writes.records[0] | self.commit.strobe),
            changes.forget.eq(self.copy),
            changes.forget_entry.eq(self.copy_entry),
            # An entry need not be clean when it is allocated for the first time after a reset.
            dirty.eq(changes.records[0] & writes.records[0]),
            copied.eq(changes.records[1] & writes.records[1]),
            writes.asked[1].eq(self.copy_entry),
            changes.asked[1].eq(self.copy_entry),
            writes.asked[2].eq(self.read_entry),
            found.eq(writes.records[2]),
        ]
        with m.If(self.commit.valid & (self.commit.entry == self.read_entry)):
            m.d.comb += found.eq(writes.records[2] | self.commit.strobe)
        with m.If(self.copy & (self.copy_entry == self.commit.entry)):
            m.d.comb += dirty.eq(0)
        m.d.comb += changes.write_data.eq(dirty | self.commit.strobe)
        m.d.sync += [
            self.dirtied.eq(self.commit.valid & self.commit.strobe.any() & ~dirty.any()),
            self.dirtied_entry.eq(self.commit.entry),
        ]
        with m.If(self.read):
            m.d.sync += is_written.eq(found)
        with m.If(self.copy):
            m.d.sync += self.copy_strobe.eq(copied)
        return is_written
