"""The results of messages and receive descriptors, by the model's lists; and random ones, few of which differ.

Messages are CHECKED_REQUESTs and orders RECEIVE_ORDERs, as dictionaries.
"""

import copy
import enum
import random

from amaranth.hdl import Shape
from amaranth.lib import data
from amoeba_hw.interfaces import MemoryKind
from amoeba_hw.messages.records import RECEIVE_ORDER
from amoeba_hw.request_records import CHECKED_REQUEST
from amoeba_model.descriptors import EventFlags, EventKind, ReceiveFlags, ReceiveOpcode
from amoeba_model.nic.matching import MatchLists, Message, Receive
from amoeba_model.wire.uet import ReturnCode

__all__ = [
    "Reference",
    "anything",
    "assert_includes",
    "random_message",
    "random_order",
    "random_request",
    "search_of",
    "unexpected_base",
]

SOURCES = [(0x0A000001, 1), (0x0A000001, 2), (0xC0A80002, 1)]
LENGTHS = [0, 1, 8, 31, 64]
"""Of messages; 64 is the payload limit of the benches."""


def unexpected_base(context):
    """Where the benches put the unexpected slots: at the end of all addresses for context 0."""
    return (1 << 64) - 0x200 if context == 0 else 0x7FFF_0000_0040 * context


def anything(shape):
    """Random values for all that ``shape`` has."""
    if isinstance(shape, type) and issubclass(shape, enum.Enum):
        return random.choice(list(shape))
    if isinstance(shape, data.Layout):
        fields = {name: anything(field.shape) for name, field in shape}
        return list(fields.values()) if isinstance(shape, data.ArrayLayout) else fields
    return random.getrandbits(Shape.cast(shape).width)


def assert_includes(got, expected, where="decided"):
    """Check that ``got`` has every field that ``expected`` names."""
    if isinstance(expected, dict):
        for name, value in expected.items():
            assert_includes(got[name], value, f"{where}.{name}")
    else:
        assert got == expected, f"{where}: expected {expected!r}, got {got!r}"


def random_request(context, generation):
    """A checked request that is no message to be matched."""
    request = anything(CHECKED_REQUEST)
    request["message"] |= {"valid": 0, "slot_reserved": 0, "receive_kept": 0}
    request["answer"] |= {"silent": 0}
    request["answer"]["event"] |= {"context": context, "generation": generation, "reserved": 0}
    return request


def random_message(context, generation, *, target=None, reserved=True):
    """A message that passed its checks. ``target``: (context that it is for, its generation), if not the same."""
    request = random_request(context, generation)
    atomic = random.random() < 0.25
    rendezvous = not atomic and random.random() < 0.25
    tagged = atomic or random.random() < 0.6
    length = 32 if rendezvous else random.choice(LENGTHS)
    # Of a rendezvous that is the message's length; lengths have 32 bits.
    offset = random.choice([0, 5, 100, 2000, (1 << 32) - 1, 1 << 32, (1 << 64) - 1, (1 << 64) - 40])
    if atomic and random.random() < 0.6:
        offset = random.choice([0, 8, 40])
    source_ip, initiator = random.choice(SOURCES)
    flags = random.choice([0, EventFlags.IMMEDIATE.value]) | (EventFlags.TAGGED.value if tagged else 0)
    request |= {"dropped": 0, "has_payload": int(length != 0)}
    request["memory"] |= {"address": offset, "length": length}
    request["message"] = {
        "valid": 1,
        "tagged": int(tagged),
        "rendezvous": int(rendezvous),
        "atomic": int(atomic),
        "slot_reserved": int(reserved and not atomic),
        "receive_kept": 0,
        "divided": 0,
        "ends": 0,
        "target_generation": generation if target is None else target[1],
    }
    request["answer"] |= {
        "ip": source_ip,
        "return_code": ReturnCode.OK.value,
        "request_length": length,
        "executed": 1,
        "counters": [0, 0, 0],
    }
    request["answer"]["event"] |= {
        "reserved": int(reserved),
        "flags": flags,
        "tag": random.randrange(4),
        "initiator": initiator,
        "target": context if target is None else target[0],
    }
    return request


def random_order(context, generation):
    """A receive descriptor; one in twenty makes no sense."""
    order = anything(RECEIVE_ORDER)
    flags = sum(flag.value for flag in ReceiveFlags if random.random() < (0.2 if flag.name == "ADDRESSED" else 0.4))
    opcode = random.choices([*ReceiveOpcode], [12, 2, 3, 4])[0].value
    if random.random() < 0.05:
        opcode, flags = random.choice([(0, flags), (5, flags), (opcode, flags | random.choice([0x10, 0x80]))])
    source_ip, source_context = random.choice(SOURCES)
    order |= {"context": context, "generation": generation, "error": int(random.random() < 0.03)}
    order["fields"] |= {
        "opcode": opcode,
        "flags": flags,
        "length": random.choice([0, 7, 64, 100, 500, 5000, (1 << 32) - 1]),
        "tag": random.randrange(4),
        "ignore": random.choice([0, 1, 2, (1 << 64) - 1, (1 << 64) - 2]),
        "context": random.randrange(6),
        "target_context": random.choice([context, context, 0, 1, 2, 0x80 + context]),
        "source_ip": source_ip,
        "source_context": source_context,
        "least_space": random.choice([0, 1, 40, 400]),
    }
    return order


class Reference:
    """The lists of all contexts, some of which announce messages. Its answers name only what is to be looked at."""

    def __init__(self, contexts, receives, unexpected, payload, announcing=()):
        self._announcing = announcing
        self._receives = receives
        self._unexpected = unexpected
        self._payload = payload
        self.lists = [MatchLists(receives, unexpected) for _ in range(contexts)]
        self._counters = {}
        """Of posted receives."""
        self._orders_done = [0] * contexts

    def forget(self, context):
        self._orders_done[context] = 0
        self.lists[context] = MatchLists(self._receives, self._unexpected)

    def take_slot(self, context):
        """A message needs a slot. Benches that do not know when slots are released say which one it is."""
        return self.lists[context].take_slot()

    # Messages

    def finds(self, request):
        """Whether the message would meet a receive now."""
        return self.lists[request["answer"]["event"]["context"]].arrive(_message(request)) is not None

    def message(self, request, *, current):
        """(what must be decided, MESSAGES_MATCHED, MESSAGES_UNEXPECTED)."""
        kind, answer = request["message"], request["answer"]
        context = answer["event"]["context"]
        has_place = kind["slot_reserved"] or kind["receive_kept"] or kind["atomic"]
        if not (current and has_place and answer["event"]["reserved"]):
            return self._refused(request, ReturnCode.DISABLED), 0, 0
        message = _message(request)
        receive = self.lists[context].arrive(message)
        assert receive is not None or not kind["receive_kept"], "nothing was kept for it"
        if kind["atomic"]:
            return self._atomic(context, request, message, receive)
        if receive is None:
            message.slot = self.take_slot(context)
            self.lists[context].wait(message)
            address, event = self._slot_address(context, message.slot), {}
            if context in self._announcing:
                done = self._orders_done[context]
                event = _event(done, message, released=False) | {"kind": EventKind.ARRIVED.value, "address": 0}
                event |= {"slot": message.slot, "flags": event["flags"] | EventFlags.IN_SLOT.value}
            return self._written(request, address, answer["request_length"], event), 0, 1
        place = receive.use(message.length)
        if place.released:
            self.lists[context].unpost(receive)
        event = _event(receive.context, message, released=place.released) | {"address": place.address}
        if kind["rendezvous"]:
            message.slot = self.take_slot(context)
            event |= {"kind": EventKind.RENDEZVOUS.value, "slot": message.slot}
            event["flags"] |= EventFlags.IN_SLOT.value
            address, size, counter = self._slot_address(context, message.slot), answer["request_length"], 0
        else:
            status = ReturnCode.OK if place.size == message.length else ReturnCode.TOO_LONG
            event |= {"kind": EventKind.RECEIVED.value, "status": status.value}
            address, size, counter = place.address, place.size, self._counters[receive]
        return self._written(request, address, size, event, counter), 1, 0

    def _atomic(self, context, request, message, receive):
        offset = request["memory"]["address"]
        if receive is None:
            return self._refused(request, ReturnCode.NO_MATCH), 0, 0
        if offset + message.length > receive.space:
            return self._refused(request, ReturnCode.BAD_ADDR), 0, 0
        self.lists[context].unpost(receive)
        address = (receive.address + offset) % (1 << 64)
        decided = copy.deepcopy(request)
        decided["memory"]["address"] = address
        decided["answer"]["counters"] = [self._counters[receive], 0, 0]
        decided["answer"]["event"] |= _event(receive.context, message, released=True) | {
            "kind": EventKind.ATOMIC_RECEIVED.value,
            "address": address,
        }
        del decided["answer"]["event"]["slot"]
        return decided, 1, 0

    def _slot_address(self, context, slot):
        return (unexpected_base(context) + slot * self._payload) % (1 << 64)

    @staticmethod
    def _refused(request, return_code):
        decided = _untouched(request)
        decided["answer"] |= {"return_code": return_code.value, "executed": 0, "returns_data": 0, "copied": 0}
        decided["answer"]["event"] |= {"reserved": 0, "regardless": 0}
        decided["job"] = {"has_operand": 0, "has_compare": 0}
        return decided

    @staticmethod
    def _written(request, address, size, event, counter=0):
        """``size`` bytes of the payload go to ``address``; with an ``event`` if there is anything in it."""
        decided = _untouched(request)
        decided["memory"] = {
            "address": address,
            "length": size,
            "kind": MemoryKind.WRITE,
            "has_operand": int(size != 0),
            "has_compare": 0,
            "returns_data": 0,
            **{name: request["memory"][name] for name in ("pdc", "psn")},
        }
        decided["job"] = {"has_operand": int(size != 0), "has_compare": 0, "operand": {"skip": 0, "length": size}}
        decided["answer"]["counters"] = [counter, 0, 0]
        decided["answer"]["event"] |= event or {"reserved": 0, "regardless": 0}
        return decided

    # Orders

    def order(self, order, *, current):
        """(the entry that must be decided, or None; whether the order looks again; bytes used)."""
        if not current:
            return None, False, 0
        entry, again, used = self._decide(order)
        self._orders_done[order["context"]] = (self._orders_done[order["context"]] + (not again)) % (1 << 16)
        return entry, again, used

    def _decide(self, order):
        fields, context = order["fields"], order["context"]
        opcode, flags = fields["opcode"], fields["flags"]
        if order["error"]:
            return (
                _entry(order, EventKind.REFUSED, ReturnCode.LOCAL_DMA_FAULT, user_context=0, released=True),
                False,
                0,
            )
        if opcode not in [*ReceiveOpcode] or flags & ~sum(ReceiveFlags):
            return _entry(order, EventKind.REFUSED, ReturnCode.LOCAL_BAD_DESCRIPTOR, released=True), False, 0
        if opcode == ReceiveOpcode.CANCEL:
            if self.lists[context].cancel(fields["context"]) is None:
                return _entry(order, EventKind.NO_MATCH, ReturnCode.NO_MATCH), False, 0
            return _entry(order, EventKind.CANCELLED, ReturnCode.CANCELLED, released=True), False, 0
        receive = _receive(fields)
        message = self.lists[context].find(receive)
        if message is None and opcode == ReceiveOpcode.RECEIVE:
            self.lists[context].post(receive)
            self._counters[receive] = fields["counter"]
            return None, False, 0
        if message is None:
            return _entry(order, EventKind.NO_MATCH, ReturnCode.NO_MATCH, released=True), False, 0
        if opcode != ReceiveOpcode.PEEK:
            self.lists[context].remove(message)
        if opcode != ReceiveOpcode.RECEIVE:
            kind = EventKind.FOUND if opcode == ReceiveOpcode.PEEK else EventKind.TAKEN
            return _entry(order, kind, ReturnCode.OK, message, address=0, released=True), False, 0
        place = receive.use(message.length)
        kind = EventKind.RENDEZVOUS if message.rendezvous else EventKind.UNEXPECTED
        entry = _entry(order, kind, ReturnCode.OK, message, address=place.address, released=place.released)
        return entry, not place.released, fields["length"] - receive.space


def _receive(fields):
    flags = fields["flags"]
    directed = flags & ReceiveFlags.DIRECTED
    return Receive(
        tagged=bool(flags & ReceiveFlags.TAGGED),
        tag=fields["tag"],
        ignore=fields["ignore"],
        source=(fields["source_ip"], fields["source_context"]) if directed else None,
        target=fields["target_context"] if flags & ReceiveFlags.ADDRESSED else None,
        context=fields["context"],
        address=fields["address"],
        space=fields["length"],
        multi=bool(flags & ReceiveFlags.MULTI),
        # Not even one byte less than one.
        least_space=max(1, fields["least_space"]),
    )


def search_of(request):
    """The RECEIVE_SEARCH for a message."""
    message = _message(request)
    key = {"cancels": 0, "tagged": int(message.tagged), "tag": message.tag, "target": message.target}
    key |= {"source_ip": message.source[0], "source_context": message.source[1]}
    return {"context": request["answer"]["event"]["context"], "key": key | {"user_context": 0}}


def _message(request):
    kind, answer = request["message"], request["answer"]
    event = answer["event"]
    length = request["memory"]["address"] % (1 << 32) if kind["rendezvous"] else answer["request_length"]
    return Message(
        tagged=bool(kind["tagged"]),
        tag=event["tag"] if kind["tagged"] else 0,
        source=(answer["ip"], event["initiator"]),
        source_pdc=answer["dpdcid"],
        target=event["target"],
        length=length,
        data=event["data"] if event["flags"] & EventFlags.IMMEDIATE else None,
        rendezvous=bool(kind["rendezvous"]),
    )


def _untouched(request):
    """The fields of a message that matching must not touch."""
    answer = copy.deepcopy(request["answer"])
    for name in ("kind", "flags", "status", "user_context", "data", "tag", "address", "length", "slot"):
        del answer["event"][name]
    return {name: copy.deepcopy(request[name]) for name in ("dropped", "has_payload", "context")} | {"answer": answer}


def _event(user_context, message, *, released):
    """The message's fields in its event."""
    flags = EventFlags.RELEASED if released else EventFlags(0)
    flags |= EventFlags.TAGGED if message.tagged else 0
    flags |= EventFlags.IMMEDIATE if message.data is not None else 0
    flags |= EventFlags.LONG if message.rendezvous else 0
    return {
        "reserved": 1,
        "regardless": 1,
        "flags": flags.value,
        "status": ReturnCode.OK.value,
        "user_context": user_context,
        "data": message.data or 0,
        "tag": message.tag,
        "length": message.length,
        "slot": 0,
        "initiator": message.source[1],
        "target": message.target,
    }


def _entry(order, kind, status, message=None, *, user_context=None, address=None, released=False):
    """The silent entry of an order."""
    user_context = order["fields"]["context"] if user_context is None else user_context
    event = {"reserved": 1, "regardless": 1, "user_context": user_context}
    answer = {"silent": 1, "executed": 0, "counters": [0, 0, 0], "return_code": ReturnCode.OK.value}
    event |= {"flags": EventFlags.RELEASED.value if released else 0}
    event |= dict.fromkeys(("data", "tag", "address", "length", "slot", "initiator", "target"), 0)
    if message is not None:
        event |= _event(user_context, message, released=released) | {"slot": message.slot, "address": address}
        event["flags"] |= EventFlags.IN_SLOT.value
        answer |= {"ip": message.source[0], "dpdcid": message.source_pdc}
    event |= {"kind": kind.value, "status": status.value}
    event |= {"context": order["context"], "generation": order["generation"]}
    return {"dropped": 0, "has_payload": 0, "answer": answer | {"event": event}}
