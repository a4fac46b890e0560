"""NICs that run by themselves, as boards do: model NICs that a thread of their own keeps going."""

import contextlib
import select
import threading
import time
from collections.abc import Iterator

from amoeba_model.device import Device, DmaFault
from amoeba_model.network import Network
from amoeba_model.nic.device import ModelDevice

__all__ = ["Board", "boards"]

_PACE = 2e-4
"""Seconds between steps of the network, which leave the others time."""


class Board(Device):
    """A NIC that nobody steps: its time passes whatever is called, and it tells of interrupts by its descriptor."""

    def __init__(self, nic: ModelDevice, running: threading.Lock) -> None:
        self._nic = nic
        self._running = running

    @property
    def name(self) -> str:
        return "board"

    @property
    def cycles(self) -> int:
        with self._running:
            return self._nic.cycles

    def read(self, offset: int) -> int:
        with self._running:
            return self._nic.read(offset)

    def write(self, offset: int, value: int) -> None:
        with self._running:
            self._nic.write(offset, value)

    def grant(
        self,
        iova: int,
        length: int,
        *,
        writable: bool = True,
        host_address: int | None = None,
        context: int | None = None,
    ) -> None:
        with self._running:
            self._nic.grant(iova, length, writable=writable, host_address=host_address, context=context)

    def revoke(self, iova: int, length: int, *, context: int | None = None) -> None:
        with self._running:
            self._nic.revoke(iova, length, context=context)

    @property
    def isolates_contexts(self) -> bool:
        return self._nic.isolates_contexts

    def advance(self) -> None:
        time.sleep(_PACE)  # nothing: it runs

    def wait(self, timeout: float) -> int:
        select.select([self], [], [], timeout)
        with self._running:
            return self._nic._report_interrupts()

    def fileno(self) -> int:
        with self._running:
            return self._nic.fileno()

    def faults(self) -> list[DmaFault]:
        with self._running:
            return self._nic.faults()

    def close(self) -> None:
        with self._running:
            self._nic.close()


@contextlib.contextmanager
def boards(count: int = 2) -> Iterator[list[Board]]:
    """Boards on one network, number n with the MAC address 02:00:00:00:00:n, from 1 on."""
    network, running, over = Network(), threading.Lock(), threading.Event()
    nics = [ModelDevice() for _ in range(count)]
    for number, nic in enumerate(nics, 1):
        network.attach(nic, bytes([2, 0, 0, 0, 0, number]))

    def run() -> None:
        while not over.wait(_PACE):
            with running:
                network.step()

    thread = threading.Thread(target=run, name="boards", daemon=True)
    thread.start()
    try:
        yield [Board(nic, running) for nic in nics]
    finally:
        over.set()
        thread.join()
        for nic in nics:
            nic.close()
