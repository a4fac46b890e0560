"""NACKs of other endpoints after which packets are sent again.

Covers ``wire/nacks.py``.
"""

from collections.abc import Callable

import pytest
from amoeba_model.registers import Counter
from amoeba_model.wire.codec import NO_PDC, DecodedFrame, decode

from tests.support.lossy_bench import FIRST_PSN, Bench
from tests.support.raw_driver import Pair

MakePair = Callable[..., Pair]


@pytest.fixture
def bench(make_model_pair: MakePair) -> Bench:
    return Bench(make_model_pair())


@pytest.mark.parametrize("code", [1, 2, 0x12, 0x14, 0x1A])
def test_a_nack_that_says_that_a_packet_is_lost_has_that_one_sent_again_once(bench: Bench, code: int) -> None:
    left: list[DecodedFrame] = []

    def lose(frame: bytes) -> list[tuple[int, bytes]]:
        decoded = decode(frame)
        assert isinstance(decoded, DecodedFrame)
        left.append(decoded)
        return []

    bench.requests.fate = lose
    bench.post(*(bench.write(number) for number in range(3)))
    bench.sent(3)
    for _ in range(2):
        bench.say(is_control=True, nack_code=code, psn=FIRST_PSN + 1, missing=3)
    assert [decoded.header.psn for decoded in left[3:]] == [FIRST_PSN + 1]
    assert (bench.here(Counter.NACKS_RECEIVED), bench.here(Counter.TIMEOUTS)) == (2, 0)


@pytest.mark.parametrize("code", [4, 5, 6])
def test_a_nack_that_says_that_there_is_no_pdc_has_the_oldest_sent_again_later(bench: Bench, code: int) -> None:
    bench.cut_off()
    bench.post(bench.write(1), bench.write(2))
    bench.sent(2)
    bench.say(is_control=True, nack_code=code, psn=FIRST_PSN + 1, spdcid=NO_PDC)
    assert bench.here(Counter.RETRANSMISSIONS) == 0
    bench.sent(4)
    assert (bench.here(Counter.NACKS_RECEIVED), bench.here(Counter.TIMEOUTS)) == (1, 0)
