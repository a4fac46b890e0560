"""Endpoints: ucp_ep_create, _close_nb, _close_nbx, _print_info, _query, _evaluate_perf."""

import io
from typing import Any

import amoeba.ucp as ucp

from amoeba_tools.conformance.expectations import expect, expect_equal
from amoeba_tools.conformance.ucp.expectations import expect_status
from amoeba_tools.conformance.ucp.functions.common import ALL, INVALID, LONG, OK, Calls, param, pattern
from amoeba_tools.conformance.ucp.pair import Entity, Pair
from amoeba_tools.conformance.ucp.registry import Function, across

create = Function("ucp_ep_create", 2520)
close_nb = Function("ucp_ep_close_nb", 2550)
close_nbx = Function("ucp_ep_close_nbx", 2575)
print_info = Function("ucp_ep_print_info", 2609)
query = Function("ucp_ep_query", 4641)
evaluate_perf = Function("ucp_ep_evaluate_perf", 2706)

PEER = ucp.UCP_ERR_HANDLING_MODE_PEER


def exchanged(pair: Pair, ep: Any, to: Entity) -> bytes:
    """Send a tagged message on an endpoint, and return the received data."""
    buffer = bytearray(5)
    got = ucp.ucp_tag_recv_nbx(to.worker, buffer, 5, 0x81, ALL, None)
    sent = ucp.ucp_tag_send_nbx(ep, b"hello", 5, 0x81, None)
    expect_equal("statuses", (pair.finish(got), pair.finish(sent)), (OK, OK))
    return bytes(buffer)


@create.says(2494, "This function is non-blocking, and communications may begin immediately after it returns.")
def an_endpoint_can_be_used_at_once(pair: Pair) -> None:
    """Use it though the other worker has made none, and has made no progress."""
    near, far = pair.entity(0), pair.entity(1)
    expect_equal("message", exchanged(pair, near.connect(far), far), b"hello")


@create.says(
    2513,
    "By default, ucp_ep_create() will connect an endpoint to itself if the endpoint is destined to the "
    "same worker on which it was created",
)
def an_endpoint_to_the_own_worker_reaches_itself(pair: Pair) -> None:
    """Send on a stream, and receive the data on the same endpoint."""
    near = pair.entity(0)
    ep = near.connect(near)
    buffer = bytearray(4)
    request, _ = ucp.ucp_stream_recv_nbx(ep, buffer, 4, param(flags=int(ucp.UCP_STREAM_RECV_FLAG_WAITALL)))
    pair.finish(ucp.ucp_stream_send_nbx(ep, b"self", 4, None))
    expect_equal("stream", (pair.finish(request), bytes(buffer)), (OK, b"self"))


@create.says(2508, "One of the following fields has to be specified:")
def somebody_has_to_be_named(pair: Pair) -> None:
    """Name no peer, and pass an invalid address: INVALID_PARAM."""
    for params in (ucp.ucp_ep_params_t(), ucp.ucp_ep_params_t(address=b"nowhere")):
        with expect_status(f"{params}", INVALID):
            ucp.ucp_ep_create(pair.near.worker, params)


@create.says(2497, "The created endpoint is associated with one and only one worker.")
def endpoints_of_two_workers_are_apart(pair: Pair) -> None:
    """Reach the peer by each endpoint; a message to one worker is invisible to the other."""
    near, far = pair.couple()
    expect_equal("message", exchanged(pair, near.ep, far), b"hello")
    expect_equal("at the other worker", ucp.ucp_tag_probe_nb(pair.far.worker, 0, 0, 0), (None, None))


Close = Any


def by_nb(ep: Any, force: bool = False) -> Any:
    mode = ucp.UCP_EP_CLOSE_MODE_FORCE if force else ucp.UCP_EP_CLOSE_MODE_FLUSH
    return ucp.ucp_ep_close_nb(ep, int(mode))


def by_nbx(ep: Any, force: bool = False) -> Any:
    return ucp.ucp_ep_close_nbx(ep, param(flags=int(ucp.UCP_EP_CLOSE_FLAG_FORCE)) if force else None)


@across(
    (
        close_nb,
        2529,
        "This routine releases the endpoint. The endpoint closure process depends on the selected mode.",
        by_nb,
    ),
    (close_nbx, 2570, "The closure process is started, and can be completed at any point in time.", by_nbx),
)
def what_was_sent_is_delivered_before(pair: Pair, call: Close) -> None:
    """Put many bytes, which are all there when the close ends."""
    near, far = pair.couple()
    region = pair.memory(LONG, ep=near.ep, owner=far)
    ucp.ucp_put_nbi(near.ep, pattern(LONG), LONG, region.address, region.rkey)
    expect_equal("status", pair.finish(call(near.ep)), OK)
    expect_equal("memory", bytes(region.view), pattern(LONG))


@across(
    (close_nb, 2537, "However, resources are released and the endpoint can no longer be used.", by_nb),
    (close_nbx, 2567, "However, resources are released and the endpoint can no longer be used.", by_nbx),
)
def a_closed_endpoint_cannot_be_used(pair: Pair, call: Close) -> None:
    """Close it again, too, which fails."""
    near, _far = pair.couple()
    pair.finish(call(near.ep))
    with expect_status("sending", INVALID):
        ucp.ucp_tag_send_nbx(near.ep, b"x", 1, 1, None)
    with expect_status("closing it again"):
        call(near.ep)


@across(
    (close_nb, 2533, "One from ucp_ep_close_mode value.", by_nb),
    (close_nbx, 2562, "The exact set of flags is defined by ucp_ep_close_flags_t.", by_nbx),
)
def by_force_what_is_in_flight_is_canceled(pair: Pair, call: Close) -> None:
    """End a synchronous send without receive by CANCELED; without error handling the call is refused."""
    near, _far = pair.couple(err_mode=PEER)
    calls = Calls()
    request = ucp.ucp_tag_send_sync_nbx(near.ep, b"sync", 4, 1, param(cb=calls))
    pair.settle()
    pair.finish(call(near.ep, True))
    expect_equal("status", pair.finish(request), ucp.UCS_ERR_CANCELED)
    expect_equal("calls", calls.statuses, [ucp.UCS_ERR_CANCELED])
    with expect_status("without UCP_ERR_HANDLING_MODE_PEER", INVALID):
        call(pair.near.ep, True)


@print_info.says(
    2603,
    "This routine prints information about the endpoint transport methods, their thresholds, and other "
    "useful information associated with the endpoint.",
)
def an_endpoint_is_printed(pair: Pair) -> None:
    """Print a text to the stream."""
    stream = io.StringIO()
    ucp.ucp_ep_print_info(pair.near.ep, stream)
    expect(stream.getvalue().strip(), "nothing was printed")


@query.says(4634, "This routine fetches information about the endpoint.")
def an_endpoints_name_is_told(pair: Pair) -> None:
    """Query also socket addresses, of an endpoint without one: NOT_CONNECTED."""
    near, far = pair.entity(0), pair.entity(1)
    ep = near.connect(far, name="called")
    expect_equal("name", ucp.ucp_ep_query(ep, ucp.ucp_ep_attr_t()).name, "called")
    with expect_status("a socket address", ucp.UcsStatus.UCS_ERR_NOT_CONNECTED):
        ucp.ucp_ep_query(ep, ucp.ucp_ep_attr_t(field_mask=ucp.UCP_EP_ATTR_FIELD_REMOTE_SOCKADDR))


@evaluate_perf.says(2701, "Filled with performance estimation of the given operation on the endpoint.")
def more_bytes_take_longer(pair: Pair) -> None:
    """Expect a time above 0 that grows with the size."""
    times = []
    for size in (8, 1 << 20):
        asked = ucp.ucp_ep_evaluate_perf_param_t(message_size=size)
        found = ucp.ucp_ep_evaluate_perf(pair.near.ep, asked, ucp.ucp_ep_evaluate_perf_attr_t())
        times.append(found.estimated_time or 0.0)
    expect(0 < times[0] < times[1], f"expected two rising times, got {times}")
