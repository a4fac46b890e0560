"""A deterministic network that joins simulated NICs, model and RTL mixed.

Each NIC runs on its own for one link latency at a time, which no frame can cross faster; then frames change
hands. So a run depends on nothing but the programs and the parameters (conservative parallel simulation,
Chandy and Misra 1979).
"""

import abc
import time
from dataclasses import dataclass

from amoeba_model.device import Device, DeviceError
from amoeba_model.trace import TraceEvent

__all__ = ["Frame", "Network", "SimulatedDevice"]


@dataclass(frozen=True)
class Frame:
    """One Ethernet frame on a link, without preamble and FCS."""

    cycle: int
    """Clock cycle at which its last beat left the sender."""
    data: bytes


class SimulatedDevice(Device):
    """A NIC whose time the network drives. Alone (never attached) it advances by itself, frames going nowhere."""

    def __init__(self) -> None:
        self.network: Network | None = None

    @abc.abstractmethod
    def run_until(self, cycle: int) -> None:
        """Run the NIC until its clock reads at least ``cycle``; returns at once if it already does."""

    @abc.abstractmethod
    def take_frames(self) -> list[Frame]:
        """Frames that left the NIC since the last call, in order."""

    @abc.abstractmethod
    def deliver(self, frame: bytes, cycle: int) -> None:
        """Queue a frame to arrive at ``cycle``, or now if the clock is already past that. FIFO per NIC.

        Raises DeviceError for a frame of no bytes, which no link can carry.
        """

    @abc.abstractmethod
    def take_interrupts(self) -> int:
        """Interrupt vectors raised since the last call, as a bit mask."""

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
            self.network.step()
        else:
            self.run_until(self.cycles + Network.DEFAULT_LATENCY)
            self.take_frames()

    def wait(self, timeout: float) -> int:
        deadline = time.monotonic() + timeout
        while not (vectors := self.take_interrupts()):
            self.advance()
            if time.monotonic() >= deadline:
                return self.take_interrupts()
        return vectors


class Network:
    """An Ethernet switch with equal, lossless links.

    Parameters
    ----------
    latency : int
        Cycles from a frame's last beat leaving one NIC to its arrival at another; also the step of the
        simulation.

    A frame goes to the NIC whose :meth:`attach` named its destination MAC address; to none if unknown, which
    :attr:`undeliverable` counts. Every frame seen is kept in :attr:`log` while :attr:`recording` is set.
    """

    DEFAULT_LATENCY = 100

    def __init__(self, latency: int = DEFAULT_LATENCY) -> None:
        if latency < 1:
            raise DeviceError(f"a link needs a latency of at least one cycle, got {latency}")
        self.latency = latency
        self.now = 0
        self.undeliverable = 0
        self.recording = False
        self.log: list[tuple[int, Frame]] = []
        """(index of the sending NIC in attachment order, frame), in the order of departure."""
        self._devices: list[SimulatedDevice] = []
        self._ports: dict[bytes, SimulatedDevice] = {}

    @property
    def devices(self) -> tuple[SimulatedDevice, ...]:
        return tuple(self._devices)

    def attach(self, device: SimulatedDevice, mac: bytes) -> None:
        """Connect a NIC; ``mac`` is its 6-byte address. Raises DeviceError if the address is taken."""
        if len(mac) != 6:
            raise DeviceError(f"a MAC address has 6 bytes, got {mac!r}")
        if mac in self._ports:
            raise DeviceError(f"MAC address {mac.hex(':')} is already attached")
        if device.network is not None:
            raise DeviceError(f"{device.name} is already attached to a network")
        device.network = self
        self._devices.append(device)
        self._ports[mac] = device

    def detach(self, device: SimulatedDevice) -> None:
        """Disconnect a NIC; frames for it are lost from now on. Nothing happens if it is not attached."""
        if device in self._devices:
            self._devices.remove(device)
            self._ports = {mac: other for mac, other in self._ports.items() if other is not device}
            device.network = None

    def step(self) -> None:
        """Let one link latency pass on every NIC and hand over the frames that left meanwhile."""
        self.now += self.latency
        departures: list[tuple[int, int, Frame]] = []
        for index, device in enumerate(self._devices):
            device.run_until(self.now)
            departures += [(frame.cycle, index, frame) for frame in device.take_frames()]
        departures.sort(key=lambda departure: departure[:2])
        for cycle, index, frame in departures:
            if self.recording:
                self.log.append((index, frame))
            receiver = self._ports.get(frame.data[:6])
            if receiver is None:
                self.undeliverable += 1
            else:
                receiver.deliver(frame.data, cycle + self.latency)
