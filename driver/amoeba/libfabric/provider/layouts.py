"""What libfabric's programs and providers hand each other: structures of release 1.17, in C.

They are declared here for compiler and cffi, so that no header of libfabric is needed; a test compares them with
Debian's. Enumerations are ``int``, as they are in C.
"""

__all__ = ["TYPES"]

TYPES = """
typedef uint64_t fi_addr_t;
struct fi_ops;
struct fid { size_t fclass; void *context; struct fi_ops *ops; };
struct amoeba_fid { struct fid fid; uintptr_t slots[7]; };

struct fi_tx_attr {
    uint64_t caps, mode, op_flags, msg_order, comp_order;
    size_t inject_size, size, iov_limit, rma_iov_limit;
    uint32_t tclass;
};
struct fi_rx_attr {
    uint64_t caps, mode, op_flags, msg_order, comp_order;
    size_t total_buffered_recv, size, iov_limit;
};
struct fi_ep_attr {
    int type;
    uint32_t protocol, protocol_version;
    size_t max_msg_size, msg_prefix_size, max_order_raw_size, max_order_war_size, max_order_waw_size;
    uint64_t mem_tag_format;
    size_t tx_ctx_cnt, rx_ctx_cnt, auth_key_size;
    uint8_t *auth_key;
};
struct fi_domain_attr {
    struct fid *domain;
    char *name;
    int threading, control_progress, data_progress, resource_mgmt, av_type, mr_mode;
    size_t mr_key_size, cq_data_size, cq_cnt, ep_cnt, tx_ctx_cnt, rx_ctx_cnt, max_ep_tx_ctx, max_ep_rx_ctx;
    size_t max_ep_stx_ctx, max_ep_srx_ctx, cntr_cnt, mr_iov_limit;
    uint64_t caps, mode;
    uint8_t *auth_key;
    size_t auth_key_size, max_err_data, mr_cnt;
    uint32_t tclass;
};
struct fi_fabric_attr {
    struct fid *fabric;
    char *name, *prov_name;
    uint32_t prov_version, api_version;
};
struct fi_info {
    struct fi_info *next;
    uint64_t caps, mode;
    uint32_t addr_format;
    size_t src_addrlen, dest_addrlen;
    void *src_addr, *dest_addr;
    struct fid *handle;
    struct fi_tx_attr *tx_attr;
    struct fi_rx_attr *rx_attr;
    struct fi_ep_attr *ep_attr;
    struct fi_domain_attr *domain_attr;
    struct fi_fabric_attr *fabric_attr;
    struct fid *nic;
};

struct fi_av_attr {
    int type, rx_ctx_bits;
    size_t count, ep_per_node;
    const char *name;
    void *map_addr;
    uint64_t flags;
};
struct fi_cq_attr {
    size_t size;
    uint64_t flags;
    int format, wait_obj, signaling_vector, wait_cond;
    struct fid *wait_set;
};
struct fi_eq_attr { size_t size; uint64_t flags; int wait_obj, signaling_vector; struct fid *wait_set; };
struct fi_cntr_attr { int events, wait_obj; struct fid *wait_set; uint64_t flags; };
struct fi_wait_attr { int wait_obj; uint64_t flags; };
struct fi_poll_attr { uint64_t flags; };
struct fi_atomic_attr { size_t count, size; };
struct fi_alias { struct fid **fid; uint64_t flags; };
struct fi_mr_raw_attr { uint64_t flags; uint64_t *base_addr; uint8_t *raw_key; size_t *key_size; };
struct fi_mr_map_raw {
    uint64_t flags, base_addr;
    uint8_t *raw_key;
    size_t key_size;
    uint64_t *key;
};
struct fi_mr_attr {
    const struct iovec *mr_iov;
    size_t iov_count;
    uint64_t access, offset, requested_key;
    void *context;
    size_t auth_key_size;
    uint8_t *auth_key;
    int iface;
    uint64_t device;
};
struct fi_mr_modify { uint64_t flags; struct fi_mr_attr attr; };

struct fi_cq_err_entry {
    void *op_context;
    uint64_t flags;
    size_t len;
    void *buf;
    uint64_t data, tag;
    size_t olen;
    int err, prov_errno;
    void *err_data;
    size_t err_data_size;
};
struct fi_eq_entry { struct fid *fid; void *context; uint64_t data; };
struct fi_eq_cm_entry { struct fid *fid; struct fi_info *info; };
struct fi_eq_err_entry {
    struct fid *fid;
    void *context;
    uint64_t data;
    int err, prov_errno;
    void *err_data;
    size_t err_data_size;
};

struct fi_ioc { void *addr; size_t count; };
struct fi_rma_iov { uint64_t addr; size_t len; uint64_t key; };
struct fi_rma_ioc { uint64_t addr; size_t count; uint64_t key; };
struct fi_msg {
    const struct iovec *msg_iov;
    void **desc;
    size_t iov_count;
    fi_addr_t addr;
    void *context;
    uint64_t data;
};
struct fi_msg_tagged {
    const struct iovec *msg_iov;
    void **desc;
    size_t iov_count;
    fi_addr_t addr;
    uint64_t tag, ignore;
    void *context;
    uint64_t data;
};
struct fi_msg_rma {
    const struct iovec *msg_iov;
    void **desc;
    size_t iov_count;
    fi_addr_t addr;
    const struct fi_rma_iov *rma_iov;
    size_t rma_iov_count;
    void *context;
    uint64_t data;
};
struct fi_msg_atomic {
    const struct fi_ioc *msg_iov;
    void **desc;
    size_t iov_count;
    fi_addr_t addr;
    const struct fi_rma_ioc *rma_iov;
    size_t rma_iov_count;
    int datatype, op;
    void *context;
    uint64_t data;
};
struct fi_msg_fetch { struct fi_ioc *msg_iov; void **desc; size_t iov_count; };
struct fi_msg_compare { const struct fi_ioc *msg_iov; void **desc; size_t iov_count; };

struct fi_trigger_threshold { struct fid *cntr; size_t threshold; };
struct fi_triggered_context { int event_type; struct fi_trigger_threshold trigger; void *rest; };
struct fi_op_msg { struct fid *ep; struct fi_msg msg; uint64_t flags; };
struct fi_op_tagged { struct fid *ep; struct fi_msg_tagged msg; uint64_t flags; };
struct fi_op_rma { struct fid *ep; struct fi_msg_rma msg; uint64_t flags; };
struct fi_op_atomic { struct fid *ep; struct fi_msg_atomic msg; uint64_t flags; };
struct fi_op_fetch_atomic { struct fid *ep; struct fi_msg_atomic msg; struct fi_msg_fetch fetch; uint64_t flags; };
struct fi_op_compare_atomic {
    struct fid *ep;
    struct fi_msg_atomic msg;
    struct fi_msg_fetch fetch;
    struct fi_msg_compare compare;
    uint64_t flags;
};
struct fi_op_cntr { struct fid *cntr; uint64_t value; };
struct fi_deferred_work {
    void *context[8];
    uint64_t threshold;
    struct fid *triggering_cntr, *completion_cntr;
    int op_type;
    void *op;
};
"""
