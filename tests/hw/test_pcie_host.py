# amaranth: UnusedElaboratable=no
"""The core's DMA on PCI Express, behind the core's own hubs, readers and writers, in Verilator."""

import pytest
from amaranth.hdl import Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, flipped
from amoeba_hw.host.hubs import ReadHub, WriteHub
from amoeba_hw.host.packed_reader import PackedReader
from amoeba_hw.host.packed_writer import PackedWriter
from amoeba_hw.interfaces import DMA_COMMAND, READ_REQUEST, packet_beat, read_beat, write_beat
from amoeba_hw.pcie.host import PcieHost
from amoeba_hw.pcie.interfaces import CONFIGURATION, MSIX_MESSAGE, completion_beat, request_beat
from amoeba_hw.stream import connect_streams
from amoeba_model.trace import Requester
from amoeba_sim.cocotb_runner import run_bench

READERS = (Requester.OPERAND_FETCH, Requester.ANSWER_FETCH, Requester.LINE_TABLE)
WRITERS = (Requester.RESULT_WRITER, Requester.ANSWER_WRITER, Requester.LINE_TABLE)


class PciePorts(wiring.Component):
    """Two readers, two writers and one client of lines behind hubs, on one link.

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
                "interrupts": In(stream.Signature(MSIX_MESSAGE)),
                "requests": Out(stream.Signature(request_beat(width))),
                "completions": In(stream.Signature(completion_beat(width))),
                "configuration": In(CONFIGURATION),
                "read_credit": In(1),
                "run": In(1),
                "merger_idle": Out(1),
                "reads_idle": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.host = host = PcieHost(
            self._width, lines=64, tags=32, timeout=0, read_limit=512, write_limit=256
        )
        m.submodules.read_hub = read_hub = ReadHub(self._width, READERS)
        m.submodules.write_hub = write_hub = WriteHub(self._width, WRITERS)
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
        connect_streams(m, read_hub.port, host.reads)
        connect_streams(m, host.read_answers, read_hub.port_answers)
        connect_streams(m, write_hub.port, host.writes)
        connect_streams(m, flipped(self.interrupts), host.interrupts)
        connect_streams(m, host.requests, flipped(self.requests))
        connect_streams(m, flipped(self.completions), host.completions)
        m.d.comb += [
            host.read_user.eq(read_hub.port_user),
            host.write_user.eq(write_hub.port_user),
            host.configuration.eq(self.configuration),
            host.read_credit.eq(self.read_credit),
            host.run.eq(self.run),
            self.merger_idle.eq(host.merger_idle),
            self.reads_idle.eq(host.reads_idle),
        ]
        return m


@pytest.mark.parametrize("width", [128, 256])
def test_packets_and_lines_go_over_the_link_and_back(width):
    run_bench(PciePorts(width), "pcie_host", parameters={"width": width})


def test_a_read_has_room_for_its_completions():
    with pytest.raises(ValueError, match="room for a read of 4096 bytes, got 64 lines of 16"):
        PcieHost(128, lines=64)
