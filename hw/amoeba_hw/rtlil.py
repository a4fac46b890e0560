"""RTLIL of a component, as Amaranth writes it, in a quarter of the time."""

from collections.abc import Iterator
from contextlib import contextmanager

from amaranth.back import rtlil
from amaranth.hdl import Fragment
from amaranth.hdl._ast import SignalDict, ValueCastable
from amaranth.hdl._ir import PortDirection, build_netlist
from amaranth.hdl._nir import Net, Value
from amaranth.lib.wiring import In

__all__ = ["generate_rtlil", "unchecked_values"]


_CHECKED = {name: Value.__dict__[name] for name in ("__new__", "__getitem__")}
"""Amaranth's own methods."""


def _new_value(cls, nets=()):
    return tuple.__new__(cls, (nets,) if isinstance(nets, Net) else nets)


def _bits(value, index):
    found = tuple.__getitem__(value, index)
    return tuple.__new__(Value, found) if isinstance(index, slice) else found


@contextmanager
def unchecked_values() -> Iterator[None]:
    """Make Amaranth take the nets of values as they are inside.

    Amaranth otherwise asks each net of each value, and of each slice, whether it is one. For the smallest NIC these
    are 126 million questions, and half of the time.
    """
    Value.__new__, Value.__getitem__ = staticmethod(_new_value), _bits
    try:
        yield
    finally:
        for name, method in _CHECKED.items():
            setattr(Value, name, method)


class _Emitter(rtlil.ModuleEmitter):
    """Amaranth's writer of modules, with the initial rows of memories as text at once.

    Amaranth makes an object of each bit and joins their texts. The NIC's memories have 29 million bits.
    """

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
    with unchecked_values():
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
