"""Tagged receives: ucp_tag_recv_nb, _nbr, _nbx, and ucp_tag_recv_request_test."""

from collections.abc import Callable
from typing import Any

import amoeba.ucp as ucp

from amoeba_tools.conformance.expectations import expect, expect_equal
from amoeba_tools.conformance.ucp.expectations import expect_status
from amoeba_tools.conformance.ucp.functions.common import (
    ALL,
    BYTE,
    CANCELED,
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

recv_nb = Function("ucp_tag_recv_nb", 3718)
recv_nbr = Function("ucp_tag_recv_nbr", 3752)
recv_nbx = Function("ucp_tag_recv_nbx", 3794)
request_test = Function("ucp_tag_recv_request_test", 4356)

TRUNCATED = ucp.UcsStatus.UCS_ERR_MESSAGE_TRUNCATED
Receive = Callable[..., Any]
"""(worker, buffer, count, datatype, tag, mask), returning a request, or None."""


def by_nb(worker: Any, buffer: Any, count: int, datatype: int, tag: int, mask: int, cb: Any = nothing) -> Any:
    return ucp.ucp_tag_recv_nb(worker, buffer, count, datatype, tag, mask, cb)


def by_nbr(worker: Any, buffer: Any, count: int, datatype: int, tag: int, mask: int, cb: Any = None) -> Any:
    memory = ucp.ucp_request_alloc(worker)
    ucp.ucp_tag_recv_nbr(worker, buffer, count, datatype, tag, mask, memory)
    return memory


def by_nbx(worker: Any, buffer: Any, count: int, datatype: int, tag: int, mask: int, cb: Any = None) -> Any:
    told = None if cb is None else lambda request, status, info, user_data: cb(request, status, info)
    return ucp.ucp_tag_recv_nbx(worker, buffer, count, tag, mask, param(datatype=datatype, cb=told))


def send(pair: Pair, data: bytes, tag: int) -> Any:
    return ucp.ucp_tag_send_nbx(pair.near.ep, data, len(data), tag, None)


@across(
    (
        recv_nb,
        3684,
        "This routine receives a message that is described by the local address buffer, size count, and "
        "datatype object on the worker.",
        by_nb,
    ),
    (
        recv_nbr,
        3727,
        "This routine receives a message that is described by the local address buffer, size count, and "
        "datatype object on the worker.",
        by_nbr,
    ),
    (
        recv_nbx,
        3761,
        "This routine receives a message that is described by the local address buffer, size count, and "
        "info object on the worker.",
        by_nbx,
    ),
)
def a_message_is_received_early_and_late(pair: Pair, call: Receive) -> None:
    """Post before the send, and after the message has come; bytes behind the message stay."""
    for length in (0, 5, LONG):
        for early in (True, False):
            buffer = bytearray(b"\xee" * (length + 3))
            if not early:
                sent = send(pair, pattern(length), 0x11)
                pair.settle()
            request = call(pair.far.worker, buffer, length + 3, BYTE, 0x11, ALL)
            if early:
                sent = send(pair, pattern(length), 0x11)
            expect_equal("status", pair.finish(request), OK)
            expect_equal(f"{length} bytes, early: {early}", bytes(buffer), pattern(length) + b"\xee" * 3)
            expect_equal("status of the send", pair.finish(sent), OK)


@across(
    (recv_nb, 3701, "Datatype descriptor for the elements in the buffer.", by_nb),
    (recv_nbr, 3740, "Datatype descriptor for the elements in the buffer.", by_nbr),
    (recv_nbx, 3779, "Operation parameters, see ucp_request_param_t", by_nbx),
)
def datatypes_say_where_it_goes(pair: Pair, call: Receive) -> None:
    """Receive into a list of two pieces, and into an application's datatype, which is unpacked and finished once."""
    one, other = bytearray(4), bytearray(4)
    pieces = [ucp.ucp_dt_iov_t(one, 4), ucp.ucp_dt_iov_t(other, 4)]
    request = call(pair.far.worker, pieces, 2, ucp.ucp_dt_make_iov(), 0x12, ALL)
    send(pair, b"scatter", 0x12)
    expect_equal("status", pair.finish(request), OK)
    expect_equal("pieces", (bytes(one), bytes(other)), (b"scat", b"ter\0"))
    generic, buffer = Generic(pair.keep), bytearray(7)
    request = call(pair.far.worker, buffer, 7, generic.datatype, 0x12, ALL)
    send(pair, bytes(byte ^ 0x5A for byte in b"generic"), 0x12)
    expect_equal("status", pair.finish(request), OK)
    expect_equal("unpacked", bytes(buffer), b"generic")
    expect_equal("states", [name for name in generic.calls if name != "unpack"], ["start_unpack", "finish"])


@across(
    (
        recv_nb,
        3685,
        "The tag value of the receive message has to match the tag and tag_mask values, where the tag_mask"
        " indicates which bits of the tag have to be matched.",
        by_nb,
    ),
    (
        recv_nbr,
        3728,
        "The tag value of the receive message has to match the tag and tag_mask values, where the tag_mask"
        " indicates which bits of the tag have to be matched.",
        by_nbr,
    ),
    (
        recv_nbx,
        3762,
        "The tag value of the receive message has to match the tag and tag_mask values, where the tag_mask"
        " indicates what bits of the tag have to be matched.",
        by_nbx,
    ),
)
def only_bits_of_the_mask_count(pair: Pair, call: Receive) -> None:
    """Change one bit, at both ends and between: the tags match only if the mask lacks that bit."""
    for bit in (0, 31, 63):
        tag, masked, exact = 0x4000_0700_0000_0010, bytearray(1), bytearray(1)
        strict = call(pair.far.worker, exact, 1, BYTE, tag, ALL)
        loose = call(pair.far.worker, masked, 1, BYTE, tag, ALL ^ 1 << bit)
        send(pair, b"1", tag ^ 1 << bit)
        expect_equal(f"bit {bit} ignored", pair.finish(loose), OK)
        expect_equal(f"bit {bit} of the mask", ucp.ucp_request_check_status(strict), IN_PROGRESS)
        send(pair, b"2", tag)
        expect_equal("the same tag", (pair.finish(strict), bytes(exact), bytes(masked)), (OK, b"2", b"1"))


@across(
    (
        recv_nb,
        3703,
        "Bit mask that indicates the bits that are used for the matching of the incoming tag against the "
        "expected tag.",
        by_nb,
    ),
    (
        recv_nbr,
        3742,
        "Bit mask that indicates the bits that are used for the matching of the incoming tag against the "
        "expected tag.",
        by_nbr,
    ),
    (
        recv_nbx,
        3776,
        "Bit mask that indicates the bits that are used for the matching of the incoming tag against the "
        "expected tag.",
        by_nbx,
    ),
)
def without_a_bit_of_the_mask_messages_come_in_order(pair: Pair, call: Receive) -> None:
    """Mask 0 takes any; the receive's own tag does not matter; what was sent first comes first."""
    for tag in (9, 3, 1 << 60):
        send(pair, tag.to_bytes(8, "big"), tag)
    for expected in (9, 3, 1 << 60):
        buffer = bytearray(8)
        expect_equal("status", pair.finish(call(pair.far.worker, buffer, 8, BYTE, 0xABCD, 0)), OK)
        expect_equal("tag", int.from_bytes(buffer, "big"), expected)


@across(
    (
        recv_nb,
        3688,
        "The receive operation is considered completed when the message is delivered to the buffer.",
        by_nb,
    ),
    (
        recv_nbr,
        3731,
        "The receive operation is considered completed when the message is delivered to the buffer.",
        by_nbr,
    ),
    (
        recv_nbx,
        3765,
        "The receive operation is considered completed when the message is delivered to the buffer.",
        by_nbx,
    ),
)
def receives_are_met_in_the_order_of_posting(pair: Pair, call: Receive) -> None:
    """Post five receives with one tag; each is over when its message is in its buffer, the others go on."""
    buffers = [bytearray(1) for _ in range(5)]
    requests = [call(pair.far.worker, buffer, 1, BYTE, 0x13, ALL) for buffer in buffers]
    for index, request in enumerate(requests):
        send(pair, bytes([index + 1]), 0x13)
        pair.wait(lambda: ucp.ucp_request_check_status(request) is not IN_PROGRESS, "the next receive")  # noqa: B023
        expect_equal("what is there", b"".join(buffers), bytes(range(1, index + 2)) + bytes(4 - index))
    expect_equal("statuses", [pair.finish(request) for request in requests], [OK] * 5)


@across(
    (
        recv_nb,
        3690,
        "In order to notify the application about completion of the receive operation the UCP library will"
        " invoke the call-back cb when the received message is in the receive buffer and ready for "
        "application access.",
        by_nb,
    ),
    (
        recv_nbx,
        3767,
        "In order to notify the application about completion of the receive operation the UCP library will"
        " invoke the call-back cb when the received message is in the receive buffer and ready for "
        "application access.",
        by_nbx,
    ),
)
def the_callback_runs_when_the_message_is_there(pair: Pair, call: Receive) -> None:
    """Expect one call, with request, status, and the message's tag and length; the buffer is filled then."""
    buffer, seen, calls = bytearray(8), [], Calls()

    def note(*told: Any) -> None:
        seen.append(bytes(buffer))
        calls(*told)

    request = call(pair.far.worker, buffer, 8, BYTE, 0x14, 0xFF, note)
    expect_equal("calls before the message", calls.told, [])
    send(pair, b"hello", 0x7714)
    pair.wait(lambda: calls.told, "a callback")
    pair.settle()
    expect_equal("calls", calls.told, [(request, OK, ucp.ucp_tag_recv_info_t(0x7714, 5))])
    expect_equal("buffer in the callback", seen, [b"hello\0\0\0"])
    ucp.ucp_request_free(request)


@across(
    (recv_nb, 3710, "UCS_PTR_IS_ERR(_ptr) - The receive operation failed.", by_nb),
    (recv_nbr, 3750, "Error code as defined by ucs_status_t", by_nbr),
    (recv_nbx, 3769, "If the receive operation cannot be stated the routine returns an error.", by_nbx),
)
def a_receive_that_cannot_be_meant_fails(pair: Pair, call: Receive) -> None:
    """Pass a short buffer, a read-only one, a tag above 64 bits, and no worker; no receive stays posted."""
    far = pair.far.worker
    for what, worker, buffer, count, tag, mask in (
        ("short buffer", far, bytearray(2), 3, 1, ALL),
        ("read-only buffer", far, b"12", 2, 1, ALL),
        ("wide tag", far, bytearray(2), 2, 1 << 64, ALL),
        ("wide mask", far, bytearray(2), 2, 1, 1 << 64),
        ("no worker", pair.far.ep, bytearray(2), 2, 1, ALL),
    ):
        with expect_status(what, INVALID):
            call(worker, buffer, count, BYTE, tag, mask)
    send(pair, b"12", 1)
    pair.wait(lambda: ucp.ucp_tag_probe_nb(far, 1, ALL, 0)[0], "a message that met no receive")
    expect_equal("receiving it", pair.finish(by_nbx(far, bytearray(2), 2, BYTE, 1, ALL)), OK)


@across(
    (recv_nb, 3710, "UCS_PTR_IS_ERR(_ptr) - The receive operation failed.", by_nb),
    (recv_nbr, 3750, "Error code as defined by ucs_status_t", by_nbr),
    (recv_nbx, 3786, "UCS_PTR_IS_ERR(_ptr) - The receive operation failed.", by_nbx),
)
def a_message_that_does_not_fit_is_truncated(pair: Pair, call: Receive) -> None:
    """Expect MESSAGE_TRUNCATED; bytes behind the count stay, and the next message is received."""
    for length in (5, LONG):
        buffer = bytearray(b"\xee" * 8)
        request = call(pair.far.worker, buffer, 4, BYTE, 0x15, ALL)
        sent = send(pair, pattern(length), 0x15)
        expect_equal(f"{length} bytes for 4", pair.finish(request), TRUNCATED)
        expect_equal("behind the buffer", bytes(buffer[4:]), b"\xee" * 4)
        pair.finish(sent)
    send(pair, b"next", 0x15)
    expect_equal("the next", pair.finish(call(pair.far.worker, bytearray(4), 4, BYTE, 0x15, ALL)), OK)


@recv_nb.says(3695, "This routine cannot return UCS_OK. It always returns a request handle or an error.")
def nb_always_has_a_request(pair: Pair) -> None:
    """Receive though the message is there; its callback runs, too."""
    send(pair, b"there", 0x16)
    pair.wait(lambda: ucp.ucp_tag_probe_nb(pair.far.worker, 0x16, ALL, 0)[0], "the message")
    calls = Calls()
    request = ucp.ucp_tag_recv_nb(pair.far.worker, bytearray(5), 5, BYTE, 0x16, ALL, calls)
    expect(request is not None, "expected a request, got None")
    pair.wait(lambda: calls.told, "a callback")
    expect_equal("status", pair.finish(request), OK)
    expect_equal("calls", calls.statuses, [OK])


@recv_nbr.says(
    3733,
    "In order to monitor completion of the operation ucp_request_check_status or ucp_tag_recv_request_test"
    " should be used.",
)
def both_calls_tell_of_a_request_of_the_callers(pair: Pair) -> None:
    """Expect UCS_INPROGRESS before the message, UCS_OK with tag and length after it."""
    memory, buffer = ucp.ucp_request_alloc(pair.far.worker), bytearray(4)
    ucp.ucp_tag_recv_nbr(pair.far.worker, buffer, 4, BYTE, 0x17, ALL, memory)
    expect_equal("status before", ucp.ucp_request_check_status(memory), IN_PROGRESS)
    expect_equal("test before", ucp.ucp_tag_recv_request_test(memory)[0], IN_PROGRESS)
    send(pair, b"mine", 0x17)
    pair.wait(lambda: ucp.ucp_request_check_status(memory) is not IN_PROGRESS, "the message")
    told = ucp.ucp_tag_recv_request_test(memory)
    expect_equal("test after", told, (OK, ucp.ucp_tag_recv_info_t(0x17, 4)))
    ucp.ucp_request_free(memory)


@recv_nbr.says(3745, "Request handle allocated by the user.")
def a_request_of_the_callers_serves_one_receive_at_a_time(pair: Pair) -> None:
    """Reuse a request during the first receive, which is refused, and afterwards, which works."""
    memory, worker = ucp.ucp_request_alloc(pair.far.worker), pair.far.worker
    ucp.ucp_tag_recv_nbr(worker, bytearray(4), 4, BYTE, 0x18, ALL, memory)
    with expect_status("a second receive", INVALID):
        ucp.ucp_tag_recv_nbr(worker, bytearray(4), 4, BYTE, 0x18, ALL, memory)
    for _ in range(2):
        send(pair, b"mine", 0x18)
        pair.wait(lambda: ucp.ucp_request_check_status(memory) is not IN_PROGRESS, "the message")
        if not _:
            ucp.ucp_tag_recv_nbr(worker, bytearray(4), 4, BYTE, 0x18, ALL, memory)
    expect_equal("status", ucp.ucp_request_check_status(memory), OK)
    ucp.ucp_request_free(memory)


@recv_nbx.says(
    3781,
    "NULL - The receive operation was completed immediately. In this case, if param->recv_info.tag_info is"
    " specified in the param, the value to which it points is updated with the information about the "
    "received message.",
)
def a_message_that_is_there_is_received_at_once(pair: Pair) -> None:
    """Get None, the buffer and recv_info filled; no callback runs."""
    send(pair, b"there", 0x19)
    pair.wait(lambda: ucp.ucp_tag_probe_nb(pair.far.worker, 0x19, ALL, 0)[0], "the message")
    info, calls, buffer = ucp.ucp_tag_recv_info_t(), Calls(), bytearray(9)
    asked = param(recv_info=info, cb=calls)
    request = ucp.ucp_tag_recv_nbx(pair.far.worker, buffer, 9, 0, 0, asked)
    expect_equal("what the call returned", request, None)
    expect_equal("info", info, ucp.ucp_tag_recv_info_t(0x19, 5))
    expect_equal("buffer", bytes(buffer), b"there\0\0\0\0")
    pair.settle()
    expect_equal("calls", calls.told, [])


@recv_nbx.says(
    3787,
    "otherwise - Operation was scheduled for receive. The request handle is returned to the application in"
    " order to track progress of the operation.",
)
def with_no_imm_cmpl_there_is_a_request(pair: Pair) -> None:
    """Receive though the message is there; the callback gets user_data."""
    send(pair, b"there", 0x1A)
    pair.wait(lambda: ucp.ucp_tag_probe_nb(pair.far.worker, 0x1A, ALL, 0)[0], "the message")
    calls = Calls()
    asked = param(op_attr_mask=NO_IMMEDIATE, cb=calls, user_data="mine")
    request = ucp.ucp_tag_recv_nbx(pair.far.worker, bytearray(5), 5, 0x1A, ALL, asked)
    expect(request is not None, "expected a request, got None")
    pair.wait(lambda: calls.told, "a callback")
    expect_equal("calls", calls.told, [(request, OK, ucp.ucp_tag_recv_info_t(0x1A, 5), "mine")])
    ucp.ucp_request_free(request)


@recv_nbx.says(3764, "The routine is a non-blocking and therefore returns immediately.")
def with_force_imm_cmpl_it_is_now_or_never(pair: Pair) -> None:
    """Receive without a message: NO_RESOURCE, and no receive stays posted; with a message: None."""
    asked = param(op_attr_mask=FORCE_IMMEDIATE)
    with expect_status("no message", ucp.UcsStatus.UCS_ERR_NO_RESOURCE):
        ucp.ucp_tag_recv_nbx(pair.far.worker, bytearray(3), 3, 0x1B, ALL, asked)
    send(pair, b"now", 0x1B)
    pair.wait(lambda: ucp.ucp_tag_probe_nb(pair.far.worker, 0x1B, ALL, 0)[0], "the message")
    buffer = bytearray(3)
    expect_equal("a message", ucp.ucp_tag_recv_nbx(pair.far.worker, buffer, 3, 0x1B, ALL, asked), None)
    expect_equal("buffer", bytes(buffer), b"now")


@across(
    (recv_nb, 3687, "The routine is non-blocking and therefore returns immediately.", by_nb),
    (recv_nbr, 3730, "The routine is non-blocking and therefore returns immediately.", by_nbr),
    (recv_nbx, 3774, "Number of elements to receive", by_nbx),
)
def any_number_can_be_posted(pair: Pair, call: Receive) -> None:
    """Post more than the NIC's list holds (64), which are met in order; and cancel them."""
    count = 70
    buffers = [bytearray(1) for _ in range(count)]
    requests = [call(pair.far.worker, buffer, 1, BYTE, 0x1C, ALL) for buffer in buffers]
    for index in range(4):
        send(pair, bytes([index + 1]), 0x1C)
    expect_equal("first", [pair.finish(request) for request in requests[:4]], [OK] * 4)
    expect_equal("buffers", b"".join(buffers[:5]), bytes([1, 2, 3, 4, 0]))
    for request in requests[4:]:
        ucp.ucp_request_cancel(pair.far.worker, request)
    expect_equal("others", {pair.finish(request) for request in requests[4:]}, {CANCELED})


# ucp_tag_recv_request_test


@request_test.says(
    4345,
    "This routine checks the state and returns current status of the request returned from ucp_tag_recv_nb"
    " routine or the user allocated request for ucp_tag_recv_nbr.",
)
def test_tells_status_and_message(pair: Pair) -> None:
    """Expect UCS_INPROGRESS until the message is there; then UCS_OK, again and again, until it is freed."""
    request = ucp.ucp_tag_recv_nb(pair.far.worker, bytearray(9), 9, BYTE, 0x20, 0xFF, nothing)
    expect_equal("before", ucp.ucp_tag_recv_request_test(request)[0], IN_PROGRESS)
    send(pair, b"tested", 0x120)
    pair.wait(lambda: ucp.ucp_tag_recv_request_test(request)[0] is not IN_PROGRESS, "the message")
    for _ in range(2):
        told = ucp.ucp_tag_recv_request_test(request)
        expect_equal("after", told, (OK, ucp.ucp_tag_recv_info_t(0x120, 6)))
    ucp.ucp_request_free(request)


@request_test.says(4347, "Any value different from UCS_INPROGRESS means that the request is in a completed state.")
def test_tells_how_it_has_failed(pair: Pair) -> None:
    """Expect CANCELED, and MESSAGE_TRUNCATED with the length of the message."""
    taken_back = ucp.ucp_tag_recv_nb(pair.far.worker, bytearray(9), 9, BYTE, 0x21, ALL, nothing)
    ucp.ucp_request_cancel(pair.far.worker, taken_back)
    pair.wait(lambda: ucp.ucp_tag_recv_request_test(taken_back)[0] is not IN_PROGRESS, "the end")
    expect_equal("canceled", ucp.ucp_tag_recv_request_test(taken_back)[0], CANCELED)
    ucp.ucp_request_free(taken_back)
    short = ucp.ucp_tag_recv_nb(pair.far.worker, bytearray(2), 2, BYTE, 0x22, ALL, nothing)
    send(pair, b"longer", 0x22)
    pair.wait(lambda: ucp.ucp_tag_recv_request_test(short)[0] is not IN_PROGRESS, "the end")
    expect_equal("truncated", ucp.ucp_tag_recv_request_test(short), (TRUNCATED, ucp.ucp_tag_recv_info_t(0x22, 6)))
    ucp.ucp_request_free(short)


@request_test.says(4351, "It is filled with the details about the message available at the moment of calling.")
def test_takes_requests_of_tagged_receives_alone(pair: Pair) -> None:
    """Test a request of a send, and an invalid request: INVALID_PARAM."""
    sent = ucp.ucp_tag_send_nbx(pair.near.ep, b"sent", 4, 0x23, param(op_attr_mask=NO_IMMEDIATE))
    with expect_status("a send", INVALID):
        ucp.ucp_tag_recv_request_test(sent)
    with expect_status("no request", INVALID):
        ucp.ucp_tag_recv_request_test(b"request")
    expect_equal("receive", pair.finish(by_nbx(pair.far.worker, bytearray(4), 4, BYTE, 0x23, ALL)), OK)
    expect_equal("send", pair.finish(sent), OK)


recv_nbr.silent(
    "There should be at least UCP request size bytes of available space before the req.",
    "requests are objects here, which ucp_request_alloc() makes as large as they have to be",
)
