"""Amoeba's driver: libfabric's objects, calls and numbers in Python, on any Amoeba NIC.

Start with :func:`open_cluster` (simulated NICs on one network), :func:`join_cluster` (one of them per process) or
:class:`Fabric` (devices you opened), then make a domain, memory regions, an address vector, a completion queue and
endpoints from it.
"""

from amoeba.address import AddressVector, EndpointAddress
from amoeba.completion import CompletionQueue, CqDataEntry, CqEntry, CqErrEntry, CqMsgEntry, CqTaggedEntry
from amoeba.constants import (
    FI_ADDR_NOTAVAIL,
    FI_ADDR_UNSPEC,
    FI_KEY_NOTAVAIL,
    AvType,
    BindFlags,
    Caps,
    CqFormat,
    Datatype,
    EpType,
    Errno,
    MrAccess,
    MrMode,
    Op,
    OpFlags,
    QueryFlags,
    WaitObj,
)
from amoeba.devices import DEVICE_KINDS, join_cluster, open_cluster, open_device
from amoeba.domain import AtomicAttr, Domain, MemoryRegion
from amoeba.endpoint import INJECT_SIZE, MAX_MESSAGE, Endpoint
from amoeba.errors import (
    ArgumentError,
    CanceledError,
    ClosedError,
    DeviceFailureError,
    ErrorAvailableError,
    FabricError,
    PeerError,
    ProtectionError,
    ResourceError,
    StateError,
    TimedOutError,
    TruncatedError,
    TryAgainError,
    UnsupportedError,
)
from amoeba.fabric import Fabric
from amoeba.nic import Retransmission
from amoeba.rendezvous import Rendezvous
from amoeba.vectors import AtomicMsg, RmaIoc, RmaIov, RmaMsg

__all__ = [
    "DEVICE_KINDS",
    "FI_ADDR_NOTAVAIL",
    "FI_ADDR_UNSPEC",
    "FI_KEY_NOTAVAIL",
    "INJECT_SIZE",
    "MAX_MESSAGE",
    "AddressVector",
    "ArgumentError",
    "AtomicAttr",
    "AtomicMsg",
    "AvType",
    "BindFlags",
    "CanceledError",
    "Caps",
    "ClosedError",
    "CompletionQueue",
    "CqDataEntry",
    "CqEntry",
    "CqErrEntry",
    "CqFormat",
    "CqMsgEntry",
    "CqTaggedEntry",
    "Datatype",
    "DeviceFailureError",
    "Domain",
    "Endpoint",
    "EndpointAddress",
    "EpType",
    "Errno",
    "ErrorAvailableError",
    "Fabric",
    "FabricError",
    "MemoryRegion",
    "MrAccess",
    "MrMode",
    "Op",
    "OpFlags",
    "PeerError",
    "ProtectionError",
    "QueryFlags",
    "Rendezvous",
    "ResourceError",
    "Retransmission",
    "RmaIoc",
    "RmaIov",
    "RmaMsg",
    "StateError",
    "TimedOutError",
    "TruncatedError",
    "TryAgainError",
    "UnsupportedError",
    "WaitObj",
    "join_cluster",
    "open_cluster",
    "open_device",
]
