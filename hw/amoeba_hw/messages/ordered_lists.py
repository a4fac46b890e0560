"""Lists of entries, oldest first, that are searched for the first match."""

from amaranth.hdl import Array, Cat, Module, Signal
from amaranth.lib import data, enum, memory, stream, wiring
from amaranth.lib.wiring import In, Out

from amoeba_hw.packed import select

__all__ = ["ListAction", "OrderedLists", "list_command", "list_result"]


class ListAction(enum.Enum, shape=3):
    """What a command does to its list."""

    FIND = 0
    """Look for the oldest entry that matches ``key``."""
    UNLINK = 1
    """Take the entry last found out of its list; its place stays taken."""
    REMOVE = 2
    """The same, and give its place back."""
    REPLACE = 3
    """Overwrite the entry last found, in its place and turn, with ``entry``."""
    ALLOCATE = 4
    """Take the free place with the lowest number."""
    APPEND = 5
    """The same, and put ``entry`` there, as the youngest of the list."""
    RELEASE = 6
    """Give the place ``index`` back, unless an entry in the list has it."""
    CLEAR = 7
    """Empty the list and give all its places back."""


def list_command(lists, places, entry, key):
    """What is to be done to which list; ``key``, ``entry`` and ``index`` where the action names them."""
    return data.StructLayout(
        {"action": ListAction, "list": range(max(2, lists)), "key": key, "entry": entry, "index": range(places)}
    )


def list_result(places, entry):
    """``found``: FIND found ``entry`` in the place ``index``; ALLOCATE or APPEND took the place ``index``."""
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
        UNLINK, REMOVE and REPLACE follow a FIND of the same list that found something, with nothing but REPLACE
        between.
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
        self._lowest = Array(Signal(index, name=f"lowest{n}") for n in range(lists))
        """Free place with the lowest number, where one is free; a cycle late, as long as a command's result takes."""
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
        for lowest, taken in zip(self._lowest, self._taken, strict=True):
            first = Signal.like(taken)
            m.d.comb += first.eq(~taken & (taken + 1))
            m.d.sync += lowest.eq(select(len(lowest), ((first[place], place) for place in range(self._places))))
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
                # Whatever is being looked at: it is the result where the walk ends, which is known late.
                m.d.sync += [
                    result.found.eq(found),
                    result.index.eq(self._here),
                    result.entry.eq(read.data),
                    self._after.eq(next_read.data),
                ]
                with m.If(found | (self._here == self._tails[number])):
                    m.d.sync += self.results.valid.eq(1)
                    m.next = "GIVE"
                with m.Else():
                    m.d.sync += [self._here.eq(next_read.data), self._before.eq(self._here)]
            with m.State("GIVE"), m.If(self.results.ready):
                m.d.sync += self.results.valid.eq(0)
                m.next = "TAKE"
        return m

    def _elaborate_change(self, m, write, next_write):
        """What a command other than FIND does, in the cycle in which it is taken."""
        command, number, index = self.commands.p, self.commands.p.list, self.commands.p.index
        taken, linked, free = self._taken[number], self._linked[number], Array(self.free)[number]
        held = taken.bit_select(index, 1) & ~linked.bit_select(index, 1)
        with m.Switch(command.action):
            with m.Case(ListAction.REPLACE):
                m.d.comb += [write.en.eq(1), write.addr.eq(Cat(self._here, number)), write.data.eq(command.entry)]
            with m.Case(ListAction.ALLOCATE, ListAction.APPEND), m.If(free != 0):
                self._elaborate_addition(m, write, next_write)
            with m.Case(ListAction.UNLINK, ListAction.REMOVE):
                self._elaborate_removal(m, next_write)
            with m.Case(ListAction.RELEASE), m.If(held):
                m.d.sync += [taken.bit_select(index, 1).eq(0), free.eq(free + 1)]
            with m.Case(ListAction.CLEAR):
                m.d.sync += [self._counts[number].eq(0), taken.eq(0), linked.eq(0), free.eq(self._places)]

    def _elaborate_addition(self, m, write, next_write):
        """ALLOCATE and APPEND, where a place is free."""
        command, number, result = self.commands.p, self.commands.p.list, self.results.p
        tail, count, taken, free, lowest = (
            array[number] for array in (self._tails, self._counts, self._taken, Array(self.free), self._lowest)
        )
        m.d.sync += [result.found.eq(1), result.index.eq(lowest)]
        m.d.sync += [taken.bit_select(lowest, 1).eq(1), free.eq(free - 1)]
        with m.If(command.action == ListAction.APPEND):
            m.d.comb += [
                write.en.eq(1),
                write.addr.eq(Cat(lowest, number)),
                write.data.eq(command.entry),
                next_write.en.eq(count != 0),
                next_write.addr.eq(Cat(tail, number)),
                next_write.data.eq(lowest),
            ]
            m.d.sync += [tail.eq(lowest), count.eq(count + 1), self._linked[number].bit_select(lowest, 1).eq(1)]
            with m.If(count == 0):
                m.d.sync += self._heads[number].eq(lowest)

    def _elaborate_removal(self, m, next_write):
        """UNLINK and REMOVE."""
        number, here = self.commands.p.list, self._here
        head, tail, count, free = (
            array[number] for array in (self._heads, self._tails, self._counts, Array(self.free))
        )
        m.d.comb += [
            next_write.en.eq(here != head),
            next_write.addr.eq(Cat(self._before, number)),
            next_write.data.eq(self._after),
        ]
        m.d.sync += [count.eq(count - 1), self._linked[number].bit_select(here, 1).eq(0)]
        with m.If(here == head):
            m.d.sync += head.eq(self._after)
        with m.Elif(here == tail):
            m.d.sync += tail.eq(self._before)
        with m.If(self.commands.p.action == ListAction.REMOVE):
            m.d.sync += [self._taken[number].bit_select(here, 1).eq(0), free.eq(free + 1)]
