"""An API's constants and enumerations in Python."""

from collections.abc import Iterator
from typing import Any

from text import docstring, listed

__all__ = ["constants"]

Table = dict[str, Any]
_WIDTHS = {"uint64_t": 64}
_FIRST_IN_HEX = 256
"""Numbers from here on are written as in C's headers."""


def constants(api: Table) -> str:
    """A module with all constants and enumerations of an API, and with their members where C has these as names."""
    imported, enumerations = api.get("imported", {}), api["enumerations"]
    members = [name for each in enumerations.values() for name in _members(each)] if _has_names(api) else []
    names = [*(each for taken in imported.values() for each in taken), *api["constants"], *enumerations, *members]
    parts = [
        docstring(api["doc"]["constants"]),
        "import enum",
        *(f"from {module} import {', '.join(taken)}" for module, taken in imported.items()),
        listed(names),
        "",
        *(_constant(name, each) for name, each in api["constants"].items()),
    ]
    for name, each in enumerations.items():
        parts.extend(_enumeration(name, each))
        if members:
            parts.extend(f"{member} = {name}.{member}" for member in _members(each))
    return "\n".join([*parts, ""])


def _has_names(api: Table) -> bool:
    """Whether members are names of their own."""
    return bool(api.get("members_are_names"))


def _members(enumeration: Table) -> Table:
    return enumeration.get("bits") or enumeration["values"]


def _constant(name: str, constant: Table) -> str:
    value = constant["value"]
    number = f"2**{_WIDTHS[constant['type']]} - {-value}" if value < 0 else str(value)
    return f"{name} = {number}\n{docstring(constant['doc'])}"


def _enumeration(name: str, enumeration: Table) -> Iterator[str]:
    """The lines of a class."""
    kind, number = ("IntFlag", "bit") if "bits" in enumeration else ("IntEnum", "value")
    yield f"class {name}(enum.{kind}):"
    if "doc" in enumeration:
        yield docstring(enumeration["doc"], "    ")
    for member, given in _members(enumeration).items():
        row = given if isinstance(given, dict) else {number: given}
        yield f"    {member} = {_number(row)}"
        if "doc" in row:
            yield docstring(row["doc"], "    ")


def _number(row: Table) -> str:
    """A member's bit, its value, or the other member whose number it has."""
    if "bit" in row:
        return f"1 << {row['bit']}"
    if "same" in row:
        return str(row["same"])
    return hex(row["value"]) if row["value"] >= _FIRST_IN_HEX else str(row["value"])
