"""Events of simulated NICs, assembled into the life of one atomic or the operations of a whole program."""

from amoeba_tools.tracing.atomic import COMPONENTS, Step, Traced, trace_fetch_atomic
from amoeba_tools.tracing.operations import Operation, Packet, operations_of
from amoeba_tools.tracing.packets import ShownPacket, packets_of
from amoeba_tools.tracing.recorder import MAX_EVENTS, Posted, Recorder, Recording, Reported

__all__ = [
    "COMPONENTS",
    "MAX_EVENTS",
    "Operation",
    "Packet",
    "Posted",
    "Recorder",
    "Recording",
    "Reported",
    "ShownPacket",
    "Step",
    "Traced",
    "operations_of",
    "packets_of",
    "trace_fetch_atomic",
]
