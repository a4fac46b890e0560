# amaranth: UnusedElaboratable=no
"""A whole memory node at its PHY.

Covers ``boards/node.py``.
"""

from functools import partial

import pytest
from amaranth.hdl import ClockDomain, Module, ResetSignal
from amaranth.lib import cdc, wiring
from amaranth.lib.wiring import In, Out
from amoeba_hw.analysis.crossings import clock_crossings
from amoeba_hw.analysis.design import ElaboratedDesign
from amoeba_hw.boards.node import MemoryNode
from amoeba_hw.host.axi import Axi4LiteSignature, Axi4Signature, AxiStreamSignature
from amoeba_hw.host.register_bank import ADDRESS_WIDTH
from amoeba_model.boot_list import boot_words
from amoeba_model.node import NodeSettings
from amoeba_model.parameters import BUILDS
from amoeba_sim.cocotb_runner import run_bench
from amoeba_tools.node_boot import record_boot_list

SETTINGS = NodeSettings(bytes.fromhex("020000000002"), 0x0A00_0002, 8192, 0x1234)


class StandIn(wiring.Component):
    """A NIC that sends back what it receives, and uses no memory."""

    bar: In(Axi4LiteSignature(ADDRESS_WIDTH))
    host: Out(Axi4Signature(128))
    rx: In(AxiStreamSignature(128))
    tx: Out(AxiStreamSignature(128))

    def elaborate(self, platform):
        m = Module()
        wiring.connect(m, wiring.flipped(self.rx), wiring.flipped(self.tx))
        m.d.sync += self.bar.awready.eq(self.bar.wvalid)
        return m


class ClockedNode(wiring.Component):
    """A node with the clocks and the signals of its PHY as ports."""

    transmit_clk: In(1)
    receive_clk: In(1)
    rx_data: In(8)
    rx_enable: In(1)
    rx_error: In(1)
    tx_data: Out(8)
    tx_enable: Out(1)
    done: Out(1)
    failed: Out(1)

    def __init__(self, words, memory, nic=None):
        super().__init__()
        self._node = MemoryNode(BUILDS["node"], words, memory, nic)

    def elaborate(self, platform):
        m = Module()
        m.submodules.node = node = self._node
        for name in ("transmit", "receive"):
            domain = ClockDomain(name)
            m.domains += domain
            m.d.comb += domain.clk.eq(getattr(self, f"{name}_clk"))
            m.submodules[f"{name}_reset"] = cdc.ResetSynchronizer(ResetSignal(), domain=name)
        m.d.comb += [
            node.receive.data.eq(self.rx_data),
            node.receive.enable.eq(self.rx_enable),
            node.receive.error.eq(self.rx_error),
            self.tx_data.eq(node.transmit.data),
            self.tx_enable.eq(node.transmit.enable),
            self.done.eq(node.done),
            self.failed.eq(node.failed),
        ]
        return m


def entries():
    return record_boot_list(SETTINGS)[0]


def test_every_path_between_its_clocks_has_a_named_synchronizer():
    dut = ClockedNode(boot_words(entries()), SETTINGS.memory, StandIn())
    inputs = {f"rx_{name}": "receive_clk" for name in ("data", "enable", "error")}
    found = clock_crossings(ElaboratedDesign(dut), {**inputs, "rst": "clk"})
    assert [str(each) for each in sorted(found) if not each.synchronizer] == []
    assert {each.from_clock for each in found} >= {"clk", "transmit_clk", "receive_clk"}


@pytest.mark.parametrize(
    ("parameters", "said"), [(BUILDS["tiny"], "128 bits and 8 peers"), (BUILDS["full"], "256 bits and 128 peers")]
)
def test_a_nic_with_an_initiator_or_another_width_is_refused(parameters, said):
    with pytest.raises(ValueError, match=f"Expected a NIC of 128 bits without an initiator, got {said}"):
        MemoryNode(parameters, boot_words(entries()), SETTINGS.memory)


@pytest.mark.long
@pytest.mark.timeout(3000)
def test_a_node_serves_others_by_ethernet():
    """ARP, ping, WRITEs, READs and fetching atomics at the PHY's bytes, with the NIC in hardware."""
    listed, name = record_boot_list(SETTINGS)
    parameters = {"mac": SETTINGS.mac.hex(), "ip": "10.0.0.2", "key": SETTINGS.key, "name": name.hex()}
    node = partial(ClockedNode, boot_words(listed), SETTINGS.memory)
    run_bench(node, "tests.hw.boards.bench_node", timeout=900, parameters=parameters)
