"""fi_endpoint(3): what is bound to what, aliases and options, cancelling, counters, datagrams, order of sends."""

from amoeba import fi
from amoeba.core.errno import Errno
from amoeba.libfabric.objects.constants import (
    BindFlags,
    Control,
    EndpointOption,
    EpType,
    MrAccess,
    MsgOrder,
    OpFlags,
    OptionLevel,
)
from amoeba.libfabric.objects.structures import EpAttr, Info

from amoeba_tools.conformance.expectations import expect, expect_equal, expect_error
from amoeba_tools.conformance.pages.fi_cntr import becomes, values_of
from amoeba_tools.conformance.pages.fi_endpoint import page
from amoeba_tools.conformance.pages.fi_msg import LONG
from amoeba_tools.conformance.pages.fi_rma import message, pattern
from amoeba_tools.conformance.pair import Pair

_SILENT = BindFlags.FI_SELECTIVE_COMPLETION
_TRANSMIT = int(BindFlags.FI_TRANSMIT)
_LEVEL = OptionLevel.FI_OPT_ENDPOINT


@page("fi_ep_bind", "There is one queue, and one counter, for each kind of operation.")
def second_queues_and_counters_are_refused(pair: Pair) -> None:
    """Bind two for the same; for different kinds they are taken."""
    endpoint = pair.keep(pair.domain.endpoint())
    queues = [pair.keep(pair.domain.cq_open()) for _ in range(3)]
    endpoint.bind(queues[0], BindFlags.FI_TRANSMIT)
    endpoint.bind(queues[1], BindFlags.FI_RECV)
    for direction in (BindFlags.FI_TRANSMIT, BindFlags.FI_RECV):
        with expect_error(f"another queue for {direction!r}", Errno.FI_EINVAL):
            endpoint.bind(queues[2], direction)
    counters = [pair.keep(pair.domain.cntr_open()) for _ in range(2)]
    endpoint.bind(counters[0], BindFlags.FI_WRITE)
    endpoint.bind(counters[1], BindFlags.FI_READ)
    with expect_error("another counter of writes", Errno.FI_EINVAL):
        endpoint.bind(counters[1], BindFlags.FI_WRITE)


@page("ERRORS: FI_EDOMAIN", "Objects that are bound together belong to one domain.")
def objects_of_another_domain_are_refused(pair: Pair) -> None:
    """Bind queues, counters and address vectors of another domain."""
    other, endpoint = pair.other_domain(pair.domain.mr_mode), pair.keep(pair.domain.endpoint())
    for what, thing, flags in (
        ("queue", pair.keep(other.cq_open()), BindFlags.FI_TRANSMIT),
        ("address vector", pair.keep(other.av_open()), BindFlags(0)),
        ("counter", pair.keep(other.cntr_open()), BindFlags.FI_WRITE),
    ):
        with expect_error(f"another domain's {what}", Errno.FI_EDOMAIN, Errno.FI_EINVAL):
            endpoint.bind(thing, flags)


@page(
    "fi_ep_bind: FI_READ, FI_WRITE", "A counter is incremented by reads, or by writes, that have ended well or not."
)
def reads_and_writes_are_counted_however_they_end(pair: Pair) -> None:
    """Post one of each that succeeds, one of each that fails."""
    kinds = (BindFlags.FI_READ, BindFlags.FI_WRITE)
    counters = {kind: pair.keep(pair.domain.cntr_open()) for kind in kinds}
    near, memory = pair.open(counters=counters), pair.memory(8)
    peer, address, key = memory.at()
    near.endpoint.write(pattern(8), peer, address, key)
    near.endpoint.read(bytearray(8), peer, address, key)
    near.finish_all(2)
    near.endpoint.write(pattern(8), peer, address, key ^ 1)
    near.failure()
    near.endpoint.read(bytearray(8), peer, address, key ^ 1)
    near.failure()
    becomes("reads and writes", lambda: values_of(counters.values()), [(1, 1), (1, 1)], pair.patience)


@page("fi_ep_bind: FI_REMOTE_READ, FI_REMOTE_WRITE", "A counter is incremented by what peers do to the endpoint.")
def operations_of_peers_are_counted(pair: Pair) -> None:
    """Count by the endpoint to which they come, and by no other one."""
    kinds = (BindFlags.FI_REMOTE_READ, BindFlags.FI_REMOTE_WRITE)
    counters = {kind: pair.keep(pair.domain.cntr_open()) for kind in kinds}
    own, content = pair.introduce(pair.open(counters=counters).endpoint), bytearray(LONG)
    region = pair.local(content, MrAccess.FI_REMOTE_READ | MrAccess.FI_REMOTE_WRITE)
    pair.near.endpoint.write(pattern(LONG), own, region.address, region.key)
    pair.near.endpoint.inject_write(b"x", own, region.address, region.key)
    pair.near.endpoint.read(bytearray(LONG), own, region.address, region.key)
    for kind, count in zip(kinds, (1, 2), strict=True):
        counters[kind].wait(count, pair.patience)
    pair.near.finish_all(2)
    expect_equal("reads and writes of peers", values_of(counters.values()), [(1, 0), (2, 0)])


# Cancelling


@page("fi_cancel", "The call cancels one of several operations with the same context.", needs={"messages"})
def one_of_several_receives_is_cancelled(pair: Pair) -> None:
    """Expect one error entry; the other two take messages."""
    near = pair.talker()
    for _ in range(3):
        near.endpoint.recv(bytearray(1), context="same")
    near.endpoint.cancel("same")
    expect_equal("op_context", near.failure(Errno.FI_ECANCELED).op_context, "same")
    near.nothing_more()
    near.get(b"1", b"2")
    expect_equal("entries", len(near.finish_all(2)), 2)


# Aliases and options


@page("fi_ep_alias", "An alias differs from its endpoint only by its default flags.")
def an_alias_has_flags_of_its_own(pair: Pair) -> None:
    """Report by the alias, not by the endpoint, in the same queue and in order."""
    near, memory = pair.selective(), pair.memory(2)
    alias = pair.keep(fi.fi_ep_alias(near.endpoint, _TRANSMIT | int(OpFlags.FI_COMPLETION)))
    near.endpoint.write(b"1", *memory.at(), context="endpoint")
    alias.write(b"2", *memory.at(1), context="alias")
    expect_equal("op_context", near.finish().op_context, "alias")
    near.nothing_more()
    expect_equal("memory", memory.load(), b"12")


@page("fi_control: FI_SETOPSFLAG, FI_GETOPSFLAG", "Default flags can be read and changed.")
def default_flags_can_be_changed(pair: Pair) -> None:
    """Change the flags of an endpoint and of an alias, for later operations."""
    near, memory = pair.selective(), pair.memory(4)
    alias = pair.keep(fi.fi_ep_alias(near.endpoint, _TRANSMIT))
    for place, who in enumerate((near.endpoint, alias)):
        who.write(b"-", *memory.at(place), context="before")
        fi.fi_control(who, Control.FI_SETOPSFLAG, _TRANSMIT | int(OpFlags.FI_COMPLETION))
        flags = fi.fi_control(who, Control.FI_GETOPSFLAG, _TRANSMIT)
        expect_equal("flags", int(flags) & int(OpFlags.FI_COMPLETION), int(OpFlags.FI_COMPLETION))
        who.write(b"+", *memory.at(2 + place), context=place)
        expect_equal("op_context", near.finish().op_context, place)
    near.nothing_more()


@page("fi_setopt: FI_OPT_CM_DATA_SIZE", "The option is read only.", needs={"connected"})
def sizes_of_connection_data_are_read_only(pair: Pair) -> None:
    """Read the option of connected endpoints; setting the option fails."""
    endpoint = pair.keep(pair.domain.endpoint(Info(ep_attr=EpAttr(type=EpType.FI_EP_MSG))))
    size = endpoint.getopt(_LEVEL, EndpointOption.FI_OPT_CM_DATA_SIZE)
    expect(size > 0, f"expected space for data, got {size}")
    with expect_error("setopt", Errno.FI_EOPNOTSUPP, Errno.FI_ENOPROTOOPT, Errno.FI_EINVAL):
        endpoint.setopt(_LEVEL, EndpointOption.FI_OPT_CM_DATA_SIZE, size)


@page("fi_setopt: FI_OPT_MIN_MULTI_RECV", "The option can be set, and reads as set.", needs={"messages"})
def options_are_told_as_they_were_set(pair: Pair) -> None:
    """Set and get the option; fi_msg.a_multi_receive_ends_when_too_little_space_is_left checks its effect."""
    endpoint = pair.talker().endpoint
    for size in (0, 1, 4096):
        endpoint.setopt(_LEVEL, EndpointOption.FI_OPT_MIN_MULTI_RECV, size)
        expect_equal("the option", endpoint.getopt(_LEVEL, EndpointOption.FI_OPT_MIN_MULTI_RECV), size)


@page("fi_tx_size_left", "So many operations may be posted without FI_EAGAIN.")
def as_many_operations_as_are_left_are_posted(pair: Pair) -> None:
    """Query an idle endpoint, and one with outstanding operations."""
    near, memory = pair.open(tx_size=16), pair.memory(8)
    with pair.fabric.frozen():  # nothing ends before all are posted
        for _ in range(2):
            left = near.endpoint.tx_size_left
            expect(left >= 1, f"expected space, got {left}")
            count = max(1, left // 2)
            for _ in range(count):
                near.endpoint.writemsg(message(memory, pattern(8)), OpFlags.FI_MORE)
        left = near.endpoint.tx_size_left
        for _ in range(left):
            near.endpoint.write(pattern(8), *memory.at(), flags=OpFlags.FI_MORE)
        with expect_error("one more", Errno.FI_EAGAIN):
            near.endpoint.write(pattern(8), *memory.at())
    near.finish_all(near.endpoint.tx_size)
    near.nothing_more()
    expect_equal("free space afterwards", near.endpoint.tx_size_left, near.endpoint.tx_size)


# Order and types


@page("msg_order: FI_ORDER_SAR", "A send after a read does not overtake it.", needs={"messages"})
def sends_do_not_overtake_reads(pair: Pair) -> None:
    """Change the data at the target when the receive ends: the read has the former data."""
    claimed = pair.info.tx_attr.msg_order
    expect(MsgOrder.FI_ORDER_SAR in claimed, f"expected FI_ORDER_SAR to be claimed, got {claimed!r}")
    near, memory, result, receive = pair.ordered(), pair.memory(pattern(LONG)), bytearray(LONG), pair.receive(4)
    near.endpoint.read(result, *memory.at())
    near.endpoint.send(b"read", pair.peer)
    receive.finish()
    memory.store(bytes(LONG))
    near.finish_all(2)
    expect_equal("result", bytes(result), pattern(LONG))


@page("type: FI_EP_DGRAM", "Message boundaries are maintained. Messages have a maximum size. There is no RMA.")
def datagrams_keep_their_boundaries(pair: Pair) -> None:
    """Send between two endpoints of this side the longest message, and one byte more."""
    (info,) = pair.fabric.getinfo(Info(ep_attr=EpAttr(type=EpType.FI_EP_DGRAM)))[pair.nic : pair.nic + 1]
    most, both = info.ep_attr.max_msg_size, BindFlags.FI_TRANSMIT | BindFlags.FI_RECV
    queue = pair.keep(pair.domain.cq_open())
    ends = [
        pair.keep(pair.domain.endpoint(EpType.FI_EP_DGRAM, cq=queue, av=pair.peers, cq_flags=both)) for _ in range(2)
    ]
    to, buffers = pair.introduce(ends[1]), [bytearray(most) for _ in range(3)]
    for index, buffer in enumerate(buffers):
        ends[1].recv(buffer, context=index)
    for size in (most, 0, 5):
        ends[0].send(pattern(size), to, context="sent")
    ended: list[object] = []
    while len(ended) < 6:
        ended += [entry.op_context for entry in queue.sread(6, pair.patience)]
    expect_equal("sends and receives", sorted(map(str, ended)), ["0", "1", "2", "sent", "sent", "sent"])
    expected = [pattern(most), bytes(most), pattern(5).ljust(most, b"\0")]
    expect_equal("messages", [bytes(buffer) for buffer in buffers], expected)
    with expect_error("a longer message", Errno.FI_EMSGSIZE):
        ends[0].send(bytes(most + 1), to)
    with expect_error("a write", Errno.FI_EOPNOTSUPP):
        ends[0].write(b"x", to, 0, 0)
    expect_equal("entries left", queue.read(4), [])


# Without a check of their own

page.leave("NAME, SYNOPSIS, ARGUMENTS", "Names of the calls and their arguments.", "These are names.")
page.leave(
    "DESCRIPTION",
    "An endpoint that meets a critical error is disabled, and may be enabled again.",
    "There is no such error: a peer that is out of reach fails operations to it, and nothing else "
    "(`fi_endpoint.an_unreachable_peer_makes_operations_fail`).",
)
page.leave(
    "DESCRIPTION, fi_enable",
    "fi_connect and fi_accept enable an endpoint if need be.",
    "`fi_cm.calls_take_their_arguments_in_c_order`",
)
page.leave(
    "fi_endpoint",
    "An active endpoint may take the address of a passive one over.",
    "Differs: passive endpoints listen at TCP addresses of the host, endpoints have addresses of the NIC.",
)
page.leave("fi_endpoint2", "The call opens endpoints of peer providers.", "Amoeba has no peer providers.")
page.leave(
    "fi_close",
    "A scalable endpoint with open contexts is not closed: FI_EBUSY.",
    "Differs: what was made from an object is closed with it ([libfabric.md](libfabric.md)).",
)
page.leave(
    "fi_ep_bind: FI_REMOTE_READ, FI_REMOTE_WRITE",
    "These counters need FI_RMA_EVENT.",
    "The capability is granted with FI_RMA and FI_ATOMIC, requested or not.",
)
page.leave(
    "fi_cancel",
    "Operations without a context cannot be cancelled; it ends within bounded time.",
    "None is found for them: FI_ENOENT. `fi_msg.a_cancelled_receive_ends_and_takes_no_message` waits for its end.",
)
page.leave(
    "fi_ep_alias",
    "All aliases must be closed before the endpoint is.",
    "Differs: they are closed with it.",
)
page.leave(
    "fi_control: FI_GETWAIT; SOCKET ENDPOINTS",
    "Endpoints that behave like sockets, and their descriptors.",
    "FI_EP_SOCK_DGRAM and FI_EP_SOCK_STREAM are not offered.",
)
page.leave(
    "fi_getopt: FI_OPT_BUFFERED_LIMIT, FI_OPT_BUFFERED_MIN, FI_OPT_FI_HMEM_P2P, FI_OPT_XPU_TRIGGER",
    "Options of buffered receives, of device memory and of accelerators.",
    "FI_BUFFERED_RECV, FI_HMEM and FI_XPU are not offered: FI_ENOPROTOOPT.",
)
page.leave(
    "fi_tc_dscp_set, fi_tc_dscp_get, tclass", "Traffic classes.", "Frames have one class, whatever hints wish for."
)
page.leave(
    "ENDPOINT ATTRIBUTES: Protocol, mem_tag_format, auth_key",
    "Numbers of protocols, fields in tags, keys of jobs.",
    "FI_PROTO_UNSPEC, 64 free bits of tag, no key: there is one of each.",
)
page.leave(
    "msg_order: FI_ORDER_RAS, FI_ORDER_WAS",
    "Reads and writes do not overtake sends.",
    "Not claimed: a long message is read later ([libfabric.md](libfabric.md)).",
)
page.leave("comp_order", "The order in which requests complete.", "FI_ORDER_NONE is claimed, which asks for nothing.")
page.leave(
    "TRANSMIT CONTEXT ATTRIBUTES, RECEIVE CONTEXT ATTRIBUTES",
    "Capabilities and modes of contexts are a part of the endpoint's; sizes are hints.",
    "fi_getinfo(3) returns them.",
)
page.leave(
    "OPERATION FLAGS: FI_INJECT, FI_MULTI_RECV, FI_MULTICAST",
    "The flags may be default flags of an endpoint.",
    "Differs: they are refused there with FI_EBADFLAGS, and are flags of calls.",
)
page.leave(
    "NOTES",
    "Errors of operations without a context have the endpoint's context.",
    "Differs: their op_context is None, as endpoints are opened without a context.",
)
page.leave("RETURN VALUES", "0, or a negative errno.", "Errors are raised: [How C becomes Python](libfabric.md).")
