"""fi_atomic(3), Atomic Operations: what each operation makes of which values. All results are worked out by hand."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from amoeba.libfabric.objects.constants import Datatype, Op

from amoeba_tools.conformance.expectations import expect, expect_equal
from amoeba_tools.conformance.pages.fi_atomic import page
from amoeba_tools.conformance.pair import Pair

_INF = float("inf")
_NAN = float("nan")

Values = Sequence[Any]


def updates(pair: Pair, op: Op, kind: str, before: Values, operands: Values, after: Values) -> None:
    """Apply a fetching and a base atomic to elements of a NumPy type, and see what they leave and fetch."""
    initial, given, left = (np.array(values, kind).tobytes() for values in (before, operands, after))
    source, result = np.array(operands, kind), np.zeros(len(before), kind)
    memory = pair.memory(initial)
    pair.near.endpoint.fetch_atomic(source, result, *memory.at(), op)
    pair.near.finish()
    expect_equal(f"{op.name} of {kind}, what is fetched", result.tobytes(), initial)
    expect_equal(f"{op.name} of {kind}, fetching: what is left", memory.load(), left)
    memory.store(initial)
    pair.near.endpoint.atomic(source, *memory.at(), op)
    pair.near.finish()
    expect_equal(f"{op.name} of {kind}: what is left", memory.load(), left)
    expect_equal(f"{op.name} of {kind}: the operands", source.tobytes(), given)


def swaps(pair: Pair, op: Op, kind: str, before: Values, compare: Values, operands: Values, after: Values) -> None:
    """Check a comparing atomic."""
    initial, left = (np.array(values, kind).tobytes() for values in (before, after))
    result, memory = np.zeros(len(before), kind), pair.memory(initial)
    source, compared = np.array(operands, kind), np.array(compare, kind)
    pair.near.endpoint.compare_atomic(source, compared, result, *memory.at(), op)
    pair.near.finish()
    expect_equal(f"{op.name} of {kind}, what is fetched", result.tobytes(), initial)
    expect_equal(f"{op.name} of {kind}: what is left", memory.load(), left)


# Base and fetch


@page("Atomic Operations: FI_MIN", "if (buf[i] < addr[i]) addr[i] = buf[i]")
def min_keeps_the_smaller_value(pair: Pair) -> None:
    """Use signs where the type has them; a value that is not less, such as a NaN or -0 of 0, changes nothing."""
    updates(pair, Op.FI_MIN, "i1", [5, -5, 127, 0], [-128, 5, 127, -1], [-128, -5, 127, -1])
    updates(pair, Op.FI_MIN, "u8", [2**63, 1, 7], [2**63 - 1, 2**64 - 1, 7], [2**63 - 1, 1, 7])
    updates(pair, Op.FI_MIN, "f8", [1.5, 0.0, _NAN, 2.0, 3.0], [-_INF, -0.0, 1.0, _NAN, 1e-320],
            [-_INF, 0.0, _NAN, 2.0, 1e-320])  # fmt: skip


@page("Atomic Operations: FI_MAX", "if (buf[i] > addr[i]) addr[i] = buf[i]")
def max_keeps_the_larger_value(pair: Pair) -> None:
    """Use signs where the type has them; a value that is not greater, such as a NaN or 0 of -0, changes nothing."""
    updates(pair, Op.FI_MAX, "i2", [5, -5, -32768, 0], [-300, 5, 32767, -1], [5, 5, 32767, 0])
    updates(pair, Op.FI_MAX, "u4", [2**31, 1, 7], [2**31 - 1, 2**32 - 1, 7], [2**31, 2**32 - 1, 7])
    updates(pair, Op.FI_MAX, "f4", [1.5, -0.0, _NAN, 2.0], [_INF, 0.0, 1.0, _NAN], [_INF, -0.0, _NAN, 2.0])


@page("Atomic Operations: FI_SUM", "addr[i] = addr[i] + buf[i]")
def sum_adds(pair: Pair) -> None:
    """Expect integers to wrap around, floating point to be rounded once, and complex numbers added by parts."""
    updates(pair, Op.FI_SUM, "u1", [250, 0, 255], [10, 0, 1], [4, 0, 0])
    updates(pair, Op.FI_SUM, "i4", [2**31 - 1, -5], [1, 3], [-(2**31), -2])
    updates(pair, Op.FI_SUM, "u8", [2**64 - 1, 2**32 - 1], [2, 1], [1, 2**32])
    updates(pair, Op.FI_SUM, "f8", [0.1, 1.0, -0.0, 5e-324], [0.2, 2**-53, -0.0, 5e-324],
            [0.30000000000000004, 1.0, -0.0, 1e-323])  # fmt: skip
    updates(pair, Op.FI_SUM, "c8", [1 + 2j], [0.5 - 4j], [1.5 - 2j])


@page("Atomic Operations: FI_PROD", "addr[i] = addr[i] * buf[i]")
def prod_multiplies(pair: Pair) -> None:
    """Expect integers to wrap around, floating point to be rounded once, and complex products as such."""
    updates(pair, Op.FI_PROD, "i1", [-128, 16, 7], [-1, 16, -3], [-128, 0, -21])
    updates(pair, Op.FI_PROD, "u8", [2**63, 2**32], [3, 2**31], [2**63, 2**63])
    updates(pair, Op.FI_PROD, "f4", [3.0, 1e30, -0.0], [1 / 3, 1e30, 2.0], [1.0, _INF, -0.0])
    updates(pair, Op.FI_PROD, "c16", [1 + 2j], [3 - 1j], [5 + 5j])


@page("Atomic Operations: FI_LOR", "addr[i] = addr[i] || buf[i]")
def lor_is_one_if_either_is_true(pair: Pair) -> None:
    """Expect the datatype's one, whatever was true before; -0 is false, a NaN is true."""
    updates(pair, Op.FI_LOR, "u4", [0, 8, 0, 2**31], [0, 0, 6, 5], [0, 1, 1, 1])
    updates(pair, Op.FI_LOR, "f4", [0.0, -0.0, _NAN, 1e-45], [-0.0, 7.0, 0.0, 0.0], [0.0, 1.0, 1.0, 1.0])
    updates(pair, Op.FI_LOR, "c16", [0j, 0j], [0j, 3j], [0j, 1 + 0j])


@page("Atomic Operations: FI_LAND", "addr[i] = addr[i] && buf[i]")
def land_is_one_if_both_are_true(pair: Pair) -> None:
    """Expect the datatype's one, whatever was true before; -0 is false, a NaN is true."""
    updates(pair, Op.FI_LAND, "i8", [0, 8, 0, -1], [0, 0, 6, 5], [0, 0, 0, 1])
    updates(pair, Op.FI_LAND, "f8", [2.0, -0.0, _NAN], [-0.0, 7.0, 3.0], [0.0, 0.0, 1.0])
    updates(pair, Op.FI_LAND, "c8", [1j, 2 + 0j], [0j, 3j], [0j, 1 + 0j])


@page("Atomic Operations: FI_BOR", "addr[i] = addr[i] | buf[i]")
def bor_sets_bits(pair: Pair) -> None:
    """Use bits at both ends of the word."""
    updates(pair, Op.FI_BOR, "u8", [0xF0F0, 2**63], [0x0FF0, 1], [0xFFF0, 2**63 + 1])
    updates(pair, Op.FI_BOR, "i1", [0x55], [0x2A], [0x7F])


@page("Atomic Operations: FI_BAND", "addr[i] = addr[i] & buf[i]")
def band_keeps_bits(pair: Pair) -> None:
    """Use bits at both ends of the word."""
    updates(pair, Op.FI_BAND, "u8", [0xF0F0, 2**63 + 1], [0x0FF0, 2**64 - 2], [0x00F0, 2**63])
    updates(pair, Op.FI_BAND, "u2", [0xFFFF], [0x8001], [0x8001])


@page("Atomic Operations: FI_LXOR", "addr[i] = (addr[i] && !buf[i]) || (!addr[i] && buf[i])")
def lxor_is_one_if_one_is_true(pair: Pair) -> None:
    """Expect the datatype's one, whatever was true before."""
    updates(pair, Op.FI_LXOR, "u2", [0, 8, 0, 9], [0, 0, 6, 5], [0, 1, 1, 0])
    updates(pair, Op.FI_LXOR, "f8", [2.0, -0.0, _NAN], [-0.0, 7.0, 3.0], [1.0, 1.0, 0.0])


@page("Atomic Operations: FI_BXOR", "addr[i] = addr[i] ^ buf[i]")
def bxor_flips_bits(pair: Pair) -> None:
    """Use bits at both ends of the word."""
    updates(pair, Op.FI_BXOR, "u8", [0xF0F0, 2**63 + 1], [0x0FF0, 2**63], [0xFF00, 1])
    updates(pair, Op.FI_BXOR, "i4", [-1], [0x0F0F], [~0x0F0F])


@page("Atomic Operations: FI_ATOMIC_READ", "result[i] = addr[i]")
def atomic_read_fetches(pair: Pair) -> None:
    """Read memory that allows no other access; the source operand may be NULL."""
    content = np.array([1, 2**64 - 1, 0x0123_4567_89AB_CDEF], "u8")
    memory, result = pair.memory(content.tobytes()), np.zeros(3, "u8")
    pair.near.endpoint.fetch_atomic(None, result, *memory.at(), Op.FI_ATOMIC_READ)
    pair.near.finish()
    expect_equal("result", result.tobytes(), content.tobytes())
    expect_equal("memory", memory.load(), content.tobytes())


@page("Atomic Operations: FI_ATOMIC_WRITE", "addr[i] = buf[i]")
def atomic_write_stores(pair: Pair) -> None:
    """Compare bit by bit, also values that no comparison would tell apart."""
    updates(pair, Op.FI_ATOMIC_WRITE, "i2", [1, 2, 3], [-1, 0, 3], [-1, 0, 3])
    updates(pair, Op.FI_ATOMIC_WRITE, "f8", [0.0, _NAN], [-0.0, 1.0], [-0.0, 1.0])
    updates(pair, Op.FI_ATOMIC_WRITE, "c16", [1 + 2j], [-0.0 + 3j], [-0.0 + 3j])


# Compare


@page("Atomic Operations: FI_CSWAP", "if (compare[i] == addr[i]) addr[i] = buf[i]")
def cswap_swaps_what_is_equal(pair: Pair) -> None:
    """Compare floating point by value: -0 equals 0, a NaN nothing."""
    swaps(pair, Op.FI_CSWAP, "u8", [5, 5, 2**63], [5, 4, 2**63], [9, 9, 1], [9, 5, 1])
    swaps(pair, Op.FI_CSWAP, "f8", [0.0, _NAN, 1.5], [-0.0, _NAN, 1.5], [7.0, 7.0, 7.0], [7.0, _NAN, 7.0])
    swaps(pair, Op.FI_CSWAP, "c8", [1 + 2j, 1 + 2j], [1 + 2j, 1 + 3j], [9j, 9j], [9j, 1 + 2j])


@page("Atomic Operations: FI_CSWAP_NE", "if (compare[i] != addr[i]) addr[i] = buf[i]")
def cswap_ne_swaps_what_differs(pair: Pair) -> None:
    """Compare floating point by value: -0 equals 0, a NaN nothing."""
    swaps(pair, Op.FI_CSWAP_NE, "u4", [5, 5], [5, 4], [9, 9], [5, 9])
    swaps(pair, Op.FI_CSWAP_NE, "f4", [0.0, _NAN, 1.5], [-0.0, _NAN, 1.5], [7.0, 7.0, 7.0], [0.0, 7.0, 1.5])


@page("Atomic Operations: FI_CSWAP_LE", "if (compare[i] <= addr[i]) addr[i] = buf[i]")
def cswap_le_swaps_if_compare_is_not_greater(pair: Pair) -> None:
    """Compare with the left value; a NaN is never less or equal."""
    swaps(pair, Op.FI_CSWAP_LE, "i4", [5, 5, 5, -1], [4, 5, 6, -2], [9, 9, 9, 9], [9, 9, 5, 9])
    swaps(pair, Op.FI_CSWAP_LE, "f8", [0.0, _NAN, 1.0], [-0.0, 1.0, _NAN], [7.0] * 3, [7.0, _NAN, 1.0])


@page("Atomic Operations: FI_CSWAP_LT", "if (compare[i] < addr[i]) addr[i] = buf[i]")
def cswap_lt_swaps_if_compare_is_less(pair: Pair) -> None:
    """Compare with the left value; -0 is not less than 0."""
    swaps(pair, Op.FI_CSWAP_LT, "u8", [5, 5, 5, 2**63], [4, 5, 6, 1], [9, 9, 9, 9], [9, 5, 5, 9])
    swaps(pair, Op.FI_CSWAP_LT, "f4", [0.0, _INF, 1.0], [-0.0, 1.0, _NAN], [7.0] * 3, [0.0, 7.0, 1.0])


@page("Atomic Operations: FI_CSWAP_GE", "if (compare[i] >= addr[i]) addr[i] = buf[i]")
def cswap_ge_swaps_if_compare_is_not_less(pair: Pair) -> None:
    """Compare with the left value; a NaN is never greater or equal."""
    swaps(pair, Op.FI_CSWAP_GE, "i1", [5, 5, 5, -128], [4, 5, 6, 127], [9, 9, 9, 9], [5, 9, 9, 9])
    swaps(pair, Op.FI_CSWAP_GE, "f8", [-0.0, _NAN, 1.0], [0.0, 1.0, _NAN], [7.0] * 3, [7.0, _NAN, 1.0])


@page("Atomic Operations: FI_CSWAP_GT", "if (compare[i] > addr[i]) addr[i] = buf[i]")
def cswap_gt_swaps_if_compare_is_greater(pair: Pair) -> None:
    """Compare with the left value; 0 is not greater than -0."""
    swaps(pair, Op.FI_CSWAP_GT, "u2", [5, 5, 5, 1], [4, 5, 6, 2**15], [9, 9, 9, 9], [5, 5, 9, 9])
    swaps(pair, Op.FI_CSWAP_GT, "f4", [-0.0, -_INF, 1.0], [0.0, 1.0, _NAN], [7.0] * 3, [-0.0, 7.0, 1.0])


@page("Atomic Operations: FI_MSWAP", "addr[i] = (buf[i] & compare[i]) | (addr[i] & ~compare[i])")
def mswap_swaps_the_bits_of_the_mask(pair: Pair) -> None:
    """Select some, no and all bits by the mask."""
    swaps(pair, Op.FI_MSWAP, "u8", [0xAAAA, 7, 7], [0x00FF, 0, 2**64 - 1], [0x1234, 9, 2**63], [0xAA34, 7, 2**63])
    swaps(pair, Op.FI_MSWAP, "i1", [0x0F], [-128], [-1], [0x0F - 128])


# Datatypes


@page("Atomic Data Types", "Integers have 8 to 64 bits, floating point is IEEE 754, complex numbers are pairs.")
def every_datatype_is_added_in_its_own_encoding(pair: Pair) -> None:
    """Add 3 and 4 in arrays of three, so that elements of any other size would come out wrong."""
    for kind in ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8", "c8", "c16"):
        updates(pair, Op.FI_SUM, kind, [3, 0, 100], [4, 0, 1], [7, 0, 101])


@page("Atomic Data Types: FI_LONG_DOUBLE", "A double-extended value, as the platform has it.", needs={"long_double"})
def long_double_has_more_precision_than_double(pair: Pair) -> None:
    """Use 1 + 2**-60, which a double does not hold."""
    source, memory = np.array([np.longdouble(2) ** -60]), pair.memory(np.ones(1, np.longdouble).tobytes())
    pair.near.endpoint.atomic(source, *memory.at(), Op.FI_SUM, Datatype.FI_LONG_DOUBLE)
    pair.near.finish()
    left = np.frombuffer(memory.load(), np.longdouble)[0]
    expect(left - 1 == source[0], f"expected 1 + 2**-60, got {left!r}")


@page(
    "Atomic Data Types: FI_LONG_DOUBLE_COMPLEX", "A pair of such values, the real one first.", needs={"long_double"}
)
def complex_long_doubles_are_pairs(pair: Pair) -> None:
    """Use parts that are more exact than a double; a product mixes them."""
    tiny = np.longdouble(2) ** -60
    memory = pair.memory(np.array([1 + 1j], np.clongdouble).tobytes())
    source = np.zeros(1, np.clongdouble)
    source.real, source.imag = tiny, -tiny
    pair.near.endpoint.atomic(source, *memory.at(), Op.FI_SUM, Datatype.FI_LONG_DOUBLE_COMPLEX)
    pair.near.finish()
    left = np.frombuffer(memory.load(), np.clongdouble)[0]
    expect((left.real - 1, left.imag - 1) == (tiny, -tiny), f"expected 1 + 2**-60 and 1 - 2**-60, got {left!r}")
    source[:] = 1j
    pair.near.endpoint.atomic(source, *memory.at(), Op.FI_PROD, Datatype.FI_LONG_DOUBLE_COMPLEX)
    pair.near.finish()
    turned = np.frombuffer(memory.load(), np.clongdouble)[0]
    expect((turned.real, turned.imag) == (-left.imag, left.real), f"expected {left!r} times i, got {turned!r}")


@page("Atomic Data Types: FI_INT128", "Signed and unsigned integers of 128 bits.", needs={"int128"})
def integers_of_128_bits_carry_through(pair: Pair) -> None:
    """Carry out of the lower half, change a sign in the upper half, and compare both halves."""
    memory = pair.memory((2**64 - 1).to_bytes(16, "little"))
    pair.near.endpoint.atomic((1).to_bytes(16, "little"), *memory.at(), Op.FI_SUM, Datatype.FI_UINT128)
    pair.near.finish()
    expect_equal("the sum", memory.load(), (2**64).to_bytes(16, "little"))
    pair.near.endpoint.atomic(b"\xff" * 16, *memory.at(), Op.FI_MIN, Datatype.FI_INT128)
    pair.near.finish()
    expect_equal("the smaller signed value", memory.load(), b"\xff" * 16)
    result = bytearray(16)
    compared = b"\xff" * 8 + b"\xfe" + b"\xff" * 7
    pair.near.endpoint.compare_atomic(bytes(16), compared, result, *memory.at(), Op.FI_CSWAP, Datatype.FI_UINT128)
    pair.near.finish()
    expect_equal("after a comparison that differs in the upper half", memory.load(), b"\xff" * 16)


# Without a check of their own

page.leave(
    "Atomic Data Types: FI_LONG_DOUBLE",
    "Size and precision depend on compiler, platform and provider; applications ensure that they agree.",
    "A warning. Here it is x87's format in 16 bytes: `fi_atomic.long_double_has_more_precision_than_double`.",
)
