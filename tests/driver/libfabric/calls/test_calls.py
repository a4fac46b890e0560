"""libfabric's calls one to one: every function, with its arguments in C's order.

Covers ``fi.py``, ``libfabric/calls/arguments.py`` and ``libfabric/calls/info.py``.
"""

import inspect
import os
import re
from pathlib import Path

from amoeba import Caps, CqEntry, EndpointAddress, EpAttr, EpType, Errno, FiType, Info, InfoFlags, fi, version

from tests.driver.endpoints import refused

C_ARGUMENTS = {
    "fi_allocinfo": "",
    "fi_dupinfo": "info",
    "fi_freeinfo": "info",
    "fi_getinfo": "version node service flags hints",
    "fi_strerror": "errnum",
    "fi_tostr": "data datatype",
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
    "fi_mr_enable": "mr",
    "fi_mr_refresh": "mr iov count flags",
    "fi_mr_raw_attr": "mr flags",
    "fi_mr_map_raw": "domain base_addr raw_key key_size flags",
    "fi_mr_unmap_key": "domain key",
    "fi_av_open": "domain attr",
    "fi_av_bind": "av eq flags",
    "fi_av_insert": "av addr count flags context",
    "fi_av_insertsvc": "av node service flags context",
    "fi_av_insertsym": "av node nodecnt service svccnt flags context",
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
    "fi_srx_context": "domain attr",
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
    "fi_poll_open": "domain attr",
    "fi_poll_add": "pollset event_fid flags",
    "fi_poll_del": "pollset event_fid flags",
    "fi_poll": "pollset count",
    "fi_wait_open": "fabric attr",
    "fi_wait": "waitset timeout",
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
    page = (Path(__file__).parents[4] / "docs" / "libfabric.md").read_text()
    (example,) = re.findall(r"```python\n([^`]*from amoeba\.fi import.*?)```", page, re.DOTALL)
    names = {}
    exec(example, names)
    assert names["entries"] == [CqEntry("mine")]
    assert (names["counter"][0], names["found"][0]) == (42, 41)
    assert names["ep"].closed


def test_info_and_versions():
    assert fi.fi_version() == 1 << 16 | 17
    rdm = Info(ep_attr=EpAttr(type=EpType.FI_EP_RDM))
    infos = fi.fi_getinfo(fi.fi_version(), "10.0.0.2", None, InfoFlags.FI_SOURCE, rdm)
    assert [info.domain_attr.name for info in infos] == ["amoeba1"]
    assert len(fi.fi_getinfo(fi.fi_version(), None, None, 0, rdm, ["model"] * 3)) == 3
    (older, *_) = fi.fi_getinfo(version(1, 5), None, None, 0, rdm)
    assert older.fabric_attr.api_version == version(1, 5)
    with refused(Errno.FI_ENOSYS, "release 1.17"):
        fi.fi_getinfo(2 << 16, None, None, 0, None)
    (towards, *_) = fi.fi_getinfo(fi.fi_version(), "10.0.0.2", "3", InfoFlags.FI_NUMERICHOST, rdm)
    assert EndpointAddress.unpack(towards.dest_addr).resource_index == 3
    (provider,) = fi.fi_getinfo(fi.fi_version(), None, None, InfoFlags.FI_PROV_ATTR_ONLY, None)
    assert provider.fabric_attr.prov_name == "amoeba"
    assert fi.fi_freeinfo(infos) is None
    with refused(Errno.FI_EINVAL, "'ssh'"):
        fi.fi_getinfo(fi.fi_version(), None, "ssh", 0, None)
    assert fi.fi_allocinfo() == fi.fi_dupinfo(None) == Info()
    copy = fi.fi_dupinfo(infos[0])
    assert copy == infos[0]
    assert copy is not infos[0]
    assert fi.fi_tostr(Caps.FI_RMA | Caps.FI_ATOMIC) == "FI_RMA, FI_ATOMIC"
    assert fi.fi_tostr(3, FiType.FI_TYPE_EP_TYPE) == "FI_EP_RDM"
    assert fi.fi_tostr(fi.fi_version(), FiType.FI_TYPE_VERSION) == "1.17"
    assert fi.fi_strerror(-266) == fi.fi_strerror(266) == "Key not available"
    assert fi.fi_strerror(Errno.FI_ENOSPC) == os.strerror(28)
    with refused(Errno.FI_EINVAL):
        fi.fi_strerror(12345)
