"""Requests: their memory in C, their callbacks, and waiting for them.

A request is known by its address. Its memory is the library's, made by the driver's pool through :meth:`hooks`;
memory from ucp_request_alloc; or the program's own. REQUEST_SIZE bytes precede the address in each case.
"""

from collections.abc import Callable
from typing import Any

from amoeba.embed import Memory, wait_until
from amoeba.openucx.libucp.buffers import BYTES
from amoeba.openucx.libucp.callbacks import caller, elsewhere
from amoeba.openucx.libucp.fields import write_attributes
from amoeba.openucx.libucp.handle_table import HandleTable
from amoeba.openucx.libucp.library import REQUEST_SIZE
from amoeba.openucx.libucp.process import Process
from amoeba.openucx.ucp.calls.requests import (
    ucp_request_alloc,
    ucp_request_cancel,
    ucp_request_check_status,
    ucp_request_free,
    ucp_request_is_completed,
    ucp_request_query,
    ucp_request_release,
)
from amoeba.openucx.ucp.calls.streams import ucp_stream_recv_request_test
from amoeba.openucx.ucp.calls.tags import ucp_request_test, ucp_tag_recv_request_test
from amoeba.openucx.ucp.constants import ucp_op_attr_t, ucp_req_attr_field
from amoeba.openucx.ucp.status import UcsStatus, invalid_param, ucs_error
from amoeba.openucx.ucp.structures import ucp_request_attr_t, ucp_request_param_t, ucp_tag_recv_info
from amoeba.openucx.ucp.worker import Worker
from amoeba.openucx.ucp.worker_base import RequestMemory, WorkerBase

__all__ = ["COUNTED", "RECEIVED", "SENT", "Completions", "Param"]

SENT, RECEIVED, COUNTED = "send", "recv", "recv_stream"
"""Arguments of callbacks besides request and status: none, a tagged message's info, or a number of bytes."""

_ATTR = ucp_op_attr_t
_REQUEST = int(_ATTR.UCP_OP_ATTR_FIELD_REQUEST)
_CALLBACK = int(_ATTR.UCP_OP_ATTR_FIELD_CALLBACK)
_USER_DATA = int(_ATTR.UCP_OP_ATTR_FIELD_USER_DATA)
_DATATYPE = int(_ATTR.UCP_OP_ATTR_FIELD_DATATYPE)
_FLAGS = int(_ATTR.UCP_OP_ATTR_FIELD_FLAGS)
_REPLY_BUFFER = int(_ATTR.UCP_OP_ATTR_FIELD_REPLY_BUFFER)
_MEMORY_TYPE = int(_ATTR.UCP_OP_ATTR_FIELD_MEMORY_TYPE)
_RECV_INFO = int(_ATTR.UCP_OP_ATTR_FIELD_RECV_INFO)
_ALL_FLAGS = 0xFFFF_0000
_NO_IMMEDIATE = int(_ATTR.UCP_OP_ATTR_FLAG_NO_IMM_CMPL)
_IN_PROGRESS = UcsStatus.UCS_INPROGRESS
_INFO_STRING = int(ucp_req_attr_field.UCP_REQUEST_ATTR_FIELD_INFO_STRING)
_INFO_SIZE = int(ucp_req_attr_field.UCP_REQUEST_ATTR_FIELD_INFO_STRING_SIZE)


class Param:
    """The driver's form of a ``ucp_request_param_t``."""

    __slots__ = ("datatype", "given", "kind", "own", "reply_buffer", "told")

    def __init__(self, kind: str = SENT) -> None:
        self.given: ucp_request_param_t | None = None
        self.kind = kind
        self.datatype = BYTES
        self.reply_buffer = 0
        self.told: Any = None
        """Memory for the info of a receive that completes at once."""
        self.own: RequestMemory | None = None
        """The program's memory for the request."""


_NOTHING = Param()
_new = object.__new__


class Completions:
    """The requests of the process."""

    def __init__(self, ffi: Any, lib: Any, memory: Memory, handles: HandleTable, process: Process) -> None:
        self._ffi, self._lib, self._null = ffi, lib, ffi.NULL
        self._memory, self._handles, self._process = memory, handles, process
        self.call = caller(lib.amoeba_is_deputy)
        self._requests: dict[int, RequestMemory] = {}
        """By address."""
        self._spare: dict[int, list[RequestMemory]] = {}
        """Free memory from ucp_request_alloc by worker number."""
        self._given: dict[int, int] = {}
        """Addresses that ucp_request_alloc has given out, and their worker numbers."""
        self._foreign: set[int] = set()
        """Addresses of outstanding requests in the program's memory."""
        self._tellers: dict[str, Callable[..., None]] = {
            SENT: self._tell_sent,
            RECEIVED: self._tell_received,
            COUNTED: self._tell_counted,
        }

    # Memory

    def hooks(self, size: int, init: Any, cleanup: Any) -> tuple[Callable[[Any], None], Callable[[Any], None]]:
        """Return a context's functions that make and free a request's memory, with ``size`` bytes for the program.

        ``init``, ``cleanup``: the program's functions, or NULL.
        """

        def make(request: RequestMemory) -> None:
            start = self._lib.memory_new(size + REQUEST_SIZE) if size < 1 << 63 else self._null
            if start == self._null:
                raise ucs_error(UcsStatus.UCS_ERR_NO_MEMORY, f"no memory is left for a request of {size} bytes")
            address = request.area = self._memory.address(start) + REQUEST_SIZE
            self._requests[address] = request
            if init != self._null:
                init(address)

        def give_up(request: RequestMemory) -> None:
            if cleanup != self._null:
                cleanup(request.area)
            self._requests.pop(request.area, None)
            self._given.pop(request.area, None)
            self._lib.memory_free(request.area - REQUEST_SIZE)

        return make, give_up

    def forget(self, worker: int) -> None:
        """Forget a closed worker and its memory."""
        self._spare.pop(worker, None)

    def ucp_request_alloc(self, worker: int) -> int:
        spare = self._spare.setdefault(worker, [])
        place = next((index for index, each in enumerate(spare) if each.done), None)
        if place is None:
            request = ucp_request_alloc(self._handles.get(worker, Worker))
        else:
            request = spare.pop(place)
            request.request = None
            self._requests[request.area] = request
        self._given[request.area] = worker
        return int(request.area)

    # Parameters and results of calls

    def param(self, given: Any, kind: str) -> Param:
        """Read a ``ucp_request_param_t``, or NULL. ``kind``: of its callback."""
        if given == self._null:
            return _NOTHING
        mask = given.op_attr_mask
        if not mask:
            return _NOTHING
        flags = mask & _ALL_FLAGS
        param = Param(kind)
        values = param.given = _new(ucp_request_param_t)  # its fields are None until they are set
        if mask & _DATATYPE:
            flags |= _DATATYPE
            values.datatype = param.datatype = given.datatype
        if mask & _CALLBACK and (call := getattr(given.cb, kind)) != self._null:
            flags |= _CALLBACK | _USER_DATA
            values.cb = self._tellers[kind]
            values.user_data = call, given.user_data if mask & _USER_DATA else 0
        if mask & _FLAGS:
            flags |= _FLAGS
            values.flags = given.flags
        if mask & _REPLY_BUFFER:
            param.reply_buffer = given.reply_buffer
        if mask & _MEMORY_TYPE:
            flags |= _MEMORY_TYPE
            values.memory_type = given.memory_type
        if mask & _RECV_INFO and kind is not SENT and given.recv_info.length != self._null:
            flags |= _RECV_INFO
            values.recv_info = ucp_tag_recv_info()
            param.told = given.recv_info
        if mask & _REQUEST:
            flags |= _REQUEST
            self._use_own(param, values, given.request)
            flags |= _CALLBACK | _USER_DATA
            if kind is not SENT and values.recv_info is None:
                flags |= _RECV_INFO
                values.recv_info = ucp_tag_recv_info()
        values.op_attr_mask = flags
        return param

    def with_reply(self, param: Param, reply: Any) -> Param:
        """Add a buffer for the reply to the parameters."""
        assert param.given is not None
        param.given.reply_buffer = reply
        param.given.op_attr_mask = (param.given.op_attr_mask or 0) | _REPLY_BUFFER
        return param

    def polled(self, datatype: int, request: int, *, immediate: bool) -> Param:
        """Make the parameters of a call whose ``request`` is polled. ``immediate``: it may complete at once."""
        param = Param()
        values = param.given = ucp_request_param_t(datatype=datatype)
        param.datatype = datatype
        self._use_own(param, values, request)
        values.op_attr_mask = _DATATYPE | _REQUEST | _CALLBACK | _USER_DATA | (0 if immediate else _NO_IMMEDIATE)
        return param

    def _use_own(self, param: Param, values: ucp_request_param_t, address: int) -> None:
        """Use memory of the program's for the request."""
        own = self._requests.get(address)
        if own is None:
            if address < REQUEST_SIZE:
                raise invalid_param(f"request: expected memory for a request, got {address:#x}")
            own = RequestMemory(0)
            own.area = address
        elif address not in self._given and address not in self._foreign:
            raise invalid_param(f"request: {address:#x} is a request of the library's")
        param.own = values.request = own
        if address not in self._given:
            values.user_data = values.cb, values.user_data
            values.cb = self._tell_noted

    def answer(self, request: Any, param: Param = _NOTHING) -> int:
        """Return a call's result for C: NULL, or the request."""
        if request is None:
            if param.given is not None:
                self._tell_at_once(param, param.given.recv_info)
            return 0
        own = param.own
        if own is not None and own.area not in self._given and not own.done:
            self._requests[own.area] = own
            self._foreign.add(own.area)
        return int(request.area)

    def _tell_at_once(self, param: Param, info: ucp_tag_recv_info | None) -> None:
        """Report a call that completed at once.

        The message's info goes where the program asked for it, and into the program's memory for the request:
        programs check the request nevertheless.
        """
        if param.told is not None and info is not None:
            if param.kind is COUNTED:
                param.told.length[0] = info.length
            else:
                param.told.tag_info.sender_tag, param.told.tag_info.length = info.sender_tag, info.length
        if param.own is not None:
            param.own.request = None
            tag, length = (0, 0) if info is None else (info.sender_tag, info.length)
            self._lib.request_note(param.own.area, int(UcsStatus.UCS_OK), tag, length)

    # The program's callbacks

    def _tell_sent(self, request: RequestMemory, status: int, data: Any) -> None:
        call, user_data = data
        self.call(call, request.area, status, user_data)

    def _tell_received(self, request: RequestMemory, status: int, info: ucp_tag_recv_info, data: Any) -> None:
        call, user_data = data
        self.call(call, request.area, status, self.info(info), user_data)

    def _tell_counted(self, request: RequestMemory, status: int, length: int, data: Any) -> None:
        call, user_data = data
        self.call(call, request.area, status, length, user_data)

    def _tell_noted(self, request: RequestMemory, status: int, *told: Any) -> None:
        """Complete a request in the program's memory, which belongs to the program alone from now on."""
        *what, (call, data) = told
        tag = length = 0
        if what:
            known = what[0]
            tag, length = (0, known) if isinstance(known, int) else (known.sender_tag, known.length)
        self._forget_foreign(request.area)
        self._lib.request_note(request.area, status, tag, length)
        if call is not None:
            call(request, status, *what, data)

    def info(self, info: ucp_tag_recv_info) -> Any:
        """Convert the info for C."""
        return self._ffi.new("ucp_tag_recv_info_t *", (info.sender_tag, info.length))

    def on_sent(self, cb: Any) -> Callable[..., None] | None:
        """``ucp_send_callback_t`` as the driver calls it."""
        return None if cb == self._null else lambda request, status: self.call(cb, request.area, status)

    def on_received(self, cb: Any) -> Callable[..., None] | None:
        """``ucp_tag_recv_callback_t``."""
        if cb == self._null:
            return None
        return lambda request, status, info: self.call(cb, request.area, status, self.info(info))

    def on_counted(self, cb: Any) -> Callable[..., None] | None:
        """``ucp_stream_recv_callback_t``."""
        if cb == self._null:
            return None
        return lambda request, status, length: self.call(cb, request.area, status, length)

    # Waiting

    @staticmethod
    def outside(worker: WorkerBase) -> None:
        """Raise INVALID_PARAM inside a callback, where a call that waits would wait for ever."""
        if worker.progressing and not elsewhere(worker):
            raise invalid_param("a call that waits was made inside a callback of progress")

    def until_over(self, handle: Any) -> int:
        """Make progress until a request completes, while other threads' calls proceed; return its status."""
        if handle is None:
            return UcsStatus.UCS_OK
        request = handle.request
        worker = request.worker

        def over() -> bool:
            if not request.done and not elsewhere(worker):
                worker.progress()
            return bool(request.done)

        wait_until(over, self._process.nic.rest)
        status: int = request.code
        request.free()
        return status

    # Requests

    def _find(self, address: int) -> RequestMemory:
        found = self._requests.get(address)
        if found is None:
            raise invalid_param(f"request: expected one that a call returned, got {address:#x}")
        return found

    def _live(self, address: int) -> RequestMemory | None:
        """Return the request, unless the program's own memory holds its result."""
        found = self._requests.get(address)
        return None if found is not None and found.request is None and address in self._given else found

    def _noted(self, address: int) -> tuple[int, Any]:
        """Return (status, info) of a completed request of the program's. Raises INVALID_PARAM for other memory."""
        status, info = self._ffi.new("int *"), self._ffi.new("ucp_tag_recv_info_t *")
        if not self._lib.request_noted(address, status, info):
            raise invalid_param(f"request: expected one that a call returned, got {address:#x}")
        return status[0], info

    def ucp_request_check_status(self, request: int) -> int:
        found = self._live(request)
        return self._noted(request)[0] if found is None else ucp_request_check_status(found)

    def ucp_request_is_completed(self, request: int) -> bool:
        found = self._live(request)
        return self._noted(request)[0] != _IN_PROGRESS if found is None else ucp_request_is_completed(found)

    def ucp_request_test(self, request: int, info: Any) -> int:
        return self._test(request, info, ucp_request_test)

    def ucp_tag_recv_request_test(self, request: int, info: Any) -> int:
        return self._test(request, info, ucp_tag_recv_request_test)

    def _test(self, request: int, info: Any, test: Callable[[Any], tuple[int, ucp_tag_recv_info]]) -> int:
        found = self._live(request)
        if found is None:
            status, noted = self._noted(request)
            tag, length = noted.sender_tag, noted.length
        else:
            status, known = test(found)
            tag, length = known.sender_tag, known.length
        if info != self._null and status != _IN_PROGRESS:
            info.sender_tag, info.length = tag, length
        return status

    def ucp_stream_recv_request_test(self, request: int, length_p: Any) -> int:
        found = self._live(request)
        if found is None:
            status, noted = self._noted(request)
            length = noted.length
        else:
            status, length = ucp_stream_recv_request_test(found)
        if length_p != self._null and status != _IN_PROGRESS:
            length_p[0] = length
        return status

    def ucp_request_query(self, request: int, attr: Any) -> None:
        self._memory.require(attr, "attr")
        mask = attr.field_mask
        space = attr.debug_string_size if mask & _INFO_SIZE else 0
        wanted = ucp_request_attr_t(field_mask=mask & ~(0 if space else _INFO_STRING), debug_string_size=space)

        def put(given: Any, text: str) -> None:
            self._memory.put_string(self._memory.require(given.debug_string, "attr.debug_string"), space, text)

        filled = ucp_request_query(self._find(request), wanted)
        write_attributes(
            self._memory, attr, filled, {"debug_string": put, "debug_string_size": lambda given, size: None}
        )

    def ucp_request_cancel(self, worker: int, request: int) -> None:
        ucp_request_cancel(self._handles.get(worker, Worker), self._find(request))

    def ucp_request_free(self, request: int) -> None:
        self._free(request, ucp_request_free)

    def ucp_request_release(self, request: int) -> None:
        self._free(request, ucp_request_release)

    def _free(self, address: int, free: Callable[[Any], None]) -> None:
        found = self._find(address)
        worker = self._given.pop(address, None)
        if worker is not None:
            del self._requests[address]
            self._spare.setdefault(worker, []).append(found)
            if found.request is None:
                return
        elif address in self._foreign:
            self._forget_foreign(address)
        free(found)

    def _forget_foreign(self, address: int) -> None:
        self._foreign.discard(address)
        self._requests.pop(address, None)
