"""Elements side by side in memory give what arrays give, errors included."""

import warnings

import numpy as np
import pytest
from amoeba_model.atomic import cells, execute, execute_elements
from amoeba_model.atomic.matrix import COMPARE_OPS
from amoeba_model.opcodes import Datatype, Form, Op
from hypothesis import given
from hypothesis import strategies as st

from tests.support.strategies import corner_pairs, elements, operands

EVERY_CELL = [
    cell for cell in cells(extensions=True) if cell.form is not Form.BASE and cell.op is not Op.FI_ATOMIC_READ
]


def check(op, datatype, arrays, by_bits=False):
    expected = execute(op, datatype, *arrays, cswap_by_bits=by_bits)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = execute_elements(op, datatype, *(array.tobytes() for array in arrays), cswap_by_bits=by_bits)
    wrong = (expected != np.frombuffer(result, np.uint8).reshape(expected.shape)).any(axis=1).nonzero()[0]
    assert len(wrong) == 0, (op.name, [array[wrong[0]].tobytes().hex() for array in arrays])


@pytest.mark.parametrize("by_bits", [False, True], ids=["by value", "by bits"])
@pytest.mark.parametrize("datatype", Datatype)
def test_random_and_related_elements_end_up_as_in_an_array(datatype, by_bits):
    for op in (cell.op for cell in EVERY_CELL if cell.datatype is datatype):
        check(op, datatype, operands(datatype, 1000, seed=9)[: 3 if op in COMPARE_OPS else 2], by_bits)


@pytest.mark.parametrize("datatype", Datatype)
def test_numbers_where_arithmetic_goes_wrong_end_up_as_in_an_array_among_others_and_alone(datatype):
    target, operand = corner_pairs(datatype, 4000)
    for op in (cell.op for cell in EVERY_CELL if cell.datatype is datatype):
        arrays = (target, operand, np.roll(operand, 1, axis=0))[: 3 if op in COMPARE_OPS else 2]
        check(op, datatype, arrays)
        # Without a NaN in sight, which sends all of them the long way.
        for start in range(0, 80, 2):
            check(op, datatype, [array[start : start + 2] for array in arrays])


@given(data=st.data(), cell=st.sampled_from(EVERY_CELL), by_bits=st.booleans(), count=st.integers(1, 9))
def test_any_elements_end_up_as_in_an_array(data, cell, by_bits, count):
    arrays = [
        np.stack([np.frombuffer(data.draw(elements(cell.datatype)), np.uint8) for _ in range(count)])
        for _ in range(3 if cell.op in COMPARE_OPS else 2)
    ]
    check(cell.op, cell.datatype, arrays, by_bits)


@pytest.mark.parametrize(
    ("error", "message", "arguments"),
    [
        (ValueError, "expected a cell of the atomic matrix", (Op.FI_BOR, Datatype.FI_FLOAT, bytes(8), bytes(8))),
        (ValueError, r"operand: expected shape \(2, 4\)", (Op.FI_MIN, Datatype.FI_INT32, bytes(8), bytes(4))),
        (ValueError, r"operand: expected shape \(2, 8\)", (Op.FI_SUM, Datatype.FI_DOUBLE, bytes(16), bytes(8))),
        (ValueError, r"operand: expected shape", (Op.FI_ATOMIC_WRITE, Datatype.FI_DOUBLE, bytes(16), bytes(8))),
        (TypeError, "compare: expected a uint8 array, got NoneType", (Op.FI_CSWAP, Datatype.FI_INT8, b"12", b"34")),
        (ValueError, r"compare: expected shape", (Op.FI_MSWAP, Datatype.FI_INT8, b"12", b"34", b"5")),
        (ValueError, "expected no compare for FI_SUM", (Op.FI_SUM, Datatype.FI_INT8, b"12", b"34", b"56")),
        (ValueError, "expected no compare for FI_MAX", (Op.FI_MAX, Datatype.FI_FLOAT, *[bytes(8)] * 3)),
    ],
)
def test_errors_are_those_of_the_array_function(error, message, arguments):
    with pytest.raises(error, match=message):
        execute_elements(*arguments)
