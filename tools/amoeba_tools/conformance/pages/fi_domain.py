"""fi_domain(3): what a domain is opened with, and what its attributes say."""

import dataclasses

from amoeba.core.errno import Errno
from amoeba.core.errors import FabricError
from amoeba.libfabric.objects.constants import AvType, BindFlags, EqEvent, MrMode, Progress, ResourceMgmt, Threading
from amoeba.libfabric.objects.endpoints.connected import ConnectedEndpoint
from amoeba.libfabric.objects.structures import DomainAttr, Info

from amoeba_tools.conformance.connected import Parties
from amoeba_tools.conformance.expectations import expect, expect_equal, expect_error
from amoeba_tools.conformance.pages.fi_getinfo import granted, refused
from amoeba_tools.conformance.pages.fi_rma import pattern
from amoeba_tools.conformance.pair import CONNECTED, Pair
from amoeba_tools.conformance.registry import Page

page = Page("fi_domain", "1.17", needs={"rma"})


@page("fi_domain", "Domains are identified by name, and have the properties of the info they are opened with.")
def a_domain_is_opened_as_its_info_says(pair: Pair) -> None:
    """Open domains on the initiator's NIC, with its registration mode; an unknown name is refused."""
    wanted = DomainAttr(mr_mode=MrMode.FI_MR_VIRT_ADDR | MrMode.FI_MR_ALLOCATED)
    info = granted(pair, Info(domain_attr=wanted))
    domain = pair.keep(pair.fabric.domain(info))
    expect(domain.nic is pair.fabric.nics[pair.nic], "expected a domain of the NIC that the info names")
    expect_equal(
        "mr_mode", domain.mr_mode & MrMode.FI_MR_VIRT_ADDR, info.domain_attr.mr_mode & MrMode.FI_MR_VIRT_ADDR
    )
    elsewhere = dataclasses.replace(info, domain_attr=dataclasses.replace(info.domain_attr, name="nobody's"))
    with expect_error("a domain of another name", Errno.FI_ENODEV, Errno.FI_ENODATA, Errno.FI_EINVAL):
        pair.fabric.domain(elsewhere)


@page("fi_domain_bind", "Endpoints without their own event queue use that of the domain.", needs={"connected"})
def endpoints_report_to_the_queue_of_their_domain(pair: Pair) -> None:
    """Connect by an endpoint for which only its domain is bound to a queue."""
    parties = Parties(pair)
    domain = pair.other_domain(pair.domain.mr_mode)
    domain.bind(parties.events)
    both = BindFlags.FI_TRANSMIT | BindFlags.FI_RECV
    endpoint = pair.keep(domain.endpoint(CONNECTED))
    endpoint.bind(pair.keep(domain.cq_open()), both)
    assert isinstance(endpoint, ConnectedEndpoint)
    endpoint.connect(parties.passive.getname())
    parties.endpoint(parties.event(EqEvent.FI_CONNREQ).info or CONNECTED).endpoint.accept()
    told = {parties.event(EqEvent.FI_CONNECTED).fid for _ in range(2)}
    expect(endpoint in told, f"expected the endpoint to be among those that are connected, got {told}")


@page(
    "threading, control_progress, data_progress",
    "The returned attributes describe the application's threading and progress.",
)
def models_are_told_and_granted(pair: Pair) -> None:
    """Check that the models are specified, and that hints can request them."""
    attr = pair.info.domain_attr
    open_ones = {Threading.FI_THREAD_UNSPEC, Progress.FI_PROGRESS_UNSPEC, ResourceMgmt.FI_RM_UNSPEC}
    told = (attr.threading, attr.control_progress, attr.data_progress, attr.resource_mgmt)
    expect(not open_ones & set(told), f"expected models, got {told}")
    wanted = DomainAttr(
        threading=attr.threading, control_progress=attr.control_progress, data_progress=attr.data_progress
    )
    got = granted(pair, Info(domain_attr=wanted)).domain_attr
    expect_equal("models", (got.threading, got.control_progress, got.data_progress), told[:3])


@page("data_progress: FI_PROGRESS_MANUAL", "Reading or waiting for a queue or a counter advances operations.")
def reading_advances_operations(pair: Pair) -> None:
    """Read a queue, and a counter."""
    counter = pair.keep(pair.domain.cntr_open())
    near, memory = pair.open(counters={BindFlags.FI_WRITE: counter}), pair.memory(16)
    near.endpoint.write(pattern(8), *memory.at())
    near.finish()
    near.endpoint.write(pattern(8, 2), *memory.at(8))
    counter.wait(2, pair.patience)
    expect_equal("memory", memory.load(), pattern(8) + pattern(8, 2))
    near.finish()


@page("av_type", "A type that was asked for is granted, or refused; FI_AV_UNSPEC is answered with one that is there.")
def types_of_address_vectors_are_granted(pair: Pair) -> None:
    """Request each type; a vector of it can be opened then."""
    for av_type in (AvType.FI_AV_MAP, AvType.FI_AV_TABLE, AvType.FI_AV_UNSPEC):
        info = granted(pair, Info(domain_attr=DomainAttr(av_type=av_type)))
        told = info.domain_attr.av_type
        expect(AvType.FI_AV_UNSPEC in (av_type, told) or told is av_type, f"{av_type!r} became {told!r}")
        pair.keep(pair.domain.av_open(told))


@page("cq_data_size", "Remote CQ data has at least 4 bytes, and as many as the attributes report.")
def remote_data_has_the_size_that_is_told(pair: Pair) -> None:
    """Set all bits; one more is refused."""
    size, memory = pair.info.domain_attr.cq_data_size, pair.memory(8)
    expect(size >= 4, f"expected 4 bytes or more, got {size}")
    most = (1 << 8 * size) - 1
    pair.near.endpoint.writedata(b"", most, *memory.at())
    expect_equal("data", [entry.data for entry in pair.target.hear(1, pair.patience)], [most])
    pair.near.finish()
    with expect_error("more bits", Errno.FI_EINVAL):
        pair.near.endpoint.writedata(b"", most + 1, *memory.at())


@page("ep_cnt, cq_cnt, cntr_cnt", "So many can be opened in all; hints for more are refused.")
def counts_are_what_can_be_opened(pair: Pair) -> None:
    """Open endpoints until the NIC has no more: as many as the attributes say."""
    attr = pair.info.domain_attr
    opened = 1  # the pair's own
    try:
        for _ in range(attr.ep_cnt):
            pair.open()
            opened += 1
    except FabricError as error:
        expect_equal("refusal", error.fi_errno, Errno.FI_ENOSPC)
    expect_equal("endpoints", opened, attr.ep_cnt)
    for name in ("ep_cnt", "cq_cnt", "cntr_cnt", "mr_cnt", "tx_ctx_cnt", "rx_ctx_cnt", "max_ep_tx_ctx"):
        more = dataclasses.replace(DomainAttr(), **{name: getattr(attr, name) + 1})
        refused(f"one more of {name}", pair, Info(domain_attr=more))


# Without a check of their own

page.leave("NAME, SYNOPSIS, ARGUMENTS", "Names of the calls and their arguments.", "These are names.")
page.leave(
    "fi_domain2, fi_open_ops, fi_set_ops",
    "Domains of peer providers, calls of a provider's own, callbacks.",
    "The calls do not exist here.",
)
page.leave(
    "fi_domain_bind: FI_REG_MR",
    "Regions are registered asynchronously, and reported.",
    "`fi_mr.registration_reports_its_end_as_an_event`",
)
page.leave(
    "fi_close",
    "A domain with open objects is not closed: FI_EBUSY.",
    "Differs: they are closed with it ([libfabric.md](libfabric.md)).",
)
page.leave("domain", "Hints may name a domain that is open.", "Differs: they name it by its name.")
page.leave(
    "threading",
    "Objects that threads may use at once, by model; FI_THREAD_SAFE.",
    "[libfabric.md](libfabric.md#progress) gives the model, which depends on the progress mode.",
)
page.leave(
    "data_progress: FI_PROGRESS_AUTO",
    "Operations advance though the application makes no further call.",
    "All checks can be run on a pair that does so: `amoeba conformance --progress auto`.",
)
page.leave(
    "resource_mgmt: FI_RM_ENABLED",
    "Full queues return FI_EAGAIN, messages without space at the peer are tried again, wrong RMA fails.",
    "`fi_endpoint.a_full_endpoint_says_so_and_goes_on_after_reading`, "
    "`fi_msg.messages_beyond_what_is_kept_wait_for_space`, `fi_mr.accesses_outside_the_region_are_refused`",
)
page.leave(
    "resource_mgmt: FI_RM_DISABLED",
    "The application takes care that nothing is overrun.",
    "The page requires less; resources are managed all the same.",
)
page.leave("mr_mode, mr_key_size", "How memory is registered.", "The checks of fi_mr(3).")
page.leave(
    "max_ep_tx_ctx, max_ep_rx_ctx, max_ep_stx_ctx, max_ep_srx_ctx, tx_ctx_cnt, rx_ctx_cnt",
    "How many contexts scalable endpoints and shared contexts have.",
    "[libfabric.md](libfabric.md#several-contexts-and-shared-ones)",
)
page.leave("max_err_data", "How much data errors have.", "Errors have none, and it is 0.")
page.leave("auth_key", "Keys of jobs.", "Amoeba has no job keys; hints with a key do not match.")
page.leave("tclass", "Traffic classes.", "A wish, which every NIC may hear: frames have one class, FI_TC_UNSPEC.")
page.leave("RETURN VALUE", "0, or a negative errno.", "Errors are raised: [How C becomes Python](libfabric.md).")
