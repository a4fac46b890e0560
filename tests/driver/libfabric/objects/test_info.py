"""getinfo as fi_getinfo(3) describes it: hints, what they are answered by, and objects made from the answer.

Covers ``libfabric/objects/structures.py`` and ``libfabric/objects/fabric.py``.
"""

import dataclasses
import re
from pathlib import Path

import numpy as np
import pytest
from amoeba import (
    AddrFormat,
    AvType,
    BindFlags,
    Caps,
    CqFormat,
    DomainAttr,
    EndpointAddress,
    EpAttr,
    EpType,
    Errno,
    FabricAttr,
    Info,
    InfoFlags,
    Mode,
    MrMode,
    MsgOrder,
    Op,
    OpFlags,
    ResourceMgmt,
    RxAttr,
    TrafficClass,
    TxAttr,
    getinfo,
    open_fabric,
    tostr,
    version,
)
from amoeba.libfabric.objects import names

from tests.driver.endpoints import ALL_ACCESS, refused

pytestmark = pytest.mark.parametrize("fabric", ["model"], indirect=True)

COMMUNITY = Caps.FI_LOCAL_COMM | Caps.FI_REMOTE_COMM
FREE = Caps.FI_TRIGGER | Caps.FI_FENCE | COMMUNITY | Caps.FI_SOURCE
DIRECTIONS = Caps.FI_READ | Caps.FI_WRITE | Caps.FI_REMOTE_READ | Caps.FI_REMOTE_WRITE
RECEIVING = Caps.FI_RECV | Caps.FI_MULTI_RECV
EVERY_CAPABILITY = (
    FREE
    | DIRECTIONS
    | RECEIVING
    | Caps.FI_RMA
    | Caps.FI_RMA_PMEM
    | Caps.FI_RMA_EVENT
    | Caps.FI_ATOMIC
    | Caps.FI_MSG
    | Caps.FI_TAGGED
    | Caps.FI_SEND
    | Caps.FI_DIRECTED_RECV
    | Caps.FI_NAMED_RX_CTX
)


def domains(answers):
    return [info.domain_attr.name for info in answers]


RDM = EpAttr(type=EpType.FI_EP_RDM)


def test_every_nic_of_the_fabric_answers_for_every_endpoint_type(fabric):
    answers = [(info.ep_attr.type, info.domain_attr.name) for info in fabric.getinfo()]
    assert answers == [
        (EpType.FI_EP_RDM, "amoeba0"),
        (EpType.FI_EP_RDM, "amoeba1"),
        (EpType.FI_EP_MSG, "amoeba0"),
        (EpType.FI_EP_MSG, "amoeba1"),
        (EpType.FI_EP_DGRAM, "amoeba0"),
        (EpType.FI_EP_DGRAM, "amoeba1"),
    ]


@pytest.mark.parametrize("ep_type", [EpType.FI_EP_RDM, EpType.FI_EP_MSG, EpType.FI_EP_DGRAM], ids=tostr)
def test_hints_choose_the_endpoint_type(fabric, ep_type):
    answers = fabric.getinfo(Info(ep_attr=EpAttr(type=ep_type)))
    assert [info.ep_attr.type for info in answers] == [ep_type] * 2
    assert domains(answers) == ["amoeba0", "amoeba1"]


def test_what_a_type_cannot_do_is_answered_by_the_others(fabric):
    def types(hints):
        return [info.ep_attr.type for info in fabric.getinfo(hints)][::2]

    assert types(Info(caps=Caps.FI_MSG)) == [EpType.FI_EP_RDM, EpType.FI_EP_MSG, EpType.FI_EP_DGRAM]
    assert types(Info(caps=Caps.FI_ATOMIC)) == [EpType.FI_EP_RDM, EpType.FI_EP_MSG]
    assert types(Info(caps=Caps.FI_NAMED_RX_CTX)) == [EpType.FI_EP_RDM]
    assert types(Info(ep_attr=EpAttr(max_msg_size=4097))) == [EpType.FI_EP_RDM, EpType.FI_EP_MSG]
    assert types(Info(ep_attr=EpAttr(tx_ctx_cnt=2))) == [EpType.FI_EP_RDM]


@pytest.mark.parametrize(
    ("ep_type", "missing"),
    [
        (EpType.FI_EP_RDM, Caps(0)),
        (EpType.FI_EP_MSG, Caps.FI_SOURCE | Caps.FI_DIRECTED_RECV | Caps.FI_NAMED_RX_CTX),
        (EpType.FI_EP_DGRAM, Caps.FI_RMA | Caps.FI_ATOMIC | DIRECTIONS | Caps.FI_NAMED_RX_CTX
         | Caps.FI_RMA_PMEM | Caps.FI_RMA_EVENT),
    ],
    ids=["FI_EP_RDM", "FI_EP_MSG", "FI_EP_DGRAM"],
)
def test_without_hints_every_capability_of_the_type_is_returned(fabric, ep_type, missing):
    for hints in None, Info():
        granted = {info.caps for info in fabric.getinfo(hints) if info.ep_attr.type is ep_type}
        assert granted == {EVERY_CAPABILITY & ~missing}


def test_the_message_names_the_endpoint_types_that_were_asked(fabric):
    with refused(Errno.FI_ENODATA, "amoeba0 FI_EP_RDM: .*amoeba1 FI_EP_DGRAM: "):
        fabric.getinfo(Info(caps=Caps.FI_HMEM))
    with refused(Errno.FI_ENODATA) as caught:
        fabric.getinfo(Info(caps=Caps.FI_RMA, ep_attr=EpAttr(type=EpType.FI_EP_DGRAM)))
    assert "FI_EP_RDM" not in str(caught.value)


@pytest.mark.parametrize(
    ("wanted", "granted"),
    [
        pytest.param(
            Caps.FI_RMA,
            Caps.FI_RMA | Caps.FI_RMA_PMEM | Caps.FI_RMA_EVENT | DIRECTIONS | FREE,
            id="without modifiers all directions are enabled",
        ),
        pytest.param(
            Caps.FI_TAGGED,
            Caps.FI_TAGGED | Caps.FI_SEND | RECEIVING | FREE,
            id="those of messages as well",
        ),
        pytest.param(
            Caps.FI_MSG | Caps.FI_SEND | Caps.FI_RMA,
            Caps.FI_MSG | Caps.FI_SEND | Caps.FI_RMA | Caps.FI_RMA_PMEM | Caps.FI_RMA_EVENT
            | DIRECTIONS | FREE,
            id="modifiers of messages say nothing of memory",
        ),
        pytest.param(
            Caps.FI_ATOMIC | Caps.FI_READ,
            Caps.FI_ATOMIC | Caps.FI_READ | FREE,
            id="with modifiers only those, and free secondary capabilities",
        ),
        pytest.param(EVERY_CAPABILITY, EVERY_CAPABILITY, id="all"),
    ],
)
def test_requested_capabilities_are_granted(fabric, wanted, granted):
    info = fabric.getinfo(Info(caps=wanted))[0]
    assert info.caps == granted
    assert info.tx_attr.caps | info.rx_attr.caps == granted & ~COMMUNITY
    assert not info.tx_attr.caps & (Caps.FI_REMOTE_READ | Caps.FI_REMOTE_WRITE | Caps.FI_SOURCE | RECEIVING)
    assert not info.rx_attr.caps & (Caps.FI_READ | Caps.FI_WRITE | Caps.FI_TRIGGER | Caps.FI_FENCE | Caps.FI_SEND)


def test_naming_receive_contexts_is_what_senders_do(fabric):
    """Programs ask for it in both attributes."""
    wanted = Caps.FI_MSG | Caps.FI_NAMED_RX_CTX
    info = fabric.getinfo(Info(caps=wanted, tx_attr=TxAttr(caps=wanted), rx_attr=RxAttr(caps=wanted)))[0]
    assert Caps.FI_NAMED_RX_CTX in info.caps & info.tx_attr.caps
    assert Caps.FI_NAMED_RX_CTX not in info.rx_attr.caps


@pytest.mark.parametrize("tclass", [TrafficClass.FI_TC_LOW_LATENCY, TrafficClass.FI_TC_BULK_DATA], ids=tostr)
def test_a_traffic_class_is_a_wish(fabric, tclass):
    info = fabric.getinfo(Info(tx_attr=TxAttr(tclass=tclass), domain_attr=DomainAttr(tclass=tclass)))[0]
    assert info.tx_attr.tclass is info.domain_attr.tclass is TrafficClass.FI_TC_UNSPEC


@pytest.mark.parametrize(
    ("api", "wanted", "granted"),
    [
        (version(1, 0), MrMode(0), MrMode.FI_MR_SCALABLE),
        (version(1, 4), MrMode.FI_MR_BASIC, MrMode.FI_MR_BASIC),
        (version(1, 5), MrMode(0), MrMode(0)),
        (0, MrMode(0), MrMode(0)),
    ],
)
def test_programs_of_before_release_1_5_are_told_a_mode(fabric, api, wanted, granted):
    hints = Info(domain_attr=DomainAttr(mr_mode=wanted), fabric_attr=FabricAttr(api_version=api))
    assert fabric.getinfo(hints)[0].domain_attr.mr_mode == granted


def test_flags_that_an_endpoint_s_own_calls_have_are_granted_as_wanted(fabric):
    sending, receiving = OpFlags.FI_INJECT | OpFlags.FI_COMPLETION, OpFlags.FI_MULTI_RECV | OpFlags.FI_COMPLETION
    info = fabric.getinfo(Info(tx_attr=TxAttr(op_flags=sending), rx_attr=RxAttr(op_flags=receiving)))[0]
    assert (info.tx_attr.op_flags, info.rx_attr.op_flags) == (sending, receiving)
    with refused(Errno.FI_ENODATA, "RxAttr.op_flags"):
        fabric.getinfo(Info(rx_attr=RxAttr(op_flags=OpFlags.FI_INJECT)))


@pytest.mark.parametrize(
    ("hints", "field"),
    [
        pytest.param(Info(caps=Caps.FI_COLLECTIVE | Caps.FI_RMA), "Info", id="a capability"),
        pytest.param(Info(caps=Caps.FI_HMEM), "Info", id="memory elsewhere"),
        pytest.param(Info(caps=Caps.FI_RMA_EVENT), "Info", id="events of operations without data"),
        pytest.param(Info(caps=Caps.FI_SOURCE_ERR), "Info", id="addresses of strangers"),
        pytest.param(Info(caps=Caps.FI_READ), "FI_READ: 256> needs one of", id="reads of nothing"),
        pytest.param(Info(addr_format=AddrFormat.FI_SOCKADDR_IN), "Info", id="an address format"),
        pytest.param(Info(ep_attr=EpAttr(type=4)), "EpAttr.type", id="an endpoint type"),
        pytest.param(Info(ep_attr=EpAttr(max_msg_size=2**30 + 1)), "EpAttr.max_msg_size", id="longer messages"),
        pytest.param(Info(ep_attr=EpAttr(tx_ctx_cnt=8)), "EpAttr.tx_ctx_cnt", id="all contexts to transmit"),
        pytest.param(Info(ep_attr=EpAttr(rx_ctx_cnt=8)), "EpAttr.rx_ctx_cnt", id="all contexts to receive"),
        pytest.param(
            Info(domain_attr=DomainAttr(max_ep_srx_ctx=8)), "DomainAttr.max_ep_srx_ctx", id="all contexts to share"
        ),
        pytest.param(Info(ep_attr=EpAttr(auth_key=b"secret")), "EpAttr.auth_key", id="an authorization key"),
        pytest.param(Info(tx_attr=TxAttr(inject_size=65)), "TxAttr.inject_size", id="longer injections"),
        pytest.param(Info(tx_attr=TxAttr(size=2**15 + 1)), "TxAttr.size", id="more operations"),
        pytest.param(Info(tx_attr=TxAttr(iov_limit=2**13 + 1)), "TxAttr.iov_limit", id="more buffers"),
        pytest.param(Info(tx_attr=TxAttr(rma_iov_limit=2**13 + 1)), "TxAttr.rma_iov_limit", id="more segments"),
        pytest.param(Info(tx_attr=TxAttr(comp_order=MsgOrder(0x100))), "TxAttr.comp_order", id="completion order"),
        pytest.param(Info(tx_attr=TxAttr(msg_order=MsgOrder.FI_ORDER_RAS)), "TxAttr.msg_order", id="message order"),
        pytest.param(Info(tx_attr=TxAttr(caps=Caps.FI_RECV)), "TxAttr.caps", id="receiving by sending"),
        pytest.param(
            Info(caps=Caps.FI_RMA, tx_attr=TxAttr(caps=Caps.FI_ATOMIC)), "TxAttr.caps", id="more than Info.caps"
        ),
        pytest.param(
            Info(tx_attr=TxAttr(op_flags=OpFlags.FI_MATCH_COMPLETE)), "TxAttr.op_flags", id="only messages met"
        ),
        pytest.param(Info(caps=Caps.FI_ATOMIC | Caps.FI_RMA_PMEM), "Info", id="persistent memory without RMA"),
        pytest.param(
            Info(caps=Caps.FI_RMA, rx_attr=RxAttr(size=2**15 - 3)), "RxAttr.size", id="more waiting entries"
        ),
        pytest.param(Info(domain_attr=DomainAttr(name="mlx5_0")), "DomainAttr.name", id="another NIC"),
        pytest.param(Info(domain_attr=DomainAttr(cq_data_size=9)), "DomainAttr.cq_data_size", id="longer data"),
        pytest.param(Info(domain_attr=DomainAttr(mr_key_size=9)), "DomainAttr.mr_key_size", id="longer keys"),
        pytest.param(Info(fabric_attr=FabricAttr(prov_name="verbs")), "FabricAttr.prov_name", id="another provider"),
        pytest.param(
            Info(fabric_attr=FabricAttr(api_version=version(2, 0))), "FabricAttr.api_version", id="a later release"
        ),
    ],
)
def test_what_no_nic_does_is_no_data_and_the_message_names_the_field(fabric, hints, field):
    with refused(Errno.FI_ENODATA, field):
        fabric.getinfo(hints)


@pytest.mark.parametrize(
    "order",
    [MsgOrder.FI_ORDER_NONE, MsgOrder.FI_ORDER_ATOMIC_WAW, MsgOrder.FI_ORDER_RMA_RAW | MsgOrder.FI_ORDER_WAR],
    ids=tostr,
)
def test_the_returned_message_order_is_a_superset_of_the_requested(fabric, order):
    tx_attr = fabric.getinfo(Info(tx_attr=TxAttr(msg_order=order)))[0].tx_attr
    assert tx_attr.msg_order & order == order
    assert tx_attr.msg_order & MsgOrder.FI_ORDER_ATOMIC_RAW


@pytest.mark.parametrize(
    ("prepared", "needed"),
    [
        (MrMode(0), MrMode(0)),
        (MrMode.FI_MR_COLLECTIVE | MrMode.FI_MR_ENDPOINT | MrMode.FI_MR_PROV_KEY, MrMode(0)),
        (MrMode.FI_MR_VIRT_ADDR | MrMode.FI_MR_ENDPOINT, MrMode.FI_MR_VIRT_ADDR),
        (MrMode.FI_MR_LOCAL | MrMode.FI_MR_MMU_NOTIFY, MrMode.FI_MR_LOCAL),
        (MrMode.FI_MR_BASIC, MrMode.FI_MR_BASIC),
        (MrMode.FI_MR_SCALABLE, MrMode.FI_MR_SCALABLE),
    ],
    ids=lambda mode: tostr(mode) or "none",
)
def test_mr_mode_bits_that_are_not_needed_are_cleared(fabric, prepared, needed):
    info = fabric.getinfo(Info(domain_attr=DomainAttr(mr_mode=prepared)))[0]
    assert info.domain_attr.mr_mode == needed


@pytest.mark.parametrize(
    ("mr_mode", "opened"),
    [
        (MrMode.FI_MR_BASIC, MrMode.FI_MR_VIRT_ADDR | MrMode.FI_MR_ALLOCATED | MrMode.FI_MR_PROV_KEY),
        (MrMode.FI_MR_SCALABLE, MrMode(0)),
        (MrMode.FI_MR_VIRT_ADDR, MrMode.FI_MR_VIRT_ADDR),
    ],
    ids=tostr,
)
def test_a_domain_registers_memory_in_the_mode_that_was_returned(fabric, keep, mr_mode, opened):
    info = fabric.getinfo(Info(domain_attr=DomainAttr(mr_mode=mr_mode)))[0]
    assert keep(fabric.domain(info)).mr_mode == opened


def test_modes_that_the_application_offers_are_not_required(fabric):
    info = fabric.getinfo(Info(mode=Mode.FI_CONTEXT | Mode.FI_MSG_PREFIX))[0]
    assert (info.mode, info.tx_attr.mode, info.domain_attr.mode) == (Mode(0), Mode(0), Mode(0))


@pytest.mark.parametrize(("wanted", "granted"), [(0, 256), (1, 16), (100, 128), (2**15, 2**15)])
def test_the_queue_size_is_at_least_the_requested_and_a_default_without(fabric, keep, wanted, granted):
    info = fabric.getinfo(Info(tx_attr=TxAttr(size=wanted)))[0]
    assert info.tx_attr.size == granted
    assert keep(keep(fabric.domain(info)).endpoint(info)).tx_size == granted


@pytest.mark.parametrize(
    ("caps", "wanted", "granted"),
    [
        (Caps.FI_RMA, 0, 256),
        (Caps.FI_RMA, 1, 1),
        (Caps.FI_RMA, 2**15 - 4, 2**15 - 4),
        (Caps.FI_TAGGED | Caps.FI_SEND, 100, 100),
        (Caps.FI_TAGGED, 0, 256),
        (Caps.FI_MSG | Caps.FI_RECV, 7, 7),
        (Caps(0), 64, 64),
    ],
)
def test_as_many_entries_may_wait_as_were_asked_for(fabric, keep, caps, wanted, granted):
    info = fabric.getinfo(Info(caps=caps, rx_attr=RxAttr(size=wanted)))[0]
    assert info.rx_attr.size == granted
    assert keep(keep(fabric.domain(info)).endpoint(info)).rx_size == granted


def test_a_queue_that_no_ring_has_is_not_granted(fabric):
    with refused(Errno.FI_ENODATA, "RxAttr.size"):
        fabric.getinfo(Info(caps=Caps.FI_MSG, rx_attr=RxAttr(size=2**15 - 3)))


@pytest.mark.parametrize(
    ("wanted", "size", "segments"),
    [
        (TxAttr(), 256, 64),
        (TxAttr(size=16), 16, 4),
        (TxAttr(size=16, iov_limit=4, rma_iov_limit=4), 16, 4),
        (TxAttr(size=16, iov_limit=5), 32, 8),
        (TxAttr(size=16, rma_iov_limit=9), 64, 16),
        (TxAttr(size=512, iov_limit=9), 512, 128),
        (TxAttr(iov_limit=2**13), 2**15, 2**13),
    ],
)
def test_the_queue_is_large_enough_for_the_requested_segments(fabric, keep, wanted, size, segments):
    info = fabric.getinfo(Info(tx_attr=wanted))[0]
    assert (info.tx_attr.size, info.tx_attr.iov_limit, info.tx_attr.rma_iov_limit) == (size, segments, segments)
    endpoint = keep(keep(fabric.domain(info)).endpoint(info))
    assert (endpoint.tx_size, endpoint.iov_limit, endpoint.rma_iov_limit) == (size, segments, segments)


@pytest.mark.parametrize(
    ("wanted", "granted"),
    [
        (AvType.FI_AV_UNSPEC, AvType.FI_AV_TABLE),
        (AvType.FI_AV_MAP, AvType.FI_AV_MAP),
        (AvType.FI_AV_TABLE, AvType.FI_AV_TABLE),
    ],
)
def test_the_address_vector_type_is_the_requested(fabric, wanted, granted):
    assert fabric.getinfo(Info(domain_attr=DomainAttr(av_type=wanted)))[0].domain_attr.av_type is granted


def test_disabled_resource_management_is_a_permission_not_a_demand(fabric):
    hints = Info(domain_attr=DomainAttr(resource_mgmt=ResourceMgmt.FI_RM_DISABLED))
    assert fabric.getinfo(hints)[0].domain_attr.resource_mgmt is ResourceMgmt.FI_RM_ENABLED


def test_an_answer_is_a_hint_that_is_answered_by_itself(fabric):
    for info in fabric.getinfo():
        assert fabric.getinfo(info) == [info]


def test_delivery_completion_can_be_asked_for(fabric):
    flags = OpFlags.FI_DELIVERY_COMPLETE | OpFlags.FI_COMPLETION
    assert fabric.getinfo(Info(tx_attr=TxAttr(op_flags=flags)))[0].tx_attr.op_flags == flags


# Nodes and addresses


def test_a_source_node_is_the_nic_with_that_address(fabric):
    assert set(domains(fabric.getinfo(node="10.0.0.2", flags=InfoFlags.FI_SOURCE))) == {"amoeba1"}


@pytest.mark.parametrize(
    ("node", "flags", "number"),
    [
        ("10.0.0.3", InfoFlags.FI_SOURCE, Errno.FI_ENODATA),
        ("10.0.0.3", InfoFlags(0), Errno.FI_ENODATA),
        ("localhost", InfoFlags.FI_SOURCE, Errno.FI_ENODATA),
        ("localhost", InfoFlags.FI_SOURCE | InfoFlags.FI_NUMERICHOST, Errno.FI_EINVAL),
        ("localhost", InfoFlags.FI_NUMERICHOST, Errno.FI_EINVAL),
        (None, InfoFlags.FI_SOURCE, Errno.FI_EINVAL),
        (None, InfoFlags(1), Errno.FI_EBADFLAGS),
    ],
)
def test_other_nodes_and_flags_are_refused(fabric, node, flags, number):
    with refused(number):
        fabric.getinfo(node=node, flags=flags)


@pytest.mark.parametrize(("service", "process", "context"), [(None, 1, 0), ("3", 1, 3), ("7/2", 7, 2)])
def test_a_node_is_the_peers_and_its_service_a_context_there(fabric, service, process, context):
    infos = fabric.getinfo(Info(ep_attr=RDM), node="10.0.0.2", service=service)
    assert domains(infos) == ["amoeba0", "amoeba1"]
    nic = fabric.nics[1]
    assert {info.dest_addr for info in infos} == {EndpointAddress(nic.mac, nic.ip, 1, process, context).pack()}
    assert fabric.getinfo(node="10.0.0.2", service=service)[0].dest_addr == infos[0].dest_addr


def test_a_node_is_found_by_its_name(fabric, monkeypatch):
    asked = []

    def resolve(node, *_):
        asked.append(node)
        return [(0, 0, 0, "", (address, 0)) for address in ("192.0.2.1", "10.0.0.2")]

    monkeypatch.setattr(names.socket, "getaddrinfo", resolve)
    assert set(domains(fabric.getinfo(node="nic1", flags=InfoFlags.FI_SOURCE))) == {"amoeba1"}
    assert asked == ["nic1"]


def test_the_destination_has_the_job_and_process_of_the_source(fabric):
    own = dataclasses.replace(EndpointAddress.unpack(fabric.getinfo()[0].src_addr), job_id=77, pid_on_fep=5)
    (info,) = fabric.getinfo(Info(src_addr=own.pack(), dest_addr=bytes(18), ep_attr=RDM), node="10.0.0.2")
    peer = EndpointAddress.unpack(info.dest_addr)
    assert (peer.ip, peer.job_id, peer.pid_on_fep, peer.resource_index) == (fabric.nics[1].ip, 77, 5, 0)


@pytest.mark.parametrize(
    ("node", "service", "flags", "number"),
    [
        (None, "1", InfoFlags(0), Errno.FI_ENODATA),
        (None, "ssh", InfoFlags(0), Errno.FI_EINVAL),
        ("10.0.0.2", "ssh", InfoFlags(0), Errno.FI_EINVAL),
        ("10.0.0.2", "-1", InfoFlags(0), Errno.FI_EINVAL),
        ("10.0.0.2", "4096", InfoFlags(0), Errno.FI_EINVAL),
        ("10.0.0.2", "1", InfoFlags.FI_SOURCE, Errno.FI_ENODATA),
        (None, "1", InfoFlags.FI_SOURCE, Errno.FI_ENODATA),
    ],
)
def test_other_services_are_refused(fabric, node, service, flags, number):
    with refused(number):
        fabric.getinfo(node=node, service=service, flags=flags)


def test_a_nic_of_another_process_is_known_as_a_neighbour(fabric):
    fabric.neighbours[0x0A00_0009] = bytes(5) + b"\x09"
    (info, *_) = fabric.getinfo(node="10.0.0.9")
    assert EndpointAddress.unpack(info.dest_addr).mac == bytes(5) + b"\x09"
    with refused(Errno.FI_ENODATA):
        fabric.getinfo(node="10.0.0.9", flags=InfoFlags.FI_SOURCE)


def test_of_the_provider_alone_one_answer_says_name_and_version(fabric):
    hints = Info(caps=Caps.FI_HMEM)  # which no NIC has
    (info,) = fabric.getinfo(hints, flags=InfoFlags.FI_PROV_ATTR_ONLY)
    assert info == Info(fabric_attr=FabricAttr(prov_name="amoeba", prov_version=info.fabric_attr.prov_version))
    assert info.fabric_attr.prov_version == fabric.getinfo()[0].fabric_attr.prov_version


def test_the_source_address_chooses_nic_job_and_process(fabric, keep):
    own = dataclasses.replace(EndpointAddress.unpack(fabric.getinfo()[1].src_addr), job_id=77, pid_on_fep=5)
    (info,) = fabric.getinfo(Info(src_addr=own.pack(), ep_attr=RDM))
    domain = keep(fabric.domain(info))
    assert (domain.nic, domain.job_id, domain.pid_on_fep) == (fabric.nics[1], 77, 5)
    assert keep(fabric.domain(info, job_id=78)).job_id == 78


def test_the_source_address_is_ignored_with_a_source_node(fabric):
    hints = Info(src_addr=fabric.getinfo()[0].src_addr, ep_attr=RDM)
    assert domains(fabric.getinfo(hints)) == ["amoeba0"]
    assert domains(fabric.getinfo(hints, node="10.0.0.2", flags=InfoFlags.FI_SOURCE)) == ["amoeba1"]


def test_the_destination_address_comes_back_and_must_be_one(fabric):
    address = fabric.getinfo()[1].src_addr
    assert fabric.getinfo(Info(dest_addr=address))[0].dest_addr == address
    with refused(Errno.FI_EINVAL):
        fabric.getinfo(Info(dest_addr=b"nowhere"))


# Objects


def test_objects_are_made_from_what_getinfo_returns(fabric, keep):
    hints = Info(
        caps=Caps.FI_ATOMIC,
        ep_attr=RDM,
        tx_attr=TxAttr(size=32, op_flags=OpFlags.FI_COMPLETION),
        domain_attr=DomainAttr(mr_mode=MrMode.FI_MR_VIRT_ADDR, av_type=AvType.FI_AV_MAP),
    )
    sides = []
    for info in fabric.getinfo(hints):
        domain = keep(fabric.domain(info))
        queue = keep(domain.cq_open(CqFormat.FI_CQ_FORMAT_MSG))
        peers = keep(domain.av_open(info.domain_attr.av_type))
        endpoint = keep(domain.endpoint(info))
        endpoint.bind(queue, BindFlags.FI_TRANSMIT | BindFlags.FI_SELECTIVE_COMPLETION)
        endpoint.bind(peers)
        endpoint.enable()
        sides.append((domain, queue, peers, endpoint))
    (_, queue, peers, endpoint), (domain, _, _, other) = sides
    assert (endpoint.tx_size, peers.type) == (32, AvType.FI_AV_MAP)
    memory = np.array([40], np.uint64)
    region = keep(domain.mr_reg(memory, ALL_ACCESS))
    endpoint.atomic(np.uint64(2), peers.insert(other.getname()), region.address, region.key, Op.FI_SUM)
    # FI_COMPLETION is among the endpoint's op_flags, so selective completion hides nothing
    assert len(queue.sread(timeout=30)) == 1
    assert memory[0] == 42


def test_what_is_given_counts_more_than_what_info_says(fabric, keep):
    info = fabric.getinfo()[0]
    assert keep(keep(fabric.domain(info, mr_mode=MrMode(0))).endpoint(info, tx_size=32)).tx_size == 32
    assert keep(keep(fabric.domain(info)).endpoint(info, rx_size=7)).rx_size == 7


def test_an_endpoint_has_no_other_op_flags_than_those_granted(fabric, keep):
    with refused(Errno.FI_EBADFLAGS):
        keep(fabric.domain(0)).endpoint(op_flags=OpFlags.FI_MATCH_COMPLETE)


@pytest.mark.parametrize("name", [None, "eth0", "amoeba", "amoeba2", "amoeba-1"])
def test_a_domain_of_another_fabric_is_not_here(fabric, name):
    with refused(Errno.FI_ENODEV):
        fabric.domain(Info(domain_attr=DomainAttr(name=name)))


def test_a_fabric_can_be_opened_from_what_getinfo_returns_before_there_is_one(fabric):
    infos = getinfo(Info(caps=Caps.FI_ATOMIC, ep_attr=RDM), kinds=["model", "model", "model"])
    assert domains(infos) == ["amoeba0", "amoeba1", "amoeba2"]
    with open_fabric(infos[2].fabric_attr) as opened, opened.domain(infos[2]) as domain:
        assert domain.nic is opened.nics[2]
    with refused(Errno.FI_EINVAL):
        open_fabric(FabricAttr(name="10.0.0.0/8"))


def test_the_example_in_the_documentation_runs(fabric):
    page = (Path(__file__).parents[4] / "docs" / "libfabric.md").read_text()
    example = re.search(r"```python\n(.*?)```", page, re.DOTALL)[1]
    names = {}
    exec(example, names)
    assert (names["first"].domain_attr.name, names["endpoint"].tx_size) == ("amoeba0", 256)
    assert names["endpoint"].closed


# Printing


def test_flags_and_enumerations_print_as_their_names(fabric):
    assert tostr(Caps.FI_RMA | Caps.FI_ATOMIC) == "FI_RMA, FI_ATOMIC"
    assert tostr(Caps(1 << 62) | Caps.FI_RMA) == "FI_RMA, 0x4000000000000000"
    assert tostr(MsgOrder(0)) == "FI_ORDER_NONE"
    assert tostr(EpType.FI_EP_RDM) == "FI_EP_RDM"
    with pytest.raises(TypeError):
        tostr("FI_RMA")


def test_an_info_prints_as_fi_info_prints_it(fabric):
    lines = str(fabric.getinfo()[1]).splitlines()
    assert lines[:3] == [
        "fi_info:",
        "    caps: [ FI_MSG, FI_RMA, FI_TAGGED, FI_ATOMIC, FI_READ, FI_WRITE, FI_RECV, FI_SEND, FI_REMOTE_READ, "
        "FI_REMOTE_WRITE, FI_MULTI_RECV, FI_TRIGGER, FI_FENCE, FI_RMA_PMEM, FI_LOCAL_COMM, FI_REMOTE_COMM, "
        "FI_RMA_EVENT, FI_SOURCE, "
        "FI_NAMED_RX_CTX, FI_DIRECTED_RECV ]",
        "    mode: [  ]",
    ]
    assert [line for line in lines if line.endswith("_attr:")] == [
        "    fi_tx_attr:",
        "    fi_rx_attr:",
        "    fi_ep_attr:",
        "    fi_domain_attr:",
        "    fi_fabric_attr:",
    ]
    for line in (
        "        comp_order: [ FI_ORDER_NONE ]",
        "        type: FI_EP_RDM",
        "        name: amoeba1",
        "        threading: FI_THREAD_DOMAIN",
        "        api_version: 1.17",
    ):
        assert line in lines
