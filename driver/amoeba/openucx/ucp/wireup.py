"""How endpoints find each other, and what drivers tell each other on an endpoint's lane for messages.

An endpoint is known at the other end by its number: the n-th endpoint from one worker to another pairs with the n-th
one back, as UCX has it. The first message on a lane says who sends (his address) and which number it is; where there
is no such endpoint yet, one is made, and the application's next one to that worker is it. All of it comes from a
peer: whatever makes no sense is dropped and counted.

A worker is known by the NIC and context that its messages come from, together with the number that it claims: nobody
speaks for another NIC's worker. The endpoints that one NIC makes unasked are limited, and so are those of all. The
NIC that has made the most makes room for others. A peer whose endpoint is turned away hears that it is gone.
"""

from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import Protocol

from amoeba_model.device import DeviceError
from amoeba_model.ucp import UCP_ADDRESS, MessageKind

from amoeba.core.errors import FabricError
from amoeba.openucx.ucp.addresses import Identity, WorkerAddress
from amoeba.openucx.ucp.endpoint import Endpoint
from amoeba.openucx.ucp.inbox import Letter
from amoeba.openucx.ucp.message_headers import Header
from amoeba.openucx.ucp.status import UcsError, UcsStatus

__all__ = ["LINKED", "Connector", "Wireup"]

LINKED = 1 << 23
"""In numbers of endpoints that were made by a socket address."""
_MAX_REMOTES = 4096
"""Workers that are remembered when the last endpoint to them is closed."""
_MAX_UNASKED = 4096
"""Endpoints that peers alone have made."""
_MAX_OF_ONE = 1024
"""The same, that one NIC has made."""
_MAX_TURNED_AWAY = 8
"""Endpoints of one NIC that are being turned away at a time: of further ones it hears nothing."""
_MAX_SKIPPED = 4096
"""Workers whose closed endpoints are remembered, though the application has never connected to them."""


Handler = Callable[[Endpoint, Header, Letter], None]
"""What takes a message of one kind, and its chunk with it."""
LateHandler = Callable[[Header, Letter], None]
"""The same, of a message for an endpoint that there is not, or no more."""


class Connector(Protocol):
    """The worker, as this needs it."""

    waiters: list[Callable[[], bool]]
    """Called in every progress until they return something true."""

    @property
    def endpoints(self) -> dict[tuple[Identity, int], Endpoint]:
        """By (identity of the worker at the other end, number of the endpoint as that one says it)."""

    def make_endpoint(self, remote: WorkerAddress, number: int, remote_number: int) -> Endpoint:
        """A new endpoint to a worker, which its driver knows by ``remote_number``."""


class Wireup:
    """Who is at the other end of a worker's endpoints."""

    def __init__(self, worker: Connector) -> None:
        self._worker = worker
        self._remotes: dict[int, WorkerAddress] = {}
        """Workers that have sent a WIREUP_REQUEST, by how events name them."""
        self._by_source: dict[int, list[Endpoint]] = {}
        """The endpoints to each worker, by how events name it."""
        self._numbers: Counter[Identity] = Counter()
        """Endpoints of the application's by the worker at the other end: the number of the next one."""
        self._skipped: OrderedDict[int, tuple[int, int]] = OrderedDict()
        """By how events name a worker: its uid, and the next number, where the worker has closed those before."""
        self._links = 0
        """Endpoints of socket addresses that were begun here."""
        self.handlers: dict[int, Handler] = {MessageKind.GONE: self._gone}
        """By kind; WIREUP_REQUEST is this one's own."""
        self.strangers: dict[int, LateHandler] = {}
        """For messages of known workers to endpoints that are closed; those of other kinds are dropped."""
        self.malformed = 0
        """Messages of peers that were dropped because they made no sense."""
        self.turned_away = 0
        """Endpoints of peers that were closed because one NIC, or all, had too many, or sent too much to them."""
        self._unasked: dict[int, dict[Endpoint, None]] = {}
        """Endpoints that peers alone have made, by the IPv4 address of their NICs; the oldest first."""
        self._parting: dict[int, set[Endpoint]] = {}
        """Endpoints that are being turned away, by the same."""

    # Numbers

    def next_number(self, identity: Identity) -> int:
        """The number of the application's next endpoint to this worker."""
        number = self._upcoming(identity)
        self._skipped.pop(identity[0], None)
        self._numbers[identity] = number + 1
        return number & LINKED - 1

    def _upcoming(self, identity: Identity) -> int:
        source, uid = identity
        skipped_uid, number = self._skipped.get(source, (uid, 0))
        return max(self._numbers.get(identity, 0), number if skipped_uid == uid else 0)

    def _skip(self, identity: Identity, number: int) -> None:
        """The worker has closed this endpoint, which the application has never asked for."""
        if self._upcoming(identity) == number:
            source, uid = identity
            self._skipped[source] = uid, number + 1  # the application's next one pairs with that one's next
            self._skipped.move_to_end(source)
            if len(self._skipped) > _MAX_SKIPPED:
                self._skipped.popitem(last=False)

    def next_link(self) -> int:
        """A number for the next endpoint that is begun here by a socket address.

        Its other end has the same one but for the last bit, so that both may belong to one worker.
        """
        number = LINKED | self._links << 1 & LINKED - 1
        self._links += 1
        return number

    def knows(self, identity: Identity, number: int) -> bool:
        """Whether there is an endpoint with this number to that worker."""
        return (identity, number) in self._worker.endpoints

    def register(self, endpoint: Endpoint) -> None:
        """What comes for this endpoint, whose ``remote`` is known, is for it."""
        self._worker.endpoints[endpoint.remote.identity, endpoint.number] = endpoint
        self._by_source.setdefault(endpoint.remote.source, []).append(endpoint)

    def adopt(self, identity: Identity, number: int) -> Endpoint | None:
        """The endpoint that a peer has made and the application asks for now."""
        endpoint = self._worker.endpoints.get((identity, number))
        if endpoint is not None and endpoint.unasked:
            endpoint.unasked = False
            self._count_out(endpoint)
            return endpoint
        return None

    def _count_out(self, endpoint: Endpoint) -> None:
        """It is not one of those any more that a peer has made unasked."""
        others = self._unasked.get(endpoint.remote.main.ip, {})
        others.pop(endpoint, None)
        if not others:
            self._unasked.pop(endpoint.remote.main.ip, None)

    def forget(self, endpoint: Endpoint) -> None:
        """It is closed: what still comes for it is dropped."""
        remote = endpoint.remote
        if self._worker.endpoints.get((remote.identity, endpoint.number)) is not endpoint:
            return  # it was never connected, or was turned away
        del self._worker.endpoints[remote.identity, endpoint.number]
        self._count_out(endpoint)
        others = self._by_source[remote.source]
        others.remove(endpoint)
        if not others:
            del self._by_source[remote.source]

    def memory_lane(self, ip: int, context: int) -> int:
        """The number of a lane by which to read from a sender; one that no lane has if there is none."""
        source = ip << 32 | context
        for endpoint in self._by_source.get(source, ()):
            if endpoint.failure is None:
                return endpoint.memory.number
        return source

    # What comes

    def handle(self, letter: Letter) -> None:
        """Give a message to whom it is for."""
        header = Header(letter.data)
        if header.kind == MessageKind.WIREUP_REQUEST:
            if not self._wired(header, letter):
                self.malformed += 1
            letter.chunk.release()
            return
        remote = self._remotes.get(letter.source)
        endpoint = None if remote is None else self._worker.endpoints.get((remote.identity, header.endpoint))
        handler = self.handlers.get(header.kind)
        if endpoint is None and remote is not None and (late := self.strangers.get(header.kind)) is not None:
            late(header, letter)
            return
        if endpoint is not None and handler is not None:
            handler(endpoint, header, letter)
            return
        if header.kind != MessageKind.GONE:  # both ends may be closed at the same time
            self.malformed += 1
        letter.chunk.release()

    def drop(self, letter: Letter) -> None:
        """A message made no sense to its handler."""
        self.malformed += 1
        letter.chunk.release()

    def _wired(self, header: Header, letter: Letter) -> bool:
        """A worker says that an endpoint of his is at the other end; whether that makes sense."""
        if letter.chunk.view.nbytes != UCP_ADDRESS.size:
            return False
        try:
            remote = WorkerAddress.unpack(letter.chunk.view)
        except UcsError:
            return False
        if remote.source != letter.source:
            return False
        key = remote.identity, header.endpoint
        if key not in self._worker.endpoints and not self._made(remote, header.endpoint):
            return False
        for endpoint in list(self._by_source[letter.source]):
            if endpoint.remote.uid != remote.uid:
                # another worker has this address now: the former one is gone
                endpoint.fail(UcsStatus.UCS_ERR_CONNECTION_RESET)
        if letter.source not in self._remotes and len(self._remotes) >= _MAX_REMOTES:
            gone = next((source for source in self._remotes if source not in self._by_source), letter.source)
            self._remotes.pop(gone, None)
        self._remotes[letter.source] = remote
        self._worker.endpoints[key].heard()
        return True

    def _made(self, remote: WorkerAddress, number: int) -> bool:
        """Make the endpoint that a peer asks for; whether it stays."""
        ip = remote.main.ip
        full = len(self._unasked.get(ip, ())) >= _MAX_OF_ONE
        if number & LINKED or (full and len(self._parting.get(ip, ())) >= _MAX_TURNED_AWAY):
            return False
        try:
            endpoint = self._worker.make_endpoint(remote, number, number)
        except (FabricError, DeviceError):  # there is no way to where the peer says that it is
            return False
        endpoint.heard()
        if full:
            self.turn_away(endpoint)
            return False
        self._unasked.setdefault(ip, {})[endpoint] = None
        if sum(map(len, self._unasked.values())) > _MAX_UNASKED:
            greediest = max(self._unasked.values(), key=len)
            self.turn_away(next(reversed(greediest)))
        return self.knows(remote.identity, number)

    def turn_away(self, endpoint: Endpoint) -> None:
        """Close an endpoint whose peer takes too much, or let it fail if it is the application's.

        The peer hears of it. Idempotent.
        """
        ip = endpoint.remote.main.ip
        parting = self._parting.setdefault(ip, set())
        if endpoint in parting:
            return
        parting.add(endpoint)
        self.turned_away += 1
        if endpoint.unasked:
            self.forget(endpoint)
        else:
            endpoint.say_gone()
        ended = False

        def over() -> bool:
            nonlocal ended
            if not endpoint.idle and endpoint.failure is None:
                return False
            if not ended:
                ended = True
                if endpoint.unasked:
                    endpoint.close()
                else:
                    endpoint.fail(UcsStatus.UCS_ERR_CONNECTION_RESET)
            if any(not lane.idle for lane in endpoint.lanes):
                return False
            parting.discard(endpoint)
            if not parting:
                self._parting.pop(ip, None)
            return True

        self._worker.waiters.append(over)

    def _gone(self, endpoint: Endpoint, header: Header, letter: Letter) -> None:
        """The other end was closed."""
        letter.chunk.release()
        identity, number = endpoint.remote.identity, endpoint.number
        endpoint.gone()
        if endpoint.unasked:
            endpoint.close()
            self._skip(identity, number)
