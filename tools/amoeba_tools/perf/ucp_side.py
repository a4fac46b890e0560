"""One side of a test of UCP: a context with a worker, endpoints to its peers, and memory that they may use."""

from dataclasses import dataclass
from typing import Any

import amoeba.ucp as ucp
import numpy as np
from amoeba.core.buffers import allocate
from amoeba.openucx.ucp.adapter import Adapter
from amoeba.openucx.ucp.status import ucs_error

from amoeba_tools.perf.payloads import Findings, Payloads
from amoeba_tools.perf.plan import PerfPlan
from amoeba_tools.perf.sides import Steps

__all__ = ["RING", "Peer", "UcpSide"]

RING = 512
"""Maximum outstanding memory operations that have completed for their caller at once, whatever the window."""
_COPIED = 64
"""Bytes of the longest put that is over at once."""
_FEATURES = {
    "tag": ucp.UCP_FEATURE_TAG,
    "tag_sync": ucp.UCP_FEATURE_TAG,
    "stream": ucp.UCP_FEATURE_STREAM,
    "am": ucp.UCP_FEATURE_AM,
    "put": ucp.UCP_FEATURE_RMA,
    "get": ucp.UCP_FEATURE_RMA,
}
_ATOMIC_FEATURES = {4: ucp.UCP_FEATURE_AMO32, 8: ucp.UCP_FEATURE_AMO64}
_THREAD_MODES = {
    "single": ucp.UCS_THREAD_MODE_SINGLE,
    "serialized": ucp.UCS_THREAD_MODE_SERIALIZED,
    "multi": ucp.UCS_THREAD_MODE_MULTI,
}


@dataclass(frozen=True)
class Peer:
    """Somebody on the other side."""

    ep: Any
    rkey: Any
    """Key of the exposed memory; None in tests without memory."""
    address: int
    """Address of the exposed memory."""


class UcpSide:
    """One side; :meth:`connect` gives it a peer. Closing it closes everything that it has opened."""

    def __init__(self, adapter: Adapter, plan: PerfPlan, index: int = 0) -> None:
        self.plan, self.index = plan, index
        self.findings = Findings()
        self._closing = False
        self.places = RING if plan.command == "put" and plan.size <= _COPIED else plan.window
        """Messages that lie in memory side by side."""
        self.payloads = Payloads(plan.size, self.places * plan.peers)
        features = _FEATURES.get(plan.command) or _ATOMIC_FEATURES[plan.size]
        self.context = ucp.ucp_init(ucp.ucp_params_t(features=features), adapter=adapter)
        self.worker = ucp.ucp_worker_create(
            self.context, ucp.ucp_worker_params_t(thread_mode=_THREAD_MODES[plan.thread_mode])
        )
        self.memory = allocate(max(plan.size * self.places, 8))
        np.frombuffer(self.memory, np.uint8)[:] = 0
        self._memh: Any = None
        self.peers: list[Peer] = []

    @property
    def one_sided(self) -> bool:
        """Whether the test is about memory."""
        return self.plan.command not in ("tag", "tag_sync", "stream", "am")

    def greeting(self) -> dict[str, Any]:
        """Return the facts that the other side needs, in a form that JSON can carry."""
        told: dict[str, Any] = {"worker": ucp.ucp_worker_get_address(self.worker)[0].hex()}
        if self.one_sided:
            flags = ucp.UCP_MEM_MAP_NONBLOCK if self.plan.nonblocking else None
            params = ucp.ucp_mem_map_params_t(address=self.memory, length=len(self.memory), flags=flags)
            self._memh = ucp.ucp_mem_map(self.context, params)
            told |= {"rkey": ucp.ucp_rkey_pack(self.context, self._memh)[0].hex(), "address": self._memh.address}
        return told

    def connect(self, told: dict[str, Any]) -> None:
        """Open the endpoint to the side with this greeting."""
        mode = ucp.UCP_ERR_HANDLING_MODE_PEER if self.plan.error_handling else ucp.UCP_ERR_HANDLING_MODE_NONE
        params = ucp.ucp_ep_params_t(address=bytes.fromhex(told["worker"]), err_mode=mode)
        ep = ucp.ucp_ep_create(self.worker, params)
        rkey = ucp.ucp_ep_rkey_unpack(ep, bytes.fromhex(told["rkey"])) if self.one_sided else None
        self.peers.append(Peer(ep, rkey, told.get("address", 0)))

    def progress(self) -> int:
        return int(ucp.ucp_worker_progress(self.worker))

    def flushed(self) -> Steps:
        """Wait until everything that was posted is over. Raises what has failed."""
        for request in [ucp.ucp_ep_flush_nbx(peer.ep, None) for peer in self.peers]:
            while request is not None and not ucp.ucp_request_is_completed(request):
                yield
            if request is not None:
                self.check(ucp.ucp_request_check_status(request), "a flush")

    def pieces(self, buffer: Any, layout: str) -> tuple[Any, int, int | None]:
        """(buffer, count, datatype or None for bytes) that mean these bytes in a layout."""
        if layout == "contig":
            return buffer, self.plan.size, None
        view, pieces, begin = memoryview(buffer), [], 0
        for size in self.plan.sizes:
            pieces.append(ucp.ucp_dt_iov_t(view[begin : begin + size], size))
            begin += size
        return pieces, len(pieces), ucp.ucp_dt_make_iov()

    def check(self, status: Any, what: str) -> None:
        """Raise the error of a failed status. Cancellation by a close is no error."""
        if status != ucp.UCS_OK and not self._closing:
            raise ucs_error(status, f"{what} has failed")

    def close(self) -> None:
        self._closing = True
        self.context.close()
