"""Lists of entries, oldest first, that are searched for the first match."""

from amaranth.hdl import Array, Cat, Module, Mux, Signal
from amaranth.lib import data, enum, memory, stream, wiring
from amaranth.lib.wiring import In, Out

__all__ = ["ListAction", "OrderedLists", "list_command", "list_result"]


class ListAction(enum.Enum, shape=3):
    """What a command does to its list."""

    FIND = 0
    """Look for the oldest entry that matches ``key``."""
    UNLINK = 1
    """Take the entry last found out of its list; its place stays taken."""
    REPLACE = 2
    """Overwrite the entry last found, in its place and turn, with ``entry``."""
    ALLOCATE = 3
    """Take the free place with the lowest number."""
    APPEND = 4
    """Put ``entry`` into the place ``index``, which has been allocated, as the youngest of the list."""
    RELEASE = 5
    """Give the place ``index`` back, unless an entry in the list has it."""
    CLEAR = 6
    """Empty the list and give all its places back."""


def list_command(lists, places, entry, key):
    """What is to be done to which list; ``key``, ``entry`` and ``index`` as the action says."""
    return data.StructLayout(
        {"action": ListAction, "list": range(max(2, lists)), "key": key, "entry": entry, "index": range(places)}
    )


def list_result(places, entry):
    """``found``: FIND found ``entry`` in the place ``index``; ALLOCATE took ``index``."""
    return data.StructLayout({"found": 1, "index": range(places), "entry": entry})


class OrderedLists(wiring.Component):
    """Several lists with places of their own: linked lists in two memories, walked one entry per cycle.

    Parameters
    ----------
    lists : int
    places : int
        Of each list; a power of two.
    entry, key : data.Layout
    matches : callable
        ``matches(entry, key)`` gives the value that says whether an entry is looked for.

    Members
    -------
    commands : :func:`list_command` stream
        UNLINK and REPLACE follow a FIND of the same list that found something, with nothing but REPLACE between.
    results : :func:`list_result` stream
        One for each command, in order.
    free : array of out
        Places of each list that are free.

    A result is offered one cycle after its command; of FIND, one cycle and one for each entry looked at. A command is
    taken together with its result.
    """

    def __init__(self, lists, places, entry, key, matches):
        if places < 2 or places & (places - 1):
            raise ValueError(f"places must be a power of two and at least 2, got {places}")
        self._lists = lists
        self._places = places
        self._entry = entry
        self._matches = matches
        index = range(places)
        super().__init__(
            {
                "commands": In(stream.Signature(list_command(lists, places, entry, key))),
                "results": Out(stream.Signature(list_result(places, entry))),
                "free": Out(range(places + 1), init=places).array(lists),
            }
        )
        self._heads = Array(Signal(index, name=f"head{n}") for n in range(lists))
        self._tails = Array(Signal(index, name=f"tail{n}") for n in range(lists))
        self._counts = Array(Signal(range(places + 1), name=f"count{n}") for n in range(lists))
        self._taken = Array(Signal(places, name=f"taken{n}") for n in range(lists))
        self._linked = Array(Signal(places, name=f"linked{n}") for n in range(lists))
        self._here = Signal(index)
        """The entry being looked at, or last found."""
        self._before = Signal(index)
        """The entry in front of it, unless it is the head."""
        self._after = Signal(index)
        """The entry behind the one last found."""

    def elaborate(self, platform):
        m = Module()
        depth = self._lists * self._places
        m.submodules.entries = entries = memory.Memory(shape=self._entry, depth=depth, init=[])
        m.submodules.nexts = nexts = memory.Memory(shape=range(self._places), depth=depth, init=[])
        read, next_read = entries.read_port(), nexts.read_port()
        command, result = self.commands.p, self.results.p
        number = command.list
        found = Signal()
        onward = Signal(range(self._places))
        m.d.comb += [
            found.eq(self._matches(read.data, command.key)),
            read.addr.eq(Cat(onward, number)),
            next_read.addr.eq(read.addr),
            self.commands.ready.eq(self.results.valid & self.results.ready),
        ]
        with m.FSM(name="walk"):
            with m.State("TAKE"):
                m.d.comb += onward.eq(self._heads[number])
                with m.If(self.commands.valid):
                    m.d.sync += result.found.eq(0)
                    with m.If((command.action == ListAction.FIND) & (self._counts[number] != 0)):
                        m.d.sync += self._here.eq(self._heads[number])
                        m.next = "LOOK"
                    with m.Else():
                        self._elaborate_change(m, entries.write_port(), nexts.write_port())
                        m.d.sync += self.results.valid.eq(1)
                        m.next = "GIVE"
            with m.State("LOOK"):
                m.d.comb += onward.eq(next_read.data)
                with m.If(found | (self._here == self._tails[number])):
                    m.d.sync += [
                        self.results.valid.eq(1),
                        result.found.eq(found),
                        result.index.eq(self._here),
                        result.entry.eq(read.data),
                        self._after.eq(next_read.data),
                    ]
                    m.next = "GIVE"
                with m.Else():
                    m.d.sync += [self._here.eq(next_read.data), self._before.eq(self._here)]
            with m.State("GIVE"), m.If(self.results.ready):
                m.d.sync += self.results.valid.eq(0)
                m.next = "TAKE"
        return m

    def _elaborate_change(self, m, write, next_write):
        """What a command other than FIND does, in the cycle in which it is taken."""
        command, number = self.commands.p, self.commands.p.list
        head, tail, count = self._heads[number], self._tails[number], self._counts[number]
        taken, linked, free = self._taken[number], self._linked[number], Array(self.free)[number]
        lowest = Signal(range(self._places))
        for place in reversed(range(self._places)):
            with m.If(~taken[place]):
                m.d.comb += lowest.eq(place)
        m.d.comb += [
            write.data.eq(command.entry),
            write.addr.eq(Cat(Mux(command.action == ListAction.REPLACE, self._here, command.index), number)),
        ]
        with m.Switch(command.action):
            with m.Case(ListAction.REPLACE):
                m.d.comb += write.en.eq(1)
            with m.Case(ListAction.ALLOCATE), m.If(free != 0):
                m.d.sync += [
                    self.results.p.found.eq(1),
                    self.results.p.index.eq(lowest),
                    taken.bit_select(lowest, 1).eq(1),
                    free.eq(free - 1),
                ]
            with m.Case(ListAction.APPEND):
                m.d.comb += [
                    write.en.eq(1),
                    next_write.en.eq(count != 0),
                    next_write.addr.eq(Cat(tail, number)),
                    next_write.data.eq(command.index),
                ]
                m.d.sync += [tail.eq(command.index), count.eq(count + 1), linked.bit_select(command.index, 1).eq(1)]
                with m.If(count == 0):
                    m.d.sync += head.eq(command.index)
            with m.Case(ListAction.UNLINK):
                is_head = self._here == head
                m.d.comb += [
                    next_write.en.eq(~is_head),
                    next_write.addr.eq(Cat(self._before, number)),
                    next_write.data.eq(self._after),
                ]
                m.d.sync += [count.eq(count - 1), linked.bit_select(self._here, 1).eq(0)]
                with m.If(is_head):
                    m.d.sync += head.eq(self._after)
                with m.Elif(self._here == tail):
                    m.d.sync += tail.eq(self._before)
            with m.Case(ListAction.RELEASE):
                held = taken.bit_select(command.index, 1) & ~linked.bit_select(command.index, 1)
                with m.If(held):
                    m.d.sync += [
                        taken.bit_select(command.index, 1).eq(0),
                        free.eq(free + 1),
                    ]
            with m.Case(ListAction.CLEAR):
                m.d.sync += [count.eq(0), taken.eq(0), linked.eq(0), free.eq(self._places)]
