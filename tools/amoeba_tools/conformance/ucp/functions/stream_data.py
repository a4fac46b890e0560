"""Streams: data by reference, requests of receives, and polling (groups COMM and WORKER)."""

from typing import Any

import amoeba.ucp as ucp

from amoeba_tools.conformance.expectations import expect_equal
from amoeba_tools.conformance.ucp.expectations import expect_status
from amoeba_tools.conformance.ucp.functions.common import (
    IN_PROGRESS,
    INVALID,
    LONG,
    NO_IMMEDIATE,
    OK,
    param,
    pattern,
)
from amoeba_tools.conformance.ucp.functions.streams import (
    by_nbx,
    into_nb,
    received,
    send_nb,
    send_nbx,
    there,
)
from amoeba_tools.conformance.ucp.pair import Pair
from amoeba_tools.conformance.ucp.registry import Function

recv_data_nb = Function("ucp_stream_recv_data_nb", 3677)
request_test = Function("ucp_stream_recv_request_test", 4376)
data_release = Function("ucp_stream_data_release", 4412)
worker_poll = Function("ucp_stream_worker_poll", 2216)


# By reference


@recv_data_nb.says(3650, "This routine receives any available data from endpoint ep.")
def available_data_is_returned(pair: Pair) -> None:
    """Receive arrays of bytes, in order, until no data is left."""
    pair.finish(by_nbx(pair.near.ep, pattern(LONG), LONG))
    got = b""

    def take() -> bool:
        nonlocal got
        while (data := ucp.ucp_stream_recv_data_nb(pair.far.ep)) is not None:
            got += bytes(data)
            ucp.ucp_stream_data_release(pair.far.ep, data)
        return len(got) >= LONG

    pair.wait(take, "all data")
    expect_equal("data", got, pattern(LONG))


@recv_data_nb.says(3661, "NULL - No received data available on the ep.")
def without_data_there_is_nothing(pair: Pair) -> None:
    """Receive before data has come, and after all was taken."""
    expect_equal("before", ucp.ucp_stream_recv_data_nb(pair.far.ep), None)
    there(pair, b"data")
    data = ucp.ucp_stream_recv_data_nb(pair.far.ep)
    assert data is not None
    expect_equal("afterwards", ucp.ucp_stream_recv_data_nb(pair.far.ep), None)
    ucp.ucp_stream_data_release(pair.far.ep, data)


@recv_data_nb.says(
    3652,
    "If data is immediately available, UCS_STATUS_PTR(_ptr) is returned as a pointer to the data, and "
    "length is set to the size of the returned data buffer.",
)
def data_stays_until_it_is_released(pair: Pair) -> None:
    """Send more data meanwhile: the first data stays, and a receive gets the rest."""
    there(pair, b"first")
    data = ucp.ucp_stream_recv_data_nb(pair.far.ep)
    assert data is not None
    there(pair, b"second")
    expect_equal("receive", received(pair, 6), b"second")
    expect_equal("data", (bytes(data), data.nbytes), (b"first", 5))
    ucp.ucp_stream_data_release(pair.far.ep, data)


@data_release.says(
    4408,
    "This routine releases internal UCP data buffer returned by ucp_stream_recv_data_nb when data is "
    "processed, the application can't use this buffer after calling this function.",
)
def data_is_released_once(pair: Pair) -> None:
    """Release twice: the second time is INVALID_PARAM."""
    there(pair, b"once")
    data = ucp.ucp_stream_recv_data_nb(pair.far.ep)
    assert data is not None
    ucp.ucp_stream_data_release(pair.far.ep, data)
    with expect_status("the second time", INVALID):
        ucp.ucp_stream_data_release(pair.far.ep, data)


@data_release.says(4405, "Data pointer to release, which was returned from ucp_stream_recv_data_nb.")
def only_what_was_returned_can_be_released(pair: Pair) -> None:
    """Release a part of the data, other memory, and by another endpoint: all fail."""
    there(pair, b"part")
    data = ucp.ucp_stream_recv_data_nb(pair.far.ep)
    assert data is not None
    for what, ep, given in (
        ("a part", pair.far.ep, data[1:]),
        ("other memory", pair.far.ep, memoryview(b"part")),
        ("no memory", pair.far.ep, 5),
        ("another endpoint", pair.near.ep, data),
    ):
        with expect_status(what, INVALID):
            ucp.ucp_stream_data_release(ep, given)  # type: ignore[arg-type]  # that is what is tried
    ucp.ucp_stream_data_release(pair.far.ep, data)


# Requests


@request_test.says(
    4364,
    "This routine checks the state and returns current status of the request returned from "
    "ucp_stream_recv_nb routine.",
)
def test_tells_the_status(pair: Pair) -> None:
    """Expect UCS_INPROGRESS until there is data; then UCS_OK."""
    request, _ = into_nb(pair.far.ep, bytearray(4), 4)
    expect_equal("before", ucp.ucp_stream_recv_request_test(request)[0], IN_PROGRESS)
    pair.finish(by_nbx(pair.near.ep, b"data", 4))
    pair.wait(lambda: ucp.ucp_stream_recv_request_test(request)[0] is not IN_PROGRESS, "data")
    expect_equal("after", ucp.ucp_stream_recv_request_test(request), (OK, 4))
    ucp.ucp_request_free(request)


@request_test.says(
    4369,
    "The size of the received data in bytes. This value is only valid if the status is UCS_OK. If valid, "
    "it is always an integral multiple of the datatype size associated with the request.",
)
def test_tells_whole_elements(pair: Pair) -> None:
    """Expect 0 bytes while of elements of 3 there are 7 bytes; then 9."""
    request, _ = into_nb(pair.far.ep, bytearray(12), 4, ucp.ucp_dt_make_contig(3))
    pair.finish(by_nbx(pair.near.ep, pattern(7), 7))
    pair.settle()
    expect_equal("of 7 bytes", ucp.ucp_stream_recv_request_test(request), (IN_PROGRESS, 0))
    pair.finish(by_nbx(pair.near.ep, pattern(2), 2))
    pair.wait(lambda: ucp.ucp_stream_recv_request_test(request)[0] is not IN_PROGRESS, "data")
    expect_equal("of 9 bytes", ucp.ucp_stream_recv_request_test(request), (OK, 9))
    ucp.ucp_request_free(request)


@request_test.says(4365, "Any value different from UCS_INPROGRESS means that the request is in a completed state.")
def test_takes_requests_of_streams_alone(pair: Pair) -> None:
    """Test a request of a send: INVALID_PARAM."""
    request = ucp.ucp_stream_send_nbx(pair.near.ep, b"data", 4, param(op_attr_mask=NO_IMMEDIATE))
    with expect_status("a send", INVALID):
        ucp.ucp_stream_recv_request_test(request)  # type: ignore[arg-type]  # it is one
    expect_equal("status", pair.finish(request), OK)
    received(pair, 4)


# Polling


@worker_poll.says(
    2200,
    "This non-blocking routine returns endpoints on a worker which are ready to consume streaming data.",
)
def endpoints_with_data_are_told(pair: Pair) -> None:
    """Get the endpoints with their user data, and no endpoint before data has come."""
    near, far = pair.entity(0), pair.entity(1)
    near.connect(far)
    far.connect(near, user_data="mine")
    expect_equal("before", ucp.ucp_stream_worker_poll(far.worker, 4, 0), [])
    pair.finish(by_nbx(near.ep, b"data", 4))
    found: list[Any] = []

    def look() -> bool:
        found.extend(ucp.ucp_stream_worker_poll(far.worker, 4, 0))
        return bool(found)

    pair.wait(look, "an endpoint")
    expect_equal("endpoints", [(each.ep is far.ep, each.user_data) for each in found], [(True, "mine")])
    expect_equal("data", received(pair, 4, far.ep), b"data")
    expect_equal("when all was read", ucp.ucp_stream_worker_poll(far.worker, 4, 0), [])


@worker_poll.says(
    2212,
    "On success, non-negative value (less or equal max_eps) indicates actual number of endpoints filled in"
    " poll_eps array.",
)
def no_more_endpoints_are_told_than_asked_for(pair: Pair) -> None:
    """Make two endpoints ready: each is returned once."""
    near, far = pair.couple()
    other = (near.connect(far), far.connect(near))
    for ep in (near.ep, other[0]):
        pair.finish(by_nbx(ep, b"data", 4))
    pair.settle()
    expect_equal("none", ucp.ucp_stream_worker_poll(far.worker, 0, 0), [])
    told = [ucp.ucp_stream_worker_poll(far.worker, 1, 0) for _ in range(3)]
    expect_equal("numbers", [len(each) for each in told], [1, 1, 0])
    expect_equal("endpoints", {told[0][0].ep, told[1][0].ep}, {far.ep, other[1]})


@worker_poll.says(2211, "Negative value indicates an error according to ucs_status_t.")
def polling_needs_a_worker_with_streams(pair: Pair) -> None:
    """Poll without UCP_FEATURE_STREAM, with a negative number, and an invalid worker: INVALID_PARAM."""
    entity = pair.entity(0, int(ucp.UCP_FEATURE_TAG))
    for what, worker, most in (("feature", entity.worker, 1), ("number", pair.far.worker, -1), ("worker", None, 1)):
        with expect_status(what, INVALID):
            ucp.ucp_stream_worker_poll(worker, most, 0)  # type: ignore[arg-type]  # that is what is tried


for _page in (send_nb, send_nbx):
    _page.silent(
        "The user should not modify any part of the buffer after this operation is called, until the "
        "operation completes.",
        "asks something of the application",
    )
recv_data_nb.silent(
    "In some cases, receiving data directly into a UCP-supplied buffer can be more optimal",
    "speed is measured elsewhere",
)
