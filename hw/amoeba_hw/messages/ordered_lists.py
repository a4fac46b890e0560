"""Lists of entries, oldest first, that are searched for the first match."""

from amaranth.hdl import Array, Cat, Const, Module, Signal
from amaranth.lib import data, enum, memory, stream, wiring
from amaranth.lib.wiring import In, Out

from amoeba_hw.packed import select

__all__ = ["ListAction", "OrderedLists", "list_command", "list_result"]


class ListAction(enum.Enum, shape=3):
    """Commands to a list."""

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
    """Return the layout of a command to a list, with ``key``, ``entry`` and ``index`` where the action names them."""
    return data.StructLayout(
        {"action": ListAction, "list": range(max(2, lists)), "key": key, "entry": entry, "index": range(places)}
    )


def list_result(places, entry):
    """``found``: FIND found ``entry`` in the place ``index``; ALLOCATE or APPEND took the place ``index``."""
    return data.StructLayout({"found": 1, "index": range(places), "entry": entry})


class OrderedLists(wiring.Component):
    """Several lists with places of their own, several entries of which are looked at in every cycle.

    The searched fields of each entry, and its place, stand in rows, in the order of the list without a gap: a row
    over as many memories as entries are looked at together. Entries themselves stay in their places. When one leaves
    the list, all behind it move up, a row in each cycle, while the result is taken and in the cycles after it.

    Parameters
    ----------
    lists : int
    places : int
        Of each list; a power of two.
    entry, key : data.Layout
    searched : data.StructLayout
        The fields of ``entry`` that ``matches`` looks at. REPLACE does not change them.
    matches : callable
        ``matches(searched, key)`` gives the value that says whether an entry is looked for.
    ways : int
        Entries in a row, if there are as many places; a power of two.

    Members
    -------
    commands : :func:`list_command` stream
        UNLINK, REMOVE and REPLACE follow a FIND of the same list that found something, with nothing but REPLACE
        between.
    results : :func:`list_result` stream
        One for each command, in order.
    free : array of out
        Places of each list that are free.

    A result is offered one cycle after its command; of FIND, one cycle and one for each row looked at. A command is
    taken together with its result. One that comes while rows are moved waits for that.
    """

    def __init__(self, lists, places, entry, key, searched, matches, ways=16):
        if places < 2 or places & (places - 1):
            raise ValueError(f"places must be a power of two and at least 2, got {places}")
        if ways < 1 or ways & (ways - 1):
            raise ValueError(f"ways must be a power of two, got {ways}")
        self._lists = lists
        self._places = places
        self._entry = entry
        self._searched = searched
        self._matches = matches
        self._ways = min(ways, places)
        self._row_bits = (places // self._ways - 1).bit_length()
        index = range(places)
        super().__init__(
            {
                "commands": In(stream.Signature(list_command(lists, places, entry, key))),
                "results": Out(stream.Signature(list_result(places, entry))),
                "free": Out(range(places + 1), init=places).array(lists),
            }
        )
        self._counts = Array(Signal(range(places + 1), name=f"count{n}") for n in range(lists))
        self._taken = Array(Signal(places, name=f"taken{n}") for n in range(lists))
        self._linked = Array(Signal(places, name=f"linked{n}") for n in range(lists))
        self._lowest = Array(Signal(index, name=f"lowest{n}") for n in range(lists))
        """Free place with the lowest number, where one is free; a cycle late, as long as a command's result takes."""
        self._found = Signal()
        self._index = Signal(index)
        """The place last found, or taken."""
        self._row = Signal(self._row_bits)
        self._way = Signal(self._ways)
        """Where the entry last found stands; the row while it is being looked for. The way as one bit of as many."""
        self._moves = Signal()
        self._moved_list = Signal(len(self.commands.p.list))
        """A row of the list is being moved: the memories show it, and of the first way the row behind it."""
        self._moved_row = Signal(self._row_bits)
        self._stays = Signal(self._ways)
        """The row that is moved up, and the ways of it that stay."""
        self._address, self._address_behind = (
            Signal(self._row_bits + len(self.commands.p.list), name=name) for name in ("address", "address_behind")
        )
        """Addresses that are read of the ways, and of the first one."""

    def elaborate(self, platform):
        m = Module()
        shape = data.StructLayout({"searched": self._searched, "place": range(self._places)})
        m.submodules.entries = entries = memory.Memory(shape=self._entry, depth=self._lists * self._places, init=[])
        banks, depth = [], 1 << len(self._address)
        for way in range(self._ways):
            m.submodules[f"way_{way}"] = bank = memory.Memory(shape=shape, depth=depth, init=[])
            banks.append((bank.read_port(), bank.write_port()))
        read = entries.read_port()
        command, result = self.commands.p, self.results.p
        m.d.comb += [
            self.commands.ready.eq(self.results.valid & self.results.ready),
            result.found.eq(self._found),
            result.index.eq(self._index),
            result.entry.eq(read.data),
            read.en.eq(0),
            *(port.addr.eq(self._address if way else self._address_behind) for way, (port, _) in enumerate(banks)),
        ]
        for lowest, taken in zip(self._lowest, self._taken, strict=True):
            first = Signal.like(taken)
            m.d.comb += first.eq(~taken & (taken + 1))
            m.d.sync += lowest.eq(select(len(lowest), ((first[place], place) for place in range(self._places))))
        self._read_row(m, command.list, 0)
        with m.FSM(name="walk"):
            with m.State("TAKE"), m.If(self.commands.valid & ~self._moves):
                m.d.sync += self._found.eq(0)
                with m.If((command.action == ListAction.FIND) & (self._counts[command.list] != 0)):
                    m.d.sync += self._row.eq(0)
                    m.next = "LOOK"
                with m.Else():
                    self._elaborate_change(m, entries.write_port(), banks)
                    m.d.sync += self.results.valid.eq(1)
                    m.next = "GIVE"
            with m.State("LOOK"):
                self._elaborate_look(m, read, [port.data for port, _ in banks])
            with m.State("GIVE"), m.If(self.results.ready):
                m.d.sync += self.results.valid.eq(0)
                m.next = "TAKE"
        self._elaborate_move(m, banks)
        return m

    def _read_row(self, m, number, row, ahead=0):
        """Read a row of the memories, for the next cycle; of the first way so many rows further on."""
        for address, at in ((self._address, row), (self._address_behind, row + ahead)):
            m.d.comb += address.eq(Cat((Const(0, self._row_bits) + at)[: self._row_bits], number))

    def _is_last(self, row, count):
        """Whether nothing of a list stands behind a row."""
        return (row + 1) * self._ways >= count

    def _elaborate_look(self, m, read, shown):
        number, count = self.commands.p.list, self._counts[self.commands.p.list]
        hits, first = Signal(self._ways), Signal(self._ways)
        place = Signal(range(self._places))
        m.d.comb += [
            hits.eq(
                Cat(
                    self._matches(entry.searched, self.commands.p.key) & (self._row * self._ways + way < count)
                    for way, entry in enumerate(shown)
                )
            ),
            first.eq(hits & -hits),
            place.eq(select(len(place), ((first[way], entry.place) for way, entry in enumerate(shown)))),
            read.en.eq(1),
            read.addr.eq(Cat(place, number)),
        ]
        self._read_row(m, number, self._row + 1)
        m.d.sync += [self._found.eq(hits.any()), self._index.eq(place), self._way.eq(first)]
        with m.If(hits.any() | self._is_last(self._row, count)):
            m.d.sync += self.results.valid.eq(1)
            m.next = "GIVE"
        with m.Else():
            m.d.sync += self._row.eq(self._row + 1)

    def _elaborate_change(self, m, write, banks):
        """Execute a command other than FIND, in the cycle in which it is taken."""
        command, number, index = self.commands.p, self.commands.p.list, self.commands.p.index
        taken, linked, free = self._taken[number], self._linked[number], Array(self.free)[number]
        held = taken.bit_select(index, 1) & ~linked.bit_select(index, 1)
        with m.Switch(command.action):
            with m.Case(ListAction.REPLACE):
                m.d.comb += [write.en.eq(1), write.addr.eq(Cat(self._index, number)), write.data.eq(command.entry)]
            with m.Case(ListAction.ALLOCATE, ListAction.APPEND), m.If(free != 0):
                self._elaborate_addition(m, write, banks)
            with m.Case(ListAction.UNLINK, ListAction.REMOVE):
                self._elaborate_removal(m)
            with m.Case(ListAction.RELEASE), m.If(held):
                m.d.sync += [taken.bit_select(index, 1).eq(0), free.eq(free + 1)]
            with m.Case(ListAction.CLEAR):
                m.d.sync += [self._counts[number].eq(0), taken.eq(0), linked.eq(0), free.eq(self._places)]

    def _elaborate_addition(self, m, write, banks):
        """ALLOCATE and APPEND, where a place is free."""
        command, number = self.commands.p, self.commands.p.list
        count, taken, free, lowest = (
            array[number] for array in (self._counts, self._taken, Array(self.free), self._lowest)
        )
        way_bits = (self._ways - 1).bit_length()
        m.d.sync += [self._found.eq(1), self._index.eq(lowest)]
        m.d.sync += [taken.bit_select(lowest, 1).eq(1), free.eq(free - 1)]
        with m.If(command.action == ListAction.APPEND):
            m.d.comb += [write.en.eq(1), write.addr.eq(Cat(lowest, number)), write.data.eq(command.entry)]
            m.d.sync += [count.eq(count + 1), self._linked[number].bit_select(lowest, 1).eq(1)]
            for way, (_, port) in enumerate(banks):
                m.d.comb += [
                    port.en.eq(count[:way_bits] == way),
                    port.addr.eq(Cat(count[way_bits : way_bits + self._row_bits], number)),
                    port.data.place.eq(lowest),
                    *(port.data.searched[name].eq(command.entry[name]) for name, _ in self._searched),
                ]

    def _elaborate_removal(self, m):
        """UNLINK and REMOVE."""
        number, place = self.commands.p.list, self._index
        count, taken, free = (array[number] for array in (self._counts, self._taken, Array(self.free)))
        m.d.sync += [count.eq(count - 1), self._linked[number].bit_select(place, 1).eq(0)]
        with m.If(self.commands.p.action == ListAction.REMOVE):
            m.d.sync += [taken.bit_select(place, 1).eq(0), free.eq(free + 1)]
        self._read_row(m, number, self._row, ahead=1)
        m.d.sync += [
            self._moves.eq(1),
            self._moved_list.eq(number),
            self._moved_row.eq(self._row),
            self._stays.eq(self._way - 1),
        ]

    def _elaborate_move(self, m, banks):
        """Move a row up by one entry in each cycle; the last of it is the first of the row behind."""
        row, number = self._moved_row, self._moved_list
        with m.If(self._moves):
            for way, (_, port) in enumerate(banks):
                m.d.comb += [
                    port.en.eq(~self._stays[way]),
                    port.addr.eq(Cat(row, number)),
                    port.data.eq(banks[(way + 1) % self._ways][0].data),
                ]
            self._read_row(m, number, row + 1, ahead=1)
            m.d.sync += [
                row.eq(row + 1),
                self._stays.eq(0),
                self._moves.eq(~self._is_last(row, self._counts[number])),
            ]
