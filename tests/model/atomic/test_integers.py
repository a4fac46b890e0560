"""Every integer operation on every width, against Python's integers and the manual page's C expressions."""

import numpy as np
import pytest
from amoeba_model.atomic import execute
from amoeba_model.opcodes import Datatype, Op

from tests.support.strategies import corner_pairs, operands

INTEGERS = [datatype for datatype in Datatype if "INT" in datatype.name]

# fi_atomic(3): addr is the target, buf the operand, compare the third; None is "leaves addr alone".
EXPRESSIONS = {
    Op.FI_MIN: lambda addr, buf, compare: buf if buf < addr else None,
    Op.FI_MAX: lambda addr, buf, compare: buf if buf > addr else None,
    Op.FI_SUM: lambda addr, buf, compare: addr + buf,
    Op.FI_DIFF: lambda addr, buf, compare: addr - buf,
    Op.FI_PROD: lambda addr, buf, compare: addr * buf,
    Op.FI_LOR: lambda addr, buf, compare: addr != 0 or buf != 0,
    Op.FI_LAND: lambda addr, buf, compare: addr != 0 and buf != 0,
    Op.FI_LXOR: lambda addr, buf, compare: (addr != 0) != (buf != 0),
    Op.FI_BOR: lambda addr, buf, compare: addr | buf,
    Op.FI_BAND: lambda addr, buf, compare: addr & buf,
    Op.FI_BXOR: lambda addr, buf, compare: addr ^ buf,
    Op.FI_ATOMIC_WRITE: lambda addr, buf, compare: buf,
    Op.FI_CSWAP: lambda addr, buf, compare: buf if compare == addr else None,
    Op.FI_CSWAP_NE: lambda addr, buf, compare: buf if compare != addr else None,
    Op.FI_CSWAP_LE: lambda addr, buf, compare: buf if compare <= addr else None,
    Op.FI_CSWAP_LT: lambda addr, buf, compare: buf if compare < addr else None,
    Op.FI_CSWAP_GE: lambda addr, buf, compare: buf if compare >= addr else None,
    Op.FI_CSWAP_GT: lambda addr, buf, compare: buf if compare > addr else None,
    Op.FI_MSWAP: lambda addr, buf, compare: (buf & compare) | (addr & ~compare),
}


def check(op, datatype, target, operand, compare):
    signed = datatype.name.startswith("FI_INT")
    third = compare if op >= Op.FI_CSWAP and op is not Op.FI_DIFF else None
    after = execute(op, datatype, target, operand, third)
    for row in range(len(target)):
        values = (int.from_bytes(m[row].tobytes(), "little", signed=signed) for m in (target, operand, compare))
        addr, buf, third_value = values
        result = EXPRESSIONS[op](addr, buf, third_value)
        expected = (addr if result is None else int(result)) % (1 << 8 * datatype.size)
        assert int.from_bytes(after[row].tobytes(), "little") == expected, (addr, buf, third_value)


@pytest.mark.parametrize("datatype", INTEGERS)
@pytest.mark.parametrize("op", EXPRESSIONS)
def test_integers_do_what_the_manual_page_writes_in_c(op, datatype):
    check(op, datatype, *operands(datatype, 500, seed=6))
    target, operand = corner_pairs(datatype)
    # The operands rolled by one: sometimes the target's equal, always a corner.
    check(op, datatype, target, operand, np.roll(operand, 1, axis=0))


@pytest.mark.parametrize("datatype", INTEGERS)
def test_reading_leaves_the_target_alone(datatype):
    target, _, _ = operands(datatype, 50, seed=7)
    assert (execute(Op.FI_ATOMIC_READ, datatype, target, None) == target).all()
