# amaranth: UnusedElaboratable=no
"""Devices over a stand-in NIC that copies memory."""

import pytest
from amoeba_sim.rtl import RtlDevice
from amoeba_sim.verilate import build_nic

from tests.sim import copy_engine as engine


@pytest.fixture(scope="session", params=[64, 256, 512])
def any_width(request):
    return build_nic(engine.CopyEngine(request.param))


@pytest.fixture(scope="session")
def library():
    return build_nic(engine.CopyEngine(256))


@pytest.fixture
def device(library):
    with RtlDevice(library) as device:
        yield device
