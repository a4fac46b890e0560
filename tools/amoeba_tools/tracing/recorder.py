"""Recording of what the simulated NICs of this process do, whoever opens them, and when."""

import contextlib
import functools
import os
from dataclasses import dataclass, field
from typing import NamedTuple

from amoeba.core.errno import Errno
from amoeba.core.errors import fabric_error
from amoeba.nic.watching import RingMemory, watching
from amoeba_model.descriptors import DescriptorFlags
from amoeba_model.device import Device
from amoeba_model.frames import Frame
from amoeba_model.network import Network
from amoeba_model.parameters import NicParameters
from amoeba_model.tlp import LinkPacket
from amoeba_model.trace import BusEvent, Stage, TraceEvent
from amoeba_model.wire.codec import DecodedFrame, Drop, decode

__all__ = ["MAX_EVENTS", "Posted", "Recorder", "Recording", "Reported"]

MAX_EVENTS = 1_000_000
"""Default number of events after which a recording ends: a page of so many is still readable."""
_WRITTEN = 200
"""Cycles from a completion's event to its being read from the ring: it is on its way there for some of them."""


class Posted(NamedTuple):
    """A transmit descriptor, as its NIC has fetched it."""

    cycle: int
    nic: int
    context: int
    producer: int
    """The descriptor's producer index in the ring, modulo 2**16."""
    fields: dict[str, int]
    """Fields of TX_DESCRIPTOR."""

    @property
    def chained(self) -> bool:
        """Whether the next descriptor of the ring continues the request."""
        return bool(self.fields["flags"] & DescriptorFlags.CHAINED)


class Reported(NamedTuple):
    """A completion, as its NIC has written it."""

    nic: int
    event: TraceEvent
    descriptor: int
    """The producer index that it is about."""


@dataclass
class Recording:
    """Events of the NICs of one network."""

    names: list[str] = field(default_factory=list)
    """Names of the NICs, in the order of their attachment."""
    parameters: list[NicParameters] = field(default_factory=list)
    """Parameters of the NICs; the default ones until a context of a NIC has been enabled."""
    latency: int = 0
    """Latency of the network's links, in cycles."""
    events: list[tuple[int, TraceEvent]] = field(default_factory=list)
    """(NIC, event); those of one NIC are in order."""
    buses: list[tuple[int, BusEvent]] = field(default_factory=list)
    """The same of RTL NICs' buses."""
    frames: list[tuple[int, Frame]] = field(default_factory=list)
    """(sending NIC, frame), in order of departure; -1: another process sent it."""
    posted: list[Posted] = field(default_factory=list)
    reported: list[Reported] = field(default_factory=list)
    cut_off: int | None = None
    """The cycle in which recording ended because there was too much."""
    packets: list[tuple[int, LinkPacket]] = field(default_factory=list)
    """(NIC, packet) on PCI Express, of RTL NICs that are on it; those of one NIC are in order."""

    @functools.cached_property
    def decoded(self) -> list[DecodedFrame | Drop]:
        """Decoded frames in the same order, of a recording that has ended."""
        return [decode(frame.data) for _, frame in self.frames]

    @property
    def clock_hz(self) -> int:
        return self.parameters[0].clock_hz if self.parameters else NicParameters().clock_hz


class Recorder:
    """Records all simulated networks that this process opens while it is entered.

    Parameters
    ----------
    limit : int
        Maximum number of events of a network, including events of its buses and packets of its links.
    paused : bool
        Record nothing until :meth:`start`.

    A program's cycles are the same with and without a recorder. Raises FI_EBUSY if another recorder is active.
    """

    def __init__(self, *, limit: int = MAX_EVENTS, paused: bool = False) -> None:
        self.limit = limit
        self._paused = paused
        self._pid = os.getpid()
        self._tapes: list[_Tape] = []
        self._exits = contextlib.ExitStack()

    @property
    def recordings(self) -> list[Recording]:
        """One for each network in which anything happened."""
        return [tape.recording for tape in self._tapes if tape.recording.events]

    def __enter__(self) -> "Recorder":
        self._exits.enter_context(watching(self))
        return self

    def __exit__(self, *_: object) -> None:
        self._exits.close()
        self.stop()

    @property
    def foreign(self) -> bool:
        """Whether this is a copy in a child of the process that records."""
        return os.getpid() != self._pid

    def start(self) -> None:
        """Record from now on, if it was made ``paused``."""
        self._paused = False
        for tape in self._tapes:
            tape.start()

    def stop(self) -> None:
        """Take what there is, and record no more."""
        if self.foreign:  # whose NICs are the parent's
            return
        for tape in self._tapes:
            tape.end()

    def attached(self, device: Device, network: Network) -> None:
        if not device.traces:
            return
        tape = next((tape for tape in self._tapes if tape.network is network), None)
        if tape is None:
            if network.observer is not None:
                raise fabric_error(Errno.FI_EBUSY, "the network is being recorded already")
            tape = _Tape(network, self.limit)
            self._tapes.append(tape)
        tape.add(device, not self._paused)

    def enabled(self, device: Device, parameters: NicParameters, context: int, rings: RingMemory) -> None:
        for tape in self._tapes:
            tape.enabled(device, parameters, context, rings)

    def disabled(self, device: Device, context: int) -> None:
        for tape in self._tapes:
            tape.disabled(device, context)


class _Tape:
    """Records one network: as long as a NIC is attached, or until the limit is reached."""

    def __init__(self, network: Network, limit: int) -> None:
        self.network = network
        self.recording = Recording(latency=network.latency)
        self._limit = limit
        self._devices: dict[int, Device] = {}
        self._rings: dict[tuple[int, int], RingMemory] = {}
        self._unread: list[tuple[int, TraceEvent, RingMemory]] = []
        """Completions that may not have been written yet."""
        self._frames_before = len(network.log)
        self._running = False
        network.observer = self

    def add(self, device: Device, started: bool) -> None:
        number = self.network.number_of(device)
        while len(self.recording.names) <= number:  # those before it, which do not trace
            self.recording.names.append("")
            self.recording.parameters.append(NicParameters())
        self.recording.names[number] = device.name
        self._devices[number] = device
        if started:
            self.start()

    def start(self) -> None:
        if self.recording.cut_off is not None:
            return
        if not self._running:
            self._frames_before = len(self.network.log)
            self.network.recording = self._running = True
        for device in self._devices.values():
            if not device.tracing:
                device.trace_events()
                device.bus_events()
                device.link_packets()
                device.tracing = True

    def enabled(self, device: Device, parameters: NicParameters, context: int, rings: RingMemory) -> None:
        for number, known in self._devices.items():
            if known is device:
                self._rings[number, context] = rings
                self.recording.parameters[number] = parameters

    def disabled(self, device: Device, context: int) -> None:
        for number, known in self._devices.items():
            if known is device:
                if self._running:
                    self._take(number)
                    self._read_completions(None)
                self._rings.pop((number, context), None)

    # What networks tell their observer

    def stepped(self) -> None:
        if self._running:
            for number in self._devices:
                self._take(number)
            self._take_frames()
            self._read_completions(self.network.now - _WRITTEN)
            recorded = self.recording
            if len(recorded.events) + len(recorded.buses) + len(recorded.packets) >= self._limit:
                self.recording.cut_off = self.network.now
                self._stop()

    def detaching(self, device: Device) -> None:
        for number, known in list(self._devices.items()):
            if known is device:
                if self._running:
                    self._take(number)
                    self._take_frames()
                    self._read_completions(None)
                del self._devices[number]

    def end(self) -> None:
        """Take what is left of NICs that are still open, and let them go."""
        if self._running:
            for number in self._devices:
                self._take(number)
            self._take_frames()
            self._read_completions(None)
            self._stop()
        if self.network.observer is self:
            self.network.observer = None

    def _stop(self) -> None:
        self._running = self.network.recording = False
        for device in self._devices.values():
            device.tracing = False

    def _take(self, number: int) -> None:
        device, recording = self._devices[number], self.recording
        for event in device.trace_events():
            recording.events.append((number, event))
            rings = self._rings.get((number, event.context))
            if rings is None:
                continue
            if event.stage is Stage.DESCRIPTOR:
                fields = rings.descriptor(event.psn)
                recording.posted.append(Posted(event.cycle, number, event.context, event.psn & 0xFFFF, fields))
            elif event.stage is Stage.COMPLETION_WRITTEN:
                self._unread.append((number, event, rings))
        recording.buses += [(number, event) for event in device.bus_events()]
        recording.packets += [(number, packet) for packet in device.link_packets()]

    def _take_frames(self) -> None:
        log = self.network.log
        self.recording.frames += log[self._frames_before :]
        self._frames_before = len(log)

    def _read_completions(self, until: int | None) -> None:
        """Read the completions that the NICs have written by ``until``; None: all of them."""
        left = []
        for number, event, rings in self._unread:
            if until is not None and event.cycle > until:
                left.append((number, event, rings))
            else:
                descriptor = rings.completion(event.psn)["descriptor"]
                self.recording.reported.append(Reported(number, event, descriptor))
        self._unread = left
