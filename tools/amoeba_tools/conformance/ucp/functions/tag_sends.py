"""Tagged sends: ucp_tag_send_nb, _nbr, _nbx, ucp_tag_send_sync_nb, _nbx."""

from collections.abc import Callable
from typing import Any

import amoeba.ucp as ucp

from amoeba_tools.conformance.expectations import expect, expect_equal
from amoeba_tools.conformance.ucp.expectations import expect_status
from amoeba_tools.conformance.ucp.functions.common import (
    ALL,
    BYTE,
    FORCE_IMMEDIATE,
    IN_PROGRESS,
    INVALID,
    LONG,
    NO_IMMEDIATE,
    OK,
    Calls,
    Generic,
    param,
    pattern,
)
from amoeba_tools.conformance.ucp.pair import Pair
from amoeba_tools.conformance.ucp.registry import Function, across

send_nb = Function("ucp_tag_send_nb", 3362)
send_nbr = Function("ucp_tag_send_nbr", 3444)
send_sync_nb = Function("ucp_tag_send_sync_nb", 3478)
send_nbx = Function("ucp_tag_send_nbx", 3521)
send_sync_nbx = Function("ucp_tag_send_sync_nbx", 3553)

Send = Callable[..., Any]
"""(pair, endpoint, buffer, count, datatype, tag, callback or None), returning a request, or None."""


def by_nb(pair: Pair, ep: Any, buffer: Any, count: int, datatype: int, tag: int, cb: Any = None) -> Any:
    return ucp.ucp_tag_send_nb(ep, buffer, count, datatype, tag, cb)


def by_nbr(pair: Pair, ep: Any, buffer: Any, count: int, datatype: int, tag: int, cb: Any = None) -> Any:
    memory = ucp.ucp_request_alloc(pair.near.worker)
    status = ucp.ucp_tag_send_nbr(ep, buffer, count, datatype, tag, memory)
    return memory if status is IN_PROGRESS else None


def by_nbx(pair: Pair, ep: Any, buffer: Any, count: int, datatype: int, tag: int, cb: Any = None) -> Any:
    return ucp.ucp_tag_send_nbx(ep, buffer, count, tag, param(datatype=datatype, cb=_without_data(cb)))


def by_sync_nb(pair: Pair, ep: Any, buffer: Any, count: int, datatype: int, tag: int, cb: Any = None) -> Any:
    return ucp.ucp_tag_send_sync_nb(ep, buffer, count, datatype, tag, cb)


def by_sync_nbx(pair: Pair, ep: Any, buffer: Any, count: int, datatype: int, tag: int, cb: Any = None) -> Any:
    return ucp.ucp_tag_send_sync_nbx(ep, buffer, count, tag, param(datatype=datatype, cb=_without_data(cb)))


def _without_data(cb: Any) -> Any:
    """Adapt a callback of _nbx, which also gets user data, to one without."""
    return None if cb is None else lambda request, status, user_data: cb(request, status)


def received(pair: Pair, length: int, tag: int) -> bytes:
    """Receive the next message with this tag, at ``far``."""
    buffer, info = bytearray(length), ucp.ucp_tag_recv_info_t()
    request = ucp.ucp_tag_recv_nbx(pair.far.worker, buffer, length, tag, ALL, param(recv_info=info))
    told = None
    if request is not None:
        pair.wait(lambda: request.done, f"a message with tag {tag:#x}")
        status, told = ucp.ucp_tag_recv_request_test(request)
        expect_equal("status of the receive", status, OK)
        ucp.ucp_request_free(request)
    got = info.length if told is None else told.length
    return bytes(buffer[:got])


# What all of them say


@across(
    (
        send_nb,
        3326,
        "This routine sends a messages that is described by the local address buffer, size count, and "
        "datatype object to the destination endpoint ep.",
        by_nb,
    ),
    (
        send_nbr,
        3382,
        "This routine sends a messages that is described by the local address buffer, size count, and "
        "datatype object to the destination endpoint ep.",
        by_nbr,
    ),
    (send_sync_nb, 3451, "Same as ucp_tag_send_nb, ...", by_sync_nb),
    (
        send_nbx,
        3487,
        "This routine sends a messages that is described by the local address buffer, size count object to"
        " the destination endpoint ep.",
        by_nbx,
    ),
    (send_sync_nbx, 3529, "Same as ucp_tag_send_nbx, ...", by_sync_nbx),
)
def messages_arrive_as_they_were_sent(pair: Pair, call: Send) -> None:
    """Send no bytes, one, and more than a packet; in elements of one byte and of eight."""
    for length, datatype in ((0, BYTE), (1, BYTE), (LONG, BYTE), (64, ucp.ucp_dt_make_contig(8))):
        data, size = pattern(length), 8 if datatype != BYTE else 1
        request = call(pair, pair.near.ep, data, length // size, datatype, 0x51)
        expect_equal(f"{length} bytes", received(pair, length, 0x51), data)
        expect_equal(f"status of sending {length} bytes", pair.finish(request), OK)


@across(
    (send_nb, 3346, "Datatype descriptor for the elements in the buffer.", by_nb),
    (send_nbr, 3431, "Datatype descriptor for the elements in the buffer.", by_nbr),
    (send_sync_nb, 3465, "Datatype descriptor for the elements in the buffer.", by_sync_nb),
    (send_nbx, 3502, "The values of this field are a bit-wise OR of the ucp_op_attr_t enumeration.", by_nbx),
    (send_sync_nbx, 3544, "Operation parameters, see ucp_request_param_t", by_sync_nbx),
)
def datatypes_say_what_the_buffer_is(pair: Pair, call: Send) -> None:
    """Send a list of three pieces, one of no bytes, and an application's datatype, packed and finished once."""
    pieces = [ucp.ucp_dt_iov_t(b"scat", 4), ucp.ucp_dt_iov_t(None, 0), ucp.ucp_dt_iov_t(b"tered!", 5)]
    request = call(pair, pair.near.ep, pieces, 3, ucp.ucp_dt_make_iov(), 0x52)
    expect_equal("pieces", received(pair, 9, 0x52), b"scattered")
    expect_equal("status", pair.finish(request), OK)
    generic = Generic(pair.keep)
    request = call(pair, pair.near.ep, b"generic", 7, generic.datatype, 0x53)
    expect_equal("packed", received(pair, 7, 0x53), bytes(byte ^ 0x5A for byte in b"generic"))
    expect_equal("status", pair.finish(request), OK)
    expect_equal("states", [name for name in generic.calls if name != "pack"], ["start_pack", "finish"])


@across(
    (
        send_nb,
        3328,
        "Each message is associated with a tag value that is used for message matching on the receiver.",
        by_nb,
    ),
    (
        send_nbr,
        3384,
        "Each message is associated with a tag value that is used for message matching on the receiver.",
        by_nbr,
    ),
    (send_sync_nb, 3466, "Message tag.", by_sync_nb),
    (
        send_nbx,
        3488,
        "Each message is associated with a tag value that is used for message matching on the "
        "ucp_tag_recv_nb or receiver.",
        by_nbx,
    ),
    (send_sync_nbx, 3543, "Message tag.", by_sync_nbx),
)
def the_tag_decides_which_receive_gets_it(pair: Pair, call: Send) -> None:
    """Receive two messages in the other order; bits at both ends of the tag count."""
    requests = [call(pair, pair.near.ep, bytes([tag & 0xFF]), 1, BYTE, tag) for tag in (1 << 63 | 5, 6)]
    expect_equal("tag 6", received(pair, 1, 6), b"\x06")
    expect_equal("tag of 64 bits", received(pair, 1, 1 << 63 | 5), b"\x05")
    expect_equal("statuses", [pair.finish(request) for request in requests], [OK, OK])


@across(
    (send_nb, 3331, "The send operation is considered completed when it is safe to reuse the source buffer.", by_nb),
    (
        send_nbr,
        3388,
        "The send operation is considered completed when it is safe to reuse the source buffer.",
        by_nbr,
    ),
    (
        send_nbx,
        3492,
        "The send operation is considered completed when it is safe to reuse the source buffer.",
        by_nbx,
    ),
)
def a_completed_send_does_not_read_its_buffer(pair: Pair, call: Send) -> None:
    """Overwrite the buffers of a waiting message and of a message of several packets: the change does not show."""
    for length in (8, 3000):
        data = bytearray(pattern(length))
        expect_equal("status", pair.finish(call(pair, pair.near.ep, data, length, BYTE, 0x54)), OK)
        data[:] = bytes(length)
        expect_equal(f"{length} bytes", received(pair, length, 0x54), pattern(length))


@across(
    (
        send_nb,
        3332,
        "If the send operation is completed immediately the routine return UCS_OK and the call-back "
        "function cb is not invoked.",
        by_nb,
    ),
    (
        send_nbx,
        3493,
        "If the send operation is completed immediately the routine returns UCS_OK and the call-back "
        "function is not invoked.",
        by_nbx,
    ),
)
def a_send_that_is_over_at_once_calls_nobody_back(pair: Pair, call: Send) -> None:
    """Expect no request, and no call of the callback in progress later."""
    calls = Calls()
    request = call(pair, pair.near.ep, b"now", 3, BYTE, 0x55, calls)
    expect_equal("what the call returned", request, None)
    expect_equal("message", received(pair, 3, 0x55), b"now")
    pair.settle()
    expect_equal("calls", calls.told, [])


@across(
    (
        send_nb,
        3334,
        "If the operation is not completed immediately and no error reported then the UCP library will "
        "schedule to invoke the call-back cb whenever the send operation will be completed.",
        by_nb,
    ),
    (send_sync_nb, 3467, "Callback function that is invoked whenever the send operation is completed.", by_sync_nb),
    (
        send_nbx,
        3495,
        "If the operation is not completed immediately and no error reported then the UCP library will "
        "schedule to invoke the call-back whenever the send operation is completed.",
        by_nbx,
    ),
    (
        send_sync_nbx,
        3549,
        "... The request handle is returned to the application in order to track progress of the message.",
        by_sync_nbx,
    ),
)
def a_send_in_flight_calls_back_once(pair: Pair, call: Send) -> None:
    """Call back with request and UCS_OK, from progress, not inside the call."""
    calls = Calls()
    request = call(pair, pair.near.ep, pattern(LONG), LONG, BYTE, 0x56, calls)
    expect(request is not None, f"{LONG} bytes: expected a request, got None")
    expect_equal("calls inside the call", calls.told, [])
    received(pair, LONG, 0x56)
    pair.wait(lambda: calls.told, "a callback")
    pair.settle()
    expect_equal("calls", calls.told, [(request, OK)])
    expect_equal("status", pair.finish(request), OK)


@across(
    (
        send_nb,
        3329,
        "The routine is non-blocking and therefore returns immediately, however the actual send operation "
        "may be delayed.",
        by_nb,
    ),
    (
        send_nbr,
        3387,
        "The routine is non-blocking and therefore returns immediately, however the actual send operation "
        "may be delayed.",
        by_nbr,
    ),
    (
        send_nbx,
        3491,
        "The routine is non-blocking and therefore returns immediately, however the actual send operation "
        "may be delayed.",
        by_nbx,
    ),
)
def many_sends_are_taken_without_progress(pair: Pair, call: Send) -> None:
    """Send more than a ring of the NIC and its copies hold, before the first receive; they arrive in order."""
    count = 40
    requests = [call(pair, pair.near.ep, index.to_bytes(2, "big"), 2, BYTE, 0x57) for index in range(count)]
    got = [int.from_bytes(received(pair, 2, 0x57), "big") for _ in range(count)]
    expect_equal("order", got, list(range(count)))
    expect_equal("statuses", {pair.finish(request) for request in requests}, {OK})


@across(
    (send_nb, 3354, "UCS_PTR_IS_ERR(_ptr) - The send operation failed.", by_nb),
    (send_nbr, 3442, "Error code as defined by ucs_status_t", by_nbr),
    (send_sync_nb, 3470, "UCS_PTR_IS_ERR(_ptr) - The send operation failed.", by_sync_nb),
    (send_nbx, 3515, "UCS_PTR_IS_ERR(_ptr) - The send operation failed.", by_nbx),
    (send_sync_nbx, 3547, "UCS_PTR_IS_ERR(_ptr) - The send operation failed.", by_sync_nbx),
)
def a_send_that_cannot_be_meant_fails_and_sends_nothing(pair: Pair, call: Send) -> None:
    """Pass a short buffer, a tag above 64 bits, an unknown datatype class, and no endpoint."""
    for what, ep, buffer, count, datatype, tag in (
        ("short buffer", pair.near.ep, b"12", 3, BYTE, 1),
        ("wide tag", pair.near.ep, b"12", 2, BYTE, 1 << 64),
        ("datatype", pair.near.ep, b"12", 2, 5, 1),
        ("no endpoint", pair.near.worker, b"12", 2, BYTE, 1),
    ):
        with expect_status(what, INVALID):
            call(pair, ep, buffer, count, datatype, tag)
    pair.settle()
    expect_equal("what arrived", ucp.ucp_tag_probe_nb(pair.far.worker, 0, 0, 0), (None, None))


# Of some


@send_nbr.says(3379, "In fact request can be allocated by caller on the stack.")
def the_request_is_the_callers(pair: Pair) -> None:
    """Query a request of ucp_request_alloc() for its status, and use it for one send after another."""
    memory = ucp.ucp_request_alloc(pair.near.worker)
    for first in (1, 2):
        status = ucp.ucp_tag_send_nbr(pair.near.ep, pattern(LONG, first), LONG, BYTE, 0x58, memory)
        expect_equal("status of the call", status, IN_PROGRESS)
        expect_equal("message", received(pair, LONG, 0x58), pattern(LONG, first))
        pair.wait(lambda: ucp.ucp_request_check_status(memory) is not IN_PROGRESS, "an end of the send")
        expect_equal("status", ucp.ucp_request_check_status(memory), OK)
    ucp.ucp_request_free(memory)


@send_nbr.says(3438, "UCS_OK - The send operation was completed immediately.")
def nbr_says_ok_of_a_send_that_is_over(pair: Pair) -> None:
    """Send a few bytes, which are copied."""
    memory = ucp.ucp_request_alloc(pair.near.worker)
    status = ucp.ucp_tag_send_nbr(pair.near.ep, b"now", 3, BYTE, 0x59, memory)
    expect_equal("status of the call", status, OK)
    expect_equal("message", received(pair, 3, 0x59), b"now")


@send_nbr.says(
    3392,
    "If the operation is not completed immediately and no error reported then the UCP library will fill a "
    "user provided req and return UCS_INPROGRESS status.",
)
def nbr_says_in_progress_of_a_send_in_flight(pair: Pair) -> None:
    """Send more than a packet; the request says the same until the message has been received."""
    memory = ucp.ucp_request_alloc(pair.near.worker)
    status = ucp.ucp_tag_send_nbr(pair.near.ep, pattern(LONG), LONG, BYTE, 0x5A, memory)
    expect_equal("status of the call", status, IN_PROGRESS)
    expect_equal("status of the request", ucp.ucp_request_check_status(memory), IN_PROGRESS)
    received(pair, LONG, 0x5A)
    expect_equal("status in the end", pair.finish(memory), OK)


@across(
    (
        send_sync_nb,
        3451,
        "... the request completes only after there is a remote tag match on the message",
        by_sync_nb,
    ),
    (
        send_sync_nbx,
        3529,
        "... the request completes only after there is a remote tag match on the message",
        by_sync_nbx,
    ),
)
def a_synchronous_send_waits_for_its_match(pair: Pair, call: Send) -> None:
    """Post a receive with another tag, and probe: only a receive with the tag ends the send."""
    other = ucp.ucp_tag_recv_nbx(pair.far.worker, bytearray(4), 4, 0x60, ALL, None)
    request = call(pair, pair.near.ep, b"sync", 4, BYTE, 0x5B)
    pair.settle()
    expect(ucp.ucp_tag_probe_nb(pair.far.worker, 0x5B, ALL, 0)[0] is not None, "the message has not come")
    pair.settle()
    expect_equal("status before the match", ucp.ucp_request_check_status(request), IN_PROGRESS)
    expect_equal("message", received(pair, 4, 0x5B), b"sync")
    expect_equal("status after it", pair.finish(request), OK)
    ucp.ucp_request_cancel(pair.far.worker, other)
    expect_equal("status of the other receive", pair.finish(other), ucp.UCS_ERR_CANCELED)


@across(
    (
        send_sync_nb,
        3453,
        'This function never completes "in-place", and always returns a request handle.',
        by_sync_nb,
    ),
    (
        send_sync_nbx,
        3531,
        'This function never completes "in-place", and always returns a request handle.',
        by_sync_nbx,
    ),
)
def a_synchronous_send_always_has_a_request(pair: Pair, call: Send) -> None:
    """Send though the receive is there already, and the message has no bytes."""
    receive = ucp.ucp_tag_recv_nbx(pair.far.worker, bytearray(4), 4, 0x5C, ALL, None)
    request = call(pair, pair.near.ep, b"", 0, BYTE, 0x5C)
    expect(request is not None, "expected a request, got None")
    expect_equal("statuses", (pair.finish(request), pair.finish(receive)), (OK, OK))


@send_nbx.says(3500, "Immediate completion signals can be fine-tuned via the ucp_request_param_t.op_attr_mask field")
def completion_at_once_can_be_forbidden(pair: Pair) -> None:
    """Pass NO_IMM_CMPL: a few bytes have a request, and the callback runs."""
    calls = Calls()
    asked = param(op_attr_mask=NO_IMMEDIATE, cb=calls, user_data="mine")
    request = ucp.ucp_tag_send_nbx(pair.near.ep, b"later", 5, 0x5D, asked)
    expect(request is not None, "expected a request, got None")
    expect_equal("message", received(pair, 5, 0x5D), b"later")
    pair.wait(lambda: calls.told, "a callback")
    expect_equal("calls", calls.told, [(request, OK, "mine")])
    expect_equal("status", pair.finish(request), OK)


@send_nbx.says(3502, "... The values of this field are a bit-wise OR of the ucp_op_attr_t enumeration.")
def completion_at_once_can_be_demanded(pair: Pair) -> None:
    """Pass FORCE_IMM_CMPL: a long message is refused and not sent; a short one is sent."""
    asked = param(op_attr_mask=FORCE_IMMEDIATE)
    with expect_status("a long message", ucp.UcsStatus.UCS_ERR_NO_RESOURCE):
        ucp.ucp_tag_send_nbx(pair.near.ep, pattern(LONG), LONG, 0x5E, asked)
    pair.settle()
    expect_equal("what arrived", ucp.ucp_tag_probe_nb(pair.far.worker, 0x5E, ALL, 0), (None, None))
    expect_equal("a short one", ucp.ucp_tag_send_nbx(pair.near.ep, b"short", 5, 0x5E, asked), None)
    expect_equal("message", received(pair, 5, 0x5E), b"short")


@across(
    (
        send_nbx,
        3516,
        "otherwise - Operation was scheduled for send and can be completed in any point in time.",
        ucp.ucp_tag_send_nbx,
    ),
    (
        send_sync_nbx,
        3548,
        "otherwise - Operation was scheduled for send and can be completed in any point in time.",
        ucp.ucp_tag_send_sync_nbx,
    ),
)
def the_callback_gets_the_users_data_and_the_request_is_the_users(pair: Pair, call: Any) -> None:
    """Get param.user_data unchanged; param.request, of ucp_request_alloc(), is returned and passed."""
    calls, data = Calls(), object()
    memory = ucp.ucp_request_alloc(pair.near.worker)
    request = call(pair.near.ep, pattern(LONG), LONG, 0x5F, param(cb=calls, user_data=data, request=memory))
    expect(request is memory, f"expected the user's request, got {request!r}")
    received(pair, LONG, 0x5F)
    expect_equal("status", pair.finish(request), OK)
    expect_equal("calls", calls.told, [(memory, OK, data)])


for _page in (send_nb, send_nbr, send_sync_nb, send_nbx, send_sync_nbx):
    _page.silent(
        "The user should not modify any part of the buffer after this operation is called, until the "
        "operation completes.",
        "asks something of the application",
    )
for _page in (send_sync_nb, send_sync_nbx):
    _page.silent(
        "Returns UCS_ERR_UNSUPPORTED if UCP_ERR_HANDLING_MODE_PEER is enabled. This is a temporary "
        "implementation-related constraint",
        "a constraint of UCX's own: here synchronous sends work with every mode",
    )
send_nbr.silent(
    "it always uses eager protocol to send data up to the rendezvous threshold.",
    "which protocol carries a message is not observable",
)
