"""ReturnOrder by itself: which packets of the return direction are due, and what answers them."""

import random
from dataclasses import dataclass, field

from amoeba_model.nic.core import Core
from amoeba_model.nic.frames import FrameTransmitter
from amoeba_model.nic.peers import Packet, Peer
from amoeba_model.nic.returns import ReturnOrder
from amoeba_model.nic.tables import Context, Request
from amoeba_model.parameters import NicParameters
from amoeba_model.registers import Counter
from amoeba_model.wire.codec import DecodedFrame, FrameHeader, decode

WINDOW, START, JOB = 8, 0xFFFF_FFF0, 0x123456
PSNS = 1 << 32
ROD_OUT_OF_ORDER, DEFAULT, OK = 0x0D, 0, 1


@dataclass
class Bench:
    """The return direction of one PDC, whose frames leave at once."""

    peer: Peer = field(default_factory=lambda: Peer(ip=9, job_id=JOB, initial_psn=START))

    def __post_init__(self) -> None:
        self.core = Core(NicParameters(window=WINDOW))
        self._transmitter = FrameTransmitter(self.core)
        self.order = ReturnOrder(self.core, self._transmitter)

    def wait(self) -> None:
        """Leave a packet unanswered."""
        request = Request(Context(0), *[0] * 16)
        self.peer.outstanding.append(Packet(START, request, opcode=2, position=0, size=8, expected=8, is_last=True))

    def offer(self, psn: int, **fields: int) -> bool:
        """Offer a packet, and take it if it is due."""
        header = FrameHeader(is_request=False, returns=True, psn=psn % PSNS, **{"job_id": JOB, "spdcid": 3, **fields})
        is_due = self.order.is_due(header, self.peer, 0)
        if is_due:
            self.order.take(header, self.peer, 0)
        return is_due

    def answer(self) -> tuple[int, int, int] | None:
        """(psn, cack_psn, nack_code) of the answer; None without one."""
        self.core.now += 1000
        frames = [decode(frame.data) for frame in self._transmitter.take()]
        if not frames:
            return None
        (frame,) = frames
        assert isinstance(frame, DecodedFrame)
        header = frame.header
        if not header.is_control:
            assert (header.opcode, header.return_code) == (DEFAULT, OK)
        return header.psn, header.cack_psn, header.nack_code


def test_packets_are_taken_in_order_and_acknowledged_as_often_as_they_come() -> None:
    bench, rng = Bench(), random.Random(3)
    bench.wait()
    taken, refused = 0, False
    for _ in range(400):
        distance = rng.choice((0, 0, 1, WINDOW - 1, WINDOW, -1, -WINDOW, -WINDOW - 1, rng.randint(-20, 20)))
        expected = START + taken
        psn = (expected + distance) % PSNS
        assert bench.offer(psn) == (distance == 0)
        if distance == 0:
            taken, refused = taken + 1, False
            assert bench.answer() == (psn, psn, 0)
        elif 0 < -distance <= min(WINDOW, taken):
            assert bench.answer() == (psn, (expected - 1) % PSNS, 0)
        elif 0 < distance < WINDOW and not refused:
            refused = True
            assert bench.answer() == (expected % PSNS, 0, ROD_OUT_OF_ORDER)
        else:
            assert bench.answer() is None
    assert taken > 50
    assert bench.core.counters[Counter.NACKS_SENT] > 10


def test_without_an_unanswered_packet_nothing_is_refused() -> None:
    bench = Bench()
    assert not bench.offer(START + 1)
    assert bench.answer() is None


def test_what_is_not_of_the_pdc_is_neither_due_nor_answered() -> None:
    bench = Bench()
    bench.wait()
    assert bench.offer(START)
    assert bench.answer()
    bench.peer.target_pdc = 3
    for fields in ({"job_id": JOB + 1}, {"spdcid": 4}):
        for psn in (START, START + 1, START + 2):
            assert not bench.offer(psn, **fields)
    bench.peer.failed = True
    assert not bench.offer(START + 1)
    assert bench.answer() is None


def test_a_pdc_that_begins_anew_counts_from_its_start() -> None:
    bench = Bench()
    assert [bench.offer(START + number) for number in range(3)] == [True] * 3
    bench.peer.start_anew(0x5000)
    assert not bench.offer(START + 3)
    assert bench.offer(0x5000)
    bench.wait()
    bench.peer.start_at_oldest()
    assert not bench.offer(0x5001)
    assert bench.offer(START)
