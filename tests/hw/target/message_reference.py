"""Messages and receive descriptors at a target, one after the other, as the model decides on them."""

import random
from collections import Counter
from types import SimpleNamespace

from amoeba_model.nic.match_unit import MatchUnit
from amoeba_model.nic.matching import Receive
from amoeba_model.nic.open_messages import follow_message
from amoeba_model.nic.receives import ReceiveOrder
from amoeba_model.wire.codec import FrameHeader
from amoeba_model.wire.uet import ReturnCode

from tests.hw.target.environment import RINGS, expected_memory
from tests.hw.target.message_environment import (
    ADDRESSED,
    ARRIVED,
    CANCEL,
    DIRECTED,
    FOUND,
    HOST_UNSUCCESS,
    LOCAL_BAD_DESCRIPTOR,
    MULTI,
    OK,
    PEEK,
    RECEIVE,
    TAGGED,
    TAKE,
)
from tests.hw.target.rules import END, MESSAGES, START

__all__ = ["Reference"]


class Reference:
    """One step after the other, as the model does it: what is executed, written, answered and counted."""

    def __init__(self, bench):
        self._bench = bench
        self.counters = Counter()
        core = SimpleNamespace(parameters=bench.parameters, counters=self.counters, now=0)
        self.unit, self.context = MatchUnit(core, bench.contexts), bench.contexts[0]
        self.lists = self.unit.lists(self.context)
        self.memory, self.codes, self.events, self.orders = [], [], [], []
        self.held = []
        """Slots that were handed to the driver."""
        self._results = 0
        self._messages = {}

    def arrive(self, header, payload, pdc):
        fields = FrameHeader(**header)
        checked = ReturnCode.NULL if fields.is_control else self._bench.checker.check(fields, payload)
        message, checked = follow_message(self._messages.get(pdc), fields, checked, True)
        self._messages[pdc] = None if fields.flags & END else message
        arrival = checked
        if fields.flags & START or isinstance(checked, ReturnCode):
            given_up = self.unit.give_up(pdc)
            if given_up is not None:
                self._tell(given_up)
        if not isinstance(checked, ReturnCode) and fields.opcode in MESSAGES:
            receiver = self._bench.contexts[header["resource_index"]].receiver
            assert receiver is self.context
            arrival = self.unit.arrive(receiver, fields, checked, pdc)
        if isinstance(arrival, ReturnCode):
            self.codes.append(int(arrival))
            return
        self.memory.append(expected_memory(checked, pdc, header))
        failed = self._bench.results[self._results] is None
        self._results += 1
        if message is not None:
            message.faulty |= failed
            failed = message.faulty
        self.codes.append(HOST_UNSUCCESS if failed else OK)
        if fields.opcode in MESSAGES:
            if failed and arrival.report is not None:
                arrival.report.status = ReturnCode.HOST_UNSUCCESS_CMPL
            self._tell(arrival)

    def _tell(self, arrival):
        if arrival.report is not None:
            self._report(arrival.report)
            if arrival.counter:
                self.orders.append((arrival.counter, int(arrival.report.status != OK), arrival.receiver.number))

    def take(self, fields):
        flags = fields.get("flags", 0)
        wanted = Receive(
            tagged=bool(flags & TAGGED),
            tag=fields.get("tag", 0),
            ignore=fields.get("ignore", 0),
            source=(fields["source_ip"], fields["source_context"]) if flags & DIRECTED else None,
            target=fields["target_context"] if flags & ADDRESSED else None,
            context=fields.get("context", 0),
            address=fields["address"],
            space=fields["length"],
            multi=bool(flags & MULTI),
            least_space=fields.get("least_space", 0),
            counter=fields.get("counter", 0),
        )
        known = fields["opcode"] in (RECEIVE, PEEK, TAKE, CANCEL) and flags < 16
        order = ReceiveOrder(fields["opcode"], wanted, ReturnCode(OK if known else LOCAL_BAD_DESCRIPTOR), 0)
        report = self.unit.take(self.context, order)
        while report is not None:
            self._report(report)
            looks_again = fields["opcode"] == RECEIVE and not report.released
            report = self.unit.take(self.context, order) if looks_again else None
        self.context.receives_done += 1

    def release(self):
        """Let the driver release a slot."""
        slot = self.held.pop(random.randrange(len(self.held)))
        self.lists.release_slot(slot)
        self._bench.sources["slot_releases"].send({"context": 0, "slot": slot})

    def _report(self, report):
        message = report.message
        index = len(self.events)
        entry = dict.fromkeys(("data", "tag", "length", "ip", "initiator", "pdc", "slot", "target"), 0)
        if message is not None:
            entry |= {"data": message.data or 0, "tag": message.tag, "length": message.length}
            entry |= {"ip": message.source[0], "initiator": message.source[1], "pdc": message.source_pdc}
            entry |= {"slot": message.slot if report.in_slot else 0, "target": message.target}
        entry |= {"context": report.user_context, "address": report.address, "zeros": bytes(12)}
        entry |= {"kind": int(report.kind), "status": int(report.status)}
        entry["flags"] = report.flags() | (~index >> RINGS[0][1] & 1) << 7
        self.events.append(entry)
        if report.in_slot and report.kind not in (FOUND, ARRIVED):
            self.held.append(message.slot)
