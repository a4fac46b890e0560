"""The NIC of the process: C's calls that open a fabric or a context name no device.

The first user opens the NIC. The NIC is closed after its last release, or when the process ends. All libraries of the
process share it. The NIC reaches those of other processes by their addresses, which follow from an IPv4 address of
their host and a UDP port.

======================  ==========================================================================
``AMOEBA_DEVICE``       ``model`` (the default), ``rtl``, ``rtl+pcie`` or ``pcie:0000:01:00.0``
``AMOEBA_HOST``         the address of this host at which others reach the NIC, ``127.0.0.1``
``AMOEBA_NETWORK``      what joins it with others: :mod:`amoeba.devices.linked`
``AMOEBA_PORT``         its UDP port; 0, the default: a free one, or the UET port 4793
``AMOEBA_CONTEXTS``     endpoint contexts of a simulated NIC, 1 to 32; the default is 8
``AMOEBA_COUNT_FOLDER`` a folder for the process' counts: :mod:`amoeba.embed.counts`
======================  ==========================================================================
"""

import contextlib
import os
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Self

from amoeba_model.device import DeviceError
from amoeba_model.forking import own
from amoeba_model.link_addresses import mac_of_link
from amoeba_model.parameters import NicParameters

from amoeba.core.errno import Errno
from amoeba.core.errors import fabric_error
from amoeba.core.waiting import readable_within
from amoeba.devices.devices import SIMULATED_KINDS, default_parameters
from amoeba.devices.linked import open_linked, own_host
from amoeba.embed.counts import NicCounts, process_counts
from amoeba.embed.ending import at_end
from amoeba.embed.fair_lock import FAIR_LOCK
from amoeba.embed.progress_thread import ProgressThread
from amoeba.nic.nic import Nic

__all__ = ["ProcessNic", "contexts_setting", "process_nic", "process_nic_settings"]

_AUTOMATIC = 0
"""Stands for automatic progress among threads."""
_LAST_MOMENT = 0.2
"""Seconds for the NIC's outstanding work when it is closed."""
_LONGEST = 0.05
"""Seconds of one rest: signal handlers and other threads run at least that often."""
_LOOK = 0.05
"""Seconds between reads of the number of answered requests."""

def process_nic_settings(environment: Mapping[str, str] = os.environ) -> tuple[str, str, int]:
    """Return kind, host and port from the environment. Raises FI_EINVAL for an invalid host or port."""
    kind = environment.get("AMOEBA_DEVICE") or "model"
    host = own_host(environment=environment)
    port = environment.get("AMOEBA_PORT") or "0"
    if not port.isdecimal() or int(port) >= 1 << 16:
        raise fabric_error(Errno.FI_EINVAL, f"AMOEBA_PORT: expected a port of 0 to 65535, got {port!r}")
    return kind, host, int(port)


def contexts_setting(kind: str) -> NicParameters | None:
    """Return the parameters of the default build with ``AMOEBA_CONTEXTS`` contexts; None: the variable is not set.

    Raises FI_EINVAL for an impossible number, and for a NIC that is no simulation.
    """
    wanted = os.environ.get("AMOEBA_CONTEXTS")
    if not wanted:
        return None
    if not (wanted.isascii() and wanted.isdecimal()):
        raise fabric_error(Errno.FI_EINVAL, f"AMOEBA_CONTEXTS: expected a number, got {wanted[:40]!r}")
    if kind not in SIMULATED_KINDS:
        raise fabric_error(Errno.FI_EINVAL, f"AMOEBA_CONTEXTS: the number of contexts of {kind} cannot be set")
    try:
        return replace(default_parameters(), contexts=int(wanted))
    except ValueError as error:
        raise fabric_error(Errno.FI_EINVAL, f"AMOEBA_CONTEXTS: {error}") from error


class ProcessNic:
    """One use of the NIC of the process, from :func:`process_nic`."""

    def __init__(self, kind: str, host: str, port: int) -> None:
        linked = self._linked = open_linked(kind, host, port, contexts_setting(kind))
        self.device, self.network = linked
        try:
            self.nic = Nic(self.device)
            linked.name(self.nic)
            counts = process_counts()
            self._counts = None if counts is None else NicCounts(counts, self.nic, kind)
            self._next_look = 0.0
            self._attended = False
            self.link: tuple[str, int] = self.network.address
            """Address at which others reach the NIC: IPv4 address and UDP port."""
        except BaseException:
            linked.close()
            raise
        self.kind = kind
        self._uses = 0
        self._progress_thread = ProgressThread(self.network, self._look) if self.network.devices else None
        own(self)

    @property
    def closed(self) -> bool:
        return not self._uses

    def use(self) -> Self:
        """Add one use."""
        self._uses += 1
        return self

    def release(self) -> None:
        """End one use; after the last one the NIC is closed, and the next user opens another.

        The NIC is closed under the lock, so that the progress thread does not run it meanwhile.
        """
        with FAIR_LOCK:
            self._uses -= 1
            if not self._uses:
                self.close()

    def close(self) -> None:
        """Close the NIC, whatever its uses. Idempotent."""
        self._uses = 0
        _open[:] = [each for each in _open if each is not self]
        self._finish()
        self._look(at_once=True)
        self.nic.close()
        self.network.close()
        if self._progress_thread is not None:
            self._progress_thread.join()

    def _finish(self) -> None:
        """Let the NIC finish its work: otherwise a peer's last message gets no answer, though it was read."""
        deadline = time.monotonic() + _LAST_MOMENT
        with contextlib.suppress(DeviceError, OSError):
            while self.network.devices and not self.network.patience and time.monotonic() < deadline:
                self.network.step(at_once=True)

    def _look(self, *, at_once: bool = False) -> None:
        """Count the requests of peers, now and then unless ``at_once``, under the lock.

        With automatic progress only ``at_once``: the lock does not keep the progress thread from the NIC.
        """
        if self._counts is None or not (at_once or (not self._attended and time.monotonic() >= self._next_look)):
            return
        self._next_look = time.monotonic() + _LOOK
        with contextlib.suppress(DeviceError):  # closed meanwhile, or gone
            self._counts.look()

    def move(self, port: int) -> None:
        """Move the NIC to this port, as long as no peer can know its address: no context is in use.

        Does nothing if the NIC is there already. Raises FI_EADDRINUSE if a peer may know the address, DeviceError if
        the port cannot be had.
        """
        if port == self.link[1]:
            return
        contexts = self.nic.contexts
        contexts.reclaim()
        if len(contexts.free) < self.nic.parameters.contexts or not self.network.devices:
            raise fabric_error(
                Errno.FI_EADDRINUSE, f"the NIC of the process is reached at port {self.link[1]}, not at {port}"
            )
        self.network.move(port)
        for device in self.network.devices:
            self.network.detach(device)
            self.network.attach(device, mac_of_link(*self.network.address))
        self._linked.name(self.nic)
        self.link = self.network.address

    def _rest(self, longest: float) -> None:
        """Sleep, and run the NIC afterwards; keeps the progress thread away meanwhile."""
        others = set() if self._progress_thread is None else self._progress_thread.others
        thread = threading.get_ident()
        others.add(thread)
        try:
            self.network.rest(longest)
        finally:
            others.discard(thread)

    def attend(self) -> None:
        """Leave the NIC to automatic progress from now on."""
        self._attended = True
        if self._progress_thread is not None:
            self._progress_thread.others.add(_AUTOMATIC)

    def step(self) -> None:
        """Let a little time pass on the NIC, without a sleep before."""
        if self.network.devices:
            self.network.step(at_once=True)
        self._look()

    def rest(self, timeout: float | None = None) -> None:
        """Sleep until there may be work, at most ``timeout`` seconds: the ``rest`` of :func:`wait_until`.

        Does not sleep while work is outstanding here; a frame, or an interrupt, ends the sleep.
        """
        longest = _LONGEST if timeout is None else min(timeout, _LONGEST)
        if self.network.devices:
            self._rest(longest)
        else:
            readable_within([self.device], longest)
        self._look()

    def forked(self) -> None:
        """Forget the NIC in a child process, which opens its own."""
        self._uses = 0
        self._counts = None
        _open[:] = [each for each in _open if each is not self]


_open: list[ProcessNic] = []
"""The NIC of the process, while it is in use."""
_ends: list[int] = []
"""The process for which :func:`at_end` was called."""


def process_nic(port: int | None = None) -> ProcessNic:
    """Return the NIC of the process, opened if necessary; :meth:`ProcessNic.release` ends the use.

    ``port``: UDP port of the NIC, instead of ``AMOEBA_PORT``.

    Raises what :func:`amoeba.open_device` raises, and DeviceError if the NIC cannot listen at its address. Raises
    FI_EINVAL for an invalid environment, and FI_EADDRINUSE if the NIC is open at another port than ``port``.
    """
    if not _open:
        kind, host, configured = process_nic_settings()
        _open.append(ProcessNic(kind, host, configured if port is None else port))
        if os.getpid() not in _ends:
            _ends[:] = [os.getpid()]
            at_end(_close)
    (found,) = _open
    if port and port != found.link[1]:
        raise fabric_error(
            Errno.FI_EADDRINUSE, f"the NIC of the process is reached at port {found.link[1]}, not at {port}"
        )
    return found.use()


def _close() -> None:
    for each in list(_open):
        each.close()
