"""A component whose writes get their place in the order of host writes as they leave it, for benches."""

from amaranth.hdl import Module, Value
from amaranth.lib import wiring

__all__ = ["WithOrderedWrites"]

_SUFFIX = "_ordered"


class WithOrderedWrites(wiring.Component):
    """Stands before a component: its ports but ``*_ordered``, which come from the write streams of that name.

    Parameters
    ----------
    make, arguments
        Class of the component, and what it is made with.
    """

    def __init__(self, make, *arguments):
        self._component = make(*arguments)
        members = self._component.signature.members
        self._writes = [name.removesuffix(_SUFFIX) for name in members if name.endswith(_SUFFIX)]
        super().__init__({name: member for name, member in members.items() if not name.endswith(_SUFFIX)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.component = component = self._component
        own = {path: value for path, _, value in self.signature.flatten(self)}
        for path, member, value in component.signature.flatten(component):
            if path in own:
                source, sink = (own[path], value) if member.flow == wiring.In else (value, own[path])
                m.d.comb += Value.cast(sink).eq(Value.cast(source))
        for name in self._writes:
            writes = getattr(component, name)
            m.d.comb += getattr(component, name + _SUFFIX).eq(writes.valid & writes.ready & writes.p.last)
        return m
