"""State that all objects of the process share: its NIC, and the driver's fabric over it."""

from collections.abc import Callable
from typing import TypeVar

from amoeba_model.device import DeviceError

from amoeba.core.errno import Errno
from amoeba.core.errors import fabric_error
from amoeba.embed import ProcessNic, process_nic, wait_until, without_fair_lock
from amoeba.libfabric.objects.constants import Progress
from amoeba.libfabric.objects.domain import Domain
from amoeba.libfabric.objects.fabric import Fabric
from amoeba.libfabric.objects.info import PROVIDER
from amoeba.libfabric.objects.structures import Info

__all__ = ["Process", "seconds"]

T = TypeVar("T")


class Process:
    """One fabric for all objects of a program, as one alone may run the NIC; lives while a ``fid_fabric`` does."""

    def __init__(self) -> None:
        self._mine: ProcessNic | None = None
        self._fabric: Fabric | None = None
        self._uses = 0

    @property
    def opened(self) -> Fabric | None:
        """The fabric, if it is open."""
        return None if self._fabric is None or self._fabric.closed else self._fabric

    @property
    def fabric(self) -> Fabric:
        """The fabric. Raises FI_EBADF in a child of the process that opened it."""
        if self._fabric is None or self._fabric.closed:
            raise fabric_error(Errno.FI_EBADF, "the fabric is that of another process")
        return self._fabric

    @property
    def nic(self) -> ProcessNic:
        assert self._mine is not None  # an open fabric has a NIC
        return self._mine

    def use(self) -> Fabric:
        """Open the fabric, if it is not open, until :meth:`drop` is called as often as this."""
        if self.opened is None:
            self._mine = _listening(process_nic)
            try:
                self._fabric = Fabric([self._mine.nic], PROVIDER)
            except BaseException:
                self._mine.release()
                raise
            self._uses = 0
        self._uses += 1
        return self.fabric

    def drop(self) -> None:
        """End one use; the last one closes the fabric and releases the NIC."""
        self._uses -= 1
        if self._uses or self._fabric is None or self._mine is None:
            return
        fabric, mine, self._fabric, self._mine = self._fabric, self._mine, None, None
        try:
            if not fabric.closed:
                fabric.close()
        finally:
            if not mine.closed:
                mine.release()

    def move(self, port: int) -> None:
        """Move the NIC to this port, unless it is 0: see :meth:`ProcessNic.move`."""
        if port:
            _listening(lambda: self.nic.move(port))

    def domain(self, info: Info) -> Domain:
        """Open the NIC; see :meth:`amoeba.Fabric.domain`."""
        manual = not self.automatic
        made = self.fabric.domain(info)
        if manual and self.automatic:
            self.nic.attend()
        return made

    @property
    def automatic(self) -> bool:
        """Whether progress is automatic."""
        return self.fabric.progress is Progress.FI_PROGRESS_AUTO

    def wait(
        self,
        now: Callable[[], T | None],
        timeout: int,
        *,
        rest: Callable[[float | None], object] | None = None,
        waiting: Callable[[float | None], T | None] | None = None,
    ) -> T | None:
        """Wait in a call of C's until ``now`` returns another value than None, and return the value; None: timeout.

        ``timeout``: milliseconds, or less than 0 for no limit. ``rest``: how to sleep, instead of with the NIC.
        ``waiting``: a function that waits by itself, where progress is automatic.
        """
        limit = seconds(timeout)
        if waiting is not None and self.automatic:
            found = now()
            return without_fair_lock(lambda: waiting(limit)) if found is None else found
        found = None

        def ready() -> bool:
            nonlocal found
            found = now()
            return found is not None

        wait_until(ready, self.nic.rest if rest is None else rest, limit)
        return found


def _listening(open_it: Callable[[], T]) -> T:
    """Call a function. Raises FI_EADDRINUSE if the NIC's address cannot be had."""
    try:
        return open_it()
    except DeviceError as error:
        raise fabric_error(Errno.FI_EADDRINUSE, str(error)) from error


def seconds(timeout: int) -> float | None:
    """Convert C's milliseconds to seconds; None: without limit."""
    return None if timeout < 0 else timeout / 1000
