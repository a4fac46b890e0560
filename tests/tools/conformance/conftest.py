"""Pairs that live as long as the session."""

from collections.abc import Callable, Iterator

import pytest

from tests.tools.conformance.pairs import SharedPair


@pytest.fixture(scope="session")
def shared() -> Iterator[Callable[[str], SharedPair]]:
    """Shared pairs by name."""
    known: dict[str, SharedPair] = {}
    yield lambda name: known.setdefault(name, SharedPair(name))
    faults = {name: one.close() for name, one in known.items()}
    assert not any(faults.values()), faults
