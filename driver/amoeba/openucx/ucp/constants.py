"""UCP's enumerations, under C's own names and numbers (``ucp/api/ucp.h`` of UCX 1.12.1, and what that includes).

What C writes as bits of an integer is an ``IntFlag``, whose unknown bits are kept; what it counts is an ``IntEnum``.
Their members are names of :mod:`amoeba.ucp`, too, as in C: :mod:`amoeba.openucx.ucp.members`. UCP numbers atomic
operations in three ways, UCT in a fourth: a number of one enumeration means something else in the others.
"""

import enum

__all__ = [
    "UCP_ENTITY_NAME_MAX",
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


class ucp_feature(enum.IntFlag):
    """What a context is made for. A call without its feature fails with UCS_ERR_INVALID_PARAM."""

    UCP_FEATURE_TAG = 1 << 0
    UCP_FEATURE_RMA = 1 << 1
    UCP_FEATURE_AMO32 = 1 << 2
    UCP_FEATURE_AMO64 = 1 << 3
    UCP_FEATURE_WAKEUP = 1 << 4
    UCP_FEATURE_STREAM = 1 << 5
    UCP_FEATURE_AM = 1 << 6


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


class ucp_worker_flags_t(enum.IntFlag):
    """``flags`` of :class:`ucp_worker_params_t`."""

    UCP_WORKER_FLAG_IGNORE_REQUEST_LEAK = 1 << 0
    """No warning of requests that were not freed."""


class ucp_listener_params_field(enum.IntFlag):
    """Fields of :class:`ucp_listener_params_t`."""

    UCP_LISTENER_PARAM_FIELD_SOCK_ADDR = 1 << 0
    UCP_LISTENER_PARAM_FIELD_ACCEPT_HANDLER = 1 << 1
    UCP_LISTENER_PARAM_FIELD_CONN_HANDLER = 1 << 2


class ucp_worker_address_flags_t(enum.IntFlag):
    """``address_flags`` of :class:`ucp_worker_attr_t`."""

    UCP_WORKER_ADDRESS_FLAG_NET_ONLY = 1 << 0
    """Without what only processes of the same host could use."""


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


class ucp_ep_params_flags_field(enum.IntFlag):
    """``flags`` of :class:`ucp_ep_params_t`."""

    UCP_EP_PARAMS_FLAGS_CLIENT_SERVER = 1 << 0
    """Connect to ``sockaddr``."""
    UCP_EP_PARAMS_FLAGS_NO_LOOPBACK = 1 << 1
    """An endpoint to its own worker is not its own peer: the next one made so is."""
    UCP_EP_PARAMS_FLAGS_SEND_CLIENT_ID = 1 << 2
    """The connection request tells the worker's ``client_id``."""


class ucp_ep_close_flags_t(enum.IntFlag):
    """``flags`` of the parameters of ``ucp_ep_close_nbx``."""

    UCP_EP_CLOSE_FLAG_FORCE = 1 << 0
    """At once, without the peer; what is under way is canceled."""


class ucp_ep_close_mode(enum.IntEnum):
    """``mode`` of ``ucp_ep_close_nb``. FORCE is 0 here, and 1 in :class:`ucp_ep_close_flags_t`."""

    UCP_EP_CLOSE_MODE_FORCE = 0
    """At once, without the peer; what is under way is canceled."""
    UCP_EP_CLOSE_MODE_FLUSH = 1
    """When everything that was sent has been delivered."""


class ucp_ep_perf_param_field_t(enum.IntFlag):
    """Fields of :class:`ucp_ep_evaluate_perf_param_t`."""

    UCP_EP_PERF_PARAM_FIELD_MESSAGE_SIZE = 1 << 0


class ucp_ep_perf_attr_field_t(enum.IntFlag):
    """Fields of :class:`ucp_ep_evaluate_perf_attr_t`."""

    UCP_EP_PERF_ATTR_FIELD_ESTIMATED_TIME = 1 << 0


class ucp_mem_map_params_field(enum.IntFlag):
    """Fields of :class:`ucp_mem_map_params_t`."""

    UCP_MEM_MAP_PARAM_FIELD_ADDRESS = 1 << 0
    UCP_MEM_MAP_PARAM_FIELD_LENGTH = 1 << 1
    UCP_MEM_MAP_PARAM_FIELD_FLAGS = 1 << 2
    UCP_MEM_MAP_PARAM_FIELD_PROT = 1 << 3
    UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE = 1 << 4


class ucp_mem_advise_params_field(enum.IntFlag):
    """Fields of :class:`ucp_mem_advise_params_t`."""

    UCP_MEM_ADVISE_PARAM_FIELD_ADDRESS = 1 << 0
    UCP_MEM_ADVISE_PARAM_FIELD_LENGTH = 1 << 1
    UCP_MEM_ADVISE_PARAM_FIELD_ADVICE = 1 << 2


class ucp_lib_attr_field(enum.IntFlag):
    """Fields of :class:`ucp_lib_attr_t`."""

    UCP_LIB_ATTR_FIELD_MAX_THREAD_LEVEL = 1 << 0


class ucp_context_attr_field(enum.IntFlag):
    """Fields of :class:`ucp_context_attr_t`."""

    UCP_ATTR_FIELD_REQUEST_SIZE = 1 << 0
    UCP_ATTR_FIELD_THREAD_MODE = 1 << 1
    UCP_ATTR_FIELD_MEMORY_TYPES = 1 << 2
    UCP_ATTR_FIELD_NAME = 1 << 3


class ucp_worker_attr_field(enum.IntFlag):
    """Fields of :class:`ucp_worker_attr_t`."""

    UCP_WORKER_ATTR_FIELD_THREAD_MODE = 1 << 0
    UCP_WORKER_ATTR_FIELD_ADDRESS = 1 << 1
    UCP_WORKER_ATTR_FIELD_ADDRESS_FLAGS = 1 << 2
    """``address_flags`` is an input."""
    UCP_WORKER_ATTR_FIELD_MAX_AM_HEADER = 1 << 3
    UCP_WORKER_ATTR_FIELD_NAME = 1 << 4
    UCP_WORKER_ATTR_FIELD_MAX_INFO_STRING = 1 << 5


class ucp_worker_address_attr_field(enum.IntFlag):
    """Fields of :class:`ucp_worker_address_attr_t`."""

    UCP_WORKER_ADDRESS_ATTR_FIELD_UID = 1 << 0


class ucp_listener_attr_field(enum.IntFlag):
    """Fields of :class:`ucp_listener_attr_t`."""

    UCP_LISTENER_ATTR_FIELD_SOCKADDR = 1 << 0


class ucp_conn_request_attr_field(enum.IntFlag):
    """Fields of :class:`ucp_conn_request_attr_t`."""

    UCP_CONN_REQUEST_ATTR_FIELD_CLIENT_ADDR = 1 << 0
    UCP_CONN_REQUEST_ATTR_FIELD_CLIENT_ID = 1 << 1


class ucp_dt_type(enum.IntEnum):
    """The lowest three bits of a datatype, and where the rest begins."""

    UCP_DATATYPE_CONTIG = 0
    """Elements of one size, one behind the other."""
    UCP_DATATYPE_STRIDED = 1
    """Reserved: no call takes it."""
    UCP_DATATYPE_IOV = 2
    """A list of :class:`ucp_dt_iov_t`."""
    UCP_DATATYPE_GENERIC = 7
    """What the application packs and unpacks."""
    UCP_DATATYPE_SHIFT = 3
    """Not a class: how far the rest of a datatype is shifted."""
    UCP_DATATYPE_CLASS_MASK = 7
    """Not a class: the bits that hold it."""


class ucp_mem_map_flags(enum.IntFlag):
    """``flags`` of :class:`ucp_mem_map_params_t`. C gives this enumeration no name."""

    UCP_MEM_MAP_NONBLOCK = 1 << 0
    """The call need not wait until all pages are mapped."""
    UCP_MEM_MAP_ALLOCATE = 1 << 1
    """The library allocates the memory."""
    UCP_MEM_MAP_FIXED = 1 << 2
    """At ``address`` or not at all; with ALLOCATE only."""


class ucp_mem_map_prot(enum.IntFlag):
    """``prot`` of :class:`ucp_mem_map_params_t`. C gives this enumeration no name."""

    UCP_MEM_MAP_PROT_LOCAL_READ = 1 << 0
    UCP_MEM_MAP_PROT_LOCAL_WRITE = 1 << 1
    UCP_MEM_MAP_PROT_REMOTE_READ = 1 << 8
    UCP_MEM_MAP_PROT_REMOTE_WRITE = 1 << 9


class ucp_am_cb_flags(enum.IntFlag):
    """``flags`` of a handler of active messages."""

    UCP_AM_FLAG_WHOLE_MSG = 1 << 0
    """One call per message, however long."""
    UCP_AM_FLAG_PERSISTENT_DATA = 1 << 1
    """Data may always be kept by returning UCS_INPROGRESS."""


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


class ucp_cb_param_flags(enum.IntFlag):
    """``flags`` that an old handler of active messages (``ucp_am_callback_t``) is called with."""

    UCP_CB_PARAM_FLAG_DATA = 1 << 0
    """The data may be kept by returning UCS_INPROGRESS."""


class ucp_atomic_post_op_t(enum.IntEnum):
    """Operations of ``ucp_atomic_post``."""

    UCP_ATOMIC_POST_OP_ADD = 0
    UCP_ATOMIC_POST_OP_AND = 1
    UCP_ATOMIC_POST_OP_OR = 2
    UCP_ATOMIC_POST_OP_XOR = 3
    UCP_ATOMIC_POST_OP_LAST = 4


class ucp_atomic_fetch_op_t(enum.IntEnum):
    """Operations of ``ucp_atomic_fetch_nb``."""

    UCP_ATOMIC_FETCH_OP_FADD = 0
    UCP_ATOMIC_FETCH_OP_SWAP = 1
    UCP_ATOMIC_FETCH_OP_CSWAP = 2
    UCP_ATOMIC_FETCH_OP_FAND = 3
    UCP_ATOMIC_FETCH_OP_FOR = 4
    UCP_ATOMIC_FETCH_OP_FXOR = 5
    UCP_ATOMIC_FETCH_OP_LAST = 6


class ucp_atomic_op_t(enum.IntEnum):
    """Operations of ``ucp_atomic_op_nbx``."""

    UCP_ATOMIC_OP_ADD = 0
    UCP_ATOMIC_OP_SWAP = 1
    UCP_ATOMIC_OP_CSWAP = 2
    UCP_ATOMIC_OP_AND = 3
    UCP_ATOMIC_OP_OR = 4
    UCP_ATOMIC_OP_XOR = 5
    UCP_ATOMIC_OP_LAST = 6


class ucp_stream_recv_flags_t(enum.IntFlag):
    """``flags`` of a receive from a stream."""

    UCP_STREAM_RECV_FLAG_WAITALL = 1 << 0
    """Not before the buffer is full."""


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


class ucp_req_attr_field(enum.IntFlag):
    """Fields of :class:`ucp_request_attr_t`."""

    UCP_REQUEST_ATTR_FIELD_INFO_STRING = 1 << 0
    UCP_REQUEST_ATTR_FIELD_INFO_STRING_SIZE = 1 << 1
    UCP_REQUEST_ATTR_FIELD_STATUS = 1 << 2
    UCP_REQUEST_ATTR_FIELD_MEM_TYPE = 1 << 3


class ucp_am_recv_attr_t(enum.IntFlag):
    """``recv_attr`` of :class:`ucp_am_recv_param_t`: what a handler of active messages was given."""

    UCP_AM_RECV_ATTR_FIELD_REPLY_EP = 1 << 0
    """``reply_ep`` is set."""
    UCP_AM_RECV_ATTR_FLAG_DATA = 1 << 16
    """The data may be kept by returning UCS_INPROGRESS."""
    UCP_AM_RECV_ATTR_FLAG_RNDV = 1 << 17
    """The data is still with the sender: what is given is a descriptor to fetch it with."""


class ucp_am_handler_param_field(enum.IntFlag):
    """Fields of :class:`ucp_am_handler_param_t`."""

    UCP_AM_HANDLER_PARAM_FIELD_ID = 1 << 0
    UCP_AM_HANDLER_PARAM_FIELD_FLAGS = 1 << 1
    UCP_AM_HANDLER_PARAM_FIELD_CB = 1 << 2
    UCP_AM_HANDLER_PARAM_FIELD_ARG = 1 << 3


class ucp_mem_advice_t(enum.IntEnum):
    """``advice`` of :class:`ucp_mem_advise_params_t`."""

    UCP_MADV_NORMAL = 0
    UCP_MADV_WILLNEED = 1


class ucp_ep_attr_field(enum.IntFlag):
    """Fields of :class:`ucp_ep_attr_t`."""

    UCP_EP_ATTR_FIELD_NAME = 1 << 0
    UCP_EP_ATTR_FIELD_LOCAL_SOCKADDR = 1 << 1
    UCP_EP_ATTR_FIELD_REMOTE_SOCKADDR = 1 << 2


class ucp_mem_attr_field(enum.IntFlag):
    """Fields of :class:`ucp_mem_attr_t`."""

    UCP_MEM_ATTR_FIELD_ADDRESS = 1 << 0
    UCP_MEM_ATTR_FIELD_LENGTH = 1 << 1
    UCP_MEM_ATTR_FIELD_MEM_TYPE = 1 << 2


class ucp_err_handling_mode_t(enum.IntEnum):
    """``err_mode`` of :class:`ucp_ep_params_t`."""

    UCP_ERR_HANDLING_MODE_NONE = 0
    UCP_ERR_HANDLING_MODE_PEER = 1


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


class ucs_thread_mode_t(enum.IntEnum):
    """Who may call a worker or a context."""

    UCS_THREAD_MODE_SINGLE = 0
    UCS_THREAD_MODE_SERIALIZED = 1
    UCS_THREAD_MODE_MULTI = 2
    UCS_THREAD_MODE_LAST = 3


class ucs_memory_type_t(enum.IntEnum):
    """Whose memory a buffer lies in."""

    UCS_MEMORY_TYPE_HOST = 0
    UCS_MEMORY_TYPE_CUDA = 1
    UCS_MEMORY_TYPE_CUDA_MANAGED = 2
    UCS_MEMORY_TYPE_ROCM = 3
    UCS_MEMORY_TYPE_ROCM_MANAGED = 4
    UCS_MEMORY_TYPE_LAST = 5
    """No type of memory: one above the last."""
    UCS_MEMORY_TYPE_UNKNOWN = UCS_MEMORY_TYPE_LAST
    """To be found out."""


class ucs_config_print_flags_t(enum.IntFlag):
    """What ``ucp_config_print`` prints."""

    UCS_CONFIG_PRINT_CONFIG = 1 << 0
    """Keys and values."""
    UCS_CONFIG_PRINT_HEADER = 1 << 1
    """The title, as a heading."""
    UCS_CONFIG_PRINT_DOC = 1 << 2
    """What each key is for, as a comment."""
    UCS_CONFIG_PRINT_HIDDEN = 1 << 3
    """Also keys that are not for everybody."""
    UCS_CONFIG_PRINT_COMMENT_DEFAULT = 1 << 4
    """Values that nobody has set, as comments."""


class uct_atomic_op_t(enum.IntEnum):
    """UCT's numbers of atomic operations: bits of what a device says that it can do."""

    UCT_ATOMIC_OP_ADD = 0
    UCT_ATOMIC_OP_AND = 1
    UCT_ATOMIC_OP_OR = 2
    UCT_ATOMIC_OP_XOR = 3
    UCT_ATOMIC_OP_SWAP = 4
    UCT_ATOMIC_OP_CSWAP = 5
    UCT_ATOMIC_OP_LAST = 6
