"""Calls on objects of several classes: fi_close, the binding calls, and fi_control with its commands."""

from collections.abc import Callable
from typing import Any

from amoeba.core.errno import Errno
from amoeba.core.errors import fabric_error
from amoeba.embed import Memory
from amoeba.libfabric.calls.control import fi_control
from amoeba.libfabric.calls.endpoint import fi_ep_bind, fi_scalable_ep_bind
from amoeba.libfabric.objects.constants import BindFlags, Control, DomainFlags, WaitObj
from amoeba.libfabric.objects.endpoints.connected import ConnectedEndpoint
from amoeba.libfabric.provider.deferred import Works
from amoeba.libfabric.provider.fids import Fid, FidClass, Fids
from amoeba.libfabric.provider.objects import EndpointSettings, QueueSettings
from amoeba.libfabric.provider.process import Process

__all__ = ["Lifecycle"]

_ENDPOINTS = (FidClass.EP, FidClass.SEP, FidClass.TX_CTX, FidClass.RX_CTX)
_VECTOR_FLAGS = BindFlags.FI_TRANSMIT
"""Flags of an endpoint's binding to an object without flags of its own."""
_WITHOUT_FLAGS = (FidClass.AV, FidClass.EQ, FidClass.STX_CTX, FidClass.SRX_CTX)
_RAW_KEY = 8


class Lifecycle:
    """``struct fi_ops`` of all objects."""

    def __init__(self, ffi: Any, memory: Memory, fids: Fids, works: Works, process: Process) -> None:
        self._ffi, self._null = ffi, ffi.NULL
        self._memory, self._fids, self._works, self._process = memory, fids, works, process
        self._commands: dict[Control, Callable[[Fid, Any], int | None]] = {
            Control.FI_GETOPSFLAG: self._get_flags,
            Control.FI_SETOPSFLAG: self._set_flags,
            Control.FI_ALIAS: self._alias,
            Control.FI_GETWAIT: self._get_wait,
            Control.FI_GETWAITOBJ: self._get_wait_obj,
            Control.FI_ENABLE: self._enable,
            Control.FI_BACKLOG: self._set_backlog,
            Control.FI_QUEUE_WORK: self._works.queue,
            Control.FI_CANCEL_WORK: self._works.cancel,
            Control.FI_FLUSH_WORK: self._works.flush,
            Control.FI_REFRESH: self._refresh,
            Control.FI_GET_RAW_MR: self._get_raw,
            Control.FI_MAP_RAW_MR: self._map_raw,
            Control.FI_UNMAP_KEY: lambda fid, arg: fi_control(
                fid.subject, Control.FI_UNMAP_KEY, self._int(arg, "uint64_t *")[0]
            ),
        }

    def fid_close(self, address: int) -> None:
        """Close an object. Raises FI_EBUSY while objects made from it, or bound to it, are open."""
        fid = self._fids.get(address)
        if fid.uses:
            raise fabric_error(Errno.FI_EBUSY, f"{fid.uses} objects use {fid.subject!r}")
        if fid.fclass is FidClass.MR:
            fid.subject.close()  # the NIC may still use the memory if this fails: the program closes it again
        self._fids.remove(fid)
        if fid.fclass is FidClass.DOMAIN:
            self._works.forget(fid.subject)
        if fid.fclass is not FidClass.CONNREQ:
            fid.subject.close()

    def fid_bind(self, address: int, bound: int, flags: int) -> None:
        fid, other = self._fids.get(address), self._fids.get(bound)
        if fid.fclass in _ENDPOINTS:
            self._bind_endpoint(fid, other, flags)
        elif fid.fclass is FidClass.DOMAIN and other.fclass is FidClass.EQ:
            fid.subject.bind(other.subject, DomainFlags(flags))
        elif fid.fclass is FidClass.MR and other.fclass is FidClass.CNTR:
            fid.subject.bind(other.subject, BindFlags(flags))
        elif (fid.fclass, other.fclass) in ((FidClass.AV, FidClass.EQ), (FidClass.PEP, FidClass.EQ)):
            if flags:
                raise fabric_error(Errno.FI_EBADFLAGS, f"this binding has no flags, got {flags:#x}")
            fid.subject.bind(other.subject)
        elif fid.fclass is FidClass.MR and other.fclass in _ENDPOINTS:
            return  # FI_MR_ENDPOINT, which the NIC does not need: regions belong to the domain
        else:
            raise fabric_error(Errno.FI_EINVAL, f"a {fid.fclass.name} is not bound to a {other.fclass.name}")
        fid.hold(other)

    def _bind_endpoint(self, fid: Fid, other: Fid, flags: int) -> None:
        if other.fclass is FidClass.EQ and not _is_connected(fid.subject):
            return  # the object has no events for an event queue
        if fid.fclass is FidClass.SEP:
            if other.fclass is not FidClass.AV:
                raise fabric_error(Errno.FI_EINVAL, f"{other.fclass.name} is bound to contexts of the endpoint")
            fi_scalable_ep_bind(fid.subject, other.subject, 0)
            return
        if other.fclass in _WITHOUT_FLAGS:
            flags = int(_VECTOR_FLAGS)
        fi_ep_bind(fid.subject, other.subject, flags)

    def fid_control(self, address: int, command: int, arg: Any) -> int | None:
        fid = self._fids.get(address)
        known = self._commands.get(Control(command)) if command in list(Control) else None
        if known is None:
            raise fabric_error(Errno.FI_ENOSYS, f"a {fid.fclass.name} does not know command {command}")
        return known(fid, arg)

    def _int(self, arg: Any, kind: str) -> Any:
        return self._ffi.cast(kind, self._memory.require(arg, "arg"))

    def _get_flags(self, fid: Fid, arg: Any) -> None:
        where = self._int(arg, "uint64_t *")
        where[0] = int(fi_control(fid.subject, Control.FI_GETOPSFLAG, where[0]))

    def _set_flags(self, fid: Fid, arg: Any) -> None:
        fi_control(fid.subject, Control.FI_SETOPSFLAG, self._int(arg, "uint64_t *")[0])
        self._fids.note_flags(fid)

    def _alias(self, fid: Fid, arg: Any) -> None:
        wanted = self._int(arg, "struct fi_alias *")
        self._memory.require(wanted.fid, "fid")
        made = fi_control(fid.subject, Control.FI_ALIAS, wanted.flags)
        alias = self._fids.add(fid.fclass, made, fid.context, (fid,))
        wanted.fid[0] = self._ffi.cast("struct fid *", alias.address)

    def _get_wait(self, fid: Fid, arg: Any) -> None:
        where = self._int(arg, "int *")
        settings = fid.more
        if isinstance(settings, QueueSettings) and settings.wait_obj is not WaitObj.FI_WAIT_FD:
            raise fabric_error(Errno.FI_ENOSYS, f"it was opened with {settings.wait_obj!r}, which has no descriptor")
        where[0] = fi_control(fid.subject, Control.FI_GETWAIT)

    def _get_wait_obj(self, fid: Fid, arg: Any) -> None:
        if not isinstance(fid.more, QueueSettings):
            raise fabric_error(Errno.FI_ENOSYS, f"nobody waits for a {fid.fclass.name}")
        self._int(arg, "int *")[0] = int(fid.more.wait_obj)

    def _enable(self, fid: Fid, arg: Any) -> None:
        if isinstance(fid.more, EndpointSettings):
            self._process.move(fid.more.port)
        fi_control(fid.subject, Control.FI_ENABLE)

    def _set_backlog(self, fid: Fid, arg: Any) -> None:
        fi_control(fid.subject, Control.FI_BACKLOG, self._int(arg, "int *")[0])

    def _refresh(self, fid: Fid, arg: Any) -> None:
        wanted = self._int(arg, "struct fi_mr_modify *").attr
        parts = [
            self._memory.view(wanted.mr_iov[index].iov_base, wanted.mr_iov[index].iov_len)
            for index in range(min(wanted.iov_count, 1 << 16) if wanted.mr_iov != self._null else 0)
        ]
        fi_control(fid.subject, Control.FI_REFRESH, parts)

    def _get_raw(self, fid: Fid, arg: Any) -> None:
        wanted = self._int(arg, "struct fi_mr_raw_attr *")
        size = self._memory.require(wanted.key_size, "key_size")
        base, key = fi_control(fid.subject, Control.FI_GET_RAW_MR)
        space, size[0] = size[0], _RAW_KEY
        if space < _RAW_KEY:
            raise fabric_error(Errno.FI_ETOOSMALL, f"a raw key has {_RAW_KEY} bytes, there is space for {space}")
        self._memory.view(wanted.raw_key, _RAW_KEY)[:] = key
        self._memory.require(wanted.base_addr, "base_addr")[0] = base

    def _map_raw(self, fid: Fid, arg: Any) -> None:
        wanted = self._int(arg, "struct fi_mr_map_raw *")
        where = self._memory.require(wanted.key, "key")
        if wanted.key_size != _RAW_KEY:
            raise fabric_error(Errno.FI_EINVAL, f"a raw key has {_RAW_KEY} bytes, got {wanted.key_size}")
        raw = bytes(self._memory.view(wanted.raw_key, _RAW_KEY))
        where[0] = fi_control(fid.subject, Control.FI_MAP_RAW_MR, (wanted.base_addr, raw))


def _is_connected(subject: Any) -> bool:
    return isinstance(subject, ConnectedEndpoint)

