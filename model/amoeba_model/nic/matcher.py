"""Matcher: messages and receive descriptors of all contexts, one after the other."""

from amoeba_model.descriptors import ReceiveOpcode
from amoeba_model.nic.checker import MemoryRequest
from amoeba_model.nic.core import Core
from amoeba_model.nic.events import EventWriter
from amoeba_model.nic.host import HostMemory
from amoeba_model.nic.match_unit import Arrival, MatchUnit
from amoeba_model.nic.receives import ReceiveFetch, ReceiveOrder
from amoeba_model.nic.tables import Context
from amoeba_model.wire.codec import FrameHeader
from amoeba_model.wire.uet import ReturnCode

__all__ = ["Matcher"]

_EVENT_ENTRIES = 2
"""Free entries that an event ring needs for a receive descriptor: a message may be accepted at the same time."""


class Matcher:
    """Takes receive descriptors as soon as the event ring has space for their events, and messages when they come."""

    def __init__(self, core: Core, host: HostMemory, contexts: list[Context], events: EventWriter) -> None:
        self.busy: list[Context] = []
        """Contexts with receive descriptors that are not done yet."""
        self._core = core
        self._contexts = contexts
        self._events = events
        self._fetch = ReceiveFetch(core, host)
        self._unit = MatchUnit(core, contexts)
        self.open = self._unit.open
        """Receives that messages of several packets have met, by PDC."""
        self._orders: dict[int, ReceiveOrder] = {}
        """By context: the receive descriptor that has been fetched and not done yet."""

    def ring_doorbell(self, context: Context, tail: int) -> None:
        """Doorbell: the producer index of the receive ring."""
        context.receive_tail = tail
        if context not in self.busy:
            self.busy.append(context)

    def release_slot(self, context: Context, slot: int) -> None:
        """Doorbell: the driver is done with an unexpected slot."""
        self._unit.lists(context).release_slot(slot)

    def has_place(self, context: Context, header: FrameHeader) -> bool:
        """Whether a message that ``context`` receives has somewhere to go: see :meth:`MatchUnit.has_place`."""
        return self._unit.has_place(context, header)

    def forget(self, context: Context) -> None:
        """Forget the receives and messages of a context, which is disabled."""
        self._orders.pop(context.number, None)
        self._unit.forget(context)

    def arrive(self, header: FrameHeader, request: MemoryRequest, pdc: int) -> Arrival | ReturnCode:
        """Match a checked message: see :meth:`MatchUnit.arrive`."""
        return self._unit.arrive(self._contexts[header.resource_index].receiver, header, request, pdc)

    def give_up(self, pdc: int) -> Arrival | None:
        """End the message of several packets that a PDC has begun: see :meth:`MatchUnit.give_up`."""
        return self._unit.give_up(pdc)

    def stalls(self) -> tuple[int, int]:
        """When an open message will have stalled, and its PDC: see :meth:`MatchUnit.stalls`."""
        return self._unit.stalls()

    def run(self) -> None:
        """Do all receive descriptors that may be done by now."""
        self.busy = [context for context in self.busy if not self._finish(context)]

    def _finish(self, context: Context) -> bool:
        """Do what may be done of one context; whether that is all."""
        while context.enabled:
            order = self._orders.get(context.number)
            if order is None:
                if context.receive_head == context.receive_tail:
                    return True
                order = self._orders[context.number] = self._fetch.fetch(context)
            if not self._may_take(context, order):
                return False
            self._take(context, order)
        return True

    def _may_take(self, context: Context, order: ReceiveOrder) -> bool:
        posts = order.status == ReturnCode.OK and order.opcode == ReceiveOpcode.RECEIVE
        if not self._events.has_space(context, _EVENT_ENTRIES):
            return False
        return not posts or self._unit.lists(context).has_space()

    def _take(self, context: Context, order: ReceiveOrder) -> None:
        report = self._unit.take(context, order)
        if report is not None:
            self._events.report(context, report, 0, max(self._core.now, order.ready))
        looks_again = order.opcode == ReceiveOpcode.RECEIVE and report is not None and not report.released
        if not looks_again:
            context.receives_done = (context.receives_done + 1) & 0xFFFF
            del self._orders[context.number]
