"""The life of one fetching atomic, as the NICs and the network between them report it."""

import contextlib
from dataclasses import dataclass

import numpy as np
from amoeba.core.buffers import allocate
from amoeba.core.errno import Errno
from amoeba.core.errors import fabric_error
from amoeba.devices.devices import network_of
from amoeba.libfabric.objects.constants import MrAccess, Op
from amoeba.libfabric.objects.fabric import Fabric
from amoeba_model.frames import Frame
from amoeba_model.trace import Stage, TraceEvent
from amoeba_model.wire.uet import ReturnCode

from amoeba_tools.tracing.recorder import Recorder, Recording

__all__ = ["COMPONENTS", "Step", "Traced", "trace_fetch_atomic"]

COMPONENTS = {
    Stage.DOORBELL: "TransmitScheduler",
    Stage.DESCRIPTOR: "DescriptorDispatch",
    Stage.OPERAND: "PacketNumberer",
    Stage.REQUEST_SENT: "FrameTransmitter",
    Stage.REQUEST_RECEIVED: "FrameReceiver",
    Stage.REQUEST_CHECKED: "RequestChecker",
    Stage.LINE_READ: "LineFetcher",
    Stage.EXECUTED: "Executor",
    Stage.LINE_WRITTEN: "WriteBack",
    Stage.RESPONSE_SENT: "FrameTransmitter",
    Stage.RESPONSE_RECEIVED: "FrameReceiver",
    Stage.RESULT_WRITTEN: "ResultOrder",
    Stage.COMPLETION_WRITTEN: "CompletionWriter",
    Stage.INTERRUPT: "CompletionWriter",
    Stage.EVENT_WRITTEN: "EventWriter",
}
"""Component of ``amoeba_hw`` that reports a stage."""

_TIMEOUT = 60.0


@dataclass(frozen=True)
class Step:
    """One event of the trace."""

    cycle: int
    """Since the doorbell."""
    nic: int
    """Index of the NIC in the fabric."""
    event: TraceEvent

    @property
    def component(self) -> str:
        return COMPONENTS[self.event.stage]

    @property
    def detail(self) -> str:
        """Describe the event's numbers at its stage."""
        event = self.event
        match event.stage:
            case Stage.DOORBELL:
                return f"context {event.context}, tail {event.psn}"
            case Stage.DESCRIPTOR:
                return f"context {event.context}, ring index {event.psn}"
            case Stage.LINE_READ | Stage.LINE_WRITTEN:
                return f"line ...{event.psn:08x}"
            case Stage.COMPLETION_WRITTEN | Stage.EVENT_WRITTEN:
                return f"context {event.context}, ring index {event.psn}, {_status(event.status)}"
            case Stage.REQUEST_CHECKED | Stage.RESPONSE_SENT | Stage.RESPONSE_RECEIVED:
                return f"PDC {event.pdc}, PSN {event.psn:#x}, {_status(event.status)}"
            case Stage.INTERRUPT:
                return f"context {event.context}"
            case Stage.REQUEST_RECEIVED:  # its PDC is looked up behind this stage
                return f"PSN {event.psn:#x}"
            case _:
                return f"PDC {event.pdc}, PSN {event.psn:#x}"


def _status(status: int) -> str:
    return ReturnCode(status).name


@dataclass(frozen=True)
class Traced:
    """One fetch-and-add, observed."""

    fetched: int
    """Old value of the target word, ..."""
    stored: int
    """... and what it left there."""
    steps: tuple[Step, ...]
    """By cycle."""
    recording: Recording
    """All of it, with absolute cycles."""
    doorbell: int
    """Absolute cycle of the doorbell."""

    @property
    def frames(self) -> list[tuple[int, Frame]]:
        """(index of the sending NIC, frame with absolute cycle), in order of departure."""
        return self.recording.frames


def trace_fetch_atomic(fabric: Fabric, *, initial: int = 41, operand: int = 1) -> Traced:
    """Let NIC 0 fetch-and-add a 64-bit counter in the memory behind the last NIC, and record everything.

    Raises FI_EOPNOTSUPP if a device cannot trace, FI_ETIMEDOUT if the operation does not finish in a minute,
    or the operation's own error.
    """
    for device in fabric.devices:
        if not device.traces:
            raise fabric_error(Errno.FI_EOPNOTSUPP, f"{device.name} reports no trace")
    # Where they lie in their pages is the same each time, and so is what packets say of them.
    counter, fetched = (np.frombuffer(allocate(8), np.uint64, count=1) for _ in range(2))
    counter[0] = initial
    with contextlib.ExitStack() as exits:
        recorder = exits.enter_context(Recorder(paused=True))
        for device in fabric.devices:
            network = network_of(device)
            assert network is not None  # devices that trace are simulated, and their fabric has a network
            recorder.attached(device, network)
        source, target = (exits.enter_context(fabric.domain(nic)) for nic in (0, len(fabric.nics) - 1))
        region = exits.enter_context(target.mr_reg(counter, MrAccess.FI_REMOTE_READ | MrAccess.FI_REMOTE_WRITE))
        result = exits.enter_context(source.mr_reg(fetched, MrAccess.FI_READ))
        queue, peers = source.cq_open(), source.av_open()
        endpoint = exits.enter_context(source.endpoint(tx_size=4, cq=queue, av=peers))
        served = exits.enter_context(target.endpoint(tx_size=4, cq=target.cq_open(), av=target.av_open()))
        peer = peers.insert(served.getname())
        fabric.settle()
        recorder.start()
        endpoint.fetch_atomic(
            np.array([operand], np.uint64), fetched, peer, region.address, region.key, Op.FI_SUM, result_desc=result
        )  # fmt: skip
        done = queue.sread(timeout=_TIMEOUT)
        recorder.stop()
        if not done:
            raise fabric_error(Errno.FI_ETIMEDOUT, f"the atomic did not finish in {_TIMEOUT:g} s")
    (recording,) = recorder.recordings
    events = sorted(recording.events, key=lambda at: (at[1].cycle, at[1].stage))
    doorbell = next(event.cycle for nic, event in events if nic == 0 and event.stage is Stage.DOORBELL)
    steps = tuple(Step(event.cycle - doorbell, nic, event) for nic, event in events if event.cycle >= doorbell)
    return Traced(int(fetched[0]), int(counter[0]), steps, recording, doorbell)
