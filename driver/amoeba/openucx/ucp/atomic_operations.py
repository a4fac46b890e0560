"""What UCP's atomics are to the NIC: three numberings of the operations, and the descriptors of each kind.

UCX numbers posted, fetching and nbx operations differently, so each has a table. Operands and compare values travel
in the descriptor: they may be changed at once, and a reply may overwrite one of them. SWAP is an atomic write that
fetches.
"""

from typing import TypeAlias

from amoeba_model.descriptors import DescriptorFlags, DescriptorOpcode
from amoeba_model.opcodes import Datatype, Op

from amoeba.core.buffers import address_of
from amoeba.openucx.ucp.constants import ucp_atomic_fetch_op_t, ucp_atomic_op_t, ucp_atomic_post_op_t
from amoeba.openucx.ucp.lanes import Lane
from amoeba.openucx.ucp.memory_operations import operation_request
from amoeba.openucx.ucp.request_params import ReadParam
from amoeba.openucx.ucp.requests import Quiet, Request, post
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


Place: TypeAlias = tuple[int, int, int]
"""A number in a peer's memory: its address, the key, and its size of 4 or 8 bytes."""


def update(lane: Lane, op: int, value: int, place: Place, *, more: bool) -> None:
    """Change a number; nobody hears of it before a flush."""
    _post(lane, Quiet(lane, _UPDATES, place[2]), _ATOMIC, op, value, place, more)


def update_with_request(lane: Lane, op: int, value: int, place: Place, read: ReadParam) -> Request:
    """Change a number; the request is over when it has been."""
    request = operation_request(lane, _UPDATES, place[2], read)
    _post(lane, request, _ATOMIC, op, value, place, read.many)
    return request


def fetch(lane: Lane, op: int, value: int, reply: memoryview, place: Place, read: ReadParam) -> Request:
    """Change a number, and write what it was before to ``reply``, which has as many bytes."""
    result, size = address_of(reply), place[2]
    request = operation_request(lane, _FETCHES, size, read, reply, ((result, size, True),))
    request.result = result
    _post(lane, request, _FETCH_ATOMIC, op, value, place, read.many)
    return request


def compare_and_swap(
    lane: Lane, compare: int, swap: int, reply: memoryview, place: Place, read: ReadParam
) -> Request:
    """Make a number ``swap`` if it is ``compare``, and write what it was before to ``reply``."""
    result, size = address_of(reply), place[2]
    request = operation_request(lane, _FETCHES, size, read, reply, ((result, size, True),))
    request.result, request.compare = result, compare
    _post(lane, request, _COMPARE_ATOMIC, CSWAP, swap, place, read.many)
    return request


def _post(
    lane: Lane, operation: Quiet | Request, opcode: int, op: int, value: int, place: Place, more: bool
) -> None:
    operation.opcode, operation.op, operation.flags = opcode, op, _INLINE
    operation.remote_address, operation.remote_key, size = place
    operation.datatype = _DATATYPES[size]
    operation.local = value
    operation.more = more
    post(lane, operation)
