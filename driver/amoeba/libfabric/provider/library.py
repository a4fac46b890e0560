"""``libamoeba-fi.so`` as data: the functions of numbers and pointers behind libfabric's tables.

The functions do not depend on the tables. Objects are numbers here: the addresses of their ``struct fid``.
"""

from pathlib import Path

from amoeba.core.errno import Errno
from amoeba.embed import CFunction, CLibrary
from amoeba.libfabric.objects.info import PROVIDER_VERSION
from amoeba.libfabric.provider.layouts import TYPES
from amoeba.libfabric.provider.tables import table_sources

__all__ = ["ADD", "ADD_ERRORS", "COMPARE", "DATA", "FETCH", "GIVEN", "INJECT", "LIBRARY", "SET", "TAGGED", "WRITE"]

TAGGED, WRITE, DATA, INJECT, GIVEN = 1, 1, 2, 4, 8
"""Flags of a transfer call: tagged messages, writes; with immediate data; injected; with flags in force."""
BASE, FETCH, COMPARE = 0, 1, 2
"""Flags of a call of fi_atomic(3), with the last two above."""
ADD, SET, ADD_ERRORS, SET_ERRORS = range(4)
"""Changes of a counter."""

_SIDE_C = Path(__file__).with_name("provider.c")
_KINDS = {
    "TAGGED": TAGGED,
    "WRITE": WRITE,
    "DATA": DATA,
    "INJECT": INJECT,
    "GIVEN": GIVEN,
    "BASE": BASE,
    "FETCH": FETCH,
    "COMPARE": COMPARE,
    "ADD": ADD,
    "SET": SET,
    "ADD_ERRORS": ADD_ERRORS,
    "SET_ERRORS": SET_ERRORS,
    "FI_EINVAL": int(Errno.FI_EINVAL),
    "FI_ENOSYS": int(Errno.FI_ENOSYS),
    "AMOEBA_VERSION": PROVIDER_VERSION,
}
_ENUMERATIONS = "\n".join(
    f"enum {name} {{ {name.upper()}_LAST = 0x7FFFFFFF }};" for name in ("fi_datatype", "fi_op", "fi_collective_op")
)
_INCLUDES = "#define _GNU_SOURCE\n#include <sys/uio.h>"
_IOVEC = "struct iovec { void *iov_base; size_t iov_len; ...; };"
_NO_CONNECTION = f"-{int(Errno.FI_ESHUTDOWN)}"


def _function(name: str, parameters: str, returns: str = "int", ended: str = _NO_CONNECTION) -> CFunction:
    return CFunction(name, returns, parameters, ended=ended, exported=False)


def _transfer(name: str, parameters: str) -> CFunction:
    return _function(name, f"uintptr_t ep, int kind, {parameters}", "ssize_t")


_FUNCTIONS = (
    _function(
        "provider_getinfo",
        "uint32_t version, const char *node, const char *service, uint64_t flags, const struct fi_info *hints, "
        "struct fi_info **info",
        ended=f"-{int(Errno.FI_ENODATA)}",
    ),
    # Objects
    _function("fabric_open", "struct fi_fabric_attr *attr, uintptr_t context, uintptr_t *fid"),
    _function(
        "domain_open",
        "uintptr_t fabric, const struct fi_info *info, uint64_t flags, uintptr_t context, uintptr_t *fid",
    ),
    _function("pep_open", "uintptr_t fabric, const struct fi_info *info, uintptr_t context, uintptr_t *fid"),
    _function("eq_open", "uintptr_t fabric, const struct fi_eq_attr *attr, uintptr_t context, uintptr_t *fid"),
    _function("wait_open", "uintptr_t fabric, const struct fi_wait_attr *attr, uintptr_t *fid"),
    _function("av_open", "uintptr_t domain, struct fi_av_attr *attr, uintptr_t context, uintptr_t *fid"),
    _function("cq_open", "uintptr_t domain, const struct fi_cq_attr *attr, uintptr_t context, uintptr_t *fid"),
    _function("cntr_open", "uintptr_t domain, const struct fi_cntr_attr *attr, uintptr_t context, uintptr_t *fid"),
    _function("poll_open", "uintptr_t domain, const struct fi_poll_attr *attr, uintptr_t *fid"),
    _function(
        "ep_open",
        "uintptr_t domain, int scalable, const struct fi_info *info, uint64_t flags, uintptr_t context, "
        "uintptr_t *fid",
    ),
    _function("stx_open", "uintptr_t domain, const struct fi_tx_attr *attr, uintptr_t context, uintptr_t *fid"),
    _function("srx_open", "uintptr_t domain, const struct fi_rx_attr *attr, uintptr_t context, uintptr_t *fid"),
    _function(
        "tx_open", "uintptr_t sep, int index, const struct fi_tx_attr *attr, uintptr_t context, uintptr_t *fid"
    ),
    _function(
        "rx_open", "uintptr_t sep, int index, const struct fi_rx_attr *attr, uintptr_t context, uintptr_t *fid"
    ),
    _function(
        "mr_open",
        "uintptr_t domain, const struct iovec *iov, size_t count, uint64_t access, uint64_t offset, uint64_t key, "
        "size_t auth_key_size, uint64_t flags, uintptr_t context, uintptr_t *fid",
    ),
    _function("fid_close", "uintptr_t fid", ended="0"),
    _function("fid_bind", "uintptr_t fid, uintptr_t bound, uint64_t flags"),
    _function("fid_control", "uintptr_t fid, int command, void *arg"),
    _function(
        "atomic_query",
        "uintptr_t domain, int datatype, int op, struct fi_atomic_attr *attr, uint64_t flags",
    ),
    # Addresses and connections
    _function(
        "av_insert",
        "uintptr_t av, uintptr_t addr, size_t count, fi_addr_t *fi_addr, uint64_t flags, void *context",
    ),
    _function(
        "av_insertsym",
        "uintptr_t av, const char *node, size_t nodecnt, const char *service, size_t svccnt, fi_addr_t *fi_addr, "
        "uint64_t flags, void *context",
    ),
    _function("av_remove", "uintptr_t av, fi_addr_t *fi_addr, size_t count, uint64_t flags"),
    _function("av_lookup", "uintptr_t av, fi_addr_t fi_addr, uintptr_t addr, size_t *addrlen"),
    _function("av_straddr", "uintptr_t av, uintptr_t addr, uintptr_t buf, size_t *len"),
    _function("cm_setname", "uintptr_t fid, uintptr_t addr, size_t addrlen"),
    _function("cm_getname", "uintptr_t fid, uintptr_t addr, size_t *addrlen"),
    _function("cm_getpeer", "uintptr_t ep, uintptr_t addr, size_t *addrlen"),
    _function("cm_connect", "uintptr_t ep, uintptr_t addr, uintptr_t param, size_t paramlen"),
    _function("cm_listen", "uintptr_t pep"),
    _function("cm_accept", "uintptr_t ep, uintptr_t param, size_t paramlen"),
    _function("cm_reject", "uintptr_t pep, uintptr_t handle, uintptr_t param, size_t paramlen"),
    _function("cm_shutdown", "uintptr_t ep, uint64_t flags"),
    # Endpoints
    _function("ep_cancel", "uintptr_t ep, uintptr_t context", "ssize_t"),
    _function("opt_get", "uintptr_t ep, int level, int optname, uintptr_t optval, size_t *optlen"),
    _function("opt_set", "uintptr_t ep, int level, int optname, uintptr_t optval, size_t optlen"),
    _function("size_left", "uintptr_t ep, int transmit", "ssize_t"),
    _function("atomic_valid", "uintptr_t ep, int kind, int datatype, int op, size_t *count"),
    _transfer(
        "ep_recv", "uintptr_t buf, size_t len, fi_addr_t peer, uint64_t tag, uint64_t ignore, uintptr_t context"
    ),
    _transfer("ep_recvmsg", "const struct fi_msg_tagged *msg, uint64_t flags"),
    _transfer(
        "ep_send", "uintptr_t buf, size_t len, uint64_t data, fi_addr_t peer, uint64_t tag, uintptr_t context"
    ),
    _transfer("ep_sendmsg", "const struct fi_msg_tagged *msg, uint64_t flags"),
    _transfer(
        "ep_rma",
        "uintptr_t buf, size_t len, uint64_t data, fi_addr_t peer, uint64_t addr, uint64_t key, uintptr_t context",
    ),
    _transfer("ep_rmamsg", "const struct fi_msg_rma *msg, uint64_t flags"),
    _transfer(
        "ep_atomic",
        "uintptr_t buf, size_t count, uintptr_t compare, uintptr_t result, fi_addr_t peer, uint64_t addr, "
        "uint64_t key, int datatype, int op, uintptr_t context",
    ),
    _transfer(
        "ep_atomicmsg",
        "const struct fi_msg_atomic *msg, const struct fi_ioc *compare, size_t compare_count, "
        "const struct fi_ioc *result, size_t result_count, uint64_t flags",
    ),
    # Queues, counters, wait sets and poll sets
    _function("cq_read", "uintptr_t cq, uintptr_t buf, size_t count, fi_addr_t *source", "ssize_t"),
    _function(
        "cq_sread",
        "uintptr_t cq, uintptr_t buf, size_t count, fi_addr_t *source, uintptr_t cond, int timeout",
        "ssize_t",
    ),
    _function("cq_readerr", "uintptr_t cq, struct fi_cq_err_entry *entry, uint64_t flags", "ssize_t"),
    _function("cq_signal", "uintptr_t cq"),
    _function("cq_strerror", "uintptr_t cq, int prov_errno, uintptr_t buf, size_t len"),
    _function(
        "eq_read", "uintptr_t eq, uint32_t *event, uintptr_t buf, size_t len, int timeout, uint64_t flags", "ssize_t"
    ),
    _function(
        "eq_sread", "uintptr_t eq, uint32_t *event, uintptr_t buf, size_t len, int timeout, uint64_t flags", "ssize_t"
    ),
    _function("eq_readerr", "uintptr_t eq, struct fi_eq_err_entry *entry, uint64_t flags", "ssize_t"),
    _function("eq_write", "uintptr_t eq, uint32_t event, uintptr_t buf, size_t len, uint64_t flags", "ssize_t"),
    _function("eq_strerror", "uintptr_t eq, int prov_errno, uintptr_t buf, size_t len"),
    _function("cntr_read", "uintptr_t cntr, int errors", "uint64_t", "0"),
    _function("cntr_change", "uintptr_t cntr, int what, uint64_t value"),
    _function("cntr_wait", "uintptr_t cntr, uint64_t threshold, int timeout"),
    _function("fabric_trywait", "uintptr_t fabric, uintptr_t *fids, int count"),
    _function("wait_wait", "uintptr_t waitset, int timeout"),
    _function("poll_poll", "uintptr_t pollset, uintptr_t *contexts, int count"),
    _function("poll_change", "uintptr_t pollset, uintptr_t member, uint64_t flags, int add"),
)


def _source() -> str:
    numbers = "\n".join(f"#define {name} {value}" for name, value in _KINDS.items())
    return "\n".join(
        [numbers, _ENUMERATIONS, "#define N(pointer) ((uintptr_t)(pointer))", table_sources(), _SIDE_C.read_text()]
    )


LIBRARY = CLibrary(
    name="libamoeba-fi.so",
    entry="amoeba.libfabric.provider.provider",
    functions=_FUNCTIONS,
    types=TYPES,
    includes=_INCLUDES,
    included=_IOVEC,
    helpers="""
        struct amoeba_fid *object_new(int class, uintptr_t context);
        void object_free(struct amoeba_fid *object);
        void *copy(const void *bytes, size_t size);
        struct fi_info *info_new(void);
        void info_free(struct fi_info *info);
    """,
    source=_source(),
)
