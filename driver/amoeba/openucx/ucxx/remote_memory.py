"""A peer's memory, through one endpoint: put, get, atomics, and a file over it."""

import io
import weakref
from typing import Any, Protocol

import numpy as np

from amoeba.openucx.ucp.batches import atomic_batch, get_batch, put_batch
from amoeba.openucx.ucp.calls.atomics import ucp_atomic_op_nbx
from amoeba.openucx.ucp.calls.memory import ucp_ep_rkey_unpack
from amoeba.openucx.ucp.calls.rma import ucp_get_nbx, ucp_put_nbx
from amoeba.openucx.ucp.constants import ucp_atomic_op_t
from amoeba.openucx.ucp.datatypes import ucp_dt_make_contig
from amoeba.openucx.ucp.endpoint import Endpoint as UcpEndpoint
from amoeba.openucx.ucp.kinds import one_of
from amoeba.openucx.ucp.remote_key import RemoteKey as UcpKey
from amoeba.openucx.ucp.requests import Request as UcpRequest
from amoeba.openucx.ucp.status import invalid_param, wrong_type
from amoeba.openucx.ucxx.buffers import bytes_view
from amoeba.openucx.ucxx.lifetime import Closable
from amoeba.openucx.ucxx.names import AtomicOp
from amoeba.openucx.ucxx.packed import RemoteKey
from amoeba.openucx.ucxx.progress import in_turn
from amoeba.openucx.ucxx.request import BufferRequests, Home, Request, ended, new_param

__all__ = ["RemoteFile", "RemoteMemory"]

_OP = one_of(ucp_atomic_op_t)
_FETCHING = (AtomicOp.SWAP, AtomicOp.CSWAP)
_WORDS = {each.name.lower(): each for each in AtomicOp}
_UCP_OPS = {each: ucp_atomic_op_t(int(each)) for each in AtomicOp}
_SIZES = (4, 8)


class _Through(Protocol):
    """An endpoint, as this module uses it."""

    @property
    def worker(self) -> Home: ...

    ucp: UcpEndpoint

    def check(self) -> None:
        """Raise the error that keeps the endpoint from being used."""

    def flush(self) -> Request:
        """Return a request that ends when all memory operations on the endpoint are done at the target."""


class RemoteMemory(Closable):
    """Memory of a peer, made by :meth:`Endpoint.unpack_rkey`.

    Offsets are from the first byte. The peer's NIC refuses accesses outside the memory, or beyond its rights.
    """

    def __init__(self, endpoint: _Through, key: RemoteKey) -> None:
        self.endpoint = endpoint
        self.packed = key
        self.ucp: UcpKey = ucp_ep_rkey_unpack(endpoint.ucp, bytes(key))
        """The key of ``amoeba.ucp``."""
        self.address = self.ucp.address
        """Address of the first byte in its own process."""
        self.length = self.ucp.length
        self._progress = endpoint.worker._progress
        self._param = new_param()
        self._atomic_params = {size: new_param(datatype=ucp_dt_make_contig(size)) for size in _SIZES}
        self._finalizer = weakref.finalize(self, self._progress.abandon, self.ucp.close)

    @in_turn
    def put(self, buffer: Any, offset: int = 0, address: int | None = None) -> Request:
        """Write a buffer at an offset, or at an address. The request ends when the buffer may be changed.

        Up to 64 bytes are copied, so that the request ends at once; longer data is in the peer's memory when it ends.
        :meth:`Endpoint.flush` ends when all data is there.
        """
        self.endpoint.check()
        view = bytes_view(buffer)
        request = Request(self.endpoint.worker, self)
        param = self._param
        param.user_data = request
        where = self.address + offset if address is None else address
        return request.follow(ucp_put_nbx(self.endpoint.ucp, view, view.nbytes, where, self.ucp, param), param)

    @in_turn
    def get(self, buffer: Any, offset: int = 0, address: int | None = None) -> Request:
        """Read from an offset, or an address, into a buffer, which :meth:`Request.result` returns."""
        self.endpoint.check()
        view = bytes_view(buffer, writable=True)
        request = Request(self.endpoint.worker, self)
        request.recv_buffer = buffer
        param = self._param
        param.user_data = request
        where = self.address + offset if address is None else address
        return request.follow(ucp_get_nbx(self.endpoint.ucp, view, view.nbytes, where, self.ucp, param), param)

    @in_turn
    def atomic(
        self,
        op: AtomicOp | str | int,
        value: Any,
        offset: int = 0,
        *,
        address: int | None = None,
        reply: Any = None,
        compare: Any = None,
        size: int | None = None,
    ) -> Request:
        """Change numbers of 4 or 8 bytes, each atomically for all accesses through the peer's NIC.

        ``op``: an :class:`AtomicOp`, or its name ("add", "and", "or", "xor", "swap", "cswap"). ``value``: a NumPy
        scalar or an array, whose dtype has the size, or an int, of 8 bytes unless ``size`` says 4. "cswap" stores
        ``value`` where the number equals ``compare``. The numbers of an array are changed one after the other, in
        order.

        ``reply``: buffer for the earlier numbers; True: memory of the request's own. "swap" and "cswap" always have a
        reply. The request's result is the earlier numbers: ``reply`` if it is a buffer, else in the shape of
        ``value``. Without a reply the request ends at once, as the value is copied; a flush waits for the change.

        Raises INVALID_PARAM for other numbers, and for floats but in "swap" and "cswap", which compare bits.
        """
        self.endpoint.check()
        code = _op_of(op)
        operand = _numbers("value", value, size, code)
        width = operand.itemsize
        expected = None
        if code is AtomicOp.CSWAP:
            if compare is None:
                raise invalid_param("compare: CSWAP needs what the number is compared with, got None")
            expected = _numbers("compare", compare, width, code)
            if expected.itemsize != width or expected.size not in (1, operand.size):
                raise invalid_param(f"compare: expected {operand.size} numbers of {width} bytes, got {compare!r}")
        elif compare is not None:
            raise invalid_param(f"compare: {code.name} compares nothing")
        before, answer = _reply_of(reply, operand, value, needed=code in _FETCHING)
        where = self.address + offset if address is None else address
        requests = []
        for index in range(operand.size):
            request = Request(self.endpoint.worker, self)
            param = self._atomic_params[width]
            param.user_data = request
            sent = operand[index : index + 1]
            param.reply_buffer = None if before is None else before[index * width : (index + 1) * width]
            if expected is not None and before is not None:
                # what UCP compares with is its buffer, and what it stores is what the reply buffer holds
                before[index * width : (index + 1) * width] = sent.view(np.uint8).data
                sent = expected[index % expected.size : index % expected.size + 1]
            param.op_attr_mask = _ATOMIC_MASK if before is None else _FETCH_MASK
            place = where + index * width
            handle = ucp_atomic_op_nbx(self.endpoint.ucp, _UCP_OPS[code], sent, 1, place, self.ucp, param)
            requests.append(request.follow(handle, param))
        if len(requests) == 1:
            requests[0].recv_buffer = answer
            return requests[0]
        whole = BufferRequests(self.endpoint.worker, requests)
        whole.recv_buffer = answer
        return whole

    @in_turn
    def put_batch(self, values: Any, offsets: Any) -> Request:
        """Write each row of an array to its offset. The request ends when all are in the peer's memory."""
        self.endpoint.check()
        return self._batch(put_batch(self.ucp, values, self._places(offsets)), None)

    @in_turn
    def get_batch(self, into: Any, offsets: Any) -> Request:
        """Read the memory at each offset into a row of an array, which is the result."""
        self.endpoint.check()
        return self._batch(get_batch(self.ucp, into, self._places(offsets)), into)

    @in_turn
    def atomic_batch(
        self, op: AtomicOp | str | int, values: Any, offsets: Any, *, reply: Any = None, compare: Any = None
    ) -> Request:
        """Change the number at each offset by its value: an array of 4 or 8 bytes each, as ``reply`` and ``compare``.

        ``reply``: buffer for the earlier numbers; True: an array of the request's own. "swap" and "cswap"
        need one. The request ends when all have been changed.
        """
        self.endpoint.check()
        code = _op_of(op)
        before = np.empty_like(values) if reply is True else reply
        handle = atomic_batch(self.ucp, int(_UCP_OPS[code]), values, self._places(offsets), before, compare)
        return self._batch(handle, before)

    def _places(self, offsets: Any) -> Any:
        given = np.asarray(offsets)
        if given.dtype.kind not in "iu" or given.ndim != 1 or (given.dtype.kind == "i" and (given < 0).any()):
            raise wrong_type("offsets", "one dimension of integers from 0 on", offsets)
        return given.astype(np.uint64) + np.uint64(self.address)

    def _batch(self, handle: UcpRequest, result: Any) -> Request:
        request = Request(self.endpoint.worker, self)
        request.recv_buffer = result
        if handle.done:
            request.finish(handle.code)
        else:
            handle.callback, handle.user_data = ended, request
        return request

    def open(self) -> "RemoteFile":
        """Open the memory as a file."""
        return RemoteFile(self)

    @property
    def closed(self) -> bool:
        return self.ucp.closed

    @in_turn
    def close(self) -> None:
        """Forget the key; outstanding operations with it continue."""
        self._finalizer.detach()
        self.ucp.close()

    def __repr__(self) -> str:
        return f"<RemoteMemory {self.length} bytes at {self.address:#x}>"


_ATOMIC_MASK = int(new_param(datatype=ucp_dt_make_contig(8)).mask)
_FETCH_MASK = int(new_param(datatype=ucp_dt_make_contig(8), reply_buffer=bytearray(8)).mask)


def _op_of(op: Any) -> AtomicOp:
    if op.__class__ is AtomicOp:
        return AtomicOp(op)
    if isinstance(op, str):
        found = _WORDS.get(op.lower())
        if found is None:
            raise invalid_param(f"op: expected one of {', '.join(_WORDS)}, got {op!r}")
        return found
    return AtomicOp(int(_OP("op", op)))


def _numbers(name: str, value: Any, size: int | None, op: AtomicOp) -> "np.ndarray[Any, Any]":
    """Convert an operand to consecutive numbers of 4 or 8 bytes."""
    if isinstance(value, int) and not isinstance(value, np.generic):
        width = 8 if size is None else size
        if width not in _SIZES:
            raise invalid_param(f"size: an atomic has 4 or 8 bytes, got {size!r}")
        if not -(1 << 8 * width - 1) <= value < 1 << 8 * width:
            raise invalid_param(f"{name}: {value} is no number of {width} bytes")
        return np.frombuffer((value % (1 << 8 * width)).to_bytes(width, "little"), f"<u{width}")
    if not isinstance(value, np.ndarray | np.generic):
        raise wrong_type(name, "an int, a NumPy scalar or an array of numbers of 4 or 8 bytes", value)
    numbers = np.ascontiguousarray(value).reshape(-1)
    if numbers.dtype.kind not in "iuf" or numbers.itemsize not in _SIZES or not numbers.dtype.isnative:
        raise invalid_param(f"{name}: expected numbers of 4 or 8 bytes, got {numbers.dtype}")
    if numbers.dtype.kind == "f" and op not in _FETCHING:
        raise invalid_param(f"{name}: {op.name} is for integers, got {numbers.dtype}")
    if size is not None and size != numbers.itemsize:
        raise invalid_param(f"{name}: expected numbers of {size} bytes, got {numbers.dtype}")
    if not numbers.size:
        raise invalid_param(f"{name}: expected a number, got none")
    return numbers


def _reply_of(reply: Any, operand: Any, value: Any, *, needed: bool) -> tuple[memoryview | None, Any]:
    """Return (the bytes to be written, the request's result)."""
    if (reply is None and not needed) or reply is False:
        if needed:
            raise invalid_param("reply: SWAP and CSWAP need one")
        return None, None
    if reply is None or reply is True:
        own = np.empty(operand.shape, operand.dtype)
        shaped = own.reshape(value.shape) if isinstance(value, np.ndarray) else own.reshape(())
        return own.view(np.uint8).data, shaped
    view = bytes_view(reply, writable=True, name="reply").cast("B")
    if view.nbytes != operand.nbytes:
        raise invalid_param(f"reply: expected {operand.nbytes} bytes, got {view.nbytes}")
    return view, reply


class RemoteFile(io.RawIOBase):
    """A peer's memory as a file, unbuffered: every read and write waits for its end."""

    def __init__(self, memory: RemoteMemory) -> None:
        self._memory = memory
        self._place = 0

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Set the position, also behind the end."""
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._place, io.SEEK_END: self._memory.length}[whence]
        if start + offset < 0:
            raise ValueError(f"negative place {start + offset}")
        self._place = start + offset
        return self._place

    def tell(self) -> int:
        return self._place

    def readinto(self, buffer: Any) -> int:
        """Read the rest, at most a buffer full."""
        view = memoryview(buffer).cast("B")[: max(self._memory.length - self._place, 0)]
        if view.nbytes:
            self._memory.get(view, self._place).result()
            self._place += view.nbytes
        return view.nbytes

    def write(self, buffer: Any) -> int:
        """Write as much as fits before the end; the data is there when this returns."""
        view = memoryview(buffer).cast("B")[: max(self._memory.length - self._place, 0)]
        if view.nbytes:
            self._memory.put(view, self._place).result()
            self._memory.endpoint.flush().result()
            self._place += view.nbytes
        return view.nbytes
