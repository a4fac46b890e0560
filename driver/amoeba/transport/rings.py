"""The two rings of an endpoint context: the driver's hot path.

One request is one :meth:`struct.Struct.pack_into` into the transmit ring and one doorbell. Every request asks
for a completion, also a request whose success is not reported: the completion frees the ring entries and the buffers.
So there are never more outstanding descriptors than either ring has entries, and neither ring can overrun.

A signal's handler may raise something wherever a function is called or a loop goes round, so it must find every
request either posted or not, and either taken or not. The statements that make the difference are therefore
assignments that stand together without a call between them. Steps that need calls are left to ``uninterrupted``.
"""

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any

from amoeba_model.descriptors import COMPLETION, TX_DESCRIPTOR, CompletionFlags, DescriptorFlags
from amoeba_model.interruptions import uninterrupted
from amoeba_model.wire.uet import ReturnCode

from amoeba.core.buffers import address_of, allocate
from amoeba.core.errno import Errno
from amoeba.core.errors import fabric_error
from amoeba.core.log import logger
from amoeba.nic.nic import Nic
from amoeba.nic.records import record_struct
from amoeba.nic.reset_watchdog import ResetWatchdog
from amoeba.transport.batches import Batches, is_batched
from amoeba.transport.executed import RingCounter, Rings
from amoeba.transport.operation import Operation, keeps, take_reported
from amoeba.transport.repeats import LAST_FOR_NOW, Repeats
from amoeba.transport.requests import KINDS, Kind, Piece
from amoeba.transport.transmit_rings import TransmitRings

__all__ = ["INJECT_SIZE", "ContextRings"]

INJECT_SIZE = 64
"""Maximum bytes that can be injected."""

_DESCRIPTOR = record_struct(
    TX_DESCRIPTOR, "opcode", "op", "datatype", "flags", "length", "peer", "counter", "remote_address", "remote_key",
    "local", "result", "compare", "context",
)  # fmt: skip
_pack_into = _DESCRIPTOR.pack_into
_COMPLETION = record_struct(COMPLETION, "context", "descriptor", "status")
_WHOLE_COMPLETION = record_struct(COMPLETION, "context", "descriptor", "status", "flags")
_PHASE_BYTE = COMPLETION.bit_offset("flags") // 8
_PHASE = int(CompletionFlags.PHASE)
_OK = int(ReturnCode.OK)
_log = logger("transport")
_GIVEN_UP = int(ReturnCode.LOCAL_PDC_FAILED)
"""From here on: the peer or the NIC is gone, and nobody knows whether the request was executed."""
_NIC_RESET = int(ReturnCode.LOCAL_NIC_RESET)
_COMPLETION_FLAG = int(DescriptorFlags.COMPLETION)
_CHAINED_FLAG = int(DescriptorFlags.CHAINED)
_INDEX_MASK = 0xFFFF
_OWN = int(Kind.OWN)
_DESCRIPTOR_SIZE = TX_DESCRIPTOR.size
_COMPLETION_SIZE = COMPLETION.size
_BOUNCE_SIZE = 2 * INJECT_SIZE
"""Operands and compare values."""


_position = itemgetter(0)


class ContextRings(TransmitRings):
    """Transmit and completion ring of one context, both with ``entries`` (a power of two) entries.

    A request is known by its token, which the NIC returns. There is one token for every entry. The descriptors of a
    chain all carry the same token, and the other tokens, in its ``places``, stay unused until the chain ends.
    """

    def __init__(self, nic: Nic, context: int, entries: int) -> None:
        super().__init__(nic, context, entries)
        self._transmit = allocate(entries * TX_DESCRIPTOR.size)
        self._completion = allocate(entries * COMPLETION.size)
        self._bounce = allocate(entries * _BOUNCE_SIZE)
        self.transmit_base, self.completion_base = address_of(self._transmit), address_of(self._completion)
        self._bounce_base = address_of(self._bounce)
        self._grants = (
            (self.completion_base, self._completion.nbytes),
            (self.transmit_base, self._transmit.nbytes),
            (self._bounce_base, self._bounce.nbytes),
        )
        for grant in self._grants:
            nic.dma.grant(*grant, writable=grant[0] == self.completion_base, whose=context)
        self._ring_doorbell: Callable[[int, int], None] = nic.ring
        self._kick = nic.on_doorbell
        """Called so that waiting descriptors are announced if nothing follows; None: reading announces them."""
        self._tail_register = nic.doorbell(context, "transmit_tail")
        self._head_register = nic.doorbell(context, "completion_head")
        self._arm_register = nic.doorbell(context, "arm")
        if nic.executed is not None:
            rings = Rings(self._transmit, self._completion, entries, self._tail_register, self._head_register)
            self._ring_doorbell = RingCounter(nic.ring, rings, nic.executed)
        self._mask = entries - 1
        self._tail = 0
        self._announced = 0
        self._head = 0
        self._told = 0
        """``_head`` as the NIC knows it."""
        self._pending: list[Operation | None] = [None] * entries
        self._positions = [0] * entries
        """Position of each pending request's descriptor, counted from the first one posted.

        Requests are reported in the order of their positions. If a later request's peer answers sooner, a later
        descriptor may lie in the same place of the ring by then.
        """
        self._free = list(range(entries))
        self.free_entries = self._free
        self._to_peer = [0] * (nic.parameters.peers + 1)
        """Outstanding requests by entry of the peer table; behind all entries, the requests to no peer."""
        self.counters = [0] * KINDS
        """Event counters of the NIC by the kind of the requests that they count; 0: none."""
        self._counting = False
        """Whether any of ``counters`` is not 0."""
        self.batches = Batches(self)
        self.repeats = Repeats()
        """Messages that keep their tokens until they are posted again."""
        self._closers = self.close_requests.closers
        self._watchdog = ResetWatchdog(nic.device)
        nic.dma.holders.add(self)

    @property
    def size_log2(self) -> int:
        return self._mask.bit_length()

    @property
    def outstanding(self) -> int:
        return self.entries - len(self._free)

    def busy_with(self, peer: int, besides: int = 0) -> bool:
        return self._to_peer[peer] > besides or peer in self.held.values()

    def holding(self) -> set[int]:
        used = (request for _, request in self._outstanding() if request.buffers is not None or request.grants)
        return {request.peer for request in used} | self.batches.peers

    def requests_to(self, number: int) -> list[Operation]:
        posted = [(self._positions[token], request) for token, request in self._outstanding()]
        posted += self.batches.outstanding()
        posted.sort(key=_position)
        every = dict.fromkeys([*self._backlog, *(request for _, request in posted)])
        return [request for request in every if request.dest_addr == number]

    def _outstanding(self) -> list[tuple[int, Operation]]:
        """Return the outstanding requests with their tokens, without requests of batches."""
        return [(token, request) for token, request in enumerate(self._pending) if request is not None]

    def check_space(self, descriptors: int = 1) -> None:
        if len(self._free) < descriptors:
            raise fabric_error(
                Errno.FI_EAGAIN,
                f"{self.outstanding} of {self.entries} ring entries are in use, {descriptors} needed: "
                "read completions, then repeat",
            )

    def has_space(self, descriptors: int = 1) -> bool:
        return len(self._free) >= descriptors

    def bounce(self, views: Sequence[memoryview], offset: int = 0) -> int:
        start = at = self._free[-1] * _BOUNCE_SIZE + offset
        for view in views:
            self._bounce[at : at + view.nbytes] = view.cast("B")
            at += view.nbytes
        return self._bounce_base + start

    def post(self, operation: Operation) -> None:
        free = self._free
        if not free:
            self.check_space()
        if operation.grants:
            self.nic.dma.grant_all(operation.grants, self.context)
        token = free[-1]
        peer, tail = operation.peer, self._tail
        _pack_into(
            self._transmit,
            (tail & self._mask) * _DESCRIPTOR_SIZE,
            operation.opcode,
            operation.op,
            operation.datatype,
            operation.flags | _COMPLETION_FLAG,
            operation.length,
            peer,
            self.counters[operation.kind] if self._counting and operation.counted else 0,
            operation.remote_address,
            operation.remote_key,
            operation.local,
            operation.result,
            operation.compare,
            token,
        )
        self._positions[token] = tail
        # nothing comes between from here ...
        self._pending[token] = operation
        self._to_peer[peer] += 1
        self._tail = tail + 1
        del free[-1]
        # ... to here
        if not operation.more:
            self.announce()
        elif self._kick is not None:
            self._kick()

    def post_chain(self, operation: Operation, pieces: Sequence[Piece]) -> None:
        if len(pieces) > self.entries:
            raise fabric_error(
                Errno.FI_EINVAL, f"this request needs {len(pieces)} ring entries, there are {self.entries}"
            )
        self.check_space(len(pieces))
        self.nic.dma.grant_all(operation.grants, self.context)
        free, count = self._free, len(pieces)
        token, tail, peer = free[-1], self._tail, operation.peer
        places = tuple(free[-count:-1])
        for piece in pieces[:-1]:
            self._write(tail, token, operation, piece, _CHAINED_FLAG, 0)
            tail += 1
        number = self.counters[operation.kind] if operation.counted else 0
        self._write(tail, token, operation, pieces[-1], _COMPLETION_FLAG, number)
        self._positions[token] = tail
        # nothing comes between from here ...
        operation.places = places
        operation.last = tail & _INDEX_MASK
        self._pending[token] = operation
        self._to_peer[peer] += 1
        self._tail = tail + 1
        del free[-count:]
        # ... to here
        if not operation.more:
            self.announce()
        elif self._kick is not None:
            self._kick()

    def _write(
        self, tail: int, token: int, operation: Operation, piece: Piece, position: int, number: int
    ) -> None:
        """Write one descriptor where ``tail`` points; ``position``: the flag for its place in the chain."""
        opcode, flags, length, remote_address, remote_key, local, result, compare = piece
        _pack_into(
            self._transmit,
            (tail & self._mask) * _DESCRIPTOR_SIZE,
            opcode,
            operation.op,
            operation.datatype,
            flags | position,
            length,
            operation.peer,
            number,
            remote_address,
            remote_key,
            local,
            result,
            compare,
            token,
        )

    def count_by(self, kind: int, counter: int) -> None:
        if counter:
            self.nic.event_counters.admit(counter, self.context)
        self.counters[kind] = counter
        self._counting = any(self.counters)

    def _batch_posted(self, more: int) -> None:
        if not more:
            self.announce()
        elif self._kick is not None:
            self._kick()

    def announce(self) -> None:
        if self._announced != (tail := self._tail):
            self._ring_doorbell(self._tail_register, tail & _INDEX_MASK)
            self._announced = tail  # only now: whoever was interrupted before rings again

    def tell_doorbells(self, listener: Callable[[], None]) -> None:
        ring, tail_register = self._ring_doorbell, self._tail_register

        def ring_and_tell(register: int, value: int) -> None:
            ring(register, value)
            if register == tail_register:
                listener()

        self._ring_doorbell = ring_and_tell

    def poll(self, limit: int, into: list[Any]) -> None:
        if self.companion is not None:
            self.companion.progress()
        # most of the time nothing waits: what the ring gives need not go through the backlog
        if self._backlog:
            take_reported(self._backlog, limit, into)
        else:
            self._take(limit, into)

    def _take(self, limit: int, taken: list[Operation]) -> None:
        """Take up to ``limit`` completions out of the ring, none behind one that reports an error."""
        ring, head, entries, mask = self._completion, self._head, self.entries, self._mask
        pending, free, to_peer, unpack = self._pending, self._free, self._to_peer, _COMPLETION.unpack_from
        tally = self.tally
        if self._closers or self.repeats.waiting:
            uninterrupted(self._serve_foreign)
        while limit:
            offset = (head & mask) * _COMPLETION_SIZE
            # the phase is 1 on the even laps, counted from 0
            if (ring[offset + _PHASE_BYTE] & _PHASE == 0) is (head & entries == 0):
                if len(free) != entries and self._end_lost():
                    continue
                break
            token, descriptor, status = unpack(ring, offset)
            if token >= entries and is_batched(token):
                over = uninterrupted(self._take_batched, limit, taken)
                head = self._head
                limit -= over
                if over and taken[-1].status != _OK:
                    break
                continue
            request = pending[token] if token < entries else None
            if request is None:
                raise fabric_error(Errno.FI_EIO, f"the NIC completed request {token:#x}, which was never posted")
            head += 1
            places = request.places
            if places and request.last != descriptor:
                # the NIC has refused a piece of a chain, whose end is still to come
                request.trouble = status if request.trouble == _OK else request.trouble
                self._head = head
                continue
            if _OK < status <= LAST_FOR_NOW and uninterrupted(self._hold_back, token, request, status, head):
                continue
            if places or request.ended or status >= _GIVEN_UP or (tally is not None and request.counted):
                uninterrupted(self._end, request, status, token, head, taken)
                head = self._head
            else:
                # nothing comes between from here ...
                request.status = status
                pending[token] = None
                to_peer[request.peer] -= 1
                free += (token,)
                taken += (request,)
                self._head = head
                # ... to here
                if request.grants:
                    self.nic.dma.revoke_all(request.grants, self.context)
            limit -= 1
            if request.status != _OK:
                break
        if self._told != self._head:
            self._tell_head()

    def _tell_head(self) -> None:
        head = self._head
        self._ring_doorbell(self._head_register, head & _INDEX_MASK)
        self._told = head

    def _hold_back(self, token: int, request: Operation, status: int, head: int) -> bool:
        """Keep a message that its peer has refused for now; return False if it is none, and ends."""
        if not self.nic.peers.is_foreign(request.peer) or not self.repeats.take(token, request, status):
            return False
        self._head = head
        return True

    def _serve_foreign(self) -> None:
        """Do what peers that are no Amoebas make necessary."""
        if self.repeats.waiting:
            self._repeat()
        if self.close_requests.answer():
            self.announce()

    def _repeat(self) -> None:
        """Post messages again whose time has come."""
        for token, request in self.repeats.due():
            if self._pending[token] is not request:
                continue  # it has ended: the NIC was reset
            piece = Piece(
                request.opcode, request.flags, request.length, request.remote_address, request.remote_key,
                request.local, request.result, request.compare,
            )  # fmt: skip
            number = self.counters[request.kind] if request.counted else 0
            self._write(self._tail, token, request, piece, _COMPLETION_FLAG, number)
            self._positions[token] = self._tail
            self._tail += 1
        self.announce()

    def _end(self, request: Operation, told: int, token: int, head: int, taken: list[Operation]) -> None:
        """Take the completion of a request whose end concerns others, too; ``told``: the completion's status."""
        status = told if request.trouble == _OK else request.trouble
        request.status = status
        self._pending[token] = None
        self._to_peer[request.peer] -= 1
        self._free += (token, *request.places)
        self._head = head
        if request.grants:
            self.nic.dma.revoke_all(request.grants, self.context)
        if status >= _GIVEN_UP:
            why = "was reset" if status == _NIC_RESET else "has given the peer up"
            _log.info("an operation to peer %d has failed: the NIC %s", request.peer, why)
            (request.owner or self).peer_failed(request.dest_addr)
        if request.ended is not None:
            request.ended(status)
            if request.kind == _OWN:
                request.status = _OK  # nobody else is notified of it
        if self.tally is not None and request.counted:
            self.tally(request.kind, status, None if told == _NIC_RESET else told)
        taken.append(request)

    def _take_batched(self, limit: int, taken: list[Operation]) -> int:
        """Take completions of batched requests up to the first other one; returns how many batches are over."""
        ring, entries, mask, over = self._completion, self.entries, self._mask, 0
        while over < limit:
            head = self._head
            offset = (head & mask) * _COMPLETION_SIZE
            if (ring[offset + _PHASE_BYTE] & _PHASE == 0) is (head & entries == 0):
                break
            context, _, status = _COMPLETION.unpack_from(ring, offset)
            if not is_batched(context):
                break
            batch = self.batches.take(context, status)
            self._head = head + 1
            if batch is not None:
                taken.append(batch)
                over += 1
                if batch.status != _OK:
                    break
        return over

    def _end_lost(self) -> bool:
        """Write, with an error, the completions that a NIC owes which was reset; returns whether there are any.

        Called where no completion comes, to see whether the NIC was reset.
        """
        nic = self.nic
        if not nic.contexts.lost and not (self._watchdog.is_long(self._head) and nic.find_lost()):
            return False
        return uninterrupted(self._complete_lost)

    def _complete_lost(self) -> bool:
        owed = [(self._positions[token], token) for token, _ in self._outstanding()]
        owed += self.batches.owed()
        owed.sort(key=_position)
        for place, (position, context) in enumerate(owed, self._head):
            offset = (place & self._mask) * _COMPLETION_SIZE
            flags = 0 if place & self.entries else _PHASE
            descriptor = position & _INDEX_MASK
            _WHOLE_COMPLETION.pack_into(self._completion, offset, context, descriptor, _NIC_RESET, flags)
        return bool(owed)

    def hold(self, keeper: object, export: Any, address: int, length: int, writable: bool) -> int:
        """As :class:`amoeba.nic.dma.Holder` says."""
        if not (self.outstanding or self.batches.live):
            return 0
        every: tuple[Operation | None, ...] = (*self._pending, *self.batches.live)
        using = [request for request in every if request is not None and keeps(request.buffers, keeper)]
        for request in using:
            self.nic.dma.grant(address, length, writable=writable, whose=self.context)
            request.grants = (*request.grants, (address, length, writable))
            request.buffers = request.buffers, export
        return len(using)

    def absorb(self) -> int:
        before = len(self._backlog)
        self._take(self.entries, self._backlog)
        return len(self._backlog) - before

    def _arm_ring(self) -> None:
        # While a message waits for its time nobody may sleep: the interrupt is to come at once.
        index = self._head - 1 if self.repeats.waiting else self._head
        self._ring_doorbell(self._arm_register, index & _INDEX_MASK)

    def release(self) -> None:
        """Withdraw the NIC's access to the rings and to the buffers of operations that never completed."""
        self.nic.dma.holders.discard(self)
        for request in self._pending:
            if request is not None:
                self.nic.dma.revoke_all(request.grants, self.context)
        self.batches.release()
        for address, length in self._grants:
            self.nic.dma.revoke(address, length, self.context)
