"""fi_cm(3), and the passive endpoints of fi_endpoint(3)."""

from amoeba.core.buffers import Buffer
from amoeba.core.errno import Errno
from amoeba.core.errors import fabric_error
from amoeba.libfabric.calls.arguments import first_bytes, no_flags
from amoeba.libfabric.objects.connections import ConnectionRequest, SocketAddress
from amoeba.libfabric.objects.endpoints.connected import ConnectedEndpoint
from amoeba.libfabric.objects.endpoints.endpoint import Endpoint
from amoeba.libfabric.objects.endpoints.passive import PassiveEndpoint
from amoeba.libfabric.objects.endpoints.scalable import ScalableEndpoint
from amoeba.libfabric.objects.fabric import Fabric
from amoeba.libfabric.objects.queues.event_queue import EventQueue
from amoeba.libfabric.objects.structures import Info

__all__ = [
    "fi_accept",
    "fi_connect",
    "fi_getname",
    "fi_getpeer",
    "fi_listen",
    "fi_passive_ep",
    "fi_pep_bind",
    "fi_reject",
    "fi_setname",
    "fi_shutdown",
]


def _param(param: Buffer | None, paramlen: int) -> bytes:
    return bytes(first_bytes(b"" if param is None else param, paramlen))


def _connectable(ep: Endpoint) -> ConnectedEndpoint:
    """Return a connected endpoint. Raises FI_EOPNOTSUPP for an endpoint of another type."""
    if not isinstance(ep, ConnectedEndpoint):
        raise fabric_error(Errno.FI_EOPNOTSUPP, f"only FI_EP_MSG is connected, this is {ep.ep_type!r}")
    return ep


def fi_passive_ep(fabric: Fabric, info: Info) -> PassiveEndpoint:
    """:meth:`amoeba.Fabric.passive_ep`."""
    return fabric.passive_ep(info)


def fi_pep_bind(pep: PassiveEndpoint, fid: EventQueue, flags: int) -> None:
    """:meth:`amoeba.PassiveEndpoint.bind`. Raises FI_EBADFLAGS for any flags."""
    no_flags(flags, "binding an event queue")
    pep.bind(fid)


def fi_listen(pep: PassiveEndpoint) -> None:
    """:meth:`amoeba.PassiveEndpoint.listen`."""
    pep.listen()


def fi_connect(ep: Endpoint, addr: SocketAddress, param: Buffer | None, paramlen: int) -> None:
    """:meth:`amoeba.ConnectedEndpoint.connect`."""
    _connectable(ep).connect(addr, _param(param, paramlen))


def fi_accept(ep: Endpoint, param: Buffer | None, paramlen: int) -> None:
    """:meth:`amoeba.ConnectedEndpoint.accept`."""
    _connectable(ep).accept(_param(param, paramlen))


def fi_reject(pep: PassiveEndpoint, handle: ConnectionRequest, param: Buffer | None, paramlen: int) -> None:
    """:meth:`amoeba.PassiveEndpoint.reject`."""
    pep.reject(handle, _param(param, paramlen))


def fi_shutdown(ep: Endpoint, flags: int) -> None:
    """:meth:`amoeba.ConnectedEndpoint.shutdown`. Raises FI_EBADFLAGS for flags: both directions end."""
    no_flags(flags, "shutting down")
    _connectable(ep).shutdown()


def fi_setname(fid: PassiveEndpoint, addr: SocketAddress, addrlen: int) -> None:
    """:meth:`amoeba.PassiveEndpoint.setname`. ``addrlen`` is that of the pair, 2, or FI_EINVAL is raised."""
    if addrlen != len(addr):
        raise fabric_error(Errno.FI_EINVAL, f"expected the length of {addr!r}, got {addrlen}")
    fid.setname(addr)


def fi_getname(fid: Endpoint | ScalableEndpoint | PassiveEndpoint) -> bytes | SocketAddress:
    """:meth:`amoeba.Endpoint.getname`, or that of a passive endpoint."""
    return fid.getname()


def fi_getpeer(ep: Endpoint) -> bytes:
    """:meth:`amoeba.ConnectedEndpoint.getpeer`."""
    return _connectable(ep).getpeer()
