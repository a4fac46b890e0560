"""The CRC that ends every packet, computed a beat at a time.

The register is that of the reflected CRC-32C (Castagnoli, RFC 3720 12.1) without the final inversion. A byte
enters by ``state = step(state ^ byte)``, where ``step`` is linear over GF(2); so a whole beat is a constant matrix
times its bits, added to a constant power of ``step`` times the state. Two consequences are used:

- Zero bytes at the front do nothing to a zero register. Starting from all ones is the same as starting from zero
  with the first four bytes inverted. So a packet may begin anywhere in a beat.
- Zero bytes at the end multiply the register by a constant for each number of bytes: the receiver compares with
  that constant times the residue, the transmitter multiplies by the inverse.
"""

from functools import cache

from amaranth.hdl import Cat, Const, Signal, Value

__all__ = ["RESIDUE", "apply", "contribution", "inverse_power", "power", "register_after"]

POLYNOMIAL = 0x82F63B78
"""Castagnoli's, bits reflected."""

RESIDUE = 0xB798B438
"""The register after any packet that ends with its own CRC."""

Matrix = tuple[int, ...]
"""32 columns: entry n is the image of bit n."""


def _step(state: int) -> int:
    for _ in range(8):
        state = state >> 1 ^ (POLYNOMIAL if state & 1 else 0)
    return state


def _step_back(state: int) -> int:
    for _ in range(8):
        # The polynomial's highest bit tells whether it was added.
        state = (state ^ POLYNOMIAL) << 1 | 1 if state >> 31 else state << 1
    return state


@cache
def power(count: int) -> Matrix:
    """Return the matrix of ``count`` zero bytes, from the register before them to the one after."""
    columns = [1 << bit for bit in range(32)]
    for _ in range(count):
        columns = [_step(column) for column in columns]
    return tuple(columns)


@cache
def inverse_power(count: int) -> Matrix:
    """Return the inverse of :func:`power`: the register before the last ``count`` zero bytes, as a matrix."""
    columns = [1 << bit for bit in range(32)]
    for _ in range(count):
        columns = [_step_back(column) for column in columns]
    return tuple(columns)


def register_after(state: int, count: int) -> int:
    """Return the register after ``count`` zero bytes."""
    for _ in range(count):
        state = _step(state)
    return state


def apply(matrix: tuple[int, ...], value: Signal) -> Value:
    """Multiply a constant matrix, by columns, and a vector of bits: 32 bits.

    Raises TypeError unless ``value`` is a Signal: every bit of it is named many times, and an expression would be
    built anew each time.
    """
    if not isinstance(value, Signal):
        raise TypeError(f"expected a Signal, got {value!r}")
    if len(matrix) != len(value):
        raise ValueError(f"expected {len(matrix)} bits, got {len(value)}")
    rows = []
    for row in range(32):
        terms = [value[column] for column, image in enumerate(matrix) if image >> row & 1]
        rows.append(Cat(terms).xor() if terms else Const(0, 1))
    return Cat(rows)


def contribution(beat: Signal) -> Value:
    """Return the part of the register that the bytes of a beat add to ``power(bytes)`` times its old value."""
    count = len(beat) // 8
    columns = []
    for byte in range(count):
        columns += power(count - byte)[:8]
    return apply(tuple(columns), beat)
