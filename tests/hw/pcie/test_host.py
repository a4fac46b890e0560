# amaranth: UnusedElaboratable=no
"""The core's DMA on PCI Express, behind the core's own hubs, readers and writers, in Verilator."""

import pytest
from amaranth.hdl import Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, flipped
from amoeba_hw.host.hubs import ReadHub, WriteHub
from amoeba_hw.pcie.host import PcieHost
from amoeba_hw.pcie.interfaces import CONFIGURATION, MSIX_MESSAGE, completion_beat, request_beat
from amoeba_hw.stream import connect_streams
from amoeba_model.trace import Requester
from amoeba_sim.cocotb_runner import run_bench

from tests.hw.host.dma_components import client_ports, connect_clients

READERS = (Requester.OPERAND_FETCH, Requester.ANSWER_FETCH, Requester.LINE_TABLE)
WRITERS = (Requester.RESULT_WRITER, Requester.ANSWER_WRITER, Requester.LINE_TABLE)


class PciePorts(wiring.Component):
    """Two readers, two writers and one client of lines behind hubs, on one link.

    The second reader sees what the second writer wrote, without software between them.
    """

    def __init__(self, width, outstanding=128, **sizes):
        self._width, self._outstanding = width, outstanding
        self._sizes = sizes or {"lines": 64, "tags": 32, "read_limit": 512, "write_limit": 256}
        super().__init__(
            {
                **client_ports(width),
                "interrupts": In(stream.Signature(MSIX_MESSAGE)),
                "requests": Out(stream.Signature(request_beat(width))),
                "completions": In(stream.Signature(completion_beat(width))),
                "configuration": In(CONFIGURATION),
                "read_credit": In(1),
                "run": In(1),
                "fence": In(1),
                "fenced": Out(1),
                "merger_idle": Out(1),
                "reads_idle": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.host = host = PcieHost(self._width, timeout=0, **self._sizes)
        m.submodules.read_hub = read_hub = ReadHub(self._width, READERS, self._outstanding)
        m.submodules.write_hub = write_hub = WriteHub(self._width, WRITERS)
        connect_clients(m, self, self._width, read_hub, write_hub)
        connect_streams(m, read_hub.port, host.reads)
        connect_streams(m, host.read_answers, read_hub.port_answers)
        connect_streams(m, write_hub.port, host.writes)
        connect_streams(m, flipped(self.interrupts), host.interrupts)
        connect_streams(m, host.requests, flipped(self.requests))
        connect_streams(m, flipped(self.completions), host.completions)
        m.d.comb += [
            host.read_user.eq(read_hub.port_user),
            host.write_user.eq(write_hub.port_user),
            host.write_begun.eq(write_hub.begun),
            host.write_level.eq(write_hub.level),
            host.configuration.eq(self.configuration),
            host.read_credit.eq(self.read_credit),
            host.run.eq(self.run),
            host.fence.eq(self.fence),
            self.fenced.eq(host.fenced),
            self.merger_idle.eq(host.merger_idle),
            self.reads_idle.eq(host.reads_idle),
        ]
        return m


@pytest.mark.parametrize("width", [128, 256])
def test_packets_and_lines_go_over_the_link_and_back(width):
    run_bench(PciePorts(width), "tests.hw.pcie.bench_host", parameters={"width": width})


def test_a_read_has_space_for_its_completions():
    with pytest.raises(ValueError, match="space for a read of 4096 bytes, got 64 lines of 16"):
        PcieHost(128, lines=64)
