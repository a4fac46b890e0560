"""Running a simulated NIC while the program does something else: hardware needs no calls to answer its peers."""

import contextlib
import select
import threading
import time
from collections.abc import Callable

from amoeba_model.device import DeviceError
from amoeba_model.udp_network import UdpNetwork

from amoeba.embed.turns import TURNS

__all__ = ["Caretaker"]

_ABSENCE = 0.005
"""Seconds without a step after which nobody else is taken to run the NIC."""
_GLANCE = 0.05
"""Seconds of the longest sleep: then time passes for the NIC, and peers are asked for signs of life."""
_LAST_MOMENT = 1.0
"""Seconds of the longest wait for its end."""
_ROUND = 64
"""Most steps before others get their turn."""


class Caretaker:
    """A thread that lets time pass on a network while nobody makes calls that do.

    So what peers ask of the NIC is answered though the program computes, sleeps, or waits for something else. What
    the driver does, such as reading long messages, still takes a call: that is the program's part of manual progress.

    ``after`` is called in each turn, behind the network's steps.
    """

    def __init__(self, network: UdpNetwork, after: Callable[[], object]) -> None:
        self._network = network
        self._after = after
        self.others: set[int] = set()
        """For whom it stays away: threads that sleep until the network has something, and 0 for what runs it all."""
        self._thread = threading.Thread(target=self._run, name="amoeba caretaker", daemon=True)
        self._thread.start()

    def join(self) -> None:
        """Wait for its end, which the network's is."""
        self._thread.join(_LAST_MOMENT)

    def _run(self) -> None:
        with contextlib.suppress(DeviceError, OSError, ValueError):  # the network is closed
            while True:
                absent = time.monotonic() - self._network.stepped_at
                if self.others or absent < _ABSENCE:
                    time.sleep(_ABSENCE if self.others else _ABSENCE - absent)
                    self._network.address  # noqa: B018  raises once it is closed
                    continue
                outside = self._network.outside
                if self._network.patience and outside is not None:
                    select.select([outside], [], [], _GLANCE)
                if not self._take_turn():
                    time.sleep(_ABSENCE)

    def _take_turn(self) -> bool:
        """Run the NIC until it only waits; False if somebody else is in a call."""
        if not TURNS.enter_now():
            return False
        try:
            if self.others:
                return False
            for _ in range(_ROUND):
                self._network.step(at_once=True)
                if self._network.patience:
                    break
            self._after()
        finally:
            TURNS.__exit__()
        return True
