"""Linked lists that are searched and changed, against lists that are simply written down."""

from functools import reduce
from operator import or_

from amaranth.hdl import Array, Assert, Assume, Cat, Const, Cover, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amoeba_hw.messages.ordered_lists import ListAction, OrderedLists, list_command, list_result

from tests.formal.rules import StreamRules, connect_ports, never_reset, open_memory, open_up

__all__ = ["OrderedListsSpec"]

PLACES = 4
WAYS = 2
ROWS = PLACES // WAYS
ENTRY = data.StructLayout({"kind": 1, "mark": 1})
KEY = SEARCHED = data.StructLayout({"kind": 1})


def matches(entry, key):
    return entry.kind == key.kind


class _NaiveList:
    """One list as a column of places and entries, the oldest first, and the set of places that are taken."""

    def __init__(self, number):
        self.order = Array(Signal(range(PLACES), name=f"order{number}_{at}") for at in range(PLACES))
        self.entries = Array(Signal(ENTRY, name=f"entry{number}_{at}") for at in range(PLACES))
        self.length = Signal(range(PLACES + 1), name=f"length{number}")
        self.linked = Signal(PLACES, name=f"linked{number}")
        """Places in the list, as a set."""
        self.taken = Signal(PLACES, name=f"taken{number}")
        self.lowest = Signal(range(PLACES), name=f"lowest{number}")
        """The free place with the lowest number, if any is free."""
        self.position, self.found = Signal(range(PLACES), name=f"position{number}"), Signal(name=f"found{number}")
        """Where the oldest entry that matches the key is, if any does."""

    def look(self, m, key):
        """Keep ``linked``, ``lowest``, ``position`` and ``found`` up to date."""
        m.d.comb += self.linked.eq(
            reduce(or_, (Mux(at < self.length, 1 << self.order[at], 0) for at in range(PLACES)))
        )
        for at in reversed(range(PLACES)):
            with m.If(~self.taken[at]):
                m.d.comb += self.lowest.eq(at)
            with m.If((at < self.length) & matches(self.entries[at], key)):
                m.d.comb += [self.position.eq(at), self.found.eq(1)]

    def change(self, m, command, at):
        """Do a command; ``at``: the position last found."""
        with m.Switch(command.action):
            with m.Case(ListAction.ALLOCATE, ListAction.APPEND), m.If(~self.taken.all()):
                m.d.sync += self.taken.eq(self.taken | (1 << self.lowest))
                with m.If(command.action == ListAction.APPEND):
                    m.d.sync += [
                        self.order[self.length].eq(self.lowest),
                        self.entries[self.length].eq(command.entry),
                        self.length.eq(self.length + 1),
                    ]
            with m.Case(ListAction.UNLINK, ListAction.REMOVE):
                m.d.sync += self.length.eq(self.length - 1)
                for position in range(PLACES - 1):
                    with m.If(position >= at):
                        m.d.sync += [
                            self.order[position].eq(self.order[position + 1]),
                            self.entries[position].eq(self.entries[position + 1]),
                        ]
                with m.If(command.action == ListAction.REMOVE):
                    m.d.sync += self.taken.eq(self.taken & ~(1 << self.order[at]))
            with m.Case(ListAction.REPLACE):
                m.d.sync += self.entries[at].eq(command.entry)
            with m.Case(ListAction.RELEASE):
                m.d.sync += self.taken.eq(self.taken & (self.linked | ~(1 << command.index)))
            with m.Case(ListAction.CLEAR):
                m.d.sync += [self.length.eq(0), self.taken.eq(0)]


class OrderedListsSpec(wiring.Component):
    """OrderedLists of 4 places, two in a row: every result is that of naive lists, and in its cycle.

    Commands come in any order and at any time; only UNLINK, REMOVE and REPLACE follow what they have to, and REPLACE
    leaves what is looked for as it is. A naive list changes in the cycle in which its command is first offered and no
    row is being moved, as the component does; and rows are moved for as many cycles as there are, at most.

    Parameters
    ----------
    lists : int
    """

    def __init__(self, lists=1):
        super().__init__(
            {
                "commands": In(stream.Signature(list_command(lists, PLACES, ENTRY, KEY))),
                "results": Out(stream.Signature(list_result(PLACES, ENTRY))),
                "free": Out(range(PLACES + 1)).array(lists),
            }
        )
        self._lists = [_NaiveList(number) for number in range(lists)]
        self._begins, self._busy = Signal(), Signal()
        """A command begins; one has begun, and its result has not been taken."""
        self._elapsed = Signal(range(ROWS + 2))
        """Cycles since it began, until its result is there."""
        self._may_change = Signal()
        """The entry last found may be changed."""
        self._at, self._found_in = Signal(range(PLACES)), Signal.like(self.commands.p.list)
        """Its position and its list."""
        self._added, self._place = Signal(), Signal(range(PLACES))
        """The command that has begun took a place, this one."""

    def elaborate(self, platform):
        m = Module()
        never_reset(m)
        dut = OrderedLists(len(self._lists), PLACES, ENTRY, KEY, SEARCHED, matches, WAYS)
        fragment, registers = open_up(dut, platform)
        entries, _ = open_memory(fragment, "entries")
        ways = [_Way(*open_memory(fragment, f"way_{way}")) for way in range(WAYS)]
        m.submodules.dut = fragment
        connect_ports(m, self, dut)
        m.submodules.environment = StreamRules(self.commands, Assume)
        m.submodules.contract = StreamRules(self.results, Assert)
        chosen = self._elaborate_naive(m, registers["_moves"])
        self._prove_results(m, chosen)
        self._prove_lists(m, registers, Array(entries), ways)
        self._prove_addresses(m, registers, chosen, ways)
        self._prove_moves(m, registers, ways)
        self._cover(m, chosen)
        return m

    def _elaborate_naive(self, m, moves):
        """The naive lists and what is known of the command on offer; returns the list that it is for."""
        command, begins, busy = self.commands.p, self._begins, self._busy
        is_find = command.action == ListAction.FIND
        changes = command.action.as_value().matches(ListAction.UNLINK, ListAction.REMOVE, ListAction.REPLACE)
        for naive in self._lists:
            naive.look(m, command.key)
        chosen = _Choice(self._lists, command.list)
        ends = self.commands.valid & self.commands.ready
        m.d.comb += [
            begins.eq(self.commands.valid & ~busy & ~moves),
            Assume(command.list < len(self._lists)),
            Assume(~(begins & changes) | (self._may_change & (command.list == self._found_in))),
            Assume(
                ~(begins & (command.action == ListAction.REPLACE))
                | (command.entry.kind == chosen.entries[self._at].kind)
            ),
        ]
        m.d.sync += [
            busy.eq((busy | begins) & ~ends),
            self._elapsed.eq(Mux(begins, 1, self._elapsed + (busy & ~self.results.valid))),
        ]
        with m.If(begins):
            m.d.sync += [
                self._may_change.eq(self._may_change & (command.action == ListAction.REPLACE)),
                self._added.eq(
                    command.action.as_value().matches(ListAction.ALLOCATE, ListAction.APPEND) & ~chosen.taken.all()
                ),
                self._place.eq(chosen.lowest),
            ]
        with m.If(ends & is_find):
            m.d.sync += [
                self._may_change.eq(chosen.found),
                self._at.eq(chosen.position),
                self._found_in.eq(command.list),
            ]
        for number, naive in enumerate(self._lists):
            with m.If(begins & (command.list == number)):
                naive.change(m, command, self._at)
        return chosen

    def _prove_results(self, m, chosen):
        command, result, busy = self.commands.p, self.results.p, self._busy
        is_find = command.action == ListAction.FIND
        rows = Mux(chosen.found, (chosen.position >> 1) + 1, (chosen.length + 1) >> 1)
        looked_at = Mux(is_find, rows, 0)
        m.d.comb += [
            Assert(self.results.valid == (busy & (self._elapsed == looked_at + 1))),
            Assert(~busy | (self._elapsed <= looked_at + 1)),
            Assert(self.commands.ready == (self.results.valid & self.results.ready)),
        ]
        with m.If(self.results.valid):
            m.d.comb += [
                Assert(result.found == Mux(is_find, chosen.found, self._added)),
                Assert(~self._added | is_find | (result.index == self._place)),
            ]
            with m.If(is_find & chosen.found):
                m.d.comb += [
                    Assert(result.index == chosen.order[chosen.position]),
                    Assert(result.entry.as_value() == chosen.entries[chosen.position].as_value()),
                ]
        for naive, free in zip(self._lists, self.free, strict=True):
            m.d.comb += Assert(free == PLACES - sum(naive.taken))

    def _prove_lists(self, m, registers, entries, ways):
        """For the induction: rows are as the naive lists are ordered; behind what has moved up, one place further."""
        for number, naive in enumerate(self._lists):
            length, order = naive.length, naive.order
            m.d.comb += [
                Assert(length <= PLACES),
                Assert(registers[f"count{number}"] == length),
                Assert(registers[f"taken{number}"] == naive.taken),
                Assert(registers[f"linked{number}"] == naive.linked),
                Assert(naive.linked & ~naive.taken == 0),
                # No place twice.
                Assert(sum(naive.linked) == length),
            ]
            moves = registers["_moves"] & (registers["_moved_list"] == number)
            m.d.comb += Assert(~moves | (length < PLACES))
            for at in range(PLACES):
                row, way = divmod(at, WAYS)
                moved = registers["_moved_row"]
                stays = (moved > row) | ((moved == row) & registers["_stays"][way])
                entry = Signal(ENTRY, name=f"naive_{number}_{at}")
                m.d.comb += entry.eq(naive.entries[at])
                in_place = Cat(entry.kind, order[at])
                with m.If(at < length):
                    m.d.comb += Assert(entries[Cat(order[at], Const(number, 1))] == entry.as_value())
                    with m.If(~moves | stays):
                        m.d.comb += Assert(ways[way].rows[number * ROWS + row] == in_place)
                    if at + 1 < PLACES:
                        further_row, further_way = divmod(at + 1, WAYS)
                        with m.If(moves & ~stays):
                            m.d.comb += Assert(ways[further_way].rows[number * ROWS + further_row] == in_place)

    def _prove_addresses(self, m, registers, chosen, ways):
        """For the induction: where a FIND is, and what it leaves behind for UNLINK and REMOVE."""
        row, way, index = registers["_row"], registers["_way"], registers["_index"]
        is_find = self.commands.p.action == ListAction.FIND
        looks = self._busy & is_find & ~self.results.valid
        m.d.comb += [
            # TAKE, LOOK, GIVE are numbered in this order.
            Assert(registers["walk_state"] == Mux(self.results.valid, 2, self._busy)),
            Assert(~self._busy | (self.commands.valid & (self._elapsed != 0))),
            Assert(~(looks & registers["_moves"])),
        ]
        with m.If(looks):
            m.d.comb += [
                Assert(row == self._elapsed - 1),
                Assert(row * WAYS < chosen.length),
                Assert(~chosen.found | (row * WAYS <= chosen.position)),
                *(Assert(each.shown == each.rows[Cat(row, self.commands.p.list)]) for each in ways),
            ]
        found_here = self.results.valid & is_find & chosen.found
        left = _Choice(self._lists, Mux(found_here, self.commands.p.list, self._found_in))
        at = Mux(found_here, chosen.position, self._at)
        with m.If(found_here | self._may_change):
            m.d.comb += [
                Assert(at < left.length),
                Assert(index == left.order[at]),
                Assert(row == at >> 1),
                Assert(way == Mux(at[0], 0b10, 0b01)),
            ]
        m.d.comb += Assert(~self._may_change | ~self._busy | (self.commands.p.action == ListAction.REPLACE))

    def _prove_moves(self, m, registers, ways):
        """Rows move one after the other, and what the memories show then is what moves."""
        moves, row, number = (registers[name] for name in ("_moves", "_moved_row", "_moved_list"))
        stays, elapsed = registers["_stays"], Signal(range(ROWS + 2))
        first, *others = ways
        m.d.sync += elapsed.eq(Mux(moves, elapsed + 1, 0))
        with m.If(moves):
            m.d.comb += [
                Assert(elapsed <= row),
                Assert(stays.matches("00", "01")),
                Assert(~self._may_change),
                *(Assert(way.shown == way.rows[Cat(row, number)]) for way in others),
            ]
            with m.If(row + 1 < ROWS):
                m.d.comb += Assert(first.shown == first.rows[Cat((row + 1)[: len(row)], number)])
        m.d.comb += Cover(moves & (elapsed == ROWS - 1))

    def _cover(self, m, chosen):
        """An entry behind all others, one between two others removed, and lists that are not in order of places."""
        command, naive = self.commands.p, self._lists[-1]
        m.d.comb += [
            Cover(self.results.valid & self.results.p.found & (chosen.position == PLACES - 1)),
            Cover(self._begins & (command.action == ListAction.REMOVE) & (self._at == 1) & (chosen.length == 3)),
            Cover((naive.length == 2) & (naive.order[0] > naive.order[1]) & (self._lists[0].length != 0)),
            Cover((naive.taken == 0b101) & (naive.linked == 0b001)),
        ]


class _Way:
    """One memory of the rows: what it holds, and what it shows."""

    def __init__(self, rows, outputs):
        self.rows = Array(rows)
        (self.shown,) = outputs


class _Choice:
    """Of several naive lists the one with a number that is a signal."""

    def __init__(self, lists, number):
        for name in ("length", "taken", "lowest", "position", "found"):
            setattr(self, name, Array(getattr(naive, name) for naive in lists)[number])
        for name in ("order", "entries"):
            columns = zip(*(getattr(naive, name) for naive in lists), strict=True)
            setattr(self, name, Array(Array(column)[number] for column in columns))
