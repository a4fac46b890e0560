"""A tiny NIC for tests of what the driver takes over: its match unit, and rings whose ends never agree.

Messages come, descriptors are done, slots are released and events are seen when the test says so, in any order that
rings allow. Senders whose message finds no place are refused, and send it again.
"""

import ctypes
from collections import Counter, deque
from types import SimpleNamespace

from amoeba.nic.event_ring import Event
from amoeba.transport.dispatch import Dispatch
from amoeba.transport.receives import Outlet
from amoeba.transport.software_matching import BoundlessReceives
from amoeba_model.descriptors import RX_DESCRIPTOR, EventKind, ReceiveOpcode
from amoeba_model.nic.checker import MemoryRequest
from amoeba_model.nic.match_unit import MatchUnit
from amoeba_model.nic.receives import ReceiveFetch
from amoeba_model.nic.tables import Context
from amoeba_model.wire.uet import RequestOpcode, ReturnCode, SesFlags

PAYLOAD = 64
CONTEXT = 3


class Ring:
    """The event ring, as a dispatch sees it."""

    def __init__(self):
        self.events = deque()

    has_event = False
    waiting = 0

    def take(self):
        return self.events.popleft() if self.events else None

    def acknowledge(self):
        pass


class Host:
    """The descriptors, as the NIC reads them."""

    def read(self, address, length, requester, context):
        return ctypes.string_at(address, length)


class AsynchronousNic:
    """``receives`` and ``unexpected``: how long its lists are."""

    def __init__(self, receives=2, unexpected=2):
        self.parameters = SimpleNamespace(receives=receives, unexpected=unexpected, payload=PAYLOAD)
        self.dma = SimpleNamespace(
            grant=lambda *a, **k: None,
            revoke=lambda *a: None,
            grant_all=lambda *a: None,
            revoke_all=lambda *a: None,
            holders=set(),
        )
        self.target_pdcs = SimpleNamespace(used=list)
        self.on_doorbell = None
        self.context = Context(CONTEXT)
        self.context.announces = True
        core = SimpleNamespace(parameters=self.parameters, counters=Counter(), now=0)
        self.unit = MatchUnit(core, [Context(number) for number in range(CONTEXT + 1)])
        self._fetch = ReceiveFetch(core, Host())
        self.ring_of_events = Ring()
        self.dispatch = Dispatch(self.ring_of_events, lambda ip, context: ip, ahead=1 << 30, listening=True)
        self.read = []
        """Long messages that were asked for: (key, whom to tell)."""
        outlet = Outlet(self.dispatch.ready, lambda ip, context: ip, self._read_long, None, selective=False)
        self.receives = BoundlessReceives(self, CONTEXT, self.dispatch, lambda event: outlet)
        self.context.receive_base, self.context.receive_size = self.receives.base, self.receives.size_log2
        self.context.unexpected_base = self.receives.unexpected_base
        self._tail = 0
        self._slots = deque()
        self._order = None

    def _read_long(self, record, sender, segments, done):
        self.read.append((record.key, done))

    # What the driver does with a NIC

    def doorbell(self, context, name):
        return name

    def ring(self, register, value):
        if register == "receive_tail":
            self._tail = value
        else:
            self._slots.append(value)

    def kick(self):
        pass

    # What happens

    def accept(self, source, tag, data, *, tagged=True, record=None, length=0):
        """A message comes; whether it was accepted. With ``record`` it is a long one of ``length`` bytes."""
        kinds = {
            (True, False): RequestOpcode.TAGGED_SEND,
            (False, False): RequestOpcode.SEND,
            (True, True): RequestOpcode.RENDEZVOUS_TSEND,
            (False, True): RequestOpcode.RENDEZVOUS_SEND,
        }
        data = data if record is None else record
        header = SimpleNamespace(
            opcode=kinds[tagged, record is not None], memory_key=tag, ip=source[0], initiator=source[1], spdcid=0,
            resource_index=CONTEXT, buffer_offset=length, request_length=len(data), header_data=0,
            flags=SesFlags.START_OF_MESSAGE | SesFlags.END_OF_MESSAGE,
        )  # fmt: skip
        if not self.unit.has_place(self.context, header):
            return False
        request = MemoryRequest(len(data), 0, False, data)
        arrival = self.unit.arrive(self.context, header, request, pdc=0)
        ctypes.memmove(request.address, request.operand, len(request.operand))
        self._tell(arrival.report)
        return True

    def accept_part(self, source, tag, data, offset, length, *, tagged=True):
        """A part of a message of several packets comes; whether the message has a receive."""
        flags = SesFlags(0) if offset else SesFlags.START_OF_MESSAGE
        if offset + len(data) == length:
            flags |= SesFlags.END_OF_MESSAGE
        header = SimpleNamespace(
            opcode=RequestOpcode.TAGGED_SEND if tagged else RequestOpcode.SEND, memory_key=tag, ip=source[0],
            initiator=source[1], spdcid=0, resource_index=CONTEXT, buffer_offset=0, request_length=length,
            header_data=0, flags=flags,
        )  # fmt: skip
        request = MemoryRequest(len(data), 0, False, data, offset=offset)
        arrival = self.unit.arrive(self.context, header, request, pdc=source[0])
        if isinstance(arrival, ReturnCode):
            return False
        ctypes.memmove(request.address, request.operand, len(request.operand))
        if arrival.report is not None:
            self._tell(arrival.report)
        return True

    def give_up(self, source):
        """End the message of several packets that a sender has begun."""
        arrival = self.unit.give_up(source[0])
        if arrival is not None:
            self._tell(arrival.report)

    def step(self):
        """Do a descriptor; whether there was one that can be done."""
        if self._order is None:
            if self.context.receive_head == self._tail:
                return False
            self._order = self._fetch.fetch(self.context)
        order = self._order
        if order.opcode == ReceiveOpcode.RECEIVE and not self.unit.lists(self.context).has_space():
            return False
        report = self.unit.take(self.context, order)
        if report is not None:
            self._tell(report)
        if order.opcode != ReceiveOpcode.RECEIVE or report is None or report.released:
            self._order = None
            self.context.receives_done = (self.context.receives_done + 1) & 0xFFFF
        return True

    def free(self):
        """See that the driver has released a slot; whether it has."""
        if not self._slots:
            return False
        self.unit.lists(self.context).release_slot(self._slots.popleft())
        return True

    def _tell(self, report):
        message = report.message
        known = (0, 0, 0, 0, 0, 0, 0) if message is None else (
            message.data or 0, message.tag, message.length, *message.source, message.slot, message.target
        )  # fmt: skip
        data, tag, length, ip, initiator, slot, target = known
        assert report.kind != EventKind.REFUSED
        self.ring_of_events.events.append(
            Event(
                report.user_context, data, tag, report.address, length, ip, initiator, slot, target,
                int(report.kind), int(report.status), report.flags(),
            )
        )  # fmt: skip

    def see(self):
        """Let the driver handle an event; whether there was one."""
        event = self.ring_of_events.take()
        if event is None:
            return False
        self.dispatch.handlers[event.kind](event)
        return True

    def settle(self):
        """Everything that goes on without new calls or messages."""
        while self.see() or self.step() or self.free():
            pass


OK = int(ReturnCode.OK)
DESCRIPTOR = RX_DESCRIPTOR
