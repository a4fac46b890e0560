"""The progress thread: runs a simulated NIC while the program computes, as hardware runs by itself."""

import threading
import time
from collections.abc import Callable

from amoeba_model.outside_network import OutsideNetwork

from amoeba.core.log import logger
from amoeba.core.waiting import readable_within
from amoeba.embed.fair_lock import FAIR_LOCK

__all__ = ["ProgressThread"]

_log = logger("progress")

_ABSENCE = 0.005
"""Seconds without a step after which the NIC is taken to be idle."""
_GLANCE = 0.05
"""Seconds of the longest sleep: then time passes for the NIC, and peers are asked for signs of life."""
_LAST_MOMENT = 1.0
"""Seconds of the longest wait for the thread's end."""
_ROUND = 64
"""Maximum number of steps before other calls proceed."""
_MAX_TOLD = 64
"""Maximum number of different errors that are logged."""


class ProgressThread:
    """The progress thread, which lets time pass on a network while no call does.

    The NIC then answers its peers though the program computes, sleeps, or waits for something else. The driver's own
    work, such as reading long messages, still takes a call: that is the program's part of manual progress.

    The thread calls ``after`` in each round, behind the network's steps, and ends with the network. Any other error
    is logged once, and the NIC continues to answer.
    """

    def __init__(self, network: OutsideNetwork, after: Callable[[], object]) -> None:
        self._network = network
        self._after = after
        self.others: set[int] = set()
        """Users that keep the thread away: threads that sleep on the network, and 0 for automatic progress."""
        self._thread = threading.Thread(target=self._run, name="amoeba progress", daemon=True)
        self._thread.start()

    def join(self) -> None:
        """Wait for the end of the thread, which ends with the network."""
        self._thread.join(_LAST_MOMENT)

    def _run(self) -> None:
        told: set[str] = set()
        while not self._network.closed:
            try:
                self._go_on()
            except Exception as error:  # any: peers wait for the NIC
                if self._network.closed:
                    return
                if repr(error) not in told and len(told) < _MAX_TOLD:
                    told.add(repr(error))
                    _log.error("the NIC could not run, and is tried again: %r", error, exc_info=error)
                time.sleep(_GLANCE)

    def _go_on(self) -> None:
        """Wait until the NIC has work, and run it unless another thread does."""
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
        """Run the NIC until it only waits; return False if another thread is in a call."""
        if not FAIR_LOCK.enter_now():
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
            FAIR_LOCK.__exit__()
        return True
