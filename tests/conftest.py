"""Settings and fixtures every test shares."""

import gc
import re
import signal
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from functools import cache

import pytest
from amoeba_model.network import Network, SimulatedDevice
from amoeba_model.parameters import BUILDS, NicParameters
from hypothesis import settings

from tests.support.budgets import BUDGETS, Budgets, read_budgets
from tests.support.devices import DEVICES
from tests.support.pairs import PAIRS
from tests.support.raw_driver import Pair, connect
from tests.support.turns import TURNS, Turns, read_turns, turn_of_the_day

# A shared or busy machine must not fail a property; slowness is what pytest's own timeout is for.
settings.register_profile("amoeba", deadline=None)
settings.load_profile("amoeba")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Budgets(read_budgets(BUDGETS.read_text())), "budgets")
    if (turn := turn_of_the_day()) is not None:
        config.pluginmanager.register(Turns(read_turns(TURNS.read_text()), turn), "turns")
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # So shells start what runs behind them, and tests' own processes would inherit it: Ctrl-C is to reach those.
        signal.signal(signal.SIGINT, signal.default_int_handler)


def rtl_build(item: pytest.Item) -> NicParameters:
    """Return the build of RTL NICs for a test of the driver: the smallest, which runs in a third of the time."""
    return NicParameters() if item.get_closest_marker("full_build") else BUILDS["tiny"]


@cache
def build_the_nic(kind: str, parameters: NicParameters | None = None) -> None:
    """Once in a process. If that fails, the tests that need it say so."""
    from amoeba import open_device
    from amoeba_sim.verilate import BuildError

    with suppress(BuildError):
        open_device(kind, parameters).close()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Function) -> Generator[None, object, object]:
    """The RTL NIC is built before the first test that names it, where its minutes count against no timeout."""
    named = re.findall(r"rtl(?:\+pcie)?", item.nodeid.partition("[")[2])
    for kind in set(named):
        build_the_nic(kind)
    if "rtl" in named and "rtl_parameters" in item.fixturenames:
        build_the_nic("rtl", rtl_build(item))
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Nothing is garbage while pytest collects tests, nor are they afterwards: garbage collections skip them."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


MakePair = Callable[..., Pair]


@pytest.fixture(params=tuple(DEVICES))
def make_device(request: pytest.FixtureRequest) -> Iterator[Callable[[], SimulatedDevice]]:
    """A function that makes a device without a network; closed after the test."""
    devices: list[SimulatedDevice] = []

    def make() -> SimulatedDevice:
        devices.append(DEVICES[request.param](NicParameters()))
        return devices[-1]

    yield make
    for device in devices:
        device.close()


def _pairs(kinds: str) -> Iterator[MakePair]:
    initiator, target = kinds.split(",")
    pairs: list[Pair] = []

    def make(parameters: NicParameters | None = None, latency: int = Network.DEFAULT_LATENCY) -> Pair:
        pairs.append(connect(DEVICES[initiator], DEVICES[target], parameters, latency))
        return pairs[-1]

    yield make
    for pair in pairs:
        pair.initiator.device.close()
        pair.target.device.close()


@pytest.fixture(params=PAIRS)
def make_pair(request: pytest.FixtureRequest) -> Iterator[MakePair]:
    """A function of (parameters, latency), both optional, that connects two fresh devices; closed after the test.

    Other parameters than the default need another build of the RTL, of minutes: tests that vary them take
    :func:`make_model_pair`.
    """
    yield from _pairs(request.param)


@pytest.fixture
def rtl_parameters(request: pytest.FixtureRequest) -> NicParameters:
    """The build of RTL NICs in a test of the driver: ``tiny``, or the full one in a test marked ``full_build``."""
    return rtl_build(request.node)


@pytest.fixture
def make_model_pair() -> Iterator[MakePair]:
    """:func:`make_pair` on two models."""
    yield from _pairs("model,model")


@pytest.fixture
def device_pair(make_pair: MakePair) -> Pair:
    """Two devices with default parameters on one network, a context and a peer on each side."""
    return make_pair()
