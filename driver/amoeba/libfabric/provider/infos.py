"""``struct fi_info`` and its parts, from C and to C."""

import dataclasses
import enum
from typing import Any, TypeVar

from amoeba.core.errno import Errno
from amoeba.core.errors import fabric_error
from amoeba.embed import Memory
from amoeba.libfabric.objects.constants import AddrFormat, Caps, Mode, TrafficClass
from amoeba.libfabric.objects.structures import DomainAttr, EpAttr, FabricAttr, Info, RxAttr, TxAttr
from amoeba.libfabric.provider.sockaddr import SIZE, SockAddr

__all__ = ["Infos", "Wanted"]

_Attr = TypeVar("_Attr", FabricAttr, DomainAttr, EpAttr, TxAttr, RxAttr)
_STRINGS = ("name", "prov_name")
_MAX_KEY = 4096
"""Bytes of an authorization key."""
_FORMATS = (AddrFormat.FI_FORMAT_UNSPEC, AddrFormat.FI_SOCKADDR, AddrFormat.FI_SOCKADDR_IN)


@dataclasses.dataclass(frozen=True)
class Wanted:
    """An info from C: the driver's part, and the rest."""

    info: Info
    """Without addresses."""
    source: SockAddr | None
    destination: SockAddr | None
    handle: int
    """The address of a connection request."""


class Infos:
    """Translates between C's structures and the driver's."""

    def __init__(self, ffi: Any, lib: Any, memory: Memory) -> None:
        self._ffi, self._lib, self._memory = ffi, lib, memory

    def take(self, c: Any) -> Wanted:
        """Convert a ``struct fi_info``.

        Raises FI_EINVAL for an unknown number of an enumeration, and for an address without its bytes; FI_ENODATA for
        addresses of another format.
        """
        if c.addr_format not in list(_FORMATS):
            raise fabric_error(Errno.FI_ENODATA, f"addresses are FI_SOCKADDR_IN, got format {c.addr_format}")
        info = Info(
            caps=Caps(c.caps),
            mode=Mode(c.mode),
            tx_attr=self.attribute(TxAttr, c.tx_attr),
            rx_attr=self.attribute(RxAttr, c.rx_attr),
            ep_attr=self.attribute(EpAttr, c.ep_attr),
            domain_attr=self.attribute(DomainAttr, c.domain_attr),
            fabric_attr=self.attribute(FabricAttr, c.fabric_attr),
        )
        source, destination = (
            None if address == self._ffi.NULL else self.sockaddr(address, length)
            for address, length in ((c.src_addr, c.src_addrlen), (c.dest_addr, c.dest_addrlen))
        )
        return Wanted(info, source, destination, self._memory.address(c.handle))

    def sockaddr(self, address: Any, length: int = SIZE) -> SockAddr:
        """Read an address in C's memory. Raises FI_EINVAL for NULL, less than 16 bytes, or another address family."""
        if length < SIZE:
            raise fabric_error(Errno.FI_EINVAL, f"an address has {SIZE} bytes, got {length}")
        return SockAddr.unpack(bytes(self._memory.view(address, SIZE)))

    def attribute(self, kind: type[_Attr], c: Any) -> _Attr:
        """Convert an attribute structure; NULL gives the defaults."""
        default = kind()
        if c == self._ffi.NULL:
            return default
        fields: dict[str, Any] = {}
        for field in dataclasses.fields(kind):
            name, known = field.name, getattr(default, field.name)
            if name == "auth_key":
                fields[name] = self._auth_key(c)
            elif name in _STRINGS:
                fields[name] = self._memory.string(getattr(c, name))
            else:
                fields[name] = _typed(known, getattr(c, name), name)
        return kind(**fields)

    def _auth_key(self, c: Any) -> bytes:
        if not c.auth_key_size or c.auth_key == self._ffi.NULL:
            return b""
        if c.auth_key_size > _MAX_KEY:
            raise fabric_error(Errno.FI_EINVAL, f"a key of {c.auth_key_size} bytes is none")
        return bytes(self._memory.view(c.auth_key, c.auth_key_size))

    def give(self, info: Info, source: SockAddr | None, destination: SockAddr | None) -> Any:
        """Make a ``struct fi_info``, which libfabric frees. Raises FI_ENOMEM."""
        c = self._lib.info_new()
        if c == self._ffi.NULL:
            raise fabric_error(Errno.FI_ENOMEM, "no memory is left for an info")
        c.caps, c.mode, c.addr_format = int(info.caps), int(info.mode), int(AddrFormat.FI_SOCKADDR_IN)
        if source is not None:
            c.src_addr, c.src_addrlen = self.copy(source.pack()), SIZE
        if destination is not None:
            c.dest_addr, c.dest_addrlen = self.copy(destination.pack()), SIZE
        for name in ("tx_attr", "rx_attr", "ep_attr", "domain_attr", "fabric_attr"):
            self._give_attribute(getattr(info, name), getattr(c, name))
        return c

    def _give_attribute(self, attribute: Any, c: Any) -> None:
        for field in dataclasses.fields(attribute):
            name, value = field.name, getattr(attribute, field.name)
            if name == "prov_name" or name == "auth_key" or value is None:
                continue  # libfabric's core sets the first
            if isinstance(value, str):
                value = self._ffi.cast("char *", self.copy(value.encode() + b"\0"))
            setattr(c, name, value if not isinstance(value, int) else int(value))

    def free(self, c: Any) -> None:
        """Free infos that were not handed out."""
        if c != self._ffi.NULL:
            self._lib.info_free(c)

    def copy(self, data: bytes) -> Any:
        """Copy bytes to memory that C frees."""
        made = self._lib.copy(data, len(data))
        if made == self._ffi.NULL:
            raise fabric_error(Errno.FI_ENOMEM, f"no memory is left for {len(data)} bytes")
        return made


def _typed(known: Any, number: int, name: str) -> Any:
    """Convert a number to the type of the driver's field. Raises FI_EINVAL."""
    if isinstance(known, TrafficClass):
        return number  # or one of IP's sixty-four classes
    if isinstance(known, enum.Enum):
        try:
            return type(known)(number)
        except ValueError:
            raise fabric_error(Errno.FI_EINVAL, f"{name}: there is no {type(known).__name__} {number}") from None
    return number
