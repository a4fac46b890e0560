"""Common parts of all objects of UCX's API."""

from collections.abc import Callable, Iterable

from amoeba.core.lifetime import FabricObject
from amoeba.openucx.ucp.status import UcsError, invalid_param

__all__ = ["UcpObject", "call_all"]


class UcpObject(FabricObject):
    """An object that is closed before the object it was made from; afterwards every call raises INVALID_PARAM."""

    _error = UcsError
    _keeps: "set[UcpObject] | None" = None

    def _stay(self) -> None:
        """Be kept by the object this was made from until it is closed, even if the application forgets it, as in C.

        Objects that know each other end when the garbage collector comes by: that may be in the middle of an
        operation of their NIC, when nothing can be withdrawn from it. Called when the object is made.
        """
        parent = self._parent
        assert isinstance(parent, UcpObject)
        if parent._keeps is None:
            parent._keeps = set()
        parent._keeps.add(self)

    def close(self) -> None:
        super().close()
        parent = self._parent
        if isinstance(parent, UcpObject) and parent._keeps:
            parent._keeps.discard(self)

    def forked(self) -> None:
        """Close the copy of an object in a child process, without touching the resources that it names."""
        if not self._closed:
            self._closed = True
            for child in list(self._children.values()):
                child.forked()

    def _check_open(self) -> None:
        if self._closed:
            raise invalid_param(f"this {type(self).__name__} is closed")


def call_all(calls: Iterable[Callable[[], object]]) -> None:
    """Call each of them, whatever the others raise; then raise the first exception."""
    raised: BaseException | None = None
    for call in calls:
        try:
            call()
        except BaseException as error:  # also Ctrl-C in a callback: the others must be told of their end
            raised = raised or error
    if raised is not None:
        raise raised
