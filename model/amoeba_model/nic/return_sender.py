"""ReturnSender: data of READs that a target sends in requests of its own, in the return direction of a PDC."""

from amoeba_model.nic.answers import AnswerStore, KeptAnswer
from amoeba_model.nic.core import Core
from amoeba_model.nic.frames import FrameTransmitter
from amoeba_model.nic.pdc import Pdc
from amoeba_model.nic.peers import NEVER, PSN_MASK
from amoeba_model.nic.return_direction import ReturnDirection
from amoeba_model.nic.timing import HOST_READ, RESPOND
from amoeba_model.registers import RETRANSMIT_DOUBLINGS, Counter
from amoeba_model.trace import NO_CONTEXT, Stage
from amoeba_model.wire.codec import FrameHeader
from amoeba_model.wire.nacks import FATAL_NACKS, LOSS_NACKS
from amoeba_model.wire.uet import NackCode, RequestOpcode, ResponseOpcode

__all__ = ["ReturnSender"]

_DROPPED_RESPONSE = Counter.DROPPED_RESPONSE.value
_FAILED_PDCS = Counter.FAILED_PDCS.value
_NACKS_RECEIVED = Counter.NACKS_RECEIVED.value
_RESPONSES_RECEIVED = Counter.RESPONSES_RECEIVED.value
_RESPONSES_SENT = Counter.RESPONSES_SENT.value
_RETRANSMISSIONS = Counter.RETRANSMISSIONS.value
_TIMEOUTS = Counter.TIMEOUTS.value
_READ = RequestOpcode.READ.value
_WITH_DATA = ResponseOpcode.WITH_DATA.value
_GONE = frozenset({NackCode.INV_DPDCID}) | FATAL_NACKS
"""The initiator takes nothing of this PDC any more."""
_AGAIN = frozenset({NackCode.ROD_OOO}) | LOSS_NACKS


class ReturnSender:
    """Sends data beyond ``max_ack_data`` in the return direction, until it is acknowledged or the PDC given up.

    Initiators take these packets in order, and drop those behind a gap. So whatever was lost, all that was not
    acknowledged is sent again. The data is that of the kept answers: memory is read once.
    """

    def __init__(self, core: Core, answers: AnswerStore, transmitter: FrameTransmitter) -> None:
        self.deadline = NEVER
        """No timer is due before this cycle: a lower bound."""
        self._core = core
        self._answers = answers
        self._transmitter = transmitter
        self._waiting: dict[Pdc, None] = {}
        """PDCs with data that was not acknowledged, and some that had such data."""

    def carries(self, request: FrameHeader, data: bytes) -> bool:
        """Whether the data that answers a request travels in the return direction."""
        core = self._core
        return (
            len(data) > core.max_ack_data
            and request.opcode == _READ
            and core.parameters.return_data
            and bool(core.answer_base)
        )

    def send(self, request: FrameHeader, pdc: Pdc, kept: KeptAnswer, data: bytes, ready: int) -> None:
        """Send the data that answers a READ, behind its ACK."""
        returned = pdc.returned
        returned.request = request
        psn, returned.next_psn = returned.next_psn, (returned.next_psn + 1) & PSN_MASK
        returned.outstanding.append(kept)
        left = self._transmit(pdc, psn, kept, data, ready)
        if len(returned.outstanding) == 1:
            returned.timeouts, returned.went_back = 0, False
            self._wait(pdc, left)

    def take(self, header: FrameHeader, pdc: Pdc | None) -> bool:
        """Take an ACK or a NACK of the return direction; return whether the PDC goes on."""
        counters = self._core.counters
        if (
            pdc is None
            or not pdc.returned.outstanding
            or (pdc.ip, pdc.spdcid) != (header.ip, header.spdcid)
            or (header.psn - pdc.returned.oldest) & PSN_MASK >= len(pdc.returned.outstanding)
        ):
            counters[_DROPPED_RESPONSE] += 1
            return True
        if header.is_control:
            return self._refused(header.nack_code, pdc)
        count = self._count(header, pdc.returned)
        counters[_RESPONSES_RECEIVED if count else _DROPPED_RESPONSE] += 1
        if count:
            for _ in range(count):
                pdc.returned.outstanding.popleft()
            pdc.returned.timeouts, pdc.returned.went_back = 0, False
            self._wait(pdc, self._core.now)
        return True

    def expire(self) -> list[int]:
        """Send again what is due by now; return the numbers of the PDCs that are to be given up."""
        now, given_up = self._core.now, []
        self.deadline = NEVER
        for pdc in list(self._waiting):
            returned = pdc.returned
            if not returned.outstanding:
                del self._waiting[pdc]
            elif returned.deadline > now:
                self.deadline = min(self.deadline, returned.deadline)
            else:
                self._core.counters[_TIMEOUTS] += 1
                returned.timeouts += 1
                returned.went_back = False
                if returned.timeouts > self._core.retransmit_limit or not self._go_back(pdc):
                    given_up.append(self._give_up(pdc))
        return given_up

    @staticmethod
    def _count(header: FrameHeader, returned: ReturnDirection) -> int:
        """How many packets an ACK acknowledges: those up to ``cack_psn``, or the oldest if the ACK names it."""
        count = (header.cack_psn + 1 - returned.oldest) & PSN_MASK
        if 0 < count <= len(returned.outstanding):
            return count
        return int(header.psn == returned.oldest)

    def _refused(self, code: int, pdc: Pdc) -> bool:
        self._core.counters[_NACKS_RECEIVED] += 1
        if code in _GONE:
            self._give_up(pdc)
            return False
        if code in _AGAIN and not pdc.returned.went_back:
            pdc.returned.went_back = True
            if not self._go_back(pdc):
                self._give_up(pdc)
                return False
        return True

    def _give_up(self, pdc: Pdc) -> int:
        self._core.counters[_FAILED_PDCS] += 1
        pdc.returned.clear()
        return pdc.number

    def _go_back(self, pdc: Pdc) -> bool:
        """Send all that was not acknowledged again; False: the host does not let the NIC read it."""
        left = self._core.now
        for distance, kept in enumerate(pdc.returned.outstanding):
            data = self._answers.data(pdc.number, kept)
            if data is None:
                return False
            ready = self._core.now + HOST_READ + kept.size // self._core.beat_bytes + RESPOND
            psn = (pdc.returned.oldest + distance) & PSN_MASK
            left = self._transmit(pdc, psn, kept, data, ready, again=True)
            self._core.counters[_RETRANSMISSIONS] += 1
        self._wait(pdc, left)
        return True

    def _transmit(
        self, pdc: Pdc, psn: int, kept: KeptAnswer, data: bytes, ready: int, *, again: bool = False
    ) -> int:
        """Send a packet; return the cycle by which it has left."""
        request = pdc.returned.request
        assert request is not None
        header = FrameHeader(
            mac=request.mac,
            ip=request.ip,
            port=request.port,
            is_request=False,
            retx=again,
            psn=psn,
            clear_psn_offset=(pdc.returned.oldest - 1 - psn) & 0xFFFF,
            spdcid=pdc.number,
            dpdcid=request.spdcid,
            opcode=_WITH_DATA,
            message_id=kept.message_id,
            job_id=kept.job_id,
            return_code=kept.code,
            modified_length=kept.modified_length,
            returns=True,
        )
        self._core.counters[_RESPONSES_SENT] += 1
        announcement = (Stage.RESPONSE_SENT, NO_CONTEXT, pdc.number, psn, kept.code)
        return self._transmitter.send(header, data, ready, announcement)

    def _wait(self, pdc: Pdc, since: int) -> None:
        """Start the timer of a PDC, if there is something to wait for."""
        returned = pdc.returned
        if returned.outstanding:
            wait = self._core.retransmit_timeout << min(returned.timeouts, RETRANSMIT_DOUBLINGS)
            returned.deadline = since + wait
            self._waiting[pdc] = None
            self.deadline = min(self.deadline, returned.deadline)
