"""Look-up tables as expressions: each row of each table."""

import random

import pytest
from amoeba_sim.netlist.lookup import lookup_expression


def value(expression: str, row: int) -> int:
    """Evaluate an expression of the inputs v[0], v[1], ... at a row of its table."""
    python = expression.replace("1'b", "").replace("!", "1 ^ ")
    return eval(python, {"v": [row >> index & 1 for index in range(6)]})


def rows(table: int, inputs: int) -> int:
    expression = lookup_expression(table, [f"v[{index}]" for index in range(inputs)])
    return sum(value(expression, row) << row for row in range(1 << inputs))


@pytest.mark.parametrize("inputs", [1, 2, 3])
def test_all_small_tables_have_an_expression_with_their_rows(inputs):
    tables = range(1 << (1 << inputs))
    assert [rows(table, inputs) for table in tables] == list(tables)


@pytest.mark.parametrize("inputs", [4, 5, 6])
def test_random_tables_have_an_expression_with_their_rows(inputs):
    generator = random.Random(inputs)
    tables = [generator.getrandbits(1 << inputs) for _ in range(20)]
    assert [rows(table, inputs) for table in tables] == tables


@pytest.mark.parametrize(
    ("table", "expression"),
    [(0x8000, "(d & (c & (b & a)))"), (0xAAAA, "a"), (0x6996, "(d ^ (c ^ (b ^ a)))"), (0xFFFF, "1'b1")],
)
def test_simple_functions_are_written_as_such(table, expression):
    operators = str.maketrans("", "", "() abcd")
    found = lookup_expression(table, list("abcd"))
    assert found.translate(operators) == expression.translate(operators)


@pytest.mark.parametrize(("table", "inputs"), [(4, 1), (-1, 2), (0, 7)])
def test_a_table_without_a_look_up_table_is_refused(table, inputs):
    with pytest.raises(ValueError, match="expected a table of at most 6 inputs, got"):
        lookup_expression(table, ["x"] * inputs)
