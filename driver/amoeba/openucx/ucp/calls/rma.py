"""Put and get (group COMM-RMA of ucp.h), and the blocking ones of ucp_compat.h.

A put of up to 64 bytes is copied, and over for the caller at once. Every other operation is over when the peer's
memory has been changed, or its contents are here.

In all calls ``rkey`` is a key that was unpacked on ``ep``, and ``remote_addr`` an address in the memory of the key.
``buffer`` has at least the bytes of the operation; for gets it is writable. The calls raise INVALID_PARAM without
UCP_FEATURE_RMA. Blocking calls raise INVALID_PARAM inside a callback, and the error of the operation.
"""

from typing import Any

from amoeba.core.buffers import Buffer
from amoeba.openucx.ucp.calls.arguments import U64, checked_target, outside_callbacks
from amoeba.openucx.ucp.calls.blocking import handed_out, until_over
from amoeba.openucx.ucp.constants import ucp_dt_type, ucp_feature
from amoeba.openucx.ucp.datatypes import BYTES, bytes_of, destination, number_in, place_of, source
from amoeba.openucx.ucp.endpoint import Endpoint
from amoeba.openucx.ucp.memory_operations import MAX_BYTES, get, put, put_number
from amoeba.openucx.ucp.remote_key import RemoteKey
from amoeba.openucx.ucp.request_params import DEFAULTS, ReadParam, old_param, read_param
from amoeba.openucx.ucp.requests import Request
from amoeba.openucx.ucp.status import UcsStatus, ucs_error
from amoeba.openucx.ucp.structures import ucp_request_param_t
from amoeba.transport.posting import INLINE_SIZE
from amoeba.transport.rings import INJECT_SIZE

__all__ = [
    "ucp_get",
    "ucp_get_nb",
    "ucp_get_nbi",
    "ucp_get_nbx",
    "ucp_put",
    "ucp_put_nb",
    "ucp_put_nbi",
    "ucp_put_nbx",
]

_RMA = ucp_feature.UCP_FEATURE_RMA
_CLASS = int(ucp_dt_type.UCP_DATATYPE_CLASS_MASK)
_GENERIC = int(ucp_dt_type.UCP_DATATYPE_GENERIC)
_OK = UcsStatus.UCS_OK
_IN_PROGRESS = UcsStatus.UCS_INPROGRESS


def ucp_put_nbi(ep: Endpoint, buffer: Buffer, length: int, remote_addr: int, rkey: RemoteKey) -> UcsStatus:
    """Write ``length`` bytes without a request (ucp.h, group COMM).

    Return UCS_OK if ``buffer`` may be changed now, UCS_INPROGRESS if only after a flush.
    """
    key, address = _target(ep, remote_addr, rkey, "ucp_put_nbi")
    number = number_in(buffer, length) if length.__class__ is int and 0 < length <= INLINE_SIZE else None
    if number is not None:
        put_number(key.lane, number, length, address, key.key, False)
        return _OK
    view = bytes_of(buffer, U64("length", length))
    put(key.lane, (view,), address, key.key, DEFAULTS, quiet=True)
    return _OK if view.nbytes <= INJECT_SIZE else _IN_PROGRESS


def ucp_put_nb(
    ep: Endpoint, buffer: Buffer, length: int, remote_addr: int, rkey: RemoteKey, cb: Any
) -> Request | None:
    """Write ``length`` bytes (ucp.h, group COMM).

    Return None if ``buffer`` may be changed now, else a request; at its end ``cb(request, status)`` is called.
    """
    return handed_out(_put(ep, buffer, length, remote_addr, rkey, old_param(cb), "ucp_put_nb"))


def ucp_put_nbx(
    ep: Endpoint,
    buffer: Any,
    count: int,
    remote_addr: int,
    rkey: RemoteKey,
    param: ucp_request_param_t | None = None,
) -> Request | None:
    """Write ``count`` elements of ``param.datatype``, which is contiguous or IOV (ucp.h, group COMM).

    Return None if ``buffer`` may be changed now, else a request. Raises UNSUPPORTED for a generic datatype, and
    NO_RESOURCE with UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL if the put takes longer.
    """
    read = DEFAULTS if param is None else read_param(param)
    return handed_out(_put(ep, buffer, count, remote_addr, rkey, read, "ucp_put_nbx"))


def ucp_get_nbi(ep: Endpoint, buffer: Buffer, length: int, remote_addr: int, rkey: RemoteKey) -> UcsStatus:
    """Read ``length`` bytes without a request; ``buffer`` has them after a flush (ucp.h, group COMM).

    Return UCS_INPROGRESS, or UCS_OK of no bytes.
    """
    key, address = _target(ep, remote_addr, rkey, "ucp_get_nbi")
    view = bytes_of(buffer, U64("length", length), writable=True)
    get(key.lane, (view,), address, key.key, DEFAULTS, quiet=True)
    return _IN_PROGRESS if view.nbytes else _OK


def ucp_get_nb(
    ep: Endpoint, buffer: Buffer, length: int, remote_addr: int, rkey: RemoteKey, cb: Any
) -> Request | None:
    """Read ``length`` bytes (ucp.h, group COMM).

    Return a request, or None of no bytes; ``cb(request, status)`` is called when the bytes are in ``buffer``.
    """
    return handed_out(_get(ep, buffer, length, remote_addr, rkey, old_param(cb), "ucp_get_nb"))


def ucp_get_nbx(
    ep: Endpoint,
    buffer: Any,
    count: int,
    remote_addr: int,
    rkey: RemoteKey,
    param: ucp_request_param_t | None = None,
) -> Request | None:
    """Read ``count`` elements of ``param.datatype``, which is contiguous or IOV (ucp.h, group COMM).

    Return a request, or None of no bytes. Raises UNSUPPORTED for a generic datatype, and NO_RESOURCE with
    UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL.
    """
    read = DEFAULTS if param is None else read_param(param)
    return handed_out(_get(ep, buffer, count, remote_addr, rkey, read, "ucp_get_nbx"))


def ucp_put(ep: Endpoint, buffer: Buffer, length: int, remote_addr: int, rkey: RemoteKey) -> None:
    """Write ``length`` bytes, and make progress until ``buffer`` may be changed (ucp_compat.h)."""
    outside_callbacks(ep)
    until_over(_put(ep, buffer, length, remote_addr, rkey, DEFAULTS, "ucp_put"))


def ucp_get(ep: Endpoint, buffer: Buffer, length: int, remote_addr: int, rkey: RemoteKey) -> None:
    """Read ``length`` bytes, and make progress until they are in ``buffer`` (ucp_compat.h)."""
    outside_callbacks(ep)
    until_over(_get(ep, buffer, length, remote_addr, rkey, DEFAULTS, "ucp_get"))


def _target(ep: Any, remote_addr: Any, rkey: Any, what: str) -> tuple[RemoteKey, int]:
    if (
        rkey.__class__ is RemoteKey
        and rkey.rma is ep
        and ep.failure is None
        and remote_addr.__class__ is int
        and not remote_addr >> 64
    ):
        return rkey, remote_addr
    return checked_target(ep, remote_addr, rkey, _RMA, what)


def _put(ep: Any, buffer: Any, count: Any, remote_addr: Any, rkey: Any, read: ReadParam, what: str) -> Request | None:
    key, address = _target(ep, remote_addr, rkey, what)
    if read.datatype == BYTES:
        if count.__class__ is int and 0 < count <= INLINE_SIZE and read.immediate:
            number = number_in(buffer, count)
            if number is not None:
                put_number(key.lane, number, count, address, key.key, read.many)
                return None
        return put(key.lane, (bytes_of(buffer, U64("count", count)),), address, key.key, read)
    _check_datatype(read.datatype, what)
    return put(key.lane, source(buffer, count, read.datatype).views, address, key.key, read)


def _get(ep: Any, buffer: Any, count: Any, remote_addr: Any, rkey: Any, read: ReadParam, what: str) -> Request | None:
    key, address = _target(ep, remote_addr, rkey, what)
    if read.datatype == BYTES:
        view = place_of(buffer, count) if count.__class__ is int and 0 < count <= MAX_BYTES else None
        if view is None:
            view = bytes_of(buffer, U64("count", count), writable=True)
        return get(key.lane, (view,), address, key.key, read)
    _check_datatype(read.datatype, what)
    return get(key.lane, destination(buffer, count, read.datatype).views, address, key.key, read)


def _check_datatype(datatype: int, what: str) -> None:
    """Raise UNSUPPORTED for a generic datatype: its memory cannot be read or written in place."""
    if datatype & _CLASS == _GENERIC:
        raise ucs_error(
            UcsStatus.UCS_ERR_UNSUPPORTED, f"{what} takes contiguous datatypes and IOV, got {datatype:#x}"
        )
