"""Ways to break the driver, each with the checks that must find out."""

import functools
from collections.abc import Callable

import pytest

__all__ = ["CASES", "around", "breaks"]

Sabotage = Callable[[pytest.MonkeyPatch], None]
CASES: dict[str, tuple[Sabotage, tuple[str, ...]]] = {}


def breaks(*ids: str) -> Callable[[Sabotage], Sabotage]:
    """These checks must find out that the driver is broken in this way."""

    def register(sabotage: Sabotage) -> Sabotage:
        CASES[sabotage.__name__] = sabotage, ids
        return sabotage

    return register


def around(patch: pytest.MonkeyPatch, owner: type, name: str, wrapper: Callable[..., object]) -> None:
    """Replace a method by one that is given the original first."""
    patch.setattr(owner, name, functools.partialmethod(wrapper, getattr(owner, name)))
