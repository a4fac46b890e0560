"""Flush and fence: ucp_ep_flush_nb, _nbx, ucp_worker_flush_nb, _nbx, ucp_worker_fence."""

from typing import Any

import amoeba.ucp as ucp

from amoeba_tools.conformance.expectations import expect, expect_equal
from amoeba_tools.conformance.ucp.expectations import expect_status
from amoeba_tools.conformance.ucp.functions.common import INVALID, LONG, NO_IMMEDIATE, OK, Calls, param, pattern
from amoeba_tools.conformance.ucp.pair import Pair
from amoeba_tools.conformance.ucp.registry import Function, across

ep_nb = Function("ucp_ep_flush_nb", 2665)
ep_nbx = Function("ucp_ep_flush_nbx", 2690)
fence = Function("ucp_worker_fence", 4511)
worker_nb = Function("ucp_worker_flush_nb", 4543)
worker_nbx = Function("ucp_worker_flush_nbx", 4572)


def by_ep_nb(pair: Pair, cb: Any = None) -> Any:
    return ucp.ucp_ep_flush_nb(pair.near.ep, 0, cb)


def by_ep_nbx(pair: Pair, cb: Any = None) -> Any:
    told = None if cb is None else lambda request, status, user_data: cb(request, status)
    return ucp.ucp_ep_flush_nbx(pair.near.ep, param(cb=told))


def by_worker_nb(pair: Pair, cb: Any = None) -> Any:
    return ucp.ucp_worker_flush_nb(pair.near.worker, 0, cb)


def by_worker_nbx(pair: Pair, cb: Any = None) -> Any:
    told = None if cb is None else lambda request, status, user_data: cb(request, status)
    return ucp.ucp_worker_flush_nbx(pair.near.worker, param(cb=told))


@across(
    (
        ep_nb,
        2619,
        "All the AMO and RMA operations issued on the ep prior to this call are completed both at the "
        "origin and at the target endpoint when this call returns.",
        by_ep_nb,
    ),
    (
        ep_nbx,
        2676,
        "All the AMO and RMA operations issued on the ep prior to this call are completed both at the "
        "origin and at the target endpoint when this call returns.",
        by_ep_nbx,
    ),
    (
        worker_nb,
        4521,
        "All the AMO and RMA operations issued on the worker prior to this call are completed both at the "
        "origin and at the target when this call returns.",
        by_worker_nb,
    ),
    (
        worker_nbx,
        4554,
        "All the AMO and RMA operations issued on the worker prior to this call are completed both at the "
        "origin and at the target when this call returns.",
        by_worker_nbx,
    ),
)
def all_before_it_is_done_at_both_ends(pair: Pair, call: Any) -> None:
    """Post puts, gets and atomics without requests; at the flush's end all data is in memory."""
    region, back = pair.memory(LONG + 16), bytearray(8)
    ucp.ucp_put_nbi(pair.near.ep, pattern(LONG), LONG, region.address, region.rkey)
    ucp.ucp_atomic_post(pair.near.ep, ucp.UCP_ATOMIC_POST_OP_ADD, 7, 8, region.address + 9008, region.rkey)
    ucp.ucp_get_nbi(pair.near.ep, back, 8, region.address, region.rkey)
    expect_equal("status", pair.finish(call(pair)), OK)
    got = (bytes(region.view[:LONG]), region.view[9008], bytes(back))
    expect_equal("memory", got, (pattern(LONG), 7, pattern(8)))


@across(
    (ep_nb, 2628, "NULL - The flush operation was completed immediately.", by_ep_nb),
    (ep_nbx, 2683, "NULL - The flush operation was completed immediately.", by_ep_nbx),
    (worker_nb, 4534, "NULL - The flush operation was completed immediately.", by_worker_nb),
    (worker_nbx, 4565, "NULL - The flush operation was completed immediately.", by_worker_nbx),
)
def with_nothing_in_flight_it_is_over(pair: Pair, call: Any) -> None:
    """Flush without outstanding operations: no request and no callback."""
    calls = Calls()
    expect_equal("what the call returned", call(pair, calls), None)
    pair.settle()
    expect_equal("calls", calls.told, [])


@across(
    (ep_nb, 2625, "Callback which will be called when the flush operation completes.", by_ep_nb),
    (ep_nbx, 2685, "otherwise - Flush operation was scheduled and can be completed in any point in time.", by_ep_nbx),
    (worker_nb, 4531, "Callback which will be called when the flush operation completes.", by_worker_nb),
    (
        worker_nbx,
        4567,
        "otherwise - Flush operation was scheduled and can be completed in any point in time.",
        by_worker_nbx,
    ),
)
def it_calls_back_when_all_is_done(pair: Pair, call: Any) -> None:
    """Expect one call, with its request; the bytes are there then."""
    region, calls, seen = pair.memory(LONG), Calls(), []

    def note(*told: Any) -> None:
        seen.append(bytes(region.view))
        calls(*told)

    ucp.ucp_put_nbi(pair.near.ep, pattern(LONG), LONG, region.address, region.rkey)
    request = call(pair, note)
    expect(request is not None, "expected a request, got None")
    pair.wait(lambda: calls.told, "a callback")
    pair.settle()
    expect_equal("calls", (calls.told, seen), ([(request, OK)], [pattern(LONG)]))
    ucp.ucp_request_free(request)


@across(
    (ep_nb, 2629, "UCS_PTR_IS_ERR(_ptr) - The flush operation failed.", by_ep_nb),
    (ep_nbx, 2684, "UCS_PTR_IS_ERR(_ptr) - The flush operation failed.", by_ep_nbx),
    (worker_nb, 4535, "UCS_PTR_IS_ERR(_ptr) - The flush operation failed.", by_worker_nb),
    (worker_nbx, 4566, "UCS_PTR_IS_ERR(_ptr) - The flush operation failed.", by_worker_nbx),
)
def it_tells_an_error_once(pair: Pair, call: Any) -> None:
    """Put outside the memory, without a request; the next flush reports no error."""
    region = pair.memory(8)
    ucp.ucp_put_nbi(pair.near.ep, b"12345678", 8, region.address + 4, region.rkey)
    try:
        status = pair.finish(call(pair))
    except ucp.UcsError as error:
        status = error.status
    expect_equal("status", status, ucp.UcsStatus.UCS_ERR_INVALID_ADDR)
    expect_equal("the next", pair.finish(call(pair)), OK)


@across(
    (
        ep_nbx,
        2681,
        "Operation parameters, see ucp_request_param_t.",
        lambda pair, asked: ucp.ucp_ep_flush_nbx(pair.near.ep, asked),
    ),
    (
        worker_nbx,
        4563,
        "Operation parameters, see ucp_request_param_t",
        lambda pair, asked: ucp.ucp_worker_flush_nbx(pair.near.worker, asked),
    ),
)
def a_request_can_be_demanded(pair: Pair, call: Any) -> None:
    """Demand a request without outstanding operations, and use one of the user's."""
    memory = ucp.ucp_request_alloc(pair.near.worker)
    request = call(pair, param(op_attr_mask=NO_IMMEDIATE, request=memory))
    expect(request is memory, f"expected the user's request, got {request!r}")
    expect_equal("status", pair.finish(request), OK)


@worker_nb.says(4520, "This routine flushes all outstanding AMO and RMA communications on the worker.")
def a_worker_flushes_all_its_endpoints(pair: Pair) -> None:
    """Flush a worker with two endpoints."""
    near, far = pair.couple()
    second = near.connect(far)
    regions = [pair.memory(LONG, ep=ep, owner=far) for ep in (near.ep, second)]
    for ep, region in zip((near.ep, second), regions, strict=True):
        ucp.ucp_put_nbi(ep, pattern(LONG), LONG, region.address, region.rkey)
    expect_equal("status", pair.finish(ucp.ucp_worker_flush_nb(near.worker, 0, None)), OK)
    expect_equal("memory", [bytes(region.view) == pattern(LONG) for region in regions], [True, True])


@fence.says(
    4495,
    "Communication operations issued on the worker prior to this call are guaranteed to be completed "
    "before any subsequent communication operations to the same worker which follow the call to fence.",
)
def what_follows_a_fence_comes_later(pair: Pair) -> None:
    """Put many bytes, then send a tagged message: when the message is there, so are the bytes."""
    region, buffer = pair.memory(40_000), bytearray(4)
    receive = ucp.ucp_tag_recv_nbx(pair.far.worker, buffer, 4, 0x41, 0xFF, None)
    ucp.ucp_put_nbi(pair.near.ep, pattern(40_000), 40_000, region.address, region.rkey)
    ucp.ucp_worker_fence(pair.near.worker)
    sent = ucp.ucp_tag_send_nbx(pair.near.ep, b"flag", 4, 0x41, None)
    pair.wait(lambda: receive is not None and receive.done, "the message")
    expect_equal("memory", bytes(region.view), pattern(40_000))
    expect_equal("statuses", (pair.finish(receive), pair.finish(sent)), (OK, OK))
    expect_equal("flush", pair.finish(by_worker_nb(pair)), OK)


@fence.says(
    4501,
    "... the fence routine does not guarantee completion of the operations on the call return but only "
    "ensures the order between communication operations.",
)
def a_fence_waits_for_nothing(pair: Pair) -> None:
    """Check that a put of many bytes is still outstanding after the call."""
    region = pair.memory(LONG)
    request = ucp.ucp_put_nbx(pair.near.ep, pattern(LONG), LONG, region.address, region.rkey)
    ucp.ucp_worker_fence(pair.near.worker)
    expect_equal("status", ucp.ucp_request_check_status(request), ucp.UcsStatus.UCS_INPROGRESS)
    expect_equal("in the end", pair.finish(request), OK)


@fence.says(4509, "Error code as defined by ucs_status_t")
def a_fence_needs_a_worker(pair: Pair) -> None:
    """Pass an endpoint and a destroyed worker."""
    gone = pair.entity(0)
    ucp.ucp_worker_destroy(gone.worker)
    for what in (pair.near.ep, gone.worker):
        with expect_status(f"{what!r}", INVALID):
            ucp.ucp_worker_fence(what)
