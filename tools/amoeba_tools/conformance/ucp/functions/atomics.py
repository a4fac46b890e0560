"""Atomics: ucp_atomic_post, ucp_atomic_fetch_nb, ucp_atomic_op_nbx."""

from collections.abc import Callable
from typing import Any

import amoeba.ucp as ucp

from amoeba_tools.conformance.expectations import expect, expect_equal
from amoeba_tools.conformance.ucp.expectations import expect_status
from amoeba_tools.conformance.ucp.functions.common import INVALID, NO_IMMEDIATE, OK, Calls, param
from amoeba_tools.conformance.ucp.functions.rma import flush, outcome
from amoeba_tools.conformance.ucp.pair import Pair, Region
from amoeba_tools.conformance.ucp.registry import Function, across

post = Function("ucp_atomic_post", 4196)
fetch_nb = Function("ucp_atomic_fetch_nb", 4247)
op_nbx = Function("ucp_atomic_op_nbx", 4320)

POST, FETCH, OP = ucp.ucp_atomic_post_op_t, ucp.ucp_atomic_fetch_op_t, ucp.ucp_atomic_op_t
SIZES = (4, 8)
X, Y, Z = 0x5A5A_0F0F_1234_8765, 0xF0F0_F0F0_8000_0001, 0x1111_2222_3333_4444


def low(value: int, size: int) -> int:
    """Truncate a number to so many bytes."""
    return value & (1 << 8 * size) - 1


RESULTS: dict[str, Callable[[int, int], int]] = {
    "ADD": lambda x, y: x + y,
    "AND": lambda x, y: x & y,
    "OR": lambda x, y: x | y,
    "XOR": lambda x, y: x ^ y,
    "SWAP": lambda x, y: x,
}
"""New value per operation, from the operand X and the old value Y."""


def number(pair: Pair, value: int, size: int) -> Region:
    """Map a number at ``far``, between guard bytes."""
    return pair.memory(b"\xee" * 8 + low(value, size).to_bytes(size, "little") + b"\xee" * 8)


def value_of(region: Region, size: int) -> int:
    """Return the number. Raises CheckFailedError if the guard bytes have changed."""
    expect_equal("bytes around it", bytes(region.view[:8]) + bytes(region.view[8 + size :]), b"\xee" * 16)
    return int.from_bytes(region.view[8 : 8 + size], "little")


def posted(pair: Pair, name: str, x: int, size: int, region: Region) -> None:
    opcode = POST[f"UCP_ATOMIC_POST_OP_{name}"]
    ucp.ucp_atomic_post(pair.near.ep, opcode, low(x, size), size, region.address + 8, region.rkey)


def fetched(pair: Pair, name: str, x: int, size: int, region: Region, result: Any = None, cb: Any = None) -> Any:
    fetching = {"ADD": "FADD", "AND": "FAND", "OR": "FOR", "XOR": "FXOR"}.get(name, name)
    opcode = FETCH[f"UCP_ATOMIC_FETCH_OP_{fetching}"]
    result = bytearray(size) if result is None else result
    return ucp.ucp_atomic_fetch_nb(
        pair.near.ep, opcode, low(x, size), result, size, region.address + 8, region.rkey, cb
    )


def operated(pair: Pair, name: str, x: int, size: int, region: Region, reply: Any = None, **fields: Any) -> Any:
    operand = low(x, size).to_bytes(size, "little")
    asked = param(datatype=ucp.ucp_dt_make_contig(size), reply_buffer=reply, **fields)
    return ucp.ucp_atomic_op_nbx(
        pair.near.ep, OP[f"UCP_ATOMIC_OP_{name}"], operand, 1, region.address + 8, region.rkey, asked
    )


def changes(pair: Pair, name: str, call: Any) -> None:
    """Check the operation's new value, in 4 and 8 bytes; sums wrap."""
    for size in SIZES:
        for x, y in ((X, Y), (1, 2**64 - 1)):
            region = number(pair, y, size)
            pair.finish(call(pair, name, x, size, region))
            expect_equal("flush", flush(pair), OK)
            expect_equal(f"{name} of {size} bytes", value_of(region, size), low(RESULTS[name](x, y), size))


@post.says(4179, "This routine posts an atomic memory operation to a remote value.")
def post_adds(pair: Pair) -> None:
    """Add beyond the largest number, too, which wraps."""
    changes(pair, "ADD", posted)


@post.says(4188, "One of ucp_atomic_post_op_t.")
def post_does_and_or_and_xor(pair: Pair) -> None:
    """Compare bit by bit, of 4 and 8 bytes."""
    for name in ("AND", "OR", "XOR"):
        changes(pair, name, posted)


@post.says(4190, "Size of value in bytes")
def post_takes_the_lowest_bytes_of_the_value(pair: Pair) -> None:
    """Ignore the upper half of an operand of 4 bytes; an invalid size is INVALID_PARAM."""
    region = number(pair, 5, 4)
    ucp.ucp_atomic_post(pair.near.ep, POST.UCP_ATOMIC_POST_OP_ADD, 7 << 32 | 1, 4, region.address + 8, region.rkey)
    flush(pair)
    expect_equal("number", value_of(region, 4), 6)
    for size in (0, 1, 2, 16):
        with expect_status(f"{size} bytes", INVALID):
            ucp.ucp_atomic_post(pair.near.ep, POST.UCP_ATOMIC_POST_OP_ADD, 1, size, region.address, region.rkey)


@post.says(
    4183,
    "Return from the function does not guarantee completion. A user must call ucp_ep_flush_nb or "
    "ucp_worker_flush_nb to guarantee that the remote value has been updated.",
)
def a_flush_of_either_kind_updates_the_value(pair: Pair) -> None:
    """Post ten additions before each."""
    region = number(pair, 0, 8)
    for total in (10, 20):
        for _ in range(10):
            posted(pair, "ADD", 1, 8, region)
        if total == 10:
            request = ucp.ucp_ep_flush_nb(pair.near.ep, 0, None)
        else:
            request = ucp.ucp_worker_flush_nb(pair.near.worker, 0, None)
        expect_equal("flush", pair.finish(request), OK)
        expect_equal("number", value_of(region, 8), total)


@fetch_nb.says(4204, "This routine will post an atomic fetch operation to remote memory.")
def fetch_adds(pair: Pair) -> None:
    """Add beyond the largest number, too, which wraps."""
    changes(pair, "ADD", fetched)


@fetch_nb.says(4221, "One of ucp_atomic_fetch_op_t.")
def fetch_does_and_or_xor_and_swap(pair: Pair) -> None:
    """Compare bit by bit, of 4 and 8 bytes."""
    for name in ("AND", "OR", "XOR", "SWAP"):
        changes(pair, name, fetched)


@fetch_nb.says(4225, "Local memory address to store resulting fetch to.")
def fetch_stores_what_was_there(pair: Pair) -> None:
    """Fetch by every operation, in 4 and 8 bytes."""
    for size in SIZES:
        for name in RESULTS:
            region, result = number(pair, Y, size), bytearray(size)
            expect_equal("status", pair.finish(fetched(pair, name, X, size, region, result)), OK)
            expect_equal(f"result of {name}", int.from_bytes(result, "little"), low(Y, size))


@fetch_nb.says(
    4226,
    "In the case of CSWAP the value in result will be swapped into the remote_addr if the condition is true.",
)
def fetch_compares_and_swaps(pair: Pair) -> None:
    """Swap if the number equals ``value``; otherwise the number stays. The result is the old number."""
    for size in SIZES:
        for compare, expected in ((Y, Z), (X, Y)):
            region, result = number(pair, Y, size), bytearray(low(Z, size).to_bytes(size, "little"))
            expect_equal("status", pair.finish(fetched(pair, "CSWAP", compare, size, region, result)), OK)
            expect_equal("number", value_of(region, size), low(expected, size))
            expect_equal("result", int.from_bytes(result, "little"), low(Y, size))


@fetch_nb.says(
    4212,
    "If the operation is not completed immediately and no error is reported, then the UCP library will "
    "schedule invocation of the call-back routine cb upon completion of the atomic operation.",
)
def fetch_calls_back_when_the_result_is_there(pair: Pair) -> None:
    """Expect one call, with request and status; the result is filled then."""
    region, result, calls, seen = number(pair, 9, 8), bytearray(8), Calls(), []

    def note(*told: Any) -> None:
        seen.append(int.from_bytes(result, "little"))
        calls(*told)

    request = fetched(pair, "ADD", 1, 8, region, result, note)
    expect(request is not None, "expected a request, got None")
    expect_equal("calls inside the call", calls.told, [])
    pair.wait(lambda: calls.told, "a callback")
    pair.settle()
    expect_equal("calls", (calls.told, seen), ([(request, OK)], [9]))
    ucp.ucp_request_free(request)


@fetch_nb.says(
    4209,
    "The atomic operation is not considered complete until the values in remote and local memory are completed.",
)
def fetches_are_one_after_the_other(pair: Pair) -> None:
    """Fetch from two workers on two NICs on one number: every value is fetched once."""
    region = number(pair, 0, 8)
    other = ucp.ucp_ep_rkey_unpack(pair.far.connect(pair.far), ucp.ucp_rkey_pack(pair.far.context, region.memh)[0])
    pair.keep(lambda: ucp.ucp_ep_close_nb(other.endpoint, int(ucp.UCP_EP_CLOSE_MODE_FLUSH)))
    results, requests = [bytearray(8) for _ in range(12)], []
    for index, result in enumerate(results):
        ep, key = (other.endpoint, other) if index % 2 else (pair.near.ep, region.rkey)
        requests.append(
            ucp.ucp_atomic_fetch_nb(ep, FETCH.UCP_ATOMIC_FETCH_OP_FADD, 1, result, 8, region.address + 8, key, None)
        )
    expect_equal("statuses", {pair.finish(request) for request in requests}, {OK})
    expect_equal("fetched", sorted(int.from_bytes(result, "little") for result in results), list(range(12)))
    expect_equal("number", value_of(region, 8), 12)


@op_nbx.says(4279, "Result=Y; Y+=X")
def op_adds(pair: Pair) -> None:
    """Add beyond the largest number, too, which wraps; without a reply buffer."""
    changes(pair, "ADD", operated)


@op_nbx.says(4289, "Result=Y; Y&=X")
def op_does_and(pair: Pair) -> None:
    """Compare bit by bit."""
    changes(pair, "AND", operated)


@op_nbx.says(4292, "Result=Y; Y|=X")
def op_does_or(pair: Pair) -> None:
    """Compare bit by bit."""
    changes(pair, "OR", operated)


@op_nbx.says(4295, "Result=Y; Y^=X")
def op_does_xor(pair: Pair) -> None:
    """Compare bit by bit."""
    changes(pair, "XOR", operated)


@op_nbx.says(4282, "Result=Y; Y=X")
def op_swaps(pair: Pair) -> None:
    """Get the old value in the reply buffer; without a reply buffer the call is INVALID_PARAM."""
    for size in SIZES:
        region, reply = number(pair, Y, size), bytearray(size)
        expect_equal("status", pair.finish(operated(pair, "SWAP", X, size, region, reply)), OK)
        expect_equal("number", value_of(region, size), low(X, size))
        expect_equal("reply", int.from_bytes(reply, "little"), low(Y, size))
    with expect_status("no reply buffer", INVALID):
        operated(pair, "SWAP", X, 8, number(pair, Y, 8))


@op_nbx.says(4286, "Result=Y; if (X==Y) then Y=Z")
def op_compares_and_swaps(pair: Pair) -> None:
    """Compare with the buffer, swap in the reply buffer, and get the old value in the reply buffer."""
    for size in SIZES:
        for compare, expected in ((Y, Z), (X, Y)):
            region, reply = number(pair, Y, size), bytearray(low(Z, size).to_bytes(size, "little"))
            expect_equal("status", pair.finish(operated(pair, "CSWAP", compare, size, region, reply)), OK)
            expect_equal("number", value_of(region, size), low(expected, size))
            expect_equal("reply", int.from_bytes(reply, "little"), low(Y, size))


@op_nbx.says(
    4261,
    "In order to enable fetching semantics for atomic operations user has to specify param.reply_buffer.",
)
def op_fetches_into_the_reply_buffer(pair: Pair) -> None:
    """Fetch by every operation; the new value is the same."""
    for size in SIZES:
        for name, result in RESULTS.items():
            region, reply = number(pair, Y, size), bytearray(size)
            expect_equal("status", pair.finish(operated(pair, name, X, size, region, reply)), OK)
            expect_equal(f"reply of {name}", int.from_bytes(reply, "little"), low(Y, size))
            expect_equal(f"{name}", value_of(region, size), low(result(X, Y), size))


@op_nbx.says(4271, "Thus, count argument must be set to 1.")
def op_takes_one_element(pair: Pair) -> None:
    """Pass counts of none and two: INVALID_PARAM, and the memory stays."""
    region, asked = number(pair, 5, 8), param(datatype=ucp.ucp_dt_make_contig(8))
    for count in (0, 2):
        with expect_status(f"count {count}", INVALID):
            ucp.ucp_atomic_op_nbx(
                pair.near.ep, OP.UCP_ATOMIC_OP_ADD, bytes(16), count, region.address + 8, region.rkey, asked
            )
    flush(pair)
    expect_equal("number", value_of(region, 8), 5)


@op_nbx.says(4305, "The size of each element is specified by ucp_request_param_t.datatype")
def op_takes_elements_of_4_and_8_bytes(pair: Pair) -> None:
    """Use other sizes, pieces, and no datatype, which are INVALID_PARAM."""
    region = number(pair, 5, 8)
    datatypes = [ucp.ucp_dt_make_contig(size) for size in (1, 2, 16)]
    for asked in (None, *(param(datatype=each) for each in (*datatypes, ucp.ucp_dt_make_iov()))):
        with expect_status(f"{asked}", INVALID):
            ucp.ucp_atomic_op_nbx(
                pair.near.ep, OP.UCP_ATOMIC_OP_ADD, bytes(16), 1, region.address + 8, region.rkey, asked
            )


@op_nbx.says(
    4314,
    "otherwise - Operation was scheduled and can be completed at some time in the future. The request "
    "handle is returned to the application in order to track progress of the operation.",
)
def op_calls_back_when_it_is_done(pair: Pair) -> None:
    """Call back after the number has changed, also with NO_IMM_CMPL and no reply buffer."""
    for reply in (None, bytearray(8)):
        region, calls = number(pair, 5, 8), Calls()
        request = operated(pair, "ADD", 1, 8, region, reply, op_attr_mask=NO_IMMEDIATE, cb=calls, user_data="mine")
        expect(request is not None, "expected a request, got None")
        pair.wait(lambda: calls.told, "a callback")  # noqa: B023
        expect_equal("calls", calls.told, [(request, OK, "mine")])
        expect_equal("number", value_of(region, 8), 6)
        ucp.ucp_request_free(request)


@op_nbx.says(4310, "Operation parameters, see ucp_request_param_t.")
def op_looks_at_fields_of_the_mask_alone(pair: Pair) -> None:
    """Check that a reply buffer outside the mask stays."""
    region, reply = number(pair, 5, 8), bytearray(8)
    pair.finish(operated(pair, "ADD", 1, 8, region, reply, op_attr_mask=ucp.UCP_OP_ATTR_FIELD_DATATYPE))
    flush(pair)
    expect_equal("number and reply", (value_of(region, 8), bytes(reply)), (6, bytes(8)))


@across(
    (post, 4194, "Error code as defined by ucs_status_t", posted),
    (fetch_nb, 4238, "UCS_PTR_IS_ERR(_ptr) - The operation failed.", fetched),
    (op_nbx, 4313, "UCS_PTR_IS_ERR(_ptr) - The operation failed.", operated),
)
def what_cannot_be_meant_changes_nothing(pair: Pair, call: Any) -> None:
    """Use an address off the multiple of the size: INVALID_PARAM; one outside the memory: INVALID_ADDR."""
    region = number(pair, 5, 8)
    shifted = Region(region.memh, region.rkey, region.address + 2, region.view)
    beyond = Region(region.memh, region.rkey, region.address + 64, region.view)
    with expect_status("unaligned", INVALID):
        call(pair, "ADD", 1, 8, shifted)
    expect_equal("outside", outcome(pair, call, pair, "ADD", 1, 8, beyond), ucp.UcsStatus.UCS_ERR_INVALID_ADDR)
    expect_equal("number", value_of(region, 8), 5)


@across(
    (post, 4192, "Remote key handle for the remote memory address.", posted),
    (fetch_nb, 4231, "Remote key handle for the remote memory address.", fetched),
    (op_nbx, 4309, "Remote key handle for the remote memory address.", operated),
)
def memory_that_peers_may_not_write_stays(pair: Pair, call: Any) -> None:
    """Expect REJECTED, from the operation or from the flush."""
    held = bytearray(b"\xee" * 8 + (5).to_bytes(8, "little") + b"\xee" * 8)
    prot = ucp.UCP_MEM_MAP_PROT_REMOTE_READ | ucp.UCP_MEM_MAP_PROT_LOCAL_READ | ucp.UCP_MEM_MAP_PROT_LOCAL_WRITE
    region = pair.memory(bytes(held), prot=prot)
    expect_equal("status", outcome(pair, call, pair, "ADD", 1, 8, region), ucp.UcsStatus.UCS_ERR_REJECTED)
    expect_equal("number", value_of(region, 8), 5)


for _page, _sentence in (
    (
        fetch_nb,
        "The user should not modify any part of the result after this operation is called, "
        "until the operation completes.",
    ),
    (op_nbx, "The user should not modify any part of the buffer"),
):
    _page.silent(_sentence, "asks something of the application")
