# amaranth: UnusedElaboratable=no
"""The DMA side of the NIC: packed readers and writers, hubs, order of lines and the AXI4 adapter, in Verilator."""

import pytest
from amaranth.hdl import Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, flipped
from amoeba_hw.host.axi import Axi4Signature
from amoeba_hw.host.axi_dma import AxiDma
from amoeba_hw.host.hubs import ReadHub, WriteHub
from amoeba_hw.host.line_order import LineOrder
from amoeba_hw.host.packed_reader import PackedReader
from amoeba_hw.host.packed_writer import PackedWriter
from amoeba_hw.interfaces import DMA_COMMAND, READ_REQUEST, packet_beat, read_beat, write_beat
from amoeba_hw.stream import connect_streams
from amoeba_sim.cocotb_runner import run_bench

USERS = (0xA5, 0x5A, 0x3C)


class HostPorts(wiring.Component):
    """Two readers, two writers and one client of lines behind hubs, on one AXI4 port.

    The second reader sees what the second writer wrote, without software between them.
    """

    def __init__(self, width):
        self._width = width
        beat = packet_beat(width)
        super().__init__(
            {
                "read_commands": In(stream.Signature(DMA_COMMAND)).array(2),
                "read_packets": Out(stream.Signature(beat)).array(2),
                "write_commands": In(stream.Signature(DMA_COMMAND)).array(2),
                "write_packets": In(stream.Signature(beat)).array(2),
                "done": Out(2),
                "line_reads": In(stream.Signature(READ_REQUEST)),
                "line_data": Out(stream.Signature(read_beat(width))),
                "line_writes": In(stream.Signature(write_beat(width))),
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
        for index in range(2):
            m.submodules[f"reader{index}"] = reader = PackedReader(self._width)
            m.submodules[f"writer{index}"] = writer = PackedWriter(self._width)
            connect_streams(m, flipped(self.read_commands[index]), reader.commands)
            connect_streams(m, reader.packets, flipped(self.read_packets[index]))
            connect_streams(m, reader.requests, read_hub.requests[index])
            connect_streams(m, read_hub.answers[index], reader.answers)
            connect_streams(m, flipped(self.write_commands[index]), writer.commands)
            connect_streams(m, flipped(self.write_packets[index]), writer.packets)
            connect_streams(m, writer.writes, write_hub.writes[index])
            m.d.comb += self.done[index].eq(writer.done)
        connect_streams(m, flipped(self.line_reads), read_hub.requests[2])
        connect_streams(m, read_hub.answers[2], flipped(self.line_data))
        connect_streams(m, flipped(self.line_writes), write_hub.writes[2])
        connect_streams(m, read_hub.port, order.i)
        connect_streams(m, order.o, dma.reads)
        connect_streams(m, dma.read_data, read_hub.port_answers)
        connect_streams(m, write_hub.port, dma.writes)
        wiring.connect(m, dma.bus, flipped(self.host))
        m.d.comb += [
            order.i_user.eq(read_hub.port_user),
            order.write_valid.eq(write_hub.port.valid),
            order.write_ready.eq(dma.writes.ready),
            order.write_beat.eq(write_hub.port.p),
            order.write_user.eq(write_hub.port_user),
            order.answered.eq(dma.bus.bvalid & dma.bus.bready),
            dma.read_user.eq(order.o_user),
            dma.write_user.eq(write_hub.port_user),
            self.write_error.eq(dma.write_error),
        ]
        return m


@pytest.mark.parametrize("width", [128, 256, 512])
def test_packets_and_lines_go_to_the_host_and_back(width):
    run_bench(HostPorts(width), "host_ports", parameters={"width": width, "users": USERS})
