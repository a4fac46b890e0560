"""Endpoints (group ENDPOINT of ucp.h)."""

from amoeba.ucp.addresses import WorkerAddress
from amoeba.ucp.calls.workers import checked_worker
from amoeba.ucp.constants import ucp_ep_params_flags_field
from amoeba.ucp.endpoint import Endpoint
from amoeba.ucp.status import invalid_param, wrong_type
from amoeba.ucp.structures import ucp_ep_params_t
from amoeba.ucp.worker import Worker

__all__ = ["ucp_ep_create"]

_NO_LOOPBACK = ucp_ep_params_flags_field.UCP_EP_PARAMS_FLAGS_NO_LOOPBACK


def checked_endpoint(ep: Endpoint) -> Endpoint:
    """The endpoint, if it is one and open. Raises INVALID_PARAM."""
    if ep.__class__ is not Endpoint and not isinstance(ep, Endpoint):
        raise wrong_type("ep", "an endpoint, as ucp_ep_create() returns it", ep)
    if ep.closed:
        raise invalid_param("ep: this endpoint is closed")
    return ep


def ucp_ep_create(worker: Worker, params: ucp_ep_params_t) -> Endpoint:
    """Make an endpoint to the worker with ``params.address``. Nothing is sent before the first operation."""
    checked_worker(worker)
    taken = ucp_ep_params_t.taken(params)
    if taken.address is None:
        raise invalid_param("params: expected address, got none")
    flags = taken.flags or ucp_ep_params_flags_field(0)
    return worker.connect(WorkerAddress.unpack(taken.address), loopback=not flags & _NO_LOOPBACK)
