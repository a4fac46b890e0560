"""The bytes of the lines in flight."""

from amaranth.hdl import Array, Module, Mux, Signal
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out
from amoeba_model.parameters import NicParameters

from amoeba_hw.memory.line_table import one_hot
from amoeba_hw.memory.operations import commit_of, merge

__all__ = ["LineStore"]


class LineStore(wiring.Component):
    """Two memories with a line per entry: what came from the host, and what operations wrote since.

    A byte's newest value is the written one if it was written since the entry was allocated. With one memory
    each, lines arrive and operations commit at the same time, in any order.

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
    read, read_entry : in
        Start to read an entry.
    read_data : out
        One cycle later, until the next ``read``: the newest value, with all commits up to and including the
        cycle of ``read``.
    copy, copy_entry : in
        Start to read an entry for the host.
    copy_data : out
        One cycle later, until the next ``copy``: written bytes, with all commits before the cycle of ``copy``;
        other bytes are meaningless.
    """

    def __init__(self, parameters: NicParameters):
        self._parameters = parameters
        entry = range(parameters.lines)
        width = parameters.data_width
        super().__init__(
            {
                "allocated": In(1),
                "allocated_entry": In(entry),
                "fill": In(1),
                "fill_entry": In(entry),
                "fill_data": In(width),
                "commit": In(commit_of(parameters)),
                "read": In(1),
                "read_entry": In(entry),
                "read_data": Out(width),
                "copy": In(1),
                "copy_entry": In(entry),
                "copy_data": Out(width),
            }
        )

    def elaborate(self, platform):
        m = Module()
        count, width = self._parameters.lines, self._parameters.data_width
        m.submodules.fetched = fetched = memory.Memory(shape=width, depth=count, init=[])
        m.submodules.written = written = memory.Memory(shape=width, depth=count, init=[])
        fill = fetched.write_port()
        commit = written.write_port(granularity=8)
        read_fetched = fetched.read_port()
        read_written = written.read_port(transparent_for=(commit,))
        copy = written.read_port()
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
        ]
        entry_read = Signal(range(count))
        with m.If(self.read):
            m.d.sync += entry_read.eq(self.read_entry)
        for port in (read_fetched, read_written):
            m.d.comb += [port.addr.eq(self.read_entry), port.en.eq(self.read)]

        masks = [Signal(width // 8, name=f"is_written_{index}") for index in range(count)]
        commits = one_hot(m, "commits", self.commit.entry, self.commit.valid, count)
        clears = one_hot(m, "clears", self.allocated_entry, self.allocated, count)
        for index, mask in enumerate(masks):
            with m.If(clears[index]):
                m.d.sync += mask.eq(0)
            with m.Elif(commits[index]):
                m.d.sync += mask.eq(mask | self.commit.strobe)
        is_written = Signal(width // 8)
        m.d.comb += [
            is_written.eq(Array(masks)[entry_read]),
            self.read_data.eq(merge(is_written, read_written.data, read_fetched.data)),
        ]
        return m
