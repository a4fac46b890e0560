"""The binary floating-point formats behind libfabric's datatypes, described by a handful of parameters.

The arithmetic of the model and the parametric units of the hardware are both written against
:class:`FloatFormat`, so that a format is a set of numbers here and never a special case there.

Sources: IEEE 754-2019 (binary16, binary32, binary64); Intel SDM volume 1, 4.2.2 and 8.2.2 (80-bit extended,
its invalid encodings and its choice between two NaNs); OCP 8-bit Floating Point Specification 1.0 (E4M3,
E5M2); bfloat16 is the upper half of a binary32.
"""

from dataclasses import dataclass

from amoeba_model.opcodes import Datatype

__all__ = [
    "BFLOAT16",
    "DOUBLE",
    "FLOAT",
    "FLOAT8_E4M3",
    "FLOAT8_E5M2",
    "FLOAT16",
    "X87",
    "FloatFormat",
    "float_format",
    "is_complex",
    "is_float",
    "is_integer",
    "is_signed",
]


@dataclass(frozen=True)
class FloatFormat:
    """One binary format: sign, biased exponent, significand, from the most to the least significant bit.

    Parameters
    ----------
    name
        For messages and for the names of generated hardware.
    exponent_bits
        Width of the biased exponent.
    fraction_bits
        Stored bits to the right of the binary point.
    explicit_integer
        The integer bit is stored (x87) instead of implied by the exponent. Encodings whose integer bit
        contradicts the exponent are invalid operands, save the pseudo-denormal (exponent 0, integer bit 1),
        which has the value its bits say.
    has_infinity
        An exponent of all ones means infinity or NaN. Without it, that exponent holds numbers as well, only
        the significand of all ones is NaN, and an overflow becomes NaN with the sign of the result.
    larger_nan_wins
        The choice between two NaN operands of a sum or product. False: the first (the target), as SSE does. True:
        a quiet one before a signalling one, then the larger significand, then the positive one, as the x87
        does and as recorded from libfabric.
    storage_bytes
        Bytes that one number occupies in memory; those above ``width`` are padding.
    """

    name: str
    exponent_bits: int
    fraction_bits: int
    storage_bytes: int
    explicit_integer: bool = False
    has_infinity: bool = True
    larger_nan_wins: bool = False

    @property
    def width(self) -> int:
        """Bits of the encoding, padding not counted."""
        return 1 + self.exponent_bits + self.significand_bits

    @property
    def value_bytes(self) -> int:
        """Bytes of the encoding, padding not counted."""
        return self.width // 8

    @property
    def is_padded(self) -> bool:
        """Whether memory holds more bytes than the encoding."""
        return self.storage_bytes > self.value_bytes

    @property
    def significand_bits(self) -> int:
        """Stored significand bits: the fraction, and the integer bit where it is explicit."""
        return self.fraction_bits + self.explicit_integer

    @property
    def precision(self) -> int:
        """Significant bits of a normal number, the integer bit counted whether stored or not."""
        return self.fraction_bits + 1

    @property
    def integer_bit(self) -> int:
        """Weight of the integer bit in a significand, stored or not."""
        return 1 << self.fraction_bits

    @property
    def bias(self) -> int:
        """Number that is added to an exponent to store it."""
        return (1 << (self.exponent_bits - 1)) - 1

    @property
    def exponent_mask(self) -> int:
        """The biased exponent of all ones."""
        return (1 << self.exponent_bits) - 1

    @property
    def fraction_mask(self) -> int:
        """The fraction of all ones."""
        return (1 << self.fraction_bits) - 1

    @property
    def significand_mask(self) -> int:
        """The stored significand of all ones."""
        return (1 << self.significand_bits) - 1

    @property
    def quiet_bit(self) -> int:
        """The fraction bit that makes a NaN quiet; 0 for a format whose only NaN is quiet already."""
        return 1 << (self.fraction_bits - 1) if self.has_infinity else 0

    @property
    def nan_significand(self) -> int:
        """Stored significand of the default NaN."""
        if not self.has_infinity:
            return self.significand_mask
        return self._stored_integer | self.quiet_bit

    @property
    def infinity_significand(self) -> int:
        """Stored significand that goes with ``exponent_mask`` to mean infinity.

        Raises
        ------
        ValueError
            The format has no infinity.
        """
        if not self.has_infinity:
            raise ValueError(f"expected a format with infinities, got {self.name}")
        return self._stored_integer

    @property
    def largest_exponent(self) -> int:
        """Biased exponent of the largest finite number."""
        return self.exponent_mask - self.has_infinity

    @property
    def largest_significand(self) -> int:
        """Stored significand of the largest finite number."""
        return self.significand_mask - (not self.has_infinity)

    @property
    def default_nan(self) -> int:
        """Encoding of an invalid operation's result: the x86 one, whose sign is set."""
        return self.encode(1, self.exponent_mask, self.nan_significand)

    @property
    def one(self) -> int:
        """Encoding of 1.0, the truth value of the logical operations."""
        return self.encode(0, self.bias, self._stored_integer)

    @property
    def _stored_integer(self) -> int:
        return self.integer_bit if self.explicit_integer else 0

    def encode(self, sign: int, exponent: int, significand: int) -> int:
        """Put a sign, a biased exponent and a stored significand together.

        Raises
        ------
        ValueError
            A field does not fit its width.
        """
        for field, value, limit in (
            ("sign", sign, 1),
            ("exponent", exponent, self.exponent_mask),
            ("significand", significand, self.significand_mask),
        ):
            if not 0 <= value <= limit:
                raise ValueError(f"{self.name}: expected {field} 0 to {limit:#x}, got {value:#x}")
        return ((sign << self.exponent_bits | exponent) << self.significand_bits) | significand


FLOAT16 = FloatFormat("float16", exponent_bits=5, fraction_bits=10, storage_bytes=2)
BFLOAT16 = FloatFormat("bfloat16", exponent_bits=8, fraction_bits=7, storage_bytes=2)
FLOAT8_E4M3 = FloatFormat("float8_e4m3", exponent_bits=4, fraction_bits=3, storage_bytes=1, has_infinity=False)
FLOAT8_E5M2 = FloatFormat("float8_e5m2", exponent_bits=5, fraction_bits=2, storage_bytes=1)
FLOAT = FloatFormat("float", exponent_bits=8, fraction_bits=23, storage_bytes=4)
DOUBLE = FloatFormat("double", exponent_bits=11, fraction_bits=52, storage_bytes=8)
X87 = FloatFormat(
    "x87",
    exponent_bits=15,
    fraction_bits=63,
    storage_bytes=16,
    explicit_integer=True,
    larger_nan_wins=True,
)

_FORMATS = {
    Datatype.FI_FLOAT: FLOAT,
    Datatype.FI_DOUBLE: DOUBLE,
    Datatype.FI_FLOAT_COMPLEX: FLOAT,
    Datatype.FI_DOUBLE_COMPLEX: DOUBLE,
    Datatype.FI_LONG_DOUBLE: X87,
    Datatype.FI_LONG_DOUBLE_COMPLEX: X87,
    Datatype.FI_FLOAT16: FLOAT16,
    Datatype.FI_BFLOAT16: BFLOAT16,
    Datatype.FI_FLOAT8_E4M3: FLOAT8_E4M3,
    Datatype.FI_FLOAT8_E5M2: FLOAT8_E5M2,
}


def is_float(datatype: Datatype) -> bool:
    """Whether the datatype is floating point, real or complex."""
    return datatype in _FORMATS


def is_complex(datatype: Datatype) -> bool:
    """Whether an element is a real and an imaginary part."""
    return is_float(datatype) and datatype.size == 2 * _FORMATS[datatype].storage_bytes


def is_integer(datatype: Datatype) -> bool:
    """Whether the datatype is an integer."""
    return not is_float(datatype)


def is_signed(datatype: Datatype) -> bool:
    """Whether the datatype is an integer in two's complement."""
    return is_integer(datatype) and datatype.name.startswith("FI_INT")


def float_format(datatype: Datatype) -> FloatFormat:
    """Return the format of the datatype, or of each of its two parts.

    Raises
    ------
    ValueError
        The datatype is an integer.
    """
    if datatype not in _FORMATS:
        raise ValueError(f"expected a floating-point datatype, got {datatype.name}")
    return _FORMATS[datatype]
