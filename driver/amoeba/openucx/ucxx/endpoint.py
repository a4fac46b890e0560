"""Endpoints: the connection to one other worker, for programs that poll, that wait and that await."""

import contextlib
import functools
import hashlib
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np

from amoeba.openucx.ucp.calls.active_messages import ucp_am_send_nbx
from amoeba.openucx.ucp.calls.endpoints import ucp_ep_close_nbx, ucp_ep_create
from amoeba.openucx.ucp.calls.flushes import ucp_ep_flush_nbx
from amoeba.openucx.ucp.calls.streams import ucp_stream_recv_nbx, ucp_stream_send_nbx
from amoeba.openucx.ucp.calls.tags import ucp_tag_probe_nb, ucp_tag_send_nbx
from amoeba.openucx.ucp.constants import (
    ucp_ep_close_flags_t,
    ucp_ep_params_flags_field,
    ucp_err_handling_mode_t,
    ucp_send_am_flags,
    ucp_stream_recv_flags_t,
)
from amoeba.openucx.ucp.endpoint import Endpoint as UcpEndpoint
from amoeba.openucx.ucp.status import UcsError, UcsStatus, invalid_param, ucs_error
from amoeba.openucx.ucp.structures import ucp_ep_params_t, ucp_err_handler_t
from amoeba.openucx.ucxx.active_messages import AM_ID
from amoeba.openucx.ucxx.buffers import bytes_view
from amoeba.openucx.ucxx.errors import UCXCloseError
from amoeba.openucx.ucxx.frames import FrameReceive, FrameReceives, send_frames
from amoeba.openucx.ucxx.lifetime import Closable
from amoeba.openucx.ucxx.names import AtomicOp, TagMaskFull, TagProbeResult
from amoeba.openucx.ucxx.packed import Address, RemoteKey
from amoeba.openucx.ucxx.progress import in_turn
from amoeba.openucx.ucxx.remote_memory import RemoteMemory
from amoeba.openucx.ucxx.request import BufferRequests, Request, new_param
from amoeba.openucx.ucxx.worker import Worker

__all__ = ["Endpoint"]

_FULL = int(TagMaskFull)
_CLIENT_SERVER = ucp_ep_params_flags_field.UCP_EP_PARAMS_FLAGS_CLIENT_SERVER
_PEER = ucp_err_handling_mode_t.UCP_ERR_HANDLING_MODE_PEER
_NONE = ucp_err_handling_mode_t.UCP_ERR_HANDLING_MODE_NONE
_OK = UcsStatus.UCS_OK
_CANCELED = UcsStatus.UCS_ERR_CANCELED


def _hash64(*parts: int) -> int:
    """Hash numbers to 64 bits: equal in two processes for the same numbers, and distinct with high probability."""
    digest = hashlib.blake2b(b"".join(part.to_bytes(16, "big", signed=True) for part in parts), digest_size=8)
    return int.from_bytes(digest.digest(), "big")


def _let_go(endpoint: UcpEndpoint) -> None:
    """Close an endpoint without references, after its outstanding sends."""
    if not (endpoint.closed or endpoint.worker.closed):
        ucp_ep_close_nbx(endpoint, None)


class Endpoint(Closable):
    """One end of a connection. Made by :meth:`create` and its kin, by workers, listeners and :func:`create_endpoint`.

    Every operation returns a :class:`Request`, to be awaited, waited for, or polled.
    """

    def __init__(self, worker: Worker, params: ucp_ep_params_t, endpoint_error_handling: bool) -> None:
        if not isinstance(worker, Worker):
            raise invalid_param(f"worker: expected a Worker, got {worker!r}")
        worker._check()
        self.worker = worker
        self._progress = worker._progress
        self._progress.tidy()
        self._status = UcsStatus.UCS_INPROGRESS
        """The reason of its end; UCS_INPROGRESS: still open."""
        self._on_close: Callable[[], object] | None = None
        params.err_mode = _PEER if endpoint_error_handling else _NONE
        known = weakref.ref(self)

        def failed(arg: Any, ep: Any, status: UcsStatus) -> None:
            found = known()
            if found is not None:
                found._over(status)

        params.err_handler = ucp_err_handler_t(failed, None)
        self.ucp: UcpEndpoint = ucp_ep_create(worker.ucp, params)
        """The endpoint of ``amoeba.ucp``."""
        self._force = endpoint_error_handling
        self._finalizer = weakref.finalize(self, self._progress.abandon, functools.partial(_let_go, self.ucp))
        self._send_param = worker._send_param
        self._am_param = new_param(flags=int(ucp_send_am_flags.UCP_AM_SEND_FLAG_REPLY))
        self._stream_param = new_param(always=True, flags=int(ucp_stream_recv_flags_t.UCP_STREAM_RECV_FLAG_WAITALL))
        self._tags: tuple[int, int] | None = None
        self._frames: dict[tuple[int, int], FrameReceives] = {}
        self._keys: dict[bytes, RemoteMemory] = {}
        self._closing: Request | None = None
        self._received = 0
        self._close_after: int | None = None

    @classmethod
    def create(cls, worker: Worker, ip_address: str, port: int, endpoint_error_handling: bool = True) -> Self:
        """Return an endpoint to the listener at a socket address, without waiting for the connection.

        Raises INVALID_ADDR for an unknown host.
        """
        params = ucp_ep_params_t(flags=_CLIENT_SERVER, sockaddr=(ip_address, port))
        return cls._made(worker, params, endpoint_error_handling)

    @classmethod
    def create_from_worker_address(
        cls, worker: Worker, address: Address | bytes, endpoint_error_handling: bool = True
    ) -> Self:
        """Return an endpoint to the worker with this address: the first pairs with the first one back, and so on."""
        packed = address if isinstance(address, Address) else Address(address)
        return cls._made(worker, ucp_ep_params_t(address=bytes(packed)), endpoint_error_handling)

    @classmethod
    def create_from_conn_request(
        cls, worker: Worker, conn_request: Any, endpoint_error_handling: bool = True
    ) -> Self:
        """Return the endpoint to the client of a connection request to a listener of this context."""
        return cls._made(worker, ucp_ep_params_t(conn_request=conn_request), endpoint_error_handling)

    @classmethod
    def _made(cls, worker: Worker, params: ucp_ep_params_t, endpoint_error_handling: bool) -> Self:
        if not isinstance(worker, Worker):
            raise invalid_param(f"worker: expected a Worker, got {worker!r}")
        with worker._progress if worker._progress.threaded else contextlib.nullcontext():
            return cls(worker, params, endpoint_error_handling)

    # State

    @property
    def handle(self) -> int:
        """The endpoint's unique number in this process."""
        return id(self.ucp)

    uid = handle

    @property
    def worker_handle(self) -> int:
        """The number of its worker."""
        return self.worker.handle

    @property
    def alive(self) -> bool:
        """Whether the endpoint is neither closed nor known to have failed."""
        return not self.ucp.closed and self.ucp.failure is None and self._closing is None

    def is_alive(self) -> bool:
        """Return ``alive``."""
        return self.alive

    @property
    def closed(self) -> bool:
        """Whether the endpoint was closed, or its other end is gone."""
        return not self.alive

    @property
    def connected(self) -> bool:
        """Whether the other end is known to be ready."""
        return self.ucp.connected and not self.ucp.closed

    @in_turn
    def connect(self) -> Request:
        """Return a request that ends when the endpoint is connected, or cannot be."""
        request = Request(self.worker)

        def over() -> bool:
            if self.ucp.failure is not None or self._closing is not None or self.ucp.closed:
                request.finish(self.ucp.failure or _CANCELED)
            elif self.ucp.connected:
                request.finish(_OK)
            return request.completed

        if not over():
            self.worker.watchers.append(over)
        return request

    def check(self) -> None:
        """Raise UCXCloseError if the endpoint is closed, or the error with which it has failed."""
        ucp = self.ucp
        if ucp.closed or self._closing is not None:
            raise UCXCloseError("this endpoint is closed")
        if ucp.failure is not None:
            raise ucs_error(ucp.failure, "this endpoint has failed")

    raise_on_error = check

    @property
    def ucx_info(self) -> str:
        """Description of the endpoint and its activity, in lines."""
        return self.ucp.describe()

    def __repr__(self) -> str:
        return f"<Endpoint {self.handle:#x}: {'alive' if self.alive else 'closed'}>"

    # Tagged messages

    @in_turn
    def tag_send(self, buffer: Any, tag: int) -> Request:
        """Send a buffer as a message. Ends when the buffer may be changed."""
        self.check()
        view = bytes_view(buffer)
        request = Request(self.worker, self)
        param = self._send_param
        param.user_data = request
        return request.follow(ucp_tag_send_nbx(self.ucp, view, view.nbytes, int(tag), param), param)

    @in_turn
    def tag_recv(self, buffer: Any, tag: int, tag_mask: int = _FULL) -> Request:
        """Call :meth:`Worker.tag_recv`; the receive is cancelled when this endpoint ends.

        Once the other end is gone, only messages that have arrived can be received.
        """
        worker = self.worker
        if self.ucp.failure is not None and self._closing is None and not self.ucp.closed:
            message, _ = ucp_tag_probe_nb(worker.ucp, int(tag), int(tag_mask), 0)
            if message is None:
                self.check()
        else:
            self.check()
        return worker.receive(buffer, tag, tag_mask, self)

    @in_turn
    def tag_recv_with_handle(self, buffer: Any, probe_result: TagProbeResult) -> Request:
        """Call :meth:`Worker.tag_recv_with_handle`."""
        return self.worker.tag_recv_with_handle(buffer, probe_result)

    @in_turn
    def tag_probe(self, tag: int, tag_mask: int = _FULL, remove: bool = False) -> TagProbeResult:
        """Call :meth:`Worker.tag_probe`."""
        return self.worker.tag_probe(tag, tag_mask, remove)

    @in_turn
    def tag_send_multi(self, frames: Sequence[Any], tag: int) -> BufferRequests:
        """Send buffers for one :meth:`tag_recv_multi`, which need not know their number and sizes."""
        self.check()
        return send_frames(self, frames, tag)

    @in_turn
    def tag_recv_multi(self, tag: int, tag_mask: int = _FULL) -> FrameReceive:
        """Receive the buffers of one :meth:`tag_send_multi`; the result is a list of arrays of bytes.

        Several calls with one tag and mask receive one after the other.
        """
        self.check()
        key = int(tag), int(tag_mask)
        receives = self._frames.get(key)
        if receives is None:
            receives = self._frames[key] = FrameReceives(self, *key)
        return receives.receive()

    # Streams

    @in_turn
    def stream_send(self, buffer: Any) -> Request:
        """Send bytes behind those that were sent before."""
        self.check()
        view = bytes_view(buffer)
        request = Request(self.worker, self)
        param = self._send_param
        param.user_data = request
        return request.follow(ucp_stream_send_nbx(self.ucp, view, view.nbytes, param), param)

    @in_turn
    def stream_recv(self, buffer: Any) -> Request:
        """Receive as many bytes as the buffer holds."""
        if self.ucp.closed or self._closing is not None:
            self.check()
        view = bytes_view(buffer, writable=True)
        request = Request(self.worker, self)
        request.recv_buffer = buffer
        if not view.nbytes:
            request.finish(_OK)
            return request
        param = self._stream_param
        param.user_data = request
        return request.follow(ucp_stream_recv_nbx(self.ucp, view, view.nbytes, param)[0], param)

    # Active messages

    @in_turn
    def am_send(self, buffer: Any) -> Request:
        """Send a buffer to an :meth:`am_recv` at the other end."""
        self.check()
        view = bytes_view(buffer)
        request = Request(self.worker, self)
        param = self._am_param
        param.user_data = request
        return request.follow(ucp_am_send_nbx(self.ucp, AM_ID, b"", 0, view, view.nbytes, param), param)

    @in_turn
    def am_recv(self) -> Request:
        """Receive the next message of this endpoint; the result is an array of bytes."""
        if self.ucp.closed or self._closing is not None:
            self.check()
        request = _MessageReceive(self)
        messages = self.worker.active_messages
        if messages is None:
            raise invalid_param("am_recv needs Feature.AM")
        messages.receive(self.ucp, request)
        return request

    @in_turn
    def am_probe(self) -> bool:
        """Return whether a message has arrived that was not received."""
        messages = self.worker.active_messages
        return messages is not None and messages.probe(self.ucp)

    # Memory of the other end

    @in_turn
    def unpack_rkey(self, rkey: RemoteKey | bytes) -> RemoteMemory:
        """Return the memory of a key, through this endpoint."""
        self.check()
        return RemoteMemory(self, rkey if isinstance(rkey, RemoteKey) else RemoteKey(rkey))

    def _memory(self, rkey: Any) -> RemoteMemory:
        """Return the memory of a key, which is unpacked once."""
        if isinstance(rkey, RemoteMemory):
            return rkey
        memory = self._keys.get(rkey)
        if memory is None:
            memory = self._keys[bytes(rkey)] = self.unpack_rkey(rkey)
        return memory

    def put(
        self, buffer: Any, rkey: RemoteKey | RemoteMemory, offset: int = 0, *, address: int | None = None
    ) -> Request:
        """Call :meth:`RemoteMemory.put`, with a key that was unpacked or not."""
        return self._memory(rkey).put(buffer, offset, address)

    def get(
        self, buffer: Any, rkey: RemoteKey | RemoteMemory, offset: int = 0, *, address: int | None = None
    ) -> Request:
        """Call :meth:`RemoteMemory.get`."""
        return self._memory(rkey).get(buffer, offset, address)

    def atomic(
        self,
        op: AtomicOp | str | int,
        value: Any,
        rkey: RemoteKey | RemoteMemory,
        offset: int = 0,
        *,
        address: int | None = None,
        reply: Any = None,
        compare: Any = None,
        size: int | None = None,
    ) -> Request:
        """Call :meth:`RemoteMemory.atomic`."""
        memory = self._memory(rkey)
        return memory.atomic(op, value, offset, address=address, reply=reply, compare=compare, size=size)

    @in_turn
    def flush(self) -> Request:
        """Return a request that ends when all memory operations on this endpoint are done at the target."""
        self.check()
        request = Request(self.worker, self)
        param = self._send_param
        param.user_data = request
        return request.follow(ucp_ep_flush_nbx(self.ucp, param), param)

    def fence(self) -> None:
        """Call :meth:`Worker.fence`, which is of the whole worker."""
        self.check()
        self.worker.fence()

    # Messages with tags of this connection, as asyncio programs use them

    @property
    def tags(self) -> tuple[int, int]:
        """Tags of :meth:`send` and :meth:`recv` without a tag: (of sends, of receives).

        Both ends compute the tags from the names that they know of each other. Raises NOT_CONNECTED before that.
        """
        if self._tags is None:
            self.check()
            ucp = self.ucp
            if not ucp.connected:
                raise ucs_error(
                    UcsStatus.UCS_ERR_NOT_CONNECTED, "tags are known when the endpoint is: wait for connect()"
                )
            here = ucp.worker.uid, ucp.number
            there = ucp.remote.uid, ucp.remote_number
            self._tags = _hash64(*here, *there), _hash64(*there, *here)
        return self._tags

    def _tag(self, own: int, tag: Any, force_tag: bool) -> int:
        if tag is None:
            return self.tags[own]
        if force_tag:
            return int(tag)
        return _hash64(self.tags[own], int(tag))

    def send(self, buffer: Any, tag: Any = None, force_tag: bool = False) -> Request:
        """Send a message for :meth:`recv` of the other end with the same ``tag``.

        ``force_tag``: use ``tag`` unchanged, not within this connection's tags.
        """
        return self.tag_send(buffer, self._tag(0, tag, force_tag))

    def recv(self, buffer: Any, tag: Any = None, force_tag: bool = False) -> Request:
        """Receive a message of the other end's :meth:`send`; the result is the buffer."""
        request = self.tag_recv(buffer, self._tag(1, tag, force_tag))
        request.then(self._count)
        return request

    def send_multi(self, buffers: Sequence[Any], tag: Any = None, force_tag: bool = False) -> BufferRequests:
        """Call :meth:`tag_send_multi` for :meth:`recv_multi`."""
        return self.tag_send_multi(buffers, self._tag(0, tag, force_tag))

    def recv_multi(self, tag: Any = None, force_tag: bool = False) -> FrameReceive:
        """Call :meth:`tag_recv_multi` for :meth:`send_multi`."""
        request = self.tag_recv_multi(self._tag(1, tag, force_tag))
        request.then(self._count)
        return request

    async def send_obj(self, obj: Any, tag: Any = None) -> None:
        """Send a buffer whose size :meth:`recv_obj` need not know."""
        size = np.array([bytes_view(obj).nbytes], np.uint64)
        first, second = self.send(size, tag), self.send(obj, tag)
        await first
        await second

    async def recv_obj(self, tag: Any = None, allocator: Callable[[int], Any] = bytearray) -> Any:
        """Receive a buffer of :meth:`send_obj`, into memory that ``allocator`` makes of its size."""
        size = np.empty(1, np.uint64)
        await self.tag_recv(size, self._tag(1, tag, False))
        obj = allocator(int(size[0]))
        await self.recv(obj, tag)
        return obj

    def recv_with_handle(self, buffer: Any, probe_result: TagProbeResult) -> Request:
        """Call :meth:`tag_recv_with_handle`."""
        request = self.tag_recv_with_handle(buffer, probe_result)
        request.then(self._count)
        return request

    def _count(self, request: Request) -> None:
        if request.status is _OK:
            self._received += 1
            self._close_if_enough()

    def close_after_n_recv(self, n: int, count_from_ep_creation: bool = False) -> None:
        """Close the endpoint after ``n`` messages received by :meth:`recv` and its kin from now on."""
        if self._close_after is not None:
            raise invalid_param("close_after_n_recv: it was called before")
        wanted = n if count_from_ep_creation else self._received + n
        if wanted < self._received:
            raise invalid_param(f"n: expected at least {self._received}, as so many were received, got {n}")
        self._close_after = wanted
        self._close_if_enough()

    def _close_if_enough(self) -> None:
        if self._close_after is not None and self._received >= self._close_after and self._closing is None:
            self._close_after = None
            self.close()

    # End

    def set_close_callback(
        self, cb_func: Callable[..., object], cb_args: tuple[Any, ...] = (), cb_kwargs: dict[str, Any] | None = None
    ) -> None:
        """Have a function called once, from progress or :meth:`close`, when the endpoint ends, or now if it has.

        Only the last function is kept. The function may call anything that does not wait.
        """

        def call() -> object:
            return cb_func(*cb_args, **(cb_kwargs or {}))

        if self._status is not UcsStatus.UCS_INPROGRESS:
            call()
        else:
            self._on_close = call

    def remove_close_callback(self) -> None:
        """Remove the function of :meth:`set_close_callback`."""
        self._on_close = None

    def _over(self, status: UcsStatus) -> None:
        """End the endpoint, which has failed or is closed."""
        if self._status is not UcsStatus.UCS_INPROGRESS:
            return
        self._status = status
        reason = _CANCELED if status is _OK else status
        worker = self.worker
        if worker.active_messages is not None:
            worker.active_messages.end(self.ucp, reason, drop=status is _OK)
        for request in [each for each, by in worker.receives.items() if by is self]:
            request.cancel()
        on_close, self._on_close = self._on_close, None
        if on_close is not None:
            on_close()

    @in_turn
    def close(self, *, force: bool = False) -> Request:
        """Close the endpoint, after its sends are delivered, and notify the other end; returns a request for that.

        Waiting receives end with CANCELED. ``force``: all outstanding operations end so, now.
        """
        if self._closing is not None:
            return self._closing
        request = self._closing = Request(self.worker)
        self._finalizer.detach()
        if self.ucp.closed:
            request.finish(_OK)
        else:
            param = new_param(flags=int(ucp_ep_close_flags_t.UCP_EP_CLOSE_FLAG_FORCE) if force else 0)
            param.user_data = request
            try:
                request.follow(ucp_ep_close_nbx(self.ucp, param), param)
            except UcsError as error:
                request.finish(error.status)
        self._keys.clear()
        self._over(_OK)
        return request

    def abort(self) -> None:
        """Close the endpoint at once: outstanding operations end with CANCELED; notify the other end if possible.

        Without endpoint_error_handling the endpoint is closed as by :meth:`close`, without a wait.
        """
        self.close(force=self._force)

    def close_blocking(self, period: float = 10.0, max_attempts: int = 1) -> None:
        """Close the endpoint and wait: at most ``max_attempts`` times ``period`` seconds, then by force."""
        request = self.close()
        for _ in range(max(max_attempts, 1)):
            try:
                request.result(period)
                return
            except TimeoutError:
                if request.completed:
                    return
        self._end_now()

    @in_turn
    def _end_now(self) -> None:
        self.ucp.cut_short()

    def __exit__(self, *exc: object) -> None:
        if not self.worker.closed:
            self.close_blocking()

    async def __aenter__(self) -> Self:
        await self.connect()
        return self

    async def __aexit__(self, *exc: object) -> None:
        if not self.worker.closed:
            await self.close()


class _MessageReceive(Request):
    """A receive of an active message."""

    __slots__ = ("_endpoint",)

    def __init__(self, endpoint: Endpoint) -> None:
        super().__init__(endpoint.worker, endpoint)
        self._endpoint = endpoint

    def _cancel(self) -> None:
        messages = self._endpoint.worker.active_messages
        if messages is not None:
            messages.take_back(self._endpoint.ucp, self)


Worker.endpoint_class = Endpoint
