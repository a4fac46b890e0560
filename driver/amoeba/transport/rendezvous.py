"""Messages that the receiver reads: those too long for one packet, and those whose sender waits for their receive.

The sender registers the message under a key that nobody can guess, and sends a ``RENDEZVOUS`` record in its place.
The record also says where to read the message: the receiver need not know the sender. The receiver reads as much as
fits, straight into its buffer. The last read carries the record's token as immediate data, which notifies the sender
of the end. A receiver that closes reads no bytes, with another token, which notifies the sender of the refusal.
"""

import dataclasses
import functools
import secrets
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

from amoeba_model.descriptors import RENDEZVOUS, DescriptorFlags, DescriptorOpcode, EventKind
from amoeba_model.interruptions import uninterrupted
from amoeba_model.registers import KeyFlags
from amoeba_model.trace import NO_CONTEXT
from amoeba_model.wire.uet import ReturnCode

from amoeba.core.buffers import Segment
from amoeba.core.errno import Errno
from amoeba.core.errors import FabricError, fabric_error
from amoeba.nic.address import EndpointAddress
from amoeba.nic.event_ring import Event
from amoeba.nic.nic import Nic
from amoeba.transport.dispatch import Dispatch
from amoeba.transport.operation import Operation, engine_operation, filled, keeps
from amoeba.transport.peers import PeerMap
from amoeba.transport.requests import NEVER, Grant, Kind, Piece
from amoeba.transport.transmit_rings import TransmitRings

__all__ = ["LongReceives", "LongSends", "Record"]

_TOKEN_BITS = 64
_REFUSED = 1
"""Bit of a token that is set when the message is refused."""
_READABLE = KeyFlags.REMOTE_READ | KeyFlags.DATA
_IMMEDIATE = int(DescriptorFlags.IMMEDIATE)
_OK = int(ReturnCode.OK)
_CANCELLED = int(ReturnCode.CANCELLED)
_PDC_FAILED = int(ReturnCode.LOCAL_PDC_FAILED)
_NIC_RESET = int(ReturnCode.LOCAL_NIC_RESET)
_BAD_PEER = int(ReturnCode.LOCAL_BAD_PEER)


@dataclass
class _LongSend:
    """A message that its receiver has neither read nor refused yet."""

    request: Operation
    """The operation whose end is reported to the application."""
    key: int
    grants: tuple[Grant, ...]
    delivered: bool = False
    """The record has reached the receiver's NIC."""
    given_up: int = 0
    """The status of its end, if its receiver has been given up before the record's end was known, or its NIC lost."""
    answer: int | None = None
    """The status that it ends with: the receiver has read it, or refused it."""


class LongSends:
    """The long messages that an endpoint has sent, until they have been read.

    ``domain``: number of its protection domain. ``home``: the context that ``dispatch`` takes the events of, where
    messages are read. ``on_read`` is called whenever a message has been read, which the NIC takes for a peer's own
    read.
    """

    def __init__(
        self,
        nic: Nic,
        domain: int,
        home: EndpointAddress,
        rings: TransmitRings,
        dispatch: Dispatch,
        on_read: Callable[[], None],
    ) -> None:
        self._nic = nic
        self._domain = domain
        self._home = home
        self._rings = rings
        self._dispatch = dispatch
        self._on_read = on_read
        self._outstanding: dict[int, _LongSend] = {}
        """By token."""
        self.receives: LongReceives | None = None
        """Reads messages on this side: a message to itself ends behind its receive, as programs expect."""
        dispatch.handlers[EventKind.REMOTE_READ] = self._see_read
        nic.dma.holders.add(self)
        nic.reset_listeners.add(self)
        self._peer_failed = rings.peer_failed
        rings.peer_failed = self._fail

    def post(self, operation: Operation, source: Segment, tag: int, message: Operation | None = None) -> int:
        """Send the record of a message of ``operation.length`` bytes, which lies at ``source``, of one byte at least.

        Returns the token by which the message is known until it has been read.

        ``operation``: opcode, flags and immediate data of the record, and the peer; its ``grants`` are device access
        that the message needs. ``message``: an operation that ends with the record's delivery; this method sets all
        its fields that the record needs.
        Raises FI_EAGAIN if the ring is full, or no key is free until other messages have been read. Raises FI_ENOSPC
        if no key is free and no message waits to be read. Then nothing is posted, and access is as before.
        """
        token, record = self._offer(operation, source)
        if message is None:
            message = filled(Kind.OWN, silent=NEVER, dest_addr=operation.dest_addr)
        message.ended = functools.partial(self._sent, token)
        message.opcode, message.flags, message.compare = operation.opcode, operation.flags, operation.compare
        message.peer, message.more = operation.peer, operation.more
        message.remote_address, message.remote_key = operation.length, tag
        message.length = RENDEZVOUS.size
        message.local = self._rings.bounce([memoryview(record)])
        self._rings.post(message)
        return token

    def post_inside(self, operation: Operation, source: Segment, message: Operation, place: memoryview) -> int:
        """Send the record at the start of another message, which lies at ``place``; returns the token.

        The record is written there, and errors are those of :meth:`post`. ``message`` is complete, and has no
        ``ended`` of its own; ``operation`` goes to its peer. An empty message needs no ``source``: the receiver reads
        no bytes.
        """
        operation.peer = message.peer
        token, record = self._offer(operation, source)
        place[: len(record)] = record
        message.ended = functools.partial(self._sent, token)
        try:
            self._rings.post(message)
        except BaseException:
            self._forget(token)
            raise
        return token

    def _offer(self, request: Operation, source: Segment) -> tuple[int, bytes]:
        """Let a message be read; returns the token by which it is known from now on, and its record."""
        self._rings.check_space()
        self._nic.dma.grant_all(request.grants, NO_CONTEXT)
        try:
            key = self._nic.keys.store(None, source.address, source.length, self._domain, _READABLE)
        except FabricError as error:
            self._nic.dma.revoke_all(request.grants, NO_CONTEXT)
            if self._outstanding and error.fi_errno is Errno.FI_ENOSPC:
                raise fabric_error(
                    Errno.FI_EAGAIN, f"{len(self._outstanding)} long messages wait to be read: {error.strerror}"
                ) from None
            raise
        token = secrets.randbits(_TOKEN_BITS) & ~_REFUSED
        self._outstanding[token] = _LongSend(request, key, request.grants)
        self._rings.held[token] = request.peer
        return token, Record(key, token, self._home).pack()

    def end(self, token: int, status: int = _OK) -> bool:
        """End a message that nobody is to read any more; False if it is over, or never was.

        Afterwards no request reads its bytes.
        """
        send = self._outstanding.get(token)
        if send is None:
            return False
        self._finish(token, status)
        return True

    def _sent(self, token: int, status: int) -> None:
        """Note that the record has been delivered, or has failed."""
        send = self._outstanding.get(token)
        if send is None:
            return  # its peer was given up, which ended it
        send.delivered = True
        if status != _OK:
            self._finish(token, status)
        elif send.answer is not None:
            self._finish(token, send.answer)
        elif send.given_up:
            self._finish(token, send.given_up)

    def _see_read(self, event: Event) -> None:
        """Handle a read with immediate data: of a long message, or of the application's memory."""
        token = event.data & ~_REFUSED
        send = self._outstanding.get(token)
        if send is None:
            self._dispatch.tell(event)
            return
        self._on_read()
        answered = functools.partial(self._answered, token, _CANCELLED if event.data & _REFUSED else _OK)
        if self.receives is None or not self.receives.tell(event.data, answered):
            answered()

    def _answered(self, token: int, status: int) -> None:
        send = self._outstanding.get(token)
        if send is None:
            return  # ended meanwhile
        send.answer = status
        if send.delivered:
            self._finish(token, status)

    def _fail(self, dest_addr: int) -> None:
        """End the messages to a peer that was given up: it reads no more of them."""
        self._peer_failed(dest_addr)
        for token, send in list(self._outstanding.items()):
            if send.request.dest_addr == dest_addr:
                self._give_up(token, send, _PDC_FAILED)

    def nic_lost(self) -> None:
        """End all messages: nobody can read them any more."""
        for token, send in list(self._outstanding.items()):
            self._give_up(token, send, _NIC_RESET)

    def _give_up(self, token: int, send: _LongSend, status: int) -> None:
        send.given_up = send.given_up or status
        if send.delivered:
            self._finish(token, send.given_up)

    def _finish(self, token: int, status: int) -> None:
        send = self._forget(token)
        self._rings.finish(send.request, status)

    def _forget(self, token: int) -> _LongSend:
        send = self._outstanding.pop(token)
        del self._rings.held[token]
        self._nic.keys.remove(send.key)
        if send.answer is None:
            uninterrupted(self._nic.drain)  # the receiver may be reading
        self._nic.dma.revoke_all(send.grants, NO_CONTEXT)
        return send

    def requests_to(self, number: int) -> list[Operation]:
        """Return the messages to the peer with this number (their ``dest_addr``) that have not been read."""
        return [send.request for send in self._outstanding.values() if send.request.dest_addr == number]

    def hold(self, keeper: object, export: Any, address: int, length: int, writable: bool) -> int:
        """As :class:`amoeba.nic.dma.Holder` says."""
        using = [send for send in self._outstanding.values() if keeps(send.request.buffers, keeper)]
        for send in using:
            self._nic.dma.grant(address, length, writable=writable, whose=NO_CONTEXT)
            send.grants = (*send.grants, (address, length, writable))
            send.request.buffers = send.request.buffers, export
        return len(using)

    def progress(self) -> None:
        """See whether messages have been read, for an endpoint without other events."""
        if self._outstanding:
            self._dispatch.progress()

    def arm(self) -> None:
        """Ask for an interrupt when one has been read."""
        self._dispatch.arm()

    def release(self) -> None:
        """Forget all messages: nobody can read them any more."""
        self._nic.dma.holders.discard(self)
        self._nic.reset_listeners.discard(self)
        for token in list(self._outstanding):
            self._forget(token)
        self._rings.peer_failed = self._peer_failed


@dataclass(frozen=True)
class Record:
    """The contents of a RENDEZVOUS record; nothing has checked the numbers in a record that came from a peer."""

    key: int
    token: int
    home: EndpointAddress
    """The context that is to be read from."""

    def pack(self) -> bytes:
        home = self.home
        mac = int.from_bytes(home.mac, "big")
        return RENDEZVOUS.pack(
            key=self.key,
            token=self.token,
            mac_low=mac & 0xFFFF_FFFF,
            mac_high=mac >> 32,
            resource_index=home.resource_index,
            job_id=home.job_id,
            pid_on_fep=home.pid_on_fep,
            relative=home.relative,
        )

    @property
    def refusal(self) -> Self:
        """The record that notifies the sender, when it is read from, that nobody reads the message."""
        return dataclasses.replace(self, token=self.token | _REFUSED)

    @classmethod
    def unpack(cls, data: memoryview, ip: int) -> Self:
        """Return a record that came from this IPv4 address."""
        fields = RENDEZVOUS.unpack(data)
        mac = fields["mac_high"] << 32 | fields["mac_low"]
        home = EndpointAddress(
            mac.to_bytes(6, "big"),
            ip,
            fields["job_id"],
            fields["pid_on_fep"],
            fields["resource_index"],
            relative=bool(fields["relative"]),
        )
        return cls(fields["key"], fields["token"], home)


@dataclass
class _Fetch:
    """A message that is to be read."""

    record: Record
    sender: int
    """The sender's number in the address vector, FI_ADDR_NOTAVAIL of a stranger."""
    segments: Sequence[Segment]
    """Where it goes; together as long as what is read."""
    done: Callable[[int], None]


class LongReceives:
    """Reads long messages from their senders, through the transmit ring of the endpoint that receives them."""

    def __init__(self, rings: TransmitRings, peers: PeerMap, dispatch: Dispatch) -> None:
        self._rings = rings
        self._peers = peers
        self._waiting: list[_Fetch] = []
        self._outstanding: Counter[int] = Counter()
        """By number of the sender, as :class:`PeerMap` gives it."""
        self._ends: dict[int, Callable[[], None] | None] = {}
        """By token of the message that is read: a function to call when the read is over."""
        dispatch.helpers.append(self._progress)

    def fetch(self, record: Record, sender: int, segments: Sequence[Segment], done: Callable[[int], None]) -> None:
        """Read a message, or the part for which there are segments; ``done`` is called with the status.

        ``sender`` is the sender's number in the address vector, or FI_ADDR_NOTAVAIL of a stranger. A stranger gets a
        peer table entry until nothing more is read from it. A discarded message has no segments: a read of no bytes
        notifies its sender, which may go on.
        """
        self._waiting.append(_Fetch(record, sender, segments, done))
        self._start()

    def withdraw(self, token: int) -> None:
        """Do not begin to read the message with this token: ``done`` is called with LOCAL_PDC_FAILED."""
        withdrawn = [fetch for fetch in self._waiting if fetch.record.token == token]
        self._waiting = [fetch for fetch in self._waiting if fetch.record.token != token]
        for fetch in withdrawn:
            fetch.done(_PDC_FAILED)

    def tell(self, token: int, over: Callable[[], None]) -> bool:
        """Call ``over`` behind ``done`` of the message with this token; False if no such message is being read."""
        if token not in self._ends:
            return False
        self._ends[token] = over
        return True

    def _progress(self) -> None:
        if self._waiting or self._outstanding or self._peers.strangers:
            uninterrupted(self._go_on)

    def _go_on(self) -> None:
        self._rings.absorb()
        self._start()

    def _start(self) -> None:
        """Begin the reads that can begin: not without free ring entries, nor from a peer that was just given up."""
        self._outstanding = +self._outstanding
        self._peers.part(self._outstanding)
        self._waiting = [fetch for fetch in self._waiting if not self._try(fetch)]

    def _try(self, fetch: _Fetch) -> bool:
        """Begin to read a message. False: it must be tried again later."""
        segments = fetch.segments or (Segment(0, 0),)
        if not self._rings.has_space(len(segments)):
            return False
        try:
            source = self._peers.meet(fetch.sender, fetch.record.home)
            peer = self._peers.find(source)
        except FabricError as error:
            if error.fi_errno is Errno.FI_EAGAIN or self._rings.outstanding:
                return False  # what ends may make space for him in the peer table
            fetch.done(_BAD_PEER)
            return True
        self._outstanding[source] += 1
        pieces = []
        offset = 0
        for segment in segments:
            pieces.append(
                Piece(DescriptorOpcode.READ, 0, segment.length, offset, fetch.record.key, 0, segment.address, 0)
            )
            offset += segment.length
        pieces[-1] = pieces[-1]._replace(flags=_IMMEDIATE, compare=fetch.record.token)
        # the receive's context may be another
        grants = tuple((segment.address, segment.length, True) for segment in fetch.segments)
        end = functools.partial(self._end, fetch, source)
        self._rings.post_chain(engine_operation(end, dest_addr=source, peer=peer, grants=grants), pieces)
        self._ends[fetch.record.token] = None
        return True

    def _end(self, fetch: _Fetch, source: int, status: int) -> None:
        self._outstanding[source] -= 1
        over = self._ends.pop(fetch.record.token, None)
        fetch.done(status)
        if over is not None:
            over()
