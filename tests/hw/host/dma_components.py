"""The clients behind the hubs in benches of the host's side: two readers, two writers and one client of lines."""

from amaranth.lib import stream
from amaranth.lib.wiring import In, Out, flipped
from amoeba_hw.host.packed_reader import PackedReader
from amoeba_hw.host.packed_writer import PackedWriter
from amoeba_hw.interfaces import DMA_COMMAND, READ_REQUEST, packet_beat, read_beat, write_beat
from amoeba_hw.stream import connect_streams


def client_ports(width):
    """The members by which a bench drives them, as ``tests/hw/host/dma_clients.py`` does."""
    beat = packet_beat(width)
    return {
        "read_commands": In(stream.Signature(DMA_COMMAND)).array(2),
        "read_packets": Out(stream.Signature(beat)).array(2),
        "write_commands": In(stream.Signature(DMA_COMMAND)).array(2),
        "write_packets": In(stream.Signature(beat)).array(2),
        "done": Out(2),
        "line_reads": In(stream.Signature(READ_REQUEST)),
        "line_data": Out(stream.Signature(read_beat(width))),
        "line_writes": In(stream.Signature(write_beat(width))),
    }


def connect_clients(m, component, width, read_hub, write_hub):
    """Make them, between a component with :func:`client_ports` and the hubs."""
    for index in range(2):
        m.submodules[f"reader{index}"] = reader = PackedReader(width)
        m.submodules[f"writer{index}"] = writer = PackedWriter(width)
        connect_streams(m, flipped(component.read_commands[index]), reader.commands)
        connect_streams(m, reader.packets, flipped(component.read_packets[index]))
        connect_streams(m, reader.requests, read_hub.requests[index])
        connect_streams(m, read_hub.answers[index], reader.answers)
        connect_streams(m, flipped(component.write_commands[index]), writer.commands)
        connect_streams(m, flipped(component.write_packets[index]), writer.packets)
        connect_streams(m, writer.writes, write_hub.writes[index])
        m.d.comb += [writer.writes_ordered.eq(write_hub.ordered[index]), component.done[index].eq(writer.done)]
    connect_streams(m, flipped(component.line_reads), read_hub.requests[2])
    connect_streams(m, read_hub.answers[2], flipped(component.line_data))
    connect_streams(m, flipped(component.line_writes), write_hub.writes[2])
