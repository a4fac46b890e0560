"""The process's own context and worker, for asyncio programs: the module functions of ucxx."""

import array
import asyncio
import contextlib
import fcntl
import inspect
import os
import socket
import struct
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from amoeba.openucx.ucp.adapter import Adapter
from amoeba.openucx.ucp.library import ucp_get_version
from amoeba.openucx.ucp.status import invalid_param
from amoeba.openucx.ucxx.context import Context, read_config, texts
from amoeba.openucx.ucxx.endpoint import Endpoint
from amoeba.openucx.ucxx.listener import Listener
from amoeba.openucx.ucxx.names import ALL_FEATURES, Feature, TagMaskFull
from amoeba.openucx.ucxx.packed import Address
from amoeba.openucx.ucxx.request import Request
from amoeba.openucx.ucxx.worker import Worker

__all__ = [
    "ApplicationContext",
    "AsyncListener",
    "continuous_ucx_progress",
    "create_endpoint",
    "create_endpoint_from_worker_address",
    "create_listener",
    "fence",
    "flush",
    "get_active_transports",
    "get_address",
    "get_config",
    "get_ucp_context_info",
    "get_ucp_worker",
    "get_ucp_worker_info",
    "get_ucx_address_from_buffer",
    "get_ucx_version",
    "get_ucxx_worker",
    "get_worker_address",
    "init",
    "progress",
    "recv",
    "reset",
    "stop_notifier_thread",
]

MODES = ("blocking", "polling", "thread", "thread-polling")
_MODE_VARIABLE = "UCXPY_PROGRESS_MODE"
_INTERFACE_VARIABLE = "UCXPY_IFNAME"
_CONNECT_TIMEOUT = 60.0
_SIOCGIFADDR = 0x8915


class AsyncListener:
    """A listener whose callback, a function or a coroutine function, gets each endpoint."""

    def __init__(self, listener: Listener, clients: set[Any]) -> None:
        self._listener = listener
        self._clients = clients

    @property
    def closed(self) -> bool:
        """Whether the listener is closed."""
        return self._listener.closed

    @property
    def ip(self) -> str:
        """The IPv4 address of the listener."""
        return self._listener.ip

    @property
    def port(self) -> int:
        """The port of the listener."""
        return self._listener.port

    @property
    def active_clients(self) -> int:
        """The number of callbacks that have not returned."""
        return len(self._clients)

    def close(self) -> None:
        """Stop listening."""
        self._listener.close()

    def __enter__(self) -> "AsyncListener":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class ApplicationContext:
    """A context with a worker, and its mode of progress.

    ``progress_mode``: "blocking" and "polling" make progress in the event loops that use the context; "blocking" lets
    the loops sleep. "thread" and "thread-polling" use a thread. None: as UCXPY_PROGRESS_MODE says, else "blocking".
    The other arguments are those of :class:`Context`.
    """

    def __init__(
        self,
        config_dict: Mapping[str, Any] | None = None,
        progress_mode: str | None = None,
        enable_delayed_submission: bool | None = None,
        enable_python_future: bool | None = None,
        *,
        feature_flags: Iterable[Feature] = ALL_FEATURES,
        device: str | None = None,
        network: tuple[str, int] | None = None,
        adapter: Adapter | None = None,
    ) -> None:
        mode = os.environ.get(_MODE_VARIABLE, MODES[0]) if progress_mode is None else progress_mode
        if mode not in MODES:
            raise invalid_param(f"progress_mode: expected one of {', '.join(MODES)}, got {mode!r}")
        self.progress_mode = mode
        self.context = Context(config_dict, feature_flags, device=device, network=network, adapter=adapter)
        self.pid = os.getpid()
        try:
            self.worker = Worker(self.context, bool(enable_delayed_submission), bool(enable_python_future))
            if mode.startswith("thread"):
                self.worker.start_progress_thread(polling_mode=mode == "thread-polling", epoll_timeout=100)
            elif mode == "polling":
                self.worker.polling = True
            else:
                self.worker.init_blocking_progress_mode()
        except BaseException:
            self.context.close()
            raise

    def continuous_ucx_progress(self, event_loop: asyncio.AbstractEventLoop | None = None) -> None:
        """Have an event loop, the running one, make progress as long as it runs, also while no task waits.

        Does nothing if a thread makes progress. Creating listeners and endpoints calls this.
        """
        if self.worker.served:
            return
        loop = asyncio.get_running_loop() if event_loop is None else event_loop
        serving = self.worker._progress.serve(loop)
        if not serving.lasting:
            serving.lasting = True
            serving.begin()

    def create_listener(
        self,
        callback_func: Callable[..., Any],
        port: int = 0,
        endpoint_error_handling: bool = True,
        callback_args: tuple[Any, ...] = (),
        callback_kwargs: dict[str, Any] | None = None,
        *,
        ip_address: str = "0.0.0.0",
    ) -> AsyncListener:
        """Have ``callback_func(endpoint, ...)`` called, or awaited, in the running event loop for every client."""
        self.continuous_ucx_progress()
        loop = asyncio.get_running_loop()
        clients: set[Any] = set()

        async def serve(endpoint: Endpoint) -> None:
            await endpoint.connect()
            result = callback_func(endpoint, *callback_args, **(callback_kwargs or {}))
            if inspect.isawaitable(result):
                await result

        def begin(endpoint: Endpoint) -> None:
            task = loop.create_task(serve(endpoint))
            clients.add(task)
            task.add_done_callback(clients.discard)

        def called(endpoint: Endpoint) -> None:
            if threading.get_ident() == thread:
                begin(endpoint)
            else:
                with contextlib.suppress(RuntimeError):  # the loop was closed
                    loop.call_soon_threadsafe(begin, endpoint)

        thread = threading.get_ident()
        listener = Listener.create(
            self.worker,
            port,
            called,
            deliver_endpoint=True,
            ip_address=ip_address,
            endpoint_error_handling=endpoint_error_handling,
        )
        return AsyncListener(listener, clients)

    async def create_endpoint(
        self,
        ip_address: str,
        port: int,
        endpoint_error_handling: bool = True,
        connect_timeout: float = _CONNECT_TIMEOUT,
    ) -> Endpoint:
        """Return an endpoint that is connected to the listener at this address.

        Raises NOT_CONNECTED without a listener, REJECTED, or TIMED_OUT after ``connect_timeout`` seconds.
        """
        self.continuous_ucx_progress()
        endpoint = Endpoint.create(self.worker, ip_address, port, endpoint_error_handling)
        try:
            await endpoint.connect().wait(connect_timeout)
        except BaseException:
            endpoint.abort()
            raise
        return endpoint

    async def create_endpoint_from_worker_address(
        self, address: Address | bytes, endpoint_error_handling: bool = True
    ) -> Endpoint:
        """Return an endpoint to the worker with this address."""
        self.continuous_ucx_progress()
        return Endpoint.create_from_worker_address(self.worker, address, endpoint_error_handling)

    def recv(self, buffer: Any, tag: int, tag_mask: int = int(TagMaskFull)) -> Request:
        """Receive a message with this tag from any endpoint."""
        return self.worker.tag_recv(buffer, tag, tag_mask)

    def close(self) -> None:
        """Close the worker and the context, and all objects made from them."""
        self.worker.close()
        self.context.close()


_application: list[ApplicationContext] = []


def _get() -> ApplicationContext:
    """Return the process's own context, opened if necessary. A forked child gets its own."""
    if _application and (_application[0].context.closed or _application[0].pid != os.getpid()):
        _application.clear()
    if not _application:
        _application.append(ApplicationContext())
    return _application[0]


def init(
    options: Mapping[str, Any] | None = None,
    env_takes_precedence: bool = False,
    progress_mode: str | None = None,
    enable_delayed_submission: bool | None = None,
    enable_python_future: bool | None = None,
    *,
    device: str | None = None,
    network: tuple[str, int] | None = None,
    adapter: Adapter | None = None,
) -> None:
    """Open the process's own context with the given options; otherwise the first use opens it.

    ``options``: values of the configuration by key. ``env_takes_precedence``: UCX_* of the environment override them.
    The other arguments: see :class:`ApplicationContext`. Raises INVALID_PARAM if the context is open.
    """
    if _application and not _application[0].context.closed and _application[0].pid == os.getpid():
        raise invalid_param("init() was called before, or a call that needs it: it has to be the first")
    _application.clear()
    given = dict(options or {})
    if env_takes_precedence:
        given = {name: value for name, value in given.items() if f"UCX_{name.removeprefix('UCX_')}" not in os.environ}
    _application.append(
        ApplicationContext(
            given,
            progress_mode,
            enable_delayed_submission,
            enable_python_future,
            device=device,
            network=network,
            adapter=adapter,
        )
    )


def reset() -> None:
    """Close the process's own context and all objects made from it: endpoints and listeners, too."""
    if _application:
        _application.pop().close()


def stop_notifier_thread() -> None:
    """Do nothing: futures of event loops complete without a thread."""


def get_ucx_version() -> tuple[int, int, int]:
    """Return the version of UCX whose API this is."""
    return ucp_get_version()


def progress() -> bool:
    """Make progress; returns whether there was any. Programs that await do not need this."""
    return _get().worker.progress()


def get_config() -> dict[str, str]:
    """Return the configuration of the process's own context, or its defaults before the context is open."""
    if _application and not _application[0].context.closed:
        return _application[0].context.config
    return texts(read_config())


def create_listener(
    callback_func: Callable[..., Any],
    port: int = 0,
    endpoint_error_handling: bool = True,
    callback_args: tuple[Any, ...] = (),
    callback_kwargs: dict[str, Any] | None = None,
    *,
    ip_address: str = "0.0.0.0",
) -> AsyncListener:
    """Call :meth:`ApplicationContext.create_listener`."""
    return _get().create_listener(
        callback_func, port, endpoint_error_handling, callback_args, callback_kwargs, ip_address=ip_address
    )


async def create_endpoint(
    ip_address: str, port: int, endpoint_error_handling: bool = True, connect_timeout: float = _CONNECT_TIMEOUT
) -> Endpoint:
    """Call :meth:`ApplicationContext.create_endpoint`."""
    return await _get().create_endpoint(ip_address, port, endpoint_error_handling, connect_timeout)


async def create_endpoint_from_worker_address(
    address: Address | bytes, endpoint_error_handling: bool = True
) -> Endpoint:
    """Call :meth:`ApplicationContext.create_endpoint_from_worker_address`."""
    return await _get().create_endpoint_from_worker_address(address, endpoint_error_handling)


def get_ucp_context_info() -> str:
    """Describe the process's own context, in lines."""
    return _get().context.info


def get_ucp_worker_info() -> str:
    """Describe its worker, in lines."""
    return _get().worker.info


def get_active_transports() -> list[str]:
    """Return the kind of the context's NIC as the only entry."""
    return [_get().context.adapter.nic.device.name]


def continuous_ucx_progress(event_loop: asyncio.AbstractEventLoop | None = None) -> None:
    """Call :meth:`ApplicationContext.continuous_ucx_progress`."""
    _get().continuous_ucx_progress(event_loop)


def get_ucp_worker() -> int:
    """Return the number of the worker in this process."""
    return _get().worker.handle


def get_ucxx_worker() -> Worker:
    """Return the worker of the process's own context."""
    return _get().worker


def get_worker_address() -> Address:
    """Return the address of the worker."""
    return _get().worker.address


def get_ucx_address_from_buffer(buffer: Any) -> Address:
    """Return the address that a peer has sent."""
    return Address.create_from_buffer(buffer)


def recv(buffer: Any, tag: int, tag_mask: int = int(TagMaskFull)) -> Request:
    """Call :meth:`ApplicationContext.recv`."""
    return _get().recv(buffer, tag, tag_mask)


def flush() -> Request:
    """Call :meth:`Worker.flush` of the worker."""
    return _get().worker.flush()


def fence() -> None:
    """Call :meth:`Worker.fence` of the worker."""
    _get().worker.fence()


def get_address(ifname: str | None = None) -> str:
    """Return the IPv4 address of a network interface: of ``ifname``, or of UCXPY_IFNAME.

    Without a name, the first interface with an address counts, the loopback last. Raises OSError for an interface
    without an address.
    """
    name = os.environ.get(_INTERFACE_VARIABLE) if ifname is None else ifname
    if name is not None:
        return _address_of(name)
    for _, each in socket.if_nameindex():
        if each != "lo":
            with contextlib.suppress(OSError):
                return _address_of(each)
    return _address_of("lo")


def _address_of(interface: str) -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        request = array.array("B", struct.pack("256s", interface.encode()[:15]))
        fcntl.ioctl(asked.fileno(), _SIOCGIFADDR, request)
    return socket.inet_ntoa(request.tobytes()[20:24])
