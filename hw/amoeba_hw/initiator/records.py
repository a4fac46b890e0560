"""Records that travel between the initiator's stages."""

from amaranth.lib import data, enum
from amoeba_model.descriptors import TX_DESCRIPTOR

from amoeba_hw.layout import struct_layout

__all__ = [
    "ABORT",
    "ANSWER",
    "COMPLETION_ORDER",
    "DESCRIPTOR",
    "FENCES",
    "FETCH_COMMAND",
    "FLUSH",
    "GENERATION_BITS",
    "LOGGED_PACKET",
    "NOTE",
    "PACKET",
    "RECOVERY",
    "REQUEST",
    "TICKET",
    "Obstacle",
    "PayloadKind",
    "RecoveryKind",
    "fetched_descriptor",
    "order_tag",
    "wake_order",
]

GENERATION_BITS = 16
"""A context's generation changes when it is disabled; what an earlier generation began is not completed. An answer
would have to be late by 65,536 times disabling its context to be taken for a newer one."""

FETCH_COMMAND = data.StructLayout(
    {"context": 8, "generation": GENERATION_BITS, "index": 16, "count": 3, "address": 64}
)
"""1 to 4 consecutive descriptors to fetch, from ``index`` on; within one lap of the ring and one 4 KiB page."""


def fetched_descriptor(record):
    """One fetched descriptor, of a ring of these records."""
    return data.StructLayout(
        {
            "context": 8,
            "generation": GENERATION_BITS,
            "index": 16,
            "error": 1,  # the host refused the read: the fields are undefined
            "fields": struct_layout(record),
        }
    )


DESCRIPTOR = fetched_descriptor(TX_DESCRIPTOR)

TICKET = data.StructLayout(
    {
        "context": 8,
        "generation": GENERATION_BITS,
        "index": 16,  # of the descriptor in its ring
        "peer": 16,
        "user_context": 64,
        "length": 32,
        "opcode": 8,
        "wants_completion": 1,  # on success, too
        "counter": 8,  # event counter to advance; 0: none
        "chained": 1,  # the next descriptor continues the request: no completion, the status is handed on
    }
)
"""Fields of a request's completion that identify its descriptor."""

COMPLETION_ORDER = data.StructLayout({"ticket": TICKET, "status": 8})
"""A finished request."""


ANSWER = data.StructLayout(
    {
        "writes": 1,  # data goes to the host: to wait for
        "completes": 1,  # the last packet of its request
        "psn": 32,
        "order": COMPLETION_ORDER,  # valid with completes; its ticket always
    }
)
"""Effects of an answer."""


class PayloadKind(enum.Enum, shape=2):
    """Payloads of request packets."""

    NONE = 0
    OPERANDS = 1
    """The local buffer's bytes."""
    SWAP_PAIR = 2
    """UET's compare-and-swap extension: the compare value in 16 bytes, the swap value in 16 bytes."""
    VECTORS = 3
    """All operands, then all compare values."""


_REQUEST = {
    "ticket": TICKET,
    "ses_opcode": 6,
    "is_atomic": 1,
    "atomic_opcode": 8,
    "atomic_datatype": 8,
    "kind": PayloadKind,
    "inline": 1,  # local and compare are values, not addresses
    "returns_data": 1,
    "is_close": 1,  # CLOSE_COMMAND instead of a request
    "fence": 1,  # its first packet waits until all before it are answered
    "immediate": 1,  # compare holds immediate data: for the first packet of a message, the last READ of a request
    "remote_address": 64,
    "remote_key": 64,
    "result": 64,
    "local": 64,
    "compare": 64,
}

FENCES = {
    "fence_all": 1,  # its first packet waits until all before it of its context, to any peer, are answered
    "is_nop": 1,  # has no packet: it ends where its first one would be cut
}

REQUEST = data.StructLayout({**_REQUEST, **FENCES, "length": 32})
"""A descriptor that passed its checks."""


class Obstacle(enum.Enum, shape=2):
    """Why the first request of a queue may not go on now."""

    WINDOW = 0
    """Its PDC sends nothing new."""
    FENCE = 1
    """Packets of its PDC are unanswered, which it is not to overtake."""
    ORDER = 2
    """A FENCE_ALL: it has one, or is behind one."""


def order_tag(depth):
    """How many requests of its context came before a request, and how many FENCE_ALLs, itself included.

    Modulo twice ``depth``, which is how many there may be at a time.
    """
    bits = (2 * depth - 1).bit_length()
    return data.StructLayout({"number": bits, "fences": bits})


def wake_order(contexts, queues):
    """Queues to try again: those of a context, ``all`` or those that met ORDER, and ``one`` more."""
    return data.StructLayout({"all": 1, "ordered": 1, "context": range(contexts), "one": 1, "queue": range(queues)})


_LOGGED = {
    **_REQUEST,
    "length": 14,  # bytes of remote memory
    "position": 30,  # where they begin in the packet's message
    "message_id": 16,
    "last": 1,  # of its request
    "fault": 1,  # the host refused the operands: send a NO_OP or a MSG_ERROR instead
}

LOGGED_PACKET = data.StructLayout(_LOGGED)
"""Record of an unanswered packet: the purpose of its answer, and everything needed to send it again."""

NOTE = data.StructLayout({"noted": 1, "status": 8})
"""Whether an unanswered packet's own answer has come, before that of an older one, and what its status is."""

PACKET = data.StructLayout(
    {
        **_LOGGED,
        "number": 8,  # of the request among those to its peer, modulo 256
        "resend": 1,  # not new: psn is given
        "psn": 32,
    }
)
"""One packet of a request. Local addresses are the packet's own, the remote one is its message's; with ``immediate``
``compare`` is its header data. A packet with a psn has a ``message_id``. ``number`` counts the requests to a peer."""

ABORT = data.StructLayout({"valid": 1, "number": 8})
"""While valid: no more packets of the peer's request with this number are wanted."""


class RecoveryKind(enum.Enum, shape=2):
    """Recoveries that an answer may ask of a PDC."""

    AT_ONCE = 0
    """Go back to a psn; at most once until a packet is answered."""
    LATER = 1
    """Go back to the oldest unanswered packet after a quarter of the retransmission timeout."""
    FAIL = 2
    """Give the PDC up."""
    MISSING = 3
    """Send what is unanswered from ``psn`` on and before ``end`` again."""


RECOVERY = data.StructLayout({"kind": RecoveryKind, "without_pdc": 1, "peer": 16, "psn": 32, "end": 32})
"""Packets of a PDC are to be sent again, or never. ``without_pdc``, with LATER: since there is no PDC for them."""

FLUSH = data.StructLayout({"peer": 16})
"""A failed PDC that has unanswered packets."""
