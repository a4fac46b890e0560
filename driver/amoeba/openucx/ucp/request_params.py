"""Parameters of ``_nbx`` calls, read once and fast, and those of older calls in the same form.

Every operation passes here, so the usual cases cost little: no structure, or one with few fields.
"""

from collections.abc import Callable
from typing import Any

from amoeba.openucx.ucp.constants import ucp_op_attr_t, ucs_memory_type_t
from amoeba.openucx.ucp.datatypes import BYTES, ucp_dt_make_contig
from amoeba.openucx.ucp.kinds import one_of, unsigned
from amoeba.openucx.ucp.status import invalid_param, wrong_type
from amoeba.openucx.ucp.structures import ucp_request_param_t, ucp_tag_recv_info

__all__ = ["DEFAULTS", "PLAIN_MASKS", "ReadParam", "old_param", "read_param", "unset"]

_REQUEST = int(ucp_op_attr_t.UCP_OP_ATTR_FIELD_REQUEST)
_CALLBACK = int(ucp_op_attr_t.UCP_OP_ATTR_FIELD_CALLBACK)
_USER_DATA = int(ucp_op_attr_t.UCP_OP_ATTR_FIELD_USER_DATA)
_DATATYPE = int(ucp_op_attr_t.UCP_OP_ATTR_FIELD_DATATYPE)
_FLAGS = int(ucp_op_attr_t.UCP_OP_ATTR_FIELD_FLAGS)
_REPLY_BUFFER = int(ucp_op_attr_t.UCP_OP_ATTR_FIELD_REPLY_BUFFER)
_MEMORY_TYPE = int(ucp_op_attr_t.UCP_OP_ATTR_FIELD_MEMORY_TYPE)
_RECV_INFO = int(ucp_op_attr_t.UCP_OP_ATTR_FIELD_RECV_INFO)
_FIELDS = sum(ucp_request_param_t.fields_by_bit().values())
_NO_IMMEDIATE = int(ucp_op_attr_t.UCP_OP_ATTR_FLAG_NO_IMM_CMPL)
_FAST = int(ucp_op_attr_t.UCP_OP_ATTR_FLAG_FAST_CMPL)
_FORCED = int(ucp_op_attr_t.UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL)
_MANY = int(ucp_op_attr_t.UCP_OP_ATTR_FLAG_MULTI_SEND)
_MASK_BITS = 32
_FLAGS_BIT = 16
"""The flags begin above the fields, at this bit."""
_MASKS = frozenset((int, ucp_op_attr_t, type(None)))
"""The usual types of a mask."""
_NO_FIELDS = (None, _MANY)
"""Masks of :data:`PLAIN_MASKS` that name no field."""
_check_mask = unsigned(_MASK_BITS)
_check_flags = unsigned(32)
_check_datatype = unsigned(64)
_check_memory_type = one_of(ucs_memory_type_t)
_HOST = ucs_memory_type_t.UCS_MEMORY_TYPE_HOST
_UNKNOWN = ucs_memory_type_t.UCS_MEMORY_TYPE_UNKNOWN

_ALL_PLAIN = (_DATATYPE, _REPLY_BUFFER, _CALLBACK, _USER_DATA)
PLAIN_MASKS: dict[int | None, tuple[bool, bool, bool, bool]] = {
    None: (False, True, True, True),
    _MANY: (True, True, True, True),
}
"""Masks with no flag but UCP_OP_ATTR_FLAG_MULTI_SEND and no field but datatype, reply buffer, callback and user data;
a mask with fields has the datatype. The values: (that flag, whether the reply buffer, the callback, the user data
count).
"""
for _fields in range(1, 1 << len(_ALL_PLAIN), 2):
    _reply, _called, _data = (bool(_fields >> bit & 1) for bit in (1, 2, 3))
    _mask = sum(field for bit, field in enumerate(_ALL_PLAIN) if _fields >> bit & 1)
    PLAIN_MASKS[_mask] = (False, _reply, _called, _data)
    PLAIN_MASKS[_mask | _MANY] = (True, _reply, _called, _data)


class ReadParam:
    """The fields of a :class:`ucp_request_param_t` that count, checked. Several calls share one, so it never changes.

    There is no constructor: :func:`unset` makes one, and :func:`read_param` sets every field, which is faster.
    """

    __slots__ = (
        "callback",
        "datatype",
        "fast",
        "flags",
        "forced",
        "immediate",
        "many",
        "recv_info",
        "reply_buffer",
        "request",
        "user_data",
    )

    callback: Callable[..., Any] | None
    """Called with request, status, what the kind of operation tells, and ``user_data``."""
    user_data: Any
    datatype: int
    flags: int
    """Of the operation; 0 if absent."""
    immediate: bool
    """The call may say at once that it is over: no UCP_OP_ATTR_FLAG_NO_IMM_CMPL."""
    forced: bool
    """UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL: at once or not at all."""
    fast: bool
    """UCP_OP_ATTR_FLAG_FAST_CMPL: copy rather than wait."""
    many: bool
    """UCP_OP_ATTR_FLAG_MULTI_SEND: others follow, so the NIC may be told of all at once."""
    request: Any
    """The application's memory for the request."""
    reply_buffer: Any
    """Of an atomic; unchecked."""
    recv_info: ucp_tag_recv_info | None
    """To be filled when a receive ends at once."""


def unset(datatype: int = BYTES, *, many: bool = False, immediate: bool = True) -> ReadParam:
    """Make the parameters of a structure with hardly any field set."""
    read = ReadParam()
    read.callback = read.user_data = read.request = read.reply_buffer = read.recv_info = None
    read.datatype, read.flags = datatype, 0
    read.many, read.immediate = many, immediate
    read.forced = read.fast = False
    return read


DEFAULTS = unset()
"""Parameters of a call without a structure."""


_SHARED: tuple[dict[int | None, ReadParam], ...] = tuple(
    {
        datatype: unset(datatype or BYTES, many=many)
        for datatype in (None, BYTES, ucp_dt_make_contig(4), ucp_dt_make_contig(8))
    }
    for many in (False, True)
)
"""Parameters of the most usual structures, by UCP_OP_ATTR_FLAG_MULTI_SEND and datatype."""


def read_param(param: ucp_request_param_t | None) -> ReadParam:
    """Read the fields of a structure that count.

    Raises UCS_ERR_INVALID_PARAM, naming the field, for a value that a field cannot hold, and for a memory type other
    than the host's, as no NIC reaches any other memory.
    """
    if param is None:
        return DEFAULTS
    if param.__class__ is not ucp_request_param_t and not isinstance(param, ucp_request_param_t):
        raise wrong_type("param", "a ucp_request_param_t or None", param)
    mask, datatype = param.op_attr_mask, param.datatype
    if (
        mask.__class__ in _MASKS
        and (plain := PLAIN_MASKS.get(mask)) is not None
        and param.request is param.flags is param.memory_type is None
        and param.recv_info is None
        and ((callback := param.cb) is None or callable(callback))
        and ((datatype.__class__ is int and not datatype >> 64) or (datatype is None and mask in _NO_FIELDS))
    ):
        # as most programs fill it
        many, replies, calls, knows = plain
        reply = param.reply_buffer if replies else None
        user_data = param.user_data if knows else None
        if reply is user_data is None and (callback is None or not calls):
            read = _SHARED[many].get(datatype)
            if read is not None:
                return read
        read = ReadParam()
        read.callback = callback if calls else None
        read.user_data = user_data
        read.datatype = BYTES if datatype is None else datatype
        read.flags = 0
        read.many = many
        read.immediate = True
        read.forced = read.fast = False
        read.reply_buffer = reply
        read.request = read.recv_info = None
        return read
    return _read_checked(param)


def _read_checked(param: ucp_request_param_t) -> ReadParam:
    """Read a structure field by field, as :func:`read_param` does one of few fields."""
    read = unset()
    mask, counted = param.op_attr_mask, _FIELDS
    if mask is not None:
        if mask < 0 or mask >> _MASK_BITS if mask.__class__ in _MASKS else True:
            mask = _check_mask("param.op_attr_mask", mask)
        mask = int(mask)
        if not mask or mask & _FIELDS:
            counted = mask & _FIELDS
            _check_numbers_there(param, counted)
        if mask >> _FLAGS_BIT:
            if mask & _NO_IMMEDIATE:
                read.immediate = False
            if mask & _FORCED:
                read.forced = True
            if mask & _FAST:
                read.fast = True
            if mask & _MANY:
                read.many = True
    if counted & _CALLBACK and (callback := param.cb) is not None:
        if not callable(callback):
            raise wrong_type("param.cb", "a function or None", callback)
        read.callback = callback
    if counted & _USER_DATA and (user_data := param.user_data) is not None:
        read.user_data = user_data
    if counted & _DATATYPE and (datatype := param.datatype) is not None:
        if datatype.__class__ is not int or datatype < 0 or datatype >> 64:
            datatype = _check_datatype("param.datatype", datatype)
        read.datatype = datatype
    if counted & _FLAGS and (flags := param.flags) is not None:
        read.flags = flags if flags.__class__ is int and not flags >> 32 else int(_check_flags("param.flags", flags))
    if counted & _REPLY_BUFFER and (reply_buffer := param.reply_buffer) is not None:
        read.reply_buffer = reply_buffer
    if counted & _REQUEST and (request := param.request) is not None:
        read.request = request
    if counted & _RECV_INFO and (info := param.recv_info) is not None:
        if not isinstance(info, ucp_tag_recv_info):
            raise wrong_type("param.recv_info", "a ucp_tag_recv_info_t or None", info)
        read.recv_info = info
    if counted & _MEMORY_TYPE and param.memory_type is not None:
        kind = _check_memory_type("param.memory_type", param.memory_type)
        if kind not in (_HOST, _UNKNOWN):
            raise invalid_param(f"param.memory_type: expected the host's memory, got {kind.name}")
    return read


def _check_numbers_there(param: ucp_request_param_t, mask: int) -> None:
    """Raise UCS_ERR_INVALID_PARAM where a mask names a number that is missing."""
    for bit, name, value in (
        (_DATATYPE, "datatype", param.datatype),
        (_FLAGS, "flags", param.flags),
        (_MEMORY_TYPE, "memory_type", param.memory_type),
    ):
        if mask & bit and value is None:
            raise invalid_param(f"param.{name}: the mask says that it counts, got None")


def old_param(cb: Any, *, immediate: bool = True) -> ReadParam:
    """Make the parameters of a call without a structure: its callback gets no ``user_data``.

    ``immediate``: the call may say at once that it is over. Raises UCS_ERR_INVALID_PARAM if ``cb`` is neither a
    function nor None.
    """
    if cb is None and immediate:
        return DEFAULTS
    read = unset(immediate=immediate)
    if cb is not None:
        if not callable(cb):
            raise wrong_type("cb", "a function or None", cb)
        read.callback = lambda *told: cb(*told[:-1])
    return read
