"""The opaque handles, callbacks and numbers of ``ucp/api/ucp_def.h``, as types.

A handle in C is a pointer to a structure of the library. Here it is an object of one of these classes, which are
empty: the implementation of a handle derives from its class, so that structures and checks know the class from below.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

from amoeba.core.buffers import Buffer
from amoeba.openucx.ucp.status import UcsStatus

__all__ = [
    "ucp_address_t",
    "ucp_am_callback_t",
    "ucp_am_recv_callback_t",
    "ucp_am_recv_data_nbx_callback_t",
    "ucp_conn_request_h",
    "ucp_context_h",
    "ucp_datatype_t",
    "ucp_ep_h",
    "ucp_err_handler_cb_t",
    "ucp_listener_accept_callback_t",
    "ucp_listener_conn_callback_t",
    "ucp_listener_h",
    "ucp_mem_h",
    "ucp_request_cleanup_callback_t",
    "ucp_request_init_callback_t",
    "ucp_rkey_h",
    "ucp_send_callback_t",
    "ucp_send_nbx_callback_t",
    "ucp_stream_recv_callback_t",
    "ucp_stream_recv_nbx_callback_t",
    "ucp_tag_message_h",
    "ucp_tag_recv_callback_t",
    "ucp_tag_recv_nbx_callback_t",
    "ucp_tag_t",
    "ucp_worker_h",
    "ucs_cpu_set_t",
    "ucs_sock_addr_t",
]


class ucp_context_h:
    """A context: features and memory, shared by its workers."""

    __slots__ = ()


class ucp_worker_h:
    """A worker, which makes progress and receives."""

    __slots__ = ()


class ucp_ep_h:
    """A worker's way to one other worker."""

    __slots__ = ()


class ucp_listener_h:
    """A listener, which takes connection requests to a socket address."""

    __slots__ = ()


class ucp_conn_request_h:
    """A connection request that is neither accepted nor rejected yet."""

    __slots__ = ()


class ucp_mem_h:
    """Memory that peers may use."""

    __slots__ = ()


class ucp_rkey_h:
    """A peer's memory, as one endpoint may use it."""

    __slots__ = ()


class ucp_tag_message_h:
    """A tagged message that a probe has removed."""

    __slots__ = ()


ucp_address_t: TypeAlias = bytes
"""A worker's address, packed."""
ucp_tag_t: TypeAlias = int
"""64 bits."""
ucp_datatype_t: TypeAlias = int
"""64 bits: a class (:class:`ucp_dt_type`), and above it the number of the class."""
ucs_sock_addr_t: TypeAlias = tuple[Any, ...]
"""A socket address as :mod:`socket` has it: (host, port), or with IPv6 (host, port, flow, scope)."""
ucs_cpu_set_t: TypeAlias = frozenset[int]
"""Numbers of processors, as :func:`os.sched_getaffinity` has them."""

ucp_request_init_callback_t: TypeAlias = Callable[[Any], None]
"""``(request)``: once per request memory, when it is first used."""
ucp_request_cleanup_callback_t: TypeAlias = Callable[[Any], None]
"""``(request)``: when the request memory is released."""
ucp_send_callback_t: TypeAlias = Callable[[Any, UcsStatus], None]
"""``(request, status)``."""
ucp_send_nbx_callback_t: TypeAlias = Callable[[Any, UcsStatus, Any], None]
"""``(request, status, user_data)``."""
ucp_err_handler_cb_t: TypeAlias = Callable[[Any, ucp_ep_h, UcsStatus], None]
"""``(arg, ep, status)``: once per endpoint that fails."""
ucp_listener_accept_callback_t: TypeAlias = Callable[[ucp_ep_h, Any], None]
"""``(ep, arg)``."""
ucp_listener_conn_callback_t: TypeAlias = Callable[[ucp_conn_request_h, Any], None]
"""``(conn_request, arg)``."""
ucp_stream_recv_callback_t: TypeAlias = Callable[[Any, UcsStatus, int], None]
"""``(request, status, length)``: length in bytes."""
ucp_stream_recv_nbx_callback_t: TypeAlias = Callable[[Any, UcsStatus, int, Any], None]
"""``(request, status, length, user_data)``: length in bytes."""
ucp_tag_recv_callback_t: TypeAlias = Callable[[Any, UcsStatus, Any], None]
"""``(request, status, info)``, with a :class:`ucp_tag_recv_info_t`."""
ucp_tag_recv_nbx_callback_t: TypeAlias = Callable[[Any, UcsStatus, Any, Any], None]
"""``(request, status, tag_info, user_data)``, with a :class:`ucp_tag_recv_info_t`."""
ucp_am_recv_data_nbx_callback_t: TypeAlias = Callable[[Any, UcsStatus, int, Any], None]
"""``(request, status, length, user_data)``: length in bytes."""
ucp_am_callback_t: TypeAlias = Callable[[Any, Buffer, int, ucp_ep_h | None, int], UcsStatus]
"""``(arg, data, length, reply_ep, flags)``."""
ucp_am_recv_callback_t: TypeAlias = Callable[[Any, Buffer, int, Any, int, Any], UcsStatus]
"""``(arg, header, header_length, data, length, param)``, with a :class:`ucp_am_recv_param_t`."""
