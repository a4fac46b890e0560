"""Data of active messages that handlers keep: receiving and releasing it (group COMM)."""

from typing import Any

import amoeba.ucp as ucp

from amoeba_tools.conformance.expectations import expect, expect_equal
from amoeba_tools.conformance.ucp.expectations import expect_status
from amoeba_tools.conformance.ucp.functions.active_messages import (
    ID,
    IS_DATA,
    PERSISTENT,
    RNDV,
    Heard,
    by_nb,
    by_nbx,
    send,
    send_nb,
    set_handler,
    set_recv_handler,
)
from amoeba_tools.conformance.ucp.functions.common import (
    FORCE_IMMEDIATE,
    IN_PROGRESS,
    INVALID,
    LONG,
    OK,
    Calls,
    param,
    pattern,
)
from amoeba_tools.conformance.ucp.pair import Pair
from amoeba_tools.conformance.ucp.registry import Function, across

recv_data_nbx = Function("ucp_am_recv_data_nbx", 3229)
data_release = Function("ucp_am_data_release", 3246)


# Receiving data


@recv_data_nbx.says(
    3187,
    "This routine receives a message that is described by the data descriptor data_desc, local address "
    "buffer, size count and param parameters on the worker.",
)
def a_rendezvous_is_received_into_the_buffer(pair: Pair) -> None:
    """Receive a few bytes, and many, after the handler has kept them; the sender's request ends."""
    heard = Heard(pair, verdict=IN_PROGRESS)
    for size in (1, LONG):
        request = send(pair.near.ep, pattern(size), flags=int(RNDV))
        pair.wait(lambda: heard.came, "the message")
        heard.came.clear()
        buffer = bytearray(size)
        received = ucp.ucp_am_recv_data_nbx(pair.far.worker, heard.data[-1], buffer, size, None)
        expect_equal("statuses", (pair.finish(received), pair.finish(request)), (OK, OK))
        expect_equal(f"{size} bytes", bytes(buffer), pattern(size))


@recv_data_nbx.says(
    3199,
    "It is a persistent data pointer (UCP_AM_RECV_ATTR_FLAG_DATA is set in ucp_am_recv_param_t.recv_attr).",
)
def persistent_data_is_received_into_the_buffer(pair: Pair) -> None:
    """Receive into a list of two pieces; then the data is no descriptor any more."""
    heard = Heard(pair, verdict=IN_PROGRESS, flags=int(PERSISTENT))
    send(pair.near.ep, b"persistent")
    pair.wait(lambda: heard.came, "the message")
    expect(heard.attributes[0] & IS_DATA, f"expected UCP_AM_RECV_ATTR_FLAG_DATA, got {heard.attributes[0]!r}")
    one, other = bytearray(3), bytearray(7)
    pieces = [ucp.ucp_dt_iov_t(one, 3), ucp.ucp_dt_iov_t(other, 7)]
    asked = param(datatype=ucp.ucp_dt_make_iov())
    received = ucp.ucp_am_recv_data_nbx(pair.far.worker, heard.data[0], pieces, 2, asked)
    expect_equal("status", pair.finish(received), OK)
    expect_equal("pieces", (bytes(one), bytes(other)), (b"per", b"sistent"))
    with expect_status("the second time", INVALID):
        ucp.ucp_am_recv_data_nbx(pair.far.worker, heard.data[0], bytearray(10), 10, None)


@recv_data_nbx.says(
    3203,
    "After this call UCP takes ownership of data_desc descriptor, so there is no need to release it even "
    "if the operation fails.",
)
def a_descriptor_is_received_once(pair: Pair) -> None:
    """Receive and release it again, which fails; so does anything that never was a descriptor."""
    heard = Heard(pair, verdict=IN_PROGRESS)
    request = send(pair.near.ep, pattern(LONG), flags=int(RNDV))
    pair.wait(lambda: heard.came, "the message")
    received = ucp.ucp_am_recv_data_nbx(pair.far.worker, heard.data[0], bytearray(LONG), LONG, None)
    expect_equal("statuses", (pair.finish(received), pair.finish(request)), (OK, OK))
    with expect_status("receiving it again", INVALID):
        ucp.ucp_am_recv_data_nbx(pair.far.worker, heard.data[0], bytearray(LONG), LONG, None)
    with expect_status("releasing it", INVALID):
        ucp.ucp_am_data_release(pair.far.worker, heard.data[0])
    with expect_status("no descriptor", INVALID):
        ucp.ucp_am_recv_data_nbx(pair.far.worker, b"data", bytearray(4), 4, None)


@recv_data_nbx.says(3221, "otherwise - Receive operation was scheduled and can be completed at any point in time.")
def receiving_calls_back_with_the_length(pair: Pair) -> None:
    """Request, UCS_OK, bytes, and user data; the buffer may be longer."""
    heard, calls = Heard(pair, verdict=IN_PROGRESS), Calls()
    request = send(pair.near.ep, pattern(LONG), flags=int(RNDV))
    pair.wait(lambda: heard.came, "the message")
    buffer, asked = bytearray(LONG + 5), param(cb=calls, user_data="mine")
    received = ucp.ucp_am_recv_data_nbx(pair.far.worker, heard.data[0], buffer, len(buffer), asked)
    expect(received is not None, "expected a request, got None")
    pair.wait(lambda: calls.told, "a callback")
    expect_equal("calls", calls.told, [(received, OK, LONG, "mine")])
    expect_equal("buffer", bytes(buffer), pattern(LONG) + bytes(5))
    expect_equal("statuses", (pair.finish(received), pair.finish(request)), (OK, OK))


@recv_data_nbx.says(
    3215,
    "NULL - The receive operation was completed immediately. In this case, if param->recv_info.length is "
    "specified in the param, the value to which it points is updated with the size of the received "
    "message.",
)
def data_that_is_there_is_received_at_once(pair: Pair) -> None:
    """Receive persistent data; no callback runs."""
    heard, calls = Heard(pair, verdict=IN_PROGRESS, flags=int(PERSISTENT)), Calls()
    send(pair.near.ep, b"there")
    pair.wait(lambda: heard.came, "the message")
    info, buffer = ucp.ucp_tag_recv_info_t(), bytearray(9)
    asked = param(recv_info=info, cb=calls)
    expect_equal(
        "what the call returned", ucp.ucp_am_recv_data_nbx(pair.far.worker, heard.data[0], buffer, 9, asked), None
    )
    expect_equal("length", info.length, 5)
    expect_equal("buffer", bytes(buffer), b"there\0\0\0\0")
    pair.settle()
    expect_equal("calls", calls.told, [])


@recv_data_nbx.says(3220, "UCS_PTR_IS_ERR(_ptr) - The receive operation failed.")
def data_that_does_not_fit_is_truncated(pair: Pair) -> None:
    """Expect MESSAGE_TRUNCATED, no write behind the count, and a completion at the sender."""
    heard = Heard(pair, verdict=IN_PROGRESS)
    request = send(pair.near.ep, pattern(LONG), flags=int(RNDV))
    pair.wait(lambda: heard.came, "the message")
    buffer = bytearray(20)
    try:
        received = ucp.ucp_am_recv_data_nbx(pair.far.worker, heard.data[0], buffer, 10, None)
        status = pair.finish(received)
    except ucp.UcsError as error:
        status = error.status
    expect_equal("status", status, ucp.UcsStatus.UCS_ERR_MESSAGE_TRUNCATED)
    expect_equal("behind the count", bytes(buffer[10:]), bytes(10))
    pair.finish(request)


@recv_data_nbx.says(3189, "The routine is non-blocking and therefore returns immediately.")
def receiving_can_be_tried_inside_the_handler(pair: Pair) -> None:
    """Receive inside the handler: the callback runs, then UCS_INPROGRESS; FORCE_IMM_CMPL gives NO_RESOURCE."""
    buffer, worker, requests = bytearray(LONG), pair.far.worker, []

    def take(arg: Any, header: Any, header_length: int, data: Any, length: int, recv: Any) -> Any:
        with expect_status("at once", ucp.UcsStatus.UCS_ERR_NO_RESOURCE):
            ucp.ucp_am_recv_data_nbx(worker, data, buffer, LONG, param(op_attr_mask=FORCE_IMMEDIATE))
        requests.append(ucp.ucp_am_recv_data_nbx(worker, data, buffer, LONG, None))
        return IN_PROGRESS

    heard = Heard(pair)  # which removes the handler afterwards
    ucp.ucp_worker_set_am_recv_handler(worker, ucp.ucp_am_handler_param_t(id=ID, cb=take, arg=heard))
    request = send(pair.near.ep, pattern(LONG), flags=int(RNDV))
    pair.wait(lambda: requests, "the message")
    expect_equal("statuses", (pair.finish(requests[0]), pair.finish(request)), (OK, OK))
    expect_equal("buffer", bytes(buffer), pattern(LONG))


# Releasing it


@across(
    (
        data_release,
        3238,
        "This routine releases data that persisted through an Active Message callback because that "
        "callback returned UCS_INPROGRESS.",
        True,
    ),
    (
        set_handler,
        601,
        "... in a callback then data was allocated, so if UCS_INPROGRESS is returned from the callback, "
        "the data parameter will persist and the user has to call ucp_am_data_release when data is no "
        "longer needed.",
        True,
    ),
    (
        set_recv_handler,
        601,
        "... in a callback then data was allocated, so if UCS_INPROGRESS is returned from the callback, "
        "the data parameter will persist and the user has to call ucp_am_data_release when data is no "
        "longer needed.",
        False,
    ),
)
def kept_data_stays_until_it_is_released(pair: Pair, call: bool) -> None:
    """Send further messages, which do not touch it; it is released once."""
    heard = Heard(pair, old=call, verdict=IN_PROGRESS, flags=int(PERSISTENT))
    sender = by_nb if call else by_nbx
    for first in range(3):
        pair.finish(sender(pair.near.ep, pattern(100, first), 100))
    pair.wait(lambda: len(heard.came) == 3, "all messages")
    for first, data in enumerate(heard.data):
        expect_equal(f"message {first}", bytes(data), pattern(100, first))
        ucp.ucp_am_data_release(pair.far.worker, data)
    with expect_status("the second time", INVALID):
        ucp.ucp_am_data_release(pair.far.worker, heard.data[0])


@data_release.says(3242, "Pointer to data that was passed into the Active Message callback as the data parameter.")
def only_kept_data_can_be_released(pair: Pair) -> None:
    """Release data that was not kept, a value that is no data, and data at another worker: all fail."""
    heard = Heard(pair, verdict=OK, flags=int(PERSISTENT))
    send(pair.near.ep, b"not kept")
    pair.wait(lambda: heard.came, "the message")
    with expect_status("not kept", INVALID):
        ucp.ucp_am_data_release(pair.far.worker, heard.data[0])
    heard.verdict = IN_PROGRESS
    send(pair.near.ep, b"kept")
    pair.wait(lambda: len(heard.came) == 2, "the message")
    with expect_status("another worker", INVALID):
        ucp.ucp_am_data_release(pair.near.worker, heard.data[1])
    with expect_status("no data", INVALID):
        ucp.ucp_am_data_release(pair.far.worker, b"kept")
    ucp.ucp_am_data_release(pair.far.worker, heard.data[1])


@data_release.says(3241, "Worker which received the Active Message.")
def a_released_rendezvous_ends_at_its_sender(pair: Pair) -> None:
    """Release the data without a receive."""
    heard = Heard(pair, verdict=IN_PROGRESS)
    request = send(pair.near.ep, pattern(LONG), flags=int(RNDV))
    pair.wait(lambda: heard.came, "the message")
    ucp.ucp_am_data_release(pair.far.worker, heard.data[0])
    expect_equal("status", pair.finish(request), OK)


send_nb.silent("It does not support CUDA memory.", "an Amoeba NIC reaches only host memory")
