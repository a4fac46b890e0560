# Generated from driver/amoeba/openucx/ucp-1.12.toml by scripts/api_tables; do not edit.
"""UCP's enumerations, under C's own names and numbers (``ucp/api/ucp.h`` of UCX 1.12.1, and what that includes).

C's bits of an integer are an ``IntFlag``, which keeps unknown bits; C's counted values are an ``IntEnum``.
Their members are names of their own, too, as in C. UCP numbers atomic operations in three ways, UCT in a fourth: a
number of one enumeration means something else in the others.
"""

import enum

__all__ = [
    "UCP_AM_FLAG_PERSISTENT_DATA",
    "UCP_AM_FLAG_WHOLE_MSG",
    "UCP_AM_HANDLER_PARAM_FIELD_ARG",
    "UCP_AM_HANDLER_PARAM_FIELD_CB",
    "UCP_AM_HANDLER_PARAM_FIELD_FLAGS",
    "UCP_AM_HANDLER_PARAM_FIELD_ID",
    "UCP_AM_RECV_ATTR_FIELD_REPLY_EP",
    "UCP_AM_RECV_ATTR_FLAG_DATA",
    "UCP_AM_RECV_ATTR_FLAG_RNDV",
    "UCP_AM_SEND_FLAG_EAGER",
    "UCP_AM_SEND_FLAG_REPLY",
    "UCP_AM_SEND_FLAG_RNDV",
    "UCP_AM_SEND_REPLY",
    "UCP_ATOMIC_FETCH_OP_CSWAP",
    "UCP_ATOMIC_FETCH_OP_FADD",
    "UCP_ATOMIC_FETCH_OP_FAND",
    "UCP_ATOMIC_FETCH_OP_FOR",
    "UCP_ATOMIC_FETCH_OP_FXOR",
    "UCP_ATOMIC_FETCH_OP_LAST",
    "UCP_ATOMIC_FETCH_OP_SWAP",
    "UCP_ATOMIC_OP_ADD",
    "UCP_ATOMIC_OP_AND",
    "UCP_ATOMIC_OP_CSWAP",
    "UCP_ATOMIC_OP_LAST",
    "UCP_ATOMIC_OP_OR",
    "UCP_ATOMIC_OP_SWAP",
    "UCP_ATOMIC_OP_XOR",
    "UCP_ATOMIC_POST_OP_ADD",
    "UCP_ATOMIC_POST_OP_AND",
    "UCP_ATOMIC_POST_OP_LAST",
    "UCP_ATOMIC_POST_OP_OR",
    "UCP_ATOMIC_POST_OP_XOR",
    "UCP_ATTR_FIELD_MEMORY_TYPES",
    "UCP_ATTR_FIELD_NAME",
    "UCP_ATTR_FIELD_REQUEST_SIZE",
    "UCP_ATTR_FIELD_THREAD_MODE",
    "UCP_CB_PARAM_FLAG_DATA",
    "UCP_CONN_REQUEST_ATTR_FIELD_CLIENT_ADDR",
    "UCP_CONN_REQUEST_ATTR_FIELD_CLIENT_ID",
    "UCP_DATATYPE_CLASS_MASK",
    "UCP_DATATYPE_CONTIG",
    "UCP_DATATYPE_GENERIC",
    "UCP_DATATYPE_IOV",
    "UCP_DATATYPE_SHIFT",
    "UCP_DATATYPE_STRIDED",
    "UCP_ENTITY_NAME_MAX",
    "UCP_EP_ATTR_FIELD_LOCAL_SOCKADDR",
    "UCP_EP_ATTR_FIELD_NAME",
    "UCP_EP_ATTR_FIELD_REMOTE_SOCKADDR",
    "UCP_EP_CLOSE_FLAG_FORCE",
    "UCP_EP_CLOSE_MODE_FLUSH",
    "UCP_EP_CLOSE_MODE_FORCE",
    "UCP_EP_PARAMS_FLAGS_CLIENT_SERVER",
    "UCP_EP_PARAMS_FLAGS_NO_LOOPBACK",
    "UCP_EP_PARAMS_FLAGS_SEND_CLIENT_ID",
    "UCP_EP_PARAM_FIELD_CONN_REQUEST",
    "UCP_EP_PARAM_FIELD_ERR_HANDLER",
    "UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE",
    "UCP_EP_PARAM_FIELD_FLAGS",
    "UCP_EP_PARAM_FIELD_NAME",
    "UCP_EP_PARAM_FIELD_REMOTE_ADDRESS",
    "UCP_EP_PARAM_FIELD_SOCK_ADDR",
    "UCP_EP_PARAM_FIELD_USER_DATA",
    "UCP_EP_PERF_ATTR_FIELD_ESTIMATED_TIME",
    "UCP_EP_PERF_PARAM_FIELD_MESSAGE_SIZE",
    "UCP_ERR_HANDLING_MODE_NONE",
    "UCP_ERR_HANDLING_MODE_PEER",
    "UCP_FEATURE_AM",
    "UCP_FEATURE_AMO32",
    "UCP_FEATURE_AMO64",
    "UCP_FEATURE_RMA",
    "UCP_FEATURE_STREAM",
    "UCP_FEATURE_TAG",
    "UCP_FEATURE_WAKEUP",
    "UCP_LIB_ATTR_FIELD_MAX_THREAD_LEVEL",
    "UCP_LISTENER_ATTR_FIELD_SOCKADDR",
    "UCP_LISTENER_PARAM_FIELD_ACCEPT_HANDLER",
    "UCP_LISTENER_PARAM_FIELD_CONN_HANDLER",
    "UCP_LISTENER_PARAM_FIELD_SOCK_ADDR",
    "UCP_MADV_NORMAL",
    "UCP_MADV_WILLNEED",
    "UCP_MEM_ADVISE_PARAM_FIELD_ADDRESS",
    "UCP_MEM_ADVISE_PARAM_FIELD_ADVICE",
    "UCP_MEM_ADVISE_PARAM_FIELD_LENGTH",
    "UCP_MEM_ATTR_FIELD_ADDRESS",
    "UCP_MEM_ATTR_FIELD_LENGTH",
    "UCP_MEM_ATTR_FIELD_MEM_TYPE",
    "UCP_MEM_MAP_ALLOCATE",
    "UCP_MEM_MAP_FIXED",
    "UCP_MEM_MAP_NONBLOCK",
    "UCP_MEM_MAP_PARAM_FIELD_ADDRESS",
    "UCP_MEM_MAP_PARAM_FIELD_FLAGS",
    "UCP_MEM_MAP_PARAM_FIELD_LENGTH",
    "UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE",
    "UCP_MEM_MAP_PARAM_FIELD_PROT",
    "UCP_MEM_MAP_PROT_LOCAL_READ",
    "UCP_MEM_MAP_PROT_LOCAL_WRITE",
    "UCP_MEM_MAP_PROT_REMOTE_READ",
    "UCP_MEM_MAP_PROT_REMOTE_WRITE",
    "UCP_OP_ATTR_FIELD_CALLBACK",
    "UCP_OP_ATTR_FIELD_DATATYPE",
    "UCP_OP_ATTR_FIELD_FLAGS",
    "UCP_OP_ATTR_FIELD_MEMORY_TYPE",
    "UCP_OP_ATTR_FIELD_RECV_INFO",
    "UCP_OP_ATTR_FIELD_REPLY_BUFFER",
    "UCP_OP_ATTR_FIELD_REQUEST",
    "UCP_OP_ATTR_FIELD_USER_DATA",
    "UCP_OP_ATTR_FLAG_FAST_CMPL",
    "UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL",
    "UCP_OP_ATTR_FLAG_MULTI_SEND",
    "UCP_OP_ATTR_FLAG_NO_IMM_CMPL",
    "UCP_PARAM_FIELD_ESTIMATED_NUM_EPS",
    "UCP_PARAM_FIELD_ESTIMATED_NUM_PPN",
    "UCP_PARAM_FIELD_FEATURES",
    "UCP_PARAM_FIELD_MT_WORKERS_SHARED",
    "UCP_PARAM_FIELD_NAME",
    "UCP_PARAM_FIELD_REQUEST_CLEANUP",
    "UCP_PARAM_FIELD_REQUEST_INIT",
    "UCP_PARAM_FIELD_REQUEST_SIZE",
    "UCP_PARAM_FIELD_TAG_SENDER_MASK",
    "UCP_REQUEST_ATTR_FIELD_INFO_STRING",
    "UCP_REQUEST_ATTR_FIELD_INFO_STRING_SIZE",
    "UCP_REQUEST_ATTR_FIELD_MEM_TYPE",
    "UCP_REQUEST_ATTR_FIELD_STATUS",
    "UCP_STREAM_RECV_FLAG_WAITALL",
    "UCP_WAKEUP_AMO",
    "UCP_WAKEUP_EDGE",
    "UCP_WAKEUP_RMA",
    "UCP_WAKEUP_RX",
    "UCP_WAKEUP_TAG_RECV",
    "UCP_WAKEUP_TAG_SEND",
    "UCP_WAKEUP_TX",
    "UCP_WORKER_ADDRESS_ATTR_FIELD_UID",
    "UCP_WORKER_ADDRESS_FLAG_NET_ONLY",
    "UCP_WORKER_ATTR_FIELD_ADDRESS",
    "UCP_WORKER_ATTR_FIELD_ADDRESS_FLAGS",
    "UCP_WORKER_ATTR_FIELD_MAX_AM_HEADER",
    "UCP_WORKER_ATTR_FIELD_MAX_INFO_STRING",
    "UCP_WORKER_ATTR_FIELD_NAME",
    "UCP_WORKER_ATTR_FIELD_THREAD_MODE",
    "UCP_WORKER_FLAG_IGNORE_REQUEST_LEAK",
    "UCP_WORKER_PARAM_FIELD_AM_ALIGNMENT",
    "UCP_WORKER_PARAM_FIELD_CLIENT_ID",
    "UCP_WORKER_PARAM_FIELD_CPU_MASK",
    "UCP_WORKER_PARAM_FIELD_EVENTS",
    "UCP_WORKER_PARAM_FIELD_EVENT_FD",
    "UCP_WORKER_PARAM_FIELD_FLAGS",
    "UCP_WORKER_PARAM_FIELD_NAME",
    "UCP_WORKER_PARAM_FIELD_THREAD_MODE",
    "UCP_WORKER_PARAM_FIELD_USER_DATA",
    "UCS_CONFIG_PRINT_COMMENT_DEFAULT",
    "UCS_CONFIG_PRINT_CONFIG",
    "UCS_CONFIG_PRINT_DOC",
    "UCS_CONFIG_PRINT_HEADER",
    "UCS_CONFIG_PRINT_HIDDEN",
    "UCS_ERR_ALREADY_EXISTS",
    "UCS_ERR_BUFFER_TOO_SMALL",
    "UCS_ERR_BUSY",
    "UCS_ERR_CANCELED",
    "UCS_ERR_CONNECTION_RESET",
    "UCS_ERR_ENDPOINT_TIMEOUT",
    "UCS_ERR_EXCEEDS_LIMIT",
    "UCS_ERR_FIRST_ENDPOINT_FAILURE",
    "UCS_ERR_FIRST_LINK_FAILURE",
    "UCS_ERR_INVALID_ADDR",
    "UCS_ERR_INVALID_PARAM",
    "UCS_ERR_IO_ERROR",
    "UCS_ERR_LAST",
    "UCS_ERR_LAST_ENDPOINT_FAILURE",
    "UCS_ERR_LAST_LINK_FAILURE",
    "UCS_ERR_MESSAGE_TRUNCATED",
    "UCS_ERR_NOT_CONNECTED",
    "UCS_ERR_NOT_IMPLEMENTED",
    "UCS_ERR_NO_DEVICE",
    "UCS_ERR_NO_ELEM",
    "UCS_ERR_NO_MEMORY",
    "UCS_ERR_NO_MESSAGE",
    "UCS_ERR_NO_PROGRESS",
    "UCS_ERR_NO_RESOURCE",
    "UCS_ERR_OUT_OF_RANGE",
    "UCS_ERR_REJECTED",
    "UCS_ERR_SHMEM_SEGMENT",
    "UCS_ERR_SOME_CONNECTS_FAILED",
    "UCS_ERR_TIMED_OUT",
    "UCS_ERR_UNREACHABLE",
    "UCS_ERR_UNSUPPORTED",
    "UCS_INPROGRESS",
    "UCS_MEMORY_TYPE_CUDA",
    "UCS_MEMORY_TYPE_CUDA_MANAGED",
    "UCS_MEMORY_TYPE_HOST",
    "UCS_MEMORY_TYPE_LAST",
    "UCS_MEMORY_TYPE_ROCM",
    "UCS_MEMORY_TYPE_ROCM_MANAGED",
    "UCS_MEMORY_TYPE_UNKNOWN",
    "UCS_OK",
    "UCS_THREAD_MODE_LAST",
    "UCS_THREAD_MODE_MULTI",
    "UCS_THREAD_MODE_SERIALIZED",
    "UCS_THREAD_MODE_SINGLE",
    "UCT_ATOMIC_OP_ADD",
    "UCT_ATOMIC_OP_AND",
    "UCT_ATOMIC_OP_CSWAP",
    "UCT_ATOMIC_OP_LAST",
    "UCT_ATOMIC_OP_OR",
    "UCT_ATOMIC_OP_SWAP",
    "UCT_ATOMIC_OP_XOR",
    "UcsStatus",
    "ucp_am_cb_flags",
    "ucp_am_handler_param_field",
    "ucp_am_recv_attr_t",
    "ucp_atomic_fetch_op_t",
    "ucp_atomic_op_t",
    "ucp_atomic_post_op_t",
    "ucp_cb_param_flags",
    "ucp_conn_request_attr_field",
    "ucp_context_attr_field",
    "ucp_dt_type",
    "ucp_ep_attr_field",
    "ucp_ep_close_flags_t",
    "ucp_ep_close_mode",
    "ucp_ep_params_field",
    "ucp_ep_params_flags_field",
    "ucp_ep_perf_attr_field_t",
    "ucp_ep_perf_param_field_t",
    "ucp_err_handling_mode_t",
    "ucp_feature",
    "ucp_lib_attr_field",
    "ucp_listener_attr_field",
    "ucp_listener_params_field",
    "ucp_mem_advice_t",
    "ucp_mem_advise_params_field",
    "ucp_mem_attr_field",
    "ucp_mem_map_flags",
    "ucp_mem_map_params_field",
    "ucp_mem_map_prot",
    "ucp_op_attr_t",
    "ucp_params_field",
    "ucp_req_attr_field",
    "ucp_send_am_flags",
    "ucp_stream_recv_flags_t",
    "ucp_wakeup_event_t",
    "ucp_worker_address_attr_field",
    "ucp_worker_address_flags_t",
    "ucp_worker_attr_field",
    "ucp_worker_flags_t",
    "ucp_worker_params_field",
    "ucs_config_print_flags_t",
    "ucs_memory_type_t",
    "ucs_thread_mode_t",
    "uct_atomic_op_t",
]

UCP_ENTITY_NAME_MAX = 32
"""Bytes of an object's name, the zero behind it included."""


class ucp_params_field(enum.IntFlag):
    """Fields of :class:`ucp_params_t`."""

    UCP_PARAM_FIELD_FEATURES = 1 << 0
    UCP_PARAM_FIELD_REQUEST_SIZE = 1 << 1
    UCP_PARAM_FIELD_REQUEST_INIT = 1 << 2
    UCP_PARAM_FIELD_REQUEST_CLEANUP = 1 << 3
    UCP_PARAM_FIELD_TAG_SENDER_MASK = 1 << 4
    UCP_PARAM_FIELD_MT_WORKERS_SHARED = 1 << 5
    UCP_PARAM_FIELD_ESTIMATED_NUM_EPS = 1 << 6
    UCP_PARAM_FIELD_ESTIMATED_NUM_PPN = 1 << 7
    UCP_PARAM_FIELD_NAME = 1 << 8


UCP_PARAM_FIELD_FEATURES = ucp_params_field.UCP_PARAM_FIELD_FEATURES
UCP_PARAM_FIELD_REQUEST_SIZE = ucp_params_field.UCP_PARAM_FIELD_REQUEST_SIZE
UCP_PARAM_FIELD_REQUEST_INIT = ucp_params_field.UCP_PARAM_FIELD_REQUEST_INIT
UCP_PARAM_FIELD_REQUEST_CLEANUP = ucp_params_field.UCP_PARAM_FIELD_REQUEST_CLEANUP
UCP_PARAM_FIELD_TAG_SENDER_MASK = ucp_params_field.UCP_PARAM_FIELD_TAG_SENDER_MASK
UCP_PARAM_FIELD_MT_WORKERS_SHARED = ucp_params_field.UCP_PARAM_FIELD_MT_WORKERS_SHARED
UCP_PARAM_FIELD_ESTIMATED_NUM_EPS = ucp_params_field.UCP_PARAM_FIELD_ESTIMATED_NUM_EPS
UCP_PARAM_FIELD_ESTIMATED_NUM_PPN = ucp_params_field.UCP_PARAM_FIELD_ESTIMATED_NUM_PPN
UCP_PARAM_FIELD_NAME = ucp_params_field.UCP_PARAM_FIELD_NAME


class ucp_feature(enum.IntFlag):
    """Features of a context. A call without its feature fails with UCS_ERR_INVALID_PARAM."""

    UCP_FEATURE_TAG = 1 << 0
    UCP_FEATURE_RMA = 1 << 1
    UCP_FEATURE_AMO32 = 1 << 2
    UCP_FEATURE_AMO64 = 1 << 3
    UCP_FEATURE_WAKEUP = 1 << 4
    UCP_FEATURE_STREAM = 1 << 5
    UCP_FEATURE_AM = 1 << 6


UCP_FEATURE_TAG = ucp_feature.UCP_FEATURE_TAG
UCP_FEATURE_RMA = ucp_feature.UCP_FEATURE_RMA
UCP_FEATURE_AMO32 = ucp_feature.UCP_FEATURE_AMO32
UCP_FEATURE_AMO64 = ucp_feature.UCP_FEATURE_AMO64
UCP_FEATURE_WAKEUP = ucp_feature.UCP_FEATURE_WAKEUP
UCP_FEATURE_STREAM = ucp_feature.UCP_FEATURE_STREAM
UCP_FEATURE_AM = ucp_feature.UCP_FEATURE_AM


class ucp_worker_params_field(enum.IntFlag):
    """Fields of :class:`ucp_worker_params_t`."""

    UCP_WORKER_PARAM_FIELD_THREAD_MODE = 1 << 0
    UCP_WORKER_PARAM_FIELD_CPU_MASK = 1 << 1
    UCP_WORKER_PARAM_FIELD_EVENTS = 1 << 2
    UCP_WORKER_PARAM_FIELD_USER_DATA = 1 << 3
    UCP_WORKER_PARAM_FIELD_EVENT_FD = 1 << 4
    UCP_WORKER_PARAM_FIELD_FLAGS = 1 << 5
    UCP_WORKER_PARAM_FIELD_NAME = 1 << 6
    UCP_WORKER_PARAM_FIELD_AM_ALIGNMENT = 1 << 7
    UCP_WORKER_PARAM_FIELD_CLIENT_ID = 1 << 8


UCP_WORKER_PARAM_FIELD_THREAD_MODE = ucp_worker_params_field.UCP_WORKER_PARAM_FIELD_THREAD_MODE
UCP_WORKER_PARAM_FIELD_CPU_MASK = ucp_worker_params_field.UCP_WORKER_PARAM_FIELD_CPU_MASK
UCP_WORKER_PARAM_FIELD_EVENTS = ucp_worker_params_field.UCP_WORKER_PARAM_FIELD_EVENTS
UCP_WORKER_PARAM_FIELD_USER_DATA = ucp_worker_params_field.UCP_WORKER_PARAM_FIELD_USER_DATA
UCP_WORKER_PARAM_FIELD_EVENT_FD = ucp_worker_params_field.UCP_WORKER_PARAM_FIELD_EVENT_FD
UCP_WORKER_PARAM_FIELD_FLAGS = ucp_worker_params_field.UCP_WORKER_PARAM_FIELD_FLAGS
UCP_WORKER_PARAM_FIELD_NAME = ucp_worker_params_field.UCP_WORKER_PARAM_FIELD_NAME
UCP_WORKER_PARAM_FIELD_AM_ALIGNMENT = ucp_worker_params_field.UCP_WORKER_PARAM_FIELD_AM_ALIGNMENT
UCP_WORKER_PARAM_FIELD_CLIENT_ID = ucp_worker_params_field.UCP_WORKER_PARAM_FIELD_CLIENT_ID


class ucp_worker_flags_t(enum.IntFlag):
    """``flags`` of :class:`ucp_worker_params_t`."""

    UCP_WORKER_FLAG_IGNORE_REQUEST_LEAK = 1 << 0
    """No warning of requests that were not freed."""


UCP_WORKER_FLAG_IGNORE_REQUEST_LEAK = ucp_worker_flags_t.UCP_WORKER_FLAG_IGNORE_REQUEST_LEAK


class ucp_listener_params_field(enum.IntFlag):
    """Fields of :class:`ucp_listener_params_t`."""

    UCP_LISTENER_PARAM_FIELD_SOCK_ADDR = 1 << 0
    UCP_LISTENER_PARAM_FIELD_ACCEPT_HANDLER = 1 << 1
    UCP_LISTENER_PARAM_FIELD_CONN_HANDLER = 1 << 2


UCP_LISTENER_PARAM_FIELD_SOCK_ADDR = ucp_listener_params_field.UCP_LISTENER_PARAM_FIELD_SOCK_ADDR
UCP_LISTENER_PARAM_FIELD_ACCEPT_HANDLER = ucp_listener_params_field.UCP_LISTENER_PARAM_FIELD_ACCEPT_HANDLER
UCP_LISTENER_PARAM_FIELD_CONN_HANDLER = ucp_listener_params_field.UCP_LISTENER_PARAM_FIELD_CONN_HANDLER


class ucp_worker_address_flags_t(enum.IntFlag):
    """``address_flags`` of :class:`ucp_worker_attr_t`."""

    UCP_WORKER_ADDRESS_FLAG_NET_ONLY = 1 << 0
    """Without what only processes of the same host could use."""


UCP_WORKER_ADDRESS_FLAG_NET_ONLY = ucp_worker_address_flags_t.UCP_WORKER_ADDRESS_FLAG_NET_ONLY


class ucp_ep_params_field(enum.IntFlag):
    """Fields of :class:`ucp_ep_params_t`."""

    UCP_EP_PARAM_FIELD_REMOTE_ADDRESS = 1 << 0
    UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE = 1 << 1
    UCP_EP_PARAM_FIELD_ERR_HANDLER = 1 << 2
    UCP_EP_PARAM_FIELD_USER_DATA = 1 << 3
    UCP_EP_PARAM_FIELD_SOCK_ADDR = 1 << 4
    UCP_EP_PARAM_FIELD_FLAGS = 1 << 5
    UCP_EP_PARAM_FIELD_CONN_REQUEST = 1 << 6
    UCP_EP_PARAM_FIELD_NAME = 1 << 7


UCP_EP_PARAM_FIELD_REMOTE_ADDRESS = ucp_ep_params_field.UCP_EP_PARAM_FIELD_REMOTE_ADDRESS
UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE = ucp_ep_params_field.UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE
UCP_EP_PARAM_FIELD_ERR_HANDLER = ucp_ep_params_field.UCP_EP_PARAM_FIELD_ERR_HANDLER
UCP_EP_PARAM_FIELD_USER_DATA = ucp_ep_params_field.UCP_EP_PARAM_FIELD_USER_DATA
UCP_EP_PARAM_FIELD_SOCK_ADDR = ucp_ep_params_field.UCP_EP_PARAM_FIELD_SOCK_ADDR
UCP_EP_PARAM_FIELD_FLAGS = ucp_ep_params_field.UCP_EP_PARAM_FIELD_FLAGS
UCP_EP_PARAM_FIELD_CONN_REQUEST = ucp_ep_params_field.UCP_EP_PARAM_FIELD_CONN_REQUEST
UCP_EP_PARAM_FIELD_NAME = ucp_ep_params_field.UCP_EP_PARAM_FIELD_NAME


class ucp_ep_params_flags_field(enum.IntFlag):
    """``flags`` of :class:`ucp_ep_params_t`."""

    UCP_EP_PARAMS_FLAGS_CLIENT_SERVER = 1 << 0
    """Connect to ``sockaddr``."""
    UCP_EP_PARAMS_FLAGS_NO_LOOPBACK = 1 << 1
    """An endpoint to its own worker is not its own peer: the next one made so is."""
    UCP_EP_PARAMS_FLAGS_SEND_CLIENT_ID = 1 << 2
    """The connection request tells the worker's ``client_id``."""


UCP_EP_PARAMS_FLAGS_CLIENT_SERVER = ucp_ep_params_flags_field.UCP_EP_PARAMS_FLAGS_CLIENT_SERVER
UCP_EP_PARAMS_FLAGS_NO_LOOPBACK = ucp_ep_params_flags_field.UCP_EP_PARAMS_FLAGS_NO_LOOPBACK
UCP_EP_PARAMS_FLAGS_SEND_CLIENT_ID = ucp_ep_params_flags_field.UCP_EP_PARAMS_FLAGS_SEND_CLIENT_ID


class ucp_ep_close_flags_t(enum.IntFlag):
    """``flags`` of the parameters of ``ucp_ep_close_nbx``."""

    UCP_EP_CLOSE_FLAG_FORCE = 1 << 0
    """At once, without the peer; outstanding operations are canceled."""


UCP_EP_CLOSE_FLAG_FORCE = ucp_ep_close_flags_t.UCP_EP_CLOSE_FLAG_FORCE


class ucp_ep_close_mode(enum.IntEnum):
    """``mode`` of ``ucp_ep_close_nb``. FORCE is 0 here, and 1 in :class:`ucp_ep_close_flags_t`."""

    UCP_EP_CLOSE_MODE_FORCE = 0
    """At once, without the peer; outstanding operations are canceled."""
    UCP_EP_CLOSE_MODE_FLUSH = 1
    """When everything that was sent has been delivered."""


UCP_EP_CLOSE_MODE_FORCE = ucp_ep_close_mode.UCP_EP_CLOSE_MODE_FORCE
UCP_EP_CLOSE_MODE_FLUSH = ucp_ep_close_mode.UCP_EP_CLOSE_MODE_FLUSH


class ucp_ep_perf_param_field_t(enum.IntFlag):
    """Fields of :class:`ucp_ep_evaluate_perf_param_t`."""

    UCP_EP_PERF_PARAM_FIELD_MESSAGE_SIZE = 1 << 0


UCP_EP_PERF_PARAM_FIELD_MESSAGE_SIZE = ucp_ep_perf_param_field_t.UCP_EP_PERF_PARAM_FIELD_MESSAGE_SIZE


class ucp_ep_perf_attr_field_t(enum.IntFlag):
    """Fields of :class:`ucp_ep_evaluate_perf_attr_t`."""

    UCP_EP_PERF_ATTR_FIELD_ESTIMATED_TIME = 1 << 0


UCP_EP_PERF_ATTR_FIELD_ESTIMATED_TIME = ucp_ep_perf_attr_field_t.UCP_EP_PERF_ATTR_FIELD_ESTIMATED_TIME


class ucp_mem_map_params_field(enum.IntFlag):
    """Fields of :class:`ucp_mem_map_params_t`."""

    UCP_MEM_MAP_PARAM_FIELD_ADDRESS = 1 << 0
    UCP_MEM_MAP_PARAM_FIELD_LENGTH = 1 << 1
    UCP_MEM_MAP_PARAM_FIELD_FLAGS = 1 << 2
    UCP_MEM_MAP_PARAM_FIELD_PROT = 1 << 3
    UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE = 1 << 4


UCP_MEM_MAP_PARAM_FIELD_ADDRESS = ucp_mem_map_params_field.UCP_MEM_MAP_PARAM_FIELD_ADDRESS
UCP_MEM_MAP_PARAM_FIELD_LENGTH = ucp_mem_map_params_field.UCP_MEM_MAP_PARAM_FIELD_LENGTH
UCP_MEM_MAP_PARAM_FIELD_FLAGS = ucp_mem_map_params_field.UCP_MEM_MAP_PARAM_FIELD_FLAGS
UCP_MEM_MAP_PARAM_FIELD_PROT = ucp_mem_map_params_field.UCP_MEM_MAP_PARAM_FIELD_PROT
UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE = ucp_mem_map_params_field.UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE


class ucp_mem_advise_params_field(enum.IntFlag):
    """Fields of :class:`ucp_mem_advise_params_t`."""

    UCP_MEM_ADVISE_PARAM_FIELD_ADDRESS = 1 << 0
    UCP_MEM_ADVISE_PARAM_FIELD_LENGTH = 1 << 1
    UCP_MEM_ADVISE_PARAM_FIELD_ADVICE = 1 << 2


UCP_MEM_ADVISE_PARAM_FIELD_ADDRESS = ucp_mem_advise_params_field.UCP_MEM_ADVISE_PARAM_FIELD_ADDRESS
UCP_MEM_ADVISE_PARAM_FIELD_LENGTH = ucp_mem_advise_params_field.UCP_MEM_ADVISE_PARAM_FIELD_LENGTH
UCP_MEM_ADVISE_PARAM_FIELD_ADVICE = ucp_mem_advise_params_field.UCP_MEM_ADVISE_PARAM_FIELD_ADVICE


class ucp_lib_attr_field(enum.IntFlag):
    """Fields of :class:`ucp_lib_attr_t`."""

    UCP_LIB_ATTR_FIELD_MAX_THREAD_LEVEL = 1 << 0


UCP_LIB_ATTR_FIELD_MAX_THREAD_LEVEL = ucp_lib_attr_field.UCP_LIB_ATTR_FIELD_MAX_THREAD_LEVEL


class ucp_context_attr_field(enum.IntFlag):
    """Fields of :class:`ucp_context_attr_t`."""

    UCP_ATTR_FIELD_REQUEST_SIZE = 1 << 0
    UCP_ATTR_FIELD_THREAD_MODE = 1 << 1
    UCP_ATTR_FIELD_MEMORY_TYPES = 1 << 2
    UCP_ATTR_FIELD_NAME = 1 << 3


UCP_ATTR_FIELD_REQUEST_SIZE = ucp_context_attr_field.UCP_ATTR_FIELD_REQUEST_SIZE
UCP_ATTR_FIELD_THREAD_MODE = ucp_context_attr_field.UCP_ATTR_FIELD_THREAD_MODE
UCP_ATTR_FIELD_MEMORY_TYPES = ucp_context_attr_field.UCP_ATTR_FIELD_MEMORY_TYPES
UCP_ATTR_FIELD_NAME = ucp_context_attr_field.UCP_ATTR_FIELD_NAME


class ucp_worker_attr_field(enum.IntFlag):
    """Fields of :class:`ucp_worker_attr_t`."""

    UCP_WORKER_ATTR_FIELD_THREAD_MODE = 1 << 0
    UCP_WORKER_ATTR_FIELD_ADDRESS = 1 << 1
    UCP_WORKER_ATTR_FIELD_ADDRESS_FLAGS = 1 << 2
    """``address_flags`` is an input."""
    UCP_WORKER_ATTR_FIELD_MAX_AM_HEADER = 1 << 3
    UCP_WORKER_ATTR_FIELD_NAME = 1 << 4
    UCP_WORKER_ATTR_FIELD_MAX_INFO_STRING = 1 << 5


UCP_WORKER_ATTR_FIELD_THREAD_MODE = ucp_worker_attr_field.UCP_WORKER_ATTR_FIELD_THREAD_MODE
UCP_WORKER_ATTR_FIELD_ADDRESS = ucp_worker_attr_field.UCP_WORKER_ATTR_FIELD_ADDRESS
UCP_WORKER_ATTR_FIELD_ADDRESS_FLAGS = ucp_worker_attr_field.UCP_WORKER_ATTR_FIELD_ADDRESS_FLAGS
UCP_WORKER_ATTR_FIELD_MAX_AM_HEADER = ucp_worker_attr_field.UCP_WORKER_ATTR_FIELD_MAX_AM_HEADER
UCP_WORKER_ATTR_FIELD_NAME = ucp_worker_attr_field.UCP_WORKER_ATTR_FIELD_NAME
UCP_WORKER_ATTR_FIELD_MAX_INFO_STRING = ucp_worker_attr_field.UCP_WORKER_ATTR_FIELD_MAX_INFO_STRING


class ucp_worker_address_attr_field(enum.IntFlag):
    """Fields of :class:`ucp_worker_address_attr_t`."""

    UCP_WORKER_ADDRESS_ATTR_FIELD_UID = 1 << 0


UCP_WORKER_ADDRESS_ATTR_FIELD_UID = ucp_worker_address_attr_field.UCP_WORKER_ADDRESS_ATTR_FIELD_UID


class ucp_listener_attr_field(enum.IntFlag):
    """Fields of :class:`ucp_listener_attr_t`."""

    UCP_LISTENER_ATTR_FIELD_SOCKADDR = 1 << 0


UCP_LISTENER_ATTR_FIELD_SOCKADDR = ucp_listener_attr_field.UCP_LISTENER_ATTR_FIELD_SOCKADDR


class ucp_conn_request_attr_field(enum.IntFlag):
    """Fields of :class:`ucp_conn_request_attr_t`."""

    UCP_CONN_REQUEST_ATTR_FIELD_CLIENT_ADDR = 1 << 0
    UCP_CONN_REQUEST_ATTR_FIELD_CLIENT_ID = 1 << 1


UCP_CONN_REQUEST_ATTR_FIELD_CLIENT_ADDR = ucp_conn_request_attr_field.UCP_CONN_REQUEST_ATTR_FIELD_CLIENT_ADDR
UCP_CONN_REQUEST_ATTR_FIELD_CLIENT_ID = ucp_conn_request_attr_field.UCP_CONN_REQUEST_ATTR_FIELD_CLIENT_ID


class ucp_dt_type(enum.IntEnum):
    """The lowest three bits of a datatype, and where the rest begins."""

    UCP_DATATYPE_CONTIG = 0
    """Elements of one size, one behind the other."""
    UCP_DATATYPE_STRIDED = 1
    """Reserved: no call takes it."""
    UCP_DATATYPE_IOV = 2
    """A list of :class:`ucp_dt_iov_t`."""
    UCP_DATATYPE_GENERIC = 7
    """Packed and unpacked by the application."""
    UCP_DATATYPE_SHIFT = 3
    """Not a class: how far the rest of a datatype is shifted."""
    UCP_DATATYPE_CLASS_MASK = 7
    """Not a class: the bits that hold it."""


UCP_DATATYPE_CONTIG = ucp_dt_type.UCP_DATATYPE_CONTIG
UCP_DATATYPE_STRIDED = ucp_dt_type.UCP_DATATYPE_STRIDED
UCP_DATATYPE_IOV = ucp_dt_type.UCP_DATATYPE_IOV
UCP_DATATYPE_GENERIC = ucp_dt_type.UCP_DATATYPE_GENERIC
UCP_DATATYPE_SHIFT = ucp_dt_type.UCP_DATATYPE_SHIFT
UCP_DATATYPE_CLASS_MASK = ucp_dt_type.UCP_DATATYPE_CLASS_MASK


class ucp_mem_map_flags(enum.IntFlag):
    """``flags`` of :class:`ucp_mem_map_params_t`. C gives this enumeration no name."""

    UCP_MEM_MAP_NONBLOCK = 1 << 0
    """The call need not wait until all pages are mapped."""
    UCP_MEM_MAP_ALLOCATE = 1 << 1
    """The library allocates the memory."""
    UCP_MEM_MAP_FIXED = 1 << 2
    """At ``address`` or not at all; with ALLOCATE only."""


UCP_MEM_MAP_NONBLOCK = ucp_mem_map_flags.UCP_MEM_MAP_NONBLOCK
UCP_MEM_MAP_ALLOCATE = ucp_mem_map_flags.UCP_MEM_MAP_ALLOCATE
UCP_MEM_MAP_FIXED = ucp_mem_map_flags.UCP_MEM_MAP_FIXED


class ucp_mem_map_prot(enum.IntFlag):
    """``prot`` of :class:`ucp_mem_map_params_t`. C gives this enumeration no name."""

    UCP_MEM_MAP_PROT_LOCAL_READ = 1 << 0
    UCP_MEM_MAP_PROT_LOCAL_WRITE = 1 << 1
    UCP_MEM_MAP_PROT_REMOTE_READ = 1 << 8
    UCP_MEM_MAP_PROT_REMOTE_WRITE = 1 << 9


UCP_MEM_MAP_PROT_LOCAL_READ = ucp_mem_map_prot.UCP_MEM_MAP_PROT_LOCAL_READ
UCP_MEM_MAP_PROT_LOCAL_WRITE = ucp_mem_map_prot.UCP_MEM_MAP_PROT_LOCAL_WRITE
UCP_MEM_MAP_PROT_REMOTE_READ = ucp_mem_map_prot.UCP_MEM_MAP_PROT_REMOTE_READ
UCP_MEM_MAP_PROT_REMOTE_WRITE = ucp_mem_map_prot.UCP_MEM_MAP_PROT_REMOTE_WRITE


class ucp_am_cb_flags(enum.IntFlag):
    """``flags`` of a handler of active messages."""

    UCP_AM_FLAG_WHOLE_MSG = 1 << 0
    """One call per message, however long."""
    UCP_AM_FLAG_PERSISTENT_DATA = 1 << 1
    """Data may always be kept by returning UCS_INPROGRESS."""


UCP_AM_FLAG_WHOLE_MSG = ucp_am_cb_flags.UCP_AM_FLAG_WHOLE_MSG
UCP_AM_FLAG_PERSISTENT_DATA = ucp_am_cb_flags.UCP_AM_FLAG_PERSISTENT_DATA


class ucp_send_am_flags(enum.IntFlag):
    """``flags`` of a sent active message."""

    UCP_AM_SEND_FLAG_REPLY = 1 << 0
    """The receiver is given an endpoint to answer through."""
    UCP_AM_SEND_FLAG_EAGER = 1 << 1
    """The data goes with the message, however long; wins over RNDV."""
    UCP_AM_SEND_FLAG_RNDV = 1 << 2
    """The receiver fetches the data, however short."""
    UCP_AM_SEND_REPLY = UCP_AM_SEND_FLAG_REPLY
    """Its old name."""


UCP_AM_SEND_FLAG_REPLY = ucp_send_am_flags.UCP_AM_SEND_FLAG_REPLY
UCP_AM_SEND_FLAG_EAGER = ucp_send_am_flags.UCP_AM_SEND_FLAG_EAGER
UCP_AM_SEND_FLAG_RNDV = ucp_send_am_flags.UCP_AM_SEND_FLAG_RNDV
UCP_AM_SEND_REPLY = ucp_send_am_flags.UCP_AM_SEND_REPLY


class ucp_cb_param_flags(enum.IntFlag):
    """``flags`` that an old handler of active messages (``ucp_am_callback_t``) is called with."""

    UCP_CB_PARAM_FLAG_DATA = 1 << 0
    """The data may be kept by returning UCS_INPROGRESS."""


UCP_CB_PARAM_FLAG_DATA = ucp_cb_param_flags.UCP_CB_PARAM_FLAG_DATA


class ucp_atomic_post_op_t(enum.IntEnum):
    """Operations of ``ucp_atomic_post``."""

    UCP_ATOMIC_POST_OP_ADD = 0
    UCP_ATOMIC_POST_OP_AND = 1
    UCP_ATOMIC_POST_OP_OR = 2
    UCP_ATOMIC_POST_OP_XOR = 3
    UCP_ATOMIC_POST_OP_LAST = 4


UCP_ATOMIC_POST_OP_ADD = ucp_atomic_post_op_t.UCP_ATOMIC_POST_OP_ADD
UCP_ATOMIC_POST_OP_AND = ucp_atomic_post_op_t.UCP_ATOMIC_POST_OP_AND
UCP_ATOMIC_POST_OP_OR = ucp_atomic_post_op_t.UCP_ATOMIC_POST_OP_OR
UCP_ATOMIC_POST_OP_XOR = ucp_atomic_post_op_t.UCP_ATOMIC_POST_OP_XOR
UCP_ATOMIC_POST_OP_LAST = ucp_atomic_post_op_t.UCP_ATOMIC_POST_OP_LAST


class ucp_atomic_fetch_op_t(enum.IntEnum):
    """Operations of ``ucp_atomic_fetch_nb``."""

    UCP_ATOMIC_FETCH_OP_FADD = 0
    UCP_ATOMIC_FETCH_OP_SWAP = 1
    UCP_ATOMIC_FETCH_OP_CSWAP = 2
    UCP_ATOMIC_FETCH_OP_FAND = 3
    UCP_ATOMIC_FETCH_OP_FOR = 4
    UCP_ATOMIC_FETCH_OP_FXOR = 5
    UCP_ATOMIC_FETCH_OP_LAST = 6


UCP_ATOMIC_FETCH_OP_FADD = ucp_atomic_fetch_op_t.UCP_ATOMIC_FETCH_OP_FADD
UCP_ATOMIC_FETCH_OP_SWAP = ucp_atomic_fetch_op_t.UCP_ATOMIC_FETCH_OP_SWAP
UCP_ATOMIC_FETCH_OP_CSWAP = ucp_atomic_fetch_op_t.UCP_ATOMIC_FETCH_OP_CSWAP
UCP_ATOMIC_FETCH_OP_FAND = ucp_atomic_fetch_op_t.UCP_ATOMIC_FETCH_OP_FAND
UCP_ATOMIC_FETCH_OP_FOR = ucp_atomic_fetch_op_t.UCP_ATOMIC_FETCH_OP_FOR
UCP_ATOMIC_FETCH_OP_FXOR = ucp_atomic_fetch_op_t.UCP_ATOMIC_FETCH_OP_FXOR
UCP_ATOMIC_FETCH_OP_LAST = ucp_atomic_fetch_op_t.UCP_ATOMIC_FETCH_OP_LAST


class ucp_atomic_op_t(enum.IntEnum):
    """Operations of ``ucp_atomic_op_nbx``."""

    UCP_ATOMIC_OP_ADD = 0
    UCP_ATOMIC_OP_SWAP = 1
    UCP_ATOMIC_OP_CSWAP = 2
    UCP_ATOMIC_OP_AND = 3
    UCP_ATOMIC_OP_OR = 4
    UCP_ATOMIC_OP_XOR = 5
    UCP_ATOMIC_OP_LAST = 6


UCP_ATOMIC_OP_ADD = ucp_atomic_op_t.UCP_ATOMIC_OP_ADD
UCP_ATOMIC_OP_SWAP = ucp_atomic_op_t.UCP_ATOMIC_OP_SWAP
UCP_ATOMIC_OP_CSWAP = ucp_atomic_op_t.UCP_ATOMIC_OP_CSWAP
UCP_ATOMIC_OP_AND = ucp_atomic_op_t.UCP_ATOMIC_OP_AND
UCP_ATOMIC_OP_OR = ucp_atomic_op_t.UCP_ATOMIC_OP_OR
UCP_ATOMIC_OP_XOR = ucp_atomic_op_t.UCP_ATOMIC_OP_XOR
UCP_ATOMIC_OP_LAST = ucp_atomic_op_t.UCP_ATOMIC_OP_LAST


class ucp_stream_recv_flags_t(enum.IntFlag):
    """``flags`` of a receive from a stream."""

    UCP_STREAM_RECV_FLAG_WAITALL = 1 << 0
    """Not before the buffer is full."""


UCP_STREAM_RECV_FLAG_WAITALL = ucp_stream_recv_flags_t.UCP_STREAM_RECV_FLAG_WAITALL


class ucp_op_attr_t(enum.IntFlag):
    """``op_attr_mask`` of :class:`ucp_request_param_t`: its fields below bit 16, flags of the operation above."""

    UCP_OP_ATTR_FIELD_REQUEST = 1 << 0
    UCP_OP_ATTR_FIELD_CALLBACK = 1 << 1
    UCP_OP_ATTR_FIELD_USER_DATA = 1 << 2
    UCP_OP_ATTR_FIELD_DATATYPE = 1 << 3
    UCP_OP_ATTR_FIELD_FLAGS = 1 << 4
    UCP_OP_ATTR_FIELD_REPLY_BUFFER = 1 << 5
    UCP_OP_ATTR_FIELD_MEMORY_TYPE = 1 << 6
    UCP_OP_ATTR_FIELD_RECV_INFO = 1 << 7
    UCP_OP_ATTR_FLAG_NO_IMM_CMPL = 1 << 16
    """Always a request, and always its callback."""
    UCP_OP_ATTR_FLAG_FAST_CMPL = 1 << 17
    """As soon as the buffer may be reused, also by copying it."""
    UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL = 1 << 18
    """At once or not at all: UCS_ERR_NO_RESOURCE, and nothing has changed."""
    UCP_OP_ATTR_FLAG_MULTI_SEND = 1 << 19
    """One of many: their bandwidth counts."""


UCP_OP_ATTR_FIELD_REQUEST = ucp_op_attr_t.UCP_OP_ATTR_FIELD_REQUEST
UCP_OP_ATTR_FIELD_CALLBACK = ucp_op_attr_t.UCP_OP_ATTR_FIELD_CALLBACK
UCP_OP_ATTR_FIELD_USER_DATA = ucp_op_attr_t.UCP_OP_ATTR_FIELD_USER_DATA
UCP_OP_ATTR_FIELD_DATATYPE = ucp_op_attr_t.UCP_OP_ATTR_FIELD_DATATYPE
UCP_OP_ATTR_FIELD_FLAGS = ucp_op_attr_t.UCP_OP_ATTR_FIELD_FLAGS
UCP_OP_ATTR_FIELD_REPLY_BUFFER = ucp_op_attr_t.UCP_OP_ATTR_FIELD_REPLY_BUFFER
UCP_OP_ATTR_FIELD_MEMORY_TYPE = ucp_op_attr_t.UCP_OP_ATTR_FIELD_MEMORY_TYPE
UCP_OP_ATTR_FIELD_RECV_INFO = ucp_op_attr_t.UCP_OP_ATTR_FIELD_RECV_INFO
UCP_OP_ATTR_FLAG_NO_IMM_CMPL = ucp_op_attr_t.UCP_OP_ATTR_FLAG_NO_IMM_CMPL
UCP_OP_ATTR_FLAG_FAST_CMPL = ucp_op_attr_t.UCP_OP_ATTR_FLAG_FAST_CMPL
UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL = ucp_op_attr_t.UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL
UCP_OP_ATTR_FLAG_MULTI_SEND = ucp_op_attr_t.UCP_OP_ATTR_FLAG_MULTI_SEND


class ucp_req_attr_field(enum.IntFlag):
    """Fields of :class:`ucp_request_attr_t`."""

    UCP_REQUEST_ATTR_FIELD_INFO_STRING = 1 << 0
    UCP_REQUEST_ATTR_FIELD_INFO_STRING_SIZE = 1 << 1
    UCP_REQUEST_ATTR_FIELD_STATUS = 1 << 2
    UCP_REQUEST_ATTR_FIELD_MEM_TYPE = 1 << 3


UCP_REQUEST_ATTR_FIELD_INFO_STRING = ucp_req_attr_field.UCP_REQUEST_ATTR_FIELD_INFO_STRING
UCP_REQUEST_ATTR_FIELD_INFO_STRING_SIZE = ucp_req_attr_field.UCP_REQUEST_ATTR_FIELD_INFO_STRING_SIZE
UCP_REQUEST_ATTR_FIELD_STATUS = ucp_req_attr_field.UCP_REQUEST_ATTR_FIELD_STATUS
UCP_REQUEST_ATTR_FIELD_MEM_TYPE = ucp_req_attr_field.UCP_REQUEST_ATTR_FIELD_MEM_TYPE


class ucp_am_recv_attr_t(enum.IntFlag):
    """``recv_attr`` of :class:`ucp_am_recv_param_t`: what a handler of active messages was given."""

    UCP_AM_RECV_ATTR_FIELD_REPLY_EP = 1 << 0
    """``reply_ep`` is set."""
    UCP_AM_RECV_ATTR_FLAG_DATA = 1 << 16
    """The data may be kept by returning UCS_INPROGRESS."""
    UCP_AM_RECV_ATTR_FLAG_RNDV = 1 << 17
    """The data is still with the sender: what is given is a descriptor to fetch it with."""


UCP_AM_RECV_ATTR_FIELD_REPLY_EP = ucp_am_recv_attr_t.UCP_AM_RECV_ATTR_FIELD_REPLY_EP
UCP_AM_RECV_ATTR_FLAG_DATA = ucp_am_recv_attr_t.UCP_AM_RECV_ATTR_FLAG_DATA
UCP_AM_RECV_ATTR_FLAG_RNDV = ucp_am_recv_attr_t.UCP_AM_RECV_ATTR_FLAG_RNDV


class ucp_am_handler_param_field(enum.IntFlag):
    """Fields of :class:`ucp_am_handler_param_t`."""

    UCP_AM_HANDLER_PARAM_FIELD_ID = 1 << 0
    UCP_AM_HANDLER_PARAM_FIELD_FLAGS = 1 << 1
    UCP_AM_HANDLER_PARAM_FIELD_CB = 1 << 2
    UCP_AM_HANDLER_PARAM_FIELD_ARG = 1 << 3


UCP_AM_HANDLER_PARAM_FIELD_ID = ucp_am_handler_param_field.UCP_AM_HANDLER_PARAM_FIELD_ID
UCP_AM_HANDLER_PARAM_FIELD_FLAGS = ucp_am_handler_param_field.UCP_AM_HANDLER_PARAM_FIELD_FLAGS
UCP_AM_HANDLER_PARAM_FIELD_CB = ucp_am_handler_param_field.UCP_AM_HANDLER_PARAM_FIELD_CB
UCP_AM_HANDLER_PARAM_FIELD_ARG = ucp_am_handler_param_field.UCP_AM_HANDLER_PARAM_FIELD_ARG


class ucp_mem_advice_t(enum.IntEnum):
    """``advice`` of :class:`ucp_mem_advise_params_t`."""

    UCP_MADV_NORMAL = 0
    UCP_MADV_WILLNEED = 1


UCP_MADV_NORMAL = ucp_mem_advice_t.UCP_MADV_NORMAL
UCP_MADV_WILLNEED = ucp_mem_advice_t.UCP_MADV_WILLNEED


class ucp_ep_attr_field(enum.IntFlag):
    """Fields of :class:`ucp_ep_attr_t`."""

    UCP_EP_ATTR_FIELD_NAME = 1 << 0
    UCP_EP_ATTR_FIELD_LOCAL_SOCKADDR = 1 << 1
    UCP_EP_ATTR_FIELD_REMOTE_SOCKADDR = 1 << 2


UCP_EP_ATTR_FIELD_NAME = ucp_ep_attr_field.UCP_EP_ATTR_FIELD_NAME
UCP_EP_ATTR_FIELD_LOCAL_SOCKADDR = ucp_ep_attr_field.UCP_EP_ATTR_FIELD_LOCAL_SOCKADDR
UCP_EP_ATTR_FIELD_REMOTE_SOCKADDR = ucp_ep_attr_field.UCP_EP_ATTR_FIELD_REMOTE_SOCKADDR


class ucp_mem_attr_field(enum.IntFlag):
    """Fields of :class:`ucp_mem_attr_t`."""

    UCP_MEM_ATTR_FIELD_ADDRESS = 1 << 0
    UCP_MEM_ATTR_FIELD_LENGTH = 1 << 1
    UCP_MEM_ATTR_FIELD_MEM_TYPE = 1 << 2


UCP_MEM_ATTR_FIELD_ADDRESS = ucp_mem_attr_field.UCP_MEM_ATTR_FIELD_ADDRESS
UCP_MEM_ATTR_FIELD_LENGTH = ucp_mem_attr_field.UCP_MEM_ATTR_FIELD_LENGTH
UCP_MEM_ATTR_FIELD_MEM_TYPE = ucp_mem_attr_field.UCP_MEM_ATTR_FIELD_MEM_TYPE


class ucp_err_handling_mode_t(enum.IntEnum):
    """``err_mode`` of :class:`ucp_ep_params_t`."""

    UCP_ERR_HANDLING_MODE_NONE = 0
    UCP_ERR_HANDLING_MODE_PEER = 1


UCP_ERR_HANDLING_MODE_NONE = ucp_err_handling_mode_t.UCP_ERR_HANDLING_MODE_NONE
UCP_ERR_HANDLING_MODE_PEER = ucp_err_handling_mode_t.UCP_ERR_HANDLING_MODE_PEER


class ucp_wakeup_event_t(enum.IntFlag):
    """``events`` of :class:`ucp_worker_params_t`: what wakes a worker."""

    UCP_WAKEUP_RMA = 1 << 0
    UCP_WAKEUP_AMO = 1 << 1
    UCP_WAKEUP_TAG_SEND = 1 << 2
    UCP_WAKEUP_TAG_RECV = 1 << 3
    UCP_WAKEUP_TX = 1 << 10
    UCP_WAKEUP_RX = 1 << 11
    UCP_WAKEUP_EDGE = 1 << 16
    """The descriptor need not be armed again; whoever is woken drains the worker."""


UCP_WAKEUP_RMA = ucp_wakeup_event_t.UCP_WAKEUP_RMA
UCP_WAKEUP_AMO = ucp_wakeup_event_t.UCP_WAKEUP_AMO
UCP_WAKEUP_TAG_SEND = ucp_wakeup_event_t.UCP_WAKEUP_TAG_SEND
UCP_WAKEUP_TAG_RECV = ucp_wakeup_event_t.UCP_WAKEUP_TAG_RECV
UCP_WAKEUP_TX = ucp_wakeup_event_t.UCP_WAKEUP_TX
UCP_WAKEUP_RX = ucp_wakeup_event_t.UCP_WAKEUP_RX
UCP_WAKEUP_EDGE = ucp_wakeup_event_t.UCP_WAKEUP_EDGE


class ucs_thread_mode_t(enum.IntEnum):
    """Threads that may call a worker or a context."""

    UCS_THREAD_MODE_SINGLE = 0
    UCS_THREAD_MODE_SERIALIZED = 1
    UCS_THREAD_MODE_MULTI = 2
    UCS_THREAD_MODE_LAST = 3


UCS_THREAD_MODE_SINGLE = ucs_thread_mode_t.UCS_THREAD_MODE_SINGLE
UCS_THREAD_MODE_SERIALIZED = ucs_thread_mode_t.UCS_THREAD_MODE_SERIALIZED
UCS_THREAD_MODE_MULTI = ucs_thread_mode_t.UCS_THREAD_MODE_MULTI
UCS_THREAD_MODE_LAST = ucs_thread_mode_t.UCS_THREAD_MODE_LAST


class ucs_memory_type_t(enum.IntEnum):
    """The memory of a buffer."""

    UCS_MEMORY_TYPE_HOST = 0
    UCS_MEMORY_TYPE_CUDA = 1
    UCS_MEMORY_TYPE_CUDA_MANAGED = 2
    UCS_MEMORY_TYPE_ROCM = 3
    UCS_MEMORY_TYPE_ROCM_MANAGED = 4
    UCS_MEMORY_TYPE_LAST = 5
    """No type of memory: one above the last."""
    UCS_MEMORY_TYPE_UNKNOWN = UCS_MEMORY_TYPE_LAST
    """To be found out."""


UCS_MEMORY_TYPE_HOST = ucs_memory_type_t.UCS_MEMORY_TYPE_HOST
UCS_MEMORY_TYPE_CUDA = ucs_memory_type_t.UCS_MEMORY_TYPE_CUDA
UCS_MEMORY_TYPE_CUDA_MANAGED = ucs_memory_type_t.UCS_MEMORY_TYPE_CUDA_MANAGED
UCS_MEMORY_TYPE_ROCM = ucs_memory_type_t.UCS_MEMORY_TYPE_ROCM
UCS_MEMORY_TYPE_ROCM_MANAGED = ucs_memory_type_t.UCS_MEMORY_TYPE_ROCM_MANAGED
UCS_MEMORY_TYPE_LAST = ucs_memory_type_t.UCS_MEMORY_TYPE_LAST
UCS_MEMORY_TYPE_UNKNOWN = ucs_memory_type_t.UCS_MEMORY_TYPE_UNKNOWN


class ucs_config_print_flags_t(enum.IntFlag):
    """Parts that ``ucp_config_print`` prints."""

    UCS_CONFIG_PRINT_CONFIG = 1 << 0
    """Keys and values."""
    UCS_CONFIG_PRINT_HEADER = 1 << 1
    """The title, as a heading."""
    UCS_CONFIG_PRINT_DOC = 1 << 2
    """The purpose of each key, as a comment."""
    UCS_CONFIG_PRINT_HIDDEN = 1 << 3
    """Also keys that are not for everybody."""
    UCS_CONFIG_PRINT_COMMENT_DEFAULT = 1 << 4
    """Values that nobody has set, as comments."""


UCS_CONFIG_PRINT_CONFIG = ucs_config_print_flags_t.UCS_CONFIG_PRINT_CONFIG
UCS_CONFIG_PRINT_HEADER = ucs_config_print_flags_t.UCS_CONFIG_PRINT_HEADER
UCS_CONFIG_PRINT_DOC = ucs_config_print_flags_t.UCS_CONFIG_PRINT_DOC
UCS_CONFIG_PRINT_HIDDEN = ucs_config_print_flags_t.UCS_CONFIG_PRINT_HIDDEN
UCS_CONFIG_PRINT_COMMENT_DEFAULT = ucs_config_print_flags_t.UCS_CONFIG_PRINT_COMMENT_DEFAULT


class uct_atomic_op_t(enum.IntEnum):
    """UCT's numbers of atomic operations: bits of what a device says that it can do."""

    UCT_ATOMIC_OP_ADD = 0
    UCT_ATOMIC_OP_AND = 1
    UCT_ATOMIC_OP_OR = 2
    UCT_ATOMIC_OP_XOR = 3
    UCT_ATOMIC_OP_SWAP = 4
    UCT_ATOMIC_OP_CSWAP = 5
    UCT_ATOMIC_OP_LAST = 6


UCT_ATOMIC_OP_ADD = uct_atomic_op_t.UCT_ATOMIC_OP_ADD
UCT_ATOMIC_OP_AND = uct_atomic_op_t.UCT_ATOMIC_OP_AND
UCT_ATOMIC_OP_OR = uct_atomic_op_t.UCT_ATOMIC_OP_OR
UCT_ATOMIC_OP_XOR = uct_atomic_op_t.UCT_ATOMIC_OP_XOR
UCT_ATOMIC_OP_SWAP = uct_atomic_op_t.UCT_ATOMIC_OP_SWAP
UCT_ATOMIC_OP_CSWAP = uct_atomic_op_t.UCT_ATOMIC_OP_CSWAP
UCT_ATOMIC_OP_LAST = uct_atomic_op_t.UCT_ATOMIC_OP_LAST


class UcsStatus(enum.IntEnum):
    """``ucs_status_t``: 0 is success, 1 in progress, below 0 an error."""

    UCS_OK = 0
    UCS_INPROGRESS = 1
    UCS_ERR_NO_MESSAGE = -1
    UCS_ERR_NO_RESOURCE = -2
    UCS_ERR_IO_ERROR = -3
    UCS_ERR_NO_MEMORY = -4
    UCS_ERR_INVALID_PARAM = -5
    UCS_ERR_UNREACHABLE = -6
    UCS_ERR_INVALID_ADDR = -7
    UCS_ERR_NOT_IMPLEMENTED = -8
    UCS_ERR_MESSAGE_TRUNCATED = -9
    UCS_ERR_NO_PROGRESS = -10
    UCS_ERR_BUFFER_TOO_SMALL = -11
    UCS_ERR_NO_ELEM = -12
    UCS_ERR_SOME_CONNECTS_FAILED = -13
    UCS_ERR_NO_DEVICE = -14
    UCS_ERR_BUSY = -15
    UCS_ERR_CANCELED = -16
    UCS_ERR_SHMEM_SEGMENT = -17
    UCS_ERR_ALREADY_EXISTS = -18
    UCS_ERR_OUT_OF_RANGE = -19
    UCS_ERR_TIMED_OUT = -20
    UCS_ERR_EXCEEDS_LIMIT = -21
    UCS_ERR_UNSUPPORTED = -22
    UCS_ERR_REJECTED = -23
    UCS_ERR_NOT_CONNECTED = -24
    UCS_ERR_CONNECTION_RESET = -25
    UCS_ERR_FIRST_LINK_FAILURE = -40
    """Not a status: the first number of those of failed links."""
    UCS_ERR_LAST_LINK_FAILURE = -59
    """Not a status: their last."""
    UCS_ERR_FIRST_ENDPOINT_FAILURE = -60
    """Not a status: the first number of those of failed endpoints."""
    UCS_ERR_ENDPOINT_TIMEOUT = -80
    UCS_ERR_LAST_ENDPOINT_FAILURE = -89
    """Not a status: their last."""
    UCS_ERR_LAST = -100
    """Not a status: below all."""


UCS_OK = UcsStatus.UCS_OK
UCS_INPROGRESS = UcsStatus.UCS_INPROGRESS
UCS_ERR_NO_MESSAGE = UcsStatus.UCS_ERR_NO_MESSAGE
UCS_ERR_NO_RESOURCE = UcsStatus.UCS_ERR_NO_RESOURCE
UCS_ERR_IO_ERROR = UcsStatus.UCS_ERR_IO_ERROR
UCS_ERR_NO_MEMORY = UcsStatus.UCS_ERR_NO_MEMORY
UCS_ERR_INVALID_PARAM = UcsStatus.UCS_ERR_INVALID_PARAM
UCS_ERR_UNREACHABLE = UcsStatus.UCS_ERR_UNREACHABLE
UCS_ERR_INVALID_ADDR = UcsStatus.UCS_ERR_INVALID_ADDR
UCS_ERR_NOT_IMPLEMENTED = UcsStatus.UCS_ERR_NOT_IMPLEMENTED
UCS_ERR_MESSAGE_TRUNCATED = UcsStatus.UCS_ERR_MESSAGE_TRUNCATED
UCS_ERR_NO_PROGRESS = UcsStatus.UCS_ERR_NO_PROGRESS
UCS_ERR_BUFFER_TOO_SMALL = UcsStatus.UCS_ERR_BUFFER_TOO_SMALL
UCS_ERR_NO_ELEM = UcsStatus.UCS_ERR_NO_ELEM
UCS_ERR_SOME_CONNECTS_FAILED = UcsStatus.UCS_ERR_SOME_CONNECTS_FAILED
UCS_ERR_NO_DEVICE = UcsStatus.UCS_ERR_NO_DEVICE
UCS_ERR_BUSY = UcsStatus.UCS_ERR_BUSY
UCS_ERR_CANCELED = UcsStatus.UCS_ERR_CANCELED
UCS_ERR_SHMEM_SEGMENT = UcsStatus.UCS_ERR_SHMEM_SEGMENT
UCS_ERR_ALREADY_EXISTS = UcsStatus.UCS_ERR_ALREADY_EXISTS
UCS_ERR_OUT_OF_RANGE = UcsStatus.UCS_ERR_OUT_OF_RANGE
UCS_ERR_TIMED_OUT = UcsStatus.UCS_ERR_TIMED_OUT
UCS_ERR_EXCEEDS_LIMIT = UcsStatus.UCS_ERR_EXCEEDS_LIMIT
UCS_ERR_UNSUPPORTED = UcsStatus.UCS_ERR_UNSUPPORTED
UCS_ERR_REJECTED = UcsStatus.UCS_ERR_REJECTED
UCS_ERR_NOT_CONNECTED = UcsStatus.UCS_ERR_NOT_CONNECTED
UCS_ERR_CONNECTION_RESET = UcsStatus.UCS_ERR_CONNECTION_RESET
UCS_ERR_FIRST_LINK_FAILURE = UcsStatus.UCS_ERR_FIRST_LINK_FAILURE
UCS_ERR_LAST_LINK_FAILURE = UcsStatus.UCS_ERR_LAST_LINK_FAILURE
UCS_ERR_FIRST_ENDPOINT_FAILURE = UcsStatus.UCS_ERR_FIRST_ENDPOINT_FAILURE
UCS_ERR_ENDPOINT_TIMEOUT = UcsStatus.UCS_ERR_ENDPOINT_TIMEOUT
UCS_ERR_LAST_ENDPOINT_FAILURE = UcsStatus.UCS_ERR_LAST_ENDPOINT_FAILURE
UCS_ERR_LAST = UcsStatus.UCS_ERR_LAST
