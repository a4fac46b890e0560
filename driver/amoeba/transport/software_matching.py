"""Receives and messages without limit: the driver takes over, in order, those that exceed the lists of the NIC.

The NIC announces messages that meet no receive, so the driver has a mirror of its list and knows what each descriptor
will find: the NIC does them in ring order, and nothing but descriptors takes messages out of the list.

    kept    messages that were taken over: older than all in the NIC
    listed  the mirror: messages in the NIC's list that no receive of the NIC's will meet
    posted  receives in the NIC
    held    receives that wait for free entries in the NIC: younger than all that are posted

A receive gets the oldest message of ``kept`` and ``listed`` that matches, by copy from where it lies; else it is
posted, or held. A message that arrives meets the oldest posted receive that matches and is not reserved for another
message: the receive's descriptor is still behind the message. Else it goes to the oldest held receive that matches,
else to ``listed``; if that gets long, the driver keeps its oldest. A TAKE removes a message that leaves ``listed``
from the NIC's list. The message's slot is free when the TAKE is done.

The memory for ``kept`` is limited (:mod:`amoeba.transport.unread`). A message whose sender has used its quota stays
in its slot. When such messages alone fill ``listed``, the driver closes the target PDCs by which their sender reaches
this context. The sender's later operations fail; messages that have come are still received. The surplus message is
taken over nevertheless, while the bound of all allows it, so that slots are free for others.
"""

from collections.abc import Iterable
from typing import Any

from amoeba_model.descriptors import RX_DESCRIPTOR, EventFlags, EventKind, ReceiveFlags, ReceiveOpcode
from amoeba_model.interruptions import uninterrupted
from amoeba_model.registers import TargetPdcState
from amoeba_model.wire.uet import ReturnCode

from amoeba.core.errno import Errno
from amoeba.core.errors import FabricError, fabric_error
from amoeba.core.log import logger
from amoeba.nic.event_ring import Event
from amoeba.nic.records import record_struct
from amoeba.transport.dispatch import Dispatch
from amoeba.transport.match_index import HeldReceives, Message, WaitingMessages, matches
from amoeba.transport.receives import Claim, Receive, Receives, same_context
from amoeba.transport.unread import Unread

__all__ = ["BoundlessReceives"]

_log = logger("transport")

_DESCRIPTOR = record_struct(RX_DESCRIPTOR)
_DESCRIPTOR_SIZE = RX_DESCRIPTOR.size
_OK = int(ReturnCode.OK)
_NO_MATCH = int(ReturnCode.NO_MATCH)
_CANCELLED = int(ReturnCode.CANCELLED)
_LONG = int(EventFlags.LONG)
_TAGGED = int(EventFlags.TAGGED)
_WANTS_TAG = int(ReceiveFlags.TAGGED)
_DIRECTED = int(ReceiveFlags.DIRECTED)
_ADDRESSED = int(ReceiveFlags.ADDRESSED)
_RECEIVE, _PEEK, _TAKE = int(ReceiveOpcode.RECEIVE), int(ReceiveOpcode.PEEK), int(ReceiveOpcode.TAKE)
_INDEX_MASK = 0xFFFF
_NOTHING = Event(0, 0, 0, 0, 0, 0, 0, 0, 0, int(EventKind.NO_MATCH), _NO_MATCH, 0)
_TAKEN_BACK = _NOTHING._replace(kind=int(EventKind.CANCELLED), status=_CANCELLED)


class BoundlessReceives(Receives):
    """Receives of which any number can be posted, and any number of messages may wait for: see this file's top.

    While nothing is taken over, nor waits in the NIC's list, it behaves as :class:`Receives`.
    """

    def _extend(self, dispatch: Dispatch) -> None:
        self._kept = WaitingMessages()
        self._listed = WaitingMessages()
        self._held = HeldReceives()
        self._removals: dict[int, Message] = {}
        """Messages of outstanding TAKEs, by token."""
        self._most_listed = self.nic.parameters.unexpected // 2
        """So that slots are free while more comes."""
        self.unread = Unread()
        """Of ``kept``."""
        self.turned_away = 0
        """Target PDCs that were closed because their initiators' messages were not read."""
        self._greedy: dict[int, set[int]] = {}
        """By address of the NIC: contexts that it is to reach no more."""
        dispatch.helpers.append(self._turn_away)
        dispatch.handlers[EventKind.ARRIVED] = self._arrived

    @property
    def posted(self) -> int:
        return super().posted + len(self._held)

    # Posting

    def _post_crowded(self, receive: Receive, least_space: int, more: int) -> None:
        uninterrupted(self._receive if receive.opcode == _RECEIVE else self._search, receive, least_space)
        if not more:
            self.announce()
        else:
            self.nic.kick()

    def _receive(self, receive: Receive, least_space: int) -> None:
        """Post a receive, give it messages that wait, or hold it."""
        message = self._oldest(receive)
        if message is not None and not (receive.multi or message.event.flags & _LONG):
            receive.grants = ()  # it is copied
        self.nic.dma.grant_all(receive.grants, self._context)
        receive.least_space = least_space
        while message is not None:
            self._use(message)
            self._meet(receive, message)
            if receive.released:
                self._settle()
                return
            message = self._oldest(receive)
        if self._held or self.placed >= self.most:
            self._held.add(receive)
        else:
            self._enter(receive, least_space)
        self._settle()

    def _search(self, search: Receive, least_space: int) -> None:
        """Answer a search from the lists, or let the NIC look for messages that have come since."""
        message = self._oldest(search)
        if message is not None:
            assert search.found is not None
            data = self._data(message)
            if search.opcode == _TAKE:
                self._use(message)
                self._settle()
            event = message.event
            self._report(search, event, _OK, event.length, buf=search.found(event, data))
        elif self._held and not search.own:
            # what has come since may be for one that is held
            self._report(search, _NOTHING, _NO_MATCH, 0)
        else:
            self.check_space(search.opcode)
            self._enter(search, least_space)

    def cancel(self, context: Any) -> bool:
        if super().cancel(context):
            return True
        for receive in self._held:
            if same_context(receive.context, context):
                self._held.remove(receive)
                self._settle()
                receive.released = True
                self._complete(receive, _TAKEN_BACK, _CANCELLED, 0)
                return True
        return False

    # What waits

    def oldest(self, pattern: Receive) -> Event | None:
        """Return the ARRIVED event of the oldest message that a receive like this would get now."""
        message = self._oldest(pattern)
        return None if message is None else message.event

    def take(self, pattern: Receive) -> Claim | None:
        """Take that message out, for :meth:`deliver`."""
        message = self._oldest(pattern)
        if message is None:
            return None
        claim = Claim(pattern.context, message.event, bytes(self._data(message)))
        uninterrupted(self._use, message)
        self._settle()
        return claim

    def _oldest(self, receive: Receive) -> Message | None:
        return self._kept.oldest_for(receive) or self._listed.oldest_for(receive)

    def _data(self, message: Message) -> memoryview:
        return self.slot(message.event) if message.stored is None else memoryview(message.stored)

    def _use(self, message: Message) -> None:
        """Take a message out of the lists; until the NIC has done that, too, its slot stays as it is."""
        if message in self._kept:
            self._kept.remove(message)
            self.unread.remove(message.event)
            self._free_slots()  # its sender's quota has space again
        else:
            self._listed.remove(message)
            self._remove(message)

    def _remove(self, message: Message) -> None:
        """Let the NIC take a message out of its list, where it is the oldest of its kind."""
        event = message.event
        self._removals[self._tail] = message
        _DESCRIPTOR.pack_into(
            self._ring,
            (self._tail % self._entries) * _DESCRIPTOR_SIZE,
            _TAKE,
            _DIRECTED | _ADDRESSED | (_WANTS_TAG if event.flags & _TAGGED else 0),
            0,
            event.target,
            0,
            event.tag,
            0,
            0,
            self._tail,
            event.source_ip,
            event.source_context,
            0,
            0,
            0,
        )
        self._tail += 1
        self.announce()

    def _settle(self) -> None:
        self.crowded = bool(self._kept or self._listed or self._held)

    def _meet(self, receive: Receive, message: Message) -> None:
        """Give a message to a receive, which is released if it takes no more."""
        event, address = message.event, receive.address
        if receive.multi:
            address += receive.used
            event = event._replace(address=address)
            receive.released = receive.use(event.length)
        else:
            receive.released = True
        self._place(receive, event, self._data(message), address)

    # Events

    def _arrived(self, event: Event) -> None:
        """Handle a message that has met no receive in the NIC."""
        if self._will_be_met(event):
            return
        message = Message(event)
        receive = self._held.oldest_for(event)
        if receive is None:
            self._listed.add(message)
            self.crowded = True
            if not self._free_slots():
                self._take_too_much()
            return
        self._remove(message)
        if not receive.multi:
            self._held.remove(receive)
        self._meet(receive, message)
        if receive.multi and receive.released:
            self._held.remove(receive)
        self._settle()

    def _will_be_met(self, event: Event) -> bool:
        """Whether a receive of the NIC's will meet it: one whose descriptor is still behind the message."""
        met = None
        behind = self._tail - ((self._tail - event.context) & _INDEX_MASK)
        for token in reversed(self._outstanding):
            if token < behind:  # else the message would have met it
                break
            receive = self._outstanding[token]
            if not receive.reserved and receive.opcode != _PEEK and matches(receive, event):
                met = receive
        if met is None:
            return False
        met.reserved = not met.multi or met.use(event.length)
        return True

    def _free_slots(self) -> bool:
        """Take over messages, oldest first, as quotas allow; False: too many are left in the slots."""
        while len(self._listed) > self._most_listed:
            message = next((one for one in self._listed if not self.unread.exceeds_quota(one.event)), None)
            if message is None or not self.unread.within_bound(message.event):
                return False
            self._take_over(message)
        return True

    def _take_too_much(self) -> None:
        """Let senders whose messages fill the slots, against their quotas, send no more; take over one message."""
        surplus = [one for one in self._listed if self.unread.exceeds_quota(one.event)]
        for one in surplus:
            self._greedy.setdefault(one.event.source_ip, set()).add(one.event.target)
        if surplus and self.unread.within_bound(surplus[0].event):
            self._take_over(surplus[0])
        elif not surplus and (greediest := self.unread.greediest()) is not None:
            address, targets = greediest
            self._greedy.setdefault(address, set()).update(targets)

    def _take_over(self, message: Message) -> None:
        self._listed.remove(message)
        self._kept.add(message)
        self.unread.add(message.event)
        self._remove(message)

    def _turn_away(self) -> None:
        """Close the target PDCs of senders that send too much: their later operations fail."""
        if not self._greedy:
            return
        greedy, self._greedy = self._greedy, {}
        for pdc in self.nic.target_pdcs.used():
            if pdc.state is not TargetPdcState.OPEN or pdc.context not in greedy.get(pdc.ip, ()):
                continue
            try:
                self.nic.target_pdcs.close(pdc)
            except FabricError as error:
                if error.errno not in (Errno.FI_ENOENT, Errno.FI_EALREADY):  # it has ended meanwhile
                    raise
                continue
            self.turned_away += 1
            _log.warning(
                "target PDC %d: closed, since too many messages of %#010x to context %d are not read",
                pdc.number, pdc.ip, pdc.context,
            )  # fmt: skip

    def _search_over(self, event: Event) -> None:
        message = self._removals.pop(event.context, None)
        if message is None:
            super()._search_over(event)
            return
        if event.slot != message.event.slot:
            raise fabric_error(
                Errno.FI_EIO, f"the NIC took the message out of slot {event.slot}, expected {message.event.slot}"
            )
        if message in self._kept:
            message.stored = bytes(self.slot(event))
        self.release_slot(event)

    def _last_word(self) -> Event | None:
        # what has come lies in memory, and is the driver's
        for token, message in self._removals.items():
            return message.event._replace(context=token, kind=int(EventKind.TAKEN), status=_OK)
        return super()._last_word()

    def _space_came(self) -> None:
        if not self._held:
            return
        while self._held and self.placed < self.most:
            receive = self._held.first()
            self._held.remove(receive)
            self._enter(receive, receive.least_space)
        self._settle()
        self.announce()

    # The end

    def _users(self) -> Iterable[Receive]:
        return {*super()._users(), *self._held}

    def give_up_held(self) -> list[Receive]:
        """Withdraw receives that the NIC does not have; nobody is told."""
        given_up = list(self._held)
        self._held.clear()
        self._settle()
        for receive in given_up:
            self.nic.dma.revoke_all(receive.grants, self._context)
        return given_up

    def release(self) -> None:
        self.give_up_held()
        self._kept.clear()
        self.unread.clear()
        self._listed.clear()
        self._removals.clear()
        super().release()
