"""An entity, as UCX's own tests have it, and waits for it."""

import time
from collections.abc import Callable
from typing import Any

import amoeba.ucp as ucp

ALL_FEATURES = (
    ucp.UCP_FEATURE_TAG
    | ucp.UCP_FEATURE_RMA
    | ucp.UCP_FEATURE_AMO32
    | ucp.UCP_FEATURE_AMO64
    | ucp.UCP_FEATURE_STREAM
    | ucp.UCP_FEATURE_AM
)
PATIENCE = 120.0
"""Seconds that a test waits for simulated NICs."""


def keep(adapter: Any, thing: object) -> None:
    """Let something live until the NIC is closed, which closes it: nothing is left to the garbage collector."""
    vars(adapter).setdefault("kept", []).append(thing)


class Entity:
    """A context with a worker, and an endpoint of it to another entity."""

    def __init__(self, adapter: Any, features: int = ALL_FEATURES, **params: Any) -> None:
        self.adapter = adapter
        self.context = ucp.ucp_init(ucp.ucp_params_t(features=features), adapter=adapter)
        self.worker = ucp.ucp_worker_create(self.context, ucp.ucp_worker_params_t(**params))
        self.ep: Any = None
        keep(adapter, self)

    @property
    def address(self) -> bytes:
        return ucp.ucp_worker_get_address(self.worker)[0]

    def connect(self, other: "Entity", **params: Any) -> Any:
        """An endpoint to another entity, which is :attr:`ep` if it is the first."""
        ep = ucp.ucp_ep_create(self.worker, ucp.ucp_ep_params_t(address=other.address, **params))
        self.ep = self.ep or ep
        return ep

    def progress(self) -> int:
        return ucp.ucp_worker_progress(self.worker)


def wait_for(done: Callable[[], object], *entities: Entity) -> None:
    """Make progress until something is so."""
    deadline = time.monotonic() + PATIENCE
    while not done():
        for entity in entities:
            entity.progress()
        assert time.monotonic() < deadline, "nothing has come of it"


def finish(request: Any, *entities: Entity) -> Any:
    """Make progress until what an ``_nb`` or ``_nbx`` call has returned is over; its status."""
    if request is None:
        return ucp.UcsStatus.UCS_OK
    wait_for(lambda: request.done, *entities)
    return request.code
