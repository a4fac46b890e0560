"""What UCX's programs and its UCP library hand each other: structures of ``ucp/api/ucp.h``, 1.12 and later, in C.

They are declared here for compiler and cffi, so that no header of UCX is needed; a test compares them with Debian's.
Later releases of 1.x only append fields, and a mask says which of them count. Pointers that are not followed are
numbers, enumerations ``int``, and ``ucs_status_t`` is one byte, as in C.
"""

__all__ = ["LATER_TYPES", "TYPES"]

TYPES = """
typedef signed char ucs_status_t;
typedef struct { const void *addr; uint32_t addrlen; } ucs_sock_addr_t;
typedef struct { unsigned long ucs_bits[16]; } ucs_cpu_set_t;
typedef struct { uint64_t sender_tag; size_t length; } ucp_tag_recv_info_t;
typedef struct { uint64_t recv_attr; uintptr_t reply_ep; } ucp_am_recv_param_t;
typedef struct { uintptr_t buffer; size_t length; } ucp_dt_iov_t;

typedef void (*ucp_request_init_callback_t)(uintptr_t request);
typedef void (*ucp_request_cleanup_callback_t)(uintptr_t request);
typedef void (*ucp_send_callback_t)(uintptr_t request, ucs_status_t status);
typedef void (*ucp_send_nbx_callback_t)(uintptr_t request, ucs_status_t status, uintptr_t user_data);
typedef void (*ucp_tag_recv_callback_t)(uintptr_t request, ucs_status_t status, ucp_tag_recv_info_t *info);
typedef void (*ucp_tag_recv_nbx_callback_t)(uintptr_t request, ucs_status_t status,
                                            const ucp_tag_recv_info_t *tag_info, uintptr_t user_data);
typedef void (*ucp_stream_recv_callback_t)(uintptr_t request, ucs_status_t status, size_t length);
typedef void (*ucp_stream_recv_nbx_callback_t)(uintptr_t request, ucs_status_t status, size_t length,
                                               uintptr_t user_data);
typedef void (*ucp_am_recv_data_nbx_callback_t)(uintptr_t request, ucs_status_t status, size_t length,
                                                uintptr_t user_data);
typedef void (*ucp_err_handler_cb_t)(uintptr_t arg, uintptr_t ep, ucs_status_t status);
typedef void (*ucp_listener_accept_callback_t)(uintptr_t ep, uintptr_t arg);
typedef void (*ucp_listener_conn_callback_t)(uintptr_t conn_request, uintptr_t arg);
typedef ucs_status_t (*ucp_am_callback_t)(uintptr_t arg, uintptr_t data, size_t length, uintptr_t reply_ep,
                                          unsigned flags);
typedef ucs_status_t (*ucp_am_recv_callback_t)(uintptr_t arg, uintptr_t header, size_t header_length, uintptr_t data,
                                               size_t length, const ucp_am_recv_param_t *param);

typedef struct { ucp_err_handler_cb_t cb; uintptr_t arg; } ucp_err_handler_t;
typedef struct { ucp_listener_accept_callback_t cb; uintptr_t arg; } ucp_listener_accept_handler_t;
typedef struct { ucp_listener_conn_callback_t cb; uintptr_t arg; } ucp_listener_conn_handler_t;
typedef struct {
    uintptr_t (*start_pack)(uintptr_t context, uintptr_t buffer, size_t count);
    uintptr_t (*start_unpack)(uintptr_t context, uintptr_t buffer, size_t count);
    size_t (*packed_size)(uintptr_t state);
    size_t (*pack)(uintptr_t state, size_t offset, void *dest, size_t max_length);
    ucs_status_t (*unpack)(uintptr_t state, size_t offset, const void *src, size_t length);
    void (*finish)(uintptr_t state);
} ucp_generic_dt_ops_t;

typedef struct {
    uint64_t field_mask, features;
    size_t request_size;
    ucp_request_init_callback_t request_init;
    ucp_request_cleanup_callback_t request_cleanup;
    uint64_t tag_sender_mask;
    int mt_workers_shared;
    size_t estimated_num_eps, estimated_num_ppn;
    const char *name;
} ucp_params_t;
typedef struct { uint64_t field_mask; int max_thread_level; } ucp_lib_attr_t;
typedef struct {
    uint64_t field_mask;
    size_t request_size;
    int thread_mode;
    uint64_t memory_types;
    char name[32];
} ucp_context_attr_t;

typedef struct {
    uint64_t field_mask;
    int thread_mode;
    uint32_t address_flags;
    uintptr_t address;
    size_t address_length, max_am_header;
    char name[32];
    size_t max_debug_string;
} ucp_worker_attr_t;
typedef struct {
    uint64_t field_mask;
    int thread_mode;
    ucs_cpu_set_t cpu_mask;
    unsigned events;
    uintptr_t user_data;
    int event_fd;
    uint64_t flags;
    const char *name;
    size_t am_alignment;
    uint64_t client_id;
} ucp_worker_params_t;
typedef struct { uint64_t field_mask, worker_uid; } ucp_worker_address_attr_t;

typedef struct {
    uint64_t field_mask;
    const void *address;
    int err_mode;
    ucp_err_handler_t err_handler;
    uintptr_t user_data;
    unsigned flags;
    ucs_sock_addr_t sockaddr;
    uintptr_t conn_request;
    const char *name;
} ucp_ep_params_t;
typedef struct {
    uint64_t field_mask;
    char name[32];
    struct sockaddr_storage local_sockaddr, remote_sockaddr;
} ucp_ep_attr_t;
typedef struct { uint64_t field_mask; size_t message_size; } ucp_ep_evaluate_perf_param_t;
typedef struct { uint64_t field_mask; double estimated_time; } ucp_ep_evaluate_perf_attr_t;
typedef struct { uintptr_t ep, user_data; unsigned flags; uint8_t reserved[16]; } ucp_stream_poll_ep_t;

typedef struct { uint64_t field_mask; struct sockaddr_storage sockaddr; } ucp_listener_attr_t;
typedef struct {
    uint64_t field_mask;
    struct sockaddr_storage client_address;
    uint64_t client_id;
} ucp_conn_request_attr_t;
typedef struct {
    uint64_t field_mask;
    ucs_sock_addr_t sockaddr;
    ucp_listener_accept_handler_t accept_handler;
    ucp_listener_conn_handler_t conn_handler;
} ucp_listener_params_t;

typedef struct {
    uint64_t field_mask;
    uintptr_t address;
    size_t length;
    unsigned flags, prot;
    int memory_type;
} ucp_mem_map_params_t;
typedef struct { uint64_t field_mask; uintptr_t address; size_t length; int advice; } ucp_mem_advise_params_t;
typedef struct { uint64_t field_mask; uintptr_t address; size_t length; int mem_type; } ucp_mem_attr_t;

typedef struct {
    uint32_t op_attr_mask, flags;
    uintptr_t request;
    union {
        ucp_send_nbx_callback_t send;
        ucp_tag_recv_nbx_callback_t recv;
        ucp_stream_recv_nbx_callback_t recv_stream;
        ucp_am_recv_data_nbx_callback_t recv_am;
    } cb;
    uint64_t datatype;
    uintptr_t user_data, reply_buffer;
    int memory_type;
    union { size_t *length; ucp_tag_recv_info_t *tag_info; } recv_info;
} ucp_request_param_t;
typedef struct {
    uint64_t field_mask;
    char *debug_string;
    size_t debug_string_size;
    ucs_status_t status;
    int mem_type;
} ucp_request_attr_t;
typedef struct {
    uint64_t field_mask;
    unsigned id;
    uint32_t flags;
    ucp_am_recv_callback_t cb;
    uintptr_t arg;
} ucp_am_handler_param_t;
"""

LATER_TYPES = """
typedef struct { uint64_t field_mask, flags; } ucp_memh_pack_params_t;
typedef struct { uint64_t field_mask; } ucp_memh_buffer_release_params_t;
typedef struct { uint64_t field_mask; } ucp_rkey_compare_params_t;
typedef struct { uint64_t field_mask; size_t packed_size; uintptr_t buffer; size_t count; } ucp_datatype_attr_t;
"""
"""Of functions that 1.12 does not have."""
