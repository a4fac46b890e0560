"""fi_fabric(3): opening and closing a fabric, and printing its attributes."""

import dataclasses
from typing import Any

from amoeba import fi
from amoeba.core.errno import Errno
from amoeba.libfabric.objects.constants import (
    AddrFormat,
    AvType,
    Caps,
    CqFormat,
    Datatype,
    EpType,
    EqEvent,
    FiType,
    Mode,
    MrMode,
    MsgOrder,
    Op,
    OpFlags,
    Progress,
    Protocol,
    Threading,
    TriggerOp,
)
from amoeba.libfabric.objects.fabric import Fabric
from amoeba.libfabric.objects.structures import DomainAttr, EpAttr, FabricAttr, Info, RxAttr, TxAttr

from amoeba_tools.conformance.expectations import expect, expect_equal, expect_error
from amoeba_tools.conformance.pages.fi_getinfo import granted, refused
from amoeba_tools.conformance.pair import CONNECTED, Pair
from amoeba_tools.conformance.registry import Page

page = Page("fi_fabric", "1.17")

_STRUCTURES = {
    FiType.FI_TYPE_TX_ATTR: TxAttr,
    FiType.FI_TYPE_RX_ATTR: RxAttr,
    FiType.FI_TYPE_EP_ATTR: EpAttr,
    FiType.FI_TYPE_DOMAIN_ATTR: DomainAttr,
    FiType.FI_TYPE_FABRIC_ATTR: FabricAttr,
}
_NAMED = {
    FiType.FI_TYPE_EP_TYPE: (EpType.FI_EP_RDM, 3),
    FiType.FI_TYPE_CAPS: (Caps.FI_RMA, 1 << 2),
    FiType.FI_TYPE_OP_FLAGS: (OpFlags.FI_COMPLETION, 1 << 24),
    FiType.FI_TYPE_ADDR_FORMAT: (AddrFormat.FI_SOCKADDR_IN, 2),
    FiType.FI_TYPE_THREADING: (Threading.FI_THREAD_SAFE, 1),
    FiType.FI_TYPE_PROGRESS: (Progress.FI_PROGRESS_MANUAL, 2),
    FiType.FI_TYPE_PROTOCOL: (Protocol.FI_PROTO_UNSPEC, 0),
    FiType.FI_TYPE_MSG_ORDER: (MsgOrder.FI_ORDER_RAW, 1 << 1),
    FiType.FI_TYPE_MODE: (Mode.FI_CONTEXT, 1 << 59),
    FiType.FI_TYPE_AV_TYPE: (AvType.FI_AV_TABLE, 2),
    FiType.FI_TYPE_ATOMIC_TYPE: (Datatype.FI_UINT64, 7),
    FiType.FI_TYPE_ATOMIC_OP: (Op.FI_SUM, 2),
    FiType.FI_TYPE_EQ_EVENT: (EqEvent.FI_CONNECTED, 2),
    FiType.FI_TYPE_CQ_EVENT_FLAGS: (Caps.FI_RECV, 1 << 10),
    FiType.FI_TYPE_MR_MODE: (MrMode.FI_MR_PROV_KEY, 1 << 6),
    FiType.FI_TYPE_OP_TYPE: (TriggerOp.FI_OP_SEND, 1),
    FiType.FI_TYPE_CQ_FORMAT: (CqFormat.FI_CQ_FORMAT_TAGGED, 4),
}
"""A member of each kind, and its number in libfabric's headers."""


def _described() -> Info:
    """Return the infos that can be opened beside the pair's fabric."""
    return fi.fi_getinfo(fi.fi_version(), None, None, 0, None)[0]


def _opened(pair: Pair) -> Fabric:
    return pair.keep(fi.fi_fabric(_described().fabric_attr))


@page("DESCRIPTION", "Ports that can communicate with each other belong to the same fabric.")
def all_nics_of_a_network_are_of_one_fabric(pair: Pair) -> None:
    """Check that the infos of the initiator's fabric name one fabric."""
    names = {info.fabric_attr.name for info in pair.fabric.getinfo()}
    expect_equal("names of fabrics", names, {pair.info.fabric_attr.name})


@page("fi_fabric", "The call opens a fabric by attributes, which fi_getinfo returns.")
def a_fabric_is_opened_by_its_attributes(pair: Pair) -> None:
    """Open another fabric than the pair's, whose infos match its attributes; an unknown name is refused."""
    info, opened = _described(), _opened(pair)
    expect_equal("fabric_attr", opened.getinfo()[0].fabric_attr, info.fabric_attr)
    pair.keep(opened.domain(info))
    with expect_error("a fabric of another name", Errno.FI_EINVAL, Errno.FI_ENODATA, Errno.FI_ENODEV):
        fi.fi_fabric(dataclasses.replace(info.fabric_attr, name="nobody's"))


@page("fi_close", "The call releases all resources of the fabric.")
def a_closed_fabric_is_of_no_more_use(pair: Pair) -> None:
    """Check that it opens nothing; the pair's fabric goes on."""
    opened = _opened(pair)
    fi.fi_close(opened)
    for what, use in (("a domain", opened.domain), ("an event queue", opened.eq_open), ("offers", opened.getinfo)):
        with expect_error(what, Errno.FI_EBADF):
            use()
    pair.keep(pair.fabric.domain(pair.info))


@page("NOTES", "Access domains, passive endpoints and event queues belong to a fabric.")
def what_belongs_to_a_fabric_ends_with_it(pair: Pair) -> None:
    """Open one of each through a fabric that is closed then."""
    opened = _opened(pair)
    members = [
        pair.keep(opened.domain(_described())),
        pair.keep(opened.passive_ep(CONNECTED)),
        pair.keep(opened.eq_open()),
    ]
    opened.close()
    left = [member for member in members if not member.closed]
    expect(not left, f"expected that all are closed, these are open: {left}")


@page("fi_tostr", "Capabilities, flags and enumerations become printable strings.")
def numbers_are_printed_by_their_names(pair: Pair) -> None:
    """Print a number of each type, and two flags together."""
    for datatype, (member, number) in _NAMED.items():
        expect_equal(f"{datatype.name} of {number:#x}", fi.fi_tostr(number, datatype), member.name)
    both = fi.fi_tostr(Caps.FI_RMA | Caps.FI_ATOMIC, FiType.FI_TYPE_CAPS)
    expect("FI_RMA" in both and "FI_ATOMIC" in both, f"expected FI_RMA and FI_ATOMIC, got {both!r}")


@page("fi_tostr: FI_TYPE_INFO", "The call prints an info with all substructures and fields, and each of these alone.")
def infos_are_printed_with_all_fields(pair: Pair) -> None:
    """Check that the names of all fields appear."""
    whole = fi.fi_tostr(pair.info, FiType.FI_TYPE_INFO)
    parts: list[Any] = [
        pair.info.tx_attr,
        pair.info.rx_attr,
        pair.info.ep_attr,
        pair.info.domain_attr,
        pair.info.fabric_attr,
    ]
    for part in (pair.info, *parts):
        missing = [field.name for field in dataclasses.fields(part) if f"{field.name}:" not in whole]
        substructures = {"tx_attr", "rx_attr", "ep_attr", "domain_attr", "fabric_attr"}
        expect(not set(missing) - substructures, f"expected all fields of {type(part).__name__}, missing: {missing}")
    for datatype, structure in _STRUCTURES.items():
        (part,) = (each for each in parts if isinstance(each, structure))
        for line in fi.fi_tostr(part, datatype).splitlines():
            expect(line.strip() in whole, f"expected {line.strip()!r} in what is printed of the info")


@page("fi_tostr: FI_TYPE_VERSION", "The call prints the version of the library, and ignores the data.")
def the_version_is_printed_whatever_the_data(pair: Pair) -> None:
    """Compare with fi_version."""
    version = fi.fi_version()
    for data in (None, 5, pair.info):
        printed = fi.fi_tostr(data, FiType.FI_TYPE_VERSION)
        expect_equal(f"version, of {type(data).__name__}", printed, _both(version))


@page("fi_tostr: FI_TYPE_FID", "The call prints an object.")
def objects_are_printed(pair: Pair) -> None:
    """Check that objects of different classes read differently."""
    printed = {fi.fi_tostr(each, FiType.FI_TYPE_FID) for each in (pair.fabric, pair.domain, pair.near.queue)}
    expect_equal("different strings", len(printed), 3)


@page("FABRIC ATTRIBUTES: name, prov_name", "The attributes name the fabric, and the provider below.")
def hints_choose_fabric_and_provider_by_name(pair: Pair) -> None:
    """Use their own names, which are found, and others, which are not."""
    attr = pair.info.fabric_attr
    for hint in (FabricAttr(name=attr.name), FabricAttr(prov_name=attr.prov_name)):
        expect_equal("fabric_attr", granted(pair, Info(fabric_attr=hint)).fabric_attr, attr)
    for hint in (FabricAttr(name="nobody's"), FabricAttr(prov_name="nobody's")):
        refused(repr(hint), pair, Info(fabric_attr=hint))


@page("FABRIC ATTRIBUTES: prov_version", "The field is the provider's version, as major and minor number.")
def the_providers_version_has_two_numbers(pair: Pair) -> None:
    """Check that both numbers are printed."""
    version = pair.info.fabric_attr.prov_version
    expect(version > 0, f"expected a version, got {version}")
    printed, both = fi.fi_tostr(pair.info.fabric_attr), f"prov_version: {_both(version)}"
    expect(both in printed, f"expected {both!r} in {printed!r}")


@page("FABRIC ATTRIBUTES: api_version", "The field is the version that was passed to fi_getinfo.")
def the_version_of_the_interface_is_the_one_asked_for(pair: Pair) -> None:
    """Request the newest version, and an older one."""
    for version in (fi.fi_version(), fi.fi_version() - 3):
        infos = fi.fi_getinfo(version, None, None, 0, None)
        expect_equal("api_version", {info.fabric_attr.api_version for info in infos}, {version})


# Without a check of their own

page.leave("NAME, SYNOPSIS, ARGUMENTS", "Names of the calls and their arguments.", "These are names.")
page.leave(
    "DESCRIPTION",
    "A fabric is opened before other resources of the network are allocated; it may span providers.",
    "They are made by its methods, so there is no other way; there is one provider.",
)
page.leave(
    "fi_close",
    "All that is associated with the fabric is released before it is closed.",
    "Differs: it is closed with it, `fi_fabric.what_belongs_to_a_fabric_ends_with_it`",
)
page.leave(
    "fi_tostr: FI_TYPE_HMEM_IFACE, FI_TYPE_LOG_LEVEL, FI_TYPE_LOG_SUBSYS",
    "Interfaces of device memory, levels and parts of the log.",
    "There is nothing that has them: TypeError.",
)
page.leave(
    "fi_tostr, fi_tostr_r",
    "The one returns a buffer that the next call overwrites, the other fills that of the caller.",
    "Python strings need no buffer and are immutable, so that one call suffices.",
)
page.leave(
    "FABRIC ATTRIBUTES: fabric",
    "Hints may name a fabric that is open, and infos tell which is.",
    "Differs: an open fabric is asked itself, by `fabric.getinfo` ([libfabric.md](libfabric.md#fi_getinfo3)).",
)
page.leave(
    "FABRIC ATTRIBUTES: prov_name",
    "Utility providers over others; the environment says which providers there are.",
    "There is one provider, and no environment variable changes anything.",
)
page.leave("RETURN VALUE", "0, or a negative errno.", "Errors are raised: [How C becomes Python](libfabric.md).")


def _both(version: int) -> str:
    """Return both numbers of a version, as they are printed."""
    return f"{version >> 16}.{version & 0xFFFF}"
