"""The Python side of ``libucp.so.0``: all its functions."""

import re
from collections.abc import Callable
from typing import Any

from amoeba_model.device import DeviceClosedError, DeviceError

from amoeba.core.errors import FabricError
from amoeba.embed import Binding, CFunction, Memory
from amoeba.openucx.libucp.atomics import Atomics
from amoeba.openucx.libucp.buffers import Buffers
from amoeba.openucx.libucp.completions import Completions
from amoeba.openucx.libucp.contexts import Contexts, Printer
from amoeba.openucx.libucp.endpoints import Endpoints
from amoeba.openucx.libucp.handle_table import HandleTable
from amoeba.openucx.libucp.later import Later
from amoeba.openucx.libucp.library import LIBRARY
from amoeba.openucx.libucp.mapped import Mapped
from amoeba.openucx.libucp.messages import Messages
from amoeba.openucx.libucp.process import Process
from amoeba.openucx.libucp.transfers import Transfers
from amoeba.openucx.libucp.workers import Given, Workers
from amoeba.openucx.ucp.status import UcsError, UcsStatus, status_of
from amoeba.transport.transmit_rings import TransmitRings

__all__ = ["sent_off", "start", "status"]

_POINTERS = 1 << 64
_MISTAKES = (UcsStatus.UCS_ERR_INVALID_PARAM, UcsStatus.UCS_ERR_INVALID_ADDR, UcsStatus.UCS_ERR_EXCEEDS_LIMIT)
_NONE = ("ucp_request_alloc", "ucp_tag_probe_nb")
"""Functions that return NULL, not an error as a pointer."""
_POSTING = re.compile(r"ucp_(tag|am|stream)_send_\w+|ucp_(put|get)_nb\w*|ucp_atomic_(post|fetch_nb|op_nbx|add\d\d)")
"""Functions that post an operation of an endpoint and do not wait for it."""


def status(error: BaseException) -> int:
    """Convert an exception to C's status."""
    if isinstance(error, UcsError | FabricError | MemoryError):
        return int(status_of(error))
    if isinstance(error, DeviceClosedError):
        return int(UcsStatus.UCS_ERR_INVALID_PARAM)
    if isinstance(error, DeviceError):
        return int(UcsStatus.UCS_ERR_NO_DEVICE)
    if isinstance(error, ValueError | TypeError | OverflowError):
        return int(UcsStatus.UCS_ERR_INVALID_PARAM)
    return int(UcsStatus.UCS_ERR_IO_ERROR)


def _status_of(function: CFunction) -> Callable[[BaseException], Any]:
    """Return the conversion of an exception to a function's return type."""
    if function.returns == "uintptr_t":
        return (lambda error: 0) if function.name in _NONE else lambda error: status(error) % _POINTERS
    if function.returns == "void":
        return lambda error: None
    if function.returns == "int":  # ucp_request_is_completed
        return lambda error: 1
    return (lambda error: 0) if function.returns == "unsigned" else status


def start(binding: Binding) -> None:
    """Define the library's functions."""
    ffi, lib = binding.ffi, binding.lib
    binding.teller.expected += (UcsError,)
    binding.teller.is_mistake = lambda function, error: isinstance(error, UcsError) and error.status in _MISTAKES
    memory, handles, process, printer = Memory(ffi), HandleTable(), Process(), Printer(lib)
    given, buffers = Given(lib, memory), Buffers(ffi, memory)
    completions = Completions(ffi, lib, memory, handles, process)
    workers = Workers(binding, memory, handles, completions, process, printer, given)
    endpoints = Endpoints(ffi, memory, handles, completions, printer)
    parts: tuple[Any, ...] = (
        Contexts(ffi, memory, handles, completions, process, printer),
        workers,
        endpoints,
        Mapped(memory, handles, printer, given),
        Transfers(ffi, memory, handles, completions, buffers),
        Atomics(memory, handles, completions, buffers),
        Messages(ffi, memory, handles, completions, buffers, workers, endpoints),
        Later(memory, handles, buffers, given),
        completions,
        buffers,
    )
    for function in LIBRARY.functions:
        (defined,) = (getattr(part, function.name) for part in parts if hasattr(part, function.name))
        if _POSTING.fullmatch(function.name):
            defined = sent_off(defined, endpoints.rings, process)
        binding.define(function.name, defined, _status_of(function))


def sent_off(
    function: Callable[..., Any], rings_of: dict[int, TransmitRings], process: Process
) -> Callable[..., Any]:
    """Wrap a posting function so that its operation leaves at once if no other is outstanding."""

    def call(ep: int, *arguments: Any) -> Any:
        result = function(ep, *arguments)
        rings = rings_of.get(ep)
        if rings is not None and rings.outstanding == 1:
            process.send_off(rings)
        return result

    return call
