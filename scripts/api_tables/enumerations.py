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
    """Write a module with the constants and enumerations of an API, and with the members as names if C has them."""
    imported, enumerations = api.get("imported", {}), api["enumerations"]
    are_names = api.get("members_are_names", False)
    members = [name for each in enumerations.values() for name in _members(each)] if are_names else []
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
        if are_names:
            parts.extend(f"{member} = {name}.{member}" for member in _members(each))
    return "\n".join([*parts, ""])


def _members(enumeration: Table) -> Table:
    return enumeration.get("bits") or enumeration["values"]


def _constant(name: str, constant: Table) -> str:
    value = constant["value"]
    number = f"2**{_WIDTHS[constant['type']]} - {-value}" if value < 0 else str(value)
    return f"{name} = {number}\n{docstring(constant['doc'])}"


def _enumeration(name: str, enumeration: Table) -> Iterator[str]:
    """Write a class, line by line."""
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
    """Write a member's bit, its value, or the other member that has the same number."""
    if "bit" in row:
        return f"1 << {row['bit']}"
    if "same" in row:
        return str(row["same"])
    return hex(row["value"]) if row["value"] >= _FIRST_IN_HEX else str(row["value"])
