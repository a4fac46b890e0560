"""What UCP's atomics are to the NIC: three numberings of the operations, and the descriptors of each kind.

UCX numbers posted, fetching and nbx operations differently, so each has a table. Operands and compare values travel
in the descriptor: they may be changed at once, and a reply may overwrite one of them. SWAP is an atomic write that
fetches.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from amoeba_model.descriptors import DescriptorFlags, DescriptorOpcode
from amoeba_model.opcodes import Datatype, Op

from amoeba.core.buffers import address_of
from amoeba.openucx.ucp.constants import ucp_atomic_fetch_op_t, ucp_atomic_op_t, ucp_atomic_post_op_t
from amoeba.openucx.ucp.lanes import Lane
from amoeba.openucx.ucp.memory_operations import operation_request, post
from amoeba.openucx.ucp.request_params import ReadParam
from amoeba.openucx.ucp.requests import Quiet, Request
from amoeba.transport.requests import Kind

__all__ = [
    "CSWAP",
    "FETCH_OPS",
    "OPS",
    "POST_OPS",
    "SWAP",
    "Place",
    "compare_and_swap",
    "fetch",
    "fetch_into",
    "update",
    "update_with_request",
]

_ATOMIC = int(DescriptorOpcode.ATOMIC)
_FETCH_ATOMIC = int(DescriptorOpcode.FETCH_ATOMIC)
_COMPARE_ATOMIC = int(DescriptorOpcode.COMPARE_ATOMIC)
_INLINE = int(DescriptorFlags.INLINE)
_UPDATES = int(Kind.ATOMIC)
_FETCHES = int(Kind.FETCH_ATOMIC)

SWAP = int(Op.FI_ATOMIC_WRITE)
CSWAP = int(Op.FI_CSWAP)
_ADD, _AND, _OR, _XOR = int(Op.FI_SUM), int(Op.FI_BAND), int(Op.FI_BOR), int(Op.FI_BXOR)
POST_OPS: dict[int, int] = {
    ucp_atomic_post_op_t.UCP_ATOMIC_POST_OP_ADD: _ADD,
    ucp_atomic_post_op_t.UCP_ATOMIC_POST_OP_AND: _AND,
    ucp_atomic_post_op_t.UCP_ATOMIC_POST_OP_OR: _OR,
    ucp_atomic_post_op_t.UCP_ATOMIC_POST_OP_XOR: _XOR,
}
"""The NIC's operation by what ucp_atomic_post is given."""
FETCH_OPS: dict[int, int] = {
    ucp_atomic_fetch_op_t.UCP_ATOMIC_FETCH_OP_FADD: _ADD,
    ucp_atomic_fetch_op_t.UCP_ATOMIC_FETCH_OP_SWAP: SWAP,
    ucp_atomic_fetch_op_t.UCP_ATOMIC_FETCH_OP_CSWAP: CSWAP,
    ucp_atomic_fetch_op_t.UCP_ATOMIC_FETCH_OP_FAND: _AND,
    ucp_atomic_fetch_op_t.UCP_ATOMIC_FETCH_OP_FOR: _OR,
    ucp_atomic_fetch_op_t.UCP_ATOMIC_FETCH_OP_FXOR: _XOR,
}
"""The same of ucp_atomic_fetch_nb."""
OPS: dict[int, int] = {
    ucp_atomic_op_t.UCP_ATOMIC_OP_ADD: _ADD,
    ucp_atomic_op_t.UCP_ATOMIC_OP_SWAP: SWAP,
    ucp_atomic_op_t.UCP_ATOMIC_OP_CSWAP: CSWAP,
    ucp_atomic_op_t.UCP_ATOMIC_OP_AND: _AND,
    ucp_atomic_op_t.UCP_ATOMIC_OP_OR: _OR,
    ucp_atomic_op_t.UCP_ATOMIC_OP_XOR: _XOR,
}
"""The same of ucp_atomic_op_nbx."""
_DATATYPES = {4: int(Datatype.FI_UINT32), 8: int(Datatype.FI_UINT64)}
"""By bytes."""


class Place(NamedTuple):
    """A number in a peer's memory."""

    address: int
    key: int
    size: int
    """4 or 8 bytes."""


def update(lane: Lane, op: int, value: int, size: int, address: int, key: int, more: bool) -> None:
    """Change a number; nobody hears of it before a flush."""
    changed = Quiet(lane, _UPDATES, size)
    entry = lane.entry_now()
    if entry is None:
        post(lane, changed, more, _ATOMIC, _INLINE, op, _DATATYPES[size], size, address, key, value, 0, 0)
    else:
        lane.rings.post(
            changed, more, entry, _ATOMIC, _INLINE, op, _DATATYPES[size], size, address, key, value, 0, 0
        )
        lane.posted += 1


def update_with_request(lane: Lane, op: int, value: int, place: Place, read: ReadParam) -> Request:
    """Change a number; the request is over when it has been."""
    address, key, size = place
    request = operation_request(lane, _UPDATES, size, read)
    post(lane, request, read.many, _ATOMIC, _INLINE, op, _DATATYPES[size], size, address, key, value, 0, 0)
    return request


def fetch(lane: Lane, op: int, value: int, reply: memoryview, place: Place, read: ReadParam) -> Request:
    """Change a number, and write what it was before to ``reply``, which has as many bytes."""
    address, key, size = place
    result = address_of(reply)
    request = operation_request(lane, _FETCHES, size, read, reply, ((result, size, True),))
    post(lane, request, read.many, _FETCH_ATOMIC, _INLINE, op, _DATATYPES[size], size, address, key, value, result, 0)
    return request


def fetch_into(
    lane: Lane,
    op: int,
    value: int,
    reply: memoryview,
    at: int,
    size: int,
    address: int,
    key: int,
    more: bool,
    callback: Callable[..., Any] | None,
    user_data: Any,
) -> Request | None:
    """:func:`fetch`, in few steps. ``at``: the address of ``reply``. Returns what the call returns."""
    worker = lane.worker
    request = Request(worker, lane, _FETCHES, size, reply, ((at, size, True),), callback, user_data)
    entry = lane.entry_now()
    if entry is None:
        post(
            lane, request, more, _FETCH_ATOMIC, _INLINE, op, _DATATYPES[size], size, address, key, value, at, 0
        )
    else:
        lane.rings.post(
            request, more, entry, _FETCH_ATOMIC, _INLINE, op, _DATATYPES[size], size, address, key, value, at, 0
        )
        lane.posted += 1
    return request if worker.request_pool is None else request.answer(immediate=False)


def compare_and_swap(
    lane: Lane, compare: int, swap: int, reply: memoryview, place: Place, read: ReadParam
) -> Request:
    """Make a number ``swap`` if it is ``compare``, and write what it was before to ``reply``."""
    address, key, size = place
    result = address_of(reply)
    request = operation_request(lane, _FETCHES, size, read, reply, ((result, size, True),))
    post(
        lane, request, read.many, _COMPARE_ATOMIC, _INLINE, CSWAP, _DATATYPES[size], size, address, key, swap, result,
        compare,
    )  # fmt: skip
    return request
