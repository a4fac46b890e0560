"""fi_endpoint(3)."""

from typing import Any, TypeAlias

from amoeba.core.errno import Errno
from amoeba.core.errors import fabric_error
from amoeba.libfabric.calls.arguments import no_flags
from amoeba.libfabric.objects.address_vector import AddressVector
from amoeba.libfabric.objects.checks import check_flags
from amoeba.libfabric.objects.constants import BindFlags, OpFlags
from amoeba.libfabric.objects.domain import Domain
from amoeba.libfabric.objects.endpoints.connected import ConnectedEndpoint
from amoeba.libfabric.objects.endpoints.endpoint import Endpoint
from amoeba.libfabric.objects.endpoints.options import HasOptions
from amoeba.libfabric.objects.endpoints.passive import PassiveEndpoint
from amoeba.libfabric.objects.endpoints.scalable import ReceiveContext, ScalableEndpoint, TransmitContext
from amoeba.libfabric.objects.endpoints.shared_context import SharedTransmitContext
from amoeba.libfabric.objects.endpoints.shared_receive import SharedReceiveContext
from amoeba.libfabric.objects.endpoints.transmit import EndpointAlias, Posting
from amoeba.libfabric.objects.queues.completion import CompletionQueue
from amoeba.libfabric.objects.queues.counters import Counter
from amoeba.libfabric.objects.queues.event_queue import EventQueue
from amoeba.libfabric.objects.structures import Info, RxAttr, TxAttr

__all__ = [
    "fi_cancel",
    "fi_enable",
    "fi_endpoint",
    "fi_ep_alias",
    "fi_ep_bind",
    "fi_getopt",
    "fi_rx_context",
    "fi_rx_size_left",
    "fi_scalable_ep",
    "fi_scalable_ep_bind",
    "fi_setopt",
    "fi_srx_context",
    "fi_stx_context",
    "fi_tx_context",
    "fi_tx_size_left",
]

Bindable: TypeAlias = (
    CompletionQueue[Any] | AddressVector | Counter | SharedTransmitContext | SharedReceiveContext | EventQueue
)
_DIRECTIONS = int(BindFlags.FI_TRANSMIT | BindFlags.FI_RECV)


def fi_endpoint(domain: Domain, info: Info) -> Endpoint:
    """:meth:`amoeba.Domain.endpoint`."""
    return domain.endpoint(info)


def fi_scalable_ep(domain: Domain, info: Info) -> ScalableEndpoint:
    """:meth:`amoeba.Domain.scalable_endpoint`."""
    return domain.scalable_endpoint(info)


def fi_tx_context(sep: ScalableEndpoint, index: int, attr: TxAttr | None) -> TransmitContext:
    """:meth:`amoeba.ScalableEndpoint.tx_context`."""
    if attr is None:
        return sep.tx_context(index)
    return sep.tx_context(index, tx_size=attr.size or None, op_flags=attr.op_flags)


def fi_rx_context(sep: ScalableEndpoint, index: int, attr: RxAttr | None) -> ReceiveContext:
    """:meth:`amoeba.ScalableEndpoint.rx_context`."""
    return sep.rx_context(index, rx_size=None if attr is None else attr.size or None)


def fi_stx_context(domain: Domain, attr: TxAttr | None) -> SharedTransmitContext:
    """:meth:`amoeba.Domain.stx_context`."""
    return domain.stx_context(attr or TxAttr())


def fi_srx_context(domain: Domain, attr: RxAttr | None) -> SharedReceiveContext:
    """:meth:`amoeba.Domain.srx_context`."""
    return domain.srx_context(attr or RxAttr())


def fi_ep_bind(
    ep: Endpoint | TransmitContext | ReceiveContext | SharedReceiveContext, fid: Bindable, flags: int
) -> None:
    """:meth:`amoeba.Endpoint.bind`, or that of a context. Raises FI_EINVAL for objects that a context cannot have."""
    if isinstance(ep, SharedReceiveContext):
        raise fabric_error(Errno.FI_EINVAL, f"endpoints are bound to a shared receive context, not it to {fid!r}")
    if isinstance(ep, ReceiveContext) and isinstance(fid, SharedReceiveContext):
        ep.bind(fid, check_flags(BindFlags, flags))
    elif isinstance(ep, TransmitContext | ReceiveContext):
        if not isinstance(fid, CompletionQueue | Counter):
            raise fabric_error(Errno.FI_EINVAL, f"a context is bound to a completion queue or counter, got {fid!r}")
        ep.bind(fid, check_flags(BindFlags, flags))
    elif isinstance(ep, ConnectedEndpoint):
        ep.bind(fid, check_flags(BindFlags, flags))
    elif isinstance(fid, EventQueue):
        raise fabric_error(Errno.FI_EINVAL, f"only FI_EP_MSG is bound to an event queue, this is {ep.ep_type!r}")
    else:
        ep.bind(fid, check_flags(BindFlags, flags))


def fi_scalable_ep_bind(sep: ScalableEndpoint, fid: AddressVector, flags: int) -> None:
    """:meth:`amoeba.ScalableEndpoint.bind`. Raises FI_EBADFLAGS for any flags.

    Other objects, also a shared receive context, are bound to its transmit and receive contexts by
    :func:`fi_ep_bind`.
    """
    no_flags(flags, "binding a vector")
    sep.bind(fid)


def fi_enable(ep: Endpoint | ScalableEndpoint | TransmitContext | ReceiveContext) -> None:
    """:meth:`amoeba.Endpoint.enable`, or that of a scalable endpoint or of a context."""
    ep.enable()


def fi_cancel(ep: Posting | ReceiveContext | SharedReceiveContext, context: Any) -> None:
    """:meth:`amoeba.Endpoint.cancel`, or that of a receive context."""
    ep.cancel(context)


def fi_ep_alias(ep: Posting, flags: int) -> EndpointAlias:
    """:meth:`amoeba.Endpoint.alias`. ``flags``: FI_TRANSMIT and the alias's default flags.

    Raises FI_EBADFLAGS without FI_TRANSMIT: an alias posts no receives.
    """
    return ep.alias(transmit_flags(flags))


def transmit_flags(flags: int) -> OpFlags:
    """Default flags of operations, given with the direction. Raises FI_EBADFLAGS unless that is FI_TRANSMIT."""
    if flags & _DIRECTIONS != BindFlags.FI_TRANSMIT:
        raise fabric_error(Errno.FI_EBADFLAGS, f"expected flags with FI_TRANSMIT, got {flags:#x}")
    return OpFlags(flags & ~_DIRECTIONS)


def fi_getopt(fid: HasOptions | PassiveEndpoint, level: int, optname: int) -> int:
    """:meth:`amoeba.Endpoint.getopt`, or that of a context or of a passive endpoint."""
    return fid.getopt(level, optname)


def fi_setopt(fid: HasOptions, level: int, optname: int, optval: int) -> None:
    """:meth:`amoeba.Endpoint.setopt`, or that of a context."""
    fid.setopt(level, optname, optval)


def fi_rx_size_left(ep: Endpoint | ReceiveContext | SharedReceiveContext) -> int:
    """:attr:`amoeba.Endpoint.rx_size_left`."""
    return ep.rx_size_left


def fi_tx_size_left(ep: Posting) -> int:
    """:attr:`amoeba.Endpoint.tx_size_left`."""
    return ep.tx_size_left
