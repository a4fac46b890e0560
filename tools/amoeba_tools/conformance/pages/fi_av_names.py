"""fi_av(3): addresses inserted by the names of nodes and services."""

import ipaddress

from amoeba.core.errno import Errno
from amoeba.libfabric.objects.constants import FI_ADDR_NOTAVAIL, AvFlags
from amoeba.nic.address import EndpointAddress

from amoeba_tools.conformance.expectations import expect_equal, expect_error
from amoeba_tools.conformance.pages.fi_av import page, reaches, vector
from amoeba_tools.conformance.pair import Pair

_NOWHERE = "192.0.2.77"
"""An address for documentation, which no NIC has."""


def named(pair: Pair) -> tuple[str, str]:
    """Node and service of the target's first endpoint."""
    address = EndpointAddress.unpack(pair.target.name(0))
    return str(ipaddress.IPv4Address(address.ip)), f"{address.pid_on_fep}/{address.resource_index}"


@page("fi_av_insertsvc", "An address is inserted by its node and service.")
def an_endpoint_is_inserted_by_its_names(pair: Pair) -> None:
    """Compare the address with the target's own, and reach the target by it."""
    peers, memory = vector(pair), pair.memory(8)
    inserted = peers.insertsvc(*named(pair))
    expect_equal("inserted", (inserted.count, inserted.fi_addr), (1, (0,)))
    expect_equal("address", peers.lookup(0), pair.target.name(0))
    reaches(pair, peers, 0, memory)


@page("fi_av_insertsym", "All services of a node are inserted before the next node.")
def services_are_inserted_node_by_node(pair: Pair) -> None:
    """Use two nodes from the initiator's or the target's on, whichever is first, and three services of each."""
    ips = [EndpointAddress.unpack(each).ip for each in (pair.near.endpoint.getname(), pair.target.name(0))]
    first = ipaddress.IPv4Address(min(ips))
    expect_equal("nodes of the pair side by side", max(ips), int(first) + 1)
    peers = vector(pair)
    inserted = peers.insertsym(str(first), 2, "4", 3)
    expect_equal("inserted", (inserted.count, inserted.fi_addr), (6, tuple(range(6))))
    found = [EndpointAddress.unpack(peers.lookup(number)) for number in inserted.fi_addr]
    expected = [(ip, context) for ip in sorted(ips) for context in (4, 5, 6)]
    expect_equal("nodes and services", [(each.ip, each.resource_index) for each in found], expected)


@page("fi_av_insertsvc", "Flags are those of fi_av_insert: with FI_SYNC_ERR each address has an error number.")
def a_node_that_does_not_exist_is_not_inserted(pair: Pair) -> None:
    """Check that an unknown node gets no number, and that the others are inserted."""
    peers = vector(pair)
    inserted = peers.insertsvc(_NOWHERE, "0", flags=AvFlags.FI_SYNC_ERR)
    expect_equal("inserted", (inserted.count, inserted.fi_addr), (0, (FI_ADDR_NOTAVAIL,)))
    expect_equal("errors", [error is Errno.FI_SUCCESS for error in inserted.errors], [False])
    expect_equal("the next number", peers.insertsvc(*named(pair)).fi_addr, (0,))


@page("fi_av_insertsym", "A name of several nodes must have a numeric suffix.")
def several_nodes_need_a_number(pair: Pair) -> None:
    """Check that neither a name without suffix nor an unknown service is inserted."""
    peers = vector(pair)
    for what, node, nodes, service in (
        ("a name without a number", "localhost", 2, "0"),
        ("an invalid service", named(pair)[0], 1, "everything"),
    ):
        with expect_error(what, Errno.FI_EINVAL):
            peers.insertsym(node, nodes, service, 1)
    expect_equal("addresses", len(peers), 0)
