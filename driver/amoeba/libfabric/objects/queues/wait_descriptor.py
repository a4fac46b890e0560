"""The descriptors of completion queues and counters with FI_WAIT_FD."""

from amoeba.core.lifetime import FabricObject
from amoeba.core.locking import Locker
from amoeba.core.waiting import WaitFd

__all__ = ["HasDescriptor"]


class HasDescriptor(FabricObject):
    """An object that may have a descriptor, readable while there is an entry to read.

    With manual progress it is also readable while reading may find one; automatic progress attends to it.
    """

    _fd: WaitFd | None = None
    deadline: float | None = None
    """When there may be an entry to read though the descriptor does not say so: never."""

    @property
    def _readable(self) -> bool:
        """Whether there is an entry to read, as far as it has been collected."""
        raise NotImplementedError

    @property
    def _wants_reading(self) -> bool:
        """Whether there is an entry to read, or may be if it is read often enough."""
        raise NotImplementedError

    def _show(self) -> None:
        """Make the descriptor readable or not accordingly."""
        if self._fd is None:
            return
        if self._auto is not None:
            self._fd.set(self._readable)
        else:
            self._fd.set(self._wants_reading)

    def _automate(self, auto: Locker) -> None:
        super()._automate(auto)
        auto.attend(self)

    def _attend(self) -> bool:
        """As :class:`amoeba.core.locking.Attended` says."""
        raise NotImplementedError

    def _arm(self) -> bool | None:
        """As :class:`amoeba.core.locking.Attended` says."""

    def _close_descriptor(self) -> None:
        if self._fd is not None:
            self._fd.close()
            self._fd = None
