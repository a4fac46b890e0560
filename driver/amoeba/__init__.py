"""Amoeba's driver: libfabric's objects, calls and numbers in Python, on any Amoeba NIC.

Start with :func:`open_cluster` (simulated NICs on one network), :func:`join_cluster` (one NIC per process) or
:class:`Fabric` (devices that you opened). Then make a domain, memory regions, an address vector, a completion queue
and endpoints from the fabric.
"""

from amoeba_model.impairments import Impairments
from amoeba_model.switch import Switch

from amoeba.core import log as _log  # noqa: F401  which listens if AMOEBA_LOG says so
from amoeba.core.errno import Errno
from amoeba.core.errors import (
    ArgumentError,
    ArgumentTypeError,
    CanceledError,
    ClosedError,
    DeviceFailureError,
    ErrorAvailableError,
    FabricError,
    PartialError,
    PeerError,
    ProtectionError,
    ResourceError,
    StateError,
    TimedOutError,
    TruncatedError,
    TryAgainError,
    UnsupportedError,
    strerror,
)
from amoeba.core.release import RELEASE as __version__
from amoeba.devices.bootstrap import Rendezvous
from amoeba.devices.devices import DEVICE_KINDS, open_device
from amoeba.libfabric.objects.address_vector import AddressVector, Insertion, rx_addr
from amoeba.libfabric.objects.cluster import getinfo, join_cluster, open_cluster, open_fabric
from amoeba.libfabric.objects.connections import ConnectionRequest
from amoeba.libfabric.objects.constants import (
    FI_ADDR_NOTAVAIL,
    FI_ADDR_UNSPEC,
    FI_KEY_NOTAVAIL,
    FI_SHARED_CONTEXT,
    AddrFormat,
    AvFlags,
    AvType,
    BindFlags,
    Caps,
    CntrEvents,
    Control,
    CqFlags,
    CqFormat,
    CqWaitCond,
    Datatype,
    DomainFlags,
    EndpointOption,
    EpType,
    EqEvent,
    EqFlags,
    FiType,
    InfoFlags,
    Mode,
    MrAccess,
    MrFlags,
    MrMode,
    MsgOrder,
    Op,
    OpFlags,
    OptionLevel,
    Progress,
    Protocol,
    QueryFlags,
    ResourceMgmt,
    Threading,
    TrafficClass,
    TriggerOp,
    WaitObj,
)
from amoeba.libfabric.objects.deferred_work import (
    DeferredWork,
    OpAtomic,
    OpCntr,
    OpCompareAtomic,
    OpFetchAtomic,
    OpMsg,
    OpRma,
    OpTagged,
)
from amoeba.libfabric.objects.domain import AtomicAttr, Domain, MemoryRegion, MrAttr
from amoeba.libfabric.objects.endpoints.connected import ConnectedEndpoint
from amoeba.libfabric.objects.endpoints.endpoint import INJECT_SIZE, MAX_MESSAGE, Endpoint
from amoeba.libfabric.objects.endpoints.passive import PassiveEndpoint
from amoeba.libfabric.objects.endpoints.scalable import ReceiveContext, ScalableEndpoint, TransmitContext
from amoeba.libfabric.objects.endpoints.shared_context import SharedTransmitContext
from amoeba.libfabric.objects.endpoints.shared_receive import SharedReceiveContext
from amoeba.libfabric.objects.endpoints.transmit import EndpointAlias
from amoeba.libfabric.objects.fabric import Fabric
from amoeba.libfabric.objects.memory_region import UnclosedRegionWarning
from amoeba.libfabric.objects.operations.vectors import AtomicMsg, Msg, RmaIoc, RmaIov, RmaMsg, TaggedMsg
from amoeba.libfabric.objects.printing import version
from amoeba.libfabric.objects.queues.completion import (
    CompletionQueue,
    CqDataEntry,
    CqEntry,
    CqErrEntry,
    CqMsgEntry,
    CqTaggedEntry,
)
from amoeba.libfabric.objects.queues.counters import Counter
from amoeba.libfabric.objects.queues.event_queue import EqCmEntry, EqEntry, EqErrEntry, EventQueue
from amoeba.libfabric.objects.queues.poll_set import PollSet
from amoeba.libfabric.objects.queues.wait_set import WaitSet
from amoeba.libfabric.objects.remote_array import RemoteArray
from amoeba.libfabric.objects.remote_value import RemoteValue
from amoeba.libfabric.objects.structures import DomainAttr, EpAttr, FabricAttr, Info, RxAttr, TxAttr
from amoeba.libfabric.objects.team import Team, Window, run_team
from amoeba.libfabric.objects.tostr import tostr
from amoeba.libfabric.objects.triggered import TriggeredContext
from amoeba.nic.address import EndpointAddress
from amoeba.nic.nic import Retransmission
from amoeba.transport.batches import BATCH_FAILURE, BATCH_STATUS

__all__ = [
    "BATCH_FAILURE",
    "BATCH_STATUS",
    "DEVICE_KINDS",
    "FI_ADDR_NOTAVAIL",
    "FI_ADDR_UNSPEC",
    "FI_KEY_NOTAVAIL",
    "FI_SHARED_CONTEXT",
    "INJECT_SIZE",
    "MAX_MESSAGE",
    "AddrFormat",
    "AddressVector",
    "ArgumentError",
    "ArgumentTypeError",
    "AtomicAttr",
    "AtomicMsg",
    "AvFlags",
    "AvType",
    "BindFlags",
    "CanceledError",
    "Caps",
    "ClosedError",
    "CntrEvents",
    "CompletionQueue",
    "ConnectedEndpoint",
    "ConnectionRequest",
    "Control",
    "Counter",
    "CqDataEntry",
    "CqEntry",
    "CqErrEntry",
    "CqFlags",
    "CqFormat",
    "CqMsgEntry",
    "CqTaggedEntry",
    "CqWaitCond",
    "Datatype",
    "DeferredWork",
    "DeviceFailureError",
    "Domain",
    "DomainAttr",
    "DomainFlags",
    "Endpoint",
    "EndpointAddress",
    "EndpointAlias",
    "EndpointOption",
    "EpAttr",
    "EpType",
    "EqCmEntry",
    "EqEntry",
    "EqErrEntry",
    "EqEvent",
    "EqFlags",
    "Errno",
    "ErrorAvailableError",
    "EventQueue",
    "Fabric",
    "FabricAttr",
    "FabricError",
    "FiType",
    "Impairments",
    "Info",
    "InfoFlags",
    "Insertion",
    "MemoryRegion",
    "Mode",
    "MrAccess",
    "MrAttr",
    "MrFlags",
    "MrMode",
    "Msg",
    "MsgOrder",
    "Op",
    "OpAtomic",
    "OpCntr",
    "OpCompareAtomic",
    "OpFetchAtomic",
    "OpFlags",
    "OpMsg",
    "OpRma",
    "OpTagged",
    "OptionLevel",
    "PartialError",
    "PassiveEndpoint",
    "PeerError",
    "PollSet",
    "Progress",
    "ProtectionError",
    "Protocol",
    "QueryFlags",
    "ReceiveContext",
    "RemoteArray",
    "RemoteValue",
    "Rendezvous",
    "ResourceError",
    "ResourceMgmt",
    "Retransmission",
    "RmaIoc",
    "RmaIov",
    "RmaMsg",
    "RxAttr",
    "ScalableEndpoint",
    "SharedReceiveContext",
    "SharedTransmitContext",
    "StateError",
    "Switch",
    "TaggedMsg",
    "Team",
    "Threading",
    "TimedOutError",
    "TrafficClass",
    "TransmitContext",
    "TriggerOp",
    "TriggeredContext",
    "TruncatedError",
    "TryAgainError",
    "TxAttr",
    "UnclosedRegionWarning",
    "UnsupportedError",
    "WaitObj",
    "WaitSet",
    "Window",
    "__version__",
    "getinfo",
    "join_cluster",
    "open_cluster",
    "open_device",
    "open_fabric",
    "run_team",
    "rx_addr",
    "strerror",
    "tostr",
    "version",
]
