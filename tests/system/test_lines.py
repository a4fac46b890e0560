"""How often the target reads lines of memory for a request, and how often it finds one on its way already."""

import pytest
from amoeba_model.descriptors import DescriptorFlags, DescriptorOpcode
from amoeba_model.opcodes import Datatype, Op
from amoeba_model.parameters import NicParameters
from amoeba_model.registers import Counter
from amoeba_model.wire.uet import ReturnCode

from tests.support.raw_driver import Pair

LENGTH = 1 << 16
"""16 packets."""
SUM = {"op": Op.FI_SUM, "datatype": Datatype.FI_UINT64}
REQUESTS = {
    "write": {"opcode": DescriptorOpcode.WRITE},
    "read": {"opcode": DescriptorOpcode.READ},
    "sum": {"opcode": DescriptorOpcode.ATOMIC, **SUM},
    "fetching sum": {"opcode": DescriptorOpcode.FETCH_ATOMIC, **SUM},
}


class Lines:
    """Two NICs, memory at the second, and the counters of its line table."""

    def __init__(self, pair: Pair) -> None:
        self.pair = pair
        self.region = pair.memory(LENGTH + 4096)
        local, result = pair.initiator.buffer(LENGTH), pair.initiator.buffer(LENGTH)
        self.common = {"remote_key": Pair.KEY, "local": local.address, "result": result.address}

    def put(self, name: str, offset: int, length: int) -> None:
        self.pair.local.put(
            **REQUESTS[name], **self.common, remote_address=self.region.address + offset, length=length,
            flags=DescriptorFlags.COMPLETION,
        )  # fmt: skip

    def count(self, *requests: tuple[str, int, int]) -> tuple[int, int]:
        """Lines read, and lines found, by requests (name, offset, length) that are in flight together."""
        before = self._counters()
        for request in requests:
            self.put(*request)
        self.pair.local.ring()
        for _ in requests:
            assert self.pair.local.completion()["status"] == ReturnCode.OK
        self.pair.run(5)
        reads, hits = (after - earlier for after, earlier in zip(self._counters(), before, strict=True))
        return reads, hits

    def _counters(self) -> tuple[int, int]:
        return self.pair.target.counter(Counter.LINE_READS), self.pair.target.counter(Counter.LINE_HITS)


@pytest.fixture
def lines(device_pair: Pair) -> Lines:
    assert NicParameters().lines < LENGTH // NicParameters().beat_bytes
    return Lines(device_pair)


def test_long_requests_on_whole_lines_read_each_once(lines: Lines) -> None:
    assert lines.count(("read", 0, LENGTH)) == (2048, 0)
    assert lines.count(("write", 0, LENGTH)) == (0, 0)
    assert lines.count(("sum", 32, LENGTH)) == (2048, 0)
    assert lines.count(("fetching sum", 64, LENGTH)) == (2048, 0)


def test_of_a_long_request_two_packets_share_a_line_that_is_read_once(lines: Lines) -> None:
    """16 packets of 129 lines, of which neighbours have one in common: 2049 lines."""
    assert lines.count(("read", 8, LENGTH)) == (2049, 15)
    assert lines.count(("sum", 8, LENGTH)) == (2049, 15)
    assert lines.count(("fetching sum", 24, LENGTH)) == (2049, 15)
    assert lines.count(("read", 31, LENGTH)) == (2049, 15)


def test_what_was_read_for_requests_of_before_is_no_longer_there(lines: Lines) -> None:
    for _ in range(3):
        assert lines.count(("read", 8, LENGTH)) == (2049, 15)
        assert lines.count(("read", 8, 8)) == (1, 0)


def test_small_requests_that_come_close_after_each_other_share_their_line(lines: Lines) -> None:
    lines.count(("read", 0, LENGTH))
    assert lines.count(*[("fetching sum", 0, 8)] * 12) == (1, 11)
    assert lines.count(*[("read", 24, 16)] * 12) == (2, 22)


def test_requests_in_flight_together_share_the_lines_that_they_have_in_common(lines: Lines) -> None:
    """512 bytes from the middle of a line on are 17 lines, and half of them on 9: the first of those is the ninth."""
    assert lines.count(("read", 16, 512), ("read", 272, 512)) == (25, 9)
    assert lines.count(("sum", 0, 1024), ("read", 512, 8), ("read", 512, 1024)) == (48, 17)
