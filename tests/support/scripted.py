"""A device that is no NIC: it sends what a test tells it to, and notes what arrives."""

from collections import deque

from amoeba_model.device import DeviceError, DmaFault
from amoeba_model.frames import Frame
from amoeba_model.network import SimulatedDevice
from amoeba_model.trace import TraceEvent

__all__ = ["ScriptedDevice", "frame_to", "mac_of"]


def mac_of(number: int) -> bytes:
    return bytes([2, 0, 0, 0, 0, number])


def frame_to(number: int, content: bytes = b"") -> bytes:
    """A frame for NIC ``number``, of 14 bytes of header and ``content``."""
    return mac_of(number) + mac_of(0xEE) + b"\x88\xb5" + content


class ScriptedDevice(SimulatedDevice):
    """Sends ``script``, frames by the cycle at which they leave; :attr:`arrived` holds (cycle, frame).

    It insists on what every device may count on: arrivals in order, and none in the past.
    """

    def __init__(self, name: str = "scripted", script: list[tuple[int, bytes]] | None = None) -> None:
        super().__init__()
        self._name = name
        self._script = deque(sorted(script or [], key=lambda entry: entry[0]))
        self._now = 0
        self.arrived: list[tuple[int, bytes]] = []

    def send(self, frame: bytes, cycle: int | None = None) -> None:
        """Let a frame leave at a cycle that has not passed; by default, now."""
        self._script.append((self._now if cycle is None else cycle, frame))

    @property
    def frames(self) -> list[bytes]:
        """The arrived frames, without the cycles."""
        return [frame for _, frame in self.arrived]

    @property
    def name(self) -> str:
        return self._name

    @property
    def cycles(self) -> int:
        return self._now

    def run_until(self, cycle: int) -> None:
        self._now = max(self._now, cycle)

    def take_frames(self) -> list[Frame]:
        taken = []
        while self._script and self._script[0][0] <= self._now:
            taken.append(Frame(*self._script.popleft()))
        return taken

    def deliver(self, frame: bytes, cycle: int) -> None:
        assert frame, "a frame of no bytes"
        assert cycle >= self._now, f"a frame for cycle {cycle}, when it is {self._now}"
        assert not self.arrived or cycle >= self.arrived[-1][0], "a frame that arrives before an earlier one"
        self.arrived.append((cycle, frame))

    def read(self, offset: int) -> int:
        raise DeviceError("a scripted device has no registers")

    def write(self, offset: int, value: int) -> None:
        raise DeviceError("a scripted device has no registers")

    def grant(
        self,
        iova: int,
        length: int,
        *,
        writable: bool = True,
        host_address: int | None = None,
        context: int | None = None,
    ) -> None:
        pass

    def revoke(self, iova: int, length: int, *, context: int | None = None) -> None:
        pass

    def faults(self) -> list[DmaFault]:
        return []

    def take_interrupts(self) -> int:
        return 0

    @property
    def tracing(self) -> bool:
        return False

    @tracing.setter
    def tracing(self, enabled: bool) -> None:
        pass

    def trace_events(self) -> list[TraceEvent]:
        return []
