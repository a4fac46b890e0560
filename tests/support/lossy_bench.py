"""Two NICs, a region of counters, and somebody who interferes with the frames between them."""

from collections.abc import Callable
from typing import Any

from amoeba_model.descriptors import DescriptorFlags, DescriptorOpcode
from amoeba_model.network import SimulatedDevice
from amoeba_model.opcodes import Datatype, Op
from amoeba_model.registers import Counter
from amoeba_model.wire.codec import DecodedFrame, FrameHeader, decode, encode
from amoeba_model.wire.uet import ReturnCode

from tests.support.raw_driver import Pair
from tests.support.saboteur import Saboteur

__all__ = ["FIRST_PSN", "SIZE", "TIMEOUT", "Bench", "answer", "request"]

SIZE = 4096
TIMEOUT = 2000
FIRST_PSN = 0x1000
INLINE = DescriptorFlags.COMPLETION | DescriptorFlags.INLINE
OK = ReturnCode.OK


class Bench:
    """Two models with a region of counters between them, and whoever interferes on either side's way out."""

    def __init__(self, pair: Pair, timeout: int = TIMEOUT, limit: int = 3) -> None:
        self.pair = pair
        self.region = pair.memory(SIZE)
        self.result = pair.initiator.buffer(SIZE, fill=0xEE)
        pair.initiator.set("device", retransmit_timeout=timeout, retransmit_limit=limit)
        assert isinstance(pair.initiator.device, SimulatedDevice)
        assert isinstance(pair.target.device, SimulatedDevice)
        self.requests, self.answers = Saboteur(pair.initiator.device), Saboteur(pair.target.device)
        pair.network.recording = True

    def add(self, **fields: int) -> dict[str, int]:
        """Fields of a fetching addition of 1 to the first counter."""
        return {
            "opcode": DescriptorOpcode.FETCH_ATOMIC, "op": Op.FI_SUM, "datatype": Datatype.FI_UINT64, "flags": INLINE,
            "length": 8, "local": 1, "result": self.result.address, "remote_address": self.region.address,
            "remote_key": Pair.KEY, **fields,
        }  # fmt: skip

    def write(self, value: int, place: int = 8, **fields: int) -> dict[str, int]:
        """Fields of a WRITE of 8 bytes."""
        return {
            "opcode": DescriptorOpcode.WRITE, "flags": INLINE, "length": 8, "local": value,
            "remote_address": self.region.address + place, "remote_key": Pair.KEY, **fields,
        }  # fmt: skip

    def post(self, *descriptors: dict[str, int]) -> None:
        """Post all of them with one doorbell."""
        for context, fields in enumerate(descriptors):
            self.pair.local.put(**{"context": context, **fields})
        self.pair.local.ring()

    def statuses(self, count: int) -> list[int]:
        """Of the next completions, which come in the order of their descriptors."""
        entries = [self.pair.local.completion() for _ in range(count)]
        assert [entry["context"] for entry in entries] == list(range(count))
        return [entry["status"] for entry in entries]

    def add_three(self) -> list[int]:
        """Status of three additions at once, whose results have to be 0, 1 and 2."""
        self.post(*(self.add(result=self.result.address + 8 * number) for number in range(3)))
        statuses = self.statuses(3)
        assert [self.result.integer(8 * number) for number in range(3)] == [0, 1, 2]
        assert self.region.integer(0) == 3
        return statuses

    def here(self, counter: Counter) -> int:
        return self.pair.initiator.counter(counter)

    def there(self, counter: Counter) -> int:
        return self.pair.target.counter(counter)

    def frames(self) -> list[FrameHeader]:
        """All that arrived, in order."""
        decoded = [decode(frame.data) for _, frame in self.pair.network.log]
        return [frame.header for frame in decoded if isinstance(frame, DecodedFrame)]

    def say(self, **fields: Any) -> None:
        """Let a hand-made answer reach the initiator now, as if from the target: to the first packet or ``psn``."""
        psn = fields.get("psn", FIRST_PSN)
        header = FrameHeader(**{
            "mac": self.pair.initiator.mac, "ip": self.pair.initiator.ip, "is_request": False, "psn": psn,
            "cack_psn": FIRST_PSN - 1, "opcode": 1, "return_code": OK, "message_id": (psn - FIRST_PSN) & 0xFFFF,
            "job_id": self.pair.remote.job_id, **fields,
        })  # fmt: skip
        target = self.pair.target
        frame = encode(header, b"", target.mac, fields.get("ip", target.ip), peers=target.parameters.peers)
        self.pair.initiator.device.deliver(frame, 0)  # type: ignore[attr-defined]
        self.pair.run(1)

    def cut_off(self) -> None:
        """Nothing reaches the target from now on."""
        self.requests.fate = lambda frame: []

    def sent(self, count: int) -> None:
        """Let time pass until the initiator has sent that many frames."""
        for _ in range(100):
            if self.here(Counter.REQUESTS_SENT) >= count:
                self.pair.run(3)
                return
            self.pair.run(1)
        raise AssertionError(f"expected {count} frames, {self.here(Counter.REQUESTS_SENT)} were sent")


def request(number: int) -> Callable[[FrameHeader], bool]:
    """Whether a frame is that packet of the first PDC."""
    return lambda header: header.is_request and header.psn == FIRST_PSN + number


def answer(number: int) -> Callable[[FrameHeader], bool]:
    """Whether a frame acknowledges that packet."""
    return lambda header: not header.is_request and not header.is_control and header.psn == FIRST_PSN + number
