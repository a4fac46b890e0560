"""``libucp.so.0`` as data: the functions of ``ucp/api/ucp.h`` and ``ucp_compat.h`` of UCX 1.19.

Handles are numbers here (:mod:`amoeba.openucx.libucp.handle_table`), and so are pointers that C does not follow, such
as requests: ``uintptr_t`` is passed as a pointer is.
"""

from pathlib import Path

from amoeba.embed import CFunction, CLibrary
from amoeba.openucx.libucp.layouts import LATER_TYPES, TYPES
from amoeba.openucx.ucp.status import UcsStatus

__all__ = ["IN_C", "LATER", "LIBRARY", "RELEASE", "REQUEST_SIZE"]

RELEASE = (1, 19, 0)
"""UCX release: the last one whose functions are all here. Since 1.20 there are some for GPUs."""

REQUEST_SIZE = 64
"""Bytes of the library's before a request: the size that ucp_context_query reports."""
IN_C = ("ucp_get_version", "ucp_get_version_string")
"""Functions that need no Python."""

_SIDE_C = Path(__file__).with_name("libucp.c")
_NO_PYTHON = int(UcsStatus.UCS_ERR_NO_DEVICE)
_BUSY = int(UcsStatus.UCS_ERR_BUSY)
_CANCELED = int(UcsStatus.UCS_ERR_CANCELED)
_INCLUDES = "#include <stdio.h>\n#include <sys/socket.h>"
_INCLUDED = "struct sockaddr_storage { unsigned short ss_family; ...; };"

_STATUS, _REQUEST = "ucs_status_t", "uintptr_t"


def _tells(name: str, parameters: str, ended: int = _NO_PYTHON) -> CFunction:
    """Declare a function that returns a status."""
    return CFunction(name, _STATUS, parameters, ended=str(ended))


def _asks(name: str, parameters: str, ended: int = _NO_PYTHON) -> CFunction:
    """Declare a function that returns NULL, an error as a pointer, or a request."""
    return CFunction(name, _REQUEST, parameters, ended=f"(intptr_t){ended}")


def _does(name: str, parameters: str) -> CFunction:
    return CFunction(name, "void", parameters, ended="")


_PARAM = "const ucp_request_param_t *param"
_SEND_CB, _RECV_CB = "ucp_send_callback_t cb", "ucp_tag_recv_callback_t cb"
_BUFFER = "uintptr_t buffer, size_t count"
_TYPED = f"{_BUFFER}, uint64_t datatype"
_TARGET = "uint64_t remote_addr, uintptr_t rkey"
_REMOTE = f"uintptr_t ep, uintptr_t buffer, size_t length, {_TARGET}"


def _fetching(name: str, bits: int, *operands: str) -> CFunction:
    """Declare a blocking atomic of ``ucp_compat.h``."""
    values = ", ".join(f"uint{bits}_t {each}" for each in operands)
    return _tells(f"{name}{bits}", f"uintptr_t ep, {values}, {_TARGET}, uint{bits}_t *result")


LATER = (
    _tells(
        "ucp_memh_pack",
        "uintptr_t memh, const ucp_memh_pack_params_t *params, uintptr_t *buffer_p, size_t *buffer_size_p",
    ),
    _does("ucp_memh_buffer_release", "uintptr_t buffer, const ucp_memh_buffer_release_params_t *params"),
    _tells(
        "ucp_rkey_compare",
        "uintptr_t worker, uintptr_t rkey1, uintptr_t rkey2, const ucp_rkey_compare_params_t *params, int *result",
    ),
    _tells("ucp_dt_query", "uint64_t datatype, ucp_datatype_attr_t *attr"),
)
"""Functions that 1.12 does not have."""
_FUNCTIONS = (
    # Library and contexts
    _tells("ucp_lib_query", "ucp_lib_attr_t *attr"),
    _tells("ucp_config_read", "const char *env_prefix, const char *filename, uintptr_t *config_p"),
    _does("ucp_config_release", "uintptr_t config"),
    _tells("ucp_config_modify", "uintptr_t config, const char *name, const char *value"),
    _does("ucp_config_print", "uintptr_t config, FILE *stream, const char *title, int print_flags"),
    _tells(
        "ucp_init_version",
        "unsigned api_major_version, unsigned api_minor_version, const ucp_params_t *params, uintptr_t config, "
        "uintptr_t *context_p",
    ),
    _does("ucp_cleanup", "uintptr_t context"),
    _tells("ucp_context_query", "uintptr_t context, ucp_context_attr_t *attr"),
    _does("ucp_context_print_info", "uintptr_t context, FILE *stream"),
    # Workers
    _tells("ucp_worker_create", "uintptr_t context, const ucp_worker_params_t *params, uintptr_t *worker_p"),
    _does("ucp_worker_destroy", "uintptr_t worker"),
    _tells("ucp_worker_query", "uintptr_t worker, ucp_worker_attr_t *attr"),
    _does("ucp_worker_print_info", "uintptr_t worker, FILE *stream"),
    _tells("ucp_worker_get_address", "uintptr_t worker, uintptr_t *address_p, size_t *address_length_p"),
    _does("ucp_worker_release_address", "uintptr_t worker, uintptr_t address"),
    _tells("ucp_worker_address_query", "uintptr_t address, ucp_worker_address_attr_t *attr"),
    CFunction("ucp_worker_progress", "unsigned", "uintptr_t worker", busy="0"),
    _tells("ucp_worker_get_efd", "uintptr_t worker, int *fd"),
    _tells("ucp_worker_wait", "uintptr_t worker"),
    _does("ucp_worker_wait_mem", "uintptr_t worker, uintptr_t address"),
    # programs arm until the worker is not busy, and then sleep: the descriptor that they sleep at is made readable
    CFunction("ucp_worker_arm", _STATUS, "uintptr_t worker", str(_NO_PYTHON), f"amoeba_ring(worker) ? 0 : {_BUSY}"),
    _tells("ucp_worker_signal", "uintptr_t worker"),
    _tells("ucp_worker_fence", "uintptr_t worker"),
    _tells("ucp_worker_flush", "uintptr_t worker", _CANCELED),
    _asks("ucp_worker_flush_nb", f"uintptr_t worker, unsigned flags, {_SEND_CB}", 0),
    _asks("ucp_worker_flush_nbx", f"uintptr_t worker, {_PARAM}", 0),
    # Endpoints and listeners
    _tells("ucp_ep_create", "uintptr_t worker, const ucp_ep_params_t *params, uintptr_t *ep_p"),
    _asks("ucp_ep_modify_nb", "uintptr_t ep, const ucp_ep_params_t *params"),
    _asks("ucp_ep_close_nb", "uintptr_t ep, unsigned mode", 0),
    _asks("ucp_ep_close_nbx", f"uintptr_t ep, {_PARAM}", 0),
    _does("ucp_ep_destroy", "uintptr_t ep"),
    _asks("ucp_disconnect_nb", "uintptr_t ep", 0),
    _does("ucp_ep_print_info", "uintptr_t ep, FILE *stream"),
    _tells("ucp_ep_query", "uintptr_t ep, ucp_ep_attr_t *attr"),
    _tells(
        "ucp_ep_evaluate_perf",
        "uintptr_t ep, const ucp_ep_evaluate_perf_param_t *param, ucp_ep_evaluate_perf_attr_t *attr",
    ),
    _tells("ucp_ep_flush", "uintptr_t ep", _CANCELED),
    _asks("ucp_ep_flush_nb", f"uintptr_t ep, unsigned flags, {_SEND_CB}", 0),
    _asks("ucp_ep_flush_nbx", f"uintptr_t ep, {_PARAM}", 0),
    _tells("ucp_listener_create", "uintptr_t worker, const ucp_listener_params_t *params, uintptr_t *listener_p"),
    _does("ucp_listener_destroy", "uintptr_t listener"),
    _tells("ucp_listener_query", "uintptr_t listener, ucp_listener_attr_t *attr"),
    _tells("ucp_listener_reject", "uintptr_t listener, uintptr_t conn_request"),
    _tells("ucp_conn_request_query", "uintptr_t conn_request, ucp_conn_request_attr_t *attr"),
    # Memory
    _tells("ucp_mem_map", "uintptr_t context, const ucp_mem_map_params_t *params, uintptr_t *memh_p"),
    _tells("ucp_mem_unmap", "uintptr_t context, uintptr_t memh"),
    _tells("ucp_mem_query", "uintptr_t memh, ucp_mem_attr_t *attr"),
    _does("ucp_mem_print_info", "const char *mem_size, uintptr_t context, FILE *stream"),
    _tells("ucp_mem_advise", "uintptr_t context, uintptr_t memh, const ucp_mem_advise_params_t *params"),
    _tells("ucp_rkey_pack", "uintptr_t context, uintptr_t memh, uintptr_t *rkey_buffer_p, size_t *size_p"),
    _does("ucp_rkey_buffer_release", "uintptr_t rkey_buffer"),
    _tells("ucp_ep_rkey_unpack", "uintptr_t ep, uintptr_t rkey_buffer, uintptr_t *rkey_p"),
    _tells("ucp_rkey_ptr", "uintptr_t rkey, uint64_t raddr, uintptr_t *addr_p"),
    _does("ucp_rkey_destroy", "uintptr_t rkey"),
    _tells("ucp_dt_create_generic", "const ucp_generic_dt_ops_t *ops, uintptr_t context, uint64_t *datatype_p"),
    _does("ucp_dt_destroy", "uint64_t datatype"),
    # Requests
    CFunction("ucp_request_alloc", "uintptr_t", "uintptr_t worker"),
    _does("ucp_request_free", "uintptr_t request"),
    _does("ucp_request_release", "uintptr_t request"),
    _does("ucp_request_cancel", "uintptr_t worker, uintptr_t request"),
    _tells("ucp_request_check_status", "uintptr_t request", _CANCELED),
    CFunction("ucp_request_is_completed", "int", "uintptr_t request", ended="1"),
    _tells("ucp_request_query", "uintptr_t request, ucp_request_attr_t *attr"),
    _tells("ucp_request_test", "uintptr_t request, ucp_tag_recv_info_t *info", _CANCELED),
    _tells("ucp_tag_recv_request_test", "uintptr_t request, ucp_tag_recv_info_t *info", _CANCELED),
    _tells("ucp_stream_recv_request_test", "uintptr_t request, size_t *length_p", _CANCELED),
    # Tagged messages
    _asks("ucp_tag_send_nb", f"uintptr_t ep, {_TYPED}, uint64_t tag, {_SEND_CB}"),
    _tells("ucp_tag_send_nbr", f"uintptr_t ep, {_TYPED}, uint64_t tag, uintptr_t req"),
    _asks("ucp_tag_send_nbx", f"uintptr_t ep, {_BUFFER}, uint64_t tag, {_PARAM}"),
    _asks("ucp_tag_send_sync_nb", f"uintptr_t ep, {_TYPED}, uint64_t tag, {_SEND_CB}"),
    _asks("ucp_tag_send_sync_nbx", f"uintptr_t ep, {_BUFFER}, uint64_t tag, {_PARAM}"),
    _asks("ucp_tag_recv_nb", f"uintptr_t worker, {_TYPED}, uint64_t tag, uint64_t tag_mask, {_RECV_CB}"),
    _tells("ucp_tag_recv_nbr", f"uintptr_t worker, {_TYPED}, uint64_t tag, uint64_t tag_mask, uintptr_t req"),
    _asks("ucp_tag_recv_nbx", f"uintptr_t worker, {_BUFFER}, uint64_t tag, uint64_t tag_mask, {_PARAM}"),
    CFunction(
        "ucp_tag_probe_nb",
        "uintptr_t",
        "uintptr_t worker, uint64_t tag, uint64_t tag_mask, int remove, ucp_tag_recv_info_t *info",
    ),
    _asks("ucp_tag_msg_recv_nb", f"uintptr_t worker, {_TYPED}, uintptr_t message, {_RECV_CB}"),
    _asks("ucp_tag_msg_recv_nbx", f"uintptr_t worker, {_BUFFER}, uintptr_t message, {_PARAM}"),
    # Put and get
    _tells("ucp_put", _REMOTE),
    _tells("ucp_put_nbi", _REMOTE),
    _asks("ucp_put_nb", f"{_REMOTE}, {_SEND_CB}"),
    _asks("ucp_put_nbx", f"uintptr_t ep, {_BUFFER}, {_TARGET}, {_PARAM}"),
    _tells("ucp_get", _REMOTE),
    _tells("ucp_get_nbi", _REMOTE),
    _asks("ucp_get_nb", f"{_REMOTE}, {_SEND_CB}"),
    _asks("ucp_get_nbx", f"uintptr_t ep, {_BUFFER}, {_TARGET}, {_PARAM}"),
    # Atomics
    _tells("ucp_atomic_post", f"uintptr_t ep, int opcode, uint64_t value, size_t op_size, {_TARGET}"),
    _asks(
        "ucp_atomic_fetch_nb",
        f"uintptr_t ep, int opcode, uint64_t value, uintptr_t result, size_t op_size, {_TARGET}, {_SEND_CB}",
    ),
    _asks("ucp_atomic_op_nbx", f"uintptr_t ep, int opcode, {_BUFFER}, {_TARGET}, {_PARAM}"),
    _tells("ucp_atomic_add32", f"uintptr_t ep, uint32_t add, {_TARGET}"),
    _tells("ucp_atomic_add64", f"uintptr_t ep, uint64_t add, {_TARGET}"),
    _fetching("ucp_atomic_fadd", 32, "add"),
    _fetching("ucp_atomic_fadd", 64, "add"),
    _fetching("ucp_atomic_swap", 32, "swap"),
    _fetching("ucp_atomic_swap", 64, "swap"),
    _fetching("ucp_atomic_cswap", 32, "compare", "swap"),
    _fetching("ucp_atomic_cswap", 64, "compare", "swap"),
    # Active messages
    _tells(
        "ucp_worker_set_am_handler",
        "uintptr_t worker, uint16_t id, ucp_am_callback_t cb, uintptr_t arg, uint32_t flags",
    ),
    _tells("ucp_worker_set_am_recv_handler", "uintptr_t worker, const ucp_am_handler_param_t *param"),
    _asks("ucp_am_send_nb", f"uintptr_t ep, uint16_t id, {_TYPED}, {_SEND_CB}, unsigned flags"),
    _asks(
        "ucp_am_send_nbx", f"uintptr_t ep, unsigned id, uintptr_t header, size_t header_length, {_BUFFER}, {_PARAM}"
    ),
    _asks("ucp_am_recv_data_nbx", f"uintptr_t worker, uintptr_t data_desc, {_BUFFER}, {_PARAM}"),
    _does("ucp_am_data_release", "uintptr_t worker, uintptr_t data"),
    # Streams
    _asks("ucp_stream_send_nb", f"uintptr_t ep, {_TYPED}, {_SEND_CB}, unsigned flags"),
    _asks("ucp_stream_send_nbx", f"uintptr_t ep, {_BUFFER}, {_PARAM}"),
    _asks(
        "ucp_stream_recv_nb",
        f"uintptr_t ep, {_TYPED}, ucp_stream_recv_callback_t cb, size_t *length, unsigned flags",
    ),
    _asks("ucp_stream_recv_nbx", f"uintptr_t ep, {_BUFFER}, size_t *length, {_PARAM}"),
    _asks("ucp_stream_recv_data_nb", "uintptr_t ep, size_t *length"),
    _does("ucp_stream_data_release", "uintptr_t ep, uintptr_t data"),
    CFunction(
        "ucp_stream_worker_poll",
        "ssize_t",
        "uintptr_t worker, ucp_stream_poll_ep_t *poll_eps, size_t max_eps, unsigned flags",
        ended=str(_NO_PYTHON),
    ),
)


def _source() -> str:
    numbers = dict(zip(("MAJOR", "MINOR", "RELEASE"), RELEASE, strict=True)) | {"REQUEST_SIZE": REQUEST_SIZE}
    return "\n".join([*(f"#define {name} {value}" for name, value in numbers.items()), _SIDE_C.read_text()])


LIBRARY = CLibrary(
    name="libucp.so.0",
    entry="amoeba.openucx.libucp.start",
    functions=_FUNCTIONS + LATER,
    types=TYPES + LATER_TYPES,
    includes=_INCLUDES,
    included=_INCLUDED,
    helpers="""
        void *memory_new(size_t size);
        void memory_free(uintptr_t address);
        void print_text(FILE *stream, const char *text, size_t size);
        void request_note(uintptr_t request, int status, uint64_t tag, size_t length);
        int request_noted(uintptr_t request, int *status, ucp_tag_recv_info_t *info);
        int amoeba_set_bell(uintptr_t object, int eventfd);
        int amoeba_is_deputy(void);
    """,
    source=_source(),
    links=("libucp.so",),
    needed=("libucs.so.0", "libuct.so.0"),
)
