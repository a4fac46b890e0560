"""One element at a time gives what arrays give, errors included."""

import numpy as np
import pytest
from amoeba_model.atomic import cells, execute, execute_element
from amoeba_model.atomic.matrix import COMPARE_OPS
from amoeba_model.opcodes import Datatype, Form, Op
from hypothesis import given
from hypothesis import strategies as st

from tests.support.strategies import elements, operands

EVERY_CELL = [cell for cell in cells(extensions=True) if cell.form is not Form.BASE]


@pytest.mark.parametrize("by_bits", [False, True], ids=["by value", "by bits"])
@pytest.mark.parametrize("datatype", Datatype)
def test_an_element_alone_ends_up_as_in_an_array(datatype, by_bits):
    for op in (cell.op for cell in EVERY_CELL if cell.datatype is datatype):
        # Cells that have no short cut go through the same code, slowly: a few rows of them are enough.
        fast = "INT" in datatype.name or datatype in (Datatype.FI_FLOAT, Datatype.FI_DOUBLE)
        arrays = operands(datatype, 1000 if fast and op not in (Op.FI_LOR, Op.FI_LAND, Op.FI_LXOR) else 50, seed=8)
        arrays = arrays[: 3 if op in COMPARE_OPS else 2]
        expected = execute(op, datatype, *arrays, cswap_by_bits=by_bits)
        for row, memory in enumerate(zip(*arrays, strict=True)):
            inputs = [element.tobytes() for element in memory]
            result = execute_element(op, datatype, *inputs, cswap_by_bits=by_bits)
            assert result == expected[row].tobytes(), (op.name, inputs)


@given(data=st.data(), cell=st.sampled_from(EVERY_CELL), by_bits=st.booleans())
def test_any_element_ends_up_as_in_an_array(data, cell, by_bits):
    count = 3 if cell.op in COMPARE_OPS else 2
    inputs = [data.draw(elements(cell.datatype)) for _ in range(count)]
    # Two rows: the element and a neighbour that must not matter.
    arrays = [as_rows(element, bytes(cell.datatype.size)) for element in inputs]
    expected = execute(cell.op, cell.datatype, *arrays, cswap_by_bits=by_bits)[0].tobytes()
    assert execute_element(cell.op, cell.datatype, *inputs, cswap_by_bits=by_bits) == expected


def as_rows(*rows):
    return np.stack([np.frombuffer(row, np.uint8) for row in rows])


@pytest.mark.parametrize(
    ("error", "message", "arguments"),
    [
        (ValueError, "expected a cell of the atomic matrix", (Op.FI_BOR, Datatype.FI_FLOAT, bytes(4), bytes(4))),
        (ValueError, r"target: expected shape \(n, 4\)", (Op.FI_SUM, Datatype.FI_INT32, bytes(3), bytes(4))),
        (ValueError, r"operand: expected shape \(1, 4\)", (Op.FI_MIN, Datatype.FI_INT32, bytes(4), bytes(5))),
        (ValueError, r"operand: expected shape", (Op.FI_ATOMIC_WRITE, Datatype.FI_DOUBLE, bytes(8), bytes(4))),
        (TypeError, "operand: expected a uint8 array, got NoneType", (Op.FI_SUM, Datatype.FI_DOUBLE, bytes(8), None)),
        (TypeError, "compare: expected a uint8 array, got NoneType", (Op.FI_CSWAP, Datatype.FI_INT8, b"1", b"2")),
        (TypeError, "compare: expected a uint8 array", (Op.FI_MSWAP, Datatype.FI_INT8, b"1", b"2")),
        (ValueError, r"compare: expected shape", (Op.FI_MSWAP, Datatype.FI_INT8, b"1", b"2", b"34")),
        (ValueError, "expected no compare for FI_SUM", (Op.FI_SUM, Datatype.FI_INT8, b"1", b"2", b"3")),
        (
            ValueError,
            "expected no compare for FI_ATOMIC_READ",
            (Op.FI_ATOMIC_READ, Datatype.FI_INT8, b"1", None, b"3"),
        ),
        (ValueError, "expected no compare for FI_MAX", (Op.FI_MAX, Datatype.FI_FLOAT, bytes(4), bytes(4), bytes(4))),
    ],
)
def test_errors_are_those_of_the_array_function(error, message, arguments):
    with pytest.raises(error, match=message):
        execute_element(*arguments)


@pytest.mark.parametrize("view", [bytearray, memoryview])
def test_any_bytes_will_do_and_the_result_is_a_copy(view):
    memory = view(bytearray(b"\x05\0\0\0"))
    result = execute_element(Op.FI_ATOMIC_WRITE, Datatype.FI_INT32, bytes(4), memory)
    memory[0] = 9
    assert result == b"\x05\0\0\0"
    assert execute_element(Op.FI_ATOMIC_READ, Datatype.FI_INT32, memory, None) == b"\x09\0\0\0"
