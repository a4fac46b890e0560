"""An independent UET endpoint, initiator and target, of the packets of :mod:`tests.support.uet_packets`.

The endpoint is as strict as the UEC reference provider: an answer that breaks a rule ends its operation with
EndpointError.
"""

import struct
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.support.uet_packets import (
    ACK,
    ACK_CC,
    ACK_REQUEST,
    ATOMIC,
    CLEAR_COMMAND,
    CLOSE_COMMAND,
    CLOSE_REQUEST,
    CONTROL,
    CSWAP,
    CSWAP_LENGTH,
    DEFAULT,
    END,
    FETCHING_ATOMIC,
    HEADER_DATA,
    MAX_ACK_DATA,
    MPR_UNIT,
    NACK,
    NO_HEADER,
    NO_PDC,
    PLAIN,
    PSN_OUT_OF_WINDOW,
    PSNS,
    RC_NULL,
    RC_OK,
    READ,
    REQUEST_CLEAR,
    RESPONSE,
    RESPONSE_DATA,
    RETX,
    ROD_OUT_OF_ORDER,
    ROD_REQUEST,
    SEND,
    STANDARD_REQUEST,
    START,
    SUM,
    SYN,
    TAGGED_SEND,
    UINT64,
    WINDOW,
    WITH_DATA,
    WRITE,
    Address,
    Answer,
    EndpointError,
    Packet,
    Request,
    Station,
    answer_of,
    prologue,
    request_of,
)

__all__ = ["Initiator", "Target"]


class Initiator:
    """The initiator of one PDC, with one operation at a time."""

    STEPS = 60
    """Of the network: longer than any NIC takes to answer."""
    PATIENCE = 400
    """Of the network: longer than a timeout of a NIC."""

    def __init__(self, station: Station, to: Address, start_psn: int = 0x1234_0000, spdcid: int = 7) -> None:
        self.station, self.to = station, to
        self._start = self._psn = start_psn
        self._spdcid = spdcid
        self._dpdcid: int | None = None
        self._message = 100
        self.returned = start_psn
        """The next psn of the return direction, which begins with the first psn of the PDC."""
        self._gap = False
        """A packet ahead of that one has been refused."""
        self._reads: dict[int, int] = {}
        """Sizes of READs by message."""
        self.data: dict[int, bytes] = {}
        """Data that came in the return direction, by the READ's message."""
        self.deaf = False
        """Take nothing in the return direction."""

    def header(self, opcode: int, **fields: int) -> bytes:
        """Return a SES standard request: ``key``, ``offset``, ``length``, ``flags``, ``field``, ``message``."""
        return struct.pack(
            ">BBHIHHQIQQI", opcode, fields.get("flags", START | END), fields.get("message", self._message),
            self.to.job, self.to.pid, self.to.index, fields.get("offset", 0), 0xE0, fields.get("key", 0),
            fields.get("field", 0), fields.get("length", 0),
        )  # fmt: skip

    def pds(self, flags: int = 0, clear: int = -1) -> bytes:
        """Return the PDS header of the next request; ``clear`` is its clear_psn_offset."""
        syn = self._dpdcid is None
        target = (self._psn - self._start) & 0xFFF if self._dpdcid is None else self._dpdcid
        flags |= ACK_REQUEST | (SYN if syn else 0)
        sequence = struct.pack(">hIHH", clear, self._psn, self._spdcid, target)
        return prologue(ROD_REQUEST, STANDARD_REQUEST, flags) + sequence

    def ask(self, ses: bytes, *, tos: int = 0) -> Answer:
        """Send the next request, and return its answer."""
        self.station.send(self.to, self.pds() + ses, tos=tos)
        return self.answer()

    def answer(self) -> Answer:
        """Return the answer to the request that was sent last."""
        psn, self._psn = self._psn, (self._psn + 1) % PSNS
        self._message += 1
        for _ in range(self.STEPS):
            for packet in self.station.arrived():
                if packet.prologue[0] == ROD_REQUEST:
                    self._take_returned(packet)
                    continue
                answer = answer_of(packet)
                if answer.psn == psn:
                    if not answer.nack:
                        self._dpdcid = answer.spdcid
                    return answer
            self.station.step()
        raise EndpointError(f"no answer to psn {psn:#x}")

    def write(self, key: int, offset: int, data: bytes) -> None:
        ses = self.header(WRITE, key=key, offset=offset, length=len(data))
        self._expect(self.ask(ses + data), len(data))

    def read(self, key: int, offset: int, length: int) -> bytes:
        """READ up to ``MAX_ACK_DATA`` bytes in the ACK, more in requests of the target."""
        if length > MAX_ACK_DATA:
            return self.read_parts(key, offset, length, length)
        answer = self.ask(self.header(READ, key=key, offset=offset, length=length))
        return self._expect_data(answer, length)

    def read_parts(self, key: int, offset: int, length: int, mtu: int) -> bytes:
        """READ more than an ACK holds, a request for each part; the data comes in requests of the target."""
        packets, sizes, first = {}, {}, self._message
        for number, at in enumerate(range(0, length, mtu)):
            size = min(mtu, length - at)
            ses = self.header(READ, key=key, offset=offset + at, length=size)
            packets[self._psn] = [self.pds(flags, clear=-1 - number) + ses for flags in (0, RETX)]
            self._reads[self._message] = sizes[self._psn] = size
            self._psn, self._message = (self._psn + 1) % PSNS, self._message + 1
        messages = range(first, self._message)
        for repeated in (False, True, True, True):
            for sent in packets.values():
                self.station.send(self.to, sent[repeated])
            for _ in range(self.PATIENCE):
                for packet in self.station.arrived():
                    if packet.prologue[0] == ROD_REQUEST:
                        self._take_returned(packet)
                        continue
                    answer = answer_of(packet)
                    if answer.psn in packets and not answer.nack:
                        self._dpdcid = answer.spdcid
                        self._expect(answer, sizes[answer.psn])
                        del packets[answer.psn]
                missing = len(messages) - len(self.data.keys() & messages)
                if not packets and not missing:
                    return b"".join(self.data[message] for message in messages)
                self.station.step()
        raise EndpointError(f"{len(packets)} answers and the data of {missing} READs did not come")

    def attend(self, steps: int = PATIENCE) -> None:
        """Take nothing but requests of the target for some time."""
        for _ in range(steps):
            for packet in self.station.arrived():
                if packet.prologue[0] == ROD_REQUEST:
                    self._take_returned(packet)
            self.station.step()

    def _take_returned(self, packet: Packet) -> None:
        """Take a request of the target, in its order, and acknowledge it."""
        kind, following, _ = packet.prologue
        _, psn, spdcid, dpdcid = struct.unpack(">hIHH", packet.data[2:12])
        opcode, code, _, _ = struct.unpack(">BBHI", packet.data[12:20])
        message, size, modified, at = struct.unpack(">HHII", packet.data[20:32])
        if (kind, following, opcode & 63, code & 63) != (ROD_REQUEST, RESPONSE_DATA, WITH_DATA, RC_OK):
            raise EndpointError("expected a request with response data")
        if dpdcid != self._spdcid or spdcid != (spdcid if self._dpdcid is None else self._dpdcid):
            raise EndpointError(f"expected PDC {self._spdcid}, got data from PDC {spdcid} for PDC {dpdcid}")
        ahead = (psn - self.returned) % PSNS
        if self.deaf:
            return
        if not ahead:
            if self._reads.get(message) != size or modified != size or at or len(packet.data) - 32 != size:
                raise EndpointError(f"expected the data of a READ, got {size} bytes of {modified} for {message}")
            self.data[message] = packet.data[32:]
            self.returned, self._gap = (psn + 1) % PSNS, False
        elif ahead < WINDOW:
            if not self._gap:
                self._gap = True
                self.refuse(self.returned, spdcid, ROD_OUT_OF_ORDER)
            return
        self.acknowledge(psn, spdcid, message, size)

    def refuse(self, psn: int, target: int, code: int) -> None:
        """Send a NACK in the return direction, to PDC ``target``."""
        fields = struct.pack(">BBIHHI", code, 0, psn % PSNS, self._spdcid, target, 0)
        self.station.send(self.to, prologue(NACK, NO_HEADER, 0) + fields)

    def acknowledge(self, psn: int, target: int, message: int, size: int, *, spdcid: int | None = None) -> None:
        """Acknowledge data in the return direction, of PDC ``target``."""
        cack = (self.returned - 1) % PSNS
        own = self._spdcid if spdcid is None else spdcid
        pds = struct.pack(">hIHH", (psn - cack + 0x8000) % PSNS - 0x8000, cack, own, target)
        ses = struct.pack(">BBHII", DEFAULT, RC_OK, message, self.to.job, size)
        self.station.send(self.to, prologue(ACK, RESPONSE, 0) + pds + ses)

    def send(self, data: bytes, tag: int | None = None) -> None:
        """SEND, or TAGGED_SEND with a ``tag``."""
        opcode = SEND if tag is None else TAGGED_SEND
        self._expect(self.ask(self.header(opcode, key=tag or 0, length=len(data)) + data), len(data))

    def message(self, opcode: int, data: bytes, mtu: int, **fields: int) -> None:
        """Send a message of several packets, each after the answer to the one before."""
        for number, part in enumerate(self.parts(opcode, data, mtu, **fields)):
            answer = self.ask(part)
            if answer.code != RC_OK:
                raise EndpointError(f"packet at {number * mtu}: return code {answer.code:#x}")

    def parts(
        self, opcode: int, data: bytes, mtu: int, *, immediate: int | None = None, **fields: int
    ) -> list[bytes]:
        """Return the SES requests of a message of several packets."""
        parts, length, has_data = [], len(data), 0 if immediate is None else HEADER_DATA
        for at in range(0, length, mtu):
            part = data[at : at + mtu]
            flags = has_data | (0 if at else START) | (END if at + mtu >= length else 0)
            position = len(part) << 32 | at if at else immediate or 0
            same = {"message": self._message, "length": length, **fields}
            parts.append(self.header(opcode, flags=flags, field=position, **same) + part)
        return parts

    def ask_at_once(self, parts: list[bytes]) -> list[Answer]:
        """Send requests one behind the other, again if no answer comes in time, and return their answers."""
        first = self._psn
        packets = {}
        for number, part in enumerate(parts):
            packets[self._psn] = [self.pds(flags, clear=-1 - number) + part for flags in (0, RETX)]
            self._psn = (self._psn + 1) % PSNS
        self._message += 1
        answers: dict[int, Answer] = {}
        for repeated in (False, True, True):
            for psn in sorted(packets.keys() - answers.keys()):
                self.station.send(self.to, packets[psn][repeated])
            for _ in range(self.STEPS):
                found = [answer_of(packet) for packet in self.station.arrived()]
                answers |= {answer.psn: answer for answer in found if not answer.nack and answer.psn in packets}
                if len(answers) == len(packets):
                    self._dpdcid = answers[first].spdcid
                    return [answers[psn] for psn in packets]
                self.station.step()
        raise EndpointError(f"no answer to psn {min(packets.keys() - answers.keys()):#x}")

    def add(self, key: int, offset: int, value: int) -> None:
        """SUM of a UINT64, without a result."""
        ses = self.header(ATOMIC, key=key, offset=offset, length=8) + bytes([SUM, UINT64, 2, 0])
        self._expect(self.ask(ses + struct.pack(">Q", value)), 8)

    def fetch_add(self, key: int, offset: int, value: int) -> int:
        """SUM of a UINT64; the value before."""
        ses = self.header(FETCHING_ATOMIC, key=key, offset=offset, length=8) + bytes([SUM, UINT64, 2, 0])
        (before,) = struct.unpack(">Q", self._expect_data(self.ask(ses + struct.pack(">Q", value)), 8))
        assert isinstance(before, int)
        return before

    def swap(self, key: int, offset: int, compare: int, value: int) -> Answer:
        """CSWAP of a UINT64; its answer, which is not judged."""
        extension = bytes([CSWAP, UINT64, 2, 0]) + compare.to_bytes(16, "big") + value.to_bytes(16, "big")
        return self.ask(self.header(FETCHING_ATOMIC, key=key, offset=offset, length=CSWAP_LENGTH) + extension)

    def control(self, kind: int, payload: int = 0, *, flags: int = ACK_REQUEST, psn: int | None = None) -> bytes:
        """Return a control packet; by default with the psn of the next request."""
        number = self._psn if psn is None else psn
        fields = struct.pack(">HIHHI", 0, number, self._spdcid, self._dpdcid or 0, payload)
        return prologue(CONTROL, kind, flags) + fields

    def close(self) -> None:
        """CLOSE; the next request opens another PDC, at least 2**16 psns away."""
        self.station.send(self.to, self.control(CLOSE_COMMAND))
        if not self.answer().bare:
            raise EndpointError("a CLOSE is answered without a response")
        self._dpdcid = None
        self._start = self._psn = self.returned = (self._psn + (1 << 20)) % PSNS

    @staticmethod
    def _expect(answer: Answer, length: int) -> None:
        if answer.nack or answer.code != RC_OK or answer.data or answer.modified not in (0, length):
            raise EndpointError(f"expected OK and modified_length {length}, got {answer}")

    @staticmethod
    def _expect_data(answer: Answer, length: int) -> bytes:
        if (answer.opcode, answer.code, answer.modified) != (WITH_DATA, RC_OK, length):
            raise EndpointError(f"expected data and modified_length {length}, got {answer}")
        return answer.data


@dataclass
class _Context:
    """A PDC at the target."""

    number: int
    base: int
    """The psn that comes next."""
    held: dict[int, bytes] = field(default_factory=dict)
    """Guaranteed answers by psn, kept until they are cleared."""
    returned: int = 0
    """The next psn of the return direction, which begins with the first psn of the PDC."""
    sent: dict[int, "_Returned"] = field(default_factory=dict)
    """Requests in the return direction by psn, kept until they are acknowledged."""


@dataclass
class _Returned:
    """A packet in the return direction: what follows the prologue, and one of its initiator, which says where to."""

    to: Packet
    body: bytes
    sent_at: int
    tries: int = 0
    kind: tuple[int, int] = (ROD_REQUEST, RESPONSE_DATA)


@dataclass
class Target:
    """The target of PDCs: one region of memory, and messages in the order in which they came."""

    station: Station
    memory: bytearray
    received: list[bytes] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)
    packets: list[Packet] = field(default_factory=list)
    """Everything that came."""
    refusals: deque[tuple[int, int]] = field(default_factory=deque)
    """(return code, generation) with which the next messages are refused."""
    nacks: deque[int] = field(default_factory=deque)
    """NACK codes with which the next packets are refused."""
    window: int = WINDOW
    """Packets of a PDC from the oldest kept answer on; the others are refused."""
    lose: int = 0
    """How many of the next packets are lost."""
    congestion_state: bool = False
    """Answer with ACK_CC in the place of ACK."""
    acknowledged: list[Answer] = field(default_factory=list)
    """Answers that came to requests in the return direction."""
    drop: set[int] = field(default_factory=set)
    """Numbers of packets that are lost on their way from here, counted from 0."""
    deaf: set[int] = field(default_factory=set)
    """Numbers of packets that are lost on their way here, counted from 0."""
    heard: int = 0
    mute: bool = False
    """Send nothing in the return direction."""
    forge: Callable[[bytes], bytes] | None = None
    """Changes a request in the return direction, without the CRC, before it leaves."""
    RETRY = 40
    """Steps after which a request in the return direction is sent again."""
    _last: dict[int, "_Returned"] = field(default_factory=dict)
    """All requests in the return direction by psn."""
    _left: int = 0
    _steps: int = 0
    _contexts: dict[tuple[int, int], _Context] = field(default_factory=dict)
    _parts: dict[int, bytearray] = field(default_factory=dict)
    """Open messages by message_id."""

    def serve(self) -> None:
        """Let a little time pass, and answer what has come."""
        self.station.step()
        self._steps += 1
        self._repeat()
        for packet in self.station.arrived():
            self.packets.append(packet)
            number, self.heard = self.heard, self.heard + 1
            if self.lose or number in self.deaf:
                self.lose = max(self.lose - 1, 0)
                continue
            kind, following, _ = packet.prologue
            if kind == ROD_REQUEST and following == STANDARD_REQUEST:
                self._accept(packet, request_of(packet))
            elif kind == CONTROL:
                self._control(packet, following)
            elif kind in (ACK, NACK):
                self._acknowledged(packet, answer_of(packet))

    @property
    def unacknowledged(self) -> int:
        """How many requests in the return direction are not acknowledged."""
        return sum(len(context.sent) for context in self._contexts.values())

    def send_returned(self, psn: int, change: Callable[[bytes], bytes]) -> None:
        """Send a request in the return direction again, changed, whether it was acknowledged or not."""
        returned = self._last[psn]
        self._reply(returned.to, change(prologue(*returned.kind, ACK_REQUEST | RETX) + returned.body))

    def _repeat(self) -> None:
        """Send what was not acknowledged in the return direction again."""
        for context in self._contexts.values():
            for returned in context.sent.values():
                if self._steps - returned.sent_at >= self.RETRY << returned.tries:
                    self._return(returned)

    def _acknowledged(self, packet: Packet, answer: Answer) -> None:
        """Take the answer to a request in the return direction."""
        self.acknowledged.append(answer)
        (dpdcid,) = struct.unpack(">H", packet.data[10:12])
        for context in self._contexts.values():
            if context.number != dpdcid or answer.psn not in context.sent:
                continue
            if answer.nack == ROD_OUT_OF_ORDER:
                self._return(context.sent[answer.psn])
            elif answer.nack or answer.bare != (context.sent[answer.psn].kind[0] == CONTROL):
                raise EndpointError(f"expected an answer without a NACK, bare to a control packet, got {answer}")
            elif (answer.opcode, answer.code) != (DEFAULT, RC_OK):
                raise EndpointError(f"expected DEFAULT and OK, got {answer}")
            else:
                (cack,) = struct.unpack(">I", packet.data[4:8])
                for psn in [psn for psn in context.sent if psn <= cack or psn == answer.psn]:
                    del context.sent[psn]

    def _return(self, returned: "_Returned") -> None:
        flags = ACK_REQUEST | (RETX if returned.tries else 0)
        returned.sent_at = self._steps
        returned.tries += 1
        packet = prologue(*returned.kind, flags) + returned.body
        if self.mute:
            return
        self._reply(returned.to, packet if self.forge is None else self.forge(packet))

    def ask_for_close(self) -> None:
        """Ask the initiator of each PDC to close it."""
        for (_, spdcid), context in self._contexts.items():
            fields = struct.pack(">HIHHI", 0, context.returned, context.number, spdcid, 0)
            self._send_returned(
                context, _Returned(self.packets[-1], fields, self._steps, kind=(CONTROL, CLOSE_REQUEST))
            )

    def _send_returned(self, context: _Context, returned: "_Returned") -> None:
        """Send a new packet in the return direction."""
        context.sent[context.returned] = self._last[context.returned] = returned
        context.returned += 1
        self._return(returned)

    def _control(self, packet: Packet, kind: int) -> None:
        _, psn, spdcid, _, payload = struct.unpack(">HIHHI", packet.data[2:16])
        context = self._contexts.get((packet.ip, spdcid))
        if context is None:
            return
        if kind == CLEAR_COMMAND:
            self._clear(context, payload)
        elif kind == CLOSE_COMMAND and psn == context.base:
            del self._contexts[packet.ip, spdcid]
            self._acknowledge(packet, spdcid, context, psn, NO_HEADER, b"")

    def _accept(self, packet: Packet, request: Request) -> None:
        context = self._contexts.get((packet.ip, request.spdcid))
        if context is None:
            if not request.syn:
                raise EndpointError("a packet of an unknown PDC without SYN")
            start = request.psn - (struct.unpack(">H", packet.data[10:12])[0] & 0xFFF)
            context = _Context(len(self._contexts) + 1, start, returned=start)
            self._contexts[packet.ip, request.spdcid] = context
        self.requests.append(request)
        oldest = min(context.held, default=context.base)
        if request.psn - oldest >= self.window:
            self._refuse(packet, request, context.number, PSN_OUT_OF_WINDOW)
            return
        if self.nacks:
            code = self.nacks.popleft()
            self._refuse(packet, request, 0 if code in NO_PDC else context.number, code)
            return
        self._clear(context, request.clear_psn)
        if request.psn in context.held:
            self._reply(packet, context.held[request.psn])
        elif request.psn == context.base:
            context.base += 1
            self._execute(packet, context, request)
        elif request.psn < context.base:
            lost = struct.pack(">BBHII", DEFAULT, RC_NULL, request.message, 0, 0)
            self._acknowledge(packet, request.spdcid, context, request.psn, RESPONSE, lost)

    def _refuse(self, packet: Packet, request: Request, number: int, code: int) -> None:
        fields = struct.pack(">BBIHHI", code, 0, request.psn, number, request.spdcid, 0)
        self._reply(packet, prologue(NACK, NO_HEADER, 0) + fields)

    @staticmethod
    def _clear(context: _Context, psn: int) -> None:
        for held in [held for held in context.held if held <= psn]:
            del context.held[held]

    def _execute(self, packet: Packet, context: _Context, request: Request) -> None:
        if request.opcode == READ:
            self._answer_read(packet, context, request)
        elif request.opcode in (ATOMIC, FETCHING_ATOMIC):
            self._execute_atomic(packet, context, request)
        elif self.refusals and request.opcode in (SEND, TAGGED_SEND):
            code, generation = self.refusals.popleft()
            response = struct.pack(">BBHII", PLAIN, code, request.message, generation << 24 | request.job, 0)
            context.held[request.psn] = self._acknowledge(
                packet, request.spdcid, context, request.psn, RESPONSE, response
            )
        else:
            self._gather(request)
            self._default(packet, context, request)

    def _gather(self, request: Request) -> None:
        """Store one packet of a WRITE or a message."""
        at = 0 if request.flags & START else request.field & 0xFFFF_FFFF
        if request.opcode == WRITE:
            start = request.offset + at
            self.memory[start : start + len(request.rest)] = request.rest
            return
        part = self._parts.setdefault(request.message, bytearray())
        part += request.rest
        if request.flags & END:
            self.received.append(bytes(self._parts.pop(request.message)))

    def _execute_atomic(self, packet: Packet, context: _Context, request: Request) -> None:
        operation, datatype = request.rest[0], request.rest[1]
        if datatype != UINT64:
            raise EndpointError(f"datatype {datatype} is not served")
        place = slice(request.offset, request.offset + 8)
        before = int.from_bytes(self.memory[place], "little")
        if operation == SUM:
            after = (before + int.from_bytes(request.rest[4:12], "big")) % (1 << 64)
        elif operation == CSWAP and request.length == CSWAP_LENGTH:
            compare, value = (int.from_bytes(request.rest[at : at + 16], "big") for at in (4, 20))
            after = value if before == compare else before
        else:
            raise EndpointError(f"operation {operation} of {request.length} bytes is not served")
        self.memory[place] = after.to_bytes(8, "little")
        if request.opcode == ATOMIC:
            self._default(packet, context, request)
        else:
            self._guarantee(packet, context, request, before.to_bytes(8, "big"))

    def _answer_read(self, packet: Packet, context: _Context, request: Request) -> None:
        data = bytes(self.memory[request.offset : request.offset + request.length])
        if len(data) <= MAX_ACK_DATA:
            self._guarantee(packet, context, request, data)
            return
        self._default(packet, context, request)
        sequence = struct.pack(">hIHH", -1, context.returned, context.number, request.spdcid)
        self._send_returned(context, _Returned(packet, sequence + self._with_data(request, data), self._steps))

    @staticmethod
    def _with_data(request: Request, data: bytes) -> bytes:
        fields = struct.pack(">BBHI", WITH_DATA, RC_OK, request.message, request.job)
        return fields + struct.pack(">HHII", request.message, len(data), request.length, 0) + data

    def _guarantee(self, packet: Packet, context: _Context, request: Request, data: bytes) -> None:
        """Answer with data, and keep the answer; ask for a CLEAR when as many as the window are kept."""
        flags = REQUEST_CLEAR if len(context.held) == self.window - 1 else 0
        ses = self._with_data(request, data)
        context.held[request.psn] = self._acknowledge(
            packet, request.spdcid, context, request.psn, RESPONSE_DATA, ses, flags
        )

    def _default(self, packet: Packet, context: _Context, request: Request) -> None:
        """Answer a success without data."""
        response = struct.pack(">BBHII", DEFAULT, RC_OK, request.message, request.job, request.length)
        self._acknowledge(packet, request.spdcid, context, request.psn, RESPONSE, response)

    def _acknowledge(
        self, packet: Packet, spdcid: int, context: _Context, psn: int, following: int, ses: bytes, flags: int = 0
    ) -> bytes:
        cack = min(context.held, default=context.base) - 1
        pds = prologue(ACK_CC if self.congestion_state else ACK, following, flags)
        pds += struct.pack(">hIHH", psn - cack, cack, context.number, spdcid)
        if self.congestion_state:
            pds += bytes([0, self.window // MPR_UNIT]) + bytes(18)
        self._reply(packet, pds + ses)
        return pds + ses

    def _reply(self, packet: Packet, data: bytes) -> None:
        number, self._left = self._left, self._left + 1
        if number not in self.drop:
            self.station.send(Address(packet.mac, packet.ip), data)
