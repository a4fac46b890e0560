"""An initiator that is no NIC: it says to a target exactly what a test wants, right or wrong."""

from dataclasses import dataclass, field, replace
from typing import Any

from amoeba_model.network import SimulatedDevice
from amoeba_model.wire.codec import NO_PDC, DecodedFrame, FrameHeader, decode, encode
from amoeba_model.wire.uet import RequestOpcode, SesFlags

from tests.support.raw_driver import Pair, RawContext

__all__ = ["Stranger"]

_STEPS = 20
"""Of the network: longer than any request takes."""
WHOLE = SesFlags.START_OF_MESSAGE | SesFlags.END_OF_MESSAGE


@dataclass
class Stranger:
    """Sends hand-made frames to the target of a pair, and picks its answers off the network."""

    pair: Pair
    mac: int = 0x0200_0000_00AA
    ip: int = 0x0A00_00AA
    spdcid: int = 7
    psn: int = 500
    first_psn: int = 500
    _seen: int = field(default=0, repr=False)

    def __post_init__(self) -> None:
        self.pair.network.recording = True

    @property
    def device(self) -> SimulatedDevice:
        device = self.pair.target.device
        assert isinstance(device, SimulatedDevice)
        return device

    def header(self, context: RawContext | None = None, **fields: Any) -> FrameHeader:
        """A good WRITE of 0 bytes, save for the ``fields`` given; the next psn of an open PDC."""
        context = context or self.pair.remote
        values: dict[str, Any] = {
            "mac": self.pair.target.mac,
            "ip": self.pair.target.ip,
            "port": 0xC123,
            "psn": self.psn,
            "clear_psn_offset": 0xFFFF,  # everything before has been answered
            "spdcid": self.spdcid,
            "syn": True,
            "dpdcid": self.psn - self.first_psn,
            "opcode": RequestOpcode.WRITE,
            "flags": WHOLE,
            "message_id": self.psn & 0xFFFF,
            "job_id": context.job_id,
            "pid_on_fep": context.pid_on_fep,
            "resource_index": context.number,
            "memory_key": Pair.KEY,
            "header_data": 0,
        }
        return FrameHeader(**{**values, **fields})

    def frame(self, header: FrameHeader, payload: bytes = b"") -> bytes:
        """Encode a frame; its ``dpdcid`` counts from the target's first PDC, as does ``spdcid`` of an answer."""
        if header.is_request and not header.syn:
            header = replace(header, dpdcid=(header.dpdcid + self._peers) & 0xFFFF)
        return encode(header, payload, self.mac, self.ip)

    @property
    def _peers(self) -> int:
        return self.pair.target.parameters.peers

    def send(self, frame: bytes) -> None:
        """Deliver a frame to the target, and let enough time pass for any answer."""
        self._deliver(frame)
        self.pair.run(_STEPS)

    def _deliver(self, frame: bytes) -> None:
        self.pair.target.settle()
        self.device.deliver(frame, 0)

    def close(self, **fields: Any) -> FrameHeader:
        """A CLOSE_COMMAND with the next psn."""
        values: dict[str, Any] = {"is_control": True, "opcode": 0, "flags": 0, "message_id": 0, "job_id": 0,
                                  "pid_on_fep": 0, "resource_index": 0, "memory_key": 0}  # fmt: skip
        return self.header(**{**values, **fields})

    def answers(self) -> list[DecodedFrame]:
        """The frames that the target has sent to this stranger since the last call."""
        log = self.pair.network.log[self._seen :]
        self._seen = len(self.pair.network.log)
        frames = [decode(frame.data) for _, frame in log if frame.data[:6] == self.mac.to_bytes(6, "big")]
        assert all(isinstance(frame, DecodedFrame) for frame in frames)
        answers = [frame for frame in frames if isinstance(frame, DecodedFrame)]
        for answer in answers:
            if answer.header.spdcid != NO_PDC:
                answer.header.spdcid -= self._peers
        return answers

    def ask(self, payload: bytes = b"", **fields: Any) -> DecodedFrame:
        """Send the next packet of the PDC; its only answer. One too many would be found by the next call."""
        self._deliver(self.frame(self.header(**fields), payload))
        self.psn += 1
        for _ in range(_STEPS):
            self.pair.network.step()
            answers = self.answers()
            if answers:
                (answer,) = answers
                return answer
        raise AssertionError(f"no answer in {_STEPS} steps")
