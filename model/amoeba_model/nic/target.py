"""The target: PdcTable, RequestChecker, Matcher, MemoryEngine, EventWriter, AnswerStore and Responder in turn."""

from amoeba_model.descriptors import ANSWER_INLINE_SIZE
from amoeba_model.nic.answers import AnswerStore
from amoeba_model.nic.checker import MemoryRequest, RequestChecker
from amoeba_model.nic.core import Core
from amoeba_model.nic.event_counters import EventCounters, RemoteRequests
from amoeba_model.nic.events import Access, EventWriter
from amoeba_model.nic.match_unit import Arrival
from amoeba_model.nic.matcher import Matcher
from amoeba_model.nic.memory import MemoryEngine
from amoeba_model.nic.open_messages import OpenMessage, follow_message
from amoeba_model.nic.pdc import Duplicate, Kept, Pdc, PdcTable, Refusal
from amoeba_model.nic.responder import Responder
from amoeba_model.nic.return_sender import ReturnSender
from amoeba_model.nic.timing import CHECK, HOST_READ, RESPOND
from amoeba_model.registers import Counter
from amoeba_model.trace import NO_CONTEXT, Stage
from amoeba_model.wire.byte_order import NUMBER_SIZES, swap_bytes
from amoeba_model.wire.codec import FrameHeader
from amoeba_model.wire.uet import MESSAGE_REQUESTS, NackCode, ReturnCode, SesFlags

__all__ = ["Target"]

_DUPLICATES = Counter.DUPLICATES.value
_REFUSED_REQUESTS = Counter.REFUSED_REQUESTS.value
_REQUESTS_RECEIVED = Counter.REQUESTS_RECEIVED.value
_OK = ReturnCode.OK.value
_NO_REFUSALS = frozenset({_OK, ReturnCode.NULL.value})
_HOST_UNSUCCESS_CMPL = ReturnCode.HOST_UNSUCCESS_CMPL.value
_HEADER_DATA = SesFlags.HEADER_DATA.value
_START, _END = SesFlags.START_OF_MESSAGE.value, SesFlags.END_OF_MESSAGE.value
_MESSAGES = frozenset(opcode.value for opcode in MESSAGE_REQUESTS)
_KEY_REFUSALS = frozenset({ReturnCode.BAD_MKEY, ReturnCode.PERM_VIOLATION, ReturnCode.BAD_ADDR})
"""Return codes of the RequestChecker's last checks, on the key: requests that get so far are counted."""


class Target:
    """Executes every packet once, in the order of its PDC, and answers it as often as it is asked to."""

    def __init__(
        self,
        core: Core,
        pdcs: PdcTable,
        checker: RequestChecker,
        matcher: Matcher,
        memory: MemoryEngine,
        events: EventWriter,
        event_counters: EventCounters,
        remote_requests: RemoteRequests,
        answers: AnswerStore,
        responder: Responder,
        returns: ReturnSender,
    ) -> None:
        self._core = core
        self._pdcs = pdcs
        self._checker = checker
        self._matcher = matcher
        self._memory = memory
        self._events = events
        self._event_counters = event_counters
        self._remote_requests = remote_requests
        self._answers = answers
        self._responder = responder
        self._returns = returns

    def handle(self, header: FrameHeader, payload: bytes, cycle: int) -> None:
        """One request packet or CLOSE_COMMAND, from its PDC to its answer; and those that were kept behind it."""
        place = self._pdcs.accept(header, payload)
        self._settle(header, payload, place, cycle)
        while isinstance(place, Pdc):
            kept = self._pdcs.following(place)
            if kept is None:
                return
            place = self._pdcs.accept_next(place, kept.header)
            self._settle(kept.header, kept.payload, place, cycle)

    def acknowledge(self, header: FrameHeader) -> None:
        """One ACK or NACK of data in the return direction, from the initiator of a PDC."""
        pdc = self._pdcs.find(header.dpdcid)
        if not self._returns.take(header, pdc) and pdc is not None:
            self._pdcs.expel(pdc.number)

    @property
    def deadline(self) -> int:
        """No timer of the return direction is due before this cycle."""
        return self._returns.deadline

    def expire(self) -> None:
        """Send data in the return direction again that was not acknowledged in time; give PDCs up."""
        for number in self._returns.expire():
            self._pdcs.expel(number)

    def end_stalled(self, pdc: int) -> None:
        """Give the receive of a message back to its host: the PDC that has begun the message sends no more of it."""
        self._give_up(pdc, self._core.now)

    def _settle(
        self, header: FrameHeader, payload: bytes, place: Pdc | Duplicate | Kept | Refusal, cycle: int
    ) -> None:
        """Execute, answer, keep or refuse one packet, as the PdcTable says."""
        cycle += CHECK
        if isinstance(place, Pdc):
            self._core.counters[_REQUESTS_RECEIVED] += 1
            code, data, cycle = self._execute(header, payload, place, cycle)
            self._answer(header, place, code, data, cycle + RESPOND)
        elif isinstance(place, Duplicate):
            self._answer_again(header, place.pdc.number, cycle)
        elif isinstance(place, Kept):
            if place.missing:
                number, code = place.pdc.number, NackCode.ROD_OOO
                self._responder.refuse(header, number, code, place.psn, cycle + RESPOND, place.missing)
        else:
            self._refuse(header, place, cycle)
        if self._matcher.busy:
            self._matcher.run()

    def _execute(self, header: FrameHeader, payload: bytes, place: Pdc, cycle: int) -> tuple[int, bytes, int]:
        """Do what the packet asks for: the return code, the data to answer, and the cycle when that is done."""
        pdc = place.number
        # A CLOSE has been executed by the PdcTable. Its answer has no response, and so no return code.
        checked = ReturnCode.NULL if header.is_control else self._checker.check(header, payload)
        is_message = header.opcode in _MESSAGES
        has_events = isinstance(checked, MemoryRequest) and (
            is_message or self._events.has_ring(header.resource_index)
        )
        message, checked = follow_message(place.message, header, checked, has_events)
        place.message = None if header.flags & _END else message
        if self._core.tracing:
            context = NO_CONTEXT if header.is_control else header.resource_index & 0xFF
            status = checked if isinstance(checked, ReturnCode) else _OK
            self._core.trace(cycle, Stage.REQUEST_CHECKED, context, pdc, header.psn, status)
        if header.flags & _START or not isinstance(checked, MemoryRequest):
            cycle = self._give_up(pdc, cycle)
        if not isinstance(checked, MemoryRequest):
            if checked in _KEY_REFUSALS:
                self._remote_requests.count(header, checked.value)
            return checked.value, b"", cycle
        self._pdcs.prove(place)
        if is_message:
            return self._receive(header, checked, message, pdc, cycle)
        data, cycle = self._access(checked, message, pdc, header.psn, cycle)
        if data is None:
            self._remote_requests.count(header, _HOST_UNSUCCESS_CMPL)
            return _HOST_UNSUCCESS_CMPL, b"", cycle
        access = _access_to_report(header, checked, message)
        if access is not None:
            cycle = self._events.write(header, access, pdc, cycle)
        self._remote_requests.count(header, _OK)
        return _OK, data, cycle

    def _receive(
        self, header: FrameHeader, request: MemoryRequest, message: OpenMessage | None, pdc: int, cycle: int
    ) -> tuple[int, bytes, int]:
        """Execute a message, from the receive that it meets to its event; as :meth:`_execute`."""
        arrival = self._matcher.arrive(header, request, pdc)
        if isinstance(arrival, ReturnCode):
            return arrival.value, b"", cycle
        data, cycle = self._access(request, message, pdc, header.psn, cycle)
        if data is None and arrival.report is not None:
            arrival.report.status = ReturnCode.HOST_UNSUCCESS_CMPL
        cycle = self._tell(arrival, pdc, cycle)
        return (_OK, data, cycle) if data is not None else (_HOST_UNSUCCESS_CMPL, b"", cycle)

    def _give_up(self, pdc: int, cycle: int) -> int:
        """Tell the receiver of a message that the packet in hand does not continue; return the cycle."""
        arrival = self._matcher.give_up(pdc)
        return cycle if arrival is None else self._tell(arrival, pdc, cycle)

    def _tell(self, arrival: Arrival, pdc: int, cycle: int) -> int:
        """Write and count the event of a message, if it has one; return the cycle."""
        report = arrival.report
        if report is not None:
            cycle = self._events.report(arrival.receiver, report, pdc, cycle)
            success = report.status == ReturnCode.OK
            self._event_counters.advance(arrival.counter, success, arrival.receiver.number)
        return cycle

    def _access(
        self, request: MemoryRequest, message: OpenMessage | None, pdc: int, psn: int, cycle: int
    ) -> tuple[bytes | None, int]:
        """Access memory: the data to answer, in network order, or None, and the cycle.

        None: the host refused this packet, or one before it of the same message.
        """
        data, cycle = self._memory.execute(request, pdc, psn, cycle)
        if message is not None:
            message.faulty |= data is None
            data = None if message.faulty else data
        if data and request.datatype is not None:
            data = swap_bytes(data, NUMBER_SIZES[request.datatype])
        return data, cycle

    def _answer(self, header: FrameHeader, pdc: Pdc, code: int, data: bytes, cycle: int) -> None:
        """Keep the answer, and give it for the first time."""
        if code not in _NO_REFUSALS:
            self._core.counters[_REFUSED_REQUESTS] += 1
        returned = self._returns.carries(header, data)
        ready = self._responder.ready(cycle)
        kept = self._answers.keep(header, pdc.number, code, data, ready, returned=returned)
        answered = b"" if returned else data
        cack_psn = pdc.acknowledge(header, plain=code == _OK and not answered)
        self._responder.acknowledge(header, pdc.number, kept, answered, cack_psn, header.retx, cycle)
        if returned:
            self._returns.send(header, pdc, kept, data, ready)

    def _answer_again(self, header: FrameHeader, pdc: int, cycle: int) -> None:
        """Give a kept answer again; none if the first is still to come, or no longer kept."""
        self._core.counters[_DUPLICATES] += 1
        kept = self._answers.find(pdc, header.psn, cycle)
        if kept is None:
            return
        data = b"" if kept.returned else self._answers.data(pdc, kept)
        if data is None or len(data) > ANSWER_INLINE_SIZE:
            cycle += HOST_READ + kept.size // self._core.beat_bytes
        cycle += RESPOND
        if data is None:
            self._responder.refuse(header, pdc, NackCode.GTD_RESP_UNAVAIL, header.psn, cycle)
        else:
            self._responder.acknowledge(header, pdc, kept, data, Pdc.acknowledge_again(header), True, cycle)

    def _refuse(self, header: FrameHeader, refusal: Refusal, cycle: int) -> None:
        """Drop a packet, and say why unless that has been said."""
        self._core.counters[refusal.counter] += 1
        if refusal.code is not None:
            self._responder.refuse(header, refusal.pdc, refusal.code, refusal.psn, cycle + RESPOND)


def _access_to_report(header: FrameHeader, request: MemoryRequest, message: OpenMessage | None) -> Access | None:
    """Return what the event of an executed request says; None without an event."""
    if not header.flags & _END:
        return None
    if message is None:
        return Access(header.header_data, request.address, request.length) if header.flags & _HEADER_DATA else None
    if message.data is None:
        return None
    return Access(message.data, request.address - request.offset, header.request_length)
