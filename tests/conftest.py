"""Settings and fixtures every test shares. This folder joins the import path: ``from strategies import operands``."""

from collections.abc import Callable, Iterator

import pytest
from amoeba_model.network import Network, SimulatedDevice
from amoeba_model.nic import ModelDevice
from amoeba_model.parameters import NicParameters
from hypothesis import settings
from support.raw_driver import Pair, connect

# A shared or busy machine must not fail a property; slowness is what pytest's own timeout is for.
settings.register_profile("amoeba", deadline=None)
settings.load_profile("amoeba")

DEVICES: dict[str, Callable[[NicParameters], SimulatedDevice]] = {"model": ModelDevice}
"""How to make each kind of simulated device."""

PAIRS = ("model-model",)
"""Kinds of initiator and target on which the tests of a whole NIC run."""


@pytest.fixture(params=tuple(DEVICES))
def make_device(request: pytest.FixtureRequest) -> Iterator[Callable[..., SimulatedDevice]]:
    """A function of optional parameters that makes a device without a network; closed after the test."""
    devices: list[SimulatedDevice] = []

    def make(parameters: NicParameters | None = None) -> SimulatedDevice:
        devices.append(DEVICES[request.param](parameters or NicParameters()))
        return devices[-1]

    yield make
    for device in devices:
        device.close()


@pytest.fixture(params=PAIRS)
def make_pair(request: pytest.FixtureRequest) -> Iterator[Callable[..., Pair]]:
    """A function of (parameters, latency), both optional, that connects two fresh devices; closed after the test."""
    initiator, target = request.param.split("-")
    pairs: list[Pair] = []

    def make(parameters: NicParameters | None = None, latency: int = Network.DEFAULT_LATENCY) -> Pair:
        pairs.append(connect(DEVICES[initiator], DEVICES[target], parameters, latency))
        return pairs[-1]

    yield make
    for pair in pairs:
        pair.initiator.device.close()
        pair.target.device.close()


@pytest.fixture
def device_pair(make_pair: Callable[..., Pair]) -> Pair:
    """Two devices with default parameters on one network, a context and a peer on each side."""
    return make_pair()
