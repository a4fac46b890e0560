"""Byte order of atomics: operands and results are in network order on the wire, and little-endian elsewhere.

A beat is permuted in groups of 16 bytes: byte n of a group becomes byte n XOR ``swap``. So the same permutation makes
network order and undoes it, and four rows of multiplexers do it for all sizes.
"""

from amaranth.hdl import Cat, Mux, Signal
from amoeba_model.wire.byte_order import number_size
from amoeba_model.wire.uet import ATOMIC_DATATYPES, CSWAP_VALUES_SIZE

__all__ = ["SWAP_BITS", "decode_swap", "number_swap", "pair_swap", "swap_bytes"]

SWAP_BITS = 4
_GROUP = CSWAP_VALUES_SIZE // 2


def number_swap(datatype):
    """Return ``swap`` for elements that follow each other."""
    return number_size(datatype) - 1


def pair_swap(datatype):
    """Return ``swap`` for the values of a compare-and-swap extension: their bytes also move to the group's end."""
    return (number_swap(datatype) ^ -datatype.size) % _GROUP


def decode_swap(code, swap, datatypes):
    """Return ``swap`` (:func:`number_swap` or :func:`pair_swap`) of UET's number of a datatype.

    ``datatypes`` lists the datatypes of the build; 0 for all others.
    """
    masks = [(ATOMIC_DATATYPES[datatype].value, swap(datatype)) for datatype in datatypes]
    return Cat(code.matches(*(number for number, mask in masks if mask >> bit & 1)) for bit in range(SWAP_BITS))


def swap_bytes(m, name, value, swap):
    """Return ``value``, a whole number of groups, with its bytes permuted. ``swap`` 0 leaves them as they are."""
    for bit in range(SWAP_BITS):
        row = Signal.like(value, name=f"{name}_row{bit}")
        permuted = Cat(value.word_select(place ^ 1 << bit, 8) for place in range(len(value) // 8))
        m.d.comb += row.eq(Mux(swap[bit], permuted, value))
        value = row
    return value
