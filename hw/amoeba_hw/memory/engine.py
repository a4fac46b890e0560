"""The reservation station that every access of the target to host memory goes through."""

from amaranth.hdl import Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from amoeba_model.parameters import NicParameters

from amoeba_hw.interfaces import MEMORY_REQUEST, READ_REQUEST, TRACE_SLOT, packet_beat, read_beat, write_beat

__all__ = ["MemoryEngine"]


class MemoryEngine(wiring.Component):
    """Performs RMA reads, RMA writes and atomics on host memory, in order, line by line.

    Parameters
    ----------
    parameters : NicParameters

    Members
    -------
    requests : stream of MEMORY_REQUEST
    operands, compares : packet_beat streams
        One packet of exactly ``length`` bytes for every request with ``has_operand`` or ``has_compare``.
    results : packet_beat stream
        One packet for every request, in order: the old bytes, or one beat without bytes. Its last beat leaves
        when everything that the request wrote has been accepted by ``line_writes``; ``error`` on it says that
        the host refused a line.
    line_reads, line_data : streams
        Whole lines; answers in the order of the requests.
    line_writes : write_beat stream
        Bursts of one line.
    trace_line_read, trace_executed, trace_line_written : TRACE_SLOT
    count_atomic_beats, count_line_reads, count_line_writes, count_line_hits : out, pulses
    """

    def __init__(self, parameters: NicParameters):
        self._parameters = parameters
        width = parameters.data_width
        super().__init__(
            {
                "requests": In(stream.Signature(MEMORY_REQUEST)),
                "operands": In(stream.Signature(packet_beat(width))),
                "compares": In(stream.Signature(packet_beat(width))),
                "results": Out(stream.Signature(packet_beat(width))),
                "line_reads": Out(stream.Signature(READ_REQUEST)),
                "line_data": In(stream.Signature(read_beat(width))),
                "line_writes": Out(stream.Signature(write_beat(width))),
                "trace_line_read": Out(TRACE_SLOT),
                "trace_executed": Out(TRACE_SLOT),
                "trace_line_written": Out(TRACE_SLOT),
                "count_atomic_beats": Out(1),
                "count_line_reads": Out(1),
                "count_line_writes": Out(1),
                "count_line_hits": Out(1),
            }
        )

    def elaborate(self, platform):
        return Module()
