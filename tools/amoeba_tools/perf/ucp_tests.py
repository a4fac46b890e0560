"""UCP's tests: what each side of one does."""

from collections.abc import Sequence
from typing import Any, Self

from amoeba.nic.nic import Nic
from amoeba.openucx.ucp.adapter import Adapter, Adapters, open_adapters, open_linked_adapter

from amoeba_tools.perf.exchange import arriving, both_ways, one_way
from amoeba_tools.perf.meter import Meter
from amoeba_tools.perf.plan import PerfPlan
from amoeba_tools.perf.sides import Steps
from amoeba_tools.perf.ucp_memory import OPERATIONS, Operations, PutPingPong
from amoeba_tools.perf.ucp_messages import CHANNELS
from amoeba_tools.perf.ucp_side import UcpSide

__all__ = ["UcpBench"]


class _Server(UcpSide):
    """A server. ``role``: its part in the test; None if the server only makes progress."""

    def __init__(self, adapter: Adapter, plan: PerfPlan, index: int) -> None:
        super().__init__(adapter, plan, index)
        self._operations: Operations | None = None
        if self.one_sided and not plan.ping_pong:
            self._operations = OPERATIONS[plan.command](self)
            self._operations.prepare_target()

    def role(self) -> Steps | None:
        return _role(self, None)

    def verify(self) -> None:
        """Note what is wrong in its memory, when the client has done everything."""
        if self._operations is not None and self.plan.verify:
            self._operations.verify_target()


class _Client(UcpSide):
    """The side that measures."""

    def role(self, meter: Meter) -> Steps:
        if self.one_sided and not self.plan.ping_pong:
            return OPERATIONS[self.plan.command](self).run(meter)
        role = _role(self, meter)
        assert role is not None
        return role


class UcpBench:
    """NICs for tests of UCP."""

    def __init__(self, adapters: Adapters) -> None:
        self._adapters = adapters
        self.nics: Sequence[Nic] = adapters.nics

    @classmethod
    def open(cls, kinds: Sequence[str], host: str | None, **options: Any) -> Self:
        return cls(open_adapters(kinds, **options) if host is None else open_linked_adapter(kinds[0], host=host))

    def client(self, plan: PerfPlan) -> _Client:
        return _Client(self._adapters[0], plan)

    def server(self, plan: PerfPlan, index: int) -> _Server:
        return _Server(self._adapters[index - plan.peers], plan, index)

    def close(self) -> None:
        self._adapters.close()


def _role(side: UcpSide, meter: Meter | None) -> Steps | None:
    plan = side.plan
    if side.one_sided:
        return both_ways(PutPingPong(side), plan, meter, side.index) if plan.ping_pong else None
    channel = CHANNELS[plan.command](side, arriving(plan, side.index if meter is None else None))
    return (both_ways if plan.ping_pong else one_way)(channel, plan, meter, side.index)
