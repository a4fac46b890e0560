"""How objects end."""

from types import TracebackType
from typing import Any, Self

from amoeba.openucx.ucxx.progress import Progress

__all__ = ["Closable"]


class Closable:
    """What is closed by ``close()``, at the end of ``with``, or when nobody knows it any more."""

    _progress: Progress

    @property
    def closed(self) -> bool:
        """Whether it can be used no more."""
        raise NotImplementedError

    def close(self) -> Any:
        """Close it. Idempotent."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
