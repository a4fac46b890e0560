"""Objects in C: ``struct fid`` in C's memory, and the driver's object behind each."""

import enum
from collections import deque
from collections.abc import Iterable
from typing import Any, TypeVar

from amoeba.core.errno import Errno
from amoeba.core.errors import fabric_error
from amoeba.libfabric.objects.constants import OpFlags
from amoeba.libfabric.objects.endpoints.transmit import Posting
from amoeba.libfabric.objects.operations.receiving import ReceiveOperations

__all__ = ["Fid", "FidClass", "Fids"]

T = TypeVar("T")

_GRAVES = 1024
"""Number of closed objects whose memory is kept, so that a program that uses one gets a status."""


class FidClass(enum.IntEnum):
    """``fclass`` of ``struct fid``."""

    FABRIC = 1
    DOMAIN = 2
    EP = 3
    SEP = 4
    RX_CTX = 5
    SRX_CTX = 6
    TX_CTX = 7
    STX_CTX = 8
    PEP = 9
    AV = 11
    MR = 12
    EQ = 13
    CQ = 14
    CNTR = 15
    WAIT = 16
    POLL = 17
    CONNREQ = 18


class Fid:
    """One object of C."""

    __slots__ = ("address", "api_version", "c", "context", "err_data", "fclass", "held", "more", "subject", "uses")

    def __init__(self, c: Any, address: int, fclass: FidClass, subject: Any, context: int) -> None:
        self.c = c
        """The object's ``struct amoeba_fid``."""
        self.address = address
        self.fclass = fclass
        self.subject = subject
        """The driver's object."""
        self.context = context
        """The application's pointer."""
        self.held: list[Fid] = []
        """Objects that must not be closed before this one: its parent, and those it is bound to."""
        self.uses = 0
        """Number of objects that hold this one."""
        self.api_version = 0
        """The libfabric version that the program was written for."""
        self.err_data: Any = None
        """Memory that the last error read points to, until the next error is read."""
        self.more: Any = None
        """Additional data of the object's class."""

    def hold(self, *held: "Fid") -> None:
        """Hold objects, none of which is closed before this one."""
        for fid in held:
            fid.uses += 1
        self.held += held


class Fids:
    """All objects of the process by address. An unknown address raises FI_EBADF."""

    def __init__(self, ffi: Any, lib: Any) -> None:
        self._ffi, self._lib = ffi, lib
        self._fids: dict[int, Fid] = {}
        self._by_subject: dict[int, Fid] = {}
        """Objects by ``id`` of the driver's object."""
        self._graves: deque[Any] = deque()
        self.posting: dict[int, Posting] = {}
        """Driver's objects through which operations are posted."""
        self.receiving: dict[int, ReceiveOperations] = {}
        """Driver's objects that receive."""
        self.triggering: set[int] = set()
        """Objects of ``posting`` whose operations wait for counters by default."""

    def add(self, fclass: FidClass, subject: Any, context: int = 0, held: Iterable[Fid] = ()) -> Fid:
        """Make a new object. Raises FI_ENOMEM."""
        c = self._lib.object_new(int(fclass), context)
        if c == self._ffi.NULL:
            raise fabric_error(Errno.FI_ENOMEM, "no memory is left for an object")
        address = int(self._ffi.cast("uintptr_t", c))
        fid = self._fids[address] = Fid(c, address, fclass, subject, context)
        self._by_subject[id(subject)] = fid
        if isinstance(subject, Posting):
            self.posting[address] = subject
            self.note_flags(fid)
        if isinstance(subject, ReceiveOperations):
            self.receiving[address] = subject
        held = tuple(held)
        if held:
            fid.hold(*held)
            fid.api_version = held[0].api_version
        return fid

    def note_flags(self, fid: Fid) -> None:
        """Note that the endpoint's ``op_flags`` may have changed."""
        if fid.address in self.posting and fid.subject.op_flags & OpFlags.FI_TRIGGER:
            self.triggering.add(fid.address)
        else:
            self.triggering.discard(fid.address)

    def get(self, address: int, *classes: FidClass) -> Fid:
        """Return the object of one of these classes, or of any class if no class is given."""
        fid = self._fids.get(address)
        if fid is None or (classes and fid.fclass not in classes):
            expected = " or ".join(each.name for each in classes) or "object"
            shown = f"{address:#x}, which is none" if fid is None else fid.fclass.name
            raise fabric_error(Errno.FI_EBADF, f"expected a {expected}, got {shown}")
        return fid

    def subject(self, address: int, *classes: FidClass) -> Any:
        """Return the driver's object behind an address."""
        return self.get(address, *classes).subject

    def of(self, subject: object) -> Fid | None:
        """Return C's object for the driver's object, if C has one."""
        return self._by_subject.get(id(subject))

    def remove(self, fid: Fid) -> None:
        """Remove an object; its memory is freed later."""
        del self._fids[fid.address]
        self._by_subject.pop(id(fid.subject), None)
        self.posting.pop(fid.address, None)
        self.receiving.pop(fid.address, None)
        self.triggering.discard(fid.address)
        for held in fid.held:
            held.uses -= 1
        fid.held.clear()
        self._graves.append(fid.c)
        if len(self._graves) > _GRAVES:
            self._lib.object_free(self._graves.popleft())
