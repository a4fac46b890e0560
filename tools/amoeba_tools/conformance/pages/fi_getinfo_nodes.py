"""fi_getinfo(3): node, service and flags."""

import ipaddress

from amoeba.core.errno import Errno
from amoeba.libfabric.objects.constants import Caps, InfoFlags
from amoeba.libfabric.objects.structures import Info
from amoeba.nic.address import EndpointAddress

from amoeba_tools.conformance.expectations import expect, expect_equal, expect_error
from amoeba_tools.conformance.pages.fi_av_names import named
from amoeba_tools.conformance.pages.fi_getinfo import page
from amoeba_tools.conformance.pair import Pair


def own_node(pair: Pair) -> str:
    return str(ipaddress.IPv4Address(EndpointAddress.unpack(pair.near.endpoint.getname()).ip))


@page("dest_addr", "Without FI_SOURCE, node and service are the destination that is returned.", needs={"rma"})
def a_node_becomes_the_destination(pair: Pair) -> None:
    """Resolve the target's address; the hints' destination is ignored."""
    node, service = named(pair)
    for hints in (None, Info(dest_addr=pair.near.endpoint.getname())):
        for info in pair.fabric.getinfo(hints, node=node, service=service):
            expect_equal("dest_addr", info.dest_addr, pair.target.name(0))


@page("FI_SOURCE", "Node is the local address to be used.")
def a_source_node_chooses_the_nic(pair: Pair) -> None:
    """Resolve the initiator's address; hints for another source are ignored."""
    hints = Info(src_addr=pair.target.name(0))
    for given in (None, hints):
        for info in pair.fabric.getinfo(given, node=own_node(pair), flags=InfoFlags.FI_SOURCE):
            expect_equal("domain", info.domain_attr.name, pair.info.domain_attr.name)


@page("FI_SOURCE", "Either node or service must be given with it.")
def a_source_must_be_named(pair: Pair) -> None:
    """Call without either."""
    with expect_error("FI_SOURCE alone", Errno.FI_EINVAL):
        pair.fabric.getinfo(flags=InfoFlags.FI_SOURCE)


@page("FI_NUMERICHOST", "Node is in figures: names are not looked up.")
def numeric_nodes_are_not_looked_up(pair: Pair) -> None:
    """Pass a name that every host knows; numeric addresses are accepted."""
    flags = InfoFlags.FI_NUMERICHOST | InfoFlags.FI_SOURCE
    with expect_error("a name", Errno.FI_EINVAL, Errno.FI_ENODATA):
        pair.fabric.getinfo(node="localhost", flags=flags)
    expect(pair.fabric.getinfo(node=own_node(pair), flags=flags), "expected an answer for a node in figures")


@page("FI_PROV_ATTR_ONLY", "One answer for the provider, with its name and version, whatever it can do.")
def the_provider_alone_can_be_asked_for(pair: Pair) -> None:
    """Use hints that nothing meets; all else is as in an empty answer."""
    impossible = Info(caps=Caps.FI_HMEM | Caps.FI_MULTICAST)
    (info,) = pair.fabric.getinfo(impossible, flags=InfoFlags.FI_PROV_ATTR_ONLY)
    expected = pair.info.fabric_attr.prov_name, pair.info.fabric_attr.prov_version
    expect_equal("name and version", (info.fabric_attr.prov_name, info.fabric_attr.prov_version), expected)
    expect_equal("caps", info.caps, Caps(0))


@page("ERRORS", "FI_EBADFLAGS: invalid flags.")
def other_flags_are_refused(pair: Pair) -> None:
    """Pass an unknown bit."""
    with expect_error("an unknown flag", Errno.FI_EBADFLAGS):
        pair.fabric.getinfo(flags=InfoFlags(1))
