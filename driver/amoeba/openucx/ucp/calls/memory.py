"""Mapped memory and remote keys (group MEM of ucp.h)."""

import sys
from typing import Any, TextIO

from amoeba.core.buffers import address_of, view_of
from amoeba.openucx.ucp.calls.arguments import U64, checked_endpoint, checked_key
from amoeba.openucx.ucp.calls.contexts import checked_context
from amoeba.openucx.ucp.constants import ucp_mem_map_flags, ucs_memory_type_t
from amoeba.openucx.ucp.context import Context
from amoeba.openucx.ucp.endpoint import Endpoint
from amoeba.openucx.ucp.kinds import text
from amoeba.openucx.ucp.memory import Memory, mapping, memory_size
from amoeba.openucx.ucp.remote_key import RemoteKey, checked_key_buffer
from amoeba.openucx.ucp.status import invalid_param, wrong_type
from amoeba.openucx.ucp.structures import ucp_mem_advise_params_t, ucp_mem_attr_t, ucp_mem_map_params_t

__all__ = [
    "ucp_ep_rkey_unpack",
    "ucp_mem_advise",
    "ucp_mem_map",
    "ucp_mem_print_info",
    "ucp_mem_query",
    "ucp_mem_unmap",
    "ucp_rkey_buffer_release",
    "ucp_rkey_destroy",
    "ucp_rkey_pack",
    "ucp_rkey_ptr",
]


def checked_memory(context: Any, memh: Any) -> Memory:
    """Return the memory if it is mapped in this context. Raises INVALID_PARAM."""
    memory = _mapped(memh)
    if memory.context is not checked_context(context):
        raise invalid_param(f"memh: {memory!r} is mapped in another context")
    return memory


def _mapped(memh: Any) -> Memory:
    if not isinstance(memh, Memory):
        raise wrong_type("memh", "mapped memory, as ucp_mem_map() returns it", memh)
    memh._check_open()
    return memh


def ucp_mem_map(context: Context, params: ucp_mem_map_params_t) -> Memory:
    """Register memory, or allocate some; ``view`` of the result has its bytes.

    ========================  ========  =====  ===============================================
    address                   ALLOCATE  FIXED  result
    ========================  ========  =====  ===============================================
    None                      no        any    INVALID_PARAM
    None                      yes       no     allocated, in whole pages
    None                      yes       yes    INVALID_PARAM
    a buffer, or an address   no        no     registered: its first ``length`` bytes, exactly
    a buffer, or an address   no        yes    INVALID_PARAM
    a buffer, or an address   yes       no     allocated, there if that is free
    a buffer, or an address   yes       yes    allocated there; INVALID_PARAM if that is no
                                               page, NO_MEMORY if it is used
    ========================  ========  =====  ===============================================

    With a length of 0 nothing can be reached, and the other fields do not matter; without a length the call raises
    INVALID_PARAM. NONBLOCK changes nothing: pages are touched when they are used. ``prot`` without REMOTE_READ or
    REMOTE_WRITE keeps peers from the memory. A read-only buffer is INVALID_PARAM with LOCAL_WRITE or REMOTE_WRITE,
    which are part of the default.

    Raises NO_RESOURCE if the NIC's key table is full (ucp.h, group MEM).
    """
    checked_context(context)
    return mapping(context, ucp_mem_map_params_t.taken(params))


def ucp_mem_unmap(context: Context, memh: Memory) -> None:
    """Unmap memory: the NIC refuses peers' operations from now on, outstanding ones included.

    When the call returns, the NIC touches the memory no more on behalf of peers. Allocated memory stays as long as a
    view of it exists (ucp.h, group MEM). Raises TIMED_OUT if the NIC does not end accepted operations within 10
    seconds: the memory stays mapped then.
    """
    checked_memory(context, memh).close()


def ucp_mem_query(memh: Memory, attr: ucp_mem_attr_t) -> ucp_mem_attr_t:
    """Fill ``attr`` with the fields of its mask, without a mask with all, and return it (ucp.h, group MEM)."""
    attr = ucp_mem_attr_t.expected(attr)
    memory = _mapped(memh)
    return attr.fill(address=memory.address, length=memory.length, mem_type=ucs_memory_type_t.UCS_MEMORY_TYPE_HOST)


def ucp_mem_print_info(mem_size: str, context: Context, stream: TextIO | None = None) -> None:
    """Allocate ``mem_size`` ("64", "4K", "1MB"), print it to ``stream``, and free it (ucp.h, group CONTEXT)."""
    length = memory_size(text("mem_size", mem_size))
    params = ucp_mem_map_params_t(length=length, flags=ucp_mem_map_flags.UCP_MEM_MAP_ALLOCATE)
    with mapping(checked_context(context), params) as memory:
        print(memory.describe(), file=sys.stdout if stream is None else stream)


def ucp_mem_advise(context: Context, memh: Memory, params: ucp_mem_advise_params_t) -> None:
    """Check advice on the use of a part of mapped memory, which the NIC does not need (ucp.h, group MEM)."""
    memory = checked_memory(context, memh)
    taken = ucp_mem_advise_params_t.taken(params)
    if taken.address is None or taken.length is None or taken.advice is None:
        raise invalid_param("params: expected address, length and advice, got not all of them")
    given = taken.address
    start = given if isinstance(given, int) else address_of(view_of(given))
    if not memory.contains(start, taken.length):
        raise invalid_param(f"params: {taken.length} bytes at {start:#x} are not all in {memory!r}")


def ucp_rkey_pack(context: Context, memh: Memory) -> tuple[bytes, int]:
    """Return (the packed key of mapped memory, its length) for peers (ucp.h, group MEM)."""
    packed = checked_memory(context, memh).pack()
    return packed, len(packed)


def ucp_rkey_buffer_release(rkey_buffer: bytes) -> None:
    """Check the buffer of a packed key, which Python frees (ucp.h, group MEM)."""
    checked_key_buffer(rkey_buffer)


def ucp_ep_rkey_unpack(ep: Endpoint, rkey_buffer: bytes) -> RemoteKey:
    """Unpack a peer's key for operations on this endpoint alone (ucp.h, group MEM).

    Raises INVALID_PARAM for anything but the bytes of a packed key.
    """
    return RemoteKey.unpacked(checked_endpoint(ep), rkey_buffer)


def ucp_rkey_ptr(rkey: RemoteKey, raddr: int) -> memoryview:
    """Return a peer's memory from ``raddr`` to its end, if it is memory of this process.

    The view is read-only if peers may not write the memory. Raises UNREACHABLE if it is another process's, unmapped,
    or not readable by peers, INVALID_ADDR for an address outside it (ucp.h, group MEM).
    """
    return checked_key(rkey).view(U64("raddr", raddr))


def ucp_rkey_destroy(rkey: RemoteKey) -> None:
    """Destroy a key. Outstanding operations with the key go on (ucp.h, group MEM)."""
    checked_key(rkey).close()
