"""The existing cells, counted and spot-checked against fi_atomic(3) of libfabric 1.14."""

from collections import Counter

import pytest
from amoeba_model.atomic import Cell, cells, is_extension, is_valid
from amoeba_model.atomic.formats import FLOAT8_E4M3, X87, float_format, is_integer
from amoeba_model.opcodes import Datatype, Form, Op


def test_the_manual_page_has_414_cells():
    counts = Counter(cell.form for cell in cells())
    assert counts == {Form.BASE: 152, Form.FETCH: 168, Form.COMPARE: 94}
    assert len({cell.datatype for cell in cells()}) == 16
    assert len({cell.op for cell in cells()}) == 19


def test_extensions_make_546():
    extended = cells(extensions=True)
    assert len(extended) == len(set(extended)) == 546
    assert set(cells()) < set(extended)
    added = set(extended) - set(cells())
    assert all(is_extension(cell.op, cell.datatype) for cell in added)
    assert Counter(cell.op for cell in added)[Op.FI_DIFF] == 40
    narrow = [cell.datatype for cell in added if cell.op is not Op.FI_DIFF]
    assert Counter(narrow) == dict.fromkeys(list(Datatype)[16:], 23)


@pytest.mark.parametrize(
    ("op", "datatype", "forms"),
    [
        (Op.FI_SUM, Datatype.FI_LONG_DOUBLE_COMPLEX, {"base", "fetch"}),
        (Op.FI_ATOMIC_READ, Datatype.FI_UINT128, {"fetch"}),
        (Op.FI_ATOMIC_WRITE, Datatype.FI_DOUBLE, {"base", "fetch"}),
        (Op.FI_CSWAP_NE, Datatype.FI_FLOAT_COMPLEX, {"compare"}),
        (Op.FI_CSWAP_LE, Datatype.FI_FLOAT_COMPLEX, set()),
        (Op.FI_MIN, Datatype.FI_DOUBLE_COMPLEX, set()),
        (Op.FI_MSWAP, Datatype.FI_INT8, {"compare"}),
        (Op.FI_MSWAP, Datatype.FI_FLOAT, set()),
        (Op.FI_BXOR, Datatype.FI_LONG_DOUBLE, set()),
        (Op.FI_LXOR, Datatype.FI_FLOAT_COMPLEX, {"base", "fetch"}),
    ],
)
def test_an_operation_exists_in_its_forms_only(op, datatype, forms):
    assert {form.value for form in Form if is_valid(op, datatype, form)} == forms


def test_without_extensions_their_cells_are_invalid():
    assert is_valid(Op.FI_DIFF, Datatype.FI_INT8, Form.BASE)
    assert not is_valid(Op.FI_DIFF, Datatype.FI_INT8, Form.BASE, extensions=False)
    assert not is_valid(Op.FI_SUM, Datatype.FI_BFLOAT16, Form.BASE, extensions=False)


def test_a_cell_is_named_as_in_the_recordings():
    assert str(Cell(Form.FETCH, Op.FI_SUM, Datatype.FI_FLOAT)) == "fetch/FI_SUM/FI_FLOAT"


@pytest.mark.parametrize(
    ("datatype", "one", "default_nan", "largest"),
    [
        (Datatype.FI_FLOAT, 0x3F80_0000, 0xFFC0_0000, 0x7F7F_FFFF),
        (Datatype.FI_DOUBLE, 0x3FF0 << 48, 0xFFF8 << 48, 0x7FEF_FFFF_FFFF_FFFF),
        (Datatype.FI_LONG_DOUBLE, 0x3FFF_8000 << 48, 0xFFFF_C000 << 48, 0x7FFE_FFFF_FFFF_FFFF_FFFF),
        (Datatype.FI_FLOAT16, 0x3C00, 0xFE00, 0x7BFF),
        (Datatype.FI_BFLOAT16, 0x3F80, 0xFFC0, 0x7F7F),
        (Datatype.FI_FLOAT8_E4M3, 0x38, 0xFF, 0x7E),
        (Datatype.FI_FLOAT8_E5M2, 0x3C, 0xFE, 0x7B),
    ],
)
def test_the_constants_of_a_format_are_those_of_its_specification(datatype, one, default_nan, largest):
    fmt = float_format(datatype)
    assert (fmt.one, fmt.default_nan) == (one, default_nan)
    assert fmt.encode(0, fmt.largest_exponent, fmt.largest_significand) == largest
    assert fmt.storage_bytes == datatype.size


def test_a_format_says_what_it_expected():
    assert is_integer(Datatype.FI_UINT128)
    with pytest.raises(ValueError, match="expected a floating-point datatype, got FI_INT8"):
        float_format(Datatype.FI_INT8)
    with pytest.raises(ValueError, match="expected a format with infinities, got float8_e4m3"):
        _ = FLOAT8_E4M3.infinity_significand
    with pytest.raises(ValueError, match="x87: expected exponent 0 to 0x7fff, got 0x8000"):
        X87.encode(0, 0x8000, 0)
