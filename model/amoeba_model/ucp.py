"""What workers of UCX's API tell each other: addresses, keys, and the messages between their drivers.

The NIC knows nothing of this; it carries it. All of it comes from a peer, so nobody vouches for a number in it.
"""

import enum

from amoeba_model.layout import Field, Record

__all__ = [
    "ADDRESS_MAGIC",
    "LAYOUT_VERSION",
    "NO_CONTEXT",
    "UCP_ADDRESS",
    "UCP_MESSAGE",
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
    STREAM_LONG = 4
    """A RENDEZVOUS and 64 bits of length: bytes of a stream that the receiver reads."""
    AM_OLD = 5
    """An active message without header, for a handler of ucp_worker_set_am_handler."""
    AM = 6
    """The data of an active message, and behind it its header."""
    AM_FIRST = 7
    """The first fragment of a longer one: 64 bits of length, its header, data."""
    AM_MORE = 8
    """The next fragment."""
    AM_LONG = 9
    """A RENDEZVOUS, 64 bits of length, the header: data that the receiver reads."""
    ANSWER = 10
    """To an AM_LONG: 64 bits of its token, and 8 of the status with which nobody read it."""


class MessageFlags(enum.IntFlag):
    """``flags`` of a message between drivers."""

    REPLY = 1
    """The sender of an active message wants to be answered."""
    FAILS = 2
    """The sender's endpoint has an error handler, and wants to hear of the end of this one."""


UCP_MESSAGE = Record(
    "ucp_message",
    8,
    (
        Field("kind", 4, "What it is.", MessageKind),
        Field("flags", 4, "More about it.", MessageFlags),
        Field("am_id", 16, "Of an active message."),
        Field("header_length", 16, "Bytes of its header."),
        Field("endpoint", 24, "Which of the receiver's endpoints to the sender it is for."),
    ),
    "The immediate data of every message between drivers.",
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
