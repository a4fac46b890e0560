"""The faults of networks: frames are lost, repeated, delayed and damaged."""

import random
from collections.abc import Callable, Iterable

from amoeba_model.frames import Frame
from amoeba_model.network import SimulatedDevice
from amoeba_model.wire.codec import DecodedFrame, FrameHeader, decode

__all__ = ["Fate", "Saboteur", "arrives", "chance", "losing"]

Fate = Callable[[bytes], Iterable[tuple[int, bytes]]]
"""The fate of a frame: the frames that arrive instead, and how many steps of the network later."""


def arrives(frame: bytes) -> list[tuple[int, bytes]]:
    """Nothing happens to it."""
    return [(0, frame)]


class Saboteur:
    """Stands between a NIC and its network and lets every frame that leaves have its :attr:`fate`."""

    def __init__(self, device: SimulatedDevice, fate: Fate = arrives) -> None:
        self.fate = fate
        self._device = device
        self._take_frames = device.take_frames
        self._late: list[tuple[int, bytes]] = []
        device.take_frames = self._take  # type: ignore[method-assign]

    def _take(self) -> list[Frame]:
        late, self._late = self._late, []
        leaving = []
        for steps, data in late:
            if steps:
                self._late.append((steps - 1, data))
            else:
                leaving.append(Frame(self._device.cycles, data))
        for frame in self._take_frames():
            for steps, data in self.fate(frame.data):
                if steps:
                    self._late.append((steps - 1, data))
                else:
                    leaving.append(Frame(frame.cycle, data))
        return leaving


def losing(condition: Callable[[FrameHeader], bool], count: int = 1) -> Fate:
    """The first ``count`` frames that fulfil the condition are lost."""
    lost = 0

    def fate(frame: bytes) -> list[tuple[int, bytes]]:
        nonlocal lost
        decoded = decode(frame)
        assert isinstance(decoded, DecodedFrame)
        if lost < count and condition(decoded.header):
            lost += 1
            return []
        return arrives(frame)

    return fate


def chance(generator: random.Random, evil: float) -> Fate:
    """Each frame is lost, repeated, delayed and damaged with probability ``evil`` each."""

    def fate(frame: bytes) -> list[tuple[int, bytes]]:
        copies = 1 + (generator.random() < evil)
        fates = []
        for _ in range(copies):
            if generator.random() < evil:
                continue
            steps = generator.randrange(1, 12) if generator.random() < evil else 0
            data = frame
            if generator.random() < evil:
                place = generator.randrange(42, len(frame))  # behind the headers without a checksum of their own
                data = frame[:place] + bytes([frame[place] ^ generator.randrange(1, 256)]) + frame[place + 1 :]
            fates.append((steps, data))
        return fates

    return fate
