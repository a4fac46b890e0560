"""Records that workers of UCX's API exchange: addresses, keys, and the messages between their drivers.

The NIC knows nothing of this; it carries it. All of it comes from a peer, so nobody vouches for a number in it.
"""

import enum

from amoeba_model.descriptors import RENDEZVOUS
from amoeba_model.layout import Field, Record

__all__ = [
    "ADDRESS_MAGIC",
    "LAYOUT_VERSION",
    "NO_CONTEXT",
    "STREAM_OVERHEAD",
    "STREAM_WINDOW",
    "UCP_ADDRESS",
    "UCP_ANSWER",
    "UCP_LONG_MESSAGE",
    "UCP_MESSAGE",
    "UCP_RECORDS",
    "UCP_REMOTE_KEY",
    "MessageFlags",
    "MessageKind",
]

ADDRESS_MAGIC = 0x5543
LAYOUT_VERSION = 1
NO_CONTEXT = 0xFFFF
"""``message_context`` of a worker that takes neither streams nor active messages."""


class MessageKind(enum.IntEnum):
    """``kind`` of a message between drivers."""

    WIREUP_REQUEST = 1
    """First on a lane: the sender's UCP_ADDRESS, and by ``endpoint`` which endpoint at the receiver pairs with it."""
    GONE = 2
    """The endpoint was closed."""
    STREAM = 3
    """Bytes of a stream."""
    STREAM_CREDIT = 4
    """64 bits: what the receiver of a stream has used up of it, in all, as STREAM_OVERHEAD says how to count."""
    AM_OLD = 5
    """An active message without header, for a handler of ucp_worker_set_am_handler."""
    AM = 6
    """The data of an active message, and behind it its header."""
    AM_FIRST = 7
    """The first fragment of a longer one: 64 bits of length of the data, then as AM."""
    AM_MORE = 8
    """The next fragment: more of its data."""
    AM_LONG = 9
    """A UCP_LONG_MESSAGE, and behind it the header: data that the receiver reads."""
    ANSWER = 10
    """A UCP_ANSWER to an AM_LONG that nobody reads."""


class MessageFlags(enum.IntFlag):
    """``flags`` of a message between drivers."""

    REPLY = 1
    """The sender of an active message wants to be answered."""
    OLD = 4
    """A fragmented active message is for a handler of ucp_worker_set_am_handler."""


UCP_MESSAGE = Record(
    "ucp_message",
    8,
    (
        Field("kind", 4, "Kind of the message.", MessageKind),
        Field("flags", 4, "More about it.", MessageFlags),
        Field("am_id", 16, "Of an active message."),
        Field("header_length", 16, "Bytes of its header."),
        Field("endpoint", 24, "Receiver's endpoint to the sender that the message is for."),
    ),
    "The immediate data of every message between drivers.",
)

STREAM_WINDOW = 1 << 18
"""Bytes that a sender may have in a stream that nobody has used up."""
STREAM_OVERHEAD = 64
"""Bytes for which a message of a stream counts besides those that it has."""

UCP_LONG_MESSAGE = Record(
    "ucp_long_message",
    40,
    (
        *RENDEZVOUS.fields,
        Field("length", 64, "Bytes of the data."),
    ),
    "Begin of an AM_LONG: where the data is read, as in a RENDEZVOUS, and how much it is.",
)

UCP_ANSWER = Record(
    "ucp_answer",
    16,
    (
        Field("token", 64, "Of the AM_LONG."),
        Field("status", 8, "A ucs_status_t without its sign, that of an error."),
        Field("reserved", 56, "Zero."),
    ),
    "With what an active message has ended that nobody read.",
)

UCP_ADDRESS = Record(
    "ucp_address",
    40,
    (
        Field("magic", 16, "0x5543."),
        Field("version", 8, "1."),
        Field("flags", 8, "Zero."),
        Field("uid", 64, "Random number of the worker."),
        Field("mac", 48, "Ethernet address of its NIC, first byte most significant."),
        Field("ip", 32, "IPv4 address of its NIC."),
        Field("job_id", 24, "Its UET job."),
        Field("pid_on_fep", 16, "Its UET process id."),
        Field("main_context", 16, "Its context for memory and tagged messages."),
        Field("message_context", 16, "Its context for streams and active messages; 0xFFFF: none."),
        Field("link_host", 32, "IPv4 address of the UDP socket of a simulated NIC; 0: none."),
        Field("link_port", 16, "Port of that."),
        Field("reserved", 24, "Zero."),
    ),
    "A worker's address, as ucp_worker_get_address packs it.",
)

UCP_REMOTE_KEY = Record(
    "ucp_remote_key",
    40,
    (
        Field("magic", 16, "0x5543."),
        Field("version", 8, "1."),
        Field("rights", 8, "KeyFlags that the key grants."),
        Field("reserved", 32, "Zero."),
        Field("uid", 64, "Random number of the process."),
        Field("key", 64, "By which the NIC knows the memory; 0 with a length of 0."),
        Field("address", 64, "Virtual address of its first byte."),
        Field("length", 64, "Bytes of it."),
    ),
    "A key of memory, as ucp_rkey_pack packs it.",
)

UCP_RECORDS = (UCP_MESSAGE, UCP_LONG_MESSAGE, UCP_ANSWER, UCP_ADDRESS, UCP_REMOTE_KEY)
"""All of them."""
