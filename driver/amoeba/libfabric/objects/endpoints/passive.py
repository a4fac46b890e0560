"""Passive endpoints, which listen for connection requests. fi_cm(3), fi_endpoint(3)."""

import dataclasses
import socket
import weakref

from amoeba.core.errno import Errno
from amoeba.core.errors import FabricError, fabric_error
from amoeba.core.handshake import Listening, Note, bind, reject
from amoeba.core.lifetime import FabricObject
from amoeba.core.lines import JsonLines
from amoeba.libfabric.objects.connections import (
    CM_DATA_SIZE,
    PROTOCOL,
    ConnectionRequest,
    SocketAddress,
    cut,
    peer_of,
    place_of,
)
from amoeba.libfabric.objects.constants import EndpointOption, EpType, EqEvent, OptionLevel
from amoeba.libfabric.objects.queues.event_queue import EventQueue
from amoeba.libfabric.objects.structures import Info

__all__ = ["PassiveEndpoint"]

_BACKLOG = 128
_REQUEST_TIME = 5.0
"""Seconds that a client may take to send its request."""


class PassiveEndpoint(FabricObject):
    """Listens at a TCP address of this host: ``fi_passive_ep``. Bind an event queue, then :meth:`listen`.

    Each request is a FI_CONNREQ there, whose ``info`` opens the endpoint that accepts it, on any domain of the
    fabric: ``domain.endpoint(info)``. Closing the passive endpoint refuses unanswered requests; connections
    stay.

    Raises FI_EINVAL if ``info`` is not of type FI_EP_MSG.
    """

    def __init__(self, fabric: FabricObject, info: Info) -> None:
        if info.ep_attr.type is not EpType.FI_EP_MSG:
            raise fabric_error(Errno.FI_EINVAL, f"a passive endpoint is of type FI_EP_MSG, got {info.ep_attr.type!r}")
        super().__init__(fabric)
        self.info = info
        """The offer to clients."""
        self.backlog = _BACKLOG
        """Maximum number of requests that wait for an answer; further ones are refused."""
        self._eq: EventQueue | None = None
        self._address: SocketAddress = ("127.0.0.1", 0)
        self._listener: Listening | None = None
        self._reserved: socket.socket | None = None
        """The socket of an address that has been taken, until it listens."""
        self._requests: set[ConnectionRequest] = set()

    def bind(self, eq: EventQueue) -> None:
        """Report requests to an event queue: ``fi_pep_bind``. Closing the queue closes this first.

        Raises FI_EINVAL for a second one, or one of another fabric.
        """
        self._check_open()
        eq._check_open()
        if self._eq is not None:
            raise fabric_error(Errno.FI_EINVAL, "an event queue is bound already")
        if eq._parent is not self._parent:
            raise fabric_error(Errno.FI_EINVAL, f"{eq!r} belongs to another fabric")
        self._eq = eq
        eq._adopt(self)

    def setname(self, address: SocketAddress) -> None:
        """Choose the address to listen at, (host, port): ``fi_setname``. By default only this host can connect.

        Port 0 is a free one, host "" every address of this host. Raises FI_EOPBADSTATE once it listens, FI_EINVAL and
        FI_EADDRNOTAVAIL for an invalid TCP address.
        """
        self._check_open()
        if self._listener is not None or self._reserved is not None:
            raise fabric_error(Errno.FI_EOPBADSTATE, f"it listens at {self.getname()} already")
        place_of(address, passive=True)
        self._address = address

    def getname(self) -> SocketAddress:
        """Return the address that peers pass to ``connect``.

        Raises FI_EOPBADSTATE before :meth:`listen` and :meth:`reserve`.
        """
        self._check_open()
        bound = self._reserved if self._listener is None else self._listener.socket
        if bound is None:
            raise fabric_error(Errno.FI_EOPBADSTATE, "a passive endpoint has a name once it listens")
        host, port = bound.getsockname()[:2]
        return host, port

    def reserve(self) -> None:
        """Reserve the address at which it will listen, so that its name is known and fixed from now on.

        Raises FI_EADDRINUSE and FI_EADDRNOTAVAIL if the address cannot be had.
        """
        self._check_open()
        if self._reserved is not None or self._listener is not None:
            return
        place = place_of(self._address, passive=True)
        try:
            self._reserved = bind(place)
        except OSError as error:
            raise self._not_there(error) from error

    def _not_there(self, error: OSError) -> FabricError:
        """Make the error for an address that cannot be had."""
        in_use = error.errno == Errno.FI_EADDRINUSE
        return fabric_error(
            Errno.FI_EADDRINUSE if in_use else Errno.FI_EADDRNOTAVAIL, f"cannot listen at {self._address}: {error}"
        )

    def getopt(self, level: int, optname: int) -> int:
        """Return FI_OPT_CM_DATA_SIZE: maximum bytes of ``param``. Raises FI_ENOPROTOOPT for other options."""
        self._check_open()
        if (level, optname) != (OptionLevel.FI_OPT_ENDPOINT, EndpointOption.FI_OPT_CM_DATA_SIZE):
            raise fabric_error(Errno.FI_ENOPROTOOPT, "passive endpoints have FI_OPT_CM_DATA_SIZE only")
        return CM_DATA_SIZE

    def set_backlog(self, backlog: int) -> None:
        """Change :attr:`backlog`: FI_BACKLOG of ``fi_control``. Raises FI_EINVAL for less than one."""
        self._check_open()
        if backlog < 1:
            raise fabric_error(Errno.FI_EINVAL, f"a backlog is of one request or more, got {backlog}")
        self.backlog = backlog

    def listen(self) -> None:
        """Listen for requests: ``fi_listen``.

        Raises FI_ENOEQ without an event queue, FI_EOPBADSTATE if it listens already, FI_EADDRINUSE and
        FI_EADDRNOTAVAIL if the address cannot be had.
        """
        self._check_open()
        if self._eq is None:
            raise fabric_error(Errno.FI_ENOEQ, "bind an event queue before listen()")
        if self._listener is not None:
            raise fabric_error(Errno.FI_EOPBADSTATE, f"it listens at {self.getname()} already")
        self.reserve()
        listening, self._reserved = self._reserved, None
        assert listening is not None
        try:
            listening.listen(self.backlog)
        except OSError as error:
            listening.close()
            raise self._not_there(error) from error
        # weak, since the event queue knows the listener
        passive: PassiveEndpoint = weakref.proxy(self)
        self._listener = Listening(
            PROTOCOL,
            self._eq,
            listening,
            full=lambda callers: len(passive._requests) + callers >= passive.backlog,
            requested=lambda lines, note, _: passive._requested(lines, note),
            patience=_REQUEST_TIME,
        )

    def reject(self, handle: ConnectionRequest, param: bytes = b"") -> None:
        """Refuse a request: its endpoint gets FI_ECONNREFUSED with ``param``, cut to CM_DATA_SIZE. ``fi_reject``.

        Raises FI_EINVAL if it was answered already, or came to another passive endpoint.
        """
        self._check_open()
        if handle not in self._requests:
            raise fabric_error(Errno.FI_EINVAL, f"expected a connection request that waits here, got {handle!r}")
        reject(handle.take(), PROTOCOL, cut(param))

    def _requested(self, lines: JsonLines, note: Note) -> None:
        """Report the request of an endpoint to be connected."""
        assert self._eq is not None
        try:
            peer = peer_of(note)
        except FabricError:
            lines.close()
            return
        request = ConnectionRequest(self._requests, lines, peer)
        self._requests.add(request)
        info = dataclasses.replace(self.info, dest_addr=peer, handle=request)
        self._eq._report_connection(EqEvent.FI_CONNREQ, self, info, note.data)

    def _release(self) -> None:
        if self._reserved is not None:
            self._reserved.close()
        if self._listener is None or self._eq is None:
            return
        with self._eq._changed:
            self._listener.close()
            for request in list(self._requests):
                request.take().close()

    def __repr__(self) -> str:
        listens = f" at {self._address}" if self._listener is None or self.closed else f" listens at {self.getname()}"
        return f"<PassiveEndpoint{' closed' if self.closed else listens}>"
