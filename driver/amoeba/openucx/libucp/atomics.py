"""Atomics (group COMM-AMO of ucp.h, and the blocking ones of ucp_compat.h)."""

from typing import Any

from amoeba.embed import Memory
from amoeba.openucx.libucp.buffers import Buffers
from amoeba.openucx.libucp.completions import SENT, Completions
from amoeba.openucx.libucp.handle_table import HandleTable
from amoeba.openucx.ucp.calls.atomics import (
    ucp_atomic_add32,
    ucp_atomic_add64,
    ucp_atomic_fetch_nb,
    ucp_atomic_op_nbx,
    ucp_atomic_post,
)
from amoeba.openucx.ucp.constants import ucp_atomic_fetch_op_t, ucp_atomic_op_t, ucp_atomic_post_op_t
from amoeba.openucx.ucp.endpoint import Endpoint
from amoeba.openucx.ucp.remote_key import RemoteKey
from amoeba.openucx.ucp.status import UcsStatus, invalid_param

__all__ = ["Atomics"]

_POST_OPS: dict[int, Any] = {int(op): op for op in ucp_atomic_post_op_t}
_FETCH_OPS: dict[int, Any] = {int(op): op for op in ucp_atomic_fetch_op_t}
_OPS: dict[int, Any] = {int(op): op for op in ucp_atomic_op_t}
_ADD = ucp_atomic_fetch_op_t.UCP_ATOMIC_FETCH_OP_FADD
_SWAP = ucp_atomic_fetch_op_t.UCP_ATOMIC_FETCH_OP_SWAP
_CSWAP = ucp_atomic_fetch_op_t.UCP_ATOMIC_FETCH_OP_CSWAP
_SIZES = (4, 8)


class Atomics:
    """Atomics on peers' numbers."""

    def __init__(self, memory: Memory, handles: HandleTable, completions: Completions, buffers: Buffers) -> None:
        self._memory, self._handles = memory, handles
        self._completions, self._buffers = completions, buffers

    def _target(self, ep: int, rkey: int) -> tuple[Endpoint, RemoteKey]:
        return self._handles.get(ep, Endpoint), self._handles.get(rkey, RemoteKey)

    def ucp_atomic_post(self, ep: int, opcode: int, value: int, op_size: int, remote_addr: int, rkey: int) -> int:
        found, key = self._target(ep, rkey)
        return ucp_atomic_post(found, _POST_OPS.get(opcode, opcode), value, op_size, remote_addr, key)

    def ucp_atomic_fetch_nb(
        self, ep: int, opcode: int, value: int, result: int, op_size: int, remote_addr: int, rkey: int, cb: Any
    ) -> int:
        found, key = self._target(ep, rkey)
        reply = self._number(result, op_size, "result")
        op, done = _FETCH_OPS.get(opcode, opcode), self._completions.on_sent(cb)
        return self._completions.answer(ucp_atomic_fetch_nb(found, op, value, reply, op_size, remote_addr, key, done))

    def ucp_atomic_op_nbx(
        self, ep: int, opcode: int, buffer: int, count: int, remote_addr: int, rkey: int, param: Any
    ) -> int:
        read = self._completions.param(param, SENT)
        found, key = self._target(ep, rkey)
        data = self._buffers.source(buffer, count, read.datatype)
        if read.reply_buffer:
            self._completions.with_reply(read, self._number(read.reply_buffer, read.datatype >> 3, "reply_buffer"))
        op = _OPS.get(opcode, opcode)
        return self._completions.answer(ucp_atomic_op_nbx(found, op, data, count, remote_addr, key, read.given), read)

    def _number(self, address: int, size: int, name: str) -> Any:
        """Return the memory of a number."""
        if size not in _SIZES:
            raise invalid_param(f"{name}: expected a number of 4 or 8 bytes, got {size}")
        return memoryview(self._buffers.view(address, size))

    def ucp_atomic_add32(self, ep: int, add: int, remote_addr: int, rkey: int) -> None:
        found, key = self._target(ep, rkey)
        ucp_atomic_add32(found, add, remote_addr, key)

    def ucp_atomic_add64(self, ep: int, add: int, remote_addr: int, rkey: int) -> None:
        found, key = self._target(ep, rkey)
        ucp_atomic_add64(found, add, remote_addr, key)

    def ucp_atomic_fadd32(self, ep: int, add: int, remote_addr: int, rkey: int, result: Any) -> int:
        return self._fetched(ep, _ADD, add, 0, 4, remote_addr, rkey, result)

    def ucp_atomic_fadd64(self, ep: int, add: int, remote_addr: int, rkey: int, result: Any) -> int:
        return self._fetched(ep, _ADD, add, 0, 8, remote_addr, rkey, result)

    def ucp_atomic_swap32(self, ep: int, swap: int, remote_addr: int, rkey: int, result: Any) -> int:
        return self._fetched(ep, _SWAP, swap, 0, 4, remote_addr, rkey, result)

    def ucp_atomic_swap64(self, ep: int, swap: int, remote_addr: int, rkey: int, result: Any) -> int:
        return self._fetched(ep, _SWAP, swap, 0, 8, remote_addr, rkey, result)

    def ucp_atomic_cswap32(self, ep: int, compare: int, swap: int, remote_addr: int, rkey: int, result: Any) -> int:
        return self._fetched(ep, _CSWAP, compare, swap, 4, remote_addr, rkey, result)

    def ucp_atomic_cswap64(self, ep: int, compare: int, swap: int, remote_addr: int, rkey: int, result: Any) -> int:
        return self._fetched(ep, _CSWAP, compare, swap, 8, remote_addr, rkey, result)

    def _fetched(
        self, ep: int, op: ucp_atomic_fetch_op_t, value: int, swap: int, size: int, addr: int, rkey: int, result: Any
    ) -> int:
        """Perform an atomic and wait for it; the number's earlier value is written to ``result``."""
        self._memory.require(result, "result")
        found, key = self._target(ep, rkey)
        self._completions.outside(found.worker)
        reply = bytearray(swap.to_bytes(size, "little"))
        request = ucp_atomic_fetch_nb(found, op, value, reply, size, addr, key, None)
        status = self._completions.until_over(request)
        if status == UcsStatus.UCS_OK:
            result[0] = int.from_bytes(reply, "little")
        return status
