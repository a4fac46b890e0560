"""Pairs of model NICs that send each other messages."""

from collections.abc import Callable

import pytest

from tests.support.messages import Mailbox
from tests.support.raw_driver import Pair


@pytest.fixture
def pair(make_model_pair: Callable[..., Pair]) -> Pair:
    return make_model_pair()


@pytest.fixture
def box(pair: Pair) -> Mailbox:
    """A mailbox of the pair; a module may have a ``pair`` of its own."""
    return Mailbox(pair)
