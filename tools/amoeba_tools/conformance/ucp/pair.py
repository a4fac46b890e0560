"""Two workers on two NICs, connected both ways, for the checks of UCP."""

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import amoeba.ucp as ucp
from amoeba.nic.nic import Retransmission
from amoeba.openucx.ucp.adapter import Adapter, Adapters, open_adapters
from amoeba_model.impairments import PERFECT, Impairments
from amoeba_model.switch import Switch

from amoeba_tools.conformance.expectations import expect_equal

__all__ = ["ALL_FEATURES", "Entity", "Pair", "Region", "open_pair"]

ALL_FEATURES = (
    ucp.UCP_FEATURE_TAG
    | ucp.UCP_FEATURE_RMA
    | ucp.UCP_FEATURE_AMO32
    | ucp.UCP_FEATURE_AMO64
    | ucp.UCP_FEATURE_STREAM
    | ucp.UCP_FEATURE_AM
)
PATIENCE = 60.0
"""Seconds after which a check gives up what does not come."""
_QUIET = 12
"""Consecutive polls of all workers without progress after which no operation is in flight."""
_ALL = 2**64 - 1
T = TypeVar("T")


class Entity:
    """A context with a worker on one NIC, and its first endpoint."""

    def __init__(self, adapter: Adapter, features: int = ALL_FEATURES, **params: Any) -> None:
        self.adapter = adapter
        self.context = ucp.ucp_init(ucp.ucp_params_t(features=ucp.ucp_feature(features)), adapter=adapter)
        self.worker = ucp.ucp_worker_create(self.context, ucp.ucp_worker_params_t(**params))
        self.ep: Any = None

    @property
    def address(self) -> bytes:
        return ucp.ucp_worker_get_address(self.worker)[0]

    def connect(self, other: "Entity", **params: Any) -> Any:
        """Make an endpoint to another; it is :attr:`ep` if it is the first."""
        ep = ucp.ucp_ep_create(self.worker, ucp.ucp_ep_params_t(address=other.address, **params))
        self.ep = self.ep or ep
        return ep

    def progress(self) -> int:
        return ucp.ucp_worker_progress(self.worker)

    def close(self) -> None:
        """Close all of it; nothing if the check has done so."""
        if not self.context.closed:
            ucp.ucp_cleanup(self.context)


@dataclass
class Region:
    """Memory mapped at one entity, and its key at the other."""

    memh: Any
    rkey: Any
    address: int
    view: memoryview
    """The memory's bytes, as the owner sees them."""


class Pair:
    """``near`` and ``far``: two entities, connected both ways, which checks share."""

    offers: frozenset[str] = frozenset()
    """UCP's checks need nothing that there may not be."""

    def __init__(self, adapters: Adapters, *, patience: float = PATIENCE) -> None:
        self.adapters = adapters
        self.patience = patience
        self._opened = contextlib.ExitStack()
        self._live: list[Entity] = []
        self.near, self.far = Entity(adapters[0]), Entity(adapters[1])
        self._live += [self.near, self.far]
        self.near.connect(self.far)
        self.far.connect(self.near)

    @property
    def devices(self) -> tuple[str, ...]:
        """Names of the two devices."""
        return tuple(nic.device.name for nic in self.adapters.nics)

    # What a check opens

    @contextlib.contextmanager
    def check(self) -> Iterator[None]:
        """Close all objects that the block opens."""
        shared = list(self._live)
        try:
            with contextlib.ExitStack() as self._opened:
                yield
        finally:
            self._live = shared

    def keep(self, close: Callable[[], object]) -> None:
        """Call this when the check is over."""
        self._opened.callback(close)

    def entity(self, side: int = 0, features: int = ALL_FEATURES, **params: Any) -> Entity:
        """Open another context and worker, on the NIC of ``near`` (0) or of ``far`` (1)."""
        entity = Entity(self.adapters[side], features, **params)
        self._live.append(entity)
        self.keep(entity.close)
        return entity

    def couple(self, features: int = ALL_FEATURES, **params: Any) -> tuple[Entity, Entity]:
        """Open two more entities, one on each NIC, connected both ways; ``params`` are those of their endpoints."""
        near, far = self.entity(0, features), self.entity(1, features)
        near.connect(far, **params)
        far.connect(near, **params)
        return near, far

    def memory(
        self, content: bytes | int = 64, *, ep: Any = None, owner: Entity | None = None, **params: Any
    ) -> Region:
        """Memory at ``far`` with these bytes, or so many zeros, and its key on an endpoint of ``near``."""
        owner = self.far if owner is None else owner
        held = bytearray(content)
        memh = ucp.ucp_mem_map(owner.context, ucp.ucp_mem_map_params_t(address=held, length=len(held), **params))
        self.keep(lambda: None if memh.closed else ucp.ucp_mem_unmap(owner.context, memh))
        rkey = ucp.ucp_ep_rkey_unpack(self.near.ep if ep is None else ep, ucp.ucp_rkey_pack(owner.context, memh)[0])
        self.keep(lambda: None if rkey.closed else ucp.ucp_rkey_destroy(rkey))
        address = ucp.ucp_mem_query(memh, ucp.ucp_mem_attr_t()).address
        assert address is not None
        return Region(memh, rkey, address, memoryview(held))

    # Waiting

    def progress(self) -> int:
        """Make progress on all workers, once."""
        return sum(entity.progress() for entity in self._live if not entity.worker.closed)

    def wait(self, done: Callable[[], object], what: str) -> None:
        """Make progress until something is so. Raises TimeoutError, which says what has not come, after a while."""
        deadline = time.monotonic() + self.patience
        while not done():
            self.progress()
            if time.monotonic() > deadline:
                raise TimeoutError(f"after {self.patience} s there is still not {what}")

    def finish(self, request: Any) -> ucp.UcsStatus:
        """Make progress until what a call returned is over; its status. The request is freed."""
        if request is None:
            return ucp.UcsStatus.UCS_OK
        self.wait(lambda: request.done, f"an end of {request!r}")
        status = ucp.ucp_request_check_status(request)
        ucp.ucp_request_free(request)
        return status

    def settle(self) -> None:
        """Make progress until no operation is outstanding. Raises TimeoutError after a while."""
        quiet, deadline = 0, time.monotonic() + self.patience
        while quiet < _QUIET:
            quiet = 0 if self.progress() else quiet + 1
            if time.monotonic() > deadline:
                raise TimeoutError(f"after {self.patience} s there is still progress")

    # Afterwards

    def probe(self) -> None:
        """See that the pair still works, and that no check has left anything: CheckFailedError otherwise."""
        for name, entity in (("near", self.near), ("far", self.far)):
            found = ucp.ucp_tag_probe_nb(entity.worker, 0, 0, 0)
            expect_equal(f"tagged messages left at {name}", found, (None, None))
            expect_equal(f"data left in the stream of {name}", ucp.ucp_stream_recv_data_nb(entity.ep), None)
        buffer, info = bytearray(8), ucp.ucp_tag_recv_info_t()
        receive = ucp.ucp_tag_recv_nbx(
            self.far.worker, buffer, 8, 0xCAFE, _ALL, ucp.ucp_request_param_t(recv_info=info)
        )
        sent = ucp.ucp_tag_send_nbx(self.near.ep, b"usable?!", 8, 0xCAFE, None)
        expect_equal("sending afterwards", self.finish(sent), ucp.UCS_OK)
        expect_equal("receiving afterwards", self.finish(receive), ucp.UCS_OK)
        expect_equal("what arrives afterwards", bytes(buffer), b"usable?!")
        expect_equal("flushing afterwards", self.finish(ucp.ucp_worker_flush_nbx(self.near.worker)), ucp.UCS_OK)


@contextlib.contextmanager
def open_pair(
    kinds: Sequence[str] = ("model", "model"),
    *,
    impairments: Impairments = PERFECT,
    retransmission: Retransmission | None = None,
    patience: float = PATIENCE,
    rtl_options: Mapping[str, Any] | None = None,
    switch: Switch | None = None,
) -> Iterator[Pair]:
    """Open two simulated NICs with a worker each, with the arguments of :func:`amoeba.ucp.open_adapters`.

    Raises the errors of that function, and ValueError unless there are two kinds.
    """
    if len(kinds) != 2:
        raise ValueError(f"a pair is two NICs, got {kinds}")
    with open_adapters(
        kinds, impairments=impairments, retransmission=retransmission, rtl_options=rtl_options, switch=switch
    ) as adapters:
        yield Pair(adapters, patience=patience)
