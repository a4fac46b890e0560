"""ReturnOrder: CLEARs, and a target's own packets in the return direction of a PDC: data of READs, CLOSE_REQUESTs."""

from amoeba_model.nic.core import Core
from amoeba_model.nic.frames import FrameTransmitter
from amoeba_model.nic.peers import PSN_MASK, Peer
from amoeba_model.registers import Counter
from amoeba_model.trace import NO_CONTEXT, Stage
from amoeba_model.wire.codec import FrameHeader
from amoeba_model.wire.uet import NackCode, ResponseOpcode, ReturnCode

__all__ = ["ReturnOrder"]

_NACKS_SENT = Counter.NACKS_SENT.value
_RESPONSES_SENT = Counter.RESPONSES_SENT.value
_SEND_STAGE, _CLEAR_STAGE = Stage.RESPONSE_SENT, Stage.REQUEST_SENT
_DEFAULT, _NO_RESPONSE = ResponseOpcode.DEFAULT.value, ResponseOpcode.NONE.value
_OK = ReturnCode.OK.value
_ROD_OOO = NackCode.ROD_OOO.value


class ReturnOrder:
    """Takes the packets of the return direction in order, and acknowledges them; clears answers."""

    def __init__(self, core: Core, transmitter: FrameTransmitter) -> None:
        self._core = core
        self._transmitter = transmitter
        self._window = core.parameters.window

    def is_due(self, header: FrameHeader, peer: Peer, cycle: int) -> bool:
        """Whether a packet comes next; one that came before is acknowledged again, one that comes early refused."""
        # A CLOSE_REQUEST has no job.
        is_ours = header.is_control or header.job_id == peer.job_id
        if peer.failed or not is_ours or header.spdcid != _or(peer.target_pdc, header.spdcid):
            return False
        ahead = (header.psn - peer.returned) & PSN_MASK
        behind = -ahead & PSN_MASK
        if ahead and behind <= min(self._window, (peer.returned - peer.start_psn) & PSN_MASK):
            self._acknowledge(header, peer, cycle)
        elif 0 < ahead < self._window and peer.outstanding and not peer.return_gap:
            peer.return_gap = True
            self._refuse(header, peer, cycle)
        return not ahead

    def take(self, header: FrameHeader, peer: Peer, cycle: int) -> None:
        """Acknowledge the packet that was due: its data is the answer to its READ, or it is a CLOSE_REQUEST."""
        peer.returned = (peer.returned + 1) & PSN_MASK
        peer.return_gap = False
        self._acknowledge(header, peer, cycle)

    def clear(self, header: FrameHeader, peer: Peer, psn: int, cycle: int) -> None:
        """Tell the target, which asked for it by ``header``, that it need not keep the answers up to ``psn``."""
        if peer.target_pdc is None:
            return
        command = FrameHeader(
            mac=header.mac,
            ip=header.ip,
            port=header.port,
            is_control=True,
            psn=psn,
            spdcid=header.dpdcid,
            dpdcid=peer.target_pdc,
            clears=True,
        )
        self._transmitter.send(command, b"", cycle, (_CLEAR_STAGE, NO_CONTEXT, command.spdcid, psn, 0))

    def _acknowledge(self, header: FrameHeader, peer: Peer, cycle: int) -> None:
        answer = self._answer(header, header.psn)
        answer.cack_psn = (peer.returned - 1) & PSN_MASK
        if header.is_control:
            answer.opcode = _NO_RESPONSE
        else:
            answer.opcode, answer.return_code = _DEFAULT, _OK
            answer.message_id, answer.job_id = header.message_id, header.job_id
            answer.modified_length = header.modified_length
        self._core.counters[_RESPONSES_SENT] += 1
        self._send(answer, cycle)

    def _refuse(self, header: FrameHeader, peer: Peer, cycle: int) -> None:
        answer = self._answer(header, peer.returned)
        answer.is_control, answer.nack_code = True, _ROD_OOO
        self._core.counters[_NACKS_SENT] += 1
        self._send(answer, cycle)

    @staticmethod
    def _answer(header: FrameHeader, psn: int) -> FrameHeader:
        """Return an answer to a packet, about ``psn``, with the fields that every answer has."""
        return FrameHeader(
            mac=header.mac,
            ip=header.ip,
            port=header.port,
            is_request=False,
            retx=header.retx,
            psn=psn,
            spdcid=header.dpdcid,
            dpdcid=header.spdcid,
            marked=header.marked,
            returns=True,
        )

    def _send(self, answer: FrameHeader, cycle: int) -> None:
        announcement = (_SEND_STAGE, NO_CONTEXT, answer.spdcid, answer.psn, answer.return_code)
        self._transmitter.send(answer, b"", cycle, announcement)


def _or(number: int | None, other: int) -> int:
    return other if number is None else number
