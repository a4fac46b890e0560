"""Completion queues: where operations report that they are done, or what went wrong."""

import time
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from amoeba_model.wire.uet import ReturnCode

from amoeba.constants import CqFormat, Errno
from amoeba.errors import RETURN_CODE_ERRNO, FabricError, fabric_error
from amoeba.lifetime import FabricObject
from amoeba.rings import Completed

if TYPE_CHECKING:
    from amoeba.domain import Domain

__all__ = [
    "CompletionQueue",
    "CompletionSource",
    "CqDataEntry",
    "CqEntry",
    "CqErrEntry",
    "CqMsgEntry",
    "CqTaggedEntry",
]

_OK = int(ReturnCode.OK)
_WAIT_SLICE = 1.0
"""Seconds that an unlimited wait sleeps at a time, so that a signal handler runs."""


class CqEntry(NamedTuple):
    """FI_CQ_FORMAT_CONTEXT."""

    op_context: Any
    """``context`` of the operation."""


class CqMsgEntry(NamedTuple):
    """FI_CQ_FORMAT_MSG."""

    op_context: Any
    flags: int
    """Kind of the operation: Caps.FI_RMA or FI_ATOMIC, with FI_READ or FI_WRITE; of a peer's operation
    FI_REMOTE_READ or FI_REMOTE_WRITE, and FI_REMOTE_CQ_DATA."""
    len: int
    """Bytes transferred; of a peer's operation those of its last packet."""


class CqDataEntry(NamedTuple):
    """FI_CQ_FORMAT_DATA."""

    op_context: Any
    flags: int
    len: int
    buf: int
    """Zero for everything this side initiated."""
    data: int
    """The peer's, if ``flags`` has FI_REMOTE_CQ_DATA."""


class CqTaggedEntry(NamedTuple):
    """FI_CQ_FORMAT_TAGGED."""

    op_context: Any
    flags: int
    len: int
    buf: int
    data: int
    tag: int


class CqErrEntry(NamedTuple):
    """``struct fi_cq_err_entry``: one failed operation."""

    op_context: Any
    flags: int
    len: int
    buf: int
    data: int
    tag: int
    olen: int
    """Bytes that did not fit, for truncation."""
    err: Errno
    prov_errno: int
    """The NIC's return code: a :class:`amoeba_model.wire.uet.ReturnCode`."""
    err_data: bytes

    def error(self) -> FabricError:
        """The failure as an exception."""
        return fabric_error(self.err, f"operation failed with {ReturnCode(self.prov_errno).name}", self.prov_errno)


Entry = CqEntry | CqMsgEntry | CqDataEntry | CqTaggedEntry


class CompletionSource(Protocol):
    """A ring that completions come from."""

    def announce(self) -> None:
        """Tell the NIC of requests that wait for that."""

    def poll(self, limit: int) -> list[Completed]:
        """Take up to ``limit`` completions, none behind one that reports an error."""

    def arm(self) -> None:
        """Ask for an interrupt at the next one."""


class CompletionQueue(FabricObject):
    """Collects what the endpoints bound to it completed, and what peers tell them, as ``fi_cq_open`` makes it.

    Reading the queue is also what drives progress: descriptors held back by FI_MORE are announced, and a
    simulated NIC gets time to run. Entries of one endpoint to one peer come in order, and so do those of one peer.
    """

    def __init__(self, domain: "Domain", cq_format: CqFormat = CqFormat.FI_CQ_FORMAT_CONTEXT) -> None:
        unspecified = cq_format is CqFormat.FI_CQ_FORMAT_UNSPEC
        self.format = CqFormat.FI_CQ_FORMAT_CONTEXT if unspecified else cq_format
        self._device = domain.nic.device
        self._sources: list[CompletionSource] = []
        self._errors: deque[Completed] = deque()
        super().__init__(domain)

    def read(self, count: int = 1) -> list[Entry]:
        """Take up to ``count`` entries; an empty list when there are none (FI_EAGAIN of ``fi_cq_read``).

        Raises FI_EAVAIL while the next entry is an error: take it by :meth:`readerr`.
        """
        return [self._entry(completed) for completed in self._take(count)]

    def readfrom(self, count: int = 1) -> list[tuple[Entry, int]]:
        """As :meth:`read`, each entry with the number of the peer that caused it in the endpoint's address vector.

        FI_ADDR_NOTAVAIL for this side's own operations, and for peers that the vector does not have.
        """
        return [(self._entry(completed), completed.source) for completed in self._take(count)]

    def sread(self, count: int = 1, timeout: float | None = None) -> list[Entry]:
        """Like :meth:`read`, but wait up to ``timeout`` seconds (None: without limit) for the first entry.

        Waiting sleeps until the NIC's interrupt. Returns an empty list when the time is over.
        """
        return [self._entry(completed) for completed in self._wait(count, timeout)]

    def sreadfrom(self, count: int = 1, timeout: float | None = None) -> list[tuple[Entry, int]]:
        """:meth:`readfrom`, waiting as :meth:`sread` does."""
        return [(self._entry(completed), completed.source) for completed in self._wait(count, timeout)]

    def _take(self, count: int) -> list[Completed]:
        self._check_open()
        taken = self._poll(count)
        if not taken and not self._errors:
            self._device.advance()
            taken = self._poll(count)
        if not taken and self._errors:
            raise fabric_error(Errno.FI_EAVAIL, "an operation failed: readerr() says which and why")
        return taken

    def _wait(self, count: int, timeout: float | None) -> list[Completed]:
        deadline = None if timeout is None else time.monotonic() + timeout
        while not (taken := self._take(count)):
            remaining = _WAIT_SLICE if deadline is None else deadline - time.monotonic()
            if remaining <= 0:
                break
            for source in self._sources:
                source.arm()
            self._device.wait(min(remaining, _WAIT_SLICE))
        return taken

    def readerr(self) -> CqErrEntry | None:
        """Take the oldest error entry; None when there is none (FI_EAGAIN of ``fi_cq_readerr``)."""
        self._check_open()
        if not self._errors:
            return None
        operation, length, status, *_ = self._errors.popleft()
        err = RETURN_CODE_ERRNO[ReturnCode(status)]
        return CqErrEntry(operation.context, operation.flags, length, 0, 0, 0, 0, err, status, b"")

    def strerror(self, prov_errno: int) -> str:
        """The NIC's return code in words, such as ``bad mkey``."""
        return ReturnCode(prov_errno).name.replace("_", " ").lower()

    def _poll(self, count: int) -> list[Completed]:
        """Take entries from all sources in turn; stops behind an error, which it keeps for readerr()."""
        entries: list[Completed] = []
        for source in self._sources:
            source.announce()
            while len(entries) < count and not self._errors:
                taken = source.poll(count - len(entries))
                if not taken:
                    break
                for completed in taken:
                    if completed.status != _OK:
                        self._errors.append(completed)
                    elif not completed.operation.silent:
                        entries.append(completed)
        if len(self._sources) > 1:  # let every source be first in turn
            self._sources.append(self._sources.pop(0))
        return entries

    def _entry(self, completed: Completed) -> Entry:
        operation, length, _, data, _ = completed
        if self.format == CqFormat.FI_CQ_FORMAT_CONTEXT:
            return CqEntry(operation.context)
        if self.format == CqFormat.FI_CQ_FORMAT_MSG:
            return CqMsgEntry(operation.context, operation.flags, length)
        if self.format == CqFormat.FI_CQ_FORMAT_DATA:
            return CqDataEntry(operation.context, operation.flags, length, 0, data)
        return CqTaggedEntry(operation.context, operation.flags, length, 0, data, 0)

    def _release(self) -> None:
        self._sources.clear()
        self._errors.clear()

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"of {len(self._sources)} rings"
        return f"<CompletionQueue {self.format.name} {state}>"
