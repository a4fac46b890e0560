"""A deterministic network that joins simulated NICs, model and RTL mixed.

Each NIC runs on its own for one link latency at a time, which no frame can cross faster; then frames change
hands. So a run depends on nothing but the programs and the parameters (conservative parallel simulation,
Chandy and Misra 1979).
"""

import abc
import contextlib
import functools
import heapq
import operator
import os
import time
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from amoeba_model.device import Device, DeviceClosedError, DeviceError
from amoeba_model.forking import own
from amoeba_model.frames import Frame, Traffic
from amoeba_model.grants import MemoryGrants
from amoeba_model.impairments import PERFECT, Copy, Impairments
from amoeba_model.interruptions import uninterrupted
from amoeba_model.side_by_side import Crew, Meetings, processors
from amoeba_model.switch import Port, Switch, SwitchQueues
from amoeba_model.trace import TraceEvent

__all__ = ["Network", "Observer", "SimulatedDevice"]

_BY_DEPARTURE = operator.itemgetter(0, 1)
_WORTH_A_THREAD = 20
"""Cycles that a NIC's RTL must run for at a time to be worth waking a thread."""


class SimulatedDevice(Device):
    """A NIC whose time the network drives. Alone (never attached) it advances by itself, frames going nowhere."""

    def __init__(self) -> None:
        self.network: Network | None = None
        self.epochs = 0
        """The highest number that :meth:`new_epoch` had returned when the NIC was detached last."""
        self._alarm: int | None = None
        """The descriptor of :meth:`fileno`, from its first call on."""
        self._close_alarm: weakref.finalize[..., SimulatedDevice] | None = None
        self._raised = 0
        """Interrupts that the descriptor tells of."""
        own(self)

    def forked(self) -> None:
        """Close this copy of the NIC, which is in a forked child."""

    @abc.abstractmethod
    def run_until(self, cycle: int) -> None:
        """Run the NIC until its clock reads at least ``cycle``; returns at once if it already does."""

    @property
    def memory(self) -> MemoryGrants | None:
        """Host memory that the NIC may access; None if that is not known."""
        return None

    @property
    def runs_apart(self) -> bool:
        """Whether :meth:`run_until` needs the interpreter for nothing, so that other NICs can run meanwhile."""
        return False

    @abc.abstractmethod
    def take_frames(self) -> list[Frame]:
        """Frames that left the NIC since the last call, in order."""

    @abc.abstractmethod
    def deliver(self, frame: bytes, cycle: int) -> None:
        """Queue a frame to arrive at ``cycle``, or now if the clock is already past that. FIFO per NIC.

        Raises DeviceError for a frame of no bytes, which no link can carry.
        """

    def pause_transmission(self, cycle: int, stop: bool) -> None:
        """From a cycle on, which has not passed, let no frame begin to leave, or again all. In order of cycles.

        A NIC without flow control goes on, and its switch drops the frames that do not fit its buffer.
        """

    def bound_reception(self, size: int | None, *, pause: bool = False) -> None:
        """Let the MAC hold that many bytes of frames that have arrived, and drop those that do not fit behind them.

        With ``pause`` it tells its link partner to stop when more than half of them are taken, and to go on when no
        more than a quarter is. None: no bound, as in the beginning. Nothing happens where frames are taken at once.
        """

    def take_pauses(self) -> list[tuple[int, bool]]:
        """(cycle, whether to stop) of what the MAC has told its link partner since the last call."""
        return []

    @property
    def overflowed(self) -> int:
        """Frames that did not fit the buffer of its MAC."""
        return 0

    @abc.abstractmethod
    def take_interrupts(self) -> int:
        """Interrupt vectors raised since the last call, as a bit mask."""

    @property
    def last_activity(self) -> int:
        """The clock when something last happened at the NIC's borders: registers, host memory, link, interrupts.

        The value may stay the same with requests in flight, while the NIC waits for a peer: for as long as a
        retransmission takes.
        """
        return self.cycles

    @property
    def idle(self) -> bool:
        """Whether nothing goes on in the NIC: it waits for the host, for a frame, or for its next timeout.

        Where others wait for it in another process its clock passes freely until then, and by the wall clock while it
        is so. One that cannot tell says that it is.
        """
        return True

    foresees = False
    """Whether :attr:`idle` and :attr:`next_departure` are exact, so that empty time can be skipped."""

    @property
    def next_departure(self) -> int | None:
        """Cycle by which the next frame leaves if none arrives before; None: no frame is about to leave."""
        return None

    idle_hz = 100_000
    """Cycles of such a clock per second of the wall's: as its simulation can bear with little work."""

    def function_reset(self) -> None:
        """Perform PCIe's function level reset: the NIC forgets everything and stops, frames for it included.

        Its clock goes on, as the network's does, and grants stay: they are the host's.
        Raises DeviceError if it has none.
        """
        raise DeviceError(f"{self.name} has no function level reset")

    def fileno(self) -> int:
        self.cycles  # noqa: B018  a closed device has none
        if self._alarm is None:
            self._alarm = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
            self._close_alarm = weakref.finalize(self, os.close, self._alarm)
            self.show_interrupts()
        return self._alarm

    def show_interrupts(self) -> None:
        """Make the file descriptor readable if interrupts have come, after time has passed."""
        if self._alarm is not None and (vectors := self.take_interrupts()):
            self._raised |= vectors
            os.eventfd_write(self._alarm, 1)

    def _report_interrupts(self) -> int:
        """Return the interrupts for :meth:`wait`, and make the file descriptor unreadable."""
        vectors, self._raised = self._raised | self.take_interrupts(), 0
        if self._alarm is not None:
            with contextlib.suppress(BlockingIOError):  # it has told of none
                os.eventfd_read(self._alarm)
        return vectors

    @property
    def stepped(self) -> bool:
        return True

    def new_epoch(self) -> int | None:
        network = self.network
        if network is None or not network.repeatable:
            return None
        network.epochs += 1
        return network.epochs

    @property
    def traces(self) -> bool:
        return True

    @property
    @abc.abstractmethod
    def tracing(self) -> bool:
        """Whether events are recorded; can be set at any time."""

    @tracing.setter
    @abc.abstractmethod
    def tracing(self, enabled: bool) -> None: ...

    @abc.abstractmethod
    def trace_events(self) -> list[TraceEvent]:
        """Events recorded since the last call, by cycle and, within a cycle, by stage."""

    def advance(self) -> None:
        if self.network is not None:
            self.network.advance()
        else:
            uninterrupted(self._advance_alone)

    def _pass_time(self) -> None:
        """Take a step for a caller that waits, and may sleep in it."""
        if self.network is not None:
            self.network.step()
        else:
            self.advance()

    def _advance_alone(self) -> None:
        self.run_until(self.cycles + Network.DEFAULT_LATENCY)
        self.take_frames()
        self.show_interrupts()

    def wait(self, timeout: float) -> int:
        deadline = time.monotonic() + timeout
        while not (vectors := self._report_interrupts()):
            self._pass_time()
            if time.monotonic() >= deadline:
                return self._report_interrupts()
        return vectors

    def close(self) -> None:
        if self.network is not None:
            self.network.detach(self)
        if self._close_alarm is not None:
            self._close_alarm()


class Observer(Protocol):
    """Observer of a network and its NICs. An exception that it raises ends the call that let time pass."""

    def stepped(self) -> None:
        """Look at the end of a step, before the program goes on."""

    def detaching(self, device: SimulatedDevice) -> None:
        """Look at a NIC for the last time, before it leaves."""


@dataclass(eq=False)
class _Link:
    """The link of one NIC."""

    device: SimulatedDevice
    index: int
    name: str
    impairments: Impairments
    sent: int = 0
    busy_until: int = 0
    """Arrival of the last frame that was not held back: later ones do not arrive before it."""
    paused: bool = False
    cut: bool = False
    port: Port = field(default_factory=Port)
    """Of the switch, if there is one."""


_Flight = tuple[int, int, _Link | None, bytes, bytes]
"""A frame on its way: (arrival, serial, sender, destination, data).

The earliest arrival sorts first, and of equal ones what entered the network first: no two serials are equal, so that
what follows is never compared. Without a sender it came from outside the network. The destination is the MAC address
that was sent to, whatever corruption has made of the frame.
"""


def _run_all(devices: list[SimulatedDevice], cycle: int) -> None:
    for device in devices:
        device.run_until(cycle)


class Network:
    """Equal links to an Ethernet switch, perfect unless told otherwise.

    Parameters
    ----------
    latency : int
        Cycles from a frame's last beat leaving one NIC to its arrival at another; also the step of the
        simulation.
    impairments : Impairments
        Of what any NIC sends, unless :meth:`impair` says something else of it.
    switch : Switch, optional
        Switch that joins the links. None is an unlimited switch, in which no frame waits for another. ``latency`` is
        that of the link to the switch; from there a frame arrives as it leaves.

    A frame goes to the NIC whose :meth:`attach` named its destination MAC address. :attr:`traffic` counts what
    became of the frames. Every frame seen is kept in :attr:`log` while :attr:`recording` is set.

    NICs whose simulation is compiled run in up to :attr:`threads` threads at the same time, if none may write host
    memory that another may access: a run is the same, whatever their number.
    """

    DEFAULT_LATENCY = 100
    repeatable = True
    """A run depends on nothing but the programs and the parameters."""

    def __init__(
        self, latency: int = DEFAULT_LATENCY, impairments: Impairments = PERFECT, switch: Switch | None = None
    ) -> None:
        if latency < 1:
            raise DeviceError(f"a link needs a latency of at least one cycle, got {latency}")
        if switch is not None:
            switch.check(latency)
        self.switch = switch
        self._queues = None if switch is None else SwitchQueues(switch)
        self.latency = latency
        self.impairments = impairments
        self.now = 0
        self.traffic = Traffic()
        self.recording = False
        self.log: list[tuple[int, Frame]] = []
        """(index of the sending NIC in attachment order, frame as it was sent), in the order of departure."""
        self._links: dict[bytes, _Link] = {}
        self._flights: list[_Flight] = []
        self._held: list[_Flight] = []
        self.attachments = 0
        """NICs attached so far, those that are gone included."""
        self.epochs = 0
        """The last number that :meth:`SimulatedDevice.new_epoch` returned. NICs from other networks raise it."""
        self._entered = 0
        self.threads = processors()
        """Most NICs that run at a time; 1: one after the other."""
        self._crew = Crew()
        self._several_apart = False
        self._meetings: Meetings | None = None
        self.observer: Observer | None = None

    @property
    def devices(self) -> tuple[SimulatedDevice, ...]:
        return tuple([link.device for link in self._links.values()])

    @property
    def in_flight(self) -> int:
        """Frames that were sent and have not arrived yet; they may be waiting for :meth:`resume`."""
        return len(self._flights) + len(self._held) + (0 if self._queues is None else self._queues.frames)

    @property
    def moving(self) -> bool:
        """Whether a frame is on its way that a further :meth:`step` may bring nearer."""
        return bool(self._flights) or (self._queues is not None and self._queues.frames > 0)

    @property
    def outside(self) -> int | None:
        """File descriptor that is readable when frames of other processes have come; None without such processes."""
        return None

    @property
    def patience(self) -> float:
        """Seconds that the next step waits for frames from outside, if none have come."""
        return 0.0

    def attach(self, device: SimulatedDevice, mac: bytes) -> None:
        """Connect a NIC; ``mac`` is its 6-byte address. Raises DeviceError if the address is taken."""
        if len(mac) != 6:
            raise DeviceError(f"a MAC address has 6 bytes, got {mac!r}")
        if mac in self._links:
            raise DeviceError(f"MAC address {mac.hex(':')} is already attached")
        if device.network is not None:
            raise DeviceError(f"{device.name} is already attached to a network")
        device.network = self
        self.epochs = max(self.epochs, device.epochs)
        if self.switch is not None:
            device.bound_reception(self.switch.nic_buffer, pause=self.switch.pause)
        self._links[mac] = _Link(device, self.attachments, mac.hex(":"), self.impairments)
        self.attachments += 1
        self._count_apart()

    def detach(self, device: SimulatedDevice) -> None:
        """Disconnect a NIC; frames for it are lost from now on. Nothing happens if it is not attached."""
        if device.network is self:
            self.resume(device)
            if self.observer is not None:
                self.observer.detaching(device)
            if self._queues is not None:
                self._queues.forget(self._link_of(device).port)
            with contextlib.suppress(DeviceClosedError):
                device.pause_transmission(device.cycles + 1, False)
                device.bound_reception(None)
            self._links = {mac: link for mac, link in self._links.items() if link.device is not device}
            device.network = None
            device.epochs = self.epochs
            self._count_apart()

    def _count_apart(self) -> None:
        """Find out whether there are NICs that may run at the same time, and it is worth it."""
        several = len(self._links) > 1 and self.latency >= _WORTH_A_THREAD
        self._several_apart = several and any(device.runs_apart for device in self.devices)
        self._meetings = None

    def close(self) -> None:
        """Release what the network holds outside this process' memory: nothing, in a network of one process."""

    # What goes wrong

    def impair(self, device: SimulatedDevice, impairments: Impairments) -> None:
        """From now on, let this happen to what a NIC sends. Raises DeviceError if it is not attached."""
        self._link_of(device).impairments = impairments

    def pause(self, device: SimulatedDevice) -> None:
        """Let everything from and to a NIC wait on its way until :meth:`resume`.

        Frames for it wait at its port of the switch, as far as they fit the buffer.
        Raises DeviceError if it is not attached.
        """
        link = self._link_of(device)
        link.paused = True
        if self._queues is not None:
            self._queues.block(link.port, True)

    def resume(self, device: SimulatedDevice) -> None:
        """Undo :meth:`pause`: what waits arrives within the next step, in order. Nothing happens without a pause.

        Raises DeviceError if the NIC is not attached.
        """
        link = self._link_of(device)
        link.paused = False
        if self._queues is not None:
            self._queues.block(link.port, False)
        held, self._held = sorted(self._held), []
        for _, _, sender, destination, data in held:
            # behind what was handed over already, which arrives by then
            self._enter(self.now + self.latency, sender, destination, data)

    def cut(self, device: SimulatedDevice) -> None:
        """Lose everything sent from or to a NIC until :meth:`restore`; what is on its way still arrives.

        Raises DeviceError if it is not attached.
        """
        self._link_of(device).cut = True

    def restore(self, device: SimulatedDevice) -> None:
        """Undo :meth:`cut`. Nothing happens without a cut. Raises DeviceError if the NIC is not attached."""
        self._link_of(device).cut = False

    def number_of(self, device: Device) -> int:
        """How many were attached before it: its number in :attr:`log`. Raises DeviceError if it is not attached."""
        return self._link_of(device).index

    def _link_of(self, device: Device) -> _Link:
        for link in self._links.values():
            if link.device is device:
                return link
        raise DeviceError(f"{device.name} is not attached to this network")

    # Time

    def step(self, *, at_once: bool = False) -> None:
        """Let one link latency pass on every NIC and hand over the frames that left meanwhile.

        Handlers of signals wait meanwhile, for nothing that happens here may stay undone.
        ``at_once``: without waiting for frames from :attr:`outside`, as the caller has done that.
        """
        uninterrupted(self._step)

    def advance(self) -> None:
        """Take a step, for a program that looks whether something has come, and may look again at once."""
        self.step()

    def _step(self) -> None:
        self.now += self.latency
        self._run()
        departures: list[tuple[int, int, _Link, Frame]] = []
        for link in self._links.values():
            link.device.show_interrupts()
            departures += [(frame.cycle, link.index, link, frame) for frame in link.device.take_frames()]
        departures.sort(key=_BY_DEPARTURE)
        for _, _, link, frame in departures:
            self._depart(link, frame)
        if self._queues is None:
            self._hand_over()
        else:
            self._switch_over(self._queues)
        if self.observer is not None:
            self.observer.stepped()

    def _run(self) -> None:
        """Let every NIC run for this step: side by side where that cannot be told from one after the other."""
        devices = self.devices
        if self._several_apart and self.threads > 1 and self._run_apart(devices):
            return
        for device in devices:
            device.run_until(self.now)

    def _run_apart(self, devices: Sequence[SimulatedDevice]) -> bool:
        """Run them in several threads, and return True; False: they have to run one after the other."""
        apart = [device for device in devices if device.runs_apart]
        together = [device for device in devices if not device.runs_apart]
        memories = [device.memory for device in devices]
        known = [memory for memory in memories if memory is not None]
        if len(known) < len(memories):
            return False
        if self._meetings is None or not self._meetings.of(known):
            self._meetings = Meetings(known)
        if self._meetings.possible():
            return False
        # Of those that run apart, as many go to this thread as it takes for the others to have a processor each.
        shares: list[list[SimulatedDevice]] = [[] for _ in range(min(self.threads, len(apart) + bool(together)))]
        shares[0] += together
        for number, device in enumerate(apart, start=bool(together)):
            shares[number % len(shares)].append(device)
        self._crew.run([functools.partial(_run_all, share, self.now) for share in shares])
        return True

    def _depart(self, link: _Link, frame: Frame) -> None:
        """Decide a frame's fate, and let what is left of it enter the network."""
        self.traffic.sent += 1
        destination = frame.data[:6]
        receiver = self._links.get(destination)
        cut = link.cut or (receiver is not None and receiver.cut)
        if link.impairments.is_perfect and not cut and not self.recording:
            link.sent += 1
            link.busy_until = arrival = max(frame.cycle + self.latency, link.busy_until)
            heapq.heappush(self._flights, (arrival, self._entered, link, destination, frame.data))
            self._entered += 1
            return
        copies = link.impairments.fate(link.name, link.sent, frame.data)
        if cut:
            copies = [copies[0]._replace(lost=True)]
        link.sent += 1
        self.traffic.duplicated += len(copies) - 1
        for copy in copies:
            self._count(copy)
            if not copy.lost:
                arrival = max(frame.cycle + self.latency + copy.delay, link.busy_until)
                if not copy.holdback:
                    link.busy_until = arrival
                self._enter(arrival + copy.holdback, link, destination, copy.data)
        if self.recording:
            remark = "; copy: ".join(copy.remark or "intact" for copy in copies)
            self.log.append((link.index, replace(frame, remark="" if remark == "intact" else remark)))

    def _count(self, copy: Copy) -> None:
        self.traffic.lost += copy.lost
        if not copy.lost:
            self.traffic.corrupted += bool(copy.damage)
            self.traffic.reordered += bool(copy.holdback)
            self.traffic.delayed += bool(copy.delay)

    def _enter(self, arrival: int, sender: _Link | None, destination: bytes, data: bytes) -> None:
        heapq.heappush(self._flights, (arrival, self._entered, sender, destination, data))
        self._entered += 1

    def _hand_over(self) -> None:
        """Hand over what arrives within the next step: whatever leaves later arrives later."""
        flights, until = self._flights, self.now + self.latency
        while flights and flights[0][0] <= until:
            flight = heapq.heappop(flights)
            arrival, _, sender, destination, data = flight
            receiver = self._links.get(destination)
            if (sender is not None and sender.paused) or (receiver is not None and receiver.paused):
                self._held.append(flight)
            elif receiver is not None:
                receiver.device.deliver(data, arrival)
                self.traffic.delivered += 1
            elif sender is not None and self._forward(destination, data):
                self.traffic.delivered += 1
            else:
                self.traffic.undeliverable += 1

    def _switch_over(self, queues: SwitchQueues) -> None:
        """Let the switch go on to where the NICs will be next, and tell them what comes of it.

        Frames and pauses that leave a NIC later reach the switch later.
        """
        flights, until = self._flights, self.now + self.latency
        links = {link.port: link for link in self._links.values()}
        for link in self._links.values():
            for cycle, stop in link.device.take_pauses():
                queues.tell(cycle + self.latency, link.port, stop)
        while flights and flights[0][0] <= until:
            flight = heapq.heappop(flights)
            arrival, _, sender, destination, data = flight
            receiver = self._links.get(destination)
            if sender is not None and sender.paused:
                self._held.append(flight)
            elif sender is None or receiver is None:
                self.traffic.undeliverable += 1
            else:
                queues.arrive(arrival, sender.port, receiver.port, data)
        for outcome in queues.run(until):
            owner = links.get(outcome.port)
            if outcome.frame is None:
                if owner is not None:
                    owner.device.pause_transmission(outcome.cycle + self.latency, outcome.stop)
            elif owner is None:
                self.traffic.undeliverable += 1
            else:
                owner.device.deliver(outcome.frame, outcome.cycle)
                self.traffic.delivered += 1
        self.traffic.dropped, self.traffic.marked = queues.dropped, queues.marked

    def _forward(self, destination: bytes, data: bytes) -> bool:
        """Take a frame out of the network that is for none of its NICs; whether there is somewhere to take it."""
        return False
