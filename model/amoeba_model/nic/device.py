"""The ``model`` device: the specification as a NIC that runs in process."""

from collections import deque
from typing import NoReturn

from amoeba_model.device import DeviceClosedError, DeviceError, DmaFault
from amoeba_model.frames import Frame
from amoeba_model.grants import MemoryGrants
from amoeba_model.network import SimulatedDevice
from amoeba_model.nic.answers import AnswerStore
from amoeba_model.nic.capabilities import Capabilities
from amoeba_model.nic.checker import RequestChecker
from amoeba_model.nic.core import Core
from amoeba_model.nic.credits import TargetCredits
from amoeba_model.nic.event_counters import EventCounters, RemoteRequests
from amoeba_model.nic.events import EventWriter
from amoeba_model.nic.frames import FrameReceiver, FrameTransmitter
from amoeba_model.nic.host import HostMemory
from amoeba_model.nic.initiator import Initiator
from amoeba_model.nic.matcher import Matcher
from amoeba_model.nic.memory import MemoryEngine
from amoeba_model.nic.pdc import PdcTable
from amoeba_model.nic.peers import NEVER, Peer
from amoeba_model.nic.registers import DoorbellPages, RegisterBank, check_offset
from amoeba_model.nic.responder import Responder
from amoeba_model.nic.return_sender import ReturnSender
from amoeba_model.nic.rings import Interrupts
from amoeba_model.nic.tables import Context, KeyTable
from amoeba_model.nic.target import Target
from amoeba_model.nic.timing import RECEIVE
from amoeba_model.parameters import NicParameters
from amoeba_model.registers import DOORBELL_PAGE, Counter, ignored_doorbells
from amoeba_model.trace import TraceEvent

__all__ = ["ModelDevice"]


class ModelDevice(SimulatedDevice):
    """A transaction-level NIC with the hardware's registers, rings, frames and counters.

    Results are exact, time is nominal (:mod:`amoeba_model.nic.timing`): host memory changes when the clock
    reaches the frame that causes it, and frames leave at the cycles that the costs add up to.

    While :attr:`tracing` is set, events are recorded for :meth:`trace_events`.
    """

    def __init__(self, parameters: NicParameters | None = None, *, name: str = "model") -> None:
        super().__init__()
        self.parameters = parameters or NicParameters()
        self._name = f"{name} ({self.parameters.data_width}-bit, {self.parameters.contexts} contexts)"
        self._closed = False
        self._start(Core(self.parameters), MemoryGrants())

    def _start(self, core: Core, grants: MemoryGrants) -> None:
        """Make all parts anew, with nothing in them but the clock and what the host has granted."""
        self._arrivals: deque[tuple[int, bytes]] = deque()
        self._core = core
        self._active = self._programmed = core.now
        self._host = host = HostMemory(core, grants)
        capabilities = Capabilities(self.parameters)
        self._contexts = [Context(number) for number in range(self.parameters.contexts)]
        keys = KeyTable(self.parameters.keys)
        peers = [Peer() for _ in range(self.parameters.peers)]
        self._transmitter = FrameTransmitter(core)
        self._receiver = FrameReceiver(core)
        self._interrupts = Interrupts(core)
        event_counters = EventCounters(core, host)
        self._initiator = Initiator(
            core, host, capabilities, self._contexts, peers, self._transmitter, self._interrupts, event_counters
        )
        events = EventWriter(core, host, self._interrupts, self._contexts)
        answers = AnswerStore(core, host)
        self._matcher = matcher = Matcher(core, host, self._contexts, events)
        target_pdcs = PdcTable(core, TargetCredits(core, self._contexts, events, matcher), answers)
        self._target = Target(
            core,
            target_pdcs,
            RequestChecker(core, capabilities, self._contexts, keys),
            matcher,
            MemoryEngine(core, host),
            events,
            event_counters,
            RemoteRequests(self._contexts, keys, event_counters),
            answers,
            Responder(core, self._transmitter),
            ReturnSender(core, answers, self._transmitter),
        )
        self._bank = RegisterBank(
            core, capabilities, self._contexts, keys, self._initiator, matcher, event_counters, target_pdcs
        )
        self._doorbells = DoorbellPages(
            self._contexts,
            {
                "transmit_tail": self._initiator.ring_doorbell,
                "completion_head": self._initiator.consume,
                "arm": self._initiator.completions.arm,
                "event_head": events.consume,
                "event_arm": events.arm,
                "receive_tail": matcher.ring_doorbell,
                "slot_release": matcher.release_slot,
            },
            ignored_doorbells(self.parameters),
        )

    @property
    def name(self) -> str:
        return self._name

    @property
    def memory(self) -> MemoryGrants:
        return self._host.grants

    @property
    def cycles(self) -> int:
        if self._closed:
            self._refuse()
        return self._core.now

    @property
    def last_activity(self) -> int:
        self._check_open()
        return self._core.now if self._transmitter.waiting else self._active

    foresees = True

    @property
    def idle(self) -> bool:
        self._check_open()
        if self._arrivals or self._transmitter.waiting or self._initiator.has_work:
            return False
        now = self._core.now
        # a receive that waits for free space goes on only after a write of the host, or a frame
        return now > self._programmed and (now > self._active or not self._matcher.busy)

    @property
    def next_departure(self) -> int | None:
        self._check_open()
        return self._transmitter.next_departure

    idle_hz = 1_000_000

    def function_reset(self) -> None:
        self._check_open()
        old, transmitter = self._core, self._transmitter
        core = Core(self.parameters)
        core.now, core.reset_at = old.now, old.now
        core.tracing, core.events = old.tracing, old.events
        self._start(core, self._host.grants)
        self._transmitter.obey(transmitter)

    @property
    def tracing(self) -> bool:
        return self._core.tracing

    @tracing.setter
    def tracing(self, on: bool) -> None:
        self._core.tracing = on

    def read(self, offset: int) -> int:
        self._check_open()
        check_offset(offset)
        return self._bank.read(offset) if offset < DOORBELL_PAGE else 0

    def write(self, offset: int, value: int) -> None:
        self._check_open()
        check_offset(offset)
        if value >> 32:
            raise DeviceError(f"a register holds 32 bits, which {value:#x} does not fit")
        self._active = self._core.now
        if offset >= DOORBELL_PAGE:
            self._doorbells.write(offset, int(value))
        else:
            self._programmed = self._core.now
            self._bank.write(offset, int(value))

    def grant(
        self,
        iova: int,
        length: int,
        *,
        writable: bool = True,
        host_address: int | None = None,
        context: int | None = None,
    ) -> None:
        self._check_open()
        self._host.grant(iova, length, writable, host_address=host_address, context=context)

    def revoke(self, iova: int, length: int, *, context: int | None = None) -> None:
        self._check_open()
        self._host.revoke(iova, length, context)

    @property
    def isolates_contexts(self) -> bool:
        return True

    def faults(self) -> list[DmaFault]:
        self._check_open()
        faults, self._host.faults = self._host.faults, []
        return faults

    def counters(self) -> dict[Counter, int]:
        """All counters, as their registers show them."""
        self._check_open()
        return {counter: self._core.counter(counter) for counter in Counter}

    def trace_events(self) -> list[TraceEvent]:
        self._check_open()
        events, self._core.events = self._core.events, []
        return sorted(events, key=lambda event: (event.cycle, event.stage))

    def advance(self) -> None:
        if self._closed:
            self._refuse()
        super().advance()

    def wait(self, timeout: float) -> int:
        self._check_open()
        return super().wait(timeout)

    def run_until(self, cycle: int) -> None:
        if self._closed:
            self._refuse()
        core = self._core
        arrivals = self._arrivals
        retransmitter, target = self._initiator.retransmitter, self._target
        self._initiator.run()
        if self._matcher.busy:
            self._matcher.run()
        while True:
            arrival = arrivals[0][0] if arrivals else NEVER
            deadline = min(retransmitter.deadline, target.deadline)
            if self._matcher.open and self._end_stalled(min(arrival, deadline, cycle)):
                continue
            if deadline < arrival:
                if deadline > cycle:
                    break
                self._active = core.now = max(core.now, deadline)
                if retransmitter.deadline <= core.now:
                    self._initiator.expire()
                if target.deadline <= core.now:
                    target.expire()
            else:
                if arrival > cycle:
                    break
                if arrival > core.now:
                    core.now = arrival
                self._receive(arrivals.popleft()[1])
        if cycle > core.now:
            core.now = cycle

    def _end_stalled(self, before: int) -> bool:
        """End the next message of several packets that has stalled before a cycle; return whether there is one."""
        cycle, pdc = self._matcher.stalls()
        if cycle >= before:
            return False
        self._active = self._core.now = max(self._core.now, cycle)
        self._target.end_stalled(pdc)
        return True

    def _receive(self, frame: bytes) -> None:
        """Take a frame whose last byte has arrived."""
        self._active = self._core.now
        cycle = self._core.now + RECEIVE
        decoded = self._receiver.receive(frame, cycle)
        if decoded is None:
            return
        header, payload = decoded
        if header.is_request:
            self._target.handle(header, payload, cycle)
        elif self.parameters.return_data and not header.returns and header.dpdcid >= self.parameters.peers:
            header.dpdcid -= self.parameters.peers
            self._target.acknowledge(header)
        else:
            self._initiator.receive(header, payload, cycle)

    def take_frames(self) -> list[Frame]:
        if self._closed:
            self._refuse()
        return self._transmitter.take()

    def deliver(self, frame: bytes, cycle: int) -> None:
        if self._closed:
            self._refuse()
        if not frame:
            raise DeviceError("a frame has at least one byte, got none")
        self._arrivals.append((cycle, frame))

    def pause_transmission(self, cycle: int, stop: bool) -> None:
        self._check_open()
        self._transmitter.pause(cycle, stop)

    def take_interrupts(self) -> int:
        self._check_open()
        return self._interrupts.take()

    def close(self) -> None:
        super().close()
        self._closed = True

    def forked(self) -> None:
        self._closed = True

    def _check_open(self) -> None:
        if self._closed:
            self._refuse()

    def _refuse(self) -> NoReturn:
        raise DeviceClosedError(f"{self._name} is closed")
