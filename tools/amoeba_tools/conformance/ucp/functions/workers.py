"""Workers: made, destroyed, asked, printed, their addresses, and progress."""

import io

import amoeba.ucp as ucp

from amoeba_tools.conformance.expectations import expect, expect_equal
from amoeba_tools.conformance.ucp.expectations import expect_status
from amoeba_tools.conformance.ucp.functions.common import ALL, INVALID, OK, Calls, param
from amoeba_tools.conformance.ucp.pair import Pair
from amoeba_tools.conformance.ucp.registry import Function

create = Function("ucp_worker_create", 2064)
destroy = Function("ucp_worker_destroy", 2084)
query = Function("ucp_worker_query", 2098)
print_info = Function("ucp_worker_print_info", 2112)
get_address = Function("ucp_worker_get_address", 2131)
release_address = Function("ucp_worker_release_address", 2155)
address_query = Function("ucp_worker_address_query", 2170)
progress = Function("ucp_worker_progress", 2193)


@create.says(
    2047,
    "In the same time, an application context can create multiple workers in order to enable concurrent "
    "access to communication resources.",
)
def a_context_has_many_workers(pair: Pair) -> None:
    """Send to one worker: the other one does not see the message."""
    near = pair.entity(0)
    far = pair.entity(1)
    other = ucp.ucp_worker_create(far.context, ucp.ucp_worker_params_t())
    ep = near.connect(far)
    ucp.ucp_tag_send_nbx(ep, b"x", 1, 1, None)
    pair.wait(lambda: ucp.ucp_tag_probe_nb(far.worker, 1, ALL, 1)[0], "the message")
    ucp.ucp_worker_progress(other)
    expect_equal("at the other", ucp.ucp_tag_probe_nb(other, 0, 0, 0), (None, None))


@destroy.says(2076, "Once the UCP worker destroy the worker handle cannot be used with any UCP routine.")
def a_destroyed_worker_cannot_be_used(pair: Pair) -> None:
    """Use its endpoints, too, and destroy it again, which fails."""
    near, _far = pair.couple()
    ucp.ucp_worker_destroy(near.worker)
    for call in (
        lambda: ucp.ucp_worker_progress(near.worker),
        lambda: ucp.ucp_worker_destroy(near.worker),
        lambda: ucp.ucp_tag_send_nbx(near.ep, b"x", 1, 1, None),
    ):
        with expect_status("a call", INVALID):
            call()


@query.says(2091, "This routine fetches information about the worker.")
def a_workers_attributes_are_told(pair: Pair) -> None:
    """Compare the address with ucp_worker_get_address, and the name with that given; the mask names the fields."""
    near = pair.entity(0, name="named")
    found = ucp.ucp_worker_query(near.worker, ucp.ucp_worker_attr_t())
    expect_equal("address", (found.address, found.address_length), ucp.ucp_worker_get_address(near.worker))
    expect_equal("name", found.name, "named")
    masked = ucp.ucp_worker_query(near.worker, ucp.ucp_worker_attr_t(field_mask=ucp.UCP_WORKER_ATTR_FIELD_NAME))
    expect_equal("name alone", (masked.name, masked.address), ("named", None))


@print_info.says(
    2106,
    "This routine prints information about the protocols being used, thresholds, UCT transport methods, "
    "and other useful information associated with the worker.",
)
def a_worker_is_printed(pair: Pair) -> None:
    """Print a text to the stream."""
    stream = io.StringIO()
    ucp.ucp_worker_print_info(pair.near.worker, stream)
    expect(stream.getvalue().strip(), "nothing was printed")


@get_address.says(
    2119,
    "This address can be passed to remote instances of the UCP library in order to connect to this worker.",
)
def an_address_connects_to_its_worker(pair: Pair) -> None:
    """Connect by the bytes of an address; addresses of two workers differ."""
    near, far = pair.entity(0), pair.entity(1)
    address, length = ucp.ucp_worker_get_address(far.worker)
    expect_equal("length", length, len(address))
    expect(address != pair.far.address, "two workers have one address")
    ep = ucp.ucp_ep_create(near.worker, ucp.ucp_ep_params_t(address=bytes(bytearray(address))))
    ucp.ucp_tag_send_nbx(ep, b"x", 1, 5, None)
    pair.wait(lambda: ucp.ucp_tag_probe_nb(far.worker, 5, ALL, 1)[0], "the message")


@release_address.says(
    2148,
    "Address to release; the address object has to be allocated using ucp_worker_get_address() routine.",
)
def an_address_is_released(pair: Pair) -> None:
    """Release an address, and an invalid one: INVALID_PARAM."""
    ucp.ucp_worker_release_address(pair.near.worker, pair.near.address)
    with expect_status("no address", INVALID):
        ucp.ucp_worker_release_address(pair.near.worker, b"address")


@address_query.says(2162, "The address can be either of local or remote worker.")
def an_addresss_worker_is_told(pair: Pair) -> None:
    """Expect one number per worker, the same each time."""
    numbers = [
        ucp.ucp_worker_address_query(entity.address, ucp.ucp_worker_address_attr_t()).worker_uid
        for entity in (pair.near, pair.far, pair.near)
    ]
    expect_equal("the same worker", numbers[0], numbers[2])
    expect(numbers[0] != numbers[1], f"two workers have the number {numbers[0]}")


@progress.says(2191, "Non-zero if any communication was progressed, zero otherwise.")
def progress_tells_whether_there_was_any(pair: Pair) -> None:
    """Expect non-zero when a callback runs, and 0 when no operation is outstanding."""
    calls = Calls()
    request = ucp.ucp_tag_recv_nbx(pair.far.worker, bytearray(1), 1, 0x91, ALL, param(cb=calls))
    ucp.ucp_tag_send_nbx(pair.near.ep, b"x", 1, 0x91, None)
    told: list[int] = []

    def look() -> bool:
        told.append(pair.far.progress())
        return bool(calls.told)

    pair.wait(look, "the message")
    expect(any(told) or request.done, "progress said 0 all the time")  # type: ignore[union-attr]
    expect_equal("status", pair.finish(request), OK)
    pair.settle()
    expect_equal("without outstanding operations", pair.far.progress(), 0)


@progress.says(
    2181,
    "Typically, request wait and test routines call this routine to progress any outstanding operations.",
)
def progress_is_not_made_in_callbacks(pair: Pair) -> None:
    """Make progress in one: INVALID_PARAM, and progress raises the callback's exceptions."""
    seen: list[ucp.UcsStatus] = []

    def again(*told: object) -> None:
        try:
            pair.far.progress()
        except ucp.UcsError as error:
            seen.append(error.status)

    request = ucp.ucp_tag_recv_nb(pair.far.worker, bytearray(1), 1, 8, 0x92, ALL, again)
    ucp.ucp_tag_send_nbx(pair.near.ep, b"x", 1, 0x92, None)
    expect_equal("status", pair.finish(request), OK)
    expect_equal("in the callback", seen, [INVALID])
