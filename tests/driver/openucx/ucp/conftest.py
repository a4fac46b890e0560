"""Contexts and workers on two NICs of every kind."""

from collections.abc import Iterator

import pytest
from amoeba.openucx.ucp.adapter import Adapters, open_adapters

from tests.driver.openucx.ucp.entities import Entity
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
def sender(adapters) -> Entity:
    return Entity(adapters[0])


@pytest.fixture
def receiver(adapters) -> Entity:
    return Entity(adapters[1])


@pytest.fixture
def pair(sender, receiver) -> tuple[Entity, Entity]:
    """(sender, receiver), connected both ways."""
    sender.connect(receiver)
    receiver.connect(sender)
    return sender, receiver


@pytest.fixture
def two(models) -> tuple[Entity, Entity]:
    """(sender, receiver) on two models, connected both ways."""
    sender, receiver = Entity(models[0]), Entity(models[1])
    sender.connect(receiver)
    receiver.connect(sender)
    return sender, receiver
