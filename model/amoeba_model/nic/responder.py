"""The target: PDC, checks, memory and, at its end, the Responder."""

from amoeba_model.nic.checker import RequestChecker
from amoeba_model.nic.core import Core
from amoeba_model.nic.frames import Announcement, FrameTransmitter
from amoeba_model.nic.memory import MemoryEngine
from amoeba_model.nic.pdc import PdcTable
from amoeba_model.nic.timing import CHECK, RESPOND
from amoeba_model.registers import Counter
from amoeba_model.trace import NO_CONTEXT, Stage
from amoeba_model.wire.codec import FrameHeader
from amoeba_model.wire.uet import ResponseOpcode, ReturnCode

__all__ = ["Target"]

_REFUSED_REQUESTS = Counter.REFUSED_REQUESTS.value
_REQUESTS_RECEIVED = Counter.REQUESTS_RECEIVED.value
_RESPONSES_SENT = Counter.RESPONSES_SENT.value
_WITH_DATA, _WITHOUT_DATA = ResponseOpcode.WITH_DATA.value, ResponseOpcode.RESPONSE.value
_SEND_STAGE = Stage.RESPONSE_SENT
_OK = ReturnCode.OK.value


class Target:
    """Answers every request packet that its PDC accepts, in order."""

    def __init__(
        self,
        core: Core,
        pdcs: PdcTable,
        checker: RequestChecker,
        memory: MemoryEngine,
        transmitter: FrameTransmitter,
    ) -> None:
        self._core = core
        self._pdcs = pdcs
        self._checker = checker
        self._memory = memory
        self._transmitter = transmitter
        self._answer_ready = 0
        """Cycle at which the last answer was ready: answers never overtake each other."""

    def handle(self, header: FrameHeader, payload: bytes, cycle: int) -> None:
        """One request packet, from its PDC to its answer."""
        core = self._core
        pdc = self._pdcs.accept(header)
        if isinstance(pdc, Counter):
            core.counters[pdc] += 1
            return
        core.counters[_REQUESTS_RECEIVED] += 1
        checked = self._checker.check(header, payload)
        data: bytes | None = b""
        if core.tracing:
            context = header.resource_index & 0xFF
            status = checked if isinstance(checked, ReturnCode) else _OK
            core.trace(cycle + CHECK, Stage.REQUEST_CHECKED, context, pdc, header.psn, status)
        cycle += CHECK
        if isinstance(checked, ReturnCode):
            code = checked.value
        else:
            data, cycle = self._memory.execute(checked, pdc, header.psn, cycle)
            code = _OK if data is not None else ReturnCode.HOST_UNSUCCESS_CMPL.value
        if code != _OK:
            core.counters[_REFUSED_REQUESTS] += 1
        self.respond(header, pdc, code, data or b"", cycle + RESPOND)

    def respond(self, request: FrameHeader, pdc: int, code: int, data: bytes, ready: int) -> None:
        """Responder: the acknowledgement of one request packet, with its data if there is any."""
        header = FrameHeader(
            mac=request.mac,
            ip=request.ip,
            port=request.port,
            is_request=False,
            psn=request.psn,
            spdcid=pdc,
            dpdcid=request.spdcid,
            opcode=_WITH_DATA if data else _WITHOUT_DATA,
            message_id=request.message_id,
            job_id=request.job_id,
            return_code=code,
            modified_length=request.request_length if code == _OK else 0,
        )
        self._core.counters[_RESPONSES_SENT] += 1
        self._answer_ready = max(self._answer_ready, ready)
        announcement = Announcement(_SEND_STAGE, NO_CONTEXT, pdc, request.psn, code)
        self._transmitter.send(header, data, self._answer_ready, announcement)
