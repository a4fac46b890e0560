"""Shifting and counting: the pieces of floating-point alignment and normalisation."""

from amaranth.hdl import Cat, Const, Mux, Signal

__all__ = ["any_below", "count_leading_zeros", "leading_group", "shift_left", "shift_right"]


def shift_left(m, value, amount):
    """``value << amount`` at the width of ``value``, four ways per level."""
    width = len(value)
    for low in range(0, len(amount), 2):
        digit = amount[low : low + 2]
        value = _share(
            m,
            _choose(digit, [Cat(Const(0, min(way << low, width)), value)[:width] for way in range(1 << len(digit))]),
        )
    return value


def shift_right(m, value, amount, *, steps):
    """``value >> amount``; ``steps`` says which bits of amount apply, the others count as zeros."""
    for low in steps:
        digit = amount[low : low + 2]
        distances = [min(way << low, len(value)) for way in range(1 << len(digit))]
        value = _share(m, _choose(digit, [Cat(value[distance:], Const(0, distance)) for distance in distances]))
    return value


def any_below(value, amount):
    """Whether one of the lowest ``amount`` bits is set: what a shift to the right loses, found beside the shifter."""
    return Cat(bit & (amount > position) for position, bit in enumerate(value)).any()


def count_leading_zeros(m, value):
    """Return the number of zeros above the highest one, and whether ``value`` is zero (the count is then useless)."""
    width = 2
    while width < len(value):
        width *= 2
    return _count(m, Cat(Const(0, width - len(value)), value))


def leading_group(m, value, group):
    """Where the highest one is, in two parts that need not wait for each other.

    Returns, counted from the top, in which ``group`` bits it lies (one-hot, zero without any), and for each of these
    groups the number of zeros above its own highest one.
    """
    value = Cat(Const(0, -len(value) % group), value)
    counted = [_count(m, value[start : start + group]) for start in reversed(range(0, len(value), group))]
    first, none_above = [], Const(1, 1)
    for _, none in counted:
        first.append(none_above & ~none)
        none_above = none_above & none
    return Cat(first), [count for count, _ in counted]


def _count(m, value):
    if len(value) == 2:
        return ~value[1], _share(m, ~value.any())
    half = len(value) // 2
    low_count, low_none = _count(m, value[:half])
    high_count, high_none = _count(m, value[half:])
    return _share(m, Cat(Mux(high_none, low_count, high_count), high_none)), _share(m, high_none & low_none)


def _share(m, value):
    """Name a value, so that it is described once however often it is used."""
    signal = Signal(len(value), name="shared")
    m.d.comb += signal.eq(value)
    return signal


def _choose(digit, ways):
    if len(ways) == 2:
        return Mux(digit, ways[1], ways[0])
    return Mux(digit[1], Mux(digit[0], ways[3], ways[2]), Mux(digit[0], ways[1], ways[0]))
