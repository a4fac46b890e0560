"""Declared records turned into straight-line code, for the paths that every request takes.

:meth:`Record.pack` and :meth:`Record.unpack` loop over fields by name; that is clear, and too slow for a NIC
that does it ten times per request. The functions made here do the same to several consecutive records at
once, as shifts of a few machine words. They are generated from the same declaration when a module is
imported, much as :mod:`dataclasses` generates ``__init__``.
"""

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from amoeba_model.layout import Field, LayoutError, Record

__all__ = ["packer", "unpacker"]


_WORDS = {64: "Q", 32: "I", 16: "H", 8: "B"}
"""struct's codes of machine words, by their bits."""


class _Word(NamedTuple):
    """One machine word of the packed bytes; ``low`` is the position of its bit 0 in the whole integer."""

    code: str
    low: int
    width: int


class _Placed(NamedTuple):
    """One field of the stacked records, with the position of its bit 0 in the whole integer."""

    field: Field
    low: int


def packer(
    records: Sequence[Record], arguments: Sequence[str], constants: Mapping[str, int] | None = None
) -> Callable[..., bytes]:
    """Make a function of the fields ``arguments`` that returns the bytes of ``records``, one after the other.

    Fields are named ``record.field``; the function's parameters are the same names with an underscore for the
    dot. Fields that are neither arguments nor ``constants`` are zero. The function raises LayoutError when a
    value does not fit its field.
    """
    order, fields, words = _stack(records)
    constants = constants or {}
    for name in (*arguments, *constants):
        _known(fields, name)
    fixed = 0
    for name, value in constants.items():
        if value >> fields[name].field.width:
            raise LayoutError(f"{name} holds {fields[name].field.width} bits, which {value:#x} does not fit")
        fixed |= value << fields[name].low
    parameters = {name: name.replace(".", "_") for name in arguments}
    terms = []
    whole = set()
    for word in words:
        mask = (1 << word.width) - 1
        inside = [name for name in parameters if _overlaps(fields[name], word)]
        if len(inside) == 1 and (fields[inside[0]].low, fields[inside[0]].field.width) == (word.low, word.width):
            terms.append(parameters[inside[0]])
            whole.update(inside)
            continue
        constant = fixed >> word.low & mask
        parts = [hex(constant)] if constant or not inside else []
        terms.append(" | ".join(parts + [_shifted(parameters[name], fields[name], word) for name in inside]))
    # struct refuses by itself what does not fit into a word.
    misfit = [f"{parameters[name]} >> {fields[name].field.width}" for name in arguments if name not in whole]
    given = ", ".join(f"{parameter}={parameter}" for parameter in parameters.values())
    source = f"def pack({', '.join(parameters.values())}):\n"
    if misfit:
        source += f"    if {' or '.join(misfit)}:\n        raise misfit(dict({given}))\n"
    source += f"    try:\n        return words({', '.join(terms)})\n"
    source += f"    except error:\n        raise misfit(dict({given})) from None\n"
    widths = {parameter: fields[name].field.width for name, parameter in parameters.items()}

    def misfit_error(values: dict[str, int]) -> LayoutError:
        wrong = next(name for name, value in values.items() if value >> widths[name])
        return LayoutError(f"{wrong} holds {widths[wrong]} bits, which {values[wrong]:#x} does not fit")

    layout = struct.Struct(order + "".join(word.code for word in words))
    return _compiled(source, "pack", {"words": layout.pack, "misfit": misfit_error, "error": struct.error})


def unpacker(records: Sequence[Record], results: Sequence[str]) -> Callable[[bytes, int], tuple[int, ...]]:
    """Make a function of (bytes, offset) that returns the fields ``results``, named as in :func:`packer`.

    It raises struct.error when fewer bytes follow the offset than the records have.
    """
    order, fields, words = _stack(records)
    for name in results:
        _known(fields, name)
    wanted = [any(_overlaps(fields[name], word) for name in results) for word in words]
    values = [
        " | ".join(
            _extracted(f"w{index}", fields[name], word)
            for index, word in enumerate(words)
            if _overlaps(fields[name], word)
        )
        for name in results
    ]
    variables = ", ".join(f"w{index}" for index, is_wanted in enumerate(wanted) if is_wanted)
    codes = (word.code if is_wanted else f"{word.width // 8}x" for word, is_wanted in zip(words, wanted, strict=True))
    layout = struct.Struct(order + "".join(codes))
    if ", ".join(values) == variables:
        return layout.unpack_from
    source = f"def unpack(data, offset):\n    ({variables},) = words(data, offset)\n"
    source += f"    return ({', '.join(values)},)\n"
    return _compiled(source, "unpack", {"words": layout.unpack_from})


def _stack(records: Sequence[Record]) -> tuple[str, dict[str, _Placed], list[_Word]]:
    """Return struct's byte order character, the fields by qualified name, and the words in byte order."""
    size = sum(record.size for record in records)
    big = records[0].order == "big"
    if any(record.order != records[0].order for record in records):
        raise LayoutError("records of different byte order do not stack")
    fields: dict[str, _Placed] = {}
    start = 0
    for record in records:
        below = 8 * (size - start - record.size) if big else 8 * start
        for field in record.fields:
            fields[f"{record.name}.{field.name}"] = _Placed(field, below + record.bit_offset(field.name))
        start += record.size
    words = [
        _Word(code, 8 * (size - first - length) if big else 8 * first, 8 * length)
        for begin, end in _pieces(records)
        for first, length, code in _cut(begin, end)
    ]
    return ">" if big else "<", fields, words


def _pieces(records: Sequence[Record]) -> Iterator[tuple[int, int]]:
    """(first byte, end) of fields that begin and end with a byte, and of what lies between such."""
    begin = position = 0
    for record in records:
        for field in record.fields:
            if position % 8 == 0 and field.width in _WORDS:
                if begin != position:
                    yield begin // 8, position // 8
                yield position // 8, (position + field.width) // 8
                begin = position + field.width
            position += field.width
    if begin != position:
        yield begin // 8, position // 8


def _cut(first: int, end: int) -> Iterator[tuple[int, int, str]]:
    """(first byte, bytes, struct code) of the machine words that bytes from ``first`` on consist of."""
    for width, code in _WORDS.items():
        while end - first >= width // 8:
            yield first, width // 8, code
            first += width // 8


def _known(fields: Mapping[str, _Placed], name: str) -> None:
    if name not in fields:
        raise LayoutError(f"no field {name!r}; there are {', '.join(fields)}")


def _overlaps(placed: _Placed, word: _Word) -> bool:
    return placed.low < word.low + word.width and placed.low + placed.field.width > word.low


def _shifted(variable: str, placed: _Placed, word: _Word) -> str:
    """Expression for what a field contributes to a word."""
    distance = placed.low - word.low
    moved = f"{variable} << {distance}" if distance >= 0 else f"{variable} >> {-distance}"
    sticks_out = placed.low + placed.field.width > word.low + word.width
    return f"({moved} & {(1 << word.width) - 1:#x})" if sticks_out else f"({moved})"


def _extracted(variable: str, placed: _Placed, word: _Word) -> str:
    """Expression for the bits of a field that lie in a word, at their place in the field's value."""
    distance = placed.low - word.low
    if distance < 0:
        return f"(({variable} & {(1 << (placed.field.width + distance)) - 1:#x}) << {-distance})"
    width = min(placed.field.width, word.width - distance)
    moved = f"{variable} >> {distance}" if distance else variable
    if distance + width < word.width:
        return f"({moved} & {(1 << width) - 1:#x})"
    return f"({moved})" if distance else moved


def _compiled(source: str, name: str, namespace: dict[str, Any]) -> Callable[..., Any]:
    exec(compile(source, f"<{__name__}.{name}>", "exec"), namespace)
    function: Callable[..., Any] = namespace[name]
    return function
