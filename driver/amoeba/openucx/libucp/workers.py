"""Workers (group WORKER of ucp.h), flushes and fences, and sleeping until there is work."""

import io
from typing import Any

from amoeba_model.ucp import UCP_ADDRESS

from amoeba.core.process_memory import accessible
from amoeba.embed import Binding, Memory, wait_until, without_fair_lock
from amoeba.openucx.libucp.callbacks import elsewhere
from amoeba.openucx.libucp.completions import SENT, Completions
from amoeba.openucx.libucp.contexts import Printer
from amoeba.openucx.libucp.fields import Reader, Writer, read_params, write_attributes
from amoeba.openucx.libucp.handle_table import HandleTable
from amoeba.openucx.libucp.process import Process
from amoeba.openucx.ucp.calls.flushes import ucp_worker_fence, ucp_worker_flush_nb, ucp_worker_flush_nbx
from amoeba.openucx.ucp.calls.wakeup import ucp_worker_arm, ucp_worker_get_efd, ucp_worker_signal
from amoeba.openucx.ucp.calls.workers import (
    ucp_worker_address_query,
    ucp_worker_create,
    ucp_worker_get_address,
    ucp_worker_print_info,
    ucp_worker_query,
)
from amoeba.openucx.ucp.constants import UCP_ENTITY_NAME_MAX, ucs_thread_mode_t
from amoeba.openucx.ucp.context import Context
from amoeba.openucx.ucp.status import UcsBusyError, UcsStatus, invalid_param, ucs_error
from amoeba.openucx.ucp.structures import ucp_worker_address_attr_t, ucp_worker_attr_t, ucp_worker_params_t
from amoeba.openucx.ucp.worker import Worker

__all__ = ["Given", "Workers"]

_WATCHED = 8
"""Bytes that ucp_worker_wait_mem watches."""
_WORD = 64
_WORDS = 16
"""Of ``ucs_cpu_set_t``."""


class Given:
    """Bytes that the library has allocated for the program, which frees them by a call."""

    def __init__(self, lib: Any, memory: Memory) -> None:
        self._lib, self._memory = lib, memory
        self._addresses: set[int] = set()

    def copy(self, data: bytes) -> int:
        """Copy bytes and return the address. Raises NO_MEMORY."""
        start = self._lib.memory_new(len(data))
        address = self._memory.address(start)
        if not address:
            raise ucs_error(UcsStatus.UCS_ERR_NO_MEMORY, f"no memory is left for {len(data)} bytes")
        self._memory.view(start, len(data))[:] = data
        self._addresses.add(address)
        return address

    def free(self, address: int) -> None:
        """Free bytes. Raises INVALID_PARAM for another address, and for bytes that are free already."""
        if address not in self._addresses:
            raise invalid_param(f"expected what the library has allocated, got {address:#x}")
        self._addresses.remove(address)
        self._lib.memory_free(address)


def signed(number: int) -> int:
    """Convert a pointer to a signed 64-bit number, as Linux' epoll keeps it."""
    return number - (1 << 64) if number >> 63 else number


class Workers:
    """Calls on workers."""

    def __init__(
        self,
        binding: Binding,
        memory: Memory,
        handles: HandleTable,
        completions: Completions,
        process: Process,
        printer: Printer,
        given: Given,
    ) -> None:
        self._lib = binding.lib
        self._memory, self._handles, self._completions = memory, handles, completions
        self._process, self._printer, self._given = process, printer, given
        self.kept: dict[int, dict[int, Any]] = {}
        """Active messages' data that the program keeps, by worker number and address."""

    def _get(self, number: int) -> Worker:
        return self._handles.get(number, Worker)

    def ucp_worker_create(self, context: int, params: Any, worker_p: Any) -> None:
        self._memory.require(worker_p, "worker_p")
        readers: dict[str, Reader] = {
            "name": self._memory.string,
            "cpu_mask": _processors,
            "user_data": signed,
        }
        taken = read_params(self._memory, params, ucp_worker_params_t, readers)
        found = self._handles.get(context, Context)
        made = ucp_worker_create(found, taken)
        number = worker_p[0] = self._handles.add(made, found)
        if made.wakeup is not None:
            self._lib.amoeba_set_bell(number, made.wakeup.signal_descriptor)

    def ucp_worker_destroy(self, worker: int) -> None:
        found = self._get(worker)
        if elsewhere(found):
            wait_until(lambda: found.closed or not elsewhere(found), self._process.nic.rest)
        try:
            found.close()
        finally:
            if found.closed:
                self._handles.remove(worker, Worker)
                self._lib.amoeba_set_bell(worker, -1)
                self._completions.forget(worker)
                self.kept.pop(worker, None)

    def ucp_worker_query(self, worker: int, attr: Any) -> None:
        self._memory.require(attr, "attr")
        found = self._get(worker)
        filled = ucp_worker_query(found, ucp_worker_attr_t(field_mask=attr.field_mask))
        if filled.asks("thread_mode"):  # a lock serializes calls, so any thread may call
            filled.thread_mode = found.params.thread_mode or ucs_thread_mode_t.UCS_THREAD_MODE_SINGLE

        def put_name(given: Any, name: str) -> None:
            self._memory.put_string(given.name, UCP_ENTITY_NAME_MAX, name)

        def put_address(given: Any, address: bytes) -> None:
            given.address = self._given.copy(address)

        writers: dict[str, Writer] = {
            "name": put_name,
            "address": put_address,
            "address_flags": lambda given, flags: None,
        }
        write_attributes(self._memory, attr, filled, writers)

    def ucp_worker_print_info(self, worker: int, stream: Any) -> None:
        text = io.StringIO()
        ucp_worker_print_info(self._get(worker), text)
        self._printer.to(stream, text)

    def ucp_worker_get_address(self, worker: int, address_p: Any, address_length_p: Any) -> None:
        self._memory.require(address_p, "address_p")
        self._memory.require(address_length_p, "address_length_p")
        address, length = ucp_worker_get_address(self._get(worker))
        address_p[0] = self._given.copy(address)
        address_length_p[0] = length

    def ucp_worker_release_address(self, worker: int, address: int) -> None:
        self._given.free(address)

    def ucp_worker_address_query(self, address: int, attr: Any) -> None:
        self._memory.require(attr, "attr")
        packed = bytes(self._memory.view(address, UCP_ADDRESS.size))
        wanted = ucp_worker_address_attr_t(field_mask=attr.field_mask)
        write_attributes(self._memory, attr, ucp_worker_address_query(packed, wanted))

    def ucp_worker_progress(self, worker: int) -> int:
        found = self._get(worker)
        return 0 if elsewhere(found) else found.progress()

    # Waiting

    def ucp_worker_get_efd(self, worker: int, fd: Any) -> None:
        self._memory.require(fd, "fd")
        fd[0] = ucp_worker_get_efd(self._get(worker))

    def ucp_worker_arm(self, worker: int) -> int:
        try:
            ucp_worker_arm(self._get(worker))
        except UcsBusyError:  # a normal answer, no mistake
            return UcsStatus.UCS_ERR_BUSY
        return UcsStatus.UCS_OK

    def ucp_worker_wait(self, worker: int) -> None:
        if self.ucp_worker_arm(worker) == UcsStatus.UCS_OK:
            wakeup = self._get(worker).wakeup
            assert wakeup is not None
            without_fair_lock(wakeup.sleep)

    def ucp_worker_wait_mem(self, worker: int, address: int) -> None:
        self._get(worker)
        if not accessible(address, _WATCHED):
            raise invalid_param(f"address: expected memory of the process, got {address:#x}")
        view = self._memory.view(address, _WATCHED)
        before = bytes(view)

        def something() -> bool:
            self._process.nic.step()
            return bytes(view) != before or self.ucp_worker_arm(worker) != UcsStatus.UCS_OK

        wait_until(something, self._process.nic.rest)

    def ucp_worker_signal(self, worker: int) -> None:
        ucp_worker_signal(self._get(worker))

    # Order

    def ucp_worker_fence(self, worker: int) -> None:
        ucp_worker_fence(self._get(worker))

    def ucp_worker_flush(self, worker: int) -> int:
        found = self._get(worker)
        self._completions.outside(found)
        return self._completions.until_over(ucp_worker_flush_nbx(found))

    def ucp_worker_flush_nb(self, worker: int, flags: int, cb: Any) -> int:
        return self._completions.answer(ucp_worker_flush_nb(self._get(worker), flags, self._completions.on_sent(cb)))

    def ucp_worker_flush_nbx(self, worker: int, param: Any) -> int:
        read = self._completions.param(param, SENT)
        return self._completions.answer(ucp_worker_flush_nbx(self._get(worker), read.given), read)


def _processors(mask: Any) -> frozenset[int]:
    """Of a ``ucs_cpu_set_t``."""
    return frozenset(
        word * _WORD + bit for word in range(_WORDS) for bit in range(_WORD) if mask.ucs_bits[word] >> bit & 1
    )
