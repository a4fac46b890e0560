"""Sum, difference, product and order of integer memory of 8 to 128 bits; overflow wraps modulo 2**bits."""

from typing import Any

import numpy as np
import numpy.typing as npt

from amoeba_model.atomic import limbs
from amoeba_model.atomic.formats import is_signed
from amoeba_model.atomic.limbs import BoolArray, Wide
from amoeba_model.opcodes import Datatype, Op

__all__ = ["calculate", "is_nonzero", "order"]

Memory = npt.NDArray[np.uint8]

_UFUNCS = {Op.FI_SUM: np.add, Op.FI_DIFF: np.subtract, Op.FI_PROD: np.multiply}
_WIDE = {Op.FI_SUM: limbs.add, Op.FI_DIFF: limbs.subtract, Op.FI_PROD: limbs.multiply}


def calculate(op: Op, size: int, a: Memory, b: Memory) -> Memory:
    """FI_SUM, FI_DIFF or FI_PROD of ``uint8[n, size]``; in two's complement the sign does not matter."""
    if size == 16:
        result = _WIDE[op](_wide(a), _wide(b))
        return np.stack([result.low, result.high], axis=1).astype("<u8").view(np.uint8)
    dtype = np.dtype(f"<u{size}")
    memory: Memory = _UFUNCS[op](_view(a, dtype), _view(b, dtype)).view(np.uint8)
    return memory


def order(datatype: Datatype, a: Memory, b: Memory) -> tuple[BoolArray, BoolArray, BoolArray]:
    """Whether a < b, a == b, a > b, row by row."""
    if datatype.size == 16:
        x, y = _wide(a), _wide(b)
        if is_signed(datatype):
            # Flipping the sign bit maps the signed order onto the unsigned one.
            flip = np.uint64(1 << 63)
            x, y = x._replace(high=x.high ^ flip), y._replace(high=y.high ^ flip)
        return limbs.is_less(x, y), (x.high == y.high) & (x.low == y.low), limbs.is_less(y, x)
    dtype = np.dtype(f"<{'i' if is_signed(datatype) else 'u'}{datatype.size}")
    first, second = _view(a, dtype)[:, 0], _view(b, dtype)[:, 0]
    return first < second, first == second, first > second


def is_nonzero(memory: Memory) -> BoolArray:
    """Whether any bit of the row is set."""
    words = _view(memory, np.dtype(f"<u{min(memory.shape[1], 8)}"))
    nonzero: BoolArray = (words[:, 0] | words[:, -1]) != 0
    return nonzero


def _view(memory: Memory, dtype: np.dtype[np.integer[Any]]) -> npt.NDArray[np.integer[Any]]:
    return np.ascontiguousarray(memory).view(dtype)


def _wide(memory: Memory) -> Wide:
    low, high = np.ascontiguousarray(memory).view("<u8").T
    return Wide(high, low)
