"""What all objects of UCX's API have in common."""

from collections.abc import Callable, Iterable

from amoeba.core.lifetime import FabricObject
from amoeba.ucp.status import invalid_param

__all__ = ["UcpObject", "call_all"]


class UcpObject(FabricObject):
    """Something that is closed before what it was made from; afterwards every call raises INVALID_PARAM."""

    def forked(self) -> None:
        """This is a child of the process, and a copy: it is closed here, and nothing is done to what it speaks of."""
        if not self._closed:
            self._closed = True
            for child in list(self._children.values()):
                child.forked()

    def _check_open(self) -> None:
        if self._closed:
            raise invalid_param(f"this {type(self).__name__} is closed")


def call_all(calls: Iterable[Callable[[], object]]) -> None:
    """Call each of them, whatever the others raise; then raise the first of that."""
    raised: BaseException | None = None
    for call in calls:
        try:
            call()
        except BaseException as error:  # also Ctrl-C in a callback: the others are to hear of their end
            raised = raised or error
    if raised is not None:
        raise raised
