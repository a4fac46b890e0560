"""The lifetime of the driver's objects."""

import itertools
import warnings
import weakref
from types import TracebackType
from typing import Any, Never, Self, SupportsIndex

from amoeba_model.forking import own

from amoeba.core.errno import Errno
from amoeba.core.errors import FabricError, fabric_error, type_error
from amoeba.core.forking import orphaned
from amoeba.core.locking import Locker, guarded

__all__ = ["FabricObject"]

_serials = itertools.count()


class FabricObject:
    """An object that must be closed: a context manager that first closes the objects made from it.

    ``close()`` is idempotent; any other use afterwards raises ClosedError (FI_EBADF). An object that is
    garbage-collected open is closed with a ResourceWarning. Subclasses release their resources in
    :meth:`_release` and call :meth:`_check_open` where they are used.

    After a fork the parent owns the object. In the child it is closed, and every call but ``close()`` raises
    ClosedError.
    """

    _closed = True  # until __init__ has run: a half-made object has nothing to close
    _auto: Locker | None = None
    """The progress thread of the fabric; every public call takes its lock. None: progress is manual."""

    _error: type[Exception] = FabricError
    """The API's exception."""
    _warning: type[ResourceWarning] = ResourceWarning
    """The warning for an object that is dropped open."""
    _consequence = ""
    """The effect of closing on other objects, in words."""
    _given: Any = None
    """Resources that the main thread's current call has taken, where progress is automatic."""

    def __init__(self, parent: "FabricObject | None" = None) -> None:
        if parent is not None:
            parent._check_open()
        self._parent = parent
        self._serial = next(_serials)
        self._children: weakref.WeakValueDictionary[int, FabricObject] = weakref.WeakValueDictionary()
        self._closed = False
        if parent is None:
            own(self)
        else:
            if parent._auto is not None:
                self._automate(parent._auto)
            parent._adopt(self)

    def _automate(self, auto: Locker) -> None:
        """Make calls under the lock of the progress thread from now on."""
        self._auto = auto
        self.__class__ = guarded(type(self))

    def _adopt(self, child: "FabricObject") -> None:
        """Close ``child`` before this object: the child was made from this object, or bound to it."""
        self._children[child._serial] = child

    @property
    def closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        """Release this object, after all objects made from it or bound to it, youngest first.

        If releasing one of them fails, the others are still released; then the first error is raised.
        """
        if self._closed:
            return
        failures: list[Exception] = []
        for child in sorted(self._children.values(), key=lambda child: child._serial, reverse=True):
            try:
                child.close()
            except self._error as error:
                failures.append(error)
        self._closed = True
        self._release()
        if failures:
            raise failures[0]

    def _release(self) -> None:
        raise NotImplementedError

    def forked(self) -> None:
        """Close the object in a child process without touching the parent's resources."""
        if not self._closed:
            self._closed = True
            for child in list(self._children.values()):
                child.forked()
            self.__class__ = orphaned(type(self))

    def _take_back(self, result: object) -> None:
        """Undo a call whose result a signal handler kept from the application; the call did nothing else."""

    def _check_open(self) -> None:
        if self._closed:
            raise fabric_error(Errno.FI_EBADF, f"{type(self).__name__} is closed")

    def _check_made_from(self, domain: "FabricObject | None") -> None:
        """Raise FI_EINVAL if this belongs to another domain."""
        if self._parent is not domain:
            raise fabric_error(Errno.FI_EINVAL, f"{self!r} belongs to another domain")

    def __reduce_ex__(self, protocol: SupportsIndex) -> Never:
        """Raise: the object owns resources of a NIC in this process, and can be neither copied nor pickled."""
        raise type_error(type(self).__name__, "to stay the only one of its kind, not to be copied or pickled", self)

    def __enter__(self) -> Self:
        self._check_open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if not self._closed:
            try:
                warnings.warn(f"unclosed {self!r}{self._consequence}", self._warning, source=self, stacklevel=2)
            finally:  # also when warnings are errors
                if self._auto is None:
                    self.close()
                else:
                    self._auto.close_later(self)
