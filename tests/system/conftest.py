"""Memory that frames and descriptors of a test are about."""

import pytest

from tests.support.raw_driver import Buffer, Pair


@pytest.fixture
def region(device_pair: Pair) -> Buffer:
    """Memory at the target under ``Pair.KEY``, 4096 bytes, full of a pattern."""
    return device_pair.memory(4096, fill=0xA5)
