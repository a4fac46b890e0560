"""How endpoints find each other, and what drivers tell each other on an endpoint's lane for messages.

An endpoint is known at the other end by its number: the n-th endpoint from one worker to another pairs with the n-th
one back, as UCX has it. The first message on a lane says who sends (his address) and which number it is; where there
is no such endpoint yet, one is made, and the application's next one to that worker is it. All of it comes from a
peer: whatever makes no sense is dropped and counted.
"""

from collections import Counter
from collections.abc import Callable
from typing import Protocol

from amoeba_model.ucp import UCP_ADDRESS, MessageKind

from amoeba.ucp.addresses import WorkerAddress
from amoeba.ucp.endpoint import Endpoint
from amoeba.ucp.inbox import Letter
from amoeba.ucp.message_headers import Header
from amoeba.ucp.status import UcsError, UcsStatus

__all__ = ["LINKED", "Connector", "Wireup"]

LINKED = 1 << 23
"""In numbers of endpoints that were made by a socket address."""
_MOST_REMOTES = 4096
"""Workers that are remembered when the last endpoint to them is closed."""
_MOST_UNASKED = 4096
"""Endpoints that peers alone have made; more of them are refused."""


Handler = Callable[[Endpoint, Header, Letter], None]
"""What takes a message of one kind, and its chunk with it."""
LateHandler = Callable[[Header, Letter], None]
"""The same, of a message for an endpoint that there is not, or no more."""


class Connector(Protocol):
    """The worker, as this needs it."""

    @property
    def endpoints(self) -> dict[tuple[int, int], Endpoint]:
        """By (uid of the worker at the other end, number of the endpoint as that one says it)."""

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
        self._numbers: Counter[int] = Counter()
        """Endpoints of the application's by the uid of the worker at the other end: the number of the next one."""
        self._links = 0
        """Endpoints of socket addresses that were begun here."""
        self.handlers: dict[int, Handler] = {MessageKind.GONE: self._gone}
        """By kind; WIREUP_REQUEST is this one's own."""
        self.strangers: dict[int, LateHandler] = {}
        """For messages of known workers to endpoints that are closed; those of other kinds are dropped."""
        self.malformed = 0
        """Messages of peers that were dropped because they made no sense."""
        self._unasked = 0

    # Numbers

    def next_number(self, uid: int) -> int:
        """The number of the application's next endpoint to this worker."""
        number = self._numbers[uid]
        self._numbers[uid] = number + 1
        return number & LINKED - 1

    def next_link(self) -> int:
        """A number for the next endpoint that is begun here by a socket address.

        Its other end has the same one but for the last bit, so that both may belong to one worker.
        """
        number = LINKED | self._links << 1 & LINKED - 1
        self._links += 1
        return number

    def knows(self, uid: int, number: int) -> bool:
        """Whether there is an endpoint with this number to that worker."""
        return (uid, number) in self._worker.endpoints

    def register(self, endpoint: Endpoint) -> None:
        """What comes for this endpoint, whose ``remote`` is known, is for it."""
        self._worker.endpoints[endpoint.remote.uid, endpoint.number] = endpoint
        self._by_source.setdefault(endpoint.remote.source, []).append(endpoint)

    def adopt(self, uid: int, number: int) -> Endpoint | None:
        """The endpoint that a peer has made and the application asks for now."""
        endpoint = self._worker.endpoints.get((uid, number))
        if endpoint is not None and endpoint.unasked:
            endpoint.unasked = False
            self._unasked -= 1
            return endpoint
        return None

    def forget(self, endpoint: Endpoint) -> None:
        """It is closed: what still comes for it is dropped."""
        remote = endpoint.remote
        if self._worker.endpoints.get((remote.uid, endpoint.number)) is not endpoint:
            return  # it was never connected
        del self._worker.endpoints[remote.uid, endpoint.number]
        self._unasked -= endpoint.unasked
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
        endpoint = None if remote is None else self._worker.endpoints.get((remote.uid, header.endpoint))
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
        key = remote.uid, header.endpoint
        if key not in self._worker.endpoints:
            if self._unasked >= _MOST_UNASKED or header.endpoint & LINKED:
                return False
            self._unasked += 1
            self._worker.make_endpoint(remote, header.endpoint, header.endpoint)
        for endpoint in list(self._by_source[letter.source]):
            if endpoint.remote.uid != remote.uid:
                # another worker has this address now: the former one is gone
                endpoint.fail(UcsStatus.UCS_ERR_CONNECTION_RESET)
        if letter.source not in self._remotes and len(self._remotes) >= _MOST_REMOTES:
            gone = next((source for source in self._remotes if source not in self._by_source), letter.source)
            self._remotes.pop(gone, None)
        self._remotes[letter.source] = remote
        self._worker.endpoints[key].heard()
        return True

    def _gone(self, endpoint: Endpoint, header: Header, letter: Letter) -> None:
        """The other end was closed."""
        letter.chunk.release()
        uid, number = endpoint.remote.uid, endpoint.number
        endpoint.gone()
        if endpoint.unasked:
            endpoint.close()
            if self._numbers[uid] == number:
                self._numbers[uid] += 1  # the application's next one pairs with that one's next
