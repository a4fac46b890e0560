"""The end of objects."""

from types import TracebackType
from typing import Any, Self

from amoeba.openucx.ucxx.progress import Progress

__all__ = ["Closable"]


class Closable:
    """An object that ``close()``, the end of ``with``, or the garbage collector closes."""

    _progress: Progress

    @property
    def closed(self) -> bool:
        """Whether the object is closed."""
        raise NotImplementedError

    def close(self) -> Any:
        """Close the object. Idempotent."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
