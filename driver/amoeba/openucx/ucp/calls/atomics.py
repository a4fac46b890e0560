"""Atomics on 4 and 8 bytes (group COMM-AMO of ucp.h), and the blocking ones of ucp_compat.h.

The peer's NIC executes all atomics, one after the other with those of all other peers and endpoints that reach the
same memory through it. Numbers are unsigned, and wrap.

In all calls ``rkey`` is a key that was unpacked on ``ep``, and ``remote_addr`` a multiple of the number's size. They
raise INVALID_PARAM without UCP_FEATURE_AMO32 or UCP_FEATURE_AMO64, whichever the size needs. Blocking calls raise
INVALID_PARAM inside a callback, and the error of the operation.
"""

import enum
from typing import Any

from amoeba.core.buffers import Buffer, view_of
from amoeba.core.errors import FabricError
from amoeba.openucx.ucp.atomic_operations import (
    CSWAP,
    FETCH_OPS,
    OPS,
    POST_OPS,
    SWAP,
    fetch,
    update,
    update_with_request,
)
from amoeba.openucx.ucp.calls.arguments import U32, U64, checked_target, outside_callbacks
from amoeba.openucx.ucp.calls.blocking import handed_out, until_over
from amoeba.openucx.ucp.constants import ucp_atomic_fetch_op_t, ucp_atomic_op_t, ucp_atomic_post_op_t, ucp_feature
from amoeba.openucx.ucp.datatypes import BYTES, bytes_of, number_in, place_of, ucp_dt_make_contig
from amoeba.openucx.ucp.endpoint import Endpoint
from amoeba.openucx.ucp.kinds import integer
from amoeba.openucx.ucp.remote_key import RemoteKey
from amoeba.openucx.ucp.request_params import DEFAULTS, old_param, read_param
from amoeba.openucx.ucp.requests import Request
from amoeba.openucx.ucp.status import UcsStatus, invalid_param, ucs_error
from amoeba.openucx.ucp.structures import ucp_request_param_t

__all__ = [
    "ucp_atomic_add32",
    "ucp_atomic_add64",
    "ucp_atomic_cswap32",
    "ucp_atomic_cswap64",
    "ucp_atomic_fadd32",
    "ucp_atomic_fadd64",
    "ucp_atomic_fetch_nb",
    "ucp_atomic_op_nbx",
    "ucp_atomic_post",
    "ucp_atomic_swap32",
    "ucp_atomic_swap64",
]

_FEATURES = {4: ucp_feature.UCP_FEATURE_AMO32, 8: ucp_feature.UCP_FEATURE_AMO64}
_SIZES = {ucp_dt_make_contig(size): size for size in _FEATURES}
_LARGEST = {size: (1 << 8 * size) - 1 for size in _FEATURES}
_ADD = POST_OPS[ucp_atomic_post_op_t.UCP_ATOMIC_POST_OP_ADD]
_REPLYING = frozenset((SWAP, CSWAP))
_OK = UcsStatus.UCS_OK
_number = int.from_bytes


def ucp_atomic_post(
    ep: Endpoint, opcode: ucp_atomic_post_op_t, value: int, op_size: int, remote_addr: int, rkey: RemoteKey
) -> UcsStatus:
    """Change a number of 4 or 8 bytes by the lowest ``op_size`` bytes of ``value``.

    ``opcode``: a :class:`ucp_atomic_post_op_t`. Always return UCS_OK; the change is done after a flush (ucp.h, group
    COMM).
    """
    size = op_size if op_size.__class__ is int else integer("op_size", op_size)
    address = _address(ep, size, remote_addr, rkey, "ucp_atomic_post")
    op = POST_OPS.get(opcode) if opcode.__class__ is ucp_atomic_post_op_t else None
    if op is None:
        op = _op_of(opcode, POST_OPS, ucp_atomic_post_op_t)
    if value.__class__ is not int or value >> 64:
        value = U64("value", value)
    update(rkey, op, value & _LARGEST[size], size, address, more=False)
    return _OK


def ucp_atomic_fetch_nb(
    ep: Endpoint,
    opcode: ucp_atomic_fetch_op_t,
    value: int,
    result: Buffer,
    op_size: int,
    remote_addr: int,
    rkey: RemoteKey,
    cb: Any,
) -> Request | None:
    """Change a number of 4 or 8 bytes, and write its former value to the ``op_size`` bytes of ``result``.

    ``opcode``: a :class:`ucp_atomic_fetch_op_t`. ``value``: the operand; CSWAP compares the number with ``value``,
    and replaces an equal number by the content of ``result``. Return a request, which ends when ``result`` is
    written; then ``cb(request, status)`` is called (ucp.h, group COMM).
    """
    read = DEFAULTS if cb is None else old_param(cb)
    size = op_size if op_size.__class__ is int else integer("op_size", op_size)
    address = _address(ep, size, remote_addr, rkey, "ucp_atomic_fetch_nb")
    op = FETCH_OPS.get(opcode) if opcode.__class__ is ucp_atomic_fetch_op_t else None
    if op is None:
        op = _op_of(opcode, FETCH_OPS, ucp_atomic_fetch_op_t)
    if value.__class__ is not int or value >> 64:
        value = U64("value", value)
    value &= _LARGEST[size]
    reply = place_of(result, size)
    if reply is None:
        reply = _bytes(result, size, True, "result")
    if op == CSWAP:
        return handed_out(fetch(rkey, op, _number(reply, "little"), size, address, reply, read, value))
    return handed_out(fetch(rkey, op, value, size, address, reply, read))


def ucp_atomic_op_nbx(
    ep: Endpoint,
    opcode: ucp_atomic_op_t,
    buffer: Buffer,
    count: int,
    remote_addr: int,
    rkey: RemoteKey,
    param: ucp_request_param_t | None = None,
) -> Request | None:
    """Change a number by the one in ``buffer``; with ``param.reply_buffer``, write its former value there.

    ``opcode``: a :class:`ucp_atomic_op_t`. ``param.datatype`` must be ucp_dt_make_contig(4) or (8), and ``count`` 1.
    CSWAP compares the number with ``buffer``, and replaces an equal one by the content of the reply buffer. SWAP and
    CSWAP need a reply buffer.

    Return a request, or None without a reply buffer: ``buffer`` is copied, unless UCP_OP_ATTR_FLAG_NO_IMM_CMPL asks
    for a request. Raises NO_RESOURCE with a reply buffer and UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL (ucp.h, group COMM).
    """
    read = read_param(param)
    size = _SIZES.get(read.datatype)
    if size is None:
        given = "none" if read.datatype == BYTES else f"{read.datatype:#x}"
        raise invalid_param(f"param.datatype: expected ucp_dt_make_contig(4) or (8), got {given}")
    address = _address(ep, size, remote_addr, rkey, "ucp_atomic_op_nbx")
    op = OPS.get(opcode) if opcode.__class__ is ucp_atomic_op_t else None
    if op is None:
        op = _op_of(opcode, OPS, ucp_atomic_op_t)
    if (count.__class__ is not int or count != 1) and U64("count", count) != 1:
        raise invalid_param(f"count: an atomic has 1 element, got {count}")
    value = number_in(buffer, size)
    if value is None:
        value = _number(_bytes(buffer, size, False, "buffer"), "little")
    if read.reply_buffer is not None:
        reply = place_of(read.reply_buffer, size)
        if reply is None:
            reply = _bytes(read.reply_buffer, size, True, "param.reply_buffer")
        if read.forced:
            raise ucs_error(UcsStatus.UCS_ERR_NO_RESOURCE, "an atomic that fetches is not over at once")
        if op == CSWAP:
            return handed_out(fetch(rkey, op, _number(reply, "little"), size, address, reply, read, value))
        return handed_out(fetch(rkey, op, value, size, address, reply, read))
    if op in _REPLYING:
        raise invalid_param("param.reply_buffer: SWAP and CSWAP need one, got none")
    if not read.immediate:
        return handed_out(update_with_request(rkey, op, value, size, address, read))
    update(rkey, op, value, size, address, more=read.many)
    return None


def ucp_atomic_add32(ep: Endpoint, add: int, remote_addr: int, rkey: RemoteKey) -> None:
    """Add to a number of 4 bytes, which has changed after a flush (ucp_compat.h)."""
    _add(ep, U32("add", add), 4, remote_addr, rkey, "ucp_atomic_add32")


def ucp_atomic_add64(ep: Endpoint, add: int, remote_addr: int, rkey: RemoteKey) -> None:
    """Add to a number of 8 bytes, which has changed after a flush (ucp_compat.h)."""
    _add(ep, U64("add", add), 8, remote_addr, rkey, "ucp_atomic_add64")


def ucp_atomic_fadd32(ep: Endpoint, add: int, remote_addr: int, rkey: RemoteKey) -> int:
    """Add to a number of 4 bytes, make progress until its former value has come, and return that (ucp_compat.h)."""
    return _fetched(ep, _ADD, U32("add", add), None, 4, remote_addr, rkey, "ucp_atomic_fadd32")


def ucp_atomic_fadd64(ep: Endpoint, add: int, remote_addr: int, rkey: RemoteKey) -> int:
    """Add to a number of 8 bytes, make progress until its former value has come, and return that (ucp_compat.h)."""
    return _fetched(ep, _ADD, U64("add", add), None, 8, remote_addr, rkey, "ucp_atomic_fadd64")


def ucp_atomic_swap32(ep: Endpoint, swap: int, remote_addr: int, rkey: RemoteKey) -> int:
    """Replace a number of 4 bytes, make progress until its former value has come, and return that (ucp_compat.h)."""
    return _fetched(ep, SWAP, U32("swap", swap), None, 4, remote_addr, rkey, "ucp_atomic_swap32")


def ucp_atomic_swap64(ep: Endpoint, swap: int, remote_addr: int, rkey: RemoteKey) -> int:
    """Replace a number of 8 bytes, make progress until its former value has come, and return that (ucp_compat.h)."""
    return _fetched(ep, SWAP, U64("swap", swap), None, 8, remote_addr, rkey, "ucp_atomic_swap64")


def ucp_atomic_cswap32(ep: Endpoint, compare: int, swap: int, remote_addr: int, rkey: RemoteKey) -> int:
    """Replace a number of 4 bytes equal to ``compare``, make progress, and return its former value (ucp_compat.h)."""
    return _fetched(ep, CSWAP, U32("swap", swap), U32("compare", compare), 4, remote_addr, rkey, "ucp_atomic_cswap32")


def ucp_atomic_cswap64(ep: Endpoint, compare: int, swap: int, remote_addr: int, rkey: RemoteKey) -> int:
    """Replace a number of 8 bytes equal to ``compare``, make progress, and return its former value (ucp_compat.h)."""
    return _fetched(ep, CSWAP, U64("swap", swap), U64("compare", compare), 8, remote_addr, rkey, "ucp_atomic_cswap64")


def _add(ep: Any, value: int, size: int, remote_addr: Any, rkey: Any, what: str) -> None:
    update(rkey, _ADD, value, size, _address(ep, size, remote_addr, rkey, what), more=False)


def _fetched(
    ep: Any, op: int, value: int, compare: int | None, size: int, remote_addr: Any, rkey: Any, what: str
) -> int:
    address = _address(ep, size, remote_addr, rkey, what)
    outside_callbacks(ep)
    reply = memoryview(bytearray(size))
    until_over(fetch(rkey, op, value, size, address, reply, DEFAULTS, compare))
    return _number(reply, "little")


def _address(ep: Any, size: int, remote_addr: Any, rkey: Any, what: str) -> int:
    """Return the address of the number of an atomic after checking endpoint and key."""
    if (
        rkey.__class__ is RemoteKey
        and ((size == 8 and rkey.amo64 is ep) or (size == 4 and rkey.amo32 is ep))
        and ep.failure is None
        and remote_addr.__class__ is int
        and not remote_addr >> 64
        and not remote_addr & size - 1
    ):
        return remote_addr
    feature = _FEATURES.get(size)
    if feature is None:
        raise invalid_param(f"op_size: expected 4 or 8 bytes, got {size}")
    _, address = checked_target(ep, remote_addr, rkey, feature, f"{what} on {size} bytes")
    if address % size:
        raise invalid_param(f"remote_addr: expected a multiple of {size}, got {address:#x}")
    return address


def _bytes(buffer: Buffer, size: int, writable: bool, name: str) -> memoryview:
    """Return the first ``size`` bytes of a buffer; a buffer of exactly that size may have any format."""
    try:
        view = view_of(buffer, writable=writable, name=name)
        if view.nbytes == size:
            return view
    except FabricError:
        pass  # bytes_of says it in its own words
    return bytes_of(buffer, size, writable=writable, name=name)


def _op_of(opcode: Any, table: dict[int, int], kind: type[enum.IntEnum]) -> int:
    """Return the NIC's operation for an opcode that is a plain number. Raises INVALID_PARAM for others."""
    op = table.get(number := integer("opcode", opcode))
    if op is None:
        raise invalid_param(f"opcode: expected a {kind.__name__}, got {number}")
    return op
