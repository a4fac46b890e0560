"""The (operation, datatype, form) cells that exist: the one place that says so.

Source: fi_atomic(3) of libfabric 1.14, sections Atomic Operations, Base, Fetch and Compare Atomic Functions;
where the manual page is silent (no order on complex numbers, no bits of floating point), every libfabric build
agrees. Extensions: FI_DIFF, and the 16- and 8-bit floats.
"""

import functools
from dataclasses import dataclass

from amoeba_model.atomic.formats import is_complex, is_integer
from amoeba_model.opcodes import Datatype, Form, Op

__all__ = ["COMPARE_OPS", "Cell", "cells", "is_extension", "is_valid"]

_EXTENSION_DATATYPES = frozenset(
    {Datatype.FI_FLOAT16, Datatype.FI_BFLOAT16, Datatype.FI_FLOAT8_E4M3, Datatype.FI_FLOAT8_E5M2}
)

COMPARE_OPS = frozenset(
    {
        Op.FI_CSWAP,
        Op.FI_CSWAP_NE,
        Op.FI_CSWAP_LE,
        Op.FI_CSWAP_LT,
        Op.FI_CSWAP_GE,
        Op.FI_CSWAP_GT,
        Op.FI_MSWAP,
    }
)
"""The operations that take a third operand, and the only ones of the compare form."""

_ORDERED_OPS = frozenset({Op.FI_MIN, Op.FI_MAX, Op.FI_CSWAP_LE, Op.FI_CSWAP_LT, Op.FI_CSWAP_GE, Op.FI_CSWAP_GT})
_BITWISE_OPS = frozenset({Op.FI_BOR, Op.FI_BAND, Op.FI_BXOR, Op.FI_MSWAP})


@dataclass(frozen=True, order=True)
class Cell:
    """One meaningful combination of form, operation and datatype."""

    form: Form
    op: Op
    datatype: Datatype

    def __str__(self) -> str:
        """Return the name that the recorded vectors use, such as ``fetch/FI_SUM/FI_FLOAT``."""
        return f"{self.form.value}/{self.op.name}/{self.datatype.name}"


def is_extension(op: Op, datatype: Datatype) -> bool:
    """Whether either of the two is newer than the manual page of libfabric 1.14."""
    return op is Op.FI_DIFF or datatype in _EXTENSION_DATATYPES


def is_valid(op: Op, datatype: Datatype, form: Form, *, extensions: bool = True) -> bool:
    """Whether the cell exists; with ``extensions`` False, whether the 1.14 manual page has it."""
    if not extensions and is_extension(op, datatype):
        return False
    if (form is Form.COMPARE) != (op in COMPARE_OPS):
        return False
    if op is Op.FI_ATOMIC_READ and form is not Form.FETCH:
        return False
    if op in _BITWISE_OPS:
        return is_integer(datatype)
    return op not in _ORDERED_OPS or not is_complex(datatype)


@functools.cache
def cells(extensions: bool = False) -> tuple[Cell, ...]:
    """Every cell, ordered by form, operation and datatype number: 414, or 546 with the extensions."""
    return tuple(
        Cell(form, op, datatype)
        for form in Form
        for op in Op
        for datatype in Datatype
        if is_valid(op, datatype, form, extensions=extensions)
    )
