"""The pairs that the checks run on: one per kind of device and of link, shared by all of them."""

import contextlib

from amoeba import Progress, Retransmission
from amoeba_model.impairments import PERFECT, Impairments
from amoeba_tools.conformance import Pair, open_pair

__all__ = ["AUTOMATIC", "AUTOMATIC_RTL", "PAIRS", "SharedPair"]

LOSSY = Impairments(seed=1, loss=0.01)
SOON = Retransmission(timeout=6000)
"""Several round trips of the RTL, so that what is lost costs few simulated cycles."""
AUTOMATIC = "model,model with automatic progress"
AUTOMATIC_RTL = "rtl,rtl with automatic progress"
"""For some of the checks."""
PAIRS = {
    "model,model": PERFECT,
    "model,rtl": PERFECT,
    "rtl,rtl": PERFECT,
    "model,model with loss": LOSSY,
    "rtl,rtl with loss": LOSSY,
    AUTOMATIC: PERFECT,
}


class SharedPair:
    """A pair that is opened when it is asked for, and again after it has been spoiled."""

    def __init__(self, name: str) -> None:
        self._kinds = name.split()[0].split(",")
        self._links = PAIRS.get(name, PERFECT)
        self._progress = (
            Progress.FI_PROGRESS_AUTO if name in (AUTOMATIC, AUTOMATIC_RTL) else Progress.FI_PROGRESS_MANUAL
        )
        self._exits = contextlib.ExitStack()
        self._pair: Pair | None = None

    def get(self) -> Pair:
        if self._pair is None:
            self._pair = self._exits.enter_context(
                open_pair(
                    self._kinds,
                    impairments=self._links,
                    retransmission=SOON,
                    rtl_options={"host_latency": 40},
                    progress=self._progress,
                )
            )
        return self._pair

    def spoil(self) -> None:
        self._pair = None
        self._exits.close()

    def close(self) -> list[str]:
        """The accesses of devices to memory that they were not granted."""
        faults: list[str] = []
        if self._pair is not None:
            fabric = self._pair.fabric
            with fabric.frozen():
                faults += [str(fault) for device in fabric.devices for fault in device.faults()]
        self.spoil()
        return faults
