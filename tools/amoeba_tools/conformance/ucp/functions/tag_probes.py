"""Probes of tagged messages: ucp_tag_probe_nb, ucp_tag_msg_recv_nb, ucp_tag_msg_recv_nbx."""

from collections.abc import Callable
from typing import Any

import amoeba.ucp as ucp

from amoeba_tools.conformance.expectations import expect, expect_equal
from amoeba_tools.conformance.ucp.expectations import expect_status
from amoeba_tools.conformance.ucp.functions.common import (
    ALL,
    BYTE,
    IN_PROGRESS,
    INVALID,
    LONG,
    NO_IMMEDIATE,
    OK,
    Calls,
    nothing,
    param,
    pattern,
)
from amoeba_tools.conformance.ucp.functions.tag_sends import received
from amoeba_tools.conformance.ucp.pair import Pair
from amoeba_tools.conformance.ucp.registry import Function, across

probe = Function("ucp_tag_probe_nb", 3839)
msg_recv_nb = Function("ucp_tag_msg_recv_nb", 3877)
msg_recv_nbx = Function("ucp_tag_msg_recv_nbx", 3913)


def by_nb(worker: Any, buffer: Any, count: int, message: Any, cb: Any = nothing) -> Any:
    return ucp.ucp_tag_msg_recv_nb(worker, buffer, count, BYTE, message, cb)


def by_nbx(worker: Any, buffer: Any, count: int, message: Any, cb: Any = None) -> Any:
    told = None if cb is None else lambda request, status, info, user_data: cb(request, status, info)
    return ucp.ucp_tag_msg_recv_nbx(worker, buffer, count, message, param(cb=told))


def arrived(pair: Pair, data: bytes, tag: int, *, remove: bool = True) -> tuple[Any, Any, Any]:
    """Send a message, and probe for it until it is there: (request of the send, message, info)."""
    sent = ucp.ucp_tag_send_nbx(pair.near.ep, data, len(data), tag, None)
    found: list[Any] = []

    def look() -> bool:
        found[:] = ucp.ucp_tag_probe_nb(pair.far.worker, tag, ALL, remove)
        return found[0] is not None

    pair.wait(look, f"a message with tag {tag:#x}")
    return sent, found[0], found[1]


@probe.says(
    3803,
    "This routine probes (checks) if a messages described by the tag and tag_mask was received (fully or "
    "partially) on the worker.",
)
def a_message_that_has_come_is_found(pair: Pair) -> None:
    """Probe for messages of no bytes, of a few, and of so many that they are still at the sender."""
    for length in (0, 5, LONG):
        sent, message, info = arrived(pair, pattern(length), 0x31, remove=False)
        expect(message is not None, "expected a message")
        expect_equal("message", received(pair, length, 0x31), pattern(length))
        expect_equal("status of the send", pair.finish(sent), OK)
        expect_equal("info", info, ucp.ucp_tag_recv_info_t(0x31, length))


@probe.says(3830, "NULL - No match found.")
def without_a_match_there_is_nothing(pair: Pair) -> None:
    """Probe without a message, with one of another tag, and with one that a receive has met."""
    worker = pair.far.worker
    expect_equal("no message", ucp.ucp_tag_probe_nb(worker, 0, 0, 1), (None, None))
    sent, _, _ = arrived(pair, b"other", 0x32, remove=False)
    expect_equal("another tag", ucp.ucp_tag_probe_nb(worker, 0x33, ALL, 1), (None, None))
    expect_equal("message", received(pair, 5, 0x32), b"other")
    expect_equal("received", ucp.ucp_tag_probe_nb(worker, 0, 0, 1), (None, None))
    pair.finish(sent)


@probe.says(
    3804,
    "The tag value of the received message has to match the tag and tag_mask values, where the tag_mask "
    "indicates what bits of the tag have to be matched.",
)
def bits_of_the_mask_have_to_match(pair: Pair) -> None:
    """Probe for a tag with one other bit: only a mask without that bit finds the message."""
    arrived(pair, b"x", 0x34, remove=False)
    for bit in (0, 32, 63):
        other = 0x34 ^ 1 << bit
        expect_equal(f"bit {bit}", ucp.ucp_tag_probe_nb(pair.far.worker, other, ALL, 0), (None, None))
        found, info = ucp.ucp_tag_probe_nb(pair.far.worker, other, ALL ^ 1 << bit, 0)
        expect(found is not None, f"bit {bit} masked out: expected a message, got None")
        expect_equal("info", info, ucp.ucp_tag_recv_info_t(0x34, 1))
    received(pair, 1, 0x34)


@probe.says(3817, "If true (1), the message handle is removed from the UCP library")
def a_removed_message_is_for_nobody_else(pair: Pair) -> None:
    """Probe again, which finds nothing; a receive with its tag waits for the next."""
    _, message, _ = arrived(pair, b"mine", 0x35)
    expect_equal("another probe", ucp.ucp_tag_probe_nb(pair.far.worker, 0x35, ALL, 1), (None, None))
    buffer, next_one = bytearray(4), bytearray(4)
    receive = ucp.ucp_tag_recv_nbx(pair.far.worker, next_one, 4, 0x35, ALL, None)
    expect(receive is not None, "a receive got the message that was removed")
    ucp.ucp_tag_send_nbx(pair.near.ep, b"next", 4, 0x35, None)
    expect_equal("status", pair.finish(receive), OK)
    expect_equal("status of the removed", pair.finish(by_nbx(pair.far.worker, buffer, 4, message)), OK)
    expect_equal("messages", (bytes(buffer), bytes(next_one)), (b"mine", b"next"))


@probe.says(
    3823,
    "If false (0), the return value is merely an indication to whether a matching message is present, and "
    "it cannot be used in any other way, and in particular it cannot be passed to ucp_tag_msg_recv_nb().",
)
def what_was_not_removed_cannot_be_received_by_its_handle(pair: Pair) -> None:
    """Receive by the handle: both calls refuse; probes still find the message, and a receive gets it."""
    _, message, _ = arrived(pair, b"stay", 0x36, remove=False)
    for call in (by_nb, by_nbx):
        with expect_status("an indication", INVALID):
            call(pair.far.worker, bytearray(4), 4, message)
    expect(ucp.ucp_tag_probe_nb(pair.far.worker, 0x36, ALL, 0)[0] is not None, "it is gone")
    expect_equal("message", received(pair, 4, 0x36), b"stay")


@probe.says(3827, "If the matching message is found the descriptor is filled with the details about the message.")
def the_oldest_match_is_found_with_its_tag_and_length(pair: Pair) -> None:
    """Probe three messages with a mask that matches two of them."""
    for tag, data in ((0x111, b"1"), (0x212, b"22"), (0x313, b"333")):
        arrived(pair, data, tag, remove=False)
    info = ucp.ucp_tag_probe_nb(pair.far.worker, 0x10, 0xFC, 0)[1]
    expect_equal("any of them", info, ucp.ucp_tag_recv_info_t(0x111, 1))
    info = ucp.ucp_tag_probe_nb(pair.far.worker, 0x2, 0x2, 0)[1]
    expect_equal("the older of two", info, ucp.ucp_tag_recv_info_t(0x212, 2))
    for tag, length in ((0x313, 3), (0x111, 1), (0x212, 2)):
        received(pair, length, tag)


@probe.says(3834, "This function does not advance the communication state of the network.")
def a_probe_makes_no_progress(pair: Pair) -> None:
    """Check that a due callback does not run inside the probe."""
    calls = Calls()
    receive = ucp.ucp_tag_recv_nb(pair.far.worker, bytearray(4), 4, BYTE, 0x37, ALL, calls)
    ucp.ucp_tag_send_nbx(pair.near.ep, b"due!", 4, 0x37, None)
    for _ in range(30):
        pair.near.progress()
        ucp.ucp_tag_probe_nb(pair.far.worker, 0, 0, 0)
    expect_equal("calls", calls.told, [])
    expect_equal("status", pair.finish(receive), OK)


Receive = Callable[..., Any]


@across(
    (
        msg_recv_nb,
        3848,
        "This routine receives a message that is described by the local address buffer, size count, "
        "message handle, and datatype object on the worker.",
        by_nb,
    ),
    (
        msg_recv_nbx,
        3887,
        "This routine receives a message that is described by the local address buffer, size count, and "
        "message handle on the worker.",
        by_nbx,
    ),
)
def a_probed_message_is_received(pair: Pair, call: Receive) -> None:
    """Receive no bytes, a few, and a message still at its sender, whose send ends then."""
    for length in (0, 5, LONG):
        sent, message, info = arrived(pair, pattern(length), 0x38)
        expect_equal("info", info, ucp.ucp_tag_recv_info_t(0x38, length))
        buffer = bytearray(length + 2)
        expect_equal("status", pair.finish(call(pair.far.worker, buffer, length + 2, message)), OK)
        expect_equal(f"{length} bytes", bytes(buffer), pattern(length) + bytes(2))
        expect_equal("status of the send", pair.finish(sent), OK)


@across(
    (msg_recv_nb, 3850, "The message handle can be obtained by calling the ucp_tag_probe_nb() routine.", by_nb),
    (msg_recv_nbx, 3889, "The message handle can be obtained by calling the ucp_tag_probe_nb() routine.", by_nbx),
)
def a_message_can_be_received_once(pair: Pair, call: Receive) -> None:
    """Receive a message twice, and by another worker: INVALID_PARAM."""
    _, message, _ = arrived(pair, b"once", 0x39)
    with expect_status("another worker", INVALID):
        call(pair.near.worker, bytearray(4), 4, message)
    expect_equal("status", pair.finish(call(pair.far.worker, bytearray(4), 4, message)), OK)
    with expect_status("the second time", INVALID):
        call(pair.far.worker, bytearray(4), 4, message)
    with expect_status("no message", INVALID):
        call(pair.far.worker, bytearray(4), 4, None)


@across(
    (
        msg_recv_nb,
        3854,
        "In order to notify the application about completion of the receive operation the UCP library will"
        " invoke the call-back cb when the received message is in the receive buffer and ready for "
        "application access.",
        by_nb,
    ),
    (
        msg_recv_nbx,
        3893,
        "In order to notify the application about completion of the receive operation the UCP library will"
        " invoke the call-back cb when the received message is in the receive buffer and ready for "
        "application access.",
        by_nbx,
    ),
)
def the_callback_runs_when_the_probed_message_is_there(pair: Pair, call: Receive) -> None:
    """Probe a message still at its sender: one callback, with status, tag and length."""
    sent, message, _ = arrived(pair, pattern(LONG), 0x3A)
    buffer, calls = bytearray(LONG), Calls()
    request = call(pair.far.worker, buffer, LONG, message, calls)
    expect(request is not None, "expected a request, got None")
    pair.wait(lambda: calls.told, "a callback")
    expect_equal("calls", calls.told, [(request, OK, ucp.ucp_tag_recv_info_t(0x3A, LONG))])
    expect_equal("buffer", bytes(buffer), pattern(LONG))
    expect_equal("statuses", (pair.finish(request), pair.finish(sent)), (OK, OK))


@across(
    (msg_recv_nb, 3869, "UCS_PTR_IS_ERR(_ptr) - The receive operation failed.", by_nb),
    (msg_recv_nbx, 3896, "If the receive operation cannot be started the routine returns an error.", by_nbx),
)
def a_failed_receive_leaves_the_message(pair: Pair, call: Receive) -> None:
    """Use a buffer shorter than its count, and a read-only one; a correct receive then gets the message."""
    _, message, _ = arrived(pair, b"left", 0x3B)
    for buffer in (bytearray(3), b"left"):
        with expect_status("wrong buffer", INVALID):
            call(pair.far.worker, buffer, 4, message)
    buffer = bytearray(4)
    expect_equal("status", pair.finish(call(pair.far.worker, buffer, 4, message)), OK)
    expect_equal("message", bytes(buffer), b"left")


@msg_recv_nb.says(
    3870,
    "otherwise - Operation was scheduled for receive. The request handle is returned to the application in"
    " order to track progress of the operation.",
)
def nb_of_a_message_always_has_a_request(pair: Pair) -> None:
    """Receive though the message is there; the callback runs."""
    _, message, _ = arrived(pair, b"here", 0x3C)
    calls = Calls()
    request = ucp.ucp_tag_msg_recv_nb(pair.far.worker, bytearray(4), 4, BYTE, message, calls)
    expect(request is not None, "expected a request, got None")
    pair.wait(lambda: calls.told, "a callback")
    expect_equal("calls", calls.told, [(request, OK, ucp.ucp_tag_recv_info_t(0x3C, 4))])
    expect_equal("status", pair.finish(request), OK)


@msg_recv_nbx.says(
    3906,
    "otherwise - Operation was scheduled for receive. The request handle is returned to the application in"
    " order to track progress of the operation.",
)
def nbx_of_a_message_has_a_request_if_asked(pair: Pair) -> None:
    """Pass NO_IMM_CMPL and user data; without the flag a short message is received at once, with recv_info."""
    _, message, _ = arrived(pair, b"here", 0x3D)
    calls = Calls()
    asked = param(op_attr_mask=NO_IMMEDIATE, cb=calls, user_data=7)
    request = ucp.ucp_tag_msg_recv_nbx(pair.far.worker, bytearray(4), 4, message, asked)
    expect(request is not None, "expected a request, got None")
    pair.wait(lambda: calls.told, "a callback")
    expect_equal("calls", calls.told, [(request, OK, ucp.ucp_tag_recv_info_t(0x3D, 4), 7)])
    expect(ucp.ucp_request_check_status(request) is not IN_PROGRESS, "it is not over")
    ucp.ucp_request_free(request)
    _, message, _ = arrived(pair, b"here", 0x3D)
    info = ucp.ucp_tag_recv_info_t()
    at_once = ucp.ucp_tag_msg_recv_nbx(pair.far.worker, bytearray(4), 4, message, param(recv_info=info))
    expect_equal("at once", (at_once, info), (None, ucp.ucp_tag_recv_info_t(0x3D, 4)))
