"""Descriptors of UCP's atomics: the NIC's number of each operation, and the fields of each kind.

UCX numbers posted, fetching and nbx operations differently, so each has a table. Operands and compare values travel
in the descriptor: they may be changed at once, and a reply may overwrite one of them. SWAP is an atomic write that
fetches.
"""

from ctypes import addressof, c_char
from typing import Any

from amoeba_model.descriptors import DescriptorFlags, DescriptorOpcode
from amoeba_model.opcodes import Datatype, Op

from amoeba.openucx.ucp.constants import ucp_atomic_fetch_op_t, ucp_atomic_op_t, ucp_atomic_post_op_t
from amoeba.openucx.ucp.memory_operations import operation_request
from amoeba.openucx.ucp.remote_key import RemoteKey
from amoeba.openucx.ucp.request_params import ReadParam
from amoeba.openucx.ucp.requests import Request, number_operation
from amoeba.transport.requests import Kind

__all__ = [
    "CSWAP",
    "FETCH_OPS",
    "OPS",
    "POST_OPS",
    "SWAP",
    "fetch",
    "update",
    "update_with_request",
]

_in_memory = c_char.from_buffer
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
"""The NIC's operation for an opcode of ucp_atomic_post."""
FETCH_OPS: dict[int, int] = {
    ucp_atomic_fetch_op_t.UCP_ATOMIC_FETCH_OP_FADD: _ADD,
    ucp_atomic_fetch_op_t.UCP_ATOMIC_FETCH_OP_SWAP: SWAP,
    ucp_atomic_fetch_op_t.UCP_ATOMIC_FETCH_OP_CSWAP: CSWAP,
    ucp_atomic_fetch_op_t.UCP_ATOMIC_FETCH_OP_FAND: _AND,
    ucp_atomic_fetch_op_t.UCP_ATOMIC_FETCH_OP_FOR: _OR,
    ucp_atomic_fetch_op_t.UCP_ATOMIC_FETCH_OP_FXOR: _XOR,
}
"""The NIC's operation for an opcode of ucp_atomic_fetch_nb."""
OPS: dict[int, int] = {
    ucp_atomic_op_t.UCP_ATOMIC_OP_ADD: _ADD,
    ucp_atomic_op_t.UCP_ATOMIC_OP_SWAP: SWAP,
    ucp_atomic_op_t.UCP_ATOMIC_OP_CSWAP: CSWAP,
    ucp_atomic_op_t.UCP_ATOMIC_OP_AND: _AND,
    ucp_atomic_op_t.UCP_ATOMIC_OP_OR: _OR,
    ucp_atomic_op_t.UCP_ATOMIC_OP_XOR: _XOR,
}
"""The NIC's operation for an opcode of ucp_atomic_op_nbx."""
_DATATYPES = {4: int(Datatype.FI_UINT32), 8: int(Datatype.FI_UINT64)}
"""NIC datatypes by bytes."""


def update(key: RemoteKey, op: int, value: int, size: int, address: int, *, more: bool) -> None:
    """Change a peer's number of 4 or 8 bytes without a request; a flush tells when the change is done."""
    lane = key.lane
    changed = number_operation(lane, _UPDATES, _ATOMIC, size, value, op, _DATATYPES[size])
    changed.remote_address, changed.remote_key, changed.more = address, key.key, more
    lane.post(changed)


def update_with_request(key: RemoteKey, op: int, value: int, size: int, address: int, read: ReadParam) -> Request:
    """Change a number as :func:`update` does, with a request that ends when the number has changed."""
    request = operation_request(key.lane, _UPDATES, _ATOMIC, size, read, address, key.key)
    request.op, request.datatype = op, _DATATYPES[size]
    request.flags, request.local = _INLINE, value
    key.lane.post(request)
    return request


def fetch(
    key: RemoteKey,
    op: int,
    value: int,
    size: int,
    address: int,
    reply: Any,
    read: ReadParam,
    compare: int | None = None,
) -> Request:
    """Change a number, and write its former value to ``reply``, a buffer of as many bytes.

    ``compare`` belongs to CSWAP: the number becomes ``value`` only if it equals ``compare``.
    """
    lane = key.lane
    at = addressof(_in_memory(reply))
    request = operation_request(lane, _FETCHES, _FETCH_ATOMIC, size, read, address, key.key)
    request.op, request.datatype = op, _DATATYPES[size]
    request.flags, request.local = _INLINE, value
    request.buffers, request.result = reply, at
    request.grants = ((at, size, True),)
    if compare is not None:
        request.opcode, request.op, request.compare = _COMPARE_ATOMIC, CSWAP, compare
    lane.post(request)
    return request
