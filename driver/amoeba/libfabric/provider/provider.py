"""The Python side of ``libamoeba-fi.so``: all its functions."""

from typing import Any

from amoeba_model.device import DeviceClosedError, DeviceError

from amoeba.core.errno import Errno
from amoeba.core.errors import FabricError
from amoeba.embed import Binding, Memory
from amoeba.libfabric.provider.addresses import Addresses
from amoeba.libfabric.provider.deferred import Works
from amoeba.libfabric.provider.fids import Fids
from amoeba.libfabric.provider.getinfo import GetInfo
from amoeba.libfabric.provider.infos import Infos
from amoeba.libfabric.provider.library import LIBRARY
from amoeba.libfabric.provider.lifecycle import Lifecycle
from amoeba.libfabric.provider.objects import Objects
from amoeba.libfabric.provider.process import Process
from amoeba.libfabric.provider.queues import Queues
from amoeba.libfabric.provider.transfers import Transfers, Vectors
from amoeba.libfabric.provider.triggers import Triggers

__all__ = ["is_mistake", "start", "status"]

_MISTAKES = {
    Errno.FI_EOPBADSTATE,
    Errno.FI_EINVAL,
    Errno.FI_EBADFLAGS,
    Errno.FI_EBADF,
    Errno.FI_EBUSY,
    Errno.FI_ENOSPC,
    Errno.FI_EADDRINUSE,
}
_ASKING = ("provider_getinfo", "fid_control", "ep_getopt", "ep_setopt")
"""Functions by which programs query capabilities."""


def status(error: BaseException) -> int:
    """Convert an exception to C's status: a negative error number of libfabric."""
    if isinstance(error, FabricError):
        return -int(error.fi_errno)
    if isinstance(error, DeviceClosedError):
        return -int(Errno.FI_EBADF)
    if isinstance(error, DeviceError):
        return -int(Errno.FI_EIO)
    if isinstance(error, OSError) and error.errno:
        return -error.errno
    if isinstance(error, MemoryError):
        return -int(Errno.FI_ENOMEM)
    return -int(Errno.FI_EINVAL if isinstance(error, ValueError | TypeError | OverflowError) else Errno.FI_EOTHER)


def is_mistake(function: str, error: BaseException) -> bool:
    """Return whether a refusal points to a mistake in the program, or to a NIC that is too small for it."""
    return isinstance(error, FabricError) and error.fi_errno in _MISTAKES and function not in _ASKING


def start(binding: Binding) -> None:
    """Define the library's functions."""
    ffi, lib = binding.ffi, binding.lib
    binding.teller.is_mistake = is_mistake
    memory, process = Memory(ffi), Process()
    fids, infos = Fids(ffi, lib), Infos(ffi, lib, memory)
    triggers = Triggers(ffi, memory, fids)
    vectors = Vectors(memory, triggers)
    parts: tuple[Any, ...] = (
        GetInfo(ffi, memory, infos, process),
        Objects(ffi, memory, fids, infos, process),
        Lifecycle(ffi, memory, fids, Works(ffi, memory, fids, vectors), process),
        Addresses(ffi, memory, fids, infos, process),
        Transfers(ffi, memory, fids, vectors, triggers),
        Queues(ffi, memory, fids, infos, process),
    )
    for function in LIBRARY.functions:
        (defined,) = (getattr(part, function.name) for part in parts if hasattr(part, function.name))
        # a counter cannot return a status
        binding.define(function.name, defined, status if function.returns != "uint64_t" else lambda error: 0)
