"""fi_getinfo(3): the offers of the process's NIC to C programs."""

import contextlib
import dataclasses
import socket
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

from amoeba_model.link_addresses import ip_of_link, mac_of_link

from amoeba.core.errno import Errno
from amoeba.core.errors import fabric_error
from amoeba.devices.devices import default_parameters
from amoeba.devices.linked import linked_parameters
from amoeba.embed import Memory, without_fair_lock
from amoeba.embed.process_nic import contexts_setting, process_nic_settings
from amoeba.libfabric.objects.constants import InfoFlags, MrMode, Progress, Threading
from amoeba.libfabric.objects.info import PROVIDER, PROVIDER_VERSION, offers, select
from amoeba.libfabric.objects.printing import version
from amoeba.libfabric.objects.structures import FabricAttr, Info
from amoeba.libfabric.provider.infos import Infos
from amoeba.libfabric.provider.process import Process
from amoeba.libfabric.provider.sockaddr import SockAddr
from amoeba.nic.nic import Nic

__all__ = ["GetInfo"]

_ALL_FLAGS = InfoFlags.FI_PROV_ATTR_ONLY | InfoFlags.FI_NUMERICHOST | InfoFlags.FI_SOURCE
_FOR_LAYERS = 1 << 59
"""Flag with which the core's own layers, such as ofi_rxm, look for providers below them."""
_NOT_NEEDED = MrMode.FI_MR_VIRT_ADDR | MrMode.FI_MR_LOCAL
_FIRST = 1
"""A port, before one is known."""


class GetInfo:
    """The provider's ``getinfo``."""

    def __init__(self, ffi: Any, memory: Memory, infos: Infos, process: Process) -> None:
        self._ffi, self._memory, self._infos, self._process = ffi, memory, infos, process

    def provider_getinfo(self, api: int, node: Any, service: Any, flags: int, hints: Any, out: Any) -> int | None:
        self._memory.require(out, "info")[0] = self._ffi.NULL
        if flags & _FOR_LAYERS:
            raise fabric_error(Errno.FI_ENODATA, "nobody need put a layer on this provider")
        if flags & ~int(_ALL_FLAGS):
            raise fabric_error(Errno.FI_EBADFLAGS, f"flags are some of {_ALL_FLAGS!r}, got {flags:#x}")
        if flags & InfoFlags.FI_PROV_ATTR_ONLY:
            only = Info(fabric_attr=FabricAttr(prov_version=PROVIDER_VERSION, api_version=api))
            out[0] = self._infos.give(only, None, None)
            return None
        own = process_nic_settings()[1]
        wanted = None if hints == self._ffi.NULL else self._infos.take(hints)
        source = None if wanted is None else wanted.source
        destination = None if wanted is None else wanted.destination
        named = self._named(self._memory.string(node), self._memory.string(service), flags, own)
        if named is not None and flags & InfoFlags.FI_SOURCE:
            source = named
        elif named is not None:
            destination = named
        if source is None:
            source = SockAddr(own, 0)
        elif source.host in ("0.0.0.0", own):
            source = dataclasses.replace(source, host=own)
        else:
            raise fabric_error(Errno.FI_ENODATA, f"the NIC is at {own} (AMOEBA_HOST), not at {source.host}")
        first = last = self._ffi.NULL
        try:
            for info in self._answers(None if wanted is None else wanted.info, api):
                made = self._infos.give(info, source, destination)
                if first == self._ffi.NULL:
                    first = made
                else:
                    last.next = made
                last = made
        except BaseException:
            self._infos.free(first)
            raise
        out[0] = first
        return None

    def _answers(self, hints: Info | None, api: int) -> list[Info]:
        """List the matching infos. C's calls come one at a time, so any thread may make them."""
        hints = Info() if hints is None else hints
        threading = hints.domain_attr.threading
        # Programs that are prepared for virtual addresses use offsets where none are needed, and some always do.
        # Those that register local buffers where it is needed need not do so: no call looks at their desc.
        modes, vector = hints.domain_attr.mr_mode, hints.domain_attr.av_type
        hints = dataclasses.replace(
            hints,
            fabric_attr=dataclasses.replace(
                hints.fabric_attr, prov_name=None, prov_version=0, api_version=min(api, version(1, 17))
            ),
            domain_attr=dataclasses.replace(
                hints.domain_attr,
                threading=Threading.FI_THREAD_UNSPEC,
                mr_mode=modes if modes & MrMode.FI_MR_BASIC else modes & ~_NOT_NEEDED,
            ),
        )
        fabric = self._process.opened
        nics: Sequence[Nic] = (_unopened(),) if fabric is None else fabric.nics
        progress: tuple[Progress, ...] = (Progress.FI_PROGRESS_MANUAL, Progress.FI_PROGRESS_AUTO)
        if fabric is not None and fabric.progress is Progress.FI_PROGRESS_AUTO:
            progress = (Progress.FI_PROGRESS_AUTO,)
        found = select(offers(nics, PROVIDER, progress), hints)
        return [
            dataclasses.replace(
                info,
                fabric_attr=dataclasses.replace(info.fabric_attr, api_version=api),
                domain_attr=dataclasses.replace(
                    info.domain_attr,
                    threading=threading or Threading.FI_THREAD_SAFE,
                    av_type=vector,  # both are available, so an open choice stays open
                ),
            )
            for info in found
        ]

    def _named(self, node: str | None, service: str | None, flags: int, own: str) -> SockAddr | None:
        """Resolve node and service. Raises FI_ENODATA for unknown names."""
        if node is None and service is None:
            return None
        return SockAddr(own if node is None else host_of(node, numeric=bool(flags & InfoFlags.FI_NUMERICHOST)),
                        0 if service is None else port_of(service))  # fmt: skip


def host_of(node: str, *, numeric: bool = False) -> str:
    """Resolve the IPv4 address of a node. Raises FI_ENODATA."""
    flags = socket.AI_NUMERICHOST if numeric else 0
    try:
        # a name server may take its time
        found = without_fair_lock(lambda: socket.getaddrinfo(node, None, socket.AF_INET, socket.SOCK_DGRAM, 0, flags))
    except (OSError, UnicodeError) as error:
        raise fabric_error(Errno.FI_ENODATA, f"{node!r} cannot be resolved: {error}") from None
    return str(found[0][4][0])


def port_of(service: str) -> int:
    """Return the port of a service, by number or name. Raises FI_ENODATA."""
    port = int(service) if service.isdecimal() else -1
    if port < 0:
        with contextlib.suppress(OSError):
            port = socket.getservbyname(service, "udp")
    if not 0 <= port < 1 << 16:
        raise fabric_error(Errno.FI_ENODATA, f"expected a port or the name of a service, got {service!r}")
    return port


def _unopened() -> Nic:
    """Describe a NIC that will be opened as the environment says. Raises FI_EINVAL for an invalid environment."""
    kind, host, _ = process_nic_settings()
    parameters = linked_parameters(kind, host, contexts_setting(kind)) or default_parameters()
    nic = SimpleNamespace(
        parameters=parameters, mac=mac_of_link("127.0.0.1", _FIRST), ip=ip_of_link("127.0.0.1", _FIRST)
    )
    return cast(Nic, nic)
