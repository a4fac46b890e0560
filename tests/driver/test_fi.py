"""libfabric's calls one to one: every function, with its arguments in C's order."""

import dataclasses
import inspect
import re
import select
from pathlib import Path

import numpy as np
import pytest
from amoeba import (
    FI_ADDR_NOTAVAIL,
    FI_SHARED_CONTEXT,
    INJECT_SIZE,
    MAX_MESSAGE,
    AtomicMsg,
    AvFlags,
    AvType,
    BindFlags,
    Caps,
    Control,
    CqDataEntry,
    CqEntry,
    CqFormat,
    Datatype,
    DeferredWork,
    DomainAttr,
    DomainFlags,
    EndpointAddress,
    EndpointOption,
    EpAttr,
    EpType,
    EqEntry,
    EqEvent,
    EqFlags,
    Errno,
    ErrorAvailableError,
    FabricError,
    Info,
    InfoFlags,
    MrAttr,
    MrFlags,
    Msg,
    Op,
    OpCntr,
    OpFlags,
    OptionLevel,
    QueryFlags,
    RmaIoc,
    RmaIov,
    RmaMsg,
    RxAttr,
    TaggedMsg,
    TriggeredContext,
    TriggerOp,
    TryAgainError,
    TxAttr,
    WaitObj,
    fi,
)
from sides import ALL_ACCESS

U64 = Datatype.FI_UINT64

C_ARGUMENTS = {
    "fi_allocinfo": "",
    "fi_dupinfo": "info",
    "fi_getinfo": "version node service flags hints",
    "fi_strerror": "errnum",
    "fi_tostr": "data",
    "fi_version": "",
    "fi_fabric": "attr",
    "fi_domain": "fabric info",
    "fi_domain_bind": "domain eq flags",
    "fi_close": "fid",
    "fi_control": "fid command arg",
    "fi_mr_reg": "domain buf len access offset requested_key flags context",
    "fi_mr_regv": "domain iov count access offset requested_key flags context",
    "fi_mr_regattr": "domain attr flags",
    "fi_mr_bind": "mr bfid flags",
    "fi_mr_desc": "mr",
    "fi_mr_key": "mr",
    "fi_av_open": "domain attr",
    "fi_av_bind": "av eq flags",
    "fi_av_insert": "av addr count flags context",
    "fi_av_remove": "av fi_addr count flags",
    "fi_av_lookup": "av fi_addr",
    "fi_av_straddr": "av addr",
    "fi_rx_addr": "fi_addr rx_index rx_ctx_bits",
    "fi_endpoint": "domain info",
    "fi_scalable_ep": "domain info",
    "fi_scalable_ep_bind": "sep fid flags",
    "fi_tx_context": "sep index attr",
    "fi_rx_context": "sep index attr",
    "fi_stx_context": "domain attr",
    "fi_ep_bind": "ep fid flags",
    "fi_enable": "ep",
    "fi_cancel": "ep context",
    "fi_ep_alias": "ep flags",
    "fi_getopt": "fid level optname",
    "fi_setopt": "fid level optname optval",
    "fi_rx_size_left": "ep",
    "fi_tx_size_left": "ep",
    "fi_getname": "fid",
    "fi_setname": "fid addr addrlen",
    "fi_getpeer": "ep",
    "fi_passive_ep": "fabric info",
    "fi_pep_bind": "pep fid flags",
    "fi_listen": "pep",
    "fi_connect": "ep addr param paramlen",
    "fi_accept": "ep param paramlen",
    "fi_reject": "pep handle param paramlen",
    "fi_shutdown": "ep flags",
    "fi_cq_open": "domain attr",
    "fi_cq_read": "cq count",
    "fi_cq_readfrom": "cq count",
    "fi_cq_sread": "cq count cond timeout",
    "fi_cq_sreadfrom": "cq count cond timeout",
    "fi_cq_readerr": "cq flags",
    "fi_cq_signal": "cq",
    "fi_cq_strerror": "cq prov_errno",
    "fi_cntr_open": "domain attr",
    "fi_cntr_read": "cntr",
    "fi_cntr_readerr": "cntr",
    "fi_cntr_add": "cntr value",
    "fi_cntr_adderr": "cntr value",
    "fi_cntr_set": "cntr value",
    "fi_cntr_seterr": "cntr value",
    "fi_cntr_wait": "cntr threshold timeout",
    "fi_eq_open": "fabric attr",
    "fi_eq_read": "eq flags",
    "fi_eq_sread": "eq timeout flags",
    "fi_eq_readerr": "eq flags",
    "fi_eq_write": "eq event entry flags",
    "fi_eq_strerror": "eq prov_errno",
    "fi_trywait": "fabric fids count",
    "fi_read": "ep buf len desc src_addr addr key context",
    "fi_readv": "ep iov desc count src_addr addr key context",
    "fi_readmsg": "ep msg flags",
    "fi_write": "ep buf len desc dest_addr addr key context",
    "fi_writev": "ep iov desc count dest_addr addr key context",
    "fi_writemsg": "ep msg flags",
    "fi_inject_write": "ep buf len dest_addr addr key",
    "fi_writedata": "ep buf len desc data dest_addr addr key context",
    "fi_inject_writedata": "ep buf len data dest_addr addr key",
    "fi_atomic": "ep buf count desc dest_addr addr key datatype op context",
    "fi_atomicv": "ep iov desc count dest_addr addr key datatype op context",
    "fi_atomicmsg": "ep msg flags",
    "fi_inject_atomic": "ep buf count dest_addr addr key datatype op",
    "fi_fetch_atomic": "ep buf count desc result result_desc dest_addr addr key datatype op context",
    "fi_fetch_atomicv": ("ep iov desc count resultv result_desc result_count dest_addr addr key datatype op context"),
    "fi_fetch_atomicmsg": "ep msg resultv result_desc result_count flags",
    "fi_compare_atomic": (
        "ep buf count desc compare compare_desc result result_desc dest_addr addr key datatype op context"
    ),
    "fi_compare_atomicv": (
        "ep iov desc count comparev compare_desc compare_count resultv result_desc result_count"
        " dest_addr addr key datatype op context"
    ),
    "fi_compare_atomicmsg": ("ep msg comparev compare_desc compare_count resultv result_desc result_count flags"),
    "fi_atomicvalid": "ep datatype op",
    "fi_fetch_atomicvalid": "ep datatype op",
    "fi_compare_atomicvalid": "ep datatype op",
    "fi_query_atomic": "domain datatype op flags",
    "fi_recv": "ep buf len desc src_addr context",
    "fi_recvv": "ep iov desc count src_addr context",
    "fi_recvmsg": "ep msg flags",
    "fi_send": "ep buf len desc dest_addr context",
    "fi_sendv": "ep iov desc count dest_addr context",
    "fi_sendmsg": "ep msg flags",
    "fi_inject": "ep buf len dest_addr",
    "fi_senddata": "ep buf len desc data dest_addr context",
    "fi_injectdata": "ep buf len data dest_addr",
    "fi_trecv": "ep buf len desc src_addr tag ignore context",
    "fi_trecvv": "ep iov desc count src_addr tag ignore context",
    "fi_trecvmsg": "ep msg flags",
    "fi_tsend": "ep buf len desc dest_addr tag context",
    "fi_tsendv": "ep iov desc count dest_addr tag context",
    "fi_tsendmsg": "ep msg flags",
    "fi_tinject": "ep buf len dest_addr tag",
    "fi_tsenddata": "ep buf len desc data dest_addr tag context",
    "fi_tinjectdata": "ep buf len data dest_addr tag",
}
"""From the synopses of the manual pages of release 1.17: without output parameters, and contexts of objects."""


def test_arguments_are_in_the_order_of_c():
    functions = {name: getattr(fi, name) for name in fi.__all__ if name.startswith("fi_")}
    ours = {name: list(inspect.signature(function).parameters) for name, function in functions.items()}
    ours["fi_getinfo"].remove("kinds")  # what stands for the machine's hardware
    assert ours == {name: arguments.split() for name, arguments in C_ARGUMENTS.items()}


def test_the_example_in_the_documentation_runs():
    page = (Path(__file__).parents[2] / "docs" / "libfabric.md").read_text()
    (example,) = re.findall(r"```python\n([^`]*from amoeba\.fi import.*?)```", page, re.DOTALL)
    names = {}
    exec(example, names)
    assert names["entries"] == [CqEntry("mine")]
    assert (names["counter"][0], names["found"][0]) == (42, 41)
    assert names["ep"].closed


def refused(number, words=""):
    return pytest.raises(FabricError, match=rf"^{number.name}: .*{words}")


class Node:
    """One end, opened as a C program would."""

    def __init__(self, fabric, info, keep):
        self.info = info
        self.domain = keep(fi.fi_domain(fabric, info))
        self.cq = keep(fi.fi_cq_open(self.domain, fi.CqAttr(CqFormat.FI_CQ_FORMAT_DATA, WaitObj.FI_WAIT_FD)))
        self.av = keep(fi.fi_av_open(self.domain, fi.AvAttr(AvType.FI_AV_TABLE)))
        self.ep = keep(fi.fi_endpoint(self.domain, info))
        fi.fi_ep_bind(self.ep, self.cq, BindFlags.FI_TRANSMIT | BindFlags.FI_RECV)
        fi.fi_ep_bind(self.ep, self.av, 0)
        fi.fi_enable(self.ep)

    def done(self, context=None):
        """The entry of the operation under way, which has this context."""
        (entry,) = fi.fi_cq_sread(self.cq, 1, None, 30_000)
        assert entry.op_context == context
        return entry


@pytest.fixture
def fabric(keep):
    first, *_ = fi.fi_getinfo(fi.fi_version(), None, None, 0, fi.fi_allocinfo())
    with fi.fi_fabric(first.fabric_attr) as opened:
        yield opened


@pytest.fixture
def nodes(fabric, keep):
    mr_mode = fabric.getinfo()[0].domain_attr.mr_mode
    hints = Info(ep_attr=EpAttr(type=EpType.FI_EP_RDM), domain_attr=DomainAttr(mr_mode=mr_mode))
    client, server = (Node(fabric, info, keep) for info in fabric.getinfo(hints))
    for one, other in ((client, server), (server, client)):
        assert fi.fi_av_insert(one.av, fi.fi_getname(other.ep), 1, 0).fi_addr == (0,)
    return client, server


@pytest.fixture
def client(nodes):
    return nodes[0]


@pytest.fixture
def memory():
    return np.arange(16, dtype=np.uint64)


@pytest.fixture
def mr(nodes, memory, keep):
    return keep(fi.fi_mr_reg(nodes[1].domain, memory, memory.nbytes, ALL_ACCESS, 0, 77, 0))


@pytest.fixture
def to(mr):
    """(address, key)."""
    return mr.address, fi.fi_mr_key(mr)


def words(*values):
    return np.array(values, np.uint64)


# fi_getinfo, fi_version, fi_errno


def test_info_and_versions():
    assert fi.fi_version() == 1 << 16 | 17
    rdm = Info(ep_attr=EpAttr(type=EpType.FI_EP_RDM))
    infos = fi.fi_getinfo(fi.fi_version(), "10.0.0.2", None, InfoFlags.FI_SOURCE, rdm)
    assert [info.domain_attr.name for info in infos] == ["amoeba1"]
    assert len(fi.fi_getinfo(fi.fi_version(), None, None, 0, rdm, ["model"] * 3)) == 3
    with refused(Errno.FI_ENOSYS, "release 1.17"):
        fi.fi_getinfo(2 << 16, None, None, 0, None)
    with refused(Errno.FI_ENODATA, "'ssh'"):
        fi.fi_getinfo(fi.fi_version(), None, "ssh", 0, None)
    assert fi.fi_allocinfo() == fi.fi_dupinfo(None) == Info()
    copy = fi.fi_dupinfo(infos[0])
    assert copy == infos[0]
    assert copy is not infos[0]
    assert fi.fi_tostr(Caps.FI_RMA | Caps.FI_ATOMIC) == "FI_RMA, FI_ATOMIC"
    assert fi.fi_strerror(-266) == fi.fi_strerror(266) == "FI_ENOKEY"
    with refused(Errno.FI_EINVAL):
        fi.fi_strerror(12345)


# fi_rma


def test_rma(client, memory, to):
    buf = words(5, 6, 7)
    fi.fi_write(client.ep, buf, 16, None, 0, *to, "write")
    assert client.done("write").len == 16
    assert memory[:3].tolist() == [5, 6, 2]
    fi.fi_read(client.ep, buf, 8, None, 0, to[0] + 32, to[1], "read")
    client.done("read")
    assert buf.tolist() == [4, 6, 7]


def test_rma_of_vectors(client, memory, to):
    iov = [words(5), words(6), words(7)]
    fi.fi_writev(client.ep, iov, None, 2, 0, *to, "writev")
    client.done("writev")
    assert memory[:3].tolist() == [5, 6, 2]
    fi.fi_readv(client.ep, iov, [None, None, None], 3, 0, to[0] + 24, to[1], "readv")
    client.done("readv")
    assert [int(part[0]) for part in iov] == [3, 4, 5]


def test_rma_of_messages(client, memory, to):
    segments = [RmaIov(to[0] + 64, 8, to[1]), RmaIov(to[0], 8, to[1])]
    msg = RmaMsg([words(1, 2)], 0, segments, None, "msg")
    fi.fi_writemsg(client.ep, msg, OpFlags.FI_COMPLETION)
    client.done("msg")
    assert (memory[8], memory[0]) == (1, 2)
    msg.msg_iov[0][:] = 0
    fi.fi_readmsg(client.ep, msg, 0)
    client.done("msg")
    assert msg.msg_iov[0].tolist() == [1, 2]


def test_injected_writes(client, memory, to):
    buf = words(9)
    fi.fi_inject_write(client.ep, buf, 8, 0, *to)
    buf[0] = 0
    fi.fi_read(client.ep, buf, 8, None, 0, *to)
    client.done()
    assert (memory[0], buf[0]) == (9, 9)


def test_immediate_data(nodes, memory, to):
    client, server = nodes
    fi.fi_writedata(client.ep, words(1), 8, None, 55, 0, *to, "data")
    client.done("data")
    fi.fi_inject_writedata(client.ep, words(2), 8, 66, 0, *to)
    told = []
    while len(told) < 2:
        told += fi.fi_cq_sreadfrom(server.cq, 4, None, 30_000)
    flags = Caps.FI_RMA | Caps.FI_REMOTE_WRITE | Caps.FI_REMOTE_CQ_DATA
    assert told == [(CqDataEntry(None, flags, 8, 0, data), 0) for data in (55, 66)]
    assert memory[0] == 2


def test_lengths_that_a_buffer_does_not_have_are_refused(client, to):
    for length in (9, -1):
        with refused(Errno.FI_EINVAL, "the buffer has 8"):
            fi.fi_write(client.ep, words(1), length, None, 0, *to)
    for count in (2, -1):
        with refused(Errno.FI_EINVAL, "iov has 1"):
            fi.fi_writev(client.ep, [words(1)], None, count, 0, *to)
    fi.fi_write(client.ep, None, 0, None, 0, *to)
    assert client.done().len == 0


# fi_atomic


def test_base_atomics(client, memory, to):
    fi.fi_atomic(client.ep, words(10, 10, 10), 2, None, 0, *to, U64, Op.FI_SUM, "atomic")
    client.done("atomic")
    assert memory[:3].tolist() == [10, 11, 2]
    fi.fi_atomicv(client.ep, [words(1), words(1, 1)], None, 2, 0, *to, U64, Op.FI_SUM, "atomicv")
    client.done("atomicv")
    assert memory[:3].tolist() == [11, 12, 3]
    msg = AtomicMsg([words(2)], 0, [RmaIoc(to[0], 1, to[1])], Op.FI_PROD, U64, None, "atomicmsg")
    fi.fi_atomicmsg(client.ep, msg, 0)
    client.done("atomicmsg")
    fi.fi_inject_atomic(client.ep, words(1), 1, 0, *to, U64, Op.FI_SUM)
    result = words(0)
    fi.fi_fetch_atomic(client.ep, None, 1, None, result, None, 0, *to, U64, Op.FI_ATOMIC_READ)
    client.done()
    assert result[0] == memory[0] == 23


def test_fetching_atomics(client, memory, to):
    result = words(0, 0)
    fi.fi_fetch_atomic(client.ep, words(5, 5), 2, None, result, None, 0, *to, U64, Op.FI_SUM, "fetch")
    client.done("fetch")
    assert (result.tolist(), memory[:2].tolist()) == ([0, 1], [5, 6])
    parts = [words(0), words(0)]
    fi.fi_fetch_atomicv(client.ep, [words(1, 1)], None, 1, parts, None, 2, 0, *to, U64, Op.FI_SUM, "fetchv")
    client.done("fetchv")
    assert ([int(part[0]) for part in parts], memory[:2].tolist()) == ([5, 6], [6, 7])
    msg = AtomicMsg([words(2)], 0, [RmaIoc(to[0], 1, to[1])], Op.FI_PROD, U64, None, "fetchmsg")
    fi.fi_fetch_atomicmsg(client.ep, msg, parts, None, 1, 0)
    client.done("fetchmsg")
    assert (parts[0][0], memory[0]) == (6, 12)


def test_comparing_atomics(client, memory, to):
    result = words(99, 99)
    fi.fi_compare_atomic(
        client.ep, words(7, 7), 2, None, words(0, 0), None, result, None, 0, *to, U64, Op.FI_CSWAP, "compare"
    )
    client.done("compare")
    assert (result.tolist(), memory[:2].tolist()) == ([0, 1], [7, 1])
    operands, compares, results = [words(8), words(8)], [words(7), words(1)], [words(0), words(0)]
    fi.fi_compare_atomicv(
        client.ep, operands, None, 2, compares, None, 2, results, None, 2, 0, *to, U64, Op.FI_CSWAP, "comparev"
    )
    client.done("comparev")
    assert ([int(part[0]) for part in results], memory[:2].tolist()) == ([7, 1], [8, 8])
    msg = AtomicMsg([words(3)], 0, [RmaIoc(to[0], 1, to[1])], Op.FI_CSWAP, U64, None, "comparemsg")
    fi.fi_compare_atomicmsg(client.ep, msg, [words(8)], None, 1, results, None, 1, 0)
    client.done("comparemsg")
    assert (results[0][0], memory[0]) == (8, 3)


@pytest.mark.parametrize("which", range(3))
def test_each_buffer_of_an_atomic_may_have_its_own_region(client, to, keep, which):
    buffers = [words(1), words(1), words(1)]
    regions = [None] * 3
    regions[which] = keep(fi.fi_mr_reg(client.domain, buffers[which], 8, ALL_ACCESS, 0, 0, 0))
    (buf, desc), (compare, compare_desc), (result, result_desc) = zip(
        buffers, [mr and fi.fi_mr_desc(mr) for mr in regions], strict=True
    )
    fi.fi_compare_atomic(
        client.ep, buf, 1, desc, compare, compare_desc, result, result_desc, 0, *to, U64, Op.FI_CSWAP
    )
    client.done()
    assert result[0] == 0
    with refused(Errno.FI_EINVAL, "outside the region"):
        fi.fi_compare_atomic(
            client.ep, words(1), 1, regions[which], words(1), regions[which], words(1), regions[which], 0, *to, U64,
            Op.FI_CSWAP,
        )  # fmt: skip


def test_queries(client):
    for valid, flags, op in (
        (fi.fi_atomicvalid, 0, Op.FI_SUM),
        (fi.fi_fetch_atomicvalid, QueryFlags.FI_FETCH_ATOMIC, Op.FI_ATOMIC_READ),
        (fi.fi_compare_atomicvalid, QueryFlags.FI_COMPARE_ATOMIC, Op.FI_CSWAP),
    ):
        attr = fi.fi_query_atomic(client.domain, U64, op, flags)
        assert (attr.size, attr.count) == (8, valid(client.ep, U64, op))
    with refused(Errno.FI_EOPNOTSUPP):
        fi.fi_atomicvalid(client.ep, U64, Op.FI_CSWAP)
    with refused(Errno.FI_EOPNOTSUPP, "no datatype 55"):
        fi.fi_atomic(client.ep, words(1), 1, None, 0, 0, 0, 55, Op.FI_SUM)


# fi_domain, fi_mr, fi_av, fi_eq


def test_regions_report_to_the_event_queue_of_their_domain(fabric, client, keep):
    eq = keep(fi.fi_eq_open(fabric, fi.EqAttr(wait_obj=WaitObj.FI_WAIT_UNSPEC)))
    fi.fi_domain_bind(client.domain, eq, DomainFlags.FI_REG_MR)
    buffer = bytearray(16)
    mr = keep(fi.fi_mr_reg(client.domain, buffer, 8, ALL_ACCESS, 0, 5, 0, "mine"))
    assert fi.fi_eq_sread(eq, 1000, 0) == EqEntry(EqEvent.FI_MR_COMPLETE, mr, "mine", 0)
    assert (mr.length, fi.fi_mr_key(mr), fi.fi_mr_desc(mr)) == (8, 5, mr)
    with refused(Errno.FI_EINVAL):
        fi.fi_mr_reg(client.domain, buffer, 8, ALL_ACCESS, 1, 6, 0)
    with refused(Errno.FI_EBADFLAGS):
        fi.fi_mr_reg(client.domain, buffer, 8, ALL_ACCESS, 0, 6, 1)
    with refused(Errno.FI_EINVAL, "the buffer has 16"):
        fi.fi_mr_reg(client.domain, buffer, 17, ALL_ACCESS, 0, 6, 0)


@pytest.mark.parametrize("call", ["regv", "regattr"])
def test_regions_of_one_segment_can_be_registered_as_vectors(fabric, client, keep, call):
    eq = keep(fi.fi_eq_open(fabric, fi.EqAttr(wait_obj=WaitObj.FI_WAIT_UNSPEC)))
    fi.fi_domain_bind(client.domain, eq, DomainFlags.FI_REG_MR)
    one, other = bytearray(16), bytearray(8)

    def register(iov, offset=0, flags=0, **rest):
        if call == "regattr":
            attr = MrAttr(iov, ALL_ACCESS, offset, requested_key=5, context="mine", **rest)
            return keep(fi.fi_mr_regattr(client.domain, attr, flags))
        return keep(fi.fi_mr_regv(client.domain, iov, len(iov), ALL_ACCESS, offset, 5, flags, "mine"))

    mr = register([one], flags=MrFlags.FI_RMA_PMEM)
    assert (mr.length, mr.key, mr.access, mr.persistent) == (16, 5, ALL_ACCESS, True)
    assert fi.fi_eq_sread(eq, 1000, 0) == EqEntry(EqEvent.FI_MR_COMPLETE, mr, "mine", 0)
    for iov, offset in (([], 0), ([one, other], 0), ([other], 8)):
        with refused(Errno.FI_EINVAL):
            register(iov, offset)
    with refused(Errno.FI_EBADFLAGS):
        register([other], flags=1)


def test_a_region_has_no_authorization_key(client):
    with refused(Errno.FI_EINVAL, "authorization key"):
        client.domain.mr_regattr(MrAttr([bytearray(8)], ALL_ACCESS, auth_key=b"secret"))


def test_of_a_longer_vector_what_is_counted_is_registered(client, keep):
    one, other = bytearray(16), bytearray(8)
    assert keep(fi.fi_mr_regv(client.domain, [one, other], 1, ALL_ACCESS, 0, 7, 0)).length == 16
    with refused(Errno.FI_EINVAL, "iov has 1"):
        fi.fi_mr_regv(client.domain, [one], 2, ALL_ACCESS, 0, 8, 0)
    assert keep(client.domain.mr_regv([other], ALL_ACCESS)).length == 8


def test_vectors_of_addresses(fabric, client, nodes, keep):
    name = fi.fi_getname(nodes[1].ep)
    av = keep(fi.fi_av_open(client.domain, fi.AvAttr(AvType.FI_AV_MAP, 2)))
    assert (av.type, av.rx_ctx_bits) == (AvType.FI_AV_MAP, 2)
    inserted = fi.fi_av_insert(av, name * 3, 2, AvFlags.FI_SYNC_ERR)
    assert (inserted.count, inserted.fi_addr, inserted.errors) == (2, (0, 1), (Errno.FI_SUCCESS,) * 2)
    assert fi.fi_av_lookup(av, 1) == name
    assert fi.fi_av_straddr(av, name).startswith("10.0.0.2 ")
    fi.fi_av_remove(av, [0, 1], 1, 0)
    with refused(Errno.FI_EINVAL):
        fi.fi_av_lookup(av, 0)
    with refused(Errno.FI_EINVAL, "expected 4 addresses of 18 bytes, got 54"):
        fi.fi_av_insert(av, name * 3, 4, 0)
    with refused(Errno.FI_EBADFLAGS):
        fi.fi_av_remove(av, [1], 1, 1)
    assert fi.fi_rx_addr(1, 1, 2) == 1 << 62 | 1


def test_vectors_with_events(fabric, client, nodes, keep):
    eq = keep(fi.fi_eq_open(fabric, fi.EqAttr()))
    av = keep(fi.fi_av_open(client.domain, fi.AvAttr(flags=AvFlags.FI_EVENT)))
    with refused(Errno.FI_EBADFLAGS):
        fi.fi_av_bind(av, eq, 1)
    fi.fi_av_bind(av, eq, 0)
    assert fi.fi_av_insert(av, bytes(17) + b"\1" + bytes([255] * 18), 2, 0, "many").fi_addr[1] == FI_ADDR_NOTAVAIL
    with pytest.raises(ErrorAvailableError):
        fi.fi_eq_read(eq, 0)
    assert fi.fi_eq_readerr(eq, EqFlags.FI_PEEK).data == 1
    assert fi.fi_eq_readerr(eq, 0).err == Errno.FI_EINVAL
    assert fi.fi_eq_read(eq, 0)[2:] == ("many", 1)


def test_events_of_the_application(fabric, keep):
    eq = keep(fi.fi_eq_open(fabric, fi.EqAttr(1, EqFlags.FI_WRITE, WaitObj.FI_WAIT_UNSPEC)))
    for read in (
        lambda: fi.fi_eq_read(eq, 0),
        lambda: fi.fi_eq_sread(eq, 10, 0),
        lambda: fi.fi_eq_readerr(eq, 0),
    ):
        with pytest.raises(TryAgainError):
            read()
    event = EqEntry(0, None, "mine", 4)
    with refused(Errno.FI_EBADFLAGS):
        fi.fi_eq_write(eq, 1234, event, 1)
    fi.fi_eq_write(eq, 1234, event, 0)
    with refused(Errno.FI_EAGAIN):
        fi.fi_eq_write(eq, 1234, event, 0)
    assert fi.fi_eq_read(eq, EqFlags.FI_PEEK) == fi.fi_eq_read(eq, 0) == event._replace(event=1234)
    assert fi.fi_eq_strerror(eq, Errno.FI_ENOSPC) == "enospc"


# fi_cq, fi_cntr, fi_poll


def test_completion_queues(fabric, client, to):
    for read in (
        lambda: fi.fi_cq_read(client.cq, 1),
        lambda: fi.fi_cq_readfrom(client.cq, 1),
        lambda: fi.fi_cq_sread(client.cq, 1, None, 10),
        lambda: fi.fi_cq_sreadfrom(client.cq, 1, None, 0),
        lambda: fi.fi_cq_readerr(client.cq, 0),
    ):
        with pytest.raises(TryAgainError):
            read()
    fi.fi_trywait(fabric, [client.cq], 1)
    for context in range(2):
        fi.fi_write(client.ep, words(1), 8, None, 0, *to, context)
    while True:
        try:
            fi.fi_trywait(fabric, [client.cq], 1)
            fabric.devices[0].advance()
        except TryAgainError:
            break
    assert fi.fi_cq_read(client.cq, 1)[0].op_context == 0
    (entry, source), *_ = fi.fi_cq_sreadfrom(client.cq, 4, None, -1)
    assert (entry.op_context, source) == (1, FI_ADDR_NOTAVAIL)
    for read in (fi.fi_cq_sread, fi.fi_cq_sreadfrom):
        with refused(Errno.FI_ENOSYS, "condition"):
            read(client.cq, 1, 2, -1)
    fi.fi_cq_signal(client.cq)
    with refused(Errno.FI_ECANCELED):
        fi.fi_cq_sread(client.cq, 1, None, -1)


def test_reading_with_sources_without_waiting(client, to):
    fi.fi_write(client.ep, words(1), 8, None, 0, *to, "mine")
    while True:
        try:
            ((entry, source),) = fi.fi_cq_readfrom(client.cq, 4)
            break
        except TryAgainError:
            pass
    assert (entry.op_context, source) == ("mine", FI_ADDR_NOTAVAIL)


def test_failures(client, to):
    fi.fi_write(client.ep, words(1), 8, None, 0, to[0], to[1] ^ 1, "wrong")
    with pytest.raises(ErrorAvailableError):
        fi.fi_cq_sread(client.cq, 1, None, -1)
    with refused(Errno.FI_EBADFLAGS):
        fi.fi_cq_readerr(client.cq, 1)
    failure = fi.fi_cq_readerr(client.cq, 0)
    assert (failure.op_context, failure.err) == ("wrong", Errno.FI_ENOKEY)
    assert fi.fi_cq_strerror(client.cq, failure.prov_errno) == "bad mkey"


def test_counters(client, nodes, to, keep):
    cntr = keep(fi.fi_cntr_open(client.domain, fi.CntrAttr()))
    ep = keep(fi.fi_endpoint(client.domain, client.info))
    fi.fi_ep_bind(ep, client.cq, BindFlags.FI_TRANSMIT | BindFlags.FI_SELECTIVE_COMPLETION)
    fi.fi_ep_bind(ep, client.av, 0)
    fi.fi_ep_bind(ep, cntr, BindFlags.FI_WRITE)
    fi.fi_enable(ep)
    fi.fi_write(ep, words(1), 8, None, 0, *to)
    fi.fi_cntr_wait(cntr, 1, -1)
    with refused(Errno.FI_ETIMEDOUT):
        fi.fi_cntr_wait(cntr, 2, 10)
    fi.fi_cntr_add(cntr, 2)
    fi.fi_cntr_adderr(cntr, 3)
    assert (fi.fi_cntr_read(cntr), fi.fi_cntr_readerr(cntr)) == (3, 3)
    fi.fi_cntr_set(cntr, 8)
    fi.fi_cntr_seterr(cntr, 9)
    assert (fi.fi_cntr_read(cntr), fi.fi_cntr_readerr(cntr)) == (8, 9)


# fi_endpoint


def test_options_and_room(client, to):
    assert fi.fi_getopt(client.ep, 0, EndpointOption.FI_OPT_MAX_RMA_SIZE) == MAX_MESSAGE
    assert fi.fi_getopt(client.ep, 0, EndpointOption.FI_OPT_INJECT_RMA_SIZE) == INJECT_SIZE
    with fi.fi_endpoint(client.domain, client.info) as ep:
        fi.fi_setopt(ep, 0, EndpointOption.FI_OPT_TX_SIZE, 32)
        assert fi.fi_getopt(ep, 0, EndpointOption.FI_OPT_TX_SIZE) == 32
    fi.fi_write(client.ep, words(1), 8, None, 0, *to)
    assert fi.fi_tx_size_left(client.ep) == client.ep.tx_size - 1
    assert fi.fi_rx_size_left(client.ep) == client.info.rx_attr.size
    client.done()


def test_aliases(client, memory, to):
    alias = fi.fi_ep_alias(client.ep, BindFlags.FI_TRANSMIT | OpFlags.FI_COMPLETION)
    fi.fi_atomic(alias, words(1), 1, None, 0, *to, U64, Op.FI_SUM, "alias")
    client.done("alias")
    for flags in (0, BindFlags.FI_RECV, BindFlags.FI_RECV | BindFlags.FI_TRANSMIT):
        with refused(Errno.FI_EBADFLAGS):
            fi.fi_ep_alias(client.ep, flags)
    fi.fi_close(alias)
    assert alias.closed
    assert not client.ep.closed


def test_what_waits_for_a_counter_is_cancelled(client, memory, to, keep):
    cntr = keep(fi.fi_cntr_open(client.domain, fi.CntrAttr()))
    context = TriggeredContext(cntr, 1)
    with fi.fi_ep_alias(client.ep, BindFlags.FI_TRANSMIT | OpFlags.FI_TRIGGER) as alias:
        fi.fi_write(alias, words(1), 8, None, 0, *to, context)
        fi.fi_cancel(alias, context)
    with pytest.raises(ErrorAvailableError):
        fi.fi_cq_read(client.cq, 1)
    assert fi.fi_cq_readerr(client.cq, 0).err == Errno.FI_ECANCELED


def test_several_contexts(fabric, keep, nodes, memory, mr, to):
    server = nodes[1]
    info = dataclasses.replace(nodes[0].info, ep_attr=EpAttr(type=EpType.FI_EP_RDM, tx_ctx_cnt=2, rx_ctx_cnt=1))
    domain = keep(fi.fi_domain(fabric, info))
    sep = keep(fi.fi_scalable_ep(domain, info))
    av = keep(fi.fi_av_open(domain, fi.AvAttr()))
    with refused(Errno.FI_EBADFLAGS):
        fi.fi_scalable_ep_bind(sep, av, 1)
    fi.fi_scalable_ep_bind(sep, av, 0)
    first, second = keep(fi.fi_tx_context(sep, 0, None)), keep(fi.fi_tx_context(sep, 1, TxAttr(size=32)))
    receiver = keep(fi.fi_rx_context(sep, 0, RxAttr(size=5)))
    assert (second.tx_size, receiver.rx_size) == (32, 5)
    assert fi.fi_rx_size_left(receiver) == 5
    cq = keep(fi.fi_cq_open(domain, fi.CqAttr(wait_obj=WaitObj.FI_WAIT_UNSPEC)))
    cntr = keep(fi.fi_cntr_open(domain, fi.CntrAttr()))
    for context in (first, second):
        fi.fi_ep_bind(context, cq, BindFlags.FI_TRANSMIT)
    fi.fi_ep_bind(first, cntr, BindFlags.FI_WRITE)
    fi.fi_ep_bind(receiver, cq, BindFlags.FI_RECV)
    for context, fid in ((first, av), (receiver, cntr)):
        with refused(Errno.FI_EINVAL, "is bound to"):
            fi.fi_ep_bind(context, fid, 0)
    fi.fi_enable(second)
    fi.fi_enable(sep)
    peer = fi.fi_av_insert(av, fi.fi_getname(server.ep), 1, 0).fi_addr[0]
    for context in (first, second):
        fi.fi_atomic(context, words(1), 1, None, peer, *to, U64, Op.FI_SUM, context)
        assert fi.fi_cq_sread(cq, 1, None, -1)[0].op_context is context
    assert (memory[0], fi.fi_cntr_read(cntr)) == (2, 1)
    assert EndpointAddress.unpack(fi.fi_getname(sep)).contexts == 3
    fi.fi_close(fi.fi_fabric(info.fabric_attr))


def test_a_shared_context(client, nodes, memory, to, keep):
    stx = keep(fi.fi_stx_context(client.domain, TxAttr(size=16)))
    info = dataclasses.replace(client.info, ep_attr=EpAttr(type=EpType.FI_EP_RDM, tx_ctx_cnt=FI_SHARED_CONTEXT))
    ep = keep(fi.fi_endpoint(client.domain, info))
    for fid in (stx, client.cq, client.av):
        fi.fi_ep_bind(ep, fid, BindFlags.FI_TRANSMIT)
    fi.fi_enable(ep)
    fi.fi_write(ep, words(8), 8, None, 0, *to, "shared")
    client.done("shared")
    assert memory[0] == 8
    assert keep(fi.fi_stx_context(client.domain, None)).tx_size == 256


# fi_control


@pytest.fixture
def calling(fabric, client, keep):
    """(endpoint that can connect, its event queue)."""
    eq = keep(fi.fi_eq_open(fabric, fi.EqAttr(wait_obj=WaitObj.FI_WAIT_FD)))
    return _connectable(client, eq, MSG, keep), eq


MSG = Info(ep_attr=EpAttr(type=EpType.FI_EP_MSG))


def _connectable(node, eq, info, keep):
    ep = keep(fi.fi_endpoint(node.domain, info))
    fi.fi_ep_bind(ep, node.cq, BindFlags.FI_TRANSMIT | BindFlags.FI_RECV)
    fi.fi_ep_bind(ep, eq, 0)
    return ep


def test_connections(fabric, nodes, calling, keep):
    ep, eq = calling
    pep = keep(fi.fi_passive_ep(fabric, MSG))
    fi.fi_pep_bind(pep, eq, 0)
    fi.fi_setname(pep, ("127.0.0.1", 0), 2)
    fi.fi_control(pep, Control.FI_BACKLOG, 1)
    assert pep.backlog == 1
    fi.fi_listen(pep)
    option = (OptionLevel.FI_OPT_ENDPOINT, EndpointOption.FI_OPT_CM_DATA_SIZE)
    assert fi.fi_getopt(pep, *option) == fi.fi_getopt(ep, *option) == 1024

    def event(kind):
        found = fi.fi_eq_sread(eq, 30_000, 0)
        assert found.event is kind
        return found

    fi.fi_connect(ep, fi.fi_getname(pep), b"pleased", 6)
    request = event(EqEvent.FI_CONNREQ)
    assert request.data == b"please"
    fi.fi_reject(pep, request.info.handle, None, 0)
    with refused(Errno.FI_EAVAIL):
        fi.fi_eq_sread(eq, 30_000, 0)
    assert fi.fi_eq_readerr(eq, 0).err is Errno.FI_ECONNREFUSED

    fi.fi_connect(ep, fi.fi_getname(pep), None, 0)
    other = _connectable(nodes[1], eq, event(EqEvent.FI_CONNREQ).info, keep)
    fi.fi_enable(other)
    fi.fi_accept(other, b"welcome", 7)
    found = event(EqEvent.FI_CONNECTED)
    assert (found.fid, found.data) == (ep, b"welcome")
    assert event(EqEvent.FI_CONNECTED).fid is other
    assert fi.fi_getpeer(ep) == fi.fi_getname(other)
    fi.fi_recv(other, buffer := bytearray(5), 5, None, 0, "received")
    fi.fi_send(ep, b"hello", 5, None, 0, "sent")
    nodes[1].done("received")
    nodes[0].done("sent")
    assert buffer == b"hello"
    fi.fi_shutdown(ep, 0)
    assert event(EqEvent.FI_SHUTDOWN).fid is other


def test_what_cannot_be_connected_is_refused(fabric, client, calling, keep):
    ep, eq = calling
    for call in (
        lambda: fi.fi_connect(client.ep, ("127.0.0.1", 1), None, 0),
        lambda: fi.fi_accept(client.ep, None, 0),
        lambda: fi.fi_shutdown(client.ep, 0),
        lambda: fi.fi_getpeer(client.ep),
    ):
        with refused(Errno.FI_EOPNOTSUPP):
            call()
    pep = keep(fi.fi_passive_ep(fabric, MSG))
    for call in (lambda: fi.fi_pep_bind(pep, eq, 1), lambda: fi.fi_shutdown(ep, 1)):
        with refused(Errno.FI_EBADFLAGS):
            call()
    for call in (
        lambda: fi.fi_setname(pep, ("127.0.0.1", 0), 16),
        lambda: fi.fi_connect(ep, ("127.0.0.1", 1), b"four", 5),
        lambda: fi.fi_ep_bind(keep(fi.fi_endpoint(client.domain, client.info)), eq, 0),
    ):
        with refused(Errno.FI_EINVAL):
            call()


def test_control_of_endpoints(client, keep):
    ep = client.ep
    assert fi.fi_control(ep, Control.FI_GETOPSFLAG, BindFlags.FI_TRANSMIT) == BindFlags.FI_TRANSMIT
    flags = BindFlags.FI_TRANSMIT | OpFlags.FI_DELIVERY_COMPLETE
    fi.fi_control(ep, Control.FI_SETOPSFLAG, flags)
    assert ep.op_flags == OpFlags.FI_DELIVERY_COMPLETE
    assert fi.fi_control(ep, Control.FI_GETOPSFLAG, BindFlags.FI_TRANSMIT) == flags
    with refused(Errno.FI_EBADFLAGS):
        fi.fi_control(ep, Control.FI_GETOPSFLAG, BindFlags.FI_RECV)
    alias = keep(fi.fi_control(ep, Control.FI_ALIAS, BindFlags.FI_TRANSMIT | OpFlags.FI_COMPLETION))
    assert alias.op_flags == OpFlags.FI_COMPLETION
    other = keep(fi.fi_endpoint(client.domain, client.info))
    fi.fi_ep_bind(other, client.cq, BindFlags.FI_TRANSMIT)
    fi.fi_ep_bind(other, client.av, 0)
    fi.fi_control(other, Control.FI_ENABLE)
    assert len(fi.fi_getname(other)) == EndpointAddress.SIZE


def test_control_of_queues(client, to, keep):
    assert fi.fi_control(client.cq, Control.FI_GETWAITOBJ) is WaitObj.FI_WAIT_FD
    descriptor = fi.fi_control(client.cq, Control.FI_GETWAIT)
    fi.fi_write(client.ep, words(1), 8, None, 0, *to)
    assert select.select([descriptor], [], [], 0)[0]
    client.done()
    cntr = keep(fi.fi_cntr_open(client.domain, fi.CntrAttr(WaitObj.FI_WAIT_FD)))
    fi.fi_cntr_add(cntr, 1)
    assert select.select([fi.fi_control(cntr, Control.FI_GETWAIT)], [], [], 0)[0]


def test_control_of_work(client, keep):
    first, second = (keep(fi.fi_cntr_open(client.domain, fi.CntrAttr())) for _ in range(2))
    works = [DeferredWork(1, first, TriggerOp.FI_OP_CNTR_ADD, OpCntr(second, 1 << bit)) for bit in range(3)]
    for work in works:
        fi.fi_control(client.domain, Control.FI_QUEUE_WORK, work)
    fi.fi_control(client.domain, Control.FI_CANCEL_WORK, works[1])
    fi.fi_cntr_add(first, 1)
    assert fi.fi_cntr_read(second) == 0b101
    fi.fi_cntr_set(first, 0)
    fi.fi_control(client.domain, Control.FI_QUEUE_WORK, works[1])
    fi.fi_control(client.domain, Control.FI_FLUSH_WORK, first)
    fi.fi_cntr_add(first, 1)
    assert fi.fi_cntr_read(second) == 0b101


def test_commands_that_an_object_does_not_know(client):
    for fid, command in (
        (client.ep, Control.FI_QUEUE_WORK),
        (client.av, Control.FI_GETWAIT),
        (client.cq, Control.FI_BACKLOG),
        (client.cq, 99),
    ):
        with refused(Errno.FI_ENOSYS):
            fi.fi_control(fid, command)


# fi_msg, fi_tagged

ANY = 2**64 - 1
DATA = OpFlags.FI_REMOTE_CQ_DATA


@pytest.mark.parametrize(
    ("send", "data", "silent"),
    [
        (lambda ep: fi.fi_send(ep, b"hello!", 5, None, 0, "sent"), 0, False),
        (lambda ep: fi.fi_sendv(ep, [b"hel", b"lo", b"!"], None, 2, 0, "sent"), 0, False),
        (lambda ep: fi.fi_sendmsg(ep, Msg([b"hello"], 0, context="sent", data=9), DATA), 9, False),
        (lambda ep: fi.fi_senddata(ep, b"hello!", 5, None, 9, 0, "sent"), 9, False),
        (lambda ep: fi.fi_inject(ep, b"hello!", 5, 0), 0, True),
        (lambda ep: fi.fi_injectdata(ep, b"hello!", 5, 9, 0), 9, True),
    ],
    ids=["send", "sendv", "sendmsg", "senddata", "inject", "injectdata"],
)
@pytest.mark.parametrize("receive", ["recv", "recvv", "recvmsg"])
def test_messages(nodes, send, data, silent, receive):
    client, server = nodes
    buf = bytearray(8)
    if receive == "recv":
        fi.fi_recv(server.ep, buf, 8, None, ANY, "received")
    elif receive == "recvv":
        fi.fi_recvv(server.ep, [memoryview(buf)[:2], memoryview(buf)[2:], bytearray(1)], None, 2, ANY, "received")
    else:
        fi.fi_recvmsg(server.ep, Msg([buf], context="received"), 0)
    send(client.ep)
    entry = server.done("received")
    flags = Caps.FI_MSG | Caps.FI_RECV | (Caps.FI_REMOTE_CQ_DATA if data else 0)
    assert (entry.flags, entry.len, entry.data) == (flags, 5, data)
    assert buf == b"hello\0\0\0"
    if not silent:
        client.done("sent")


@pytest.mark.parametrize(
    ("send", "data", "silent"),
    [
        (lambda ep: fi.fi_tsend(ep, b"hello!", 5, None, 0, 6, "sent"), 0, False),
        (lambda ep: fi.fi_tsendv(ep, [b"hel", b"lo", b"!"], None, 2, 0, 6, "sent"), 0, False),
        (lambda ep: fi.fi_tsendmsg(ep, TaggedMsg([b"hello"], 0, 6, context="sent", data=9), DATA), 9, False),
        (lambda ep: fi.fi_tsenddata(ep, b"hello!", 5, None, 9, 0, 6, "sent"), 9, False),
        (lambda ep: fi.fi_tinject(ep, b"hello!", 5, 0, 6), 0, True),
        (lambda ep: fi.fi_tinjectdata(ep, b"hello!", 5, 9, 0, 6), 9, True),
    ],
    ids=["tsend", "tsendv", "tsendmsg", "tsenddata", "tinject", "tinjectdata"],
)
@pytest.mark.parametrize("receive", ["trecv", "trecvv", "trecvmsg"])
def test_tagged_messages(nodes, send, data, silent, receive):
    client, server = nodes
    buf, other = bytearray(8), bytearray(8)
    fi.fi_trecv(server.ep, other, 8, None, ANY, 8, 1, "other")
    if receive == "trecv":
        fi.fi_trecv(server.ep, buf, 8, None, ANY, 7, 1, "received")
    elif receive == "trecvv":
        fi.fi_trecvv(server.ep, [memoryview(buf)[:2], memoryview(buf)[2:]], None, 2, ANY, 7, 1, "received")
    else:
        fi.fi_trecvmsg(server.ep, TaggedMsg([buf], ANY, 7, 1, context="received"), 0)
    send(client.ep)
    assert server.done("received").data == data
    assert (buf, other) == (b"hello\0\0\0", bytes(8))
    if not silent:
        client.done("sent")
    fi.fi_cancel(server.ep, "other")
    with pytest.raises(ErrorAvailableError):
        fi.fi_cq_sread(server.cq, 1, None, 30_000)
    assert fi.fi_cq_readerr(server.cq, 0).err == Errno.FI_ECANCELED
    with refused(Errno.FI_ENOENT):
        fi.fi_cancel(server.ep, "other")


def test_a_region_counts(nodes, mr, to, keep):
    client, server = nodes
    cntr = keep(fi.fi_cntr_open(server.domain, fi.CntrAttr()))
    fi.fi_mr_bind(mr, cntr, BindFlags.FI_REMOTE_WRITE)
    fi.fi_write(client.ep, words(1), 8, None, 0, *to, "write")
    client.done("write")
    assert fi.fi_cntr_read(cntr) == 1
