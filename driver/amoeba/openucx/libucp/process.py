"""State that all contexts of the process share: its NIC, as an adapter of the driver's."""

from amoeba.embed import ProcessNic, process_nic
from amoeba.openucx.ucp.adapter import Adapter, Adapters
from amoeba.transport.transmit_rings import TransmitRings

__all__ = ["Process"]

_MAX_STEPS = 64
"""Maximum number of steps of a posting call before it returns."""


class Process:
    """One adapter for all contexts of a program, open while one of them is."""

    def __init__(self) -> None:
        self._mine: ProcessNic | None = None
        self._adapters: Adapters | None = None
        self._uses = 0

    @property
    def nic(self) -> ProcessNic:
        """The NIC, while there is a context."""
        assert self._mine is not None
        return self._mine

    def use(self) -> Adapter:
        """Add one use of the adapter, which :meth:`drop` ends. Raises what :func:`process_nic` raises."""
        adapters = self._adapters
        if adapters is None or adapters.closed:  # closed: this is a child of the process that opened it
            self._mine = process_nic()
            try:
                adapters = self._adapters = Adapters([self._mine.nic], self._mine.network)
            except BaseException:
                self._mine.release()
                raise
            self._uses = 0
        self._uses += 1
        found: Adapter = adapters[0]
        return found

    def send_off(self, rings: TransmitRings) -> None:
        """Let a NIC send a just posted operation, as hardware would whatever the program does next.

        Called only if no other operation is outstanding. The next call of progress would do the same work, so the
        call costs nothing.
        """
        network = self.nic.network
        if not network.devices:
            return
        rings.announce()
        for _ in range(_MAX_STEPS):
            network.step(at_once=True)
            if network.patience:
                return

    def drop(self) -> None:
        """End one use; the last one releases the NIC."""
        self._uses -= 1
        if self._uses or self._adapters is None or self._mine is None:
            return
        adapters, mine, self._adapters, self._mine = self._adapters, self._mine, None, None
        try:
            if not adapters.closed:
                adapters.close()
        finally:
            if not mine.closed:
                mine.release()
