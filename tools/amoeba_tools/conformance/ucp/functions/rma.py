"""Put and get: ucp_put_nbi, _nb, _nbx, ucp_get_nbi, _nb, _nbx."""

from collections.abc import Callable
from typing import Any

import amoeba.ucp as ucp

from amoeba_tools.conformance.expectations import expect, expect_equal
from amoeba_tools.conformance.ucp.expectations import expect_status
from amoeba_tools.conformance.ucp.functions.common import (
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

put_nbi = Function("ucp_put_nbi", 3943)
put_nb = Function("ucp_put_nb", 3989)
put_nbx = Function("ucp_put_nbx", 4044)
get_nbi = Function("ucp_get_nbi", 4074)
get_nb = Function("ucp_get_nb", 4119)
get_nbx = Function("ucp_get_nbx", 4170)

Call = Callable[..., Any]
"""(endpoint, buffer, length, address, key, callback or None), returning a request, or None."""


def by_put_nbi(ep: Any, buffer: Any, length: int, address: int, rkey: Any, cb: Any = None) -> Any:
    ucp.ucp_put_nbi(ep, buffer, length, address, rkey)


def by_put_nb(ep: Any, buffer: Any, length: int, address: int, rkey: Any, cb: Any = None) -> Any:
    return ucp.ucp_put_nb(ep, buffer, length, address, rkey, cb)


def by_put_nbx(ep: Any, buffer: Any, length: int, address: int, rkey: Any, cb: Any = None) -> Any:
    return ucp.ucp_put_nbx(ep, buffer, length, address, rkey, param(cb=_without_data(cb)))


def by_get_nbi(ep: Any, buffer: Any, length: int, address: int, rkey: Any, cb: Any = None) -> Any:
    ucp.ucp_get_nbi(ep, buffer, length, address, rkey)


def by_get_nb(ep: Any, buffer: Any, length: int, address: int, rkey: Any, cb: Any = None) -> Any:
    return ucp.ucp_get_nb(ep, buffer, length, address, rkey, cb)


def by_get_nbx(ep: Any, buffer: Any, length: int, address: int, rkey: Any, cb: Any = None) -> Any:
    return ucp.ucp_get_nbx(ep, buffer, length, address, rkey, param(cb=_without_data(cb)))


def _without_data(cb: Any) -> Any:
    return None if cb is None else lambda request, status, user_data: cb(request, status)


def flush(pair: Pair, ep: Any = None) -> ucp.UcsStatus:
    """Wait for what was posted on an endpoint, ``near``'s if none is given; the status."""
    try:
        return pair.finish(ucp.ucp_ep_flush_nbx(pair.near.ep if ep is None else ep))
    except ucp.UcsError as error:
        return error.status


def outcome(pair: Pair, call: Call, *arguments: Any) -> ucp.UcsStatus:
    """How an operation and the flush behind it end: the first error, else UCS_OK."""
    try:
        status = pair.finish(call(*arguments))
    except ucp.UcsError as error:
        status = error.status
    flushed = flush(pair)
    return flushed if status is OK else status


# Puts


@across(
    (
        put_nbi,
        3921,
        "This routine initiates a storage of contiguous block of data that is described by the local "
        "address buffer in the remote contiguous memory region described by remote_addr address and the "
        "memory handle rkey.",
        by_put_nbi,
    ),
    (
        put_nb,
        3950,
        "This routine initiates a storage of contiguous block of data that is described by the local "
        "address buffer in the remote contiguous memory region described by remote_addr address and the "
        "memory handle rkey.",
        by_put_nb,
    ),
    (
        put_nbx,
        3998,
        "This routine initiates a storage of contiguous block of data that is described by the local "
        "address buffer in the remote contiguous memory region described by remote_addr address and the "
        "memory handle rkey.",
        by_put_nbx,
    ),
)
def the_block_is_stored_there_and_nowhere_else(pair: Pair, call: Call) -> None:
    """Put no, few and many bytes, at any address; the bytes around them stay."""
    region = pair.memory(b"\xee" * (LONG + 20))
    for length, offset in ((0, 5), (1, 7), (8, 3), (64, 0), (LONG, 13)):
        region.view[:] = b"\xee" * len(region.view)
        request = call(pair.near.ep, pattern(length), length, region.address + offset, region.rkey)
        expect_equal("statuses", (pair.finish(request), flush(pair)), (OK, OK))
        expected = b"\xee" * offset + pattern(length) + b"\xee" * (LONG + 20 - offset - length)
        expect_equal(f"{length} bytes at {offset}", bytes(region.view), expected)


@across(
    (
        put_nbi,
        3929,
        "A user can use ucp_worker_flush_nb() in order to guarantee re-usability of the source address buffer.",
        by_put_nbi,
    ),
    (
        put_nb,
        3964,
        "A user can use ucp_worker_flush_nb() in order to guarantee re-usability of the source address buffer.",
        by_put_nb,
    ),
    (
        put_nbx,
        4016,
        "A user can use ucp_worker_flush_nb() in order to guarantee re-usability of the source address buffer.",
        by_put_nbx,
    ),
)
def after_a_flush_the_source_can_be_used_again(pair: Pair, call: Call) -> None:
    """Overwrite the source after the flush: the target does not see the change."""
    for length in (8, LONG):
        region, data = pair.memory(length), bytearray(pattern(length))
        request = call(pair.near.ep, data, length, region.address, region.rkey)
        expect_equal("flush", pair.finish(ucp.ucp_worker_flush_nb(pair.near.worker, 0, None)), OK)
        data[:] = bytes(length)
        pair.settle()
        expect_equal(f"{length} bytes", bytes(region.view), pattern(length))
        pair.finish(request)


@across(
    (
        put_nb,
        3956,
        "If the put operation completes immediately, the routine returns UCS_OK and the call-back routine "
        "cb is not invoked.",
        by_put_nb,
    ),
    (
        put_nbx,
        4004,
        "If the put operation completes immediately, the routine returns UCS_OK and the call-back routine "
        "param.cb.send is not invoked.",
        by_put_nbx,
    ),
)
def a_put_that_is_over_at_once_calls_nobody_back(pair: Pair, call: Call) -> None:
    """Put 8 bytes: the buffer can be changed at once."""
    region, calls, data = pair.memory(8), Calls(), bytearray(b"at once!")
    expect_equal("what the call returned", call(pair.near.ep, data, 8, region.address, region.rkey, calls), None)
    data[:] = bytes(8)
    flush(pair)
    pair.settle()
    expect_equal("calls", calls.told, [])
    expect_equal("memory", bytes(region.view), b"at once!")


@across(
    (
        put_nb,
        3958,
        "If the operation is not completed immediately and no error is reported, then the UCP library will"
        " schedule invocation of the call-back routine cb upon completion of the put operation.",
        by_put_nb,
    ),
    (
        put_nbx,
        4006,
        "If the operation is not completed immediately and no error is reported, then the UCP library will"
        " schedule invocation of the call-back routine param.cb.send upon completion of the put operation.",
        by_put_nbx,
    ),
    (
        get_nb,
        4089,
        "If the operation is not completed immediately and no error is reported, then the UCP library will"
        " schedule invocation of the call-back routine cb upon completion of the get operation.",
        by_get_nb,
    ),
    (
        get_nbx,
        4136,
        "If the operation is not completed immediately and no error is reported, then the UCP library will"
        " schedule invocation of the call-back routine param.cb.send upon completion of the get operation.",
        by_get_nbx,
    ),
)
def an_operation_in_flight_calls_back_once(pair: Pair, call: Call) -> None:
    """Call back with request and UCS_OK, from progress; without a callback the request has the status."""
    region, calls, buffer = pair.memory(pattern(LONG)), Calls(), bytearray(pattern(LONG))
    request = call(pair.near.ep, buffer, LONG, region.address, region.rkey, calls)
    expect(request is not None, "expected a request, got None")
    expect_equal("status", ucp.ucp_request_check_status(request), IN_PROGRESS)
    expect_equal("calls inside the call", calls.told, [])
    pair.wait(lambda: calls.told, "a callback")
    pair.settle()
    expect_equal("calls", calls.told, [(request, OK)])
    expect_equal("status", pair.finish(request), OK)
    expect_equal(
        "status without a callback", pair.finish(call(pair.near.ep, buffer, LONG, region.address, region.rkey)), OK
    )


@put_nbi.says(
    3925,
    "If the operation is completed immediately the routine return UCS_OK, otherwise UCS_INPROGRESS or an "
    "error is returned to user.",
)
def nbi_says_whether_the_buffer_is_free(pair: Pair) -> None:
    """Expect UCS_OK of 8 bytes, and a free buffer; UCS_INPROGRESS of many."""
    region, data = pair.memory(LONG), bytearray(b"at once!")
    expect_equal("8 bytes", ucp.ucp_put_nbi(pair.near.ep, data, 8, region.address, region.rkey), OK)
    data[:] = bytes(8)
    flush(pair)
    expect_equal("memory", bytes(region.view[:8]), b"at once!")
    status = ucp.ucp_put_nbi(pair.near.ep, pattern(LONG), LONG, region.address, region.rkey)
    expect_equal(f"{LONG} bytes", status, IN_PROGRESS)
    flush(pair)
    expect_equal("memory", bytes(region.view), pattern(LONG))


@across(
    (
        put_nbx,
        4022,
        "If ucp_request_param_t.datatype is not specified, the type defaults to ucp_dt_make_contig(1), "
        "which corresponds to byte elements.",
        True,
    ),
    (
        get_nbx,
        4148,
        "If ucp_request_param_t.datatype is not specified, the type defaults to ucp_dt_make_contig(1), "
        "which corresponds to byte elements.",
        False,
    ),
)
def elements_are_bytes_unless_said_otherwise(pair: Pair, call: bool) -> None:
    """Count 8 is 8 bytes; of elements of 4 it is 32."""
    function: Any = ucp.ucp_put_nbx if call else ucp.ucp_get_nbx
    for asked, length in ((None, 8), (param(), 8), (param(datatype=ucp.ucp_dt_make_contig(4)), 32)):
        there, here = (bytes(40), pattern(40)) if call else (pattern(40), bytes(40))
        region, buffer = pair.memory(there), bytearray(here)
        pair.finish(function(pair.near.ep, buffer, 8, region.address, region.rkey, asked))
        flush(pair)
        got = bytes(region.view) if call else bytes(buffer)
        expect_equal(f"{length} bytes", got, pattern(40)[:length] + bytes(40 - length))


@across(
    (put_nbx, 4030, "Operation parameters, see ucp_request_param_t", True),
    (get_nbx, 4156, "Operation parameters, see ucp_request_param_t.", False),
)
def pieces_are_gathered_and_scattered(pair: Pair, call: bool) -> None:
    """Pass a list of three pieces, one of no bytes."""
    region = pair.memory(bytes(10) if call else b"0123456789")
    one, other = bytearray(b"abc" if call else 3), bytearray(b"defg" if call else 4)
    pieces = [ucp.ucp_dt_iov_t(one, 3), ucp.ucp_dt_iov_t(None, 0), ucp.ucp_dt_iov_t(other, 4)]
    function: Any = ucp.ucp_put_nbx if call else ucp.ucp_get_nbx
    asked = param(datatype=ucp.ucp_dt_make_iov())
    expect_equal("status", pair.finish(function(pair.near.ep, pieces, 3, region.address, region.rkey, asked)), OK)
    flush(pair)
    got = bytes(region.view[:7]) if call else bytes(one + other)
    expect_equal("bytes", got, b"abcdefg" if call else b"0123456")


@across(
    (
        put_nbx,
        4011,
        "Immediate completion signals can be fine-tuned via the ucp_request_param_t.op_attr_mask field in "
        "the ucp_request_param_t structure.",
        True,
    ),
    (get_nbx, 4160, "otherwise - Operation was scheduled and can be completed at any point in time.", False),
)
def completion_at_once_can_be_forbidden_and_demanded(pair: Pair, call: bool) -> None:
    """Pass NO_IMM_CMPL with a user's request and user data; FORCE_IMM_CMPL of many bytes is NO_RESOURCE."""
    region, buffer = pair.memory(LONG), bytearray(LONG)
    function: Any = ucp.ucp_put_nbx if call else ucp.ucp_get_nbx
    calls, memory = Calls(), ucp.ucp_request_alloc(pair.near.worker)
    asked = param(op_attr_mask=NO_IMMEDIATE, cb=calls, user_data="mine", request=memory)
    request = function(pair.near.ep, buffer, 8, region.address, region.rkey, asked)
    expect(request is memory, f"expected the user's request, got {request!r}")
    pair.wait(lambda: calls.told, "a callback")
    expect_equal("calls", calls.told, [(memory, OK, "mine")])
    ucp.ucp_request_free(memory)
    with expect_status("at once", ucp.UcsStatus.UCS_ERR_NO_RESOURCE):
        function(pair.near.ep, buffer, LONG, region.address, region.rkey, param(op_attr_mask=FORCE_IMMEDIATE))


@across(
    (
        put_nbx,
        4041,
        "Only the datatype ucp_dt_make_contig(1) is supported for param->datatype, see ucp_dt_make_contig.",
        True,
    ),
    (
        get_nbx,
        4167,
        "Only the datatype ucp_dt_make_contig(1) is supported for param->datatype, see ucp_dt_make_contig.",
        False,
    ),
)
def generic_datatypes_are_refused(pair: Pair, call: bool) -> None:
    """Expect UNSUPPORTED, and no call of their functions."""
    region, generic = pair.memory(8), Generic(pair.keep)
    function: Any = ucp.ucp_put_nbx if call else ucp.ucp_get_nbx
    with expect_status("a generic datatype", ucp.UcsStatus.UCS_ERR_UNSUPPORTED):
        function(pair.near.ep, bytearray(8), 8, region.address, region.rkey, param(datatype=generic.datatype))
    expect_equal("calls", generic.calls, [])


# Gets


@across(
    (
        get_nbi,
        4053,
        "This routine initiate a load of contiguous block of data that is described by the remote memory "
        "address remote_addr and the memory handle rkey in the local contiguous memory region described by"
        " buffer address.",
        by_get_nbi,
    ),
    (
        get_nb,
        4081,
        "This routine initiates a load of a contiguous block of data that is described by the remote "
        "memory address remote_addr and the memory handle rkey in the local contiguous memory region "
        "described by buffer address.",
        by_get_nb,
    ),
    (
        get_nbx,
        4128,
        "This routine initiates a load of a contiguous block of data that is described by the remote "
        "memory address remote_addr and the memory handle rkey in the local contiguous memory region "
        "described by buffer address.",
        by_get_nbx,
    ),
)
def the_block_is_loaded(pair: Pair, call: Call) -> None:
    """Get no, few and many bytes, from any address; bytes behind them in the buffer stay."""
    region = pair.memory(pattern(LONG + 20))
    for length, offset in ((0, 5), (1, 7), (8, 3), (LONG, 13)):
        buffer = bytearray(b"\xee" * (length + 4))
        request = call(pair.near.ep, buffer, length, region.address + offset, region.rkey)
        expect_equal("statuses", (pair.finish(request), flush(pair)), (OK, OK))
        expected = pattern(LONG + 20)[offset : offset + length] + b"\xee" * 4
        expect_equal(f"{length} bytes from {offset}", bytes(buffer), expected)


@across(
    (
        get_nbi,
        4059,
        "A user can use ucp_worker_flush_nb() in order guarantee that remote data is loaded and stored "
        "under the local address buffer.",
        by_get_nbi,
    ),
    (
        get_nb,
        4106,
        "Call-back function that is invoked whenever the get operation is completed and the data is "
        "visible to the local process.",
        by_get_nb,
    ),
    (
        get_nbx,
        4139,
        "In other words, the completion of a get operation can be signaled by the return code or execution"
        " of the call-back.",
        by_get_nbx,
    ),
)
def data_is_there_when_it_is_said(pair: Pair, call: Call) -> None:
    """Check the data in the callback, if any, and behind a flush of the worker."""
    region, buffer, seen = pair.memory(pattern(LONG)), bytearray(LONG), []
    request = call(pair.near.ep, buffer, LONG, region.address, region.rkey, lambda *told: seen.append(bytes(buffer)))
    expect_equal("flush", pair.finish(ucp.ucp_worker_flush_nb(pair.near.worker, 0, None)), OK)
    expect_equal("buffer", bytes(buffer), pattern(LONG))
    expect_equal("in the callback", seen, [pattern(LONG)] * (call is not by_get_nbi))
    pair.finish(request)


# Errors


@across(
    (put_nbi, 3941, "Error code as defined by ucs_status_t", by_put_nbi),
    (put_nb, 3981, "UCS_PTR_IS_ERR(_ptr) - The operation failed.", by_put_nb),
    (put_nbx, 4033, "UCS_PTR_IS_ERR(_ptr) - The operation failed.", by_put_nbx),
    (get_nbi, 4072, "Error code as defined by ucs_status_t", by_get_nbi),
    (get_nb, 4111, "UCS_PTR_IS_ERR(_ptr) - The operation failed.", by_get_nb),
    (get_nbx, 4159, "UCS_PTR_IS_ERR(_ptr) - The operation failed.", by_get_nbx),
)
def what_cannot_be_meant_does_nothing(pair: Pair, call: Call) -> None:
    """Pass a short buffer, an address above 64 bits, no key, a destroyed key, and no endpoint."""
    region = pair.memory(b"untouched" + bytes(7))
    gone = ucp.ucp_ep_rkey_unpack(pair.near.ep, ucp.ucp_rkey_pack(pair.far.context, region.memh)[0])
    ucp.ucp_rkey_destroy(gone)
    near, place, key = pair.near.ep, region.address, region.rkey
    for what, arguments in (
        ("short buffer", (near, bytearray(3), 4, place, key)),
        ("address", (near, bytearray(4), 4, 1 << 64, key)),
        ("no key", (near, bytearray(4), 4, place, None)),
        ("destroyed key", (near, bytearray(4), 4, place, gone)),
        ("no endpoint", (None, bytearray(4), 4, place, key)),
    ):
        with expect_status(what, INVALID):
            call(*arguments)
    expect_equal("flush", flush(pair), OK)
    expect_equal("memory", bytes(region.view[:9]), b"untouched")


@across(
    (put_nbi, 3938, "Remote memory key associated with the remote memory address.", by_put_nbi),
    (put_nb, 3973, "Remote memory key associated with the remote memory address.", by_put_nb),
    (put_nbx, 4028, "Remote memory key associated with the remote memory address.", by_put_nbx),
    (get_nbi, 4069, "Remote memory key associated with the remote memory address.", by_get_nbi),
    (get_nb, 4104, "Remote memory key associated with the remote memory address.", by_get_nb),
    (get_nbx, 4154, "Remote memory key associated with the remote memory address.", by_get_nbx),
)
def memory_beyond_the_keys_is_not_reached(pair: Pair, call: Call) -> None:
    """Access one byte behind, and one before the memory: INVALID_ADDR; the endpoint still works."""
    region = pair.memory(16)
    for offset in (9, -1):
        status = outcome(pair, call, pair.near.ep, bytearray(b"\xaa" * 8), 8, region.address + offset, region.rkey)
        expect_equal(f"8 bytes at {offset} of 16", status, ucp.UcsStatus.UCS_ERR_INVALID_ADDR)
    expect_equal("memory", bytes(region.view), bytes(16))
    status = outcome(pair, call, pair.near.ep, bytearray(8), 8, region.address + 8, region.rkey)
    expect_equal("within it", status, OK)


@across(
    (
        put_nbi,
        3924,
        "The routine returns immediately and does not guarantee re-usability of the source address buffer.",
        by_put_nbi,
    ),
    (
        put_nb,
        3953,
        "The routine returns immediately and does not guarantee re-usability of the source address buffer.",
        by_put_nb,
    ),
    (
        put_nbx,
        4001,
        "The routine returns immediately and does not guarantee re-usability of the source address buffer.",
        by_put_nbx,
    ),
    (
        get_nbi,
        4056,
        "The routine returns immediately and does not guarantee that remote data is loaded and stored "
        "under the local address buffer.",
        by_get_nbi,
    ),
    (
        get_nb,
        4084,
        "The routine returns immediately and does not guarantee that remote data is loaded and stored "
        "under the local address buffer.",
        by_get_nb,
    ),
    (
        get_nbx,
        4131,
        "The routine returns immediately and does not guarantee that remote data is loaded and stored "
        "under the local address buffer.",
        by_get_nbx,
    ),
)
def many_operations_are_taken_without_progress(pair: Pair, call: Call) -> None:
    """Post 80 of them, each on bytes of its own; all are done at the flush."""
    count, put = 80, call in (by_put_nbi, by_put_nb, by_put_nbx)
    region = pair.memory(bytes(2 * count) if put else pattern(2 * count))
    buffers = [bytearray(pattern(2 * count)[2 * index : 2 * index + 2] if put else 2) for index in range(count)]
    requests = [
        call(pair.near.ep, buffer, 2, region.address + 2 * index, region.rkey) for index, buffer in enumerate(buffers)
    ]
    expect_equal("flush", flush(pair), OK)
    expect_equal("statuses", {pair.finish(request) for request in requests}, {OK})
    expect_equal("bytes", bytes(region.view) if put else b"".join(buffers), pattern(2 * count))


@get_nbi.says(4072, "Error code as defined by ucs_status_t")
def a_get_is_in_progress_until_a_flush(pair: Pair) -> None:
    """Expect UCS_INPROGRESS of 8 bytes; UCS_OK of none."""
    region, buffer = pair.memory(b"contents"), bytearray(8)
    status = ucp.ucp_get_nbi(pair.near.ep, buffer, 8, region.address, region.rkey)
    expect_equal("8 bytes", status, IN_PROGRESS)
    expect_equal("no bytes", ucp.ucp_get_nbi(pair.near.ep, buffer, 0, region.address, region.rkey), OK)
    flush(pair)
    expect_equal("buffer", bytes(buffer), b"contents")


for _page, _name in ((put_nb, "cb"), (put_nbx, "")):
    _page.silent(
        "In other words, the completion of a put operation can be signaled by the return code or execution"
        " of the call-back.",
        "says the same as the sentences before it, which have checks",
    )
