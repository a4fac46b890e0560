"""RTLIL of a component, as Amaranth writes it, in a quarter of the time."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain

from amaranth.back import rtlil
from amaranth.hdl import Fragment
from amaranth.hdl._ast import SignalDict, ValueCastable
from amaranth.hdl._ir import PortDirection, build_netlist
from amaranth.hdl._nir import Net, Netlist, Operator, Part, Value
from amaranth.lib.wiring import In

__all__ = ["generate_rtlil", "quick_netlists"]


def _new_value(cls, nets=()):
    return tuple.__new__(cls, (nets,) if isinstance(nets, Net) else nets)


def _bits(value, index):
    found = tuple.__getitem__(value, index)
    return tuple.__new__(Value, found) if isinstance(index, slice) else found


def _resolved(netlist, value):
    """Nets of a value with those behind late ones, whose numbers are negative."""
    behind = netlist.connections
    found = []
    for net in value:
        while net < 0:
            net = behind[net]
        found.append(net)
    return tuple.__new__(Value, found)


_BIT_BY_BIT = ("~", "&", "|", "^", "m")
"""Operators of which a bit of the result depends on the same bit of each operand."""
_WHOLE = 1 << 62
"""Added to a cell's number: stands for all bits of its result, which depend on the same nets."""


def _has_cycle(netlist):
    """Whether a net depends on itself without a register between, by a search in depth without recursion."""
    cells, behind = netlist.cells, netlist.connections

    def sources(net):
        if net < 0:
            return iter((behind[net],))
        if net >= _WHOLE:
            return (source for source, _ in cells[net - _WHOLE].comb_edges_to(0))
        cell = cells[net >> 16]
        if isinstance(cell, Part) or (isinstance(cell, Operator) and cell.operator not in _BIT_BY_BIT):
            return iter((_WHOLE + (net >> 16),))
        return (source for source, _ in cell.comb_edges_to(net & 0xFFFF))

    done, above = {0, 1}, set()  # the constants depend on nothing
    outputs = (net for index, cell in enumerate(cells) for net in cell.output_nets(index))
    for start in chain(outputs, chain.from_iterable(netlist.signals.values())):
        path = [] if start in done else [(start, sources(start))]
        above.update(net for net, _ in path)
        while path:
            net, left = path[-1]
            for source in left:
                if source in done:
                    continue
                if source in above:
                    return True
                above.add(source)
                path.append((source, sources(source)))
                break
            else:
                path.pop()
                above.remove(net)
                done.add(net)
    return False


def _check_comb_cycles(netlist):
    if _has_cycle(netlist):
        _AMARANTHS[Netlist, "check_comb_cycles"](netlist)  # raises an error that shows the cycle


_QUICK = {
    (Value, "__new__"): staticmethod(_new_value),
    (Value, "__getitem__"): _bits,
    (Netlist, "resolve_value"): _resolved,
    (Netlist, "check_comb_cycles"): _check_comb_cycles,
}
_AMARANTHS = {(owner, name): owner.__dict__[name] for owner, name in _QUICK}


@contextmanager
def quick_netlists() -> Iterator[None]:
    """Make Amaranth build netlists faster, with the same result.

    Amaranth asks each net of each value, and of each slice, whether it is one: 126 million questions for the smallest
    NIC, and half of the time. Its search for cycles of logic calls a function for each of millions of connections.
    """
    for (owner, name), method in _QUICK.items():
        setattr(owner, name, method)
    try:
        yield
    finally:
        for (owner, name), method in _AMARANTHS.items():
            setattr(owner, name, method)


class _Emitter(rtlil.ModuleEmitter):
    """Amaranth's writer of modules, with nets and the initial rows of memories as text at once.

    Amaranth makes an object of each bit of a memory and joins their texts. The NIC's memories have 29 million bits.
    """

    def sigspec(self, *parts):
        """Text of nets: runs of constants, and of neighbouring bits of a wire."""
        value = [net for part in parts for net in ((part,) if isinstance(part, Net) else part)]
        places, end = self.nets, len(value)
        chunks = []
        first = 0
        while first < end:
            last = first + 1
            if value[first] in (0, 1):
                while last < end and value[last] in (0, 1):
                    last += 1
                bits = "".join(map(str, map(int, reversed(value[first:last]))))
                chunks.append(f"{last - first}'{bits}")
            else:
                wire, low = places[value[first]]
                bit = low + 1
                while last < end and value[last] not in (0, 1) and places[value[last]] == (wire, bit):
                    last, bit = last + 1, bit + 1
                chunks.append(f"{wire.name} [{low}]" if last == first + 1 else f"{wire.name} [{bit - 1}:{low}]")
            first = last
        return chunks[0] if len(chunks) == 1 else "{ " + " ".join(reversed(chunks)) + " }"

    def emit_memory(self, cell_idx, cell):
        if not cell.width * cell.depth:
            super().emit_memory(cell_idx, cell)
            return
        mask = (1 << cell.width) - 1
        bits = "".join(f"{row & mask:0{cell.width}b}" for row in reversed(cell.init))
        self.builder.cell(
            "$meminit_v2",
            ports={
                "ADDR": self.sigspec(),
                "DATA": f"{cell.width * cell.depth}'{bits}",
                "EN": self.sigspec(Value.ones(cell.width)),
            },
            parameters={
                "MEMID": self.memories[cell_idx].memid,
                "ABITS": 0,
                "WIDTH": cell.width,
                "WORDS": cell.depth,
                "PRIORITY": 0,
            },
            src_loc=cell.src_loc,
        )


def generate_rtlil(component, name="top"):
    """RTLIL text of ``component`` as a module called ``name``, without source locations.

    The text equals that of ``amaranth.back.rtlil.convert``.
    """
    ports = {}
    for path, member, value in component.signature.flatten(component):
        direction = PortDirection.Input if member.flow == In else PortDirection.Output
        signal = value.as_value() if isinstance(value, ValueCastable) else value
        ports["__".join(map(str, path))] = (signal, direction)
    fragment = Fragment.get(component, None)
    with quick_netlists():
        return _written(build_netlist(fragment, ports=ports, name=name))


def _written(netlist):
    """RTLIL text of a netlist."""
    empty = rtlil.EmptyModuleChecker(netlist)
    design = rtlil.Design(emit_src=False)
    names = SignalDict()
    for index, module in enumerate(netlist.modules):
        if not empty.is_empty(index):
            builder = design.module(".".join(module.name), src_loc=module.src_loc)
            if index == 0:
                builder.attribute("top", 1)
            _Emitter(builder, netlist, module, names, empty_checker=empty).emit()
    return str(design)
