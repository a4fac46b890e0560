"""Active messages: their handlers and sends (groups WORKER and COMM)."""

from collections.abc import Callable
from typing import Any

import amoeba.ucp as ucp

from amoeba_tools.conformance.expectations import expect, expect_equal
from amoeba_tools.conformance.ucp.expectations import expect_status
from amoeba_tools.conformance.ucp.functions.common import (
    BYTE,
    IN_PROGRESS,
    INVALID,
    LONG,
    NO_IMMEDIATE,
    OK,
    Calls,
    param,
    pattern,
)
from amoeba_tools.conformance.ucp.pair import Entity, Pair
from amoeba_tools.conformance.ucp.registry import Function, across

set_handler = Function("ucp_worker_set_am_handler", 3072)
set_recv_handler = Function("ucp_worker_set_am_recv_handler", 3097)
send_nb = Function("ucp_am_send_nb", 3124)
send_nbx = Function("ucp_am_send_nbx", 3177)

RNDV = ucp.UCP_AM_SEND_FLAG_RNDV
EAGER = ucp.UCP_AM_SEND_FLAG_EAGER
REPLY = ucp.UCP_AM_SEND_FLAG_REPLY
IS_RNDV = ucp.UCP_AM_RECV_ATTR_FLAG_RNDV
IS_DATA = ucp.UCP_AM_RECV_ATTR_FLAG_DATA
HAS_REPLY = ucp.UCP_AM_RECV_ATTR_FIELD_REPLY_EP
WHOLE = ucp.UCP_AM_FLAG_WHOLE_MSG
PERSISTENT = ucp.UCP_AM_FLAG_PERSISTENT_DATA
ID = 9
NB_WHOLE = ucp.UCP_AM_FLAG_WHOLE_MSG


class Heard:
    """A handler that notes what comes: (header, data, length), and how; ``verdict`` says what it returns."""

    def __init__(
        self,
        pair: Pair,
        *,
        number: int = ID,
        old: bool = False,
        verdict: Any = OK,
        at: Entity | None = None,
        flags: int = 0,
    ) -> None:
        self.came: list[tuple[bytes | None, bytes | None, int]] = []
        self.args: list[Any] = []
        self.attributes: list[int] = []
        self.reply_eps: list[Any] = []
        self.data: list[Any] = []
        self.verdict = verdict
        worker = (pair.far if at is None else at).worker
        if old:
            ucp.ucp_worker_set_am_handler(worker, number, self._old, self, flags)
            pair.keep(lambda: None if worker.closed else ucp.ucp_worker_set_am_handler(worker, number, None, None, 0))
            return
        handler = ucp.ucp_am_handler_param_t(id=number, cb=self._new, arg=self, flags=ucp.ucp_am_cb_flags(flags))
        ucp.ucp_worker_set_am_recv_handler(worker, handler)
        mask = ucp.UCP_AM_HANDLER_PARAM_FIELD_ID | ucp.UCP_AM_HANDLER_PARAM_FIELD_CB
        cleared = ucp.ucp_am_handler_param_t(field_mask=mask, id=number)
        pair.keep(lambda: None if worker.closed else ucp.ucp_worker_set_am_recv_handler(worker, cleared))

    def _new(self, arg: Any, header: Any, header_length: int, data: Any, length: int, recv: Any) -> Any:
        self.args.append(arg)
        self.attributes.append(recv.recv_attr)
        self.reply_eps.append(recv.reply_ep)
        self.data.append(data)
        head = None if header is None else bytes(header[:header_length])
        body = bytes(data) if isinstance(data, memoryview) else None
        self.came.append((head, body, length))
        return self.verdict

    def _old(self, arg: Any, data: Any, length: int, reply_ep: Any, flags: int) -> Any:
        self.args.append(arg)
        self.attributes.append(flags)
        self.reply_eps.append(reply_ep)
        self.data.append(data)
        self.came.append((None, b"" if data is None else bytes(data), length))
        return self.verdict


def by_nb(
    ep: Any, data: Any, count: int, number: int = ID, cb: Any = None, flags: int = 0, datatype: int = BYTE
) -> Any:
    return ucp.ucp_am_send_nb(ep, number, data, count, datatype, cb, flags)


def by_nbx(
    ep: Any, data: Any, count: int, number: int = ID, cb: Any = None, flags: int = 0, datatype: int = BYTE
) -> Any:
    told = None if cb is None else lambda request, status, user_data: cb(request, status)
    return ucp.ucp_am_send_nbx(ep, number, None, 0, data, count, param(cb=told, flags=flags, datatype=datatype))


def send(ep: Any, data: bytes, header: bytes | None = None, **fields: Any) -> Any:
    length = 0 if header is None else len(header)
    return ucp.ucp_am_send_nbx(ep, ID, header, length, data, len(data), param(**fields))


Call = tuple[Callable[..., Any], bool]
"""How to send, and whether to a handler of ucp_worker_set_am_handler."""
OLD: Call = (by_nb, True)
NEW: Call = (by_nbx, False)


# Handlers


@across(
    (
        set_handler,
        3052,
        "This callback is called whenever an Active Message that was sent from the remote peer by "
        "ucp_am_send_nb is received on this worker.",
        OLD,
    ),
    (
        set_recv_handler,
        3082,
        "This callback is called whenever an Active Message that was sent from the remote peer by "
        "ucp_am_send_nbx is received on this worker.",
        NEW,
    ),
)
def the_handler_is_called_for_every_message(pair: Pair, call: Call) -> None:
    """Expect one call each, in the order of sending, with the sent bytes; also none, and more than a packet."""
    sender, old = call
    heard = Heard(pair, old=old)
    sizes = (0, 1, 64, LONG, 3)
    requests = [sender(pair.near.ep, pattern(size, size), size) for size in sizes]
    pair.wait(lambda: len(heard.came) == len(sizes), "all messages")
    pair.settle()
    expect_equal("data", [bytes(data or b"") for _, data, _ in heard.came], [pattern(size, size) for size in sizes])
    expect_equal("lengths", [length for _, _, length in heard.came], list(sizes))
    expect_equal("statuses", {pair.finish(request) for request in requests}, {OK})


@across(
    (
        set_handler,
        3051,
        "This routine installs a user defined callback to handle incoming Active Messages with a specific id.",
        OLD,
    ),
    (
        set_recv_handler,
        3081,
        "This routine installs a user defined callback to handle incoming Active Messages with a specific id.",
        NEW,
    ),
)
def the_id_decides_which_handler_is_called(pair: Pair, call: Call) -> None:
    """Set two handlers, with the lowest and the highest number; a message for neither reaches none."""
    sender, old = call
    low, high = Heard(pair, number=0, old=old), Heard(pair, number=0xFFFF, old=old)
    for number in (0xFFFF, 5, 0):
        pair.finish(sender(pair.near.ep, bytes([number & 0xFF]), 1, number))
    pair.wait(lambda: low.came and high.came, "messages for both")
    pair.settle()
    expect_equal("what the handlers got", (low.came, high.came), ([(None, b"\0", 1)], [(None, b"\xff", 1)]))


@across(
    (
        set_handler,
        3060,
        "Active Message argument, which will be passed in to every invocation of the callback as the arg argument.",
        OLD,
    ),
    (set_recv_handler, 3091, "Active Message handler parameters, as defined by ucp_am_handler_param_t.", NEW),
)
def the_handler_gets_its_argument(pair: Pair, call: Call) -> None:
    """Pass an object, and get the same object with every call."""
    sender, old = call
    heard = Heard(pair, old=old)
    for _ in range(2):
        pair.finish(sender(pair.near.ep, b"arg", 3))
    pair.wait(lambda: len(heard.came) == 2, "both messages")
    expect(all(arg is heard for arg in heard.args), f"expected {heard!r}, got {heard.args!r}")


@set_handler.says(3059, "Active Message callback. NULL to clear.")
def none_removes_an_old_handler(pair: Pair) -> None:
    """Send afterwards: messages are dropped; those of other ids go on."""
    gone, other = Heard(pair, old=True), Heard(pair, number=ID + 1, old=True)
    ucp.ucp_worker_set_am_handler(pair.far.worker, ID, None, None, 0)
    for number in (ID, ID + 1):
        pair.finish(by_nb(pair.near.ep, b"x", 1, number))
    pair.wait(lambda: other.came, "the other message")
    pair.settle()
    expect_equal("calls", gone.came, [])


@set_recv_handler.says(3059, "Active Message callback. NULL to clear.")
def none_removes_a_handler(pair: Pair) -> None:
    """Pass the mask's bit without a function."""
    gone, other = Heard(pair), Heard(pair, number=ID + 1)
    mask = ucp.UCP_AM_HANDLER_PARAM_FIELD_ID | ucp.UCP_AM_HANDLER_PARAM_FIELD_CB
    ucp.ucp_worker_set_am_recv_handler(pair.far.worker, ucp.ucp_am_handler_param_t(field_mask=mask, id=ID))
    for number in (ID, ID + 1):
        pair.finish(by_nbx(pair.near.ep, b"x", 1, number))
    pair.wait(lambda: other.came, "the other message")
    pair.settle()
    expect_equal("calls", gone.came, [])


@across(
    (
        set_handler,
        3064,
        "Currently only UCP_AM_FLAG_WHOLE_MSG is supported, which indicates the callback will not be "
        "invoked until all data has arrived.",
        OLD,
    ),
    (set_recv_handler, 558, "Flags that indicate how to handle UCP Active Messages.", NEW),
)
def whole_messages_come_in_one_call(pair: Pair, call: Call) -> None:
    """Send more than a packet, eagerly."""
    sender, old = call
    heard = Heard(pair, old=old, flags=int(WHOLE))
    request = sender(pair.near.ep, pattern(LONG), LONG, flags=0 if old else EAGER)
    pair.wait(lambda: heard.came, "the message")
    pair.settle()
    expect_equal("calls", heard.came, [(None, pattern(LONG), LONG)])
    expect_equal("status", pair.finish(request), OK)


@across(
    (
        set_handler,
        3069,
        "error code if the worker does not support Active Messages or requested callback flags.",
        True,
    ),
    (
        set_recv_handler,
        3094,
        "error code if the worker does not support Active Messages or requested callback flags.",
        False,
    ),
)
def a_handler_needs_the_feature(pair: Pair, call: bool) -> None:
    """Use a context without UCP_FEATURE_AM, an id above 16 bits, and a value that is no function: INVALID_PARAM."""
    entity = pair.entity(0, int(ucp.UCP_FEATURE_TAG))

    def install(worker: Any, number: int, cb: Any) -> None:
        if call:
            ucp.ucp_worker_set_am_handler(worker, number, cb, None, 0)
        else:
            ucp.ucp_worker_set_am_recv_handler(worker, ucp.ucp_am_handler_param_t(id=number, cb=cb))

    for what, worker, number, cb in (
        ("feature", entity.worker, 1, print),
        ("id", pair.far.worker, 1 << 16, print),
        ("function", pair.far.worker, 1, "print"),
    ):
        with expect_status(what, INVALID):
            install(worker, number, cb)


@set_recv_handler.says(3086, "Handlers set by this function are not compatible with ucp_am_send_nb routine.")
def messages_of_the_older_call_do_not_reach_it(pair: Pair) -> None:
    """Check that the handler gets messages of ucp_am_send_nbx alone."""
    heard = Heard(pair)
    pair.finish(by_nb(pair.near.ep, b"old", 3))
    pair.finish(by_nbx(pair.near.ep, b"new", 3))
    pair.wait(lambda: heard.came, "the message")
    pair.settle()
    expect_equal("calls", [data for _, data, _ in heard.came], [b"new"])


# Sends


@across(
    (send_nb, 3105, "This routine sends an Active Message to an ep.", OLD),
    (send_nbx, 3134, "This routine sends an Active Message to an ep.", NEW),
)
def the_message_goes_to_that_worker_alone(pair: Pair, call: Call) -> None:
    """Check that neither the handler at the other end nor that of another worker beside it is called."""
    sender, old = call
    stranger = pair.entity(1)
    heard = [Heard(pair, old=old), Heard(pair, old=old, at=pair.near), Heard(pair, old=old, at=stranger)]
    pair.finish(sender(pair.near.ep, b"there", 5))
    pair.wait(lambda: heard[0].came, "the message")
    pair.settle()
    expect_equal("calls", [len(each.came) for each in heard], [1, 0, 0])


@across(
    (send_nb, 3114, "Datatype descriptor for the elements in the buffer.", OLD),
    (send_nbx, 3158, "Number of elements to send.", NEW),
)
def elements_and_pieces_are_counted(pair: Pair, call: Call) -> None:
    """Send three elements of four bytes, and a list of two pieces."""
    sender, old = call
    heard = Heard(pair, old=old)
    pieces = [ucp.ucp_dt_iov_t(b"pie", 3), ucp.ucp_dt_iov_t(b"ces", 3)]
    pair.finish(sender(pair.near.ep, pattern(12), 3, datatype=ucp.ucp_dt_make_contig(4)))
    pair.finish(sender(pair.near.ep, pieces, 2, datatype=ucp.ucp_dt_make_iov()))
    pair.wait(lambda: len(heard.came) == 2, "both messages")
    expect_equal("data", [data for _, data, _ in heard.came], [pattern(12), b"pieces"])


@across(
    (send_nb, 3119, "NULL Active Message was sent immediately.", OLD),
    (
        send_nbx,
        3134,
        "If the operation completes immediately, then the routine returns NULL and the callback function "
        "is ignored, even if specified.",
        NEW,
    ),
)
def a_message_sent_at_once_calls_nobody_back(pair: Pair, call: Call) -> None:
    """Send a few bytes."""
    sender, old = call
    heard, calls = Heard(pair, old=old), Calls()
    expect_equal("what the call returned", sender(pair.near.ep, b"now", 3, cb=calls), None)
    pair.wait(lambda: heard.came, "the message")
    pair.settle()
    expect_equal("calls", calls.told, [])


@across(
    (
        send_nb,
        3121,
        "otherwise Pointer to request, and Active Message is known to be completed after cb is run.",
        OLD,
    ),
    (
        send_nbx,
        3136,
        "Otherwise, if no error is reported and a callback is requested ... then the UCP library will "
        "schedule invocation of the callback routine param->cb.send upon completion of the operation.",
        NEW,
    ),
)
def a_message_in_flight_calls_back_once(pair: Pair, call: Call) -> None:
    """Call back with request and UCS_OK, not inside the call."""
    sender, old = call
    heard, calls = Heard(pair, old=old), Calls()
    request = sender(pair.near.ep, pattern(LONG), LONG, cb=calls)
    expect(request is not None, "expected a request, got None")
    expect_equal("calls inside the call", calls.told, [])
    pair.wait(lambda: heard.came and calls.told, "message and callback")
    pair.settle()
    expect_equal("calls", calls.told, [(request, OK)])
    expect_equal("status", pair.finish(request), OK)


@across(
    (send_nb, 3120, "UCS_PTR_IS_ERR(_ptr) Error sending Active Message.", OLD),
    (send_nbx, 3168, "UCS_PTR_IS_ERR(_ptr) - Error sending Active Message.", NEW),
)
def a_message_that_cannot_be_meant_is_not_sent(pair: Pair, call: Call) -> None:
    """Use a short buffer, an id above 16 bits, no endpoint, and an endpoint without the feature."""
    sender, old = call
    heard = Heard(pair, old=old)
    for what, arguments in (
        ("short buffer", (pair.near.ep, b"12", 3)),
        ("id", (pair.near.ep, b"12", 2, 1 << 16)),
        ("no endpoint", (None, b"12", 2)),
    ):
        with expect_status(what, INVALID):
            sender(*arguments)
    pair.settle()
    expect_equal("calls", heard.came, [])


@across(
    (send_nb, 3117, "Operation flags as defined by ucp_send_am_flags.", OLD),
    (
        send_nbx,
        3145,
        "This operation supports specific flags, which can be passed in param by ucp_request_param_t.flags.",
        NEW,
    ),
)
def a_reply_endpoint_is_given_if_asked_for(pair: Pair, call: Call) -> None:
    """Pass UCP_AM_SEND_FLAG_REPLY: the handler gets an endpoint to the sender; without the flag None."""
    sender, old = call
    heard, back = Heard(pair, old=old), Heard(pair, old=old, at=pair.near)
    pair.finish(sender(pair.near.ep, b"1", 1))
    pair.finish(sender(pair.near.ep, b"2", 1, flags=int(REPLY)))
    pair.wait(lambda: len(heard.came) == 2, "both messages")
    expect_equal("without the flag", heard.reply_eps[0], None)
    expect(heard.reply_eps[1] is not None, "expected an endpoint with UCP_AM_SEND_FLAG_REPLY, got None")
    pair.finish(sender(heard.reply_eps[1], b"reply", 5))
    pair.wait(lambda: back.came, "the reply")
    expect_equal("reply", back.came, [(None, b"reply", 5)])


@send_nbx.says(3152, "User defined Active Message header.")
def the_header_comes_with_the_data(pair: Pair) -> None:
    """Send data of a packet, of several, and of those that the receiver reads; also a header alone."""
    heard = Heard(pair)
    for size, flags in ((0, 0), (10, 0), (LONG, EAGER), (LONG, RNDV)):
        heard.verdict = OK
        request = send(pair.near.ep, pattern(size), b"header", flags=int(flags))
        pair.wait(lambda: heard.came, "the message")
        header, _, length = heard.came.pop()
        expect_equal(f"header with {size} bytes", (header, length), (b"header", size))
        expect_equal("status", pair.finish(request), OK)


@send_nbx.says(3152, "NULL value is allowed if no header needed. In this case header_length should be set to 0.")
def no_header_is_none(pair: Pair) -> None:
    """Pass a header of None with a length, and one shorter than its length: INVALID_PARAM."""
    heard = Heard(pair)
    pair.finish(send(pair.near.ep, b"data"))
    pair.wait(lambda: heard.came, "the message")
    expect_equal("header", heard.came[0][0], None)
    for header in (None, b"12"):
        with expect_status(f"header {header!r} of 3 bytes", INVALID):
            ucp.ucp_am_send_nbx(pair.near.ep, ID, header, 3, b"", 0, None)
    pair.settle()
    expect_equal("calls", len(heard.came), 1)


@send_nbx.says(
    3161,
    "Sending only header without actual data is allowed and is recommended for transferring a "
    "latency-critical amount of data.",
)
def a_header_may_come_alone(pair: Pair) -> None:
    """Check that the handler gets no data then."""
    heard = Heard(pair)
    request = ucp.ucp_am_send_nbx(pair.near.ep, ID, b"alone", 5, None, 0, None)
    pair.wait(lambda: heard.came, "the message")
    header, data, length = heard.came[0]
    expect_equal("what came", (header, data or b"", length), (b"alone", b"", 0))
    expect_equal("status", pair.finish(request), OK)


@send_nbx.says(
    3163,
    "The maximum allowed header size can be obtained by querying worker attributes by the ucp_worker_query routine.",
)
def headers_of_max_am_header_bytes_are_taken(pair: Pair) -> None:
    """Send with and without data; one byte more is INVALID_PARAM."""
    heard = Heard(pair)
    most = ucp.ucp_worker_query(pair.near.worker, ucp.ucp_worker_attr_t()).max_am_header
    assert most is not None
    for size in (0, LONG):
        request = send(pair.near.ep, pattern(size), pattern(most, 3), flags=int(EAGER))
        pair.wait(lambda: heard.came, "the message")
        header, data, _ = heard.came.pop()
        expect_equal("header", header, pattern(most, 3))
        expect_equal("data", data or b"", pattern(size))
        expect_equal("status", pair.finish(request), OK)
    with expect_status("a longer header", INVALID):
        send(pair.near.ep, b"", pattern(most + 1))


@send_nbx.says(
    3142,
    "If UCP_OP_ATTR_FLAG_NO_IMM_CMPL flag is set in the op_attr_mask field of param, then the operation "
    "will return a request handle, even if it completes immediately.",
)
def a_request_can_be_demanded(pair: Pair) -> None:
    """Send a few bytes with callback and user data, and a request of the user's."""
    heard, calls, memory = Heard(pair), Calls(), ucp.ucp_request_alloc(pair.near.worker)
    asked: dict[str, Any] = {"op_attr_mask": NO_IMMEDIATE, "cb": calls, "user_data": "mine", "request": memory}
    request = send(pair.near.ep, b"few", **asked)
    expect(request is memory, f"expected the user's request, got {request!r}")
    pair.wait(lambda: heard.came and calls.told, "message and callback")
    expect_equal("calls", calls.told, [(memory, OK, "mine")])
    expect_equal("status", pair.finish(request), OK)


@send_nbx.says(3146, "The exact set of flags is defined by ucp_send_am_flags.")
def a_rendezvous_can_be_demanded_and_forbidden(pair: Pair) -> None:
    """Pass RNDV: the handler gets a descriptor of a few bytes; with EAGER all data of many."""
    heard = Heard(pair)
    for flags, size, rndv in ((RNDV, 64, True), (EAGER, LONG, False)):
        request = send(pair.near.ep, pattern(size), flags=int(flags))
        pair.wait(lambda: heard.came, "the message")
        expect_equal(f"{flags!r}: a descriptor", bool(heard.attributes.pop() & IS_RNDV), rndv)
        expect_equal("length", heard.came.pop()[2], size)
        expect_equal("status", pair.finish(request), OK)


@send_nbx.says(3169, "otherwise - Operation was scheduled for send and can be completed at any point in time.")
def a_rendezvous_ends_with_its_receiver(pair: Pair) -> None:
    """Keep the data in one handler, which holds the send, and refuse it in another, whose status ends the send."""
    heard = Heard(pair, verdict=IN_PROGRESS)
    request = send(pair.near.ep, pattern(LONG), flags=int(RNDV))
    pair.wait(lambda: heard.came, "the message")
    pair.settle()
    expect_equal("kept", ucp.ucp_request_check_status(request), IN_PROGRESS)
    ucp.ucp_am_data_release(pair.far.worker, heard.data[0])
    expect_equal("released", pair.finish(request), OK)
    heard.verdict = ucp.UcsStatus.UCS_ERR_REJECTED
    request = send(pair.near.ep, pattern(LONG), flags=int(RNDV))
    expect_equal("refused", pair.finish(request), ucp.UcsStatus.UCS_ERR_REJECTED)
