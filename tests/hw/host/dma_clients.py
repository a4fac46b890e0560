"""Two readers and two writers of packets, and a client of lines, behind the hubs, as benches of the host's side drive
them: ``read_commands``, ``read_packets``, ``write_commands``, ``write_packets`` (arrays of streams), ``done``,
``line_reads``, ``line_data``, ``line_writes``.
"""

import cocotb
from amoeba_hw.interfaces import DMA_COMMAND, READ_REQUEST, packet_beat, read_beat, write_beat
from amoeba_sim.cocotb_streams import StreamSink, StreamSource, always, in_bursts, randomly
from cocotb.triggers import RisingEdge

from tests.hw.uet_frames import beats_of

PACES = {"always": always, "randomly": lambda: randomly(0.6), "in bursts": lambda: in_bursts(12)}


class DmaClients:
    """Their streams; ``done`` counts the commands that each writer has done."""

    def __init__(self, dut, width, pace):
        self.dut = dut
        self.width = width
        beat = packet_beat(width)
        self.read_commands, self.write_commands, self.write_packets = (
            [StreamSource(dut, f"{name}__{index}", shape, pace=pace()) for index in range(2)]
            for name, shape in (
                ("read_commands", DMA_COMMAND),
                ("write_commands", DMA_COMMAND),
                ("write_packets", beat),
            )
        )
        self.read_packets = [StreamSink(dut, f"read_packets__{index}", beat, pace=pace()) for index in range(2)]
        self.line_reads = StreamSource(dut, "line_reads", READ_REQUEST, pace=pace())
        self.line_data = StreamSink(dut, "line_data", read_beat(width), pace=pace())
        self.line_writes = StreamSource(dut, "line_writes", write_beat(width), pace=pace())
        self.done = [0, 0]
        cocotb.start_soon(self._count())

    async def _count(self):
        while True:
            await RisingEdge(self.dut.clk)
            if not self.dut.rst.value:
                self.look()

    def look(self):
        """Take note of what happens in a cycle."""
        done = int(self.dut.done.value)
        self.done = [count + (done >> index & 1) for index, count in enumerate(self.done)]

    def write(self, index, address, content):
        self.write_commands[index].send({"address": address, "length": len(content), "context": 3 + index})
        self.write_packets[index].send(*beats_of(content, self.width))

    async def packet(self, index):
        """The next packet of a reader, and whether it is marked as refused."""
        line = self.width // 8
        beats = await self.read_packets[index].receive(1)
        while not beats[-1]["last"]:
            beats += await self.read_packets[index].receive(1)
        assert all(beat["count"] == line for beat in beats[:-1])
        content = b"".join(beat["data"].to_bytes(line, "little")[: beat["count"]] for beat in beats)
        return content, beats[-1]["error"]

    def line_write(self, address, content, strobe=None):
        """``strobe``: all bytes, unless said otherwise."""
        self.line_writes.send(
            {
                "address": address,
                "beats": 1,
                "data": int.from_bytes(content, "little"),
                "strobe": (1 << self.width // 8) - 1 if strobe is None else strobe,
                "first": 1,
                "last": 1,
            }
        )
