"""Requests and generic datatypes: ucp_request_*, ucp_dt_create_generic, ucp_dt_destroy."""

import amoeba.ucp as ucp

from amoeba_tools.conformance.expectations import expect, expect_equal
from amoeba_tools.conformance.ucp.expectations import expect_status
from amoeba_tools.conformance.ucp.functions.common import (
    ALL,
    CANCELED,
    IN_PROGRESS,
    INVALID,
    LONG,
    OK,
    Calls,
    Generic,
    param,
    pattern,
)
from amoeba_tools.conformance.ucp.pair import Pair
from amoeba_tools.conformance.ucp.registry import Function

query = Function("ucp_request_query", 2485)
check_status = Function("ucp_request_check_status", 4337)
cancel = Function("ucp_request_cancel", 4397)
free = Function("ucp_request_free", 4426)
alloc = Function("ucp_request_alloc", 4442)
create_generic = Function("ucp_dt_create_generic", 4467)
dt_destroy = Function("ucp_dt_destroy", 4486)


def receive(pair: Pair, tag: int, calls: Calls | None = None) -> object:
    """Post a receive that returns a request."""
    return ucp.ucp_tag_recv_nbx(pair.far.worker, bytearray(8), 8, tag, ALL, param(cb=calls))


@query.says(2478, "Get information about ucp_request.")
def status_and_kind_of_memory_are_told(pair: Pair) -> None:
    """Query while it goes on, and at its end; the string has at most the requested length."""
    request = receive(pair, 0x71)
    found = ucp.ucp_request_query(request, ucp.ucp_request_attr_t())
    expect_equal("attributes", (found.status, found.mem_type), (IN_PROGRESS, ucp.UCS_MEMORY_TYPE_HOST))
    expect(found.debug_string, "expected a description, got none")
    short = ucp.ucp_request_query(request, ucp.ucp_request_attr_t(debug_string_size=5))
    expect(len(short.debug_string or "") < 5, f"expected at most 4 characters, got {short.debug_string!r}")
    ucp.ucp_request_cancel(pair.far.worker, request)
    pair.wait(lambda: request.done, "an end")  # type: ignore[attr-defined]  # requests have it
    expect_equal("status", ucp.ucp_request_query(request, ucp.ucp_request_attr_t()).status, CANCELED)
    ucp.ucp_request_free(request)


@check_status.says(
    4329,
    "This routine checks the state of the request and returns its current status. Any value different from"
    " UCS_INPROGRESS means that request is in a completed state.",
)
def the_status_is_told(pair: Pair) -> None:
    """Expect UCS_INPROGRESS, then UCS_OK; of other objects, or a freed request, INVALID_PARAM."""
    request = receive(pair, 0x72)
    expect_equal("before", ucp.ucp_request_check_status(request), IN_PROGRESS)
    ucp.ucp_tag_send_nbx(pair.near.ep, b"status", 6, 0x72, None)
    pair.wait(lambda: ucp.ucp_request_check_status(request) is not IN_PROGRESS, "an end")
    expect_equal("after", ucp.ucp_request_check_status(request), OK)
    ucp.ucp_request_free(request)
    for what in (request, None, "request"):
        with expect_status(f"{what!r}", INVALID):
            ucp.ucp_request_check_status(what)


@cancel.says(4391, "... in a case it is canceled the status argument is set to UCS_ERR_CANCELED.")
def a_receive_is_canceled(pair: Pair) -> None:
    """Check that its callback runs once, and that the message goes to the next receive."""
    calls = Calls()
    request, other = receive(pair, 0x73, calls), receive(pair, 0x73)
    ucp.ucp_request_cancel(pair.far.worker, request)
    pair.wait(lambda: calls.told, "a callback")
    ucp.ucp_tag_send_nbx(pair.near.ep, b"other", 5, 0x73, None)
    expect_equal("the other", pair.finish(other), OK)
    expect_equal("calls", calls.statuses, [CANCELED])
    expect_equal("status", pair.finish(request), CANCELED)


@cancel.says(
    4385,
    "After calling this routine, the request will be in completed or canceled (but not both) state "
    "regardless of the status of the target endpoint associated with the communication request.",
)
def what_is_over_stays_as_it_is(pair: Pair) -> None:
    """Cancel a receive that has its message: it ends with UCS_OK, and calls back once."""
    calls = Calls()
    request = receive(pair, 0x74, calls)
    ucp.ucp_tag_send_nbx(pair.near.ep, b"over", 4, 0x74, None)
    pair.wait(lambda: calls.told, "a callback")
    ucp.ucp_request_cancel(pair.far.worker, request)
    pair.settle()
    expect_equal("calls", calls.statuses, [OK])
    expect_equal("status", pair.finish(request), OK)


@free.says(
    4422,
    "Communications operations associated with this request will make progress internally, however no "
    "further notifications or callbacks will be invoked for this request.",
)
def what_is_freed_goes_on_silently(pair: Pair) -> None:
    """Free the request of a send of many bytes: the message arrives, and no callback runs."""
    calls, buffer = Calls(), bytearray(LONG)
    sent = ucp.ucp_tag_send_nbx(pair.near.ep, pattern(LONG), LONG, 0x75, param(cb=calls))
    ucp.ucp_request_free(sent)
    expect_equal("receive", pair.finish(ucp.ucp_tag_recv_nbx(pair.far.worker, buffer, LONG, 0x75, ALL, None)), OK)
    pair.settle()
    expect_equal("message and calls", (bytes(buffer), calls.told), (pattern(LONG), []))


@free.says(
    4421,
    "This routine releases the non-blocking request back to the library, regardless of its current state.",
)
def a_request_is_freed_once(pair: Pair) -> None:
    """Free a request twice: the second time is INVALID_PARAM."""
    request = receive(pair, 0x76)
    ucp.ucp_request_cancel(pair.far.worker, request)
    pair.finish(request)
    with expect_status("the second time", INVALID):
        ucp.ucp_request_free(request)


@alloc.says(
    4437,
    "This routine creates request which may be used in functions ucp_tag_send_nbx, ucp_tag_recv_nbx, etc.",
)
def an_allocated_request_is_used(pair: Pair) -> None:
    """Use the request for a receive and then for a send; both return that very request."""
    memory = ucp.ucp_request_alloc(pair.far.worker)
    request: object = ucp.ucp_tag_recv_nbx(pair.far.worker, bytearray(8), 8, 0x77, ALL, param(request=memory))
    expect(request is memory, f"expected {memory!r}, got {request!r}")
    ucp.ucp_tag_send_nbx(pair.near.ep, b"alloc", 5, 0x77, None)
    expect_equal("status", pair.finish(memory), OK)
    with expect_status("what was not allocated", INVALID):
        ucp.ucp_tag_recv_nbx(pair.far.worker, bytearray(8), 8, 0x77, ALL, param(request=bytearray(64)))


@create_generic.says(
    4450,
    "The generic datatype is described by the ops object which provides a table of routines defining the "
    "operations for generic datatype manipulation.",
)
def the_routines_are_called(pair: Pair) -> None:
    """Pass the context to the routines; each state is finished once, at both ends."""
    one, other = Generic(pair.keep), Generic(pair.keep)
    buffer = bytearray(LONG)
    sent = ucp.ucp_tag_send_nbx(pair.near.ep, pattern(LONG), LONG, 0x78, param(datatype=one.datatype))
    got = ucp.ucp_tag_recv_nbx(pair.far.worker, buffer, LONG, 0x78, ALL, param(datatype=other.datatype))
    expect_equal("statuses", (pair.finish(got), pair.finish(sent)), (OK, OK))
    expect_equal("data", bytes(buffer), pattern(LONG))
    expect_equal("contexts", ([one], [other]), (one.contexts, other.contexts))
    expect_equal("ends", (one.calls.count("finish"), other.calls.count("finish")), (1, 1))


@create_generic.says(4458, "Generic datatype function table as defined by ucp_generic_dt_ops_t .")
def all_routines_have_to_be_there(pair: Pair) -> None:
    """Leave one routine out: INVALID_PARAM."""
    with expect_status("no functions", INVALID):
        ucp.ucp_dt_create_generic(ucp.ucp_generic_dt_ops_t(), None)


@dt_destroy.says(
    4475,
    "This routine destroys the datatype object and releases any resources that are associated with the object.",
)
def a_destroyed_datatype_cannot_be_used(pair: Pair) -> None:
    """Destroy it again, too, which fails."""
    closes: list[object] = []
    generic = Generic(closes.append)
    ucp.ucp_dt_destroy(generic.datatype)
    with expect_status("sending", INVALID):
        ucp.ucp_tag_send_nbx(pair.near.ep, b"12", 2, 0x79, param(datatype=generic.datatype))
    with expect_status("the second time", INVALID):
        ucp.ucp_dt_destroy(generic.datatype)
