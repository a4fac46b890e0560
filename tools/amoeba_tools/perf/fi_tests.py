"""libfabric's tests: what each side of one does."""

from collections.abc import Sequence
from typing import Any, Self

from amoeba.devices.linked import Linked, open_linked
from amoeba.libfabric.objects.cluster import open_cluster
from amoeba.libfabric.objects.fabric import Fabric
from amoeba.nic.nic import Nic

from amoeba_tools.perf.exchange import both_ways, one_way
from amoeba_tools.perf.fi_memory import WritePingPong, operations_of
from amoeba_tools.perf.fi_side import FiMessages, FiSide
from amoeba_tools.perf.meter import Meter
from amoeba_tools.perf.plan import PerfPlan
from amoeba_tools.perf.sides import Steps

__all__ = ["FiBench"]


class _Server(FiSide):
    """A server. ``role``: its part in the test; None if the server only makes progress."""

    def __init__(self, fabric: Fabric, nic: int, plan: PerfPlan, index: int) -> None:
        super().__init__(fabric, nic, plan, index)
        self._operations = operations_of(self) if self.one_sided and not plan.ping_pong else None
        if self._operations is not None:
            self._operations.prepare_target()

    def role(self) -> Steps | None:
        return _role(self, None)

    def verify(self) -> None:
        """Note what is wrong in its memory, when the client has done everything."""
        if self._operations is not None and self.plan.verify:
            self._operations.verify_target()


class _Client(FiSide):
    """The side that measures."""

    def role(self, meter: Meter) -> Steps:
        if self.one_sided and not self.plan.ping_pong:
            return operations_of(self).run(meter)
        role = _role(self, meter)
        assert role is not None
        return role


class FiBench:
    """NICs for tests of libfabric."""

    def __init__(self, fabric: Fabric, linked: Linked | None = None) -> None:
        self._fabric, self._linked = fabric, linked
        self.nics: Sequence[Nic] = fabric.nics

    @classmethod
    def open(cls, kinds: Sequence[str], host: str | None, **options: Any) -> Self:
        if host is None:
            return cls(open_cluster(kinds, **options))
        linked = open_linked(kinds[0], host)
        try:
            nic = Nic(linked.device)
            linked.name(nic)
            return cls(Fabric([nic]), linked)
        except BaseException:
            linked.close()
            raise

    def client(self, plan: PerfPlan) -> _Client:
        return _Client(self._fabric, 0, plan)

    def server(self, plan: PerfPlan, index: int) -> _Server:
        return _Server(self._fabric, len(self.nics) - plan.peers + index, plan, index)

    def close(self) -> None:
        self._fabric.close()
        if self._linked is not None:
            self._linked.close()


def _role(side: FiSide, meter: Meter | None) -> Steps | None:
    plan = side.plan
    if side.one_sided:
        return both_ways(WritePingPong(side), plan, meter, side.index) if plan.ping_pong else None
    channel = FiMessages(side)
    return (both_ways if plan.ping_pong else one_way)(channel, plan, meter, side.index)
