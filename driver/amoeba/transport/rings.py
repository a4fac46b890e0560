"""The two rings of an endpoint context: the driver's hot path.

One request is one :meth:`struct.Struct.pack_into` into the transmit ring and one doorbell. Every request asks
for a completion, also those whose success the application does not want to hear of: it frees the ring entries and
the buffers. So no more descriptors are under way than either ring has entries, and neither can overrun.
"""

from collections.abc import Callable, Sequence

from amoeba_model.descriptors import COMPLETION, TX_DESCRIPTOR, CompletionFlags, DescriptorFlags
from amoeba_model.wire.uet import ReturnCode

from amoeba.core.buffers import address_of, allocate
from amoeba.core.errno import Errno
from amoeba.core.errors import fabric_error
from amoeba.nic.nic import Nic
from amoeba.nic.records import record_struct
from amoeba.transport.batches import Batches, is_batched
from amoeba.transport.requests import KINDS, Kind, Piece, Request, take_reported
from amoeba.transport.transmit_rings import TransmitRings

__all__ = ["INJECT_SIZE", "ContextRings"]

INJECT_SIZE = 64
"""Most bytes that can be injected."""

_DESCRIPTOR = record_struct(
    TX_DESCRIPTOR, "opcode", "op", "datatype", "flags", "length", "peer", "counter", "remote_address", "remote_key",
    "local", "result", "compare", "context",
)  # fmt: skip
_pack_into = _DESCRIPTOR.pack_into
_COMPLETION = record_struct(COMPLETION, "context", "descriptor", "status")
_PHASE_BYTE = COMPLETION.bit_offset("flags") // 8
_PHASE = int(CompletionFlags.PHASE)
_OK = int(ReturnCode.OK)
_PDC_FAILED = int(ReturnCode.LOCAL_PDC_FAILED)
_COMPLETION_FLAG = int(DescriptorFlags.COMPLETION)
_CHAINED_FLAG = int(DescriptorFlags.CHAINED)
_INDEX_MASK = 0xFFFF
_OWN = int(Kind.OWN)
_DESCRIPTOR_SIZE = TX_DESCRIPTOR.size
_COMPLETION_SIZE = COMPLETION.size
_BOUNCE_SIZE = 2 * INJECT_SIZE
"""Operands and compare values."""


class ContextRings(TransmitRings):
    """Transmit and completion ring of one context, both with ``entries`` (a power of two) entries.

    A request is known by its token, which the NIC hands back. There is one for every entry; those of a chain of
    descriptors all carry the same one, and the others of its ``places`` rest until it ends.
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
            nic.dma.grant(*grant, writable=grant[0] == self.completion_base)
        self._ring_doorbell: Callable[[int, int], None] = nic.ring
        self._tail_register = nic.doorbell(context, "transmit_tail")
        self._head_register = nic.doorbell(context, "completion_head")
        self._arm_register = nic.doorbell(context, "arm")
        self._mask = entries - 1
        self._tail = 0
        self._announced = 0
        self._head = 0
        self._pending: list[Request | None] = [None] * entries
        self._free = list(range(entries))
        self._to_peer = [0] * nic.parameters.peers
        """Requests under way by entry of the peer table."""
        self.counters = [0] * KINDS
        """Event counters of the NIC by the kind of the requests that they count; 0: none."""
        self.batches = Batches(self)

    @property
    def size_log2(self) -> int:
        return self._mask.bit_length()

    @property
    def under_way(self) -> int:
        return self.entries - len(self._free)

    @property
    def room(self) -> int:
        return len(self._free)

    def busy_with(self, peer: int) -> bool:
        return self._to_peer[peer] > 0 or peer in self.held.values()

    def check_space(self, descriptors: int = 1) -> None:
        if len(self._free) < descriptors:
            raise fabric_error(
                Errno.FI_EAGAIN,
                f"{self.under_way} of {self.entries} ring entries are in use, {descriptors} needed: "
                "read completions, then repeat",
            )

    def has_space(self, descriptors: int = 1) -> bool:
        return len(self._free) >= descriptors

    def stash(self, views: Sequence[memoryview], offset: int = 0) -> int:
        start = at = self._free[-1] * _BOUNCE_SIZE + offset
        for view in views:
            self._bounce[at : at + view.nbytes] = view.cast("B")
            at += view.nbytes
        return self._bounce_base + start

    def post(
        self,
        request: Request,
        more: int,
        peer: int,
        opcode: int,
        flags: int,
        op: int,
        datatype: int,
        length: int,
        remote_address: int,
        remote_key: int,
        local: int,
        result: int,
        compare: int,
    ) -> None:
        free = self._free
        if not free:
            self.check_space()
        if request.grants:
            self._grant(request)
        token = free[-1]
        _pack_into(
            self._transmit,
            (self._tail & self._mask) * _DESCRIPTOR_SIZE,
            opcode,
            op,
            datatype,
            flags | _COMPLETION_FLAG,
            length,
            peer,
            self.counters[request.kind] if request.counted else 0,
            remote_address,
            remote_key,
            local,
            result,
            compare,
            token,
        )
        request.peer = peer
        free.pop()
        self._pending[token] = request
        self._to_peer[peer] += 1
        self._tail += 1
        if not more:
            self.announce()

    def post_chain(
        self, request: Request, more: int, peer: int, op: int, datatype: int, pieces: Sequence[Piece]
    ) -> None:
        if len(pieces) > self.entries:
            raise fabric_error(
                Errno.FI_EINVAL, f"this request needs {len(pieces)} ring entries, there are {self.entries}"
            )
        self.check_space(len(pieces))
        self._grant(request)
        token = self._free.pop()
        request.peer = peer
        request.places = tuple(self._free.pop() for _ in pieces[1:])
        self._pending[token] = request
        self._to_peer[peer] += 1
        *linked, last = pieces
        for piece in linked:
            self._write(token, peer, op, datatype, piece, _CHAINED_FLAG, 0)
        number = self.counters[request.kind] if request.counted else 0
        self._write(token, peer, op, datatype, last, _COMPLETION_FLAG, number)
        request.last = (self._tail - 1) & _INDEX_MASK
        if not more:
            self.announce()

    def _write(self, token: int, peer: int, op: int, datatype: int, piece: Piece, position: int, number: int) -> None:
        """Write one descriptor; ``position``: the flag that says where in its chain it stands."""
        opcode, flags, length, remote_address, remote_key, local, result, compare = piece
        _pack_into(
            self._transmit,
            (self._tail & self._mask) * _DESCRIPTOR_SIZE,
            opcode,
            op,
            datatype,
            flags | position,
            length,
            peer,
            number,
            remote_address,
            remote_key,
            local,
            result,
            compare,
            token,
        )
        self._tail += 1

    def _grant(self, request: Request) -> None:
        """Let the NIC use the buffers of a request; all of them, or, if that fails, none."""
        dma, granted = self.nic.dma, 0
        try:
            for address, length, writable in request.grants:
                dma.grant(address, length, writable=writable)
                granted += 1
        except BaseException:
            for address, length, _ in request.grants[:granted]:
                dma.revoke(address, length)
            raise

    def _batch_posted(self, more: int) -> None:
        if not more:
            self.announce()

    def announce(self) -> None:
        if self._announced != self._tail:
            self._announced = self._tail
            self._ring_doorbell(self._tail_register, self._tail & _INDEX_MASK)

    def tell_doorbells(self, listener: Callable[[], None]) -> None:
        ring, tail_register = self._ring_doorbell, self._tail_register

        def ring_and_tell(register: int, value: int) -> None:
            ring(register, value)
            if register == tail_register:
                listener()

        self._ring_doorbell = ring_and_tell

    def poll(self, limit: int) -> list[Request]:
        if self.companion is not None:
            self.companion.progress()
        # most of the time nothing waits: what the ring gives need not go through the backlog
        return take_reported(self._backlog, limit) if self._backlog else self._take(limit)

    def _take(self, limit: int) -> list[Request]:
        taken: list[Request] = []
        ring, head, entries, mask = self._completion, self._head, self.entries, self._mask
        pending, free, tally, unpack = self._pending, self._free, self.tally, _COMPLETION.unpack_from
        while limit:
            offset = (head & mask) * _COMPLETION_SIZE
            # the phase is 1 on the even laps, counted from 0
            if (ring[offset + _PHASE_BYTE] & _PHASE == 0) is (head & entries == 0):
                break
            token, descriptor, status = unpack(ring, offset)
            if is_batched(token):
                head += 1
                batch = self.batches.take(token, status)
                if batch is not None:
                    taken.append(batch)
                    limit -= 1
                    if batch.status != _OK:
                        break
                continue
            request = pending[token] if token < entries else None
            if request is None:
                raise fabric_error(Errno.FI_EIO, f"the NIC completed request {token:#x}, which was never posted")
            head += 1
            told = status
            if request.places:
                if request.last != descriptor:
                    # the NIC has refused a piece of a chain, whose end is still to come
                    request.trouble = status if request.trouble == _OK else request.trouble
                    continue
                free += request.places
                status = status if request.trouble == _OK else request.trouble
            pending[token] = None
            free.append(token)
            self._to_peer[request.peer] -= 1
            if request.grants:
                self._revoke(request)
            request.status = status
            if status == _PDC_FAILED:
                (request.owner or self).peer_failed(request.dest_addr)
            if request.ended is not None:
                request.ended(status)
                if request.kind == _OWN:
                    request.status = _OK  # nobody else hears of it
            if tally is not None and request.counted:
                tally(request.kind, status, told)
            taken.append(request)
            limit -= 1
            if request.status != _OK:
                break
        if head != self._head:
            self._head = head
            self._ring_doorbell(self._head_register, head & _INDEX_MASK)
        return taken

    def _revoke(self, request: Request) -> None:
        """Withdraw what was granted for a request."""
        revoke = self.nic.dma.revoke
        for address, length, _ in request.grants:
            revoke(address, length)

    def absorb(self) -> int:
        taken = self._take(self.entries)
        self._backlog += taken
        return len(taken)

    def _arm_ring(self) -> None:
        self._ring_doorbell(self._arm_register, self._head & _INDEX_MASK)

    def release(self) -> None:
        """Withdraw the NIC's access to the rings and to the buffers of operations that never completed."""
        for request in self._pending:
            if request is not None:
                self._revoke(request)
        self.batches.release()
        for address, length in self._grants:
            self.nic.dma.revoke(address, length)
