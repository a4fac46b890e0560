"""Records that pass between the components that match messages, and that their lists hold."""

from amaranth.hdl import Mux
from amaranth.lib import data
from amoeba_model.descriptors import RX_DESCRIPTOR, EventFlags, ReceiveFlags

from amoeba_hw.layout import struct_layout
from amoeba_hw.request_records import GENERATION_BITS

__all__ = [
    "POSTED_KEY",
    "POSTED_RECEIVE",
    "POSTED_SEARCHED",
    "RECEIVE_ORDER",
    "RECEIVE_SEARCH",
    "WAITING_KEY",
    "WAITING_MESSAGE",
    "WAITING_SEARCHED",
    "asks_for",
    "message_flags",
    "receive_matches",
    "waiting_matches",
]

RECEIVE_ORDER = data.StructLayout(
    {
        "context": 8,
        "generation": GENERATION_BITS,  # of the event entry that is reserved for it
        "error": 1,  # the host refused the read: the fields are undefined
        "fields": struct_layout(RX_DESCRIPTOR),
    }
)
"""A receive descriptor whose turn has come. Of a MULTI receive that looks again, ``address`` and ``length`` are those
of what is left of its buffer."""

POSTED_RECEIVE = data.StructLayout(
    {
        "tagged": 1,
        "multi": 1,
        "directed": 1,
        "addressed": 1,
        "tag": 64,
        "ignore": 64,
        "source_ip": 32,
        "source_context": 32,
        "target": 8,
        "user_context": 64,
        "address": 64,
        "space": 32,  # bytes left in the buffer, from ``address`` on
        "least_space": 32,
        "counter": 8,
    }
)
"""A receive that has met no message yet, or only part of its buffer has."""

_MEETING = ("tagged", "tag", "source_ip", "source_context", "target")
"""Fields of a message by which it meets receives."""

POSTED_SEARCHED = data.StructLayout(
    {name: POSTED_RECEIVE[name].shape for name in (*_MEETING, "directed", "addressed", "ignore", "user_context")}
)
"""Fields of a POSTED_RECEIVE that :func:`receive_matches` looks at."""

POSTED_KEY = data.StructLayout(
    {
        "cancels": 1,
        "user_context": 64,
        "tagged": 1,
        "tag": 64,
        "source_ip": 32,
        "source_context": 32,
        "target": 8,
    }
)
"""Key of a posted receive: the one of a message, or with ``cancels`` that with a ``user_context``."""

RECEIVE_SEARCH = data.StructLayout({"context": 8, "key": POSTED_KEY})
"""Search for a posted receive, which changes nothing."""

WAITING_MESSAGE = data.StructLayout(
    {
        "tagged": 1,
        "immediate": 1,
        "rendezvous": 1,
        "tag": 64,  # 0 unless tagged
        "data": 64,  # 0 unless immediate
        "length": 32,  # the message's, also of a rendezvous
        "source_ip": 32,
        "source_context": 32,
        "source_pdc": 16,
        "target": 8,  # the context that it is for
    }
)
"""A message that has met no receive yet. It lies in the slot that has its place's number."""

WAITING_SEARCHED = data.StructLayout({name: WAITING_MESSAGE[name].shape for name in _MEETING})
"""Fields of a WAITING_MESSAGE that :func:`waiting_matches` looks at."""

WAITING_KEY = data.StructLayout(
    {
        "tagged": 1,
        "directed": 1,
        "addressed": 1,
        "tag": 64,
        "ignore": 64,
        "source_ip": 32,
        "source_context": 32,
        "target": 8,
    }
)
"""Key of an unexpected message: the receive that it is for."""

_UNKNOWN_FLAGS = 0xFF & ~sum(ReceiveFlags)


def asks_for(opcode, order):
    """Whether an order, or a fetched RX_DESCRIPTOR, makes sense and has this ReceiveOpcode."""
    return ~order.error & (order.fields.opcode == opcode.value) & ((order.fields.flags & _UNKNOWN_FLAGS) == 0)


def _meet(receive, message):
    """Whether a receive is one for a message: what both sides of the section's rule have in common."""
    same_source = (receive.source_ip == message.source_ip) & (receive.source_context == message.source_context)
    same_tag = ((receive.tag ^ message.tag) & ~receive.ignore) == 0
    return (
        (receive.tagged == message.tagged)
        & (~receive.tagged | same_tag)
        & (~receive.directed | same_source)
        & (~receive.addressed | (receive.target == message.target))
    )


def receive_matches(receive, key):
    """Whether POSTED_SEARCHED is of the receive that a POSTED_KEY looks for."""
    return Mux(key.cancels, receive.user_context == key.user_context, _meet(receive, key))


def waiting_matches(message, key):
    """Whether WAITING_SEARCHED is of a message that a WAITING_KEY looks for."""
    return _meet(key, message)


def message_flags(message):
    """Return the EventFlags of a WAITING_MESSAGE, wherever it lies."""
    flags = {"immediate": EventFlags.IMMEDIATE, "tagged": EventFlags.TAGGED, "rendezvous": EventFlags.LONG}
    return sum(Mux(message[name], flag.value, 0) for name, flag in flags.items())[:8]
