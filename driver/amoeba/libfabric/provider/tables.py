"""libfabric's tables of functions, release 1.17: what each entry takes, and which function of ours does it.

``N`` makes a number of a pointer, as the functions of :mod:`amoeba.libfabric.provider.library` take them. Entries
without a call answer FI_ENOSYS. Programs look at no entry before they call it, so there is one in every place.
"""

from typing import NamedTuple

__all__ = ["TABLES", "Entry", "Table", "table_sources"]

_EP = "struct fid_ep *ep"
_ONE = "const void *buf, size_t len, void *desc"
_INTO = "void *buf, size_t len, void *desc"
_MANY = "const struct iovec *iov, void **desc, size_t count"
_MEMORY = "fi_addr_t peer, uint64_t addr, uint64_t key"
_WHAT = "enum fi_datatype datatype, enum fi_op op"
_IOC = "const struct fi_ioc *iov, void **desc, size_t count"
_COMPARED = "const struct fi_ioc *comparev, void **compare_desc, size_t compare_count"
_RESULTS = "struct fi_ioc *resultv, void **result_desc, size_t result_count"
_MESSAGE = "struct fi_msg_tagged m = {{ iov, desc, count, peer, {tag}, {ignore}, context, 0 }}; return {call};"
_UNTAGGED = (
    "if (!msg) return -FI_EINVAL; struct fi_msg_tagged m = {{ msg->msg_iov, msg->desc, msg->iov_count, msg->addr, 0, "
    "0, msg->context, msg->data }}; return {call};"
)
_RMA = (
    "struct fi_rma_iov r = {{ addr, 0, key }}; "
    "struct fi_msg_rma m = {{ iov, desc, count, peer, &r, 1, context, 0 }}; return {call};"
)
_ATOMIC = (
    "struct fi_rma_ioc r = {{ addr, 0, key }}; struct fi_msg_atomic m = {{ iov, desc, count, peer, &r, 1, datatype, "
    "op, context, 0 }}; return {call};"
)


class Entry(NamedTuple):
    """One function of a table."""

    name: str
    returns: str
    parameters: str
    """In C."""
    call: str = ""
    """An expression, or statements with ``return``."""


class Table(NamedTuple):
    """``struct fi_ops...``, and the static object of that type which all objects share."""

    name: str
    entries: tuple[Entry, ...]

    @property
    def variable(self) -> str:
        return self.name.removeprefix("fi_")


TABLES = (
    Table(
        "fi_ops",
        (
            Entry("close", "int", "struct fid *fid", "fid_close(N(fid))"),
            Entry("bind", "int", "struct fid *fid, struct fid *bfid, uint64_t flags",
                  "fid_bind(N(fid), N(bfid), flags)"),
            Entry("control", "int", "struct fid *fid, int command, void *arg", "fid_control(N(fid), command, arg)"),
            Entry("ops_open", "int",
                  "struct fid *fid, const char *name, uint64_t flags, void **ops, void *context"),
            Entry("tostr", "int", "const struct fid *fid, char *buf, size_t len"),
            Entry("ops_set", "int", "struct fid *fid, const char *name, uint64_t flags, void *ops, void *context"),
        ),
    ),
    Table(
        "fi_ops_fabric",
        (
            Entry("domain", "int",
                  "struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **dom, void *context",
                  "domain_open(N(fabric), info, 0, N(context), (uintptr_t *)dom)"),
            Entry("passive_ep", "int",
                  "struct fid_fabric *fabric, struct fi_info *info, struct fid_pep **pep, void *context",
                  "pep_open(N(fabric), info, N(context), (uintptr_t *)pep)"),
            Entry("eq_open", "int",
                  "struct fid_fabric *fabric, struct fi_eq_attr *attr, struct fid_eq **eq, void *context",
                  "eq_open(N(fabric), attr, N(context), (uintptr_t *)eq)"),
            Entry("wait_open", "int",
                  "struct fid_fabric *fabric, struct fi_wait_attr *attr, struct fid_wait **waitset",
                  "wait_open(N(fabric), attr, (uintptr_t *)waitset)"),
            Entry("trywait", "int", "struct fid_fabric *fabric, struct fid **fids, int count",
                  "fabric_trywait(N(fabric), (uintptr_t *)fids, count)"),
            Entry("domain2", "int",
                  "struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **dom, uint64_t flags, "
                  "void *context",
                  "domain_open(N(fabric), info, flags, N(context), (uintptr_t *)dom)"),
        ),
    ),
    Table(
        "fi_ops_domain",
        (
            Entry("av_open", "int",
                  "struct fid_domain *domain, struct fi_av_attr *attr, struct fid_av **av, void *context",
                  "av_open(N(domain), attr, N(context), (uintptr_t *)av)"),
            Entry("cq_open", "int",
                  "struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **cq, void *context",
                  "cq_open(N(domain), attr, N(context), (uintptr_t *)cq)"),
            Entry("endpoint", "int",
                  "struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep, void *context",
                  "ep_open(N(domain), 0, info, 0, N(context), (uintptr_t *)ep)"),
            Entry("scalable_ep", "int",
                  "struct fid_domain *domain, struct fi_info *info, struct fid_ep **sep, void *context",
                  "ep_open(N(domain), 1, info, 0, N(context), (uintptr_t *)sep)"),
            Entry("cntr_open", "int",
                  "struct fid_domain *domain, struct fi_cntr_attr *attr, struct fid_cntr **cntr, void *context",
                  "cntr_open(N(domain), attr, N(context), (uintptr_t *)cntr)"),
            Entry("poll_open", "int",
                  "struct fid_domain *domain, struct fi_poll_attr *attr, struct fid_poll **pollset",
                  "poll_open(N(domain), attr, (uintptr_t *)pollset)"),
            Entry("stx_ctx", "int",
                  "struct fid_domain *domain, struct fi_tx_attr *attr, struct fid_stx **stx, void *context",
                  "stx_open(N(domain), attr, N(context), (uintptr_t *)stx)"),
            Entry("srx_ctx", "int",
                  "struct fid_domain *domain, struct fi_rx_attr *attr, struct fid_ep **rx_ep, void *context",
                  "srx_open(N(domain), attr, N(context), (uintptr_t *)rx_ep)"),
            Entry("query_atomic", "int",
                  f"struct fid_domain *domain, {_WHAT}, struct fi_atomic_attr *attr, uint64_t flags",
                  "atomic_query(N(domain), datatype, op, attr, flags)"),
            Entry("query_collective", "int",
                  "struct fid_domain *domain, enum fi_collective_op coll, struct fi_collective_attr *attr, "
                  "uint64_t flags"),
            Entry("endpoint2", "int",
                  "struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep, uint64_t flags, "
                  "void *context",
                  "ep_open(N(domain), 0, info, flags, N(context), (uintptr_t *)ep)"),
        ),
    ),
    Table(
        "fi_ops_mr",
        (
            Entry("reg", "int",
                  "struct fid *fid, const void *buf, size_t len, uint64_t access, uint64_t offset, "
                  "uint64_t requested_key, uint64_t flags, struct fid_mr **mr, void *context",
                  "struct iovec v = { (void *)buf, len }; return mr_open(N(fid), &v, 1, access, offset, "
                  "requested_key, 0, flags, N(context), (uintptr_t *)mr);"),
            Entry("regv", "int",
                  "struct fid *fid, const struct iovec *iov, size_t count, uint64_t access, uint64_t offset, "
                  "uint64_t requested_key, uint64_t flags, struct fid_mr **mr, void *context",
                  "mr_open(N(fid), iov, count, access, offset, requested_key, 0, flags, N(context), "
                  "(uintptr_t *)mr)"),
            Entry("regattr", "int",
                  "struct fid *fid, const struct fi_mr_attr *attr, uint64_t flags, struct fid_mr **mr",
                  "if (!attr) return -FI_EINVAL; return mr_open(N(fid), attr->mr_iov, attr->iov_count, "
                  "attr->access, attr->offset, attr->requested_key, attr->auth_key_size, flags, N(attr->context), "
                  "(uintptr_t *)mr);"),
        ),
    ),
    Table(
        "fi_ops_av",
        (
            Entry("insert", "int",
                  "struct fid_av *av, const void *addr, size_t count, fi_addr_t *fi_addr, uint64_t flags, "
                  "void *context",
                  "av_insert(N(av), N(addr), count, fi_addr, flags, context)"),
            Entry("insertsvc", "int",
                  "struct fid_av *av, const char *node, const char *service, fi_addr_t *fi_addr, uint64_t flags, "
                  "void *context",
                  "av_insertsym(N(av), node, 1, service, 1, fi_addr, flags, context)"),
            Entry("insertsym", "int",
                  "struct fid_av *av, const char *node, size_t nodecnt, const char *service, size_t svccnt, "
                  "fi_addr_t *fi_addr, uint64_t flags, void *context",
                  "av_insertsym(N(av), node, nodecnt, service, svccnt, fi_addr, flags, context)"),
            Entry("remove", "int", "struct fid_av *av, fi_addr_t *fi_addr, size_t count, uint64_t flags",
                  "av_remove(N(av), fi_addr, count, flags)"),
            Entry("lookup", "int", "struct fid_av *av, fi_addr_t fi_addr, void *addr, size_t *addrlen",
                  "av_lookup(N(av), fi_addr, N(addr), addrlen)"),
            Entry("straddr", "const char *", "struct fid_av *av, const void *addr, char *buf, size_t *len",
                  "return av_straddr(N(av), N(addr), N(buf), len) ? NULL : buf;"),
            Entry("av_set", "int",
                  "struct fid_av *av, struct fi_av_set_attr *attr, struct fid_av_set **av_set, void *context"),
        ),
    ),
    Table(
        "fi_ops_ep",
        (
            Entry("cancel", "ssize_t", "struct fid *fid, void *context", "ep_cancel(N(fid), N(context))"),
            Entry("getopt", "int", "struct fid *fid, int level, int optname, void *optval, size_t *optlen",
                  "opt_get(N(fid), level, optname, N(optval), optlen)"),
            Entry("setopt", "int", "struct fid *fid, int level, int optname, const void *optval, size_t optlen",
                  "opt_set(N(fid), level, optname, N(optval), optlen)"),
            Entry("tx_ctx", "int",
                  "struct fid_ep *sep, int index, struct fi_tx_attr *attr, struct fid_ep **tx_ep, void *context",
                  "tx_open(N(sep), index, attr, N(context), (uintptr_t *)tx_ep)"),
            Entry("rx_ctx", "int",
                  "struct fid_ep *sep, int index, struct fi_rx_attr *attr, struct fid_ep **rx_ep, void *context",
                  "rx_open(N(sep), index, attr, N(context), (uintptr_t *)rx_ep)"),
            Entry("rx_size_left", "ssize_t", _EP, "size_left(N(ep), 0)"),
            Entry("tx_size_left", "ssize_t", _EP, "size_left(N(ep), 1)"),
        ),
    ),
    Table(
        "fi_ops_cm",
        (
            Entry("setname", "int", "struct fid *fid, void *addr, size_t addrlen",
                  "cm_setname(N(fid), N(addr), addrlen)"),
            Entry("getname", "int", "struct fid *fid, void *addr, size_t *addrlen",
                  "cm_getname(N(fid), N(addr), addrlen)"),
            Entry("getpeer", "int", f"{_EP}, void *addr, size_t *addrlen", "cm_getpeer(N(ep), N(addr), addrlen)"),
            Entry("connect", "int", f"{_EP}, const void *addr, const void *param, size_t paramlen",
                  "cm_connect(N(ep), N(addr), N(param), paramlen)"),
            Entry("listen", "int", "struct fid_pep *pep", "cm_listen(N(pep))"),
            Entry("accept", "int", f"{_EP}, const void *param, size_t paramlen",
                  "cm_accept(N(ep), N(param), paramlen)"),
            Entry("reject", "int", "struct fid_pep *pep, struct fid *handle, const void *param, size_t paramlen",
                  "cm_reject(N(pep), N(handle), N(param), paramlen)"),
            Entry("shutdown", "int", f"{_EP}, uint64_t flags", "cm_shutdown(N(ep), flags)"),
            Entry("join", "int", f"{_EP}, const void *addr, uint64_t flags, struct fid_mc **mc, void *context"),
        ),
    ),
    Table(
        "fi_ops_msg",
        (
            Entry("recv", "ssize_t", f"{_EP}, {_INTO}, fi_addr_t peer, void *context",
                  "ep_recv(N(ep), 0, N(buf), len, peer, 0, 0, N(context))"),
            Entry("recvv", "ssize_t", f"{_EP}, {_MANY}, fi_addr_t peer, void *context",
                  _MESSAGE.format(tag=0, ignore=0, call="ep_recvmsg(N(ep), 0, &m, 0)")),
            Entry("recvmsg", "ssize_t", f"{_EP}, const struct fi_msg *msg, uint64_t flags",
                  _UNTAGGED.format(call="ep_recvmsg(N(ep), GIVEN, &m, flags)")),
            Entry("send", "ssize_t", f"{_EP}, {_ONE}, fi_addr_t peer, void *context",
                  "ep_send(N(ep), 0, N(buf), len, 0, peer, 0, N(context))"),
            Entry("sendv", "ssize_t", f"{_EP}, {_MANY}, fi_addr_t peer, void *context",
                  _MESSAGE.format(tag=0, ignore=0, call="ep_sendmsg(N(ep), 0, &m, 0)")),
            Entry("sendmsg", "ssize_t", f"{_EP}, const struct fi_msg *msg, uint64_t flags",
                  _UNTAGGED.format(call="ep_sendmsg(N(ep), GIVEN, &m, flags)")),
            Entry("inject", "ssize_t", f"{_EP}, const void *buf, size_t len, fi_addr_t peer",
                  "ep_send(N(ep), INJECT, N(buf), len, 0, peer, 0, 0)"),
            Entry("senddata", "ssize_t", f"{_EP}, {_ONE}, uint64_t data, fi_addr_t peer, void *context",
                  "ep_send(N(ep), DATA, N(buf), len, data, peer, 0, N(context))"),
            Entry("injectdata", "ssize_t", f"{_EP}, const void *buf, size_t len, uint64_t data, fi_addr_t peer",
                  "ep_send(N(ep), DATA | INJECT, N(buf), len, data, peer, 0, 0)"),
        ),
    ),
    Table(
        "fi_ops_rma",
        (
            Entry("read", "ssize_t", f"{_EP}, {_INTO}, {_MEMORY}, void *context",
                  "ep_rma(N(ep), 0, N(buf), len, 0, peer, addr, key, N(context))"),
            Entry("readv", "ssize_t", f"{_EP}, {_MANY}, {_MEMORY}, void *context",
                  _RMA.format(call="ep_rmamsg(N(ep), 0, &m, 0)")),
            Entry("readmsg", "ssize_t", f"{_EP}, const struct fi_msg_rma *msg, uint64_t flags",
                  "ep_rmamsg(N(ep), GIVEN, msg, flags)"),
            Entry("write", "ssize_t", f"{_EP}, {_ONE}, {_MEMORY}, void *context",
                  "ep_rma(N(ep), WRITE, N(buf), len, 0, peer, addr, key, N(context))"),
            Entry("writev", "ssize_t", f"{_EP}, {_MANY}, {_MEMORY}, void *context",
                  _RMA.format(call="ep_rmamsg(N(ep), WRITE, &m, 0)")),
            Entry("writemsg", "ssize_t", f"{_EP}, const struct fi_msg_rma *msg, uint64_t flags",
                  "ep_rmamsg(N(ep), WRITE | GIVEN, msg, flags)"),
            Entry("inject", "ssize_t", f"{_EP}, const void *buf, size_t len, {_MEMORY}",
                  "ep_rma(N(ep), WRITE | INJECT, N(buf), len, 0, peer, addr, key, 0)"),
            Entry("writedata", "ssize_t", f"{_EP}, {_ONE}, uint64_t data, {_MEMORY}, void *context",
                  "ep_rma(N(ep), WRITE | DATA, N(buf), len, data, peer, addr, key, N(context))"),
            Entry("injectdata", "ssize_t", f"{_EP}, const void *buf, size_t len, uint64_t data, {_MEMORY}",
                  "ep_rma(N(ep), WRITE | DATA | INJECT, N(buf), len, data, peer, addr, key, 0)"),
        ),
    ),
    Table(
        "fi_ops_tagged",
        (
            Entry("recv", "ssize_t", f"{_EP}, {_INTO}, fi_addr_t peer, uint64_t tag, uint64_t ignore, void *context",
                  "ep_recv(N(ep), TAGGED, N(buf), len, peer, tag, ignore, N(context))"),
            Entry("recvv", "ssize_t",
                  f"{_EP}, {_MANY}, fi_addr_t peer, uint64_t tag, uint64_t ignore, void *context",
                  _MESSAGE.format(tag="tag", ignore="ignore", call="ep_recvmsg(N(ep), TAGGED, &m, 0)")),
            Entry("recvmsg", "ssize_t", f"{_EP}, const struct fi_msg_tagged *msg, uint64_t flags",
                  "ep_recvmsg(N(ep), TAGGED | GIVEN, msg, flags)"),
            Entry("send", "ssize_t", f"{_EP}, {_ONE}, fi_addr_t peer, uint64_t tag, void *context",
                  "ep_send(N(ep), TAGGED, N(buf), len, 0, peer, tag, N(context))"),
            Entry("sendv", "ssize_t", f"{_EP}, {_MANY}, fi_addr_t peer, uint64_t tag, void *context",
                  _MESSAGE.format(tag="tag", ignore=0, call="ep_sendmsg(N(ep), TAGGED, &m, 0)")),
            Entry("sendmsg", "ssize_t", f"{_EP}, const struct fi_msg_tagged *msg, uint64_t flags",
                  "ep_sendmsg(N(ep), TAGGED | GIVEN, msg, flags)"),
            Entry("inject", "ssize_t", f"{_EP}, const void *buf, size_t len, fi_addr_t peer, uint64_t tag",
                  "ep_send(N(ep), TAGGED | INJECT, N(buf), len, 0, peer, tag, 0)"),
            Entry("senddata", "ssize_t",
                  f"{_EP}, {_ONE}, uint64_t data, fi_addr_t peer, uint64_t tag, void *context",
                  "ep_send(N(ep), TAGGED | DATA, N(buf), len, data, peer, tag, N(context))"),
            Entry("injectdata", "ssize_t",
                  f"{_EP}, const void *buf, size_t len, uint64_t data, fi_addr_t peer, uint64_t tag",
                  "ep_send(N(ep), TAGGED | DATA | INJECT, N(buf), len, data, peer, tag, 0)"),
        ),
    ),
    Table(
        "fi_ops_atomic",
        (
            Entry("write", "ssize_t", f"{_EP}, const void *buf, size_t count, void *desc, {_MEMORY}, {_WHAT}, "
                  "void *context",
                  "ep_atomic(N(ep), BASE, N(buf), count, 0, 0, peer, addr, key, datatype, op, N(context))"),
            Entry("writev", "ssize_t", f"{_EP}, {_IOC}, {_MEMORY}, {_WHAT}, void *context",
                  _ATOMIC.format(call="ep_atomicmsg(N(ep), BASE, &m, NULL, 0, NULL, 0, 0)")),
            Entry("writemsg", "ssize_t", f"{_EP}, const struct fi_msg_atomic *msg, uint64_t flags",
                  "ep_atomicmsg(N(ep), BASE | GIVEN, msg, NULL, 0, NULL, 0, flags)"),
            Entry("inject", "ssize_t", f"{_EP}, const void *buf, size_t count, {_MEMORY}, {_WHAT}",
                  "ep_atomic(N(ep), BASE | INJECT, N(buf), count, 0, 0, peer, addr, key, datatype, op, 0)"),
            Entry("readwrite", "ssize_t",
                  f"{_EP}, const void *buf, size_t count, void *desc, void *result, void *result_desc, {_MEMORY}, "
                  f"{_WHAT}, void *context",
                  "ep_atomic(N(ep), FETCH, N(buf), count, 0, N(result), peer, addr, key, datatype, op, "
                  "N(context))"),
            Entry("readwritev", "ssize_t", f"{_EP}, {_IOC}, {_RESULTS}, {_MEMORY}, {_WHAT}, void *context",
                  _ATOMIC.format(call="ep_atomicmsg(N(ep), FETCH, &m, NULL, 0, resultv, result_count, 0)")),
            Entry("readwritemsg", "ssize_t", f"{_EP}, const struct fi_msg_atomic *msg, {_RESULTS}, uint64_t flags",
                  "ep_atomicmsg(N(ep), FETCH | GIVEN, msg, NULL, 0, resultv, result_count, flags)"),
            Entry("compwrite", "ssize_t",
                  f"{_EP}, const void *buf, size_t count, void *desc, const void *compare, void *compare_desc, "
                  f"void *result, void *result_desc, {_MEMORY}, {_WHAT}, void *context",
                  "ep_atomic(N(ep), COMPARE, N(buf), count, N(compare), N(result), peer, addr, key, datatype, op, "
                  "N(context))"),
            Entry("compwritev", "ssize_t", f"{_EP}, {_IOC}, {_COMPARED}, {_RESULTS}, {_MEMORY}, {_WHAT}, "
                  "void *context",
                  _ATOMIC.format(call="ep_atomicmsg(N(ep), COMPARE, &m, comparev, compare_count, resultv, "
                                 "result_count, 0)")),
            Entry("compwritemsg", "ssize_t",
                  f"{_EP}, const struct fi_msg_atomic *msg, {_COMPARED}, {_RESULTS}, uint64_t flags",
                  "ep_atomicmsg(N(ep), COMPARE | GIVEN, msg, comparev, compare_count, resultv, result_count, "
                  "flags)"),
            Entry("writevalid", "int", f"{_EP}, {_WHAT}, size_t *count",
                  "atomic_valid(N(ep), BASE, datatype, op, count)"),
            Entry("readwritevalid", "int", f"{_EP}, {_WHAT}, size_t *count",
                  "atomic_valid(N(ep), FETCH, datatype, op, count)"),
            Entry("compwritevalid", "int", f"{_EP}, {_WHAT}, size_t *count",
                  "atomic_valid(N(ep), COMPARE, datatype, op, count)"),
        ),
    ),
    Table(
        "fi_ops_collective",
        tuple(
            Entry(name, "ssize_t", f"{_EP}, {parameters}")
            for name, parameters in (
                ("barrier", "fi_addr_t coll_addr, void *context"),
                ("broadcast", "void *buf, size_t count, void *desc, fi_addr_t coll_addr, fi_addr_t root_addr, "
                 "enum fi_datatype datatype, uint64_t flags, void *context"),
                ("alltoall", "const void *buf, size_t count, void *desc, void *result, void *result_desc, "
                 "fi_addr_t coll_addr, enum fi_datatype datatype, uint64_t flags, void *context"),
                ("allreduce", "const void *buf, size_t count, void *desc, void *result, void *result_desc, "
                 f"fi_addr_t coll_addr, {_WHAT}, uint64_t flags, void *context"),
                ("allgather", "const void *buf, size_t count, void *desc, void *result, void *result_desc, "
                 "fi_addr_t coll_addr, enum fi_datatype datatype, uint64_t flags, void *context"),
                ("reduce_scatter", "const void *buf, size_t count, void *desc, void *result, void *result_desc, "
                 f"fi_addr_t coll_addr, {_WHAT}, uint64_t flags, void *context"),
                ("reduce", "const void *buf, size_t count, void *desc, void *result, void *result_desc, "
                 f"fi_addr_t coll_addr, fi_addr_t root_addr, {_WHAT}, uint64_t flags, void *context"),
                ("scatter", "const void *buf, size_t count, void *desc, void *result, void *result_desc, "
                 "fi_addr_t coll_addr, fi_addr_t root_addr, enum fi_datatype datatype, uint64_t flags, "
                 "void *context"),
                ("gather", "const void *buf, size_t count, void *desc, void *result, void *result_desc, "
                 "fi_addr_t coll_addr, fi_addr_t root_addr, enum fi_datatype datatype, uint64_t flags, "
                 "void *context"),
                ("msg", f"const struct fi_msg_collective *msg, {_RESULTS}, uint64_t flags"),
                ("barrier2", "fi_addr_t coll_addr, uint64_t flags, void *context"),
            )
        ),
    ),
    Table(
        "fi_ops_cq",
        (
            Entry("read", "ssize_t", "struct fid_cq *cq, void *buf, size_t count",
                  "cq_read(N(cq), N(buf), count, NULL)"),
            Entry("readfrom", "ssize_t", "struct fid_cq *cq, void *buf, size_t count, fi_addr_t *src_addr",
                  "cq_read(N(cq), N(buf), count, src_addr)"),
            Entry("readerr", "ssize_t", "struct fid_cq *cq, struct fi_cq_err_entry *buf, uint64_t flags",
                  "cq_readerr(N(cq), buf, flags)"),
            Entry("sread", "ssize_t",
                  "struct fid_cq *cq, void *buf, size_t count, const void *cond, int timeout",
                  "cq_sread(N(cq), N(buf), count, NULL, N(cond), timeout)"),
            Entry("sreadfrom", "ssize_t",
                  "struct fid_cq *cq, void *buf, size_t count, fi_addr_t *src_addr, const void *cond, int timeout",
                  "cq_sread(N(cq), N(buf), count, src_addr, N(cond), timeout)"),
            Entry("signal", "int", "struct fid_cq *cq", "cq_signal(N(cq))"),
            Entry("strerror", "const char *",
                  "struct fid_cq *cq, int prov_errno, const void *err_data, char *buf, size_t len",
                  "static __thread char text[128]; if (!buf || !len) { buf = text; len = sizeof text; } *buf = 0; "
                  "cq_strerror(N(cq), prov_errno, N(buf), len); return buf;"),
        ),
    ),
    Table(
        "fi_ops_eq",
        (
            Entry("read", "ssize_t", "struct fid_eq *eq, uint32_t *event, void *buf, size_t len, uint64_t flags",
                  "eq_read(N(eq), event, N(buf), len, 0, flags)"),
            Entry("readerr", "ssize_t", "struct fid_eq *eq, struct fi_eq_err_entry *buf, uint64_t flags",
                  "eq_readerr(N(eq), buf, flags)"),
            Entry("write", "ssize_t",
                  "struct fid_eq *eq, uint32_t event, const void *buf, size_t len, uint64_t flags",
                  "eq_write(N(eq), event, N(buf), len, flags)"),
            Entry("sread", "ssize_t",
                  "struct fid_eq *eq, uint32_t *event, void *buf, size_t len, int timeout, uint64_t flags",
                  "eq_sread(N(eq), event, N(buf), len, timeout, flags)"),
            Entry("strerror", "const char *",
                  "struct fid_eq *eq, int prov_errno, const void *err_data, char *buf, size_t len",
                  "static __thread char text[128]; if (!buf || !len) { buf = text; len = sizeof text; } *buf = 0; "
                  "eq_strerror(N(eq), prov_errno, N(buf), len); return buf;"),
        ),
    ),
    Table(
        "fi_ops_cntr",
        (
            Entry("read", "uint64_t", "struct fid_cntr *cntr", "cntr_read(N(cntr), 0)"),
            Entry("readerr", "uint64_t", "struct fid_cntr *cntr", "cntr_read(N(cntr), 1)"),
            Entry("add", "int", "struct fid_cntr *cntr, uint64_t value", "cntr_change(N(cntr), ADD, value)"),
            Entry("set", "int", "struct fid_cntr *cntr, uint64_t value", "cntr_change(N(cntr), SET, value)"),
            Entry("wait", "int", "struct fid_cntr *cntr, uint64_t threshold, int timeout",
                  "cntr_wait(N(cntr), threshold, timeout)"),
            Entry("adderr", "int", "struct fid_cntr *cntr, uint64_t value",
                  "cntr_change(N(cntr), ADD_ERRORS, value)"),
            Entry("seterr", "int", "struct fid_cntr *cntr, uint64_t value",
                  "cntr_change(N(cntr), SET_ERRORS, value)"),
        ),
    ),
    Table(
        "fi_ops_wait",
        (Entry("wait", "int", "struct fid_wait *waitset, int timeout", "wait_wait(N(waitset), timeout)"),),
    ),
    Table(
        "fi_ops_poll",
        (
            Entry("poll", "int", "struct fid_poll *pollset, void **context, int count",
                  "poll_poll(N(pollset), (uintptr_t *)context, count)"),
            Entry("poll_add", "int", "struct fid_poll *pollset, struct fid *event_fid, uint64_t flags",
                  "poll_change(N(pollset), N(event_fid), flags, 1)"),
            Entry("poll_del", "int", "struct fid_poll *pollset, struct fid *event_fid, uint64_t flags",
                  "poll_change(N(pollset), N(event_fid), flags, 0)"),
        ),
    ),
)  # fmt: skip


def table_sources() -> str:
    """The tables in C: their types, their functions, and one object of each."""
    return "\n".join(_source(table) for table in TABLES)


def _source(table: Table) -> str:
    members = "".join(f" {each.returns} (*{each.name})({each.parameters});" for each in table.entries)
    functions = "\n".join(
        f"static {each.returns} {table.variable}_{each.name}({each.parameters}) {{ {_body(each)} }}"
        for each in table.entries
    )
    values = "".join(f", {table.variable}_{each.name}" for each in table.entries)
    return (
        f"struct {table.name} {{ size_t size;{members} }};\n{functions}\n"
        f"static struct {table.name} {table.variable} = {{ sizeof(struct {table.name}){values} }};"
    )


def _body(entry: Entry) -> str:
    if not entry.call:
        return "return -FI_ENOSYS;"
    return entry.call if "return" in entry.call else f"return {entry.call};"
