"""Complex products against the compiler's own C99 ``_Complex`` multiplication.

Covers ``atomic/execute.py``.
"""

import ctypes
import platform
import shutil
import subprocess

import numpy as np
import pytest
from amoeba_model.atomic import execute
from amoeba_model.opcodes import Datatype, Op

from tests.support.strategies import corner_pairs, operands

SOURCE = """
#include <complex.h>
#include <stddef.h>
#define PRODUCT(name, type) \\
    void name(type *target, const type *operand, size_t n) { \\
        for (size_t i = 0; i < n; i++) target[i] *= operand[i]; }
PRODUCT(product_float, float _Complex)
PRODUCT(product_double, double _Complex)
PRODUCT(product_long_double, long double _Complex)
"""
CASES = {
    Datatype.FI_FLOAT_COMPLEX: ("product_float", np.float32),
    Datatype.FI_DOUBLE_COMPLEX: ("product_double", np.float64),
    Datatype.FI_LONG_DOUBLE_COMPLEX: ("product_long_double", np.longdouble),
}
COMPILER = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    folder = tmp_path_factory.mktemp("complex")
    (folder / "product.c").write_text(SOURCE)
    library = folder / "product.so"
    # No contraction: a fused multiply-add would round once where the model rounds twice.
    flags = ["-std=c11", "-O1", "-ffp-contract=off", "-shared", "-fPIC", "-o", str(library)]
    subprocess.run([COMPILER, *flags, str(folder / "product.c")], check=True, timeout=60)
    return ctypes.CDLL(str(library))


@pytest.mark.skipif(COMPILER is None or platform.machine() != "x86_64", reason="needs a C compiler on x86-64")
@pytest.mark.parametrize("datatype", CASES)
def test_products_are_those_of_c99_annex_g(compiled, datatype):
    name, part = CASES[datatype]
    random = operands(datatype, 20_000, seed=9)[:2]
    target, operand = (np.concatenate(pair) for pair in zip(random, corner_pairs(datatype), strict=True))
    expected = np.ascontiguousarray(target).copy()
    getattr(compiled, name)(
        expected.ctypes.data_as(ctypes.c_void_p),
        operand.ctypes.data_as(ctypes.c_void_p),
        ctypes.c_size_t(len(target)),
    )
    after = execute(Op.FI_PROD, datatype, target, operand)
    size = datatype.size // 2
    value_bytes = min(size, 10)
    ours, theirs = (memory.reshape(-1, size) for memory in (after, expected))
    both_nan = np.isnan(ours.view(part)) & np.isnan(theirs.view(part))
    equal = (ours == theirs)[:, :value_bytes].all(axis=1) | both_nan[:, 0]
    wrong = (~equal).nonzero()[0] // 2
    assert [(target[row].tobytes().hex(), operand[row].tobytes().hex()) for row in wrong[:3]] == []


@pytest.mark.parametrize("datatype", CASES)
@pytest.mark.parametrize("op", [Op.FI_SUM, Op.FI_DIFF])
def test_sums_and_differences_go_part_by_part(datatype, op):
    real = {
        Datatype.FI_FLOAT_COMPLEX: Datatype.FI_FLOAT,
        Datatype.FI_DOUBLE_COMPLEX: Datatype.FI_DOUBLE,
        Datatype.FI_LONG_DOUBLE_COMPLEX: Datatype.FI_LONG_DOUBLE,
    }[datatype]
    target, operand, _ = operands(datatype, 2_000, seed=10)
    parts = execute(op, real, target.reshape(-1, real.size), operand.reshape(-1, real.size))
    np.testing.assert_array_equal(execute(op, datatype, target, operand), parts.reshape(target.shape))


@pytest.mark.skipif(platform.machine() != "x86_64", reason="finds the NaNs of long double with the x87")
@pytest.mark.parametrize("datatype", CASES)
def test_each_part_of_a_product_is_rounded_and_hands_nans_on_by_itself(datatype):
    """Real arithmetic, put together by hand, wherever Annex G does not step in: not both parts NaN."""
    real = Datatype[datatype.name.removesuffix("_COMPLEX")]
    target, operand, _ = operands(datatype, 5_000, seed=11)
    (a, b), (c, d) = ((memory[:, : real.size], memory[:, real.size :]) for memory in (target, operand))
    ac, bd, ad, bc = (execute(Op.FI_PROD, real, x, y) for x, y in ((a, c), (b, d), (a, d), (b, c)))
    expected = np.concatenate([execute(Op.FI_DIFF, real, ac, bd), execute(Op.FI_SUM, real, ad, bc)], axis=1)
    part = CASES[datatype][1]
    nan = np.isnan(np.ascontiguousarray(expected).view(part))
    plain = ~nan.all(axis=1)
    assert plain.sum() > 3_000
    np.testing.assert_array_equal(execute(Op.FI_PROD, datatype, target, operand)[plain], expected[plain])
