"""ResponseHandler: acknowledgements, negative ones too."""

from amoeba_model.descriptors import DescriptorOpcode
from amoeba_model.nic.completion import ResultOrder
from amoeba_model.nic.core import Core
from amoeba_model.nic.first_psns import first_psn
from amoeba_model.nic.peers import DOUBTFUL_TIMEOUTS, PSN_MASK, Packet, Peer
from amoeba_model.nic.retransmitter import Retransmitter
from amoeba_model.nic.returns import ReturnOrder
from amoeba_model.registers import Counter
from amoeba_model.wire.codec import NO_PDC, FrameHeader
from amoeba_model.wire.nacks import FATAL_NACKS, LOSS_NACKS, NO_PDC_NACKS, PATIENT_NACKS
from amoeba_model.wire.uet import NackCode, ResponseOpcode, ReturnCode

__all__ = ["ResponseHandler"]

_DROPPED_RESPONSE = Counter.DROPPED_RESPONSE.value
_NACKS_RECEIVED = Counter.NACKS_RECEIVED.value
_RESPONSES_RECEIVED = Counter.RESPONSES_RECEIVED.value
_CLOSE, _READ = DescriptorOpcode.CLOSE.value, DescriptorOpcode.READ.value
_OK, _UNCOR = ReturnCode.OK.value, ReturnCode.UNCOR.value
_BAD_GENERATION = ReturnCode.BAD_GENERATION.value
_DEFAULT, _NO_RESPONSE = ResponseOpcode.DEFAULT.value, ResponseOpcode.NONE.value
_RESPONSES = frozenset({ResponseOpcode.RESPONSE.value, ResponseOpcode.WITH_DATA.value})
"""Responses with a return code; without it an answer says OK."""
_CLOSED = frozenset({NackCode.INV_DPDCID.value, NackCode.CLOSING.value})
_PSN_HALF = 1 << 31


class ResponseHandler:
    """Matches answers with unanswered packets, in order."""

    def __init__(
        self,
        core: Core,
        peers: list[Peer],
        results: ResultOrder,
        retransmitter: Retransmitter,
        returns: ReturnOrder,
    ) -> None:
        self._core = core
        self._peers = peers
        self._results = results
        self._retransmitter = retransmitter
        self._returns = returns

    def handle(self, header: FrameHeader, payload: bytes, cycle: int) -> Peer | None:
        """Handle a response, and return the PDC that may go on; None if the frame is not for an unanswered packet."""
        pdc = header.dpdcid
        peer = self._peers[pdc] if pdc < len(self._peers) else None
        if peer is not None and header.returns:
            return self._take_return(header, payload, pdc, peer, cycle)
        if peer is None or not peer.outstanding or peer.ip != header.ip:
            self._core.counters[_DROPPED_RESPONSE] += 1
            return None
        younger_by = (header.psn - peer.outstanding[0].psn) & PSN_MASK
        if younger_by >= len(peer.outstanding):
            self._core.counters[_DROPPED_RESPONSE] += 1
            return None
        if header.is_control:
            self._refuse(header, pdc, peer, cycle)
            return peer
        packet = peer.outstanding[younger_by]
        if not _is_meant(header, peer, packet):
            self._core.counters[_DROPPED_RESPONSE] += 1
            return None
        if younger_by:
            younger_by -= self._acknowledge_before(header, pdc, peer, younger_by, cycle)
        if packet.status is not None:
            self._core.counters[_DROPPED_RESPONSE] += 1
            return peer
        if header.opcode == _DEFAULT and packet.expected and packet.request.opcode == _READ:
            self._core.counters[_RESPONSES_RECEIVED] += 1  # its data comes in the return direction
            self._clear(header, peer, peer.last_answered, cycle)
            return peer
        code = header.return_code if header.opcode in _RESPONSES else _OK
        self._take(header, payload, pdc, peer, younger_by, code, cycle)
        return peer

    def _take_return(
        self, header: FrameHeader, payload: bytes, pdc: int, peer: Peer, cycle: int
    ) -> Peer | None:
        """Handle a packet in the return direction: data is the answer to the READ that it names."""
        is_due = peer.ip == header.ip and self._returns.is_due(header, peer, cycle)
        if is_due and header.is_control:
            peer.close_requested = True
            self._returns.take(header, peer, cycle)
            return None
        if is_due and peer.outstanding:
            younger_by = (peer.first_message + header.message_id - peer.outstanding[0].psn) & 0xFFFF
            packet = peer.outstanding[younger_by] if younger_by < len(peer.outstanding) else None
            if packet is not None and packet.request.opcode == _READ and packet.status is None:
                is_whole = not header.buffer_offset and header.modified_length == header.payload_length
                code = header.return_code if is_whole or header.return_code != _OK else _UNCOR
                self._returns.take(header, peer, cycle)
                self._take(header, payload, pdc, peer, younger_by, code, cycle)
                return peer
        self._core.counters[_DROPPED_RESPONSE] += 1
        return None

    def _take(
        self, header: FrameHeader, payload: bytes, pdc: int, peer: Peer, younger_by: int, code: int, cycle: int
    ) -> None:
        """Take the answer to the packet that is so much younger than the oldest one."""
        packet = peer.outstanding[younger_by]
        self._core.counters[_RESPONSES_RECEIVED] += 1
        if younger_by:
            self._results.note(pdc, packet, code, payload, cycle)
            self._retransmitter.noted(peer)
            self._retransmitter.ask_before(pdc, peer, packet.psn)
            self._clear(header, peer, peer.last_answered, cycle)
        else:
            peer.learn_window(header.mpr)
            if code == _BAD_GENERATION:
                peer.learn_generation(packet.opcode, header.ri_generation)
            self._answer(pdc, peer, header.spdcid, code, payload, cycle)
            if packet.request.opcode != _CLOSE:
                self._clear(header, peer, packet.psn, cycle)
            self._retransmitter.answered(peer)

    def _clear(self, header: FrameHeader, peer: Peer, psn: int, cycle: int) -> None:
        """Clear the answers up to ``psn``, if the target asks for it."""
        if header.wants_clear:
            self._returns.clear(header, peer, psn, cycle)

    def _acknowledge_before(self, header: FrameHeader, pdc: int, peer: Peer, limit: int, cycle: int) -> int:
        """Answer what an acknowledgement covers of the ``limit`` packets before the one it names; how many."""
        count = 0
        while count < limit:
            oldest = peer.outstanding[0]
            if oldest.expected or (header.cack_psn - oldest.psn) & PSN_MASK >= _PSN_HALF:
                break
            count += self._answer(pdc, peer, header.spdcid, _OK, b"", cycle)
        if count:
            peer.learn_window(header.mpr)
            self._retransmitter.answered(peer)
        return count

    def _answer(self, pdc: int, peer: Peer, target_pdc: int, code: int, payload: bytes, cycle: int) -> int:
        """Answer the oldest unanswered packet, and the noted ones in a row behind it; return how many."""
        outstanding = peer.outstanding
        peer.target_pdc = target_pdc
        cycle = self._results.note(pdc, outstanding[0], code, payload, cycle)
        count = 0
        while outstanding and outstanding[0].status is not None:
            packet = outstanding.popleft()
            peer.last_answered = packet.psn
            peer.caution = max(peer.caution - 1, 0)
            if packet.request.opcode == _CLOSE:
                peer.start_anew(first_psn(self._core.psn_key, pdc, peer.next_psn))
            self._results.conclude(peer, packet, cycle)
            count += 1
        return count

    def _refuse(self, header: FrameHeader, pdc: int, peer: Peer, cycle: int) -> None:
        """Handle a NACK for an unanswered packet."""
        code = header.nack_code
        counter = _NACKS_RECEIVED
        if code == NackCode.ROD_OOO and header.missing:
            self._retransmitter.send_missing(pdc, peer, header.psn, header.missing)
        elif code == NackCode.ROD_OOO:
            self._retransmitter.fill_gap(pdc, peer, header.psn)
        elif code in LOSS_NACKS:
            self._retransmitter.send_missing(pdc, peer, header.psn, 1)
        elif code in PATIENT_NACKS:
            self._retransmitter.hold_back(pdc, peer, header.psn, without_pdc=code in NO_PDC_NACKS)
            if code == NackCode.PSN_OOR_WINDOW:  # its window may be full of answers that it keeps
                self._returns.clear(header, peer, peer.last_answered, cycle)
        elif code in _CLOSED and peer.outstanding[0].request.opcode == _CLOSE:
            # It was executed, and its answer lost.
            self._answer(pdc, peer, header.spdcid, _OK, b"", cycle)
            self._retransmitter.answered(peer)
        elif code == NackCode.INV_DPDCID and _loses_pdc(header, peer):
            if header.spdcid == NO_PDC or peer.doublings >= DOUBTFUL_TIMEOUTS or peer.has_noted():
                self._retransmitter.fail(pdc, peer)
            else:
                # The target gave the PDC away because it was idle: nothing that is unanswered has been executed. If
                # the NACK was forged, the PDC is still open there, and goes on with what is sent again.
                peer.start_at_oldest()
                self._retransmitter.fill_gap(pdc, peer, peer.start_psn)
        elif code in FATAL_NACKS:
            self._retransmitter.fail(pdc, peer)
        else:
            counter = _DROPPED_RESPONSE
        self._core.counters[counter] += 1


def _loses_pdc(header: FrameHeader, peer: Peer) -> bool:
    """Whether a NACK INV_DPDCID is about the PDC that the target has answered from."""
    return peer.target_pdc is not None and header.spdcid in (peer.target_pdc, NO_PDC)


def _is_meant(header: FrameHeader, peer: Peer, packet: Packet) -> bool:
    """Whether an ACK has message and job of ``packet``, which it names.

    A CLOSE, which is alone, has neither, and no other packet is answered without a response. A DEFAULT response has
    no job.
    """
    if header.opcode == _NO_RESPONSE or peer.outstanding[0].request.opcode == _CLOSE:
        return header.opcode == _NO_RESPONSE and peer.outstanding[0].request.opcode == _CLOSE
    if header.opcode != _DEFAULT and header.job_id != peer.job_id:
        return False
    return header.message_id == packet.message
