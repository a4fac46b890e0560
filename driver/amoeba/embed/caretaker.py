"""Running a simulated NIC while the program does something else: hardware needs no calls to answer its peers."""

import threading
import time
from collections.abc import Callable

from amoeba_model.udp_network import UdpNetwork

from amoeba.core.log import logger
from amoeba.core.waiting import readable_within
from amoeba.embed.turns import TURNS

__all__ = ["Caretaker"]

_log = logger("progress")

_ABSENCE = 0.005
"""Seconds without a step after which nobody else is taken to run the NIC."""
_GLANCE = 0.05
"""Seconds of the longest sleep: then time passes for the NIC, and peers are asked for signs of life."""
_LAST_MOMENT = 1.0
"""Seconds of the longest wait for its end."""
_ROUND = 64
"""Most steps before others get their turn."""
_MOST_TOLD = 64
"""Different errors that are logged."""


class Caretaker:
    """A thread that lets time pass on a network while nobody makes calls that do.

    So what peers ask of the NIC is answered though the program computes, sleeps, or waits for something else. What
    the driver does, such as reading long messages, still takes a call: that is the program's part of manual progress.

    The thread calls ``after`` in each turn, behind the network's steps, and ends with the network. Any other error is
    logged once, and the NIC goes on answering.
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
        told: set[str] = set()
        while not self._network.closed:
            try:
                self._go_on()
            except Exception as error:  # whatever it is: peers wait for the NIC
                if self._network.closed:
                    return
                if repr(error) not in told and len(told) < _MOST_TOLD:
                    told.add(repr(error))
                    _log.error("the NIC could not run, and is tried again: %r", error, exc_info=error)
                time.sleep(_GLANCE)

    def _go_on(self) -> None:
        """Wait until it makes sense to run the NIC, and run it unless somebody else does."""
        absent = time.monotonic() - self._network.stepped_at
        if self.others or absent < _ABSENCE:
            time.sleep(_ABSENCE if self.others else _ABSENCE - absent)
            return
        outside = self._network.outside
        if self._network.patience and outside is not None:
            readable_within([outside], _GLANCE)
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
