"""Listeners: endpoints by socket addresses, at the server's end."""

import contextlib
import weakref
from collections.abc import Callable
from typing import Any, Self

from amoeba.openucx.ucp.calls.listeners import ucp_listener_create
from amoeba.openucx.ucp.connections import ConnectionRequest
from amoeba.openucx.ucp.connections import Listener as UcpListener
from amoeba.openucx.ucp.structures import ucp_listener_conn_handler_t, ucp_listener_params_t
from amoeba.openucx.ucxx.endpoint import Endpoint
from amoeba.openucx.ucxx.lifetime import Closable
from amoeba.openucx.ucxx.progress import in_turn
from amoeba.openucx.ucxx.worker import Worker

__all__ = ["Listener"]

_EVERYWHERE = "0.0.0.0"


class Listener(Closable):
    """Takes the connections of clients at a port. Made by :meth:`create`."""

    def __init__(
        self,
        worker: Worker,
        port: int,
        cb_func: Callable[..., object],
        cb_args: tuple[Any, ...],
        cb_kwargs: dict[str, Any],
        deliver_endpoint: bool,
        ip_address: str,
        endpoint_error_handling: bool,
    ) -> None:
        worker._check()
        self.worker = worker
        self._progress = worker._progress
        self._progress.tidy()
        self.enable_python_future = worker.enable_python_future
        known = weakref.ref(self)

        def called(conn_request: Any, arg: Any) -> None:
            listener = known()
            if listener is None:
                conn_request.reject()
            elif deliver_endpoint:
                endpoint = listener.create_endpoint_from_conn_request(conn_request, endpoint_error_handling)
                cb_func(endpoint, *cb_args, **cb_kwargs)
            else:
                cb_func(conn_request, *cb_args, **cb_kwargs)

        params = ucp_listener_params_t(
            sockaddr=(ip_address, port), conn_handler=ucp_listener_conn_handler_t(called, None)
        )
        self.ucp: UcpListener = ucp_listener_create(worker.ucp, params)
        """The listener of ``amoeba.ucp``."""
        self._address = self.ucp.sockaddr
        self._finalizer = weakref.finalize(self, self._progress.abandon, self.ucp.close)

    @classmethod
    def create(
        cls,
        worker: Worker,
        port: int,
        cb_func: Callable[..., object],
        cb_args: tuple[Any, ...] = (),
        cb_kwargs: dict[str, Any] | None = None,
        deliver_endpoint: bool = False,
        *,
        ip_address: str = _EVERYWHERE,
        endpoint_error_handling: bool = True,
    ) -> Self:
        """Have ``cb_func(conn_request, *cb_args, **cb_kwargs)`` called, from progress, for every client.

        With ``deliver_endpoint`` the function gets the endpoint instead. Port 0: the system chooses one. Raises BUSY
        if the port is in use, INVALID_ADDR if this host does not have the address.
        """
        with worker._progress if worker._progress.threaded else contextlib.nullcontext():
            return cls(
                worker, port, cb_func, cb_args, cb_kwargs or {}, deliver_endpoint, ip_address, endpoint_error_handling
            )

    def create_endpoint_from_conn_request(
        self, conn_request: ConnectionRequest, endpoint_error_handling: bool = True
    ) -> Endpoint:
        """Return the endpoint to the client that has sent the request."""
        return Endpoint.create_from_conn_request(self.worker, conn_request, endpoint_error_handling)

    @in_turn
    def reject(self, conn_request: ConnectionRequest) -> None:
        """Refuse a connection: the other end's endpoint fails with REJECTED."""
        conn_request.reject()

    @property
    def ip(self) -> str:
        """IPv4 address of the listener."""
        return str(self._address[0])

    @property
    def port(self) -> int:
        """Port of the listener, as the system has chosen it."""
        return int(self._address[1])

    @property
    def closed(self) -> bool:
        return self.ucp.closed

    @in_turn
    def close(self) -> None:
        """Stop listening. Endpoints stay open."""
        self._finalizer.detach()
        self.ucp.close()

    def __repr__(self) -> str:
        return f"<Listener at {self.ip}:{self.port}>"
