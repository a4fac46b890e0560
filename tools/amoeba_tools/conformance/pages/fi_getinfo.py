"""fi_getinfo(3): what is offered, and how hints choose among it."""

import dataclasses
import threading

from amoeba import fi
from amoeba.core.errno import Errno
from amoeba.libfabric.objects.constants import Caps, EpType, Mode, MrMode, MsgOrder, OpFlags
from amoeba.libfabric.objects.structures import DomainAttr, EpAttr, Info, RxAttr, TxAttr

from amoeba_tools.conformance.expectations import expect, expect_equal, expect_error
from amoeba_tools.conformance.pages.fi_rma import pattern
from amoeba_tools.conformance.pair import REMOTE, Initiator, Pair
from amoeba_tools.conformance.registry import Page

page = Page("fi_getinfo", "1.17")

_PRIMARY = Caps.FI_MSG | Caps.FI_RMA | Caps.FI_TAGGED | Caps.FI_ATOMIC | Caps.FI_MULTICAST | Caps.FI_COLLECTIVE
_MODIFIERS = Caps.FI_READ | Caps.FI_WRITE | Caps.FI_REMOTE_READ | Caps.FI_REMOTE_WRITE


def granted(pair: Pair, hints: Info) -> Info:
    """Return the infos of the initiator's NIC for these hints."""
    return next(info for info in pair.fabric.getinfo(hints) if info.domain_attr.name == pair.info.domain_attr.name)


def refused(what: str, pair: Pair, hints: Info) -> None:
    with expect_error(what, Errno.FI_ENODATA):
        pair.fabric.getinfo(hints)


@page("DESCRIPTION", "Without hints, all that is available is returned.")
def no_hints_return_everything(pair: Pair) -> None:
    """Find the initiator's NIC with a type of endpoint; hints of zeros return the same."""
    expect(pair.info.ep_attr.type is not EpType.FI_EP_UNSPEC, "expected a type of endpoint, got FI_EP_UNSPEC")
    expect_equal("caps for hints that are zero", granted(pair, Info()).caps, pair.info.caps)


@page("DESCRIPTION", "If nothing matches, the call fails with FI_ENODATA.")
def what_is_not_there_is_no_data(pair: Pair) -> None:
    """Request a capability that the NIC lacks, and one that an endpoint type lacks."""
    absent = next(cap for cap in (Caps.FI_HMEM, Caps.FI_MULTICAST, Caps.FI_COLLECTIVE) if cap not in pair.info.caps)
    refused(repr(absent), pair, Info(caps=absent))
    datagrams = EpAttr(type=EpType.FI_EP_DGRAM)
    refused("RMA with datagrams", pair, Info(caps=Caps.FI_RMA, ep_attr=datagrams))


@page("CAPABILITIES", "Only those primary capabilities are enabled that were asked for.", needs={"rma", "atomic"})
def other_primary_capabilities_are_not_enabled(pair: Pair) -> None:
    """Request RMA without atomics, and the other way round."""
    for cap in (Caps.FI_RMA, Caps.FI_ATOMIC):
        expect_equal(f"primary capabilities for {cap!r}", granted(pair, Info(caps=cap)).caps & _PRIMARY, cap)


@page("CAPABILITIES", "If no modifiers are given, all relevant ones are assumed.", needs={"rma"})
def without_modifiers_all_are_assumed(pair: Pair) -> None:
    """Request RMA without modifiers, then with one modifier, which is granted alone."""
    expect_equal("modifiers", granted(pair, Info(caps=Caps.FI_RMA)).caps & _MODIFIERS, _MODIFIERS)
    narrow = granted(pair, Info(caps=Caps.FI_RMA | Caps.FI_WRITE))
    expect_equal("modifiers for FI_WRITE", narrow.caps & _MODIFIERS, Caps.FI_WRITE)


@page("CAPABILITIES", "A secondary capability that was asked for is supported, or the call fails.")
def secondary_capabilities_are_granted_or_refused(pair: Pair) -> None:
    """Request each of them."""
    for cap in (Caps.FI_SOURCE, Caps.FI_FENCE, Caps.FI_RMA_EVENT, Caps.FI_TRIGGER):
        if cap in pair.info.caps:
            expect(
                cap in granted(pair, Info(caps=Caps.FI_RMA | cap)).caps, f"{cap!r} is offered, and was not granted"
            )
        else:
            refused(repr(cap), pair, Info(caps=Caps.FI_RMA | cap))


@page("DESCRIPTION", "A hint that is not zero must be supported, or the call fails with FI_ENODATA.")
def limits_beyond_what_there_is_are_no_data(pair: Pair) -> None:
    """Request one more than the offer, of every limit."""
    ep, tx, domain = pair.info.ep_attr, pair.info.tx_attr, pair.info.domain_attr
    refused("max_msg_size", pair, Info(ep_attr=EpAttr(max_msg_size=ep.max_msg_size + 1)))
    for name in ("max_order_raw_size", "max_order_war_size", "max_order_waw_size"):
        refused(name, pair, Info(ep_attr=dataclasses.replace(EpAttr(), **{name: getattr(ep, name) + 1})))
    refused("inject_size", pair, Info(tx_attr=TxAttr(inject_size=tx.inject_size + 1)))
    for name in ("mr_key_size", "cq_data_size", "ep_cnt"):
        refused(name, pair, Info(domain_attr=dataclasses.replace(DomainAttr(), **{name: getattr(domain, name) + 1})))


@page("tx_attr", "Values that are returned are at least what was asked for.")
def attributes_are_at_least_what_was_asked_for(pair: Pair) -> None:
    """Request sizes of both contexts, and segments."""
    info = granted(pair, Info(tx_attr=TxAttr(size=40, iov_limit=5, rma_iov_limit=6), rx_attr=RxAttr(size=30)))
    told = info.tx_attr.size, info.tx_attr.iov_limit, info.tx_attr.rma_iov_limit, info.rx_attr.size
    expect(
        all(got >= asked for got, asked in zip(told, (40, 5, 6, 30), strict=True)), f"40, 5, 6 and 30 became {told}"
    )


@page("tx_attr", "Order that was asked for is there, and may be more.")
def order_is_at_least_what_was_asked_for(pair: Pair) -> None:
    """Request each offered bit, alone; any other bit is refused."""
    for bit in pair.info.tx_attr.msg_order:
        expect(
            bit in granted(pair, Info(tx_attr=TxAttr(msg_order=bit))).tx_attr.msg_order, f"{bit!r} was not granted"
        )
    for bit in MsgOrder:
        if bit and bit not in pair.info.tx_attr.msg_order:
            refused(repr(bit), pair, Info(tx_attr=TxAttr(msg_order=bit)))


@page("domain_attr", "The mr_mode bits in hints that are not needed are cleared; none is added.")
def registration_modes_are_only_taken_away(pair: Pair) -> None:
    """Request with all bits, and with none."""
    every = MrMode.FI_MR_LOCAL | MrMode.FI_MR_VIRT_ADDR | MrMode.FI_MR_ALLOCATED | MrMode.FI_MR_PROV_KEY
    every |= MrMode.FI_MR_MMU_NOTIFY | MrMode.FI_MR_ENDPOINT
    mode = granted(pair, Info(domain_attr=DomainAttr(mr_mode=every))).domain_attr.mr_mode
    expect(not mode & ~every, f"expected some of {every!r}, got {mode!r}")
    expect_equal("mr_mode for none", granted(pair, Info()).domain_attr.mr_mode, MrMode(0))


@page("domain_attr", "FI_MR_BASIC is answered as it is.")
def basic_registration_stays_basic(pair: Pair) -> None:
    """Open a domain with virtual addresses and keys that the provider chooses."""
    info = granted(pair, Info(domain_attr=DomainAttr(mr_mode=MrMode.FI_MR_BASIC)))
    expect_equal("mr_mode", info.domain_attr.mr_mode, MrMode.FI_MR_BASIC)
    domain = pair.keep(pair.fabric.domain(info))
    regions = [pair.keep(domain.mr_reg(bytearray(8), REMOTE, requested_key=5)) for _ in range(2)]
    expect(regions[0].key != regions[1].key, "expected keys of the provider's, got the one that was requested twice")


@page("DESCRIPTION", "The returned infos describe endpoints that can be opened and work.", needs={"rma"})
def what_is_returned_can_be_opened(pair: Pair) -> None:
    """Open a domain and an endpoint by the returned capabilities, flags and sizes, and write to the target."""
    hints = Info(caps=Caps.FI_RMA, tx_attr=TxAttr(size=32, op_flags=OpFlags.FI_DELIVERY_COMPLETE))
    info, memory = granted(pair, hints), pair.memory(8)
    domain = pair.keep(pair.fabric.domain(info))
    queue, peers = pair.keep(domain.cq_open()), pair.keep(domain.av_open())
    near = Initiator(queue, pair.patience, pair.keep(domain.endpoint(info, cq=queue, av=peers)))
    near.endpoint.write(pattern(8), peers.insert(pair.target.name(0)), memory.address, memory.key)
    near.finish()
    expect_equal("memory", memory.load(), pattern(8))


@page("CAPABILITIES: FI_READ, FI_WRITE, FI_SEND, FI_RECV", "Modifiers need a capability that they belong to.")
def modifiers_alone_are_no_data(pair: Pair) -> None:
    """Request each of them, alone; and FI_RMA_PMEM without FI_RMA."""
    for cap in (
        Caps.FI_READ, Caps.FI_WRITE, Caps.FI_REMOTE_READ, Caps.FI_REMOTE_WRITE, Caps.FI_SEND, Caps.FI_RECV,
        Caps.FI_RMA_PMEM,
    ):  # fmt: skip
        refused(repr(cap), pair, Info(caps=cap))


@page("CAPABILITIES: FI_SEND", "An endpoint may be send-only.", needs={"messages"})
def send_only_endpoints_receive_nothing(pair: Pair) -> None:
    """Send with such an endpoint; receives are refused."""
    near = pair.open(caps=Caps.FI_MSG | Caps.FI_SEND)
    receive = pair.receive(4)
    near.endpoint.send(b"sent", pair.peer)
    near.finish()
    receive.finish()
    expect_equal("message", receive.load(), b"sent")
    with expect_error("a receive", Errno.FI_EOPNOTSUPP, Errno.FI_EINVAL):
        near.endpoint.recv(bytearray(4))


@page("MODE", "Mode bits that are not necessary are cleared; none is added.")
def modes_are_only_taken_away(pair: Pair) -> None:
    """Request infos for an application that supports no mode, and for one that supports all."""
    every = Mode(sum(Mode))
    expect_equal("mode for none", granted(pair, Info()).mode, Mode(0))
    mode = granted(pair, Info(mode=every)).mode
    expect(not mode & ~every, f"expected some of {every!r}, got {mode!r}")


@page("fi_dupinfo, fi_allocinfo", "One copies a structure with all its parts; the other gives an empty one.")
def infos_are_copied(pair: Pair) -> None:
    """Open the same from a copy as from the original; an empty structure requires nothing."""
    expect_equal("the copy", fi.fi_dupinfo(pair.info), pair.info)
    expect_equal("caps for an empty one", granted(pair, fi.fi_allocinfo()).caps, pair.info.caps)


@page("NOTES", "Several threads may call it at once.")
def threads_may_ask_at_once(pair: Pair) -> None:
    """Call in four threads, each many times; all get the same."""
    answers: list[list[Info]] = []

    def ask() -> None:
        answers.extend(pair.fabric.getinfo() for _ in range(10))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expect_equal("answers", len(answers), 40)
    expect(all(answer == answers[0] for answer in answers), "expected the same answer for all")


# Without a check of their own

page.leave("NAME, SYNOPSIS, ARGUMENTS", "Names of the calls and their arguments.", "These are names.")
page.leave(
    "DESCRIPTION",
    "The fastest of several endpoints comes first.",
    "Each type is as fast as the others; FI_EP_RDM comes first.",
)
page.leave(
    "DESCRIPTION: version",
    "The version says how structures look.",
    "Structures have the fields of 1.17, whatever version is asked for.",
)
page.leave("DESCRIPTION", "Structures are freed by fi_freeinfo.", "Nothing need be freed.")
page.leave(
    "handle, nic",
    "A passive endpoint or a request; details of the hardware.",
    "`fi_cm.accepting_without_a_request_is_refused`; fi_nic(3) is not there.",
)
page.leave(
    "CAPABILITIES: FI_MSG, FI_TAGGED, FI_RMA, FI_ATOMIC, FI_FENCE, FI_TRIGGER, FI_DIRECTED_RECV, FI_SOURCE",
    "Operations of endpoints with these capabilities.",
    "All checks of the calls, which need them.",
)
page.leave(
    "CAPABILITIES: FI_NAMED_RX_CTX, FI_REMOTE_COMM, FI_LOCAL_COMM, FI_SHARED_AV",
    "Receive contexts can be named; who can be reached; vectors that processes share.",
    "[libfabric.md](libfabric.md#fi_getinfo3) lists the offered ones.",
)
page.leave(
    "CAPABILITIES: FI_AV_USER_ID, FI_COLLECTIVE, FI_HMEM, FI_MULTICAST, FI_SOURCE_ERR, FI_VARIABLE_MSG, FI_XPU",
    "Operations of endpoints with these capabilities.",
    "Not offered: `fi_getinfo.what_is_not_there_is_no_data`",
)
page.leave(
    "MODE", "Duties of applications in each mode.", "No mode is asked for: `fi_getinfo.modes_are_only_taken_away`"
)
page.leave(
    "ADDRESSING FORMATS",
    "How addresses look.",
    "FI_FORMAT_UNSPEC: `fi_av.lookup_returns_the_address`, `fi_av.addresses_are_printable`",
)
page.leave("RETURN VALUE", "0, or a negative errno.", "Errors are raised: [How C becomes Python](libfabric.md).")
