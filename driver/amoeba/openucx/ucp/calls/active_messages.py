"""Active messages (groups WORKER and COMM of ucp.h)."""

from typing import Any

from amoeba.openucx.ucp.active_messages import Handler
from amoeba.openucx.ucp.calls.endpoints import checked_endpoint
from amoeba.openucx.ucp.calls.workers import checked_worker
from amoeba.openucx.ucp.constants import (
    ucp_am_cb_flags,
    ucp_am_handler_param_field,
    ucp_feature,
    ucp_send_am_flags,
)
from amoeba.openucx.ucp.datatypes import BYTES, bytes_of, destination, source
from amoeba.openucx.ucp.endpoint import Endpoint
from amoeba.openucx.ucp.handles import ucp_am_callback_t, ucp_datatype_t
from amoeba.openucx.ucp.kinds import SIZE, callback, unsigned
from amoeba.openucx.ucp.messages import Handle
from amoeba.openucx.ucp.request_params import DEFAULTS, ReadParam, old_param, read_param
from amoeba.openucx.ucp.status import invalid_param
from amoeba.openucx.ucp.structures import ucp_am_handler_param_t, ucp_request_param_t
from amoeba.openucx.ucp.worker import Worker

__all__ = [
    "ucp_am_data_release",
    "ucp_am_recv_data_nbx",
    "ucp_am_send_nb",
    "ucp_am_send_nbx",
    "ucp_worker_set_am_handler",
    "ucp_worker_set_am_recv_handler",
]

_AM = ucp_feature.UCP_FEATURE_AM
_CB = int(ucp_am_handler_param_field.UCP_AM_HANDLER_PARAM_FIELD_CB)
_KNOWN = int(ucp_am_cb_flags.UCP_AM_FLAG_WHOLE_MSG | ucp_am_cb_flags.UCP_AM_FLAG_PERSISTENT_DATA)
_EAGER = int(ucp_send_am_flags.UCP_AM_SEND_FLAG_EAGER)
_NUMBERS = 1 << 16
_number = unsigned(16)
_unsigned = unsigned(32)
_NO_HEADER = memoryview(b"")
_BYTES = (bytes, bytearray)


def _checked(worker: Worker) -> Worker:
    checked_worker(worker).context.need(_AM, "an active message")
    return worker


def ucp_worker_set_am_handler(worker: Worker, id: int, cb: ucp_am_callback_t | None, arg: Any, flags: int) -> None:
    """Call ``cb(arg, data, length, reply_ep, flags)`` for messages of ``ucp_am_send_nb`` with an ``id``; None: not.

    ``id``: 0 to 65535. ``flags``: :class:`ucp_am_cb_flags`; the callback always gets whole messages. The callback may
    keep the data if its own ``flags`` have UCP_CB_PARAM_FLAG_DATA.

    Raises INVALID_PARAM without UCP_FEATURE_AM (ucp.h, group WORKER).
    """
    _checked(worker)
    number = _number("id", id)
    given = int(_unsigned("flags", flags))
    if given & ~_KNOWN:
        raise invalid_param(f"flags: expected UCP_AM_FLAG_WHOLE_MSG or 0, got {given:#x}")
    call = callback("cb", cb)
    handler = None if call is None else Handler(call, arg, given, True)
    worker.active_messages.set_handler(int(number), handler)


def ucp_worker_set_am_recv_handler(worker: Worker, param: ucp_am_handler_param_t) -> None:
    """Call ``cb(arg, header, header_length, data, length, param)`` for messages of ``ucp_am_send_nbx`` with an id.

    ``param``: a :class:`ucp_am_handler_param_t` with the id, the callback and its argument. ``header`` is a view that
    ends with the call, None of no bytes. ``param.recv_attr`` of the callback describes ``data``:

    - without a flag a view that ends with the call, None of no bytes: return UCS_OK, or nothing;
    - UCP_AM_RECV_ATTR_FLAG_DATA: returning UCS_INPROGRESS keeps the data until :func:`ucp_am_data_release` or
      :func:`ucp_am_recv_data_nbx`;
    - UCP_AM_RECV_ATTR_FLAG_RNDV: a descriptor of data that is still at its sender, to be kept and received likewise.
      UCS_OK: nobody needs the data; an error: the sender's request ends with it.

    Raises INVALID_PARAM without UCP_FEATURE_AM (ucp.h, group WORKER).
    """
    _checked(worker)
    taken = ucp_am_handler_param_t.taken(param, "param")
    if taken.id is None or not taken.mask & _CB:
        raise invalid_param("param: expected id and cb, which may be None if the mask has its bit")
    number = _number("param.id", taken.id)
    handler = None if taken.cb is None else Handler(taken.cb, taken.arg, int(taken.flags or 0), False)
    worker.active_messages.set_handler(int(number), handler)


def ucp_am_send_nb(
    ep: Endpoint, id: int, buffer: Any, count: int, datatype: ucp_datatype_t, cb: Any, flags: int
) -> Handle | None:
    """Send ``count`` elements to a handler of ``ucp_worker_set_am_handler``; of the ``flags`` only REPLY counts.

    Return None if the buffer can be used again, else a request; the buffer can be used again when the request ends,
    which calls ``cb(request, status)``. Raises EXCEEDS_LIMIT above 16 MiB (ucp.h, group COMM).
    """
    given = int(_unsigned("flags", flags))
    return _send(ep, id, _NO_HEADER, (buffer, count, datatype), given, old_param(cb), old=True)


def ucp_am_send_nbx(
    ep: Endpoint,
    id: int,
    header: Any,
    header_length: int,
    buffer: Any,
    count: int,
    param: ucp_request_param_t | None,
) -> Handle | None:
    """Send a message to a handler of ``ucp_worker_set_am_recv_handler``.

    ``id``: the handler's number. ``header``: ``header_length`` bytes that fit into a packet. ``buffer``, ``count``:
    the data, in elements of ``param.datatype``. ``param.flags``: ucp_send_am_flags.

    Return None if buffer and header can be used again, else a request. It ends when the receiver's NIC has the
    message or, with a rendezvous, when the receiver has read the message or has ended it with a status.

    Raises NO_RESOURCE with UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL, and EXCEEDS_LIMIT with UCP_AM_SEND_FLAG_EAGER above 16
    MiB (ucp.h, group COMM).
    """
    read = DEFAULTS if param is None else read_param(param)
    if (
        ep.__class__ is Endpoint
        and buffer.__class__ in _BYTES
        and id.__class__ is header_length.__class__ is count.__class__ is int
        and not header_length
        and 0 <= id < _NUMBERS
        and 0 < count == len(buffer)
        and ep.failure is None
        and not ep.closed
        and ep.wired
        and read.immediate
        and read.datatype == BYTES
        and (not read.flags or read.flags == _EAGER)
        and isinstance(worker := ep.worker, Worker)
        and count <= (messages := worker.active_messages).most_inline
        and (entry := ep.messages.entry_now()) is not None
    ):
        # one number without a header, to a peer that knows who sends
        messages.send_number(ep, entry, id, int.from_bytes(buffer, "little"), count)
        return None
    view = bytes_of(header, SIZE("header_length", header_length), name="header") if header_length else _NO_HEADER
    return _send(ep, id, view, (buffer, count, read.datatype), read.flags, read, old=False)


def _send(
    ep: Endpoint,
    id: int,
    header: memoryview,
    data: tuple[Any, int, int],
    flags: int,
    read: ReadParam,
    *,
    old: bool,
) -> Handle | None:
    """Send a message whose ``data`` is (buffer, count, datatype)."""
    worker = checked_endpoint(ep).worker
    assert isinstance(worker, Worker)
    messages = worker.active_messages
    if not messages.allowed:
        worker.context.need(_AM, "an active message")
    if id.__class__ is not int or not 0 <= id < _NUMBERS:
        id = int(_number("id", id))
    if header.nbytes > messages.most_header:
        raise invalid_param(f"header_length: expected at most {messages.most_header}, got {header.nbytes}")
    ep.check()
    ep.messages  # noqa: B018  the peer takes such messages
    with source(*data) as layout:
        return messages.send(ep, id, header, layout, flags, read, old=old)


def ucp_am_recv_data_nbx(
    worker: Worker, data_desc: Any, buffer: Any, count: int, param: ucp_request_param_t | None
) -> Handle | None:
    """Receive the data of a handler with UCP_AM_RECV_ATTR_FLAG_RNDV or FLAG_DATA, once, in the handler or later.

    ``data_desc``: the data as the handler got it. ``buffer``, ``count``: the destination, in elements of
    ``param.datatype``; a count of 0 releases the data. Return None if the data is there, else a request. The callback
    gets the length; so does ``param.recv_info``.

    Raises MESSAGE_TRUNCATED if the data does not fit, and NO_RESOURCE with UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL (ucp.h,
    group COMM).
    """
    _checked(worker)
    read = read_param(param)
    worker.active_messages.find(data_desc)
    layout = destination(buffer, count, read.datatype)
    return worker.active_messages.receive(data_desc, layout, read)


def ucp_am_data_release(worker: Worker, data: Any) -> None:
    """Release ``data`` that a handler has kept, once. Raises INVALID_PARAM for anything else (ucp.h, group COMM)."""
    _checked(worker).active_messages.release(data)
