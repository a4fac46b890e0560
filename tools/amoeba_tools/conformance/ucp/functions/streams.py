"""Streams: sends, and receives into buffers (group COMM)."""

from collections.abc import Callable
from typing import Any

import amoeba.ucp as ucp

from amoeba_tools.conformance.expectations import expect, expect_equal
from amoeba_tools.conformance.ucp.expectations import expect_status
from amoeba_tools.conformance.ucp.functions.common import (
    BYTE,
    FORCE_IMMEDIATE,
    IN_PROGRESS,
    INVALID,
    LONG,
    NO_IMMEDIATE,
    OK,
    Calls,
    Generic,
    nothing,
    param,
    pattern,
)
from amoeba_tools.conformance.ucp.pair import Pair
from amoeba_tools.conformance.ucp.registry import Function, across

send_nb = Function("ucp_stream_send_nb", 3287)
send_nbx = Function("ucp_stream_send_nbx", 3318)
recv_nb = Function("ucp_stream_recv_nb", 3599)
recv_nbx = Function("ucp_stream_recv_nbx", 3640)

WAITALL = ucp.UCP_STREAM_RECV_FLAG_WAITALL
Call = Callable[..., Any]


def by_nb(ep: Any, data: Any, count: int, datatype: int = BYTE, cb: Any = None) -> Any:
    return ucp.ucp_stream_send_nb(ep, data, count, datatype, cb, 0)


def by_nbx(ep: Any, data: Any, count: int, datatype: int = BYTE, cb: Any = None) -> Any:
    told = None if cb is None else lambda request, status, user_data: cb(request, status)
    return ucp.ucp_stream_send_nbx(ep, data, count, param(datatype=datatype, cb=told))


def into_nb(ep: Any, buffer: Any, count: int, datatype: int = BYTE, cb: Any = nothing, flags: int = 0) -> Any:
    return ucp.ucp_stream_recv_nb(ep, buffer, count, datatype, cb, flags)


def into_nbx(ep: Any, buffer: Any, count: int, datatype: int = BYTE, cb: Any = None, flags: int = 0) -> Any:
    told = None if cb is None else lambda request, status, length, user_data: cb(request, status, length)
    return ucp.ucp_stream_recv_nbx(ep, buffer, count, param(datatype=datatype, cb=told, flags=flags))


def received(pair: Pair, length: int, ep: Any = None) -> bytes:
    """So many bytes of the stream of ``far``."""
    buffer = bytearray(length)
    request, _ = into_nbx(pair.far.ep if ep is None else ep, buffer, length, flags=int(WAITALL))
    expect_equal("status of the receive", pair.finish(request), OK)
    return bytes(buffer)


def there(pair: Pair, data: bytes) -> None:
    """Send bytes, and wait until they can be read."""
    pair.finish(by_nbx(pair.near.ep, data, len(data)))
    pair.wait(lambda: ucp.ucp_stream_worker_poll(pair.far.worker, 1, 0), "data in the stream")


# Sends


@across(
    (
        send_nb,
        3253,
        "This routine sends data that is described by the local address buffer, size count, and datatype "
        "object to the destination endpoint ep.",
        by_nb,
    ),
    (
        send_nbx,
        3296,
        "This routine sends data that is described by the local address buffer, size count object to the "
        "destination endpoint ep.",
        by_nbx,
    ),
)
def bytes_arrive_in_order(pair: Pair, call: Call) -> None:
    """Send a few bytes, and more than a packet: the receiver sees no message boundaries."""
    data = pattern(LONG + 200)
    requests = [
        call(pair.near.ep, data[a:b], b - a)
        for a, b in ((0, 1), (1, 100), (100, LONG + 100), (LONG + 100, LONG + 200))
    ]
    expect_equal("first bytes", received(pair, 50), data[:50])
    expect_equal("others", received(pair, LONG + 150), data[50:])
    expect_equal("statuses", {pair.finish(request) for request in requests}, {OK})


@across(
    (send_nb, 3271, "Datatype descriptor for the elements in the buffer.", by_nb),
    (send_nbx, 3308, "Number of elements to send.", by_nbx),
)
def elements_pieces_and_packed_data_are_sent(pair: Pair, call: Call) -> None:
    """Send two elements of four bytes, a list of two pieces, and an application's datatype."""
    pair.finish(call(pair.near.ep, b"elements", 2, ucp.ucp_dt_make_contig(4)))
    pieces = [ucp.ucp_dt_iov_t(b"pie", 3), ucp.ucp_dt_iov_t(b"ces", 3)]
    pair.finish(call(pair.near.ep, pieces, 2, ucp.ucp_dt_make_iov()))
    generic = Generic(pair.keep)
    pair.finish(call(pair.near.ep, b"packed", 6, generic.datatype))
    packed = bytes(byte ^ 0x5A for byte in b"packed")
    expect_equal("stream", received(pair, 20), b"elementspieces" + packed)


@across(
    (send_nb, 3256, "The send operation is considered completed when it is safe to reuse the source buffer.", by_nb),
    (
        send_nbx,
        3299,
        "The send operation is considered completed when it is safe to reuse the source buffer.",
        by_nbx,
    ),
)
def a_completed_send_does_not_need_its_buffer(pair: Pair, call: Call) -> None:
    """Overwrite the buffer of an unread stream: the receiver does not see the change."""
    for length in (8, LONG):
        data = bytearray(pattern(length))
        expect_equal("status", pair.finish(call(pair.near.ep, data, length)), OK)
        data[:] = bytes(length)
        expect_equal("stream", received(pair, length), pattern(length))


@across(
    (
        send_nb,
        3259,
        "If the operation is not completed immediately and no error reported, then the UCP library will "
        "schedule invocation of the callback cb upon completion of the send operation.",
        by_nb,
    ),
    (
        send_nbx,
        3313,
        "otherwise - Operation was scheduled for send and can be completed at any point in time.",
        by_nbx,
    ),
)
def a_send_in_flight_calls_back_once(pair: Pair, call: Call) -> None:
    """Call back with request and UCS_OK, not inside the call; a send that ends at once has no callback."""
    calls = Calls()
    request = call(pair.near.ep, pattern(LONG), LONG, cb=calls)
    expect(request is not None, f"{LONG} bytes: expected a request, got None")
    expect_equal("calls inside the call", calls.told, [])
    received(pair, LONG)
    pair.wait(lambda: calls.told, "a callback")
    pair.settle()
    expect_equal("calls", calls.told, [(request, OK)])
    expect_equal("status", pair.finish(request), OK)


@across(
    (
        send_nb,
        3257,
        "If the send operation is completed immediately the routine returns UCS_OK and the callback "
        "function cb is not invoked.",
        by_nb,
    ),
    (send_nbx, 3300, "If the send operation is completed immediately the routine returns UCS_OK.", by_nbx),
)
def nothing_is_sent_at_once(pair: Pair, call: Call) -> None:
    """Send 0 bytes: the send ends at once without callback, and the stream continues."""
    calls = Calls()
    expect_equal("what the call returned", call(pair.near.ep, b"", 0, cb=calls), None)
    pair.finish(call(pair.near.ep, b"behind", 6))
    expect_equal("stream", received(pair, 6), b"behind")
    expect_equal("calls", calls.told, [])


@across(
    (
        send_nb,
        3255,
        "The routine is non-blocking and therefore returns immediately, however the actual send operation "
        "may be delayed.",
        by_nb,
    ),
    (
        send_nbx,
        3297,
        "The routine is non-blocking and therefore returns immediately, however the actual send operation "
        "may be delayed.",
        by_nbx,
    ),
)
def a_stream_that_nobody_reads_holds_up_no_messages(pair: Pair, call: Call) -> None:
    """Send beyond the receiver's free space: the sends wait, and a tagged message overtakes them."""
    piece, count = pattern(30_000), 10
    requests = [call(pair.near.ep, piece, len(piece)) for _ in range(count)]
    buffer = bytearray(4)
    receive = ucp.ucp_tag_recv_nbx(pair.far.worker, buffer, 4, 1, 1, None)
    pair.finish(ucp.ucp_tag_send_nbx(pair.near.ep, b"fast", 4, 1, None))
    expect_equal("tagged message", (pair.finish(receive), bytes(buffer)), (OK, b"fast"))
    expect(any(request is not None and not request.done for request in requests), "nothing waits")
    for index in range(count):
        expect_equal(f"piece {index}", received(pair, len(piece)), piece)
    expect_equal("statuses", {pair.finish(request) for request in requests}, {OK})


@across(
    (send_nb, 3279, "UCS_PTR_IS_ERR(_ptr) - The send operation failed.", by_nb),
    (send_nbx, 3312, "UCS_PTR_IS_ERR(_ptr) - The send operation failed.", by_nbx),
)
def a_send_that_cannot_be_meant_sends_nothing(pair: Pair, call: Call) -> None:
    """Pass a short buffer, no endpoint, and an unknown datatype class."""
    for what, arguments in (
        ("short buffer", (pair.near.ep, b"12", 3)),
        ("no endpoint", (pair.near.worker, b"12", 2)),
        ("datatype", (pair.near.ep, b"12", 2, 5)),
    ):
        with expect_status(what, INVALID):
            call(*arguments)
    pair.settle()
    expect_equal("stream", ucp.ucp_stream_recv_data_nb(pair.far.ep), None)


@send_nbx.says(3314, "The request handle is returned to the application in order to track progress of the message.")
def a_request_can_be_demanded(pair: Pair) -> None:
    """Pass NO_IMM_CMPL with a few bytes, and with none; the callback gets user data."""
    for data in (b"few", b""):
        calls = Calls()
        asked = param(op_attr_mask=NO_IMMEDIATE, cb=calls, user_data="mine")
        request = ucp.ucp_stream_send_nbx(pair.near.ep, data, len(data), asked)
        expect(request is not None, "expected a request, got None")
        pair.wait(lambda: calls.told, "a callback")  # noqa: B023
        expect_equal("calls", calls.told, [(request, OK, "mine")])
        ucp.ucp_request_free(request)
    expect_equal("stream", received(pair, 3), b"few")


# Receives


@across(
    (
        recv_nb,
        3563,
        "This routine receives data that is described by the local address buffer, size count, and "
        "datatype object on the endpoint ep.",
        into_nb,
    ),
    (
        recv_nbx,
        3610,
        "This routine receives data that is described by the local address buffer, size count object on "
        "the endpoint ep.",
        into_nbx,
    ),
)
def data_is_received_early_and_late(pair: Pair, call: Call) -> None:
    """Post before the send, and get a request; post after the send, and get None and the length."""
    buffer = bytearray(10)
    request, _ = call(pair.far.ep, buffer, 10)
    expect(request is not None, "expected a request, got None")
    pair.finish(by_nbx(pair.near.ep, b"early", 5))
    pair.wait(lambda: request.done, "an end of the receive")
    expect_equal("early", ucp.ucp_stream_recv_request_test(request), (OK, 5))
    ucp.ucp_request_free(request)
    expect_equal("buffer", bytes(buffer), b"early" + bytes(5))
    there(pair, b"late")
    expect_equal("late", call(pair.far.ep, buffer, 10), (None, 4))
    expect_equal("buffer", bytes(buffer[:4]), b"late")


@across(
    (
        recv_nb,
        3585,
        "The amount of data received, in bytes, is always an integral multiple of the datatype size.",
        into_nb,
    ),
    (
        recv_nbx,
        3637,
        "The amount of data received, in bytes, is always an integral multiple of the datatype size.",
        into_nbx,
    ),
)
def whole_elements_are_received(pair: Pair, call: Call) -> None:
    """Send 10 bytes, which do not end a receive of elements of 4; 2 more end it with 12, and the rest stays."""
    there(pair, pattern(10))
    buffer, words = bytearray(16), ucp.ucp_dt_make_contig(4)
    request, _ = call(pair.far.ep, buffer, 4, words)
    expect(request is not None, "half an element was received")
    pair.finish(by_nbx(pair.near.ep, pattern(12)[10:], 2))
    pair.wait(lambda: request.done, "the rest of the element")
    expect_equal("length", ucp.ucp_stream_recv_request_test(request), (OK, 12))
    expect_equal("elements", bytes(buffer[:12]), pattern(12))
    ucp.ucp_request_free(request)
    there(pair, pattern(14))
    expect_equal("three elements of 14 bytes", call(pair.far.ep, buffer, 3, words), (None, 12))
    expect_equal("elements", bytes(buffer[:12]), pattern(12))
    expect_equal("rest", received(pair, 2), pattern(14)[12:])


@across(
    (recv_nb, 3587, "Flags defined in ucp_stream_recv_flags_t.", into_nb),
    (
        recv_nbx,
        3622,
        "This operation supports specific flags, which can be passed in param by ucp_request_param_t.flags.",
        into_nbx,
    ),
)
def waitall_waits_for_all(pair: Pair, call: Call) -> None:
    """Send three pieces, the last of which is longer than the rest of the buffer."""
    buffer = bytearray(10)
    request, _ = call(pair.far.ep, buffer, 10, flags=int(WAITALL))
    for piece in (b"0123", b"456"):
        pair.finish(by_nbx(pair.near.ep, piece, len(piece)))
    pair.settle()
    expect_equal("status before all is there", ucp.ucp_request_check_status(request), IN_PROGRESS)
    pair.finish(by_nbx(pair.near.ep, b"789+", 4))
    expect_equal("status", pair.finish(request), OK)
    expect_equal("buffer", bytes(buffer), b"0123456789")
    expect_equal("rest", received(pair, 1), b"+")


@across(
    (
        recv_nb,
        3568,
        "In order to notify the application about completion of a scheduled receive operation, the UCP "
        "library will invoke the call-back cb when data is in the receive buffer and ready for application"
        " access.",
        into_nb,
    ),
    (
        recv_nbx,
        3633,
        "otherwise - Operation was scheduled for receive. A request handle is returned to the application "
        "in order to track progress of the operation.",
        into_nbx,
    ),
)
def the_callback_is_told_the_length(pair: Pair, call: Call) -> None:
    """Call back once, with the buffer filled. A receive that completes at once has no callback."""
    calls, buffer = Calls(), bytearray(8)
    request, _ = call(pair.far.ep, buffer, 8, cb=calls)
    pair.finish(by_nbx(pair.near.ep, b"call", 4))
    pair.wait(lambda: calls.told, "a callback")
    expect_equal("calls", calls.told, [(request, OK, 4)])
    expect_equal("buffer", bytes(buffer[:4]), b"call")
    ucp.ucp_request_free(request)
    there(pair, b"now")
    expect_equal("at once", call(pair.far.ep, buffer, 8, cb=calls), (None, 3))
    pair.settle()
    expect_equal("calls", len(calls.told), 1)


@across(
    (
        recv_nb,
        3565,
        "The receive operation is considered complete when the message is delivered to the buffer.",
        into_nb,
    ),
    (
        recv_nbx,
        3612,
        "The receive operation is considered complete when the message is delivered to the buffer.",
        into_nbx,
    ),
)
def receives_are_met_in_order(pair: Pair, call: Call) -> None:
    """Post three receives of four bytes; the stream fills one after the other."""
    buffers = [bytearray(4) for _ in range(3)]
    requests = [call(pair.far.ep, buffer, 4, flags=int(WAITALL))[0] for buffer in buffers]
    pair.finish(by_nbx(pair.near.ep, pattern(12), 12))
    expect_equal("statuses", [pair.finish(request) for request in requests], [OK] * 3)
    expect_equal("buffers", b"".join(buffers), pattern(12))


@across(
    (recv_nb, 3571, "If the receive operation cannot be started, the routine returns an error.", into_nb),
    (recv_nbx, 3613, "If the receive operation cannot be started, the routine returns an error.", into_nbx),
)
def a_receive_that_cannot_be_meant_takes_nothing(pair: Pair, call: Call) -> None:
    """Pass a short buffer, a read-only one, and no endpoint; the data stays."""
    there(pair, b"stay")
    for what, arguments in (
        ("short buffer", (pair.far.ep, bytearray(3), 4)),
        ("read-only buffer", (pair.far.ep, b"1234", 4)),
        ("no endpoint", (pair.far.worker, bytearray(4), 4)),
    ):
        with expect_status(what, INVALID):
            call(*arguments)
    expect_equal("stream", received(pair, 4), b"stay")


@across(
    (recv_nb, 3577, "Datatype descriptor for the elements in the buffer.", into_nb),
    (recv_nbx, 3621, "Operation parameters, see ucp_request_param_t.", into_nbx),
)
def pieces_and_packed_data_are_received(pair: Pair, call: Call) -> None:
    """Receive into a list of two pieces; by an application's datatype."""
    one, other = bytearray(3), bytearray(3)
    pieces = [ucp.ucp_dt_iov_t(one, 3), ucp.ucp_dt_iov_t(other, 3)]
    there(pair, b"pieces")
    expect_equal("pieces", call(pair.far.ep, pieces, 2, ucp.ucp_dt_make_iov()), (None, 6))
    expect_equal("buffers", (bytes(one), bytes(other)), (b"pie", b"ces"))
    generic, buffer = Generic(pair.keep), bytearray(6)
    there(pair, bytes(byte ^ 0x5A for byte in b"packed"))
    expect_equal("packed", call(pair.far.ep, buffer, 6, generic.datatype), (None, 6))
    expect_equal("buffer", bytes(buffer), b"packed")
    expect_equal("ends", generic.calls.count("finish"), 1)


@recv_nbx.says(
    3627,
    "NULL - The receive operation was completed immediately. In this case the value pointed by length is "
    "updated by the size of received data.",
)
def at_once_or_with_a_request_as_asked(pair: Pair) -> None:
    """Use FORCE_IMM_CMPL without data, which is NO_RESOURCE, and NO_IMM_CMPL with data, which is a request."""
    with expect_status("no data", ucp.UcsStatus.UCS_ERR_NO_RESOURCE):
        ucp.ucp_stream_recv_nbx(pair.far.ep, bytearray(4), 4, param(op_attr_mask=FORCE_IMMEDIATE))
    there(pair, b"data")
    calls, buffer = Calls(), bytearray(4)
    asked = param(op_attr_mask=NO_IMMEDIATE, cb=calls, user_data=3)
    request, _ = ucp.ucp_stream_recv_nbx(pair.far.ep, buffer, 4, asked)
    expect(request is not None, "expected a request, got None")
    pair.wait(lambda: calls.told, "a callback")
    expect_equal("calls", calls.told, [(request, OK, 4, 3)])
    ucp.ucp_request_free(request)
