"""The entries of the NIC's peer table that an endpoint uses for its addresses."""

import dataclasses
import functools
import time
from collections import Counter
from collections.abc import Callable, Container

from amoeba.core.errno import Errno
from amoeba.core.errors import fabric_error
from amoeba.nic.address import EndpointAddress
from amoeba.transport.transmit_rings import DRAIN_ROUNDS, TransmitRings

__all__ = ["PeerMap"]

_NO_STRANGER = -1
"""Strangers have numbers below this."""


class PeerMap:
    """The peers of one endpoint, kept in step with its address vector, and strangers as long as they are met.

    ``initiator``: the context by which peers know the endpoint; not that of ``rings`` if these are not its own.

    An entry is idle until it is used first, then open, and failed from the moment an operation ends because the NIC
    has given the peer up. A failed one is opened anew for the first operation after all others have ended.

    With ``lanes``, a peer has two entries as soon as both messages and other operations go to it, so that unread
    messages block nothing else. There is then no order between the two. Where entries are scarce, a peer keeps one
    for both. Its two entries share their fate: if one fails, so does the other.
    """

    def __init__(self, rings: TransmitRings, initiator: int, *, lanes: bool = False) -> None:
        self._rings = rings
        self._initiator = initiator
        rings.peer_failed = self._fail
        self._entries: dict[int, tuple[int, EndpointAddress]] = {}
        """(entry of the peer table, address) by number in the address vector."""
        self._seconds: dict[int, int] = {}
        """Second entries of those that have two."""
        self._failed: set[int] = set()
        self._closing: set[int] = set()
        """Entries whose peers have been forgotten, and have not answered yet that they know."""
        self._asked: set[int] = set()
        """Entries with a CLOSE on its way that their peers asked for."""
        self.strangers: dict[EndpointAddress, int] = {}
        """Numbers of peers that were met and are not in the address vector, which uses none of these numbers."""
        self.number_bits = 64
        """Bits of a number that say which address of the vector it is; those above choose a receive context of it."""
        self.open: dict[int, int] = {}
        """Entry of the peer table of those that can be sent to at once; the others take a :meth:`find`."""
        self.open_for_messages: dict[int, int] = {} if lanes else self.open
        """The same for messages, and whatever else meets a receive. Without lanes it is :attr:`open` itself."""
        parameters = rings.nic.parameters
        # A second entry takes a second PDC of the peer's NIC, too, where one that finds none is given up in the end.
        # Where many talk to many, each NIC has about as many entries as others have PDCs on it.
        self._plenty = min(parameters.peers, parameters.target_pdcs) // 2

    @property
    def space(self) -> int:
        """Entries of the NIC's peer table that can be had: some are kept for other contexts."""
        return self._rings.nic.peers.space(self._rings.context)

    def add(self, number: int, address: EndpointAddress) -> None:
        """Store an entry for a peer. Raises FI_ENOSPC when the NIC's peer table is full, or kept for others."""
        self._entries[number] = self._open_entry(address), address

    def find(self, number: int, among: dict[int, int] | None = None) -> int:
        """Return the entry of a peer, ready to be used. ``among``: :attr:`open_for_messages`, or else :attr:`open`.

        Raises FI_EINVAL for an unknown peer, and FI_EAGAIN while operations to a failed peer have not ended. Raises
        FI_ENOSPC when the NIC's peer table has no free entry for a receive context that is named for the first time.
        """
        if number not in self._entries:
            self.add(number, self._receive_context(number))
        entry, address = self._entries[number]
        if number in self._failed:
            entries = self._entries_of(number)
            if any(map(self._rings.busy_with, entries)):
                raise fabric_error(
                    Errno.FI_EAGAIN,
                    f"{address} was given up, and operations to it are outstanding: read completions, then repeat",
                )
            for each in entries:
                self._rings.nic.peers.reopen(each, self._rings.context, address, self._initiator)
            self._failed.discard(number)
        if among is None:
            among = self.open
        other = self.open_for_messages if among is self.open else self.open
        if among is not other and other.get(number) == entry:
            entry = self._second(number, entry, address)
        among[number] = entry
        return entry

    def _second(self, number: int, first: int, address: EndpointAddress) -> int:
        """Return another entry of a peer than the one in use, or the one in use if free entries are scarce."""
        entry = self._seconds.get(number)
        if entry is not None:
            return entry
        nic = self._rings.nic
        if nic.parameters.peers - len(nic.peers.free) >= self._plenty or not self.space:
            return first
        self._seconds[number] = entry = self._open_entry(address)
        return entry

    def _open_entry(self, address: EndpointAddress) -> int:
        """Return a new entry for an address."""
        rings = self._rings
        entry = rings.nic.peers.open(rings.context, address, self._initiator)
        if address.foreign:
            rings.close_requests.closers[entry] = self._close_on_request
        return entry

    def _close_entry(self, entry: int) -> None:
        """Release an entry."""
        self._rings.close_requests.closers.pop(entry, None)
        self._rings.nic.peers.close(entry)

    def _close_on_request(self, entry: int) -> bool:
        """Post a CLOSE, if the ring has a free place. The CLOSE leaves behind everything that was posted before.

        The next operation opens a new delivery context.
        """
        if entry in self._asked or not self._rings.has_space():
            return False
        self._asked.add(entry)
        self._rings.post_close(entry, lambda status: self._asked.discard(entry))
        return True

    def _entries_of(self, number: int) -> list[int]:
        """Return the one or two entries of a peer."""
        second = self._seconds.get(number)
        first, _ = self._entries[number]
        return [first] if second is None else [first, second]

    def beside(self, number: int, entry: int) -> int | None:
        """Return the peer's other entry than ``entry``, if the peer has two and both are open."""
        for opened in (self.open, self.open_for_messages):
            other = opened.get(number)
            if other is not None and other != entry:
                return other
        return None

    def meet(self, number: int, address: EndpointAddress) -> int:
        """Return the number by which :meth:`find` knows ``address``.

        An address that is not one of the peer with this ``number`` gets the number of a stranger. Raises FI_ENOSPC
        when the NIC's peer table has no free entry for a stranger.
        """
        if number in self._entries:
            _, known = self._entries[number]
            if (index := address.resource_index - known.resource_index) in range(known.contexts):
                return number | index << self.number_bits
        if address not in self.strangers:
            stranger = min(self.strangers.values(), default=_NO_STRANGER) - 1
            self.add(stranger, address)
            self.strangers[address] = stranger
        return self.strangers[address]

    def part(self, needed: Container[int]) -> None:
        """Close strangers that are not needed any more, as far as there is space to do so; does not wait."""
        for address, stranger in list(self.strangers.items()):
            if stranger not in needed and self._rings.has_space():
                del self.strangers[address]
                self._close([stranger], time.monotonic(), 0)

    def __contains__(self, number: int) -> bool:
        """Whether there is a peer with this number."""
        return number in self._entries

    def forget(self, number: int, gone: Callable[[], None] = lambda: None) -> None:
        """Close a peer without outstanding operations, as :meth:`remove` does, but without waiting for it.

        ``gone`` is called when its entry, or that of a receive context of it, can be used again.
        """
        self._close(self._family(number), time.monotonic(), 0, gone)

    def check(self, number: int) -> None:
        """Raise FI_EINVAL for an unknown peer."""
        if number not in self._entries:
            self._receive_context(number)

    def fail(self, number: int) -> None:
        """Give up a peer now, with its receive contexts.

        Outstanding operations that the peer has not answered yet end as if the peer were gone, and the NIC no longer
        touches their buffers. The first operation after all others have ended opens the peer anew. Raises FI_EINVAL
        for an unknown peer.
        """
        self.check(number)
        for each in self._entries.keys() & {number, *self._family(number)}:
            for entry in self._entries_of(each):
                self._rings.nic.peers.fail(entry)
            self._forget_open(each)
            self._failed.add(each)
            self._rings.peer_failed(each)

    def ping(self, number: int, done: Callable[[int], None], *, more: int = False) -> None:
        """Find out whether a peer's NIC answers, as :meth:`TransmitRings.post_ping` does. One that does not fails.

        Raises what :meth:`find` raises, and FI_EAGAIN if the ring is full.
        """
        self._rings.post_ping(self.find(number), done, number, more=more)

    def _receive_context(self, number: int) -> EndpointAddress:
        """Return the address of one receive context of a scalable endpoint.

        Raises FI_EINVAL if the endpoint is unknown, or has no such receive context.
        """
        index, base = number >> self.number_bits, number & (1 << self.number_bits) - 1
        if index < 1 or base not in self._entries:
            raise fabric_error(Errno.FI_EINVAL, f"the address vector has no address {number}")
        _, address = self._entries[base]
        if index >= address.contexts:
            raise fabric_error(Errno.FI_EINVAL, f"{address} has no receive context {index}")
        return dataclasses.replace(address, resource_index=address.resource_index + index, contexts=1)

    def _family(self, number: int) -> list[int]:
        """Numbers of a peer and of its receive contexts that have entries of their own."""
        return [each for each in self._entries if each & (1 << self.number_bits) - 1 == number]

    def _fail(self, number: int) -> None:
        opened = self._forget_open(number)
        if opened:
            self._failed.add(number)
        if len(opened) > 1:
            for entry in opened:
                self._rings.nic.peers.fail(entry)

    def _forget_open(self, number: int) -> set[int]:
        """Let nothing be sent to a peer at once any more; returns the peer's entries that were open."""
        each = self.open.pop(number, None), self.open_for_messages.pop(number, None)
        return {entry for entry in each if entry is not None}

    def busy(self, number: int) -> bool:
        """Return whether operations to this peer, or to a receive context of it, are outstanding."""
        family = self._family(number)
        entries = [entry for each in family for entry in self._entries_of(each)]
        return any(self._rings.busy_with(entry, besides=entry in self._asked) for entry in entries)

    def remove(self, number: int, deadline: float) -> None:
        """Close a peer without outstanding operations, and release its entry."""
        self._close(self._family(number), deadline, DRAIN_ROUNDS)

    def clear(self, deadline: float) -> None:
        """Close all peers and strangers, as :meth:`remove` does one."""
        self.strangers.clear()
        self._close(list(self._entries), deadline, DRAIN_ROUNDS)

    def abandon(self) -> list[int]:
        """Forget all peers, and strangers, without waiting for them.

        Returns the entries that are still to be closed, as they may have outstanding operations. Other entries are
        released.
        """
        used = list(self._closing)
        closers = self._rings.close_requests.closers
        for number in self._entries:
            entries = self._entries_of(number)
            opened = self._forget_open(number)
            for entry in entries:
                if entry in opened or self._rings.busy_with(entry):
                    closers.pop(entry, None)
                    used.append(entry)
                else:
                    self._close_entry(entry)
        for forgotten in (self._entries, self._seconds, self._failed, self._closing, self.strangers):
            forgotten.clear()
        return used

    def _close(
        self, numbers: list[int], deadline: float, rounds: int, gone: Callable[[], None] = lambda: None
    ) -> None:
        """Forget peers. Where a delivery context is open at the peer, close that context and wait for the answer.

        The wait ends at ``deadline``, but not before ``rounds`` network latencies. The entry of a peer that does not
        answer by then is released when the NIC has given the peer up.
        """
        rings = self._rings
        waiting: set[int] = set()
        left = Counter[int]()

        def over(number: int, entry: int) -> None:
            self._close_entry(entry)
            left[number] -= 1
            if not left[number]:
                gone()

        def done(number: int, entry: int, status: int) -> None:
            waiting.discard(entry)
            self._closing.discard(entry)
            over(number, entry)

        for number in numbers:
            entries = self._entries_of(number)
            del self._entries[number]
            self._seconds.pop(number, None)
            self._failed.discard(number)
            opened = self._forget_open(number)
            left[number] = len(entries)
            for entry in entries:
                if entry in opened and rings.wait_until(rings.has_space, deadline, rounds):
                    waiting.add(entry)
                    self._closing.add(entry)
                    rings.post_close(entry, functools.partial(done, number, entry))
                else:
                    over(number, entry)
        rings.wait_until(lambda: not waiting, deadline, rounds)
