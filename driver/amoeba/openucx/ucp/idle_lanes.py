"""Idle lanes release their entries of the peer table, and their PDCs at the target, to other lanes.

A NIC has fewer entries than a worker may have lanes, and each open lane takes one of the target's packet delivery
contexts, too. So an idle lane stays open only while entries are free. Without a free entry, the worker closes the
lane that was idle for longest, and opens it again when it is used. A closed lane has no outstanding operation, so its
order does not change.
"""

from collections import Counter
from typing import Protocol

from amoeba.core.errno import Errno
from amoeba.core.errors import fabric_error
from amoeba.nic.address import EndpointAddress
from amoeba.nic.nic import Nic
from amoeba.transport.peers import PeerMap

__all__ = ["IdleLanes", "OpenLane", "Shortage"]

_SPARE = 4
"""Entries of the peer table that lanes leave to peers that are read from without an endpoint."""


class OpenLane(Protocol):
    """The parts of a lane that this module uses."""

    noted: int

    @property
    def number(self) -> int: ...

    @property
    def address(self) -> EndpointAddress | None: ...

    @property
    def posted(self) -> int: ...

    @property
    def idle(self) -> bool: ...


class Shortage:
    """The lanes that wait for entries of one NIC's peer table, of all its workers."""

    def __init__(self) -> None:
        self.waiting: set[OpenLane] = set()


class IdleLanes:
    """The open lanes of one worker, through ``peers`` of its rings."""

    def __init__(self, nic: Nic, peers: PeerMap, shortage: Shortage) -> None:
        self._nic = nic
        self._peers = peers
        self._shortage = shortage
        self._open: dict[OpenLane, None] = {}
        """Oldest first, as of the latest look."""
        self._by_target: Counter[int] = Counter()
        """Entries in use by the target's IPv4 address, also while they are being closed."""
        self._closing: Counter[int] = Counter()
        """The entries of ``_by_target`` that are being closed."""
        self._waiting: dict[OpenLane, int] = {}
        """Lanes that could not be opened, with their targets."""
        self._wanted: Counter[int] = Counter()
        """Number of waiting lanes by target."""
        self._most_per_target = max(nic.parameters.target_pdcs // 2, 3)
        """Half of the target's PDCs, because others have PDCs there, too; the target is assumed to equal this NIC."""

    def open(self, lane: OpenLane) -> None:
        """Open an entry for a lane.

        Raises FI_ENOSPC if no entry is free now, FI_EAGAIN if the lane's address is unknown; the caller tries again
        later.
        """
        if lane.address is None:
            raise fabric_error(Errno.FI_EAGAIN, "the endpoint is not connected yet")
        target = lane.address.ip
        crowded = self._by_target[target] >= self._most_per_target
        if crowded or self._peers.space <= min(_SPARE, self._nic.parameters.peers // 4):
            if lane not in self._waiting:
                self._waiting[lane] = target
                self._wanted[target] += 1
                self._shortage.waiting.add(lane)
            wanted = self._wanted[target] if crowded else len(self._waiting)
            closing = self._closing[target] if crowded else self._closing.total()
            if closing < wanted:
                self._close_oldest(target if crowded else None)
            raise fabric_error(Errno.FI_ENOSPC, "no entry of the peer table is free until an idle lane is closed")
        self._look()
        self._peers.add(lane.number, lane.address)
        self.forget(lane)
        self._by_target[target] += 1
        lane.noted = lane.posted
        self._open[lane] = None

    def close(self, lane: OpenLane) -> None:
        """Release the entry of a lane that is idle or has failed, when everything before has been answered."""
        self.forget(lane)
        if lane not in self._open:
            return
        del self._open[lane]
        assert lane.address is not None
        target = lane.address.ip
        self._closing[target] += 1

        def closed() -> None:
            self._closing[target] -= 1
            self._by_target[target] -= 1

        self._peers.forget(lane.number, closed)

    def forget(self, lane: OpenLane) -> None:
        """Stop waiting for an entry for a lane."""
        target = self._waiting.pop(lane, None)
        if target is not None:
            self._wanted[target] -= 1
            self._shortage.waiting.discard(lane)

    def release(self) -> None:
        """Stop waiting for entries: the worker is closed."""
        for lane in list(self._waiting):
            self.forget(lane)

    def help(self) -> int:
        """Close a lane if other workers on the NIC need entries; return how many were closed."""
        others = len(self._shortage.waiting) - len(self._waiting)
        return self._close_oldest(None) if others > self._closing.total() else 0

    def _close_oldest(self, target: int | None) -> int:
        """Close the lane that was idle for longest, to this target if one is named; return how many were closed."""
        self._look()
        for lane in self._open:
            assert lane.address is not None
            if lane.idle and target in (None, lane.address.ip):
                self.close(lane)
                return 1
        return 0

    def _look(self) -> None:
        """Move lanes that were used since the latest look behind the others. Lanes do not report each use."""
        for lane in [lane for lane in self._open if lane.noted != lane.posted]:
            lane.noted = lane.posted
            del self._open[lane]
            self._open[lane] = None
