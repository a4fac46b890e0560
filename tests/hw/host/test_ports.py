# amaranth: UnusedElaboratable=no
"""The DMA side of the NIC: packed readers and writers, hubs, order of lines and the AXI4 adapter, in Verilator."""

import pytest
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import Out, flipped
from amoeba_hw.host.axi import Axi4Signature
from amoeba_hw.host.axi_dma import AxiDma
from amoeba_hw.host.hubs import ReadHub, WriteHub
from amoeba_hw.host.line_order import LineOrder
from amoeba_hw.stream import connect_streams
from amoeba_sim.cocotb_runner import run_bench

from tests.hw.host.dma_components import client_ports, connect_clients
from tests.support.widths import WIDTHS

USERS = (0xA5, 0x5A, 0x3C)


class HostPorts(wiring.Component):
    """Two readers, two writers and one client of lines behind hubs, on one AXI4 port.

    The second reader sees what the second writer wrote, without software between them.
    """

    def __init__(self, width):
        self._width = width
        super().__init__(
            {
                **client_ports(width),
                "write_error": Out(1),
                "host": Out(Axi4Signature(width)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.dma = dma = AxiDma(self._width)
        m.submodules.order = order = LineOrder(self._width, lines=USERS[2], writer=USERS[1], reader=USERS[1])
        m.submodules.read_hub = read_hub = ReadHub(self._width, USERS)
        m.submodules.write_hub = write_hub = WriteHub(self._width, USERS)
        connect_clients(m, self, self._width, read_hub, write_hub)
        connect_streams(m, read_hub.port, order.i)
        connect_streams(m, order.o, dma.reads)
        connect_streams(m, dma.read_data, read_hub.port_answers)
        connect_streams(m, write_hub.port, dma.writes)
        wiring.connect(m, dma.bus, flipped(self.host))
        m.d.comb += [
            order.i_user.eq(read_hub.port_user),
            order.begun.eq(write_hub.begun),
            order.answered.eq(dma.bus.bvalid & dma.bus.bready),
            dma.read_user.eq(order.o_user),
            dma.write_user.eq(write_hub.port_user),
            self.write_error.eq(dma.write_error),
        ]
        return m


@pytest.mark.parametrize("width", WIDTHS)
def test_packets_and_lines_go_to_the_host_and_back(width):
    run_bench(HostPorts(width), "tests.hw.host.bench_ports", parameters={"width": width, "users": USERS})
