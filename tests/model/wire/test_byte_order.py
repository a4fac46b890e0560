"""The bytes of an atomic's operands that change places."""

import pytest
from amoeba_model.opcodes import Datatype
from amoeba_model.wire.byte_order import number_size, swap_bytes

SIZES = {
    "FI_INT8": 1, "FI_UINT8": 1, "FI_INT16": 2, "FI_UINT16": 2, "FI_INT32": 4, "FI_UINT32": 4, "FI_INT64": 8,
    "FI_UINT64": 8, "FI_INT128": 16, "FI_UINT128": 16, "FI_FLOAT": 4, "FI_DOUBLE": 8, "FI_LONG_DOUBLE": 16,
    "FI_FLOAT_COMPLEX": 4, "FI_DOUBLE_COMPLEX": 8, "FI_LONG_DOUBLE_COMPLEX": 16, "FI_FLOAT16": 2, "FI_BFLOAT16": 2,
    "FI_FLOAT8_E4M3": 1, "FI_FLOAT8_E5M2": 1,
}  # fmt: skip


def test_the_parts_of_a_complex_number_are_numbers_of_their_own() -> None:
    assert {datatype.name: number_size(datatype) for datatype in Datatype} == SIZES


@pytest.mark.parametrize(
    ("size", "swapped"),
    [
        (1, "000102030405060708090a0b0c0d0e0f"),
        (2, "01000302050407060908 0b0a0d0c0f0e"),
        (4, "0302010007060504 0b0a0908 0f0e0d0c"),
        (8, "0706050403020100 0f0e0d0c0b0a0908"),
        (16, "0f0e0d0c0b0a09080706050403020100"),
    ],
)
def test_each_number_is_reversed_for_itself(size: int, swapped: str) -> None:
    plain = bytes(range(16))
    assert swap_bytes(plain, size) == bytes.fromhex(swapped)
    assert swap_bytes(bytes.fromhex(swapped) * 3, size) == plain * 3


def test_nothing_stays_nothing() -> None:
    assert [swap_bytes(b"", size) for size in (1, 2, 4, 8, 16)] == [b""] * 5
