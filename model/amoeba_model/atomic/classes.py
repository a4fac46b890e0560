"""Classes of operands: what kinds of number a test of the atomic matrix has to have tried.

A real number's class is its kind and, in floating point, its sign; a complex number's is the kinds of its two
parts. The classes of a datatype are derived from its format, so a new datatype brings its own.
"""

import numpy as np
import numpy.typing as npt

from amoeba_model.atomic.formats import FloatFormat, float_format, is_complex, is_float, is_signed
from amoeba_model.opcodes import Datatype

__all__ = ["class_names", "classify", "classify_parts", "missing_classes", "part_class_names"]

Memory = npt.NDArray[np.uint8]
Codes = npt.NDArray[np.int64]

KINDS = ("zero", "subnormal", "normal", "huge", "infinity", "NaN", "invalid")
"""Of a floating-point number. *Huge* is the largest exponent of finite numbers; *invalid* are the x87's encodings
that no x87 produces, save pseudo-denormals, which count as subnormal."""

_SIGNED = ("zero", "one", "minus one", "minimum", "maximum", "other")
_UNSIGNED = ("zero", "one", "maximum", "other")


def _kinds(fmt: FloatFormat) -> tuple[str, ...]:
    missing = {"infinity"} if not fmt.has_infinity else set()
    if not fmt.explicit_integer:
        missing |= {"invalid"}
    return tuple(kind for kind in KINDS if kind not in missing)


def part_class_names(datatype: Datatype) -> tuple[str, ...]:
    """Name the classes of a number of this datatype, or of either part of a complex one."""
    if not is_float(datatype):
        return _SIGNED if is_signed(datatype) else _UNSIGNED
    return tuple(f"{sign}{kind}" for kind in _kinds(float_format(datatype)) for sign in "+-")


def class_names(datatype: Datatype) -> tuple[str, ...]:
    """Name the classes of an element of this datatype."""
    if not is_complex(datatype):
        return part_class_names(datatype)
    kinds = _kinds(float_format(datatype))
    return tuple(f"{real}, {imaginary} i" for real in kinds for imaginary in kinds)


def missing_classes(datatype: Datatype) -> dict[str, str]:
    """Name the classes that the datatype cannot encode, each with the reason; empty if it encodes all of them."""
    if not is_float(datatype):
        if is_signed(datatype):
            return {}
        return {"minus one": "unsigned: the same bits are the maximum", "minimum": "unsigned: it is zero"}
    fmt = float_format(datatype)
    missing = {}
    if not fmt.has_infinity:
        missing["infinity"] = "the format has none: its largest exponent holds numbers"
    if not fmt.explicit_integer:
        missing["invalid"] = "every encoding is valid: the integer bit is implied"
    return missing


def classify_parts(datatype: Datatype, memory: Memory) -> Codes:
    """Find the class of every number in ``memory``, as indices into :func:`part_class_names`.

    ``memory`` is ``uint8[n, datatype.size]``; the result has one number per element, of a complex datatype two:
    real part, imaginary part, ``[2 * n]``.
    """
    if is_float(datatype):
        kinds, negative = _float_kinds(float_format(datatype), memory)
        return 2 * kinds + negative
    bits = 8 * datatype.size
    values = {"zero": 0, "one": 1, "maximum": (1 << bits) - 1}
    if is_signed(datatype):
        values |= {"minus one": (1 << bits) - 1, "minimum": 1 << bits - 1, "maximum": (1 << bits - 1) - 1}
    names = part_class_names(datatype)
    codes = np.full(len(memory), names.index("other"))
    for name, value in values.items():
        pattern = np.frombuffer(value.to_bytes(datatype.size, "little"), np.uint8)
        codes[(memory == pattern).all(axis=1)] = names.index(name)
    return codes


def classify(datatype: Datatype, memory: Memory) -> Codes:
    """Find the class of every element of ``memory``, as indices into :func:`class_names`.

    ``memory`` is ``uint8[n, datatype.size]``.
    """
    if not is_complex(datatype):
        return classify_parts(datatype, memory)
    fmt = float_format(datatype)
    kinds, _ = _float_kinds(fmt, memory)
    return kinds[0::2] * len(_kinds(fmt)) + kinds[1::2]


def _float_kinds(fmt: FloatFormat, memory: Memory) -> tuple[Codes, Codes]:
    """Of every number, the index of its kind among those of its format, and whether its sign bit is set."""
    numbers = np.ascontiguousarray(memory).reshape(-1, fmt.storage_bytes)[:, : fmt.value_bytes]
    significand_bytes = 8 if fmt.explicit_integer else fmt.value_bytes
    low = _little_endian(numbers[:, :significand_bytes])
    if fmt.explicit_integer:
        high = _little_endian(numbers[:, significand_bytes:])
        significand = low
    else:
        high = low >> np.uint64(fmt.significand_bits)
        significand = low & np.uint64(fmt.significand_mask)
    exponent = high & np.uint64(fmt.exponent_mask)
    negative = (high >> np.uint64(fmt.exponent_bits)).astype(np.int64)
    names = _kinds(fmt)
    chosen = np.full(len(numbers), names.index("normal"))

    def mark(kind: str, where: npt.NDArray[np.bool_]) -> None:
        chosen[where] = names.index(kind)

    mark("huge", exponent == fmt.largest_exponent)
    mark("subnormal", exponent == 0)
    mark("zero", (exponent == 0) & (significand == 0))
    last = exponent == fmt.exponent_mask
    if fmt.has_infinity:
        infinite = significand == np.uint64(fmt.infinity_significand)
        mark("NaN", last & ~infinite)
        mark("infinity", last & infinite)
    else:
        mark("NaN", last & (significand == np.uint64(fmt.nan_significand)))
    if fmt.explicit_integer:
        mark("invalid", (exponent != 0) & (significand < np.uint64(fmt.integer_bit)))
    return chosen, negative


def _little_endian(numbers: Memory) -> npt.NDArray[np.uint64]:
    words = np.zeros((len(numbers), 8), np.uint8)
    words[:, : numbers.shape[1]] = numbers
    return words.view("<u8")[:, 0].astype(np.uint64)
