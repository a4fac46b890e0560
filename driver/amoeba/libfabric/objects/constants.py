# Generated from driver/amoeba/libfabric/libfabric-1.17.toml by scripts/api_tables; do not edit.
"""libfabric's enumerations and flags, under their own names and numbers (``rdma/fabric.h``, 1.17).

libfabric gives some bits several meanings, one per call; so there is one class per place where bits are used,
and each class holds what may stand there. Values of different classes combine as in C; given alone, where another
class is expected, they are refused. Plain numbers do everywhere.
"""

import enum

from amoeba_model.opcodes import Datatype, Op

__all__ = [
    "FI_ADDR_NOTAVAIL",
    "FI_ADDR_UNSPEC",
    "FI_KEY_NOTAVAIL",
    "FI_SHARED_CONTEXT",
    "AddrFormat",
    "AvFlags",
    "AvType",
    "BindFlags",
    "Caps",
    "CntrEvents",
    "Control",
    "CqFlags",
    "CqFormat",
    "CqWaitCond",
    "Datatype",
    "DomainFlags",
    "EndpointOption",
    "EpType",
    "EqEvent",
    "EqFlags",
    "FiType",
    "InfoFlags",
    "Mode",
    "MrAccess",
    "MrFlags",
    "MrMode",
    "MsgOrder",
    "Op",
    "OpFlags",
    "OptionLevel",
    "Progress",
    "Protocol",
    "QueryFlags",
    "ResourceMgmt",
    "Threading",
    "TrafficClass",
    "TriggerOp",
    "WaitObj",
]

FI_ADDR_UNSPEC = 2**64 - 1
"""No particular address."""
FI_ADDR_NOTAVAIL = 2**64 - 1
"""An address that could not be inserted."""
FI_KEY_NOTAVAIL = 2**64 - 1
"""The key of a region that has none; never a valid key."""
FI_SHARED_CONTEXT = 2**64 - 1
"""``tx_ctx_cnt`` of an endpoint that posts into a shared transmit context."""


class Caps(enum.IntFlag):
    """Capabilities, and the kind of an operation in the ``flags`` of its completion."""

    FI_MSG = 1 << 1
    FI_RMA = 1 << 2
    FI_TAGGED = 1 << 3
    FI_ATOMIC = 1 << 4
    FI_MULTICAST = 1 << 5
    FI_COLLECTIVE = 1 << 6
    FI_READ = 1 << 8
    FI_WRITE = 1 << 9
    FI_RECV = 1 << 10
    FI_SEND = 1 << 11
    FI_REMOTE_READ = 1 << 12
    FI_REMOTE_WRITE = 1 << 13
    FI_MULTI_RECV = 1 << 16
    FI_REMOTE_CQ_DATA = 1 << 17
    FI_TRIGGER = 1 << 20
    FI_FENCE = 1 << 21
    FI_HMEM = 1 << 47
    FI_VARIABLE_MSG = 1 << 48
    FI_RMA_PMEM = 1 << 49
    FI_SOURCE_ERR = 1 << 50
    FI_LOCAL_COMM = 1 << 51
    FI_REMOTE_COMM = 1 << 52
    FI_SHARED_AV = 1 << 53
    FI_RMA_EVENT = 1 << 56
    FI_SOURCE = 1 << 57
    FI_NAMED_RX_CTX = 1 << 58
    FI_DIRECTED_RECV = 1 << 59


class OpFlags(enum.IntFlag):
    """Flags of one operation."""

    FI_TAGGED = 1 << 3
    """An atomic on the buffer of a tagged receive."""
    FI_MULTI_RECV = 1 << 16
    """The buffer takes message after message."""
    FI_REMOTE_CQ_DATA = 1 << 17
    FI_MORE = 1 << 18
    """Another request follows at once: the doorbell may wait for it."""
    FI_PEEK = 1 << 19
    """Say whether such a message has come."""
    FI_TRIGGER = 1 << 20
    """Wait for a counter first; ``context`` is a :class:`amoeba.TriggeredContext`."""
    FI_FENCE = 1 << 21
    FI_COMPLETION = 1 << 24
    """Report success, too, on a queue bound with FI_SELECTIVE_COMPLETION."""
    FI_INJECT = 1 << 25
    """The buffers may be reused as soon as the call returns."""
    FI_INJECT_COMPLETE = 1 << 26
    FI_TRANSMIT_COMPLETE = 1 << 27
    FI_DELIVERY_COMPLETE = 1 << 28
    FI_COMMIT_COMPLETE = 1 << 30
    """Report success only when changes in the peer's memory have been flushed: of writes and changing atomics."""
    FI_MATCH_COMPLETE = 1 << 31
    """Report a message's success only when a receive has met it, or it has been discarded."""
    FI_DISCARD = 1 << 58
    """Forget the message found or claimed."""
    FI_CLAIM = 1 << 59
    """Keep the message found for a receive with the same context, or receive it."""


class MrAccess(enum.IntFlag):
    """Permitted uses of a memory region: locally (SEND, RECV, READ, WRITE) and by peers (REMOTE)."""

    FI_READ = 1 << 8
    """Receives what this side reads or fetches."""
    FI_WRITE = 1 << 9
    """Source of this side's writes and atomics."""
    FI_RECV = 1 << 10
    FI_SEND = 1 << 11
    FI_REMOTE_READ = 1 << 12
    """Peers may read or fetch."""
    FI_REMOTE_WRITE = 1 << 13
    """Peers may write, also by atomics."""


class MrFlags(enum.IntFlag):
    """Further properties of registered memory."""

    FI_RMA_PMEM = 1 << 49
    """The memory is persistent."""


class BindFlags(enum.IntFlag):
    """How an endpoint uses the completion queue, or what it counts by the counter, that it is bound to."""

    FI_READ = 1 << 8
    FI_WRITE = 1 << 9
    FI_RECV = 1 << 10
    FI_TRANSMIT = 1 << 11
    FI_SEND = 1 << 11
    """The name for queues; counters use FI_TRANSMIT."""
    FI_REMOTE_READ = 1 << 12
    FI_REMOTE_WRITE = 1 << 13
    FI_SELECTIVE_COMPLETION = 1 << 59
    """Report successes only of operations with FI_COMPLETION; errors are always reported."""


class QueryFlags(enum.IntFlag):
    """The call family that ``query_atomic`` asks about; none: fi_atomic."""

    FI_TAGGED = 1 << 3
    FI_FETCH_ATOMIC = 1 << 58
    FI_COMPARE_ATOMIC = 1 << 59


class InfoFlags(enum.IntFlag):
    """Flags of ``getinfo``."""

    FI_PROV_ATTR_ONLY = 1 << 54
    """Say which providers there are, and nothing else."""
    FI_NUMERICHOST = 1 << 55
    """``node`` is a number, not a name."""
    FI_SOURCE = 1 << 57
    """``node`` is this side's, not the peer's."""


class AvFlags(enum.IntFlag):
    """How an address vector is opened (FI_EVENT), and how addresses are inserted."""

    FI_MORE = 1 << 18
    """Other insertions follow at once."""
    FI_READ = 1 << 8
    """Open a shared vector to look at it."""
    FI_EVENT = 1 << 24
    """Insertions report their end on an event queue."""
    FI_SYNC_ERR = 1 << 58
    """Return one error number per address."""
    FI_SYMMETRIC = 1 << 59
    """All nodes have the same services."""


class EqFlags(enum.IntFlag):
    """How an event queue is opened (FI_WRITE) and read (FI_PEEK)."""

    FI_WRITE = 1 << 9
    """The application inserts events of its own."""
    FI_PEEK = 1 << 19
    """Leave the event in the queue."""


class CqFlags(enum.IntFlag):
    """How a completion queue is opened."""

    FI_AFFINITY = 1 << 29
    """Interrupts are best taken by the processor in ``signaling_vector``."""


class DomainFlags(enum.IntFlag):
    """Events that a domain reports on the event queue it is bound to."""

    FI_REG_MR = 1 << 59
    """The end of registrations, as FI_MR_COMPLETE."""


class MsgOrder(enum.IntFlag):
    """Operations that keep their order: XaY, "X after Y"; S send, R read or fetch, W write or base atomic."""

    FI_ORDER_NONE = 0
    FI_ORDER_RAR = 1 << 0
    FI_ORDER_RAW = 1 << 1
    FI_ORDER_RAS = 1 << 2
    FI_ORDER_WAR = 1 << 3
    FI_ORDER_WAW = 1 << 4
    FI_ORDER_WAS = 1 << 5
    FI_ORDER_SAR = 1 << 6
    FI_ORDER_SAW = 1 << 7
    FI_ORDER_SAS = 1 << 8
    FI_ORDER_DATA = 1 << 16
    FI_ORDER_RMA_RAR = 1 << 32
    FI_ORDER_RMA_RAW = 1 << 33
    FI_ORDER_RMA_WAR = 1 << 34
    FI_ORDER_RMA_WAW = 1 << 35
    FI_ORDER_ATOMIC_RAR = 1 << 36
    FI_ORDER_ATOMIC_RAW = 1 << 37
    FI_ORDER_ATOMIC_WAR = 1 << 38
    FI_ORDER_ATOMIC_WAW = 1 << 39


class Mode(enum.IntFlag):
    """Requirements that a provider may have of the application."""

    FI_BUFFERED_RECV = 1 << 51
    FI_CONTEXT2 = 1 << 52
    FI_LOCAL_MR = 1 << 55
    FI_RX_CQ_DATA = 1 << 56
    FI_ASYNC_IOV = 1 << 57
    FI_MSG_PREFIX = 1 << 58
    FI_CONTEXT = 1 << 59


class MrMode(enum.IntFlag):
    """Requirements that memory registration has of the application."""

    FI_MR_BASIC = 1 << 0
    FI_MR_SCALABLE = 1 << 1
    FI_MR_LOCAL = 1 << 2
    FI_MR_RAW = 1 << 3
    FI_MR_VIRT_ADDR = 1 << 4
    """Peers address the region by its virtual address; otherwise by the offset from its start."""
    FI_MR_ALLOCATED = 1 << 5
    FI_MR_PROV_KEY = 1 << 6
    """The domain chooses all keys; otherwise the application may."""
    FI_MR_MMU_NOTIFY = 1 << 7
    FI_MR_RMA_EVENT = 1 << 8
    FI_MR_ENDPOINT = 1 << 9
    FI_MR_HMEM = 1 << 10
    FI_MR_COLLECTIVE = 1 << 11


class AvType(enum.IntEnum):
    FI_AV_UNSPEC = 0
    FI_AV_MAP = 1
    FI_AV_TABLE = 2


class EpType(enum.IntEnum):
    FI_EP_UNSPEC = 0
    FI_EP_MSG = 1
    FI_EP_DGRAM = 2
    FI_EP_RDM = 3


class AddrFormat(enum.IntEnum):
    """Formats of ``src_addr`` and ``dest_addr``."""

    FI_FORMAT_UNSPEC = 0
    """The provider's own format, opaque to applications."""
    FI_SOCKADDR = 1
    FI_SOCKADDR_IN = 2
    FI_SOCKADDR_IN6 = 3
    FI_ADDR_STR = 9


class Protocol(enum.IntEnum):
    """Wire protocols of endpoints. Release 1.17 has no number for Ultra Ethernet."""

    FI_PROTO_UNSPEC = 0


class Threading(enum.IntEnum):
    """Objects for which the application serialises its calls."""

    FI_THREAD_UNSPEC = 0
    FI_THREAD_SAFE = 1
    FI_THREAD_FID = 2
    FI_THREAD_DOMAIN = 3
    FI_THREAD_COMPLETION = 4
    FI_THREAD_ENDPOINT = 5


class Progress(enum.IntEnum):
    """Whether operations proceed by themselves, or while the application calls."""

    FI_PROGRESS_UNSPEC = 0
    FI_PROGRESS_AUTO = 1
    FI_PROGRESS_MANUAL = 2


class ResourceMgmt(enum.IntEnum):
    """Whether queues are protected against overrun."""

    FI_RM_UNSPEC = 0
    FI_RM_DISABLED = 1
    FI_RM_ENABLED = 2


class TrafficClass(enum.IntEnum):
    FI_TC_UNSPEC = 0
    FI_TC_BEST_EFFORT = 0x200
    FI_TC_LOW_LATENCY = 0x201
    FI_TC_DEDICATED_ACCESS = 0x202
    FI_TC_BULK_DATA = 0x203
    FI_TC_SCAVENGER = 0x204
    FI_TC_NETWORK_CTRL = 0x205


class Control(enum.IntEnum):
    """Commands of ``fi_control``."""

    FI_GETFIDFLAG = 0
    FI_SETFIDFLAG = 1
    FI_GETOPSFLAG = 2
    FI_SETOPSFLAG = 3
    FI_ALIAS = 4
    FI_GETWAIT = 5
    FI_ENABLE = 6
    FI_BACKLOG = 7
    FI_GET_RAW_MR = 8
    FI_MAP_RAW_MR = 9
    FI_UNMAP_KEY = 10
    FI_QUEUE_WORK = 11
    FI_CANCEL_WORK = 12
    FI_FLUSH_WORK = 13
    FI_REFRESH = 14
    FI_DUP = 15
    FI_GETWAITOBJ = 16
    FI_GET_VAL = 17
    FI_SET_VAL = 18
    FI_EXPORT_FID = 19


class OptionLevel(enum.IntEnum):
    """Kinds of objects that have options."""

    FI_OPT_ENDPOINT = 0


class EndpointOption(enum.IntEnum):
    """Options of FI_OPT_ENDPOINT; those from FI_OPT_MAX_MSG_SIZE on are of release 2.0."""

    FI_OPT_MIN_MULTI_RECV = 0
    """Minimum of free bytes; a buffer of FI_MULTI_RECV with fewer is released."""
    FI_OPT_CM_DATA_SIZE = 1
    FI_OPT_BUFFERED_MIN = 2
    FI_OPT_BUFFERED_LIMIT = 3
    FI_OPT_SEND_BUF_SIZE = 4
    FI_OPT_RECV_BUF_SIZE = 5
    FI_OPT_TX_SIZE = 6
    """Maximum of outstanding descriptors."""
    FI_OPT_RX_SIZE = 7
    """Entries about peers that may wait to be read."""
    FI_OPT_FI_HMEM_P2P = 8
    FI_OPT_XPU_TRIGGER = 9
    FI_OPT_MAX_MSG_SIZE = 12
    """Most bytes of one message."""
    FI_OPT_MAX_TAGGED_SIZE = 13
    """Most bytes of one tagged message."""
    FI_OPT_MAX_RMA_SIZE = 14
    """Most bytes of one read or write."""
    FI_OPT_MAX_ATOMIC_SIZE = 15
    """Most bytes of one atomic."""
    FI_OPT_INJECT_MSG_SIZE = 16
    """Most bytes of one inject."""
    FI_OPT_INJECT_TAGGED_SIZE = 17
    """Most bytes of one tinject."""
    FI_OPT_INJECT_RMA_SIZE = 18
    """Most bytes of one inject_write."""
    FI_OPT_INJECT_ATOMIC_SIZE = 19
    """Most bytes of one inject_atomic."""


class TriggerOp(enum.IntEnum):
    """Operations of deferred work."""

    FI_OP_RECV = 0
    FI_OP_SEND = 1
    FI_OP_TRECV = 2
    FI_OP_TSEND = 3
    FI_OP_READ = 4
    FI_OP_WRITE = 5
    FI_OP_ATOMIC = 6
    FI_OP_FETCH_ATOMIC = 7
    FI_OP_COMPARE_ATOMIC = 8
    FI_OP_CNTR_SET = 9
    FI_OP_CNTR_ADD = 10


class FiType(enum.IntEnum):
    """Types of the data that ``fi_tostr`` prints."""

    FI_TYPE_INFO = 0
    FI_TYPE_EP_TYPE = 1
    FI_TYPE_CAPS = 2
    FI_TYPE_OP_FLAGS = 3
    FI_TYPE_ADDR_FORMAT = 4
    FI_TYPE_TX_ATTR = 5
    FI_TYPE_RX_ATTR = 6
    FI_TYPE_EP_ATTR = 7
    FI_TYPE_DOMAIN_ATTR = 8
    FI_TYPE_FABRIC_ATTR = 9
    FI_TYPE_THREADING = 10
    FI_TYPE_PROGRESS = 11
    FI_TYPE_PROTOCOL = 12
    FI_TYPE_MSG_ORDER = 13
    FI_TYPE_MODE = 14
    FI_TYPE_AV_TYPE = 15
    FI_TYPE_ATOMIC_TYPE = 16
    FI_TYPE_ATOMIC_OP = 17
    FI_TYPE_VERSION = 18
    FI_TYPE_EQ_EVENT = 19
    FI_TYPE_CQ_EVENT_FLAGS = 20
    FI_TYPE_MR_MODE = 21
    FI_TYPE_OP_TYPE = 22
    FI_TYPE_FID = 23
    FI_TYPE_COLLECTIVE_OP = 24
    FI_TYPE_HMEM_IFACE = 25
    FI_TYPE_CQ_FORMAT = 26
    FI_TYPE_LOG_LEVEL = 27
    FI_TYPE_LOG_SUBSYS = 28


class EqEvent(enum.IntEnum):
    """Kinds of events of an event queue."""

    FI_NOTIFY = 0
    FI_CONNREQ = 1
    FI_CONNECTED = 2
    FI_SHUTDOWN = 3
    FI_MR_COMPLETE = 4
    FI_AV_COMPLETE = 5
    FI_JOIN_COMPLETE = 6


class CqFormat(enum.IntEnum):
    """Formats of a completion queue's entries: the fields that they have."""

    FI_CQ_FORMAT_UNSPEC = 0
    FI_CQ_FORMAT_CONTEXT = 1
    FI_CQ_FORMAT_MSG = 2
    FI_CQ_FORMAT_DATA = 3
    FI_CQ_FORMAT_TAGGED = 4


class CntrEvents(enum.IntEnum):
    """Events that counters count."""

    FI_CNTR_EVENTS_COMP = 0
    """Operations that complete."""


class CqWaitCond(enum.IntEnum):
    """When a waiting read of a completion queue ends."""

    FI_CQ_COND_NONE = 0
    """With the first entry."""
    FI_CQ_COND_THRESHOLD = 1
    """With as many as the read says."""


class WaitObj(enum.IntEnum):
    FI_WAIT_NONE = 0
    FI_WAIT_UNSPEC = 1
    FI_WAIT_SET = 2
    FI_WAIT_FD = 3
    FI_WAIT_MUTEX_COND = 4
    FI_WAIT_YIELD = 5
    FI_WAIT_POLLFD = 6
