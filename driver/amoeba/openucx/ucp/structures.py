# Generated from driver/amoeba/openucx/ucp-1.12.toml by scripts/api_tables; do not edit.
"""UCP's structures (``ucp/api/ucp.h`` and ``ucp_def.h`` of UCX 1.12.1): C's names, and its fields in its order.

Fields that a mask makes optional are named when a structure is made, and None if absent: see
:mod:`amoeba.openucx.ucp.field_masks`. The others are few, and may also be given in C's order.
"""

from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias

from amoeba.core.buffers import Buffer
from amoeba.openucx.ucp.constants import (
    UcsStatus,
    ucp_am_cb_flags,
    ucp_am_handler_param_field,
    ucp_am_recv_attr_t,
    ucp_conn_request_attr_field,
    ucp_context_attr_field,
    ucp_ep_attr_field,
    ucp_ep_params_field,
    ucp_ep_params_flags_field,
    ucp_ep_perf_attr_field_t,
    ucp_ep_perf_param_field_t,
    ucp_err_handling_mode_t,
    ucp_feature,
    ucp_lib_attr_field,
    ucp_listener_attr_field,
    ucp_listener_params_field,
    ucp_mem_advice_t,
    ucp_mem_advise_params_field,
    ucp_mem_attr_field,
    ucp_mem_map_flags,
    ucp_mem_map_params_field,
    ucp_mem_map_prot,
    ucp_op_attr_t,
    ucp_params_field,
    ucp_req_attr_field,
    ucp_wakeup_event_t,
    ucp_worker_address_attr_field,
    ucp_worker_address_flags_t,
    ucp_worker_attr_field,
    ucp_worker_flags_t,
    ucp_worker_params_field,
    ucs_memory_type_t,
    ucs_thread_mode_t,
)
from amoeba.openucx.ucp.field_masks import Attributes, Counted, OperationParameters, Parameters
from amoeba.openucx.ucp.handles import (
    ucp_address_t,
    ucp_am_recv_callback_t,
    ucp_conn_request_h,
    ucp_datatype_t,
    ucp_ep_h,
    ucp_err_handler_cb_t,
    ucp_listener_accept_callback_t,
    ucp_listener_conn_callback_t,
    ucp_request_cleanup_callback_t,
    ucp_request_init_callback_t,
    ucp_tag_t,
    ucs_cpu_set_t,
    ucs_sock_addr_t,
)
from amoeba.openucx.ucp.kinds import (
    INT,
    NAME,
    SIZE,
    UINT32,
    UINT64,
    am_handler_flags,
    anything,
    bits_of,
    callback,
    cpu_set,
    handler,
    instance_of,
    memory_address,
    one_of,
    optional,
    packed_address,
    real,
    socket_address,
)

__all__ = [
    "ucp_am_handler_param_t",
    "ucp_am_recv_param",
    "ucp_am_recv_param_t",
    "ucp_conn_request_attr_t",
    "ucp_context_attr_t",
    "ucp_ep_attr_t",
    "ucp_ep_evaluate_perf_attr_t",
    "ucp_ep_evaluate_perf_param_t",
    "ucp_ep_params_t",
    "ucp_err_handler_t",
    "ucp_lib_attr_t",
    "ucp_listener_accept_handler_t",
    "ucp_listener_attr_t",
    "ucp_listener_conn_handler_t",
    "ucp_listener_params_t",
    "ucp_mem_advise_params_t",
    "ucp_mem_attr_t",
    "ucp_mem_map_params_t",
    "ucp_params_t",
    "ucp_request_attr_t",
    "ucp_request_param_t",
    "ucp_stream_poll_ep_t",
    "ucp_tag_recv_info",
    "ucp_tag_recv_info_t",
    "ucp_worker_address_attr_t",
    "ucp_worker_attr_t",
    "ucp_worker_params_t",
]


@dataclass
class ucp_tag_recv_info:
    """Information about a tagged message. For receives without a tag only ``length`` is set."""

    sender_tag: ucp_tag_t = 0
    """As it was sent: all 64 bits."""
    length: int = 0
    """Bytes of the whole message, also if the buffer was shorter."""


ucp_tag_recv_info_t: TypeAlias = ucp_tag_recv_info


@dataclass
class ucp_am_recv_param:
    """Information about an active message for its handler."""

    recv_attr: ucp_am_recv_attr_t = ucp_am_recv_attr_t(0)  # noqa: RUF009  members do not change
    reply_ep: ucp_ep_h | None = None
    """The way back, if ``recv_attr`` says so."""


ucp_am_recv_param_t: TypeAlias = ucp_am_recv_param


@dataclass
class ucp_err_handler_t:
    """The handler of an endpoint's failure."""

    cb: ucp_err_handler_cb_t | None = None
    arg: Any = None
    """Given to ``cb``, unless the endpoint has ``user_data``."""


@dataclass
class ucp_listener_accept_handler_t:
    """The handler of an endpoint that a listener has made; deprecated (``ucp_compat.h``)."""

    cb: ucp_listener_accept_callback_t | None = None
    arg: Any = None


@dataclass
class ucp_listener_conn_handler_t:
    """The handler of connection requests."""

    cb: ucp_listener_conn_callback_t | None = None
    arg: Any = None


@dataclass(kw_only=True)
class ucp_params_t(Parameters):
    """Parameters of ``ucp_init``; only ``features`` has to be there."""

    field_mask: int | None = None
    features: Annotated[
        ucp_feature | None, Counted(ucp_params_field.UCP_PARAM_FIELD_FEATURES, bits_of(ucp_feature, 64))
    ] = None
    request_size: Annotated[int | None, Counted(ucp_params_field.UCP_PARAM_FIELD_REQUEST_SIZE, SIZE)] = None
    """Bytes that the application wants in every request; 0 if absent."""
    request_init: Annotated[
        ucp_request_init_callback_t | None, Counted(ucp_params_field.UCP_PARAM_FIELD_REQUEST_INIT, callback)
    ] = None
    request_cleanup: Annotated[
        ucp_request_cleanup_callback_t | None, Counted(ucp_params_field.UCP_PARAM_FIELD_REQUEST_CLEANUP, callback)
    ] = None
    tag_sender_mask: Annotated[int | None, Counted(ucp_params_field.UCP_PARAM_FIELD_TAG_SENDER_MASK, UINT64)] = None
    mt_workers_shared: Annotated[int | None, Counted(ucp_params_field.UCP_PARAM_FIELD_MT_WORKERS_SHARED, INT)] = None
    """Not 0: its workers belong to different threads."""
    estimated_num_eps: Annotated[int | None, Counted(ucp_params_field.UCP_PARAM_FIELD_ESTIMATED_NUM_EPS, SIZE)] = None
    estimated_num_ppn: Annotated[int | None, Counted(ucp_params_field.UCP_PARAM_FIELD_ESTIMATED_NUM_PPN, SIZE)] = None
    name: Annotated[str | None, Counted(ucp_params_field.UCP_PARAM_FIELD_NAME, NAME)] = None


@dataclass(kw_only=True)
class ucp_lib_attr_t(Attributes):
    """Results of ``ucp_lib_query``."""

    field_mask: int | None = None
    max_thread_level: Annotated[
        ucs_thread_mode_t | None,
        Counted(
            ucp_lib_attr_field.UCP_LIB_ATTR_FIELD_MAX_THREAD_LEVEL,
            one_of(ucs_thread_mode_t, ucs_thread_mode_t.UCS_THREAD_MODE_LAST),
        ),
    ] = None


@dataclass(kw_only=True)
class ucp_context_attr_t(Attributes):
    """Results of ``ucp_context_query``."""

    field_mask: int | None = None
    request_size: Annotated[int | None, Counted(ucp_context_attr_field.UCP_ATTR_FIELD_REQUEST_SIZE, SIZE)] = None
    """Bytes of the library's own part of a request."""
    thread_mode: Annotated[
        ucs_thread_mode_t | None,
        Counted(
            ucp_context_attr_field.UCP_ATTR_FIELD_THREAD_MODE,
            one_of(ucs_thread_mode_t, ucs_thread_mode_t.UCS_THREAD_MODE_LAST),
        ),
    ] = None
    memory_types: Annotated[int | None, Counted(ucp_context_attr_field.UCP_ATTR_FIELD_MEMORY_TYPES, UINT64)] = None
    """One bit per :class:`ucs_memory_type_t`."""
    name: Annotated[str | None, Counted(ucp_context_attr_field.UCP_ATTR_FIELD_NAME, NAME)] = None


@dataclass(kw_only=True)
class ucp_worker_attr_t(Attributes):
    """Results of ``ucp_worker_query``. ``address_flags`` is an input: the parts of the address."""

    field_mask: int | None = None
    thread_mode: Annotated[
        ucs_thread_mode_t | None,
        Counted(
            ucp_worker_attr_field.UCP_WORKER_ATTR_FIELD_THREAD_MODE,
            one_of(ucs_thread_mode_t, ucs_thread_mode_t.UCS_THREAD_MODE_LAST),
        ),
    ] = None
    address_flags: Annotated[
        ucp_worker_address_flags_t | None,
        Counted(ucp_worker_attr_field.UCP_WORKER_ATTR_FIELD_ADDRESS_FLAGS, bits_of(ucp_worker_address_flags_t, 32)),
    ] = None
    address: Annotated[
        ucp_address_t | None, Counted(ucp_worker_attr_field.UCP_WORKER_ATTR_FIELD_ADDRESS, packed_address)
    ] = None
    address_length: Annotated[int | None, Counted(ucp_worker_attr_field.UCP_WORKER_ATTR_FIELD_ADDRESS, SIZE)] = None
    max_am_header: Annotated[int | None, Counted(ucp_worker_attr_field.UCP_WORKER_ATTR_FIELD_MAX_AM_HEADER, SIZE)] = (
        None
    )
    """Bytes of the longest header of ``ucp_am_send_nbx``."""
    name: Annotated[str | None, Counted(ucp_worker_attr_field.UCP_WORKER_ATTR_FIELD_NAME, NAME)] = None
    max_debug_string: Annotated[
        int | None, Counted(ucp_worker_attr_field.UCP_WORKER_ATTR_FIELD_MAX_INFO_STRING, SIZE)
    ] = None


@dataclass(kw_only=True)
class ucp_worker_params_t(Parameters):
    """Parameters of ``ucp_worker_create``."""

    field_mask: int | None = None
    thread_mode: Annotated[
        ucs_thread_mode_t | None,
        Counted(
            ucp_worker_params_field.UCP_WORKER_PARAM_FIELD_THREAD_MODE,
            one_of(ucs_thread_mode_t, ucs_thread_mode_t.UCS_THREAD_MODE_LAST),
        ),
    ] = None
    cpu_mask: Annotated[
        ucs_cpu_set_t | None, Counted(ucp_worker_params_field.UCP_WORKER_PARAM_FIELD_CPU_MASK, cpu_set)
    ] = None
    events: Annotated[
        ucp_wakeup_event_t | None,
        Counted(ucp_worker_params_field.UCP_WORKER_PARAM_FIELD_EVENTS, bits_of(ucp_wakeup_event_t, 32)),
    ] = None
    """Events that wake the worker; all of them if absent."""
    user_data: Annotated[Any, Counted(ucp_worker_params_field.UCP_WORKER_PARAM_FIELD_USER_DATA, anything)] = None
    event_fd: Annotated[int | None, Counted(ucp_worker_params_field.UCP_WORKER_PARAM_FIELD_EVENT_FD, INT)] = None
    """A descriptor of the application's, such as epoll's, that shall report the events."""
    flags: Annotated[
        ucp_worker_flags_t | None,
        Counted(ucp_worker_params_field.UCP_WORKER_PARAM_FIELD_FLAGS, bits_of(ucp_worker_flags_t, 64)),
    ] = None
    name: Annotated[str | None, Counted(ucp_worker_params_field.UCP_WORKER_PARAM_FIELD_NAME, NAME)] = None
    am_alignment: Annotated[
        int | None, Counted(ucp_worker_params_field.UCP_WORKER_PARAM_FIELD_AM_ALIGNMENT, SIZE)
    ] = None
    """Bytes: where the data of active messages lies is a multiple of them."""
    client_id: Annotated[int | None, Counted(ucp_worker_params_field.UCP_WORKER_PARAM_FIELD_CLIENT_ID, UINT64)] = None


@dataclass(kw_only=True)
class ucp_worker_address_attr_t(Attributes):
    """Results of ``ucp_worker_address_query``."""

    field_mask: int | None = None
    worker_uid: Annotated[
        int | None, Counted(ucp_worker_address_attr_field.UCP_WORKER_ADDRESS_ATTR_FIELD_UID, UINT64)
    ] = None


@dataclass(kw_only=True)
class ucp_ep_params_t(Parameters):
    """Parameters of ``ucp_ep_create``: one of ``sockaddr``, ``conn_request``, ``address`` says to whom."""

    field_mask: int | None = None
    address: Annotated[
        ucp_address_t | None, Counted(ucp_ep_params_field.UCP_EP_PARAM_FIELD_REMOTE_ADDRESS, packed_address)
    ] = None
    err_mode: Annotated[
        ucp_err_handling_mode_t | None,
        Counted(ucp_ep_params_field.UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE, one_of(ucp_err_handling_mode_t)),
    ] = None
    err_handler: Annotated[
        ucp_err_handler_t | None,
        Counted(ucp_ep_params_field.UCP_EP_PARAM_FIELD_ERR_HANDLER, handler(ucp_err_handler_t)),
    ] = None
    user_data: Annotated[Any, Counted(ucp_ep_params_field.UCP_EP_PARAM_FIELD_USER_DATA, anything)] = None
    flags: Annotated[
        ucp_ep_params_flags_field | None,
        Counted(ucp_ep_params_field.UCP_EP_PARAM_FIELD_FLAGS, bits_of(ucp_ep_params_flags_field, 32)),
    ] = None
    sockaddr: Annotated[
        ucs_sock_addr_t | None, Counted(ucp_ep_params_field.UCP_EP_PARAM_FIELD_SOCK_ADDR, socket_address)
    ] = None
    conn_request: Annotated[
        ucp_conn_request_h | None,
        Counted(ucp_ep_params_field.UCP_EP_PARAM_FIELD_CONN_REQUEST, instance_of(ucp_conn_request_h)),
    ] = None
    name: Annotated[str | None, Counted(ucp_ep_params_field.UCP_EP_PARAM_FIELD_NAME, NAME)] = None


@dataclass(kw_only=True)
class ucp_ep_attr_t(Attributes):
    """Results of ``ucp_ep_query``. Only endpoints that were connected by a socket address have socket addresses."""

    field_mask: int | None = None
    name: Annotated[str | None, Counted(ucp_ep_attr_field.UCP_EP_ATTR_FIELD_NAME, NAME)] = None
    local_sockaddr: Annotated[
        ucs_sock_addr_t | None, Counted(ucp_ep_attr_field.UCP_EP_ATTR_FIELD_LOCAL_SOCKADDR, socket_address)
    ] = None
    remote_sockaddr: Annotated[
        ucs_sock_addr_t | None, Counted(ucp_ep_attr_field.UCP_EP_ATTR_FIELD_REMOTE_SOCKADDR, socket_address)
    ] = None


@dataclass(kw_only=True)
class ucp_ep_evaluate_perf_param_t(Parameters):
    """Parameters of ``ucp_ep_evaluate_perf``."""

    field_mask: int | None = None
    message_size: Annotated[
        int | None, Counted(ucp_ep_perf_param_field_t.UCP_EP_PERF_PARAM_FIELD_MESSAGE_SIZE, SIZE)
    ] = None


@dataclass(kw_only=True)
class ucp_ep_evaluate_perf_attr_t(Attributes):
    """Results of ``ucp_ep_evaluate_perf``."""

    field_mask: int | None = None
    estimated_time: Annotated[
        float | None, Counted(ucp_ep_perf_attr_field_t.UCP_EP_PERF_ATTR_FIELD_ESTIMATED_TIME, real)
    ] = None
    """Seconds."""


@dataclass
class ucp_stream_poll_ep_t:
    """An endpoint with unread data in its stream, from ``ucp_stream_worker_poll``."""

    ep: ucp_ep_h
    user_data: Any = None
    """As the endpoint was given it."""
    flags: int = 0
    """Reserved, as is the next."""
    reserved: bytes = bytes(16)


@dataclass(kw_only=True)
class ucp_listener_attr_t(Attributes):
    """Results of ``ucp_listener_query``."""

    field_mask: int | None = None
    sockaddr: Annotated[
        ucs_sock_addr_t | None, Counted(ucp_listener_attr_field.UCP_LISTENER_ATTR_FIELD_SOCKADDR, socket_address)
    ] = None
    """With the port that was chosen if port 0 was asked for."""


@dataclass(kw_only=True)
class ucp_conn_request_attr_t(Attributes):
    """Results of ``ucp_conn_request_query``."""

    field_mask: int | None = None
    client_address: Annotated[
        ucs_sock_addr_t | None,
        Counted(ucp_conn_request_attr_field.UCP_CONN_REQUEST_ATTR_FIELD_CLIENT_ADDR, socket_address),
    ] = None
    client_id: Annotated[
        int | None, Counted(ucp_conn_request_attr_field.UCP_CONN_REQUEST_ATTR_FIELD_CLIENT_ID, UINT64)
    ] = None
    """0 unless the client has sent it."""


@dataclass(kw_only=True)
class ucp_listener_params_t(Parameters):
    """Parameters of ``ucp_listener_create``: an address, and exactly one handler."""

    field_mask: int | None = None
    sockaddr: Annotated[
        ucs_sock_addr_t | None, Counted(ucp_listener_params_field.UCP_LISTENER_PARAM_FIELD_SOCK_ADDR, socket_address)
    ] = None
    accept_handler: Annotated[
        ucp_listener_accept_handler_t | None,
        Counted(
            ucp_listener_params_field.UCP_LISTENER_PARAM_FIELD_ACCEPT_HANDLER, handler(ucp_listener_accept_handler_t)
        ),
    ] = None
    conn_handler: Annotated[
        ucp_listener_conn_handler_t | None,
        Counted(
            ucp_listener_params_field.UCP_LISTENER_PARAM_FIELD_CONN_HANDLER, handler(ucp_listener_conn_handler_t)
        ),
    ] = None


@dataclass(kw_only=True)
class ucp_mem_map_params_t(Parameters):
    """Parameters of ``ucp_mem_map``. ``address`` is a buffer, or its address; None is NULL."""

    field_mask: int | None = None
    address: Annotated[
        Buffer | int | None, Counted(ucp_mem_map_params_field.UCP_MEM_MAP_PARAM_FIELD_ADDRESS, memory_address)
    ] = None
    length: Annotated[int | None, Counted(ucp_mem_map_params_field.UCP_MEM_MAP_PARAM_FIELD_LENGTH, SIZE)] = None
    flags: Annotated[
        ucp_mem_map_flags | None,
        Counted(ucp_mem_map_params_field.UCP_MEM_MAP_PARAM_FIELD_FLAGS, bits_of(ucp_mem_map_flags, 32)),
    ] = None
    prot: Annotated[
        ucp_mem_map_prot | None,
        Counted(ucp_mem_map_params_field.UCP_MEM_MAP_PARAM_FIELD_PROT, bits_of(ucp_mem_map_prot, 32)),
    ] = None
    """All rights if absent."""
    memory_type: Annotated[
        ucs_memory_type_t | None,
        Counted(ucp_mem_map_params_field.UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE, one_of(ucs_memory_type_t)),
    ] = None


@dataclass(kw_only=True)
class ucp_mem_advise_params_t(Parameters):
    """Parameters of ``ucp_mem_advise``; all of them have to be there."""

    field_mask: int | None = None
    address: Annotated[
        Buffer | int | None, Counted(ucp_mem_advise_params_field.UCP_MEM_ADVISE_PARAM_FIELD_ADDRESS, memory_address)
    ] = None
    length: Annotated[int | None, Counted(ucp_mem_advise_params_field.UCP_MEM_ADVISE_PARAM_FIELD_LENGTH, SIZE)] = None
    advice: Annotated[
        ucp_mem_advice_t | None,
        Counted(ucp_mem_advise_params_field.UCP_MEM_ADVISE_PARAM_FIELD_ADVICE, one_of(ucp_mem_advice_t)),
    ] = None


@dataclass(kw_only=True)
class ucp_mem_attr_t(Attributes):
    """Results of ``ucp_mem_query``; ``address`` is a number."""

    field_mask: int | None = None
    address: Annotated[int | None, Counted(ucp_mem_attr_field.UCP_MEM_ATTR_FIELD_ADDRESS, SIZE)] = None
    length: Annotated[int | None, Counted(ucp_mem_attr_field.UCP_MEM_ATTR_FIELD_LENGTH, SIZE)] = None
    mem_type: Annotated[
        ucs_memory_type_t | None, Counted(ucp_mem_attr_field.UCP_MEM_ATTR_FIELD_MEM_TYPE, one_of(ucs_memory_type_t))
    ] = None


@dataclass(kw_only=True)
class ucp_request_param_t(OperationParameters):
    """Parameters of every ``_nbx`` call beside its operands.

    ``op_attr_mask`` holds fields and flags. If it names any field, or is 0, it says which fields count; if it holds
    flags alone, or is absent, those count that are set. C's unions are one field each: ``cb`` takes what the call's
    callback type says, and ``recv_info`` is a :class:`ucp_tag_recv_info_t`, of which streams and active messages set
    the length.
    """

    op_attr_mask: int | None = None
    flags: Annotated[int | None, Counted(ucp_op_attr_t.UCP_OP_ATTR_FIELD_FLAGS, UINT32)] = None
    """Of the operation: each kind has its own."""
    request: Annotated[Any, Counted(ucp_op_attr_t.UCP_OP_ATTR_FIELD_REQUEST, anything)] = None
    cb: Annotated[Any, Counted(ucp_op_attr_t.UCP_OP_ATTR_FIELD_CALLBACK, callback)] = None
    datatype: Annotated[ucp_datatype_t | None, Counted(ucp_op_attr_t.UCP_OP_ATTR_FIELD_DATATYPE, UINT64)] = None
    """Bytes if absent."""
    user_data: Annotated[Any, Counted(ucp_op_attr_t.UCP_OP_ATTR_FIELD_USER_DATA, anything)] = None
    reply_buffer: Annotated[Buffer | None, Counted(ucp_op_attr_t.UCP_OP_ATTR_FIELD_REPLY_BUFFER, anything)] = None
    memory_type: Annotated[
        ucs_memory_type_t | None, Counted(ucp_op_attr_t.UCP_OP_ATTR_FIELD_MEMORY_TYPE, one_of(ucs_memory_type_t))
    ] = None
    recv_info: Annotated[
        ucp_tag_recv_info_t | None,
        Counted(ucp_op_attr_t.UCP_OP_ATTR_FIELD_RECV_INFO, optional(instance_of(ucp_tag_recv_info))),
    ] = None


@dataclass(kw_only=True)
class ucp_request_attr_t(Attributes):
    """Results of ``ucp_request_query``. ``debug_string_size`` is an input."""

    field_mask: int | None = None
    debug_string: Annotated[str | None, Counted(ucp_req_attr_field.UCP_REQUEST_ATTR_FIELD_INFO_STRING, NAME)] = None
    debug_string_size: Annotated[
        int | None, Counted(ucp_req_attr_field.UCP_REQUEST_ATTR_FIELD_INFO_STRING_SIZE, SIZE)
    ] = None
    """Bytes of the longest string that is wanted, the zero that ends C's included."""
    status: Annotated[
        UcsStatus | None, Counted(ucp_req_attr_field.UCP_REQUEST_ATTR_FIELD_STATUS, one_of(UcsStatus))
    ] = None
    mem_type: Annotated[
        ucs_memory_type_t | None,
        Counted(ucp_req_attr_field.UCP_REQUEST_ATTR_FIELD_MEM_TYPE, one_of(ucs_memory_type_t)),
    ] = None


@dataclass(kw_only=True)
class ucp_am_handler_param_t(Parameters):
    """Parameters of ``ucp_worker_set_am_recv_handler``. ``cb`` None with its bit in the mask removes the handler."""

    field_mask: int | None = None
    id: Annotated[int | None, Counted(ucp_am_handler_param_field.UCP_AM_HANDLER_PARAM_FIELD_ID, UINT32)] = None
    flags: Annotated[
        ucp_am_cb_flags | None, Counted(ucp_am_handler_param_field.UCP_AM_HANDLER_PARAM_FIELD_FLAGS, am_handler_flags)
    ] = None
    cb: Annotated[
        ucp_am_recv_callback_t | None, Counted(ucp_am_handler_param_field.UCP_AM_HANDLER_PARAM_FIELD_CB, callback)
    ] = None
    arg: Annotated[Any, Counted(ucp_am_handler_param_field.UCP_AM_HANDLER_PARAM_FIELD_ARG, anything)] = None
