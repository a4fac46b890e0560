"""Address vectors, fi_av(3), and names and connections, fi_cm(3)."""

from typing import Any

from amoeba.core.errno import Errno
from amoeba.core.errors import FabricError, fabric_error
from amoeba.embed import Memory
from amoeba.libfabric.objects.connections import CM_DATA_SIZE, SocketAddress
from amoeba.libfabric.objects.constants import AvFlags
from amoeba.libfabric.objects.endpoints.connected import ConnectedEndpoint
from amoeba.libfabric.objects.names import following
from amoeba.libfabric.provider.fids import Fid, FidClass, Fids
from amoeba.libfabric.provider.getinfo import host_of, port_of
from amoeba.libfabric.provider.infos import Infos
from amoeba.libfabric.provider.objects import EndpointSettings
from amoeba.libfabric.provider.process import Process
from amoeba.libfabric.provider.sockaddr import SIZE, SockAddr

__all__ = ["Addresses"]

_MAX_ADDRESSES = 1 << 20
"""Maximum number of addresses in one call: more than any NIC has peers."""
_NOBODY = b""
"""An address that cannot be inserted."""


class Addresses:
    """The calls on address vectors, and on names and connections of endpoints."""

    def __init__(self, ffi: Any, memory: Memory, fids: Fids, infos: Infos, process: Process) -> None:
        self._ffi, self._null = ffi, ffi.NULL
        self._memory, self._fids, self._infos, self._process = memory, fids, infos, process

    # fi_av

    def av_insert(self, av: int, addr: int, count: int, fi_addr: Any, flags: int, context: Any) -> int:
        if count > _MAX_ADDRESSES:
            raise fabric_error(Errno.FI_EINVAL, f"at most {_MAX_ADDRESSES} addresses are inserted, got {count}")
        data = bytes(self._memory.view(addr, count * SIZE))
        addresses = [_known(data[start : start + SIZE]) for start in range(0, len(data), SIZE)]
        return self._insert(av, addresses, fi_addr, flags, context)

    def av_insertsym(
        self,
        av: int,
        node: Any,
        nodes: int,
        service: Any,
        services: int,
        fi_addr: Any,
        flags: int,
        context: Any,
    ) -> int:
        host = self._memory.string(self._memory.require(node, "node"))
        name = self._memory.string(self._memory.require(service, "service"))
        assert host is not None
        assert name is not None
        if nodes * services > _MAX_ADDRESSES:
            raise fabric_error(Errno.FI_EINVAL, f"at most {_MAX_ADDRESSES} addresses, got {nodes} x {services}")
        addresses = []
        for each in following(host, nodes):
            for index in range(services):
                try:
                    addresses.append(SockAddr(host_of(each), port_of(name) + index).address())
                except FabricError:
                    addresses.append(_NOBODY)
        return self._insert(av, addresses, fi_addr, flags, context)

    def _insert(self, av: int, addresses: list[bytes], fi_addr: Any, flags: int, context: Any) -> int:
        """Insert addresses and return how many succeeded; store their numbers, and the other ones' errors."""
        vector = self._fids.subject(av, FidClass.AV)
        wanted = AvFlags(flags)
        if wanted & AvFlags.FI_SYNC_ERR:
            self._memory.require(context, "context")
        done = vector.insert_all(addresses, flags=wanted, context=self._memory.address(context))
        if fi_addr != self._null:
            for index, number in enumerate(done.fi_addr):
                fi_addr[index] = number
        if done.errors:
            said = self._ffi.cast("int *", context)
            for index, error in enumerate(done.errors):
                said[index] = int(error)
        return int(done.count)

    def av_remove(self, av: int, fi_addr: Any, count: int, flags: int) -> None:
        vector = self._fids.subject(av, FidClass.AV)
        if flags:
            raise fabric_error(Errno.FI_EBADFLAGS, f"removing has no flags, got {flags:#x}")
        if count > _MAX_ADDRESSES:
            raise fabric_error(Errno.FI_EINVAL, f"at most {_MAX_ADDRESSES} addresses are removed, got {count}")
        if count:
            self._memory.require(fi_addr, "fi_addr")
        vector.remove(*(fi_addr[index] for index in range(count)))

    def av_lookup(self, av: int, number: int, addr: int, addrlen: Any) -> None:
        found = SockAddr.of(self._fids.subject(av, FidClass.AV).lookup(number)).pack()
        space, addrlen[0] = self._memory.require(addrlen, "addrlen")[0], SIZE
        some = found[:space]
        self._memory.view(addr, len(some))[:] = some

    def av_straddr(self, av: int, addr: int, buf: int, size: Any) -> None:
        self._fids.get(av, FidClass.AV)
        text = str(self._infos.sockaddr(self._memory.pointer(addr)))
        space = self._memory.require(size, "len")[0]
        size[0] = self._memory.put_string(self._memory.pointer(buf, "char *"), space, text)

    # fi_cm

    def cm_getname(self, address: int, addr: int, addrlen: Any) -> int | None:
        fid = self._fids.get(address)
        return self._tell(self._name(fid), addr, addrlen)

    def _name(self, fid: Fid) -> SockAddr:
        if not hasattr(fid.subject, "getname"):
            raise fabric_error(Errno.FI_EOPNOTSUPP, f"a {fid.fclass.name} has no name")
        if fid.fclass is FidClass.PEP:
            fid.subject.reserve()
        name = fid.subject.getname()
        return SockAddr.of(name) if isinstance(name, bytes) else SockAddr(*name)

    def _tell(self, name: SockAddr, addr: int, addrlen: Any) -> int | None:
        """Store as much of an address as the buffer holds; FI_ETOOSMALL if the address is cut."""
        space, addrlen[0] = self._memory.require(addrlen, "addrlen")[0], SIZE
        some = name.pack()[:space]
        self._memory.view(addr, len(some))[:] = some
        return -int(Errno.FI_ETOOSMALL) if space < SIZE else None

    def cm_setname(self, address: int, addr: int, addrlen: int) -> None:
        fid = self._fids.get(address)
        wanted = self._infos.sockaddr(self._memory.pointer(addr), addrlen)
        if fid.fclass is FidClass.PEP:
            fid.subject.setname((wanted.host, wanted.port))
        elif isinstance(fid.more, EndpointSettings):
            if wanted.host != self._process.nic.link[0]:
                raise fabric_error(Errno.FI_EADDRNOTAVAIL, f"the NIC is at {self._process.nic.link[0]}, not {wanted}")
            fid.more.port = wanted.port
        else:
            raise fabric_error(Errno.FI_EOPNOTSUPP, f"a {fid.fclass.name} is given no name")

    def cm_getpeer(self, ep: int, addr: int, addrlen: Any) -> int | None:
        return self._tell(SockAddr.of(self._connected(ep).getpeer()), addr, addrlen)

    def _connected(self, ep: int) -> ConnectedEndpoint:
        fid = self._fids.get(ep)
        if not isinstance(fid.subject, ConnectedEndpoint):
            raise fabric_error(Errno.FI_EOPNOTSUPP, f"only FI_EP_MSG is connected, this is {fid.subject!r}")
        return fid.subject

    def cm_connect(self, ep: int, addr: int, param: int, length: int) -> None:
        endpoint = self._connected(ep)
        wanted = self._infos.sockaddr(self._memory.pointer(addr))
        where: SocketAddress = (wanted.host, wanted.port)
        endpoint.connect(where, self._param(param, length))

    def _param(self, param: int, length: int) -> bytes:
        """Return data for the peer. Raises FI_EINVAL for more than the maximum."""
        if length > CM_DATA_SIZE:
            raise fabric_error(Errno.FI_EINVAL, f"at most {CM_DATA_SIZE} bytes, got {length}")
        return bytes(self._memory.view(param, length))

    def cm_listen(self, pep: int) -> None:
        self._fids.subject(pep, FidClass.PEP).listen()

    def cm_accept(self, ep: int, param: int, length: int) -> None:
        self._connected(ep).accept(self._param(param, length))

    def cm_reject(self, pep: int, handle: int, param: int, length: int) -> None:
        passive = self._fids.subject(pep, FidClass.PEP)
        request = self._fids.get(handle, FidClass.CONNREQ)
        passive.reject(request.subject, self._param(param, length))
        self._fids.remove(request)

    def cm_shutdown(self, ep: int, flags: int) -> None:
        endpoint = self._connected(ep)
        if flags:
            raise fabric_error(Errno.FI_EBADFLAGS, f"shutting down has no flags, got {flags:#x}")
        try:
            endpoint.shutdown(report=True)  # programs wait for the event
        except FabricError as error:
            if error.fi_errno != Errno.FI_ENOTCONN or not endpoint.was_connected:
                raise  # the peer may have been first


def _known(data: bytes) -> bytes:
    """Return the driver's address of an endpoint; for invalid bytes, an address that cannot be inserted."""
    try:
        return SockAddr.unpack(data).address()
    except FabricError:
        return _NOBODY
