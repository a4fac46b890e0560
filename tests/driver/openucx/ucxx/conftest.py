"""Two workers, connected, on two NICs of every kind."""

from collections.abc import Iterator

import pytest
from amoeba.openucx.ucp.adapter import Adapters, open_adapters

from tests.driver.openucx.ucxx.ucx_parties import Parties
from tests.support.pairs import PAIRS


@pytest.fixture(params=PAIRS)
def adapters(request, rtl_parameters) -> Iterator[Adapters]:
    """Two NICs."""
    parameters = rtl_parameters if "rtl" in request.param else None
    with open_adapters(request.param.split(","), parameters, rtl_options={"host_latency": 40}) as opened:
        yield opened
        assert [fault for nic in opened.nics for fault in nic.device.faults()] == []


@pytest.fixture
def models() -> Iterator[Adapters]:
    """Two models."""
    with open_adapters() as opened:
        yield opened
        assert [fault for nic in opened.nics for fault in nic.device.faults()] == []


@pytest.fixture
def everywhere(adapters) -> Iterator[Parties]:
    """Two parties on NICs of every kind."""
    with Parties(adapters) as parties:
        yield parties


@pytest.fixture
def parties(models) -> Iterator[Parties]:
    """Two parties on models."""
    with Parties(models) as parties:
        yield parties
