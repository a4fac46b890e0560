"""How endpoints find each other, and the messages between drivers on an endpoint's lane for messages.

An endpoint's number identifies it at the other end: the n-th endpoint from one worker to another pairs with the n-th
one back, as in UCX. The first message on a lane contains the sender's address and the endpoint's number. If there is
no such endpoint yet, one is made, and the application's next endpoint to that worker is the same one. All of it comes
from a peer: messages without sense are dropped and counted.

A worker is identified by the NIC and context that its messages come from, together with the number that it claims: no
NIC can speak for another NIC's worker. The endpoints that one NIC makes unasked are limited, and so are those of all
NICs. At the limit, endpoints of the NIC that has made the most are closed. A peer whose endpoint is turned away is
told that the endpoint is gone.
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
"""Bit in numbers of endpoints that were made by a socket address."""
_MAX_REMOTES = 4096
"""Maximum workers that are remembered when the last endpoint to them is closed."""
_MAX_UNASKED = 4096
"""Maximum endpoints that peers alone have made."""
_MAX_OF_ONE = 1024
"""Maximum endpoints that one NIC alone has made."""
_MAX_TURNED_AWAY = 8
"""Maximum endpoints of one NIC that are being turned away at a time: the NIC is not told about further ones."""
_MAX_SKIPPED = 4096
"""Maximum workers whose closed endpoints are remembered, though the application has never connected to them."""


Handler = Callable[[Endpoint, Header, Letter], None]
"""Takes a message of one kind, and its chunk."""
LateHandler = Callable[[Header, Letter], None]
"""Takes a message for an endpoint that does not exist, or no longer."""


class Connector(Protocol):
    """The parts of a worker that wireup uses."""

    waiters: list[Callable[[], bool]]
    """Called in every progress until they return something true."""

    @property
    def endpoints(self) -> dict[tuple[Identity, int], Endpoint]:
        """Endpoints by (identity of the worker at the other end, number of the endpoint as that one says it)."""

    def make_endpoint(self, remote: WorkerAddress, number: int, remote_number: int) -> Endpoint:
        """Make an endpoint to a worker, whose driver names it by ``remote_number``."""


class Wireup:
    """The other ends of a worker's endpoints."""

    def __init__(self, worker: Connector) -> None:
        self._worker = worker
        self._remotes: dict[int, WorkerAddress] = {}
        """Workers that have sent a WIREUP_REQUEST, by how events name them."""
        self._by_source: dict[int, list[Endpoint]] = {}
        """The endpoints to each worker, by how events name it."""
        self._numbers: Counter[Identity] = Counter()
        """Endpoints that the application has made, by the worker at the other end: the number of the next one."""
        self._skipped: OrderedDict[int, tuple[int, int]] = OrderedDict()
        """By how events name a worker: its uid, and the next number, where the worker has closed those before."""
        self._links = 0
        """Number of endpoints by socket addresses that were begun here."""
        self.handlers: dict[int, Handler] = {MessageKind.GONE: self._gone}
        """Handlers by kind; wireup itself handles WIREUP_REQUEST."""
        self.strangers: dict[int, LateHandler] = {}
        """Handlers for messages of known workers to endpoints that are closed; other kinds are dropped."""
        self.malformed = 0
        """Messages of peers that were dropped because they made no sense."""
        self.turned_away = 0
        """Endpoints of peers that were closed because one NIC, or all, had too many, or sent too much to them."""
        self._unasked: dict[int, dict[Endpoint, None]] = {}
        """Endpoints that peers alone have made, by the IPv4 address of their NICs; the oldest first."""
        self._parting: dict[int, set[Endpoint]] = {}
        """Endpoints that are being turned away, by the same address."""

    # Numbers

    def next_number(self, identity: Identity) -> int:
        """Return the number of the application's next endpoint to this worker."""
        number = self._upcoming(identity)
        self._skipped.pop(identity[0], None)
        self._numbers[identity] = number + 1
        return number & LINKED - 1

    def _upcoming(self, identity: Identity) -> int:
        source, uid = identity
        skipped_uid, number = self._skipped.get(source, (uid, 0))
        return max(self._numbers.get(identity, 0), number if skipped_uid == uid else 0)

    def _skip(self, identity: Identity, number: int) -> None:
        """Note that the worker has closed this endpoint, which the application has never asked for."""
        if self._upcoming(identity) == number:
            source, uid = identity
            self._skipped[source] = uid, number + 1  # the application's next endpoint pairs with the worker's next
            self._skipped.move_to_end(source)
            if len(self._skipped) > _MAX_SKIPPED:
                self._skipped.popitem(last=False)

    def next_link(self) -> int:
        """Return a number for the next endpoint that is begun here by a socket address.

        Its other end has the same number but for the last bit, so that both may belong to one worker.
        """
        number = LINKED | self._links << 1 & LINKED - 1
        self._links += 1
        return number

    def knows(self, identity: Identity, number: int) -> bool:
        """Return whether there is an endpoint with this number to that worker."""
        return (identity, number) in self._worker.endpoints

    def register(self, endpoint: Endpoint) -> None:
        """Deliver messages to this endpoint, whose ``remote`` is known, from now on."""
        self._worker.endpoints[endpoint.remote.identity, endpoint.number] = endpoint
        self._by_source.setdefault(endpoint.remote.source, []).append(endpoint)

    def adopt(self, identity: Identity, number: int) -> Endpoint | None:
        """Return the endpoint that a peer has made and the application asks for now."""
        endpoint = self._worker.endpoints.get((identity, number))
        if endpoint is not None and endpoint.unasked:
            endpoint.unasked = False
            self._count_out(endpoint)
            return endpoint
        return None

    def _count_out(self, endpoint: Endpoint) -> None:
        """Stop counting an endpoint as one that a peer has made unasked."""
        others = self._unasked.get(endpoint.remote.main.ip, {})
        others.pop(endpoint, None)
        if not others:
            self._unasked.pop(endpoint.remote.main.ip, None)

    def forget(self, endpoint: Endpoint) -> None:
        """Forget a closed endpoint: later messages to it are dropped."""
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
        """Return the number of a lane by which to read from a sender; without one, a number that no lane has."""
        source = ip << 32 | context
        for endpoint in self._by_source.get(source, ()):
            if endpoint.failure is None:
                return endpoint.memory.number
        return source

    # Arrivals

    def handle(self, letter: Letter) -> None:
        """Give a message to its endpoint's handler."""
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
        """Drop and count a message that made no sense to its handler."""
        self.malformed += 1
        letter.chunk.release()

    def _wired(self, header: Header, letter: Letter) -> bool:
        """Note the worker at the other end of an endpoint; return whether its message makes sense."""
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
        """Make the endpoint that a peer asks for; return whether it stays."""
        ip = remote.main.ip
        full = len(self._unasked.get(ip, ())) >= _MAX_OF_ONE
        if number & LINKED or (full and len(self._parting.get(ip, ())) >= _MAX_TURNED_AWAY):
            return False
        try:
            endpoint = self._worker.make_endpoint(remote, number, number)
        except (FabricError, DeviceError):  # no frame reaches the place that the peer claims
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

        The peer is told. Idempotent.
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
        """Note that the other end was closed."""
        letter.chunk.release()
        identity, number = endpoint.remote.identity, endpoint.number
        endpoint.gone()
        if endpoint.unasked:
            endpoint.close()
            self._skip(identity, number)
