"""A memheap, as UCX's tests of memory have it: mapped memory of one entity, and its key on an endpoint of another."""

import itertools
from dataclasses import dataclass
from typing import Any

import amoeba.ucp as ucp
import numpy as np
import numpy.typing as npt

from tests.driver.openucx.ucp.entities import Entity, finish, keep

KINDS = {
    "registered": {},
    "allocated": {"flags": ucp.UCP_MEM_MAP_ALLOCATE},
    "registered lazily": {"flags": ucp.UCP_MEM_MAP_NONBLOCK},
    "allocated lazily": {"flags": ucp.UCP_MEM_MAP_ALLOCATE | ucp.UCP_MEM_MAP_NONBLOCK},
}
_GUARD = 0xA5


@dataclass
class Memheap:
    """``bytes`` is what the owner sees, ``rkey`` and ``address`` are what the other side uses."""

    memh: Any
    rkey: Any
    bytes: npt.NDArray[np.uint8]
    address: int


def memheap(owner: Entity, user: Entity, size: int, *, ep: Any = None, **params: Any) -> Memheap:
    """Map ``size`` bytes, full of guards, at ``owner``; ``params`` as of ucp_mem_map."""
    if not params.get("flags", 0) & ucp.UCP_MEM_MAP_ALLOCATE:
        params.setdefault("address", np.empty(size, np.uint8))
    memh = ucp.ucp_mem_map(owner.context, ucp.ucp_mem_map_params_t(length=size, **params))
    found = ucp.ucp_mem_query(memh, ucp.ucp_mem_attr_t())
    keep(owner.adapter, memh)
    packed, length = ucp.ucp_rkey_pack(owner.context, memh)
    assert length == len(packed)
    rkey = ucp.ucp_ep_rkey_unpack(ep or user.ep, packed)
    keep(user.adapter, rkey)
    ucp.ucp_rkey_buffer_release(packed)
    seen = np.frombuffer(memh.view, np.uint8)[:size] if size else np.zeros(0, np.uint8)
    if size and not seen.flags.writeable:
        return Memheap(memh, rkey, seen, found.address)
    seen[:] = _GUARD
    return Memheap(memh, rkey, seen, found.address)


def guards(heap: Memheap, start: int, end: int) -> bool:
    """Whether everything but [start, end) is as it was."""
    return bool((heap.bytes[:start] == _GUARD).all() and (heap.bytes[end:] == _GUARD).all())


def flush(user: Entity, by: str) -> Any:
    """Flush by endpoint or by worker; the status."""
    if by == "endpoint":
        return finish(ucp.ucp_ep_flush_nbx(user.ep), user)
    return finish(ucp.ucp_worker_flush_nbx(user.worker), user)


_seeds = itertools.count()


def noise(size: int) -> npt.NDArray[np.uint8]:
    """Other bytes with every call, the same in every run."""
    return np.random.default_rng(next(_seeds)).integers(0, 256, size, np.uint8)
