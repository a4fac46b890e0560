"""Names of simulated NICs: what is opened for them, and what is said of others.

Covers ``devices/devices.py``.
"""

import re
import sys

import numpy as np
import pytest
from amoeba import FabricError, open_cluster, open_device
from amoeba.core.errno import Errno
from amoeba.devices.devices import (
    NETLIST_KINDS,
    SIMULATED_KINDS,
    has_waveforms,
    is_kind,
    known_kinds,
    simulates_hardware,
    speaks_packets,
)
from amoeba_model.opcodes import Datatype, Op
from amoeba_model.parameters import BUILDS
from amoeba_tools.cli import app
from typer.testing import CliRunner

from tests.driver.endpoints import ALL_ACCESS, connect, make_side
from tests.support.pcie_rtl import SMALL


def test_what_is_built_from_the_hardware_is_known():
    assert SIMULATED_KINDS == ("model", "rtl", "rtl+pcie")
    assert NETLIST_KINDS == ("netlist:node",)
    hardware = [kind for kind in SIMULATED_KINDS + NETLIST_KINDS if simulates_hardware(kind)]
    assert hardware == ["rtl", "rtl+pcie", "netlist:node"]
    assert [kind for kind in SIMULATED_KINDS if speaks_packets(kind)] == ["rtl+pcie"]
    assert not any(map(speaks_packets, ("pcie:0000:01:00.0", "abacus")))
    assert [kind for kind in SIMULATED_KINDS + NETLIST_KINDS if has_waveforms(kind)] == ["rtl", "rtl+pcie"]
    assert all(map(is_kind, (*SIMULATED_KINDS, *NETLIST_KINDS, "pcie:0000:01:00.0")))
    assert not any(map(is_kind, ("", "pcie", "model+pcie", "rtl+", "rtl,model", "netlist", "netlist:full")))


@pytest.mark.parametrize("kind", ["abacus", "model+pcie", "", "netlist:full"])
def test_other_names_are_refused_with_those_that_there_are(kind):
    says = f"is one of model, rtl, rtl+pcie, netlist:node or pcie:ADDRESS, got {kind!r}"
    with pytest.raises(FabricError, match=re.escape(says)):
        open_device(kind)


def test_a_netlist_has_the_parameters_of_its_build_alone():
    with pytest.raises(FabricError, match="netlist:node is the build node, and has no other parameters"):
        open_device("netlist:node", BUILDS["tiny"])


def test_without_the_simulator_the_error_says_how_to_install_it(monkeypatch):
    for kind, module in (("rtl", "amoeba_sim.rtl"), ("netlist:node", "amoeba_sim.netlist.device")):
        monkeypatch.setitem(sys.modules, module, None)
        says = rf"the {kind} device needs the simulator: .*pip install '.\[sim\]'"
        with pytest.raises(FabricError, match=says) as refused:
            open_device(kind)
        assert refused.value.fi_errno is Errno.FI_ENOSYS


def test_the_host_of_a_name_is_not_changed_by_options():
    with pytest.raises(FabricError, match=re.escape("the host of rtl+pcie is pcie, rtl_options say host='axi'")):
        open_device("rtl+pcie", rtl_options={"host": "axi"})


def test_commands_say_the_same_of_names():
    ended = CliRunner().invoke(app, ["gups", "--device", "abacus"], env={"COLUMNS": "200"})
    assert ended.exit_code == 2
    assert f"unknown device 'abacus'; expected {known_kinds()}" in ended.output


@pytest.mark.long
def test_nics_of_both_buses_and_the_model_add_to_each_other_s_memory():
    kinds = ["rtl+pcie", "rtl", "model"]
    with open_cluster(kinds, SMALL) as fabric:
        assert ["PCIe" in device.name for device in fabric.devices] == [True, False, False]
        for here, there in ((0, 1), (1, 0), (0, 2), (2, 0)):
            client, server = make_side(fabric.domain(here)), make_side(fabric.domain(there))
            connect(client, server)
            memory = np.full(4, 10, np.uint64)
            region = server.domain.mr_reg(memory, ALL_ACCESS)
            found = np.zeros(4, np.uint64)
            client.endpoint.fetch_atomic(
                np.arange(4, dtype=np.uint64), found, client.peer, region.address, region.key,
                datatype=Datatype.FI_UINT64, op=Op.FI_SUM,
            )  # fmt: skip
            client.finish()
            assert found.tolist() == [10] * 4
            assert memory.tolist() == [10, 11, 12, 13]
            region.close()
            for side in (client, server):  # a NIC of this size has two contexts
                for one in (side.endpoint, side.peers, side.queue, side.domain):
                    one.close()
        assert [device.faults() for device in fabric.devices] == [[]] * 3
