"""Responder: acknowledgements, negative ones too."""

from amoeba_model.nic.answers import KeptAnswer
from amoeba_model.nic.core import Core
from amoeba_model.nic.frames import FrameTransmitter
from amoeba_model.registers import Counter
from amoeba_model.trace import NO_CONTEXT, Stage
from amoeba_model.wire.codec import FrameHeader
from amoeba_model.wire.uet import NackCode, ResponseOpcode, ReturnCode

__all__ = ["Responder"]

_NACKS_SENT = Counter.NACKS_SENT.value
_RESPONSES_SENT = Counter.RESPONSES_SENT.value
_WITH_DATA, _WITHOUT_DATA = ResponseOpcode.WITH_DATA.value, ResponseOpcode.RESPONSE.value
_DEFAULT = ResponseOpcode.DEFAULT.value
_NO_RESPONSE = ResponseOpcode.NONE.value
_NULL = ReturnCode.NULL.value
_SEND_STAGE = Stage.RESPONSE_SENT


class Responder:
    """Sends answers, none of which overtakes another."""

    def __init__(self, core: Core, transmitter: FrameTransmitter) -> None:
        self._core = core
        self._transmitter = transmitter
        self._ready = 0
        """Cycle at which the last answer was ready."""

    def ready(self, cycle: int) -> int:
        """When an answer that is at hand in ``cycle`` is sent."""
        return max(self._ready, cycle)

    def acknowledge(
        self, request: FrameHeader, pdc: int, answer: KeptAnswer, data: bytes, cack_psn: int, retx: bool, cycle: int
    ) -> None:
        """Answer one request packet, with its data if there is any.

        ``request`` says where to: received again, it may differ in all else from the one that was executed.
        """
        psn = request.psn
        opcode = _WITH_DATA if data else _NO_RESPONSE if answer.code == _NULL else _WITHOUT_DATA
        if answer.returned:
            opcode = _DEFAULT
        # In the order of the fields: by their names it takes three times as long.
        header = FrameHeader(
            request.mac, request.ip, request.port, False, False, retx, 0, 0, cack_psn, psn, 0, pdc, request.spdcid,
            False, opcode, 0, 0, answer.message_id, answer.job_id,
        )  # fmt: skip
        header.return_code = answer.code
        header.modified_length = answer.modified_length
        header.marked = request.marked
        self._core.counters[_RESPONSES_SENT] += 1
        if cycle > self._ready:
            self._ready = cycle
        announcement = (_SEND_STAGE, NO_CONTEXT, pdc, psn, answer.code)
        self._transmitter.send(header, data, self._ready, announcement)

    def refuse(
        self, request: FrameHeader, pdc: int, code: NackCode, psn: int, cycle: int, missing: int = 0
    ) -> None:
        """Send the NACK of a packet."""
        header = FrameHeader(
            mac=request.mac,
            ip=request.ip,
            port=request.port,
            is_request=False,
            is_control=True,
            retx=request.retx,
            nack_code=code.value,
            missing=missing,
            psn=psn,
            spdcid=pdc,
            dpdcid=request.spdcid,
            marked=request.marked,
        )
        self._core.counters[_NACKS_SENT] += 1
        self._ready = max(self._ready, cycle)
        self._transmitter.send(header, b"", self._ready, (_SEND_STAGE, NO_CONTEXT, pdc, psn, 0))
