"""From what NICs report, event by event, to operations: who did what to whom, packet by packet, and when."""

import enum
from collections import defaultdict, deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from amoeba_model.descriptors import DescriptorOpcode
from amoeba_model.opcodes import Datatype, Op
from amoeba_model.trace import UNKNOWN_PDC, Stage, TraceEvent
from amoeba_model.wire.codec import DecodedFrame, Drop, FrameHeader
from amoeba_model.wire.uet import RequestOpcode, ReturnCode, SesFlags, place_in_message

from amoeba_tools.tracing.recorder import Posted, Recording

__all__ = ["At", "Operation", "Packet", "operations_of"]

_INDICES = 1 << 16
_NEVER_SENT = frozenset({ReturnCode.LOCAL_BAD_DESCRIPTOR, ReturnCode.LOCAL_BAD_PEER})
"""Statuses of descriptors that were refused before anything was sent."""
_ATOMICS = frozenset(
    {
        DescriptorOpcode.ATOMIC,
        DescriptorOpcode.FETCH_ATOMIC,
        DescriptorOpcode.COMPARE_ATOMIC,
        DescriptorOpcode.TAGGED_ATOMIC,
        DescriptorOpcode.TAGGED_FETCH_ATOMIC,
    }
)
_OF_NO_BYTES = frozenset({DescriptorOpcode.NOP, DescriptorOpcode.CLOSE, DescriptorOpcode.PING})
_AT_THE_INITIATOR = frozenset({Stage.OPERAND, Stage.REQUEST_SENT, Stage.RESPONSE_RECEIVED, Stage.RESULT_WRITTEN})
_AT_THE_TARGET = frozenset({Stage.REQUEST_RECEIVED, Stage.REQUEST_CHECKED, Stage.EXECUTED, Stage.RESPONSE_SENT})

_OF_MEMORY = frozenset({Stage.LINE_READ, Stage.LINE_WRITTEN, Stage.EVENT_WRITTEN})
_Moment = tuple[int, int, int]
"""(NIC, context, cycle): of each stage, a NIC reports at most one event per cycle."""

At = tuple[int, TraceEvent]
"""(NIC, what it reported)."""


@dataclass
class Packet:
    """One request packet and its answer, wherever they were seen."""

    nic: int
    """The initiator."""
    pdc: int
    """The packet's PDC: the index in the initiator's peer table."""
    psn: int
    target: int
    """The NIC that it was sent to; -1: one of another process."""
    header: FrameHeader
    """As it was first sent."""
    events: list[At] = field(default_factory=list)
    """By cycle. A line that is written back with the changes of several packets is an event of each."""
    frames: list[int] = field(default_factory=list)
    """Indices in :attr:`Recording.frames`: those sent for it, and those that answer it."""

    @property
    def sent_again(self) -> int:
        """How often."""
        return max(0, sum(event.stage is Stage.REQUEST_SENT for _, event in self.events) - 1)


@dataclass
class Operation:
    """Operation of one descriptor, or of a chain of descriptors."""

    nic: int
    context: int
    pdc: int
    text: str
    """Description for readers."""
    index: int | None = None
    """Producer index of its first descriptor; None: posted before the recording began."""
    status: int | None = None
    """Status of the completion; None without a completion so far."""
    events: list[At] = field(default_factory=list)
    """Events of no packet: doorbell, descriptors, completion, interrupt."""
    packets: list[Packet] = field(default_factory=list)

    @property
    def begin(self) -> int:
        """Cycle of the operation's first event."""
        return min(event.cycle for _, event in self._all())

    @property
    def end(self) -> int:
        return max(event.cycle for _, event in self._all())

    def _all(self) -> Iterable[At]:
        yield from self.events
        for packet in self.packets:
            yield from packet.events


def operations_of(recording: Recording) -> list[Operation]:
    """Return every operation with a recorded event, by the cycle of its begin."""
    found = _Operations(recording)
    found.read_frames()
    found.place_events()
    return sorted((each for each in found.all if each.events or each.packets), key=lambda each: each.begin)


class _Operations:
    """Puts them together: descriptors by ring, packets by frames, events by packets."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self.all: list[Operation] = []
        self._fetched: dict[_Moment, Operation] = {}
        self._completed: dict[_Moment, Operation] = {}
        self._sending: dict[tuple[int, int], deque[Operation]] = defaultdict(deque)
        """By (NIC, PDC): operations whose packets are still to be found, in order."""
        self._packets: dict[tuple[int, int, int], Packet] = {}
        """By (initiator, PDC, PSN)."""
        self._arriving: dict[tuple[int, int], list[Packet]] = defaultdict(list)
        """By (target, PSN), in the order in which they were first sent."""
        self._peers: dict[tuple[int, int], set[tuple[int, int]]] = defaultdict(set)
        """(initiator, its PDC) by (target, its PDC): more than one where a PDC is used anew."""
        self._nics: dict[int, int] = {}
        """By Ethernet address."""
        self._targets: dict[int, _AtTarget] = defaultdict(_AtTarget)
        self._doorbells: dict[tuple[int, int], deque[TraceEvent]] = defaultdict(deque)
        """By (NIC, context), as the next is: those that may still announce something."""
        self._last: dict[tuple[int, int], Operation | None] = {}
        """Operation whose completion was written last."""
        self._post(_reports(recording))

    def _post(self, reports: dict[int, TraceEvent]) -> None:
        """Add an operation for each chain of descriptors."""
        open_chains: dict[tuple[int, int], Operation] = {}
        for number, posted in enumerate(self._recording.posted):
            ring = posted.nic, posted.context
            peer = posted.fields["peer"]
            operation = open_chains.pop(ring, None)
            report = reports.get(number)
            if operation is None or operation.pdc != peer:
                operation = Operation(posted.nic, posted.context, peer, _text(posted), posted.producer)
                self.all.append(operation)
                refused = report is not None and report.status in _NEVER_SENT
                if posted.fields["opcode"] != DescriptorOpcode.NOP and not refused:
                    self._sending[posted.nic, peer].append(operation)
            if posted.chained:
                open_chains[ring] = operation
            self._fetched[*ring, posted.cycle] = operation
            if report is not None:
                self._completed[*ring, report.cycle] = operation

    # Frames

    def read_frames(self) -> None:
        """Find the packets, and whose they are: the last one of a request says so."""
        decoded = self._recording.decoded
        for (sender, _), frame in zip(self._recording.frames, decoded, strict=True):
            if sender >= 0 and not isinstance(frame, Drop):
                self._nics.setdefault(frame.header.mac, sender)
        for number, frame in enumerate(decoded):
            if isinstance(frame, Drop):
                continue
            sender, (header, _) = self._recording.frames[number][0], frame
            if header.clears or header.asks:
                continue  # no packet of a request
            if header.is_request:
                self._request(number, sender, frame)
            elif not header.returns:
                self._answer(number, sender, header)

    def _request(self, number: int, sender: int, frame: DecodedFrame) -> None:
        header = frame.header
        key = sender, header.spdcid, header.psn
        packet = self._packets.get(key)
        if packet is None:
            packet = Packet(*key, self._destination(number), header)
            self._packets[key] = packet
            self._arriving[packet.target, packet.psn].append(packet)
            self._owner(packet).packets.append(packet)
        packet.frames.append(number)

    def _owner(self, packet: Packet) -> Operation:
        """Return the operation that a new packet belongs to."""
        header = packet.header
        waiting = self._sending[packet.nic, packet.pdc]
        if not waiting:  # its descriptor was fetched before the recording began, or in another process
            request = f"{_name(RequestOpcode, header.opcode)}, {header.request_length:,} B"
            text = "CLOSE" if header.is_control else request
            waiting.append(Operation(packet.nic, header.initiator & 0xFF, packet.pdc, text))
            self.all.append(waiting[0])
        operation = waiting[0]
        if header.is_control or header.flags & (SesFlags.DELIVERY_COMPLETE | SesFlags.INITIATOR_ERROR):
            waiting.popleft()
        return operation

    def _destination(self, number: int) -> int:
        data = self._recording.frames[number][1].data
        return self._nics.get(int.from_bytes(data[:6], "big"), -1)

    def _answer(self, number: int, sender: int, header: FrameHeader) -> None:
        initiator = self._destination(number)
        if sender >= 0:
            pdc = header.spdcid - self._recording.parameters[sender].peers
            self._peers[sender, pdc].add((initiator, header.dpdcid))
        packet = self._packets.get((initiator, header.dpdcid, header.psn))
        if packet is not None:
            packet.frames.append(number)

    # Events

    def place_events(self) -> None:
        """Give every event to the packet, or the operation, that it is about."""
        for nic, event in sorted(self._recording.events, key=lambda at: (at[1].cycle, at[1].stage)):
            if event.stage in _AT_THE_INITIATOR:
                packet = self._packets.get((nic, event.pdc, event.psn))
                if packet is not None:
                    packet.events.append((nic, event))
            elif event.stage in _AT_THE_TARGET:
                packet = self._arrived(nic, event)
                if packet is not None:
                    packet.events.append((nic, event))
                    self._targets[nic].note(packet, event)
            elif event.stage in _OF_MEMORY:
                line = self._recording.parameters[nic].data_width // 8
                for packet in self._targets[nic].concerned(event, line):
                    packet.events.append((nic, event))
            else:
                self._place_of_context(nic, event)

    def _place_of_context(self, nic: int, event: TraceEvent) -> None:
        """Place an event of no packet: doorbell, descriptor, completion, interrupt."""
        context = nic, event.context
        operation: Operation | None = None
        if event.stage is Stage.DOORBELL:
            self._doorbells[context].append(event)
        elif event.stage is Stage.DESCRIPTOR:
            operation = self._fetched.get((*context, event.cycle))
            if operation is not None:
                operation.events += _doorbell(self._doorbells[context], nic, operation)
        elif event.stage is Stage.COMPLETION_WRITTEN:
            operation = self._completed.get((*context, event.cycle))
            if operation is not None:
                operation.status = event.status
            self._last[context] = operation
        elif event.stage is Stage.INTERRUPT:
            operation = self._last.get(context)
        if operation is not None:
            operation.events.append((nic, event))

    def _arrived(self, nic: int, event: TraceEvent) -> Packet | None:
        """Return the packet that a target reports. Two peers may use the same PSN: the PDC, or the order, decides."""
        candidates = self._arriving.get((nic, event.psn), [])
        if len(candidates) > 1 and event.pdc != UNKNOWN_PDC:
            peers = self._peers.get((nic, event.pdc), set())
            candidates = [packet for packet in candidates if (packet.nic, packet.pdc) in peers] or candidates
        if len(candidates) > 1 and event.stage is Stage.REQUEST_RECEIVED:
            fresh = [
                packet
                for packet in candidates
                if packet.header.resource_index == event.context and not self._was_received(packet)
            ]
            return (fresh or candidates)[0]
        return candidates[-1] if candidates else None

    def _was_received(self, packet: Packet) -> bool:
        return any(event.stage is Stage.REQUEST_RECEIVED for _, event in packet.events)


@dataclass
class _Held:
    """A packet that a target has in its hands."""

    packet: Packet
    pdc: int
    """The target's."""
    executed: bool = False
    written: set[int] = field(default_factory=set)
    """Lines with its changes that are."""


class _AtTarget:
    """Packets in a target's hands, to which its reports of lines and events refer."""

    def __init__(self) -> None:
        self._held: dict[int, _Held] = {}
        """Packets that were checked, in this order, and not answered yet, by their identity."""

    def note(self, packet: Packet, event: TraceEvent) -> None:
        if event.stage is Stage.REQUEST_CHECKED and event.status == ReturnCode.OK:
            self._held.setdefault(id(packet), _Held(packet, event.pdc))
        elif event.stage is Stage.EXECUTED and id(packet) in self._held:
            self._held[id(packet)].executed = True
        elif event.stage is Stage.RESPONSE_SENT:
            self._held.pop(id(packet), None)

    def concerned(self, event: TraceEvent, line: int) -> list[Packet]:
        """Return the packets that an event is about: those that use a line, or the packet that it reports."""
        if event.stage is Stage.LINE_WRITTEN:
            return [held.packet for held in self._held.values() if _is_written(held, event.psn, line)]
        if event.stage is Stage.EVENT_WRITTEN:
            return [held.packet for held in self._held.values() if held.pdc == event.pdc][:1]
        waiting = [held for held in self._held.values() if not held.executed]
        touching = [held for held in waiting if _touches(held.packet.header, event.psn, line)]
        # of messages, and of regions whose addresses begin at 0, frames do not say where they lie
        own = [held for held in touching or waiting if held.pdc == event.pdc]
        return [held.packet for held in own or touching][:1]


def _is_written(held: _Held, address: int, line: int) -> bool:
    """Return whether a written line is the first at its address with this packet's changes."""
    header = held.packet.header
    # of several lines, the first may be written before the last has been reached
    done = held.executed or _bytes_of(header)[1] > line
    if not done or address in held.written or not _touches(header, address, line):
        return False
    held.written.add(address)
    return True


def _touches(header: FrameHeader, address: int, line: int) -> bool:
    """Return whether a request touches the line at an address, of which the low 32 bits are known."""
    start, length = _bytes_of(header)
    first = start // line
    last = (start + max(length, 1) - 1) // line
    return (address // line - first) % ((1 << 32) // line) <= last - first


def _bytes_of(header: FrameHeader) -> tuple[int, int]:
    """Return where the bytes of memory that one packet concerns begin, and how many they are."""
    starts = header.flags & SesFlags.START_OF_MESSAGE
    if starts and header.flags & SesFlags.END_OF_MESSAGE:
        return header.buffer_offset, header.request_length
    offset = 0 if starts else place_in_message(header.header_data).message_offset
    vectors = 2 if header.opcode == RequestOpcode.AMOEBA_COMPARE_ATOMIC else 1
    return header.buffer_offset + offset, header.payload_length // vectors


def _doorbell(rung: deque[TraceEvent], nic: int, operation: Operation) -> list[At]:
    """Return the doorbell that announced an operation, unless the operation has its doorbell already."""
    if operation.events or operation.index is None:
        return []
    for event in rung:
        # Tails count modulo 2**16; the one that announced it is the first that lies behind it.
        if 0 < (event.psn - operation.index) % _INDICES <= _INDICES // 2:
            while rung[0] is not event:  # the earlier ones are not needed any more
                rung.popleft()
            return [(nic, event)]
    return []


def _reports(recording: Recording) -> dict[int, TraceEvent]:
    """Return the completion of each reported descriptor, by the descriptor's place in :attr:`Recording.posted`."""
    places: dict[tuple[int, int, int], list[int]] = defaultdict(list)
    for number, posted in enumerate(recording.posted):
        places[posted.nic, posted.context, posted.producer].append(number)
    found = {}
    for nic, event, descriptor in recording.reported:
        before = [
            number
            for number in places.get((nic, event.context, descriptor), ())
            if recording.posted[number].cycle <= event.cycle
        ]
        if before:  # producer indices come round: it is about the last one
            found[before[-1]] = event
    return found


def _text(posted: Posted) -> str:
    fields = posted.fields
    name = _name(DescriptorOpcode, fields["opcode"])
    if fields["opcode"] in _ATOMICS:
        name += f" {_name(Op, fields['op'])} {_name(Datatype, fields['datatype'])}"
    if fields["opcode"] in _OF_NO_BYTES:
        return name
    return f"{name}, {fields['length']:,} B"


def _name(numbers: type[enum.IntEnum], value: int) -> str:
    """Return the name of a number, or the number itself."""
    try:
        return numbers(value).name
    except ValueError:
        return f"{numbers.__name__} {value:#x}"
